//! Random operations beside a plain array: staging, commits, resizes of several axes, removed versions,
//! compaction, renaming, reopening and time travel mixed.

use std::ops::Range;
use std::path::PathBuf;

use kiste::ErrorKind;
use kiste::array::{ArrayOptions, ArrayStore, At, ChunkedArray, Keep, Selection, StagedVersion};
use kiste::format::blosc::{Codec, Shuffle};
use kiste::storage::MemoryStorage;
use kiste::value::{DType, Element};
use ndarray::{ArrayD, IxDyn, Slice};

use super::{appended, open, options, resized, root};
use crate::support::Random;

/// The most elements of an array.
const MOST: usize = 1500;

/// Where the array is: in memory, or on a disk, where its directory is renamed now and then.
enum Home {
    Memory(MemoryStorage),
    Disk { dir: tempfile::TempDir, name: u32 },
}

impl Home {
    fn options(&self) -> ArrayOptions {
        match self {
            Home::Memory(storage) => options(storage),
            Home::Disk { .. } => ArrayOptions::default().durable(false),
        }
    }

    fn path(&self) -> PathBuf {
        match self {
            Home::Memory(_) => root().to_path_buf(),
            Home::Disk { dir, name } => dir.path().join(format!("array-{name}")),
        }
    }

    /// Gives the directory another name, where it has one.
    fn rename(&mut self) {
        let old = self.path();
        if let Home::Disk { name, .. } = self {
            *name += 1;
            std::fs::rename(old, self.path()).unwrap();
        }
    }
}

struct Run<T> {
    random: Random,
    home: Home,
    number: fn(u64) -> T,
    fill: T,
    versioned: bool,
    /// The array as each version has it.
    history: Vec<(u64, ArrayD<T>)>,
    /// The writer, from one step to the next.
    store: Option<ArrayStore>,
    /// Changes that were staged and not committed, and when: too late once there is a newer version.
    stale: Option<(u64, StagedVersion)>,
    /// What happened, so that the test can tell that it tests something.
    seen: Seen,
}

#[derive(Debug, Default)]
struct Seen {
    /// Commits that lost chunks along one axis, and outgrew the numbers of chunks along another.
    renumbered: usize,
    refused: usize,
    removed: usize,
    moved: u64,
}

