//! [`Plan`]: what is done to one image, in numbers.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::check::is_kernel;
use super::resample::MAX_FILTERED;
use super::step::{Interpolation, Padding, PaddingMode, Size, unfit};
use super::text::{numbers, padding_text};
use super::warp;
use crate::error::{Error, ErrorKind, Result};

/// The actions on one image: its [`Pipeline`](super::Pipeline), with all random numbers drawn.
///
/// A plan follows from the size of an image alone, so it is made before a pixel is decoded. It prints as the
/// list of what is done.
///
/// # What is drawn
///
/// One generator serves all steps of a pipeline, in their order. `u` is a draw of
/// [`StableRng::random`], and "below n" one of [`StableRng::below`]. The draws and what is made of them
/// are frozen: they stay the same in every release.
///
/// | step | draws |
/// | --- | --- |
/// | `random_resized_crop` | up to ten times: `area = height × width × (s₀ + (s₁ - s₀) u)`, then `r = exp(ln r₀ + (ln r₁ - ln r₀) u)`; the part is `round(√(area r))` wide and `round(√(area / r))` high. If that fits into the image: top below `height - h + 1`, left below `width - w + 1`, and no further try. Nothing is drawn for the part in the middle that is taken after ten tries |
/// | `random_crop` | top below `height - h + 1` if the image, with its border, is higher than the result; then left below `width - w + 1` if it is wider |
/// | `hflip`, `vflip` | flipped if `u < p` |
/// | `grayscale` | grey if `u < p` |
/// | `gaussian_blur` | sigma as `a + (b - a) u` |
/// | `random_erasing` | nothing is erased and no more drawn unless `u < p`; then up to ten times: `area` and `r` as for `random_resized_crop`, for a part that is `round(√(area r))` high and `round(√(area / r))` wide. If both are less than the image's: top below `height - h + 1`, left below `width - w + 1`, and no further try. Nothing is erased after ten tries |
/// | `rotate` | the angle as `a + (b - a) u` |
/// | `affine` | the angle as `a + (b - a) u`; then of those that are given: columns as `round((2 u - 1) x width)` and rows as `round((2 u - 1) y height)` of the shift, the scale, the shear along x and the one along y, as `a + (b - a) u` |
/// | `color_jitter` | the order of brightness, contrast, saturation and hue: [`StableRng::shuffle`] of these four; then the factors of those that change, in this order, as `a + (b - a) u` |
///
/// Numbers are rounded to the nearest, halves to the even one, as in Python. `exp` and `ln` come
/// from the crate `libm`, which gives the same results on all systems.
///
/// [`StableRng::random`]: crate::sampler::rng::StableRng::random
/// [`StableRng::below`]: crate::sampler::rng::StableRng::below
/// [`StableRng::shuffle`]: crate::sampler::rng::StableRng::shuffle
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// The size of the image, upright.
    pub source: Size,
    /// How the pixels are turned first: 1 to 8 as in EXIF, 1 for not at all.
    pub orientation: u8,
    /// The actions, in order.
    pub actions: Vec<Action>,
    /// The size of the result.
    pub size: Size,
}

