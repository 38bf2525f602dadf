//! [`Input`]: raw data in numbered units.

use std::path::Path;
use std::sync::Arc;

use super::carried::Remarks;
use super::source_file::size_of;
use crate::error::{Error, Result};

/// Takes one packed sample, or what is wrong with one: what comes after it may still be good. Its
/// error says that no more are wanted: pass it on.
pub type Emit<'a> = dyn FnMut(Result<Vec<u8>>) -> Result<()> + 'a;

/// Raw data that fall into numbered units that can be read independently: the
/// shards of a data set, or runs of rows of one file.
///
/// The units and their contents depend on nothing but the data and the options, so
/// any number of machines can divide the units among them and come to the same samples. The order
/// of a data set is unit by unit. [`InOrder`](super::InOrder) makes a [`Source`](super::Source) of
/// it.
///
/// The files of a folder of images in short runs are such units, or
/// ranges of a file of lines; lines that come through a pipe cannot be divided.
pub trait Input: Send + Sync {
    /// How many units there are.
    fn units(&self) -> usize;

    /// Reads a unit, and hands its packed samples to `emit` one after the other; of a sample that
    /// is bad, the error.
    ///
    /// An error that is returned and not emitted ends the unit; what was emitted before is good.
    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()>;

    /// The file that a unit is from, for errors that do not know it.
    fn path(&self, unit: usize) -> Option<&Path> {
        let _ = unit;
        None
    }

    /// The name of a unit's file in keys. No two files are called the same, so keys that are made
    /// of it and of a number in the file are distinct.
    fn shard(&self, unit: usize) -> Option<&str> {
        let _ = unit;
        None
    }

    /// Bytes that are read for a unit, where that is known without reading them. Units are dealt
    /// out by it, so it is the same wherever the data are.
    fn bytes(&self, unit: usize) -> Option<u64> {
        let _ = unit;
        None
    }

    /// Names everything else that the samples are made from, besides the files of [`path`](Self::path), such
    /// as the files of a folder, with sizes and times: to tell whether two machines, or two runs,
    /// see the same.
    fn identify(&self, add: &mut dyn FnMut(&[u8])) {
        let _ = add;
    }

    /// Adds to an error about what a unit emitted as number `item` where that came from.
    fn locate(&self, unit: usize, item: u64, error: Error) -> Error {
        let _ = item;
        match self.path(unit) {
            Some(path) => error.at(path),
            None => error,
        }
    }

    /// Takes the remarks on contents that were left out or changed in the samples of a unit since this was last
    /// asked, while the unit is read or after it.
    fn remarks(&self, unit: usize) -> Remarks {
        let _ = unit;
        Remarks::default()
    }

    /// How many samples there will be, where that is known without reading them.
    fn len_hint(&self) -> Option<u64> {
        None
    }

    /// The names of the numeric labels, where there are any.
    fn label_names(&self) -> Option<&[String]> {
        None
    }
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        impl<T: Input + ?Sized> Input for $pointer<T> {
            fn units(&self) -> usize {
                (**self).units()
            }

            fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
                (**self).read(unit, emit)
            }

            fn path(&self, unit: usize) -> Option<&Path> {
                (**self).path(unit)
            }

            fn shard(&self, unit: usize) -> Option<&str> {
                (**self).shard(unit)
            }

            fn bytes(&self, unit: usize) -> Option<u64> {
                (**self).bytes(unit)
            }

            fn identify(&self, add: &mut dyn FnMut(&[u8])) {
                (**self).identify(add);
            }

            fn locate(&self, unit: usize, item: u64, error: Error) -> Error {
                (**self).locate(unit, item, error)
            }

            fn remarks(&self, unit: usize) -> Remarks {
                (**self).remarks(unit)
            }

            fn len_hint(&self) -> Option<u64> {
                (**self).len_hint()
            }

            fn label_names(&self) -> Option<&[String]> {
                (**self).label_names()
            }
        }
    )*};
}

forward!(Arc, Box);

/// The size of a file, which is also the size of a unit that is the whole file.
pub(super) fn file_size(path: Option<&Path>) -> Option<u64> {
    path.and_then(|path| size_of(path).ok().flatten())
}
