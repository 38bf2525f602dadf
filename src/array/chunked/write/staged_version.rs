//! `StagedVersion`: changes to one version, until they are committed.
//!
//! Not here: how they begin and how they become a version, which is
//! [`ArrayStore`](crate::array::ArrayStore)'s.

use std::ops::Deref;

use ndarray::{ArrayBase, Data, Dimension};
use serde_json::{Map, Value};

use crate::array::chunked::read::ChunkedArray;
use crate::array::selection::Selection;
use crate::array::staged::array::StagedArray;
use crate::error::Result;
use crate::value::{Element, NdArray};

/// Changes to one version, in memory: derefs to the [`StagedArray`] that has them.
#[derive(Debug, Clone)]
pub struct StagedVersion {
    pub(crate) array: StagedArray,
    pub(crate) base: ChunkedArray,
    /// The newest version when this was staged.
    pub(crate) newest: u64,
    pub(crate) attributes: Map<String, Value>,
    /// Whether an axis has become shorter, if only for a time.
    pub(crate) shrunk: bool,
}

impl StagedVersion {
    /// The version that the changes are made to.
    pub fn base(&self) -> &ChunkedArray {
        &self.base
    }

    /// The user's attributes, as they will be committed.
    pub fn attrs(&self) -> &Map<String, Value> {
        &self.attributes
    }

    /// The same, to change them.
    pub fn attrs_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.attributes
    }
}

impl Deref for StagedVersion {
    type Target = StagedArray;

    fn deref(&self) -> &StagedArray {
        &self.array
    }
}

/// What changes the array. It cannot be taken out or replaced by another: chunks that did not change
/// are those of the base.
impl StagedVersion {
    /// As [`StagedArray::set`].
    pub fn set<T, S, D>(
        &mut self,
        selection: impl Into<Selection>,
        value: &ArrayBase<S, D>,
    ) -> Result<()>
    where
        T: Element,
        S: Data<Elem = T>,
        D: Dimension,
    {
        self.array.set(selection, value)
    }

    /// As [`StagedArray::set_scalar`].
    pub fn set_scalar<T: Element>(
        &mut self,
        selection: impl Into<Selection>,
        value: T,
    ) -> Result<()> {
        self.array.set_scalar(selection, value)
    }

    /// As [`StagedArray::write`].
    pub fn write(&mut self, selection: impl Into<Selection>, value: &NdArray<'_>) -> Result<()> {
        self.array.write(selection, value)
    }

    /// As [`StagedArray::resize`].
    pub fn resize(&mut self, shape: &[usize]) -> Result<()> {
        let shrinks = shape.iter().zip(self.array.shape()).any(|(new, old)| new < old);
        self.array.resize(shape)?;
        self.shrunk |= shrinks;
        Ok(())
    }

    /// As [`StagedArray::append_array`].
    pub fn append(&mut self, rows: &NdArray<'_>) -> Result<()> {
        self.array.append_array(rows)
    }

    /// As [`StagedArray::load`].
    pub fn load(&mut self) -> Result<()> {
        self.array.load()
    }
}
