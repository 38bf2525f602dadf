//! [`Step`]: what a pipeline does to an image, with the names and defaults of torchvision v2.

use serde::{Deserialize, Serialize};

use super::text;
use crate::error::{Error, ErrorKind, Result};

/// The longest side that a step may ask for.
pub(super) const MAX_SIDE: u32 = 65_535;

/// The sides of an image, in the order of arrays and of torchvision: height first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
}

impl Size {
    /// A square.
    pub const fn square(side: u32) -> Size {
        Size { height: side, width: side }
    }

    pub(super) fn pixels(self) -> u64 {
        u64::from(self.height) * u64::from(self.width)
    }
}

/// The channels of a decoded image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Red, green and blue. Grey is repeated, transparency is dropped.
    #[default]
    Rgb,
    /// Brightness alone: as a JPEG stores it, and `0.299 R + 0.587 G + 0.114 B` of other images.
    Gray,
    /// Red, green, blue and opacity, which is 255 where the image has none.
    Rgba,
}

impl Mode {
    /// Numbers for each pixel.
    pub fn channels(self) -> usize {
        match self {
            Mode::Rgb => 3,
            Mode::Gray => 1,
            Mode::Rgba => 4,
        }
    }
}

/// How pixels between pixels are found. All but `Nearest` average over all pixels that a new one covers
/// (`antialias=True`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interpolation {
    /// A triangle filter.
    #[default]
    Bilinear,
    /// A cubic filter with `a = -0.5`.
    Bicubic,
    /// A Lanczos filter with three lobes.
    Lanczos,
    /// The pixel at `floor(i × old / new)`.
    Nearest,
}

/// The pixels around a padded image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PaddingMode {
    /// The fill value.
    #[default]
    Constant,
    /// The last pixel at the edge.
    Edge,
    /// The image mirrored, without its last pixel.
    Reflect,
    /// The image mirrored, with its last pixel.
    Symmetric,
}

/// The type of the elements of a result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PixelType {
    /// Integers of 0 to 255.
    #[default]
    U8,
    /// Floats of 0 to 1, before they are normalised.
    F32,
    /// The same in half precision, rounded once.
    F16,
    /// The same as bfloat16, rounded once. NumPy does not have this type, so that columns have its bits, as
    /// `u16`.
    Bf16,
}

/// The order of the dimensions of a result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// Height, width, channels.
    #[default]
    Hwc,
    /// Channels, height, width.
    Chw,
}

/// The border around an image, in pixels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Padding {
    pub left: u32,
    pub top: u32,
    pub right: u32,
    pub bottom: u32,
}

impl Padding {
    /// The same on all sides.
    pub const fn all(pixels: u32) -> Padding {
        Padding { left: pixels, top: pixels, right: pixels, bottom: pixels }
    }

    pub(super) fn is_none(self) -> bool {
        self == Padding::default()
    }
}

/// A range of numbers, both ends included.
pub type Range = (f64, f64);

/// A step of a pipeline. Names, defaults, rounding and random distributions follow torchvision v2.
///
/// A step is written as in `random_resized_crop(224, scale=(0.5, 1))`, with arguments by place or by name:
///
/// | step | arguments, with defaults | torchvision |
/// | --- | --- | --- |
/// | `resize` | `size, interpolation=bilinear, max_size` | `Resize` |
/// | `center_crop` | `size` | `CenterCrop` |
/// | `random_resized_crop` | `size, scale=(0.08, 1), ratio=(0.75, 1.3333333333333333), interpolation=bilinear` | `RandomResizedCrop` |
/// | `random_crop` | `size, padding=0, pad_if_needed=false, fill=0, padding_mode=constant` | `RandomCrop` |
/// | `hflip`, `vflip` | `p=0.5` | `RandomHorizontalFlip`, `RandomVerticalFlip` |
/// | `color_jitter` | `brightness=0, contrast=0, saturation=0, hue=0`: each a number or a range | `ColorJitter` |
/// | `pad` | `padding, fill=0, padding_mode=constant` | `Pad` |
/// | `to` | `type, layout=hwc`: `u8`, `f32`, `f16` or `bf16`; `hwc` or `chw` | `ToDtype(…, scale=True)` |
/// | `normalize` | `mean, std`, or `imagenet` | `Normalize` |
///
/// A size is a number or `(height, width)`; in `resize` a number is the size of the shorter side. A
/// padding is a number, `(left and right, top and bottom)` or `(left, top, right, bottom)`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Step {
    /// Another size.
    Resize {
        /// The new size.
        size: NewSize,
        /// The filter.
        interpolation: Interpolation,
        /// The longest that the longer side may become, if only the shorter is given.
        max_size: Option<u32>,
    },
    /// The middle of the image. A smaller image is padded with zeros.
    CenterCrop {
        /// The size of the result.
        size: Size,
    },
    /// A random part of the image, resized.
    RandomResizedCrop {
        /// The size of the result.
        size: Size,
        /// The area of the part, as a fraction of the image's.
        scale: Range,
        /// Its width divided by its height.
        ratio: Range,
        /// The filter.
        interpolation: Interpolation,
    },
    /// A part of this size at a random place.
    RandomCrop {
        /// The size of the result.
        size: Size,
        /// The border that the image gets first.
        padding: Padding,
        /// Whether a smaller image is padded by the missing amount, on both sides.
        pad_if_needed: bool,
        /// The value of the border: of each channel, or one for all.
        fill: Vec<u8>,
        /// How the border is filled.
        padding_mode: PaddingMode,
    },
    /// Left becomes right, with this probability.
    HorizontalFlip(f64),
    /// Top becomes bottom, with this probability.
    VerticalFlip(f64),
    /// Brightness, contrast, saturation and hue, changed in random order by random factors of these ranges.
    ColorJitter {
        /// The range of the factor. A number `x` is the range of `max(0, 1 - x)` to `1 + x`.
        brightness: Option<Range>,
        /// As for brightness.
        contrast: Option<Range>,
        /// As for brightness.
        saturation: Option<Range>,
        /// The range of a turn of the colour circle, of -0.5 to 0.5. A number `x` is the range of `-x`
        /// to `x`.
        hue: Option<Range>,
    },
    /// A border around the image.
    Pad {
        /// Its width.
        padding: Padding,
        /// Its value: of each channel, or one for all.
        fill: Vec<u8>,
        /// How the border is filled.
        padding_mode: PaddingMode,
    },
    /// The type and layout of the result.
    To(PixelType, Layout),
    /// `(x - mean) / std` of each channel, or one for all.
    Normalize {
        /// Subtracted from each channel.
        mean: Vec<f64>,
        /// The divisor of each channel, after that.
        std: Vec<f64>,
    },
}

