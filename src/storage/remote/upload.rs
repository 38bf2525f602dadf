//! Objects that are written: in one request, or in parts that go up while more is being written.
//!
//! An object is visible once it is complete, and never before. It carries the number of its write:
//! by this a writer recognises its object if the answer to the last request got lost, and a reader
//! recognises files that were written together.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use object_store::multipart::PartId;
use object_store::path::Path as Name;
use object_store::{
    Attribute, Attributes, Extensions, MultipartId, MultipartUpload, ObjectStoreExt as _, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

use super::super::{FileId, Sink, UploadNote};
use super::Shared;
use super::client::{Client, Part, Pin};
use super::exchange::{Exchange, Outcome, WRITE};
use super::file::identity;
use super::url::Service;
use crate::error::{Error, ErrorKind, Result};

/// Bytes of the first parts. S3 takes no fewer than 5 MiB.
const PART: usize = 8 << 20;
/// After this many parts they grow: an object has at most 10,000.
const SAME: u64 = 1000;
/// Bytes of the largest parts: with these, 10 TB fit into 10,000.
const LARGEST: usize = 3 << 29;
/// Bytes of parts on their way, where there are several.
const IN_FLIGHT: usize = 128 << 20;

/// Bytes of the part with this number, from 0 on.
fn part_size(part: u64) -> usize {
    let steps = (part / SAME).min(4) as u32;
    (PART << (2 * steps)).min(LARGEST)
}

/// Parts that may be on their way together.
fn parts_in_flight(size: usize, connections: usize) -> usize {
    (IN_FLIGHT / size).clamp(1, connections)
}

fn attributes(write: u64) -> Attributes {
    Attributes::from_iter([(Attribute::Metadata(WRITE.into()), format!("{write:016x}"))])
}

fn extensions(exchange: &Arc<Exchange>) -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(exchange.clone());
    extensions
}

/// Whether another object was in the way, or none where one was expected.
fn is_lost(error: &object_store::Error) -> bool {
    use object_store::Error as E;
    matches!(error, E::AlreadyExists { .. } | E::Precondition { .. } | E::NotModified { .. })
}

impl Client {
    /// Puts an object in one request, if the precondition of the mode holds.
    pub(super) fn put(
        &self,
        name: &Name,
        bytes: Bytes,
        mode: PutMode,
        write: u64,
        shown: &Path,
    ) -> Result<FileId> {
        let exchange = Arc::new(Exchange::default());
        let (attributes, extensions) = (attributes(write), extensions(&exchange));
        let options = PutOptions { mode, attributes, extensions, ..PutOptions::default() };
        let payload = PutPayload::from(bytes.clone());
        let put = exchange.run(self.store.put_opts(name, payload, options));
        let outcome = exchange.outcome();
        let pin = match put {
            Ok(put) => Pin::put(bytes.len() as u64, put),
            Err(error) if is_lost(&error) && outcome.again => {
                match self.put_before(name, write, &bytes, shown)? {
                    Some(pin) => Some(pin),
                    None => return Err(self.refused_write(error, outcome).at(shown)),
                }
            }
            Err(error) => return Err(self.refused_write(error, outcome).at(shown)),
        };
        match pin {
            Some(pin) => Ok(identity(shown, &pin)),
            None => Ok(identity(shown, &self.get(name, Part::Head(1), None, shown)?.pin)),
        }
    }

    /// The object, if it is there since the first of several requests to put it.
    fn put_before(
        &self,
        name: &Name,
        write: u64,
        bytes: &Bytes,
        shown: &Path,
    ) -> Result<Option<Pin>> {
        let head = match self.get(name, Part::Head(1), None, shown) {
            Err(error) if error.is_absent_or_denied() => return Ok(None),
            head => head?,
        };
        let is_ours = match head.pin.write {
            Some(found) => found == write,
            // The store does not keep it.
            None if head.pin.size != bytes.len() as u64 => false,
            None if bytes.is_empty() => true,
            None => {
                let all = Part::Range(0..head.pin.size);
                self.get(name, all, Some(&head.pin), shown)?.bytes == bytes
            }
        };
        Ok(is_ours.then_some(head.pin))
    }

