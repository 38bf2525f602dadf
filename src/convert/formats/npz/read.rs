//! Reads samples from an npz file.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::ragged;
use crate::Value;
use crate::convert::carried::{LeftOut, RemarkLog, Remarks};
use crate::convert::compressed;
use crate::convert::file_names::KeyNames;
use crate::convert::formats::rows;
use crate::convert::input::{Emit, Input};
use crate::convert::source_file::storage_of;
use crate::convert::{natural_order, split_names};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::numpy::npy;
use crate::format::sample_fields::{Field, Fields, key_from, pack, stored_name};
use crate::reader::{Reader, ZipReader};
use crate::value::NdArray;

/// The field of a file of one array.
const ARRAY: &str = "array";
/// Default for the bytes of all arrays in a file.
const MAX_BYTES: u64 = 16 << 30;

/// Reads an npz file, as `numpy.savez` and `numpy.savez_compressed` write it, or an `.npy` file, whose array becomes
/// the field `array`. Feature `zip`.
///
/// The arrays must have the same length in their first axis: a sample is one row of each, and units
/// are runs of samples. An array `x` next to `x_lengths` or `x_offsets` is ragged: its rows are stretches of these
/// lengths, or between these positions, if they add up to its length. With one other array alone they may be called
/// `lengths` and `offsets`.
///
/// Integers without further axes become plain integers. As an [option](NpzOptions::whole), the file is one sample of all
/// its arrays. Fields have the order of the archive. A key is the name of the file without its ending, a slash and the
/// number of the row; or comes from an [array](Self::key) of integers or strings.
///
/// All arrays are read into memory. Arrays of Python objects, which are pickles, are refused. Files in
/// the archive that are no arrays are left out and [counted](Input::remarks).
///
/// ```no_run
/// use kiste::convert::{InOrder, NpzReader};
///
/// let source = InOrder::new(NpzReader::open("digits.npz")?.key("name"));
/// # Ok::<(), kiste::Error>(())
/// ```
#[doc(alias = "Npz")]
#[must_use]
#[derive(Debug, Clone)]
pub struct NpzReader {
    path: PathBuf,
    names: KeyNames,
    arrays: Vec<(String, NdArray<'static>)>,
    /// Where the rows of ragged arrays end, by the number of the array.
    ragged: HashMap<usize, Vec<usize>>,
    /// `None` if the file is one sample.
    rows: Option<usize>,
    /// Arrays that are not read, as the conversion drops them anyway: nil.
    unread: Vec<String>,
    key: Option<String>,
    remarks: RemarkLog,
}

impl NpzReader {
    /// Reads a file; each row is a sample.
    ///
    /// # Errors
    ///
    /// Those of [`NpzOptions::open`].
    #[doc(alias = "rows")]
    pub fn open(path: impl AsRef<Path>) -> Result<NpzReader> {
        NpzReader::options().open(path)
    }

    /// The options, to be changed before the file is read.
    pub fn options() -> NpzOptions {
        NpzOptions { whole: false, max_bytes: MAX_BYTES, split: None }
    }

    /// Takes keys from this array.
    pub fn key(mut self, name: impl Into<String>) -> Self {
        self.key = Some(name.into());
        self
    }

    /// The fields of arrays that are not read.
    fn unread(&self) -> impl Iterator<Item = (Cow<'_, str>, Field<'_>)> {
        self.unread.iter().map(|name| (name.as_str().into(), Field::Value(Value::Nil)))
    }

    /// The name of the file in keys, if it is one of several.
    pub(in crate::convert) fn called(mut self, names: KeyNames) -> Self {
        self.names = names;
        self
    }

    fn pack(&self, key: String, fields: &Fields<'_>) -> Result<Vec<u8>> {
        match &self.key {
            Some(name) => pack(&key_from(fields, name)?, fields),
            None => pack(&key, fields),
        }
    }
}

/// How a [`NpzReader`] reads a file.
#[derive(Debug, Clone)]
#[must_use]
pub struct NpzOptions {
    whole: bool,
    max_bytes: u64,
    split: Option<String>,
}

impl NpzOptions {
    /// Whether the file is one sample of all its arrays, whose key is the name of the file
    /// without its ending. Default: no, each row is a sample.
    pub fn whole(mut self, whole: bool) -> NpzOptions {
        self.whole = whole;
        self
    }

    /// Refuses files whose arrays have more bytes than this together. Default: 16 GiB.
    pub fn max_bytes(mut self, max_bytes: u64) -> NpzOptions {
        self.max_bytes = max_bytes;
        self
    }

