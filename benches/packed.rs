//! The cost of an array in a container, compared with its plain bytes: small, large, one row.
//!
//! `cargo bench --features c-blosc --bench packed`. Small arrays are a field of a sample; a large one is a file.
//! Ratios are to a copy of the same bytes.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use kiste::Result;
use kiste::array::{PackOptions, PackedArray};
use kiste::value::NdArray;
use ndarray::Array2;

fn main() -> Result<()> {
    for len in [3, 10, 100, 1000, 100_000] {
        small(len)?;
    }
    large(1)?;
    large(0)
}

/// The best of several runs of many calls, for one call.
fn timed(calls: u32, mut work: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..calls {
            work()?;
        }
        best = best.min(start.elapsed() / calls);
    }
    Ok(best)
}

fn small(len: usize) -> Result<()> {
    let array = ndarray::Array1::from_shape_fn(len, |i| i as f64);
    let array = NdArray::from_ndarray(&array);
    let options = PackOptions::compact();
    let calls = (2_000_000 / (len + 20)) as u32;
    let mut packed = Vec::new();
    let pack = timed(calls, || {
        packed.clear();
        options.pack_into(black_box(&array), &mut packed)
    })?;
    let mut out = vec![0; array.bytes().len()];
    let read = timed(calls, || {
        PackedArray::from_bytes(black_box(&packed[..]))?.read_into(black_box(&mut out))
    })?;
    println!(
        "{len} floats: {} bytes in {}, packed in {pack:.2?}, read in {read:.2?}",
        out.len(),
        packed.len()
    );
    Ok(())
}

fn large(threads: usize) -> Result<()> {
    let array = Array2::from_shape_fn((200_000, 100), |(i, j)| ((i * 31 + j) % 5000) as f32);
    let array = NdArray::from_ndarray(&array);
    let mut out = vec![0; array.bytes().len()];
    let copy = timed(3, || {
        out.copy_from_slice(black_box(array.bytes()));
        Ok(())
    })?;
    let options = PackOptions::default().threads(threads);
    let mut packed = Vec::new();
    let pack = timed(1, || {
        packed = options.pack(&array)?;
        Ok(())
    })?;
    let packed = PackedArray::from_bytes(packed)?;
    let read = timed(1, || packed.read_into(&mut out))?;
    let mut row = 0;
    let rows = timed(1000, || {
        row = (row + 7919) % 200_000;
        packed.rows(row..row + 1).map(drop)
    })?;
    let ratio = |time: Duration| time.as_secs_f64() / copy.as_secs_f64();
    println!(
        "{} MB, {} (packing): {:.1} times smaller, packed in {:.1} times a copy, read in {:.1}, a row \
         in {rows:.1?}",
        out.len() / 1_000_000,
        if threads == 1 { "one thread" } else { "all threads" },
        packed.ratio(),
        ratio(pack),
        ratio(read),
    );
    Ok(())
}
