//! Long work under the eyes of Python: progress is told to a callback, and Ctrl-C stops it.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use kiste::convert::{Monitor, Notice, Phase, Progress, Total};
use kiste::reader::{Location, Reader};
use kiste::{DatasetReader, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{bug, raise};
use crate::pool;

/// How often the calling thread looks for Ctrl-C.
const TICK: Duration = Duration::from_millis(50);

/// What work reports, on its way to the thread that called it.
enum News {
    Phase(&'static str, Total),
    Progress(Progress),
    Notice(String),
}

/// Where work reports to, and hears whether to stop.
pub(crate) struct Messenger<'a> {
    news: Sender<News>,
    cancelled: &'a AtomicBool,
    /// When progress was sent last.
    sent: Option<Instant>,
}

impl Messenger<'_> {
    /// Something begins that has this many samples.
    pub(crate) fn begin_samples(&mut self, phase: &'static str, samples: usize) {
        self.sent = None;
        let mut total = Total::default();
        total.samples = Some(samples as u64);
        let _ = self.news.send(News::Phase(phase, total));
    }

    /// This many samples are done. Fails if the work is to stop.
    pub(crate) fn reached(&mut self, samples: u64) -> kiste::Result<()> {
        check(self.cancelled)?;
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

impl Monitor for Messenger<'_> {
    fn begin(&mut self, phase: Phase, total: Total) {
        let name = match phase {
            Phase::Converting | Phase::Part(_) => "converting",
            Phase::Joining => "joining",
            Phase::Shuffling | Phase::Scattering(_) => "shuffling",
            Phase::Uploading => "uploading",
            Phase::Finishing => "finishing",
            _ => "working",
        };
        // A receiver that is gone has stopped listening, not the conversion.
        let _ = self.news.send(News::Phase(name, total));
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

/// A reader that fails as soon as the work is to stop: for functions that hear it in no other way.
pub(crate) struct Stoppable<'a> {
    reader: &'a DatasetReader,
    cancelled: &'a AtomicBool,
}

impl<'a> Messenger<'a> {
    pub(crate) fn stoppable(&self, reader: &'a DatasetReader) -> Stoppable<'a> {
        Stoppable { reader, cancelled: self.cancelled }
    }
}

impl Reader for Stoppable<'_> {
    fn len(&self) -> usize {
        Reader::len(self.reader)
    }

    fn key(&self, index: usize) -> kiste::Result<Cow<'_, str>> {
        check(self.cancelled)?;
        self.reader.key(index)
    }

    fn find(&self, key: &str) -> kiste::Result<Option<usize>> {
        self.reader.find(key)
    }

    fn get_raw(&self, index: usize) -> kiste::Result<Cow<'_, [u8]>> {
        check(self.cancelled)?;
        self.reader.get_raw(index)
    }

    fn locate(&self, index: usize) -> Location {
        self.reader.locate(index)
    }
}

/// Runs work on a thread of its own. This one, which alone hears of signals, waits, calls back, and asks
/// the work to stop if that raises an exception.
pub(crate) fn watched<'py, T: Send>(
    py: Python<'py>,
    callback: Option<Bound<'py, PyAny>>,
    run: impl FnOnce(&mut Messenger<'_>) -> kiste::Result<T> + Send,
) -> PyResult<T> {
    let cancelled = AtomicBool::new(false);
    let callback = callback.map(Bound::unbind);
    let (raised, finished) = py.detach(|| {
        let (news, heard) = channel();
        let mut raised = None;
        let finished = std::thread::scope(|scope| {
            let mut messenger = Messenger { news, cancelled: &cancelled, sent: None };
            let worker = scope.spawn(move || {
                let pool = pool::shared()?;
                Ok(pool.install(|| run(&mut messenger)))
            });
            let mut state = State::default();
            loop {
                let first = match heard.recv_timeout(TICK) {
                    Ok(news) => Some(news),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                let is_new = first.is_some();
                first.into_iter().chain(heard.try_iter()).for_each(|news| state.take(news));
                if raised.is_some() {
                    continue;
                }
                let called = Python::attach(|py| {
                    py.check_signals()?;
                    match &callback {
                        Some(callback) if is_new => state.tell(py, callback.bind(py)),
                        _ => Ok(()),
                    }
                });
                if let Err(error) = called {
                    cancelled.store(true, Relaxed);
                    raised = Some(error);
                }
            }
            worker.join().map_err(|_| bug("a thread panicked"))
        });
        (raised, finished)
    });
    let result: PyResult<kiste::Result<T>> = finished?;
    match (raised, result?) {
        // Too late to stop it: what it wrote is whole, and the caller hears of the exception.
        (Some(raised), _) => Err(raised),
        (None, result) => result.map_err(raise),
    }
}

/// What the callback is told.
#[derive(Default)]
struct State {
    phase: &'static str,
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
        dict.set_item("phase", self.phase)?;
        dict.set_item("samples", self.progress.samples)?;
        dict.set_item("bytes", self.progress.bytes)?;
        dict.set_item("input_bytes", self.progress.input_bytes)?;
        dict.set_item("total_samples", self.total.samples)?;
        dict.set_item("total_input_bytes", self.total.input_bytes)?;
        dict.set_item("notices", std::mem::take(&mut self.notices))?;
        callback.call1((dict,)).map(drop)
    }
}
