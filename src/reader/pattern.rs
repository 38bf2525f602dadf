//! Patterns of names: Python's `fnmatch`, and its `glob` in a fixed order.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::links::Links;
use crate::error::{Error, ErrorKind, Result};
use crate::natural::natural_order;

/// Stands in a pattern for the path component that is the label.
pub(super) const LABEL: &str = "{LABEL}";

/// Which names are kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    /// Names match one of these, if there are any.
    pub(crate) include: Vec<NamePattern>,
    /// And none of these.
    pub(crate) exclude: Vec<NamePattern>,
}

impl Filter {
    pub(crate) fn keeps(&self, name: &str) -> bool {
        let included = self.include.iter().any(|pattern| pattern.matches(name));
        (self.include.is_empty() || included) && !self.excludes(name)
    }

    /// Whether it is left out by name, and not only because others are asked for.
    pub(crate) fn excludes(&self, name: &str) -> bool {
        self.exclude.iter().any(|pattern| pattern.matches(name))
    }
}

/// A pattern of names, by the rules of Python's `fnmatch`. It matches whole names.
///
/// `*` is any text, `/` and nothing included; `?` one character; `[a-z_]` one of these and
/// `[!a-z]` one of all others, where `]` counts as a member if it comes first. All else stands
/// for itself: `^`, a backslash, a `[` that is never closed. Case matters.
///
/// ```
/// use kiste::reader::NamePattern;
///
/// assert!(NamePattern::new("*.[jJ][pP]g").matches("cat/1.jpg"));
/// assert!(!NamePattern::new("[!a-f]*").matches("cat/1.jpg"));
/// ```
#[derive(Debug, Clone)]
pub struct NamePattern {
    parts: Vec<Part>,
    ignores_case: bool,
}

impl NamePattern {
    /// Any text is a pattern.
    pub fn new(pattern: &str) -> NamePattern {
        NamePattern { parts: parse(pattern), ignores_case: false }
    }

    /// A pattern of `LIKE` in SQL: `%` is any text, `_` one character, and a backslash in front of one of
    /// these or of another backslash takes its meaning away.
    #[cfg(feature = "arrays")]
    pub(crate) fn like(pattern: &str) -> NamePattern {
        let mut chars = pattern.chars().peekable();
        let mut parts = Vec::new();
        while let Some(c) = chars.next() {
            parts.push(match c {
                '%' => Part::Any,
                '_' => Part::One,
                '\\' => Part::This(chars.next_if(|c| "%_\\".contains(*c)).unwrap_or('\\')),
                c => Part::This(c),
            });
        }
        NamePattern { parts, ignores_case: false }
    }

    /// The same for capital and small letters alike.
    #[cfg(feature = "arrays")]
    pub(crate) fn ignoring_case(mut self) -> NamePattern {
        for part in &mut self.parts {
            if let Part::This(c) = part {
                *c = small(*c);
            }
        }
        self.ignores_case = true;
        self
    }

    /// The patterns of a list.
    pub(crate) fn all<S: Into<String>>(patterns: impl IntoIterator<Item = S>) -> Vec<NamePattern> {
        patterns.into_iter().map(|pattern| NamePattern::new(&pattern.into())).collect()
    }

    /// Whether a name matches it.
    pub fn matches(&self, name: &str) -> bool {
        let (mut rest, mut parts) = (name.chars(), &self.parts[..]);
        let is = |part: &Part, c: char| match self.ignores_case {
            false => part.matches(c),
            true => part.matches_any_case(c),
        };
        // The part after the last star can only be at the end, and most names do not end like this.
        if let Some(last) = parts.iter().rposition(|part| matches!(part, Part::Any)) {
            let (before, after) = parts.split_at(last + 1);
            let mut ends = after.iter().rev();
            if !ends.all(|one| rest.next_back().is_some_and(|c| is(one, c))) {
                return false;
            }
            parts = before;
        }
        let mut part = 0;
        // Where to continue after a mismatch: the last star, and what is behind its reach.
        let mut star = None;
        loop {
            if let Some(Part::Any) = parts.get(part) {
                part += 1;
                if part == parts.len() {
                    return true;
                }
                star = Some((part, rest.clone()));
                continue;
            }
            let Some(c) = rest.next() else { return part == parts.len() };
            if parts.get(part).is_some_and(|one| is(one, c)) {
                part += 1;
                continue;
            }
            let Some((after_star, reach)) = &mut star else { return false };
            // One character more for the star.
            reach.next();
            (rest, part) = (reach.clone(), *after_star);
        }
    }
}

