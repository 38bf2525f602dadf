//! Readers as datasets of Burn, and columns of batches as its tensors.

use std::error::Error as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use burn_dataset::Dataset;
use burn_dataset::transform::{Mapper, MapperDataset, PartialDataset};
use burn_std::{DType, TensorData};
use kiste::loader::{ColumnBatch, Columns, Loader, Padded};
use kiste::reader::{ListReader, Location, Reader, ReaderExt};
use kiste::sampler::Sequential;
use kiste::{DatasetReader, Error, ErrorKind};
use kiste_burn::{BurnDataset, tensor_data};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Digit {
    key: String,
    #[serde(with = "serde_bytes")]
    image: Vec<u8>,
    label: u8,
}

fn digits() -> DatasetReader {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets/digits/digits.msgpack");
    DatasetReader::open(path).unwrap()
}

#[test]
fn items_are_those_of_the_reader() {
    let dataset: BurnDataset<_, Digit> = BurnDataset::new(digits());
    assert_eq!((dataset.len(), dataset.is_empty()), (5000, false));
    let expected = |index: usize| dataset.inner().get_as::<Digit>(index).unwrap();
    for index in [0, 1234, 4999] {
        assert_eq!(dataset.get(index).unwrap(), expected(index));
    }
    let order = vec![4999, 0, 17, 0];
    let many = dataset.get_many(order.clone()).unwrap();
    assert!(many.into_iter().eq(order.into_iter().map(expected)));
    let labels = dataset.iter().map(|digit| u32::from(digit.unwrap().label));
    assert_eq!(labels.sum::<u32>(), 500 * 45);
}

/// Transforms of Burn, over a part of a shared reader that it does not know the type of.
#[test]
fn burns_transforms_apply() {
    struct Label;
    impl Mapper<Digit, u8> for Label {
        fn map(&self, digit: &Digit) -> u8 {
            digit.label
        }
    }
    let reader: Arc<dyn Reader> = Arc::new(digits().range(1000..));
    let dataset = BurnDataset::<_, Digit>::new(reader);
    let labels = MapperDataset::new(PartialDataset::new(dataset.clone(), 499, 501), Label);
    let labels: Vec<u8> = labels.iter().map(Result::unwrap).collect();
    assert_eq!(labels, [2, 3]);
    assert_eq!(format!("{dataset:?}"), "BurnDataset(4000 samples)");
}

#[test]
fn an_error_says_where_and_is_the_source() {
    let sample = |key: &str| std::collections::BTreeMap::from([("key", key.to_string())]);
    let reader = ListReader::pack(["a", "b"].map(sample)).unwrap();
    let expected = reader.get_as::<Digit>(1).unwrap_err().to_string();
    let dataset: BurnDataset<_, Digit> = BurnDataset::new(reader);
    for error in [dataset.get(1).unwrap_err(), dataset.get_many(vec![1, 0]).unwrap_err()] {
        assert_eq!(error.to_string(), expected);
        assert!(expected.contains("sample 1"), "{expected}");
        let source = error.source().and_then(|source| source.downcast_ref::<Error>());
        assert_eq!(source.map(Error::kind), Some(ErrorKind::Invalid));
    }
}

#[test]
#[should_panic(expected = "index 5000 of a dataset of 5000")]
fn an_index_beyond_the_end_panics() {
    let dataset: BurnDataset<_, Digit> = BurnDataset::new(digits());
    let _ = dataset.get_many(vec![0, 5000]);
}

/// Remembers what it was told to prefetch.
struct Told(DatasetReader, Mutex<Vec<usize>>);

impl Reader for Told {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn key(&self, index: usize) -> kiste::Result<std::borrow::Cow<'_, str>> {
        Reader::key(&self.0, index)
    }

    fn find(&self, key: &str) -> kiste::Result<Option<usize>> {
        self.0.find(key)
    }

    fn get_raw(&self, index: usize) -> kiste::Result<std::borrow::Cow<'_, [u8]>> {
        Reader::get_raw(&self.0, index)
    }

    fn locate(&self, index: usize) -> Location {
        self.0.locate(index)
    }

    fn prefetch(&self, indices: &[usize]) {
        self.1.lock().unwrap().extend(indices);
    }
}

