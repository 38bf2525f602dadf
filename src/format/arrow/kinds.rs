//! The types of fields that columns can hold: found from some of the samples, and required of all others.

use std::fmt;
use std::sync::Arc;

use arrow_array::{Array, StringArray};
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use serde_json::{Map, Value as Json, json};

use super::form::{ARRAY_TYPE, EXTENSION, EXTENSION_DETAIL, Form, Slot};
use crate::error::Result;
use crate::format::find::{Distinct, Finder};
use crate::format::msgpack::numpy::{self, Special};
use crate::format::msgpack::{Cursor, Kind as Packed, MAX_DEPTH};
use crate::value::{DType, DTypeKind as Kind, NdArray, Unit};

/// What columns are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// Files as Hugging Face `datasets` writes them.
    File,
    /// Batches for programs that query them.
    Stream {
        /// Whether bytes stay where they are, and columns point to them.
        views: bool,
    },
}

/// The type of values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    Nil,
    Bool,
    /// Whether some are negative, whether some are 2^63 or more, and how many bits they need without
    /// the sign.
    Int {
        negative: bool,
        large: bool,
        bits: u32,
    },
    F32,
    F64,
    Text,
    /// Whether all are images by their first bytes.
    Bytes {
        images: bool,
    },
    Scalar(DType),
    /// Numbers that stand for one of these names.
    Label(Arc<StringArray>),
    /// NumPy arrays, and the lengths of those axes whose length is always the same.
    Array(DType, Vec<Option<usize>>),
    /// Lists, and whether each of them has a nil in it.
    List(Box<Type>, bool),
    /// NumPy arrays of one axis, and lists of such numbers with a nil in them: what lists with nulls
    /// are read as.
    Nullable(DType),
    /// Maps. An entry may be missing in some of them.
    Map(Vec<Entry>),
}

/// An entry of maps, or a field of samples.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) of: Type,
    pub(crate) missing: bool,
    /// Whether some are nil.
    pub(crate) nil: bool,
}

/// Why a value has no type, as "expected …, found …" without the first word.
pub(crate) type Mismatch = String;

impl Type {
    /// The type of a packed value. `depth` is the number of values around it.
    pub(crate) fn of(cursor: &mut Cursor<'_>, depth: usize) -> Result<Result<Type, Mismatch>> {
        if depth == MAX_DEPTH / 8 {
            return Ok(Err("lists and maps nested less deeply".to_owned()));
        }
        Ok(Ok(match cursor.peek()? {
            Packed::Nil => cursor.read_nil().map(|()| Type::Nil)?,
            Packed::Bool => cursor.read_bool().map(|_| Type::Bool)?,
            Packed::Int => match cursor.read_i64() {
                Ok(number) => {
                    let magnitude = if number < 0 { !number } else { number };
                    let bits = 64 - magnitude.leading_zeros();
                    Type::Int { negative: number < 0, large: false, bits }
                }
                Err(_) => cursor.read_u64().map(|_| Type::Int {
                    negative: false,
                    large: true,
                    bits: 64,
                })?,
            },
            // A 32-bit float has a first byte of its own.
            Packed::Float if cursor.rest().first() == Some(&0xca) => {
                cursor.read_f32().map(|_| Type::F32)?
            }
            Packed::Float => cursor.read_f64().map(|_| Type::F64)?,
            Packed::Str => cursor.read_str().map(|_| Type::Text)?,
            Packed::Bin => Type::Bytes { images: is_image(cursor.read_bin()?) },
            Packed::Array => {
                let (mut items, mut nil) = (Type::Nil, false);
                for _ in 0..cursor.read_array_len()? {
                    let item = match Type::of(cursor, depth + 1)? {
                        Ok(item) => item,
                        flaw => return Ok(flaw),
                    };
                    nil |= item == Type::Nil;
                    match items.merge(&item) {
                        Some(merged) => items = merged,
                        None => {
                            return Ok(Err(format!("lists of one type, found {items} and {item}")));
                        }
                    }
                }
                Type::List(Box::new(items), nil)
            }
            Packed::Map => return special_or_map(cursor, depth),
            other => {
                return Ok(Err(
                    format!("a value that a column can have, found {other:?}").to_lowercase()
                ));
            }
        }))
    }

