//! How patient a remote storage is.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

/// How to read from an object store, and write to it.
///
/// The URL names the store. The credentials are those of [`set`](Self::set), or of the environment where
/// [`from_env`](Self::from_env) asks for it; nothing else here reads an environment variable. (For Google, a
/// file of default credentials in the home folder is used if there is one.)
#[derive(Clone)]
#[must_use]
pub struct RemoteOptions {
    pub(super) timeout: Duration,
    pub(super) patience: Duration,
    pub(super) retries: u32,
    pub(super) connections: usize,
    pub(super) cache: Option<(PathBuf, u64)>,
    /// Whether the environment may say more: credentials, endpoints, certificates, a proxy.
    pub(super) environment: bool,
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
            connections: 32,
            cache: None,
            environment: false,
            settings: Vec::new(),
            stop: None,
        }
    }
}

/// The environment variables of the cache, and its limit if they name none.
const CACHE: &str = "KISTE_CACHE";
const CACHE_SIZE: &str = "KISTE_CACHE_SIZE";
const DEFAULT_CACHE_SIZE: u64 = 10 << 30;

impl RemoteOptions {
    /// The defaults, with what the environment says: credentials and endpoints (`AWS_…`, `GOOGLE_…`,
    /// `AZURE_…`, `HF_TOKEN` and `HF_ENDPOINT`), a file of certificates (`AWS_CA_BUNDLE`, `SSL_CERT_FILE`), a proxy (`HTTPS_PROXY` and the
    /// like), and a cache: its directory in `KISTE_CACHE`, and its limit in `KISTE_CACHE_SIZE`, such as
    /// `500M`, `20G` or a number of bytes. Default: no cache; if there is one, `10G`.
    /// [`storage::of`](crate::storage::of) and everything that takes a URL alone use these.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the limit is none.
    pub fn from_env() -> Result<RemoteOptions> {
        let options = RemoteOptions { environment: true, ..RemoteOptions::default() };
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let Some(dir) = set(CACHE) else { return Ok(options) };
        let limit = match set(CACHE_SIZE) {
            None => DEFAULT_CACHE_SIZE,
            Some(text) => text.to_str().and_then(parse_size).ok_or_else(|| {
                let message = format!(
                    "{CACHE_SIZE}: expected a size such as 500M or 20G, found {}",
                    text.to_string_lossy()
                );
                Error::new(ErrorKind::Invalid, message)
            })?,
        };
        Ok(options.cache(dir, limit))
    }

    /// Keeps what is fetched in this directory, at most `limit` bytes of it, for all processes that name
    /// it. Default: no cache.
    ///
    /// Only what has an ETag or a version is cached, and never used for another one. An error of the disk
    /// is none of reading: see [`cache_trouble`](super::cache_trouble).
    pub fn cache(mut self, dir: impl AsRef<Path>, limit: u64) -> Self {
        self.cache = Some((dir.as_ref().to_path_buf(), limit));
        self
    }

    /// How long to wait for a connection, for an answer, and for more of it. Default: 20 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// For how long one read or write may go on trying while nothing comes or goes: the time in which bytes
    /// flow does not count. Default: three minutes.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How often a request is retried after a temporary failure: 408, 429, most of 5xx, no connection, an
    /// answer that stalls or is truncated. Default: 10.
    ///
    /// All reads of a process share a budget on top of that: 500 retries. Every answer gives back a
    /// fifth of a retry.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// The most connections over which this storage fetches several ranges at a time, such as for a loader.
    /// Default: 32. Single reads on other threads use others.
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

    /// Once this is true, reads and writes end with an error of kind [`Cancelled`](crate::ErrorKind::Cancelled): reads
    /// at once, whatever they wait for; writes in the middle of an answer or of a wait, and at the latest when
    /// nothing came for [`timeout`](Self::timeout).
    pub fn stop(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Whether it may be asked to stop.
    pub(super) fn can_stop(&self) -> bool {
        self.stop.is_some()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Relaxed))
    }
}

/// `500M`, `20G`, `1.5T`, a number of bytes.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match text[digits.len()..].to_ascii_uppercase().trim_end_matches("IB") {
        "" | "B" => 0,
        "K" | "KB" => 1,
        "M" | "MB" => 2,
        "G" | "GB" => 3,
        "T" | "TB" => 4,
        _ => return None,
    };
    let number: f64 = digits.parse().ok().filter(|number| *number >= 0.0)?;
    let bytes = number * (1_u64 << (10 * power)) as f64;
    (bytes < 1e18).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let cases = [("65536", 65536), ("500M", 500 << 20), ("1.5g", 3 << 29), ("2 TiB", 2 << 40)];
        for (text, bytes) in cases {
            assert_eq!(parse_size(&text.replace(' ', "")), Some(bytes), "{text}");
        }
        for text in ["", "G", "ten", "-1G", "1X", "nan", "inf", "1e30"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
