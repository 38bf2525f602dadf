//! [`Raster`]: TIFF files with any number of bands, as programs for maps write them; and the tiles
//! that large pictures are cut into.

use std::io::BufReader;
use std::ops::Range;
use std::path::Path;

use tiff::decoder::{Decoder, DecodingResult};
use tiff::{ColorType, TiffError};

use super::Limits;
use crate::error::{Error, ErrorKind, Result};
use crate::regular::open_regular;

/// A picture with any number of bands per pixel.
pub(crate) struct Raster<T> {
    pub(crate) bands: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    /// Row by row, the bands of a pixel together.
    pub(crate) values: Vec<T>,
}

impl Raster<u8> {
    /// Reads a file of bytes.
    pub(crate) fn open_bytes(path: &Path, limits: Limits) -> Result<Raster<u8>> {
        match open(path, limits)? {
            (size, DecodingResult::U8(values)) => Raster::new(path, size, values),
            _ => Err(unsupported("expected bytes, found other numbers").at(path)),
        }
    }
}

impl Raster<i32> {
    /// Reads a file of any numbers. Fractions are truncated, as NumPy does.
    pub(crate) fn open_integers(path: &Path, limits: Limits) -> Result<Raster<i32>> {
        let (size, values) = open(path, limits)?;
        let values = match values {
            DecodingResult::U8(values) => values.into_iter().map(i32::from).collect(),
            DecodingResult::I8(values) => values.into_iter().map(i32::from).collect(),
            DecodingResult::U16(values) => values.into_iter().map(i32::from).collect(),
            DecodingResult::I16(values) => values.into_iter().map(i32::from).collect(),
            DecodingResult::I32(values) => values,
            DecodingResult::F32(values) => values.into_iter().map(|value| value as i32).collect(),
            DecodingResult::F64(values) => values.into_iter().map(|value| value as i32).collect(),
            _ => {
                let message = "expected floats, or integers of up to 32 bits, found other numbers";
                return Err(unsupported(message).at(path));
            }
        };
        Raster::new(path, size, values)
    }
}

impl<T: Copy> Raster<T> {
    fn new(path: &Path, [bands, height, width]: [usize; 3], values: Vec<T>) -> Result<Raster<T>> {
        if values.len() != bands * height * width {
            let message = "expected the bands of a pixel together, found one band after the other";
            return Err(unsupported(message).at(path));
        }
        Ok(Raster { bands, height, width, values })
    }

    /// The first band of a tile.
    pub(crate) fn band(&self, tile: &Tile) -> Vec<T> {
        self.rows(tile).flat_map(|row| row.iter().step_by(self.bands)).copied().collect()
    }

    /// A tile, pixel by pixel.
    pub(crate) fn pixels(&self, tile: &Tile) -> Vec<T> {
        self.rows(tile).flatten().copied().collect()
    }

    /// A tile, band after band.
    pub(crate) fn planes(&self, tile: &Tile) -> Vec<T> {
        let band =
            |band| self.rows(tile).flat_map(move |row| row[band..].iter().step_by(self.bands));
        (0..self.bands).flat_map(band).copied().collect()
    }

    fn rows(&self, tile: &Tile) -> impl Iterator<Item = &[T]> {
        let columns = tile.columns.start * self.bands..tile.columns.end * self.bands;
        let row = self.width * self.bands;
        tile.rows.clone().map(move |at| &self.values[at * row..][..row][columns.clone()])
    }
}

/// How many pixels may come out of a byte that is compressed: more than LZW and deflate can make.
const MAX_RATIO: u64 = 1 << 13;

