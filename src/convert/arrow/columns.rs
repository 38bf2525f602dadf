//! Batches of rows from samples.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, ListArray, NullArray, PrimitiveArray, RecordBatch,
    StringArray, StructArray, new_null_array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use serde_json::json;

use super::form::note;
use super::kinds::{Entry, Type, file_fields, merge_entries, number_type};
use super::{FEATURES, NOTE};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::numpy::{self, Special};
use crate::format::msgpack::{self, Cursor, Kind, sample};
use crate::value::NdArray;

/// Samples that say what the columns are, unless there are many bytes of them.
const FIRST: (usize, usize) = (1024, 64 << 20);
/// Rows and bytes of a batch, whichever is reached first.
const BATCH: (usize, usize) = (1024, 8 << 20);
/// The bytes of a column are counted with 32 bits.
const MAX_SAMPLE: usize = 1 << 30;

/// Gathers samples, and makes batches of one schema of them.
pub(super) struct Table {
    /// The fields of all samples, the key among them.
    entries: Option<Vec<Entry>>,
    schema: Option<Arc<Schema>>,
    labels: Option<(String, Vec<String>)>,
    samples: Vec<Vec<u8>>,
    bytes: usize,
}

impl Table {
    pub(super) fn new() -> Table {
        Table { entries: None, schema: None, labels: None, samples: Vec::new(), bytes: 0 }
    }

    /// The names of the labels in this field.
    pub(super) fn set_labels(&mut self, field: &str, names: &[String]) {
        self.labels = (!names.is_empty()).then(|| (field.to_owned(), names.to_vec()));
    }

    /// Adds a sample; true if it is time to [take](Self::take) a batch.
    pub(super) fn add(&mut self, packed: &[u8]) -> Result<bool> {
        let key = msgpack::check_sample(packed)?;
        let invalid = |message: String| Error::new(ErrorKind::Invalid, message).with_key(key);
        if packed.len() > MAX_SAMPLE {
            let message = format!("expected at most {MAX_SAMPLE} bytes, found {}", packed.len());
            return Err(Error::new(ErrorKind::Limit, message).with_key(key));
        }
        let found = entries_of(packed)?.map_err(invalid)?;
        match (&self.entries, &self.schema) {
            (None, _) => self.entries = Some(found),
            (Some(known), None) => match merge_entries(known, &found) {
                Some(merged) => self.entries = Some(merged),
                None => return Err(invalid(conflict(known, &found, false))),
            },
            (Some(known), Some(_)) => {
                if !takes(known, &found) {
                    return Err(invalid(conflict(known, &found, true)));
                }
            }
        }
        self.samples.push(packed.to_vec());
        self.bytes += packed.len();
        let limit = if self.schema.is_some() { BATCH } else { FIRST };
        Ok(self.samples.len() >= limit.0 || self.bytes >= limit.1)
    }

    /// What the columns are, which is settled from now on.
    pub(super) fn schema(&mut self) -> Result<Arc<Schema>> {
        if let Some(schema) = &self.schema {
            return Ok(schema.clone());
        }
        let key = || Entry { name: sample::KEY.to_owned(), of: Type::Text, missing: false };
        let entries = self.entries.get_or_insert_with(|| vec![key()]);
        for entry in &*entries {
            if let Some(flaw) = entry.of.flaw() {
                let message = format!("field {:?}: expected {flaw}", entry.name);
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        for packed in &self.samples {
            let found = entries_of(packed)?.unwrap_or_default();
            if !takes(entries, &found) {
                let error = Error::new(ErrorKind::Invalid, conflict(entries, &found, true));
                return Err(error.with_key(msgpack::check_sample(packed)?));
            }
        }
        let is_nullable = |entry: &Entry| entry.name != sample::KEY;
        let fields: Vec<Field> =
            entries.iter().map(|entry| entry.field().with_nullable(is_nullable(entry))).collect();
        let labels_of = |entry: &Entry| {
            let labels = self.labels.as_ref().filter(|(field, _)| *field == entry.name);
            labels.map(|(_, names)| &names[..])
        };
        let features: serde_json::Map<_, _> = entries
            .iter()
            .map(|entry| (entry.name.clone(), entry.of.feature(labels_of(entry))))
            .collect();
        let slots: Vec<_> = entries.iter().map(|entry| (&entry.name[..], entry.slot())).collect();
        let note = note(slots.iter().map(|(name, slot)| (*name, slot)));
        let features = json!({"info": {"features": features}}).to_string();
        let metadata = [(FEATURES.to_owned(), features), (NOTE.to_owned(), note)];
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata.into()));
        self.schema = Some(schema.clone());
        Ok(schema)
    }

