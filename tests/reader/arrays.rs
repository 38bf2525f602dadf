//! Rows of arrays as samples, and samples that refer to rows.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kiste::array::{ArrayOptions, PackOptions, Rows};
use kiste::format::msgpack::numpy::{Special, recognise};
use kiste::format::msgpack::{RowRef, Value};
use kiste::loader::{Columns, Loader};
use kiste::reader::{ArrayRows, ArraySource, WithArrays};
use kiste::reader::{ListReader, Reader};
use kiste::sampler::{BlockShuffle, Sampler, Sequential, Shuffle};
use kiste::value::{DType, NdArray};
use kiste::{DatasetReader, ErrorKind, Result, Writer};
use ndarray::{Array1, Array2, arr1};
use tempfile::TempDir;

use super::conformance::ask_all;

/// A matrix of `n` rows, whose numbers say where they are.
fn matrix(n: usize, width: usize) -> Array2<f32> {
    Array2::from_shape_fn((n, width), |(i, j)| (i * width + j) as f32)
}

/// A chunked array of such a matrix, and a packed one of the numbers of its rows.
fn arrays(dir: &TempDir, n: usize, width: usize, chunk: usize) -> ArrayRows {
    let options = ArrayOptions::default().chunk_shape([chunk, width]);
    let path = dir.path().join("x");
    let mut store = options.create(&path, DType::of::<f32>(), &[0, width]).unwrap();
    store.append(&NdArray::from_ndarray(&matrix(n, width)), "all").unwrap();
    let numbers = Array1::from_iter(0..n as i64);
    let packed = PackOptions::default().pack(&NdArray::from_ndarray(&numbers)).unwrap();
    ArrayRows::new()
        .field("x", store.array().clone())
        .unwrap()
        .field("n", kiste::array::PackedArray::from_bytes(packed).unwrap())
        .unwrap()
}

#[test]
fn rows_are_samples_as_others_are() {
    let dir = tempfile::tempdir().unwrap();
    for n in [0, 1, 23] {
        let dir = dir.path().join(n.to_string());
        std::fs::create_dir(&dir).unwrap();
        let options = ArrayOptions::default().chunk_shape([5, 2]);
        let mut store = options.create(dir.join("x"), DType::of::<f32>(), &[0, 3]).unwrap();
        store.append(&NdArray::from_ndarray(&matrix(n, 3)), "all").unwrap();
        let rows = ArrayRows::new().field("x", store.array().clone()).unwrap();
        let keys: Vec<String> = (0..n).map(|i| format!("{i:012}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        ask_all(&rows, &keys, &format!("{n} rows"));
    }
    ask_all(&ArrayRows::new(), &[], "no fields");
}

#[test]
fn fields_are_packed_as_numpy_has_rows() {
    let dir = tempfile::tempdir().unwrap();
    let rows = arrays(&dir, 10, 3, 4);
    let sample = rows.get(7).unwrap();
    assert_eq!(sample["key"].as_str(), Some("000000000007"));
    let Some(Special::Array(x)) = recognise(&sample["x"]) else { panic!("{sample}") };
    assert_eq!(x.to_ndarray::<f32>().unwrap(), arr1(&[21.0, 22.0, 23.0]).into_dyn());
    let Some(Special::Scalar(n)) = recognise(&sample["n"]) else { panic!("{sample}") };
    assert_eq!(n.to_ndarray::<i64>().unwrap().first(), Some(&7));
}

#[test]
fn only_the_key_itself_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let rows = arrays(&dir, 10, 3, 4);
    assert_eq!(rows.find("000000000009").unwrap(), Some(9));
    for other in ["9", "+00000000009", "000000000010", "0000000000009", "00000000000a", "-1"] {
        assert_eq!(rows.find(other).unwrap(), None, "{other}");
    }
}

#[test]
fn fields_that_do_not_fit_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let numbers = |n: usize| NdArray::from_ndarray(&Array1::<i32>::zeros(n)).into_owned();
    for (name, array, says) in [
        ("y", numbers(9), "expected 10 rows, found 9"),
        ("x", numbers(10), "there is a field \"x\" already"),
        ("key", numbers(10), "there is a field \"key\" already"),
        ("y", NdArray::scalar(1), "without dimensions"),
    ] {
        let error = arrays(&dir, 10, 3, 4).field(name, array).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(says), "{error}");
        std::fs::remove_dir_all(dir.path().join("x")).unwrap();
    }
}

