//! `.lookup`: a hash table of the keys, so that one is found without a scan of `.key_hashes`. Ours alone.
//!
//! The table holds the samples sorted by [`hash`], with gaps: each is in its home slot, the position of
//! its hash among all possible hashes, or in the next free slot after it. So a search starts at the
//! home slot and ends at an empty slot.
//!
//! The lowest bits of a slot are the index of a sample, just enough for the number of samples. The
//! other bits are its tag: the lowest bits of its hash. So the search skips nearly all samples with
//! another hash without reading them: at a million samples one tag in 4,096 agrees by chance.
//!
//! A table in memory has the same layout, by the hashes in `.key_hashes`: [`Placer`] builds it, [`Shape::probe`]
//! searches it, and neither depends on which hashes these are or where the slots are stored. A file also has a
//! [`Header`], which identifies its `.key_hashes`.

use twox_hash::XxHash3_64;

use super::blake2s;
use super::key_hashes::Salt;
use crate::format::FormatError;

/// The first bytes of a `.lookup`.
pub(crate) const MAGIC: [u8; 8] = *b"KISTELUP";

/// The version that is written, and the only one that is read.
///
/// The slots of version 1 had no tags, and version 2 placed them by the hashes in `.key_hashes`. No
/// release wrote either.
pub(crate) const VERSION: u32 = 3;

/// Bytes before the slots.
pub const HEADER: usize = 128;

/// Bytes of a slot.
pub(crate) const SLOT: u64 = 4;

/// The content of an empty slot.
pub const EMPTY: u32 = u32::MAX;

/// The most samples: each needs an index below [`EMPTY`].
pub(crate) const MAX_COUNT: u64 = u32::MAX as u64;

/// The hash of a key, by which the file is sorted: XXH3 of 64 bits.
///
/// Not the one in `.key_hashes`, which takes longer than everything else in a look-up together.
#[inline]
pub(crate) fn hash(key: &[u8]) -> u64 {
    XxHash3_64::oneshot(key)
}

/// The dimensions of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    count: u64,
    home: u64,
    total: u64,
}

impl Shape {
    /// The number of samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The number of slots that are home to a hash.
    pub fn home_slots(&self) -> u64 {
        self.home
    }

    /// The slot where the search for a hash begins.
    #[inline]
    pub fn home_of(&self, hash: u64) -> u64 {
        home_of(hash, self.home)
    }

    /// Bits of a slot that are the index.
    #[inline]
    fn index_bits(&self) -> u32 {
        index_bits(self.count)
    }

    /// The number of all slots, the tail included.
    pub fn slots(&self) -> u64 {
        self.total
    }

    /// The size of the file.
    pub fn file_len(&self) -> u64 {
        HEADER as u64 + self.total * SLOT // At most 2^33 slots of each kind.
    }

    /// Starts the search for the samples of this hash.
    #[inline]
    pub fn probe(&self, wanted: u64) -> Probe {
        Probe {
            tag: tag(wanted, self.index_bits()),
            slot: self.home_of(wanted),
            end: self.total,
            count: self.count,
            left: self.count,
        }
    }

    /// The first result of the search for this hash, if all slots are in memory: the same with less
    /// work for each slot. The index may be out of range, which that search refuses.
    #[inline(always)]
    pub(crate) fn first_candidate(&self, slots: &[u8], wanted: u64) -> Option<u32> {
        let bits = self.index_bits();
        let tag = tag(wanted, bits);
        let home = usize::try_from(self.home_of(wanted)).ok()?;
        let slots = slots.get(home * SLOT as usize..)?;
        // No more steps than there are samples, in a table that someone made to have many.
        let most = usize::try_from(self.count.saturating_mul(SLOT)).unwrap_or(usize::MAX);
        for slot in slots[..slots.len().min(most)].chunks_exact(SLOT as usize) {
            let slot = u32::from_be_bytes([slot[0], slot[1], slot[2], slot[3]]);
            if slot == EMPTY {
                break;
            }
            if u64::from(slot ^ tag) >> bits == 0 {
                return Some(slot ^ tag);
            }
        }
        None
    }
}

