//! [`ZipSink`]: `ZipWriter` panics, or prints to standard error, if the end of an archive cannot be
//! written. So it never hears of an error.

use std::io::{self, Seek, SeekFrom, Write};

/// An output that accepts everything after its first error, which it keeps.
pub(crate) struct ZipSink<'a, W> {
    out: &'a mut W,
    error: Option<io::Error>,
    at: u64,
    end: u64,
}

impl<'a, W> ZipSink<'a, W> {
    /// Writes to `out`.
    pub(crate) fn new(out: &'a mut W) -> ZipSink<'a, W> {
        ZipSink { out, error: None, at: 0, end: 0 }
    }

    /// The first error, if there was one.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.error.map_or(Ok(()), Err)
    }
}

impl<W: Write> Write for ZipSink<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &self.error {
            Some(_) => bytes.len(),
            None => match self.out.write(bytes) {
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
                Err(error) => {
                    self.error = Some(error);
                    bytes.len()
                }
            },
        };
        self.at += written as u64;
        self.end = self.end.max(self.at);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.error.is_none() {
            self.error = self.out.flush().err();
        }
        Ok(())
    }
}

impl<W: Write + Seek> Seek for ZipSink<'_, W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        if self.error.is_none() {
            self.error = self.out.seek(to).err();
        }
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.end.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