/// One action on an image.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// A part is kept.
    Crop {
        /// Rows above it.
        top: u32,
        /// Columns to its left.
        left: u32,
        /// Its size.
        size: Size,
    },
    /// Another size.
    Resize {
        /// The new size.
        size: Size,
        /// The filter.
        #[serde(serialize_with = "as_text", deserialize_with = "of_text")]
        interpolation: Interpolation,
    },
    /// Left becomes right.
    HorizontalFlip,
    /// Top becomes bottom.
    VerticalFlip,
    /// A border.
    Pad {
        /// Its width.
        padding: Padding,
        /// Its value in each channel.
        fill: [u8; 4],
        /// How the border is filled.
        padding_mode: PaddingMode,
    },
    /// Values are multiplied by this factor.
    Brightness(f64),
    /// Values are blended with the mean brightness by this factor.
    Contrast(f64),
    /// Values are blended with the brightness of their pixel by this factor.
    Saturation(f64),
    /// The hue is turned by this part of the colour circle.
    Hue(f64),
    /// All channels get the brightness of their pixel.
    Grayscale,
    /// Each pixel becomes a mean of those around it.
    GaussianBlur {
        /// How many columns and rows count.
        kernel_size: [u32; 2],
        /// The standard deviation, in pixels.
        sigma: f64,
    },
    /// A part gets one value.
    Erase {
        /// Rows above it.
        top: u32,
        /// Columns to its left.
        left: u32,
        /// Its size.
        size: Size,
        /// Its value in each channel.
        value: [u8; 4],
    },
    /// A turn about the middle.
    Rotate {
        /// Degrees, anticlockwise.
        angle: f64,
        /// `Nearest` or `Bilinear`.
        #[serde(serialize_with = "as_text", deserialize_with = "of_text")]
        interpolation: Interpolation,
        /// Whether the image grows until all of it is seen.
        expand: bool,
        /// The value around the image in each channel.
        fill: [u8; 4],
    },
    /// A turn about the middle with a shift, another scale and a shear.
    Affine {
        /// Degrees, clockwise.
        angle: f64,
        /// Columns to the right and rows down.
        translate: [i32; 2],
        /// The factor of all lengths.
        scale: f64,
        /// Degrees along x and along y.
        shear: [f64; 2],
        /// `Nearest` or `Bilinear`.
        #[serde(serialize_with = "as_text", deserialize_with = "of_text")]
        interpolation: Interpolation,
        /// The value around the image in each channel.
        fill: [u8; 4],
    },
}

fn as_text<S: serde::Serializer>(
    value: &impl fmt::Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn of_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Interpolation, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Crop { top, left, size: Size { height, width } } => {
                write!(f, "crop(top={top}, left={left}, height={height}, width={width})")
            }
            Action::Resize { size: Size { height, width }, interpolation } => {
                let default = *interpolation == Interpolation::default();
                match default {
                    true => write!(f, "resize({height}, {width})"),
                    false => write!(f, "resize({height}, {width}, {interpolation})"),
                }
            }
            Action::HorizontalFlip => f.write_str("hflip"),
            Action::VerticalFlip => f.write_str("vflip"),
            Action::Pad { padding, fill, padding_mode } => {
                write!(f, "pad({}", padding_text(*padding))?;
                match padding_mode {
                    PaddingMode::Constant => write!(f, ", fill={})", one_or_all(fill)),
                    mode => write!(f, ", {mode})"),
                }
            }
            Action::Brightness(factor) => write!(f, "brightness({factor:.4})"),
            Action::Contrast(factor) => write!(f, "contrast({factor:.4})"),
            Action::Saturation(factor) => write!(f, "saturation({factor:.4})"),
            Action::Hue(turn) => write!(f, "hue({turn:.4})"),
            Action::Grayscale => f.write_str("grayscale"),
            Action::GaussianBlur { kernel_size: [columns, rows], sigma } => {
                let size = if columns == rows { &[*columns][..] } else { &[*columns, *rows] };
                write!(f, "gaussian_blur({}, sigma={sigma:.4})", numbers(size))
            }
            Action::Erase { top, left, size: Size { height, width }, value } => {
                write!(f, "erase(top={top}, left={left}, height={height}, width={width}, ")?;
                write!(f, "value={})", one_or_all(value))
            }
            Action::Rotate { angle, interpolation, expand, fill } => {
                write!(f, "rotate({angle:.4}, {interpolation}")?;
                f.write_str(if *expand { ", expand" } else { "" })?;
                write!(f, ", fill={})", one_or_all(fill))
            }
            Action::Affine { angle, translate: [x, y], scale, shear, interpolation, fill } => {
                write!(f, "affine({angle:.4}, translate=({x}, {y}), scale={scale:.4}, ")?;
                write!(f, "shear=({:.4}, {:.4}), {interpolation}, ", shear[0], shear[1])?;
                write!(f, "fill={})", one_or_all(fill))
            }
        }
    }
}

