//! [`stat`]: what is in a dataset.

use kiste::stat::StatOptions;
use pyo3::prelude::*;

use crate::errors::bug;
use crate::interrupt::watched;
use crate::new_dataset::Source;

/// Looks at all samples: how large they are, which fields they have and of which types, how often each
/// class occurs, how large images and arrays are. Returns what `kiste stat --json` prints. With `fields`,
/// only these are looked at, and up to a million different values of each are counted.
///
/// `progress` is called with a dict about four times a second. A sample that is damaged is a `DamagedError`.
///
/// >>> import pykiste as ki
/// >>> path = getfixture("tmp_path") / "all.msgpack"
/// >>> with ki.Writer(path) as writer:
/// ...     for number in range(10):
/// ...         writer.write({"key": str(number), "label": number % 5})
/// >>> found = ki.stat(path)
/// >>> found["samples"], [field["name"] for field in found["fields"]]
/// (10, ['key', 'label'])
#[pyfunction]
#[pyo3(signature = (source, *, fields=None, progress=None))]
pub(crate) fn stat<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    fields: Option<Vec<String>>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let source = Source::parse(source)?;
    let options = match fields {
        Some(fields) => StatOptions::default().fields(fields),
        None => StatOptions::default(),
    };
    let reader = source.reader.clone();
    let (summary, labels) = watched(py, progress, move |messenger| {
        messenger.begin_samples("reading", reader.len());
        let labels = reader.labels()?;
        let reader = messenger.stoppable(&reader);
        let mut stopped = Ok(());
        let summary = options.stat(&reader, |seen| stopped = messenger.reached(seen))?;
        stopped?;
        Ok((summary, labels))
    })?;
    let text = serde_json::to_string(&summary).map_err(bug)?;
    let dict = py.import("json")?.call_method1("loads", (text,))?;
    dict.set_item("path", &source.path)?;
    dict.set_item("labels", labels)?;
    Ok(dict)
}
