//! Columns of images: a pipeline of [`crate::image`] on the workers, straight into the batch.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::picture::{image_header, with_picture};
use super::{ColumnBatch, Columns, FixedColumn, Source, unfit};
use crate::error::{Error, ErrorKind, Result};
use crate::image::{Picture, Pipeline, Pixel, PixelType, Plan, Recipe, Scratch};
use crate::loader::batch::Record;
use crate::value::Element;

thread_local! {
    /// Memory of this thread for pixels on their way, which the next image uses again.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Where the time of a column of images goes, in nanoseconds of all threads together: for benchmarks. Bytes of a memory map
/// are touched first, so that waiting for a disk is not taken for decoding.
#[derive(Debug, Default)]
pub(crate) struct ImageClock {
    images: AtomicU64,
    reading: AtomicU64,
    unpacking: AtomicU64,
    decoding: AtomicU64,
    transforming: AtomicU64,
}

/// What an [`ImageClock`] shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImageTimes {
    pub(crate) images: u64,
    pub(crate) reading: Duration,
    pub(crate) unpacking: Duration,
    pub(crate) decoding: Duration,
    pub(crate) transforming: Duration,
}

impl ImageClock {
    pub(crate) fn show(&self) -> ImageTimes {
        let time = |nanoseconds: &AtomicU64| Duration::from_nanos(nanoseconds.load(Relaxed));
        ImageTimes {
            images: self.images.load(Relaxed),
            reading: time(&self.reading),
            unpacking: time(&self.unpacking),
            decoding: time(&self.decoding),
            transforming: time(&self.transforming),
        }
    }
}

/// The times of one image, which are added to the times of all others at its end, also of an image that cannot be decoded.
struct Watch<'a> {
    clock: &'a ImageClock,
    last: Cell<Instant>,
}

impl<'a> Watch<'a> {
    fn start(clock: &'a ImageClock, raw: &[u8]) -> Watch<'a> {
        clock.images.fetch_add(1, Relaxed);
        let watch = Watch { clock, last: Cell::new(Instant::now()) };
        // A byte of each page, of at least 4,096 bytes.
        std::hint::black_box(raw.iter().step_by(4096).fold(0, |sum: u8, byte| sum ^ byte));
        std::hint::black_box(raw.last());
        watch.ends(&clock.reading, Duration::ZERO);
        watch
    }

    /// Adds the time since the last end, but for some of it.
    fn ends(&self, sum: &AtomicU64, but: Duration) {
        let now = Instant::now();
        let time = now.saturating_duration_since(self.last.replace(now)).saturating_sub(but);
        self.adds(sum, time);
    }

    fn adds(&self, sum: &AtomicU64, time: Duration) {
        sum.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }
}

/// A column of images that other columns follow.
pub(super) struct Images {
    pub(super) field: String,
    pub(super) pipeline: Pipeline,
}

impl Images {
    /// The plan for the image of a record: the same for each column, as it follows from the header
    /// and from the record's random numbers.
    pub(super) fn plan(&self, record: &Record<'_>) -> Result<Plan> {
        let plan = || {
            let header = image_header(record.field(&self.field)?)?;
            self.pipeline.plan(&header, &mut record.rng(self.pipeline.seed()))
        };
        plan().map_err(|error| error.with_field(self.field.as_str()))
    }
}

impl Columns {
    /// A field that is an encoded image, or an array as an [`ArrayImage`](crate::image::ArrayImage) has it, decoded and
    /// transformed by a pipeline whose results all have one size: `[height, width, channels]`, or `[channels, height, width]` after `to(…, chw)`. `T` is the
    /// type that the pipeline ends with.
    ///
    /// Random numbers come from [`Record::rng`] of the [seed](Pipeline::with_seed) of the pipeline:
    /// the same for any number of threads and ranks, and after a run is resumed. Columns whose
    /// pipelines have the same seed draw the same numbers.
    ///
    /// An image that cannot be decoded, or that is too small for a step, is an error that names the field:
    /// [`OnError`](crate::loader::OnError) says what happens then.
    ///
    /// ```
    /// use kiste::image::Pipeline;
    /// use kiste::loader::Columns;
    ///
    /// let text = "random_resized_crop(224) | hflip | to(f32, chw) | normalize(imagenet)";
    /// let pipeline: Pipeline = text.parse()?;
    /// let columns = Columns::new().image::<f32>("image", pipeline.with_seed(42));
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn image<T: Pixel>(self, field: &str, pipeline: Pipeline) -> Columns {
        self.image_as::<T>(field, field, pipeline)
    }

