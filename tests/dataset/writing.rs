//! Every way to write the same samples gives the same bytes, and what is refused leaves no trace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, panic};

use kiste::format::dataset::{Digests, SideFile};
use kiste::index::IndexOptions;
use kiste::repair::Repair;
use kiste::storage::{MemoryStorage, Storage};
use kiste::verify::Verify;
use kiste::{DatasetReader, ErrorKind, Value, Writer, WriterOptions};
use serde::Serialize;

use crate::support::{
    assert_same_files, copy_to, files_of, golden, golden_dir, golden_in_memory, golden_names,
    legacy, open_in, packed, snapshot,
};

/// A sample as a struct.
#[derive(Serialize)]
struct Sample<'a> {
    key: &'a str,
    v: u64,
}

fn options(storage: &MemoryStorage) -> WriterOptions {
    Writer::options().storage(Arc::new(storage.clone()))
}

fn indexing(storage: &MemoryStorage) -> IndexOptions {
    IndexOptions::default().storage(Arc::new(storage.clone()))
}

fn dataset() -> PathBuf {
    PathBuf::from("x.msgpack")
}

fn key_of(i: u64) -> String {
    format!("key {i}")
}

fn write_range(writer: &mut Writer, range: std::ops::Range<u64>) {
    for i in range {
        writer.write_raw_unchecked(&key_of(i), &packed(&key_of(i), i)).unwrap();
    }
}

/// A dataset of `n` samples written in one go.
fn in_one_go(n: u64) -> MemoryStorage {
    let storage = MemoryStorage::new();
    let mut writer = options(&storage).durable(false).create(dataset()).unwrap();
    write_range(&mut writer, 0..n);
    assert_eq!(writer.finish().unwrap().samples, n);
    storage
}

#[test]
fn every_way_to_write_gives_the_same_files() {
    type Write = fn(&mut Writer, &str, u64) -> kiste::Result<()>;
    let ways: [Write; 7] = [
        |writer, key, v| writer.write(&Sample { key, v }),
        |writer, key, v| {
            let map = vec![(Value::from("key"), key.into()), ("v".into(), v.into())];
            writer.write(&Value::Map(map))
        },
        |writer, key, v| {
            let map = vec![(Value::from("key"), key.into()), ("v".into(), v.into())];
            writer.write_value(&Value::Map(map))
        },
        |writer, key, v| writer.write_raw(key, &packed(key, v)),
        |writer, key, v| writer.write_packed(&packed(key, v)),
        |writer, key, v| writer.write_raw_unchecked(key, &packed(key, v)),
        |writer, key, v| {
            // Refused in between, each for another reason.
            assert_eq!(writer.write(&[1, 2]).unwrap_err().kind(), ErrorKind::Invalid);
            writer.write_raw(key, &packed(key, v))?;
            let again = writer.write(&Sample { key, v: 99 });
            assert_eq!(again.unwrap_err().kind(), ErrorKind::DuplicateKey);
            Ok(())
        },
    ];
    let written: Vec<_> = ways
        .iter()
        .map(|write| {
            let storage = MemoryStorage::new();
            let mut writer = options(&storage).create(dataset()).unwrap();
            for (v, key) in ["a", "", "schlüssel", "\0", &"long ".repeat(100)].iter().enumerate() {
                write(&mut writer, key, v as u64 * 1000).unwrap();
            }
            writer.finish().unwrap();
            snapshot(&storage)
        })
        .collect();
    assert_eq!(written[0].len(), 6);
    assert!(written.iter().all(|files| *files == written[0]));
}

