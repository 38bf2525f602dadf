//! Datasets that are written to an object store: the same bytes as on a disk, and never half of them.

use super::server::Fault;
use super::uploads::s3;
use super::*;
use kiste::ErrorKind;
use kiste::dataset::{DatasetFile, WriterOptions};
use kiste::rearrange::LengthOf;
use kiste::repair::{Leftover, Repair};

const URL: &str = "s3://d/new.msgpack";

fn to(server: &Server) -> WriterOptions {
    with(s3(server))
}

fn with(options: RemoteOptions) -> WriterOptions {
    let (storage, _) = RemoteStorage::open(URL, options).unwrap();
    Writer::options().storage(Arc::new(storage))
}

fn reader(server: &Server) -> Result<DatasetReader> {
    let (storage, path) = RemoteStorage::open(URL, s3(server)).unwrap();
    DatasetReader::options().storage(Arc::new(storage)).open(path)
}

fn repair(server: &Server) -> Repair {
    let (storage, path) = RemoteStorage::open(URL, s3(server)).unwrap();
    Repair::of(path).storage(Arc::new(storage))
}

fn fill(writer: &mut Writer, samples: u64, len: usize) -> Result<()> {
    (0..samples).try_for_each(|index| writer.write_raw(&key(index), &sample(index, len)))
}

/// With all side files.
fn whole(options: WriterOptions) -> WriterOptions {
    let lengths = ["bytes"].map(|column| LengthOf::parse(column).unwrap());
    options.lookup(true).checksums(true).lengths(lengths)
}

fn write(options: WriterOptions, samples: u64, len: usize) -> Result<()> {
    let mut writer = whole(options).create(URL)?;
    writer.set_labels(Some(&["cat", "dog"]))?;
    fill(&mut writer, samples, len)?;
    writer.finish().map(drop)
}

/// Compares all files with those of a write to a disk.
#[track_caller]
fn assert_as_local(server: &Server, samples: u64, len: usize) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new.msgpack");
    let mut writer = whole(Writer::options().durable(false)).create(&path).unwrap();
    writer.set_labels(Some(&["cat", "dog"])).unwrap();
    fill(&mut writer, samples, len).unwrap();
    writer.finish().unwrap();
    let mut there = Vec::new();
    for file in DatasetFile::all() {
        let path = file.path(&path);
        let name = format!("/d/{}", path.file_name().unwrap().to_str().unwrap());
        let local = std::fs::read(path).ok();
        let remote = server.object(&name);
        assert!(local.as_ref() == remote.as_deref(), "{name}");
        there.extend(local.map(|_| name));
    }
    there.sort();
    assert_eq!(server.names(), there);
    assert_eq!(server.unfinished_uploads(), 0);
}

/// Every range of an object without bytes is refused.
#[test]
fn a_dataset_without_samples_is_read() {
    let server = Server::start();
    write(to(&server), 0, 0).unwrap();
    let by_http = format!("http://{}/d/new.msgpack", server.address());
    let (storage, path) = RemoteStorage::open(&by_http, RemoteOptions::default()).unwrap();
    let plain = DatasetReader::options().storage(Arc::new(storage)).open(path).unwrap();
    for reader in [reader(&server).unwrap(), plain] {
        assert_eq!((reader.len(), reader.find("k0").unwrap()), (0, None));
        assert_eq!(reader.iter(..).count(), 0);
    }
}

#[test]
fn what_is_written_to_a_url_is_what_is_written_to_a_disk() {
    for (samples, len) in [(0, 0), (1, 10), (3000, 50), (3000, 6000)] {
        let server = Server::start();
        write(to(&server), samples, len).unwrap();
        // Offsets last, and the mark of the writer first and last.
        let changes: Vec<_> = server.requests().into_iter().filter(|r| r.method != "GET").collect();
        let target = |at: usize| (changes[at].method.as_str(), changes[at].path.as_str());
        assert_eq!(target(0), ("PUT", "/d/new.msgpack.partial"));
        assert_eq!(target(changes.len() - 2), ("PUT", "/d/new.msgpack.offsets"));
        assert_eq!(target(changes.len() - 1), ("DELETE", "/d/new.msgpack.partial"));
        assert_as_local(&server, samples, len);
        assert_eq!(reader(&server).unwrap().len() as u64, samples);
    }
}

