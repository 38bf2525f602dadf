//! RIT-18: a lake from the air in six bands, with maps of 18 classes.

use std::path::Path;

use ndarray::{ArrayD, Axis, Slice};

use super::parts::{Sample, Samples, Tile, tiles, whole};
use super::{Classes, Dataset, File, Names, Opening, Pass, Split, Take};
use crate::error::{Error, ErrorKind, Result};
use crate::format::mat::MatFile;
use crate::storage::{LocalStorage, Storage};
use crate::value::{Element, NdArray};

/// What the numbers in `label_image` mean.
pub(super) const CLASSES: &[&str] = &[
    "0. Other Class/Image Border",
    "1. Road Markings",
    "2. Tree",
    "3. Building",
    "4. Vehicle (Car, Truck, or Bus)",
    "5. Person",
    "6. Lifeguard Chair",
    "7. Picnic Table",
    "8. Black Wood Panel",
    "9. White Wood Panel",
    "10. Orange Landing Pad",
    "11. Water Buoy",
    "12. Rocks",
    "13. Other Vegetation",
    "14. Grass",
    "15. Sand",
    "16. Water (Lake)",
    "17. Water (Pond)",
    "18. Asphalt (Parking Lot/Walkway)",
];

/// The pixels a side of a tile.
pub(super) const CROP_SIZE: usize = 384;

/// How many bands an image has. One more in the file is the mask.
pub(super) const BANDS: usize = 6;

/// RIT-18.
pub(super) static RIT18: Dataset = Dataset {
    name: "RIT18",
    title: "a lake from the air in six bands with maps of 18 classes",
    notes: "Images, labels and masks are arrays. The training image is one sample, that for \
            validation is cut into tiles of 384 pixels a side, smaller ones at the right and at the \
            bottom. There is a test image without labels, which is left out, as in Python.",
    url: "https://github.com/rmkemker/RIT-18",
    licence: "not stated by its authors",
    citation: "Ronald Kemker, Carl Salvaggio, Christopher Kanan: Algorithms for Semantic \
               Segmentation of Multispectral Remote Sensing Imagery using Deep Learning. ISPRS \
               Journal of Photogrammetry and Remote Sensing, 2018",
    files: &[File::new("mat", "rit18_data.mat")
        .url("http://www.cis.rit.edu/~rmk6217/rit18_data.mat")
        .md5("783ffe651310352e9c09b8ac389876c7")],
    splits: &[Split::new("train", 1), Split::new("val", 24 * 19)],
    fields: &[
        ("key", "train, or val_ and the number of the tile"),
        ("image", "array of uint16, 6 bands x height x width"),
        ("label_image", "array of int64, height x width, 0 to 18"),
        ("mask", "array of uint8, height x width, 0 where there is no image"),
    ],
    classes: &[Classes::new("label_image", Names::List(CLASSES))],
    takes: &[Take::Weights],
    read,
};

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let splits = RIT18.splits.iter().filter(|split| opening.wants(split.name));
    let pass = |split: &Split| {
        let (path, name) = (opening.path("mat"), split.name);
        let samples = Samples::stream(
            move |emit| {
                let data: ArrayD<u16> = numbers(&path, &format!("{name}_data"))?;
                let labels: ArrayD<i64> = numbers(&path, &format!("{name}_labels"))?;
                let (height, width) = match (data.shape(), labels.shape()) {
                    (&[bands, h, w], &[rows, columns])
                        if (rows, columns) == (h, w) && bands > BANDS =>
                    {
                        (h, w)
                    }
                    (data, labels) => {
                        let message = format!(
                            "expected {name}_data of 7 x height x width and {name}_labels of \
                             height x width, found {data:?} and {labels:?}"
                        );
                        return Err(Error::new(ErrorKind::Damaged, message).at(&path));
                    }
                };
                if name == "train" {
                    return emit(Item::cut(name.to_owned(), &data, &labels, &whole(height, width)));
                }
                tiles(height, width, CROP_SIZE).enumerate().try_for_each(|(index, tile)| {
                    emit(Item::cut(format!("{name}_{index}"), &data, &labels, &tile))
                })
            },
            |item: Item| item.pack(),
        );
        // A sample may take a gigabyte.
        Pass::new(split, samples.batch(8))
    };
    Ok(splits.map(pass).collect())
}

/// The numbers of a variable.
fn numbers<T: Element>(path: &Path, name: &str) -> Result<ArrayD<T>> {
    let source = LocalStorage::mapped().open(path)?;
    let bytes = source.read(0..source.len())?;
    let variable = MatFile::parse(&bytes).and_then(|file| file.get(name));
    let variable = variable.map_err(|error| Error::from(error).at(path))?;
    variable.numbers().map_err(|error| Error::from(error).at(path))
}

/// A tile of everything.
struct Item {
    key: String,
    image: ArrayD<u16>,
    labels: ArrayD<i64>,
    mask: ArrayD<u8>,
}

impl Item {
    fn cut(key: String, data: &ArrayD<u16>, labels: &ArrayD<i64>, tile: &Tile) -> Item {
        let data = cut(data, 1, tile);
        let (image, mask) = data.view().split_at(Axis(0), BANDS);
        // The last band; NumPy keeps the lower byte, too.
        let mask = mask.index_axis(Axis(0), mask.shape()[0] - 1).mapv(|value| value as u8);
        let labels = cut(labels, 0, tile);
        Item { key, image: image.to_owned(), labels, mask }
    }

    fn pack(&self) -> Result<Vec<u8>> {
        Sample::new(&self.key)
            .array("image", NdArray::from_ndarray(&self.image))
            .array("label_image", NdArray::from_ndarray(&self.labels))
            .array("mask", NdArray::from_ndarray(&self.mask))
            .pack()
    }
}

/// A tile of an array, in C order. `axis` is the axis of the rows, columns come next.
fn cut<T: Element>(array: &ArrayD<T>, axis: usize, tile: &Tile) -> ArrayD<T> {
    let rows = array.slice_axis(Axis(axis), Slice::from(tile.rows.clone()));
    let part = rows.slice_axis(Axis(axis + 1), Slice::from(tile.columns.clone()));
    part.as_standard_layout().into_owned()
}
