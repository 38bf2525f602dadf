//! [`Plan`]: what is done to one image, in numbers.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::header::Header;
use super::pipeline::Pipeline;
use super::resample::MAX_FILTERED;
use super::step::{Interpolation, NewSize, Padding, PaddingMode, Range, Size, Step, unfit};
use super::text::{numbers, padding_text};
use crate::error::{Error, ErrorKind, Result};
use crate::sampler::rng::StableRng;

/// The actions on one image: its [`Pipeline`], with all random numbers drawn.
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
/// | `color_jitter` | the order of brightness, contrast, saturation and hue: [`StableRng::shuffle`] of these four; then the factors of those that change, in this order, as `a + (b - a) u` |
///
/// Numbers are rounded to the nearest, halves to the even one, as in Python. `exp` and `ln` come
/// from the crate `libm`, which gives the same results on all systems.
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
                    PaddingMode::Constant if fill.iter().all(|value| *value == fill[0]) => {
                        write!(f, ", fill={})", fill[0])
                    }
                    PaddingMode::Constant => write!(f, ", fill={})", numbers(fill)),
                    mode => write!(f, ", {mode})"),
                }
            }
            Action::Brightness(factor) => write!(f, "brightness({factor:.4})"),
            Action::Contrast(factor) => write!(f, "contrast({factor:.4})"),
            Action::Saturation(factor) => write!(f, "saturation({factor:.4})"),
            Action::Hue(turn) => write!(f, "hue({turn:.4})"),
        }
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
                    let fits = |start: u32, len: u32, all: u32| {
                        len > 0 && start.checked_add(len).is_some_and(|end| end <= all)
                    };
                    let Size { height, width } = checked.size;
                    if !fits(top, size.height, height) || !fits(left, size.width, width) {
                        return Err(unfit(format!("a part of {width} × {height}"), action));
                    }
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
                _ => {}
            }
        }
        Ok(checked.size)
    }

    fn crop(&mut self, top: u32, left: u32, size: Size) {
        if size != self.size {
            self.actions.push(Action::Crop { top, left, size });
            self.size = size;
        }
    }

    fn resize(&mut self, size: Size, interpolation: Interpolation, max: u64) -> Result<()> {
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
            let too_long = |size: &Size| size.height.max(size.width) > MAX_FILTERED;
            if let Some(found) = [old, new].iter().find(|&size| too_long(size)) {
                let (height, width) = (found.height, found.width);
                let expected =
                    format!("a side of at most {MAX_FILTERED} pixels for {interpolation}");
                let message = format!("expected {expected}, found {width} × {height}");
                return Err(Error::new(ErrorKind::Limit, message));
            }
        }
        self.actions.push(Action::Resize { size, interpolation });
        self.size = size;
        Ok(())
    }

    fn pad(
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
        let value =
            |channel: usize| fill.get(channel).or(fill.first()).copied().unwrap_or_default();
        let fill = [value(0), value(1), value(2), value(3)];
        self.actions.push(Action::Pad { padding, fill, padding_mode });
        self.size = size;
        Ok(())
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

impl Pipeline {
    /// The plan for an image with this header; this generator makes the random choices.
    ///
    /// The loader passes [`Record::rng`](crate::loader::Record::rng) of the pipeline's
    /// [seed](Pipeline::seed).
    ///
    /// ```
    /// use kiste::image::{Header, Pipeline};
    /// use kiste::sampler::rng::StableRng;
    ///
    /// let pipeline: Pipeline = "resize(256) | center_crop(224)".parse()?;
    /// let plan = pipeline.plan(&Header::new(500, 375), &mut StableRng::new(&[]))?;
    /// let expected = "resize(256, 341) | crop(top=16, left=58, height=224, width=224)";
    /// assert_eq!(plan.to_string(), expected);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for an image that is too small for a step, and
    /// [`Limit`](ErrorKind::Limit) for one that has, or gets, too many pixels.
    pub fn plan(&self, header: &Header, rng: &mut StableRng) -> Result<Plan> {
        let mut plan = Plan::empty();
        self.plan_into(header, rng, &mut plan)?;
        Ok(plan)
    }

    /// The same into a plan whose memory is reused.
    pub(super) fn plan_into(
        &self,
        header: &Header,
        rng: &mut StableRng,
        plan: &mut Plan,
    ) -> Result<()> {
        plan.source = header.upright();
        plan.orientation = header.orientation;
        plan.size = plan.source;
        plan.actions.clear();
        if plan.source.pixels() == 0 {
            return Err(unfit("an image", "one without pixels"));
        }
        check_pixels(plan.source, self.max_pixels())?;
        for step in self.steps() {
            self.add(step, rng, plan).map_err(|error| named(step, error))?;
        }
        Ok(())
    }

    fn add(&self, step: &Step, rng: &mut StableRng, plan: &mut Plan) -> Result<()> {
        let max = self.max_pixels();
        match step {
            Step::Resize { size, interpolation, max_size } => {
                let size = match *size {
                    NewSize::Exact(size) => size,
                    NewSize::Short(short) => short_side(plan.size, short, *max_size)?,
                };
                plan.resize(size, *interpolation, max)
            }
            Step::CenterCrop { size } => {
                let lacks = |have: u32, want: u32| want.saturating_sub(have);
                let high = lacks(plan.size.height, size.height);
                let wide = lacks(plan.size.width, size.width);
                let padding = Padding {
                    left: wide / 2,
                    top: high / 2,
                    right: wide.div_ceil(2),
                    bottom: high.div_ceil(2),
                };
                plan.pad(padding, &[0], PaddingMode::Constant, max)?;
                // Python rounds halves to even.
                let middle =
                    |have: u32, want: u32| (f64::from(have - want) / 2.0).round_ties_even() as u32;
                let top = middle(plan.size.height, size.height);
                plan.crop(top, middle(plan.size.width, size.width), *size);
                Ok(())
            }
            Step::RandomResizedCrop { size, scale, ratio, interpolation } => {
                let (top, left, part) = random_part(plan.size, *scale, *ratio, rng);
                plan.crop(top, left, part);
                plan.resize(*size, *interpolation, max)
            }
            Step::RandomCrop { size, padding, pad_if_needed, fill, padding_mode } => {
                let mut padding = *padding;
                let lack = |have: u32, want: u32, before: u32, after: u32| {
                    let have = u64::from(have) + u64::from(before) + u64::from(after);
                    u64::from(want).saturating_sub(have) as u32
                };
                if *pad_if_needed {
                    let (has, wants) = (plan.size, size);
                    let high = lack(has.height, wants.height, padding.top, padding.bottom);
                    let wide = lack(has.width, wants.width, padding.left, padding.right);
                    padding.top += high;
                    padding.bottom += high;
                    padding.left += wide;
                    padding.right += wide;
                }
                plan.pad(padding, fill, *padding_mode, max)?;
                let Size { height, width } = plan.size;
                if height < size.height || width < size.width {
                    let expected = format!("an image of {} × {} or more", size.width, size.height);
                    return Err(unfit(expected, format!("{width} × {height}")));
                }
                let mut start = |have: u32, want: u32| match have > want {
                    true => rng.below(u64::from(have - want) + 1) as u32,
                    false => 0,
                };
                let top = start(height, size.height);
                let left = start(width, size.width);
                plan.crop(top, left, *size);
                Ok(())
            }
            Step::HorizontalFlip(p) => {
                if rng.random() < *p {
                    plan.actions.push(Action::HorizontalFlip);
                }
                Ok(())
            }
            Step::VerticalFlip(p) => {
                if rng.random() < *p {
                    plan.actions.push(Action::VerticalFlip);
                }
                Ok(())
            }
            Step::ColorJitter { brightness, contrast, saturation, hue } => {
                let mut order = [0usize, 1, 2, 3];
                rng.shuffle(&mut order);
                let ranges = [brightness, contrast, saturation, hue];
                let factors = ranges.map(|range| range.map(|range| uniform(range, rng)));
                let makes = [Action::Brightness, Action::Contrast, Action::Saturation, Action::Hue];
                let drawn = order.into_iter().filter_map(|at| Some(makes[at](factors[at]?)));
                plan.actions.extend(drawn);
                Ok(())
            }
            Step::Pad { padding, fill, padding_mode } => {
                plan.pad(*padding, fill, *padding_mode, max)
            }
            Step::To(..) | Step::Normalize { .. } => Ok(()),
        }
    }
}

fn named(step: &Step, error: Error) -> Error {
    let named = Error::new(error.kind(), format!("{}: {}", step.name(), error.message()));
    match error.option() {
        Some(option) => named.with_option(option),
        None => named,
    }
}

fn uniform((from, to): Range, rng: &mut StableRng) -> f64 {
    from + (to - from) * rng.random()
}

/// The size of an image whose shorter side gets this length, as torchvision rounds it.
fn short_side(size: Size, short: u32, max: Option<u32>) -> Result<Size> {
    let (old_short, old_long) = (size.height.min(size.width), size.height.max(size.width));
    let (mut new_short, mut new_long) =
        (short, (f64::from(short) * f64::from(old_long) / f64::from(old_short)) as u32);
    if let Some(max) = max.filter(|&max| new_long > max) {
        new_short = (f64::from(max) * f64::from(new_short) / f64::from(new_long)) as u32;
        new_long = max;
    }
    if new_short == 0 {
        let found = format!("{} × {}", size.width, size.height);
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("expected an image that keeps a pixel on its shorter side, found {found}"),
        ));
    }
    Ok(match size.width <= size.height {
        true => Size { height: new_long, width: new_short },
        false => Size { height: new_short, width: new_long },
    })
}

