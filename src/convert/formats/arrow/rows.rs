//! Makes samples of batches of rows.

use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    Decimal256Type, DecimalType, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, TimeUnit};

use super::form::{Form, Plan, Slot};
use crate::Value;
use crate::convert::carried::RemarkLog;
use crate::convert::file_names::is_image;
use crate::convert::formats::image_bytes;
use crate::convert::source_file;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::msgpack::MAX_DEPTH;
use crate::format::msgpack::numpy::{Special, recognise};
use crate::format::sample_fields::{Field, Fields, key_from, pack, stored_name};
use crate::storage::{self, Confined};
use crate::value::{ByteOrder, DType, DTypeKind as Kind, NdArray, Unit};

/// Makes samples of the rows of a file.
pub(super) struct Rows<'a> {
    pub(super) plan: &'a Plan,
    /// The field of the keys.
    pub(super) key: Option<&'a str>,
    /// Fields of columns that are not read: nil.
    pub(super) unread: &'a [String],
    /// The prefix of keys that are numbers of rows.
    pub(super) stem: &'a str,
    /// Where files are that the rows have only the paths of.
    pub(super) files: Files,
    pub(super) flaws: Flaws<'a>,
}

/// Where images that are hardly any are noted.
pub(super) struct Flaws<'a> {
    pub(super) table: &'a Path,
    pub(super) unit: usize,
    pub(super) remarks: &'a RemarkLog,
}

impl Flaws<'_> {
    /// Looks at an image in a column, in the row with this number of the file.
    fn look_at(&self, image: &[u8], column: &str, number: u64) {
        if let Some(flaw) = image_bytes::flaw(image) {
            let place = || format!("{}, row {number}", self.table.display());
            self.remarks.note(self.unit, flaw, Some(stored_name(column)), 1, place);
        }
    }
}

/// Files that rows name by their paths only.
pub(super) struct Files {
    /// The folder of the table.
    folder: Confined,
    /// The most bytes of one.
    max_bytes: u64,
}

impl Files {
    pub(super) fn next_to(table: &Path, outside: bool, max_bytes: u64) -> Files {
        Files { folder: Confined::next_to(table).allow_outside(outside), max_bytes }
    }

    /// The bytes of a file, which must be below the folder: a table may come from anywhere.
    fn read(&self, path: &str) -> Result<Vec<u8>> {
        if path.contains("://") {
            let message = format!("the row has only the address {path:?}, and nothing is fetched");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let what = if storage::is_url(self.folder.folder()) { "URL" } else { "folder" };
        let file = self.folder.path(path).map_err(|error| match error.kind() {
            ErrorKind::Invalid => {
                let message = format!(
                    "the row has only the path {path:?}, which is not below the {what} of the table"
                );
                Error::new(ErrorKind::Invalid, message).with_remedy(Remedy::AllowOutside)
            }
            _ => error,
        })?;
        self.read_file(&file, path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                let message = format!(
                    "the row has only the path {path:?}, and there is no such file next to the \
                     table: {}",
                    error.message()
                );
                Error::new(ErrorKind::NotFound, message)
            }
            _ => error,
        })
    }

    /// The bytes of a file, which the table calls `path`.
    fn read_file(&self, file: &Path, path: &str) -> Result<Vec<u8>> {
        let at = |error| Error::io(path, error);
        let mut bytes = Vec::new();
        let opened = source_file::open_once(file).map_err(at)?;
        opened.take(self.max_bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(at)?;
        if bytes.len() as u64 > self.max_bytes {
            let message =
                format!("{path:?}: expected at most {} bytes, found more", self.max_bytes);
            return Err(Error::above_limit("max_bytes", message));
        }
        Ok(bytes)
    }
}

