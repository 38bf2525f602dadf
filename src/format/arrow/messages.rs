//! Messages of Arrow IPC: where they are in a file or stream, and one batch by its own bytes.
//!
//! A message is a mark of four bytes, which older streams do not have, the length of its metadata in four
//! bytes, the metadata, and a body. A stream has a message with the schema, batches, dictionaries in front
//! of the batches that need them, and perhaps the length 0 at its end. A file is a magic, a stream with its
//! end, and an index, which is ignored: the messages say the same.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::RecordBatchDecoder;
use arrow_ipc::{Message, MessageHeader};
use arrow_schema::{DataType, Schema, SchemaRef};

use super::decoder::{Flaw, guarded};
use super::limits::{MAX_METADATA, check_len, check_message, check_rows};
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;

/// The first bytes of a file, which a stream does not have.
pub(crate) const MAGIC: &[u8; 8] = b"ARROW1\0\0";
/// At the end of a file: the length of its index, and the magic without padding.
pub(crate) const TAIL: u64 = 10;
/// The stream of a file begins within this many bytes.
pub(crate) const MAX_PADDING: u64 = 64;
/// The mark before the length of a message.
pub(crate) const CONTINUATION: [u8; 4] = [0xff; 4];

/// Bytes that are read of each message, which most metadata fits into.
const HEAD: u64 = 4096;

/// Reads this many bytes from this position, or fewer at the end of the file.
pub(crate) type ReadAt<'r, 'b> = dyn FnMut(u64, u64) -> Result<Cow<'b, [u8]>> + 'r;

/// The metadata of the message that begins at `start`.
pub(crate) fn parse_message(metadata: &[u8], start: u64) -> Result<Message<'_>, FormatError> {
    arrow_ipc::root_as_message(metadata)
        .map_err(|error| FormatError::new(start, "a message of Arrow", format!("none: {error}")))
}

/// The length of the body at this position, according to its message.
pub(crate) fn body_len(message: &Message<'_>, at: u64) -> Result<u64, FormatError> {
    let len = u64::try_from(message.bodyLength());
    len.map_err(|_| FormatError::new(at, "a body", "one of a negative length"))
}

/// The error of a file that ends at this position, within `len` bytes.
pub(crate) fn cut(len: u64, found: u64, at: u64) -> FormatError {
    let found = format!("the end of the file after {found} of them");
    FormatError::new(at, format!("{len} bytes of a message"), found)
}

/// Whether columns, or values in them, refer to dictionaries.
pub(crate) fn has_dictionaries(schema: &Schema) -> bool {
    let fields = schema.flattened_fields();
    fields.iter().any(|field| matches!(field.data_type(), DataType::Dictionary(..)))
}

fn dictionaries() -> Error {
    let message = "expected columns without dictionaries, found some with them";
    Error::new(ErrorKind::Unsupported, message)
}

/// Where the metadata of a message begins, and its length, if these bytes have both.
fn frame(message: &[u8]) -> Option<(usize, u32)> {
    let number = |at: usize| message.get(at..)?.first_chunk().map(|len| u32::from_le_bytes(*len));
    match number(0)? {
        u32::MAX => Some((8, number(4)?)),
        len => Some((4, len)),
    }
}

/// The metadata of a whole message, and where its body is.
fn split(bytes: &[u8]) -> Result<(Message<'_>, Range<usize>), FormatError> {
    let len = bytes.len() as u64;
    let (start, metadata_len) = frame(bytes).ok_or_else(|| cut(8, len, len))?;
    let metadata = usize::try_from(metadata_len).ok().and_then(|size| bytes[start..].get(..size));
    let missing = |size: u64, at: usize| cut(size, len - at as u64, len);
    let metadata = metadata.ok_or_else(|| missing(metadata_len.into(), start))?;
    let (message, begin) = (parse_message(metadata, 0)?, start + metadata.len());
    let size = body_len(&message, begin as u64)?;
    let end = usize::try_from(size).ok().and_then(|size| begin.checked_add(size));
    let end = end.filter(|&end| end <= bytes.len()).ok_or_else(|| missing(size, begin))?;
    Ok((message, begin..end))
}

/// The schema in these bytes of a message.
pub(crate) fn parse_schema(message: &[u8]) -> Result<SchemaRef> {
    let (message, _) = split(message)?;
    let schema = message.header_as_schema();
    let schema = schema.ok_or_else(|| FormatError::new(0, "a schema", "another message"))?;
    guarded(|| Ok::<_, Flaw>(Arc::new(fb_to_schema(schema))))
}

