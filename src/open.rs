//! A reader by its name.
//!
//! On the top floor, because it knows all readers that have a name. They know nothing of each other.

use std::path::Path;
use std::sync::Arc;

#[cfg(any(feature = "convert", not(feature = "arrays")))]
use crate::dataset;
use crate::error::Result;
use crate::reader::Reader;
#[cfg(any(feature = "convert", not(feature = "arrays")))]
use crate::storage;

/// Opens what can be read by index and key, by its name: a dataset, the manifest of its shards
/// (`x.shards.json`), a pattern of their names (`x-*.msgpack`), or a recipe (`x.kiste.toml`, with feature `arrays`), on a
/// disk or behind a URL.
///
/// A URL is read with the credentials and the cache that the environment names
/// (`RemoteOptions::from_env`). [`DatasetReader::options`](crate::DatasetReader::options) opens it with others, from memory, or with
/// checksums compared.
///
/// # Errors
///
/// The errors of [`DatasetReader::open`](crate::DatasetReader::open); [`Invalid`](crate::ErrorKind::Invalid) for a file of another
/// format, which is named (with feature `convert`);
/// [`Unsupported`](crate::ErrorKind::Unsupported) for a URL without feature `remote`.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("digits.msgpack");
/// let mut writer = kiste::Writer::create(&path)?;
/// writer.write(&std::collections::BTreeMap::from([("key", "a")]))?;
/// writer.finish()?;
///
/// let reader = kiste::open(&path)?;
/// assert_eq!((reader.len(), reader.find("a")?), (1, Some(0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open(name: impl AsRef<Path>) -> Result<Arc<dyn Reader>> {
    // Says which other format it is.
    #[cfg(feature = "convert")]
    if !storage::is_url(&name) && !dataset::names_shards(&name) && !crate::compose::is_recipe(&name)
    {
        crate::convert::check_is_dataset(&name)?;
    }
    #[cfg(feature = "arrays")]
    return Ok(crate::compose::View::open(name)?.reader().clone());
    #[cfg(not(feature = "arrays"))]
    open_dataset(name.as_ref())
}

#[cfg(not(feature = "arrays"))]
fn open_dataset(name: &Path) -> Result<Arc<dyn Reader>> {
    let (storage, place) = storage::of(name)?;
    // Shards are checked when they are opened.
    if !storage.is_object_store() && !dataset::names_shards(&place) {
        dataset::check_finished(&place)?;
    }
    Ok(Arc::new(dataset::DatasetReader::options().storage(storage).open(place)?))
}
