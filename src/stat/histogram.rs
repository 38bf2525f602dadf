//! [`Histogram`]: how numbers are spread, in memory that does not grow with them.

use serde::ser::{Serialize, SerializeStruct, Serializer};

/// Buckets to each power of two: a number is known to within one part in this many.
const FINE: u64 = 128;
const BITS: u32 = FINE.trailing_zeros();

/// Bars that a histogram is drawn with, and written with as JSON.
const BARS: usize = 12;
/// From this ratio of the largest to the smallest on, bars grow by a factor and not by a sum.
const WIDE: u64 = 64;

/// The percentiles that are reported.
pub const PERCENTILES: [u8; 7] = [1, 5, 25, 50, 75, 95, 99];

/// Counts of whole numbers: their extremes and mean exactly, their percentiles to within one part
/// in 128.
///
/// Numbers below 128 have a bucket each, others share one with their neighbours.
///
/// ```
/// use kiste::stat::Histogram;
///
/// let sizes: Histogram = (0..=1000).collect();
/// assert_eq!((sizes.min(), sizes.mean(), sizes.max()), (Some(0), Some(500.0), Some(1000)));
/// assert!((497..=503).contains(&sizes.percentile(50).unwrap()));
/// assert_eq!(sizes.bars().iter().map(|bar| bar.count).sum::<u64>(), 1001);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: Vec<u64>,
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
        let bucket = bucket(number);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.include(1, number.into(), number, number);
    }

    /// Counts what the other has counted.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        if other.buckets.len() > self.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.include(other.count, other.sum, other.min, other.max);
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

    /// A number that this many percent of them do not exceed, `None` of none: the nearest rank, to
    /// within the width of a bucket.
    pub fn percentile(&self, percent: u8) -> Option<u64> {
        let rank = (self.count as u128 * u128::from(percent.min(100))).div_ceil(100).max(1);
        let mut seen = 0;
        for (at, &count) in self.buckets.iter().enumerate() {
            seen += u128::from(count);
            if seen >= rank {
                let (first, last) = bounds(at);
                return Some((first + (last - first) / 2).clamp(self.min, self.max));
            }
        }
        None
    }

    /// The numbers in at most a dozen bars, from the smallest to the largest without a gap: of
    /// equal width, or each a factor wider than the one before if the numbers are far apart.
    pub fn bars(&self) -> Vec<Bar> {
        let (Some(min), Some(max)) = (self.min(), self.max()) else { return Vec::new() };
        let mut bars: Vec<Bar> = Vec::new();
        for from in starts(min, max) {
            if let Some(before) = bars.last_mut() {
                before.to = from - 1;
            }
            bars.push(Bar { from, to: max, count: 0 });
        }
        for (at, &count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (first, last) = bounds(at);
            let middle = (first + (last - first) / 2).clamp(min, max);
            let bar = bars.partition_point(|bar| bar.from <= middle).saturating_sub(1);
            bars[bar].count += count;
        }
        bars
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

/// The bucket of a number: the number itself if it is small, else its leading bits and how many
/// follow them.
fn bucket(number: u64) -> usize {
    let shift = (u64::BITS - number.leading_zeros()).saturating_sub(BITS + 1);
    (u64::from(shift) * FINE + (number >> shift)) as usize
}

/// The first and the last number of a bucket.
fn bounds(bucket: usize) -> (u64, u64) {
    let bucket = bucket as u64;
    let shift = (bucket / FINE).saturating_sub(1);
    let leading = bucket - shift * FINE;
    let first = leading << shift;
    (first, first + ((1 << shift) - 1))
}

/// Where the bars begin, ascending, the first at `min`.
fn starts(min: u64, max: u64) -> Vec<u64> {
    let width = (max - min) / BARS as u64 + 1;
    let mut starts: Vec<u64> = match max / min.max(1) >= WIDE {
        true => {
            let base = min.max(1) as f64;
            let factor = max as f64 / base;
            let start = |bar: usize| base * factor.powf(bar as f64 / BARS as f64);
            std::iter::once(min).chain((1..BARS).map(|bar| start(bar) as u64)).collect()
        }
        false => (0..BARS as u64).map(|bar| min.saturating_add(bar * width)).collect(),
    };
    starts.dedup();
    starts.retain(|&start| start <= max);
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_numbers_without_a_gap() {
        let mut next = 0;
        for at in 0..=bucket(u64::MAX) {
            let (first, last) = bounds(at);
            assert_eq!(first, next, "{at}");
            assert_eq!((bucket(first), bucket(last)), (at, at));
            assert!(last - first <= first / FINE, "{first} {last}");
            next = last.wrapping_add(1);
        }
        assert_eq!(next, 0);
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_numbers() {
        for numbers in [vec![7], vec![0, 0, 1, 9], (1..=1000).collect(), vec![3, u64::MAX]] {
            let histogram: Histogram = numbers.iter().copied().collect();
            for percent in 0..=100 {
                let rank = (numbers.len() * usize::from(percent)).div_ceil(100).max(1);
                let (exact, found) = (numbers[rank - 1], histogram.percentile(percent).unwrap());
                assert!(exact.abs_diff(found) <= exact / FINE, "{percent}: {exact} {found}");
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
            assert!(bars.len() <= BARS);
            assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), numbers.len() as u64);
            assert!(bars.windows(2).all(|pair| pair[0].to + 1 == pair[1].from), "{bars:?}");
            assert_eq!(bars.first().map(|bar| bar.from), histogram.min());
            assert_eq!(bars.last().map(|bar| bar.to), histogram.max());
        }
    }
}
