//! Decisions about storage when an array is created: chunk shape, superchunks, fill value. Pure
//! numbers, from options, element type and shape.

use serde_json::Map;

use crate::array::chunked::options::ArrayOptions;
use crate::error::{Error, ErrorKind, Result};
use crate::format::blosc::{Params, Shuffle};
use crate::format::chunked::{
    Compression, MAX_CHUNK_BYTES, MAX_DIMENSIONS, Storage as StorageMeta,
};
use crate::value::DType;

/// The automatic chunk size is between these.
const SMALL_CHUNK: usize = 64 << 10;
const LARGE_CHUNK: usize = 1 << 20;
/// The chunk size of an array of unknown length.
const USUAL_CHUNK: usize = 256 << 10;
/// The automatic chunk size aims at this many chunks.
const CHUNKS: usize = 256;
/// The automatic size of a superchunk before compression, and the most chunks in it.
const SUPERCHUNK: usize = 32 << 20;
const MOST_CHUNKS: usize = 4096;

/// The properties that an array keeps all its life.
pub(super) fn storage_of(
    options: &ArrayOptions,
    dtype: &DType,
    shape: &[usize],
) -> Result<StorageMeta> {
    if shape.len() > MAX_DIMENSIONS {
        let message = format!("expected at most {MAX_DIMENSIONS} axes, found {}", shape.len());
        return Err(Error::new(ErrorKind::Limit, message));
    }
    let chunk = chunk_shape(options, dtype.item_size(), shape)?;
    let chunk_bytes = chunk.iter().product::<usize>() * dtype.item_size();
    let params = Params {
        codec: options.codec,
        level: options.level,
        shuffle: options.shuffle,
        ..Params::default()
    };
    params.check(chunk_bytes)?;
    if options.room > 0 && options.versioned {
        let message = "expected no room in a versioned array, whose chunks never change";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let shuffle = match options.shuffle {
        Shuffle::None => 0,
        Shuffle::Byte => 1,
        Shuffle::Bit => 2,
    };
    Ok(StorageMeta {
        dtype: dtype.to_string(),
        chunkshape: chunk.iter().map(|n| *n as u64).collect(),
        order: "C".to_owned(),
        fill: fill_bytes(options, dtype)?,
        superchunk: superchunk(options, chunk_bytes)?,
        cparams: Compression {
            cname: options.codec.name().to_owned(),
            clevel: options.level,
            shuffle,
        },
        checksum: options.checksum.name().to_owned(),
        room: options.room,
        expectedlen: options.expected_len,
        versioned: options.versioned,
        others: Map::new(),
    })
}

/// The bytes of the fill value.
fn fill_bytes(options: &ArrayOptions, dtype: &DType) -> Result<Vec<u8>> {
    let Some((given, bytes)) = &options.fill else { return Ok(vec![0; dtype.item_size()]) };
    let same = match given {
        Some(given) => given == dtype,
        None => bytes.len() == dtype.item_size(),
    };
    if !same {
        let found = given.as_ref().map_or(format!("{} bytes", bytes.len()), DType::to_string);
        let message = format!("expected a fill value of type {dtype}, found {found}");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(bytes.clone())
}

/// The shape of the chunks of an array.
fn chunk_shape(options: &ArrayOptions, item: usize, shape: &[usize]) -> Result<Vec<usize>> {
    let chunk = match &options.chunk_shape {
        Some(chunk) => chunk.clone(),
        None => automatic(options, item, shape),
    };
    let bytes = chunk.iter().try_fold(item, |bytes, len| bytes.checked_mul(*len));
    let fits = bytes.is_some_and(|bytes| (1..=MAX_CHUNK_BYTES).contains(&(bytes as u64)));
    if chunk.len() != shape.len() || !fits {
        let message = format!(
            "expected chunks of {} axes and 1 to {MAX_CHUNK_BYTES} bytes, found {chunk:?} of \
             {item} bytes each",
            shape.len()
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(chunk)
}

/// Whole rows or, if a row is too long, rows cut along their longest axes.
fn automatic(options: &ArrayOptions, item: usize, shape: &[usize]) -> Vec<usize> {
    let Some((&first, rest)) = shape.split_first() else { return Vec::new() };
    let mut chunk: Vec<usize> = std::iter::once(1).chain(rest.iter().map(|n| *n.max(&1))).collect();
    let row = |chunk: &[usize]| chunk.iter().fold(item, |bytes, len| bytes.saturating_mul(*len));
    let expected = options.expected_len.map_or(0, |len| usize::try_from(len).unwrap_or(usize::MAX));
    let target = match first.max(expected) {
        0 => USUAL_CHUNK,
        len => (row(&chunk).saturating_mul(len) / CHUNKS).clamp(SMALL_CHUNK, LARGE_CHUNK),
    };
    while row(&chunk) > target {
        match chunk.iter_mut().max() {
            Some(longest) if *longest > 1 => *longest = longest.div_ceil(2),
            _ => break,
        }
    }
    chunk[0] = (target / row(&chunk)).max(1);
    chunk
}

/// The most chunks in a file.
fn superchunk(options: &ArrayOptions, chunk_bytes: usize) -> Result<u32> {
    match options.superchunk {
        Some(0) => {
            let message = "expected one chunk in a superchunk at least, found 0";
            Err(Error::new(ErrorKind::Invalid, message))
        }
        Some(chunks) => Ok(chunks),
        None => Ok((SUPERCHUNK / chunk_bytes).clamp(1, MOST_CHUNKS) as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_rows_of_a_good_size() {
        let options = ArrayOptions::default();
        for (item, shape, expected) in [
            (8, vec![], vec![]),
            (8, vec![0], vec![32 << 10]),
            (8, vec![100], vec![8 << 10]),
            (8, vec![100_000_000], vec![128 << 10]),
            (1, vec![60_000, 28, 28], vec![234, 28, 28]),
            (4, vec![10, 3, 2000, 2000], vec![1, 3, 250, 250]),
            (8, vec![0, 0, 3], vec![10922, 1, 3]),
            (8, vec![usize::MAX, usize::MAX], vec![1, 131072]),
            (3 << 20, vec![7], vec![1]),
        ] {
            assert_eq!(chunk_shape(&options, item, &shape).unwrap(), expected, "{shape:?}");
        }
        let long = chunk_shape(&options.expected_len(1 << 40), 8, &[0]).unwrap();
        assert_eq!(long, [128 << 10]);
    }

    #[test]
    fn chunks_that_cannot_be_are_refused() {
        for (chunk, shape) in
            [(vec![0], vec![3]), (vec![1, 1], vec![3]), (vec![1 << 30], vec![3]), (vec![1], vec![])]
        {
            let options = ArrayOptions::default().chunk_shape(chunk);
            assert_eq!(chunk_shape(&options, 8, &shape).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }

    #[test]
    fn a_fill_value_has_the_type_of_the_array() {
        let options = ArrayOptions::default().fill(1.5_f32);
        assert_eq!(
            fill_bytes(&options, &DType::of::<f32>()).unwrap(),
            bytemuck::bytes_of(&1.5_f32)
        );
        assert!(fill_bytes(&options, &DType::of::<i32>()).is_err());
        let options = ArrayOptions::default().fill_bytes([1, 2]);
        assert_eq!(fill_bytes(&options, &DType::bytes(2)).unwrap(), [1, 2]);
        assert!(fill_bytes(&options, &DType::bytes(3)).is_err());
        assert_eq!(fill_bytes(&ArrayOptions::default(), &DType::bytes(3)).unwrap(), [0; 3]);
    }
}
