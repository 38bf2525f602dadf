//! Places2017: photos of scenes, each with maps of 150 kinds of things, of instances and of
//! borders.

use super::parts::{Contour, Limits, Sample, Samples, TarIndex, contours, counts as table, lines};
use super::{Classes, Dataset, File, Names, Opening, Pass, Split, Take, ade20k};
use crate::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::format::mat::{Array, MatFile};
use crate::format::msgpack::numpy::Special;
use crate::value::{DType, NdArray};

/// What the numbers in `label_image` mean.
pub(super) const CLASSES: &[&str] = &[
    "background",
    "wall",
    "building",
    "sky",
    "floor",
    "tree",
    "ceiling",
    "road",
    "bed",
    "windowpane",
    "grass",
    "cabinet",
    "sidewalk",
    "person",
    "earth",
    "door",
    "table",
    "mountain",
    "plant",
    "curtain",
    "chair",
    "car",
    "water",
    "painting",
    "sofa",
    "shelf",
    "house",
    "sea",
    "mirror",
    "rug",
    "field",
    "armchair",
    "seat",
    "fence",
    "desk",
    "rock",
    "wardrobe",
    "lamp",
    "bathtub",
    "railing",
    "cushion",
    "base",
    "box",
    "column",
    "signboard",
    "chest of drawers",
    "counter",
    "sand",
    "sink",
    "skyscraper",
    "fireplace",
    "refrigerator",
    "grandstand",
    "path",
    "stairs",
    "runway",
    "case",
    "pool table",
    "pillow",
    "screen door",
    "stairway",
    "river",
    "bridge",
    "bookcase",
    "blind",
    "coffee table",
    "toilet",
    "flower",
    "book",
    "hill",
    "bench",
    "countertop",
    "stove",
    "palm",
    "kitchen island",
    "computer",
    "swivel chair",
    "boat",
    "bar",
    "arcade machine",
    "hovel",
    "bus",
    "towel",
    "light",
    "truck",
    "tower",
    "chandelier",
    "awning",
    "streetlight",
    "booth",
    "television",
    "airplane",
    "dirt track",
    "apparel",
    "pole",
    "land",
    "bannister",
    "escalator",
    "ottoman",
    "bottle",
    "buffet",
    "poster",
    "stage",
    "van",
    "ship",
    "fountain",
    "conveyer belt",
    "canopy",
    "washer",
    "plaything",
    "swimming pool",
    "stool",
    "barrel",
    "basket",
    "waterfall",
    "tent",
    "bag",
    "minibike",
    "cradle",
    "oven",
    "ball",
    "food",
    "step",
    "tank",
    "trade name",
    "microwave",
    "pot",
    "animal",
    "bicycle",
    "lake",
    "dishwasher",
    "screen",
    "blanket",
    "sculpture",
    "hood",
    "sconce",
    "vase",
    "traffic light",
    "tray",
    "ashcan",
    "fan",
    "pier",
    "crt screen",
    "plate",
    "monitor",
    "bulletin board",
    "shower",
    "radiator",
    "glass",
    "clock",
    "flag",
];

