//! [`merge`]: several datasets as one.

use kiste::storage::Shown;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiste::dataset::labels_path;
use kiste::reader::Reader;
use kiste::rearrange::{Merge, MergeLabels, MergeOrder};
use kiste::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::errors::{invalid, wrong_type};
use crate::interrupt::watched;
use crate::new_dataset::{Making, Source};

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
        "same" => MergeLabels::Same,
        "renumber" => MergeLabels::Remap,
        "drop" => MergeLabels::Drop,
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
        let paths: Vec<&Path> = sources.iter().flat_map(Source::inputs).collect();
        making.check(&paths, &output)?;
        let order = match (interleave, weights) {
            (_, Some(weights)) => MergeOrder::Weighted { weights, seed },
            (true, None) => MergeOrder::Random { seed },
            (false, None) => MergeOrder::Concat,
        };
        if wanted == MergeLabels::Same {
            expect_same_labels(&sources)?;
        }
        let readers: Vec<Arc<dyn Reader>> =
            sources.iter().map(|source| source.reader.clone()).collect();
        let merge = Merge::default().order(order).labels(wanted).skip_duplicates(skip_duplicates);
        let plan = merge.plan(&readers)?;
        let names = plan.labels().map(<[String]>::to_vec);
        let mut skipped = 0;
        let made = making.make(&output, names.as_deref(), |writer| {
            messenger.begin_samples("merging", sources.iter().map(Source::samples).sum());
            skipped = plan.write(writer, |seen| messenger.reached(seen))?;
            messenger.begin_samples("finishing", 0);
            Ok(())
        })?;
        Ok((made, skipped))
    })?;
    let dict = made.to_dict(py)?;
    dict.set_item("skipped_duplicates", skipped)?;
    Ok(dict)
}

/// Fails where the names of the labels differ, with the words of Python.
fn expect_same_labels(sources: &[Source]) -> kiste::Result<()> {
    let Some((first, others)) = sources.split_first() else { return Ok(()) };
    let labels = first.reader.labels()?;
    for source in others {
        if source.reader.labels()? != labels {
            let message = format!(
                "expected the labels of {}, found others, so a number does not mean the same",
                Shown::of(&first.path)
            );
            return Err(Error::new(ErrorKind::Invalid, message).at(labels_path(&source.path)));
        }
    }
    Ok(())
}
