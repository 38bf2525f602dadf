//! How long to wait before a request is sent again, and when to give up.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use super::super::replace::random;

/// The cost of a retry in tokens of the budget; an answer gives back one.
const COST: u32 = 5;
/// The budget of a process: 500 retries without a single answer.
const BUDGET: u32 = 500 * COST;

/// The first wait. Most servers that refuse one request of many take it a moment later, and others wait for
/// its answer.
const SOON: Duration = Duration::from_millis(10);
/// The second, before it doubles.
const FIRST: Duration = Duration::from_millis(100);
/// The longest wait that we choose, and the longest that a server may ask for.
const LONGEST: Duration = Duration::from_secs(10);
const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// The retries that all readers and threads of this process may still make. Where a service is down,
/// a hundred threads that retry on their own keep it down; where one request in ten fails, this
/// never runs out.
///
/// An atomic number, so that a fork at any moment leaves it whole.
pub(super) static OF_PROCESS: Budget = Budget::new();

/// See [`OF_PROCESS`].
pub(super) struct Budget(AtomicU32);

impl Budget {
    pub(super) const fn new() -> Budget {
        Budget(AtomicU32::new(BUDGET))
    }

    /// Whether there may be another retry.
    pub(super) fn take(&self) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(COST)).is_ok()
    }

    /// There was an answer.
    pub(super) fn give_back(&self) {
        // Full most of the time: then nothing is written.
        if self.0.load(Relaxed) < BUDGET {
            let _ = self.0.fetch_update(Relaxed, Relaxed, |left| Some((left + 1).min(BUDGET)));
        }
    }
}

/// The wait after this many tries: it doubles each time, and half of it is random, so that threads
/// that failed together do not retry together.
pub(super) fn wait(tries: u32, asked: Option<Duration>) -> Duration {
    let doubled = match tries {
        0 | 1 => SOON,
        _ => FIRST.saturating_mul(1 << (tries - 2).min(20)).min(LONGEST),
    };
    let chance = (random() >> 11) as f64 / (1_u64 << 53) as f64;
    let ours = doubled / 2 + (doubled / 2).mul_f64(chance);
    ours.max(asked.unwrap_or_default().min(LONGEST_ASKED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_vary_and_obey() {
        for (tries, most) in [(1, 10), (2, 100), (5, 800), (9, 10_000), (4_000_000_000, 10_000)] {
            let waits: Vec<Duration> = (0..50).map(|_| wait(tries, None)).collect();
            let most = Duration::from_millis(most);
            assert!(waits.iter().all(|&wait| most / 2 <= wait && wait <= most), "{tries}");
            assert!(waits.iter().any(|&wait| wait != waits[0]));
        }
        assert_eq!(wait(1, Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(wait(1, Some(Duration::from_secs(7000))), LONGEST_ASKED);
    }

    #[test]
    fn a_service_that_is_down_is_given_up_and_one_that_sheds_load_is_not() {
        let budget = Budget::new();
        assert_eq!((0..1000).filter(|_| budget.take()).count(), 500);
        // One request in ten fails.
        let budget = Budget::new();
        for request in 0..100_000 {
            match request % 10 {
                0 => assert!(budget.take(), "{request}"),
                _ => budget.give_back(),
            }
        }
    }
}
