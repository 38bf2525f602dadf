//! Masks: what a plan does to the places of pixels, with the values as they are.

use std::io::Cursor;
use std::mem;

use image::codecs::pnm::PnmDecoder;
use image::{ColorType, ImageDecoder, ImageFormat};

use super::canvas::inside;
use super::decode::{blamed, caught, cut_short, known_format, limited_decoder, no_image};
use super::header::Turn;
use super::plan::{Action, Plan, check_pixels};
use super::step::{Size, unfit};
use super::warp::{Warp, quarters};
use super::whole::jpeg_has_end;
use crate::error::{Error, ErrorKind, Result};
use crate::value::Element;

/// The most places that are kept for the next mask.
const MOST_KEPT: usize = 1 << 20;

/// Stands for a pixel outside the image, which gets the fill value.
const OUTSIDE: u32 = u32::MAX;

/// The most pixels of a mask whose plan was made elsewhere.
const MAX_RESULT: u64 = 1 << 30;

/// Where the pixels of a mask come from. Most actions do not mix rows and columns, so each of them is followed alone,
/// and a pixel is read once for any number of actions. A turn starts over: its places are found for each pixel.
#[derive(Default)]
pub(crate) struct Places {
    rows: Vec<u32>,
    columns: Vec<u32>,
    spare: Vec<u32>,
    /// The rows and columns before each turn.
    turned: Vec<Turned>,
}

struct Turned {
    rows: Vec<u32>,
    columns: Vec<u32>,
    /// Without one it is by a quarter, so that rows become columns.
    warp: Option<Warp>,
}

impl Turned {
    /// The row and the column before the turn of a place after it, as they are stored.
    fn source(&self, row: u32, column: u32) -> Option<(u32, u32)> {
        let (row, column) = match &self.warp {
            Some(warp) => warp.nearest(row as usize, column as usize)?,
            None => (column as usize, row as usize),
        };
        Some((self.rows[row], self.columns[column]))
    }
}

impl Places {
    /// Follows a plan that was checked.
    pub(crate) fn follow(&mut self, plan: &Plan) {
        self.turned.clear();
        let Places { rows, columns, spare, turned } = self;
        for axis in
            [&mut *rows, columns, spare].into_iter().filter(|axis| axis.capacity() > MOST_KEPT)
        {
            *axis = Vec::new();
        }
        start(rows, columns, plan.source);
        for action in &plan.actions {
            match *action {
                Action::Crop { top, left, size } => {
                    keep(rows, top, size.height);
                    keep(columns, left, size.width);
                }
                Action::Resize { size, .. } => {
                    nearest(rows, spare, size.height);
                    nearest(columns, spare, size.width);
                }
                Action::HorizontalFlip => columns.reverse(),
                Action::VerticalFlip => rows.reverse(),
                Action::Pad { padding, padding_mode, .. } => {
                    let mut border = |axis: &mut Vec<u32>, before: u32, after: u32| {
                        let (before, len) = (before as usize, axis.len());
                        let all = before + len + after as usize;
                        spare.clear();
                        spare.extend((0..all).map(|at| {
                            inside(at, before, len, padding_mode).map_or(OUTSIDE, |at| axis[at])
                        }));
                        std::mem::swap(axis, spare);
                    };
                    border(rows, padding.top, padding.bottom);
                    border(columns, padding.left, padding.right);
                }
                Action::Rotate { .. } | Action::Affine { .. } => {
                    let size = Size { height: rows.len() as u32, width: columns.len() as u32 };
                    let warp = Warp::of(action, size);
                    let quarters = match *action {
                        Action::Rotate { angle, expand, .. } => quarters(angle, size, expand),
                        _ => None,
                    };
                    // Anticlockwise: the last column becomes the first row.
                    if let Some(2 | 3) = quarters {
                        rows.reverse();
                    }
                    if let Some(1 | 2) = quarters {
                        columns.reverse();
                    }
                    let after = match (&warp, quarters) {
                        (Some(warp), _) => warp.size(),
                        (None, Some(1 | 3)) => Size { height: size.width, width: size.height },
                        (None, _) => continue,
                    };
                    let (rows_before, columns_before) = (mem::take(rows), mem::take(columns));
                    turned.push(Turned { rows: rows_before, columns: columns_before, warp });
                    start(rows, columns, after);
                }
                // Actions on colours.
                _ => {}
            }
        }
    }

