//! Reads samples from tables.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use super::bounded::Bounded;
use super::table::{Dialect, Table, note};
use crate::Value;
use crate::convert::carried::LeftOut;
use crate::convert::compressed;
use crate::convert::decoded::{TextEncoding, decoded};
use crate::convert::formats::files::{InputFiles, options_of_files, units_are_ranges};
use crate::convert::formats::ranges::{Begin, Range, end_of_walk};
use crate::convert::formats::streamed::Steps;
use crate::convert::input::{Emit, Input};
use crate::convert::source_file::{open_regular, size_of};
use crate::error::{Error, ErrorKind, Result};
use crate::format::sample_fields::{Field, Fields, key_from, pack};

/// Bytes of a row that is looked at for another delimiter.
const SUSPECTED_ROW: u64 = 1 << 16;

/// A row, and what may be wrong with it.
struct Row<'a> {
    values: &'a ::csv::StringRecord,
    odd: Option<LeftOut>,
}

/// The type of the values in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CsvType {
    /// A string, which may be empty.
    Text,
    /// A 64-bit integer; an empty value is nil.
    Int,
    /// A 64-bit float; an empty value is nil.
    Float,
}

/// Reads tables of comma-separated or tab-separated values. Feature `formats`.
///
/// The first row of a file has the names of the fields, which must be the same in all files. Every
/// row has one value for each; quotes are as in RFC 4180. Values are strings unless [types are
/// given](Self::column) or [guessed](Self::guess_types). A key is the name of the file without
/// its ending, a slash and the number of the row; or a [column](Self::key). Files may be compressed
/// by bzip2, gzip or Zstandard.
///
/// Units are ranges of a file, cut between rows; a file that is compressed, or in another [encoding](Self::encoding)
/// than UTF-8, is one unit. Because of quotes,
/// only a scan from the front can tell where a row begins. So a reader that starts in the middle
/// scans all rows before, which is faster than decoding them.
///
/// For lists of files with labels there is [`DirectoryReader`](crate::reader::DirectoryReader),
/// which also reads the files.
///
/// ```no_run
/// use kiste::convert::{CsvReader, CsvType, InOrder};
///
/// let table = CsvReader::open("people.csv")?.column("age", CsvType::Int).key("name");
/// let source = InOrder::new(table);
/// # Ok::<(), kiste::Error>(())
/// ```
#[doc(alias = "Csv")]
#[must_use]
#[derive(Debug, Clone)]
pub struct CsvReader {
    dialect: Dialect,
    types: BTreeMap<String, CsvType>,
    files: InputFiles,
}

impl CsvReader {
    options_of_files! {
        /// Opens a table, or all that a name with braces such as `{000..123}` stands for. Nothing is read yet.
        ///
        /// # Errors
        ///
        /// [`NotFound`](ErrorKind::NotFound) if one of them does not exist.
        open,
        /// Refuses rows with more bytes than this, and does not read beyond one. Default: 1 GiB.
        max_bytes,
        /// The size of a unit in bytes. Default: 4 MiB.
        unit_bytes,
        /// Takes keys from this column.
        key,
    }

    /// Opens several tables of the same columns, which are read in this order.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), and [`Invalid`](ErrorKind::Invalid) for none at all.
    pub fn open_all<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> Result<CsvReader> {
        Ok(CsvReader::of(InputFiles::open(files)?))
    }

    /// A reader of standard input, for its stream.
    pub(super) fn piped() -> CsvReader {
        CsvReader::of(InputFiles::piped())
    }

    fn of(files: InputFiles) -> CsvReader {
        let dialect = Dialect { delimiter: b',', quoting: true, encoding: None };
        CsvReader { dialect, types: BTreeMap::new(), files }
    }

    /// The byte between values, such as a tab. Default: a comma.
    pub fn delimiter(mut self, delimiter: u8) -> Self {
        self.dialect.delimiter = delimiter;
        self.files.ranges.forget();
        self
    }

    /// Whether quotes around a value do not belong to it, so that it can have the delimiter and line
    /// ends in it. Without, a quote is a character like others, and each line is a row. Default: yes.
    pub fn quotes(mut self, yes: bool) -> Self {
        self.dialect.quoting = yes;
        self.files.ranges.forget();
        self
    }

    /// The encoding of the text. Default: UTF-8.
    pub fn encoding(mut self, encoding: TextEncoding) -> Self {
        self.dialect.encoding = encoding.unless_utf8();
        self.files.ranges.set_whole(self.dialect.encoding.is_some());
        self
    }

    /// The type of the values in a column.
    pub fn column(mut self, name: impl Into<String>, of: CsvType) -> Self {
        self.types.insert(name.into(), of);
        self
    }

