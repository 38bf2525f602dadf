//! The cost of an array in a directory, compared with its codec and with copying the same bytes.
//!
//! `cargo bench --features c-blosc --bench chunked [-- MEGABYTES]`; without an argument 256. Everything is in the page
//! cache and nothing waits for a disk, except where it says so. Each figure is the best of five.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::path::Path;
use std::time::{Duration, Instant};

use kiste::array::{ArrayOptions, ArrayStore, Check, ChunkedArray};
use kiste::format::blosc::{Codec, Params, Scratch, compress};
use kiste::value::{DType, NdArray};
use kiste::{Error, Result};
use rayon::prelude::*;

const CHUNK: usize = 1 << 20;

fn main() -> Result<()> {
    let megabytes = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(256);
    let dir = tempfile::tempdir().map_err(|e| Error::io("temporary directory", e))?;
    // A measurement with a little noise: it compresses to about a third.
    let numbers: Vec<f32> = (0..megabytes * (CHUNK / 4))
        .map(|i| ((i / 64) as f32).sin() + (i * 7919 % 13) as f32 / 1e4)
        .collect();
    let bytes: &[u8] = bytemuck::cast_slice(&numbers);
    println!(
        "{megabytes} MiB of float32 in chunks of 1 MiB, {} threads",
        rayon::current_num_threads()
    );
    let copied = copying(bytes);
    let chunks = codec(bytes, copied)?;
    for (name, level) in [("lz4, level 5", 5), ("not compressed", 0)] {
        println!("{name}");
        let path = dir.path().join(level.to_string());
        write(&path, &numbers, level, copied)?;
        read(&path, bytes.len(), copied)?;
        commit(&path)?;
    }
    drop(chunks);
    many_chunks(dir.path())
}

fn copying(bytes: &[u8]) -> Duration {
    let mut out = vec![1_u8; bytes.len()];
    let time = best(|| {
        out.copy_from_slice(std::hint::black_box(bytes));
        Ok(())
    });
    let time = time.unwrap_or_default();
    println!("  memcpy                        {}", rate(bytes.len(), time, time));
    time
}

fn codec(bytes: &[u8], copied: Duration) -> Result<Vec<Vec<u8>>> {
    let params = Params { codec: Codec::Lz4, level: 5, typesize: 4, ..Params::default() };
    let pack = |chunk: &[u8]| {
        let mut out = Vec::new();
        compress(&params, chunk, &mut out).map(|_| out).unwrap_or_default()
    };
    let mut chunks = Vec::new();
    let time = best(|| {
        chunks = bytes.par_chunks(CHUNK).map(pack).collect();
        Ok(())
    })?;
    let packed: usize = chunks.iter().map(Vec::len).sum();
    println!("  codec alone, compress         {}", rate(bytes.len(), time, copied));
    let mut out = vec![1_u8; bytes.len()];
    let time = best(|| {
        out.par_chunks_mut(CHUNK)
            .zip(&chunks)
            .try_for_each_init(Scratch::default, |s, (to, c)| s.decompress_into(c, to).map(drop))?;
        Ok(())
    })?;
    println!("  codec alone, decompress       {}", rate(bytes.len(), time, copied));
    let time = best(|| {
        bytes.par_chunks(CHUNK).for_each(|chunk| {
            std::hint::black_box(blake3::hash(chunk));
        });
        Ok(())
    })?;
    println!("  BLAKE3 alone                  {}", rate(bytes.len(), time, copied));
    println!("  compressed to {:.2}", packed as f64 / bytes.len() as f64);
    Ok(chunks)
}

fn options(level: u8) -> ArrayOptions {
    ArrayOptions::default().chunk_shape([CHUNK / 4]).level(level).durable(false)
}

