//! One image: decoded, resized, turned upright and encoded.

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{PixelType, Resizer};
use image::codecs::png::PngEncoder;
use image::codecs::webp::WebPEncoder;
use image::metadata::Orientation;
use image::{ColorType, DynamicImage, ImageDecoder, ImageEncoder, ImageError, ImageFormat};

use super::options::ImageOptions;
use crate::convert::ChromaSubsampling;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::guarded;
use crate::image::{blamed, check_jpeg, known_format, limited_decoder, no_image};

/// The longest sides that JPEG and WebP allow.
const MAX_SIDES: [(ImageFormat, u32); 2] =
    [(ImageFormat::Jpeg, 65_535), (ImageFormat::WebP, 16_383)];

impl ImageOptions {
    /// The new bytes of an image; `None` if it does not change, or if it is not an image and does
    /// not have to be one (`must`).
    pub(super) fn change(&self, bytes: &[u8], must: bool) -> Result<Option<Vec<u8>>> {
        let Some(format) = known_format(bytes) else {
            return if must { Err(no_image(bytes)) } else { Ok(None) };
        };
        // A panic is a bug of the decoder, but only damaged images cause it, and other images
        // follow.
        let changed = guarded(|| self.change_known(bytes, format, must));
        changed.unwrap_or_else(|| {
            Err(Error::new(
                ErrorKind::Damaged,
                format!("expected {format:?}, found bytes that no decoder can read"),
            ))
        })
    }

    fn change_known(
        &self,
        bytes: &[u8],
        format: ImageFormat,
        must: bool,
    ) -> Result<Option<Vec<u8>>> {
        let mut decoder = match limited_decoder(bytes, format, self.max_pixels) {
            Ok(decoder) => decoder,
            // The magic numbers of these two are so short that other bytes may begin with them by
            // chance.
            Err(_) if !must && matches!(format, ImageFormat::Bmp | ImageFormat::Pnm) => {
                return Ok(None);
            }
            Err(error) => return Err(self.blame(format, error)),
        };
        let (width, height) = decoder.dimensions();
        self.check_pixels(width, height)?;
        // Without a readable orientation, the image is upright.
        let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
        let (upright_width, upright_height) = turned(orientation, width, height);
        let wanted = match self.resize {
            Some(resize) => resize.of(upright_width, upright_height, self.upscale),
            None => (upright_width, upright_height),
        };
        let same_size = wanted == (upright_width, upright_height);
        let (same_format, other_format) = self.format.of(format);
        let keeps = same_size && same_format == format;
        if keeps && !self.verify {
            return Ok(None);
        }
        if format == ImageFormat::Jpeg {
            check_jpeg(bytes)?;
        }
        let profile = decoder.icc_profile().ok().flatten();
        let picture =
            DynamicImage::from_decoder(decoder).map_err(|error| self.blame(format, error))?;
        if keeps {
            return Ok(None);
        }
        let target = if same_size { same_format } else { other_format };
        self.check_new(target, wanted)?;
        let picture = stored(picture, target);
        let mut picture = match same_size {
            true => picture,
            // It is turned after resizing, when there is less to turn.
            false => resized(&picture, turned(orientation, wanted.0, wanted.1))?,
        };
        picture.apply_orientation(orientation);
        let profile = profile.filter(|profile| is_for(profile, picture.color()));
        self.encode(&picture, target, profile).map(Some)
    }

    fn check_pixels(&self, width: u32, height: u32) -> Result<()> {
        let (pixels, max) = (u64::from(width) * u64::from(height), self.max_pixels);
        if pixels > max {
            let message = format!("expected at most {max} pixels, found {width} × {height}");
            return Err(Error::above_limit("max_pixels", message));
        }
        Ok(())
    }