    /// The same under a name of its own, such as for two views of one image, by pipelines with different
    /// seeds.
    pub fn image_as<T: Pixel>(self, name: &str, field: &str, pipeline: Pipeline) -> Columns {
        self.image_timed::<T>(name, field, pipeline, None)
    }

    /// The same with a clock.
    pub(crate) fn image_timed<T: Pixel>(
        self,
        name: &str,
        field: &str,
        pipeline: Pipeline,
        clock: Option<Arc<ImageClock>>,
    ) -> Columns {
        let Some(shape) = pipeline.shape() else {
            let message = format!(
                "expected a pipeline with a step that gives all images one size, such as \
                 center_crop(224), found {:?}",
                pipeline.to_string()
            );
            return self.refused::<T>(name, Error::new(ErrorKind::Invalid, message));
        };
        let pixels =
            pipeline.size().map_or(0, |size| u64::from(size.height) * u64::from(size.width));
        if pixels > pipeline.max_pixels() {
            let most = pipeline.max_pixels();
            let message = format!("expected images of at most {most} pixels, found {pixels}");
            return self.refused::<T>(name, Error::above_limit("max_pixels", message));
        }
        let recipe = match Recipe::<T>::new(pipeline) {
            Ok(recipe) => recipe,
            Err(error) => return self.refused::<T>(name, error),
        };
        let field = field.to_owned();
        let pipeline = recipe.pipeline.clone();
        let images = Arc::new(Images { field: field.clone(), pipeline });
        // The record says which epoch and position it has, so the column is not read as a field.
        let fill = move |record: &Record<'_>, row: &mut [T]| {
            let watch = clock.as_deref().map(|clock| Watch::start(clock, record.raw()));
            let made = |picture: Picture<'_>| {
                let mut rng = record.rng(recipe.pipeline.seed());
                // An array may have been decompressed.
                if let Some(watch) = &watch {
                    watch.ends(&watch.clock.decoding, Duration::ZERO);
                }
                SCRATCH.with_borrow_mut(|scratch| {
                    scratch.decoding = watch.as_ref().map(|_| Duration::ZERO);
                    let done =
                        recipe.run(scratch, picture, &mut rng, |found| match found == shape {
                            true => Ok(row),
                            false => {
                                let message = format!(
                                    "expected an image of shape {shape:?}, found {found:?}"
                                );
                                Err(Error::new(ErrorKind::Invalid, message))
                            }
                        });
                    let decoding = scratch.decoding.take().unwrap_or_default();
                    if let Some(watch) = &watch {
                        watch.adds(&watch.clock.decoding, decoding);
                        watch.ends(&watch.clock.transforming, decoding);
                    }
                    done
                })
            };
            let packed = record.field(&field);
            if let Some(watch) = &watch {
                watch.ends(&watch.clock.unpacking, Duration::ZERO);
            }
            let max_pixels = recipe.pipeline.max_pixels();
            let done = packed.and_then(|packed| with_picture(packed, max_pixels, made));
            done.map_err(|error| error.with_field(field.as_str()))
        };
        let source = Source::Images(Box::new(fill), images);
        self.with(name, FixedColumn { shape: shape.to_vec(), source })
    }

    /// The column of images of this name, which has to come before those that follow it.
    pub(super) fn images(&self, name: &str) -> Result<Arc<Images>> {
        let known = self.0.iter().filter_map(|(known, column)| Some((known, column.images()?)));
        match known.clone().find(|(known, _)| *known == name) {
            Some((_, images)) => Ok(images.clone()),
            None => {
                let known: Vec<&String> = known.map(|(name, _)| name).collect();
                let expected = format!("a column of images before it, of {known:?}");
                Err(unfit(expected, format!("{name:?}")))
            }
        }
    }

    /// A column that cannot be made, which the loader reports when it starts.
    pub(super) fn refused<T: Element>(self, name: &str, error: Error) -> Columns {
        let source = Source::<T>::Refused(error);
        self.with(name, FixedColumn { shape: Vec::new(), source })
    }
}

impl ColumnBatch {
    /// Whether a column of `u16` has the bits of bfloat16, as after the step `to(bf16)` of a pipeline.
    pub fn has_bfloat16(&self, name: &str) -> bool {
        let column = self.columns.0.iter().find(|(known, _)| known == name);
        let images = column.and_then(|(_, column)| column.images());
        images.is_some_and(|images| images.pipeline.output().0 == PixelType::Bf16)
    }
}
