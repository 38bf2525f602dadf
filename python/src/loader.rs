//! [`Loader`] and [`Batch`]: batches from the threads of the library.
#![allow(
    unsafe_code,
    reason = "arrays of NumPy that share memory with a batch, in both directions"
)]

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::ThreadId;
use std::time::Duration;

use kiste::loader::{
    ColumnBatch, ColumnMemory, Element, LoaderReport, Memory, OnError, PackedRows, Reporter,
};
use kiste::reader::Reader;
use kiste::sampler::{Sequential, State, Tail};
use numpy::ndarray::{ArrayViewMutD, IxDyn};
use numpy::{
    IntoPyArray, PyArray1, PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySlice, PyString, PyType};

use crate::columns::{Column, Form, all_of, with_types};
use crate::dataset::{Dataset, shared};
use crate::decode::Decoder;
use crate::errors::{bug, invalid, misused, no_buffer, no_index, no_key, raise, wrong_type};
use crate::indices::Position;
use crate::lock;
use crate::pool::{self, TICK};
use crate::sampler::Sampler;

/// The memory of an array of NumPy or of a tensor, which batches are written to.
struct Given {
    data: *mut u8,
    len: usize,
    /// Keeps the memory.
    _array: Py<PyAny>,
    /// Keep it where it is: see [`pins`].
    _pins: Vec<Py<PyAny>>,
}

/// Weak references to an array and to those that it is a view of. NumPy resizes no array that has some, also with
/// `refcheck=False`: the memory would move, or be freed.
fn pins(array: &Bound<'_, PyAny>) -> PyResult<Vec<Py<PyAny>>> {
    let weak = array.py().import("weakref")?.getattr("ref")?;
    let (mut pins, mut owner) = (Vec::new(), array.clone());
    while owner.is_instance_of::<PyUntypedArray>() {
        pins.push(weak.call1((&owner,))?.unbind());
        owner = owner.getattr("base")?;
    }
    Ok(pins)
}

// SAFETY: the memory is not bound to a thread. Only the batch that has this set of buffers writes to
// it, and Python sees it through arrays that keep that batch. A caller who uses the array itself in the
// meantime sees it change, as the documentation of `buffers` says.
unsafe impl Send for Given {}
// SAFETY: as above.
unsafe impl Sync for Given {}

impl AsRef<[u8]> for Given {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `_array` keeps these bytes alive, and they are all initialised memory of an array.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

impl AsMut<[u8]> for Given {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above. The array is writable, and no two buffers of a loader overlap.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.len) }
    }
}

impl Given {
    /// The memory of an array that has the type and shape of a column.
    fn parse(
        column: &Column,
        batch_size: u64,
        set: usize,
        given: &Bound<'_, PyAny>,
    ) -> PyResult<Given> {
        let wrong = |expected: &str, found: &str| {
            let name = &column.name;
            let message =
                format!("buffer {set} of column {name:?}: expected {expected}, found {found}");
            invalid(message)
        };
        let Form::Numbers { dtype, shape, .. } = &column.form else {
            return Err(wrong("none, as rows of any length are in memory of the loader", "one"));
        };
        // A tensor of torch shares its memory with the array that it returns, and is no longer resized. What is detached
        // keeps the memory also when the tensor gets another one.
        let is_tensor = given.hasattr("data_ptr")? && given.hasattr("numpy")?;
        let array = match is_tensor {
            true => given.call_method0("detach")?.call_method0("numpy")?,
            false => given.clone(),
        };
        let Ok(array) = array.cast::<PyUntypedArray>() else {
            let found = given.get_type().name()?.to_string();
            return Err(wrong("an array of NumPy or a tensor on the CPU", &found));
        };
        let found = array.getattr("dtype")?;
        if found.getattr("name")?.extract::<String>()? != *dtype
            || !found.getattr("isnative")?.extract::<bool>()?
        {
            return Err(wrong(&format!("type {dtype}"), &found.repr()?.to_string()));
        }
        let shape: Vec<usize> =
            std::iter::once(batch_size as usize).chain(shape.iter().copied()).collect();
        if array.shape() != shape {
            return Err(wrong(&format!("shape {shape:?}"), &format!("{:?}", array.shape())));
        }
        let flags = array.getattr("flags")?;
        let has = |flag: &str| flags.getattr(flag)?.extract::<bool>();
        if !has("c_contiguous")? || !has("aligned")? {
            return Err(wrong("a contiguous array in C order", "another memory order"));
        }
        if !has("writeable")? {
            return Err(wrong("a writable array", "a read-only one"));
        }
        let len: usize = array.getattr("nbytes")?.extract()?;
        // SAFETY: a valid array of NumPy, whose memory starts there as it is contiguous.
        let data = unsafe { (*array.as_array_ptr()).fields.data.cast::<u8>() };
        let pins = pins(array.as_any())?;
        Ok(Given { data, len, _array: array.clone().unbind().into_any(), _pins: pins })
    }

