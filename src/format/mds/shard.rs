//! A shard: where its samples are, and where the columns are in a sample.

use std::ops::Range;

use super::encoding::{Decoded, Encoding, array_head};
use super::index::{Column, ShardInfo};
use crate::Value;
use crate::format::{FormatError, jsonl};
use crate::value::{ByteOrder, DType};

/// Whether some JSON in these bytes may have objects of the notation.
fn may_have_notation(sample: &[u8]) -> bool {
    sample.windows(3).any(|bytes| bytes == b"{\"$")
}

/// The version of the notation of JSON that we write.
const NOTATION: u64 = 1;

/// Whether a shard whose offsets are followed by this JSON, up to the first sample, uses the notation.
pub(crate) fn head_has_notation(json: &[u8]) -> bool {
    let head: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
    head["kiste"]["json"] == NOTATION
}

/// The bytes of each column of a sample, and where they are in the file.
pub(crate) type Cells<'a> = Vec<(&'a [u8], Range<usize>)>;

/// The bytes of a shard, whose head has been looked at.
#[derive(Debug, Clone)]
pub struct Shard<'a> {
    bytes: &'a [u8],
    columns: &'a [Column],
    samples: usize,
}

impl<'a> Shard<'a> {
    /// Looks at where the samples begin: all of it must fit.
    pub fn parse(bytes: &'a [u8], columns: &'a [Column]) -> Result<Shard<'a>, FormatError> {
        let samples = number(bytes, 0).and_then(|samples| usize::try_from(samples).ok());
        let samples = samples.ok_or_else(|| {
            FormatError::new(0, "a shard of MDS", format!("{} bytes", bytes.len()))
        })?;
        let head = samples.checked_add(2).and_then(|count| count.checked_mul(4));
        if head.is_none_or(|head| head > bytes.len()) {
            let found = format!("{} bytes", bytes.len());
            return Err(FormatError::new(4, format!("{samples} offsets"), found));
        }
        let shard = Shard { bytes, columns, samples };
        let mut last = 4 * (samples as u64 + 2);
        for at in 0..=samples {
            let offset = u64::from(number(bytes, 4 + 4 * at).unwrap_or(0));
            if offset < last || offset > bytes.len() as u64 {
                let expected = format!("an offset from {last} to {}", bytes.len());
                return Err(FormatError::new(4 + 4 * at as u64, expected, offset.to_string()));
            }
            last = offset;
        }
        if last != bytes.len() as u64 {
            let expected = format!("the end of the last sample at {}", bytes.len());
            return Err(FormatError::new(4 + 4 * samples as u64, expected, last.to_string()));
        }
        Ok(shard)
    }

    /// Whether the JSON in it uses the notation of [`jsonl`], according to its header.
    pub(crate) fn has_notation(&self) -> bool {
        let start = 4 * (self.samples + 2);
        let end = number(self.bytes, 4).map_or(start, |end| end as usize);
        head_has_notation(self.bytes.get(start..end).unwrap_or_default())
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.samples
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// The bytes of each column of a sample, and where they are in the file. `None` beyond the last
    /// sample.
    pub fn columns(&self, index: usize) -> Option<Result<Cells<'a>, FormatError>> {
        let range = (index < self.samples).then(|| {
            let at = |index: usize| number(self.bytes, 4 + 4 * index).unwrap_or(0) as usize;
            at(index)..at(index + 1)
        })?;
        Some(self.split(range))
    }

    fn split(&self, range: Range<usize>) -> Result<Cells<'a>, FormatError> {
        let (start, bytes) = (range.start, &self.bytes[range]);
        let cells = sample_cells(self.columns, bytes);
        let (mut cells, len) = cells.map_err(|error| error.behind(start as u64))?;
        if len != bytes.len() {
            return Err(cut(bytes, len).behind(start as u64));
        }
        for (_, at) in &mut cells {
            *at = start + at.start..start + at.end;
        }
        Ok(cells)
    }
}

