//! A progress bar on standard error: how far a command is, how fast, and how long it will take.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use kiste::text::{escaped, shown_text, units};

use crate::interrupt;
use crate::say::say;

/// Long enough that most commands are done before anything flickers.
const PATIENCE: Duration = Duration::from_millis(500);
/// Between two lines for programs.
const TELL: Duration = Duration::from_secs(2);

/// The unit that a bar counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Samples,
    Rows,
    Bytes,
}

/// How progress is to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Showing {
    Bar,
    Json,
}

/// Where progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// As a bar, if it takes long.
    Bar,
    /// As lines of JSON.
    Json,
    Nothing,
}

/// A progress bar, gone when it is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
    unit: Unit,
    /// 0 where it is not known.
    len: AtomicU64,
    json: bool,
    state: Mutex<State>,
    watch: Option<Watch>,
}

/// How far a command is: samples and bytes that were written, bytes that were read.
#[derive(Debug, Clone, Copy, Default)]
struct Far {
    samples: u64,
    bytes: u64,
    input: u64,
}

struct State {
    start: Instant,
    /// The progress before the start, from an earlier run.
    first: Option<Far>,
    last: Far,
    pace: Pace,
    told: Option<Instant>,
}

impl Progress {
    pub(crate) fn new(doing: &str, unit: Unit, len: Option<u64>, show: Show) -> Progress {
        let len = len.filter(|len| *len > 0);
        let bar = len.map_or_else(ProgressBar::no_length, ProgressBar::new);
        bar.set_draw_target(ProgressDrawTarget::hidden());
        bar.set_style(style(len.is_some()));
        bar.set_message(escaped(&shown_text(doing)).into_owned());
        let watch = (show == Show::Bar).then(|| Watch::start(&bar));
        let start = Instant::now();
        let state =
            State { start, first: None, last: Far::default(), pace: Pace::default(), told: None };
        let len = AtomicU64::new(len.unwrap_or(0));
        Progress { bar, unit, len, json: show == Show::Json, state: Mutex::new(state), watch }
    }

    /// This many are done.
    pub(crate) fn set(&self, position: u64) {
        let far = match self.unit {
            Unit::Bytes => Far { input: position, ..Far::default() },
            Unit::Samples | Unit::Rows => Far { samples: position, ..Far::default() },
        };
        // Nothing was done before the start.
        self.advance(far, Far::default(), |_| self.count(position));
    }

    /// As [`set`](Self::set); fails if Ctrl-C was pressed in a command that writes.
    pub(crate) fn reaches(&self, position: u64) -> kiste::Result<()> {
        self.set(position);
        interrupt::check()
    }

    /// The same, where how many there are is known only now.
    pub(crate) fn reaches_of(&self, position: u64, len: u64) -> kiste::Result<()> {
        self.len.store(len, Relaxed);
        if self.bar.length() != Some(len) && len > 0 {
            self.bar.set_length(len);
            self.bar.set_style(style(true));
        }
        self.reaches(position)
    }

    /// This many samples and bytes have been written, and this many bytes of input read. The
    /// amounts of the first call come from an earlier run, and are part of no rate.
    pub(crate) fn far(&self, samples: u64, bytes: u64, input: u64) {
        let far = Far { samples, bytes, input };
        let count = || match self.unit {
            Unit::Bytes => units::counted(samples, "sample"),
            _ => self.count(samples),
        };
        self.advance(far, far, |state| rates(state, &count()));
    }

    fn advance(&self, far: Far, first: Far, shown: impl FnOnce(&State) -> String) {
        let mut state = self.state();
        let position = self.measure(far);
        if state.first.is_none() {
            state.first = Some(first);
            let start = state.start;
            state.pace.add(start, self.measure(first));
        }
        state.last = far;
        state.pace.add(Instant::now(), position);
        if self.json {
            self.tell_in_time(&mut state);
            return;
        }
        self.bar.set_position(position);
        self.bar.set_prefix(self.text(&state, position, &shown(&state)));
    }

