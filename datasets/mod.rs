//! The catalogue: well-known data sets, from the archives that their authors hand out to datasets.
//!
//! A [`Dataset`] is a description: which files there are, where they come from and what their
//! digests are, which samples they become, under which licence and whom to cite. [`ALL`] lists
//! them, [`find`] knows them by name. [`Dataset::conversion`] makes a [`Conversion`] of a split, which
//! can run whole or in parts, resume, leave out bad input, and write other formats.
//!
//! Splits, keys, fields, labels and their order are the same as in Python datadings 3.4.7, and so
//! are the bytes of samples, except for images that are re-encoded: those have the same pixels
//! where the encoding is lossless. Samples come in the order of the archives, for any number of
//! threads. Memory does not grow with the archives. `docs/catalogue.md` lists what was compared
//! with Python, and where Python is wrong.
//!
//! ```no_run
//! use kiste::convert::{BadInput, Silent};
//! use kiste::datasets::{self, Options};
//!
//! let cifar10 = datasets::find("cifar10")?;
//! let train = cifar10.conversion("train", "downloads", &Options::default(), "train.msgpack")?;
//! let report = train.on_bad_input(BadInput::Skip).resume(true).run(&mut Silent)?;
//! println!("{} samples", report.outputs[0].samples);
//! # Ok::<(), kiste::Error>(())
//! ```
//!
//! [`Dataset::open`] gives all splits, as [`Pass`]es over the files. A pass is converted split by
//! split, or, where the samples of several splits lie mixed in one archive,
//! [written](Pass::write) in one reading; [`Opening::steps`] decides which. It also
//! [counts](Pass::count) classes.
//!
//! **To add one**, write a file here with a `static` [`Dataset`] and a function that opens it, made of
//! `parts`; its place in [`ALL`]; a builder of a miniature archive in `tests/compat/catalogue/`,
//! for the comparison with Python; and a line in `docs/catalogue.md`.
//!
//! Digits, which are in this folder too, are data that the command carries for its demo.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::convert::Conversion;
use crate::error::{Error, ErrorKind, Result};
use crate::sampler::Permutation;

mod about;
mod classes;
mod counts;
mod files;
#[allow(unreachable_pub, reason = "`pub` is what the files of data sets use")]
mod parts;
mod pass;
mod steps;
mod ade20k;
mod anp460;
mod camvid;
mod cat2000;
mod cifar10;
mod cifar100;
mod cityscapes;
mod coutrot1;
mod figrimfixation;
mod ilsvrc2012;
mod imagenet21k;
mod inriabuildings;
mod mit300;
mod mit1003;
mod mnist;
mod places365;
mod places2017;
mod rit18;
mod salicon2015;
mod salicon2017;
mod vaihingen;
mod voc2012;
mod yfcc100m;

pub use classes::ClassInfo;
pub use counts::ClassCounts;
pub use files::File;
pub use parts::{Limits, Subsampling, median_frequency_weights};
#[doc(hidden)]
pub use parts::{MAX_FILE, MAX_PIXELS};
pub use pass::{Pass, SkippedSamples};
pub use steps::Step;

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

/// A data set: its description, and how it is read.
#[derive(Debug)]
pub struct Dataset {
    /// The name, as Python datadings spells it.
    pub name: &'static str,
    /// A description in one line.
    pub title: &'static str,
    /// Notes for users, in whole sentences. May be empty.
    pub notes: &'static str,
    /// The page of its authors.
    pub url: &'static str,
    /// The licence, or where the terms of use are.
    pub licence: &'static str,
    /// The publication to cite.
    pub citation: &'static str,
    /// The files that are read.
    pub files: &'static [File],
    /// The splits that they become.
    pub splits: &'static [Split],
    /// The fields of a sample in their order, and what they are.
    pub fields: &'static [(&'static str, &'static str)],
    /// The classes of numeric fields.
    pub classes: &'static [Classes],
    /// Which of the [`Options`] make a difference.
    pub takes: &'static [Take],
    /// Opens it. All files are there, and the options have been checked.
    read: fn(&Opening<'_>) -> Result<Vec<Pass>>,
}

/// A part of a data set that becomes a dataset of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Its name: `train`.
    pub name: &'static str,
    /// The name of its file, without `.msgpack`: the name of the split, or where Python does so, with the name
    /// of the data set in front.
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

    /// A split whose number of samples is unknown.
    pub const fn uncounted(name: &'static str) -> Split {
        Split { name, file: name, samples: None, labelled: true }
    }