/// The cells of the sample at the front of these bytes, which may go on behind it, and its length. Positions
/// count from where the sample begins.
pub(crate) fn sample_cells<'a>(
    columns: &[Column],
    bytes: &'a [u8],
) -> Result<(Cells<'a>, usize), FormatError> {
    let mut at = 0;
    let mut sizes = Vec::with_capacity(columns.len());
    for column in columns {
        sizes.push(match column.size {
            Some(size) => size,
            None => {
                let size = number(bytes, at).ok_or_else(|| cut(bytes, at))?;
                at += 4;
                size
            }
        });
    }
    let mut cells = Vec::with_capacity(sizes.len());
    for size in sizes {
        let end = usize::try_from(size).ok().and_then(|size| at.checked_add(size));
        let end = end.filter(|&end| end <= bytes.len()).ok_or_else(|| cut(bytes, at))?;
        cells.push((&bytes[at..end], at..end));
        at = end;
    }
    Ok((cells, at))
}

/// The error of a sample that is not as long as its columns.
fn cut(sample: &[u8], at: usize) -> FormatError {
    let found = format!("{} bytes", sample.len());
    FormatError::new(at as u64, "a sample with all its columns", found)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// The bytes of a sample with these values, one for each column. `None` where a value does not fit
/// its column, or is too long.
pub(crate) fn encode_sample(columns: &[Column], values: &[Decoded<'_>]) -> Option<Vec<u8>> {
    let (mut head, mut body) = (Vec::new(), Vec::new());
    for (column, value) in columns.iter().zip(values) {
        let start = body.len();
        encode_value(&column.encoding, value, &mut body)?;
        let size = u32::try_from(body.len() - start).ok()?;
        match column.size {
            None => head.extend_from_slice(&size.to_le_bytes()),
            Some(expected) if expected == size => {}
            Some(_) => return None,
        }
    }
    head.append(&mut body);
    (columns.len() == values.len()).then_some(head)
}

fn encode_value(encoding: &Encoding, value: &Decoded<'_>, out: &mut Vec<u8>) -> Option<()> {
    match (encoding, value) {
        (Encoding::Bytes | Encoding::Image(_), Decoded::Bytes(bytes)) => {
            out.extend_from_slice(bytes)
        }
        (Encoding::Text, Decoded::Value(Value::String(text))) => {
            out.extend_from_slice(text.as_str()?.as_bytes());
        }
        (Encoding::TextInt, Decoded::Value(Value::Integer(number))) => {
            out.extend_from_slice(number.to_string().as_bytes());
        }
        (Encoding::Int, Decoded::Value(Value::Integer(number))) => {
            out.extend_from_slice(&number.as_i64()?.to_le_bytes());
        }
        (Encoding::Scalar(dtype), Decoded::Scalar(array)) if dtype == array.dtype() => {
            out.extend_from_slice(array.bytes());
        }
        (Encoding::Scalar(dtype), Decoded::Value(Value::F64(number)))
            if *dtype == DType::of::<f64>().with_byte_order(ByteOrder::Little) =>
        {
            out.extend_from_slice(&number.to_le_bytes());
        }
        (Encoding::Array(None, None), Decoded::Array(array)) => {
            let little = array.dtype().clone().with_byte_order(ByteOrder::Little);
            if little != *array.dtype() {
                return None;
            }
            out.extend_from_slice(&array_head(array)?);
            out.extend_from_slice(&array.c_bytes());
        }
        (Encoding::Json, Decoded::Value(value)) => jsonl::write_python(value, out).ok()?,
        _ => return None,
    }
    Some(())
}

/// The bytes of a shard of these samples; `None` if they are more than offsets of four bytes reach.
///
/// Only columns, compression, hashes and limit of `info` count.
pub(crate) fn encode_shard(info: &ShardInfo, samples: &[Vec<u8>]) -> Option<Vec<u8>> {
    // Where the notation is not needed, the shard is as Streaming writes it.
    let has_json = info.columns.iter().any(|column| column.encoding == Encoding::Json);
    let own = if has_json && samples.iter().any(|sample| may_have_notation(sample)) {
        format!(", \"kiste\": {{\"json\": {NOTATION}}}")
    } else {
        String::new()
    };
    let config = format!("{{{}, {}{own}}}", info.config(), info.limit());
    let mut offset = 4 * (samples.len() + 2) + config.len();
    let size = samples.iter().map(Vec::len).sum::<usize>() + offset;
    u32::try_from(size).ok()?;
    let mut out = Vec::with_capacity(size);
    out.extend_from_slice(&(samples.len() as u32).to_le_bytes());
    for len in samples.iter().map(Vec::len).chain([0]) {
        out.extend_from_slice(&(offset as u32).to_le_bytes());
        offset += len;
    }
    out.extend_from_slice(config.as_bytes());
    samples.iter().for_each(|sample| out.extend_from_slice(sample));
    Some(out)
}
