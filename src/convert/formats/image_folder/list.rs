//! Lists of files: CSV or TSV with a path, a label and further columns.

#![cfg(feature = "formats")]

use std::collections::HashSet;
use std::path::Path;

use super::files::{Found, Place};
use super::options::FolderOptions;
use super::read::ImageFolderReader;
use crate::convert::carried::RemarkLog;
use crate::convert::compressed;
use crate::convert::decoded::decoded;
use crate::convert::file_names::uncompressed;
use crate::convert::formats::csv::{self, CsvType};
use crate::convert::formats::files::MAX_BYTES;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack;
use crate::reader::Labels;
use crate::storage::{self, Confined};

/// The possible names of the column with the path.
const PATHS: [&str; 5] = ["path", "file", "file_name", "filename", "image"];
/// The name of the column with the label.
const LABEL: &str = "label";

/// The meaning of the columns.
struct Columns {
    path: usize,
    label: Option<usize>,
    /// The other columns, and their names.
    others: Vec<(usize, String)>,
}

impl FolderOptions {
    /// Opens the files of a list: CSV or TSV with quotes as in RFC 4180, compressed or not. Feature
    /// `formats`.
    ///
    /// With a [header](Self::header), columns are found by their names: the path is `path`, `file`,
    /// `file_name`, `filename` or `image`, the label is `label`, and the others become fields of
    /// these names: strings, unless [types are guessed](Self::guess_types); then labels that are all
    /// numbers stay so too, and are not numbered. Without one the first
    /// column is the path, the second is the label, and the third is called `column3`. The key is
    /// the path as listed. The list and the [root](Self::root) may be URLs. Paths name files in
    /// the folder, by any symbolic link, unless others are [allowed](Self::allow_outside).
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a list without files or without a column for their
    /// paths, and for a path that leads out of the folder;
    /// [`DuplicateKey`](ErrorKind::DuplicateKey) if one is listed twice;
    /// [`Damaged`](ErrorKind::Damaged) if rows have different lengths. A file that does not exist, or
    /// is a link out of the folder, is an error only when it is read.
    pub fn list(mut self, list: impl AsRef<Path>) -> Result<ImageFolderReader> {
        let list = list.as_ref();
        let folder = match self.root.as_os_str().is_empty() {
            true => Confined::next_to(list),
            false => Confined::to(&self.root),
        }
        .allow_outside(self.outside);
        self.root = folder.folder().to_path_buf();
        let (columns, mut found, remarks) = self.read_list(list).map_err(|error| error.at(list))?;
        check_shown(&found).map_err(|error| error.at(list))?;
        check_keys(&found).map_err(|error| error.at(list))?;
        found
            .iter()
            .try_for_each(|file| folder.check(&file.key))
            .map_err(|error| error.at(list))?;
        let mut names: Vec<String> = columns.others.into_iter().map(|(_, name)| name).collect();
        if self.has_numbers(&found) {
            names.insert(0, LABEL.to_owned());
            for file in &mut found {
                file.extra.insert(0, file.label.take().unwrap_or_default().into_bytes());
            }
        }
        let found = self.typed(found, &names).map_err(|error| error.at(list))?;
        let place = Place::Folder(folder);
        self.finish(place, found, names, 0, remarks).map_err(|error| error.at(list))
    }

    /// Whether labels are numbers already, and stay what they are: a column like others.
    fn has_numbers(&self, found: &[Found]) -> bool {
        let is_free = self.guess_types && !self.text_labels && self.labels == Labels::Sorted;
        let labels = || found.iter().map(|file| file.label.as_deref());
        is_free
            && labels().all(|label| label.is_some())
            && matches!(csv::guess(labels().flatten()), Some(CsvType::Int | CsvType::Float))
    }

    /// The files with packed values in the columns.
    fn typed(&self, mut found: Vec<Found>, names: &[String]) -> Result<Vec<Found>> {
        for (at, name) in names.iter().enumerate() {
            let text = |file: &Found| String::from_utf8_lossy(&file.extra[at]).into_owned();
            let of = match self.guess_types {
                true => {
                    let texts = found.iter().map(|file| &*file.extra[at]);
                    csv::guess(texts.filter_map(|text| std::str::from_utf8(text).ok()))
                }
                false => None,
            };
            for file in &mut found {
                let value = csv::typed(of.unwrap_or(CsvType::Text), name, &text(file))?;
                file.extra[at] = msgpack::to_vec(&value)?;
            }
        }
        Ok(found)
    }

