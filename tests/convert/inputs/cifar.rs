//! Files laid out as those of CIFAR and MNIST.

use std::path::Path;

use kiste::ErrorKind;
use kiste::Value;
use kiste::convert::{CifarLabels, CifarReader, Input, MnistReader};
use kiste::format::msgpack::numpy::{Special, recognise};

use super::{damage, dir, packed, samples};

const PRODUCER: &str = "cifar-numpy-2.4.6";

fn path(name: &str) -> String {
    dir(PRODUCER).join(name).to_str().unwrap().to_owned()
}

fn image(sample: &Value) -> (Vec<usize>, Vec<u8>) {
    let Some(Special::Array(array)) = recognise(&sample["image"]) else { panic!("{sample}") };
    (array.shape().to_vec(), array.bytes().to_vec())
}

fn names(sample: &Value) -> Vec<&str> {
    sample.as_map().unwrap().iter().map(|(name, _)| name.as_str().unwrap()).collect()
}

#[test]
fn pickles_and_binary_files_are_the_same() {
    let ten = |name: &str| samples(CifarReader::open(path(name), CifarLabels::Ten).unwrap());
    let mut binary =
        samples(CifarReader::open(path("ten.bin.gz"), CifarLabels::Ten).unwrap()).unwrap();
    assert_eq!(binary.len(), 2);
    for name in ["ten_protocol2.gz", "ten_protocol2.gz"] {
        let found = ten(name).unwrap();
        for (index, (found, binary)) in found.iter().zip(&binary).enumerate() {
            assert_eq!(names(found), ["key", "image", "label", "filename"]);
            assert_eq!(image(found), image(binary));
            assert_eq!(found["label"], binary["label"]);
            assert_eq!(found["key"].as_str(), Some(&format!("ten_protocol2/{index:05}")[..]));
        }
        assert_eq!(
            (found[1]["label"].as_u64(), found[1]["filename"].as_str()),
            (Some(9), Some("truck.png"))
        );
    }
    // A label that is a scalar of NumPy is data, but no label.
    for name in ["ten_protocol3.gz", "ten_protocol4.gz"] {
        assert_eq!(ten(name).unwrap_err().message(), "expected labels that are integers");
    }
    let pixels: Vec<u8> = (0..3072).map(|at| (at / 256) as u8).collect();
    assert_eq!(image(&binary.remove(0)), (vec![3, 32, 32], pixels));

    let pickled =
        samples(CifarReader::open(path("hundred.gz"), CifarLabels::Hundred).unwrap()).unwrap();
    let binary =
        samples(CifarReader::open(path("hundred.bin.gz"), CifarLabels::Hundred).unwrap()).unwrap();
    for (pickled, binary) in pickled.iter().zip(&binary) {
        assert_eq!(image(pickled), image(binary));
        assert_eq!(pickled["label"], binary["label"]);
        assert_eq!(pickled["coarse_label"], binary["coarse_label"]);
    }
    assert_eq!(binary[1]["label"].as_u64(), Some(29));
}

#[test]
fn labels_have_the_names_that_are_beside_the_file() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let copy = |from: &str, to: &str| std::fs::copy(path(from), at(to)).unwrap();
    copy("ten.bin.gz", "test_batch.bin");
    copy("hundred.bin.gz", "test.bin");
    let ten = || CifarReader::open(at("test_batch.bin"), CifarLabels::Ten);
    let hundred = || CifarReader::open(at("test.bin"), CifarLabels::Hundred);
    assert_eq!(ten().unwrap().label_names(), None);
    std::fs::write(at("batches.meta.txt"), "airplane\nautomobile\n\n").unwrap();
    assert_eq!(ten().unwrap().label_names().unwrap(), ["airplane", "automobile"]);
    assert_eq!(hundred().unwrap().label_names(), None);
    // Pickles of protocol 2, as Python 2 wrote them.
    let pickle = |field: &str| {
        let len = field.len() as u8;
        [b"\x80\x02}q\x01U", &[len][..], field.as_bytes(), b"q\x02]q\x03(U\x03catU\x03doges."]
            .concat()
    };
    std::fs::write(at("batches.meta"), pickle("label_names")).unwrap();
    assert_eq!(ten().unwrap().label_names().unwrap(), ["cat", "dog"]);
    std::fs::write(at("meta"), pickle("fine_label_names")).unwrap();
    assert_eq!(hundred().unwrap().label_names().unwrap(), ["cat", "dog"]);
    std::fs::write(at("meta"), pickle("label_names")).unwrap();
    let error = hundred().unwrap_err().to_string();
    assert!(error.ends_with("meta: expected a list \"fine_label_names\" of names"), "{error}");
}

#[test]
fn what_is_none() {
    let error = samples(CifarReader::open(path("object"), CifarLabels::Ten).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.message().contains("found"), "{error}");
    let error =
        samples(CifarReader::open(path("hundred.bin.gz"), CifarLabels::Ten).unwrap()).unwrap_err();
    assert!(error.message().starts_with("expected images of 3073 bytes"), "{error}");
    let error =
        samples(CifarReader::open(path("hundred.gz"), CifarLabels::Ten).unwrap()).unwrap_err();
    assert_eq!(error.message(), "expected a list \"labels\" of 2");
}

#[test]
fn images_and_labels_of_idx() {
    let labels = path("labels-idx1-ubyte.gz");
    let input = MnistReader::options().labels(&labels).open(path("images-idx3-ubyte.gz")).unwrap();
    let found = samples(input).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(names(&found[0]), ["key", "image", "label"]);
    assert_eq!(found[0]["label"].as_u64(), Some(5));
    assert_eq!(found[1]["key"].as_str(), Some("images-idx3-ubyte/000001"));
    let pixels = |index: usize| (0..32).map(|at| ((index * 32 + at) * 48 / 256) as u8).collect();
    assert_eq!(image(&found[0]), (vec![4, 8], pixels(0)));
    assert_eq!(image(&found[1]), (vec![4, 8], pixels(1)));

    let images = path("images-idx3-ubyte.gz");
    assert_eq!(samples(MnistReader::open(&labels).unwrap()).unwrap()[0]["image"].as_u64(), Some(5));
    let error = MnistReader::options().labels(&images).open(path("ten.bin.gz")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
}

#[test]
fn damaged_files() {
    let images = dir(PRODUCER).join("images-idx3-ubyte.gz");
    let read = |path: &Path| packed(&MnistReader::open(path)?).map(|found| format!("{found:?}"));
    let whole = read(&images).unwrap();
    assert_eq!(damage(&images, 1, true, read), []);
    assert!(damage(&images, 1, false, read).iter().all(|(at, found)| *at < 10 && *found == whole));
    let pickle = dir(PRODUCER).join("ten_protocol2.gz");
    let read = |path: &Path| {
        packed(&CifarReader::open(path, CifarLabels::Ten)?).map(|found| format!("{found:?}"))
    };
    assert_eq!(damage(&pickle, 3, true, read), []);
}
