//! Points that move with a video: the pyramidal method of Lucas and Kanade, as Bouguet wrote it
//! down ("Pyramidal implementation of the affine Lucas Kanade feature tracker", 2001).
//!
//! Windows, weights in 14 bits, derivatives and conditions to stop are the same as in OpenCV, so
//! that points come out where they do there. Sums are not in the order of its vector units: places
//! differ in the last digits of single precision.
//!
//! Deliberately absent: colours, windows of other sizes, and a verdict on whether a point was
//! found. To know, track it back and compare where it arrives.

/// A place in an image: x to the right, y downwards.
pub(crate) type Point = [f32; 2];

/// The side of the window around a point that is looked for in the next image.
const WINDOW: usize = 21;
/// Pixels around each level that a window may reach into.
const MARGIN: usize = WINDOW + 1;
/// Steps towards the place at each level, and how small the square of one must be to be the last.
const MAX_STEPS: usize = 10;
const LAST_STEP: f64 = 0.03 * 0.03;
/// Two steps that take each other back as well as this are the end.
const BACK_AND_FORTH: f32 = 0.01;
/// Windows with fewer edges than this say nothing about where they went.
const MIN_EDGES: f32 = 1e-4;
/// Weights between four pixels have this many bits, brightness 5 more than in the image.
const WEIGHT_BITS: u32 = 14;
const FINE_BITS: u32 = 5;
/// Derivatives and differences are integers, this times as large.
const SCALE: f32 = 1.0 / (1 << 20) as f32;

/// A grey image at all scales, ready to be looked for in another.
pub(crate) struct Pyramid {
    levels: Vec<Level>,
}

/// An image with its derivatives, and a margin around both.
struct Level {
    width: usize,
    height: usize,
    /// Mirrored into the margin.
    pixels: Vec<u8>,
    /// By x and by y. Zero in the margin.
    slopes: Vec<[i16; 2]>,
}

impl Pyramid {
    /// The scales of an image whose rows are so wide.
    ///
    /// Halved as long as a window fits into the smallest, but once wherever it does at all.
    pub(crate) fn new(grey: &[u8], width: usize, height: usize) -> Pyramid {
        if grey.is_empty() {
            return Pyramid { levels: Vec::new() };
        }
        let halvings = (width.min(height) / WINDOW).checked_ilog2().unwrap_or(0).max(1);
        let mut plain = (grey.to_vec(), width, height);
        let mut levels = Vec::new();
        loop {
            let smaller = half(&plain.0, plain.1, plain.2);
            levels.push(Level::new(&plain.0, plain.1, plain.2));
            let fits = smaller.1 > WINDOW && smaller.2 > WINDOW;
            if levels.len() > halvings as usize || !fits {
                return Pyramid { levels };
            }
            plain = smaller;
        }
    }

    /// Where a point of this image is in the next one, which is of the same size.
    pub(crate) fn track(&self, next: &Pyramid, point: Point) -> Point {
        let levels = self.levels.len().min(next.levels.len());
        let scaled = |level: usize| point.map(|c| c * (1.0 / (1u64 << level) as f32));
        let mut found = scaled(levels.saturating_sub(1));
        for level in (0..levels).rev() {
            if level + 1 < levels {
                found = found.map(|c| c * 2.0);
            }
            found = self.levels[level].step(&next.levels[level], scaled(level), found);
        }
        found
    }
}

/// A window around a point: brightness and slopes of its pixels, and what follows from the slopes.
struct Window {
    pixels: [i32; WINDOW * WINDOW],
    slopes: [[i32; 2]; WINDOW * WINDOW],
    /// The sums of the products of the slopes: xx, xy, yy.
    edges: [f32; 3],
}

impl Level {
    fn new(plain: &[u8], width: usize, height: usize) -> Level {
        let stride = width + 2 * MARGIN;
        let mut pixels = Vec::with_capacity(stride * (height + 2 * MARGIN));
        for y in 0..height + 2 * MARGIN {
            let row = &plain[mirrored(y as isize - MARGIN as isize, height) * width..][..width];
            pixels.extend((0..stride).map(|x| row[mirrored(x as isize - MARGIN as isize, width)]));
        }
        let mut slopes = vec![[0; 2]; pixels.len()];
        for y in MARGIN..MARGIN + height {
            for x in MARGIN..MARGIN + width {
                slopes[y * stride + x] = slope(&pixels, y * stride + x, stride);
            }
        }
        Level { width, height, pixels, slopes }
    }

    fn stride(&self) -> usize {
        self.width + 2 * MARGIN
    }

