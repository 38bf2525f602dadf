//! Which version of an array to open.

use std::time::SystemTime;

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
