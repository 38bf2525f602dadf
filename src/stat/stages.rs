//! [`LoaderStages`]: where the threads of a loader of images spend their time.

use std::fmt;
use std::time::Duration;

use serde_json::{Value as Json, json};

#[cfg(feature = "images")]
use crate::loader::{ImageTimes, LoaderReport};
use crate::text::units;

/// Where the threads of a loader of images spend their time, stage by stage: [`ReadBench::images`](super::ReadBench::images).
///
/// Times are measured on the threads of the loader while it runs, and are the sums of all threads. Waiting for room in the
/// queue is in none of them. Printed, it is a table and a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoaderStages {
    /// Threads, or 1 if the caller makes the batches.
    pub threads: usize,
    /// Samples that were put through all stages, also of batches that were never asked for.
    pub samples: u64,
    /// Getting the bytes from the storage: the page cache, a disk or a network.
    pub reading: Duration,
    /// Finding the image in the packed sample.
    pub unpacking: Duration,
    /// Decoding images, or the part of each that is needed.
    pub decoding: Duration,
    /// Cropping, resizing, changing colours and normalising, straight into the batch.
    pub augmenting: Duration,
    /// Everything else: the order, memory of batches, bookkeeping.
    pub gathering: Duration,
    /// How long, of all this, threads were ready to run while others had the cores. Zero where the system does not say.
    pub waiting_for_core: Duration,
}

/// With a larger part of the time for it, waiting for a core is worth a word.
const MUCH: f64 = 0.2;

impl LoaderStages {
    /// Of the report of all work, and of the clock of the images.
    #[cfg(feature = "images")]
    pub(super) fn of(report: &LoaderReport, images: ImageTimes) -> LoaderStages {
        let workers = &report.workers;
        let within = images.reading + images.unpacking + images.decoding + images.transforming;
        LoaderStages {
            threads: workers.threads.max(1),
            samples: images.images,
            reading: workers.reading + images.reading,
            unpacking: images.unpacking,
            decoding: images.decoding,
            augmenting: images.transforming,
            gathering: workers.collating + workers.decoding.saturating_sub(within),
            waiting_for_core: report.cores.map_or(Duration::ZERO, |cores| cores.waiting_for_core),
        }
    }

    /// The stages by name, in the order of the work, with the time of all threads.
    pub fn each(&self) -> [(&'static str, Duration); 5] {
        [
            ("reading", self.reading),
            ("unpacking", self.unpacking),
            ("decoding", self.decoding),
            ("augmenting", self.augmenting),
            ("gathering", self.gathering),
        ]
    }

    /// All stages together.
    pub fn total(&self) -> Duration {
        self.each().iter().map(|(_, time)| *time).sum()
    }

    /// The stage that takes the most time.
    pub fn limit(&self) -> (&'static str, Duration) {
        self.each().into_iter().max_by_key(|(_, time)| *time).unwrap_or_default()
    }

    /// The time of one sample on one thread, of this time of all samples.
    pub fn per_sample(&self, time: Duration) -> Duration {
        Duration::from_secs_f64(time.as_secs_f64() / self.samples.max(1) as f64)
    }

    /// Samples per second of all threads, if they did nothing but what takes this time.
    pub fn rate(&self, time: Duration) -> f64 {
        self.samples as f64 * self.threads as f64 / time.as_secs_f64().max(1e-9)
    }

    /// One sentence: what takes most of the time, and which rates follow.
    ///
    /// ```text
    /// decoding images takes 71 % of a thread's time: 8 threads give 5,600 images/s at most, and reading alone would give 310,000
    /// ```
    pub fn advice(&self) -> String {
        let (limit, time) = self.limit();
        let total = self.total();
        let rate = |time| units::count(self.rate(time) as u64);
        let threads = units::counted(self.threads as u64, "thread");
        let verb = if self.threads == 1 { "gives" } else { "give" };
        let mut text = format!(
            "{} takes {} of a thread's time: {threads} {verb} {} images/s at most",
            doing(limit),
            percent(time, total),
            rate(total),
        );
        text += &match limit {
            "reading" => format!(", and without it {}", rate(total.saturating_sub(time))),
            _ => format!(", and reading alone would give {}", rate(self.reading)),
        };
        if self.waiting_for_core.as_secs_f64() > MUCH * total.as_secs_f64() {
            let waiting = percent(self.waiting_for_core, total);
            text += &format!(
                "; {waiting} of that time is waiting for a core: fewer threads or other programs would help"
            );
        }
        text
    }

    /// All of it, with durations in seconds.
    pub fn to_json(&self) -> Json {
        let stage = |name: &str, time: Duration| {
            json!({
                "stage": name,
                "seconds": time.as_secs_f64(),
                "seconds_per_sample": time.as_secs_f64() / self.samples.max(1) as f64,
                "samples_per_second": self.rate(time),
            })
        };
        let stages: Vec<Json> = self.each().iter().map(|(name, time)| stage(name, *time)).collect();
        json!({
            "threads": self.threads,
            "samples": self.samples,
            "stages": stages,
            "total": stage("all", self.total()),
            "waiting_for_core": self.waiting_for_core.as_secs_f64(),
            "limit": self.limit().0,
            "advice": self.advice(),
        })
    }
}

impl fmt::Display for LoaderStages {
    /// A table of the stages. The last line is [`advice`](LoaderStages::advice).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        let threads = units::counted(self.threads as u64, "thread");
        writeln!(f, "{:<18} {:>12} {:>6} {:>20}", "stage", "one sample", "share", threads)?;
        let named = self.each().map(|(name, time)| (doing(name), time));
        for (name, time) in named.into_iter().chain([("all", total)]) {
            let rate = format!("{} images/s", units::count(self.rate(time) as u64));
            let time_of_one = short(self.per_sample(time));
            writeln!(f, "{name:<18} {time_of_one:>12} {:>6} {rate:>20}", percent(time, total))?;
        }
        write!(f, "limit: {}", self.advice())
    }
}

