//! A dataset of many files: the same as one dataset of the same samples, and only opened as far as
//! needed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiste::format::dataset::shards::{Manifest, ShardEntry};
use kiste::format::dataset::{Digests, SideFile};
use kiste::loader::Loader;
use kiste::sampler::BlockShuffle;
use kiste::storage::{LocalStorage, MemoryStorage, Storage};
use kiste::verify::Verify;
use kiste::{DatasetReader, ErrorKind, Writer};

use super::conformance::ask_all;

fn key(index: usize) -> String {
    format!("{}/key {index}", index * 7919 % 97)
}

fn write(storage: &Arc<dyn Storage>, path: &Path, samples: std::ops::Range<usize>) {
    let mut writer = Writer::options().storage(storage.clone()).create(path).unwrap();
    for index in samples {
        let sample = BTreeMap::from([("key", key(index)), ("text", "x".repeat(index * 13 % 50))]);
        writer.write(&sample).unwrap();
    }
    writer.finish().unwrap();
}

/// What the manifest says of a shard, by its files.
fn entry(storage: &Arc<dyn Storage>, dir: &Path, name: &str) -> ShardEntry {
    let path = dir.join(name);
    let reader = DatasetReader::options().storage(storage.clone()).open(&path).unwrap();
    let text = storage.open(&SideFile::Md5.path(&path)).unwrap();
    let digests = Digests::parse(&text.read(0..text.len()).unwrap()).unwrap();
    let mut keys: Vec<String> = reader.keys().map(|key| key.unwrap().into_owned()).collect();
    keys.sort();
    let mut entry = ShardEntry::new(name, reader.len() as u64, reader.data_len());
    entry.md5 = digests.get(path.file_name().unwrap().to_str().unwrap()).copied();
    entry.keys = keys.first().cloned().zip(keys.last().cloned());
    entry
}

/// Shards of these sizes, a manifest of them, and one dataset of the same samples.
fn make(storage: &Arc<dyn Storage>, dir: &Path, sizes: &[usize]) -> PathBuf {
    let (mut start, mut entries) = (0, Vec::new());
    for (number, size) in sizes.iter().enumerate() {
        let name = format!("set-{number:05}.msgpack");
        write(storage, &dir.join(&name), start..start + size);
        entries.push(entry(storage, dir, &name));
        start += size;
    }
    write(storage, &dir.join("one.msgpack"), 0..start);
    let path = dir.join("set.shards.json");
    put(storage, &path, &Manifest::new(entries).unwrap().render());
    path
}

/// The same in a directory.
#[cfg(feature = "formats")]
pub(super) fn on_disk(dir: &Path, sizes: &[usize]) -> PathBuf {
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::mapped());
    make(&storage, dir, sizes)
}

fn put(storage: &Arc<dyn Storage>, path: &Path, text: &str) {
    let anything = kiste::storage::Expected::Anything;
    storage.put_if(path, text.as_bytes(), anything).unwrap();
}

fn open(storage: &Arc<dyn Storage>, path: &Path) -> DatasetReader {
    DatasetReader::options().storage(storage.clone()).open_shards(2).open(path).unwrap()
}

const SIZES: &[usize] = &[3, 0, 17, 1, 0, 40, 8, 0];