/// The colours of these, as the authors draw them.
pub(super) const COLOURS: &[[u8; 3]] = &[
    [0, 0, 0],
    [120, 120, 120],
    [180, 120, 120],
    [6, 230, 230],
    [80, 50, 50],
    [4, 200, 3],
    [120, 120, 80],
    [140, 140, 140],
    [204, 5, 255],
    [230, 230, 230],
    [4, 250, 7],
    [224, 5, 255],
    [235, 255, 7],
    [150, 5, 61],
    [120, 120, 70],
    [8, 255, 51],
    [255, 6, 82],
    [143, 255, 140],
    [204, 255, 4],
    [255, 51, 7],
    [204, 70, 3],
    [0, 102, 200],
    [61, 230, 250],
    [255, 6, 51],
    [11, 102, 255],
    [255, 7, 71],
    [255, 9, 224],
    [9, 7, 230],
    [220, 220, 220],
    [255, 9, 92],
    [112, 9, 255],
    [8, 255, 214],
    [7, 255, 224],
    [255, 184, 6],
    [10, 255, 71],
    [255, 41, 10],
    [7, 255, 255],
    [224, 255, 8],
    [102, 8, 255],
    [255, 61, 6],
    [255, 194, 7],
    [255, 122, 8],
    [0, 255, 20],
    [255, 8, 41],
    [255, 5, 153],
    [6, 51, 255],
    [235, 12, 255],
    [160, 150, 20],
    [0, 163, 255],
    [140, 140, 140],
    [250, 10, 15],
    [20, 255, 0],
    [31, 255, 0],
    [255, 31, 0],
    [255, 224, 0],
    [153, 255, 0],
    [0, 0, 255],
    [255, 71, 0],
    [0, 235, 255],
    [0, 173, 255],
    [31, 0, 255],
    [11, 200, 200],
    [255, 82, 0],
    [0, 255, 245],
    [0, 61, 255],
    [0, 255, 112],
    [0, 255, 133],
    [255, 0, 0],
    [255, 163, 0],
    [255, 102, 0],
    [194, 255, 0],
    [0, 143, 255],
    [51, 255, 0],
    [0, 82, 255],
    [0, 255, 41],
    [0, 255, 173],
    [10, 0, 255],
    [173, 255, 0],
    [0, 255, 153],
    [255, 92, 0],
    [255, 0, 255],
    [255, 0, 245],
    [255, 0, 102],
    [255, 173, 0],
    [255, 0, 20],
    [255, 184, 184],
    [0, 31, 255],
    [0, 255, 61],
    [0, 71, 255],
    [255, 0, 204],
    [0, 255, 194],
    [0, 255, 82],
    [0, 10, 255],
    [0, 112, 255],
    [51, 0, 255],
    [0, 194, 255],
    [0, 122, 255],
    [0, 255, 163],
    [255, 153, 0],
    [0, 255, 10],
    [255, 112, 0],
    [143, 255, 0],
    [82, 0, 255],
    [163, 255, 0],
    [255, 235, 0],
    [8, 184, 170],
    [133, 0, 255],
    [0, 255, 92],
    [184, 0, 255],
    [255, 0, 31],
    [0, 184, 255],
    [0, 214, 255],
    [255, 0, 112],
    [92, 255, 0],
    [0, 224, 255],
    [112, 224, 255],
    [70, 184, 160],
    [163, 0, 255],
    [153, 0, 255],
    [71, 255, 0],
    [255, 0, 163],
    [255, 204, 0],
    [255, 0, 143],
    [0, 255, 235],
    [133, 255, 0],
    [255, 0, 235],
    [245, 0, 255],
    [255, 0, 122],
    [255, 245, 0],
    [10, 190, 212],
    [214, 255, 0],
    [0, 204, 255],
    [20, 0, 255],
    [255, 255, 0],
    [0, 153, 255],
    [0, 41, 255],
    [0, 255, 204],
    [41, 0, 255],
    [41, 255, 0],
    [173, 0, 255],
    [0, 245, 255],
    [71, 0, 255],
    [122, 0, 255],
    [0, 255, 184],
    [0, 92, 255],
    [184, 255, 0],
    [0, 133, 255],
    [255, 214, 0],
    [25, 194, 194],
    [102, 255, 0],
    [92, 0, 255],
];