#[test]
fn what_is_refused_leaves_the_writer_as_it_was() {
    let storage = MemoryStorage::new();
    let mut writer = options(&storage).create(dataset()).unwrap();
    writer.write_raw("a", &packed("a", 1)).unwrap();
    let state = |writer: &Writer| (writer.len(), writer.bytes());
    let before = state(&writer);

    let duplicate = writer.write_raw_unchecked("a", b"whatever").unwrap_err();
    assert_eq!(duplicate.kind(), ErrorKind::DuplicateKey);
    assert_eq!(duplicate.key(), Some("a"));

    let mut two = packed("b", 1);
    two.extend_from_slice(&packed("c", 1));
    let mut trailing = packed("b", 1);
    trailing.push(0xc0);
    let whole = packed("b", 1);
    let no_map = [&b"\x93\x01\x02\x03"[..], b"\xa1b", b"\xc1", b"", b"\x01"];
    let bad_key = [&b"\x80"[..], b"\x81\xa1k\xa1b", b"\x81\xa3key\x01", b"\x81\xa3key\xc4\x01b"];
    let bad_text = b"\x81\xa3key\xa1\xff";
    let cut = (1..whole.len()).map(|end| &whole[..end]);
    let raws = no_map.into_iter().chain(bad_key).chain(cut).chain([
        &two[..],
        &trailing[..],
        &bad_text[..],
    ]);
    for raw in raws {
        let refused = [writer.write_raw("b", raw), writer.write_packed(raw)];
        for result in refused {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Invalid, "{raw:x?}");
        }
        assert_eq!(state(&writer), before, "{raw:x?}");
    }
    let other_key = writer.write_raw("another", &whole).unwrap_err();
    assert_eq!(other_key.kind(), ErrorKind::Invalid);
    assert!(other_key.to_string().contains("\"b\""), "{other_key}");

    let values = [
        Value::Nil,
        Value::from("b"),
        Value::Array(vec![Value::from("key"), Value::from("b")]),
        Value::Map(vec![]),
        Value::Map(vec![(Value::from("key"), Value::from(1))]),
        Value::Map(vec![(Value::from(b"key".to_vec()), Value::from("b"))]),
    ];
    for value in &values {
        assert_eq!(writer.write_value(value).unwrap_err().kind(), ErrorKind::Invalid, "{value}");
        assert_eq!(writer.write(value).unwrap_err().kind(), ErrorKind::Invalid, "{value}");
    }
    assert_eq!(writer.write(&("b", 1)).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(writer.write(&BTreeMap::from([("k", "b")])).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(state(&writer), before);

    writer.write_packed(&whole).unwrap();
    writer.finish().unwrap();

    let clean = MemoryStorage::new();
    let mut writer = options(&clean).create(dataset()).unwrap();
    writer.write_raw("a", &packed("a", 1)).unwrap();
    writer.write_raw("b", &whole).unwrap();
    writer.finish().unwrap();
    assert_eq!(snapshot(&storage), snapshot(&clean));
}

#[test]
fn a_dataset_is_not_named_like_a_side_file_nor_overwritten_unasked() {
    let storage = in_one_go(2);
    let before = snapshot(&storage);
    for suffix in ["offsets", "keys", "key_hashes", "filter", "md5", "index", "lookup", "partial"] {
        for name in [format!("new.msgpack.{suffix}"), format!("new.{suffix}")] {
            let refused = options(&storage).overwrite(true).create(&name).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid, "{name}");
            let refused = options(&storage).append(&name).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid, "{name}");
        }
    }
    for name in ["", "/", ".."] {
        assert!(options(&storage).overwrite(true).create(name).is_err(), "{name:?}");
    }
    let refused = options(&storage).create(dataset()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    let missing = options(&storage).append("missing.msgpack").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert_eq!(snapshot(&storage), before);
}

#[test]
fn a_writer_that_is_dropped_publishes_nothing() {
    let storage = in_one_go(2);
    let before = snapshot(&storage);
    drop(options(&storage).append(dataset()).unwrap());
    drop(options(&storage).overwrite(true).create(dataset()).unwrap());
    assert_eq!(snapshot(&storage), before);

    let mut writer = options(&storage).append(dataset()).unwrap();
    write_range(&mut writer, 2..3);
    writer.abort().unwrap();
    assert_eq!(snapshot(&storage), before);

    let mut writer = options(&storage).append(dataset()).unwrap();
    write_range(&mut writer, 2..3);
    drop(writer);
    assert_eq!(open_in(&storage, &dataset()).unwrap().len(), 2);
    Repair::of(dataset()).storage(Arc::new(storage.clone())).undo().unwrap();
    assert_eq!(snapshot(&storage), before);
}

#[test]
fn a_dataset_in_pieces_is_the_same_as_in_one_go() {
    // Where the header of .keys grows, and where the pieces are empty.
    let cases: &[&[u64]] = &[
        &[0, 0],
        &[0, 1, 1, 2],
        &[0, 0, 3],
        &[3, 3],
        &[14, 15, 16, 17],
        &[15, 16],
        &[7, 16],
        &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        &[63, 64, 65, 128, 130],
        &[65_535, 65_536, 65_537],
        &[10, 65_535],
    ];
    for steps in cases {
        let storage = in_one_go(steps[0]);
        for pair in steps.windows(2) {
            let mut writer = options(&storage).durable(false).append(dataset()).unwrap();
            assert_eq!(writer.len(), pair[0]);
            write_range(&mut writer, pair[0]..pair[1]);
            if pair[0] > 0 {
                let again = writer.write_raw_unchecked(&key_of(0), b"").unwrap_err();
                assert_eq!(again.kind(), ErrorKind::DuplicateKey);
            }
            writer.finish().unwrap();
        }
        let whole = in_one_go(*steps.last().unwrap());
        assert!(snapshot(&storage) == snapshot(&whole), "{steps:?}");
    }
}

