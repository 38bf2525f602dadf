//! Datasets of one dataset: shuffled, split, sorted, selected, filtered.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use kiste::convert::is_same;
use kiste::rearrange::{self, Expression, ExpressionError, Mismatch, Scalar, part_path};
use kiste::sampler::{Order, Shuffle};
use kiste::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySlice, PyString};

use crate::dataset::{raw, waiting};
use crate::decode::Decoder;
use crate::errors::{invalid, raise, wrong_type};
use crate::indices::{Chosen, is_absent, positions, resolve};
use crate::interrupt::{Messenger, Told, watched};
use crate::new_dataset::{Made, Making, Source, scalars};
use crate::pool;
use crate::sampler::Sampler;

/// Writes the samples of a dataset in another order: an epoch of `sampler`, or else of
/// `Sampler.shuffle` with this seed. For a dataset that is larger than memory, `memory` is how many bytes
/// of samples to hold: it is then shuffled in two sequential passes.
///
/// `Writer` explains the options of the output; `progress` is called with a dict about four times a second. An output that is
/// there is an `AlreadyExistsError`, damage in the source a `DamagedError`; nothing is written then.
///
/// >>> import pykiste as ki
/// >>> folder = getfixture("tmp_path")
/// >>> with ki.Writer(folder / "letters.msgpack") as writer:
/// ...     for letter in "abcdef":
/// ...         writer.write({"key": letter})
/// >>> made = ki.shuffle(folder / "letters.msgpack", folder / "shuffled.msgpack", seed=1)
/// >>> made["samples"], sorted(ki.open(made["path"]).keys())
/// (6, ['a', 'b', 'c', 'd', 'e', 'f'])
#[pyfunction]
#[pyo3(signature = (source, output, *, seed=None, sampler=None, epoch=0, memory=None, progress=None, **options))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn shuffle<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    output: PathBuf,
    seed: Option<u64>,
    sampler: Option<PyRef<'py, Sampler>>,
    epoch: u64,
    memory: Option<u64>,
    progress: Option<Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let making = Making::parse("shuffle", options)?;
    let source = Source::parse(source)?;
    let samples = source.samples() as u64;
    let sampler: Arc<dyn kiste::sampler::Sampler> = match (sampler, seed) {
        (Some(_), Some(_)) => {
            let message = "expected a seed or a sampler, which has one of its own, found both";
            return Err(invalid(message));
        }
        (Some(sampler), None) => sampler.shared(),
        (None, seed) => Arc::new(Shuffle::new(samples, seed.unwrap_or(0))),
    };
    if sampler.bound() > samples || sampler.len() > samples {
        let (orders, has) = (sampler.len().max(sampler.bound()), samples);
        let message = format!("expected a sampler of {has} samples, found one of {orders}");
        return Err(invalid(message));
    }
    let made = watched(py, progress, move |messenger| {
        making.check(&source.inputs(), &output)?;
        let order = sampler.order(epoch)?;
        let order: &dyn Order = &*order;
        let labels = source.reader.labels()?;
        making.make(&output, labels.as_deref(), |writer| {
            messenger.begin_samples("shuffling", source.samples());
            match memory {
                Some(memory) => {
                    // Each sample is moved twice.
                    let reached = |n| messenger.reached(n / 2);
                    rearrange::external_shuffle(&source.reader, order, memory, writer, reached)?;
                }
                None => {
                    let indices = order.iter().map(|index| index as usize);
                    rearrange::copy(&source.reader, indices, writer, |n| messenger.reached(n))?;
                }
            }
            messenger.begin_samples("finishing", 0);
            Ok(())
        })
    })?;
    made.to_dict(py)
}

/// Which samples each part of a split has, and what its name ends in.
type Parts = Vec<(String, Vec<usize>)>;

/// How a dataset is split.
enum How {
    At(Vec<usize>),
    Ratios { ratios: Vec<f64>, groups: Option<String>, stratify: Option<String>, seed: u64 },
    By(String),
}

