//! `write` and `datasets`, on miniature archives of the documented layouts.

use std::io::Read;

use image::codecs::jpeg::JpegEncoder;
use image::{ImageFormat, RgbImage};
use kiste::datasets::{ALL, find};
use kiste::format::__private::tar::{BLOCK, file_header, padding};
use kiste::{DatasetReader, Value};

use super::*;

/// A tar archive of these files.
pub(super) fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, content) in files {
        bytes.extend(file_header(name, content.len() as u64).unwrap());
        bytes.extend(*content);
        bytes.resize(bytes.len() + padding(content.len() as u64), 0);
    }
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    bytes
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// A picture that is another one for each seed.
fn picture(seed: u8, width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| image::Rgb([x as u8, y as u8, seed]))
}

fn encode_jpeg(picture: &RgbImage) -> Vec<u8> {
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, 90).encode_image(picture).unwrap();
    bytes
}

pub(super) fn jpeg(seed: u8) -> Vec<u8> {
    encode_jpeg(&picture(seed, 24, 16))
}

fn decode_rgb(bytes: &[u8]) -> RgbImage {
    image::load_from_memory(bytes).unwrap().into_rgb8()
}

/// A pickle that NumPy wrote: see `tests/data/cifar-numpy-2.4.6`.
fn pickle(name: &str) -> Vec<u8> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cifar-numpy-2.4.6").join(name);
    let mut bytes = Vec::new();
    let mut file = flate2::read::GzDecoder::new(fs::File::open(path).unwrap());
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

/// A directory with this file.
pub(super) fn with(name: &str, bytes: &[u8]) -> TempDir {
    let dir = scratch();
    fs::write(dir.path().join(name), bytes).unwrap();
    dir
}

fn samples(dir: &TempDir, name: &str) -> Vec<Value> {
    let reader = DatasetReader::open(dir.path().join(name)).unwrap();
    (0..reader.len()).map(|index| reader.get(index).unwrap()).collect()
}

/// Names and values of all fields but the image.
fn others(sample: &Value) -> Vec<(&str, String)> {
    let fields = sample.as_map().unwrap().iter();
    let fields = fields.map(|(name, value)| (name.as_str().unwrap(), value.to_string()));
    fields.filter(|(name, _)| *name != "image").collect()
}

fn image(sample: &Value) -> &[u8] {
    sample["image"].as_slice().unwrap()
}

/// CIFAR-10 as its page documents it: pickles in a tar compressed with gzip.
fn cifar10() -> Vec<u8> {
    let ten = pickle("ten_protocol2.gz");
    gzip(&tar(&[("cifar-10-batches-py/test_batch", &ten), ("cifar-10-batches-py/readme", b"")]))
}

/// ILSVRC 2012 as the archives are: tar of tar, and tar. The photos in it are of all kinds.
pub(super) fn with_imagenet() -> TempDir {
    let mut png = std::io::Cursor::new(Vec::new());
    picture(7, 24, 16).write_to(&mut png, ImageFormat::Png).unwrap();
    let png = png.into_inner();
    let large = encode_jpeg(&picture(3, 1200, 900));
    let one = tar(&[("n01440764_1.JPEG", &jpeg(1)), ("n01440764_0.JPEG", &png)]);
    let two = tar(&[("n15075141_5.JPEG", &large), ("n15075141_6.JPEG", b"no photo")]);
    let train = tar(&[("n15075141.tar", &two), ("n01440764.tar", &one)]);
    let dir = with("ILSVRC2012_img_train.tar", &train);
    let names = ["ILSVRC2012_val_00000002.JPEG", "ILSVRC2012_val_00000001.JPEG"];
    let val = tar(&[(names[0], &jpeg(2)), (names[1], &jpeg(3))]);
    fs::write(dir.path().join("ILSVRC2012_img_val.tar"), val).unwrap();
    dir
}