#[test]
fn golden_datasets_in_pieces_are_the_golden_datasets() {
    for name in golden_names().into_iter().filter(|name| name != "salt") {
        let (golden, path) = golden_in_memory(&name);
        let reader = open_in(&golden, &path).unwrap();
        for pieces in [2, 3] {
            let storage = MemoryStorage::new();
            for piece in 0..pieces {
                let mut writer = match piece {
                    0 => options(&storage).lookup(false).durable(false).create(&path).unwrap(),
                    _ => options(&storage).lookup(false).durable(false).append(&path).unwrap(),
                };
                for i in reader.len() * piece / pieces..reader.len() * (piece + 1) / pieces {
                    writer.write_raw(&reader.key(i).unwrap(), &reader.get_raw(i).unwrap()).unwrap();
                }
                writer.finish().unwrap();
            }
            assert!(snapshot(&storage) == snapshot(&golden), "{name} in {pieces}");
        }
    }
}

#[test]
fn an_append_makes_the_side_files_that_were_missing() {
    let whole = snapshot(&in_one_go(20));
    for missing in 0..1 << SideFile::WRITTEN.len() {
        let storage = in_one_go(17);
        for (bit, file) in SideFile::WRITTEN.iter().enumerate() {
            if missing >> bit & 1 == 1 {
                storage.remove(&file.path(&dataset())).unwrap();
            }
        }
        let mut writer = options(&storage).append(dataset()).unwrap();
        write_range(&mut writer, 17..20);
        writer.finish().unwrap();
        assert!(snapshot(&storage) == whole, "{missing:05b}");
    }
}

#[test]
fn an_append_converts_a_legacy_dataset() {
    for (name, old) in legacy() {
        let dir = tempfile::tempdir().unwrap();
        let path = copy_to(&golden_dir().join(&old.path), dir.path());
        let mut writer = Writer::append(&path).unwrap();
        writer.write_raw("appended", &packed("appended", 1)).unwrap();
        writer.finish().unwrap();

        let expected_dir = tempfile::tempdir().unwrap();
        let expected = copy_to(&golden(&old.same_data_as), expected_dir.path());
        let mut writer = Writer::append(&expected).unwrap();
        writer.write_raw("appended", &packed("appended", 1)).unwrap();
        writer.finish().unwrap();
        assert_same_files(&expected, &path);
        assert!(!SideFile::Index.path(&path).exists(), "{name}");
    }
}

#[test]
fn an_append_does_not_bless_damage() {
    let storage = in_one_go(5);
    let mut data = storage.get(dataset()).unwrap();
    data[12] ^= 1;
    storage.put(dataset(), data);
    let before = snapshot(&storage);
    let mut writer = options(&storage).append(dataset()).unwrap();
    write_range(&mut writer, 5..6);
    let error = writer.finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    Repair::of(dataset()).storage(Arc::new(storage.clone())).undo().unwrap();
    assert_eq!(snapshot(&storage), before);
}

#[test]
fn an_append_that_cannot_begin_leaves_nothing_behind() {
    let storage = in_one_go(5);
    storage.put(SideFile::Keys.path(&dataset()), &b"\x95\xa1a"[..]);
    let before = snapshot(&storage);
    // In memory the keys come from the samples, on the file system from .keys.
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in &before {
        fs::write(dir.path().join(name), content.as_ref().unwrap()).unwrap();
    }
    let path = dir.path().join(dataset());
    assert_eq!(Writer::append(&path).unwrap_err().kind(), ErrorKind::Damaged);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), before.len());
}

/// Leaves a write as `kill -9` does in the middle of a sample; on the file system, where the
/// position of a file matters.
fn killed(dir: &Path, base: u64, written: u64, torn: &[u8]) -> PathBuf {
    let path = dir.join(dataset());
    let mut writer = Writer::create(&path).unwrap();
    let data = if base > 0 {
        write_range(&mut writer, 0..base);
        writer.finish().unwrap();
        writer = Writer::append(&path).unwrap();
        path.clone()
    } else {
        dir.join("x.msgpack.partial/data")
    };
    write_range(&mut writer, base..written);
    writer.flush().unwrap();
    drop(writer);
    let mut bytes = fs::read(&data).unwrap();
    bytes.extend_from_slice(torn);
    fs::write(&data, bytes).unwrap();
    path
}

