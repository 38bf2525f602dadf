//! How long does shuffling within a memory budget take compared with copying the file, and does it
//! keep to the budget?
//!
//! `cargo bench --bench shuffle [-- SAMPLES PAYLOAD_BYTES MEMORY_BYTES ROUNDS [sync]]`; without
//! arguments 200k × 10 kB and 1M × 1 kB, each in an eighth of its bytes, three rounds. Each round
//! shuffles without and with digests, each between two copies of the data file, and computes the
//! MD5 alone. The ratio is to the mean of the two: how fast a machine hands out memory for files
//! differs more from one second to the next than anything here. `sync` waits for the disk, in all.
//! The files are in the directory for temporary files (`TMPDIR`) and take three times the data;
//! memory includes what is mapped.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Read as _;
use std::path::Path;
use std::time::Instant;

use kiste::format::__private::md5::Md5;
use kiste::sampler::{Sampler, Shuffle};
use kiste::{DatasetReader, Writer, rearrange};
use serde::Serialize;

mod memory;

use memory::Memory;

type Res<T> = Result<T, Box<dyn std::error::Error>>;

#[derive(Serialize)]
struct Sample<'a> {
    key: &'a str,
    label: u64,
    #[serde(with = "serde_bytes")]
    payload: &'a [u8],
}

fn main() -> Res<()> {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let sync = std::env::args().any(|a| a == "sync");
    match numbers[..] {
        [samples, bytes, memory, rounds] => measure(samples, bytes, memory as u64, rounds, sync),
        _ => [(200_000, 10_000), (1_000_000, 1_000)].into_iter().try_for_each(
            |(samples, bytes): (usize, usize)| {
                measure(samples, bytes, (samples * bytes / 8) as u64, 3, sync)
            },
        ),
    }
}

fn measure(samples: usize, bytes: usize, memory: u64, rounds: usize, sync: bool) -> Res<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("data.msgpack");
    write(&path, samples, bytes)?;
    println!("{samples} samples with {bytes} bytes, in {:.0} MB of memory", memory as f64 / 1e6);
    let copy = || {
        let to = dir.path().join("copy");
        let seconds = seconds(|| copy(&path, &to, sync))?;
        fs::remove_file(&to)?;
        Ok::<f64, Box<dyn std::error::Error>>(seconds)
    };
    for _ in 0..rounds {
        for digests in [false, true] {
            let before = copy()?;
            let out = dir.path().join("out");
            let watch = Memory::watch("VmRSS:");
            let seconds = seconds(|| shuffle(&path, &out, memory, digests, sync))?;
            let growth = watch.growth();
            fs::remove_dir_all(&out)?;
            let copied = (before + copy()?) / 2.0;
            println!(
                "  {} digests {seconds:.2} s, copying {copied:.2} s: {:.2} ×; {:.0} MB at most",
                if digests { "with" } else { "without" },
                seconds / copied,
                growth as f64 / 1e6,
            );
        }
        println!("  MD5 alone {:.2} s", seconds(|| hash(&path))?);
    }
    Ok(())
}

fn write(path: &Path, samples: usize, bytes: usize) -> Res<()> {
    let noise: Vec<u8> = (0..bytes + samples).map(|i| (i.wrapping_mul(31) >> 3) as u8).collect();
    let mut writer = Writer::options().digests(false).create(path)?;
    for i in 0..samples {
        let key = format!("n{:08}_{i}", i * 7919 % 1000);
        writer.write(&Sample { key: &key, label: i as u64, payload: &noise[i..i + bytes] })?;
    }
    writer.finish()?;
    Ok(())
}

fn copy(from: &Path, to: &Path, sync: bool) -> Res<()> {
    fs::copy(from, to)?;
    if sync {
        File::open(to)?.sync_all()?;
    }
    Ok(())
}

fn shuffle(from: &Path, dir: &Path, memory: u64, digests: bool, sync: bool) -> Res<()> {
    let reader = DatasetReader::open(from)?;
    let order = Shuffle::new(reader.len() as u64, 42).order(0)?;
    let options = Writer::options().digests(digests).durable(sync);
    let mut writer = options.create(dir.join("shuffled.msgpack"))?;
    rearrange::external_shuffle(&reader, &*order, memory, &mut writer, |_| Ok(()))?;
    writer.finish()?;
    Ok(())
}

fn hash(path: &Path) -> Res<()> {
    let mut file = File::open(path)?;
    let mut md5 = Md5::new();
    let mut block = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut block)?;
        if read == 0 {
            black_box(md5.finish());
            return Ok(());
        }
        md5.update(&block[..read]);
    }
}

fn seconds(work: impl FnOnce() -> Res<()>) -> Res<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}
