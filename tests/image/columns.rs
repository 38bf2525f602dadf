//! Columns of images: the same pixels for any number of threads, and what happens to bad images.

use std::sync::Arc;

use kiste::ErrorKind;
use kiste::image::{Pipeline, Worker};
use kiste::loader::{ColumnMemory, Columns, Loader, Memory, OnError};
use kiste::reader::{ListReader, Reader};
use kiste::sampler::{Sequential, Shuffle, State};

use super::png;

#[derive(serde::Serialize)]
struct Sample {
    key: String,
    image: serde_bytes::ByteBuf,
}

fn reader(images: impl IntoIterator<Item = Vec<u8>>) -> Arc<ListReader> {
    let sample =
        |(at, image)| Sample { key: format!("k{at}"), image: serde_bytes::ByteBuf::from(image) };
    Arc::new(ListReader::pack(images.into_iter().enumerate().map(sample)).unwrap())
}

fn pipeline(text: &str) -> Pipeline {
    text.parse().unwrap()
}

const RECIPE: &str = "seed(3) | random_resized_crop(16) | hflip | color_jitter(0.4, 0.4, 0.4, 0.1) \
                      | to(f32, chw) | normalize(imagenet)";

/// By any number of threads and ranks, resumed or not, each position has the same pixels.
#[test]
fn the_same_for_all_threads_and_ranks() {
    let reader = reader((0..23).map(|n| png(20 + n, 40 - n)));
    let rows = |threads: usize, world: u64, size: u64, start: State| {
        let mut rows = std::collections::BTreeMap::new();
        for rank in 0..world {
            let options = Loader::options(reader.clone(), Shuffle::new(23, 5))
                .threads(threads)
                .rank(rank, world)
                .batch_size(size)
                .resume(start)
                .epochs(2);
            let columns = Columns::new().image::<f32>("image", pipeline(RECIPE));
            for batch in options.columns(columns).unwrap() {
                let batch = batch.unwrap();
                let values = batch.data.values::<f32>("image").unwrap().chunks_exact(3 * 16 * 16);
                let real = batch.positions.clone().zip(values);
                for (position, values) in real {
                    let bits: Vec<u32> = values.iter().map(|value| value.to_bits()).collect();
                    rows.insert((batch.epoch, position), bits);
                }
            }
        }
        rows
    };
    let all = rows(0, 1, 4, State::default());
    assert_eq!(all.len(), 46);
    assert_eq!(rows(3, 1, 5, State::default()), all);
    assert_eq!(rows(1, 3, 2, State::default()), all);
    let mut rest = all.clone();
    rest.retain(|place, _| *place >= (1, 0));
    let resumed = rows(2, 1, 8, State::new(1, 0));
    assert!(rest.iter().all(|(place, row)| resumed[place] == *row));
    // Another epoch draws other numbers.
    assert_ne!(all[&(0, 0)], all[&(1, 0)]);
}

/// The numbers of a column are those of the record, so a sample can be made again without a loader.
#[test]
fn a_row_is_what_a_worker_makes() {
    let images: Vec<Vec<u8>> = (0..5).map(|n| png(20 + n, 30)).collect();
    let reader = reader(images.clone());
    let columns = Columns::new()
        .image::<u8>("image", pipeline("seed(9) | random_crop(8)"))
        .image_as::<half::f16>(
        "other",
        "image",
        pipeline("seed(9) | random_crop(8) | to(f16)"),
    );
    let options = Loader::options(reader, Sequential::new(5)).batch_size(5).epochs(1);
    let batch = options.columns(columns).unwrap().next().unwrap().unwrap();
    let found = batch.data.values::<u8>("image").unwrap();
    let other = batch.data.values::<half::f16>("other").unwrap();
    let mut worker = Worker::<u8>::new(pipeline("random_crop(8)")).unwrap();
    let mut pixels = Vec::new();
    for (at, image) in images.iter().enumerate() {
        let mut rng = kiste::sampler::rng::StableRng::new(&[0x7265_636f_7264, 9, 0, at as u64]);
        worker.run(image, &mut rng, &mut pixels).unwrap();
        let row = at * 192..(at + 1) * 192;
        assert_eq!(found[row.clone()], pixels[..]);
        let scaled = |value: &u8| half::f16::from_f32(f32::from(*value) * (1.0f64 / 255.0) as f32);
        assert_eq!(other[row], pixels.iter().map(scaled).collect::<Vec<_>>()[..]);
    }
}