    /// Sets the name of the file that it is written to.
    pub const fn file(mut self, file: &'static str) -> Split {
        self.file = file;
        self
    }

    /// Marks that its samples have no labels.
    pub const fn unlabelled(mut self) -> Split {
        self.labelled = false;
        self
    }
}

/// The classes of a numeric field.
#[derive(Debug, Clone, Copy)]
pub struct Classes {
    /// The field: numbers, or an image of numbers.
    pub field: &'static str,
    /// Their names, in the order of their numbers, from 0.
    pub names: Names,
    /// Red, green and blue of each class, where it is drawn in a colour.
    pub colours: &'static [[u8; 3]],
    /// How many training images each class would fill, without classes that do not occur. Empty if
    /// that was not counted.
    pub counts: fn() -> Vec<(u16, f64)>,
}

impl Classes {
    /// Names without colours.
    pub const fn new(field: &'static str, names: Names) -> Classes {
        Classes { field, names, colours: &[], counts: Vec::new }
    }

    /// Adds a colour for each.
    pub const fn colours(mut self, colours: &'static [[u8; 3]]) -> Classes {
        self.colours = colours;
        self
    }

    /// Adds how many training images each would fill.
    pub const fn counts(mut self, counts: fn() -> Vec<(u16, f64)>) -> Classes {
        self.counts = counts;
        self
    }

    /// The weight for training of each class that was counted, so that rare ones are learned
    /// too: see [`median_frequency_weights`].
    pub fn weights(&self) -> Vec<(u16, f64)> {
        let (classes, counts): (Vec<u16>, Vec<f64>) = (self.counts)().into_iter().unzip();
        classes.into_iter().zip(parts::median_frequency_weights(&counts)).collect()
    }
}

/// Names of classes.
#[derive(Debug, Clone, Copy)]
pub enum Names {
    /// A few, in the program.
    List(&'static [&'static str]),
    /// Many, which are stored compressed.
    Table(fn() -> Vec<String>),
    /// None are known.
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
    /// [`Options::compress`].
    Compress,
    /// [`Options::subsampling`].
    Subsampling,
    /// [`Options::low_res`].
    LowRes,
    /// [`Options::challenge`].
    Challenge,
    /// [`Options::rejected`].
    Rejected,
    /// [`Pass::count`].
    Weights,
    /// The labels of the archive.
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

    /// Its name, which is also the name of the field of [`Options`], where it is one.
    pub fn name(self) -> &'static str {
        match self {
            Take::Shuffle => "shuffle",
            Take::Compress => "compress",
            Take::Subsampling => "subsampling",
            Take::LowRes => "low_res",
            Take::Challenge => "challenge",
            Take::Rejected => "rejected",
            Take::Weights => "calculate_weights",
            Take::SceneLabels => "scene_labels",
        }
    }

    /// Whether it was asked for.
    fn is_in(self, options: &Options) -> bool {
        match self {
            Take::Shuffle => options.shuffle.is_some(),
            Take::Compress => options.compress.is_some(),
            Take::Subsampling => options.subsampling.is_some(),
            Take::LowRes => options.low_res,
            Take::Challenge => options.challenge,
            Take::Rejected => options.rejected.is_some(),
            // They change no sample.
            Take::Weights | Take::SceneLabels => false,
        }
    }
}

/// How samples are made. The default is what Python does without options, except for the order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The seed of a random order of samples. Default: the order of the archive.
    pub shuffle: Option<u64>,
    /// Re-encodes images that are large enough as JPEG of this quality, 0 to 100.
    pub compress: Option<u8>,
    /// The chroma subsampling of images that are re-encoded.
    pub subsampling: Option<Subsampling>,
    /// Reads the small version of the images.
    pub low_res: bool,
    /// Reads the larger version of the training set.
    pub challenge: bool,
    /// A list of images to leave out.
    pub rejected: Option<PathBuf>,
    /// How large files in archives, and images, may be.
    pub limits: Limits,
}

impl Options {
    /// The items in the order that was asked for.
    pub fn order<T>(&self, items: Vec<T>) -> Vec<T> {
        let Some(seed) = self.shuffle else { return items };
        let order = Permutation::new(items.len() as u64, seed);
        let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
        (0..items.len()).filter_map(|at| items[order.apply(at as u64) as usize].take()).collect()
    }

