//! Batches that are planned by length: how fast windows are planned, how much padding is left, and what an epoch costs.
//!
//! `cargo bench --bench lengths [-- FILE]`: a file of lengths, one a line, in place of log-normal ones.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use kiste::loader::{Columns, Loader, Padded};
use kiste::reader::ListReader;
use kiste::sampler::batching::{Batches, Batching, ByLength, Longer, Planned, Rows, TokenBudget};
use kiste::sampler::rng::StableRng;
use kiste::sampler::{Lengths, Sampler, Sequential, Shuffle};
use serde::Serialize;

type Res<T> = Result<T, Box<dyn std::error::Error>>;

const WINDOW: usize = 1 << 16;
const ROUNDS: u64 = 15;

fn main() -> Res<()> {
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
        let mut ratios = Vec::new();
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
        }
        println!("epochs of batches of 64, {name}: planned to not planned {:.2}", median(ratios));
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
