//! [`Column`]: collects the values of one field, and makes an Arrow array of them.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, ListArray, NullArray, PrimitiveArray, StringArray,
    StructArray, new_null_array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, TimeUnit};

use super::kinds::{Entry, Type, file_fields, number_type, stored};
use crate::convert::formats::find::Finder;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::numpy::{self, Special};
use crate::format::msgpack::{Cursor, Kind};
use crate::value::{DType, NdArray};

/// The values of a field so far.
pub(super) enum Column {
    Nil(usize),
    Bool(Vec<bool>, Nulls),
    /// Numbers as NumPy and Arrow store them, in little-endian order.
    Numbers(Vec<u8>, usize, Nulls),
    /// Strings and bytes.
    Bytes {
        data: Vec<u8>,
        ends: Vec<usize>,
        nulls: Nulls,
    },
    /// NumPy arrays: the ends of the lists on each axis, and all numbers.
    Arrays {
        ends: Vec<Vec<usize>>,
        numbers: Vec<u8>,
        nulls: Nulls,
    },
    Lists {
        ends: Vec<usize>,
        items: Box<Column>,
        of: Type,
        nulls: Nulls,
    },
    /// Lists of numbers, some nil.
    Nullable {
        ends: Vec<usize>,
        numbers: Vec<u8>,
        some: Nulls,
        size: usize,
        nulls: Nulls,
    },
    Maps {
        columns: Vec<Column>,
        entries: Vec<Entry>,
        nulls: Nulls,
    },
}

/// Which rows are not null.
#[derive(Default)]
pub(super) struct Nulls(Vec<bool>);

impl Nulls {
    fn finish(self) -> Option<NullBuffer> {
        let some = self.0.contains(&false);
        some.then(|| NullBuffer::new(BooleanBuffer::from(self.0)))
    }
}

impl Column {
    pub(super) fn of(of: &Type) -> Column {
        let nulls = Nulls::default();
        match of {
            Type::Nil => Column::Nil(0),
            Type::Bool => Column::Bool(Vec::new(), nulls),
            Type::Scalar(dtype) if number_type(dtype) == Some(DataType::Boolean) => {
                Column::Bool(Vec::new(), nulls)
            }
            Type::Int { .. } | Type::F64 => Column::Numbers(Vec::new(), 8, nulls),
            Type::F32 => Column::Numbers(Vec::new(), 4, nulls),
            Type::Scalar(dtype) => Column::Numbers(Vec::new(), stored_size(dtype), nulls),
            Type::Nullable(dtype) => {
                let (some, size) = (Nulls::default(), stored_size(dtype));
                Column::Nullable { ends: vec![0], numbers: Vec::new(), some, size, nulls }
            }
            Type::Text | Type::Bytes { .. } => {
                Column::Bytes { data: Vec::new(), ends: vec![0], nulls }
            }
            Type::Array(_, shape) => {
                let ends = shape.iter().map(|_| vec![0]).collect();
                Column::Arrays { ends, numbers: Vec::new(), nulls }
            }
            Type::List(items, _) => {
                let (of, items) = ((**items).clone(), Box::new(Column::of(items)));
                Column::Lists { ends: vec![0], items, of, nulls }
            }
            Type::Map(entries) => {
                let columns = entries.iter().map(|entry| Column::of(&entry.of)).collect();
                Column::Maps { columns, entries: entries.clone(), nulls }
            }
        }
    }

    /// Appends null.
    fn append_nothing(&mut self) {
        match self {
            Column::Nil(rows) => *rows += 1,
            Column::Bool(truths, nulls) => {
                truths.push(false);
                nulls.0.push(false);
            }
            Column::Numbers(bytes, size, nulls) => {
                bytes.resize(bytes.len() + *size, 0);
                nulls.0.push(false);
            }
            Column::Bytes { data, ends, nulls } => {
                ends.push(data.len());
                nulls.0.push(false);
            }
            Column::Arrays { ends, nulls, .. } => {
                // Without dimensions, `spread` fills the gaps.
                if let Some(ends) = ends.first_mut() {
                    ends.push(ends.last().copied().unwrap_or(0));
                }
                nulls.0.push(false);
            }
            Column::Lists { ends, nulls, .. } | Column::Nullable { ends, nulls, .. } => {
                ends.push(ends.last().copied().unwrap_or(0));
                nulls.0.push(false);
            }
            Column::Maps { columns, nulls, .. } => {
                columns.iter_mut().for_each(Column::append_nothing);
                nulls.0.push(false);
            }
        }
    }

