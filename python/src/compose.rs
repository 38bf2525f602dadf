//! Datasets made of others without a copy: what their methods have in common, [`concat`] and [`Mixture`].
#![expect(non_snake_case, reason = "to Python `Mixture` is what makes a dataset, as a class does")]

use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;

use kiste::compose::{Description, Exhausted, MixtureOptions, View};
use kiste::format::msgpack;
use kiste::reader::{FieldNames, Join, Reader, Shared};
use kiste::{ErrorKind, Value};
use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PyString, PyTuple};

use crate::dataset::Dataset;
use crate::encode;
use crate::errors::{invalid, raise, raise_as, wrong_type};
use crate::indices::{Chosen, Position, check_mask, resolve};
use crate::opening::Opening;
use crate::pool;

/// A dataset that others are made of.
pub(crate) struct Part {
    pub(crate) view: View,
    pub(crate) options: Opening,
    pub(crate) is_direct: bool,
    copy: bool,
}

impl Part {
    /// An open dataset, or one to open by its name.
    pub(crate) fn parse(given: &Bound<'_, PyAny>, options: Opening) -> PyResult<Part> {
        Part::parse_told(given, options, None)
    }

    fn parse_told(
        given: &Bound<'_, PyAny>,
        options: Opening,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Part> {
        if let Ok(dataset) = given.cast::<Dataset>() {
            let dataset = dataset.get();
            return Ok(Part {
                view: dataset.view()?,
                options: dataset.options(),
                is_direct: dataset.is_direct()?,
                copy: dataset.copies(),
            });
        }
        let path: PathBuf = given.extract()?;
        let view = options.open(given.py(), &path, progress)?;
        warn_of_walks(given.py(), &view)?;
        Ok(Part { view, options, is_direct: !options.verify, copy: true })
    }
}

/// Opens a name, or several one after the other.
pub(crate) fn open(
    given: &Bound<'_, PyAny>,
    copy: bool,
    options: Opening,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Dataset> {
    let py = given.py();
    if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
        let parts = given.try_iter()?;
        let parts = parts.map(|one| Part::parse_told(&one?, options, progress.clone()));
        return concatenated(py, parts.collect::<PyResult<_>>()?, Some(copy));
    }
    let path: PathBuf = given.extract()?;
    let view = options.open(py, &path, progress)?;
    warn_of_walks(py, &view)?;
    Dataset::of(py, view, copy, options, options.verify)
}

/// Warns of datasets all of whose data was read to open them.
fn warn_of_walks(py: Python<'_>, view: &View) -> PyResult<()> {
    for dataset in view.datasets().iter().filter(|dataset| dataset.is_walked()) {
        let path = kiste::storage::shown(dataset.path());
        let message = format!(
            "{}.offsets not found, so all of the data was read to open it: pykiste.index makes it",
            path.display()
        );
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &CString::new(message)?, 1)?;
    }
    Ok(())
}

/// Datasets one after the other, as one, without a copy. They are datasets or names of some; `pykiste.open` takes a list of
/// them too.
///
/// A key that comes more than once stands for the first sample that has it: see `Dataset.duplicates` and `Dataset.dedupe`.
/// Where labels have other names, they are numbered by their names.
///
/// >>> import pykiste as ki
/// >>> folder = getfixture("tmp_path")
/// >>> for name in "ab":
/// ...     with ki.Writer(folder / f"{name}.msgpack") as writer:
/// ...         writer.write({"key": name})
/// >>> both = ki.concat([ki.open(folder / "b.msgpack"), folder / "a.msgpack"])
/// >>> len(both), list(both.keys()), both.find("a")
/// (2, ['b', 'a'], 1)
#[pyfunction]
pub(crate) fn concat(datasets: &Bound<'_, PyAny>) -> PyResult<Dataset> {
    if datasets.is_instance_of::<PyString>() || datasets.is_instance_of::<Dataset>() {
        let found = datasets.get_type().name()?;
        return Err(wrong_type(format!("expected a list of datasets, found {found}")));
    }
    let parts = datasets.try_iter()?.map(|one| Part::parse(&one?, Opening::default()));
    concatenated(datasets.py(), parts.collect::<PyResult<_>>()?, None)
}

fn concatenated(py: Python<'_>, parts: Vec<Part>, copy: Option<bool>) -> PyResult<Dataset> {
    if parts.is_empty() {
        return Err(invalid("expected at least one dataset, found none"));
    }
    let views: Vec<View> = parts.iter().map(|part| part.view.clone()).collect();
    // It looks for labels.
    let view = pool::apart(py, move || View::concat(views))?.map_err(raise)?;
    dataset_of(py, view, &parts, copy)
}

