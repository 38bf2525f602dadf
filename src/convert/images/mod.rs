//! Images in samples: resized, encoded in another format, or verified.
//!
//! [`ImageOptions`] describes what to do with an image, and [`Images`] does it to all samples of a
//! source. Absent on purpose: where images come from, what else is in a sample, and augmentation,
//! which belongs in a loader.

mod options;
mod picture;

use std::borrow::Cow;
use std::path::Path;

pub use options::ImageOptions;

use super::changed::{Change, Changed};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::{self, Cursor, Kind, sample};

/// The samples of another [`Input`](super::Input) or [`Source`](super::Source), with their images changed by [`ImageOptions`].
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
pub type Images<T> = Changed<T, ImageOptions>;

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

impl Change for ImageOptions {
    type Place = ();

    fn place(&self, _file: Option<&Path>) {}

    fn change(&self, (): &(), packed: Vec<u8>) -> Result<Vec<u8>> {
        match self.apply(&packed) {
            Ok(Cow::Owned(changed)) => Ok(changed),
            Ok(Cow::Borrowed(_)) => Ok(packed),
            Err(error) => Err(error.with_raw(packed)),
        }
    }
}
