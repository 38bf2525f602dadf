//! Images: bytes to pixels and back.

use std::borrow::Cow;
use std::fmt;
use std::io::Cursor;
use std::str::FromStr;

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{DynamicImage, ExtendedColorType, ImageEncoder, ImageReader};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

use super::Limits;
use crate::error::{Error, ErrorKind, Result};

/// Pixels in rows: one byte a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Bytes of a pixel: 1 is grey, 3 red, green and blue.
    pub channels: u32,
    /// The pixels, row by row.
    pub pixels: Vec<u8>,
}

/// The chroma subsampling of a JPEG.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Subsampling {
    /// All of them.
    S444,
    /// Half as many in a row.
    #[default]
    S422,
    /// Half as many in rows and columns.
    S420,
    /// Half as many in columns.
    S440,
    /// A quarter in a row.
    S411,
    /// None: an image in shades of grey.
    Gray,
}

impl Subsampling {
    /// All of them, and their names.
    pub const ALL: [(Subsampling, &'static str); 6] = [
        (Subsampling::S444, "444"),
        (Subsampling::S422, "422"),
        (Subsampling::S420, "420"),
        (Subsampling::S440, "440"),
        (Subsampling::S411, "411"),
        (Subsampling::Gray, "Gray"),
    ];
}

impl FromStr for Subsampling {
    type Err = Error;

    fn from_str(name: &str) -> Result<Subsampling> {
        let known = Subsampling::ALL.iter().find(|known| known.1.eq_ignore_ascii_case(name));
        known.map(|known| known.0).ok_or_else(|| {
            let names = Subsampling::ALL.map(|known| known.1).join(", ");
            Error::new(ErrorKind::Invalid, format!("expected one of {names}, found {name:?}"))
        })
    }
}

impl fmt::Display for Subsampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Subsampling::ALL.iter().find(|known| known.0 == *self);
        f.write_str(known.map_or("", |known| known.1))
    }
}

