//! PNG, written: the pixels of a picture, compressed without loss.
//!
//! A file is eight bytes, and then chunks (PNG specification, third edition): length of the data in
//! four bytes, type, data, CRC-32 of type and data. `IHDR` has width, height, bits of a sample and
//! colours; `IDAT` has the rows, each after the number of its filter, as one stream of zlib; `IEND` has
//! nothing. All numbers are big-endian.
//!
//! Absent on purpose: reading, palettes, and everything about colour.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// The first bytes of a file.
const MAGIC: &[u8; 8] = b"\x89PNG\r\n\x1a\n";
/// The filter that stores each byte minus the byte of the pixel on its left.
const SUB: u8 = 1;
/// The largest width and height.
const MAX_LEN: u32 = 0x7fff_ffff;

/// The channels of a pixel. The numbers are defined by the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colours {
    Gray = 0,
    Rgb = 2,
    GrayAlpha = 4,
    Rgba = 6,
}

impl Colours {
    fn channels(self) -> usize {
        match self {
            Colours::Gray => 1,
            Colours::GrayAlpha => 2,
            Colours::Rgb => 3,
            Colours::Rgba => 4,
        }
    }
}

/// Writes a picture whose samples have this many bits: 1, 8 or 16, the higher byte first. Each row
/// begins in a byte of its own.
///
/// `None` if there are no pixels, or not as many bytes as the size says.
pub(crate) fn encode(
    (width, height): (u32, u32),
    colours: Colours,
    bits: u8,
    pixels: &[u8],
) -> Option<Vec<u8>> {
    if !(1..=MAX_LEN).contains(&width) || !(1..=MAX_LEN).contains(&height) {
        return None;
    }
    let pixel = colours.channels() * usize::from(bits);
    let row = usize::try_from(width).ok()?.checked_mul(pixel)?.div_ceil(8);
    if row.checked_mul(usize::try_from(height).ok()?)? != pixels.len() {
        return None;
    }
    let mut out = MAGIC.to_vec();
    let mut head = [width.to_be_bytes(), height.to_be_bytes()].concat();
    head.extend([bits, colours as u8, 0, 0, 0]);
    chunk(*b"IHDR", &head, &mut out)?;
    // Writing to memory does not fail.
    chunk(*b"IDAT", &compressed(pixels, row, pixel.div_ceil(8)).ok()?, &mut out)?;
    chunk(*b"IEND", &[], &mut out)?;
    Some(out)
}

/// The rows, filtered and compressed.
fn compressed(pixels: &[u8], row: usize, pixel: usize) -> io::Result<Vec<u8>> {
    let mut out = ZlibEncoder::new(Vec::new(), Compression::default());
    let mut filtered = vec![0; row];
    for line in pixels.chunks_exact(row) {
        let (start, rest) = filtered.split_at_mut(pixel.min(row));
        start.copy_from_slice(&line[..start.len()]);
        for (to, (right, left)) in rest.iter_mut().zip(line[start.len()..].iter().zip(line)) {
            *to = right.wrapping_sub(*left);
        }
        out.write_all(&[SUB])?;
        out.write_all(&filtered)?;
    }
    out.finish()
}

/// `None` if the data are too long.
fn chunk(name: [u8; 4], data: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let len = u32::try_from(data.len()).ok().filter(|len| *len <= MAX_LEN)?;
    out.extend_from_slice(&len.to_be_bytes());
    let start = out.len();
    out.extend_from_slice(&name);
    out.extend_from_slice(data);
    let crc = crc32fast::hash(&out[start..]);
    out.extend_from_slice(&crc.to_be_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_as_many_bytes_as_the_size_says() {
        for (size, colours, bits, len) in [
            ((2, 3), Colours::Rgb, 8, 18),
            ((2, 3), Colours::Gray, 16, 12),
            ((9, 3), Colours::Gray, 1, 6),
            ((1, 1), Colours::Rgba, 8, 4),
            ((1, 2), Colours::GrayAlpha, 8, 4),
        ] {
            assert!(encode(size, colours, bits, &vec![7; len]).is_some(), "{size:?}");
            assert!(encode(size, colours, bits, &vec![7; len + 1]).is_none(), "{size:?}");
            assert!(encode(size, colours, bits, &vec![7; len - 1]).is_none(), "{size:?}");
        }
        for size in [(0, 0), (0, 1), (1, 0), (u32::MAX, u32::MAX)] {
            assert!(encode(size, Colours::Gray, 8, &[]).is_none(), "{size:?}");
        }
    }

    /// The pixels of each kind, as another decoder finds them.
    #[test]
    #[cfg(feature = "images")]
    fn the_same_pixels() {
        use image::DynamicImage as Found;

        let pixels: Vec<u8> = (0..48u32).map(|n| (n * n * 7) as u8).collect();
        let read = |size, colours, bits, len: usize| {
            let png = encode(size, colours, bits, &pixels[..len]).unwrap();
            image::load_from_memory_with_format(&png, image::ImageFormat::Png).unwrap()
        };
        let rgb = read((4, 4), Colours::Rgb, 8, 48);
        assert!(matches!(&rgb, Found::ImageRgb8(_)) && rgb.as_bytes() == &pixels[..48]);
        let rgba = read((3, 4), Colours::Rgba, 8, 48);
        assert!(matches!(&rgba, Found::ImageRgba8(_)) && rgba.as_bytes() == &pixels[..48]);
        let gray = read((6, 8), Colours::Gray, 8, 48);
        assert!(matches!(&gray, Found::ImageLuma8(_)) && gray.as_bytes() == &pixels[..48]);
        let alpha = read((3, 8), Colours::GrayAlpha, 8, 48);
        assert!(matches!(&alpha, Found::ImageLumaA8(_)) && alpha.as_bytes() == &pixels[..48]);
        let deep = read((4, 6), Colours::Gray, 16, 48);
        let Found::ImageLuma16(deep) = &deep else { panic!("{deep:?}") };
        let expected: Vec<u16> =
            pixels.chunks_exact(2).map(|two| u16::from_be_bytes([two[0], two[1]])).collect();
        assert_eq!(deep.as_raw(), &expected);
        let bits = read((10, 2), Colours::Gray, 1, 4).to_luma8();
        let bit = |x: usize, y: usize| pixels[2 * y + x / 8] >> (7 - x % 8) & 1;
        let expected: Vec<u8> = (0..20).map(|n| 255 * bit(n % 10, n / 10)).collect();
        assert_eq!(bits.as_raw(), &expected);
    }
}
