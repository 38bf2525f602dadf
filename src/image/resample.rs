//! [`Resampler`]: pixels of another size by filters, as torch computes them, in memory that is reused.
//!
//! By the triangle of `bilinear` rows are blended first, then columns, in single precision; only the result is
//! rounded, halves up. Filters with lobes reach beyond what pixels can be and are cut there, so the order counts:
//! columns are blended first, and rounded, as by torch. Sums are formed in the same order on all processors, so
//! results are equal on all of them.
#![allow(clippy::needless_range_loop, clippy::manual_memcpy, reason = "see below")]

use super::step::Interpolation;

/// The longest side of an image before and after it is filtered: a row takes up to 100 bytes a pixel.
pub(super) const MAX_FILTERED: u32 = 1 << 22;

/// Memory of the passes. Two rows are made at a time.
#[derive(Default)]
pub(super) struct Resampler {
    rows: Weights,
    columns: Weights,
    /// A row with the columns of the source, and three values more.
    blended: Vec<f32>,
    /// The pixels of two such rows: for each column, four values of one and four of the other.
    pixels: Vec<[f32; 8]>,
    /// The same with the columns of the result.
    sums: Vec<[f32; 8]>,
    /// The same, rounded.
    rounded: Vec<[u8; 8]>,
    /// The rows of the source with the columns of the result, where columns are blended first.
    narrowed: Vec<u8>,
}

/// Pixels that are stored row by row.
#[derive(Clone, Copy)]
pub(super) struct Pixels<'a> {
    /// From the first of the part.
    pub(super) bytes: &'a [u8],
    /// Bytes from one row to the next.
    pub(super) stride: usize,
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) channels: usize,
}

/// Where the result goes, row by row. A call for each row costs less than the filters once more for each type.
pub(super) trait Rows {
    /// Memory for a row, which is filled then.
    fn row(&mut self, at: usize) -> &mut [u8];
    /// The row has its pixels.
    fn done(&mut self, at: usize);
}

impl Resampler {
    /// Makes the wanted part of a result of the pixels that it [needs](Span::needs).
    pub(super) fn resize(
        &mut self,
        from: Pixels<'_>,
        [rows, columns]: [Span; 2],
        interpolation: Interpolation,
        out: &mut dyn Rows,
    ) {
        let filter = Filter::of(interpolation);
        self.rows.make(filter, rows);
        self.columns.make(filter, columns);
        // A loop that is as long for each pixel is foreseen by the processor.
        self.columns.make_even(from.width);
        let (widest, width) = (from.width.max(columns.len()), columns.len());
        self.blended.resize(widest * from.channels + 3, 0.0);
        let narrowed = if filter == Filter::Triangle { 0 } else { from.height };
        self.narrowed.resize(narrowed * width * from.channels, 0);
        self.pixels.resize(from.width, [0.0; 8]);
        self.sums.resize(width, [0.0; 8]);
        self.rounded.resize(width, [0; 8]);
        #[cfg(target_arch = "x86_64")]
        #[expect(unsafe_code, reason = "calls a function that needs certain instructions")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: this processor has them.
            unsafe { self.run_by_avx2(from, out) };
            return;
        }
        self.run(from, out);
    }

    /// The same with wider registers: the same operations, so the same results.
    ///
    /// # Safety
    ///
    /// The processor must have AVX2. (A function that says so without `unsafe` needs Rust 1.86.)
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    #[expect(unsafe_code, reason = "see there")]
    unsafe fn run_by_avx2(&mut self, from: Pixels<'_>, out: &mut dyn Rows) {
        self.run(from, out);
    }

    #[inline(always)]
    fn run(&mut self, from: Pixels<'_>, out: &mut dyn Rows) {
        match from.channels {
            1 => self.run_of::<1>(from, out),
            3 => self.run_of::<3>(from, out),
            _ => self.run_of::<4>(from, out),
        }
    }

    #[inline(always)]
    fn run_of<const C: usize>(&mut self, from: Pixels<'_>, out: &mut dyn Rows) {
        let Resampler { rows, columns, blended, pixels, sums, rounded, narrowed } = self;
        let width = columns.len() * C;
        let columns_first = !narrowed.is_empty();
        let count = if columns_first { from.height } else { rows.len() };
        let mut at = 0;
        while at < count {
            let pair = 2.min(count - at);
            for second in 0..pair {
                let (first, weights) = match columns_first {
                    true => (at + second, &[1.0][..]),
                    false => rows.of(at + second),
                };
                let bytes = &from.bytes[first * from.stride..];
                blend_rows(bytes, from.stride, weights, &mut blended[..from.width * C]);
                spread::<C>(blended, pixels, 4 * second);
            }
            blend_pixels(pixels, columns, sums);
            round_all(sums, rounded);
            for second in 0..pair {
                let row = at + second;
                if columns_first {
                    let start = row * width;
                    gather::<C>(rounded, 4 * second, &mut narrowed[start..start + width]);
                } else {
                    gather::<C>(rounded, 4 * second, out.row(row));
                    out.done(row);
                }
            }
            at += pair;
        }
        if columns_first {
            for at in 0..rows.len() {
                let (first, weights) = rows.of(at);
                blend_rows(&narrowed[first * width..], width, weights, &mut blended[..width]);
                let row = &mut out.row(at)[..width];
                for value in 0..width {
                    row[value] = nearest(blended[value]);
                }
                out.done(at);
            }
        }
    }

    /// The bytes that are kept for the next image.
    pub(super) fn kept(&self) -> usize {
        let wide = 32 * self.pixels.capacity() + 40 * self.sums.capacity();
        let narrow = 4 * self.blended.capacity() + self.narrowed.capacity();
        self.rows.kept() + self.columns.kept() + narrow + wide
    }
}

