//! Threads for work on whole datasets, which a forked process makes anew.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::errors::bug;

/// The pool, and the process that its threads are in.
static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// Does work in the pool, without the lock of Python. Rayon's own global pool would wait forever in a
/// forked process, where its threads are gone.
pub(crate) fn run<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| {
        let pool = shared()?;
        Ok(pool.install(work))
    })
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
