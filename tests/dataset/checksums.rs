//! `.crc`: made alike by every way, never believed when stale or damaged, and what it is for: the
//! sample that is damaged has a name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiste::format::dataset::{Digests, SideFile, crc, offsets};
use kiste::index::IndexOptions;
use kiste::loader::{Columns, Loader, OnError};
use kiste::reader::{Reader, ReaderExt, ShardedReader};
use kiste::rearrange::external_shuffle;
use kiste::repair::{self, Proof, Repair, Salvage};
use kiste::sampler::{Sampler, Sequential, Shuffle};
use kiste::storage::{LocalStorage, MemoryStorage, Storage};
use kiste::verify::{Verify, VerifyReport};
use kiste::{DatasetReader, Error, ErrorKind, Result, Writer, WriterOptions};

use crate::support::{Snapshot, open_in, packed, restore, snapshot};

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

fn sample(i: u64) -> Vec<u8> {
    packed(&format!("k{i}"), i * 1000)
}

fn write(writer: &mut Writer, from: u64, to: u64) {
    for i in from..to {
        writer.write_raw(&format!("k{i}"), &sample(i)).unwrap();
    }
}

/// A dataset of this many samples, with checksums.
fn checked(samples: u64) -> MemoryStorage {
    let storage = MemoryStorage::new();
    let mut writer = options(&storage).checksums(true).create(dataset()).unwrap();
    write(&mut writer, 0, samples);
    writer.finish().unwrap();
    storage
}

fn verified(storage: &MemoryStorage) -> VerifyReport {
    Verify::of(dataset()).storage(Arc::new(storage.clone())).run().unwrap()
}

/// What is wrong, by file.
fn problems(storage: &MemoryStorage) -> Vec<(String, Option<u64>, String)> {
    let problems = verified(storage).problems.into_iter();
    let suffix = |file: PathBuf| file.to_str().unwrap().split_at(9).1.to_owned();
    problems.map(|p| (suffix(p.file), p.index, p.message)).collect()
}

fn careful(storage: &MemoryStorage) -> Result<DatasetReader> {
    DatasetReader::options().storage(Arc::new(storage.clone())).checksums(true).open(dataset())
}

fn salvage(storage: &MemoryStorage) -> Salvage {
    let repair = Repair::of(dataset()).storage(Arc::new(storage.clone()));
    repair.salvage("saved.msgpack").unwrap()
}

/// Changes one byte of a file.
fn flip(storage: &MemoryStorage, file: &Path, at: usize) {
    let mut bytes = storage.get(file).unwrap();
    bytes[at] ^= 0x10;
    storage.put(file, bytes);
}

