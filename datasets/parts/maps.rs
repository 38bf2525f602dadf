//! Maps of classes: images in which a pixel is the number of a class.

use std::collections::HashMap;

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};

use super::{Image, lines};
use crate::error::{Error, ErrorKind, Result};

/// The number of the colour of each pixel of an image in red, green and blue; `other` for colours
/// that are not among these.
pub(crate) fn numbers_of_colours(image: &Image, colours: &[([u8; 3], u8)], other: u8) -> Vec<u8> {
    let numbers: HashMap<[u8; 3], u8> = colours.iter().copied().collect();
    // Neighbours are mostly of one class.
    let mut last = ([0; 3], numbers.get(&[0; 3]).copied().unwrap_or(other));
    let number = |pixel: &[u8]| {
        if pixel != last.0 {
            let colour = [pixel[0], pixel[1], pixel[2]];
            last = (colour, numbers.get(&colour).copied().unwrap_or(other));
        }
        last.1
    };
    image.pixels.chunks_exact(3).map(number).collect()
}

/// A map as PNG in shades of grey. Rows are not filtered: filters would hide repetition from the
/// compressor.
pub(crate) fn encode_map(width: u32, height: u32, classes: &[u8]) -> Result<Vec<u8>> {
    encode(width, height, classes, ExtendedColorType::L8)
}

/// A map of more than 256 classes as PNG of 16 bits.
pub(crate) fn encode_map16(width: u32, height: u32, classes: &[u16]) -> Result<Vec<u8>> {
    encode(width, height, bytemuck::cast_slice(classes), ExtendedColorType::L16)
}

/// Bytes are in the order of the machine; the encoder turns them round.
fn encode(width: u32, height: u32, bytes: &[u8], colour: ExtendedColorType) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let encoder =
        PngEncoder::new_with_quality(&mut out, CompressionType::Best, FilterType::NoFilter);
    let encoded = encoder.write_image(bytes, width, height, colour);
    encoded.map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
    Ok(out)
}

/// A table with the number of a class and its count in each line.
///
/// # Panics
///
/// If that is not what was compressed. A test of each table reads it.
pub(crate) fn counts(gzip: &[u8]) -> Vec<(u16, f64)> {
    let pair = |line: String| {
        let (number, count) = line.split_once(' ')?;
        Some((number.parse().ok()?, count.parse().ok()?))
    };
    let pairs: Option<Vec<(u16, f64)>> = lines(gzip).into_iter().map(pair).collect();
    pairs.expect("a table of counts has two numbers in each line")
}

/// The weight of each class in training, so that rare ones are learned too: the median of all
/// frequencies, divided by its own.
///
/// After Eigen and Fergus, "Predicting Depth, Surface Normals and Semantic Labels with a Common
/// Multi-Scale Convolutional Architecture", 2015.
///
/// ```
/// use kiste::datasets::median_frequency_weights;
///
/// assert_eq!(median_frequency_weights(&[8.0, 2.0, 4.0]), [0.5, 2.0, 1.0]);
/// ```
pub fn median_frequency_weights(counts: &[f64]) -> Vec<f64> {
    let total: f64 = counts.iter().sum();
    let frequencies: Vec<f64> = counts.iter().map(|count| count / total).collect();
    let mut sorted = frequencies.clone();
    sorted.sort_by(f64::total_cmp);
    let middle = |at: usize| sorted.get(at).copied().unwrap_or_default();
    let median = match sorted.len() {
        0 => return Vec::new(),
        len if len % 2 == 1 => middle(len / 2),
        len => (middle(len / 2 - 1) + middle(len / 2)) / 2.0,
    };
    frequencies.iter().map(|frequency| median / frequency).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, decode};
    use super::*;

    #[test]
    fn maps_lose_nothing() {
        let classes: Vec<u8> = (0..60).map(|at| at * 4).collect();
        let png = encode_map(10, 6, &classes).unwrap();
        assert_eq!(decode(&png, Limits::default()).unwrap().as_luma8().unwrap().as_raw(), &classes);
        let classes: Vec<u16> = (0..60).map(|at| at * 1000).collect();
        let png = encode_map16(6, 10, &classes).unwrap();
        assert_eq!(
            decode(&png, Limits::default()).unwrap().as_luma16().unwrap().as_raw(),
            &classes
        );
    }

    #[test]
    fn colours_have_numbers() {
        let colours = [([0, 0, 0], 7), ([255, 0, 0], 1), ([0, 0, 255], 2)];
        let pixels = [[255, 0, 0], [255, 0, 0], [0, 0, 0], [9, 9, 9], [0, 0, 255], [0, 0, 0]];
        let image = Image::new(3, 2, 3, pixels.concat()).unwrap();
        assert_eq!(numbers_of_colours(&image, &colours, 99), [1, 1, 7, 99, 2, 7]);
    }

    #[test]
    fn weights_of_an_even_number_of_classes() {
        assert_eq!(median_frequency_weights(&[1.0, 3.0]), [2.0, 2.0 / 3.0]);
        assert!(median_frequency_weights(&[]).is_empty());
    }
}