impl Image {
    /// Pixels of such an image.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if these are not as many.
    pub fn new(width: u32, height: u32, channels: u32, pixels: Vec<u8>) -> Result<Image> {
        let size = u64::from(width) * u64::from(height) * u64::from(channels);
        if size != pixels.len() as u64 {
            let found = pixels.len();
            let message =
                format!("expected {width} x {height} x {channels} bytes of pixels, found {found}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(Image { width, height, channels, pixels })
    }
}

/// Decodes an image of any format that is known by its first bytes.
///
/// # Errors
///
/// [`Damaged`](ErrorKind::Damaged) for what is no image or not whole; [`Limit`](ErrorKind::Limit)
/// for more pixels than `limits` allow.
pub fn decode(bytes: &[u8], limits: Limits) -> Result<DynamicImage> {
    let damaged = |error: &dyn fmt::Display| Error::new(ErrorKind::Damaged, plain(error));
    let reader = || {
        let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
        reader.map_err(|error| damaged(&error))
    };
    let (width, height) = reader()?.into_dimensions().map_err(|error| damaged(&error))?;
    limits.check_pixels(width, height)?;
    let mut reader = reader()?;
    let mut memory = image::Limits::default();
    memory.max_alloc = Some(limits.memory());
    reader.limits(memory);
    reader.decode().map_err(|error| damaged(&error))
}

/// The message of the decoder, on one line and in the style of other errors.
fn plain(error: &dyn fmt::Display) -> String {
    let text = error.to_string().replace(['\n', '\r'], " ");
    format!("not an image that can be decoded: {}", text.trim_end_matches('.'))
}

/// The same in red, green and blue.
pub fn decode_rgb(bytes: &[u8], limits: Limits) -> Result<Image> {
    let image = decode(bytes, limits)?.into_rgb8();
    let (width, height) = image.dimensions();
    Image::new(width, height, 3, image.into_raw())
}

/// The same in shades of grey.
#[cfg(test)]
pub fn decode_gray(bytes: &[u8], limits: Limits) -> Result<Image> {
    let image = decode(bytes, limits)?.into_luma8();
    let (width, height) = image.dimensions();
    Image::new(width, height, 1, image.into_raw())
}

/// PNG, as small as it gets without taking minutes.
pub fn encode_png(image: &Image) -> Result<Vec<u8>> {
    let colour = match image.channels {
        1 => ExtendedColorType::L8,
        3 => ExtendedColorType::Rgb8,
        channels => return Err(channels_error(channels)),
    };
    let mut out = Vec::new();
    let encoder =
        PngEncoder::new_with_quality(&mut out, CompressionType::Best, FilterType::Adaptive);
    let encoded = encoder.write_image(&image.pixels, image.width, image.height, colour);
    encoded.map_err(|error| Error::new(ErrorKind::Invalid, plain(&error)))?;
    Ok(out)
}

/// JPEG of a quality from 0 to 100; below 1 is 1.
///
/// # Errors
///
/// [`Unsupported`](ErrorKind::Unsupported) for images with a side that JPEG has no number for.
pub fn encode_jpeg(image: &Image, quality: u8, subsampling: Subsampling) -> Result<Vec<u8>> {
    let too_long = |_| {
        let (width, height) = (image.width, image.height);
        let message = format!("JPEG has sides of up to 65535 pixels, found {width} x {height}");
        Error::new(ErrorKind::Unsupported, message)
    };
    let width = u16::try_from(image.width).map_err(too_long)?;
    let height = u16::try_from(image.height).map_err(too_long)?;
    let grey = subsampling == Subsampling::Gray;
    let (pixels, colour) = match image.channels {
        1 => (Cow::Borrowed(&image.pixels), ColorType::Luma),
        3 if grey => (Cow::Owned(shades(&image.pixels)), ColorType::Luma),
        3 => (Cow::Owned(thinned(image, subsampling)), ColorType::Ycbcr),
        channels => return Err(channels_error(channels)),
    };
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, quality.clamp(1, 100));
    encoder.set_sampling_factor(match subsampling {
        Subsampling::S444 | Subsampling::Gray => SamplingFactor::R_4_4_4,
        Subsampling::S422 => SamplingFactor::R_4_2_2,
        Subsampling::S420 => SamplingFactor::R_4_2_0,
        Subsampling::S440 => SamplingFactor::R_4_4_0,
        Subsampling::S411 => SamplingFactor::R_4_1_1,
    });
    let encoded = encoder.encode(&pixels, width, height, colour);
    encoded.map_err(|error| Error::new(ErrorKind::Invalid, plain(&error)))?;
    Ok(out)
}

/// Luma of JFIF.
fn shades(pixels: &[u8]) -> Vec<u8> {
    pixels.chunks_exact(3).map(|pixel| ycbcr(pixel)[0]).collect()
}

/// A pixel as JFIF has it, in 65536ths.
fn ycbcr(pixel: &[u8]) -> [u8; 3] {
    let [red, green, blue] = [0, 1, 2].map(|channel| i32::from(pixel[channel]));
    let (half, middle) = (1 << 15, 128 << 16);
    let luma = 19595 * red + 38470 * green + 7471 * blue;
    let cb = middle - 11058 * red - 21710 * green + 32768 * blue;
    let cr = middle + 32768 * red - 27439 * green - 5329 * blue;
    [luma, cb, cr].map(|value| ((value + half) >> 16).clamp(0, 255) as u8)
}

/// The pixels as JFIF has them, each with the mean colour of the pixels that will share one colour:
/// the encoder would take the colour of any one of them, which is twice as far off.
fn thinned(image: &Image, subsampling: Subsampling) -> Vec<u8> {
    let mut pixels: Vec<u8> = image.pixels.chunks_exact(3).flat_map(ycbcr).collect();
    let (columns, rows) = match subsampling {
        Subsampling::S444 | Subsampling::Gray => return pixels,
        Subsampling::S422 => (2, 1),
        Subsampling::S420 => (2, 2),
        Subsampling::S440 => (1, 2),
        Subsampling::S411 => (4, 1),
    };
    let (width, height) = (image.width as usize, image.height as usize);
    for top in (0..height).step_by(rows) {
        for left in (0..width).step_by(columns) {
            let (bottom, right) = ((top + rows).min(height), (left + columns).min(width));
            let cell =
                || (top..bottom).flat_map(move |y| (left..right).map(move |x| y * width + x));
            for channel in [1, 2] {
                let sum: usize = cell().map(|at| usize::from(pixels[3 * at + channel])).sum();
                let count = (bottom - top) * (right - left);
                let mean = ((sum + count / 2) / count) as u8;
                cell().for_each(|at| pixels[3 * at + channel] = mean);
            }
        }
    }
    pixels
}

fn channels_error(channels: u32) -> Error {
    let message = format!("expected an image of 1 or 3 channels, found {channels}");
    Error::new(ErrorKind::Invalid, message)
}

#[cfg(test)]
mod tests {
    use super::super::{MAX_FILE, MAX_PIXELS};
    use super::*;

