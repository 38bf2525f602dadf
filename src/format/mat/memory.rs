//! How much memory the values of a file may take.

use super::element::Element;
use crate::format::FormatError;

/// The memory that is left.
#[derive(Debug)]
pub(super) struct Memory {
    left: u64,
}

impl Memory {
    pub(super) fn new(limit: u64) -> Memory {
        Memory { left: limit }
    }

    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Counts bytes that are about to be allocated for this element.
    pub(super) fn take(&mut self, bytes: usize, element: &Element<'_>) -> Result<(), FormatError> {
        let Some(left) = self.left.checked_sub(bytes as u64) else {
            let expected = format!("values of at most {} more bytes in memory", self.left);
            return Err(element.error(expected, format!("{bytes}, which the limit does not allow")));
        };
        self.left = left;
        Ok(())
    }
}
