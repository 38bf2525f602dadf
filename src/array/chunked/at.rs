//! Which version of an array to open.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

use crate::array::chunked::files::Files;
use crate::error::{Error, ErrorKind, Result};
use crate::format::chunked::{Version, format_time, parse_time};

/// Which version of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum At {
    /// The last version that was committed.
    #[default]
    Newest,
    /// This many versions before the newest.
    Back(usize),
    /// The version of this number.
    Version(u64),
    /// The last version that was committed by this time.
    Time(SystemTime),
}

/// A version as text: its number, `-1` for the one before the newest, `newest`, or a time in UTC,
/// such as `2026-01-31T12:00:00Z`, or a day, which means its beginning.
///
/// ```
/// use kiste::array::At;
///
/// assert_eq!("5".parse::<At>()?, At::Version(5));
/// assert_eq!("-1".parse::<At>()?, At::Back(1));
/// assert!(matches!("2026-01-31".parse::<At>()?, At::Time(_)));
/// # Ok::<(), kiste::Error>(())
/// ```
impl FromStr for At {
    type Err = Error;

    fn from_str(text: &str) -> Result<At> {
        if text == "newest" {
            return Ok(At::Newest);
        }
        if let Some(steps) = text.strip_prefix('-').and_then(|back| back.parse().ok()) {
            return Ok(At::Back(steps));
        }
        if let Ok(number) = text.parse() {
            return Ok(At::Version(number));
        }
        moment(text).map(At::Time).ok_or_else(|| {
            let forms = "5, -1 (the one before the newest), 2026-01-31 or 2026-01-31T12:00:00Z";
            Error::new(ErrorKind::Invalid, format!("expected a version: {forms}"))
        })
    }
}

/// A time, or the beginning of a day.
fn moment(text: &str) -> Option<SystemTime> {
    let micros = parse_time(text).or_else(|| parse_time(&format!("{text}T00:00:00Z")))?;
    let span = Duration::from_micros(micros.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    if micros < 0 { epoch.checked_sub(span) } else { epoch.checked_add(span) }
}

/// Finds and reads the version.
pub(crate) fn resolve(files: &Files, at: At) -> Result<Version> {
    let numbers = files.version_numbers()?;
    let none = |message: String| Error::new(ErrorKind::NotFound, message).at(&files.root);
    let Some(newest) = numbers.last() else {
        return Err(none("expected a version, found none: it was never finished".into()));
    };
    match at {
        At::Newest => files.version(*newest),
        At::Version(number) => files.version(number),
        At::Back(steps) => match numbers.iter().nth_back(steps) {
            Some(number) => files.version(*number),
            None => Err(none(format!("there are only {} versions", numbers.len()))),
        },
        At::Time(time) => {
            let micros = micros_of(time);
            // Times never go back, so the first that is too late can be searched.
            let (mut low, mut high) = (0, numbers.len());
            let mut found = None;
            while low < high {
                let middle = low + (high - low) / 2;
                let version = files.version(numbers[middle])?;
                if parse_time(&version.time) <= Some(micros) {
                    found = Some(version);
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            found.ok_or_else(|| {
                none("expected a version of this time or earlier, found only later ones".into())
            })
        }
    }
}

/// Microseconds after 1970.
pub(crate) fn micros_of(time: SystemTime) -> i64 {
    let micros = |d: std::time::Duration| i64::try_from(d.as_micros()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => micros(after),
        Err(before) => -micros(before.duration()),
    }
}

/// The current time as a version records it, but not before this one: times never go back.
pub(crate) fn now_after(micros: i64) -> String {
    format_time(micros_of(SystemTime::now()).max(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_steps_back_and_times() {
        let at = |text: &str| text.parse::<At>().ok();
        assert_eq!(at("newest"), Some(At::Newest));
        assert_eq!(at("5"), Some(At::Version(5)));
        assert_eq!(at("-2"), Some(At::Back(2)));
        let second = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        assert_eq!(at("1970-01-01T00:00:01Z"), Some(At::Time(second)));
        assert_eq!(at("1970-01-01"), Some(At::Time(SystemTime::UNIX_EPOCH)));
        for wrong in ["", "x", "--1", "1.5", "1970-13-01"] {
            assert_eq!(at(wrong), None, "{wrong}");
        }
    }
}
