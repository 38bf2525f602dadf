//! [`ExportForm`]: the files that an output in another format than a dataset is made of, and their names.

use std::fs;
use std::path::{Path, PathBuf};

use super::conversion::Conversion;
use super::export_dir::dir_of;
use super::format::{Format, Output};
use super::formats::def::NewOutput;
use super::formats::webdataset::prefix;
use super::shard_limit::ShardLimit;
use super::sharded_writer::{ShardedWriter, shard_path};
use super::writer::SampleWriter;
use crate::error::{Error, Result};
use crate::format::dataset::shards::MAX_SHARDS;

/// A format, and where its shards end, if that was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExportForm {
    pub(super) format: Format,
    pub(super) limit: Option<ShardLimit>,
}

impl Conversion {
    /// The limit that was asked for.
    pub(super) fn shard_limit(&self) -> Option<ShardLimit> {
        let (bytes, samples) = (self.options.shard_size, self.options.shard_samples);
        bytes.or(samples)?;
        let or_none = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
        Some(ShardLimit { bytes: or_none(bytes), samples: or_none(samples) })
    }

    /// The form of the output in this format.
    pub(super) fn export_form(&self, format: Format) -> ExportForm {
        ExportForm { format, limit: self.shard_limit() }
    }
}

impl ExportForm {
    /// As the format has it, if nothing else is asked for.
    #[cfg(feature = "stat")]
    pub(super) fn of(format: Format) -> ExportForm {
        ExportForm { format, limit: None }
    }

    /// Whether a format of one file becomes several.
    pub(super) fn is_cut(self) -> bool {
        self.limit.is_some() && self.format.output() == Output::File
    }

    pub(super) fn output(self) -> Output {
        if self.is_cut() { Output::Shards } else { self.format.output() }
    }

    /// The writer of an output.
    pub(super) fn writer(
        self,
        path: &Path,
        labels: Option<&[String]>,
    ) -> Result<Box<dyn SampleWriter>> {
        let create = |path: &Path| {
            (self.format.def().create)(&NewOutput { path, labels, limit: self.limit })
        };
        match self.limit.filter(|_| self.is_cut()) {
            Some(limit) => Ok(Box::new(ShardedWriter::create(path, limit, create)?)),
            None => create(path),
        }
    }

    /// Whether a file or folder is what this output would be made of.
    pub(super) fn is_of(self, path: &Path, made: &Path) -> bool {
        match self.output() {
            Output::Shards => {
                self.is_shard(path, &made.file_name().unwrap_or_default().to_string_lossy())
            }
            _ => made.file_name() == path.file_name(),
        }
    }

    fn is_shard(self, path: &Path, name: &str) -> bool {
        if self.is_cut() {
            return is_shard_of(path, name);
        }
        let prefix = format!("{}-", prefix(path).display());
        let number = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(".tar"));
        // A date in the name of another file is no number of a shard.
        let is_number = |n: &str| n.len() == 6 || (n.len() == 7 && !n.starts_with('0'));
        number.is_some_and(|n| is_number(n) && n.bytes().all(|b| b.is_ascii_digit()))
    }

    /// The names that an output has and that are needed to make it, without numbers of shards.
    pub(super) fn names_of(self, path: &Path) -> [PathBuf; 2] {
        let name = match self.output() {
            Output::Shards if !self.is_cut() => path.with_file_name(prefix(path)),
            _ => path.to_path_buf(),
        };
        [name, dir_of(path)]
    }

    /// The shards that are there, sorted.
    pub(super) fn shards(self, path: &Path) -> Result<Vec<PathBuf>> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let mut shards = Vec::new();
        for entry in fs::read_dir(parent).map_err(|error| Error::io(parent, error))? {
            let name = entry.map_err(|error| Error::io(parent, error))?.file_name();
            if self.is_shard(path, &name.to_string_lossy()) {
                shards.push(path.with_file_name(name));
            }
        }
        shards.sort();
        Ok(shards)
    }

    /// The existing files, or the folder, of an output.
    pub(super) fn files_of(self, path: &Path) -> Result<Vec<PathBuf>> {
        match self.output() {
            Output::Shards => self.shards(path),
            _ => Ok(vec![path.to_path_buf()]),
        }
    }
}

/// Whether this is the name of a shard of an output: with a number that one may have, written as a writer does it. A
/// date in the name of another file is none.
fn is_shard_of(path: &Path, name: &str) -> bool {
    let numbers = name.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u64>().ok());
    numbers.filter(|number| *number < MAX_SHARDS as u64).any(|number| {
        let shard = shard_path(path, number);
        shard.file_name().is_some_and(|shard| shard.to_string_lossy() == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_shards_are_those_that_a_writer_gives() {
        let path = Path::new("data/x-2024.v1.jsonl");
        let name = |number| shard_path(path, number).file_name().unwrap().display().to_string();
        for number in [0, 7, 99_999, 100_000, MAX_SHARDS as u64 - 1] {
            assert!(is_shard_of(path, &name(number)), "{}", name(number));
        }
        assert_eq!(name(7), "x-2024.v1-00007.jsonl");
        for other in [
            name(MAX_SHARDS as u64),
            name(20_240_101),
            "x-2024.v1.jsonl".to_owned(),
            "x-2024.v1-0007.jsonl".to_owned(),
            "x-2024.v1-000007.jsonl".to_owned(),
            "x-2024.v1-00007.jsonl.gz".to_owned(),
            "y-2024.v1-00007.jsonl".to_owned(),
            "x-2024.v1-00007-00007.jsonl".to_owned(),
            "x-2024.v1-99999999999999999999.jsonl".to_owned(),
        ] {
            assert!(!is_shard_of(path, &other), "{other}");
        }
        assert!(is_shard_of(Path::new("x"), "x-00007") && !is_shard_of(Path::new("x"), "x-7"));
    }
}
