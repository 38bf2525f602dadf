//! [`Numbers`]: how the numbers of a field are spread, in memory that does not grow with them.

use foldhash::HashMap;
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// Bins of equal width that are counted; a bar is several of them.
const BINS: i64 = 2048;
/// About this many bars are drawn.
const BARS: u32 = 12;
/// At most this many of those that grow.
const GROWING: u32 = 18;
/// From this share of all numbers in one bar on, bars that grow by a factor say more.
const CROWDED: f64 = 0.8;
/// The least ratio to the smallest number for such bars.
const WIDE: f64 = 1000.0;
/// Where a decade is cut: 1, 2, 5, 10, 20, …
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];

/// Extremes, sum and histogram of the numbers of a field.
///
/// ```
/// use kiste::Value;
/// use kiste::{reader::ListReader, stat::stat};
///
/// let sample = |n: i32| {
///     let score = Value::F64((f64::from(n) + 0.5) / 100.0);
///     Value::Map(vec![("key".into(), n.to_string().into()), ("score".into(), score)])
/// };
/// let summary = stat(&ListReader::pack((0..100).map(sample))?)?;
/// let scores = summary.field("score").unwrap().numbers.as_ref().unwrap();
/// assert_eq!((scores.min, scores.max), (0.005, 0.995));
/// let bars: Vec<(f64, u64)> = scores.bars().iter().map(|bar| (bar.from, bar.count)).collect();
/// assert_eq!(&bars[..2], [(0.0, 10), (0.1, 10)]);
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Numbers {
    /// How many there are, without those that are infinite or not a number.
    pub count: u64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Their sum.
    pub sum: f64,
    /// How many are not a number.
    pub nan: u64,
    /// How many are infinite.
    pub infinite: u64,
    /// Some have digits after the point.
    broken: bool,
    bins: Bins,
    /// By the steps of a decade that they are in, without sign.
    steps: HashMap<i32, u64>,
}

/// How many numbers there are from `from` on and below `to`; in the last bar `to` is included, and
/// so it is where the two are equal.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct NumberBar {
    /// The smallest number that may be in it.
    pub from: f64,
    /// Where the next bar begins.
    pub to: f64,
    /// How many are in it.
    pub count: u64,
}

impl Numbers {
    pub(super) fn add(&mut self, number: f64) {
        if number.is_nan() {
            self.nan += 1;
        } else if number.is_infinite() {
            self.infinite += 1;
        } else {
            self.include(1, number, number, number);
            self.broken |= number.fract() != 0.0;
            self.bins.add(number);
            if number != 0.0 {
                *self.steps.entry(step(number.abs())).or_default() += 1;
            }
        }
    }

    pub(super) fn merge(&mut self, other: Numbers) {
        self.nan += other.nan;
        self.infinite += other.infinite;
        self.broken |= other.broken;
        if other.count > 0 {
            self.include(other.count, other.sum, other.min, other.max);
            self.bins.merge(other.bins);
            for (step, count) in other.steps {
                *self.steps.entry(step).or_default() += count;
            }
        }
    }

    fn include(&mut self, count: u64, sum: f64, min: f64, max: f64) {
        let first = self.count == 0;
        self.min = if first { min } else { self.min.min(min) };
        self.max = if first { max } else { self.max.max(max) };
        self.sum += sum;
        self.count += count;
    }

    /// The mean, `None` of none.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// Whether all of them are whole numbers.
    pub fn is_whole(&self) -> bool {
        !self.broken
    }

    /// The numbers in about a dozen bars that begin at round numbers, from the smallest to the
    /// largest: of equal width, or each a factor wider than the one before where most of the numbers
    /// would be in one bar. A number within one part in 1,000 of where a bar begins may be counted
    /// in its neighbour.
    pub fn bars(&self) -> Vec<NumberBar> {
        if self.count == 0 {
            return Vec::new();
        }
        let even = self.even_bars();
        let most = even.iter().map(|bar| bar.count).max().unwrap_or(0);
        let smallest = self.steps.keys().min().map_or(0.0, |step| step_start(*step));
        let spread = self.min >= 0.0 && self.max >= smallest * WIDE;
        match spread && even.len() > 1 && most as f64 >= CROWDED * self.count as f64 {
            true => self.growing_bars(),
            false => even,
        }
    }