/// The size that [`Step::Resize`] asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewSize {
    /// The shorter side; the longer one is scaled by the same factor and rounded down.
    Short(u32),
    /// Both sides.
    Exact(Size),
}

/// The mean of the pixels of ImageNet.
pub(super) const IMAGENET_MEAN: [f64; 3] = [0.485, 0.456, 0.406];
/// Their standard deviation.
pub(super) const IMAGENET_STD: [f64; 3] = [0.229, 0.224, 0.225];

/// The defaults of `random_resized_crop`.
pub(super) const SCALE: Range = (0.08, 1.0);
pub(super) const RATIO: Range = (3.0 / 4.0, 4.0 / 3.0);

impl Step {
    /// The shorter side is resized to this.
    pub fn resize(short: u32) -> Step {
        let size = NewSize::Short(short);
        Step::Resize { size, interpolation: Interpolation::Bilinear, max_size: None }
    }

    /// The middle of the image: a square with this side.
    pub fn center_crop(side: u32) -> Step {
        Step::CenterCrop { size: Size::square(side) }
    }

    /// A random part, resized to a square with this side.
    pub fn random_resized_crop(side: u32) -> Step {
        let (size, interpolation) = (Size::square(side), Interpolation::Bilinear);
        Step::RandomResizedCrop { size, scale: SCALE, ratio: RATIO, interpolation }
    }

    /// A square with this side at a random place of the image, which gets this border first.
    pub fn random_crop(side: u32, padding: u32) -> Step {
        Step::RandomCrop {
            size: Size::square(side),
            padding: Padding::all(padding),
            pad_if_needed: false,
            fill: vec![0],
            padding_mode: PaddingMode::Constant,
        }
    }

    /// Left becomes right in every second image.
    pub fn hflip() -> Step {
        Step::HorizontalFlip(0.5)
    }

    /// Top becomes bottom in every second image.
    pub fn vflip() -> Step {
        Step::VerticalFlip(0.5)
    }

    /// Colours change by up to these factors.
    pub fn color_jitter(brightness: f64, contrast: f64, saturation: f64, hue: f64) -> Step {
        Step::ColorJitter {
            brightness: factors(brightness),
            contrast: factors(contrast),
            saturation: factors(saturation),
            hue: (hue != 0.0).then_some((-hue, hue)),
        }
    }

    /// A border of zeros.
    pub fn pad(pixels: u32) -> Step {
        let padding_mode = PaddingMode::Constant;
        Step::Pad { padding: Padding::all(pixels), fill: vec![0], padding_mode }
    }

    /// The type and layout of the result.
    pub fn to(pixel: PixelType, layout: Layout) -> Step {
        Step::To(pixel, layout)
    }

    /// By the mean and the standard deviation of ImageNet.
    pub fn normalize_imagenet() -> Step {
        Step::Normalize { mean: IMAGENET_MEAN.to_vec(), std: IMAGENET_STD.to_vec() }
    }

