//! [`ClassCounts`]: how much of the maps of a split each class fills.
//!
//! The samples are counted as they would be written, so the counts match what is trained on.

use image::DynamicImage;

use super::parts::{Limits, decode, median_frequency_weights};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::{self, Cursor, Kind, numpy};

/// Counts of maps of classes. Each map counts as one, regardless of its size, divided among its
/// classes by their share of the pixels: this is what `--calculate-weights` of Python datadings
/// does.
///
/// ```
/// use kiste::datasets::ClassCounts;
///
/// let mut counts = ClassCounts::default();
/// counts.add_map([0, 0, 0, 7]);
/// counts.add_map([7; 10]);
/// assert_eq!((counts.maps(), counts.counts()), (2, vec![(0, 0.75), (7, 1.25)]));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClassCounts {
    maps: u64,
    /// By the number of the class.
    sums: Vec<f64>,
}

impl ClassCounts {
    /// Counts a map: the class of each of its pixels.
    pub fn add_map(&mut self, classes: impl IntoIterator<Item = u16>) {
        self.add(&Share::of(classes));
    }

    fn add(&mut self, share: &Share) {
        self.maps += 1;
        if self.sums.len() < share.0.len() {
            self.sums.resize(share.0.len(), 0.0);
        }
        for (sum, part) in self.sums.iter_mut().zip(&share.0) {
            *sum += part;
        }
    }

    /// How many maps there were.
    pub fn maps(&self) -> u64 {
        self.maps
    }

    /// How many maps each class would fill, without those that do not occur.
    pub fn counts(&self) -> Vec<(u16, f64)> {
        let counts = (0..=u16::MAX).zip(&self.sums).filter(|(_, sum)| **sum > 0.0);
        counts.map(|(class, sum)| (class, *sum)).collect()
    }

    /// The weight of each of these classes in training, in the same order: see
    /// [`median_frequency_weights`].
    pub fn weights(&self) -> Vec<(u16, f64)> {
        let (classes, counts): (Vec<u16>, Vec<f64>) = self.counts().into_iter().unzip();
        classes.into_iter().zip(median_frequency_weights(&counts)).collect()
    }

    /// Adds the maps of a sample, in the order in which they were found.
    pub(super) fn add_all(&mut self, shares: &[Share]) {
        shares.iter().for_each(|share| self.add(share));
    }
}

/// The part of one map that each class has.
pub(super) struct Share(Vec<f64>);

impl Share {
    fn of(classes: impl IntoIterator<Item = u16>) -> Share {
        let (mut pixels, mut total) = (Vec::new(), 0u64);
        for class in classes {
            let class = usize::from(class);
            if class >= pixels.len() {
                pixels.resize(class + 1, 0u64);
            }
            pixels[class] += 1;
            total += 1;
        }
        let part = |count: u64| count as f64 / total as f64;
        Share(pixels.into_iter().map(part).collect())
    }
}

/// The maps in these fields of a packed sample; a field that is not there has none.
///
/// # Errors
///
/// [`Damaged`](ErrorKind::Damaged) for what is no map of classes, with the key of the sample.
pub(super) fn shares(packed: &[u8], fields: &[&str], limits: Limits) -> Result<Vec<Share>> {
    let mut found = Vec::new();
    for field in fields {
        if let Some(value) = msgpack::field(packed, field)? {
            let added = add_shares(value, limits, &mut found);
            added.map_err(|error| {
                let key = msgpack::key(packed).ok().flatten().unwrap_or_default();
                Error::new(error.kind(), format!("field {field:?}: {error}")).with_key(key)
            })?;
        }
    }
    Ok(found)
}

/// An image, an array, or a list of images.
fn add_shares(value: &[u8], limits: Limits, found: &mut Vec<Share>) -> Result<()> {
    let mut cursor = Cursor::new(value);
    match cursor.peek()? {
        Kind::Bin => found.push(of_image(cursor.read_bin()?, limits)?),
        Kind::Array => {
            for _ in 0..cursor.read_array_len()? {
                found.push(of_image(cursor.read_bin()?, limits)?);
            }
        }
        _ => found.push(of_array(value)?),
    }
    Ok(())
}

fn of_image(bytes: &[u8], limits: Limits) -> Result<Share> {
    match decode(bytes, limits)? {
        DynamicImage::ImageLuma8(image) => {
            Ok(Share::of(image.into_raw().into_iter().map(u16::from)))
        }
        DynamicImage::ImageLuma16(image) => Ok(Share::of(image.into_raw())),
        other => {
            let found = other.color();
            let message = format!("expected a map in shades of grey, found {found:?}");
            Err(Error::new(ErrorKind::Damaged, message))
        }
    }
}

fn of_array(value: &[u8]) -> Result<Share> {
    let array = numpy::decode_array(value)?.to_ndarray::<i64>()?;
    let class = |number: i64| u16::try_from(number).map_err(|_| number);
    let classes: Result<Vec<u16>, i64> = array.into_iter().map(class).collect();
    let classes = classes.map_err(|number| {
        let message = format!("expected classes from 0 to 65535, found {number}");
        Error::new(ErrorKind::Damaged, message)
    })?;
    Ok(Share::of(classes))
}

#[cfg(test)]
mod tests {
    use super::super::parts::{Image, encode_png};
    use super::*;
    use crate::value::NdArray;

    /// A sample with one field next to its key.
    fn sample(field: &str, value: &[u8]) -> Vec<u8> {
        let mut packed = b"\x82\xa3key\xa1k".to_vec();
        msgpack::encode(&field.into(), &mut packed).unwrap();
        packed.extend(value);
        packed
    }

    fn array(numbers: &[i64]) -> Vec<u8> {
        let mut packed = Vec::new();
        let array = ndarray::Array1::from(numbers.to_vec());
        numpy::encode_array(&NdArray::from_ndarray(&array), &mut packed).unwrap();
        packed
    }

    #[test]
    fn maps_that_are_arrays() {
        let packed = sample("map", &array(&[3, 0, 0, 300]));
        let mut counts = ClassCounts::default();
        counts.add_all(&shares(&packed, &["other", "map"], Limits::default()).unwrap());
        assert_eq!(counts.counts(), [(0, 0.5), (3, 0.25), (300, 0.25)]);
        assert_eq!(counts.weights(), [(0, 0.5), (3, 1.0), (300, 1.0)]);
        // No map, no class.
        counts.add_all(&shares(&packed, &["other"], Limits::default()).unwrap());
        assert_eq!(counts.maps(), 1);
    }

    #[test]
    fn what_is_no_map_is_named() {
        let colours = encode_png(&Image::new(1, 1, 3, vec![1, 2, 3]).unwrap()).unwrap();
        let mut image = Vec::new();
        msgpack::write_bin(&colours, &mut image).unwrap();
        for (value, says) in [
            (&array(&[-1])[..], "expected classes from 0 to 65535, found -1"),
            (&array(&[65536]), "found 65536"),
            (&image, "expected a map in shades of grey, found Rgb8"),
            (b"\xc4\x01x", "not an image"),
            (b"\x07", "expected"),
            (b"\x91\x07", "expected"),
        ] {
            let found = shares(&sample("map", value), &["map"], Limits::default());
            let error = found.err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
            let text = error.to_string();
            assert!(text.contains(says) && text.contains("field \"map\""), "{text}");
        }
    }
}
