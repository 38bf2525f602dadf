//! Composing: datasets made of others, without a copy.
//!
//! A [`View`] is a dataset like any other: it has a length, samples by index and by key, and an identity. It is made by
//! opening a name, or from other views: some of their samples, some of their fields, fields of another one by key, one
//! after the other, or a mixture. Nothing is written; a selection takes at most a bit a sample.
//!
//! A *recipe* is a view in a file, `*.kiste.toml`: see [`format::recipe`](crate::format::recipe). [`View::open`] and
//! [`kiste::open`](crate::open) read recipes as they read datasets, and [`View::save`] writes one.

mod concat;
mod dedupe;
mod describe;
mod keys;
mod load;
mod made;
mod mixture;
mod open;
#[cfg(feature = "stat")]
mod report;
mod lock;
mod save;
mod view;
#[cfg(test)]
mod tests;

pub use describe::Description;
pub use lock::lock;
pub use made::LeftOut;
pub use mixture::{Exhausted, MixtureOptions};
pub use open::{Doing, ViewOptions, is_recipe};
#[cfg(feature = "stat")]
pub use report::{DifferingField, PhaseShares, SourceSamples, ViewReport};
pub use view::View;
