//! ANP460: where people looked while judging whether a pair of adjective and noun fits.

use std::collections::HashMap;

use ndarray::Array2;

use super::parts::{Sample, Samples, Zip, gaze};
use super::{Dataset, File, Opening, Pass, Split, Take};
use crate::Value;
use crate::error::{Error, ErrorKind, Result};

/// ANP460.
pub(super) static ANP460: Dataset = Dataset {
    name: "ANP460",
    title: "460 photos with a pair of adjective and noun each, and where people looked to judge it",
    notes: "The archives are not public: they come from the authors of datadings.",
    url: "https://www.dfki.de/web/research/publications?pubid=8453",
    licence: "not stated by its authors",
    citation: "Mohammad Al-Naser, Seyyed Saleh Mozaffari Chanijani, Syed Saqib Bukhari, Damian \
               Borth and Andreas Dengel: What Makes a Beautiful Landscape Beautiful: Adjective \
               Noun Pairs Attention by Eye-Tracking and Gaze Analysis. ASM 2015",
    files: &[File::new("images", "images_original.zip"), File::new("data", "wrangled_data.zip")],
    splits: &[Split::new("ANP460", 460)],
    fields: &[
        ("key", "the name in the archive"),
        ("image", "JPEG, as it is in the archive"),
        (
            "experiments",
            "one for each person: locations (n x 2, <f4: x, y), map (nil), answer (text), \
             duration (number)",
        ),
        ("anp", "the adjective and the noun"),
        ("type", "what the image is for: whether they fit"),
    ],
    classes: &[],
    takes: &[Take::Shuffle],
    read,
};

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let images = opening.zip("images")?;
    let data = Data::open(opening.zip("data")?)?;
    let names = images.names().filter(|name| name.ends_with(".jpg") && !gaze::is_of_finder(name));
    let names: Vec<String> = names.map(str::to_owned).collect();
    let total = names.len();
    let make = move |name: String| {
        let image = images.read(&name)?;
        let file = name.rsplit('/').next().unwrap_or(&name);
        let (anp, kind) = data.pair(file)?;
        Sample::new(gaze::last_two(&name))
            .bytes("image", &image)
            .value("experiments", data.experiments(file)?)
            .value("anp", anp)
            .value("type", kind)
            .pack()
    };
    let samples = Samples::new(opening.options.order(names), make);
    Ok(vec![Pass::new(&ANP460.splits[0], samples).total(total)])
}

const PAIRS: &str = "wrangled_data/image_anp_list.json";

/// The data about the images.
struct Data {
    zip: Zip,
    /// Adjective and noun, and what the image is for.
    pairs: HashMap<String, (String, String)>,
    /// The lines of `answer.txt` in each folder: one folder is one person.
    answers: HashMap<String, Vec<String>>,
    /// The files of fixations on each image, in the order of the archive.
    fixations: HashMap<String, Vec<String>>,
}

impl Data {
    fn open(zip: Zip) -> Result<Data> {
        let pairs = gaze::read_with(&zip, PAIRS, |json| {
            serde_json::from_slice(json).map_err(|error| {
                let message = format!("expected a list of pairs of strings, found {error}");
                Error::new(ErrorKind::Damaged, message)
            })
        })?;
        let (mut answers, mut fixations) = (HashMap::new(), HashMap::<_, Vec<_>>::new());
        for name in zip.names().filter(|name| !gaze::is_of_finder(name)) {
            let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
            if file == "answer.txt" {
                answers.insert(folder.to_owned(), gaze::read_with(&zip, name, lines)?);
            } else if let Some(stem) = file.strip_suffix(".txt") {
                fixations.entry(format!("{stem}.jpg")).or_default().push(name.to_owned());
            }
        }
        Ok(Data { zip, pairs, answers, fixations })
    }

    fn pair(&self, image: &str) -> Result<(&str, &str)> {
        let pair = self.pairs.get(image).map(|(anp, kind)| (anp.as_str(), kind.as_str()));
        pair.ok_or_else(|| self.error(PAIRS, format!("expected {image:?}, found no such name")))
    }

