//! The part of an array that a command was asked for, in the type that was asked for.

use kiste::array::{ArrayPart, ArrayTarget, ChunkedArray};
use kiste::value::{Casting, DType};

use super::target::Explained;
use crate::exit::Outcome;

/// The requested element type.
#[derive(Debug, clap::Args)]
pub(super) struct Conversion {
    /// Convert elements to this type, as NumPy's astype does
    #[arg(long, value_name = "TYPE")]
    dtype: Option<DType>,
    /// Casting rule: safe, same_kind or unsafe [default: same_kind]
    #[arg(long, value_name = "HOW", requires = "dtype")]
    casting: Option<Casting>,
}

impl Conversion {
    /// The type of an array with such elements.
    pub(super) fn of(&self, dtype: &DType) -> (DType, Casting) {
        let casting = self.casting.unwrap_or_default();
        (self.dtype.clone().unwrap_or_else(|| dtype.clone()), casting)
    }

    /// A part of an array or of its field, in the requested type.
    pub(super) fn part(&self, array: &ChunkedArray, target: &ArrayTarget) -> Outcome<ArrayPart> {
        let (dtype, casting) = self.of(array.dtype());
        let part = array.part(target.selection.clone());
        part.and_then(|part| part.astype(dtype, casting)).explained(&target.path)
    }
}
