//! A segment of a chunk table: entries by chunk number, and the hash of them all.
//!
//! Which segments make up a table is recorded in the [version](super::Version); [`is_merged`] and
//! [`merge`] decide when two become one.

use crate::format::FormatError;

/// The first bytes of a segment.
pub const MAGIC: [u8; 8] = *b"kisteseg";
/// The version of this layout.
pub const VERSION: u32 = 1;
/// Magic, version, four zeros, number of entries.
pub const HEADER: usize = MAGIC.len() + 4 + 4 + 8;
/// Chunk number, superchunk, slot, hash.
pub const ENTRY: usize = 8 + 4 + 4 + HASH;
/// A BLAKE3 hash.
pub const HASH: usize = 32;

/// Where a chunk is, and what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The number of the chunk.
    pub chunk: u64,
    /// The superchunk and the slot in it; `None` if the chunk is all fill value again.
    pub place: Option<Place>,
}

/// Where a stored chunk is, and the hash of its bytes before compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The number of the superchunk, from 1.
    pub superchunk: u32,
    /// Which of its chunks, from 0.
    pub slot: u32,
    /// BLAKE3 of the uncompressed chunk.
    pub hash: [u8; HASH],
}

/// The bytes of a segment. The entries ascend by chunk number, none comes twice.
///
/// ```
/// use kiste::format::chunked::segment::{self, Entry, Place, Segment};
///
/// let place = Some(Place { superchunk: 1, slot: 0, hash: [7; 32] });
/// let bytes = segment::encode(&[Entry { chunk: 3, place }, Entry { chunk: 9, place: None }]);
/// let segment = Segment::parse(&bytes)?;
/// assert_eq!(segment.find(3), Some(Entry { chunk: 3, place }));
/// assert_eq!(segment.find(4), None);
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
pub fn encode(entries: &[Entry]) -> Vec<u8> {
    debug_assert!(entries.is_sorted_by(|a, b| a.chunk < b.chunk));
    let mut bytes = Vec::with_capacity(HEADER + entries.len() * ENTRY + HASH);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&(entries.len() as u64).to_le_bytes());
    for Entry { chunk, place } in entries {
        let (superchunk, slot, hash) =
            place.map_or((0, 0, [0; HASH]), |p| (p.superchunk, p.slot, p.hash));
        bytes.extend_from_slice(&chunk.to_le_bytes());
        bytes.extend_from_slice(&superchunk.to_le_bytes());
        bytes.extend_from_slice(&slot.to_le_bytes());
        bytes.extend_from_slice(&hash);
    }
    let hash = blake3::hash(&bytes);
    bytes.extend_from_slice(hash.as_bytes());
    bytes
}

/// A borrowed segment that has been validated.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    entries: &'a [[u8; ENTRY]],
}

