//! CIFAR-100: 60,000 small photos in 100 classes, which belong to 20 coarse ones.

use super::cifar10::Rows;
use super::{Classes, Dataset, File, Names, Opening, Pass, Split, Take};
use crate::error::Result;

/// The names of the labels.
pub(super) const CLASSES: &[&str] = &[
    "apple",
    "aquarium_fish",
    "baby",
    "bear",
    "beaver",
    "bed",
    "bee",
    "beetle",
    "bicycle",
    "bottle",
    "bowl",
    "boy",
    "bridge",
    "bus",
    "butterfly",
    "camel",
    "can",
    "castle",
    "caterpillar",
    "cattle",
    "chair",
    "chimpanzee",
    "clock",
    "cloud",
    "cockroach",
    "couch",
    "crab",
    "crocodile",
    "cup",
    "dinosaur",
    "dolphin",
    "elephant",
    "flatfish",
    "forest",
    "fox",
    "girl",
    "hamster",
    "house",
    "kangaroo",
    "keyboard",
    "lamp",
    "lawn_mower",
    "leopard",
    "lion",
    "lizard",
    "lobster",
    "man",
    "maple_tree",
    "motorcycle",
    "mountain",
    "mouse",
    "mushroom",
    "oak_tree",
    "orange",
    "orchid",
    "otter",
    "palm_tree",
    "pear",
    "pickup_truck",
    "pine_tree",
    "plain",
    "plate",
    "poppy",
    "porcupine",
    "possum",
    "rabbit",
    "raccoon",
    "ray",
    "road",
    "rocket",
    "rose",
    "sea",
    "seal",
    "shark",
    "shrew",
    "skunk",
    "skyscraper",
    "snail",
    "snake",
    "spider",
    "squirrel",
    "streetcar",
    "sunflower",
    "sweet_pepper",
    "table",
    "tank",
    "telephone",
    "television",
    "tiger",
    "tractor",
    "train",
    "trout",
    "tulip",
    "turtle",
    "wardrobe",
    "whale",
    "willow_tree",
    "wolf",
    "woman",
    "worm",
];

/// The names of the coarse labels.
pub(super) const COARSE_CLASSES: &[&str] = &[
    "aquatic_mammals",
    "fish",
    "flowers",
    "food_containers",
    "fruit_and_vegetables",
    "household_electrical_devices",
    "household_furniture",
    "insects",
    "large_carnivores",
    "large_man-made_outdoor_things",
    "large_natural_outdoor_scenes",
    "large_omnivores_and_herbivores",
    "medium_mammals",
    "non-insect_invertebrates",
    "people",
    "reptiles",
    "small_mammals",
    "trees",
    "vehicles_1",
    "vehicles_2",
];

/// CIFAR-100.
pub(super) static CIFAR100: Dataset = Dataset {
    name: "CIFAR100",
    title: "60,000 photos of 32 x 32 pixels in 100 classes, and 20 coarse ones",
    notes: "Some names of files occur several times. From the second time on the number of times is \
            put behind the name, as in \"name.png2\".",
    url: "https://www.cs.toronto.edu/~kriz/cifar.html",
    licence: "not stated by its authors",
    citation: "Alex Krizhevsky: Learning Multiple Layers of Features from Tiny Images. \
               Technical report, University of Toronto, 2009",
    files: &[File::new("all", "cifar-100-python.tar.gz")
        .url("https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz")
        .md5("eb9058c3a382ffc7106e4002c42a8d85")
        .size(169_001_437)],
    splits: &[Split::new("train", 50_000), Split::new("test", 10_000)],
    fields: &[
        ("key", "the name of the image file"),
        ("image", "PNG, 32 x 32, RGB"),
        ("label", "0 to 99"),
        ("coarse_label", "0 to 19"),
    ],
    classes: &[
        Classes::new("label", Names::List(CLASSES)),
        Classes::new("coarse_label", Names::List(COARSE_CLASSES)),
    ],
    takes: &[Take::Shuffle],
    read,
};

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let splits = CIFAR100.splits.iter().filter(|split| opening.wants(split.name));
    let pass = |split: &Split| {
        let file = format!("cifar-100-python/{}", split.name);
        let rows = Rows::read(opening, &[file], &["fine_labels", "coarse_labels"])?;
        Ok(rows.pass(split, opening, &["label", "coarse_label"], key))
    };
    splits.map(pass).collect()
}

fn key(filename: &str, times: usize) -> String {
    match times {
        1 => filename.to_owned(),
        times => format!("{filename}{times}"),
    }
}
