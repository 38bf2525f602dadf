//! Whether a JPEG is complete: decoders fill the rest of one that was cut short with grey.

/// The marker of the end.
const END: u8 = 0xd9;
/// The marker of coded pixels.
const SCAN: u8 = 0xda;

/// Whether the segments and scans of a JPEG follow each other up to its end.
pub(crate) fn jpeg_has_end(bytes: &[u8]) -> bool {
    let mut at = 2;
    loop {
        // A segment, after any number of fill bytes.
        match bytes.get(at..at + 2) {
            Some([0xff, 0xff]) => at += 1,
            Some([0xff, END]) => return true,
            // Markers that stand alone.
            Some([0xff, 0x01 | 0xd0..=0xd7]) => at += 2,
            Some(&[0xff, marker]) => {
                let Some(&[high, low]) = bytes.get(at + 2..at + 4) else { return false };
                at += 2 + usize::from(u16::from_be_bytes([high, low])).max(2);
                if marker == SCAN {
                    at += scan_len(bytes.get(at..).unwrap_or_default());
                }
            }
            // Some cameras put bytes between segments, and decoders skip them.
            Some(_) => at += 1,
            None => return false,
        }
    }
}

/// The bytes up to the next marker that ends a scan: 0xff stands for itself before a zero, and for
/// a restart before 0xd0 to 0xd7.
fn scan_len(bytes: &[u8]) -> usize {
    let ends = |pair: &[u8]| pair[0] == 0xff && !matches!(pair[1], 0 | 0xd0..=0xd7 | 0xff);
    bytes.windows(2).position(ends).unwrap_or(bytes.len())
}
