//! The decoders of the Arrow crates on a file.

use std::path::Path;

use crate::error::Result;
use crate::format::arrow::decoder::{self, Flaw};

/// Runs a third-party decoder on a file's untrusted bytes. What it worked on must not be used again if it panics.
pub(super) fn guarded<T, E: Into<Flaw>>(
    path: &Path,
    run: impl FnOnce() -> Result<T, E>,
) -> Result<T> {
    decoder::guarded(run).map_err(|error| error.at(path))
}
