//! Outlines of the areas in a mask, as polygons of few points.
//!
//! Borders are followed after Suzuki and Abe ("Topological structural analysis of digitized binary
//! images by border following", 1985), and thinned out to their dominant points after Teh and Chin
//! ("On the detection of dominant points on digital curves", 1989), with the curvature that is the
//! difference of neighbouring directions. Points and their order are the same as from OpenCV 3.4's
//! `findContours` with `RETR_LIST` and `CHAIN_APPROX_TC89_L1`, which Python datadings calls, in all
//! corner cases; so the choices that the papers leave open are OpenCV's.

use super::Limits;
use crate::error::{Error, Result};

/// A polygon: x and y of each corner.
pub(crate) type Contour = Vec<[i32; 2]>;

/// The contours of the pixels at these rows and columns, holes among them; those that begin
/// furthest down come first.
///
/// # Errors
///
/// [`Limit`](crate::ErrorKind::Limit) if they are spread over more than `limits` allow.
pub(crate) fn contours(pixels: &[(usize, usize)], limits: Limits) -> Result<Vec<Contour>> {
    let mut mask = Mask::around(pixels, limits)?;
    for (row, column) in pixels {
        let (row, column) = (row - mask.top + 1, column - mask.left + 1);
        mask.cells[row * mask.stride + column] = FRESH;
    }
    let mut found = mask.scan();
    found.reverse();
    Ok(found)
}

/// The eight neighbours: right, and on against the clock. Opposite ones are four apart.
const STEPS: [[i32; 2]; 8] = [[1, 0], [1, -1], [0, -1], [-1, -1], [-1, 0], [-1, 1], [0, 1], [1, 1]];
const RIGHT: usize = 0;
const LEFT: usize = 4;

/// Not in the mask.
const EMPTY: u8 = 0;
/// On no border that was followed yet.
const FRESH: u8 = 1;
/// On a border.
const SEEN: u8 = 2;
/// On a border, and right of it is none of the mask: no other border begins there.
const EDGE: u8 = 3;

/// The rectangle around the pixels, with a frame of empty ones, so that all have eight neighbours.
struct Mask {
    cells: Vec<u8>,
    stride: usize,
    height: usize,
    top: usize,
    left: usize,
}

impl Mask {
    fn around(pixels: &[(usize, usize)], limits: Limits) -> Result<Mask> {
        let range = |of: fn(&(usize, usize)) -> usize| {
            let ends = (pixels.iter().map(of).min(), pixels.iter().map(of).max());
            let (first, last) = (ends.0.unwrap_or(0), ends.1.unwrap_or(0));
            (first, last, last - first + 1)
        };
        let ((top, bottom, height), (left, right, width)) = (range(|at| at.0), range(|at| at.1));
        let cells = height.saturating_add(2).saturating_mul(width.saturating_add(2));
        // Coordinates must fit in the numbers of a contour.
        if cells as u64 > limits.pixels || bottom.max(right) > i32::MAX as usize {
            let message = format!(
                "expected a mask of at most {} pixels, found one to {bottom}, {right}",
                limits.pixels
            );
            return Err(Error::above_limit("max_pixels", message));
        }
        Ok(Mask { cells: vec![EMPTY; cells], stride: width + 2, height, top, left })
    }

    fn scan(&mut self) -> Vec<Contour> {
        let mut found = Vec::new();
        for row in 1..=self.height {
            let mut before = EMPTY;
            for column in 1..self.stride - 1 {
                let at = row * self.stride + column;
                let hole = match (before, self.cells[at]) {
                    (EMPTY, FRESH) => Some(false),
                    (FRESH | SEEN, EMPTY) => Some(true),
                    _ => None,
                };
                if let Some(hole) = hole {
                    let left = usize::from(hole);
                    let directions = self.follow(at - left, hole);
                    let origin = [self.left + column - left - 1, self.top + row - 1];
                    found.push(Curve::new(origin.map(|at| at as i32), &directions).polygon());
                }
                // An earlier border may have passed here.
                before = self.cells[at];
            }
        }
        found
    }

    /// Follows a border once around, and marks it; gives the direction of each step. There is none
    /// if the pixel is alone.
    fn follow(&mut self, start: usize, hole: bool) -> Vec<u8> {
        let mut directions = Vec::new();
        // The side where the border was met, which is empty.
        let outside = if hole { RIGHT } else { LEFT };
        let Some(mut from) =
            (1..8).map(|n| (outside + 8 - n) & 7).find(|&side| self.is_set(start, side))
        else {
            self.cells[start] = EDGE;
            return directions;
        };
        let (mut at, last) = (start, self.step(start, from));
        loop {
            // The neighbour `from` is set, so the search ends there.
            let mut to = from + 1;
            while !self.is_set(at, to & 7) {
                to += 1;
            }
            let to = to & 7;
            // The search went over the right neighbour, which is empty.
            if to >= 1 && to <= from {
                self.cells[at] = EDGE;
            } else if self.cells[at] == FRESH {
                self.cells[at] = SEEN;
            }
            directions.push(to as u8);
            let next = self.step(at, to);
            if next == start && at == last {
                return directions;
            }
            (at, from) = (next, (to + 4) & 7);
        }
    }

