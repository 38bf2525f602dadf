//! [`Canvas`]: the pixels of one image while its plan is carried out.
//!
//! Crops, flips and turns only change what part of the pixels is seen, and in which order.
#![allow(
    clippy::needless_range_loop,
    reason = "iterators of slices are calls where the optimiser sees a part of the program only"
)]

use std::time::Duration;

use super::blur::Blur;
use super::color;
use super::decode::Buffer;
use super::plan::{Action, Plan};
use super::resample::{Pixels, Resampler, Rows, Span};
use super::step::{Interpolation, Layout, Padding, PaddingMode, Size};
use super::view::View;
use super::warp::Warp;

/// This much memory is kept, also if images need less.
const KEEP: usize = 16 << 20;
/// Bytes of a row that are kept.
const KEPT_LINE: usize = 1 << 20;

/// After this many images, memory that none of them needed is freed.
const RECENT: u32 = 64;

/// More is given back at once: a buffer of pixels, and what filters need.
const MOST: usize = 256 << 20;
const MOST_FILTERS: usize = 64 << 20;

/// Memory that is reused for each image.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The pixels.
    pub(super) pixels: Buffer,
    /// Where the next ones are made.
    pub(super) spare: Buffer,
    resampler: Resampler,
    blur: Blur,
    /// A row of pixels on its way into the result.
    line: Vec<u8>,
    pub(super) plan: Option<Plan>,
    /// Images since memory was given back.
    images: u32,
    /// The time of decoding, if it is measured.
    pub(crate) decoding: Option<Duration>,
}

impl Scratch {
    /// Gives back what only a huge image needed, and from time to time what only a large one did.
    pub(super) fn trim(&mut self) {
        self.pixels.limit(MOST);
        self.spare.limit(MOST);
        if self.resampler.kept() > MOST_FILTERS {
            self.resampler = Resampler::default();
        }
        self.blur.trim();
        self.images += 1;
        if self.images < RECENT {
            return;
        }
        self.images = 0;
        self.line.shrink_to(KEPT_LINE);
        self.pixels.trim(KEEP);
        self.spare.trim(KEEP);
    }
}

/// The pixels of one image.
pub(super) struct Canvas<'a> {
    scratch: &'a mut Scratch,
    view: View,
    channels: usize,
}

impl<'a> Canvas<'a> {
    /// The visible part of the pixels that were decoded to `scratch`.
    pub(super) fn new(scratch: &'a mut Scratch, view: View, channels: usize) -> Canvas<'a> {
        Canvas { scratch, view, channels }
    }

    /// Carries out one action of a plan, which was checked.
    pub(super) fn act(&mut self, action: &Action) {
        if self.view.act(action) {
            return;
        }
        match *action {
            Action::Crop { .. } | Action::HorizontalFlip | Action::VerticalFlip => {}
            Action::Resize { size, interpolation: Interpolation::Nearest } => self.nearest(size),
            // See `resized`.
            Action::Resize { .. } => {}
            Action::Pad { padding, fill, padding_mode } => self.pad(padding, fill, padding_mode),
            Action::Brightness(factor) => self.map(&color::brightness(factor)),
            Action::Contrast(factor) => {
                let gray = color::mean_gray(self.rows(), self.channels);
                self.map(&color::contrast(factor, gray));
            }
            Action::Saturation(factor) if self.channels == 3 => {
                self.rows_mut().for_each(|row| color::saturation(row, factor));
            }
            Action::Hue(turn) if self.channels == 3 => {
                self.rows_mut().for_each(|row| color::hue(row, turn));
            }
            Action::Grayscale if self.channels == 3 => self.rows_mut().for_each(color::grayscale),
            // Grey has no colours.
            Action::Saturation(_) | Action::Hue(_) | Action::Grayscale => {}
            Action::GaussianBlur { kernel_size, sigma } => self.blur(kernel_size, sigma),
            Action::Erase { top, left, size, value } => self.erase(top, left, size, value),
            Action::Rotate { interpolation, fill, .. }
            | Action::Affine { interpolation, fill, .. } => self.warp(action, interpolation, fill),
        }
    }

    /// The stored rows of what is seen, in their order.
    fn rows(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        let (View { stride, x, y, width, height, .. }, channels) = (self.view, self.channels);
        (y..y + height).map(move |y| {
            let start = (y * stride + x) * channels;
            &self.scratch.pixels[start..start + width * channels]
        })
    }

    fn rows_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let (View { stride, x, y, width, height, .. }, channels) = (self.view, self.channels);
        let rows = self.scratch.pixels.chunks_mut(stride * channels).skip(y).take(height);
        rows.map(move |row| &mut row[x * channels..(x + width) * channels])
    }