#[derive(Debug, Clone)]
enum Part {
    /// Any text.
    Any,
    /// Any character.
    One,
    This(char),
    /// A character of these ranges, or of none of them.
    Set {
        ranges: Vec<(char, char)>,
        negated: bool,
    },
}

impl Part {
    fn matches(&self, c: char) -> bool {
        match self {
            Part::Any => false,
            Part::One => true,
            Part::This(this) => *this == c,
            Part::Set { ranges, negated } => {
                ranges.iter().any(|&(first, last)| first <= c && c <= last) != *negated
            }
        }
    }

    /// The same where `This` is a small letter, and sets mean both.
    fn matches_any_case(&self, c: char) -> bool {
        let small = small(c);
        match self {
            Part::Set { ranges, negated } => {
                let large = only(c.to_uppercase()).unwrap_or(c);
                let has = |c| ranges.iter().any(|&(first, last)| first <= c && c <= last);
                (has(c) || has(small) || has(large)) != *negated
            }
            one => one.matches(small),
        }
    }
}

/// The small letter of a letter: one for `Σ`, `σ` and `ς`. Letters that become several stay as they are.
fn small(c: char) -> char {
    let large = only(c.to_uppercase()).unwrap_or(c);
    only(large.to_lowercase()).unwrap_or(c)
}

fn only(mut chars: impl Iterator<Item = char>) -> Option<char> {
    chars.next().filter(|_| chars.next().is_none())
}

fn parse(pattern: &str) -> Vec<Part> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut parts = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        at += 1;
        parts.push(match chars[at - 1] {
            '*' => Part::Any,
            '?' => Part::One,
            '[' => match parse_set(&chars[at..]) {
                Some((set, len)) => {
                    at += len;
                    set
                }
                None => Part::This('['),
            },
            c => Part::This(c),
        });
    }
    parts
}

/// A set, whose opening bracket was read, and its length up to and with the closing one.
fn parse_set(chars: &[char]) -> Option<(Part, usize)> {
    let negated = chars.first() == Some(&'!');
    let start = usize::from(negated);
    // The first member may be a bracket.
    let len = chars.get(start + 1..)?.iter().position(|&c| c == ']')? + 1;
    let members = &chars[start..start + len];
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < members.len() {
        let (range, len) = match members[at..] {
            [first, '-', last, ..] => ((first, last), 3),
            _ => ((members[at], members[at]), 1),
        };
        ranges.push(range);
        at += len;
    }
    Some((Part::Set { ranges, negated }, start + len + 1))
}

/// A pattern of paths, in which one component may be `{LABEL}`.
pub(crate) struct PathPattern {
    /// Without doubled slashes, `*` in place of the label.
    components: Vec<String>,
    label: Option<usize>,
}