/// The batch in these bytes of a message, of all columns or some. Values stay in the buffer, unless they are
/// compressed or not aligned; so its bytes must not change as long as the batch lives.
///
/// # Errors
///
/// [`Limit`](ErrorKind::Limit) for more than `max_bytes` once it is decompressed, and
/// [`Unsupported`](ErrorKind::Unsupported) for columns with dictionaries.
pub(crate) fn decode_batch(
    schema: &SchemaRef,
    message: &Buffer,
    max_bytes: u64,
    columns: Option<&[usize]>,
) -> Result<RecordBatch> {
    if has_dictionaries(schema) {
        return Err(dictionaries());
    }
    let (parsed, body) = split(message)?;
    let body = message.slice_with_length(body.start, body.len());
    check_message(&parsed, &body, max_bytes)?;
    let batch = parsed.header_as_record_batch();
    let batch = batch.ok_or_else(|| FormatError::new(0, "a batch", "another message"))?;
    guarded(|| {
        let (none, version) = (HashMap::new(), parsed.version());
        RecordBatchDecoder::try_new(&body, batch, schema.clone(), &none, &version)?
            .with_projection(columns)
            .read_record_batch()
    })
}

/// What a message holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Schema,
    /// A batch of this many rows.
    Batch(u64),
    Dictionary,
    Nothing,
    /// A tensor.
    Other,
}

/// Where a message is, with the marks before its metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) position: u64,
    pub(crate) len: u64,
    pub(crate) content: Content,
}

/// A walk over the headers of all messages, from the first one.
#[derive(Debug, Clone)]
pub(crate) struct Walk {
    size: u64,
    max_bytes: u64,
    position: u64,
    /// Whether a mark must come before the end, as in a file.
    marked: bool,
    ended: bool,
}

impl Walk {
    /// Begins a walk over a file or stream of `size` bytes, in which no body may have more than `max_bytes`.
    pub(crate) fn begin(size: u64, max_bytes: u64, read: &mut ReadAt<'_, '_>) -> Result<Walk> {
        let head = read(0, MAX_PADDING)?;
        let mut walk = Walk { size, max_bytes, position: 0, marked: false, ended: false };
        if let Some(rest) = head.strip_prefix(MAGIC) {
            // Some writers begin the stream in a file at a multiple of 64 bytes.
            let zeros = rest.chunks_exact(8).take_while(|word| **word == [0; 8]).count();
            walk.position = (MAGIC.len() + 8 * zeros) as u64;
            walk.marked = true;
        }
        Ok(walk)
    }

    /// The next message, whose body is not read but lies within the file. `None` at the end.
    pub(crate) fn next(&mut self, read: &mut ReadAt<'_, '_>) -> Result<Option<Place>> {
        if self.ended {
            return Ok(None);
        }
        let position = self.position;
        let head = read(position, HEAD.min(self.size.saturating_sub(position)))?;
        if head.is_empty() && !self.marked {
            self.ended = true;
            return Ok(None);
        }
        let (start, len) = frame(&head).ok_or_else(|| {
            FormatError::new(self.size, "the end of the stream", "the end of the file")
        })?;
        let begin = position + start as u64;
        if len == 0 {
            (self.ended, self.position) = (true, begin);
            return Ok(None);
        }
        check_len(len.into(), MAX_METADATA, begin)?;
        let metadata = match head[start..].get(..len as usize) {
            Some(metadata) => Cow::Borrowed(metadata),
            None => read(begin, u64::from(len).min(self.size.saturating_sub(begin)))?,
        };
        if metadata.len() as u64 != u64::from(len) {
            return Err(cut(len.into(), metadata.len() as u64, self.size).into());
        }
        let message = parse_message(&metadata, position)?;
        let begin = begin + u64::from(len);
        let body = body_len(&message, begin)?;
        check_len(body, self.max_bytes, begin)?;
        let there = self.size.saturating_sub(begin);
        if body > there {
            return Err(cut(body, there, self.size).into());
        }
        let content = self
            .content(&message)
            .map_err(|error| error.within(format_args!("message at byte {position}")))?;
        self.position = begin + body;
        Ok(Some(Place { position, len: self.position - position, content }))
    }

