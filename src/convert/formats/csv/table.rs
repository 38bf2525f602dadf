//! [`Table`]: the rows of a table, and what is wrong with them.

use std::path::{Path, PathBuf};

use super::bounded::{self, Bounded};
use super::quotes::Quotes;
use crate::convert::carried::{LeftOut, RemarkLog};
use crate::convert::decoded::TextEncoding;
use crate::convert::{compressed, encoding};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::sample_fields::stored_name;
use crate::storage;

/// A table that is being read. It keeps the bytes of a row until the next one.
pub(in crate::convert) struct Table {
    path: PathBuf,
    rows: ::csv::Reader<Bounded>,
    dialect: Dialect,
}

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::convert) struct Dialect {
    /// The byte between values.
    pub(in crate::convert) delimiter: u8,
    /// Whether quotes around a value do not belong to it.
    pub(in crate::convert) quoting: bool,
    /// The encoding from which it is decoded.
    pub(in crate::convert) encoding: Option<TextEncoding>,
}

impl Table {
    /// A table whose first row is one of values.
    pub(in crate::convert) fn new(path: &Path, input: Bounded, dialect: Dialect) -> Table {
        Table::open(path, input, dialect, false)
    }

    /// A table whose first row has the names of the columns.
    pub(in crate::convert) fn with_names(path: &Path, input: Bounded, dialect: Dialect) -> Table {
        Table::open(path, input, dialect, true)
    }

    fn open(path: &Path, input: Bounded, dialect: Dialect, has_names: bool) -> Table {
        let mut builder = ::csv::ReaderBuilder::new();
        builder.delimiter(dialect.delimiter).quoting(dialect.quoting).has_headers(has_names);
        Table { path: path.to_path_buf(), rows: builder.from_reader(input), dialect }
    }

