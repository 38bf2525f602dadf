//! Steps as text: `random_resized_crop(224) | hflip | to(f32, chw)`.

use std::fmt;
use std::str::FromStr;

use super::arguments::{Arguments, Value, arguments, is_word, near};
use super::step::{
    ERASED, ERASED_RATIO, ERASING, GRAYSCALE, IMAGENET_MEAN, IMAGENET_STD, Interpolation, Layout,
    Mode, NewSize, Padding, PaddingMode, PixelType, RATIO, Range, SCALE, SIGMA, Size, Step,
    factors, unfit,
};
use crate::error::{Error, ErrorKind, Result};

/// Longer text is no pipeline.
pub(super) const MAX_LEN: usize = 1 << 16;

/// The steps and their arguments, in the order in which they may be given without names.
const STEPS: &[(&str, &[&str])] = &[
    ("seed", &["seed"]),
    ("decode", &["mode", "max_pixels", "scaled"]),
    ("resize", &["size", "interpolation", "max_size"]),
    ("center_crop", &["size"]),
    ("random_resized_crop", &["size", "scale", "ratio", "interpolation"]),
    ("random_crop", &["size", "padding", "pad_if_needed", "fill", "padding_mode"]),
    ("hflip", &["p"]),
    ("vflip", &["p"]),
    ("color_jitter", &["brightness", "contrast", "saturation", "hue"]),
    ("grayscale", &["p"]),
    ("gaussian_blur", &["kernel_size", "sigma"]),
    ("random_erasing", &["p", "scale", "ratio", "value"]),
    ("rotate", &["degrees", "interpolation", "expand", "fill"]),
    ("affine", &["degrees", "translate", "scale", "shear", "interpolation", "fill"]),
    ("pad", &["padding", "fill", "padding_mode"]),
    ("to", &["type", "layout"]),
    ("normalize", &["mean", "std"]),
];

/// Other names of steps.
const ALIASES: &[(&str, &str)] = &[
    ("random_horizontal_flip", "hflip"),
    ("random_vertical_flip", "vflip"),
    ("random_grayscale", "grayscale"),
    ("random_rotation", "rotate"),
    ("random_affine", "affine"),
];

const INTERPOLATIONS: &[(&str, Interpolation)] = &[
    ("bilinear", Interpolation::Bilinear),
    ("bicubic", Interpolation::Bicubic),
    ("lanczos", Interpolation::Lanczos),
    ("nearest", Interpolation::Nearest),
];

const PADDING_MODES: &[(&str, PaddingMode)] = &[
    ("constant", PaddingMode::Constant),
    ("edge", PaddingMode::Edge),
    ("reflect", PaddingMode::Reflect),
    ("symmetric", PaddingMode::Symmetric),
];

const PIXEL_TYPES: &[(&str, PixelType)] = &[
    ("u8", PixelType::U8),
    ("f32", PixelType::F32),
    ("f16", PixelType::F16),
    ("bf16", PixelType::Bf16),
];

const LAYOUTS: &[(&str, Layout)] = &[("hwc", Layout::Hwc), ("chw", Layout::Chw)];

const MODES: &[(&str, Mode)] = &[("rgb", Mode::Rgb), ("gray", Mode::Gray), ("rgba", Mode::Rgba)];

const TRUTHS: &[(&str, bool)] = &[("false", false), ("true", true)];

/// The parts of a pipeline.
pub(super) enum Part {
    Seed(u64),
    Decode { mode: Mode, max_pixels: Option<u64>, is_scaled: bool },
    Step(Step),
}

/// The parts of a text, each with its name.
pub(super) fn parse(text: &str) -> Result<Vec<Part>> {
    if text.len() > MAX_LEN {
        return Err(unfit(format!("up to {MAX_LEN} bytes"), text.len()));
    }
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut parts = Vec::new();
    for (at, call) in text.split('|').enumerate() {
        let (call, number) = (call.trim(), at + 1);
        let (name, rest) = call.split_at(call.find(|c| !is_word(c)).unwrap_or(call.len()));
        let known = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
        let Some((name, names)) = STEPS.iter().find(|(step, _)| *step == known) else {
            return Err(unknown(number, call, name));
        };
        let part = arguments(rest.trim(), names)
            .and_then(|arguments| part(name, arguments))
            .map_err(|error| in_step(number, name, &error))?;
        parts.push(part);
    }
    Ok(parts)
}

