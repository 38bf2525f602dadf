//! [`Sampler`] and [`Order`]: in which order samples come, as numbers.

use std::fmt;
use std::sync::Arc;

use kiste::compose::View;
use kiste::format::recipe;
use kiste::sampler::{
    BlockShuffle, Cycle, DatadingsQuasiShuffle, DatadingsShuffle, Mixture, MixtureSource, Repeat,
    Sequential, Shuffle, exact_quotas,
};
use numpy::{IntoPyArray, PyArray1};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyTuple, PyType};

use crate::compose::{exhausted_of, pairs_of};
use crate::errors::{invalid, no_index, raise, wrong_type};
use crate::indices::Position;
use crate::pool;

/// Orders of samples, one for each epoch, as pure functions of their arguments.
///
/// >>> import pykiste as ki
/// >>> shuffle = ki.Sampler.shuffle(1_000_000_000, seed=1)   # takes no memory
/// >>> order = shuffle.order(epoch=3)
/// >>> len(order), order[500_000_000] == ki.Sampler.shuffle(1_000_000_000, seed=1).order(3)[500_000_000]
/// (1000000000, True)
/// >>> ki.Sampler.sequential(6).order()[2:5].tolist()
/// [2, 3, 4]
#[pyclass(frozen, module = "pykiste")]
pub(crate) struct Sampler {
    inner: Arc<dyn kiste::sampler::Sampler>,
    recipe: Recipe,
}

/// How a sampler is made again: after pickling, and for people.
#[derive(Clone)]
struct Recipe {
    name: &'static str,
    arguments: Vec<Argument>,
}

#[derive(Clone)]
enum Argument {
    Integer(i128),
    Float(f64),
    None,
    Text(&'static str),
    List(Vec<Argument>),
    Sampler(Recipe),
}

impl From<u64> for Argument {
    fn from(number: u64) -> Argument {
        Argument::Integer(number.into())
    }
}

impl From<f64> for Argument {
    fn from(number: f64) -> Argument {
        Argument::Float(number)
    }
}

impl From<Option<i128>> for Argument {
    fn from(seed: Option<i128>) -> Argument {
        seed.map_or(Argument::None, Argument::Integer)
    }
}

impl From<&Sampler> for Argument {
    fn from(sampler: &Sampler) -> Argument {
        Argument::Sampler(sampler.recipe.clone())
    }
}

impl<T: Into<Argument>> From<Vec<T>> for Argument {
    fn from(list: Vec<T>) -> Argument {
        Argument::List(list.into_iter().map(Into::into).collect())
    }
}

impl Argument {
    fn to_object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Argument::Integer(number) => number.into_bound_py_any(py)?,
            Argument::Float(number) => number.into_bound_py_any(py)?,
            Argument::None => py.None().into_bound(py),
            Argument::Text(text) => text.into_bound_py_any(py)?,
            Argument::List(list) => {
                let list: Vec<_> =
                    list.iter().map(|one| one.to_object(py)).collect::<PyResult<_>>()?;
                PyList::new(py, list)?.into_any()
            }
            Argument::Sampler(recipe) => recipe.to_tuple(py)?.into_any(),
        })
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Argument::Integer(number) => write!(f, "{number}"),
            Argument::Float(number) => write!(f, "{number:?}"),
            Argument::None => f.write_str("None"),
            Argument::Text(text) => write!(f, "{text:?}"),
            Argument::List(list) => {
                let list: Vec<String> = list.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", list.join(", "))
            }
            Argument::Sampler(recipe) => write!(f, "{recipe}"),
        }
    }
}

impl Recipe {
    /// The name of the constructor, and its arguments.
    fn to_tuple<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let mut parts = vec![self.name.into_bound_py_any(py)?];
        for argument in &self.arguments {
            parts.push(argument.to_object(py)?);
        }
        PyTuple::new(py, parts)
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pykiste.Sampler.{}(", self.name)?;
        for (at, argument) in self.arguments.iter().enumerate() {
            f.write_str(if at > 0 { ", " } else { "" })?;
            write!(f, "{argument}")?;
        }
        f.write_str(")")
    }
}

impl Sampler {
    fn new(
        inner: impl kiste::sampler::Sampler + 'static,
        name: &'static str,
        arguments: Vec<Argument>,
    ) -> Sampler {
        Sampler { inner: Arc::new(inner), recipe: Recipe { name, arguments } }
    }

