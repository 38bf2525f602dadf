//! The data sets of the catalogue with maps of classes, on miniatures of their archives.

use std::fs;
use std::path::{Path, PathBuf};

use kiste::convert::Silent;
use kiste::datasets::{self, Options, median_frequency_weights};
use kiste::format::msgpack::{self, numpy};
use kiste::{DatasetReader, ErrorKind, Result, Value};
use md5::{Digest, Md5};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tiff::encoder::colortype::{ColorType, Gray8, Gray32Float, RGB8};
use tiff::encoder::{TiffEncoder, TiffValue};

use crate::support::hex;

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/datadings-3.4.7-catalogue")
}

fn expected() -> Json {
    serde_json::from_slice(&fs::read(dir().join("expected.json")).unwrap()).unwrap()
}

/// Makes datasets of the files in a folder, and gives the samples of each by the name of its file.
fn written(name: &str, dir: &Path, options: &Options) -> Result<Vec<(String, Vec<Vec<u8>>)>> {
    let out = TempDir::new().unwrap();
    let mut found = Vec::new();
    for pass in datasets::find(name)?.open(dir, &[], options)? {
        for split in &pass.splits {
            let path = out.path().join(format!("{}.msgpack", split.file));
            pass.conversion(split.name, &path)?.run(&mut Silent)?;
            let reader = DatasetReader::open(path)?;
            let samples = (0..reader.len()).map(|at| Ok(reader.get_raw(at)?.into_owned()));
            found.push((split.file.to_owned(), samples.collect::<Result<_>>()?));
        }
    }
    Ok(found)
}

/// Runs it on this many threads.
fn on_threads<T: Send>(threads: usize, run: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(run)
}

fn md5(bytes: &[u8]) -> String {
    hex(&Md5::digest(bytes))
}

/// What expected.json says of a value.
fn note(value: &Value, is_map: bool) -> Json {
    match value {
        Value::Array(values) if is_map => values.iter().map(|value| note(value, true)).collect(),
        Value::Binary(png) if is_map => {
            let image = image::load_from_memory(png).unwrap();
            let (width, height) = (image.width(), image.height());
            let (bits, pixels) = match image {
                image::DynamicImage::ImageLuma8(image) => (8, image.into_raw()),
                image::DynamicImage::ImageLuma16(image) => {
                    (16, image.iter().flat_map(|value| value.to_be_bytes()).collect())
                }
                other => panic!("a map of {:?}", other.color()),
            };
            json!(format!("{width}x{height}x{bits} {}", md5(&pixels)))
        }
        value => json!(md5(&msgpack::to_vec(value).unwrap())),
    }
}

/// The fields of a sample as expected.json has them.
fn fields(packed: &[u8], maps: &[&str]) -> Json {
    let sample = msgpack::decode(packed).unwrap();
    let field = |(name, value): &(Value, Value)| match name.as_str().unwrap() {
        "key" => json!(["key", value.as_str().unwrap()]),
        name => json!([name, note(value, maps.contains(&name))]),
    };
    sample.as_map().unwrap().iter().map(field).collect()
}

fn key(packed: &[u8]) -> String {
    msgpack::decode(packed).unwrap()["key"].as_str().unwrap().to_owned()
}

#[test]
fn samples_are_those_of_python() {
    let expected = expected();
    for (name, maps) in [
        ("ADE20k", &["label_image", "parts_images"][..]),
        ("CAMVID", &[]),
        ("Cityscapes", &[]),
        ("Places2017", &[]),
        ("RIT18", &[]),
        ("VOC2012", &["label_image"]),
    ] {
        let found = written(name, &dir().join(name.to_lowercase()), &Options::default()).unwrap();
        let mut table = serde_json::Map::new();
        for (split, samples) in found {
            table.insert(split, samples.iter().map(|sample| fields(sample, maps)).collect());
        }
        for (split, samples) in expected[name].as_object().unwrap() {
            assert_eq!(&table[split], samples, "{name} {split}");
        }
        assert_eq!(table.len(), expected[name].as_object().unwrap().len(), "{name}");
    }
    assert_eq!(expected.as_object().unwrap().len(), 6);
}

