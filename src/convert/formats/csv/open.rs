//! Opens tables as a conversion asks.

use std::path::Path;

use super::read::{CsvReader, CsvSteps, other_delimiter};
use crate::convert::formats::def::{Opening, given};
use crate::convert::formats::streamed::Streamed;
use crate::convert::monitor::Notice;
use crate::convert::read_options::ReadOptions;
use crate::convert::samples::Samples;
use crate::error::{Error, ErrorKind, Result};

/// The delimiter that was given, or the usual one.
pub(in crate::convert::formats) fn delimiter(read: &ReadOptions, usual: u8) -> Result<u8> {
    let Some(delimiter) = read.delimiter else { return Ok(usual) };
    u8::try_from(delimiter).map_err(|_| {
        let message = format!("expected a character of ASCII, found {delimiter:?}");
        Error::new(ErrorKind::Invalid, message).with_option("delimiter")
    })
}

/// Says where a table seems to have another delimiter than the usual one of its name.
pub(in crate::convert::formats) fn notices(
    sources: &Opening<'_>,
    usual: fn(&Path) -> u8,
) -> Result<Vec<Notice>> {
    let (None, Some(path)) = (sources.read.delimiter, sources.paths.first()) else {
        return Ok(Vec::new());
    };
    let found = other_delimiter(path, usual(path), sources.read.decoding())?;
    let notice = |delimiter| Notice::OneColumn { path: path.clone(), delimiter };
    Ok(found.map(notice).into_iter().collect())
}

pub(super) fn open(sources: &Opening<'_>, usual: u8) -> Result<Samples> {
    let delimiter = delimiter(sources.read, usual)?;
    let asked = |table: CsvReader| {
        let table = table.asked(sources).delimiter(delimiter).quotes(!sources.read.plain_quotes);
        given(table, sources.read.encoding, CsvReader::encoding)
    };
    if let Some(input) = sources.piped()? {
        let steps = CsvSteps::new(asked(CsvReader::piped()), input);
        return Ok(Samples::Stream(Box::new(Streamed::new(steps))));
    }
    let table = asked(CsvReader::open_all(sources.paths)?);
    Ok(Samples::units(if sources.read.guess_types { table.guess_types()? } else { table }))
}