impl<'a> Segment<'a> {
    /// Checks everything: layout, hash and order.
    pub fn parse(bytes: &'a [u8]) -> Result<Segment<'a>, FormatError> {
        let segment = Segment::assume(bytes)?;
        let (content, hash) = bytes.split_at(bytes.len() - HASH);
        if blake3::hash(content).as_bytes() != hash {
            let position = content.len() as u64;
            return Err(FormatError::new(position, "the hash of all before", "another hash"));
        }
        segment.check_entries()?;
        Ok(segment)
    }

    /// The same without hash and order, for bytes that [`parse`](Self::parse) has seen before.
    /// Other bytes cannot cause a panic, only wrong answers.
    pub fn assume(bytes: &'a [u8]) -> Result<Segment<'a>, FormatError> {
        let head = |expected: &str| FormatError::new(0, expected, found(bytes));
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else {
            return Err(head("a segment"));
        };
        if header[..8] != MAGIC {
            return Err(head("a segment"));
        }
        let [v0, v1, v2, v3, zeros @ ..] = &header[8..16] else { return Err(head("a segment")) };
        let version = u32::from_le_bytes([*v0, *v1, *v2, *v3]);
        if version != VERSION {
            let expected = format!("version {VERSION} of a segment");
            return Err(FormatError::new(8, expected, version.to_string()));
        }
        if zeros != [0; 4] {
            return Err(FormatError::new(12, "four zeros", format!("{zeros:02x?}")));
        }
        let count = u64_at(header, 16);
        let there = rest.len().checked_sub(HASH).filter(|len| len % ENTRY == 0);
        match there.map(|len| (len / ENTRY) as u64) {
            Some(there) if there == count => {
                // An array of bytes is as long as its bytes and aligned like one: this cannot fail.
                Ok(Segment { entries: bytemuck::cast_slice(&rest[..rest.len() - HASH]) })
            }
            _ => {
                let expected = format!("{count} entries and a hash");
                Err(FormatError::new(HEADER as u64, expected, format!("{} bytes", rest.len())))
            }
        }
    }

    fn check_entries(&self) -> Result<(), FormatError> {
        let mut next = 0;
        for (i, raw) in self.entries.iter().enumerate() {
            let position = (HEADER + i * ENTRY) as u64;
            let chunk = u64_at(raw, 0);
            if chunk < next || chunk >= 1 << 63 {
                let expected = format!("a chunk number from {next} below 2^63");
                return Err(FormatError::new(position, expected, chunk.to_string()));
            }
            if raw[8..12] == [0; 4] && raw[12..] != [0; ENTRY - 12] {
                let expected = "zeros for a chunk that is all fill";
                return Err(FormatError::new(position + 12, expected, "other bytes"));
            }
            next = chunk + 1;
        }
        Ok(())
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entry at a position, if there is one.
    pub fn get(&self, index: usize) -> Option<Entry> {
        self.entries.get(index).map(decode)
    }

    /// The entry of a chunk.
    pub fn find(&self, chunk: u64) -> Option<Entry> {
        let found = self.entries.binary_search_by_key(&chunk, |raw| u64_at(raw, 0)).ok()?;
        self.get(found)
    }

    /// All entries, ascending.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Entry> + Clone + 'a {
        self.entries.iter().map(decode)
    }
}

fn decode(raw: &[u8; ENTRY]) -> Entry {
    let superchunk = u32_at(raw, 8);
    let mut hash = [0; HASH];
    hash.copy_from_slice(&raw[16..]);
    let place = Place { superchunk, slot: u32_at(raw, 12), hash };
    Entry { chunk: u64_at(raw, 0), place: (superchunk != 0).then_some(place) }
}

/// Callers pass positions inside arrays of known length.
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

fn found(bytes: &[u8]) -> String {
    match bytes.get(..8) {
        Some(magic) if magic != MAGIC => format!("{:?}", String::from_utf8_lossy(magic)),
        _ => format!("{} bytes", bytes.len()),
    }
}

/// Whether segments with these numbers of entries are merged.
///
/// Then the segments of a table shrink to less than half from each to the next, so there are few.
pub fn is_merged(older: u64, newer: u64) -> bool {
    older <= newer.saturating_mul(2)
}

/// The entries of two segments, or of what was merged before: for a chunk in both the newer one
/// counts. `oldest`: nothing is older, so that entries of fill say nothing and are left out.
pub fn merge(
    older: impl IntoIterator<Item = Entry>,
    newer: impl IntoIterator<Item = Entry>,
    oldest: bool,
) -> Vec<Entry> {
    let mut older = older.into_iter().peekable();
    let mut newer = newer.into_iter().peekable();
    let mut merged = Vec::new();
    loop {
        let entry = match (older.peek(), newer.peek()) {
            (None, None) => return merged,
            (Some(_), None) => older.next(),
            (None, Some(_)) => newer.next(),
            (Some(a), Some(b)) if a.chunk < b.chunk => older.next(),
            (Some(a), Some(b)) => {
                if a.chunk == b.chunk {
                    older.next();
                }
                newer.next()
            }
        };
        merged.extend(entry.filter(|e| e.place.is_some() || !oldest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(chunk: u64, superchunk: u32) -> Entry {
        let place = Place { superchunk, slot: chunk as u32, hash: [chunk as u8; HASH] };
        Entry { chunk, place: (superchunk != 0).then_some(place) }
    }

    fn entries() -> Vec<Entry> {
        vec![entry(0, 1), entry(2, 0), entry(5, u32::MAX), entry((1 << 63) - 1, 3)]
    }

    #[test]
    fn layout_is_frozen() {
        let place = Place { superchunk: 0x0403_0201, slot: 5, hash: [9; HASH] };
        let bytes = encode(&[Entry { chunk: 0x0807_0605_0403_0201, place: Some(place) }]);
        let mut expected = b"kisteseg\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
        expected.extend_from_slice(b"\x01\x02\x03\x04\x05\x06\x07\x08\x01\x02\x03\x04\x05\0\0\0");
        expected.extend_from_slice(&[9; 32]);
        expected.extend_from_slice(blake3::hash(&expected).as_bytes());
        assert_eq!(bytes, expected);
        assert_eq!((HEADER, ENTRY, HASH), (24, 48, 32));
    }

    #[test]
    fn comes_back() {
        for entries in [vec![], entries()] {
            let bytes = encode(&entries);
            let segment = Segment::parse(&bytes).unwrap();
            assert_eq!(segment.iter().collect::<Vec<_>>(), entries);
            assert_eq!((segment.len(), segment.is_empty()), (entries.len(), entries.is_empty()));
            for chunk in [0, 1, 2, 3, 5, 6, (1 << 63) - 1, u64::MAX] {
                let expected = entries.iter().find(|e| e.chunk == chunk).copied();
                assert_eq!(segment.find(chunk), expected);
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn every_truncation_and_every_flip_is_noticed() {
        let bytes = encode(&entries());
        for len in 0..bytes.len() {
            assert!(Segment::parse(&bytes[..len]).is_err(), "{len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Segment::parse(&flipped).is_err(), "{bit}");
            // Unchecked, an answer at most.
            if let Ok(segment) = Segment::assume(&flipped) {
                segment.find(5);
            }
        }
        let mut longer = bytes;
        longer.push(0);
        assert!(Segment::parse(&longer).is_err());
    }

    #[test]
    fn wrong_entries_are_named_even_if_the_hash_is_right() {
        let told = |entries: &[Entry], at: usize, new: &[u8]| {
            let mut bytes = encode(entries);
            bytes.truncate(bytes.len() - HASH);
            bytes[at..at + new.len()].copy_from_slice(new);
            let hash = blake3::hash(&bytes);
            bytes.extend_from_slice(hash.as_bytes());
            Segment::parse(&bytes).unwrap_err().to_string()
        };
        let two = [entry(3, 1), entry(4, 0)];
        assert_eq!(
            told(&two, HEADER + ENTRY, &[3]),
            "byte 72: expected a chunk number from 4 below 2^63, found 3"
        );
        assert_eq!(
            told(&two, HEADER + ENTRY + 7, &[0x80]),
            "byte 72: expected a chunk number from 4 below 2^63, found 9223372036854775812"
        );
        assert_eq!(
            told(&two, HEADER + ENTRY + 20, &[1]),
            "byte 84: expected zeros for a chunk that is all fill, found other bytes"
        );
        assert_eq!(
            told(&two, 16, &[0xff; 8]),
            "byte 24: expected 18446744073709551615 entries and a hash, found 128 bytes"
        );
    }

    #[test]
    fn the_newer_entry_counts() {
        let older = [entry(1, 1), entry(2, 1), entry(4, 1)];
        let newer = [entry(0, 2), entry(2, 0), entry(4, 2)];
        let both = vec![entry(0, 2), entry(1, 1), entry(2, 0), entry(4, 2)];
        assert_eq!(merge(older, newer, false), both);
        let without_fill = vec![entry(0, 2), entry(1, 1), entry(4, 2)];
        assert_eq!(merge(older, newer, true), without_fill);
        assert_eq!(merge([], newer, false), newer);
        assert_eq!(merge(older, [], true), older);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn a_table_has_few_segments_and_few_rewrites() {
        // Commits of one chunk each, all of different chunks.
        let (mut sizes, mut written) = (Vec::<u64>::new(), 0_u64);
        for n in 1..=10_000_u64 {
            let mut new = 1;
            while sizes.last().is_some_and(|older| is_merged(*older, new)) {
                new += sizes.pop().unwrap();
            }
            sizes.push(new);
            written += new;
            assert!(sizes.len() as u32 <= n.ilog2() + 1, "{n}: {sizes:?}");
            assert!(written <= n * u64::from(n.ilog2() + 1), "{n}: {written}");
        }
    }
}