    pub(crate) fn say(&self, doing: impl Into<String>) {
        self.bar.set_message(escaped(&shown_text(&doing.into())).into_owned());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn len(&self) -> Option<u64> {
        Some(self.len.load(Relaxed)).filter(|len| *len > 0)
    }

    fn measure(&self, far: Far) -> u64 {
        if self.unit == Unit::Bytes { far.input } else { far.samples }
    }

    /// `1,000 of 2,400 samples`
    fn count(&self, position: u64) -> String {
        match (self.unit, self.len()) {
            (Unit::Bytes, Some(len)) => {
                format!("{} of {}", units::bytes(position), units::bytes(len))
            }
            (Unit::Bytes, None) => units::bytes(position),
            (_, Some(len)) => format!("{} of {}", units::count(position), self.noun(len)),
            (_, None) => self.noun(position),
        }
    }

    fn noun(&self, count: u64) -> String {
        units::counted(count, if self.unit == Unit::Rows { "row" } else { "sample" })
    }

    /// The first parts stay longest where the terminal is narrow.
    fn text(&self, state: &State, position: u64, count: &str) -> String {
        let Some(len) = self.len() else {
            // The time follows at once.
            return format!("{count} ");
        };
        match state.pace.left(len.saturating_sub(position)) {
            Some(left) => format!("{} left, {count}", units::time(left)),
            None => count.to_owned(),
        }
    }

    /// A line for programs, unless there was one just now.
    fn tell_in_time(&self, state: &mut State) {
        if state.told.is_none_or(|told| told.elapsed() >= TELL) {
            state.told = Some(Instant::now());
            self.tell(state);
        }
    }

    /// A line for programs.
    fn tell(&self, state: &State) {
        let (first, far) = (state.first.unwrap_or_default(), state.last);
        let seconds = state.start.elapsed().as_secs_f64();
        let per_second = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds.max(1e-9);
        let rate = per_second(self.measure(far), self.measure(first));
        let len = self.len();
        let left = len.filter(|_| rate > 0.0);
        let noun = if self.unit == Unit::Rows { "rows" } else { "samples" };
        let line = serde_json::json!({
            "doing": self.bar.message(),
            "input_bytes": far.input,
            noun: far.samples,
            "bytes": far.bytes,
            "seconds": seconds,
            format!("{noun}_per_second"): per_second(far.samples, first.samples),
            "bytes_per_second": per_second(far.bytes, first.bytes),
            "done": len.map(|len| self.measure(far) as f64 / len as f64),
            "seconds_left": left.map(|len| len.saturating_sub(self.measure(far)) as f64 / rate),
        });
        say(&line.to_string());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(Watch { done, thread }) = self.watch.take() {
            drop(done);
            let _ = thread.join();
        }
        if self.json {
            self.tell(&self.state());
        }
        self.bar.finish_and_clear();
    }
}

/// With a length, or without one.
fn style(has_length: bool) -> ProgressStyle {
    let template = match has_length {
        true => "{msg} {percent:>3} % {bar:20} {prefix}",
        false => "{spinner} {msg} {prefix}{elapsed}",
    };
    // Both are well-formed.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// `1,000 of 2,400 samples, 3.4 k samples/s, 1.2 GB, 120 MB/s`
fn rates(state: &State, count: &str) -> String {
    let (first, far) = (state.first.unwrap_or_default(), state.last);
    let time = state.start.elapsed();
    format!(
        "{count}, {}, {}, {}",
        units::sample_rate(far.samples.saturating_sub(first.samples), time),
        units::bytes(far.bytes),
        units::byte_rate(far.bytes.saturating_sub(first.bytes), time),
    )
}

/// How fast it has been lately. It begins where the command does, so what an earlier run had done
/// counts for nothing.
#[derive(Debug, Default)]
struct Pace {
    seen: VecDeque<(Instant, u64)>,
}

impl Pace {
    /// As long as that, a change of pace is noticed.
    const MEMORY: Duration = Duration::from_secs(20);
    /// Between two that are remembered.
    const STEP: Duration = Duration::from_millis(200);
    /// From less nothing can be said.
    const LEAST: Duration = Duration::from_millis(500);

    fn add(&mut self, now: Instant, position: u64) {
        // The newest one moves on until it is a step behind the one before.
        if let [.., (before, _), _] = *self.seen.make_contiguous() {
            if now.duration_since(before) < Self::STEP {
                self.seen.pop_back();
            }
        }
        self.seen.push_back((now, position));
        while self.seen.len() > 2 && now.duration_since(self.seen[1].0) > Self::MEMORY {
            self.seen.pop_front();
        }
    }

    /// How long the rest takes, if that can be estimated.
    fn left(&self, rest: u64) -> Option<Duration> {
        let ((start, from), (end, to)) = (self.seen.front()?, self.seen.back()?);
        let (time, done) = (end.duration_since(*start), to.saturating_sub(*from));
        if time < Self::LEAST || done == 0 {
            return None;
        }
        Duration::try_from_secs_f64(rest as f64 * time.as_secs_f64() / done as f64).ok()
    }
}

/// Shows the bar when it takes long, from a thread of its own: the command may be busy.
struct Watch {
    done: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watch {
    fn start(bar: &ProgressBar) -> Watch {
        let bar = bar.clone();
        let (done, wait) = channel();
        let thread = std::thread::spawn(move || {
            if wait.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                bar.set_draw_target(ProgressDrawTarget::stderr());
                bar.enable_steady_tick(Duration::from_millis(100));
            }
        });
        Watch { done, thread }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pace that has seen these positions, each this many milliseconds after the start.
    fn pace(seen: &[(u64, u64)]) -> Pace {
        let start = Instant::now();
        let mut pace = Pace::default();
        for (millis, position) in seen {
            pace.add(start + Duration::from_millis(*millis), *position);
        }
        pace
    }

    #[test]
    fn what_was_there_at_the_start_takes_no_time() {
        // 100 a second, not a million.
        let resumed = pace(&[(0, 1_000_000), (1000, 1_000_100)]);
        assert_eq!(resumed.left(1000), Some(Duration::from_secs(10)));
        assert_eq!(pace(&[(0, 1_000_000), (10, 1_000_000)]).left(5), None);
        assert_eq!(pace(&[]).left(5), None);
    }

    #[test]
    fn a_change_of_pace_is_noticed_and_memory_stays_small() {
        // Ten seconds of nothing, then a minute of 1,000 a second.
        let seen: Vec<(u64, u64)> =
            (0..70_000u64).step_by(10).map(|at| (at, at.saturating_sub(10_000))).collect();
        let pace = pace(&seen);
        let left = pace.left(60_000).unwrap().as_secs_f64();
        assert!((left - 60.0).abs() < 0.1, "{left}");
        assert!(pace.seen.len() <= 110, "{}", pace.seen.len());
    }

    #[test]
    fn a_bar_says_how_much_of_what() {
        let show = |unit, len| Progress::new("", unit, len, Show::Nothing);
        assert_eq!(show(Unit::Samples, Some(2400)).count(1000), "1,000 of 2,400 samples");
        assert_eq!(show(Unit::Rows, None).count(1), "1 row");
        assert_eq!(show(Unit::Bytes, Some(3_400_000)).count(1_200_000), "1.2 MB of 3.4 MB");
        // Nothing has no shares.
        assert_eq!(show(Unit::Samples, Some(0)).count(0), "0 samples");
    }
}