    fn check_new(&self, format: ImageFormat, (width, height): (u32, u32)) -> Result<()> {
        self.check_pixels(width, height)?;
        let max = MAX_SIDES.iter().find(|(of, _)| *of == format).map_or(u32::MAX, |(_, max)| *max);
        if width.max(height) > max {
            let message =
                format!("{format:?} has sides of at most {max} pixels, found {width} × {height}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(())
    }

    fn encode(
        &self,
        picture: &DynamicImage,
        format: ImageFormat,
        profile: Option<Vec<u8>>,
    ) -> Result<Vec<u8>> {
        if format == ImageFormat::Jpeg {
            return self.jpeg(picture, profile);
        }
        let mut out = Vec::new();
        let written = match format {
            ImageFormat::WebP => write(WebPEncoder::new_lossless(&mut out), picture, profile),
            _ => write(PngEncoder::new(&mut out), picture, profile),
        };
        written.map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
        Ok(out)
    }

    fn blame(&self, format: ImageFormat, error: ImageError) -> Error {
        blamed(format, &error, if self.verify { "checked" } else { "decoded" })
    }

    fn jpeg(&self, picture: &DynamicImage, profile: Option<Vec<u8>>) -> Result<Vec<u8>> {
        use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
        let invalid = |error: jpeg_encoder::EncodingError| {
            Error::new(ErrorKind::Invalid, format!("JPEG: {error}"))
        };
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out, self.quality);
        encoder.set_sampling_factor(match self.subsampling {
            ChromaSubsampling::None => SamplingFactor::R_4_4_4,
            ChromaSubsampling::Width => SamplingFactor::R_4_2_2,
            ChromaSubsampling::Both => SamplingFactor::R_4_2_0,
        });
        if let Some(profile) = profile {
            encoder.add_icc_profile(&profile).map_err(invalid)?;
        }
        let color = match picture.color().channel_count() {
            1 => ColorType::Luma,
            _ => ColorType::Rgb,
        };
        // The sides were checked above.
        let (width, height) = (picture.width() as u16, picture.height() as u16);
        encoder.encode(picture.as_bytes(), width, height, color).map_err(invalid)?;
        Ok(out)
    }
}

/// Writes a picture with its colour profile.
fn write(
    mut encoder: impl ImageEncoder,
    picture: &DynamicImage,
    profile: Option<Vec<u8>>,
) -> Result<(), ImageError> {
    if let Some(profile) = profile {
        encoder.set_icc_profile(profile).map_err(ImageError::Unsupported)?;
    }
    let (width, height) = (picture.width(), picture.height());
    encoder.write_image(picture.as_bytes(), width, height, picture.color().into())
}

/// Width and height after turning, or before.
fn turned(orientation: Orientation, width: u32, height: u32) -> (u32, u32) {
    match orientation {
        Orientation::Rotate90
        | Orientation::Rotate270
        | Orientation::Rotate90FlipH
        | Orientation::Rotate270FlipH => (height, width),
        _ => (width, height),
    }
}

/// The picture in colours that the format supports.
fn stored(picture: DynamicImage, format: ImageFormat) -> DynamicImage {
    let color = picture.color();
    let (grey, alpha) = (!color.has_color(), color.has_alpha());
    match format {
        ImageFormat::Jpeg if grey => DynamicImage::ImageLuma8(match alpha {
            true => on_white_grey(&picture),
            false => picture.into_luma8(),
        }),
        ImageFormat::Jpeg => DynamicImage::ImageRgb8(match alpha {
            true => on_white(&picture),
            false => picture.into_rgb8(),
        }),
        ImageFormat::WebP if alpha => DynamicImage::ImageRgba8(picture.into_rgba8()),
        ImageFormat::WebP if grey => DynamicImage::ImageLuma8(picture.into_luma8()),
        ImageFormat::WebP => DynamicImage::ImageRgb8(picture.into_rgb8()),
        _ => match color {
            // PNG cannot store floats.
            ColorType::Rgb32F => DynamicImage::ImageRgb16(picture.into_rgb16()),
            ColorType::Rgba32F => DynamicImage::ImageRgba16(picture.into_rgba16()),
            _ => picture,
        },
    }
}

/// A channel on a white background.
fn shown(value: u8, alpha: u8) -> u8 {
    let (value, alpha) = (u32::from(value), u32::from(alpha));
    ((value * alpha + 255 * (255 - alpha) + 127) / 255) as u8
}

fn on_white(picture: &DynamicImage) -> image::RgbImage {
    let with_alpha = picture.to_rgba8();
    let mut out = image::RgbImage::new(picture.width(), picture.height());
    for (to, from) in out.pixels_mut().zip(with_alpha.pixels()) {
        let [r, g, b, alpha] = from.0;
        to.0 = [shown(r, alpha), shown(g, alpha), shown(b, alpha)];
    }
    out
}

fn on_white_grey(picture: &DynamicImage) -> image::GrayImage {
    let with_alpha = picture.to_luma_alpha8();
    let mut out = image::GrayImage::new(picture.width(), picture.height());
    for (to, from) in out.pixels_mut().zip(with_alpha.pixels()) {
        let [value, alpha] = from.0;
        to.0 = [shown(value, alpha)];
    }
    out
}

/// The resized picture.
///
/// `fast_image_resize` uses the vector instructions of the processor; `image` itself takes several
/// times as long.
fn resized(picture: &DynamicImage, (width, height): (u32, u32)) -> Result<DynamicImage> {
    let invalid = |error: String| Error::new(ErrorKind::Invalid, error);
    let kind = match picture.color() {
        ColorType::L8 => PixelType::U8,
        ColorType::La8 => PixelType::U8x2,
        ColorType::Rgb8 => PixelType::U8x3,
        ColorType::Rgba8 => PixelType::U8x4,
        ColorType::L16 => PixelType::U16,
        ColorType::La16 => PixelType::U16x2,
        ColorType::Rgb16 => PixelType::U16x3,
        ColorType::Rgba16 => PixelType::U16x4,
        other => return Err(invalid(format!("expected integers as pixels, found {other:?}"))),
    };
    let source = ImageRef::new(picture.width(), picture.height(), picture.as_bytes(), kind);
    let source = source.map_err(|error| invalid(error.to_string()))?;
    let mut new = Image::new(width, height, kind);
    Resizer::new().resize(&source, &mut new, None).map_err(|error| invalid(error.to_string()))?;
    let mut picture = DynamicImage::new(width, height, picture.color());
    copy(new.buffer(), &mut picture);
    Ok(picture)
}

/// Copies the pixels to a picture of the same size.
fn copy(bytes: &[u8], picture: &mut DynamicImage) {
    match picture {
        DynamicImage::ImageLuma8(image) => image.copy_from_slice(bytes),
        DynamicImage::ImageLumaA8(image) => image.copy_from_slice(bytes),
        DynamicImage::ImageRgb8(image) => image.copy_from_slice(bytes),
        DynamicImage::ImageRgba8(image) => image.copy_from_slice(bytes),
        DynamicImage::ImageLuma16(image) => bytemuck::cast_slice_mut(image).copy_from_slice(bytes),
        DynamicImage::ImageLumaA16(image) => bytemuck::cast_slice_mut(image).copy_from_slice(bytes),
        DynamicImage::ImageRgb16(image) => bytemuck::cast_slice_mut(image).copy_from_slice(bytes),
        DynamicImage::ImageRgba16(image) => bytemuck::cast_slice_mut(image).copy_from_slice(bytes),
        _ => {}
    }
}

/// Whether a colour profile is for such pixels: a profile for CMYK is meaningless for RGB.
fn is_for(profile: &[u8], color: ColorType) -> bool {
    let space = if color.has_color() { b"RGB " } else { b"GRAY" };
    profile.get(16..20) == Some(space)
}
