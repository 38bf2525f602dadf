//! Two samples with one key: why, and what can be done without losing one of them.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use super::Source;
use super::conversion::Conversion;
use super::file_names;
use super::format::Format;
use super::open::Opened;
use super::writer::SampleWriter;
use crate::dataset::DatasetReader;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::msgpack::{self, Cursor, sample};

/// The source of keys.
#[derive(Debug, Clone, Default)]
pub(super) struct KeysOf {
    /// Files of one name in an archive are a sample.
    archives: bool,
    made: Made,
}

#[derive(Debug, Clone, Default)]
enum Made {
    /// Of a field of each sample, or where they have none, of the names of their files.
    Field(String),
    /// By a pattern that was given.
    Pattern,
    /// They are the previous keys.
    #[default]
    Before,
}

impl Conversion {
    /// The source of the keys of samples of this format.
    pub(super) fn keys_of(&self, format: Option<Format>) -> KeysOf {
        let made = match (&self.options.key, &self.options.key_field, format) {
            (Some(_), ..) => Made::Pattern,
            (_, Some(field), _) => Made::Field(field.clone()),
            (_, _, Some(Format::Jsonl | Format::Parquet | Format::Arrow)) => {
                Made::Field(sample::KEY.to_owned())
            }
            _ => Made::Before,
        };
        KeysOf { archives: format == Some(Format::Webdataset), made }
    }
}

/// Digits of the numbers in keys that are made of the name of a file and a number.
const DIGITS: [usize; 4] = [5, 6, 9, 12];