#[test]
fn all_are_listed_and_described() {
    let dir = scratch();
    let list = run(&dir, ["datasets"]).quietly().out;
    assert_eq!(list.lines().count(), 1 + ALL.len());
    assert!(list.contains("\nILSVRC2012 ") && list.contains(" train, val "), "{list}");
    for dataset in ALL {
        assert!(list.lines().any(|line| line.starts_with(&format!("{dataset} "))), "{dataset}");
        let about = run(&dir, ["datasets", dataset.name]).quietly().out;
        let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
        for text in [dataset.citation, dataset.licence, dataset.url, dataset.title] {
            assert!(about.contains(text), "{about}");
        }
        for file in dataset.files {
            assert!(about.contains(file.path) && about.contains(file.md5.unwrap_or("")), "{about}");
        }
        let json = run(&dir, ["datasets", dataset.name, "--json"]).quietly().json();
        assert_eq!(json["fields"][0]["name"], "key");
        assert_eq!(json["splits"].as_array().unwrap().len(), dataset.splits.len());
    }
    assert_eq!(run(&dir, ["datasets", "--json"]).quietly().json()[0]["name"], ALL[0].name);
}

#[test]
fn names_are_forgiving_but_not_guessed() {
    let dir = scratch();
    let named = run(&dir, ["datasets", "ilsvrc-2012"]).quietly().out;
    assert!(named.contains("ILSVRC2012"));
    let failed =
        run(&dir, ["write", "imagnet21k", "."]).fails(2, "there is no data set \"imagnet21k\"");
    assert!(failed.err.contains("perhaps ImageNet21k"), "{failed:?}");
    assert!(failed.err.contains("hint: kiste catalogue lists"), "{failed:?}");
    let failed = run(&dir, ["datasets", "imagenet"]);
    failed.fails(2, "no data set \"imagenet\"; perhaps ILSVRC2012 or ImageNet21k");
    run(&dir, ["write", "unheard-of", "."]).fails(2, "there is no data set \"unheard-of\"");
}

#[test]
fn tables_have_an_entry_for_each_class() {
    for (name, classes) in [
        ("CIFAR10", 10),
        ("CIFAR100", 100),
        ("MNIST", 10),
        ("ILSVRC2012", 1000),
        ("ImageNet21k", 10_450),
        ("Places365", 365),
    ] {
        assert_eq!(find(name).unwrap().labels().unwrap().len(), classes, "{name}");
    }
    let label = |name: &str, at: usize| find(name).unwrap().labels().unwrap().swap_remove(at);
    assert_eq!(label("ImageNet21k", 2), "person");
    assert_eq!(label("Places365", 8), "apartment_building/outdoor");
}

#[test]
fn missing_files_are_all_named_with_where_to_get_them() {
    let dir = scratch();
    let failed = run(&dir, ["write", "mnist", "."]).fails(2, "4 files are missing: train-images");
    assert!(failed.err.contains("t10k-labels-idx1-ubyte.gz"), "{failed:?}");
    assert!(failed.err.contains("mnist/train-labels-idx1-ubyte.gz"), "{failed:?}");
    let failed = run(&dir, ["write", "ILSVRC2012", ".", "--splits", "val"]);
    let failed = failed.fails(2, "there is no ILSVRC2012_img_val.tar");
    assert!(failed.err.contains("get it from https://image-net.org"), "{failed:?}");
    let args = ["write", "Places365", ".", "--low-res", "--splits=training"];
    let failed = run(&dir, args).fails(2, "there is no train_256_places365standard.tar");
    assert!(failed.err.contains("hint: get it: curl -LO http://data.csail"), "{failed:?}");
    run(&dir, ["write", "mnist", "nowhere"]).fails(2, "nowhere: there is no such folder");
    assert!(names(dir.path()).is_empty());
}

#[test]
fn what_a_data_set_does_not_take_is_refused() {
    let dir = scratch();
    for (args, says) in [
        (&["CIFAR10", ".", "--compress"][..], "--compress is not an option of CIFAR10"),
        (&["CIFAR10", ".", "--rejected", "x"], "--rejected is not an option of CIFAR10"),
        (&["ILSVRC2012", ".", "--shuffle"], "--shuffle is not an option of ILSVRC2012"),
        (&["MNIST", ".", "--low-res"], "--low-res is not an option of MNIST"),
        (
            &["CIFAR10", ".", "--calculate-weights"],
            "--calculate-weights is not an option of CIFAR10",
        ),
        (&["VOC2012", ".", "--scene-labels"], "--scene-labels is not an option of VOC2012"),
        (&["CIFAR10", ".", "--splits", "val"], "CIFAR10 has no split \"val\", only train, test"),
    ] {
        run(&dir, [&["write"], args].concat()).fails(2, says);
    }
    for args in [
        &["CIFAR10", ".", "--quality", "9"][..],
        &["ILSVRC2012", ".", "--compress", "101"],
        &["ILSVRC2012", ".", "--subsampling", "423"],
        &["CIFAR10", ".", "--seed", "7"],
        &["VOC2012", ".", "out", "--calculate-weights"],
        &["VOC2012", ".", "--calculate-weights", "--shuffle"],
        &["ADE20k", ".", "--calculate-weights", "--scene-labels"],
    ] {
        let refused = run(&dir, [&["write"], args].concat()).exits(2);
        assert!(refused.err.starts_with("kiste: "), "{refused:?}");
    }
}