    /// Where its bytes are.
    fn span(&self) -> (usize, usize) {
        (self.data as usize, self.data as usize + self.len)
    }
}

/// The buffers that a caller gives for batches.
struct Buffers {
    memory: ColumnMemory,
    /// One reference is held by each batch that Python has.
    held: Arc<()>,
    process: u32,
}

impl Buffers {
    fn parse(columns: &[Column], batch_size: u64, sets: &Bound<'_, PyAny>) -> PyResult<Buffers> {
        let mut parsed = Vec::new();
        let mut spans = Vec::new();
        for (nth, set) in sets.try_iter()?.enumerate() {
            let set = set?;
            let set = set.cast::<PyDict>()?;
            let mut memory: Vec<(String, Box<dyn Memory>)> = Vec::new();
            for (name, given) in set {
                let name: String = name.extract()?;
                let Some(column) = columns.iter().find(|column| column.name == name) else {
                    let message = format!("buffer {nth} of {name:?}: there is no such column");
                    return Err(invalid(message));
                };
                let given = Given::parse(column, batch_size, nth, &given)?;
                spans.push(given.span());
                memory.push((name, Box::new(given)));
            }
            parsed.push(memory);
        }
        spans.sort_unstable();
        if spans.windows(2).any(|pair| pair[1].0 < pair[0].1) {
            let message = "expected buffers with memory of their own, found two that overlap";
            return Err(invalid(message));
        }
        let memory = ColumnMemory::new(all_of(columns)?, batch_size as usize, parsed);
        Ok(Buffers {
            memory: memory.map_err(raise)?,
            held: Arc::new(()),
            process: std::process::id(),
        })
    }

    /// Fails in a process that was forked: threads of the other one have some of the buffers, and
    /// maybe the lock of the others.
    fn check_process(&self) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        let message = "expected the process that made the loader with these buffers, found one that \
                       was forked from it: make another loader";
        Err(no_buffer(message))
    }

    /// Fails if the caller holds too many batches to leave buffers for the next one.
    fn check_held(&self, queue: usize) -> PyResult<()> {
        let (held, sets) = (Arc::strong_count(&self.held) - 1, self.memory.sets());
        // The queue, one that is handed over, and those that are held.
        let free = sets - 1 - queue.clamp(1, sets - 2);
        if held <= free {
            return Ok(());
        }
        let message = format!(
            "expected at most {free} batches in use with {sets} buffers, found {held}: drop batches \
             and their arrays, or give more buffers"
        );
        Err(no_buffer(message))
    }
}

/// Everything a loader is started with.
struct Settings {
    reader: Arc<dyn Reader>,
    sampler: Arc<dyn kiste::sampler::Sampler>,
    columns: Option<Arc<[Column]>>,
    buffers: Option<Buffers>,
    batch_size: u64,
    rank: u64,
    world: u64,
    threads: Option<usize>,
    queue: usize,
    tail: Option<Tail>,
    on_error: OnError,
    prefetch: bool,
}

impl Settings {
    /// How many batches may be finished or in progress.
    fn queue(&self) -> usize {
        let threads = || std::thread::available_parallelism().map_or(1, usize::from);
        match self.queue {
            0 => 2 * self.threads.unwrap_or_else(threads),
            queue => queue,
        }
    }
}

/// The threads, while they run.
enum Running {
    Samples(kiste::loader::Loader<Vec<Vec<u8>>>),
    Columns(kiste::loader::Loader<ColumnBatch>),
}

impl Running {
    /// Waits until `next` returns at once, at most this long. Returns whether it does.
    fn wait(&mut self, at_most: Duration) -> bool {
        match self {
            Running::Samples(loader) => loader.wait(at_most),
            Running::Columns(loader) => loader.wait(at_most),
        }
    }

    fn next(&mut self, with: With) -> Option<kiste::Result<Batch>> {
        match self {
            Running::Samples(loader) => {
                Some(loader.next()?.map(|batch| Batch::of_samples(batch, with.reader)))
            }
            Running::Columns(loader) => {
                Some(loader.next()?.map(|batch| Batch::of_columns(batch, with.columns, with.held)))
            }
        }
    }

    fn state(&self) -> State {
        match self {
            Running::Samples(loader) => loader.state(),
            Running::Columns(loader) => loader.state(),
        }
    }

