//! How close is a staged array to copying the same bytes, and what does a call cost, and a chunk?
//!
//! `cargo bench --features c-blosc --bench staged`. Everything is in memory and was touched before; each number is the
//! best of many runs. "memcpy" copies as many bytes between two such arrays.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::hint::black_box;
use std::time::Instant;

use kiste::Result;
use kiste::array::{Placement, Selection, StagedArray};
use kiste::value::NdArray;
use ndarray::ArrayD;

/// Name, shape, chunk shape; elements have 4 bytes.
type Layout = (&'static str, Vec<usize>, Vec<usize>);

fn main() -> Result<()> {
    let layouts: [Layout; 7] = [
        ("128 MiB, chunks of 4 MiB", vec![8192, 4096], vec![1024, 1024]),
        ("128 MiB, chunks of 1 MiB", vec![8192, 4096], vec![512, 512]),
        ("128 MiB, chunks of 16 KiB", vec![8192, 4096], vec![64, 64]),
        ("32 MiB, chunks of 1 KiB", vec![4096, 2048], vec![16, 16]),
        ("355 KiB, chunks of 36 B", vec![301, 302], vec![3, 3]),
        ("1-d, 32 MiB, chunks of 16 KiB", vec![1 << 23], vec![4096]),
        ("4-d, 32 MiB, chunks of 32 KiB", vec![64, 32, 64, 64], vec![8, 4, 16, 16]),
    ];
    println!("{:32} {:>10} {:>8} {:>10} {:>10}", "", "time", "a chunk", "memcpy", "of memcpy");
    for (name, shape, chunk) in &layouts {
        whole(name, shape, chunk)?;
    }
    calls()?;
    points()?;
    writes()
}

/// Reads and assigns whole arrays, staged and from below.
fn whole(name: &str, shape: &[usize], chunk: &[usize]) -> Result<()> {
    println!("{name}");
    let mut next = 0u32..;
    let value = ArrayD::from_shape_simple_fn(shape, || next.next().unwrap_or_default());
    let value = NdArray::from_ndarray(&value).into_owned();
    let bytes = value.bytes().len();
    let mut array = StagedArray::from_array(&value, chunk, &[0; 4])?;
    let mut out = vec![1u8; bytes];
    let chunks = array.grid().len();
    let mut other = vec![1u8; bytes];
    // A copy next to each run, so that what else the machine does hits both alike.
    let mut report = |what: &str, run: &mut dyn FnMut()| {
        let mut copy = || other.copy_from_slice(black_box(value.bytes()));
        let (mut time, mut memcpy) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..40 {
            memcpy = memcpy.min(best_of(1, &mut copy));
            time = time.min(best_of(1, &mut *run));
        }
        println!(
            "  {what:30} {:>7.3} ms {:>5.0} ns {:>7.3} ms {:>9.2}",
            time * 1e3,
            time * 1e9 / chunks as f64,
            memcpy * 1e3,
            memcpy / time
        );
    };
    report("plan of reading", &mut || drop(black_box(array.plan_get(Selection::all()))));
    report("read, base in memory", &mut || array.read_into(Selection::all(), &mut out).unwrap());
    array.load()?;
    report("read, staged", &mut || array.read_into(Selection::all(), &mut out).unwrap());
    report("assign, staged", &mut || array.write(Selection::all(), &value).unwrap());
    let zero = NdArray::scalar(7u32);
    report("assign a number", &mut || array.write(Selection::all(), &zero).unwrap());
    let step = kiste::array::Index::range(None, None, 2);
    let steps: Selection = shape.iter().map(|_| step.clone()).collect();
    let part = array.plan_get(steps.clone())?.shape().iter().product::<usize>() * 4;
    report("every second of each axis", &mut || {
        array.read_into(steps.clone(), &mut out[..part]).unwrap()
    });
    Ok(())
}

/// The cost of a call that moves next to nothing.
fn calls() -> Result<()> {
    let mut array = StagedArray::full(&[8192, 4096], &[512, 512], 0u32)?;
    array.set_scalar((0..512, 0..512), 1u32)?;
    let mut out = [0u8; 4];
    let read = best_of(1000, || array.read_into((100, 100), &mut out).unwrap());
    let get = best_of(1000, || drop(black_box(array.get::<u32>((100, 100)).unwrap())));
    let set = best_of(1000, || array.set_scalar((100, 100), 2u32).unwrap());
    println!(
        "one element: read_into {:.0} ns, get {:.0} ns, set {:.0} ns",
        read * 1e9,
        get * 1e9,
        set * 1e9
    );
    Ok(())
}

/// Planning for points in any order.
fn points() -> Result<()> {
    let array = StagedArray::full(&[1 << 23], &[4096], 0u32)?;
    let sorted: Vec<usize> = (0..1000).map(|at| at * 8388).collect();
    let sorted: Vec<usize> = sorted.iter().map(|at| at + at % 7).collect();
    let shuffled: Vec<usize> = (0..1000).map(|at| sorted[at * 7919 % 1000]).collect();
    for (name, points) in [("sorted", sorted), ("shuffled", shuffled)] {
        let plan = best_of(100, || drop(black_box(array.plan_get(&points[..]))));
        println!("plan of 1000 {name} points on 2048 chunks: {:.1} us", plan * 1e6);
    }
    Ok(())
}

/// How much slower an array is read after a thousand writes of a chunk each.
fn writes() -> Result<()> {
    let (shape, chunk) = ([1000, 1024], [1, 1024]);
    let mut out = vec![0u8; 1000 * 1024 * 4];
    let mut read = |array: &StagedArray| best_of(100, || array.read_into((), &mut out).unwrap());
    let mut once = StagedArray::full(&shape, &chunk, 0u32)?;
    once.set_scalar(.., 1u32)?;
    let once = read(&once);
    for placement in [Placement::Open, Placement::PerPlan] {
        let mut array = StagedArray::full(&shape, &chunk, 0u32)?.with_placement(placement);
        for row in 0..1000usize {
            array.set_scalar(row * 7 % 1000, 1u32)?;
        }
        let times = read(&array) / once;
        println!("reading after 1000 writes of a chunk, {placement:?}: {times:.2} x one write");
    }
    Ok(())
}

/// The best time of a run, in seconds; quick runs are taken a hundred at a time.
fn best_of(times: usize, mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    run();
    let each = if start.elapsed().as_micros() < 20 { 100 } else { 1 };
    let mut best = f64::INFINITY;
    for _ in 0..times {
        let start = Instant::now();
        (0..each).for_each(|_| run());
        best = best.min(start.elapsed().as_secs_f64() / f64::from(each));
    }
    best
}
