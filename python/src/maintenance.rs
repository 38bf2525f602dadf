//! Work on whole datasets: verification, side files, repair.

use std::path::PathBuf;

use kiste::convert::InPlace;
use kiste::index::IndexOptions;
use kiste::rearrange::LengthOf;
use kiste::repair::{Leftover, Repair};
use kiste::verify::Verify;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::{invalid, raise};
use crate::interrupt::watched;
use crate::new_dataset::parse_lengths;
use crate::opening::Opening;
use crate::pool;

/// Checks a dataset against its side files. Returns a dict with `good` and a list of `problems`; with
/// `deep=True` every sample is decoded too. `untrusted` and `allow_outside` are as for `Dataset`.
///
/// `progress` is called with a dict about four times a second: `input_bytes` of `total_input_bytes` are read.
/// Ctrl-C, or an exception in it, stops the work.
///
/// >>> import pykiste as ki
/// >>> path = getfixture("tmp_path") / "one.msgpack"
/// >>> with ki.Writer(path) as writer:
/// ...     writer.write({"key": "a"})
/// >>> found = ki.verify(path, deep=True)
/// >>> found["good"], found["samples"], found["problems"]
/// (True, 1, [])
#[pyfunction]
#[pyo3(signature = (path, *, deep=false, untrusted=false, allow_outside=false, progress=None))]
pub(crate) fn verify<'py>(
    py: Python<'py>,
    path: PathBuf,
    deep: bool,
    untrusted: bool,
    allow_outside: bool,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let opening = Opening { untrusted, allow_outside, ..Opening::default() };
    let report = watched(py, progress, move |messenger| {
        let (storage, place) = opening.locate(&path)?;
        let read = messenger.bytes("verifying");
        Verify::of(place).storage(storage).deep(deep).run_with(&|done, of| read.reached(done, of))
    })?;
    let problems = PyList::empty(py);
    for problem in &report.problems {
        let one = PyDict::new(py);
        one.set_item("file", &problem.file)?;
        one.set_item("index", problem.index)?;
        one.set_item("key", problem.key.as_deref())?;
        one.set_item("range", problem.bytes.as_ref().map(|bytes| (bytes.start, bytes.end)))?;
        one.set_item("message", &problem.message)?;
        problems.append(one)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("good", report.is_good())?;
    dict.set_item("samples", report.samples)?;
    dict.set_item("bytes", report.bytes)?;
    dict.set_item("problems", problems)?;
    dict.set_item("missing", &report.missing)?;
    Ok(dict)
}

