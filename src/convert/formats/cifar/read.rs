//! Reads samples from files of CIFAR.

use std::borrow::Cow;
use std::io::ErrorKind::{NotFound, PermissionDenied};
use std::path::{Path, PathBuf};
use std::slice;

use crate::convert::carried::{LeftOut, RemarkLog, Remarks};
use crate::convert::file_names;
use crate::convert::formats::files::{InputFiles, options_of_files};
use crate::convert::formats::rows;
use crate::convert::input::{Emit, Input, file_size};
use crate::convert::source_file::{forget_versions, size_of};
use crate::error::{Error, ErrorKind, Result};
use crate::format::pickle::{Object, Pickle};
use crate::format::sample_fields::{Field, Fields, pack};
use crate::storage::{self, Confined};
use crate::value::{DType, NdArray};

const SHAPE: [usize; 3] = [3, 32, 32];
/// Bytes of an image: 32 rows of 32 columns of red, then green, then blue.
pub(crate) const IMAGE: usize = 3 * 32 * 32;

/// The file of the names of the coarse labels, for which a dataset has no place.
const COARSE_NAMES: &str = "coarse_label_names";

/// The most bytes of a file of names. The largest real one has 1.5 kB.
const MAX_NAMES: u64 = 1 << 20;

/// The labels of images: CIFAR-10's or CIFAR-100's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CifarLabels {
    /// One of ten classes.
    Ten,
    /// One of a hundred classes, and one of the twenty that these are grouped in.
    Hundred,
}

impl CifarLabels {
    /// The names in pickles and in samples, in the order of the bytes.
    fn fields(self) -> &'static [(&'static str, &'static str)] {
        match self {
            CifarLabels::Ten => &[("labels", "label")],
            CifarLabels::Hundred => &[("coarse_labels", "coarse_label"), ("fine_labels", "label")],
        }
    }

    /// The files that may have the names of the labels: with the field of a pickle, or without one
    /// as text, one name a line.
    fn name_files(self) -> [(&'static str, &'static str); 2] {
        match self {
            CifarLabels::Ten => [("batches.meta", "label_names"), ("batches.meta.txt", "")],
            CifarLabels::Hundred => [("meta", "fine_label_names"), ("fine_label_names.txt", "")],
        }
    }
}

/// Reads CIFAR-10 or CIFAR-100, as pickles or binary files; each file is a unit.
///
/// Samples are `{"key": "STEM/00000", "image": array of uint8 [3, 32, 32], "label": number}`; the
/// key is the name of the file without its ending, and the number of the image. CIFAR-100 has a
/// `coarse_label` too, and pickles have a `filename`. Pickles and binary files are distinguished by
/// their first bytes. The names of the labels come from `batches.meta`, `batches.meta.txt`, `meta`
/// or `fine_label_names.txt` next to the first file, if there is one. A pickle is read as data and
/// never run.
///
/// ```no_run
/// use kiste::convert::{CifarLabels, CifarReader, InOrder};
///
/// let source = InOrder::new(CifarReader::open("data_batch_{1..5}", CifarLabels::Ten)?);
/// # Ok::<(), kiste::Error>(())
/// ```
#[doc(alias = "Cifar")]
#[must_use]
#[derive(Debug, Clone)]
pub struct CifarReader {
    files: InputFiles,
    /// The labels of an image: their names in pickles and in samples, in the order of the bytes.
    labels: &'static [(&'static str, &'static str)],
    /// The names of the labels, if they are next to the first file.
    names: Option<Vec<String>>,
}

impl CifarReader {
    options_of_files! {
        /// Refuses files with more bytes than this once they are decompressed. Default: 1 GiB.
        max_bytes,
    }

    /// Opens a file of either version, or all that a name with
    /// braces such as `{000..123}` stands for: `data_batch_{1..5}`, `test_batch.bin`.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) if one of them does not exist, and
    /// [`Damaged`](ErrorKind::Damaged) if the names of the labels next to it cannot be read.
    pub fn open(path: impl AsRef<Path>, labels: CifarLabels) -> Result<CifarReader> {
        CifarReader::open_all([path], labels)
    }

