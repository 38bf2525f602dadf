//! Moments as text: RFC 3339, UTC, microseconds; and those of people, ISO 8601, nanoseconds.

use std::borrow::Cow;

const NANOS: i128 = 1_000_000_000;
const MICROS: i64 = 1_000_000;
const DAY: i64 = 86_400;

/// A point in time as text, given in microseconds since 1970. Years are 0 to 9999; times outside
/// become the nearest one inside.
///
/// ```
/// use kiste::format::chunked::{format_time, parse_time};
///
/// assert_eq!(format_time(1_500_000), "1970-01-01T00:00:01.500000Z");
/// assert_eq!(parse_time("1970-01-01T00:00:01.500000Z"), Some(1_500_000));
/// ```
pub fn format_time(micros: i64) -> String {
    let micros = micros.clamp(-62_167_219_200 * MICROS, 253_402_300_799 * MICROS + MICROS - 1);
    let (seconds, fraction) = (micros.div_euclid(MICROS), micros.rem_euclid(MICROS));
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = date_of(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:06}Z")
}

/// Parses such a text into microseconds; the fraction may have any number of digits or be absent.
pub fn parse_time(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let (second, fraction) = (second_of_day(clock)?, digits(fraction, 6)?);
    Some((day(date)? * DAY + second) * MICROS + fraction)
}

/// Nanoseconds since 1970 of a date, or of a date and a time, as people write them: `2024-05-01`,
/// `2024-05-01 12:30`, `2024-05-01T12:30:00.5+02:00`. Without a zone it is UTC.
pub(crate) fn parse_moment(text: &str) -> Option<i128> {
    let day = day(text.get(..10)?)?;
    let rest = &text[10..];
    let Some(time) = rest.strip_prefix(['T', ' ']) else {
        return rest.is_empty().then_some(i128::from(day * DAY) * NANOS);
    };
    let (time, zone) = time.split_at(time.find(['Z', '+', '-']).unwrap_or(time.len()));
    let (clock, fraction) = match time.split_once('.') {
        Some((clock, fraction)) => (Cow::Borrowed(clock), fraction),
        None if time.len() == 5 => (Cow::Owned(format!("{time}:00")), "0"),
        None => (Cow::Borrowed(time), "0"),
    };
    let second = day * DAY + second_of_day(&clock)? - offset(zone)?;
    Some(i128::from(second) * NANOS + i128::from(digits(fraction, 9)?))
}

/// Nanoseconds since 1970 as text that [`parse_moment`] reads, in UTC. Years are 0 to 9999, as in
/// [`format_time`].
pub(crate) fn format_moment(nanoseconds: i128) -> String {
    let (second, fraction) = (nanoseconds.div_euclid(NANOS), nanoseconds.rem_euclid(NANOS));
    let micros = second.saturating_mul(i128::from(MICROS));
    let second = format_time(micros.clamp(i64::MIN.into(), i64::MAX.into()) as i64);
    let fraction = format!(".{fraction:09}");
    format!("{}{}Z", &second[..19], fraction.trim_end_matches('0').trim_end_matches('.'))
}

/// The days from 1970 to a date.
fn day(date: &str) -> Option<i64> {
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let is_plausible = (1..=12).contains(&month) && (1..=31).contains(&day);
    let days = is_plausible.then(|| days_of(year, month, day))?;
    (date_of(days) == (year, month, day)).then_some(days)
}

fn second_of_day(clock: &str) -> Option<i64> {
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    let is_plausible = hour <= 23 && minute < 60 && second <= 60;
    is_plausible.then_some(hour * 3600 + minute * 60 + second)
}

/// The first digits behind a point, as a number of this many digits.
fn digits(fraction: &str, count: usize) -> Option<i64> {
    let is_number = !fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit());
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(count);
    is_number.then(|| digits.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
}