#[test]
fn shards_are_the_same_as_one_dataset() {
    let dir = tempfile::tempdir().unwrap();
    let storages: [Arc<dyn Storage>; 3] = [
        Arc::new(LocalStorage::mapped()),
        Arc::new(LocalStorage::positioned()),
        Arc::new(MemoryStorage::new()),
    ];
    for (number, storage) in storages.iter().enumerate() {
        let dir = dir.path().join(number.to_string());
        let manifest = make(storage, &dir, SIZES);
        let one = open(storage, &dir.join("one.msgpack"));
        let many = open(storage, &manifest);
        assert_eq!((many.len(), many.data_len()), (one.len(), one.data_len()));
        assert_eq!((one.shards(), many.shards()), (1, SIZES.len()));
        let keys: Vec<String> = one.keys().map(|key| key.unwrap().into_owned()).collect();
        let listed: Vec<String> = many.keys().map(|key| key.unwrap().into_owned()).collect();
        assert_eq!(listed, keys);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        ask_all(&many, &keys, "many");
        for index in 0..one.len() {
            assert_eq!(many.get_raw(index).unwrap(), one.get_raw(index).unwrap());
            assert_eq!(many.get(index).unwrap(), one.get(index).unwrap());
            let text = many.field(index, "text").unwrap();
            assert_eq!(text, one.field(index, "text").unwrap());
            let size = |reader: &DatasetReader| reader.byte_range(index).map(|r| r.end - r.start);
            assert_eq!(size(&many).unwrap(), size(&one).unwrap());
        }
        assert!(
            many.iter_raw(5..30).map(Result::unwrap).eq(one.iter_raw(5..30).map(Result::unwrap))
        );
        assert!(many.iter(5..30).map(Result::unwrap).eq(one.iter(5..30).map(Result::unwrap)));
        let backwards: Vec<usize> = (0..one.len()).rev().collect();
        let samples = many.get_raw_many(&backwards).unwrap();
        assert_eq!(samples, one.get_raw_many(&backwards).unwrap());
        let mut wanted = vec!["absent", "", "0/key"];
        wanted.extend(keys.iter().rev());
        assert_eq!(many.find_many(&wanted).unwrap(), one.find_many(&wanted).unwrap());
        assert_eq!(many.find("0/key").unwrap(), None);
        assert!(many.contains_key(keys[20]).unwrap() && !many.contains_key("0/key").unwrap());
        assert_eq!(many.get(one.len()).unwrap_err().kind(), ErrorKind::Invalid);
        let report = Verify::of(&manifest).storage(storage.clone()).deep(true).run().unwrap();
        assert_eq!((report.samples, report.problems), (one.len() as u64, Vec::new()));

        // What a loader makes of it.
        let batches = |reader: &DatasetReader| {
            let sampler = BlockShuffle::new(reader.len() as u64, 8, 3, 5).unwrap();
            let loader = Loader::options(Arc::new(reader.clone()), sampler);
            let loader = loader.batch_size(7).threads(3).epochs(2).raw().unwrap();
            let text = |batch: kiste::Result<_>| format!("{:?}", batch.unwrap());
            loader.map(text).collect::<Vec<String>>()
        };
        assert_eq!(batches(&many), batches(&one));
        // Shards that are mapped stay open; of others there is a limited number.
        let most = if number == 0 { SIZES.len() } else { 2 };
        assert!(many.open_shards() <= most, "{}", many.open_shards());
    }
}

/// Threads that open shards at the same moment choose the same one to close.
#[test]
fn threads_that_open_shards_together_keep_to_the_limit() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let manifest = make(&storage, Path::new("d"), &[2; 12]);
    for round in 0..50 {
        let many = open(&storage, &manifest);
        let start = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (many, start) = (&many, &start);
                scope.spawn(move || {
                    for step in 0..12 {
                        start.wait();
                        many.get_raw((thread * 3 + step * 5 + round) % 12 * 2).unwrap();
                    }
                });
            }
        });
        assert!(many.open_shards() <= 2, "round {round}: {}", many.open_shards());
    }
}

#[test]
fn only_what_is_needed_is_opened() {
    let memory = MemoryStorage::new();
    let storage: Arc<dyn Storage> = Arc::new(memory.clone());
    let manifest = make(&storage, Path::new("d"), &[50; 8]);
    // Without ranges of keys only the filters can tell.
    let read = storage.open(&manifest).unwrap();
    let mut entries =
        Manifest::parse(&read.read(0..read.len()).unwrap()).unwrap().shards().to_vec();
    entries.iter_mut().for_each(|entry| entry.keys = None);
    put(&storage, &manifest, &Manifest::new(entries).unwrap().render());

    memory.clear_reads();
    let many = DatasetReader::options().storage(storage).open(&manifest).unwrap();
    assert!(memory.reads().iter().all(|read| read.path == manifest), "{:?}", memory.reads());
    assert_eq!(many.open_shards(), 0);
    assert_eq!(many.find(&key(210)).unwrap(), Some(210));
    // A filter is wrong about one absent key in fifty here.
    assert!(many.open_shards() <= 2, "{}", many.open_shards());
    let of_data = |path: &Path| path.extension().is_some_and(|ending| ending == "msgpack");
    let touched: std::collections::BTreeSet<PathBuf> =
        memory.reads().into_iter().map(|read| read.path).filter(|path| of_data(path)).collect();
    assert!(
        touched.contains(Path::new("d/set-00004.msgpack")) && touched.len() <= 2,
        "{touched:?}"
    );
    many.get(399).unwrap();
    assert!(many.open_shards() <= 3);
}

