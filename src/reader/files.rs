//! Files as samples: what a directory and an archive have in common.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::key_index::KeyIndex;
use super::labels::{LabelMap, Labels};
use super::pattern::{Filter, NamePattern};
use super::{out_of_range, pack};
use crate::error::{Error, Result};
use crate::format::msgpack::{Value, encode};

/// The most bytes that `bin` can hold.
const MAX_BYTES: u64 = u32::MAX as u64;

/// A file that is a sample, before it is read. See [`FileOptions::edit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// The key that the sample will have.
    pub key: String,
    /// The label, if there is one.
    pub label: Option<String>,
    /// Where the file is: a path, or a name in an archive.
    pub path: String,
    /// The columns of a list file after path and label.
    pub extra: Vec<String>,
}

type Edit = Box<dyn FnMut(&mut FileEntry) -> Result<()>>;

/// How files become samples: [`DirectoryReader`](super::DirectoryReader), and `ZipReader`.
///
/// A sample has, in this order, `key`, `label` (its number among all labels), `path`,
/// `_additional_info` (more columns of a list file), `_label` (the label itself) and `data` (the
/// bytes of the file). With [`numeric_labels(false)`](Self::numeric_labels) there is no `_label`,
/// and `label` is the label itself.
pub struct FileOptions {
    pub(super) labels: Labels,
    pub(super) numeric: bool,
    pub(super) filter: Filter,
    pub(super) separator: char,
    pub(super) root: PathBuf,
    pub(super) outside: bool,
    pub(super) max_bytes: u64,
    edit: Option<Edit>,
}

impl Default for FileOptions {
    fn default() -> Self {
        FileOptions {
            labels: Labels::Sorted,
            numeric: true,
            filter: Filter::default(),
            separator: '\t',
            root: PathBuf::new(),
            outside: false,
            max_bytes: MAX_BYTES,
            edit: None,
        }
    }
}

impl FileOptions {
    /// Which labels there are. Default: all that occur, sorted. Where files have none, "none"
    /// must be given a number: `Labels::Given(vec![Value::Nil])`.
    pub fn labels(mut self, labels: Labels) -> Self {
        self.labels = labels;
        self
    }

    /// Whether a label becomes its number. Default: yes.
    pub fn numeric_labels(mut self, numeric: bool) -> Self {
        self.numeric = numeric;
        self
    }

    /// Keeps only files that match one of these patterns by [`NamePattern`](super::NamePattern): their paths below
    /// [`root`](Self::root), or their names in the archive. Default: all.
    pub fn include<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        self.filter.include = NamePattern::all(patterns);
        self
    }

    /// Leaves out files that match one of these patterns, even if they are included.
    pub fn exclude<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        self.filter.exclude = NamePattern::all(patterns);
        self
    }

    /// Both of these, taken apart before.
    pub(crate) fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// The separator between the columns of a list file. Default: a tab. Directories only.
    pub fn separator(mut self, separator: char) -> Self {
        self.separator = separator;
        self
    }

    /// Where patterns, and the paths in list files, start from. List files themselves do not.
    /// Default: the working directory. Directories only.
    pub fn root(mut self, root: impl AsRef<Path>) -> Self {
        self.root = root.as_ref().to_path_buf();
        self
    }

    /// Whether the files of a list may be outside of the [root](Self::root), also by a symbolic link.
    /// Allow it for lists from people whom you trust. Default: no. Directories only.
    pub fn allow_outside(mut self, yes: bool) -> Self {
        self.outside = yes;
        self
    }

    /// Refuses to read files with more bytes than this. Default, and the most that a sample can
    /// hold: 4 GiB less one byte.
    pub fn max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = max_bytes.min(MAX_BYTES);
        self
    }

    /// Changes entries when they are found: another key, another label. Comes after
    /// [`include`](Self::include) and [`exclude`](Self::exclude).
    #[doc(alias = "initfun")]
    pub fn edit(mut self, edit: impl FnMut(&mut FileEntry) -> Result<()> + 'static) -> Self {
        self.edit = Some(Box::new(edit));
        self
    }

    pub(super) fn finish(&mut self, mut entries: Vec<FileEntry>) -> Result<Files> {
        if let Some(edit) = &mut self.edit {
            for entry in &mut entries {
                edit(entry)?;
            }
        }
        let by_key = KeyIndex::build(entries.len(), |index| &entries[index].key)
            .map_err(|e| name_both(e, &entries))?;
        let values: Vec<Value> = entries.iter().map(label_value).collect();
        let labels = LabelMap::new(&self.labels, values.iter(), self.numeric)?;
        let mut numbers = Vec::new();
        if self.numeric {
            for (value, entry) in values.iter().zip(&entries) {
                numbers.push(labels.number(value).map_err(|e| e.at(&entry.path))?);
            }
        }
        Ok(Files { entries, by_key, labels, numbers })
    }
}

