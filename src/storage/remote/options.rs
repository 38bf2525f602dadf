//! How patient a remote storage is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How to read from an object store, and write to it.
///
/// Which store, and by whose leave, comes from the URL and the environment, or from
/// [`set`](Self::set).
#[derive(Clone)]
#[must_use]
pub struct RemoteOptions {
    pub(super) timeout: Duration,
    pub(super) patience: Duration,
    pub(super) retries: u32,
    pub(super) connections: usize,
    /// Names in lower case, and values, which may be secret.
    pub(super) settings: Vec<(String, String)>,
    stop: Option<Arc<AtomicBool>>,
}

impl fmt::Debug for RemoteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.settings.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("RemoteOptions")
            .field("timeout", &self.timeout)
            .field("patience", &self.patience)
            .field("retries", &self.retries)
            .field("connections", &self.connections)
            .field("settings", &names)
            .finish_non_exhaustive()
    }
}

impl Default for RemoteOptions {
    fn default() -> RemoteOptions {
        RemoteOptions {
            timeout: Duration::from_secs(20),
            patience: Duration::from_secs(180),
            retries: 10,
            connections: 16,
            settings: Vec::new(),
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

    /// Sets what the environment variable of this name would, such as `AWS_ENDPOINT_URL` or
    /// `AWS_SECRET_ACCESS_KEY`. A name that the store of the URL does not know is an error when it is
    /// opened. Of no effect on web servers, which have none.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }

    /// Once this is true, reads and writes end with an error of kind [`Cancelled`](crate::ErrorKind::Cancelled): in
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
