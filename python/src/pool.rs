//! Threads for work on whole datasets, which a forked process makes anew; and waiting for them, which Ctrl-C ends.
//!
//! Python tells only its main thread of Ctrl-C, and only when that asks. So all work that may take longer
//! than a moment runs on another thread, and the one that called asks between two ticks. Work that cannot be
//! stopped continues alone then: it reads, or it publishes something as a whole.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::errors::bug;

/// How often the thread that waits looks for Ctrl-C.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// The pool, and the process that its threads are in.
static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// The result of some work, or its panic.
type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// Does work in the pool, without the lock of Python. Rayon's own global pool would wait forever in a
/// forked process, where its threads are gone.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (answer, answers) = sync_channel(1);
    shared()?.spawn(move || tell(&answer, work));
    wait(py, answers)
}

/// Does work on a thread of its own, without the lock of Python: for what waits for others.
pub(crate) fn apart<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (answer, answers) = sync_channel(1);
    let thread = std::thread::Builder::new().name("pykiste".to_owned());
    thread
        .spawn(move || tell(&answer, work))
        .map_err(|error| crate::errors::raise(kiste::Error::os("starting a thread", error)))?;
    wait(py, answers)
}

fn tell<T>(answer: &SyncSender<Outcome<T>>, work: impl FnOnce() -> T) {
    // Where nothing waits any more, the answer is dropped.
    let _ = answer.send(catch_unwind(AssertUnwindSafe(work)));
}

fn wait<T: Send>(py: Python<'_>, mut answers: Receiver<Outcome<T>>) -> PyResult<T> {
    loop {
        let (back, answer) = py.detach(move || {
            let answer = answers.recv_timeout(TICK);
            (answers, answer)
        });
        answers = back;
        match answer {
            Ok(outcome) => return outcome.map_or_else(|panic| resume_unwind(panic), Ok),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(bug("a thread ended without an answer"));
            }
        }
    }
}

/// The pool of this process.
pub(crate) fn shared() -> PyResult<Arc<ThreadPool>> {
    let process = std::process::id();
    let mut known = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((of, pool)) = &*known {
        if *of == process {
            return Ok(pool.clone());
        }
        // Dropping it would wait for threads that are not here.
        std::mem::forget(known.take());
    }
    let pool = Arc::new(ThreadPoolBuilder::new().build().map_err(bug)?);
    *known = Some((process, pool.clone()));
    Ok(pool)
}