impl Rows<'_> {
    /// The packed sample of the row with this number of the file.
    pub(super) fn pack(&self, batch: &RecordBatch, row: usize, number: u64) -> Result<Vec<u8>> {
        let mut fields: Fields<'_> = Vec::with_capacity(batch.num_columns() + 1);
        let mut key = None;
        for (at, (column, array)) in self.plan.columns.iter().zip(batch.columns()).enumerate() {
            let name = &column.name;
            if self.plan.key == Some(at) && self.key.is_none_or(|key| key == name) {
                key = Some(key_of(array, row, name)?);
                continue;
            }
            let in_column = |error: Error| {
                let located =
                    Error::new(error.kind(), format!("column {name:?}: {}", error.message()));
                match error.remedy() {
                    Some(remedy) => located.with_remedy(remedy.clone()),
                    None => located,
                }
            };
            let look_at = |image: &[u8]| self.flaws.look_at(image, name, number);
            if column.images {
                each_image(array, row, &column.slot.form, &look_at);
            }
            let read = |path: &str, is_image: bool| {
                let bytes = self.files.read(path)?;
                if is_image {
                    look_at(&bytes);
                }
                Ok(bytes)
            };
            add(&mut fields, name, array, row, &column.slot, &read).map_err(in_column)?;
        }
        let unread =
            self.unread.iter().map(|name| (name.as_str().into(), Field::Value(Value::Nil)));
        fields.extend(unread);
        let key = match (key, self.key) {
            (Some(key), _) => key,
            (None, Some(name)) => key_from(&fields, name)?,
            (None, None) => format!("{}/{number:09}", self.stem),
        };
        pack(&key, &fields)
    }
}

fn key_of(array: &ArrayRef, row: usize, name: &str) -> Result<String> {
    match value(array, row, &Form::Plain, 0)? {
        Value::String(text) => Ok(text.into_str().unwrap_or_default()),
        _ => {
            let message = format!("column {name:?}: expected a key, found nothing");
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}

/// Adds the value of a column in a row. Large values are borrowed. `read` takes the path of a file, and whether
/// it is an image.
fn add<'a>(
    fields: &mut Fields<'a>,
    name: &'a str,
    array: &'a ArrayRef,
    row: usize,
    slot: &Slot,
    read: &dyn Fn(&str, bool) -> Result<Vec<u8>>,
) -> Result<()> {
    if array.is_null(row) {
        if !slot.optional {
            fields.push((name.into(), Field::Value(Value::Nil)));
        }
        return Ok(());
    }
    match (&slot.form, bytes(array, row)) {
        (Form::File { image }, _) => {
            let (bytes, path) = file(array, row);
            let bytes = match (bytes, path) {
                (Some(bytes), _) => Field::Bytes(bytes),
                (None, Some(path)) => Field::Value(read(path, *image)?.into()),
                (None, None) => Field::Value(Value::Nil),
            };
            fields.push((name.into(), bytes));
            if let Some(path) = path {
                fields.push((Cow::Owned(path_field(name)), Field::Value(path.into())));
            }
        }
        (_, Some(bytes)) => fields.push((name.into(), Field::Bytes(bytes))),
        (Form::Seconds(_), None) => {
            fields.push((name.into(), Field::Value(value(array, row, &slot.form, 0)?)));
        }
        (form, None) => {
            let field = match numbers(array, row, form)? {
                Some(array) => Field::Array(array),
                None => Field::Value(value(array, row, form, 0)?),
            };
            fields.push((name.into(), field));
        }
    }
    Ok(())
}

/// The field of the paths of a column of files.
pub(super) fn path_field(column: &str) -> String {
    format!("{column}_path")
}

/// The bytes and the path of a file, if they exist.
fn file(array: &ArrayRef, row: usize) -> (Option<&[u8]>, Option<&str>) {
    let Some(both) = array.as_struct_opt() else { return (None, None) };
    let bytes = both.column_by_name("bytes").filter(|column| !column.is_null(row));
    let path = both.column_by_name("path").filter(|column| !column.is_null(row));
    (bytes.and_then(|column| bytes_of(column, row)), path.and_then(|column| text(column, row)))
}

/// The images in a row: values of columns of images, and files whose paths end as images do.
fn each_image(array: &ArrayRef, row: usize, form: &Form, look_at: &dyn Fn(&[u8])) {
    if array.is_null(row) {
        return;
    }
    match array.data_type() {
        DataType::Struct(_) => {
            let (bytes, path) = file(array, row);
            let is_image = *form == Form::File { image: true } || path.is_some_and(is_image);
            bytes.filter(|_| is_image).into_iter().for_each(look_at);
            let slots: &[Slot] = if let Form::Struct(slots) = form { slots } else { &[] };
            for (slot, column) in slots.iter().zip(array.as_struct().columns()) {
                each_image(column, row, &slot.form, look_at);
            }
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(_, _) => {
            if let Form::List(inner) | Form::Sequence(inner) = form {
                let (items, range) = items(array, row..row + 1);
                range.for_each(|item| each_image(items, item, &inner.form, look_at));
            }
        }
        _ => {}
    }
}

fn bytes_of(array: &ArrayRef, row: usize) -> Option<&[u8]> {
    bytes(array, row).or_else(|| text(array, row).map(str::as_bytes))
}

/// Binary data.
fn bytes(array: &ArrayRef, row: usize) -> Option<&[u8]> {
    Some(match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().value(row),
        DataType::LargeBinary => array.as_binary::<i64>().value(row),
        DataType::BinaryView => array.as_binary_view().value(row),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(row),
        _ => return None,
    })
}

fn text(array: &ArrayRef, row: usize) -> Option<&str> {
    Some(match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row),
        DataType::Utf8View => array.as_string_view().value(row),
        _ => return None,
    })
}

