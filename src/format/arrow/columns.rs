//! [`Column`]: collects the values of one field, and makes an Arrow array of them.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, DictionaryArray, FixedSizeListArray, Int32Array,
    ListArray, NullArray, PrimitiveArray, StringArray, StructArray, new_null_array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, TimeUnit};

use super::kinds::{Entry, Mismatch, Target, Type, file_fields, lists_of, number_type, stored};
use super::views::{FindMap, Views};
use crate::error::{Error, ErrorKind, Result};
use crate::format::find::Finder;
use crate::format::msgpack::numpy::{self, Special};
use crate::format::msgpack::{Cursor, Kind};
use crate::value::{DType, NdArray};

/// The values of a field so far.
pub(crate) enum Column {
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
    /// Bytes that stay where they are.
    Views(Box<Views>, Nulls),
    /// Numbers of labels, and the names of all.
    Labels {
        numbers: Vec<i32>,
        names: Arc<StringArray>,
        nulls: Nulls,
    },
    /// NumPy arrays: the ends of the lists on each axis that has some, all numbers, and how many bytes of them a null
    /// has.
    Arrays {
        ends: Vec<Vec<usize>>,
        numbers: Vec<u8>,
        gap: usize,
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
pub(crate) struct Nulls(Vec<bool>);

impl Nulls {
    fn finish(self) -> Option<NullBuffer> {
        let some = self.0.contains(&false);
        some.then(|| NullBuffer::new(BooleanBuffer::from(self.0)))
    }
}

/// What appending values needs to know, and what it notices.
pub(crate) struct Appending<'a> {
    pub(crate) target: Target,
    /// The memory map that bytes lie in.
    pub(crate) map: &'a FindMap<'a>,
    pub(crate) null: NullMeanings,
}

impl Appending<'_> {
    /// To the columns of a file.
    pub(crate) fn to_file() -> Appending<'static> {
        Appending { target: Target::File, map: &|_| None, null: NullMeanings::default() }
    }
}

