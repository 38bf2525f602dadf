//! Writes samples to a table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::carries;
use super::read::{CsvType, type_of};
use crate::Value;
use crate::convert::carried::{self, ChangedValues, Changes, ValueKind};
use crate::convert::formats::new_file::NewFile;
use crate::convert::formats::rows;
use crate::convert::writer::sample_writer;
use crate::error::{Error, ErrorKind, Result};
use crate::format::find::{Distinct, Finder};
use crate::format::msgpack::numpy::{Special, recognise};
use crate::format::msgpack::{self, sample::KEY};
use crate::value::NdArray;

/// The columns are the fields of this many samples.
const FIRST: usize = 1000;

/// Writes samples to a table of comma-separated values, one row each. Feature `formats`.
///
/// Columns are the fields of the first 1000 samples in the order of their first appearance, after
/// the key as `key`. Values are strings, numbers, booleans (`true`, `false`), or nil, which is
/// empty, as is a field that a sample does not have; NumPy scalars are numbers. Bytes, arrays,
/// lists and maps are refused. Quotes are as in RFC 4180, lines end in a line feed, and numbers
/// keep all digits. The file appears under its name when it is finished.
///
/// ```
/// use kiste::Value;
/// use kiste::convert::CsvWriter;
/// use kiste::format::msgpack::to_vec;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("people.csv");
/// let mut writer = CsvWriter::create(&path)?;
/// let sample = Value::Map(vec![("key".into(), "a".into()), ("age".into(), 7.into())]);
/// writer.write_packed(&to_vec(&sample)?)?;
/// writer.finish()?;
/// assert_eq!(std::fs::read_to_string(path)?, "key,age\na,7\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the output is complete once it is finished"]
pub struct CsvWriter {
    file: NewFile,
    delimiter: u8,
    /// The columns, once they are known.
    columns: Option<Vec<String>>,
    first: Vec<Row>,
    /// Further files, and how many of the first samples come before each.
    files: Vec<(usize, PathBuf)>,
    changes: Changes,
    /// The kinds of the values of each column.
    kinds: BTreeMap<String, Kinds>,
}

/// A sample as strings.
struct Row {
    key: String,
    fields: Vec<(String, String)>,
}

/// The number of values of each kind in a column. A reader that guesses types finds one for all.
#[derive(Debug, Default)]
struct Kinds {
    ints: u64,
    floats: u64,
    /// Strings that look like a number.
    numerals: u64,
    texts: u64,
}

impl Kinds {
    fn add(&mut self, text: &str, is_text: bool) {
        match (is_text, type_of(text)) {
            _ if text.is_empty() => {}
            (true, CsvType::Text) => self.texts += 1,
            (true, _) => self.numerals += 1,
            (false, CsvType::Int) => self.ints += 1,
            (false, CsvType::Float) => self.floats += 1,
            // Booleans.
            (false, CsvType::Text) => self.texts += 1,
        }
    }

    /// Changes because of the other values of the column.
    fn changes(&self) -> Vec<(ValueKind, &'static str, u64)> {
        let Kinds { ints, floats, numerals, texts } = *self;
        match () {
            () if texts > 0 => {
                let strings = "strings, as others of the column are";
                vec![(ValueKind::Int, strings, ints), (ValueKind::Float, strings, floats)]
            }
            () if numerals > 0 => {
                vec![(ValueKind::Text, "numbers, if their types are guessed", numerals)]
            }
            () if floats > 0 => {
                vec![(
                    ValueKind::Int,
                    "floats, or strings of their digits, as others of the column are",
                    ints,
                )]
            }
            () => Vec::new(),
        }
    }
}

impl CsvWriter {
    /// Begins a file, which must not exist yet.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) if it does.
    pub fn create(path: impl AsRef<Path>) -> Result<CsvWriter> {
        let file = NewFile::create(path.as_ref())?;
        let changes = Changes::default();
        let (first, files, kinds) = (Vec::new(), Vec::new(), BTreeMap::new());
        Ok(CsvWriter { file, delimiter: b',', columns: None, first, files, changes, kinds })
    }

    /// The byte between values, such as a tab. Default: a comma.
    pub fn delimiter(mut self, delimiter: u8) -> CsvWriter {
        self.delimiter = delimiter;
        self
    }

    /// Adds a packed sample.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a value that a table cannot hold, and for a field that
    /// none of the first 1000 samples has.
    pub fn write_packed(&mut self, packed: &[u8]) -> Result<()> {
        let key = msgpack::check_sample(packed)?;
        let changes = carried::check(carries, packed)?;
        let (row, texts) = row(key, packed).map_err(|error| error.with_key(key))?;
        for ((name, text), is_text) in row.fields.iter().zip(texts) {
            match self.kinds.get_mut(name) {
                Some(kinds) => kinds.add(text, is_text),
                None => self.kinds.entry(name.clone()).or_default().add(text, is_text),
            }
        }
        match self.columns.take() {
            Some(columns) => {
                let written = self.write_row(&columns, &row);
                self.columns = Some(columns);
                written?;
            }
            None => {
                self.first.push(row);
                if self.first.len() == FIRST {
                    self.write_first()?;
                }
            }
        }
        self.changes.add(changes);
        Ok(())
    }

    fn all_changes(&self) -> Vec<ChangedValues> {
        let mixed = self.kinds.iter().flat_map(|(name, kinds)| {
            let changes = kinds.changes().into_iter().filter(|(.., values)| *values > 0);
            changes.map(|(kind, became, values)| ChangedValues {
                field: name.clone(),
                kind,
                became,
                values,
            })
        });
        self.changes.list().into_iter().chain(mixed).collect()
    }