/// The value in a row. `depth` is the number of values around it.
fn value(array: &ArrayRef, row: usize, form: &Form, depth: usize) -> Result<Value> {
    if depth == MAX_DEPTH {
        return Err(Error::new(ErrorKind::Limit, "the columns are nested too deeply"));
    }
    if array.is_null(row) {
        return Ok(Value::Nil);
    }
    if let Form::Seconds(inner) = form {
        return seconds(&value(array, row, inner, depth)?);
    }
    if let Some(bytes) = bytes(array, row) {
        return Ok(bytes.into());
    }
    if let Some(text) = text(array, row) {
        return Ok(text.into());
    }
    if let Some(array) = numbers(array, row, form)? {
        return Ok(Special::Array(array).to_value());
    }
    match array.data_type() {
        DataType::Null => Ok(Value::Nil),
        DataType::Dictionary(key, _) => {
            let keys = array.as_any_dictionary();
            let at = number(keys.keys(), row, key).and_then(|key| plain(&key));
            let at = at.and_then(|at| usize::try_from(at.as_u64()?).ok());
            match at.filter(|at| *at < keys.values().len()) {
                Some(at) => value(keys.values(), at, form, depth + 1),
                None => Err(Error::new(ErrorKind::Damaged, "a key is beyond its dictionary")),
            }
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(_, _) => {
            let inner = match form {
                Form::List(inner) | Form::Sequence(inner) => &inner.form,
                _ => &Form::Plain,
            };
            let (items, range) = items(array, row..row + 1);
            range
                .map(|item| value(items, item, inner, depth + 1))
                .collect::<Result<_>>()
                .map(Value::Array)
        }
        DataType::Struct(_) if form.is_file() => match file(array, row) {
            (Some(bytes), _) => Ok(bytes.into()),
            (None, None) => Ok(Value::Nil),
            (None, Some(path)) => {
                let message = format!(
                    "the row has only the path {path:?} of a file in a list or map, and these \
                         are not read"
                );
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        },
        DataType::Struct(fields) => {
            let slots: &[Slot] = if let Form::Struct(slots) = form { slots } else { &[] };
            let mut entries = Vec::with_capacity(fields.len());
            for (at, (field, column)) in fields.iter().zip(array.as_struct().columns()).enumerate()
            {
                let slot = slots.get(at);
                if !(column.is_null(row) && slot.is_some_and(|slot| slot.optional)) {
                    let form = slot.map_or(&Form::Plain, |slot| &slot.form);
                    let value = value(column, row, form, depth + 1)?;
                    entries.push((field.name().as_str().into(), value));
                }
            }
            Ok(Value::Map(entries))
        }
        DataType::Map(_, _) => {
            let map = array.as_map();
            let offsets = map.value_offsets();
            let entry = |at: usize| {
                let key = value(map.keys(), at, &Form::Plain, depth + 1)?;
                Ok((key, value(map.values(), at, &Form::Plain, depth + 1)?))
            };
            let range = offsets[row] as usize..offsets[row + 1] as usize;
            range.map(entry).collect::<Result<_>>().map(Value::Map)
        }
        of => match number(array, row, of) {
            Some(number) => scalar(number, form),
            None => decimal(array, row, of).ok_or_else(|| {
                let message = format!("expected a type that fields can have, found {of}");
                Error::new(ErrorKind::Unsupported, message)
            }),
        },
    }
}

/// Points in time in seconds, of those in milliseconds.
fn seconds(value: &Value) -> Result<Value> {
    let damaged = || Error::new(ErrorKind::Damaged, "expected points in time in whole seconds");
    let in_seconds = |array: NdArray<'_>| {
        let times = array.to_ndarray::<i64>().map_err(|_| damaged())?;
        let times = times.iter().map(|&time| match time {
            // Not a time.
            i64::MIN => Ok(time),
            time if time % 1000 == 0 => Ok(time / 1000),
            _ => Err(damaged()),
        });
        let times = times.collect::<Result<Vec<i64>>>()?;
        let bytes: Vec<u8> = times.iter().flat_map(|time| time.to_le_bytes()).collect();
        let dtype = array.dtype().clone().with_time_unit(Unit::Second);
        NdArray::new(dtype, array.shape(), bytes)
    };
    match recognise(value) {
        Some(Special::Array(array)) => Ok(Special::Array(in_seconds(array)?).to_value()),
        Some(Special::Scalar(array)) => Ok(Special::Scalar(in_seconds(array)?).to_value()),
        _ => Err(damaged()),
    }
}

/// The plain value of an array without dimensions, if msgpack has one and the value was plain.
fn scalar(number: NdArray<'_>, form: &Form) -> Result<Value> {
    if *form == Form::Scalar {
        return Ok(Special::Scalar(number).to_value());
    }
    if matches!(form, Form::Array(shape) if shape.is_empty()) {
        return Ok(Special::Array(number).to_value());
    }
    let plain = plain(&number);
    Ok(match plain {
        Some(Value::Integer(label)) if *form == Form::Label && label.as_i64() == Some(-1) => {
            Value::Nil
        }
        Some(plain) => plain,
        None => Special::Scalar(number).to_value(),
    })
}

fn plain(number: &NdArray<'_>) -> Option<Value> {
    let bytes = number.bytes();
    let mut wide = [0; 8];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let wide = u64::from_le_bytes(wide);
    match (number.dtype().kind(), bytes.len()) {
        (Kind::Bool, _) => Some((wide != 0).into()),
        (Kind::UInt, _) => Some(wide.into()),
        (Kind::Int, len) => {
            let unused = 64 - 8 * len as u32;
            Some((((wide << unused) as i64) >> unused).into())
        }
        (Kind::Float, 4) => Some(Value::F32(f32::from_bits(wide as u32))),
        (Kind::Float, 8) => Some(Value::F64(f64::from_bits(wide))),
        _ => None,
    }
}

/// The number or time in a row.
fn number(array: &dyn Array, row: usize, of: &DataType) -> Option<NdArray<'static>> {
    let dtype = dtype_of(of)?;
    let bytes = leaf_bytes(array, row..row + 1, of)?;
    NdArray::new(dtype, [], bytes).ok()
}

