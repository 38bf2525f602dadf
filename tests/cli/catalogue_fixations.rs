//! `write`, for the data sets about where people look.
//!
//! The archives are miniatures of the documented layout, `tests/compat/catalogue/` builds them; what
//! the real writers of datadings made of them is beside them in `tests/data/saliency-datadings-3.4.7`.

use std::collections::BTreeMap;
use std::io::Read;

use kiste::DatasetReader;
use kiste::Value;
use kiste::format::msgpack::numpy::{Special, recognise};

use super::*;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/saliency-datadings-3.4.7").join(name)
}

/// Writes a data set from archives that are no originals, whatever their digests.
fn write(name: &str, from: &Path, to: &Path) -> Run {
    let args = ["write", name, "--skip-verification", "--quiet", "--threads", "2"];
    // Whoever has ffmpeg and who has not see the same tests.
    let mut command = kiste();
    command.args(args).args([from, to]).env("PATH", to).output().unwrap().into()
}

/// What Python made of each split, and what we make of it.
fn splits(name: &str) -> Vec<(String, DatasetReader, DatasetReader)> {
    let dir = scratch();
    write(name, &golden(name), dir.path()).quietly();
    let expected = names(&golden(name));
    let expected = expected.iter().filter_map(|file| file.strip_prefix("expected-"));
    let splits: Vec<_> = expected
        .map(|file| {
            let python =
                DatasetReader::open(golden(name).join(format!("expected-{file}"))).unwrap();
            (file.to_owned(), python, DatasetReader::open(dir.path().join(file)).unwrap())
        })
        .collect();
    let made = names(dir.path()).into_iter().filter(|file| file.ends_with(".msgpack")).count();
    assert_eq!(made, splits.len(), "{name}");
    splits
}

#[test]
fn samples_are_byte_for_byte_those_of_python() {
    let sets = ["ANP460", "FIGRIMFixation", "MIT1003", "MIT300", "SALICON2015", "SALICON2017"];
    let mut samples = 0;
    for name in sets {
        for (file, python, ours) in splits(name) {
            assert_eq!(ours.len(), python.len(), "{name} {file}");
            for index in 0..ours.len() {
                assert_eq!(ours.key(index).unwrap(), python.key(index).unwrap(), "{name} {file}");
                let same = ours.get_raw(index).unwrap() == python.get_raw(index).unwrap();
                assert!(same, "{name} {file} {index}");
                samples += 1;
            }
        }
    }
    assert_eq!(samples, 27);
}

/// How far the pixels of two images are apart on average.
fn apart(one: &Value, other: &Value) -> f64 {
    let image =
        |value: &Value| image::load_from_memory(value.as_slice().unwrap()).unwrap().into_rgb8();
    let (one, other) = (image(one), image(other));
    assert_eq!(one.dimensions(), other.dimensions());
    let apart = one.iter().zip(other.iter()).map(|(a, b)| u64::from(a.abs_diff(*b)));
    apart.sum::<u64>() as f64 / one.len() as f64
}

/// Compares all samples: names of fields, keys, and that images are nearly the same.
fn compare(name: &str, mut rest: impl FnMut(&str, &Value, &Value)) {
    for (file, python, ours) in splits(name) {
        assert_eq!(ours.len(), python.len(), "{name} {file}");
        for (ours, python) in ours.iter(..).zip(python.iter(..)) {
            let (ours, python) = (ours.unwrap(), python.unwrap());
            let (ours, python) = (ours.as_map().unwrap(), python.as_map().unwrap());
            let fields = |sample: &[(Value, Value)]| -> Vec<Value> {
                sample.iter().map(|(name, _)| name.clone()).collect()
            };
            assert_eq!(fields(ours), ["key", "image", "experiments"].map(Value::from));
            assert_eq!((fields(ours), &ours[0]), (fields(python), &python[0]));
            let distance = apart(&ours[1].1, &python[1].1);
            assert!(distance < 2.0, "{name} {file} {}: {distance}", ours[0].1);
            rest(ours[0].1.as_str().unwrap(), &ours[2].1, &python[2].1);
        }
    }
}

