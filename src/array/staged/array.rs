//! [`StagedArray`]: changes to a chunked array, kept in memory until they are committed.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

use crate::array::grid::ChunkGrid;
use crate::array::operand::Operand;
use crate::array::plan::{
    ChangesPlan, GetItemPlan, Layout, LoadPlan, Patch, Place, Placement, Plan, ResizePlan,
    SetItemPlan, SlabInfo, SlabKind,
};
use crate::array::selection::{Selection, invalid, product};
use crate::array::staged::slab::{Copied, Slab, fits};
use crate::array::staged::spill::{Budget, SlabStore};
use crate::array::transfer::{BaseSlab, c_steps, fill};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{expect_memory, prefer_huge_pages, zeroed};
use crate::value::{DType, DTypeKind as Kind, Element, NdArray};

/// A chunked array that can be read, written and resized, while the chunks it was made from stay as
/// they are.
///
/// Chunks that were never written take no memory, base chunks are read when they are needed, and a
/// chunk is copied to memory before it is changed. [`BaseSlab`] says what a base can be, and
/// [`changes`](StagedArray::changes) what has become different.
///
/// ```
/// use kiste::array::{Index, StagedArray};
/// use ndarray::array;
///
/// let mut grades = StagedArray::full(&[4, 3], &[2, 2], 0u8)?;
/// grades.set((1..3, ..), &array![5u8, 6, 7])?; // broadcast, as NumPy does
/// grades.resize(&[3, 4])?;
/// assert_eq!(
///     grades.get::<u8>(..)?,
///     array![[0, 0, 0, 0], [5, 6, 7, 0], [5, 6, 7, 0]].into_dyn()
/// );
/// let reversed = Index::range(None, None, -1);
/// assert_eq!(grades.get::<u8>((2, reversed))?, array![0, 7, 6, 5].into_dyn());
/// # Ok::<(), kiste::Error>(())
/// ```
///
/// Plans show what an operation would move, in the form that versioned-hdf5 uses:
///
/// ```
/// # use kiste::array::StagedArray;
/// let array = StagedArray::full(&[4, 3], &[2, 2], 0u8)?;
/// let plan = array.plan_set((1..3, 2))?;
/// assert!(plan.to_string().contains("slabs[1][1:2, 0:1] = value[0:1, 0:1]"));
/// # Ok::<(), kiste::Error>(())
/// ```
///
/// An operation that fails has changed nothing. A clone shares all chunks until they are written.
///
/// # Differences from versioned-hdf5
///
/// The plans follow its documentation, transfer by transfer, with these exceptions. It
///
/// * leaves a base chunk where it is that a shrink cuts through, so that two versions refer to
///   different extents of it (repaired there since): here it is staged;
/// * asks for more than a chunk holds if one axis shrinks and another grows, and counts on the surplus
///   being dropped: here it asks for what there is;
/// * keeps what a shrink cut off, or was never written, in the padding of edge chunks, and may commit
///   it: what [`chunk`](StagedArray::chunk) and [`changes`](StagedArray::changes) give is padded with
///   the fill value, always;
/// * changes its maps first, so that an assignment that then fails leaves chunks that cannot be read;
///   it does not look at a value of the wrong shape if nothing is selected;
/// * takes a NaN as fill value for unequal to itself in `refill`: here fill values are compared by
///   their bits;
/// * makes a slab for each step of each plan: so does [`Placement::PerPlan`];
/// * refuses negative steps, several index arrays, masks of several axes and new axes, and neither
///   reads nor writes arrays without axes.
#[derive(Clone)]
#[must_use = "staged changes exist in memory alone"]
pub struct StagedArray {
    pub(super) layout: Layout,
    pub(super) slabs: Vec<Slab>,
    pub(super) dtype: DType,
    /// The bytes of the fill value.
    pub(super) fill: Vec<u8>,
    pub(super) changed: bool,
    pub(super) budget: Option<Budget>,
}

/// A chunk of the grid, as a commit sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChunkState<'a> {
    /// Only the fill value.
    Fill,
    /// Unchanged, in this slot of a base slab; base slabs are numbered from 1.
    Base(Place),
    /// Written. The whole chunk in C order, with the fill value beyond the edge of the array.
    Staged(Cow<'a, [u8]>),
}

impl StagedArray {
    /// An array full of one value.
    pub fn full<T: Element>(shape: &[usize], chunk: &[usize], fill: T) -> Result<StagedArray> {
        StagedArray::new(shape, chunk, DType::of::<T>(), bytemuck::bytes_of(&fill))
    }

