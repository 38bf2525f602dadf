//! [`stat`], [`compare`], [`duplicates`] and their pages: what is in a dataset.

use kiste::rearrange::{DuplicatesBy, duplicates as equal_samples};
use kiste::stat::{SamplePage, StatComparison, StatOptions, StatReport};
use pyo3::prelude::*;
use serde::Serialize;

use crate::errors::{bug, out_of_range};
use crate::interrupt::{Messenger, watched};
use crate::new_dataset::Source;

fn options(fields: Option<Vec<String>>, by: Option<String>) -> StatOptions {
    let options = StatOptions::default();
    let options = fields.into_iter().fold(options, StatOptions::fields);
    by.into_iter().fold(options, StatOptions::by)
}

fn report(
    source: &Source,
    options: &StatOptions,
    messenger: &mut Messenger,
) -> kiste::Result<StatReport> {
    messenger.begin_samples("reading", source.reader.len());
    let reader = messenger.stoppable(&source.reader);
    let mut stopped = Ok(());
    let mut report = StatReport::of(&reader, options, |seen| stopped = messenger.reached(seen))?;
    stopped?;
    report.file.clone_from(&source.path);
    Ok(report)
}

/// What JSON says, as Python has it.
fn loads<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(bug)?;
    py.import("json")?.call_method1("loads", (text,))
}

/// Looks at all samples: how large they are, which fields they have and of which types, what is missing, how values are
/// spread, how often each class occurs, how large images, arrays and texts are, how long sound is. Returns what
/// `kiste stat --json` prints. With `fields`, only these are looked at. Labels are counted by the field `by` (default:
/// `split`, where there is one).
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
#[pyo3(signature = (source, *, fields=None, by=None, progress=None))]
pub(crate) fn stat<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    fields: Option<Vec<String>>,
    by: Option<String>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let source = Source::parse(source)?;
    let path = source.path.clone();
    let report =
        watched(py, progress, move |messenger| report(&source, &options(fields, by), messenger))?;
    let dict = loads(py, &report.summary)?;
    dict.set_item("path", path)?;
    dict.set_item("labels", report.labels)?;
    Ok(dict)
}

/// The page of `kiste stat --html`, as text: samples of each class, plots and tables. It is one file of at most about
/// 3 MB that needs nothing else.
///
/// >>> import pykiste as ki
/// >>> path = getfixture("tmp_path") / "page.msgpack"
/// >>> with ki.Writer(path) as writer:
/// ...     writer.write({"key": "a", "text": "Kiste"})
/// >>> ki.stat_page(path)[:15]
/// '<!DOCTYPE html>'
#[pyfunction]
#[pyo3(signature = (source, *, fields=None, by=None, show=48, progress=None))]
pub(crate) fn stat_page(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    fields: Option<Vec<String>>,
    by: Option<String>,
    show: usize,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let source = Source::parse(source)?;
    watched(py, progress, move |messenger| {
        report(&source, &options(fields, by), messenger)?.to_html(&source.reader, show)
    })
}

/// What differs between two datasets, the largest difference first, as `kiste stat --compare --json` prints it: a dict of
/// `differences`, each with `field`, `what`, `distance` (the share of samples that would have to change, 0 to 1), `left`
/// and `right`, and of the fields that are `alike`. What chance makes of two draws from one source is no difference.
///
/// >>> import pykiste as ki
/// >>> train, val = (getfixture("tmp_path") / name for name in ("train.msgpack", "val.msgpack"))
/// >>> for path, labels in (train, [0, 1] * 50), (val, [1] * 50):
/// ...     with ki.Writer(path) as writer:
/// ...         for number, label in enumerate(labels):
/// ...             writer.write({"key": f"{number:03}", "label": label})
/// >>> first = ki.compare(train, val)["differences"][0]
/// >>> first["field"], first["what"], first["distance"]
/// ('label', 'values', 0.5)
#[pyfunction]
#[pyo3(signature = (left, right, *, fields=None, progress=None))]
pub(crate) fn compare<'py>(
    py: Python<'py>,
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    fields: Option<Vec<String>>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (left, right) = (Source::parse(left)?, Source::parse(right)?);
    let compared = watched(py, progress, move |messenger| {
        let options = options(fields, None);
        let left = report(&left, &options, messenger)?;
        Ok(StatComparison::of(&left, &report(&right, &options, messenger)?))
    })?;
    loads(py, &compared)
}

/// Samples that are equal, as lists of their keys: those with equal packed values of the field `by`, or, without it, those
/// that have all but their keys in common. `Dataset.dedupe(by=...)` keeps the first of each.
///
/// >>> import pykiste as ki
/// >>> path = getfixture("tmp_path") / "twice.msgpack"
/// >>> with ki.Writer(path) as writer:
/// ...     for key, word in ("a", "box"), ("b", "crate"), ("c", "box"):
/// ...         writer.write({"key": key, "word": word})
/// >>> ki.duplicates(path, by="word")
/// [['a', 'c']]
#[pyfunction]
#[pyo3(signature = (source, *, by=None, progress=None))]
pub(crate) fn duplicates(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    by: Option<String>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Vec<Vec<String>>> {
    let source = Source::parse(source)?;
    let by = match by {
        None => DuplicatesBy::Content,
        Some(name) if name == "key" => DuplicatesBy::Key,
        Some(name) => DuplicatesBy::Field(name),
    };
    watched(py, progress, move |messenger| {
        messenger.begin_samples("looking for duplicates", source.reader.len());
        let reader = messenger.stoppable(&source.reader);
        let groups = equal_samples(&reader, &by, |seen| messenger.reached(seen))?;
        let key = |index: usize| Ok(source.reader.key(index)?.into_owned());
        groups.into_iter().map(|group| group.into_iter().map(key).collect()).collect()
    })
}

/// A page of the samples of these indices in their order, as text: such as `batch.indices`, for what a step saw.
///
/// >>> import pykiste as ki
/// >>> path = getfixture("tmp_path") / "batch.msgpack"
/// >>> with ki.Writer(path) as writer:
/// ...     for key in "abc":
/// ...         writer.write({"key": key})
/// >>> page = ki.samples_page(path, [2, 0], title="step 7")
/// >>> page.index('data-key="c"') < page.index('data-key="a"')
/// True
#[pyfunction]
#[pyo3(signature = (source, indices, *, title="samples", note=""))]
pub(crate) fn samples_page(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    indices: Vec<usize>,
    title: &str,
    note: &str,
) -> PyResult<String> {
    let source = Source::parse(source)?;
    let len = source.samples();
    if let Some(index) = indices.iter().find(|index| **index >= len) {
        return Err(out_of_range(*index as isize, len));
    }
    let (title, note) = (title.to_owned(), note.to_owned());
    watched(py, None, move |_| {
        let mut page = SamplePage::of(&source.reader, title)?;
        indices.into_iter().try_for_each(|index| page.add(index))?;
        Ok(page.to_html(&note))
    })
}
