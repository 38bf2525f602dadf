//! [`AsLines`]: a JSON array read as lines.

use std::io::{self, Read};

use crate::convert::decoded::{Decoded, TextEncoding};
use crate::format::jsonl::array::Elements;

/// Bytes that are read at a time.
const STEP: usize = 1 << 16;

/// A text in which the elements of an array are lines. JSON lines stay as they are.
pub(super) struct AsLines<R> {
    input: Decoded<R>,
    elements: Elements,
    buffer: Vec<u8>,
    lines: Vec<u8>,
    /// Bytes of `lines` that were handed out.
    read: usize,
    /// Why the text is no array: reported after the elements before it.
    flaw: Option<String>,
    is_over: bool,
}

impl<R: Read> AsLines<R> {
    pub(super) fn new(input: R) -> AsLines<R> {
        let input = Decoded::new(input, None);
        let (elements, buffer, lines) = (Elements::default(), vec![0; STEP], Vec::new());
        AsLines { input, elements, buffer, lines, read: 0, flaw: None, is_over: false }
    }

    /// The encoding of the text; `None` is UTF-8.
    pub(super) fn set_encoding(&mut self, encoding: Option<TextEncoding>) {
        self.input.set(encoding);
    }

    /// Whether it is an array: no, until enough of it was read.
    pub(super) fn is_array(&self) -> bool {
        self.elements.is_array()
    }

    /// Reads on until there are lines, or the end.
    fn fill(&mut self) -> io::Result<()> {
        self.lines.clear();
        self.read = 0;
        while self.lines.is_empty() && !self.is_over {
            let read = match self.input.read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            let pushed = match read {
                0 => self.elements.finish(&mut self.lines),
                read => self.elements.push(&self.buffer[..read], &mut self.lines),
            };
            self.is_over = read == 0 || pushed.is_err();
            self.flaw = pushed.err();
        }
        Ok(())
    }
}

impl<R: Read> Read for AsLines<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.read == self.lines.len() {
            if let Some(flaw) = self.flaw.take() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, flaw));
            }
            self.fill()?;
        }
        let left = &self.lines[self.read..];
        let len = left.len().min(out.len());
        out[..len].copy_from_slice(&left[..len]);
        self.read += len;
        match (len, self.flaw.is_some()) {
            // What is wrong is the first thing that was read.
            (0, true) => self.read(out),
            _ => Ok(len),
        }
    }
}
