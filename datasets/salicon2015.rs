//! SALICON as of 2015: where people moved the mouse on photos that were sharp only around it.

use super::parts::{Sample, Samples, Zip, gaze};
use super::{Dataset, File, Opening, Pass, Split, Take};
use crate::Value;
use crate::error::Result;
use crate::format::mat::{MatFile, Record};

/// SALICON as of 2015.
pub(super) static SALICON2015: Dataset = Dataset {
    name: "SALICON2015",
    title: "20,000 photos of MS COCO, and where people moved a mouse that makes them sharp",
    notes: "The folder of an image is its split. Participants used a mouse, not \
            their eyes; this is the data of the challenge of 2015.",
    url: "http://salicon.net/challenge-2015/",
    licence: "MS COCO for the photos, else not stated",
    citation: CITATION,
    files: &[IMAGES, FIXATIONS_2015],
    splits: SPLITS,
    fields: FIELDS,
    classes: &[],
    takes: &[Take::Shuffle],
    read,
};

pub(super) const CITATION: &str = "Ming Jiang, Shengsheng Huang, Juanyong Duan and Qi Zhao: \
                                   SALICON: Saliency in Context. CVPR 2015";

/// Without the end of the address, Google asks people whether they really want so large a file.
pub(super) const IMAGES: File = File::new("images", "image.zip")
    .url(
        "https://drive.usercontent.google.com/download?\
         id=1g8j-hTT-51IG1UFwP0xTGhLdgIUCW5e5&export=download&confirm=t",
    )
    .md5("eb2a1bb706633d1b31fc2e01422c5757");

const FIXATIONS_2015: File = File::new("fixations", "fixations.zip")
    .url(
        "https://drive.usercontent.google.com/download?\
         id=0B2hsWbciDVedWHFiMUVVWFRZTE0&export=download&confirm=t",
    )
    .md5("9a22db9d718200fb90252e5010c004c4");

pub(super) const SPLITS: &[Split] =
    &[Split::new("train", 10_000), Split::new("val", 5_000), Split::new("test", 5_000)];

pub(super) const FIELDS: &[(&str, &str)] = &[
    ("key", "the name in the archive, without images/ and .jpg"),
    ("image", "JPEG, as it is in the archive"),
    (
        "experiments",
        "one for each person, none in test: locations (n x 2, <f4: x, y), map (nil), timestamps \
         (n, <f4), fixations (m x 2, <f4: x, y)",
    ),
];

/// Reads the data of any year: the layout is the same.
pub(super) fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let images = opening.zip("images")?;
    let fixations = opening.zip("fixations")?;
    let splits = opening.dataset.splits.iter().filter(|split| opening.wants(split.name));
    Ok(splits.map(|split| pass(opening, split, images.clone(), fixations.clone())).collect())
}

fn pass(opening: &Opening<'_>, split: &Split, images: Zip, fixations: Zip) -> Pass {
    let keys = images.names().filter_map(key).filter(|key| key.starts_with(split.name));
    let keys: Vec<String> = keys.map(str::to_owned).collect();
    let total = keys.len();
    let make = move |key: String| {
        let image = images.read(&format!("images/{key}.jpg"))?;
        let people = gaze::read_with(&fixations, &format!("{key}.mat"), people)?;
        Sample::new(key).bytes("image", &image).value("experiments", people).pack()
    };
    Pass::new(split, Samples::new(opening.options.order(keys), make)).total(total)
}

/// The key of an image: `train/COCO_train2014_000000000009`.
fn key(name: &str) -> Option<&str> {
    name.strip_prefix("images/")?.strip_suffix(".jpg")
}

/// All that took part, be they in a row or a column. The files of the test set have none.
fn people(bytes: &[u8]) -> Result<Vec<Value>> {
    let file = MatFile::parse(bytes)?;
    if !file.variables().iter().any(|variable| variable.name() == "gaze") {
        return Ok(Vec::new());
    }
    file.get("gaze")?.structs()?.iter().map(person).collect()
}

fn person(person: Record<'_>) -> Result<Value> {
    let timestamps = person.field("timestamp")?.numbers::<f32>()?;
    let timestamps: Vec<f32> = timestamps.into_iter().collect();
    Ok(gaze::map([
        ("locations", gaze::points(person.field("location")?)?),
        ("map", Value::Nil),
        ("timestamps", gaze::array(&ndarray::Array1::from(timestamps))),
        ("fixations", gaze::points(person.field("fixations")?)?),
    ]))
}