/// An error of a step, which is named.
pub(super) fn in_step(number: usize, name: &str, error: &Error) -> Error {
    Error::new(error.kind(), format!("step {number}, {name}: {}", error.message()))
}

fn unknown(number: usize, call: &str, name: &str) -> Error {
    let message = match name {
        "" => format!("step {number}: expected the name of a step, found {call:?}"),
        _ => {
            let near = near(name, STEPS.iter().map(|(name, _)| *name));
            format!("step {number}: expected a step, found {name:?}; {near}")
        }
    };
    Error::new(ErrorKind::Invalid, message)
}

fn part(name: &str, arguments: Arguments<'_>) -> Result<Part> {
    let interpolation = || arguments.word("interpolation", INTERPOLATIONS, Interpolation::Bilinear);
    let turned = || arguments.word("interpolation", INTERPOLATIONS, Interpolation::Nearest);
    let padding_mode = || arguments.word("padding_mode", PADDING_MODES, PaddingMode::Constant);
    let step = match name {
        "seed" => {
            let seed = arguments.integer("seed")?;
            return Ok(Part::Seed(seed.ok_or_else(|| unfit("a seed", "none"))?));
        }
        "decode" => {
            let mode = arguments.word("mode", MODES, Mode::Rgb)?;
            let max_pixels = arguments.integer("max_pixels")?;
            let is_scaled = arguments.word("scaled", TRUTHS, false)?;
            return Ok(Part::Decode { mode, max_pixels, is_scaled });
        }
        "resize" => {
            let max_size = match arguments.integers("max_size")?.as_deref() {
                None => None,
                Some(&[max]) => Some(max),
                Some(other) => return Err(unfit("one number as max_size", other.len())),
            };
            Step::Resize { size: arguments.size()?, interpolation: interpolation()?, max_size }
        }
        "center_crop" => Step::CenterCrop { size: arguments.exact_size()? },
        "random_resized_crop" => Step::RandomResizedCrop {
            size: arguments.exact_size()?,
            scale: arguments.range("scale", SCALE)?,
            ratio: arguments.range("ratio", RATIO)?,
            interpolation: interpolation()?,
        },
        "random_crop" => Step::RandomCrop {
            size: arguments.exact_size()?,
            padding: arguments.padding()?,
            pad_if_needed: arguments.word("pad_if_needed", TRUTHS, false)?,
            fill: arguments.bytes("fill")?,
            padding_mode: padding_mode()?,
        },
        "hflip" => Step::HorizontalFlip(arguments.float("p", 0.5)?),
        "vflip" => Step::VerticalFlip(arguments.float("p", 0.5)?),
        "color_jitter" => Step::ColorJitter {
            brightness: arguments.jitter("brightness", factors)?,
            contrast: arguments.jitter("contrast", factors)?,
            saturation: arguments.jitter("saturation", factors)?,
            hue: arguments.jitter("hue", |hue| (hue != 0.0).then_some((-hue, hue)))?,
        },
        "grayscale" => Step::Grayscale(arguments.float("p", GRAYSCALE)?),
        "gaussian_blur" => Step::GaussianBlur {
            kernel_size: arguments.kernel_size()?,
            sigma: match arguments.get("sigma") {
                Some(Value::Word(_)) => [arguments.float("sigma", 0.0)?; 2].into(),
                _ => arguments.range("sigma", SIGMA)?,
            },
        },
        "random_erasing" => Step::RandomErasing {
            p: arguments.float("p", ERASING)?,
            scale: arguments.range("scale", ERASED)?,
            ratio: arguments.range("ratio", ERASED_RATIO)?,
            value: arguments.bytes("value")?,
        },
        "rotate" => Step::Rotate {
            degrees: arguments.degrees()?,
            interpolation: turned()?,
            expand: arguments.word("expand", TRUTHS, false)?,
            fill: arguments.bytes("fill")?,
        },
        "affine" => {
            let given = |name: &str| match arguments.get(name) {
                Some(_) => arguments.range(name, (0.0, 0.0)).map(Some),
                None => Ok(None),
            };
            Step::Affine {
                degrees: arguments.degrees()?,
                translate: given("translate")?,
                scale: given("scale")?,
                shear: arguments.shear()?,
                interpolation: turned()?,
                fill: arguments.bytes("fill")?,
            }
        }
        "pad" => {
            arguments.needs("padding")?;
            let (padding, fill) = (arguments.padding()?, arguments.bytes("fill")?);
            Step::Pad { padding, fill, padding_mode: padding_mode()? }
        }
        "to" => {
            arguments.needs("type")?;
            let pixel = arguments.word("type", PIXEL_TYPES, PixelType::U8)?;
            Step::To(pixel, arguments.word("layout", LAYOUTS, Layout::Hwc)?)
        }
        _ => match arguments.get("mean") {
            Some(Value::Word("imagenet")) if arguments.values.len() == 1 => {
                Step::normalize_imagenet()
            }
            _ => Step::Normalize { mean: arguments.floats("mean")?, std: arguments.floats("std")? },
        },
    };
    Ok(Part::Step(step))
}

