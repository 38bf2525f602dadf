//! (test) What bloscpack 0.16.0 wrote, and what damage makes of it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::*;
use crate::format::FormatError;
use crate::format::blosc::{self, Params, Scratch};
use crate::value::Order;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/bloscpack-0.16.0")
}

/// The entries of the manifest whose file is in one of these folders.
fn entries(folders: &[&str]) -> Vec<(String, Vec<u8>, Value)> {
    let manifest = std::fs::read(folder().join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let all = manifest["entries"].as_array().unwrap();
    let name = |entry: &Value| entry["file"].as_str().unwrap().to_owned();
    let chosen =
        all.iter().filter(|entry| folders.contains(&name(entry).split_once('/').unwrap().0));
    let read = |entry: &Value| {
        (name(entry), std::fs::read(folder().join(name(entry))).unwrap(), entry.clone())
    };
    chosen.map(read).collect()
}

const WHOLE: [&str; 4] = ["bytes", "nd", "append", "meta"];

fn sha256(bytes: &[u8]) -> String {
    crate::format::hex(&Sha256::digest(bytes))
}

/// Everything in a container, all digests verified.
fn read_all(bytes: &[u8], is_array: bool) -> Result<Vec<u8>, FormatError> {
    let container = Container::parse(bytes)?;
    if let Some(metadata) = container.metadata() {
        metadata.value()?;
    }
    if is_array {
        container.array()?;
    }
    container.to_vec()
}

#[test]
fn no_file_is_forgotten() {
    let mut listed = BTreeSet::new();
    for (name, bytes, entry) in entries(&["bytes", "nd", "append", "meta", "corrupt"]) {
        assert_eq!(sha256(&bytes), entry["file_sha256"], "{name}");
        listed.insert(name);
    }
    let mut there = BTreeSet::new();
    for kind in ["bytes", "nd", "append", "meta", "corrupt"] {
        for file in std::fs::read_dir(folder().join(kind)).unwrap() {
            there.insert(format!("{kind}/{}", file.unwrap().file_name().to_str().unwrap()));
        }
    }
    assert_eq!(listed, there);
    assert_eq!(listed.len(), 469);
}

#[test]
fn containers_of_bloscpack_are_read() {
    for (name, bytes, entry) in entries(&WHOLE) {
        let container = Container::parse(&bytes).unwrap();
        let (header, expect) = (&entry["header"], &entry["expect"]);
        let ours = container.header();
        assert_eq!(ours.encode(), bytes[..32], "{name}");
        assert_eq!(ours.checksum.name(), header["checksum"], "{name}");
        assert_eq!(ours.nchunks, header["nchunks"].as_u64(), "{name}");
        assert_eq!(ours.max_app_chunks, header["max_app_chunks"], "{name}");
        assert_eq!(container.data_start(), entry["data_start"], "{name}");
        assert_eq!(container.nbytes().unwrap(), expect["nbytes"], "{name}");
        let data = container.to_vec().unwrap_or_else(|error| panic!("{name}: {error}"));
        let digest = if entry["kind"] == "bytes" { "sha256" } else { "sha256_stored_order" };
        assert_eq!(sha256(&data), expect[digest], "{name}");

        let chunks: Vec<_> = container.chunks().map(Result::unwrap).collect();
        assert_eq!(chunks.last().unwrap().end(), entry["end_of_last_chunk"], "{name}");
        for (chunk, expected) in chunks.iter().zip(entry["chunks"].as_array().unwrap()) {
            assert_eq!(chunk.at(), expected["at"], "{name}");
            assert_eq!(chunk.nbytes(), expected["nbytes"], "{name}");
            assert_eq!(chunk.bytes().len(), expected["ctbytes"], "{name}");
        }
        if ours.offsets {
            let used: Vec<_> = container.offsets().iter().flatten().collect();
            assert_eq!(Value::from(used), entry["offsets_used"], "{name}");
        }
        same_by_chunk(&name, &bytes, &data);
    }
}

/// Chunks one by one, last first, and ranges of them are the same as all of it.
fn same_by_chunk(name: &str, bytes: &[u8], data: &[u8]) {
    let container = Container::parse(bytes).unwrap();
    let mut scratch = Scratch::default();
    for index in (0..container.nchunks().unwrap()).rev() {
        // Through its offset: this container has not been walked yet.
        let fresh = Container::parse(bytes).unwrap();
        let chunk = fresh.chunk(index).unwrap();
        let start = container.places().unwrap()[index as usize].start;
        let whole = &data[start as usize..][..chunk.nbytes()];
        assert!(chunk.to_vec().unwrap() == whole, "{name}");
        let (start, end) = (whole.len() / 3, whole.len() - whole.len() / 4);
        let mut part = vec![0; end - start];
        chunk.read_range(start..end, &mut part, &mut scratch).unwrap();
        assert!(part == whole[start..end], "{name}");
    }
}

#[test]
fn metadata_of_bloscpack_is_read_and_written_again() {
    let mut count = 0;
    for (name, bytes, entry) in entries(&WHOLE) {
        let container = Container::parse(&bytes).unwrap();
        let Some(metadata) = container.metadata() else {
            assert!(entry.get("metadata").is_none(), "{name}");
            continue;
        };
        count += 1;
        let (header, expected) = (metadata.header(), &entry["meta_header"]);
        assert_eq!(header.encode(), bytes[32..64], "{name}");
        assert_eq!(header.size, expected["meta_size"], "{name}");
        assert_eq!(header.stored_size, expected["meta_comp_size"], "{name}");
        let text = metadata.text().unwrap();
        if name == "meta/nan.blp" {
            assert_eq!(text, r#"{"x":NaN,"y":Infinity}"#);
            assert_eq!(metadata.value().unwrap(), serde_json::json!({"x": null, "y": null}));
        } else {
            let value = metadata.value().unwrap();
            assert_eq!(value, entry["metadata"], "{name}");
            if !value.is_object() || entry["kind"] == "ndarray" {
                continue;
            }
            // The order of keys in an object is not kept: sorted, they equal ours.
            let mut ours = String::new();
            metadata::write_json(&value, &mut ours);
            assert_eq!(ours.len(), text.len(), "{name}");
        }
        let room = Room::Bytes(header.max_size);
        let options = MetadataOptions {
            checksum: header.checksum,
            codec: header.codec,
            level: header.level,
            room,
        };
        let mut again = Vec::new();
        metadata::encode(&text, &options, &mut again).unwrap();
        assert_eq!(again.len(), metadata.range().len(), "{name}");
        assert_eq!(Metadata::parse(&again, 0).unwrap().text().unwrap(), text, "{name}");
        if header.codec == MetadataCodec::None {
            assert_eq!(again, bytes[metadata.range()], "{name}");
        }
    }
    assert_eq!(count, 109 + 59 + 2 + 22);
}

#[test]
fn arrays_of_bloscpack_are_read() {
    for (name, bytes, entry) in entries(&["nd"]) {
        let expect = &entry["expect"];
        let container = Container::parse(&bytes).unwrap();
        let array = container.array().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(Value::from(array.shape.clone()), expect["shape"], "{name}");
        assert_eq!(array.dtype.item_size(), expect["itemsize"], "{name}");
        // To NumPy the padding of an aligned type is a field called `f1`; to us it has no name.
        let dtype = array.dtype.to_string().replace("('', '|V3')", "('f1', '|V3')");
        assert_eq!(dtype, expect["dtype_restored"], "{name}");
        let order = if array.order == Order::F { "F" } else { "C" };
        assert_eq!(order, expect["order"], "{name}");
        if !name.contains("legacy") {
            let text = container.metadata().unwrap().text().unwrap();
            assert_eq!(array.to_json(&[]), text, "{name}");
        }
    }
}

/// A part of the message of each class of error.
fn words(class: &str) -> &'static [&'static str] {
    match class {
        "BadMagic" => &["magic"],
        "FormatVersionMismatch" => &["version"],
        "BadHeader" => &["in the bloscpack header"],
        "BadMetadata" => &["metadata"],
        "ChecksumMismatch" => &["checksum"],
        "CorruptChunk" => &["in chunk"],
        "SizeMismatch" => &["uncompressed bytes in chunk", "the bytes of an array"],
        "NotANumpyArray" => &["metadata of a NumPy array"],
        "ObjectRefused" => &["without Python objects"],
        other => panic!("{other}"),
    }
}

#[test]
fn damage_is_told_by_its_kind() {
    for (name, bytes, entry) in entries(&["corrupt"]) {
        let expect = &entry["expect"];
        let class = expect["class"].as_str().unwrap();
        let found = read_all(&bytes, entry["kind"] == "ndarray");
        match (found, class.strip_prefix("OkOr")) {
            (Ok(data), Some(_)) => {
                if let Some(digest) = expect["sha256_if_ok"].as_str() {
                    assert_eq!(sha256(&data), digest, "{name}");
                    same_by_chunk(&name, &bytes, &data);
                }
            }
            (Ok(data), None) => {
                assert_eq!(class, "Ok", "{name}");
                assert_eq!(sha256(&data), expect["sha256_if_ok"], "{name}");
                same_by_chunk(&name, &bytes, &data);
            }
            (Err(error), None) => {
                assert_ne!(class, "Ok", "{name}: {error}");
                if expect["strict"] == true {
                    let said = error.to_string();
                    assert!(words(class).iter().any(|word| said.contains(word)), "{name}: {said}");
                }
            }
            (Err(error), Some(or)) => {
                assert!(["BadHeader", "BadMetadata", "Corrupt"].contains(&or), "{name}: {error}");
            }
        }
    }
}

#[test]
fn what_is_unsure_and_readable_is_read() {
    let readable = [
        "chunk_size_m1",
        "last_chunk_m1",
        "nchunks_m1_nooffsets",
        "typesize_0",
        "meta_magic_spaces",
        "meta_options_set",
        "offset0_m1",
        "offset1_past_eof",
        "offset1_into_header",
        "offset1_negative",
        "offset1_eq_offset0",
        "offset1_off_by_one",
        "offsets_all_m1",
    ];
    for (name, bytes, entry) in entries(&["corrupt"]) {
        let short = name.trim_start_matches("corrupt/").trim_end_matches(".blp");
        if readable.contains(&short) {
            let data = read_all(&bytes, false).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(sha256(&data), entry["expect"]["sha256_if_ok"], "{name}");
            // Positions within the whole, where the header does not know the size of chunks.
            let container = Container::parse(&bytes).unwrap();
            assert_eq!(container.nbytes().unwrap(), 3050);
            assert_eq!(container.locate(2500).unwrap(), (2, 500), "{name}");
        }
    }
}

fn packed(data: &[u8], header: Header, metadata: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::start(header, metadata, &mut bytes).unwrap();
    let size = header.chunk_size.unwrap() as usize;
    let params = Params { typesize: 1, ..Params::default() };
    let chunks: Vec<&[u8]> = if data.is_empty() { vec![data] } else { data.chunks(size).collect() };
    for chunk in chunks {
        let start = bytes.len();
        blosc::compress(&params, chunk, &mut bytes).unwrap();
        let digest = encoder.push(&bytes[start..]).unwrap();
        bytes.extend_from_slice(digest.as_slice());
    }
    assert_eq!(encoder.position(), bytes.len() as u64);
    encoder.finish().unwrap().patch(&mut bytes);
    bytes
}

fn sample(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 7 * 31 % 251) as u8).collect()
}

