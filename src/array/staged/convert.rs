//! Staged arrays made from others: other fill values, elements, types, chunks.

use std::sync::Arc;

use crate::array::plan::{Patch, Place};
use crate::array::selection::{Selection, invalid};
use crate::array::staged::array::StagedArray;
use crate::array::staged::slab::{Slab, Slots};
use crate::error::Result;
use crate::value::{Casting, DType, Element, NdArray};

impl StagedArray {
    /// The same array with another fill value, which also replaces every element that equals the
    /// old one bit by bit.
    pub fn refill(&self, fill: &[u8]) -> Result<StagedArray> {
        let old = &self.fill;
        self.derive(self.dtype.clone(), fill, |from, to| {
            to.copy_from_slice(from);
            for element in to.chunks_exact_mut(old.len()).filter(|element| *element == &old[..]) {
                element.copy_from_slice(fill);
            }
        })
    }

    /// The same array with every element converted; the fill value is converted too.
    ///
    /// ```
    /// # use kiste::array::StagedArray;
    /// let bytes = StagedArray::full(&[1000], &[100], 128u8)?;
    /// let floats = bytes.map(|byte: u8| f32::from(byte) / 255.0)?;
    /// assert_eq!(floats.get::<f32>(999)?.sum(), 128.0 / 255.0);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn map<T: Element, U: Element>(&self, convert: impl Fn(T) -> U) -> Result<StagedArray> {
        let native = self.expect::<T>()?;
        let convert = |bytes: &[u8]| {
            let element = T::from_memory(bytes);
            convert(if native { element } else { element.swap_bytes() })
        };
        let fill = convert(&self.fill);
        self.derive(DType::of::<U>(), bytemuck::bytes_of(&fill), |from, to| {
            let to = to.chunks_exact_mut(size_of::<U>());
            for (to, from) in to.zip(from.chunks_exact(size_of::<T>())) {
                to.copy_from_slice(bytemuck::bytes_of(&convert(from)));
            }
        })
    }

    /// The same array with elements of another type, converted as by [`NdArray::astype`]; the fill
    /// value is converted too.
    pub fn astype(&self, dtype: &DType, casting: Casting) -> Result<StagedArray> {
        let cast = |bytes: &[u8]| -> Result<NdArray<'static>> {
            let len = bytes.len() / self.item();
            NdArray::new(self.dtype.clone(), [len], bytes)?.astype(dtype, casting)
        };
        let fill = cast(&self.fill)?;
        self.try_derive(dtype.clone(), fill.bytes(), |from, to| {
            to.copy_from_slice(cast(from)?.bytes());
            Ok(())
        })
    }

    /// A copy that has every chunk in memory, converted from the chunk here.
    fn derive(
        &self,
        dtype: DType,
        fill: &[u8],
        convert: impl Fn(&[u8], &mut [u8]),
    ) -> Result<StagedArray> {
        self.try_derive(dtype, fill, |from, to| {
            convert(from, to);
            Ok(())
        })
    }

    fn try_derive(
        &self,
        dtype: DType,
        fill: &[u8],
        convert: impl Fn(&[u8], &mut [u8]) -> Result<()>,
    ) -> Result<StagedArray> {
        let mut derived = StagedArray::new(self.shape(), self.chunk_shape(), dtype, fill)?;
        derived.layout.placement = self.layout.placement;
        derived.changed = true;
        let cells = || (0..self.layout.places.len()).filter(|&at| self.layout.places[at].slab > 0);
        let count = u32::try_from(cells().count()).map_err(|_| invalid("too many chunks"))?;
        if count == 0 {
            return Ok(derived);
        }
        let mut slots = Slots::new(count, derived.layout.slot_bytes)?;
        let mut places = Vec::with_capacity(count as usize);
        for (slot, cell) in (0..count).zip(cells()) {
            convert(&self.chunk(cell)?, slots.slot_mut(slot as usize))?;
            places.push((cell, Place { slab: 1, slot }));
        }
        let used = vec![(1, count)];
        derived.slabs.push(Slab::Staged(Arc::new(slots)));
        derived.layout.apply(Patch { append: vec![count], used, places, ..Patch::default() });
        Ok(derived)
    }

    /// The same array with another chunk shape. New chunks that cover only unwritten ones stay
    /// unwritten.
    pub fn rechunk(&self, chunk: &[usize]) -> Result<StagedArray> {
        let mut other = StagedArray::new(self.shape(), chunk, self.dtype.clone(), &self.fill)?;
        other.layout.placement = self.layout.placement;
        other.changed = true;
        for (cell, _) in self.layout.places.iter().enumerate().filter(|(_, p)| p.slab > 0) {
            let region = Selection::from(&self.layout.grid.region(cell)[..]);
            other.write(region.clone(), &self.read(region)?)?;
        }
        Ok(other)
    }
}
