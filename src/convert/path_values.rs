//! [`PathValues`]: values in the names of folders, such as `label=cat`, which no reader reads.

use std::path::{Component, Path, PathBuf};

use super::carried::{LeftOut, RemarkLog, Remarks};
use super::input::{Emit, Input};
use crate::error::{Error, Result};
use crate::storage;

/// An input with a remark about the names of folders that its files are in.
pub(super) struct PathValues {
    input: Box<dyn Input>,
    remarks: RemarkLog,
}

impl PathValues {
    /// The input, which reads these files.
    pub(super) fn noted(input: Box<dyn Input>, paths: &[PathBuf]) -> Box<dyn Input> {
        let mut found = paths.iter().filter(|path| has_value(path));
        let count = found.clone().count() as u64;
        let Some(first) = found.next() else { return input };
        let remarks = RemarkLog::default();
        let place = || storage::shown(first).display().to_string();
        remarks.note(0, LeftOut::PathValue, None, count, place);
        Box::new(PathValues { input, remarks })
    }
}

/// Whether a folder in this path is called `NAME=VALUE`, as Hive and Spark lay tables out.
fn has_value(path: &Path) -> bool {
    let is_value = |name: &str| match name.split_once('=') {
        Some((name, value)) => {
            let is_name = |c: char| c.is_alphanumeric() || c == '_';
            !name.is_empty() && name.chars().all(is_name) && !value.is_empty()
        }
        None => false,
    };
    let folders = path.parent().into_iter().flat_map(Path::components);
    folders.into_iter().any(|part| match part {
        Component::Normal(name) => name.to_str().is_some_and(is_value),
        _ => false,
    })
}

impl Input for PathValues {
    fn units(&self) -> usize {
        self.input.units()
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        self.input.read(unit, emit)
    }

    fn path(&self, unit: usize) -> Option<&Path> {
        self.input.path(unit)
    }

    fn bytes(&self, unit: usize) -> Option<u64> {
        self.input.bytes(unit)
    }

    fn identify(&self, add: &mut dyn FnMut(&[u8])) {
        self.input.identify(add);
    }

    fn locate(&self, unit: usize, item: u64, error: Error) -> Error {
        self.input.locate(unit, item, error)
    }

    fn remarks(&self, unit: usize) -> Remarks {
        let mut remarks = self.remarks.take(unit);
        remarks.add(&self.input.remarks(unit));
        remarks
    }

    fn shard(&self, unit: usize) -> Option<&str> {
        self.input.shard(unit)
    }

    fn len_hint(&self) -> Option<u64> {
        self.input.len_hint()
    }

    fn label_names(&self) -> Option<&[String]> {
        self.input.label_names()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_have_a_value() {
        for path in ["t/label=cat/part-0.parquet", "/data/year=2024/month=01/x.csv", "a_b=ü/x"] {
            assert!(has_value(Path::new(path)), "{path}");
        }
        for path in ["t/label=cat", "x.csv", "t/=cat/x", "t/label=/x", "a b=c/x", "t/cat/x=y.csv"] {
            assert!(!has_value(Path::new(path)), "{path}");
        }
    }
}
