//! ADE20k: photos of scenes, each with maps of more than 3,000 kinds of objects and their parts.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::parts::{Sample, Samples, Zip, counts as table, decode_rgb, encode_map16, lines};
use super::{Classes, Dataset, File, Names, Opening, Pass, Split, Take};
use crate::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::format::mat::MatFile;

/// ADE20k, as of July 2016.
pub(super) static ADE20K: Dataset = Dataset {
    name: "ADE20k",
    title: "22,210 photos of 872 scenes with maps of objects and their parts",
    notes: "Maps are of 16 bits: the numbers come from the index in the archive, which has the \
            names. Which instance of an object a pixel belongs to is left out, as in Python.",
    url: "http://groups.csail.mit.edu/vision/datasets/ADE20K",
    licence: "terms of use: http://groups.csail.mit.edu/vision/datasets/ADE20K/terms/",
    citation: "Bolei Zhou et al.: Scene Parsing through ADE20K Dataset. CVPR 2017",
    files: &[File::new("all", "ADE20K_2016_07_26.zip")
        .url("http://groups.csail.mit.edu/vision/datasets/ADE20K/ADE20K_2016_07_26.zip")
        .md5("5d125f9457b1a3990adb96de45d03f60")],
    splits: &[Split::new("training", 20_210), Split::new("validation", 2000)],
    fields: &[
        ("key", "the name of the photo"),
        ("image", "JPEG, the file of the archive"),
        ("label", "the scene, 0 to 871"),
        ("label_image", "PNG of 16 bits, the kind of object a pixel"),
        ("parts_images", "a list of the same of parts, parts of parts, and so on"),
    ],
    classes: &[
        Classes::new("label", Names::Table(scenes)),
        Classes::new("label_image", Names::Unknown).counts(counts),
    ],
    takes: &[Take::Shuffle, Take::Weights, Take::SceneLabels],
    read,
};

/// The names of the scenes.
pub(super) fn scenes() -> Vec<String> {
    lines(include_bytes!("data/segmentation/scenes.txt.gz"))
}

/// How many training images each kind of object or part would fill, but for those that are not
/// there.
pub(super) fn counts() -> Vec<(u16, f64)> {
    table(include_bytes!("data/segmentation/ade20k_counts.txt.gz"))
}

/// The folder in the archive.
const ROOT: &str = "ADE20K_2016_07_26";

/// A photo and its maps in the archive.
#[derive(Clone)]
struct Item {
    key: String,
    image: String,
    label: usize,
    map: String,
    parts: Vec<String>,
}

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let zip = opening.zip("all")?;
    let index = Index::read(&zip).map_err(|error| error.at(zip.path()))?;
    let splits = ADE20K.splits.iter().filter(|split| opening.wants(split.name));
    splits.map(|split| pass(split, opening, &zip, &index)).collect()
}

/// The index in the archive: scenes, numbered in the order of their names.
struct Index {
    scenes: Vec<String>,
    /// The number of the scene of each photo.
    labels: HashMap<String, usize>,
}

impl Index {
    fn read(zip: &Zip) -> Result<Index> {
        let bytes = zip.read(&format!("{ROOT}/index_ade20k.mat"))?;
        let file = MatFile::parse(&bytes)?;
        let index = file.get("index")?;
        let (photos, scenes) =
            (index.field("filename")?.strings()?, index.field("scene")?.strings()?);
        if let Some(scene) = scenes.iter().find(|scene| scene.contains(['\n', '\r'])) {
            let message = format!("expected a scene with a name of one line, found {scene:?}");
            return Err(Error::new(ErrorKind::Damaged, message));
        }
        let sorted: BTreeSet<&str> = scenes.iter().map(String::as_str).collect();
        let numbers: HashMap<&str, usize> = sorted.iter().copied().zip(0..).collect();
        let labels = scenes.iter().map(|scene| numbers[scene.as_str()]);
        let labels = photos.into_iter().zip(labels).collect();
        Ok(Index { labels, scenes: sorted.into_iter().map(str::to_owned).collect() })
    }
}

fn pass(split: &Split, opening: &Opening<'_>, zip: &Zip, index: &Index) -> Result<Pass> {
    let names: Vec<&str> = zip.names().filter(|name| name.contains(split.name)).collect();
    let known: HashSet<&str> = names.iter().copied().collect();
    let photos = names.iter().filter_map(|name| name.strip_suffix(".jpg"));
    let item = |stem: &str| {
        let key = format!("{}.jpg", stem.rsplit('/').next().unwrap_or(stem));
        let part = |number| format!("{stem}_parts_{number}.png");
        let parts = (1..).map(part).take_while(|part| known.contains(part.as_str())).collect();
        let Some(&label) = index.labels.get(&key) else {
            let message = "expected the scene of the photo in the index, found none";
            return Err(Error::new(ErrorKind::Damaged, message).at(zip.path()).with_key(key));
        };
        let (image, map) = (format!("{stem}.jpg"), format!("{stem}_seg.png"));
        Ok(Item { key, image, label, map, parts })
    };
    let items: Vec<Item> = photos.map(item).collect::<Result<_>>()?;
    let (total, zip) = (items.len(), zip.clone());
    let make = move |item: Item| {
        let image = zip.read(&item.image)?;
        let map = object_map(&zip, &item.map)?;
        let parts = item.parts.iter().map(|part| object_map(&zip, part).map(Value::from));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let sample = Sample::new(item.key).bytes("image", &image).value("label", item.label);
        sample.bytes("label_image", &map).value("parts_images", parts).pack()
    };
    let samples = Samples::new(opening.options.order(items), make);
    Ok(Pass::new(split, samples).total(total).labels(index.scenes.clone()))
}

/// Red and green of a map are the number of the object, blue would be the instance.
fn object_map(zip: &Zip, name: &str) -> Result<Vec<u8>> {
    let map = decode_rgb(&zip.read(name)?, zip.limits());
    let map = map.map_err(|error| error.at(zip.path()).with_key(name))?;
    let number = |pixel: &[u8]| u16::from(pixel[0] / 10) * 256 + u16::from(pixel[1]);
    let numbers: Vec<u16> = map.pixels.chunks_exact(3).map(number).collect();
    encode_map16(map.width, map.height, &numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_whole() {
        let scenes = scenes();
        assert!(scenes.len() == 872 && scenes.is_sorted());
        assert_eq!((&*scenes[0], &*scenes[871]), ("abbey", "~not labeled"));
        let counts = counts();
        assert_eq!((counts.len(), counts[1]), (2603, (1, 0.07292397660818714)));
    }
}
