//! [`Format`]: what conversions read and write.
//!
//! All formats are in one list here, one line for each: the definition in its folder
//! ([`FormatDef`]) says the rest. From there come the names on the command line, its help and the error
//! messages. `detect` finds the format of sources, `outputs` looks at the names of outputs.

mod detect;
mod outputs;

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub(super) use self::detect::{detect, in_folder, of_index};
pub use self::outputs::check_dataset_name;
pub(super) use self::outputs::{check_output_name, has_other_ending};
use super::carried::{Carried, Handling, LeftOut, ValueKind, ValuePlace};
use super::file_names::ending;
use super::formats;
use super::formats::def::FormatDef;
pub(super) use super::formats::def::{Keys, Output};
pub(super) use super::formats::webdataset::is_named_tar;
use super::source_file::open_regular;
use crate::dataset::check_finished;
use crate::dataset::names::names_index;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::dataset::SideFile;
use crate::format::dataset::shards::is_manifest;

/// Makes the enum and the list of the definitions, in the order in which formats are listed for people and asked
/// whether a file is theirs.
macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident: $def:path,)*) => {
        /// A format that a conversion reads or writes. As a string: its [`name`](Format::name).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        #[non_exhaustive]
        pub enum Format {
            $($(#[$doc])* $name,)*
        }

        static FORMATS: &[(Format, &FormatDef)] = &[$((Format::$name, &$def)),*];
    };
}

formats! {
    /// A dataset of kiste or datadings.
    Dataset: formats::dataset::DATASET,
    /// A folder of images, patterns of images, or a zip archive of them.
    Images: formats::image_folder::IMAGES,
    /// A CSV or TSV file that lists images with labels and other columns.
    List: formats::image_folder::LIST,
    /// Images with annotations of COCO: one JSON object.
    Coco: formats::coco::COCO,
    /// JSON lines: an object with a `key` in each.
    Jsonl: formats::jsonl::JSONL,
    /// Tar archives of WebDataset.
    Webdataset: formats::webdataset::WEBDATASET,
    /// TFRecord files of `tf.train.Example`.
    Tfrecord: formats::tfrecord::TFRECORD,
    /// Shards of MosaicML Streaming.
    Mds: formats::mds::MDS,
    /// CIFAR-10, as pickles or binary files.
    Cifar10: formats::cifar::CIFAR10,
    /// CIFAR-100, as pickles or binary files.
    Cifar100: formats::cifar::CIFAR100,
    /// The idx files of MNIST: images, and perhaps labels.
    Mnist: formats::mnist::MNIST,
    /// An archive of NumPy arrays.
    Npz: formats::npz::NPZ,
    /// Comma-separated values.
    Csv: formats::csv::CSV,
    /// Tab-separated values.
    Tsv: formats::csv::TSV,
    /// Parquet.
    Parquet: formats::arrow::PARQUET,
    /// Arrow IPC, as a file or a stream.
    Arrow: formats::arrow::ARROW,
}

/// The first format that this is true of.
fn find(is: impl Fn(&FormatDef) -> bool) -> Option<Format> {
    FORMATS.iter().find(|(_, def)| is(def)).map(|(format, _)| *format)
}

/// The definitions of all formats.
fn all() -> impl Iterator<Item = &'static FormatDef> {
    FORMATS.iter().map(|(_, def)| *def)
}