    fn step(&self, at: usize, side: usize) -> usize {
        let [x, y] = STEPS[side];
        at.wrapping_add_signed(y as isize * self.stride as isize + x as isize)
    }

    fn is_set(&self, at: usize, side: usize) -> bool {
        self.cells[self.step(at, side)] != EMPTY
    }
}

/// A closed curve of pixels.
struct Curve {
    points: Vec<[i32; 2]>,
    /// By how many eighths it turns at each point; 0 for points that are out of question.
    bends: Vec<u8>,
}

/// A point that may become a corner.
#[derive(Clone, Copy)]
struct Corner {
    /// Its place on the curve. One after the last is the first again.
    place: usize,
    /// How far to both sides the curve goes away from it.
    support: usize,
}

impl Curve {
    fn new(origin: [i32; 2], directions: &[u8]) -> Curve {
        let (mut at, mut before) = (origin, directions.last().copied().unwrap_or(0));
        let (mut points, mut bends) = (Vec::new(), Vec::new());
        for &direction in directions {
            let turn = before.abs_diff(direction);
            points.push(at);
            bends.push(turn.min(8 - turn));
            let [x, y] = STEPS[usize::from(direction)];
            at = [at[0] + x, at[1] + y];
            before = direction;
        }
        if points.is_empty() {
            points.push(origin);
        }
        Curve { points, bends }
    }

    fn polygon(mut self) -> Contour {
        if self.bends.is_empty() {
            return self.points;
        }
        let places = (0..self.points.len()).filter(|&place| self.bends[place] != 0);
        let corners = places.map(|place| Corner { place, support: self.support(place) }).collect();
        let corners = self.sharpest(corners);
        let mut corners = self.alone(corners);
        if corners.len() < self.points.len() {
            corners = self.thinned(self.opened(corners));
        }
        corners.iter().map(|corner| self.points[corner.place % self.points.len()]).collect()
    }

    fn before(&self, place: usize, steps: usize) -> usize {
        (place + self.points.len() - steps) % self.points.len()
    }

    fn after(&self, place: usize, steps: usize) -> usize {
        (place + steps) % self.points.len()
    }

    /// How many steps to both sides the chord gets longer, and the point further from it in
    /// relation to its length.
    fn support(&self, place: usize) -> usize {
        let (mut chord, mut distance, mut steps) = (0, 0, 1);
        let [px, py] = self.points[place].map(i64::from);
        loop {
            let [ax, ay] = self.points[self.before(place, steps)].map(i64::from);
            let [bx, by] = self.points[self.after(place, steps)].map(i64::from);
            let (dx, dy) = (bx - ax, by - ay);
            let longer = dx * dx + dy * dy;
            let further = (px - ax) * dy - (py - ay) * dx;
            let gain = (distance as f64 * longer as f64 - further as f64 * chord as f64) as f32;
            let nearer = (distance > 0 && gain <= 0.0) || (distance < 0 && gain >= 0.0);
            // Once around the chord has no length, so this ends.
            if steps > 1 && (chord >= longer || nearer) {
                return steps - 1;
            }
            (chord, distance) = (longer, further);
            steps += 1;
        }
    }

    /// Leaves corners out that have a sharper one within half of their support.
    fn sharpest(&mut self, corners: Vec<Corner>) -> Vec<Corner> {
        self.retain(corners, |curve, corner| {
            let bend = curve.bends[corner.place];
            (1..=corner.support / 2).all(|steps| {
                curve.bends[curve.before(corner.place, steps)] <= bend
                    && curve.bends[curve.after(corner.place, steps)] <= bend
            })
        })
    }

    /// Leaves corners of the least support out that are not sharper than both neighbours.
    fn alone(&mut self, corners: Vec<Corner>) -> Vec<Corner> {
        self.retain(corners, |curve, corner| {
            let bend = curve.bends[corner.place];
            let sharper = bend > curve.bends[curve.before(corner.place, 1)]
                && bend > curve.bends[curve.after(corner.place, 1)];
            corner.support != 1 || sharper
        })
    }

    /// One after the other: those that are left out are no rivals of those after them.
    fn retain(
        &mut self,
        mut corners: Vec<Corner>,
        keeps: impl Fn(&Curve, Corner) -> bool,
    ) -> Vec<Corner> {
        corners.retain(|&corner| {
            let kept = keeps(self, corner);
            if !kept {
                self.bends[corner.place] = 0;
            }
            kept
        });
        corners
    }