    /// The order that a dataset has by itself.
    pub(crate) fn of(view: &View) -> PyResult<Sampler> {
        let Some(rule) = view.mixture_rule() else {
            let samples = view.reader().len() as u64;
            return Ok(Sampler::new(Sequential::new(samples), "sequential", vec![samples.into()]));
        };
        let sources = view.sources().unwrap_or_default();
        let weights = |named: &[(String, f64)]| -> Vec<f64> {
            let weight = |name: &String| named.iter().find(|(own, _)| own == name);
            rule.sources
                .iter()
                .map(|name| weight(name).map_or(0.0, |(_, weight)| *weight))
                .collect()
        };
        let cap = |name| rule.max_passes.iter().find(|(own, _)| own == name).map(|(_, cap)| *cap);
        // Shares of tokens are quotas by now.
        let quotas = |from: u64| -> Option<Vec<f64>> {
            let mut phases = view.sampler().filter(|_| rule.tokens.is_some())?.phases();
            let phase = phases.find(|phase| phase.from == from && phase.used_up.is_none())?;
            Some(phase.quotas.into_iter().map(|quota| quota as f64).collect())
        };
        let of_phase = |phase: &recipe::Phase| {
            let weights = quotas(phase.from).unwrap_or_else(|| weights(&phase.weights));
            (phase.from, weights)
        };
        let mut phases = rule.phases.iter().map(of_phase);
        let Some((_, first)) = phases.next() else { return Err(invalid("a mixture of nothing")) };
        Mixed {
            sizes: sources.iter().map(|(_, source)| source.reader().len() as u64).collect(),
            weights: first,
            samples: rule.samples,
            seed: rule.seed,
            max_passes: rule.sources.iter().map(cap).collect(),
            exhausted: match rule.exhausted {
                recipe::Exhausted::Error => "error",
                recipe::Exhausted::Others => "others",
            },
            phases: phases.collect(),
        }
        .sampler()
    }

    /// One for the library.
    pub(crate) fn shared(&self) -> Arc<dyn kiste::sampler::Sampler> {
        self.inner.clone()
    }
}

/// The order that a dataset has by itself: of a mixture, or of its samples as they are.
pub(crate) fn default_order(view: &View) -> Arc<dyn kiste::sampler::Sampler> {
    match view.sampler() {
        Some(mixture) => Arc::new(mixture.clone()),
        None => Arc::new(Sequential::new(view.reader().len() as u64)),
    }
}

/// A mixture in numbers.
struct Mixed {
    sizes: Vec<u64>,
    weights: Vec<f64>,
    samples: Option<u64>,
    seed: u64,
    max_passes: Vec<Option<u64>>,
    exhausted: &'static str,
    phases: Vec<(u64, Vec<f64>)>,
}

impl Mixed {
    fn sampler(self) -> PyResult<Sampler> {
        let exhausted = exhausted_of(self.exhausted)?;
        let expected = self.sizes.len();
        let quotas = |weights: &[f64]| match weights.len() == expected {
            true => exact_quotas(weights).map_err(raise),
            false => {
                let found = weights.len();
                Err(invalid(format!(
                    "expected {expected} weights, one for each source, found {found}"
                )))
            }
        };
        let mut sources = Vec::new();
        let caps = self.max_passes.iter().copied().chain(std::iter::repeat(None));
        for ((&size, quota), cap) in self.sizes.iter().zip(quotas(&self.weights)?).zip(caps) {
            let source = MixtureSource::new(size, quota);
            sources.push(match cap {
                Some(passes) => source.max_passes(passes).exhausted(exhausted),
                None => source,
            });
        }
        let all = || self.sizes.iter().copied().fold(0, u64::saturating_add);
        let len = self.samples.unwrap_or_else(all);
        let mut mixture = Mixture::new(sources, len, self.seed).map_err(raise)?;
        for (from, weights) in &self.phases {
            mixture = mixture.phase(*from, &quotas(weights)?).map_err(raise)?;
        }
        let caps: Vec<Argument> =
            self.max_passes.iter().map(|cap| cap.map_or(Argument::None, Argument::from)).collect();
        let phases: Vec<Argument> = self
            .phases
            .into_iter()
            .map(|(from, weights)| Argument::List(vec![from.into(), weights.into()]))
            .collect();
        let arguments = vec![
            self.sizes.into(),
            self.weights.into(),
            self.samples.map_or(Argument::None, Argument::from),
            self.seed.into(),
            Argument::List(caps),
            Argument::Text(self.exhausted),
            Argument::List(phases),
        ];
        Ok(Sampler::new(mixture, "mixture", arguments))
    }
}

#[pymethods]
impl Sampler {
    /// The samples in their own order.
    #[classmethod]
    fn sequential(_class: &Bound<'_, PyType>, samples: u64) -> Sampler {
        Sampler::new(Sequential::new(samples), "sequential", vec![samples.into()])
    }

