//! `.lengths`: made of what samples say and nothing else, and never believed when stale or damaged.

use std::path::PathBuf;
use std::sync::Arc;

use kiste::format::dataset::{SideFile, lengths};
use kiste::format::msgpack::{RowRef, to_vec};
use kiste::index::{IndexOptions, Measure};
use kiste::rearrange::LengthOf;
use kiste::repair::{Ending, Leftover, Repair};
use kiste::storage::{LocalStorage, MemoryStorage, Storage};
use kiste::verify::{Cure, Verify};
use kiste::{DatasetReader, ErrorKind, Result, Value, Writer, WriterOptions};

use crate::support::{Random, open_in, restore, snapshot};

fn dataset() -> PathBuf {
    PathBuf::from("x.msgpack")
}

fn side(file: SideFile) -> PathBuf {
    file.path(&dataset())
}

fn options(storage: &MemoryStorage) -> WriterOptions {
    Writer::options().storage(Arc::new(storage.clone())).durable(false)
}

fn indexing(storage: &MemoryStorage) -> IndexOptions {
    IndexOptions::default().storage(Arc::new(storage.clone())).durable(false)
}

fn of(column: &str) -> LengthOf {
    column.parse().unwrap()
}

/// How many tokens a sample has.
fn tokens(index: u64) -> u32 {
    (index * 7919 % 23) as u32
}

fn write(writer: &mut Writer, from: u64, to: u64) {
    for index in from..to {
        let list = (0..tokens(index)).map(Value::from).collect();
        let sample = vec![
            ("key".into(), format!("k{index}").into()),
            ("tokens".into(), Value::Array(list)),
            ("seconds".into(), Value::from(index as f64 / 8.0)),
        ];
        writer.write_raw(&format!("k{index}"), &to_vec(&Value::Map(sample)).unwrap()).unwrap();
    }
}

fn written(samples: u64, digests: bool) -> MemoryStorage {
    let storage = MemoryStorage::new();
    let mut writer = options(&storage).digests(digests).create(dataset()).unwrap();
    write(&mut writer, 0, samples);
    writer.finish().unwrap();
    storage
}

fn gather(reader: &DatasetReader, column: &str, indices: &[u64]) -> Result<Vec<u32>> {
    let lengths = reader.lengths(column)?.expect("there is a file");
    let mut found = Vec::new();
    lengths.gather(indices, &mut found)?;
    Ok(found)
}

fn all(storage: &MemoryStorage, column: &str) -> Result<Vec<u32>> {
    let reader = open_in(storage, &dataset())?;
    let indices: Vec<u64> = (0..reader.len() as u64).collect();
    gather(&reader, column, &indices)
}

fn problems(storage: &MemoryStorage) -> Vec<String> {
    let report = Verify::of(dataset()).storage(Arc::new(storage.clone())).run().unwrap();
    if !report.is_good() {
        assert_eq!(report.cure(&dataset()), Cure::Rebuild(Some(SideFile::Lengths)));
    }
    report.problems.into_iter().map(|problem| problem.to_string()).collect()
}