    /// An array full of the element with these bytes.
    pub fn new(shape: &[usize], chunk: &[usize], dtype: DType, fill: &[u8]) -> Result<StagedArray> {
        let item = dtype.item_size();
        if dtype.has_objects() || item == 0 {
            let message = format!("chunks of {dtype} cannot be stored");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if fill.len() != item {
            let found = fill.len();
            return Err(invalid(format!("expected a fill value of {item} bytes, found {found}")));
        }
        let layout = Layout::new(ChunkGrid::new(shape, chunk)?, item)?;
        let fill = fill.to_vec();
        let (changed, budget) = (false, None);
        Ok(StagedArray { layout, slabs: vec![Slab::None], dtype, fill, changed, budget })
    }

    /// An array with these contents. They are copied once, and are the base of later changes.
    pub fn from_array(array: &NdArray<'_>, chunk: &[usize], fill: &[u8]) -> Result<StagedArray> {
        let mut staged = StagedArray::new(array.shape(), chunk, array.dtype().clone(), fill)?;
        staged.layout.placement = Placement::PerPlan;
        staged.write(Selection::all(), array)?;
        let chunks = staged.layout.grid.len();
        if let (Some(Slab::Staged(slots)), true) = (staged.slabs.pop(), chunks > 0) {
            let mut slots = Arc::try_unwrap(slots).unwrap_or_else(|shared| shared.copy(0));
            for cell in 0..chunks {
                staged.pad(cell, slots.slot_mut(staged.layout.places[cell].slot as usize));
            }
            let places = std::mem::take(&mut staged.layout.places);
            let base: Vec<Arc<dyn BaseSlab>> = vec![Arc::new(slots)];
            let dtype = staged.dtype;
            return StagedArray::from_base(array.shape(), chunk, dtype, fill, base, places);
        }
        StagedArray::new(array.shape(), chunk, staged.dtype, fill)
    }

    /// An array whose chunks are at these places, in the order of the grid: slab 0 is the fill
    /// value, slab 1 the first of `bases`.
    pub fn from_base(
        shape: &[usize],
        chunk: &[usize],
        dtype: DType,
        fill: &[u8],
        bases: Vec<Arc<dyn BaseSlab>>,
        places: Vec<Place>,
    ) -> Result<StagedArray> {
        let mut array = StagedArray::new(shape, chunk, dtype, fill)?;
        if places.len() != array.layout.grid.len() {
            let (expected, found) = (array.layout.grid.len(), places.len());
            return Err(invalid(format!("expected places of {expected} chunks, found {found}")));
        }
        array.layout.slabs.extend(bases.iter().map(|base| SlabInfo {
            kind: SlabKind::Base,
            slots: u32::try_from(base.slots()).unwrap_or(u32::MAX),
            used: 0,
            live: 0,
            padded: base.is_padded(),
        }));
        for &place in &places {
            let slab = array.layout.slabs.get_mut(place.slab as usize);
            let slab = slab.filter(|slab| place.slot < slab.slots);
            let slab = slab.ok_or_else(|| invalid(format!("there is no chunk at {place:?}")))?;
            slab.live += usize::from(place.slab > 0);
        }
        array.layout.places = places;
        array.slabs.extend(bases.into_iter().map(Slab::Base));
        Ok(array)
    }

    /// Puts new chunks where this policy says.
    pub fn with_placement(mut self, placement: Placement) -> StagedArray {
        self.layout.placement = placement;
        self
    }

    /// Keeps about this many bytes of staged chunks in memory.
    ///
    /// Chunks beyond the budget are given to the store before the next change, whole slabs at a
    /// time, oldest first; so memory may exceed the budget by one operation's changes. Spilled
    /// chunks are read like base slabs, and return to memory when they are changed again.
    pub fn with_budget(mut self, bytes: usize, store: Arc<dyn SlabStore>) -> StagedArray {
        self.budget = Some(Budget { bytes, store });
        self
    }

    /// The length of each axis.
    pub fn shape(&self) -> &[usize] {
        self.layout.grid.shape()
    }

    /// The shape of a whole chunk.
    pub fn chunk_shape(&self) -> &[usize] {
        self.layout.grid.chunk_shape()
    }

    /// How the array is cut into chunks.
    pub fn grid(&self) -> &ChunkGrid {
        &self.layout.grid
    }

    /// The type of the elements.
    pub fn dtype(&self) -> &DType {
        &self.dtype
    }

    /// The bytes of the fill value.
    pub fn fill_value(&self) -> &[u8] {
        &self.fill
    }

    /// How many elements there are; `usize::MAX` if they cannot be counted.
    pub fn len(&self) -> usize {
        product(self.shape()).unwrap_or(usize::MAX)
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape().contains(&0)
    }

    /// The bytes of all elements, wherever they are.
    pub fn nbytes(&self) -> usize {
        self.len().saturating_mul(self.item())
    }

    /// The bytes of memory used by staged chunks, without spilled ones.
    pub fn staged_bytes(&self) -> usize {
        let staged = self.layout.slabs.iter().filter(|slab| slab.kind == SlabKind::Staged);
        staged.map(|slab| slab.used as usize * self.layout.slot_bytes).sum()
    }

    /// Whether anything was written or resized. May be true even if all values are as before.
    pub fn has_changes(&self) -> bool {
        self.changed
    }

    /// Where each chunk is, in the order of the grid.
    pub fn places(&self) -> &[Place] {
        &self.layout.places
    }

    /// The plan to read a selection.
    pub fn plan_get(&self, selection: impl Into<Selection>) -> Result<Plan<'_>> {
        self.get_item_plan(selection).map(Plan::from)
    }

