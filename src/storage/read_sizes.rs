//! How many bytes to hand to the kernel in one call, so that a map of the file is read fast.
//!
//! The page cache takes the bytes of one call in pages as large as the call. A map of large pages is read with
//! few page faults, and a page of 2 MiB needs one in place of dozens. Large pages are also the cheapest to write,
//! as long as the memory is at hand. A virtual machine may have given it back to its host, however, and then
//! writes in calls of 2 MiB at a tenth of its usual speed, while it still has smaller pages. No call tells
//! beforehand, so this watches how long the calls take: where two in a row are slow, the next ones are smaller, and after a
//! while it tries again.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Bytes in one call, the best first. Each divides the one before it.
const SIZES: [usize; 3] = [2 << 20, 1 << 20, 256 << 10];
/// A call is slow that takes more nanoseconds than this for a byte, an eighth of the usual speed. One alone may have
/// waited for something else; two in a row did not.
const SLOW: u64 = 2;
/// Bytes after which a larger size is tried again: each time it fails, after twice as many.
const AGAIN: u64 = 64 << 20;
/// The most of them.
const MOST: u64 = 4 << 30;

/// The size that was right last, with which the next file begins.
static LAST: AtomicUsize = AtomicUsize::new(0);

/// Sizes the calls that write a file.
#[derive(Debug)]
pub(super) struct Pieces {
    /// Which of the [`SIZES`].
    size: usize,
    /// Bytes left until a larger one is tried.
    until: u64,
    /// The number of bytes to wait after the next failure.
    again: u64,
    /// Whether the last call was slow.
    was_slow: bool,
}

impl Pieces {
    pub(super) fn new() -> Pieces {
        Pieces::of_size(LAST.load(Relaxed).min(SIZES.len() - 1))
    }

    fn of_size(size: usize) -> Pieces {
        Pieces { size, until: AGAIN, again: AGAIN, was_slow: false }
    }

    /// How many bytes to write next of these, at this place in the file: up to a multiple of the size.
    pub(super) fn next(&self, at: u64, bytes: usize) -> usize {
        let size = SIZES[self.size];
        bytes.min(size - (at % size as u64) as usize)
    }

    /// Whether the time of a call with this many bytes says something: only a whole piece does.
    pub(super) fn is_telling(&self, bytes: usize) -> bool {
        bytes == SIZES[self.size]
    }

    /// A call wrote this many bytes, and took this long where that [is telling](Self::is_telling).
    pub(super) fn wrote(&mut self, bytes: usize, took: Option<Duration>) {
        let Some(took) = took else { return self.pass(bytes) };
        let is_slow = took.as_nanos() > (bytes as u64 * SLOW).into();
        let is_slow_again = is_slow && self.was_slow;
        self.was_slow = is_slow && !is_slow_again;
        if is_slow_again && self.size + 1 < SIZES.len() {
            self.size += 1;
            self.until = self.again;
            self.again = MOST.min(self.again * 2);
            LAST.store(self.size, Relaxed);
            return;
        }
        self.pass(bytes);
    }

    /// Comes nearer to the next attempt.
    fn pass(&mut self, bytes: usize) {
        if self.size > 0 {
            self.until = self.until.saturating_sub(bytes as u64);
            if self.until == 0 {
                self.size -= 1;
                self.until = self.again;
                LAST.store(self.size, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes this many bytes where a byte of a call of some size takes this many nanoseconds; how many were
    /// written in calls of each size.
    fn write(pieces: &mut Pieces, bytes: u64, mut cost: impl FnMut(usize) -> f64) -> [u64; 3] {
        let (mut at, mut by_size) = (0, [0; 3]);
        while at < bytes {
            let n = pieces.next(at, (bytes - at) as usize);
            assert!((1..=SIZES[0]).contains(&n));
            let took = Duration::from_nanos((n as f64 * cost(n)) as u64);
            if let Some(size) = SIZES.iter().position(|&size| size == n) {
                by_size[size] += n as u64;
            }
            let took = pieces.is_telling(n).then_some(took);
            pieces.wrote(n, took);
            at += n as u64;
        }
        by_size
    }

    #[test]
    fn where_nothing_is_slow_all_pieces_are_large() {
        let all = 1 << 30;
        assert_eq!(write(&mut Pieces::of_size(0), all, |_| 0.3), [all, 0, 0]);
    }

    #[test]
    fn where_large_ones_are_slow_they_are_rare() {
        let all = 8 << 30;
        let [large, middle, small] =
            write(&mut Pieces::of_size(0), all, |n| if n > 1 << 20 { 3. } else { 0.3 });
        assert!(large <= 32 << 20, "{large}");
        assert_eq!((large + middle, small), (all, 0));

        let [large, middle, small] =
            write(&mut Pieces::of_size(0), all, |n| if n > 1 << 18 { 3. } else { 0.3 });
        assert!(large + middle <= 64 << 20, "{large} {middle}");
        assert!(small > all - (64 << 20));
    }

    #[test]
    fn where_all_is_slow_it_ends_all_the_same() {
        let [large, middle, small] = write(&mut Pieces::of_size(0), 1 << 30, |_| 10.);
        assert!(large + middle < 64 << 20);
        assert!(small > 900 << 20);
    }

    #[test]
    fn one_slow_call_says_nothing() {
        let mut calls = 0;
        let hiccup = |_| {
            calls += 1;
            if calls % 3 == 0 { 5. } else { 0.3 }
        };
        let all = 1 << 30;
        assert_eq!(write(&mut Pieces::of_size(0), all, hiccup), [all, 0, 0]);
    }

    #[test]
    fn a_slow_time_passes() {
        let mut pieces = Pieces::of_size(0);
        write(&mut pieces, 256 << 20, |_| 10.);
        let [large, ..] = write(&mut pieces, 4 << 30, |_| 0.3);
        assert!(large > 3 << 30, "{large}");
    }

    #[test]
    fn pieces_end_at_multiples_of_their_size() {
        let pieces = Pieces::of_size(0);
        assert_eq!(pieces.next(0, 10), 10);
        assert_eq!(pieces.next(5, 10 << 20), (2 << 20) - 5);
        assert_eq!(pieces.next(2 << 20, 10 << 20), 2 << 20);
    }
}
