//! Remarks about contents of columns that fields do not carry, and of schemas that samples do not.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

use crate::convert::carried::{LeftOut, RemarkLog};
use crate::convert::formats::image_bytes;
use crate::format::arrow::form::{Column, Form};
use crate::format::arrow::lacks::{Lack, Lacks};
use crate::format::sample_fields::stored_name;

fn left_out(lack: Lack) -> LeftOut {
    match lack {
        Lack::Decimal => LeftOut::Decimal,
        Lack::TimeZone => LeftOut::TimeZone,
        Lack::TimeOfDay => LeftOut::TimeOfDay,
        Lack::ExtensionType => LeftOut::ExtensionType,
    }
}

/// Notes what samples do not carry of the schema of the file of this path.
pub(super) fn note_schema(lacks: &Lacks, path: &Path, remarks: &RemarkLog) {
    let path = path.display();
    for name in &lacks.labels {
        let (kind, field) = (LeftOut::LabelNames, stored_name(name));
        remarks.note(0, kind, Some(field), 1, || path.to_string());
    }
    for (column, name) in &lacks.metadata {
        let field = column.as_deref().map(stored_name);
        remarks.note(0, LeftOut::Metadata, field, 1, || format!("{path}, entry {name:?}"));
    }
}

/// Looks at an image in a column, in the row with this number of the table, and notes if it is hardly one.
pub(super) fn note_flaw(
    (table, unit, remarks): (&Path, usize, &RemarkLog),
    image: &[u8],
    column: &str,
    number: u64,
) {
    if let Some(flaw) = image_bytes::flaw(image) {
        let place = || format!("{}, row {number}", table.display());
        remarks.note(unit, flaw, Some(stored_name(column)), 1, place);
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
            column
                .lacks
                .iter()
                .for_each(|&lack| note(left_out(lack), name, values, &|| place(row)));
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
