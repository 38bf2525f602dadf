//! Building blocks of data sets: opening archives, decoding and encoding images, packing samples,
//! and [`Samples`], which does all of it in units.
//!
//! Archives are not trusted: no file in one, and no image, may be larger than [`Limits`] allow,
//! and names that lead elsewhere are refused.

mod contours;
pub(crate) mod flow;
pub(crate) mod gaze;
mod images;
mod limits;
mod maps;
mod photo;
mod raster;
mod sample;
mod samples;
mod table;
mod tar;
pub(crate) mod video;
mod zip;

pub use images::{Image, Subsampling, decode, decode_rgb, encode_jpeg, encode_png};
pub use limits::{Limits, MAX_FILE, MAX_PIXELS};
pub use maps::median_frequency_weights;
pub use photo::Recoder;
pub use sample::Sample;
pub(crate) use samples::SkippedTally;
pub use samples::{Emit, Made, Samples};
pub use table::lines;
pub use tar::{Tar, TarFile, TarIndex};
pub use zip::Zip;

pub(crate) use contours::{Contour, contours};
pub(crate) use maps::{counts, encode_map, encode_map16, numbers_of_colours};
pub(crate) use raster::{Raster, Tile, tiles, whole};
