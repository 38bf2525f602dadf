//! Directories of bcolz: what bcolz wrote, what is damaged, what we write, and both ways with Python.

mod damage;
mod exchange;
mod golden;
mod superchunks;
mod writing;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiste::Result;
use kiste::array::bcolz::{Bcolz, BcolzArray, BcolzTable};
use kiste::storage::MemoryStorage;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

/// The golden directories of bcolz.
fn golden_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/bcolz-1.2.1/bcolz")
}

/// Name and manifest entry of every golden directory.
fn manifest() -> Vec<(String, Json)> {
    let file = fs::read(golden_dir().join("../manifest.json")).unwrap();
    let manifest: Json = serde_json::from_slice(&file).unwrap();
    let entries = manifest["entries"].as_array().unwrap().iter();
    let named = entries.map(|entry| {
        let name = entry["rootdir"].as_str().unwrap().strip_prefix("bcolz/").unwrap();
        (name.to_owned(), entry.clone())
    });
    named.collect()
}

/// A storage in memory with a copy of a directory, which is called `a` there.
fn in_memory(dir: &Path) -> MemoryStorage {
    let storage = MemoryStorage::new();
    let mut todo = vec![(dir.to_path_buf(), PathBuf::from("a"))];
    while let Some((from, to)) = todo.pop() {
        for entry in fs::read_dir(&from).unwrap() {
            let entry = entry.unwrap();
            let to = to.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => todo.push((entry.path(), to)),
                false => storage.put(&to, fs::read(entry.path()).unwrap()),
            }
        }
    }
    storage
}

fn array_in(storage: &MemoryStorage) -> Result<BcolzArray> {
    BcolzArray::open_in(Arc::new(storage.clone()), Path::new("a"))
}

fn table_in(storage: &MemoryStorage) -> Result<BcolzTable> {
    BcolzTable::open_in(Arc::new(storage.clone()), Path::new("a"))
}

fn open_in(storage: &MemoryStorage) -> Result<Bcolz> {
    Bcolz::open_in(Arc::new(storage.clone()), Path::new("a"))
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
