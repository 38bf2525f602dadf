//! Samples that cannot be read or decoded: raised, skipped, replaced, and named.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use kiste::loader::{Batch, Columns, Loader, OnError, Padded, Record};
use kiste::reader::Reader;
use kiste::sampler::{Partition, Sampler, Shuffle, State, Tail};
use kiste::{DatasetReader, ErrorKind, Result, Value};

use super::{Bytes, all, damaged, in_order, place, rows_of, v};
use crate::support::packed;

#[test]
fn an_error_names_the_sample_and_the_next_batch_is_fine() {
    let (reader, path, bad) = damaged();
    let order = Shuffle::new(1000, 3).order(0).unwrap();
    let plan = Partition::new(1000, 10).unwrap();
    for threads in [0, 2] {
        let options = Loader::options(reader.clone(), Shuffle::new(1000, 3)).batch_size(10);
        let options = options.epochs(1).threads(threads);
        let mut columns = options.clone().columns(Columns::new().scalar::<u64>("v")).unwrap();
        let mut mapped = options.map(v).unwrap();
        for step in 0..100 {
            let positions = step * 10..(step + 1) * 10;
            let first = positions.map(|p| order.index_at(p)).find(|index| bad.contains(index));
            let errors = [columns.next().unwrap().err(), mapped.next().unwrap().err()];
            assert_eq!(place(columns.state()), place(plan.state_after(0, step)));
            assert_eq!(place(mapped.state()), place(plan.state_after(0, step)));
            for error in errors {
                assert_eq!(error.is_some(), first.is_some(), "step {step}");
                let (Some(error), Some(index)) = (error, first) else { continue };
                assert_eq!(error.path(), Some(path.as_path()), "{error}");
                assert_eq!(error.index(), Some(index), "{error}");
                assert_eq!(error.key(), Some(format!("k{index}").as_str()), "{error}");
                assert_eq!(error.range(), Some(reader.byte_range(index as usize).unwrap()));
                assert_eq!((error.epoch(), error.step()), (Some(0), Some(step)));
                assert!(error.to_string().ends_with(&format!(", in step {step} of epoch 0")));
            }
        }
        assert!(columns.next().is_none() && mapped.next().is_none());
    }
}

