//! Braces in names: `{000..063}` stands for many names.

use crate::error::{Error, ErrorKind, Result};

/// The most names of one pattern.
const MAX_NAMES: usize = 1 << 20;
/// The most bytes of all these names together.
const MAX_BYTES: usize = 256 << 20;

/// Expands braces in a name as shells and webdataset do: `{a,b}` are alternatives, `{000..012}` and
/// `{3..1}` are numbers, with leading zeros if one end has some.
///
/// Braces without a comma or two dots stay as they are. A pattern for more than 2^20 names, or for
/// more than 256 MiB of names, is an error.
pub fn expand_braces(pattern: &str) -> Result<Vec<String>> {
    let mut names = Names { pattern, names: vec![String::new()], bytes: 0 };
    let mut rest = pattern;
    while let Some(open) = rest.find('{') {
        let close = rest[open..].find('}').map(|close| open + close);
        let choices = close.and_then(|close| alternatives(&rest[open + 1..close]));
        let (Some(close), Some(choices)) = (close, choices) else {
            names.append(&rest[..=open])?;
            rest = &rest[open + 1..];
            continue;
        };
        names.append(&rest[..open])?;
        names.append_each(&choices)?;
        rest = &rest[close + 1..];
    }
    names.append(rest)?;
    Ok(names.names)
}

/// The names so far, and their bytes.
struct Names<'a> {
    pattern: &'a str,
    names: Vec<String>,
    bytes: usize,
}

impl Names<'_> {
    fn append(&mut self, text: &str) -> Result<()> {
        self.bytes = self.bytes.saturating_add(text.len().saturating_mul(self.names.len()));
        self.check(self.names.len())?;
        self.names.iter_mut().for_each(|name| name.push_str(text));
        Ok(())
    }

    /// Appends each of the choices to each name.
    fn append_each(&mut self, choices: &[String]) -> Result<()> {
        let len = choices.iter().map(String::len).sum::<usize>().saturating_mul(self.names.len());
        self.bytes = self.bytes.saturating_mul(choices.len()).saturating_add(len);
        self.check(choices.len().saturating_mul(self.names.len()))?;
        let each = |name: &String| choices.iter().map(|c| format!("{name}{c}")).collect::<Vec<_>>();
        self.names = self.names.iter().flat_map(each).collect();
        Ok(())
    }

    /// Fails if there would be too many names, or too many bytes of them.
    fn check(&self, count: usize) -> Result<()> {
        // A single name has no more bytes than the pattern.
        if count <= MAX_NAMES && (count <= 1 || self.bytes <= MAX_BYTES) {
            return Ok(());
        }
        let mut pattern: String = self.pattern.chars().take(200).collect();
        if pattern.len() < self.pattern.len() {
            pattern += "...";
        }
        let message = format!(
            "expected at most {MAX_NAMES} names with {} MiB in all from {pattern:?}, found more",
            MAX_BYTES >> 20
        );
        Err(Error::new(ErrorKind::Limit, message))
    }
}

/// The alternatives between two braces, if there are any; of numbers, one more than the limit.
fn alternatives(inner: &str) -> Option<Vec<String>> {
    if inner.contains(',') {
        return Some(inner.split(',').map(str::to_owned).collect());
    }
    let (from, to) = inner.split_once("..")?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(from) || !is_number(to) {
        return None;
    }
    let padded = |text: &str| text.len() > 1 && text.starts_with('0');
    let width = if padded(from) || padded(to) { from.len().max(to.len()) } else { 0 };
    // Longer than any name of a file.
    if width > 1024 {
        return None;
    }
    let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
    let name = |number: u64| format!("{number:0width$}");
    Some(match from <= to {
        true => (from..=to).take(MAX_NAMES + 1).map(name).collect(),
        false => (to..=from).rev().take(MAX_NAMES + 1).map(name).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces() {
        let table: &[(&str, &[&str])] = &[
            ("", &[""]),
            ("a", &["a"]),
            ("{3..1}", &["3", "2", "1"]),
            ("{08..1}", &["08", "07", "06", "05", "04", "03", "02", "01"]),
            ("x{a,,b}y", &["xay", "xy", "xby"]),
            ("{", &["{"]),
            ("{{1..2}}", &["{1}", "{2}"]),
            ("{a..b}{-1..2}", &["{a..b}{-1..2}"]),
            (
                "{18446744073709551614..18446744073709551615}",
                &["18446744073709551614", "18446744073709551615"],
            ),
        ];
        for (pattern, names) in table {
            assert_eq!(expand_braces(pattern).unwrap(), *names, "{pattern}");
        }
        assert_eq!(expand_braces("{0..999999}{1..2}").unwrap_err().kind(), ErrorKind::Limit);
        assert_eq!(expand_braces("{0..99999999999999999}").unwrap_err().kind(), ErrorKind::Limit);
        // Names may be long, or many, but not both.
        let long = "x".repeat(64 << 10);
        assert_eq!(expand_braces(&format!("{{0..99}}{long}")).unwrap().len(), 100);
        let error = expand_braces(&format!("{{0..99999}}{long}")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        // A long list is not taken for many long names.
        let list = format!("{{{}}}", vec!["some-name-in-a-list"; 20_000].join(","));
        assert_eq!(expand_braces(&list).unwrap().len(), 20_000);
    }

    #[test]
    fn numbers_of_absurd_width_are_text() {
        let zeros = "0".repeat(70_000);
        for pattern in [format!("{{{zeros}..5}}"), format!("{{{zeros}..1048575}}")] {
            assert_eq!(expand_braces(&pattern).unwrap(), [pattern]);
        }
    }
}
