//! Long work that Python watches: a callback gets its progress, and Ctrl-C stops it.

use std::borrow::Cow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kiste::ErrorKind;
use kiste::compose::Doing;
use kiste::convert::{Monitor, Notice, Phase, Progress, Total};
use kiste::reader::{Location, Reader};
use kiste::sampler::Lengths;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{bug, raise};
use crate::pool::{self, TICK};

/// How often the callback is called at most. Reports in between are merged.
const EACH: Duration = Duration::from_millis(250);

/// How long work that was stopped by Ctrl-C has to end and to clean up, before it is left alone.
const GRACE: Duration = Duration::from_millis(300);

/// A report from the work, on its way to the thread that called it.
enum News {
    Phase(Cow<'static, str>, Total),
    Progress(Progress),
    Notice(String),
}

/// Where work reports to, and hears whether to stop.
pub(crate) struct Messenger {
    news: Sender<News>,
    cancelled: Arc<AtomicBool>,
    /// When progress was sent last.
    sent: Option<Instant>,
    /// The step that was reported last, and how many samples it has.
    step: Option<(String, u64)>,
}

impl Messenger {
    /// Something begins that has this many samples.
    pub(crate) fn begin_samples(&mut self, phase: &'static str, samples: usize) {
        self.sent = None;
        let mut total = Total::default();
        total.samples = Some(samples as u64);
        let _ = self.news.send(News::Phase(phase.into(), total));
    }

    /// How far a step is that begins with its first report. Fails if the work is to stop.
    pub(crate) fn doing(&mut self, doing: Doing<'_>) -> kiste::Result<()> {
        let is_same = |(what, total): &(String, u64)| what == doing.what && *total == doing.total;
        if !self.step.as_ref().is_some_and(is_same) {
            self.step = Some((doing.what.to_owned(), doing.total));
            self.sent = None;
            let mut total = Total::default();
            total.samples = Some(doing.total);
            let _ = self.news.send(News::Phase(doing.what.to_owned().into(), total));
        }
        self.reached(doing.done)
    }

    /// Hears, on any thread, how many bytes are read.
    pub(crate) fn bytes(&self, phase: &'static str) -> Bytes {
        let (news, cancelled) = (self.news.clone(), self.cancelled.clone());
        Bytes { news, cancelled, phase, sent: Mutex::new(None) }
    }

    /// This many samples are done. Fails if the work is to stop.
    pub(crate) fn reached(&mut self, samples: u64) -> kiste::Result<()> {
        check(&self.cancelled)?;
        // Each message wakes the thread that waits, and may take the lock of Python.
        if self.sent.is_none_or(|sent| sent.elapsed() >= TICK) {
            self.sent = Some(Instant::now());
            let mut progress = Progress::default();
            progress.samples = samples;
            let _ = self.news.send(News::Progress(progress));
        }
        Ok(())
    }
}

impl Monitor for Messenger {
    fn begin(&mut self, phase: Phase, total: Total) {
        let name = match phase {
            Phase::Converting | Phase::Part(_) => "converting",
            Phase::Joining => "joining",
            Phase::Scattering(_) => "shuffling",
            Phase::Finishing => "finishing",
            _ => "working",
        };
        // A receiver that is gone has stopped listening, not the conversion.
        let _ = self.news.send(News::Phase(name.into(), total));
    }

    fn progress(&mut self, progress: Progress) {
        let _ = self.news.send(News::Progress(progress));
    }

