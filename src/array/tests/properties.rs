//! Random operations against a plain `ndarray`, and selections against a naive model of NumPy's.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ndarray::{ArrayD, IxDyn};
use num_complex::Complex;

use crate::array::plan::SlabKind;
use crate::array::*;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{MemoryStorage, Storage};
use crate::value::{DType, Element, NdArray};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// NumPy's selection: the shape of the result, and for each of its elements the element of the
/// array. Written from NumPy's documentation of indexing, element by element.
fn select(parts: &[Index], shape: &[usize]) -> Option<(Vec<usize>, Vec<Vec<usize>>)> {
    let taken: usize = parts
        .iter()
        .map(|part| match part {
            Index::Ellipsis | Index::NewAxis => 0,
            Index::Mask { shape, .. } => shape.len(),
            _ => 1,
        })
        .sum();
    let mut parts = parts.to_vec();
    if !parts.contains(&Index::Ellipsis) {
        parts.push(Index::Ellipsis);
    }
    // Masks become their coordinates, the ellipsis whole axes; a mark stays where it was, since it
    // parts arrays even if it stands for nothing.
    let mut flat = Vec::new();
    for part in parts {
        match part {
            Index::Mask { shape: of, mask } => {
                let axis: usize =
                    flat.iter().filter(|p| !matches!(p, Index::NewAxis | Index::Ellipsis)).count();
                if shape[axis..axis + of.len()] != of[..] {
                    return None;
                }
                let trues: Vec<IxDyn> = ndarray::indices(&of[..])
                    .into_iter()
                    .zip(&mask)
                    .filter(|(_, on)| **on)
                    .map(|(at, _)| at)
                    .collect();
                for k in 0..of.len() {
                    let points = trues.iter().map(|at| at[k] as isize).collect();
                    flat.push(Index::Points { shape: vec![trues.len()], points });
                }
            }
            Index::Ellipsis => {
                flat.push(Index::Ellipsis);
                let missing = shape.len() - taken;
                flat.extend((0..missing).map(|_| Index::range(None, None, 1)));
            }
            other => flat.push(other),
        }
    }
    let any_array = flat.iter().any(|p| matches!(p, Index::Points { .. }));
    let is_advanced = |p: &Index| any_array && matches!(p, Index::Points { .. } | Index::At(_));

    // The common shape of all arrays.
    let mut common: Vec<usize> = Vec::new();
    for part in &flat {
        if let Index::Points { shape, .. } = part {
            let n = common.len().max(shape.len());
            let padded = |s: &[usize]| [vec![1; n - s.len()], s.to_vec()].concat();
            let (a, b) = (padded(&common), padded(shape));
            common = a.iter().zip(&b).map(|(&a, &b)| if a == 1 { b } else { a }).collect();
            if a.iter().zip(&b).any(|(&a, &b)| a != b && a != 1 && b != 1) {
                return None;
            }
        }
    }
    let blocks = flat
        .chunk_by(|a, b| is_advanced(a) == is_advanced(b))
        .filter(|block| is_advanced(&block[0]))
        .count();

    // Dimensions of the result, each with what it does.
    #[derive(Clone)]
    enum Dim {
        Common(usize),
        Slice(usize, Vec<usize>),
        New,
    }
    let in_range = |at: isize, size: usize| {
        let at = if at < 0 { at + size as isize } else { at };
        (0..size as isize).contains(&at).then_some(at as usize)
    };
    let mut dims: Vec<Dim> = Vec::new();
    let commons: Vec<Dim> = (0..common.len()).map(Dim::Common).collect();
    if blocks > 1 {
        dims.extend(commons.clone());
    }
    let mut fixed: Vec<(usize, usize)> = Vec::new();
    let mut arrays: Vec<(usize, Vec<usize>, Vec<usize>)> = Vec::new();
    let mut axis = 0;
    let mut placed = blocks > 1;
    for part in &flat {
        if is_advanced(part) && !placed {
            dims.extend(commons.clone());
            placed = true;
        }
        match part {
            Index::At(at) => fixed.push((axis, in_range(*at, shape[axis])?)),
            Index::Points { shape: of, points } => {
                let points: Option<Vec<usize>> =
                    points.iter().map(|&at| in_range(at, shape[axis])).collect();
                arrays.push((axis, of.clone(), points?));
            }
            Index::Slice { start, stop, step } => {
                dims.push(Dim::Slice(axis, python_slice(*start, *stop, *step, shape[axis])));
            }
            Index::NewAxis => dims.push(Dim::New),
            _ => {}
        }
        axis += usize::from(!matches!(part, Index::NewAxis | Index::Ellipsis));
    }
    let sizes: Vec<usize> = dims
        .iter()
        .map(|dim| match dim {
            Dim::Common(k) => common[*k],
            Dim::Slice(_, points) => points.len(),
            Dim::New => 1,
        })
        .collect();
    let mut elements = Vec::new();
    for at in ndarray::indices(&sizes[..]) {
        let mut element = vec![0; shape.len()];
        let mut in_common = vec![0; common.len()];
        for (k, dim) in dims.iter().enumerate() {
            match dim {
                Dim::Common(c) => in_common[*c] = at[k],
                Dim::Slice(axis, points) => element[*axis] = points[at[k]],
                Dim::New => {}
            }
        }
        fixed.iter().for_each(|&(axis, at)| element[axis] = at);
        for (axis, of, points) in &arrays {
            let lead = common.len() - of.len();
            let flat = of.iter().enumerate().fold(0, |flat, (k, &size)| {
                flat * size + if size == 1 { 0 } else { in_common[lead + k] }
            });
            element[*axis] = points[flat];
        }
        elements.push(element);
    }
    Some((sizes, elements))
}

