//! [`ImageOptions`]: what to do with images, and how that is computed.

use image::ImageFormat;

use crate::convert::image_choices::{ChromaSubsampling, Resize, StoredAs};

/// Default for the pixels of an image: with four bytes each, 800 MB per thread.
const MAX_PIXELS: u64 = 200_000_000;

/// How to change the images in samples. Default: not at all.
///
/// An image that has the wanted size and format already **keeps its bytes**. Any other is decoded,
/// turned upright by its EXIF orientation, resized by a Lanczos filter with three lobes, and
/// encoded:
///
/// | | becomes |
/// | --- | --- |
/// | grey | grey |
/// | 16 bits per channel | 8 in JPEG and WebP, 16 in PNG |
/// | transparent | on white in JPEG, transparent otherwise |
/// | CMYK | RGB, without its colour profile |
/// | a palette | RGB, or RGB with alpha |
/// | an animation | its first frame |
/// | a colour profile | the same, in JPEG, PNG and WebP |
/// | EXIF and other metadata | removed |
///
/// A field is an image if it begins like a JPEG, PNG, GIF, WebP, TIFF, BMP or PNM file. Bytes in a
/// field that is called `image` or `img`, or whose name ends like an image file's, such as `jpg`
/// and `mask.png`, must be an image: an empty file or a web page is an error there. Names of
/// fields and keys stay, so a field `png` may hold a JPEG afterwards. A JPEG that was cut short is
/// damaged, although decoders fill the rest with grey.
#[derive(Debug, Clone)]
#[must_use]
pub struct ImageOptions {
    pub(super) resize: Option<Resize>,
    pub(super) upscale: bool,
    pub(super) format: StoredAs,
    pub(super) quality: u8,
    pub(super) subsampling: ChromaSubsampling,
    pub(super) verify: bool,
    pub(super) fields: Vec<String>,
    pub(super) max_pixels: u64,
}

impl Default for ImageOptions {
    fn default() -> ImageOptions {
        ImageOptions {
            resize: None,
            upscale: false,
            format: StoredAs::Keep,
            quality: 90,
            subsampling: ChromaSubsampling::Both,
            verify: false,
            fields: Vec::new(),
            max_pixels: MAX_PIXELS,
        }
    }
}

impl ImageOptions {
    /// Options that change nothing.
    pub fn new() -> ImageOptions {
        ImageOptions::default()
    }

    /// The new size of images. Default: their own.
    pub fn resize(mut self, resize: Resize) -> Self {
        self.resize = Some(resize);
        self
    }

    /// Whether [`Resize::Short`] and [`Resize::Max`] also enlarge images. Default: no.
    pub fn upscale(mut self, upscale: bool) -> Self {
        self.upscale = upscale;
        self
    }

    /// The new format of images. Default: their own.
    pub fn format(mut self, format: StoredAs) -> Self {
        self.format = format;
        self
    }

    /// The quality of JPEG, 1 to 100. Default: 90.
    pub fn quality(mut self, quality: u8) -> Self {
        self.quality = quality.clamp(1, 100);
        self
    }

    /// The chroma subsampling of JPEG. Default: [`Both`](ChromaSubsampling::Both).
    pub fn subsampling(mut self, subsampling: ChromaSubsampling) -> Self {
        self.subsampling = subsampling;
        self
    }

    /// Whether to decode images even if they do not change, to make sure that they can be decoded.
    /// Default: no.
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// The fields of images. A field of such a name that is not an image is an error. Default: all
    /// fields that begin like an image or are called like one.
    pub fn fields<S: Into<String>>(mut self, fields: impl IntoIterator<Item = S>) -> Self {
        self.fields = fields.into_iter().map(Into::into).collect();
        self
    }

    /// Refuses images with more pixels than this, before or after resizing. Default: 200 million.
    pub fn max_pixels(mut self, max_pixels: u64) -> Self {
        self.max_pixels = max_pixels;
        self
    }
}

impl Resize {
    /// The new size of an image of this size.
    pub(super) fn of(self, width: u32, height: u32, upscale: bool) -> (u32, u32) {
        let (side, wanted) = match self {
            Resize::Exact(width, height) => return (width, height),
            Resize::Short(wanted) => (width.min(height), wanted),
            Resize::Max(wanted) => (width.max(height), wanted),
        };
        if side == wanted || (side < wanted && !upscale) {
            return (width, height);
        }
        // Rounded to the nearest pixel, but at least one.
        let scaled = |length: u32| {
            let length = u64::from(length) * u64::from(wanted) * 2 + u64::from(side);
            let length = length / (2 * u64::from(side.max(1)));
            u32::try_from(length).unwrap_or(u32::MAX).max(1)
        };
        (scaled(width), scaled(height))
    }
}

impl StoredAs {
    /// The new format of an image of this format, if its size stays and if not.
    pub(super) fn of(self, found: ImageFormat) -> (ImageFormat, ImageFormat) {
        let one = |format| (format, format);
        match (self, found) {
            (StoredAs::Jpeg, _) => one(ImageFormat::Jpeg),
            (StoredAs::Png, _) => one(ImageFormat::Png),
            (StoredAs::Webp, _) => one(ImageFormat::WebP),
            (StoredAs::Keep, ImageFormat::Jpeg | ImageFormat::WebP) => one(found),
            (StoredAs::Keep, _) => (found, ImageFormat::Png),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let table = [
            ("640x480", (1, 9), (640, 480)),
            ("short:256", (1000, 500), (512, 256)),
            ("short:256", (256, 9), (256, 9)),
            ("short:2", (3, 300), (2, 200)),
            ("max:100", (300, 200), (100, 67)),
            ("100", (200, 300), (67, 100)),
            ("100", (99, 100), (99, 100)),
            ("max:1", (65535, 1), (1, 1)),
            ("short:1", (u32::MAX, u32::MAX), (1, 1)),
        ];
        for (text, (width, height), expected) in table {
            let resize: Resize = text.parse().unwrap();
            assert_eq!(resize.of(width, height, false), expected, "{text} {width} {height}");
        }
        assert_eq!(Resize::Max(100).of(10, 5, true), (100, 50));
    }
}
