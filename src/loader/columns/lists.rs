//! Columns whose samples have any number of rows: back to back, padded or packed.

use std::any::Any;

use super::buffer::Buffer;
use super::packing::{Packed, PackedRows, Pieces};
use super::rows::{MAX_BYTES, Rows, bytes_of};
use super::{Column, Columns, Memory, unfit, without_memory};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::Cursor;
use crate::loader::batch::Record;
use crate::value::Element;

/// Bytes that a sample may always have, however many samples share the limit of a batch.
const LARGE: u64 = 256 << 20;

/// Memory of this many bytes stays with a batch, whether it needs it or not.
const SMALL: usize = 1 << 20;

/// To which length the samples of a batch are padded: see [`Columns::padded`].
#[derive(Debug, Clone)]
#[must_use = "options do nothing until a column is made with them"]
pub struct Padded<T> {
    lengths: Lengths,
    fill: T,
    cuts: bool,
}

#[derive(Debug, Clone)]
enum Lengths {
    /// The longest of the batch, rounded up to a multiple of this.
    Longest(usize),
    /// The first of these that is long enough.
    Buckets(Vec<usize>),
}

impl<T: Element> Padded<T> {
    /// To the longest sample of the batch.
    pub fn longest() -> Padded<T> {
        Padded { lengths: Lengths::Longest(1), fill: T::default(), cuts: false }
    }

    /// To the longest sample of the batch, rounded up to a multiple of this.
    pub fn multiple_of(rows: usize) -> Padded<T> {
        Padded { lengths: Lengths::Longest(rows), ..Padded::longest() }
    }

    /// To the shortest of these lengths that the longest sample of the batch fits into. A sample that fits
    /// into none is an error, unless it is [cut](Self::cut).
    pub fn buckets(lengths: impl IntoIterator<Item = usize>) -> Padded<T> {
        Padded { lengths: Lengths::Buckets(lengths.into_iter().collect()), ..Padded::longest() }
    }

    /// The padding where a sample has no rows. Default: 0.
    pub fn fill(mut self, fill: T) -> Padded<T> {
        self.fill = fill;
        self
    }

    /// Takes the first rows of a sample that is longer than the last bucket.
    pub fn cut(mut self) -> Padded<T> {
        self.cuts = true;
        self
    }

    /// With rows of this many elements.
    pub(super) fn check(&self, width: usize) -> Result<()> {
        match &self.lengths {
            Lengths::Longest(multiple) if bytes_of::<T>(*multiple, width).is_none() => {
                Err(too_large("of padded rows", format!("a multiple of {multiple}")))
            }
            Lengths::Longest(0) => Err(unfit("a multiple of 1 or more", 0)),
            Lengths::Longest(_) if self.cuts => Err(unfit("buckets for samples to be cut", "none")),
            Lengths::Buckets(all) if all.is_empty() || !all.is_sorted_by(|a, b| a < b) => {
                Err(unfit("bucket lengths, the smaller first", format!("{all:?}")))
            }
            _ => Ok(()),
        }
    }

    fn most(&self) -> Limit {
        match &self.lengths {
            Lengths::Longest(_) => Limit::None,
            Lengths::Buckets(all) => Limit::of(all.last().copied(), self.cuts, "rows"),
        }
    }

    fn length(&self, longest: usize) -> Option<usize> {
        match &self.lengths {
            Lengths::Longest(multiple) => longest.checked_next_multiple_of(*multiple),
            Lengths::Buckets(all) => all.iter().copied().find(|length| *length >= longest),
        }
    }
}

/// The most rows of a sample.
#[derive(Debug, Clone, Copy)]
pub(super) enum Limit {
    None,
    /// More of these are an error.
    Refuse(usize, &'static str),
    /// More are left out.
    Cut(usize),
}

impl Limit {
    pub(super) fn of(most: Option<usize>, cuts: bool, what: &'static str) -> Limit {
        match (most, cuts) {
            (None, _) => Limit::None,
            (Some(most), true) => Limit::Cut(most),
            (Some(most), false) => Limit::Refuse(most, what),
        }
    }

    /// How many of these rows a sample gets.
    pub(super) fn apply(self, rows: usize) -> Result<usize> {
        match self {
            Limit::None => Ok(rows),
            Limit::Cut(most) => Ok(rows.min(most)),
            Limit::Refuse(most, what) if rows > most => {
                Err(unfit(format!("up to {most} {what}"), rows))
            }
            Limit::Refuse(..) => Ok(rows),
        }
    }
}

/// The rows of the samples of a batch.
#[derive(Debug, Clone)]
pub(super) enum Form<T> {
    Ragged,
    Padded(Padded<T>),
    Packed(Packed<T>),
}

impl<T: Element> Form<T> {
    fn check(&self, width: usize) -> Result<()> {
        match self {
            Form::Ragged => Ok(()),
            Form::Padded(padded) => padded.check(width),
            Form::Packed(packed) => packed.check(),
        }
    }

