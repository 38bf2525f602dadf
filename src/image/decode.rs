//! Encoded images to pixels, within limits. Untrusted bytes.

use std::fmt::Display;
use std::io::Cursor;

use image::metadata::Orientation;
use image::{ColorType, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};
use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::array::{ArrayImage, Picture};
use super::header::{Header, Part};
use super::step::Mode;
#[cfg(feature = "turbo")]
use super::turbo;
use super::whole::{jpeg_has_end, jpeg_is_mistaken};
use crate::error::{Error, ErrorKind, Result};
use crate::guard::guarded;

/// The formats that are decoded.
const KNOWN: [ImageFormat; 7] = [
    ImageFormat::Jpeg,
    ImageFormat::Png,
    ImageFormat::Gif,
    ImageFormat::WebP,
    ImageFormat::Tiff,
    ImageFormat::Bmp,
    ImageFormat::Pnm,
];

/// The most bytes per pixel, which is 16, and room for a few rows that decoders hold in addition.
const MAX_BYTES_A_PIXEL: u64 = 20;

/// The most bytes that a decoder may allocate before pixels are read: some rows, and metadata.
const MAX_OPENING: u64 = 16 << 20;

/// The format of an image that is decoded.
pub(crate) fn known_format(bytes: &[u8]) -> Option<ImageFormat> {
    image::guess_format(bytes).ok().filter(|format| KNOWN.contains(format))
}

/// A decoder that allocates no more than such an image needs.
pub(crate) fn limited_decoder<'a>(
    bytes: &'a [u8],
    format: ImageFormat,
    max_pixels: u64,
) -> Result<impl ImageDecoder + use<'a>, ImageError> {
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(max_pixels.saturating_mul(MAX_BYTES_A_PIXEL).max(1 << 20));
    // Opening reads what nothing here needs, such as a colour profile that unpacks to gigabytes.
    let mut opening = limits.clone();
    opening.max_alloc = limits.max_alloc.map(|most| most.min(MAX_OPENING));
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.limits(opening);
    let mut decoder = reader.into_decoder()?;
    decoder.set_limits(limits)?;
    Ok(decoder)
}

/// The error of a decoder. An image of an unsupported kind may be intact, so that is not damage; it cannot
/// be `done`.
pub(crate) fn blamed(format: ImageFormat, error: &ImageError, done: &str) -> Error {
    let text = error.to_string();
    let text = text.trim_end_matches(['.', '\n']);
    let (kind, message) = match error {
        ImageError::Limits(_) => (ErrorKind::Limit, format!("{format:?}: {text}")),
        ImageError::Unsupported(_) => {
            (ErrorKind::Unsupported, format!("{format:?} that cannot be {done}: {text}"))
        }
        _ => (ErrorKind::Damaged, format!("{format:?}: {text}")),
    };
    Error::new(kind, message)
}

/// The error of bytes that are not an image, or of an image that nothing here decodes.
pub(crate) fn no_image(bytes: &[u8]) -> Error {
    let other = match image::guess_format(bytes) {
        Ok(format) => Some(format!("{format:?}").to_uppercase()),
        Err(_) if bytes.starts_with(b"\0\0\0\x0cjP  ") => Some("JPEG 2000".to_owned()),
        Err(_) if bytes.get(4..8) == Some(b"ftyp") => Some("HEIF".to_owned()),
        Err(_) => None,
    };
    if let Some(other) = other {
        let message = format!("expected an image of a format that can be decoded, found {other}");
        return Error::new(ErrorKind::Unsupported, message);
    }
    let start = bytes.trim_ascii_start();
    let is_markup = start.first() == Some(&b'<');
    let found = match bytes {
        [] => "no bytes",
        _ if bytes.iter().all(|&byte| byte == 0) => "only zeros",
        _ if is_markup && start.get(..256.min(start.len())).is_some_and(is_svg) => {
            let message = "expected an image of pixels, found SVG";
            return Error::new(ErrorKind::Unsupported, message);
        }
        _ if is_markup => "a web page or other markup",
        _ => "other bytes",
    };
    Error::new(ErrorKind::Invalid, format!("expected an image, found {found}"))
}

fn is_svg(start: &[u8]) -> bool {
    start.windows(4).any(|found| found.eq_ignore_ascii_case(b"<svg"))
}

/// The error of a JPEG that is incomplete.
pub(crate) fn cut_short() -> Error {
    Error::new(ErrorKind::Damaged, "expected a complete JPEG, found a truncated one")
}

