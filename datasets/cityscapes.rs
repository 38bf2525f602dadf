//! Cityscapes: frames of drives through 50 cities, each with depth and a map of 34 classes.

use super::parts::{Sample, Samples};
use super::{Classes, Dataset, File, Names, Opening, Pass, Split, Take};
use crate::error::Result;

/// What the numbers in `label_image` mean.
pub(super) const CLASSES: &[&str] = &[
    "unlabeled",
    "ego vehicle",
    "rectification border",
    "out of roi",
    "static",
    "dynamic",
    "ground",
    "road",
    "sidewalk",
    "parking",
    "rail track",
    "building",
    "wall",
    "fence",
    "guard rail",
    "bridge",
    "tunnel",
    "pole",
    "polegroup",
    "traffic light",
    "traffic sign",
    "vegetation",
    "terrain",
    "sky",
    "person",
    "rider",
    "car",
    "truck",
    "bus",
    "caravan",
    "trailer",
    "train",
    "motorcycle",
    "bicycle",
];

/// The colours of these, as the authors draw them.
pub(super) const COLOURS: &[[u8; 3]] = &[
    [0, 0, 0],
    [0, 0, 0],
    [0, 0, 0],
    [0, 0, 0],
    [0, 0, 0],
    [111, 74, 0],
    [81, 0, 81],
    [128, 64, 128],
    [244, 35, 232],
    [250, 170, 160],
    [230, 150, 140],
    [70, 70, 70],
    [102, 102, 156],
    [190, 153, 153],
    [180, 165, 180],
    [150, 100, 100],
    [150, 120, 90],
    [153, 153, 153],
    [153, 153, 153],
    [250, 170, 30],
    [220, 220, 0],
    [107, 142, 35],
    [152, 251, 152],
    [70, 130, 180],
    [220, 20, 60],
    [255, 0, 0],
    [0, 0, 142],
    [0, 0, 70],
    [0, 60, 100],
    [0, 0, 90],
    [0, 0, 110],
    [0, 80, 100],
    [0, 0, 230],
    [119, 11, 32],
];

/// Cityscapes with fine labels.
pub(super) static CITYSCAPES: Dataset = Dataset {
    name: "Cityscapes",
    title: "5,000 frames of drives through 50 cities with depth and maps of 34 classes",
    notes: "All images are the files of the archives. The authors keep the labels of the test split \
            to themselves: its maps hold what is outside of the picture and nothing else. In their \
            benchmark only 19 classes count, those of the numbers 7, 8, 11 to 13, 17, 19 to 28 and \
            31 to 33.",
    url: "https://www.cityscapes-dataset.com/",
    licence: "terms of use: https://www.cityscapes-dataset.com/license/",
    citation: "Marius Cordts et al.: The Cityscapes Dataset for Semantic Urban Scene \
               Understanding. CVPR 2016",
    files: &[
        File::new("left", "leftImg8bit_trainvaltest.zip").md5("0a6e97e94b616a514066c9e2adb0c97f"),
        File::new("disparity", "disparity_trainvaltest.zip")
            .md5("2c8272766993c983321f34c73daada5c"),
        File::new("gt", "gtFine_trainvaltest.zip").md5("4237c19de34c8a376e9ba46b495d6f66"),
    ],
    splits: &[Split::new("train", 2975), Split::new("val", 500), Split::new("test", 1525)],
    fields: &[
        ("key", "split, city and frame: train/aachen/aachen_000000_000019"),
        ("image", "PNG, RGB, the file of the archive"),
        ("label_image", "PNG, 0 to 33 a pixel, the file of the archive"),
        ("disparity_image", "PNG, 16 bits a pixel, the file of the archive"),
    ],
    classes: &[Classes::new("label_image", Names::List(CLASSES)).colours(COLOURS)],
    takes: &[Take::Shuffle, Take::Weights],
    read,
};

/// How the names of images begin and end, with the key between.
const IMAGE: (&str, &str) = ("leftImg8bit/", "_leftImg8bit.png");

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let [left, labels, disparity] = ["left", "gt", "disparity"].map(|role| opening.zip(role));
    let zips = (left?, labels?, disparity?);
    let splits = CITYSCAPES.splits.iter().filter(|split| opening.wants(split.name));
    let pass = |split: &Split| {
        let zips = zips.clone();
        let keys: Vec<String> = zips.0.names().filter_map(|name| key(name, split.name)).collect();
        let total = keys.len();
        let make = move |key: String| {
            let image = zips.0.read(&format!("{}{key}{}", IMAGE.0, IMAGE.1))?;
            let labels = zips.1.read(&format!("gtFine/{key}_gtFine_labelIds.png"))?;
            let disparity = zips.2.read(&format!("disparity/{key}_disparity.png"))?;
            let sample = Sample::new(key).bytes("image", &image);
            sample.bytes("label_image", &labels).bytes("disparity_image", &disparity).pack()
        };
        Pass::new(split, Samples::new(opening.options.order(keys), make)).total(total)
    };
    Ok(splits.map(pass).collect())
}

/// The key of an image of this split.
fn key(name: &str, split: &str) -> Option<String> {
    let key = name.strip_prefix(IMAGE.0)?.strip_suffix(IMAGE.1)?;
    key.strip_prefix(split)?.starts_with('/').then(|| key.to_owned())
}
