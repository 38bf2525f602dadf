//! Batches that are planned by length: how fast windows are planned, how much padding is left, and what an epoch costs.
//!
//! `cargo bench --bench lengths [-- FILE]`: a file of lengths, one a line, in place of log-normal ones. `-- --billion DIR`
//! writes a `.lengths` of a billion numbers there (4 GB), plans windows with it, mapped, and removes it.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kiste::DatasetReader;
use kiste::format::dataset::{Digests, SideFile, crc, lengths};
use kiste::loader::{Columns, Loader, Padded};
use kiste::reader::ListReader;
use kiste::sampler::batching::{Batches, Batching, ByLength, Longer, Planned, Rows, TokenBudget};
use kiste::sampler::rng::StableRng;
use kiste::sampler::{BlockShuffle, Lengths, Sampler, Sequential, Shuffle};
use serde::Serialize;

type Res<T> = Result<T, Box<dyn std::error::Error>>;

const WINDOW: usize = 1 << 16;
const ROUNDS: u64 = 15;
const COLD_ROUNDS: u64 = 5;

fn main() -> Res<()> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--billion").skip(1);
    if let Some(dir) = arguments.next() {
        return billion(&tempfile::tempdir_in(dir)?.path().join("x.msgpack"));
    }
    let given = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let lengths: Vec<u32> = match given {
        Some(path) => std::fs::read_to_string(path)?
            .lines()
            .map(str::parse)
            .collect::<Result<_, std::num::ParseIntError>>()?,
        None => log_normal(WINDOW, 1),
    };
    planning(&lengths)?;
    huge()?;
    epochs()
}

/// Lengths of texts: a median of 300 tokens, up to 2,048.
fn log_normal(count: usize, seed: u64) -> Vec<u32> {
    let mut rng = StableRng::new(&[seed]);
    (0..count)
        .map(|_| {
            let (u, v) = (rng.random().max(1e-12), rng.random());
            let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
            (300.0 * normal.exp()).clamp(1.0, 2048.0) as u32
        })
        .collect()
}

fn planning(all: &[u32]) -> Res<()> {
    let longest = u64::from(all.iter().copied().max().unwrap_or(1));
    let (budget, row) = (longest * 16, longest * 2);
    let buckets = [64, 128, 256, 512, 1024, 2048, 4096, u32::MAX].map(|most| (most, 64));
    let ways: [(&str, Box<dyn Batching>); 6] = [
        ("budget, padded", Box::new(TokenBudget::padded(budget))),
        ("budget, packed", Box::new(TokenBudget::packed(budget))),
        ("rows, whole", Box::new(Rows::whole(row, 8).longer(Longer::Cut))),
        ("rows of the longest, whole", Box::new(Rows::whole(longest, 16))),
        ("8 buckets", Box::new(ByLength::up_to(buckets)?)),
        ("32 equal buckets of 64", Box::new(ByLength::equal(32, 64)?)),
    ];
    println!("{} lengths, up to {longest}; budget {budget}, rows of {row}", all.len());
    for (name, batching) in ways {
        let mut rates = Vec::new();
        let (mut used, mut taken) = (0u64, 0u64);
        for round in 0..ROUNDS {
            (used, taken) = (0, 0);
            let start = Instant::now();
            let plans: Vec<(Batches, &[u32])> = all
                .chunks(WINDOW)
                .map(|window| (batching.plan(&[window], round).unwrap_or_default(), window))
                .collect();
            rates.push(all.len() as f64 / start.elapsed().as_secs_f64() / 1e6);
            for (batches, window) in &plans {
                let (real, all) = count(batches, window, name, (budget, row, longest));
                used += real;
                taken += all;
            }
        }
        let waste = 100.0 * (1.0 - used as f64 / taken.max(1) as f64);
        println!("  {name}: {:.1} M samples/s, {waste:.2} % padding", median(rates));
    }
    for size in [16, 64] {
        let padded = |lengths: &[u32]| -> u64 {
            let batches = lengths.chunks(size);
            batches
                .map(|batch| u64::from(*batch.iter().max().unwrap_or(&0)) * batch.len() as u64)
                .sum()
        };
        let real: u64 = all.iter().map(|length| u64::from(*length)).sum();
        let waste = 100.0 * (1.0 - real as f64 / padded(all) as f64);
        println!("  for comparison, {size} samples in random order: {waste:.2} % padding");
    }
    Ok(())
}