/// The positions of a slice, one step at a time.
fn python_slice(start: Option<isize>, stop: Option<isize>, step: isize, n: usize) -> Vec<usize> {
    let n = n as isize;
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let clip = |at: isize| (if at < 0 { at + n } else { at }).clamp(low, high);
    let mut at = start.map_or(if step > 0 { low } else { high }, clip);
    let stop = stop.map_or(if step > 0 { high } else { low }, clip);
    let mut points = Vec::new();
    while if step > 0 { at < stop } else { at > stop } {
        points.push(at as usize);
        at += step;
    }
    points
}

fn random_slice(random: &mut Random, n: usize) -> Index {
    let bound = |random: &mut Random| {
        (!random.one_in(4)).then(|| random.below(2 * n + 5) as isize - n as isize - 2)
    };
    let step = [1, 1, 1, 2, 3, 7, -1, -1, -2, -5][random.below(10)];
    Index::Slice { start: bound(random), stop: bound(random), step }
}

fn random_points(random: &mut Random, shape: Vec<usize>, n: usize) -> Index {
    let count = shape.iter().product();
    let rising = random.one_in(2);
    let mut points: Vec<isize> = (0..count)
        .map(|_| random.below(2 * n) as isize - if rising { 0 } else { n as isize })
        .map(|at| if at >= n as isize { at - n as isize } else { at })
        .collect();
    if rising {
        points.sort_unstable();
    }
    Index::Points { shape, points }
}

/// A selection as users write them and as they should not; sometimes one that is refused.
fn random_selection(random: &mut Random, shape: &[usize]) -> Selection {
    let mut parts = Vec::new();
    let mut axis = 0;
    let end = random.below(shape.len() + 1).max(random.below(shape.len() + 1));
    let common = [random.below(4), random.below(3) + 1, random.below(12)];
    let arrays = random.below(4);
    while axis < end {
        let n = shape[axis];
        match random.below(12) {
            0 => parts.push(Index::NewAxis),
            1 if !parts.contains(&Index::Ellipsis) => parts.push(Index::Ellipsis),
            2 | 3 if n > 0 => {
                parts.push(Index::At(random.below(2 * n) as isize - n as isize));
                axis += 1;
            }
            4 => {
                let dims = 1 + random.below((end - axis).min(2));
                let of = shape[axis..axis + dims].to_vec();
                let mask = (0..of.iter().product()).map(|_| random.one_in(2)).collect();
                parts.push(Index::Mask { shape: of, mask });
                axis += dims;
            }
            5..=8 if arrays > 0 && n > 0 => {
                let of = match random.below(6) {
                    0 => vec![],
                    1 => vec![1],
                    2 => vec![common[1], common[2]],
                    3 => vec![common[1], 1],
                    _ => vec![common[2]],
                };
                parts.push(random_points(random, of, n));
                axis += 1;
            }
            9 if random.one_in(20) => {
                parts.push(Index::At(n as isize + random.below(2) as isize));
                axis += 1;
            }
            _ => {
                parts.push(random_slice(random, n));
                axis += 1;
            }
        }
    }
    parts.into()
}

fn random_shape(random: &mut Random, nd: usize) -> (Vec<usize>, Vec<usize>) {
    let most = [0, 40, 12, 7, 5][nd];
    let size = |random: &mut Random| if random.one_in(25) { 0 } else { 1 + random.below(most) };
    let shape = (0..nd).map(|_| size(random)).collect();
    let chunk = (0..nd).map(|_| [1, 2, 2, 3, 4, 5, 7, 50][random.below(8)]).collect();
    (shape, chunk)
}

