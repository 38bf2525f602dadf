//! Images on their way into a batch: decoded, augmented, normalised.
//!
//! A [`Pipeline`] is a short list of [`Step`]s with the names, defaults and rules of torchvision v2. It first
//! decides and then moves: from the [`Header`] of an image, which has its size, and random numbers it makes
//! a [`Plan`], pure numbers that can be printed. Then the image is decoded and the plan carried out, straight
//! into the batch.
//!
//! ```
//! use std::sync::Arc;
//!
//! use kiste::image::Pipeline;
//! use kiste::loader::{Columns, Loader};
//! use kiste::reader::ListReader;
//! use kiste::sampler::Shuffle;
//!
//! # #[derive(serde::Serialize)]
//! # struct Sample { key: String, image: serde_bytes::ByteBuf, label: u8 }
//! # let mut png = std::io::Cursor::new(Vec::new());
//! # image::RgbImage::new(40, 30).write_to(&mut png, image::ImageFormat::Png)?;
//! # let image = serde_bytes::ByteBuf::from(png.into_inner());
//! # let samples = (0..4).map(|n| Sample { key: n.to_string(), image: image.clone(), label: n });
//! # let reader = Arc::new(ListReader::pack(samples)?);
//! let text = "random_resized_crop(24) | hflip | to(f32, chw) | normalize(imagenet)";
//! let pipeline: Pipeline = text.parse()?;
//! let columns = Columns::new().image::<f32>("image", pipeline.with_seed(42)).scalar::<u8>("label");
//! let options = Loader::options(reader, Shuffle::new(4, 42)).batch_size(4).epochs(1);
//! for batch in options.columns(columns)? {
//!     assert_eq!(batch?.data.array::<f32>("image")?.shape(), [4, 3, 24, 24]);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! JPEG, PNG, WebP, GIF (its first frame), TIFF, BMP and PNM are decoded, all of them in safe Rust. Grey,
//! palettes, CMYK and 16 bits become the [`Mode`] of the pipeline, with 8 bits; a colour profile is not
//! applied. The orientation of EXIF is. An [`ArrayImage`] is decoded already, and goes through the same steps.

mod whole;
mod step;
mod check;
mod arguments;
mod text;
mod header;
#[cfg(feature = "turbo")]
mod frame;
#[cfg(feature = "turbo")]
mod turbo;
mod decode;
mod array;
mod color;
mod resample;
mod blur;
mod warp;
mod plan;
mod pipeline;
mod draw;
mod view;
mod canvas;
mod mask;
mod boxes;
mod worker;

pub use array::ArrayImage;
pub use boxes::BoxFormat;
pub use header::Header;
pub use pipeline::Pipeline;
pub use plan::{Action, Plan};
pub use step::{
    Interpolation, Layout, Mode, NewSize, Padding, PaddingMode, PixelType, Range, Size, Step,
};
pub use worker::{Pixel, Worker};

pub(crate) use array::{Picture, of_shape};
pub(crate) use canvas::Scratch;
pub(crate) use decode::{blamed, check_jpeg, known_format, limited_decoder, no_image};
pub(crate) use header::Turn;
pub(crate) use mask::{MaskPixels, Places, decode_mask};
pub(crate) use worker::Recipe;
