//! What is read, and that it does not grow with the dataset.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use kiste::format::dataset::SideFile;
use kiste::storage::{MemoryStorage, Storage};
use kiste::{DatasetReader, ErrorKind, Writer};

use crate::support::{open_in, packed};

fn dataset() -> PathBuf {
    PathBuf::from("x.msgpack")
}

fn written(n: u64, lookup: bool) -> MemoryStorage {
    let storage = MemoryStorage::new();
    let shared = Arc::new(storage.clone());
    let options = Writer::options().storage(shared).durable(false).lookup(lookup);
    let mut writer = options.create(dataset()).unwrap();
    for i in 0..n {
        let key = format!("{i:06}");
        writer.write_raw_unchecked(&key, &packed(&key, i % 100)).unwrap();
    }
    writer.finish().unwrap();
    storage.clear_reads();
    storage
}

/// Reads and bytes by file, since the last call.
fn cost(storage: &MemoryStorage) -> BTreeMap<String, (usize, u64)> {
    let mut cost = BTreeMap::new();
    for read in storage.reads() {
        let name = read.path.to_str().unwrap().strip_prefix("x.msgpack").unwrap().to_string();
        let entry = cost.entry(name).or_insert((0, 0));
        entry.0 += 1;
        entry.1 += read.range.end - read.range.start;
    }
    storage.clear_reads();
    cost
}

fn costs<const K: usize>(expected: [(&str, usize, u64); K]) -> BTreeMap<String, (usize, u64)> {
    expected.into_iter().map(|(name, reads, bytes)| (name.to_string(), (reads, bytes))).collect()
}

fn opened(n: u64, lookup: bool) -> (MemoryStorage, DatasetReader) {
    let storage = written(n, lookup);
    let reader = open_in(&storage, &dataset()).unwrap();
    (storage, reader)
}

#[test]
fn opening_reads_two_offsets() {
    for n in [1, 10, 20_000] {
        let (storage, reader) = opened(n, true);
        assert_eq!(cost(&storage), costs([(".offsets", 2, 16)]), "{n}");
        assert_eq!((reader.len() as u64, reader.data_len()), (n, n * 15));
        assert_eq!(cost(&storage), costs([]));
    }
}

#[test]
fn a_sample_is_all_that_is_read_for_a_sample() {
    for n in [10, 20_000] {
        let (storage, reader) = opened(n, false);
        cost(&storage);
        for i in [0, 9, n as usize / 2, n as usize - 1] {
            reader.get(i).unwrap();
            assert_eq!(cost(&storage), costs([("", 1, 15), (".offsets", 1, 16)]), "{n}");
            reader.key(i).unwrap();
            assert_eq!(cost(&storage), costs([("", 1, 15), (".offsets", 1, 16)]), "{n}");
        }
        assert_eq!(reader.iter_raw(2..5).count(), 3);
        assert_eq!(cost(&storage), costs([("", 3, 45), (".offsets", 3, 48)]), "{n}");
        assert!(reader.byte_range(n as usize).is_err());
        assert_eq!(cost(&storage), costs([]), "{n}");
    }
}

#[test]
fn a_first_look_up_goes_through_the_hashes_and_reads_one_sample() {
    const N: u64 = 20_000;
    let (storage, reader) = opened(N, false);
    cost(&storage);
    assert_eq!(reader.find("000003").unwrap(), Some(3));
    let first = cost(&storage);
    // One sample to see that the salt is right, one to confirm the key.
    assert_eq!(first[""], (2, 30));
    assert!(first[".key_hashes"].1 <= 8 + 8 + N * 8, "{first:?}");
    assert!(!first.contains_key(".keys") && !first.contains_key(".md5"), "{first:?}");
}

#[test]
fn with_the_accelerator_a_look_up_reads_a_handful_of_bytes() {
    let cold = |n| {
        let (storage, reader) = opened(n, true);
        cost(&storage);
        assert_eq!(reader.find("000003").unwrap(), Some(3));
        let first = cost(&storage);
        assert_eq!(reader.find("000007").unwrap(), Some(7));
        (first, cost(&storage))
    };
    for n in [10, 20_000] {
        let (first, second) = cold(n);
        let bytes = |cost: &BTreeMap<String, (usize, u64)>| cost.values().map(|c| c.1).sum::<u64>();
        assert!(bytes(&first) < 600, "{n}: {first:?}");
        assert!(bytes(&second) < 300, "{n}: {second:?}");
        let others = [".filter", ".keys", ".key_hashes"];
        assert!(!others.iter().any(|file| first.contains_key(*file)), "{first:?}");
    }
}

