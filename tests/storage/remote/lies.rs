//! Servers that lie about lengths, ranges and versions, never end, hardly begin, or lead elsewhere.

use super::server::Fault;
use super::*;
use kiste::ErrorKind;
use kiste::storage::Storage;

/// What no object is as large as.
const HUGE: u64 = 1 << 62;

fn impatient() -> RemoteOptions {
    let (timeout, patience) = (Duration::from_millis(300), Duration::from_millis(600));
    RemoteOptions::default().timeout(timeout).patience(patience).retries(2)
}

#[test]
fn what_a_server_claims_costs_no_memory_and_no_time() {
    let place = Place::new(3000, 60, true);
    let data = std::fs::read(place.local.path()).unwrap();
    for fault in [
        Fault::Length(0),
        Fault::Length(1),
        Fault::Length(HUGE),
        Fault::Length(u64::MAX),
        Fault::Range(1, 0),
        Fault::Range(HUGE, HUGE + 1),
        Fault::Range(u64::MAX, u64::MAX),
        Fault::Range((16 << 10) - 1, HUGE),
        Fault::Range((16 << 10) - 1, 1),
        Fault::Retagged,
        Fault::Endless,
        Fault::Slow(100),
        Fault::More,
        Fault::Whole,
        Fault::AnyVersion,
    ] {
        place.server.fail(move |_, _| Some(fault));
        let (storage, path) = RemoteStorage::open(&place.url(), impatient()).unwrap();
        let read = || -> Result<()> {
            let file = storage.open(&path)?;
            // What comes is what was asked for.
            assert_eq!(*file.read(100..200)?, data[100..200], "{fault:?}");
            let len = file.len();
            assert!(len == data.len() as u64 || len == 1 || len == HUGE, "{fault:?}: {len}");
            if len == HUGE {
                // No buffer of this size is made.
                assert!(file.read(0..HUGE).is_err(), "{fault:?}");
                assert!(file.read(HUGE - 100..HUGE).is_err(), "{fault:?}");
            }
            if let Fault::Retagged = fault {
                assert_eq!(file.read(100_000..100_100).unwrap_err().kind(), ErrorKind::Replaced);
            }
            Ok(())
        };
        let result = read();
        let bounded = storage.traffic().bytes;
        assert!(bounded < 16 << 20, "{fault:?}: {bounded}");
        if let Err(error) = result {
            let kinds = [ErrorKind::Io, ErrorKind::Unsupported, ErrorKind::Replaced];
            assert!(kinds.contains(&error.kind()), "{fault:?}: {error}");
            assert!(error.to_string().starts_with(&place.url()), "{error}");
        }
    }
}

#[test]
fn an_answer_that_hardly_comes_is_given_up() {
    let place = Place::new(3000, 60, true);
    place.server.fail(|_, _| Some(Fault::Slow(100)));
    let (storage, path) = RemoteStorage::open(&place.url(), impatient()).unwrap();
    let error = storage.open(&path).unwrap_err();
    assert!(error.to_string().contains("fewer than 1024 bytes a second"), "{error}");
    assert_eq!(storage.traffic().requests, 1);
}

#[test]
fn a_dataset_on_a_server_that_lies_is_an_error_or_itself() {
    let place = Place::new(300, 60, true);
    let lies = [
        Fault::Length(HUGE),
        Fault::Length(3),
        Fault::Range(HUGE, HUGE),
        Fault::Retagged,
        Fault::Endless,
        Fault::More,
    ];
    for fault in lies {
        for one_in in [1, 2, 3] {
            place.server.fail(move |n, _| (n % one_in == 0).then_some(fault));
            let (storage, path) = RemoteStorage::open(&place.url(), impatient()).unwrap();
            let opened = DatasetReader::options().storage(Arc::new(storage)).open(path);
            let Ok(reader) = opened else { continue };
            for index in 0..reader.len().min(300) {
                if let Ok(raw) = reader.get_raw(index) {
                    assert_eq!(raw, place.local.get_raw(index).unwrap(), "{fault:?}");
                }
            }
        }
    }
}

