//! Random operations beside a plain array: staging, commits, reopening and time travel mixed.

use std::ops::Range;

use kiste::array::{At, ChunkedArray, Keep, Selection, StagedVersion};
use kiste::format::blosc::{Codec, Shuffle};
use kiste::storage::MemoryStorage;
use kiste::value::{DType, Element};
use ndarray::{ArrayD, IxDyn, Slice};

use super::{appended, open, open_store, options, resized, root};
use crate::support::Random;

struct Run<T> {
    random: Random,
    storage: MemoryStorage,
    number: fn(u64) -> T,
    fill: T,
    versioned: bool,
    /// The array as each version has it.
    history: Vec<(u64, ArrayD<T>)>,
}

impl<T: Element> Run<T> {
    fn start(seed: u64, axes: usize, number: fn(u64) -> T) -> Run<T> {
        let mut random = Random(seed);
        let storage = MemoryStorage::new();
        let versioned = random.below(3) > 0;
        let chunk: Vec<usize> = (0..axes).map(|_| 1 + random.below(4)).collect();
        let shape: Vec<usize> = (0..axes).map(|_| random.below(9)).collect();
        let fill = number(random.next() % 2 * 7);
        let mut options = options(&storage)
            .chunk_shape(chunk)
            .fill(fill)
            .versioned(versioned)
            .superchunk(1 + random.below(5) as u32)
            .codec([Codec::Lz4, Codec::Zlib][random.below(2)])
            .level(random.below(3) as u8 * 4)
            .shuffle([Shuffle::None, Shuffle::Byte, Shuffle::Bit][random.below(3)]);
        if !versioned && random.below(2) == 0 {
            options = options.room(random.below(100) as u32);
        }
        options.create(root(), DType::of::<T>(), &shape).unwrap();
        let first = ArrayD::from_elem(IxDyn(&shape), fill);
        Run { random, storage, number, fill, versioned, history: vec![(1, first)] }
    }

    fn region(&mut self, shape: &[usize]) -> Vec<Range<usize>> {
        let mut range = |len: usize| {
            let start = self.random.below(len + 1);
            start..start + self.random.below(len - start + 1)
        };
        shape.iter().map(|len| range(*len)).collect()
    }

    fn numbers(&mut self, shape: &[usize]) -> ArrayD<T> {
        // Few different ones, so that chunks are equal and full of the fill value now and then.
        let kinds = [1, 2, 1000][self.random.below(3)];
        let (number, random) = (self.number, &mut self.random);
        ArrayD::from_shape_fn(IxDyn(shape), |_| number(random.next() % kinds * 7))
    }

    fn shape(&mut self, shape: &[usize]) -> Vec<usize> {
        let mut shape = shape.to_vec();
        let axis = self.random.below(shape.len());
        shape[axis] = self.random.below(12);
        shape
    }

    /// Some changes to what is staged, and to the plain array.
    fn change(&mut self, staged: &mut StagedVersion, plain: &mut ArrayD<T>) {
        for _ in 0..self.random.below(4) {
            if self.random.below(4) == 0 {
                let shape = self.shape(plain.shape());
                staged.resize(&shape).unwrap();
                *plain = resized(plain, &shape, self.fill);
                continue;
            }
            let region = self.region(plain.shape());
            let lens: Vec<usize> = region.iter().map(|range| range.len()).collect();
            let value = match self.random.below(4) {
                0 => ArrayD::from_elem(IxDyn(&lens), self.fill),
                _ => self.numbers(&lens),
            };
            staged.set(Selection::from(&region[..]), &value).unwrap();
            let part = |axis: ndarray::AxisDescription| {
                let Range { start, end } = region[axis.axis.index()].clone();
                Slice::from(start..end)
            };
            plain.slice_each_axis_mut(part).assign(&value);
        }
    }

    fn step(&mut self) {
        let mut store = open_store(&self.storage);
        let (newest, mut plain) = self.history.last().cloned().unwrap();
        assert_eq!(store.array().version(), newest);
        let info = match self.random.below(6) {
            0 => {
                let mut shape = plain.shape().to_vec();
                shape[0] = self.random.below(7);
                let rows = self.numbers(&shape);
                plain = appended(&plain, &rows);
                store.append(&(&rows).into(), "append").unwrap()
            }
            1 => {
                let shape = self.shape(plain.shape());
                plain = resized(&plain, &shape, self.fill);
                store.resize(&shape, "resize").unwrap()
            }
            2 if self.versioned => {
                // From an old version, whose changes come back.
                let at = self.random.below(self.history.len());
                let (number, old) = self.history[at].clone();
                let mut staged = store.stage_at(At::Version(number)).unwrap();
                plain = old;
                self.change(&mut staged, &mut plain);
                let info = store.commit(&mut staged, "checkout").unwrap();
                assert_eq!(info.parent, number);
                info
            }
            _ => {
                let mut staged = store.stage().unwrap();
                self.change(&mut staged, &mut plain);
                store.commit(&mut staged, "change").unwrap();
                self.history.push((newest + 1, plain.clone()));
                // What is staged goes on from the new version.
                self.change(&mut staged, &mut plain);
                store.commit(&mut staged, "again").unwrap()
            }
        };
        self.history.push((info.number, plain));
        if self.random.below(8) == 0 {
            let keep = 1 + self.random.below(4);
            store.gc(&Keep::Newest(keep)).unwrap();
            let first = self.history.len().saturating_sub(keep);
            self.history.drain(..first);
        }
        if !self.versioned {
            self.history.drain(..self.history.len() - 1);
        }
    }