/// Images are encoded by another encoder, so they are not byte for byte the same; places are.
#[test]
fn cat2000_frees_images_of_their_frames_as_python_does() {
    let mut found = BTreeMap::new();
    compare("CAT2000", |key, ours, python| {
        assert_eq!(ours, python, "{key}");
        let locations = &ours[0]["locations"];
        found.insert(
            key.to_owned(),
            recognise(locations).map(|array| match array {
                Special::Array(array) => (array.dtype().to_string(), array.shape()[0]),
                other => panic!("{key}: {other:?}"),
            }),
        );
    });
    let places = |count: usize| Some(("<f8".to_owned(), count));
    assert_eq!(found["Action/001.jpg"], places(44));
    // Those on the frame are gone, those on the other images are not in the test set.
    assert!(found["Action/002.jpg"] < places(44));
    assert_eq!(found["Art/001.jpg"], None);
    assert_eq!(found.len(), 6);
}

/// The arrays in a list, as numbers in single precision.
fn arrays(list: &Value) -> Vec<Vec<f32>> {
    let array = |value: &Value| match recognise(value) {
        Some(Special::Array(array)) => array.to_ndarray::<f32>().unwrap().into_iter().collect(),
        other => panic!("{other:?}"),
    };
    list.as_array().unwrap().iter().map(array).collect()
}

/// Sums are in another order than those of OpenCV, so places differ a little.
#[test]
fn coutrot1_follows_places_as_opencv_does() {
    let mut places = 0;
    compare("Coutrot1", |key, ours, python| {
        let (ours, python) = (ours.as_array().unwrap(), python.as_array().unwrap());
        assert_eq!(ours.len(), python.len(), "{key}");
        for (ours, python) in ours.iter().zip(python) {
            assert_eq!(ours["map"], Value::Nil);
            let (ours, python) = (arrays(&ours["locations"]), arrays(&python["locations"]));
            assert_eq!(ours.len(), python.len(), "{key}");
            for (one, other) in ours.iter().flatten().zip(python.iter().flatten()) {
                assert!((one - other).abs() < 0.02, "{key}: {one} and {other}");
                places += 1;
            }
        }
    });
    assert!(places > 200, "{places}");
}

/// A copy of the archives that may be changed.
fn copy(name: &str) -> TempDir {
    fn copy_all(from: &Path, to: &Path) {
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            let (path, to) = (entry.path(), to.join(entry.file_name()));
            if path.is_dir() {
                fs::create_dir(&to).unwrap();
                copy_all(&path, &to);
            } else {
                fs::copy(path, to).unwrap();
            }
        }
    }
    let dir = scratch();
    copy_all(&golden(name), dir.path());
    dir
}

/// Changes the files of an archive: gives their new bytes, or nothing for those that go.
fn rewrite(path: &Path, mut change: impl FnMut(&str, Vec<u8>) -> Option<Vec<u8>>) {
    let bytes = fs::read(path).unwrap();
    let mut old = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
    let mut new = zip::ZipWriter::new(fs::File::create(path).unwrap());
    for index in 0..old.len() {
        let mut file = old.by_index(index).unwrap();
        let (name, mut bytes) = (file.name().to_owned(), Vec::new());
        file.read_to_end(&mut bytes).unwrap();
        if let Some(bytes) = change(&name, bytes) {
            new.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            new.write_all(&bytes).unwrap();
        }
    }
    new.finish().unwrap();
}

/// Without this file of an archive.
fn without(path: &Path, gone: &str) {
    rewrite(path, |name, bytes| (name != gone).then_some(bytes));
}

/// With this file of an archive changed.
fn with(path: &Path, changed: &str, change: impl Fn(Vec<u8>) -> Vec<u8>) {
    rewrite(path, |name, bytes| Some(if name == changed { change(bytes) } else { bytes }));
}

#[test]
fn whoever_took_part_may_be_in_a_column() {
    let (dir, out) = (copy("SALICON2015"), scratch());
    let column = fs::read(golden("SALICON2015/column.mat")).unwrap();
    let name = "val/COCO_val2014_000000000009.mat";
    with(&dir.path().join("fixations.zip"), name, |_| column.clone());
    write("SALICON2015", dir.path(), out.path()).quietly();
    let val = DatasetReader::open(out.path().join("val.msgpack")).unwrap();
    // Python sees only the first of them.
    let python = DatasetReader::open(golden("SALICON2015/expected-val.msgpack")).unwrap();
    assert_eq!(val.get(0).unwrap()["experiments"], python.get(0).unwrap()["experiments"]);
    assert_eq!(val.get(0).unwrap()["experiments"].as_array().unwrap().len(), 3);
}

