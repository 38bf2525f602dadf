//! Pascal VOC 2012: photos, each with a map of 20 kinds of objects.

use super::parts::{Sample, Samples, TarIndex, decode_rgb, encode_map, numbers_of_colours};
use super::{Classes, Dataset, File, Names, Opening, Pass, Split, Take};
use crate::error::{Error, ErrorKind, Result};

/// What the numbers in `label_image` mean.
pub(super) const CLASSES: &[&str] = &[
    "background",
    "aeroplane",
    "bicycle",
    "bird",
    "boat",
    "bottle",
    "bus",
    "car",
    "cat",
    "chair",
    "cow",
    "diningtable",
    "dog",
    "horse",
    "motorbike",
    "person",
    "pottedplant",
    "sheep",
    "sofa",
    "train",
    "tvmonitor",
];

/// The colours of these, as the development kit counts them out.
pub(super) const COLOURS: &[[u8; 3]] = &[
    [0, 0, 0],
    [128, 0, 0],
    [0, 128, 0],
    [128, 128, 0],
    [0, 0, 128],
    [128, 0, 128],
    [0, 128, 128],
    [128, 128, 128],
    [64, 0, 0],
    [192, 0, 0],
    [64, 128, 0],
    [192, 128, 0],
    [64, 0, 128],
    [192, 0, 128],
    [64, 128, 128],
    [192, 128, 128],
    [0, 64, 0],
    [128, 64, 0],
    [0, 192, 0],
    [128, 192, 0],
    [0, 64, 128],
];

/// How many training images each class would fill.
const COUNTS: [f64; 21] = [
    1096.41576898,
    10.3095622192,
    4.12905110457,
    12.0429902908,
    8.58478973106,
    8.43477098778,
    24.74073322,
    19.9420767928,
    37.4964065785,
    16.051006968,
    11.7559521937,
    18.2245417825,
    23.5776165031,
    12.9779183112,
    15.8809800135,
    66.9628144956,
    9.05575018634,
    12.3852355498,
    20.2024935412,
    22.2167849844,
    12.6127555631,
];

/// The segmentation task of Pascal VOC 2012.
pub(super) static VOC2012: Dataset = Dataset {
    name: "VOC2012",
    title: "2,913 photos with maps of 20 kinds of objects",
    notes: "Colours of the maps become numbers. As in Python, the pale border around objects, which \
            the authors leave out of account, becomes background.",
    url: "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/",
    licence: "terms of use of Flickr: http://host.robots.ox.ac.uk/pascal/VOC/voc2012/#rights",
    citation: "M. Everingham et al.: The PASCAL Visual Object Classes Challenge 2012 (VOC2012) \
               Results. http://host.robots.ox.ac.uk/pascal/VOC/voc2012/",
    files: &[File::new("trainval", "VOCtrainval_11-May-2012.tar")
        .url("https://thor.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar")
        .md5("6cd6e144f989b92b3379bac3b3de84fd")
        .size(1_999_639_040)],
    splits: &[Split::new("train", 1464), Split::new("val", 1449)],
    fields: &[
        ("key", "the name of the photo without .jpg"),
        ("image", "JPEG, the file of the archive"),
        ("label_image", "PNG, 0 to 20 a pixel"),
    ],
    classes: &[Classes::new("label_image", Names::List(CLASSES))
        .colours(COLOURS)
        .counts(|| (0..).zip(COUNTS).collect())],
    takes: &[Take::Shuffle, Take::Weights],
    read,
};

/// The folder in the archive.
const ROOT: &str = "VOCdevkit/VOC2012";

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let tar = TarIndex::open(opening.path("trainval"), opening.options.limits)?;
    let splits = VOC2012.splits.iter().filter(|split| opening.wants(split.name));
    splits.map(|split| pass(split, opening, &tar)).collect()
}

fn pass(split: &Split, opening: &Opening<'_>, tar: &TarIndex) -> Result<Pass> {
    let list = format!("{ROOT}/ImageSets/Segmentation/{}.txt", split.name);
    let names = String::from_utf8(tar.read(&list)?).map_err(|_| {
        let message = format!("file {list:?}: expected UTF-8 text, found other bytes");
        Error::new(ErrorKind::Damaged, message).at(tar.path())
    })?;
    let names = names.lines().map(str::trim).filter(|name| !name.is_empty());
    let names: Vec<String> = names.map(str::to_owned).collect();
    let (total, tar, limits) = (names.len(), tar.clone(), opening.options.limits);
    let colours: Vec<([u8; 3], u8)> = COLOURS.iter().copied().zip(0..).collect();
    let make = move |name: String| {
        let image = tar.read(&format!("{ROOT}/JPEGImages/{name}.jpg"))?;
        let map = tar.read(&format!("{ROOT}/SegmentationClass/{name}.png"))?;
        let map = decode_rgb(&map, limits).map_err(|error| error.at(tar.path()).with_key(&name))?;
        let classes = numbers_of_colours(&map, &colours, 0);
        let map = encode_map(map.width, map.height, &classes)?;
        Sample::new(name).bytes("image", &image).bytes("label_image", &map).pack()
    };
    Ok(Pass::new(split, Samples::new(opening.options.order(names), make)).total(total))
}