    fn reporter(&self) -> Reporter {
        match self {
            Running::Samples(loader) => loader.reporter(),
            Running::Columns(loader) => loader.reporter(),
        }
    }
}

/// The part of a batch that comes from its loader.
struct With {
    reader: Arc<dyn Reader>,
    columns: Option<Arc<[Column]>>,
    held: Option<Arc<()>>,
}

/// The result of waiting for a batch.
enum Turn {
    Batch(Box<Batch>),
    Wait,
    End,
}

/// Batches of a dataset, read and collated by threads that need no lock of Python, in an order that
/// does not depend on them.
///
/// Each `for` loop is one epoch, or what is left of it; the next one is the next epoch.
/// `state_dict()` is two integers, with which any number of ranks resumes at the exact sample.
///
/// With `columns`, batches are written to memory that is used again. `buffers` is memory of the caller
/// for it: three or more dicts, each with a writable array or CPU tensor of shape `(batch_size, …)` for
/// each column, except for columns of `bytes`. A batch has one of these dicts until the batch and all arrays
/// from it are gone. Nothing else may write to it or rely on its content while the loader runs.
///
/// >>> import numpy as np
/// >>> import pykiste as ki
/// >>> path = getfixture("tmp_path") / "numbers.msgpack"
/// >>> with ki.Writer(path) as writer:
/// ...     for number in range(100):
/// ...         writer.write({"key": str(number), "n": number})
/// >>> buffers = [{"n": np.empty(32, "int64")} for _ in range(4)]
/// >>> loader = ki.Loader(ki.open(path), batch_size=32, columns={"n": "int64"}, buffers=buffers)
/// >>> for batch in loader:
/// ...     n = batch["n"]
/// ...     print(n.sum(), any(np.shares_memory(n, buffer["n"]) for buffer in buffers))
/// 496 True
/// 1520 True
/// 2544 True
/// 390 True
#[pyclass(module = "pykiste", frozen)]
pub(crate) struct Loader {
    settings: Settings,
    run: Mutex<Run>,
    /// Where the run is. Changed by the thread that has `run`, and locked for a copy of it, so that it can be asked for
    /// at any time.
    state: Mutex<State>,
    reports: Mutex<Reports>,
    /// The thread that has `run`, while it looks for Ctrl-C.
    listener: Mutex<Option<ThreadId>>,
    /// The process that started the threads. They do not live in one that was forked from it.
    process: AtomicU32,
}

/// The loop. Locked while a batch is waited for.
struct Run {
    running: Option<Running>,
    /// The epoch that the current loop is in, until it ends.
    epoch: Option<u64>,
}

/// Reports about an epoch. Never locked for long, so that they can be asked for at any time.
#[derive(Default)]
struct Reports {
    reporter: Option<Reporter>,
    /// At the beginning of the epoch, unless the threads began with it.
    began: Option<LoaderReport>,
    /// Of the last epoch, until the next one begins.
    ended: Option<LoaderReport>,
}

impl Reports {
    /// The report on this epoch, or the last one.
    fn of_epoch(&self) -> Option<LoaderReport> {
        self.ended.or_else(|| {
            let now = self.reporter.as_ref()?.report();
            Some(self.began.map_or(now, |began| now.since(&began)))
        })
    }

    fn begin_epoch(&mut self) {
        self.began = self.reporter.as_ref().map(Reporter::report);
        if self.began.is_some() {
            self.ended = None;
        }
    }

    /// Threads began, with an epoch.
    fn start(&mut self, running: &Running) {
        *self = Reports { reporter: Some(running.reporter()), ..Reports::default() };
    }

    fn stop(&mut self) {
        *self = Reports { ended: self.of_epoch(), ..Reports::default() };
    }
}

