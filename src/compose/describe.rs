//! A view as data, from which another process makes it again.

use std::collections::BTreeMap;
use std::path::Path;

use super::load::{Kept, Loading, Sources, parse};
use super::open::{Doing, ViewOptions};
use super::save::{Names, Writing};
use super::view::View;
use crate::error::Result;

/// A recipe of a view with all that it has in files: what goes to another process.
///
/// Paths are absolute; what was chosen comes along and is not evaluated again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The recipe.
    pub recipe: String,
    /// What was chosen, by the names that the recipe has for it.
    pub selections: BTreeMap<String, Vec<u8>>,
    /// Options of sources, where they are not the default.
    pub options: BTreeMap<String, u8>,
}

impl Description {
    /// From its parts.
    pub fn new(
        recipe: String,
        selections: BTreeMap<String, Vec<u8>>,
        options: BTreeMap<String, u8>,
    ) -> Description {
        Description { recipe, selections, options }
    }

    /// Makes the view again.
    ///
    /// # Errors
    ///
    /// [`Replaced`](crate::ErrorKind::Replaced) if a source has changed, and the errors of [`View::open`].
    pub fn open(&self, progress: &mut dyn FnMut(Doing<'_>) -> Result<()>) -> Result<View> {
        let recipe = parse(self.recipe.as_bytes())?;
        let kept = Kept::Memory(&self.selections);
        let sources = Sources::of(&recipe, Path::new(""), ViewOptions::default(), kept);
        sources.with_options(&self.options).output(&mut Loading::new(progress))
    }
}

impl View {
    /// What another process needs to make the same view.
    ///
    /// # Errors
    ///
    /// As [`save`](View::save).
    pub fn describe(&self) -> Result<Description> {
        let Writing { recipe, kept, options, .. } = Writing::of(self, Names::Absolute)?;
        Ok(Description { recipe: recipe.print()?, selections: kept, options })
    }
}