#[test]
fn what_is_written_is_read() {
    let mut section = Vec::new();
    metadata::encode("{\"a\":[1,2]}", &MetadataOptions::default(), &mut section).unwrap();
    for checksum in Checksum::ALL {
        for len in [1, 99, 100, 101, 1000, 1234] {
            for (offsets, room) in [(false, 0), (true, 20), (true, 13)] {
                for meta in [&b""[..], &section] {
                    let header = Header {
                        offsets,
                        checksum,
                        max_app_chunks: room,
                        chunk_size: Some(100),
                        ..Header::default()
                    };
                    let bytes = packed(&sample(len), header, meta);
                    let container = Container::parse(&bytes).unwrap();
                    let count = len.div_ceil(100) as u64;
                    assert_eq!(container.header().nchunks, Some(count));
                    assert_eq!(container.header().slots(), room);
                    assert_eq!(container.to_vec().unwrap(), sample(len));
                    same_by_chunk("ours", &bytes, &sample(len));
                }
            }
        }
    }
}

#[test]
fn nothing_is_one_chunk_of_nothing() {
    let header = Header { chunk_size: Some(100), ..Header::default() };
    let bytes = packed(b"", header, b"");
    assert_eq!(bytes.len(), 32 + 16);
    let container = Container::parse(&bytes).unwrap();
    let found = container.header();
    assert_eq!((found.chunk_size, found.last_chunk, found.nchunks), (Some(0), Some(0), Some(1)));
    assert_eq!(container.to_vec().unwrap(), b"");
    assert_eq!(container.locate(0).unwrap(), (0, 0));

    // No writer makes a container without chunks; then what follows is no chunk either.
    let none = Header { nchunks: Some(0), ..Header::default() };
    let bytes = [&none.encode()[..], &bytes[32..]].concat();
    let container = Container::parse(&bytes).unwrap();
    assert_eq!((container.nbytes().unwrap(), container.to_vec().unwrap()), (0, vec![]));
    assert!(container.chunk(0).is_err());
}