#[test]
fn an_absent_key_opens_no_shard_whose_filter_has_its_digest() {
    let dir = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::mapped());
    let manifest = make(&storage, dir.path(), &[500; 4]);
    let many = DatasetReader::open(&manifest).unwrap();
    assert_eq!(many.find("5/no such key").unwrap(), None);
    assert_eq!(many.open_shards(), 0);
    // One that lacks a key is never believed.
    let filter = SideFile::Filter.path(&dir.path().join("set-00002.msgpack"));
    let mut bytes = fs::read(&filter).unwrap();
    bytes[32..].fill(0);
    fs::write(&filter, bytes).unwrap();
    for key in [key(1200), "5/no such key".to_owned()] {
        let many = DatasetReader::open(&manifest).unwrap();
        let error = many.find(&key).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Damaged, Some(&*filter)), "{error}");
    }
}

#[test]
fn a_filter_that_lacks_a_key_hides_none() {
    for (lookup, mapped) in [(false, true), (true, true), (false, false), (true, false)] {
        let dir = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = match mapped {
            true => Arc::new(LocalStorage::mapped()),
            false => Arc::new(LocalStorage::positioned()),
        };
        let mut entries = Vec::new();
        for number in 0..3 {
            let name = format!("set-{number:05}.msgpack");
            let options = Writer::options().storage(storage.clone()).lookup(lookup);
            let mut writer = options.create(dir.path().join(&name)).unwrap();
            for index in number * 50..number * 50 + 50 {
                writer.write(&BTreeMap::from([("key", key(index))])).unwrap();
            }
            writer.finish().unwrap();
            // Nothing says what the digests of the shard have to be.
            let entry = entry(&storage, dir.path(), &name);
            entries.push(ShardEntry::new(&name, entry.samples, entry.bytes));
        }
        let manifest = dir.path().join("set.shards.json");
        put(&storage, &manifest, &Manifest::new(entries).unwrap().render());
        let filter = SideFile::Filter.path(&dir.path().join("set-00001.msgpack"));
        let mut bytes = fs::read(&filter).unwrap();
        bytes[32..].fill(0);
        fs::write(&filter, bytes).unwrap();
        let find = |key: &str| open(&storage, &manifest).find(key).map(drop);
        let contains = |key: &str| open(&storage, &manifest).contains_key(key).map(drop);
        find(&key(20)).unwrap();
        contains(&key(20)).unwrap();
        for error in [find(&key(70)).unwrap_err(), contains(&key(70)).unwrap_err()] {
            assert_eq!((error.kind(), error.path()), (ErrorKind::Damaged, Some(&*filter)));
        }
    }
}

#[test]
fn a_shard_that_is_not_the_one_of_the_manifest_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::mapped());
    let manifest = make(&storage, dir.path(), &[5, 5, 5]);
    let shard = dir.path().join("set-00001.msgpack");
    let problems = || {
        let report = Verify::of(&manifest).run().unwrap();
        report.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    // Of the same size, with the same number of samples.
    let mut writer = Writer::options().overwrite(true).create(&shard).unwrap();
    for index in 5..10 {
        let sample = BTreeMap::from([("key", key(index)), ("text", "y".repeat(index * 13 % 50))]);
        writer.write(&sample).unwrap();
    }
    writer.finish().unwrap();
    let many = DatasetReader::open(&manifest).unwrap();
    many.get(0).unwrap();
    let error = many.get(7).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Replaced, Some(&*shard)), "{error}");
    assert!(problems().contains("set-00001.msgpack: expected the MD5"), "{}", problems());
    // Longer.
    write(&storage, &dir.path().join("other.msgpack"), 5..11);
    for file in kiste::dataset::DatasetFile::all() {
        let from = file.path(&dir.path().join("other.msgpack"));
        if from.exists() {
            fs::copy(from, file.path(&shard)).unwrap();
        }
    }
    let error = DatasetReader::open(&manifest).unwrap().get(7).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Replaced, Some(&*shard)), "{error}");
    assert!(problems().contains("expected samples: 5"), "{}", problems());
    fs::remove_file(&shard).unwrap();
    let error = DatasetReader::open(&manifest).unwrap().get(7).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::NotFound, Some(&*shard)), "{error}");
    assert!(problems().contains("set-00001.msgpack"), "{}", problems());
}

