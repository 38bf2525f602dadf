//! Images on their way into a batch: the same as by torchvision, whatever they are encoded as.

mod annotations;
mod arrays;
mod columns;
mod damage;
mod memory;
mod parts;
mod pipeline;
mod scaled;
mod torchvision;
mod turned;

use std::io::Cursor;

use image::{ImageFormat, RgbImage};

/// A picture without two equal rows or columns, as PNG.
pub(crate) fn png(width: u32, height: u32) -> Vec<u8> {
    let image = RgbImage::from_fn(width, height, |x, y| {
        image::Rgb([(x * 7 + y) as u8, (y * 5 + x * x) as u8, (x ^ y) as u8])
    });
    let mut out = Cursor::new(Vec::new());
    image.write_to(&mut out, ImageFormat::Png).unwrap();
    out.into_inner()
}