    fn content(&self, message: &Message<'_>) -> Result<Content> {
        Ok(match message.header_type() {
            MessageHeader::Schema => Content::Schema,
            MessageHeader::RecordBatch => {
                let Some(batch) = message.header_as_record_batch() else {
                    return Ok(Content::Nothing);
                };
                let total = match batch.compression() {
                    Some(_) => self.max_bytes,
                    None => batch.buffers().iter().flatten().fold(0u64, |total, buffer| {
                        total.saturating_add(u64::try_from(buffer.length()).unwrap_or(0))
                    }),
                };
                Content::Batch(check_rows(batch.length(), total)?)
            }
            MessageHeader::DictionaryBatch => Content::Dictionary,
            MessageHeader::NONE => Content::Nothing,
            _ => Content::Other,
        })
    }
}

/// The schema of a file or stream, and where its batches are.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) schema: SchemaRef,
    /// The message of the schema.
    pub(crate) schema_at: Range<u64>,
    pub(crate) batches: Vec<BatchPlace>,
    /// The first byte behind the end of the stream.
    pub(crate) end: u64,
    pub(crate) is_file: bool,
}

/// Where the message of a batch is, and its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchPlace {
    pub(crate) position: u64,
    pub(crate) len: u64,
    pub(crate) rows: u64,
}

impl Layout {
    /// Reads the headers of all messages of a file or stream of `size` bytes.
    ///
    /// # Errors
    ///
    /// [`Damaged`](ErrorKind::Damaged) for what is none, [`Limit`](ErrorKind::Limit) for a body of more than
    /// `max_bytes`, and [`Unsupported`](ErrorKind::Unsupported) for dictionaries, which batches cannot be
    /// read without, and for tensors.
    pub(crate) fn read(size: u64, max_bytes: u64, read: &mut ReadAt<'_, '_>) -> Result<Layout> {
        let mut walk = Walk::begin(size, max_bytes, read)?;
        let other = |at: u64, expected: &str| FormatError::new(at, expected, "another message");
        let first = walk.next(read)?.filter(|first| first.content == Content::Schema);
        let first = first.ok_or_else(|| other(walk.position, "a schema"))?;
        let message = read(first.position, first.len)?;
        let schema = parse_schema(&message)
            .map_err(|error| error.within(format_args!("message at byte {}", first.position)))?;
        if has_dictionaries(&schema) {
            return Err(dictionaries());
        }
        let mut batches = Vec::new();
        while let Some(Place { position, len, content }) = walk.next(read)? {
            match content {
                Content::Batch(rows) => batches.push(BatchPlace { position, len, rows }),
                Content::Nothing => {}
                Content::Dictionary => return Err(dictionaries()),
                Content::Schema => return Err(other(position, "a batch").into()),
                Content::Other => {
                    let message =
                        format!("message at byte {position}: expected a batch, found a tensor");
                    return Err(Error::new(ErrorKind::Unsupported, message));
                }
            }
        }
        let schema_at = first.position..first.position + first.len;
        Ok(Layout { schema, schema_at, batches, end: walk.position, is_file: walk.marked })
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int32Type, Int64Type};
    use arrow_array::{Array, BinaryArray, DictionaryArray, Int64Array};
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
    use arrow_schema::Field;

    use super::*;

    fn batches() -> (SchemaRef, Vec<RecordBatch>) {
        let fields =
            vec![Field::new("n", DataType::Int64, true), Field::new("b", DataType::Binary, true)];
        let schema = Arc::new(Schema::new(fields));
        let batch = |numbers: Vec<i64>| {
            let bytes: Vec<Vec<u8>> = numbers.iter().map(|n| vec![b'x'; *n as usize]).collect();
            let bytes = BinaryArray::from_iter_values(bytes);
            let columns = vec![Arc::new(Int64Array::from(numbers)) as _, Arc::new(bytes) as _];
            RecordBatch::try_new(schema.clone(), columns).unwrap()
        };
        (schema.clone(), vec![batch(vec![3, 1]), batch(vec![]), batch(vec![4, 100, 5])])
    }

    fn stream(schema: &Schema, batches: &[RecordBatch]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = StreamWriter::try_new(&mut out, schema).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
        drop(writer);
        out
    }

    fn file(schema: &Schema, batches: &[RecordBatch], packed: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let compression = packed.then_some(CompressionType::LZ4_FRAME);
        let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
        let mut writer = FileWriter::try_new_with_options(&mut out, schema, options).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
        drop(writer);
        out
    }

