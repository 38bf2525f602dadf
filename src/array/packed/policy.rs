//! How arrays are stored in samples: plain or packed; and conversion from one to the other.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::blosc::{Codec, Params, Shuffle};
use crate::format::bloscpack::Container;
use crate::format::msgpack::numpy::{
    Form, Special, Stored, arrays_in, canonical_array, encode_array, read,
};
use crate::format::msgpack::{Cursor, write_bin};
use crate::value::NdArray;

use super::array::PackedArray;
use super::pack::PackOptions;
use crate::array::selection::invalid;

/// The default minimum size of packed arrays. A container takes some 110 bytes more than what
/// msgpack-numpy puts around an array. Numbers of 8 bytes that compress well make up for that from
/// 150 to 250 bytes on, noise only from 2 KiB on; in between there is little to gain, and each such
/// array has to be decompressed whenever its sample is read.
const MIN_BYTES: usize = 1 << 10;

/// Which arrays of samples are packed, and how.
///
/// An array is stored *plain*, as the map that msgpack-numpy writes and Python datadings turns into
/// a `numpy.ndarray`; or *packed*, as a [bloscpack](crate::format::bloscpack) container in binary
/// data, which Python gets as `bytes` for `bloscpack.unpack_ndarray_from_bytes`. Everything in this
/// crate that reads arrays takes either.
///
/// Parses from `plain`, `blpk`, `blpk:CODEC`, `blpk:CODEC:LEVEL` or `blpk:CODEC:LEVEL:SHUFFLE`,
/// where SHUFFLE is `noshuffle`, `shuffle` or `bitshuffle`.
///
/// ```
/// use kiste::array::{ArrayPolicy, ArrayTally, PackedArray};
/// use kiste::{DatasetReader, Writer};
/// use ndarray::Array2;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Sample {
///     key: String,
///     #[serde(with = "kiste::serde_ndarray")]
///     x: Array2<f32>,
/// }
///
/// #[derive(Deserialize)]
/// struct Lazy<'a> {
///     #[serde(borrow)]
///     x: PackedArray<'a>,
/// }
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ramps.msgpack");
/// let x = Array2::from_shape_fn((100, 50), |(row, column)| (row + column) as f32);
/// let policy: ArrayPolicy = "blpk:lz4:5".parse()?;
/// let mut writer = Writer::options().arrays(policy).create(&path)?;
/// writer.write(&Sample { key: "a".into(), x: x.clone() })?;
/// assert!(writer.bytes() < 5_000); // of 20,000
/// writer.finish()?;
///
/// let reader = DatasetReader::open(&path)?;
/// assert_eq!(reader.get_as::<Sample>(0)?.x, x);
/// let lazy: Lazy = reader.get_as(0)?; // decodes nothing
/// assert_eq!(lazy.x.rows(7..8)?.view::<f32>()?[[0, 3]], 10.0);
///
/// // And back: the bytes that there would have been without a policy.
/// let raw = reader.get_raw(0)?;
/// let mut tally = ArrayTally::default();
/// let plain = ArrayPolicy::plain().recode(&raw, &mut tally)?;
/// assert_eq!((tally.recoded, plain.len()), (1, tally.bytes_after as usize + 9));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ArrayPolicy {
    form: Target,
    min_bytes: usize,
    fields: Option<Vec<String>>,
}

#[derive(Debug, Clone)]
enum Target {
    Plain,
    Packed(PackOptions),
}

impl ArrayPolicy {
    /// All arrays plain.
    pub fn plain() -> ArrayPolicy {
        ArrayPolicy { form: Target::Plain, min_bytes: MIN_BYTES, fields: None }
    }

    /// Arrays packed with these options, usually [`PackOptions::compact`].
    pub fn packed(options: PackOptions) -> ArrayPolicy {
        ArrayPolicy { form: Target::Packed(options), ..ArrayPolicy::plain() }
    }

