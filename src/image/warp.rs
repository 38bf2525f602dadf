//! [`Warp`]: images that are turned, moved, scaled and sheared about their middle, as torch computes them.
//!
//! For each new pixel its place in the old image is computed in single precision, by the operations of torch's
//! `affine_grid` and `grid_sample` in their order, so that pixels are equal. Where torch adds a product in one
//! instruction, double precision stands in for it.

use super::check::check_turned;
use super::plan::Action;
use super::resample::Pixels;
use super::step::{Interpolation, Size, unfit};
use crate::error::Result;

/// What `rotate` and `affine` do. Degrees are clockwise.
struct Motion {
    angle: f64,
    translate: [f64; 2],
    scale: f64,
    shear: [f64; 2],
}

impl Motion {
    fn of(action: &Action) -> Option<Motion> {
        match *action {
            Action::Rotate { angle, .. } => {
                Some(Motion { angle: -angle, translate: [0.0; 2], scale: 1.0, shear: [0.0; 2] })
            }
            Action::Affine { angle, translate, scale, shear, .. } => {
                Some(Motion { angle, translate: translate.map(f64::from), scale, shear })
            }
            _ => None,
        }
    }

    /// Columns and rows of a turned, scaled and sheared place, without the middle and the shift.
    fn numbers(&self) -> [f64; 4] {
        let [angle, x, y] = [self.angle, self.shear[0], self.shear[1]].map(f64::to_radians);
        // From the crate, because the functions of the systems differ in the last bit.
        let (cos_y, tan_x) = (libm::cos(y), libm::tan(x));
        let a = libm::cos(angle - y) / cos_y;
        let b = -(a * tan_x + libm::sin(angle));
        let c = libm::sin(angle - y) / cos_y;
        let d = libm::cos(angle) - c * tan_x;
        [a, b, c, d]
    }

    /// From places of the result to places of the image, counted from its middle.
    fn back(&self) -> [f64; 6] {
        let [a, b, c, d] = self.numbers();
        let ([x, y], scale) = (self.translate, self.scale);
        let [a, b, c, d] = [d / scale, -b / scale, -c / scale, a / scale];
        [a, b, -a * x - b * y, c, d, -c * x - d * y]
    }

    /// From places of the image to places of the result, both counted from the corner.
    fn forth(&self, of: Size) -> [f64; 6] {
        let [a, b, c, d] = self.numbers().map(|number| number * self.scale);
        let (x, y) = (f64::from(of.width) * 0.5, f64::from(of.height) * 0.5);
        let right = x + self.translate[0] - a * x - b * y;
        let down = y + self.translate[1] - c * x - d * y;
        [a, b, right, c, d, down]
    }
}

/// How many quarters of a turn an angle is, anticlockwise, where these keep all pixels or are asked to.
pub(super) fn quarters(angle: f64, of: Size, expand: bool) -> Option<u8> {
    let fits = expand || of.height == of.width;
    match angle.rem_euclid(360.0) {
        0.0 => Some(0),
        180.0 => Some(2),
        90.0 if fits => Some(1),
        270.0 if fits => Some(3),
        _ => None,
    }
}

/// The size after `rotate` or `affine`, whose numbers may come from anywhere.
pub(super) fn size_after(action: &Action, of: Size) -> Result<Size> {
    let (interpolation, is_number) = match *action {
        Action::Rotate { angle, interpolation, .. } => (interpolation, angle.is_finite()),
        Action::Affine { angle, scale, shear: [x, y], interpolation, .. } => {
            let is_number = [angle, scale, x, y].iter().all(|number| number.is_finite());
            (interpolation, is_number && scale > 0.0)
        }
        _ => return Ok(of),
    };
    check_turned(interpolation)?;
    if !is_number {
        return Err(unfit("finite numbers, and a scale above 0", action));
    }
    let Action::Rotate { angle, expand: true, .. } = *action else { return Ok(of) };
    Ok(match quarters(angle, of, true) {
        Some(1 | 3) => Size { height: of.width, width: of.height },
        Some(_) => of,
        None => expanded(&turned(angle).back(), of),
    })
}

fn turned(angle: f64) -> Motion {
    // torchvision takes the rest for pixels, but not for boxes.
    let angle = -angle.rem_euclid(360.0);
    Motion { angle, translate: [0.0; 2], scale: 1.0, shear: [0.0; 2] }
}

