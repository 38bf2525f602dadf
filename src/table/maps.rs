//! [`Maps`]: the memory maps of datasets as buffers of Arrow.

use std::sync::{PoisonError, RwLock};

use arrow_buffer::Buffer;
use bytes::Bytes;

use crate::dataset::DatasetReader;

/// The maps that samples come from, by their addresses. A dataset of many files maps each when it is first needed.
pub(super) struct Maps {
    datasets: Vec<DatasetReader>,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    /// Ordered by their addresses.
    buffers: Vec<Buffer>,
    /// How many maps were open when they were last looked for.
    open: usize,
}

/// What a buffer keeps: the dataset, and so the map.
struct Owner {
    dataset: DatasetReader,
    number: usize,
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.dataset.map(self.number).unwrap_or_default()
    }
}

impl Maps {
    pub(super) fn new(datasets: Vec<DatasetReader>) -> Maps {
        Maps { datasets, known: RwLock::default() }
    }

    /// The map that these bytes lie in. Without one they are of a sample that was put together, or was read by calls.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<Buffer> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.holding(bytes);
        if found.is_some() || known.open == self.open().count() {
            return found;
        }
        drop(known);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.open = self.open().count();
        let all = self.open().map(|(dataset, number)| {
            let owner = Owner { dataset: dataset.clone(), number };
            Buffer::from(Bytes::from_owner(owner))
        });
        known.buffers = all.collect();
        known.buffers.sort_unstable_by_key(|buffer| buffer.as_ptr().addr());
        known.holding(bytes)
    }

    fn open(&self) -> impl Iterator<Item = (&DatasetReader, usize)> {
        let numbers = |dataset: &DatasetReader| 0..dataset.maps();
        let all = self.datasets.iter();
        let all = all.flat_map(move |dataset| numbers(dataset).map(move |nth| (dataset, nth)));
        all.filter(|(dataset, number)| dataset.map(*number).is_some())
    }
}

impl Known {
    fn holding(&self, bytes: &[u8]) -> Option<Buffer> {
        let start = bytes.as_ptr().addr();
        let after = self.buffers.partition_point(|buffer| buffer.as_ptr().addr() <= start);
        let buffer = self.buffers.get(after.checked_sub(1)?)?;
        let end = start.checked_add(bytes.len())?;
        (end <= buffer.as_ptr().addr() + buffer.len()).then(|| buffer.clone())
    }
}
