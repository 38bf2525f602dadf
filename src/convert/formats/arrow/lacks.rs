//! Contents of columns that fields do not carry, and of schemas that samples do not.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use serde_json::Value as Json;

use super::form::{ARRAY_TYPE, Column, EXTENSION, EXTENSION_DETAIL, Form, array_shape};
use super::form::{FEATURES, NOTE};
use crate::convert::carried::{LeftOut, RemarkLog};
use crate::format::sample_fields::stored_name;

/// Metadata that only describes columns, rows or writers, and is made again by programs that need it.
const DESCRIPTIONS: [&str; 9] = [
    FEATURES,
    NOTE,
    EXTENSION,
    EXTENSION_DETAIL,
    "ARROW:schema",
    "PARQUET:field_id",
    "pandas",
    "parquet.avro.schema",
    "writer.model.name",
];
/// The prefix of such entries of Spark.
const SPARK: &str = "org.apache.spark.";

/// Contents of a file's schema that its samples do not carry.
#[derive(Debug, Clone, Default)]
pub(super) struct Lacks {
    /// Columns whose labels have names, beyond the one whose names are kept.
    labels: Vec<String>,
    /// Entries of metadata: the column that each is about, and its name.
    metadata: Vec<(Option<String>, String)>,
}

impl Lacks {
    pub(super) fn of(schema: &Schema, features: &Json, labels: Option<&str>) -> Lacks {
        let other = |field: &&str| labels != Some(field) && has_names(&features[*field]);
        let names = schema.fields().iter().map(|field| &field.name()[..]);
        let labels = names.filter(other).map(str::to_owned).collect();
        let own = schema.metadata().keys().map(|name| (None, name.clone()));
        let columns = schema.fields().iter().flat_map(|field| {
            field.metadata().keys().map(|name| (Some(field.name().clone()), name.clone()))
        });
        let is_known = |name: &str| DESCRIPTIONS.contains(&name) || name.starts_with(SPARK);
        let mut metadata: Vec<_> = own.chain(columns).filter(|(_, name)| !is_known(name)).collect();
        metadata.sort();
        Lacks { labels, metadata }
    }

    /// Notes them for the file of this path.
    pub(super) fn note(&self, path: &Path, remarks: &RemarkLog) {
        let path = path.display();
        for name in &self.labels {
            let (kind, field) = (LeftOut::LabelNames, stored_name(name));
            remarks.note(0, kind, Some(field), 1, || path.to_string());
        }
        for (column, name) in &self.metadata {
            let field = column.as_deref().map(stored_name);
            remarks.note(0, LeftOut::Metadata, field, 1, || format!("{path}, entry {name:?}"));
        }
    }
}

/// Whether this feature of `datasets`, or one within it, has names of labels.
fn has_names(feature: &Json) -> bool {
    match feature {
        Json::Object(entries) if feature["_type"] == "ClassLabel" => entries.contains_key("names"),
        Json::Object(entries) => entries.values().any(has_names),
        Json::Array(items) => items.iter().any(has_names),
        _ => false,
    }
}

/// Contents of the values in a column that fields do not carry.
pub(super) fn of_column(field: &Field) -> Vec<LeftOut> {
    let mut found = Vec::new();
    add(field, &mut found);
    found.sort_unstable();
    found.dedup();
    found
}

fn add(field: &Field, found: &mut Vec<LeftOut>) {
    let is_known = |name: &String| name.starts_with(ARRAY_TYPE) || array_shape(field).is_some();
    if field.metadata().get(EXTENSION).is_some_and(|name| !is_known(name)) {
        found.push(LeftOut::ExtensionType);
    }
    add_type(field.data_type(), found);
}

fn add_type(of: &DataType, found: &mut Vec<LeftOut>) {
    match of {
        DataType::Timestamp(_, Some(_)) => found.push(LeftOut::TimeZone),
        DataType::Time32(_) | DataType::Time64(_) => found.push(LeftOut::TimeOfDay),
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => found.push(LeftOut::Decimal),
        DataType::Dictionary(_, value) => add_type(value, found),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => add(item, found),
        DataType::Struct(fields) => fields.iter().for_each(|field| add(field, found)),
        _ => {}
    }
}

/// Takes a kind, the field, how many there are, and the place of the first.
pub(super) type Note<'a> = dyn FnMut(LeftOut, &str, u64, &dyn Fn() -> String) + 'a;

/// Notes what fields do not carry of a batch, whose first row has this number.
pub(super) fn note_batch(
    path: &Path,
    columns: &[Column],
    batch: &RecordBatch,
    first: u64,
    note: &mut Note<'_>,
) {
    for (column, array) in columns.iter().zip(batch.columns()) {
        let name = stored_name(&column.name);
        let place = |row: usize| format!("{}, row {}", path.display(), first + row as u64);
        if !column.lacks.is_empty() {
            let values = (array.len() - array.null_count()) as u64;
            let row = (0..array.len()).find(|&row| array.is_valid(row)).unwrap_or(0);
            column.lacks.iter().for_each(|&kind| note(kind, name, values, &|| place(row)));
        }
        if column.slot.form == Form::Label {
            let missing = without_label(array);
            let row = missing.first().copied().unwrap_or(0);
            note(LeftOut::NoLabel, name, missing.len() as u64, &|| place(row));
        }
    }
}

/// The rows whose label is -1.
fn without_label(array: &dyn Array) -> Vec<usize> {
    /// Those of numbers of this type.
    macro_rules! rows {
        ($type:ty) => {{
            let numbers = array.as_primitive::<$type>();
            (0..numbers.len()).filter(|&r| numbers.is_valid(r) && numbers.value(r) == -1).collect()
        }};
    }
    match array.data_type() {
        DataType::Int8 => rows!(Int8Type),
        DataType::Int16 => rows!(Int16Type),
        DataType::Int32 => rows!(Int32Type),
        DataType::Int64 => rows!(Int64Type),
        _ => Vec::new(),
    }
}
