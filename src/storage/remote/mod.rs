//! Objects in S3, Google Cloud Storage and Azure, and files behind HTTP or in the Hugging Face Hub: read by range;
//! objects are written as well, from start to end, and never changed.
//!
//! `object_store` knows URLs, credentials and signatures; requests are sent by a blocking client, a
//! single one on the thread that asks and several on threads that end when there is nothing to fetch, so
//! that a fork at any moment leaves the child with something that works. Each layer is a file: what a
//! URL means (`url`), which requests to make (`plan`), how one is sent and sent again (`transport`,
//! `retry`; `hub` leads it on), what is an answer (`answer`, `refusal`), over how many connections at a time (`queue`), what an
//! answer means (`client`), what stays in memory (`memory`) and on a disk (`cache`), and how an object is
//! read (`file`) and written (`upload`).
//!
//! **One version.** The first answer of an object says which version it is, by its ETag. Every later
//! request asks for that version alone (`If-Match`), and every answer is compared with it, by size and
//! time where there is no tag. So an object that is replaced while it is open is an error that names
//! it, of kind [`Replaced`](ErrorKind::Replaced), and never a mixture.
//!
//! **One write.** An object is created in one step, if none has its name; until then its uploaded
//! parts are not visible. Nothing can be renamed, appended to or locked, which a writer of a
//! dataset has to know: [`Storage::is_object_store`].
//!
//! Absent on purpose: listing, which costs by the thousand and which no named dataset needs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use object_store::PutMode;

use crate::error::{Error, ErrorKind, Result, shown_text};

use super::replace::random;
use super::{
    Announced, Create, Expected, FileId, Lock, OpenFile, Properties, Sink, Source, Stat, Storage,
};

mod url;
mod plan;
mod retry;
mod per_process;
mod options;
mod buffers;
mod refusal;
mod exchange;
mod answer;
mod transport;
mod client;
mod cache;
mod memory;
mod queue;
mod file;
mod hub;
mod upload;

pub use cache::{Cache, CacheUsage, cache_trouble};
pub use options::RemoteOptions;

use client::{Client, Fetched, OURS, Part, Pin};
use file::RemoteFile;
use hub::Hub;
use memory::Memory;
use per_process::PerProcess;
use queue::Queue;
use transport::{Connector, Traffic};
use upload::Upload;
use url::{Address, Service};

/// Bytes that are fetched of the start of an object when it is opened.
const HEAD: u64 = 16 << 10;
/// And of its end, where that is needed as well.
const TAIL: u64 = 16 << 10;

/// Objects of one bucket or container, or files of one server.
///
/// Cheap to clone. Objects are read, written from start to end, and removed; files of web servers and of
/// the Hugging Face Hub are only read. Any other call that would change something is an error of kind
/// [`Unsupported`](ErrorKind::Unsupported).
///
/// ```no_run
/// use std::sync::Arc;
/// use std::time::Duration;
/// use kiste::DatasetReader;
/// use kiste::storage::{RemoteOptions, RemoteStorage};
///
/// // A URL alone is read with the credentials of the environment.
/// let reader = DatasetReader::open("s3://bucket/train.msgpack")?;
///
/// let options = RemoteOptions::from_env()?.timeout(Duration::from_secs(5));
/// let (storage, path) = RemoteStorage::open("https://example.org/train.msgpack", options)?;
/// let reader = DatasetReader::options().storage(Arc::new(storage.clone())).open(path)?;
/// reader.get(1_000_000)?;
/// println!("{} requests, {} bytes", storage.traffic().requests, storage.traffic().bytes);
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Clone)]
pub struct RemoteStorage {
    shared: Arc<Shared>,
}

/// State shared by clones and open files.
struct Shared {
    address: Address,
    options: RemoteOptions,
    traffic: Arc<Traffic>,
    cache: Option<Cache>,
    /// What is known of the repository, also in forked processes.
    hub: Option<Arc<Hub>>,
    /// The error if it could not be created.
    client: PerProcess<std::result::Result<Client, String>>,
    /// Objects that were opened so far.
    opened: AtomicU64,
    here: PerProcess<Here>,
}