#[test]
fn answers_are_those_of_the_person_who_looked() {
    let (dir, out) = (copy("ANP460"), scratch());
    // Python counts answers and files of fixations: without one of these the rest is mixed up.
    without(&dir.path().join("wrangled_data.zip"), "wrangled_data/p00/002.txt");
    write("ANP460", dir.path(), out.path()).quietly();
    let ours = DatasetReader::open(out.path().join("ANP460.msgpack")).unwrap();
    let python = DatasetReader::open(golden("ANP460/expected-ANP460.msgpack")).unwrap();
    let experiments = |reader: &DatasetReader| {
        let index = reader.find("images_original/002.jpg").unwrap().unwrap();
        reader.get(index).unwrap()["experiments"].as_array().unwrap().clone()
    };
    assert_eq!(experiments(&ours), experiments(&python)[1..]);
}

type Harm = fn(&Path);

#[test]
fn what_is_wrong_is_said_with_file_and_name() {
    fn text(file: &Path, name: &str, text: &str) {
        with(file, name, |_| text.as_bytes().to_vec());
    }
    let cases: [(&str, Harm, &str); 12] = [
        (
            "SALICON2015",
            |dir| without(&dir.join("fixations.zip"), "val/COCO_val2014_000000000025.mat"),
            "fixations.zip: expected a file \"val/COCO_val2014_000000000025.mat\", found none",
        ),
        (
            "SALICON2015",
            |dir| text(&dir.join("fixations.zip"), "train/COCO_train2014_000000000009.mat", "no"),
            "fixations.zip: file \"train/COCO_train2014_000000000009.mat\": ",
        ),
        (
            "SALICON2015",
            |dir| {
                let other = fs::read(golden("FIGRIMFixation/allImages_release.mat")).unwrap();
                fs::write(dir.join("fixations.zip"), other).unwrap();
            },
            "fixations.zip: ",
        ),
        (
            "MIT1003",
            |dir| {
                with(&dir.join("DATA.zip"), "DATA/ajs/istatic_submitted_b.mat", |_| {
                    fs::read(golden("FIGRIMFixation/allImages_release.mat")).unwrap()
                });
            },
            "DATA.zip: file \"DATA/ajs/istatic_submitted_b.mat\": expected one record with a field \
             \"DATA\", found records",
        ),
        (
            "FIGRIMFixation",
            |dir| {
                fs::copy(golden("SALICON2015/column.mat"), dir.join("allImages_fillers.mat"))
                    .unwrap();
            },
            "allImages_fillers.mat: expected a field \"impath\", found the fields [\"location\"",
        ),
        (
            "ANP460",
            |dir| without(&dir.join("wrangled_data.zip"), "wrangled_data/image_anp_list.json"),
            "wrangled_data.zip: expected a file \"wrangled_data/image_anp_list.json\", found none",
        ),
        (
            "ANP460",
            |dir| {
                let json = r#"{"001.jpg": ["a", "b"], "002.jpg": ["a", "b"]}"#;
                text(&dir.join("wrangled_data.zip"), "wrangled_data/image_anp_list.json", json);
            },
            "expected \"003.jpg\", found no such name",
        ),
        (
            "ANP460",
            |dir| {
                text(&dir.join("wrangled_data.zip"), "wrangled_data/p01/answer.txt", "h\n1,yes,2\n")
            },
            "file \"wrangled_data/p01/answer.txt\": expected image, answer and time in line 2, found",
        ),
        (
            "ANP460",
            |dir| {
                text(&dir.join("wrangled_data.zip"), "wrangled_data/p01/001.txt", "0,1,2,3\n1,x,2")
            },
            "file \"wrangled_data/p01/001.txt\": expected time, x and y in line 2, found \"1,x,2\"",
        ),
        (
            "CAT2000",
            |dir| text(&dir.join("testSet.zip"), "testSet/Stimuli/Art/001.jpg", "no image"),
            "testSet.zip: file \"testSet/Stimuli/Art/001.jpg\": not an image that can be decoded",
        ),
        (
            "Coutrot1",
            |dir| {
                fs::copy(golden("SALICON2015/column.mat"), dir.join("coutrot_database1.mat"))
                    .unwrap();
            },
            "coutrot_database1.mat: ",
        ),
        (
            "Coutrot1",
            |dir| fs::write(dir.join("frames/clip_1/7.png"), "no image").unwrap(),
            "7.png: not an image that can be decoded",
        ),
    ];
    for (name, harm, says) in cases {
        let (dir, out) = (copy(name), scratch());
        harm(dir.path());
        let run = write(name, dir.path(), out.path());
        let code = run.code.unwrap();
        assert!(code == 1 || code == 2, "{name}: {run:#?}");
        run.fails(code, says);
    }
}

