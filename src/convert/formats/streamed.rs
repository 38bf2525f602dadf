//! [`Streamed`]: samples of a stream, such as standard input, which is read once and from front to back.

use super::files::InputFiles;
use crate::convert::input::Emit;
use crate::convert::{Remarks, Source};
use crate::error::{Error, Result};

/// Samples and bytes of a batch: the limit that is reached first ends it.
const BATCH: (usize, usize) = (4096, 1 << 20);

/// A reader that goes on step by step.
pub(super) trait Steps: Send {
    /// The stream, as the only one of some files: its name, and what was noted about it.
    fn files(&self) -> &InputFiles;

    /// Reads a little more, and hands the samples in it to `emit`. False at the end.
    ///
    /// # Errors
    ///
    /// Those after which nothing can be read, and what `emit` returns.
    fn step(&mut self, emit: &mut Emit<'_>) -> Result<bool>;
}

/// The steps of a reader as a [`Source`]. It is read on the thread that asks: one of its own could not be stopped while it
/// waits for the other end of a pipe.
pub(super) struct Streamed<T> {
    steps: T,
    is_over: bool,
    /// The error that ended it, once all samples before it were handed out.
    error: Option<Error>,
    remarks: Remarks,
}

impl<T: Steps> Streamed<T> {
    pub(super) fn new(steps: T) -> Streamed<T> {
        Streamed { steps, is_over: false, error: None, remarks: Remarks::default() }
    }
}

impl<T: Steps> Source for Streamed<T> {
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        let (mut samples, mut bytes) = (Vec::new(), 0);
        while !self.is_over && samples.len() < BATCH.0 && bytes < BATCH.1 {
            let mut emit = |sample: Result<Vec<u8>>| {
                bytes += sample.as_ref().map_or(0, Vec::len);
                samples.push(sample);
                Ok(())
            };
            match self.steps.step(&mut emit) {
                Ok(more) => self.is_over = !more,
                Err(error) => (self.is_over, self.error) = (true, Some(error)),
            }
        }
        let files = self.steps.files();
        self.remarks.add(&files.remarks.take(0));
        if samples.is_empty() {
            // As a sample, so that what happens to bad input decides.
            let error = self.error.take().map(|error| error.at(files.path(0)).ending_its_unit());
            samples.extend(error.map(Err));
        }
        Ok(samples)
    }

    fn locate(&self, _item: usize, error: Error) -> Error {
        error.at(self.steps.files().path(0))
    }

    fn shard(&self) -> Option<&str> {
        self.steps.files().names.get(0)
    }

    fn remarks(&self) -> [&Remarks; 2] {
        [&self.remarks, Remarks::NONE]
    }
}
