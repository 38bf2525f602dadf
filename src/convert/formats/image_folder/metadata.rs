//! `metadata.jsonl` and `metadata.csv` next to images, as in Hugging Face's `imagefolder`: which
//! images there are, in which order, and their other fields.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::files::{Found, Place, Row, Told};
use super::options::FolderOptions;
use super::read::ImageFolderReader;
use crate::Value;
use crate::convert::carried::RemarkLog;
use crate::convert::decoded::{TextEncoding, decoded};
use crate::convert::file_names::Media;
use crate::convert::formats::jsonl;
use crate::convert::{compressed, encoding, natural_order};
use crate::error::{Error, ErrorKind, Result};
use crate::format::jsonl::parse_members;
use crate::format::msgpack::{self, sample::KEY};
use crate::format::sample_fields::stored_name;
use crate::storage::{self, Confined};

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
        metadata: Vec<String>,
        files: &[String],
    ) -> Result<ImageFolderReader> {
        let remarks = RemarkLog::default();
        let open = |name: &str| compressed::open(&root.join(name));
        let place = metadata
            .iter()
            .fold(Confined::to(root), |place, name| place.named_in(&root.join(name)));
        let place = place.allow_outside(self.outside);
        let found = self.listed(root, metadata, &open, &remarks)?;
        let told: HashSet<&str> = found.iter().map(Found::path).collect();
        let skipped = files.iter().filter(|file| !told.contains(&***file)).count() as u64;
        drop(told);
        self.finish(Place::Folder(place), found, Vec::new(), skipped, remarks)
    }

    /// The files that these metadata files list, in order. Their names are below `root`, by which
    /// errors name them.
    pub(super) fn listed(
        &self,
        root: &Path,
        mut metadata: Vec<String>,
        open: &dyn Fn(&str) -> Result<Box<dyn Read + Send>>,
        remarks: &RemarkLog,
    ) -> Result<Vec<Found>> {
        metadata.sort_by(|a, b| natural_order(folder_of(a), folder_of(b)).then(a.cmp(b)));
        let kind = |name: &str| name.ends_with(".csv");
        if let Some(other) = metadata.iter().find(|name| kind(name) != kind(&metadata[0])) {
            let message = format!("expected files like {}, found {other} as well", metadata[0]);
            return Err(Error::new(ErrorKind::Invalid, message).at(root));
        }
        let wanted = |name: &str| {
            let is_own = matches!(name, KEY | LABEL) || name.ends_with(FILE_NAME);
            is_own || self.kept.needs(name)
        };
        let mut found = Vec::new();
        let mut labels = None;
        for name in &metadata {
            let folder = folder_of(name);
            let here = Confined::to(root.join(folder)).allow_outside(self.outside);
            let mut add = |told: Told, row: Vec<(Value, Value)>| {
                check_label(&row, &mut labels).map_err(|error| error.within(told))?;
                let file = described(told, row, folder, &here, self.own_keys);
                let file = file.map_err(|error| error.within(told))?;
                if self.keeps(file.path()) {
                    found.push(file);
                }
                Ok(())
            };
            let path = root.join(name);
            let read = open(name).and_then(|input| match kind(name) {
                true => read_csv(&path, input, self.encoding, remarks, &mut add),
                false => read_jsonl(&path, input, self.encoding, &wanted, &mut add),
            });
            read.map_err(|error| error.at(&path))?;
        }
        Ok(found)
    }
}

/// The folder of a file, with a slash at the end.
fn folder_of(name: &str) -> &str {
    name.rfind('/').map_or("", |slash| &name[..=slash])
}

type TakeRow<'a> = dyn FnMut(Told, Vec<(Value, Value)>) -> Result<()> + 'a;

fn read_jsonl(
    path: &Path,
    input: Box<dyn Read + Send>,
    encoding: Option<TextEncoding>,
    wanted: &dyn Fn(&str) -> bool,
    take: &mut TakeRow<'_>,
) -> Result<()> {
    let at = |error| compressed::blame(path, error);
    let mut input = BufReader::with_capacity(1 << 17, decoded(input, encoding));
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
        let row = parse_members(&line, false, wanted).map_err(|error| {
            let flaw = encoding::flaw(&line, encoding);
            located(flaw.unwrap_or_else(|| Error::new(ErrorKind::Invalid, error.to_string())))
        })?;
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
fn read_csv(
    path: &Path,
    input: Box<dyn Read + Send>,
    encoding: Option<TextEncoding>,
    remarks: &RemarkLog,
    take: &mut TakeRow<'_>,
) -> Result<()> {
    use crate::convert::formats::csv::{self, Bounded, CsvType, Dialect, Table};

    let dialect = Dialect { delimiter: b',', quoting: true, encoding };
    let input = Bounded::new(decoded(input, encoding), MAX_ROW);
    let mut table = Table::with_names(path, input, dialect);
    let (names, mut record, mut rows) = (table.names()?, Default::default(), Vec::new());
    while let Some(row) = table.next(&mut record)? {
        csv::note(remarks, 0, path, &record, row?);
        rows.push(record.clone());
    }
    let column = |(at, name): (usize, &str)| match name {
        KEY | FILE_NAME => CsvType::Text,
        _ => csv::guess(rows.iter().map(|row| &row[at])).unwrap_or(CsvType::Text),
    };
    let types: Vec<CsvType> = names.iter().enumerate().map(column).collect();
    for (row, number) in rows.iter().zip(1..) {
        let values = names
            .iter()
            .zip(&types)
            .zip(row)
            .map(|((name, of), text)| Ok((Value::from(name), csv::typed(*of, name, text)?)));
        take(Told::Row(number), values.collect::<Result<_>>()?)?;
    }
    Ok(())
}

#[cfg(not(feature = "formats"))]
fn read_csv(
    _: &Path,
    _: Box<dyn Read + Send>,
    _: Option<TextEncoding>,
    _: &RemarkLog,
    _: &mut TakeRow<'_>,
) -> Result<()> {
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

/// The image that a row lists, in a metadata file that is `here`. `own_keys` says whether a column `key`
/// is its key.
fn described(
    told: Told,
    row: Vec<(Value, Value)>,
    folder: &str,
    here: &Confined,
    own_keys: bool,
) -> Result<Found> {
    let invalid = |message: String| Error::new(ErrorKind::Invalid, message);
    let (column, field) = image_of(&row)?;
    let file = row[column].1.as_str().unwrap_or_default();
    let file = file.strip_prefix("./").unwrap_or(file);
    let field = match Media::of(file) {
        // As in Hugging Face's `audiofolder`.
        Some(media) if field == IMAGE => media.field().to_owned(),
        _ => field,
    };
    here.check(file)?;
    let path = match storage::is_url(file) || file.starts_with('/') {
        true => file.to_owned(),
        false => format!("{folder}{file}"),
    };
    let key = row.iter().find(|(name, value)| name.as_str() == Some(KEY) && value.is_str());
    let key = key.and_then(|(_, value)| value.as_str()).filter(|_| own_keys).map(str::to_owned);
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