#[test]
fn the_hashes_are_read_for_keys_that_the_accelerator_lacks() {
    let (storage, reader) = opened(20_000, true);
    assert_eq!(reader.find("absent").unwrap(), None);
    assert!(cost(&storage).contains_key(".key_hashes"));
    // Made from other hashes, it leads to samples with other keys; or it is no table at all.
    let lookup = SideFile::Lookup.path(&dataset());
    let other = written(20_001, true).get(&lookup).unwrap();
    let noise = vec![7; other.len()];
    for wrong in [other, noise] {
        storage.put(&lookup, wrong);
        let reader = open_in(&storage, &dataset()).unwrap();
        for i in [0, 3, 19_999] {
            assert_eq!(reader.find(&format!("{i:06}")).unwrap(), Some(i));
        }
        assert_eq!(reader.find("020000").unwrap(), None);
    }
    // One of as many other samples.
    let other = MemoryStorage::new();
    let options = Writer::options().storage(Arc::new(other.clone())).lookup(true);
    let mut writer = options.create(dataset()).unwrap();
    for i in 0..20_000 {
        let key = format!("{:06}", i + 1);
        writer.write_raw_unchecked(&key, &packed(&key, i % 100)).unwrap();
    }
    writer.finish().unwrap();
    storage.put(&lookup, other.get(&lookup).unwrap());
    let reader = open_in(&storage, &dataset()).unwrap();
    for i in [0, 3, 19_999] {
        assert_eq!(reader.find(&format!("{i:06}")).unwrap(), Some(i));
    }
    assert_eq!(reader.find("020000").unwrap(), None);
}

#[test]
fn the_filter_is_asked_first() {
    let (storage, reader) = opened(20_000, false);
    reader.prepare_keys().unwrap();
    cost(&storage);
    for i in 0..100 {
        assert!(!reader.contains_key(&format!("absent {i}")).unwrap());
        let absent = cost(&storage);
        // Bits are asked until one is not set.
        assert!(absent[".filter"].1 < 40 && absent.len() == 1, "{absent:?}");
    }
    // A key that is there is looked up, once the filter has said perhaps.
    assert!(reader.contains_key("000003").unwrap());
    let there = cost(&storage);
    assert_eq!(there[""], (1, 15), "{there:?}");
    assert!(there.contains_key(".filter") && !there.contains_key(".keys"), "{there:?}");
}

#[test]
fn the_accelerator_alone_says_what_is_absent_once_it_was_compared() {
    let (storage, reader) = opened(20_000, true);
    let mut absent = (0..).map(|i| format!("absent {i}"));
    assert_eq!(reader.find(&absent.next().unwrap()).unwrap(), None);
    assert!(!reader.contains_key(&absent.next().unwrap()).unwrap());
    assert!(cost(&storage).contains_key(".filter"));
    reader.prepare_keys().unwrap();
    cost(&storage);
    let mut others = 0;
    for _ in 0..100 {
        assert!(!reader.contains_key(&absent.next().unwrap()).unwrap());
        assert_eq!(reader.find(&absent.next().unwrap()).unwrap(), None);
        let cost = cost(&storage);
        // Two samples in all slots have the tag of a key for each 100,000 of them.
        others += usize::from(cost.len() > 1);
        assert!(cost.len() > 1 || cost[".lookup"].1 < 200, "{cost:?}");
    }
    assert!(others < 5, "{others}");
    assert!(reader.contains_key("000003").unwrap());
    let there = cost(&storage);
    assert_eq!(there[""], (1, 15), "{there:?}");
    assert!(!there.contains_key(".filter") && !there.contains_key(".key_hashes"), "{there:?}");
    // Without being asked to prepare, once that takes no longer than the keys so far have.
    let reader = open_in(&storage, &dataset()).unwrap();
    for _ in 0..1000 {
        assert_eq!(reader.find(&absent.next().unwrap()).unwrap(), None);
    }
    cost(&storage);
    assert_eq!(reader.find("absent").unwrap(), None);
    assert!(!cost(&storage).contains_key(".filter"));
}