fn no_column(name: &str) -> PyErr {
    no_key(format!("there is no such column: {name:?}"))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Loader {
    fn start(&self, state: State) -> PyResult<Running> {
        let set = &self.settings;
        set.buffers.as_ref().map_or(Ok(()), Buffers::check_process)?;
        let mut options = kiste::loader::Loader::options(set.reader.clone(), set.sampler.clone())
            .batch_size(set.batch_size)
            .rank(set.rank, set.world)
            .queue(set.queue)
            .on_error(set.on_error)
            .prefetch(set.prefetch)
            .resume(state);
        if let Some(threads) = set.threads {
            options = options.threads(threads);
        }
        if let Some(tail) = set.tail {
            options = options.tail(tail);
        }
        Ok(match &set.columns {
            None => Running::Samples(options.raw().map_err(raise)?),
            Some(columns) => Running::Columns(
                match &set.buffers {
                    Some(buffers) => options.columns_in(&buffers.memory),
                    None => options.columns(all_of(columns)?),
                }
                .map_err(raise)?,
            ),
        })
    }

    /// Where the run is after the batches so far. Another thread may wait for the next one.
    fn state(&self) -> State {
        *locked(&self.state)
    }

    fn is_of_this_process(&self) -> bool {
        self.process.load(Relaxed) == std::process::id()
    }

    /// Another thread may be waiting for a batch.
    fn run(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Run>> {
        if *locked(&self.listener) == Some(std::thread::current().id()) {
            // It would wait for itself.
            return Err(misused(
                "expected one call of a loader at a time, found one by a handler of the signal that interrupted it",
            ));
        }
        if self.is_of_this_process() {
            return lock::take(py, &self.run);
        }
        match self.run.try_lock() {
            Ok(run) => Ok(run),
            Err(TryLockError::Poisoned(error)) => Ok(error.into_inner()),
            // That thread is not in this process.
            Err(TryLockError::WouldBlock) => Err(misused(
                "expected a loader that no other thread used when this process was forked: make \
                 another one",
            )),
        }
    }

    /// Does work for the thread that has `run`, until Ctrl-C.
    fn apart<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> PyResult<T> {
        *locked(&self.listener) = Some(std::thread::current().id());
        let done = pool::apart(py, work);
        *locked(&self.listener) = None;
        done
    }

    /// Ends the threads, if they belong to this process. Waiting for another process's threads would not
    /// end: their memory is left alone.
    fn stop(&self, py: Python<'_>, run: &mut Run) -> PyResult<()> {
        locked(&self.reports).stop();
        let Some(running) = run.running.take() else { return Ok(()) };
        if self.is_of_this_process() {
            return self.apart(py, move || drop(running));
        }
        std::mem::forget(running);
        Ok(())
    }

    /// Whether the epoch of the loop has another batch.
    fn goes_on(&self, py: Python<'_>, run: &mut Run) -> PyResult<bool> {
        if !self.is_of_this_process() {
            self.stop(py, run)?;
            self.process.store(std::process::id(), Relaxed);
        }
        let state = self.state();
        if run.epoch.is_none() {
            run.epoch = Some(state.epoch);
            locked(&self.reports).begin_epoch();
        }
        if run.epoch != Some(state.epoch) {
            let mut reports = locked(&self.reports);
            reports.ended = reports.of_epoch();
            run.epoch = None;
            return Ok(false);
        }
        if let Some(buffers) = &self.settings.buffers {
            buffers.check_process()?;
            buffers.check_held(self.settings.queue())?;
        }
        Ok(true)
    }

    /// Waits for the next batch, for a tick.
    fn turn(&self, py: Python<'_>) -> PyResult<Turn> {
        let mut run = self.run(py)?;
        if !self.goes_on(py, &mut run)? {
            return Ok(Turn::End);
        }
        let mut running = match run.running.take() {
            Some(running) => running,
            None => {
                let started = self.start(self.state())?;
                locked(&self.reports).start(&started);
                started
            }
        };
        let set = &self.settings;
        let held = set.buffers.as_ref().map(|buffers| buffers.held.clone());
        let with = With { reader: set.reader.clone(), columns: set.columns.clone(), held };
        if set.threads != Some(0) && !py.detach(|| running.wait(TICK)) {
            run.running = Some(running);
            return Ok(Turn::Wait);
        }
        let make = move || (running.next(with), running);
        // Without threads this makes the batch. After Ctrl-C that is left alone, and the next call begins where this one did.
        let (batch, running) =
            if set.threads == Some(0) { self.apart(py, make)? } else { py.detach(make) };
        *locked(&self.state) = running.state();
        run.running = Some(running);
        Ok(batch
            .transpose()
            .map_err(raise)?
            .map_or(Turn::End, |batch| Turn::Batch(Box::new(batch))))
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        let is_here = self.is_of_this_process();
        let running = self.run.get_mut().unwrap_or_else(PoisonError::into_inner).running.take();
        let Some(running) = running else { return };
        if !is_here {
            return std::mem::forget(running);
        }
        if self.settings.buffers.is_some() {
            // No thread writes to memory that the caller has back.
            let mut running = Some(running);
            let _ = Python::try_attach(|py| py.detach(|| drop(running.take())));
            return;
        }
        // Threads end once they have made the batch that they are at, which nothing waits for.
        let _ = std::thread::Builder::new().spawn(move || drop(running));
    }
}

#[pymethods]
impl Loader {
    #[new]
    #[pyo3(signature = (dataset, sampler=None, *, batch_size=64, columns=None, rank=0, world=1,
        threads=None, queue=0, tail=None, on_error="raise", prefetch=false, buffers=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        dataset: PyRef<'_, Dataset>,
        sampler: Option<PyRef<'_, Sampler>>,
        batch_size: u64,
        columns: Option<&Bound<'_, PyDict>>,
        rank: u64,
        world: u64,
        threads: Option<usize>,
        queue: usize,
        tail: Option<&str>,
        on_error: &str,
        prefetch: bool,
        buffers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Loader> {
        let reader = shared(&dataset)?;
        let sampler = match sampler {
            Some(sampler) => sampler.shared(),
            None => Arc::new(Sequential::new(reader.len() as u64)),
        };
        let columns = match columns {
            None => None,
            Some(given) => {
                let parsed: PyResult<Vec<Column>> =
                    given.iter().map(|(name, form)| Column::parse(&name, &form, given)).collect();
                let parsed = parsed?;
                if parsed.is_empty() {
                    return Err(invalid("columns: expected at least one, found none"));
                }
                Some(parsed.into())
            }
        };
        let tail = match tail {
            None => None,
            Some("pad") => Some(Tail::Pad),
            Some("drop") => Some(Tail::Drop),
            Some("uneven") => Some(Tail::Uneven),
            Some(other) => {
                let message = format!("tail: expected 'pad', 'drop' or 'uneven', found {other:?}");
                return Err(invalid(message));
            }
        };
        let on_error = match on_error {
            "raise" => OnError::Raise,
            "skip" => OnError::Skip,
            other => {
                let message = format!("on_error: expected 'raise' or 'skip', found {other:?}");
                return Err(invalid(message));
            }
        };
        let columns: Option<Arc<[Column]>> = columns;
        let buffers = match (&columns, buffers) {
            (_, None) => None,
            (Some(columns), Some(sets)) => Some(Buffers::parse(columns, batch_size, sets)?),
            (None, Some(_)) => {
                return Err(invalid("buffers: expected columns too, found none"));
            }
        };
        let settings = Settings {
            reader,
            sampler,
            columns,
            buffers,
            batch_size,
            rank,
            world,
            threads,
            queue,
            tail,
            on_error,
            prefetch,
        };
        let run = Mutex::new(Run { running: None, epoch: None });
        let (state, reports, listener) = (Mutex::default(), Mutex::default(), Mutex::default());
        let process = AtomicU32::new(std::process::id());
        let loader = Loader { settings, run, state, reports, listener, process };
        // Threads start here, so that what cannot work is reported here.
        let running = loader.start(State::default())?;
        locked(&loader.reports).start(&running);
        locked(&loader.run).running = Some(running);
        Ok(loader)
    }

    /// Begins an epoch, or continues the one that was resumed or left.
    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let this = slf.get();
        let mut run = this.run(slf.py())?;
        run.epoch = Some(this.state().epoch);
        locked(&this.reports).begin_epoch();
        Ok(slf.clone())
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        loop {
            match self.turn(py)? {
                Turn::Batch(batch) => return Ok(Some(*batch)),
                Turn::End => return Ok(None),
                // Nothing is locked here: a handler of a signal may use the loader.
                Turn::Wait => py.check_signals()?,
            }
        }
    }

    /// Where the run is after the batches so far. Save it when all ranks have done the same step. Any thread may
    /// ask, also while another waits for a batch: that one is not among them.
    fn state_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let State { epoch, position, .. } = self.state();
        let state = PyDict::new(py);
        state.set_item("epoch", epoch)?;
        state.set_item("position", position)?;
        Ok(state)
    }

    /// Where the time has gone in this epoch, or in the last one after its end: a dict of durations in
    /// seconds and counts. `limit` is "consumer", "cpu", "storage", "queue", "decoder" or "unknown", `advice`
    /// a sentence about it, and `summary` all of it for people. See `pykiste.reports.Loading`. Any thread may
    /// ask, also while another waits for a batch.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "numbers.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     for number in range(100):
    /// ...         writer.write({"key": str(number), "n": number})
    /// >>> loader = ki.Loader(ki.open(path), batch_size=10, columns={"n": "int64"})
    /// >>> for batch in loader:
    /// ...     pass
    /// >>> report = loader.report()
    /// >>> report["batches"], report["samples"], report["workers"]["threads"] > 0
    /// (10, 100, True)
    /// >>> print(report["summary"])  # doctest: +ELLIPSIS
    /// 100 samples in 10 batches, ...
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let report = locked(&self.reports).of_epoch();
        let Some(report) = report else { return Err(bug("no report")) };
        let dict = py.import("json")?.call_method1("loads", (report.to_json().to_string(),))?;
        dict.set_item("summary", report.to_string())?;
        Ok(dict)
    }

    /// Goes on from a state that was saved, with any number of ranks and any size of batches.
    fn load_state_dict(&self, py: Python<'_>, state: &Bound<'_, PyDict>) -> PyResult<()> {
        let number = |name: &str| -> PyResult<u64> {
            state.get_item(name)?.ok_or_else(|| no_column(name))?.extract()
        };
        let state = State::new(number("epoch")?, number("position")?);
        let mut run = self.run(py)?;
        let run = &mut *run;
        self.stop(py, run)?;
        *locked(&self.state) = state;
        run.epoch = None;
        self.process.store(std::process::id(), Relaxed);
        let running = self.start(state)?;
        locked(&self.reports).start(&running);
        run.running = Some(running);
        Ok(())
    }

    /// Whether its batches are in buffers of the caller.
    #[getter]
    fn has_buffers(&self) -> bool {
        self.settings.buffers.is_some()
    }

    /// Whether its batches have columns, and not samples.
    #[getter]
    fn has_columns(&self) -> bool {
        self.settings.columns.is_some()
    }

    /// Ends the threads. The loader can go on later.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let mut run = self.run(py)?;
        self.stop(py, &mut run)?;
        self.process.store(std::process::id(), Relaxed);
        Ok(())
    }

    fn __repr__(&self) -> String {
        let State { epoch, position, .. } = self.state();
        format!("pykiste.Loader(epoch {epoch}, position {position})")
    }
}

