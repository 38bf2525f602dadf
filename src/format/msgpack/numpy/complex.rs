//! Complex numbers of Python, which are packed as text.

/// Python's `repr` of a complex number.
pub(crate) fn complex_repr(re: f64, im: f64) -> String {
    if re == 0.0 && re.is_sign_positive() {
        return format!("{}j", float_repr(im));
    }
    let imaginary = float_repr(im);
    let sign = if imaginary.starts_with('-') { "" } else { "+" };
    format!("({}{sign}{imaginary}j)", float_repr(re))
}

/// The shortest digits that read back as this number, laid out as Python does within a complex
/// number: without `.0` at the end, and without an exponent from 0.0001 up to 10^16.
fn float_repr(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if number.is_infinite() {
        return format!("{sign}inf");
    }
    let scientific = format!("{:e}", number.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits = mantissa.replace('.', "");
    let exponent: i32 = exponent.parse().unwrap_or(0);
    match exponent {
        -4..=-1 => {
            let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
            format!("{sign}0.{zeros}{digits}")
        }
        0..=15 => match digits.split_at_checked(exponent as usize + 1) {
            Some((digits, "")) => format!("{sign}{digits}"),
            Some((whole, part)) => format!("{sign}{whole}.{part}"),
            None => format!("{sign}{digits:0<0$}", exponent as usize + 1),
        },
        _ => {
            let exponent_sign = if exponent < 0 { '-' } else { '+' };
            format!("{sign}{mantissa}e{exponent_sign}{:02}", exponent.unsigned_abs())
        }
    }
}

/// The number whose `repr` this is.
pub(super) fn parse_repr(text: &str) -> Option<(f64, f64)> {
    let (re, im) = match text.strip_prefix('(') {
        None => (0.0, text.strip_suffix('j')?.parse().ok()?),
        Some(rest) => {
            let parts = rest.strip_suffix("j)")?;
            // The last sign that does not belong to an exponent.
            let signs = parts.rmatch_indices(['+', '-']).map(|(at, _)| at);
            let at = signs.into_iter().find(|&at| at > 0 && !parts[..at].ends_with('e'))?;
            (parts[..at].parse().ok()?, parts[at..].parse().ok()?)
        }
    };
    (complex_repr(re, im) == text).then_some((re, im))
}

/// The number that `complex` of Python makes of a text: with spaces around it, in parentheses or
/// not, with underscores between digits, and with either part missing.
pub(super) fn parse_any(text: &str) -> Option<(f64, f64)> {
    let text = text.trim();
    let text = match text.strip_prefix('(') {
        Some(inner) => inner.strip_suffix(')')?.trim(),
        None => text,
    };
    let text = without_underscores(text)?.to_ascii_lowercase();
    let Some(body) = text.strip_suffix('j') else {
        return Some((text.parse().ok()?, 0.0));
    };
    // The last sign outside an exponent separates the two, if there are two.
    let mut signs = body.rmatch_indices(['+', '-']).map(|(at, _)| at);
    let at = signs.find(|&at| at == 0 || !body[..at].ends_with('e')).unwrap_or(0);
    let re = if at > 0 { body[..at].parse().ok()? } else { 0.0 };
    let im = match &body[at..] {
        "" | "+" => 1.0,
        "-" => -1.0,
        digits => digits.parse().ok()?,
    };
    Some((re, im))
}

/// The text without underscores. Each of them must be between digits.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let between = |at: usize| at > 0 && is_digit(at - 1) && is_digit(at + 1);
    let valid = text.match_indices('_').all(|(at, _)| between(at));
    valid.then(|| text.replace('_', ""))
}