/// The Places challenge of 2017.
pub(super) static PLACES2017: Dataset = Dataset {
    name: "Places2017",
    title: "22,210 photos of scenes with maps of 150 kinds of things, instances and borders",
    notes: "Images are the files of the archives. Python writes scene and map each under the name \
            of the other, and runs with no OpenCV but 3; the outlines here are the same as from 3.4. The \
            colours are the authors' own: red is lost in Python's.",
    url: "https://github.com/CSAILVision/placeschallenge",
    licence: "terms of use: http://groups.csail.mit.edu/vision/datasets/ADE20K/terms/",
    citation: "Bolei Zhou et al.: Scene Parsing through ADE20K Dataset. CVPR 2017",
    files: &[
        File::new("images", "images.tar")
            .url("http://placeschallenge.csail.mit.edu/data/ChallengeData2017/images.tar")
            .md5("5c55d03495a7541407cb940a3be07d32"),
        File::new("classes", "sceneparsing.tar")
            .url("http://placeschallenge.csail.mit.edu/data/ChallengeData2017/sceneparsing.tar")
            .md5("6556305fe8a1ac817d5d426ff4cb35f3"),
        File::new("instances", "annotations_instance.tar")
            .url(
                "http://placeschallenge.csail.mit.edu/data/ChallengeData2017/\
                 annotations_instance.tar",
            )
            .md5("4d6628c4d17f68dc36efb6a79fce30a9"),
        File::new("boundaries", "boundaries.tar")
            .url("http://placeschallenge.csail.mit.edu/data/ChallengeData2017/boundaries.tar")
            .md5("7cd81ad176aad64eff1dbca02ab0550a"),
    ],
    splits: &[Split::new("training", 20_210), Split::new("validation", 2000)],
    fields: &[
        ("key", "the name of the photo"),
        ("image", "JPEG, the file of the archive"),
        ("label", "the scene, 0 to 871, as in ADE20k"),
        ("label_image", "PNG, 0 to 150 a pixel, the file of the archive"),
        ("instance_image", "PNG, RGB, the file of the archive"),
        (
            "boundary",
            "150 lists, one for each kind of things, of outlines: arrays of int32, corners x 2",
        ),
    ],
    classes: &[
        Classes::new("label", Names::Table(ade20k::scenes)),
        Classes::new("label_image", Names::List(CLASSES)).colours(COLOURS).counts(counts),
    ],
    takes: &[Take::Shuffle, Take::Weights],
    read,
};

fn counts() -> Vec<(u16, f64)> {
    table(include_bytes!("data/segmentation/places2017_counts.txt.gz"))
}

/// How many of the scenes in the table are of training images; the others are for validation.
const TRAINING: usize = 20_210;

/// The number of the scene of each photo, by the number in its name.
struct Scenes(Vec<u16>);

impl Scenes {
    fn load() -> Scenes {
        let lines = lines(include_bytes!("data/segmentation/places2017_labels.txt.gz"));
        let number = |line: &String| line.parse().expect("the table has a number in each line");
        Scenes(lines.iter().map(number).collect())
    }

    fn of(&self, photo: &str) -> Option<u16> {
        let (training, validation) = self.0.split_at(TRAINING);
        let (scenes, number) = match photo.strip_prefix("ADE_train_") {
            Some(rest) => (training, rest),
            None => (validation, photo.strip_prefix("ADE_val_")?),
        };
        let number: usize = number.strip_suffix(".jpg")?.parse().ok()?;
        scenes.get(number.checked_sub(1)?).copied()
    }
}

/// The archives; clones are the same.
#[derive(Clone)]
struct Archives {
    images: TarIndex,
    classes: TarIndex,
    instances: TarIndex,
    boundaries: TarIndex,
    limits: Limits,
}

/// A photo in the archives.
#[derive(Clone)]
struct Item {
    /// `training/ADE_train_00000001`.
    name: String,
    key: String,
    scene: u16,
}

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let open = |role: &str| TarIndex::open(opening.path(role), opening.options.limits);
    let archives = Archives {
        images: open("images")?,
        classes: open("classes")?,
        instances: open("instances")?,
        boundaries: open("boundaries")?,
        limits: opening.options.limits,
    };
    let scenes = Scenes::load();
    let splits = PLACES2017.splits.iter().filter(|split| opening.wants(split.name));
    splits.map(|split| pass(split, opening, &archives, &scenes)).collect()
}