/// A base slab that has to be read, in which every `fails`th read goes wrong.
#[derive(Debug)]
struct Disk {
    bytes: Vec<u8>,
    size: usize,
    padded: bool,
    reads: AtomicUsize,
    fails: AtomicUsize,
}

impl BaseSlab for Disk {
    fn slots(&self) -> usize {
        self.bytes.len() / self.size
    }

    fn read(&self, slot: usize, at: usize, into: &mut [u8]) -> Result<()> {
        let number = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
        let fails = self.fails.load(Ordering::Relaxed);
        if fails > 0 && number % fails == 0 {
            return Err(Error::new(ErrorKind::Io, "the disk is gone"));
        }
        into.copy_from_slice(&self.bytes[slot * self.size..][..self.size][at..at + into.len()]);
        Ok(())
    }

    fn is_padded(&self) -> bool {
        self.padded
    }
}

/// The array that a commit of this one makes on a disk. Chunks with the same content are one.
fn committed(array: &StagedArray, padded: bool) -> (StagedArray, Arc<Disk>) {
    let size = array.fill_value().len() * array.chunk_shape().iter().product::<usize>();
    let mut bytes: Vec<u8> = Vec::new();
    let mut places = Vec::new();
    for (cell, state) in array.changes().enumerate() {
        let chunk = match state.unwrap() {
            ChunkState::Fill => None,
            ChunkState::Staged(chunk) => Some(chunk),
            ChunkState::Base(_) => Some(array.chunk(cell).unwrap()),
        };
        places.push(chunk.map_or(Place::default(), |chunk| {
            let same = bytes.chunks_exact(size).position(|there| *there == *chunk);
            if same.is_none() {
                bytes.extend_from_slice(&chunk);
            }
            let slot = same.unwrap_or(bytes.len() / size - 1) as u32;
            Place { slab: 1, slot }
        }));
    }
    let (reads, fails) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let disk = Arc::new(Disk { bytes, size, padded, reads, fails });
    let again = StagedArray::from_base(
        array.shape(),
        array.chunk_shape(),
        array.dtype().clone(),
        array.fill_value(),
        vec![disk.clone()],
        places,
    );
    (again.unwrap(), disk)
}

/// A model of the array: what is selected is read and written element by element.
struct Model<T> {
    array: ArrayD<T>,
    fill: T,
}

impl<T: Element> Model<T> {
    fn get(&self, selection: &Selection) -> Option<ArrayD<T>> {
        let (shape, elements) = select(selection.parts(), self.array.shape())?;
        let elements = elements.iter().map(|at| self.array[&at[..]]).collect();
        Some(ArrayD::from_shape_vec(shape, elements).unwrap())
    }

    fn set(&mut self, selection: &Selection, value: &ArrayD<T>) -> bool {
        let Some((shape, elements)) = select(selection.parts(), self.array.shape()) else {
            return false;
        };
        let Some(value) = value.broadcast(shape) else { return false };
        elements.iter().zip(value).for_each(|(at, &value)| self.array[&at[..]] = value);
        true
    }

    fn resize(&mut self, shape: &[usize]) {
        let old = std::mem::take(&mut self.array);
        self.array = ArrayD::from_shape_fn(shape, |at| *old.get(at).unwrap_or(&self.fill));
    }
}

fn new_shape(random: &mut Random, shape: &[usize]) -> Vec<usize> {
    let size = |&n: &usize| match random.below(8) {
        0..=2 => n,
        3..=5 => n + random.below(4),
        6 if random.one_in(6) => 0,
        _ => random.below(n + 1).max(1),
    };
    let mut shape: Vec<usize> = shape.iter().map(size).collect();
    while shape.iter().product::<usize>() > 1000 {
        let largest = (0..shape.len()).max_by_key(|&axis| shape[axis]).unwrap();
        shape[largest] /= 2;
    }
    shape
}

/// A value for this shape: of just that, smaller, a scalar, or in another memory order.
fn random_value<T: Element>(random: &mut Random, shape: &[usize], make: fn(u64) -> T) -> ArrayD<T> {
    let mut of = shape.to_vec();
    match random.below(6) {
        0 => of.clear(),
        1 => drop(of.drain(..random.below(shape.len() + 1))),
        2 => of.iter_mut().for_each(|n| *n = if random.one_in(2) { 1 } else { *n }),
        3 if random.one_in(10) => of.push(2),
        _ => {}
    }
    if random.one_in(4) {
        of.reverse();
        return ArrayD::from_shape_simple_fn(of, || make(random.next())).reversed_axes();
    }
    ArrayD::from_shape_simple_fn(of, || make(random.next()))
}