#[test]
fn the_file_is_as_specified() {
    let storage = checked(3);
    let (data, ends) =
        (storage.get(dataset()).unwrap(), storage.get(side(SideFile::Offsets)).unwrap());
    let md5 = Digests::parse(&storage.get(side(SideFile::Md5)).unwrap()).unwrap();
    let source = crc::Source {
        count: 3,
        data_len: data.len() as u64,
        md5: Some(*md5.get("x.msgpack").unwrap()),
        offsets: crc::checksum(&ends),
    };
    let table: Vec<u8> = (0..3).flat_map(|i| crc::encode(crc::checksum(&sample(i)))).collect();
    let header = crc::Header::new(source, crc::checksum(&table)).encode();
    assert_eq!(storage.get(side(SideFile::Crc)).unwrap(), [&header[..], &table].concat());
    // It has no line in .md5, so Python does not miss it.
    assert_eq!(md5.len(), 5);
    // And no data file can be named like it.
    assert_eq!(options(&storage).create("y.crc").unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn every_way_makes_the_same_file() {
    // Across the blocks in which it is computed.
    for samples in [0, 1, 511, 512, 513, 1500] {
        let whole = checked(samples);
        let expected = snapshot(&whole);
        assert_eq!(verified(&whole).problems, []);
        assert_eq!(verified(&whole).checksums, samples);
        assert!(careful(&whole).unwrap().iter(..).all(|sample| sample.is_ok()));

        // From the data alone, by parts of the family, and by side files that are there.
        for keep in [&[][..], &[SideFile::Offsets, SideFile::Keys], &SideFile::WRITTEN] {
            let storage = MemoryStorage::new();
            for path in keep.iter().map(|file| side(*file)).chain([dataset()]) {
                storage.put(&path, expected[&path].clone().unwrap());
            }
            let made = indexing(&storage).checksums(true).build(dataset()).unwrap();
            assert!(made.made.contains(&side(SideFile::Crc)));
            assert!(snapshot(&storage) == expected, "{samples} {keep:?}");
            // Only what is missing is made.
            let made = indexing(&storage).checksums(true).build(dataset()).unwrap();
            assert_eq!(made.made, [] as [PathBuf; 0]);
        }
        // Again where there is one, asked or not.
        let made = indexing(&whole).force(true).build(dataset()).unwrap();
        assert!(made.made.contains(&side(SideFile::Crc)));
        assert!(snapshot(&whole) == expected);

        // Appended to, in two steps and without being asked.
        let storage = checked(samples / 3);
        for end in [samples / 2, samples] {
            let mut writer = options(&storage).append(dataset()).unwrap();
            let start = writer.len();
            write(&mut writer, start, end);
            writer.finish().unwrap();
        }
        assert!(snapshot(&storage) == expected, "{samples}");
        // To one that has none, and asked.
        let storage = MemoryStorage::new();
        let mut writer = options(&storage).create(dataset()).unwrap();
        write(&mut writer, 0, samples / 2);
        writer.finish().unwrap();
        let mut writer = options(&storage).checksums(true).append(dataset()).unwrap();
        write(&mut writer, samples / 2, samples);
        writer.finish().unwrap();
        assert!(snapshot(&storage) == expected, "{samples}");

        // Resumed, as it was begun.
        let storage = MemoryStorage::new();
        let mut writer = options(&storage).checksums(true).create(dataset()).unwrap();
        write(&mut writer, 0, samples / 2);
        writer.flush().unwrap();
        drop(writer);
        if samples < 2 {
            continue; // nothing was left
        }
        let mut writer = options(&storage).resume(dataset()).unwrap();
        assert_eq!(writer.len(), samples / 2);
        write(&mut writer, samples / 2, samples);
        writer.finish().unwrap();
        assert!(snapshot(&storage) == expected, "{samples}");
    }
}

#[test]
fn without_digests_the_md5_is_not_known() {
    let storage = MemoryStorage::new();
    let mut writer = options(&storage).checksums(true).digests(false).create(dataset()).unwrap();
    write(&mut writer, 0, 10);
    writer.finish().unwrap();
    let expected = snapshot(&storage);
    assert_eq!(storage.get(side(SideFile::Crc)).unwrap()[32..48], [0; 16]);
    assert_eq!(verified(&storage).checksums, 10);
    let made = indexing(&storage).checksums(true).digests(false).build(dataset()).unwrap();
    assert_eq!(made.made, [] as [PathBuf; 0]);
    storage.remove(&side(SideFile::Crc)).unwrap();
    indexing(&storage).checksums(true).digests(false).build(dataset()).unwrap();
    assert!(snapshot(&storage) == expected);
    // With the digests it comes to be known, when that is asked for.
    indexing(&storage).checksums(true).build(dataset()).unwrap();
    indexing(&storage).checksums(true).build(dataset()).unwrap();
    assert!(snapshot(&storage) == snapshot(&checked(10)));
}

#[test]
fn an_append_keeps_the_checksums_of_old_samples() {
    // Whatever they are now: damage of an old sample keeps its name.
    let storage = checked(20);
    flip(&storage, &dataset(), 5 * sample(5).len());
    let mut writer = options(&storage).digests(false).append(dataset()).unwrap();
    write(&mut writer, 20, 23);
    writer.finish().unwrap();
    let found = verified(&storage);
    assert_eq!((found.problems.len(), found.checksums), (1, 23));
    assert_eq!(found.problems[0].index, Some(5));
}

/// What Python does to a dataset: it knows nothing of `.crc`.
fn rewritten(old: &MemoryStorage, samples: &[(String, Vec<u8>)], digests: bool) -> MemoryStorage {
    let new = MemoryStorage::new();
    let mut writer = options(&new).digests(digests).create(dataset()).unwrap();
    for (key, raw) in samples {
        writer.write_raw(key, raw).unwrap();
    }
    writer.finish().unwrap();
    new.put(side(SideFile::Crc), old.get(side(SideFile::Crc)).unwrap());
    new
}

fn others(n: u64) -> Vec<(String, Vec<u8>)> {
    (0..n).map(|i| (format!("k{i}"), packed(&format!("k{i}"), i * 1000 + 1))).collect()
}

#[test]
fn a_stale_file_is_recognised_and_no_sample_is_blamed() {
    let old = checked(10);
    // As many samples of the same sizes, more, fewer, none.
    for samples in [others(10), others(11), others(9), vec![]] {
        let storage = rewritten(&old, &samples, true);
        let found = problems(&storage);
        assert_eq!(found.len(), 1, "{found:?}");
        let (file, index, message) = &found[0];
        assert_eq!((file.as_str(), *index), (".crc", None));
        let why = ["so no sample was compared", "of data with another MD5"];
        assert!(why.iter().any(|why| message.contains(why)), "{message}");
        assert_eq!(verified(&storage).checksums, 0);
        let error = careful(&storage).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Damaged, Some(&*side(SideFile::Crc))));
        // Who does not ask reads on.
        let reader = open_in(&storage, &dataset()).unwrap();
        assert!(reader.iter(..).all(|sample| sample.is_ok()));
        assert_eq!(reader.check(0).unwrap_err().path(), Some(&*side(SideFile::Crc)));
        let saved = salvage(&storage);
        assert_eq!((saved.samples, saved.lost.len()), (samples.len() as u64, 0));
        assert_eq!((saved.proof, saved.is_complete()), (Proof::Digest, true));

        // `index` makes it again, when asked; and an append does.
        let stale = snapshot(&storage);
        assert_eq!(indexing(&storage).build(dataset()).unwrap().made, [] as [PathBuf; 0]);
        let made = indexing(&storage).checksums(true).build(dataset()).unwrap();
        assert_eq!(made.made, [side(SideFile::Crc)]);
        assert_eq!(
            (problems(&storage), verified(&storage).checksums),
            (vec![], samples.len() as u64)
        );
        for digests in [true, false] {
            let storage = restore(&stale);
            let mut writer = options(&storage).digests(digests).append(dataset()).unwrap();
            write(&mut writer, 100, 103);
            writer.finish().unwrap();
            assert_eq!(problems(&storage), []);
            assert_eq!(verified(&storage).checksums, samples.len() as u64 + 3);
        }
        // One that makes none leaves none.
        let writer = options(&storage).overwrite(true).create(dataset()).unwrap();
        writer.finish().unwrap();
        assert_eq!(storage.get(side(SideFile::Crc)), None);
    }
    // Without an MD5 on one side, equal sizes cannot be told apart: but all samples differ.
    let storage = rewritten(&old, &others(10), false);
    let found = problems(&storage);
    // The MD5 in the header is of other data, but there is none to compare it with.
    assert!(!found.is_empty());
    let storage = MemoryStorage::new();
    let mut writer = options(&storage).checksums(true).digests(false).create(dataset()).unwrap();
    write(&mut writer, 0, 10);
    writer.finish().unwrap();
    for digests in [true, false] {
        let found = problems(&rewritten(&storage, &others(10), digests));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].0.as_str(), found[0].1), (".crc", None));
    }
}