/// The home slot of a hash.
#[inline]
fn home_of(hash: u64, slots: u64) -> u64 {
    ((u128::from(hash) * u128::from(slots)) >> 64) as u64
}

/// Bits that the index of one of `n` samples takes. Not all of them are ever set, so no slot looks empty.
#[inline]
fn index_bits(n: u64) -> u32 {
    u64::BITS - n.leading_zeros()
}

/// The tag of a hash, where it is in a slot.
#[inline]
fn tag(hash: u64, index_bits: u32) -> u32 {
    // With 2^31 samples or more no bits are left.
    (hash as u32).checked_shl(index_bits).unwrap_or(0)
}

/// The number of home slots for `n` samples: 7 bytes a sample, and 57 % of them in use.
fn home_slots(n: u64) -> u64 {
    n + n / 2 + n / 4 + 1
}

/// A search for one hash: gives one candidate after the other.
///
/// A candidate has the tag of the hash, so it very likely has the hash. The caller compares its *key* and
/// asks for the next one if they differ.
///
/// The table may be hostile: no slot outside it is requested, no index beyond the samples is
/// returned, and the walk ends after at most one step per sample.
#[derive(Debug, Clone)]
pub struct Probe {
    tag: u32,
    slot: u64,
    end: u64,
    count: u64,
    left: u64,
}

impl Probe {
    /// The next sample with the tag of the hash. `slot_at` returns the content of a slot.
    #[inline]
    pub fn next_candidate<E: From<FormatError>>(
        &mut self,
        mut slot_at: impl FnMut(u64) -> Result<u32, E>,
    ) -> Result<Option<u32>, E> {
        let end = 1 << index_bits(self.count);
        while self.slot < self.end && self.left > 0 {
            let slot = slot_at(self.slot)?;
            if slot == EMPTY {
                break;
            }
            // Another tag leaves bits above the index.
            let index = slot ^ self.tag;
            let has_tag = u64::from(index) < end;
            if has_tag && u64::from(index) >= self.count {
                return Err(self.no_such_sample(index).into());
            }
            self.slot += 1;
            self.left -= 1;
            if has_tag {
                return Ok(Some(index));
            }
        }
        self.left = 0;
        Ok(None)
    }

    #[cold]
    fn no_such_sample(&self, index: u32) -> FormatError {
        let position = HEADER as u64 + self.slot.saturating_mul(SLOT);
        let expected = format!("the index of one of {} samples", self.count);
        FormatError::new(position, expected, index.to_string())
    }
}

/// Makes a table from hashes in ascending order. The same hashes always make the same table.
#[derive(Debug)]
pub struct Placer {
    count: u64,
    home: u64,
    placed: u64,
    last: Option<(u64, u32)>,
    /// Slots that were taken out.
    taken: u64,
    slots: Vec<u32>,
}

impl Placer {
    /// A table for this many samples. More than [`MAX_COUNT`] are an error.
    pub fn new(count: u64) -> Result<Placer, FormatError> {
        if count > MAX_COUNT {
            let expected = format!("at most {MAX_COUNT} samples");
            return Err(FormatError::new(16, expected, count.to_string()));
        }
        // The largest table of this many samples must be addressable.
        if isize::try_from((home_slots(count) + count) * SLOT).is_err() {
            let expected = "a table that fits into memory";
            return Err(FormatError::new(16, expected, format!("{count} samples")));
        }
        let (home, slots) = (home_slots(count), Vec::new());
        Ok(Placer { count, home, placed: 0, last: None, taken: 0, slots })
    }

    /// Places a sample. Hashes ascend; where they are equal, indices do.
    #[inline]
    pub fn push(&mut self, hash: u64, index: u32) -> Result<(), FormatError> {
        let ascends = self.last.is_none_or(|last| last < (hash, index));
        if !ascends || u64::from(index) >= self.count || self.placed == self.count {
            return Err(self.misplaced(hash, index));
        }
        self.last = Some((hash, index));
        self.placed += 1;
        // Slots behind the last are not there yet, so the next free one is at the end.
        let home = home_of(hash, self.home).saturating_sub(self.taken) as usize;
        if home > self.slots.len() {
            self.slots.resize(home, EMPTY);
        }
        self.slots.push(tag(hash, index_bits(self.count)) | index);
        Ok(())
    }

