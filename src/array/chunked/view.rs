//! `ChunkView`: a chunk used where it is in a mapped file.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::array::chunked::options::Check;
use crate::array::chunked::superchunk::SuperchunkFile;
use crate::error::Result;
use crate::format::chunked::segment::Place;
use crate::value::{DType, NdArray};

/// A chunk in a mapped file, from [`chunk_view`](crate::array::ChunkedArray::chunk_view). Derefs to its
/// bytes.
pub struct ChunkView {
    pub(super) file: Arc<SuperchunkFile>,
    pub(super) place: Place,
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
}

impl ChunkView {
    /// The chunk as an array that borrows from the file.
    pub fn array(&self) -> Result<NdArray<'_>> {
        NdArray::new(self.dtype.clone(), self.shape.clone(), &**self)
    }
}

impl Deref for ChunkView {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // It was found there before, and the file does not change.
        let found = self.file.plain(&self.place, Check::Nothing);
        found.ok().flatten().unwrap_or_default()
    }
}

impl fmt::Debug for ChunkView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkView({} {:?})", self.dtype, self.shape)
    }
}
