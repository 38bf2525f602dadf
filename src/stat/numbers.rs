//! [`Numbers`]: how the numbers of a field are spread, in memory that does not grow with them.

use std::collections::BTreeMap;

use foldhash::HashMap;
use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::PERCENTILES;

/// Bins of equal width that are counted; a bar is several of them.
const BINS: i64 = 20_000;
/// Digits that bins tell apart behind the first: a float has 15 to 17 in all.
const DIGITS: i32 = 14;
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
#[derive(Debug, Clone, Default, PartialEq)]
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
    /// By their sign and first three digits.
    digits: HashMap<Digits, u64>,
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
        self.add_times(number, 1);
    }

    /// Adds a number this many times.
    pub(super) fn add_times(&mut self, number: f64, times: u64) {
        if number.is_nan() {
            self.nan += times;
        } else if number.is_infinite() {
            self.infinite += times;
        } else {
            self.include(times, number * times as f64, number, number);
            self.broken |= number.fract() != 0.0;
            let decade = decade(number);
            self.bins.add(number, decade, times);
            *self.digits.entry(Digits::of(number, decade)).or_default() += times;
        }
    }

    pub(super) fn merge(&mut self, other: Numbers) {
        self.nan += other.nan;
        self.infinite += other.infinite;
        self.broken |= other.broken;
        if other.count > 0 {
            self.include(other.count, other.sum, other.min, other.max);
            self.bins.merge(other.bins);
            for (digits, count) in other.digits {
                *self.digits.entry(digits).or_default() += count;
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

    /// A number that this many percent of them do not exceed, `None` of none: the nearest rank. It is at most one part
    /// in 100 or one part in 2,000 of the range too small, whichever is less; whole numbers below 1,000 are exact.
    pub fn percentile(&self, percent: u8) -> Option<f64> {
        let rank = (u128::from(self.count) * u128::from(percent.min(100))).div_ceil(100).max(1);
        let mut digits: Vec<_> =
            self.digits.iter().map(|(digits, &n)| (digits.start(), n)).collect();
        let bins = self.bins.counts.iter();
        let mut bins: Vec<_> = bins.map(|(bin, &n)| (grid(*bin, self.bins.power), n)).collect();
        // Both begin at or below the number of this rank, so the larger is nearer.
        let start = |counts: &mut Vec<(f64, u64)>| {
            counts.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            let mut seen = 0;
            let at = counts.iter().find(|(_, count)| {
                seen += u128::from(*count);
                seen >= rank
            });
            at.map(|(start, _)| *start)
        };
        let number = start(&mut digits)?.max(start(&mut bins)?).clamp(self.min, self.max);
        Some(if self.broken { number } else { number.ceil() })
    }

    /// The share of both that would have to move past some number for them to be spread alike: 0 to 1.
    pub(super) fn distance(&self, other: &Numbers) -> f64 {
        let (mut mine, mut theirs) = (self.bins.clone(), other.bins.clone());
        mine.widen(theirs.power);
        theirs.widen(mine.power);
        let bins = |bins: Bins| bins.counts.into_iter().collect::<BTreeMap<i64, u64>>();
        let digits = |numbers: &Numbers| {
            numbers
                .digits
                .iter()
                .map(|(digits, &count)| (digits.rank(), count))
                .collect::<BTreeMap<i64, u64>>()
        };
        // Where the numbers are far apart, digits tell more of them apart; where they are close, bins do.
        let distance = super::compare::distance;
        distance(bins(mine), bins(theirs)).max(distance(digits(self), digits(other)))
    }

    /// The numbers in about a dozen bars that begin at round numbers, from the smallest to the
    /// largest: of equal width, or each a factor wider than the one before where most of the numbers
    /// would be in one bar. Each number is counted in the bar that it is in.
    pub fn bars(&self) -> Vec<NumberBar> {
        if self.count == 0 {
            return Vec::new();
        }
        let even = self.even_bars();
        let most = even.iter().map(|bar| bar.count).max().unwrap_or(0);
        let smallest = self.steps().keys().min().map_or(0.0, |step| step_start(*step));
        let spread = self.min >= 0.0 && self.max >= smallest * WIDE;
        match spread && even.len() > 1 && most as f64 >= CROWDED * self.count as f64 {
            true => self.growing_bars(),
            false => even,
        }
    }

    /// How many there are in each step of a decade, without zeros and negative numbers.
    fn steps(&self) -> BTreeMap<i32, u64> {
        let mut steps = BTreeMap::new();
        for (digits, count) in self.digits.iter().filter(|(digits, _)| digits.sign > 0) {
            *steps.entry(digits.step()).or_default() += count;
        }
        steps
    }

    /// Bars of one width.
    fn even_bars(&self) -> Vec<NumberBar> {
        let whole = NumberBar { from: self.min, to: self.max, count: self.count };
        let width = Width::of(self.min, self.max, !self.broken);
        let Some(width) = width.filter(|width| width.power >= self.bins.power) else {
            return vec![whole];
        };
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
        for (bin, count) in &self.bins.counts {
            // A bin is never wider than a bar, and begins with one or within it.
            let at = width.bar(grid(*bin, self.bins.power)) - first;
            bars[at.clamp(0, len - 1) as usize].count += count;
        }
        bars
    }

    /// Bars of steps of decades, or of decades, or of several of them, for numbers that are not
    /// negative; before them one of zeros.
    fn growing_bars(&self) -> Vec<NumberBar> {
        let mut bars = Vec::new();
        let steps = self.steps();
        let zeros = self.count - steps.values().sum::<u64>();
        if zeros > 0 {
            bars.push(NumberBar { from: 0.0, to: 0.0, count: zeros });
        }
        let (Some(&first), Some(&last)) = (steps.keys().min(), steps.keys().max()) else {
            return bars;
        };
        let decade = STEPS.len() as i32;
        let mut wide = 1;
        while (last.div_euclid(wide) - first.div_euclid(wide)) as u32 >= GROWING {
            wide = if wide == 1 { decade } else { wide + decade };
        }
        for at in first.div_euclid(wide)..=last.div_euclid(wide) {
            let (from, to) = (step_start(at * wide), step_start((at + 1) * wide));
            bars.push(NumberBar { from, to, count: 0 });
        }
        let before = usize::from(zeros > 0);
        for (step, count) in &steps {
            let at = step.div_euclid(wide) - first.div_euclid(wide);
            bars[before + at as usize].count += count;
        }
        bars
    }
}

/// As `{"count", "min", "mean", "max", "sum", "nan", "infinite", "percentiles": [[1, …], …], "bars": [{"from", …}]}`.
impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let some = |number: f64| (self.count > 0).then_some(number);
        let mut map = serializer.serialize_struct("Numbers", 9)?;
        map.serialize_field("count", &self.count)?;
        map.serialize_field("min", &some(self.min))?;
        map.serialize_field("mean", &self.mean())?;
        map.serialize_field("max", &some(self.max))?;
        map.serialize_field("sum", &self.sum)?;
        map.serialize_field("nan", &self.nan)?;
        map.serialize_field("infinite", &self.infinite)?;
        let percentiles = PERCENTILES.map(|percent| (percent, self.percentile(percent)));
        map.serialize_field("percentiles", &percentiles)?;
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
        // Powers of ten up to here are floats, so one rounding is all.
        0..=22 => number * 10f64.powi(power),
        -22..0 => number / 10f64.powi(-power),
        _ => format!("{number}e{power}").parse().unwrap_or(number),
    }
}