impl Column {
    pub(crate) fn of(of: &Type, target: Target) -> Column {
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
            Type::Bytes { .. } if target == (Target::Stream { views: true }) => {
                Column::Views(Box::default(), nulls)
            }
            Type::Text | Type::Bytes { .. } => {
                Column::Bytes { data: Vec::new(), ends: vec![0], nulls }
            }
            Type::Label(names) => {
                Column::Labels { numbers: Vec::new(), names: names.clone(), nulls }
            }
            Type::Array(dtype, shape) => {
                let lists = lists_of(shape, target);
                let ends = (0..lists).map(|_| vec![0]).collect();
                let elements: usize = shape[lists..].iter().flatten().product();
                let gap = if lists == 0 { stored_size(dtype) * elements } else { 0 };
                Column::Arrays { ends, numbers: Vec::new(), gap, nulls }
            }
            Type::List(items, _) => {
                let column = Box::new(Column::of(items, target.in_lists()));
                Column::Lists { ends: vec![0], items: column, of: (**items).clone(), nulls }
            }
            Type::Map(entries) => {
                let columns = entries.iter().map(|entry| Column::of(&entry.of, target)).collect();
                Column::Maps { columns, entries: entries.clone(), nulls }
            }
        }
    }

    /// Appends null.
    pub(crate) fn append_nothing(&mut self) {
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
            Column::Views(views, nulls) => {
                views.push_nothing();
                nulls.0.push(false);
            }
            Column::Labels { numbers, nulls, .. } => {
                numbers.push(0);
                nulls.0.push(false);
            }
            Column::Arrays { ends, numbers, gap, nulls } => {
                if let Some(ends) = ends.first_mut() {
                    ends.push(ends.last().copied().unwrap_or(0));
                }
                numbers.resize(numbers.len() + *gap, 0);
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

    /// Appends a packed value if the type takes it. Otherwise the column stays as it is, and this says what was found.
    #[inline]
    pub(crate) fn append_if_fits(
        &mut self,
        cursor: &mut Cursor<'_>,
        of: &Type,
        to: &mut Appending<'_>,
    ) -> Result<Result<(), Mismatch>> {
        // What most values are, in few steps: integers below 128 are their own bytes.
        if let Some(&byte @ 0..=0x7f) = cursor.rest().first() {
            let is_taken = match self {
                Column::Labels { numbers, names, nulls } if usize::from(byte) < names.len() => {
                    numbers.push(byte.into());
                    nulls.0.push(true);
                    true
                }
                Column::Numbers(bytes, _, nulls) if matches!(of, Type::Int { .. }) => {
                    bytes.extend_from_slice(&u64::from(byte).to_le_bytes());
                    nulls.0.push(true);
                    true
                }
                _ => false,
            };
            if is_taken {
                cursor.read_u64()?;
                return Ok(Ok(()));
            }
        }
        let fits = match (of, cursor.peek()?) {
            (_, Kind::Nil) | (Type::Bool, Kind::Bool) | (Type::Bytes { .. }, Kind::Bin) => true,
            (Type::Int { large, .. }, Kind::Int) => match large {
                true => cursor.clone().read_u64().is_ok(),
                false => cursor.clone().read_i64().is_ok(),
            },
            (Type::Label(names), Kind::Int) => {
                cursor.clone().read_u64().is_ok_and(|number| number < names.len() as u64)
            }
            (Type::F32, Kind::Float) => cursor.rest().first() == Some(&0xca),
            (Type::F64, Kind::Float) => cursor.rest().first() == Some(&0xcb),
            (Type::Text, Kind::Str) => cursor.clone().read_str().map(|_| true)?,
            _ => false,
        };
        if fits { self.append(cursor, of, to).map(Ok) } else { self.append_seldom(cursor, of, to) }
    }

    #[inline(never)]
    fn append_seldom(
        &mut self,
        cursor: &mut Cursor<'_>,
        of: &Type,
        to: &mut Appending<'_>,
    ) -> Result<Result<(), Mismatch>> {
        let is_label = matches!((of, cursor.peek()?), (Type::Label(_), Kind::Int));
        match Type::of(&mut cursor.clone(), 0)? {
            Ok(found) if of.takes(&found) && !is_label => self.append(cursor, of, to).map(Ok),
            Ok(_) if is_label => {
                let number = match cursor.read_i64() {
                    Ok(number) => number.to_string(),
                    Err(_) => cursor.read_u64()?.to_string(),
                };
                Ok(Err(format!("{of}, found {number}")))
            }
            Ok(found) => Ok(Err(format!("{of}, found {found}"))),
            Err(expected) => Ok(Err(expected)),
        }
    }

    /// Appends bytes that are in no msgpack, if this is a column of bytes.
    pub(crate) fn append_bytes(&mut self, bytes: &[u8], to: &Appending<'_>) -> Result<bool> {
        match self {
            Column::Bytes { data, ends, nulls } => {
                data.extend(bytes);
                ends.push(data.len());
                nulls.0.push(true);
            }
            Column::Views(views, nulls) => {
                views.push(bytes, to.map)?;
                nulls.0.push(true);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// About how many bytes it has in memory.
    pub(crate) fn size(&self) -> usize {
        match self {
            Column::Nil(_) => 0,
            Column::Bool(truths, _) => truths.len(),
            Column::Numbers(numbers, ..) => numbers.len(),
            Column::Bytes { data, ends, .. } => data.len() + 8 * ends.len(),
            Column::Views(views, _) => views.size(),
            Column::Labels { numbers, .. } => 4 * numbers.len(),
            Column::Arrays { numbers, ends, .. } => {
                numbers.len() + ends.iter().map(|ends| 8 * ends.len()).sum::<usize>()
            }
            Column::Lists { ends, items, .. } => 8 * ends.len() + items.size(),
            Column::Nullable { ends, numbers, .. } => 8 * ends.len() + 2 * numbers.len(),
            Column::Maps { columns, .. } => columns.iter().map(Column::size).sum(),
        }
    }

    /// Appends a packed value, which must fit the type.
    fn append(&mut self, cursor: &mut Cursor<'_>, of: &Type, to: &mut Appending<'_>) -> Result<()> {
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
                    _ => {
                        let number = special(cursor)?;
                        bytes.extend(&*stored(&number, to.target).ok_or_else(out_of_range)?);
                    }
                }
                nulls.0.push(true);
            }
            Column::Views(views, nulls) => {
                views.push(cursor.read_bin()?, to.map)?;
                nulls.0.push(true);
            }
            Column::Labels { numbers, nulls, .. } => {
                // Less than the number of names.
                numbers.push(i32::try_from(cursor.read_u64()?).unwrap_or(-1));
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
            Column::Arrays { ends, numbers, nulls, .. } => {
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
                numbers.extend_from_slice(&stored(&array, to.target).ok_or_else(out_of_range)?);
                nulls.0.push(true);
            }
            Column::Nullable { ends, numbers, some, size, nulls } => {
                let before = some.0.len();
                if cursor.peek()? == Kind::Map {
                    let array = special(cursor)?;
                    numbers.extend_from_slice(&stored(&array, to.target).ok_or_else(out_of_range)?);
                    some.0.resize(before + array.len(), true);
                } else {
                    for _ in 0..cursor.read_array_len()? {
                        append_number(cursor, *size, numbers, some, to.target)?;
                    }
                }
                ends.push(ends.last().copied().unwrap_or(0) + some.0.len() - before);
                nulls.0.push(true);
            }
            Column::Lists { ends, items, of, nulls } => {
                let len = cursor.read_array_len()?;
                for _ in 0..len {
                    items.append(cursor, of, to)?;
                }
                ends.push(ends.last().copied().unwrap_or(0) + len as usize);
                nulls.0.push(true);
            }
            Column::Maps { columns, entries, nulls } => {
                append_map(columns, entries, cursor, to, |_, _| ())?;
                nulls.0.push(true);
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self, of: &DataType, target: Target) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Column::Nil(rows) => Arc::new(NullArray::new(rows)),
            Column::Bool(truths, nulls) => {
                Arc::new(BooleanArray::new(BooleanBuffer::from(truths), nulls.finish()))
            }
            Column::Numbers(bytes, _, nulls) => numbers(&bytes, of, nulls.finish(), target)?,
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
                let items = numbers(&bytes, field.data_type(), some.finish(), target)?;
                Arc::new(ListArray::try_new(field, offsets(&ends)?, items, nulls.finish())?)
            }
            Column::Views(views, nulls) => views.finish(nulls.finish())?,
            Column::Labels { numbers, names, nulls } => {
                let numbers = Int32Array::try_new(ScalarBuffer::from(numbers), nulls.finish())?;
                Arc::new(DictionaryArray::try_new(numbers, names)?)
            }
            Column::Arrays { ends, numbers: bytes, nulls, .. } => {
                arrays(&ends, &bytes, of, nulls, target)?
            }
            Column::Lists { ends, items, nulls, .. } => {
                let field = item_of(of)?;
                let items = items.finish(field.data_type(), target)?;
                Arc::new(ListArray::try_new(field, offsets(&ends)?, items, nulls.finish())?)
            }
            Column::Maps { columns, nulls, .. } => {
                let DataType::Struct(fields) = of else { return Err(unfit(of)) };
                let finish = |(column, field): (Column, &arrow_schema::FieldRef)| {
                    column.finish(field.data_type(), target)
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
pub(crate) struct NullMeanings {
    /// Nil where null means that there is nothing.
    pub(crate) nil: u64,
    /// Nothing where null means nil.
    pub(crate) absent: u64,
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
    target: Target,
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
        _ => numbers.extend(&*stored(&special(cursor)?, target).ok_or_else(out_of_range)?),
    }
    Ok(())
}

/// Appends a row for each entry of a map. `noted` is called for entries where a null has another
/// meaning.
pub(crate) fn append_map(
    columns: &mut [Column],
    entries: &[Entry],
    cursor: &mut Cursor<'_>,
    to: &mut Appending<'_>,
    mut noted: impl FnMut(&Entry, NullMeanings),
) -> Result<()> {
    let (mut seen, mut known) = (vec![false; columns.len()], Finder::new(entries, Entry::name));
    for _ in 0..cursor.read_map_len()? {
        let name = cursor.read_str()?;
        match known.position(name) {
            Some(at) => {
                let before = to.null;
                if cursor.peek()? == Kind::Nil && entries[at].is_optional() {
                    to.null.nil += 1;
                }
                columns[at].append(cursor, &entries[at].of, to)?;
                if to.null != before {
                    let nil = to.null.nil - before.nil;
                    let absent = to.null.absent - before.absent;
                    noted(&entries[at], NullMeanings { nil, absent });
                }
                seen[at] = true;
            }
            None => cursor.skip()?,
        }
    }
    for ((column, entry), _) in columns.iter_mut().zip(entries).zip(seen).filter(|(_, seen)| !seen)
    {
        if !entry.is_optional() {
            to.null.absent += 1;
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
    target: Target,
) -> Result<ArrayRef, ArrowError> {
    if let (DataType::FixedSizeList(field, len), []) = (of, ends) {
        let items = arrays(&[], bytes, field.data_type(), Nulls::default(), target)?;
        let nulls = nulls.finish();
        return Ok(Arc::new(FixedSizeListArray::try_new(field.clone(), *len, items, nulls)?));
    }
    let Some((outer, inner)) = ends.split_first() else {
        return numbers(bytes, of, nulls.finish(), target);
    };
    let field = item_of(of)?;
    let items = arrays(inner, bytes, field.data_type(), Nulls::default(), target)?;
    Ok(Arc::new(ListArray::try_new(field, offsets(outer)?, items, nulls.finish())?))
}

/// Where a time is none, which NumPy says by the lowest number of all. In files it stays that.
fn without_times(
    bytes: &[u8],
    of: &DataType,
    nulls: Option<NullBuffer>,
    target: Target,
) -> Option<NullBuffer> {
    let lowest: &[u8] = match of {
        DataType::Date32 => &i32::MIN.to_le_bytes(),
        DataType::Timestamp(..) | DataType::Duration(_) => &i64::MIN.to_le_bytes(),
        _ => return nulls,
    };
    let is_time = |time: &[u8]| time != lowest;
    if target == Target::File || bytes.chunks_exact(lowest.len()).all(is_time) {
        return nulls;
    }
    let times = BooleanBuffer::from_iter(bytes.chunks_exact(lowest.len()).map(is_time));
    NullBuffer::union(nulls.as_ref(), Some(&NullBuffer::new(times)))
}

/// An Arrow array of the numbers in these bytes.
fn numbers(
    bytes: &[u8],
    of: &DataType,
    nulls: Option<NullBuffer>,
    target: Target,
) -> Result<ArrayRef, ArrowError> {
    fn all<T: ArrowPrimitiveType, const N: usize>(
        bytes: &[u8],
        number: impl Fn([u8; N]) -> T::Native,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        let numbers: Vec<T::Native> =
            bytes.chunks_exact(N).map(|chunk| number(chunk.try_into().unwrap_or([0; N]))).collect();
        Ok(Arc::new(PrimitiveArray::<T>::try_new(ScalarBuffer::from(numbers), nulls)?))
    }
    let nulls = without_times(bytes, of, nulls, target);
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