    pub(super) fn limit(&self) -> Limit {
        match self {
            Form::Ragged => Limit::None,
            Form::Padded(padded) => padded.most(),
            Form::Packed(packed) => packed.most(),
        }
    }
}

fn too_large(of: &str, found: impl std::fmt::Display) -> Error {
    let message = format!("expected up to {} MiB {of}, found {found}", MAX_BYTES >> 20);
    Error::new(ErrorKind::Limit, message)
}

/// Gives back memory that is far larger than its content: what a hostile or an odd sample left.
pub(super) fn trim<T>(values: &mut Vec<T>) {
    let (len, capacity) = (values.len(), values.capacity());
    if capacity.saturating_mul(size_of::<T>()) > SMALL && capacity / 4 > len {
        values.shrink_to(len);
    }
}

/// The rows of all samples.
pub(super) struct Lists<T> {
    /// The shape of a row.
    row: Vec<usize>,
    width: usize,
    form: Form<T>,
    data: Vec<T>,
    /// In rows, without padding.
    offsets: Vec<u64>,
    /// The length that samples were padded to.
    length: usize,
    pieces: Pieces,
    /// How many samples share the limit of the batch.
    samples: usize,
    /// All samples together have more than the limit, so that none of them is to blame.
    is_over: bool,
}

impl<T: Element> Lists<T> {
    fn empty(row: &[usize], form: &Form<T>) -> Lists<T> {
        Lists {
            row: row.to_vec(),
            width: row.iter().product(),
            form: form.clone(),
            data: Vec::new(),
            offsets: vec![0],
            length: 0,
            pieces: Pieces::default(),
            samples: 1,
            is_over: false,
        }
    }

    /// Adds rows of zeros of a sample at the end, to be overwritten.
    pub(super) fn more(&mut self, rows: usize) -> Result<&mut [T]> {
        let share = MAX_BYTES / self.samples as u64;
        // All samples get the length of the longest, so one that is too long for that is to blame.
        let (length, most) = match &self.form {
            Form::Padded(padded) => (padded.length(rows), share),
            Form::Ragged | Form::Packed(_) => (Some(rows), share.max(LARGE)),
        };
        let bytes = length.and_then(|length| bytes_of::<T>(length, self.width));
        if bytes.is_none_or(|bytes| bytes > most) {
            let message = format!(
                "expected up to {} rows of a sample in a batch of {}, found {rows}",
                most / (self.width * size_of::<T>()).max(1) as u64,
                self.samples
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let start = self.data.len();
        let all = start / self.width.max(1) + rows;
        if bytes_of::<T>(all, self.width).is_none() {
            self.is_over = true;
            return Err(too_large("of rows in a batch", "more"));
        }
        self.data.resize(all * self.width, T::default());
        Ok(&mut self.data[start..])
    }

    pub(super) fn shape(&self, samples: usize) -> Vec<usize> {
        let rows = self.data.len() / self.width.max(1);
        let outer = match &self.form {
            Form::Ragged => vec![rows],
            Form::Padded(_) => vec![samples, self.length],
            Form::Packed(packed) => vec![rows / packed.length().max(1), packed.length()],
        };
        [&outer[..], &self.row].concat()
    }

    pub(super) fn values(&self) -> &[T] {
        &self.data
    }

    pub(super) fn values_mut(&mut self) -> &mut [T] {
        &mut self.data
    }

    pub(super) fn packed(&self) -> Option<PackedRows<'_, T>> {
        match &self.form {
            Form::Packed(packed) => Some(self.pieces.rows(packed.length(), &self.data)),
            _ => None,
        }
    }

    /// Moves rows apart, the last first, so that each sample has this length.
    fn pad(&mut self, samples: usize, fill: T) -> Result<()> {
        let (length, width) = (self.length, self.width);
        let rows = length.checked_mul(samples).filter(|all| bytes_of::<T>(*all, width).is_some());
        let Some(rows) = rows else {
            let found = format!("{samples} samples of {length}: buckets set a longest length");
            return Err(too_large("of padded rows", found));
        };
        self.data.resize(rows * width, fill);
        for sample in (0..samples).rev() {
            let (start, end) = (self.offsets[sample] as usize, self.offsets[sample + 1] as usize);
            let to = sample * length;
            self.data.copy_within(start * width..end * width, to * width);
            self.data[(to + end - start) * width..(to + length) * width].fill(fill);
        }
        Ok(())
    }
}

impl<T: Element> Buffer for Lists<T> {
    fn reserve(&mut self, rows: usize, _: usize) {
        self.offsets.reserve(rows);
        self.samples = rows.max(1);
        self.is_over = false;
    }

