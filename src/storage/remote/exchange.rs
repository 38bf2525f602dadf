//! [`Exchange`]: what a read or write learns on its way through `object_store`.

use std::cell::RefCell;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

/// One read or write, which may take several requests: what it learns on the way travels next to the errors of
/// `object_store`, which print URLs with all that is in them.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    outcome: Mutex<Outcome>,
    /// The end of an upload makes a new object, and replaces none.
    pub(super) creates: bool,
}

/// The outcome of a request.
#[derive(Debug, Default, Clone)]
pub(super) struct Outcome {
    /// Why there is no answer, in words that name nothing secret.
    pub(super) trouble: Option<String>,
    /// The object is empty, so it has no ranges: its tag.
    pub(super) empty: Option<Option<String>>,
    /// The server answered a request for a range with the whole object.
    pub(super) whole: bool,
    /// The caller wants no answer any more.
    pub(super) cancelled: bool,
    /// A request was sent. Before it credentials are asked for, which may fail.
    pub(super) sent: bool,
    /// The request was sent again: the first may have done its work without an answer.
    pub(super) again: bool,
    /// The write that made the object, as it was recorded with it.
    pub(super) write: Option<u64>,
}

/// The header that records which write made an object, behind what a service has in front of it.
pub(super) const WRITE: &str = "kistewrite";

thread_local! {
    /// The exchange of this thread, for requests that `object_store` makes without passing it on.
    static CURRENT: RefCell<Option<Arc<Exchange>>> = const { RefCell::new(None) };
}

impl Exchange {
    pub(super) fn new(creates: bool) -> Exchange {
        Exchange { creates, ..Exchange::default() }
    }

    /// Waits for what makes requests on this thread, as parts of this exchange.
    pub(super) fn run<T>(self: &Arc<Self>, work: impl Future<Output = T>) -> T {
        let before = CURRENT.replace(Some(self.clone()));
        let result = pollster::block_on(work);
        CURRENT.set(before);
        result
    }

    pub(super) fn outcome(&self) -> Outcome {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn note(&self, change: impl FnOnce(&mut Outcome)) {
        change(&mut self.outcome.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The exchange of this thread.
pub(super) fn current() -> Option<Arc<Exchange>> {
    CURRENT.with_borrow(Clone::clone)
}