#[test]
fn a_twentieth_of_503_and_cut_connections_change_nothing() {
    for fault in [Fault::Status(503, None), Fault::Hang, Fault::Lost] {
        let server = Server::start();
        server.fail(move |number, _| (number % 20 == 7).then_some(fault));
        write(to(&server), 3000, 6000).unwrap();
        assert_as_local(&server, 3000, 6000);
    }
}

#[test]
fn until_it_is_finished_there_is_no_dataset_and_after_a_dead_writer_a_repair_removes_the_rest() {
    let server = Server::start();
    let mut writer = to(&server).create(URL).unwrap();
    fill(&mut writer, 2000, 10_000).unwrap();
    assert_eq!(server.names(), ["/d/new.msgpack.partial"]);
    let error = reader(&server).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert!(error.to_string().contains("new.msgpack.partial exists"), "{error}");
    // Another writer does not get its place, not even one that replaces.
    for overwrite in [false, true] {
        let error = to(&server).overwrite(overwrite).create(URL).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    }
    // As if the process had been killed.
    std::mem::forget(writer);
    assert_eq!(repair(&server).leftover().unwrap(), Some(Leftover::Nothing));
    repair(&server).undo().unwrap();
    assert!(server.names().is_empty());
    assert_eq!(repair(&server).leftover().unwrap(), None);
    write(to(&server), 100, 10).unwrap();
    assert_eq!(reader(&server).unwrap().len(), 100);
}

#[test]
fn a_writer_that_is_dropped_or_aborted_leaves_nothing() {
    for abort in [false, true] {
        let server = Server::start();
        let mut writer = to(&server).create(URL).unwrap();
        fill(&mut writer, 2000, 10_000).unwrap();
        assert_eq!(server.unfinished_uploads(), 1);
        assert_eq!(writer.flush().unwrap_err().kind(), ErrorKind::Unsupported);
        match abort {
            true => writer.abort().unwrap(),
            false => drop(writer),
        }
        assert!(server.names().is_empty());
        assert_eq!(server.unfinished_uploads(), 0);
    }
}

#[test]
fn a_failure_at_any_step_leaves_a_whole_dataset_or_none() {
    let server = Server::start();
    write(to(&server), 500, 100).unwrap();
    let steps = server.requests().len() as u64;
    for step in 0..steps {
        let server = Server::start();
        // From this request on the server is down for writers; then it is up again.
        server.fail(move |number, request| {
            (number >= step && request.method != "GET").then_some(Fault::Status(503, None))
        });
        let result = write(with(s3(&server).retries(0)), 500, 100);
        server.fail(|_, _| None);
        match reader(&server) {
            Ok(reader) => assert_eq!(reader.iter(..).count(), 500, "{step}"),
            Err(error) => {
                assert!(result.is_err(), "{step}");
                assert!(
                    [ErrorKind::NotFound, ErrorKind::Interrupted].contains(&error.kind()),
                    "{step}: {error}"
                );
            }
        }
        if repair(&server).leftover().unwrap().is_some() {
            repair(&server).finish().unwrap();
        }
        match reader(&server) {
            Ok(reader) => assert_eq!(reader.iter(..).count(), 500, "{step}"),
            Err(_) => assert!(server.names().is_empty(), "{step}: {:?}", server.names()),
        }
    }
}

#[test]
fn what_is_there_stays_unless_it_is_to_be_replaced() {
    let server = Server::start();
    write(to(&server), 300, 10).unwrap();
    let error = write(to(&server), 5, 10).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert_as_local(&server, 300, 10);
    let old = reader(&server).unwrap();
    let mut writer = to(&server).overwrite(true).create(URL).unwrap();
    fill(&mut writer, 20, 10).unwrap();
    // The old dataset is there until the new one is.
    assert_eq!(reader(&server).unwrap().len(), 300);
    writer.finish().unwrap();
    assert_eq!(reader(&server).unwrap().len(), 20);
    // What the new one does not have is gone.
    assert!(
        !server.names().iter().any(|name| name.ends_with(".lookup") || name.ends_with(".labels"))
    );
    assert_eq!(old.keys().find_map(Result::err).unwrap().kind(), ErrorKind::Replaced);
}