#[test]
fn every_number_is_that_of_its_sample() {
    for samples in [0, 1, 2, 15, 16, 17, 1000] {
        for digests in [true, false] {
            let storage = written(samples, digests);
            let made = indexing(&storage).lengths(["len(tokens)", "bytes", "ms(seconds)"].map(of));
            let made = made.digests(digests).lookup(false).build(dataset()).unwrap();
            assert_eq!((made.samples, made.made), (samples, vec![side(SideFile::Lengths)]));
            let reader = open_in(&storage, &dataset()).unwrap();
            let expected: Vec<u32> = (0..samples).map(tokens).collect();
            assert_eq!(all(&storage, "len(tokens)").unwrap(), expected);
            let expected: Vec<u32> = (0..samples).map(|index| (index * 125) as u32).collect();
            assert_eq!(all(&storage, "ms(seconds)").unwrap(), expected);
            let bytes = reader.iter_raw(..).map(|raw| raw.unwrap().len() as u32);
            assert_eq!(all(&storage, "bytes").unwrap(), bytes.collect::<Vec<u32>>());
            assert_eq!(problems(&storage), [""; 0]);
            let lengths = reader.lengths("bytes").unwrap().unwrap();
            assert_eq!((lengths.len(), lengths.is_empty()), (samples, samples == 0));
            assert_eq!(reader.lengths("bytes").unwrap().unwrap().identity(), lengths.identity());
            let other = reader.lengths("len(tokens)").unwrap().unwrap();
            assert_ne!(other.identity(), lengths.identity());
            let error = lengths.gather(&[samples], &mut Vec::new()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
        }
    }
}

#[test]
fn the_file_is_the_same_from_any_number_of_threads_and_in_any_steps() {
    let whole = written(300, true);
    indexing(&whole).lengths(["len(tokens)", "bytes"].map(of)).build(dataset()).unwrap();
    let expected = whole.get(side(SideFile::Lengths)).unwrap();
    for threads in [1, 3] {
        let storage = written(300, true);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let build = |column: &str| indexing(&storage).lengths([of(column)]).build(dataset());
        pool.install(|| {
            build("len(tokens)").unwrap();
            build("bytes").unwrap();
        });
        assert_eq!(storage.get(side(SideFile::Lengths)).unwrap(), expected);
        // Nothing is missing now, and what is made again is the same.
        assert!(build("bytes").unwrap().made.is_empty());
        let force = indexing(&storage).force(true).lengths([of("len(tokens)")]);
        let made = force.build(dataset()).unwrap().made;
        assert!(made.contains(&side(SideFile::Lengths)) && made.len() > 1);
        assert_eq!(all(&storage, "len(tokens)").unwrap(), all(&whole, "len(tokens)").unwrap());
        assert_eq!(all(&storage, "bytes").unwrap(), all(&whole, "bytes").unwrap());
    }
    // From the data alone.
    let storage = MemoryStorage::new();
    storage.put(dataset(), whole.get(dataset()).unwrap());
    let made = indexing(&storage).lengths(["len(tokens)", "bytes"].map(of)).build(dataset());
    assert_eq!(made.unwrap().made.len(), 6);
    assert_eq!(storage.get(side(SideFile::Lengths)).unwrap(), expected);
}

#[test]
fn other_readers_of_the_file_answer_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.msgpack");
    let mut writer = Writer::options().durable(false).create(&path).unwrap();
    write(&mut writer, 0, 40_000);
    writer.finish().unwrap();
    let indexing = IndexOptions::default().lengths([of("len(tokens)")]).durable(false);
    indexing.build(&path).unwrap();
    let mut random = Random(3);
    let far: Vec<u64> = (0..500).map(|_| random.below(40_000) as u64).collect();
    let expected: Vec<u32> = far.iter().map(|index| tokens(*index)).collect();
    for storage in [LocalStorage::mapped(), LocalStorage::positioned()] {
        let reader = DatasetReader::options().storage(Arc::new(storage)).open(&path).unwrap();
        assert_eq!(gather(&reader, "len(tokens)", &far).unwrap(), expected);
        let twice = [39_999, 0, 39_999, 5, 5];
        assert_eq!(gather(&reader, "len(tokens)", &twice).unwrap(), twice.map(tokens));
        assert_eq!(gather(&reader, "len(tokens)", &[]).unwrap(), [0; 0]);
        assert!(gather(&reader, "len(tokens)", &[0, 40_000]).is_err());
    }
}

