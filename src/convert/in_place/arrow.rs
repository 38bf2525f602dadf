//! The batches of an Arrow IPC file.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::error::Result;
use crate::format::arrow::form::Plan;
use crate::format::arrow::messages::Layout;
use crate::storage::Source;

/// A batch: the position of its message, its bytes, and the rows of the file up to its end.
type Batch = (u64, u64, u64);

/// What is known of a file by its messages.
pub(super) struct Walked {
    /// The message of the schema, in base64.
    pub(super) schema: String,
    pub(super) batches: Vec<Batch>,
    pub(super) labels: Option<Vec<String>>,
    /// Bytes behind the end of a stream.
    pub(super) after_end: u64,
}

/// The schema and the batches of a file or stream.
pub(super) fn walk(source: &Source, max_bytes: u64) -> Result<Walked> {
    let mut read = |at: u64, len: u64| {
        let start = at.min(source.len());
        source
            .read(start..start.saturating_add(len).min(source.len()))
            .map(Cow::into_owned)
            .map(Cow::Owned)
    };
    let layout = Layout::read(source.len(), max_bytes, &mut read)?;
    let plan = Plan::of(&layout.schema)?;
    let message = source.read(layout.schema_at)?;
    let mut rows = 0u64;
    let with_rows = layout.batches.iter().filter(|batch| batch.rows > 0);
    let batches = with_rows.map(|batch| {
        rows = rows.saturating_add(batch.rows);
        (batch.position, batch.len, rows)
    });
    let batches = batches.collect();
    // A file has its index there.
    let after_end = if layout.is_file { 0 } else { source.len().saturating_sub(layout.end) };
    let schema = BASE64_STANDARD.encode(&message);
    Ok(Walked { schema, batches, labels: plan.labels, after_end })
}
