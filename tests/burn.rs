//! Readers as datasets of Burn.

use std::error::Error as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use burn_dataset::Dataset;
use burn_dataset::transform::{Mapper, MapperDataset, PartialDataset};
use kiste::burn::BurnDataset;
use kiste::reader::{ListReader, Location, Reader, ReaderExt};
use kiste::{DatasetReader, Error, ErrorKind};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Digit {
    key: String,
    #[serde(with = "serde_bytes")]
    image: Vec<u8>,
    label: u8,
}

fn digits() -> DatasetReader {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/digits/digits.msgpack");
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