    fn notice(&mut self, notice: Notice) {
        let _ = self.news.send(News::Notice(notice.to_string()));
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }
}

fn check(cancelled: &AtomicBool) -> kiste::Result<()> {
    match cancelled.load(Relaxed) {
        true => Err(kiste::Error::new(ErrorKind::Cancelled, "stopped by the caller")),
        false => Ok(()),
    }
}

/// Where work that reads bytes on several threads reports to, and hears whether to stop.
pub(crate) struct Bytes {
    news: Sender<News>,
    cancelled: Arc<AtomicBool>,
    phase: &'static str,
    /// When something was sent last, and how many bytes there were then.
    sent: Mutex<Option<(Instant, u64)>>,
}

impl Bytes {
    /// This many bytes of this many are read. Fails if the work is to stop.
    pub(crate) fn reached(&self, done: u64, of: u64) -> kiste::Result<()> {
        check(&self.cancelled)?;
        // Where another thread is about to tell, this one need not.
        let Ok(mut sent) = self.sent.try_lock() else { return Ok(()) };
        if sent.is_some_and(|(when, total)| total == of && when.elapsed() < TICK) {
            return Ok(());
        }
        if sent.is_none_or(|(_, total)| total != of) {
            let mut total = Total::default();
            total.input_bytes = Some(of);
            let _ = self.news.send(News::Phase(self.phase.into(), total));
        }
        *sent = Some((Instant::now(), of));
        let mut progress = Progress::default();
        progress.input_bytes = done;
        let _ = self.news.send(News::Progress(progress));
        Ok(())
    }
}

/// A reader that fails as soon as the work is to stop: for functions that hear it in no other way.
pub(crate) struct Stoppable<'a> {
    reader: &'a dyn Reader,
    cancelled: Arc<AtomicBool>,
}

impl Messenger {
    pub(crate) fn stoppable<'a>(&self, reader: &'a dyn Reader) -> Stoppable<'a> {
        Stoppable { reader, cancelled: self.cancelled.clone() }
    }
}

impl Reader for Stoppable<'_> {
    fn len(&self) -> usize {
        self.reader.len()
    }

    fn key(&self, index: usize) -> kiste::Result<Cow<'_, str>> {
        check(&self.cancelled)?;
        self.reader.key(index)
    }

    fn find(&self, key: &str) -> kiste::Result<Option<usize>> {
        self.reader.find(key)
    }

    fn get_raw(&self, index: usize) -> kiste::Result<Cow<'_, [u8]>> {
        check(&self.cancelled)?;
        self.reader.get_raw(index)
    }

    fn find_all(&self, key: &str) -> kiste::Result<Vec<usize>> {
        self.reader.find_all(key)
    }

    fn may_repeat_keys(&self) -> bool {
        self.reader.may_repeat_keys()
    }

    fn labels(&self) -> kiste::Result<Option<Vec<String>>> {
        self.reader.labels()
    }

    fn identity(&self) -> kiste::Result<String> {
        self.reader.identity()
    }

    fn name(&self) -> Option<&Path> {
        self.reader.name()
    }

    fn is_remote(&self) -> bool {
        self.reader.is_remote()
    }

    fn known_len(&self, index: usize) -> kiste::Result<Option<u64>> {
        self.reader.known_len(index)
    }

    fn sample_bytes(&self) -> Option<u64> {
        self.reader.sample_bytes()
    }

    fn prefetch(&self, indices: &[usize]) {
        self.reader.prefetch(indices);
    }

    fn locate(&self, index: usize) -> Location {
        self.reader.locate(index)
    }

    fn lengths(&self, column: &str) -> kiste::Result<Option<Arc<dyn Lengths>>> {
        self.reader.lengths(column)
    }
}

/// Runs work on a thread of its own. This one, which alone hears of signals, waits, calls back, and asks
/// the work to stop if that raises an exception. Work that does not stop soon after Ctrl-C is left alone.
pub(crate) fn watched<T: Send + 'static>(
    py: Python<'_>,
    callback: Option<Bound<'_, PyAny>>,
    run: impl FnOnce(&mut Messenger) -> kiste::Result<T> + Send + 'static,
) -> PyResult<T> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let (news, heard) = channel();
    let mut messenger = Messenger { news, cancelled: cancelled.clone(), sent: None, step: None };
    let thread = std::thread::Builder::new().name("pykiste".to_owned());
    let worker =
        thread.spawn(move || pool::shared().map(|pool| pool.install(|| run(&mut messenger))));
    let worker = worker.map_err(|error| raise(kiste::Error::os("starting a thread", error)))?;
    let told = Told { callback, state: State::default(), is_new: false, last: None };
    let mut watch = Watch { told, cancelled, raised: None, until: None };
    match watch.listen(py, heard) {
        true => join(py, worker, watch.raised),
        false => Err(watch.raised.unwrap_or_else(|| bug("nothing stopped the work"))),
    }
}

fn join<T: Send>(
    py: Python<'_>,
    worker: JoinHandle<PyResult<kiste::Result<T>>>,
    raised: Option<PyErr>,
) -> PyResult<T> {
    let result = py.detach(|| worker.join()).map_err(|_| bug("a thread panicked"))??;
    match raised {
        // Too late to stop it: what it wrote is whole, and the caller hears of the exception.
        Some(raised) => Err(raised),
        None => result.map_err(raise),
    }
}