#[test]
fn no_more_is_read_than_what_is_asked_for() {
    let storage = written(20_000, true);
    let reader = open_in(&storage, &dataset()).unwrap();
    indexing(&storage).lengths([of("len(tokens)")]).lookup(false).build(dataset()).unwrap();
    let lengths = reader.lengths("len(tokens)").unwrap().unwrap();
    storage.clear_reads();
    let mut found = Vec::new();
    lengths.gather(&[19_000, 3, 4], &mut found).unwrap();
    assert_eq!(found, [19_000, 3, 4].map(tokens));
    let read: u64 = storage.reads().iter().map(|read| read.range.end - read.range.start).sum();
    assert_eq!((read, storage.reads().len()), (12, 2));
    // Opened with neither the offsets nor the numbers, as the MD5 says that the data is the same.
    storage.clear_reads();
    let reader = open_in(&storage, &dataset()).unwrap();
    storage.clear_reads();
    reader.lengths("len(tokens)").unwrap().unwrap();
    let read: u64 = storage.reads().iter().map(|read| read.range.end - read.range.start).sum();
    assert!(read < 20_000, "{read}");
}

/// The number of one sample with this field, or what is wrong with it.
fn measured(column: &str, value: impl Into<Value>) -> Result<u32, String> {
    let sample = vec![("key".into(), "a".into()), ("f".into(), value.into())];
    let sample = to_vec(&Value::Map(sample)).unwrap();
    of(column).of(&sample).map_err(|error| {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    })
}

#[test]
fn each_expression_says_what_it_finds() {
    let numpy = |shape: &[usize], bytes: &[u8]| {
        let array = kiste::value::NdArray::new("|u1".parse().unwrap(), shape, bytes).unwrap();
        kiste::format::msgpack::numpy::Special::Array(array).to_value()
    };
    let list = |len: u32| Value::Array((0..len).map(Value::from).collect());
    let map = Value::Map(vec![("n".into(), 7.into()), ("m".into(), list(2))]);
    for (column, value, expected) in [
        ("len(f)", list(0), 0),
        ("len(f)", list(15), 15),
        ("len(f)", list(16), 16),
        ("len(f)", list(70_000), 70_000),
        // Characters, not bytes.
        ("len(f)", "näher".into(), 5),
        ("len(f)", "日本".into(), 2),
        ("len(f)", "".into(), 0),
        ("len(f)", Value::Binary(vec![0xff; 9]), 9),
        ("len(f)", map.clone(), 2),
        ("len(f.m)", map.clone(), 2),
        ("len(f)", numpy(&[3, 2], &[0; 6]), 3),
        ("width(f)", numpy(&[3, 2], &[0; 6]), 2),
        ("height(f)", numpy(&[3, 2, 1], &[0; 6]), 3),
        ("f", 0.into(), 0),
        ("f", u32::MAX.into(), u32::MAX),
        ("f", 3.0.into(), 3),
        ("f.n", map.clone(), 7),
        ("f[1]", list(3), 1),
        ("ms(f)", 0.into(), 0),
        ("ms(f)", 2.into(), 2000),
        ("ms(f)", 1.5.into(), 1500),
        ("ms(f)", 0.0001.into(), 1),
        ("ms(f)", 4_294_967.295.into(), u32::MAX),
        ("bytes", 0.into(), 10),
    ] {
        assert_eq!(measured(column, value.clone()), Ok(expected), "{column} {value}");
    }
    let whole = "expected a whole number from 0 to 4294967295, found";
    let seconds = "expected a number of seconds from 0 to 4294967.295, found";
    let reference = RowRef::new("rows", 3).to_value();
    for (column, value, says) in [
        ("f", (-1).into(), format!("{whole} -1")),
        ("f", (1u64 << 32).into(), format!("{whole} 4294967296")),
        ("f", u64::MAX.into(), format!("{whole} 18446744073709551615")),
        ("f", 1.5.into(), format!("{whole} 1.5")),
        ("f", f64::NAN.into(), format!("{whole} NaN")),
        ("f", f64::INFINITY.into(), format!("{whole} inf")),
        ("f", true.into(), format!("{whole} true or false")),
        ("f", "12".into(), format!("{whole} text")),
        ("f", Value::Nil, format!("{whole} null")),
        ("f", list(1), format!("{whole} a list")),
        ("f", numpy(&[], &[1]), format!("{whole} an array of shape []")),
        ("len(f)", numpy(&[], &[1]), "has no length".to_owned()),
        ("len(f)", 5.into(), "has no length".to_owned()),
        ("len(f)", Value::Nil, format!("{whole} null")),
        ("len(f)", reference.clone(), format!("{whole} a reference to a row of an array")),
        ("width(f)", "a".into(), "has no width".to_owned()),
        ("width(f)", numpy(&[3], &[0; 3]), "has no width".to_owned()),
        ("ms(f)", (-1).into(), format!("{seconds} -1")),
        ("ms(f)", (-0.0001).into(), format!("{seconds} -0.0001")),
        ("ms(f)", f64::NAN.into(), format!("{seconds} NaN")),
        ("ms(f)", f64::INFINITY.into(), format!("{seconds} inf")),
        ("ms(f)", 4_294_967.295_1.into(), format!("{seconds} 4294967.2951")),
        ("ms(f)", "1".into(), format!("{seconds} text")),
        ("g", 1.into(), "field \"g\": g: expected a field of this name, found none".to_owned()),
        ("len(f.x)", map.clone(), "expected a field of this name, found none".to_owned()),
    ] {
        let error = measured(column, value.clone()).unwrap_err();
        assert!(error.contains(&says), "{column} {value}: {error}");
    }
}