/// Counts the events in a sequence of operations, so that a test can tell that it tests something.
#[derive(Default)]
struct Seen {
    failed: usize,
    spilled: usize,
    copied: usize,
}

/// Operations in sequence, each compared; also those that must fail and change nothing.
fn operate<T: Element>(seed: u64, nd: usize, steps: usize, make: fn(u64) -> T) -> Seen {
    let random = &mut Random(seed);
    let (shape, chunk) = random_shape(random, nd);
    let fill = make(if random.one_in(2) { 0 } else { random.next() });
    let mut model = Model { array: ArrayD::from_elem(shape.clone(), fill), fill };
    let mut array = StagedArray::full(&shape, &chunk, fill).unwrap();
    let mut seen = Seen::default();
    let mut disk: Option<Arc<Disk>> = None;
    let spilled = MemoryStorage::new();
    spilled.create_dir(Path::new("spill")).unwrap();
    let mut frozen: Option<(StagedArray, ArrayD<T>)> = None;
    let policies = [Placement::Open, Placement::PerPlan];
    array = array.with_placement(policies[random.below(2)]);
    for step in 0..steps {
        let name = format!("seed {seed}, step {step} on {:?} in {chunk:?}", array.shape());
        let shape = array.shape().to_vec();
        let fails = if random.one_in(2) { 1 + random.below(3) } else { 0 };
        if let Some(disk) = &disk {
            disk.fails.store(fails, Ordering::Relaxed);
        }
        let before = array.places().to_vec();
        let done: Result<()> = match random.below(16) {
            0..=4 => {
                let selection = random_selection(random, &shape);
                let (found, expected) = (array.get::<T>(selection.clone()), model.get(&selection));
                match (found, expected) {
                    (Ok(found), Some(expected)) => {
                        assert_eq!(found, expected, "{name}: {selection}");
                        Ok(())
                    }
                    (Err(error), None) => {
                        assert_eq!(error.kind(), ErrorKind::Invalid, "{name}: {selection}");
                        Ok(())
                    }
                    (Err(error), _) => {
                        assert_eq!(error.kind(), ErrorKind::Io, "{name}: {selection}: {error}");
                        Err(error)
                    }
                    (Ok(_), None) => panic!("{name}: {selection} was not refused"),
                }
            }
            5..=9 => {
                let selection = random_selection(random, &shape);
                let of = select(selection.parts(), &shape).map(|selected| selected.0);
                let value = random_value(random, &of.unwrap_or(vec![3]), make);
                let result = match value.ndim() {
                    0 => array.set_scalar(selection.clone(), value[&[][..]]),
                    _ if random.one_in(2) => array.set(selection.clone(), &value),
                    _ => array.write(selection.clone(), &NdArray::from_ndarray(&value)),
                };
                match &result {
                    Ok(()) => assert!(model.set(&selection, &value), "{name}: {selection}"),
                    Err(error) if error.kind() == ErrorKind::Invalid => {
                        let refused =
                            !Model { array: model.array.clone(), fill }.set(&selection, &value);
                        assert!(refused, "{name}: {selection} of {:?}: {error}", value.shape());
                    }
                    Err(_) => {}
                }
                result
            }
            10 | 11 => {
                let shape = new_shape(random, &shape);
                array.resize(&shape).inspect(|()| model.resize(&shape))
            }
            12 if shape[0] < 60 => {
                let mut of = shape.clone();
                of[0] = random.below(4);
                let rows = random_value(random, &of, make);
                if rows.shape() == of {
                    array.append(&rows).inspect(|()| {
                        model.resize(&[&[shape[0] + of[0]], &shape[1..]].concat());
                        assert!(model.set(&(shape[0]..shape[0] + of[0]).into(), &rows));
                    })
                } else {
                    assert!(
                        rows.shape().get(1..) == Some(&of[1..]) || array.append(&rows).is_err()
                    );
                    Ok(())
                }
            }
            13 if random.one_in(2) => array.load(),
            13 => {
                let store = SpillDir::new(Arc::new(spilled.clone()), "spill");
                array = array.with_budget(random.below(4000), Arc::new(store));
                Ok(())
            }
            14 => {
                disk.iter().for_each(|disk| disk.fails.store(0, Ordering::Relaxed));
                let policy = policies[random.below(2)];
                let (again, on) = committed(&array, random.one_in(2));
                assert!(!again.has_changes());
                array = again.with_placement(policy);
                disk = Some(on);
                Ok(())
            }
            _ => {
                if let Some((frozen, content)) = frozen.take() {
                    disk.iter().for_each(|disk| disk.fails.store(0, Ordering::Relaxed));
                    match frozen.get::<T>(..) {
                        Ok(found) => assert_eq!(found, content, "{name}: a clone"),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Io),
                    }
                    frozen.check();
                }
                frozen = Some((array.clone(), model.array.clone()));
                Ok(())
            }
        };
        disk.iter().for_each(|disk| disk.fails.store(0, Ordering::Relaxed));
        seen.spilled += array.slab_kinds().filter(|kind| *kind == SlabKind::Spilled).count();
        if done.as_ref().is_err_and(|error| error.kind() == ErrorKind::Io) {
            seen.failed += 1;
        }
        if done.is_err() {
            assert_eq!((array.shape(), array.places()), (&shape[..], &before[..]), "{name}");
        }
        array.check();
        assert_eq!(array.shape(), model.array.shape(), "{name}");
        assert_eq!(array.get::<T>(..).unwrap(), model.array, "{name}");
        check_chunks(&array, &model, &name);
        if let Some(disk) = &disk {
            seen.copied += check_copies(&array, disk, &name);
        }
    }
    drop((array, frozen));
    assert_eq!(
        spilled.list(Path::new("spill")).unwrap(),
        [""; 0].map(PathBuf::from),
        "seed {seed}"
    );
    seen
}

