//! FIGRIM Fixation: where people looked while memorising scenes.

use std::collections::HashMap;
use std::path::Path;

use super::parts::{Made, Sample, Samples, gaze};
use super::{Dataset, File, Opening, Pass, Split, Take};
use crate::Value;
use crate::error::{Error, Result};
use crate::format::mat::Array;
use crate::regular;

/// FIGRIM Fixation.
pub(super) static FIGRIM_FIXATION: Dataset = Dataset {
    name: "FIGRIMFixation",
    title: "some 2,800 scenes, and where people looked who were to say whether they had seen them before",
    notes: "Targets are shown three times, so each person has up to three experiments in a row; \
            those without fixations are empty. The archives hold 2,793 images; those \
            that the MAT file does not know are skipped.",
    url: "http://figrim.mit.edu/index_eyetracking.html",
    licence: "not stated by its authors",
    citation: "Zoya Bylinskii, Phillip Isola, Constance Bainbridge, Antonio Torralba and Aude \
               Oliva: Intrinsic and Extrinsic Effects on Image Memorability. Vision Research 116, \
               2015",
    files: &[
        File::new("target mat", "allImages_release.mat")
            .url("https://github.com/cvzoya/figrim/raw/master/targetData/allImages_release.mat")
            .md5("c72843b05e95ab27594c1d11c849c897")
            .splits(&["target"]),
        File::new("target images", "Targets.zip")
            .url("http://figrim.mit.edu/Targets.zip")
            .md5("2ad3a42ebc377efe4b39064405568201")
            .splits(&["target"]),
        File::new("filler mat", "allImages_fillers.mat")
            .url("https://github.com/cvzoya/figrim/raw/master/fillerData/allImages_fillers.mat")
            .md5("ce4f8b4961005d62f7a21191a64cab5e")
            .splits(&["filler"]),
        File::new("filler images", "Fillers.zip")
            .url("http://figrim.mit.edu/Fillers.zip")
            .md5("dc0bc9561b5bc90e158ec32074dd1060")
            .splits(&["filler"]),
    ],
    splits: &[Split::new("target", 630), Split::uncounted("filler")],
    fields: &[
        ("key", "the name in the archive"),
        ("image", "JPEG, as it is in the archive"),
        ("experiments", "up to three for each person: locations (n x 2, <f4: x, y), map (nil)"),
    ],
    classes: &[],
    takes: &[Take::Shuffle],
    read,
};

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let splits = FIGRIM_FIXATION.splits.iter().filter(|split| opening.wants(split.name));
    splits.map(|split| pass(opening, split)).collect()
}

fn pass(opening: &Opening<'_>, split: &Split) -> Result<Pass> {
    let mut people = experiments(&opening.path(&format!("{} mat", split.name)))?;
    let images = opening.zip(&format!("{} images", split.name))?;
    let names = images.names().filter(|name| name.ends_with(".jpg") && !gaze::is_of_finder(name));
    let items: Vec<_> = names.map(|name| (name.to_owned(), people.remove(name))).collect();
    let total = items.len();
    let make = move |(name, people): (String, Option<Vec<Value>>)| {
        let Some(people) = people else {
            return Ok(Made::Skipped { key: name, why: "not in the MAT file".to_owned() });
        };
        let image = images.read(&name)?;
        let sample = Sample::new(name).bytes("image", &image).value("experiments", people);
        Ok(sample.pack()?.into())
    };
    Ok(Pass::new(split, Samples::new(opening.options.order(items), make)).total(total))
}

/// The experiments of each image by its name in the archive.
fn experiments(path: &Path) -> Result<HashMap<String, Vec<Value>>> {
    let bytes = regular::read(path).map_err(|error| Error::io(path, error))?;
    let all = || -> Result<_> {
        let variable = gaze::only_variable(&bytes)?;
        let mut images = HashMap::new();
        for image in variable.structs()?.iter() {
            let name = image.field("impath")?.text()?;
            images.insert(name, people(image.field("userdata")?)?);
        }
        Ok(images)
    };
    all().map_err(|error| error.at(path))
}

/// All times that people saw an image. People who did not see it have no record of fixations.
fn people(userdata: &Array) -> Result<Vec<Value>> {
    let mut experiments = Vec::new();
    for person in userdata.structs()?.iter() {
        let Array::Structs(fixations) = person.field("fixations")? else { continue };
        let times = fixations.iter().take(1).flat_map(|record| record.iter());
        for (_, locations) in times {
            experiments.push(gaze::experiment(gaze::numbers(locations)?));
        }
    }
    Ok(experiments)
}