#[test]
fn the_text_of_a_column_is_its_name() {
    for (text, name) in [
        ("len( tokens )", "len(tokens)"),
        ("len('tokens')", "len(tokens)"),
        ("len('a-b')", "len('a-b')"),
        ("n-tokens", "'n-tokens'"),
        ("meta.tokens", "meta.tokens"),
        ("boxes[-1].w", "boxes[-1].w"),
        ("ms(seconds)", "ms(seconds)"),
        ("ms", "ms"),
        ("len", "'len'"),
        (" bytes ", "bytes"),
        ("'bytes'", "'bytes'"),
        ("len(bytes)", "len(bytes)"),
    ] {
        let column = of(text);
        assert_eq!(column.to_string(), name);
        assert_eq!(of(name), column);
    }
    for (text, position) in [
        ("", None),
        ("len(", None),
        ("len(a", None),
        ("len(a) > 3", Some(8)),
        ("a b", Some(3)),
        ("count(a)", Some(6)),
        ("ms(a)(", Some(6)),
        ("a*2", Some(2)),
    ] {
        assert_eq!(LengthOf::parse(text).unwrap_err().position(), position, "{text}");
    }
}

#[test]
fn a_sample_without_a_number_has_a_name_and_nothing_is_made() {
    let storage = written(50, true);
    let mut writer = options(&storage).append(dataset()).unwrap();
    for key in ["odd", "later"] {
        writer.write(&std::collections::BTreeMap::from([("key", key)])).unwrap();
    }
    writer.finish().unwrap();
    let error = indexing(&storage).lengths([of("len(tokens)")]).build(dataset()).unwrap_err();
    assert_eq!((error.kind(), error.index()), (ErrorKind::Invalid, Some(50)));
    assert_eq!((error.key(), error.field()), (Some("odd"), Some("tokens")));
    assert_eq!(error.path(), Some(&*dataset()));
    assert!(error.message().contains("expected a field of this name, found none"));
    assert_eq!(storage.get(side(SideFile::Lengths)), None);
    assert!(storage.names().iter().all(|name| !name.to_str().unwrap().contains("partial")));
    // Columns that make no file.
    let twice = indexing(&storage).lengths(["bytes", "bytes"].map(of));
    assert_eq!(twice.build(dataset()).unwrap_err().kind(), ErrorKind::Invalid);
    let many: Vec<LengthOf> = (0..65).map(|n| of(&format!("f{n}"))).collect();
    assert_eq!(
        indexing(&storage).lengths(many).build(dataset()).unwrap_err().kind(),
        ErrorKind::Invalid
    );
}

