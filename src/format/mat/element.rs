//! Data elements: type, length, data, padding.

use crate::format::FormatError;
use crate::value::ByteOrder;

/// The kind of data in an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    Int8,
    UInt8,
    Int16,
    UInt16,
    Int32,
    UInt32,
    Single,
    Double,
    Int64,
    UInt64,
    Matrix,
    Compressed,
    Utf8,
    Utf16,
    Utf32,
}

impl Stored {
    fn of(code: u32) -> Option<Stored> {
        Some(match code {
            1 => Stored::Int8,
            2 => Stored::UInt8,
            3 => Stored::Int16,
            4 => Stored::UInt16,
            5 => Stored::Int32,
            6 => Stored::UInt32,
            7 => Stored::Single,
            9 => Stored::Double,
            12 => Stored::Int64,
            13 => Stored::UInt64,
            14 => Stored::Matrix,
            15 => Stored::Compressed,
            16 => Stored::Utf8,
            17 => Stored::Utf16,
            18 => Stored::Utf32,
            _ => return None,
        })
    }

    /// The bytes of one item.
    pub(super) fn size(self) -> usize {
        match self {
            Stored::Int8 | Stored::UInt8 | Stored::Utf8 => 1,
            Stored::Int16 | Stored::UInt16 | Stored::Utf16 => 2,
            Stored::Int32 | Stored::UInt32 | Stored::Single | Stored::Utf32 => 4,
            Stored::Double | Stored::Int64 | Stored::UInt64 => 8,
            Stored::Matrix | Stored::Compressed => 1,
        }
    }
}

/// One element, and where its data begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Element<'a> {
    pub(super) stored: Stored,
    pub(super) data: &'a [u8],
    pub(super) position: u64,
}

impl<'a> Element<'a> {
    /// An error at this element.
    pub(super) fn error(
        &self,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> FormatError {
        FormatError::new(self.position, expected, found)
    }

    /// How many items there are. A part of one is an error.
    pub(super) fn len(&self) -> Result<usize, FormatError> {
        let size = self.stored.size();
        if self.data.len() % size != 0 {
            let found = format!("{} bytes", self.data.len());
            return Err(self.error(format!("items of {size} bytes each"), found));
        }
        Ok(self.data.len() / size)
    }

    /// The elements that this one is made of.
    pub(super) fn elements(&self, order: ByteOrder) -> Elements<'a> {
        Elements { bytes: self.data, at: 0, base: self.position, order }
    }
}

/// Walks over elements that follow one another.
#[derive(Debug, Clone)]
pub(super) struct Elements<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The position of the first byte in the file.
    base: u64,
    pub(super) order: ByteOrder,
}

impl<'a> Elements<'a> {
    /// The elements from this byte on.
    pub(super) fn new(bytes: &'a [u8], at: usize, order: ByteOrder) -> Elements<'a> {
        Elements { bytes, at, base: 0, order }
    }

    /// Where the next element begins.
    pub(super) fn position(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Whether there are no more.
    pub(super) fn is_done(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// How many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// The next element. There must be one: `what` it is to be is for the error.
    pub(super) fn next(&mut self, what: &str) -> Result<Element<'a>, FormatError> {
        let tag = self.word(self.at, what)?;
        let (code, len, start, room) = match tag >> 16 {
            0 => (tag, self.word(self.at + 4, what)? as usize, 8, self.left().saturating_sub(8)),
            short => (tag & 0xffff, short as usize, 4, self.left().saturating_sub(4).min(4)),
        };
        let Some(stored) = Stored::of(code) else {
            let expected = format!("{what}, of a known type");
            return Err(FormatError::new(self.position(), expected, format!("type {code}")));
        };
        let Some(data) = self.bytes.get(self.at + start..).filter(|_| len <= room) else {
            let expected = format!("{what}, of at most {room} bytes");
            return Err(FormatError::new(self.position(), expected, format!("{len} bytes")));
        };
        let element =
            Element { stored, data: &data[..len], position: self.position() + start as u64 };
        let padded = match stored {
            _ if start == 4 => 4,
            Stored::Compressed => len,
            _ => len.checked_next_multiple_of(8).unwrap_or(len),
        };
        // The padding of the last element may be missing.
        self.at += start + padded.min(data.len());
        Ok(element)
    }

    /// The size of the matrix that begins here. Its end may not be there.
    pub(super) fn matrix_len(&self) -> Result<usize, FormatError> {
        match self.word(self.at, "an array")? {
            14 => Ok(self.word(self.at + 4, "an array")? as usize),
            code => Err(FormatError::new(self.position(), "an array", format!("type {code}"))),
        }
    }

    /// The elements of the matrix that begins here. Its end may not be there.
    pub(super) fn enter(mut self) -> Result<Elements<'a>, FormatError> {
        self.matrix_len()?;
        self.at += 8;
        Ok(self)
    }

    fn word(&self, at: usize, what: &str) -> Result<u32, FormatError> {
        let bytes = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
        let bytes = *bytes.ok_or_else(|| self.too_short(what))?;
        Ok(match self.order {
            ByteOrder::Big => u32::from_be_bytes(bytes),
            _ => u32::from_le_bytes(bytes),
        })
    }

    fn too_short(&self, what: &str) -> FormatError {
        let found = match self.left() {
            0 => "the end".to_owned(),
            left => format!("{left} bytes"),
        };
        FormatError::new(self.position(), what, found)
    }
}