/// The smallest size that holds a turned image.
fn expanded(back: &[f64; 6], of: Size) -> Size {
    let back = back.map(|number| number as f32);
    let half = [0.5 * of.width as f32, 0.5 * of.height as f32];
    let side = |axis: usize| {
        let (mut least, mut most) = (f32::INFINITY, f32::NEG_INFINITY);
        for (x, y) in [(-1.0, -1.0), (-1.0, 1.0), (1.0, 1.0), (1.0, -1.0)] {
            let (x, y) = (x * half[0] * back[3 * axis], y * half[1] * back[3 * axis + 1]);
            let place = x + y + back[3 * axis + 2];
            (least, most) = (least.min(place), most.max(place));
        }
        // A ten-thousandth of a pixel more is none.
        let cut = |place: f32| ((place + half[axis]) * 1e4).trunc() * 1e-4;
        (cut(most).ceil() - cut(least).floor()).max(1.0) as u32
    };
    Size { height: side(1), width: side(0) }
}

/// What a turned box is clipped to, and a box around the four corners of each one that was turned. `round` says how
/// precise numbers are.
pub(super) fn move_boxes(
    action: &Action,
    of: Size,
    boxes: &mut [[f64; 4]],
    round: &dyn Fn(f64) -> f64,
) -> Result<Size> {
    let size = size_after(action, of)?;
    let Some(motion) = Motion::of(action) else { return Ok(size) };
    let [a, b, right, c, d, down] = motion.forth(of).map(round);
    let around = |&[left, top, end, bottom]: &[f64; 4]| {
        let mut all = [f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY];
        for (x, y) in [(left, top), (end, top), (end, bottom), (left, bottom)] {
            let at = |a: f64, b: f64, c: f64| round(round(round(a * x) + round(b * y)) + c);
            let (x, y) = (at(a, b, right), at(c, d, down));
            all = [all[0].min(x), all[1].min(y), all[2].max(x), all[3].max(y)];
        }
        all
    };
    let (mut x, mut y) = (0.0, 0.0);
    if matches!(action, Action::Rotate { expand: true, .. }) {
        [x, y, ..] = around(&[0.0, 0.0, f64::from(of.width), f64::from(of.height)]);
    }
    for one in boxes {
        let [left, top, end, bottom] = around(one);
        *one = [left - x, top - y, end - x, bottom - y].map(round);
    }
    Ok(size)
}

/// Where the pixels of a result come from.
#[derive(Debug, Clone)]
pub(super) struct Warp {
    /// What a column, a row and 1 count in the place along x, and along y, of -1 to 1.
    x: [f32; 3],
    y: [f32; 3],
    old: Size,
    new: Size,
}

/// The places of one row, but for what its columns count.
struct Line<'a> {
    warp: &'a Warp,
    x: f32,
    y: f32,
}

impl Warp {
    /// Of `rotate` or `affine`, unless that is whole [`quarters`] of a turn.
    pub(super) fn of(action: &Action, old: Size) -> Option<Warp> {
        let motion = match *action {
            Action::Rotate { angle, expand, .. } => {
                if quarters(angle, old, expand).is_some() {
                    return None;
                }
                turned(angle)
            }
            _ => Motion::of(action)?,
        };
        let new = size_after(action, old).ok()?;
        let back = motion.back().map(|number| number as f32);
        let (wide, high) = (0.5 * old.width as f32, 0.5 * old.height as f32);
        let x = [back[0], back[1], back[2]].map(|number| number / wide);
        let y = [back[3], back[4], back[5]].map(|number| number / high);
        Some(Warp { x, y, old, new })
    }

    pub(super) fn size(&self) -> Size {
        self.new
    }