#[test]
fn every_byte_of_the_file_damaged() {
    let storage = checked(5);
    let whole = snapshot(&storage);
    let good = storage.get(side(SideFile::Crc)).unwrap();
    let mut all: Vec<Vec<u8>> = (0..good.len()).map(|end| good[..end].to_vec()).collect();
    all.extend([[&good[..], &[0]].concat(), [&good[..], &[0; 4]].concat()]);
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            all.push(bad);
        }
    }
    for bad in all {
        let storage = restore(&whole);
        storage.put(side(SideFile::Crc), bad);
        let found = problems(&storage);
        assert!(found.len() == 1 && found[0].0 == ".crc" && found[0].1.is_none(), "{found:?}");
        assert_eq!(verified(&storage).checksums, 0);
        let error = careful(&storage).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Damaged, Some(&*side(SideFile::Crc))));
        let reader = open_in(&storage, &dataset()).unwrap();
        assert!((0..5).all(|i| *reader.get_raw(i).unwrap() == sample(i as u64)));
        let saved = salvage(&storage);
        assert_eq!((saved.samples, saved.proof, saved.report), (5, Proof::Digest, None));
        assert_eq!(storage.get("saved.msgpack.crc"), None);
        // It can be made again.
        indexing(&storage).checksums(true).build(dataset()).unwrap();
        assert_eq!(storage.get(side(SideFile::Crc)).as_ref(), Some(&good));
    }
}