    /// The places that each person looked at, and the answers.
    fn experiments(&self, image: &str) -> Result<Vec<Value>> {
        let files = self.fixations.get(image).map(Vec::as_slice).unwrap_or_default();
        files.iter().map(|file| self.experiment(image, file)).collect()
    }

    fn experiment(&self, image: &str, file: &str) -> Result<Value> {
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let (answer, duration) = self.answer(folder, image)?;
        let locations = gaze::read_with(&self.zip, file, locations)?;
        Ok(gaze::map([
            ("locations", gaze::array(&locations)),
            ("map", Value::Nil),
            ("answer", answer.into()),
            ("duration", duration.into()),
        ]))
    }

    /// The answer of a person, and how long it took. Images are numbered, and the first line is a
    /// header, so the number is also the number of the line.
    fn answer(&self, folder: &str, image: &str) -> Result<(&str, f64)> {
        let number = image.split('.').next().and_then(|number| number.parse::<usize>().ok());
        let number = number.ok_or_else(|| {
            let message = format!("expected images that are numbered, found {image:?}");
            Error::new(ErrorKind::Damaged, message)
        })?;
        let line = self.answers.get(folder).and_then(|lines| lines.get(number));
        let parts: Vec<&str> = line.map(|line| line.split(',').collect()).unwrap_or_default();
        let answer = match parts[..] {
            [_, answer, duration] => duration.trim().parse().ok().map(|number| (answer, number)),
            _ => None,
        };
        answer.ok_or_else(|| {
            let found = line.map_or("none".to_owned(), |line| format!("{line:?}"));
            let message =
                format!("expected image, answer and time in line {number}, found {found}");
            self.error(&format!("{folder}/answer.txt"), message)
        })
    }

    fn error(&self, file: &str, message: String) -> Error {
        gaze::in_file(self.zip.path(), file, &Error::new(ErrorKind::Damaged, message))
    }
}

fn lines(bytes: &[u8]) -> Result<Vec<String>> {
    Ok(text(bytes)?.replace('\r', "").split('\n').map(str::to_owned).collect())
}

fn text(bytes: &[u8]) -> Result<&str> {
    let utf8 = std::str::from_utf8(bytes);
    utf8.map_err(|_| Error::new(ErrorKind::Damaged, "expected UTF-8, found something else"))
}

/// The second and third column of a table of numbers, as `numpy.loadtxt` reads them.
fn locations(bytes: &[u8]) -> Result<Array2<f32>> {
    let mut numbers = Vec::new();
    for (at, line) in text(bytes)?.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        // The other columns must be numbers too.
        let row: Option<Vec<f64>> = line.split(',').map(|n| n.trim().parse().ok()).collect();
        match row.as_deref() {
            // Rounded once to double precision and once more, as there.
            Some([_, x, y, ..]) => numbers.extend([*x as f32, *y as f32]),
            _ => {
                let at = at + 1;
                let message = format!("expected time, x and y in line {at}, found {line:?}");
                return Err(Error::new(ErrorKind::Damaged, message));
            }
        }
    }
    let rows = numbers.len() / 2;
    Array2::from_shape_vec((rows, 2), numbers)
        .map_err(|error| Error::new(ErrorKind::Damaged, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_fixations() {
        let found = locations(b"# t,x,y\r\n0,1.5,2,9\r\n\r\n 1 , 1e1,-.5 # last\n").unwrap();
        assert_eq!(found, ndarray::array![[1.5, 2.0], [10.0, -0.5]]);
        // One or none is no less a table; Python stumbles there.
        assert_eq!(locations(b"0,1,2").unwrap(), ndarray::array![[1.0, 2.0]]);
        assert_eq!(locations(b"").unwrap().shape(), [0, 2]);
        for (bad, found) in [("0,1,2\n1,2", "line 2, found \"1,2\""), ("a,1,2", "line 1")] {
            let error = locations(bad.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(found), "{error}");
        }
        assert!(locations(b"0,1,\xff").is_err());
    }
}
