//! Arrays to other formats and back, and parts of arrays, by the library.

use std::fs;
use std::path::Path;

use kiste::array::{
    ArrayExport, ArrayFormat, ArrayImport, ArrayOptions, ChunkedArray, NpyRows, Rows, RowsProgress,
};
use kiste::storage::MemoryStorage;
use kiste::value::{Casting, DType, NdArray};
use kiste::{Error, ErrorKind};
use ndarray::{Array2, arr2};

use super::{options, root, sample};

fn numbers() -> Array2<i32> {
    Array2::from_shape_fn((50, 3), |(i, j)| (i * 3 + j) as i32)
}

fn import() -> ArrayImport {
    ArrayImport::new(ArrayOptions::default().chunk_shape([8, 3]))
}

/// The names in a directory.
fn names(dir: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| name(entry).to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn every_format_gives_the_same_array_back() {
    let dir = tempfile::tempdir().unwrap();
    let numbers = numbers();
    let rows = NdArray::from_ndarray(&numbers);
    for format in ArrayFormat::ALL {
        let file = dir.path().join(format!("x.{format}"));
        ArrayExport::new(format).write(&rows, &file).unwrap();
        assert_eq!(ArrayFormat::of_input(&file), Some(format));
        let array = dir.path().join(format!("from-{format}"));
        let made = import().run(&file, &array, |_, _| Ok(())).unwrap();
        assert_eq!((made.len(), &made[0].path, made[0].version.number), (1, &array, 1));
        let read = ChunkedArray::open(&array).unwrap().get::<i32>(..).unwrap();
        assert_eq!(read, numbers.clone().into_dyn(), "{format}");
        // What is there stays, unless a file may be replaced.
        let again = ArrayExport::new(format).write(&rows, &file).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists, "{format}");
        let again = import().run(&file, &array, |_, _| Ok(())).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists, "{format}");
    }
    let file = dir.path().join("x.npy");
    ArrayExport::new(ArrayFormat::Npy).overwrite(true).write(&rows, &file).unwrap();
}

#[test]
fn an_import_that_is_stopped_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.npy");
    let numbers = numbers();
    ArrayExport::new(ArrayFormat::Npy).write(&NdArray::from_ndarray(&numbers), &file).unwrap();
    let array = dir.path().join("a/b/x");
    let stop = |_, of| match of {
        50 => Err(Error::new(ErrorKind::Cancelled, "enough")),
        _ => Ok(()),
    };
    let stopped = import().run(&file, &array, stop).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Cancelled);
    assert_eq!(names(&dir.path().join("a/b")), [""; 0]);
    fs::write(&file, b"\x93NUMPY\x01\x00").unwrap();
    let cut = import().run(&file, &array, |_, _| Ok(())).unwrap_err();
    assert_eq!((cut.kind(), cut.path()), (ErrorKind::Damaged, Some(&*file)));
    assert_eq!(names(&dir.path().join("a/b")), [""; 0]);
}

#[test]
fn a_new_array_is_made_where_the_options_say() {
    let storage = MemoryStorage::new();
    let made = options(&storage).create_new("deep/x", DType::of::<u8>(), &[3]).unwrap();
    assert_eq!(made.number, 1);
    assert_eq!(options(&storage).open("deep/x").unwrap().shape(), [3]);
    assert!(!Path::new("deep").exists());
    let again = options(&storage).create_new("deep/x", DType::of::<u8>(), &[3]).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
}

#[test]
fn parts_are_what_reading_gives() {
    let storage = MemoryStorage::new();
    sample(&storage);
    let array = options(&storage).open(root()).unwrap();
    for selection in
        ["", "2:9:3", "::-2, 1", "3", "..., 0", "[4, 0, 4]", "5:5", "-1, ::2", "None, 1"]
    {
        let selected: kiste::array::Selection = selection.parse().unwrap();
        let part = array.part(selected.clone()).unwrap();
        let expected = array.read(selected).unwrap();
        assert_eq!(part.shape(), expected.shape(), "{selection}");
        assert_eq!(part.to_text().unwrap(), expected.to_text().unwrap(), "{selection}");
        if let Some(&rows) = part.shape().first() {
            let read = part.read_rows(0..rows).unwrap();
            assert_eq!(read.c_bytes(), expected.c_bytes(), "{selection}");
            assert_eq!(read.to_json().unwrap(), expected.to_json().unwrap(), "{selection}");
        }
    }
    let part = array.part(..2).unwrap().astype(DType::of::<f64>(), Casting::Safe).unwrap();
    assert_eq!(part.read_rows(0..1).unwrap().dtype(), &DType::of::<f64>());
    assert!(array.part(..2).unwrap().astype(DType::of::<u8>(), Casting::Safe).is_err());
    assert!(array.part((0, 0, 0)).is_err());
}

#[test]
fn rows_of_a_stream_come_once_and_in_order() {
    let content = arr2(&[[1_u8, 2], [3, 4], [5, 6]]);
    let file = kiste::format::numpy::npy::encode(&NdArray::from_ndarray(&content)).unwrap();
    let rows = NpyRows::from_reader("pipe", &file[..]).unwrap();
    assert_eq!(rows.read_rows(0..1).unwrap().bytes(), [1, 2]);
    assert_eq!(rows.read_rows(0..1).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(rows.read_rows(1..3).unwrap().bytes(), [3, 4, 5, 6]);
    for end in 0..file.len() {
        let cut = NpyRows::from_reader("pipe", &file[..end]);
        let read = cut.and_then(|rows| rows.read_rows(0..3));
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Damaged, "{end}");
    }
    let rows = NpyRows::from_reader("pipe", &file[..]).unwrap();
    let seen = std::sync::Mutex::new(Vec::new());
    let watched = RowsProgress::new(&rows, |row, of| {
        seen.lock().unwrap().push((row, of));
        Ok(())
    });
    let mut out = Vec::new();
    kiste::array::write_npy(&watched, &mut out).unwrap();
    assert_eq!((out == file, seen.into_inner().unwrap()), (true, vec![(0, 3)]));
}