/// That the decoder in Rust makes the pixels of a JPEG that are in it.
pub(crate) fn check_jpeg(bytes: &[u8]) -> Result<()> {
    if let Some(why) = jpeg_is_mistaken(bytes) {
        let message = format!("Jpeg that cannot be decoded: {why}");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    if !jpeg_has_end(bytes) {
        return Err(cut_short());
    }
    Ok(())
}

/// Runs a decoder, whose panic is an error: it is a bug there, but only damaged images cause it, and other
/// images follow.
pub(super) fn caught<T>(bytes: &[u8], run: impl FnOnce() -> Result<T>) -> Result<T> {
    guarded(run).unwrap_or_else(|| {
        let format = known_format(bytes).map_or_else(String::new, |format| format!("{format:?}"));
        let message = format!("expected {format}, found bytes that no decoder can read");
        Err(Error::new(ErrorKind::Damaged, message))
    })
}

/// The header of an image of any size.
pub(super) fn header(bytes: &[u8]) -> Result<Header> {
    caught(bytes, || Ok(Opened::new(Picture::Encoded(bytes), u64::MAX)?.header))
}

/// An image whose header was read.
pub(super) struct Opened<'a> {
    pub(super) header: Header,
    bytes: &'a [u8],
    decoder: Decoder<'a>,
}

