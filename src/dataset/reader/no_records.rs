//! In place of samples in other files, in builds that cannot read those.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::dataset::names::names_index;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::reader::{FieldContent, Location};
use crate::storage::{Source, Storage};

/// There are none.
pub(crate) enum Records {}

impl Records {
    pub(super) fn of(
        _storage: &Arc<dyn Storage>,
        path: &Path,
        _file: &Source,
        _confined: bool,
    ) -> Result<Option<Records>> {
        if !names_index(path) {
            return Ok(None);
        }
        let error = Error::new(ErrorKind::Unsupported, "samples in place are not in this build");
        Err(error.at(path).with_remedy(Remedy::Feature("convert")))
    }

    pub(super) fn len(&self) -> u64 {
        match *self {}
    }

    #[cfg(feature = "arrow")]
    pub(super) fn count(&self) -> usize {
        match *self {}
    }

    #[cfg(feature = "arrow")]
    pub(super) fn map(&self, _number: usize) -> Option<&[u8]> {
        match *self {}
    }

    pub(super) fn samples(&self) -> u64 {
        match *self {}
    }

    pub(super) fn is_remote(&self) -> bool {
        match *self {}
    }

    pub(super) fn sample(&self, _index: usize, _addresses: &Range<u64>) -> Result<Vec<u8>> {
        match *self {}
    }

    pub(super) fn key(&self, _index: usize, _addresses: &Range<u64>) -> Result<String> {
        match *self {}
    }

    pub(super) fn field(
        &self,
        _index: usize,
        _addresses: &Range<u64>,
        _name: &str,
    ) -> Result<Option<Vec<u8>>> {
        match *self {}
    }

    pub(super) fn read_fields(
        &self,
        _index: usize,
        _addresses: &Range<u64>,
        _names: &[&str],
        _take: &mut dyn FnMut(&str, FieldContent<'_>) -> Result<()>,
    ) -> Result<()> {
        match *self {}
    }

    pub(super) fn locate(&self, _index: usize, _addresses: &Range<u64>) -> Location {
        match *self {}
    }

    pub(super) fn fetch(&self, _samples: &[(usize, Range<u64>)], _in_order: bool) -> Result<()> {
        match *self {}
    }

    pub(super) fn will_need(&self, _samples: &[(usize, Range<u64>)]) {
        match *self {}
    }
}
