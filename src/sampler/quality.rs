//! How well an order mixes, in numbers that help to choose block and window sizes.
//!
//! ```
//! use kiste::sampler::{BlockShuffle, Sampler, Shuffle, quality};
//!
//! // 10 classes of 1000 samples, stored class by class.
//! let label = |index: u64| index / 1000;
//! let runs = |sampler: &dyn Sampler| -> kiste::Result<f64> {
//!     Ok(quality::label_runs(&*sampler.order(0)?, label).mean)
//! };
//! let full = runs(&Shuffle::new(10_000, 1))?; // 1.1: labels hardly ever come twice in a row
//! let narrow = runs(&BlockShuffle::new(10_000, 100, 2, 1)?)?; // two blocks: two labels at a time
//! let wide = runs(&BlockShuffle::new(10_000, 100, 50, 1)?)?;
//! assert!(full < 1.2 && narrow > 1.8 && wide < 1.2);
//! # Ok::<(), kiste::Error>(())
//! ```

use std::collections::HashMap;

use super::Order;

/// How far samples are from where they are stored.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Displacement {
    /// Mean of |position − index|, in samples.
    pub mean: f64,
    /// The average of a full shuffle: (n² − 1) / 3n, about a third of the samples.
    pub expected: f64,
    /// Mean of |next index − index| over neighbours in the order, in samples; a full shuffle has
    /// (n + 1) / 3. Shuffles that mix too little within their window have much less.
    pub mean_step: f64,
    /// The average of a full shuffle.
    pub expected_step: f64,
}

impl Displacement {
    /// Observed by expected displacement: 0 as stored, 1 a full shuffle.
    pub fn ratio(&self) -> f64 {
        if self.expected == 0.0 { 1.0 } else { self.mean / self.expected }
    }

    /// Observed by expected step between neighbours: about 0 as stored, 1 a full shuffle.
    pub fn step_ratio(&self) -> f64 {
        if self.expected_step == 0.0 { 1.0 } else { self.mean_step / self.expected_step }
    }
}

/// The displacement of an order of all samples of a dataset: O(n).
pub fn displacement(order: &dyn Order) -> Displacement {
    let (mut moved, mut steps, mut last) = (0u128, 0u128, None);
    for (position, index) in order.iter().enumerate() {
        moved += u128::from(index.abs_diff(position as u64));
        steps += last.map_or(0, |last| u128::from(index.abs_diff(last)));
        last = Some(index);
    }
    let n = order.len() as f64;
    let per = |sum: u128, count: f64| if count > 0.0 { sum as f64 / count } else { 0.0 };
    Displacement {
        mean: per(moved, n),
        expected: if n > 0.0 { (n * n - 1.0) / (3.0 * n) } else { 0.0 },
        mean_step: per(steps, n - 1.0),
        expected_step: if n > 1.0 { (n + 1.0) / 3.0 } else { 0.0 },
    }
}

/// How often the same label comes several times in a row.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct LabelRuns {
    /// Samples.
    pub samples: u64,
    /// Different labels.
    pub labels: u64,
    /// Runs of equal labels.
    pub runs: u64,
    /// Mean length of a run, in samples.
    pub mean: f64,
    /// The value of a full shuffle of the same labels: `samples` divided by its expected number of runs.
    pub expected_mean: f64,
    /// The longest run, in samples.
    pub longest: u64,
    /// About what a full shuffle has: the length that one run of independent draws is expected
    /// to reach.
    pub expected_longest: f64,
}

/// The label runs of an order, given the label of each index: O(n), memory by labels.
pub fn label_runs(order: &dyn Order, label: impl Fn(u64) -> u64) -> LabelRuns {
    let mut counts: HashMap<u64, u64> = HashMap::new();
    let (mut runs, mut longest, mut current) = (0, 0, 0);
    let mut last = None;
    for index in order.iter() {
        let label = label(index);
        *counts.entry(label).or_default() += 1;
        if last != Some(label) {
            (runs, current, last) = (runs + 1, 0, Some(label));
        }
        current += 1;
        longest = longest.max(current);
    }
    let samples: u64 = counts.values().sum();
    let n = samples as f64;
    // Two neighbours in a random order differ with this probability.
    let mut sizes: Vec<f64> = counts.values().map(|&count| count as f64).collect();
    sizes.sort_by(f64::total_cmp); // sums must not depend on the order of a hash map
    let pairs: f64 = sizes.iter().map(|count| count * (count - 1.0)).sum();
    let differ = if samples > 1 { 1.0 - pairs / (n * (n - 1.0)) } else { 1.0 };
    let expected_runs = 1.0 + (n - 1.0) * differ;
    LabelRuns {
        samples,
        labels: counts.len() as u64,
        runs,
        mean: if runs > 0 { n / runs as f64 } else { 0.0 },
        expected_mean: if samples > 0 { n / expected_runs } else { 0.0 },
        longest,
        expected_longest: expected_longest(&sizes, n),
    }
}

/// The least length which less than one run of all labels together is expected to exceed.
fn expected_longest(sizes: &[f64], n: f64) -> f64 {
    let exceeding = |length: f64| -> f64 {
        sizes.iter().map(|count| count / n).map(|p| n * (1.0 - p) * p.powf(length + 1.0)).sum()
    };
    if sizes.len() < 2 {
        return n;
    }
    let (mut low, mut high) = (0.0, n);
    while high - low > 0.5 {
        let middle = f64::floor((low + high) / 2.0);
        if middle <= low {
            break;
        }
        if exceeding(middle) < 1.0 { high = middle } else { low = middle }
    }
    high
}