    /// Its name in text.
    pub fn name(&self) -> &'static str {
        match self {
            Step::Resize { .. } => "resize",
            Step::CenterCrop { .. } => "center_crop",
            Step::RandomResizedCrop { .. } => "random_resized_crop",
            Step::RandomCrop { .. } => "random_crop",
            Step::HorizontalFlip(_) => "hflip",
            Step::VerticalFlip(_) => "vflip",
            Step::ColorJitter { .. } => "color_jitter",
            Step::Pad { .. } => "pad",
            Step::To(..) => "to",
            Step::Normalize { .. } => "normalize",
        }
    }

    /// Whether the values are those that the step can have, for images of this mode.
    pub(super) fn check(&self, mode: Mode) -> Result<()> {
        let channels = mode.channels();
        match self {
            Step::Resize { size: NewSize::Short(side), max_size, .. } => {
                check_side(*side)?;
                match max_size {
                    Some(max) if max <= side || *max > MAX_SIDE => {
                        let message = format!("a max_size above the size {side}, up to {MAX_SIDE}");
                        Err(unfit(message, max))
                    }
                    _ => Ok(()),
                }
            }
            Step::Resize { size: NewSize::Exact(_), max_size: Some(_), .. } => {
                Err(unfit("no max_size next to a height and a width", "both"))
            }
            Step::Resize { size: NewSize::Exact(size), .. } | Step::CenterCrop { size } => {
                check_size(*size)
            }
            Step::RandomResizedCrop { size, scale, ratio, .. } => {
                check_size(*size)?;
                let is_in = |(from, to): Range| 0.0 < from && from <= to && to.is_finite();
                if !is_in(*scale) || scale.1 > 1.0 {
                    return Err(unfit("a scale above 0, up to 1", format!("{scale:?}")));
                }
                if !is_in(*ratio) {
                    return Err(unfit("a ratio above 0, the smaller first", format!("{ratio:?}")));
                }
                Ok(())
            }
            Step::RandomCrop { size, padding, fill, .. } => {
                check_size(*size)?;
                check_border(*padding, fill, channels)
            }
            Step::HorizontalFlip(p) | Step::VerticalFlip(p) => match p {
                0.0..=1.0 => Ok(()),
                _ => Err(unfit("a probability of 0 to 1", p)),
            },
            Step::ColorJitter { brightness, contrast, saturation, hue } => {
                if mode == Mode::Rgba {
                    return Err(unfit("decode(rgb) or decode(gray) before it", "decode(rgba)"));
                }
                let named = [brightness, contrast, saturation];
                for (name, range) in ["brightness", "contrast", "saturation"].iter().zip(named) {
                    check_range(name, *range, (0.0, f64::from(f32::MAX)))?;
                }
                check_range("hue", *hue, (-0.5, 0.5))
            }
            Step::Pad { padding, fill, .. } => check_border(*padding, fill, channels),
            Step::To(..) => Ok(()),
            Step::Normalize { mean, std } => {
                for (name, values) in [("mean", mean), ("std", std)] {
                    let is_count = values.len() == 1 || values.len() == channels;
                    if !is_count {
                        let expected = format!("{} as {name}", one_or(channels));
                        return Err(unfit(expected, values.len()));
                    }
                    let is_odd = |value: &&f64| value.is_nan() || value.abs() > f64::from(f32::MAX);
                    if let Some(odd) = values.iter().find(is_odd) {
                        return Err(unfit(format!("a number as {name}"), odd));
                    }
                }
                match std.iter().find(|&&value| value as f32 == 0.0) {
                    Some(zero) => Err(unfit("a std that is not 0", zero)),
                    None => Ok(()),
                }
            }
        }
    }
}

/// The range of a factor of `color_jitter` around 1; none that changes nothing.
pub(super) fn factors(strength: f64) -> Option<Range> {
    (strength != 0.0).then_some(((1.0 - strength).max(0.0), 1.0 + strength))
}

pub(super) fn unfit(expected: impl std::fmt::Display, found: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Invalid, format!("expected {expected}, found {found}"))
}

fn one_or(channels: usize) -> String {
    match channels {
        1 => "1 number".to_owned(),
        _ => format!("1 or {channels} numbers"),
    }
}

fn check_side(side: u32) -> Result<()> {
    match side {
        1..=MAX_SIDE => Ok(()),
        _ => Err(unfit(format!("a size of 1 to {MAX_SIDE}"), side)),
    }
}

fn check_size(size: Size) -> Result<()> {
    check_side(size.height)?;
    check_side(size.width)
}

fn check_range(name: &str, range: Option<Range>, (low, high): Range) -> Result<()> {
    match range {
        Some((from, to)) if !(low <= from && from <= to && to <= high) => {
            let expected = match low < 0.0 {
                true => format!("a {name} within {low} to {high}, the smaller first"),
                false => format!("a {name} of 0 to {high:e}, the smaller first"),
            };
            Err(unfit(expected, format!("({from}, {to})")))
        }
        _ => Ok(()),
    }
}

fn check_border(padding: Padding, fill: &[u8], channels: usize) -> Result<()> {
    let sides = [padding.left, padding.top, padding.right, padding.bottom];
    if let Some(side) = sides.into_iter().find(|&side| side > MAX_SIDE) {
        return Err(unfit(format!("a padding of up to {MAX_SIDE}"), side));
    }
    match fill.len() == 1 || fill.len() == channels {
        true => Ok(()),
        false => Err(unfit(format!("{} as fill", one_or(channels)), fill.len())),
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        text::print(self, f)
    }
}