    fn line(&self, row: usize) -> Line<'_> {
        let row = row as f32 - (self.new.height - 1) as f32 * 0.5;
        Line { warp: self, x: row * self.x[1], y: row * self.y[1] }
    }

    /// The row and the column of the nearest pixel of the image, if there is one.
    pub(super) fn nearest(&self, row: usize, column: usize) -> Option<(usize, usize)> {
        self.line(row).nearest(column)
    }

    /// The pixels of the result.
    pub(super) fn run(
        &self,
        from: Pixels<'_>,
        interpolation: Interpolation,
        fill: [u8; 4],
        out: &mut [u8],
    ) {
        match from.channels {
            1 => self.run_of::<1>(from, interpolation, fill, out),
            3 => self.run_of::<3>(from, interpolation, fill, out),
            _ => self.run_of::<4>(from, interpolation, fill, out),
        }
    }

    fn run_of<const C: usize>(
        &self,
        from: Pixels<'_>,
        interpolation: Interpolation,
        fill: [u8; 4],
        out: &mut [u8],
    ) {
        let is_nearest = interpolation == Interpolation::Nearest;
        let floats = fill.map(f32::from);
        for (row, out) in out.chunks_exact_mut(self.new.width as usize * C).enumerate() {
            let line = self.line(row);
            for (column, out) in out.chunks_exact_mut(C).enumerate() {
                if is_nearest {
                    out.copy_from_slice(match line.nearest(column) {
                        Some((y, x)) => &from.bytes[y * from.stride + x * C..][..C],
                        None => &fill[..C],
                    });
                } else {
                    let (x, y) = line.at(column);
                    out.copy_from_slice(&blended::<C>(&from, x, y, &floats));
                }
            }
        }
    }
}

impl Line<'_> {
    /// The place in the image, where whole numbers are the middles of pixels.
    #[inline(always)]
    fn at(&self, column: usize) -> (f32, f32) {
        let Warp { x, y, old, new } = self.warp;
        let column = column as f32 - (new.width - 1) as f32 * 0.5;
        let place = |[of_column, _, of_one]: [f32; 3], of_row: f32, side: u32| {
            let place = column * of_column + of_row + of_one;
            sum(place + 1.0, side as f32 / 2.0, -0.5)
        };
        (place(*x, self.x, old.width), place(*y, self.y, old.height))
    }

    #[inline(always)]
    fn nearest(&self, column: usize) -> Option<(usize, usize)> {
        let (x, y) = self.at(column);
        let Size { height, width } = self.warp.old;
        Some((whole(y, height)?, whole(x, width)?))
    }
}

/// `a × b + c`, rounded once.
#[inline(always)]
fn sum(a: f32, b: f32, c: f32) -> f32 {
    (f64::from(a) * f64::from(b) + f64::from(c)) as f32
}

/// The nearest whole number, halves to the even one, if it is below `end` and not below 0.
#[inline(always)]
fn whole(place: f32, end: u32) -> Option<usize> {
    // Next to this number a double has no bits for what follows the point.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    let whole = f64::from(place) + SHIFT - SHIFT;
    (0.0 <= whole && whole < f64::from(end)).then_some(whole as usize)
}

/// The next whole number below. Older processors call a function for `floor`.
#[inline(always)]
fn below(place: f32) -> i64 {
    let whole = place as i64;
    whole - i64::from(whole as f32 > place)
}

/// Between four pixels. Those outside of the image are black, and count as the fill value in the end.
#[inline(always)]
fn blended<const C: usize>(from: &Pixels<'_>, x: f32, y: f32, fill: &[f32; 4]) -> [u8; C] {
    let (width, height) = (from.width as f32, from.height as f32);
    let mut values = [0.0f32; C];
    let mut inside = 0.0f32;
    // Not so for a place that is no number.
    if -1.0 < x && x < width && -1.0 < y && y < height {
        let (left, top) = (below(x), below(y));
        let (w, n) = (x - left as f32, y - top as f32);
        let (e, s) = (1.0 - w, 1.0 - n);
        let weights = [s * e, s * w, n * e, n * w];
        for (at, weight) in weights.into_iter().enumerate() {
            let (x, y) = ((left + (at & 1) as i64) as usize, (top + (at >> 1) as i64) as usize);
            // A number below 0 has become a large one.
            if x < from.width && y < from.height {
                let pixel = &from.bytes[y * from.stride + x * C..][..C];
                for channel in 0..C {
                    values[channel] = sum(f32::from(pixel[channel]), weight, values[channel]);
                }
                inside = sum(1.0, weight, inside);
            }
        }
    }
    std::array::from_fn(|channel| {
        nearest_even((values[channel] - fill[channel]) * inside + fill[channel])
    })
}

/// A number within what pixels can be, to the nearest, halves to the even one.
#[inline(always)]
pub(super) fn nearest_even(value: f32) -> u8 {
    // Next to this number a float has no bits for what follows the point.
    (value + 8_388_608.0).to_bits() as u8
}
