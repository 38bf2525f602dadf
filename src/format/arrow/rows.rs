//! Makes samples of batches of rows.

use std::borrow::Cow;
use std::ops::Range;

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
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::MAX_DEPTH;
use crate::format::msgpack::numpy::{Special, recognise};
use crate::format::sample_fields::{Field, Fields, key_from, pack};
use crate::value::{ByteOrder, DType, DTypeKind as Kind, NdArray, Unit};

/// Makes samples of the rows of a file.
pub(crate) struct Rows<'a> {
    pub(crate) plan: &'a Plan,
    /// The field of the keys.
    pub(crate) key: Option<&'a str>,
    /// Fields of columns that are not read: nil.
    pub(crate) unread: &'a [String],
    /// The prefix of keys that are numbers of rows.
    pub(crate) stem: &'a str,
    /// Reads the files that the rows have only the paths of.
    pub(crate) files: &'a dyn Fn(&str) -> Result<Vec<u8>>,
    /// Where images are looked at, if they are.
    pub(crate) images: Option<Images<'a>>,
    /// Whether the column of this name is needed; the others are left out.
    pub(crate) needs: &'a dyn Fn(&str) -> bool,
}

/// Whether a file of this name is an image.
type IsImage = fn(&str) -> bool;
/// Takes the bytes of an image.
type LookAt<'l> = &'l dyn Fn(&[u8]);

/// Looks at the images in rows.
pub(crate) struct Images<'a> {
    /// Whether a file of this name is an image.
    pub(crate) is_image: IsImage,
    /// Takes the bytes of an image, its column, and the number of the row in the file.
    pub(crate) look_at: &'a dyn Fn(&[u8], &str, u64),
}