    /// Appends a packed value, which must fit the type.
    fn append(
        &mut self,
        cursor: &mut Cursor<'_>,
        of: &Type,
        null: &mut NullMeanings,
    ) -> Result<()> {
        if cursor.peek()? == Kind::Nil {
            self.append_nothing();
            return Ok(cursor.read_nil()?);
        }
        match self {
            Column::Nil(_) => cursor.skip()?,
            Column::Bool(truths, nulls) => {
                truths.push(match cursor.peek()? {
                    Kind::Bool => cursor.read_bool()?,
                    _ => special(cursor)?.bytes() != [0],
                });
                nulls.0.push(true);
            }
            Column::Numbers(bytes, _, nulls) => {
                match of {
                    Type::Int { large: true, .. } => bytes.extend(cursor.read_u64()?.to_le_bytes()),
                    Type::Int { .. } => bytes.extend(cursor.read_i64()?.to_le_bytes()),
                    Type::F32 => bytes.extend(cursor.read_f32()?.to_le_bytes()),
                    Type::F64 => bytes.extend(cursor.read_f64()?.to_le_bytes()),
                    _ => bytes.extend(&*stored(&special(cursor)?).ok_or_else(out_of_range)?),
                }
                nulls.0.push(true);
            }
            Column::Bytes { data, ends, nulls } => {
                data.extend(match cursor.peek()? {
                    Kind::Bin => cursor.read_bin()?,
                    _ => cursor.read_str_bytes()?,
                });
                ends.push(data.len());
                nulls.0.push(true);
            }
            Column::Arrays { ends, numbers, nulls } => {
                let array = special(cursor)?;
                let mut lists = 1;
                for (ends, &len) in ends.iter_mut().zip(array.shape()) {
                    let mut last = ends.last().copied().unwrap_or(0);
                    for _ in 0..lists {
                        last += len;
                        ends.push(last);
                    }
                    lists *= len;
                }
                numbers.extend_from_slice(&stored(&array).ok_or_else(out_of_range)?);
                nulls.0.push(true);
            }
            Column::Nullable { ends, numbers, some, size, nulls } => {
                let before = some.0.len();
                if cursor.peek()? == Kind::Map {
                    let array = special(cursor)?;
                    numbers.extend_from_slice(&stored(&array).ok_or_else(out_of_range)?);
                    some.0.resize(before + array.len(), true);
                } else {
                    for _ in 0..cursor.read_array_len()? {
                        append_number(cursor, *size, numbers, some)?;
                    }
                }
                ends.push(ends.last().copied().unwrap_or(0) + some.0.len() - before);
                nulls.0.push(true);
            }
            Column::Lists { ends, items, of, nulls } => {
                let len = cursor.read_array_len()?;
                for _ in 0..len {
                    items.append(cursor, of, null)?;
                }
                ends.push(ends.last().copied().unwrap_or(0) + len as usize);
                nulls.0.push(true);
            }
            Column::Maps { columns, entries, nulls } => {
                append_map(columns, entries, cursor, null, |_, _| ())?;
                nulls.0.push(true);
            }
        }
        Ok(())
    }

    pub(super) fn finish(self, of: &DataType) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Column::Nil(rows) => Arc::new(NullArray::new(rows)),
            Column::Bool(truths, nulls) => {
                Arc::new(BooleanArray::new(BooleanBuffer::from(truths), nulls.finish()))
            }
            Column::Numbers(bytes, _, nulls) => numbers(&bytes, of, nulls.finish())?,
            Column::Bytes { data, ends, nulls } => match of {
                DataType::Utf8 => Arc::new(StringArray::try_new(
                    offsets(&ends)?,
                    Buffer::from_vec(data),
                    nulls.finish(),
                )?),
                DataType::Binary => Arc::new(BinaryArray::try_new(
                    offsets(&ends)?,
                    Buffer::from_vec(data),
                    nulls.finish(),
                )?),
                _ => {
                    let nulls = nulls.finish();
                    let bytes = BinaryArray::try_new(
                        offsets(&ends)?,
                        Buffer::from_vec(data),
                        nulls.clone(),
                    )?;
                    let paths = new_null_array(&DataType::Utf8, ends.len() - 1);
                    Arc::new(StructArray::try_new(
                        file_fields(),
                        vec![Arc::new(bytes), paths],
                        nulls,
                    )?)
                }
            },
            Column::Nullable { ends, numbers: bytes, some, nulls, .. } => {
                let field = item_of(of)?;
                let items = numbers(&bytes, field.data_type(), some.finish())?;
                Arc::new(ListArray::try_new(field, offsets(&ends)?, items, nulls.finish())?)
            }
            Column::Arrays { ends, numbers: bytes, nulls } => arrays(&ends, &bytes, of, nulls)?,
            Column::Lists { ends, items, nulls, .. } => {
                let field = item_of(of)?;
                let items = items.finish(field.data_type())?;
                Arc::new(ListArray::try_new(field, offsets(&ends)?, items, nulls.finish())?)
            }
            Column::Maps { columns, nulls, .. } => {
                let DataType::Struct(fields) = of else { return Err(unfit(of)) };
                let finish = |(column, field): (Column, &arrow_schema::FieldRef)| {
                    column.finish(field.data_type())
                };
                let arrays =
                    columns.into_iter().zip(fields).map(finish).collect::<Result<_, _>>()?;
                Arc::new(StructArray::try_new(fields.clone(), arrays, nulls.finish())?)
            }
        })
    }
}

