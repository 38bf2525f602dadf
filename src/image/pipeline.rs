//! [`Pipeline`]: from encoded bytes to a row of a batch, as a list of steps.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::step::{Layout, Mode, NewSize, PixelType, Size, Step, unfit};
use super::text::{self, MAX_LEN, Part, in_step};
use crate::error::{Error, Result};

/// Default for the pixels of an image: with three bytes each, 600 MB per thread.
const MAX_PIXELS: u64 = 200_000_000;

/// The steps from an encoded image to a row of a batch: a list of [`Step`]s.
///
/// A pipeline is data. It is parsed from a short text and prints as one, also with serde, so that it can
/// stand in a configuration or next to a trained model. Decoding is implied, with the EXIF orientation
/// applied; `decode(gray)` as the first step decodes to something other than RGB, and `seed(7)` before it
/// sets the seed.
///
/// ```
/// use kiste::image::Pipeline;
///
/// let text = "random_resized_crop(224) | hflip | to(f32, chw) | normalize(imagenet)";
/// let pipeline: Pipeline = text.parse()?;
/// assert_eq!(pipeline.shape(), Some([3, 224, 224]));
/// assert_eq!(pipeline.to_string(), text);
///
/// let error = "random_resize_crop(224)".parse::<Pipeline>().unwrap_err();
/// assert!(error.to_string().contains("near names are random_resized_crop"));
/// # Ok::<(), kiste::Error>(())
/// ```
///
/// # Randomness
///
/// The random numbers for an image are a pure function of the seed of the pipeline, the epoch and
/// the position in the epoch: [`Record::rng`](crate::loader::Record::rng) is asked for one
/// generator for each image and pipeline. [`Plan`](super::Plan) says which numbers are drawn for
/// which step.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    steps: Vec<Step>,
    mode: Mode,
    max_pixels: u64,
    is_scaled: bool,
    seed: u64,
}

impl Default for Pipeline {
    /// No step but decoding to RGB.
    fn default() -> Pipeline {
        Pipeline {
            steps: Vec::new(),
            mode: Mode::Rgb,
            max_pixels: MAX_PIXELS,
            is_scaled: false,
            seed: 0,
        }
    }
}

impl Pipeline {
    /// These steps, on RGB.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for values that a step cannot have, and for steps in an order
    /// that makes no sense: after `to` there may be only `normalize`, which needs floats.
    ///
    /// ```
    /// use kiste::image::{Layout, Pipeline, PixelType, Step};
    ///
    /// let pipeline = Pipeline::new([
    ///     Step::resize(256),
    ///     Step::center_crop(224),
    ///     Step::to(PixelType::F32, Layout::Chw),
    ///     Step::normalize_imagenet(),
    /// ])?;
    /// assert_eq!(pipeline.shape(), Some([3, 224, 224]));
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Result<Pipeline> {
        Pipeline { steps: steps.into_iter().collect(), ..Pipeline::default() }.checked(1)
    }

    /// The same for images of this mode.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if a step cannot be done on such images.
    pub fn with_mode(mut self, mode: Mode) -> Result<Pipeline> {
        self.mode = mode;
        self.checked(1)
    }

    /// The same with another seed. Default: 0.
    pub fn with_seed(mut self, seed: u64) -> Pipeline {
        self.seed = seed;
        self
    }

    /// Refuses images with more pixels than this, before any memory is allocated for them. Default: 200
    /// million.
    pub fn with_max_pixels(mut self, max_pixels: u64) -> Pipeline {
        self.max_pixels = max_pixels;
        self
    }

    /// Decodes a JPEG to half, a quarter or an eighth of its sides if the first step that resizes,
    /// after crops and flips, leaves no more than that: `decode(scaled=true)`. Default: no.
    ///
    /// That is faster, and changes pixels: a block of 8 × 8 is averaged by the decoder, and only then filtered. It
    /// needs the feature `turbo`. A build without it carries out no such pipeline, so that a pipeline always makes
    /// the same pixels of scaled images. Images that are not JPEG, and JPEGs that libjpeg-turbo does not decode, are
    /// decoded as always.
    pub fn with_scaled_decoding(mut self, is_scaled: bool) -> Pipeline {
        self.is_scaled = is_scaled;
        self
    }

    /// Its steps, without decoding.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The mode that images are decoded to.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The most pixels that an image may have, decoded, resized or padded.
    pub fn max_pixels(&self) -> u64 {
        self.max_pixels
    }

    /// Whether a JPEG that is made much smaller is [decoded to fewer pixels](Self::with_scaled_decoding).
    pub fn is_scaled(&self) -> bool {
        self.is_scaled
    }

    /// The seed of all random numbers, next to epoch and position.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The type and layout of the result: from `to`, or the decoded integers.
    pub fn output(&self) -> (PixelType, Layout) {
        let to = self.steps.iter().find_map(|step| match step {
            Step::To(pixel, layout) => Some((*pixel, *layout)),
            _ => None,
        });
        to.unwrap_or_default()
    }