impl How {
    fn parts(&self, source: &Source, messenger: &mut Messenger) -> kiste::Result<Parts> {
        let samples = source.samples();
        match self {
            How::At(positions) => {
                let ascend = positions.windows(2).all(|pair| pair[0] < pair[1]);
                let inside = positions.iter().all(|&position| 0 < position && position < samples);
                if !ascend || !inside {
                    let last = samples.saturating_sub(1);
                    let message = format!(
                        "expected ascending positions from 1 to {last}, found {positions:?}"
                    );
                    return Err(Error::new(ErrorKind::Invalid, message).at(&source.path));
                }
                let starts = std::iter::once(0).chain(positions.iter().copied());
                let ends = positions.iter().copied().chain([samples]);
                let parts = starts.zip(ends).enumerate();
                Ok(parts.map(|(nth, (a, b))| (nth.to_string(), (a..b).collect())).collect())
            }
            How::Ratios { ratios, groups, stratify, seed } => {
                let part_of = match groups {
                    Some(field) => {
                        let groups = scalars(source, field, messenger)?;
                        rearrange::whole_groups(&groups, ratios, *seed)?
                    }
                    None => {
                        let classes = stratify.as_deref();
                        let classes = classes.map(|field| scalars(source, field, messenger));
                        let classes = classes.transpose()?;
                        rearrange::parts(samples, ratios, classes.as_deref(), *seed)?
                    }
                };
                let mut parts: Parts =
                    (0..ratios.len()).map(|nth| (nth.to_string(), Vec::new())).collect();
                for (index, part) in part_of.into_iter().enumerate() {
                    parts[part].1.push(index);
                }
                Ok(parts)
            }
            How::By(field) => {
                let mut members: BTreeMap<Scalar, Vec<usize>> = BTreeMap::new();
                for (index, class) in scalars(source, field, messenger)?.into_iter().enumerate() {
                    members.entry(class).or_default().push(index);
                }
                let members = members.into_iter();
                Ok(members.map(|(class, indices)| (class.to_string(), indices)).collect())
            }
        }
    }
}

/// Cuts a dataset into several: at positions, by ratios, or by the values of a field.
///
/// `split(train, at=[100])` makes a part of the first 100 samples and one of the rest. With `ratios`,
/// samples are dealt out at random by the seed, and stay in their order in each part; all samples with
/// the same value in the field `groups` go to one part, or the samples with each value of the field
/// `stratify` are dealt out in the same ratios. `by` makes a part for each value of a field.
///
/// Parts are named `ROOT-0.EXT`, `ROOT-1.EXT`, … or `ROOT-VALUE.EXT`, unless `outputs` has a path for
/// each. Returns what was written, part by part.
///
/// `Writer` explains the options of the output; `progress` is called with a dict about four times a second. An output that is
/// there is an `AlreadyExistsError`, damage in the source a `DamagedError`; nothing is written then.
///
/// >>> import pykiste as ki
/// >>> folder = getfixture("tmp_path")
/// >>> with ki.Writer(folder / "all.msgpack") as writer:
/// ...     for number in range(10):
/// ...         writer.write({"key": str(number), "label": number % 2})
/// >>> outputs = [folder / "train.msgpack", folder / "test.msgpack"]
/// >>> parts = ki.split(folder / "all.msgpack", ratios=[0.8, 0.2], stratify="label", outputs=outputs)
/// >>> [part["samples"] for part in parts]
/// [8, 2]
#[pyfunction]
#[pyo3(signature = (source, *, at=None, ratios=None, by=None, groups=None, stratify=None, seed=0,
    outputs=None, progress=None, **options))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn split<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    at: Option<&Bound<'py, PyAny>>,
    ratios: Option<Vec<f64>>,
    by: Option<String>,
    groups: Option<String>,
    stratify: Option<String>,
    seed: u64,
    outputs: Option<Vec<PathBuf>>,
    progress: Option<Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyList>> {
    let making = Making::parse("split", options)?;
    if ratios.is_none() && (groups.is_some() || stratify.is_some()) {
        return Err(invalid("groups and stratify: expected ratios too, found none"));
    }
    if groups.is_some() && stratify.is_some() {
        return Err(invalid("expected groups or stratify, found both"));
    }
    let at = at.map(positions).transpose()?;
    let how = match (at, ratios, by) {
        (Some(at), None, None) => How::At(at),
        (None, Some(ratios), None) => How::Ratios { ratios, groups, stratify, seed },
        (None, None, Some(field)) => How::By(field),
        _ => return Err(invalid("expected one of at, ratios and by")),
    };
    let source = Source::parse(source)?;
    let made = watched(py, progress, move |messenger| {
        let parts = how.parts(&source, messenger)?;
        let names = match outputs {
            None => parts.iter().map(|(part, _)| part_path(&source.path, part)).collect(),
            Some(names) if names.len() == parts.len() => names,
            Some(names) => {
                let message = format!("expected {} outputs, found {}", parts.len(), names.len());
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        };
        for (nth, name) in names.iter().enumerate() {
            if names[..nth].iter().any(|other| is_same(other, name)) {
                let message = "expected a name for each part, found one for two parts";
                return Err(Error::new(ErrorKind::Invalid, message).at(name));
            }
            making.check(&source.inputs(), name)?;
        }
        let parts = parts.into_iter().zip(&names);
        parts
            .map(|((_, indices), name)| making.make_of(&source, indices, name, messenger))
            .collect::<kiste::Result<Vec<Made>>>()
    })?;
    let list = PyList::empty(py);
    for made in made {
        list.append(made.to_dict(py)?)?;
    }
    Ok(list)
}

/// Writes the samples of a dataset sorted by key or by another field: numbers by value, before text,
/// which comes by code points, or with `natural=True` as people sort it. Samples that are equal stay in
/// their order.
///
/// `Writer` explains the options of the output; `progress` is called with a dict about four times a second. An output that is
/// there is an `AlreadyExistsError`, damage in the source a `DamagedError`; nothing is written then.
///
/// >>> import pykiste as ki
/// >>> folder = getfixture("tmp_path")
/// >>> with ki.Writer(folder / "ab.msgpack") as writer:
/// ...     for key in ["a10", "b", "a9"]:
/// ...         writer.write({"key": key})
/// >>> made = ki.sort(folder / "ab.msgpack", folder / "sorted.msgpack", natural=True)
/// >>> list(ki.open(made["path"]).keys())
/// ['a9', 'a10', 'b']
#[pyfunction]
#[pyo3(signature = (source, output, *, by="key", natural=false, reverse=false, progress=None, **options))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn sort<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    output: PathBuf,
    by: &str,
    natural: bool,
    reverse: bool,
    progress: Option<Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let making = Making::parse("sort", options)?;
    let source = Source::parse(source)?;
    let by = by.to_owned();
    let made = watched(py, progress, move |messenger| {
        making.check(&source.inputs(), &output)?;
        let fields = scalars(&source, &by, messenger)?;
        let mut indices: Vec<usize> = (0..source.samples()).collect();
        indices.sort_by(|&a, &b| {
            let (a, b) = (&fields[a], &fields[b]);
            let order = if natural { a.natural_cmp(b) } else { a.cmp(b) };
            if reverse { order.reverse() } else { order }
        });
        making.make_of(&source, indices, &output, messenger)
    })?;
    made.to_dict(py)
}