    /// Writes the result, from the pixel at a row and a column as they are stored.
    pub(crate) fn write<T: Copy>(
        &self,
        stored: Size,
        orientation: u8,
        fill: T,
        out: &mut [T],
        pixel: impl Fn(usize, usize) -> T,
    ) {
        let turn = Turn::of(orientation);
        let place = |at: u32, side: u32, flips: bool| if flips { side - 1 - at } else { at };
        let x = |at: u32| place(at, stored.width, turn.flips_x) as usize;
        let y = |at: u32| place(at, stored.height, turn.flips_y) as usize;
        let width = self.columns.len().max(1);
        for (out, &row) in out.chunks_exact_mut(width).zip(&self.rows) {
            for (out, &column) in out.iter_mut().zip(&self.columns) {
                *out = match (self.source(row, column), turn.transposes) {
                    (None, _) => fill,
                    (Some((row, column)), true) => pixel(y(column), x(row)),
                    (Some((row, column)), false) => pixel(y(row), x(column)),
                };
            }
        }
    }

    /// The place in the upright image, if it is inside.
    fn source(&self, row: u32, column: u32) -> Option<(u32, u32)> {
        let is_inside = |&(row, column): &(u32, u32)| row != OUTSIDE && column != OUTSIDE;
        let place = Some((row, column)).filter(is_inside);
        self.turned.iter().rev().fold(place, |place, turned| {
            let (row, column) = place?;
            turned.source(row, column).filter(is_inside)
        })
    }
}

/// All rows and columns of an image.
fn start(rows: &mut Vec<u32>, columns: &mut Vec<u32>, Size { height, width }: Size) {
    for (axis, side) in [(rows, height), (columns, width)] {
        axis.clear();
        axis.extend(0..side);
    }
}

fn keep(axis: &mut Vec<u32>, start: u32, len: u32) {
    axis.truncate(start as usize + len as usize);
    axis.drain(..start as usize);
}

fn nearest(axis: &mut Vec<u32>, spare: &mut Vec<u32>, to: u32) {
    let len = axis.len();
    if len == to as usize {
        return;
    }
    // Single precision, as in torch.
    let scale = len as f32 / to as f32;
    spare.clear();
    spare.extend((0..to).map(|at| axis[((at as f32 * scale) as usize).min(len - 1)]));
    std::mem::swap(axis, spare);
}

impl Plan {
    /// Does the same to a mask of the image: row by row, as it is stored. A mask that is resized or turned has the
    /// nearest pixels, colours mean nothing to it, and what is around it holds `fill`. The result has the
    /// [size](Plan::size) of the plan.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a mask of another size than the image, and for a plan that
    /// cannot be carried out.
    ///
    /// ```
    /// use kiste::image::{Header, Pipeline};
    /// use kiste::sampler::rng::StableRng;
    ///
    /// let pipeline: Pipeline = "hflip(1) | pad((1, 0))".parse()?;
    /// let plan = pipeline.plan(&Header::new(2, 2), &mut StableRng::new(&[]))?;
    /// assert_eq!(plan.move_mask(&[1u8, 2, 3, 4], 255)?, [255, 2, 1, 255, 255, 4, 3, 255]);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn move_mask<T: Element>(&self, mask: &[T], fill: T) -> Result<Vec<T>> {
        self.check_whole(MAX_RESULT)?;
        let stored = Turn::of(self.orientation).size(self.source);
        if mask.len() as u64 != stored.pixels() {
            let expected = format!("a mask of {} × {} pixels", stored.width, stored.height);
            return Err(unfit(expected, format!("{} pixels", mask.len())));
        }
        let mut places = Places::default();
        places.follow(self);
        let mut out = vec![fill; self.size.pixels() as usize];
        let width = stored.width as usize;
        places.write(stored, self.orientation, fill, &mut out, |y, x| mask[y * width + x]);
        Ok(out)
    }
}

/// The elements of a mask that is an image.
pub(crate) enum MaskPixels {
    /// One byte for each pixel.
    Narrow,
    /// Two bytes for each pixel, in the order of this machine.
    Wide,
}

/// Decodes a mask that is an image: the numbers of a palette of PNG, or grey of 8 or 16 bits.
///
/// `size` is what it has to have.
pub(crate) fn decode_mask(bytes: &[u8], size: Size, out: &mut Vec<u8>) -> Result<MaskPixels> {
    caught(bytes, || match known_format(bytes) {
        None => Err(no_image(bytes)),
        Some(ImageFormat::Png) => of_png(bytes, size, out),
        Some(format) => of_gray(bytes, format, size, out),
    })
}

fn check_size(size: Size, width: u32, height: u32) -> Result<()> {
    match (size.width, size.height) == (width, height) {
        true => Ok(()),
        false => {
            let expected = format!("a mask of {} × {}, as its image", size.width, size.height);
            Err(unfit(expected, format!("{width} × {height}")))
        }
    }
}

/// The most bytes that may be allocated to decode a mask of this size.
fn limit(size: Size) -> usize {
    usize::try_from(size.pixels().saturating_mul(8)).unwrap_or(usize::MAX).saturating_add(16 << 20)
}

