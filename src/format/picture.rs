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

/// The colours that an image stores, where its header says so: `grey`, `rgb`, `rgba`, `palette`, `cmyk` and the like,
/// with the bits of a number unless they are eight: `grey 16 bit`.
pub(crate) fn mode(bytes: &[u8]) -> Option<String> {
    let (colours, bits) = match format(bytes)? {
        "png" => {
            let colours = ["grey", "", "rgb", "palette", "grey and alpha", "", "rgba"];
            (*colours.get(usize::from(*bytes.get(25)?))?, *bytes.get(24)?)
        }
        "jpeg" => {
            let frame = jpeg_frame(bytes)?;
            let colours = ["", "grey", "", "rgb", "cmyk"];
            (*colours.get(usize::from(*frame.get(7)?))?, *frame.get(2)?)
        }
        "gif" => ("palette", 8),
        "webp" => match bytes.get(12..16)? {
            b"VP8 " => ("rgb", 8),
            b"VP8L" => (if bytes.get(24)? & 0x10 == 0 { "rgb" } else { "rgba" }, 8),
            b"VP8X" => (if bytes.get(20)? & 0x10 == 0 { "rgb" } else { "rgba" }, 8),
            _ => return None,
        },
        _ => return None,
    };
    match (colours, bits) {
        ("", _) => None,
        // A palette has as many bits as it needs; they say nothing of its colours.
        (colours, 8) | (colours @ "palette", _) => Some(colours.to_owned()),
        (colours, bits) => Some(format!("{colours} {bits} bit")),
    }
}

/// The header of the frame of a JPEG, from its length on.
fn jpeg_frame(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes.get(2..)?;
    loop {
        let [0xff, marker, behind @ ..] = rest else { return None };
        match marker {
            // Fill bytes may precede a marker.
            0xff => rest = rest.get(1..)?,
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => return Some(behind),
            _ => {
                let len = u16::from_be_bytes(behind.get(..2)?.try_into().ok()?);
                rest = behind.get(usize::from(len).max(2)..)?;
            }
        }
    }
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
