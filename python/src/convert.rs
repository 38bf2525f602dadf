//! [`convert`]: conversions with a progress callback that Ctrl-C stops.

use std::path::PathBuf;

use kiste::convert::{Conversion, DatasetInput, Duplicates, Part, Report, Split};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::Value;

use crate::dataset::Dataset;
use crate::errors::{invalid, raise, wrong_type};
use crate::interrupt::watched;

/// Converts files to a dataset, or a dataset to another format, as the command `kiste convert` does.
///
/// `sources` is a path or a list of paths; a dataset that is open; or a table: anything with Arrow's C stream, such as a
/// `pyarrow.Table`, a `polars.DataFrame`, a relation of DuckDB or a `pandas.DataFrame`. Its rows become samples as those
/// of Parquet do: a column `key` has the keys, or the one of `key_field`, or else they are numbers. The options are the command's, with underscores (`kiste convert -h` lists them); the
/// guide (`docs/python.md`) lists the ones with other names. With `part=(i, n)` only the i-th of n parts is made,
/// which `commit` joins. With `{split}` in `output` each split of the sources has an output of its own. `progress`
/// is called with a dict a few times a second; Ctrl-C, or an exception in it, stops the conversion. Returns what
/// was written (`pykiste.reports.Converted`).
///
/// >>> import pykiste as ki
/// >>> folder = getfixture("tmp_path")
/// >>> _ = (folder / "pets.csv").write_text("key,name,age\na,Mia,3\nb,Rex,5\n")
/// >>> report = ki.convert(folder / "pets.csv", folder / "pets.msgpack", key_field="key", guess_types=True)
/// >>> report["outputs"][0]["samples"], ki.open(folder / "pets.msgpack")["b"]
/// (2, {'key': 'b', 'name': 'Rex', 'age': 5})
/// >>> _ = ki.convert(folder / "pets.msgpack", folder / "pets.jsonl")
/// >>> (folder / "pets.jsonl").read_text().splitlines()[0]
/// '{"key":"a","name":"Mia","age":3}'
/// >>> pets = ki.open(folder / "pets.msgpack")
/// >>> _ = ki.convert(pets.where("age > 3"), folder / "old.msgpack")
/// >>> len(ki.open(folder / "old.msgpack"))
/// 1
#[pyfunction]
#[pyo3(signature = (sources, output, *, part=None, progress=None, **options))]
pub(crate) fn convert<'py>(
    py: Python<'py>,
    sources: &Bound<'py, PyAny>,
    output: PathBuf,
    part: Option<(usize, usize)>,
    progress: Option<Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let is_open = sources.hasattr("__arrow_c_stream__")?;
    let names: Vec<PathBuf> = match sources.extract::<PathBuf>() {
        _ if is_open => vec![PathBuf::from("table")],
        Ok(one) => vec![one],
        Err(_) => sources.extract()?,
    };
    let mut conversion = Conversion::new(names, output);
    let salt = options.map(|options| options.get_item("split_salt")).transpose()?.flatten();
    let salt = salt.map_or(Ok(String::new()), |salt| salt.extract::<String>())?;
    for (name, value) in options.into_iter().flat_map(|options| options.iter()) {
        let name: String = name.extract()?;
        if !value.is_none() {
            conversion = with_option(conversion, &name, &value, &salt)?;
        }
    }
    if let (true, Ok(dataset)) = (is_open, sources.cast::<Dataset>()) {
        let input = DatasetInput::of_reader(dataset.get().reader()?).map_err(raise)?;
        conversion = conversion.input(input);
    } else if is_open {
        conversion = with_batches(conversion, sources)?;
    }
    let part = part.map(|(part, of)| format!("{part}/{of}").parse::<Part>()).transpose();
    let part = part.map_err(raise)?;
    let report = watched(py, progress, move |monitor| {
        let each = conversion.each_split()?;
        if part.is_none() && each.len() > 1 {
            // Before any of them is written.
            each.iter().try_for_each(Conversion::check_output)?;
        }
        let mut report = Report::default();
        for one in &each {
            report.add(match part {
                Some(part) => one.run_part(part, monitor)?,
                None => one.run(monitor)?,
            });
        }
        Ok(report)
    })?;
    described(py, &report)
}

/// Joins the parts of a conversion. A part that is missing is an error that names it. Returns what was written
/// (`pykiste.reports.Converted`).
///
/// >>> import pykiste as ki
/// >>> folder = getfixture("tmp_path")
/// >>> _ = (folder / "lines.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(10)))
/// >>> for part in 1, 2:              # each may be another machine
/// ...     _ = ki.convert(folder / "lines.jsonl", folder / "all.msgpack", part=(part, 2))
/// >>> ki.commit(folder / "all.msgpack")["outputs"][0]["samples"], len(ki.open(folder / "all.msgpack"))
/// (10, 10)
#[pyfunction]
#[pyo3(signature = (output, *, progress=None))]
pub(crate) fn commit<'py>(
    py: Python<'py>,
    output: PathBuf,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let report = watched(py, progress, move |monitor| kiste::convert::commit(&output, monitor))?;
    described(py, &report)
}

