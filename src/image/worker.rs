//! [`Worker`]: a pipeline at work, on one thread.

use std::time::Instant;

use super::array::{ArrayImage, Picture};
use super::canvas::{Canvas, Elements, Resized, Scratch};
use super::decode::{Opened, caught};
use super::header::{Header, Part};
use super::pipeline::Pipeline;
use super::plan::{Plan, check_pixels};
#[cfg(feature = "turbo")]
use super::step::Mode;
use super::step::{Layout, PixelType, Size, unfit};
use super::view::View;
use crate::error::{Error, ErrorKind, Result};
use crate::sampler::rng::StableRng;
use crate::value::Element;

/// A type of elements that images can be made of: `u8`, `f32`, [`half::f16`], and `u16` for the bits of
/// [`half::bf16`].
pub trait Pixel: Element {
    /// The type of `to` in a pipeline.
    const TYPE: PixelType;

    /// The element of a value of 0 to 255, and of the same after scaling and normalising.
    #[doc(hidden)]
    fn of(value: u8, normal: f32) -> Self;

    /// The memory of elements that are the values themselves.
    #[doc(hidden)]
    fn as_bytes(_: &mut [Self]) -> Option<&mut [u8]> {
        None
    }
}

impl Pixel for u8 {
    const TYPE: PixelType = PixelType::U8;

    fn of(value: u8, _: f32) -> u8 {
        value
    }

    fn as_bytes(values: &mut [u8]) -> Option<&mut [u8]> {
        Some(values)
    }
}

impl Pixel for f32 {
    const TYPE: PixelType = PixelType::F32;

    fn of(_: u8, normal: f32) -> f32 {
        normal
    }
}

/// The bits of bfloat16.
impl Pixel for u16 {
    const TYPE: PixelType = PixelType::Bf16;

    fn of(_: u8, normal: f32) -> u16 {
        half::bf16::from_f32(normal).to_bits()
    }
}

impl Pixel for half::f16 {
    const TYPE: PixelType = PixelType::F16;

    fn of(_: u8, normal: f32) -> half::f16 {
        half::f16::from_f32(normal)
    }
}

/// A pipeline, and what follows from it for all images.
pub(crate) struct Recipe<T> {
    pub(crate) pipeline: Pipeline,
    layout: Layout,
    /// For each channel, the element of each value: scaling and normalising is one look into it.
    tables: Vec<[T; 256]>,
}

impl<T: Pixel> Recipe<T> {
    /// # Errors
    ///
    /// If the result of the pipeline is of another type, and if this build cannot carry it out.
    pub(crate) fn new(pipeline: Pipeline) -> Result<Recipe<T>> {
        let (pixel, layout) = pipeline.output();
        if pixel != T::TYPE {
            let expected = format!("a pipeline that ends with to({}), for {}", T::TYPE, T::NAME);
            return Err(unfit(expected, format!("one that makes {pixel}")));
        }
        if pipeline.is_scaled() && !cfg!(feature = "turbo") {
            let message = "expected a build with the feature turbo for decode(scaled=true), found one without";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let channel = |at: usize| {
            let of =
                |values: &[f64]| values.get(at).or(values.first()).copied().unwrap_or_default();
            let norm = pipeline.norm().map(|(mean, std)| (of(mean) as f32, of(std) as f32));
            std::array::from_fn(|value| {
                // The same operations as in torchvision, in the same order.
                let scaled = value as f32 * (1.0f64 / 255.0) as f32;
                let normal = norm.map_or(scaled, |(mean, std)| (scaled - mean) / std);
                T::of(value as u8, normal)
            })
        };
        let tables = (0..pipeline.mode().channels()).map(channel).collect();
        Ok(Recipe { pipeline, layout, tables })
    }

    /// Draws what is random, and writes the result where `out` says for its shape.
    pub(crate) fn run<'o>(
        &self,
        scratch: &mut Scratch,
        picture: Picture<'_>,
        rng: &mut StableRng,
        out: impl FnOnce([usize; 3]) -> Result<&'o mut [T]>,
    ) -> Result<()> {
        let drawn = |header: &Header, plan: &mut Plan| self.pipeline.plan_into(header, rng, plan);
        self.guarded(scratch, picture, drawn, out)
    }

