//! [`Columns`]: what the fields of samples are as columns, found from some of the samples.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrow_array::StringArray;
use arrow_schema::{DataType, Field, Schema};

use super::{Infer, of_sample};
use crate::error::{Error, ErrorKind, Result};
use crate::format::arrow::fields::{check_flaws, conflict, entries_of};
use crate::format::arrow::form::{NOTE, note};
use crate::format::arrow::kinds::{Entry, Target, Type, merge_entries};
use crate::format::msgpack::sample::{self, KEY};
use crate::format::msgpack::{self, Cursor};
use crate::reader::{FieldContent, Reader, no_field};
use crate::storage::in_parallel;

/// The field whose numbers `.labels` names.
const LABEL: &str = "label";
/// Samples that are looked at: the first ones, and as many from all others. Behind a network fewer.
const LOOKED_AT: usize = 1024;
const LOOKED_AT_REMOTE: usize = 100;
/// Samples that one thread looks at in one go.
const BLOCK: usize = 4096;
/// Remote samples that are fetched together.
const TOGETHER: usize = 64;

/// The columns of a table.
pub(super) struct Columns {
    pub(super) entries: Vec<Entry>,
    pub(super) schema: Arc<Schema>,
    pub(super) target: Target,
    /// Whether fields without a column are left out. Otherwise they are errors.
    pub(super) are_chosen: bool,
    /// How many samples were looked at.
    pub(super) looked_at: usize,
    /// About how many bytes of a sample are copied.
    pub(super) row_bytes: usize,
    /// Where a column is, if there are many.
    places: Option<HashMap<Vec<u8>, usize>>,
}

/// Up to this many names are compared one by one, which is faster than hashing them.
const FEW: usize = 16;

impl Columns {
    /// Looks at samples.
    pub(super) fn find(
        reader: &dyn Reader,
        fields: Option<&[String]>,
        infer: Infer,
        target: Target,
        threads: usize,
    ) -> Result<Columns> {
        let labels = reader.labels()?.filter(|names| !names.is_empty());
        let look =
            Look { reader, fields, labels: labels.as_deref(), chosen: chosen(reader, infer) };
        let looked_at = look.chosen.as_ref().map_or(reader.len(), Vec::len);
        let Found { entries, bytes, fits } = look.at_all(looked_at, threads)?;
        let mut entries = ordered(entries, fields, reader, looked_at)?;
        check_flaws(&entries)?;
        let names = labels.filter(|_| fits);
        if let Some(names) = &names {
            let names = Arc::new(StringArray::from_iter_values(names));
            let are_labels =
                |entry: &&mut Entry| entry.name == LABEL && matches!(entry.of, Type::Int { .. });
            let labels = entries.iter_mut().filter(are_labels);
            labels.for_each(|entry| entry.of = Type::Label(names.clone()));
        }
        let has_names = entries.iter().any(|entry| matches!(entry.of, Type::Label(_)));
        let schema = schema(&entries, target, names.as_deref().filter(|_| has_names));
        let row_bytes = bytes.checked_div(looked_at).unwrap_or(0);
        let names =
            || entries.iter().enumerate().map(|(at, entry)| (entry.name.clone().into(), at));
        let places = (entries.len() > FEW).then(|| names().collect());
        Ok(Columns {
            schema: Arc::new(schema),
            entries,
            target,
            are_chosen: fields.is_some(),
            looked_at,
            row_bytes,
            places,
        })
    }

    /// The column of the field of this name. `next` is where it most likely is.
    #[inline]
    pub(super) fn position(&self, name: &[u8], next: usize) -> Option<usize> {
        let is = |entry: &Entry| entry.name.as_bytes() == name;
        if self.entries.get(next).is_some_and(is) {
            return Some(next);
        }
        match &self.places {
            Some(places) => places.get(name).copied(),
            None => self.entries.iter().position(is),
        }
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.entries.iter().map(|entry| &entry.name[..]).collect()
    }
}

/// What was found in samples so far.
struct Found {
    entries: Option<Vec<Entry>>,
    bytes: usize,
    /// Whether all labels have names.
    fits: bool,
}

