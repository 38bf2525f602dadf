//! Moments as text: RFC 3339, UTC, microseconds; and those of people, ISO 8601, nanoseconds.

use std::borrow::Cow;

use super::dtype::{TimeUnit, Unit};

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

/// A point in time as NumPy prints it: ISO 8601, to the unit of its type. Without a unit it is a number.
pub(crate) fn format_datetime(value: i64, unit: TimeUnit) -> String {
    let count = i128::from(value) * i128::from(unit.count);
    match value {
        i64::MIN => "NaT".to_owned(),
        _ => iso(count, unit.unit)
            .unwrap_or_else(|| format!("{count} {} since 1970", plural(unit.unit))),
    }
}

/// The time of a timestamp: seconds since 1970 in UTC, and nanoseconds.
pub(crate) fn format_timestamp(seconds: i64, nanoseconds: u32) -> String {
    let Some(text) = iso(seconds.into(), Unit::Second) else {
        return format!("{seconds} seconds since 1970");
    };
    let fraction = format!("{text}.{nanoseconds:09}");
    format!("{}Z", fraction.trim_end_matches('0').trim_end_matches('.'))
}

/// A span of time as people write it, exactly: `3 days 2 h 5 min`, `1.5 ms`, `14 months`. Without a unit it is a
/// number.
pub(crate) fn format_timedelta(value: i64, unit: TimeUnit) -> String {
    let count = i128::from(value) * i128::from(unit.count);
    if value == i64::MIN {
        return "NaT".to_owned();
    }
    let counted = |noun: &str| match count {
        1 | -1 => format!("{count} {noun}"),
        _ => format!("{count} {noun}s"),
    };
    let (whole, digits) = match unit.unit {
        Unit::Generic => return count.to_string(),
        Unit::Year => return counted("year"),
        Unit::Month => return counted("month"),
        Unit::Week => return counted("week"),
        Unit::Day => return counted("day"),
        fine => second(fine),
    };
    let sign = if count < 0 { "-" } else { "" };
    let ticks = 10_u128.pow(digits);
    let (seconds, fraction) = (count.unsigned_abs() * whole / ticks, count.unsigned_abs() % ticks);
    if seconds == 0 && fraction > 0 {
        let smaller = [(3, "ms"), (6, "µs"), (9, "ns"), (12, "ps"), (15, "fs"), (18, "as")];
        let known = smaller.into_iter().find(|(power, _)| fraction * 10_u128.pow(*power) >= ticks);
        let (power, name) = known.unwrap_or((18, "as"));
        return format!("{sign}{} {name}", decimal(fraction * 10_u128.pow(power), digits));
    }
    let parts =
        [(seconds / 86_400, " days"), (seconds / 3600 % 24, " h"), (seconds / 60 % 60, " min")];
    let mut text: Vec<String> = parts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, name)| match (number, *name) {
            (1, " days") => "1 day".to_owned(),
            _ => format!("{number}{name}"),
        })
        .collect();
    if seconds % 60 > 0 || fraction > 0 || text.is_empty() {
        text.push(format!("{} s", decimal(seconds % 60 * ticks + fraction, digits)));
    }
    sign.to_owned() + &text.join(" ")
}

