//! The problems of a dataset.

use crate::error::Shown;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::dataset::names::names_index;
use crate::format::FormatError;
use crate::format::dataset::SideFile;
use crate::text::units;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VerifyProblem {
    /// The file.
    #[serde(serialize_with = "crate::error::serialize_path")]
    pub file: PathBuf,
    /// The sample, where one is concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// Its key, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The bytes of the file, where they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Range<u64>>,
    /// The expected and the found value.
    pub message: String,
}

impl VerifyProblem {
    pub(super) fn new(file: &Path, message: impl Into<String>) -> VerifyProblem {
        let (file, message) = (file.to_path_buf(), message.into());
        VerifyProblem { file, index: None, key: None, bytes: None, message }
    }

    pub(super) fn at_format(file: &Path, error: FormatError) -> VerifyProblem {
        VerifyProblem::new(file, error.to_string())
    }

    pub(super) fn index(mut self, index: usize) -> VerifyProblem {
        self.index = Some(index as u64);
        self
    }

    pub(super) fn key(mut self, key: &[u8]) -> VerifyProblem {
        self.key = Some(String::from_utf8_lossy(key).into_owned());
        self
    }

    pub(super) fn bytes(mut self, bytes: Range<u64>) -> VerifyProblem {
        self.bytes = Some(bytes);
        self
    }
}

impl std::fmt::Display for VerifyProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", Shown::of(&self.file))?;
        if let Some(index) = self.index {
            write!(f, "sample {index}: ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "key {key:?}: ")?;
        }
        if let Some(bytes) = &self.bytes {
            write!(f, "bytes {}..{}: ", bytes.start, bytes.end)?;
        }
        f.write_str(&self.message)
    }
}

/// How to mend a dataset: see [`VerifyReport::cure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cure {
    /// Nothing is wrong, and nothing is missing.
    None,
    /// Nothing is wrong, but side files are missing, which [`index`](crate::index) makes.
    MakeMissing,
    /// An unfinished write, which [`Repair`](crate::repair::Repair) finishes or undoes.
    Repair,
    /// The data is damaged: [`salvage`](crate::repair::Repair::salvage) saves all whole samples.
    Salvage,
    /// Samples have labels that `.labels` has no names for: only a person knows which of both is right.
    NameLabels,
    /// The files of samples in place are no longer as they were indexed: they have to be indexed again.
    IndexAgain,
    /// The data is good, but side files are not: [`index`](crate::index) rebuilds this one, or all.
    Rebuild(Option<SideFile>),
}

/// The report of [`Verify::run`](super::Verify::run).
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Samples, by the offsets or else by the list of keys.
    pub samples: u64,
    /// Bytes of the data file.
    pub bytes: u64,
    /// All problems. Empty means that no check found one.
    pub problems: Vec<VerifyProblem>,
    /// Remarks that are not problems: that the dataset was renamed.
    pub remarks: Vec<VerifyProblem>,
    /// Side files that are not there, and so were not checked. This is no problem as such: a reader
    /// does without them, and [`index`](crate::index) makes them.
    #[serde(serialize_with = "crate::error::serialize_paths")]
    pub missing: Vec<PathBuf>,
    /// Files whose MD5 was compared.
    #[serde(serialize_with = "crate::error::serialize_paths")]
    pub digests: Vec<PathBuf>,
    /// Samples that were compared with their checksum in `.crc`. Zero if there is no such file, or
    /// if it cannot be believed, which is a problem.
    pub checksums: u64,
    /// Whether every sample was decoded.
    pub deep: bool,
    /// Whether a writer was at work on the dataset. The dataset that was checked is the one that
    /// readers see until that writer is done.
    pub being_written: bool,
    /// A directory that a killed writer left, without anything of value: the last that it does is
    /// to remove it. [`Repair`](crate::repair::Repair) removes it.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "crate::error::serialize_maybe"
    )]
    pub leftover: Option<PathBuf>,
}

impl VerifyReport {
    /// Whether no check found a problem.
    pub fn is_good(&self) -> bool {
        self.problems.is_empty()
    }

    /// How to mend the dataset with this data file, if that is known. A report may be about several datasets.
    pub fn cure(&self, data: &Path) -> Cure {
        let is_its = |file: &PathBuf| data_of(file) == data;
        let files =
            || self.problems.iter().map(|problem| &problem.file).filter(|file| is_its(file));
        let labels = crate::dataset::labels_path(data);
        let only = |side| files().all(|file| SideFile::of(file) == Some(side));
        let is_good = files().next().is_none();
        let is_index = names_index(data);
        match () {
            () if is_index && is_good && !self.missing.iter().any(is_its) => Cure::None,
            () if only(SideFile::Lengths) && !is_good => Cure::Rebuild(Some(SideFile::Lengths)),
            () if is_index => Cure::IndexAgain,
            () if files().any(|file| is_partial(file)) => Cure::Repair,
            () if files().any(|file| file == data) => Cure::Salvage,
            () if is_good && !self.missing.iter().any(is_its) => Cure::None,
            () if is_good => Cure::MakeMissing,
            () if files().all(|file| *file == labels) => Cure::NameLabels,
            () if only(SideFile::Crc) => Cure::Rebuild(Some(SideFile::Crc)),
            () if only(SideFile::Lookup) => Cure::Rebuild(Some(SideFile::Lookup)),
            // Either they are wrong or the data is.
            () if !self.proves(data) && files().any(|file| is_evidence(file)) => Cure::Salvage,
            () => Cure::Rebuild(None),
        }
    }

    /// The data files that something is wrong with, or whose side files are missing.
    pub fn concerned(&self) -> Vec<PathBuf> {
        let problems = self.problems.iter().map(|problem| &problem.file);
        let mut all = Vec::new();
        for data in problems.chain(&self.missing).map(|file| data_of(file)) {
            if !all.contains(&data) {
                all.push(data);
            }
        }
        all
    }