impl<T: Element> Run<T> {
    fn start(seed: u64, axes: usize, number: fn(u64) -> T) -> Run<T> {
        let mut random = Random(seed);
        let home = match random.below(12) {
            0 => Home::Disk { dir: tempfile::tempdir().unwrap(), name: 0 },
            _ => Home::Memory(MemoryStorage::new()),
        };
        let versioned = random.below(3) > 0;
        let chunk: Vec<usize> = (0..axes).map(|_| 1 + random.below(4)).collect();
        let shape: Vec<usize> = (0..axes).map(|_| random.below(9)).collect();
        let fill = number(random.next() % 2 * 7);
        let mut options = home
            .options()
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
        let store = Some(options.create(home.path(), DType::of::<T>(), &shape).unwrap());
        let history = vec![(1, ArrayD::from_elem(IxDyn(&shape), fill))];
        let (stale, seen) = (None, Seen::default());
        Run { random, home, number, fill, versioned, history, store, stale, seen }
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

    /// Another shape: one axis changes, or any number of them.
    fn shape(&mut self, shape: &[usize]) -> Vec<usize> {
        let mut shape = shape.to_vec();
        let axes = shape.len();
        let one = self.random.below(axes * 2);
        for (axis, len) in shape.iter_mut().enumerate() {
            if one == axis || one >= axes && self.random.below(3) > 0 {
                *len = self.random.below(14);
            }
        }
        while shape.iter().product::<usize>() > MOST {
            let largest = (0..shape.len()).max_by_key(|&axis| shape[axis]).unwrap();
            shape[largest] /= 2;
        }
        shape
    }

    /// Some changes to what is staged, and to the plain array.
    fn change(&mut self, staged: &mut StagedVersion, plain: &mut ArrayD<T>) {
        for _ in 0..self.random.below(5) {
            match self.random.below(5) {
                0 | 1 => {
                    let shape = self.shape(plain.shape());
                    staged.resize(&shape).unwrap();
                    *plain = resized(plain, &shape, self.fill);
                }
                2 if plain.len() < MOST => {
                    let rows = self.rows(plain.shape());
                    staged.append(&rows).unwrap();
                    *plain = appended(plain, &rows);
                }
                _ => {
                    let (region, value) = self.assignment(plain.shape());
                    staged.set(Selection::from(&region[..]), &value).unwrap();
                    assign(plain, &region, &value);
                }
            }
        }
    }

    fn rows(&mut self, shape: &[usize]) -> ArrayD<T> {
        let mut shape = shape.to_vec();
        shape[0] = self.random.below(7);
        self.numbers(&shape)
    }

    fn assignment(&mut self, shape: &[usize]) -> (Vec<Range<usize>>, ArrayD<T>) {
        let region = match self.random.below(3) {
            0 => shape.iter().map(|len| 0..*len).collect(),
            _ => self.region(shape),
        };
        let lens: Vec<usize> = region.iter().map(|range| range.len()).collect();
        let value = match self.random.below(4) {
            0 => ArrayD::from_elem(IxDyn(&lens), self.fill),
            _ => self.numbers(&lens),
        };
        (region, value)
    }

    fn step(&mut self) {
        self.reopen();
        let mut store = self.store.take().unwrap();
        let (newest, mut plain) = self.history.last().cloned().unwrap();
        assert_eq!(store.array().version(), newest);
        let before = store.array().grid().counts().to_vec();
        let number = match self.random.below(8) {
            0 => {
                let rows = self.rows(plain.shape());
                plain = appended(&plain, &rows);
                match self.random.below(2) {
                    0 => store.append(&(&rows).into(), "append").unwrap().number,
                    _ => {
                        store
                            .append_rows(&kiste::value::NdArray::from(&rows), "rows")
                            .unwrap()
                            .number
                    }
                }
            }
            1 => {
                let shape = self.shape(plain.shape());
                plain = resized(&plain, &shape, self.fill);
                store.resize(&shape, "resize").unwrap().number
            }
            2 => {
                let (region, value) = self.assignment(plain.shape());
                assign(&mut plain, &region, &value);
                store.put(Selection::from(&region[..]), &(&value).into(), "put").unwrap().number
            }
            3 if self.versioned => {
                // From an old version, whose changes come back.
                let at = self.random.below(self.history.len());
                let (number, old) = self.history[at].clone();
                let mut staged = store.stage_at(At::Version(number)).unwrap();
                plain = old;
                self.change(&mut staged, &mut plain);
                let info = store.commit(&mut staged, "checkout").unwrap();
                assert_eq!(info.parent, number);
                info.number
            }
            _ => self.stage(&mut store, &mut plain),
        };
        self.history.push((number, plain));
        self.note_renumbered(&before, store.array());
        if !self.versioned {
            self.history.drain(..self.history.len() - 1);
        }
        self.refuse_stale(&mut store);
        if self.random.below(6) == 0 {
            self.remove(&mut store);
        }
        self.store = Some(store);
    }

    /// One or two commits of staged changes.
    fn stage(&mut self, store: &mut ArrayStore, plain: &mut ArrayD<T>) -> u64 {
        let mut staged = store.stage().unwrap();
        self.change(&mut staged, plain);
        if self.random.below(4) == 0 {
            staged.load().unwrap();
        }
        let number = store.commit(&mut staged, "change").unwrap().number;
        if self.random.below(2) == 0 {
            return number;
        }
        self.history.push((number, plain.clone()));
        // What is staged continues from the new version.
        self.change(&mut staged, plain);
        store.commit(&mut staged, "again").unwrap().number
    }

    /// The writer ends, another one begins, perhaps under another name.
    fn reopen(&mut self) {
        if self.store.is_some() && self.random.below(2) == 0 {
            return;
        }
        self.store = None;
        // Staged changes are of a directory by its name.
        self.stale = None;
        self.home.rename();
        let options = self.home.options().compact(self.random.below(4) > 0);
        self.store = Some(options.open_store(self.home.path()).unwrap());
    }

    /// Changes that are based on another version than the newest are refused, and change nothing.
    fn refuse_stale(&mut self, store: &mut ArrayStore) {
        let newest = store.array().version();
        if let Some((base, mut staged)) = self.stale.take() {
            assert!(base < newest);
            let error = store.commit(&mut staged, "too late").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Replaced, "{error}");
            self.seen.refused += 1;
        }
        if self.random.below(4) == 0 {
            let mut staged = store.stage().unwrap();
            let mut plain = self.history.last().unwrap().1.clone();
            self.change(&mut staged, &mut plain);
            self.stale = Some((newest, staged));
        }
    }

    /// Removes some versions, and compacts.
    fn remove(&mut self, store: &mut ArrayStore) {
        let numbers: Vec<u64> = self.history.iter().map(|(number, _)| *number).collect();
        let some: Vec<u64> =
            numbers.iter().copied().filter(|_| self.random.below(2) == 0).collect();
        let keep = match self.random.below(4) {
            0 => Keep::All,
            1 => Keep::Newest(1 + self.random.below(4)),
            2 => Keep::Versions(some),
            _ => Keep::Except(some),
        };
        let gone = keep.removes(&store.versions().unwrap());
        let removed = store.gc(&keep).unwrap();
        assert_eq!(removed.versions, gone);
        self.history.retain(|(number, _)| !gone.contains(number));
        self.seen.removed += gone.len();
        self.seen.moved += removed.moved;
    }