impl Format {
    /// Its definition. The list has the order of the enum.
    pub(super) fn def(self) -> &'static FormatDef {
        FORMATS[self as usize].1
    }

    /// All formats that can be read.
    pub fn readable() -> impl Iterator<Item = Format> {
        FORMATS.iter().map(|(format, _)| *format)
    }

    /// All formats that can be written.
    pub fn writable() -> impl Iterator<Item = Format> {
        Format::readable().filter(|format| format.output() != Output::None)
    }

    /// Whether folders hold files of it that are found by their names.
    pub(super) fn is_in_folders(self) -> bool {
        self.def().in_folder.is_some()
    }

    /// Its name, such as `jsonl`.
    pub fn name(self) -> &'static str {
        self.def().name
    }

    /// Other names that parse as this format, such as `wds` for `webdataset`.
    pub fn aliases(self) -> &'static [&'static str] {
        self.def().aliases
    }

    /// A description in a few words.
    pub fn title(self) -> &'static str {
        self.def().title
    }

    /// The extension that names of outputs have, without the dot. `None` for directories.
    ///
    /// ```
    /// use kiste::convert::Format;
    ///
    /// assert_eq!(Format::Webdataset.extension(), Some("tar"));
    /// assert_eq!(Format::Mds.extension(), None);
    /// ```
    pub fn extension(self) -> Option<&'static str> {
        self.def().endings.first().copied()
    }

    /// Whether it keeps the names of numeric labels.
    pub fn keeps_labels(self) -> bool {
        self.def().keeps_labels
    }

    /// How such values come back from this format, written and read again. Fields follow the table for
    /// [`ValuePlace::Field`], values in lists and maps for [`ValuePlace::Within`].
    ///
    /// Read again means: TFRecord with [`texts`](super::Conversion::texts) for no field, and CSV
    /// with [`guess_types`](super::Conversion::guess_types). A format that is only read carries
    /// nothing.
    pub fn carries(self, kind: ValueKind, place: ValuePlace) -> Carried {
        (self.def().carries)(kind, place)
    }

    /// Contents of sources of this format that samples do not carry, and their handling.
    ///
    /// Not in here: what describes files and not samples, such as times and owners of files, compression,
    /// dictionaries of values, the number of bytes that an integer takes, and the order of columns.
    ///
    /// ```
    /// use kiste::convert::{Format, Handling, LeftOut};
    ///
    /// let row = (LeftOut::AfterEnd, Handling::Remarked);
    /// assert!(Format::Webdataset.leaves_out().contains(&row));
    /// ```
    pub fn leaves_out(self) -> &'static [(LeftOut, Handling)] {
        self.def().leaves_out
    }

    /// Whether this build of the crate has it.
    pub fn is_available(self) -> bool {
        let built = [
            ("formats", cfg!(feature = "formats")),
            ("parquet", cfg!(feature = "parquet")),
            ("zip", cfg!(feature = "zip")),
        ];
        let is_built = |feature| built.contains(&(feature, true));
        self.def().feature.is_none_or(is_built)
    }

    pub(super) fn output(self) -> Output {
        self.def().output
    }

    /// Fails if this build of the crate does not have it.
    pub(super) fn check_available(self) -> Result<()> {
        match self.def().feature.filter(|_| !self.is_available()) {
            Some(feature) => {
                let message = format!("this build of kiste has no {}", self.name());
                Err(Error::new(ErrorKind::Unsupported, message)
                    .with_remedy(Remedy::Feature(feature)))
            }
            None => Ok(()),
        }
    }

    /// The format of an output of this name: a dataset, unless its ending says otherwise.
    ///
    /// ```
    /// use kiste::convert::Format;
    ///
    /// assert_eq!(Format::of_output("photos.tar"), Format::Webdataset);
    /// assert_eq!(Format::of_output("photos"), Format::Dataset);
    /// ```
    pub fn of_output(path: impl AsRef<Path>) -> Format {
        if path.as_ref().to_str().is_some_and(is_manifest) {
            return Format::Dataset;
        }
        let ending = ending(path.as_ref());
        find(|def| def.endings.contains(&&ending[..])).unwrap_or(Format::Dataset)
    }

    /// The format of this input, if its name or first bytes show it.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if it is ambiguous or unknown.
    pub fn of_input(path: impl AsRef<Path>) -> Result<Format> {
        detect(path.as_ref())
    }

    /// The format of a file that is named like a dataset but is none; `None` for a dataset, and if it is not
    /// certain. Without side files to contradict it, any bytes could be taken for packed values.
    pub fn of_other(path: impl AsRef<Path>) -> Option<Format> {
        let path = path.as_ref();
        if !path.is_file() || has_side_file(path) {
            return None;
        }
        detect(path).ok().filter(|format| *format != Format::Dataset)
    }
}

/// Fails for what cannot be read as a dataset: one that was never finished, a file of another format, and one that does
/// not begin with a sample. Next to side files any bytes are a dataset; an index in place is checked as it is opened.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid), which names the format where that is known; the errors of [`check_finished`].
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("rows.csv");
/// std::fs::write(&path, "a,b\n1,2\n")?;
/// let error = kiste::convert::check_is_dataset(&path).unwrap_err();
/// assert!(error.to_string().ends_with("expected a dataset, found comma-separated values"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check_is_dataset(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    check_finished(path)?;
    let invalid = |found: &str| {
        Error::new(ErrorKind::Invalid, format!("expected a dataset, found {found}")).at(path)
    };
    if let Some(format) = Format::of_other(path) {
        return Err(invalid(format.title()).with_remedy(Remedy::MakeDataset));
    }
    if has_side_file(path) || names_index(path) || !path.is_file() {
        return Ok(());
    }
    let mut first = [0];
    let read = open_regular(path).and_then(|mut file| file.read(&mut first));
    match (read.map_err(|error| Error::io(path, error))?, first[0]) {
        // A map, or nothing at all.
        (0, _) | (_, 0x80..=0x8f | 0xde | 0xdf) => Ok(()),
        _ => Err(invalid("a file that does not begin with a sample")),
    }
}

/// Whether another file describes this one.
fn has_side_file(path: &Path) -> bool {
    SideFile::ALL.iter().any(|file| file.path(path).exists())
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Format> {
        find(|def| def.name == name || def.aliases.contains(&name)).ok_or_else(|| {
            let names: Vec<&str> = all().map(|def| def.name).collect();
            let message = format!("expected a format ({}), found {name:?}", names.join(", "));
            Error::new(ErrorKind::Invalid, message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_in_the_list_as_it_is_called() {
        for &(format, def) in FORMATS {
            let FormatDef { name, endings, output, .. } = def;
            assert_eq!(format.name(), *name);
            assert_eq!(name.parse::<Format>().unwrap(), format);
            for alias in format.aliases() {
                assert_eq!(alias.parse::<Format>().unwrap(), format, "{alias}");
            }
            assert_eq!(serde_json::to_value(format).unwrap(), *name);
            for ending in *endings {
                assert!(*output != Output::None, "{name}");
                assert_eq!(Format::of_output(format!("x.{ending}")), format);
            }
        }
        assert!("hdf5".parse::<Format>().unwrap_err().to_string().contains("jsonl"));
    }
}
