//! [`Batches`]: batches in order, made on threads.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};

use super::Shared;
use super::build::{Built, build};
use crate::error::{Error, ErrorKind, Result};
use crate::guard::guarded;
use crate::storage::read_ahead::stoppable;

/// About how many bytes of columns are made at a time.
const TASK_BYTES: usize = 16 << 20;

/// The rows of a table in batches, in order: made by [`Table::batches`](super::Table::batches).
///
/// Each thread makes the batch of a range of samples. They are a few batches ahead of who reads them, and end when this
/// is dropped.
#[must_use = "batches are made while they are read"]
pub struct Batches {
    table: Arc<Shared>,
    work: Arc<Work>,
    threads: Vec<JoinHandle<()>>,
    /// The range that the next batch begins in.
    next: usize,
    /// What is left of the range of the last batch, which was cut as it was large.
    rest: Range<usize>,
    is_over: bool,
}

/// Ranges of samples, and the batches that were made of them.
struct Work {
    samples: usize,
    /// Samples of each range.
    rows: usize,
    /// How many batches there may be at a time.
    ahead: usize,
    stop: Arc<AtomicBool>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The next range that no thread works on.
    begun: usize,
    /// Ranges whose batches were taken.
    taken: usize,
    made: BTreeMap<usize, Result<Built>>,
}

impl Work {
    fn range(&self, number: usize) -> Option<Range<usize>> {
        let start = number.checked_mul(self.rows).filter(|start| *start < self.samples)?;
        Some(start..start.saturating_add(self.rows).min(self.samples))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes batches until there are no more ranges.
    fn run(&self, table: &Shared) {
        loop {
            let mut state = self.state();
            while state.begun >= state.taken + self.ahead && !self.stop.load(Relaxed) {
                state = self.wait(state);
            }
            let number = state.begun;
            let Some(range) = self.range(number).filter(|_| !self.stop.load(Relaxed)) else {
                return;
            };
            state.begun += 1;
            drop(state);
            let built = made(table, range);
            let failed = built.is_err();
            let mut state = self.state();
            state.made.insert(number, built);
            if failed {
                // No later batch is read.
                state.begun = self.samples;
            }
            drop(state);
            self.changed.notify_all();
        }
    }
}

fn made(table: &Shared, range: Range<usize>) -> Result<Built> {
    guarded(|| build(table, range)).unwrap_or_else(|| {
        Err(Error::new(ErrorKind::Other, "making a batch failed, which is a bug"))
    })
}

impl Batches {
    pub(super) fn new(table: Arc<Shared>) -> Batches {
        let samples = table.reader.len();
        let rows = (TASK_BYTES / table.columns.row_bytes.max(1)).clamp(1, table.rows);
        let threads = table.threads.max(1);
        let work = Work {
            samples,
            rows,
            ahead: threads + 2,
            stop: Arc::new(AtomicBool::new(false)),
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        let work = Arc::new(work);
        Batches { table, work, threads: Vec::new(), next: 0, rest: 0..0, is_over: false }
    }

    /// Starts threads, unless there is one batch.
    fn start(&mut self) -> Result<()> {
        let ranges = self.work.samples.div_ceil(self.work.rows);
        let threads = (self.work.ahead - 2).min(ranges);
        for _ in 0..threads {
            let (work, table) = (self.work.clone(), self.table.clone());
            let stop = work.stop.clone();
            let run = move || stoppable(&stop, || work.run(&table));
            let started = thread::Builder::new().name("kiste-table".to_owned()).spawn(run);
            match started {
                Ok(thread) => self.threads.push(thread),
                Err(error) if self.threads.is_empty() => {
                    return Err(Error::os("starting a thread", error));
                }
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if !self.rest.is_empty() {
            let built = made(&self.table, self.rest.clone())?;
            self.rest.start = built.end;
            return Ok(Some(built.batch));
        }
        let Some(range) = self.work.range(self.next) else { return Ok(None) };
        let is_only = range.len() == self.work.samples;
        let built = if is_only {
            made(&self.table, range.clone())?
        } else {
            if self.threads.is_empty() {
                self.start()?;
            }
            let mut state = self.work.state();
            let built = loop {
                match state.made.remove(&self.next) {
                    Some(built) => break built,
                    None => state = self.work.wait(state),
                }
            };
            state.taken += 1;
            drop(state);
            self.work.changed.notify_all();
            built?
        };
        self.next += 1;
        self.rest = built.end..range.end;
        Ok(Some(built.batch))
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    /// The next batch. After an error there are no more.
    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.next_batch();
        self.is_over = !matches!(next, Ok(Some(_)));
        next.map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose()
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.table.columns.schema.clone()
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.work.stop.store(true, Relaxed);
        // Held, so that no thread is about to wait.
        drop(self.work.state());
        self.work.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic was an error of its batch.
            let _ = thread.join();
        }
    }
}
