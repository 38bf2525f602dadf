//! [`Recoder`]: photos that are kept if they can be decoded, or reduced.

use std::borrow::Cow;
use std::io::Read;

use fast_image_resize::images::Image as Pixels;
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use flate2::read::GzDecoder;

use super::Limits;
use super::images::{Image, Subsampling, decode_rgb, encode_jpeg};
use crate::error::{Error, ErrorKind, Result};

/// The size that large photos are reduced to: roughly these pixels on the long and the short side.
const LONG: u32 = 500;
const SHORT: u32 = 375;

/// Channels of all pixels of such a photo.
const TARGET: u64 = 3 * LONG as u64 * SHORT as u64;

/// The quality of photos that must be re-encoded without being asked to.
const FAITHFUL: u8 = 98;

/// Ensures that photos are JPEG in red, green and blue, as `verify_image` of Python datadings does.
///
/// A JPEG file that can be decoded is kept unchanged. CMYK and other formats, also in gzip, become
/// JPEG of quality 98. If a quality is given, all photos of more than half of 500 x 375 pixels
/// become JPEG of it; and photos of more than one and a half become about as small as that.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recoder {
    /// The quality, if photos are to be re-encoded.
    pub quality: Option<u8>,
    /// Their chroma subsampling. Small photos and those that are re-encoded only because they must
    /// be are not subsampled.
    pub subsampling: Subsampling,
    /// How large photos may be.
    pub limits: Limits,
}

impl Recoder {
    /// The bytes to store for a photo.
    ///
    /// # Errors
    ///
    /// The errors of [`decode`](super::decode).
    pub fn recode<'a>(&self, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        if bytes.starts_with(b"\x1f\x8b") {
            let inner = gunzip(bytes, self.limits)?;
            return self.recode_image(&inner).map(|done| Cow::Owned(done.into_owned()));
        }
        self.recode_image(bytes)
    }

    fn recode_image<'a>(&self, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        let image = decode_rgb(bytes, self.limits)?;
        let components = jpeg_components(bytes);
        if components.is_some() && is_cut_short(bytes) {
            return Err(Error::new(ErrorKind::Damaged, "the image is cut short"));
        }
        let whole = (image.width, image.height);
        let size = if components.is_some() { scaled(whole) } else { whole };
        let channels = 3 * u64::from(size.0) * u64::from(size.1);
        let large = 2 * channels > TARGET;
        let compress = components.is_none() || (self.quality.is_some() && large);
        if !compress && components != Some(4) {
            return Ok(Cow::Borrowed(bytes));
        }
        let subsampling = if compress && large { self.subsampling } else { Subsampling::S444 };
        let size = if 2 * channels > 3 * TARGET { fitted(size) } else { size };
        let quality = self.quality.unwrap_or(FAITHFUL);
        encode_jpeg(&resize(image, size)?, quality, subsampling).map(Cow::Owned)
    }
}

/// The size at which Python decodes a JPEG: the fewest eighths that cover the target.
fn scaled((width, height): (u32, u32)) -> (u32, u32) {
    let least_width = if width < height { SHORT } else { LONG };
    let least_height = if height < width { SHORT } else { LONG };
    let eighths = (1..8u64).map(|eighths| {
        let part = |side: u32| (u64::from(side) * eighths).div_ceil(8) as u32;
        (part(width), part(height))
    });
    let mut enough = eighths.filter(|size| size.0 >= least_width && size.1 >= least_height);
    enough.next().unwrap_or((width, height))
}

/// The size with a long side of the target.
fn fitted((width, height): (u32, u32)) -> (u32, u32) {
    let ratio = f64::from(LONG) / f64::from(width.max(height));
    let side = |side: u32| ((ratio * f64::from(side)).round_ties_even() as u32).max(1);
    (side(width), side(height))
}

fn resize(image: Image, (width, height): (u32, u32)) -> Result<Image> {
    if (image.width, image.height) == (width, height) {
        return Ok(image);
    }
    let failed = |error: &dyn std::fmt::Display| Error::new(ErrorKind::Invalid, error.to_string());
    let from = Pixels::from_vec_u8(image.width, image.height, image.pixels, PixelType::U8x3);
    let from = from.map_err(|error| failed(&error))?;
    let mut to = Pixels::new(width, height, PixelType::U8x3);
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Lanczos3));
    let resized = Resizer::new().resize(&from, &mut to, &options);
    resized.map_err(|error| failed(&error))?;
    Image::new(width, height, 3, to.into_vec())
}

/// How many components a JPEG file has: 4 are CMYK. `None` for other files.
fn jpeg_components(bytes: &[u8]) -> Option<u8> {
    let frame = |marker| matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc);
    bytes.get(find_marker(bytes, frame)? + 9).copied()
}

/// Whether the pixels of a JPEG file are complete. Decoders accept truncated ones and fill the rest
/// with grey.
fn is_cut_short(bytes: &[u8]) -> bool {
    let scan = find_marker(bytes, |marker| marker == 0xda).and_then(|at| bytes.get(at..));
    !scan.is_some_and(|scan| scan.windows(2).any(|pair| pair == [0xff, 0xd9]))
}