/// What each way to read says of each sample: the index of the one that is an error.
fn blamed(reader: &DatasetReader, keys: &[String]) -> Vec<(&'static str, Vec<Error>)> {
    let errors = |results: Vec<Option<Error>>| results.into_iter().flatten().collect::<Vec<_>>();
    let all = |with: &dyn Fn(usize) -> Option<Error>| errors((0..reader.len()).map(with).collect());
    vec![
        ("get", all(&|i| reader.get(i).err())),
        ("get_raw", all(&|i| reader.get_raw(i).err())),
        ("get_as", all(&|i| reader.get_as::<BTreeMap<String, kiste::Value>>(i).err())),
        ("field", all(&|i| reader.field(i, "v").err())),
        ("check", all(&|i| reader.check(i).err())),
        ("iter", errors(reader.iter(..).map(Result::err).collect())),
        ("iter_raw", errors(reader.iter_raw(..).map(Result::err).collect())),
        ("by key", all(&|i| reader.get_by_key(&keys[i]).err())),
        ("raw by key", all(&|i| reader.get_raw_by_key(&keys[i]).err())),
        ("trait", all(&|i| Reader::get(&reader, i).err())),
        ("range", errors(reader.clone().range(..).iter_raw(..).map(Result::err).collect())),
    ]
}

