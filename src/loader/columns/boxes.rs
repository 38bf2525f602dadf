//! Columns of boxes, which move with the images of another column, and of what belongs to boxes.

use std::sync::Arc;

use super::image::Images;
use super::lists::{Form, Limit, Lists, ListsColumn, Padded};
use super::numbers::Numbers;
use super::{Columns, unfit};
use crate::error::Result;
use crate::format::msgpack::Cursor;
use crate::image::BoxFormat;
use crate::loader::batch::Record;
use crate::value::Element;

/// Boxes in the images of another column: see [`Columns::boxes`].
#[derive(Debug, Clone)]
#[must_use = "options do nothing until a column is made with them"]
pub struct Boxes {
    of: String,
    field: Option<String>,
    format: BoxFormat,
    /// The least side and area.
    least: Option<(f64, f64)>,
    is_upright: bool,
    form: Form<f32>,
}

impl Boxes {
    /// In the images of this column.
    pub fn of(images: &str) -> Boxes {
        Boxes {
            of: images.to_owned(),
            field: None,
            format: BoxFormat::default(),
            least: None,
            is_upright: false,
            form: Form::Ragged,
        }
    }

    /// The field with the boxes. Default: the name of the column.
    pub fn field(mut self, field: &str) -> Boxes {
        self.field = Some(field.to_owned());
        self
    }

    /// The meaning of the four numbers, in the field and in the batch. Default:
    /// [`BoxFormat::Xyxy`].
    pub fn format(mut self, format: BoxFormat) -> Boxes {
        self.format = format;
        self
    }

    /// Removes boxes with less than a pixel left, as `SanitizeBoundingBoxes` of torchvision does by
    /// default. Without it all boxes are kept, and one that has left the image has no width or no height.
    pub fn remove_empty(self) -> Boxes {
        self.remove_below(1.0, 1.0)
    }

    /// Removes boxes with a side or an area below these, in pixels of the result.
    pub fn remove_below(mut self, side: f64, area: f64) -> Boxes {
        self.least = Some((side, area));
        self
    }

    /// Boxes that were made for upright images, so that they are not turned by the EXIF orientation of the
    /// image. Default: boxes are in pixels of the image as it is stored.
    pub fn upright(mut self) -> Boxes {
        self.is_upright = true;
        self
    }

    /// Pads the boxes of each sample, to `[samples, length, 4]`. Columns that follow boxes that
    /// were [cut](Padded::cut) are cut with them.
    pub fn padded(mut self, padded: Padded<f32>) -> Boxes {
        self.form = Form::Padded(padded);
        self
    }
}

/// Rows that belong to boxes, such as their classes: see [`Columns::labels`].
#[derive(Debug, Clone)]
#[must_use = "options do nothing until a column is made with them"]
pub struct Labels<T> {
    of: String,
    field: Option<String>,
    row: Vec<usize>,
    form: Form<T>,
}

impl<T: Element> Labels<T> {
    /// Labels of the boxes in this column.
    pub fn of(boxes: &str) -> Labels<T> {
        Labels { of: boxes.to_owned(), field: None, row: Vec::new(), form: Form::Ragged }
    }

    /// The field with a row for each box. Default: the name of the column.
    pub fn field(mut self, field: &str) -> Labels<T> {
        self.field = Some(field.to_owned());
        self
    }

    /// The shape of a row. Default: one number.
    pub fn row(mut self, shape: &[usize]) -> Labels<T> {
        self.row = shape.to_vec();
        self
    }

    /// Pads the rows of each sample, to `[samples, length, …]`.
    pub fn padded(mut self, padded: Padded<T>) -> Labels<T> {
        self.form = Form::Padded(padded);
        self
    }
}

/// A column of boxes that other columns follow.
pub(super) struct Moved {
    images: Arc<Images>,
    boxes: Boxes,
    field: String,
}