    /// Reads only the arrays of this split, such as `x_train` and `train_labels`, as `x` and `labels`.
    pub(in crate::convert) fn split(mut self, split: &str) -> NpzOptions {
        self.split = Some(split.to_owned());
        self
    }

    /// The splits of a file, if all arrays that a conversion keeps are of one.
    pub(in crate::convert) fn splits(
        &self,
        path: &Path,
        keeps: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<String>> {
        let (mut splits, mut names): (Vec<String>, Vec<(String, String)>) = Default::default();
        if compressed::head(path, npy::MAGIC.len()).is_ok_and(|head| head == npy::MAGIC) {
            return Ok(splits);
        }
        for entry in self.archive(path)?.entries() {
            let name = name_of(&entry.key);
            match split_names::in_name(name).filter(|(_, rest)| !rest.is_empty()) {
                Some((_, rest)) if !keeps(stored_name(name)) && !keeps(stored_name(&rest)) => {}
                Some((split, rest)) => {
                    if !splits.iter().any(|known| known == split) {
                        splits.push(split.to_owned());
                    }
                    names.push((split.to_owned(), rest));
                }
                None if keeps(stored_name(name)) => return Ok(Vec::new()),
                None => {}
            }
        }
        let are_several = split_names::divide(splits.iter().map(String::as_str));
        splits.sort_by(|a, b| natural_order(a, b));
        // Two arrays of a split would have one name.
        let is_one = names.len() == names.iter().collect::<HashSet<_>>().len();
        Ok(if are_several && is_one { splits } else { Vec::new() })
    }

    /// The arrays in a file.
    fn archive(&self, path: &Path) -> Result<ZipReader> {
        let options = ZipReader::options().numeric_labels(false).max_bytes(self.max_bytes);
        let (storage, place) = storage_of(path)?;
        options.open_zip_in(&*storage, place, ["*.npy"])
    }

    /// The name of an array among the samples; `None` if it is of another split.
    fn field_of(&self, name: &str) -> Option<String> {
        let Some(split) = &self.split else { return Some(name.to_owned()) };
        split_names::in_name(name).filter(|(word, _)| word == split).map(|(_, rest)| rest)
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if rows are samples and the arrays have first axes of
    /// different lengths, or if there are no arrays; [`Limit`](ErrorKind::Limit) if they have more
    /// bytes than [`max_bytes`](Self::max_bytes).
    pub fn open(&self, path: impl AsRef<Path>) -> Result<NpzReader> {
        self.open_without(path.as_ref(), &|_| false)
    }

    /// The same without the arrays that a conversion drops anyway, which need not be readable.
    pub(in crate::convert) fn open_without(
        &self,
        path: &Path,
        drops: &dyn Fn(&str) -> bool,
    ) -> Result<NpzReader> {
        let (arrays, rows, unread, ragged) = (Vec::new(), None, Vec::new(), HashMap::new());
        let (path, key, remarks) = (path.to_path_buf(), None, RemarkLog::default());
        let names = KeyNames::of(&[&path]);
        let mut reader = NpzReader { path, names, arrays, ragged, rows, unread, key, remarks };
        match compressed::head(&reader.path, npy::MAGIC.len()) {
            Ok(head) if head == npy::MAGIC => self.read_one(&mut reader)?,
            _ => self.read(&mut reader, drops)?,
        }
        if !self.whole {
            reader.ragged = ragged::cut(&reader.path, &mut reader.arrays)?;
            let even = (reader.arrays.iter().enumerate())
                .filter(|(at, _)| !reader.ragged.contains_key(at))
                .map(|(_, array)| array);
            reader.rows = Some(rows_of(&reader.path, even, reader.ragged.values().next())?);
        }
        Ok(reader)
    }

    /// Reads a file of one array.
    fn read_one(&self, into: &mut NpzReader) -> Result<()> {
        let path = &into.path;
        let data = rows::read_file(path, self.max_bytes)?;
        let array = decoded(path, ARRAY, &data)?;
        into.arrays.push((ARRAY.to_owned(), array));
        Ok(())
    }

    /// Reads all arrays, in the order of the archive.
    fn read(&self, into: &mut NpzReader, drops: &dyn Fn(&str) -> bool) -> Result<()> {
        let path = &into.path;
        into.names.name(0, path)?;
        let (max_bytes, archive) = (self.max_bytes, self.archive(path)?);
        // By the sizes that the archive claims, before anything is decompressed; `left` counts what comes.
        archive.check_sizes()?;
        let mut left = max_bytes;
        for other in archive.others() {
            let place = || format!("{}, file {other:?}", path.display());
            into.remarks.note(0, LeftOut::OtherMember, None, 1, place);
        }
        for index in 0..archive.len() {
            let entry = archive.key(index)?.into_owned();
            let Some(name) = self.field_of(name_of(&entry)) else {
                if drops(stored_name(name_of(&entry))) {
                    into.unread.push(name_of(&entry).to_owned());
                }
                continue;
            };
            if drops(stored_name(&name)) {
                into.unread.push(name);
                continue;
            }
            let data = archive.read(index)?;
            left = left.checked_sub(data.len() as u64).ok_or_else(|| {
                let message = format!("expected arrays of at most {max_bytes} bytes, found more");
                Error::above_limit("max_bytes", message).at(path)
            })?;
            let array = decoded(path, &name, &data).map_err(|error| error.with_key(&entry));
            into.arrays.push((name, array?));
        }
        Ok(())
    }
}

/// An array whose rows are next to each other.
fn decoded(path: &Path, name: &str, data: &[u8]) -> Result<NdArray<'static>> {
    let is_objects = npy::decode_header(data).is_ok_and(|(head, _)| head.dtype.has_objects());
    if is_objects {
        let message =
            format!("array {name:?}: expected elements, found Python objects as a pickle");
        let error = Error::new(ErrorKind::Unsupported, message).at(path);
        return Err(error.with_remedy(Remedy::DropField(name.to_owned())));
    }
    let array = npy::decode(data).map_err(|error| Error::from(error).at(path))?;
    // In Fortran order a row is spread over the whole array.
    Ok(array.to_c_order().into_owned())
}

/// The name of an array, by the name of its file in the archive.
fn name_of(entry: &str) -> &str {
    entry.strip_suffix(".npy").unwrap_or(entry)
}

/// The number of rows, which must be the same in all arrays, and in this one that is ragged.
fn rows_of<'a>(
    path: &Path,
    arrays: impl Iterator<Item = &'a (String, NdArray<'static>)>,
    ragged: Option<&Vec<usize>>,
) -> Result<usize> {
    let invalid = |message: String| Error::new(ErrorKind::Invalid, message).at(path);
    let mut rows = ragged.map(Vec::len);
    for (name, array) in arrays {
        rows::check_rows(array).map_err(|error| error.at(path).with_key(name))?;
        let found = array.shape().first().copied();
        let found = found.ok_or_else(|| {
            let message = format!("expected samples along the first axis, but {name:?} has none");
            invalid(message).with_remedy(Remedy::DropField(name.clone()))
        })?;
        let expected = *rows.get_or_insert(found);
        if expected != found {
            let message = format!("expected {expected} rows in {name:?} as well, found {found}");
            return Err(invalid(message).with_remedy(Remedy::DropField(name.clone())));
        }
    }
    rows.ok_or_else(|| invalid("expected arrays, found none".to_owned()))
}