/// The values of channels, or the one that all of them have.
fn one_or_all(values: &[u8; 4]) -> String {
    match values.iter().all(|value| *value == values[0]) {
        true => values[0].to_string(),
        false => numbers(values),
    }
}

/// The actions, one after the other.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let turned = (self.orientation != 1).then(|| format!("orientation({})", self.orientation));
        let actions = self.actions.iter().map(Action::to_string);
        let parts: Vec<String> = turned.into_iter().chain(actions).collect();
        f.write_str(&parts.join(" | "))
    }
}

impl Plan {
    pub(super) fn empty() -> Plan {
        let none = Size { height: 0, width: 0 };
        Plan { source: none, orientation: 1, actions: Vec::new(), size: none }
    }

    /// Whether each action can be done on what the one before leaves.
    pub(super) fn check(&self, max: u64) -> Result<()> {
        self.end(max).map(drop)
    }

    /// The same of a plan for what belongs to an image, whose own header does not say what the source is.
    pub(super) fn check_whole(&self, max: u64) -> Result<()> {
        let end = self.end(max)?;
        match end == self.size {
            true => Ok(()),
            false => {
                let Size { height, width } = self.size;
                let found = format!("{} × {}", end.width, end.height);
                Err(unfit(format!("actions that end with {width} × {height}"), found))
            }
        }
    }

    /// The size after the last action.
    fn end(&self, max: u64) -> Result<Size> {
        if self.source.pixels() == 0 {
            return Err(unfit("an image", "one without pixels"));
        }
        if !(1..=8).contains(&self.orientation) {
            return Err(unfit("an orientation of 1 to 8", self.orientation));
        }
        check_pixels(self.source, max)?;
        let mut checked = Plan { size: self.source, actions: Vec::new(), ..self.clone() };
        for action in &self.actions {
            match *action {
                Action::Crop { top, left, size } => {
                    check_part(top, left, size, checked.size, action)?;
                    checked.size = size;
                }
                Action::Resize { size, .. } if size.pixels() == 0 => {
                    return Err(unfit("a size above 0", action));
                }
                Action::Resize { size, interpolation } => {
                    checked.resize(size, interpolation, max)?;
                }
                Action::Pad { padding, fill, padding_mode } => {
                    checked.pad(padding, &fill, padding_mode, max)?;
                }
                Action::GaussianBlur { kernel_size, sigma } => {
                    checked.blur(kernel_size, sigma)?;
                }
                Action::Erase { top, left, size, .. } => {
                    check_part(top, left, size, checked.size, action)?;
                }
                Action::Rotate { .. } | Action::Affine { .. } => checked.turn(action, max)?,
                _ => {}
            }
        }
        Ok(checked.size)
    }

    pub(super) fn crop(&mut self, top: u32, left: u32, size: Size) {
        if size != self.size {
            self.actions.push(Action::Crop { top, left, size });
            self.size = size;
        }
    }

    pub(super) fn resize(
        &mut self,
        size: Size,
        interpolation: Interpolation,
        max: u64,
    ) -> Result<()> {
        if size == self.size {
            return Ok(());
        }
        check_pixels(size, max)?;
        if interpolation != Interpolation::Nearest {
            // The image between the two passes of a filter.
            let (old, new) = (self.size, size);
            check_pixels(Size { height: new.height, width: old.width }, max)?;
            if interpolation != Interpolation::Bilinear {
                check_pixels(Size { height: old.height, width: new.width }, max)?;
            }
            check_filtered(old, interpolation)?;
            check_filtered(new, interpolation)?;
        }
        self.actions.push(Action::Resize { size, interpolation });
        self.size = size;
        Ok(())
    }