    /// Reads all files to guess the types of columns: integers if all values are integers, floats
    /// if all are numbers, `NaN`, `nan`, `inf` or `-inf`, and strings otherwise. Types that were given
    /// before stay. Numbers that would be written differently, such as `007`, are strings: they are
    /// more likely names. So are integers that would lose digits next to floats.
    pub fn guess_types(mut self) -> Result<CsvReader> {
        let mut guesses: BTreeMap<String, Guess> = BTreeMap::new();
        for file in 0..self.files.ranges.paths().len() {
            let all = Range { file, begin: Begin::FRONT, end: u64::MAX, size: None };
            self.rows(all, |names, _, record| {
                // A bad row is reported when it is read as a sample.
                let Ok(Row { values, .. }) = record else { return Ok(()) };
                for (name, text) in names.iter().zip(values).filter(|(_, text)| !text.is_empty()) {
                    // There are few names but many rows: allocate only for a new name.
                    match guesses.get_mut(name) {
                        Some(Guess { of: CsvType::Text, .. }) => {}
                        Some(known) => *known = known.and(Guess::of(text)),
                        None => drop(guesses.insert(name.to_owned(), Guess::of(text))),
                    }
                }
                Ok(())
            })?;
        }
        for (name, guess) in guesses {
            self.types.entry(name).or_insert(guess.settled());
        }
        Ok(self)
    }

    /// Calls `with` for each row of a range: with the names of the columns, the number of the row,
    /// and its values or its error.
    fn rows(
        &self,
        range: Range,
        mut with: impl FnMut(&::csv::StringRecord, u64, Result<Row<'_>>) -> Result<()>,
    ) -> Result<()> {
        let (mut table, names) = self.table_at(range.file, range.begin, range.size.is_some())?;
        let mut record = ::csv::StringRecord::new();
        let mut number = range.begin.number;
        while table.position().byte() < range.end {
            let Some(read) = table.next(&mut record)? else { return Ok(()) };
            with(&names, number, read.map(|odd| Row { values: &record, odd }))?;
            number += 1;
        }
        Ok(())
    }

    /// The first row that begins at this byte of a file or after it.
    fn walk(&self, file: usize, from: Begin, to: u64) -> Result<Option<Begin>> {
        let (mut table, _) = match self.table_at(file, from, true) {
            Ok(table) => table,
            Err(error) => return end_of_walk(error),
        };
        let mut record = ::csv::ByteRecord::new();
        for number in from.number.. {
            let at = table.position().clone();
            match table.pass(&mut record) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return end_of_walk(error),
            }
            // The csv crate would strip a byte-order mark at the place where it starts to read.
            let marked = record.get(0).is_some_and(|first| first.starts_with(b"\xef\xbb\xbf"));
            if at.byte() >= to && !marked {
                return Ok(Some(Begin { position: at.byte(), number, line: at.line() }));
            }
        }
        Ok(None)
    }

    /// Adds the place of a row, and the row itself, to an error.
    fn located(&self, file: usize, record: &::csv::StringRecord, error: Error) -> Error {
        let error = error.within(line_of(record)).at(self.files.path(file));
        let mut text =
            ::csv::WriterBuilder::new().delimiter(self.dialect.delimiter).from_writer(vec![]);
        match text.write_record(record).ok().and_then(|()| text.into_inner().ok()) {
            Some(row) => error.with_raw(row.trim_ascii_end()),
            None => error,
        }
    }

    fn pack(
        &self,
        stem: &str,
        names: &::csv::StringRecord,
        number: u64,
        record: &::csv::StringRecord,
    ) -> Result<Vec<u8>> {
        let mut fields: Fields<'_> = Vec::with_capacity(names.len());
        for (name, text) in names.iter().zip(record) {
            fields.push((name.into(), self.field(name, text)?));
        }
        match &self.files.key {
            Some(name) => pack(&key_from(&fields, name)?, &fields),
            None => pack(&format!("{stem}/{number:09}"), &fields),
        }
    }

    /// Opens a file at a row; it must have the same columns as the first file.
    fn table_at(
        &self,
        file: usize,
        begin: Begin,
        plain: bool,
    ) -> Result<(Table, ::csv::StringRecord)> {
        let path = self.files.path(file);
        let mut table = self.table(path, plain)?;
        let names = table.names()?;
        if file > 0 {
            let first = self.files.path(0);
            if self.table(first, false)?.names()? != names {
                let message = format!("expected the columns of {}, found others", first.display());
                return Err(Error::new(ErrorKind::Invalid, message).at(path));
            }
        }
        if begin != Begin::FRONT {
            let mut place = ::csv::Position::new();
            // The names are a row too.
            place.set_byte(begin.position).set_line(begin.line).set_record(begin.number + 1);
            table.seek(place)?;
        }
        Ok((table, names))
    }

