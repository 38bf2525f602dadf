//! Steps as text: `random_resized_crop(224) | hflip | to(f32, chw)`.

use std::fmt;
use std::str::FromStr;

use super::step::{
    IMAGENET_MEAN, IMAGENET_STD, Interpolation, Layout, Mode, NewSize, Padding, PaddingMode,
    PixelType, RATIO, Range, SCALE, Size, Step, factors, unfit,
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
    ("pad", &["padding", "fill", "padding_mode"]),
    ("to", &["type", "layout"]),
    ("normalize", &["mean", "std"]),
];

/// Other names of steps.
const ALIASES: &[(&str, &str)] =
    &[("random_horizontal_flip", "hflip"), ("random_vertical_flip", "vflip")];

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

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
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

/// The known names that are near to one that is not known; all of them if none is.
fn near<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let is_near = |other: &&str| distance(name, other) <= 1 + name.len().min(other.len()) / 4;
    let is_part = |other: &&str| name.len() > 2 && (other.contains(name) || name.contains(*other));
    let mut found: Vec<&str> = known.clone().filter(is_near).collect();
    if found.is_empty() {
        found = known.clone().filter(is_part).collect();
    }
    match &found[..] {
        [] => format!("there are {}", known.collect::<Vec<_>>().join(", ")),
        near => format!("near names are {}", near.join(", ")),
    }
}

/// Letters to add, remove or replace to make one name of the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let replaced = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(corner + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

/// A value of an argument.
#[derive(Debug, Clone)]
enum Value<'a> {
    /// A number or a word.
    Word(&'a str),
    List(Vec<&'a str>),
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Word(word) => write!(f, "{word:?}"),
            Value::List(words) => write!(f, "({})", words.join(", ")),
        }
    }
}

/// The values of a step's arguments, by name.
struct Arguments<'a> {
    values: Vec<(&'static str, Value<'a>)>,
}

/// The arguments in parentheses, if there are any.
fn arguments<'a>(text: &'a str, names: &'static [&'static str]) -> Result<Arguments<'a>> {
    let mut found = Arguments { values: Vec::new() };
    if text.is_empty() {
        return Ok(found);
    }
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let inner = inner.ok_or_else(|| unfit("arguments in parentheses", format!("{text:?}")))?.trim();
    if inner.is_empty() {
        return Ok(found);
    }
    // As in Python, a comma may follow the last one.
    let inner = inner.strip_suffix(',').unwrap_or(inner);
    let mut named = false;
    for argument in at_commas(inner)? {
        let argument = argument.trim();
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => {
                named = true;
                let name = name.trim();
                let known = names.iter().find(|known| **known == name).copied();
                (known.ok_or_else(|| no_argument(name, names))?, value.trim())
            }
            None if named => {
                return Err(unfit("a name for each argument after a named one", argument));
            }
            None => match names.get(found.values.len()) {
                Some(name) => (*name, argument),
                None => {
                    let expected = format!("no arguments after {}", names.join(", "));
                    return Err(unfit(expected, format!("{argument:?}")));
                }
            },
        };
        if found.values.iter().any(|(known, _)| *known == name) {
            return Err(unfit(format!("{name} once"), "it twice"));
        }
        found.values.push((name, value_of(name, value)?));
    }
    Ok(found)
}

fn no_argument(name: &str, names: &[&str]) -> Error {
    if name == "antialias" {
        return unfit("no argument antialias, as antialiasing is always on", "one");
    }
    let near = near(name, names.iter().copied());
    Error::new(ErrorKind::Invalid, format!("expected an argument, found {name:?}; {near}"))
}

/// The pieces between commas that are not in parentheses.
fn at_commas(text: &str) -> Result<Vec<&str>> {
    let (mut depth, mut start, mut pieces) = (0usize, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => {
                let less = depth.checked_sub(1);
                depth = less.ok_or_else(|| unfit("matching parentheses", format!("{text:?}")))?;
            }
            ',' if depth == 0 => {
                pieces.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(unfit("matching parentheses", format!("{text:?}")));
    }
    pieces.push(&text[start..]);
    Ok(pieces)
}

fn value_of<'a>(name: &str, text: &'a str) -> Result<Value<'a>> {
    let is_plain = |word: &str| {
        let ok = |c: char| is_word(c) || matches!(c, '.' | '-' | '+');
        !word.is_empty() && word.chars().all(ok)
    };
    let bracketed = |open, close| text.strip_prefix(open).and_then(|t| t.strip_suffix(close));
    let value = match bracketed('(', ')').or_else(|| bracketed('[', ']')) {
        Some(inner) => {
            let inner = inner.trim();
            // As in Python, `(1,)` is a list of one.
            let inner = inner.strip_suffix(',').unwrap_or(inner);
            Value::List(inner.split(',').map(str::trim).collect())
        }
        None => Value::Word(text),
    };
    let is_value = match &value {
        Value::Word(word) => is_plain(word),
        Value::List(words) => words.iter().all(|word| is_plain(word)),
    };
    match is_value {
        true => Ok(value),
        false => Err(unfit(format!("a value of {name}"), format!("{text:?}"))),
    }
}

