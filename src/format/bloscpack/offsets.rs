//! The offsets section: where each chunk begins, and room for the offsets of chunks to come.

use crate::format::FormatError;

/// Bytes of an offset.
pub(crate) const ENTRY: usize = 8;
/// An offset that is not known, or not used.
pub(crate) const UNKNOWN: i64 = -1;

/// The offsets of a container as stored, unchecked.
///
/// ```
/// use kiste::format::bloscpack::Offsets;
///
/// let bytes = [100i64.to_le_bytes(), (-1i64).to_le_bytes()].concat();
/// let offsets = Offsets::parse(&bytes, 0, 2)?;
/// assert_eq!((offsets.get(0), offsets.get(1), offsets.get(2)), (Some(100), None, None));
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Offsets<'a>(&'a [u8]);

impl<'a> Offsets<'a> {
    /// The section of `slots` offsets that begins at byte `at` of a container.
    pub fn parse(container: &'a [u8], at: usize, slots: u64) -> Result<Offsets<'a>, FormatError> {
        let size = usize::try_from(slots).ok().and_then(|slots| slots.checked_mul(ENTRY));
        let rest = container.get(at..).unwrap_or_default();
        let section = size.and_then(|size| rest.get(..size)).ok_or_else(|| {
            let end = container.len() as u64;
            FormatError::new(end, format!("{slots} offsets"), format!("the end after {end} bytes"))
        })?;
        Ok(Offsets(section))
    }

    /// How many there are, unknown and unused ones included.
    pub fn len(&self) -> usize {
        self.0.len() / ENTRY
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where chunk `i` begins according to the table, if it has an entry.
    pub fn get(&self, i: u64) -> Option<u64> {
        let at = usize::try_from(i).ok()?.checked_mul(ENTRY)?;
        let entry = self.0.get(at..)?.first_chunk()?;
        u64::try_from(i64::from_le_bytes(*entry)).ok()
    }

    /// All of them, the unknown ones too.
    pub fn iter(&self) -> impl Iterator<Item = Option<u64>> + '_ {
        (0..self.len() as u64).map(|i| self.get(i))
    }
}

/// Writes `known`, and after them as many unknown ones as make `slots`.
pub(crate) fn encode(known: &[u64], slots: u64, out: &mut Vec<u8>) {
    out.extend(known.iter().flat_map(|offset| offset.to_le_bytes()));
    let unknown = slots.saturating_sub(known.len() as u64);
    out.extend((0..unknown).flat_map(|_| UNKNOWN.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = vec![7];
        encode(&[766, 1000], 5, &mut bytes);
        assert_eq!(bytes.len(), 1 + 5 * ENTRY);
        let offsets = Offsets::parse(&bytes, 1, 5).unwrap();
        assert_eq!(offsets.len(), 5);
        let all: Vec<_> = offsets.iter().collect();
        assert_eq!(all, [Some(766), Some(1000), None, None, None]);
        assert_eq!(offsets.get(u64::MAX), None);
    }

    #[test]
    fn more_than_there_are_are_not_believed() {
        for slots in [2, 1 << 62, u64::MAX] {
            assert!(Offsets::parse(&[0; 15], 0, slots).is_err());
        }
        assert!(Offsets::parse(&[0; 15], 99, 1).is_err());
    }
}