/// Where the first such marker is in front of the pixels of a JPEG file, or at their beginning.
fn find_marker(bytes: &[u8], wanted: impl Fn(u8) -> bool) -> Option<usize> {
    let mut at = if bytes.starts_with(b"\xff\xd8") { 2 } else { return None };
    loop {
        // Any number of bytes of ones may stand before a marker.
        while bytes.get(at..at + 2)? == [0xff, 0xff] {
            at += 1;
        }
        let [0xff, marker] = *bytes.get(at..at + 2)? else { return None };
        match marker {
            marker if wanted(marker) => return Some(at),
            // Those without a length.
            0x01 | 0xd0..=0xd8 => at += 2,
            0xda => return None,
            _ => {
                let length = bytes.get(at + 2..at + 4)?;
                at += 2 + usize::from(u16::from_be_bytes([length[0], length[1]])).max(2);
            }
        }
    }
}

fn gunzip(bytes: &[u8], limits: Limits) -> Result<Vec<u8>> {
    let mut inner = Vec::new();
    let most = limits.bytes.saturating_add(1);
    let read = GzDecoder::new(bytes).take(most).read_to_end(&mut inner);
    read.map_err(|error| Error::new(ErrorKind::Damaged, error.to_string()))?;
    if inner.len() as u64 > limits.bytes {
        let message = format!("expected at most {} bytes, found more", limits.bytes);
        return Err(Error::above_limit("max_bytes", message));
    }
    Ok(inner)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::encode_png;
    use super::*;

    fn photo(width: u32, height: u32) -> Image {
        let at = (0..width * height).map(|at| (at % width, at / width));
        let pixels = at.flat_map(|(x, y)| [x * 200 / width, y * 200 / height, 90]);
        Image::new(width, height, 3, pixels.map(|value| value as u8).collect()).unwrap()
    }

    fn jpeg(width: u32, height: u32) -> Vec<u8> {
        encode_jpeg(&photo(width, height), 95, Subsampling::S444).unwrap()
    }

    #[test]
    fn what_is_jpeg_stays() {
        for (width, height) in [(3, 2), (500, 375), (900, 700)] {
            let bytes = jpeg(width, height);
            let same = Recoder::default().recode(&bytes).unwrap();
            assert!(matches!(same, Cow::Borrowed(same) if same == bytes));
        }
        let small = jpeg(300, 300);
        let recoder = Recoder { quality: Some(85), ..Recoder::default() };
        assert_eq!(recoder.recode(&small).unwrap(), small);
    }

    #[test]
    fn what_is_large_becomes_smaller() {
        let recoder = Recoder { quality: Some(85), ..Recoder::default() };
        for (from, to) in [
            ((500, 375), (500, 375)),
            ((400, 300), (400, 300)),
            ((1000, 750), (500, 375)),
            ((750, 1000), (375, 500)),
            ((1600, 1600), (500, 500)),
            ((3000, 700), (500, 117)),
        ] {
            let large = jpeg(from.0, from.1);
            let small = recoder.recode(&large).unwrap();
            let small = decode_rgb(&small, Limits::default()).unwrap();
            assert_eq!((small.width, small.height), to, "{from:?}");
            let apart: u32 = small
                .pixels
                .iter()
                .zip(photo(to.0, to.1).pixels)
                .map(|(a, b)| u32::from(a.abs_diff(b)))
                .sum();
            assert!(apart < 3 * small.pixels.len() as u32, "{from:?}: {apart}");
        }
    }

    #[test]
    fn other_formats_become_jpeg() {
        let png = encode_png(&photo(40, 30)).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&png).unwrap();
        let gzip = gzip.finish().unwrap();
        let made = Recoder::default().recode(&png).unwrap();
        assert_eq!(jpeg_components(&made), Some(3));
        assert_eq!(Recoder::default().recode(&gzip).unwrap(), made);
        let jpeg = jpeg(40, 30);
        let cut = [&jpeg[..100], &jpeg[..jpeg.len() - 2], &jpeg[..jpeg.len() - 99]];
        for bytes in [&b"text"[..], &gzip[..20], &png[..50]].into_iter().chain(cut) {
            assert_eq!(Recoder::default().recode(bytes).unwrap_err().kind(), ErrorKind::Damaged);
        }
    }

    #[test]
    fn markers_are_walked_to_the_end() {
        let whole = jpeg(40, 30);
        assert_eq!((jpeg_components(&whole), jpeg_components(b"\x89PNG")), (Some(3), None));
        assert!((0..whole.len()).all(|len| is_cut_short(&whole[..len])) && !is_cut_short(&whole));
        assert!(
            (0..whole.len()).all(|len| matches!(jpeg_components(&whole[..len]), None | Some(3)))
        );
        let padded = [&whole[..2], &[0xff; 7], &whole[2..]].concat();
        assert_eq!(jpeg_components(&padded), Some(3));
    }
}