/// Which samples are looked at, and what for.
struct Look<'a> {
    reader: &'a dyn Reader,
    fields: Option<&'a [String]>,
    labels: Option<&'a [String]>,
    /// Their indices; `None` for all samples.
    chosen: Option<Vec<usize>>,
}

impl Look<'_> {
    /// Looks at this many samples on threads.
    fn at_all(&self, samples: usize, threads: usize) -> Result<Found> {
        let blocks: Vec<Range<usize>> =
            (0..samples).step_by(BLOCK).map(|start| start..samples.min(start + BLOCK)).collect();
        // What comes behind a block with an error is of no use.
        let failed = AtomicUsize::new(usize::MAX);
        let parts = in_parallel(&blocks, threads, |block| {
            let mut found = Found { entries: None, bytes: 0, fits: true };
            let looked = match block.start > failed.load(Relaxed) {
                true => Ok(()),
                false => self.at_block(block, &mut found),
            };
            if looked.is_err() {
                failed.fetch_min(block.start, Relaxed);
            }
            looked.map(|()| found)
        });
        let mut all = Found { entries: None, bytes: 0, fits: true };
        for (block, found) in blocks.iter().zip(parts) {
            let merged = match (&all.entries, &found) {
                (Some(known), Ok(found)) => {
                    merge_entries(known, found.entries.as_deref().unwrap_or(known))
                }
                (None, Ok(found)) => found.entries.clone(),
                (_, Err(_)) => None,
            };
            if merged.is_none() {
                // Says which of its samples is unlike those before.
                self.at_block(block, &mut all)?;
            }
            let found = found?;
            all.entries = merged.or(all.entries);
            all.bytes += found.bytes;
            all.fits &= found.fits;
        }
        Ok(all)
    }

    fn at_block(&self, block: &Range<usize>, found: &mut Found) -> Result<()> {
        let index = |at: usize| self.chosen.as_ref().map_or(at, |chosen| chosen[at]);
        for start in block.clone().step_by(TOGETHER) {
            let some: Vec<usize> = (start..block.end.min(start + TOGETHER)).map(index).collect();
            if self.reader.is_remote() {
                self.reader.prefetch(&some);
            }
            for index in some {
                let entries = self.entries_at(index, found);
                let entries = entries.map_err(|error| of_sample(self.reader, index, error))?;
                found.entries = Some(entries);
            }
        }
        Ok(())
    }

    /// All entries so far, and the entries of a sample.
    fn entries_at(&self, index: usize, found: &mut Found) -> Result<Vec<Entry>> {
        let Look { reader, fields, .. } = *self;
        let mut own = Vec::new();
        let names: Vec<&str> = fields.into_iter().flatten().map(String::as_str).collect();
        let is_made = reader.read_fields(index, &names, &mut |name, content| {
            let name = name.to_owned();
            let of = match content {
                FieldContent::Bytes(_) => Type::Bytes { images: false },
                FieldContent::Packed(packed) => {
                    self.count(&name, packed, found);
                    let refused = |message| refused(message).with_field(&name);
                    Type::of(&mut Cursor::new(packed), 0)?.map_err(refused)?
                }
            };
            own.push(Entry { name, nil: of == Type::Nil, of, missing: false });
            Ok(())
        })?;
        if !is_made {
            let raw = reader.get_raw(index)?;
            own = entries_of(&raw, fields)?.map_err(|error| {
                let message = error.message().to_owned();
                error.field().map(|field| refused(message).with_field(field)).unwrap_or(error)
            })?;
            for field in sample::fields(&raw)? {
                let (name, value) = field?;
                if let Ok(name) = Cursor::new(name).read_str() {
                    if fields.is_none_or(|fields| fields.iter().any(|field| field == name)) {
                        self.count(name, value, found);
                    }
                }
            }
        }
        match &found.entries {
            Some(known) => {
                merge_entries(known, &own).ok_or_else(|| refused_too(conflict(known, &own, false)))
            }
            None => Ok(own),
        }
    }

    fn count(&self, name: &str, packed: &[u8], found: &mut Found) {
        // Bytes are not copied.
        let is_bytes = matches!(packed.first(), Some(0xc4..=0xc6));
        found.bytes += if is_bytes { 16 } else { packed.len() };
        if let (Some(labels), LABEL) = (self.labels, name) {
            found.fits &= match Cursor::new(packed).peek() {
                Ok(msgpack::Kind::Int) => {
                    Cursor::new(packed).read_u64().is_ok_and(|number| number < labels.len() as u64)
                }
                _ => true,
            };
        }
    }
}

