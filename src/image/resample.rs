//! [`Resampler`]: pixels of another size by filters, as torch and Pillow compute them, in memory that is used again.
//!
//! Rows are blended first, then columns, in single precision; only the result is rounded, halves up. Sums are
//! formed in the same order on all processors, so results are equal on all of them.

use super::step::{Interpolation, Size};

/// The longest side of an image that is filtered: a row of it takes 16 bytes a pixel.
pub(super) const MAX_FILTERED: u32 = 1 << 22;

/// Memory of the passes.
#[derive(Default)]
pub(super) struct Resampler {
    rows: Weights,
    columns: Weights,
    /// One row, with the columns of the source.
    blended: Vec<f32>,
    /// The same with four values for each pixel.
    pixels: Vec<[f32; 4]>,
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

impl Resampler {
    /// Fills `out`, which has the new size.
    pub(super) fn resize(
        &mut self,
        from: Pixels<'_>,
        size: Size,
        interpolation: Interpolation,
        out: &mut [u8],
    ) {
        let filter = Filter::of(interpolation);
        self.rows.make(filter, from.height, size.height as usize);
        self.columns.make(filter, from.width, size.width as usize);
        self.blended.resize(from.width * from.channels, 0.0);
        self.pixels.resize(from.width, [0.0; 4]);
        match from.channels {
            1 => self.run::<1>(from, out),
            3 => self.run::<3>(from, out),
            _ => self.run::<4>(from, out),
        }
    }

    fn run<const C: usize>(&mut self, from: Pixels<'_>, out: &mut [u8]) {
        let rows = out.chunks_exact_mut(self.columns.len() * C);
        for (row, (first, weights)) in rows.zip(self.rows.iter()) {
            blend_rows(&from.bytes[first * from.stride..], from.stride, weights, &mut self.blended);
            if C == 1 {
                blend_values(&self.blended, &self.columns, row);
            } else {
                for (pixel, values) in self.pixels.iter_mut().zip(self.blended.chunks_exact(C)) {
                    pixel[..C].copy_from_slice(values);
                }
                blend_pixels::<C>(&self.pixels, &self.columns, row);
            }
        }
    }

    /// The bytes that are kept for the next image.
    pub(super) fn kept(&self) -> usize {
        self.rows.kept() + self.columns.kept() + 4 * self.blended.capacity() + 16 * self.pixels.capacity()
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
                // Of the crate, because those of the systems differ in the last bit.
                3.0 * libm::sin(angle) * libm::sin(angle / 3.0) / (angle * angle)
            }
            _ => 0.0,
        }
    }
}

/// For each new row or column, the first old one that counts, and how much it and those after it count.
#[derive(Default)]
struct Weights {
    made: Option<(Filter, usize, usize)>,
    /// First and count.
    parts: Vec<(usize, usize)>,
    /// `most` for each.
    weights: Vec<f32>,
    most: usize,
}

impl Weights {
    fn make(&mut self, filter: Filter, old: usize, new: usize) {
        if self.made == Some((filter, old, new)) {
            return;
        }
        self.made = None;
        let scale = old as f64 / new as f64;
        let stretch = scale.max(1.0);
        let reach = filter.reach() * stretch;
        self.most = (reach.ceil() as usize * 2 + 1).min(old);
        self.parts.clear();
        self.weights.clear();
        self.weights.resize(self.most * new, 0.0);
        for (at, weights) in self.weights.chunks_exact_mut(self.most).enumerate() {
            let middle = scale * (at as f64 + 0.5);
            // Conversion rounds to zero, so that nothing is below it.
            let first = (middle - reach + 0.5) as usize;
            let end = ((middle + reach + 0.5) as usize).min(old).min(first + self.most);
            let weight = |place: usize| filter.at((place as f64 - middle + 0.5) / stretch);
            let sum: f64 = (first..end).map(weight).sum();
            for (place, to) in (first..end).zip(weights) {
                *to = (weight(place) / sum) as f32;
            }
            self.parts.push((first, end - first));
        }
        self.made = Some((filter, old, new));
    }

    fn len(&self) -> usize {
        self.parts.len()
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &[f32])> {
        let weights = self.weights.chunks_exact(self.most.max(1));
        self.parts.iter().zip(weights).map(|(&(first, count), weights)| (first, &weights[..count]))
    }

    fn kept(&self) -> usize {
        16 * self.parts.capacity() + 4 * self.weights.capacity()
    }
}

/// The sum of rows, each with its weight, within what pixels can be.
fn blend_rows(rows: &[u8], stride: usize, weights: &[f32], out: &mut [f32]) {
    // As many as registers hold.
    const LANES: usize = 16;
    let whole = out.len() / LANES * LANES;
    let (blocks, rest) = out.split_at_mut(whole);
    for (block, out) in blocks.chunks_exact_mut(LANES).enumerate() {
        let mut sums = [0.0f32; LANES];
        let mut start = block * LANES;
        for &weight in weights {
            let values = &rows[start..start + LANES];
            for lane in 0..LANES {
                sums[lane] += weight * f32::from(values[lane]);
            }
            start += stride;
        }
        for lane in 0..LANES {
            out[lane] = within(sums[lane]);
        }
    }
    for (at, out) in rest.iter_mut().enumerate() {
        let mut sum = 0.0;
        for (row, &weight) in weights.iter().enumerate() {
            sum += weight * f32::from(rows[row * stride + whole + at]);
        }
        *out = within(sum);
    }
}

fn blend_pixels<const C: usize>(pixels: &[[f32; 4]], columns: &Weights, out: &mut [u8]) {
    for (out, (first, weights)) in out.chunks_exact_mut(C).zip(columns.iter()) {
        let mut sums = [0.0f32; 4];
        for (pixel, &weight) in pixels[first..first + weights.len()].iter().zip(weights) {
            for lane in 0..4 {
                sums[lane] += weight * pixel[lane];
            }
        }
        let rounded = sums.map(rounded);
        out.copy_from_slice(&rounded[..C]);
    }
}

fn blend_values(values: &[f32], columns: &Weights, out: &mut [u8]) {
    for (out, (first, weights)) in out.iter_mut().zip(columns.iter()) {
        let mut sum = 0.0;
        for (value, &weight) in values[first..first + weights.len()].iter().zip(weights) {
            sum += weight * value;
        }
        *out = rounded(sum);
    }
}

fn within(value: f32) -> f32 {
    value.clamp(0.0, 255.0)
}

/// To the nearest, halves up. Next to 32,768 a float has eight bits for what follows the point, so that a half
/// that was missed by a few bits is one, and no conversion is needed.
fn rounded(value: f32) -> u8 {
    ((within(value) + 32_768.5).to_bits() >> 8) as u8
}