#[test]
fn streams_end_where_the_bytes_do() {
    let header = Header { chunk_size: Some(100), checksum: Checksum::Crc32, ..Header::default() };
    let mut bytes = packed(&sample(250), header, b"");
    let stream = Header { chunk_size: Some(100), last_chunk: None, ..header };
    bytes[..32].copy_from_slice(&stream.encode());
    let container = Container::parse(&bytes).unwrap();
    assert_eq!(container.header().nchunks, None);
    assert_eq!((container.nchunks().unwrap(), container.nbytes().unwrap()), (3, 250));
    assert_eq!(container.to_vec().unwrap(), sample(250));
    bytes.push(0);
    assert!(Container::parse(&bytes).unwrap().to_vec().is_err());
}

#[test]
fn older_versions_are_read() {
    let header = Header { chunk_size: Some(100), ..Header::default() };
    let bytes = packed(&sample(250), header, b"");
    let first = [b"blpk\x01\0\0\0\x03\0\0\0\0\0\0\0", &bytes[32..]].concat();
    assert_eq!(Container::parse(&first).unwrap().to_vec().unwrap(), sample(250));

    let offsets = Header { offsets: true, max_app_chunks: 3, ..header };
    let mut second = packed(&sample(250), offsets, b"");
    second[4] = 2;
    assert_eq!(Container::parse(&second).unwrap().to_vec().unwrap(), sample(250));
    same_by_chunk("version 2", &second, &sample(250));
}