#[test]
fn a_dataset_that_changes_does_not_keep_them() {
    for digests in [true, false] {
        let storage = written(10, digests);
        let build = || {
            indexing(&storage)
                .digests(digests)
                .lengths([of("len(tokens)")])
                .build(dataset())
                .unwrap();
            assert!(storage.get(side(SideFile::Lengths)).is_some());
        };
        build();
        let mut writer = options(&storage).digests(digests).append(dataset()).unwrap();
        write(&mut writer, 10, 12);
        writer.finish().unwrap();
        assert_eq!(storage.get(side(SideFile::Lengths)), None);
        assert!(open_in(&storage, &dataset()).unwrap().lengths("len(tokens)").unwrap().is_none());
        build();
        assert_eq!(all(&storage, "len(tokens)").unwrap().len(), 12);
        let options = options(&storage).digests(digests);
        let mut writer = options.overwrite(true).create(dataset()).unwrap();
        write(&mut writer, 0, 3);
        writer.finish().unwrap();
        assert_eq!(storage.get(side(SideFile::Lengths)), None);
    }
}

#[test]
fn numbers_of_other_data_are_refused_and_replaced() {
    // As after another program has written the dataset, which does not know the file.
    let old = written(10, true);
    let columns = ["len(tokens)", "bytes"].map(of);
    indexing(&old).lengths(columns.clone()).build(dataset()).unwrap();
    let lengths = old.get(side(SideFile::Lengths)).unwrap();
    let longer = |digests: bool| {
        let storage = MemoryStorage::new();
        let mut writer = options(&storage).digests(digests).create(dataset()).unwrap();
        write(&mut writer, 0, 11);
        writer.finish().unwrap();
        storage
    };
    let other_sizes = |digests: bool| {
        let storage = MemoryStorage::new();
        let mut writer = options(&storage).digests(digests).create(dataset()).unwrap();
        let all = open_in(&old, &dataset()).unwrap();
        // The same samples in another order: as many bytes.
        for index in (0..10).rev() {
            writer.write_raw(&all.key(index).unwrap(), &all.get_raw(index).unwrap()).unwrap();
        }
        writer.finish().unwrap();
        storage
    };
    for (storage, says) in [
        (longer(true), "byte 16: expected the number of samples 11, found 10"),
        (longer(false), "byte 16: expected the number of samples 11, found 10"),
        (other_sizes(true), "byte 32: expected the MD5 of the data"),
        (other_sizes(false), "byte 48: expected the checksum of .offsets"),
    ] {
        storage.put(side(SideFile::Lengths), lengths.clone());
        let error = all(&storage, "bytes").unwrap_err();
        assert_eq!(
            (error.kind(), error.path()),
            (ErrorKind::Damaged, Some(&*side(SideFile::Lengths)))
        );
        assert!(error.to_string().contains(says), "{error}");
        let problems = problems(&storage);
        assert!(problems.len() == 1 && problems[0].contains(says), "{problems:?}");
        let build = indexing(&storage).digests(false).lookup(false);
        let made = build.lengths([of("bytes")]).build(dataset()).unwrap().made;
        assert_eq!(made, [side(SideFile::Lengths)]);
        assert_eq!(all(&storage, "bytes").unwrap().len(), storage_len(&storage));
        let error = all(&storage, "len(tokens)").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("expected a column \"len(tokens)\", found bytes"));
        assert_eq!(self::problems(&storage), [""; 0]);
    }
}

fn storage_len(storage: &MemoryStorage) -> usize {
    open_in(storage, &dataset()).unwrap().len()
}

#[test]
fn trusted_data_keeps_no_lengths() {
    let storage = written(10, true);
    indexing(&storage).lengths([of("bytes")]).build(dataset()).unwrap();
    indexing(&storage).force(true).build(dataset()).unwrap();
    assert_eq!(all(&storage, "bytes").unwrap().len(), 10);
    indexing(&storage).force(true).trust_data(true).build(dataset()).unwrap();
    assert_eq!(storage.get(side(SideFile::Lengths)), None);
}