    /// Follows a point from this level into the same one of another image, from a first guess on.
    /// A point that cannot be followed stays at the guess.
    fn step(&self, next: &Level, point: Point, guess: Point) -> Point {
        let half = (WINDOW - 1) as f32 * 0.5;
        let Some(window) = self.window(point.map(|c| c - half)) else {
            return guess;
        };
        let [xx, xy, yy] = window.edges;
        let determinant = xx * yy - xy * xy;
        let spread = ((xx - yy) * (xx - yy) + 4.0 * xy * xy).sqrt();
        let weakest = (yy + xx - spread) / (2 * WINDOW * WINDOW) as f32;
        if !(weakest >= MIN_EDGES && determinant >= f32::EPSILON) {
            return guess;
        }
        let inverse = 1.0 / determinant;
        let (mut place, mut found) = (guess.map(|c| c - half), guess);
        let mut before: Point = [0.0; 2];
        for step in 0..MAX_STEPS {
            let Some([bx, by]) = next.differences(&window, place) else {
                return found;
            };
            let delta = [(xy * by - yy * bx) * inverse, (xy * bx - xx * by) * inverse];
            place = [place[0] + delta[0], place[1] + delta[1]];
            found = place.map(|c| c + half);
            let length: f64 = delta.iter().map(|&d| f64::from(d) * f64::from(d)).sum();
            if length <= LAST_STEP {
                return found;
            }
            let undone = |at: usize| (delta[at] + before[at]).abs() < BACK_AND_FORTH;
            if step > 0 && undone(0) && undone(1) {
                return [found[0] - delta[0] * 0.5, found[1] - delta[1] * 0.5];
            }
            before = delta;
        }
        found
    }

    /// The window that begins at this place; nothing if it is outside of the image.
    fn window(&self, corner: Point) -> Option<Box<Window>> {
        let (start, weights) = self.position(corner)?;
        let stride = self.stride();
        let mut window = Box::new(Window {
            pixels: [0; WINDOW * WINDOW],
            slopes: [[0; 2]; WINDOW * WINDOW],
            edges: [0.0; 3],
        });
        for row in 0..WINDOW {
            let from = start + row * stride;
            let (above, below) = (&self.slopes[from..], &self.slopes[from + stride..]);
            let out = row * WINDOW..(row + 1) * WINDOW;
            self.bright(from, weights, &mut window.pixels[out.clone()]);
            for (column, slope) in window.slopes[out].iter_mut().enumerate() {
                for axis in 0..2 {
                    let sum = i32::from(above[column][axis]) * weights[0]
                        + i32::from(above[column + 1][axis]) * weights[1]
                        + i32::from(below[column][axis]) * weights[2]
                        + i32::from(below[column + 1][axis]) * weights[3];
                    slope[axis] = rounded(sum, WEIGHT_BITS);
                }
                let [x, y] = *slope;
                window.edges[0] += (x * x) as f32;
                window.edges[1] += (x * y) as f32;
                window.edges[2] += (y * y) as f32;
            }
        }
        window.edges = window.edges.map(|sum| sum * SCALE);
        Some(window)
    }

    /// By how much the pixels at this place differ from a window, weighted by its slopes.
    fn differences(&self, window: &Window, corner: Point) -> Option<[f32; 2]> {
        let (start, weights) = self.position(corner)?;
        let mut sums = [0.0f32; 2];
        let mut here = [0; WINDOW];
        for row in 0..WINDOW {
            self.bright(start + row * self.stride(), weights, &mut here);
            // The sum of a row is exact.
            let (mut x, mut y) = (0, 0);
            let there = row * WINDOW..(row + 1) * WINDOW;
            let pixels = here.iter().zip(&window.pixels[there.clone()]);
            for ((here, pixel), slope) in pixels.zip(&window.slopes[there]) {
                let difference = i64::from(here - pixel);
                x += difference * i64::from(slope[0]);
                y += difference * i64::from(slope[1]);
            }
            sums = [sums[0] + x as f32, sums[1] + y as f32];
        }
        Some(sums.map(|sum| sum * SCALE))
    }

    /// The brightness of a row of places, each between four pixels.
    fn bright(&self, from: usize, weights: [i32; 4], row: &mut [i32]) {
        let (above, below) = (&self.pixels[from..], &self.pixels[from + self.stride()..]);
        for (column, bright) in row.iter_mut().enumerate() {
            let sum = i32::from(above[column]) * weights[0]
                + i32::from(above[column + 1]) * weights[1]
                + i32::from(below[column]) * weights[2]
                + i32::from(below[column + 1]) * weights[3];
            *bright = rounded(sum, WEIGHT_BITS - FINE_BITS);
        }
    }

    /// The pixel at the corner of a window, and the weights of it and its neighbours.
    fn position(&self, [x, y]: Point) -> Option<(usize, [i32; 4])> {
        let (left, top) = (x.floor(), y.floor());
        let inside = |at: f32, len: usize| at >= -(WINDOW as f32) && at < len as f32;
        if !inside(left, self.width) || !inside(top, self.height) {
            return None;
        }
        let column = (left as isize + MARGIN as isize) as usize;
        let row = (top as isize + MARGIN as isize) as usize;
        let (a, b) = (x - left, y - top);
        let one = (1 << WEIGHT_BITS) as f32;
        let round = |weight: f32| (weight * one).round_ties_even() as i32;
        let three = [round((1.0 - a) * (1.0 - b)), round(a * (1.0 - b)), round((1.0 - a) * b)];
        let rest = (1 << WEIGHT_BITS) - three.iter().sum::<i32>();
        Some((row * self.stride() + column, [three[0], three[1], three[2], rest]))
    }
}