/// A matrix that counts how often each of its rows is decoded, and fails as often as it is told.
#[derive(Clone)]
struct Counted {
    array: Arc<NdArray<'static>>,
    step: usize,
    read: Arc<AtomicUsize>,
    failures: Arc<AtomicUsize>,
}

impl Counted {
    fn new(n: usize, width: usize, step: usize) -> Counted {
        let array = Arc::new(NdArray::from_ndarray(&matrix(n, width)).into_owned());
        Counted { array, step, read: Arc::default(), failures: Arc::default() }
    }

    fn rows_read(&self) -> usize {
        self.read.swap(0, Ordering::SeqCst)
    }
}

impl Rows for Counted {
    fn dtype(&self) -> &DType {
        self.array.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.array.shape()
    }

    fn step(&self) -> usize {
        self.step
    }

    fn read_rows(&self, rows: Range<usize>) -> Result<NdArray<'static>> {
        let fail = self
            .failures
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if fail.is_ok() {
            return Err(kiste::Error::new(ErrorKind::Io, "the disk is away"));
        }
        self.read.fetch_add(rows.len(), Ordering::SeqCst);
        self.array.read_rows(rows)
    }
}

#[test]
fn an_epoch_in_blocks_decodes_every_row_once() {
    // Rows of 64 bytes, 1024 in a block, of which there are 20.
    let (n, width, block) = (20 * 1024, 16, 1024);
    let array = Counted::new(n, width, block);
    let bytes = |blocks: usize| blocks * block * width * 4;
    let rows = Arc::new(ArrayRows::new().field("x", array.clone()).unwrap().cache(bytes(6)));
    let columns = || Columns::new().array::<f32>("x", &[width]);
    let mut sums = Vec::new();
    for threads in [1, 3] {
        let order = BlockShuffle::new(n as u64, block as u64, 3, 1).unwrap();
        let loader = Loader::options(rows.clone(), order).batch_size(64).epochs(2);
        let loader = loader.threads(threads).columns(columns()).unwrap();
        let mut sum = 0.0;
        for batch in loader {
            let batch = batch.unwrap().data;
            let x = batch.array::<f32>("x").unwrap();
            sum += x.iter().map(|x| f64::from(*x)).sum::<f64>();
        }
        sums.push(sum);
        let read = array.rows_read();
        // What is left of the epoch before may be there still.
        assert!(read > 2 * n - 12 * block && read <= 2 * n, "{read} rows for two times {n}");
    }
    assert_eq!(sums[0], 2.0 * (0..n * width).map(|i| i as f64).sum::<f64>());
    assert_eq!(sums[0], sums[1]);
    // In a full shuffle nearly every row costs a block, as it is said.
    let small = ArrayRows::new().field("x", array.clone()).unwrap().cache(bytes(2));
    for index in Shuffle::new(n as u64, 1).order(0).unwrap().iter().take(100) {
        small.get_raw(index as usize).unwrap();
    }
    assert!(array.rows_read() > 60 * block);
}

