//! Masks of COCO: polygons, and runs of pixels, painted into one map of classes.
//!
//! Runs go down the columns of an image, alternately out of the mask and in it. COCO writes them as a list of
//! lengths, or in text: six bits a character, five of a number and one that says that more follow; from the third
//! run on, less the run two before. A polygon covers the pixels that `pycocotools` gives it, whose steps are repeated
//! here: the boundary is drawn five times as large, and counts where it crosses the middle of a column.
//!
//! Absent on purpose: the JSON around the masks, and everything about files.

use std::ops::Range;

use super::FormatError;

/// How much larger a boundary is drawn.
const SCALE: f64 = 5.0;
/// A corner lies at most this many images away from the image.
const FAR: f64 = 2.0;
/// Crossings of columns that a polygon has at most.
const MAX_BORDERS: usize = 16 << 20;

/// The class of each pixel of an image, painted mask by mask.
#[derive(Debug)]
pub(crate) struct ClassMap {
    height: usize,
    width: usize,
    /// By columns: 0 for none.
    pixels: Vec<u16>,
    /// Steps along boundaries, and pixels to paint, that are left: a few corners can ask for any number.
    work: u64,
}

/// The class of a pixel that masks of several classes cover.
pub(crate) const SEVERAL: u16 = u16::MAX;

impl ClassMap {
    /// A map without a class.
    pub(crate) fn new(height: usize, width: usize) -> ClassMap {
        let pixels = vec![0; height * width];
        let work = (256 * pixels.len() as u64).clamp(10_000_000, 4_000_000_000);
        ClassMap { height, width, pixels, work }
    }

    /// Paints the inside of a polygon: x and y of each corner.
    pub(crate) fn polygon(&mut self, corners: &[f64], class: u16) -> Result<(), FormatError> {
        let runs = polygon(corners, self.height, self.width, &mut self.work)?;
        self.paint(runs, class)
    }

    /// Paints runs of these lengths.
    pub(crate) fn runs(&mut self, lengths: &[u64], class: u16) -> Result<(), FormatError> {
        let all = self.pixels.len() as u64;
        let (mut at, mut inside) = (0u64, Vec::new());
        for (run, &length) in lengths.iter().enumerate() {
            let end = at.checked_add(length).filter(|&end| end <= all).ok_or_else(|| {
                let expected = format!("runs of {all} pixels");
                FormatError::new(run as u64, expected, "longer ones")
            })?;
            if run % 2 == 1 {
                inside.push(at as usize..end as usize);
            }
            at = end;
        }
        if at != all {
            let expected = format!("runs of {all} pixels");
            return Err(FormatError::new(lengths.len() as u64, expected, format!("runs of {at}")));
        }
        self.paint(inside, class)
    }

    /// Paints runs that are written as text.
    pub(crate) fn text(&mut self, text: &[u8], class: u16) -> Result<(), FormatError> {
        self.runs(&lengths(text, self.pixels.len() as u64)?, class)
    }

    fn paint(
        &mut self,
        runs: impl IntoIterator<Item = Range<usize>>,
        class: u16,
    ) -> Result<(), FormatError> {
        for run in runs {
            spend(&mut self.work, run.len() as u64)?;
            for pixel in &mut self.pixels[run] {
                *pixel = if *pixel == 0 || *pixel == class { class } else { SEVERAL };
            }
        }
        Ok(())
    }

    /// The classes of the pixels, row by row.
    pub(crate) fn rows(&self) -> impl Iterator<Item = u16> + '_ {
        let row = move |y| (0..self.width).map(move |x| self.pixels[x * self.height + y]);
        (0..self.height).flat_map(row)
    }
}

/// Takes from what is left of the work for an image.
fn spend(work: &mut u64, steps: u64) -> Result<(), FormatError> {
    *work = work.checked_sub(steps).ok_or_else(|| {
        FormatError::new(0, "masks that cover their image at most 256 times", "more")
    })?;
    Ok(())
}