    fn check(&mut self) {
        let newest = open(&self.storage);
        let numbers: Vec<u64> = newest.versions().unwrap().iter().map(|v| v.number).collect();
        let expected: Vec<u64> = self.history.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, expected);
        for (number, plain) in self.history.clone() {
            let array = options(&self.storage).open_at(root(), At::Version(number)).unwrap();
            assert_eq!(array.shape(), plain.shape());
            assert_eq!(array.get::<T>(..).unwrap(), plain, "version {number}");
            self.check_parts(&array, &plain);
        }
        let report = newest.verify().unwrap();
        assert_eq!(report.problems, []);
        assert_eq!(report.unused, [] as [std::path::PathBuf; 0]);
    }

    fn check_parts(&mut self, array: &ChunkedArray, plain: &ArrayD<T>) {
        let region = self.region(plain.shape());
        let part = plain.slice_each_axis(|axis| {
            let Range { start, end } = region[axis.axis.index()].clone();
            Slice::from(start..end)
        });
        assert_eq!(array.get::<T>(Selection::from(&region[..])).unwrap(), part);
        if plain.shape()[0] > 0 {
            let points: Vec<usize> = (0..5).map(|_| self.random.below(plain.shape()[0])).collect();
            let expected = plain.select(ndarray::Axis(0), &points);
            assert_eq!(array.get::<T>(points).unwrap(), expected);
        }
        let mut covered = 0;
        for chunk in array.chunks() {
            let (region, chunk) = chunk.unwrap();
            covered += chunk.len();
            let part = plain.slice_each_axis(|axis| {
                let Range { start, end } = region[axis.axis.index()].clone();
                Slice::from(start..end)
            });
            assert_eq!(chunk.to_ndarray::<T>().unwrap(), part);
        }
        assert_eq!(covered, plain.len());
    }
}

fn run<T: Element>(seeds: Range<u64>, number: fn(u64) -> T) {
    for seed in seeds {
        let axes = 1 + (seed % 4) as usize;
        let mut run = Run::start(seed, axes, number);
        for _ in 0..6 {
            run.step();
        }
        run.check();
    }
}

#[test]
fn random_operations_on_integers() {
    run(0..60, |n| n as i32);
    run(100..120, |n| n as u8);
}

#[test]
fn random_operations_on_floats() {
    run(200..230, |n| n as f64 / 3.0);
    run(300..310, |n| num_complex::Complex::new(n as f32, -1.0));
}

#[test]
fn random_operations_on_truth_values() {
    run(400..412, |n| n % 2 == 1);
}

#[test]
fn a_fill_value_that_is_not_a_number_is_compared_by_its_bits() {
    let storage = MemoryStorage::new();
    let options = options(&storage).chunk_shape([3]).fill(f64::NAN);
    let mut store = options.create(root(), DType::of::<f64>(), &[7]).unwrap();
    let mut staged = store.stage().unwrap();
    staged.set_scalar(.., f64::NAN).unwrap();
    store.commit(&mut staged, "as before").unwrap();
    assert_eq!(store.array().info().cbytes, 0);
    staged.set_scalar(.., -f64::NAN).unwrap();
    store.commit(&mut staged, "another one").unwrap();
    assert!(store.array().info().cbytes > 0);
    let numbers = open(&storage).get::<f64>(..).unwrap();
    assert!(numbers.iter().all(|n| n.to_bits() == (-f64::NAN).to_bits()));
}

#[test]
fn arrays_without_axes_or_elements() {
    let storage = MemoryStorage::new();
    let mut store = options(&storage).create(root(), DType::of::<i64>(), &[]).unwrap();
    let mut staged = store.stage().unwrap();
    staged.set_scalar((), 42_i64).unwrap();
    store.commit(&mut staged, "the one").unwrap();
    assert_eq!(open(&storage).get::<i64>(()).unwrap().into_iter().collect::<Vec<_>>(), [42]);
    assert!(store.append(&kiste::value::NdArray::scalar(1_i64), "no rows").is_err());

    let storage = MemoryStorage::new();
    let mut store = options(&storage).create(root(), DType::of::<i64>(), &[3, 0]).unwrap();
    assert_eq!(store.array().get::<i64>(..).unwrap().shape(), [3, 0]);
    store.resize(&[3, 2], "wider").unwrap();
    assert_eq!(open(&storage).get::<i64>(..).unwrap(), ArrayD::<i64>::zeros(IxDyn(&[3, 2])));
}