#[test]
fn what_fails_once_can_be_asked_for_again() {
    let array = Counted::new(10, 2, 5);
    let rows = ArrayRows::new().field("x", array.clone()).unwrap();
    array.failures.store(2, Ordering::SeqCst);
    for _ in 0..2 {
        let error = rows.get_raw(3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(error.to_string(), "sample 3: field \"x\": the disk is away");
    }
    rows.get_raw(3).unwrap();
    assert_eq!(array.rows_read(), 10);
}

#[test]
fn a_loader_feeds_from_arrays() {
    let dir = tempfile::tempdir().unwrap();
    let rows = Arc::new(arrays(&dir, 100, 3, 8));
    let loader = Loader::options(rows, Sequential::new(100)).batch_size(30).epochs(1);
    let columns = Columns::new().array::<f32>("x", &[3]).scalar::<i64>("n");
    let mut seen = Vec::new();
    for batch in loader.columns(columns).unwrap() {
        let batch = batch.unwrap().data;
        let (x, n) = (batch.array::<f32>("x").unwrap(), batch.array::<i64>("n").unwrap());
        for (i, n) in n.iter().enumerate() {
            assert_eq!(x[[i, 2]], (n * 3 + 2) as f32);
            seen.push(*n);
        }
    }
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Written {
    key: String,
    x: RowRef,
    other: i32,
}

/// A dataset whose samples refer to rows of `vectors`, `a/packed.blp`, and whatever else is given.
fn dataset(dir: &TempDir, references: &[RowRef]) -> DatasetReader {
    let mut writer = Writer::create(dir.path().join("d.msgpack")).unwrap();
    for (i, x) in references.iter().enumerate() {
        writer.write(&Written { key: format!("k{i}"), x: x.clone(), other: i as i32 }).unwrap();
    }
    writer.finish().unwrap();
    let mut store = ArrayOptions::default()
        .create(dir.path().join("vectors"), DType::of::<f32>(), &[0, 2])
        .unwrap();
    store.append(&NdArray::from_ndarray(&matrix(5, 2)), "rows").unwrap();
    let mut staged = store.stage().unwrap();
    staged.set_scalar(.., -1.0_f32).unwrap();
    store.commit(&mut staged, "all the same").unwrap();
    std::fs::create_dir(dir.path().join("a")).unwrap();
    let packed = dir.path().join("a/packed.blp");
    PackOptions::default().write(packed, &NdArray::from_ndarray(&matrix(4, 3))).unwrap();
    DatasetReader::open(dir.path().join("d.msgpack")).unwrap()
}

#[test]
fn references_become_the_rows_that_they_mean() {
    let dir = tempfile::tempdir().unwrap();
    let references = [
        RowRef::new("vectors", 4).at_version(2),
        RowRef::new("vectors", 4),
        RowRef::new("a/packed.blp", 1),
    ];
    let reader = dataset(&dir, &references);
    assert_eq!(reader.get_as::<Written>(2).unwrap().x, references[2]);
    let with = WithArrays::next_to(reader.clone());
    let expected = [vec![8.0_f32, 9.0], vec![-1.0, -1.0], vec![3.0, 4.0, 5.0]];
    for (i, expected) in expected.into_iter().enumerate() {
        let sample = with.get(i).unwrap();
        let Some(Special::Array(x)) = recognise(&sample["x"]) else { panic!("{sample}") };
        assert_eq!(x.to_ndarray::<f32>().unwrap(), Array1::from(expected).into_dyn());
        assert_eq!(sample["other"].as_u64(), Some(i as u64));
    }
    ask_all(&with, &["k0", "k1", "k2"], "with arrays");
    // What refers to nothing is passed through as it is.
    let plain = ListReader::new([Value::Map(vec![("key".into(), "a".into())])]).unwrap();
    let with = WithArrays::new(&plain, ArraySource::new("nowhere"));
    assert!(matches!(with.get_raw(0).unwrap(), std::borrow::Cow::Borrowed(_)));
}

#[test]
fn references_that_lead_nowhere_are_errors_that_say_where() {
    let dir = tempfile::tempdir().unwrap();
    let inside = "expected a path within the dataset's directory";
    let absolute = dir.path().join("vectors").to_str().unwrap().to_owned();
    let cases = [
        (RowRef::new("vectors", 5), ErrorKind::Damaged, "expected a row below 5, found 5"),
        (RowRef::new("vectors", u64::MAX), ErrorKind::Damaged, "expected a row below 5"),
        (RowRef::new("vectors", 0).at_version(9), ErrorKind::NotFound, "no version 9"),
        (RowRef::new("nothing", 0), ErrorKind::NotFound, "expected a chunked array"),
        (RowRef::new("d.msgpack", 0), ErrorKind::Damaged, "d.msgpack"),
        (RowRef::new("a/packed.blp", 0).at_version(1), ErrorKind::Invalid, "which has versions"),
        (RowRef::new("", 0), ErrorKind::Invalid, inside),
        (RowRef::new("../x", 0), ErrorKind::Invalid, inside),
        (RowRef::new("a/../vectors", 0), ErrorKind::Invalid, inside),
        (RowRef::new("./vectors", 0), ErrorKind::Invalid, inside),
        (RowRef::new(absolute, 0), ErrorKind::Invalid, inside),
    ];
    let references: Vec<RowRef> = cases.iter().map(|case| case.0.clone()).collect();
    let reader = dataset(&dir, &references);
    let with = WithArrays::next_to(reader.clone());
    for (i, (reference, kind, says)) in cases.iter().enumerate() {
        let error = with.get_raw(i).unwrap_err();
        assert_eq!(error.kind(), *kind, "{error}");
        assert_eq!(error.index(), Some(i as u64), "{error}");
        let text = error.to_string();
        assert!(text.contains(says), "{says:?} in {text}");
        let array = format!("field \"x\": array {:?}: ", reference.array);
        assert!(text.contains("d.msgpack: sample ") && text.contains(&array), "{text}");
    }
    let anywhere = ArraySource::new(dir.path()).allow_outside(true);
    let with = WithArrays::new(reader, anywhere);
    for index in 8..11 {
        with.get_raw(index).unwrap();
    }
}