    /// Replaces each value by another.
    fn map(&mut self, table: &[u8; 256]) {
        for row in self.rows_mut() {
            row.iter_mut().for_each(|value| *value = table[usize::from(*value)]);
        }
    }

    /// Makes the pixels of another size from what is seen.
    fn remake(&mut self, height: usize, width: usize, from: impl Fn(usize, usize) -> Source) {
        let (channels, view) = (self.channels, self.view);
        let target = self.scratch.spare.room(height * width * channels);
        for (row, target) in target.chunks_exact_mut(width * channels).enumerate() {
            for (column, target) in target.chunks_exact_mut(channels).enumerate() {
                match from(row, column) {
                    Source::Pixel(row, column) => {
                        let at = view.at(row, column) * channels;
                        target.copy_from_slice(&self.scratch.pixels[at..at + channels]);
                    }
                    Source::Fill(fill) => target.copy_from_slice(&fill[..channels]),
                }
            }
        }
        self.replaced(height, width);
    }

    /// The spare pixels are the new ones.
    fn replaced(&mut self, height: usize, width: usize) {
        std::mem::swap(&mut self.scratch.pixels, &mut self.scratch.spare);
        self.view = View::of(width, height);
    }

    /// Stores the pixels in the order in which they are seen.
    fn straighten(&mut self) {
        if !self.view.is_plain() {
            let (height, width) = self.view.size();
            self.remake(height, width, Source::Pixel);
        }
    }

    fn nearest(&mut self, size: Size) {
        let (height, width) = self.view.size();
        // Single precision, as in torch.
        let scale = |old: usize, new: u32| old as f32 / new as f32;
        let (down, right) = (scale(height, size.height), scale(width, size.width));
        let at = |to: usize, scale: f32, old: usize| ((to as f32 * scale) as usize).min(old - 1);
        self.remake(size.height as usize, size.width as usize, |row, column| {
            Source::Pixel(at(row, down, height), at(column, right, width))
        });
    }

    /// The filter that comes next, if one does. Then only the pixels that it needs are seen.
    pub(super) fn resized(&mut self, actions: &[Action]) -> Option<Resized> {
        let resized = Resized::first(actions, self.view.size())?;
        resized.narrow(&mut self.view);
        Some(resized)
    }

    /// Makes pixels of another size of those that are seen, which were narrowed.
    pub(super) fn resize(&mut self, resized: &Resized) {
        let View { width, height, .. } = resized.view;
        let channels = self.channels;
        self.straighten();
        // Taken away while it is written.
        let mut spare = std::mem::take(&mut self.scratch.spare);
        let target = spare.room(height * width * channels);
        self.resample(resized, &mut Stored { target, width: width * channels });
        self.scratch.spare = spare;
        self.replaced(height, width);
        self.view = resized.view;
    }

    fn resample(&mut self, resized: &Resized, out: &mut dyn Rows) {
        // Taken away while pixels are borrowed.
        let mut resampler = std::mem::take(&mut self.scratch.resampler);
        // Pixels outside of the part have no influence, as after a crop by torchvision.
        let (part, ..) = self.straight();
        resampler.resize(part, resized.spans, resized.interpolation, out);
        self.scratch.resampler = resampler;
    }

    /// What is seen, as it is seen.
    fn straight(&mut self) -> (Pixels<'_>, &mut Blur, &mut Buffer) {
        self.straighten();
        let (View { stride, x, y, width, height, .. }, channels) = (self.view, self.channels);
        let Scratch { pixels, blur, spare, .. } = &mut *self.scratch;
        let bytes = &pixels[(y * stride + x) * channels..];
        (Pixels { bytes, stride: stride * channels, height, width, channels }, blur, spare)
    }

    fn blur(&mut self, kernel_size: [u32; 2], sigma: f64) {
        let (from, blur, spare) = self.straight();
        let Pixels { height, width, channels, .. } = from;
        blur.run(from, kernel_size, sigma, spare.room(height * width * channels));
        self.replaced(height, width);
    }

    fn erase(&mut self, top: u32, left: u32, size: Size, value: [u8; 4]) {
        let (seen, channels) = (self.view, self.channels);
        let [top, left, height, width] = [top, left, size.height, size.width].map(|n| n as usize);
        self.view.crop(top, left, height, width);
        for pixel in self.rows_mut().flat_map(|row| row.chunks_exact_mut(channels)) {
            pixel.copy_from_slice(&value[..channels]);
        }
        self.view = seen;
    }

    fn warp(&mut self, action: &Action, interpolation: Interpolation, fill: [u8; 4]) {
        let (height, width) = self.view.size();
        let seen = Size { height: height as u32, width: width as u32 };
        let Some(warp) = Warp::of(action, seen) else { return };
        let (height, width) = (warp.size().height as usize, warp.size().width as usize);
        let (from, _, spare) = self.straight();
        let target = spare.room(height * width * from.channels);
        warp.run(from, interpolation, fill, target);
        self.replaced(height, width);
    }

