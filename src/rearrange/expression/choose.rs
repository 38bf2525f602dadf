//! The samples of a reader for which an expression is true.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use super::evaluate::{Fields, holds};
use super::{Expression, scalar};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::reader::Reader;
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
    /// The field.
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
    /// The samples of a reader for which it is true. Decodes only the fields that it names. `progress` receives
    /// the number of samples seen so far; its error ends the search, and is returned.
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
    /// The errors of the reader and of `progress`; [`Invalid`](ErrorKind::Invalid) for a field that is
    /// compared and is neither a number nor text nor true, false or null, and for one that no sample
    /// has: most likely a typing error, which would choose nothing, or everything.
    pub fn choose(
        &self,
        reader: &dyn Reader,
        mut progress: impl FnMut(u64) -> Result<()>,
    ) -> Result<Chosen> {
        let mut samples = Samples {
            reader,
            index: 0,
            missing: HashSet::new(),
            found: HashSet::new(),
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
        let is_absent =
            |name: &&&str| samples.missing.contains(**name) && !samples.found.contains(**name);
        if let Some(name) = self.fields().iter().find(is_absent) {
            let error = Error::new(ErrorKind::Invalid, format!("no sample has a field {name:?}"));
            let path = reader.locate(0).path;
            let error = error.with_remedy(Remedy::ListFields);
            return Err(path.into_iter().fold(error, Error::at));
        }
        Ok(Chosen { indices, mismatches: samples.mismatches.into_values().collect() })
    }
}

/// The fields of samples, and what was found in them.
struct Samples<'a> {
    reader: &'a dyn Reader,
    /// The sample whose fields are asked for.
    index: usize,
    missing: HashSet<String>,
    found: HashSet<String>,
    /// By field, the kind there and the kind that it was compared with.
    mismatches: BTreeMap<(String, ScalarKind, ScalarKind), Mismatch>,
}

impl Samples<'_> {
    fn note(&mut self, name: &str, is_there: bool) {
        let names = if is_there { &mut self.found } else { &mut self.missing };
        if !names.contains(name) {
            names.insert(name.to_owned());
        }
    }
}

impl Fields for Samples<'_> {
    fn field(&mut self, name: &str) -> Result<Option<Scalar>> {
        let value = self.reader.field(self.index, name)?;
        self.note(name, value.is_some());
        let scalar = value.map(|value| scalar(name, &value)).transpose();
        scalar.map_err(|error| at_sample(self.reader, self.index, error))
    }

    fn has(&mut self, name: &str) -> Result<bool> {
        let is_there = self.reader.field(self.index, name)?.is_some();
        self.note(name, is_there);
        Ok(is_there)
    }

    fn mismatch(&mut self, name: &str, found: &Scalar, expected: &Scalar) {
        let (Some(own), Some(other)) = (found.kind(), expected.kind()) else { return };
        let entry = self.mismatches.entry((name.to_owned(), own, other));
        let new = || Mismatch {
            field: name.to_owned(),
            found: own,
            expected: other,
            samples: 0,
            first: found.clone(),
            other: expected.clone(),
        };
        entry.or_insert_with(new).samples += 1;
    }
}