    /// A uniform random order of all samples, another one in each epoch.
    #[classmethod]
    #[pyo3(signature = (samples, seed=0))]
    fn shuffle(_class: &Bound<'_, PyType>, samples: u64, seed: u64) -> Sampler {
        Sampler::new(Shuffle::new(samples, seed), "shuffle", vec![samples.into(), seed.into()])
    }

    /// Blocks of neighbours in random order, shuffled among `window` blocks: for disks and
    /// networks that read neighbours faster.
    #[classmethod]
    #[pyo3(signature = (samples, block, window, seed=0))]
    fn block_shuffle(
        _class: &Bound<'_, PyType>,
        samples: u64,
        block: u64,
        window: u64,
        seed: u64,
    ) -> PyResult<Sampler> {
        let inner = BlockShuffle::new(samples, block, window, seed).map_err(raise)?;
        let arguments = [samples, block, window, seed].map(Argument::from);
        Ok(Sampler::new(inner, "block_shuffle", arguments.into()))
    }

    /// The order of `datadings.reader.Shuffler` with this seed.
    #[classmethod]
    #[pyo3(signature = (samples, seed=None))]
    fn datadings_shuffle(_class: &Bound<'_, PyType>, samples: u64, seed: Option<i128>) -> Sampler {
        let arguments = vec![samples.into(), seed.into()];
        Sampler::new(DatadingsShuffle::new(samples, seed), "datadings_shuffle", arguments)
    }

    /// The order of `datadings.reader.QuasiShuffler` with these arguments.
    #[classmethod]
    #[pyo3(signature = (samples, buffer=0.01, chunk=16, seed=None))]
    fn datadings_quasi_shuffle(
        _class: &Bound<'_, PyType>,
        samples: u64,
        buffer: f64,
        chunk: u64,
        seed: Option<i128>,
    ) -> PyResult<Sampler> {
        let inner = DatadingsQuasiShuffle::new(samples, buffer, chunk, seed).map_err(raise)?;
        let arguments = vec![samples.into(), buffer.into(), chunk.into(), seed.into()];
        Ok(Sampler::new(inner, "datadings_quasi_shuffle", arguments))
    }

    /// Each epoch of another sampler, this many times in one epoch.
    #[classmethod]
    fn repeat(
        _class: &Bound<'_, PyType>,
        sampler: PyRef<'_, Sampler>,
        times: u64,
    ) -> PyResult<Sampler> {
        let inner = Repeat::new(sampler.shared(), times).map_err(raise)?;
        Ok(Sampler::new(inner, "repeat", vec![Argument::from(&*sampler), times.into()]))
    }

    /// All epochs of another sampler as one that does not end.
    #[classmethod]
    fn cycle(_class: &Bound<'_, PyType>, sampler: PyRef<'_, Sampler>) -> PyResult<Sampler> {
        let inner = Cycle::new(sampler.shared());
        Ok(Sampler::new(inner, "cycle", vec![Argument::from(&*sampler)]))
    }

    /// The order of a `Mixture` of sources of these sizes, in numbers alone: with these weights, or others from
    /// positions of the run on, which are the `phases`. The indices of a source follow those of the one before. `max_passes`
    /// has a number or `None` for each source.
    #[classmethod]
    #[pyo3(signature = (sizes, weights, samples=None, seed=0, max_passes=None, exhausted="error", phases=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn mixture(
        _class: &Bound<'_, PyType>,
        sizes: Vec<u64>,
        weights: Vec<f64>,
        samples: Option<u64>,
        seed: u64,
        max_passes: Option<Vec<Option<u64>>>,
        exhausted: &str,
        phases: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Sampler> {
        let pairs = phases.map_or(Ok(Vec::new()), pairs_of::<u64>)?;
        let phases = pairs.into_iter().map(|(from, weights)| Ok((from, weights.extract()?)));
        let phases = phases.collect::<PyResult<_>>()?;
        let max_passes = max_passes.unwrap_or_default();
        if max_passes.len() > sizes.len() {
            let (expected, found) = (sizes.len(), max_passes.len());
            return Err(invalid(format!(
                "max_passes: expected {expected}, one for each source, found {found}"
            )));
        }
        exhausted_of(exhausted)?;
        let exhausted = if exhausted == "others" { "others" } else { "error" };
        Mixed { sizes, weights, samples, seed, max_passes, exhausted, phases }.sampler()
    }

    /// How many samples an epoch has.
    fn __len__(&self) -> PyResult<usize> {
        let len = self.inner.len();
        // Longer ones exist: those that cycle do not end.
        isize::try_from(len)
            .map(|len| len as usize)
            .map_err(|_| crate::errors::too_large(format!("an epoch has {len} samples")))
    }