/// One batch: a column by its name, or a sample by its place.
///
/// Columns are arrays of NumPy in memory of the loader, or in the buffers that it was given, which a
/// later batch uses again once the batch and all arrays from it are gone.
#[pyclass(module = "pykiste")]
pub(crate) struct Batch {
    epoch: u64,
    step: u64,
    state: State,
    indices: Vec<u64>,
    padding: u64,
    failures: Vec<(u64, Option<String>, String)>,
    data: Data,
    /// The reader of packed samples.
    reader: Option<Arc<dyn Reader>>,
    /// Counts it among those that have buffers of the caller.
    _held: Option<Arc<()>>,
    /// The process that it was made in.
    process: u32,
}

impl Drop for Batch {
    fn drop(&mut self) {
        // In a process that was forked, the lock of the spare buffers may be held for ever by a thread
        // that is not there.
        if self.process != std::process::id() {
            std::mem::forget(std::mem::replace(&mut self.data, Data::Samples(Vec::new())));
        }
    }
}

enum Data {
    Samples(Vec<Vec<u8>>),
    Columns { batch: ColumnBatch, columns: Arc<[Column]> },
}

impl Batch {
    fn new<D>(batch: kiste::loader::Batch<D>, data: impl FnOnce(D) -> Data) -> Batch {
        let failures = batch.failures.into_iter();
        let failures =
            failures.map(|failure| (failure.index, failure.key, failure.error.to_string()));
        Batch {
            epoch: batch.epoch,
            step: batch.step,
            state: batch.state,
            indices: batch.indices,
            padding: batch.padding,
            failures: failures.collect(),
            data: data(batch.data),
            reader: None,
            _held: None,
            process: std::process::id(),
        }
    }

