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
    let mut at = 0;
    while let Some(next) = first_mark(&bytes[at..]) {
        at += next;
        match bytes.get(at + 1) {
            Some(0 | 0xd0..=0xd7 | 0xff) => at += 1,
            Some(_) => return at,
            None => break,
        }
    }
    bytes.len()
}

/// Where the first 0xff is. There is one in some hundred bytes, and most of the file is searched.
fn first_mark(bytes: &[u8]) -> Option<usize> {
    let is_mark = |byte: &u8| *byte == 0xff;
    // All of a block, without a branch for each byte.
    let has_mark = |block: &[u8]| block.iter().fold(false, |has, byte| has | is_mark(byte));
    let clear = 32 * bytes.chunks_exact(32).take_while(|block| !has_mark(block)).count();
    bytes[clear..].iter().position(is_mark).map(|at| clear + at)
}