    /// Bars of one width.
    fn even_bars(&self) -> Vec<NumberBar> {
        let whole = NumberBar { from: self.min, to: self.max, count: self.count };
        let Some(width) = Width::of(self.min, self.max, !self.broken) else { return vec![whole] };
        let first = width.bar(self.min);
        let len = width.bar(self.max) - first + 1;
        if !(2..=2 * i64::from(BARS)).contains(&len) {
            return vec![whole];
        }
        let bar = |at: i64| NumberBar {
            from: width.start(first + at),
            to: width.start(first + at + 1),
            count: 0,
        };
        let mut bars: Vec<NumberBar> = (0..len).map(bar).collect();
        // Between large numbers that are almost equal there are no others where a bar could begin.
        if !bars.iter().all(|bar| bar.from < bar.to) {
            return vec![whole];
        }
        for (number, count) in self.bins.middles() {
            let at = width.bar(number.clamp(self.min, self.max)) - first;
            bars[at.clamp(0, len - 1) as usize].count += count;
        }
        bars
    }

    /// Bars of steps of decades, or of decades, or of several of them, for numbers that are not
    /// negative; before them one of zeros.
    fn growing_bars(&self) -> Vec<NumberBar> {
        let mut bars = Vec::new();
        let zeros = self.count - self.steps.values().sum::<u64>();
        if zeros > 0 {
            bars.push(NumberBar { from: 0.0, to: 0.0, count: zeros });
        }
        let (Some(&first), Some(&last)) = (self.steps.keys().min(), self.steps.keys().max()) else {
            return bars;
        };
        let steps = STEPS.len() as i32;
        let mut wide = 1;
        while (last.div_euclid(wide) - first.div_euclid(wide)) as u32 >= GROWING {
            wide = if wide == 1 { steps } else { wide + steps };
        }
        for at in first.div_euclid(wide)..=last.div_euclid(wide) {
            let (from, to) = (step_start(at * wide), step_start((at + 1) * wide));
            bars.push(NumberBar { from, to, count: 0 });
        }
        let before = usize::from(zeros > 0);
        for (step, count) in &self.steps {
            let at = step.div_euclid(wide) - first.div_euclid(wide);
            bars[before + at as usize].count += count;
        }
        bars
    }
}

/// As `{"count", "min", "mean", "max", "sum", "nan", "infinite", "bars": [{"from", …}]}`.
impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let some = |number: f64| (self.count > 0).then_some(number);
        let mut map = serializer.serialize_struct("Numbers", 8)?;
        map.serialize_field("count", &self.count)?;
        map.serialize_field("min", &some(self.min))?;
        map.serialize_field("mean", &self.mean())?;
        map.serialize_field("max", &some(self.max))?;
        map.serialize_field("sum", &self.sum)?;
        map.serialize_field("nan", &self.nan)?;
        map.serialize_field("infinite", &self.infinite)?;
        map.serialize_field("bars", &self.bars())?;
        map.end()
    }
}

/// The step of a decade that a positive number is in.
fn step(number: f64) -> i32 {
    let steps = STEPS.len() as i32;
    let mut step = number.log10().floor() as i32 * steps;
    // The logarithm is rounded, so the true step may be the last of the decade before.
    step -= i32::from(step_start(step) > number);
    while step_start(step + 1) <= number {
        step += 1;
    }
    step
}

/// Where a step begins.
fn step_start(step: i32) -> f64 {
    let (decade, at) = (step.div_euclid(STEPS.len() as i32), step.rem_euclid(STEPS.len() as i32));
    decimal(STEPS[at as usize], decade)
}

/// A number times a power of ten, rounded once, so that it prints as it is spoken.
fn decimal(number: f64, power: i32) -> f64 {
    match power {
        0.. => number * 10f64.powi(power),
        // Below, the power of ten itself would overflow.
        -300..0 => number / 10f64.powi(-power),
        _ => number / 1e300 / 10f64.powi(-power - 300),
    }
}

/// Bars of one round width: 1, 2 or 5 times a power of ten.
struct Width {
    factor: f64,
    power: i32,
}

impl Width {
    /// About a dozen of them reach from the smallest to the largest; `None` where they are equal.
    fn of(min: f64, max: f64, is_whole: bool) -> Option<Width> {
        let exact = max / f64::from(BARS) - min / f64::from(BARS);
        if exact <= 0.0 || !exact.is_finite() {
            return None;
        }
        let step = step(exact);
        // The next round number, unless it is one; whole numbers have no bars between them.
        let step = step + i32::from(step_start(step) < exact);
        let step = if is_whole { step.max(0) } else { step };
        let at = step.rem_euclid(STEPS.len() as i32);
        Some(Width { factor: STEPS[at as usize], power: step.div_euclid(STEPS.len() as i32) })
    }