#[test]
fn an_accelerator_that_lacks_a_key_hides_none() {
    const N: u64 = 20_000;
    let key = |i: u64| format!("{i:06}");
    let all_are_found = |storage: &MemoryStorage| {
        for prepares in [false, true] {
            let reader = open_in(storage, &dataset()).unwrap();
            if prepares {
                reader.prepare_keys().unwrap();
            }
            for i in 0..N {
                assert_eq!(reader.find(&key(i)).unwrap(), Some(i as usize));
                assert!(reader.contains_key(&key(i)).unwrap());
            }
            let keys: Vec<String> = (0..N + 1).map(key).collect();
            let found = reader.find_many(&keys).unwrap();
            assert!((0..N as usize).all(|i| found[i] == Some(i)) && found[N as usize].is_none());
        }
    };
    let storage = written(N, true);
    all_are_found(&storage);
    let path = SideFile::Lookup.path(&dataset());
    // Some of its slots are empty, and it says nothing of that.
    let mut slots = storage.get(&path).unwrap();
    for slot in slots[128..].chunks_exact_mut(4).step_by(7) {
        slot.fill(0xff);
    }
    storage.put(&path, slots);
    all_are_found(&storage);
    // Of as many samples, of which the first and the last have the same keys.
    let other = MemoryStorage::new();
    let options = Writer::options().storage(Arc::new(other.clone())).lookup(true);
    let mut writer = options.create(dataset()).unwrap();
    for i in 0..N {
        let key = if i % 100 == 50 { format!("{:05}?", i % 100_000) } else { key(i) };
        writer.write_raw_unchecked(&key, &packed(&key, i % 100)).unwrap();
    }
    writer.finish().unwrap();
    storage.put(&path, other.get(&path).unwrap());
    all_are_found(&storage);
    // The digests are of those samples too.
    let digests = SideFile::Md5.path(&dataset());
    storage.put(&digests, other.get(&digests).unwrap());
    let reader = open_in(&storage, &dataset()).unwrap();
    for i in (0..2000).chain(0..N) {
        assert_eq!(reader.find(&format!("absent {i}")).unwrap(), None);
        assert_eq!(reader.find(&key(i)).unwrap(), Some(i as usize));
    }
    // Without digests no one can tell, so others are asked each time.
    storage.remove(&SideFile::Md5.path(&dataset())).unwrap();
    all_are_found(&storage);
    storage.put(&path, written(N, true).get(&path).unwrap());
    all_are_found(&storage);
}

#[test]
fn a_sample_whose_key_is_damaged_is_not_absent() {
    let storage = written(20_000, true);
    let mut data = storage.get(dataset()).unwrap();
    let at = data.windows(6).position(|bytes| bytes == b"000007").unwrap();
    data[at] = b'x';
    storage.put(dataset(), data);
    let files = [SideFile::Index, SideFile::Keys, SideFile::Filter, SideFile::Lookup];
    for (file, prepares) in files.into_iter().flat_map(|file| [(file, false), (file, true)]) {
        let path = file.path(&dataset());
        let bytes = storage.get(&path);
        if bytes.is_some() {
            storage.remove(&path).unwrap();
        }
        let reader = open_in(&storage, &dataset()).unwrap();
        if prepares {
            reader.prepare_keys().unwrap();
        }
        for _ in 0..20 {
            let error = reader.find("000007").unwrap_err();
            assert_eq!((error.kind(), error.index()), (ErrorKind::Damaged, Some(7)), "{file:?}");
            assert!(reader.contains_key("000007").is_err());
            assert!(reader.find_many(&["000007"]).is_err());
            assert_eq!(reader.find("000008").unwrap(), Some(8));
        }
        if let Some(bytes) = bytes {
            storage.put(&path, bytes);
        }
    }
}

#[test]
fn the_table_makes_look_ups_read_little() {
    const N: u64 = 2_000;
    let (storage, reader) = opened(N, false);
    let mut last = u64::MAX;
    for round in 0..600 {
        let key = format!("{:06}", round * 7919 % N);
        assert!(reader.find(&key).unwrap().is_some());
        last = cost(&storage).values().map(|c| c.1).sum();
    }
    // One sample, its offsets, and the hashes of a candidate or two.
    assert!(last < 200, "{last}");
}

#[test]
fn many_look_ups_make_the_table_at_once_and_read_little() {
    const N: u64 = 2_000;
    let (storage, reader) = opened(N, false);
    let keys: Vec<String> = (0..N).map(|i| format!("{:06}", i * 7919 % N)).collect();
    assert!(reader.find_many(&keys).unwrap().iter().all(Option::is_some));
    // The hashes twice for the table, and then as much as single look-ups read.
    let all: u64 = cost(&storage).values().map(|cost| cost.1).sum();
    assert!(all < N * 200 + 3 * N * 8, "{all}");
}