    /// Opens several files, which are read in this order.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), and [`Invalid`](ErrorKind::Invalid) for none at all.
    pub fn open_all<P: AsRef<Path>>(
        files: impl IntoIterator<Item = P>,
        labels: CifarLabels,
    ) -> Result<CifarReader> {
        let files = file_names::files(files)?;
        let folder = files.first().and_then(|file| file.parent()).unwrap_or(Path::new(""));
        let known = labels.name_files();
        let remarks = RemarkLog::default();
        let mut names = None;
        for (name, field) in known {
            let path = Confined::to(folder).join(name);
            forget_versions(slice::from_ref(&path));
            match size_of(&path) {
                Ok(Some(_)) => {
                    names = Some(label_names(&path, field, &remarks)?);
                    break;
                }
                Ok(None) => {}
                // A store may answer so for what is not there.
                Err(error) if matches!(error.kind(), NotFound | PermissionDenied) => {}
                Err(_) if !storage::is_url(&path) => {}
                // The reason may pass, and the labels would have no names.
                Err(error) => return Err(Error::io(path, error)),
            }
        }
        let files = InputFiles::of(files, remarks);
        Ok(CifarReader { files, labels: labels.fields(), names })
    }

    fn pickled(&self, unit: usize, bytes: &[u8], emit: &mut Emit<'_>) -> Result<()> {
        let pickle = Pickle::parse(bytes)?;
        let stem = self.files.name(unit)?;
        let pickled: Vec<&str> = self.labels.iter().map(|(pickled, _)| *pickled).collect();
        let batch = Batch::of(&pickle, &pickled)?;
        self.remark_on(unit, &pickle, bytes.len());
        for (index, image) in batch.images.chunks_exact(IMAGE).enumerate() {
            let mut fields = image_fields(image)?;
            for ((_, name), labels) in self.labels.iter().zip(&batch.labels) {
                fields.push(((*name).into(), Field::Value(labels[index].into())));
            }
            if let Some(filenames) = &batch.filenames {
                fields.push(("filename".into(), Field::Value(filenames[index].into())));
            }
            emit(pack(&format!("{stem}/{index:05}"), &fields))?;
        }
        Ok(())
    }

    /// Notes what a pickle has beyond images, labels and names of files.
    fn remark_on(&self, unit: usize, pickle: &Pickle<'_>, len: usize) {
        let path = self.files.path(unit).display();
        let rest = (len - pickle.end()) as u64;
        let place = || format!("{path}, byte {}", pickle.end());
        self.files.remarks.note(unit, LeftOut::AfterEnd, None, rest, place);
        // The name of the file is in all files of the data set.
        let known = ["data", "filenames", "batch_label"];
        let is_known = |name: &Option<&str>| {
            let labels = self.labels.iter().map(|(pickled, _)| *pickled);
            name.is_some_and(|name| known.contains(&name) || labels.into_iter().any(|l| l == name))
        };
        for name in pickle.root().names().filter(|name| !is_known(name)) {
            let place = || format!("{path}, {:?}", name.unwrap_or("another key"));
            self.files.remarks.note(unit, LeftOut::PickleEntry, None, 1, place);
        }
    }

    fn binary(&self, stem: &str, bytes: &[u8], emit: &mut Emit<'_>) -> Result<()> {
        let size = self.labels.len() + IMAGE;
        if bytes.is_empty() || bytes.len() % size != 0 {
            let message = format!("expected images of {size} bytes, found {} bytes", bytes.len());
            return Err(Error::new(ErrorKind::Damaged, message));
        }
        for (index, record) in bytes.chunks_exact(size).enumerate() {
            let (labels, image) = record.split_at(self.labels.len());
            let mut fields = image_fields(image)?;
            for ((_, name), &label) in self.labels.iter().zip(labels) {
                fields.push(((*name).into(), Field::Value(label.into())));
            }
            emit(pack(&format!("{stem}/{index:05}"), &fields))?;
        }
        Ok(())
    }
}

/// The images of one pickle; for each of them, a label of each kind and the name of a file.
pub(crate) struct Batch<'p> {
    pub(crate) images: Cow<'p, [u8]>,
    pub(crate) labels: Vec<Vec<i64>>,
    pub(crate) filenames: Option<Vec<&'p str>>,
}