    /// The bar that a number is in.
    fn bar(&self, number: f64) -> i64 {
        let bar = (number / decimal(self.factor, self.power)).floor() as i64;
        // Division is rounded.
        match number {
            _ if self.start(bar.saturating_add(1)) <= number => bar.saturating_add(1),
            _ if self.start(bar) > number => bar.saturating_sub(1),
            _ => bar,
        }
    }

    fn start(&self, bar: i64) -> f64 {
        decimal(bar as f64 * self.factor, self.power)
    }
}

/// Counts of numbers in bins whose width is a power of two, the smallest with which all fit in
/// [`BINS`] of them. Which one that is depends on the numbers alone, not on their order.
#[derive(Debug, Clone, Default)]
struct Bins {
    /// The width is two to this power.
    power: i32,
    counts: HashMap<i64, u64>,
    /// Meaningless if nothing was counted.
    first: i64,
    last: i64,
}

impl Bins {
    fn add(&mut self, number: f64) {
        let (mantissa, power) = parts(number);
        match self.counts.is_empty() {
            true => self.power = power,
            false => self.widen(power),
        }
        let mut bin = shifted(mantissa, self.power - power);
        if self.counts.is_empty() {
            (self.first, self.last) = (bin, bin);
        }
        (self.first, self.last) = (self.first.min(bin), self.last.max(bin));
        let wider = self.too_narrow();
        if wider > 0 {
            self.widen(self.power + wider);
            bin = shifted(bin, wider);
        }
        *self.counts.entry(bin).or_default() += 1;
    }

    fn merge(&mut self, mut other: Bins) {
        if self.counts.is_empty() {
            *self = other;
            return;
        }
        if other.counts.is_empty() {
            return;
        }
        self.widen(other.power);
        other.widen(self.power);
        (self.first, self.last) = (self.first.min(other.first), self.last.max(other.last));
        let wider = self.too_narrow();
        self.widen(self.power + wider);
        for (bin, count) in other.counts {
            *self.counts.entry(shifted(bin, wider)).or_default() += count;
        }
    }

    /// How many times the width has to double until there are no more than [`BINS`].
    fn too_narrow(&self) -> i32 {
        (0..64).find(|by| shifted(self.last, *by) - shifted(self.first, *by) < BINS).unwrap_or(64)
    }

    /// Makes bins at least as wide as this power of two.
    fn widen(&mut self, power: i32) {
        let by = power - self.power;
        if by <= 0 {
            return;
        }
        self.power = power;
        (self.first, self.last) = (shifted(self.first, by), shifted(self.last, by));
        for (bin, count) in std::mem::take(&mut self.counts) {
            *self.counts.entry(shifted(bin, by)).or_default() += count;
        }
    }

    /// The middle of each bin, and how many numbers are in it. A number of few digits is nearer to
    /// it than the start of a bar that it is behind.
    fn middles(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.counts.iter().map(|(bin, count)| {
            // In two steps, as two to the power of the smallest number is not one that divides.
            let half = self.power / 2;
            let middle = (*bin as f64 + 0.5) * 2f64.powi(half) * 2f64.powi(self.power - half);
            (middle, *count)
        })
    }
}

/// A finite number as a whole number times a power of two, the power of its last digit.
fn parts(number: f64) -> (i64, i32) {
    let bits = number.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32;
    let fraction = (bits & ((1 << 52) - 1)) as i64;
    let (mantissa, power) = match exponent {
        0 => (fraction, -1074),
        _ => (fraction | 1 << 52, exponent - 1075),
    };
    (if number.is_sign_negative() { -mantissa } else { mantissa }, power)
}