/// Where a bin of the grid of a power of ten begins.
fn grid(bin: i64, power: i32) -> f64 {
    decimal(bin as f64, power)
}

/// The bin of such a grid that a number is in.
fn bin_of(number: f64, power: i32) -> i64 {
    // The power alone may be no float where the quotient is one.
    let quotient = match power {
        -300..=300 => number / decimal(1.0, power),
        _ => number / decimal(1.0, power / 2) / decimal(1.0, power - power / 2),
    };
    let mut bin = quotient.floor() as i64;
    // Division is rounded.
    while grid(bin + 1, power) <= number {
        bin += 1;
    }
    while grid(bin, power) > number {
        bin -= 1;
    }
    bin
}

/// The decade of a number, so that it is at least ten to this power; zero has none.
fn decade(number: f64) -> Option<i32> {
    if number == 0.0 {
        return None;
    }
    let decade = number.abs().log10().floor() as i32;
    Some(match number.abs() {
        // The logarithm is rounded.
        number if decimal(1.0, decade + 1) <= number => decade + 1,
        number if decimal(1.0, decade) > number => decade - 1,
        _ => decade,
    })
}

/// The sign of a number and its first three digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Digits {
    sign: i8,
    /// 100 to 999 for numbers that are not zero.
    digits: i16,
    decade: i16,
}