    /// Takes out the slots up to here, which no sample that is still to be placed can change: for a table that is
    /// larger than memory is wanted for.
    pub(crate) fn take(&mut self, out: &mut Vec<u32>) {
        self.taken += self.slots.len() as u64;
        out.append(&mut self.slots);
    }

    /// The table, or what is left of it, once all samples are placed.
    pub fn finish(mut self) -> Result<(Shape, Vec<u32>), FormatError> {
        if self.placed != self.count {
            let expected = format!("{} samples", self.count);
            return Err(FormatError::new(16, expected, self.placed.to_string()));
        }
        let total = self.home.max(self.taken + self.slots.len() as u64);
        self.slots.resize((total - self.taken) as usize, EMPTY);
        Ok((Shape { count: self.count, home: self.home, total }, self.slots))
    }

    #[cold]
    fn misplaced(&self, hash: u64, index: u32) -> FormatError {
        let expected = match self.last {
            Some((last, i)) => format!("{} samples by hash, after {last:016x} of {i}", self.count),
            None => format!("{} samples by hash", self.count),
        };
        let position = HEADER as u64 + (self.taken + self.slots.len() as u64) * SLOT;
        FormatError::new(position, expected, format!("{hash:016x} of {index}"))
    }
}

/// Binds a table to the `.key_hashes` of the same keys.
///
/// It is compared when a dataset is opened, by reading both ends of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// The number of hashes.
    pub count: u64,
    /// The salt.
    pub salt: Salt,
    /// The first hash, 0 without samples.
    pub first: u64,
    /// The last hash, 0 without samples.
    pub last: u64,
}

/// The header of a `.lookup` file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    shape: Shape,
    source: Source,
    of: Sums,
    checksum: u32,
}

/// Digests of the whole `.key_hashes` that a table belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sums {
    /// As in `.md5`, so that a file from before the last write is recognised without a look at `.key_hashes`.
    pub md5: [u8; 16],
    /// The CRC-32C, which is quick to compare.
    pub crc: u32,
}

impl Header {
    /// The header of a table that belongs to this source with these digests, and whose slots have this CRC-32C.
    pub fn new(
        shape: Shape,
        source: Source,
        of: Sums,
        checksum: u32,
    ) -> Result<Header, FormatError> {
        if shape.count != source.count {
            let expected = format!("{} samples", source.count);
            return Err(FormatError::new(16, expected, shape.count.to_string()));
        }
        Ok(Header { shape, source, of, checksum })
    }

    /// The dimensions of the table.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The dataset that the table belongs to.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The digests of the whole `.key_hashes` that the table belongs to.
    pub fn sums(&self) -> &Sums {
        &self.of
    }

    /// The CRC-32C of all bytes behind the header.
    pub fn checksum(&self) -> u32 {
        self.checksum
    }

    /// The bytes of the header.
    pub fn encode(&self) -> [u8; HEADER] {
        let Header { shape, source, of, checksum } = self;
        let words = [
            u64::from_be_bytes(MAGIC),
            u64::from(VERSION) << 32,
            shape.count,
            shape.home,
            shape.total,
            u64::from_be_bytes(source.salt.0),
            source.first,
            source.last,
        ];
        let mut header = [0; HEADER];
        for (place, word) in header.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        header[64..80].copy_from_slice(&of.md5);
        header[80..84].copy_from_slice(&of.crc.to_be_bytes());
        header[84..88].copy_from_slice(&checksum.to_be_bytes());
        let check = check_of(&header);
        header[CHECK..].copy_from_slice(&check);
        header
    }

