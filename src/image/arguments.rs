//! [`Arguments`]: what stands in the parentheses of a step, by place or by name.

use std::fmt;

use super::step::{NewSize, Padding, Range, Size, unfit};
use crate::error::{Error, ErrorKind, Result};

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The known names that are near to one that is not known; all of them if none is.
pub(super) fn near<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let is_near = |other: &&str| distance(name, other) <= 1 + name.len().min(other.len()) / 4;
    let is_part = |other: &&str| name.len() > 2 && (other.contains(name) || name.contains(*other));
    let mut found: Vec<&str> = known.clone().filter(is_near).collect();
    if found.is_empty() {
        found = known.clone().filter(is_part).collect();
    }
    match &found[..] {
        [] => format!("there are {}", known.collect::<Vec<_>>().join(", ")),
        near => format!("near names are {}", near.join(", ")),
    }
}

/// Letters to add, remove or replace to make one name of the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let replaced = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(corner + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

/// A value of an argument.
#[derive(Debug, Clone)]
pub(super) enum Value<'a> {
    /// A number or a word.
    Word(&'a str),
    List(Vec<&'a str>),
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Word(word) => write!(f, "{word:?}"),
            Value::List(words) => write!(f, "({})", words.join(", ")),
        }
    }
}

/// The values of a step's arguments, by name.
pub(super) struct Arguments<'a> {
    pub(super) values: Vec<(&'static str, Value<'a>)>,
}

/// The arguments in parentheses, if there are any.
pub(super) fn arguments<'a>(
    text: &'a str,
    names: &'static [&'static str],
) -> Result<Arguments<'a>> {
    let mut found = Arguments { values: Vec::new() };
    if text.is_empty() {
        return Ok(found);
    }
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let inner = inner.ok_or_else(|| unfit("arguments in parentheses", format!("{text:?}")))?.trim();
    if inner.is_empty() {
        return Ok(found);
    }
    // As in Python, a comma may follow the last one.
    let inner = inner.strip_suffix(',').unwrap_or(inner);
    let mut named = false;
    for argument in at_commas(inner)? {
        let argument = argument.trim();
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => {
                named = true;
                let name = name.trim();
                let known = names.iter().find(|known| **known == name).copied();
                (known.ok_or_else(|| no_argument(name, names))?, value.trim())
            }
            None if named => {
                return Err(unfit("a name for each argument after a named one", argument));
            }
            None => match names.get(found.values.len()) {
                Some(name) => (*name, argument),
                None => {
                    let expected = format!("no arguments after {}", names.join(", "));
                    return Err(unfit(expected, format!("{argument:?}")));
                }
            },
        };
        if found.values.iter().any(|(known, _)| *known == name) {
            return Err(unfit(format!("{name} once"), "it twice"));
        }
        found.values.push((name, value_of(name, value)?));
    }
    Ok(found)
}

fn no_argument(name: &str, names: &[&str]) -> Error {
    if name == "antialias" {
        return unfit("no argument antialias, as antialiasing is always on", "one");
    }
    let near = near(name, names.iter().copied());
    Error::new(ErrorKind::Invalid, format!("expected an argument, found {name:?}; {near}"))
}

/// The pieces between commas that are not in parentheses.
fn at_commas(text: &str) -> Result<Vec<&str>> {
    let (mut depth, mut start, mut pieces) = (0usize, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => {
                let less = depth.checked_sub(1);
                depth = less.ok_or_else(|| unfit("matching parentheses", format!("{text:?}")))?;
            }
            ',' if depth == 0 => {
                pieces.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(unfit("matching parentheses", format!("{text:?}")));
    }
    pieces.push(&text[start..]);
    Ok(pieces)
}

fn value_of<'a>(name: &str, text: &'a str) -> Result<Value<'a>> {
    let is_plain = |word: &str| {
        let ok = |c: char| is_word(c) || matches!(c, '.' | '-' | '+');
        !word.is_empty() && word.chars().all(ok)
    };
    let bracketed = |open, close| text.strip_prefix(open).and_then(|t| t.strip_suffix(close));
    let value = match bracketed('(', ')').or_else(|| bracketed('[', ']')) {
        Some(inner) => {
            let inner = inner.trim();
            // As in Python, `(1,)` is a list of one.
            let inner = inner.strip_suffix(',').unwrap_or(inner);
            Value::List(inner.split(',').map(str::trim).collect())
        }
        None => Value::Word(text),
    };
    let is_value = match &value {
        Value::Word(word) => is_plain(word),
        Value::List(words) => words.iter().all(|word| is_plain(word)),
    };
    match is_value {
        true => Ok(value),
        false => Err(unfit(format!("a value of {name}"), format!("{text:?}"))),
    }
}

impl<'a> Arguments<'a> {
    pub(super) fn get(&self, name: &str) -> Option<&Value<'a>> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(super) fn needs(&self, name: &str) -> Result<&Value<'a>> {
        self.get(name).ok_or_else(|| unfit(format!("a {name}"), "none"))
    }

    /// One of several words.
    pub(super) fn word<T: Copy>(&self, name: &str, known: &[(&str, T)], default: T) -> Result<T> {
        let Some(value) = self.get(name) else { return Ok(default) };
        let found = match value {
            Value::Word(word) => known.iter().find(|(known, _)| known == word),
            Value::List(_) => None,
        };
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let error = || unfit(format!("one of {} as {name}", names.join(", ")), value);
        found.map(|(_, value)| *value).ok_or_else(error)
    }