    fn table(&self, path: &Path, plain: bool) -> Result<Table> {
        let input = match plain {
            true => {
                let file = open_regular(path).map_err(|error| Error::io(path, error))?;
                Bounded::file(file, self.files.max_bytes)
            }
            false => return Ok(self.table_of(path, compressed::open(path)?)),
        };
        Ok(Table::with_names(path, input, self.dialect))
    }

    /// A table whose bytes come from `input`.
    fn table_of(&self, path: &Path, input: Box<dyn Read + Send>) -> Table {
        let text = decoded(input, self.dialect.encoding);
        Table::with_names(path, Bounded::new(text, self.files.max_bytes), self.dialect)
    }

    /// The sample of a row.
    fn sample(
        &self,
        unit: usize,
        file: usize,
        names: &::csv::StringRecord,
        number: u64,
        row: Result<Row<'_>>,
    ) -> Result<Vec<u8>> {
        let Row { values, odd } = row?;
        note(&self.files.remarks, unit, self.files.path(file), values, odd);
        let packed = self.pack(self.files.name(file)?, names, number, values);
        packed.map_err(|error| self.located(file, values, error))
    }

    fn field<'a>(&self, name: &str, text: &'a str) -> Result<Field<'a>> {
        let of = self.types.get(name).copied().unwrap_or(CsvType::Text);
        typed(of, name, text).map(Field::Value)
    }
}

fn line_of(record: &::csv::StringRecord) -> String {
    format!("line {}", record.position().map_or(0, ::csv::Position::line))
}

/// A value of a column of this type.
pub(in crate::convert) fn typed(of: CsvType, name: &str, text: &str) -> Result<Value> {
    let invalid = |expected: &str| {
        let start: String = text.chars().take(30).collect();
        let message = format!("column {name:?}: expected {expected}, found {start:?}");
        Error::new(ErrorKind::Invalid, message)
    };
    Ok(match of {
        CsvType::Text => Value::from(text),
        _ if text.is_empty() => Value::Nil,
        CsvType::Int => {
            let signed = text.parse::<i64>().map(Value::from);
            let number = signed.or_else(|_| text.parse::<u64>().map(Value::from));
            number.map_err(|_| invalid("an integer of 64 bits"))?
        }
        CsvType::Float => Value::F64(text.parse().map_err(|_| invalid("a number"))?),
    })
}

/// The type of a column of these values; `None` if all are empty.
pub(in crate::convert) fn guess<'a>(values: impl Iterator<Item = &'a str>) -> Option<CsvType> {
    let values = values.filter(|text| !text.is_empty());
    values.map(Guess::of).reduce(Guess::and).map(Guess::settled)
}

/// What seems to be the delimiter of a table that has one column with this one: what is in its first
/// two rows as often.
pub(in crate::convert) fn other_delimiter(
    path: &Path,
    delimiter: u8,
    encoding: Option<TextEncoding>,
) -> Result<Option<char>> {
    // A pipe can be read only once.
    if !size_of(path).is_ok_and(|size| size.is_some()) {
        return Ok(None);
    }
    let input = Bounded::new(decoded(compressed::open(path)?, encoding), SUSPECTED_ROW);
    let mut builder = ::csv::ReaderBuilder::new();
    builder.delimiter(delimiter).has_headers(false).flexible(true);
    let mut rows = Vec::new();
    // A bad row is reported where it is read.
    for row in builder.from_reader(input).records().take(2).map_while(std::result::Result::ok) {
        if row.len() != 1 {
            return Ok(None);
        }
        rows.push(row[0].to_owned());
    }
    let count = |row: &String, found: char| row.chars().filter(|c| *c == found).count();
    let is_alike = |found: &char| {
        rows.windows(2).all(|pair| count(&pair[0], *found) == count(&pair[1], *found))
    };
    let mut found = [';', '\t', ',', '|'].into_iter().filter(|c| *c != char::from(delimiter));
    Ok(found.find(|c| rows.first().is_some_and(|row| row.contains(*c)) && is_alike(c)))
}

/// The type of a value that is not empty.
pub(super) fn type_of(text: &str) -> CsvType {
    if text.parse::<i64>().is_ok_and(|number| number.to_string() == text)
        || text.parse::<u64>().is_ok_and(|number| number.to_string() == text)
    {
        return CsvType::Int;
    }
    // As Rust and Python write them.
    if matches!(text, "NaN" | "nan" | "inf" | "-inf") {
        return CsvType::Float;
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_name = digits.starts_with('0') && !digits.starts_with("0.");
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit()) && !is_name;
    match text.parse::<f64>() {
        // An integer of more than 64 bits would lose digits as a float.
        Ok(number) if is_number && number.is_finite() && digits.contains(['.', 'e', 'E']) => {
            CsvType::Float
        }
        _ => CsvType::Text,
    }
}