#[test]
fn what_no_reader_takes_is_not_written() {
    let start = |header: Header| Encoder::start(header, b"", &mut Vec::new());
    let size = |size| Header { chunk_size: Some(size), ..Header::default() };
    assert!(start(size(u32::MAX)).is_err());
    assert!(start(Header { offsets: true, nchunks: Some(u64::MAX), ..size(10) }).is_err());

    let chunk = |len: usize| {
        let mut chunk = Vec::new();
        blosc::compress(&Params::default(), &sample(len), &mut chunk).unwrap();
        chunk
    };
    let mut encoder = start(size(10)).unwrap();
    assert!(encoder.push(&chunk(11)).is_err(), "larger than the chunk size");
    encoder.push(&chunk(9)).unwrap();
    assert!(encoder.push(&chunk(10)).is_err(), "behind a short one");
    let mut encoder = start(Header { offsets: true, max_app_chunks: 1, ..size(10) }).unwrap();
    encoder.push(&chunk(10)).unwrap();
    assert!(encoder.push(&chunk(10)).is_err(), "no offset is left");
    let two = Header { nchunks: Some(2), ..size(10) };
    let mut encoder = start(two).unwrap();
    encoder.push(&chunk(10)).unwrap();
    assert!(encoder.finish().is_err(), "one chunk is missing");
}

/// A change anywhere is an error or changes nothing; a cut never passes for the whole.
#[test]
fn no_change_of_a_byte_goes_unnoticed() {
    let mut section = Vec::new();
    metadata::encode("{\"a\":[1,2]}", &MetadataOptions::default(), &mut section).unwrap();
    let header = Header {
        offsets: true,
        max_app_chunks: 5,
        checksum: Checksum::Crc32,
        chunk_size: Some(100),
        ..Header::default()
    };
    let data = sample(333);
    let bytes = packed(&data, header, &section);
    for len in 0..bytes.len() {
        assert!(read_all(&bytes[..len], false).is_err(), "cut after {len}");
    }
    for at in 0..bytes.len() {
        for flip in [0x01, 0x10, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= flip;
            match read_all(&changed, false) {
                Ok(found) => {
                    assert!(found == data, "byte {at} ^ {flip}");
                    same_by_chunk("changed", &changed, &data);
                }
                Err(error) => assert!(!error.expected.is_empty()),
            }
        }
    }
}

/// 1 KiB must not make a reader allocate 2 GiB.
#[test]
fn sizes_in_headers_do_not_allocate() {
    let mut chunk = vec![2, 1, 0x91, 1];
    let claims = [header::MAX_CHUNK_SIZE, 1 << 29, 1000];
    for number in claims {
        chunk.extend_from_slice(&number.to_le_bytes());
    }
    chunk.resize(1000, 0);
    let header =
        Header { chunk_size: Some(claims[0]), last_chunk: Some(claims[0]), ..Header::default() };
    let bytes = [&header.encode()[..], &chunk].concat();
    let error = Container::parse(&bytes).unwrap().to_vec().unwrap_err().to_string();
    assert!(error.contains("at most 65536000 bytes from 1000"), "{error}");
}
