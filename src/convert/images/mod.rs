//! Images in samples: resized, encoded in another format, or verified.
//!
//! [`ImageOptions`] describes what to do with an image, and [`Images`] does it to all samples of a
//! source. Absent on purpose: where images come from, what else is in a sample, and augmentation,
//! which belongs in a loader.

mod options;
mod picture;

use std::borrow::Cow;
use std::path::Path;

use rayon::prelude::*;

pub use options::ImageOptions;

use super::input::{Emit, Input};
use super::{Remarks, Source};
use crate::array::ArrayTally;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::{self, Cursor, Kind, sample};

/// A batch ends at this many samples or bytes.
const BATCH: (usize, usize) = (128, 32 << 20);

/// The samples of another [`Input`] or [`Source`], with their images changed by [`ImageOptions`].
///
/// All cores work on images. Samples keep their order, and the result depends only on the bytes of
/// the image and the options. A sample whose images do not change keeps its bytes. Feature
/// `images`.
///
/// ```no_run
/// use kiste::convert::{ImageFolderReader, ImageOptions, Images, InOrder};
///
/// let options = ImageOptions::new().resize("short:256".parse()?).quality(90);
/// let source = InOrder::new(Images::new(ImageFolderReader::open("photos")?, options));
/// # Ok::<(), kiste::Error>(())
/// ```
#[must_use]
pub struct Images<T> {
    inner: T,
    options: ImageOptions,
}

impl<T> Images<T> {
    /// Changes the images in the samples of `inner`.
    pub fn new(inner: T, options: ImageOptions) -> Images<T> {
        Images { inner, options }
    }
}

impl ImageOptions {
    /// A packed sample with its images changed; borrowed if none changes.
    ///
    /// # Errors
    ///
    /// With key and field: [`Damaged`](ErrorKind::Damaged) for an image that does not decode,
    /// [`Unsupported`](ErrorKind::Unsupported) for one that no decoder supports and that may be
    /// intact, [`Limit`](ErrorKind::Limit) for more pixels than the options or the new format
    /// allow, and [`Invalid`](ErrorKind::Invalid) for bytes that are not an image in a field that is
    /// one: that was [named](ImageOptions::fields), or whose own name is an image file's.
    pub fn apply<'a>(&self, packed: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        let key = msgpack::check_sample(packed)?;
        let mut len = 0;
        let mut changes = Vec::new();
        for field in sample::fields(packed)? {
            let (name, value) = field?;
            len += 1;
            let name = Cursor::new(name).read_str().unwrap_or_default();
            let at = |error: Error| error.with_key(key).with_field(name);
            if let Some(image) = self.image_of(name, value).map_err(at)? {
                let must = !self.fields.is_empty() || is_image_name(name);
                changes.extend(self.change(image, must).map_err(at)?.map(|new| (len - 1, new)));
            }
        }
        if changes.is_empty() {
            return Ok(Cow::Borrowed(packed));
        }
        replace(packed, len, &changes).map(Cow::Owned)
    }

    /// The bytes of a field that may be an image.
    fn image_of<'a>(&self, name: &str, value: &'a [u8]) -> Result<Option<&'a [u8]>> {
        let named = self.fields.iter().any(|field| field == name);
        if !named && !self.fields.is_empty() {
            return Ok(None);
        }
        let mut cursor = Cursor::new(value);
        match cursor.peek()? {
            Kind::Bin => Ok(Some(cursor.read_bin()?)),
            _ if named => {
                Err(Error::new(ErrorKind::Invalid, "expected bytes of an image, found none"))
            }
            _ => Ok(None),
        }
    }

    fn change_sample(&self, packed: Vec<u8>) -> Result<Vec<u8>> {
        match self.apply(&packed) {
            Ok(Cow::Owned(changed)) => Ok(changed),
            Ok(Cow::Borrowed(_)) => Ok(packed),
            Err(error) => Err(error.with_raw(packed)),
        }
    }
}

/// Whether a field of this name holds images if it holds bytes: by the ends of names that are those
/// of image files, or the names that readers of images give.
fn is_image_name(name: &str) -> bool {
    const NAMES: [&str; 14] = [
        "image", "img", "jpg", "jpeg", "png", "gif", "webp", "tif", "tiff", "bmp", "ppm", "pgm",
        "pbm", "pnm",
    ];
    let last = name.rsplit('.').next().unwrap_or_default();
    NAMES.iter().any(|known| last.eq_ignore_ascii_case(known))
}

