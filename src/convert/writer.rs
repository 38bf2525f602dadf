//! [`SampleWriter`]: samples out, in any format.

use std::path::{Path, PathBuf};

use super::carried::ChangedValues;
use super::split::Assignment;
use crate::dataset::{DatasetReader, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack;

/// Writes samples in one format: one sample in at a time, and at the end the files.
///
/// The writer of datasets is one, and so is the writer of each other format; what a format cannot
/// hold, its writer refuses sample by sample.
pub trait SampleWriter: Send {
    /// Adds a packed sample: a msgpack map with its `key`.
    ///
    /// # Errors
    ///
    /// The error has the key of the sample and, where it is known, the field. Where
    /// [`refuses`](Self::refuses) says so, nothing of the sample was written, and the writer can
    /// continue.
    fn write_packed(&mut self, packed: &[u8]) -> Result<()>;

    /// Hands what is buffered to the operating system, where the format allows that.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether an error of [`write_packed`](Self::write_packed) is about this sample alone, which the
    /// format cannot hold.
    fn refuses(&self, error: &Error, packed: &[u8]) -> bool {
        let kinds = [
            ErrorKind::AlreadyExists,
            ErrorKind::Damaged,
            ErrorKind::DuplicateKey,
            ErrorKind::Invalid,
            ErrorKind::Limit,
            ErrorKind::Unsupported,
        ];
        // Without the key it is about all samples: about the disk, or the format as a whole.
        let of_it = error.key().is_some_and(|key| msgpack::check_sample(packed) == Ok(key));
        of_it && kinds.contains(&error.kind())
    }

    /// The index and the bytes of the sample that was written with this key, where they can be read again.
    #[doc(hidden)]
    fn earlier(&mut self, key: &str) -> Result<Option<(u64, Option<Vec<u8>>)>> {
        let _ = key;
        Ok(None)
    }

    /// How many samples were there before of the output that a sample with this key goes to.
    #[doc(hidden)]
    fn before(&mut self, key: &str) -> u64 {
        let _ = key;
        0
    }

    /// Values that became something else so far, because the format has no exact form for them.
    fn changes(&self) -> Vec<ChangedValues> {
        Vec::new()
    }

    /// Completes the file, and begins another one for the samples that follow, with the same columns.
    #[doc(hidden)]
    fn next_file(&mut self, path: &Path) -> Result<()> {
        let message = "expected a format whose outputs can have several files";
        Err(Error::new(ErrorKind::Unsupported, message).at(path))
    }

    /// Completes the output. Returns its files, or its directory.
    fn finish(self: Box<Self>) -> Result<Vec<PathBuf>>;
}

/// Makes a [`SampleWriter`] of a writer with the same methods, whose output is one file or directory. Where its
/// path is, and what was changed, are methods of a writer that are made here too. With `next_file` it has a method for
/// the next one of several files.
macro_rules! sample_writer {
    ($writer:ident, |$this:ident| $path:expr, $changes:expr $(, $next_file:ident)?) => {
        impl $writer {
            /// Values that became something else so far, because the format has no exact form for them.
            pub fn changes(&self) -> Vec<$crate::convert::ChangedValues> {
                let $this = self;
                $changes
            }

            /// The path of the output.
            pub fn path(&self) -> &std::path::Path {
                let $this = self;
                $path
            }
        }

        impl $crate::convert::SampleWriter for $writer {
            fn write_packed(&mut self, packed: &[u8]) -> $crate::Result<()> {
                $writer::write_packed(self, packed)
            }

            fn changes(&self) -> Vec<$crate::convert::ChangedValues> {
                $writer::changes(self)
            }

            $(
                fn $next_file(&mut self, path: &std::path::Path) -> $crate::Result<()> {
                    $writer::$next_file(self, path)
                }
            )?

            fn finish(self: Box<Self>) -> $crate::Result<Vec<std::path::PathBuf>> {
                let path = self.path().to_path_buf();
                $writer::finish(*self).map(|()| vec![path])
            }
        }
    };
}

pub(super) use sample_writer;

impl SampleWriter for Writer {
    fn write_packed(&mut self, packed: &[u8]) -> Result<()> {
        Writer::write_packed(self, packed)
    }

    fn flush(&mut self) -> Result<()> {
        // Nothing is in an object store before it is finished, so there is no hurry.
        match self.keeps_samples() {
            true => Writer::flush(self),
            false => Ok(()),
        }
    }

    /// Of its errors only these are about the sample: the last ones where its lengths are measured.
    fn refuses(&self, error: &Error, _packed: &[u8]) -> bool {
        let of_it = [ErrorKind::Damaged, ErrorKind::Limit, ErrorKind::Unsupported];
        error.kind() == ErrorKind::Invalid
            || (error.key().is_some() && of_it.contains(&error.kind()))
    }

    fn earlier(&mut self, key: &str) -> Result<Option<(u64, Option<Vec<u8>>)>> {
        Writer::earlier(self, key)
    }

    fn finish(self: Box<Self>) -> Result<Vec<PathBuf>> {
        let path = self.path().to_path_buf();
        Writer::finish(*self).map(|_| vec![path])
    }
}

/// Several datasets; each gets the samples that a split assigns to it.
pub(super) struct SplitWriter {
    pub(super) assignment: Assignment,
    /// `None` for a dataset that is complete already.
    pub(super) writers: Vec<Option<Writer>>,
    /// In the same order, where something is.
    pub(super) there: Vec<Option<Appended>>,
    /// The samples of each before it was appended to.
    pub(super) bases: Vec<u64>,
}

/// Samples behind those that a dataset had before it was appended to: a repair may have finished what a commit had
/// appended before it was killed.
pub(super) struct Appended {
    reader: DatasetReader,
    /// The next one to compare.
    next: usize,
}

impl Appended {
    /// Those of this dataset from an index on.
    pub(super) fn new(reader: DatasetReader, next: usize) -> Appended {
        Appended { reader, next }
    }

    /// Whether this sample is there. Fails if another one is.
    fn has(&mut self, packed: &[u8], key: &str, writer: &mut Writer) -> Result<bool> {
        if self.next == self.reader.len() {
            return Ok(false);
        }
        if *self.reader.get_raw(self.next)? == *packed {
            self.next += 1;
            return Ok(true);
        }
        match writer.contains_key(key)? {
            // The writer says so.
            true => Ok(false),
            false => Err(self.foreign()),
        }
    }

    /// Fails if more is there than was written.
    fn check_end(&self) -> Result<()> {
        match self.next < self.reader.len() {
            true => Err(self.foreign()),
            false => Ok(()),
        }
    }

    fn foreign(&self) -> Error {
        let message = "expected the sample that this commit appends, found another one";
        Error::new(ErrorKind::Foreign, message).at(self.reader.path()).with_index(self.next as u64)
    }
}

impl SplitWriter {
    /// Fails if more is there than was written.
    pub(super) fn check_there(&self) -> Result<()> {
        self.there.iter().flatten().try_for_each(Appended::check_end)
    }

    /// Removes what was written. The error that leads to this is the one to report.
    pub(super) fn abort(self) {
        self.writers.into_iter().flatten().for_each(|writer| drop(writer.abort()));
    }
}

impl SampleWriter for SplitWriter {
    fn write_packed(&mut self, packed: &[u8]) -> Result<()> {
        let key = msgpack::check_sample(packed)?;
        let target = self.assignment.of(key);
        let Some(writer) = &mut self.writers[target] else { return Ok(()) };
        let there = self.there.get_mut(target).and_then(Option::as_mut);
        match there.map_or(Ok(false), |there| there.has(packed, key, writer))? {
            true => Ok(()),
            false => writer.write_packed(packed),
        }
    }

    fn earlier(&mut self, key: &str) -> Result<Option<(u64, Option<Vec<u8>>)>> {
        match &mut self.writers[self.assignment.of(key)] {
            Some(writer) => writer.earlier(key),
            None => Ok(None),
        }
    }

    fn before(&mut self, key: &str) -> u64 {
        self.bases.get(self.assignment.of(key)).copied().unwrap_or(0)
    }

    fn refuses(&self, error: &Error, packed: &[u8]) -> bool {
        self.writers.iter().flatten().any(|writer| SampleWriter::refuses(writer, error, packed))
    }

    fn finish(self: Box<Self>) -> Result<Vec<PathBuf>> {
        self.writers
            .into_iter()
            .flatten()
            .map(|writer| Box::new(writer) as Box<dyn SampleWriter>)
            .map(|writer| writer.finish().map(|mut files| files.remove(0)))
            .collect()
    }
}