/// What helps where a value fits no column.
const NAME_FIELDS: &str = "other fields can be had by their names";

fn refused(message: String) -> Error {
    Error::new(
        ErrorKind::Invalid,
        format!("expected {}; {NAME_FIELDS}", message.trim_start_matches("expected ")),
    )
}

fn refused_too(error: Error) -> Error {
    let message = format!("{}; {NAME_FIELDS}", error.message());
    let field = error.field().unwrap_or_default().to_owned();
    Error::new(ErrorKind::Invalid, message).with_field(field)
}

/// The indices of samples to look at; `None` if that is all of them.
fn chosen(reader: &dyn Reader, infer: Infer) -> Option<Vec<usize>> {
    let len = reader.len();
    let (first, others) = match infer {
        Infer::All => return None,
        Infer::Samples(samples) => (samples.div_ceil(2), samples / 2),
        Infer::Some if reader.is_remote() => (LOOKED_AT_REMOTE, LOOKED_AT_REMOTE),
        Infer::Some => (LOOKED_AT, LOOKED_AT),
    };
    let first = first.min(len);
    let rest = len - first;
    let others = others.min(rest);
    // The last one is among them.
    let spread =
        (1..=others).map(|nth| first + (nth as u128 * rest as u128 / others as u128) as usize - 1);
    Some((0..first).chain(spread).collect())
}

/// The columns in their order: as they were named, or as they were found.
fn ordered(
    found: Option<Vec<Entry>>,
    fields: Option<&[String]>,
    reader: &dyn Reader,
    looked_at: usize,
) -> Result<Vec<Entry>> {
    let key = || Entry { name: KEY.to_owned(), of: Type::Text, missing: false, nil: false };
    let mut found = found.unwrap_or_else(|| vec![key()]);
    let Some(fields) = fields else { return Ok(found) };
    let mut chosen: Vec<Entry> = Vec::with_capacity(fields.len());
    for name in fields {
        if chosen.iter().any(|entry| entry.name == *name) {
            let message = format!("expected each field once, found {name:?} twice");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let at = found.iter().position(|entry| entry.name == *name);
        if at.is_none() && reader.is_empty() {
            let of = if name == KEY { Type::Text } else { Type::Nil };
            chosen.push(Entry { name: name.clone(), of, missing: false, nil: false });
            continue;
        }
        let at = at.ok_or_else(|| {
            if looked_at == reader.len() {
                return no_field(reader, name);
            }
            let message =
                format!("none of the {looked_at} samples that were looked at has a field {name:?}");
            let error = Error::new(ErrorKind::Invalid, message);
            reader.locate(0).path.into_iter().fold(error, Error::at)
        })?;
        chosen.push(found.swap_remove(at));
    }
    if chosen.is_empty() {
        return Err(Error::new(ErrorKind::Invalid, "expected at least one field, found none"));
    }
    Ok(chosen)
}

fn schema(entries: &[Entry], target: Target, labels: Option<&[String]>) -> Schema {
    let field = |entry: &Entry| -> Field {
        let is_key = entry.name == KEY && entry.of.data_type(target) == DataType::Utf8;
        entry.field(target).with_nullable(!is_key)
    };
    let fields: Vec<Field> = entries.iter().map(field).collect();
    let slots: Vec<_> = entries.iter().map(|entry| (&entry.name[..], entry.slot(target))).collect();
    let note = note(slots.iter().map(|(name, slot)| (*name, slot)), labels);
    Schema::new_with_metadata(fields, [(NOTE.to_owned(), note)].into())
}