#[test]
fn a_write_that_was_killed_goes_on_where_it_was() {
    let torn = packed(&key_of(9), 9);
    for base in [0, 4] {
        for torn in [&[][..], &torn[..1], &torn[..torn.len() - 1], &[0xc1], &[0; 40], b"\x80"] {
            let dir = tempfile::tempdir().unwrap();
            let path = killed(dir.path(), base, 9, torn);
            let mut writer = Writer::options().resume(&path).unwrap();
            assert_eq!(writer.len(), 9, "{base} {torn:x?}");
            assert!(writer.contains_key(&key_of(8)).unwrap());
            let again = writer.write_raw_unchecked(&key_of(8), b"").unwrap_err();
            assert_eq!(again.kind(), ErrorKind::DuplicateKey);
            write_range(&mut writer, 9..12);
            writer.finish().unwrap();

            let expected = in_one_go(12);
            for (name, content) in snapshot(&expected) {
                assert!(
                    fs::read(dir.path().join(&name)).ok() == content,
                    "{base} {torn:x?} {name:?}"
                );
            }
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 6);
        }
    }
}

#[test]
fn a_resumed_write_that_fails_again_keeps_its_samples() {
    for base in [0, 4] {
        let dir = tempfile::tempdir().unwrap();
        let path = killed(dir.path(), base, 9, b"\x82");
        drop(Writer::options().resume(&path).unwrap());
        // Resuming fails where the directory that is to hold the side files is in the way.
        let in_the_way = dir.path().join("x.msgpack.partial/offsets");
        let _ = fs::remove_file(&in_the_way);
        fs::create_dir(&in_the_way).unwrap();
        assert!(Writer::options().resume(&path).is_err());
        fs::remove_dir(&in_the_way).unwrap();
        assert_eq!(Writer::options().resume(&path).unwrap().len(), 9);
    }
    // And where any operation fails.
    for base in [0, 4] {
        for k in 0..30 {
            let storage = if base > 0 { in_one_go(base) } else { MemoryStorage::new() };
            let mut writer = match base {
                0 => options(&storage).create(dataset()).unwrap(),
                _ => options(&storage).append(dataset()).unwrap(),
            };
            write_range(&mut writer, base..9);
            writer.flush().unwrap();
            drop(writer);
            storage.fail_after(k);
            let _ = options(&storage).resume(dataset());
            storage.restart();
            let writer = options(&storage).resume(dataset()).unwrap();
            assert_eq!(writer.len(), 9, "{base}, {k}");
        }
    }
}

#[test]
fn a_writer_that_could_not_write_says_so_from_then_on() {
    let storage = MemoryStorage::new();
    let mut writer = options(&storage).create(dataset()).unwrap();
    write_range(&mut writer, 0..3);
    storage.fail_after(0);
    // The keys so far are written to be read back.
    assert_eq!(writer.contains_key(&key_of(1)).unwrap_err().kind(), ErrorKind::Io);
    storage.restart();
    let refused = writer.write_raw_unchecked("new", b"").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
    assert_eq!(writer.finish().unwrap_err().kind(), ErrorKind::Io);
    assert!(open_in(&storage, &dataset()).is_err());
}

