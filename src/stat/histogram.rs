//! [`Histogram`]: how numbers are spread, in memory that does not grow with them.

use foldhash::HashMap;
use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::{NumberBar, Numbers};

/// The most different numbers that are counted one by one.
const EXACT: usize = 8192;

/// The percentiles that are reported.
pub const PERCENTILES: [u8; 7] = [1, 5, 25, 50, 75, 95, 99];

/// Counts of whole numbers: their extremes, mean and bars exactly; their percentiles exactly as long as there are no more
/// than 8,192 different ones, else to within one part in 100.
///
/// ```
/// use kiste::stat::Histogram;
///
/// let sizes: Histogram = (0..=1000).collect();
/// assert_eq!((sizes.min(), sizes.mean(), sizes.max()), (Some(0), Some(500.0), Some(1000)));
/// assert_eq!(sizes.percentile(50), Some(500));
/// let bars: Vec<(u64, u64)> = sizes.bars().iter().map(|bar| (bar.from, bar.count)).collect();
/// assert_eq!(&bars[..2], [(0, 100), (100, 100)]);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    /// How often each number occurs, as long as there are few.
    each: HashMap<u64, u64>,
    /// All of them, once there are many.
    spread: Option<Box<Numbers>>,
    count: u64,
    sum: u128,
    /// Meaningless if nothing was counted.
    min: u64,
    max: u64,
}

/// How many numbers there are from `from` to `to`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Bar {
    /// The first number that may be in it.
    pub from: u64,
    /// The last number that may be in it.
    pub to: u64,
    /// How many are.
    pub count: u64,
}

impl Histogram {
    /// Counts a number.
    pub fn add(&mut self, number: u64) {
        self.include(1, number.into(), number, number);
        self.count_times(number, 1);
    }

    fn count_times(&mut self, number: u64, times: u64) {
        if let Some(spread) = &mut self.spread {
            return spread.add_times(number as f64, times);
        }
        *self.each.entry(number).or_default() += times;
        if self.each.len() > EXACT {
            self.spread = Some(Box::new(self.numbers()));
            self.each = HashMap::default();
        }
    }

    /// Counts what the other has counted.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        self.include(other.count, other.sum, other.min, other.max);
        if let Some(theirs) = &other.spread {
            let mut mine = self.numbers();
            mine.merge((**theirs).clone());
            self.spread = Some(Box::new(mine));
            self.each = HashMap::default();
        }
        other.each.iter().for_each(|(number, times)| self.count_times(*number, *times));
    }

    /// All that was counted.
    fn numbers(&self) -> Numbers {
        let mut numbers = self.spread.as_deref().cloned().unwrap_or_default();
        self.each.iter().for_each(|(number, times)| numbers.add_times(*number as f64, *times));
        numbers
    }

    fn include(&mut self, count: u64, sum: u128, min: u64, max: u64) {
        let first = self.count == 0;
        self.min = if first { min } else { self.min.min(min) };
        self.max = if first { max } else { self.max.max(max) };
        self.count += count;
        self.sum += sum;
    }

    /// How many numbers were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The smallest, `None` of none.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest, `None` of none.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The mean, `None` of none.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// A number that this many percent of them do not exceed, `None` of none: the nearest rank.
    pub fn percentile(&self, percent: u8) -> Option<u64> {
        if let Some(spread) = &self.spread {
            let number = spread.percentile(percent)?;
            return Some((number as u64).clamp(self.min, self.max));
        }
        let rank = (u128::from(self.count) * u128::from(percent.min(100))).div_ceil(100).max(1);
        let mut each: Vec<(u64, u64)> = self.each.iter().map(|(&number, &n)| (number, n)).collect();
        each.sort_unstable();
        let mut seen = 0;
        let at = each.iter().find(|(_, count)| {
            seen += u128::from(*count);
            seen >= rank
        });
        at.map(|(number, _)| *number)
    }

    /// The share of both that would have to move past some number for them to be spread alike: 0 to 1.
    pub(super) fn distance(&self, other: &Histogram) -> f64 {
        match self.spread.is_none() && other.spread.is_none() {
            true => {
                let each =
                    |of: &Histogram| of.each.iter().map(|(&number, &n)| (number, n)).collect();
                super::compare::distance(each(self), each(other))
            }
            false => self.numbers().distance(&other.numbers()),
        }
    }

    /// The numbers in about a dozen bars that begin at round numbers, from the smallest to the largest: of equal
    /// width, or each a factor wider than the one before where most would be in one bar. Counts are exact.
    pub fn bars(&self) -> Vec<Bar> {
        let bars = self.numbers().bars();
        // A bar of zeros ends where it begins.
        let to = |at: usize| {
            bars.get(at + 1).map_or(self.max, |next| (next.from as u64).saturating_sub(1))
        };
        let bar = |(at, bar): (usize, &NumberBar)| {
            let from = bar.from as u64;
            Bar { from, to: to(at).max(from), count: bar.count }
        };
        bars.iter().enumerate().map(bar).collect()
    }
}