#[test]
fn what_will_never_work_is_tried_once() {
    for (fault, says) in [
        (Fault::Raw(b"SSH-2.0-OpenSSH_9.9\r\n"), ""),
        (Fault::Raw(b"HTTP/9.9 200 OK\r\nContent-Length: 0\r\n\r\n"), ""),
        (Fault::Raw(b"HTTP/1.1 abc\r\n\r\n"), ""),
        (Fault::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: no\r\n\r\n"), ""),
        (Fault::Redirect(301, "gopher://host/x"), ""),
        (Fault::Status(400, None), "400"),
        (Fault::Status(401, None), "401"),
        (Fault::Status(403, None), "403"),
        (Fault::Status(405, None), ""),
        (Fault::Status(410, None), "410"),
        (Fault::Status(501, None), "501"),
        (Fault::Status(505, None), "505"),
    ] {
        let place = Place::new(3, 60, false);
        place.server.fail(move |_, _| Some(fault));
        let (storage, path) = RemoteStorage::open(&place.url(), impatient().retries(10)).unwrap();
        let error = storage.open(&path).unwrap_err();
        assert!(error.to_string().contains(says), "{fault:?}: {error}");
        assert!(!error.to_string().contains("gave up"), "{fault:?}: {error}");
        assert_eq!(storage.traffic().requests, 1, "{fault:?}: {error}");
    }
    // A name that no one knows is asked for a few times: the network may just come up.
    let options = impatient().retries(10);
    let (storage, path) = RemoteStorage::open("http://no.such.host.invalid/x", options).unwrap();
    let error = storage.open(&path).unwrap_err();
    assert!(storage.traffic().requests <= 4, "{error}");
}

#[test]
fn a_server_that_speaks_no_tls_with_us_is_asked_once() {
    use std::io::{Read, Write};
    // An alert (fatal, handshake failure), and what web servers say on a port without TLS.
    for answer in [&[0x15, 3, 3, 0, 2, 2, 40][..], b"HTTP/1.1 400 Bad Request\r\n\r\n"] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/x", listener.local_addr().unwrap());
        let serve = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer);
        });
        let (storage, path) = RemoteStorage::open(&url, impatient().retries(10)).unwrap();
        let error = storage.open(&path).unwrap_err();
        serve.join().unwrap();
        assert_eq!(storage.traffic().requests, 1, "{error}");
    }
}

#[test]
fn plain_http_leads_on_where_it_was_asked_for() {
    let place = Place::new(300, 60, true);
    let elsewhere: &'static str = Box::leak(place.url().into_boxed_str());
    let other = Server::start();
    other.fail(move |_, _| Some(Fault::Redirect(302, elsewhere)));
    let url = format!("{}/a/set.msgpack", other.url());
    let (storage, path) = RemoteStorage::open(&url, impatient()).unwrap();
    let file = storage.open(&path).unwrap();
    assert_eq!(file.len(), std::fs::metadata(place.local.path()).unwrap().len());
}

/// As of files on disk, in the memory that the command has there.
#[cfg(all(feature = "cli", unix))]
#[test]
fn counts_that_a_server_sends_are_not_believed() {
    use crate::support::one_in;
    use crate::untrusted::claims::{HOSTILE, SIDES, claiming, dataset, manifest};
    use kiste::format::dataset::SideFile;

    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("d.msgpack");
    dataset(&data);
    let bytes = std::fs::metadata(&data).unwrap().len();
    let ask = |url: &str, what: &str| {
        for args in [
            &["info", url][..],
            &["ls", url],
            &["get", url, "b"],
            &["get", url, "nope"],
            &["tail", url],
            &["stat", url],
            &["verify", url],
            &["order", url, "--indices"],
            &["convert", url, "o.jsonl", "--dry-run"],
        ] {
            let (code, error) = crate::untrusted::attacks::run(dir.path(), args);
            assert!(matches!(code, Some(0..=2)), "{what}: {args:?}: {code:?} {error}");
            assert!(!error.contains("panicked"), "{what}: {args:?}: {error}");
        }
    };
    let server = Server::start();
    server.upload(&data, "/d");
    let url = |name: &str| format!("{}/d/{name}", server.url());
    ask(&url("d.msgpack"), "sound");
    for count in HOSTILE {
        server.put("/d/d.shards.json", manifest(count, bytes).into_bytes());
        ask(&url("d.shards.json"), &format!("a manifest of {count}"));
    }
    let lie = |side: SideFile, count: u64| {
        let path = side.path(Path::new("/d/d.msgpack")).to_str().unwrap().to_owned();
        let server = Server::start();
        server.upload(&data, "/d");
        let whole = server.object(&path).map(|bytes| bytes.to_vec()).unwrap_or_default();
        let Some((forged, len)) = claiming(side, count, &whole) else { return };
        match side {
            SideFile::Offsets => server.put("/d/d.msgpack", Vec::new()),
            SideFile::Index => server.remove("/d/d.msgpack.offsets"),
            _ => {}
        }
        let last = (forged.len() as u64).saturating_sub(1);
        server.put(&path, forged);
        server.fail(move |_, request| {
            len.filter(|_| request.path == path).map(|len| Fault::Range(last, len))
        });
        let url = format!("{}/d/d.msgpack", server.url());
        ask(&url, &format!("{} of {count}", side.suffix()));
    };
    // The command mostly waits between two tries.
    std::thread::scope(|scope| {
        for (nth, side) in SIDES.into_iter().enumerate() {
            let lie = &lie;
            let some = HOSTILE.into_iter().skip(nth % one_in(2)).step_by(one_in(2));
            scope.spawn(move || some.for_each(|count| lie(side, count)));
        }
    });
}