#[test]
fn an_error_at_another_file_keeps_both_places() {
    let (reader, path, _) = damaged();
    // Of a file of its own, of the dataset itself, of the dataset with a place, and of no file.
    type Decode = fn(&Record<'_>) -> Result<u64>;
    let cases: [(Decode, &str, Option<&str>); 4] = [
        (
            |_| {
                let source = std::io::Error::from_raw_os_error(5);
                Err(kiste::Error::io("labels.txt", source))
            },
            "labels.txt: ",
            Some("labels.txt"),
        ),
        (|_| Err(kiste::Error::new(ErrorKind::Io, "text").at("bad.msgpack")), "text", None),
        (
            |record| {
                let error = kiste::Error::new(ErrorKind::Io, "text").at("bad.msgpack");
                Err(error.with_index(record.index() as u64).with_range(1..2))
            },
            "text",
            None,
        ),
        (|_| Err(kiste::Error::new(ErrorKind::Io, "text")), "text", None),
    ];
    for (decode, message, other) in cases {
        let options = in_order(&reader, 2).resume(State::new(0, 4)).epochs(1);
        let raised = options.clone().map(decode).unwrap().next().unwrap().unwrap_err();
        let options = options.on_error(OnError::Skip);
        let listed = options.map(decode).unwrap().next().unwrap().unwrap().failures.remove(0).error;
        assert_eq!((raised.epoch(), raised.step()), (Some(0), Some(0)));
        for error in [raised, listed] {
            assert_eq!((error.kind(), error.path()), (ErrorKind::Io, Some(path.as_path())));
            assert_eq!((error.index(), error.key()), (Some(4), Some("k4")));
            assert!(error.range().is_some());
            assert!(error.message().starts_with(message), "{error}");
            let source = error.get_ref();
            let source = source.map(|source| source.downcast_ref::<kiste::Error>().unwrap());
            assert_eq!(source.and_then(kiste::Error::path), other.map(Path::new));
            // And what the operating system said.
            let deepest = source.and_then(kiste::Error::get_ref);
            assert_eq!(deepest.is_some(), other.is_some());
        }
    }
    // A reader in memory has no file to be taken for.
    let decode: Decode = |_| Err(kiste::Error::new(ErrorKind::Io, "text").at("labels.txt"));
    let error = in_order(&Bytes::count(3), 3).map(decode).unwrap().next().unwrap().unwrap_err();
    assert_eq!((error.path(), error.index()), (None, Some(0)));
    assert_eq!(error.message(), "labels.txt: text");
}

/// Each bad sample is reported once, with all that is known about it.
fn check_failures<D>(reader: &DatasetReader, batches: &[Batch<D>], bad: &BTreeSet<u64>) {
    let order = Shuffle::new(1000, 3).order(0).unwrap();
    let failures: Vec<_> = batches.iter().flat_map(|batch| &batch.failures).collect();
    assert_eq!(failures.len(), bad.len());
    assert_eq!(failures.iter().map(|f| f.index).collect::<BTreeSet<_>>(), *bad);
    for failure in failures {
        let (index, key) = (failure.index, format!("k{}", failure.index));
        assert_eq!(order.index_at(failure.position), index);
        assert_eq!(failure.key.as_ref(), Some(&key));
        assert_eq!(failure.error.path(), Some(reader.path()));
        assert_eq!(failure.error.index(), Some(index));
        assert_eq!(failure.error.key(), Some(key.as_str()));
        assert_eq!(failure.error.range(), Some(reader.byte_range(index as usize).unwrap()));
    }
    for (step, batch) in (0..).zip(batches) {
        assert_eq!(batch.positions, step * 10..(step + 1) * 10);
        assert!(batch.failures.iter().all(|f| batch.positions.contains(&f.position)));
    }
}

/// A reader whose reads fail in the operating system.
struct Broken;

impl Reader for Broken {
    fn len(&self) -> usize {
        3
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        Ok(index.to_string().into())
    }

    fn find(&self, _: &str) -> Result<Option<usize>> {
        Ok(None)
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        if index == 1 {
            return Err(
                kiste::Error::io("data", std::io::Error::from_raw_os_error(5)).with_index(1)
            );
        }
        Ok(Cow::Owned(packed(&index.to_string(), index as u64)))
    }
}

#[test]
fn the_error_of_the_operating_system_is_kept() {
    let reader = Arc::new(Broken);
    let options = in_order(&reader, 3).threads(1);
    let raised = options.clone().raw().unwrap().next().unwrap().unwrap_err();
    let mut batch = options.on_error(OnError::Skip).map(v).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.data, [0, 2]);
    for error in [raised, batch.failures.remove(0).error] {
        assert_eq!((error.kind(), error.index(), error.key()), (ErrorKind::Io, Some(1), Some("1")));
        assert_eq!(error.path(), Some(Path::new("data")));
        let source = error.get_ref().unwrap();
        let source = source.downcast_ref::<std::io::Error>().unwrap();
        assert_eq!(source.raw_os_error(), Some(5));
    }
}

#[test]
fn bad_samples_are_skipped_and_reported_once() {
    let (reader, _, bad) = damaged();
    let order = Shuffle::new(1000, 3).order(0).unwrap();
    let options = Loader::options(reader.clone(), Shuffle::new(1000, 3)).batch_size(10);
    let options = options.epochs(1).threads(2).on_error(OnError::Skip);
    let mapped = all(options.clone().map(v).unwrap());
    let columns = all(options.columns(Columns::new().scalar::<u64>("v")).unwrap());
    check_failures(&reader, &mapped, &bad);
    check_failures(&reader, &columns, &bad);
    for (mapped, columns) in mapped.iter().zip(&columns) {
        let indices = mapped.positions.clone().map(|p| order.index_at(p));
        let good: Vec<u64> = indices.filter(|index| !bad.contains(index)).collect();
        assert_eq!((&mapped.indices, &mapped.data), (&good, &good));
        assert_eq!(columns.indices, good);
        assert_eq!(columns.data.values::<u64>("v").unwrap(), good);
        assert_eq!(columns.data.len(), good.len());
    }
}

