//! Small pictures of large ones.

use std::io::Cursor;

use image::{ImageFormat, ImageReader, Limits};

use crate::image::check_jpeg;

/// Pixels of the longer side.
const SIDE: u32 = 192;
/// Bytes that decoding may take: an image of 64 megapixels.
const MAX_ALLOC: u64 = 256 << 20;

/// A small PNG of an image; `None` of what is none, is damaged or would take too much memory.
pub(super) fn thumbnail(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().ok()?;
    if reader.format() == Some(ImageFormat::Jpeg) {
        check_jpeg(bytes).ok()?;
    }
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_ALLOC);
    reader.limits(limits);
    let small = reader.decode().ok()?.thumbnail(SIDE, SIDE).into_rgb8();
    let mut png = Cursor::new(Vec::new());
    small.write_to(&mut png, ImageFormat::Png).ok()?;
    Some(png.into_inner())
}
