//! [`Collator`]: columns of the samples that a caller names.

use std::sync::Arc;

use kiste::loader::Columns;
use kiste::reader::Reader;
use kiste::sampler::{Order, Sampler, State};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::batch::{Batch, With, keys_of};
use crate::buffers::memory_of;
use crate::columns::{Column, all_of, kinds_of, parsed};
use crate::dataset::Dataset;
use crate::errors::{bug, raise};
use crate::pool;
use crate::run_state::Mark;

/// Makes batches of columns of the samples with some indices.
#[pyclass(module = "pykiste._core", frozen)]
pub(crate) struct Collator {
    reader: Arc<dyn Reader>,
    columns: Columns,
    parsed: Arc<[Column]>,
    mark: Arc<Mark>,
}

/// These indices, as an order.
struct Given(Arc<[u64]>);

impl Order for Given {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn index_at(&self, position: u64) -> u64 {
        self.0[position as usize]
    }
}

impl Sampler for Given {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn bound(&self) -> u64 {
        self.0.iter().max().map_or(0, |last| last.saturating_add(1))
    }

    fn order(&self, _epoch: u64) -> kiste::Result<Arc<dyn Order>> {
        Ok(Arc::new(Given(self.0.clone())))
    }
}

#[pymethods]
impl Collator {
    #[new]
    fn new(dataset: PyRef<'_, Dataset>, columns: &Bound<'_, PyAny>) -> PyResult<Collator> {
        let reader = dataset.reader()?;
        let parsed = parsed(columns)?;
        let mark = Arc::new(Mark::new(reader.clone()));
        Ok(Collator { reader, columns: all_of(&parsed)?, parsed, mark })
    }

    #[getter]
    fn _kinds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        kinds_of(py, &self.parsed)
    }

    fn _sample_keys(&self, py: Python<'_>, indices: Vec<u64>) -> PyResult<Vec<String>> {
        keys_of(py, &self.reader, indices)
    }

    /// The batch of these indices, in their order. What is random about it depends on the number `draw`, as it does on
    /// the epoch in a loader. With `memory`, its numbers are in these new arrays, one for each column of numbers.
    fn __call__(
        &self,
        py: Python<'_>,
        indices: Vec<u64>,
        draw: u64,
        memory: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Batch> {
        let size = indices.len().max(1) as u64;
        let options = kiste::loader::Loader::options(self.reader.clone(), Given(indices.into()));
        let options = options.batch_size(size).epochs(1).threads(0).resume(State::new(draw, 0));
        let columns = self.columns.clone();
        let memory = memory
            .map(|set| memory_of(&self.parsed, size, PyList::new(py, [set])?.as_any(), true))
            .transpose()?;
        // In the pool, so that Ctrl-C ends a wait for a server.
        let batch = pool::run(py, move || {
            let mut loader = match memory {
                Some(memory) => options.columns_in(&memory)?,
                None => options.columns(columns)?,
            };
            loader.next().transpose()
        })?;
        let batch = batch.map_err(raise)?.ok_or_else(|| bug("no batch"))?;
        let with = With {
            reader: self.reader.clone(),
            columns: Some(self.parsed.clone()),
            held: None,
            mark: self.mark.clone(),
        };
        Ok(Batch::of_columns(batch, with).0)
    }
}
