//! Writes samples to a TFRecord file.

use std::path::Path;

use super::carries;
use crate::convert::carried::{self, Changes};
use crate::convert::formats::new_file::NewFile;
use crate::convert::writer::sample_writer;
use crate::error::{Error, ErrorKind, Result};
use crate::format::find::Distinct;
use crate::format::msgpack::{self, Cursor, Kind, numpy, sample};
use crate::format::tfrecord::encode;
use crate::format::tfrecord::example::{self, Feature};
use crate::value::{DTypeKind as Type, Element, NdArray};

/// Writes samples to a TFRecord file of `tf.train.Example`s. Feature `formats`.
///
/// Each field is a feature: bytes and strings are byte strings, integers and booleans integers,
/// floats 32-bit floats. Lists of one of these, and arrays of numbers in C order, are lists of
/// them. The key is the feature `key`. An empty list is one of byte strings.
///
/// Shapes are lost, as are the difference between strings and bytes and the precision of 64-bit
/// floats. Anything that would lose more is refused: other lists, maps, integers beyond 64 bits
/// with a sign, complex numbers.
///
/// ```
/// use kiste::convert::{Input, TfRecordReader, TfRecordWriter};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("numbers.tfrecord");
/// let sample = b"\x82\xa3key\xa1a\xa1n\x01";
/// let mut writer = TfRecordWriter::create(&path)?;
/// writer.write_packed(sample)?;
/// writer.finish()?;
///
/// let records = TfRecordReader::open(&path)?.key("key");
/// records.read(0, &mut |found| found.map(|packed| assert!(packed.starts_with(b"\x83\xa3key\xa1a"))))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the output is complete once it is finished"]
pub struct TfRecordWriter {
    file: NewFile,
    record: Vec<u8>,
    changes: Changes,
}

impl TfRecordWriter {
    /// Begins a file, which must not exist yet.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) if it does.
    pub fn create(path: impl AsRef<Path>) -> Result<TfRecordWriter> {
        let (file, changes) = (NewFile::create(path.as_ref())?, Changes::default());
        Ok(TfRecordWriter { file, record: Vec::new(), changes })
    }

    /// Adds a packed sample.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a value that no feature can hold. The sample is not
    /// written then, not even in part.
    pub fn write_packed(&mut self, packed: &[u8]) -> Result<()> {
        let key = msgpack::check_sample(packed)?;
        let changes = carried::check(carries, packed)?;
        let (mut features, mut names) = (Vec::new(), Distinct::default());
        for field in sample::fields(packed)? {
            let (name, value) = field?;
            let name = Cursor::new(name).read_str()?;
            if !names.insert(name) {
                let message = "the field occurs twice";
                return Err(Error::new(ErrorKind::Invalid, message).with_key(key).with_field(name));
            }
            let feature = feature_of(value)?.ok_or_else(|| {
                let message = "expected a value that a feature can hold";
                Error::new(ErrorKind::Invalid, message).with_key(key).with_field(name)
            })?;
            features.push((name, feature));
        }
        self.record.clear();
        encode(&example::encode(&features), &mut self.record);
        self.file.append(&self.record)?;
        self.changes.add(changes);
        Ok(())
    }

    fn next_file(&mut self, path: &Path) -> Result<()> {
        self.file.next(path)
    }

    /// Makes the file durable and gives it its name.
    pub fn finish(self) -> Result<()> {
        self.file.finish()
    }
}

sample_writer!(TfRecordWriter, |writer| writer.file.path(), writer.changes.list(), next_file);

/// The feature of a packed value, if one can hold it.
fn feature_of(packed: &[u8]) -> Result<Option<Feature<'_>>> {
    let mut cursor = Cursor::new(packed);
    let mut feature = Feature::Empty;
    match cursor.peek()? {
        Kind::Map => {
            let Ok(Some(numpy::Special::Array(array) | numpy::Special::Scalar(array))) =
                numpy::read(&mut cursor)
            else {
                return Ok(None);
            };
            return Ok(numbers(&array));
        }
        Kind::Array => {
            for _ in 0..cursor.read_array_len()? {
                if !add(&mut cursor, &mut feature)? {
                    return Ok(None);
                }
            }
            if feature == Feature::Empty {
                feature = Feature::Bytes(Vec::new());
            }
        }
        Kind::Nil => {}
        _ if add(&mut cursor, &mut feature)? => {}
        _ => return Ok(None),
    }
    Ok(Some(feature))
}

/// Adds a value to a list of its kind; false if the list is of another kind, or no list can hold
/// it.
fn add<'a>(cursor: &mut Cursor<'a>, feature: &mut Feature<'a>) -> Result<bool> {
    let int = match cursor.peek()? {
        Kind::Bin | Kind::Str => {
            let bytes = match cursor.peek()? {
                Kind::Bin => cursor.read_bin()?,
                _ => cursor.read_str_bytes()?,
            };
            match feature {
                Feature::Empty => *feature = Feature::Bytes(vec![bytes]),
                Feature::Bytes(list) => list.push(bytes),
                _ => return Ok(false),
            }
            return Ok(true);
        }
        Kind::Float => {
            let float = cursor.read_f64()? as f32;
            match feature {
                Feature::Empty => *feature = Feature::Floats(vec![float]),
                Feature::Floats(list) => list.push(float),
                _ => return Ok(false),
            }
            return Ok(true);
        }
        Kind::Bool => i64::from(cursor.read_bool()?),
        Kind::Int => match cursor.read_i64() {
            Ok(int) => int,
            Err(_) => return Ok(false),
        },
        _ => return Ok(false),
    };
    match feature {
        Feature::Empty => *feature = Feature::Ints(vec![int]),
        Feature::Ints(list) => list.push(int),
        _ => return Ok(false),
    }
    Ok(true)
}

/// The numbers of an array, if a feature can hold them.
fn numbers(array: &NdArray<'_>) -> Option<Feature<'static>> {
    fn all<T: Element, U>(array: &NdArray<'_>, convert: impl Fn(T) -> Option<U>) -> Option<Vec<U>> {
        array.to_ndarray::<T>().ok()?.iter().map(|&number| convert(number)).collect()
    }
    Some(match (array.dtype().kind(), array.dtype().item_size()) {
        (Type::Bool, _) => Feature::Ints(all(array, |truth: bool| Some(i64::from(truth)))?),
        (Type::Int, 1) => Feature::Ints(all(array, |n: i8| Some(n.into()))?),
        (Type::Int, 2) => Feature::Ints(all(array, |n: i16| Some(n.into()))?),
        (Type::Int, 4) => Feature::Ints(all(array, |n: i32| Some(n.into()))?),
        (Type::Int, 8) => Feature::Ints(all(array, |n: i64| Some(n))?),
        (Type::UInt, 1) => Feature::Ints(all(array, |n: u8| Some(n.into()))?),
        (Type::UInt, 2) => Feature::Ints(all(array, |n: u16| Some(n.into()))?),
        (Type::UInt, 4) => Feature::Ints(all(array, |n: u32| Some(n.into()))?),
        (Type::UInt, 8) => Feature::Ints(all(array, |n: u64| n.try_into().ok())?),
        (Type::Float, 2) => Feature::Floats(all(array, |n: half::f16| Some(n.into()))?),
        (Type::Float, 4) => Feature::Floats(all(array, |n: f32| Some(n))?),
        (Type::Float, 8) => Feature::Floats(all(array, |n: f64| Some(n as f32))?),
        _ => return None,
    })
}