/// The word of a value.
fn word_of<T: PartialEq>(value: &T, words: &[(&'static str, T)]) -> &'static str {
    words.iter().find(|(_, known)| known == value).map_or("", |(word, _)| word)
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word_of(self, MODES))
    }
}

impl FromStr for Interpolation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Interpolation> {
        let found = INTERPOLATIONS.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| unfit("an interpolation", format!("{text:?}")))
    }
}

impl fmt::Display for Interpolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word_of(self, INTERPOLATIONS))
    }
}

impl fmt::Display for PaddingMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word_of(self, PADDING_MODES))
    }
}

impl fmt::Display for PixelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word_of(self, PIXEL_TYPES))
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word_of(self, LAYOUTS))
    }
}

/// A number, or several in parentheses.
pub(super) fn numbers<T: fmt::Display>(values: &[T]) -> String {
    match values {
        [one] => one.to_string(),
        _ => {
            let words: Vec<String> = values.iter().map(T::to_string).collect();
            format!("({})", words.join(", "))
        }
    }
}

fn size_text(size: Size) -> String {
    match size.height == size.width {
        true => size.height.to_string(),
        false => numbers(&[size.height, size.width]),
    }
}

pub(super) fn padding_text(padding: Padding) -> String {
    match padding == Padding::all(padding.left) {
        true => padding.left.to_string(),
        false => numbers(&[padding.left, padding.top, padding.right, padding.bottom]),
    }
}

/// A range with its name.
fn named(name: &str, range: &Range) -> String {
    format!("{name}=({}, {})", range.0, range.1)
}

/// A range, or the number that stands for it.
fn around_zero(range: &Range) -> String {
    match -range.0 == range.1 && range.1 >= 0.0 {
        true => range.1.to_string(),
        false => numbers(&[range.0, range.1]),
    }
}