impl Moved {
    /// The boxes of a record, and which of them are kept.
    fn of(&self, record: &Record<'_>) -> Result<(Vec<[f64; 4]>, Vec<usize>)> {
        let plan = self.images.plan(record)?;
        let moved = || -> Result<(Vec<[f64; 4]>, Vec<usize>)> {
            let mut boxes = read_boxes(&mut Cursor::new(record.field(&self.field)?))?;
            if let Some(odd) = boxes.iter().find(|one| !one.iter().all(|side| side.is_finite())) {
                return Err(unfit("boxes of finite numbers", format!("{odd:?}")));
            }
            let format = self.boxes.format;
            boxes.iter_mut().for_each(|one| *one = format.to_xyxy(*one));
            let orientation = if self.boxes.is_upright { 1 } else { plan.orientation };
            // In the type that they get, so that what a caller sees says which are kept.
            plan.moved_single(&mut boxes, orientation)?;
            let kept = |one: &[f64; 4]| {
                self.boxes.least.is_none_or(|(side, area)| is_large(one, side, area))
            };
            let mut kept: Vec<usize> = (0..boxes.len()).filter(|&at| kept(&boxes[at])).collect();
            kept.truncate(self.boxes.form.limit().apply(kept.len())?);
            boxes.iter_mut().for_each(|one| *one = format.of_xyxy(*one));
            Ok((boxes, kept))
        };
        moved().map_err(|error| error.with_field(self.field.as_str()))
    }
}

/// Whether neither side is below this, nor the area, in single precision as of torchvision.
fn is_large(one: &[f64; 4], side: f64, area: f64) -> bool {
    let [left, top, right, bottom] = one.map(|side| side as f32);
    let (width, height) = (right - left, bottom - top);
    let (side, area) = (side as f32, area as f32);
    width >= side && height >= side && width * height >= area
}

/// Adds the kept ones of these rows, up to the limit of the column.
fn add<T: Element, const N: usize>(
    lists: &mut Lists<T>,
    limit: Limit,
    rows: impl ExactSizeIterator<Item = [T; N]>,
) -> Result<()> {
    let wanted = limit.apply(rows.len())?;
    for (out, row) in lists.more(wanted)?.chunks_exact_mut(N).zip(rows) {
        out.copy_from_slice(&row);
    }
    Ok(())
}

