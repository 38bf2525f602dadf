//! Objects that are written: as a whole or not at all, with what can go wrong on the way.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::server::{Fault, Request};
use super::*;
use kiste::ErrorKind;
use kiste::storage::{Expected, Storage};

/// A server that speaks S3, and the storage that writes to it.
pub(super) fn s3(server: &Server) -> RemoteOptions {
    RemoteOptions::default()
        .timeout(Duration::from_secs(60))
        .retries(6)
        .set("AWS_ENDPOINT_URL", &server.url())
        .set("AWS_ALLOW_HTTP", "true")
        .set("AWS_ACCESS_KEY_ID", "AKID")
        .set("AWS_SECRET_ACCESS_KEY", "s3cret")
        .set("AWS_REGION", "us-east-1")
}

fn open(server: &Server, url: &str) -> (RemoteStorage, PathBuf) {
    RemoteStorage::open(url, s3(server)).unwrap()
}

/// Bytes that differ everywhere.
fn bytes(len: usize) -> Vec<u8> {
    (0..len.div_ceil(8) as u64).flat_map(|i| (i ^ 0x9e37).to_le_bytes()).take(len).collect()
}

fn write(storage: &RemoteStorage, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut sink = storage.create(path)?;
    bytes.chunks(1_000_003).try_for_each(|piece| sink.append(piece))?;
    sink.finish()
}

fn is_part(request: &Request) -> bool {
    request.query.contains("partNumber=")
}

const LARGE: usize = 20 << 20;

#[test]
fn an_object_is_what_was_written() {
    let server = Server::start();
    for len in [0, 1, 5 << 20, 8 << 20, (8 << 20) + 1, LARGE] {
        let (storage, path) = open(&server, &format!("s3://d/{len}"));
        write(&storage, &path, &bytes(len)).unwrap();
        assert!(*server.object(&format!("/d/{len}")).unwrap() == bytes(len), "{len}");
        let source = storage.open(&path).unwrap();
        assert!(*source.read(0..len as u64).unwrap() == bytes(len), "{len}");
        let requests = server.requests();
        let puts = requests.iter().filter(|request| request.method != "GET").count();
        let parts = len.div_ceil(8 << 20);
        assert_eq!(puts, if parts < 2 { 1 } else { parts + 2 }, "{len}");
        assert_eq!(storage.traffic().retries, 0);
    }
    assert_eq!(server.unfinished_uploads(), 0);
}

#[test]
fn nothing_is_there_before_it_is_finished_or_if_it_never_is() {
    let server = Server::start();
    for len in [100, LARGE] {
        let (storage, path) = open(&server, "s3://d/x");
        let mut sink = storage.create(&path).unwrap();
        sink.append(&bytes(len)).unwrap();
        assert!(server.names().is_empty());
        assert!(storage.stat(&path).unwrap().is_none());
        drop(sink);
        assert!(server.names().is_empty());
        assert_eq!(server.unfinished_uploads(), 0);
    }
}

#[test]
fn what_is_there_is_not_replaced() {
    let server = Server::start();
    for len in [100, LARGE] {
        let url = format!("s3://d/{len}");
        let (storage, path) = open(&server, &url);
        write(&storage, &path, b"first").unwrap();
        let error = write(&storage, &path, &bytes(len)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        assert!(error.to_string().starts_with(&url), "{error}");
        assert_eq!(*server.object(&format!("/d/{len}")).unwrap(), b"first");
        assert_eq!(server.unfinished_uploads(), 0);
    }
}

#[test]
fn faults_on_the_way_change_nothing() {
    let server = Server::start();
    // Every kind of fault at every kind of request: what is done twice is done once.
    for fault in [Fault::Status(503, None), Fault::Hang, Fault::Lost] {
        for every in [2, 5] {
            for len in [100, LARGE] {
                server.remove("/d/x");
                let (storage, path) = open(&server, "s3://d/x");
                server.fail(move |number, _| (number % every == 0).then_some(fault));
                write(&storage, &path, &bytes(len)).unwrap();
                assert!(*server.object("/d/x").unwrap() == bytes(len), "{fault:?} {every} {len}");
                assert!(storage.traffic().retries > 0);
            }
        }
    }
    server.fail(|_, _| None);
    server.requests();
    // An answer that got lost, of a store that keeps nothing with its objects.
    let (storage, path) = open(&server, "s3://d/y");
    server.fail(|number, _| (number == 0).then_some(Fault::Lost));
    let mut sink = storage.create(&path).unwrap();
    sink.append(b"as it was").unwrap();
    sink.finish().unwrap();
    assert_eq!(*server.object("/d/y").unwrap(), b"as it was");
}

#[test]
fn a_server_that_is_down_is_an_error_and_leaves_nothing() {
    let server = Server::start();
    let (storage, path) = RemoteStorage::open("s3://d/x", s3(&server).retries(1)).unwrap();
    server.fail(|_, request| is_part(request).then_some(Fault::Status(503, None)));
    let error = write(&storage, &path, &bytes(LARGE)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("SlowDown"), "{error}");
    assert!(error.to_string().starts_with("s3://d/x"), "{error}");
    assert!(server.names().is_empty());
    assert_eq!(server.unfinished_uploads(), 0);
}

#[test]
fn memory_is_bounded_however_slow_the_server_is() {
    // A busy machine may take longer to send a part than an answer is late.
    for late in [60, 600, 6000] {
        let server = Server::start();
        let (storage, path) = RemoteStorage::open("s3://d/x", s3(&server).connections(2)).unwrap();
        server.fail(move |_, request| is_part(request).then_some(Fault::Late(late)));
        write(&storage, &path, &bytes(100 << 20)).unwrap();
        assert_eq!(server.object("/d/x").unwrap().len(), 100 << 20);
        assert_eq!(storage.traffic().sent / (100 << 20), 1);
        let most = server.most_in_flight();
        assert!(most <= 16 << 20, "{most}");
        if most >= 9 << 20 {
            return;
        }
    }
    panic!("no two parts were on their way together");
}

#[test]
fn a_put_depends_on_what_is_there() {
    let server = Server::start();
    let (storage, path) = open(&server, "s3://d/m.json");
    let first = storage.put_if(&path, b"one", Expected::Absent).unwrap();
    assert_eq!(storage.stat(&path).unwrap().unwrap().id, first);
    let lost = storage.put_if(&path, b"two", Expected::Absent).unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::AlreadyExists, "{lost}");
    let second = storage.put_if(&path, b"two", Expected::Version(first)).unwrap();
    assert_ne!(second, first);
    let lost = storage.put_if(&path, b"three", Expected::Version(first)).unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Replaced, "{lost}");
    assert_eq!(*server.object("/d/m.json").unwrap(), b"two");
    storage.put_if(&path, b"four", Expected::Anything).unwrap();
    storage.remove(&path).unwrap();
    assert!(server.names().is_empty());
    storage.remove(&path).unwrap();
    let lost = storage.put_if(&path, b"five", Expected::Version(second)).unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Replaced, "{lost}");
}

