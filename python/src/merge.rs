//! [`merge`]: several datasets as one.

use kiste::storage::Shown;
use std::path::{Path, PathBuf};

use kiste::dataset::{labels_path, read_labels};
use kiste::rearrange::{self, MergedLabels};
use kiste::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::errors::{invalid, wrong_type};
use crate::interrupt::watched;
use crate::new_dataset::{Making, Source};

/// How the labels of merged datasets are combined.
#[derive(Clone, Copy, PartialEq)]
enum Labels {
    Same,
    Renumber,
    Drop,
}

/// Writes the samples of several datasets to one: one after the other, or interleaved at random with
/// `interleave=True`, or drawn by `weights`.
///
/// Of samples with one key, `skip_duplicates` takes the first; otherwise they are an error. All sources
/// must have the same `.labels`; `labels="renumber"` numbers them by their names, `labels="drop"` leaves
/// the numbers as they are, without names.
///
/// `Writer` explains the options of the output; `progress` is called with a dict about four times a second. An output that is
/// there is an `AlreadyExistsError`, damage in the source a `DamagedError`; nothing is written then.
///
/// >>> import pykiste as ki
/// >>> folder = getfixture("tmp_path")
/// >>> for name in "ab":
/// ...     with ki.Writer(folder / f"{name}.msgpack") as writer:
/// ...         writer.write({"key": name})
/// >>> made = ki.merge([folder / "a.msgpack", folder / "b.msgpack"], folder / "both.msgpack")
/// >>> list(ki.open(made["path"]).keys())
/// ['a', 'b']
#[pyfunction]
#[pyo3(signature = (sources, output, *, interleave=false, weights=None, seed=0, skip_duplicates=false,
    labels="same", progress=None, **options))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn merge<'py>(
    py: Python<'py>,
    sources: &Bound<'py, PyAny>,
    output: PathBuf,
    interleave: bool,
    weights: Option<Vec<f64>>,
    seed: u64,
    skip_duplicates: bool,
    labels: &str,
    progress: Option<Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let making = Making::parse("merge", options)?;
    let wanted = match labels {
        "same" => Labels::Same,
        "renumber" => Labels::Renumber,
        "drop" => Labels::Drop,
        other => {
            let message = format!("labels: expected 'same', 'renumber' or 'drop', found {other:?}");
            return Err(invalid(message));
        }
    };
    if sources.is_instance_of::<PyString>() {
        return Err(wrong_type("expected a list of datasets, found str"));
    }
    let sources: Vec<Source> =
        sources.try_iter()?.map(|one| Source::parse(&one?)).collect::<PyResult<_>>()?;
    let (made, skipped) = watched(py, progress, move |messenger| {
        let paths: Vec<&Path> = sources.iter().map(|source| source.path.as_path()).collect();
        making.check(&paths, &output)?;
        let lens: Vec<usize> = sources.iter().map(Source::samples).collect();
        let order: Box<dyn Iterator<Item = usize>> = match (interleave, &weights) {
            (_, Some(weights)) => Box::new(rearrange::interleave(&lens, Some(weights), seed)?),
            (true, None) => Box::new(rearrange::interleave(&lens, None, seed)?),
            (false, None) => {
                let inputs = lens.iter().copied().enumerate().collect::<Vec<_>>().into_iter();
                Box::new(inputs.flat_map(|(input, len)| std::iter::repeat_n(input, len)))
            }
        };
        let (names, renumbered) = merged_labels(&sources, wanted)?;
        let mut skipped = 0u64;
        let made = making.make(&output, names.as_deref(), |writer| {
            messenger.begin_samples("merging", lens.iter().sum());
            let mut next = vec![0; sources.len()];
            for (seen, input) in order.enumerate() {
                let (index, reader) = (next[input], &sources[input].reader);
                next[input] += 1;
                let copied = match &renumbered {
                    Some(labels) => labels.copy_one(input, reader, index, writer),
                    None => rearrange::copy_one(reader, index, writer),
                };
                match copied {
                    Err(error) if error.kind() == ErrorKind::DuplicateKey => {
                        if !skip_duplicates {
                            return Err(twice(&sources, input, index, &next)?);
                        }
                        skipped += 1;
                    }
                    copied => copied?,
                }
                if seen % 64 == 0 {
                    messenger.reached(seen as u64)?;
                }
            }
            messenger.begin_samples("finishing", 0);
            Ok(())
        })?;
        Ok((made, skipped))
    })?;
    let dict = made.to_dict(py)?;
    dict.set_item("skipped_duplicates", skipped)?;
    Ok(dict)
}

/// The names of the labels of all sources together, and their new numbers.
fn merged_labels(
    sources: &[Source],
    wanted: Labels,
) -> kiste::Result<(Option<Vec<String>>, Option<MergedLabels>)> {
    if wanted == Labels::Drop {
        return Ok((None, None));
    }
    let mut merged = MergedLabels::new();
    let mut first: Option<Option<Vec<String>>> = None;
    for source in sources {
        let names = read_labels(&source.path)?;
        if wanted == Labels::Renumber {
            let path = labels_path(&source.path);
            let added = merged.add(names.as_deref().unwrap_or_default());
            added.map_err(|error| error.at(path))?;
        } else if *first.get_or_insert_with(|| names.clone()) != names {
            let message = format!(
                "expected the labels of {}, found others, so a number does not mean the same",
                Shown::of(&sources[0].path)
            );
            return Err(Error::new(ErrorKind::Invalid, message).at(labels_path(&source.path)));
        }
    }
    match wanted {
        Labels::Renumber => Ok((Some(merged.names().to_vec()), Some(merged))),
        _ => Ok((first.flatten(), None)),
    }
}

/// A sample whose key was written before.
fn twice(sources: &[Source], input: usize, index: usize, next: &[usize]) -> kiste::Result<Error> {
    let key = sources[input].reader.key(index)?.into_owned();
    let place =
        |source: &Source, index: usize| format!("{}: sample {index}", Shown::of(&source.path));
    // Where it was written from: another source, or the same one under another name.
    let mut others = sources.iter().enumerate().filter(|(other, _)| *other != input);
    let first = others.find_map(|(other, source)| {
        let index = source.reader.find(&key).ok().flatten()?;
        (index < next[other]).then(|| place(source, index))
    });
    let this = place(&sources[input], index);
    let first = first.unwrap_or_else(|| this.clone());
    let message = format!("expected each key once, found {key:?} twice: {first} and {this}");
    Ok(Error::new(ErrorKind::DuplicateKey, message).with_key(key))
}