#[test]
fn of_racing_writers_exactly_one_wins() {
    let server = Server::start();
    server.fail(|number, _| (number % 11 == 5).then_some(Fault::Lost));
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..6)
            .map(|racer| {
                let server = &server;
                scope.spawn(move || write(to(server), 400 + racer, 100))
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    let winners: Vec<u64> =
        (0..6).filter(|&racer| results[racer as usize].is_ok()).map(|racer| 400 + racer).collect();
    assert_eq!(winners.len(), 1, "{results:?}");
    server.fail(|_, _| None);
    assert_as_local(&server, winners[0], 100);
    for lost in results.into_iter().filter_map(Result::err) {
        let kinds = [ErrorKind::AlreadyExists, ErrorKind::Interrupted];
        assert!(kinds.contains(&lost.kind()), "{lost}");
    }
}

#[test]
fn a_writer_that_lost_its_place_publishes_nothing() {
    let server = Server::start();
    let mut slow = to(&server).create(URL).unwrap();
    fill(&mut slow, 10, 10).unwrap();
    repair(&server).undo().unwrap();
    write(to(&server), 30, 10).unwrap();
    let error = slow.finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert_as_local(&server, 30, 10);
}

#[test]
fn files_of_two_writes_are_no_dataset() {
    let server = Server::start();
    write(to(&server), 500, 100).unwrap();
    let files = |server: &Server| {
        server
            .names()
            .into_iter()
            .map(|name| (name.clone(), server.stored(&name)))
            .collect::<Vec<_>>()
    };
    let old = files(&server);
    let mut writer = to(&server).lookup(true).checksums(true).overwrite(true).create(URL).unwrap();
    // The same keys and sizes, other values.
    for index in 0..500 {
        let mut packed = sample(index, 100);
        *packed.last_mut().unwrap() ^= 1;
        writer.write_raw(&key(index), &packed).unwrap();
    }
    writer.finish().unwrap();
    let new = files(&server);
    assert_eq!(reader(&server).unwrap().len(), 500);
    // Any one old file among the new ones that are opened with the dataset.
    for (name, object) in &old {
        let opened = [".msgpack", ".offsets", ".key_hashes", ".filter", ".lookup"];
        if !opened.iter().any(|end| name.ends_with(end)) {
            continue;
        }
        server.store(name, object.clone());
        let error = reader(&server).err().unwrap_or_else(|| panic!("{name}"));
        assert_eq!(error.kind(), ErrorKind::Replaced, "{name}: {error}");
        let (_, object) = new.iter().find(|(other, _)| other == name).unwrap();
        server.store(name, object.clone());
    }
    // One that is opened later.
    let reader = reader(&server).unwrap();
    let keys = "/d/new.msgpack.keys";
    server.store(keys, old.iter().find(|(name, _)| name == keys).unwrap().1.clone());
    assert_eq!(reader.keys().find_map(Result::err).unwrap().kind(), ErrorKind::Replaced);
}

#[test]
fn copies_without_the_number_of_the_write_are_read() {
    let server = Server::start();
    write(to(&server), 50, 10).unwrap();
    // As some programs copy large objects.
    let data = server.object("/d/new.msgpack").unwrap().to_vec();
    server.put("/d/new.msgpack", data);
    let reader = reader(&server).unwrap();
    assert_eq!(reader.find(&key(7)).unwrap(), Some(7));
}

#[test]
fn what_objects_cannot_is_an_error() {
    let server = Server::start();
    write(to(&server), 5, 10).unwrap();
    for error in [to(&server).append(URL).unwrap_err(), to(&server).resume(URL).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().starts_with(URL), "{error}");
    }
    assert_as_local(&server, 5, 10);
}