    pub(super) fn float(&self, name: &str, default: f64) -> Result<f64> {
        match self.get(name) {
            Some(Value::Word(word)) => float(name, word),
            Some(value) => Err(unfit(format!("a number as {name}"), value)),
            None => Ok(default),
        }
    }

    pub(super) fn integer(&self, name: &str) -> Result<Option<u64>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = match value {
            Value::Word(word) => word.parse().ok(),
            Value::List(_) => None,
        };
        number.map(Some).ok_or_else(|| unfit(format!("a whole number as {name}"), value))
    }

    pub(super) fn floats(&self, name: &str) -> Result<Vec<f64>> {
        match self.needs(name)? {
            Value::Word(word) => Ok(vec![float(name, word)?]),
            Value::List(words) => words.iter().map(|word| float(name, word)).collect(),
        }
    }

    pub(super) fn range(&self, name: &str, default: Range) -> Result<Range> {
        let Some(value) = self.get(name) else { return Ok(default) };
        match value {
            Value::List(words) if words.len() == 2 => {
                Ok((float(name, words[0])?, float(name, words[1])?))
            }
            _ => Err(unfit(format!("two numbers as {name}"), value)),
        }
    }

    /// The range of a factor: given, or around a centre.
    pub(super) fn jitter(
        &self,
        name: &str,
        around: fn(f64) -> Option<Range>,
    ) -> Result<Option<Range>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Word(word)) => {
                let strength = float(name, word)?;
                match strength >= 0.0 {
                    true => Ok(around(strength)),
                    false => Err(unfit(format!("a {name} of 0 or more"), word)),
                }
            }
            Some(Value::List(_)) => self.range(name, (0.0, 0.0)).map(Some),
        }
    }

    pub(super) fn integers(&self, name: &str) -> Result<Option<Vec<u32>>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let words = match value {
            Value::Word(word) => std::slice::from_ref(word),
            Value::List(words) => words,
        };
        let numbers: Option<Vec<u32>> = words.iter().map(|word| word.parse().ok()).collect();
        numbers.map(Some).ok_or_else(|| unfit(format!("whole numbers as {name}"), value))
    }

    pub(super) fn size(&self) -> Result<NewSize> {
        let value = self.needs("size")?;
        match self.integers("size")?.as_deref() {
            Some(&[side]) => Ok(NewSize::Short(side)),
            Some(&[height, width]) => Ok(NewSize::Exact(Size { height, width })),
            _ => Err(unfit("a side or (height, width) as size", value)),
        }
    }

    pub(super) fn exact_size(&self) -> Result<Size> {
        Ok(match self.size()? {
            NewSize::Short(side) => Size::square(side),
            NewSize::Exact(size) => size,
        })
    }

    pub(super) fn padding(&self) -> Result<Padding> {
        match self.integers("padding")?.as_deref() {
            None => Ok(Padding::default()),
            Some(&[all]) => Ok(Padding::all(all)),
            Some(&[x, y]) => Ok(Padding { left: x, top: y, right: x, bottom: y }),
            Some(&[left, top, right, bottom]) => Ok(Padding { left, top, right, bottom }),
            Some(other) => Err(unfit("1, 2 or 4 numbers as padding", other.len())),
        }
    }

    /// How many columns and rows.
    pub(super) fn kernel_size(&self) -> Result<[u32; 2]> {
        let value = self.needs("kernel_size")?;
        match self.integers("kernel_size")?.as_deref() {
            Some(&[both]) => Ok([both; 2]),
            Some(&[columns, rows]) => Ok([columns, rows]),
            _ => Err(unfit("a number or (columns, rows) as kernel_size", value)),
        }
    }

    /// A range of angles: given, or a number to both sides.
    pub(super) fn degrees(&self) -> Result<Range> {
        if self.get("degrees").is_none() {
            return Err(unfit("degrees", "none"));
        }
        match self.floats("degrees")?[..] {
            [both] => to_both_sides("degrees", both),
            [from, to] => Ok((from, to)),
            _ => Err(unfit("a number or a range as degrees", self.needs("degrees")?)),
        }
    }

    /// The ranges of angles of shears along x and along y.
    pub(super) fn shear(&self) -> Result<Option<(Range, Option<Range>)>> {
        let Some(value) = self.get("shear") else { return Ok(None) };
        Ok(Some(match self.floats("shear")?[..] {
            [both] => (to_both_sides("shear", both)?, None),
            [from, to] => ((from, to), None),
            [x0, x1, y0, y1] => ((x0, x1), Some((y0, y1))),
            _ => return Err(unfit("1, 2 or 4 numbers as shear", value)),
        }))
    }

    /// The values of channels.
    pub(super) fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        let Some(numbers) = self.integers(name)? else { return Ok(vec![0]) };
        let bytes: std::result::Result<Vec<u8>, _> =
            numbers.iter().map(|&number| u8::try_from(number)).collect();
        bytes.map_err(|_| unfit(format!("numbers of 0 to 255 as {name}"), format!("{numbers:?}")))
    }
}

fn to_both_sides(name: &str, number: f64) -> Result<Range> {
    match number >= 0.0 {
        true => Ok((-number, number)),
        false => Err(unfit(format!("a number of 0 or more, or a range, as {name}"), number)),
    }
}

fn float(name: &str, word: &str) -> Result<f64> {
    let number = word.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| unfit(format!("a number as {name}"), format!("{word:?}")))
}
