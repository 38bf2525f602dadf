//! [`DirectoryReader`]: files of a directory tree, or of a list.

use std::borrow::Cow;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::files::{FileEntry, FileOptions, Files, too_large};
use super::pattern::{PathPattern, check_named};
use super::{Location, Reader, pack};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::Value;
use crate::regular::{self, open_regular};
use crate::storage::Confined;

/// Files of a directory tree, or of a list, as samples: see [`FileOptions`] for what is in them.
///
/// A **pattern** is a path with wildcards: `*`, `?` and `[a-z]` within a component, `**` as a
/// whole component for any number of directories. `{LABEL}` as a whole component is `*`, and what
/// it matches is the label. Hidden files are found only by patterns that name the dot. The files
/// of a pattern come in [natural order](crate::natural_order) of their paths, not in the order
/// of the file system.
///
/// A pattern that is the path of a file is a **list**: one line a file, with path, label, and
/// more columns that the sample gets as they are. The order of the list is kept; blank lines are
/// passed over.
///
/// **Keys** are paths without what comes before `{LABEL}`, if they begin with it; of several
/// patterns, without the components that all of them begin with. The key of a listed file is its
/// path, which must not lead out of the root ([`FileOptions::allow_outside`]). Two files with one key
/// are an error.
///
/// Files are listed when the reader is opened and read when they are asked for.
///
/// ```
/// use kiste::reader::{DirectoryReader, Reader};
///
/// # let dir = tempfile::tempdir()?;
/// for name in ["cat/1.jpg", "cat/10.jpg", "cat/2.jpg", "dog/1.jpg"] {
///     # std::fs::create_dir_all(dir.path().join(name).parent().unwrap())?;
///     std::fs::write(dir.path().join(name), b"an image")?;
/// }
/// let images = DirectoryReader::options().root(dir.path()).open(["{LABEL}/*.jpg"])?;
/// let keys: Vec<_> = (0..images.len()).map(|i| images.key(i)).collect::<Result<_, _>>()?;
/// assert_eq!(keys, ["cat/1.jpg", "cat/2.jpg", "cat/10.jpg", "dog/1.jpg"]);
/// assert_eq!(images.get(3)?["label"].as_u64(), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DirectoryReader {
    files: Files,
    max_bytes: u64,
}

impl DirectoryReader {
    /// The files that match any of these patterns. See [`FileOptions::open`].
    pub fn open<S: AsRef<str>>(patterns: impl IntoIterator<Item = S>) -> Result<DirectoryReader> {
        DirectoryReader::options().open(patterns)
    }

    /// The options, to be changed before [`open`](FileOptions::open).
    pub fn options() -> FileOptions {
        FileOptions::default()
    }

    /// All labels by their numbers.
    pub fn label_values(&self) -> &[Value] {
        self.files.labels.labels()
    }

    /// The files.
    pub fn entries(&self) -> &[FileEntry] {
        &self.files.entries
    }
}

impl FileOptions {
    /// Lists the files that match any of these patterns, pattern by pattern. No file is no error.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a pattern in which `{LABEL}` is only a part of a
    /// component, a path in a list that leads out of the root, a file without a label where labels are
    /// numbered and this one was not given, a
    /// label that is not among those given, and a name that is not UTF-8;
    /// [`DuplicateKey`](ErrorKind::DuplicateKey); [`Io`](ErrorKind::Io).
    pub fn open<S: AsRef<str>>(
        self,
        patterns: impl IntoIterator<Item = S>,
    ) -> Result<DirectoryReader> {
        let mut unnamed = Vec::new();
        let reader = self.open_noting(patterns, &mut unnamed)?;
        check_named(&unnamed)?;
        Ok(reader)
    }

    /// The same, with what has a name that is not UTF-8 for the caller to report.
    pub(crate) fn open_noting<S: AsRef<str>>(
        mut self,
        patterns: impl IntoIterator<Item = S>,
        unnamed: &mut Vec<PathBuf>,
    ) -> Result<DirectoryReader> {
        let mut sources = Vec::new();
        for pattern in patterns {
            let pattern = pattern.as_ref();
            sources.push(match Path::new(pattern).is_file() {
                true => Pattern::List(pattern.to_string()),
                false => Pattern::Glob(PathPattern::parse(pattern)?),
            });
        }
        let prefix = prefix(&sources);
        let mut entries = Vec::new();
        for source in &sources {
            match source {
                Pattern::List(path) => self.read_list(path, &mut entries)?,
                Pattern::Glob(pattern) => {
                    self.list_tree(pattern, &prefix, &mut entries, unnamed)?;
                }
            }
        }
        let max_bytes = self.max_bytes;
        Ok(DirectoryReader { files: self.finish(entries)?, max_bytes })
    }