#[test]
fn samples_have_the_fields_that_are_described() {
    for name in expected().as_object().unwrap().keys() {
        let dataset = datasets::find(name).unwrap();
        let described: Vec<&str> = dataset.fields.iter().map(|(name, _)| *name).collect();
        for (_, samples) in
            written(name, &dir().join(name.to_lowercase()), &Options::default()).unwrap()
        {
            let sample = msgpack::decode(&samples[0]).unwrap();
            let found = sample.as_map().unwrap().iter().map(|(name, _)| name.as_str().unwrap());
            assert_eq!(found.collect::<Vec<_>>(), described, "{name}");
        }
    }
}

#[test]
fn neither_threads_nor_order_make_other_samples() {
    let camvid = dir().join("ade20k");
    let with = |threads, shuffle| {
        let options = Options { shuffle, ..Options::default() };
        on_threads(threads, || written("ADE20k", &camvid, &options).unwrap())
    };
    let one = with(1, None);
    assert_eq!(with(5, None), one);
    let mut shuffled = with(3, Some(7));
    assert_ne!(shuffled, one);
    for ((_, samples), (_, expected)) in shuffled.iter_mut().zip(&one) {
        samples.sort_by_key(|sample| key(sample));
        let mut expected = expected.clone();
        expected.sort_by_key(|sample| key(sample));
        assert_eq!(samples, &expected);
    }
}

#[test]
fn weights_are_those_of_python() {
    let camvid = datasets::find("camvid").unwrap().classes[0].weights();
    let known = [(0, 0.250360229705), (3, 0.13321492184), (10, 14.4595522445), (11, 1.06810916156)];
    for (class, weight) in known {
        assert!((camvid[class].1 - weight).abs() < 1e-9 && usize::from(camvid[class].0) == class);
    }
    // More of the tables than an eye would check.
    let places = &datasets::find("places2017").unwrap().classes[1];
    let counts: Vec<f64> = (places.counts)().into_iter().map(|(_, count)| count).collect();
    let weights: Vec<f64> = places.weights().into_iter().map(|(_, weight)| weight).collect();
    assert_eq!(median_frequency_weights(&counts), weights);
    assert_eq!(weights.iter().filter(|&&weight| weight < 1.0).count(), 75);
}