    /// Parses the first [`HEADER`] bytes of a file of `file_len` bytes.
    ///
    /// The dimensions are checked against each other and against the size of the file; the slots
    /// are not looked at.
    pub fn parse(bytes: &[u8], file_len: u64) -> Result<Header, FormatError> {
        let Some(bytes) = bytes.first_chunk::<HEADER>() else {
            let found = format!("{} bytes", bytes.len());
            return Err(FormatError::new(0, "a header of 128 bytes", found));
        };
        let mut words = bytes
            .chunks_exact(8)
            .map(|word| word.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)));
        let mut word = || words.next().unwrap_or_default();
        if word().to_be_bytes() != MAGIC {
            return Err(FormatError::new(0, "\"KISTELUP\"", "another file"));
        }
        let version = word();
        if version >> 32 != u64::from(VERSION) {
            let expected = format!("version {VERSION}");
            return Err(FormatError::new(8, expected, (version >> 32).to_string()));
        }
        if check_of(bytes) != bytes[CHECK..] {
            return Err(FormatError::new(CHECK as u64, "the check of the header", "another"));
        }
        let (count, home, total) = (word(), word(), word());
        let shape = Shape { count, home, total };
        let salt = Salt(word().to_be_bytes());
        let source = Source { count, salt, first: word(), last: word() };
        let md5 = std::array::from_fn(|i| bytes[64 + i]);
        let sum = |at| u32::from_be_bytes(std::array::from_fn(|i| bytes[at + i]));
        let (of, checksum) = (Sums { md5, crc: sum(80) }, sum(84));
        check_shape(&shape, file_len)?;
        let header = Header { shape, source, of, checksum };
        if header.encode() != *bytes {
            return Err(FormatError::new(12, "zeros where nothing is defined", "something else"));
        }
        Ok(header)
    }

    /// Checks that the table belongs to this `.key_hashes`: compares the two ends.
    pub fn check_source(&self, now: &Source) -> Result<(), FormatError> {
        let then = &self.source;
        let stale = |position, what: &str| {
            Err(FormatError::new(position, format!("the {what} of .key_hashes"), "another"))
        };
        if then.count != now.count {
            return stale(16, "number of samples");
        }
        if then.salt != now.salt {
            return stale(40, "salt");
        }
        if then.first != now.first {
            return stale(48, "first hash");
        }
        if then.last != now.last {
            return stale(56, "last hash");
        }
        Ok(())
    }
}

/// Where the check of the header is.
const CHECK: usize = 120;

fn check_of(header: &[u8; HEADER]) -> [u8; 8] {
    blake2s::one(&blake2s::UNSALTED, &header[..CHECK]).0.to_be_bytes()
}

fn check_shape(shape: &Shape, file_len: u64) -> Result<(), FormatError> {
    let &Shape { count, home, total } = shape;
    if count > MAX_COUNT {
        let expected = format!("at most {MAX_COUNT} samples");
        return Err(FormatError::new(16, expected, count.to_string()));
    }
    if home == 0 {
        return Err(FormatError::new(24, "at least one slot", "none"));
    }
    if total < home.max(count) || total - home > count {
        let expected = format!("slots for {count} samples, {home} of them home");
        return Err(FormatError::new(32, expected, total.to_string()));
    }
    let wanted = total.checked_mul(SLOT).and_then(|slots| slots.checked_add(HEADER as u64));
    if wanted != Some(file_len) {
        let expected = format!("as many slots as a file of {file_len} bytes has");
        return Err(FormatError::new(32, expected, total.to_string()));
    }
    Ok(())
}

/// The bytes of a slot.
#[inline]
pub(crate) const fn encode(slot: u32) -> [u8; 4] {
    slot.to_be_bytes()
}