#[test]
fn the_storage_is_told_what_comes_if_asked_for() {
    let told = || BurnDataset::<_, Digit>::new(Told(digits(), Mutex::default()));
    for (prefetch, expected) in [(false, vec![]), (true, vec![3, 1])] {
        let dataset = told().prefetch(prefetch);
        assert_eq!(dataset.get_many(vec![3, 1]).unwrap().len(), 2);
        assert_eq!(*dataset.inner().1.lock().unwrap(), expected);
    }
}

fn batch(columns: Columns) -> ColumnBatch {
    let options = Loader::options(Arc::new(digits()), Sequential::new(5000)).batch_size(7);
    options.threads(0).columns(columns).unwrap().next().unwrap().unwrap().data
}

fn is_like<T: kiste::loader::Element + burn_std::Element>(
    batch: &ColumnBatch,
    name: &str,
) -> TensorData {
    let (data, array) = (tensor_data(batch, name).unwrap(), batch.array::<T>(name).unwrap());
    assert_eq!(&data.shape()[..], array.shape());
    assert_eq!(data.as_slice::<T>().unwrap(), batch.values::<T>(name).unwrap());
    data
}

#[test]
fn columns_of_numbers_are_tensors_of_their_type() {
    let columns = Columns::new()
        .scalar::<i64>("label")
        .row::<u8>("twice", &[2], |record, row| {
            row.fill(record.index() as u8);
            Ok(())
        })
        .row::<f64>("half", &[3, 1], |record, row| {
            row.fill(record.index() as f64 / 2.0);
            Ok(())
        })
        .bytes("image");
    let batch = batch(columns);
    assert_eq!(is_like::<i64>(&batch, "label").dtype(), DType::I64);
    assert_eq!(&is_like::<u8>(&batch, "twice").shape()[..], [7, 2]);
    assert_eq!(&is_like::<f64>(&batch, "half").shape()[..], [7, 3, 1]);
    for name in ["image", "absent"] {
        let error = tensor_data(&batch, name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn padded_rows_are_tensors() {
    let samples = [("a", vec![1u32, 2]), ("b", vec![3])];
    let samples = samples.map(|(key, tokens)| Tokens { key, tokens });
    let reader = Arc::new(ListReader::pack(samples).unwrap());
    let columns = Columns::new().padded::<i32>("tokens", &[], Padded::longest().fill(-1));
    let mut loader = Loader::options(reader, Sequential::new(2)).columns(columns).unwrap();
    let data = is_like::<i32>(&loader.next().unwrap().unwrap().data, "tokens");
    assert_eq!(data, TensorData::new(vec![1, 2, 3, -1], [2, 2]));
}

#[derive(Serialize)]
struct Tokens {
    key: &'static str,
    tokens: Vec<u32>,
}

/// As a network takes them: samples, channels, rows and columns.
#[test]
fn images_are_tensors_of_four_dimensions() {
    let pipeline = |to: &str| format!("decode(gray) | center_crop(24) | {to}").parse().unwrap();
    let columns = Columns::new()
        .image::<f32>("image", pipeline("to(f32, chw) | normalize(0.1, 0.3)"))
        .image_as::<u16>("brain", "image", pipeline("to(bf16, chw) | normalize(0.1, 0.3)"))
        .image_as::<half::f16>("half", "image", pipeline("to(f16, chw)"))
        .image_as::<u8>("plain", "image", pipeline("to(u8, hwc)"));
    let batch = batch(columns);
    let images = is_like::<f32>(&batch, "image");
    assert_eq!((&images.shape()[..], images.dtype()), (&[7, 1, 24, 24][..], DType::F32));
    assert_eq!(is_like::<half::f16>(&batch, "half").dtype(), DType::F16);
    assert_eq!(&is_like::<u8>(&batch, "plain").shape()[..], [7, 24, 24, 1]);
    // The bits of bfloat16 are numbers of it.
    let brain = tensor_data(&batch, "brain").unwrap();
    assert_eq!((&brain.shape()[..], brain.dtype()), (&[7, 1, 24, 24][..], DType::BF16));
    let rounded =
        images.as_slice::<f32>().unwrap().iter().map(|&value| half::bf16::from_f32(value));
    assert!(brain.as_slice::<half::bf16>().unwrap().iter().copied().eq(rounded));
}
