//! Arrays and bytes in containers: what bloscpack wrote, round trips, appends and crashes in them.

mod append;
mod arrays;
mod python;
mod samples;
mod streams;

use std::fs;
use std::path::PathBuf;

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

/// The golden files of bloscpack.
fn golden_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/bloscpack-0.16.0")
}

/// Name, content and manifest entry of the golden files in this folder.
pub(crate) fn golden(folder: &str) -> Vec<(String, Vec<u8>, Json)> {
    let manifest = fs::read(golden_dir().join("manifest.json")).unwrap();
    let manifest: Json = serde_json::from_slice(&manifest).unwrap();
    let entries = manifest["entries"].as_array().unwrap().iter();
    let of_folder = entries.filter_map(|entry| {
        let name = entry["file"].as_str().unwrap();
        let short = name.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(".blp")?;
        let bytes = fs::read(golden_dir().join(name)).unwrap();
        Some((short.to_owned(), bytes, entry.clone()))
    });
    of_folder.collect()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that compress somewhat.
fn sample(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| ((i + seed) / 5 * 37 % 241) as u8 ^ (i % 3) as u8).collect()
}