impl Conversion {
    /// Fails if the dataset that is appended to has keys that an earlier version made of the names of files, where
    /// this version makes others: a file could get into it twice.
    pub(super) fn check_older_keys(&self, opened: &Opened) -> Result<()> {
        let made_up = self.options.key.is_none() && self.options.key_field.is_none();
        let (Some(input), true) = (opened.samples.as_input(), made_up) else { return Ok(()) };
        let mut changed = BTreeMap::new();
        for unit in 0..input.units() {
            let old = input.path(unit).and_then(file_names::stem);
            let (Some(old), Some(new)) = (old, input.shard(unit)) else { continue };
            if old != new && !changed.contains_key(old) {
                changed.insert(old.to_owned(), new.to_owned());
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        for path in self.targets() {
            match DatasetReader::open(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                opened => check_older_keys_of(&opened?, &path, &changed)?,
            }
        }
        Ok(())
    }
}

/// Fails if a dataset has keys that begin like the first of each pair.
fn check_older_keys_of(
    there: &DatasetReader,
    path: &Path,
    changed: &BTreeMap<String, String>,
) -> Result<()> {
    for (old, new) in changed {
        for digits in DIGITS {
            let key = format!("{old}/{:0digits$}", 0);
            if there.find(&key)?.is_some() {
                let message = format!(
                    "has the key {key:?}, as earlier versions made of the names of files, but keys \
                     that are appended would begin with \"{new}/\""
                );
                let error = Error::new(ErrorKind::Invalid, message).at(path);
                return Err(error.with_remedy(Remedy::NewKeys));
            }
        }
    }
    Ok(())
}

/// Which samples of this run are from which file.
#[derive(Debug, Default)]
pub(super) struct Origins {
    keys: KeysOf,
    /// Samples from before this run, about which nothing is known.
    before: u64,
    /// The same, if [`note`](Self::note) does not count them.
    uncounted: u64,
    /// Samples in outputs before the one that is written.
    offset: u64,
    /// The first sample of each run of samples from one file, and what that is called. `None` where samples
    /// come from parts.
    runs: Option<Vec<(u64, Option<String>)>>,
}

impl Origins {
    /// Of samples that are read from their files, behind those that are there.
    pub(super) fn new(keys: KeysOf, before: u64) -> Origins {
        Origins { keys, before, runs: Some(Vec::new()), ..Origins::default() }
    }

    /// The same, where those that are there are not counted as written.
    pub(super) fn behind(keys: KeysOf, before: u64) -> Origins {
        Origins { uncounted: before, ..Origins::new(keys, before) }
    }

    /// Of samples that are read from the parts of a conversion.
    pub(super) fn of_parts(keys: KeysOf) -> Origins {
        Origins { keys, ..Origins::default() }
    }

    /// The samples from this index on are from this file.
    pub(super) fn note(&mut self, index: u64, shard: Option<&str>) {
        let Some(runs) = &mut self.runs else { return };
        if runs.last().is_none_or(|(_, last)| last.as_deref() != shard) {
            runs.push((index + self.uncounted, shard.map(str::to_owned)));
        }
    }

    /// The samples from this index on are in another output.
    pub(super) fn begin_output(&mut self, index: u64) {
        self.offset = index;
    }

    /// Whether a sample may be in several pieces, each with its key.
    pub(super) fn may_be_torn(&self) -> bool {
        self.keys.may_be_torn()
    }

    fn of(&self, index: u64) -> Option<&str> {
        let runs = self.runs.as_ref()?;
        let run = runs.partition_point(|(first, _)| *first <= index).checked_sub(1)?;
        runs[run].1.as_deref()
    }

    /// The error for a sample whose key an earlier one has.
    pub(super) fn explain(
        &self,
        error: Error,
        packed: &[u8],
        source: &dyn Source,
        writer: &mut dyn SampleWriter,
    ) -> Result<Twin> {
        let found = error.key().map(|key| writer.earlier(key)).transpose()?.flatten();
        let (Some((index, bytes)), Some(key)) = (found, error.key()) else {
            return Ok(Twin { error, is_same: false, is_torn: false });
        };
        let at = self.offset.saturating_add(index);
        let is_before = at < self.before || index < writer.before(key);
        let (here, there) = (source.shard(), self.of(at));
        let elsewhere = there.filter(|there| here.is_some_and(|here| here != *there));
        let earlier = Earlier {
            index,
            place: match elsewhere {
                Some(file) => format!("sample {index}, from {file},"),
                None => format!("sample {index}"),
            },
            is_before,
            is_apart: elsewhere.is_some()
                || self.runs.is_none()
                || (here.is_some() && there.is_none()),
            is_here: elsewhere.is_none() && !is_before,
        };
        Ok(self.keys.told(key, &earlier, bytes.as_deref(), packed))
    }
}

/// The place of the earlier of two samples, if known.
pub(super) struct Earlier {
    /// Its index in the output.
    pub(super) index: u64,
    /// The same in words.
    pub(super) place: String,
    /// It was there before this run.
    pub(super) is_before: bool,
    /// It may be from another file.
    pub(super) is_apart: bool,
    /// It may be from the same file.
    pub(super) is_here: bool,
}

impl Earlier {
    /// A sample of a shard; the first `old` shards were there before this run.
    pub(super) fn in_shard((shard, index): (usize, usize), old: usize, path: &Path) -> Earlier {
        Earlier {
            index: index as u64,
            place: format!("sample {index} of {}", path.display()),
            is_before: shard < old,
            is_apart: true,
            is_here: shard >= old,
        }
    }
}

impl KeysOf {
    /// Whether a sample may be in several pieces, each with its key.
    pub(super) fn may_be_torn(&self) -> bool {
        self.archives
    }

    /// The error for a sample whose key this earlier one has.
    pub(super) fn told(
        &self,
        key: &str,
        earlier: &Earlier,
        bytes: Option<&[u8]>,
        packed: &[u8],
    ) -> Twin {
        let Earlier { index, place, .. } = earlier;
        let is_same = bytes == Some(packed);
        let is_torn = self.archives
            && earlier.is_here
            && !is_same
            && bytes.is_some_and(|bytes| share_no_field(bytes, packed));
        let twin = |what: &str| {
            Error::new(ErrorKind::DuplicateKey, format!("{place} {what}")).with_key(key)
        };
        let error =
            match &self.made {
                _ if is_torn => torn(key, *index),
                _ if is_same => twin("has the same key and is the same sample")
                    .with_remedy(Remedy::SkipDuplicates),
                _ if earlier.is_before => twin("was there before, has the same key and differs")
                    .with_remedy(Remedy::PrefixKeys),
                Made::Field(field) => {
                    twin(&format!("has the same key, from the field {field:?}, and differs"))
                        .with_remedy(Remedy::KeyField)
                }
                Made::Pattern => twin("has the same key by the pattern, and differs")
                    .with_remedy(Remedy::KeyField),
                Made::Before => match twin("has the same key and differs") {
                    error if earlier.is_apart => error.with_remedy(Remedy::ShardInKey),
                    error => error,
                },
            };
        Twin { error, is_same, is_torn }
    }
}

/// The files of a sample in an archive are not next to each other.
fn torn(key: &str, index: u64) -> Error {
    let message = format!(
        "expected all files of a sample next to each other, found some of them earlier, in sample {index}"
    );
    let error = Error::new(ErrorKind::Damaged, message).with_key(key);
    error.advise("sort the files in the archive by name, as tar --sort=name does")
}

/// A sample whose key an earlier one has.
pub(super) struct Twin {
    pub(super) error: Error,
    /// It is that sample again, byte for byte.
    pub(super) is_same: bool,
    /// It is a piece of that sample.
    pub(super) is_torn: bool,
}

/// Whether two samples have no field in common but the key.
fn share_no_field(one: &[u8], other: &[u8]) -> bool {
    let names = |packed: &[u8]| -> Result<HashSet<String>> {
        let mut names = HashSet::new();
        for field in sample::fields(packed)? {
            names.insert(Cursor::new(field?.0).read_str()?.to_owned());
        }
        names.remove(sample::KEY);
        Ok(names)
    };
    let checked = |packed| msgpack::check_sample(packed).is_ok();
    match (checked(one), names(one), names(other)) {
        (true, Ok(one), Ok(other)) => one.is_disjoint(&other),
        _ => false,
    }
}