    /// The names of the columns, which differ.
    pub(in crate::convert) fn names(&mut self) -> Result<::csv::StringRecord> {
        let read = self.rows.headers().cloned();
        let end = self.rows.position().byte();
        self.check_encoding()?;
        let row = self.rows.get_ref().row(0, end);
        let at = |error: Error| error.within("line 1").at(&self.path);
        let names = match read {
            Err(error) if error.is_io_error() => return Err(stopped(&self.path, error)),
            read => read.map_err(|error| at(self.flaw(&error, row)))?,
        };
        if self.quotes(row).is_open {
            return Err(at(never_closed()));
        }
        let mut sorted: Vec<&str> = names.iter().map(stored_name).collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                let message =
                    format!("expected columns of different names, found {:?} twice", pair[0]);
                Err(at(Error::new(ErrorKind::Invalid, message)))
            }
            None => Ok(names),
        }
    }

    /// Where the next row begins.
    pub(super) fn position(&self) -> &::csv::Position {
        self.rows.position()
    }

    /// Goes to a row.
    pub(super) fn seek(&mut self, to: ::csv::Position) -> Result<()> {
        self.rows.seek(to).map_err(|error| stopped(&self.path, error))
    }

    /// Reads the next row, and says what may be wrong with it, or why it is none. `None` at the end.
    ///
    /// # Errors
    ///
    /// Those after which no row can be read.
    pub(in crate::convert) fn next(
        &mut self,
        record: &mut ::csv::StringRecord,
    ) -> Result<Option<Result<Option<LeftOut>>>> {
        let start = self.rows.position().byte();
        self.rows.get_mut().begin_row(start);
        let read = self.rows.read_record(record);
        if start == 0 {
            self.check_encoding()?;
        }
        let end = self.rows.position().byte();
        let row = trimmed(self.rows.get_ref().row(start, end));
        let quotes = self.quotes(row);
        let (place, error) = match &read {
            Ok(false) => return Ok(None),
            Err(error) if error.is_io_error() => (None, None),
            Err(error) => (error.position(), Some(self.flaw(error, row))),
            Ok(true) => (record.position(), None),
        };
        let line = place.map_or(0, ::csv::Position::line);
        let error = match (read, error) {
            (Err(error), None) => return Err(stopped(&self.path, error)),
            // The csv crate accepts it, but the file was cut short, or a quote before is missing.
            _ if quotes.is_open => Some(never_closed()),
            _ if quotes.joins => Some(joined()),
            (_, error) => error,
        };
        let at = |error: Error| error.within(format_args!("line {line}")).at(&self.path);
        Ok(Some(match error {
            Some(error) => Err(at(error).with_raw(encoding::raw(row, self.dialect.encoding))),
            None => Ok(self.odd(quotes)),
        }))
    }

    /// Passes over a row, however bad it is. False at the end.
    pub(super) fn pass(&mut self, record: &mut ::csv::ByteRecord) -> Result<bool> {
        let start = self.rows.position().byte();
        self.rows.get_mut().begin_row(start);
        match self.rows.read_byte_record(record) {
            Ok(more) => Ok(more),
            Err(error) if error.is_io_error() => Err(stopped(&self.path, error)),
            // The end of a bad row is known, so the next one can be found.
            Err(_) => Ok(true),
        }
    }

    /// Fails if the first bytes are in another encoding.
    fn check_encoding(&self) -> Result<()> {
        if self.dialect.encoding.is_some() {
            return Ok(());
        }
        let found = encoding::wide(self.rows.get_ref().seen());
        found.map_or(Ok(()), |found| Err(encoding::wide_error("UTF-8", found).at(&self.path)))
    }

    /// The fault of a row.
    fn flaw(&self, error: &::csv::Error, row: &[u8]) -> Error {
        // What is left of a row that was cut may lack values too.
        let encoding = self.dialect.encoding;
        if let Some(error) = encoding.and_then(|encoding| encoding.flaw(row)) {
            return error;
        }
        match error.kind() {
            ::csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                let message = format!("expected {expected_len} values, found {len}");
                Error::new(ErrorKind::Damaged, message)
            }
            _ => encoding::flaw(row, encoding)
                .unwrap_or_else(|| Error::new(ErrorKind::Damaged, error.to_string())),
        }
    }

    fn quotes(&self, row: &[u8]) -> Quotes {
        match self.dialect.quoting {
            true => Quotes::of(row, self.dialect.delimiter),
            false => Quotes::default(),
        }
    }

    fn odd(&self, quotes: Quotes) -> Option<LeftOut> {
        match () {
            // In CSV that is what quotes are for.
            () if quotes.spans && self.dialect.delimiter == b'\t' => Some(LeftOut::LinesInQuotes),
            () if quotes.text_after => Some(LeftOut::TextAfterQuote),
            () => None,
        }
    }
}

/// Notes what is odd about a row of a file.
pub(in crate::convert) fn note(
    remarks: &RemarkLog,
    unit: usize,
    path: &Path,
    record: &::csv::StringRecord,
    odd: Option<LeftOut>,
) {
    let Some(kind) = odd else { return };
    let line = record.position().map_or(0, ::csv::Position::line);
    remarks
        .note(unit, kind, None, 1, || format!("{}, line {line}", storage::shown(path).display()));
}

/// A row without the line ends around it.
fn trimmed(row: &[u8]) -> &[u8] {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let start = row.iter().position(|byte| !is_end(byte)).unwrap_or(row.len());
    let end = row.iter().rposition(|byte| !is_end(byte)).map_or(start, |last| last + 1);
    &row[start..end]
}

fn never_closed() -> Error {
    let message = "expected a quote that closes the value, found the end of the file";
    Error::new(ErrorKind::Damaged, message).with_remedy(Remedy::PlainQuotes)
}

fn joined() -> Error {
    let message = "expected the end of a value of several lines after its closing quote, found text: a \
                   quote that belongs to the text joins rows";
    Error::new(ErrorKind::Damaged, message).with_remedy(Remedy::PlainQuotes)
}

/// The error of an input that cannot be read any further.
fn stopped(path: &Path, error: ::csv::Error) -> Error {
    let message = error.to_string();
    match error.into_kind() {
        ::csv::ErrorKind::Io(io) if bounded::is_too_long(&io) => {
            Error::new(ErrorKind::Limit, io.to_string()).at(path)
        }
        ::csv::ErrorKind::Io(io) => compressed::blame(path, io),
        _ => Error::new(ErrorKind::Damaged, message).at(path),
    }
}
