//! The fields that the columns of a schema become, by their types and by the metadata of the schema.

use std::collections::HashMap;

use arrow_schema::{DataType, Field, Schema};
use serde_json::{Map, Value as Json, json};

use super::lacks::{self, Lack, Lacks};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::sample::KEY;

/// The key of the note about the forms of columns, in the metadata of a schema.
pub(crate) const NOTE: &str = "kiste";
/// Where Hugging Face `datasets` keeps its features.
pub(crate) const FEATURES: &str = "huggingface";

/// The name of the key in WebDataset and others.
const OTHER_KEY: &str = "__key__";

/// The keys in the metadata of a column for the name and the details of an extension type.
pub(crate) const EXTENSION: &str = "ARROW:extension:name";
pub(crate) const EXTENSION_DETAIL: &str = "ARROW:extension:metadata";
/// The prefix of the array types of `datasets`, before the number of axes.
pub(crate) const ARRAY_TYPE: &str = "datasets.features.features.Array";

/// The form that the values of a column get.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Form {
    /// The form that the type of the column implies.
    Plain,
    /// NumPy scalars.
    Scalar,
    /// Numbers of labels; -1 is no label.
    Label,
    /// Names of labels, in place of their numbers.
    Names,
    /// The bytes of a file, and perhaps its path.
    File {
        /// Whether it is an image.
        image: bool,
    },
    /// A NumPy array of this shape. Unknown lengths vary.
    Array(Vec<Option<usize>>),
    /// A list of anything.
    List(Box<Slot>),
    /// A NumPy array if it is one of numbers, otherwise a list.
    Sequence(Box<Slot>),
    /// A map.
    Struct(Vec<Slot>),
    /// The same, of points in time in seconds, which are stored as milliseconds.
    Seconds(Box<Form>),
}

/// A form, and the meaning of null.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Slot {
    pub(crate) form: Form,
    /// Null means that the field is missing, rather than nil.
    pub(crate) optional: bool,
}

impl Form {
    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Form::File { .. })
    }

    fn always(self) -> Slot {
        Slot { form: self, optional: false }
    }

    /// The form as it is in the note.
    fn to_json(&self) -> Json {
        match self {
            Form::Plain | Form::Label | Form::File { .. } | Form::Sequence(_) => Json::Null,
            Form::Scalar => json!("scalar"),
            Form::Names => json!("names"),
            Form::Seconds(inner) => json!({"seconds": inner.to_json()}),
            Form::Array(shape) => json!({"array": shape}),
            Form::List(inner) => json!({"list": inner.to_json()}),
            Form::Struct(slots) => {
                json!({"fields": slots.iter().map(Slot::to_json).collect::<Vec<_>>()})
            }
        }
    }

    /// The form of this type by the note and the features, where they fit.
    fn of(of: &DataType, note: Option<&Json>, feature: Option<&Json>) -> Form {
        let noted = note.filter(|note| !note.is_null()).and_then(|note| Form::noted(of, note));
        if let Some(form) = noted {
            return form;
        }
        let kind = feature.and_then(|feature| feature["_type"].as_str()).unwrap_or_default();
        let inner = feature.and_then(|feature| match feature {
            Json::Array(items) => items.first(),
            _ => feature.get("feature"),
        });
        match of {
            DataType::Struct(fields) if is_file(kind) && has_bytes(fields) => {
                Form::File { image: kind == "Image" }
            }
            DataType::Struct(fields) => {
                let of = |field: &arrow_schema::FieldRef| {
                    let feature = feature.and_then(|feature| feature.get(field.name()));
                    Form::of(field.data_type(), None, feature).always()
                };
                Form::Struct(fields.iter().map(of).collect())
            }
            DataType::Dictionary(_, value) => Form::of(value, None, feature),
            _ if item(of).is_some() && kind.starts_with("Array") => {
                let shape = feature.and_then(|feature| shape_of(&feature["shape"]));
                shape.map_or_else(|| Form::sequence(of, inner), Form::Array)
            }
            _ if item(of).is_some() => Form::sequence(of, inner),
            _ if of.is_integer() && kind == "ClassLabel" => Form::Label,
            _ => Form::Plain,
        }
    }

    fn sequence(of: &DataType, feature: Option<&Json>) -> Form {
        let inner = item(of).map_or(Form::Plain, |item| Form::of(item, None, feature));
        Form::Sequence(Box::new(inner.always()))
    }

    /// The form in the note, if it fits the type.
    fn noted(of: &DataType, note: &Json) -> Option<Form> {
        if note == "scalar" {
            return Some(Form::Scalar);
        }
        if note == "names" {
            return matches!(of, DataType::Dictionary(..)).then_some(Form::Names);
        }
        if let Some(inner) = note.get("seconds") {
            return Form::noted(of, inner).map(|inner| Form::Seconds(Box::new(inner)));
        }
        if let Some(shape) = note.get("array") {
            return shape_of(shape).map(Form::Array);
        }
        if let Some(inner) = note.get("list") {
            return Some(Form::List(Box::new(Slot::of(item(of)?, Some(inner), None))));
        }
        let notes = note.get("fields")?.as_array()?;
        let DataType::Struct(fields) = of else { return None };
        let slot = |(at, field): (usize, &arrow_schema::FieldRef)| {
            Slot::of(field.data_type(), notes.get(at), None)
        };
        Some(Form::Struct(fields.iter().enumerate().map(slot).collect()))
    }
}

