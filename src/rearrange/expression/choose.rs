//! The samples of a reader for which an expression is true.

use std::collections::BTreeMap;
use std::fmt;

use foldhash::HashMap;

use super::Expression;
use super::evaluate::{Other, Sample, find, holds};
use super::path::Path;
use crate::error::{Error, Result};
use crate::format::msgpack::Value;
use crate::reader::{Reader, no_field};
use crate::rearrange::{STRIDE, Scalar, ScalarKind, at_sample};
use crate::text::units;

/// The result of [`Expression::choose`].
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Chosen {
    /// The samples for which it is true, in order.
    pub indices: Vec<usize>,
    /// Where values of different kinds were compared, which is rarely what was meant.
    pub mismatches: Vec<Mismatch>,
}

/// A field that was compared with a value of another kind than its own.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Mismatch {
    /// The field, or what is compared of it: `len(caption)`.
    pub field: String,
    /// Of which kind its values are.
    pub found: ScalarKind,
    /// Of which kind the value is that they were compared with.
    pub expected: ScalarKind,
    /// In how many samples.
    pub samples: u64,
    /// The first such value.
    pub first: Scalar,
    /// The value that they were compared with, in the first such sample.
    pub other: Scalar,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { field, found, expected, samples, first, .. } = self;
        let first = match first {
            Scalar::Text(text) => format!("{:?}", text.chars().take(30).collect::<String>()),
            first => first.to_string(),
        };
        let verb = if *samples == 1 { "has" } else { "have" };
        write!(
            f,
            "{} {verb} {found} in {field:?}, such as {first}, which is never equal to and in no \
             order with {expected}",
            units::counted(*samples, "sample")
        )
    }
}

impl Expression {
    /// The samples of a reader for which it is true. Decodes only the fields that it names, each once. `progress`
    /// receives the number of samples seen so far; its error ends the search, and is returned.
    ///
    /// ```
    /// use kiste::reader::ListReader;
    /// use kiste::rearrange::Expression;
    ///
    /// let letters = ["a", "b", "c"].map(|key| std::collections::BTreeMap::from([("key", key)]));
    /// let chosen = Expression::parse("key > a")?.choose(&ListReader::pack(letters)?, |_| Ok(()))?;
    /// assert_eq!(chosen.indices, [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of the reader and of `progress`; [`Invalid`](crate::ErrorKind::Invalid) for a field that is
    /// compared and is neither a number nor text nor a time nor true, false or null; for one that has no
    /// length, width or height, where that is asked for; and for one that was missing wherever it was
    /// compared, if no other sample has it either: most likely a typing error, which would choose nothing, or
    /// everything.
    pub fn choose(
        &self,
        reader: &dyn Reader,
        mut progress: impl FnMut(u64) -> Result<()>,
    ) -> Result<Chosen> {
        let mut samples = Samples {
            reader,
            index: 0,
            fields: HashMap::default(),
            paths: HashMap::default(),
            mismatches: BTreeMap::new(),
        };
        let mut indices = Vec::new();
        for index in 0..reader.len() {
            samples.index = index;
            if holds(&self.0, &mut samples)? {
                indices.push(index);
            }
            if index % STRIDE == 0 {
                progress(index as u64)?;
            }
        }
        for path in self.0.paths() {
            if samples.paths.get(path) == Some(&false) && !samples.search(path, &mut progress)? {
                return Err(no_field(reader, &path.name));
            }
        }
        Ok(Chosen { indices, mismatches: samples.mismatches.into_values().collect() })
    }
}

/// The fields of samples, and what was found in them.
struct Samples<'a> {
    reader: &'a dyn Reader,
    /// The sample whose fields are asked for.
    index: usize,
    /// Fields of the last sample that was asked for them, so that each is read once: its index, and the
    /// value.
    fields: HashMap<&'a str, (usize, Option<Value>)>,
    /// What was looked for, and whether a sample has it.
    paths: HashMap<&'a Path, bool>,
    /// By field, the kind there and the kind that it was compared with.
    mismatches: BTreeMap<(String, ScalarKind, ScalarKind), Mismatch>,
}

impl<'a> Samples<'a> {
    /// Whether any sample has this: not each was asked, as "and" and "or" end with the first answer.
    fn search(
        &mut self,
        path: &'a Path,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<bool> {
        for index in 0..self.reader.len() {
            self.index = index;
            if find(path, self)?.is_some() {
                return Ok(true);
            }
            if index % STRIDE == 0 {
                // All were seen already: only to be told to stop.
                progress(self.reader.len() as u64)?;
            }
        }
        Ok(false)
    }
}

impl<'a> Sample<'a> for Samples<'a> {
    fn field(&mut self, name: &'a str) -> Result<Option<&Value>> {
        let (reader, index) = (self.reader, self.index);
        let field = self.fields.entry(name).or_insert((usize::MAX, None));
        if field.0 != index {
            *field = (index, reader.field(index, name)?);
        }
        Ok(field.1.as_ref())
    }

    fn note(&mut self, path: &'a Path, is_there: bool) {
        *self.paths.entry(path).or_default() |= is_there;
    }

    fn mismatch(&mut self, other: Other<'_>) {
        let Other { term, found, expected } = other;
        let (Some(own), Some(kind)) = (found.kind(), expected.kind()) else { return };
        let field = term.to_string();
        let new = || Mismatch {
            field: field.clone(),
            found: own,
            expected: kind,
            samples: 0,
            first: found.clone(),
            other: expected.scalar.clone(),
        };
        self.mismatches.entry((field.clone(), own, kind)).or_insert_with(new).samples += 1;
    }

    fn blamed(&self, error: Error) -> Error {
        at_sample(self.reader, self.index, error)
    }
}