/// A number with this many digits behind the point, without zeros at its end.
fn decimal(number: u128, digits: u32) -> String {
    let ticks = 10_u128.pow(digits);
    let text = format!("{}.{:0width$}", number / ticks, number % ticks, width = digits as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Seconds in a unit of at least one, or else how many digits behind the point of a second the unit is.
fn second(unit: Unit) -> (u128, u32) {
    match unit {
        Unit::Week => (604_800, 0),
        Unit::Day => (86_400, 0),
        Unit::Hour => (3600, 0),
        Unit::Minute => (60, 0),
        Unit::Millisecond => (1, 3),
        Unit::Microsecond => (1, 6),
        Unit::Nanosecond => (1, 9),
        Unit::Picosecond => (1, 12),
        Unit::Femtosecond => (1, 15),
        Unit::Attosecond => (1, 18),
        _ => (1, 0),
    }
}

/// A number of units after 1970 in ISO 8601; `None` for years of more than seven digits.
fn iso(count: i128, unit: Unit) -> Option<String> {
    const FAR: i128 = 3_652_425_000;
    let year = |year: i128| match year {
        0..=9_999_999 => Some(format!("{year:04}")),
        -9_999_999..0 => Some(format!("{year:05}")),
        _ => None,
    };
    let (whole, digits) = second(unit);
    let ticks = 10_i128.pow(digits);
    let (seconds, fraction) = match unit {
        Unit::Generic => return Some(count.to_string()),
        Unit::Year => return year(1970 + count),
        Unit::Month => {
            return Some(format!(
                "{}-{:02}",
                year(1970 + count.div_euclid(12))?,
                count.rem_euclid(12) + 1
            ));
        }
        _ => ((count * whole as i128).div_euclid(ticks), count.rem_euclid(ticks)),
    };
    let day = seconds.div_euclid(DAY.into());
    let (of_year, month, day) = date_of(i64::try_from(day).ok().filter(|_| day.abs() < FAR)?);
    let date = format!("{}-{month:02}-{day:02}", year(of_year.into())?);
    let second = seconds.rem_euclid(DAY.into());
    let clock = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
    Some(match unit {
        Unit::Week | Unit::Day => date,
        Unit::Hour => format!("{date}T{}", &clock[..2]),
        Unit::Minute => format!("{date}T{}", &clock[..5]),
        Unit::Second => format!("{date}T{clock}"),
        _ => format!("{date}T{clock}.{fraction:0width$}", width = digits as usize),
    })
}

fn plural(unit: Unit) -> &'static str {
    match unit {
        Unit::Generic => "units",
        Unit::Year => "years",
        Unit::Month => "months",
        Unit::Week => "weeks",
        Unit::Day => "days",
        Unit::Hour => "hours",
        Unit::Minute => "minutes",
        Unit::Second => "seconds",
        Unit::Millisecond => "ms",
        Unit::Microsecond => "µs",
        Unit::Nanosecond => "ns",
        Unit::Picosecond => "ps",
        Unit::Femtosecond => "fs",
        Unit::Attosecond => "as",
    }
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
    fn times_of_numpy_read_as_numpy_prints_them() {
        let unit = |unit| TimeUnit { count: 1, unit };
        for (value, of, point, span) in [
            (0, Unit::Generic, "0", "0"),
            (54, Unit::Year, "2024", "54 years"),
            (-1971, Unit::Year, "-0001", "-1971 years"),
            (652, Unit::Month, "2024-05", "652 months"),
            (-1, Unit::Month, "1969-12", "-1 month"),
            (1, Unit::Week, "1970-01-08", "1 week"),
            (19_844, Unit::Day, "2024-05-01", "19844 days"),
            (3_000_000, Unit::Day, "10183-09-21", "3000000 days"),
            (25, Unit::Hour, "1970-01-02T01", "1 day 1 h"),
            (-1, Unit::Minute, "1969-12-31T23:59", "-1 min"),
            (7205, Unit::Second, "1970-01-01T02:00:05", "2 h 5 s"),
            (0, Unit::Second, "1970-01-01T00:00:00", "0 s"),
            (61_500, Unit::Millisecond, "1970-01-01T00:01:01.500", "1 min 1.5 s"),
            (1500, Unit::Microsecond, "1970-01-01T00:00:00.001500", "1.5 ms"),
            (-1, Unit::Nanosecond, "1969-12-31T23:59:59.999999999", "-1 ns"),
            (1, Unit::Picosecond, "1970-01-01T00:00:00.000000000001", "1 ps"),
            (1020, Unit::Femtosecond, "1970-01-01T00:00:00.000000000001020", "1.02 ps"),
            (7, Unit::Attosecond, "1970-01-01T00:00:00.000000000000000007", "7 as"),
            (i64::MIN, Unit::Second, "NaT", "NaT"),
        ] {
            assert_eq!(format_datetime(value, unit(of)), point, "{of:?}");
            assert_eq!(format_timedelta(value, unit(of)), span, "{of:?}");
        }
        let quarters = TimeUnit { count: 15, unit: Unit::Minute };
        assert_eq!(format_datetime(5, quarters), "1970-01-01T01:15");
        assert_eq!(format_timedelta(5, quarters), "1 h 15 min");
        let far = format_datetime(i64::MAX, unit(Unit::Second));
        assert_eq!(far, "9223372036854775807 seconds since 1970");
        assert_eq!(format_timestamp(1_714_566_600, 500_000_000), "2024-05-01T12:30:00.5Z");
        assert_eq!(format_timestamp(-1, 0), "1969-12-31T23:59:59Z");
        // Nothing overflows in any unit.
        for of in [Unit::Year, Unit::Month, Unit::Week, Unit::Day, Unit::Hour, Unit::Attosecond] {
            for value in [i64::MAX, i64::MIN + 1] {
                let most = TimeUnit { count: u32::MAX, unit: of };
                assert!(!format_datetime(value, most).is_empty());
                assert!(!format_timedelta(value, most).is_empty());
            }
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