/// The sample with new bytes in these fields.
fn replace(packed: &[u8], len: usize, changes: &[(usize, Vec<u8>)]) -> Result<Vec<u8>> {
    let new: usize = changes.iter().map(|(_, image)| image.len() + 5).sum();
    let mut out = Vec::with_capacity(packed.len() + new);
    msgpack::write_map(len, &mut out)?;
    for (at, field) in sample::fields(packed)?.enumerate() {
        let (name, value) = field?;
        out.extend_from_slice(name);
        // The new bytes are in the order of the fields.
        match changes.binary_search_by_key(&at, |(changed, _)| *changed) {
            Ok(found) => msgpack::write_bin(&changes[found].1, &mut out)?,
            Err(_) => out.extend_from_slice(value),
        }
    }
    Ok(out)
}

impl<T: Input> Input for Images<T> {
    fn units(&self) -> usize {
        self.inner.units()
    }

    /// A unit may be a whole archive, so the cores share the samples of a unit and not only the
    /// units.
    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let read = self.inner.read(unit, &mut |sample| {
            bytes += sample.as_ref().map_or(0, Vec::len);
            batch.push(sample);
            if batch.len() < BATCH.0 && bytes < BATCH.1 {
                return Ok(());
            }
            bytes = 0;
            self.emit(&mut batch, emit)
        });
        // The samples before an error are good.
        self.emit(&mut batch, emit)?;
        read
    }

    fn path(&self, unit: usize) -> Option<&Path> {
        self.inner.path(unit)
    }

    fn bytes(&self, unit: usize) -> Option<u64> {
        self.inner.bytes(unit)
    }

    fn shard(&self, unit: usize) -> Option<&str> {
        self.inner.shard(unit)
    }

    fn identify(&self, add: &mut dyn FnMut(&[u8])) {
        self.inner.identify(add);
    }

    fn locate(&self, unit: usize, item: u64, error: Error) -> Error {
        self.inner.locate(unit, item, error)
    }

    fn remarks(&self, unit: usize) -> Remarks {
        self.inner.remarks(unit)
    }

    fn len_hint(&self) -> Option<u64> {
        self.inner.len_hint()
    }

    fn label_names(&self) -> Option<&[String]> {
        self.inner.label_names()
    }
}

impl<T> Images<T> {
    fn emit(&self, batch: &mut Vec<Result<Vec<u8>>>, emit: &mut Emit<'_>) -> Result<()> {
        let (samples, options) = (std::mem::take(batch).into_par_iter(), &self.options);
        let change = |sample: Result<Vec<u8>>| options.change_sample(sample?);
        let changed: Vec<_> = samples.map(change).collect();
        changed.into_iter().try_for_each(emit)
    }
}

impl<T: Source> Source for Images<T> {
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        let batch = self.inner.next_batch()?.into_par_iter();
        let options = &self.options;
        let change = |sample: Result<Vec<u8>>| Ok(options.change_sample(sample?));
        let changed: Vec<Result<Result<Vec<u8>>>> = batch.map(change).collect();
        let located = changed.into_iter().enumerate().map(|(item, sample)| match sample {
            Ok(changed) => changed.map_err(|error| self.inner.locate(item, error)),
            // An error of the source itself has its place already.
            Err(error) => Err(error),
        });
        Ok(located.collect())
    }

    fn locate(&self, item: usize, error: Error) -> Error {
        self.inner.locate(item, error)
    }

    fn unit(&self) -> Option<usize> {
        self.inner.unit()
    }

    fn shard(&self) -> Option<&str> {
        self.inner.shard()
    }

    fn arrays(&self) -> Option<&ArrayTally> {
        self.inner.arrays()
    }

    fn remarks(&self) -> [&Remarks; 2] {
        self.inner.remarks()
    }

    fn len_hint(&self) -> Option<u64> {
        self.inner.len_hint()
    }

    fn label_names(&self) -> Option<&[String]> {
        self.inner.label_names()
    }
}