/// Where the part of `random_resized_crop` begins, and its size.
fn random_part(of: Size, scale: Range, ratio: Range, rng: &mut StableRng) -> (u32, u32, Size) {
    let (height, width) = (f64::from(of.height), f64::from(of.width));
    let logs = (libm::log(ratio.0), libm::log(ratio.1));
    for _ in 0..10 {
        let area = height * width * uniform(scale, rng);
        let ratio = libm::exp(uniform(logs, rng));
        let wide = (area * ratio).sqrt().round_ties_even();
        let high = (area / ratio).sqrt().round_ties_even();
        if 0.0 < wide && wide <= width && 0.0 < high && high <= height {
            let size = Size { height: high as u32, width: wide as u32 };
            let top = rng.below(u64::from(of.height - size.height) + 1) as u32;
            let left = rng.below(u64::from(of.width - size.width) + 1) as u32;
            return (top, left, size);
        }
    }
    let size = if width / height < ratio.0 {
        let high = (width / ratio.0).round_ties_even();
        Size { height: (high as u32).clamp(1, of.height), width: of.width }
    } else if width / height > ratio.1 {
        let wide = (height * ratio.1).round_ties_even();
        Size { height: of.height, width: (wide as u32).clamp(1, of.width) }
    } else {
        of
    };
    ((of.height - size.height) / 2, (of.width - size.width) / 2, size)
}
