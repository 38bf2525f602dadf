//! [`Batches`]: rows of Arrow IPC, whose batches are decoded once and kept for a while.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::error::{Error, ErrorKind, Result};
use crate::format::arrow::decoder::{Flaw, guarded};
use crate::format::arrow::form::Plan;
use crate::format::arrow::messages::{decode_batch, parse_schema};
use crate::format::arrow::rows::{Rows, numbered_key};
use crate::format::in_place::{Frame, Shard};
use crate::format::sample_fields::{Fields, key_from};
use crate::storage::Source;

/// Batches that are kept, and their bytes.
const KEPT: (usize, usize) = (1024, 256 << 20);

pub(super) struct Batches {
    schemas: Vec<(SchemaRef, Plan)>,
    max_bytes: u64,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    batches: HashMap<(usize, usize), Arc<RecordBatch>>,
    bytes: usize,
}

impl Batches {
    pub(super) fn of(frames: &[Frame], own_keys: bool, max_bytes: u64) -> Result<Batches> {
        let schema = |frame: &Frame| {
            let message = frame.schema.as_ref().and_then(|text| BASE64_STANDARD.decode(text).ok());
            let message = message.ok_or_else(|| {
                let message = "expected the schema of the shards in base64, found none";
                Error::new(ErrorKind::Damaged, message)
            })?;
            let schema = parse_schema(&message)?;
            let mut plan = Plan::of(&schema)?;
            plan.key = plan.key.filter(|_| own_keys);
            Ok((schema, plan))
        };
        let schemas = frames.iter().map(schema).collect::<Result<_>>()?;
        Ok(Batches { schemas, max_bytes, kept: Mutex::default() })
    }

    /// The batch of a row, and its place there.
    fn find(shard: &Shard, row: u64) -> Option<(usize, usize)> {
        let at = shard.batches.partition_point(|(_, _, rows)| *rows <= row);
        let before = at.checked_sub(1).and_then(|before| shard.batches.get(before));
        shard.batches.get(at)?;
        let within = row - before.map_or(0, |(_, _, rows)| *rows);
        Some((at, usize::try_from(within).ok()?))
    }

    /// The message that a row is in.
    pub(super) fn bytes(shard: &Shard, row: u64) -> Range<u64> {
        let batch = Batches::find(shard, row).and_then(|(at, _)| shard.batches.get(at));
        batch.map_or(0..0, |(position, bytes, _)| *position..position.saturating_add(*bytes))
    }

    pub(super) fn decode(
        &self,
        source: &Arc<Source>,
        shard: &Shard,
        (number, row): (usize, u64),
        own: Option<&str>,
        needs: &dyn Fn(&str) -> bool,
        take: &mut dyn FnMut(&str, Fields<'_>) -> Result<()>,
    ) -> Result<()> {
        let damaged = |message: &str| Error::new(ErrorKind::Damaged, message);
        let (at, within) = Batches::find(shard, row)
            .ok_or_else(|| damaged("expected the row in a batch of the index, found none"))?;
        let schema = shard.frame.and_then(|frame| self.schemas.get(frame as usize));
        let (schema, plan) = schema
            .ok_or_else(|| damaged("expected a schema of the shard in the index, found none"))?;
        let batch = self.batch(source, shard, (number, at), schema)?;
        if within >= batch.num_rows() {
            let message =
                format!("expected row {within} in a batch, found {} rows", batch.num_rows());
            return Err(damaged(&message));
        }
        let stem = shard.called.as_deref().unwrap_or_default();
        let files = |path: &str| {
            let message = format!(
                "the row has only the path {path:?} of a file, and files are not read in place"
            );
            Err(Error::new(ErrorKind::Unsupported, message))
        };
        let rows = Rows { plan, key: own, unread: &[], stem, files: &files, images: None, needs };
        let (key, fields) = guarded(|| Ok::<_, Flaw>(rows.fields(&batch, within, row)))??;
        let key = match (key, own) {
            (Some(key), _) => key,
            (None, Some(name)) => key_from(&fields, name)?,
            (None, None) => numbered_key(stem, row),
        };
        take(&key, fields)
    }

    fn batch(
        &self,
        source: &Arc<Source>,
        shard: &Shard,
        place: (usize, usize),
        schema: &SchemaRef,
    ) -> Result<Arc<RecordBatch>> {
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = lock().batches.get(&place) {
            return Ok(kept.clone());
        }
        let (position, len, _) = shard.batches[place.1];
        let range = position..position.saturating_add(len);
        if len > self.max_bytes {
            let message =
                format!("expected a batch of at most {} bytes, found {len}", self.max_bytes);
            return Err(Error::above_limit("max_bytes", message));
        }
        // Copied: values are checked once, and the bytes of a file may change later.
        let message = Buffer::from_vec(source.read(range)?.into_owned());
        let batch = Arc::new(decode_batch(schema, &message, self.max_bytes, None)?);
        let mut kept = lock();
        let bytes = batch.get_array_memory_size();
        if kept.batches.len() >= KEPT.0 || kept.bytes.saturating_add(bytes) > KEPT.1 {
            *kept = Kept::default();
        }
        kept.bytes += bytes;
        kept.batches.insert(place, batch.clone());
        Ok(batch)
    }
}
