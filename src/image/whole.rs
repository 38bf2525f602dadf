//! Flaws that decoders of JPEG do not report: they fill the rest of a file that was cut short with
//! grey, and the one in Rust makes wrong pixels of some files.

/// The marker of the end.
const END: u8 = 0xd9;
/// The marker of coded pixels.
const SCAN: u8 = 0xda;

/// Whether the segments and scans of a JPEG follow each other up to its end.
pub(crate) fn jpeg_has_end(bytes: &[u8]) -> bool {
    Segments::new(bytes).any(|(marker, _)| marker == END)
}

/// Finds a JPEG that is not progressive and that zune-jpeg decodes to wrong pixels without an
/// error.
///
/// If colours come in several scans, it reads each scan with the state of the one before, and takes
/// its blocks in the order of a scan with all colours. And it takes the first colour for the one
/// that was sampled most.
pub(crate) fn jpeg_is_mistaken(bytes: &[u8]) -> Option<&'static str> {
    let mut colors: &[u8] = &[];
    for (marker, segment) in Segments::new(bytes) {
        match (marker, segment) {
            (0xc0 | 0xc1, [_, _, _, _, _, _, rest @ ..]) => colors = rest,
            (SCAN, [count, ..]) => {
                let sampled = |color: &[u8]| (color[1] >> 4, color[1] & 15);
                let mut sampled = colors.chunks_exact(3).map(sampled);
                let first = sampled.next().unwrap_or_default();
                if 3 * usize::from(*count) < colors.len() {
                    return Some("its colours are in scans of their own");
                } else if sampled.any(|other| other.0 > first.0 || other.1 > first.1) {
                    return Some("its first colour is not sampled most");
                }
                return None;
            }
            _ => {}
        }
    }
    None
}

/// The segments of a JPEG, each with its marker; what it is coded in follows the segment of a scan and is left
/// out. Ends after the marker of the end, or where the bytes do.
struct Segments<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Segments<'a> {
    fn new(bytes: &'a [u8]) -> Segments<'a> {
        Segments { bytes, at: 2 }
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        loop {
            let (bytes, at) = (self.bytes, self.at);
            // A segment, after any number of fill bytes.
            match bytes.get(at..at + 2)? {
                [0xff, 0xff] => self.at += 1,
                [0xff, END] => {
                    self.at = bytes.len();
                    return Some((END, &[]));
                }
                // Markers that stand alone.
                [0xff, 0x01 | 0xd0..=0xd7] => self.at += 2,
                &[0xff, marker] => {
                    let &[high, low] = bytes.get(at + 2..at + 4)? else { return None };
                    let end = at + 2 + usize::from(u16::from_be_bytes([high, low])).max(2);
                    self.at = end;
                    if marker == SCAN {
                        self.at += scan_len(bytes.get(end..).unwrap_or_default());
                    }
                    return Some((marker, bytes.get(at + 4..end).unwrap_or_default()));
                }
                // Some cameras put bytes between segments, and decoders skip them.
                _ => self.at += 1,
            }
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
