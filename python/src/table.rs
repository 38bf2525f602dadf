//! [`ArrowTable`]: a dataset for programs that read tables of Arrow; and their tables for conversions.
#![allow(unsafe_code, reason = "the C interface of Arrow is made of raw pointers")]

use std::ffi::CStr;

use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Schema};
use kiste::compose::View;
use kiste::table::{Infer, Table};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::{invalid, raise};
use crate::pool;

/// The names that the interface gives capsules.
const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";

/// The samples of a dataset as a table of Arrow, made by `Dataset.to_arrow`.
///
/// Any program that reads Arrow's C stream reads it: `pyarrow.table(pets)`, `polars.DataFrame(pets)`, `duckdb.sql("select … from
/// pets")`, `pandas.DataFrame.from_arrow(pets)`. Each reads the samples again, a few batches at a time.
#[pyclass(frozen, module = "pykiste")]
pub(crate) struct ArrowTable {
    table: Table,
    /// What it was made of, for another form of it.
    view: View,
    options: Options,
}

/// How samples become a table.
#[derive(Clone)]
pub(crate) struct Options {
    fields: Option<Vec<String>>,
    batch_size: usize,
    views: bool,
    infer: Infer,
}

impl Options {
    pub(crate) fn new(
        fields: Option<Vec<String>>,
        batch_size: usize,
        views: bool,
        infer: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Options> {
        if batch_size == 0 {
            return Err(invalid("expected a batch_size of at least 1, found 0"));
        }
        let infer = match infer {
            None => Infer::Some,
            Some(text) if text.extract::<String>().is_ok_and(|text| text == "all") => Infer::All,
            Some(number) => match number.extract::<usize>() {
                Ok(number) if number > 0 => Infer::Samples(number),
                _ => {
                    let found = number.repr()?;
                    let message = format!("expected \"all\" or a number as infer, found {found}");
                    return Err(invalid(message));
                }
            },
        };
        Ok(Options { fields, batch_size, views, infer })
    }
}

impl ArrowTable {
    /// Finds the columns.
    pub(crate) fn open(py: Python<'_>, view: View, options: Options) -> PyResult<ArrowTable> {
        let (of, how) = (view.clone(), options.clone());
        let open = move || {
            let table = Table::options(&of).batch_rows(how.batch_size).views(how.views);
            let table = table.infer(how.infer);
            match how.fields {
                Some(fields) => table.fields(fields).open(),
                None => table.open(),
            }
        };
        let table = pool::apart(py, open)?.map_err(raise)?;
        Ok(ArrowTable { table, view, options })
    }

    /// A stream of its batches, with the bytes of columns copied if they are asked for in a type that is no view.
    pub(crate) fn stream<'py>(
        &self,
        py: Python<'py>,
        requested: Option<&Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let asks = |schema: &Schema| {
            let is_copied = |name: &str| {
                let asked = schema.field_with_name(name).map(|field| field.data_type().clone());
                matches!(asked, Ok(DataType::Binary | DataType::LargeBinary))
            };
            let own = self.table.schema();
            let mut views = own
                .fields()
                .iter()
                .filter(|field| matches!(field.data_type(), DataType::BinaryView));
            views.any(|field| is_copied(field.name()))
        };
        let table = match requested.map(requested_schema).transpose()?.flatten() {
            Some(schema) if asks(&schema) => {
                let options = Options { views: false, ..self.options.clone() };
                ArrowTable::open(py, self.view.clone(), options)?.table
            }
            _ => self.table.clone(),
        };
        PyCapsule::new_with_value(py, table.stream(), STREAM)
    }
}

#[pymethods]
impl ArrowTable {
    /// The columns, as text: a line with the name and the type of each.
    #[getter]
    fn schema(&self) -> String {
        self.table.to_string()
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.table.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.table.rows()
    }

    /// A stream of its batches by Arrow's C interface. What a program asks for is honoured as to bytes: columns of views,
    /// which point into the memory map, or copies.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.stream(py, requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.table.schema());
        let schema = schema.map_err(|error| raise(kiste::Error::other(error)))?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    fn __repr__(&self) -> String {
        let rows = self.table.rows();
        format!("pykiste.ArrowTable({rows} rows)\n{}", self.table)
    }
}

/// The schema in a capsule, if it is one of Arrow.
fn requested_schema(capsule: &Bound<'_, PyCapsule>) -> PyResult<Option<Schema>> {
    let pointer = capsule.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    // SAFETY: a capsule of this name has a schema of this layout, which its producer keeps as it is while the capsule
    // lives. It is looked at and not taken.
    let schema = unsafe { pointer.as_ref() };
    Ok(Schema::try_from(schema).ok())
}

/// The batches of an object that has a stream of Arrow.
pub(crate) fn batches(source: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    let capsule = source.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name has a stream of this layout. The stream is taken out of it as the interface asks:
    // what stays behind is marked as released.
    let reader = unsafe { ArrowArrayStreamReader::from_raw(pointer.as_ptr()) };
    let reader = reader.map_err(|error| raise(kiste::Error::other(error)))?;
    Ok(Box::new(reader))
}
