//! Samples from a source to a writer.

use super::Source;
use crate::dataset::Writer;
use crate::error::{Error, ErrorKind, Result};

/// A batch of fewer bytes is from a source that had no more just now: it may be a while until the
/// next one, so what there is goes to the file.
const TRICKLE: u64 = 16 << 10;

/// What becomes of a sample whose key is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// The conversion stops with an error.
    Refuse,
    /// The first one stays, later ones are passed over.
    Skip,
}

/// Looks on while samples are passed, and decides what becomes of bad ones.
pub trait Observer {
    /// A sample of the input is bad: [`is_bad_input`]. An error ends the conversion. Default: this
    /// very one.
    fn bad(&mut self, error: Error) -> Result<()> {
        Err(error)
    }

    /// A sample was written.
    fn written(&mut self, packed: &[u8]) {
        let _ = packed;
    }

    /// The next batch has come and is about to be passed: the writer has all those before it.
    fn passed(&mut self, source: &dyn Source, passed: &Passed, writer: &mut Writer) -> Result<()> {
        let _ = (source, passed, writer);
        Ok(())
    }
}

/// How much was passed so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// Samples that the source gave, bad ones included.
    pub seen: u64,
    /// Samples that were written.
    pub written: u64,
    /// Samples that were left out because their key was there before.
    pub skipped: u64,
}

/// Whether an error is the fault of what is read, so that one may go on with what comes next. What
/// the operating system refuses, or another writer, is not.
pub fn is_bad_input(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Damaged
            | ErrorKind::Invalid
            | ErrorKind::Limit
            | ErrorKind::NotFound
            | ErrorKind::Unsupported
    )
}

/// Writes all samples of a source, and says how many were passed over; stops at the first error.
/// `progress` hears how many samples were seen so far.
pub fn convert(
    source: &mut dyn Source,
    writer: &mut Writer,
    duplicates: Duplicates,
    progress: impl FnMut(u64),
) -> Result<u64> {
    struct Seen<P>(P);
    impl<P: FnMut(u64)> Observer for Seen<P> {
        fn passed(&mut self, _: &dyn Source, passed: &Passed, _: &mut Writer) -> Result<()> {
            (self.0)(passed.seen);
            Ok(())
        }
    }
    let passed = pass(source, writer, duplicates, u64::MAX, &mut Seen(progress))?;
    Ok(passed.skipped)
}

/// Writes the samples of a source until the writer has `limit` of them.
pub fn pass(
    source: &mut dyn Source,
    writer: &mut Writer,
    duplicates: Duplicates,
    limit: u64,
    observer: &mut dyn Observer,
) -> Result<Passed> {
    let mut passed = Passed::default();
    while writer.len() < limit {
        let batch = source.next_batch()?;
        if batch.is_empty() {
            break;
        }
        observer.passed(source, &passed, writer)?;
        let before = writer.bytes();
        for (item, sample) in batch.into_iter().enumerate() {
            if writer.len() == limit {
                break;
            }
            passed.seen += 1;
            let written = match &sample {
                Ok(packed) => writer.write_packed(packed),
                Err(_) => Ok(()),
            };
            match (sample, written) {
                (Ok(packed), Ok(())) => {
                    passed.written += 1;
                    observer.written(&packed);
                }
                (Ok(_), Err(error))
                    if error.kind() == ErrorKind::DuplicateKey
                        && duplicates == Duplicates::Skip =>
                {
                    passed.skipped += 1;
                }
                // Of its errors only this one is about the sample.
                (Ok(packed), Err(error)) if error.kind() == ErrorKind::Invalid => {
                    observer.bad(source.locate(item, error).with_raw(packed))?;
                }
                (Ok(_), Err(error)) => return Err(source.locate(item, error)),
                (Err(error), _) if is_bad_input(&error) => observer.bad(error)?,
                (Err(error), _) => return Err(error),
            }
        }
        if writer.bytes() - before < TRICKLE {
            writer.flush()?;
        }
    }
    observer.passed(source, &passed, writer)?;
    Ok(passed)
}