    /// Whether the object of this name was made by this write.
    fn is_of(&self, name: &Name, write: u64, shown: &Path) -> Result<bool> {
        match self.get(name, Part::Head(1), None, shown) {
            Ok(head) => Ok(head.pin.write == Some(write)),
            Err(error) if error.is_absent_or_denied() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes an object; one that is not there is gone.
    pub(super) fn delete(&self, name: &Name, shown: &Path) -> Result<()> {
        let exchange = Arc::new(Exchange::default());
        let deleted = exchange.run(self.store.delete(name));
        match deleted {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.refused_write(error, exchange.outcome()).at(shown)),
        }
    }

    /// Discards the parts of an upload that was not completed; of one that is over nothing is left.
    pub(super) fn abort(&self, name: &Name, id: &str, shown: &Path) -> Result<()> {
        let Some(store) = &self.multipart else { return Ok(()) };
        let exchange = Arc::new(Exchange::default());
        let id = id.to_owned();
        match exchange.run(store.abort_multipart(name, &id)) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.refused_write(error, exchange.outcome()).at(shown)),
        }
    }

    /// The meaning of an error while writing.
    fn refused_write(&self, error: object_store::Error, outcome: Outcome) -> Error {
        use object_store::Error as E;
        match error {
            E::AlreadyExists { .. } | E::NotModified { .. } => already_exists(),
            E::Precondition { .. } => {
                let message = "another process has replaced it since it was read";
                Error::new(ErrorKind::Replaced, message)
            }
            E::NotImplemented { .. } | E::NotSupported { .. } => {
                let message = "expected a store that writes only where nothing else was written, found \
                               one without";
                Error::new(ErrorKind::Unsupported, message)
            }
            error => self.refused(error, outcome),
        }
    }
}

fn already_exists() -> Error {
    Error::new(ErrorKind::AlreadyExists, "there is an object of this name already")
}

/// Parts that are being uploaded.
enum Multipart {
    /// Has an id, so another process can abort it.
    Known { id: MultipartId, sent: Arc<Mutex<Vec<Option<PartId>>>> },
    /// Azure's, which has no ids, and whose incomplete parts are removed after a week.
    Unknown(Box<dyn MultipartUpload>),
}

impl Multipart {
    fn begin(client: &Client, name: &Name, write: u64) -> Result<Multipart> {
        let exchange = Arc::new(Exchange::default());
        let (attributes, extensions) = (attributes(write), extensions(&exchange));
        let options =
            PutMultipartOptions { attributes, extensions, ..PutMultipartOptions::default() };
        let begun = match &client.multipart {
            Some(store) => exchange
                .run(store.create_multipart_opts(name, options))
                .map(|id| Multipart::Known { id, sent: Arc::default() }),
            None => {
                exchange.run(client.store.put_multipart_opts(name, options)).map(Multipart::Unknown)
            }
        };
        begun.map_err(|error| client.refused_write(error, exchange.outcome()))
    }

    /// Sends the next part.
    fn part(
        &mut self,
        shared: Arc<Shared>,
        name: Name,
        bytes: Bytes,
    ) -> Box<dyn FnOnce() -> Result<()> + Send> {
        let exchange = Arc::new(Exchange::default());
        let payload = PutPayload::from(bytes);
        match self {
            Multipart::Unknown(upload) => {
                let part = upload.put_part(payload);
                Box::new(move || {
                    let client = shared.client()?;
                    let sent = exchange.run(part);
                    sent.map_err(|error| client.refused_write(error, exchange.outcome()))
                })
            }
            Multipart::Known { id, sent } => {
                let (id, sent) = (id.clone(), sent.clone());
                let mut list = locked(&sent);
                let number = list.len();
                list.push(None);
                drop(list);
                Box::new(move || {
                    let client = shared.client()?;
                    let Some(store) = &client.multipart else { return Ok(()) };
                    let part = exchange.run(store.put_part(&name, &id, number, payload));
                    let part =
                        part.map_err(|error| client.refused_write(error, exchange.outcome()))?;
                    locked(&sent)[number] = Some(part);
                    Ok(())
                })
            }
        }
    }