    fn of_samples(batch: kiste::loader::Batch<Vec<Vec<u8>>>, reader: Arc<dyn Reader>) -> Batch {
        let mut batch = Batch::new(batch, Data::Samples);
        batch.reader = Some(reader);
        batch
    }

    fn of_columns(
        batch: kiste::loader::Batch<ColumnBatch>,
        columns: Option<Arc<[Column]>>,
        held: Option<Arc<()>>,
    ) -> Batch {
        let columns = columns.unwrap_or_default();
        let mut batch = Batch::new(batch, |batch| Data::Columns { batch, columns });
        batch._held = held;
        batch
    }

    fn form(&self, name: &str) -> Option<Form> {
        let Data::Columns { columns, .. } = &self.data else { return None };
        columns.iter().find(|column| column.name == name).map(|column| column.form.clone())
    }

    /// A copy: what divides the rows must not change with an array.
    fn offsets(&self, name: &str) -> PyResult<Vec<i64>> {
        let unknown = |_| no_column(name);
        let Data::Columns { batch, .. } = &self.data else { return Err(unknown(())) };
        let offsets = batch.offsets(name).map_err(|_| unknown(()))?;
        Ok(offsets.iter().map(|&offset| offset as i64).collect())
    }

    fn rows(&self) -> usize {
        match &self.data {
            Data::Samples(packed) => packed.len(),
            Data::Columns { batch, .. } => batch.len(),
        }
    }