#[test]
fn damage_is_an_error_or_a_problem_that_names_the_file() {
    let storage = written(7, true);
    indexing(&storage).lengths(["len(tokens)", "bytes"].map(of)).build(dataset()).unwrap();
    let whole = storage.get(side(SideFile::Lengths)).unwrap();
    let header =
        lengths::Header::parse(&whole, whole.len() as u64).unwrap().range(0).start as usize;
    let file = Some(side(SideFile::Lengths));
    let damaged = |bytes: Vec<u8>| {
        storage.put(side(SideFile::Lengths), bytes);
        let problems = problems(&storage);
        assert!(problems.len() == 1 && problems[0].contains("x.msgpack.lengths"), "{problems:?}");
        all(&storage, "bytes")
    };
    for end in 0..whole.len() {
        let error = damaged(whole[..end].to_vec()).unwrap_err();
        assert_eq!(
            (error.kind(), error.path().map(PathBuf::from)),
            (ErrorKind::Damaged, file.clone())
        );
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        match damaged(changed) {
            // The numbers themselves are for a verification to compare.
            Ok(_) => assert!(at >= header, "{at}"),
            Err(error) => assert!(error.kind() == ErrorKind::Damaged && at < header, "{at}"),
        }
    }
    // What is damaged is not carried on.
    let mut changed = whole.clone();
    changed[header] ^= 1;
    storage.put(side(SideFile::Lengths), changed);
    let error = indexing(&storage).lengths([of("ms(seconds)")]).build(dataset()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains("expected a column \"len(tokens)\" with the checksum"));
    let force = indexing(&storage).force(true).lengths([of("len(tokens)")]);
    force.build(dataset()).unwrap();
    assert_eq!(storage.get(side(SideFile::Lengths)).unwrap().len(), whole.len());
    assert_eq!(problems(&storage), [""; 0]);
    storage.put(side(SideFile::Lengths), *b"not one of these");
    indexing(&storage).lengths([of("bytes")]).build(dataset()).unwrap();
    assert_eq!(problems(&storage), [""; 0]);
}

#[test]
fn a_failure_at_any_step_leaves_the_file_or_none() {
    let storage = written(20, true);
    let before = storage.operations();
    indexing(&storage).lengths([of("bytes")]).lookup(false).build(dataset()).unwrap();
    let steps = storage.operations() - before;
    let whole = storage.get(side(SideFile::Lengths)).unwrap();
    for step in 0..steps {
        let storage = written(20, true);
        storage.fail_once_after(step);
        let built = indexing(&storage).lengths([of("bytes")]).lookup(false).build(dataset());
        storage.restart();
        let found = storage.get(side(SideFile::Lengths));
        assert!(found.is_none() || found.as_ref() == Some(&whole), "{step}");
        assert!(built.is_err() || found.is_some(), "{step}");
        match kiste::repair::Repair::of(dataset()).storage(Arc::new(storage.clone())).finish() {
            // It was finished, or all of it was undone.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            finished => drop(finished.unwrap()),
        }
        indexing(&storage).lengths([of("bytes")]).lookup(false).build(dataset()).unwrap();
        assert_eq!(storage.get(side(SideFile::Lengths)), Some(whole.clone()), "{step}");
    }
}

#[test]
fn measures_of_others_are_columns_too() {
    struct Keys;
    impl Measure for Keys {
        fn name(&self) -> String {
            "letters of keys".to_owned()
        }
        fn of(&self, sample: &[u8]) -> Result<u32> {
            Ok(kiste::format::msgpack::key(sample)?.unwrap_or_default().len() as u32)
        }
    }
    let storage = written(12, true);
    indexing(&storage).lengths([Keys]).build(dataset()).unwrap();
    let found = all(&storage, "letters of keys").unwrap();
    assert_eq!(found, [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3]);
    let shared: Arc<dyn Storage> = Arc::new(storage);
    let reader = DatasetReader::options().storage(shared).open(dataset()).unwrap();
    assert!(reader.lengths("lettersofkeys").unwrap().is_some());
}

fn measuring(storage: &MemoryStorage) -> WriterOptions {
    options(storage).lengths(["len(tokens)", "bytes"].map(of))
}