    fn note_renumbered(&mut self, before: &[usize], array: &ChunkedArray) {
        let pairs = || before.iter().zip(array.grid().counts());
        let shrinks = pairs().any(|(old, new)| new < old);
        let outgrows =
            pairs().skip(1).any(|(old, new)| old.next_power_of_two() < new.next_power_of_two());
        self.seen.renumbered += usize::from(shrinks && outgrows);
    }

    fn check(&mut self) {
        let newest = self.home.options().open(self.home.path()).unwrap();
        let numbers: Vec<u64> = newest.versions().unwrap().iter().map(|v| v.number).collect();
        let expected: Vec<u64> = self.history.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, expected);
        for (number, plain) in self.history.clone() {
            let array = newest.at(At::Version(number)).unwrap();
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

fn assign<T: Element>(plain: &mut ArrayD<T>, region: &[Range<usize>], value: &ArrayD<T>) {
    let part = |axis: ndarray::AxisDescription| {
        let Range { start, end } = region[axis.axis.index()].clone();
        Slice::from(start..end)
    };
    plain.slice_each_axis_mut(part).assign(value);
}

/// Rounds of random operations; returns what happened in all of them.
fn run<T: Element>(seeds: Range<u64>, number: fn(u64) -> T) -> Seen {
    let mut all = Seen::default();
    for seed in seeds {
        let axes = 1 + (seed % 4) as usize;
        let mut run = Run::start(seed, axes, number);
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..6 {
                run.step();
                if run.random.below(3) == 0 {
                    run.check();
                }
            }
            run.store = None;
            run.check();
        }));
        assert!(done.is_ok(), "seed {seed} of {} failed", DType::of::<T>());
        all.renumbered += run.seen.renumbered;
        all.refused += run.seen.refused;
        all.removed += run.seen.removed;
        all.moved += run.seen.moved;
    }
    all
}

#[test]
fn random_operations_on_integers() {
    let seen = run(0..120, |n| n as i32);
    assert!(
        seen.renumbered > 5 && seen.refused > 5 && seen.removed > 5 && seen.moved > 0,
        "{seen:?}"
    );
    run(1000..1020, |n| n as u8);
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

/// `KISTE_SEEDS=0..20000 cargo test --features full --test main -- --ignored thousands --nocapture`
#[test]
#[ignore = "takes minutes"]
#[expect(clippy::print_stdout, reason = "the figures")]
fn thousands_of_random_operations() {
    let seeds = std::env::var("KISTE_SEEDS").unwrap_or_else(|_| "0..20000".to_owned());
    let (first, end) = seeds.split_once("..").unwrap();
    let seeds = 1_000_000 + first.parse::<u64>().unwrap()..1_000_000 + end.parse::<u64>().unwrap();
    println!("{:?}", run(seeds, |n| n as i32));
}

/// One commit loses chunks along an axis and outgrows the numbers along another.
#[test]
fn a_commit_that_renumbers_chunks_and_loses_others_keeps_the_rest() {
    let storage = MemoryStorage::new();
    let options = options(&storage).chunk_shape([1, 5]);
    let mut store = options.create(root(), DType::of::<i32>(), &[5, 4]).unwrap();
    let mut staged = store.stage().unwrap();
    staged.set_scalar(.., 93).unwrap();
    store.commit(&mut staged, "one").unwrap();
    staged.resize(&[2, 11]).unwrap();
    staged.set_scalar(.., 69).unwrap();
    store.commit(&mut staged, "two").unwrap();
    assert_eq!(store.array().get::<i32>(..).unwrap(), ArrayD::from_elem(IxDyn(&[2, 11]), 69));
    assert_eq!(store.array().version_info().chunks, 6);

    // What is cut off does not come back, in two steps as in one.
    let storage = MemoryStorage::new();
    let options = super::options(&storage).chunk_shape([2, 4]).fill(0_i32);
    let mut store = options.create(root(), DType::of::<i32>(), &[10, 4]).unwrap();
    let mut staged = store.stage().unwrap();
    staged.set_scalar(.., 7).unwrap();
    store.commit(&mut staged, "sevens").unwrap();
    store.resize(&[3, 9], "wider").unwrap();
    store.resize(&[4, 9], "longer").unwrap();
    let mut expected = ArrayD::zeros(IxDyn(&[4, 9]));
    expected.slice_mut(ndarray::s![..3, ..4]).fill(7);
    assert_eq!(store.array().get::<i32>(..).unwrap(), expected);
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