/// What is known of the values of a column.
#[derive(Debug, Clone, Copy)]
struct Guess {
    of: CsvType,
    /// Whether there is an integer of more digits than a float has.
    is_long: bool,
}

impl Guess {
    fn of(text: &str) -> Guess {
        let of = type_of(text);
        let is_long = of == CsvType::Int
            && text.parse::<i128>().is_ok_and(|number| (number as f64) as i128 != number);
        Guess { of, is_long }
    }

    fn and(self, other: Guess) -> Guess {
        let of = match (self.of, other.of) {
            (known, found) if known == found => found,
            (CsvType::Int | CsvType::Float, CsvType::Int | CsvType::Float) => CsvType::Float,
            _ => CsvType::Text,
        };
        Guess { of, is_long: self.is_long || other.is_long }
    }

    fn settled(self) -> CsvType {
        match self {
            Guess { of: CsvType::Float, is_long: true } => CsvType::Text,
            Guess { of, .. } => of,
        }
    }
}

impl Input for CsvReader {
    units_are_ranges!();

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        let walk = |file, from, to| self.walk(file, from, to);
        let Some(range) = self.files.ranges.range(unit, walk)? else { return Ok(()) };
        let file = range.file;
        self.files.name(file)?;
        self.rows(range, |names, number, row| emit(self.sample(unit, file, names, number, row)))
    }
}

/// The rows of a table that is read once.
pub(super) struct CsvSteps {
    reader: CsvReader,
    input: Option<Box<dyn Read + Send>>,
    /// The table and the names of its columns, once it was begun.
    table: Option<(Table, ::csv::StringRecord)>,
    record: ::csv::StringRecord,
    number: u64,
}

impl CsvSteps {
    /// Reads a table as this reader does.
    pub(super) fn new(reader: CsvReader, input: Box<dyn Read + Send>) -> CsvSteps {
        let (record, number) = (::csv::StringRecord::new(), 0);
        CsvSteps { reader, input: Some(input), table: None, record, number }
    }
}

impl Steps for CsvSteps {
    fn files(&self) -> &InputFiles {
        &self.reader.files
    }

    fn step(&mut self, emit: &mut Emit<'_>) -> Result<bool> {
        if let Some(input) = self.input.take() {
            let mut table = self.reader.table_of(self.reader.files.path(0), input);
            let names = table.names()?;
            self.table = Some((table, names));
        }
        let Some((table, names)) = &mut self.table else { return Ok(false) };
        let Some(read) = table.next(&mut self.record)? else { return Ok(false) };
        let row = read.map(|odd| Row { values: &self.record, odd });
        emit(self.reader.sample(0, 0, names, self.number, row))?;
        self.number += 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses() {
        use CsvType::{Float, Int, Text};
        let table = [
            ("7", Int),
            ("-7", Int),
            ("0", Int),
            ("007", Text),
            ("+7", Text),
            ("-0", Text),
            ("7.0", Float),
            ("0.5", Float),
            ("-0.5e-3", Float),
            ("1e5", Float),
            ("nan", Float),
            ("NaN", Float),
            ("inf", Float),
            ("-inf", Float),
            ("NAN", Text),
            ("infinity", Text),
            ("18446744073709551615", Int),
            (".5", Text),
            ("99999999999999999999", Text),
            ("1e999", Text),
            ("00.5", Text),
            ("x", Text),
            (" 7", Text),
        ];
        for (text, expected) in table {
            assert_eq!(type_of(text), expected, "{text}");
        }
        assert_eq!(guess(["", "1", "2.5", ""].into_iter()), Some(Float));
        assert_eq!(guess(["1", "x", "2"].into_iter()), Some(Text));
        assert_eq!(guess([""].into_iter()), None);
        let column = |texts: &[&str]| {
            texts.iter().map(|text| Guess::of(text)).reduce(Guess::and).map(Guess::settled)
        };
        assert_eq!(column(&["7", "0.5", "NaN"]), Some(Float));
        assert_eq!(column(&["0.5", "x"]), Some(Text));
        assert_eq!(column(&["9007199254740992", "0.5"]), Some(Float));
        assert_eq!(column(&["9007199254740993", "0.5"]), Some(Text), "it would lose a digit");
    }

    #[test]
    fn another_delimiter_is_suspected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.csv");
        for (text, delimiter, expected) in [
            ("a;b\n1;2\n", b',', Some(';')),
            ("a\tb\n1\t2\n", b',', Some('\t')),
            ("a|b", b',', Some('|')),
            ("a.jpg,cat\nb.jpg,dog\n", b'\t', Some(',')),
            ("a;b\n1;2\n", b';', None),
            ("a;b,c\n1;2,3\n", b',', None),
            ("text\nfirst; second\n", b',', None),
            ("", b',', None),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(other_delimiter(&path, delimiter, None).unwrap(), expected, "{text:?}");
        }
    }
}