#[test]
fn every_byte_of_the_data_damaged_names_its_sample() {
    let storage = checked(6);
    let whole = snapshot(&storage);
    let keys: Vec<String> = (0..6).map(|i| format!("k{i}")).collect();
    let ends: Vec<u64> = (0..6)
        .scan(0, |end, i| {
            *end += sample(i).len() as u64;
            Some(*end)
        })
        .collect();
    for at in 0..storage.get(dataset()).unwrap().len() {
        let index = ends.iter().position(|end| (at as u64) < *end).unwrap();
        let range = ends[index] - sample(index as u64).len() as u64..ends[index];
        let storage = restore(&whole);
        flip(&storage, &dataset(), at);

        let found = verified(&storage).problems;
        let named: Vec<_> = found.iter().filter(|problem| problem.index.is_some()).collect();
        assert_eq!((found.len(), named.len()), (2, 1), "{at}: {found:?}");
        assert_eq!(named[0].index, Some(index as u64));
        assert_eq!(named[0].key.as_deref(), Some(&*keys[index]));
        assert_eq!(named[0].bytes, Some(range.clone()));
        assert!(named[0].message.starts_with("expected the checksum "), "{found:?}");

        let reader = careful(&storage).unwrap();
        for (how, errors) in blamed(&reader, &keys) {
            assert_eq!(errors.len(), 1, "{how}: {errors:?}");
            let error = &errors[0];
            assert_eq!(error.kind(), ErrorKind::Damaged);
            assert_eq!(error.path(), Some(&*dataset()), "{how}");
            assert_eq!(error.index(), Some(index as u64), "{how}");
            assert_eq!(error.key(), Some(&*keys[index]), "{how}");
            assert_eq!(error.range(), Some(range.clone()), "{how}");
        }
        // Keys are right, by the list.
        for (i, key) in keys.iter().enumerate() {
            assert_eq!(reader.key(i).unwrap(), *key);
            assert_eq!(reader.find(key).unwrap(), Some(i));
        }
        assert_eq!(reader.key(6).unwrap_err().kind(), ErrorKind::Invalid);

        let saved = salvage(&storage);
        assert_eq!((saved.samples, saved.proof), (5, Proof::Checksums), "{at}: {saved:?}");
        assert_eq!((saved.matches_md5, saved.is_complete()), (Some(false), false));
        assert_eq!(saved.lost.len(), 1);
        assert_eq!(saved.lost[0].index, Some(index as u64));
        assert_eq!(saved.lost[0].key.as_deref(), Some(&*keys[index]));
        assert_eq!(saved.lost[0].bytes, range);
        let out = Verify::of("saved.msgpack").deep(true).storage(Arc::new(storage.clone()));
        let out = out.run().unwrap();
        assert_eq!((out.problems, out.checksums), (vec![], 5));
        let rest = open_in(&storage, Path::new("saved.msgpack")).unwrap();
        let left = (0..6).filter(|i| *i != index as u64);
        assert!(left.zip(0..).all(|(i, at)| *rest.get_raw(at).unwrap() == sample(i)));

        // What would bless it is refused, and names it.
        let before = snapshot(&storage);
        for force in [true, false] {
            let storage = restore(&before);
            if !force {
                // As the MD5 says that the old ones are good, only a way around gets here.
                storage.remove(&side(SideFile::Offsets)).unwrap();
            }
            let error = indexing(&storage).force(force).checksums(true).build(dataset());
            let error = error.unwrap_err();
            assert!([ErrorKind::Damaged, ErrorKind::DuplicateKey].contains(&error.kind()));
            let names = error.message().contains("MD5") && error.index() == Some(index as u64);
            let other = !error.message().contains("MD5"); // not even samples
            assert!(names || other, "{force} {error}");
        }
    }
}

#[test]
fn damage_is_never_blessed() {
    let damaged = |digests: bool| {
        let storage = MemoryStorage::new();
        let writer = options(&storage).digests(digests).checksums(true).create(dataset());
        let mut writer = writer.unwrap();
        write(&mut writer, 0, 10);
        writer.finish().unwrap();
        let at = storage.get(dataset()).unwrap().len() - 1; // the value of the last sample
        flip(&storage, &dataset(), at);
        storage
    };
    // The MD5 tells, with or without old checksums.
    for with_old in [true, false] {
        let storage = damaged(true);
        if !with_old {
            storage.remove(&side(SideFile::Crc)).unwrap();
        }
        let before = snapshot(&storage);
        for build in [
            indexing(&storage).checksums(true).force(true),
            indexing(&storage).checksums(true).force(true).digests(false),
            indexing(&storage).checksums(!with_old),
        ] {
            match build.build(dataset()) {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Damaged);
                    assert!(error.message().contains("does not match its MD5"), "{error}");
                    assert_eq!(error.index(), with_old.then_some(9));
                }
                Ok(made) => assert!(with_old && made.made.is_empty(), "nothing was asked for"),
            }
            assert!(snapshot(&storage) == before);
        }
        // An append compares before it makes checksums of old samples.
        for digests in [true, false] {
            let storage = restore(&before);
            let writer = options(&storage).checksums(true).digests(digests).append(dataset());
            let finished = writer.and_then(|mut writer| {
                write(&mut writer, 10, 11);
                writer.finish()
            });
            // Old checksums need no comparison to be kept.
            assert_eq!(finished.is_err(), digests || !with_old);
            if let Err(error) = finished {
                assert!(error.message().contains("does not match its MD5"), "{error}");
            }
        }
        // Who knows better says so.
        storage.remove(&side(SideFile::Md5)).unwrap();
        if with_old {
            let error = indexing(&storage).checksums(true).force(true).build(dataset());
            let error = error.unwrap_err();
            assert_eq!(error.index(), Some(9));
            assert_eq!(error.remedy(), Some(&kiste::Remedy::TrustData), "{error}");
            storage.remove(&side(SideFile::Crc)).unwrap();
        }
        indexing(&storage).checksums(true).build(dataset()).unwrap();
        assert_eq!(problems(&storage), []);
    }
    // Without an MD5 the old checksums tell. Digests that are made of it now do not unsay that.
    let storage = damaged(false);
    let error = indexing(&storage).checksums(true).force(true).build(dataset()).unwrap_err();
    assert_eq!(error.index(), Some(9));
    indexing(&storage).build(dataset()).unwrap();
    let error = indexing(&storage).checksums(true).build(dataset()).unwrap_err();
    assert_eq!(error.index(), Some(9));
}