    /// All that differs from the default, as in a URL: `?shuffle=7&low_res`.
    fn query(&self) -> String {
        let mut given = Vec::new();
        given.extend(self.shuffle.map(|seed| format!("shuffle={seed}")));
        given.extend(self.compress.map(|quality| format!("compress={quality}")));
        given.extend(self.subsampling.map(|form| format!("subsampling={form:?}")));
        given.extend(self.low_res.then(|| "low_res".to_owned()));
        given.extend(self.challenge.then(|| "challenge".to_owned()));
        given.extend(self.rejected.as_ref().map(|_| "rejected".to_owned()));
        let (Limits { bytes, pixels }, default) = (self.limits, Limits::default());
        given.extend((bytes != default.bytes).then(|| format!("max_bytes={bytes}")));
        given.extend((pixels != default.pixels).then(|| format!("max_pixels={pixels}")));
        match &given[..] {
            [] => String::new(),
            given => format!("?{}", given.join("&")),
        }
    }
}

/// The input of opening a data set.
#[derive(Debug)]
pub struct Opening<'a> {
    /// Which one it is.
    pub dataset: &'static Dataset,
    /// The folder with its files.
    pub dir: &'a Path,
    /// The splits that are wanted. Empty: all.
    pub splits: &'a [&'a str],
    /// How samples are made.
    pub options: &'a Options,
}

impl Opening<'_> {
    /// Whether a split is wanted.
    pub fn wants(&self, split: &str) -> bool {
        self.splits.is_empty() || self.splits.contains(&split)
    }

    /// The path of the file with this role.
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
    /// Checks splits and options, and knows which files are needed and which are missing.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for splits that it does not have, and options that it does not
    /// take.
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
        let message = format!("is not an option of {}", self.name);
        Err(Error::new(ErrorKind::Invalid, message).with_option(take.name()))
    }

    /// Opens the files in a folder to make samples of them: all splits, or only some.
    ///
    /// Digests are not checked, see [`File::verify`].
    ///
    /// # Errors
    ///
    /// The errors of [`opening`](Self::opening); [`NotFound`](ErrorKind::NotFound), with the names
    /// of all missing files; and the errors of reading the other files.
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
        let passes = (self.read)(&opening)?;
        Ok(passes.into_iter().map(|pass| pass.opened(&opening)).collect())
    }

    /// A conversion of the files in a folder to this output: of one split. Everything that a
    /// [`Conversion`] can do, it does: run in parts, resume, leave out bad input, write other
    /// formats.
    ///
    /// Files that can be read in any order fall into many units; an archive that can only be read
    /// from front to back is one, so it makes one part of several and resumes from its start.
    ///
    /// ```no_run
    /// use kiste::convert::{Part, Silent, commit};
    /// use kiste::datasets::{self, Options};
    ///
    /// let options = Options { shuffle: Some(7), ..Options::default() };
    /// let voc = datasets::find("VOC2012")?;
    /// let train = voc.conversion("train", "downloads", &options, "train.msgpack")?;
    /// for part in Part::all(4) {
    ///     train.run_part(part, &mut Silent)?;
    /// }
    /// commit("train.msgpack", &mut Silent)?;
    /// # Ok::<(), kiste::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub fn conversion(
        &'static self,
        split: &str,
        dir: impl AsRef<Path>,
        options: &Options,
        output: impl AsRef<Path>,
    ) -> Result<Conversion> {
        let passes = self.open(dir.as_ref(), &[split], options)?;
        let pass = passes.into_iter().find(|pass| pass.splits.iter().any(|has| has.name == split));
        let pass = pass.ok_or_else(|| {
            let message = format!("the files have nothing of the split {split:?}");
            Error::new(ErrorKind::NotFound, message).at(dir.as_ref())
        })?;
        pass.conversion(split, output)
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

    /// The bytes of all files, if they are known. Where there are versions, of all together.
    pub fn size(&self) -> Option<u64> {
        match self.files {
            [] => None,
            files => files.iter().map(|file| file.size).sum(),
        }
    }

    /// Whether all files can be downloaded without registration.
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
/// [`NotFound`](ErrorKind::NotFound), with the names that were perhaps meant: those that contain it,
/// or whose titles do, or that are spelled almost like it.
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

/// The names that another one may be a mistake for.
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

/// How many characters to insert, remove or replace to turn one string into the other.
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
            let fields = [dataset.title, dataset.url, dataset.licence, dataset.citation];
            assert!(fields.iter().all(|text| !text.is_empty()), "{name}");
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
