//! [`Times`]: how points in time are spread, by years, months, days, hours, minutes or seconds.

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::value::time::{date_of, format_moment};

/// The most spans that are counted; a bar is one or several of them.
const BINS: usize = 4000;
/// The most bars that are drawn.
const BARS: i128 = 24;
const SECOND: i128 = 1_000_000_000;
/// Farther from 1970 than any year that is printed; beyond, all days are this one.
const FARTHEST_DAY: i128 = 1_000_000_000_000;

/// The earliest and the latest of the points in time of a field, and how many there are in each year, month, day or
/// shorter span. All are in UTC.
#[derive(Debug, Clone, Default)]
pub struct Times {
    count: u64,
    /// Nanoseconds since 1970; meaningless if nothing was counted.
    min: i128,
    max: i128,
    /// By the number of the span since 1970, or since the year 0 from months on.
    bins: BTreeMap<i128, u64>,
    span: Span,
}

/// How many points in time there are in a span.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct TimeBar {
    /// Where it begins: `2024`, `2024-05`, `2024-05-01`, `2024-05-01T12:00:00Z`.
    pub from: String,
    /// How many.
    pub count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Span {
    #[default]
    Second,
    Minute,
    Hour,
    Day,
    Month,
    Year,
    Century,
}

impl Span {
    /// The next longer one, and the number there of one of these.
    fn longer(self, number: i128) -> Option<(Span, i128)> {
        Some(match self {
            Span::Second => (Span::Minute, number.div_euclid(60)),
            Span::Minute => (Span::Hour, number.div_euclid(60)),
            Span::Hour => (Span::Day, number.div_euclid(24)),
            Span::Day => {
                let day = number.clamp(-FARTHEST_DAY, FARTHEST_DAY) as i64;
                let (year, month, _) = date_of(day);
                (Span::Month, i128::from(year) * 12 + i128::from(month) - 1)
            }
            Span::Month => (Span::Year, number.div_euclid(12)),
            Span::Year => (Span::Century, number.div_euclid(100)),
            Span::Century => return None,
        })
    }

    /// How many of them may be one bar.
    fn steps(self) -> &'static [i128] {
        match self {
            Span::Second | Span::Minute => &[1, 5, 15],
            Span::Hour => &[1, 3, 6],
            Span::Day => &[1],
            Span::Month => &[1, 3],
            Span::Year => &[1, 2, 5, 10, 20, 50],
            Span::Century => &[1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000],
        }
    }

    fn text(self, number: i128) -> String {
        let moment = |seconds: i128| format_moment(number * seconds * SECOND);
        match self {
            Span::Second => moment(1),
            Span::Minute => moment(60),
            Span::Hour => moment(3600),
            Span::Day => moment(86_400)[..10].to_owned(),
            Span::Month => format!("{:04}-{:02}", number.div_euclid(12), number.rem_euclid(12) + 1),
            Span::Year => format!("{number:04}"),
            Span::Century => format!("{:04}", number * 100),
        }
    }
}

impl Times {
    pub(super) fn add(&mut self, time: i128) {
        let first = self.count == 0;
        self.min = if first { time } else { self.min.min(time) };
        self.max = if first { time } else { self.max.max(time) };
        self.count += 1;
        let (mut span, mut number) = (Span::Second, time.div_euclid(SECOND));
        while let Some(longer) = span.longer(number).filter(|_| span < self.span) {
            (span, number) = longer;
        }
        *self.bins.entry(number).or_default() += 1;
        self.shrink();
    }

    pub(super) fn merge(&mut self, mut other: Times) {
        if other.count == 0 {
            return;
        }
        let first = self.count == 0;
        self.min = if first { other.min } else { self.min.min(other.min) };
        self.max = if first { other.max } else { self.max.max(other.max) };
        self.count += other.count;
        while self.span < other.span && self.lengthen() {}
        while other.span < self.span && other.lengthen() {}
        for (number, count) in other.bins {
            *self.bins.entry(number).or_default() += count;
        }
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.bins.len() > BINS && self.lengthen() {}
    }

