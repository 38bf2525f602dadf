//! From sample to sample through the bytes of a data file.

use std::iter::FusedIterator;
use std::ops::Range;

use crate::format::FormatError;
use crate::format::msgpack::{self, Cursor};

/// The messages that follow each other in these bytes, each with its place; ends after the first
/// thing that is not a message.
///
/// The content of a message is not looked at: [`key`](Message::key) does that.
pub(super) fn messages(bytes: &[u8]) -> Messages<'_> {
    Messages { cursor: Cursor::new(bytes), ended: false }
}

/// See [`messages`].
pub(super) struct Messages<'a> {
    cursor: Cursor<'a>,
    ended: bool,
}

/// One well-formed msgpack value.
pub(super) struct Message<'a> {
    /// Its bytes.
    pub(super) raw: &'a [u8],
    /// Where they begin.
    pub(super) start: u64,
    /// Where they end.
    pub(super) end: u64,
}

impl<'a> Message<'a> {
    /// The key, if it is a sample: a map with a string `key`.
    #[inline]
    pub(super) fn key(&self) -> Result<&'a str, FormatError> {
        msgpack::check_sample(self.raw)
    }
}

/// Bytes that are not a message, and their position.
#[derive(Debug)]
pub(super) struct NoMessage {
    pub(super) start: u64,
    pub(super) error: FormatError,
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, NoMessage>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended || self.cursor.is_at_end() {
            return None;
        }
        let start = self.cursor.position() as u64;
        match self.cursor.skip_raw() {
            Ok(raw) => Some(Ok(Message { raw, start, end: self.cursor.position() as u64 })),
            Err(error) => {
                self.ended = true;
                Some(Err(NoMessage { start, error }))
            }
        }
    }
}

impl FusedIterator for Messages<'_> {}

/// The samples that follow each other from the start of these bytes on: their keys and places.
/// Ends at the first thing that is not a sample, which is how far a killed writer got.
pub(super) fn whole_samples(bytes: &[u8]) -> impl Iterator<Item = (&str, Range<u64>)> {
    messages(bytes).map_while(|message| {
        let message = message.ok()?;
        Some((message.key().ok()?, message.start..message.end))
    })
}

/// Where the sample that begins here ends.
pub(super) fn sample_at(bytes: &[u8], at: usize) -> Result<usize, String> {
    let rest = &bytes[at..];
    // Cheap for what is clearly none: a search asks at every byte.
    if !matches!(rest.first(), Some(0x81..=0x8f | 0xde | 0xdf)) {
        return Err("expected a map, found something else".to_string());
    }
    let mut cursor = Cursor::new(rest);
    let raw = cursor.skip_raw().map_err(|e| e.to_string())?;
    msgpack::check_sample(raw).map_err(|e| e.to_string())?;
    Ok(at + cursor.position())
}