#[test]
fn of_digest_and_checksum_the_wrong_one_is_told() {
    // A line of `.md5` that is wrong.
    let storage = checked(10);
    let before = snapshot(&storage);
    flip_digit(&storage);
    let found = problems(&storage);
    let files: Vec<&str> = found.iter().map(|(file, ..)| file.as_str()).collect();
    assert_eq!(files, ["", ".md5"], "{found:?}");
    assert!(found[1].2.contains("not the data"), "{found:?}");
    // It is made again when that is asked for, as the checksums speak for the data.
    indexing(&storage).force(true).build(dataset()).unwrap();
    assert!(snapshot(&storage) == before);

    // Checksums that are wrong though their own checksum is right: made so, not damaged.
    let file = storage.get(side(SideFile::Crc)).unwrap();
    let old = crc::Header::parse(&file, file.len() as u64).unwrap();
    for wrong in [1, 10] {
        let mut table = file[crc::HEADER..].to_vec();
        table.iter_mut().step_by(4).take(wrong).for_each(|byte| *byte ^= 1);
        let header = crc::Header::new(*old.source(), crc::checksum(&table)).encode();
        storage.put(side(SideFile::Crc), [&header[..], &table].concat());
        let found = problems(&storage);
        assert_eq!((found.len(), found[0].0.as_str()), (1, ".crc"), "{found:?}");
        assert!(found[0].2.starts_with(&format!("{wrong} of 10 checksums are wrong")), "{found:?}");
        indexing(&storage).force(true).build(dataset()).unwrap();
        assert!(snapshot(&storage) == before);
    }
}

/// Changes a digit of the first line of `.md5`, that of the data.
fn flip_digit(storage: &MemoryStorage) {
    let mut text = storage.get(side(SideFile::Md5)).unwrap();
    text[0] = if text[0] == b'0' { b'1' } else { b'0' };
    storage.put(side(SideFile::Md5), text);
}

#[test]
fn a_careful_reader_needs_checksums_and_no_others() {
    let storage = checked(10);
    let whole = snapshot(&storage);
    storage.remove(&side(SideFile::Crc)).unwrap();
    let error = careful(&storage).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::NotFound, Some(&*side(SideFile::Crc))));
    assert_eq!(error.message(), "there are no checksums");
    // Offsets that are derived are as good, and no other side file is needed.
    for file in SideFile::WRITTEN {
        let mut files = whole.clone();
        files.remove(&side(file));
        let reader = careful(&restore(&files)).unwrap();
        assert!(reader.iter(..).all(|sample| sample.is_ok()), "{file:?}");
        assert!(reader.keys().all(|key| key.is_ok()), "{file:?}");
    }
    // While an append is at work it is the old dataset that is compared.
    let storage = restore(&whole);
    let mut writer = options(&storage).append(dataset()).unwrap();
    write(&mut writer, 10, 20);
    writer.flush().unwrap();
    assert!(careful(&storage).unwrap().iter_raw(..).all(|sample| sample.is_ok()));
    // Opened before it is done, it is another dataset then.
    let before = open_in(&storage, &dataset()).unwrap();
    writer.finish().unwrap();
    assert_eq!(before.check(0).unwrap_err().kind(), ErrorKind::Replaced);
    // Reading is lazy for all who do not ask.
    let storage = restore(&whole);
    storage.clear_reads();
    open_in(&storage, &dataset()).unwrap().get(3).unwrap();
    assert!(storage.reads().iter().all(|read| read.path != side(SideFile::Crc)));
}