    /// Packs only arrays of at least this many bytes. Default: 1024. With 0 all are packed, so that
    /// a field holds only containers.
    pub fn min_bytes(mut self, bytes: usize) -> ArrayPolicy {
        self.min_bytes = bytes;
        self
    }

    /// Packs only arrays in these fields of samples, at any depth. Default: all fields.
    pub fn fields<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> ArrayPolicy {
        self.fields = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// The sample with its arrays stored according to the policy. All other bytes stay the same,
    /// and so do values, type and shape of the arrays. `tally` counts what happened to each array.
    ///
    /// Arrays that are packed differently than Python packs them are left alone, and so are those
    /// that the other form cannot hold: so everything that becomes a container can be restored byte
    /// for byte.
    ///
    /// # Errors
    ///
    /// [`Damaged`](ErrorKind::Damaged) for bytes that are not a sample, and for a container that is
    /// to be recoded and cannot be decoded; the errors of [`PackOptions::pack`].
    pub fn recode<'a>(&self, sample: &'a [u8], tally: &mut ArrayTally) -> Result<Cow<'a, [u8]>> {
        let (mut out, mut copied, mut noted) = (Vec::new(), 0, ArrayTally::default());
        for stored in arrays_in(sample)? {
            let stored = stored?;
            let fate = self.fate(&stored).map_err(|error| in_field(&stored, &error))?;
            noted.note(&stored, &fate);
            if let Fate::Recoded(bytes) = fate {
                out.extend_from_slice(&sample[copied..stored.range.start]);
                out.extend_from_slice(&bytes);
                copied = stored.range.end;
            }
        }
        *tally += noted;
        if copied == 0 {
            return Ok(Cow::Borrowed(sample));
        }
        out.extend_from_slice(&sample[copied..]);
        Ok(Cow::Owned(out))
    }

    fn fate(&self, stored: &Stored<'_>) -> Result<Fate> {
        let is_wanted = |name: &String| name.as_bytes() == stored.field;
        if self.fields.as_ref().is_some_and(|names| !names.iter().any(is_wanted)) {
            return Ok(Fate::Left(Left::OtherField));
        }
        match (&self.form, stored.form) {
            (Target::Plain, Form::Plain(_)) => Ok(Fate::Left(Left::AsWanted)),
            (Target::Plain, Form::Container(bytes)) => unpack(stored, bytes),
            (Target::Packed(options), Form::Plain(packed)) => self.pack(options, packed),
            (Target::Packed(options), Form::Container(bytes)) => {
                self.repack(options, stored, bytes)
            }
        }
    }

    /// From a map to a container.
    fn pack(&self, options: &PackOptions, packed: &[u8]) -> Result<Fate> {
        let Some(array) = canonical_array(packed) else {
            return Ok(match read(&mut Cursor::new(packed)) {
                Ok(Some(Special::Array(_))) | Err(_) => Fate::Left(Left::Irregular),
                Ok(_) => Fate::NoArray,
            });
        };
        if let Some(left) = self.unfit(&array) {
            return Ok(Fate::Left(left));
        }
        let container = match options.pack(&array) {
            Err(error) if error.kind() == ErrorKind::Limit => {
                return Ok(Fate::Left(Left::Unsupported));
            }
            container => container?,
        };
        // Metadata cannot express exactly the same types as samples.
        let again = PackedArray::from_bytes(&container[..])?;
        if again.dtype() != array.dtype() || again.shape() != array.shape() {
            return Ok(Fate::Left(Left::Unsupported));
        }
        Ok(Fate::Recoded(in_bin(&container)?))
    }

    /// From one container to another, with the same metadata.
    fn repack(&self, options: &PackOptions, stored: &Stored<'_>, bytes: &[u8]) -> Result<Fate> {
        let (packed, array) = match decoded(stored, bytes)? {
            Ok(decoded) => decoded,
            Err(left) => return Ok(Fate::Left(left)),
        };
        if let Some(left) = self.unfit(&array) {
            return Ok(Fate::Left(left));
        }
        let metadata = packed.container().metadata();
        let text = metadata.map(|metadata| metadata.text()).transpose()?.unwrap_or_default();
        let container = options.pack_described(&array, &text)?;
        match container == bytes {
            true => Ok(Fate::Left(Left::AsWanted)),
            false => Ok(Fate::Recoded(in_bin(&container)?)),
        }
    }

    /// Why an array should not be packed.
    fn unfit(&self, array: &NdArray<'_>) -> Option<Left> {
        if array.dtype().has_objects() || array.dtype().item_size() == 0 {
            Some(Left::Unsupported)
        } else if array.bytes().len() < self.min_bytes {
            Some(Left::Small)
        } else {
            None
        }
    }
}

