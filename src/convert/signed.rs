//! [`Signed`]: URLs that hold what opens them, such as a signature or a password.
//!
//! The names of sources are part of errors, keys and indexes. So what is secret is taken off a URL at the start, and
//! stays with the storage that sends it. Opening the file by its name gives that storage.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use super::file_names::expand_braces;
use crate::dataset::names::names_index;
use crate::error::{Error, ErrorKind, Result, is_signature};
use crate::storage::{self, Storage, is_url, shown};

/// The storages of names. The last one in use counts.
type Known = HashMap<PathBuf, Vec<Weak<dyn Storage>>>;

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The storages of signed URLs, which are known by their names for as long as this lives.
#[derive(Default)]
pub(super) struct Signed {
    names: Vec<PathBuf>,
    storages: Vec<Arc<dyn Storage>>,
}

/// The storage of a file whose URL, or whose folder's URL, was signed.
pub(super) fn storage_of(path: &Path) -> Option<Arc<dyn Storage>> {
    let known = known();
    if known.is_empty() {
        return None;
    }
    let in_use = |name| known.get(name)?.iter().rev().find_map(Weak::upgrade);
    path.ancestors().find_map(in_use)
}

impl Signed {
    /// The sources without what is secret.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the query of a URL chooses the file, so that its name does not tell it from another.
    pub(super) fn of(sources: Vec<PathBuf>) -> Result<(Vec<PathBuf>, Signed)> {
        let (mut names, mut signed) = (Vec::with_capacity(sources.len()), Signed::default());
        let mut by_secret: HashMap<(String, String), Arc<dyn Storage>> = HashMap::new();
        let mut chosen: HashMap<PathBuf, String> = HashMap::new();
        for source in sources {
            let name = shown(&source);
            if !is_url(&source) || name == source {
                names.push(source);
                continue;
            }
            let text = source.to_string_lossy();
            let query = text.split_once('?').map_or("", |(_, query)| query);
            let unsigned: Vec<&str> = query.split('&').filter(|part| !is_signature(part)).collect();
            let unsigned = unsigned.join("&");
            if *chosen.entry(name.clone()).or_insert_with(|| unsigned.clone()) != unsigned {
                let message = "expected files that differ in their names, found two that differ in what follows ?, \
                               which is not stored";
                return Err(Error::new(ErrorKind::Invalid, message).at(name));
            }
            // Files with one signature share their connections.
            let secret = (storage::root(&text).to_owned(), query.to_owned());
            let storage = match by_secret.get(&secret) {
                Some(storage) => storage.clone(),
                None => storage::of(&source).map_err(|error| error.shown_at(&source))?.0,
            };
            by_secret.insert(secret, storage.clone());
            for name in expand_braces(&name.to_string_lossy())?.into_iter().map(PathBuf::from) {
                signed.keep(&name, &storage);
                // What they name lies next to them.
                let names_others = name.extension().is_some_and(|ending| ending == "mds");
                if names_index(&name) || names_others {
                    signed.keep(name.parent().unwrap_or(&name), &storage);
                }
                names.push(name);
            }
            signed.storages.push(storage);
        }
        Ok((names, signed))
    }

    fn keep(&mut self, name: &Path, storage: &Arc<dyn Storage>) {
        known().entry(name.to_path_buf()).or_default().push(Arc::downgrade(storage));
        self.names.push(name.to_path_buf());
    }
}

impl Drop for Signed {
    fn drop(&mut self) {
        self.storages.clear();
        let mut known = known();
        for name in &self.names {
            if let Some(storages) = known.get_mut(name) {
                storages.retain(|storage| storage.strong_count() > 0);
                if storages.is_empty() {
                    known.remove(name);
                }
            }
        }
    }
}