    fn set_rows(&mut self, rows: usize) {
        let end = (self.data.len() / self.width.max(1)) as u64;
        self.offsets.resize(rows + 1, end);
        self.data.truncate(self.offsets[rows] as usize * self.width);
    }

    fn finish(&mut self, rows: usize, planned: &[u32]) -> Result<()> {
        if self.is_over {
            return Err(too_large("of rows in a batch", "more"));
        }
        match self.form.clone() {
            Form::Ragged => {}
            Form::Padded(padded) => {
                let lengths = self.offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize);
                let longest = lengths.max().unwrap_or_default();
                let length = padded.length(longest);
                self.length = length.ok_or_else(|| unfit("shorter samples", longest))?;
                self.pad(rows, padded.fill)?;
            }
            Form::Packed(packed) => {
                let Lists { data, offsets, pieces, .. } = self;
                pieces.pack(&packed, offsets, planned, data)?;
            }
        }
        trim(&mut self.data);
        self.pieces.trim();
        Ok(())
    }

    fn offsets(&self) -> Option<&[u64]> {
        Some(&self.offsets)
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.data[..]) + self.offsets.len() * 8 + self.pieces.bytes()
    }

    fn holds(&self) -> String {
        let form = match self.form {
            Form::Ragged => "ragged rows",
            Form::Padded(_) => "padded rows",
            Form::Packed(_) => "packed rows",
        };
        format!("{form} of type {}", T::NAME)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

type FillRows<T> = Box<dyn Fn(&Record<'_>, &mut Lists<T>, Limit) -> Result<()> + Send + Sync>;

/// A column of such rows.
pub(super) struct ListsColumn<T> {
    pub(super) row: Vec<usize>,
    pub(super) form: Form<T>,
    /// A closure that adds the rows of a sample; none for the field of the column's name.
    pub(super) fill: Option<FillRows<T>>,
    /// The boxes that other columns can follow.
    #[cfg(feature = "images")]
    pub(super) boxes: Option<std::sync::Arc<super::boxes::Moved>>,
}

impl<T: Element> ListsColumn<T> {
    pub(super) fn of_field(row: &[usize], form: Form<T>) -> ListsColumn<T> {
        ListsColumn {
            row: row.to_vec(),
            form,
            fill: None,
            #[cfg(feature = "images")]
            boxes: None,
        }
    }

    /// Adds one sample.
    fn add(
        &self,
        buffer: &mut dyn Buffer,
        row: usize,
        add: impl FnOnce(&mut Lists<T>, Limit) -> Result<()>,
    ) -> Result<()> {
        let Some(lists) = buffer.as_any_mut().downcast_mut::<Lists<T>>() else { return Ok(()) };
        lists.set_rows(row);
        match add(lists, self.form.limit()) {
            // The error concerns the batch, and no sample is skipped for it.
            Err(_) if lists.is_over => {}
            added => added?,
        }
        lists.offsets.push((lists.data.len() / lists.width.max(1)) as u64);
        Ok(())
    }
}

/// Adds the rows of a field.
fn add_rows<T: Element>(lists: &mut Lists<T>, limit: Limit, field: &mut Cursor<'_>) -> Result<()> {
    // Taken while the list grows, as the rows refer to it.
    let row = std::mem::take(&mut lists.row);
    let mut read = || -> Result<()> {
        let mut rows = Rows::<T>::find(&mut field.clone(), &row)?;
        let wanted = limit.apply(rows.len())?;
        rows.check(wanted)?;
        rows.read(0, wanted, lists.more(wanted)?)?;
        Ok(field.skip()?)
    };
    let read = read();
    lists.row = row;
    read
}

impl<T: Element> Column for ListsColumn<T> {
    fn check(&self) -> Result<()> {
        if self.row.contains(&0) {
            return Err(unfit("rows with elements", format!("rows of shape {:?}", self.row)));
        }
        self.form.check(self.row.iter().fold(1, |all: usize, size| all.saturating_mul(*size)))
    }

    fn empty(&self) -> Box<dyn Buffer> {
        Box::new(Lists::empty(&self.row, &self.form))
    }

    fn buffer_in(
        &self,
        _: usize,
        memory: Option<Box<dyn Memory>>,
    ) -> Result<Box<dyn Buffer>, String> {
        without_memory(self.empty(), memory, "a column of any number of rows")
    }

    fn shape(&self) -> &[usize] {
        &self.row
    }

    fn is_field(&self) -> bool {
        self.fill.is_none()
    }

    #[cfg(feature = "images")]
    fn boxes(&self) -> Option<&std::sync::Arc<super::boxes::Moved>> {
        self.boxes.as_ref()
    }

    fn read(&self, buffer: &mut dyn Buffer, row: usize, field: &mut Cursor<'_>) -> Result<()> {
        self.add(buffer, row, |lists, limit| add_rows(lists, limit, field))
    }

    fn fill(&self, buffer: &mut dyn Buffer, row: usize, record: &Record<'_>) -> Result<()> {
        let Some(fill) = &self.fill else { return Ok(()) };
        self.add(buffer, row, |lists, limit| fill(record, lists, limit))
    }
}

impl Columns {
    /// A field that is an array with any number of rows, each of this shape: the rows of all samples back to
    /// back, `[total, …]` in the batch, and the [offsets](super::ColumnBatch::offsets) between the
    /// samples. The field has the same forms as for [`array`](Self::array), and an empty array of
    /// one axis has no rows of any shape.
    ///
    /// # Errors
    ///
    /// A sample is a [`Limit`](ErrorKind::Limit) error if its rows take more than its share of 4 GiB for a batch,
    /// and more than 256 MiB. So is a batch whose samples together take more than 4 GiB.
    pub fn ragged<T: Element>(self, field: &str, row: &[usize]) -> Columns {
        self.with(field, ListsColumn::<T>::of_field(row, Form::Ragged))
    }

    /// The same, padded: `[samples, length, …]` in the batch, where the length is the same for all samples of
    /// the batch. [`ColumnBatch::lengths`](super::ColumnBatch::lengths) says how many rows are not padding.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use kiste::loader::{Columns, Loader, Padded};
    /// use kiste::reader::ListReader;
    /// use kiste::sampler::Sequential;
    ///
    /// #[derive(serde::Serialize)]
    /// struct Text {
    ///     key: &'static str,
    ///     tokens: Vec<u32>,
    /// }
    ///
    /// let rows = [("a", 5), ("b", 2)].map(|(key, n)| Text { key, tokens: (0..n).collect() });
    /// let reader = Arc::new(ListReader::pack(rows)?);
    /// let padded = Padded::buckets([4, 8, 16]).fill(-1);
    /// let columns = Columns::new().padded::<i32>("tokens", &[], padded);
    /// let mut batches = Loader::options(reader, Sequential::new(2)).columns(columns)?;
    /// let batch = batches.next().unwrap()?.data;
    /// assert_eq!(batch.array::<i32>("tokens")?.shape(), [2, 8]);
    /// assert_eq!(batch.lengths("tokens")?, [5, 2]);
    /// assert_eq!(batch.values::<i32>("tokens")?[8..], [0, 1, -1, -1, -1, -1, -1, -1]);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A sample that would make a batch larger than 4 GiB, as all others are padded to its length, is a
    /// [`Limit`](ErrorKind::Limit) error.
    pub fn padded<T: Element>(self, field: &str, row: &[usize], padded: Padded<T>) -> Columns {
        self.with(field, ListsColumn::of_field(row, Form::Padded(padded)))
    }

    /// A field of tokens, packed: the samples of a batch one after another in rows of one length.
    /// [`ColumnBatch::packed`](super::ColumnBatch::packed) has the rows and says what is where.
    ///
    /// A batch is packed by itself, and [`batch_size`](crate::loader::LoaderOptions::batch_size) counts
    /// samples as ever: positions, ranks, [`Tail`](crate::sampler::Tail) and a resume at the exact sample mean
    /// the same as without packing. How many rows a batch has depends on its samples, unless
    /// [`Packed::rows`] sets it.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use kiste::loader::{Columns, Loader, Packed};
    /// use kiste::reader::ListReader;
    /// use kiste::sampler::Sequential;
    ///
    /// #[derive(serde::Serialize)]
    /// struct Text {
    ///     key: &'static str,
    ///     tokens: Vec<u32>,
    /// }
    ///
    /// let text = |key, tokens| Text { key, tokens };
    /// let rows = [text("a", vec![1, 2, 3]), text("b", vec![4, 5]), text("c", vec![6])];
    /// let reader = Arc::new(ListReader::pack(rows)?);
    /// let columns = Columns::new().packed("tokens", Packed::<i32>::whole(4));
    /// let mut batches = Loader::options(reader, Sequential::new(3)).columns(columns)?;
    /// let batch = batches.next().unwrap()?.data;
    /// let packed = batch.packed::<i32>("tokens")?;
    /// assert_eq!(packed.tokens, [1, 2, 3, 0, 4, 5, 6, 0]); // 2 rows of 4
    /// assert_eq!(packed.documents, [0, 0, 0, -1, 1, 1, 2, -1]);
    /// assert_eq!(packed.positions, [0, 1, 2, 0, 0, 1, 0, 0]);
    /// assert_eq!(packed.cu_seqlens, [0, 3, 4, 6, 7, 8]);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn packed<T: Element>(self, field: &str, packed: Packed<T>) -> Columns {
        self.with(field, ListsColumn::of_field(&[], Form::Packed(packed)))
    }
}
