//! The catalogue: well-known data sets, from the archives that their authors hand out to datasets.
//!
//! A [`Dataset`] is a description: which files there are, where they come from and what their
//! digests are, which samples become of them, under which licence and whom to cite. [`ALL`] lists
//! them, [`find`] knows them by name. [`Dataset::open`] gives [`Pass`]es over the files, which
//! write samples while they read: an archive of a terabyte needs no more memory than a small one.
//!
//! Splits, keys, fields, labels and their order are those of Python datadings 3.4.7, and so are the
//! bytes of samples, but for images that are encoded anew: those have the same pixels where the
//! encoding loses nothing. Samples come in the order of the archives, whatever the number of
//! threads. `docs/catalogue.md` lists what was compared with Python, and where Python is wrong.
//!
//! ```no_run
//! use kiste::Writer;
//! use kiste::datasets::{self, Options};
//!
//! let cifar10 = datasets::find("cifar10")?;
//! for mut pass in cifar10.open("downloads".as_ref(), &[], &Options::default())? {
//!     let mut writers = Vec::new();
//!     for split in &pass.splits {
//!         writers.push(Some(Writer::create(format!("{}.msgpack", split.file))?));
//!     }
//!     pass.write(&mut writers, |_| {})?;
//!     for writer in writers.into_iter().flatten() {
//!         writer.finish()?;
//!     }
//! }
//! # Ok::<(), kiste::Error>(())
//! ```
//!
//! **The next one** is a file here with a `static` [`Dataset`] and a function that opens it, made of
//! [`parts`]; its place in [`ALL`]; a builder of a miniature archive in `tests/compat/catalogue/`,
//! by which it is compared with Python; and a line in `docs/catalogue.md`.
//!
//! Absent on purpose: fetching the files. And digits, which are in this folder too, are data that
//! the command carries for its demo.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::sampler::Permutation;

mod counts;
mod files;
pub mod parts;
mod pass;
pub mod ade20k;
pub mod anp460;
pub mod camvid;
pub mod cat2000;
pub mod cifar10;
pub mod cifar100;
pub mod cityscapes;
pub mod coutrot1;
pub mod figrimfixation;
pub mod ilsvrc2012;
pub mod imagenet21k;
pub mod inriabuildings;
pub mod mit300;
pub mod mit1003;
pub mod mnist;
pub mod places365;
pub mod places2017;
pub mod rit18;
pub mod salicon2015;
pub mod salicon2017;
pub mod vaihingen;
pub mod voc2012;
pub mod yfcc100m;

pub use counts::ClassCounts;
pub use files::File;
pub use pass::{Pass, Tally};

/// All data sets, in the order of their names.
pub static ALL: &[&Dataset] = &[
    &ade20k::ADE20K,
    &anp460::ANP460,
    &camvid::CAMVID,
    &cat2000::CAT2000,
    &cifar10::CIFAR10,
    &cifar100::CIFAR100,
    &cityscapes::CITYSCAPES,
    &coutrot1::COUTROT1,
    &mnist::FASHION_MNIST,
    &figrimfixation::FIGRIM_FIXATION,
    &ilsvrc2012::ILSVRC2012,
    &imagenet21k::IMAGENET21K,
    &inriabuildings::INRIABUILDINGS,
    &mnist::KMNIST,
    &mit1003::MIT1003,
    &mit300::MIT300,
    &mnist::MNIST,
    &places2017::PLACES2017,
    &places365::PLACES365,
    &rit18::RIT18,
    &salicon2015::SALICON2015,
    &salicon2017::SALICON2017,
    &vaihingen::VAIHINGEN,
    &voc2012::VOC2012,
    &yfcc100m::YFCC100M,
];