/// From a container to a map.
fn unpack(stored: &Stored<'_>, bytes: &[u8]) -> Result<Fate> {
    let (packed, array) = match decoded(stored, bytes)? {
        Ok(decoded) => decoded,
        Err(left) => return Ok(Fate::Left(left)),
    };
    let metadata = packed.container().metadata();
    let value = metadata.map(|metadata| metadata.value()).transpose()?;
    // Type, shape, order, and the kind of container.
    if value.and_then(|value| Some(value.as_object()?.len())) != Some(4) {
        return Ok(Fate::Left(Left::Metadata));
    }
    let mut recoded = Vec::new();
    encode_array(&array, &mut recoded)?;
    // A type that comes out differently would be another one to Python.
    match canonical_array(&recoded) {
        Some(again) if again.dtype() == array.dtype() => Ok(Fate::Recoded(recoded)),
        _ => Ok(Fate::Left(Left::Unsupported)),
    }
}

/// The array of a container and its elements, or why it is left alone.
fn decoded<'a>(
    stored: &Stored<'_>,
    bytes: &'a [u8],
) -> Result<Result<(PackedArray<'a>, NdArray<'static>), Left>> {
    let damaged = |error: FormatError| Error::from(stored.locate(error));
    let container = Container::parse(bytes).map_err(damaged)?;
    if container.array_if_any().map_err(damaged)?.is_none() {
        return Ok(Err(Left::NoArray));
    }
    let mut end = container.data_start();
    for chunk in container.chunks() {
        end = chunk.map_err(damaged)?.end();
    }
    if end != bytes.len() {
        return Ok(Err(Left::Irregular));
    }
    let packed = PackedArray::from_bytes(bytes)?;
    // Checking finds the position in the sample.
    let located = |error| stored.check().err().map_or(error, Error::from);
    let array = packed.read().map_err(located)?;
    Ok(Ok((packed, array)))
}

fn in_bin(container: &[u8]) -> Result<Vec<u8>> {
    let mut packed = Vec::with_capacity(container.len() + 5);
    write_bin(container, &mut packed)?;
    Ok(packed)
}

fn in_field(stored: &Stored<'_>, error: &Error) -> Error {
    let message = format!("field {:?}: {}", stored.field_name(), error.message());
    Error::new(error.kind(), message)
}

/// The decision about one array.
enum Fate {
    /// These bytes take its place.
    Recoded(Vec<u8>),
    Left(Left),
    /// It is not an array at all.
    NoArray,
}

/// Why an array was left as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Left {
    /// It is stored as it should be.
    AsWanted,
    /// It is in a field that was not named.
    OtherField,
    /// It is smaller than arrays that are to be packed.
    Small,
    /// It is not packed exactly as msgpack-numpy or bloscpack pack it, so it could not be restored
    /// byte for byte.
    Irregular,
    /// The other form does not hold arrays of this type: Python objects, or elements without bytes.
    Unsupported,
    /// The container has more metadata than a plain array can hold.
    Metadata,
    /// The container holds no array.
    NoArray,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Left::AsWanted => "already stored as requested",
            Left::OtherField => "in other fields",
            Left::Small => "too small",
            Left::Irregular => "packed differently than Python does",
            Left::Unsupported => "of types that the other form cannot hold",
            Left::Metadata => "with metadata that a plain array cannot hold",
            Left::NoArray => "containers of something else",
        })
    }
}