/// Every chunk is the array's elements and, beyond it, the fill value; whether or not it was ever
/// anything else.
fn check_chunks<T: Element>(array: &StagedArray, model: &Model<T>, name: &str) {
    for cell in 0..array.grid().len() {
        let start: Vec<usize> = array.grid().region(cell).iter().map(|r| r.start).collect();
        let at = |at: IxDyn| {
            let at: Vec<usize> = start.iter().enumerate().map(|(k, start)| start + at[k]).collect();
            model.array.get(&at[..]).copied().unwrap_or(model.fill)
        };
        let expected = ArrayD::from_shape_fn(array.chunk_shape(), at);
        let bytes = array.chunk(cell).unwrap();
        let found = NdArray::new(DType::of::<T>(), array.chunk_shape(), &bytes[..]).unwrap();
        assert_eq!(found.to_ndarray::<T>().unwrap(), expected, "{name}: chunk {cell}");
    }
}

/// A chunk that is known to be a copy is one, but for what was written. Returns how many are, in part.
fn check_copies(array: &StagedArray, disk: &Disk, name: &str) -> usize {
    let copied = (0..array.grid().len()).filter_map(|cell| Some((cell, array.copied(cell)?)));
    let mut partly = 0;
    for (cell, copied) in copied {
        assert_eq!(copied.from.slab, 1, "{name}");
        let there = &disk.bytes[copied.from.slot as usize * disk.size..][..disk.size];
        let chunk = array.chunk(cell).unwrap();
        let written = copied.written.clone();
        assert_eq!(chunk[..written.start], there[..written.start], "{name}: chunk {cell}");
        assert_eq!(chunk[written.end..], there[written.end..], "{name}: chunk {cell}");
        partly += usize::from(written.len() < disk.size);
    }
    partly
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn random_operations_agree_with_a_plain_array() {
    // Where tests are optimised, ten times as many.
    let rounds = if cfg!(debug_assertions) { 40 } else { 400 };
    let mut all = Seen::default();
    for seed in 0..rounds {
        for nd in 1..=4 {
            let seed = seed * 4 + nd as u64;
            let seen = match seed % 6 {
                0 => operate::<u8>(seed, nd, 40, |n| n as u8),
                1 => operate::<i16>(seed, nd, 40, |n| n as i16),
                2 => operate::<f32>(seed, nd, 40, |n| f32::from(n as u16)),
                3 => operate::<u64>(seed, nd, 40, |n| n),
                4 => operate::<bool>(seed, nd, 40, |n| n % 2 == 1),
                _ => operate::<Complex<f64>>(seed, nd, 40, |n| {
                    Complex::new(f64::from(n as u16), 1.0)
                }),
            };
            all.failed += seen.failed;
            all.spilled += seen.spilled;
            all.copied += seen.copied;
        }
    }
    assert!(all.failed > 100, "{} operations failed half-way", all.failed);
    assert!(all.spilled > 100, "{} times there was a spilled slab", all.spilled);
    assert!(all.copied > 100, "{} times a chunk was a copy in part", all.copied);
}

/// The results of NumPy itself, for selections of every kind.
#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn the_model_selects_what_numpy_selects() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/numpy-2.4.6/indexing.json");
    let golden: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let cases = golden.as_array().unwrap();
    assert_eq!(cases.len(), 600);
    for case in cases {
        let shape: Vec<usize> = serde_json::from_value(case["shape"].clone()).unwrap();
        let parts: Selection = case["index"].as_array().unwrap().iter().map(numpy_index).collect();
        let found = select(parts.parts(), &shape);
        if case["result"].is_null() {
            assert!(found.is_none(), "{case}");
            continue;
        }
        let (of, elements) = found.unwrap();
        assert_eq!(serde_json::json!(of), case["result"], "{case}");
        let flat = |at: &Vec<usize>| at.iter().zip(&shape).fold(0, |flat, (at, n)| flat * n + at);
        let flat: Vec<usize> = elements.iter().map(flat).collect();
        assert_eq!(serde_json::json!(flat), case["data"], "{case}");
    }
}