#[test]
fn bad_images_follow_the_policy() {
    let mut cut = png(20, 20);
    cut.truncate(cut.len() / 2);
    let reader = reader([png(20, 20), cut, Vec::new(), png(5, 5), png(21, 21)]);
    let columns = || Columns::new().image::<u8>("image", pipeline("random_crop(8)"));
    let options = |policy| {
        let options = Loader::options(reader.clone(), Sequential::new(5)).batch_size(5).epochs(1);
        options.on_error(policy).columns(columns()).unwrap().next().unwrap()
    };
    let error = options(OnError::Raise).unwrap_err().to_string();
    assert!(error.contains("field \"image\"") && error.contains("k1"), "{error}");

    let batch = options(OnError::Skip).unwrap();
    assert_eq!((batch.indices.clone(), batch.data.len()), (vec![0, 4], 2));
    let kinds: Vec<ErrorKind> = batch.failures.iter().map(|failure| failure.error.kind()).collect();
    assert_eq!(kinds, [ErrorKind::Damaged, ErrorKind::Invalid, ErrorKind::Invalid]);
    assert!(batch.failures.iter().all(|failure| failure.error.field() == Some("image")));
    let good = batch.data.values::<u8>("image").unwrap().to_vec();

    let batch = options(OnError::Placeholder).unwrap();
    let values = batch.data.values::<u8>("image").unwrap();
    assert_eq!(batch.data.len(), 5);
    assert_eq!((&values[..192], &values[4 * 192..]), (&good[..192], &good[192..]));
    assert!(values[192..4 * 192].iter().all(|value| *value == 0));
    assert!(reader.find("k4").unwrap().is_some());
}

#[test]
fn what_is_refused_at_the_start() {
    let reader = reader([png(9, 9)]);
    let start = |columns: Columns| {
        let options = Loader::options(reader.clone(), Sequential::new(1));
        options.columns(columns).map(|_| ()).unwrap_err().to_string()
    };
    assert_eq!(
        start(Columns::new().image::<u8>("image", pipeline("resize(8)"))),
        "column \"image\": expected a pipeline with a step that gives all images one size, such as \
         center_crop(224), found \"resize(8)\""
    );
    assert_eq!(
        start(Columns::new().image::<f32>("image", pipeline("center_crop(8)"))),
        "column \"image\": expected a pipeline that ends with to(f32), for float32, found one that \
         makes u8"
    );
    let large = pipeline("decode(max_pixels=1000) | center_crop(32)");
    assert_eq!(
        start(Columns::new().image::<u8>("image", large)),
        "column \"image\": expected images of at most 1000 pixels, found 1024"
    );
    let missing = Columns::new().image_as::<u8>("a", "picture", pipeline("center_crop(8)"));
    let options = Loader::options(reader.clone(), Sequential::new(1));
    let error = options.columns(missing).unwrap().next().unwrap().unwrap_err();
    assert!(error.to_string().contains("there is no field \"picture\""), "{error}");
}

#[test]
fn in_memory_of_the_caller() {
    let reader = reader((0..4).map(|n| png(20 + n, 20)));
    let columns = || Columns::new().image::<u8>("image", pipeline("random_crop(8) | hflip"));
    let options = || Loader::options(reader.clone(), Shuffle::new(4, 1)).batch_size(2).epochs(1);
    let sets =
        (0..3).map(|_| vec![("image".to_owned(), Box::new(vec![7u8; 2 * 192]) as Box<dyn Memory>)]);
    let memory = ColumnMemory::new(columns(), 2, sets.collect()).unwrap();
    let given = options().columns_in(&memory).unwrap();
    let own = options().columns(columns()).unwrap();
    let mut batches = 0;
    for (given, own) in given.zip(own) {
        let (given, own) = (given.unwrap(), own.unwrap());
        assert_eq!(
            given.data.values::<u8>("image").unwrap(),
            own.data.values::<u8>("image").unwrap()
        );
        batches += 1;
    }
    assert_eq!(batches, 2);
}
