//! ISPRS Vaihingen: a village from the air in infrared, with heights and maps of six classes.

use std::path::{Path, PathBuf};

use super::parts::{
    Emit, Image, Limits, Raster, Sample, Samples, Tile, numbers_of_colours, tiles, whole,
};
use super::{Classes, Dataset, File, Names, Opening, Pass, Split, Take};
use crate::error::{Error, ErrorKind, Result};
use crate::value::{DType, NdArray};

/// What the numbers in `label_image` mean.
pub(super) const CLASSES: &[&str] = &[
    "Impervious surfaces",
    "Buildings",
    "Low vegetation",
    "Tree",
    "Car",
    "Clutter",
    "Unclassified",
];

/// The colours of these.
pub(super) const COLOURS: &[[u8; 3]] = &[
    [255, 255, 255],
    [0, 0, 255],
    [0, 255, 255],
    [0, 255, 0],
    [255, 255, 0],
    [255, 0, 0],
    [0, 0, 0],
];

/// The pixels a side of a tile.
pub(super) const CROP_SIZE: usize = 384;

const TRAIN: [u32; 11] = [1, 3, 5, 7, 13, 17, 21, 23, 26, 32, 37];
const VAL: [u32; 5] = [11, 15, 28, 30, 34];

/// ISPRS Vaihingen.
pub(super) static VAIHINGEN: Dataset = Dataset {
    name: "Vaihingen",
    title: "16 pictures of a village from the air in infrared with heights and maps of six classes",
    notes: "The folder ISPRS_semantic_labeling_Vaihingen comes from the zip file of this name (MD5 \
            462b8dca7b6fa9eaf729840f0cdfc7f3), unpacked. Images, labels and \
            masks are arrays. What is called mask are the heights, in whole metres. Pictures for \
            validation are cut into tiles of 384 pixels a side, smaller ones at the right and at \
            the bottom. Python looks for heights in files of another name than they have.",
    url: "https://www.isprs.org/education/benchmarks/UrbanSemLab/2d-sem-label-vaihingen.aspx",
    licence: "on request: see its page",
    citation: "Franz Rottensteiner et al.: The ISPRS Benchmark on Urban Object Classification and \
               3D Building Reconstruction. ISPRS Annals, 2012",
    files: &[File::new("all", "ISPRS_semantic_labeling_Vaihingen")],
    splits: &[
        Split::new("train", 11).file("Vaihingen_train"),
        Split::uncounted("val").file("Vaihingen_val"),
    ],
    fields: &[
        ("key", "the name of the file: top_mosaic_09cm_area1.tif, of tiles with their number"),
        ("image", "array of uint8, 3 bands x height x width: infrared, red and green"),
        ("label_image", "array of int64, height x width, 0 to 6"),
        ("mask", "array of int32, height x width: heights"),
    ],
    classes: &[Classes::new("label_image", Names::List(CLASSES)).colours(COLOURS)],
    takes: &[Take::Weights],
    read,
};

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let splits = VAIHINGEN.splits.iter().filter(|split| opening.wants(split.name));
    let pass = |split: &Split| {
        let (root, train) = (opening.path("all"), split.name == "train");
        let limits = opening.options.limits;
        let areas = if train { &TRAIN[..] } else { &VAL[..] };
        let read = move |area: &u32, emit: &mut Emit<'_, Item>| {
            let picture = Picture::open(&root, *area, limits)?;
            let (height, width) = (picture.image.height, picture.image.width);
            if train {
                return emit(picture.tile(picture.name.clone(), &whole(height, width)));
            }
            tiles(height, width, CROP_SIZE).enumerate().try_for_each(|(number, tile)| {
                emit(picture.tile(format!("{}_{number}", picture.name), &tile))
            })
        };
        let samples = Samples::streams(areas.to_vec(), read, |item: Item| item.pack());
        Pass::new(split, samples.batch(4))
    };
    Ok(splits.map(pass).collect())
}

/// A picture, its classes and its heights.
struct Picture {
    name: String,
    image: Raster<u8>,
    classes: Raster<u8>,
    heights: Raster<i32>,
}

impl Picture {
    fn open(root: &Path, area: u32, limits: Limits) -> Result<Picture> {
        let name = format!("top_mosaic_09cm_area{area}.tif");
        let path = root.join("gts_for_participants").join(&name);
        let colours = Raster::open_bytes(&path, limits)?;
        if colours.bands != 3 {
            let message = format!("expected colours of 3 bands, found {}", colours.bands);
            return Err(Error::new(ErrorKind::Damaged, message).at(path));
        }
        let picture = Picture {
            image: Raster::open_bytes(&root.join("top").join(&name), limits)?,
            classes: classes(colours)?,
            heights: Raster::open_integers(&heights(root, area), limits)?,
            name,
        };
        let size = (picture.image.height, picture.image.width);
        for found in [
            (picture.classes.height, picture.classes.width),
            (picture.heights.height, picture.heights.width),
        ] {
            if found != size {
                let message = format!(
                    "{}: expected a map and heights of {size:?} pixels, found {found:?}",
                    picture.name
                );
                return Err(Error::new(ErrorKind::Damaged, message).at(root));
            }
        }
        Ok(picture)
    }

    fn tile(&self, key: String, tile: &Tile) -> Item {
        Item {
            key,
            shape: [self.image.bands, tile.height(), tile.width()],
            image: self.image.planes(tile),
            labels: self.classes.band(tile),
            heights: self.heights.band(tile),
        }
    }
}

/// The file of heights: as the authors call it, or as Python does.
fn heights(root: &Path, area: u32) -> PathBuf {
    let dir = root.join("dsm");
    let python = dir.join(format!("dsm_mosaic_09cm_area{area}.tif"));
    let authors = dir.join(format!("dsm_09cm_matching_area{area}.tif"));
    if !authors.exists() && python.exists() { python } else { authors }
}

/// Colours that are of no class count as the first one, as in Python.
fn classes(colours: Raster<u8>) -> Result<Raster<u8>> {
    let numbers: Vec<([u8; 3], u8)> = COLOURS.iter().copied().zip(0..).collect();
    let Raster { height, width, values, .. } = colours;
    let image = Image::new(width as u32, height as u32, 3, values)?;
    Ok(Raster { bands: 1, height, width, values: numbers_of_colours(&image, &numbers, 0) })
}

/// A sample, not yet packed.
struct Item {
    key: String,
    /// Bands, height and width.
    shape: [usize; 3],
    image: Vec<u8>,
    labels: Vec<u8>,
    heights: Vec<i32>,
}

impl Item {
    fn pack(&self) -> Result<Vec<u8>> {
        let plane = &self.shape[1..];
        let labels: Vec<u8> =
            self.labels.iter().flat_map(|&label| i64::from(label).to_le_bytes()).collect();
        let heights: Vec<u8> =
            self.heights.iter().flat_map(|height| height.to_le_bytes()).collect();
        let dtype = |name: &str| name.parse::<DType>();
        Sample::new(&self.key)
            .array("image", NdArray::new(dtype("|u1")?, self.shape, &self.image[..])?)
            .array("label_image", NdArray::new(dtype("<i8")?, plane, labels)?)
            .array("mask", NdArray::new(dtype("<i4")?, plane, heights)?)
            .pack()
    }
}