    /// The names of the columns that are files, which are compressed already.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        let entries = self.entries.iter().flatten();
        entries
            .filter(|entry| entry.of == Type::Bytes { images: true })
            .map(|entry| &entry.name[..])
    }

    /// The columns of plain bytes.
    pub(super) fn plain_bytes(&self) -> impl Iterator<Item = &str> {
        let entries = self.entries.iter().flatten();
        entries
            .filter(|entry| entry.of == Type::Bytes { images: false })
            .map(|entry| &entry.name[..])
    }

    /// A batch of the samples so far.
    pub(super) fn take(&mut self) -> Result<RecordBatch> {
        let schema = self.schema()?;
        let entries = self.entries.as_deref().unwrap_or_default();
        let mut columns: Vec<Column> = entries.iter().map(|entry| Column::of(&entry.of)).collect();
        for packed in &self.samples {
            append_map(&mut columns, entries, &mut Cursor::new(packed))?;
        }
        let arrays: Vec<ArrayRef> = columns
            .into_iter()
            .zip(schema.fields())
            .map(|(column, field)| column.finish(field.data_type()))
            .collect::<Result<_, _>>()
            .map_err(ours)?;
        self.samples.clear();
        self.bytes = 0;
        RecordBatch::try_new(schema, arrays).map_err(ours)
    }
}

/// Columns are made to fit each other, whatever the samples are.
fn ours(error: ArrowError) -> Error {
    Error::new(ErrorKind::Limit, format!("the columns cannot be written: {error}"))
}

/// What the fields of a sample are, or what is wrong with one.
fn entries_of(packed: &[u8]) -> Result<Result<Vec<Entry>, String>> {
    let mut entries: Vec<Entry> = Vec::new();
    for field in sample::fields(packed)? {
        let (name, value) = field?;
        let name = Cursor::new(name).read_str()?.to_owned();
        if entries.iter().any(|entry| entry.name == name) {
            return Ok(Err(format!("field {name:?} is there twice")));
        }
        match Type::of(&mut Cursor::new(value), 0)? {
            Ok(of) => entries.push(Entry { name, of, missing: false }),
            Err(expected) => return Ok(Err(format!("field {name:?}: expected {expected}"))),
        }
    }
    Ok(Ok(entries))
}

fn takes(known: &[Entry], found: &[Entry]) -> bool {
    conflicting(known, found, true).is_none()
}

/// The first field that does not fit, beside what was known of it.
fn conflicting<'a>(
    known: &'a [Entry],
    found: &'a [Entry],
    settled: bool,
) -> Option<(Option<&'a Entry>, &'a Entry)> {
    found.iter().find_map(|found| {
        let entry = known.iter().find(|entry| entry.name == found.name);
        let fits = match (entry, settled) {
            (Some(entry), true) => entry.of.takes(&found.of),
            (Some(entry), false) => entry.of.merge(&found.of).is_some(),
            (None, settled) => !settled,
        };
        (!fits).then_some((entry, found))
    })
}

fn conflict(known: &[Entry], found: &[Entry], settled: bool) -> String {
    match conflicting(known, found, settled) {
        Some((Some(entry), found)) => {
            let Entry { name, of, .. } = entry;
            format!("field {name:?}: expected {of} as in the first samples, found {}", found.of)
        }
        Some((None, found)) => {
            format!(
                "field {:?}: expected the fields of the first samples, found another",
                found.name
            )
        }
        None => "expected the fields of the first samples, found others".to_owned(),
    }
}

/// The values of a field so far.
enum Column {
    Nil(usize),
    Bool(Vec<bool>, Nulls),
    /// Numbers as NumPy and Arrow have them, with the lower byte first.
    Numbers(Vec<u8>, usize, Nulls),
    /// Texts and bytes.
    Bytes {
        data: Vec<u8>,
        ends: Vec<usize>,
        nulls: Nulls,
    },
    /// Arrays of NumPy: where the lists end on each axis, and all numbers.
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
    Maps {
        columns: Vec<Column>,
        entries: Vec<Entry>,
        nulls: Nulls,
    },
}

