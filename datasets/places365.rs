//! Places365: millions of photos of 365 kinds of places.

use std::collections::HashMap;

use super::parts::{Emit, Sample, Samples, Tar, lines};
use super::{Classes, Dataset, File, Names, Opening, Options, Pass, Split, Take};
use crate::error::{Error, ErrorKind, Result};

/// The names of the labels.
pub(super) fn classes() -> Vec<String> {
    lines(include_bytes!("data/places365_classes.txt.gz"))
}

/// Places365.
pub(super) static PLACES365: Dataset = Dataset {
    name: "Places365",
    title: "2 to 8 million photos of 365 kinds of places",
    notes: "There are four versions: photos with a short side of 512 pixels, or of 256 x 256 with \
            --low-res; and the standard training set of 1,803,460 photos, or that of the challenge \
            of some 8 million with --challenge. \"kiste shuffle\" shuffles afterwards.",
    url: "http://places2.csail.mit.edu/",
    licence: "research and education only, see the page",
    citation: "Bolei Zhou, Agata Lapedriza, Aditya Khosla, Aude Oliva, Antonio Torralba: Places: A 10 \
               million Image Database for Scene Recognition. IEEE TPAMI 40(6), 2018",
    files: &[
        TRAIN[0],
        TRAIN[1],
        TRAIN[2],
        TRAIN[3],
        VALIDATION[0],
        VALIDATION[1],
        TESTING[0],
        TESTING[1],
        META,
    ],
    splits: &[
        Split::new("training", 1_803_460),
        Split::new("validation", 36_500),
        Split::new("testing", 328_500).unlabelled(),
    ],
    fields: &[
        ("key", "the name in the archive"),
        ("image", "JPEG as it is in the archive"),
        ("label", "0 to 364; the testing set has none"),
    ],
    classes: &[Classes::new("label", Names::Table(classes))],
    takes: &[Take::LowRes, Take::Challenge],
    read,
};

/// How many photos the training set of the challenge has, about.
const CHALLENGE: usize = 8_000_000;

const TRAIN: [File; 4] = [
    File::new("training", "train_large_places365standard.tar")
        .url("http://data.csail.mit.edu/places/places365/train_large_places365standard.tar")
        .md5("67e186b496a84c929568076ed01a8aa1")
        .splits(&["training"])
        .when(|options| !options.low_res && !options.challenge),
    File::new("training", "train_large_places365challenge.tar")
        .url("http://data.csail.mit.edu/places/places365/train_large_places365challenge.tar")
        .md5("605f18e68e510c82b958664ea134545f")
        .splits(&["training"])
        .when(|options| !options.low_res && options.challenge),
    File::new("training", "train_256_places365standard.tar")
        .url("http://data.csail.mit.edu/places/places365/train_256_places365standard.tar")
        .md5("53ca1c756c3d1e7809517cc47c5561c5")
        .size(26_103_685_120)
        .splits(&["training"])
        .when(|options| options.low_res && !options.challenge),
    File::new("training", "train_256_places365challenge.tar")
        .url("http://data.csail.mit.edu/places/places365/train_256_places365challenge.tar")
        .md5("741915038a5e3471ec7332404dfb64ef")
        .splits(&["training"])
        .when(|options| options.low_res && options.challenge),
];

const VALIDATION: [File; 2] = [
    File::new("validation", "val_large.tar")
        .url("http://data.csail.mit.edu/places/places365/val_large.tar")
        .md5("9b71c4993ad89d2d8bcbdc4aef38042f")
        .splits(&["validation"])
        .when(is_large),
    File::new("validation", "val_256.tar")
        .url("http://data.csail.mit.edu/places/places365/val_256.tar")
        .md5("e27b17d8d44f4af9a78502beb927f808")
        .size(525_158_400)
        .splits(&["validation"])
        .when(is_small),
];

const TESTING: [File; 2] = [
    File::new("testing", "test_large.tar")
        .url("http://data.csail.mit.edu/places/places365/test_large.tar")
        .md5("41a4b6b724b1d2cd862fb3871ed59913")
        .splits(&["testing"])
        .when(is_large),
    File::new("testing", "test_256.tar")
        .url("http://data.csail.mit.edu/places/places365/test_256.tar")
        .md5("f532f6ad7b582262a2ec8009075e186b")
        .size(4_736_829_440)
        .splits(&["testing"])
        .when(is_small),
];

