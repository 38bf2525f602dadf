//! Lengths of samples of readers that were put together, or chosen from, and which fields they are of.

use std::borrow::Cow;
use std::sync::Arc;

use twox_hash::XxHash3_64;

use super::Selection;
use crate::error::{Error, ErrorKind, Result};
use crate::sampler::Lengths;
use crate::sampler::lengths::no_length;

/// What a column is called that has the bytes of packed samples.
const BYTES: &str = "bytes";
/// What may be in front of the field in parentheses.
const FUNCTIONS: [&str; 4] = ["len(", "ms(", "width(", "height("];

/// What the numbers of a column are about, by its name.
#[derive(Debug, PartialEq)]
pub(crate) enum About<'a> {
    /// The whole packed sample: a reader that changes samples has other numbers.
    Sample,
    /// A field of one of these names.
    Field(Vec<Cow<'a, str>>),
    /// A name that is no expression.
    Unknown,
}

impl About<'_> {
    pub(crate) fn of(column: &str) -> About<'_> {
        let column = column.trim();
        if column == BYTES {
            return About::Sample;
        }
        let called =
            FUNCTIONS.into_iter().find_map(|name| column.strip_prefix(name)?.strip_suffix(')'));
        let path = called.unwrap_or(column).trim();
        if let Some(quote) = path.chars().next().filter(|quote| "'\"".contains(*quote)) {
            let inner = path[1..].strip_suffix(quote);
            return inner.map_or(About::Unknown, |inner| {
                About::Field(vec![
                    inner.replace(&String::from(quote).repeat(2), &String::from(quote)).into(),
                ])
            });
        }
        if path.is_empty() || path.contains(|c: char| c.is_whitespace() || "()'\"".contains(c)) {
            return About::Unknown;
        }
        // A field that has all of it as its name, or the one that the value is in.
        let first = path.split(['.', '[']).next().unwrap_or(path);
        About::Field(if first == path {
            vec![path.into()]
        } else {
            vec![path.into(), first.into()]
        })
    }

    /// Whether it is about a field for which this is true of one of its names.
    pub(crate) fn is_field(&self, mut is_it: impl FnMut(&str) -> bool) -> bool {
        match self {
            About::Field(names) => names.iter().any(|name| is_it(name)),
            About::Sample | About::Unknown => false,
        }
    }
}

/// The lengths of several readers, one behind the other.
pub(crate) struct Concatenated {
    parts: Vec<Arc<dyn Lengths>>,
    /// Where each begins, and the end of all.
    starts: Vec<u64>,
}

impl Concatenated {
    pub(crate) fn new(parts: Vec<Arc<dyn Lengths>>) -> Concatenated {
        let mut starts = vec![0];
        let mut end = 0u64;
        for part in &parts {
            end = end.saturating_add(part.len());
            starts.push(end);
        }
        Concatenated { parts, starts }
    }
}

impl Lengths for Concatenated {
    fn len(&self) -> u64 {
        self.starts[self.parts.len()]
    }

    fn gather(&self, indices: &[u64], out: &mut Vec<u32>) -> Result<()> {
        let mut asked: Vec<(Vec<u64>, Vec<usize>)> = vec![Default::default(); self.parts.len()];
        let start = out.len();
        for (&index, at) in indices.iter().zip(start..) {
            if index >= self.len() {
                return Err(no_length(index, self.len()));
            }
            // If several begin here, all but the last are empty.
            let part = self.starts.partition_point(|&start| start <= index) - 1;
            asked[part].0.push(index - self.starts[part]);
            asked[part].1.push(at);
        }
        out.resize(start + indices.len(), 0);
        let mut found = Vec::new();
        for (part, (indices, places)) in self.parts.iter().zip(&asked) {
            if indices.is_empty() {
                continue;
            }
            found.clear();
            part.gather(indices, &mut found)?;
            expect_all(indices, &found)?;
            places.iter().zip(&found).for_each(|(&at, &length)| out[at] = length);
        }
        Ok(())
    }

    fn identity(&self) -> u64 {
        let numbers = self.parts.iter().flat_map(|part| [part.len(), part.identity()]);
        combined("shards", numbers)
    }
}