/// Drops this many fractional bits.
fn rounded(number: i32, bits: u32) -> i32 {
    (number + (1 << (bits - 1))) >> bits
}

/// The derivatives of Scharr at a pixel.
fn slope(pixels: &[u8], at: usize, stride: usize) -> [i16; 2] {
    let pixel = |at: usize| i16::from(pixels[at]);
    let column = |at: usize| (pixel(at - stride) + pixel(at + stride)) * 3 + pixel(at) * 10;
    let change = |at: usize| pixel(at + stride) - pixel(at - stride);
    [column(at + 1) - column(at - 1), (change(at + 1) + change(at - 1)) * 3 + change(at) * 10]
}

/// The image at half its size, blurred by 1 4 6 4 1 in both directions.
fn half(pixels: &[u8], width: usize, height: usize) -> (Vec<u8>, usize, usize) {
    const WEIGHTS: [(isize, u32); 5] = [(-2, 1), (-1, 4), (0, 6), (1, 4), (2, 1)];
    let (columns, rows) = (width.div_ceil(2), height.div_ceil(2));
    let mut out = Vec::with_capacity(columns * rows);
    let mut blurred = vec![0u32; width];
    for row in 0..rows {
        blurred.fill(0);
        for (by, weight) in WEIGHTS {
            let from = &pixels[mirrored(2 * row as isize + by, height) * width..][..width];
            for (sum, &pixel) in blurred.iter_mut().zip(from) {
                *sum += weight * u32::from(pixel);
            }
        }
        for column in 0..columns {
            let at = |by: isize| blurred[mirrored(2 * column as isize + by, width)];
            let sum: u32 = WEIGHTS.iter().map(|&(by, weight)| weight * at(by)).sum();
            out.push(((sum + 128) >> 8) as u8);
        }
    }
    (out, columns, rows)
}

/// The index in a row of this many pixels, mirrored at the centre of its outermost pixels.
fn mirrored(at: isize, len: usize) -> usize {
    let last = len as isize - 1;
    if last <= 0 {
        return 0;
    }
    let at = at.rem_euclid(2 * last);
    at.min(2 * last - at) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A smooth picture, seen from so far to the right and below.
    fn seen_from(dx: f32, dy: f32, width: usize, height: usize) -> Pyramid {
        let mut grey = Vec::new();
        for y in 0..height {
            for x in 0..width {
                let (x, y) = (x as f32 + dx, y as f32 + dy);
                let wave = (x * 0.31).sin() + (y * 0.27).cos() + ((x + y) * 0.13).sin();
                grey.push((128.0 + 40.0 * wave) as u8);
            }
        }
        Pyramid::new(&grey, width, height)
    }

    #[test]
    fn points_move_with_the_picture() {
        let (from, to) = (seen_from(0.0, 0.0, 160, 120), seen_from(-3.25, 1.5, 160, 120));
        let points = [[40.0, 40.0], [80.5, 61.25], [120.0, 90.0]];
        for start in points {
            let end = from.track(&to, start);
            let moved = [end[0] - start[0], end[1] - start[1]];
            assert!((moved[0] - 3.25).abs() < 0.1 && (moved[1] + 1.5).abs() < 0.1, "{moved:?}");
        }
    }

    #[test]
    fn what_cannot_be_followed_stays() {
        let flat = Pyramid::new(&[90; 64 * 64], 64, 64);
        let far = [[30.0, 30.0], [-500.0, 3.0], [1e30, f32::NAN], [f32::INFINITY, 0.0]];
        let found = far.map(|point| flat.track(&flat, point));
        assert_eq!(found[..2], far[..2]);
        assert_eq!(found[3][0], f32::INFINITY);
        let nothing = Pyramid::new(&[], 0, 7);
        assert_eq!(nothing.track(&flat, [3.0, 4.0]), [3.0, 4.0]);
        for (width, height) in [(1, 1), (2, 40), (21, 22), (43, 43)] {
            let small = seen_from(0.0, 0.0, width, height);
            let found = small.track(&small, [0.5, 0.5]);
            assert!((found[0] - 0.5).abs() < 0.01, "{width} x {height}: {found:?}");
        }
    }

    #[test]
    fn mirrors() {
        let found: Vec<usize> = (-5..8).map(|at| mirrored(at, 4)).collect();
        assert_eq!(found, [1, 2, 3, 2, 1, 0, 1, 2, 3, 2, 1, 0, 1]);
        assert_eq!((mirrored(-9, 1), mirrored(3, 2)), (0, 1));
    }
}