#[test]
fn readers_of_readers_and_loaders_pass_it_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.msgpack");
    let mut writer = Writer::options().checksums(true).create(&path).unwrap();
    write(&mut writer, 0, 50);
    writer.finish().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let at = DatasetReader::open(&path).unwrap().byte_range(31).unwrap().end as usize - 1;
    bytes[at] ^= 1; // of its value: it can be decoded
    std::fs::write(&path, bytes).unwrap();
    for storage in [LocalStorage::mapped(), LocalStorage::positioned()] {
        let open = |checksums| {
            let options = DatasetReader::options().storage(Arc::new(storage));
            options.checksums(checksums).open(&path).unwrap()
        };
        assert!(open(false).iter(..).all(|sample| sample.is_ok()));
        let reader = open(true);
        let shards = ShardedReader::new([reader.clone(), reader.clone()]).unwrap();
        let bad: Vec<_> = (0..100).filter(|i| shards.get_raw(*i).is_err()).collect();
        assert_eq!(bad, [31, 81]);

        // Left out, with all that is known of it, by every kind of batch.
        let load = |policy| {
            let reader = Arc::new(reader.clone());
            let options = Loader::options(reader, Sequential::new(50)).batch_size(10).epochs(1);
            options.threads(2).on_error(policy)
        };
        let mut failures = Vec::new();
        for batch in load(OnError::Skip).columns(Columns::new().scalar::<i64>("v")).unwrap() {
            failures.extend(batch.unwrap().failures);
        }
        for batch in load(OnError::Skip).raw().unwrap() {
            failures.extend(batch.unwrap().failures);
        }
        assert_eq!(failures.len(), 2);
        for failure in &failures {
            assert_eq!((failure.index, failure.key.as_deref()), (31, Some("k31")));
            assert_eq!(failure.error.kind(), ErrorKind::Damaged);
            assert!(failure.error.message().starts_with("expected the checksum"));
        }
        let error = load(OnError::Raise).raw().unwrap().find_map(|batch| batch.err()).unwrap();
        assert_eq!((error.index(), error.step()), (Some(31), Some(3)));
    }
    // And what reads the data past the reader: in pass 1 of a shuffle that does not fit memory.
    // What is not mapped is not read directly.
    let options = DatasetReader::options().storage(Arc::new(LocalStorage::positioned()));
    let reader = options.checksums(true).open(&path).unwrap();
    let order = Shuffle::new(50, 3).order(0).unwrap();
    let mut writer = Writer::create(dir.path().join("shuffled.msgpack")).unwrap();
    let error = external_shuffle(&reader, &*order, 1500, &mut writer, |_| Ok(())).unwrap_err();
    assert_eq!((error.kind(), error.index()), (ErrorKind::Damaged, Some(31)));
}

#[test]
fn of_data_cut_short_all_whole_samples_are_proven() {
    let storage = checked(10);
    let whole = snapshot(&storage);
    let data = storage.get(dataset()).unwrap();
    let ends = storage.get(side(SideFile::Offsets)).unwrap();
    for len in 0..data.len() {
        let storage = restore(&whole);
        storage.put(dataset(), data[..len].to_vec());
        let fits = (1..=10).filter(|i| offsets::entry(&ends, *i).unwrap() <= len as u64).count();
        let saved = salvage(&storage);
        assert_eq!((saved.samples, saved.proof), (fits as u64, Proof::Checksums), "{len}");
        assert_eq!((saved.lost.len(), saved.is_complete()), (1, false));
        let lost = offsets::entry(&ends, fits).unwrap()..data.len() as u64;
        assert_eq!(saved.lost[0].bytes, lost);
        assert!(saved.lost[0].reason.contains(&format!("samples {fits} to 9")), "{saved:?}");
    }
    // An append that was cut short has added whole samples, too.
    let mut writer = options(&storage).append(dataset()).unwrap();
    write(&mut writer, 10, 13);
    writer.flush().unwrap();
    drop(writer);
    let saved = salvage(&storage);
    assert_eq!((saved.samples, saved.proof, saved.report), (13, Proof::Digest, None));
}

