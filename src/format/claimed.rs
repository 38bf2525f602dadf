//! Counts that someone else wrote: in a header, in a manifest, or by the size of a file on a server.

use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;

/// A number of things that there are to be. It is no number to allocate or to loop by until it was compared
/// with what the format allows and with the bytes that are to hold them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "it is only a claim"]
pub(crate) struct Claimed(u64);

impl Claimed {
    pub(crate) const fn new(count: u64) -> Claimed {
        Claimed(count)
    }

    /// Fails if the format allows no more than this many. `what` they are, in the plural, for the error at this
    /// byte.
    pub(crate) fn within(self, most: u64, what: &str, at: u64) -> Result<Claimed, FormatError> {
        match self.0 <= most {
            true => Ok(self),
            false => {
                Err(FormatError::new(at, format!("at most {most} {what}"), self.0.to_string()))
            }
        }
    }

    /// The count, if these bytes can hold that many, with `each` bytes or more.
    pub(crate) fn backed(
        self,
        (bytes, each): (u64, u64),
        what: &str,
        at: u64,
    ) -> Result<u64, FormatError> {
        match self.0.checked_mul(each) {
            Some(needed) if needed <= bytes => Ok(self.0),
            _ => {
                let expected = format!("as many {what} as {bytes} bytes can hold");
                Err(FormatError::new(at, expected, self.0.to_string()))
            }
        }
    }

    /// Empty memory for that many values. A claim of a server can only be compared with its other
    /// claims, so running out of memory is an error here, and not the end of the process.
    pub(crate) fn room<T>(self) -> Result<Vec<T>> {
        let mut room = Vec::new();
        let reserved = usize::try_from(self.0).ok().map(|count| room.try_reserve_exact(count));
        match reserved {
            Some(Ok(())) => Ok(room),
            _ => {
                let message = format!("not enough memory for {} samples", self.0);
                Err(Error::new(ErrorKind::Limit, message))
            }
        }
    }

    /// The same, filled with copies of this value.
    pub(crate) fn filled<T: Clone>(self, with: T) -> Result<Vec<T>> {
        let mut filled = self.room()?;
        filled.resize(filled.capacity().min(self.0 as usize), with);
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Claims as hostile files and servers make them.
    pub(crate) const HOSTILE: [u64; 6] =
        [(1 << 32) - 2, 1 << 40, 1 << 53, 1 << 62, u64::MAX - 1, u64::MAX];

    #[test]
    fn a_count_is_believed_as_far_as_format_and_bytes_go() {
        for count in HOSTILE {
            let claimed = Claimed::new(count);
            let limit = claimed.within(u32::MAX.into(), "keys", 8);
            assert_eq!(limit.is_ok(), count == (1 << 32) - 2);
            let error = claimed.backed((1 << 20, 1), "keys", 8).unwrap_err();
            let expected =
                format!("byte 8: expected as many keys as 1048576 bytes can hold, found {count}");
            assert_eq!(error.to_string(), expected);
        }
        assert_eq!(
            Claimed::new(7).within(7, "keys", 0).and_then(|n| n.backed((56, 8), "keys", 0)),
            Ok(7)
        );
        assert!(Claimed::new(7).backed((55, 8), "keys", 0).is_err());
        assert_eq!(Claimed::new(0).backed((0, 8), "keys", 0), Ok(0));
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        for count in [1 << 53, 1 << 62, u64::MAX] {
            let error = Claimed::new(count).room::<u64>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Limit);
        }
        assert_eq!(Claimed::new(3).filled(7_u16).unwrap(), [7; 3]);
    }
}