/// As they are of the whole dataset: whoever made the file.
fn assert_is_indexed(storage: &MemoryStorage, columns: &[&str]) {
    let found = storage.get(side(SideFile::Lengths)).unwrap();
    let again = MemoryStorage::new();
    for file in [SideFile::Md5, SideFile::Offsets, SideFile::Keys, SideFile::KeyHashes] {
        storage.get(side(file)).into_iter().for_each(|bytes| again.put(side(file), bytes));
    }
    again.put(side(SideFile::Filter), storage.get(side(SideFile::Filter)).unwrap());
    again.put(dataset(), storage.get(dataset()).unwrap());
    let digests = storage.get(side(SideFile::Md5)).is_some();
    let columns: Vec<LengthOf> = columns.iter().copied().map(of).collect();
    indexing(&again).digests(digests).lengths(columns).build(dataset()).unwrap();
    assert!(found == again.get(side(SideFile::Lengths)).unwrap());
}

#[test]
fn a_writer_makes_the_same_file() {
    for (samples, digests) in [(0, true), (1, false), (2, true), (333, false), (70_000, true)] {
        let storage = MemoryStorage::new();
        let mut writer = measuring(&storage).digests(digests).create(dataset()).unwrap();
        write(&mut writer, 0, samples);
        writer.finish().unwrap();
        assert_is_indexed(&storage, &["len(tokens)", "bytes"]);
        assert_eq!(problems(&storage), [""; 0]);
    }
}

#[test]
fn a_sample_without_its_number_is_refused_and_leaves_no_trace() {
    let storage = MemoryStorage::new();
    let mut writer = measuring(&storage).create(dataset()).unwrap();
    write(&mut writer, 0, 3);
    let sample = Value::Map(vec![("key".into(), "x".into())]);
    for error in [
        writer.write_value(&sample).unwrap_err(),
        writer.write_packed(&to_vec(&sample).unwrap()).unwrap_err(),
        writer.write_raw_unchecked("x", b"\xc1").unwrap_err(),
    ] {
        assert_eq!(error.key(), Some("x"), "{error}");
    }
    let again = to_vec(&Value::Map(vec![
        ("key".into(), "k1".into()),
        ("tokens".into(), Value::Array(Vec::new())),
    ]));
    let error = writer.write_packed(&again.unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateKey);
    write(&mut writer, 3, 9);
    writer.finish().unwrap();
    assert_is_indexed(&storage, &["len(tokens)", "bytes"]);

    let twice = options(&storage).overwrite(true).lengths(["bytes", "bytes"].map(of));
    let error = twice.create(dataset()).unwrap_err();
    assert_eq!(error.message(), "expected each name once, found \"bytes\" twice");
    assert_eq!(open_in(&storage, &dataset()).unwrap().len(), 9);
}

#[test]
fn an_append_keeps_the_columns_that_are_known() {
    let storage = MemoryStorage::new();
    let mut writer = measuring(&storage).create(dataset()).unwrap();
    write(&mut writer, 0, 50);
    writer.finish().unwrap();
    let mut writer = options(&storage).known_lengths(LengthOf::measure).append(dataset()).unwrap();
    write(&mut writer, 50, 75);
    writer.finish().unwrap();
    assert_is_indexed(&storage, &["len(tokens)", "bytes"]);

    // Samples that were there have none of this.
    let error = options(&storage).lengths([of("len(x)")]).append(dataset()).unwrap_err();
    assert_eq!((error.key(), error.index()), (Some("k0"), Some(0)), "{error}");
    let mut writer = options(&storage).lengths([of("ms(seconds)")]).append(dataset()).unwrap();
    write(&mut writer, 75, 80);
    writer.finish().unwrap();
    assert_is_indexed(&storage, &["ms(seconds)"]);
    options(&storage).append(dataset()).unwrap().finish().unwrap();
    assert!(storage.get(side(SideFile::Lengths)).is_none());
}

