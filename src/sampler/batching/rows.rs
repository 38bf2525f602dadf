//! [`Rows`]: batches of packed rows.

use super::bins::best_fit;
use super::{Batches, Batching, Longer, TooLong, shuffled, sort_descending};

/// Batches of rows of a fixed number of tokens, which samples are packed into.
///
/// [`Columns::packed`](crate::loader::Columns::packed) fills the rows as they are planned here. The last batch of a
/// window may have rows of nothing but padding.
#[derive(Debug, Clone)]
#[must_use]
pub struct Rows {
    length: u64,
    rows: u64,
    splits: bool,
    longer: Longer,
}

impl Rows {
    /// Each row has whole samples, chosen so that little is left (best fit, the longest first).
    pub fn whole(length: u64, rows: u64) -> Rows {
        Rows { length, rows: rows.max(1), splits: false, longer: Longer::Refuse }
    }

    /// Samples follow each other through all rows of a batch: only the end of its last row is padding.
    pub fn split(length: u64, rows: u64) -> Rows {
        Rows { splits: true, ..Rows::whole(length, rows) }
    }

    /// What happens to samples that are longer than a row or, if they are split, than all rows of a batch. Default:
    /// an error.
    pub fn longer(mut self, longer: Longer) -> Rows {
        self.longer = longer;
        self
    }
}

impl Batching for Rows {
    fn plan(&self, lengths: &[&[u32]], seed: u64) -> Result<Batches, TooLong> {
        let capacity = match self.splits {
            true => self.length.saturating_mul(self.rows),
            false => self.length,
        };
        let (mut items, left) = self.longer.take(lengths[0], capacity)?;
        sort_descending(&mut items);
        let (places, bins) = best_fit(&items, capacity, u64::MAX);
        let group = if self.splits { 0 } else { usize::try_from(self.rows).unwrap_or(usize::MAX) };
        let mut batches = shuffled(&bins, &places, group, seed);
        batches.order.extend(left);
        Ok(batches)
    }

    fn description(&self) -> String {
        let Rows { length, rows, longer, .. } = self;
        let split = if self.splits { ":split" } else { "" };
        format!("rows:{length}x{rows}{split}{}", longer.option())
    }

    fn room(&self, _lengths: &[u32], _rows: usize) -> u64 {
        self.length.saturating_mul(self.rows)
    }

    fn most(&self) -> Option<u64> {
        Some(self.length.saturating_mul(self.rows))
    }
}