/// Counts of arrays that were recoded, or left as they were and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ArrayTally {
    /// Arrays that were converted to the other form, or repacked.
    pub recoded: u64,
    /// Bytes that these took in the samples before, including what stands around their elements.
    pub bytes_before: u64,
    /// Bytes that they take now.
    pub bytes_after: u64,
    /// How many arrays were left as they were, and why.
    pub left: BTreeMap<Left, u64>,
}

impl ArrayTally {
    /// How many times smaller the recoded arrays became; 1 if there are none.
    pub fn ratio(&self) -> f64 {
        match self.bytes_after {
            0 => 1.0,
            after => self.bytes_before as f64 / after as f64,
        }
    }

    fn note(&mut self, stored: &Stored<'_>, fate: &Fate) {
        match fate {
            Fate::Recoded(bytes) => {
                self.recoded += 1;
                self.bytes_before += stored.range.len() as u64;
                self.bytes_after += bytes.len() as u64;
            }
            Fate::Left(why) => *self.left.entry(*why).or_default() += 1,
            Fate::NoArray => {}
        }
    }
}

impl AddAssign for ArrayTally {
    fn add_assign(&mut self, other: ArrayTally) {
        self.recoded += other.recoded;
        self.bytes_before += other.bytes_before;
        self.bytes_after += other.bytes_after;
        for (why, count) in other.left {
            *self.left.entry(why).or_default() += count;
        }
    }
}

impl FromStr for ArrayPolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<ArrayPolicy> {
        let mut parts = text.split(':');
        let policy = match (parts.next(), parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("plain"), None, ..) => Some(ArrayPolicy::plain()),
            (Some("blpk"), codec, level, shuffle, None) => {
                Some(ArrayPolicy::packed(options(codec, level, shuffle)?))
            }
            _ => None,
        };
        policy.ok_or_else(|| {
            invalid(format!("expected plain or blpk:CODEC:LEVEL:SHUFFLE, found {text:?}"))
        })
    }
}

/// Options by their names in a policy; each one present has all before it.
fn options(codec: Option<&str>, level: Option<&str>, shuffle: Option<&str>) -> Result<PackOptions> {
    let mut options = PackOptions::compact();
    let mut params = Params::default();
    if let Some(name) = codec {
        params.codec = name.parse::<Codec>()?;
        options = options.codec(params.codec);
    }
    if let Some(level) = level {
        let number = level.parse();
        params.level =
            number.map_err(|_| invalid(format!("expected a level of 0 to 9, found {level:?}")))?;
        options = options.level(params.level);
    }
    if let Some(name) = shuffle {
        options = options.shuffle(match name {
            "noshuffle" => Shuffle::None,
            "shuffle" => Shuffle::Byte,
            "bitshuffle" => Shuffle::Bit,
            other => {
                let expected = "noshuffle, shuffle or bitshuffle";
                return Err(invalid(format!("expected {expected}, found {other:?}")));
            }
        });
    }
    params.check(0)?;
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_from_text() {
        for good in ["plain", "blpk", "blpk:lz4", "blpk:zlib:9", "blpk:lz4:0:noshuffle"] {
            assert!(good.parse::<ArrayPolicy>().is_ok(), "{good}");
        }
        for (bad, says) in [
            ("", "expected plain or blpk"),
            ("plain:lz4", "expected plain or blpk"),
            ("zip", "expected plain or blpk"),
            ("blpk:lz4:5:shuffle:1", "expected plain or blpk"),
            ("blpk:brotli", "found \"brotli\""),
            ("blpk:snappy", "found snappy"),
            ("blpk:lz4:10", "found 10"),
            ("blpk:lz4:x", "found \"x\""),
            ("blpk:lz4:-1", "found \"-1\""),
            ("blpk:lz4:5:twist", "found \"twist\""),
        ] {
            let error = bad.parse::<ArrayPolicy>().unwrap_err();
            assert!(error.to_string().contains(says), "{bad}: {error}");
        }
    }
}