#[test]
fn nothing_to_resume() {
    let storage = in_one_go(2);
    let refused = options(&storage).resume(dataset()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    let refused = options(&storage).resume("missing.msgpack").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
}

#[test]
fn side_files_are_made_from_the_data_alone() {
    for name in golden_names().into_iter().filter(|name| name != "salt") {
        let (storage, path) = golden_in_memory(&name);
        let whole = snapshot(&storage);
        for file in SideFile::WRITTEN {
            storage.remove(&file.path(&path)).unwrap();
        }
        let made = indexing(&storage).lookup(false).durable(false).build(&path).unwrap();
        assert_eq!(made.made.len(), 5, "{name}");
        assert!(snapshot(&storage) == whole, "{name}");
        let made = indexing(&storage).lookup(false).build(&path).unwrap();
        assert_eq!(made.made.len(), 0, "{name}");
        indexing(&storage).lookup(false).force(true).build(&path).unwrap();
        assert!(snapshot(&storage) == whole, "{name}");
    }
}

#[test]
fn any_side_files_that_are_missing_are_made() {
    for name in ["empty", "ten", "unicode100", "salt"] {
        for missing in 0..1 << SideFile::WRITTEN.len() {
            let (storage, path) = golden_in_memory(name);
            let whole = snapshot(&storage);
            let mut remakes_hashes = false;
            for (bit, file) in SideFile::WRITTEN.iter().enumerate() {
                if missing >> bit & 1 == 1 {
                    storage.remove(&file.path(&path)).unwrap();
                    remakes_hashes |= *file != SideFile::Filter && *file != SideFile::Md5;
                }
            }
            let options = indexing(&storage).durable(false);
            options.build(&path).unwrap_or_else(|e| panic!("{name} {missing:05b}: {e}"));
            if name == "salt" && remakes_hashes {
                // Made anew they are under the first salt that serves.
                let reader = open_in(&storage, &path).unwrap();
                assert_eq!(reader.find("k3").unwrap(), Some(3));
            } else {
                assert!(snapshot(&storage) == whole, "{name} {missing:05b}");
            }
            let options = Verify::of(&path).deep(true).storage(Arc::new(storage.clone()));
            let report = options.run().unwrap();
            assert!(report.problems.is_empty(), "{name} {missing:05b}: {:?}", report.problems);
        }
    }
}

#[test]
fn an_index_of_a_legacy_dataset_is_what_python_makes_of_it() {
    for (name, old) in legacy() {
        let dir = tempfile::tempdir().unwrap();
        let path = copy_to(&golden_dir().join(&old.path), dir.path());
        IndexOptions::default().build(&path).unwrap();
        for file in [SideFile::Offsets, SideFile::Keys, SideFile::KeyHashes, SideFile::Filter] {
            let expected = fs::read(file.path(&golden(&old.same_data_as))).unwrap();
            assert!(fs::read(file.path(&path)).unwrap() == expected, "{name}{}", file.suffix());
        }
        let md5 = fs::read_to_string(SideFile::Md5.path(&path)).unwrap();
        assert_eq!(md5, old.convert_index.md5_file_text_after, "{name}");
        let report = Verify::of(&path).deep(true).run().unwrap();
        assert!(report.problems.is_empty(), "{name}: {:?}", report.problems);
    }
}

#[test]
fn digests_can_be_added_later() {
    let whole = snapshot(&in_one_go(20));
    let storage = MemoryStorage::new();
    let mut writer = options(&storage).digests(false).create(dataset()).unwrap();
    write_range(&mut writer, 0..20);
    assert_eq!(writer.finish().unwrap().md5, None);
    assert!(!storage.names().contains(&SideFile::Md5.path(&dataset())));
    let verify = Verify::of(dataset()).storage(Arc::new(storage.clone()));
    let report = verify.run().unwrap();
    assert_eq!(report.missing, [SideFile::Md5.path(&dataset())]);
    assert!(report.problems.is_empty() && report.digests.is_empty());
    let made = indexing(&storage).build(dataset()).unwrap();
    assert_eq!(made.made, [SideFile::Md5.path(&dataset())]);
    assert!(snapshot(&storage) == whole);
}

#[test]
fn the_accelerator_changes_no_answer() {
    let plain = in_one_go(300);
    let with = MemoryStorage::new();
    let mut writer = options(&with).lookup(true).create(dataset()).unwrap();
    write_range(&mut writer, 0..300);
    writer.finish().unwrap();
    let lookup = SideFile::Lookup.path(&dataset());
    let made_later = in_one_go(300);
    indexing(&made_later).lookup(true).build(dataset()).unwrap();
    assert!(with.get(&lookup).is_some() && with.get(&lookup) == made_later.get(&lookup));
    // Python's files are the same.
    let mut others = snapshot(&with);
    others.remove(&lookup);
    assert!(others == snapshot(&plain));

    let readers = [&plain, &with].map(|storage| open_in(storage, &dataset()).unwrap());
    for i in 0..400 {
        let key = key_of(i);
        let expected = (i < 300).then_some(i as usize);
        for reader in &readers {
            assert_eq!(reader.find(&key).unwrap(), expected);
            assert_eq!(reader.contains_key(&key).unwrap(), expected.is_some());
        }
    }
    // An append makes it anew, asked or not.
    let mut writer = options(&with).append(dataset()).unwrap();
    write_range(&mut writer, 300..301);
    writer.finish().unwrap();
    let in_one_go = MemoryStorage::new();
    let mut writer = options(&in_one_go).lookup(true).create(dataset()).unwrap();
    write_range(&mut writer, 0..301);
    writer.finish().unwrap();
    assert!(snapshot(&with) == snapshot(&in_one_go));
}

/// The number of samples from which on a dataset has the accelerator by itself.
const LARGE: u64 = 1 << 10;

fn write_keys(writer: &mut Writer, range: std::ops::Range<u64>) {
    for i in range {
        let key = key_of(i);
        let packed = [&b"\x81\xa3key"[..], &[0xa0 | key.len() as u8], key.as_bytes()].concat();
        writer.write_raw_unchecked(&key, &packed).unwrap();
    }
}

#[test]
fn datasets_have_the_accelerator_by_themselves_unless_they_are_small() {
    let lookup = SideFile::Lookup.path(&dataset());
    let large = LARGE;
    let has = |options: WriterOptions, storage: &MemoryStorage, n: u64| {
        let mut writer = options.create(dataset()).unwrap();
        write_keys(&mut writer, 0..n);
        writer.finish().unwrap();
        storage.get(&lookup).is_some()
    };
    let [small, whole, without, never] = std::array::from_fn(|_| MemoryStorage::new());
    assert!(!has(options(&small), &small, large - 1));
    assert!(has(options(&whole), &whole, large));
    assert!(!has(options(&without).lookup(false), &without, large));
    // It is the one that is made later.
    indexing(&without).lookup(true).build(dataset()).unwrap();
    assert!(without.get(&lookup) == whole.get(&lookup));

    // A dataset that grows gets it, unless it is never to have one; and one that has it keeps it.
    for (storage, yes, expected) in
        [(&never, Some(false), false), (&small, None, true), (&whole, Some(false), true)]
    {
        if storage.get(dataset()).is_none() {
            assert!(!has(options(storage), storage, large - 1));
        }
        let mut writer = options(storage).lookup(yes).append(dataset()).unwrap();
        let len = writer.len();
        write_keys(&mut writer, len..len + 1);
        writer.finish().unwrap();
        assert_eq!(storage.get(&lookup).is_some(), expected, "{len}");
    }
}

fn keys_alone(range: std::ops::Range<u64>) -> MemoryStorage {
    let storage = MemoryStorage::new();
    let mut writer = options(&storage).durable(false).create(dataset()).unwrap();
    write_keys(&mut writer, range);
    writer.finish().unwrap();
    storage
}

#[test]
fn large_datasets_get_the_accelerator_when_they_are_indexed() {
    let path = |file: SideFile| file.path(&dataset());
    let lookup = path(SideFile::Lookup);
    let storage = keys_alone(0..LARGE);
    let whole = snapshot(&storage);
    let own = storage.get(&lookup).unwrap();
    let made = |options: IndexOptions| options.durable(false).build(dataset()).unwrap().made;
    let default = || indexing(&storage);

    // As Python leaves it: all but this is there.
    storage.remove(&lookup).unwrap();
    assert!(made(default().lookup(false)).is_empty());
    assert_eq!(made(default()), [&*lookup]);
    assert!(snapshot(&storage) == whole);
    assert!(made(default()).is_empty());
    // The number of samples follows from the data; what was there, from nothing.
    let [offsets, keys, hashes, filter, md5] = SideFile::WRITTEN.map(path);
    for there in [false, true] {
        for file in [&offsets, &keys, &hashes, &filter, &md5] {
            storage.remove(file).unwrap();
        }
        if !there {
            storage.remove(&lookup).unwrap();
        }
        let all = [&offsets, &keys, &hashes, &filter, &lookup, &md5].map(Clone::clone);
        assert_eq!(made(default()), all);
        assert!(snapshot(&storage) == whole);
    }
    made(default().force(true));
    assert!(snapshot(&storage) == whole);

    // That of other samples, and what is none.
    let other = keys_alone(LARGE..2 * LARGE).get(&lookup).unwrap();
    for stale in [other, own[..own.len() - 4].to_vec(), b"?".to_vec()] {
        storage.put(&lookup, stale);
        assert_eq!(made(default()), [&*lookup]);
        assert!(snapshot(&storage) == whole);
    }

    // Nothing is left that is of other hashes than there are.
    made(default().lookup(false));
    assert!(snapshot(&storage) == whole);
    storage.remove(&hashes).unwrap();
    assert_eq!(made(default().lookup(false)), [&*hashes, &*md5]);
    let mut without = whole.clone();
    without.remove(&lookup);
    assert!(snapshot(&storage) == without);
    made(default().force(true).lookup(false));
    assert!(snapshot(&storage) == without);

    // Where it cannot be made, it is said that nobody has to.
    let writer = options(&storage).append(dataset()).unwrap();
    let error = default().build(dataset()).unwrap_err();
    assert!(error.message().contains("only .lookup was to be made, which is optional"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Locked);
    writer.abort().unwrap();
    assert!(snapshot(&storage) == without);
}

#[test]
fn small_datasets_get_the_accelerator_on_request() {
    let lookup = SideFile::Lookup.path(&dataset());
    let storage = keys_alone(0..LARGE - 1);
    let build = |options: IndexOptions| options.durable(false).build(dataset()).unwrap().made;
    assert!(build(indexing(&storage)).is_empty());
    build(indexing(&storage).force(true));
    assert!(storage.get(&lookup).is_none());
    assert_eq!(build(indexing(&storage).lookup(true)), [&*lookup]);
    let whole = snapshot(&storage);
    // It stays, and is made anew with the hashes.
    assert!(build(indexing(&storage)).is_empty());
    storage.remove(&SideFile::KeyHashes.path(&dataset())).unwrap();
    storage.put(&lookup, "?");
    build(indexing(&storage));
    assert!(snapshot(&storage) == whole);
    build(indexing(&storage).lookup(true));
    assert!(snapshot(&storage) == whole);
}

#[test]
fn the_accelerator_is_made_of_the_hashes_that_are_there() {
    // Their salt is not the one that a writer takes.
    let (storage, path) = golden_in_memory("salt");
    indexing(&storage).lookup(true).build(&path).unwrap();
    assert!(indexing(&storage).build(&path).unwrap().made.is_empty());
    let verify = Verify::of(&path).storage(Arc::new(storage.clone()));
    assert!(verify.run().unwrap().is_good());
    // Of hashes of other keys there is none.
    let hashes = SideFile::KeyHashes.path(&path);
    let mut bytes = storage.get(&hashes).unwrap();
    bytes.copy_within(8..16, 16);
    storage.put(&hashes, bytes);
    let before = snapshot(&storage);
    let error = indexing(&storage).lookup(true).build(&path).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Damaged, Some(&*hashes)));
    assert!(error.message().contains("the hash of"), "{error}");
    assert_eq!(error.index(), Some(1));
    assert!(snapshot(&storage) == before);
}