/// How often a null has another meaning than what it stands for.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct NullMeanings {
    /// Nil where null means that there is nothing.
    pub(super) nil: u64,
    /// Nothing where null means nil.
    pub(super) absent: u64,
}

/// The bytes of a number in a column.
fn stored_size(dtype: &DType) -> usize {
    match number_type(dtype) {
        Some(DataType::Date32) => 4,
        _ => dtype.item_size(),
    }
}

fn out_of_range() -> Error {
    Error::new(ErrorKind::Invalid, "expected times within the range of the column, found another")
}

/// Appends a plain number of this many bytes, or nil.
fn append_number(
    cursor: &mut Cursor<'_>,
    size: usize,
    numbers: &mut Vec<u8>,
    some: &mut Nulls,
) -> Result<()> {
    let kind = cursor.peek()?;
    some.0.push(kind != Kind::Nil);
    match kind {
        Kind::Nil => {
            cursor.read_nil()?;
            numbers.resize(numbers.len() + size, 0);
        }
        Kind::Bool => numbers.push(cursor.read_bool()?.into()),
        Kind::Int => {
            let wide = match cursor.read_i64() {
                Ok(number) => number.to_le_bytes(),
                Err(_) => cursor.read_u64()?.to_le_bytes(),
            };
            numbers.extend_from_slice(&wide[..size.min(8)]);
        }
        Kind::Float if size == 4 => numbers.extend(cursor.read_f32()?.to_le_bytes()),
        Kind::Float => numbers.extend(cursor.read_f64()?.to_le_bytes()),
        _ => numbers.extend(&*stored(&special(cursor)?).ok_or_else(out_of_range)?),
    }
    Ok(())
}

/// Appends a row for each entry of a map. `noted` is called for entries where a null has another
/// meaning.
pub(super) fn append_map(
    columns: &mut [Column],
    entries: &[Entry],
    cursor: &mut Cursor<'_>,
    null: &mut NullMeanings,
    mut noted: impl FnMut(&Entry, NullMeanings),
) -> Result<()> {
    let (mut seen, mut known) = (vec![false; columns.len()], Finder::new(entries, Entry::name));
    for _ in 0..cursor.read_map_len()? {
        let name = cursor.read_str()?;
        match known.position(name) {
            Some(at) => {
                let before = *null;
                if cursor.peek()? == Kind::Nil && entries[at].slot().optional {
                    null.nil += 1;
                }
                columns[at].append(cursor, &entries[at].of, null)?;
                if *null != before {
                    let (nil, absent) = (null.nil - before.nil, null.absent - before.absent);
                    noted(&entries[at], NullMeanings { nil, absent });
                }
                seen[at] = true;
            }
            None => cursor.skip()?,
        }
    }
    for ((column, entry), _) in columns.iter_mut().zip(entries).zip(seen).filter(|(_, seen)| !seen)
    {
        if !entry.slot().optional {
            null.absent += 1;
            noted(entry, NullMeanings { nil: 0, absent: 1 });
        }
        column.append_nothing();
    }
    Ok(())
}

fn special<'a>(cursor: &mut Cursor<'a>) -> Result<NdArray<'a>> {
    match numpy::read(cursor)? {
        Some(Special::Array(array) | Special::Scalar(array)) => Ok(array),
        _ => Err(Error::new(ErrorKind::Invalid, "expected a NumPy number or array")),
    }
}

fn unfit(of: &DataType) -> ArrowError {
    ArrowError::SchemaError(format!("a column of another kind than {of}"))
}

fn item_of(of: &DataType) -> Result<arrow_schema::FieldRef, ArrowError> {
    match of {
        DataType::List(item) => Ok(item.clone()),
        other => Err(unfit(other)),
    }
}

fn offsets(ends: &[usize]) -> Result<OffsetBuffer<i32>, ArrowError> {
    let ends: Result<Vec<i32>, _> = ends.iter().map(|&end| i32::try_from(end)).collect();
    let ends = ends.map_err(|_| {
        ArrowError::InvalidArgumentError("more than 2^31 values are in a batch".to_owned())
    })?;
    Ok(OffsetBuffer::new(ScalarBuffer::from(ends)))
}