fn numpy_index(part: &serde_json::Value) -> Index {
    let list = |key: &str| -> Option<Vec<isize>> { serde_json::from_value(part[key].clone()).ok() };
    let shape = || serde_json::from_value(part["shape"].clone()).unwrap();
    if let Some(points) = list("points") {
        return Index::Points { shape: shape(), points };
    }
    if let Some(mask) = list("mask") {
        return Index::Mask { shape: shape(), mask: mask.iter().map(|&on| on == 1).collect() };
    }
    match part {
        serde_json::Value::Number(at) => Index::At(at.as_i64().unwrap() as isize),
        text => text.as_str().unwrap().parse::<Selection>().unwrap().parts()[0].clone(),
    }
}

/// An array without axes holds one element, and is read, written and committed like any other.
#[test]
fn arrays_without_axes_are_arrays() {
    let mut array = StagedArray::full(&[], &[], 5i64).unwrap();
    assert_eq!((array.len(), array.grid().len(), array.shape().len()), (1, 1, 0));
    assert_eq!(array.get::<i64>(()).unwrap().into_iter().collect::<Vec<_>>(), [5]);
    array.set_scalar((), 6i64).unwrap();
    array.set(Index::Ellipsis, &ndarray::arr0(7i64)).unwrap();
    assert_eq!(array.get::<i64>(Index::NewAxis).unwrap(), ndarray::array![7i64].into_dyn());
    assert_eq!(array.get::<i64>(0).unwrap_err().kind(), ErrorKind::Invalid);
    array.resize(&[]).unwrap();
    array.check();
    let (again, _) = committed(&array, true);
    assert_eq!(again.get::<i64>(()).unwrap().into_iter().collect::<Vec<_>>(), [7]);
    assert_eq!(array.append(&ndarray::arr0(1i64)).unwrap_err().kind(), ErrorKind::Invalid);
}

/// A thousand small writes, or appends, share a few slabs.
#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn small_writes_share_slabs() {
    let mut array = StagedArray::full(&[1000, 16], &[1, 16], 0u64).unwrap();
    for row in 0..1000usize {
        array.set_scalar((row * 7) % 1000, row as u64).unwrap();
    }
    assert!(array.slab_kinds().count() < 5, "{array:?}");
    let mut log = StagedArray::full(&[0, 16], &[64, 16], 0u64).unwrap();
    for row in 0..1000u64 {
        log.append(&ArrayD::from_elem(vec![1, 16], row)).unwrap();
    }
    assert!(log.slab_kinds().count() < 5, "{log:?}");
    let first: Vec<u64> = log.get::<u64>((.., 3)).unwrap().into_iter().collect();
    assert!(first.into_iter().eq(0..1000));
    let staged = StagedArray::full(&[10], &[1], 0u8).unwrap().with_placement(Placement::PerPlan);
    let mut staged = staged;
    (0..10usize).for_each(|at| staged.set_scalar(at, 1u8).unwrap());
    assert_eq!(staged.slab_kinds().count(), 11);
}

/// A chunk is read once for each operation, and only the requested part.
#[test]
fn chunks_are_read_once_and_whole_ones_that_are_replaced_never() {
    let rows =
        NdArray::from_ndarray(&ArrayD::from_shape_fn(vec![12, 4], |at| (at[0] * 4 + at[1]) as u32))
            .into_owned();
    let array = StagedArray::from_array(&rows, &[4, 2], &[0; 4]).unwrap();
    let (array, disk) = committed(&array, true);
    let reads = || disk.reads.swap(0, Ordering::Relaxed);
    reads();
    array.get::<u32>(vec![11, 0, 5, 1, 9]).unwrap();
    assert_eq!(reads(), 6);
    let mut array = array.clone();
    array.set_scalar((0..8, 2..), 1u32).unwrap();
    assert_eq!(reads(), 0);
    array.set_scalar((3, 0), 1u32).unwrap();
    assert_eq!(reads(), 1);
    array.resize(&[14, 4]).unwrap();
    assert_eq!(reads(), 0, "what is beyond the edge is the fill value already");
    array.resize(&[10, 4]).unwrap();
    assert_eq!(reads(), 2, "the chunks that the new edge cuts through");
    let staged: BTreeSet<Place> = array
        .changes_plan()
        .iter()
        .filter(|change| change.kind == SlabKind::Staged)
        .map(|change| change.place)
        .collect();
    assert_eq!(staged.len(), 5);
}

