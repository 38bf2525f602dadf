//! `metadata.jsonl` and `metadata.csv` next to images, as in Hugging Face's `imagefolder`: which
//! images there are, in which order, and their other fields.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::files::{Found, Place, Row, Told};
use super::options::FolderOptions;
use super::read::ImageFolderReader;
use crate::Value;
use crate::convert::formats::jsonl;
use crate::convert::{names, natural_order, sample::stored_name};
use crate::error::{Error, ErrorKind, Result};
use crate::format::jsonl::parse;
use crate::format::msgpack::{self, sample::KEY};
use crate::regular::open_regular;

/// The column with the path of the image. For an image `x` it is `x_file_name`.
pub(super) const FILE_NAME: &str = "file_name";
/// The field of the image if the column has no other name.
const IMAGE: &str = "image";
const LABEL: &str = "label";
/// The most bytes of a row.
const MAX_ROW: u64 = 1 << 30;

impl FolderOptions {
    /// The images that these metadata files in a folder list. `files` are those that exist there.
    pub(super) fn described(
        self,
        root: &Path,
        mut metadata: Vec<String>,
        files: &[String],
    ) -> Result<ImageFolderReader> {
        metadata.sort_by(|a, b| natural_order(folder_of(a), folder_of(b)).then(a.cmp(b)));
        let kind = |name: &str| name.ends_with(".csv");
        if let Some(other) = metadata.iter().find(|name| kind(name) != kind(&metadata[0])) {
            let message = format!("expected files like {}, found {other} as well", metadata[0]);
            return Err(Error::new(ErrorKind::Invalid, message).at(root));
        }
        let mut found = Vec::new();
        let mut labels = None;
        for name in &metadata {
            let folder = folder_of(name);
            let mut add = |told: Told, row: Vec<(Value, Value)>| {
                check_label(&row, &mut labels).map_err(|error| error.within(told))?;
                let file = described(told, row, folder).map_err(|error| error.within(told))?;
                if self.filter.keeps(file.path.as_deref().unwrap_or(&file.key)) {
                    found.push(file);
                }
                Ok(())
            };
            let path = root.join(name);
            let read =
                if kind(name) { read_csv(&path, &mut add) } else { read_jsonl(&path, &mut add) };
            read.map_err(|error| error.at(&path))?;
        }
        let told: HashSet<&str> =
            found.iter().map(|file| file.path.as_deref().unwrap_or(&file.key)).collect();
        let skipped = files.iter().filter(|file| !told.contains(&***file)).count() as u64;
        drop(told);
        self.finish(Place::Folder(root.to_path_buf()), found, Vec::new(), skipped)
    }
}

/// The folder of a file, with a slash at the end.
fn folder_of(name: &str) -> &str {
    name.rfind('/').map_or("", |slash| &name[..=slash])
}

type TakeRow<'a> = dyn FnMut(Told, Vec<(Value, Value)>) -> Result<()> + 'a;

fn read_jsonl(path: &Path, take: &mut TakeRow<'_>) -> Result<()> {
    let at = |error| Error::io(path, error);
    let mut input = BufReader::with_capacity(1 << 17, open_regular(path).map_err(at)?);
    let (mut line, mut number) = (Vec::new(), 0u64);
    while !input.fill_buf().map_err(at)?.is_empty() {
        line.clear();
        number += 1;
        let (_, whole) = jsonl::read_line(&mut input, &mut line, MAX_ROW, u64::MAX).map_err(at)?;
        let told = Told::Line(number);
        let located = |error: Error| error.within(told);
        whole.map_err(located)?;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let row = parse(&line)
            .map_err(|error| located(Error::new(ErrorKind::Invalid, error.to_string())))?;
        let Value::Map(row) = row else {
            let message = "expected a row with names, found something else";
            return Err(located(Error::new(ErrorKind::Invalid, message)));
        };
        take(told, row)?;
    }
    Ok(())
}

/// Columns of numbers are numbers, as in pandas, except for keys and paths.
#[cfg(feature = "formats")]
fn read_csv(path: &Path, take: &mut TakeRow<'_>) -> Result<()> {
    use crate::convert::{CsvReader, CsvType, Input};

    let table = CsvReader::open(path)?.max_bytes(MAX_ROW);
    let table = table.column(KEY, CsvType::Text).column(FILE_NAME, CsvType::Text).guess_types()?;
    let mut number = 0;
    let mut take = |packed: Result<Vec<u8>>| {
        number += 1;
        let Value::Map(mut row) = msgpack::decode(&packed?)? else { return Ok(()) };
        // The first field is the number of the row; a column named `key` was renamed.
        row.remove(0);
        for (name, _) in &mut row {
            if name.as_str() == Some(stored_name(KEY)) {
                *name = KEY.into();
            }
        }
        take(Told::Row(number), row)
    };
    (0..table.units()).try_for_each(|unit| table.read(unit, &mut take))
}