impl Extend<u64> for Histogram {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, numbers: I) {
        numbers.into_iter().for_each(|number| self.add(number));
    }
}

impl FromIterator<u64> for Histogram {
    fn from_iter<I: IntoIterator<Item = u64>>(numbers: I) -> Histogram {
        let mut histogram = Histogram::default();
        histogram.extend(numbers);
        histogram
    }
}

/// As `{"count", "min", "mean", "max", "percentiles": [[1, …], …], "bars": [{"from", …}]}`.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("Histogram", 6)?;
        map.serialize_field("count", &self.count)?;
        map.serialize_field("min", &self.min())?;
        map.serialize_field("mean", &self.mean())?;
        map.serialize_field("max", &self.max())?;
        let percentiles = PERCENTILES.map(|percent| (percent, self.percentile(percent)));
        map.serialize_field("percentiles", &percentiles)?;
        map.serialize_field("bars", &self.bars())?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_numbers() {
        let many = (0..20_000u64).map(|n| n * n).collect();
        for numbers in [vec![7], vec![0, 0, 1, 9], (1..=1000).collect(), vec![3, u64::MAX], many] {
            let histogram: Histogram = numbers.iter().copied().collect();
            for percent in 0..=100 {
                let rank = (numbers.len() * usize::from(percent)).div_ceil(100).max(1);
                let (exact, found) = (numbers[rank - 1], histogram.percentile(percent).unwrap());
                let most = if numbers.len() > EXACT { exact / 100 + 1 } else { 0 };
                assert!(exact.abs_diff(found) <= most, "{percent}: {exact} {found}");
            }
        }
        assert_eq!(Histogram::default().percentile(50), None);
    }

    #[test]
    fn merging_is_adding() {
        let parts = [vec![], vec![5, 1_000_000], vec![0], vec![77; 9]];
        let mut merged = Histogram::default();
        parts.iter().for_each(|part| merged.merge(&part.iter().copied().collect()));
        assert_eq!(merged, parts.concat().into_iter().collect());
        let mut many = Histogram::default();
        for start in (0..40_000).step_by(5000) {
            many.merge(&(start..start + 5000).collect());
        }
        assert!(many.spread.is_some());
        let whole: Histogram = (0..40_000).rev().collect();
        assert_eq!((many.bars(), many.sum), (whole.bars(), whole.sum));
        assert_eq!(many.percentile(75), whole.percentile(75));
    }

    #[test]
    fn bars_hold_every_number_once() {
        for numbers in [
            vec![],
            vec![0],
            vec![0, 1],
            vec![4, 5, 6],
            (100..200).collect(),
            vec![0, u64::MAX],
            vec![1, 10, 100, 1000, 10_000, 100_000],
        ] {
            let histogram: Histogram = numbers.iter().copied().collect();
            let bars = histogram.bars();
            assert!(bars.len() <= 24);
            assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), numbers.len() as u64);
            assert!(bars.windows(2).all(|pair| pair[0].to < pair[1].from), "{bars:?}");
            assert!(bars.first().is_none_or(|bar| Some(bar.from) <= histogram.min()));
            assert_eq!(bars.last().map(|bar| bar.to), histogram.max());
        }
    }
}