    fn sample<'py>(
        &self,
        py: Python<'py>,
        index: isize,
        decoder: &mut Decoder,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Data::Samples(packed) = &self.data else {
            let message = "a batch of columns has no samples: ask for a column by its name";
            return Err(wrong_type(message));
        };
        let at = if index < 0 { index.checked_add_unsigned(packed.len()) } else { Some(index) };
        let at = at.and_then(|at| usize::try_from(at).ok()).filter(|at| *at < packed.len());
        let Some(at) = at else {
            return Err(no_index(format!("{index} is out of range for {} samples", packed.len())));
        };
        let place = |error| match (&self.reader, self.indices.get(at)) {
            (Some(reader), Some(&index)) => reader.locate(index as usize).describe(error),
            _ => error,
        };
        decoder.sample(py, &packed[at], None).map_err(|flaw| flaw.raise(py, place))
    }
}

/// The positions in packed rows, as arrays of their own.
struct Parts<'py> {
    positions: Bound<'py, PyAny>,
    documents: Bound<'py, PyAny>,
    cu_seqlens: Bound<'py, PyArray1<i32>>,
    max: usize,
}

impl<'py> Parts<'py> {
    fn of<T>(py: Python<'py>, packed: &PackedRows<'_, T>) -> PyResult<Parts<'py>> {
        let rows = |values: &[i32]| -> PyResult<Bound<'py, PyAny>> {
            let values = values.to_vec().into_pyarray(py);
            Ok(values.reshape([packed.rows(), packed.length])?.into_any())
        };
        Ok(Parts {
            positions: rows(packed.positions)?,
            documents: rows(packed.documents)?,
            cu_seqlens: packed.cu_seqlens.to_vec().into_pyarray(py),
            max: packed.max_seqlen,
        })
    }
}

/// The array of a column. Its memory belongs to the batch, which `owner` is.
fn column<'py, T: Element + numpy::Element>(
    owner: &Bound<'py, Batch>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let mut this = owner.borrow_mut();
    let Data::Columns { batch, .. } = &mut this.data else { return Err(bug("no columns")) };
    let shape = batch.array::<T>(name).map_err(raise)?.shape().to_vec();
    let values = batch.values_mut::<T>(name).map_err(raise)?;
    let view = ArrayViewMutD::from_shape(IxDyn(&shape), values).map_err(bug)?;
    // SAFETY: the array keeps `owner` alive, and with it the memory, which does not move: nothing
    // changes the length of a column of a batch that was handed out, and no reference to its elements
    // is kept here. Several arrays of one column alias each other, as views in NumPy do.
    let array = unsafe { PyArrayDyn::borrow_from_array(&view, owner.clone().into_any()) };
    Ok(array.into_any())
}

/// The same for a type by its name.
fn view<'py>(owner: &Bound<'py, Batch>, name: &str, dtype: &str) -> PyResult<Bound<'py, PyAny>> {
    macro_rules! view {
        ($($known:literal $type:ty,)*) => {
            match dtype {
                $($known => column::<$type>(owner, name),)*
                other => Err(bug(other)),
            }
        };
    }
    with_types!(view)
}

