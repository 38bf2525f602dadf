//! Numbers as people read them.

use std::time::Duration;

/// `1,406,659`
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `6,913.4`, `0.001`, `-1e-9`: six digits, without those that only adding up has made.
pub fn number(number: f64) -> String {
    let number: f64 = match number.fract() == 0.0 && number.abs() < 1e15 {
        true => number,
        false => format!("{number:.5e}").parse().unwrap_or(number),
    };
    if number != 0.0 && !(1e-4..1e15).contains(&number.abs()) {
        return format!("{number:e}");
    }
    let text = number.abs().to_string();
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let sign = if number < 0.0 { "-" } else { "" };
    format!("{sign}{}{fraction}", whole.parse().map_or_else(|_| whole.to_owned(), count))
}

/// `1 sample`, `5,000 samples`
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// `1.4 MB`, in powers of ten as disks and networks are sold
pub fn bytes(number: u64) -> String {
    match number {
        0..1000 => format!("{number} B"),
        _ => scaled(number as f64, &["B", "kB", "MB", "GB", "TB", "PB", "EB"]),
    }
}

/// `1.2 GB/s`
pub fn byte_rate(bytes: u64, time: Duration) -> String {
    scaled(per_second(bytes, time), &["B/s", "kB/s", "MB/s", "GB/s", "TB/s"])
}

/// `4.1 M samples/s`
pub fn sample_rate(samples: u64, time: Duration) -> String {
    let units = ["samples/s", "k samples/s", "M samples/s", "G samples/s"];
    scaled(per_second(samples, time), &units)
}

/// `12 µs`, `3.4 ms`, `0.21 s`, `2 min 5 s`
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        0.0..0.001 => format!("{:.0} µs", seconds * 1e6),
        0.001..0.1 => format!("{:.1} ms", seconds * 1e3),
        0.1..10.0 => format!("{seconds:.2} s"),
        10.0..120.0 => format!("{seconds:.0} s"),
        _ => format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60),
    }
}

/// The time left of something long: `8 s`, `12 min`, `3 h 5 min`
pub fn time(time: Duration) -> String {
    match time.as_secs_f64().round() as u64 {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds @ 100..6000 => format!("{} min", (seconds + 30) / 60),
        seconds @ 6000..172_800 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// `1000`, `64k`, `500M`, `2G`, `1.5GB`, `2GiB`
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let expected = || "expected a number of bytes such as 500M, 2G or 1.5GiB".to_string();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..at].parse().map_err(|_| expected())?;
    let unit = text[at..].trim().to_ascii_lowercase();
    let factor = match unit.as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024f64,
        "mib" => 1024f64.powi(2),
        "gib" => 1024f64.powi(3),
        "tib" => 1024f64.powi(4),
        _ => return Err(expected()),
    };
    match number * factor {
        product if product >= 1.0 => Ok(product as u64),
        _ => Err(format!("{} is nothing", bytes(0))),
    }
}

fn per_second(number: u64, time: Duration) -> f64 {
    number as f64 / time.as_secs_f64().max(1e-9)
}

/// Two or three digits and the unit that makes them so.
fn scaled(mut number: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // A number that would round to 1000 is 1 of the next unit.
    while number >= 999.5 && unit + 1 < units.len() {
        number /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(number < 9.95 && (unit > 0 || number.fract() > 0.0));
    format!("{number:.digits$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_no_digits_of_chance() {
        let numbers = [0.1 + 0.2, 1_234_567.0, 6913.4167, -2.5e-9, 0.0, -1e300, 0.5].map(number);
        assert_eq!(numbers.join(" "), "0.3 1,234,567 6,913.42 -2.5e-9 0 -1e300 0.5");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [count(0), count(999), count(1000), count(1406659)].join(" "),
            "0 999 1,000 1,406,659"
        );
        let sizes = [0, 999, 1000, 9_949, 9_950, 999_499, 999_500, 1_406_659, u64::MAX].map(bytes);
        let expected = "0 B|999 B|1.0 kB|9.9 kB|10 kB|999 kB|1.0 MB|1.4 MB|18 EB";
        assert_eq!(sizes.join("|"), expected);
        assert_eq!(counted(1, "sample"), "1 sample");
        assert_eq!(sample_rate(5_000, Duration::from_millis(1)), "5.0 M samples/s");
        let times = [12e-6, 3.44e-3, 0.21, 42.4, 125.0].map(Duration::from_secs_f64);
        assert_eq!(times.map(duration).join("|"), "12 µs|3.4 ms|0.21 s|42 s|2 min 5 s");
        let times = [0.2, 99.4, 1000.0, 7500.0, 180_000.0].map(Duration::from_secs_f64);
        assert_eq!(times.map(time).join("|"), "0 s|99 s|17 min|2 h 5 min|2 days");
    }

    #[test]
    fn bytes_have_units() {
        let good = ["1000", "64k", "500M", "2G", "1.5GB", "2KiB"].map(|t| parse_bytes(t).unwrap());
        assert_eq!(good, [1000, 64_000, 500_000_000, 2_000_000_000, 1_500_000_000, 2048]);
        for wrong in ["", "G", "-1", "2X", "0", "1..2"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