/// What there is to know about a data set, and how it is read.
#[derive(Debug)]
pub struct Dataset {
    /// The name, as Python datadings spells it.
    pub name: &'static str,
    /// What it is, in a line.
    pub title: &'static str,
    /// What to know before using it, in whole sentences; empty if that is nothing.
    pub notes: &'static str,
    /// The page of its authors.
    pub url: &'static str,
    /// The licence, or where the terms of use are.
    pub licence: &'static str,
    /// The publication to cite.
    pub citation: &'static str,
    /// The files that are read.
    pub files: &'static [File],
    /// What is made of them.
    pub splits: &'static [Split],
    /// The fields of a sample in their order, and what they are.
    pub fields: &'static [(&'static str, &'static str)],
    /// What the numbers in fields mean.
    pub classes: &'static [Classes],
    /// Which of the [`Options`] make a difference.
    pub takes: &'static [Take],
    /// Opens it; files are there, options have been looked at.
    pub read: fn(&Opening<'_>) -> Result<Vec<Pass>>,
}

/// A part of a data set that becomes a dataset of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// What it is called: `train`.
    pub name: &'static str,
    /// What its file is called, without `.msgpack`. This is the name, where Python does not put
    /// that of the data set in front.
    pub file: &'static str,
    /// How many samples the published one has, where that is known.
    pub samples: Option<u64>,
    /// Whether its samples have the fields that [`Classes`] are about.
    pub labelled: bool,
}

impl Split {
    /// A split that is written to a file of its name.
    pub const fn new(name: &'static str, samples: u64) -> Split {
        Split { name, file: name, samples: Some(samples), labelled: true }
    }

    /// One of which nobody has said how many samples it has.
    pub const fn uncounted(name: &'static str) -> Split {
        Split { name, file: name, samples: None, labelled: true }
    }

    /// The same, written to a file of another name.
    pub const fn file(mut self, file: &'static str) -> Split {
        self.file = file;
        self
    }

    /// The same, but its samples have no labels.
    pub const fn unlabelled(mut self) -> Split {
        self.labelled = false;
        self
    }
}

/// What the numbers in a field mean.
#[derive(Debug, Clone, Copy)]
pub struct Classes {
    /// The field: numbers, or an image of numbers.
    pub field: &'static str,
    /// Their names, that of 0 first.
    pub names: Names,
    /// Red, green and blue of each class, where it is drawn in a colour.
    pub colours: &'static [[u8; 3]],
    /// How many training images each class would fill, without those that do not occur. Nothing,
    /// where that was not counted.
    pub counts: fn() -> Vec<(u16, f64)>,
}

impl Classes {
    /// Names without colours.
    pub const fn new(field: &'static str, names: Names) -> Classes {
        Classes { field, names, colours: &[], counts: Vec::new }
    }

    /// The same, with a colour for each.
    pub const fn colours(mut self, colours: &'static [[u8; 3]]) -> Classes {
        self.colours = colours;
        self
    }

    /// The same, counted.
    pub const fn counts(mut self, counts: fn() -> Vec<(u16, f64)>) -> Classes {
        self.counts = counts;
        self
    }

    /// What each class that was counted is to count for in training, so that rare ones are learned,
    /// too: see [`median_frequency_weights`](parts::median_frequency_weights).
    pub fn weights(&self) -> Vec<(u16, f64)> {
        let (classes, counts): (Vec<u16>, Vec<f64>) = (self.counts)().into_iter().unzip();
        classes.into_iter().zip(parts::median_frequency_weights(&counts)).collect()
    }
}

/// Names of classes.
#[derive(Debug, Clone, Copy)]
pub enum Names {
    /// A few.
    List(&'static [&'static str]),
    /// As many as are better kept compressed.
    Table(fn() -> Vec<String>),
    /// None that are known here.
    Unknown,
}

impl Names {
    /// All of them, or none.
    pub fn to_vec(self) -> Vec<String> {
        match self {
            Names::List(names) => names.iter().map(|&name| name.to_owned()).collect(),
            Names::Table(names) => names(),
            Names::Unknown => Vec::new(),
        }
    }
}

/// An option that some data sets take and others do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// [`Options::shuffle`].
    Shuffle,
    /// [`Options::quality`].
    Compress,
    /// [`Options::subsampling`].
    Subsampling,
    /// [`Options::low_res`].
    LowRes,
    /// [`Options::challenge`].
    Challenge,
    /// [`Options::rejected`].
    Rejected,
    /// Of the command: [`Pass::count`] instead of samples.
    Weights,
    /// Of the command: [`Pass::labels`] instead of samples.
    SceneLabels,
}

