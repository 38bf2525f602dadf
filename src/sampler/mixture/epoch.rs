//! The order of one epoch of a mixture.

use std::ops::Range;
use std::sync::Arc;

use super::Mixture;
use crate::sampler::repeat::Passes;
use crate::sampler::{Order, check, reserve};

/// An epoch of a mixture.
pub(super) struct Mixed {
    pub(super) mixture: Mixture,
    /// Its first position in the run.
    pub(super) start: u64,
    /// Of each source that comes.
    pub(super) passes: Vec<Option<Arc<Passes>>>,
}

impl Order for Mixed {
    fn len(&self) -> u64 {
        self.mixture.len
    }

    fn index_at(&self, position: u64) -> u64 {
        check(position, self.len());
        let (source, nth) = self.mixture.phases.at(self.start + position);
        let passes = self.passes[source].as_ref().expect("a source that comes has passes");
        let index = passes.get(nth / passes.len()).index_at(nth % passes.len());
        self.mixture.sources[source].base + index
    }

    fn fill(&self, mut positions: Range<u64>, out: &mut Vec<u64>) {
        if positions.is_empty() {
            return;
        }
        check(positions.end - 1, self.len());
        reserve(&positions, out);
        while !positions.is_empty() {
            let end = positions.end.min(positions.start.saturating_add(TOGETHER));
            let numbers = self.start + positions.start..self.start + end;
            let end_of_phase = self.mixture.phases.end_of_phase(numbers.start);
            let numbers = numbers.start..numbers.end.min(end_of_phase);
            let end = numbers.end - self.start;
            if numbers.end - numbers.start < self.passes.len() as u64 {
                out.extend((positions.start..end).map(|position| self.index_at(position)));
            } else {
                self.fill_together(numbers, out);
            }
            positions.start = end;
        }
    }

    fn position_of(&self, index: u64) -> Option<u64> {
        self.positions_of(index, 0..self.len()).next()
    }

    fn positions_of(
        &self,
        index: u64,
        positions: Range<u64>,
    ) -> Box<dyn Iterator<Item = u64> + '_> {
        let end = self.start + positions.end.min(self.len());
        let run = self.start.saturating_add(positions.start).min(end)..end;
        let number = self.mixture.source_of(index);
        let found = number.and_then(|number| Some((number, self.passes[number].clone()?)));
        let seen = found.map(|(number, passes)| self.mixture.seen(number, passes, index, run));
        Box::new(seen.into_iter().flatten().map(|position| position - self.start))
    }
}

/// Positions of a mixture that are filled at once.
const TOGETHER: u64 = 4096;

impl Mixed {
    /// Appends the indices at these positions of the run, all in one phase: the indices of one
    /// source come in its order, so they are taken together and then dealt out.
    fn fill_together(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        let phases = &*self.mixture.phases;
        let take = |(number, passes): (usize, &Option<Arc<Passes>>)| {
            let mut indices = Vec::new();
            if let Some(passes) = passes {
                let nth = |position| phases.count(number, position);
                passes.fill(0, nth(positions.start)..nth(positions.end), &mut indices);
                let base = self.mixture.sources[number].base;
                indices.iter_mut().for_each(|index| *index += base);
            }
            indices.into_iter()
        };
        let mut of_source: Vec<_> = self.passes.iter().enumerate().map(take).collect();
        let sources = phases.sources_from(positions.start);
        let sources = sources.take((positions.end - positions.start) as usize);
        out.extend(sources.map(|source| {
            of_source[source].next().expect("a source comes as often as it is counted")
        }));
    }
}