impl Slot {
    fn of(of: &DataType, note: Option<&Json>, feature: Option<&Json>) -> Slot {
        match note.and_then(|note| note.get("optional")) {
            Some(inner) => Slot { form: Form::of(of, Some(inner), feature), optional: true },
            None => Form::of(of, note, feature).always(),
        }
    }

    /// The form as it is in the note.
    pub(crate) fn to_json(&self) -> Json {
        match self.optional {
            true => json!({"optional": self.form.to_json()}),
            false => self.form.to_json(),
        }
    }
}

/// The features that are files: their bytes or paths.
fn is_file(kind: &str) -> bool {
    matches!(kind, "Image" | "Audio" | "Video" | "Pdf")
}

fn has_bytes(fields: &arrow_schema::Fields) -> bool {
    fields.find("bytes").is_some()
}

/// Whether values of this type may be images, or have some in them.
fn may_have_images(of: &DataType) -> bool {
    match of {
        DataType::Struct(fields) => {
            has_bytes(fields) || fields.iter().any(|field| may_have_images(field.data_type()))
        }
        of => item(of).is_some_and(may_have_images),
    }
}

/// The type of the items of a list.
fn item(of: &DataType) -> Option<&DataType> {
    match of {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item.data_type())
        }
        _ => None,
    }
}

fn shape_of(shape: &Json) -> Option<Vec<Option<usize>>> {
    let len = |len: &Json| match len {
        Json::Null => Some(None),
        len => len.as_u64().and_then(|len| usize::try_from(len).ok()).map(Some),
    };
    shape.as_array()?.iter().map(len).collect()
}

/// A column that becomes a field.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) slot: Slot,
    /// Contents of its values that the field does not carry.
    pub(crate) lacks: Vec<Lack>,
    /// Whether its values may be images, or have some in them.
    pub(crate) images: bool,
}

/// The fields that the columns of a schema become.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    pub(crate) columns: Vec<Column>,
    /// The column of the keys, which is not a field.
    pub(crate) key: Option<usize>,
    /// The names of the labels, if they are known.
    pub(crate) labels: Option<Vec<String>>,
    /// Contents of the schema that samples do not carry.
    pub(crate) lacks: Lacks,
}

impl Plan {
    pub(crate) fn of(schema: &Schema) -> Result<Plan> {
        let json = |name: &str| {
            let text = schema.metadata().get(name);
            text.and_then(|text| serde_json::from_str::<Json>(text).ok()).unwrap_or_default()
        };
        let (features, note) = (json(FEATURES), json(NOTE));
        let features = &features["info"]["features"];
        let notes = &note["columns"];
        let mut columns = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let (note, feature) = (notes.get(field.name()), features.get(field.name()));
            let mut slot = Slot::of(field.data_type(), note, feature);
            if let Some(shape) = array_shape(field) {
                slot.form = match slot.form {
                    Form::Seconds(_) => Form::Seconds(Box::new(Form::Array(shape))),
                    _ => Form::Array(shape),
                };
            }
            // A file with the note has no such convention.
            if slot.form == Form::Label && note.is_some() {
                slot.form = Form::Plain;
            }
            let lacks = lacks::of_column(field);
            let images = may_have_images(field.data_type());
            columns.push(Column { name: field.name().clone(), slot, lacks, images });
        }
        if columns.is_empty() {
            return Err(Error::new(ErrorKind::Damaged, "expected columns, found none"));
        }
        let texts = |name: &str| {
            schema.fields().iter().position(|f| f.name() == name && is_text(f.data_type()))
        };
        let labels = label_names(&columns, features)?;
        let (column, labels) = labels.unzip();
        let labels = labels.or_else(|| noted_labels(&columns, &note));
        let lacks = Lacks::of(schema, features, column);
        Ok(Plan { columns, key: texts(KEY).or_else(|| texts(OTHER_KEY)), labels, lacks })
    }
}