    /// Counts by the next longer span, if there is one.
    fn lengthen(&mut self) -> bool {
        let Some((span, _)) = self.span.longer(0) else { return false };
        for (number, count) in std::mem::take(&mut self.bins) {
            let (_, number) = self.span.longer(number).unwrap_or((span, number));
            *self.bins.entry(number).or_default() += count;
        }
        self.span = span;
        true
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The earliest, as text.
    pub fn min(&self) -> Option<String> {
        (self.count > 0).then(|| format_moment(self.min))
    }

    /// The latest, as text.
    pub fn max(&self) -> Option<String> {
        (self.count > 0).then(|| format_moment(self.max))
    }

    /// How many there are in each span from the earliest to the latest: in spans so long that there are at most 24.
    pub fn bars(&self) -> Vec<TimeBar> {
        let mut times = self.clone();
        loop {
            let (Some(first), Some(last)) = (times.bins.keys().next(), times.bins.keys().last())
            else {
                return Vec::new();
            };
            let bars = |step: i128| last.div_euclid(step) - first.div_euclid(step) + 1;
            if let Some(&step) = times.span.steps().iter().find(|step| bars(**step) <= BARS) {
                let numbers = first.div_euclid(step)..=last.div_euclid(step);
                return numbers.map(|number| times.bar(number * step, step)).collect();
            }
            if !times.lengthen() {
                return Vec::new();
            }
        }
    }

    fn bar(&self, start: i128, step: i128) -> TimeBar {
        let count = self.bins.range(start..start + step).map(|(_, count)| count).sum();
        TimeBar { from: self.span.text(start), count }
    }

    /// The share of both that would have to move for them to be spread alike: 0 to 1.
    pub(super) fn distance(&self, other: &Times) -> f64 {
        let (mut a, mut b) = (self.clone(), other.clone());
        while a.span < b.span && a.lengthen() {}
        while b.span < a.span && b.lengthen() {}
        super::compare::distance(a.bins, b.bins)
    }
}

/// As `{"count", "min", "max", "bars": [{"from", "count"}, …]}`.
impl Serialize for Times {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("Times", 4)?;
        map.serialize_field("count", &self.count)?;
        map.serialize_field("min", &self.min())?;
        map.serialize_field("max", &self.max())?;
        map.serialize_field("bars", &self.bars())?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::time::parse_moment;

    fn times<'a>(texts: impl IntoIterator<Item = &'a str>) -> Times {
        let mut times = Times::default();
        texts.into_iter().for_each(|text| times.add(parse_moment(text).unwrap()));
        times
    }

    fn bars(times: &Times) -> Vec<(String, u64)> {
        times.bars().into_iter().map(|bar| (bar.from, bar.count)).collect()
    }

    #[test]
    fn bars_are_spans_of_the_calendar() {
        let found = times(["2023-11-30T23:59:59", "2024-02-29", "2024-02-01"]);
        let expected = [("2023-11", 1), ("2023-12", 0), ("2024-01", 0), ("2024-02", 2)];
        assert_eq!(bars(&found), expected.map(|(from, count)| (from.to_owned(), count)));
        assert_eq!(found.min().unwrap(), "2023-11-30T23:59:59Z");
        let found = times(["1969-12-31T23:59:58", "1970-01-01"]);
        assert_eq!(bars(&found).len(), 3);
        let found = times(["0001-01-01", "9999-12-31"]);
        assert_eq!(found.bars().iter().map(|bar| bar.count).sum::<u64>(), 2);
        assert!(Times::default().bars().is_empty());
    }

    #[test]
    fn merging_is_adding() {
        let all: Vec<i128> = (0..50_000).map(|n| n * n * 1_000_000 * SECOND / 7).collect();
        let (mut whole, mut merged) = (Times::default(), Times::default());
        all.iter().for_each(|&time| whole.add(time));
        for part in all.chunks(7000) {
            let mut block = Times::default();
            part.iter().for_each(|&time| block.add(time));
            merged.merge(block);
        }
        assert_eq!((merged.span, &merged.bins), (whole.span, &whole.bins));
        let mut far = Times::default();
        [i128::MIN / 4, i128::MAX / 4].into_iter().for_each(|time| far.add(time));
        assert_eq!(far.bars().iter().map(|bar| bar.count).sum::<u64>(), 2);
    }
}