    /// Cuts the circle of corners open where it does not cut through neighbours.
    fn opened(&self, mut corners: Vec<Corner>) -> Vec<Corner> {
        let (len, count) = (self.points.len(), corners.len());
        let ends = (corners.first().map(|c| c.place), corners.last().map(|c| c.place));
        if ends != (Some(0), Some(len - 1)) {
            return corners;
        }
        // How many more are neighbours of the first, and of the last.
        let head = (0..count).take_while(|&at| corners[at].place == at).count() - 1;
        let in_tail = |back: &usize| corners[count - 1 - back].place == len - 1 - back;
        let tail = (0..count).take_while(in_tail).count() - 1;
        if head == 0 && tail == 0 {
            // Two neighbours: together at the end.
            corners.rotate_left(1);
            corners[count - 1].place = len;
            return corners;
        }
        // Of more than two the outer ones stay.
        corners[head..count - tail].to_vec()
    }

    /// Of two corners that are neighbours one stays, of more the outer ones.
    fn thinned(&self, corners: Vec<Corner>) -> Vec<Corner> {
        let bend = |corner: Corner| self.bends[corner.place % self.points.len()];
        let (mut kept, mut cut) = (Vec::new(), false);
        for run in corners.chunk_by(|one, next| next.place == one.place + 1) {
            let was_cut = std::mem::replace(&mut cut, false);
            match *run {
                [one, other] => {
                    let sharper = bend(one) > bend(other);
                    if sharper || (bend(one) == bend(other) && one.support <= other.support) {
                        kept.push(one);
                        cut = true;
                    } else {
                        // OpenCV unlinks the first from the corner before it. If that has been
                        // left out itself, both of these stay.
                        kept.extend(was_cut.then_some(one));
                        kept.push(other);
                    }
                }
                [first, .., last] => kept.extend([first, last]),
                _ => kept.extend(run),
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MAX_FILE, MAX_PIXELS};
    use super::*;
    use crate::error::ErrorKind;

    const ALL: Limits = Limits { bytes: MAX_FILE, pixels: MAX_PIXELS };

    /// The rows of a mask, and what is found in it.
    type Case = (&'static [&'static str], &'static [&'static [[i32; 2]]]);

    /// What OpenCV 3.4.18 finds. The last three have neighbours for corners: at the beginning of
    /// the curve, around it, and after a corner that was left out.
    #[test]
    fn polygons_are_those_of_opencv() {
        let masks: [Case; 8] = [
            (&["#"], &[&[[0, 0]]]),
            (&["##", "##"], &[&[[1, 0]]]),
            (
                &[
                    "..........",
                    ".########.",
                    ".#......#.",
                    ".#.####.#.",
                    ".#......#.",
                    ".########.",
                    "....#.....",
                ],
                &[
                    &[[3, 3], [6, 3]],
                    &[[2, 1], [8, 2], [7, 5], [1, 4]],
                    &[[1, 1], [1, 5], [4, 6], [8, 5], [8, 1]],
                ],
            ),
            (&["##"], &[&[[1, 0]]]),
            (&["...", "...", "..#", "##.", ".#."], &[&[[2, 2], [0, 3]]]),
            (
                &[".....#.#.#..", "....###.#.#.", "...#####.#.."],
                &[&[[9, 2]], &[[7, 2]], &[[5, 0], [3, 2], [8, 1], [8, 1]]],
            ),
            (
                &["...#.####.#", "#####....#.", "#.#####.#..", "###.#.###.."],
                &[
                    &[[1, 3]],
                    &[[4, 1], [9, 1], [7, 3]],
                    &[[0, 1], [0, 3], [3, 2], [5, 2], [8, 3], [10, 0], [8, 0], [3, 0]],
                ],
            ),
            (
                &["...####.....###.###", ".......########.##."],
                &[&[[16, 1], [18, 0]], &[[3, 0], [6, 0], [14, 0], [12, 0], [7, 1], [6, 0]]],
            ),
        ];
        for (rows, expected) in masks {
            let mut set = Vec::new();
            for (row, text) in rows.iter().enumerate() {
                set.extend(text.match_indices('#').map(|(column, _)| (row, column)));
            }
            assert_eq!(contours(&set, ALL).unwrap(), expected, "{rows:#?}");
            let far: Vec<_> =
                set.iter().map(|(row, column)| (row + 70_000, column + 900)).collect();
            let moved = contours(&set, ALL).unwrap().into_iter().map(|mut contour| {
                contour.iter_mut().for_each(|[x, y]| (*x, *y) = (*x + 900, *y + 70_000));
                contour
            });
            let expected: Vec<Contour> = moved.collect();
            assert_eq!(contours(&far, ALL).unwrap(), expected, "{rows:#?}");
        }
    }

    #[test]
    fn a_mask_has_its_limits() {
        assert!(contours(&[], ALL).unwrap().is_empty());
        for far in [(1 << 16, 1 << 16), (1 << 30, 0), (0, u32::MAX as usize)] {
            assert_eq!(contours(&[(0, 0), far], ALL).unwrap_err().kind(), ErrorKind::Limit);
        }
        assert_eq!(contours(&[(3, 1 << 30)], ALL).unwrap(), [[[1 << 30, 3]]]);
    }
}
