//! [`DatasetInfo`]: what a dataset is, from its files and its first samples.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::ser::{SerializeMap, Serializer};

use super::{Arrays, FieldSummary, stat};
use crate::dataset::{DatasetReader, labels_path};
use crate::error::Result;
use crate::format::dataset::SideFile;
use crate::reader::{Reader, ReaderExt, name_of};
use crate::repair::report_path;
use crate::storage::Storage;

/// Samples that are decoded to learn of the fields.
const LOOKED_AT: usize = 100;
/// The most types of one field that are listed.
const TYPES: usize = 6;

/// Facts about a dataset: samples, sizes, fields, files. As JSON it is an object of the same names.
///
/// It is as fast for many samples: fields are taken from the first 100.
///
/// ```
/// use kiste::stat::DatasetInfo;
/// use kiste::{DatasetReader, Writer};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("words.msgpack");
/// let mut writer = Writer::create(&path)?;
/// writer.write(&std::collections::BTreeMap::from([("key", "de"), ("word", "Kiste")]))?;
/// writer.finish()?;
///
/// let info = DatasetInfo::of(&DatasetReader::open(&path)?)?;
/// assert_eq!((info.samples, info.fields[1].types.as_slice()), (1, ["str".to_owned()].as_slice()));
/// assert!(info.files.iter().all(|file| file.bytes.is_some()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct DatasetInfo {
    /// The data file, or the name of a reader of other kind; empty if it has none.
    #[serde(serialize_with = "crate::error::serialize_path")]
    pub file: PathBuf,
    /// Samples.
    pub samples: u64,
    /// Bytes of all samples.
    pub bytes: u64,
    /// Bytes of a sample; none where there are no samples.
    pub sample_bytes: Option<SampleBytes>,
    /// Whether the bytes are estimated by the first samples, as a reader does not know how long its samples are.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// The fields of the first samples, in the order in which they occur. In JSON an object.
    #[serde(serialize_with = "as_object")]
    pub fields: Vec<FieldInfo>,
    /// The arrays of the first samples, by field.
    pub arrays: BTreeMap<String, FieldArrays>,
    /// The data file, the side files that every dataset has, and others that are there; of a dataset
    /// of many files the manifest and the data files.
    pub files: Vec<FileInfo>,
    /// Whether there is `.md5`.
    pub digests: bool,
    /// Whether there is `.lookup`.
    pub lookup: bool,
    /// Whether there is `.crc`.
    pub checksums: bool,
    /// The columns of `.lengths`, if every data file has one of this version of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lengths: Vec<LengthsInfo>,
    /// The files of another format that the samples lie in, if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place: Option<InPlaceFiles>,
}

/// A column of `.lengths`.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct LengthsInfo {
    /// Its name, such as `len(tokens)`.
    pub name: String,
    /// The smallest number.
    pub min: u32,
    /// On average.
    pub mean: f64,
    /// The largest number.
    pub max: u32,
    /// The sum of all.
    pub total: u64,
}

/// Files of another format that samples lie in.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct InPlaceFiles {
    /// The name of the format: webdataset, jsonl, tfrecord, mds or arrow.
    pub format: String,
    /// How many files.
    pub files: usize,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// Bytes of a sample.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct SampleBytes {
    /// The smallest sample.
    pub min: u64,
    /// On average.
    pub mean: f64,
    /// The largest sample.
    pub max: u64,
}

/// A field of samples.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldInfo {
    /// Its name.
    pub name: String,
    /// The types of its values; the last is `more` if there are many.
    pub types: Vec<String>,
}

/// The arrays of a field.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct FieldArrays {
    /// How many are plain.
    pub plain: u64,
    /// How many are packed.
    pub packed: u64,
    /// Their element types.
    pub dtypes: Vec<String>,
    /// The shortest and the longest of each axis, for each number of axes.
    pub shapes: BTreeMap<usize, Vec<(usize, usize)>>,
    /// Bytes of the packed ones, unpacked.
    pub packed_bytes: u64,
    /// Bytes of their containers.
    pub container_bytes: u64,
}

/// A file of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct FileInfo {
    /// Its path.
    #[serde(serialize_with = "crate::error::serialize_path")]
    pub file: PathBuf,
    /// Its size; none if it is missing.
    pub bytes: Option<u64>,
    /// Whether it is there.
    pub present: bool,
}