/// Which rows have something.
#[derive(Default)]
struct Nulls(Vec<bool>);

impl Nulls {
    fn finish(self) -> Option<NullBuffer> {
        let some = self.0.contains(&false);
        some.then(|| NullBuffer::new(BooleanBuffer::from(self.0)))
    }
}

impl Column {
    fn of(of: &Type) -> Column {
        let nulls = Nulls::default();
        match of {
            Type::Nil => Column::Nil(0),
            Type::Bool => Column::Bool(Vec::new(), nulls),
            Type::Scalar(dtype) if number_type(dtype) == Some(DataType::Boolean) => {
                Column::Bool(Vec::new(), nulls)
            }
            Type::Int { .. } | Type::F64 => Column::Numbers(Vec::new(), 8, nulls),
            Type::F32 => Column::Numbers(Vec::new(), 4, nulls),
            Type::Scalar(dtype) => Column::Numbers(Vec::new(), dtype.item_size(), nulls),
            Type::Text | Type::Bytes { .. } => {
                Column::Bytes { data: Vec::new(), ends: vec![0], nulls }
            }
            Type::Array(_, shape) => {
                let ends = shape.iter().map(|_| vec![0]).collect();
                Column::Arrays { ends, numbers: Vec::new(), nulls }
            }
            Type::List(items) => {
                let (of, items) = ((**items).clone(), Box::new(Column::of(items)));
                Column::Lists { ends: vec![0], items, of, nulls }
            }
            Type::Map(entries) => {
                let columns = entries.iter().map(|entry| Column::of(&entry.of)).collect();
                Column::Maps { columns, entries: entries.clone(), nulls }
            }
        }
    }

    /// A row of nothing.
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
                // For one without dimensions `spread` puts something in its place.
                if let Some(ends) = ends.first_mut() {
                    ends.push(ends.last().copied().unwrap_or(0));
                }
                nulls.0.push(false);
            }
            Column::Lists { ends, nulls, .. } => {
                ends.push(ends.last().copied().unwrap_or(0));
                nulls.0.push(false);
            }
            Column::Maps { columns, nulls, .. } => {
                columns.iter_mut().for_each(Column::append_nothing);
                nulls.0.push(false);
            }
        }
    }

    /// A packed value, which the type takes.
    fn append(&mut self, cursor: &mut Cursor<'_>, of: &Type) -> Result<()> {
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
                    _ => bytes.extend(special(cursor)?.bytes()),
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
                numbers.extend_from_slice(&array.c_bytes());
                nulls.0.push(true);
            }
            Column::Lists { ends, items, of, nulls } => {
                let len = cursor.read_array_len()?;
                for _ in 0..len {
                    items.append(cursor, of)?;
                }
                ends.push(ends.last().copied().unwrap_or(0) + len as usize);
                nulls.0.push(true);
            }
            Column::Maps { columns, entries, nulls } => {
                append_map(columns, entries, cursor)?;
                nulls.0.push(true);
            }
        }
        Ok(())
    }

    fn finish(self, of: &DataType) -> Result<ArrayRef, ArrowError> {
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

/// A row of each entry of a map.
fn append_map(columns: &mut [Column], entries: &[Entry], cursor: &mut Cursor<'_>) -> Result<()> {
    let mut seen = vec![false; columns.len()];
    for _ in 0..cursor.read_map_len()? {
        let name = cursor.read_str()?;
        match entries.iter().position(|entry| entry.name == name) {
            Some(at) => {
                columns[at].append(cursor, &entries[at].of)?;
                seen[at] = true;
            }
            None => cursor.skip()?,
        }
    }
    for (column, _) in columns.iter_mut().zip(seen).filter(|(_, seen)| !seen) {
        column.append_nothing();
    }
    Ok(())
}

fn special<'a>(cursor: &mut Cursor<'a>) -> Result<NdArray<'a>> {
    match numpy::read(cursor)? {
        Some(Special::Array(array) | Special::Scalar(array)) => Ok(array),
        _ => Err(Error::new(ErrorKind::Invalid, "expected a number or array of NumPy")),
    }
}

fn unfit(of: &DataType) -> ArrowError {
    ArrowError::SchemaError(format!("a column that is no {of}"))
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

/// Lists of lists, as many as there are axes, of all numbers.
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

/// Numbers without dimensions, of which there are none for rows of nothing.
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

/// Numbers of these bytes.
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