    /// The type of values of both types, if they fit in one column.
    pub(crate) fn merge(&self, other: &Type) -> Option<Type> {
        Some(match (self, other) {
            (Type::Nil, same) | (same, Type::Nil) => same.clone(),
            (
                Type::Int { negative, large, bits },
                Type::Int { negative: also_negative, large: also_large, bits: also_bits },
            ) => {
                let (negative, large) = (*negative || *also_negative, *large || *also_large);
                let bits = (*bits).max(*also_bits);
                return (!(negative && large)).then_some(Type::Int { negative, large, bits });
            }
            (Type::Bytes { images }, Type::Bytes { images: also }) => {
                Type::Bytes { images: *images && *also }
            }
            (Type::Array(dtype, shape), Type::Array(other, found)) => {
                if dtype != other || shape.len() != found.len() {
                    return None;
                }
                let len = |(len, found): (&Option<usize>, &Option<usize>)| {
                    if len == found { *len } else { None }
                };
                Type::Array(dtype.clone(), shape.iter().zip(found).map(len).collect())
            }
            (Type::List(items, nil), Type::List(others, also)) => {
                Type::List(Box::new(items.merge(others)?), *nil && *also)
            }
            (
                Type::Array(dtype, _) | Type::Nullable(dtype),
                found @ (Type::List(..) | Type::Nullable(_)),
            )
            | (
                found @ (Type::List(..) | Type::Nullable(_)),
                Type::Array(dtype, _) | Type::Nullable(dtype),
            ) => {
                let nullable = Type::Nullable(dtype.clone());
                let whole = match (self, other) {
                    (array @ Type::Array(..), _) | (_, array @ Type::Array(..)) => array,
                    _ => &nullable,
                };
                let fits = |of: &Type| *of == nullable || nullable.takes(of);
                return (fits(found) && fits(whole)).then_some(nullable);
            }
            (Type::Map(entries), Type::Map(others)) => Type::Map(merge_entries(entries, others)?),
            (same, other) => return (same == other).then(|| same.clone()),
        })
    }

    /// Whether a column of this type can hold a value of the other one and give it back.
    pub(crate) fn takes(&self, found: &Type) -> bool {
        match (self, found) {
            (_, Type::Nil) | (Type::Bytes { .. }, Type::Bytes { .. }) => true,
            (Type::Int { large: true, .. }, Type::Int { negative, .. }) => !negative,
            (Type::Int { .. }, Type::Int { large, .. }) => !large,
            (Type::Label(_), Type::Int { .. }) => true,
            (Type::Array(dtype, shape), Type::Array(other, found)) => {
                let mut nothing = false;
                let same = dtype == other && shape.len() == found.len();
                same && shape.iter().zip(found).all(|(len, found)| {
                    // The axes after an empty one leave no trace.
                    let fits = match len {
                        Some(_) => len == found,
                        None => !nothing || *found == Some(0),
                    };
                    nothing |= *found == Some(0);
                    fits
                })
            }
            (Type::List(items, _), Type::List(found, _)) => items.takes(found),
            (Type::Nullable(dtype), Type::Array(other, shape)) => {
                dtype == other && shape.len() == 1
            }
            (Type::Nullable(dtype), Type::List(items, nil)) => *nil && items.is_plain(dtype),
            (Type::Map(entries), Type::Map(found)) => {
                let mut known = Finder::new(entries, Entry::name);
                found.iter().all(|found| {
                    known.find(&found.name).is_some_and(|entry| entry.of.takes(&found.of))
                })
            }
            (same, found) => same == found,
        }
    }