impl Columns {
    /// Boxes in the images of another column, as four numbers each. They are cropped, flipped, scaled and moved
    /// with their image, and clipped to what the pipeline makes of it: `float32[total, 4]` for all samples of the
    /// batch, in pixels of the result, with [offsets](super::ColumnBatch::offsets) between the samples.
    ///
    /// The field is an array of `n × 4` numbers of any type, or a list of such lists. A field without
    /// boxes is an empty one.
    ///
    /// A box that has left the image is kept, without width or height, as by torchvision's
    /// `ClampBoundingBoxes`; or it is [removed](Boxes::remove_empty), and then
    /// [`labels`](Self::labels) leaves out what belongs to it, and [`kept`](Self::kept) says which are left.
    ///
    /// The column of the images has to come first. Their pipeline can have no border that repeats pixels.
    /// See [`mask`](Self::mask) for an example.
    pub fn boxes(self, name: &str, boxes: Boxes) -> Columns {
        let images = self.images(&boxes.of);
        let images = images.and_then(|images| images.pipeline.check_boxes().map(|()| images));
        let images = match (images, boxes.least) {
            (Ok(_), Some((side, area))) if !(side >= 0.0 && area >= 0.0) => {
                let found = format!("{side} and {area}");
                return self.refused::<f32>(name, unfit("a side and an area of 0 or more", found));
            }
            (Ok(images), _) => images,
            (Err(error), _) => return self.refused::<f32>(name, error),
        };
        let field = boxes.field.clone().unwrap_or_else(|| name.to_owned());
        let form = boxes.form.clone();
        let moved = Arc::new(Moved { images, boxes, field });
        let of = moved.clone();
        let fill = move |record: &Record<'_>, lists: &mut Lists<f32>, limit: Limit| {
            let (boxes, kept) = of.of(record)?;
            let rows = kept.iter().map(|&at| boxes[at].map(|side| side as f32));
            // The limit of the column also applies to all columns that follow it.
            add(lists, limit, rows).map_err(|error| error.with_field(of.field.as_str()))
        };
        let boxes = Some(moved);
        self.with(name, ListsColumn { row: vec![4], form, fill: Some(Box::new(fill)), boxes })
    }

    /// Rows that belong to the boxes of another column, such as their classes: an array with a row for each
    /// box. Rows of removed boxes are removed. Back to back, as [`ragged`](Self::ragged), or
    /// [padded](Labels::padded).
    ///
    /// The array is of numbers of any type, or a list of them. Each must be one of type `T`: an integer that
    /// a float cannot hold is an error, and floats are rounded to the nearest one.
    pub fn labels<T: Element>(self, name: &str, labels: Labels<T>) -> Columns {
        let moved = match self.moved(&labels.of) {
            Ok(moved) => moved,
            Err(error) => return self.refused::<T>(name, error),
        };
        let field = labels.field.unwrap_or_else(|| name.to_owned());
        let row = labels.row.clone();
        let fill = move |record: &Record<'_>, lists: &mut Lists<T>, limit: Limit| {
            let (boxes, kept) = moved.of(record)?;
            let add = || -> Result<()> {
                let expected = match &row[..] {
                    [] => format!("{} rows, one for each box", boxes.len()),
                    row => format!("{} rows of shape {row:?}, one for each box", boxes.len()),
                };
                let rows = Some(boxes.len());
                let numbers = Numbers { row: &row, rows, takes_bytes: true, expected: &expected };
                let all: Vec<T> = numbers.read(&mut Cursor::new(record.field(&field)?))?;
                let wanted = limit.apply(kept.len())?;
                let width: usize = row.iter().product();
                for (out, at) in lists.more(wanted)?.chunks_exact_mut(width).zip(kept) {
                    out.copy_from_slice(&all[at * width..(at + 1) * width]);
                }
                Ok(())
            };
            add().map_err(|error| error.with_field(field.as_str()))
        };
        let (row, form) = (labels.row, labels.form);
        self.with(name, ListsColumn { row, form, fill: Some(Box::new(fill)), boxes: None })
    }

    /// Which boxes of another column are left: their numbers in the field, as `int64[total]`.
    pub fn kept(self, name: &str, boxes: &str) -> Columns {
        let moved = match self.moved(boxes) {
            Ok(moved) => moved,
            Err(error) => return self.refused::<i64>(name, error),
        };
        let fill = move |record: &Record<'_>, lists: &mut Lists<i64>, limit: Limit| {
            let (_, kept) = moved.of(record)?;
            add(lists, limit, kept.iter().map(|&at| [at as i64]))
        };
        let (row, form) = (Vec::new(), Form::Ragged);
        self.with(name, ListsColumn { row, form, fill: Some(Box::new(fill)), boxes: None })
    }

    fn moved(&self, name: &str) -> Result<Arc<Moved>> {
        let known = self.0.iter().filter_map(|(known, column)| Some((known, column.boxes()?)));
        match known.clone().find(|(known, _)| *known == name) {
            Some((_, moved)) => Ok(moved.clone()),
            None => {
                let known: Vec<&String> = known.map(|(name, _)| name).collect();
                let expected = format!("a column of boxes before it, of {known:?}");
                Err(unfit(expected, format!("{name:?}")))
            }
        }
    }
}

/// The boxes of a field, of numbers of any type.
fn read_boxes(field: &mut Cursor<'_>) -> Result<Vec<[f64; 4]>> {
    let expected = "an array of boxes, of 4 numbers each";
    let values: Vec<f64> =
        Numbers { row: &[4], rows: None, takes_bytes: false, expected }.read(field)?;
    Ok(values.chunks_exact(4).map(|row| std::array::from_fn(|at| row[at])).collect())
}
