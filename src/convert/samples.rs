//! [`Samples`]: what opening sources gives, in units or as a stream.

use std::path::{Path, PathBuf};

use super::chained_streams::ChainedStreams;
use super::changed::{Change, Changed};
use super::file_names::KeyNames;
use super::{Chained, InOrder, Input, Source};
use crate::error::Result;

/// Samples as they can be had.
pub(super) enum Samples {
    /// In units that can be read independently.
    Units(Box<dyn Input>),
    /// One after the other, and only once.
    Stream(Box<dyn Source>),
}

impl Samples {
    pub(super) fn units(input: impl Input + 'static) -> Samples {
        Samples::Units(Box::new(input))
    }

    /// One source after the other: in units, if all are.
    pub(super) fn of_each(
        paths: &[PathBuf],
        open: impl Fn(&Path, KeyNames) -> Result<Samples>,
    ) -> Result<Samples> {
        let names = KeyNames::of(paths);
        let open = |(at, path): (usize, &PathBuf)| open(path, names.range(at..at + 1));
        Samples::chained(paths.iter().enumerate().map(open).collect::<Result<_>>()?)
    }

    /// The same of sources that are open.
    pub(super) fn chained(mut all: Vec<Samples>) -> Result<Samples> {
        if all.len() == 1 {
            return Ok(all.remove(0));
        }
        if all.iter().any(|samples| matches!(samples, Samples::Stream(_))) {
            let sources = all.into_iter().map(Samples::into_source).collect();
            return Ok(Samples::Stream(Box::new(ChainedStreams::new(sources))));
        }
        let input = |samples| match samples {
            Samples::Units(input) => Some(input),
            Samples::Stream(_) => None,
        };
        Ok(Samples::units(Chained::new(all.into_iter().filter_map(input).collect())?))
    }

    /// All of them, in order.
    pub(super) fn into_source(self) -> Box<dyn Source> {
        match self {
            Samples::Units(input) => Box::new(InOrder::new(input)),
            Samples::Stream(source) => source,
        }
    }

    /// The same samples, each changed.
    pub(super) fn changed(self, change: impl Change + 'static) -> Samples {
        match self {
            Samples::Units(input) => Samples::units(Changed::new(input, change)),
            Samples::Stream(source) => Samples::Stream(Box::new(Changed::new(source, change))),
        }
    }

    pub(super) fn as_input(&self) -> Option<&dyn Input> {
        match self {
            Samples::Units(input) => Some(&**input),
            Samples::Stream(_) => None,
        }
    }

    pub(super) fn label_names(&self) -> Option<&[String]> {
        match self {
            Samples::Units(input) => input.label_names(),
            Samples::Stream(source) => source.label_names(),
        }
    }
}