    /// Makes the object of all parts, which have gone up.
    fn complete(
        &mut self,
        client: &Client,
        name: &Name,
        exchange: &Arc<Exchange>,
    ) -> object_store::Result<PutResult> {
        match (self, &client.multipart) {
            (Multipart::Unknown(upload), _) => exchange.run(upload.complete()),
            (Multipart::Known { id, sent }, Some(store)) => {
                // None is missing: each that failed has failed the upload.
                let parts = locked(sent).iter().flatten().cloned().collect();
                exchange.run(store.complete_multipart(name, id, parts))
            }
            (Multipart::Known { .. }, None) => Err(object_store::Error::NotImplemented {
                operation: "complete_multipart".into(),
                implementer: client.store.to_string(),
            }),
        }
    }

    fn abort(&mut self, client: &Client, name: &Name, shown: &Path) -> Result<()> {
        match self {
            Multipart::Known { id, .. } => client.abort(name, id, shown),
            Multipart::Unknown(upload) => {
                let exchange = Arc::new(Exchange::default());
                let aborted = exchange.run(upload.abort());
                aborted.map_err(|error| client.refused_write(error, exchange.outcome()))
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An object that is being written. Dropped before it is finished, it never is.
pub(super) struct Upload {
    shared: Arc<Shared>,
    name: Name,
    shown: PathBuf,
    write: u64,
    /// Who notes the id of an upload in parts, before the first part goes up.
    note: Option<UploadNote>,
    /// The part that is being filled.
    buffer: Vec<u8>,
    /// Parts before it.
    parts: u64,
    /// Once there is more than a part.
    multipart: Option<Multipart>,
    in_flight: VecDeque<JoinHandle<Result<()>>>,
    failed: bool,
    process: u32,
}

impl Upload {
    pub(super) fn new(
        shared: Arc<Shared>,
        name: Name,
        shown: PathBuf,
        write: u64,
        note: Option<UploadNote>,
    ) -> Upload {
        let (buffer, in_flight) = (Vec::new(), VecDeque::new());
        let (parts, multipart, failed, process) = (0, None, false, std::process::id());
        Upload {
            shared,
            name,
            shown,
            write,
            note,
            buffer,
            parts,
            multipart,
            in_flight,
            failed,
            process,
        }
    }

    /// Hands the part over that is in the buffer, and waits where too many are on their way.
    fn send(&mut self) -> Result<()> {
        let shared = self.shared.clone();
        let client = shared.client()?;
        if self.multipart.is_none() {
            let begun = self.multipart.insert(Multipart::begin(client, &self.name, self.write)?);
            if let (Multipart::Known { id, .. }, Some(note)) = (begun, &self.note) {
                note(id)?;
            }
        }
        let size = self.buffer.len();
        while self.in_flight.len() >= parts_in_flight(size, client.connections) {
            self.wait()?;
        }
        let Some(multipart) = &mut self.multipart else { return Ok(()) };
        let bytes = Bytes::from(std::mem::take(&mut self.buffer));
        let upload = multipart.part(shared.clone(), self.name.clone(), bytes);
        self.parts += 1;
        let thread = thread::Builder::new().name("kiste-upload".into()).spawn(upload);
        let thread = thread.map_err(|error| Error::os("starting a thread that uploads", error))?;
        self.in_flight.push_back(thread);
        Ok(())
    }

    /// Waits for the oldest part.
    fn wait(&mut self) -> Result<()> {
        match self.in_flight.pop_front().map(JoinHandle::join) {
            Some(Err(_)) => Err(Error::new(ErrorKind::Io, "the thread that uploads died")),
            Some(Ok(sent)) => sent,
            None => Ok(()),
        }
    }

    fn wait_for_all(&mut self) -> Result<()> {
        let mut result = Ok(());
        while !self.in_flight.is_empty() {
            result = result.and(self.wait());
        }
        result
    }

    fn append_all(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let size = part_size(self.parts);
            if self.buffer.len() >= size {
                self.send()?;
                continue;
            }
            let (now, later) = bytes.split_at(bytes.len().min(size - self.buffer.len()));
            if self.parts > 0 && self.buffer.capacity() == 0 {
                self.buffer.try_reserve_exact(size).map_err(|_| {
                    Error::new(
                        ErrorKind::Limit,
                        format!("not enough memory for a part of {size} bytes"),
                    )
                })?;
            }
            self.buffer.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    /// Makes the object of its parts.
    fn complete(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            self.send()?;
        }
        self.wait_for_all()?;
        let client = self.shared.client()?;
        // Other services do not say at the end of an upload whether there was another object: Google refuses
        // to be asked.
        let compares = client.service == Service::S3;
        if !compares {
            match client.get(&self.name, Part::Head(1), None, &self.shown) {
                Ok(_) => return Err(already_exists()),
                Err(error) if error.is_absent_or_denied() => {}
                Err(error) => return Err(error),
            }
        }
        let Some(multipart) = &mut self.multipart else { return Ok(()) };
        let exchange = Arc::new(Exchange::new(compares));
        let completed = multipart.complete(client, &self.name, &exchange);
        let outcome = exchange.outcome();
        let Err(error) = completed else {
            self.multipart = None;
            return Ok(());
        };
        // The first of several requests did it, and the others found neither parts nor room.
        if outcome.again && client.is_of(&self.name, self.write, &self.shown)? {
            self.multipart = None;
            return Ok(());
        }
        // Here it is not about the object that is replaced.
        Err(match error {
            object_store::Error::Precondition { .. } => already_exists(),
            object_store::Error::NotFound { .. } => {
                Error::new(ErrorKind::Io, "the parts of the upload are gone")
            }
            error => client.refused_write(error, outcome),
        })
    }
}

impl Sink for Upload {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if self.failed {
            return Err(Error::new(ErrorKind::Io, "an earlier write failed").at(&self.shown));
        }
        let appended = self.append_all(bytes);
        self.failed = appended.is_err();
        appended.map_err(|error| error.at(&self.shown))
    }

    fn write_at(&mut self, _: &[u8], _: u64) -> Result<()> {
        Err(not_changed(&self.shown))
    }

    fn set_len(&mut self, _: u64) -> Result<()> {
        Err(not_changed(&self.shown))
    }

    /// Waits for all parts that are on their way. There is no object yet.
    fn sync(&mut self) -> Result<()> {
        let sent = self.wait_for_all();
        self.failed |= sent.is_err();
        sent.map_err(|error| error.at(&self.shown))
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        if self.failed {
            return Err(Error::new(ErrorKind::Io, "an earlier write failed").at(&self.shown));
        }
        if self.multipart.is_some() {
            return self.complete().map_err(|error| error.at(&self.shown));
        }
        let client = self.shared.client().map_err(|error| error.at(&self.shown))?;
        let bytes = Bytes::from(std::mem::take(&mut self.buffer));
        client.put(&self.name, bytes, PutMode::Create, self.write, &self.shown).map(drop)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // In a forked child it is the upload of its parent, whose threads are not here.
            std::mem::forget(std::mem::take(&mut self.in_flight));
            return std::mem::forget(self.multipart.take());
        }
        // Failures were reported, or do not matter any more.
        let _ = self.wait_for_all();
        if let Some(mut multipart) = self.multipart.take() {
            let client = self.shared.client();
            let _ = client.and_then(|c| multipart.abort(c, &self.name, &self.shown));
        }
    }
}

fn not_changed(path: &Path) -> Error {
    let message = "an object is written from start to end: earlier bytes cannot change";
    Error::new(ErrorKind::Unsupported, message).at(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_terabytes_are_at_most_ten_thousand_parts() {
        let bytes: u64 = (0..10_000).map(|part| part_size(part) as u64).sum();
        assert!(bytes >= 10_000_000_000_000, "{bytes}");
        // The limits of the stores.
        assert!((0..10_000).all(|part| (5 << 20..=4_000 << 20).contains(&part_size(part))));
    }

    #[test]
    fn what_is_on_its_way_is_bounded() {
        for part in (0..10_000).step_by(100) {
            let size = part_size(part);
            let parts = parts_in_flight(size, 16);
            assert!(parts >= 1 && (parts == 1 || parts * size <= IN_FLIGHT), "{part}");
        }
        assert_eq!(parts_in_flight(PART, 16), 16);
        assert_eq!(parts_in_flight(PART, 3), 3);
    }
}
