//! [`ArrayImage`]: an image that is decoded already, as an array of NumPy is.

use image::ColorType;

use super::decode::{Buffer, convert, is_of};
use super::header::{Header, Part};
use super::step::{Mode, unfit};
use crate::error::Result;

/// An image that is decoded already: integers of 0 to 255, row by row, as in an array of NumPy of type `uint8` and
/// shape `(height, width)`, `(height, width, 1)` or `(height, width, 3)`.
///
/// One channel is grey and three are red, green and blue. It is upright, and becomes the [`Mode`] of a pipeline as
/// an encoded image does.
///
/// ```
/// use kiste::image::{ArrayImage, Worker};
/// use kiste::sampler::rng::StableRng;
///
/// let image = ArrayImage::new(&[1, 2], &[3, 200])?;
/// let mut worker = Worker::<u8>::new("hflip(1)".parse()?)?;
/// let mut pixels = Vec::new();
/// let shape = worker.run_array(&image, &mut StableRng::new(&[7]), &mut pixels)?;
/// assert_eq!((shape, &pixels[..]), ([1, 2, 3], &[200, 200, 200, 3, 3, 3][..]));
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct ArrayImage<'a> {
    header: Header,
    channels: usize,
    values: &'a [u8],
}

/// An image in one of the forms that a pipeline takes.
#[derive(Clone, Copy)]
pub(crate) enum Picture<'a> {
    Encoded(&'a [u8]),
    Array(ArrayImage<'a>),
}

impl<'a> ArrayImage<'a> {
    /// An array of this shape.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for another shape, and for another number of values.
    pub fn new(shape: &[usize], values: &'a [u8]) -> Result<ArrayImage<'a>> {
        let (header, channels) = of_shape(shape)?;
        let count = shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size));
        if count != Some(values.len()) {
            let expected = format!("as many values as an array of shape {shape:?} has");
            return Err(unfit(expected, values.len()));
        }
        Ok(ArrayImage { header, channels, values })
    }

    /// Its size.
    pub fn header(&self) -> Header {
        self.header
    }

    /// The pixels of a part.
    pub(super) fn read(&self, mode: Mode, part: Part, pixels: &mut Buffer) {
        let color = if self.channels == 1 { ColorType::L8 } else { ColorType::Rgb8 };
        let target = pixels.room(part.pixels() * mode.channels());
        let stride = self.header.width as usize * self.channels;
        let rows = target.chunks_exact_mut((part.width * mode.channels()).max(1));
        for (row, target) in rows.enumerate() {
            let start = (part.y + row) * stride + part.x * self.channels;
            let from = &self.values[start..start + part.width * self.channels];
            match is_of(color, mode) {
                true => target.copy_from_slice(from),
                false => convert(from, color, mode, target),
            }
        }
    }
}

/// The header and the channels of an array of this shape.
pub(crate) fn of_shape(shape: &[usize]) -> Result<(Header, usize)> {
    let sides = match *shape {
        [height, width] => Some((height, width, 1)),
        [height, width, channels @ (1 | 3)] => Some((height, width, channels)),
        _ => None,
    };
    let header = sides.and_then(|(height, width, channels)| {
        let (width, height) = (u32::try_from(width).ok()?, u32::try_from(height).ok()?);
        Some((Header::new(width, height), channels))
    });
    header.ok_or_else(|| {
        let expected =
            "an image of shape (height, width), (height, width, 1) or (height, width, 3)";
        unfit(expected, format!("{shape:?}"))
    })
}

impl std::fmt::Debug for ArrayImage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Header { width, height, .. } = self.header;
        write!(f, "ArrayImage({width} × {height} × {})", self.channels)
    }
}