#[test]
fn other_files_than_those_that_were_published_are_refused() {
    let dir = with("cifar-10-python.tar.gz", &cifar10());
    let failed = run(&dir, ["write", "CIFAR10", "."]).fails(1, "expected 170498071 bytes, found");
    assert!(failed.err.contains("--skip-verification"), "{failed:?}");
    assert_eq!(names(dir.path()), ["cifar-10-python.tar.gz"]);
}

#[test]
fn cifar10_of_its_pickles() {
    let dir = with("cifar-10-python.tar.gz", &cifar10());
    let args = ["write", "cifar10", ".", "out/put", "--splits", "test", "--json", "-s"];
    let report = run(&dir, args).exits(0).json();
    assert_eq!(report["splits"][0]["samples"], 2);
    let out = ["test.msgpack", "filter", "key_hashes", "keys", "labels", "md5", "offsets"];
    assert_eq!(names(&dir.path().join("out/put")).len(), out.len());
    let labels = fs::read_to_string(dir.path().join("out/put/test.msgpack.labels")).unwrap();
    assert!(labels.starts_with("airplane\nautomobile\n") && labels.ends_with("\ntruck\n"));
    let found = samples(&dir, "out/put/test.msgpack");
    assert_eq!(others(&found[1]), [("key", "\"truck.png\"".into()), ("label", "9".into())]);
    // The first image is stripes: byte n of 3072 is n / 256, plane by plane.
    let pixels = decode_rgb(image(&found[0]));
    assert_eq!(pixels.dimensions(), (32, 32));
    assert_eq!(pixels.as_raw()[..6], [0, 4, 8, 0, 4, 8]);
    assert_eq!(pixels.as_raw()[3069..], [3, 7, 11]);

    // The training batches are not there.
    let failed = run(&dir, ["write", "cifar10", ".", "-s"]).fails(1, "data_batch_1");
    assert!(failed.err.contains("cifar-10-python.tar.gz: file"), "{failed:?}");
    assert!(!dir.path().join("train.msgpack").exists());
}

#[test]
fn cifar100_has_coarse_labels_and_no_key_twice() {
    // As CIFAR-10; that names come twice is documented by Python's writer.
    let hundred = pickle("hundred.gz");
    let dir = with(
        "cifar-100-python.tar.gz",
        &gzip(&tar(&[("cifar-100-python/test", &hundred), ("cifar-100-python/train", &hundred)])),
    );
    run(&dir, ["write", "CIFAR100", ".", "-s", "-q"]).quietly();
    for split in ["train", "test"] {
        let found = samples(&dir, &format!("{split}.msgpack"));
        let fields: Vec<&str> = others(&found[1]).iter().map(|(name, _)| *name).collect();
        assert_eq!(fields, ["key", "label", "coarse_label"]);
        assert_eq!(found[1]["label"], Value::from(29));
    }
}

#[test]
fn mnist_of_idx_files() {
    // Two images of 28 x 28 pixels and their labels, as idx files are documented.
    let idx = |shape: &[u32], data: &[u8]| {
        let shape: Vec<u8> = shape.iter().flat_map(|len| len.to_be_bytes()).collect();
        gzip(&[&[0, 0, 8, (shape.len() / 4) as u8], &shape[..], data].concat())
    };
    let dir = scratch();
    let put = |name: &str, bytes: Vec<u8>| fs::write(dir.path().join(name), bytes).unwrap();
    let pixels: Vec<u8> = (0..2 * 784).map(|at| (at % 251) as u8).collect();
    for prefix in ["train", "t10k"] {
        put(&format!("{prefix}-images-idx3-ubyte.gz"), idx(&[2, 28, 28], &pixels));
        put(&format!("{prefix}-labels-idx1-ubyte.gz"), idx(&[2], &[9, 4]));
    }
    for name in ["MNIST", "FashionMNIST", "KMNIST"] {
        run(&dir, ["write", name, ".", name, "-s", "-q"]).quietly();
        let found = samples(&dir, &format!("{name}/train.msgpack"));
        assert_eq!(others(&found[1]), [("key", "\"00001\"".into()), ("label", "4".into())]);
        let decoded = image::load_from_memory(image(&found[1])).unwrap().into_luma8();
        assert_eq!(decoded.as_raw()[..], pixels[784..]);
    }
    assert_eq!(
        fs::read_to_string(dir.path().join("KMNIST/test.msgpack.labels")).unwrap(),
        "o\nki\nsu\ntsu\nna\nha\nma\nya\nre\nwo\n"
    );
    put("t10k-labels-idx1-ubyte.gz", idx(&[3], &[9, 4, 1]));
    run(&dir, ["write", "MNIST", ".", "other", "-s"]).fails(1, "expected 2 labels, found an array");
}