/// The NumPy type of numbers and times.
fn dtype_of(of: &DataType) -> Option<DType> {
    let number = |kind, size| DType::new(kind, size, ByteOrder::Little);
    let unit = |unit: &TimeUnit| match unit {
        TimeUnit::Second => Unit::Second,
        TimeUnit::Millisecond => Unit::Millisecond,
        TimeUnit::Microsecond => Unit::Microsecond,
        TimeUnit::Nanosecond => Unit::Nanosecond,
    };
    let time = |kind, unit: Unit| Some(number(kind, 8)?.with_time_unit(unit));
    match of {
        DataType::Boolean => number(Kind::Bool, 1),
        DataType::Int8 => number(Kind::Int, 1),
        DataType::Int16 => number(Kind::Int, 2),
        DataType::Int32 => number(Kind::Int, 4),
        DataType::Int64 => number(Kind::Int, 8),
        DataType::UInt8 => number(Kind::UInt, 1),
        DataType::UInt16 => number(Kind::UInt, 2),
        DataType::UInt32 => number(Kind::UInt, 4),
        DataType::UInt64 => number(Kind::UInt, 8),
        DataType::Float16 => number(Kind::Float, 2),
        DataType::Float32 => number(Kind::Float, 4),
        DataType::Float64 => number(Kind::Float, 8),
        DataType::Date32 => time(Kind::DateTime, Unit::Day),
        DataType::Date64 => time(Kind::DateTime, Unit::Millisecond),
        DataType::Timestamp(of, _) => time(Kind::DateTime, unit(of)),
        DataType::Time32(of) | DataType::Time64(of) | DataType::Duration(of) => {
            time(Kind::TimeDelta, unit(of))
        }
        _ => None,
    }
}

