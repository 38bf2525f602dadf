//! Columns of masks, which move with the images of another column.

use std::cell::RefCell;

use super::numbers::{Numbers, exact};
use super::{Columns, FixedColumn, Source, code_of, unfit};
use crate::error::Result;
use crate::format::msgpack::numpy::is_container;
use crate::format::msgpack::{Cursor, Kind};
use crate::image::{MaskPixels, Places, Plan, Size, Turn, decode_mask};
use crate::loader::batch::Record;
use crate::value::{Element, Number};

/// A larger mask gives its memory back.
const MOST_KEPT: usize = 64 << 20;

thread_local! {
    /// Memory of this thread for masks on their way, which the next one uses again.
    static SCRATCH: RefCell<(Places, Vec<u8>)> = RefCell::default();
}

/// A mask for the images of another column: see [`Columns::mask`].
#[derive(Debug, Clone)]
#[must_use = "options do nothing until a column is made with them"]
pub struct Mask<T> {
    of: String,
    field: Option<String>,
    fill: T,
    is_upright: bool,
}

impl<T: Element> Mask<T> {
    /// For the images of this column.
    pub fn of(images: &str) -> Mask<T> {
        Mask { of: images.to_owned(), field: None, fill: T::default(), is_upright: false }
    }

    /// The field with the mask. Default: the name of the column.
    pub fn field(mut self, field: &str) -> Mask<T> {
        self.field = Some(field.to_owned());
        self
    }

    /// The value around a mask that is padded. Default: 0.
    pub fn fill(mut self, fill: T) -> Mask<T> {
        self.fill = fill;
        self
    }

    /// Masks that were made for upright images, so that they are not turned by the EXIF orientation of the
    /// image. Default: masks have the rows and columns of the image as it is stored.
    pub fn upright(mut self) -> Mask<T> {
        self.is_upright = true;
        self
    }
}

impl Columns {
    /// Masks of the images of another column, such as the class of each pixel: `[height, width]`. A mask is
    /// cropped, flipped, padded and turned as its image, and resized to the nearest pixel. Colours and
    /// numbers of the pipeline do not concern it, so its values stay as they are.
    ///
    /// The field is an image of grey with 8 or 16 bits, or a PNG with a palette, whose numbers are taken; or an
    /// array of numbers of any type, or lists of them. Each number must be one of type `T`: an integer that a
    /// float cannot hold is an error, and floats are rounded to the nearest one. The mask must have the size
    /// of the image. An EXIF orientation of its own means nothing.
    ///
    /// The column of the images has to come first. The header of the image is read once more.
    ///
    /// ```
    /// use kiste::image::Pipeline;
    /// use kiste::loader::{Boxes, Columns, Labels, Mask};
    ///
    /// let pipeline: Pipeline = "seed(7) | random_crop(512, pad_if_needed=true) | hflip".parse()?;
    /// let columns = Columns::new()
    ///     .image::<u8>("image", pipeline)                         // uint8[n, 512, 512, 3]
    ///     .mask("mask", Mask::<u8>::of("image").fill(255))        // uint8[n, 512, 512]
    ///     .boxes("boxes", Boxes::of("image").remove_empty())      // float32[total, 4]
    ///     .labels("labels", Labels::<i64>::of("boxes"));          // int64[total]
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn mask<T: Element>(self, name: &str, mask: Mask<T>) -> Columns {
        let images = match self.images(&mask.of) {
            Ok(images) => images,
            Err(error) => return self.refused::<T>(name, error),
        };
        // A column of images has a size.
        let Size { height, width } = images.pipeline.size().unwrap_or(Size::square(0));
        let shape = vec![height as usize, width as usize];
        let field = mask.field.clone().unwrap_or_else(|| name.to_owned());
        let fill = move |record: &Record<'_>, out: &mut [T]| {
            let plan = images.plan(record)?;
            SCRATCH
                .with_borrow_mut(|(places, bytes)| {
                    let field = record.field(&field)?;
                    let moved = move_mask(&mask, &plan, field, places, bytes, out);
                    // One large mask does not keep its memory.
                    if bytes.capacity() > MOST_KEPT {
                        *bytes = Vec::new();
                    }
                    moved
                })
                .map_err(|error| error.with_field(field.as_str()))
        };
        self.with(name, FixedColumn { shape, source: Source::Whole(Box::new(fill)) })
    }
}

fn move_mask<T: Element>(
    mask: &Mask<T>,
    plan: &Plan,
    field: &[u8],
    places: &mut Places,
    bytes: &mut Vec<u8>,
    out: &mut [T],
) -> Result<()> {
    let orientation = if mask.is_upright { 1 } else { plan.orientation };
    let stored = Turn::of(orientation).size(plan.source);
    let (height, width) = (stored.height as usize, stored.width as usize);
    places.follow(plan);
    let mut write = |pixel: &dyn Fn(usize, usize) -> T| {
        places.write(stored, orientation, mask.fill, out, pixel);
    };
    let mut cursor = Cursor::new(field);
    if cursor.peek()? == Kind::Bin && !is_container(cursor.clone().read_bin()?) {
        let pixels = decode_mask(cursor.read_bin()?, stored, bytes)?;
        let wide = |at: usize| bytemuck::pod_read_unaligned::<u16>(&bytes[2 * at..2 * at + 2]);
        // Each number has to be one of the type of the column.
        let count = height * width;
        let element = |value: u16| exact::<T>(Number::Signed(value.into()));
        let odd = match pixels {
            MaskPixels::Narrow => {
                let fits: [bool; 256] =
                    std::array::from_fn(|value| element(value as u16).is_some());
                bytes[..count]
                    .iter()
                    .find(|value| !fits[usize::from(**value)])
                    .map(|&value| value.into())
            }
            MaskPixels::Wide => (0..count).map(wide).find(|&value| element(value).is_none()),
        };
        if let Some(odd) = odd {
            return Err(unfit(format!("a mask of type {}", code_of::<T>()), odd));
        }
        let element = |value: u16| element(value).unwrap_or_default();
        match pixels {
            MaskPixels::Narrow => {
                let table: [T; 256] = std::array::from_fn(|value| element(value as u16));
                write(&|y, x| table[usize::from(bytes[y * width + x])]);
            }
            MaskPixels::Wide => write(&|y, x| element(wide(y * width + x))),
        }
        return Ok(());
    }
    let values = read_grid::<T>(&mut cursor, height, width)?;
    write(&|y, x| values[y * width + x]);
    Ok(())
}

/// A mask that is an array.
fn read_grid<T: Element>(field: &mut Cursor<'_>, height: usize, width: usize) -> Result<Vec<T>> {
    let expected = format!("an image or an array of shape [{height}, {width}] as mask");
    let (row, rows) = (&[width][..], Some(height));
    Numbers { row, rows, takes_bytes: false, expected: &expected }.read(field)
}
