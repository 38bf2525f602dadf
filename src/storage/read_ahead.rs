//! Reads that end when they are no longer wanted, and fetching that is not waited for.
//!
//! A loader stops when it is dropped, in the middle of any read of its threads, and reads through any
//! number of readers that know nothing of it. So a thread says for itself that its reads may be
//! [stopped](stoppable), or that what it fetches in order goes [ahead](Ahead) of it.

#![cfg_attr(not(feature = "remote"), expect(dead_code, reason = "only remote reads take notice"))]

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a wait looks whether it was stopped.
pub(crate) const LISTEN: Duration = Duration::from_millis(20);

/// See [`context`].
#[derive(Clone, Default)]
pub(crate) struct Context {
    stop: Option<Arc<AtomicBool>>,
    ahead: Option<Arc<Ahead>>,
}

thread_local! {
    static CONTEXT: RefCell<Context> = const { RefCell::new(Context { stop: None, ahead: None }) };
}

/// Puts the former context back, after a panic as well.
struct Restore(Context);

impl Drop for Restore {
    fn drop(&mut self) {
        CONTEXT.set(std::mem::take(&mut self.0));
    }
}

/// Remote reads of this work end with an error of kind [`Cancelled`](crate::ErrorKind::Cancelled) once
/// this is set.
pub(crate) fn stoppable<T>(stop: &Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    Context { stop: Some(stop.clone()), ahead: None }.run(work)
}

/// The flag that [`stoppable`] was called with on this thread.
pub(crate) fn stop() -> Option<Arc<AtomicBool>> {
    CONTEXT.with_borrow(|context| context.stop.clone())
}

/// Where this thread fetches ahead to.
pub(crate) fn ahead() -> Option<Arc<Ahead>> {
    CONTEXT.with_borrow(|context| context.ahead.clone())
}

/// Whether reads of this thread are to end.
pub(crate) fn is_stopped() -> bool {
    let is_set = |stop: &Arc<AtomicBool>| stop.load(Relaxed);
    CONTEXT.with_borrow(|context| context.stop.as_ref().is_some_and(is_set))
}

/// The fetching context of this thread, to be entered on another one.
pub(crate) fn context() -> Context {
    CONTEXT.with_borrow(Clone::clone)
}

impl Context {
    pub(crate) fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let _restore = Restore(CONTEXT.replace(self.clone()));
        work()
    }
}

/// Requests that were sent and have not been answered yet.
pub(crate) struct Ahead {
    stop: Option<Arc<AtomicBool>>,
    /// Requests.
    left: Mutex<usize>,
    none_left: Condvar,
}

impl Ahead {
    /// Waits end once `stop` is set.
    pub(crate) fn new(stop: Option<Arc<AtomicBool>>) -> Arc<Ahead> {
        Arc::new(Ahead { stop, left: Mutex::new(0), none_left: Condvar::new() })
    }

    /// When it returns, everything that this work fetches in order has been requested, and no more.
    pub(crate) fn run<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        Context { stop: self.stop.clone(), ahead: Some(self.clone()) }.run(work)
    }

    /// Waits until all has come or failed; `false` if it or the reads of this thread were stopped before.
    pub(crate) fn wait(&self) -> bool {
        let mut left = self.left();
        while *left > 0 {
            if is_stopped() || self.stop.as_ref().is_some_and(|stop| stop.load(Relaxed)) {
                return false;
            }
            let waited = self.none_left.wait_timeout(left, LISTEN);
            left = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Whether nothing is missing any more.
    pub(crate) fn is_complete(&self) -> bool {
        *self.left() == 0
    }

    /// One more, until the ticket is dropped.
    pub(crate) fn ticket(self: &Arc<Self>) -> Ticket {
        *self.left() += 1;
        Ticket(self.clone())
    }

    fn left(&self) -> MutexGuard<'_, usize> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`Ahead::ticket`].
pub(crate) struct Ticket(Arc<Ahead>);

impl Ticket {
    /// The work that this request counts for.
    pub(crate) fn of(&self) -> &Arc<Ahead> {
        &self.0
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut left = self.0.left();
        *left -= 1;
        if *left == 0 {
            self.0.none_left.notify_all();
        }
    }
}
