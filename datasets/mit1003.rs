//! MIT1003: where 15 people looked on photos.

use std::collections::HashMap;

use super::parts::{Sample, Samples, Zip, gaze};
use super::{Dataset, File, Opening, Pass, Split, Take};
use crate::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::format::mat::MatFile;

/// MIT1003.
pub(super) static MIT1003: Dataset = Dataset {
    name: "MIT1003",
    title: "1,003 photos, and what the eye tracker saw of 15 people who looked at each for 3 seconds",
    notes: "Locations are all that the eye tracker recorded, and not fixations; those that are \
            negative are blinks. Python stores the same.",
    url: "http://people.csail.mit.edu/tjudd/WherePeopleLook/index.html",
    licence: "not stated by its authors",
    citation: "Tilke Judd, Krista Ehinger, Frédo Durand and Antonio Torralba: Learning to Predict \
               Where Humans Look. ICCV 2009",
    files: &[
        File::new("images", "ALLSTIMULI.zip")
            .url("http://people.csail.mit.edu/tjudd/WherePeopleLook/ALLSTIMULI.zip")
            .md5("0d7df8b954ecba69b6796e77b9afe4b6"),
        File::new("data", "DATA.zip")
            .url("http://people.csail.mit.edu/tjudd/WherePeopleLook/DATA.zip")
            .md5("ea19d74ad0a0144428c53e9d75c2d71c"),
    ],
    splits: &[Split::new("MIT1003", 1003)],
    fields: &[
        ("key", "the name in the archive"),
        ("image", "JPEG, as it is in the archive"),
        ("experiments", "one for each person: locations (n x 2, <f4: x, y), map (nil)"),
    ],
    classes: &[],
    takes: &[Take::Shuffle],
    read,
};

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let images = opening.zip("images")?;
    let data = opening.zip("data")?;
    let mut files = files_by_image(&data);
    let mut items = Vec::new();
    for name in images.names().filter(|name| name.ends_with(".jpeg") && !gaze::is_of_finder(name)) {
        let stem = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".jpeg");
        items.push((name.to_owned(), files.remove(stem).unwrap_or_default()));
    }
    let total = items.len();
    let make = move |(name, files): (String, Vec<String>)| {
        let image = images.read(&name)?;
        let person = |file: &String| gaze::read_with(&data, file, locations).map(gaze::experiment);
        let people: Vec<Value> = files.iter().map(person).collect::<Result<_>>()?;
        Sample::new(gaze::last_two(&name))
            .bytes("image", &image)
            .value("experiments", people)
            .pack()
    };
    let samples = Samples::new(opening.options.order(items), make);
    Ok(vec![Pass::new(&MIT1003.splits[0], samples).total(total)])
}

/// The files `DATA/PERSON/IMAGE.mat` of each image, in the order of the archive.
fn files_by_image(data: &Zip) -> HashMap<String, Vec<String>> {
    let mut files: HashMap<String, Vec<String>> = HashMap::new();
    for name in data.names().filter(|name| !gaze::is_of_finder(name)) {
        let mut components = name.split('/');
        let (image, more) = (components.nth(2), components.next());
        if let (Some(image), None) = (image.and_then(|image| image.strip_suffix(".mat")), more) {
            files.entry(image.to_owned()).or_default().push(name.to_owned());
        }
    }
    files
}

/// `DATA(1).eyeData` of the variable, which is named like the image, cut to what MATLAB allows.
fn locations(bytes: &[u8]) -> Result<Value> {
    let file = MatFile::parse(bytes)?;
    let variable = file.variables().iter().find(|variable| !variable.name().is_empty());
    let variable = variable
        .ok_or_else(|| Error::new(ErrorKind::Damaged, "expected a variable, found none"))?;
    gaze::numbers(variable.read()?.field("DATA")?.record(0)?.field("eyeData")?)
}
