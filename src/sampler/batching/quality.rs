//! [`quality`]: how much padding batches have, and how even ranks are.

use super::PlannedPartition;
use crate::error::Result;

/// The batches of an epoch in numbers.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Quality {
    /// Samples in batches, without the padding at the end of the epoch.
    pub samples: u64,
    /// Samples in no batch.
    pub left_out: u64,
    /// Batches, without padding at the end of the epoch.
    pub batches: u64,
    /// The sum of all lengths; of the first column, if there are several.
    pub tokens: u64,
    /// The [room](super::Batching::room) that batches take.
    pub room: u64,
    /// How far samples are from their places in the order, on average.
    pub displacement: f64,
    /// Tokens of each rank, with the padding at the end of the epoch.
    pub tokens_by_rank: Vec<u64>,
}

impl Quality {
    /// The share of the room that has no tokens.
    pub fn padding(&self) -> f64 {
        if self.room == 0 { 0.0 } else { 1.0 - self.tokens as f64 / self.room as f64 }
    }

    /// How much more the rank with the most tokens has than the one with the least, as a share of the latter.
    pub fn spread(&self) -> f64 {
        let most = self.tokens_by_rank.iter().max().copied().unwrap_or(0);
        match self.tokens_by_rank.iter().min() {
            Some(&least) if least > 0 => most as f64 / least as f64 - 1.0,
            _ => 0.0,
        }
    }
}

/// Looks at all batches of an epoch. `progress` is told how many windows are done.
///
/// # Errors
///
/// As [`PlannedPartition::batch`].
pub fn quality(
    partition: &PlannedPartition,
    epoch: u64,
    progress: &dyn Fn(u64),
) -> Result<Quality> {
    let planned = partition.planned();
    let mut found = Quality::default();
    let mut displaced = 0.0;
    for number in 0..planned.windows() {
        let window = planned.window_at(epoch, number)?;
        found.left_out += window.left_out().len() as u64;
        found.batches += window.batches();
        for batch in 0..window.batches() {
            let lengths = planned.lengths_of(window.indices(batch))?;
            let rows = window.rows(batch).len();
            found.samples += lengths.len() as u64;
            found.tokens += sum(&lengths);
            found.room = found.room.saturating_add(planned.batching().room(&lengths, rows));
        }
        let places = (0u32..).zip(window.order());
        displaced += places.map(|(now, before)| f64::from(now.abs_diff(*before))).sum::<f64>();
        progress(number + 1);
    }
    found.displacement = displaced / ((found.samples + found.left_out) as f64).max(1.0);
    for rank in 0..partition.world() {
        let mut tokens = 0;
        for step in 0.. {
            let Some(batch) = partition.batch(epoch, step, rank)? else { break };
            tokens += sum(&planned.lengths_of(batch.indices())?);
        }
        found.tokens_by_rank.push(tokens);
    }
    Ok(found)
}

fn sum(lengths: &[u32]) -> u64 {
    lengths.iter().map(|length| u64::from(*length)).sum()
}