/// State that the files of a storage share within one process.
struct Here {
    memory: Mutex<Memory>,
    queue: Arc<Queue>,
}

/// The requests and bytes of a [`RemoteStorage`] so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RemoteTraffic {
    /// Requests, those that were sent again included.
    pub requests: u64,
    /// Requests that were sent again.
    pub retries: u64,
    /// Bytes that came, without headers.
    pub bytes: u64,
    /// Bytes that were asked for: the rest of [`bytes`](Self::bytes) is what lay between them, what
    /// was read ahead, and what came twice.
    pub wanted: u64,
    /// Bytes that came from the [`Cache`] instead.
    pub cached: u64,
    /// Bytes that were sent, without headers.
    pub sent: u64,
}

impl RemoteStorage {
    /// The storage that a URL leads to, and the name of the object in it: the URL without what is
    /// secret.
    ///
    /// No request is made.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the URL names no object, or the environment says something
    /// about the store that makes no sense.
    pub fn open(url: &str, options: RemoteOptions) -> Result<(RemoteStorage, PathBuf)> {
        let address = Address::parse(url)?;
        let path = PathBuf::from(address.shown());
        let named = |error: Error| error.at(&path);
        Client::name(address.service, &address.name).map_err(named)?;
        let traffic = Arc::default();
        let cache = options.cache.as_ref();
        let cache = cache.map(|(dir, limit)| Cache::open(dir, *limit)).transpose()?;
        let (client, here) = (PerProcess::new(), PerProcess::new());
        let opened = AtomicU64::new(0);
        let hub = match address.service {
            Service::Hub => Some(Arc::new(Hub::of(&address, &options).map_err(named)?)),
            _ => None,
        };
        let shared = Shared { address, options, traffic, cache, hub, client, opened, here };
        shared.client().map_err(named)?;
        Ok((RemoteStorage { shared: Arc::new(shared) }, path))
    }

    /// Requests and bytes so far, by this storage and its clones in this process.
    pub fn traffic(&self) -> RemoteTraffic {
        let Traffic { requests, retries, bytes, wanted, cached, sent } = &*self.shared.traffic;
        RemoteTraffic {
            requests: requests.load(Relaxed),
            retries: retries.load(Relaxed),
            bytes: bytes.load(Relaxed),
            wanted: wanted.load(Relaxed),
            cached: cached.load(Relaxed),
            sent: sent.load(Relaxed),
        }
    }

    fn name(&self, path: &Path) -> Result<object_store::path::Path> {
        let Address { root, service, .. } = &self.shared.address;
        let text = path.to_str().and_then(|path| path.strip_prefix(root.as_str()));
        match text.and_then(|name| name.strip_prefix('/')) {
            Some(name) => Client::name(*service, name),
            None => {
                let message = format!("expected a name that begins with {root}/");
                Err(Error::new(ErrorKind::Invalid, message))
            }
        }
        .map_err(|error| error.at(path))
    }

    /// The name of an object that is to be written or removed.
    fn writable(&self, path: &Path) -> Result<object_store::path::Path> {
        if self.shared.address.service.is_read_only() {
            let message = "kiste only reads from web servers and the Hugging Face Hub: write to s3://, gs://, az:// or abfss://";
            return Err(Error::new(ErrorKind::Unsupported, message).at(path));
        }
        self.name(path)
    }

    /// Opens an object by these parts of it.
    fn file(&self, path: &Path, parts: &[Part]) -> Result<RemoteFile> {
        let name = self.name(path)?;
        let client = self.shared.client()?;
        let get = |part: &Part| client.get(&name, part.clone(), None, path);
        let pieces: Vec<Fetched> = client.each(parts, get).into_iter().collect::<Result<_>>()?;
        self.opened(path, name, pieces)
    }