    /// The column type.
    pub(crate) fn data_type(&self, target: Target) -> DataType {
        let item = |of| Arc::new(Field::new("item", of, true));
        let number = |dtype| number_type_for(dtype, target).unwrap_or(DataType::Null);
        match self {
            Type::Nil => DataType::Null,
            Type::Bool => DataType::Boolean,
            Type::Int { large: true, .. } => DataType::UInt64,
            Type::Int { .. } => DataType::Int64,
            Type::F32 => DataType::Float32,
            Type::F64 => DataType::Float64,
            Type::Text => DataType::Utf8,
            Type::Bytes { .. } if target == (Target::Stream { views: true }) => {
                DataType::BinaryView
            }
            Type::Bytes { images: true } if target == Target::File => {
                DataType::Struct(file_fields())
            }
            Type::Bytes { .. } => DataType::Binary,
            Type::Scalar(dtype) => number(dtype),
            Type::Label(names) => {
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(names.data_type().clone()))
            }
            Type::Array(dtype, shape) => {
                let lists = lists_of(shape, target);
                let (lists, fixed) = shape.split_at(lists);
                let fixed = fixed.iter().rev().flatten().fold(number(dtype), |of, &len| {
                    // `lists_of` has seen that it is small.
                    DataType::FixedSizeList(item(of), len as i32)
                });
                lists.iter().fold(fixed, |of, _| DataType::List(item(of)))
            }
            Type::Nullable(dtype) => DataType::List(item(number(dtype))),
            Type::List(items, _) => DataType::List(item(items.data_type(target.in_lists()))),
            Type::Map(entries) => {
                DataType::Struct(entries.iter().map(|entry| entry.field(target)).collect())
            }
        }
    }

    /// The form that a reader needs to get the values back.
    pub(crate) fn form(&self, target: Target) -> Form {
        let is_longer = |dtype: &DType| target == Target::File && is_seconds(dtype);
        match self {
            Type::Scalar(dtype) if is_longer(dtype) => Form::Seconds(Box::new(Form::Scalar)),
            Type::Scalar(_) => Form::Scalar,
            Type::Label(_) => Form::Names,
            Type::Array(dtype, shape) if is_longer(dtype) => {
                Form::Seconds(Box::new(Form::Array(shape.clone())))
            }
            Type::Array(_, shape) => Form::Array(shape.clone()),
            // A reader makes this of lists of numbers without a note.
            Type::Nullable(_) => Form::Plain,
            Type::List(items, _) => {
                Form::List(Box::new(Slot { form: items.form(target), optional: false }))
            }
            Type::Map(entries) => {
                Form::Struct(entries.iter().map(|entry| entry.slot(target)).collect())
            }
            _ => Form::Plain,
        }
    }

    /// The feature of Hugging Face `datasets` for this type.
    pub(crate) fn feature(&self, labels: Option<&[String]>) -> Json {
        let value = |name: &str| json!({"dtype": name, "_type": "Value"});
        match self {
            Type::Nil => value("null"),
            Type::Bool => value("bool"),
            Type::Int { .. } if labels.is_some() => json!({"names": labels, "_type": "ClassLabel"}),
            Type::Int { large: true, .. } => value("uint64"),
            Type::Int { .. } | Type::Label(_) => value("int64"),
            Type::F32 => value("float32"),
            Type::F64 => value("float64"),
            Type::Text => value("string"),
            Type::Bytes { images: false } => value("binary"),
            Type::Bytes { images: true } => json!({"_type": "Image"}),
            Type::Scalar(dtype) => value(&feature_name(dtype)),
            Type::Array(dtype, shape) if has_shape(shape) => json!({
                "shape": shape, "dtype": feature_name(dtype), "_type": format!("Array{}D", shape.len()),
            }),
            Type::Array(dtype, shape) => {
                shape.iter().fold(value(&feature_name(dtype)), |inner, _| list(inner))
            }
            Type::Nullable(dtype) => list(value(&feature_name(dtype))),
            Type::List(items, _) => list(items.feature(None)),
            Type::Map(entries) => {
                let feature = |entry: &Entry| (entry.name.clone(), entry.of.feature(None));
                Json::Object(entries.iter().map(feature).collect::<Map<_, _>>())
            }
        }
    }

    /// Whether these are what numbers of this type are read as where they are not in an array.
    fn is_plain(&self, dtype: &DType) -> bool {
        let bits = 8 * dtype.item_size() as u32;
        match (self, dtype.kind()) {
            (Type::Nil, _) => number_type(dtype).is_some() && !is_seconds(dtype),
            (Type::Bool, Kind::Bool) => true,
            (Type::Int { bits: needed, .. }, Kind::Int) => *needed < bits,
            (Type::Int { negative, bits: needed, .. }, Kind::UInt) => !negative && *needed <= bits,
            (Type::F32, Kind::Float) => bits == 32,
            (Type::F64, Kind::Float) => bits == 64,
            (Type::Scalar(own), _) => {
                let has_plain = matches!(dtype.kind(), Kind::Bool | Kind::Int | Kind::UInt)
                    || (dtype.kind() == Kind::Float && bits > 16);
                own == dtype && !has_plain && !is_seconds(dtype)
            }
            _ => false,
        }
    }

    /// Why no column can have this type, although each value could be in one.
    pub(crate) fn flaw(&self) -> Option<Mismatch> {
        match self {
            Type::List(items, _) => items.flaw(),
            Type::Map(entries) if entries.is_empty() => {
                Some("maps with entries, found only empty ones".to_owned())
            }
            Type::Map(entries) => entries.iter().find_map(|entry| entry.of.flaw()),
            _ => None,
        }
    }
}