fn label_value(entry: &FileEntry) -> Value {
    entry.label.as_deref().map_or(Value::Nil, Value::from)
}

/// An error about a key that two files have, with the path of the second.
fn name_both(error: Error, entries: &[FileEntry]) -> Error {
    let entry = error.index().and_then(|index| entries.get(usize::try_from(index).ok()?));
    match entry {
        Some(entry) => error.at(&entry.path),
        None => error,
    }
}

/// Files by index and key, with the numbers of their labels.
pub(super) struct Files {
    pub(super) entries: Vec<FileEntry>,
    by_key: KeyIndex,
    pub(super) labels: LabelMap,
    /// One an entry, or none at all.
    numbers: Vec<usize>,
}

impl Files {
    pub(super) fn entry(&self, index: usize) -> Result<&FileEntry> {
        self.entries.get(index).ok_or_else(|| out_of_range(index, self.entries.len()))
    }

    pub(super) fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        Ok(Cow::Borrowed(&self.entry(index)?.key))
    }

    pub(super) fn find(&self, key: &str) -> Option<usize> {
        self.by_key.find(|index| self.entries[index].key.as_str().cmp(key))
    }

    /// The names of the labels, if the samples have their numbers.
    pub(super) fn label_names(&self) -> Option<Vec<String>> {
        (!self.numbers.is_empty()).then(|| self.labels.names())
    }

    /// A packed field that is known without the content.
    pub(super) fn field(&self, index: usize, name: &str) -> Result<Option<Cow<'_, [u8]>>> {
        let fields = self.fields(index)?;
        let Some((_, value)) = fields.iter().find(|(known, _)| *known == name) else {
            return Ok(None);
        };
        let mut out = Vec::new();
        encode(value, &mut out)?;
        Ok(Some(Cow::Owned(out)))
    }

    /// All fields but the content.
    fn fields(&self, index: usize) -> Result<Vec<(&'static str, Value)>> {
        let entry = self.entry(index)?;
        let label = label_value(entry);
        let number = self.numbers.get(index).map(|&number| Value::from(number));
        let extra = entry.extra.iter().map(|column| column.as_str().into()).collect();
        let mut fields = vec![
            ("key", Value::from(entry.key.as_str())),
            ("label", number.clone().unwrap_or_else(|| label.clone())),
            ("path", Value::from(entry.path.as_str())),
            ("_additional_info", Value::Array(extra)),
        ];
        if number.is_some() {
            fields.push(("_label", label));
        }
        Ok(fields)
    }

    /// The packed sample of an entry with this content.
    pub(super) fn pack(&self, index: usize, data: &[u8]) -> Result<Vec<u8>> {
        let fields = self.fields(index)?;
        let mut out = Vec::with_capacity(data.len() + 128);
        pack::map_len(fields.len() + 1, &mut out)?;
        for (name, value) in &fields {
            encode(&Value::from(*name), &mut out)?;
            encode(value, &mut out)?;
        }
        encode(&Value::from("data"), &mut out)?;
        pack::bin(data, &mut out)?;
        Ok(out)
    }
}

/// An error about a file with more bytes than are read.
pub(super) fn too_large(found: u64, max: u64) -> Error {
    Error::above_limit("max_bytes", format!("expected at most {max} bytes, found {found}"))
}
