//! Pieces of an array, as large and as small as they come: what is kept between them, and how whole
//! chunks get there, must not show.

use std::path::PathBuf;

use kiste::array::{ArrayOptions, ChunkedArray, Index, Selection, StagedArray};
use kiste::storage::MemoryStorage;
use kiste::value::{DType, NdArray};
use ndarray::{Array, Array2, ArrayD, Axis, Slice};

use super::{open, options, root};
use crate::support::{Random, snapshot};

/// Numbers that compress, none like its neighbours.
fn numbers(rows: usize, columns: usize) -> Array2<f64> {
    Array2::from_shape_fn((rows, columns), |(i, j)| (i * 1000 + j) as f64 / 8.0)
}

/// All files below a directory of the array, with their bytes.
fn files(storage: &MemoryStorage, dir: &str) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let dir = root().join(dir);
    snapshot(storage).into_iter().filter(|(path, _)| path.starts_with(&dir)).collect()
}

#[test]
fn rows_and_pieces_are_the_same_whatever_is_kept() {
    let storage = MemoryStorage::new();
    // Chunks of several blocks, which are 128 KiB: a row lies in one, others span two.
    let content = numbers(500, 430);
    let shape = [0, 430];
    let create = options(&storage).chunk_shape([200, 215]);
    let mut store = create.create(root(), DType::of::<f64>(), &shape).unwrap();
    store.append(&(&content).into(), "all").unwrap();
    for cache in [0, 1 << 10, 300 << 10, 32 << 20] {
        let array = options(&storage).cache(cache).open(root()).unwrap();
        for (row, expected) in content.outer_iter().enumerate().step_by(7) {
            assert_eq!(array.get::<f64>(row).unwrap(), expected.into_dyn(), "{cache}: {row}");
        }
        let mut random = Random(5);
        for _ in 0..50 {
            let mut range = |len: usize| {
                let start = random.next() as usize % len;
                start..start + 1 + random.next() as usize % (len - start)
            };
            let (rows, columns) = (range(500), range(430));
            let mut expected = content.view();
            expected.slice_axis_inplace(Axis(0), Slice::from(rows.clone()));
            expected.slice_axis_inplace(Axis(1), Slice::from(columns.clone()));
            let found: ArrayD<f64> = array.get((rows, columns)).unwrap();
            assert_eq!(found, expected.into_dyn(), "{cache}");
        }
    }
}

/// What an older version has in its place is not what a newer one reads, though both are open.
#[test]
fn what_is_kept_belongs_to_its_version() {
    let storage = MemoryStorage::new();
    for versioned in [true, false] {
        let path = root().join(versioned.to_string());
        let with = options(&storage).chunk_shape([300, 300]).versioned(versioned);
        let mut store = with.create(&path, DType::of::<f64>(), &[300, 300]).unwrap();
        for round in 1..6 {
            let mut staged = store.stage().unwrap();
            staged.set_scalar((.., round), round as f64).unwrap();
            store.commit(&mut staged, "next").unwrap();
            let mut expected = ndarray::Array1::zeros(300);
            expected.iter_mut().enumerate().for_each(|(i, n): (usize, &mut f64)| {
                *n = if (1..=round).contains(&i) { i as f64 } else { 0.0 };
            });
            for array in [store.array(), &with.open(&path).unwrap()] {
                for row in [0, 7, 299] {
                    assert_eq!(array.get::<f64>(row).unwrap(), expected.clone().into_dyn());
                }
            }
        }
    }
}

#[test]
fn rows_are_appended_in_chunks_of_any_shape() {
    for chunk in [[4, 3], [4, 7], [5, 100], [1, 2]] {
        for (first, second) in [(0, 10), (3, 9), (4, 4), (8, 23), (5, 2)] {
            let storage = MemoryStorage::new();
            let create = options(&storage).chunk_shape(chunk).fill(-1.0);
            let mut store = create.create(root(), DType::of::<f64>(), &[0, 7]).unwrap();
            let content = numbers(first + second, 7);
            let (a, b) = content.view().split_at(Axis(0), first);
            store.append(&(&a).into(), "first").unwrap();
            store.append(&(&b).into(), "second").unwrap();
            let array = open(&storage);
            assert_eq!(array.get::<f64>(..).unwrap(), content.clone().into_dyn(), "{chunk:?}");
            // Canonical padding: `verify` compares what is beyond the edges too.
            assert_eq!(array.verify().unwrap().problems.len(), 0, "{chunk:?} {first} {second}");
        }
    }
}

#[test]
fn files_are_the_same_whatever_the_number_of_threads() {
    let write = |threads| {
        let storage = MemoryStorage::new();
        let with = options(&storage).chunk_shape([10, 10]).superchunk(7).threads(threads);
        let mut store = with.create(root(), DType::of::<f64>(), &[0, 100]).unwrap();
        // Every third row of chunks is the same, and chunks are equal within rows too.
        let content = Array2::from_shape_fn((300, 100), |(i, j)| (i / 10 % 3 + j / 50) as f64);
        store.append(&(&content).into(), "all").unwrap();
        let mut staged = store.stage().unwrap();
        staged.set_scalar((.., 0), 5.0).unwrap();
        store.commit(&mut staged, "a column").unwrap();
        [files(&storage, "data"), files(&storage, "meta/manifest")]
    };
    let expected = write(1);
    assert!(expected.iter().all(|files| files.len() >= 2));
    for _ in 0..5 {
        assert!(write(4) == expected);
    }
}

