//! JSON lines: one sample a line, in the notation that `kiste cat --jsonl` prints.

mod array;
mod notation;
mod read;
mod write;

use std::io::{self, Read};
use std::path::Path;

pub(super) use read::read_line;
pub use read::{JsonLinesReader, JsonLinesStream};
pub use write::JsonLinesWriter;

use crate::Value;
use crate::convert::carried::{Carried, Handling as H, LeftOut as L, ValueKind as V, ValuePlace};
use crate::convert::decoded::Decoded;
use crate::convert::formats::def::{FormatDef, Glance, Keys, Opening, Output, READ, given};
use crate::convert::samples::Samples;
use crate::convert::{compressed, encoding};
use crate::error::{Remedy, Result};
use crate::format::jsonl::{self, keys::KeyRule};

/// Bytes of a first line that is looked at.
const FIRST_LINE: usize = 1 << 20;

pub(in crate::convert) static JSONL: FormatDef = FormatDef {
    name: "jsonl",
    aliases: &["json", "ndjson"],
    title: "JSON lines",
    is_piped: true,
    is_called: |path| path == Path::new("-"),
    // Many programs call JSON lines `.json`.
    is_named: is_json,
    in_folder: Some(is_json),
    misnamed: |file| {
        let hint = (
            "named like JSON, but it is no array, and its first line is no object",
            Remedy::Advice(
                "JSON is read as an array of objects, or as lines of one object each, as jq -c '.' makes of \
                 objects",
            ),
        );
        file.ends(".json").then_some(hint)
    },
    keys: Keys::Column,
    leaves_out: &[
        (L::SameName, H::Refused),
        (L::OtherEncoding, H::Refused),
        (L::ReservedName, H::Refused),
        (L::LargeNumber, H::Refused),
        (L::PathValue, H::Remarked),
        (L::MixedSplits, H::Remarked),
        (L::OtherFile, H::Remarked),
    ],
    open: |sources| open(sources),
    output: Output::File,
    endings: &["jsonl", "ndjson"],
    not_endings: &[("json", "JSON can only be written as JSON lines, whose names end in .jsonl")],
    carries,
    create: |new| Ok(Box::new(JsonLinesWriter::create(new.path)?)),
    ..READ
};

pub(super) fn carries(kind: V, _: ValuePlace) -> Carried {
    Carried::in_notation(kind)
}

fn open(sources: &Opening<'_>) -> Result<Samples> {
    let keys = match sources.key {
        Some(key) => KeyRule::Field(key.to_owned()),
        None if sources.replaces_key => KeyRule::Replaced,
        None => KeyRule::Own,
    };
    let plain = sources.read.plain_json;
    Samples::of_each(sources.paths, |path, names| {
        if path == Path::new("-") {
            let input = compressed::piped(path, io::stdin());
            let stream = JsonLinesStream::new(input, "-").keys(keys.clone()).plain(plain);
            let stream = stream.kept(sources.kept.clone());
            let stream = given(stream, sources.read.encoding, JsonLinesStream::encoding);
            let stream = sources.within(stream, JsonLinesStream::max_bytes);
            return Ok(Samples::Stream(Box::new(stream)));
        }
        let file = JsonLinesReader::open(path)?.called(names).keys(keys.clone()).plain(plain);
        let file = file.kept(sources.kept.clone());
        let file = given(file, sources.unit_bytes, JsonLinesReader::unit_bytes);
        let file = given(file, sources.read.encoding, JsonLinesReader::encoding);
        Ok(Samples::units(sources.within(file, JsonLinesReader::max_bytes)))
    })
}

fn is_json(file: &Glance<'_>) -> bool {
    let is_lines = file.ends(".jsonl") || file.ends(".ndjson");
    is_lines || (file.ends(".json") && holds_objects(file.path))
}

/// Whether the first line is an object, or the text an array.
fn holds_objects(path: &Path) -> bool {
    let bytes = compressed::head(path, FIRST_LINE).unwrap_or_default();
    // The encoding that was given is not known here, but seen. What cannot be decoded is no object.
    let seen = encoding::wide(&bytes).and_then(|name| name.parse().ok());
    let mut head = Vec::new();
    let _ = Decoded::new(&bytes[..], seen).read_to_end(&mut head);
    if jsonl::array::begins(&head[..head.len().min(jsonl::array::MAX_HELD)]) {
        return true;
    }
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line: Vec<u8> = match std::str::from_utf8(line) {
        Ok(_) => line.to_vec(),
        Err(_) => line.iter().map(|byte| if byte.is_ascii() { *byte } else { b'?' }).collect(),
    };
    // Bad values are reported where they are read.
    matches!(jsonl::parse_members(&line, true, &|_| false), Ok(Value::Map(_)))
}
