//! Batches that are planned by length: buckets, budgets of tokens, packed rows. Pure functions, like the orders.
//!
//! An order is cut into **windows** of 65,536 positions. Within a window the lengths of all samples are known, so that
//! a [`Batching`] decides its batches by arithmetic: the same for every number of ranks, threads and workers, in every
//! run. Batches never cross a window. They get new positions, one after the other, so that a batch is a
//! range of them, and a run is still resumed from two integers: the position says which window it is in, and which
//! batch. One window is planned for that.
//!
//! | batching | a batch is | for |
//! | --- | --- | --- |
//! | [`TokenBudget`] | as many samples as fit into a number of tokens, counted [padded](TokenBudget::padded) or [packed](TokenBudget::packed) | text and speech |
//! | [`ByLength`] | a number of samples of one bucket | models that are compiled for a few lengths |
//! | [`ByShape`] | a number of samples of one shape, by the ratio of width and height | images of many sizes |
//! | [`Rows`] | rows of a fixed number of tokens, each packed with whole samples or with pieces | language models |
//!
//! ```
//! use kiste::sampler::Shuffle;
//! use kiste::sampler::batching::{Planned, TokenBudget};
//!
//! let lengths: Vec<u32> = (0..1000).map(|n| n % 200).collect();
//! let planned = Planned::new(Shuffle::new(1000, 42), lengths.clone(), TokenBudget::padded(4096))?;
//! let run = planned.partition(2)?; // two ranks
//! let batch = run.batch(0, 3, 1)?.unwrap(); // epoch 0, step 3, rank 1
//! let longest = batch.indices().iter().map(|&index| lengths[index as usize]).max().unwrap();
//! assert!(u64::from(longest) * batch.len() <= 4096);
//! # Ok::<(), kiste::Error>(())
//! ```

mod bins;
mod budget;
mod buckets;
mod partition;
mod quality;
mod rows;
mod text;
mod window;

pub use buckets::{ByLength, ByShape};
pub use budget::TokenBudget;
pub use partition::{PlannedBatch, PlannedPartition};
pub use quality::{Quality, quality};
pub use rows::Rows;
pub use text::parse;
pub use window::{Planned, PlannedWindow};

use super::rng::StableRng;
use crate::error::{Error, ErrorKind, Result};

/// Cuts the samples of a window into batches: a pure function of their lengths and a seed.
pub trait Batching: Send + Sync {
    /// Numbers of a sample that it needs, such as width and height. Default: 1.
    fn columns(&self) -> usize {
        1
    }

    /// The batches. `lengths` has a list for each [column](Self::columns), of at most 2³² − 1 samples, in the order of
    /// the window. The seed is another one in each window of each epoch.
    ///
    /// # Errors
    ///
    /// [`TooLong`] for a sample that no batch has room for, if such samples are [refused](Longer::Refuse).
    fn plan(&self, lengths: &[&[u32]], seed: u64) -> Result<Batches, TooLong>;

    /// Everything that changes the batches, as a text that [`parse`] reads: runs that are resumed compare it.
    fn description(&self) -> String;

    /// The tokens that a batch of these lengths takes with its padding; `rows` counts its packed rows. Default: the
    /// longest length times the number of samples.
    fn room(&self, lengths: &[u32], rows: usize) -> u64 {
        let _ = rows;
        lengths.iter().max().map_or(0, |longest| u64::from(*longest) * lengths.len() as u64)
    }

    /// The most samples that a batch can have, if there is a limit.
    fn most(&self) -> Option<u64> {
        None
    }
}

/// The batches of a window. Samples are numbers of places in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Batches {
    /// The samples of the first batch, of the second, and so on; at the end those that are left out.
    pub order: Vec<u32>,
    /// Where each batch ends in the order.
    pub ends: Vec<u32>,
    /// The bucket or shape of each batch, counted from 0; nothing if there are none.
    pub buckets: Vec<u32>,
    /// Where each row ends in the order, if samples are packed into rows.
    pub rows: Vec<u32>,
}

impl Batches {
    /// Fails unless these are batches of this many samples: each sample once, no empty batch, and rows that end with
    /// batches. A [`Batching`] may be anybody's.
    fn check(&self, samples: usize) -> Result<()> {
        let wrong = |expected: &str, found: String| {
            Err(invalid(format!("expected {expected} from the batching, found {found}")))
        };
        let mut seen = vec![false; samples];
        let is_new = |place: &u32| {
            seen.get_mut(*place as usize).is_some_and(|seen| !std::mem::replace(seen, true))
        };
        if self.order.len() != samples || !self.order.iter().all(is_new) {
            return wrong("each sample once", format!("{} places for {samples}", self.order.len()));
        }
        let ascend = |ends: &[u32]| {
            let is_first = ends.first().is_none_or(|end| *end > 0);
            let is_last = ends.last().is_none_or(|end| *end as usize <= samples);
            is_first && is_last && ends.is_sorted_by(|a, b| a < b)
        };
        if !ascend(&self.ends) || !ascend(&self.rows) {
            return wrong("ends of batches and rows that ascend", "others".to_owned());
        }
        let has_row = |end: &u32| self.rows.binary_search(end).is_ok();
        if !self.rows.is_empty() && !self.ends.iter().all(has_row) {
            return wrong("a row that ends with each batch", "others".to_owned());
        }
        match self.buckets.is_empty() || self.buckets.len() == self.ends.len() {
            true => Ok(()),
            false => wrong("a bucket for each batch or none", self.buckets.len().to_string()),
        }
    }
}

