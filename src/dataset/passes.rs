//! [`Passes`]: how far long passes over the data are, and whether to go on.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::Result;

/// Bytes between two calls.
pub(super) const STEP: u64 = 4 << 20;

/// Hears how many bytes of how many have been read, on any thread. An error of it ends the work, and
/// is returned.
pub type HearBytes<'a> = dyn Fn(u64, u64) -> Result<()> + Sync + 'a;

/// Counts the bytes of the data that passes over it have read.
pub(super) struct Passes<'a> {
    done: AtomicU64,
    total: u64,
    hear: &'a HearBytes<'a>,
}

impl<'a> Passes<'a> {
    /// Passes that read this many bytes together.
    pub(super) fn new(total: u64, hear: &'a HearBytes<'a>) -> Passes<'a> {
        Passes { done: AtomicU64::new(0), total, hear }
    }

    /// This many more have been read.
    pub(super) fn add(&self, bytes: u64) -> Result<()> {
        let before = self.done.fetch_add(bytes, Relaxed);
        let now = before.saturating_add(bytes);
        match before / STEP == now / STEP {
            true => Ok(()),
            // Damaged parts may be read twice.
            false => (self.hear)(now.min(self.total), self.total),
        }
    }

    /// These bytes in pieces, each counted before it is read.
    pub(super) fn pieces(
        &self,
        range: std::ops::Range<u64>,
    ) -> impl Iterator<Item = Result<std::ops::Range<u64>>> + '_ {
        let starts = range.clone().step_by(STEP as usize);
        starts.map(move |start| {
            let piece = start..range.end.min(start + STEP);
            self.add(piece.end - piece.start).map(|()| piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::error::{Error, ErrorKind};

    #[test]
    fn a_few_calls_tell_of_all_bytes_and_may_end_the_work() {
        let heard = Mutex::new(Vec::new());
        let hear = |done: u64, total: u64| match total {
            0 => Err(Error::new(ErrorKind::Cancelled, "no more")),
            _ => {
                heard.lock().unwrap().push(done);
                Ok(())
            }
        };
        let passes = Passes::new(3 * STEP, &hear);
        (0..STEP / 1024 * 2).try_for_each(|_| passes.add(1024)).unwrap();
        let pieces: Vec<_> = passes.pieces(5..STEP + 7).map(Result::unwrap).collect();
        assert_eq!(pieces, [5..STEP + 5, STEP + 5..STEP + 7]);
        assert_eq!(*heard.lock().unwrap(), [STEP, 2 * STEP, 3 * STEP]);
        assert!(Passes::new(0, &hear).add(STEP).is_err());
    }
}