fn write(path: &Path, numbers: &[f32], level: u8, copied: Duration) -> Result<()> {
    let rows = NdArray::new(DType::of::<f32>(), [numbers.len()], bytemuck::cast_slice(numbers))?;
    for durable in [false, true] {
        let mut nth = 0;
        let time = best(|| {
            nth += 1;
            let path = path.with_extension(format!("{durable}{nth}"));
            let options = options(level).durable(durable);
            let mut store = options.create(&path, DType::of::<f32>(), &[0])?;
            store.append(&rows, "all")?;
            drop(store);
            std::fs::remove_dir_all(&path).map_err(|e| Error::io(&path, e))
        })?;
        let how = if durable { "synced to disk" } else { "not synced    " };
        println!("  append all, {how}    {}", rate(rows.bytes().len(), time, copied));
    }
    options(level).create(path, DType::of::<f32>(), &[0])?.append(&rows, "all").map(drop)
}

fn read(path: &Path, len: usize, copied: Duration) -> Result<()> {
    let mut out = vec![1_u8; len];
    let ways =
        [("hashes", Check::Hashes), ("checksums", Check::Checksums), ("nothing", Check::Nothing)];
    for (name, check) in ways {
        let options = ArrayOptions::default().check(check);
        let time = best(|| options.open(path)?.read_into(.., &mut out).map(drop))?;
        println!("  read all, {name:<10} checked  {}", rate(len, time, copied));
    }
    let array = ChunkedArray::open(path)?;
    array.read_into(.., &mut out)?;
    let time = best(|| array.read_into(.., &mut out).map(drop))?;
    println!("  read all again, opened before {}", rate(len, time, copied));
    Ok(())
}

fn commit(path: &Path) -> Result<()> {
    for durable in [false, true] {
        let mut store = ArrayOptions::default().durable(durable).open_store(path)?;
        let mut n = 0;
        let time = best(|| {
            n += 1;
            one_point(&mut store, n)
        })?;
        let how = if durable { "synced to disk" } else { "not synced    " };
        println!("  one changed chunk, {how} {time:>10.1?}");
    }
    Ok(())
}

fn one_point(store: &mut ArrayStore, n: usize) -> Result<()> {
    let mut staged = store.stage()?;
    staged.set_scalar(n * 1000, n as f32)?;
    store.commit(&mut staged, "one point").map(drop)
}

/// The cost of the table where there are very many chunks.
fn many_chunks(dir: &Path) -> Result<()> {
    let (path, count) = (dir.join("many"), 200_000);
    let options = ArrayOptions::default().chunk_shape([16]).durable(false);
    let mut store = options.create(&path, DType::of::<f32>(), &[0])?;
    let numbers: Vec<f32> = (0..count * 16).map(|i| i as f32 + 1.0).collect();
    let rows = NdArray::new(DType::of::<f32>(), [numbers.len()], bytemuck::cast_slice(&numbers))?;
    println!("{count} chunks of 64 bytes");
    let start = Instant::now();
    store.append(&rows, "all")?;
    println!("  append all                    {:>10.1?}", start.elapsed());
    let mut n = 0;
    let time = best(|| {
        n += 1;
        one_point(&mut store, n)
    })?;
    println!("  commit of one point           {time:>10.1?}");
    let row = NdArray::new(DType::of::<f32>(), [1], bytemuck::bytes_of(&1.5_f32))?;
    let time = best(|| store.append(&row, "a row").map(drop))?;
    println!("  append of one row             {time:>10.1?}");
    let time = best(|| ChunkedArray::open(&path)?.get::<f32>(7).map(drop))?;
    println!("  open and read a point         {time:>10.1?}");
    Ok(())
}

fn best(mut work: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}

fn rate(bytes: usize, time: Duration, copied: Duration) -> String {
    let seconds = time.as_secs_f64().max(1e-9);
    let ratio = seconds / copied.as_secs_f64().max(1e-9);
    format!("{:>6.2} GB/s, {ratio:>5.2} x memcpy", bytes as f64 / 1e9 / seconds)
}