#[test]
fn damage_at_an_unknown_place_is_said_and_stays_to_be_seen() {
    let storage = checked(10);
    storage.remove(&side(SideFile::Crc)).unwrap();
    let old = storage.get(side(SideFile::Md5)).unwrap();
    // Whole: nothing to tell.
    let saved = salvage(&restore(&snapshot(&storage)));
    assert_eq!((saved.proof, saved.matches_md5), (Proof::Digest, Some(true)));
    assert!(saved.report.is_none() && saved.is_complete());

    let at = storage.get(dataset()).unwrap().len() - 1;
    flip(&storage, &dataset(), at);
    let damaged = snapshot(&storage);
    let saved = salvage(&storage);
    assert_eq!((saved.samples, saved.lost.len(), saved.proof), (10, 0, Proof::Doubtful));
    assert!(!saved.is_complete());
    // The output is a dataset like any other, but the old digests are kept next to it.
    let report = repair::report_path("saved.msgpack");
    assert_eq!(saved.report.as_deref(), Some(&*report));
    let kept: serde_json::Value = serde_json::from_slice(&storage.get(&report).unwrap()).unwrap();
    let line = String::from_utf8(old).unwrap();
    assert_eq!(kept["old_digests"]["x.msgpack"].as_str(), line.get(..32));
    assert_eq!((&kept["proof"], &kept["matches_md5"]), (&"doubtful".into(), &false.into()));
    let new = Digests::parse(&storage.get("saved.msgpack.md5").unwrap()).unwrap();
    let new = new.get("saved.msgpack").unwrap().iter().map(|b| format!("{b:02x}"));
    assert_eq!(saved.md5, Some(new.collect()));
    assert_eq!(storage.get("saved.msgpack.crc"), None);

    // Nothing is replaced that was not to be.
    let repair = Repair::of(dataset()).storage(Arc::new(storage.clone()));
    let again = repair.clone().writer(Writer::options().overwrite(true));
    let error = repair.salvage("saved.msgpack").unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::AlreadyExists, Some(&*report)));
    // A report without its dataset is of a run that was cut short.
    for name in storage.names() {
        if name.to_str().unwrap().starts_with("saved") && name != report {
            storage.remove(&name).unwrap();
        }
    }
    repair.salvage("saved.msgpack").unwrap();
    // A report of what was saved before goes with it.
    let files: Snapshot = snapshot(&checked(3));
    for (name, content) in &files {
        storage.put(name, content.clone().unwrap());
    }
    assert!(again.salvage("saved.msgpack").unwrap().is_complete());
    assert_eq!(storage.get(&report), None);

    // Neither digest nor checksum: there is nothing to know it by.
    let storage = restore(&damaged);
    storage.remove(&side(SideFile::Md5)).unwrap();
    let saved = salvage(&storage);
    assert_eq!((saved.proof, saved.matches_md5, saved.report), (Proof::None, None, None));
}

#[test]
fn samples_that_are_none_have_checksums_too() {
    let storage = MemoryStorage::new();
    let mut writer = options(&storage).checksums(true).create(dataset()).unwrap();
    for (key, raw) in [("text", &b"no msgpack"[..]), ("empty", b""), ("map", b"\x81\xa3key\xa3map")]
    {
        writer.write_raw_unchecked(key, raw).unwrap();
    }
    writer.finish().unwrap();
    assert_eq!((problems(&storage), verified(&storage).checksums), (vec![], 3));
    assert!(careful(&storage).unwrap().iter_raw(..).all(|raw| raw.is_ok()));
    let saved = salvage(&storage);
    let lost: Vec<_> = saved.lost.iter().map(|loss| loss.key.as_deref()).collect();
    assert_eq!((saved.samples, lost), (1, vec![Some("text"), Some("empty")]));
}
