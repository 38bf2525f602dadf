//! [`TokenBudget`]: as many samples as fit into a number of tokens.

use super::bins::best_fit;
use super::{Batches, Batching, Longer, TooLong, shuffled, sort_descending};

/// Batches of as many samples as fit into a number of tokens.
///
/// ```
/// use kiste::sampler::batching::{Batching, TokenBudget};
///
/// let batches = TokenBudget::padded(12).plan(&[&[3, 6, 2, 6, 4]], 0).unwrap();
/// let mut sizes: Vec<u32> = batches.ends.clone();
/// assert_eq!((batches.order.len(), sizes.pop()), (5, Some(5)));
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct TokenBudget {
    tokens: u64,
    padded: bool,
    most: Option<u64>,
    longer: Longer,
}

impl TokenBudget {
    /// Padding counts: a batch is its longest sample times its number of samples. Samples of a batch are about
    /// equally long.
    pub fn padded(tokens: u64) -> TokenBudget {
        TokenBudget { tokens, padded: true, most: None, longer: Longer::Refuse }
    }

    /// Only tokens count, for samples that are put one behind the other. Long and short samples are combined, so that
    /// batches are full (best fit, the longest first).
    pub fn packed(tokens: u64) -> TokenBudget {
        TokenBudget { padded: false, ..TokenBudget::padded(tokens) }
    }

    /// The most samples of a batch. Default: as many as fit.
    pub fn most(mut self, samples: u64) -> TokenBudget {
        self.most = Some(samples);
        self
    }

    /// What happens to samples of more tokens than a batch has. Default: an error.
    pub fn longer(mut self, longer: Longer) -> TokenBudget {
        self.longer = longer;
        self
    }
}

impl Batching for TokenBudget {
    fn plan(&self, lengths: &[&[u32]], seed: u64) -> Result<Batches, TooLong> {
        let (mut items, left) = self.longer.take(lengths[0], self.tokens)?;
        sort_descending(&mut items);
        let most = self.most.unwrap_or(u64::MAX).max(1);
        let mut batches = match self.padded {
            false => {
                let (places, bins) = best_fit(&items, self.tokens, most);
                shuffled(&bins, &places, 0, seed)
            }
            true => {
                let mut cuts = Vec::new();
                let mut start = 0;
                while let Some(longest) = items.get(start) {
                    // The longest comes first.
                    let size = (self.tokens / (longest >> 32)).min(most).max(1) as usize;
                    let end = items.len().min(start + size);
                    cuts.push(start..end);
                    start = end;
                }
                let places: Vec<u32> = items.iter().map(|item| *item as u32).collect();
                shuffled(&cuts, &places, 0, seed)
            }
        };
        batches.order.extend(left);
        Ok(batches)
    }

    fn description(&self) -> String {
        let TokenBudget { tokens, most, longer, .. } = self;
        let packed = if self.padded { "" } else { ":packed" };
        let most = most.map_or(String::new(), |most| format!(":most={most}"));
        format!("budget:{tokens}{packed}{most}{}", longer.option())
    }

    fn room(&self, lengths: &[u32], _rows: usize) -> u64 {
        let longest = lengths.iter().max().map_or(0, |longest| u64::from(*longest));
        if self.padded { longest * lengths.len() as u64 } else { self.tokens }
    }

    fn most(&self) -> Option<u64> {
        Some(self.most.unwrap_or(u64::MAX).min(self.tokens))
    }
}
