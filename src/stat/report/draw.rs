//! Pictures that a browser shows: small ones of large images, masks in colours, arrays as shades.

use crate::format::png::{Colours, encode};
use crate::value::{DType, DTypeKind, NdArray};

/// An image is shown as it is stored if it has no more bytes.
const MAX_IMAGE: usize = 24 << 10;
/// Pixels of the longer side of other pictures.
const SIDE: usize = 224;
/// Points of a line.
const POINTS: usize = 400;

/// A picture that a browser shows, as its media type and bytes: a small one of the image where images can be decoded, or
/// else itself.
pub fn picture(bytes: &[u8]) -> Option<(&'static str, Vec<u8>)> {
    let media = match bytes {
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => "",
    };
    if bytes.len() <= MAX_IMAGE && !media.is_empty() {
        return Some((media, bytes.to_vec()));
    }
    #[cfg(feature = "images")]
    if let Some(small) = encoded::thumbnail(bytes) {
        return Some(small);
    }
    // Where nothing is decoded, an image that is not too large is better than none.
    let is_shown = cfg!(not(feature = "images")) && bytes.len() <= 4 * MAX_IMAGE;
    (is_shown && !media.is_empty()).then(|| (media, bytes.to_vec()))
}

/// The numbers of an array with two axes that are longer than one, rows first, at most [`SIDE`] of them along each.
struct Plane {
    width: usize,
    height: usize,
    numbers: Vec<f64>,
}

impl Plane {
    fn of(array: &NdArray<'_>) -> Option<Plane> {
        let axes: Vec<usize> = array.shape().iter().copied().filter(|len| *len > 1).collect();
        let &[height, width] = &axes[..] else { return None };
        let bytes = array.c_bytes();
        let step = width.max(height).div_ceil(SIDE);
        let rows = (0..height).step_by(step);
        let indices = rows.flat_map(|row| (0..width).step_by(step).map(move |at| row * width + at));
        let numbers = indices.map(|index| number(array.dtype(), &bytes, index));
        let numbers = numbers.collect::<Option<Vec<f64>>>()?;
        Some(Plane { width: width.div_ceil(step), height: height.div_ceil(step), numbers })
    }

    fn png(&self, colours: Colours, pixel: impl FnMut(&f64) -> Vec<u8>) -> Option<Vec<u8>> {
        let pixels: Vec<u8> = self.numbers.iter().flat_map(pixel).collect();
        let size = (u32::try_from(self.width).ok()?, u32::try_from(self.height).ok()?);
        encode(size, colours, 8, &pixels)
    }
}

/// An array with two axes as a PNG: the lighter, the larger.
pub(super) fn heat_map(array: &NdArray<'_>) -> Option<Vec<u8>> {
    let plane = Plane::of(array)?;
    let finite = plane.numbers.iter().copied().filter(|number| number.is_finite());
    let (min, max) = finite.fold((f64::MAX, f64::MIN), |(min, max), n| (min.min(n), max.max(n)));
    // From black over violet and orange to yellow; red where there is no number.
    const STOPS: [[f64; 3]; 4] =
        [[0.0, 0.0, 4.0], [120.0, 28.0, 109.0], [237.0, 105.0, 37.0], [252.0, 255.0, 164.0]];
    plane.png(Colours::Rgb, |number| {
        if !number.is_finite() {
            return vec![220, 30, 30];
        }
        let range = if max > min { max - min } else { 1.0 };
        let at = (number - min) / range * 3.0;
        let stop = (at as usize).min(2);
        let mix = |channel: usize| {
            let (from, to) = (STOPS[stop][channel], STOPS[stop + 1][channel]);
            (from + (to - from) * (at - stop as f64)) as u8
        };
        vec![mix(0), mix(1), mix(2)]
    })
}

/// A mask of whole numbers as a PNG: a colour for each number, none for 0.
pub(super) fn mask(array: &NdArray<'_>) -> Option<Vec<u8>> {
    let is_whole =
        matches!(array.dtype().kind(), DTypeKind::Bool | DTypeKind::Int | DTypeKind::UInt);
    if !is_whole {
        return None;
    }
    Plane::of(array)?.png(Colours::Rgba, |number| colour(*number as i64))
}

/// Neighbouring numbers have colours that are far apart. What is to be ignored, 255 or -1, is grey.
fn colour(number: i64) -> Vec<u8> {
    match number {
        0 => vec![0; 4],
        255 | -1 => vec![160, 160, 160, 255],
        number => {
            let hue = (number as f64 * 0.618_034).rem_euclid(1.0) * 6.0;
            let ramp = |shift: f64| {
                let at = ((hue + shift).rem_euclid(6.0) - 3.0).abs() - 1.0;
                (at.clamp(0.0, 1.0) * 215.0 + 30.0) as u8
            };
            vec![ramp(0.0), ramp(4.0), ramp(2.0), 255]
        }
    }
}