fn dataset_of(py: Python<'_>, view: View, parts: &[Part], copy: Option<bool>) -> PyResult<Dataset> {
    let copy = copy.unwrap_or_else(|| parts.iter().any(|part| part.copy));
    let options = parts.iter().map(|part| part.options).reduce(Opening::and).unwrap_or_default();
    Dataset::of(py, view, copy, options, !parts.iter().all(|part| part.is_direct))
}

/// Datasets in one order, each with its share: a dict of names to pairs of a dataset, or the name of one, and a weight. It is
/// a `Dataset` with the samples of all, one source after the other; only its order is drawn: a `Loader` has its samples in
/// that one, and `Dataset.sampler` returns it.
///
/// An epoch is `samples` positions; by default as many as all sources have samples together. In each round of some hundred
/// positions shares are exact. Each source is shuffled by itself, and continues in the next epoch where it ended: all of its
/// samples come once before any comes twice.
///
/// `max_passes` says for some sources how often their samples come at most in the whole run. A source that has come as often
/// is an error of the epoch that would need more; with `exhausted="others"` its share goes to the others.
///
/// With `tokens`, the name of a column of lengths that all sources have (`ki.index(path, lengths=["len(tokens)"])`), weights are
/// shares of tokens in place of samples: a source whose samples are twice as long comes half as often.
///
/// `phases` are other weights from positions on, which are counted through the whole run: a dict of positions to dicts of
/// weights. A source that is not named has none. Phases can be added when a run has begun, behind the position that it has
/// reached: what comes before stays the same, and states that were saved are valid.
///
/// >>> import pykiste as ki
/// >>> folder = getfixture("tmp_path")
/// >>> for name in ("web", "code"):
/// ...     with ki.Writer(folder / f"{name}.msgpack") as writer:
/// ...         for number in range(100):
/// ...             writer.write({"key": f"{name}/{number}"})
/// >>> sources = {"web": (folder / "web.msgpack", 3), "code": (folder / "code.msgpack", 1)}
/// >>> mixture = ki.Mixture(sources, samples=512, seed=1, phases={512: {"web": 1, "code": 1}})
/// >>> len(mixture), mixture.key(100)
/// (200, 'code/0')
/// >>> for epoch in range(2):
/// ...     indices = mixture.sampler().order(epoch)[:]
/// ...     print(len(indices), sum(mixture.key(index).startswith("web") for index in indices))
/// 512 384
/// 512 256
#[pyfunction]
#[pyo3(signature = (sources, *, samples=None, seed=0, max_passes=None, exhausted="error", phases=None, tokens=None))]
pub(crate) fn Mixture(
    sources: &Bound<'_, PyMapping>,
    samples: Option<u64>,
    seed: u64,
    max_passes: Option<&Bound<'_, PyMapping>>,
    exhausted: &str,
    phases: Option<&Bound<'_, PyAny>>,
    tokens: Option<String>,
) -> PyResult<Dataset> {
    let py = sources.py();
    let (mut names, mut parts, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for (name, source) in pairs_of::<String>(sources.as_any())? {
        let Some((dataset, weight)) = pair(&source) else {
            let message =
                format!("sources: expected a pair of a dataset and a weight for {name:?}");
            return Err(wrong_type(format!("{message}, found {}", source.get_type().name()?)));
        };
        parts.push(Part::parse(&dataset, Opening::default())?);
        weights.push((name.clone(), weight.extract()?));
        names.push(name);
    }
    let mut options = MixtureOptions::new::<String>(weights).seed(seed);
    if let Some(samples) = samples {
        options = options.samples(samples);
    }
    if let Some(max_passes) = max_passes {
        for (name, passes) in pairs_of::<String>(max_passes.as_any())? {
            options = options.max_passes(name, passes.extract()?);
        }
    }
    options = tokens.into_iter().fold(options, MixtureOptions::tokens);
    options = options.exhausted(exhausted_of(exhausted)?);
    if let Some(phases) = phases {
        for (from, weights) in pairs_of::<u64>(phases)? {
            let weights = pairs_of::<String>(&weights)?;
            let weights = weights.into_iter().map(|(name, weight)| Ok((name, weight.extract()?)));
            options = options.phase::<String>(from, weights.collect::<PyResult<Vec<_>>>()?);
        }
    }
    let views: Vec<(String, View)> =
        names.into_iter().zip(parts.iter().map(|part| part.view.clone())).collect();
    let view = pool::apart(py, move || View::mixture(views, options))?.map_err(raise)?;
    dataset_of(py, view, &parts, None)
}

/// What happens where a source has come as often as it may.
pub(crate) fn exhausted_of(text: &str) -> PyResult<Exhausted> {
    match text {
        "error" => Ok(Exhausted::Error),
        "others" => Ok(Exhausted::Others),
        other => Err(invalid(format!("exhausted: expected 'error' or 'others', found {other:?}"))),
    }
}

/// The items of a mapping, or pairs.
pub(crate) fn pairs_of<'py, K>(given: &Bound<'py, PyAny>) -> PyResult<Vec<(K, Bound<'py, PyAny>)>>
where
    K: for<'a> FromPyObject<'a, 'py>,
{
    let items = match given.cast::<PyMapping>() {
        Ok(mapping) => mapping.items()?.into_any(),
        Err(_) => given.clone(),
    };
    let parsed = |item: PyResult<Bound<'py, PyAny>>| {
        let item = item?;
        let Some((key, value)) = pair(&item) else {
            return Err(wrong_type(format!("expected a pair, found {}", item.get_type().name()?)));
        };
        Ok((key.extract().map_err(Into::into)?, value))
    };
    items.try_iter()?.map(parsed).collect()
}