/// The numbers or times in these rows as NumPy stores them, in little-endian order.
fn leaf_bytes(array: &dyn Array, rows: Range<usize>, of: &DataType) -> Option<Vec<u8>> {
    /// Unchanged.
    macro_rules! same {
        ($type:ty) => {
            all::<$type, { size_of::<<$type as ArrowPrimitiveType>::Native>() }>(
                array,
                rows,
                |n| n.to_le_bytes(),
            )?
        };
    }
    /// 32-bit times, widened to 64 bits.
    macro_rules! wider {
        ($type:ty) => {
            all::<$type, 8>(array, rows, |n| i64::from(n).to_le_bytes())?
        };
    }
    Some(match of {
        DataType::Boolean => {
            let truths = array.as_boolean_opt()?;
            rows.map(|row| u8::from(truths.value(row))).collect()
        }
        DataType::Int8 => same!(Int8Type),
        DataType::Int16 => same!(Int16Type),
        DataType::Int32 => same!(Int32Type),
        DataType::Int64 => same!(Int64Type),
        DataType::UInt8 => array.as_primitive_opt::<UInt8Type>()?.values().get(rows)?.to_vec(),
        DataType::UInt16 => same!(UInt16Type),
        DataType::UInt32 => same!(UInt32Type),
        DataType::UInt64 => same!(UInt64Type),
        DataType::Float16 => same!(Float16Type),
        DataType::Float32 => same!(Float32Type),
        DataType::Float64 => same!(Float64Type),
        DataType::Date32 => wider!(Date32Type),
        DataType::Date64 => same!(Date64Type),
        DataType::Timestamp(TimeUnit::Second, _) => same!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => same!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => same!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => same!(TimestampNanosecondType),
        DataType::Time32(TimeUnit::Second) => wider!(Time32SecondType),
        DataType::Time32(_) => wider!(Time32MillisecondType),
        DataType::Time64(TimeUnit::Microsecond) => same!(Time64MicrosecondType),
        DataType::Time64(_) => same!(Time64NanosecondType),
        DataType::Duration(TimeUnit::Second) => same!(DurationSecondType),
        DataType::Duration(TimeUnit::Millisecond) => same!(DurationMillisecondType),
        DataType::Duration(TimeUnit::Microsecond) => same!(DurationMicrosecondType),
        DataType::Duration(TimeUnit::Nanosecond) => same!(DurationNanosecondType),
        _ => return None,
    })
}

fn all<T: ArrowPrimitiveType, const N: usize>(
    array: &dyn Array,
    rows: Range<usize>,
    bytes: impl Fn(T::Native) -> [u8; N],
) -> Option<Vec<u8>> {
    let numbers = array.as_primitive_opt::<T>()?.values().get(rows)?;
    let mut out = vec![0; numbers.len().checked_mul(N)?];
    for (to, number) in out.chunks_exact_mut(N).zip(numbers) {
        to.copy_from_slice(&bytes(*number));
    }
    Some(out)
}

