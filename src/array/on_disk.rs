//! Arrays of their own are on disks: a URL is refused, which the local file system would take for a directory
//! with the name of the scheme.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::storage;

/// Fails for a URL.
pub(crate) fn expect_on_disk(path: &Path) -> Result<()> {
    if !storage::is_url(path) {
        return Ok(());
    }
    let message = "expected a path on a disk, found a URL, where only arrays in samples can be";
    let error = Error::new(ErrorKind::Unsupported, message).at(storage::shown(path));
    Err(error.advise("copy it to a disk or from there, or mount it"))
}
