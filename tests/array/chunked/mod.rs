//! Chunked arrays in directories: what is read is what was written, at every version, after every
//! crash, and beside every damage.

mod columns;
mod compact;
mod concurrency;
mod costs;
mod crash;
mod damage;
mod exchange;
mod history;
mod kill;
mod layout;
#[cfg(unix)]
mod links;
mod lost;
mod model;
mod numbers;
mod parts;

use std::path::Path;
use std::sync::Arc;

use kiste::array::{ArrayOptions, ArrayStore, ChunkedArray};
use kiste::storage::MemoryStorage;
use kiste::value::DType;
use ndarray::{ArrayD, Axis, IxDyn, Slice};

/// Where the array of a test is.
pub(crate) fn root() -> &'static Path {
    Path::new("array")
}

/// Options for arrays in memory.
pub(crate) fn options(storage: &MemoryStorage) -> ArrayOptions {
    ArrayOptions::default().storage(Arc::new(storage.clone()))
}

pub(crate) fn open(storage: &MemoryStorage) -> ChunkedArray {
    options(storage).open(root()).unwrap()
}

pub(crate) fn open_store(storage: &MemoryStorage) -> ArrayStore {
    options(storage).open_store(root()).unwrap()
}

/// An array of numbers on small chunks, with some content: versions 1 to 3.
pub(crate) fn sample(storage: &MemoryStorage) -> ArrayStore {
    sample_at(root(), options(storage))
}

/// The same at this place.
pub(crate) fn sample_at(root: &Path, options: ArrayOptions) -> ArrayStore {
    let options = options.chunk_shape([4, 3]).superchunk(2).fill(-1_i32);
    let mut store = options.create(root, DType::of::<i32>(), &[10, 7]).unwrap();
    let mut staged = store.stage().unwrap();
    let numbers = ArrayD::from_shape_fn(IxDyn(&[10, 7]), |at| (at[0] * 10 + at[1]) as i32);
    staged.set(.., &numbers).unwrap();
    staged.attrs_mut().insert("unit".into(), "m".into());
    store.commit(&mut staged, "all of it").unwrap();
    staged.set_scalar((2..9, 2), 1000).unwrap();
    store.commit(&mut staged, "a line").unwrap();
    store
}

/// What NumPy's `resize` of a chunked array would be: the fill value where nothing was.
pub(crate) fn resized<T: Copy>(array: &ArrayD<T>, shape: &[usize], fill: T) -> ArrayD<T> {
    let mut new = ArrayD::from_elem(IxDyn(shape), fill);
    let common: Vec<usize> = shape.iter().zip(array.shape()).map(|(a, b)| *a.min(b)).collect();
    let part = |axis: ndarray::AxisDescription| Slice::from(..common[axis.axis.index()]);
    let old = array.slice_each_axis(part);
    new.slice_each_axis_mut(part).assign(&old);
    new
}

/// Copies a directory.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// Appends to the plain array.
pub(crate) fn appended<T: Copy>(array: &ArrayD<T>, rows: &ArrayD<T>) -> ArrayD<T> {
    ndarray::concatenate(Axis(0), &[array.view(), rows.view()]).unwrap()
}