/// The thread that waits.
struct Watch<'py> {
    told: Told<'py>,
    cancelled: Arc<AtomicBool>,
    raised: Option<PyErr>,
    /// When to wait no longer.
    until: Option<Instant>,
}

impl Watch<'_> {
    /// Waits for the end of the work. Returns whether that came.
    fn listen(&mut self, py: Python<'_>, mut heard: Receiver<News>) -> bool {
        while self.until.is_none_or(|until| Instant::now() < until) {
            let (back, first) = py.detach(move || {
                let first = heard.recv_timeout(TICK);
                (heard, first)
            });
            heard = back;
            let has_ended = matches!(first, Err(RecvTimeoutError::Disconnected));
            first.into_iter().chain(heard.try_iter()).for_each(|news| self.told.take(news));
            self.look(py, has_ended);
            if has_ended {
                return true;
            }
        }
        false
    }

    /// Looks for Ctrl-C, and calls back: at the end with all that was not told yet.
    fn look(&mut self, py: Python<'_>, has_ended: bool) {
        if let Err(error) = py.check_signals() {
            self.until.get_or_insert_with(|| Instant::now() + GRACE);
            self.stop(error);
        }
        if self.raised.is_none() && (has_ended || self.told.is_due()) {
            if let Err(error) = self.told.tell(py) {
                self.stop(error);
            }
        }
    }

    fn stop(&mut self, error: PyErr) {
        self.cancelled.store(true, Relaxed);
        self.raised.get_or_insert(error);
    }
}

/// A callback, and what it was told.
pub(crate) struct Told<'py> {
    callback: Option<Bound<'py, PyAny>>,
    state: State,
    /// Whether there is something that it was not told.
    is_new: bool,
    /// When it was called last.
    last: Option<Instant>,
}

impl<'py> Told<'py> {
    /// For work on this thread, which has this many samples.
    pub(crate) fn samples(
        callback: Option<Bound<'py, PyAny>>,
        phase: &'static str,
        samples: usize,
    ) -> Told<'py> {
        let mut told = Told { callback, state: State::default(), is_new: false, last: None };
        let mut total = Total::default();
        total.samples = Some(samples as u64);
        told.take(News::Phase(phase.into(), total));
        told
    }

    /// This many samples are done.
    pub(crate) fn reached(&mut self, py: Python<'py>, samples: usize) -> PyResult<()> {
        self.state.progress.samples = samples as u64;
        self.is_new = true;
        if self.is_due() { self.tell(py) } else { Ok(()) }
    }

    fn take(&mut self, news: News) {
        self.state.take(news);
        self.is_new = true;
    }

    fn is_due(&self) -> bool {
        self.callback.is_some() && self.last.is_none_or(|last| last.elapsed() >= EACH)
    }

    /// Calls it, if there is news.
    fn tell(&mut self, py: Python<'_>) -> PyResult<()> {
        let (Some(callback), true) = (&self.callback, self.is_new) else { return Ok(()) };
        (self.is_new, self.last) = (false, Some(Instant::now()));
        self.state.tell(py, callback)
    }
}

/// The progress that the callback gets.
#[derive(Default)]
struct State {
    phase: Cow<'static, str>,
    total: Total,
    progress: Progress,
    notices: Vec<String>,
}

impl State {
    fn take(&mut self, news: News) {
        match news {
            News::Phase(phase, total) => {
                (self.phase, self.total, self.progress) = (phase, total, Progress::default());
            }
            News::Progress(progress) => self.progress = progress,
            News::Notice(notice) => self.notices.push(notice),
        }
    }

    fn tell(&mut self, py: Python<'_>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        let dict = PyDict::new(py);
        dict.set_item("phase", &*self.phase)?;
        dict.set_item("samples", self.progress.samples)?;
        dict.set_item("bytes", self.progress.bytes)?;
        dict.set_item("input_bytes", self.progress.input_bytes)?;
        dict.set_item("total_samples", self.total.samples)?;
        dict.set_item("total_input_bytes", self.total.input_bytes)?;
        dict.set_item("notices", std::mem::take(&mut self.notices))?;
        callback.call1((dict,)).map(drop)
    }
}