impl Take {
    const ALL: [Take; 8] = [
        Take::Shuffle,
        Take::Compress,
        Take::Subsampling,
        Take::LowRes,
        Take::Challenge,
        Take::Rejected,
        Take::Weights,
        Take::SceneLabels,
    ];

    /// What it is called on the command line, without the dashes.
    pub fn name(self) -> &'static str {
        match self {
            Take::Shuffle => "shuffle",
            Take::Compress => "compress",
            Take::Subsampling => "subsampling",
            Take::LowRes => "low-res",
            Take::Challenge => "challenge",
            Take::Rejected => "rejected",
            Take::Weights => "calculate-weights",
            Take::SceneLabels => "scene-labels",
        }
    }

    /// Whether it was asked for.
    fn is_in(self, options: &Options) -> bool {
        match self {
            Take::Shuffle => options.shuffle.is_some(),
            Take::Compress => options.quality.is_some(),
            Take::Subsampling => options.subsampling.is_some(),
            Take::LowRes => options.low_res,
            Take::Challenge => options.challenge,
            Take::Rejected => options.rejected.is_some(),
            // No sample is another one for them.
            Take::Weights | Take::SceneLabels => false,
        }
    }
}

/// How samples are made. The default is what Python does without options, but for the order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Samples in random order: that of this seed. Otherwise in the order of the archive.
    pub shuffle: Option<u64>,
    /// JPEG of this quality, 0 to 100, for images that are large enough to bear it.
    pub quality: Option<u8>,
    /// How colours are thinned out in images that are encoded anew.
    pub subsampling: Option<parts::Subsampling>,
    /// The small version of the images.
    pub low_res: bool,
    /// The larger version of the training set.
    pub challenge: bool,
    /// A list of images that are left out.
    pub rejected: Option<PathBuf>,
    /// How large files in archives, and images, may be.
    pub limits: parts::Limits,
    /// How many threads decode and encode; 0 is one for each core. No sample depends on it.
    pub threads: usize,
}

impl Options {
    /// These in random order, if that is asked for.
    pub fn order<T>(&self, items: Vec<T>) -> Vec<T> {
        let Some(seed) = self.shuffle else { return items };
        let order = Permutation::new(items.len() as u64, seed);
        let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
        (0..items.len()).filter_map(|at| items[order.apply(at as u64) as usize].take()).collect()
    }
}

/// What a data set is opened with.
#[derive(Debug)]
pub struct Opening<'a> {
    /// Which one it is.
    pub dataset: &'static Dataset,
    /// The folder with its files.
    pub dir: &'a Path,
    /// The splits that are wanted; none means all.
    pub splits: &'a [&'a str],
    /// How samples are made.
    pub options: &'a Options,
}

impl Opening<'_> {
    /// Whether a split is wanted.
    pub fn wants(&self, split: &str) -> bool {
        self.splits.is_empty() || self.splits.contains(&split)
    }

    /// Where a file is, by what it is for.
    ///
    /// # Panics
    ///
    /// If the data set has no such file.
    pub fn path(&self, role: &str) -> PathBuf {
        let file = self.files().into_iter().find(|file| file.role == role);
        let file = file.unwrap_or_else(|| panic!("{} has no file {role:?}", self.dataset.name));
        self.dir.join(file.path)
    }

    /// The zip archive that a file is.
    fn zip(&self, role: &str) -> Result<parts::Zip> {
        parts::Zip::open(self.path(role), self.options.limits)
    }

    /// The files that are needed for these splits with these options.
    pub fn files(&self) -> Vec<&'static File> {
        let files = self.dataset.files.iter();
        let wanted = |file: &&File| {
            let split = file.splits.is_empty() || file.splits.iter().any(|split| self.wants(split));
            split && file.when.is_none_or(|when| when(self.options))
        };
        files.filter(wanted).collect()
    }

    /// Those of them that are not there.
    pub fn missing(&self) -> Vec<&'static File> {
        self.files().into_iter().filter(|file| !self.dir.join(file.path).exists()).collect()
    }
}

