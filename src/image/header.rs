//! [`Header`]: what is known of an image before its pixels are decoded.

use super::decode;
use super::step::Size;
use crate::error::Result;

/// Facts about an image that are known before its pixels are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// Columns, as they are stored.
    pub width: u32,
    /// Rows, as they are stored.
    pub height: u32,
    /// How it has to be turned to be upright, as in EXIF: 1 to 8. From 5 on, width and height change
    /// places.
    pub orientation: u8,
}

/// How the pixels of an image are turned to be upright: flipped as they are stored, then transposed.
pub(crate) struct Turn {
    pub(super) flips_x: bool,
    pub(super) flips_y: bool,
    pub(super) transposes: bool,
}

impl Turn {
    pub(crate) fn of(orientation: u8) -> Turn {
        Turn {
            flips_x: matches!(orientation, 2 | 3 | 7 | 8),
            flips_y: matches!(orientation, 3 | 4 | 6 | 7),
            transposes: matches!(orientation, 5..=8),
        }
    }

    /// The upright size of an image that is stored with this one, and the other way round.
    pub(crate) fn size(&self, size: Size) -> Size {
        match self.transposes {
            true => Size { height: size.width, width: size.height },
            false => size,
        }
    }
}

/// A part of the pixels of an image, as they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
    pub(super) height: usize,
}

impl Part {
    /// All of an image.
    pub(super) fn whole(header: &Header) -> Part {
        Part { x: 0, y: 0, width: header.width as usize, height: header.height as usize }
    }

    pub(super) fn pixels(self) -> usize {
        self.width * self.height
    }
}

impl Header {
    /// An upright image of this size.
    pub fn new(width: u32, height: u32) -> Header {
        Header { width, height, orientation: 1 }
    }

    /// The same with an orientation of EXIF. Numbers other than 1 to 8 mean nothing, so the image stays
    /// upright.
    pub fn with_orientation(mut self, orientation: u8) -> Header {
        self.orientation = if matches!(orientation, 1..=8) { orientation } else { 1 };
        self
    }

    /// The header of an encoded image. Its pixels are not decoded.
    ///
    /// # Errors
    ///
    /// As for [`Worker::run`](super::Worker::run), if the header shows the cause.
    pub fn read(bytes: &[u8]) -> Result<Header> {
        decode::header(bytes)
    }

    /// Its size once it is upright.
    pub fn upright(&self) -> Size {
        Turn::of(self.orientation).size(Size { height: self.height, width: self.width })
    }
}