    /// Carries out a plan that was made before.
    fn carry_out<'o>(
        &self,
        scratch: &mut Scratch,
        picture: Picture<'_>,
        given: &Plan,
        out: impl FnOnce([usize; 3]) -> Result<&'o mut [T]>,
    ) -> Result<()> {
        let as_given = |header: &Header, plan: &mut Plan| {
            if (header.upright(), header.orientation) != (given.source, given.orientation) {
                let shown = |Size { height, width }: Size, orientation: u8| {
                    format!("{width} × {height} with orientation {orientation}")
                };
                let expected = shown(given.source, given.orientation);
                let found = shown(header.upright(), header.orientation);
                return Err(unfit(format!("the image of the plan, {expected}"), found));
            }
            given.check(self.pipeline.max_pixels())?;
            plan.clone_from(given);
            Ok(())
        };
        self.guarded(scratch, picture, as_given, out)
    }

    fn guarded<'o>(
        &self,
        kept: &mut Scratch,
        picture: Picture<'_>,
        make: impl FnOnce(&Header, &mut Plan) -> Result<()>,
        out: impl FnOnce([usize; 3]) -> Result<&'o mut [T]>,
    ) -> Result<()> {
        // After a panic it is not used again.
        let mut scratch = std::mem::take(kept);
        let bytes = match picture {
            Picture::Encoded(bytes) => bytes,
            Picture::Array(_) => &[],
        };
        let (scratch, done) = caught(bytes, move || {
            let done = self.decoded(&mut scratch, picture, make, out);
            scratch.trim();
            Ok((scratch, done))
        })?;
        *kept = scratch;
        done
    }

    fn decoded<'o>(
        &self,
        scratch: &mut Scratch,
        picture: Picture<'_>,
        make: impl FnOnce(&Header, &mut Plan) -> Result<()>,
        out: impl FnOnce([usize; 3]) -> Result<&'o mut [T]>,
    ) -> Result<()> {
        let mut plan = scratch.plan.take().unwrap_or_else(Plan::empty);
        let done = self.planned(scratch, picture, &mut plan, make, out);
        scratch.plan = Some(plan);
        done
    }

    fn planned<'o>(
        &self,
        scratch: &mut Scratch,
        picture: Picture<'_>,
        plan: &mut Plan,
        make: impl FnOnce(&Header, &mut Plan) -> Result<()>,
        out: impl FnOnce([usize; 3]) -> Result<&'o mut [T]>,
    ) -> Result<()> {
        let (mode, max) = (self.pipeline.mode(), self.pipeline.max_pixels());
        let start = scratch.decoding.map(|_| Instant::now());
        let image = Opened::new(picture, max)?;
        let header = image.header;
        check_pixels(header.upright(), max)?;
        // Before pixels are decoded, so that an image that is too small or too large costs nothing.
        make(&header, plan)?;
        let (mut view, mut actions) = View::first(&header, &plan.actions);
        let mut first = Resized::first(actions, view.size());
        #[cfg(feature = "turbo")]
        let smaller = match &first {
            Some(resized) if self.pipeline.is_scaled() => {
                scaled(&image, resized, view, mode, scratch)
            }
            _ => None,
        };
        #[cfg(not(feature = "turbo"))]
        let smaller: Option<(Resized, View, Part)> = None;
        let part = if let Some((resized, seen, part)) = smaller {
            (first, view) = (Some(resized), seen);
            part
        } else {
            // Also what a filter does not need for what is seen of its result is not decoded.
            if let Some(resized) = &first {
                resized.narrow(&mut view);
            }
            image.read(mode, view.part(), &mut scratch.pixels, &mut scratch.spare)?
        };
        if let (Some(start), Some(decoding)) = (start, &mut scratch.decoding) {
            *decoding += start.elapsed();
        }
        let channels = mode.channels();
        let mut canvas = Canvas::new(scratch, view.within(part), channels);
        // A filter at the end writes to the result.
        let mut last = None;
        while let Some(action) = actions.first() {
            let Some(resized) = first.take().or_else(|| canvas.resized(actions)) else {
                canvas.act(action);
                actions = &actions[1..];
                continue;
            };
            actions = &actions[resized.actions..];
            match actions {
                [] => last = Some(resized),
                _ => canvas.resize(&resized),
            }
        }
        let (height, width) = last.as_ref().map_or(canvas.size(), |resized| resized.view.size());
        let shape = match self.layout {
            Layout::Hwc => [height, width, channels],
            Layout::Chw => [channels, height, width],
        };
        let (layout, tables, out) = (self.layout, &self.tables[..], out(shape)?);
        let to = Elements { layout, tables, as_bytes: T::as_bytes, out };
        match last {
            Some(resized) => canvas.write_resized(&resized, to),
            None => canvas.write(to),
        }
        Ok(())
    }
}

/// Decodes an image to half, a quarter or an eighth of its sides, if that is enough and can be done: the filter for what
/// is seen of it then, and the part that was decoded.
#[cfg(feature = "turbo")]
fn scaled(
    image: &Opened<'_>,
    resized: &Resized,
    view: View,
    mode: Mode,
    scratch: &mut Scratch,
) -> Option<(Resized, View, Part)> {
    let by = resized.divisor();
    if by == 1 {
        return None;
    }
    let (resized, mut seen) = resized.scaled(view, by);
    resized.narrow(&mut seen);
    let part = image.read_scaled(mode, by, seen.part(), &mut scratch.pixels)?;
    Some((resized, seen, part))
}

