//! Columns of images: a pipeline of [`crate::image`] on the workers, straight into the batch.

use std::cell::RefCell;

use super::buffer::{Buffer, Fixed};
use super::memory::Memory;
use super::{Column, Columns};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::Cursor;
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
        let shape = pipeline.shape();
        let text = pipeline.to_string();
        let recipe = match &shape {
            Some(_) => Recipe::<T>::new(pipeline),
            None => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "expected a pipeline with a step that gives all images one size, such as \
                     center_crop(224), found {text:?}"
                ),
            )),
        };
        let shape = shape.map(Vec::from).unwrap_or_default();
        self.with(name, ImageColumn { field: field.to_owned(), recipe, shape })
    }
}

/// Rows of images of one size.
struct ImageColumn<T> {
    field: String,
    /// Or why there is none, which is said when a loader starts.
    recipe: Result<Recipe<T>>,
    shape: Vec<usize>,
}

impl<T: Pixel> Column for ImageColumn<T> {
    fn check(&self) -> Result<()> {
        self.recipe.as_ref().map(|_| ()).map_err(Error::again)
    }

    fn empty(&self) -> Box<dyn Buffer> {
        Box::new(Fixed::<T>::empty(&self.shape))
    }

    fn buffer_in(
        &self,
        rows: usize,
        memory: Option<Box<dyn Memory>>,
    ) -> Result<Box<dyn Buffer>, String> {
        Fixed::<T>::boxed_in(&self.shape, rows, memory)
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The record says which epoch and position it has, so it is not read as a field.
    fn is_field(&self) -> bool {
        false
    }

    fn read(&self, _: &mut dyn Buffer, _: usize, _: &mut Cursor<'_>) -> Result<()> {
        Ok(())
    }

    fn fill(&self, buffer: &mut dyn Buffer, row: usize, record: &Record<'_>) -> Result<()> {
        let Some(column) = buffer.as_any_mut().downcast_mut::<Fixed<T>>() else { return Ok(()) };
        let recipe = self.recipe.as_ref().map_err(Error::again)?;
        let decode = |scratch: &mut Scratch| {
            let bytes = record.bytes(&self.field)?;
            let mut rng = record.rng(recipe.pipeline.seed());
            recipe.run(scratch, bytes, &mut rng, |shape| match shape[..] == self.shape {
                true => Ok(column.row(row)),
                false => Err(Error::new(
                    ErrorKind::Invalid,
                    format!("expected an image of shape {:?}, found {shape:?}", self.shape),
                )),
            })
        };
        let decoded = SCRATCH.with_borrow_mut(decode);
        decoded.map_err(|error| error.with_field(self.field.as_str()))
    }
}