/// Tokens of a window, and the room that they take.
fn count(batches: &Batches, window: &[u32], name: &str, most: (u64, u64, u64)) -> (u64, u64) {
    let (mut start, mut used, mut taken) = (0usize, 0, 0);
    for &end in &batches.ends {
        let lengths = batches.order[start..end as usize]
            .iter()
            .map(|place| u64::from(window[*place as usize]));
        let (sum, longest) =
            lengths.clone().fold((0, 0), |(sum, most), one| (sum + one, one.max(most)));
        used += sum;
        taken += match name {
            "budget, packed" => most.0,
            _ if batches.rows.is_empty() => longest * lengths.count() as u64,
            _ => 0,
        };
        start = end as usize;
    }
    if !batches.rows.is_empty() {
        let row = if name == "rows, whole" { most.1 } else { most.2 };
        taken = row * batches.rows.len() as u64;
    }
    (used, taken)
}

/// Lengths that are made when they are asked for.
struct Many(u64);

impl Lengths for Many {
    fn len(&self) -> u64 {
        self.0
    }

    fn gather(&self, indices: &[u64], out: &mut Vec<u32>) -> kiste::Result<()> {
        out.extend(
            indices
                .iter()
                .map(|index| 1 + (index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 53) as u32),
        );
        Ok(())
    }

    fn identity(&self) -> u64 {
        self.0
    }
}

/// A window in the middle of a billion samples.
fn huge() -> Res<()> {
    let samples = 1_000_000_000;
    let planned =
        Planned::new(Shuffle::new(samples, 1), Many(samples), TokenBudget::packed(16_384))?;
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let start = Instant::now();
        planned.window_at(round, 7_919)?;
        times.push(ms(start.elapsed()));
    }
    println!("a window of {samples} samples: {:.2} ms", median(times));
    Ok(())
}

/// A real file of a billion lengths, of a dataset whose other files are sparse: next to nothing of them is read.
fn billion(path: &Path) -> Res<()> {
    const SAMPLES: u64 = 1_000_000_000;
    let md5 = [7; 16];
    let mut digests = Digests::new();
    digests.set("x.msgpack", md5)?;
    File::create(path)?.set_len(SAMPLES)?;
    std::fs::write(SideFile::Md5.path(path), digests.render())?;
    let mut offsets = File::create(SideFile::Offsets.path(path))?;
    offsets.seek(SeekFrom::Start(SAMPLES * 8))?;
    offsets.write_all(&SAMPLES.to_be_bytes())?;
    write_lengths(&SideFile::Lengths.path(path), SAMPLES, md5)?;

    let column = SideFile::Lengths.path(path);
    let orders: [(&str, Arc<dyn Sampler>); 3] = [
        ("sequential", Arc::new(Sequential::new(SAMPLES))),
        ("shuffled in blocks", Arc::new(BlockShuffle::new(SAMPLES, 1 << 15, 64, 1)?)),
        ("shuffled", Arc::new(Shuffle::new(SAMPLES, 1))),
    ];
    for (name, sampler) in orders {
        let (mut opening, mut cold, mut warm) = (Vec::new(), Vec::new(), Vec::new());
        let mut rng = StableRng::new(&[9]);
        for _ in 0..COLD_ROUNDS {
            // What is mapped stays in memory.
            forget(&column)?;
            let start = Instant::now();
            let lengths = DatasetReader::open(path)?.lengths("n")?.ok_or("it was written")?;
            opening.push(ms(start.elapsed()));
            let batching = Arc::new(TokenBudget::padded(16_384));
            let planned = Planned::with_columns(sampler.clone(), vec![lengths], batching)?;
            let window = rng.below(planned.windows());
            for times in [&mut cold, &mut warm] {
                // Planned again: another seed of batches.
                let again = planned.clone().seed(rng.below(1 << 30));
                let start = Instant::now();
                again.window_at(0, window)?;
                times.push(ms(start.elapsed()));
            }
        }
        let (opening, cold, warm) = (median(opening), median(cold), median(warm));
        println!(
            "{name}: opened in {opening:.2} ms, a window in {cold:.1} ms cold, {warm:.2} ms warm; {} MB of memory",
            resident()
        );
    }
    Ok(())
}