impl<'p> Batch<'p> {
    /// Reads a pickle that has these lists of labels.
    pub(crate) fn of(pickle: &'p Pickle<'_>, labels: &[&str]) -> Result<Batch<'p>> {
        let array = pickle.root().get("data").and_then(Object::as_array);
        let array = array.ok_or_else(|| damaged("expected a dict with an array \"data\""))?;
        let count = match array.shape() {
            [count, IMAGE] if *array.dtype() == DType::of::<u8>() => *count,
            shape => {
                let message = format!("expected images of {IMAGE} bytes, found {shape:?}");
                return Err(damaged(&message));
            }
        };
        let labels = labels.iter().map(|name| {
            column(pickle, name, count, Object::as_int, "expected labels that are integers")
        });
        let labels = labels.collect::<Result<_>>()?;
        let filenames = pickle.root().get("filenames").map(|_| {
            let flaw = "expected file names that are strings";
            column(pickle, "filenames", count, Object::as_name, flaw)
        });
        Ok(Batch { images: array.c_bytes(), labels, filenames: filenames.transpose()? })
    }
}

/// A list of `count` values.
fn column<'p, 'a, T>(
    pickle: &'p Pickle<'a>,
    name: &str,
    count: usize,
    read: impl Fn(Object<'p, 'a>) -> Option<T>,
    flaw: &str,
) -> Result<Vec<T>> {
    let items = pickle.root().get(name).and_then(Object::items);
    let items = items.filter(|items| items.len() == count);
    let items = items.ok_or_else(|| damaged(&format!("expected a list {name:?} of {count}")))?;
    items.map(|item| read(item).ok_or_else(|| damaged(flaw))).collect()
}

fn damaged(message: &str) -> Error {
    Error::new(ErrorKind::Damaged, message)
}

/// The names of labels, in a field of a pickle or, without a field, in lines of text.
fn label_names(path: &Path, field: &str, remarks: &RemarkLog) -> Result<Vec<String>> {
    let bytes = rows::read_file(path, MAX_NAMES)?;
    let none = |what: &str| Error::new(ErrorKind::Damaged, format!("expected {what}")).at(path);
    if field.is_empty() {
        let text = std::str::from_utf8(&bytes).map_err(|_| none("names in UTF-8"))?;
        return Ok(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect());
    }
    let pickle = Pickle::parse(&bytes).map_err(|error| Error::from(error).at(path))?;
    if pickle.root().get(COARSE_NAMES).is_some() {
        let place = || path.display().to_string();
        remarks.note(0, LeftOut::LabelNames, Some("coarse_label"), 1, place);
    }
    let items = pickle.root().get(field).and_then(Object::items);
    let names =
        items.and_then(|items| items.map(|item| Some(item.as_name()?.to_owned())).collect());
    names.ok_or_else(|| none(&format!("a list {field:?} of names")))
}

fn image_fields(image: &[u8]) -> Result<Fields<'_>> {
    let image = NdArray::new(DType::of::<u8>(), SHAPE, image)?;
    Ok(vec![("image".into(), Field::Array(image))])
}

impl Input for CifarReader {
    fn units(&self) -> usize {
        self.files.ranges.paths().len()
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        let path = self.files.path(unit);
        let stem = self.files.name(unit)?;
        let bytes = rows::read_file(path, self.files.max_bytes)?;
        // A pickle begins with its protocol, and no label is as large as its first byte.
        let result = match bytes[..] {
            [0x80, 2..=5, ..] => self.pickled(unit, &bytes, emit),
            _ => self.binary(stem, &bytes, emit),
        };
        result.map_err(|error| error.at(path))
    }

    fn path(&self, unit: usize) -> Option<&Path> {
        self.files.ranges.paths().get(unit).map(PathBuf::as_path)
    }

    fn shard(&self, unit: usize) -> Option<&str> {
        self.files.names.get(unit)
    }

    fn label_names(&self) -> Option<&[String]> {
        self.names.as_deref()
    }

    fn remarks(&self, unit: usize) -> Remarks {
        self.files.remarks.take(unit)
    }

    fn bytes(&self, unit: usize) -> Option<u64> {
        file_size(self.path(unit))
    }
}
