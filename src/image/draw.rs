//! From a [`Pipeline`] to the [`Plan`] of one image: what is random is drawn here.

use super::header::Header;
use super::pipeline::Pipeline;
use super::plan::{Action, Plan, check_pixels, of_channels};
use super::step::{NewSize, Padding, PaddingMode, Range, Size, Step, unfit};
use crate::error::{Error, ErrorKind, Result};
use crate::sampler::rng::StableRng;

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
            Step::Grayscale(p) => {
                if rng.random() < *p {
                    plan.actions.push(Action::Grayscale);
                }
                Ok(())
            }
            Step::GaussianBlur { kernel_size, sigma } => {
                plan.blur(*kernel_size, uniform(*sigma, rng))
            }
            Step::RandomErasing { p, scale, ratio, value } => {
                if rng.random() < *p {
                    let value = of_channels(value);
                    let erased = erased_part(plan.size, *scale, *ratio, rng);
                    let action =
                        erased.map(|(top, left, size)| Action::Erase { top, left, size, value });
                    plan.actions.extend(action);
                }
                Ok(())
            }
            Step::Rotate { degrees, interpolation, expand, fill } => {
                let (angle, fill) = (uniform(*degrees, rng), of_channels(fill));
                let (interpolation, expand) = (*interpolation, *expand);
                plan.turn(&Action::Rotate { angle, interpolation, expand, fill }, max)
            }
            Step::Affine { degrees, translate, scale, shear, interpolation, fill } => {
                let Size { height, width } = plan.size;
                let angle = uniform(*degrees, rng);
                let mut shift = |part: f64, side: u32| {
                    let most = part * f64::from(side);
                    uniform((-most, most), rng).round_ties_even() as i32
                };
                let translate = match *translate {
                    Some((x, y)) => [shift(x, width), shift(y, height)],
                    None => [0, 0],
                };
                let mut one_of = |range: Option<Range>| range.map(|range| uniform(range, rng));
                let scale = one_of(*scale).unwrap_or(1.0);
                let x = one_of(shear.map(|(x, _)| x)).unwrap_or_default();
                let y = one_of(shear.and_then(|(_, y)| y)).unwrap_or_default();
                let (shear, interpolation) = ([x, y], *interpolation);
                let fill = of_channels(fill);
                let action = Action::Affine { angle, translate, scale, shear, interpolation, fill };
                plan.turn(&action, max)
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

/// Where the part of `random_erasing` begins, and its size, if one of ten tries fits and has pixels.
fn erased_part(
    of: Size,
    scale: Range,
    ratio: Range,
    rng: &mut StableRng,
) -> Option<(u32, u32, Size)> {
    let (height, width) = (f64::from(of.height), f64::from(of.width));
    let logs = (libm::log(ratio.0), libm::log(ratio.1));
    for _ in 0..10 {
        let area = height * width * uniform(scale, rng);
        let ratio = libm::exp(uniform(logs, rng));
        let high = (area * ratio).sqrt().round_ties_even();
        let wide = (area / ratio).sqrt().round_ties_even();
        if high < height && wide < width {
            let size = Size { height: high as u32, width: wide as u32 };
            let top = rng.below(u64::from(of.height - size.height) + 1) as u32;
            let left = rng.below(u64::from(of.width - size.width) + 1) as u32;
            return (size.pixels() > 0).then_some((top, left, size));
        }
    }
    None
}