#[expect(
    clippy::large_enum_variant,
    reason = "it is on the stack for one call; a box would be an allocation for each image"
)]
enum Decoder<'a> {
    /// By the decoder that `image` uses as well, without its copies.
    Jpeg(JpegDecoder<ZCursor<&'a [u8]>>),
    #[cfg(feature = "turbo")]
    Turbo(turbo::Jpeg<'a>),
    Other(Box<dyn ImageDecoder + 'a>, ImageFormat),
    /// Nothing is left to decode.
    Array(ArrayImage<'a>),
}

impl<'a> Opened<'a> {
    pub(super) fn new(picture: Picture<'a>, max_pixels: u64) -> Result<Opened<'a>> {
        let bytes = match picture {
            Picture::Encoded(bytes) => bytes,
            Picture::Array(array) => {
                let (header, decoder) = (array.header(), Decoder::Array(array));
                return Ok(Opened { header, bytes: &[], decoder });
            }
        };
        let format = known_format(bytes).ok_or_else(|| no_image(bytes))?;
        if format == ImageFormat::Jpeg {
            #[cfg(feature = "turbo")]
            if let Some(jpeg) = turbo::Jpeg::open(bytes) {
                return Ok(Opened { header: jpeg.header(), bytes, decoder: Decoder::Turbo(jpeg) });
            }
            return Opened::jpeg(bytes);
        }
        let blame = |error: ImageError| blamed(format, &error, "decoded");
        let mut decoder = limited_decoder(bytes, format, max_pixels).map_err(blame)?;
        let (width, height) = decoder.dimensions();
        // Without a readable orientation, the image is upright.
        let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
        let header = Header::new(width, height).with_orientation(orientation.to_exif());
        Ok(Opened { header, bytes, decoder: Decoder::Other(Box::new(decoder), format) })
    }

    fn jpeg(bytes: &'a [u8]) -> Result<Opened<'a>> {
        // The number of pixels is checked instead of the sides.
        let options = DecoderOptions::default()
            .set_strict_mode(false)
            .set_max_width(usize::MAX)
            .set_max_height(usize::MAX)
            .jpeg_set_out_colorspace(ColorSpace::RGB);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
        decoder.decode_headers().map_err(of_jpeg)?;
        let (width, height) = decoder.dimensions().unwrap_or_default();
        let orientation = decoder.exif().and_then(|exif| Orientation::from_exif_chunk(exif));
        let orientation = orientation.unwrap_or(Orientation::NoTransforms).to_exif();
        // Both sides of a JPEG have 16 bits.
        let header = Header::new(width as u32, height as u32).with_orientation(orientation);
        Ok(Opened { header, bytes, decoder: Decoder::Jpeg(decoder) })
    }

    /// The pixels of a part of the image with its sides divided by 2, 4 or 8 and rounded up, or of more around it: the
    /// part that is returned. `None` if the image cannot be decoded so.
    #[cfg(feature = "turbo")]
    pub(super) fn read_scaled(
        &self,
        mode: Mode,
        by: usize,
        part: Part,
        pixels: &mut Buffer,
    ) -> Option<Part> {
        let Decoder::Turbo(jpeg) = &self.decoder else { return None };
        if !jpeg_has_end(self.bytes) {
            return None;
        }
        let around = jpeg.around(part, by);
        let target = pixels.room(around.pixels() * mode.channels());
        jpeg.read(mode, around, by, target)?;
        Some(around)
    }

    /// The pixels of a part, row by row, as they are stored, or of more around it: the part that is returned.
    /// `spare` is overwritten.
    pub(super) fn read(
        self,
        mode: Mode,
        part: Part,
        pixels: &mut Buffer,
        spare: &mut Buffer,
    ) -> Result<Part> {
        let whole = Part::whole(&self.header);
        debug_assert!(part.x + part.width <= whole.width && part.y + part.height <= whole.height);
        let count = whole.pixels();
        match self.decoder {
            #[cfg(feature = "turbo")]
            Decoder::Turbo(jpeg) => {
                if !jpeg_has_end(self.bytes) {
                    return Err(cut_short());
                }
                let around = jpeg.around(part, 1);
                let target = pixels.room(around.pixels() * mode.channels());
                if jpeg.read(mode, around, 1, target).is_some() {
                    return Ok(around);
                }
                // Damaged, perhaps: the other decoder says what is wrong, or shows what there is.
                let other = Opened::jpeg(self.bytes)?;
                if other.header != self.header {
                    let message = "Jpeg: expected one header, found two that differ";
                    return Err(Error::new(ErrorKind::Damaged, message));
                }
                return other.read(mode, part, pixels, spare);
            }
            Decoder::Array(array) => {
                array.read(mode, part, pixels);
                return Ok(part);
            }
            Decoder::Jpeg(mut decoder) => {
                check_jpeg(self.bytes)?;
                let has_luma = matches!(
                    decoder.input_colorspace(),
                    Some(ColorSpace::Luma | ColorSpace::YCbCr)
                );
                let (space, color) = match mode {
                    Mode::Gray if has_luma => (ColorSpace::Luma, ColorType::L8),
                    _ => (ColorSpace::RGB, ColorType::Rgb8),
                };
                let options = decoder.options().jpeg_set_out_colorspace(space);
                decoder.set_options(options);
                let size = count * usize::from(color.bytes_per_pixel());
                let is_direct = is_of(color, mode);
                let target = if is_direct { &mut *pixels } else { &mut *spare }.room(size);
                // The decoder may leave out rows of a damaged image, where the last image would be
                // seen.
                target.fill(128);
                decoder.decode_into(target).map_err(of_jpeg)?;
                if !is_direct {
                    convert(&spare[..size], color, mode, pixels.room(count * mode.channels()));
                }
            }
            Decoder::Other(decoder, format) => {
                let color = decoder.color_type();
                let size = usize::try_from(decoder.total_bytes()).unwrap_or(usize::MAX);
                if size != count.saturating_mul(usize::from(color.bytes_per_pixel())) {
                    let message = format!("{format:?} that cannot be decoded: {color:?}");
                    return Err(Error::new(ErrorKind::Unsupported, message));
                }
                let is_direct = is_of(color, mode);
                let target = if is_direct { &mut *pixels } else { &mut *spare }.room(size);
                // A GIF with colours beyond its palette leaves such pixels as they are.
                target.fill(0);
                let read = decoder.read_image_boxed(target);
                read.map_err(|error| blamed(format, &error, "decoded"))?;
                if !is_direct {
                    convert(&spare[..size], color, mode, pixels.room(count * mode.channels()));
                }
            }
        }
        Ok(whole)
    }
}

/// Bytes that are reused.
#[derive(Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    /// The most that an image has needed since [`trim`](Self::trim).
    needed: usize,
}

impl Buffer {
    /// This many of its bytes, which hold what was there before.
    pub(super) fn room(&mut self, bytes: usize) -> &mut [u8] {
        self.needed = self.needed.max(bytes);
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 0);
        }
        &mut self.bytes[..bytes]
    }

    /// Gives all of it back if it is above a limit.
    pub(super) fn limit(&mut self, most: usize) {
        if self.bytes.capacity() > most {
            *self = Buffer::default();
        }
    }

    /// Gives back what has not been needed since the last time, if that is much.
    pub(super) fn trim(&mut self, keep: usize) {
        let needed = std::mem::take(&mut self.needed).max(keep);
        if self.bytes.capacity() / 2 > needed {
            self.bytes.truncate(needed);
            self.bytes.shrink_to_fit();
        }
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

fn of_jpeg(error: DecodeErrors) -> Error {
    let text = format!("{error:?}");
    let text = text.trim_matches(['"', '.', '\n']);
    match error {
        DecodeErrors::Unsupported(_) => {
            let message = format!("Jpeg that cannot be decoded: {text}");
            Error::new(ErrorKind::Unsupported, message)
        }
        DecodeErrors::LargeDimensions(_) => Error::new(ErrorKind::Limit, text_of_jpeg(text)),
        _ => Error::new(ErrorKind::Damaged, text_of_jpeg(text)),
    }
}

fn text_of_jpeg(text: impl Display) -> String {
    format!("Jpeg: {text}")
}

/// Whether this pixel type is the one of the mode.
pub(super) fn is_of(color: ColorType, mode: Mode) -> bool {
    matches!(
        (color, mode),
        (ColorType::Rgb8, Mode::Rgb) | (ColorType::L8, Mode::Gray) | (ColorType::Rgba8, Mode::Rgba)
    )
}

/// Converts pixels of any type to the mode.
pub(super) fn convert(from: &[u8], color: ColorType, mode: Mode, to: &mut [u8]) {
    let (per_pixel, channels) = (usize::from(color.bytes_per_pixel()), color.channel_count());
    let channels = usize::from(channels);
    let width = per_pixel / channels.max(1);
    let value = |bytes: &[u8]| match bytes.len() {
        // To the nearest, as `image` does.
        2 => ((u32::from(bytemuck::pod_read_unaligned::<u16>(bytes)) + 128) / 257) as u8,
        4 => {
            let value = bytemuck::pod_read_unaligned::<f32>(bytes);
            (value.clamp(0.0, 1.0) * 255.0).round() as u8
        }
        _ => bytes.first().copied().unwrap_or_default(),
    };
    let pixels = from.chunks_exact(per_pixel.max(1)).zip(to.chunks_exact_mut(mode.channels()));
    for (from, to) in pixels {
        let mut values = [0; 4];
        for (value_of, bytes) in values.iter_mut().zip(from.chunks_exact(width.max(1))) {
            *value_of = value(bytes);
        }
        let (rgb, alpha) = match channels {
            1 => ([values[0]; 3], 255),
            2 => ([values[0]; 3], values[1]),
            3 => ([values[0], values[1], values[2]], 255),
            _ => ([values[0], values[1], values[2]], values[3]),
        };
        match to {
            [gray] => *gray = if channels < 3 { rgb[0] } else { luma(rgb) },
            [r, g, b] => [*r, *g, *b] = rgb,
            [r, g, b, a] => [*r, *g, *b, *a] = [rgb[0], rgb[1], rgb[2], alpha],
            _ => {}
        }
    }
}

/// The brightness of a colour, as Pillow rounds it.
fn luma([r, g, b]: [u8; 3]) -> u8 {
    let sum = 19_595 * u32::from(r) + 38_470 * u32::from(g) + 7_471 * u32::from(b);
    ((sum + 0x8000) >> 16) as u8
}

#[cfg(all(test, feature = "turbo"))]
mod tests {
    use super::*;

    /// Where the decoder in Rust says that an image is damaged, it is with libjpeg-turbo as well; and one that
    /// both decode has the same size.
    #[test]
    fn the_same_images_are_damaged() {
        let mut strange = Vec::new();
        for is_progressive in [false, true] {
            let mut jpeg = Vec::new();
            let mut encoder = jpeg_encoder::Encoder::new(&mut jpeg, 80);
            encoder.set_sampling_factor(jpeg_encoder::SamplingFactor::F_2_2);
            encoder.set_progressive(is_progressive);
            let values: Vec<u8> = (0..40 * 30 * 3u32).map(|at| (at * at / 7) as u8).collect();
            encoder.encode(&values, 40, 30, jpeg_encoder::ColorType::Rgb).unwrap();
            // The first three bytes say that it is a JPEG.
            for at in 3..jpeg.len() {
                for flip in [0x01, 0x10, 0x80, 0xff] {
                    let mut bytes = jpeg.clone();
                    bytes[at] ^= flip;
                    let read = |opened: Result<Opened<'_>>| {
                        let opened = opened?;
                        let part = Part::whole(&opened.header);
                        // A size that was changed takes long.
                        if part.pixels() > 1 << 16 {
                            return Ok((0, 0));
                        }
                        let (mut pixels, mut spare) = (Buffer::default(), Buffer::default());
                        opened.read(Mode::Rgb, part, &mut pixels, &mut spare)?;
                        Ok((part.width, part.height))
                    };
                    let default = caught(&bytes, || read(Opened::jpeg(&bytes)));
                    let found =
                        caught(&bytes, || read(Opened::new(Picture::Encoded(&bytes), 1 << 20)));
                    match (default, found) {
                        (Ok(default), Ok(found)) => assert_eq!(default, found, "{at} {flip}"),
                        (Err(_), Err(_)) => {}
                        (default, found) => {
                            strange.push((is_progressive, at, flip, default.err(), found.err()))
                        }
                    }
                }
            }
        }
        assert!(strange.is_empty(), "{} {strange:#?}", strange.len());
    }
}