/// A row of an array; NumPy strings are plain strings.
fn row<'a>(array: &'a NdArray<'_>, index: usize) -> Result<Field<'a>> {
    let field = rows::row(array, index)?;
    let Field::Scalar(scalar) = &field else { return Ok(field) };
    match scalar.strings().ok().and_then(|mut texts| texts.next()) {
        Some(text) => Ok(Field::Value(text?.into())),
        None => Ok(field),
    }
}

impl Input for NpzReader {
    fn units(&self) -> usize {
        self.rows.map_or(1, rows::units)
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        let stem = self.names.name(0, &self.path)?;
        let Some(rows) = self.rows else {
            let arrays = self.arrays.iter();
            let field = |(name, array): &'_ (String, NdArray<'static>)| {
                (name.clone().into(), Field::Array(array.clone()))
            };
            let fields = arrays.map(field).chain(self.unread()).collect();
            return emit(self.pack(stem.to_owned(), &fields));
        };
        for index in rows::run(unit, rows) {
            let mut fields: Fields<'_> = Vec::with_capacity(self.arrays.len());
            for (at, (name, array)) in self.arrays.iter().enumerate() {
                let field = match self.ragged.get(&at) {
                    Some(ends) => rows::stretch(array, ragged::row(ends, index))?,
                    None => row(array, index)?,
                };
                fields.push((name.as_str().into(), field));
            }
            fields.extend(self.unread());
            let packed = self.pack(format!("{stem}/{index:06}"), &fields);
            emit(packed.map_err(|error| error.at(&self.path).with_index(index as u64)))?;
        }
        Ok(())
    }

    fn path(&self, _unit: usize) -> Option<&Path> {
        Some(&self.path)
    }

    fn remarks(&self, unit: usize) -> Remarks {
        self.remarks.take(unit)
    }

    fn shard(&self, _unit: usize) -> Option<&str> {
        self.names.get(0)
    }

    fn len_hint(&self) -> Option<u64> {
        Some(self.rows.unwrap_or(1) as u64)
    }
}