/// Bands, height and width, and all values.
fn open(path: &Path, limits: Limits) -> Result<([usize; 3], DecodingResult)> {
    let damaged = |error: TiffError| {
        let kind = match &error {
            TiffError::IoError(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
                ErrorKind::Io
            }
            TiffError::UnsupportedError(_) => ErrorKind::Unsupported,
            TiffError::LimitsExceeded => ErrorKind::Limit,
            _ => ErrorKind::Damaged,
        };
        Error::new(kind, format!("not a TIFF file that can be read: {error}")).at(path)
    };
    let file = open_regular(path).map_err(|error| Error::io(path, error))?;
    let len = file.metadata().map_err(|error| Error::io(path, error))?.len();
    let mut decoder = Decoder::new(BufReader::new(file)).map_err(damaged)?;
    let (width, height) = decoder.dimensions().map_err(damaged)?;
    let colour = decoder.colortype().map_err(damaged)?;
    limits.check_pixels(width, height).map_err(|error| error.at(path))?;
    let bands = match colour {
        ColorType::Gray(_) => 1,
        ColorType::GrayA(_) => 2,
        ColorType::RGB(_) => 3,
        ColorType::RGBA(_) | ColorType::CMYK(_) => 4,
        ColorType::Multiband { num_samples, .. } => usize::from(num_samples),
        _ => return Err(unsupported(format!("expected plain numbers, found {colour:?}")).at(path)),
    };
    // A header is written quickly; that what it promises could be in the file is seen beforehand.
    let least = u64::from(width) * u64::from(height) / MAX_RATIO;
    if len < least {
        let message = format!("expected {least} bytes or more for {width} x {height}, found {len}");
        return Err(Error::new(ErrorKind::Damaged, message).at(path));
    }
    let mut memory = tiff::decoder::Limits::default();
    // Four floats a pixel.
    let most = usize::try_from(limits.memory()).unwrap_or(usize::MAX);
    memory.decoding_buffer_size = most;
    memory.intermediate_buffer_size = most;
    let mut decoder = decoder.with_limits(memory);
    let values = decoder.read_image().map_err(damaged)?;
    Ok(([bands, height as usize, width as usize], values))
}

fn unsupported(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}

/// A part of a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tile {
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
}

impl Tile {
    pub(crate) fn height(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn width(&self) -> usize {
        self.columns.len()
    }
}

/// A picture cut into square tiles of this side, row by row; what is left over at the right and
/// at the bottom makes smaller ones.
pub(crate) fn tiles(height: usize, width: usize, side: usize) -> impl Iterator<Item = Tile> {
    let cut = move |len: usize| (0..len).step_by(side).map(move |at| at..len.min(at + side));
    cut(height)
        .flat_map(move |rows| cut(width).map(move |columns| Tile { rows: rows.clone(), columns }))
}

/// All of a picture.
pub(crate) fn whole(height: usize, width: usize) -> Tile {
    Tile { rows: 0..height, columns: 0..width }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_a_picture() {
        let found: Vec<_> = tiles(5, 3, 2).map(|tile| (tile.rows, tile.columns)).collect();
        assert_eq!(found[..3], [(0..2, 0..2), (0..2, 2..3), (2..4, 0..2)]);
        assert_eq!((found.len(), &found[5]), (6, &(4..5, 2..3)));
        assert_eq!(tiles(4, 4, 4).collect::<Vec<_>>(), [whole(4, 4)]);
    }

    #[test]
    fn parts_of_a_picture() {
        let raster = Raster { bands: 3, height: 2, width: 2, values: (0..12).collect() };
        let right = Tile { rows: 0..2, columns: 1..2 };
        assert_eq!(raster.band(&right), [3, 9]);
        assert_eq!(raster.pixels(&right), [3, 4, 5, 9, 10, 11]);
        assert_eq!(raster.planes(&right), [3, 9, 4, 10, 5, 11]);
    }

    #[test]
    fn a_header_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.tif");
        let open = |side: u32| {
            // Width, height, bits, no compression, 0 is black, and one strip of all rows.
            let tags = [(256, side), (257, side), (258, 8), (259, 1), (262, 1), (273, 110)];
            let tags = tags.into_iter().chain([(278, side), (279, side.wrapping_mul(side))]);
            let mut bytes = b"II*\0\x08\0\0\0\x08\0".to_vec();
            for (tag, value) in tags {
                bytes.extend(u16::to_le_bytes(tag));
                bytes.extend([4, 0, 1, 0, 0, 0]);
                bytes.extend(value.to_le_bytes());
            }
            bytes.extend([0; 4]);
            bytes.extend([7; 4]);
            std::fs::write(&path, bytes).unwrap();
            Raster::open_bytes(&path, Limits::default())
        };
        assert_eq!(open(2).unwrap().values, [7; 4]);
        let error = open(16_000).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        let says = "expected 31250 bytes or more for 16000 x 16000, found 114";
        assert!(error.to_string().ends_with(says), "{error}");
        assert_eq!(open(1 << 20).err().unwrap().kind(), ErrorKind::Limit);
    }

    #[test]
    fn what_is_no_tiff_is_damaged() {
        let open = |path: &Path| Raster::open_bytes(path, Limits::default());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.tif");
        assert_eq!(open(&path).err().unwrap().kind(), ErrorKind::NotFound);
        for bytes in [&b""[..], b"no picture", b"II*\0\x08\0\0\0"] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(open(&path).err().unwrap().kind(), ErrorKind::Damaged);
        }
    }
}