impl Dataset {
    /// What a reading of it begins with: says which files are needed, and which are not there.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for splits that it does not have, and for options that it
    /// does not take.
    pub fn opening<'a>(
        &'static self,
        dir: &'a Path,
        splits: &'a [&'a str],
        options: &'a Options,
    ) -> Result<Opening<'a>> {
        let invalid = |message| Error::new(ErrorKind::Invalid, message);
        for split in splits {
            if self.split(split).is_none() {
                let names: Vec<&str> = self.splits.iter().map(|split| split.name).collect();
                let names = names.join(", ");
                let message = format!("{} has no split {split:?}, only {names}", self.name);
                return Err(invalid(message));
            }
        }
        for take in Take::ALL {
            if take.is_in(options) {
                self.expect(take)?;
            }
        }
        Ok(Opening { dataset: self, dir, splits, options })
    }

    /// Whether it takes an option.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if it does not.
    pub fn expect(&self, take: Take) -> Result<()> {
        if self.takes.contains(&take) {
            return Ok(());
        }
        let message = format!("{} takes no --{}", self.name, take.name());
        Err(Error::new(ErrorKind::Invalid, message))
    }

    /// Opens the files in a folder to make samples of them: all splits, or only some.
    ///
    /// Digests are not looked at, see [`File::verify`].
    ///
    /// # Errors
    ///
    /// Those of [`opening`](Self::opening); [`NotFound`](ErrorKind::NotFound) if files are missing,
    /// all of which are named; and whatever is wrong with those that are there.
    pub fn open(
        &'static self,
        dir: &Path,
        splits: &[&str],
        options: &Options,
    ) -> Result<Vec<Pass>> {
        let opening = self.opening(dir, splits, options)?;
        let missing = opening.missing();
        if !missing.is_empty() {
            let names: Vec<&str> = missing.iter().map(|file| file.path).collect();
            let message = format!("expected {}, found no such file", names.join(" and "));
            return Err(Error::new(ErrorKind::NotFound, message).at(dir));
        }
        let mut passes = (self.read)(&opening)?;
        for pass in &mut passes {
            pass.samples.set_threads(options.threads);
        }
        Ok(passes)
    }

    /// The split of this name.
    pub fn split(&self, name: &str) -> Option<&'static Split> {
        self.splits.iter().find(|split| split.name == name)
    }

    /// The names of the labels, where there are any.
    pub fn labels(&self) -> Option<Vec<String>> {
        self.classes.iter().find(|classes| classes.field == "label").map(|c| c.names.to_vec())
    }

    /// The fields with maps of classes: an image or an array of the numbers of classes, or a list of
    /// such images. They are called the same in all data sets.
    pub fn maps(&self) -> Vec<&'static str> {
        let names = self.fields.iter().map(|(name, _)| *name);
        names.filter(|name| matches!(*name, "label_image" | "parts_images")).collect()
    }

    /// How many samples there are in all splits, if that is known of each.
    pub fn samples(&self) -> Option<u64> {
        self.splits.iter().map(|split| split.samples).sum()
    }

    /// Whether all files can be had from their addresses, without asking anybody.
    pub fn is_free_to_fetch(&self) -> bool {
        !self.files.is_empty() && self.files.iter().all(|file| file.url.is_some())
    }
}

impl fmt::Display for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The data set of this name. Capital letters, dashes and underscores make no difference.
///
/// # Errors
///
/// [`NotFound`](ErrorKind::NotFound), with the names that were perhaps meant: those that have it in
/// them, or in what they are about, or are written almost like it.
///
/// ```
/// use kiste::datasets;
///
/// assert_eq!(datasets::find("cifar-10")?.name, "CIFAR10");
/// let error = datasets::find("cifr10").unwrap_err();
/// assert_eq!(error.to_string(), "there is no data set \"cifr10\"; perhaps CIFAR10");
/// # Ok::<(), kiste::Error>(())
/// ```
pub fn find(name: &str) -> Result<&'static Dataset> {
    let wanted = plain(name);
    if let Some(dataset) = ALL.iter().find(|dataset| plain(dataset.name) == wanted) {
        return Ok(dataset);
    }
    let meant = meant(&wanted).join(" or ");
    let hint = if meant.is_empty() { meant } else { format!("; perhaps {meant}") };
    Err(Error::new(ErrorKind::NotFound, format!("there is no data set {name:?}{hint}")))
}