/// The lengths of runs in text.
fn lengths(text: &[u8], all: u64) -> Result<Vec<u64>, FormatError> {
    let mut lengths: Vec<i64> = Vec::new();
    let mut rest = text.iter().enumerate();
    while let Some((start, first)) = rest.next() {
        let (mut number, mut shift, mut character) = (0i64, 0, Some(first));
        loop {
            let bits = character.and_then(|c| c.checked_sub(48)).filter(|bits| *bits < 64);
            // Seven characters hold more than any number of pixels.
            let bits = bits.filter(|_| shift < 35).ok_or_else(|| {
                FormatError::new(start as u64, "a run in text as COCO writes it", "other text")
            })?;
            number |= i64::from(bits & 0x1f) << shift;
            shift += 5;
            if bits & 0x20 == 0 {
                if bits & 0x10 != 0 {
                    number |= -1 << shift;
                }
                break;
            }
            character = rest.next().map(|(_, character)| character);
        }
        // From the third on, as the first two have nothing to differ from.
        if lengths.len() > 2 {
            number += lengths[lengths.len() - 2];
        }
        if number < 0 || number as u64 > all {
            let expected = format!("a run of at most {all} pixels");
            return Err(FormatError::new(start as u64, expected, format!("{number}")));
        }
        lengths.push(number);
    }
    Ok(lengths.into_iter().map(|length| length as u64).collect())
}

/// The runs of pixels, down the columns, inside a polygon.
fn polygon(
    corners: &[f64],
    height: usize,
    width: usize,
    work: &mut u64,
) -> Result<Vec<Range<usize>>, FormatError> {
    if corners.len() < 6 || corners.len() % 2 != 0 {
        let found = format!("{} numbers", corners.len());
        return Err(FormatError::new(0, "x and y of three corners or more", found));
    }
    let (h, w) = (height as f64, width as f64);
    let mut scaled = Vec::with_capacity(corners.len() / 2 + 1);
    for (at, corner) in corners.chunks_exact(2).enumerate() {
        let is_near = |value: f64, size: f64| value >= -FAR * size && value <= (FAR + 1.0) * size;
        if !is_near(corner[0], w) || !is_near(corner[1], h) {
            let found = format!("({}, {})", corner[0], corner[1]);
            let expected = format!("a corner near an image of {width} x {height}");
            return Err(FormatError::new(2 * at as u64, expected, found));
        }
        let large = |value: f64| (SCALE * value + 0.5) as i64;
        scaled.push((large(corner[0]), large(corner[1])));
    }
    scaled.push(scaled[0]);
    // Positions, down the columns, where the inside begins and ends.
    let mut borders = Vec::new();
    let mut before: Option<(i64, i64)> = None;
    let mut is_long = false;
    let mut point = |u: i64, v: i64| {
        if let Some((u0, v0)) = before.filter(|(u0, _)| *u0 != u) {
            let x = (if u < u0 { u } else { u - 1 }) as f64;
            let x = (x + 0.5) / SCALE - 0.5;
            if x.floor() == x && x >= 0.0 && x <= w - 1.0 {
                let y = ((v.min(v0) as f64 + 0.5) / SCALE - 0.5).clamp(0.0, h).ceil();
                is_long |= borders.len() == MAX_BORDERS;
                if !is_long {
                    borders.push(x as usize * height + y as usize);
                }
            }
        }
        before = Some((u, v));
    };
    for edge in scaled.windows(2) {
        let [(xs, ys), (xe, ye)] = [edge[0], edge[1]];
        let (dx, dy) = ((xe - xs).abs(), (ye - ys).abs());
        let is_flat = dx >= dy;
        let flips = if is_flat { xs > xe } else { ys > ye };
        let ((xs, ys), (xe, ye)) = if flips { ((xe, ye), (xs, ys)) } else { ((xs, ys), (xe, ye)) };
        let len = dx.max(dy);
        spend(work, len as u64 + 1)?;
        // An edge without length is one point.
        let slope = match (len, is_flat) {
            (0, _) => 0.0,
            (_, true) => (ye - ys) as f64 / dx as f64,
            (_, false) => (xe - xs) as f64 / dy as f64,
        };
        for d in 0..=len {
            let t = if flips { len - d } else { d };
            match is_flat {
                true => point(t + xs, (ys as f64 + slope * t as f64 + 0.5) as i64),
                false => point((xs as f64 + slope * t as f64 + 0.5) as i64, t + ys),
            }
        }
    }
    if is_long {
        let expected = format!("a polygon that crosses at most {MAX_BORDERS} columns");
        return Err(FormatError::new(0, expected, "one that crosses more"));
    }
    borders.sort_unstable();
    let all = height * width;
    let end = |pair: &[usize]| pair.get(1).copied().unwrap_or(all);
    Ok(borders.chunks(2).map(|pair| pair[0].min(all)..end(pair).min(all)).collect())
}
