//! [`Blur`]: a mean of the pixels around each one, by weights of a bell curve.
//!
//! Rows are blended first, then columns, in single precision, where torch multiplies both weights and sums all
//! pixels at once. Sums in another order differ in their last bits, so that a value next to a half can be rounded to
//! the other side: results are within 1 of torch's.
#![allow(clippy::needless_range_loop, reason = "as in `resample`")]

use super::resample::Pixels;
use super::warp::nearest_even;

/// Bytes that are kept for the next image.
const MOST: usize = 4 << 20;

/// Memory of a blur.
#[derive(Default)]
pub(super) struct Blur {
    /// A blended row, with the mirrored ends of it on both sides.
    line: Vec<f32>,
    sums: Vec<f32>,
}

impl Blur {
    /// Blurs by this many columns and rows, where half of them is less than each side.
    pub(super) fn run(
        &mut self,
        from: Pixels<'_>,
        [columns, rows]: [u32; 2],
        sigma: f64,
        out: &mut [u8],
    ) {
        let (of_columns, of_rows) = (weights(columns, sigma), weights(rows, sigma));
        let Pixels { bytes, stride, height, width, channels } = from;
        let (len, border) = (width * channels, columns as usize / 2);
        self.line.resize(len + 2 * border * channels, 0.0);
        self.sums.resize(len, 0.0);
        let row = |at: usize| &bytes[at * stride..at * stride + len];
        for (at, out) in out.chunks_exact_mut(len).enumerate().take(height) {
            let inner = border * channels..border * channels + len;
            let line = &mut self.line[inner.clone()];
            for (value, byte) in line.iter_mut().zip(row(at)) {
                *value = of_rows[0] * f32::from(*byte);
            }
            for (distance, &weight) in of_rows.iter().enumerate().skip(1) {
                let before = row(mirrored(at as i64 - distance as i64, height));
                let after = row(mirrored(at as i64 + distance as i64, height));
                for at in 0..line.len() {
                    let both = u16::from(before[at]) + u16::from(after[at]);
                    line[at] += weight * f32::from(both);
                }
            }
            for at in 1..=border {
                for channel in 0..channels {
                    let value = |column: usize| (border + column) * channels + channel;
                    self.line[(border - at) * channels + channel] = self.line[value(at)];
                    self.line[value(width - 1 + at)] = self.line[value(width - 1 - at)];
                }
            }
            for (sum, value) in self.sums.iter_mut().zip(&self.line[inner.clone()]) {
                *sum = of_columns[0] * value;
            }
            for (distance, &weight) in of_columns.iter().enumerate().skip(1) {
                let shift = distance * channels;
                let before = &self.line[inner.start - shift..][..len];
                let after = &self.line[inner.start + shift..][..len];
                let sums = &mut self.sums[..len];
                for at in 0..len {
                    sums[at] += weight * (before[at] + after[at]);
                }
            }
            for (value, sum) in out.iter_mut().zip(&self.sums) {
                *value = nearest_even(*sum);
            }
        }
    }

    /// Gives back what only a large image needed.
    pub(super) fn trim(&mut self) {
        if 4 * (self.line.capacity() + self.sums.capacity()) > MOST {
            *self = Blur::default();
        }
    }
}

/// The weight of the pixel in the middle, and of those on both sides by their distance.
fn weights(size: u32, sigma: f64) -> Vec<f32> {
    let half = size / 2;
    let weight = |distance: u32| {
        let distance = f64::from(distance) / sigma;
        libm::exp(-0.5 * distance * distance)
    };
    let sum = 1.0 + 2.0 * (1..=half).map(weight).sum::<f64>();
    std::iter::once(1.0).chain((1..=half).map(weight)).map(|of| (of / sum) as f32).collect()
}

/// The place in an image that is mirrored at its edges, without its last pixel.
fn mirrored(at: i64, len: usize) -> usize {
    let last = len as i64 - 1;
    let within = if at < 0 {
        -at
    } else if at > last {
        2 * last - at
    } else {
        at
    };
    within.clamp(0, last) as usize
}
