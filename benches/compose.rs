//! What views cost: opening a recipe whose condition was evaluated before, evaluating it, and an epoch of a mixture
//! next to an epoch of one dataset.
//!
//! `cargo bench --bench compose [-- SAMPLES]`: the samples of the recipe, by default a million. The mixture has three
//! datasets of 20,000 samples of 10 kB.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kiste::Writer;
use kiste::compose::{MixtureOptions, View};
use kiste::loader::Loader;
use kiste::reader::{Join, Reader};
use kiste::sampler::{Sampler, Shuffle};
use serde::Serialize;

type Res<T> = Result<T, Box<dyn std::error::Error>>;

#[derive(Serialize)]
struct Sample<'a> {
    key: &'a str,
    label: u64,
    #[serde(with = "serde_bytes")]
    payload: &'a [u8],
}

/// Rounds; the best counts.
const ROUNDS: usize = 5;

fn main() -> Res<()> {
    let samples = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let dir = tempfile::tempdir()?;
    recipe(dir.path(), samples.unwrap_or(1_000_000))?;
    mixture(dir.path())
}

fn write(path: &Path, name: &str, samples: usize, bytes: usize) -> Res<()> {
    let noise: Vec<u8> = (0..bytes + samples).map(|i| (i.wrapping_mul(31) >> 3) as u8).collect();
    let mut writer = Writer::options().durable(false).digests(false).create(path)?;
    for i in 0..samples {
        let key = format!("{name}{i:09}");
        let label = i as u64 * 7919 % 10;
        writer.write(&Sample { key: &key, label, payload: &noise[i..i + bytes] })?;
    }
    writer.finish()?;
    Ok(())
}

fn best<T>(mut work: impl FnMut() -> Res<T>) -> Res<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}

fn recipe(dir: &Path, samples: usize) -> Res<()> {
    let data = dir.join("data.msgpack");
    write(&data, "n", samples, 0)?;
    let million = samples as f64 / 1e6;
    println!("{samples} samples");
    let plain = best(|| Ok(View::open(&data)?))?;
    println!("  open the dataset: {:.2} ms", plain.as_secs_f64() * 1e3);
    let half = format!("key < 'n{:09}'", samples / 2);
    for (what, condition) in
        [("every other one", "label in (1, 3, 5, 7, 9)"), ("the first half", &half)]
    {
        let name = dir.join("some.kiste.toml");
        std::fs::write(
            &name,
            format!(
                "kiste = 1\n\n[source.data]\npath = \"data.msgpack\"\nwhere = \"{condition}\"\n"
            ),
        )?;
        let start = Instant::now();
        let chosen = View::open(&name)?;
        let first = start.elapsed();
        let opened = best(|| Ok(View::open(&name)?))?;
        println!(
            "  {what}, {} samples: evaluated at {:.2} M samples/s, opened in {:.2} ms",
            chosen.reader().len(),
            million / first.as_secs_f64(),
            opened.as_secs_f64() * 1e3,
        );
        let reader = chosen.reader();
        let order = Shuffle::new(reader.len() as u64, 1).order(0)?;
        let some: Vec<usize> = order.iter().take(200_000).map(|index| index as usize).collect();
        let read =
            best(|| some.iter().try_for_each(|&index| Ok(reader.get_raw(index).map(drop)?)))?;
        println!("    a sample at random: {:.0} ns", read.as_nanos() as f64 / some.len() as f64);
    }
    let view = View::open(&data)?;
    let joined = best(|| {
        Ok(view.join(
            &view.with_fields(
                kiste::reader::FieldNames::all().rename("label", "other")?,
                &mut |_| Ok(()),
            )?,
            Join::left().fields(["other"]),
            &mut |_| Ok(()),
        )?)
    })?;
    println!("  join by key: {:.2} M samples/s", million / joined.as_secs_f64());
    Ok(())
}

fn mixture(dir: &Path) -> Res<()> {
    const EACH: usize = 20_000;
    let names = ["a", "b", "c"];
    for name in names {
        write(&dir.join(name).with_extension("msgpack"), name, EACH, 10_000)?;
    }
    write(&dir.join("all.msgpack"), "all", names.len() * EACH, 10_000)?;
    let open = |name: &str| View::open(dir.join(name).with_extension("msgpack"));
    let sources =
        names.map(|name| Ok((name, open(name)?))).into_iter().collect::<kiste::Result<Vec<_>>>()?;
    let mixture =
        View::mixture(sources, MixtureOptions::new([("a", 1.0), ("b", 1.0), ("c", 1.0)]))?;
    let all = open("all")?;
    let epoch = |view: &View, sampler: Arc<dyn Sampler>| -> Res<Duration> {
        let start = Instant::now();
        let loader =
            Loader::options(view.reader().clone(), sampler).batch_size(256).threads(2).epochs(1);
        let mut seen = 0;
        for batch in loader.raw()? {
            seen += batch?.data.len();
        }
        assert_eq!(seen, names.len() * EACH);
        Ok(start.elapsed())
    };
    // In pairs, so that both see the same machine.
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for round in 0..2 * ROUNDS as u64 {
        let shuffled: Arc<dyn Sampler> = Arc::new(Shuffle::new((names.len() * EACH) as u64, round));
        let mixed: Arc<dyn Sampler> = Arc::new(mixture.sampler().cloned().ok_or("no mixture")?);
        let one = epoch(&all, shuffled)?;
        let mix = epoch(&mixture, mixed)?;
        ratios.push(one.as_secs_f64() / mix.as_secs_f64());
        rates.push((names.len() * EACH) as f64 / mix.as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    rates.sort_by(f64::total_cmp);
    println!(
        "an epoch of a mixture of three datasets, 10 kB a sample: {:.0} samples/s, {:.2} ({:.2} to {:.2}) of one dataset",
        rates[ROUNDS],
        ratios[ROUNDS],
        ratios[0],
        ratios[2 * ROUNDS - 1],
    );
    Ok(())
}
