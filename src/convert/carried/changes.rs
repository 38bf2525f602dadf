//! [`ChangedValues`]: what writers changed, counted by field and kind.

use std::collections::BTreeMap;
use std::fmt;

use super::ValueKind;
use crate::convert::monitor::counted;

/// Values that became something else, counted by field and kind.
///
/// Prints as in `field "weights": NumPy scalars of float64 became plain floats (1,000 values)`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangedValues {
    /// The field.
    pub field: String,
    /// The kind of the values.
    pub kind: ValueKind,
    /// The kind that they became.
    pub became: &'static str,
    /// How many there were.
    pub values: u64,
}

impl fmt::Display for ChangedValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ChangedValues { field, kind, became, values } = self;
        let values = counted(*values, "value");
        write!(f, "field {field:?}: {kind} became {became} ({values})")
    }
}

/// Fields whose changes are counted: a sample can have any number of them.
const COUNTED: usize = 1 << 16;

/// Changes that a writer has made so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    fields: BTreeMap<String, BTreeMap<ValueKind, (&'static str, u64)>>,
}

impl Changes {
    /// Adds what writing a sample changed.
    pub(crate) fn add(&mut self, found: SampleChanges<'_>) {
        for (field, kind, became) in found.0 {
            if let Some(kinds) = self.fields.get_mut(field) {
                kinds.entry(kind).or_insert((became, 0)).1 += 1;
            } else if self.fields.len() < COUNTED {
                self.fields.insert(field.to_owned(), BTreeMap::from([(kind, (became, 1))]));
            }
        }
    }

    /// Adds changes of values that became something else because of others.
    #[cfg(feature = "parquet")]
    pub(crate) fn count(
        &mut self,
        field: &str,
        kind: ValueKind,
        became: &'static str,
        values: u64,
    ) {
        if values > 0 && (self.fields.len() < COUNTED || self.fields.contains_key(field)) {
            let kinds = self.fields.entry(field.to_owned()).or_default();
            kinds.entry(kind).or_insert((became, 0)).1 += values;
        }
    }

    pub(crate) fn list(&self) -> Vec<ChangedValues> {
        let kinds = self.fields.iter().flat_map(|(field, kinds)| {
            kinds.iter().map(move |(&kind, &(became, values))| (field, kind, became, values))
        });
        let list = kinds.map(|(field, kind, became, values)| ChangedValues {
            field: field.clone(),
            kind,
            became,
            values,
        });
        list.collect()
    }
}

/// Changes that writing one sample makes.
#[derive(Debug, Default)]
pub(crate) struct SampleChanges<'a>(pub(super) Vec<(&'a str, ValueKind, &'static str)>);
