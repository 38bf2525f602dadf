//! [`Views`]: a column of bytes that stay where they are.
//!
//! A view has the place of its bytes in a buffer as a number of 32 bits. So a memory map becomes one buffer for each
//! [`STEP`] bytes of it that some of the bytes begin in, as long as they need.

use std::sync::Arc;

use arrow_array::builder::make_view;
use arrow_array::{ArrayRef, BinaryViewArray};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::ArrowError;

use crate::error::{Error, ErrorKind, Result};

/// Finds the memory map that these bytes lie in, whole. `None` for bytes elsewhere, which are copied.
pub(crate) type FindMap<'a> = dyn Fn(&[u8]) -> Option<Buffer> + 'a;

/// Up to this many bytes are in a view itself.
const INLINE: usize = 12;
/// Bytes of a map from which on another buffer begins.
const STEP: usize = 1 << 30;
/// What is copied is collected in buffers of this size.
const BLOCK: usize = 1 << 20;
/// More bytes have no place in a view.
const MAX: usize = i32::MAX as usize;

/// Bytes so far, and the buffers that they are in.
#[derive(Default)]
pub(crate) struct Views {
    views: Vec<u128>,
    buffers: Vec<Place>,
    /// The map that the last bytes were in.
    map: Option<Buffer>,
    copied: usize,
}

enum Place {
    /// Bytes of a map: positions in it, from the start of the first bytes to the end of the last.
    Mapped {
        map: Buffer,
        from: usize,
        start: usize,
        end: usize,
    },
    Copied(Vec<u8>),
}

impl Views {
    pub(crate) fn push(&mut self, bytes: &[u8], find: &FindMap<'_>) -> Result<()> {
        if bytes.len() > MAX {
            let message = format!("expected at most {MAX} bytes, found {}", bytes.len());
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let (buffer, offset) = match bytes.len() {
            ..=INLINE => (0, 0),
            _ => self.mapped(bytes, find).unwrap_or_else(|| self.copy(bytes)),
        };
        self.views.push(make_view(bytes, buffer as u32, offset as u32));
        Ok(())
    }

    pub(crate) fn push_nothing(&mut self) {
        self.views.push(0);
    }

    /// Bytes in memory, without the maps.
    pub(crate) fn size(&self) -> usize {
        self.copied + size_of::<u128>() * self.views.len()
    }

    /// The buffer that these bytes are in, and their place there.
    fn mapped(&mut self, bytes: &[u8], find: &FindMap<'_>) -> Option<(usize, usize)> {
        if self.map.as_ref().is_none_or(|map| position(map, bytes).is_none()) {
            self.map = Some(find(bytes)?);
        }
        let map = self.map.as_ref()?;
        let at = position(map, bytes)?;
        // What would end too far from the start of its step has a buffer of its own.
        let from = if bytes.len() < STEP { at - at % STEP } else { at };
        let known =
            self.buffers.iter_mut().enumerate().rev().find_map(|(nth, place)| match place {
                Place::Mapped { map: known, from: begins, start, end }
                    if *begins == from && known.as_ptr() == map.as_ptr() =>
                {
                    Some((nth, start, end))
                }
                _ => None,
            });
        let nth = match known {
            Some((nth, start, end)) => {
                *start = at.min(*start);
                *end = (at + bytes.len()).max(*end);
                nth
            }
            None => {
                let end = at + bytes.len();
                self.buffers.push(Place::Mapped { map: map.clone(), from, start: at, end });
                self.buffers.len() - 1
            }
        };
        Some((nth, at - from))
    }

    fn copy(&mut self, bytes: &[u8]) -> (usize, usize) {
        self.copied += bytes.len();
        if let Some((nth, Place::Copied(block))) = self.buffers.iter_mut().enumerate().next_back() {
            if block.capacity() - block.len() >= bytes.len() {
                block.extend_from_slice(bytes);
                return (nth, block.len() - bytes.len());
            }
        }
        let mut block = Vec::with_capacity(bytes.len().max(BLOCK));
        block.extend_from_slice(bytes);
        self.buffers.push(Place::Copied(block));
        (self.buffers.len() - 1, 0)
    }

    pub(crate) fn finish(mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        // Programs take the length of a buffer for what its views need.
        let before: Vec<usize> = self.buffers.iter().map(Place::before).collect();
        if before.iter().any(|&before| before > 0) {
            for view in self.views.iter_mut().filter(|view| **view as u32 as usize > INLINE) {
                let before = before[(*view >> 64) as u32 as usize];
                *view -= (before as u128) << 96;
            }
        }
        let buffers: Vec<Buffer> = self.buffers.into_iter().map(Place::into_buffer).collect();
        let views = ScalarBuffer::from(self.views);
        Ok(Arc::new(BinaryViewArray::try_new(views, buffers, nulls)?))
    }
}

impl Place {
    /// Bytes that no view needs before the first that one does.
    fn before(&self) -> usize {
        match self {
            Place::Mapped { from, start, .. } => start - from,
            Place::Copied(_) => 0,
        }
    }

    fn into_buffer(self) -> Buffer {
        match self {
            Place::Mapped { map, start, end, .. } => map.slice_with_length(start, end - start),
            Place::Copied(block) => Buffer::from_vec(block),
        }
    }
}

/// Where bytes begin in a map, if they lie there.
fn position(map: &Buffer, bytes: &[u8]) -> Option<usize> {
    let at = bytes.as_ptr().addr().checked_sub(map.as_ptr().addr())?;
    let end = at.checked_add(bytes.len())?;
    (end <= map.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;

    use super::*;

    #[test]
    fn bytes_of_maps_are_not_copied() {
        let text: Vec<u8> = (0..=255).cycle().take(5000).collect();
        let (one, two) = (Buffer::from(&text[..]), Buffer::from(&text[..]));
        let find = |bytes: &[u8]| {
            [&one, &two].into_iter().find(|map| position(map, bytes).is_some()).cloned()
        };
        let elsewhere = text.clone();
        let all: Vec<&[u8]> = vec![
            &one[4000..4100],
            b"",
            &two[20..40],
            &one[1000..1013],
            &elsewhere[7..77],
            &one[4990..5000],
            &elsewhere[100..200],
            &two[0..13],
        ];
        let mut views = Views::default();
        for bytes in &all {
            views.push(bytes, &find).unwrap();
        }
        views.push_nothing();
        assert_eq!(views.copied, 170);
        let nulls: NullBuffer = (0..9).map(|row| row < 8).collect::<Vec<bool>>().into();
        let array = views.finish(Some(nulls)).unwrap();
        let array = array.as_binary_view();
        for (row, bytes) in all.iter().enumerate() {
            assert_eq!(array.value(row), *bytes, "{row}");
        }
        assert!(array.is_null(8));
        // As long as they need to be, and where the bytes are.
        let places: Vec<(*const u8, usize)> =
            array.data_buffers().iter().map(|buffer| (buffer.as_ptr(), buffer.len())).collect();
        assert_eq!(places[0], (one[1000..].as_ptr(), 3100));
        assert_eq!(places[1], (two[..].as_ptr(), 40));
        assert_eq!((places.len(), places[2].1), (3, 170));
    }
}
