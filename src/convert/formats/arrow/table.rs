//! [`Table`]: collects samples for a batch of rows, and finds the columns.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, Field, Schema};
use serde_json::json;

use super::carries;
use crate::convert::carried::{self, ChangedValues, Changes, ValueKind};
use crate::error::{Error, ErrorKind, Result};
use crate::format::arrow::columns::{Appending, Column, append_map};
use crate::format::arrow::fields::{check_flaws, conflict, entries_of, takes};
use crate::format::arrow::form::{FEATURES, NOTE, note};
use crate::format::arrow::kinds::{Entry, Target, Type, merge_entries};
use crate::format::msgpack::{self, Cursor, sample};

/// The columns are found from this many samples, or fewer if they are large.
const FIRST: (usize, usize) = (1024, 64 << 20);
/// A batch ends at this many rows or bytes.
const BATCH: (usize, usize) = (1024, 8 << 20);
/// The offsets in a column have 32 bits.
const MAX_SAMPLE: usize = 1 << 30;

/// Collects samples, and makes batches of one schema of them.
pub(super) struct Table {
    /// The fields of all samples, with the key.
    entries: Option<Vec<Entry>>,
    schema: Option<Arc<Schema>>,
    labels: Option<(String, Vec<String>)>,
    samples: Vec<Vec<u8>>,
    bytes: usize,
    /// Further files, and how many of these samples come before each.
    files: VecDeque<(usize, PathBuf)>,
    changes: Changes,
}

impl Table {
    pub(super) fn new() -> Table {
        Table {
            entries: None,
            schema: None,
            labels: None,
            samples: Vec::new(),
            bytes: 0,
            files: VecDeque::new(),
            changes: Changes::default(),
        }
    }

    /// Values that became something else so far, also in samples that wait for their batch.
    pub(super) fn changes(&self) -> Vec<ChangedValues> {
        let mut changes = self.changes.clone();
        // An error of a batch is reported when that is written.
        drop(self.columns(&self.samples, &mut changes));
        changes.list()
    }

    /// The names of the labels in this field.
    pub(super) fn set_labels(&mut self, field: &str, names: &[String]) {
        self.labels = (!names.is_empty()).then(|| (field.to_owned(), names.to_vec()));
    }

    /// Adds a sample. Returns whether it is time to [take](Self::take) a batch.
    pub(super) fn add(&mut self, packed: &[u8]) -> Result<bool> {
        let key = msgpack::check_sample(packed)?;
        let at = |error: Error| error.with_key(key);
        if packed.len() > MAX_SAMPLE {
            let message = format!("expected at most {MAX_SAMPLE} bytes, found {}", packed.len());
            return Err(Error::new(ErrorKind::Limit, message).with_key(key));
        }
        let found = entries_of(packed, None)?.map_err(at)?;
        let changes = carried::check(carries, packed)?;
        match (&self.entries, &self.schema) {
            (None, _) => self.entries = Some(found),
            (Some(known), None) => match merge_entries(known, &found) {
                Some(merged) => self.entries = Some(merged),
                None => return Err(at(conflict(known, &found, false))),
            },
            (Some(known), Some(_)) => {
                if !takes(known, &found) {
                    return Err(at(conflict(known, &found, true)));
                }
            }
        }
        self.samples.push(packed.to_vec());
        self.changes.add(changes);
        self.bytes += packed.len();
        let limit = if self.schema.is_some() { BATCH } else { FIRST };
        Ok(self.samples.len() >= limit.0 || self.bytes >= limit.1)
    }

    /// The samples that follow are in another file. Returns whether it is time to [take](Self::take) a batch.
    pub(super) fn next_file(&mut self, path: &Path) -> bool {
        self.files.push_back((self.samples.len(), path.to_path_buf()));
        self.schema.is_some()
    }

