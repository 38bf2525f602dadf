//! Datasets behind URLs: how many requests and rounds a read takes, what happens when the network or
//! the server fails, and that one version of a dataset is read or none.
//!
//! Against a server of our own, over `http://` and in the dialect of S3.

mod server;

mod rounds;
mod trouble;
mod lies;
mod versions;
mod secrets;
mod loading;
#[cfg(feature = "convert")]
mod in_place;
mod cache;
mod environment;
mod hub;
mod soak;
#[cfg(unix)]
mod forks;
mod uploads;
mod writing;
mod converting;
#[cfg(all(feature = "formats", feature = "parquet", feature = "zip"))]
mod sources;
#[cfg(feature = "cli")]
mod rearranging;
#[cfg(feature = "convert")]
mod shards;
#[cfg(feature = "cli")]
mod command;
#[cfg(feature = "cli")]
mod parts;
#[cfg(feature = "cli")]
mod shuffling;
#[cfg(feature = "cli")]
mod google;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kiste::format::msgpack;
use kiste::storage::{RemoteOptions, RemoteStorage};
use kiste::{DatasetReader, Result, Value, Writer};
use tempfile::TempDir;

use server::Server;

/// A dataset on disk and the same on a server.
struct Place {
    server: Server,
    local: DatasetReader,
    _dir: TempDir,
}

/// A sample with a value of this many bytes.
fn sample(index: u64, len: usize) -> Vec<u8> {
    let mut value = index.to_le_bytes().repeat(len.div_ceil(8));
    value.truncate(len);
    let fields = [("key", key(index).into()), ("v", Value::Binary(value))];
    let fields = fields.map(|(name, value)| (name.into(), value));
    msgpack::to_vec(&Value::Map(fields.to_vec())).unwrap()
}

fn key(index: u64) -> String {
    format!("key-{index:06}")
}

impl Place {
    /// This many samples of about this many bytes, with or without `.lookup`.
    fn new(samples: u64, len: usize, lookup: bool) -> Place {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("set.msgpack");
        let mut writer = Writer::options().durable(false).lookup(lookup).create(&path).unwrap();
        for index in 0..samples {
            writer.write_raw(&key(index), &sample(index, len)).unwrap();
        }
        writer.finish().unwrap();
        let server = Server::start();
        server.upload(&path, "/d");
        Place { server, local: DatasetReader::open(&path).unwrap(), _dir: dir }
    }

    fn url(&self) -> String {
        format!("{}/d/set.msgpack", self.server.url())
    }

    /// So patient that a busy machine is not taken for a server that stalls.
    fn options(&self) -> RemoteOptions {
        RemoteOptions::default().timeout(Duration::from_secs(60)).retries(4)
    }

    fn storage(&self) -> (RemoteStorage, PathBuf) {
        RemoteStorage::open(&self.url(), self.options()).unwrap()
    }

    fn try_open(&self) -> Result<DatasetReader> {
        let (storage, path) = self.storage();
        DatasetReader::options().storage(Arc::new(storage)).open(path)
    }

    fn open(&self) -> DatasetReader {
        self.try_open().unwrap()
    }

    /// Replaces the dataset on the server by another one of the same sizes.
    fn replace(&self) {
        let path = self.local.path();
        let mut data = std::fs::read(path).unwrap();
        data.iter_mut().for_each(|byte| *byte = byte.wrapping_add(u8::from(*byte == 7)));
        self.server.upload(path, "/d");
        self.server.put("/d/set.msgpack", data);
    }
}

/// That a dataset reads like another one.
#[track_caller]
fn assert_same(one: &DatasetReader, other: &DatasetReader) {
    assert_eq!(one.len(), other.len());
    for index in 0..one.len() {
        assert_eq!(one.get_raw(index).unwrap(), other.get_raw(index).unwrap(), "{index}");
    }
    let keys = |reader: &DatasetReader| -> Vec<String> {
        reader.keys().map(|key| key.unwrap().into_owned()).collect()
    };
    assert_eq!(keys(one), keys(other));
    for index in (0..one.len()).step_by(one.len() / 7 + 1) {
        assert_eq!(one.find(&one.key(index).unwrap()).unwrap(), Some(index));
    }
    assert_eq!(one.find("no such key").unwrap(), None);
    assert!(!one.contains_key("nor this one").unwrap());
}

#[test]
fn a_url_reads_like_a_file() {
    for (samples, lookup) in [(0, false), (1, true), (3, false), (5000, true), (5000, false)] {
        let place = Place::new(samples, 20, lookup);
        assert_same(&place.open(), &place.local);
    }
}

#[test]
fn a_file_url_is_a_file() {
    let place = Place::new(3, 20, false);
    let url = format!("file://{}", place.local.path().display());
    let reader = DatasetReader::open(Path::new(&url)).unwrap();
    assert_same(&reader, &place.local);
    assert_eq!(reader.path(), place.local.path());
}

#[test]
fn reading_verifies() {
    let place = Place::new(2000, 100, true);
    let (storage, path) = place.storage();
    let verify = kiste::verify::Verify::of(&path).storage(Arc::new(storage));
    assert!(verify.run().unwrap().is_good());
    let mut data = std::fs::read(place.local.path()).unwrap();
    data[1000] ^= 1;
    place.server.put("/d/set.msgpack", data);
    let (storage, path) = place.storage();
    let verify = kiste::verify::Verify::of(&path).storage(Arc::new(storage));
    assert!(!verify.run().unwrap().is_good());
}

#[test]
fn checksums_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("set.msgpack");
    let mut writer = Writer::options().durable(false).checksums(true).create(&path).unwrap();
    for index in 0..3000 {
        writer.write_raw(&key(index), &sample(index, 50)).unwrap();
    }
    writer.finish().unwrap();
    let server = Server::start();
    server.upload(&path, "/d");
    let url = format!("{}/d/set.msgpack", server.url());
    let open = || DatasetReader::options().checksums(true).open(&url).unwrap();
    let local = DatasetReader::open(&path).unwrap();
    assert_same(&open(), &local);
    let range = local.byte_range(2000).unwrap();
    let mut data = std::fs::read(&path).unwrap();
    data[range.end as usize - 1] ^= 1;
    server.put("/d/set.msgpack", data);
    let reader = open();
    assert_eq!(reader.get_raw(1999).unwrap(), local.get_raw(1999).unwrap());
    let error = reader.get_raw(2000).unwrap_err();
    assert_eq!((error.kind(), error.index()), (kiste::ErrorKind::Damaged, Some(2000)));
}

#[test]
fn only_reading_is_possible() {
    use kiste::storage::Storage;
    let place = Place::new(1, 20, false);
    let (storage, path) = place.storage();
    assert_eq!(storage.remove(&path).unwrap_err().kind(), kiste::ErrorKind::Unsupported);
    let error = Writer::options().storage(Arc::new(storage)).create(&path).unwrap_err();
    assert!(error.to_string().starts_with(&place.url()), "{error}");
    assert!(place.server.requests().iter().all(|request| request.method == "GET"));
}