impl<'a> Arguments<'a> {
    fn get(&self, name: &str) -> Option<&Value<'a>> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    fn needs(&self, name: &str) -> Result<&Value<'a>> {
        self.get(name).ok_or_else(|| unfit(format!("a {name}"), "none"))
    }

    /// One of several words.
    fn word<T: Copy>(&self, name: &str, known: &[(&str, T)], default: T) -> Result<T> {
        let Some(value) = self.get(name) else { return Ok(default) };
        let found = match value {
            Value::Word(word) => known.iter().find(|(known, _)| known == word),
            Value::List(_) => None,
        };
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let error = || unfit(format!("one of {} as {name}", names.join(", ")), value);
        found.map(|(_, value)| *value).ok_or_else(error)
    }

    fn float(&self, name: &str, default: f64) -> Result<f64> {
        match self.get(name) {
            Some(Value::Word(word)) => float(name, word),
            Some(value) => Err(unfit(format!("a number as {name}"), value)),
            None => Ok(default),
        }
    }

    fn integer(&self, name: &str) -> Result<Option<u64>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = match value {
            Value::Word(word) => word.parse().ok(),
            Value::List(_) => None,
        };
        number.map(Some).ok_or_else(|| unfit(format!("a whole number as {name}"), value))
    }

    fn floats(&self, name: &str) -> Result<Vec<f64>> {
        match self.needs(name)? {
            Value::Word(word) => Ok(vec![float(name, word)?]),
            Value::List(words) => words.iter().map(|word| float(name, word)).collect(),
        }
    }

    fn range(&self, name: &str, default: Range) -> Result<Range> {
        let Some(value) = self.get(name) else { return Ok(default) };
        match value {
            Value::List(words) if words.len() == 2 => {
                Ok((float(name, words[0])?, float(name, words[1])?))
            }
            _ => Err(unfit(format!("two numbers as {name}"), value)),
        }
    }

    /// The range of a factor: given, or around a centre.
    fn jitter(&self, name: &str, around: fn(f64) -> Option<Range>) -> Result<Option<Range>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Word(word)) => {
                let strength = float(name, word)?;
                match strength >= 0.0 {
                    true => Ok(around(strength)),
                    false => Err(unfit(format!("a {name} of 0 or more"), word)),
                }
            }
            Some(Value::List(_)) => self.range(name, (0.0, 0.0)).map(Some),
        }
    }

    fn integers(&self, name: &str) -> Result<Option<Vec<u32>>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let words = match value {
            Value::Word(word) => std::slice::from_ref(word),
            Value::List(words) => words,
        };
        let numbers: Option<Vec<u32>> = words.iter().map(|word| word.parse().ok()).collect();
        numbers.map(Some).ok_or_else(|| unfit(format!("whole numbers as {name}"), value))
    }

    fn size(&self) -> Result<NewSize> {
        let value = self.needs("size")?;
        match self.integers("size")?.as_deref() {
            Some(&[side]) => Ok(NewSize::Short(side)),
            Some(&[height, width]) => Ok(NewSize::Exact(Size { height, width })),
            _ => Err(unfit("a side or (height, width) as size", value)),
        }
    }

    fn exact_size(&self) -> Result<Size> {
        Ok(match self.size()? {
            NewSize::Short(side) => Size::square(side),
            NewSize::Exact(size) => size,
        })
    }

    fn padding(&self) -> Result<Padding> {
        match self.integers("padding")?.as_deref() {
            None => Ok(Padding::default()),
            Some(&[all]) => Ok(Padding::all(all)),
            Some(&[x, y]) => Ok(Padding { left: x, top: y, right: x, bottom: y }),
            Some(&[left, top, right, bottom]) => Ok(Padding { left, top, right, bottom }),
            Some(other) => Err(unfit("1, 2 or 4 numbers as padding", other.len())),
        }
    }

    fn fill(&self) -> Result<Vec<u8>> {
        let Some(numbers) = self.integers("fill")? else { return Ok(vec![0]) };
        let bytes: std::result::Result<Vec<u8>, _> =
            numbers.iter().map(|&number| u8::try_from(number)).collect();
        bytes.map_err(|_| unfit("numbers of 0 to 255 as fill", format!("{numbers:?}")))
    }
}

fn float(name: &str, word: &str) -> Result<f64> {
    let number = word.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| unfit(format!("a number as {name}"), format!("{word:?}")))
}

fn part(name: &str, arguments: Arguments<'_>) -> Result<Part> {
    let interpolation = || arguments.word("interpolation", INTERPOLATIONS, Interpolation::Bilinear);
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
            fill: arguments.fill()?,
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
        "pad" => {
            arguments.needs("padding")?;
            let (padding, fill) = (arguments.padding()?, arguments.fill()?);
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
            push(*scale == SCALE, format!("scale=({}, {})", scale.0, scale.1));
            push(*ratio == RATIO, format!("ratio=({}, {})", ratio.0, ratio.1));
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
