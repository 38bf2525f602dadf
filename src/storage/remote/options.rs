//! How patient a remote storage is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How to read from an object store.
///
/// Which store, and by whose leave, comes from the URL and the environment.
#[derive(Debug, Clone)]
#[must_use]
pub struct RemoteOptions {
    pub(super) timeout: Duration,
    pub(super) patience: Duration,
    pub(super) retries: u32,
    pub(super) connections: usize,
    stop: Option<Arc<AtomicBool>>,
}

impl Default for RemoteOptions {
    fn default() -> RemoteOptions {
        RemoteOptions {
            timeout: Duration::from_secs(20),
            patience: Duration::from_secs(180),
            retries: 10,
            connections: 16,
            stop: None,
        }
    }
}

impl RemoteOptions {
    /// How long to wait for a connection, for an answer, and for more of it. Default: 20 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long one read may go on trying. Default: three minutes.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How often a request is sent again that failed for a reason that may pass: 408, 429, most of 5xx,
    /// no connection, an answer that stalls or is cut short. Default: 10.
    ///
    /// All reads of a process share a budget on top of that: 500 retries, of which every answer gives
    /// back a fifth of one.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// The most connections that one read uses. Default: 16. Reads on other threads use others.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// Once this is true, reads end with an error of kind [`Cancelled`](crate::ErrorKind::Cancelled): in
    /// the middle of an answer or of a wait, and at the latest when nothing came for
    /// [`timeout`](Self::timeout).
    pub fn stop(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = Some(stop);
        self
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Relaxed))
    }
}