/// Lists of lists of numbers, nested as deeply as there are axes.
fn arrays(
    ends: &[Vec<usize>],
    bytes: &[u8],
    of: &DataType,
    nulls: Nulls,
) -> Result<ArrayRef, ArrowError> {
    let Some((outer, inner)) = ends.split_first() else {
        return spread(bytes, of, nulls);
    };
    let field = item_of(of)?;
    let items = match inner {
        [] => numbers(bytes, field.data_type(), None)?,
        inner => arrays(inner, bytes, field.data_type(), Nulls::default())?,
    };
    Ok(Arc::new(ListArray::try_new(field, offsets(outer)?, items, nulls.finish())?))
}

/// Arrays without dimensions: one number for each row that is not null.
fn spread(bytes: &[u8], of: &DataType, nulls: Nulls) -> Result<ArrayRef, ArrowError> {
    let some = nulls.0.iter().filter(|some| **some).count();
    let size = bytes.len().checked_div(some).unwrap_or(0);
    if some == 0 {
        return Ok(new_null_array(of, nulls.0.len()));
    }
    let mut all = Vec::with_capacity(nulls.0.len() * size);
    let mut items = bytes.chunks_exact(size);
    for some in &nulls.0 {
        match some.then(|| items.next()).flatten() {
            Some(item) => all.extend_from_slice(item),
            None => all.resize(all.len() + size, 0),
        }
    }
    numbers(&all, of, nulls.finish())
}

/// An Arrow array of the numbers in these bytes.
fn numbers(bytes: &[u8], of: &DataType, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
    fn all<T: ArrowPrimitiveType, const N: usize>(
        bytes: &[u8],
        number: impl Fn([u8; N]) -> T::Native,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        let numbers: Vec<T::Native> =
            bytes.chunks_exact(N).map(|chunk| number(chunk.try_into().unwrap_or([0; N]))).collect();
        Ok(Arc::new(PrimitiveArray::<T>::try_new(ScalarBuffer::from(numbers), nulls)?))
    }
    match of {
        DataType::Boolean => {
            let truths: Vec<bool> = bytes.iter().map(|&byte| byte != 0).collect();
            Ok(Arc::new(BooleanArray::new(BooleanBuffer::from(truths), nulls)))
        }
        DataType::Int8 => all::<Int8Type, 1>(bytes, i8::from_le_bytes, nulls),
        DataType::Int16 => all::<Int16Type, 2>(bytes, i16::from_le_bytes, nulls),
        DataType::Int32 => all::<Int32Type, 4>(bytes, i32::from_le_bytes, nulls),
        DataType::Int64 => all::<Int64Type, 8>(bytes, i64::from_le_bytes, nulls),
        DataType::UInt8 => all::<UInt8Type, 1>(bytes, u8::from_le_bytes, nulls),
        DataType::UInt16 => all::<UInt16Type, 2>(bytes, u16::from_le_bytes, nulls),
        DataType::UInt32 => all::<UInt32Type, 4>(bytes, u32::from_le_bytes, nulls),
        DataType::UInt64 => all::<UInt64Type, 8>(bytes, u64::from_le_bytes, nulls),
        DataType::Float16 => all::<Float16Type, 2>(bytes, half::f16::from_le_bytes, nulls),
        DataType::Float32 => all::<Float32Type, 4>(bytes, f32::from_le_bytes, nulls),
        DataType::Float64 => all::<Float64Type, 8>(bytes, f64::from_le_bytes, nulls),
        DataType::Date32 => all::<Date32Type, 4>(bytes, i32::from_le_bytes, nulls),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => all::<TimestampSecondType, 8>(bytes, i64::from_le_bytes, nulls),
            TimeUnit::Millisecond => {
                all::<TimestampMillisecondType, 8>(bytes, i64::from_le_bytes, nulls)
            }
            TimeUnit::Microsecond => {
                all::<TimestampMicrosecondType, 8>(bytes, i64::from_le_bytes, nulls)
            }
            TimeUnit::Nanosecond => {
                all::<TimestampNanosecondType, 8>(bytes, i64::from_le_bytes, nulls)
            }
        },
        DataType::Duration(unit) => match unit {
            TimeUnit::Second => all::<DurationSecondType, 8>(bytes, i64::from_le_bytes, nulls),
            TimeUnit::Millisecond => {
                all::<DurationMillisecondType, 8>(bytes, i64::from_le_bytes, nulls)
            }
            TimeUnit::Microsecond => {
                all::<DurationMicrosecondType, 8>(bytes, i64::from_le_bytes, nulls)
            }
            TimeUnit::Nanosecond => {
                all::<DurationNanosecondType, 8>(bytes, i64::from_le_bytes, nulls)
            }
        },
        other => Err(unfit(other)),
    }
}