impl DatasetInfo {
    /// Looks at the files and the first samples of a dataset.
    ///
    /// # Errors
    ///
    /// The errors of the reader and of [`stat`].
    pub fn of(reader: &DatasetReader) -> Result<DatasetInfo> {
        let path = reader.path();
        let (storage, data) = (reader.storage(), reader.files());
        let files = match &data[..] {
            [only] if *only == path => files(storage, path)?,
            _ => shards(storage, path, &data)?,
        };
        // Side files that every data file has next to it.
        let has = |side: SideFile| -> Result<bool> {
            for data in &data {
                if storage.stat(&side.path(data))?.is_none() {
                    return Ok(false);
                }
            }
            Ok(!data.is_empty())
        };
        let samples = DatasetInfo::of_samples(reader)?;
        Ok(DatasetInfo {
            bytes: if reader.is_in_place() { samples.bytes } else { reader.data_len() },
            digests: has(SideFile::Md5)?,
            lookup: has(SideFile::Lookup)?,
            checksums: has(SideFile::Crc)?,
            lengths: lengths(reader)?,
            files,
            #[cfg(feature = "convert")]
            in_place: reader.files_in_place().map(|(format, files, bytes)| InPlaceFiles {
                format: format.to_owned(),
                files,
                bytes,
            }),
            ..samples
        })
    }

    /// The same of any reader. One that is no dataset has no files.
    ///
    /// ```
    /// use kiste::reader::ListReader;
    /// use kiste::stat::DatasetInfo;
    ///
    /// let list = ListReader::pack([std::collections::BTreeMap::from([("key", "a")])])?;
    /// let info = DatasetInfo::of_reader(&list)?;
    /// assert_eq!((info.samples, info.fields.len(), info.files.len()), (1, 1, 0));
    /// # Ok::<(), kiste::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`of`](Self::of).
    pub fn of_reader(reader: &dyn Reader) -> Result<DatasetInfo> {
        match DatasetReader::any(reader) {
            Some(dataset) => DatasetInfo::of(dataset),
            None => DatasetInfo::of_samples(reader),
        }
    }

    /// What the samples say.
    fn of_samples(reader: &dyn Reader) -> Result<DatasetInfo> {
        let first = reader.range(..reader.len().min(LOOKED_AT));
        if first.is_remote() {
            first.prefetch(&(0..first.len()).collect::<Vec<_>>());
        }
        let mut fields = stat(&first)?.fields;
        let arrays = fields
            .iter_mut()
            .filter_map(|field| Some((field.name.clone(), FieldArrays::of(field.arrays.take()?))));
        let known = Sizes::of(reader.len(), |index| reader.known_len(index))?;
        let estimated = known.is_none() && reader.len() > first.len();
        let sizes = match known {
            Some(known) => known,
            None => Sizes::of(first.len(), |at| first.raw_len(at).map(Some))?.unwrap_or_default(),
        };
        let mean = sizes.each.map_or(0.0, |each| each.mean);
        Ok(DatasetInfo {
            file: name_of(reader).unwrap_or_default(),
            samples: reader.len() as u64,
            bytes: if estimated { (mean * reader.len() as f64) as u64 } else { sizes.all },
            sample_bytes: sizes.each,
            estimated,
            arrays: arrays.collect(),
            fields: fields.into_iter().map(FieldInfo::of).collect(),
            files: Vec::new(),
            digests: false,
            lookup: false,
            checksums: false,
            lengths: Vec::new(),
            in_place: None,
        })
    }
}

/// Bytes of samples.
#[derive(Default)]
struct Sizes {
    all: u64,
    each: Option<SampleBytes>,
}

impl Sizes {
    /// Of this many samples; none if one is not known.
    fn of(count: usize, len: impl Fn(usize) -> Result<Option<u64>>) -> Result<Option<Sizes>> {
        let (mut min, mut max, mut all) = (u64::MAX, 0, 0u64);
        for index in 0..count {
            let Some(bytes) = len(index)? else { return Ok(None) };
            (min, max, all) = (min.min(bytes), max.max(bytes), all.saturating_add(bytes));
        }
        let mean = all as f64 / count.max(1) as f64;
        let each = (count > 0).then_some(SampleBytes { min, mean, max });
        Ok(Some(Sizes { all, each }))
    }
}

impl FieldInfo {
    fn of(field: FieldSummary) -> FieldInfo {
        let mut types: Vec<String> = field.types.into_keys().collect();
        if types.len() > TYPES {
            types.truncate(TYPES);
            types.push("more".to_owned());
        }
        FieldInfo { name: field.name, types }
    }
}