impl PathPattern {
    /// Takes a pattern apart. `{LABEL}` must be a whole component; only the first one counts.
    pub(crate) fn parse(pattern: &str) -> Result<PathPattern> {
        let mut components: Vec<String> = Vec::new();
        for (i, component) in pattern.split('/').enumerate() {
            // An empty one at the front means the root.
            if i == 0 || !component.is_empty() {
                components.push(component.to_string());
            }
        }
        let label = components.iter().position(|component| component == LABEL);
        if label.is_none() && pattern.contains(LABEL) {
            let message = format!("expected {LABEL} as a whole component, found {pattern:?}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if let Some(label) = label {
            components[label] = "*".to_string();
        }
        Ok(PathPattern { components, label })
    }

    /// The component that is the label.
    pub(super) fn label(&self) -> Option<usize> {
        self.label
    }

    /// The components, `*` for the label.
    pub(super) fn components(&self) -> &[String] {
        &self.components
    }

    /// The files below `root` that match, and their labels, in natural order of their paths.
    ///
    /// As Python's `glob`: `**` as a whole component is any number of directories, none included;
    /// other wildcards stay within a component; hidden names match only what begins with a dot
    /// itself. Links to directories are followed, except to those that they are in.
    pub(crate) fn glob(&self, root: &Path) -> Result<Vec<(String, Option<String>)>> {
        let mut unnamed = Vec::new();
        let found = self.glob_noting(root, &mut unnamed)?;
        check_named(&unnamed)?;
        Ok(found)
    }

    /// The same, with what has a name that is not UTF-8, and so can be neither matched nor a key,
    /// for the caller to report.
    pub(crate) fn glob_noting(
        &self,
        root: &Path,
        unnamed: &mut Vec<PathBuf>,
    ) -> Result<Vec<(String, Option<String>)>> {
        let mut found = Vec::new();
        let (base, skip) = match self.components.first() {
            Some(first) if first.is_empty() && self.components.len() > 1 => ("/", 1),
            _ => ("", 0),
        };
        Search { root, pattern: self, found: &mut found, unnamed }.expand(base, skip, None)?;
        unnamed.sort();
        unnamed.dedup();
        found.sort_by(|a, b| natural_order(&a.0, &b.0));
        found.dedup_by(|a, b| a.0 == b.0);
        Ok(found)
    }
}

/// Fails if there is a name that is not UTF-8.
pub(crate) fn check_named(unnamed: &[PathBuf]) -> Result<()> {
    match unnamed.first() {
        Some(path) => {
            let message = "the name is not UTF-8, so it cannot be a key";
            Err(Error::new(ErrorKind::Invalid, message).at(path))
        }
        None => Ok(()),
    }
}

struct Search<'a> {
    root: &'a Path,
    pattern: &'a PathPattern,
    found: &'a mut Vec<(String, Option<String>)>,
    unnamed: &'a mut Vec<PathBuf>,
}

/// The name of an entry.
enum Name {
    Text(String),
    /// One that is not UTF-8: as much as can be shown of it, and the path.
    Other(String, PathBuf),
}

impl Search<'_> {
    /// Follows the components from number `at` on, from the path that those before it led to.
    fn expand(&mut self, base: &str, at: usize, label: Option<&str>) -> Result<()> {
        let Some(component) = self.pattern.components.get(at) else {
            if !base.is_empty() && self.root.join(base).is_file() {
                self.found.push((base.to_string(), label.map(str::to_string)));
            }
            return Ok(());
        };
        if component == "**" {
            return self.descend(base, at, label, &mut Links::default());
        }
        if !component.contains(['*', '?', '[']) {
            return self.expand(&join(base, component), at + 1, label);
        }
        let is_last = at + 1 == self.pattern.components.len();
        let pattern = NamePattern::new(component);
        for name in self.list(base)? {
            let (Name::Text(shown) | Name::Other(shown, _)) = &name;
            let visible = !shown.starts_with('.') || component.starts_with('.');
            if !visible || !pattern.matches(shown) {
                continue;
            }
            let name = match name {
                Name::Text(name) => name,
                Name::Other(_, path) => {
                    self.unnamed.push(path);
                    continue;
                }
            };
            let path = join(base, &name);
            if is_last || self.root.join(&path).is_dir() {
                let label = if self.pattern.label == Some(at) { Some(&*name) } else { label };
                self.expand(&path, at + 1, label)?;
            }
        }
        Ok(())
    }

    /// `**` at this component: here, and in all directories below.
    fn descend(
        &mut self,
        base: &str,
        at: usize,
        label: Option<&str>,
        links: &mut Links,
    ) -> Result<()> {
        self.expand(base, at + 1, label)?;
        let is_last = at + 1 == self.pattern.components.len();
        for name in self.list(base)? {
            let name = match name {
                Name::Text(name) | Name::Other(name, _) if name.starts_with('.') => continue,
                Name::Text(name) => name,
                Name::Other(_, path) => {
                    if is_last || path.is_dir() {
                        self.unnamed.push(path);
                    }
                    continue;
                }
            };
            let path = join(base, &name);
            let full = self.root.join(&path);
            if full.is_dir() {
                links.enter(&full, |links| self.descend(&path, at, label, links))?;
            } else if is_last {
                self.expand(&path, at + 1, label)?;
            }
        }
        Ok(())
    }

    /// The names in a directory; none where there is no directory.
    fn list(&self, base: &str) -> Result<Vec<Name>> {
        let mut dir = self.root.join(base);
        if dir.as_os_str().is_empty() {
            dir.push(".");
        }
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(e)
                if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                return Ok(Vec::new());
            }
            Err(e) => return Err(Error::io(dir, e)),
        };
        let name = |entry: io::Result<fs::DirEntry>| {
            let entry = entry.map_err(|e| Error::io(&dir, e))?;
            Ok(match entry.file_name().into_string() {
                Ok(name) => Name::Text(name),
                Err(name) => Name::Other(name.to_string_lossy().into_owned(), entry.path()),
            })
        };
        entries.map(name).collect()
    }
}