impl Rows<'_> {
    /// The fields of the row with this number of the file, and the key, if a column has it.
    pub(crate) fn fields<'b>(
        &'b self,
        batch: &'b RecordBatch,
        row: usize,
        number: u64,
    ) -> Result<(Option<String>, Fields<'b>)> {
        let mut fields: Fields<'_> = Vec::with_capacity(batch.num_columns() + 1);
        let mut key = None;
        for (at, (column, array)) in self.plan.columns.iter().zip(batch.columns()).enumerate() {
            let name = &column.name;
            if self.plan.key == Some(at) && self.key.is_none_or(|key| key == name) {
                key = Some(key_of(array, row, name)?);
                continue;
            }
            if !(self.needs)(name) && !(self.needs)(&path_field(name)) {
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
            let look_at = |image: &[u8]| {
                if let Some(images) = &self.images {
                    (images.look_at)(image, name, number);
                }
            };
            if let Some(images) = self.images.as_ref().filter(|_| column.images) {
                each_image(array, row, &column.slot.form, (images.is_image, &look_at));
            }
            let read = |path: &str, is_image: bool| {
                let bytes = (self.files)(path)?;
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
        Ok((key, fields))
    }

    /// The packed sample of the row with this number of the file.
    pub(crate) fn pack(&self, batch: &RecordBatch, row: usize, number: u64) -> Result<Vec<u8>> {
        let (key, fields) = self.fields(batch, row, number)?;
        let key = match (key, self.key) {
            (Some(key), _) => key,
            (None, Some(name)) => key_from(&fields, name)?,
            (None, None) => numbered_key(self.stem, number),
        };
        pack(&key, &fields)
    }
}

/// The key of the row with this number of a file.
pub(crate) fn numbered_key(stem: &str, number: u64) -> String {
    format!("{stem}/{number:09}")
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
pub(crate) fn path_field(column: &str) -> String {
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
fn each_image(
    array: &ArrayRef,
    row: usize,
    form: &Form,
    (is_image, look_at): (IsImage, LookAt<'_>),
) {
    if array.is_null(row) {
        return;
    }
    match array.data_type() {
        DataType::Struct(_) => {
            let (bytes, path) = file(array, row);
            let is_counted = *form == Form::File { image: true } || path.is_some_and(is_image);
            bytes.filter(|_| is_counted).into_iter().for_each(look_at);
            let slots: &[Slot] = if let Form::Struct(slots) = form { slots } else { &[] };
            for (slot, column) in slots.iter().zip(array.as_struct().columns()) {
                each_image(column, row, &slot.form, (is_image, look_at));
            }
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(_, _) => {
            if let Form::List(inner) | Form::Sequence(inner) = form {
                let (items, range) = items(array, row..row + 1);
                range.for_each(|item| each_image(items, item, &inner.form, (is_image, look_at)));
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
                Some(at) if *form == Form::Names => Ok((at as u64).into()),
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
    use std::cell::RefCell;
    use std::sync::Arc;

    use arrow_array::{BinaryArray, StringArray, StructArray};
    use arrow_schema::{Field as Column, Fields as Columns, Schema};

    use super::*;
    use crate::format::arrow::form::FEATURES;

    #[test]
    fn fields_of_a_row_and_the_files_that_it_names() {
        let file = |name: &str, of| Column::new(name, of, true);
        let inner: Columns =
            [file("bytes", DataType::Binary), file("path", DataType::Utf8)].into_iter().collect();
        let bytes = BinaryArray::from(vec![None, Some(&b"inside"[..])]);
        let paths = StringArray::from(vec![Some("a.png"), None]);
        let image = StructArray::new(inner, vec![Arc::new(bytes), Arc::new(paths)], None);
        let keys = StringArray::from(vec!["k0", "k1"]);
        let features = r#"{"info": {"features": {"image": {"_type": "Image"}}}}"#;
        let metadata = [(FEATURES.to_owned(), features.to_owned())];
        let columns = vec![file("key", DataType::Utf8), file("image", image.data_type().clone())];
        let schema = Arc::new(Schema::new_with_metadata(columns, metadata.into()));
        let batch =
            RecordBatch::try_new(schema.clone(), vec![Arc::new(keys), Arc::new(image)]).unwrap();
        let plan = Plan::of(&schema).unwrap();
        let read = |path: &str| Ok(path.as_bytes().to_vec());
        let seen = RefCell::new(Vec::new());
        let look_at = |image: &[u8], column: &str, number: u64| {
            seen.borrow_mut().push((image.to_vec(), column.to_owned(), number));
        };
        let images = Images { is_image: |_| true, look_at: &look_at };
        let unread = ["gone".to_owned()];
        let mut rows = Rows {
            plan: &plan,
            key: None,
            unread: &unread,
            stem: "t",
            files: &read,
            images: Some(images),
            needs: &|_| true,
        };
        let (key, fields) = rows.fields(&batch, 0, 7).unwrap();
        let names: Vec<&str> = fields.iter().map(|(name, _)| &**name).collect();
        assert_eq!(
            (key.as_deref(), &names[..]),
            (Some("k0"), &["image", "image_path", "gone"][..])
        );
        assert!(matches!(&fields[0].1, Field::Value(value) if *value == b"a.png"[..].into()));
        let (_, fields) = rows.fields(&batch, 1, 8).unwrap();
        assert!(matches!(fields[0].1, Field::Bytes(b"inside")));
        let expected = [(&b"a.png"[..], 7), (b"inside", 8)];
        let expected = expected.map(|(image, at)| (image.to_vec(), "image".to_owned(), at));
        assert_eq!(*seen.borrow(), expected);

        // The same without the column of the keys, and without a look at the images.
        let plan = plan.only(&[1]);
        let batch = batch.project(&[1]).unwrap();
        rows = Rows { plan: &plan, images: None, ..rows };
        let sample = crate::format::msgpack::decode(&rows.pack(&batch, 1, 8).unwrap()).unwrap();
        assert_eq!(sample["key"], "t/000000008".into());
        assert_eq!(seen.borrow().len(), 2);
    }
}