    /// The size of every result, if it is the same for all images.
    pub fn size(&self) -> Option<Size> {
        self.steps.iter().fold(None, |size: Option<Size>, step| match step {
            Step::Resize { size: NewSize::Exact(size), .. } => Some(*size),
            // A square stays a square.
            Step::Resize { size: NewSize::Short(side), .. } => {
                size.filter(|size| size.height == size.width).map(|_| Size::square(*side))
            }
            Step::CenterCrop { size }
            | Step::RandomResizedCrop { size, .. }
            | Step::RandomCrop { size, .. } => Some(*size),
            Step::Rotate { expand: true, .. } => None,
            Step::Pad { padding, .. } => size.map(|size| Size {
                height: size.height + padding.top + padding.bottom,
                width: size.width + padding.left + padding.right,
            }),
            _ => size,
        })
    }

    /// The shape of every result, if it is the same for all images.
    pub fn shape(&self) -> Option<[usize; 3]> {
        let Size { height, width } = self.size()?;
        let (height, width, channels) = (height as usize, width as usize, self.mode.channels());
        Some(match self.output().1 {
            Layout::Hwc => [height, width, channels],
            Layout::Chw => [channels, height, width],
        })
    }

    /// Mean and standard deviation, if the result is normalised.
    pub(super) fn norm(&self) -> Option<(&[f64], &[f64])> {
        self.steps.iter().find_map(|step| match step {
            Step::Normalize { mean, std } => Some((&mean[..], &std[..])),
            _ => None,
        })
    }

    /// Whether the steps can follow each other; the first has this number.
    fn checked(self, first: usize) -> Result<Pipeline> {
        let mut to: Option<PixelType> = None;
        let mut is_normal = false;
        let mut size: u64 = 0;
        for (at, step) in self.steps.iter().enumerate() {
            let checked = step.check(self.mode).and_then(|()| match (step, to) {
                (Step::To(..), Some(_)) => Err(unfit("it once", "it twice")),
                (Step::To(pixel, _), None) => {
                    to = Some(*pixel);
                    Ok(())
                }
                (Step::Normalize { .. }, _) if is_normal => Err(unfit("it once", "it twice")),
                (
                    Step::Normalize { .. },
                    Some(PixelType::F32 | PixelType::F16 | PixelType::Bf16),
                ) => {
                    is_normal = true;
                    Ok(())
                }
                (Step::Normalize { .. }, _) => {
                    Err(unfit("to(f32), to(f16) or to(bf16) before it", "integers"))
                }
                (_, Some(_)) => Err(unfit("it before to", "it after")),
                (Step::Pad { padding, .. }, None) => {
                    // Sizes stay far below the end of u32.
                    let sides = [padding.left, padding.top, padding.right, padding.bottom];
                    size += sides.iter().map(|&side| u64::from(side)).sum::<u64>();
                    match size > 1 << 24 {
                        true => Err(unfit("fewer pixels of padding", size)),
                        false => Ok(()),
                    }
                }
                _ => Ok(()),
            });
            checked.map_err(|error| in_step(at + first, step.name(), &error))?;
        }
        // The printed form has to be parsed again, with any seed and mode before it.
        match self.steps.iter().map(|step| step.to_string().len() + " | ".len()).sum::<usize>() {
            len if len > MAX_LEN - 128 => {
                let expected = format!("steps of up to {} bytes as text", MAX_LEN - 128);
                Err(unfit(expected, len))
            }
            _ => Ok(self),
        }
    }
}

impl FromStr for Pipeline {
    type Err = Error;

    fn from_str(text: &str) -> Result<Pipeline> {
        let mut pipeline = Pipeline::default();
        let (mut seeds, mut decodes) = (0, 0);
        for (at, part) in text::parse(text)?.into_iter().enumerate() {
            let number = at + 1;
            match part {
                Part::Seed(_) if at > 0 => {
                    let error = unfit("it as the first step", format!("it as step {number}"));
                    return Err(in_step(number, "seed", &error));
                }
                Part::Decode { .. } if at > seeds => {
                    let error =
                        unfit("it before all steps but seed", format!("it as step {number}"));
                    return Err(in_step(number, "decode", &error));
                }
                Part::Seed(seed) => (pipeline.seed, seeds) = (seed, 1),
                Part::Decode { mode, max_pixels, is_scaled } => {
                    (pipeline.mode, decodes) = (mode, 1);
                    pipeline.max_pixels = max_pixels.unwrap_or(MAX_PIXELS);
                    pipeline.is_scaled = is_scaled;
                }
                Part::Step(step) => pipeline.steps.push(step),
            }
        }
        pipeline.checked(1 + seeds + decodes)
    }
}

/// As it is parsed, without what is the default.
impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.seed != 0 {
            parts.push(format!("seed({})", self.seed));
        }
        let mut decode = Vec::new();
        if self.mode != Mode::Rgb {
            decode.push(self.mode.to_string());
        }
        if self.max_pixels != MAX_PIXELS {
            decode.push(format!("max_pixels={}", self.max_pixels));
        }
        if self.is_scaled {
            decode.push("scaled=true".to_owned());
        }
        if !decode.is_empty() {
            parts.push(format!("decode({})", decode.join(", ")));
        }
        parts.extend(self.steps.iter().map(Step::to_string));
        f.write_str(&parts.join(" | "))
    }
}

/// As text.
impl Serialize for Pipeline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Pipeline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pipeline, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}