    fn layout(bytes: &[u8]) -> Result<Layout> {
        let mut read = |at: u64, len: u64| {
            let rest = &bytes[(at as usize).min(bytes.len())..];
            Ok(Cow::Borrowed(&rest[..(len as usize).min(rest.len())]))
        };
        Layout::read(bytes.len() as u64, 1 << 20, &mut read)
    }

    fn decode(layout: &Layout, bytes: &Buffer, at: usize) -> Result<RecordBatch> {
        let BatchPlace { position, len, .. } = layout.batches[at];
        let message = bytes.slice_with_length(position as usize, len as usize);
        decode_batch(&layout.schema, &message, 1 << 20, None)
    }

    #[test]
    fn batches_by_their_own_bytes() {
        let (schema, batches) = batches();
        let stream = stream(&schema, &batches);
        let without_end = stream[..stream.len() - 8].to_vec();
        let trailing = [&stream[..], b"more"].concat();
        let files = [file(&schema, &batches, false), file(&schema, &batches, true)];
        let [plain, packed] = files;
        for (bytes, is_file, behind) in [
            (stream, false, Some(0)),
            (without_end, false, Some(0)),
            (trailing, false, Some(4)),
            (plain, true, None),
            (packed, true, None),
        ] {
            let found = layout(&bytes).unwrap();
            assert_eq!((&found.schema, found.is_file), (&schema, is_file));
            let rows: Vec<u64> = found.batches.iter().map(|batch| batch.rows).collect();
            assert_eq!(rows, [2, 0, 3]);
            let range = found.schema_at.start as usize..found.schema_at.end as usize;
            assert_eq!(parse_schema(&bytes[range]).unwrap(), schema);
            let rest = bytes.len() as u64 - found.end;
            assert!(behind.is_none_or(|behind| rest == behind), "{rest}");
            let bytes = Buffer::from_vec(bytes);
            for (at, batch) in batches.iter().enumerate() {
                assert_eq!(decode(&found, &bytes, at).unwrap(), *batch);
            }
        }
    }

    #[test]
    fn values_stay_in_the_buffer_and_columns_can_be_chosen() {
        let (schema, batches) = batches();
        let bytes = Buffer::from_vec(stream(&schema, &batches));
        let found = layout(&bytes).unwrap();
        let batch = decode(&found, &bytes, 2).unwrap();
        let value = batch.column(1).as_binary::<i32>().value(1).as_ptr_range();
        let all = bytes.as_slice().as_ptr_range();
        assert!(all.start <= value.start && value.end <= all.end);
        let BatchPlace { position, len, .. } = found.batches[2];
        let message = bytes.slice_with_length(position as usize, len as usize);
        let limited = decode_batch(&schema, &message, 99, None).unwrap_err();
        assert_eq!(limited.kind(), ErrorKind::Limit);
        let chosen = decode_batch(&schema, &message, 1 << 20, Some(&[1])).unwrap();
        assert_eq!(chosen, batch.project(&[1]).unwrap());
        let one = decode_batch(&schema, &message, 1 << 20, Some(&[0])).unwrap();
        assert_eq!(one.column(0).as_primitive::<Int64Type>().values(), &[4, 100, 5]);
    }

    #[test]
    fn dictionaries_are_refused() {
        let values: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
        let field = Field::new("d", values.data_type().clone(), true);
        let schema = Arc::new(Schema::new(vec![field]));
        let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(values)]).unwrap();
        let error = layout(&stream(&schema, &[batch])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }

    /// Whatever is read is an error or batches.
    #[test]
    fn damage_does_not_panic() {
        let (schema, batches) = batches();
        for bytes in [stream(&schema, &batches), file(&schema, &batches, false)] {
            for end in 0..bytes.len() {
                let Ok(found) = layout(&bytes[..end]) else { continue };
                assert!(found.end <= end as u64 && found.batches.len() <= 3);
            }
            for at in 0..bytes.len() {
                for value in [0, 0x7f, 0xff] {
                    let mut changed = bytes.clone();
                    changed[at] = value;
                    let Ok(found) = layout(&changed) else { continue };
                    let changed = Buffer::from_vec(changed);
                    for at in 0..found.batches.len() {
                        drop(decode(&found, &changed, at));
                    }
                }
            }
        }
    }
}