/// A pipeline at work on one thread, with memory that is reused for each image.
///
/// The loader has one for each thread: see [`Columns::image`](crate::loader::Columns::image). This
/// one is for images that do not come from a loader, as in an evaluation.
///
/// ```
/// use kiste::image::{Pipeline, Worker};
/// use kiste::sampler::rng::StableRng;
///
/// # let png = {
/// #     let mut png = std::io::Cursor::new(Vec::new());
/// #     image::RgbImage::new(20, 10).write_to(&mut png, image::ImageFormat::Png)?;
/// #     png.into_inner()
/// # };
/// let pipeline: Pipeline = "resize(8) | to(f32, chw)".parse()?;
/// let mut worker = Worker::<f32>::new(pipeline)?;
/// let mut pixels = Vec::new();
/// let shape = worker.run(&png, &mut StableRng::new(&[7]), &mut pixels)?;
/// assert_eq!((shape, pixels.len()), ([3, 8, 16], 3 * 8 * 16));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Worker<T> {
    recipe: Recipe<T>,
    scratch: Scratch,
}

impl<T: Pixel> Worker<T> {
    /// A worker for this pipeline.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the pipeline makes elements of another type, and
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for `decode(scaled=true)` without the feature `turbo`.
    pub fn new(pipeline: Pipeline) -> Result<Worker<T>> {
        Ok(Worker { recipe: Recipe::new(pipeline)?, scratch: Scratch::default() })
    }

    /// The pipeline.
    pub fn pipeline(&self) -> &Pipeline {
        &self.recipe.pipeline
    }

    /// Decodes and transforms an image, and returns the shape of what `out` holds then.
    ///
    /// # Errors
    ///
    /// [`Damaged`](crate::ErrorKind::Damaged) for an image that no decoder reads or that was cut short,
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for a format that is not decoded,
    /// [`Limit`](crate::ErrorKind::Limit) for too many pixels, and
    /// [`Invalid`](crate::ErrorKind::Invalid) for bytes that are no image and for an image that is too
    /// small for a step.
    pub fn run(
        &mut self,
        bytes: &[u8],
        rng: &mut StableRng,
        out: &mut Vec<T>,
    ) -> Result<[usize; 3]> {
        self.run_picture(Picture::Encoded(bytes), rng, out)
    }

    /// The same for an image that is decoded already.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn run_array(
        &mut self,
        image: &ArrayImage<'_>,
        rng: &mut StableRng,
        out: &mut Vec<T>,
    ) -> Result<[usize; 3]> {
        self.run_picture(Picture::Array(*image), rng, out)
    }

    fn run_picture(
        &mut self,
        picture: Picture<'_>,
        rng: &mut StableRng,
        out: &mut Vec<T>,
    ) -> Result<[usize; 3]> {
        let mut found = [0; 3];
        let shape_of = &mut found;
        self.recipe
            .run(&mut self.scratch, picture, rng, |shape| Ok(resized(out, shape, shape_of)))?;
        Ok(found)
    }

    /// Carries out a plan that was made before.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), and [`Invalid`](crate::ErrorKind::Invalid) for a plan of an image of
    /// another size, or one that cannot be carried out.
    pub fn carry_out(&mut self, bytes: &[u8], plan: &Plan, out: &mut Vec<T>) -> Result<[usize; 3]> {
        self.carry_out_picture(Picture::Encoded(bytes), plan, out)
    }

    /// The same for an image that is decoded already.
    ///
    /// # Errors
    ///
    /// As [`carry_out`](Self::carry_out).
    pub fn carry_out_array(
        &mut self,
        image: &ArrayImage<'_>,
        plan: &Plan,
        out: &mut Vec<T>,
    ) -> Result<[usize; 3]> {
        self.carry_out_picture(Picture::Array(*image), plan, out)
    }

    fn carry_out_picture(
        &mut self,
        picture: Picture<'_>,
        plan: &Plan,
        out: &mut Vec<T>,
    ) -> Result<[usize; 3]> {
        let mut found = [0; 3];
        let shape_of = &mut found;
        let recipe = &self.recipe;
        recipe.carry_out(&mut self.scratch, picture, plan, |shape| {
            Ok(resized(out, shape, shape_of))
        })?;
        Ok(found)
    }
}

fn resized<'o, T: Pixel>(
    out: &'o mut Vec<T>,
    shape: [usize; 3],
    found: &mut [usize; 3],
) -> &'o mut [T] {
    *found = shape;
    out.resize(shape.iter().product(), T::default());
    out
}

impl<T> std::fmt::Debug for Worker<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Worker({})", self.recipe.pipeline)
    }
}