/// The conversion of the rows of a table.
#[cfg(feature = "arrow")]
fn with_batches(conversion: Conversion, table: &Bound<'_, PyAny>) -> PyResult<Conversion> {
    conversion.batches(crate::table::batches(table)?).map_err(raise)
}

#[cfg(not(feature = "arrow"))]
fn with_batches(_: Conversion, _: &Bound<'_, PyAny>) -> PyResult<Conversion> {
    Err(crate::table::missing())
}

fn with_option(
    conversion: Conversion,
    name: &str,
    value: &Bound<'_, PyAny>,
    salt: &str,
) -> PyResult<Conversion> {
    let yes = || value.extract::<bool>();
    Ok(match name {
        "quotes" => conversion.quotes(yes()?),
        "digests" => conversion.digests(yes()?),
        "resume" => conversion.resume(yes()?),
        "durable" => conversion.durable(yes()?),
        "untrusted" => conversion.memory_map(!yes()?),
        "skip_duplicates" if yes()? => conversion.on_duplicates(Duplicates::Skip),
        "skip_duplicates" => conversion.on_duplicates(Duplicates::Refuse),
        "rename" => {
            let mut names = value.cast::<PyDict>()?.iter();
            names.try_fold(conversion, |conversion, (old, new)| {
                PyResult::Ok(conversion.rename(old.extract::<String>()?, new.extract::<String>()?))
            })?
        }
        "split" => {
            let mut shares = value.call_method0("items")?.try_iter()?;
            let split = Split::new().salt(salt);
            conversion.split(shares.try_fold(split, |split, pair| {
                let (name, share) = pair?.extract::<(String, Bound<'_, PyAny>)>()?;
                // A share, or the file with the keys.
                PyResult::Ok(match share.extract::<PathBuf>() {
                    Ok(keys) => split.list(name, keys),
                    Err(_) => split.ratio(name, share.extract()?),
                })
            })?)
        }
        "split_salt" => conversion,
        other => {
            let planned =
                other.strip_suffix("_format").filter(|name| ["from", "to"].contains(name));
            let set = conversion.set(planned.unwrap_or(other), json(value)?).map_err(raise)?;
            set.ok_or_else(|| {
                wrong_type(format!("convert() got an unexpected keyword argument '{other}'"))
            })?
        }
    })
}

/// A value as a plan has it: a boolean, a number, text or a path, or a list of them.
fn json(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    Ok(if let Ok(yes) = value.extract::<bool>() {
        yes.into()
    } else if let Ok(number) = value.extract::<u64>() {
        number.into()
    } else if let Ok(negative) = value.extract::<i64>() {
        negative.into()
    } else if let Ok(path) = value.extract::<PathBuf>() {
        path.to_str().ok_or_else(|| invalid("expected a name in UTF-8"))?.into()
    } else {
        let items = value.try_iter()?.map(|item| json(&item?));
        Value::Array(items.collect::<PyResult<_>>()?)
    })
}

fn described<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let outputs = PyList::empty(py);
    for made in &report.outputs {
        let one = PyDict::new(py);
        one.set_item("path", &made.path)?;
        one.set_item("files", &made.files)?;
        one.set_item("samples", made.samples)?;
        one.set_item("bytes", made.bytes)?;
        one.set_item("added", made.added)?;
        one.set_item("labels", made.labels.as_ref())?;
        outputs.append(one)?;
    }
    let bad = PyDict::new(py);
    bad.set_item("count", report.bad.count)?;
    bad.set_item("first", &report.bad.first)?;
    let dict = PyDict::new(py);
    dict.set_item("outputs", outputs)?;
    dict.set_item("bad", bad)?;
    let changes: Vec<String> = report.changes.iter().map(ToString::to_string).collect();
    dict.set_item("changes", changes)?;
    let remarks: Vec<String> = report.remarks.iter().map(ToString::to_string).collect();
    dict.set_item("remarks", remarks)?;
    dict.set_item("quarantine", report.quarantine.as_ref())?;
    dict.set_item("skipped_duplicates", report.skipped_duplicates)?;
    dict.set_item("different_duplicates", report.different_duplicates)?;
    dict.set_item("skipped_files", report.skipped_files)?;
    dict.set_item("seconds", report.duration.as_secs_f64())?;
    Ok(dict)
}