impl Plan {
    /// The plan of these columns alone, in this order.
    pub(crate) fn only(&self, columns: &[usize]) -> Plan {
        let key = self.key.and_then(|key| columns.iter().position(|&at| at == key));
        let columns = columns.iter().map(|&at| self.columns[at].clone()).collect();
        Plan { columns, key, labels: None, lacks: Lacks::default() }
    }

    /// Whether the numbers of labels mean something else in another file. A file without columns of
    /// labels has none to contradict.
    pub(crate) fn contradicts(&self, other: &Plan) -> bool {
        let has_numbers = |plan: &Plan| {
            let label = |column: &Column| column.name == "label" || column.slot.form == Form::Label;
            plan.labels.is_some() || plan.columns.iter().any(label)
        };
        self.labels != other.labels && has_numbers(self) && has_numbers(other)
    }
}

fn is_text(of: &DataType) -> bool {
    match of {
        DataType::Dictionary(_, value) => is_text(value),
        of => matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
    }
}

/// The shape of `arrow.fixed_shape_tensor`, whose numbers are one list, and of the arrays of
/// `datasets`.
pub(crate) fn array_shape(field: &Field) -> Option<Vec<Option<usize>>> {
    let metadata: &HashMap<String, String> = field.metadata();
    let name = metadata.get(EXTENSION)?;
    let detail: Json = serde_json::from_str(metadata.get(EXTENSION_DETAIL)?).ok()?;
    item(field.data_type())?;
    if name.starts_with(ARRAY_TYPE) {
        return shape_of(detail.get(0)?);
    }
    let is_plain = detail.get("permutation").is_none_or(is_identity);
    let fits = name == "arrow.fixed_shape_tensor" && is_plain;
    if fits { shape_of(&detail["shape"]) } else { None }
}

/// Whether the axes are in their order, which is the default.
fn is_identity(permutation: &Json) -> bool {
    let axes = permutation.as_array().map(Vec::as_slice).unwrap_or_default();
    axes.iter().enumerate().all(|(at, axis)| axis.as_u64() == Some(at as u64))
}

/// The column of labels and their names, from the field `label`, or else from the first field with
/// names.
fn label_names<'a>(
    columns: &[Column],
    features: &'a Json,
) -> Result<Option<(&'a str, Vec<String>)>> {
    let names_of = |column: &Column| {
        let (name, feature) = features.as_object()?.get_key_value(&column.name)?;
        let names = feature.get("names").filter(|_| feature["_type"] == "ClassLabel")?;
        Some((&name[..], names.as_array()?))
    };
    let own = columns.iter().find(|column| column.name == "label").and_then(names_of);
    let Some((column, names)) = own.or_else(|| columns.iter().find_map(names_of)) else {
        return Ok(None);
    };
    let text = |name: &Json| name.as_str().map(str::to_owned);
    let names: Option<Vec<String>> = names.iter().map(text).collect();
    let message = "expected the names of labels to be strings, found others";
    let names = names.ok_or_else(|| Error::new(ErrorKind::Damaged, message))?;
    Ok(Some((column, names)))
}

/// The names of labels in the note, if a column has the names in place of numbers.
fn noted_labels(columns: &[Column], note: &Json) -> Option<Vec<String>> {
    let has_names = columns.iter().any(|column| column.slot.form == Form::Names);
    let names = note.get("labels").filter(|_| has_names)?.as_array()?;
    names.iter().map(|name| name.as_str().map(str::to_owned)).collect()
}

/// The note about columns with these names, and about the names of labels where a column has them.
pub(crate) fn note<'a>(
    columns: impl Iterator<Item = (&'a str, &'a Slot)>,
    labels: Option<&[String]>,
) -> String {
    let columns: Map<String, Json> =
        columns.map(|(name, slot)| (name.to_owned(), slot.to_json())).collect();
    let mut note = json!({"version": 1, "columns": columns});
    if let Some(labels) = labels {
        note["labels"] = labels.into();
    }
    note.to_string()
}
