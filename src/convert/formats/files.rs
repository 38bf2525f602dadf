//! [`InputFiles`]: what readers of several files have in common: the files, and what is asked of them.

use std::path::{Path, PathBuf};

use super::def::Opening;
use super::ranges::Ranges;
use crate::convert::carried::RemarkLog;
use crate::convert::file_names::{self, KeyNames};
use crate::convert::kept_fields::KeptFields;
use crate::error::Result;
use crate::format::sample_fields::stored_name;

/// Default for the bytes of what is read at a time: somewhat less than the `bin` of msgpack can hold.
pub(super) const MAX_BYTES: u64 = 1 << 30;

/// Files that are read one after the other.
#[derive(Debug, Clone)]
pub(super) struct InputFiles {
    pub(super) ranges: Ranges,
    pub(super) names: KeyNames,
    pub(super) remarks: RemarkLog,
    /// The field that has the keys.
    pub(super) key: Option<String>,
    /// Whether a column of that name has them otherwise.
    pub(super) own_keys: bool,
    pub(super) max_bytes: u64,
    /// The fields that the conversion needs.
    pub(super) kept: KeptFields,
    /// Whether names in the files may lead out of their folder.
    pub(super) outside: bool,
}

impl InputFiles {
    /// The files of these patterns, all of which must exist.
    pub(super) fn open<P: AsRef<Path>>(
        patterns: impl IntoIterator<Item = P>,
    ) -> Result<InputFiles> {
        Ok(InputFiles::of(file_names::files(patterns)?, RemarkLog::default()))
    }

    /// These files, about which something may have been noted.
    pub(super) fn of(paths: Vec<PathBuf>, remarks: RemarkLog) -> InputFiles {
        let (names, ranges) = (KeyNames::of(&paths), Ranges::new(paths));
        let (key, own_keys, max_bytes, outside) = (None, true, MAX_BYTES, false);
        let kept = KeptFields::default();
        InputFiles { ranges, names, remarks, key, own_keys, max_bytes, kept, outside }
    }

    /// Standard input, which is read once and not by ranges.
    pub(super) fn piped() -> InputFiles {
        let names = KeyNames::of(&["stdin"]);
        InputFiles { names, ..InputFiles::of(vec![PathBuf::from("-")], RemarkLog::default()) }
    }

    pub(super) fn path(&self, file: usize) -> &Path {
        &self.ranges.paths()[file]
    }

    /// Whether the conversion needs a field of this name in the source.
    pub(super) fn needs(&self, name: &str) -> bool {
        self.key.as_deref() == Some(name) || self.kept.needs(stored_name(name))
    }

    /// The name of a file in keys.
    pub(super) fn name(&self, file: usize) -> Result<&str> {
        self.names.name(file, self.path(file))
    }

    /// Sets what a conversion asks.
    pub(super) fn ask(&mut self, sources: &Opening<'_>) {
        self.key = sources.key.map(str::to_owned);
        self.own_keys = !sources.replaces_key;
        self.max_bytes = sources.read.max_bytes.unwrap_or(self.max_bytes);
        self.outside = sources.read.allow_outside;
        self.kept = sources.kept.clone();
        self.ranges.forget();
        if let Some(bytes) = sources.unit_bytes {
            self.ranges.set_unit(bytes);
        }
    }
}

/// Methods that readers have whose field `files` is [`InputFiles`]; what they mean is up to each.
macro_rules! options_of_files {
    ($($(#[$doc:meta])* $option:ident,)*) => {
        $($crate::convert::formats::files::options_of_files!(@ $(#[$doc])* $option);)*

        /// The reader with all that a conversion asks of one.
        pub(in crate::convert) fn asked(
            mut self,
            sources: &$crate::convert::formats::def::Opening<'_>,
        ) -> Self {
            self.files.ask(sources);
            self
        }
    };
    (@ $(#[$doc:meta])* open) => {
        $(#[$doc])*
        pub fn open(path: impl AsRef<Path>) -> Result<Self> {
            Self::open_all([path])
        }
    };
    (@ $(#[$doc:meta])* key) => {
        $(#[$doc])*
        pub fn key(mut self, name: impl Into<String>) -> Self {
            self.files.key = Some(name.into());
            self
        }
    };
    (@ $(#[$doc:meta])* max_bytes) => {
        $(#[$doc])*
        pub fn max_bytes(mut self, max_bytes: u64) -> Self {
            self.files.max_bytes = max_bytes;
            self.files.ranges.forget();
            self
        }
    };
    (@ $(#[$doc:meta])* unit_bytes) => {
        $(#[$doc])*
        pub fn unit_bytes(mut self, bytes: u64) -> Self {
            self.files.ranges.set_unit(bytes);
            self
        }
    };
    (@ $(#[$doc:meta])* allow_outside) => {
        $(#[$doc])*
        pub fn allow_outside(mut self, yes: bool) -> Self {
            self.files.outside = yes;
            self.files.ranges.forget();
            self
        }
    };
}

/// Methods of an [`Input`](crate::convert::Input) whose units are ranges of its `files`.
macro_rules! units_are_ranges {
    () => {
        fn units(&self) -> usize {
            self.files.ranges.len()
        }

        fn path(&self, unit: usize) -> Option<&Path> {
            self.files.ranges.path(unit)
        }

        fn shard(&self, unit: usize) -> Option<&str> {
            self.files.names.get(self.files.ranges.file(unit))
        }

        fn bytes(&self, unit: usize) -> Option<u64> {
            self.files.ranges.bytes(unit)
        }

        fn remarks(&self, unit: usize) -> $crate::convert::Remarks {
            self.files.remarks.take(unit)
        }
    };
}

pub(super) use {options_of_files, units_are_ranges};