    const ALL: Limits = Limits { bytes: MAX_FILE, pixels: MAX_PIXELS };

    fn picture(channels: u32) -> Image {
        let pixels = (0..48 * 32)
            .flat_map(|at| [at % 48 * 5, at / 48 * 8, 99].into_iter().take(channels as usize));
        Image::new(48, 32, channels, pixels.map(|value| value as u8).collect()).unwrap()
    }

    #[test]
    fn png_loses_nothing() {
        type Decode = fn(&[u8], Limits) -> Result<Image>;
        for (channels, decode) in [(1, decode_gray as Decode), (3, decode_rgb)] {
            let image = picture(channels);
            assert_eq!(decode(&encode_png(&image).unwrap(), ALL).unwrap(), image);
        }
        let odd = Image::new(1, 1, 2, vec![0, 0]).unwrap();
        assert_eq!(encode_png(&odd).unwrap_err().kind(), ErrorKind::Invalid);
        assert!(Image::new(2, 2, 3, vec![0; 11]).is_err());
    }

    #[test]
    fn jpeg_loses_little() {
        for (subsampling, name) in Subsampling::ALL {
            assert_eq!(
                (name.parse::<Subsampling>().unwrap(), &*subsampling.to_string()),
                (subsampling, name)
            );
            let grey = subsampling == Subsampling::Gray;
            let image = picture(3);
            let jpeg = encode_jpeg(&image, 95, subsampling).unwrap();
            let (pixels, found) = match grey {
                true => (shades(&image.pixels), decode_gray(&jpeg, ALL).unwrap()),
                false => (image.pixels, decode_rgb(&jpeg, ALL).unwrap()),
            };
            let apart = pixels.iter().zip(&found.pixels).map(|(a, b)| a.abs_diff(*b));
            let apart: u32 = apart.map(u32::from).sum();
            assert!(apart < 4 * pixels.len() as u32, "{name}: {apart}");
        }
        assert!("423".parse::<Subsampling>().is_err());
    }

    #[test]
    fn what_is_no_image_is_damaged() {
        let png = encode_png(&picture(3)).unwrap();
        for bytes in [&b""[..], b"no image", &png[..40], &png[..png.len() / 2]] {
            assert_eq!(decode(bytes, ALL).unwrap_err().kind(), ErrorKind::Damaged);
        }
        // A header that promises 40000 x 40000 pixels.
        let mut bomb = png[..33].to_vec();
        bomb[16..24].copy_from_slice(&[0, 0, 0x9c, 0x40, 0, 0, 0x9c, 0x40]);
        let crc = crc32fast::hash(&bomb[12..29]);
        bomb[29..33].copy_from_slice(&crc.to_be_bytes());
        bomb.extend(&png[33..]);
        assert_eq!(decode(&bomb, ALL).unwrap_err().kind(), ErrorKind::Limit);
    }

    #[test]
    fn limits_are_for_pixels_and_not_for_what_a_decoder_needs() {
        let jpeg = encode_jpeg(&picture(3), 90, Subsampling::S420).unwrap();
        for bytes in [jpeg, encode_png(&picture(3)).unwrap()] {
            let with = |pixels| decode_rgb(&bytes, Limits { pixels, ..ALL });
            assert!(with(48 * 32).is_ok());
            assert_eq!(with(48 * 32 - 1).unwrap_err().kind(), ErrorKind::Limit);
        }
    }
}
