//! [`Step`]: what a pipeline does to an image, with the names and defaults of torchvision v2.

use serde::{Deserialize, Serialize};

use super::text;
use crate::error::{Error, ErrorKind};

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

/// How pixels between pixels are found. When sizes change, all but `Nearest` average over all pixels that a new one
/// covers (`antialias=True`). `rotate` and `affine` take `Nearest`, and `Bilinear` between the four pixels around.
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
    /// The pixel at `floor(i × old / new)`, or the nearest one where an image is turned.
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
/// | `seed` | `seed`; only as the first step | |
/// | `decode` | `mode=rgb, max_pixels=200000000, scaled=false`: `rgb`, `gray` or `rgba`; before all steps but `seed` | `decode_image` |
/// | `resize` | `size, interpolation=bilinear, max_size` | `Resize` |
/// | `center_crop` | `size` | `CenterCrop` |
/// | `random_resized_crop` | `size, scale=(0.08, 1), ratio=(0.75, 1.3333333333333333), interpolation=bilinear` | `RandomResizedCrop` |
/// | `random_crop` | `size, padding=0, pad_if_needed=false, fill=0, padding_mode=constant` | `RandomCrop` |
/// | `hflip`, `vflip` | `p=0.5` | `RandomHorizontalFlip`, `RandomVerticalFlip` |
/// | `color_jitter` | `brightness=0, contrast=0, saturation=0, hue=0`: each a number or a range | `ColorJitter` |
/// | `grayscale` | `p=0.1`: the channels stay; `decode(gray)` makes one | `RandomGrayscale` |
/// | `gaussian_blur` | `kernel_size, sigma=(0.1, 2)`: odd numbers of pixels | `GaussianBlur` |
/// | `random_erasing` | `p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0`: of 0 to 255 | `RandomErasing` |
/// | `rotate` | `degrees, interpolation=nearest, expand=false, fill=0` | `RandomRotation` |
/// | `affine` | `degrees, translate, scale, shear, interpolation=nearest, fill=0` | `RandomAffine` |
/// | `pad` | `padding, fill=0, padding_mode=constant` | `Pad` |
/// | `to` | `type, layout=hwc`: `u8`, `f32`, `f16` or `bf16`; `hwc` or `chw` | `ToDtype(…, scale=True)` |
/// | `normalize` | `mean, std`, or `imagenet` | `Normalize` |
///
/// A size is a number or `(height, width)`; in `resize` a number is the size of the shorter side. A
/// padding is a number, `(left and right, top and bottom)` or `(left, top, right, bottom)`.
///
/// A kernel size is a number or `(columns, rows)`, and sigma a number or a range. Degrees are a range, or a number
/// `x` for `(-x, x)`; `rotate` turns anticlockwise and `affine` clockwise. `translate=(x, y)` are the largest parts of
/// the width and the height. `shear` is a number or a range of degrees along x, or four numbers for x and y. With
/// `expand=true` an image grows until all of it is seen, so that images differ in size afterwards. The names
/// `random_horizontal_flip`, `random_vertical_flip`, `random_rotation`, `random_affine` and `random_grayscale` mean
/// the same as the short ones.
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
    /// Each pixel gets its brightness in all channels, with this probability.
    Grayscale(f64),
    /// Each pixel becomes a mean of those around it, by weights of a bell curve.
    GaussianBlur {
        /// How many columns and rows count, odd numbers. The image is mirrored at its edges.
        kernel_size: [u32; 2],
        /// The range of the standard deviation, in pixels.
        sigma: Range,
    },
    /// A random part gets one value.
    RandomErasing {
        /// The probability.
        p: f64,
        /// The area of the part, as a fraction of the image's.
        scale: Range,
        /// Its height divided by its width.
        ratio: Range,
        /// The value: of each channel, or one for all.
        value: Vec<u8>,
    },
    /// A turn about the middle, anticlockwise.
    Rotate {
        /// The range of the angle.
        degrees: Range,
        /// How pixels between pixels are found: `Nearest` or `Bilinear`.
        interpolation: Interpolation,
        /// Whether the image grows until all of it is seen.
        expand: bool,
        /// The value around the image: of each channel, or one for all.
        fill: Vec<u8>,
    },
    /// A turn about the middle, clockwise, with a shift, another scale and a shear.
    Affine {
        /// The range of the angle.
        degrees: Range,
        /// The largest shifts to both sides: of columns as a part of the width, and of rows as a part of the height.
        translate: Option<(f64, f64)>,
        /// The range of the factor.
        scale: Option<Range>,
        /// The range of the angle of shears along x, and along y.
        shear: Option<(Range, Option<Range>)>,
        /// How pixels between pixels are found: `Nearest` or `Bilinear`.
        interpolation: Interpolation,
        /// The value around the image: of each channel, or one for all.
        fill: Vec<u8>,
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

/// The defaults of `grayscale`, `gaussian_blur` and `random_erasing`.
pub(super) const GRAYSCALE: f64 = 0.1;
pub(super) const SIGMA: Range = (0.1, 2.0);
pub(super) const ERASING: f64 = 0.5;
pub(super) const ERASED: Range = (0.02, 0.33);
pub(super) const ERASED_RATIO: Range = (0.3, 3.3);

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

    /// Grey in every tenth image.
    pub fn grayscale() -> Step {
        Step::Grayscale(GRAYSCALE)
    }

    /// Blurred by this many columns and rows, an odd number, and a standard deviation of 0.1 to 2.
    pub fn gaussian_blur(kernel_size: u32) -> Step {
        Step::GaussianBlur { kernel_size: [kernel_size; 2], sigma: SIGMA }
    }

    /// A part of every second image becomes zeros.
    pub fn random_erasing() -> Step {
        let (scale, ratio) = (ERASED, ERASED_RATIO);
        Step::RandomErasing { p: ERASING, scale, ratio, value: vec![0] }
    }

    /// Turned by up to this angle to both sides, with the nearest pixels and zeros around them.
    pub fn rotate(degrees: f64) -> Step {
        Step::Rotate {
            degrees: (-degrees, degrees),
            interpolation: Interpolation::Nearest,
            expand: false,
            fill: vec![0],
        }
    }

    /// The same without more, to which a shift, a scale and a shear can be added.
    pub fn affine(degrees: f64) -> Step {
        Step::Affine {
            degrees: (-degrees, degrees),
            translate: None,
            scale: None,
            shear: None,
            interpolation: Interpolation::Nearest,
            fill: vec![0],
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
            Step::Grayscale(_) => "grayscale",
            Step::GaussianBlur { .. } => "gaussian_blur",
            Step::RandomErasing { .. } => "random_erasing",
            Step::Rotate { .. } => "rotate",
            Step::Affine { .. } => "affine",
            Step::Pad { .. } => "pad",
            Step::To(..) => "to",
            Step::Normalize { .. } => "normalize",
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

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        text::print(self, f)
    }
}
