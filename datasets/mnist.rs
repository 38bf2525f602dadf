//! MNIST, and the data sets of its form: Fashion-MNIST and Kuzushiji-MNIST.
//!
//! Python datadings has none of them. Samples are of the form of [CIFAR-10](super::cifar10), and
//! keys are the numbers of the images in five digits: `00000`.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::parts::{Image, Limits, Sample, Samples, encode_png};
use super::{Classes, Dataset, File, Names, Opening, Pass, Split, Take};
use crate::convert::compressed;
use crate::error::{Error, ErrorKind, Result};
use crate::format::idx;
use crate::value::{DType, NdArray};

const SPLITS: &[Split] = &[Split::new("train", 60_000), Split::new("test", 10_000)];
const FIELDS: &[(&str, &str)] = &[
    ("key", "the number of the image in five digits"),
    ("image", "PNG, 28 x 28, grey"),
    ("label", "0 to 9"),
];

/// The four files, with addresses, digests and sizes.
macro_rules! files {
    ($base:literal, $($md5:literal $size:literal),+) => {{
        const DIGESTS: [(&str, u64); 4] = [$(($md5, $size)),+];
        &[
            File::new("train images", "train-images-idx3-ubyte.gz")
                .url(concat!($base, "train-images-idx3-ubyte.gz"))
                .md5(DIGESTS[0].0)
                .size(DIGESTS[0].1)
                .splits(&["train"]),
            File::new("train labels", "train-labels-idx1-ubyte.gz")
                .url(concat!($base, "train-labels-idx1-ubyte.gz"))
                .md5(DIGESTS[1].0)
                .size(DIGESTS[1].1)
                .splits(&["train"]),
            File::new("test images", "t10k-images-idx3-ubyte.gz")
                .url(concat!($base, "t10k-images-idx3-ubyte.gz"))
                .md5(DIGESTS[2].0)
                .size(DIGESTS[2].1)
                .splits(&["test"]),
            File::new("test labels", "t10k-labels-idx1-ubyte.gz")
                .url(concat!($base, "t10k-labels-idx1-ubyte.gz"))
                .md5(DIGESTS[3].0)
                .size(DIGESTS[3].1)
                .splits(&["test"]),
        ]
    }};
}