fn pair<'py>(item: &Bound<'py, PyAny>) -> Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let is_pair = item.is_instance_of::<PyTuple>() || item.is_instance_of::<PyList>();
    let is_pair = is_pair && item.len().is_ok_and(|len| len == 2);
    is_pair.then(|| Some((item.get_item(0).ok()?, item.get_item(1).ok()?))).flatten()
}

/// Texts of a list, an array or anything else that can be iterated but a text.
pub(crate) fn texts(given: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<String>> {
    let wrong = |found: &Bound<'_, PyAny>, expected: &str| {
        let found = found.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        wrong_type(format!("{what}: expected {expected}, found {found}"))
    };
    if given.is_instance_of::<PyString>() {
        return Err(wrong(given, "a list of str"));
    }
    let all = given.try_iter().map_err(|_| wrong(given, "a list of str"))?;
    all.map(|one| {
        let one = one?;
        let text = one.cast::<PyString>().map_err(|_| wrong(&one, "str"))?;
        Ok(text.to_str()?.to_owned())
    })
    .collect()
}

pub(crate) fn select_keys(py: Python<'_>, view: &View, keys: &Bound<'_, PyAny>) -> PyResult<View> {
    let (keys, view) = (texts(keys, "keys")?, view.clone());
    pool::apart(py, move || view.select_keys(keys))?.map_err(|error| match error.kind() {
        ErrorKind::NotFound if error.key().is_some() => raise_as(error, Some("KeyNotFoundError")),
        _ => raise(error),
    })
}

pub(crate) fn select_indices(
    py: Python<'_>,
    view: &View,
    indices: &Bound<'_, PyAny>,
) -> PyResult<View> {
    let reader = view.reader();
    let indices: Vec<usize> = match indices.extract::<PyReadonlyArray1<'_, i64>>() {
        Ok(array) => {
            let array = array.as_array();
            let len = reader.len() as i64;
            let index = |&index: &i64| if index < 0 { index + len } else { index };
            let all = array.iter().map(index).map(|index| usize::try_from(index).ok());
            match all
                .collect::<Option<Vec<usize>>>()
                .filter(|all| all.iter().all(|&at| at < reader.len()))
            {
                Some(all) => all,
                // It has the words for what is wrong.
                None => chosen(py, reader, indices)?,
            }
        }
        Err(_) => chosen(py, reader, indices)?,
    };
    view.select(indices).map_err(raise)
}

fn chosen(
    py: Python<'_>,
    reader: &Arc<dyn Reader>,
    indices: &Bound<'_, PyAny>,
) -> PyResult<Vec<usize>> {
    let Chosen::Items(items) = Chosen::parse(indices, reader.len())? else {
        return Err(wrong_type("indices: expected integers, found booleans: `mask` takes them"));
    };
    if items.iter().any(|item| item.is_instance_of::<PyString>()) {
        return Err(wrong_type("indices: expected integers, found str: `keys` takes them"));
    }
    let index = |item: &Bound<'_, PyAny>| {
        py.check_signals()?;
        resolve(reader, item)
    };
    items.iter().map(index).collect()
}

pub(crate) fn select_mask(view: &View, mask: &Bound<'_, PyAny>) -> PyResult<View> {
    let len = view.reader().len();
    let indices: Vec<usize> = match mask.extract::<PyReadonlyArray1<'_, bool>>() {
        Ok(mask) => {
            let mask = mask.as_array();
            check_mask(mask.len(), len)?;
            mask.iter().enumerate().filter(|(_, yes)| **yes).map(|(index, _)| index).collect()
        }
        Err(_) => match Chosen::parse(mask, len)? {
            Chosen::Mask(indices) => indices,
            Chosen::Items(items) if items.is_empty() => {
                check_mask(0, len)?;
                Vec::new()
            }
            Chosen::Items(_) => {
                let message =
                    "mask: expected booleans, found others: `indices` and `keys` take them";
                return Err(wrong_type(message));
            }
        },
    };
    view.select(indices).map_err(raise)
}

