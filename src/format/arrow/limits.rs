//! Checks of the lengths in messages of Arrow IPC, before the Arrow crates see them.

use arrow_ipc::{MessageHeader, RecordBatch};

use crate::error::{Error, ErrorKind, Result};

/// The most bytes of the metadata of a batch, or of a Parquet footer.
pub(crate) const MAX_METADATA: u64 = 256 << 20;

/// The most rows of a batch without any bytes.
const MAX_EMPTY_ROWS: u64 = 1 << 16;

/// Fails if a message at this byte has a part of more bytes than `max_bytes`.
pub(crate) fn check_len(len: u64, max_bytes: u64, at: u64) -> Result<()> {
    if len <= max_bytes {
        return Ok(());
    }
    let message = format!("message at byte {at}: expected at most {max_bytes} bytes, found {len}");
    Err(Error::above_limit("max_bytes", message))
}

/// Checks that the buffers of an Arrow IPC message are inside its body, and their decompressed
/// sizes.
pub(crate) fn check_message(
    message: &arrow_ipc::Message<'_>,
    body: &[u8],
    max_bytes: u64,
) -> Result<()> {
    match message.header_type() {
        MessageHeader::RecordBatch => match message.header_as_record_batch() {
            Some(batch) => check_batch(batch, body, max_bytes),
            None => Ok(()),
        },
        MessageHeader::DictionaryBatch => {
            let data = message.header_as_dictionary_batch().and_then(|batch| batch.data());
            data.map_or(Ok(()), |batch| check_batch(batch, body, max_bytes))
        }
        _ => Ok(()),
    }
}

fn check_batch(batch: RecordBatch<'_>, body: &[u8], max_bytes: u64) -> Result<()> {
    let mut total = 0u64;
    for buffer in batch.buffers().iter().flatten() {
        let (start, len) = (usize::try_from(buffer.offset()), usize::try_from(buffer.length()));
        let end = start.ok().zip(len.ok()).and_then(|(start, len)| start.checked_add(len));
        let bytes = end.and_then(|end| body.get(end - len.ok()?..end));
        let bytes = bytes.ok_or_else(|| {
            let message = "expected buffers within their message, found one beyond it";
            Error::new(ErrorKind::Damaged, message)
        })?;
        let claimed = match (batch.compression(), bytes.first_chunk()) {
            // -1 marks bytes that are not compressed.
            (Some(_), Some(len)) => u64::try_from(i64::from_le_bytes(*len)).unwrap_or(0),
            _ => bytes.len() as u64,
        };
        total = total.saturating_add(claimed);
    }
    if total > max_bytes {
        let message = format!("expected batches of at most {max_bytes} bytes, found {total}");
        return Err(Error::new(ErrorKind::Limit, message));
    }
    check_rows(batch.length(), total).map(drop)
}

/// The number of rows, if these bytes can hold that many.
pub(crate) fn check_rows(rows: i64, total: u64) -> Result<u64> {
    // A value has at least one bit, unless all are null.
    let most = total.saturating_mul(8).max(MAX_EMPTY_ROWS);
    u64::try_from(rows).ok().filter(|&rows| rows <= most).ok_or_else(|| {
        let message = format!("expected at most {most} rows in {total} bytes, found {rows}");
        Error::new(ErrorKind::Damaged, message)
    })
}