/// Writes chosen samples, in the order of `items`: indices and keys, a slice, or a mask. A sample cannot be
/// chosen twice. With `skip_missing`, keys that are not there are passed over and counted.
///
/// `Writer` explains the options of the output; `progress` is called with a dict about four times a second. An output that is
/// there is an `AlreadyExistsError`, damage in the source a `DamagedError`; nothing is written then.
///
/// >>> import pykiste as ki
/// >>> folder = getfixture("tmp_path")
/// >>> with ki.Writer(folder / "letters.msgpack") as writer:
/// ...     for letter in "abcdef":
/// ...         writer.write({"key": letter})
/// >>> made = ki.select(folder / "letters.msgpack", folder / "some.msgpack", ["e", 0, -3])
/// >>> list(ki.open(made["path"]).keys())
/// ['e', 'a', 'd']
#[pyfunction]
#[pyo3(signature = (source, output, items, *, skip_missing=false, progress=None, **options))]
pub(crate) fn select<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    output: PathBuf,
    items: &Bound<'py, PyAny>,
    skip_missing: bool,
    progress: Option<Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let making = Making::parse("select", options)?;
    let source = Source::parse(source)?;
    let (indices, skipped) = chosen(&source, items, skip_missing)?;
    refuse_twice(py, &source, &indices)?;
    let made = watched(py, progress, move |messenger| {
        making.check(&source.inputs(), &output)?;
        making.make_of(&source, indices, &output, messenger)
    })?;
    let dict = made.to_dict(py)?;
    dict.set_item("skipped", skipped)?;
    Ok(dict)
}

/// The indices of these samples, and how many keys were passed over.
fn chosen(
    source: &Source,
    items: &Bound<'_, PyAny>,
    skip_missing: bool,
) -> PyResult<(Vec<usize>, u64)> {
    let py = items.py();
    if let Ok(slice) = items.cast::<PySlice>() {
        let range = slice.indices(source.samples() as isize)?;
        let at = |nth: usize| (range.start + nth as isize * range.step) as usize;
        return Ok(((0..range.slicelength).map(at).collect(), 0));
    }
    let items = match Chosen::parse(items, source.samples())? {
        Chosen::Items(items) if skip_missing => items,
        all => return Ok((all.resolve(py, &source.reader)?, 0)),
    };
    let (mut indices, mut skipped) = (Vec::new(), 0);
    for item in &items {
        py.check_signals()?;
        match resolve(&source.reader, item) {
            Ok(index) => indices.push(index),
            Err(error) if item.is_instance_of::<PyString>() && is_absent(py, &error) => {
                skipped += 1
            }
            Err(error) => return Err(error),
        }
    }
    Ok((indices, skipped))
}