    /// The order of an epoch.
    #[pyo3(signature = (epoch=0))]
    fn order(&self, py: Python<'_>, epoch: u64) -> PyResult<Order> {
        let sampler = self.inner.clone();
        let inner = pool::apart(py, move || sampler.order(epoch))?.map_err(raise)?;
        Ok(Order { inner, recipe: self.recipe.clone(), epoch })
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyTuple>,))> {
        let make = py.import("pykiste._pickle")?.getattr("sampler")?;
        Ok((make, (self.recipe.to_tuple(py)?,)))
    }

    fn __repr__(&self) -> String {
        self.recipe.to_string()
    }
}

/// The order of one epoch: a sequence of indices. None of it is in memory. A slice is an array of uint64.
///
/// >>> import pykiste as ki
/// >>> order = ki.Sampler.shuffle(1_000_000, seed=7).order(epoch=2)
/// >>> order
/// pykiste.Sampler.shuffle(1000000, 7).order(2)
/// >>> len(order), order[5] == int(order[5:7][0]), order.position_of(order[5])
/// (1000000, True, 5)
#[pyclass(frozen, sequence, module = "pykiste")]
pub(crate) struct Order {
    inner: Arc<dyn kiste::sampler::Order>,
    /// Of its sampler.
    recipe: Recipe,
    epoch: u64,
}

#[pymethods]
impl Order {
    fn __len__(&self) -> PyResult<usize> {
        isize::try_from(self.inner.len())
            .map(|len| len as usize)
            .map_err(|_| crate::errors::too_large("the order does not end"))
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let builtins = slf.py().import("builtins")?;
        let positions = builtins.call_method1("range", (slf.len()?,))?;
        builtins.call_method1("map", (slf.getattr("__getitem__")?, positions))
    }

    /// The index at a position, or an array of indices for a slice.
    fn __getitem__<'py>(&self, item: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, len) = (item.py(), self.inner.len());
        if let Ok(slice) = item.cast::<PySlice>() {
            let range = slice.indices(isize::try_from(len).unwrap_or(isize::MAX))?;
            if range.step == 1 {
                let end = range.start as u64 + range.slicelength as u64;
                return Ok(self.fill(py, Position(range.start as u64), Position(end))?.into_any());
            }
            let (order, len) = (self.inner.clone(), range.slicelength);
            let at =
                move |nth: usize| order.index_at((range.start + nth as isize * range.step) as u64);
            let indices: Vec<u64> = pool::run(py, move || (0..len).map(at).collect())?;
            return Ok(indices.into_pyarray(py).into_any());
        }
        let Position(position): Position<i64> = item.extract()?;
        let from_end = if position < 0 {
            len.checked_add_signed(position)
        } else {
            u64::try_from(position).ok()
        };
        let position = from_end.filter(|position| *position < len).ok_or_else(|| {
            no_index(format!("position {position} is out of range for {len} positions"))
        })?;
        self.inner.index_at(position).into_pyobject(py).map(Bound::into_any).map_err(Into::into)
    }

    /// The indices at the positions from `start` up to `end`, as an array of uint64.
    fn fill<'py>(
        &self,
        py: Python<'py>,
        start: Position<u64>,
        end: Position<u64>,
    ) -> PyResult<Bound<'py, PyArray1<u64>>> {
        let (start, end) = (start.0, end.0);
        if start > end || end > self.inner.len() {
            let len = self.inner.len();
            let message = format!("positions {start} to {end} are out of range for {len}");
            return Err(invalid(message));
        }
        let order = self.inner.clone();
        let indices = pool::run(py, move || {
            let mut indices = Vec::new();
            order.fill(start..end, &mut indices);
            indices
        })?;
        Ok(indices.into_pyarray(py))
    }

    /// The position at which an index comes, or `None` where that is not known without a search.
    fn position_of(&self, index: Position<u64>) -> Option<u64> {
        self.inner.position_of(index.0)
    }

    /// All positions at which an index comes, ascending. Orders without a fast inverse are searched.
    ///
    /// >>> import pykiste as ki
    /// >>> order = ki.Sampler.mixture([100, 2], [1, 1], samples=256).order()
    /// >>> seen = order.positions_of(101)
    /// >>> len(seen), {order[position] for position in seen}
    /// (64, {101})
    fn positions_of(&self, py: Python<'_>, index: Position<u64>) -> PyResult<Vec<u64>> {
        let order = self.inner.clone();
        if order.len() == u64::MAX {
            return Err(wrong_type("expected an order that ends, found one that does not"));
        }
        pool::apart(py, move || order.positions_of(index.0, 0..order.len()).collect())
    }

    fn __repr__(&self) -> String {
        format!("{}.order({})", self.recipe, self.epoch)
    }
}
