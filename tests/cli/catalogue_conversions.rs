//! `write` as a conversion: parts, resuming, bad input, other formats, plans.

use kiste::convert::{Monitor, Notice, Part, Progress, Silent, commit};
use kiste::datasets::{Options, find};

use super::catalogue::{gzip, jpeg, tar, with, with_imagenet};
use super::*;

const IMAGES: usize = 150;

/// MNIST with noise of 200 x 200 pixels, which PNG cannot compress: units of a megabyte.
fn with_mnist() -> TempDir {
    let idx = |shape: &[u32], data: &[u8]| {
        let shape_bytes: Vec<u8> = shape.iter().flat_map(|len| len.to_be_bytes()).collect();
        gzip(&[&[0, 0, 8, shape.len() as u8], &shape_bytes[..], data].concat())
    };
    let mut state = 1u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let pixels: Vec<u8> = (0..IMAGES * 200 * 200).map(|_| noise()).collect();
    let labels: Vec<u8> = (0..IMAGES).map(|at| (at % 10) as u8).collect();
    let dir = scratch();
    for prefix in ["train", "t10k"] {
        let put = |name: &str, bytes: Vec<u8>| {
            fs::write(dir.path().join(format!("{prefix}-{name}.gz")), bytes).unwrap();
        };
        put("images-idx3-ubyte", idx(&[IMAGES as u32, 200, 200], &pixels));
        put("labels-idx1-ubyte", idx(&[IMAGES as u32], &labels));
    }
    dir
}

/// ImageNet-21k with 53 photos of one class; the first fifty by name are for validation.
fn with_imagenet21k() -> TempDir {
    let names: Vec<String> = (100..153).map(|n| format!("n00007846_{n}.JPEG")).collect();
    let photos: Vec<Vec<u8>> = (0..53).map(jpeg).collect();
    let files: Vec<(&str, &[u8])> =
        names.iter().zip(&photos).map(|(name, photo)| (&name[..], &photo[..])).collect();
    let archive = tar(&[("winter21_whole/n00007846.tar", &tar(&files))]);
    with("winter21_whole.tar.gz", &gzip(&archive))
}

/// Whole splits, and the same splits of three parts each.
fn same_in_parts(dir: &TempDir, name: &str, splits: &[&str], options: &[&str]) {
    run(dir, [&["write", name, ".", "whole", "-s"], options].concat()).exits(0);
    for part in ["3/3", "1/3", "2/3", "1/3"] {
        run(dir, [&["write", name, ".", "parts", "-s", "--part", part], options].concat()).exits(0);
    }
    for split in splits {
        let file = format!("{split}.msgpack");
        run(dir, ["commit", &format!("parts/{file}")]).exits(0);
        let path = |folder: &str| dir.path().join(folder).join(&file);
        assert_same_dataset(&path("whole"), &path("parts"));
    }
}

#[test]
fn parts_are_joined_to_the_same_files() {
    let mnist = with_mnist();
    same_in_parts(&mnist, "MNIST", &["train", "test"], &["--shuffle", "--seed", "3"]);
    same_in_parts(&with_imagenet(), "ILSVRC2012", &["train", "val"], &[]);
    // Whole, both splits are written in one reading, and in parts they are not.
    same_in_parts(&with_imagenet21k(), "ImageNet21k", &["train", "val"], &[]);
    // Parts of another order are another plan.
    let part = ["write", "MNIST", ".", "other", "-s", "--splits", "test", "--part"];
    run(&mnist, [&part[..], &["1/2"]].concat()).exits(0);
    let failed = run(&mnist, [&part[..], &["2/2", "--shuffle"]].concat());
    failed.fails(2, "there are parts of another plan: sources is");
}

/// Stops after this many samples.
struct Stops(u64, bool, u64);

impl Monitor for Stops {
    fn progress(&mut self, progress: Progress) {
        self.1 = progress.samples >= self.0;
    }

    fn notice(&mut self, notice: Notice) {
        if let Notice::Resumes { samples, .. } = notice {
            self.2 = samples;
        }
    }

    fn is_cancelled(&self) -> bool {
        self.1
    }
}

#[test]
fn what_was_interrupted_is_resumed() {
    for (name, split, dir, stop) in [
        ("MNIST", "train", with_mnist(), 128),
        ("ILSVRC2012", "train", with_imagenet(), 0),
        ("ImageNet21k", "val", with_imagenet21k(), 0),
    ] {
        let path = |file: &str| dir.path().join(file);
        let conversion = |output: &str| {
            let dataset = find(name).unwrap();
            let options = Options::default();
            dataset.conversion(split, dir.path(), &options, path(output)).unwrap().resume(true)
        };
        conversion("whole.msgpack").run(&mut Silent).unwrap();
        let mut monitor = Stops(stop, false, 0);
        let stopped = conversion("cut.msgpack").run(&mut monitor);
        assert_eq!(stopped.unwrap_err().kind(), kiste::ErrorKind::Cancelled);
        assert!(path("cut.msgpack.partial").exists(), "{name}");
        let mut monitor = Stops(u64::MAX, false, 0);
        conversion("cut.msgpack").run(&mut monitor).unwrap();
        // Archives that are read from front to back start over.
        assert_eq!(monitor.2 > 0, name == "MNIST", "{name}");
        assert_same_dataset(&path("whole.msgpack"), &path("cut.msgpack"));
        let again = conversion("cut.msgpack").run(&mut Silent).unwrap();
        assert!(again.was_complete, "{name}");
    }
    let dir = with_mnist();
    let args = ["write", "MNIST", ".", "out", "-s", "--splits", "test", "--resume"];
    run(&dir, args).exits(0);
    let again = run(&dir, args).exits(0);
    assert!(again.err.contains("out/test.msgpack: complete already"), "{again:?}");
}

