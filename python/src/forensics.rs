//! Which samples a run sees where, without a run.

use std::path::PathBuf;
use std::sync::Arc;

use kiste::compose::View;
use kiste::reader::Reader;
use kiste::sampler::batching::PlannedPartition;
use kiste::sampler::{Partition, Sampler};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::compose::epochs_of;
use crate::errors::{invalid, no_index, raise};
use crate::indices::no_such;
use crate::pool;
use crate::sampler::default_order;

/// Where a run sees the samples with a key: epochs and positions.
pub(crate) fn where_is(
    py: Python<'_>,
    view: &View,
    key: String,
    epochs: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<(u64, u64)>> {
    let epochs = epochs_of(epochs)?;
    let (reader, sampler) = (view.reader().clone(), default_order(view));
    let indices = indices_of(py, &reader, key)?;
    let search = move || {
        let mut seen = Vec::new();
        for epoch in epochs {
            let positions = positions_of(&*sampler, epoch, &indices)?;
            seen.extend(positions.into_iter().map(|position| (epoch, position)));
        }
        Ok(seen)
    };
    pool::apart(py, search)?.map_err(raise)
}

fn indices_of(py: Python<'_>, reader: &Arc<dyn Reader>, key: String) -> PyResult<Vec<usize>> {
    let asked = reader.clone();
    let (key, indices) = pool::apart(py, move || {
        let indices = asked.find_all(&key);
        (key, indices)
    })?;
    match indices.map_err(raise)? {
        none if none.is_empty() => Err(no_such(reader, &key)),
        indices => Ok(indices),
    }
}

/// The positions of an epoch at which these samples are seen, ascending.
fn positions_of(sampler: &dyn Sampler, epoch: u64, indices: &[usize]) -> kiste::Result<Vec<u64>> {
    let order = sampler.order(epoch)?;
    let all = indices.iter().flat_map(|&index| order.positions_of(index as u64, 0..order.len()));
    let mut all: Vec<u64> = all.collect();
    all.sort_unstable();
    Ok(all)
}

/// The names of the sources of a dataset, and where each ends.
#[derive(Default)]
pub(crate) struct SourceNames(Vec<(String, usize)>);

impl SourceNames {
    pub(crate) fn of(view: &View) -> SourceNames {
        let mut end = 0;
        let named = view.sources().into_iter().flatten().map(|(name, source)| {
            end += source.reader().len();
            (name.clone(), end)
        });
        let named: Vec<(String, usize)> = named.collect();
        // The sources of a recipe need not be all that it has.
        SourceNames(if end == view.reader().len() { named } else { Vec::new() })
    }

    fn get(&self, index: usize) -> Option<&str> {
        let number = self.0.partition_point(|(_, end)| *end <= index);
        self.0.get(number).map(|(name, _)| name.as_str())
    }
}

/// How an epoch is dealt out.
pub(crate) enum Plan {
    Fixed(Partition),
    Planned(PlannedPartition),
}

/// An epoch of a loader, dealt out to ranks.
pub(crate) struct Dealt {
    pub(crate) reader: Arc<dyn Reader>,
    pub(crate) sampler: Arc<dyn Sampler>,
    pub(crate) sources: Arc<SourceNames>,
    pub(crate) plan: Plan,
    pub(crate) world: u64,
    pub(crate) epoch: u64,
}

/// A sample of a step.
struct Seen {
    rank: u64,
    position: u64,
    index: usize,
    padding: bool,
    key: String,
    file: Option<PathBuf>,
}

impl Dealt {
    /// The steps and ranks that have the samples with this key.
    pub(crate) fn where_is(self, py: Python<'_>, key: String) -> PyResult<Vec<(u64, u64)>> {
        let indices = indices_of(py, &self.reader, key)?;
        let search = move || {
            let mut seen = Vec::new();
            match &self.plan {
                Plan::Fixed(plan) => {
                    for position in positions_of(&*self.sampler, self.epoch, &indices)? {
                        seen.extend(plan.all_seen_at(position).map(|at| (at.step, at.rank)));
                    }
                }
                Plan::Planned(plan) => {
                    for index in indices {
                        seen.extend(plan.places_of(self.epoch, index as u64)?);
                    }
                }
            }
            seen.sort_unstable();
            Ok(seen)
        };
        pool::apart(py, search)?.map_err(raise)
    }

    /// The samples of a step.
    pub(crate) fn keys_at<'py>(
        self,
        py: Python<'py>,
        step: u64,
        rank: Option<u64>,
    ) -> PyResult<Bound<'py, PyList>> {
        if let Some(rank) = rank.filter(|rank| *rank >= self.world) {
            let last = self.world - 1;
            return Err(invalid(format!("expected a rank from 0 to {last}, found {rank}")));
        }
        if let Plan::Fixed(plan) = &self.plan {
            let steps = plan.steps();
            if step >= steps {
                return Err(no_index(format!("step {step} is out of range for {steps} steps")));
            }
        }
        let sources = self.sources.clone();
        let seen = pool::apart(py, move || self.seen_at(step, rank))?.map_err(raise)?;
        let Some(seen) = seen else {
            return Err(no_index(format!("step {step} is out of range")));
        };
        let list = PyList::empty(py);
        for Seen { rank, position, index, padding, key, file } in seen {
            let dict = PyDict::new(py);
            dict.set_item("key", key)?;
            dict.set_item("index", index)?;
            dict.set_item("source", sources.get(index))?;
            dict.set_item("file", file)?;
            dict.set_item("rank", rank)?;
            dict.set_item("position", position)?;
            dict.set_item("padding", padding)?;
            list.append(dict)?;
        }
        Ok(list)
    }

    /// `None` if there is no such step.
    fn seen_at(&self, step: u64, rank: Option<u64>) -> kiste::Result<Option<Vec<Seen>>> {
        let mut seen = Vec::new();
        let mut add = |rank, position, index: u64, padding| {
            let (index, key) = (index as usize, String::new());
            seen.push(Seen { rank, position, index, padding, key, file: None });
        };
        let ranks = rank.map_or(0..self.world, |rank| rank..rank + 1);
        match &self.plan {
            Plan::Fixed(plan) => {
                let order = self.sampler.order(self.epoch)?;
                for rank in ranks {
                    let batch = plan.batch(step, rank);
                    let real = batch.len() - batch.padding();
                    for (nth, position) in (0..).zip(batch.iter()) {
                        add(rank, position, order.index_at(position), nth >= real);
                    }
                }
            }
            Plan::Planned(plan) => {
                if plan.batch(self.epoch, step, 0)?.is_none() {
                    return Ok(None);
                }
                for rank in ranks {
                    let Some(batch) = plan.batch(self.epoch, step, rank)? else { continue };
                    for (position, &index) in batch.positions().zip(batch.indices()) {
                        add(rank, position, index, batch.is_padding());
                    }
                }
            }
        }
        if self.reader.is_remote() {
            let indices: Vec<usize> = seen.iter().map(|one| one.index).collect();
            self.reader.prefetch(&indices);
        }
        for one in &mut seen {
            one.key = self.reader.key(one.index)?.into_owned();
            one.file = self.reader.locate(one.index).path;
        }
        Ok(Some(seen))
    }
}