fn doing(stage: &str) -> &'static str {
    match stage {
        "reading" => "reading bytes",
        "unpacking" => "unpacking msgpack",
        "decoding" => "decoding images",
        "augmenting" => "augmenting images",
        _ => "gathering batches",
    }
}

fn percent(part: Duration, all: Duration) -> String {
    format!("{:.0} %", 100.0 * part.as_secs_f64() / all.as_secs_f64().max(1e-9))
}

/// Stages of little work take parts of a microsecond.
fn short(time: Duration) -> String {
    match time.as_nanos() {
        nanoseconds @ 0..10_000 => format!("{:.2} µs", nanoseconds as f64 / 1e3),
        _ => units::duration(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_and_a_sentence() {
        let ms = Duration::from_millis;
        let mut stages = LoaderStages {
            threads: 8,
            samples: 1000,
            reading: ms(20),
            unpacking: ms(2),
            decoding: ms(710),
            augmenting: ms(250),
            gathering: ms(18),
            waiting_for_core: ms(0),
        };
        let text = stages.to_string();
        assert_eq!(
            text,
            "stage                one sample  share            8 threads\n\
             reading bytes             20 µs    2 %     400,000 images/s\n\
             unpacking msgpack       2.00 µs    0 %   4,000,000 images/s\n\
             decoding images          710 µs   71 %      11,267 images/s\n\
             augmenting images        250 µs   25 %      32,000 images/s\n\
             gathering batches         18 µs    2 %     444,444 images/s\n\
             all                      1.0 ms  100 %       8,000 images/s\n\
             limit: decoding images takes 71 % of a thread's time: 8 threads give 8,000 images/s at most, and \
             reading alone would give 400,000"
        );
        let json = stages.to_json();
        assert_eq!(
            (&json["limit"], &json["stages"][2]["seconds"]),
            (&"decoding".into(), &0.71.into())
        );
        stages.reading = ms(9020);
        stages.waiting_for_core = ms(5000);
        stages.threads = 1;
        let expected = "reading bytes takes 90 % of a thread's time: 1 thread gives 100 images/s at most, and without \
                        it 1,020; 50 % of that time is waiting for a core: fewer \
                        threads or other programs would help";
        assert_eq!(stages.advice(), expected);
        // Nothing is divided by zero.
        stages = LoaderStages {
            samples: 0,
            reading: ms(0),
            decoding: ms(0),
            augmenting: ms(0),
            ..stages
        };
        assert!(!stages.to_string().contains("NaN") && !stages.to_string().contains("inf"));
    }
}