/// Divided by two to this power, rounded down.
fn shifted(number: i64, by: i32) -> i64 {
    number >> by.clamp(0, 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(numbers: impl IntoIterator<Item = f64>) -> Numbers {
        let mut all = Numbers::default();
        numbers.into_iter().for_each(|number| all.add(number));
        all
    }

    fn starts(bars: &[NumberBar]) -> Vec<f64> {
        bars.iter().map(|bar| bar.from).collect()
    }

    fn counts(bars: &[NumberBar]) -> Vec<u64> {
        bars.iter().map(|bar| bar.count).collect()
    }

    #[test]
    fn bars_begin_at_round_numbers() {
        let years = numbers((1990..2020).map(f64::from)).bars();
        assert_eq!(starts(&years)[..3], [1990.0, 1995.0, 2000.0]);
        assert_eq!(counts(&years), [5; 6]);
        let shares = numbers((0..1000).map(|n| f64::from(n) / 1000.0)).bars();
        assert_eq!(starts(&shares), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]);
        assert!(counts(&shares).iter().all(|count| count.abs_diff(100) <= 1), "{shares:?}");
        let signed = numbers([-1.5, -0.5, 0.25, 2.0]).bars();
        assert_eq!((signed[0].from, signed[signed.len() - 1].to), (-1.5, 2.5));
        // Far from zero and close to each other, as moments are.
        let moments = numbers((0..60).map(|n| 1.7e9 + f64::from(n))).bars();
        assert_eq!(counts(&moments), [5; 12]);
    }

    #[test]
    fn whole_numbers_have_no_bars_between_them() {
        let dice = numbers([1.0, 2.0, 2.0, 4.0]).bars();
        assert_eq!((starts(&dice), counts(&dice)), (vec![1.0, 2.0, 3.0, 4.0], vec![1, 2, 0, 1]));
    }

    #[test]
    fn bars_grow_where_one_would_hold_almost_all() {
        let mut sizes: Vec<f64> = (1..=90).map(f64::from).collect();
        sizes.extend([0.0, 0.0, 2500.0]);
        let bars = numbers(sizes.clone()).bars();
        assert_eq!(bars[0], NumberBar { from: 0.0, to: 0.0, count: 2 });
        assert_eq!(starts(&bars)[1..6], [1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(counts(&bars), [2, 1, 3, 5, 10, 30, 41, 0, 0, 0, 0, 1]);
        // Farther apart, a bar is a decade.
        sizes.push(1e6);
        let bars = numbers(sizes).bars();
        assert_eq!(starts(&bars)[1..4], [1.0, 10.0, 100.0]);
        assert_eq!(counts(&bars), [2, 9, 81, 0, 1, 0, 0, 1]);
    }

    #[test]
    fn bars_hold_every_number_once() {
        for all in [
            vec![0.0],
            vec![5e-324, 1.0],
            vec![f64::MIN, f64::MAX],
            vec![f64::MIN_POSITIVE, -1e300, 7.0],
            vec![0.1, 0.1 + f64::EPSILON],
            vec![1e300, 1e300 * (1.0 + f64::EPSILON)],
            vec![i64::MAX as f64, 1.0, 2.0, 3.0, 4.0, 5.0],
            (0..5000).map(|n| (f64::from(n) * 0.7).sin().exp2()).collect(),
            (-300..300).map(|n| 10f64.powi(n)).collect(),
        ] {
            let found = numbers(all.iter().copied());
            let bars = found.bars();
            assert_eq!(counts(&bars).iter().sum::<u64>(), all.len() as u64, "{bars:?}");
            assert!(bars.len() <= 2 * BARS as usize, "{bars:?}");
            assert!(bars[0].from <= found.min, "{bars:?}");
            assert!(bars.windows(2).all(|pair| pair[0].from < pair[1].from), "{bars:?}");
        }
    }

    #[test]
    fn merging_is_adding_in_any_order() {
        let all: Vec<f64> = (0..3000).map(|n| (f64::from(n) * 1.3).tan() * 7.0 - 3.0).collect();
        let whole = numbers(all.iter().copied());
        let mut merged = Numbers::default();
        for part in all.chunks(700).rev() {
            merged.merge(numbers(part.iter().rev().copied()));
        }
        assert_eq!(merged.bins.counts, whole.bins.counts);
        assert_eq!((merged.bins.power, merged.bars()), (whole.bins.power, whole.bars()));
    }

    #[test]
    fn what_is_no_finite_number_is_counted_apart() {
        let found = numbers([1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 3.0]);
        assert_eq!((found.count, found.nan, found.infinite), (2, 1, 2));
        assert_eq!((found.min, found.mean(), found.max), (1.0, Some(2.0), 3.0));
        assert!(numbers([f64::NAN]).bars().is_empty());
    }
}