/// A sample that no batch has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooLong {
    /// Its place in the window.
    pub place: u32,
    /// Its length.
    pub length: u32,
    /// The most that there is room for.
    pub most: u64,
}

/// What happens to a sample that no batch has room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Longer {
    /// It is an error, which names the sample.
    #[default]
    Refuse,
    /// It counts as long as there is room for: the column cuts it.
    Cut,
    /// It is in no batch.
    LeaveOut,
}

impl Longer {
    /// As an option of a [text](parse).
    fn option(self) -> String {
        match self {
            Longer::Refuse => String::new(),
            _ => format!(":longer={}", self.name()),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Longer::Refuse => "error",
            Longer::Cut => "cut",
            Longer::LeaveOut => "leave-out",
        }
    }

    /// The samples of a window that are taken, by place, with what they count; and those that are left out. A
    /// sample without tokens counts as one of one, as it takes a place all the same.
    fn take(self, lengths: &[u32], most: u64) -> Result<(Vec<u64>, Vec<u32>), TooLong> {
        let (mut taken, mut left) = (Vec::with_capacity(lengths.len()), Vec::new());
        for (place, &length) in (0..).zip(lengths) {
            let mut counted = u64::from(length.max(1));
            let most = most.max(1);
            if counted > most {
                match self {
                    Longer::Refuse => return Err(TooLong { place, length, most }),
                    Longer::LeaveOut => {
                        left.push(place);
                        continue;
                    }
                    Longer::Cut => counted = most,
                }
            }
            taken.push(counted << 32 | u64::from(place));
        }
        Ok((taken, left))
    }
}

impl std::str::FromStr for Longer {
    type Err = Error;

    fn from_str(text: &str) -> Result<Longer> {
        [Longer::Refuse, Longer::Cut, Longer::LeaveOut]
            .into_iter()
            .find(|longer| longer.name() == text)
            .ok_or_else(|| {
                let message = format!("expected error, cut or leave-out, found {text:?}");
                Error::new(ErrorKind::Invalid, message)
            })
    }
}

/// Numbers with places, `number << 32 | place`, by descending numbers; of the same number in their order.
fn sort_descending(items: &mut Vec<u64>) {
    const DIGIT: u32 = 11;
    let mut spare = vec![0u64; items.len()];
    for shift in [32, 32 + DIGIT, 32 + 2 * DIGIT] {
        let digit = |item: u64| (item >> shift) as usize & ((1 << DIGIT) - 1);
        let mut starts = [0u32; 1 << DIGIT];
        items.iter().for_each(|&item| starts[digit(item)] += 1);
        // All the same: nothing moves.
        if items.first().is_some_and(|&first| starts[digit(first)] as usize == items.len()) {
            continue;
        }
        starts.iter_mut().rev().fold(0, |sum, count| sum + std::mem::replace(count, sum));
        for &item in items.iter() {
            let to = &mut starts[digit(item)];
            spare[*to as usize] = item;
            *to += 1;
        }
        std::mem::swap(items, &mut spare);
    }
}

/// Lists of samples, shuffled and put one behind the other. `group` of them in turn are a batch.
fn shuffled(lists: &[std::ops::Range<usize>], items: &[u32], group: usize, seed: u64) -> Batches {
    let mut batches = Batches { order: Vec::with_capacity(items.len()), ..Batches::default() };
    for list in turn(lists.len(), seed) {
        batches.order.extend_from_slice(&items[lists[list as usize].clone()]);
        batches.rows.push(batches.order.len() as u32);
    }
    let ends = batches.rows.chunks(group.max(1)).filter_map(|rows| rows.last().copied());
    batches.ends = ends.collect();
    if group == 0 {
        batches.rows.clear();
    }
    batches
}

/// The numbers below `count` in the random order of this seed.
fn turn(count: usize, seed: u64) -> Vec<u32> {
    let mut turn: Vec<u32> = (0..count as u32).collect();
    let mut rng = StableRng::new(&[seed, SHUFFLE]);
    for last in (1..turn.len()).rev() {
        turn.swap(last, rng.below(last as u64 + 1) as usize);
    }
    turn
}

/// Combined with the seed of a window. Frozen.
const SHUFFLE: u64 = 0x0062_6174_6368_6573;

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

#[cfg(test)]
mod tests;