/// Whether `datasets` supports arrays of this shape: only the first axis may vary.
fn has_shape(shape: &[Option<usize>]) -> bool {
    (2..=5).contains(&shape.len()) && shape[1..].iter().all(Option::is_some)
}

/// A list of this feature. For maps, the older notation would mean a map of lists.
fn list(inner: Json) -> Json {
    match inner.get("_type") {
        Some(_) => json!({"feature": inner, "_type": "Sequence"}),
        None => json!([inner]),
    }
}

/// The columns of a file: its bytes and its path.
pub(crate) fn file_fields() -> Fields {
    [Field::new("bytes", DataType::Binary, true), Field::new("path", DataType::Utf8, true)]
        .into_iter()
        .collect()
}

impl Entry {
    /// The column. Arrays in files have a mark, without which `datasets` ignores its own features.
    pub(crate) fn field(&self, target: Target) -> Field {
        let field = Field::new(&self.name, self.of.data_type(target), true);
        let Type::Array(dtype, shape) = &self.of else { return field };
        if target != Target::File || !has_shape(shape) {
            return field;
        }
        let name = format!("{ARRAY_TYPE}{}DExtensionType", shape.len());
        let detail = json!([shape, feature_name(dtype)]).to_string();
        let mark = [(EXTENSION.to_owned(), name), (EXTENSION_DETAIL.to_owned(), detail)];
        field.with_metadata(mark.into())
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn slot(&self, target: Target) -> Slot {
        Slot { form: self.of.form(target), optional: self.is_optional() }
    }

    /// Whether null means that the entry is missing. One null has one meaning: where some are nil, what is missing
    /// becomes nil.
    pub(crate) fn is_optional(&self) -> bool {
        self.missing && !self.nil
    }
}

/// Arrays of at most this many elements have their shape in the type of the column.
const SMALL: usize = 4096;

/// How many of the outer axes are lists of any length. The others are lists of one length, which none of the programs
/// that read them can have without any items.
pub(crate) fn lists_of(shape: &[Option<usize>], target: Target) -> usize {
    let mut elements = 1;
    let fixed = shape.iter().rev().take_while(|len| {
        elements = len.filter(|&len| len > 0).map_or(SMALL + 1, |len| len.saturating_mul(elements));
        target != Target::File && elements <= SMALL
    });
    shape.len() - fixed.count()
}

impl Target {
    /// The same for what is in lists: pandas reads no lists of views.
    pub(crate) fn in_lists(self) -> Target {
        match self {
            Target::File => self,
            Target::Stream { .. } => Target::Stream { views: false },
        }
    }
}

/// The entries of both, in the order of their first appearance.
pub(crate) fn merge_entries(entries: &[Entry], others: &[Entry]) -> Option<Vec<Entry>> {
    let mut merged = Vec::with_capacity(entries.len().max(others.len()));
    let mut found = Finder::new(others, Entry::name);
    for entry in entries {
        let other = found.find(&entry.name);
        let of = other.map_or(Some(entry.of.clone()), |other| entry.of.merge(&other.of))?;
        let missing = entry.missing || other.is_none_or(|other| other.missing);
        let nil = entry.nil || other.is_some_and(|other| other.nil);
        merged.push(Entry { name: entry.name.clone(), of, missing, nil });
    }
    let mut known = Finder::new(entries, Entry::name);
    for other in others {
        if known.find(&other.name).is_none() {
            merged.push(Entry { missing: true, ..other.clone() });
        }
    }
    Some(merged)
}

fn special_or_map(cursor: &mut Cursor<'_>, depth: usize) -> Result<Result<Type, Mismatch>> {
    let mut ahead = cursor.clone();
    // A map that does not encode a NumPy value is just a map.
    if let Ok(Some(special)) = numpy::read(&mut ahead) {
        *cursor = ahead;
        return Ok(special_type(&special));
    }
    let (mut entries, mut names) = (Vec::new(), Distinct::default());
    for _ in 0..cursor.read_map_len()? {
        if cursor.peek()? != Packed::Str {
            return Ok(Err("maps whose keys are strings, found another key".to_owned()));
        }
        let name = cursor.read_str()?;
        if !names.insert(name) {
            return Ok(Err(format!("maps with different keys, found {name:?} twice")));
        }
        let name = name.to_owned();
        match Type::of(cursor, depth + 1)? {
            Ok(of) => entries.push(Entry { name, nil: of == Type::Nil, of, missing: false }),
            flaw => return Ok(flaw),
        }
    }
    Ok(Ok(Type::Map(entries)))
}

fn special_type(special: &Special<'_>) -> Result<Type, Mismatch> {
    let (array, of): (&NdArray<'_>, _) = match special {
        Special::Complex(_, _) => return Err("numbers without an imaginary part".to_owned()),
        Special::Scalar(array) => (array, Type::Scalar(array.dtype().clone())),
        Special::Array(array) => {
            let shape = array.shape().iter().map(|&len| Some(len)).collect();
            (array, Type::Array(array.dtype().clone(), shape))
        }
    };
    let dtype = array.dtype();
    match number_type(dtype) {
        Some(_) => Ok(of),
        None => Err(format!(
            "numbers, or times in days, or seconds or finer, with the lower byte first, found {dtype}"
        )),
    }
}

/// The column type of a NumPy type in files.
pub(crate) fn number_type(dtype: &DType) -> Option<DataType> {
    if dtype.byte_order() == crate::value::ByteOrder::Big {
        return None;
    }
    let unit = || {
        let time = dtype.time_unit().filter(|time| time.count == 1)?;
        Some(match time.unit {
            Unit::Second => TimeUnit::Second,
            Unit::Millisecond => TimeUnit::Millisecond,
            Unit::Microsecond => TimeUnit::Microsecond,
            Unit::Nanosecond => TimeUnit::Nanosecond,
            _ => return None,
        })
    };
    Some(match (dtype.kind(), dtype.item_size()) {
        (Kind::Bool, _) => DataType::Boolean,
        (Kind::Int, 1) => DataType::Int8,
        (Kind::Int, 2) => DataType::Int16,
        (Kind::Int, 4) => DataType::Int32,
        (Kind::Int, 8) => DataType::Int64,
        (Kind::UInt, 1) => DataType::UInt8,
        (Kind::UInt, 2) => DataType::UInt16,
        (Kind::UInt, 4) => DataType::UInt32,
        (Kind::UInt, 8) => DataType::UInt64,
        (Kind::Float, 2) => DataType::Float16,
        (Kind::Float, 4) => DataType::Float32,
        (Kind::Float, 8) => DataType::Float64,
        (Kind::DateTime, _) if is_unit(dtype, Unit::Day) => DataType::Date32,
        // Parquet has no points in time in seconds, and readers would find integers.
        (Kind::DateTime, _) if is_seconds(dtype) => {
            DataType::Timestamp(TimeUnit::Millisecond, None)
        }
        (Kind::DateTime, _) => DataType::Timestamp(unit()?, None),
        (Kind::TimeDelta, _) => DataType::Duration(unit()?),
        _ => return None,
    })
}

/// The same in columns for this.
fn number_type_for(dtype: &DType, target: Target) -> Option<DataType> {
    match target {
        Target::Stream { .. } if is_seconds(dtype) => {
            Some(DataType::Timestamp(TimeUnit::Second, None))
        }
        _ => number_type(dtype),
    }
}

/// Whether these are points in time in seconds, which files store as milliseconds.
pub(crate) fn is_seconds(dtype: &DType) -> bool {
    dtype.kind() == Kind::DateTime && is_unit(dtype, Unit::Second)
}

fn is_unit(dtype: &DType, unit: Unit) -> bool {
    dtype.time_unit().is_some_and(|time| time.count == 1 && time.unit == unit)
}

/// The bytes of the elements as a column stores them, in C order: days in 32 bits, and in files seconds as
/// milliseconds. `None` if one is out of range.
pub(crate) fn stored<'a>(
    array: &'a NdArray<'_>,
    target: Target,
) -> Option<std::borrow::Cow<'a, [u8]>> {
    let bytes = array.c_bytes();
    let numbers = || {
        bytes.chunks_exact(8).map(|chunk| i64::from_le_bytes(chunk.try_into().unwrap_or([0; 8])))
    };
    let dtype = array.dtype();
    if target == Target::File && is_seconds(dtype) {
        let times = numbers().map(|seconds| match seconds {
            // Not a time.
            i64::MIN => Some(seconds),
            seconds => seconds.checked_mul(1000),
        });
        let times: Vec<i64> = times.collect::<Option<_>>()?;
        return Some(times.iter().flat_map(|time| time.to_le_bytes()).collect());
    }
    if dtype.kind() == Kind::DateTime && is_unit(dtype, Unit::Day) {
        let day_of = |day: i64| match day {
            // Not a time, which columns of files cannot say.
            i64::MIN if target != Target::File => Some(i32::MIN),
            day => i32::try_from(day).ok().filter(|&day| target == Target::File || day > i32::MIN),
        };
        let days: Vec<i32> = numbers().map(day_of).collect::<Option<_>>()?;
        return Some(days.iter().flat_map(|day| day.to_le_bytes()).collect());
    }
    Some(bytes)
}

