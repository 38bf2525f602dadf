//! [`Part`]: one of several parts of a conversion, and its run of units.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::convert::Input;
use crate::error::{Error, ErrorKind, Result};

/// More parts than this are a mistake.
pub(super) const MAX_PARTS: usize = 1_000_000;

/// One of several parts: `3/7` is the third of seven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    number: usize,
    of: usize,
}

impl Part {
    /// Part `number` of `of`, counted from 1.
    pub fn new(number: usize, of: usize) -> Result<Part> {
        match (1..=of.min(MAX_PARTS)).contains(&number) {
            true => Ok(Part { number, of }),
            false => {
                let message = format!("part {number}/{of}, expected one from 1/{of} to {of}/{of}");
                Err(Error::new(ErrorKind::Invalid, message))
            }
        }
    }

    /// The only part.
    pub fn whole() -> Part {
        Part { number: 1, of: 1 }
    }

    /// All of this many parts.
    pub fn all(of: usize) -> impl Iterator<Item = Part> {
        (1..=of).map(move |number| Part { number, of })
    }

    /// One more than all parts: what is made when they are joined.
    pub(in crate::convert) fn joint(of: usize) -> Part {
        Part { number: of + 1, of }
    }

    /// Whether it is [one more](Self::joint) than all parts.
    pub(in crate::convert) fn is_joint(self) -> bool {
        self.number > self.of
    }

    /// Which one it is, counted from 1.
    pub fn number(self) -> usize {
        self.number
    }

    /// How many parts there are.
    pub fn of(self) -> usize {
        self.of
    }

    /// The units of an input that belong to this part: a run of them, and about as many bytes as
    /// in the other parts where their sizes are known. Empty if there are fewer units than parts.
    pub fn units(self, input: &dyn Input) -> Range<usize> {
        let units = input.units();
        let sizes: Option<Vec<u64>> = (0..units).map(|unit| input.bytes(unit)).collect();
        // One more for each, so that empty units too are dealt out.
        let size = |unit: usize| sizes.as_ref().map_or(1, |sizes| u128::from(sizes[unit]) + 1);
        let total: u128 = (0..units).map(size).sum();
        let (mut start, mut run) = (0u128, 0..0);
        for unit in 0..units {
            let middle = 2 * start + size(unit);
            let part = (middle * self.of as u128 / (2 * total)) as usize + 1;
            start += size(unit);
            if part < self.number {
                run = unit + 1..unit + 1;
            } else if part == self.number {
                run.end = unit + 1;
            }
        }
        run
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(text: &str) -> Result<Part> {
        let numbers = text.split_once('/').and_then(|(number, of)| {
            Some((number.parse::<usize>().ok()?, of.parse::<usize>().ok()?))
        });
        match numbers {
            Some((number, of)) => Part::new(number, of),
            None => {
                let message = format!("expected a part such as 3/7, found {text:?}");
                Err(Error::new(ErrorKind::Invalid, message))
            }
        }
    }
}

/// The sources are a stream, which can neither be divided nor read twice.
pub(in crate::convert) fn no_units() -> Error {
    let message = "this is read as one stream, so it cannot be divided";
    Error::new(ErrorKind::Invalid, message).advise("name files instead of - or a pipe")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::Emit;

    struct Sizes(Vec<Option<u64>>);

    impl Input for Sizes {
        fn units(&self) -> usize {
            self.0.len()
        }

        fn read(&self, _unit: usize, _emit: &mut Emit<'_>) -> Result<()> {
            Ok(())
        }

        fn bytes(&self, unit: usize) -> Option<u64> {
            self.0[unit]
        }
    }

    fn ranges(sizes: &[Option<u64>], of: usize) -> Vec<Range<usize>> {
        let input = Sizes(sizes.to_vec());
        Part::all(of).map(|part| part.units(&input)).collect()
    }

    #[test]
    fn every_unit_is_in_one_part_and_in_order() {
        for units in 0..40 {
            for of in 1..45 {
                for sizes in [
                    vec![None; units],
                    vec![Some(0); units],
                    (0..units as u64).map(|unit| Some(unit * unit % 17 * 1000)).collect(),
                ] {
                    let mut next = 0;
                    for range in ranges(&sizes, of) {
                        assert!(range.is_empty() || range.start == next, "{units} {of}");
                        next = next.max(range.end);
                    }
                    assert_eq!(next, units);
                }
            }
        }
    }

    #[test]
    fn parts_are_balanced_by_bytes() {
        assert_eq!(ranges(&[None; 6], 3), [0..2, 2..4, 4..6]);
        let mut sizes = vec![Some(1_000_000)];
        sizes.extend([Some(1000); 1000]);
        assert_eq!(ranges(&sizes, 2), [0..1, 1..1001]);
        let even: Vec<usize> =
            ranges(&[Some(500); 10_000], 7).iter().map(ExactSizeIterator::len).collect();
        assert!(even.iter().all(|len| (1428..=1429).contains(len)), "{even:?}");
    }

    #[test]
    fn parts_are_counted_from_one() {
        assert_eq!("3/7".parse::<Part>().unwrap(), Part { number: 3, of: 7 });
        for wrong in ["0/7", "8/7", "7", "a/b", "-1/7", "1/0", "/", "1/9999999999999999999999"] {
            assert!(wrong.parse::<Part>().is_err(), "{wrong}");
        }
        let error = "0/7".parse::<Part>().unwrap_err();
        assert_eq!(error.to_string(), "part 0/7, expected one from 1/7 to 7/7");
    }
}