    /// The schema, which does not change from now on.
    pub(super) fn schema(&mut self) -> Result<Arc<Schema>> {
        if let Some(schema) = &self.schema {
            return Ok(schema.clone());
        }
        let key =
            || Entry { name: sample::KEY.to_owned(), of: Type::Text, missing: false, nil: false };
        let entries = self.entries.get_or_insert_with(|| vec![key()]);
        check_flaws(entries)?;
        for packed in &self.samples {
            let found = entries_of(packed, None)?.unwrap_or_default();
            if !takes(entries, &found) {
                // Not an error of one sample, which could be left out: it is mixed with others by
                // now.
                let key = msgpack::check_sample(packed)?;
                let error = conflict(entries, &found, true);
                return Err(error.within(format_args!("sample {key:?}")));
            }
        }
        let is_nullable = |entry: &Entry| entry.name != sample::KEY;
        let fields: Vec<Field> = entries
            .iter()
            .map(|entry| entry.field(Target::File).with_nullable(is_nullable(entry)))
            .collect();
        let labels_of = |entry: &Entry| {
            let labels = self.labels.as_ref().filter(|(field, _)| *field == entry.name);
            labels.map(|(_, names)| &names[..])
        };
        let features: serde_json::Map<_, _> = entries
            .iter()
            .map(|entry| (entry.name.clone(), entry.of.feature(labels_of(entry))))
            .collect();
        let slots: Vec<_> =
            entries.iter().map(|entry| (&entry.name[..], entry.slot(Target::File))).collect();
        let note = note(slots.iter().map(|(name, slot)| (*name, slot)), None);
        let features = json!({"info": {"features": features}}).to_string();
        let metadata = [(FEATURES.to_owned(), features), (NOTE.to_owned(), note)];
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata.into()));
        self.schema = Some(schema.clone());
        Ok(schema)
    }

    /// The names of the columns of files, which are compressed already.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        let entries = self.entries.iter().flatten();
        entries
            .filter(|entry| entry.of == Type::Bytes { images: true })
            .map(|entry| &entry.name[..])
    }

    /// The names of the columns of plain bytes.
    pub(super) fn plain_bytes(&self) -> impl Iterator<Item = &str> {
        let entries = self.entries.iter().flatten();
        entries
            .filter(|entry| entry.of == Type::Bytes { images: false })
            .map(|entry| &entry.name[..])
    }

    /// The columns of these samples.
    fn columns(&self, samples: &[Vec<u8>], changes: &mut Changes) -> Result<Vec<Column>> {
        let entries = self.entries.as_deref().unwrap_or_default();
        let mut columns: Vec<Column> =
            entries.iter().map(|entry| Column::of(&entry.of, Target::File)).collect();
        let mut to = Appending::to_file();
        for packed in samples {
            append_map(
                &mut columns,
                entries,
                &mut Cursor::new(packed),
                &mut to,
                |entry, found| {
                    let nothing = "absent, as others of the column are";
                    changes.count(&entry.name, ValueKind::Nil, nothing, found.nil);
                    let nil = "nil, as others of the column are";
                    changes.count(&entry.name, ValueKind::Absent, nil, found.absent);
                },
            )?;
        }
        Ok(columns)
    }

    /// A batch of the samples so far; only of those in this file, if there is a next one, which is returned too.
    pub(super) fn take(&mut self) -> Result<(RecordBatch, Option<PathBuf>)> {
        let schema = self.schema()?;
        let (end, next) = match self.files.pop_front() {
            Some((end, next)) => (end, Some(next)),
            None => (self.samples.len(), None),
        };
        let samples: Vec<Vec<u8>> = self.samples.drain(..end).collect();
        self.bytes -= samples.iter().map(Vec::len).sum::<usize>();
        self.files.iter_mut().for_each(|(before, _)| *before -= end);
        let mut changes = std::mem::take(&mut self.changes);
        let columns = self.columns(&samples, &mut changes);
        self.changes = changes;
        let columns = columns?;
        let arrays: Vec<ArrayRef> = columns
            .into_iter()
            .zip(schema.fields())
            .map(|(column, field)| column.finish(field.data_type(), Target::File))
            .collect::<Result<_, _>>()
            .map_err(ours)?;
        Ok((RecordBatch::try_new(schema, arrays).map_err(ours)?, next))
    }
}

/// The error of Arrow for columns that do not fit each other, which should not happen.
fn ours(error: ArrowError) -> Error {
    Error::new(ErrorKind::Limit, format!("the columns cannot be written: {error}"))
}
