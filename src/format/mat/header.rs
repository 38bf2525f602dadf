//! The first bytes: which level, which byte order.

use crate::format::FormatError;
use crate::value::ByteOrder;

/// The bytes before the first variable of a level 5 file.
pub(super) const HEADER: usize = 128;

const DESCRIPTION: usize = 116;
const VERSION: usize = 124;
const VERSION_5: u16 = 0x0100;
const VERSION_7_3: u16 = 0x0200;
const HDF5: &[u8] = b"\x89HDF\r\n\x1a\n";

/// The kind of a MAT file.
pub(super) enum Level {
    Four,
    Five(ByteOrder),
}

/// Recognises a file by its first bytes.
pub(super) fn recognise(bytes: &[u8]) -> Result<Level, FormatError> {
    let expected = "a MAT file of level 4 or 5";
    if bytes.starts_with(HDF5) {
        return Err(FormatError::new(0, expected, "an HDF5 file, as of version 7.3"));
    }
    let Some(start) = bytes.get(..4) else {
        return Err(FormatError::new(0, expected, format!("{} bytes", bytes.len())));
    };
    if start.contains(&0) {
        return Ok(Level::Four);
    }
    let Some(&[a, b, ref mark @ ..]) = bytes.get(VERSION..HEADER) else {
        return Err(FormatError::new(0, expected, format!("{} bytes", bytes.len())));
    };
    let (order, version) = match mark {
        b"IM" => (ByteOrder::Little, u16::from_le_bytes([a, b])),
        b"MI" => (ByteOrder::Big, u16::from_be_bytes([a, b])),
        _ => {
            let found = format!("{:?}", mark.escape_ascii().to_string());
            return Err(FormatError::new(126, "\"IM\" or \"MI\"", found));
        }
    };
    match version {
        VERSION_5 => Ok(Level::Five(order)),
        VERSION_7_3 => {
            let found = "version 7.3, which is an HDF5 file";
            Err(FormatError::new(VERSION as u64, expected, found))
        }
        _ => Err(FormatError::new(VERSION as u64, expected, format!("version {version:#06x}"))),
    }
}

/// The description at the start of a level 5 file, without the blanks at its end.
pub(super) fn description(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..DESCRIPTION.min(bytes.len())]);
    text.trim_end_matches([' ', '\t', '\n', '\0']).to_owned()
}
