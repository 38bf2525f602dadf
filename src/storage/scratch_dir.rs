//! [`ScratchDir`]: a directory for temporary files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use super::random;
use crate::error::{Error, Result};

/// A directory for temporary files that only this user can read, removed when it is dropped.
#[derive(Debug)]
#[must_use = "dropped, it is removed"]
pub struct ScratchDir {
    path: PathBuf,
    /// A process that is forked from this one leaves it alone.
    process: u32,
}

impl ScratchDir {
    /// Creates it where the system keeps temporary files.
    pub fn create() -> Result<ScratchDir> {
        // Threads create theirs at the same time.
        let name = format!("kiste-{}-{:016x}", process::id(), random());
        let path = std::env::temp_dir().join(name);
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        // A directory that exists is an error, so this one can only be ours.
        match builder.create(&path) {
            Ok(()) => Ok(ScratchDir { path, process: process::id() }),
            Err(error) => Err(Error::io(&path, error)),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if self.process == process::id() {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
