//! Loaders over URLs: the same batches, and few bytes more than those of the samples.

use std::sync::mpsc;

use super::server::Fault;
use super::*;
use crate::loader::report::{advises, reaches};
use kiste::loader::{Limit, Loader};
use kiste::sampler::{BlockShuffle, Sampler, Sequential, Shuffle};

const SAMPLES: u64 = 20_000;

/// The samples of one epoch, in the order of the batches.
fn epoch(reader: &DatasetReader, sampler: Arc<dyn Sampler>, threads: usize) -> Vec<Vec<u8>> {
    let options = Loader::options(Arc::new(reader.clone()), sampler);
    let loader = options.batch_size(250).epochs(1).threads(threads).raw().unwrap();
    loader.flat_map(|batch| batch.unwrap().data).collect()
}

#[test]
fn an_epoch_fetches_what_it_reads_and_little_more() {
    let place = Place::new(SAMPLES, 1000, false);
    let samplers: [(Arc<dyn Sampler>, bool); 3] = [
        (Arc::new(Sequential::new(SAMPLES)), true),
        (Arc::new(BlockShuffle::new(SAMPLES, 128, 16, 7).unwrap()), true),
        (Arc::new(Shuffle::new(SAMPLES, 7)), false),
    ];
    for (sampler, in_runs) in samplers {
        for threads in [0, 4] {
            let reader = place.open();
            place.server.requests();
            let remote = epoch(&reader, sampler.clone(), threads);
            assert_eq!(remote, epoch(&place.local, sampler.clone(), threads));
            let bytes = place.server.sent();
            let most = place.local.data_len() * 105 / 100;
            // A sample here and a sample there are fetched with what lies between, up to a limit.
            assert!(bytes <= if in_runs { most } else { 2 * most }, "{bytes} of {most}");
        }
    }
}

#[test]
fn what_was_read_in_order_before_is_not_read_ahead_for_a_loader() {
    let place = Place::new(12_000, 8000, false);
    let (storage, path) =
        RemoteStorage::open(&place.url(), place.options().connections(2)).unwrap();
    let reader = DatasetReader::options().storage(Arc::new(storage)).open(path).unwrap();
    place.server.requests();
    // Slower than its reader.
    place.server.fail(|_, _| Some(Fault::Late(30)));
    reader.iter_raw(..2500).for_each(|raw| drop(raw.unwrap()));
    let options = Loader::options(Arc::new(reader), Sequential::new(12_000)).batch_size(2);
    options.epochs(1).threads(2).raw().unwrap().for_each(|batch| drop(batch.unwrap()));
    let bytes = place.server.sent();
    // And the first of those that were read, which are in memory no more.
    let most = place.local.data_len() * 105 / 100 + (10 << 20);
    assert!(bytes <= most, "{bytes} of {most}");
}

#[test]
fn batches_are_fetched_in_groups() {
    let place = Place::new(SAMPLES, 100, false);
    let reader = place.open();
    let options = Loader::options(Arc::new(reader), Sequential::new(SAMPLES)).batch_size(250);
    let mut loader = options.epochs(1).threads(0).raw().unwrap();
    // Offsets, some samples that show how large they are unless opening fetched them, and the batches.
    let (rounds, _) = place.server.rounds(|| loader.next().unwrap().unwrap());
    assert!((2..=3).contains(&rounds), "{rounds}");
    place.server.requests();
    loader.for_each(|batch| drop(batch.unwrap()));
    assert!(place.server.requests().is_empty());
}

#[test]
fn blocks_are_fetched_in_runs() {
    let place = Place::new(SAMPLES, 1000, false);
    let sampler = BlockShuffle::new(SAMPLES, 128, 16, 7).unwrap();
    let reader = place.open();
    place.server.requests();
    epoch(&reader, Arc::new(sampler), 4);
    // 157 blocks; a group may end within one.
    let requests = place.server.requests().len();
    assert!(requests < 400, "{requests}");
}

