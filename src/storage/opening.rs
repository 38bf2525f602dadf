//! Which storage a name leads to, and reads that one of them can do together.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::address::{local_path, scheme};
use super::{LocalStorage, Source, Storage};
#[cfg(feature = "remote")]
use super::{RemoteOptions, RemoteStorage, remote};
use crate::error::Result;
#[cfg(not(feature = "remote"))]
use crate::error::{Error, ErrorKind};

/// The storage of a name, and the name in it, without the secrets of a URL: for `s3://`, `gs://`, `az://`,
/// `abfss://`, `hf://`, `http://` and `https://` a `RemoteStorage`, for everything else the local file system, mapped.
///
/// # Errors
///
/// [`Invalid`](crate::ErrorKind::Invalid) if a URL names nothing; [`Unsupported`](crate::ErrorKind::Unsupported) for
/// every URL except `file://` without the feature `remote`.
///
/// ```
/// use std::path::Path;
///
/// let (storage, path) = kiste::storage::of("file:///data/a%20b.msgpack")?;
/// assert_eq!(path, Path::new("/data/a b.msgpack"));
/// # Ok::<(), kiste::Error>(())
/// ```
pub fn of(path: impl AsRef<Path>) -> Result<(Arc<dyn Storage>, PathBuf)> {
    let path = path.as_ref();
    match (scheme(path), path.to_str()) {
        (Some(scheme), Some(url)) if scheme.eq_ignore_ascii_case("file") => {
            Ok((Arc::new(LocalStorage::mapped()), local_path(url)?))
        }
        (Some(_), Some(url)) => remote_of(url),
        _ => Ok((Arc::new(LocalStorage::mapped()), path.to_path_buf())),
    }
}

#[cfg(feature = "remote")]
fn remote_of(url: &str) -> Result<(Arc<dyn Storage>, PathBuf)> {
    let (storage, path) = RemoteStorage::open(url, RemoteOptions::from_env()?)?;
    Ok((Arc::new(storage), path))
}

#[cfg(not(feature = "remote"))]
fn remote_of(_: &str) -> Result<(Arc<dyn Storage>, PathBuf)> {
    // The URL is not named: there may be a password in it.
    let message = "expected the name of a file, found a URL, which this build cannot read";
    let error = Error::new(ErrorKind::Unsupported, message);
    Err(error.with_remedy(crate::error::Remedy::Feature("remote")))
}

/// Fetches what will be read of several files, all in one round where they are of one storage; of those
/// that are not remote nothing. `in_order` as [`ReadAt::fetch_in_order`].
pub(crate) fn fetch_together(wanted: &[(&Source, Vec<Range<u64>>)], in_order: bool) -> Result<()> {
    #[cfg(feature = "remote")]
    if let Some(fetched) = remote::fetch_together(wanted, in_order) {
        return fetched;
    }
    let mut result = Ok(());
    for (source, ranges) in wanted {
        let fetched = match in_order {
            true => source.fetch_in_order(ranges),
            false => source.fetch(ranges),
        };
        result = result.and(fetched);
    }
    result
}