#[test]
fn cut_archives_are_refused() {
    for name in ["FIGRIMFixation", "MIT300", "MIT1003", "SALICON2015", "ANP460"] {
        for file in names(&golden(name)) {
            if file.starts_with("expected-") || file == "column.mat" {
                continue;
            }
            let whole = fs::read(golden(name).join(&file)).unwrap();
            for len in [0, 3, 130, whole.len() / 2, whole.len() - 5] {
                let (dir, out) = (copy(name), scratch());
                fs::write(dir.path().join(&file), &whole[..len]).unwrap();
                let run = write(name, dir.path(), out.path());
                let code = run.code.unwrap();
                assert!(code == 1 || code == 2, "{file} of {len}: {run:#?}");
                run.fails(code, &file);
            }
        }
    }
}

#[test]
fn shuffled_samples_are_the_same() {
    let out = scratch();
    let (from, seed) = (golden("SALICON2015"), ["--shuffle", "--seed", "3"]);
    let mut command = kiste();
    command.args(["write", "salicon-2015", "--splits", "val", "-s", "--quiet"]).args(seed);
    Run::from(command.arg(&from).arg(out.path()).output().unwrap()).quietly();
    let ours = DatasetReader::open(out.path().join("val.msgpack")).unwrap();
    let python = DatasetReader::open(from.join("expected-val.msgpack")).unwrap();
    for sample in python.iter(..) {
        let sample = sample.unwrap();
        let index = ours.find(sample["key"].as_str().unwrap()).unwrap().unwrap();
        assert_eq!(ours.get(index).unwrap(), sample);
    }
    assert_eq!(ours.len(), 2);
    assert!(!names(out.path()).contains(&"train.msgpack".to_owned()));

    let coutrot = golden("Coutrot1");
    let args = ["write", "Coutrot1", coutrot.to_str().unwrap(), "out", "-s", "--shuffle"];
    run(&out, args).fails(2, "--shuffle is not an option of Coutrot1");
}

/// What stands in for ffmpeg.
#[cfg(unix)]
fn with_ffmpeg(script: &str) -> TempDir {
    use std::os::unix::fs::PermissionsExt;

    let dir = copy("Coutrot1");
    fs::remove_dir_all(dir.path().join("frames")).unwrap();
    let path = dir.path().join("ffmpeg");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

#[test]
#[cfg(unix)]
fn videos_are_decoded_by_ffmpeg_or_not_at_all() {
    let write = |dir: &TempDir| -> Run {
        let mut command = kiste();
        command.args(["write", "Coutrot1", "-s", "-q"]).arg(dir.path()).arg(dir.path().join("out"));
        command.env("PATH", dir.path()).output().unwrap().into()
    };
    let dir = copy("Coutrot1");
    fs::remove_dir_all(dir.path().join("frames")).unwrap();
    write(&dir).fails(2, "clip_1.avi\": videos are decoded by ffmpeg (5.1 or later)");

    // The video is there as a file when it is called, and what it says is told.
    let video = r#"while [ "$1" != -i ]; do shift; done; read -r head < "$2" 2>/dev/null"#;
    let frames = r"printf 'P6\n2 1\n255\nabcdef'";
    let good = with_ffmpeg(&format!("{video}\ncase $head in RIFF*) {frames} {frames};; esac"));
    write(&good).quietly();
    // Two frames are too few for a sample.
    let made = DatasetReader::open(good.path().join("out/Coutrot1.msgpack")).unwrap();
    assert!(made.is_empty());

    for (script, says) in [
        (format!("{frames}; echo 'frame 7 is broken' >&2"), "cannot decode it: frame 7 is broken"),
        (format!("{frames}; exit 3"), "cannot decode it: exit status: 3"),
        ("exit 0".to_owned(), "expected frames, found none"),
        ("echo hello".to_owned(), "expected a pixmap from ffmpeg, found none"),
        (r"printf 'P6\n2 1\n255\nabc'".to_owned(), "expected 2 x 1 x 3 bytes of pixels, found 3"),
    ] {
        let dir = with_ffmpeg(&script);
        let run = write(&dir);
        let code = run.code.unwrap();
        run.fails(code, says);
    }
}