/// The names that somebody could have meant with another one.
fn meant(wanted: &str) -> Vec<&'static str> {
    let has = |text: &str| wanted.len() > 2 && plain(text).contains(wanted);
    let named = ALL.iter().filter(|dataset| has(dataset.name) || has(dataset.title));
    let named: Vec<&str> = named.map(|dataset| dataset.name).collect();
    if matches!(named.len(), 1..=4) {
        return named;
    }
    let close = ALL.iter().map(|dataset| (distance(&plain(dataset.name), wanted), dataset.name));
    let close = close.min().filter(|(distance, _)| *distance <= 1 + wanted.len() / 4);
    close.into_iter().map(|(_, name)| name).collect()
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// How many characters are to be put in, left out or exchanged to make one text of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, a) in one.chars().enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for (column, b) in other.iter().enumerate() {
            let exchanged = before + usize::from(a != *b);
            before = row[column + 1];
            row[column + 1] = exchanged.min(before + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_whole() {
        for dataset in ALL {
            let name = dataset.name;
            assert_eq!(dataset.fields[0].0, "key", "{name}");
            let texts = [dataset.title, dataset.url, dataset.licence, dataset.citation];
            assert!(texts.iter().all(|text| !text.is_empty()), "{name}");
            assert!(dataset.url.starts_with("http"), "{name}");
            assert!(!dataset.splits.is_empty(), "{name}");
            for file in dataset.files {
                assert!(file.md5.is_none_or(|md5| md5.len() == 32), "{name}: {}", file.path);
                let splits = file.splits.iter().all(|split| dataset.split(split).is_some());
                assert!(splits, "{name}: {}", file.path);
            }
            assert_eq!(
                dataset.takes.contains(&Take::Weights),
                !dataset.maps().is_empty(),
                "{name}"
            );
            for classes in dataset.classes {
                let has = dataset.fields.iter().any(|(field, _)| *field == classes.field);
                assert!(has, "{name}: {}", classes.field);
                let (names, colours) = (classes.names.to_vec(), classes.colours);
                assert!(names.is_empty() == matches!(classes.names, Names::Unknown));
                assert!(names.iter().all(|name| !name.contains('\n')));
                assert!(colours.is_empty() || colours.len() == names.len(), "{name}");
            }
        }
        let names: Vec<String> = ALL.iter().map(|dataset| plain(dataset.name)).collect();
        assert!(names.is_sorted(), "{names:?}");
    }

    #[test]
    fn the_order_of_a_seed_has_everything_once() {
        let options = Options { shuffle: Some(3), ..Options::default() };
        let mut shuffled = options.order((0..100).collect::<Vec<u32>>());
        assert!(!shuffled.is_sorted());
        shuffled.sort_unstable();
        assert_eq!(shuffled, (0..100).collect::<Vec<u32>>());
        assert_eq!(Options::default().order(vec![3, 1, 2]), [3, 1, 2]);
    }

    #[test]
    fn what_was_meant() {
        for (wanted, expected) in [
            ("voc", &["VOC2012"][..]),
            ("cifar", &["CIFAR10", "CIFAR100"]),
            ("imagenet", &["ILSVRC2012", "ImageNet21k"]),
            ("minst", &["MNIST"]),
            ("vco2012", &["VOC2012"]),
            ("a", &[]),
            ("photos", &[]),
        ] {
            assert_eq!(meant(wanted), expected, "{wanted}");
        }
    }

    #[test]
    fn distances() {
        for (one, other, expected) in
            [("", "", 0), ("a", "", 1), ("", "ab", 2), ("mnist", "minst", 2), ("voc", "vocs", 1)]
        {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }
}