#[test]
fn a_write_that_was_cut_short_has_its_columns_in_the_end() {
    let storage = MemoryStorage::new();
    let mut writer = measuring(&storage).create(dataset()).unwrap();
    write(&mut writer, 0, 40);
    drop(writer); // as if the process had been killed
    let cut = snapshot(&storage);
    let error = options(&storage).resume(dataset()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().ends_with("found none for len(tokens), bytes"), "{error}");
    let mut writer = options(&storage).lengths([of("bytes"), of("len(tokens)")]);
    writer = writer.known_lengths(LengthOf::measure);
    let mut writer = writer.resume(dataset()).unwrap();
    write(&mut writer, 40, 60);
    writer.finish().unwrap();
    assert_is_indexed(&storage, &["len(tokens)", "bytes"]);

    for (known, expected) in [(true, true), (false, false)] {
        let storage = restore(&cut);
        let writer = options(&storage);
        let writer = if known { writer.known_lengths(LengthOf::measure) } else { writer };
        let repair = Repair::of(dataset()).storage(Arc::new(storage.clone())).writer(writer);
        let left = repair.leftover().unwrap();
        assert!(matches!(left, Some(Leftover::Samples { lengths, .. }) if lengths.len() == 2));
        repair.finish().unwrap();
        assert_eq!(open_in(&storage, &dataset()).unwrap().len(), 40);
        match expected {
            true => assert_is_indexed(&storage, &["len(tokens)", "bytes"]),
            false => assert!(storage.get(side(SideFile::Lengths)).is_none()),
        }
    }
}

/// After a failure at any step there are the lengths of what is there, or none.
#[test]
fn a_failure_at_any_step_leaves_no_wrong_lengths() {
    let before = MemoryStorage::new();
    let mut writer = measuring(&before).create(dataset()).unwrap();
    write(&mut writer, 0, 7);
    writer.finish().unwrap();
    let start = snapshot(&before);
    let append = |storage: &MemoryStorage| -> Result<()> {
        let options = options(storage).known_lengths(LengthOf::measure).durable(true);
        let mut writer = options.append(dataset())?;
        write(&mut writer, 7, 12);
        writer.finish().map(drop)
    };
    let operations = {
        let storage = restore(&start);
        let first = storage.operations();
        append(&storage).unwrap();
        storage.operations() - first
    };
    for step in 0..operations {
        let storage = restore(&start);
        storage.fail_after(step);
        let _ = append(&storage);
        storage.restart();
        let known = options(&storage).known_lengths(LengthOf::measure);
        let repair = Repair::of(dataset()).storage(Arc::new(storage.clone())).writer(known);
        if repair.leftover().unwrap().is_some() {
            repair.plan(Some(Ending::Finish)).unwrap().run().unwrap();
        }
        let len = open_in(&storage, &dataset()).unwrap().len() as u64;
        assert!((7..=12).contains(&len), "{step}");
        let expected: Vec<u32> = (0..len).map(tokens).collect();
        assert_eq!(all(&storage, "len(tokens)").unwrap(), expected, "{step}");
        assert_eq!(problems(&storage), [""; 0], "{step}");
    }
}

#[test]
fn columns_of_an_outdated_file_are_made_again_or_named() {
    let storage = written(5, true);
    indexing(&storage).lengths(["len(tokens)", "bytes"].map(of)).build(dataset()).unwrap();
    let old = storage.get(side(SideFile::Lengths)).unwrap();
    for known in [true, false] {
        let storage = written(9, true);
        storage.put(side(SideFile::Lengths), old.clone());
        let indexing = indexing(&storage).lengths([of("ms(seconds)")]);
        let indexing = if known { indexing.known_lengths(LengthOf::measure) } else { indexing };
        let made = indexing.build(dataset()).unwrap();
        match known {
            true => {
                assert_eq!(made.dropped_lengths, [""; 0]);
                assert_is_indexed(&storage, &["len(tokens)", "bytes", "ms(seconds)"]);
            }
            false => assert_eq!(made.dropped_lengths, ["len(tokens)", "bytes"]),
        }
    }
    // Those of a file that is current stay.
    indexing(&storage).lengths([of("ms(seconds)")]).build(dataset()).unwrap();
    assert_is_indexed(&storage, &["len(tokens)", "bytes", "ms(seconds)"]);
}