pub(crate) fn field_names(
    keep: Option<&Bound<'_, PyAny>>,
    drop: Option<&Bound<'_, PyAny>>,
    rename: Option<&Bound<'_, PyDict>>,
) -> PyResult<FieldNames> {
    let names = match (keep, drop) {
        (None, None) => FieldNames::all(),
        (Some(keep), None) => FieldNames::keep(texts(keep, "keep")?).map_err(raise)?,
        (None, Some(drop)) => FieldNames::without(texts(drop, "drop")?).map_err(raise)?,
        (Some(_), Some(_)) => return Err(invalid("expected keep or drop, found both")),
    };
    rename.into_iter().flat_map(|names| names.iter()).try_fold(names, |names, (old, new)| {
        names.rename(old.extract::<String>()?, new.extract::<String>()?).map_err(raise)
    })
}

pub(crate) fn join(
    how: &str,
    fields: Option<&Bound<'_, PyAny>>,
    prefix: Option<String>,
    missing: Option<&Bound<'_, PyDict>>,
) -> PyResult<Join> {
    let mut join = match how {
        "inner" => Join::inner(),
        "left" => Join::left(),
        other => {
            return Err(invalid(format!("how: expected 'inner' or 'left', found {other:?}")));
        }
    };
    if let Some(fields) = fields {
        join = join.fields(texts(fields, "fields")?);
    }
    if let Some(prefix) = prefix {
        join = join.shared(Shared::Prefix(prefix));
    }
    for (field, value) in missing.into_iter().flat_map(|missing| missing.iter()) {
        join = join.missing(field.extract::<String>()?, value_of(&value)?);
    }
    Ok(join)
}

/// A value as a writer packs it.
fn value_of(given: &Bound<'_, PyAny>) -> PyResult<Value> {
    let mut packed = Vec::new();
    encode::append(given, &mut packed)?;
    msgpack::decode(&packed).map_err(|error| raise(error.into()))
}

pub(crate) fn left_out<'py>(py: Python<'py>, view: &View) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for left_out in view.left_out() {
        let dict = PyDict::new(py);
        dict.set_item("step", left_out.step)?;
        dict.set_item("rule", left_out.rule)?;
        dict.set_item("samples", left_out.samples)?;
        dict.set_item("unknown_keys", left_out.unknown_keys)?;
        dict.set_item("remarks", left_out.remarks)?;
        list.append(dict)?;
    }
    Ok(list)
}

/// All that another process needs to make the same dataset: the arguments of `_described`.
pub(crate) fn described<'py>(
    py: Python<'py>,
    view: View,
    copy: bool,
    path: &Option<PathBuf>,
    options: Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyTuple>> {
    let described = pool::run(py, move || view.describe())?.map_err(raise)?;
    let (selections, sources) = (PyDict::new(py), PyDict::new(py));
    for (name, bytes) in &described.selections {
        selections.set_item(name, PyBytes::new(py, bytes))?;
    }
    for (name, bits) in described.options {
        sources.set_item(name, bits)?;
    }
    (described.recipe, selections, sources, copy, path, options).into_pyobject(py)
}

/// A dataset that was made of others, from what `described` has for it.
#[pyfunction]
#[pyo3(signature = (recipe, selections, sources, copy, path, *, verify, untrusted, allow_outside))]
#[expect(clippy::too_many_arguments, reason = "all that another process needs")]
pub(crate) fn _described(
    py: Python<'_>,
    recipe: String,
    selections: BTreeMap<String, Vec<u8>>,
    sources: BTreeMap<String, u8>,
    copy: bool,
    path: Option<PathBuf>,
    verify: bool,
    untrusted: bool,
    allow_outside: bool,
) -> PyResult<Dataset> {
    let options = Opening { verify, untrusted, allow_outside };
    // The lowest bit is whether checksums are compared.
    let verifies = verify || sources.values().any(|bits| bits & 1 == 1);
    let described = Description::new(recipe, selections, sources);
    // What conditions chose comes along, so that there is little to wait for.
    let view = pool::apart(py, move || described.open(&mut |_| Ok(())))?.map_err(raise)?;
    Ok(Dataset::of(py, view, copy, options, verifies)?.named(path))
}

/// An epoch, or several.
pub(crate) fn epochs_of(given: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<u64>> {
    let Some(given) = given else { return Ok(vec![0]) };
    if let Ok(Position(epoch)) = given.extract::<Position<u64>>() {
        return Ok(vec![epoch]);
    }
    given.try_iter()?.map(|epoch| Ok(epoch?.extract::<Position<u64>>()?.0)).collect()
}