#[test]
fn keys_of_two_shards_are_a_problem() {
    let dir = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::mapped());
    for (name, samples) in [("a.msgpack", 0..5), ("b.msgpack", 4..9)] {
        write(&storage, &dir.path().join(name), samples);
    }
    let entries = ["a.msgpack", "b.msgpack"].map(|name| entry(&storage, dir.path(), name));
    let manifest = dir.path().join("set.shards.json");
    put(&storage, &manifest, &Manifest::new(entries.to_vec()).unwrap().render());
    let report = Verify::of(&manifest).run().unwrap();
    assert_eq!(report.problems.len(), 1);
    let problem = &report.problems[0];
    assert_eq!((problem.index, problem.key.as_deref()), (Some(0), Some(&*key(4))));
}

#[test]
fn patterns_and_braces_are_datasets_too() {
    let dir = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::mapped());
    let sizes: Vec<usize> = (0..12).map(|n| n % 4).collect();
    make(&storage, dir.path(), &sizes);
    let one = DatasetReader::open(dir.path().join("one.msgpack")).unwrap();
    for pattern in ["set-*.msgpack", "set-*", "set-{00000..00011}.msgpack", "set-0000[0-9]*"] {
        let pattern = dir.path().join(pattern);
        assert!(kiste::dataset::names_shards(&pattern));
        let many = DatasetReader::open(&pattern).unwrap();
        assert_eq!(many.path(), pattern);
        let expected = if pattern.ends_with("set-0000[0-9]*") { 10 } else { 12 };
        assert_eq!(many.shards(), expected, "{}", pattern.display());
        for index in 0..many.len() {
            assert_eq!(many.get_raw(index).unwrap(), one.get_raw(index).unwrap());
            assert_eq!(many.find(&key(index)).unwrap(), Some(index));
        }
    }
    for (pattern, kind) in [
        ("set-{00000..00012}.msgpack", ErrorKind::NotFound),
        ("other-*.msgpack", ErrorKind::NotFound),
        ("none.shards.json", ErrorKind::NotFound),
    ] {
        assert_eq!(DatasetReader::open(dir.path().join(pattern)).unwrap_err().kind(), kind);
    }
    // A file of that very name is that file.
    fs::copy(dir.path().join("one.msgpack"), dir.path().join("a[1].msgpack")).unwrap();
    let odd = dir.path().join("a[1].msgpack");
    assert!(!kiste::dataset::names_shards(&odd));
    assert_eq!(DatasetReader::open(odd).unwrap().len(), one.len());
}

#[test]
fn a_writer_makes_no_dataset_of_the_name_of_a_manifest() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.shards.json");
    assert_eq!(Writer::create(&path).err().unwrap().kind(), ErrorKind::Invalid);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// By the number of its file a reader knows whether the manifest is still the one that it opened, and file
/// systems give the number of a file that is gone to the next one.
#[test]
#[cfg(unix)]
fn an_open_manifest_keeps_its_identity() {
    let dir = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::positioned());
    let manifest = make(&storage, dir.path(), &[3, 4]);
    let before = storage.stat(&manifest).unwrap().unwrap().id;
    let reader = open(&storage, &manifest);
    fs::remove_file(&manifest).unwrap();
    for number in 0..20 {
        let path = dir.path().join(format!("{number}"));
        fs::write(&path, "other").unwrap();
        assert_ne!(storage.stat(&path).unwrap().unwrap().id, before);
    }
    assert_eq!(reader.len(), 7);
}