fn write_lengths(path: &Path, samples: u64, md5: [u8; 16]) -> Res<()> {
    let mut file = File::create(path)?;
    let column = |checksum| vec![lengths::Column { name: "n".to_owned(), checksum }];
    let source = crc::Source { count: samples, data_len: samples, md5: Some(md5), offsets: 0 };
    let header = lengths::Header::new(source, column(0))?;
    file.set_len(header.range(0).start)?;
    file.seek(SeekFrom::End(0))?;
    let (mut sum, mut rng) = (crc::checksum(&[]), StableRng::new(&[3]));
    for _ in 0..samples / 1000 / 1000 {
        let part: Vec<u8> =
            (0..1_000_000).flat_map(|_| (1 + rng.below(2048) as u32).to_le_bytes()).collect();
        sum = crc::extend(sum, &part);
        file.write_all(&part)?;
    }
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&lengths::Header::new(source, column(sum))?.encode())?;
    Ok(file.sync_all()?)
}

/// Takes a file out of the page cache.
fn forget(path: &Path) -> Res<()> {
    let input = format!("if={}", path.display());
    let done =
        Command::new("dd").args([&input, "iflag=nocache", "count=0", "status=none"]).status()?;
    if done.success() { Ok(()) } else { Err("dd failed".into()) }
}

/// Megabytes of this process in memory, without mapped files.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

#[derive(Serialize)]
struct Text {
    key: String,
    #[serde(with = "serde_bytes")]
    tokens: Vec<u8>,
}

/// Epochs of batches of 64 samples, planned and not.
fn epochs() -> Res<()> {
    let lengths = log_normal(200_000, 2);
    let texts = lengths
        .iter()
        .enumerate()
        .map(|(at, length)| Text { key: at.to_string(), tokens: vec![7; *length as usize] });
    let reader = Arc::new(ListReader::pack(texts)?);
    let samples = lengths.len() as u64;
    let shuffle: Arc<dyn Sampler> = Arc::new(Shuffle::new(samples, 1));
    let sequential: Arc<dyn Sampler> = Arc::new(Sequential::new(samples));
    for (name, sampler) in [("shuffled", shuffle), ("sequential", sequential)] {
        let (mut ratios, mut times) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let columns = || Columns::new().padded::<u8>("tokens", &[], Padded::longest());
            let run = |options: kiste::loader::LoaderOptions| -> Res<Duration> {
                let start = Instant::now();
                let mut seen = 0;
                for batch in options.threads(2).epochs(1).columns(columns())? {
                    seen += batch?.indices.len();
                }
                assert_eq!(seen, lengths.len());
                Ok(start.elapsed())
            };
            let fixed = run(Loader::options(reader.clone(), sampler.clone()).batch_size(64))?;
            // One bucket: batches of 64 as well, sorted by nothing.
            let batching = ByLength::equal(1, 64)?;
            let planned = Planned::new(sampler.clone(), lengths.clone(), batching)?;
            let planned = run(Loader::planned(reader.clone(), planned))?;
            ratios.push(fixed.as_secs_f64() / planned.as_secs_f64());
            times.push(ms(fixed));
        }
        let (ratio, time) = (median(ratios), median(times));
        println!(
            "epochs of batches of 64, {name}: {ratio:.2} of the speed of {time:.0} ms without planning"
        );
    }
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