/// The value of slot `i` in these bytes, which begin after the header.
#[inline]
pub fn slot(slots: &[u8], i: u64) -> Option<u32> {
    let at = usize::try_from(i).ok()?.checked_mul(4)?;
    slots.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::dataset::{crc, golden, key_hashes};
    use crate::format::md5::Md5;

    #[test]
    fn walks_to_candidates() -> Result<(), Box<dyn std::error::Error>> {
        use crate::format::FormatError;
        use crate::format::dataset::lookup::Placer;

        let hashes = [70, 20, 1 << 63, 20];
        let mut sorted: Vec<(u64, u32)> = hashes.into_iter().zip(0..).collect();
        sorted.sort_unstable();
        let mut placer = Placer::new(4)?;
        for (hash, index) in sorted {
            placer.push(hash, index)?;
        }
        let (shape, slots) = placer.finish()?;

        let slot_at = |slot| Ok::<_, FormatError>(slots[slot as usize]);
        let mut probe = shape.probe(20);
        assert_eq!(probe.next_candidate(slot_at)?, Some(1));
        assert_eq!(probe.next_candidate(slot_at)?, Some(3));
        assert_eq!(probe.next_candidate(slot_at)?, None);
        Ok(())
    }

    #[test]
    fn header_round_trips() -> Result<(), Box<dyn std::error::Error>> {
        use crate::format::dataset::key_hashes::Salt;
        use crate::format::dataset::lookup::{Header, Placer, Source, Sums};

        let salt = Salt::of_try(0);
        let source = Source { count: 0, salt, first: 0, last: 0 };
        let (shape, _) = Placer::new(0)?.finish()?;
        let header = Header::new(shape, source, Sums { md5: [7; 16], crc: 9 }, 5)?;
        let bytes = header.encode();
        assert_eq!(Header::parse(&bytes, shape.file_len())?, header);
        assert!(header.check_source(&source).is_ok());
        Ok(())
    }

    fn sorted(hashes: &[u64]) -> Vec<(u64, u32)> {
        let mut sorted: Vec<_> = hashes.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        sorted
    }

    fn place(hashes: &[u64]) -> (Shape, Vec<u32>) {
        let mut placer = Placer::new(hashes.len() as u64).unwrap();
        for (hash, index) in sorted(hashes) {
            placer.push(hash, index).unwrap();
        }
        placer.finish().unwrap()
    }

    /// All candidates, by indexing that would panic beyond the table.
    fn find(shape: Shape, slots: &[u32], wanted: u64) -> Result<Vec<u32>, FormatError> {
        let mut probe = shape.probe(wanted);
        let mut candidates = vec![];
        while let Some(index) =
            probe.next_candidate(|slot| Ok::<_, FormatError>(slots[slot as usize]))?
        {
            candidates.push(index);
        }
        // The end is the end.
        assert_eq!(probe.next_candidate(|_| Err(FormatError::new(0, "", ""))).ok(), Some(None));
        Ok(candidates)
    }

    fn linear(hashes: &[u64], wanted: u64) -> Vec<u32> {
        (0..).zip(hashes).filter(|&(_, &hash)| hash == wanted).map(|(i, _)| i).collect()
    }

    /// Sets of hashes, the nasty ones included.
    fn sets() -> Vec<Vec<u64>> {
        let mut next = golden::random(3);
        let mut sets = vec![vec![], vec![0], vec![u64::MAX], vec![0, u64::MAX], vec![5; 300]];
        for n in [1, 2, 3, 10, 100, 1000] {
            sets.push((0..n).map(|_| next()).collect());
            // All in the first slots, all in the last ones, all somewhere.
            sets.push((0..n).rev().collect());
            sets.push((0..n).map(|i| u64::MAX - i).collect());
            sets.push((0..n).map(|_| 0xabcd_ef01 << 32 | next() >> 32).collect());
            // A few values, often.
            sets.push((0..n).map(|_| (next() % 7) << 61).collect());
        }
        sets
    }

    #[test]
    fn finds_what_a_scan_finds() {
        let mut next = golden::random(4);
        for hashes in sets() {
            let (shape, slots) = place(&hashes);
            assert_eq!(slots.len() as u64, shape.slots());
            let near = hashes.iter().flat_map(|&h| [h, h.wrapping_add(1), h.wrapping_sub(1)]);
            let others: Vec<u64> = (0..50).map(|_| next()).collect();
            for wanted in near.chain(others).chain([0, u64::MAX, 1 << 63]) {
                let mut found = find(shape, &slots, wanted).unwrap();
                // Another hash may have the same tag.
                let tag = |hash| tag(hash, shape.index_bits());
                assert!(found.iter().all(|&i| tag(hashes[i as usize]) == tag(wanted)));
                found.retain(|&i| hashes[i as usize] == wanted);
                assert_eq!(found, linear(&hashes, wanted));
            }
        }
    }

    #[test]
    fn the_first_candidate_is_what_a_search_gives_first() {
        let mut next = golden::random(12);
        for hashes in sets() {
            let (shape, mut slots) = place(&hashes);
            for damaged in [false, true] {
                if damaged {
                    slots.iter_mut().step_by(3).for_each(|slot| *slot = next() as u32);
                }
                let bytes: Vec<u8> = slots.iter().flat_map(|slot| encode(*slot)).collect();
                let others: Vec<u64> = (0..50).map(|_| next()).collect();
                for &wanted in hashes.iter().chain(&others).chain(&[0, u64::MAX]) {
                    let at = |slot: u64| Ok::<_, FormatError>(slots[slot as usize]);
                    let quick = shape.first_candidate(&bytes, wanted);
                    match shape.probe(wanted).next_candidate(at) {
                        Ok(found) => assert_eq!(quick, found),
                        Err(_) => assert!(quick.is_some_and(|i| u64::from(i) >= shape.count())),
                    }
                }
                // A file that is too short.
                assert_eq!(shape.first_candidate(&[], 7), None);
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn a_table_takes_less_than_eight_bytes_a_key() {
        let mut next = golden::random(5);
        let hashes: Vec<u64> = (0..100_000).map(|_| next()).collect();
        let (shape, _) = place(&hashes);
        assert!(shape.file_len() < 8 * 100_000);
        assert!(shape.slots() - shape.home_slots() < 100);
        assert_eq!(home_slots(MAX_COUNT), 7_516_192_766);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn the_steps_are_few() {
        let mut next = golden::random(6);
        let hashes: Vec<u64> = (0..10_000).map(|_| next()).collect();
        let (shape, slots) = place(&hashes);
        let mut steps = 0;
        for &hash in &hashes {
            let slot_at = |slot| {
                steps += 1;
                Ok::<_, FormatError>(slots[slot as usize])
            };
            assert!(shape.probe(hash).next_candidate(slot_at).unwrap().is_some());
        }
        assert!(steps < 20_000, "{steps}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn candidates_with_another_hash_are_rare() {
        let mut next = golden::random(6);
        let hashes: Vec<u64> = (0..100_000).map(|_| next()).collect();
        let (shape, slots) = place(&hashes);
        // 15 bits are left for the tags, and a search comes to two samples or so.
        let absent: usize = (0..100_000).map(|_| find(shape, &slots, next()).unwrap().len()).sum();
        assert!(absent < 30, "{absent}");
    }

    #[test]
    fn tags_take_what_the_index_leaves() {
        for (count, bits) in
            [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1 << 31, 32), (MAX_COUNT, 32)]
        {
            assert_eq!(index_bits(count), bits);
            // The largest index with the largest tag is not an empty slot.
            let last = count.saturating_sub(1) as u32;
            assert!(count == 0 || tag(u64::MAX, bits) | last != EMPTY, "{count}");
        }
        assert_eq!((tag(u64::MAX, 0), tag(u64::MAX, 20), tag(u64::MAX, 32)), (!0, 0xfff0_0000, 0));
    }

    #[test]
    fn hostile_tables_end_and_stay_inside() {
        let mut next = golden::random(7);
        let hashes: Vec<u64> = (0..50).map(|_| next()).collect();
        let (shape, good) = place(&hashes);
        for round in 0..if cfg!(miri) { 20 } else { 2000 } {
            let mut slots = good.clone();
            for slot in &mut slots {
                if next() % 4 == 0 {
                    let hash = hashes[(next() % 50) as usize];
                    *slot = tag(hash, 6) | (next() % (50 + round % 2 * 2)) as u32;
                }
            }
            for &hash in &hashes {
                match find(shape, &slots, hash) {
                    // A sample may be found twice or not at all.
                    Ok(found) => assert!(found.iter().all(|&i| i < 50)),
                    Err(error) => assert!(error.expected.contains("one of 50 samples")),
                }
            }
        }
        // The same sample everywhere: as many answers as there are samples, not as slots.
        let full = vec![7; good.len()];
        assert_eq!(find(shape, &full, 0).unwrap(), [7; 50]);
        let error = find(shape, &vec![50; good.len()], 0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "byte 128: expected the index of one of 50 samples, found 50"
        );
    }

    #[test]
    fn slots_that_are_taken_out_are_the_same() {
        for hashes in sets() {
            let (shape, slots) = place(&hashes);
            for every in [1, 3, 50] {
                let mut placer = Placer::new(hashes.len() as u64).unwrap();
                let mut taken = Vec::new();
                for (i, (hash, index)) in sorted(&hashes).into_iter().enumerate() {
                    placer.push(hash, index).unwrap();
                    if i % every == 0 {
                        placer.take(&mut taken);
                    }
                }
                let (same, rest) = placer.finish().unwrap();
                taken.extend(rest);
                assert_eq!(same, shape);
                assert!(taken == slots);
            }
        }
    }

    #[test]
    fn placer_wants_order_and_all_samples() {
        let mut placer = Placer::new(3).unwrap();
        placer.push(5, 1).unwrap();
        assert!(placer.push(4, 0).is_err());
        assert!(placer.push(5, 0).is_err());
        assert!(placer.push(5, 1).is_err());
        assert!(placer.push(6, 3).is_err());
        placer.push(5, 2).unwrap();
        placer.push(u64::MAX, 0).unwrap();
        assert!(placer.push(u64::MAX, 2).is_err());
        assert!(placer.finish().is_ok());
        assert!(Placer::new(3).unwrap().finish().is_err());
        assert!(Placer::new(MAX_COUNT + 1).is_err());
        assert_eq!(Placer::new(MAX_COUNT).is_ok(), usize::BITS >= 64);
    }

    fn sums(key_hashes: &[u8]) -> Sums {
        Sums { md5: Md5::of(key_hashes), crc: crc::checksum(key_hashes) }
    }

    /// The whole file for samples with these hashes in `.key_hashes`, placed by the other ones.
    fn file(salt: Salt, key_hashes: &[u64], hashes: &[u64]) -> Vec<u8> {
        let (shape, slots) = place(hashes);
        let whole: Vec<u8> = key_hashes.iter().flat_map(|&hash| key_hashes::encode(hash)).collect();
        let of = sums(&[&salt.0[..], &whole].concat());
        let slots: Vec<u8> = slots.into_iter().flat_map(encode).collect();
        let ends = [key_hashes.first(), key_hashes.last()].map(|end| end.copied().unwrap_or(0));
        let source = Source { count: shape.count(), salt, first: ends[0], last: ends[1] };
        let header = Header::new(shape, source, of, crc::checksum(&slots)).unwrap();
        let file = [&header.encode()[..], &slots].concat();
        assert_eq!(file.len() as u64, shape.file_len());
        file
    }

    #[test]
    fn golden_datasets_are_looked_up_in_a_file() {
        for set in golden::datasets() {
            let source = set.file(".key_hashes");
            let salt = Salt::parse(&source).unwrap();
            let key_hashes: Vec<u64> =
                set.hashes.iter().map(|hash| golden::hex_u64(hash)).collect();
            let hashes: Vec<u64> = set.keys.iter().map(|key| hash(key.as_bytes())).collect();
            let file = file(salt, &key_hashes, &hashes);
            let header = Header::parse(&file, file.len() as u64).unwrap();
            assert_eq!(*header.sums(), sums(&source));
            assert_eq!(header.checksum(), crc::checksum(&file[HEADER..]));
            for (i, key) in set.keys.iter().enumerate() {
                let mut probe = header.shape().probe(hash(key.as_bytes()));
                let slot_at =
                    |at| slot(&file[HEADER..], at).ok_or(FormatError::new(at, "a slot", "none"));
                let found = std::iter::from_fn(|| probe.next_candidate(slot_at).unwrap());
                assert!(found.take(3).any(|index| index == i as u32));
            }
        }
    }

    #[test]
    fn the_hash_is_frozen() {
        // As Python's xxhash makes them: of each way that the function takes by the length.
        let text = "0123456789abcdef".repeat(20);
        let lengths = [0, 1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 320];
        let hashes = lengths.map(|len| hash(&text.as_bytes()[..len]));
        assert_eq!(
            hashes,
            [
                0x2d06800538d394c2,
                0x1982e3a7bb241055,
                0x8ed2b2f360965d90,
                0x8aa92da18edb594b,
                0x1808e40d6723f646,
                0x3b5293ce9b5bd7d7,
                0x64439946d8fa212d,
                0xc92e2385daf36034,
                0x2a34ce5f2f590a81,
                0xf2d92824ceccb3bb,
                0x29b2c4184ec07ca9,
                0x6796b9cafbbb535e,
                0x40c383cc89d2f624,
            ]
        );
    }

    #[test]
    fn bytes_are_frozen() {
        let key_hashes = [3 << 62 | 0xab_cdef, 1, 1 << 63 | 0xffff_ffff];
        let file =
            file(Salt::of_try(0), &key_hashes, &[7, 3 << 62 | 0x1234, 1 << 63 | 0xffff_ffff]);
        let hex: String = file.iter().map(|byte| format!("{byte:02x}")).collect();
        // As Python's hashlib and google-crc32c make them.
        let wanted = [
            "4b495354454c5550",
            "0000000300000000",
            "0000000000000003",
            "0000000000000005",
            "0000000000000005",
            "652e530edee5893b",
            "c000000000abcdef",
            "80000000ffffffff",
            "748d414a3dda6275c64773d67be727d5",
            "a67742f2",
            "742089d2",
            "0000000000000000000000000000000000000000000000000000000000000000",
            "dd302c50e0fa83ec",
            "0000001c",
            "ffffffff",
            "fffffffe",
            "000048d1",
            "ffffffff",
        ];
        assert_eq!(hex, wanted.concat());
    }

    #[test]
    fn every_change_of_the_header_is_seen() {
        let file = file(Salt::of_try(0), &[3, 1, 2], &[9, 8, 7]);
        let len = file.len() as u64;
        Header::parse(&file[..HEADER], len).unwrap();
        for end in 0..HEADER {
            assert!(Header::parse(&file[..end], len).is_err(), "{end}");
        }
        for at in 0..HEADER {
            for bit in 0..8 {
                let mut changed = file.clone();
                changed[at] ^= 1 << bit;
                assert!(Header::parse(&changed, len).is_err(), "{at}");
            }
        }
        for len in [0, len - 4, len - 1, len + 1, len + 4, u64::MAX] {
            assert!(Header::parse(&file, len).is_err(), "{len}");
        }
        golden::damage(&file, |bytes| {
            let _ = Header::parse(bytes, bytes.len() as u64);
        });
    }

    #[test]
    fn measures_that_no_table_can_have() {
        let parse = |count: u64, home: u64, total: u64| {
            let source = Source { count, salt: Salt([0; 8]), first: 0, last: 0 };
            let shape = Shape { count, home, total };
            let header = Header { shape, source, of: Sums { md5: [0; 16], crc: 0 }, checksum: 0 };
            let len = total.wrapping_mul(4).wrapping_add(128);
            Header::parse(&header.encode(), len).is_ok()
        };
        assert!(parse(0, 1, 1) && parse(3, 6, 6) && parse(3, 6, 9) && parse(3, 1, 4));
        assert!(!parse(0, 0, 0) && !parse(3, 6, 5) && !parse(3, 6, 10) && !parse(3, 1, 2));
        assert!(!parse(MAX_COUNT + 1, 1 << 34, 1 << 34));
        assert!(!parse(1, 1 << 62, 1 << 62) && !parse(1, u64::MAX, u64::MAX));
    }

    #[test]
    fn another_source_is_seen() {
        let file = file(Salt::of_try(0), &[3, 1, 2], &[9, 8, 7]);
        let header = Header::parse(&file, file.len() as u64).unwrap();
        let same = Source { count: 3, salt: Salt::of_try(0), first: 3, last: 2 };
        assert_eq!(header.source(), &same);
        header.check_source(&same).unwrap();
        for other in [
            Source { count: 4, ..same },
            Source { salt: Salt::of_try(1), ..same },
            Source { first: 2, ..same },
            Source { last: 3, ..same },
        ] {
            assert!(header.check_source(&other).is_err());
        }
        assert!(
            Header::new(header.shape(), Source { count: 4, ..same }, *header.sums(), 0).is_err()
        );
    }
}