/// The requested part of one axis: some of the new rows or columns, made of old ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Span {
    /// Where the old ones begin, and how many there are. A place of the image is not a whole number where it was
    /// decoded to fewer pixels.
    start: f64,
    old: f64,
    /// How many of them are stored.
    stored: usize,
    /// How many there would be, and which are wanted.
    new: usize,
    from: usize,
    end: usize,
}

impl Span {
    pub(super) fn new(old: usize, new: usize, from: usize, count: usize) -> Span {
        let end = from + count;
        Span { start: 0.0, old: old as f64, stored: old, new, from, end }
    }

    /// The same of an image that was decoded to fewer pixels, `stored` of them: the old ones begin at a place among
    /// them, and are fewer.
    #[cfg(feature = "turbo")]
    pub(super) fn scaled(self, start: f64, old: f64, stored: usize) -> Span {
        Span { start, old, stored, ..self }
    }

    /// How many old places there are for a new one.
    #[cfg(feature = "turbo")]
    pub(super) fn scale(&self) -> f64 {
        self.old / self.new as f64
    }

    fn len(&self) -> usize {
        self.end - self.from
    }

    /// The most old places that count for a new one.
    fn room(&self, filter: Filter) -> usize {
        (self.reach(filter).ceil() as usize * 2 + 1).min(self.stored)
    }

    fn stretch(&self) -> f64 {
        (self.old / self.new as f64).max(1.0)
    }

    fn reach(&self, filter: Filter) -> f64 {
        filter.reach() * self.stretch()
    }

    /// For a new place, its middle among the old ones, and those that count: the first, and the end of them.
    fn around(&self, filter: Filter, at: usize) -> (f64, usize, usize) {
        let middle = self.start + self.old / self.new as f64 * (at as f64 + 0.5);
        let reach = self.reach(filter);
        // Conversion rounds to zero, so that nothing is below it.
        let first = (middle - reach + 0.5) as usize;
        let end = ((middle + reach + 0.5) as usize).min(self.stored);
        (middle, first, end.min(first + self.room(filter)))
    }

    /// The old ones that count for those that are wanted: the first, and how many.
    pub(super) fn needs(&self, interpolation: Interpolation) -> (usize, usize) {
        let filter = Filter::of(interpolation);
        let (_, first, _) = self.around(filter, self.from);
        let (_, _, end) = self.around(filter, self.end - 1);
        (first, end - first)
    }
}

/// How far a filter reaches, and how much pixels count by their distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filter {
    Triangle,
    /// With `a = -0.5`.
    Cubic,
    Lanczos,
}

impl Filter {
    fn of(interpolation: Interpolation) -> Filter {
        match interpolation {
            Interpolation::Bicubic => Filter::Cubic,
            Interpolation::Lanczos => Filter::Lanczos,
            _ => Filter::Triangle,
        }
    }

    fn reach(self) -> f64 {
        match self {
            Filter::Triangle => 1.0,
            Filter::Cubic => 2.0,
            Filter::Lanczos => 3.0,
        }
    }

    fn at(self, distance: f64) -> f64 {
        let x = distance.abs();
        match self {
            Filter::Triangle => (1.0 - x).max(0.0),
            Filter::Cubic if x < 1.0 => (1.5 * x - 2.5) * x * x + 1.0,
            Filter::Cubic if x < 2.0 => ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0,
            Filter::Lanczos if x == 0.0 => 1.0,
            Filter::Lanczos if x < 3.0 => {
                let angle = std::f64::consts::PI * x;
                // From the crate, because the functions of the systems differ in the last bit.
                3.0 * libm::sin(angle) * libm::sin(angle / 3.0) / (angle * angle)
            }
            _ => 0.0,
        }
    }
}

/// For each new row or column that is wanted, the first old one that counts, from the first of those that are needed,
/// and how much it and those after it count.
#[derive(Default)]
struct Weights {
    made: Option<(Filter, Span)>,
    /// First and count.
    parts: Vec<(usize, usize)>,
    /// `room` for each.
    weights: Vec<f32>,
    room: usize,
    /// The largest count.
    most: usize,
}