fn join(base: &str, name: &str) -> String {
    match base {
        "" => name.to_string(),
        _ if base.ends_with('/') => format!("{base}{name}"),
        _ => format!("{base}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All strings of up to this many of these characters.
    fn texts(of: &[char], most: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut from = 0;
        for _ in 0..most {
            let longer =
                all[from..].iter().flat_map(|text| of.iter().map(move |c| format!("{text}{c}")));
            let longer: Vec<String> = longer.collect();
            from = all.len();
            all.extend(longer);
        }
        all
    }

    fn plainly(parts: &[Part], name: &str) -> bool {
        let mut rest = name.chars();
        match parts {
            [] => name.is_empty(),
            [Part::Any, after @ ..] => {
                plainly(after, name) || rest.next().is_some() && plainly(parts, rest.as_str())
            }
            [one, after @ ..] => {
                rest.next().is_some_and(|c| one.matches(c)) && plainly(after, rest.as_str())
            }
        }
    }

    #[test]
    fn patterns_match_as_their_parts_say() {
        let names = texts(&['a', 'b', 'ä'], 5);
        for pattern in texts(&['a', 'ä', '*', '?'], 5)
            .iter()
            .map(String::as_str)
            .chain(["*[!a]b", "[ab]*ä[b]"])
        {
            let pattern = NamePattern::new(pattern);
            for name in &names {
                let expected = plainly(&pattern.parts, name);
                assert_eq!(pattern.matches(name), expected, "{pattern:?} {name:?}");
            }
        }
    }

    #[test]
    #[cfg(feature = "arrays")]
    fn patterns_of_sql_and_of_any_case() {
        for (pattern, name, expected) in [
            ("a%", "abc", true),
            ("a%", "A", false),
            ("%b_", "abc", true),
            ("_", "", false),
            ("%", "", true),
            ("a*[b]?", "a*[b]?", true),
            ("100\\%", "100%", true),
            ("100\\%", "1000", false),
            ("a\\_\\\\\\b\\", "a_\\\\b\\", true),
        ] {
            assert_eq!(NamePattern::like(pattern).matches(name), expected, "{pattern} {name}");
        }
        for (pattern, name, expected) in [
            ("*.JPG", "a.jPg", true),
            ("größe", "GRÖßE", true),
            ("σας*", "ΣΑΣ", true),
            ("straße", "STRASSE", false),
            ("[a-c]", "B", true),
            ("[A-C]", "b", true),
            ("[!a-c]", "B", false),
            ("[!a-c]", "D", true),
        ] {
            let pattern = NamePattern::new(pattern).ignoring_case();
            assert_eq!(pattern.matches(name), expected, "{pattern:?} {name}");
        }
        // Quadratic, which this would show if it were worse.
        let long = "a".repeat(10_000);
        assert!(!NamePattern::like(&"a%".repeat(100).replace("%a%", "%a_%")).matches("b"));
        assert!(!NamePattern::like(&format!("{}b%", "%a".repeat(50))).matches(&long));
    }
}
