//! [`Bounded`]: the input of a table, which fails before a row can fill the memory, and keeps the bytes
//! of the row that is being read.

use std::error::Error as StdError;
use std::fmt;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use crate::convert::source_file::SourceFile;

/// The csv crate reads this many bytes at a time, so up to this many beyond a row.
const BUFFER: u64 = 1 << 13;
/// Bytes read from the disk at a time.
const AT_ONCE: usize = 1 << 16;

/// An input that fails in a row that is too long.
pub(in crate::convert) struct Bounded {
    input: Input,
    max_bytes: u64,
    left: u64,
    /// Where the row begins.
    row: u64,
    /// Bytes that were read of it and behind it, perhaps with some before it, and their position.
    seen: Vec<u8>,
    start: u64,
}

enum Input {
    Stream(Box<dyn Read + Send>),
    File(BufReader<SourceFile>),
}

impl Bounded {
    /// Accepts rows of up to this many bytes; up to [`BUFFER`] bytes more may be read.
    pub(in crate::convert) fn new(input: Box<dyn Read + Send>, max_bytes: u64) -> Bounded {
        Bounded::over(Input::Stream(input), max_bytes)
    }

    /// The same for a file, which is seekable.
    pub(super) fn file(file: SourceFile, max_bytes: u64) -> Bounded {
        Bounded::over(Input::File(BufReader::with_capacity(AT_ONCE, file)), max_bytes)
    }

    fn over(input: Input, max_bytes: u64) -> Bounded {
        let mut bounded = Bounded { input, max_bytes, left: 0, row: 0, seen: Vec::new(), start: 0 };
        bounded.begin_row(0);
        bounded
    }

    /// Starts to count the bytes of the next row, which begins at this one.
    pub(super) fn begin_row(&mut self, at: u64) {
        self.left = self.max_bytes.saturating_add(BUFFER);
        self.row = at;
    }

    /// The bytes of the row that is being read, or of a part of it.
    pub(super) fn row(&self, start: u64, end: u64) -> &[u8] {
        let at = |place: u64| {
            let place = usize::try_from(place.saturating_sub(self.start)).unwrap_or(usize::MAX);
            place.min(self.seen.len())
        };
        &self.seen[at(start)..at(end).max(at(start))]
    }

    /// Bytes read since the row began.
    pub(super) fn seen(&self) -> &[u8] {
        self.row(self.row, u64::MAX)
    }

    fn keep(&mut self, read: &[u8]) {
        // Bytes before the row go only here: a read has many rows.
        let done = usize::try_from(self.row.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let done = done.min(self.seen.len());
        self.seen.drain(..done);
        self.start += done as u64;
        self.seen.extend_from_slice(read);
    }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::other(TooLong(self.max_bytes)));
        }
        let len = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = match &mut self.input {
            Input::Stream(input) => input.read(&mut buffer[..len])?,
            Input::File(file) => file.read(&mut buffer[..len])?,
        };
        self.left -= read as u64;
        self.keep(&buffer[..read]);
        Ok(read)
    }
}

impl Seek for Bounded {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match &mut self.input {
            Input::Stream(_) => Err(io::ErrorKind::Unsupported.into()),
            Input::File(file) => {
                self.start = file.seek(to)?;
                self.seen.clear();
                Ok(self.start)
            }
        }
    }
}

/// Whether the error says that a row is too long.
pub(super) fn is_too_long(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<TooLong>())
}

#[derive(Debug)]
struct TooLong(u64);

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected rows of at most {} bytes, found a longer one", self.0)
    }
}

impl StdError for TooLong {}