    fn pad(&mut self, padding: Padding, fill: [u8; 4], mode: PaddingMode) {
        let (height, width) = self.view.size();
        let (top, left) = (padding.top as usize, padding.left as usize);
        let new_height = top + height + padding.bottom as usize;
        let new_width = left + width + padding.right as usize;
        self.remake(new_height, new_width, |row, column| {
            let row = inside(row, top, height, mode);
            match (row, inside(column, left, width, mode)) {
                (Some(row), Some(column)) => Source::Pixel(row, column),
                _ => Source::Fill(fill),
            }
        });
    }

    /// Writes what is seen as elements of the result.
    pub(super) fn write<T: Copy>(&mut self, to: Elements<'_, T>) {
        if self.view.is_transposed {
            self.straighten();
        }
        // One number of channels at a time: a loop over them for each pixel takes five times as long.
        match to.tables {
            [gray] => self.write_of(to.of([gray], self.view)),
            [red, green, blue] => self.write_of(to.of([red, green, blue], self.view)),
            [red, green, blue, alpha] => self.write_of(to.of([red, green, blue, alpha], self.view)),
            _ => {}
        }
    }

    fn write_of<T: Copy, const C: usize>(&self, mut out: Direct<'_, T, C>) {
        for (at, row) in self.rows().enumerate() {
            out.put(at, row);
        }
    }

    /// The same of pixels of another size, row by row as they are made.
    pub(super) fn write_resized<T: Copy>(&mut self, resized: &Resized, to: Elements<'_, T>) {
        match to.tables {
            [gray] => self.resize_to(resized, to.of([gray], resized.view)),
            [red, green, blue] => self.resize_to(resized, to.of([red, green, blue], resized.view)),
            [red, green, blue, alpha] => {
                self.resize_to(resized, to.of([red, green, blue, alpha], resized.view));
            }
            _ => {}
        }
    }

    fn resize_to<T: Copy, const C: usize>(&mut self, resized: &Resized, out: Direct<'_, T, C>) {
        let mut line = std::mem::take(&mut self.scratch.line);
        line.resize(resized.view.width * C, 0);
        self.resample(resized, &mut Lines { line: &mut line, out });
        self.scratch.line = line;
    }

    pub(super) fn size(&self) -> (usize, usize) {
        self.view.size()
    }
}

/// A filter, and what is seen of its result after the crops and flips that follow.
pub(super) struct Resized {
    interpolation: Interpolation,
    /// Rows and columns.
    spans: [Span; 2],
    /// The visible part of the new pixels.
    pub(super) view: View,
    /// How many actions this is.
    pub(super) actions: usize,
}

impl Resized {
    /// If the first action is a filter.
    pub(super) fn first(actions: &[Action], (height, width): (usize, usize)) -> Option<Resized> {
        let (&Action::Resize { size, interpolation }, more) = actions.split_first()? else {
            return None;
        };
        if interpolation == Interpolation::Nearest {
            return None;
        }
        let (new_height, new_width) = (size.height as usize, size.width as usize);
        let mut view = View::of(new_width, new_height);
        // A row that is written where it is seen stays a row.
        let acts = |action: &&Action| {
            let before = view;
            let is_done = view.act(action) && !view.is_transposed;
            view = if is_done { view } else { before };
            is_done
        };
        let more = more.iter().take_while(acts).count();
        let rows = Span::new(height, new_height, view.y, view.height);
        let columns = Span::new(width, new_width, view.x, view.width);
        let view = View { stride: view.width, x: 0, y: 0, ..view };
        Some(Resized { interpolation, spans: [rows, columns], view, actions: 1 + more })
    }

    /// The largest part of the sides, as a divisor, that an image can be decoded to for it: 1 for none.
    #[cfg(feature = "turbo")]
    pub(super) fn divisor(&self) -> usize {
        let scale = self.spans.iter().map(Span::scale).fold(f64::INFINITY, f64::min);
        [8, 4, 2].into_iter().find(|&by| scale >= by as f64).unwrap_or(1)
    }

    /// The same of an image that was decoded to such a part of its sides, and what is seen of it then.
    #[cfg(feature = "turbo")]
    pub(super) fn scaled(&self, view: View, by: usize) -> (Resized, View) {
        // Pixels of the smaller image that have a part of what is seen, and where it begins among them.
        let side = |at: usize, len: usize, flips: bool| {
            let (first, end) = (at / by, (at + len).div_ceil(by));
            let before = if flips { end * by - at - len } else { at - first * by };
            (first, end - first, before as f64 / by as f64, len as f64 / by as f64)
        };
        let (x, width, left, wide) = side(view.x, view.width, view.flip_x);
        let (y, height, top, high) = side(view.y, view.height, view.flip_y);
        let (along_x, along_y) = ((left, wide, width), (top, high, height));
        let both = if view.is_transposed { [along_x, along_y] } else { [along_y, along_x] };
        let mut spans = self.spans;
        for (span, (start, old, stored)) in spans.iter_mut().zip(both) {
            *span = span.scaled(start, old, stored);
        }
        let seen = View { x, y, width, height, ..view };
        (Resized { spans, ..*self }, seen)
    }

