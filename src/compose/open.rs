//! Opening what can be read, by its name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::load::Loading;
use super::made::Made;
use super::view::View;
use crate::dataset::{DatasetReader, check_finished, names_shards};
use crate::error::Result;
use crate::format::recipe::SUFFIX;
use crate::storage::{self, LocalStorage, Storage, is_url};

/// How far a step is that takes time: what closures for progress hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Doing<'a> {
    /// The step, as in "evaluating a condition".
    pub what: &'a str,
    /// Samples that it has seen.
    pub done: u64,
    /// Samples in all.
    pub total: u64,
}

/// Options for opening: see [`View::options`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ViewOptions {
    checksums: bool,
    untrusted: bool,
    allow_outside: bool,
}

impl ViewOptions {
    /// Whether each sample is compared with its checksum when it is read. Default: no.
    #[must_use]
    pub fn checksums(mut self, yes: bool) -> ViewOptions {
        self.checksums = yes;
        self
    }

    /// Whether the files come from someone who is not trusted. Then they are read by calls and not through memory
    /// maps, which another program could truncate, and a recipe names files of its folder alone, unless others are
    /// [allowed](Self::allow_outside). Default: no.
    #[must_use]
    pub fn untrusted(mut self, yes: bool) -> ViewOptions {
        self.untrusted = yes;
        self
    }

    /// Whether files that a manifest names may be links out of its folder. Default: no.
    #[must_use]
    pub fn allow_outside(mut self, yes: bool) -> ViewOptions {
        self.allow_outside = yes;
        self
    }

    pub(super) fn is_untrusted(self) -> bool {
        self.untrusted
    }

    /// Whether a recipe names files of its folder alone.
    pub(super) fn is_confined(self) -> bool {
        self.untrusted && !self.allow_outside
    }

    /// The options as a number, and back.
    pub(super) fn to_bits(self) -> u8 {
        u8::from(self.checksums) | u8::from(self.untrusted) << 1 | u8::from(self.allow_outside) << 2
    }

    pub(super) fn of_bits(bits: u8) -> ViewOptions {
        let is_set = |bit: u8| bits >> bit & 1 == 1;
        let (checksums, untrusted, allow_outside) = (is_set(0), is_set(1), is_set(2));
        ViewOptions { checksums, untrusted, allow_outside }
    }

    /// Opens a dataset, shards, or a recipe, whose conditions are evaluated if what they chose is not kept.
    /// `progress` hears how far that is, and its error ends it.
    ///
    /// # Errors
    ///
    /// As [`View::open`].
    pub fn open(
        self,
        name: impl AsRef<Path>,
        progress: &mut dyn FnMut(Doing<'_>) -> Result<()>,
    ) -> Result<View> {
        Loading::new(progress).open(name.as_ref(), self)
    }

    /// Opens the dataset of this name, which is no recipe.
    pub(super) fn open_dataset(self, name: &Path) -> Result<View> {
        let (storage, place) = self.storage(name)?;
        // Shards are checked when they are opened.
        if !storage.is_object_store() && !is_url(name) && !names_shards(&place) {
            check_finished(&place)?;
        }
        let dataset =
            DatasetReader::options().checksums(self.checksums).confined(self.is_confined());
        let dataset = dataset.storage(storage).open(place)?;
        let made = Made::Opened { name: name.to_owned(), options: self, dataset: dataset.clone() };
        View::new(Arc::new(dataset), made)
    }

    /// Where a name leads.
    pub(super) fn storage(self, name: &Path) -> Result<(Arc<dyn Storage>, PathBuf)> {
        let (found, place) = storage::of(name)?;
        if is_url(name) {
            return Ok((found, place));
        }
        let storage = match self.untrusted {
            true => LocalStorage::positioned(),
            false => LocalStorage::mapped(),
        };
        Ok((Arc::new(storage.allow_outside(self.allow_outside)), place))
    }
}

/// Whether this is the name of a recipe: `*.kiste.toml`, also behind a URL.
///
/// ```
/// assert!(kiste::compose::is_recipe("train.kiste.toml"));
/// assert!(!kiste::compose::is_recipe("train.msgpack"));
/// ```
pub fn is_recipe(name: impl AsRef<Path>) -> bool {
    let name = name.as_ref();
    let text = name.to_string_lossy();
    let path = match is_url(name) {
        true => text.split(['?', '#']).next().unwrap_or_default(),
        false => &text[..],
    };
    path.ends_with(SUFFIX)
}