#[test]
fn bad_input_is_left_out() {
    // An archive that is cut short, and a synset that is none.
    let dir = with_imagenet();
    let path = dir.path().join("ILSVRC2012_img_val.tar");
    let whole = fs::read(&path).unwrap();
    let first = 512 + jpeg(2).len().next_multiple_of(512);
    fs::write(&path, &whole[..first + 700]).unwrap();
    let args = ["write", "ILSVRC2012", ".", "out", "-s", "--splits", "val"];
    let failed = run(&dir, args).fails(1, "expected the rest of a tar archive");
    assert!(failed.err.contains("hint: --bad skip leaves out bad input"), "{failed:?}");
    let skipped = run(&dir, [&args[..], &["--bad", "quarantine", "--json"]].concat()).exits(1);
    assert_eq!(skipped.json()["splits"][0]["samples"], 1);
    assert_eq!(skipped.json()["splits"][0]["bad"], 1);
    assert!(skipped.err.contains("see out/val.msgpack.quarantine.jsonl"), "{skipped:?}");

    // A file in a zip archive whose bytes have changed: its sample alone is bad.
    let dir = scratch();
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for name in ["one", "two", "six"] {
        archive.start_file(format!("BenchmarkIMAGES/{name}.jpg"), options).unwrap();
        archive.write_all(format!("photo {name}").as_bytes()).unwrap();
    }
    let mut bytes = archive.finish().unwrap().into_inner();
    let at = bytes.windows(9).position(|found| found == b"photo two").unwrap();
    bytes[at] ^= 1;
    fs::write(dir.path().join(find("MIT300").unwrap().files[0].path), bytes).unwrap();
    let args = ["write", "MIT300", ".", "out", "-s"];
    run(&dir, args).exits(1);
    assert!(names(&dir.path().join("out")).is_empty());
    let skipped = run(&dir, [&args[..], &["--bad", "skip"]].concat()).exits(1);
    assert!(skipped.err.contains("left out 1 bad sample"), "{skipped:?}");
    let keys = run(&dir, ["ls", "out/MIT300.msgpack"]).quietly().out;
    assert_eq!(keys.lines().count(), 2);
}

#[test]
fn other_formats_fields_and_limits() {
    let dir = with_imagenet21k();
    let options = ["--to", "jsonl", "--drop", "image", "--limit", "2", "-q"];
    run(&dir, [&["write", "ImageNet21k", ".", "out", "-s"], &options[..]].concat()).exits(0);
    assert_eq!(names(&dir.path().join("out")), ["train.jsonl", "val.jsonl"]);
    let lines = fs::read_to_string(dir.path().join("out/val.jsonl")).unwrap();
    let first = "{\"key\":\"n00007846_100.JPEG\",\"label\":2,\"label_tree\":[2]}\n";
    assert!(lines.starts_with(first) && lines.lines().count() == 2, "{lines}");
    let there = ["write", "ImageNet21k", ".", "out", "-s", "--to", "jsonl"];
    run(&dir, there).fails(2, "out/train.jsonl: the output exists already");
    let tar = ["write", "ImageNet21k", ".", "tars", "-s", "-q", "--to", "webdataset"];
    run(&dir, [&tar[..], &["--key", "{key.stem}"]].concat()).exits(0);
    assert!(dir.path().join("tars/train-000000.tar").exists());
}

#[test]
fn a_plan_names_the_samples_and_their_files() {
    let dir = with_imagenet();
    let before = snapshot(dir.path());
    let args = ["write", "ilsvrc2012", ".", "out", "-s", "--compress", "--plan"];
    let plans = run(&dir, args).quietly().json();
    assert_eq!(plans[0]["sources"][0], "catalogue:ILSVRC2012/train?compress=85");
    assert_eq!((&plans[1]["units"], &plans[1]["samples"]), (&1.into(), &50_000.into()));
    assert_eq!(plans[1]["labels"].as_array().unwrap().len(), 1000);
    let one = run(&dir, [&args[..], &["--splits", "val"]].concat()).quietly().json();
    assert_eq!(one, plans[1]);
    assert_eq!(snapshot(dir.path()), before);
    // Another file is another plan.
    fs::write(dir.path().join("ILSVRC2012_img_val.tar"), tar(&[])).unwrap();
    let other = run(&dir, args).quietly().json();
    assert_eq!(other[0], plans[0]);
    assert_ne!(other[1]["other_files"], plans[1]["other_files"]);
}

#[test]
fn the_library_divides_too() {
    let dir = with_mnist();
    let output = dir.path().join("test.msgpack");
    let mnist = find("mnist").unwrap();
    let test = mnist.conversion("test", dir.path(), &Options::default(), &output).unwrap();
    for part in Part::all(2) {
        test.run_part(part, &mut Silent).unwrap();
    }
    assert_eq!(commit(&output, &mut Silent).unwrap().outputs[0].samples, IMAGES as u64);
    let error = mnist.conversion("val", dir.path(), &Options::default(), &output).unwrap_err();
    assert!(error.to_string().contains("has no split \"val\", only train, test"), "{error}");
}
