//! Contents of columns that fields do not carry, and of schemas that samples do not.

use arrow_schema::{DataType, Field, Schema};
use serde_json::Value as Json;

use super::form::{ARRAY_TYPE, EXTENSION, EXTENSION_DETAIL, FEATURES, NOTE, array_shape};

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

/// Contents of the values in a column that its field does not carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lack {
    Decimal,
    TimeZone,
    TimeOfDay,
    ExtensionType,
}

/// Contents of a file's schema that its samples do not carry.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lacks {
    /// Columns whose labels have names, beyond the one whose names are kept.
    pub(crate) labels: Vec<String>,
    /// Entries of metadata: the column that each is about, and its name.
    pub(crate) metadata: Vec<(Option<String>, String)>,
}

impl Lacks {
    pub(crate) fn of(schema: &Schema, features: &Json, labels: Option<&str>) -> Lacks {
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
pub(crate) fn of_column(field: &Field) -> Vec<Lack> {
    let mut found = Vec::new();
    add(field, &mut found);
    found.sort_unstable();
    found.dedup();
    found
}

fn add(field: &Field, found: &mut Vec<Lack>) {
    let is_known = |name: &String| name.starts_with(ARRAY_TYPE) || array_shape(field).is_some();
    if field.metadata().get(EXTENSION).is_some_and(|name| !is_known(name)) {
        found.push(Lack::ExtensionType);
    }
    add_type(field.data_type(), found);
}

fn add_type(of: &DataType, found: &mut Vec<Lack>) {
    match of {
        DataType::Timestamp(_, Some(_)) => found.push(Lack::TimeZone),
        DataType::Time32(_) | DataType::Time64(_) => found.push(Lack::TimeOfDay),
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => found.push(Lack::Decimal),
        DataType::Dictionary(_, value) => add_type(value, found),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => add(item, found),
        DataType::Struct(fields) => fields.iter().for_each(|field| add(field, found)),
        _ => {}
    }
}