    fn read_list(&self, list: &Path) -> Result<(Columns, Vec<Found>, RemarkLog)> {
        let delimiter = self.delimiter.unwrap_or_else(|| delimiter_of(list));
        let text = decoded(compressed::open(list)?, self.encoding);
        let input = csv::Bounded::new(text, MAX_BYTES.min(self.max_bytes));
        let dialect = csv::Dialect { delimiter, quoting: self.quoting, encoding: self.encoding };
        let mut table = csv::Table::new(list, input, dialect);
        let mut record = ::csv::StringRecord::new();
        let (mut columns, mut found, remarks) = (None, Vec::new(), RemarkLog::default());
        while let Some(row) = table.next(&mut record)? {
            csv::note(&remarks, 0, list, &record, row?);
            let columns = match &columns {
                Some(columns) => columns,
                None => {
                    let with_header = self.header.unwrap_or_else(|| self.is_header(&record));
                    let new = if with_header { named(&record)? } else { numbered(&record) };
                    let columns: &Columns = columns.insert(new);
                    if with_header {
                        continue;
                    }
                    columns
                }
            };
            let path = &record[columns.path];
            if self.filter.keeps(path) {
                found.push(Found {
                    key: path.to_owned(),
                    path: None,
                    label: columns.label.map(|at| record[at].to_owned()).filter(|l| !l.is_empty()),
                    extra: columns.others.iter().map(|(at, _)| record[*at].into()).collect(),
                    row: None,
                });
            }
        }
        let none = || Error::new(ErrorKind::Invalid, "expected a list of files, found nothing");
        Ok((columns.ok_or_else(none)?, found, remarks))
    }

    /// Whether a row has a name for the column of paths, and that is not the name of a file.
    fn is_header(&self, record: &::csv::StringRecord) -> bool {
        // A file may really be called `image`: then this is a row, not a heading.
        record.iter().any(is_path) && !record.iter().any(|name| self.root.join(name).is_file())
    }
}

fn is_path(name: &str) -> bool {
    PATHS.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The columns by their names.
fn named(header: &::csv::StringRecord) -> Result<Columns> {
    let invalid = |message: String| Error::new(ErrorKind::Invalid, message);
    let path = header.iter().position(is_path).ok_or_else(|| {
        invalid(format!("expected a column {}, found none of them", PATHS.join(", ")))
    })?;
    let label = header.iter().position(|name| name.eq_ignore_ascii_case(LABEL));
    let mut others: Vec<(usize, String)> = Vec::new();
    for (at, name) in header.iter().enumerate() {
        if at == path || Some(at) == label {
            continue;
        }
        let taken = others.iter().any(|(_, known)| known == name) || name == "image";
        if taken {
            return Err(invalid(format!(
                "expected columns of different names, found {name:?} again"
            )));
        }
        others.push((at, name.to_owned()));
    }
    Ok(Columns { path, label, others })
}

/// The columns of a list without a header.
fn numbered(first: &::csv::StringRecord) -> Columns {
    let others = (2..first.len()).map(|at| (at, format!("column{}", at + 1))).collect();
    Columns { path: 0, label: (first.len() > 1).then_some(1), others }
}

/// The delimiter of a list of this name.
pub(super) fn delimiter_of(list: &Path) -> u8 {
    let name = list.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if uncompressed(&name).ends_with(".csv") { b',' } else { b'\t' }
}

/// A file that is listed twice would otherwise fail only when it is written, perhaps after hours.
fn check_keys(found: &[Found]) -> Result<()> {
    let mut seen = HashSet::with_capacity(found.len());
    match found.iter().find(|file| !seen.insert(&*file.key)) {
        Some(twice) => {
            let error = Error::new(ErrorKind::DuplicateKey, "the file is listed twice");
            Err(error.with_key(&twice.key))
        }
        None => Ok(()),
    }
}

/// Fails for URLs with what must not be shown: samples have them as keys, and errors name them.
fn check_shown(found: &[Found]) -> Result<()> {
    let names = found.iter().map(|file| Path::new(file.path.as_ref().unwrap_or(&file.key)));
    let mut urls = names.filter(|name| storage::is_url(name));
    match urls.find(|url| storage::shown(url) != **url) {
        None => Ok(()),
        Some(url) => {
            let message = format!(
                "expected URLs without user, password and query, as samples are named by them, found {} \
                 with them",
                storage::shown(url).display()
            );
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}