impl Digits {
    fn of(number: f64, decade: Option<i32>) -> Digits {
        let Some(decade) = decade else { return Digits::default() };
        let digits = bin_of(number.abs(), decade - 2).clamp(100, 999) as i16;
        Digits { sign: if number < 0.0 { -1 } else { 1 }, digits, decade: decade as i16 }
    }

    /// The smallest number that begins so.
    fn start(&self) -> f64 {
        let power = i32::from(self.decade) - 2;
        match self.sign {
            0 => 0.0,
            1 => decimal(f64::from(self.digits), power),
            _ => -decimal(f64::from(self.digits + 1), power),
        }
    }

    /// Ascending as the numbers are.
    fn rank(&self) -> i64 {
        i64::from(self.sign) * ((i64::from(self.decade) + 1000) * 1000 + i64::from(self.digits))
    }

    /// The step of a decade that a positive number is in.
    fn step(&self) -> i32 {
        let first = self.digits / 100;
        let step = if first >= 5 { 2 } else { i32::from(first >= 2) };
        i32::from(self.decade) * STEPS.len() as i32 + step
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

/// Counts of numbers in bins whose width is a power of ten, the smallest with which all fit in
/// [`BINS`] of them. Which one that is depends on the numbers alone, not on their order. Bars begin where bins do,
/// so their counts are exact.
#[derive(Debug, Clone, Default, PartialEq)]
struct Bins {
    /// The width is ten to this power; meaningless if nothing was counted.
    power: i32,
    counts: HashMap<i64, u64>,
    first: i64,
    last: i64,
}

impl Bins {
    fn add(&mut self, number: f64, decade: Option<i32>, times: u64) {
        // Finer bins would tell numbers apart that no float tells apart.
        let finest = decade.map_or(i32::MIN, |decade| decade - DIGITS);
        match self.counts.is_empty() {
            true => self.power = finest.max(-323),
            false => self.widen(finest),
        }
        let mut bin = bin_of(number, self.power);
        if self.counts.is_empty() {
            (self.first, self.last) = (bin, bin);
        }
        (self.first, self.last) = (self.first.min(bin), self.last.max(bin));
        let wider = self.too_narrow();
        if wider > 0 {
            self.widen(self.power + wider);
            bin = coarser(bin, wider);
        }
        *self.counts.entry(bin).or_default() += times;
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
            *self.counts.entry(coarser(bin, wider)).or_default() += count;
        }
    }

    /// How many times the width has to grow tenfold until there are no more than [`BINS`].
    fn too_narrow(&self) -> i32 {
        (0..19).find(|by| coarser(self.last, *by) - coarser(self.first, *by) < BINS).unwrap_or(19)
    }

    /// Makes bins at least as wide as this power of ten.
    fn widen(&mut self, power: i32) {
        if power <= self.power {
            return;
        }
        let by = power - self.power;
        self.power = power;
        (self.first, self.last) = (coarser(self.first, by), coarser(self.last, by));
        for (bin, count) in std::mem::take(&mut self.counts) {
            *self.counts.entry(coarser(bin, by)).or_default() += count;
        }
    }
}

/// The bin, of those that are wider by this power of ten, that a bin is in.
fn coarser(bin: i64, by: i32) -> i64 {
    match 10i64.checked_pow(by.max(0) as u32) {
        Some(width) => bin.div_euclid(width),
        None => bin.signum().min(0),
    }
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
        assert_eq!(counts(&shares), [100; 10]);
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