/// The labels of the validation set.
const META: File = File::new("meta", "filelist_places365-standard.tar")
    .url("http://data.csail.mit.edu/places/places365/filelist_places365-standard.tar")
    .md5("35a0585fee1fa656440f3ab298f8479c")
    .size(67_498_496)
    .splits(&["validation"]);

fn is_large(options: &Options) -> bool {
    !options.low_res
}

fn is_small(options: &Options) -> bool {
    options.low_res
}

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let splits = PLACES365.splits.iter().filter(|split| opening.wants(split.name));
    splits.map(|split| pass(opening, split)).collect()
}

fn pass(opening: &Opening<'_>, split: &'static Split) -> Result<Pass> {
    let (path, limits) = (opening.path(split.name), opening.options.limits);
    let labels = match split.name {
        "training" => Labels::Folders(numbers()),
        "validation" => Labels::Files(validation_labels(opening)?),
        _ => Labels::None,
    };
    let read = move |emit: &mut Emit<'_, (String, Vec<u8>)>| {
        Tar::open(&path, limits)?.for_each(|file| match file.name().ends_with(".jpg") {
            true => emit((file.name().to_owned(), file.read()?)),
            false => Ok(()),
        })
    };
    let make = move |(name, image): (String, Vec<u8>)| {
        let sample = Sample::new(&*name).bytes("image", &image);
        match labels.of(&name)? {
            Some(label) => sample.value("label", label).pack(),
            None => sample.pack(),
        }
    };
    let pass = Pass::new(split, Samples::stream(read, make));
    match opening.options.challenge && split.name == "training" {
        true => Ok(pass.total(CHALLENGE)),
        false => Ok(pass),
    }
}

/// How images get their labels.
enum Labels {
    /// By the folders below the second one: `data_large/a/airport_terminal/00000001.jpg`.
    Folders(HashMap<String, u32>),
    /// By the names of the files.
    Files(HashMap<String, u32>),
    None,
}

impl Labels {
    fn of(&self, name: &str) -> Result<Option<u32>> {
        let (labels, wanted) = match self {
            Labels::Folders(labels) => {
                let parts: Vec<&str> = name.split('/').collect();
                let inner = parts.get(2..parts.len() - 1).unwrap_or_default();
                (labels, inner.join("/"))
            }
            Labels::Files(labels) => {
                (labels, name.rsplit('/').next().unwrap_or_default().to_owned())
            }
            Labels::None => return Ok(None),
        };
        let found = labels.get(&wanted).copied().map(Some);
        found.ok_or_else(|| {
            let message = format!("image {name:?}: expected a label, found none for {wanted:?}");
            Error::new(ErrorKind::Damaged, message)
        })
    }
}

fn numbers() -> HashMap<String, u32> {
    classes().into_iter().zip(0..).collect()
}

/// Of lines `NAME LABEL`.
fn validation_labels(opening: &Opening<'_>) -> Result<HashMap<String, u32>> {
    const LIST: &str = "places365_val.txt";
    let path = opening.path("meta");
    let mut list = None;
    Tar::open(&path, opening.options.limits)?.for_each(|file| {
        if file.name() == LIST {
            list = Some(file.read()?);
        }
        Ok(())
    })?;
    let damaged = |message: String| Error::new(ErrorKind::Damaged, message).at(&path);
    let list = list.ok_or_else(|| damaged(format!("expected a file {LIST:?}, found none")))?;
    let text = String::from_utf8_lossy(&list);
    let row = |(at, line): (usize, &str)| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields[..] {
            [name, label] if label.parse::<u32>().is_ok() => {
                Ok((name.to_owned(), label.parse().unwrap_or_default()))
            }
            _ => Err(damaged(format!("{LIST}, line {}: expected a name and a label", at + 1))),
        }
    };
    text.lines().enumerate().map(row).collect()
}
