//! Columns of images: a pipeline of [`crate::image`] on the workers, straight into the batch.

use std::cell::RefCell;

use super::{Columns, FixedColumn, Source};
use crate::error::{Error, ErrorKind};
use crate::image::{Pipeline, Pixel, Recipe, Scratch};
use crate::loader::batch::Record;

thread_local! {
    /// Memory of this thread for pixels on their way, which the next image uses again.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Columns {
    /// A field that is an encoded image, decoded and transformed by a pipeline whose results all have one
    /// size: `[height, width, channels]`, or `[channels, height, width]` after `to(…, chw)`. `T` is the
    /// type that the pipeline ends with.
    ///
    /// What is random is drawn from [`Record::rng`] of the [seed](Pipeline::with_seed) of the pipeline: the
    /// same for any number of threads and ranks, and after a run is resumed. Columns whose pipelines have the
    /// same seed draw the same numbers.
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
        let Some(shape) = pipeline.shape() else {
            let message = format!(
                "expected a pipeline with a step that gives all images one size, such as \
                 center_crop(224), found {:?}",
                pipeline.to_string()
            );
            return self.refused::<T>(name, Error::new(ErrorKind::Invalid, message));
        };
        let recipe = match Recipe::<T>::new(pipeline) {
            Ok(recipe) => recipe,
            Err(error) => return self.refused::<T>(name, error),
        };
        let field = field.to_owned();
        // The record says which epoch and position it has, so the column is not read as a field.
        let fill = move |record: &Record<'_>, row: &mut [T]| {
            let decoded = SCRATCH.with_borrow_mut(|scratch| {
                let bytes = record.bytes(&field)?;
                let mut rng = record.rng(recipe.pipeline.seed());
                recipe.run(scratch, bytes, &mut rng, |found| match found == shape {
                    true => Ok(row),
                    false => {
                        let message =
                            format!("expected an image of shape {shape:?}, found {found:?}");
                        Err(Error::new(ErrorKind::Invalid, message))
                    }
                })
            });
            decoded.map_err(|error| error.with_field(field.as_str()))
        };
        let source = Source::Whole(Box::new(fill));
        self.with(name, FixedColumn { shape: shape.to_vec(), source })
    }

    /// A column that cannot be made, which the loader reports when it starts.
    fn refused<T: Pixel>(self, name: &str, error: Error) -> Columns {
        let source = Source::<T>::Refused(error);
        self.with(name, FixedColumn { shape: Vec::new(), source })
    }
}
