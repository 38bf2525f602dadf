//! Batches that are planned by length: what `pykiste.batching` describes.

use std::sync::Arc;

use kiste::reader::Reader;
use kiste::sampler::batching::{Planned, parse};
use kiste::sampler::{Lengths, Sampler};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::errors::{invalid, raise, wrong_type};

/// The batches that an object of `pykiste.batching` describes.
pub(crate) fn planned(
    given: &Bound<'_, PyAny>,
    reader: &Arc<dyn Reader>,
    sampler: &Arc<dyn Sampler>,
) -> PyResult<Planned> {
    if !given.hasattr("_text")? {
        return Err(wrong_type("batching: expected one of pykiste.batching, found another object"));
    }
    let text: String = given.call_method0("_text")?.extract()?;
    let batching = parse(&text).map_err(raise)?;
    let lengths = given.getattr("lengths")?;
    let columns = match batching.columns() {
        1 => vec![column(&lengths, reader)?],
        expected => {
            let given: Vec<Bound<'_, PyAny>> = match lengths.cast::<PyTuple>() {
                Ok(given) => given.iter().collect(),
                Err(_) => lengths.cast::<PyList>().map(|list| list.iter().collect())?,
            };
            if given.len() != expected {
                let found = given.len();
                return Err(invalid(format!(
                    "lengths: expected {expected} columns, found {found}"
                )));
            }
            given.iter().map(|one| column(one, reader)).collect::<PyResult<_>>()?
        }
    };
    let planned = Planned::with_columns(sampler.clone(), columns, batching).map_err(raise)?;
    let planned = planned.window(given.getattr("window")?.extract()?).map_err(raise)?;
    Ok(planned.seed(given.getattr("seed")?.extract()?))
}

/// A column of the dataset, or the numbers themselves.
pub(crate) fn column(
    given: &Bound<'_, PyAny>,
    reader: &Arc<dyn Reader>,
) -> PyResult<Arc<dyn Lengths>> {
    if let Ok(name) = given.extract::<&str>() {
        let found = reader.lengths(name).map_err(raise)?;
        return found.ok_or_else(|| {
            invalid(format!(
                "expected a dataset with lengths {name:?}, found one without: ki.index(path, lengths=[{name:?}]) makes them"
            ))
        });
    }
    let py = given.py();
    let numpy = py.import("numpy")?;
    let array = numpy.call_method1("asarray", (given,))?;
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    let dimensions: usize = array.getattr("ndim")?.extract()?;
    let is_empty = array.len()? == 0;
    if dimensions != 1 || !(is_empty || kind == "i" || kind == "u") {
        let dtype = array.getattr("dtype")?;
        return Err(invalid(format!(
            "lengths: expected one integer for each sample, found an array of {dimensions} dimensions and type {dtype}"
        )));
    }
    if !is_empty {
        let (least, most) = (array.call_method0("min")?, array.call_method0("max")?);
        if least.lt(0)? || most.gt(u32::MAX)? {
            let message = format!(
                "lengths: expected numbers from 0 to {}, found {least} to {most}",
                u32::MAX
            );
            return Err(invalid(message));
        }
    }
    let numbers = numpy.call_method1("ascontiguousarray", (array, "uint32"))?;
    Ok(Arc::new(PyBuffer::<u32>::get(&numbers)?.to_vec(py)?))
}
