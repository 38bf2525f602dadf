//! The golden files of Python datadings, and scratch copies of them.

use std::fs;
use std::path::{Path, PathBuf};

use kiste::format::dataset::SideFile;
use serde_json::Value as Json;

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
    let names = |data: &Path| -> Vec<String> {
        let stem = data.to_str().unwrap();
        let rest = |path: PathBuf| path.to_str().unwrap()[stem.len()..].to_string();
        files_of(data).into_iter().map(rest).collect()
    };
    assert_eq!(names(expected), names(found), "{}", found.display());
    for (expected, found) in files_of(expected).iter().zip(files_of(found)) {
        assert!(fs::read(expected).unwrap() == fs::read(&found).unwrap(), "{}", found.display());
    }
}
