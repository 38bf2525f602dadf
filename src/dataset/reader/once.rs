//! What is opened when it is first needed.

use std::sync::OnceLock;

use crate::error::Result;

/// What was opened, or is now. Nothing waits: another thread may have been faster, and what it opened is as good.
pub(super) fn get_or_open<T>(cell: &OnceLock<T>, open: impl FnOnce() -> Result<T>) -> Result<&T> {
    match cell.get() {
        Some(opened) => Ok(opened),
        None => {
            let opened = open()?;
            Ok(cell.get_or_init(|| opened))
        }
    }
}