#[test]
fn a_placeholder_takes_the_place_of_a_bad_sample() {
    let (reader, _, bad) = damaged();
    let options = Loader::options(reader.clone(), Shuffle::new(1000, 3)).batch_size(10);
    let options = options.epochs(1).threads(2).on_error(OnError::Placeholder);
    let mapped = all(options.clone().map_or_else(|failure| 10_000 + failure.index, v).unwrap());
    // The key of some bad samples can be read before `v` cannot.
    let fields = Columns::new().bytes("key").scalar::<u64>("v");
    let fields = fields.row::<u64>("row", &[2], |record, row| {
        row[0] = v(record)?;
        row[1] = row[0];
        Ok(())
    });
    let columns = all(options.clone().columns(fields).unwrap());
    check_failures(&reader, &mapped, &bad);
    check_failures(&reader, &columns, &bad);
    for (mapped, columns) in mapped.iter().zip(&columns) {
        let is_bad = |index: &u64| bad.contains(index);
        let instead = |other: fn(u64) -> u64| {
            let of = |&index: &u64| if is_bad(&index) { other(index) } else { index };
            mapped.indices.iter().map(of).collect::<Vec<u64>>()
        };
        assert_eq!(mapped.indices.len(), 10);
        assert_eq!(mapped.data, instead(|index| index + 10_000));
        assert_eq!(columns.indices, mapped.indices);
        assert_eq!(columns.data.len(), 10);
        assert_eq!(columns.data.values::<u64>("v").unwrap(), instead(|_| 0));
        let twice: Vec<u64> = instead(|_| 0).into_iter().flat_map(|v| [v, v]).collect();
        assert_eq!(columns.data.values::<u64>("row").unwrap(), twice);
        let keys = mapped.indices.iter().map(|index| match is_bad(index) {
            true => Vec::new(),
            false => format!("k{index}").into_bytes(),
        });
        assert!(rows_of(&columns.data, "key").into_iter().eq(keys));
    }
    // Without a placeholder there is none to take.
    let error = options.map(v).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn a_bad_sample_that_comes_again_as_padding_is_reported_once() {
    // Of all ranks together, whether it comes again in another rank, batch, or the same batch.
    let bad = BTreeSet::from([0, 1, 5]);
    let sample = |i: u64| if [0, 1, 5].contains(&i) { vec![0xc1] } else { packed("k", i) };
    let reader = Bytes::new((0..10).map(sample));
    for (batch, world) in [(4, 1), (4, 2), (3, 4), (16, 1), (7, 5)] {
        for policy in [OnError::Skip, OnError::Placeholder] {
            let mut reported = Vec::new();
            let mut samples = 0;
            for rank in 0..world {
                let options = in_order(&reader, batch).threads(1).epochs(2).rank(rank, world);
                let options = options.tail(Tail::Pad).on_error(policy);
                for batch in all(options.columns(Columns::new().scalar::<u64>("v")).unwrap()) {
                    let real = batch.indices.len() - batch.padding as usize;
                    let positions: Vec<u64> = batch.positions.clone().collect();
                    let of = |at: &&u64| policy == OnError::Placeholder || !bad.contains(at);
                    // In order, the index is the position.
                    assert!(batch.indices[..real].iter().eq(positions.iter().filter(of)));
                    assert!(batch.failures.iter().all(|f| batch.positions.contains(&f.position)));
                    reported.extend(batch.failures.iter().map(|f| (batch.epoch, f.index)));
                    samples += real;
                }
            }
            reported.sort_unstable();
            let expected = (0..2).flat_map(|epoch| bad.iter().map(move |&index| (epoch, index)));
            assert!(reported.into_iter().eq(expected), "{batch} × {world}, {policy:?}");
            assert_eq!(samples, if policy == OnError::Skip { 14 } else { 20 });
        }
    }
}

#[derive(Debug)]
struct Undecodable {
    cause: std::num::ParseIntError,
}

impl std::fmt::Display for Undecodable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the picture cannot be decoded")
    }
}

impl std::error::Error for Undecodable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// What a program prints that prints the whole chain.
fn chain(error: &dyn std::error::Error) -> Vec<String> {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect()
}

