//! [`convert`]: conversions with a progress callback that Ctrl-C stops.

use std::path::PathBuf;

use kiste::convert::{BadInput, Conversion, Duplicates, Format, Part, Report};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::errors::{invalid, raise, wrong_type};
use crate::watch::watched;

/// Converts files to a dataset, or a dataset to another format, as the command `kiste convert` does.
///
/// `sources` is a path or a list of paths. All options are those of the command, with underscores. With
/// `part=(i, n)` only the i-th of n parts is made, which `commit` joins. `progress` is called with a dict
/// a few times a second; Ctrl-C, or an exception in it, stops the conversion. Returns what was written.
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
    let sources: Vec<PathBuf> = match sources.extract::<PathBuf>() {
        Ok(one) => vec![one],
        Err(_) => sources.extract()?,
    };
    let mut conversion = Conversion::new(sources, output);
    for (name, value) in options.into_iter().flat_map(|options| options.iter()) {
        let name: String = name.extract()?;
        if !value.is_none() {
            conversion = with_option(conversion, &name, &value)?;
        }
    }
    let part = part.map(|(part, of)| format!("{part}/{of}").parse::<Part>()).transpose();
    let part = part.map_err(raise)?;
    let report = watched(py, progress, move |monitor| match part {
        Some(part) => conversion.run_part(part, monitor),
        None => conversion.run(monitor),
    })?;
    described(py, &report)
}

/// Joins the parts of a conversion.
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

fn with_option(
    conversion: Conversion,
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<Conversion> {
    let parsed = |error: kiste::Error| raise(error);
    let text = || value.extract::<String>();
    let yes = || value.extract::<bool>();
    let several = || match value.cast::<PyString>() {
        Ok(one) => Ok(vec![one.to_string()]),
        Err(_) => value.extract::<Vec<String>>(),
    };
    Ok(match name {
        "from_format" => conversion.from(text()?.parse::<Format>().map_err(parsed)?),
        "to_format" => conversion.to(text()?.parse::<Format>().map_err(parsed)?),
        "texts" => conversion.texts(several()?),
        "guess_types" => conversion.guess_types(yes()?),
        "quotes" => conversion.quotes(yes()?),
        "plain_json" => conversion.plain_json(yes()?),
        "max_bytes" => conversion.max_bytes(value.extract()?),
        "pattern" => conversion.pattern(several()?),
        "include" => conversion.include(several()?),
        "exclude" => conversion.exclude(several()?),
        "root" => conversion.root(value.extract::<PathBuf>()?),
        "allow_outside" => conversion.allow_outside(yes()?),
        "delimiter" => match text()?.as_bytes() {
            [one] => conversion.delimiter(*one),
            other => {
                let message =
                    format!("expected one character of ASCII, found {} bytes", other.len());
                return Err(invalid(message));
            }
        },
        "header" => conversion.header(yes()?),
        "labels" => conversion.labels(value.extract::<PathBuf>()?),
        "text_labels" => conversion.text_labels(yes()?),
        "fields" => conversion.fields(several()?),
        "drop" => conversion.drop_fields(several()?),
        "rename" => {
            let mut names = value.cast::<PyDict>()?.iter();
            names.try_fold(conversion, |conversion, (old, new)| {
                PyResult::Ok(conversion.rename(old.extract::<String>()?, new.extract::<String>()?))
            })?
        }
        "key_field" => conversion.key_field(text()?),
        "key" => conversion.key(text()?),
        "limit" => conversion.limit(value.extract()?),
        "arrays" => conversion.arrays(text()?),
        "arrays_min" => conversion.arrays_min(value.extract()?),
        "arrays_fields" => conversion.arrays_fields(several()?),
        "bad" => conversion.on_bad_input(match &text()?[..] {
            "stop" => BadInput::Stop,
            "skip" => BadInput::Skip,
            "quarantine" => BadInput::Quarantine,
            other => {
                let message = format!("expected 'stop', 'skip' or 'quarantine', found {other:?}");
                return Err(invalid(message));
            }
        }),
        "skip_duplicates" => conversion.on_duplicates(match yes()? {
            true => Duplicates::Skip,
            false => Duplicates::Refuse,
        }),
        "append" => conversion.append(yes()?),
        "overwrite" => conversion.overwrite(yes()?),
        "digests" => conversion.digests(yes()?),
        "lookup" => conversion.lookup(value.extract::<Option<bool>>()?),
        "checksums" => conversion.checksums(yes()?),
        "resume" => conversion.resume(yes()?),
        "durable" => conversion.durable(yes()?),
        "untrusted" => conversion.memory_map(!yes()?),
        other => {
            let message = format!("convert() got an unexpected keyword argument '{other}'");
            return Err(wrong_type(message));
        }
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
