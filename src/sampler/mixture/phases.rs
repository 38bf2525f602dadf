//! [`Phases`]: from which position of a run on which quotas hold. Positions here are of the whole
//! run.
//!
//! A phase starts where it is declared, or where a source is used up and its share goes to the
//! others. Each knows how often each source came before it, so that every question is answered by
//! one search for the phase and arithmetic within it.

use std::ops::Range;
use std::sync::Arc;

use super::round::{Round, Rounds, reduced};
use crate::error::{Error, ErrorKind, Result};
use crate::sampler::rng::stable_hash;

/// Maximum phases that are declared.
const MAX_PHASES: usize = 1000;

/// Maximum slots of the rounds of all phases, and counts of sources at their starts: 4 to 12 bytes each.
const MAX_ROOM: usize = 1 << 24;

/// How often a source may come at most.
#[derive(Clone, Copy)]
pub(super) struct Cap {
    pub(super) samples: u64,
    /// What happens then: its share goes to the others, or the run ends.
    pub(super) others: bool,
}

#[derive(Clone)]
pub(super) struct Phase {
    pub(super) from: u64,
    pub(super) rounds: Rounds,
    /// How often each source came before.
    before: Vec<u64>,
    /// The source that is used up here, unless the phase was declared.
    pub(super) used_up: Option<usize>,
    /// Of where it starts and its quotas.
    own_hash: u64,
    /// Of this phase and all before it but the first.
    hash: u64,
    /// What is held in memory for it alone.
    room: usize,
}

/// Where a run ends.
#[derive(Clone, Copy)]
pub(super) struct End {
    pub(super) position: u64,
    /// The source whose turn it would be, or else all are used up.
    pub(super) source: Option<usize>,
}

#[derive(Clone)]
pub(super) struct Phases {
    list: Vec<Phase>,
    caps: Vec<Option<Cap>>,
    seed: u64,
    end: Option<End>,
}

impl Phases {
    /// One phase, and those that follow because sources are used up.
    pub(super) fn new(quotas: &[u64], caps: Vec<Option<Cap>>, seed: u64) -> Result<Phases> {
        let mut phases = Phases { list: Vec::new(), caps, seed, end: None };
        reduced(quotas)?;
        phases.extend(0, quotas.to_vec())?;
        Ok(phases)
    }