#[test]
fn a_report_says_that_the_network_is_the_limit() {
    let place = Place::new(1000, 1000, false);
    for threads in [0, 2] {
        let report = reaches(Limit::Storage, || {
            let options = place.options().connections(1);
            let (storage, path) = RemoteStorage::open(&place.url(), options).unwrap();
            let reader = DatasetReader::options().storage(Arc::new(storage)).open(path).unwrap();
            // The epoch is two requests.
            place.server.fail(|_, _| Some(Fault::Late(500)));
            let options = Loader::options(Arc::new(reader), Shuffle::new(1000, 7)).batch_size(10);
            let mut loader = options.epochs(1).threads(threads).map(|record| record.get()).unwrap();
            loader.by_ref().take(100).for_each(|batch| drop(batch.unwrap()));
            place.server.fail(|_, _| None);
            loader.report()
        });
        assert!(report.is_remote);
        advises(&report, Limit::Storage, "the network is the limit");
    }
}

#[test]
fn a_replaced_dataset_ends_in_an_error_of_the_loader() {
    let place = Place::new(SAMPLES, 100, false);
    let reader = place.open();
    // So small that groups, of which some are fetched ahead, are a small part of the epoch.
    let options = Loader::options(Arc::new(reader), Shuffle::new(SAMPLES, 1)).batch_size(2);
    let mut loader = options.epochs(1).threads(2).raw().unwrap();
    loader.next().unwrap().unwrap();
    place.replace();
    let error = loader.find_map(|batch| batch.err()).unwrap();
    assert_eq!(error.kind(), kiste::ErrorKind::Replaced, "{error}");
}

#[test]
fn a_loader_that_waits_for_an_answer_ends_when_it_is_dropped() {
    // The samples, the offsets, and what is read of a shard before both.
    for waiting in ["/d/set.msgpack", "/d/set.msgpack.offsets", ""] {
        let place = Place::new(SAMPLES, 100, false);
        // No test takes as long.
        let options = RemoteOptions::default().timeout(Duration::from_secs(3600));
        let (storage, path) = RemoteStorage::open(&place.url(), options).unwrap();
        let reader = DatasetReader::options().storage(Arc::new(storage)).open(path).unwrap();
        let (asked, heard) = mpsc::channel();
        let is_waiting = move |path: &str| waiting.is_empty() || path == waiting;
        place.server.fail(move |_, request| {
            let _ = asked.send(());
            is_waiting(&request.path).then_some(Fault::Stall)
        });
        let options = Loader::options(Arc::new(reader.clone()), Shuffle::new(SAMPLES, 1));
        let loader = options.batch_size(100).epochs(1).threads(3).raw().unwrap();
        heard.recv().unwrap();
        let (dropped, done) = mpsc::channel();
        std::thread::spawn(move || {
            drop(loader);
            dropped.send(()).unwrap();
        });
        assert!(done.recv_timeout(Duration::from_secs(300)).is_ok(), "{waiting} hangs");
        // What was cancelled is not a failure of the store.
        place.server.fail(|_, _| None);
        let place_of = |index: usize| place.local.get_raw(index).unwrap();
        assert!(
            (0..SAMPLES as usize).step_by(999).all(|i| reader.get_raw(i).unwrap() == place_of(i))
        );
    }
}

#[test]
fn requests_of_a_loader_share_the_connections() {
    let place = Place::new(SAMPLES, 1000, false);
    let (storage, path) =
        RemoteStorage::open(&place.url(), place.options().connections(3)).unwrap();
    let reader = DatasetReader::options().storage(Arc::new(storage)).open(path).unwrap();
    let before = place.server.connections();
    let batches = epoch(&reader, Arc::new(Shuffle::new(SAMPLES, 1)), 4);
    assert_eq!(batches.len(), SAMPLES as usize);
    // Those of the queue, and single reads of the threads.
    let opened = place.server.connections() - before;
    assert!(opened <= 3 + 5, "{opened}");
}