/// The numbers of an array with one axis that is longer than one, at most [`POINTS`] of them.
pub(super) fn points(array: &NdArray<'_>) -> Option<Vec<f64>> {
    let axes: Vec<usize> = array.shape().iter().copied().filter(|len| *len > 1).collect();
    let &[len] = &axes[..] else { return None };
    let bytes = array.c_bytes();
    let indices = (0..len).step_by(len.div_ceil(POINTS));
    indices.map(|index| number(array.dtype(), &bytes, index)).collect()
}

/// All numbers of an array of shape (n, 4), n at most this.
pub(super) fn fours(array: &NdArray<'_>, most: usize) -> Option<Vec<[f64; 4]>> {
    let &[rows, 4] = array.shape() else { return None };
    let bytes = array.c_bytes();
    let one = |index: usize| number(array.dtype(), &bytes, index);
    let four =
        |row: usize| Some([one(4 * row)?, one(4 * row + 1)?, one(4 * row + 2)?, one(4 * row + 3)?]);
    (0..rows.min(most)).map(four).collect()
}

/// The element of this index, if it is a number.
fn number(dtype: &DType, bytes: &[u8], index: usize) -> Option<f64> {
    let size = dtype.item_size();
    let item = bytes.get(index.checked_mul(size)?..)?.get(..size)?;
    crate::stat::arrays::number(dtype, item)
}

#[cfg(feature = "images")]
mod encoded {
    use std::io::Cursor;

    use image::{DynamicImage, ImageReader, Limits};

    use super::SIDE;
    use crate::image::check_jpeg;

    /// Bytes that decoding may take: an image of 64 megapixels.
    const MAX_ALLOC: u64 = 256 << 20;
    const QUALITY: u8 = 82;

    /// A small picture of an image; `None` of what is none, is damaged or would take too much memory.
    pub(super) fn thumbnail(bytes: &[u8]) -> Option<(&'static str, Vec<u8>)> {
        let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().ok()?;
        if reader.format() == Some(image::ImageFormat::Jpeg) {
            check_jpeg(bytes).ok()?;
        }
        let mut limits = Limits::default();
        limits.max_alloc = Some(MAX_ALLOC);
        reader.limits(limits);
        small(&reader.decode().ok()?)
    }

    /// As a JPEG, or as a PNG where pixels are transparent.
    pub(super) fn small(image: &DynamicImage) -> Option<(&'static str, Vec<u8>)> {
        let side = SIDE as u32;
        let small = match image.width().max(image.height()) > side {
            true => &image.thumbnail(side, side),
            false => image,
        };
        if small.color().has_alpha() {
            let mut png = Cursor::new(Vec::new());
            small.write_to(&mut png, image::ImageFormat::Png).ok()?;
            return Some(("image/png", png.into_inner()));
        }
        let rgb = small.to_rgb8();
        let (width, height) = (u16::try_from(rgb.width()).ok()?, u16::try_from(rgb.height()).ok()?);
        let mut jpeg = Vec::new();
        let encoder = jpeg_encoder::Encoder::new(&mut jpeg, QUALITY);
        encoder.encode(&rgb, width, height, jpeg_encoder::ColorType::Rgb).ok()?;
        Some(("image/jpeg", jpeg))
    }

    /// Pixels of three bytes each.
    pub(in crate::stat::report) fn pixels(
        width: u32,
        height: u32,
        rgb: Vec<u8>,
    ) -> Option<(&'static str, Vec<u8>)> {
        small(&DynamicImage::ImageRgb8(image::RgbImage::from_raw(width, height, rgb)?))
    }
}

#[cfg(feature = "images")]
pub(super) use encoded::pixels;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_drawn_at_a_size_that_fits() {
        let size = |png: Option<Vec<u8>>| crate::format::picture::size(&png.unwrap()).unwrap();
        let floats = vec![0; 4 * 3 * 500];
        let plane = NdArray::new("<f4".parse().unwrap(), [1, 3, 500], floats.clone()).unwrap();
        assert_eq!(size(heat_map(&plane)), (167, 1));
        assert_eq!(mask(&plane), None);
        let mask_of =
            NdArray::new("|u1".parse().unwrap(), [2, 3], vec![0, 1, 2, 255, 4, 0]).unwrap();
        assert_eq!(size(mask(&mask_of)), (3, 2));
        let line = NdArray::new(">f4".parse().unwrap(), [1500], floats).unwrap();
        assert_eq!(points(&line).unwrap().len(), 375);
        assert_eq!(heat_map(&line), None);
        let boxes = NdArray::new("<i2".parse().unwrap(), [1, 4], vec![1, 0, 2, 0, 3, 0, 255, 255]);
        assert_eq!(fours(&boxes.unwrap(), 9).unwrap(), [[1.0, 2.0, 3.0, -1.0]]);
    }
}
