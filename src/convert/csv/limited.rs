//! The bytes of a table, no more of them a row than are allowed: what is compressed may have rows that
//! no memory can hold.

use std::io::{self, Read};

/// More bytes than this are no row, if nothing else is said.
pub(in crate::convert) const MAX_BYTES: u64 = 1 << 30;

/// Reads as long as no row has too many bytes. What is read ahead of a row counts for it too, so the
/// limit is one to within the buffer of the reader.
pub(in crate::convert) struct Limited<R> {
    inner: R,
    max_bytes: u64,
    left: u64,
}

impl<R: Read> Limited<R> {
    pub(in crate::convert) fn new(inner: R, max_bytes: u64) -> Limited<R> {
        Limited { inner, max_bytes, left: max_bytes }
    }

    /// A row has ended.
    pub(in crate::convert) fn next_row(&mut self) {
        self.left = self.max_bytes;
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => {
                let message = format!("expected rows of at most {} bytes", self.max_bytes);
                let message = format!("{message}, found a longer one");
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
            }
        }
        Ok(read)
    }
}