fn pass(
    split: &Split,
    opening: &Opening<'_>,
    archives: &Archives,
    scenes: &Scenes,
) -> Result<Pass> {
    let item = |key: &str| {
        let Some(scene) = scenes.of(key) else {
            let message = "expected a photo with a known scene, found another";
            let error = Error::new(ErrorKind::Damaged, message);
            return Err(error.at(archives.images.path()).with_key(key));
        };
        let name = format!("{}/{}", split.name, key.trim_end_matches(".jpg"));
        Ok(Item { name, key: key.to_owned(), scene })
    };
    let folder = format!("images/{}/", split.name);
    let keys = archives.images.names().filter_map(|name| name.strip_prefix(&*folder));
    let items: Vec<Item> =
        keys.filter(|key| !key.contains('/')).map(item).collect::<Result<_>>()?;
    let (total, archives) = (items.len(), archives.clone());
    let make = move |item: Item| archives.sample(&item);
    Ok(Pass::new(split, Samples::new(opening.options.order(items), make)).total(total))
}

impl Archives {
    fn sample(&self, Item { name, key, scene }: &Item) -> Result<Vec<u8>> {
        let image = self.images.read(&format!("images/{name}.jpg"))?;
        let map = self.classes.read(&format!("annotations_sceneparsing/{name}.png"))?;
        let instances = self.instances.read(&format!("annotations_instance/{name}.png"))?;
        let mat = self.boundaries.read(&format!("annotations_boundary/{name}.mat"))?;
        let boundary = boundary(&mat, self.limits);
        let boundary =
            boundary.map_err(|error| error.at(self.boundaries.path()).with_key(key.as_str()))?;
        Sample::new(key.as_str())
            .bytes("image", &image)
            .value("label", *scene)
            .bytes("label_image", &map)
            .bytes("instance_image", &instances)
            .value("boundary", boundary)
            .pack()
    }
}

/// The outlines of the pixels that are set in the sparse matrix of each class.
fn boundary(mat: &[u8], limits: Limits) -> Result<Vec<Value>> {
    let gt = MatFile::parse(mat)?.get("gt")?;
    let outlines = |cell: &Array| {
        let found = match cell {
            Array::Sparse(sparse) => {
                let set = sparse.entries::<f64>()?.filter(|entry| entry.2 != 0.0);
                let set: Vec<_> = set.map(|(row, column, _)| (row, column)).collect();
                contours(&set, limits)?
            }
            _ => {
                let found = cell.shape();
                let message = format!("expected a sparse matrix of borders, found {found:?}");
                return Err(Error::new(ErrorKind::Damaged, message));
            }
        };
        let arrays: Vec<Value> = found.iter().map(array).collect::<Result<_>>()?;
        Ok(Value::Array(arrays))
    };
    gt.field("bdry")?.cells()?.iter().map(outlines).collect()
}

/// A contour as the array that OpenCV gives.
fn array(contour: &Contour) -> Result<Value> {
    let bytes: Vec<u8> =
        contour.iter().flatten().flat_map(|coordinate| coordinate.to_le_bytes()).collect();
    let array = NdArray::new("<i4".parse::<DType>()?, [contour.len(), 2], bytes)?;
    Ok(Special::Array(array).to_value())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_whole() {
        assert_eq!((CLASSES.len(), COLOURS.len(), counts().len()), (151, 151, 151));
        let scenes = Scenes::load();
        assert_eq!(scenes.0.len(), TRAINING + 2000);
        assert_eq!(scenes.of("ADE_train_00000003.jpg"), Some(36));
        for unknown in ["ADE_test_00000001.jpg", "ADE_train_00000000.jpg", "ADE_val_00002001.jpg"] {
            assert_eq!(scenes.of(unknown), None);
        }
        let known = ade20k::scenes().len();
        assert!(scenes.0.iter().all(|&scene| usize::from(scene) < known));
    }
}
