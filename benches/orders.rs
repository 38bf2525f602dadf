//! What does the next index cost? One by one, and in batches of 256 as a loader asks for them.
//!
//! `cargo bench --bench orders [-- SAMPLES]`; without an argument 1.3 million, the size of
//! ImageNet.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::hint::black_box;
use std::time::Instant;

use kiste::Result;
use kiste::sampler::{
    BlockShuffle, DatadingsShuffle, Mixture, MixtureSource, Order, Repeat, Sampler, Sequential,
    Shuffle,
};

const BATCH: u64 = 256;

fn main() -> Result<()> {
    let samples = std::env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(1_300_000);
    let sources = || [3, 2, 1].map(|quota| MixtureSource::new(samples / quota, quota)).to_vec();
    println!("{samples} samples: ns an index, best of five epochs");
    show("Sequential", &Sequential::new(samples))?;
    show("Shuffle", &Shuffle::new(samples, 1))?;
    show("BlockShuffle, 64 × 256", &BlockShuffle::new(samples, 256, 64, 1)?)?;
    show("BlockShuffle, 1000 × 16", &BlockShuffle::new(samples, 16, 1000, 1)?)?;
    show("Mixture of three", &Mixture::new(sources(), samples, 1)?)?;
    show("Repeat", &Repeat::new(Shuffle::new(samples, 1), 2)?)?;
    show("DatadingsShuffle", &DatadingsShuffle::new(samples, None))
}

fn show(name: &str, sampler: &dyn Sampler) -> Result<()> {
    let (mut single, mut batches) = (f64::MAX, f64::MAX);
    for epoch in 0..5 {
        let order = sampler.order(epoch)?;
        single = single.min(time(&*order, |order, _, positions| {
            positions.for_each(|position| {
                black_box(order.index_at(position));
            });
        }));
        batches = batches.min(time(&*order, |order, indices, positions| {
            indices.clear();
            order.fill(positions, indices);
            black_box(indices);
        }));
    }
    println!("  {name:25} {single:6.1} one by one, {batches:6.1} in batches");
    Ok(())
}

/// Nanoseconds an index, of whole batches.
fn time(order: &dyn Order, fetch: impl Fn(&dyn Order, &mut Vec<u64>, std::ops::Range<u64>)) -> f64 {
    let mut indices = Vec::new();
    let batches = order.len() / BATCH;
    let start = Instant::now();
    for batch in 0..batches {
        fetch(order, &mut indices, batch * BATCH..(batch + 1) * BATCH);
    }
    start.elapsed().as_secs_f64() * 1e9 / (batches.max(1) * BATCH) as f64
}