/// Packs some of itself, and then no more.
struct Stops(&'static str);

impl Serialize for Stops {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::{Error, SerializeMap};
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("key", "stops")?;
        map.serialize_entry("long", &"x".repeat(3 << 20))?;
        match self.0 {
            "panic" => panic::resume_unwind(Box::new(())),
            reason => Err(S::Error::custom(reason)),
        }
    }
}

#[test]
fn a_sample_that_cannot_be_packed_leaves_no_bytes() {
    let [found, expected] = std::array::from_fn(|_| MemoryStorage::new());
    for (storage, with_others) in [(&found, true), (&expected, false)] {
        let mut writer = options(storage).create(dataset()).unwrap();
        for i in 0..3 {
            if with_others {
                let error = writer.write(&Stops("no more")).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Invalid);
                let write = || writer.write(&Stops("panic"));
                panic::catch_unwind(panic::AssertUnwindSafe(write)).unwrap_err();
            }
            writer.write(&BTreeMap::from([("key", key_of(i))])).unwrap();
        }
        writer.finish().unwrap();
    }
    assert_eq!(found.names(), expected.names());
    for file in expected.names() {
        assert!(found.get(&file) == expected.get(&file), "{}", file.display());
    }
}

#[test]
fn samples_written_unchecked_are_found_by_the_key_they_were_given() {
    let storage = MemoryStorage::new();
    let mut writer = options(&storage).create(dataset()).unwrap();
    let odd: [(&str, &[u8]); 5] = [
        ("array", b"\x92\x01\x02"),
        ("text", b"plain text, no msgpack"),
        ("empty", b""),
        ("no key", b"\x81\xa1v\x01"),
        ("integer key", b"\x81\xa3key\x07"),
    ];
    for (key, raw) in odd {
        writer.write_raw_unchecked(key, raw).unwrap();
    }
    writer.finish().unwrap();
    let reader = open_in(&storage, &dataset()).unwrap();
    for (index, (key, raw)) in odd.iter().enumerate() {
        assert_eq!(reader.get_raw(index).unwrap(), *raw, "{key}");
        assert_eq!(reader.key(index).unwrap(), *key);
        assert_eq!(reader.find(key).unwrap(), Some(index), "{key}");
    }
    let keys: Vec<_> = reader.keys().map(|key| key.unwrap().into_owned()).collect();
    assert_eq!(keys, odd.map(|(key, _)| key));
    // The digests are right; that these are no samples is what a deep check finds.
    let verify = Verify::of(dataset()).storage(Arc::new(storage.clone()));
    assert!(verify.run().unwrap().problems.is_empty());
    assert_eq!(verify.deep(true).run().unwrap().problems.len(), odd.len());
}