impl FieldArrays {
    fn of(found: Arrays) -> FieldArrays {
        let mut shapes = BTreeMap::<usize, Vec<(usize, usize)>>::new();
        for shape in found.shapes.keys() {
            let new = || shape.iter().map(|&len| (len, len)).collect();
            let ranges = shapes.entry(shape.len()).or_insert_with(new);
            for (range, &len) in ranges.iter_mut().zip(shape) {
                *range = (range.0.min(len), range.1.max(len));
            }
        }
        FieldArrays {
            plain: found.plain,
            packed: found.packed,
            dtypes: found.dtypes.into_keys().take(TYPES).collect(),
            shapes,
            packed_bytes: found.packed_bytes,
            container_bytes: found.container_bytes,
        }
    }
}

/// The columns of `.lengths`, which is read as a whole: none of an outdated or damaged file, which a verification tells.
fn lengths(reader: &DatasetReader) -> Result<Vec<LengthsInfo>> {
    let mut columns = Vec::new();
    for name in reader.names_of_lengths()? {
        let Some(lengths) = reader.lengths(&name)? else { continue };
        let (mut min, mut max, mut total) = (u32::MAX, 0, 0u64);
        let mut numbers = Vec::new();
        for first in (0..lengths.len()).step_by(1 << 16) {
            numbers.clear();
            let part: Vec<u64> = (first..lengths.len().min(first + (1 << 16))).collect();
            lengths.gather(&part, &mut numbers)?;
            for &number in &numbers {
                (min, max) = (min.min(number), max.max(number));
                total = total.saturating_add(u64::from(number));
            }
        }
        let mean = total as f64 / (lengths.len() as f64).max(1.0);
        columns.push(LengthsInfo { name, min: min.min(max), mean, max, total });
    }
    Ok(columns)
}

/// The data file, the side files that every dataset has, and others that are there.
fn files(storage: &dyn Storage, data: &Path) -> Result<Vec<FileInfo>> {
    let side =
        SideFile::ALL.into_iter().map(|file| (file.path(data), SideFile::WRITTEN.contains(&file)));
    let others = [(labels_path(data), false), (report_path(data), false)];
    let mut files = Vec::new();
    for (file, expected) in [(data.to_path_buf(), true)].into_iter().chain(side).chain(others) {
        let bytes = storage.stat(&file)?.map(|stat| stat.len);
        if expected || bytes.is_some() {
            files.push(FileInfo { file, bytes, present: bytes.is_some() });
        }
    }
    Ok(files)
}

/// The manifest, if there is one, and the data files.
fn shards(storage: &dyn Storage, path: &Path, data: &[&Path]) -> Result<Vec<FileInfo>> {
    let mut files = Vec::new();
    for file in [path].into_iter().chain(data.iter().copied()) {
        let bytes = storage.stat(file)?.map(|stat| stat.len);
        // A pattern is no file.
        if file != path || bytes.is_some() {
            files.push(FileInfo { file: file.to_path_buf(), bytes, present: bytes.is_some() });
        }
    }
    Ok(files)
}

fn as_object<S: Serializer>(fields: &[FieldInfo], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(fields.len()))?;
    for FieldInfo { name, types } in fields {
        map.serialize_entry(name, types)?;
    }
    map.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::{FieldNames, ListReader};

    #[test]
    fn views_have_no_files_and_may_not_know_their_sizes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("numbers.msgpack");
        let mut writer = crate::Writer::options().durable(false).create(&path).unwrap();
        for number in 0..500 {
            writer.write(&BTreeMap::from([("key", format!("{number:03}"))])).unwrap();
        }
        writer.finish().unwrap();
        let dataset = DatasetReader::open(&path).unwrap();
        let whole = DatasetInfo::of_reader(&dataset).unwrap();
        assert_eq!(whole, DatasetInfo::of(&dataset).unwrap());

        let part = DatasetInfo::of_reader(&(&dataset).range(100..400)).unwrap();
        assert_eq!((part.samples, part.bytes, part.estimated), (300, 300 * 9, false));
        assert_eq!((part.file, part.files.len()), (path, 0));

        let renamed = (&dataset).with_fields(FieldNames::all());
        let renamed = DatasetInfo::of_reader(&renamed).unwrap();
        assert_eq!((renamed.samples, renamed.bytes, renamed.estimated), (500, 500 * 9, true));
        let few = (&dataset).with_fields(FieldNames::all()).range(..100);
        assert!(!DatasetInfo::of_reader(&few).unwrap().estimated);

        let none = ListReader::pack(Vec::<BTreeMap<&str, &str>>::new()).unwrap();
        let none = DatasetInfo::of_reader(&none).unwrap();
        assert_eq!((none.samples, none.bytes, none.sample_bytes), (0, 0, None));
        assert_eq!(none.file, PathBuf::new());
    }
}