/// What is counted of a data set: by split how many maps, and class, count and weight.
type Counted = Vec<(&'static str, u64, Vec<(u16, f64, f64)>)>;

fn counted(name: &str, dir: &Path, splits: &[&str], options: &Options) -> Result<Counted> {
    let dataset = datasets::find(name)?;
    let opening = dataset.opening(dir, splits, options)?;
    let mut found = Vec::new();
    for pass in dataset.open(dir, splits, options)? {
        for (split, counts) in pass.splits.clone().iter().zip(pass.count(&opening, |_| {})?) {
            let weights = counts.weights();
            let row =
                |((class, count), (_, weight)): ((u16, f64), &(u16, f64))| (class, count, *weight);
            let rows = counts.counts().into_iter().zip(&weights).map(row).collect();
            found.push((split.name, counts.maps(), rows));
        }
    }
    Ok(found)
}

#[test]
fn classes_are_counted_as_by_python() {
    let expected: Json =
        serde_json::from_slice(&fs::read(dir().join("counts.json")).unwrap()).unwrap();
    for (name, splits) in expected.as_object().unwrap() {
        let splits = splits.as_object().unwrap();
        let names: Vec<&str> = splits.keys().map(String::as_str).collect();
        let with = |threads| {
            let dir = dir().join(name.to_lowercase());
            on_threads(threads, || counted(name, &dir, &names, &Options::default()).unwrap())
        };
        let found = with(1);
        assert_eq!((found.len(), with(3)), (splits.len(), found.clone()), "{name}");
        for (split, _, rows) in found {
            let expected: Vec<(u16, f64, f64)> =
                serde_json::from_value(splits[split].clone()).unwrap();
            assert_eq!(rows.len(), expected.len(), "{name} {split}");
            for (row, expected) in rows.iter().zip(&expected) {
                // Sums in another order.
                let close = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-12;
                let alike =
                    row.0 == expected.0 && close(row.1, expected.1) && close(row.2, expected.2);
                assert!(alike, "{name} {split}: {row:?}, Python has {expected:?}");
            }
        }
    }
    assert_eq!(expected.as_object().unwrap().len(), 4);
}

#[test]
fn maps_of_all_kinds_count_one_each() {
    // Python's writers of these do not count. What is not wanted is not counted either.
    for (name, split, maps) in
        [("RIT18", "val", 4), ("Cityscapes", "train", 5), ("ADE20k", "validation", 3)]
    {
        let found = counted(name, &dir().join(name.to_lowercase()), &[split], &Options::default());
        let found = found.unwrap();
        assert_eq!((found.len(), found[0].0, found[0].1), (1, split, maps), "{name}");
        let sum: f64 = found[0].2.iter().map(|(_, count, _)| count).sum();
        assert!((sum - maps as f64).abs() < 1e-9, "{name}: {sum}");
    }
}

/// Copies a miniature, for what is to be changed in it.
fn copy(name: &str) -> TempDir {
    let copy = TempDir::new().unwrap();
    for file in fs::read_dir(dir().join(name)).unwrap() {
        let path = file.unwrap().path();
        fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

/// Replaces the only place of some bytes in a file.
fn patch(path: &Path, from: &[u8], to: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    let found: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(from)).collect();
    assert_eq!((found.len(), from.len()), (1, to.len()), "{}", path.display());
    bytes[found[0]..][..to.len()].copy_from_slice(to);
    fs::write(path, bytes).unwrap();
}

#[track_caller]
fn fails(name: &str, dir: &Path, kind: ErrorKind, says: &str) {
    let error = written(name, dir, &Options::default()).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn what_is_wrong_in_an_archive_is_named() {
    let voc = copy("voc2012");
    let tar = voc.path().join("VOCtrainval_11-May-2012.tar");
    patch(&tar, b"2007_000032\n", b"2007_000099\n");
    fails("VOC2012", voc.path(), ErrorKind::Damaged, "JPEGImages/2007_000099.jpg");

    let places = copy("places2017");
    let photos = fs::read(places.path().join("images.tar")).unwrap();
    let maps = places.path().join("sceneparsing.tar");
    fs::write(&maps, &photos).unwrap();
    fails("Places2017", places.path(), ErrorKind::Damaged, "annotations_sceneparsing/training");
    fs::write(&maps, &photos[..photos.len() / 2]).unwrap();
    fails("Places2017", places.path(), ErrorKind::Damaged, "sceneparsing.tar");

    let rit = copy("rit18");
    let mat = rit.path().join("rit18_data.mat");
    let bytes = fs::read(&mat).unwrap();
    fs::write(&mat, &bytes[..bytes.len() / 2]).unwrap();
    fails("RIT18", rit.path(), ErrorKind::Damaged, "rit18_data.mat");
    fs::remove_file(&mat).unwrap();
    fails("RIT18", rit.path(), ErrorKind::NotFound, "rit18_data.mat");
}

/// Writes a TIFF file, in which the numbers of a pixel are together.
fn tif<C: ColorType>(path: &Path, width: u32, height: u32, values: &[C::Inner])
where
    [C::Inner]: TiffValue,
{
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut encoder = TiffEncoder::new(fs::File::create(path).unwrap()).unwrap();
    encoder.write_image::<C>(width, height, values).unwrap();
}

/// Pixels of a smooth picture.
fn picture(width: u32, height: u32, seed: u32) -> Vec<u8> {
    let pixel = |at: u32| {
        let (x, y) = (at % width, at / width);
        [x / 3 + seed, y / 3, (x + y) / 5].map(|value| (value % 256) as u8)
    };
    (0..width * height).flat_map(pixel).collect()
}

/// InriaBuildings in miniature, in the layout of the unpacked archives: GeoTIFFs of three bands, and
/// of one band of 0 and 255. The real ones have 5000 pixels a side, these mostly a few.
fn inria(dir: &Path) {
    let root = dir.join("AerialImageDataset");
    let cities = [
        ("train", ["vienna", "kitsap", "tyrol-w", "chicago", "austin"]),
        ("test", ["bellingham", "bloomington", "innsbruck", "sfo", "tyrol-e"]),
    ];
    for (split, cities) in cities {
        for (city, number) in cities.iter().flat_map(|city| (1..37).map(move |n| (city, n))) {
            let name = format!("{city}{number}.tif");
            let (width, height) = match &*name {
                "kitsap2.tif" | "sfo36.tif" => (780, 390),
                _ => (5, 4),
            };
            let pixels = picture(width, height, number);
            tif::<RGB8>(&root.join(split).join("images").join(&name), width, height, &pixels);
            if split == "train" {
                let map: Vec<u8> =
                    (0..width * height).map(|at| if at % 3 == 0 { 255 } else { 0 }).collect();
                tif::<Gray8>(&root.join("train/gt").join(&name), width, height, &map);
            }
        }
    }
}

#[test]
fn buildings_from_the_air() {
    let dir = TempDir::new().unwrap();
    inria(dir.path());
    let found = written("inria-buildings", dir.path(), &Options::default()).unwrap();
    let keys = |at: usize| found[at].1.iter().map(|sample| key(sample)).collect::<Vec<_>>();
    assert_eq!(found.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["train", "val", "test"]);
    let train = keys(0);
    assert_eq!((train.len(), &*train[0], &*train[154]), (155, "vienna6.tif", "austin36.tif"));
    // The third tile of each row is too small, and so are those of the second row.
    assert_eq!(keys(1), ["kitsap2.tif_0", "kitsap2.tif_1"]);
    assert_eq!(keys(2), ["sfo36.tif_0", "sfo36.tif_1"]);

    let sample = msgpack::decode(&found[1].1[1]).unwrap();
    let image = image::load_from_memory(sample["image"].as_slice().unwrap()).unwrap().into_rgb8();
    let original = picture(780, 390, 2);
    let apart: u64 = image
        .enumerate_pixels()
        .map(|(x, y, pixel)| {
            let at = (y as usize * 780 + x as usize + 384) * 3;
            let apart = pixel.0.iter().zip(&original[at..]).map(|(a, b)| u64::from(a.abs_diff(*b)));
            apart.sum::<u64>()
        })
        .sum();
    assert!(image.dimensions() == (384, 384) && apart < 3 * 384 * 384, "{apart}");
    let map = image::load_from_memory(sample["label_image"].as_slice().unwrap()).unwrap();
    let map = map.as_luma8().unwrap().enumerate_pixels();
    assert!(
        map.into_iter()
            .all(|(x, y, class)| { class.0[0] == u8::from((y * 780 + x + 384) % 3 == 0) })
    );
    let sample = msgpack::decode(&found[2].1[0]).unwrap();
    assert_eq!(sample.as_map().unwrap().len(), 2);

    tif::<Gray8>(&dir.path().join("AerialImageDataset/train/gt/vienna6.tif"), 2, 2, &[0; 4]);
    let says = "vienna6.tif: expected a map of 4 x 5 pixels, found 2 x 2";
    fails("InriaBuildings", dir.path(), ErrorKind::Damaged, says);
}

/// Vaihingen in miniature, in the layout of the unpacked archive: pictures of three bands, maps of
/// colours, and heights as floats. One is larger than a tile.
fn vaihingen(dir: &Path) {
    let root = dir.join("ISPRS_semantic_labeling_Vaihingen");
    for area in [1, 3, 5, 7, 13, 17, 21, 23, 26, 32, 37, 11, 15, 28, 30, 34] {
        let (width, height) = if area == 28 { (386, 3) } else { (8, 2) };
        let name = format!("top_mosaic_09cm_area{area}.tif");
        tif::<RGB8>(&root.join("top").join(&name), width, height, &picture(width, height, area));
        let colours = [
            [255, 255, 255],
            [0, 0, 255],
            [0, 255, 255],
            [0, 255, 0],
            [255, 255, 0],
            [255, 0, 0],
            [0, 0, 0],
            [1, 2, 3],
        ];
        let map: Vec<u8> = (0..width * height).flat_map(|at| colours[at as usize % 8]).collect();
        tif::<RGB8>(&root.join("gts_for_participants").join(&name), width, height, &map);
        let heights: Vec<f32> = (0..width * height).map(|at| at as f32 * 0.75 - 5.5).collect();
        // As the authors call it, and as Python does.
        let name = match area % 2 {
            0 => format!("dsm_09cm_matching_area{area}.tif"),
            _ => format!("dsm_mosaic_09cm_area{area}.tif"),
        };
        tif::<Gray32Float>(&root.join("dsm").join(name), width, height, &heights);
    }
}

#[test]
fn a_village_with_heights() {
    let dir = TempDir::new().unwrap();
    vaihingen(dir.path());
    let found = written("vaihingen", dir.path(), &Options::default()).unwrap();
    let (train, val) = (&found[0], &found[1]);
    assert_eq!((&*train.0, train.1.len(), &*val.0), ("Vaihingen_train", 11, "Vaihingen_val"));
    let keys: Vec<String> = val.1.iter().map(|sample| key(sample)).collect();
    let name = |area: &str| format!("top_mosaic_09cm_area{area}");
    let expected = ["11.tif_0", "15.tif_0", "28.tif_0", "28.tif_1", "30.tif_0", "34.tif_0"];
    assert_eq!(keys, expected.map(name));

    let array = |sample: &Value, field: &str| match numpy::recognise(&sample[field]) {
        Some(numpy::Special::Array(array)) => array.into_owned(),
        other => panic!("{other:?}"),
    };
    let sample = msgpack::decode(&train.1[0]).unwrap();
    let image = array(&sample, "image");
    assert_eq!(image.shape(), [3, 2, 8]);
    let pixels = picture(8, 2, 1);
    let planes: Vec<u8> = (0..48).map(|at| pixels[at % 16 * 3 + at / 16]).collect();
    assert_eq!(image.bytes(), planes);
    let labels = array(&sample, "label_image").to_ndarray::<i64>().unwrap();
    assert_eq!(labels.shape(), [2, 8]);
    assert_eq!(labels.iter().copied().take(8).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 0]);
    let heights = array(&sample, "mask").to_ndarray::<i32>().unwrap();
    assert_eq!(
        heights.iter().copied().take(8).collect::<Vec<_>>(),
        [-5, -4, -4, -3, -2, -1, -1, 0]
    );

    // The rest of a row that is longer than a tile.
    let sample = msgpack::decode(&val.1[3]).unwrap();
    assert_eq!(array(&sample, "image").shape(), [3, 3, 2]);
    let heights = array(&sample, "mask").to_ndarray::<i32>().unwrap();
    let expected = [384, 385, 770, 771, 1156, 1157].map(|at| (at as f32 * 0.75 - 5.5) as i32);
    assert_eq!(heights.into_iter().collect::<Vec<_>>(), expected);

    let root = dir.path().join("ISPRS_semantic_labeling_Vaihingen");
    fs::remove_file(root.join("dsm/dsm_09cm_matching_area26.tif")).unwrap();
    fails("Vaihingen", dir.path(), ErrorKind::NotFound, "dsm_09cm_matching_area26.tif");
}
