//! The undo record: what an append in place replaces, kept behind the end of the container until
//! the append is done. Our own extension; other readers ignore these bytes.

use super::header::HEADER;

/// The last bytes of a record.
const MAGIC: [u8; 8] = *b"KISTUNDO";
/// Behind the content: its size, its CRC-32 and the magic.
const TRAILER: usize = 8 + 4 + 8;

/// The state before an append, and where the container ends after it.
///
/// ```
/// use kiste::format::bloscpack::Undo;
///
/// let undo = Undo { old_end: 900, new_end: 1000, new_header: [7; 32], patches: vec![(0, vec![6; 32])] };
/// let mut file = vec![1; 1000];
/// undo.encode(&mut file);
/// assert_eq!(Undo::find(&file), Some(undo));
/// assert_eq!(Undo::find(&file[..file.len() - 1]), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undo {
    /// Where the old container ends.
    pub old_end: u64,
    /// Where the new one does.
    pub new_end: u64,
    /// The header of the new one: where it is in place, there is nothing to undo.
    pub new_header: [u8; HEADER],
    /// Positions and the old bytes there; first the old header.
    pub patches: Vec<(u64, Vec<u8>)>,
}

impl Undo {
    /// Writes the record behind `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        for number in [self.old_end, self.new_end] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.new_header);
        for (at, bytes) in &self.patches {
            out.extend_from_slice(&at.to_le_bytes());
            out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            out.extend_from_slice(bytes);
        }
        let content = &out[start..];
        let (size, sum) = (content.len() as u64, crc32fast::hash(content));
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&MAGIC);
    }

    /// The record at the end of a file, if there is a whole one.
    pub fn find(file: &[u8]) -> Option<Undo> {
        let (rest, trailer) = file.split_at(file.len().checked_sub(TRAILER)?);
        let trailer = trailer.strip_suffix(&MAGIC)?;
        let (mut size, mut sum) = (trailer, &trailer[8..]);
        let size = usize::try_from(number(&mut size)?).ok()?;
        let sum = u32::from_le_bytes(*take(&mut sum, 4)?.first_chunk()?);
        let mut content = &rest[rest.len().checked_sub(size)?..];
        if crc32fast::hash(content) != sum {
            return None;
        }
        let (old_end, new_end) = (number(&mut content)?, number(&mut content)?);
        let new_header = *take(&mut content, HEADER)?.first_chunk()?;
        let mut patches = Vec::new();
        while !content.is_empty() {
            let (at, len) = (number(&mut content)?, number(&mut content)?);
            let bytes = take(&mut content, usize::try_from(len).ok()?)?;
            // The saved bytes lie within the old container.
            at.checked_add(len).filter(|&end| end <= old_end)?;
            patches.push((at, bytes.to_vec()));
        }
        let has_header = patches.first().is_some_and(|(at, old)| *at == 0 && old.len() == HEADER);
        let within = old_end.max(new_end) <= rest.len() as u64;
        (has_header && within).then_some(Undo { old_end, new_end, new_header, patches })
    }

    /// The state of the append in a file that begins with these bytes.
    ///
    /// A power failure may leave a mixture of the old and the new header: then the append has
    /// [begun](UndoState::Begun).
    pub fn state(&self, file: &[u8]) -> UndoState {
        if file.starts_with(&self.new_header) {
            return UndoState::Done;
        }
        let (Some(found), Some((_, old))) = (file.get(..HEADER), self.patches.first()) else {
            return UndoState::Foreign;
        };
        let mut bytes = found.iter().zip(old).zip(&self.new_header);
        if !bytes.all(|((found, old), new)| found == old || found == new) {
            return UndoState::Foreign;
        }
        let in_place = |(at, old): &(u64, Vec<u8>)| {
            let at = usize::try_from(*at).ok();
            at.and_then(|at| file.get(at..)).is_some_and(|there| there.starts_with(old))
        };
        match self.patches.iter().all(in_place) {
            true => UndoState::NotBegun,
            false => UndoState::Begun,
        }
    }

    /// Restores the old container in the bytes of the file. This many of them are needed: up to
    /// [`old_end`](Undo::old_end).
    pub fn restore(&self, file: &mut [u8]) {
        for (at, old) in &self.patches {
            let there = usize::try_from(*at).ok().and_then(|at| file.get_mut(at..));
            if let Some(there) = there.and_then(|there| there.get_mut(..old.len())) {
                there.copy_from_slice(old);
            }
        }
    }
}

/// How far an append came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UndoState {
    /// Nothing of the old container has been replaced.
    NotBegun,
    /// Some bytes have been replaced, perhaps a part of the header: the old ones must be restored
    /// before the container can be read.
    Begun,
    /// Everything is in place; only the record remains to be removed.
    Done,
    /// The header has bytes that are in neither the old nor the new one. Another program has
    /// written since, and the record says nothing about this file.
    Foreign,
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(taken)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    take(rest, 8)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any part of a header may have been written when the power failed.
    #[test]
    fn a_torn_header_is_told_from_a_foreign_one() {
        let (old, new) = ([1; HEADER], [3; HEADER]);
        let patches = vec![(0, old.to_vec()), (100, vec![2; 50])];
        let undo = Undo { old_end: 150, new_end: 160, new_header: new, patches };
        let mut file = vec![9; 160];
        for end in 0..=HEADER {
            for start in 0..=end {
                file[..HEADER].copy_from_slice(&old);
                file[start..end].copy_from_slice(&new[start..end]);
                let state = if end - start == HEADER { UndoState::Done } else { UndoState::Begun };
                assert_eq!(undo.state(&file), state, "{start}..{end}");
                let mut restored = file.clone();
                undo.restore(&mut restored);
                assert_eq!((&restored[..HEADER], &restored[100..150]), (&old[..], &[2; 50][..]));
                assert_eq!(undo.state(&restored), UndoState::NotBegun);
            }
        }
        for at in 0..HEADER {
            file[..HEADER].copy_from_slice(&old);
            file[at] = 2;
            assert_eq!(undo.state(&file), UndoState::Foreign, "{at}");
        }
        assert_eq!(undo.state(&old[..HEADER - 1]), UndoState::Foreign);
    }

    #[test]
    fn a_damaged_record_is_none() {
        let patches = vec![(0, vec![1; HEADER]), (100, vec![2; 50])];
        let undo = Undo { old_end: 150, new_end: 160, new_header: [3; HEADER], patches };
        let mut file = vec![0; 160];
        undo.encode(&mut file);
        assert_eq!(Undo::find(&file), Some(undo));
        for at in 160..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 0x10;
            assert_eq!(Undo::find(&changed), None, "{at}");
        }
        for len in 0..file.len() {
            assert_eq!(Undo::find(&file[..len]), None, "{len}");
        }
    }
}