#[test]
fn an_array_that_only_grows_writes_its_version_alone() {
    let storage = MemoryStorage::new();
    let create = options(&storage).chunk_shape([10, 10]);
    let mut store = create.create(root(), DType::of::<f64>(), &[0, 100]).unwrap();
    store.append(&(&numbers(95, 100)).into(), "all").unwrap();
    let before = [files(&storage, "data"), files(&storage, "meta/manifest")];
    store.resize(&[500, 128], "more").unwrap();
    assert!([files(&storage, "data"), files(&storage, "meta/manifest")] == before);
    let array: ChunkedArray = open(&storage);
    assert_eq!(array.get::<f64>((..95, ..100)).unwrap(), numbers(95, 100).into_dyn());
    assert_eq!(array.get::<f64>((95.., ..)).unwrap().sum(), 0.0);
    assert_eq!(array.verify().unwrap().problems.len(), 0);
    // What is cut off between chunks, and comes back, is fill.
    store.resize(&[40, 100], "less").unwrap();
    store.resize(&[95, 100], "more").unwrap();
    let array = open(&storage);
    assert_eq!(array.get::<f64>((40.., ..)).unwrap().sum(), 0.0);
    assert_eq!(array.get::<f64>((..40, ..)).unwrap(), numbers(40, 100).into_dyn());
    assert_eq!(array.verify().unwrap().problems.len(), 0);
}

/// The same through staged changes, which are committed in one version.
#[test]
fn what_is_cut_off_and_comes_back_at_once_is_fill() {
    let storage = MemoryStorage::new();
    let create: ArrayOptions = options(&storage).chunk_shape([10, 10]);
    let mut store = create.create(root(), DType::of::<f64>(), &[0, 100]).unwrap();
    store.append(&(&numbers(95, 100)).into(), "all").unwrap();
    let mut staged = store.stage().unwrap();
    staged.resize(&[40, 100]).unwrap();
    staged.resize(&[95, 100]).unwrap();
    store.commit(&mut staged, "cut").unwrap();
    staged.set_scalar((94, ..), 1.0).unwrap();
    store.commit(&mut staged, "a row").unwrap();
    let array = open(&storage);
    assert_eq!(array.get::<f64>((40.., ..)).unwrap().sum(), 100.0);
    assert_eq!(array.get::<f64>((..40, ..)).unwrap(), numbers(40, 100).into_dyn());
}

/// Every selection of three integers, slices, lists, ellipses and new axes: an assignment that is written band
/// by band is the one that memory shows. A list of even steps is a slice to the plan, but its axis may be the
/// first of the value.
#[test]
fn an_assignment_to_any_selection_is_that_of_a_staged_array() {
    let parts: Vec<Index> = vec![
        Index::At(1),
        Index::range(None, None, 1),
        Index::range(Some(3), Some(0), -1),
        vec![0isize, 1].into(),
        vec![1isize, 0].into(),
        Index::NewAxis,
        Index::Ellipsis,
    ];
    let shape = [3, 4, 5, 2];
    let plain = Array::from_iter(0..120i32).into_shape_with_order(shape).unwrap();
    let storage = MemoryStorage::new();
    let create = options(&storage).chunk_shape([2, 2, 2, 2]);
    let mut store = create.create(root(), DType::of::<i32>(), &shape).unwrap();
    let (mut tried, mut moved) = (0, 0);
    for number in 0..parts.len().pow(3) {
        let digit = |at: u32| number / parts.len().pow(at) % parts.len();
        let chosen: Vec<Index> = (0..3).map(|at| parts[digit(at)].clone()).collect();
        let selection = Selection::from(chosen);
        let mut staged =
            StagedArray::new(&shape, &[2, 2, 2, 2], DType::of::<i32>(), &[0; 4]).unwrap();
        staged.set(.., &plain).unwrap();
        let Ok(there) = staged.read(selection.clone()) else { continue };
        let count = there.shape().iter().product::<usize>() as i32;
        let value = Array::from_iter(-count..0).into_shape_with_order(there.shape()).unwrap();
        staged.set(selection.clone(), &value).unwrap();
        store.put(.., &NdArray::from_ndarray(&plain), "before").unwrap();
        store.put(selection.clone(), &NdArray::from_ndarray(&value), "after").unwrap();
        let expected = staged.read(Selection::all()).unwrap();
        let found = store.array().read(Selection::all()).unwrap();
        assert_eq!(found.c_bytes(), expected.c_bytes(), "{selection:?}");
        tried += 1;
        moved += usize::from(there.shape().first() == Some(&2));
    }
    assert!(tried > 200 && moved > 20, "{tried} {moved}");
}