    fn list_tree(
        &self,
        pattern: &PathPattern,
        prefix: &str,
        entries: &mut Vec<FileEntry>,
        unnamed: &mut Vec<PathBuf>,
    ) -> Result<()> {
        for (path, label) in pattern.glob_noting(&self.root, unnamed)? {
            if self.filter.keeps(&path) {
                let key = path.strip_prefix(prefix).unwrap_or(&path).to_string();
                entries.push(FileEntry { key, label, path: self.rooted(&path)?, extra: vec![] });
            }
        }
        Ok(())
    }

    fn read_list(&self, list: &str, entries: &mut Vec<FileEntry>) -> Result<()> {
        let text = regular::read_to_string(list).map_err(|e| Error::io(list, e))?;
        let folder = Confined::to(&self.root).allow_outside(self.outside);
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let mut columns = line.split(self.separator);
            let path = columns.next().unwrap_or_default();
            if self.filter.keeps(path) {
                folder.path(path).map_err(|error| error.shown_at(list))?;
                entries.push(FileEntry {
                    key: path.to_string(),
                    label: columns.next().map(str::to_string),
                    path: self.rooted(path)?,
                    extra: columns.map(str::to_string).collect(),
                });
            }
        }
        Ok(())
    }

    fn rooted(&self, path: &str) -> Result<String> {
        let full = self.root.join(path);
        full.into_os_string().into_string().map_err(|path| {
            Error::new(ErrorKind::Invalid, "the path is not UTF-8, so no sample can hold it")
                .at(path)
        })
    }
}

enum Pattern {
    List(String),
    Glob(PathPattern),
}

/// The prefix that keys do not have: the components before the label, or the ones that all of
/// several patterns begin with.
fn prefix(sources: &[Pattern]) -> String {
    let globs: Vec<&PathPattern> = sources
        .iter()
        .filter_map(|source| match source {
            Pattern::Glob(pattern) => Some(pattern),
            Pattern::List(_) => None,
        })
        .collect();
    let Some((first, others)) = globs.split_first() else { return String::new() };
    // Without a label the last component is the file itself; a single pattern is not cut at all.
    let limit = |pattern: &PathPattern| {
        pattern.label().unwrap_or(if others.is_empty() {
            0
        } else {
            pattern.components().len() - 1
        })
    };
    let mut len = limit(first);
    for other in others {
        let shared = first.components().iter().zip(other.components());
        let shared = shared.take_while(|(a, b)| a == b).count();
        len = len.min(shared).min(limit(other));
    }
    first.components()[..len].iter().map(|component| format!("{component}/")).collect()
}

impl Reader for DirectoryReader {
    fn len(&self) -> usize {
        self.files.entries.len()
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        self.files.key(index)
    }

    fn find(&self, key: &str) -> Result<Option<usize>> {
        Ok(self.files.find(key))
    }

    fn may_repeat_keys(&self) -> bool {
        false
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        let path = &self.files.entry(index)?.path;
        let data = read(Path::new(path), self.max_bytes)?;
        Ok(Cow::Owned(self.files.pack(index, &data)?))
    }

    /// Only `data` needs the file.
    fn field_raw(&self, index: usize, name: &str) -> Result<Option<Cow<'_, [u8]>>> {
        if name != "data" {
            return self.files.field(index, name);
        }
        let data = read(Path::new(&self.files.entry(index)?.path), self.max_bytes)?;
        let mut out = Vec::with_capacity(data.len() + 8);
        pack::bin(&data, &mut out)?;
        Ok(Some(Cow::Owned(out)))
    }

    fn labels(&self) -> Result<Option<Vec<String>>> {
        Ok(self.files.label_names())
    }

    fn locate(&self, index: usize) -> Location {
        let path = self.files.entry(index).ok().map(|entry| entry.path.clone().into());
        Location { path, index: index as u64, range: None }
    }
}

/// A whole file, if it has no more bytes than this now and when it is read.
fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    let at = |e| Error::io(path, e);
    let file = open_regular(path).map_err(at)?;
    let len = file.metadata().map_err(at)?.len();
    if len > max_bytes {
        return Err(too_large(len, max_bytes).at(path));
    }
    let mut data = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
    file.take(max_bytes + 1).read_to_end(&mut data).map_err(at)?;
    match data.len() as u64 {
        len if len > max_bytes => Err(too_large(len, max_bytes).at(path)),
        _ => Ok(data),
    }
}