impl Weights {
    fn make(&mut self, filter: Filter, span: Span) {
        if self.made == Some((filter, span)) {
            return;
        }
        self.made = None;
        let stretch = span.stretch();
        let (_, needed, _) = span.around(filter, span.from);
        (self.room, self.most) = (span.room(filter), 0);
        self.parts.clear();
        self.weights.clear();
        self.weights.resize(self.room * span.len(), 0.0);
        for (at, weights) in self.weights.chunks_exact_mut(self.room).enumerate() {
            let (middle, first, end) = span.around(filter, span.from + at);
            let weight = |place: usize| filter.at((place as f64 - middle + 0.5) / stretch);
            let sum: f64 = (first..end).map(weight).sum();
            for (place, to) in (first..end).zip(weights) {
                *to = (weight(place) / sum) as f32;
            }
            self.parts.push((first - needed, end - first));
            self.most = self.most.max(end - first);
        }
        self.made = Some((filter, span));
    }

    fn len(&self) -> usize {
        self.parts.len()
    }

    #[inline(always)]
    /// The first old place of a new one, and the weights from there.
    fn of(&self, at: usize) -> (usize, &[f32]) {
        let (first, count) = self.parts[at];
        (first, &self.weights[at * self.room..at * self.room + count])
    }

    /// The same with as many weights for each place: none of those that are added counts.
    fn make_even(&mut self, old: usize) {
        let (room, most) = (self.room, self.most);
        for (at, (first, count)) in self.parts.iter_mut().enumerate() {
            let shift = (*first + most).saturating_sub(old);
            let weights = &mut self.weights[at * room..at * room + most];
            weights.copy_within(..*count, shift);
            weights[..shift].fill(0.0);
            (*first, *count) = (*first - shift, most);
        }
    }

    fn kept(&self) -> usize {
        16 * self.parts.capacity() + 4 * self.weights.capacity()
    }
}

// Loops over numbers, because the iterators of slices are calls where the optimiser sees a part of the program only.

/// The sum of rows, each with its weight, within what pixels can be.
#[inline(always)]
fn blend_rows(rows: &[u8], stride: usize, weights: &[f32], out: &mut [f32]) {
    // This many fit in registers.
    const LANES: usize = 32;
    let whole = out.len() / LANES * LANES;
    let mut at = 0;
    while at < whole {
        let mut sums = [0.0f32; LANES];
        let mut start = at;
        for &weight in weights {
            let values = &rows[start..start + LANES];
            for lane in 0..LANES {
                sums[lane] += weight * f32::from(values[lane]);
            }
            start += stride;
        }
        let out = &mut out[at..at + LANES];
        for lane in 0..LANES {
            out[lane] = within(sums[lane]);
        }
        at += LANES;
    }
    for at in whole..out.len() {
        let mut sum = 0.0;
        for row in 0..weights.len() {
            sum += weights[row] * f32::from(rows[row * stride + at]);
        }
        out[at] = within(sum);
    }
}

/// Four values for each pixel: pixels with fewer are followed by unused ones.
#[inline(always)]
fn spread<const C: usize>(values: &[f32], pixels: &mut [[f32; 8]], from: usize) {
    for at in 0..pixels.len() {
        let values = &values[at * C..at * C + 4];
        let pixel = &mut pixels[at][from..from + 4];
        for lane in 0..4 {
            pixel[lane] = values[lane];
        }
    }
}

#[inline(always)]
fn blend_pixels(pixels: &[[f32; 8]], columns: &Weights, out: &mut [[f32; 8]]) {
    for at in 0..out.len() {
        let (first, weights) = columns.of(at);
        let pixels = &pixels[first..first + weights.len()];
        let mut sums = [0.0f32; 8];
        for tap in 0..weights.len() {
            for lane in 0..8 {
                sums[lane] += weights[tap] * pixels[tap][lane];
            }
        }
        out[at] = sums;
    }
}

#[inline(always)]
fn round_all(values: &[[f32; 8]], out: &mut [[u8; 8]]) {
    let values = &values[..out.len()];
    for at in 0..out.len() {
        for lane in 0..8 {
            out[at][lane] = nearest(values[at][lane]);
        }
    }
}

#[inline(always)]
fn gather<const C: usize>(pixels: &[[u8; 8]], from: usize, out: &mut [u8]) {
    for at in 0..pixels.len() {
        let (pixel, out) = (&pixels[at][from..from + 4], &mut out[at * C..at * C + C]);
        for channel in 0..C {
            out[channel] = pixel[channel];
        }
    }
}

#[inline(always)]
fn within(value: f32) -> f32 {
    value.clamp(0.0, 255.0)
}

/// To the nearest, halves up. Next to 32,768 a float has eight bits for what follows the point, so that a half
/// that was missed by a few bits is one, and no conversion is needed.
#[inline(always)]
fn nearest(value: f32) -> u8 {
    ((within(value) + 32_768.5).to_bits() >> 8) as u8
}