/// As it is parsed, without what is the default.
pub(super) fn print(step: &Step, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut arguments: Vec<String> = Vec::new();
    let mut push = |is_default: bool, text: String| {
        if !is_default {
            arguments.push(text);
        }
    };
    let filter =
        |of: &Interpolation| (*of == Interpolation::default(), format!("interpolation={of}"));
    match step {
        Step::Resize { size, interpolation, max_size } => {
            push(
                false,
                match size {
                    NewSize::Short(side) => side.to_string(),
                    NewSize::Exact(size) => numbers(&[size.height, size.width]),
                },
            );
            let (is_default, text) = filter(interpolation);
            push(is_default, text);
            push(max_size.is_none(), format!("max_size={}", max_size.unwrap_or_default()));
        }
        Step::CenterCrop { size } => push(false, size_text(*size)),
        Step::RandomResizedCrop { size, scale, ratio, interpolation } => {
            push(false, size_text(*size));
            push(*scale == SCALE, named("scale", scale));
            push(*ratio == RATIO, named("ratio", ratio));
            let (is_default, text) = filter(interpolation);
            push(is_default, text);
        }
        Step::RandomCrop { size, padding, pad_if_needed, fill, padding_mode } => {
            push(false, size_text(*size));
            push(padding.is_none(), format!("padding={}", padding_text(*padding)));
            push(!pad_if_needed, "pad_if_needed=true".to_owned());
            push(fill[..] == [0], format!("fill={}", numbers(fill)));
            let is_default = *padding_mode == PaddingMode::default();
            push(is_default, format!("padding_mode={padding_mode}"));
        }
        Step::HorizontalFlip(p) | Step::VerticalFlip(p) => push(*p == 0.5, p.to_string()),
        Step::ColorJitter { brightness, contrast, saturation, hue } => {
            let around_one: fn(f64) -> Option<Range> = factors;
            let around_zero: fn(f64) -> Option<Range> = |hue| Some((-hue, hue));
            for (name, range, around) in [
                ("brightness", brightness, around_one),
                ("contrast", contrast, around_one),
                ("saturation", saturation, around_one),
                ("hue", hue, around_zero),
            ] {
                let Some(range) = range else { continue };
                let strength = range.1 - if name == "hue" { 0.0 } else { 1.0 };
                // Without the error of the subtraction, and only if it makes the same range again.
                let strengths = [(strength * 1e12).round() / 1e12, strength];
                let makes_it =
                    |strength: &f64| *strength > 0.0 && around(*strength) == Some(*range);
                match strengths.into_iter().find(makes_it) {
                    Some(strength) => push(false, format!("{name}={strength}")),
                    None => push(false, format!("{name}=({}, {})", range.0, range.1)),
                }
            }
        }
        Step::Grayscale(p) => push(*p == GRAYSCALE, p.to_string()),
        Step::GaussianBlur { kernel_size: [columns, rows], sigma } => {
            let size = if columns == rows { &[*columns][..] } else { &[*columns, *rows] };
            push(false, numbers(size));
            match sigma.0 == sigma.1 {
                true => push(false, format!("sigma={}", sigma.0)),
                false => push(*sigma == SIGMA, named("sigma", sigma)),
            }
        }
        Step::RandomErasing { p, scale, ratio, value } => {
            push(*p == ERASING, p.to_string());
            push(*scale == ERASED, named("scale", scale));
            push(*ratio == ERASED_RATIO, named("ratio", ratio));
            push(value[..] == [0], format!("value={}", numbers(value)));
        }
        Step::Rotate { degrees, interpolation, expand, fill } => {
            push(false, around_zero(degrees));
            push(
                *interpolation == Interpolation::Nearest,
                format!("interpolation={interpolation}"),
            );
            push(!expand, "expand=true".to_owned());
            push(fill[..] == [0], format!("fill={}", numbers(fill)));
        }
        Step::Affine { degrees, translate, scale, shear, interpolation, fill } => {
            push(false, around_zero(degrees));
            let mut given = |name: &str, range: &Option<Range>| {
                push(range.is_none(), named(name, &range.unwrap_or_default()));
            };
            given("translate", translate);
            given("scale", scale);
            match shear {
                Some((x, Some(y))) => {
                    push(false, format!("shear={}", numbers(&[x.0, x.1, y.0, y.1])));
                }
                Some((x, None)) => push(false, format!("shear={}", around_zero(x))),
                None => {}
            }
            push(
                *interpolation == Interpolation::Nearest,
                format!("interpolation={interpolation}"),
            );
            push(fill[..] == [0], format!("fill={}", numbers(fill)));
        }
        Step::Pad { padding, fill, padding_mode } => {
            push(false, padding_text(*padding));
            push(fill[..] == [0], format!("fill={}", numbers(fill)));
            let is_default = *padding_mode == PaddingMode::default();
            push(is_default, format!("padding_mode={padding_mode}"));
        }
        Step::To(pixel, layout) => {
            push(false, pixel.to_string());
            push(*layout == Layout::default(), layout.to_string());
        }
        Step::Normalize { mean, std } if mean[..] == IMAGENET_MEAN && std[..] == IMAGENET_STD => {
            push(false, "imagenet".to_owned());
        }
        Step::Normalize { mean, std } => {
            push(false, numbers(mean));
            push(false, numbers(std));
        }
    }
    f.write_str(step.name())?;
    match arguments.is_empty() {
        true => Ok(()),
        false => write!(f, "({})", arguments.join(", ")),
    }
}
