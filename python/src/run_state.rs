//! States of a run as dicts, and [`Mark`]: what tells the dataset of a saved state from others.

use std::sync::{Arc, OnceLock};

use kiste::DatasetReader;
use kiste::reader::Reader;
use kiste::sampler::{Fingerprint, Sampler, State};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::{Deserialize, Serialize};

use crate::errors::{bug, invalid, no_key, raise};

/// Tells a dataset from others: by its digest, or one at a URL by the number of its samples. Read when a state is first
/// asked for.
pub(crate) struct Mark {
    reader: Arc<dyn Reader>,
    known: OnceLock<Known>,
    /// The third entry of states in an order, of the first that was asked for.
    entry: OnceLock<(Fingerprint, Py<PyDict>)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    samples: u64,
    /// Where the last sample ends. Also in a dataset that has grown since, if it is the same.
    end: Option<u64>,
    #[serde(rename = "dataset")]
    identity: Option<String>,
}

/// The third entry of a state.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    order: Fingerprint,
    #[serde(flatten)]
    dataset: Known,
}

impl Mark {
    pub(crate) fn new(reader: Arc<dyn Reader>) -> Mark {
        Mark { reader, known: OnceLock::new(), entry: OnceLock::new() }
    }

    fn known(&self) -> &Known {
        self.known.get_or_init(|| {
            // No request is waited for to say where a run is.
            let is_remote = self.reader.is_remote();
            let samples = self.reader.len();
            Known {
                samples: samples as u64,
                end: if is_remote { None } else { self.end(samples) },
                // A state without it is a state.
                identity: if is_remote { None } else { self.reader.identity().ok() },
            }
        })
    }

    /// Where the last of the first samples ends.
    fn end(&self, samples: usize) -> Option<u64> {
        // What was made of others does not grow by samples at its end alone.
        DatasetReader::of(&*self.reader)?;
        let place = self.reader.locate(samples.checked_sub(1)?);
        place.range.map(|range| range.end)
    }

    /// A state as a dict.
    pub(crate) fn dict<'py>(&self, py: Python<'py>, state: &State) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("epoch", state.epoch)?;
        dict.set_item("position", state.position)?;
        if let Some(order) = state.order {
            // Whoever has it may change it.
            dict.set_item("order", self.entry(py, order)?.copy()?)?;
        }
        Ok(dict)
    }

    fn entry<'py>(&self, py: Python<'py>, order: Fingerprint) -> PyResult<Bound<'py, PyDict>> {
        // The fingerprint of some orders depends on how far the run is.
        if let Some((_, entry)) = self.entry.get().filter(|(known, _)| *known == order) {
            return Ok(entry.bind(py).clone());
        }
        let dataset = py.detach(|| self.known().clone());
        let entry = serde_json::to_value(Entry { order, dataset }).map_err(bug)?;
        let dict = PyDict::new(py);
        for (name, value) in entry.as_object().into_iter().flatten() {
            match (value.as_str(), value.as_u64()) {
                (Some(text), _) => dict.set_item(name, text)?,
                (_, Some(number)) => dict.set_item(name, number)?,
                _ => dict.set_item(name, py.None())?,
            }
        }
        self.entry.get_or_init(|| (order, dict.clone().unbind()));
        Ok(dict)
    }

    /// The state that a dict is, if it is of these samples in the order of this sampler.
    pub(crate) fn state(
        &self,
        py: Python<'_>,
        dict: &Bound<'_, PyAny>,
        sampler: &dyn Sampler,
    ) -> PyResult<State> {
        let has = |name: &str| dict.contains(name);
        let number = |name: &str| -> PyResult<u64> {
            if !has(name)? {
                return Err(no_key(format!("expected a state with {name:?}, found none")));
            }
            dict.get_item(name)?.extract()
        };
        let state = State::new(number("epoch")?, number("position")?);
        if !has("order")? || dict.get_item("order")?.is_none() {
            return Ok(state);
        }
        let Entry { order, dataset } = entry_of(&dict.get_item("order")?)
            .map_err(|found| invalid(format!("expected a state's order, found {found}")))?;
        let mut saved = state;
        saved.order = Some(order);
        py.detach(|| self.check(&saved, &order, &dataset, sampler))?;
        Ok(state)
    }

    fn check(
        &self,
        state: &State,
        order: &Fingerprint,
        dataset: &Known,
        sampler: &dyn Sampler,
    ) -> PyResult<()> {
        let own = self.known();
        let differs = own.samples != dataset.samples
            || differ(own.end.as_ref(), dataset.end.as_ref())
            || differ(own.identity.as_ref(), dataset.identity.as_ref());
        let has_grown = || {
            let samples = usize::try_from(dataset.samples).unwrap_or(usize::MAX);
            own.samples > dataset.samples
                && dataset.end.is_some()
                && self.end(samples) == dataset.end
        };
        if differs && !has_grown() {
            let (expected, found) = (dataset.samples, own.samples);
            let what = match expected == found {
                true => format!("expected other samples, found {found} of as many"),
                false => format!("expected {expected} samples, found {found}"),
            };
            return Err(invalid(format!("the state is of another dataset: {what}; {ADVICE}")));
        }
        // In their order samples that were appended come after all that were seen.
        if differs && is_sequential(sampler, dataset.samples, order) {
            return Ok(());
        }
        state.check(sampler).map_err(raise)
    }
}

/// The third entry of a state that was saved.
fn entry_of(order: &Bound<'_, PyAny>) -> Result<Entry, String> {
    let items = order.call_method0("items").and_then(|items| items.try_iter());
    let mut entry = serde_json::Map::new();
    for item in items.map_err(|_| order.get_type().to_string())? {
        let item = item.and_then(|item| item.extract::<(String, Bound<'_, PyAny>)>());
        let (name, value) = item.map_err(|error| error.to_string())?;
        let value = match (value.extract::<String>(), value.extract::<u64>()) {
            (Ok(text), _) => text.into(),
            (_, Ok(number)) => number.into(),
            _ => serde_json::Value::Null,
        };
        entry.insert(name, value);
    }
    serde_json::from_value(entry.into()).map_err(|error| error.to_string())
}

const ADVICE: &str =
    "with its epoch and position alone a run goes on, but some samples come twice and others never";

/// Whether both are known and not the same.
fn differ<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one != other)
}

/// Whether both are the order of the samples themselves, of all now and of fewer then.
fn is_sequential(sampler: &dyn Sampler, samples: u64, order: &Fingerprint) -> bool {
    use kiste::sampler::Sequential;
    let now = Sequential::new(sampler.len()).fingerprint() == sampler.fingerprint();
    now && Sequential::new(samples).fingerprint() == *order
}
