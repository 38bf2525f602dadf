//! One queue of requests per storage, sent over a limited number of connections.
//!
//! A request is sent as soon as a connection is free, without waiting for others of the same group, so nothing
//! waits for the slowest. Threads end when there is nothing to do.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A request, and what to do with its answer.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// See the [module](self).
pub(super) struct Queue {
    state: Mutex<State>,
    most: usize,
}

#[derive(Default)]
struct State {
    /// Requests that someone waits for, and requests ahead of reads.
    jobs: [VecDeque<Job>; 2],
    /// Threads that work, and those that wait before they send a request again.
    working: usize,
    waiting: usize,
}

/// How urgent a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    /// Someone waits for it.
    Now = 0,
    /// It is fetched ahead.
    Later = 1,
}

thread_local! {
    /// The queue that this thread works for.
    static WORKS_FOR: RefCell<Option<Arc<Queue>>> = const { RefCell::new(None) };
}

/// Whether this thread works for a queue, so that others do not wait for it but for what it fetches.
pub(super) fn is_worker() -> bool {
    WORKS_FOR.with_borrow(Option::is_some)
}

/// Waits in `pause` without holding a connection: another thread takes the next job.
pub(super) fn aside<T>(pause: impl FnOnce() -> T) -> T {
    let Some(queue) = WORKS_FOR.with_borrow(Clone::clone) else { return pause() };
    {
        let mut state = queue.state();
        // A server that refuses everything lets no more wait than there are connections.
        if state.waiting >= queue.most {
            drop(state);
            return pause();
        }
        state.working -= 1;
        state.waiting += 1;
    }
    queue.start();
    let result = pause();
    let mut state = queue.state();
    // For a moment there may be more than should be. The next of them to end its work goes.
    state.working += 1;
    state.waiting -= 1;
    result
}

impl Queue {
    /// With at most this many connections.
    pub(super) fn new(most: usize) -> Arc<Queue> {
        Arc::new(Queue { state: Mutex::default(), most })
    }

    pub(super) fn add(self: &Arc<Self>, urgency: Urgency, jobs: impl IntoIterator<Item = Job>) {
        self.state().jobs[urgency as usize].extend(jobs);
        self.start();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts as many threads as there is work for.
    fn start(self: &Arc<Self>) {
        let mut state = self.state();
        let jobs = state.jobs.iter().map(VecDeque::len).sum::<usize>();
        let missing = jobs.min(self.most.saturating_sub(state.working));
        state.working += missing;
        drop(state);
        for started in 0..missing {
            let queue = self.clone();
            let work = move || {
                WORKS_FOR.set(Some(queue.clone()));
                queue.work();
            };
            if thread::Builder::new().name("kiste-fetch".to_owned()).spawn(work).is_ok() {
                continue;
            }
            let mut state = self.state();
            state.working -= missing - started;
            if state.working == 0 {
                // Without another thread this one does it all.
                state.working = 1;
                drop(state);
                self.work();
            }
            return;
        }
    }

    fn work(&self) {
        loop {
            let mut state = self.state();
            let is_too_many = state.working > self.most;
            let [now, later] = &mut state.jobs;
            let job =
                if is_too_many { None } else { now.pop_front().or_else(|| later.pop_front()) };
            let Some(job) = job else {
                state.working -= 1;
                return;
            };
            drop(state);
            // A panic ends this request alone: who waits for it is woken when it is dropped.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn all_is_done_by_few_threads() {
        let queue = Queue::new(4);
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (done, all) = mpsc::channel();
        for number in 0..200 {
            let (now, most, done) = (now.clone(), most.clone(), done.clone());
            let job: Job = Box::new(move || {
                most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                thread::sleep(Duration::from_millis(1));
                now.fetch_sub(1, SeqCst);
                done.send(number).unwrap();
                assert!(number != 7, "one that panics");
            });
            let urgency = if number % 2 == 0 { Urgency::Now } else { Urgency::Later };
            queue.add(urgency, [job]);
        }
        drop(done);
        let mut found: Vec<u64> = all.iter().collect();
        found.sort_unstable();
        assert_eq!(found, (0..200).collect::<Vec<_>>());
        assert!(most.load(SeqCst) <= 4, "{most:?}");
    }

    #[test]
    fn one_that_waits_lets_others_pass() {
        let queue = Queue::new(1);
        let (wake, wait) = mpsc::channel::<()>();
        let (done, all) = mpsc::channel();
        let other = done.clone();
        let waits: Job = Box::new(move || {
            aside(|| wait.recv().unwrap());
            done.send("first").unwrap();
        });
        let passes: Job = Box::new(move || other.send("second").unwrap());
        queue.add(Urgency::Now, [waits, passes]);
        assert_eq!(all.recv().unwrap(), "second");
        wake.send(()).unwrap();
        assert_eq!(all.recv().unwrap(), "first");
    }
}