fn refuse_twice(py: Python<'_>, source: &Source, indices: &[usize]) -> PyResult<()> {
    let mut sorted = indices.to_vec();
    sorted.sort_unstable();
    let pair = sorted.windows(2).find(|pair| pair[0] == pair[1]);
    let Some(twice) = pair.map(|pair| pair[0]) else { return Ok(()) };
    let key = waiting(py, &source.reader, move |reader| Ok(reader.key(twice)?.into_owned()))?;
    let error = Error::new(ErrorKind::Invalid, "expected each sample once, found one twice");
    Err(raise(source.reader.locate(twice).describe(error.with_key(key))))
}

/// Writes the samples for which a condition is true: an expression, as `kiste filter` takes it, or a
/// function that gets each sample as a dict. An expression is faster, as it decodes only the fields that
/// it names: `"label in (cat, dog) and len(caption) > 9 and meta.taken >= 2024-05-01"`. `mismatches` says where
/// it compared values of different kinds.
///
/// `Writer` explains the options of the output; `progress` is called with a dict about four times a second. An output that is
/// there is an `AlreadyExistsError`, damage in the source a `DamagedError`; nothing is written then.
///
/// >>> import pykiste as ki
/// >>> folder = getfixture("tmp_path")
/// >>> with ki.Writer(folder / "all.msgpack") as writer:
/// ...     for number in range(10):
/// ...         writer.write({"key": str(number), "label": number % 5})
/// >>> made = ki.filter(folder / "all.msgpack", folder / "3.msgpack", lambda sample: sample["label"] == 3)
/// >>> list(ki.open(made["path"]).keys())
/// ['3', '8']
/// >>> made = ki.filter(folder / "all.msgpack", folder / "4.msgpack", "label >= 3 and not key ~ '3*'")
/// >>> list(ki.open(made["path"]).keys())
/// ['4', '8', '9']
#[pyfunction]
#[pyo3(signature = (source, output, condition, *, progress=None, **options))]
pub(crate) fn filter<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    output: PathBuf,
    condition: &Bound<'py, PyAny>,
    progress: Option<Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let making = Arc::new(Making::parse("filter", options)?);
    let expression = match condition.cast::<PyString>() {
        Ok(text) => Some(Expression::parse(text.to_str()?).map_err(wrong_condition)?),
        Err(_) if condition.is_callable() => None,
        Err(_) => {
            let found = condition.get_type().name()?;
            let message =
                format!("expected an expression or a function of a sample, found {found}");
            return Err(wrong_type(message));
        }
    };
    let source = Source::parse(source)?;
    let samples = source.samples();
    let labels = {
        let (making, source, output) = (making.clone(), source.clone(), output.clone());
        pool::apart(py, move || {
            making.check(&source.inputs(), &output)?;
            source.reader.labels()
        })?
    };
    let expression = match (expression, labels.map_err(raise)?) {
        (Some(expression), Some(names)) => {
            Some(expression.with_labels(&names).map_err(wrong_condition)?)
        }
        (expression, _) => expression,
    };
    let chosen = match &expression {
        Some(_) => Vec::new(),
        None => those_of(&source, condition, progress.clone())?,
    };
    let (made, mismatches) = watched(py, progress, move |messenger| {
        let Some(expression) = &expression else {
            return Ok((making.make_of(&source, chosen, &output, messenger)?, Vec::new()));
        };
        messenger.begin_samples("filtering", source.samples());
        let chosen = expression.choose(&source.reader, |n| messenger.reached(n))?;
        let told = |mismatch: &Mismatch| {
            let Mismatch { field, found, expected, samples, first, .. } = mismatch;
            format!(
                "field {field:?} is {found} in {samples} samples, such as {first}, not {expected}"
            )
        };
        let mismatches = chosen.mismatches.iter().map(told).collect();
        Ok((making.make_of(&source, chosen.indices, &output, messenger)?, mismatches))
    })?;
    let dict = made.to_dict(py)?;
    dict.set_item("of", samples)?;
    dict.set_item("mismatches", mismatches)?;
    Ok(dict)
}

fn wrong_condition(error: ExpressionError) -> PyErr {
    invalid(format!("condition: {error}"))
}

/// The samples for which a function is true.
fn those_of<'py>(
    source: &Source,
    condition: &Bound<'py, PyAny>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Vec<usize>> {
    let py = condition.py();
    let mut told = Told::samples(progress, "filtering", source.samples());
    let mut decoder = Decoder::new();
    let mut indices = Vec::new();
    for index in 0..source.samples() {
        // A function that is not written in Python does not look for Ctrl-C.
        py.check_signals()?;
        let raw = raw(py, &source.reader, index)?;
        let sample = decoder.sample(py, &raw, None);
        let sample = sample
            .map_err(|flaw| flaw.raise(py, |error| source.reader.locate(index).describe(error)))?;
        if condition.call1((sample,))?.is_truthy()? {
            indices.push(index);
        }
        told.reached(py, index + 1)?;
    }
    Ok(indices)
}