    /// The plan to assign to a selection.
    pub fn plan_set(&self, selection: impl Into<Selection>) -> Result<Plan<'_>> {
        SetItemPlan::new(&self.layout, &selection.into()).map(Plan::from)
    }

    /// The plan to resize.
    pub fn plan_resize(&self, shape: &[usize]) -> Result<Plan<'_>> {
        ResizePlan::new(&self.layout, shape).map(Plan::from)
    }

    /// The plan of [`load`](StagedArray::load).
    pub fn plan_load(&self) -> Result<Plan<'_>> {
        LoadPlan::new(&self.layout).map(Plan::from)
    }

    /// Where each chunk is now.
    pub fn plan_changes(&self) -> Plan<'_> {
        self.changes_plan().into()
    }

    pub(crate) fn get_item_plan(&self, selection: impl Into<Selection>) -> Result<GetItemPlan<'_>> {
        GetItemPlan::new(&self.layout, &selection.into())
    }

    /// Where each chunk is, and of what kind that slab is.
    pub(crate) fn changes_plan(&self) -> ChangesPlan<'_> {
        ChangesPlan::new(&self.layout)
    }

    /// Reads a selection.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the selection does not fit the array, or `T` not its
    /// elements; errors of base slabs.
    pub fn get<T: Element>(&self, selection: impl Into<Selection>) -> Result<ArrayD<T>> {
        let native = self.expect::<T>()?;
        let plan = self.get_item_plan(selection)?;
        let len = self.result_len(plan.shape())?;
        expect_memory(len.saturating_mul(size_of::<T>()))?;
        let mut elements = vec![T::default(); len];
        match T::memory_of(&mut elements) {
            Some(bytes) if native => {
                prefer_huge_pages(bytes);
                self.run_get(&plan, bytes)?;
            }
            _ => return Ok(self.read_plan(&plan)?.to_ndarray()?),
        }
        let shape = IxDyn(plan.shape());
        Ok(ArrayD::from_shape_vec(shape, elements).expect("as many elements as the shape has"))
    }

    /// Reads a selection of elements of any type.
    pub fn read(&self, selection: impl Into<Selection>) -> Result<NdArray<'static>> {
        self.read_plan(&self.get_item_plan(selection)?)
    }

    /// Reads a selection into a buffer, in C order. After an error the buffer may hold anything.
    pub fn read_into(&self, selection: impl Into<Selection>, out: &mut [u8]) -> Result<()> {
        let plan = self.get_item_plan(selection)?;
        let expected = self.result_len(plan.shape())? * self.item();
        if out.len() != expected {
            let found = out.len();
            return Err(invalid(format!("expected room for {expected} bytes, found {found}")));
        }
        self.run_get(&plan, out)
    }

    /// Assigns a value, broadcast as NumPy does if it is smaller. Where a point is selected more
    /// than once, the last value wins.
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
        if self.expect::<T>()? {
            let value = NdArray::from_ndarray(value);
            return self.assign(&selection.into(), &Operand::from(&value));
        }
        let swapped = value.mapv(T::swap_bytes);
        let value = NdArray::from_ndarray(&swapped);
        self.assign(&selection.into(), &Operand::from(&value))
    }

    /// Assigns one value to a whole selection.
    pub fn set_scalar<T: Element>(
        &mut self,
        selection: impl Into<Selection>,
        value: T,
    ) -> Result<()> {
        let value = if self.expect::<T>()? { value } else { value.swap_bytes() };
        self.assign(&selection.into(), &Operand::scalar(bytemuck::bytes_of(&value)))
    }

    /// Assigns a value of the same element type as the array.
    pub fn write(&mut self, selection: impl Into<Selection>, value: &NdArray<'_>) -> Result<()> {
        if *value.dtype() != self.dtype {
            let (expected, found) = (&self.dtype, value.dtype());
            return Err(invalid(format!("expected elements of {expected}, found {found}")));
        }
        self.assign(&selection.into(), &Operand::from(value))
    }

    /// Changes the shape. New elements are the fill value; elements that are cut off are lost.
    pub fn resize(&mut self, shape: &[usize]) -> Result<()> {
        self.spill()?;
        let plan = ResizePlan::new(&self.layout, shape)?;
        let changed = self.layout.grid.shape() != shape;
        let (moves, patch) = (plan.moves, plan.patch);
        self.carry_out(&moves, patch, None)?;
        self.changed |= changed;
        Ok(())
    }

    /// Appends rows along the first axis.
    ///
    /// ```
    /// # use kiste::array::StagedArray;
    /// # use ndarray::array;
    /// let mut log = StagedArray::full(&[0, 2], &[100, 2], 0.0f32)?;
    /// log.append(&array![[1.0f32, 2.0]])?;
    /// log.append(&array![[3.0f32, 4.0], [5.0, 6.0]])?;
    /// assert_eq!(log.shape(), [3, 2]);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn append<T, S, D>(&mut self, rows: &ArrayBase<S, D>) -> Result<()>
    where
        T: Element,
        S: Data<Elem = T>,
        D: Dimension,
    {
        self.grow(rows.shape(), |array, new| array.set(new, rows))
    }

    /// Appends rows of the same element type as the array.
    pub fn append_array(&mut self, rows: &NdArray<'_>) -> Result<()> {
        self.grow(rows.shape(), |array, new| array.write(new, rows))
    }

    /// Makes room for rows and writes them; undoes the resize if that fails.
    fn grow(
        &mut self,
        rows: &[usize],
        write: impl FnOnce(&mut StagedArray, Selection) -> Result<()>,
    ) -> Result<()> {
        let old = self.layout.grid.clone();
        let inner = old.shape().get(1..).unwrap_or_default();
        let (Some(&start), Some((&more, found))) = (old.shape().first(), rows.split_first()) else {
            return Err(invalid("expected rows for an array that has axes"));
        };
        if inner != found {
            return Err(invalid(format!("expected rows of shape {inner:?}, found {found:?}")));
        }
        let end = start.checked_add(more).filter(|&end| isize::try_from(end).is_ok());
        let end = end.ok_or_else(|| invalid(format!("{start} and {more} rows are too many")))?;
        let mut shape = old.shape().to_vec();
        shape[0] = end;
        let changed = self.changed;
        self.resize(&shape)?;
        write(self, (start..end).into()).inspect_err(|_| {
            // Nothing within the old shape was written, so its chunks are unchanged.
            self.layout.apply(Patch { grid: Some(old), ..Patch::default() });
            self.changed = changed;
        })
    }

    /// Copies all base chunks to memory, and releases the bases.
    pub fn load(&mut self) -> Result<()> {
        self.spill()?;
        let LoadPlan { moves, patch, .. } = LoadPlan::new(&self.layout)?;
        self.carry_out(&moves, patch, None)
    }

    /// Every chunk of the grid, in order, with what happened to it. This is the whole chunk table,
    /// as a commit has to write it.
    pub fn changes(&self) -> impl Iterator<Item = Result<ChunkState<'_>>> {
        self.changes_plan().iter().map(|change| match change.kind {
            SlabKind::Full => Ok(ChunkState::Fill),
            SlabKind::Base => Ok(ChunkState::Base(change.place)),
            _ => self.chunk(change.cell).map(ChunkState::Staged),
        })
    }

    /// The whole chunk of this number in C order, with the fill value beyond the edge of the array.
    ///
    /// # Panics
    ///
    /// If the grid has no such chunk.
    pub fn chunk(&self, cell: usize) -> Result<Cow<'_, [u8]>> {
        let place = self.layout.places[cell];
        let slot = place.slot as usize;
        let mut bytes = match &self.slabs[place.slab as usize] {
            Slab::Staged(slots) => Cow::Borrowed(slots.slot(slot)),
            Slab::Base(base) => match base.chunk(slot) {
                Some(bytes) => Cow::Borrowed(bytes),
                None => {
                    let mut bytes = vec![0; self.layout.slot_bytes];
                    base.read(slot, 0, &mut bytes)?;
                    Cow::Owned(bytes)
                }
            },
            Slab::None => {
                let mut bytes = vec![0; self.layout.slot_bytes];
                fill(&mut bytes, &self.fill);
                return Ok(Cow::Owned(bytes));
            }
        };
        if !self.layout.slabs[place.slab as usize].padded && !self.is_whole(cell) {
            self.pad(cell, bytes.to_mut());
        }
        Ok(bytes)
    }

    /// The origin of a staged chunk that was copied from a base slab, and the bytes of
    /// [`chunk`](Self::chunk) that may have been written since. `None` where that is not known.
    pub(crate) fn copied(&self, cell: usize) -> Option<&Copied> {
        let place = self.layout.places[cell];
        match &self.slabs[place.slab as usize] {
            Slab::Staged(slots) if self.is_whole(cell) => slots.copied(place.slot as usize),
            // Beyond the edge of the array is the fill value.
            _ => None,
        }
    }

    /// Whether no part of a chunk is beyond the edge of the array.
    fn is_whole(&self, cell: usize) -> bool {
        let lens = self.layout.grid.region(cell).into_iter().map(|range| range.len());
        lens.eq(self.chunk_shape().iter().copied())
    }

    /// Puts the fill value where a chunk extends beyond the array.
    fn pad(&self, cell: usize, bytes: &mut [u8]) {
        let steps = c_steps(self.chunk_shape(), self.item());
        let region = self.layout.grid.region(cell);
        for (axis, range) in region.iter().enumerate() {
            // All blocks of the outer axes; what is beyond the edge of this axis is contiguous.
            let step = steps[axis] as usize;
            for block in bytes.chunks_exact_mut(step * self.chunk_shape()[axis]) {
                fill(&mut block[range.len() * step..], &self.fill);
            }
        }
    }

    pub(super) fn item(&self) -> usize {
        self.fill.len()
    }

    /// Fails unless elements are `T`; returns whether they are in native byte order.
    pub(super) fn expect<T: Element>(&self) -> Result<bool> {
        let kind = match self.dtype.kind() {
            Kind::DateTime | Kind::TimeDelta => Kind::Int,
            kind => kind,
        };
        if kind == T::KIND && self.item() == size_of::<T>() {
            return Ok(self.dtype.is_native());
        }
        let (expected, found) = (T::NAME, &self.dtype);
        Err(invalid(format!("expected an array of {expected}, found one of {found}")))
    }

    fn result_len(&self, shape: &[usize]) -> Result<usize> {
        let len = product(shape)?;
        let bytes = len.checked_mul(self.item()).filter(|&bytes| fits(bytes));
        bytes.map(|_| len).ok_or_else(|| {
            Error::new(
                ErrorKind::Limit,
                format!("a result of shape {shape:?} does not fit in memory"),
            )
        })
    }

    fn read_plan(&self, plan: &GetItemPlan<'_>) -> Result<NdArray<'static>> {
        let mut bytes = zeroed(self.result_len(plan.shape())? * self.item())?;
        self.run_get(plan, &mut bytes)?;
        NdArray::new(self.dtype.clone(), plan.shape(), bytes)
    }

    fn assign(&mut self, selection: &Selection, value: &Operand<'_>) -> Result<()> {
        self.spill()?;
        let plan = SetItemPlan::new(&self.layout, selection)?;
        let value = value.aim(&plan.value, self.item())?;
        let (moves, patch) = (plan.moves, plan.patch);
        self.carry_out(&moves, patch, Some(&value))
    }
}

impl fmt::Debug for StagedArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagedArray")
            .field("shape", &self.shape())
            .field("chunk_shape", &self.chunk_shape())
            .field("dtype", &self.dtype.to_string())
            .field("slabs", &self.slabs.len())
            .finish_non_exhaustive()
    }
}