#[test]
fn large_samples_go_through_in_blocks() {
    // Around the size of the blocks that are handed to the writing thread.
    let storage = MemoryStorage::new();
    let sizes = [0, 1, (256 << 10) - 1, 256 << 10, (256 << 10) + 1, 1 << 20, 3 << 20, 5];
    let mut writer = options(&storage).create(dataset()).unwrap();
    let body =
        |i: usize, size: usize| -> Vec<u8> { (0..size).map(|b| (b * 7 + i) as u8).collect() };
    for (i, size) in sizes.into_iter().enumerate() {
        writer.write_raw_unchecked(&key_of(i as u64), &body(i, size)).unwrap();
    }
    writer.finish().unwrap();
    let reader = open_in(&storage, &dataset()).unwrap();
    for (i, size) in sizes.into_iter().enumerate() {
        assert!(*reader.get_raw(i).unwrap() == *body(i, size), "{size}");
    }
    let digests = Digests::parse(&storage.get(SideFile::Md5.path(&dataset())).unwrap()).unwrap();
    let verify = Verify::of(dataset()).storage(Arc::new(storage));
    assert_eq!(verify.run().unwrap().problems, []);
    assert_eq!(digests.len(), 5);
}

#[test]
fn a_bare_file_name_is_written_where_the_process_is() {
    // `parent()` of such a name is empty, which is no directory that can be synced as it is.
    let storage = MemoryStorage::new();
    let mut writer = options(&storage).create("bare").unwrap();
    writer.write_raw("a", &packed("a", 1)).unwrap();
    writer.finish().unwrap();
    assert_eq!(open_in(&storage, Path::new("bare")).unwrap().len(), 1);
    assert!(files_of(Path::new("no such dataset")).is_empty());
    assert!(DatasetReader::open("no such dataset").is_err());
}

