//! In place of tables of Arrow, in builds that have none.

use kiste::compose::View;
use kiste::{Error, ErrorKind, Remedy};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::raise;

/// There are none.
#[pyclass(frozen, module = "pykiste")]
pub(crate) enum ArrowTable {
    Missing {},
}

pub(crate) struct Options;

impl Options {
    pub(crate) fn new(
        _fields: Option<Vec<String>>,
        _batch_size: usize,
        _views: bool,
        _infer: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Options> {
        Err(missing())
    }
}

impl ArrowTable {
    pub(crate) fn open(_py: Python<'_>, _view: View, _options: Options) -> PyResult<ArrowTable> {
        Err(missing())
    }

    pub(crate) fn stream<'py>(
        &self,
        _py: Python<'py>,
        _requested: Option<&Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        Err(missing())
    }
}

pub(crate) fn missing() -> PyErr {
    let error = Error::new(ErrorKind::Unsupported, "tables of Arrow are not in this build");
    raise(error.with_remedy(Remedy::Feature("arrow")))
}