/// Fails if lengths of another kind answer with too few or too many.
fn expect_all(asked: &[u64], found: &[u32]) -> Result<()> {
    match asked.len() == found.len() {
        true => Ok(()),
        false => {
            let message = format!("expected {} lengths, found {}", asked.len(), found.len());
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}

/// The lengths of chosen samples of a reader.
pub(crate) struct Chosen {
    inner: Arc<dyn Lengths>,
    chosen: Choice,
}

/// Which samples were chosen.
pub(crate) enum Choice {
    Selection(Arc<Selection>),
    Indices(Arc<Vec<usize>>),
}

impl Choice {
    fn len(&self) -> usize {
        match self {
            Choice::Selection(selection) => selection.len(),
            Choice::Indices(indices) => indices.len(),
        }
    }

    #[inline]
    fn get(&self, position: u64) -> Option<u64> {
        let position = usize::try_from(position).ok()?;
        let index = match self {
            Choice::Selection(selection) => selection.get(position),
            Choice::Indices(indices) => indices.get(position).copied(),
        };
        index.map(|index| index as u64)
    }
}

impl Chosen {
    pub(crate) fn new(inner: Arc<dyn Lengths>, chosen: Choice) -> Chosen {
        Chosen { inner, chosen }
    }
}

impl Lengths for Chosen {
    fn len(&self) -> u64 {
        self.chosen.len() as u64
    }

    fn gather(&self, indices: &[u64], out: &mut Vec<u32>) -> Result<()> {
        let outer =
            |&index: &u64| self.chosen.get(index).ok_or_else(|| no_length(index, self.len()));
        let outer: Vec<u64> = indices.iter().map(outer).collect::<Result<_>>()?;
        self.inner.gather(&outer, out)
    }

    fn identity(&self) -> u64 {
        let inner = [self.inner.identity()].into_iter();
        match &self.chosen {
            Choice::Selection(chosen) => {
                combined("select", inner.chain(chosen.numbers().map(|number| number as u64)))
            }
            Choice::Indices(all) => {
                combined("indices", inner.chain(all.iter().map(|index| *index as u64)))
            }
        }
    }
}

/// A number made of others, in their order.
fn combined(how: &str, numbers: impl Iterator<Item = u64>) -> u64 {
    let mut bytes = how.as_bytes().to_vec();
    let mut hash = 0;
    for number in numbers {
        bytes.extend_from_slice(&number.to_le_bytes());
        if bytes.len() >= 1 << 14 {
            hash = XxHash3_64::oneshot_with_seed(hash, &bytes);
            bytes.clear();
        }
    }
    XxHash3_64::oneshot_with_seed(hash, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_which_field_is_meant() {
        let field = |names: &[&str]| {
            About::Field(names.iter().map(|&name| name.to_owned().into()).collect())
        };
        for (column, about) in [
            ("bytes", About::Sample),
            ("'bytes'", field(&["bytes"])),
            ("tokens", field(&["tokens"])),
            ("len(tokens)", field(&["tokens"])),
            ("ms( seconds )", field(&["seconds"])),
            ("width(meta.image)", field(&["meta.image", "meta"])),
            ("height(boxes[0].x)", field(&["boxes[0].x", "boxes"])),
            ("len('it''s (a) name')", field(&["it's (a) name"])),
            ("len(\"a.b\")", field(&["a.b"])),
            ("words of all", About::Unknown),
            ("count(tokens)", About::Unknown),
            ("len('a)", About::Unknown),
            ("'", About::Unknown),
            ("len()", About::Unknown),
            ("", About::Unknown),
        ] {
            assert_eq!(About::of(column), about, "{column}");
        }
    }

    #[test]
    fn lengths_of_parts_and_choices_are_those_of_their_samples() {
        let part = |lengths: &[u32]| Arc::new(lengths.to_vec()) as Arc<dyn Lengths>;
        let both = Concatenated::new(vec![part(&[1, 2]), part(&[]), part(&[7]), part(&[8, 9])]);
        let mut found = vec![0];
        both.gather(&[4, 0, 2, 3, 1, 4], &mut found).unwrap();
        assert_eq!((both.len(), found), (5, vec![0, 9, 1, 7, 8, 2, 9]));
        let error = both.gather(&[0, 5], &mut Vec::new()).unwrap_err();
        assert_eq!(error.message(), "there is no length of sample 5 among 5");
        let both: Arc<dyn Lengths> = Arc::new(both);
        let selection = Arc::new(Selection::new(5, [4, 0, 4]).unwrap());
        let mut identities = vec![both.identity(), part(&[1, 2, 7, 8, 9]).identity()];
        for choice in [Choice::Selection(selection), Choice::Indices(Arc::new(vec![4, 0, 4]))] {
            let chosen = Chosen::new(both.clone(), choice);
            let mut found = Vec::new();
            chosen.gather(&[1, 2, 0], &mut found).unwrap();
            assert_eq!((chosen.len(), found), (3, vec![1, 9, 9]));
            assert!(chosen.gather(&[3], &mut Vec::new()).is_err());
            identities.push(chosen.identity());
        }
        identities.sort_unstable();
        identities.dedup();
        assert_eq!(identities.len(), 4);
    }
}
