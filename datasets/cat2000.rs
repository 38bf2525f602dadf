//! CAT2000: where people looked on images of 20 kinds.

use fast_image_resize as fir;
use ndarray::{Array2, ArrayD};

use super::parts::{Image, Sample, Samples, Subsampling, decode_rgb, encode_jpeg, gaze};
use super::{Dataset, File, Opening, Pass, Split, Take};
use crate::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::format::mat::MatFile;

/// CAT2000.
pub(super) static CAT2000: Dataset = Dataset {
    name: "CAT2000",
    title: "4,000 images of 20 kinds, and for half of them where 18 people looked",
    notes: "Images are freed of their grey frame and scaled so that the longer side has 1024 \
            pixels, in JPEG of quality 90, and locations with them. Locations on the frame are left \
            out; Python forgets those to the left and above of it, and leaves out the corner.",
    url: "http://saliency.mit.edu/results_cat2000.html",
    licence: "not stated by its authors",
    citation: "Ali Borji and Laurent Itti: CAT2000: A Large Scale Fixation Dataset for Boosting \
               Saliency Research. CVPR 2015 workshop on \"Future of Datasets\", arXiv:1505.03581",
    files: &[
        File::new("train", "trainSet.zip")
            .url("http://saliency.mit.edu/trainSet.zip")
            .md5("56ad5c77e6c8f72ed9ef2901628d6e48")
            .splits(&["train"]),
        File::new("test", "testSet.zip")
            .url("http://saliency.mit.edu/testSet.zip")
            .md5("903ec668df2e5a8470aef9d8654e7985")
            .splits(&["test"]),
    ],
    splits: &[Split::new("train", 2_000), Split::new("test", 2_000)],
    fields: &[
        ("key", "kind and name: Action/001.jpg"),
        ("image", "JPEG of quality 90, without the frame, 1024 pixels wide or high"),
        ("experiments", "one, of all people: locations (n x 2, <f8: x, y; nil in test), map (nil)"),
    ],
    classes: &[],
    takes: &[Take::Shuffle],
    read,
};

/// The longer side of an image, and how it is encoded.
const SIDE: u32 = 1024;
const QUALITY: u8 = 90;
/// Pixels that differ from the frame by more than this do not belong to it.
const FRAME: u8 = 10;

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let splits = CAT2000.splits.iter().filter(|split| opening.wants(split.name));
    splits.map(|split| pass(opening, split)).collect()
}

fn pass(opening: &Opening<'_>, split: &Split) -> Result<Pass> {
    let zip = opening.zip(split.name)?;
    let names = zip.names().filter(|name| is_stimulus(name));
    let names: Vec<String> = names.map(str::to_owned).collect();
    let total = names.len();
    let make = move |name: String| {
        let whole = gaze::read_with(&zip, &name, |bytes| decode_rgb(bytes, zip.limits()))?;
        let inside = Frame::around(&whole);
        let (image, scale) = inside.scaled(&whole)?;
        let jpeg = encode_jpeg(&image, QUALITY, Subsampling::S444)?;
        let map = name.replace("Stimuli", "FIXATIONLOCS").replace("jpg", "mat");
        let locations = match zip.has(&map) {
            true => {
                let fixations = gaze::read_with(&zip, &map, fixations)?;
                gaze::array(&inside.moved(&fixations, &image, scale))
            }
            false => Value::Nil,
        };
        Sample::new(gaze::last_two(&name))
            .bytes("image", &jpeg)
            .value("experiments", vec![gaze::experiment(locations)])
            .pack()
    };
    Ok(Pass::new(split, Samples::new(opening.options.order(names), make)).total(total))
}

/// There are saliency maps of models too, in folders `Output`.
fn is_stimulus(name: &str) -> bool {
    let known = name.contains("Stimuli") && !name.contains("Output") && name.ends_with(".jpg");
    known && !gaze::is_of_finder(name)
}

/// Columns and rows of the pixels that people looked at, row by row.
fn fixations(bytes: &[u8]) -> Result<Vec<[usize; 2]>> {
    let map: ArrayD<f32> = MatFile::parse(bytes)?.get("fixLocs")?.numbers()?;
    let &[_, width] = map.shape() else {
        let message = format!("expected rows and columns, found {} dimensions", map.ndim());
        return Err(Error::new(ErrorKind::Damaged, message));
    };
    let looked_at = map.iter().enumerate().filter(|(_, fixations)| **fixations != 0.0);
    Ok(looked_at.map(|(at, _)| [at % width, at / width]).collect())
}

/// The part of an image inside of its frame.
#[derive(Debug, PartialEq, Eq)]
struct Frame {
    left: u32,
    top: u32,
    width: u32,
    height: u32,
}

