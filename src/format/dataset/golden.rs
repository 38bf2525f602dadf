//! (test) The golden files of Python datadings 3.4.7, as the tests of this folder want them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The content of a golden file.
pub(super) fn read(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/datadings-3.4.7");
    std::fs::read(folder.join(name)).unwrap_or_else(|err| panic!("{name}: {err}"))
}

/// A golden JSON file.
pub(super) fn json<T: DeserializeOwned>(name: &str) -> T {
    serde_json::from_slice(&read(name)).unwrap()
}

/// The parts of `manifest.json` that the tests use. The samples in it are nested too deeply for a
/// `Value`.
#[derive(Deserialize)]
pub(super) struct Manifest {
    datasets: BTreeMap<String, Dataset>,
    legacy: BTreeMap<String, Legacy>,
}

/// A dataset of `manifest.json`.
#[derive(Deserialize)]
pub(super) struct Dataset {
    pub(super) path: String,
    pub(super) keys: Vec<String>,
    pub(super) offsets: Vec<u64>,
    pub(super) md5: BTreeMap<String, String>,
    pub(super) md5_file_text: String,
    pub(super) salt: String,
    pub(super) hashes: Vec<String>,
    pub(super) filter: Filter,
    pub(super) absent_keys: Absent,
}

/// The parameters of a filter, as simplebloom has them.
#[derive(Deserialize)]
pub(super) struct Filter {
    pub(super) num_elements: u64,
    pub(super) false_positive_prob: String,
    pub(super) num_bits: u64,
    pub(super) num_hashes: u32,
    pub(super) header_total_bytes: u64,
}

/// Keys that a dataset does not have, and what its filter says.
#[derive(Deserialize)]
pub(super) struct Absent {
    pub(super) keys: Vec<(String, bool)>,
}

/// A dataset that datadings 3.0.2 wrote.
#[derive(Deserialize)]
pub(super) struct Legacy {
    pub(super) path: String,
    pub(super) md5_file_text: String,
    /// The name of the dataset that has the same keys and offsets.
    pub(super) same_data_as: String,
    pub(super) convert_index: Converted,
}

/// The output of `convert_index` for a legacy dataset.
#[derive(Deserialize)]
pub(super) struct Converted {
    pub(super) md5_file_text_after: String,
}

/// All datasets of `manifest.json`, the shards and the one with another salt included.
pub(super) fn datasets() -> Vec<Dataset> {
    let manifest: Manifest = json("manifest.json");
    assert_eq!(manifest.datasets.len(), 20);
    manifest.datasets.into_values().collect()
}

/// All legacy datasets of `manifest.json`.
pub(super) fn legacy() -> Vec<Legacy> {
    let manifest: Manifest = json("manifest.json");
    assert_eq!(manifest.legacy.len(), 7);
    manifest.legacy.into_values().collect()
}

impl Dataset {
    /// The content of the side file with this suffix; of the data file, if it is empty.
    pub(super) fn file(&self, suffix: &str) -> Vec<u8> {
        read(&format!("{}{suffix}", self.path))
    }
}

/// A number in hexadecimal digits.
pub(super) fn hex_u64(digits: &str) -> u64 {
    u64::from_str_radix(digits, 16).unwrap()
}

/// Each proper prefix of these bytes, and each change of one byte: to what a decoder must not
/// panic at. Long inputs are sampled.
pub(super) fn damage(bytes: &[u8], mut decode: impl FnMut(&[u8])) {
    let step = bytes.len() / 512 + 1;
    for end in (0..bytes.len()).step_by(step) {
        decode(&bytes[..end]);
    }
    let mut changed = bytes.to_vec();
    for at in (0..bytes.len()).filter(|at| at % step == 0 || *at < 256) {
        for flip in [0x01, 0x80, 0xff, bytes[at], bytes[at] ^ 0xff, bytes[at] ^ 0xdb] {
            changed[at] ^= flip;
            decode(&changed);
            changed[at] = bytes[at];
        }
    }
    changed.push(0);
    decode(&changed);
}

/// Pseudo-random numbers that are the same in every run (splitmix64).
pub(crate) fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