fn of_png(bytes: &[u8], size: Size, out: &mut Vec<u8>) -> Result<MaskPixels> {
    let blame = |error: png::DecodingError| {
        let kind = match error {
            png::DecodingError::LimitsExceeded => ErrorKind::Limit,
            _ => ErrorKind::Damaged,
        };
        Error::new(kind, format!("Png: {}", error.to_string().trim_end_matches('.')))
    };
    let mut decoder =
        png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: limit(size) });
    decoder.set_ignore_text_chunk(true);
    // The header first: what follows depends on what the pixels are.
    let (color, depth) = {
        let header = decoder.read_header_info().map_err(blame)?;
        check_size(size, header.width, header.height)?;
        (header.color_type, header.bit_depth)
    };
    match color {
        png::ColorType::Indexed => decoder.set_transformations(png::Transformations::IDENTITY),
        // As of any decoder, grey of fewer bits becomes 0 to 255.
        png::ColorType::Grayscale => decoder.set_transformations(png::Transformations::EXPAND),
        other => {
            return Err(unfit("a mask of grey or with a palette", format!("Png of {other:?}")));
        }
    }
    let mut reader = decoder.read_info().map_err(blame)?;
    let needed = reader.output_buffer_size().unwrap_or(usize::MAX);
    if needed > limit(size) {
        return Err(Error::new(ErrorKind::Limit, format!("Png: {needed} bytes of pixels")));
    }
    out.clear();
    out.resize(needed, 0);
    let frame = reader.next_frame(out).map_err(blame)?;
    let pixels = size.pixels() as usize;
    if color == png::ColorType::Indexed {
        unpack(out, frame.line_size, depth as usize, size);
        return Ok(MaskPixels::Narrow);
    }
    match (frame.color_type, frame.bit_depth) {
        (png::ColorType::Grayscale, png::BitDepth::Eight) if out.len() >= pixels => {
            Ok(MaskPixels::Narrow)
        }
        (png::ColorType::Grayscale, png::BitDepth::Sixteen) if out.len() >= 2 * pixels => {
            out.chunks_exact_mut(2).for_each(|pair| {
                let value = u16::from_be_bytes([pair[0], pair[1]]);
                pair.copy_from_slice(bytemuck::bytes_of(&value));
            });
            Ok(MaskPixels::Wide)
        }
        // A colour that stands for transparency adds a channel.
        (other, _) => Err(unfit("a mask of one channel", format!("Png of {other:?}"))),
    }
}

/// Numbers of a palette with fewer than 8 bits, one in a byte. Rows begin in a byte of their own.
fn unpack(out: &mut Vec<u8>, line: usize, depth: usize, size: Size) {
    if depth == 8 {
        return;
    }
    let (width, height) = (size.width as usize, size.height as usize);
    let packed = out.clone();
    out.clear();
    let mask = (1u16 << depth) as u8 - 1;
    for row in packed.chunks_exact(line.max(1)).take(height) {
        out.extend((0..width).map(|x| {
            let bit = x * depth;
            (row[bit / 8] >> (8 - depth - bit % 8)) & mask
        }));
    }
}

fn of_gray(bytes: &[u8], format: ImageFormat, size: Size, out: &mut Vec<u8>) -> Result<MaskPixels> {
    let blame = |error: image::ImageError| blamed(format, &error, "decoded");
    let decoder = limited_decoder(bytes, format, size.pixels()).map_err(blame)?;
    let (width, height) = decoder.dimensions();
    check_size(size, width, height)?;
    check_pixels(size, u64::from(u32::MAX))?;
    let pixels = match decoder.color_type() {
        ColorType::L8 => MaskPixels::Narrow,
        ColorType::L16 => MaskPixels::Wide,
        other => {
            return Err(unfit(
                "a mask of grey or with a palette",
                format!("{format:?} of {other:?}"),
            ));
        }
    };
    // Decoders scale other numbers, which would make other classes of them.
    if format == ImageFormat::Pnm {
        let header = PnmDecoder::new(Cursor::new(bytes)).map_err(blame)?;
        let most = header.header().maximal_sample();
        if ![u8::MAX.into(), u16::MAX.into()].contains(&most) {
            return Err(unfit("a mask with numbers up to 255 or 65535", format!("up to {most}")));
        }
    }
    if format == ImageFormat::Jpeg && !jpeg_has_end(bytes) {
        return Err(cut_short());
    }
    out.clear();
    out.resize(usize::try_from(decoder.total_bytes()).unwrap_or(usize::MAX), 0);
    decoder.read_image(out).map_err(blame)?;
    Ok(pixels)
}