    /// Writes the header, and the samples that waited for it.
    fn write_first(&mut self) -> Result<()> {
        let fields = self.first.iter().flat_map(|row| &row.fields);
        let mut known = Distinct::default();
        let columns: Vec<String> =
            fields.filter(|(name, _)| known.insert(name)).map(|(name, _)| name.clone()).collect();
        self.write_header(&columns)?;
        let mut files = std::mem::take(&mut self.files).into_iter().peekable();
        for (index, row) in std::mem::take(&mut self.first).iter().enumerate() {
            while let Some((_, path)) = files.next_if(|(before, _)| *before == index) {
                self.file.next(&path)?;
                self.write_header(&columns)?;
            }
            self.write_row(&columns, row)?;
        }
        for (_, path) in files {
            self.file.next(&path)?;
            self.write_header(&columns)?;
        }
        self.columns = Some(columns);
        Ok(())
    }

    fn next_file(&mut self, path: &Path) -> Result<()> {
        let Some(columns) = self.columns.take() else {
            self.files.push((self.first.len(), path.to_path_buf()));
            return Ok(());
        };
        self.file.next(path)?;
        self.write_header(&columns)?;
        self.columns = Some(columns);
        Ok(())
    }

    fn write_header(&mut self, columns: &[String]) -> Result<()> {
        self.write_record(std::iter::once(KEY).chain(columns.iter().map(String::as_str)))
    }

    fn write_row(&mut self, columns: &[String], row: &Row) -> Result<()> {
        let mut known = Finder::new(columns, String::as_str);
        if let Some((name, _)) = row.fields.iter().find(|(name, _)| known.find(name).is_none()) {
            let message =
                format!("expected the fields of the first {FIRST} samples, found {name:?} too");
            return Err(Error::new(ErrorKind::Invalid, message).with_key(&*row.key));
        }
        let mut fields = Finder::new(&row.fields, |(name, _)| name);
        let value = |name: &String| fields.find(name).map_or("", |(_, text)| text);
        self.write_record(std::iter::once(&*row.key).chain(columns.iter().map(value)))
    }

    fn write_record<'a>(&mut self, values: impl Iterator<Item = &'a str>) -> Result<()> {
        let mut builder = ::csv::WriterBuilder::new();
        let mut writer = builder.delimiter(self.delimiter).from_writer(Vec::new());
        let invalid = |error: String| Error::new(ErrorKind::Invalid, error);
        writer.write_record(values).map_err(|error| invalid(error.to_string()))?;
        let line = writer.into_inner().map_err(|error| invalid(error.to_string()))?;
        self.file.append(&line)
    }

    /// Makes the file durable and gives it its name. Without samples it has only a header.
    pub fn finish(mut self) -> Result<()> {
        if self.columns.is_none() {
            self.write_first()?;
        }
        self.file.finish()
    }
}

sample_writer!(CsvWriter, |writer| writer.file.path(), writer.all_changes(), next_file);

/// A sample as strings, and which of them were strings before.
fn row(key: &str, packed: &[u8]) -> Result<(Row, Vec<bool>)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut texts = Vec::new();
    let Value::Map(entries) = msgpack::decode(packed)? else {
        return Ok((Row { key: key.to_owned(), fields }, texts));
    };
    let mut names = Distinct::default();
    for (name, value) in &entries {
        let Some(name) = name.as_str() else {
            let message = "expected fields whose names are strings, found another";
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        if name == KEY {
            continue;
        }
        if !names.insert(name) {
            let message = format!("expected fields of different names, found {name:?} twice");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let text = text(value).map_err(|found| {
            let message = format!("expected a string or a number, found {found}");
            Error::new(ErrorKind::Invalid, message).with_field(name)
        })?;
        fields.push((name.to_owned(), text));
        texts.push(value.is_str());
    }
    Ok((Row { key: key.to_owned(), fields }, texts))
}

/// A value as a string, or what it is instead.
fn text(value: &Value) -> Result<String, &'static str> {
    match recognise(value) {
        Some(Special::Array(_)) => return Err("an array"),
        Some(Special::Complex(..)) => return Err("a complex number"),
        Some(Special::Scalar(scalar)) => {
            return scalar_text(&scalar).ok_or("a scalar that is not a number");
        }
        None => {}
    }
    match value {
        Value::Nil => Ok(String::new()),
        Value::Boolean(bit) => Ok(bit.to_string()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::F32(number) => Ok(format!("{number:?}")),
        Value::F64(number) => Ok(format!("{number:?}")),
        Value::String(text) => text.as_str().map(str::to_owned).ok_or("bytes"),
        Value::Binary(_) => Err("bytes"),
        Value::Array(_) => Err("a list"),
        Value::Map(_) => Err("a map"),
        Value::Ext(..) => Err("an extension"),
    }
}

/// A NumPy scalar as a string, if it is a number.
fn scalar_text(scalar: &NdArray<'_>) -> Option<String> {
    if let Some(number) = rows::integer(scalar) {
        return text(&number).ok();
    }
    let single = scalar.to_ndarray::<f32>().ok().and_then(|array| array.first().copied());
    let double = scalar.to_ndarray::<f64>().ok().and_then(|array| array.first().copied());
    single.map(|number| format!("{number:?}")).or(double.map(|number| format!("{number:?}")))
}
