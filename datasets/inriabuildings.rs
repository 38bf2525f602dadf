//! Inria Aerial Image Labeling: cities from the air, with maps of their buildings.

use std::path::{Path, PathBuf};

use super::parts::{
    Emit, Image, Limits, Raster, Sample, Samples, Subsampling, Tile, encode_jpeg, encode_map,
    tiles, whole,
};
use super::{Classes, Dataset, File, Names, Opening, Pass, Split, Take};
use crate::error::{Error, ErrorKind, Result};

/// What the numbers in `label_image` mean.
pub(super) const CLASSES: &[&str] = &["background", "building"];

/// The pixels a side of a tile.
pub(super) const CROP_SIZE: usize = 384;

/// The pixels a side of a picture.
pub(super) const IMAGE_SIZE: usize = 5000;

const TRAIN: [&str; 5] = ["vienna", "kitsap", "tyrol-w", "chicago", "austin"];
const TEST: [&str; 5] = ["bellingham", "bloomington", "innsbruck", "sfo", "tyrol-e"];

/// How many tiles there are in a picture.
const TILES: u64 = ((IMAGE_SIZE / CROP_SIZE) * (IMAGE_SIZE / CROP_SIZE)) as u64;

/// Inria Aerial Image Labeling.
pub(super) static INRIABUILDINGS: Dataset = Dataset {
    name: "InriaBuildings",
    title: "360 pictures of cities from the air with maps of their buildings",
    notes: "The folder AerialImageDataset comes from NEW2-AerialImageDataset.zip (MD5 \
            4b1acfe84ae9961edc1a6049f940380f), unpacked. Images become JPEG of quality 95. \
            Training images are samples as they are; those for validation, the first five of each \
            city, and for testing are cut into tiles of 384 pixels a side, and what is left over at \
            the right and at the bottom is left out. Python writes maps in which only the first \
            eighth of the rows is left, and nothing of that in its place; here they are whole.",
    url: "https://project.inria.fr/aerialimagelabeling/",
    licence: "not stated by its authors",
    citation: "Emmanuel Maggiori et al.: Can Semantic Labeling Methods Generalize to Any City? The \
               Inria Aerial Image Labeling Benchmark. IGARSS 2017",
    files: &[File::new("all", "AerialImageDataset")],
    splits: &[
        Split::new("train", 155),
        Split::new("val", 25 * TILES),
        Split::new("test", 180 * TILES).unlabelled(),
    ],
    fields: &[
        ("key", "the name of the file: austin6.tif, of tiles with their number: austin1.tif_0"),
        ("image", "JPEG, RGB"),
        ("label_image", "PNG, 0 or 1 a pixel; test has none"),
    ],
    classes: &[Classes::new("label_image", Names::List(CLASSES))],
    takes: &[Take::Weights],
    read,
};

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let root = opening.path("all");
    let splits = INRIABUILDINGS.splits.iter().filter(|split| opening.wants(split.name));
    let limits = opening.options.limits;
    let pass = |split: &Split| match split.name {
        "train" => {
            let make = |picture: Picture| {
                let tile = whole(picture.image.height, picture.image.width);
                picture.tile(picture.name.clone(), &tile)?.pack()
            };
            let pictures = Files::of(&root, "train", &TRAIN, 6..=36);
            let samples = Samples::new(pictures, move |files: Files| make(files.open(limits)?));
            // A picture takes 75 MB.
            Pass::new(split, samples.batch(1))
        }
        "val" => Pass::new(split, in_tiles(Files::of(&root, "train", &TRAIN, 1..=5), limits)),
        _ => Pass::new(split, in_tiles(Files::of(&root, "test", &TEST, 1..=36), limits)),
    };
    Ok(splits.map(pass).collect())
}

/// Samples of the tiles of pictures. Each picture is a unit.
fn in_tiles(pictures: Vec<Files>, limits: Limits) -> Samples {
    let read = move |files: &Files, emit: &mut Emit<'_, Item>| {
        let picture = files.open(limits)?;
        let (height, width) = (picture.image.height, picture.image.width);
        for (number, tile) in tiles(height, width, CROP_SIZE).enumerate() {
            // Those that are too small count, but are left out.
            if tile.height() == CROP_SIZE && tile.width() == CROP_SIZE {
                emit(picture.tile(format!("{}_{number}", picture.name), &tile)?)?;
            }
        }
        Ok(())
    };
    Samples::streams(pictures, read, |item: Item| item.pack())
}

/// Where a picture and its map are.
#[derive(Clone)]
struct Files {
    name: String,
    image: PathBuf,
    map: Option<PathBuf>,
}

impl Files {
    /// Those of these cities with these numbers. There are no maps of the test split.
    fn of(
        root: &Path,
        split: &str,
        cities: &[&str],
        numbers: std::ops::RangeInclusive<u32>,
    ) -> Vec<Files> {
        let root = root.join(split);
        let files = |name: String| Files {
            image: root.join("images").join(&name),
            map: (split == "train").then(|| root.join("gt").join(&name)),
            name,
        };
        let names = cities.iter().flat_map(|city| {
            let numbers = numbers.clone();
            numbers.map(move |number| format!("{city}{number}.tif"))
        });
        names.map(files).collect()
    }

    fn open(&self, limits: Limits) -> Result<Picture> {
        let bands = |path: &Path, least: usize| {
            let raster = Raster::open_bytes(path, limits)?;
            if raster.bands < least {
                let message = format!("expected {least} bands, found {}", raster.bands);
                return Err(Error::new(ErrorKind::Damaged, message).at(path));
            }
            Ok(raster)
        };
        let image = bands(&self.image, 3)?;
        let map = self.map.as_deref().map(|path| bands(path, 1)).transpose()?;
        if let (Some(map), Some(path)) = (&map, &self.map) {
            if (map.height, map.width) != (image.height, image.width) {
                let (height, width) = (image.height, image.width);
                let found = format!("found {} x {}", map.height, map.width);
                let message = format!("expected a map of {height} x {width} pixels, {found}");
                return Err(Error::new(ErrorKind::Damaged, message).at(path));
            }
        }
        Ok(Picture { name: self.name.clone(), image, map })
    }
}

/// A picture and its map.
struct Picture {
    name: String,
    image: Raster<u8>,
    map: Option<Raster<u8>>,
}

impl Picture {
    fn tile(&self, key: String, tile: &Tile) -> Result<Item> {
        let (width, height) = (tile.width() as u32, tile.height() as u32);
        let mut pixels = self.image.pixels(tile);
        if self.image.bands > 3 {
            pixels = pixels.chunks_exact(self.image.bands).flat_map(|p| &p[..3]).copied().collect();
        }
        let image = Image::new(width, height, 3, pixels)?;
        let map = self
            .map
            .as_ref()
            .map(|map| map.band(tile).into_iter().map(|value| u8::from(value == 255)).collect());
        Ok(Item { key, image, map })
    }
}

/// A sample, not yet encoded.
struct Item {
    key: String,
    image: Image,
    map: Option<Vec<u8>>,
}

impl Item {
    fn pack(&self) -> Result<Vec<u8>> {
        let image = encode_jpeg(&self.image, 95, Subsampling::S444)?;
        let (width, height) = (self.image.width, self.image.height);
        let map = self.map.as_ref().map(|map| encode_map(width, height, map)).transpose()?;
        let sample = Sample::new(&self.key).bytes("image", &image);
        match &map {
            Some(map) => sample.bytes("label_image", map).pack(),
            None => sample.pack(),
        }
    }
}