    /// Whether this data file has its MD5, or all of its samples have their checksums.
    pub fn proves(&self, data: &Path) -> bool {
        let is_compared = self.digests.iter().any(|file| file == data);
        let is_wrong = self.problems.iter().any(|problem| problem.file == data);
        !is_wrong && (is_compared || self.checksums > 0 && self.checksums == self.samples)
    }

    /// The problems as lines: of each kind the first ones, at most this many, and then how many more
    /// there are.
    pub fn lines(&self, listed: u64) -> Vec<String> {
        let mut counts: BTreeMap<(&Path, String), u64> = BTreeMap::new();
        let mut lines = Vec::new();
        for problem in &self.problems {
            let count = counts.entry((&problem.file, kind_of(&problem.message))).or_default();
            *count += 1;
            if *count <= listed {
                lines.push(problem.to_string());
            }
        }
        for ((file, kind), count) in &counts {
            if let Some(more @ 1..) = count.checked_sub(listed) {
                let (file, more) = (Shown::of(&file), units::count(more));
                lines.push(format!("{file}: and {more} more of this kind: {kind}"));
            }
        }
        lines
    }
}

/// The data file of the dataset that a file belongs to.
fn data_of(file: &Path) -> PathBuf {
    let is_labels = file.extension().is_some_and(|extension| extension == "labels");
    match is_partial(file) || is_labels {
        true => file.with_extension(""),
        false => SideFile::data_of(file),
    }
}

fn is_partial(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "partial")
}

/// Whether a file tells which samples there were.
fn is_evidence(file: &Path) -> bool {
    matches!(SideFile::of(file), Some(SideFile::Offsets | SideFile::Keys | SideFile::Index))
}

/// The common part of problems that differ only in numbers, digests and names.
fn kind_of(message: &str) -> String {
    let mut kind = String::new();
    for (at, part) in message.split('"').enumerate() {
        if at % 2 == 1 {
            kind += "\"…\"";
            continue;
        }
        let words = part.split_inclusive(|c: char| !c.is_alphanumeric());
        kind.extend(words.map(|word| {
            let end = word.find(|c: char| !c.is_alphanumeric()).unwrap_or(word.len());
            // A checksum may have no digit in it, but no word of eight letters is hexadecimal.
            let is_number = (word[..end].contains(|c: char| c.is_ascii_digit()) || end >= 8)
                && word[..end].bytes().all(|b| b.is_ascii_hexdigit());
            if is_number { format!("…{}", &word[end..]) } else { word.to_owned() }
        }));
    }
    // Digits in groups.
    while kind.contains("…,…") {
        kind = kind.replace("…,…", "…");
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_mends_a_dataset_follows_from_where_it_is_damaged() {
        let data = Path::new("a.msgpack");
        let report = |files: &[&str], missing: &[&str]| {
            let problem = |file: &&str| VerifyProblem::new(Path::new(file), "wrong");
            VerifyReport {
                samples: 0,
                bytes: 0,
                problems: files.iter().map(problem).collect(),
                remarks: Vec::new(),
                missing: missing.iter().map(PathBuf::from).collect(),
                digests: vec![data.to_path_buf()],
                checksums: 0,
                deep: false,
                being_written: false,
                leftover: None,
            }
        };
        let cure = |files: &[&str], missing: &[&str]| report(files, missing).cure(data);
        assert_eq!(cure(&[], &[]), Cure::None);
        assert_eq!(cure(&[], &["a.msgpack.md5"]), Cure::MakeMissing);
        assert_eq!(cure(&["a.msgpack", "a.msgpack.partial"], &[]), Cure::Repair);
        assert_eq!(cure(&["a.msgpack.crc", "a.msgpack"], &[]), Cure::Salvage);
        assert_eq!(cure(&["a.msgpack.crc"], &[]), Cure::Rebuild(Some(SideFile::Crc)));
        assert_eq!(cure(&["a.msgpack.crc", "a.msgpack.keys"], &[]), Cure::Rebuild(None));
        assert_eq!(cure(&["a.msgpack.lengths"], &[]), Cure::Rebuild(Some(SideFile::Lengths)));
        // Without proof of the data, what tells of other samples may be right.
        for (file, expected) in [
            ("a.msgpack.offsets", Cure::Salvage),
            ("a.msgpack.keys", Cure::Salvage),
            ("a.msgpack.filter", Cure::Rebuild(None)),
        ] {
            let report = VerifyReport { digests: Vec::new(), ..report(&[file], &[]) };
            assert_eq!((report.cure(data), report.proves(data)), (expected, false));
        }
        // Several datasets each have their own.
        let report = report(&["b.msgpack", "a.msgpack.filter"], &["c.msgpack.md5"]);
        let concerned = report.concerned();
        let cures: Vec<Cure> = concerned.iter().map(|data| report.cure(data)).collect();
        assert_eq!(cures, [Cure::Salvage, Cure::Rebuild(None), Cure::MakeMissing]);
    }

    #[test]
    fn problems_that_differ_in_numbers_are_of_one_kind() {
        for (a, b) in [
            ("expected 5 bytes, found 1,234", "expected 5 bytes, found 6"),
            ("found the key \"a 1\" at 3", "found the key \"it's\" at 14"),
            ("the MD5 0f3a is not afcbfdfb", "the MD5 1234 is not 99ff"),
        ] {
            assert_eq!(kind_of(a), kind_of(b));
        }
        assert_eq!(kind_of("expected a bad face"), "expected a bad face");
        assert_ne!(kind_of("expected 1 byte"), kind_of("expected 1 key"));
    }
}
