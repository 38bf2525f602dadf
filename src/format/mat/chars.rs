//! Characters.

use super::element::{Element, Stored};
use super::memory::Memory;
use crate::format::FormatError;
use crate::value::ByteOrder;

/// The maximum number of characters that may be missing. They are blanks.
///
/// Such files exist, but none may ask for gigabytes of blanks.
const MAX_BLANKS: usize = 4096;

/// An array of characters. Its rows are strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chars {
    shape: Vec<usize>,
    /// In Fortran order. MATLAB counts code units of UTF-16, other writers code points; so either
    /// can be in here, one for each element of the shape.
    units: Vec<u32>,
}

impl Chars {
    pub(super) fn read(
        element: &Element<'_>,
        order: ByteOrder,
        shape: Vec<usize>,
        count: usize,
        memory: &mut Memory,
    ) -> Result<Chars, FormatError> {
        memory.take(element.data.len().saturating_mul(size_of::<u32>()), element)?;
        let units = units(element, order)?;
        let units = match () {
            _ if units.len() == count => units,
            _ if units.is_empty() && count <= MAX_BLANKS => vec![u32::from(b' '); count],
            _ => recounted(&units, count).ok_or_else(|| {
                element.error(format!("{count} characters"), units.len().to_string())
            })?,
        };
        Ok(Chars { shape, units })
    }

    /// Decoded characters, one for each element of the shape.
    pub(super) fn new(shape: Vec<usize>, units: Vec<u32>) -> Chars {
        Chars { shape, units }
    }

    /// The length of each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The code units in Fortran order: the first index runs fastest.
    pub fn units(&self) -> &[u32] {
        &self.units
    }

    /// The text of each row: along the last dimension, as SciPy reads them. An empty array has no
    /// rows.
    ///
    /// Rows are all of one length, and MATLAB fills shorter ones with blanks. Half of a surrogate
    /// pair is `U+FFFD`.
    pub fn rows(&self) -> impl Iterator<Item = String> + '_ {
        let columns = self.shape.last().copied().unwrap_or(1).max(1);
        let rows = self.units.len() / columns;
        (0..rows).map(move |row| decoded(self.units.iter().skip(row).step_by(rows).copied()))
    }
}

/// The characters as they are counted in this form.
fn units(element: &Element<'_>, order: ByteOrder) -> Result<Vec<u32>, FormatError> {
    element.len()?;
    let units: Vec<u32> = match element.stored {
        Stored::Int8 | Stored::UInt8 => element.data.iter().copied().map(u32::from).collect(),
        Stored::UInt16 | Stored::Utf16 => {
            let units = element.data.chunks_exact(2).map(|b| match order {
                ByteOrder::Big => u16::from_be_bytes([b[0], b[1]]),
                _ => u16::from_le_bytes([b[0], b[1]]),
            });
            units.map(u32::from).collect()
        }
        // As everyone does, since MATLAB 7 cuts strings in the middle of a character.
        Stored::Utf8 => String::from_utf8_lossy(element.data).chars().map(u32::from).collect(),
        Stored::Utf32 => {
            let units = element.data.chunks_exact(4).map(|b| match order {
                ByteOrder::Big => u32::from_be_bytes([b[0], b[1], b[2], b[3]]),
                _ => u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            });
            units.collect()
        }
        other => return Err(element.error("characters", format!("data of type {other:?}"))),
    };
    match units.iter().find(|&&unit| unit > u32::from(char::MAX)) {
        Some(unit) => Err(element.error("characters", format!("{unit:#x}"))),
        None => Ok(units),
    }
}

/// The same text, but with pairs of surrogates counted as two or as one, if then it has as many
/// units as it should.
fn recounted(units: &[u32], count: usize) -> Option<Vec<u32>> {
    let text = decoded(units.iter().copied());
    if text.chars().count() == count {
        return Some(text.chars().map(u32::from).collect());
    }
    let units = text.encode_utf16().map(u32::from);
    Some(units.collect()).filter(|units: &Vec<u32>| units.len() == count)
}

/// The text of units which are code points or halves of them.
fn decoded(units: impl Iterator<Item = u32>) -> String {
    let mut text = String::new();
    let mut high: Option<u32> = None;
    for unit in units {
        match (high.take(), unit) {
            (Some(first), 0xdc00..=0xdfff) => {
                text.extend(char::from_u32(0x10000 + ((first - 0xd800) << 10) + (unit - 0xdc00)));
                continue;
            }
            (Some(_), _) => text.push(char::REPLACEMENT_CHARACTER),
            (None, _) => {}
        }
        match unit {
            0xd800..=0xdbff => high = Some(unit),
            _ => text.push(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)),
        }
    }
    if high.is_some() {
        text.push(char::REPLACEMENT_CHARACTER);
    }
    text
}
