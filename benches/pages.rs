//! How many bytes a call should write: the cost of the call, and the cost of reading the file
//! through a map then.
//!
//! `cargo bench --bench pages [-- DIR [MIB]]`; without arguments 1,024 MiB in a temporary
//! directory. The page cache keeps the bytes of one call in pages as large as the call, if it can.
//! Each round begins with as much memory in use as the file takes, freed again: a virtual machine
//! may give memory that is free back to its host.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use kiste::storage::{LocalStorage, Source, Storage};
use kiste::{Error, Result};

const KIB: [usize; 5] = [64, 256, 512, 1024, 2048];
const ROUNDS: usize = 5;
/// Bytes that the processor maps at a time.
const PAGE: usize = 4096;
/// Places that are read at random.
const PLACES: usize = 20_000;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
    let temporary = tempfile::tempdir().map_err(|e| Error::io("temporary directory", e))?;
    let dir = args.next().map_or(temporary.path().to_path_buf(), PathBuf::from);
    let bytes = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(1024_usize) << 20;
    let path = dir.join("pages.bin");
    println!("{} MiB, medians of {ROUNDS} rounds", bytes >> 20);
    println!("KiB a call   write, GB/s   touch all, ns a page   touch at random, ns");
    let mut rows = KIB.map(|_| Vec::new());
    for round in 0..ROUNDS {
        for at in 0..KIB.len() {
            let at = (at + round) % KIB.len();
            warm(bytes);
            rows[at].push(measure(&path, KIB[at] << 10, bytes)?);
        }
    }
    for (kib, rows) in KIB.iter().zip(rows) {
        let [write, all, random] = [0, 1, 2].map(|of| {
            let mut times: Vec<f64> = rows.iter().map(|row: &[f64; 3]| row[of]).collect();
            times.sort_by(f64::total_cmp);
            times[ROUNDS / 2]
        });
        let (pages, speed) = ((bytes / PAGE) as f64, bytes as f64 / write / 1e9);
        let (all, random) = (all / pages * 1e9, random / PLACES as f64 * 1e9);
        println!("{kib:>10}   {speed:>11.2}   {all:>20.0}   {random:>19.0}");
    }
    std::fs::remove_file(&path).map_err(|e| Error::io("removing the file", e))
}

fn warm(bytes: usize) {
    let mut memory = vec![0_u8; bytes];
    memory.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    black_box(memory);
}

/// Seconds for writing the file, for a byte of each page in order, and for some at random.
fn measure(path: &Path, call: usize, bytes: usize) -> Result<[f64; 3]> {
    let io = |e| Error::io(path.display().to_string(), e);
    if path.exists() {
        std::fs::remove_file(path).map_err(io)?;
    }
    let block = vec![7; call];
    let mut file = File::create(path).map_err(io)?;
    let clock = Instant::now();
    for _ in 0..bytes / call {
        file.write_all(&block).map_err(io)?;
    }
    let write = clock.elapsed().as_secs_f64();
    drop(file);
    let all = touch(path, (0..bytes).step_by(PAGE))?;
    let mut place = 88_172_645_463_325_252_u64;
    let random = std::iter::repeat_with(|| {
        place ^= place << 13;
        place ^= place >> 7;
        place ^= place << 17;
        (place % bytes as u64) as usize
    });
    Ok([write, all, touch(path, random.take(PLACES))?])
}

/// Seconds for reading these bytes through a new map.
fn touch(path: &Path, places: impl Iterator<Item = usize>) -> Result<f64> {
    let source: Source = LocalStorage::mapped().open(path)?;
    let map = source.mapped().unwrap_or_default();
    let clock = Instant::now();
    let sum = places.fold(0_u64, |sum, at| sum + u64::from(map[at]));
    black_box(sum);
    Ok(clock.elapsed().as_secs_f64())
}
