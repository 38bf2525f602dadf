//! Fields that are images: encoded, or arrays that are decoded already.

use std::cell::RefCell;

use super::{Sizes, found_array, name_of, parse_array, unfit};
use crate::array::PackedArray;
use crate::error::{Error, Result};
use crate::format::msgpack::numpy::is_container;
use crate::format::msgpack::{Cursor, Kind};
use crate::image::{ArrayImage, Header, Picture, of_shape};
use crate::value::DType;

/// A larger array gives its memory back.
const MOST_KEPT: usize = 64 << 20;

thread_local! {
    /// Memory of this thread for an array that was compressed.
    static UNPACKED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Up to three sizes, and how many they are: without memory for each sample.
struct Shape([usize; 3], usize);

/// A field in one of the forms of an image.
enum Field<'a> {
    Encoded(&'a [u8]),
    /// As msgpack-numpy packs it.
    Array(Shape, &'a [u8]),
    /// In a container of bloscpack.
    Packed(PackedArray<'a>),
}

impl<'a> Field<'a> {
    fn read(field: &'a [u8]) -> Result<Field<'a>> {
        let mut cursor = Cursor::new(field);
        match cursor.peek()? {
            Kind::Map => {
                let (dtype, data, shape) = parse_array(&mut cursor)?;
                let is_bytes = dtype.trim_start_matches(['|', '<', '>', '=']) == "u1";
                let sizes = shape.as_ref().and_then(Shape::of);
                match (data, sizes) {
                    (Some(data), Some(sizes)) if is_bytes => Ok(Field::Array(sizes, data)),
                    _ => Err(unfit(EXPECTED, found_array(dtype, shape))),
                }
            }
            Kind::Bin if is_container(cursor.clone().read_bin()?) => {
                let packed = PackedArray::from_bytes(cursor.read_bin()?)?;
                match *packed.dtype() == DType::of::<u8>() {
                    true => Ok(Field::Packed(packed)),
                    false => {
                        let (dtype, shape) = (packed.dtype().to_string(), packed.shape());
                        Err(unfit(EXPECTED, format!("type {dtype:?} and shape {shape:?}")))
                    }
                }
            }
            Kind::Bin | Kind::Str => Ok(Field::Encoded(cursor.read_bytes()?)),
            kind => Err(unfit(EXPECTED, name_of(kind))),
        }
    }
}

const EXPECTED: &str = "an encoded image or an array of type u1";

impl Shape {
    fn of(sizes: &Sizes<'_>) -> Option<Shape> {
        let mut shape = Shape([0; 3], sizes.count);
        for (at, size) in sizes.iter().enumerate() {
            *shape.0.get_mut(at)? = size.try_into().ok()?;
        }
        Some(shape)
    }

    fn sizes(&self) -> &[usize] {
        &self.0[..self.1]
    }
}

/// Hands an image on. One with more pixels than this is not unpacked.
pub(super) fn with_picture<R>(
    field: &[u8],
    max_pixels: u64,
    hear: impl FnOnce(Picture<'_>) -> Result<R>,
) -> Result<R> {
    match Field::read(field)? {
        Field::Encoded(bytes) => hear(Picture::Encoded(bytes)),
        Field::Array(shape, data) => hear(Picture::Array(ArrayImage::new(shape.sizes(), data)?)),
        Field::Packed(packed) => {
            let (Header { width, height, .. }, channels) = of_shape(packed.shape())?;
            if u64::from(width) * u64::from(height) > max_pixels {
                let message =
                    format!("expected at most {max_pixels} pixels, found {width} × {height}");
                return Err(Error::above_limit("max_pixels", message));
            }
            UNPACKED.with_borrow_mut(|unpacked| {
                unpacked.clear();
                unpacked.resize(width as usize * height as usize * channels, 0);
                packed.read_row::<u8>(unpacked)?;
                let heard = hear(Picture::Array(ArrayImage::new(packed.shape(), unpacked)?));
                if unpacked.capacity() > MOST_KEPT {
                    *unpacked = Vec::new();
                }
                heard
            })
        }
    }
}

/// The header of an image in a packed field of a sample: an encoded image, or an array of type `uint8` and shape
/// `(height, width)`, `(height, width, 1)` or `(height, width, 3)`.
///
/// # Errors
///
/// [`Invalid`](crate::ErrorKind::Invalid) for a field of another form, and the errors of [`Header::read`].
pub fn image_header(field: &[u8]) -> Result<Header> {
    match Field::read(field)? {
        Field::Encoded(bytes) => Header::read(bytes),
        Field::Array(shape, _) => Ok(of_shape(shape.sizes())?.0),
        Field::Packed(packed) => Ok(of_shape(packed.shape())?.0),
    }
}
