//! Whether the values of a [`Step`] are those that it can have.

use super::step::{Interpolation, MAX_SIDE, Mode, NewSize, Padding, Range, Size, Step, unfit};
use crate::error::Result;

/// The most columns or rows of a blur.
const MAX_KERNEL: u32 = 1023;

impl Step {
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
            Step::HorizontalFlip(p) | Step::VerticalFlip(p) => check_probability(*p),
            Step::Grayscale(p) => {
                check_probability(*p)?;
                check_colors(mode)
            }
            Step::GaussianBlur { kernel_size, sigma } => {
                if let Some(size) = kernel_size.iter().find(|&&size| !is_kernel(size)) {
                    let expected = format!("an odd kernel_size of 1 to {MAX_KERNEL}");
                    return Err(unfit(expected, size));
                }
                match 0.0 < sigma.0 && sigma.0 <= sigma.1 && sigma.1.is_finite() {
                    true => Ok(()),
                    false => Err(unfit("a sigma above 0, the smaller first", format!("{sigma:?}"))),
                }
            }
            Step::RandomErasing { p, scale, ratio, value } => {
                check_probability(*p)?;
                if !(0.0 <= scale.0 && scale.0 <= scale.1 && scale.1 <= 1.0) {
                    let expected = "a scale of 0 to 1, the smaller first";
                    return Err(unfit(expected, format!("{scale:?}")));
                }
                if !(0.0 < ratio.0 && ratio.0 <= ratio.1 && ratio.1.is_finite()) {
                    return Err(unfit("a ratio above 0, the smaller first", format!("{ratio:?}")));
                }
                check_values("value", value, channels)
            }
            Step::Rotate { degrees, interpolation, fill, .. } => {
                check_angles("degrees", *degrees, 360.0)?;
                check_turned(*interpolation)?;
                check_values("fill", fill, channels)
            }
            Step::Affine { degrees, translate, scale, shear, interpolation, fill } => {
                check_angles("degrees", *degrees, 360.0)?;
                let is_part = |part: f64| (0.0..=1.0).contains(&part);
                if let Some(parts) = translate.filter(|&(x, y)| !is_part(x) || !is_part(y)) {
                    return Err(unfit("a translate of 0 to 1", format!("{parts:?}")));
                }
                let is_factor = |(from, to): Range| 0.0 < from && from <= to && to.is_finite();
                if let Some(range) = scale.filter(|&range| !is_factor(range)) {
                    return Err(unfit("a scale above 0, the smaller first", format!("{range:?}")));
                }
                if let Some((x, y)) = *shear {
                    check_angles("shear", x, 90.0)?;
                    check_angles("shear", y.unwrap_or_default(), 90.0)?;
                }
                check_turned(*interpolation)?;
                check_values("fill", fill, channels)
            }
            Step::ColorJitter { brightness, contrast, saturation, hue } => {
                check_colors(mode)?;
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

fn check_angles(name: &str, (from, to): Range, most: f64) -> Result<()> {
    match -most <= from && from <= to && to <= most {
        true => Ok(()),
        false => {
            let expected = format!("{name} within -{most} to {most}, the smaller first");
            Err(unfit(expected, format!("({from}, {to})")))
        }
    }
}

fn check_border(padding: Padding, fill: &[u8], channels: usize) -> Result<()> {
    let sides = [padding.left, padding.top, padding.right, padding.bottom];
    if let Some(side) = sides.into_iter().find(|&side| side > MAX_SIDE) {
        return Err(unfit(format!("a padding of up to {MAX_SIDE}"), side));
    }
    check_values("fill", fill, channels)
}

fn check_values(name: &str, values: &[u8], channels: usize) -> Result<()> {
    match values.len() == 1 || values.len() == channels {
        true => Ok(()),
        false => Err(unfit(format!("{} as {name}", one_or(channels)), values.len())),
    }
}

fn check_probability(p: f64) -> Result<()> {
    match p {
        0.0..=1.0 => Ok(()),
        _ => Err(unfit("a probability of 0 to 1", p)),
    }
}

fn check_colors(mode: Mode) -> Result<()> {
    match mode {
        Mode::Rgba => Err(unfit("decode(rgb) or decode(gray) before it", "decode(rgba)")),
        _ => Ok(()),
    }
}

/// As torchvision, which has no other filters for tensors that are turned.
pub(super) fn check_turned(interpolation: Interpolation) -> Result<()> {
    match interpolation {
        Interpolation::Nearest | Interpolation::Bilinear => Ok(()),
        other => Err(unfit("nearest or bilinear as interpolation", other)),
    }
}

/// Whether a blur can have this many columns or rows: some in the middle and as many on both sides.
pub(super) fn is_kernel(size: u32) -> bool {
    size % 2 == 1 && size <= MAX_KERNEL
}
