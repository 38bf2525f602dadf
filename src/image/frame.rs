//! The header of an ordinary JPEG: what libjpeg-turbo and the decoder in Rust read in the same way.

use image::metadata::Orientation;

const SCAN: u8 = 0xda;
const HUFFMAN_TABLES: u8 = 0xc4;
const QUANTIZATION_TABLES: u8 = 0xdb;
const RESTART_INTERVAL: u8 = 0xdd;
const COMMENT: u8 = 0xfe;
const EXIF: u8 = 0xe1;
const ADOBE: u8 = 0xee;

/// An ordinary JPEG: grey or YCbCr of 8 bits, with Huffman codes, in one of the usual subsamplings, and with all
/// tables that its first scan uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) width: u16,
    pub(super) height: u16,
    /// As in EXIF, 1 to 8.
    pub(super) orientation: u8,
    pub(super) is_gray: bool,
    pub(super) is_progressive: bool,
    /// Columns of pixels that are coded together: 8 times the horizontal sampling.
    pub(super) unit: usize,
}

/// One component: the name that scans refer to, its sampling and its quantization table.
#[derive(Debug, Clone, Copy, Default)]
struct Component {
    id: u8,
    sampling: u8,
    table: u8,
}

/// The tables that were defined, by bits.
#[derive(Default)]
struct Tables {
    quantization: u16,
    /// The Huffman tables for the mean of a block, and for the rest.
    huffman: [u16; 2],
}

impl Frame {
    /// The frame of a JPEG that is ordinary up to its first scan.
    pub(super) fn read(bytes: &[u8]) -> Option<Frame> {
        let mut rest = bytes.strip_prefix(&[0xff, 0xd8])?;
        let (mut orientation, mut tables, mut adobe) = (1, Tables::default(), None);
        let mut found: Option<(Frame, [Component; 3])> = None;
        loop {
            rest = rest.strip_prefix(&[0xff])?;
            while let [0xff, after @ ..] = rest {
                rest = after;
            }
            let &[marker, high, low, ref after @ ..] = rest else { return None };
            let len = usize::from(u16::from_be_bytes([high, low])).checked_sub(2)?;
            let (segment, after) = after.split_at_checked(len)?;
            match marker {
                0xc0..=0xc2 if found.is_none() => found = Some(of_frame(marker, segment)?),
                HUFFMAN_TABLES => tables.define_huffman(segment)?,
                QUANTIZATION_TABLES => tables.define_quantization(segment)?,
                EXIF if segment.len() > 6 && segment.starts_with(b"Exif\0\0") => {
                    let read = Orientation::from_exif_chunk(&segment[6..]);
                    orientation = read.unwrap_or(Orientation::NoTransforms).to_exif();
                }
                ADOBE if segment.starts_with(b"Adobe") => adobe = Some(*segment.get(11)?),
                RESTART_INTERVAL | COMMENT | 0xe0..=0xef => {}
                SCAN => {
                    let (frame, components) = found?;
                    // If Adobe names the colours, only YCbCr is known here.
                    let is_known = adobe.is_none_or(|colors| colors == 1 && !frame.is_gray);
                    let is_whole = tables.has_those_of(segment, &frame, &components)?;
                    return (is_known && is_whole).then_some(Frame { orientation, ..frame });
                }
                _ => return None,
            }
            rest = after;
        }
    }
}

fn of_frame(marker: u8, segment: &[u8]) -> Option<(Frame, [Component; 3])> {
    let (&[8, h0, h1, w0, w1, count], rest) = segment.split_first_chunk()? else { return None };
    let mut components = [Component::default(); 3];
    let components_in_use = components.get_mut(..usize::from(count))?;
    if rest.len() != 3 * components_in_use.len() {
        return None;
    }
    for (component, bytes) in components_in_use.iter_mut().zip(rest.chunks_exact(3)) {
        *component = Component { id: bytes[0], sampling: bytes[1], table: bytes[2] };
    }
    let unit = match components.map(|component| component.sampling) {
        // The sampling of a single component means nothing.
        _ if count == 1 => 8,
        [0x11 | 0x12, 0x11, 0x11] => 8,
        [0x21 | 0x22, 0x11, 0x11] => 16,
        [0x41, 0x11, 0x11] => 32,
        _ => return None,
    };
    // Such names mean colours that are not converted.
    if components.map(|component| component.id) == *b"RGB" {
        return None;
    }
    let frame = Frame {
        width: u16::from_be_bytes([w0, w1]),
        height: u16::from_be_bytes([h0, h1]),
        orientation: 1,
        is_gray: count == 1,
        is_progressive: marker == 0xc2,
        unit,
    };
    (frame.width > 0 && frame.height > 0).then_some((frame, components))
}

impl Tables {
    fn define_quantization(&mut self, mut segment: &[u8]) -> Option<()> {
        while let Some((&table, rest)) = segment.split_first() {
            let size = if table >> 4 == 0 { 64 } else { 128 };
            segment = rest.get(size..)?;
            self.quantization |= 1 << (table & 15);
        }
        Some(())
    }

    fn define_huffman(&mut self, mut segment: &[u8]) -> Option<()> {
        while let Some((&table, rest)) = segment.split_first() {
            let (counts, rest) = rest.split_first_chunk::<16>()?;
            let codes: usize = counts.iter().map(|&count| usize::from(count)).sum();
            segment = rest.get(codes..)?;
            *self.huffman.get_mut(usize::from(table >> 4))? |= 1 << (table & 15);
        }
        Some(())
    }

    /// Whether all tables are here that a scan uses. libjpeg-turbo would take usual ones instead.
    fn has_those_of(
        &self,
        scan: &[u8],
        frame: &Frame,
        components: &[Component; 3],
    ) -> Option<bool> {
        let (&count, rest) = scan.split_first()?;
        let selected = rest.get(..2 * usize::from(count))?;
        let mut has_all = true;
        for pair in selected.chunks_exact(2) {
            let component = components.iter().find(|component| component.id == pair[0])?;
            let has = |tables: u16, table: u8| tables >> (table & 15) & 1 == 1;
            has_all &= has(self.quantization, component.table)
                && has(self.huffman[0], pair[1] >> 4)
                && (frame.is_progressive || has(self.huffman[1], pair[1]));
        }
        Some(has_all)
    }
}