/// A decimal number as a string, which keeps all digits.
fn decimal(array: &ArrayRef, row: usize, of: &DataType) -> Option<Value> {
    fn text<T: DecimalType>(
        array: &ArrayRef,
        row: usize,
        precision: u8,
        scale: i8,
    ) -> Option<Value> {
        let number = array.as_primitive_opt::<T>()?.value(row);
        Some(T::format_decimal(number, precision, scale).into())
    }
    match *of {
        DataType::Decimal32(precision, scale) => {
            text::<Decimal32Type>(array, row, precision, scale)
        }
        DataType::Decimal64(precision, scale) => {
            text::<Decimal64Type>(array, row, precision, scale)
        }
        DataType::Decimal128(precision, scale) => {
            text::<Decimal128Type>(array, row, precision, scale)
        }
        DataType::Decimal256(precision, scale) => {
            text::<Decimal256Type>(array, row, precision, scale)
        }
        _ => None,
    }
}

/// The items of the lists in these rows, one after the other.
fn items(array: &ArrayRef, rows: Range<usize>) -> (&ArrayRef, Range<usize>) {
    match array.data_type() {
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let offsets = lists.value_offsets();
            (lists.values(), offsets[rows.start] as usize..offsets[rows.end] as usize)
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            let offsets = lists.value_offsets();
            (lists.values(), offsets[rows.start] as usize..offsets[rows.end] as usize)
        }
        _ => {
            let lists = array.as_fixed_size_list();
            let len = lists.value_length() as usize;
            let start = lists.value_offset(0) as usize;
            (lists.values(), start + rows.start * len..start + rows.end * len)
        }
    }
}

/// The NumPy array of a list, if it is one of numbers without nulls, and the lists in it have the
/// same length.
///
/// # Errors
///
/// If the form requires an array, and the list does not have its shape.
fn numbers(array: &ArrayRef, row: usize, form: &Form) -> Result<Option<NdArray<'static>>> {
    let expected: &[Option<usize>] = match form {
        Form::Array(shape) if !shape.is_empty() => shape,
        Form::Sequence(_) => &[],
        _ => return Ok(None),
    };
    let found = gather(array, row, expected);
    match (found, form) {
        (None, Form::Array(shape)) => {
            let shape: Vec<String> = shape
                .iter()
                .map(|len| len.map_or("any".to_owned(), |len| len.to_string()))
                .collect();
            let message =
                format!("expected numbers of the shape ({}), found others", shape.join(", "));
            Err(Error::new(ErrorKind::Damaged, message))
        }
        (found, _) => Ok(found),
    }
}

fn gather(array: &ArrayRef, row: usize, expected: &[Option<usize>]) -> Option<NdArray<'static>> {
    let (mut array, mut rows) = (array, row..row + 1);
    let mut shape: Vec<usize> = Vec::new();
    while matches!(
        array.data_type(),
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(_, _)
    ) {
        if rows.clone().any(|row| array.is_null(row)) {
            return None;
        }
        let known = match array.data_type() {
            DataType::FixedSizeList(_, len) => usize::try_from(*len).ok(),
            _ => None,
        };
        let first = match rows.is_empty() {
            // The length of lists that do not exist is unknown.
            true => known.or_else(|| expected.get(shape.len()).copied().flatten()).unwrap_or(0),
            false => items(array, rows.start..rows.start + 1).1.len(),
        };
        if known.is_none() && rows.clone().any(|row| items(array, row..row + 1).1.len() != first) {
            return None;
        }
        shape.push(first);
        (array, rows) = items(array, rows);
    }
    let dtype = dtype_of(array.data_type())?;
    if rows.clone().any(|row| array.is_null(row)) {
        return None;
    }
    let bytes = leaf_bytes(array, rows.clone(), array.data_type())?;
    if !expected.is_empty() {
        shape = fit(shape, expected)?;
    }
    NdArray::new(dtype, shape, bytes).ok()
}