#[test]
fn ilsvrc2012_of_its_archives() {
    let dir = with_imagenet();
    let run_with = |out: &str, options: &[&str]| {
        let run = run(&dir, [&["write", "ILSVRC2012", ".", out, "-s"], options].concat()).exits(0);
        assert!(run.err.contains("left out 1 sample that cannot be used"), "{run:?}");
        assert!(run.err.contains("n15075141_6.JPEG: not an image"), "{run:?}");
        samples(&dir, &format!("{out}/train.msgpack"))
    };
    let plain = run_with("plain", &["--threads", "1"]);
    let keys: Vec<&str> = plain.iter().map(|sample| sample["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["n15075141_5.JPEG", "n01440764_1.JPEG", "n01440764_0.JPEG"]);
    assert_eq!((&plain[0]["label"], &plain[1]["label"]), (&Value::from(999), &Value::from(0)));
    // JPEG stays as it is, and PNG becomes JPEG.
    assert_eq!(image(&plain[1]), jpeg(1));
    assert!(image(&plain[2]).starts_with(b"\xff\xd8"));
    let val = samples(&dir, "plain/val.msgpack");
    let expected = [("key", "\"ILSVRC2012_val_00000002.JPEG\"".into()), ("label", "970".into())];
    assert_eq!(others(&val[0]), expected);

    let small = run_with("small", &["--compress", "--subsampling", "420"]);
    assert_eq!(image(&small[1]), image(&plain[1]));
    let shrunk = decode_rgb(image(&small[0]));
    assert_eq!(shrunk.dimensions(), (600, 450));
    assert!(image(&small[0]).len() * 2 < image(&plain[0]).len());
    // The order, and all else, does not depend on the threads.
    run_with("many", &["--threads", "7"]);
    let bytes = |out: &str| fs::read(dir.path().join(out).join("train.msgpack")).unwrap();
    assert_eq!(bytes("plain"), bytes("many"));
}

#[test]
fn an_error_leaves_what_was_there() {
    let dir = with_imagenet();
    run(&dir, ["write", "ILSVRC2012", ".", "-s", "--splits", "train"]).exits(0);
    let before = snapshot(dir.path());
    let args = ["write", "ILSVRC2012", ".", "-s", "--splits", "train"];
    let failed = run(&dir, args).fails(2, "the dataset exists already");
    assert!(failed.err.contains("--force replaces it"), "{failed:?}");
    assert_eq!(snapshot(dir.path()), before);
    // An archive that is cut short, and one with something else in it.
    let path = dir.path().join("ILSVRC2012_img_train.tar");
    let whole = fs::read(&path).unwrap();
    for (bytes, says) in [
        (&whole[..whole.len() / 2], "expected the rest of a tar archive"),
        (&tar(&[("n00000000.tar", b"")]), "expected an archive of one of the synsets"),
        (&tar(&[("../n01440764.tar", b"")]), "without \"..\""),
    ] {
        fs::write(&path, bytes).unwrap();
        let failed = run(&dir, [&args[..], &["--force"]].concat());
        assert!(failed.code != Some(0) && failed.err.contains(says), "{failed:?}");
        let after = snapshot(dir.path()).into_iter().zip(&before);
        assert!(
            after
                .filter(|(file, before)| file != *before)
                .all(|(file, _)| file.0.ends_with(path.file_name().unwrap()))
        );
    }
}

#[test]
fn imagenet21k_of_archives_in_an_archive() {
    // Photos in no order; the first fifty by name are for validation.
    let names: Vec<String> =
        (0..53).map(|n| format!("n00007846_{}.JPEG", (n * 7) % 53 + 100)).collect();
    let photos: Vec<Vec<u8>> = (0..53u32).map(|n| jpeg(((n * 7) % 53) as u8)).collect();
    let files: Vec<(&str, &[u8])> =
        names.iter().zip(&photos).map(|(name, photo)| (name.as_str(), photo.as_slice())).collect();
    let person = tar(&files);
    let whole = gzip(&tar(&[
        ("winter21_whole/n99999999.tar", &tar(&[("x.JPEG", b"of no class")])),
        ("winter21_whole/n00007846.tar", &person),
    ]));
    let dir = with("winter21_whole.tar.gz", &whole);
    run(&dir, ["write", "imagenet21k", ".", "-s", "-q"]).quietly();
    let (train, val) = (samples(&dir, "train.msgpack"), samples(&dir, "val.msgpack"));
    assert_eq!((train.len(), val.len()), (3, 50));
    assert_eq!(val[0]["key"].as_str(), Some("n00007846_100.JPEG"));
    assert_eq!(image(&val[1]), jpeg(1));
    let expected = [("key", "\"n00007846_150.JPEG\"".into()), ("label", "2".into())];
    assert_eq!(others(&train[0])[..2], expected);
    assert_eq!(train[0]["label_tree"], Value::Array(vec![2.into()]));
    // One split alone.
    run(&dir, ["write", "imagenet21k", ".", "one", "-s", "-q", "--splits", "val"]).quietly();
    let one = fs::read(dir.path().join("one/val.msgpack")).unwrap();
    assert_eq!(one, fs::read(dir.path().join("val.msgpack")).unwrap());
    assert!(!dir.path().join("one/train.msgpack").exists());
}

#[test]
fn places365_of_its_archives() {
    let dir = scratch();
    let put = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    let outdoor = "data_256/a/apartment_building/outdoor/00000001.jpg";
    let files = [
        ("data_256/readme.txt", &b""[..]),
        (outdoor, b"one"),
        ("data_256/z/zen_garden/1.jpg", b"2"),
    ];
    put("train_256_places365standard.tar", &tar(&files));
    put("val_256.tar", &tar(&[("val_256/Places365_val_00000001.jpg", b"val")]));
    put("test_256.tar", &tar(&[("test_256/Places365_test_00000001.jpg", b"test")]));
    let list = b"Places365_val_00000001.jpg 77\n";
    put("filelist_places365-standard.tar", &tar(&[("places365_val.txt", list)]));
    run(&dir, ["write", "Places365", ".", "--low-res", "-s", "-q"]).quietly();
    let training = samples(&dir, "training.msgpack");
    assert_eq!(others(&training[0]), [("key", format!("\"{outdoor}\"")), ("label", "8".into())]);
    assert_eq!((image(&training[0]), training[1]["label"].as_u64()), (&b"one"[..], Some(364)));
    assert_eq!(samples(&dir, "validation.msgpack")[0]["label"], Value::from(77));
    let testing = samples(&dir, "testing.msgpack");
    assert_eq!(others(&testing[0]), [("key", "\"test_256/Places365_test_00000001.jpg\"".into())]);
    // Where there are no labels there are no names of them.
    let labels = |split: &str| dir.path().join(format!("{split}.msgpack.labels")).exists();
    assert!(labels("training") && labels("validation") && !labels("testing"));

    put("train_256_places365standard.tar", &tar(&[("data_256/n/nowhere/1.jpg", b"")]));
    let args = ["write", "Places365", ".", "--low-res", "-s", "--force", "--splits", "training"];
    run(&dir, args).fails(1, "expected a label, found none for \"nowhere\"");
}

#[test]
fn yfcc100m_of_zip_files() {
    // As the reader of Python documents them: images ZIP/HASH, and other files.
    let dir = scratch();
    for (stem, count) in [("01b8", 2), ("00a1", 3)] {
        let file = fs::File::create(dir.path().join(format!("{stem}.zip"))).unwrap();
        let mut archive = zip::ZipWriter::new(file);
        let options = zip::write::SimpleFileOptions::default();
        archive.start_file(format!("{stem}/readme.txt"), options).unwrap();
        for number in 0..count {
            archive.start_file(format!("{stem}/{number:08x}"), options).unwrap();
            write!(archive, "{stem} {number}").unwrap();
        }
        archive.finish().unwrap();
    }
    fs::write(dir.path().join("rejected.txt"), "00a1 1\n01b8 0\n").unwrap();
    run(&dir, ["write", "yfcc100m", ".", "-q"]).quietly();
    let keys = |dir: &TempDir, name| run(dir, ["ls", name]).quietly().out;
    let all = keys(&dir, "YFCC100m.msgpack");
    assert_eq!(all.lines().count(), 5);
    assert!(all.starts_with("00a1/00000000\n00a1/00000001\n"));
    let args = ["write", "yfcc100m", ".", "less", "-q", "--rejected", "rejected.txt"];
    run(&dir, args).quietly();
    let less = keys(&dir, "less/YFCC100m.msgpack");
    assert_eq!(less, "00a1/00000000\n00a1/00000002\n01b8/00000001\n");
    run(&scratch(), ["write", "yfcc100m", "."])
        .fails(2, "expected zip files of YFCC100m, found none");
}

#[test]
fn shuffled_by_a_seed() {
    let hundred = pickle("hundred.gz");
    let archive = gzip(&tar(&[("cifar-100-python/test", &hundred)]));
    let dir = with("cifar-100-python.tar.gz", &archive);
    let keys = |out: &str, options: &[&str]| {
        let args = ["write", "CIFAR100", ".", out, "-s", "-q", "--splits", "test"];
        run(&dir, [&args, options].concat()).quietly();
        run(&dir, ["ls", &format!("{out}/test.msgpack")]).quietly().out
    };
    let plain = keys("plain", &[]);
    let seeds = ["0", "1", "2", "3", "4", "5", "6", "7"];
    let shuffled: Vec<String> =
        seeds.iter().map(|seed| keys(seed, &["--shuffle", "--seed", seed])).collect();
    // Two samples have two orders.
    assert!(shuffled.contains(&plain) && shuffled.iter().any(|order| *order != plain));
    assert_eq!(keys("again", &["--shuffle", "--seed", "5"]), shuffled[5]);
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert!(shuffled.iter().all(|order| sorted(order) == sorted(&plain)));
}

/// The miniature of a data set that `tests/data` has.
fn miniature(name: &str) -> String {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    dir.join("datadings-3.4.7-catalogue").join(name).to_str().unwrap().to_owned()
}

#[test]
fn limits_can_be_set_and_the_hint_says_how() {
    let dir = with_imagenet();
    fs::write(dir.path().join("train-images-idx3-ubyte.gz"), gzip(&[0; 5000])).unwrap();
    fs::write(dir.path().join("train-labels-idx1-ubyte.gz"), gzip(b"")).unwrap();
    let (camvid, voc, places) =
        (miniature("camvid"), miniature("voc2012"), miniature("places2017"));
    let ade = miniature("ade20k");
    for (name, indir, option, limit, says) in [
        ("ILSVRC2012", ".", "--max-pixels", "1079999", "at most 1079999 pixels, found 1200 x 900"),
        ("ILSVRC2012", ".", "--max-bytes", "100", "expected at most 100 bytes, found "),
        ("ILSVRC2012", ".", "--max-file", "1K", "expected at most 1024 bytes, found "),
        ("MNIST", ".", "--max-bytes", "4999", "expected at most 4999 bytes, found more"),
        ("CAMVID", &camvid, "--max-bytes", "10", "expected at most 10 bytes, found "),
        ("VOC2012", &voc, "--max-bytes", "10", "expected at most 10 bytes, found "),
        ("VOC2012", &voc, "--max-pixels", "10", "expected at most 10 pixels, found "),
        ("Places2017", &places, "--max-pixels", "10", "a mask of at most 10 pixels, found "),
        ("ADE20k", &ade, "--max-pixels", "10", "expected at most 10 pixels, found "),
    ] {
        let first = find(name).unwrap().splits[0].name;
        let args = ["write", name, indir, "out", "-s", "--splits", first, option, limit];
        let failed = run(&dir, args).exits(2);
        assert!(failed.err.contains(says), "{name}: {failed:?}");
        let hint = format!("hint: {}", option.replace("file", "bytes"));
        assert!(failed.err.contains(&hint), "{name}: {failed:?}");
        assert!(names(&dir.path().join("out")).is_empty(), "{name}");
    }
    // Just large enough is not too large.
    let args = ["write", "ILSVRC2012", ".", "out", "-s", "-q", "--max-pixels", "1080000"];
    run(&dir, [&args[..], &["--max-bytes", "1M"]].concat()).exits(0);
    assert_eq!(samples(&dir, "out/train.msgpack").len(), 3);
}

#[test]
fn weights_are_printed_and_nothing_is_written() {
    let (dir, voc) = (scratch(), miniature("voc2012"));
    let before = snapshot(Path::new(&voc));
    let args = ["write", "VOC2012", &voc, "-s", "--calculate-weights"];
    let text = run(&dir, args).quietly().out;
    let start =
        "train: 3 maps\nclass      count    weight  name\n    0   0.534314  0.229358  background\n";
    assert!(text.starts_with(start), "{text}");
    assert!(text.contains("\n\nval: 2 maps\nclass "), "{text}");
    let json = run(&dir, [&args[..], &["--json", "--splits", "val"]].concat()).quietly().json();
    assert_eq!(
        (&json["dataset"], json["splits"].as_array().unwrap().len()),
        (&"VOC2012".into(), 1)
    );
    let split = &json["splits"][0];
    assert_eq!((&split["split"], &split["maps"]), (&"val".into(), &2.into()));
    let classes = split["classes"].as_array().unwrap();
    let counts: f64 = classes.iter().map(|class| class["count"].as_f64().unwrap()).sum();
    assert!((counts - 2.0).abs() < 1e-9 && classes.iter().all(|class| class["weight"].is_f64()));
    assert_eq!(snapshot(Path::new(&voc)), before);
    assert!(names(dir.path()).is_empty());
}

#[test]
fn scenes_are_those_of_the_archive() {
    let (dir, ade) = (scratch(), miniature("ade20k"));
    let scenes = ["", "abbey", "youth_hostel", "zoo", "~not labeled"];
    for option in ["--scene-labels", "--scenelabels"] {
        let out = run(&dir, ["write", "ADE20k", &ade, "-s", option]).quietly().out;
        assert_eq!(out.split_terminator('\n').collect::<Vec<_>>(), scenes);
    }
    let json = run(&dir, ["write", "ADE20k", &ade, "-s", "--scene-labels", "--json"]).quietly();
    assert_eq!(json.json(), serde_json::json!(scenes));
    assert!(names(dir.path()).is_empty());
    // Numbers in a dataset are those of the names beside it, whatever else there is elsewhere.
    run(&dir, ["write", "ADE20k", &ade, ".", "-s", "-q"]).quietly();
    let labels = fs::read_to_string(dir.path().join("validation.msgpack.labels")).unwrap();
    assert_eq!(labels.split_terminator('\n').collect::<Vec<_>>(), scenes);
    assert_eq!(samples(&dir, "validation.msgpack")[0]["label"], Value::from(2));
}

#[test]
fn classes_are_listed_with_all_that_is_known() {
    let dir = scratch();
    let camvid = run(&dir, ["datasets", "CAMVID", "--classes"]).quietly().out;
    let mut lines = camvid.lines();
    assert_eq!(lines.next(), Some("label_image: 12 classes"));
    assert_eq!(lines.next(), Some("class    count    weight   colour  name"));
    assert_eq!(lines.next(), Some("    0  61.8216   0.25036  #ffbf64  Sky"));
    assert_eq!(lines.count(), 11);
    // Names alone, and counts alone.
    let voc = run(&dir, ["datasets", "CIFAR10", "--classes"]).quietly().out;
    assert!(voc.starts_with("label: 10 classes\nclass  name\n    0  airplane\n"), "{voc}");
    let ade = run(&dir, ["datasets", "ADE20k", "--classes"]).quietly().out;
    assert!(ade.contains("\n\nlabel_image: 2,603 classes\nclass  "), "{ade}");
    let json = run(&dir, ["datasets", "Places2017", "--classes", "--json"]).quietly().json();
    assert_eq!(json[1]["field"], "label_image");
    let bench = &json[1]["classes"][70];
    assert_eq!(
        (&bench["name"], &bench["colour"]),
        (&"bench".into(), &serde_json::json!([194, 255, 0]))
    );
    assert!((bench["weight"].as_f64().unwrap() - 0.664155741).abs() < 1e-9, "{bench}");
    run(&dir, ["datasets", "ANP460", "--classes"]).fails(2, "ANP460 has no classes");
    run(&dir, ["datasets", "--classes"]).exits(2);
}
