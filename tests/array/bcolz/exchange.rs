//! Both ways with the real bcolz, which `tests/compat/python_bcolz.py` runs.

use std::fs;
use std::path::{Path, PathBuf};

use kiste::array::Rows;
use kiste::array::bcolz::{Bcolz, BcolzOptions};
use kiste::format::numpy::npy;

/// For each `theirs/NAME`, which bcolz wrote: compares it with `theirs/NAME.npy`, and writes it as
/// `ours/NAME`, in other chunks and with the attributes that it has. Where there is only the file,
/// which bcolz could make no directory of, that is written.
#[test]
#[ignore = "python_bcolz.py calls it, with the directory in KISTE_BCOLZ"]
fn what_python_wrote() {
    let dir = PathBuf::from(std::env::var_os("KISTE_BCOLZ").expect("KISTE_BCOLZ"));
    let mut count = 0;
    for entry in fs::read_dir(dir.join("theirs")).unwrap() {
        let file = entry.unwrap().path();
        let Some(name) = file.file_name().unwrap().to_str().unwrap().strip_suffix(".npy") else {
            continue;
        };
        let bytes = fs::read(&file).unwrap();
        let expected = npy::decode(&bytes).unwrap();
        let (path, ours) = (file.with_extension(""), dir.join("ours").join(name));
        if !Path::exists(&path) {
            BcolzOptions::default().write(ours, &expected).unwrap();
            continue;
        }
        let opened = Bcolz::open(&path).unwrap();
        let found = opened.read_rows(0..opened.shape()[0]).unwrap();
        assert_eq!(found.dtype(), expected.dtype(), "{name}");
        assert_eq!(found.shape(), expected.shape(), "{name}");
        assert!(found.bytes() == &*expected.c_bytes(), "{name}");
        let attrs = match &opened {
            Bcolz::Array(array) => array.attrs(),
            Bcolz::Table(table) => table.attrs(),
        };
        let options = BcolzOptions::default().attrs(attrs.clone());
        let options = if count % 2 == 0 { options } else { options.chunklen(1 + count) };
        options.write(ours, &opened).unwrap();
        count += 1;
    }
    assert!(count > 0);
}