    fn opened(
        &self,
        path: &Path,
        name: object_store::path::Path,
        pieces: Vec<Fetched>,
    ) -> Result<RemoteFile> {
        let pin = one_version(path, &pieces)?;
        Ok(RemoteFile::new(self.shared.clone(), name, path.to_path_buf(), pin, pieces))
    }
}

/// The version that all of these are of.
fn one_version(path: &Path, pieces: &[Fetched]) -> Result<Pin> {
    let mut pins = pieces.iter().map(|piece| &piece.pin);
    match pins.next() {
        Some(first) if pins.all(|pin| pin == first) => Ok(first.clone()),
        _ => {
            let message = "the object was replaced while it was opened: open the dataset again";
            Err(Error::new(ErrorKind::Replaced, message).at(path))
        }
    }
}

impl Shared {
    /// The cache for a version of an object, and what it goes by there.
    fn cache_of(
        &self,
        name: &object_store::path::Path,
        pin: &Pin,
    ) -> Option<(Cache, cache::Object)> {
        let cache = self.cache.as_ref()?;
        let identity = pin.lasting_identity()?;
        let query = self.address.unsigned_query();
        let Address { root, .. } = &self.address;
        let mut hasher = blake3::Hasher::new();
        for part in [root, self.client().ok()?.endpoint(), name.as_ref(), &query, &identity] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let mut object = cache::Object::default();
        object.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Some((cache.clone(), object))
    }

    fn here(&self) -> &Here {
        let queue = || Queue::new(self.options.connections);
        self.here.get(|| Here { memory: Mutex::default(), queue: queue() })
    }

    fn client(&self) -> Result<&Client> {
        let make = || {
            let connector = Connector {
                options: self.options.clone(),
                traffic: self.traffic.clone(),
                user: self.address.user.clone(),
                follow: self.address.service == Service::Http,
                hub: self.hub.clone(),
            };
            Client::new(&self.address, connector).map_err(|error| {
                let ours = match &error {
                    object_store::Error::Generic { store: OURS, source } => source.to_string(),
                    error => error.to_string(),
                };
                shown_text(&ours).into_owned()
            })
        };
        let client = self.client.get(make).as_ref();
        client.map_err(|message| Error::new(ErrorKind::Invalid, message))
    }
}

impl fmt::Debug for RemoteStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteStorage({})", self.shared.address.root)
    }
}

/// The error of everything that object stores cannot do.
fn cannot<T>(what: &str, path: &Path) -> Result<T> {
    let message = format!("objects cannot be {what}");
    Err(Error::new(ErrorKind::Unsupported, message).at(path))
}

impl Storage for RemoteStorage {
    fn open(&self, path: &Path) -> Result<Source> {
        Ok(Source::Positioned(Box::new(self.file(path, &[Part::Head(HEAD)])?)))
    }