/// Large arrays are moved by several threads, each to its own part of the destination.
#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn large_transfers_agree_with_small_ones() {
    let shape = [700, 1030];
    let all = ArrayD::from_shape_fn(&shape[..], |at| (at[0] * 5000 + at[1]) as u64);
    let array = NdArray::from_ndarray(&all).into_owned();
    let array = StagedArray::from_array(&array, &[128, 128], &[0; 8]).unwrap();
    let (disk, _) = committed(&array, false);
    for mut array in [array, disk] {
        for _ in 0..2 {
            for (selection, expected) in [
                (Selection::all(), all.clone()),
                (
                    Selection::from((Index::range(None, None, -1), Index::range(None, None, -1))),
                    all.slice(ndarray::s![..;-1, ..;-1]).to_owned().into_dyn(),
                ),
                (
                    Selection::from((.., (0..1030).rev().collect::<Vec<usize>>())),
                    all.slice(ndarray::s![.., ..;-1]).to_owned().into_dyn(),
                ),
            ] {
                assert!(array.get::<u64>(selection).unwrap() == expected);
            }
            array.load().unwrap();
        }
        array.set((.., ..), &(&all + 1)).unwrap();
        assert!(array.get::<u64>(..).unwrap() == &all + 1);
    }
}

/// An impossible request is an error, of the right kind, and leaves no trace.
#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn refusals() {
    use ErrorKind::{Invalid, Limit, Unsupported};
    let kind = |result: Result<StagedArray>| result.unwrap_err().kind();
    assert_eq!(kind(StagedArray::full(&[4], &[0], 0u8)), Invalid);
    assert_eq!(kind(StagedArray::full(&[4], &[2, 2], 0u8)), Invalid);
    assert_eq!(kind(StagedArray::full(&[usize::MAX, 3], &[2, 2], 0u8)), Limit);
    assert_eq!(kind(StagedArray::full(&[usize::MAX / 2], &[1], 0u8)), Limit);
    assert_eq!(kind(StagedArray::full(&[usize::MAX, 0], &[usize::MAX, 1], 0u8)), Limit);
    let mut long = StagedArray::full(&[isize::MAX as usize], &[isize::MAX as usize], 3u8).unwrap();
    let ends = Index::range(None, None, isize::MAX - 1);
    assert_eq!(long.get::<u8>(ends).unwrap().shape(), [2]);
    assert_eq!(long.get::<u8>(Index::range(None, None, isize::MIN)).unwrap().shape(), [1]);
    assert_eq!(long.append(&ndarray::array![1u8]).unwrap_err().kind(), Invalid);
    assert_eq!(kind(StagedArray::full(&[3, 3], &[usize::MAX / 2, 3], 0u64)), Limit);
    assert_eq!(kind(StagedArray::new(&[4], &[2], DType::of::<u32>(), &[0; 3])), Invalid);
    assert_eq!(kind(StagedArray::new(&[4], &[2], DType::object(), &[0; 8])), Unsupported);
    let dtype = DType::of::<u8>;
    let place = vec![Place { slab: 1, slot: 0 }];
    assert_eq!(kind(StagedArray::from_base(&[4], &[4], dtype(), &[0], vec![], place)), Invalid);
    assert_eq!(kind(StagedArray::from_base(&[4], &[4], dtype(), &[0], vec![], vec![])), Invalid);

    let mut array = StagedArray::full(&[usize::MAX / 8], &[usize::MAX / 32], 0u64).unwrap();
    assert_eq!(array.get::<u64>(7).unwrap().into_iter().collect::<Vec<_>>(), [0]);
    // Where memory is addressed with 32 bits there may be a gibibyte for the chunk.
    if usize::BITS == 64 {
        assert_eq!(array.set_scalar(7, 1u64).unwrap_err().kind(), Limit);
    }
    assert_eq!(array.get::<u64>(..).unwrap_err().kind(), Limit);
    array.check();
    // As large as there are numbers for its elements.
    let side: usize = if usize::BITS == 64 { 1 << 20 } else { 1 << 15 };
    let mut array = StagedArray::full(&[side, side], &[1 << 10, 1 << 10], 0u64).unwrap();
    assert_eq!(array.get::<u64>((side / 2, -1)).unwrap().into_iter().collect::<Vec<_>>(), [0]);
    assert_eq!(array.get::<i64>(0).unwrap_err().kind(), Invalid);
    assert_eq!(array.set_scalar(.., 0u8).unwrap_err().kind(), Invalid);
    assert_eq!(array.resize(&[3]).unwrap_err().kind(), Invalid);
    assert_eq!(array.resize(&[usize::MAX, 3]).unwrap_err().kind(), Limit);
    assert_eq!(array.read_into(0, &mut [0; 3]).unwrap_err().kind(), Invalid);
    let wrong = NdArray::scalar(1.0f64);
    assert_eq!(array.write(0, &wrong).unwrap_err().kind(), Invalid);
    let five = ndarray::Array1::<u64>::zeros(5);
    assert_eq!(array.set((0, 0..0), &five).unwrap_err().kind(), Invalid, "as NumPy does");
    assert_eq!(array.append(&five).unwrap_err().kind(), Invalid);
    assert!(!array.has_changes());
    for text in ["1:2:3:4", "x", "[1, y]", "1 2", "[1] [2]"] {
        assert_eq!(text.parse::<Selection>().unwrap_err().kind(), Invalid, "{text}");
    }
}