/// Makes the side files that are missing, or all of them with `force=True`. `lookup` says whether
/// there is to be `.lookup`; by default datasets of 1,024 samples or more get it. Where digests, checksums,
/// offsets or keys say that the data was another, that is an error; `force=True, trust_data=True` takes the
/// data as it is, and forgets what says otherwise. `progress` is as for `verify`. Returns what was made
/// (`pykiste.reports.Indexed`).
///
/// >>> import pykiste as ki
/// >>> path = getfixture("tmp_path") / "bare.msgpack"
/// >>> _ = path.write_bytes(ki.pack({"key": "a"}) + ki.pack({"key": "b"}))
/// >>> ki.index(path)["samples"]
/// 2
/// >>> list(ki.open(path).keys())
/// ['a', 'b']
///
/// `lengths` are columns of `.lengths`, numbers of each sample by which batches are planned without reading these:
/// `"len(tokens)"`, `"width(image)"`, `"height(image)"`, `"ms(seconds)"`, `"frames"` (a field), or `"bytes"` (the packed
/// sample). Columns that are there stay, and `force=True` makes those that are asked for again.
///
/// >>> made = ki.index(path, lengths=["len(key)", "bytes"])["made"]
/// >>> [file.name for file in made]
/// ['bare.msgpack.lengths']
///
/// With `output="NAME.inplace.json"`, `path` is files, folders, patterns or URLs (or a list of them) of tar archives of
/// WebDataset, JSON lines, TFRecord, MDS or Arrow IPC. Their samples stay where they are, and `output` is a dataset of
/// them. `key`, `key_field`, `from_format`, `texts`, `lists`, `plain_json` and `max_bytes` are as for `convert`. `skip_bad`
/// leaves out samples whose place or key is bad, `overwrite` replaces an index, `refresh` indexes again what has changed
/// (of an index that `path` names, or with `output`), and `append` adds files to the index. Of indexes `output` becomes one.
/// `lengths` are then those of the new index; an index that is made again does not keep those it had.
///
/// >>> folder = getfixture("tmp_path")
/// >>> _ = (folder / "pets.jsonl").write_text('{"key": "a", "name": "Mia"}\n{"key": "b", "name": "Rex"}\n')
/// >>> ki.index(folder / "pets.jsonl", output=folder / "pets.inplace.json")["samples"]
/// 2
/// >>> ki.open(folder / "pets.inplace.json")["b"]
/// {'key': 'b', 'name': 'Rex'}
#[pyfunction]
#[pyo3(signature = (path, *, force=false, trust_data=false, lookup=None, checksums=false, lengths=None, progress=None,
    output=None, key=None, key_field=None, from_format=None, texts=None, lists=None, plain_json=false, max_bytes=None,
    skip_bad=false, overwrite=false, refresh=false, append=false))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn index<'py>(
    py: Python<'py>,
    path: &Bound<'py, PyAny>,
    force: bool,
    trust_data: bool,
    lookup: Option<bool>,
    checksums: bool,
    lengths: Option<Vec<String>>,
    progress: Option<Bound<'py, PyAny>>,
    output: Option<PathBuf>,
    key: Option<String>,
    key_field: Option<String>,
    from_format: Option<&str>,
    texts: Option<Vec<String>>,
    lists: Option<Vec<String>>,
    plain_json: bool,
    max_bytes: Option<u64>,
    skip_bad: bool,
    overwrite: bool,
    refresh: bool,
    append: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let paths: Vec<PathBuf> = match path.extract::<PathBuf>() {
        Ok(one) => vec![one],
        Err(_) => path.extract()?,
    };
    let lengths = parse_lengths(lengths.unwrap_or_default())?;
    if output.is_none() && !refresh {
        let path: PathBuf = path.extract()?;
        // Each of many files is checked when it is opened.
        let are_many = !lengths.is_empty() && kiste::dataset::names_shards(&path);
        let options = IndexOptions::default().force(force).trust_data(trust_data);
        let options = options.lookup(lookup).checksums(checksums).lengths(lengths);
        let options = options.known_lengths(LengthOf::measure);
        let indexed = watched(py, progress, move |messenger| {
            if !kiste::storage::is_url(&path) && !are_many {
                kiste::convert::check_is_dataset(&path)?;
            }
            let read = messenger.bytes("indexing");
            options.build_with(path, &|done, of| read.reached(done, of))
        })?;
        dict.set_item("samples", indexed.samples)?;
        dict.set_item("made", indexed.made)?;
        dict.set_item("dropped_lengths", indexed.dropped_lengths)?;
        return Ok(dict);
    }
    if force || trust_data || lookup.is_some() || checksums {
        return Err(invalid(
            "force, trust_data, lookup and checksums are for side files of a dataset, without output",
        ));
    }
    let (output, sources) = match (output, &paths[..]) {
        (Some(output), _) => (output, paths),
        (None, [index]) => (index.clone(), Vec::new()),
        (None, _) => return Err(invalid("refresh takes one index, or output with its name")),
    };
    let index = output.clone();
    let mut making = InPlace::new(sources, output).plain_json(plain_json).skip_bad(skip_bad);
    making = making.overwrite(overwrite).texts(texts.unwrap_or_default());
    making = making.lists(lists.unwrap_or_default());
    if let Some(format) = from_format {
        making = making.from(format.parse().map_err(raise)?);
    }
    making = key.into_iter().fold(making, InPlace::key);
    making = key_field.into_iter().fold(making, InPlace::key_field);
    making = max_bytes.into_iter().fold(making, InPlace::max_bytes);
    if refresh {
        making = making.refresh();
    }
    if append {
        making = making.append();
    }
    let report = watched(py, progress, move |monitor| {
        let report = making.run(monitor)?;
        if !lengths.is_empty() {
            let read = monitor.bytes("measuring");
            let options = IndexOptions::default().lengths(lengths);
            options.build_with(index, &|done, of| read.reached(done, of))?;
        }
        Ok(report)
    })?;
    dict.set_item("samples", report.samples)?;
    dict.set_item("shards", report.shards)?;
    dict.set_item("bytes", report.bytes)?;
    dict.set_item("kept", report.kept)?;
    dict.set_item("bad", report.bad)?;
    dict.set_item("first_bad", report.first)?;
    Ok(dict)
}

/// Finishes an unfinished write, or undoes it with `undo=True`. If the write was cut short, so that samples
/// are missing, a `UserWarning` says so. Where nothing is unfinished, that is a `NotFoundError`.
///
/// >>> import pykiste as ki
/// >>> path = getfixture("tmp_path") / "numbers.msgpack"
/// >>> with ki.Writer(path) as writer:
/// ...     for number in range(10):
/// ...         writer.write({"key": str(number), "label": number})
/// >>> ki.repair(path)
/// Traceback (most recent call last):
/// pykiste.errors.NotFoundError: ...numbers.msgpack: no unfinished write was left here
#[pyfunction]
#[pyo3(signature = (path, *, undo=false))]
pub(crate) fn repair(py: Python<'_>, path: PathBuf, undo: bool) -> PyResult<()> {
    let writer = kiste::Writer::options().known_lengths(LengthOf::measure);
    let repair = Repair::of(path).writer(writer);
    let finish = |repair: &Repair| -> kiste::Result<bool> {
        let left = repair.leftover()?;
        let is_part = matches!(left, Some(Leftover::Samples { complete: false, .. }));
        Ok(repair.finish()?.is_some() && is_part)
    };
    let is_part = pool::run(py, move || match undo {
        true => repair.undo().map(|()| false),
        false => finish(&repair),
    })?
    .map_err(raise)?;
    if is_part {
        let message = c"the write was cut short: what was to follow is missing";
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), message, 1)?;
    }
    Ok(())
}