/// The name of a NumPy type in `datasets`.
fn feature_name(dtype: &DType) -> String {
    let unit = |of: &TimeUnit| match of {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    };
    match number_type(dtype) {
        Some(DataType::Boolean) => "bool".to_owned(),
        Some(DataType::Timestamp(of, _)) => format!("timestamp[{}]", unit(&of)),
        Some(DataType::Duration(of)) => format!("duration[{}]", unit(&of)),
        Some(of) => format!("{of:?}").to_lowercase(),
        None => "null".to_owned(),
    }
}

/// Whether these are the first bytes of an image in a common format.
fn is_image(bytes: &[u8]) -> bool {
    let starts: [&[u8]; 7] =
        [b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*", b"BM"];
    let is_webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    let is_bmp = |start: &[u8]| start != b"BM" || bytes.get(6..10) == Some(&[0; 4]);
    is_webp || starts.iter().any(|start| bytes.starts_with(start) && is_bmp(start))
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Nil => f.write_str("nil"),
            Type::Bool => f.write_str("true or false"),
            Type::Int { large: true, .. } => f.write_str("an integer up to 2^64-1"),
            Type::Int { .. } => f.write_str("an integer of 64 bits"),
            Type::F32 => f.write_str("a float of 32 bits"),
            Type::F64 => f.write_str("a float of 64 bits"),
            Type::Text => f.write_str("text"),
            Type::Bytes { .. } => f.write_str("bytes"),
            Type::Scalar(dtype) => write!(f, "a number of NumPy's {dtype}"),
            Type::Label(names) => write!(f, "the number of one of {} labels", names.len()),
            Type::Array(dtype, shape) => {
                write!(f, "an array of {dtype} (")?;
                for (at, len) in shape.iter().enumerate() {
                    let comma = if at > 0 { ", " } else { "" };
                    match len {
                        Some(len) => write!(f, "{comma}{len}")?,
                        None => write!(f, "{comma}any")?,
                    }
                }
                f.write_str(")")
            }
            Type::List(items, _) => write!(f, "a list of {items}"),
            Type::Nullable(dtype) => write!(f, "an array of {dtype}, or a list with nil"),
            Type::Map(entries) => {
                let names: Vec<&str> = entries.iter().map(|entry| &entry.name[..]).collect();
                write!(f, "a map of {}", names.join(", "))
            }
        }
    }
}