/// A store that has no room.
#[derive(Debug)]
struct NoRoom;

impl SlabStore for NoRoom {
    fn store(&self, _: &[(usize, &[u8])], _: usize) -> Result<Arc<dyn BaseSlab>> {
        Err(Error::new(ErrorKind::Io, "no space left on device"))
    }
}

/// Beyond its budget, an array goes to files; they go when their chunks are written again.
#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn chunks_beyond_the_budget_are_spilled() {
    let files = MemoryStorage::new();
    files.create_dir(Path::new("spill")).unwrap();
    let count = || files.list(Path::new("spill")).unwrap().len();
    let store = SpillDir::new(Arc::new(files.clone()), "spill");
    let mut array = StagedArray::full(&[64, 1024], &[4, 1024], 0u64)
        .unwrap()
        .with_placement(Placement::PerPlan)
        .with_budget(100_000, Arc::new(store));
    for row in 0..64usize {
        array.set_scalar(row, row as u64 + 1).unwrap();
        array.check();
    }
    let spilled =
        |array: &StagedArray| array.slab_kinds().filter(|kind| *kind == SlabKind::Spilled).count();
    assert_eq!((spilled(&array), count()), (13, 13));
    assert!(array.staged_bytes() <= 100_000 + 4 * 8192);
    assert!(array.get::<u64>((.., 7)).unwrap().into_iter().eq(1..=64));
    let clone = array.clone();
    array.set_scalar(0..32, 7u64).unwrap();
    array.check();
    assert_eq!((spilled(&array), count()), (5, 13), "the clone has them still");
    drop(clone);
    assert_eq!(count(), 5);
    let changed = array.changes().filter(|state| matches!(state, Ok(ChunkState::Staged(_))));
    assert_eq!(changed.count(), 16, "spilled or not");
    array.resize(&[30, 1024]).unwrap();
    assert_eq!((spilled(&array), count()), (1, 1), "what the resize itself had to make room for");

    let mut array = array.with_budget(0, Arc::new(NoRoom));
    let before = array.places().to_vec();
    let refused = array.set_scalar(5, 0u64).unwrap_err();
    assert_eq!((refused.kind(), array.places()), (ErrorKind::Io, &before[..]));
    assert!(array.get::<u64>((.., 0)).unwrap().into_iter().eq([7; 30]));
}

/// Any text is a selection or an error; a selection that prints as text is read again from
/// it, and means something or is refused.
#[test]
fn text_is_a_selection_or_refused() {
    let words = [
        "0",
        "1",
        "-1",
        "7",
        "99",
        "9223372036854775807",
        "-9223372036854775808",
        ":",
        "::",
        ":",
        ",",
        ", ",
        "[",
        "]",
        "[1, 0]",
        "[]",
        "...",
        "..",
        "None",
        "Non",
        " ",
        "-",
        "+3",
        "ä",
        "1e3",
    ];
    let mut random = Random(11);
    let mut parsed = 0;
    for _ in 0..if cfg!(miri) { 200 } else { 20_000 } {
        let text: String = (0..random.below(8)).map(|_| words[random.below(words.len())]).collect();
        let Ok(selection) = text.parse::<Selection>() else { continue };
        parsed += 1;
        let again = selection.to_string();
        assert_eq!(again.parse::<Selection>().unwrap(), selection, "{text:?}, {again:?}");
        for shape in [&[][..], &[0], &[5], &[3, 0], &[2, 3, 4], &[usize::MAX, usize::MAX]] {
            let _resolved_or_refused = selection.resolve(shape);
        }
    }
    assert!(parsed > 2000, "{parsed}");
}
