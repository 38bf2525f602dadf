//! Encoded images: which format, and how large, from their first bytes alone.
//!
//! Absent on purpose: orientation. The size is the stored one, before a viewer turns the image.

use imagesize::{Compression, ImageType, blob_size, image_type};

/// The name of the format of an image: `jpeg`, `png`, `webp`, …
pub(crate) fn format(bytes: &[u8]) -> Option<&'static str> {
    image_type(bytes).ok().and_then(|format| image_name(format, bytes))
}

/// Width and height, if these bytes are an image whose header has them.
pub(crate) fn size(bytes: &[u8]) -> Option<(usize, usize)> {
    format(bytes)?;
    blob_size(bytes).ok().map(|size| (size.width, size.height))
}

/// The name of a format of images that people have in datasets.
fn image_name(format: ImageType, bytes: &[u8]) -> Option<&'static str> {
    match format {
        // Two letters alone do not make an image: behind them comes a header of a known length.
        ImageType::Bmp => {
            let known =
                matches!(bytes.get(14..18), Some([12 | 40 | 52 | 56 | 64 | 108 | 124, 0, 0, 0]));
            known.then_some("bmp")
        }
        ImageType::Gif => Some("gif"),
        ImageType::Jpeg => Some("jpeg"),
        ImageType::Jxl => Some("jxl"),
        ImageType::Png => Some("png"),
        ImageType::Tiff => Some("tiff"),
        ImageType::Webp => Some("webp"),
        ImageType::Heif(Compression::Av1) => Some("avif"),
        ImageType::Heif(_) => Some("heif"),
        _ => None,
    }
}