    /// Declares a phase. All positions before it stay as they are.
    pub(super) fn add(&mut self, from: u64, quotas: &[u64]) -> Result<()> {
        let invalid = |message| Err(Error::new(ErrorKind::Invalid, message));
        let declared = || self.list.iter().filter(|phase| phase.used_up.is_none());
        let last = declared().next_back().map_or(0, |phase| phase.from);
        if from <= last {
            return invalid(format!(
                "expected a phase that starts after position {last}, found {from}"
            ));
        }
        if declared().count() >= MAX_PHASES {
            let message =
                format!("expected at most {MAX_PHASES} phases, found another from position {from}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        if quotas.len() != self.caps.len() {
            let (expected, found) = (self.caps.len(), quotas.len());
            return invalid(format!(
                "expected {expected} quotas for the phase from position {from}, found {found}"
            ));
        }
        if let Some(end) = self.end.filter(|end| end.position < from) {
            return invalid(format!(
                "expected a phase from position {} or before, where the run ends, found {from}",
                end.position
            ));
        }
        reduced(quotas).map_err(|error| {
            let message = format!("the phase from position {from}: {}", error.message());
            Error::new(error.kind(), message)
        })?;
        self.end = None;
        self.list.truncate(self.list.partition_point(|phase| phase.from < from));
        self.extend(from, quotas.to_vec())
    }

    /// Adds a phase, and those that follow because sources are used up: at most one for each.
    fn extend(&mut self, mut from: u64, mut quotas: Vec<u64>) -> Result<()> {
        let mut used_up = None;
        loop {
            let before: Vec<u64> =
                (0..quotas.len()).map(|source| self.count(source, from)).collect();
            for ((quota, cap), &before) in quotas.iter_mut().zip(&self.caps).zip(&before) {
                if cap.is_some_and(|cap| cap.others && before >= cap.samples) {
                    *quota = 0;
                }
            }
            if quotas.iter().all(|&quota| quota == 0) {
                if used_up.is_none() {
                    let message = format!(
                        "all sources with a quota are used up before the phase from position {from}"
                    );
                    return Err(Error::new(ErrorKind::Invalid, message));
                }
                self.end = Some(End { position: from, source: None });
                return Ok(());
            }
            self.push(from, &quotas, before, used_up)?;
            let Some((position, source)) = self.next_used_up() else { return Ok(()) };
            if !self.caps[source].is_some_and(|cap| cap.others) {
                self.end = Some(End { position, source: Some(source) });
                return Ok(());
            }
            (from, used_up) = (position, Some(source));
        }
    }

    fn push(
        &mut self,
        from: u64,
        quotas: &[u64],
        before: Vec<u64>,
        used_up: Option<usize>,
    ) -> Result<()> {
        let (quotas, sum) = reduced(quotas)?;
        let same = self.list.iter().find(|phase| phase.rounds.round.quotas() == quotas);
        let known = same.map(|phase| Arc::clone(&phase.rounds.round));
        let room = before.len() + if known.is_some() { 0 } else { Round::len_of(sum) as usize };
        if !self.list.is_empty() {
            let all: usize = self.list.iter().map(|phase| phase.room).sum();
            if all.saturating_add(room) > MAX_ROOM {
                let message = format!(
                    "the rounds of the phases up to position {from} have more than {MAX_ROOM} \
                     slots together"
                );
                return Err(Error::new(ErrorKind::Limit, message)
                    .advise("quotas with a smaller sum, which many phases share, need less"));
            }
        }
        let round = match known {
            Some(round) => round,
            None => Arc::new(Round::new(&quotas, self.seed)?),
        };
        let own_hash = stable_hash(&[from, stable_hash(round.quotas())]);
        let hash = self.list.last().map_or(0, |last| stable_hash(&[last.hash, own_hash]));
        let rounds = Rounds::new(round, self.seed, (from > 0).then_some(from));
        self.list.push(Phase { from, rounds, before, used_up, own_hash, hash, room });
        Ok(())
    }

    /// Where the last phase comes to the end of a source, and of which one: after its last sample,
    /// or where one would be needed that is missing.
    fn next_used_up(&self) -> Option<(u64, usize)> {
        let last = self.list.last()?;
        let ends = self.caps.iter().enumerate().filter_map(|(source, cap)| {
            let Cap { samples, others } = (*cap)?;
            let left = samples.saturating_sub(last.before[source]);
            let position = if others {
                last.rounds.position_of(source, left.checked_sub(1)?)?.checked_add(1)
            } else {
                last.rounds.position_of(source, left)
            };
            // Others first: they start a phase there, which decides whose turn it is.
            Some((last.from.checked_add(position?)?, !others, source))
        });
        ends.min().map(|(position, _, source)| (position, source))
    }

    pub(super) fn list(&self) -> &[Phase] {
        &self.list
    }

    pub(super) fn end(&self) -> Option<End> {
        self.end
    }

    /// The number of the phase that a position is in.
    fn number_at(&self, position: u64) -> Option<usize> {
        self.list.partition_point(|phase| phase.from <= position).checked_sub(1)
    }

    fn phase_at(&self, position: u64) -> &Phase {
        &self.list[self.number_at(position).expect("the first phase starts at 0")]
    }

    /// The source at a position, and how often it came before.
    pub(super) fn at(&self, position: u64) -> (usize, u64) {
        let phase = self.phase_at(position);
        let (source, nth) = phase.rounds.at(position - phase.from);
        (source, phase.before[source] + nth)
    }

    /// How often a source comes before a position.
    pub(super) fn count(&self, source: usize, position: u64) -> u64 {
        let Some(number) = self.number_at(position) else { return 0 };
        let phase = &self.list[number];
        phase.before[source] + phase.rounds.count(source, position - phase.from)
    }

    /// Where a source comes that came so often before: the inverse of [`at`](Phases::at).
    pub(super) fn position_of(&self, source: usize, nth: u64) -> Option<u64> {
        let after = self.list.partition_point(|phase| phase.before[source] <= nth);
        let phase = &self.list[after.checked_sub(1)?];
        let within = phase.rounds.position_of(source, nth - phase.before[source])?;
        phase.from.checked_add(within)
    }

    /// The sources from this position on, to the end of its phase.
    pub(super) fn sources_from(&self, position: u64) -> impl Iterator<Item = usize> + '_ {
        let phase = self.phase_at(position);
        phase.rounds.sources_from(position - phase.from)
    }

    /// Where the phase of a position ends.
    pub(super) fn end_of_phase(&self, position: u64) -> u64 {
        let next = self.list.partition_point(|phase| phase.from <= position);
        self.list.get(next).map_or(u64::MAX, |phase| phase.from)
    }

    /// A number for all phases that start before this position; `None` if that is only the first.
    pub(super) fn hash_before(&self, position: u64) -> Option<u64> {
        let last = &self.list[self.starting_before(position).checked_sub(1)?];
        (self.starting_before(position) > 1).then_some(last.hash)
    }

    fn starting_before(&self, position: u64) -> usize {
        self.list.partition_point(|phase| phase.from < position)
    }

    /// The first phase that starts before a position, but is unknown to a run whose phases before it
    /// have a hash that `is_same` accepts: one phase is missing there, or all from one on.
    pub(super) fn added(
        &self,
        position: u64,
        is_same: impl Fn(Option<u64>) -> bool,
    ) -> Option<&Phase> {
        let phases = self.list.get(1..self.starting_before(position))?;
        let is_known = |missing: Range<usize>| {
            let kept = phases.iter().enumerate().filter(|(at, _)| !missing.contains(at));
            is_same(kept.fold(None, |before, (_, phase)| {
                Some(stable_hash(&[before.unwrap_or(0), phase.own_hash]))
            }))
        };
        (0..phases.len())
            .find(|&at| is_known(at..at + 1) || is_known(at..phases.len()))
            .map(|at| &phases[at])
    }
}