/// MNIST.
pub(super) static MNIST: Dataset = Dataset {
    name: "MNIST",
    title: "70,000 handwritten digits of 28 x 28 pixels",
    notes: "Python datadings does not have it. Samples are of the form of CIFAR10.",
    url: "https://ossci-datasets.s3.amazonaws.com/mnist/",
    licence: "CC BY-SA 3.0",
    citation: "Yann LeCun, Leon Bottou, Yoshua Bengio, Patrick Haffner: Gradient-Based Learning \
               Applied to Document Recognition. Proceedings of the IEEE 86(11), 1998",
    files: files!(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "f68b3c2dcbeaaa9fbdd348bbdeb94873" 9_912_422,
        "d53e105ee54ea40749a09fcbcd1e9432" 28_881,
        "9fb629c4189551a2d022fa330f9573f3" 1_648_877,
        "ec29112dd5afa0611ce80d1b7f02629c" 4_542
    ),
    splits: SPLITS,
    fields: FIELDS,
    classes: &[Classes::new(
        "label",
        Names::List(&["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]),
    )],
    takes: &[Take::Shuffle],
    read,
};

/// Fashion-MNIST.
pub(super) static FASHION_MNIST: Dataset = Dataset {
    name: "FashionMNIST",
    title: "70,000 articles of clothing, 28 x 28 pixels",
    notes: "Python datadings does not have it. Samples are of the form of CIFAR10. The files have the \
            same names as MNIST's, so they need a folder of their own.",
    url: "https://github.com/zalandoresearch/fashion-mnist",
    licence: "MIT",
    citation: "Han Xiao, Kashif Rasul, Roland Vollgraf: Fashion-MNIST: a Novel Image Dataset for \
               Benchmarking Machine Learning Algorithms. arXiv:1708.07747, 2017",
    files: files!(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d" 26_421_880,
        "25c81989df183df01b3e8a0aad5dffbe" 29_515,
        "bef4ecab320f06d8554ea6380940ec79" 4_422_102,
        "bb300cfdad3c16e7a12a480ee83cd310" 5_148
    ),
    splits: SPLITS,
    fields: FIELDS,
    classes: &[Classes::new(
        "label",
        Names::List(&[
            "T-shirt/top",
            "Trouser",
            "Pullover",
            "Dress",
            "Coat",
            "Sandal",
            "Shirt",
            "Sneaker",
            "Bag",
            "Ankle boot",
        ]),
    )],
    takes: &[Take::Shuffle],
    read,
};

/// Kuzushiji-MNIST.
pub(super) static KMNIST: Dataset = Dataset {
    name: "KMNIST",
    title: "70,000 handwritten Japanese characters, 28 x 28 pixels",
    notes: "Python datadings does not have it. Samples are of the form of CIFAR10. The files have the \
            same names as MNIST's, so they need a folder of their own.",
    url: "http://codh.rois.ac.jp/kmnist/",
    licence: "CC BY-SA 4.0",
    citation: "Tarin Clanuwat, Mikel Bober-Irizar, Asanobu Kitamoto, Alex Lamb, Kazuaki Yamamoto, \
               David Ha: Deep Learning for Classical Japanese Literature. arXiv:1812.01718, 2018",
    files: files!(
        "http://codh.rois.ac.jp/kmnist/dataset/kmnist/",
        "bdb82020997e1d708af4cf47b453dcf7" 18_165_135,
        "e144d726b3acfaa3e44228e80efcd344" 29_497,
        "5c965bf0a639b31b8f53240b1b52f4d7" 3_041_136,
        "7320c461ea6c1c855c0b718fb2a4b134" 5_120
    ),
    splits: SPLITS,
    fields: FIELDS,
    classes: &[Classes::new(
        "label",
        Names::List(&["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]),
    )],
    takes: &[Take::Shuffle],
    read,
};

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let splits = SPLITS.iter().filter(|split| opening.wants(split.name));
    splits.map(|split| pass(opening, split)).collect()
}

fn pass(opening: &Opening<'_>, split: &Split) -> Result<Pass> {
    let path = |what: &str| opening.path(&format!("{} {what}", split.name));
    let limits = opening.options.limits;
    let (images, labels) = (load(&path("images"), limits)?, load(&path("labels"), limits)?);
    let wrong = |path: &Path, expected: &str, shape: &[usize]| {
        let message = format!("expected {expected}, found an array of shape {shape:?}");
        Error::new(ErrorKind::Damaged, message).at(path)
    };
    let &[count, height, width] = images.shape() else {
        return Err(wrong(&path("images"), "images", images.shape()));
    };
    if *labels.shape() != [count] {
        return Err(wrong(&path("labels"), &format!("{count} labels"), labels.shape()));
    }
    let (height, width) = match (u32::try_from(height), u32::try_from(width)) {
        (Ok(height), Ok(width)) => (height, width),
        _ => return Err(wrong(&path("images"), "images", images.shape())),
    };
    let (images, size) = (Arc::new(images), height as usize * width as usize);
    let make = move |index: usize| {
        let pixels = images.bytes()[index * size..][..size].to_vec();
        let png = encode_png(&Image::new(width, height, 1, pixels)?)?;
        let label = labels.bytes()[index];
        Sample::new(format!("{index:05}")).bytes("image", &png).value("label", label).pack()
    };
    let order = opening.options.order((0..count).collect());
    Ok(Pass::new(split, Samples::new(order, make)).total(count))
}

/// The array of bytes in a file.
fn load(path: &Path, limits: Limits) -> Result<NdArray<'static>> {
    let mut bytes = Vec::new();
    let most = limits.bytes.saturating_add(1);
    let read = compressed::open(path)?.take(most).read_to_end(&mut bytes);
    read.map_err(|error| compressed::blame(path, error))?;
    if bytes.len() as u64 > limits.bytes {
        let message = format!("expected at most {} bytes, found more", limits.bytes);
        return Err(Error::above_limit("max_bytes", message).at(path));
    }
    let array = idx::decode(&bytes).map_err(|error| Error::from(error).at(path))?.into_owned();
    match *array.dtype() == DType::of::<u8>() {
        true => Ok(array),
        false => {
            let message = format!("expected bytes, found {}", array.dtype());
            Err(Error::new(ErrorKind::Damaged, message).at(path))
        }
    }
}