impl Frame {
    /// The pixels that are not of the colour of the first, and all between them; all of an image
    /// that has only one colour.
    fn around(image: &Image) -> Frame {
        let Image { width, height, ref pixels, .. } = *image;
        let first = pixels.get(..3).unwrap_or_default();
        let (mut left, mut top, mut right, mut bottom) = (width, height, 0, 0);
        for (y, row) in (0..height).zip(pixels.chunks(3 * width.max(1) as usize)) {
            let differs = |pixel: &[u8]| {
                pixel.iter().zip(first).any(|(value, frame)| value.abs_diff(*frame) > FRAME)
            };
            let differing = || row.chunks(3).map(differs);
            if let Some(from) = differing().position(|differs| differs) {
                let to = differing().rposition(|differs| differs).unwrap_or(from);
                (left, right) = (left.min(from as u32), right.max(to as u32 + 1));
                (top, bottom) = (top.min(y), y + 1);
            }
        }
        if right == 0 {
            return Frame { left: 0, top: 0, width, height };
        }
        Frame { left, top, width: right - left, height: bottom - top }
    }

    /// The inside scaled, and by how much.
    fn scaled(&self, image: &Image) -> Result<(Image, f64)> {
        let limit = |error: &dyn std::fmt::Display| Error::new(ErrorKind::Limit, error.to_string());
        let scale = f64::from(SIDE) / f64::from(self.width.max(self.height));
        let scaled = |side: u32| ((f64::from(side) * scale).round_ties_even() as u32).max(1);
        let (width, height) = (scaled(self.width), scaled(self.height));
        let rgb = fir::PixelType::U8x3;
        // A copy of the inside: what is left and right of it must not shine in.
        let from = fir::images::Image::from_vec_u8(self.width, self.height, self.cut(image), rgb);
        let from = from.map_err(|error| limit(&error))?;
        let mut to = fir::images::Image::new(width, height, rgb);
        let lanczos = fir::ResizeAlg::Convolution(fir::FilterType::Lanczos3);
        let options = fir::ResizeOptions::new().resize_alg(lanczos);
        fir::Resizer::new().resize(&from, &mut to, &options).map_err(|error| limit(&error))?;
        Ok((Image::new(width, height, 3, to.into_vec())?, scale))
    }

    fn cut(&self, image: &Image) -> Vec<u8> {
        let [left, top, width, height, whole] =
            [self.left, self.top, self.width, self.height, image.width]
                .map(|side| 3 * side as usize);
        let rows = image.pixels.chunks(whole.max(1)).skip(top / 3).take(height / 3);
        rows.flat_map(|row| &row[left..left + width]).copied().collect()
    }

    /// Where places are in what [`scaled`](Self::scaled) gave, without those outside.
    fn moved(&self, places: &[[usize; 2]], image: &Image, scale: f64) -> Array2<f64> {
        let corner = [self.left, self.top].map(f64::from);
        let end = [image.width, image.height].map(f64::from);
        let mut moved = Vec::with_capacity(2 * places.len());
        for place in places {
            let at = [0, 1].map(|axis| (place[axis] as f64 - corner[axis]) * scale);
            if [0, 1].iter().all(|&axis| at[axis] >= 0.0 && at[axis] < end[axis]) {
                moved.extend(at);
            }
        }
        let rows = moved.len() / 2;
        Array2::from_shape_fn((rows, 2), |(row, axis)| moved[2 * row + axis])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A grey image of 20 x 10 with these pixels in another colour.
    fn grey_but(pixels: &[(usize, usize, u8)]) -> Image {
        let mut image = Image::new(20, 10, 3, vec![126; 600]).unwrap();
        for &(x, y, value) in pixels {
            image.pixels[3 * (20 * y + x) + 1] = value;
        }
        image
    }

    #[test]
    fn frames() {
        let found = |pixels: &[_]| {
            let Frame { left, top, width, height } = Frame::around(&grey_but(pixels));
            [left, top, width, height]
        };
        assert_eq!(found(&[(3, 2, 0), (17, 8, 255)]), [3, 2, 15, 7]);
        assert_eq!(found(&[(5, 4, 137), (6, 4, 136), (4, 4, 115)]), [4, 4, 2, 1]);
        // Python fails here.
        assert_eq!(found(&[(5, 4, 136), (6, 4, 116)]), [0, 0, 20, 10]);
    }

    #[test]
    fn places_move_with_the_picture() {
        let image = grey_but(&[(4, 2, 0), (11, 5, 0)]);
        let frame = Frame::around(&image);
        let (scaled, scale) = frame.scaled(&image).unwrap();
        assert_eq!((scaled.width, scaled.height, scale), (1024, 512, 128.0));
        let places = [[3, 3], [4, 1], [4, 2], [5, 4], [11, 5], [12, 5], [11, 6]];
        let moved = frame.moved(&places, &scaled, scale);
        assert_eq!(moved, ndarray::array![[0.0, 0.0], [128.0, 256.0], [896.0, 384.0]]);
    }
}
