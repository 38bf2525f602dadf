//! [`diff`]: how two datasets differ.

use kiste::Value;
use kiste::format::msgpack;
use kiste::rearrange::{self, Difference, Side};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::decode::Decoder;
use crate::errors::raise;
use crate::interrupt::watched;
use crate::new_dataset::Source;

/// Compares two datasets by key. Returns how many samples are the `same`, `only_left`, `only_right` and
/// `changed`, whether those that both have are in the `same_order`, and a list of the first `limit`
/// `differences`: dicts with `key` and `change`, which is "left", "right" or "fields". Of a sample that
/// was changed, `fields` has the values on both sides.
///
/// `progress` is called with a dict about four times a second.
///
/// >>> import pykiste as ki
/// >>> folder = getfixture("tmp_path")
/// >>> for name, samples in {"old": {"a": 1, "b": 2}, "new": {"b": 3, "c": 4}}.items():
/// ...     with ki.Writer(folder / f"{name}.msgpack") as writer:
/// ...         for key, n in samples.items():
/// ...             writer.write({"key": key, "n": n})
/// >>> found = ki.diff(folder / "old.msgpack", folder / "new.msgpack")
/// >>> found["same"], found["only_left"], found["only_right"], found["changed"]
/// (0, 1, 1, 1)
/// >>> found["differences"][1]
/// {'key': 'b', 'change': 'fields', 'left': 1, 'right': 0, 'fields': {'n': {'left': 2, 'right': 3}}}
#[pyfunction]
#[pyo3(signature = (left, right, *, limit=None, progress=None))]
pub(crate) fn diff<'py>(
    py: Python<'py>,
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    limit: Option<usize>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (left, right) = (Source::parse(left)?, Source::parse(right)?);
    let limit = limit.unwrap_or(usize::MAX);
    let samples = left.samples() as u64;
    let (same_order, differences, counts) = watched(py, progress, move |messenger| {
        let (mut differences, mut counts) = (Vec::new(), [0u64; 3]);
        messenger.begin_samples("comparing", left.samples() + right.samples());
        let (a, b) = (messenger.stoppable(&left.reader), messenger.stoppable(&right.reader));
        let found = |difference| -> kiste::Result<()> {
            let kind = match &difference {
                Difference::Only { side: Side::Left, .. } => 0,
                Difference::Only { side: Side::Right, .. } => 1,
                _ => 2,
            };
            counts[kind] += 1;
            if differences.len() < limit {
                differences.push(difference);
            }
            Ok(())
        };
        let mut stopped = Ok(());
        let same_order = rearrange::diff(&a, &b, found, |seen| stopped = messenger.reached(seen))?;
        stopped.map(|()| (same_order, differences, counts))
    })?;
    let list = PyList::empty(py);
    let mut decoder = Decoder::new();
    for difference in &differences {
        py.check_signals()?;
        list.append(described(py, difference, &mut decoder)?)?;
    }
    let [only_left, only_right, changed] = counts;
    let dict = PyDict::new(py);
    dict.set_item("same", samples - only_left - changed)?;
    dict.set_item("only_left", only_left)?;
    dict.set_item("only_right", only_right)?;
    dict.set_item("changed", changed)?;
    dict.set_item("same_order", same_order)?;
    dict.set_item("differences", list)?;
    Ok(dict)
}

fn described<'py>(
    py: Python<'py>,
    difference: &Difference,
    decoder: &mut Decoder,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    match difference {
        Difference::Only { side, key, index } => {
            let side = if *side == Side::Left { "left" } else { "right" };
            dict.set_item("key", key)?;
            dict.set_item("change", side)?;
            dict.set_item("index", index)?;
        }
        Difference::Changed { key, left, right, fields } => {
            let changed = PyDict::new(py);
            for field in fields {
                let sides = PyDict::new(py);
                for (side, value) in [("left", &field.left), ("right", &field.right)] {
                    if let Some(value) = value {
                        sides.set_item(side, object(py, value, decoder)?)?;
                    }
                }
                changed.set_item(&field.name, sides)?;
            }
            dict.set_item("key", key)?;
            dict.set_item("change", "fields")?;
            dict.set_item("left", left)?;
            dict.set_item("right", right)?;
            dict.set_item("fields", changed)?;
        }
        _ => {}
    }
    Ok(dict)
}

/// A value of the library as an object of Python.
fn object<'py>(
    py: Python<'py>,
    value: &Value,
    decoder: &mut Decoder,
) -> PyResult<Bound<'py, PyAny>> {
    let packed = msgpack::to_vec(value).map_err(|error| raise(error.into()))?;
    decoder.sample(py, &packed, None).map_err(|flaw| flaw.raise(py, |error| error))
}