/// The expected shape, if the found one is the same or a flat list of as many numbers.
fn fit(found: Vec<usize>, expected: &[Option<usize>]) -> Option<Vec<usize>> {
    let same = found.len() == expected.len()
        && found.iter().zip(expected).all(|(len, known)| known.is_none_or(|known| known == *len));
    if same {
        return Some(found);
    }
    let known: Vec<usize> = expected.iter().copied().collect::<Option<_>>()?;
    let count = known.iter().try_fold(1usize, |count, len| count.checked_mul(*len))?;
    (found.len() == 1 && found[0] == count).then_some(known)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use arrow_array::{BinaryArray, StringArray, StructArray};
    use arrow_schema::{Field as Column, Schema};

    use super::*;
    use crate::convert::formats::arrow::form::FEATURES;
    use crate::convert::formats::arrow::kinds::file_fields;
    use crate::format::msgpack;

    /// A row as `to_parquet` of Hugging Face writes images that are not embedded.
    fn with_path(path: Option<&str>) -> RecordBatch {
        let bytes = BinaryArray::from(vec![None::<&[u8]>]);
        let paths = StringArray::from(vec![path]);
        let image = StructArray::new(file_fields(), vec![Arc::new(bytes), Arc::new(paths)], None);
        let column = Column::new("image", image.data_type().clone(), true);
        let features = r#"{"info": {"features": {"image": {"_type": "Image"}}}}"#;
        let metadata = [(FEATURES.to_owned(), features.to_owned())];
        let schema = Schema::new_with_metadata(vec![column], metadata.into());
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(image)]).unwrap()
    }

    /// They became nil, 20,000 of them without a word.
    #[test]
    fn a_file_that_has_only_a_path_is_read_if_it_is_near() {
        let dir = tempfile::tempdir().unwrap();
        let (near, far) = (dir.path().join("near"), dir.path().join("far.png"));
        fs::create_dir_all(near.join("cat")).unwrap();
        fs::write(near.join("cat/1.png"), b"png").unwrap();
        fs::write(&far, b"secret").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&far, near.join("link.png")).unwrap();
        let remarks = RemarkLog::default();
        let flaws = || Flaws { table: Path::new("t"), unit: 0, remarks: &remarks };
        let read = |path: &str, max_bytes| {
            let batch = with_path(Some(path));
            let plan = Plan::of(&batch.schema()).unwrap();
            let table = near.join("t.parquet");
            let files = Files::next_to(&table, false, max_bytes);
            let rows =
                Rows { plan: &plan, key: None, unread: &[], stem: "t", files, flaws: flaws() };
            let packed = rows.pack(&batch, 0, 0)?;
            Ok::<_, Error>(msgpack::decode(&packed)?["image"].clone())
        };
        let absolute = near.join("cat/1.png");
        for path in ["cat/1.png", "./cat/../cat/1.png", absolute.to_str().unwrap()] {
            assert_eq!(read(path, 3).unwrap(), Value::from(&b"png"[..]), "{path}");
        }
        let error = read("cat/1.png", 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        let mut others = vec![
            ("../far.png", "not below the folder of the table"),
            (far.to_str().unwrap(), "not below the folder of the table"),
            ("cat/2.png", "no such file next to the table"),
            ("hf://datasets/x/1.png", "nothing is fetched"),
        ];
        if cfg!(unix) {
            others.push(("link.png", "not below the folder of the table"));
            others.push(("/etc/passwd", "not below the folder of the table"));
        }
        for (path, says) in others {
            let error = read(path, 1 << 20).unwrap_err().to_string();
            assert!(error.contains("column \"image\"") && error.contains(says), "{path}: {error}");
        }
        // Behind a URL the folder is not left either, which is known without a request.
        let table = Path::new("https://example.invalid/d/t.parquet");
        for path in ["../far.png", "/etc/passwd", "a/../../far.png"] {
            let batch = with_path(Some(path));
            let plan = Plan::of(&batch.schema()).unwrap();
            let files = Files::next_to(table, false, 9);
            let rows =
                Rows { plan: &plan, key: None, unread: &[], stem: "t", files, flaws: flaws() };
            let error = rows.pack(&batch, 0, 0).unwrap_err().to_string();
            assert!(error.contains("not below the URL of the table"), "{path}: {error}");
        }
        // Nothing at all is still nil.
        let batch = with_path(None);
        let plan = Plan::of(&batch.schema()).unwrap();
        let table = near.join("t.parquet");
        let files = Files::next_to(&table, false, 9);
        let packed = Rows { plan: &plan, key: None, unread: &[], stem: "t", files, flaws: flaws() }
            .pack(&batch, 0, 0)
            .unwrap();
        assert_eq!(msgpack::decode(&packed).unwrap()["image"], Value::Nil);
    }
}
