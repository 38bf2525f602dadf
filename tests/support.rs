//! The golden files of Python datadings, and scratch copies of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiste::format::dataset::SideFile;
use kiste::format::msgpack;
use kiste::storage::{MemoryStorage, Storage};
use kiste::{DatasetReader, Value};
use serde::Deserialize;
use serde_json::Value as Json;

/// Of how many cases that differ little one is tried: `most`, or each where the environment variable
/// `KISTE_TEST_ALL` is set.
pub(crate) fn one_in(most: usize) -> usize {
    if std::env::var_os("KISTE_TEST_ALL").is_some() { 1 } else { most }
}

/// Where the golden files are.
pub(crate) fn golden_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/datadings-3.4.7")
}

/// A golden data file.
pub(crate) fn golden(name: &str) -> PathBuf {
    golden_dir().join(format!("{name}.msgpack"))
}

/// A JSON file beside the golden files.
pub(crate) fn golden_json(name: &str) -> Json {
    let text = fs::read(golden_dir().join(name)).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// What the tests want of `manifest.json`. The samples in it are nested too deeply for a `Value`.
#[derive(Deserialize)]
pub(crate) struct Manifest {
    pub(crate) datasets: BTreeMap<String, Dataset>,
    legacy: BTreeMap<String, Legacy>,
}

/// A dataset of `manifest.json`.
#[derive(Deserialize)]
pub(crate) struct Dataset {
    pub(crate) path: String,
    pub(crate) keys: Vec<String>,
    pub(crate) offsets: Vec<u64>,
    pub(crate) all_reencode_identically: Option<bool>,
    pub(crate) absent_keys: Absent,
}

/// Keys that a dataset does not have, and what its filter says.
#[derive(Deserialize)]
pub(crate) struct Absent {
    pub(crate) keys: Vec<(String, bool)>,
}

/// A dataset that datadings 3.0.2 wrote.
#[derive(Deserialize)]
pub(crate) struct Legacy {
    pub(crate) path: String,
    /// The name of the dataset that has the same keys and offsets.
    pub(crate) same_data_as: String,
    pub(crate) convert_index: Converted,
}

/// What Python's `convert_index` makes of a legacy dataset.
#[derive(Deserialize)]
pub(crate) struct Converted {
    pub(crate) md5_file_text_after: String,
}

/// What was noted when the golden files were made.
pub(crate) fn manifest() -> Manifest {
    serde_json::from_slice(&fs::read(golden_dir().join("manifest.json")).unwrap()).unwrap()
}

/// All legacy datasets.
pub(crate) fn legacy() -> BTreeMap<String, Legacy> {
    manifest().legacy
}

/// The names of all golden datasets.
pub(crate) fn golden_names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(golden_dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".msgpack").map(str::to_string))
        .collect();
    names.sort();
    names
}

/// The data file and its side files, as far as they exist.
pub(crate) fn files_of(data: &Path) -> Vec<PathBuf> {
    let sides = SideFile::ALL.iter().map(|file| file.path(data));
    std::iter::once(data.to_path_buf()).chain(sides).filter(|path| path.exists()).collect()
}

/// Copies a dataset into a directory under the same name.
pub(crate) fn copy_to(data: &Path, dir: &Path) -> PathBuf {
    for file in files_of(data) {
        fs::copy(&file, dir.join(file.file_name().unwrap())).unwrap();
    }
    dir.join(data.file_name().unwrap())
}

/// Asserts that two datasets consist of the same files with the same bytes.
pub(crate) fn assert_same_files(expected: &Path, found: &Path) {
    assert_same(expected, found, &[]);
}

/// The same for one that Python made: that found may have the accelerator as well, which is ours alone.
pub(crate) fn assert_same_as_of_python(expected: &Path, found: &Path) {
    assert_same(expected, found, &[".lookup"]);
}

fn assert_same(expected: &Path, found: &Path, ours: &[&str]) {
    let data = expected;
    let names = |data: &Path| -> Vec<String> {
        let stem = data.to_str().unwrap();
        let rest = |path: PathBuf| path.to_str().unwrap()[stem.len()..].to_string();
        files_of(data).into_iter().map(rest).collect()
    };
    let mut there = names(found);
    there.retain(|name| !ours.contains(&name.as_str()));
    assert_eq!(names(expected), there, "{}", found.display());
    for expected in files_of(expected) {
        let rest = &expected.to_str().unwrap()[data.to_str().unwrap().len()..];
        let found = PathBuf::from(found.to_str().unwrap().to_owned() + rest);
        assert!(fs::read(expected).unwrap() == fs::read(&found).unwrap(), "{}", found.display());
    }
}

/// A storage in memory with a copy of a golden dataset, named like it.
pub(crate) fn golden_in_memory(name: &str) -> (MemoryStorage, PathBuf) {
    let storage = MemoryStorage::new();
    for file in files_of(&golden(name)) {
        storage.put(file.file_name().unwrap(), fs::read(&file).unwrap());
    }
    (storage, PathBuf::from(format!("{name}.msgpack")))
}

/// All files and directories of a storage; a directory has no content.
pub(crate) type Snapshot = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// What is in a storage now.
pub(crate) fn snapshot(storage: &MemoryStorage) -> Snapshot {
    storage.names().into_iter().map(|name| (name.clone(), storage.get(name))).collect()
}

/// A storage in which all of this is, synced.
pub(crate) fn restore(snapshot: &Snapshot) -> MemoryStorage {
    let storage = MemoryStorage::new();
    for (name, content) in snapshot {
        match content {
            Some(bytes) => storage.put(name, bytes.clone()),
            None => {
                storage.create_dir(name).unwrap();
                storage.sync_dir(name.parent().unwrap()).unwrap();
            }
        }
    }
    storage
}

/// Opens a dataset in a storage.
pub(crate) fn open_in(storage: &MemoryStorage, path: &Path) -> kiste::Result<DatasetReader> {
    DatasetReader::options().storage(Arc::new(storage.clone())).open(path)
}

/// A packed sample: `{"key": key, "v": value}`.
pub(crate) fn packed(key: &str, value: u64) -> Vec<u8> {
    let sample = vec![("key".into(), key.into()), ("v".into(), value.into())];
    msgpack::to_vec(&Value::Map(sample)).unwrap()
}

/// Pseudo-random numbers that are the same in every run (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