    /// Leaves what it needs of the pixels that are seen.
    pub(super) fn narrow(&self, view: &mut View) {
        let [(top, height), (left, width)] = self.spans.map(|span| span.needs(self.interpolation));
        view.crop(top, left, height, width);
    }
}

/// The memory of the result, with the element of each value in each channel.
pub(super) struct Elements<'o, T> {
    pub(super) layout: Layout,
    pub(super) tables: &'o [[T; 256]],
    /// The memory of elements that are the values themselves.
    pub(super) as_bytes: fn(&mut [T]) -> Option<&mut [u8]>,
    pub(super) out: &'o mut [T],
}

impl<'o, T: Copy> Elements<'o, T> {
    /// For what is seen by such a view.
    fn of<const C: usize>(self, tables: [&'o [T; 256]; C], view: View) -> Direct<'o, T, C> {
        let Elements { layout, as_bytes, out, .. } = self;
        Direct { layout, tables, as_bytes, out, view }
    }
}

/// Rows of pixels to elements of the result, where they are seen.
struct Direct<'o, T, const C: usize> {
    layout: Layout,
    tables: [&'o [T; 256]; C],
    as_bytes: fn(&mut [T]) -> Option<&mut [u8]>,
    out: &'o mut [T],
    view: View,
}

impl<T: Copy, const C: usize> Direct<'_, T, C> {
    fn put(&mut self, at: usize, row: &[u8]) {
        let View { flip_x, flip_y, width, height, .. } = self.view;
        let at = if flip_y { height - 1 - at } else { at };
        let row = &row[..width * C];
        match self.layout {
            Layout::Hwc => {
                let out = &mut self.out[at * width * C..(at + 1) * width * C];
                if let (false, Some(out)) = (flip_x, (self.as_bytes)(out)) {
                    out.copy_from_slice(row);
                    return;
                }
                for column in 0..width {
                    let pixel = &row[column * C..column * C + C];
                    let column = if flip_x { width - 1 - column } else { column };
                    let out = &mut out[column * C..column * C + C];
                    for channel in 0..C {
                        out[channel] = self.tables[channel][usize::from(pixel[channel])];
                    }
                }
            }
            Layout::Chw => {
                for channel in 0..C {
                    let start = (channel * height + at) * width;
                    let out = &mut self.out[start..start + width];
                    let table = self.tables[channel];
                    if flip_x {
                        for column in 0..width {
                            out[width - 1 - column] = table[usize::from(row[column * C + channel])];
                        }
                    } else {
                        for column in 0..width {
                            out[column] = table[usize::from(row[column * C + channel])];
                        }
                    }
                }
            }
        }
    }
}

/// Pixels that are stored.
struct Stored<'o> {
    target: &'o mut [u8],
    /// Bytes of a row.
    width: usize,
}

impl Rows for Stored<'_> {
    fn row(&mut self, at: usize) -> &mut [u8] {
        &mut self.target[at * self.width..(at + 1) * self.width]
    }

    fn done(&mut self, _: usize) {}
}

/// Pixels that are elements of the result as soon as a row of them is made.
struct Lines<'o, T, const C: usize> {
    line: &'o mut [u8],
    out: Direct<'o, T, C>,
}

impl<T: Copy, const C: usize> Rows for Lines<'_, T, C> {
    fn row(&mut self, _: usize) -> &mut [u8] {
        self.line
    }

    fn done(&mut self, at: usize) {
        self.out.put(at, self.line);
    }
}

/// Where a new pixel comes from.
enum Source {
    Pixel(usize, usize),
    Fill([u8; 4]),
}

/// The place in the image of a place in the image with its border.
pub(super) fn inside(at: usize, before: usize, len: usize, mode: PaddingMode) -> Option<usize> {
    let at = at as i64 - before as i64;
    let last = len as i64 - 1;
    let within = match mode {
        _ if (0..=last).contains(&at) => at,
        PaddingMode::Constant => return None,
        PaddingMode::Edge => at.clamp(0, last),
        PaddingMode::Reflect if at < 0 => -at,
        PaddingMode::Reflect => 2 * last - at,
        PaddingMode::Symmetric if at < 0 => -1 - at,
        PaddingMode::Symmetric => 2 * last + 1 - at,
    };
    // A plan has only borders that can be filled; any other ends at the edge.
    Some(within.clamp(0, last) as usize)
}
