//! [`Limits`]: how much memory untrusted input may take.

use crate::error::{Error, Result};

/// The default for the bytes of a file in an archive.
pub const MAX_FILE: u64 = 1 << 30;

/// The default for the pixels of a decoded image.
pub const MAX_PIXELS: u64 = 1 << 28;

/// How large a file in an archive, and an image, may be. Anything larger is refused before memory
/// is allocated, because a few bytes can claim a lot of both.
///
/// ```
/// use kiste::ErrorKind;
/// use kiste::datasets::Limits;
///
/// let limits = Limits { pixels: 100, ..Limits::default() };
/// assert!(limits.check_pixels(10, 10).is_ok());
/// let error = limits.check_pixels(10, 11).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Limit);
/// assert_eq!(error.to_string(), "expected at most 100 pixels, found 10 x 11");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a file in an archive, once it is decompressed.
    pub bytes: u64,
    /// Pixels of an image.
    pub pixels: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bytes: MAX_FILE, pixels: MAX_PIXELS }
    }
}

impl Limits {
    /// Checks the size of a file.
    ///
    /// # Errors
    ///
    /// [`Limit`](crate::ErrorKind::Limit) if not.
    pub fn check_bytes(self, found: u64) -> Result<()> {
        if found <= self.bytes {
            return Ok(());
        }
        let message = format!("expected at most {} bytes, found {found}", self.bytes);
        Err(Error::above_limit("max_bytes", message))
    }

    /// Checks the size of an image.
    ///
    /// # Errors
    ///
    /// [`Limit`](crate::ErrorKind::Limit) if not.
    pub fn check_pixels(self, width: u32, height: u32) -> Result<()> {
        if u64::from(width) * u64::from(height) <= self.pixels {
            return Ok(());
        }
        let message = format!("expected at most {} pixels, found {width} x {height}", self.pixels);
        Err(Error::above_limit("max_pixels", message))
    }

    /// The memory a decoder may take: twice all pixels of 16 bits in four channels, and what it
    /// needs for itself.
    pub(crate) fn memory(self) -> u64 {
        self.pixels.saturating_mul(16).saturating_add(1 << 24)
    }
}