/// By how many seconds a zone is ahead of UTC: `Z`, `+02:00`, `-0530`, `+02`, or none.
fn offset(zone: &str) -> Option<i64> {
    let (sign, clock) = match zone.split_at_checked(1) {
        None | Some(("Z", "")) => return Some(0),
        Some(("+", clock)) => (1, clock),
        Some(("-", clock)) => (-1, clock),
        Some(_) => return None,
    };
    let clock = match (clock.len(), clock.split_at_checked(2)?) {
        (2, (hour, _)) => format!("{hour}:00:00"),
        (4, (hour, minute)) => format!("{hour}:{minute}:00"),
        (5, _) => format!("{clock}:00"),
        _ => return None,
    };
    second_of_day(&clock).map(|second| sign * second)
}

fn numbers(text: &str, separator: char, digits: [usize; 3]) -> Option<[i64; 3]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; 3];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next().filter(|p| p.len() == digits)?;
        *number = part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())??;
    }
    parts.next().is_none().then_some(numbers)
}

/// Days after 1970 of a date of the proleptic Gregorian calendar. Years begin in March here, so
/// that the leap day is a year's last.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The inverse of [`days_of`].
pub(crate) fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        let known = [
            ("1970-01-01T00:00:00.000000Z", 0),
            ("2000-02-29T12:34:56.789012Z", 951_827_696_789_012),
            ("2012-12-21T00:00:00.000001Z", 1_356_048_000_000_001),
            ("1969-12-31T23:59:59.999999Z", -1),
            ("9999-12-31T23:59:59.999999Z", 253_402_300_799_999_999),
            ("0000-01-01T00:00:00.000000Z", -62_167_219_200_000_000),
        ];
        for (text, micros) in known {
            assert_eq!(format_time(micros), text);
            assert_eq!(parse_time(text), Some(micros), "{text}");
        }
        assert_eq!(format_time(i64::MAX), "9999-12-31T23:59:59.999999Z");
        assert_eq!(format_time(i64::MIN), "0000-01-01T00:00:00.000000Z");
        assert_eq!(parse_time("1970-01-01T00:00:01Z"), Some(1_000_000));
        assert_eq!(parse_time("1970-01-01T00:00:01.25Z"), Some(1_250_000));
    }

    #[test]
    fn moments_of_people() {
        for (text, expected) in [
            ("1970-01-02", "1970-01-02T00:00:00Z"),
            ("1970-01-02 03:04", "1970-01-02T03:04:00Z"),
            ("1970-01-02T03:04:05.000000001", "1970-01-02T03:04:05.000000001Z"),
            ("1970-01-02T03:04:05.50Z", "1970-01-02T03:04:05.5Z"),
            ("1970-01-02T03:04+05:00", "1970-01-01T22:04:00Z"),
            ("1970-01-02T23:04:00-0130", "1970-01-03T00:34:00Z"),
            ("1970-01-02 03:04:05-03", "1970-01-02T06:04:05Z"),
        ] {
            assert_eq!(format_moment(parse_moment(text).unwrap()), expected, "{text}");
        }
        assert_eq!(format_moment(i128::MAX), "9999-12-31T23:59:59.884105727Z");
        for text in [
            "",
            "1970",
            "1970-01",
            "1970-02-30",
            "1970-01-02x",
            "1970-01-02T",
            "1970-01-02T3:04",
            "1970-01-02T03",
            "1970-01-02T03:04Zx",
            "1970-01-02T03:04+",
            "1970-01-02T03:04+1",
            "1970-01-02T03:04+25:00",
            "1970-01-02T03:04+é1",
            "1970-01-02T03:04.5",
            "1970-01-02T03:04:05.",
            "197é-01-02",
            "1970-01-é",
            "1970-01-02é",
        ] {
            assert_eq!(parse_moment(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_of_eight_centuries_comes_back() {
        for days in -146_097..146_097 {
            let (year, month, day) = date_of(days);
            assert_eq!(days_of(year, month, day), days);
        }
    }

    #[test]
    fn what_is_no_moment() {
        for text in [
            "",
            "Z",
            "T",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "1970-01-01T00:00:00.Z",
            "1970-1-01T00:00:00Z",
            "1970-13-01T00:00:00Z",
            "1970-00-01T00:00:00Z",
            "1970-02-30T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:60:00Z",
            "1970-01-01T00:00:61Z",
            "+970-01-01T00:00:00Z",
            "1970-01-01-01T00:00:00Z",
            "1970-01-01T00:00:00.1x0000Z",
            "1900-02-29T00:00:00Z",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}
