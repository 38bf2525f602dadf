//! How long does shuffling within a memory budget take compared with copying the file, and does it
//! keep to the budget?
//!
//! `cargo bench --bench shuffle [-- SAMPLES PAYLOAD_BYTES MEMORY_BYTES ROUNDS] [cached] [evicted] [sync]`; without
//! numbers 100k × 10 kB and 1M × 1 kB, each in an eighth of its bytes, five rounds; without a state both.
//!
//! `cached`: the page cache has the file, and samples are read directly from there. `evicted`: it has nothing of it
//! (Linux), so it is read from the disk and written twice, first to the buckets; how much was written shows it. Each
//! round shuffles without and with digests, each between two copies of the data file by `fs::copy`, as `cp` does, in the
//! same state, and computes the MD5 alone. Before each of them memory is touched that is then free: a virtual
//! machine has given it back to its host otherwise, and who takes it first waits. The last line of a state has medians
//! and their ratio to copying; no shuffle with digests can be faster than MD5 alone, nor than half of the time of the
//! processor on two cores. `sync` waits for the disk, in all. The files are in the directory for temporary files
//! (`TMPDIR`) and take three times the data; memory includes what is mapped.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Read as _;
use std::path::{Path, PathBuf};
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

/// The part of the file that is in the page cache before each measurement.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Cached,
    Evicted,
}

fn main() -> Res<()> {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let has = |word: &str| std::env::args().any(|a| a == word);
    let mut states = vec![(State::Cached, "cached"), (State::Evicted, "evicted")];
    if states.iter().any(|(_, name)| has(name)) {
        states.retain(|(_, name)| has(name));
    }
    let sync = has("sync");
    match numbers[..] {
        [samples, bytes, memory, rounds] => {
            Bench::new(samples, bytes, memory as u64, sync)?.run(&states, rounds)
        }
        _ => [(100_000, 10_000), (1_000_000, 1_000)].into_iter().try_for_each(
            |(samples, bytes): (usize, usize)| {
                Bench::new(samples, bytes, (samples * bytes / 8) as u64, sync)?.run(&states, 5)
            },
        ),
    }
}

struct Bench {
    dir: tempfile::TempDir,
    path: PathBuf,
    bytes: u64,
    memory: u64,
    sync: bool,
}

impl Bench {
    fn new(samples: usize, bytes: usize, memory: u64, sync: bool) -> Res<Bench> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("data.msgpack");
        write(&path, samples, bytes)?;
        println!(
            "{samples} samples with {bytes} bytes, in {:.0} MB of memory",
            memory as f64 / 1e6
        );
        let bytes = fs::metadata(&path)?.len();
        Ok(Bench { dir, path, bytes, memory, sync })
    }

    fn run(&self, states: &[(State, &str)], rounds: usize) -> Res<()> {
        for &(state, name) in states {
            println!(" {name}");
            let mut times = [const { Vec::new() }; 5];
            for _ in 0..rounds {
                for (at, digests) in [(0, false), (2, true)] {
                    let before = self.copy(state)?;
                    let shuffled = self.shuffle(state, digests)?;
                    let copied = (before + self.copy(state)?) / 2.0;
                    println!(
                        "  {} digests {shuffled}, copying {copied:.2} s: {:.2} ×",
                        if digests { "with" } else { "without" },
                        shuffled.seconds / copied,
                    );
                    times[at].push(shuffled.seconds);
                    times[at + 1].push(copied);
                }
                times[4].push(seconds(|| hash(&self.path))?);
            }
            let [without, copied, with, copied_with, md5] = times.map(median);
            println!(
                "  medians: without digests {without:.2} s, {:.2} × copying; with {with:.2} s, {:.2} × copying, \
                 {:.2} × MD5 alone ({md5:.2} s)",
                without / copied,
                with / copied_with,
                with / md5,
            );
        }
        Ok(())
    }

    /// Frees memory that the host has given already, and brings about the state.
    fn prepare(&self, state: State) -> Res<()> {
        drop(black_box(vec![1_u8; 3 * self.bytes as usize]));
        match state {
            State::Cached => read(&self.path, |_| ()),
            State::Evicted => evict(&self.path),
        }
    }

    fn copy(&self, state: State) -> Res<f64> {
        self.prepare(state)?;
        let to = self.dir.path().join("copy");
        let seconds = seconds(|| {
            fs::copy(&self.path, &to)?;
            if self.sync { Ok(File::open(&to)?.sync_all()?) } else { Ok(()) }
        })?;
        fs::remove_file(&to)?;
        Ok(seconds)
    }

    fn shuffle(&self, state: State, digests: bool) -> Res<Shuffled> {
        self.prepare(state)?;
        let out = self.dir.path().join("out");
        let watch = Memory::watch("VmRSS:");
        let (cpu, written) = (cpu(), written());
        let seconds = seconds(|| self.shuffle_to(&out, digests))?;
        let cpu = self::cpu() - cpu;
        let written = (self::written() - written) as f64 / self.bytes as f64;
        let memory = watch.growth();
        fs::remove_dir_all(&out)?;
        Ok(Shuffled { seconds, cpu, written, memory })
    }

    fn shuffle_to(&self, dir: &Path, digests: bool) -> Res<()> {
        let reader = DatasetReader::open(&self.path)?;
        let order = Shuffle::new(reader.len() as u64, 42).order(0)?;
        let options = Writer::options().digests(digests).durable(self.sync);
        let mut writer = options.create(dir.join("shuffled.msgpack"))?;
        rearrange::external_shuffle(&reader, &*order, self.memory, &mut writer, |_| Ok(()))?;
        writer.finish()?;
        Ok(())
    }
}

/// The time and memory of a shuffle.
struct Shuffled {
    seconds: f64,
    /// Seconds of all threads.
    cpu: f64,
    /// How many times the data.
    written: f64,
    memory: u64,
}

impl std::fmt::Display for Shuffled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:.2} s ({:.2} s of the processor, {:.1} × the data written, {:.0} MB at most)",
            self.seconds,
            self.cpu,
            self.written,
            self.memory as f64 / 1e6,
        )
    }
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

fn hash(path: &Path) -> Res<()> {
    let mut md5 = Md5::new();
    read(path, |block| md5.update(block))?;
    black_box(md5.finish());
    Ok(())
}

fn read(path: &Path, mut each: impl FnMut(&[u8])) -> Res<()> {
    let mut file = File::open(path)?;
    let mut block = vec![0; 1 << 20];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(()),
            read => each(&block[..read]),
        }
    }
}

/// Takes a file out of the page cache.
#[cfg(target_os = "linux")]
fn evict(path: &Path) -> Res<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn evict(_: &Path) -> Res<()> {
    Err("`evicted` needs Linux".into())
}

/// Seconds of the processor that this process took so far; 0 where the system does not tell.
fn cpu() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name, which is in parentheses: what it took itself, and the kernel for it, in hundredths.
    let times = stat.rsplit(") ").next().into_iter().flat_map(str::split_whitespace);
    times.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Bytes that this process wrote so far; 0 where the system does not tell.
fn written() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

fn seconds(work: impl FnOnce() -> Res<()>) -> Res<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}