#[test]
fn errors_of_others_are_kept_and_each_cause_is_printed_once() {
    type Boxed = Box<dyn std::error::Error + Send + Sync>;
    fn decode(_: &[u8]) -> Result<u64, Undecodable> {
        Err(Undecodable { cause: "x".parse::<u8>().unwrap_err() })
    }
    fn boxed(raw: &[u8]) -> Result<u64, Boxed> {
        Ok(decode(raw)?)
    }
    let reader = Bytes::count(3);
    let by_hand =
        in_order(&reader, 3).map(|record| decode(record.raw()).map_err(kiste::Error::other));
    let by_itself = in_order(&reader, 3).map(|record| Ok(boxed(record.raw())?));
    for loader in [by_hand, by_itself] {
        let error = loader.unwrap().next().unwrap().unwrap_err();
        assert_eq!((error.kind(), error.index()), (ErrorKind::Other, Some(0)));
        assert!(error.get_ref().unwrap().is::<Undecodable>());
        let digit = "invalid digit found in string";
        let line = "sample 0: key \"k0\": the picture cannot be decoded, in step 0 of epoch 0";
        assert_eq!(chain(&error), [line, digit]);
        assert_eq!(format!("{error:#}"), format!("{line}: {digit}"));
        assert!(format!("{error:?}").contains(digit));
    }
    // Ours come back, also from within the errors of streams.
    let ours = || kiste::Error::new(ErrorKind::Limit, "too much");
    assert_eq!(kiste::Error::other(ours()).kind(), ErrorKind::Limit);
    assert_eq!(kiste::Error::other(std::io::Error::other(ours())).kind(), ErrorKind::Limit);
    let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
    assert_eq!(kiste::Error::other(missing).kind(), ErrorKind::NotFound);
    assert_eq!(kiste::Error::other("text").message(), "text");
}

#[test]
fn no_error_says_the_same_twice() {
    let io = || std::io::Error::from_raw_os_error(5);
    for error in [
        kiste::Error::io("data", io()),
        kiste::Error::os("waiting", io()),
        DatasetReader::open("no/such.msgpack").unwrap_err(),
    ] {
        assert_eq!(chain(&error).len(), 1, "{error:?}");
        assert!(error.io_kind().is_some());
    }
    // What is not in the message yet comes as its source.
    let error = kiste::Error::new(ErrorKind::Invalid, "a header").with_source(io());
    assert_eq!(chain(&error), ["a header".to_owned(), io().to_string()]);
}

#[test]
fn a_column_of_another_type_is_told_by_both_types() {
    let values = [1, 2].map(|n| Value::Array(vec![n.into()]));
    let lists = || in_order(&Bytes::of(values.clone()), 2);
    let message = |error: kiste::Error| error.message().to_owned();
    let scalars = in_order(&Bytes::count(2), 2).columns(Columns::new().scalar::<i64>("v"));
    let batch = scalars.unwrap().next().unwrap().unwrap().data;
    let expected = "column \"v\": expected values of type float32, found values of type int64";
    assert_eq!(message(batch.array::<f32>("v").unwrap_err()), expected);
    assert_eq!(message(batch.values::<f32>("v").unwrap_err()), expected);
    let expected = "column \"v\": expected bytes of any length, found values of type int64";
    assert_eq!(message(batch.bytes("v").unwrap_err()), expected);
    let expected = "column \"v\": expected packed rows of type int64, found values of type int64";
    assert_eq!(message(batch.packed::<i64>("v").map(drop).unwrap_err()), expected);
    let expected = "there is no column \"w\" among [\"v\"]";
    assert_eq!(message(batch.array::<i64>("w").unwrap_err()), expected);
    let padded = Columns::new().padded("v", &[], Padded::<i64>::longest());
    let batch = lists().columns(padded).unwrap().next().unwrap().unwrap().data;
    let expected = "column \"v\": expected values of type uint8, found padded rows of type int64";
    assert_eq!(message(batch.array::<u8>("v").unwrap_err()), expected);
}

#[test]
fn a_loader_takes_readers_and_what_points_to_them() {
    let bytes = || Bytes::new((0..3).map(|i| packed(&format!("k{i}"), i)));
    let owned = Arc::into_inner(bytes()).unwrap();
    let shared: Arc<dyn Reader> = bytes();
    let boxed: Box<dyn Reader> = Box::new(bytes());
    let sampler = || kiste::sampler::Sequential::new(3);
    for options in [
        Loader::options(owned, sampler()),
        Loader::options(bytes(), sampler()),
        Loader::options(shared, sampler()),
        Loader::options(boxed, sampler()),
    ] {
        assert_eq!(options.epochs(1).map(v).unwrap().next().unwrap().unwrap().data, [0, 1, 2]);
    }
}