/// The rows of a column, and the offsets that divide them.
type Ragged<'py> = (Bound<'py, PyAny>, Bound<'py, PyArray1<i64>>);

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.rows()
    }

    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let Ok(name) = item.cast::<PyString>() else {
            let Position(index) = item.extract::<Position<isize>>()?;
            return slf.borrow().sample(py, index, &mut Decoder::new());
        };
        let name = name.to_str()?;
        let form = slf.borrow().form(name);
        match form {
            None => Err(no_column(name)),
            Some(Form::Bytes) => {
                let this = slf.borrow();
                let Data::Columns { batch, .. } = &this.data else { return Err(bug("no columns")) };
                let (bytes, offsets) = batch.bytes(name).map_err(raise)?;
                let cut = offsets.windows(2).map(|ends| {
                    py.check_signals()?;
                    let bytes = &bytes[ends[0] as usize..ends[1] as usize];
                    Ok(pyo3::types::PyBytes::new(py, bytes))
                });
                Ok(PyList::new(py, cut.collect::<PyResult<Vec<_>>>()?)?.into_any())
            }
            Some(Form::Lists { dtype, is_ragged: true, .. }) => {
                let (data, offsets) = (view(slf, name, &dtype)?, slf.borrow().offsets(name)?);
                let cut = offsets.windows(2).map(|ends| {
                    py.check_signals()?;
                    data.get_item(PySlice::new(py, ends[0] as isize, ends[1] as isize, 1))
                });
                Ok(PyList::new(py, cut.collect::<PyResult<Vec<_>>>()?)?.into_any())
            }
            Some(Form::Numbers { dtype, .. } | Form::Lists { dtype, .. }) => {
                view(slf, name, &dtype)
            }
        }
    }

    /// A column of bytes or of `Ragged` without a copy: all of them back to back as one array in the memory of
    /// the batch, and the `len(batch) + 1` offsets between the samples.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "words.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     for word in ["one", "two", "three"]:
    /// ...         writer.write({"key": word, "word": word.encode()})
    /// >>> [batch] = ki.Loader(ki.open(path), columns={"word": bytes}, tail="uneven")
    /// >>> data, offsets = batch.ragged("word")
    /// >>> bytes(data), offsets.tolist()
    /// (b'onetwothree', [0, 3, 6, 11])
    fn ragged<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Ragged<'py>> {
        let py = slf.py();
        let form = slf.borrow().form(name);
        if let Some(Form::Lists { dtype, is_ragged: true, .. }) = form {
            let offsets = slf.borrow().offsets(name)?;
            return Ok((view(slf, name, &dtype)?, offsets.into_pyarray(py)));
        }
        let mut this = slf.borrow_mut();
        let Data::Columns { batch, .. } = &mut this.data else {
            return Err(no_column(name));
        };
        let (bytes, offsets) = batch.bytes_mut(name).map_err(raise)?;
        // A copy: what divides the bytes must not change with the array.
        let offsets: Vec<i64> = offsets.iter().map(|&offset| offset as i64).collect();
        let view = ArrayViewMutD::from_shape(IxDyn(&[bytes.len()]), bytes).map_err(bug)?;
        // SAFETY: as in `column`.
        let data = unsafe { PyArrayDyn::borrow_from_array(&view, slf.clone().into_any()) };
        Ok((data.into_any(), offsets.into_pyarray(py)))
    }

    /// How many rows each sample has in a column of any number of rows, without padding.
    fn lengths<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let offsets = self.offsets(name)?;
        let lengths: Vec<i64> = offsets.windows(2).map(|ends| ends[1] - ends[0]).collect();
        Ok(lengths.into_pyarray(py))
    }

    /// A column of `Packed`, with what is where in it: see `pykiste.columns.PackedTokens`.
    fn packed<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let Some(Form::Lists { dtype, .. }) = slf.borrow().form(name) else {
            return Err(no_column(name));
        };
        let tokens = view(slf, name, &dtype)?;
        let this = slf.borrow();
        let Data::Columns { batch, .. } = &this.data else { return Err(bug("no columns")) };
        macro_rules! parts {
            ($($known:literal $type:ty,)*) => {
                match &dtype[..] {
                    $($known => batch.packed::<$type>(name).map(|packed| Parts::of(py, &packed)),)*
                    other => return Err(bug(other)),
                }
            };
        }
        let Parts { positions, documents, cu_seqlens, max } =
            with_types!(parts).map_err(|_| no_column(name))??;
        let class = py.import("pykiste.columns")?.getattr("PackedTokens")?;
        class.call1((tokens, positions, documents, cu_seqlens, max))
    }

    fn __contains__(&self, name: &str) -> bool {
        self.keys().iter().any(|known| known == name)
    }

    /// The names of the columns.
    fn keys(&self) -> Vec<String> {
        match &self.data {
            Data::Columns { columns, .. } => {
                columns.iter().map(|column| column.name.clone()).collect()
            }
            Data::Samples(_) => Vec::new(),
        }
    }

    /// All samples as a list of dicts.
    #[getter]
    fn samples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        let mut decoder = Decoder::new();
        for index in 0..self.rows() {
            py.check_signals()?;
            list.append(self.sample(py, index as isize, &mut decoder)?)?;
        }
        Ok(list)
    }

    /// The epoch, counted from 0.
    #[getter]
    fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The step in the epoch, counted from where it was started or resumed.
    #[getter]
    fn step(&self) -> u64 {
        self.step
    }

    /// Where the run is once all ranks have done this step.
    #[getter]
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = PyDict::new(py);
        state.set_item("epoch", self.state.epoch)?;
        state.set_item("position", self.state.position)?;
        Ok(state)
    }

    /// The indices of the samples, in their order.
    #[getter]
    fn indices<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        self.indices.clone().into_pyarray(py)
    }

    /// How many samples at the end only fill up the batch: an evaluation leaves them out.
    #[getter]
    fn padding(&self) -> u64 {
        self.padding
    }

    /// Samples that could not be read: index, key and what is wrong.
    #[getter]
    fn failures(&self) -> Vec<(u64, Option<String>, String)> {
        self.failures.clone()
    }

    #[classattr]
    fn __hash__() -> Option<Py<PyType>> {
        None
    }
}
