//! [`Shared`]: what threads of Python take turns at.
//!
//! Two locks meet here: the one around a value, and Python's. A thread that has one and waits for the other
//! waits for ever if another thread does the reverse. So no thread waits for a lock of this module while it
//! holds Python's: [`take`] tries, and gives up Python's lock between two tries. It hears Ctrl-C there, too.
//!
//! All mutexes of this crate:
//!
//! | mutex | how it is locked |
//! | --- | --- |
//! | `Writer.open`, `ArrayStore.open`, `StagedVersion.staged` | [`Shared`] |
//! | `Loader.run` | [`take`]; in a process that was forked it is tried once |
//! | `Loader.state`, `Loader.reports`, `Dataset.opened`, the pool | for a copy or a few assignments, during which nothing asks for the lock of Python |
//! | `Dataset.decoder`, the decoder of `unpack` | tried once: while another thread has it, a new decoder does |

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use pyo3::prelude::*;

use crate::errors::bug;
use crate::pool::{self, TICK};

/// Locks for a thread that has the lock of Python.
pub(crate) fn take<'a, T>(py: Python<'_>, mutex: &'a Mutex<T>) -> PyResult<MutexGuard<'a, T>> {
    let mut pause = Duration::from_micros(50);
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(_)) => return Err(bug("another thread panicked")),
            Err(TryLockError::WouldBlock) => {}
        }
        py.detach(|| std::thread::sleep(pause));
        py.check_signals()?;
        pause = (2 * pause).min(TICK);
    }
}

/// A value that one thread works with at a time, without the lock of Python.
pub(crate) struct Shared<T>(Arc<Mutex<T>>);

impl<T: Send + 'static> Shared<T> {
    pub(crate) fn new(value: T) -> Shared<T> {
        Shared(Arc::new(Mutex::new(value)))
    }

    /// The value, for as long as a look at it takes.
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, T>> {
        take(py, &self.0)
    }

    /// Short work on this thread.
    pub(crate) fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut T) -> R + Send,
    ) -> PyResult<R> {
        let mut guard = self.take(py)?;
        let value = &mut *guard;
        Ok(py.detach(|| work(value)))
    }

    /// Long work on another thread. After Ctrl-C it continues there, and others wait for the value until it
    /// is done.
    pub(crate) fn apart<R: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> PyResult<R> {
        let this = self.0.clone();
        pool::apart(py, move || {
            // Not in the pool: a thread of it that waits in there does work of others, which may want this lock.
            let mut guard = this.lock().map_err(|_| bug("another thread panicked"))?;
            let value = &mut *guard;
            Ok(pool::shared()?.install(|| work(value)))
        })?
    }

    /// The same with another value too.
    pub(crate) fn apart_with<U: Send + 'static, R: Send + 'static>(
        &self,
        py: Python<'_>,
        other: &Shared<U>,
        work: impl FnOnce(&mut T, &mut U) -> R + Send + 'static,
    ) -> PyResult<R> {
        let (this, other) = (self.0.clone(), other.0.clone());
        pool::apart(py, move || {
            let mut this = this.lock().map_err(|_| bug("another thread panicked"))?;
            let mut other = other.lock().map_err(|_| bug("another thread panicked"))?;
            let (this, other) = (&mut *this, &mut *other);
            Ok(pool::shared()?.install(|| work(this, other)))
        })?
    }

    /// The value, if no thread has it: where nothing can wait.
    pub(crate) fn try_take(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}