#[test]
fn an_append_keeps_the_accelerator() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.msgpack");
    let mut writer = Writer::options().lookup(true).create(&path).unwrap();
    writer.write_raw("a", b"\x81\xa3key\xa1a").unwrap();
    writer.finish().unwrap();
    let mut writer = Writer::append(&path).unwrap();
    writer.write_raw("b", b"\x81\xa3key\xa1b").unwrap();
    writer.finish().unwrap();
    assert!(SideFile::Lookup.path(&path).exists());
    assert_eq!(DatasetReader::open(&path).unwrap().find("b").unwrap(), Some(1));
}

#[test]
fn keys_of_another_number_of_samples_are_not_indexed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.msgpack");
    let mut writer = Writer::create(&path).unwrap();
    writer.write_raw("a", b"\x81\xa3key\xa1a").unwrap();
    writer.finish().unwrap();
    std::fs::write(SideFile::Keys.path(&path), b"\x92\xa1a\xa1b").unwrap();
    std::fs::remove_file(SideFile::Filter.path(&path)).unwrap();
    let error = kiste::index::IndexOptions::default().build(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains("expected 1 keys, found 2"), "{error}");
    kiste::index::IndexOptions::default().force(true).build(&path).unwrap();
    assert!(kiste::verify::verify(&path).unwrap().problems.is_empty());
}

/// Python cuts such a sample to 2,147,479,552 bytes without a word. Takes five gigabytes of memory
/// and disk: `cargo test --release --test main -- --ignored`.
#[test]
#[ignore = "takes five gigabytes"]
fn a_sample_of_more_than_two_gibibytes_is_written_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("big.msgpack");
    let size = (2u32 << 30) + 12_345;
    let mut packed = b"\x82\xa3key\xa3big\xa1v\xc6".to_vec();
    packed.extend_from_slice(&size.to_be_bytes());
    packed.resize(packed.len() + size as usize, 7);
    packed.push(8);
    packed.remove(packed.len() - 2);
    let mut writer = Writer::create(&path).unwrap();
    writer.write_raw("big", &packed).unwrap();
    writer.write_raw("b", b"\x81\xa3key\xa1b").unwrap();
    let stats = writer.finish().unwrap();
    assert_eq!(stats.bytes, packed.len() as u64 + 7);
    let reader = DatasetReader::open(&path).unwrap();
    assert!(*reader.get_raw(0).unwrap() == packed[..]);
    assert_eq!(reader.find("b").unwrap(), Some(1));
    assert!(Verify::of(&path).deep(true).run().unwrap().problems.is_empty());
}