#[test]
fn a_lost_answer_is_no_lost_race() {
    let server = Server::start();
    for strips in [false, true] {
        let (storage, path) = open(&server, "s3://d/m.json");
        let answer_gets_lost = |server: &Server| {
            let puts = AtomicU64::new(0);
            server.fail(move |_, request| {
                let is_first = request.method == "PUT" && puts.fetch_add(1, SeqCst) == 0;
                is_first.then_some(Fault::Lost)
            });
        };
        answer_gets_lost(&server);
        let version = storage.put_if(&path, b"one", Expected::Absent).unwrap();
        answer_gets_lost(&server);
        storage.put_if(&path, b"two", Expected::Version(version)).unwrap();
        assert_eq!(*server.object("/d/m.json").unwrap(), b"two");
        if strips {
            server.strip_metadata();
        }
        // One that another wins meanwhile is.
        server.fail(|number, request| {
            (request.method == "PUT" && number == 0).then_some(Fault::Status(503, None))
        });
        let lost = storage.put_if(&path, b"three", Expected::Absent).unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::AlreadyExists, "{lost}");
        server.fail(|_, _| None);
        storage.remove(&path).unwrap();
    }
}

#[test]
fn of_many_that_put_at_once_exactly_one_wins() {
    let server = Server::start();
    server.fail(|number, _| (number % 7 == 3).then_some(Fault::Lost));
    let url = "s3://d/m.json";
    let won = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..8)
            .map(|racer: u8| {
                let server = &server;
                scope.spawn(move || {
                    let (storage, path) = open(server, url);
                    storage.put_if(&path, &[racer], Expected::Absent).map(|_| racer)
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect::<Vec<_>>()
    });
    let winners: Vec<u8> = won.iter().filter_map(|won| won.as_ref().ok().copied()).collect();
    assert_eq!(*server.object("/d/m.json").unwrap(), winners, "{won:?}");
    for lost in won.into_iter().filter_map(Result::err) {
        assert_eq!(lost.kind(), ErrorKind::AlreadyExists, "{lost}");
    }
}

#[test]
fn web_servers_are_only_read() {
    let place = Place::new(1, 20, false);
    let (storage, path) = place.storage();
    for error in [
        storage.create(&path).err().unwrap(),
        storage.remove(&path).unwrap_err(),
        storage.put_if(&path, b"", Expected::Anything).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("write to s3://"), "{error}");
    }
    assert!(place.server.requests().is_empty());
}

#[test]
fn settings_are_not_shown() {
    let server = Server::start();
    let options = s3(&server);
    assert!(!format!("{options:?}").contains("s3cret"));
    let error = RemoteStorage::open("s3://d/x", options.set("AWS_NO_SUCH", "1")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("aws_no_such"), "{error}");
}

/// All times grow until the machine has the time, if others keep it busy.
#[test]
fn the_time_in_which_bytes_flow_is_not_patience() {
    let bytes = bytes(8 << 20);
    for factor in [1, 4, 16] {
        let server = Server::start();
        let options = s3(&server).patience(Duration::from_secs(2) * factor);
        let options = options.timeout(Duration::from_secs(30) * factor);
        let (storage, path) = RemoteStorage::open("s3://d/slow", options).unwrap();
        // Longer than its patience, and then the answer that another request may help.
        server.receive_slowly(Duration::from_millis(25) * factor);
        server.fail(|n, _| (n == 0).then_some(Fault::Status(503, None)));
        match write(&storage, &path, &bytes) {
            Err(error) if factor == 16 => panic!("{error}"),
            Err(_) => continue,
            Ok(()) => {}
        }
        assert_eq!(storage.traffic().retries, 1);
        assert!(*server.object("/d/slow").unwrap() == bytes);
        return;
    }
}