#[cfg(not(feature = "formats"))]
fn read_csv(_: &Path, _: &mut TakeRow<'_>) -> Result<()> {
    let message = "expected metadata.jsonl, found CSV, which is read with the feature formats";
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Fails if some labels are numbers and others are names, which get numbers too. `named` says which
/// it was before.
fn check_label(row: &[(Value, Value)], named: &mut Option<bool>) -> Result<()> {
    let label = row.iter().find(|(name, _)| name.as_str() == Some(LABEL));
    let is_name = match label {
        Some((_, Value::String(_))) => true,
        Some((_, Value::Integer(_))) => false,
        _ => return Ok(()),
    };
    if *named.get_or_insert(is_name) == is_name {
        return Ok(());
    }
    let (expected, found) = if is_name { ("number", "name") } else { ("name", "number") };
    let message = format!("expected a label that is a {expected} as before, found a {found}");
    Err(Error::new(ErrorKind::Invalid, message))
}

/// The image that a row lists.
fn described(told: Told, row: Vec<(Value, Value)>, folder: &str) -> Result<Found> {
    let invalid = |message: String| Error::new(ErrorKind::Invalid, message);
    let (column, field) = image_of(&row)?;
    let file = row[column].1.as_str().unwrap_or_default();
    let file = file.strip_prefix("./").unwrap_or(file);
    if !names::stays_within(file) {
        return Err(invalid(format!("expected the path of a file in this folder, found {file:?}")));
    }
    let path = format!("{folder}{file}");
    let key = row.iter().find(|(name, value)| name.as_str() == Some(KEY) && value.is_str());
    let key = key.and_then(|(_, value)| value.as_str()).map(str::to_owned);
    let (mut packed, mut fields, mut label) = (Vec::new(), row.len(), None);
    if key.is_none() {
        msgpack::write_text(KEY, &mut packed)?;
        msgpack::write_text(&path, &mut packed)?;
        fields += 1;
    }
    let (mut image_at, mut label_at) = (0, None);
    let mut seen: HashSet<String> = HashSet::new();
    for (at, (name, value)) in row.iter().enumerate() {
        let name = match name.as_str().unwrap_or_default() {
            _ if at == column => &field,
            KEY if key.is_none() => stored_name(KEY),
            name => name,
        };
        if !seen.insert(name.to_owned()) {
            return Err(invalid(format!(
                "expected fields of different names, found {name:?} twice"
            )));
        }
        msgpack::write_text(name, &mut packed)?;
        match value {
            _ if at == column => image_at = packed.len(),
            Value::String(text) if name == LABEL => {
                label = text.as_str().map(str::to_owned);
                label_at = Some(packed.len());
            }
            value => msgpack::encode(value, &mut packed)?,
        }
    }
    let fields = u32::try_from(fields).map_err(|_| invalid("too many columns".to_owned()))?;
    let row = Row { packed: packed.into(), fields, image: image_at, label: label_at, told };
    let key = key.unwrap_or_else(|| path.clone());
    let path = (path != key).then_some(path);
    Ok(Found { key, path, label, extra: Vec::new(), row: Some(row) })
}

/// The field of the image whose path is in a column of this name.
pub(super) fn image_in(column: &str) -> Option<&str> {
    match column.strip_suffix(FILE_NAME)? {
        "" => Some(IMAGE),
        stem => stem.strip_suffix('_').filter(|stem| !stem.is_empty()),
    }
}

/// The column with the path of the image, and the field of the image.
fn image_of(row: &[(Value, Value)]) -> Result<(usize, String)> {
    let mut columns = row.iter().enumerate().filter_map(|(at, (name, value))| {
        value.as_str()?;
        Some((at, image_in(name.as_str()?)?.to_owned()))
    });
    let none = "expected a column \"file_name\" with the path of the image, found none";
    let first = columns.next().ok_or_else(|| Error::new(ErrorKind::Invalid, none))?;
    match columns.next() {
        None => Ok(first),
        Some((_, second)) => {
            let message = format!("expected one image, found {:?} and {second:?}", first.1);
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}