    fn open_together(&self, path: &Path, files: &[Announced<'_>]) -> Result<Option<Vec<OpenFile>>> {
        let client = self.shared.client()?;
        let mut asked = Vec::new();
        for Announced { suffix, end } in files {
            let mut file = path.as_os_str().to_owned();
            file.push(suffix);
            let file = PathBuf::from(file);
            let name = self.name(&file)?;
            let parts = [end.then_some(Part::Tail(TAIL)), Some(Part::Head(HEAD))];
            asked.push((file, name, parts));
        }
        let requests: Vec<_> = asked
            .iter()
            .flat_map(|(file, name, parts)| {
                parts.iter().flatten().map(move |part| (file, name, part))
            })
            .collect();
        let get = |&(file, name, part): &(&PathBuf, &object_store::path::Path, &Part)| {
            client.get(name, part.clone(), None, file)
        };
        let mut pieces = client.each(&requests, get).into_iter();
        let mut opened: Vec<OpenFile> = Vec::with_capacity(asked.len());
        for (file, name, parts) in &asked {
            // All of this file's, even if the first is an error: the next are of the next file.
            let pieces: Vec<_> = pieces.by_ref().take(parts.iter().flatten().count()).collect();
            let pieces: Result<Vec<Fetched>> = pieces.into_iter().collect();
            opened.push(match pieces {
                // For the first one it is an error: that is the one that was named.
                Err(error) if error.is_absent_or_denied() && !opened.is_empty() => None,
                pieces => Some(Arc::new(self.opened(file, name.clone(), pieces?)?)),
            });
        }
        Ok(Some(opened))
    }

    fn open_version(&self, path: &Path, size: u64, tag: &str) -> Result<Option<Source>> {
        let (name, pin) = (self.name(path)?, Pin::of_version(size, tag));
        let file = RemoteFile::new(self.shared.clone(), name, path.to_path_buf(), pin, Vec::new());
        Ok(Some(Source::Positioned(Box::new(file))))
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>> {
        let name = self.name(path)?;
        match self.shared.client()?.get(&name, Part::Head(1), None, path) {
            Ok(piece) => Ok(Some(Stat::file(piece.pin.size, file::identity(path, &piece.pin)))),
            Err(error) if error.is_absent_or_denied() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn properties(&self) -> Properties {
        let connections = self.shared.options.connections;
        Properties { connections, is_object_store: true, ..Properties::default() }
    }

    fn create_with(&self, path: &Path, how: Create) -> Result<Box<dyn Sink>> {
        let (name, write) = (self.writable(path)?, how.write.unwrap_or_else(random));
        Ok(Box::new(Upload::new(self.shared.clone(), name, path.to_path_buf(), write, how.note)))
    }

    fn abort_upload(&self, path: &Path, id: &str) -> Result<()> {
        self.shared.client()?.abort(&self.writable(path)?, id, path)
    }

    fn put_if(&self, path: &Path, bytes: &[u8], expected: Expected) -> Result<FileId> {
        let name = self.writable(path)?;
        let client = self.shared.client()?;
        let mode = match expected {
            Expected::Absent => PutMode::Create,
            Expected::Anything => PutMode::Overwrite,
            // The number of a version says nothing to a server, so it is looked up.
            Expected::Version(version) => match client.get(&name, Part::Head(1), None, path) {
                Ok(head) if file::identity(path, &head.pin) == version => head.pin.update(),
                Err(error) if !error.is_absent_or_denied() => return Err(error),
                found => {
                    let done = if found.is_ok() { "replaced" } else { "removed" };
                    let message = format!("another process has {done} it since it was read");
                    return Err(Error::new(ErrorKind::Replaced, message).at(path));
                }
            },
        };
        client.put(&name, Bytes::copy_from_slice(bytes), mode, random(), path)
    }

    fn reopen(&self, path: &Path) -> Result<Box<dyn Sink>> {
        cannot("changed or appended to", path)
    }

    fn rename(&self, _: &Path, to: &Path) -> Result<()> {
        cannot("renamed", to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.shared.client()?.delete(&self.writable(path)?, path)
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        cannot("directories", path)
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        cannot("directories", path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        let message = "kiste does not list URLs: name the dataset";
        Err(Error::new(ErrorKind::Unsupported, message).at(dir))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        cannot("directories", dir)
    }

    fn lock(&self, path: &Path) -> Result<Option<Lock>> {
        cannot("locked", path)
    }

    fn lock_file(&self, path: &Path) -> Result<Option<Lock>> {
        cannot("locked", path)
    }
}

/// Fetches what will be read of several files, all in one round, if they are all of one remote storage.
pub(super) fn fetch_together(
    wanted: &[(&Source, Vec<std::ops::Range<u64>>)],
    in_order: bool,
) -> Option<Result<()>> {
    let mut files = Vec::with_capacity(wanted.len());
    for (source, ranges) in wanted {
        let Source::Positioned(file) = source else { return None };
        let file = file.as_any()?.downcast_ref::<RemoteFile>()?;
        files.push((file, ranges.as_slice()));
    }
    let (first, _) = files.first()?;
    let is_next_to = |(file, _): &(&RemoteFile, _)| file.is_next_to(first);
    files.iter().all(is_next_to).then(|| file::fetch_together(&files, in_order))
}