    pub(super) fn pad(
        &mut self,
        padding: Padding,
        fill: &[u8],
        padding_mode: PaddingMode,
        max: u64,
    ) -> Result<()> {
        if padding.is_none() {
            return Ok(());
        }
        let Size { height, width } = self.size;
        let too_far = |side: u32, before: u32, after: u32| match padding_mode {
            PaddingMode::Reflect => before.max(after) >= side,
            PaddingMode::Symmetric => before.max(after) > side,
            _ => false,
        };
        if too_far(height, padding.top, padding.bottom)
            || too_far(width, padding.left, padding.right)
        {
            let border = padding_text(padding);
            let message =
                format!("a border that {padding_mode} can fill around {width} × {height}");
            return Err(unfit(message, border));
        }
        let side = |of: u32, before: u32, after: u32| of.checked_add(before)?.checked_add(after);
        let high = side(height, padding.top, padding.bottom);
        let wide = side(width, padding.left, padding.right);
        let (Some(height), Some(width)) = (high, wide) else {
            return Err(unfit("fewer pixels of padding", padding_text(padding)));
        };
        let size = Size { height, width };
        check_pixels(size, max)?;
        self.actions.push(Action::Pad { padding, fill: of_channels(fill), padding_mode });
        self.size = size;
        Ok(())
    }

    pub(super) fn blur(&mut self, kernel_size: [u32; 2], sigma: f64) -> Result<()> {
        let Size { height, width } = self.size;
        let action = Action::GaussianBlur { kernel_size, sigma };
        if !(kernel_size.into_iter().all(is_kernel) && sigma > 0.0 && sigma.is_finite()) {
            return Err(unfit("odd numbers of columns and rows, and a sigma above 0", action));
        }
        // The image is mirrored at its edges, without its last pixel.
        if kernel_size[0] / 2 >= width || kernel_size[1] / 2 >= height {
            let expected = format!("a kernel_size for an image of {width} × {height}");
            return Err(unfit(expected, numbers(&kernel_size)));
        }
        check_filtered(self.size, "a blur")?;
        self.actions.push(action);
        Ok(())
    }

    /// Adds `rotate` or `affine`.
    pub(super) fn turn(&mut self, action: &Action, max: u64) -> Result<()> {
        self.size = warp::size_after(action, self.size)?;
        check_pixels(self.size, max)?;
        self.actions.push(*action);
        Ok(())
    }
}

/// One value for all channels, or each its own.
pub(super) fn of_channels(values: &[u8]) -> [u8; 4] {
    let value = |channel: usize| values.get(channel).or(values.first()).copied();
    [0, 1, 2, 3].map(|channel| value(channel).unwrap_or_default())
}

fn check_part(top: u32, left: u32, size: Size, of: Size, action: &Action) -> Result<()> {
    let fits = |start: u32, len: u32, all: u32| {
        len > 0 && start.checked_add(len).is_some_and(|end| end <= all)
    };
    let Size { height, width } = of;
    match fits(top, size.height, height) && fits(left, size.width, width) {
        true => Ok(()),
        false => Err(unfit(format!("a part of {width} × {height}"), action)),
    }
}

/// Filters need memory for each pixel of a row.
fn check_filtered(Size { height, width }: Size, filter: impl fmt::Display) -> Result<()> {
    match height.max(width) > MAX_FILTERED {
        true => {
            let expected = format!("a side of at most {MAX_FILTERED} pixels for {filter}");
            let message = format!("expected {expected}, found {width} × {height}");
            Err(Error::new(ErrorKind::Limit, message))
        }
        false => Ok(()),
    }
}

pub(super) fn check_pixels(size: Size, max: u64) -> Result<()> {
    match size.pixels() > max {
        true => {
            let Size { height, width } = size;
            let message = format!("expected at most {max} pixels, found {width} × {height}");
            Err(Error::above_limit("max_pixels", message))
        }
        false => Ok(()),
    }
}
