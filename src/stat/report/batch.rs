//! [`SamplePage`]: a page of samples in an order of their own, such as a batch as training saw it.

use super::page;
use super::samples::Shelf;
use crate::error::Result;
#[cfg(feature = "images")]
use crate::image::Pipeline;
use crate::reader::Reader;

/// A page of some samples of a reader in their order, each with what a pipeline makes of its image.
///
/// ```
/// use kiste::reader::ListReader;
/// use kiste::stat::SamplePage;
///
/// let sample = |key| std::collections::BTreeMap::from([("key", key), ("text", "Kiste")]);
/// let reader = ListReader::pack(["a", "b"].map(sample))?;
/// let mut page = SamplePage::of(&reader, "step 7 of epoch 0")?;
/// page.add(1)?;
/// page.add(0)?;
/// let html = page.to_html("rank 0 of 4");
/// assert!(html.find("data-key=\"b\"") < html.find("data-key=\"a\""));
/// # Ok::<(), kiste::Error>(())
/// ```
pub struct SamplePage<'a> {
    reader: &'a dyn Reader,
    labels: Option<Vec<String>>,
    title: String,
    shelf: Shelf,
}

impl<'a> SamplePage<'a> {
    /// A page without samples yet.
    ///
    /// # Errors
    ///
    /// The errors of reading the labels.
    pub fn of(reader: &'a dyn Reader, title: impl Into<String>) -> Result<SamplePage<'a>> {
        let (labels, title) = (reader.labels()?, title.into());
        Ok(SamplePage { reader, labels, title, shelf: Shelf::default() })
    }

    /// Adds a sample. From about 2 MB on samples are counted and not shown.
    ///
    /// # Errors
    ///
    /// The errors of the reader.
    pub fn add(&mut self, index: usize) -> Result<()> {
        self.shelf.add(self.reader, index, self.labels.as_deref(), "")
    }

    /// Adds a sample with its image after a pipeline, as a loader with this pipeline makes it at a position of an epoch. The
    /// picture is made without the last steps that change its numbers alone, `to` and `normalize`.
    ///
    /// # Errors
    ///
    /// The errors of the reader. What fails in the pipeline stands on the page.
    #[cfg(feature = "images")]
    pub fn add_augmented(
        &mut self,
        index: usize,
        field: &str,
        pipeline: &Pipeline,
        (epoch, position): (u64, u64),
    ) -> Result<()> {
        if self.shelf.is_full() {
            return self.add(index);
        }
        let raw = self.reader.get_raw(index)?;
        let after = augmented::after(&raw, field, pipeline, epoch, position)
            .unwrap_or_else(|error| format!("<p>{}</p>", super::escape::escape(error)));
        self.shelf.add(self.reader, index, self.labels.as_deref(), &after)
    }

    /// The page, with a line under its title.
    pub fn to_html(&self, note: &str) -> String {
        page::samples_page(&self.title, note, &self.shelf)
    }
}

#[cfg(feature = "images")]
mod augmented {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use crate::error::{Error, ErrorKind, Result};
    use crate::format::msgpack;
    use crate::image::{Layout, Pipeline, Plan, Step, Worker};
    use crate::loader::{Record, image_header};
    use crate::stat::report::draw;
    use crate::stat::report::escape::escape;

    /// What the pipeline makes of the image of a sample, as HTML, with what was drawn.
    pub(super) fn after(
        raw: &[u8],
        field: &str,
        pipeline: &Pipeline,
        epoch: u64,
        position: u64,
    ) -> Result<String> {
        let invalid = |message: String| Error::new(ErrorKind::Invalid, message);
        let packed = msgpack::field(raw, field)?;
        let packed = packed.ok_or_else(|| invalid(format!("there is no field {field:?}")))?;
        let value = msgpack::decode(packed)?;
        let msgpack::Value::Binary(bytes) = &value else {
            return Err(invalid(format!("field {field:?}: expected an encoded image")));
        };
        let rng = || Record::rng_at(pipeline.seed(), epoch, position);
        let plan: Plan = pipeline.plan(&image_header(packed)?, &mut rng())?;
        let changes_numbers = |step: &Step| matches!(step, Step::To(..) | Step::Normalize { .. });
        let steps = pipeline.steps().iter().filter(|step| !changes_numbers(step)).cloned();
        let shown = Pipeline::new(steps)?.with_mode(pipeline.mode())?.with_seed(pipeline.seed());
        let layout = shown.output().1;
        let mut pixels = Vec::new();
        let [a, b, c] = Worker::<u8>::new(shown)?.run(bytes, &mut rng(), &mut pixels)?;
        let (height, width, channels) = match layout {
            Layout::Hwc => (a, b, c),
            Layout::Chw => (b, c, a),
        };
        let at = |pixel: usize, channel: usize| match layout {
            Layout::Hwc => pixels[pixel * channels + channel],
            Layout::Chw => pixels[channel * width * height + pixel],
        };
        let rgb = (0..width * height).flat_map(|pixel| {
            let channels = if channels >= 3 { [0, 1, 2] } else { [0; 3] };
            channels.map(|channel| at(pixel, channel))
        });
        let rgb = rgb.collect();
        let (media, small) = draw::pixels(width as u32, height as u32, rgb)
            .ok_or_else(|| invalid("the result has no pixels".to_owned()))?;
        let data = STANDARD.encode(small);
        Ok(format!(
            "<img alt=\"\" src=\"data:{media};base64,{data}\"><p>{height} x {width}: {}</p>",
            escape(plan)
        ))
    }
}
