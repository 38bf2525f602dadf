//! [`Loader`] and [`Loop`]: batches from the threads of the library.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::ThreadId;
use std::time::Duration;

use kiste::loader::{ColumnBatch, LoaderReport, OnError, Reporter};
use kiste::reader::{Reader, located};
use kiste::sampler::batching::{Planned, PlannedPartition};
use kiste::sampler::{Partition, State, Tail};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::batch::{Batch, With, keys_of};
use crate::batching::planned;
use crate::buffers::Buffers;
use crate::columns::{Column, all_of, kinds_of, parsed};
use crate::dataset::Dataset;
use crate::errors::{bug, invalid, misused, raise, wrong_type};
use crate::forensics::{Dealt, Plan, SourceNames};
use crate::lock;
use crate::pool::{self, TICK};
use crate::run_state::Mark;
use crate::sampler::{Sampler, default_order};

/// Everything a loader is started with.
struct Settings {
    reader: Arc<dyn Reader>,
    sampler: Arc<dyn kiste::sampler::Sampler>,
    /// Batches that are planned by length.
    planned: Option<Planned>,
    sources: Arc<SourceNames>,
    columns: Option<Arc<[Column]>>,
    buffers: Option<Buffers>,
    batch_size: u64,
    /// Says which rank this is of how many. Asked for each epoch, as trainers set up their processes late.
    ranks: Py<PyAny>,
    threads: Option<usize>,
    queue: usize,
    tail: Option<Tail>,
    /// Whether a sample that cannot be read is an exception. It has the others of its batch.
    raises: bool,
    prefetch: bool,
    /// Whether a loop goes on where the last one was left.
    keeps_position: bool,
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

    fn ranks(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        self.ranks.call0(py)?.extract(py)
    }

    /// What a state is a place in.
    fn states(&self) -> &dyn kiste::sampler::Sampler {
        match &self.planned {
            Some(planned) => planned,
            None => &*self.sampler,
        }
    }

    /// How many batches a rank has of an epoch from a place on. Planned ones are counted, until Ctrl-C.
    fn count(&self, py: Python<'_>, ranks: (u64, u64), state: &State) -> PyResult<u64> {
        let ((rank, world), epoch) = (ranks, state.epoch);
        match self.partition(world, state).map_err(raise)? {
            Some(partition) => {
                let counted = pool::apart(py, move || partition.steps_of(epoch, rank))?;
                counted.map_err(|error| raise(located(&*self.reader, error)))
            }
            None => Ok(self.plan(world, state.position).map_err(raise)?.steps_of(rank)),
        }
    }

    /// How an epoch of planned batches is dealt out from a place on.
    fn partition(&self, world: u64, state: &State) -> kiste::Result<Option<PlannedPartition>> {
        let Some(planned) = &self.planned else { return Ok(None) };
        let partition = planned.partition(world)?.start(State::new(state.epoch, state.position))?;
        Ok(Some(match self.tail {
            Some(tail) => partition.tail(tail),
            None => partition,
        }))
    }

    /// How an epoch is dealt out from a position on.
    fn plan(&self, world: u64, position: u64) -> kiste::Result<Partition> {
        let plan = Partition::new(self.sampler.len(), self.batch_size)?.world(world)?;
        let plan = plan.start(position)?;
        Ok(match self.tail {
            Some(tail) => plan.tail(tail),
            None => plan,
        })
    }

    /// Whether a rank has no more batches of an epoch that others are not done with.
    fn is_done(&self, ranks: (u64, u64), state: &State) -> kiste::Result<bool> {
        if state.position == 0 {
            return Ok(false);
        }
        match self.partition(ranks.1, state)? {
            // Without counting all batches that are left.
            Some(partition) => Ok(partition.batch(state.epoch, 0, ranks.0)?.is_none()),
            None => Ok(self.plan(ranks.1, state.position)?.steps_of(ranks.0) == 0),
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

    fn next(&mut self, with: With) -> Option<kiste::Result<(Batch, Option<kiste::Error>)>> {
        match self {
            Running::Samples(loader) => {
                Some(loader.next()?.map(|batch| Batch::of_samples(batch, with)))
            }
            Running::Columns(loader) => {
                Some(loader.next()?.map(|batch| Batch::of_columns(batch, with)))
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

/// The result of waiting for a batch.
enum Turn {
    /// With the error of a sample that should be an exception.
    Batch(Box<Batch>, Option<kiste::Error>),
    Wait,
    End,
}

/// Batches of a dataset, read and collated by threads that need no lock of Python, in an order that
/// does not depend on them.
///
/// Each `for` loop is one epoch; the next one is the next epoch. After a `break` the next loop begins where the last one
/// began, as in torch: at the start of the epoch, or where `load_state_dict` set it. With `resume="position"` it continues
/// after the last batch. `state_dict()` tells the place after the batches so far either way: two integers, with which
/// any number of ranks resumes at the exact sample, and what tells another dataset, order or seed.
///
/// `len(loader)` is the number of batches that this rank has in a whole epoch, `remaining` in the rest of this one.
///
/// Without a `sampler` samples come in the order that the dataset has by itself: as they are stored, or of a `Mixture` in
/// its own.
///
/// `rank` and `world` count data-parallel processes. If they are not given, they are taken from the `DeviceMesh` `mesh`, or
/// from `torch.distributed` or `jax.distributed` once that is initialised; otherwise there is one. `tail` says how an epoch ends whose
/// samples do not fill the last step of all ranks: "pad" fills it with samples that come twice, "even" makes it shorter in all
/// ranks alike, with less than `world` samples twice, "drop" leaves it out, and with "uneven", the default of one rank, some
/// ranks have a batch less. `batch.padding` samples at the end of a batch only fill it up.
///
/// A sample that cannot be read is an exception after its batch, whose other samples are its attribute `batch`; with
/// `on_error="skip"` batches are shorter and list it in `failures`. After an error that is not about a sample, such as a network
/// that is down, the loop asks for the same batch again.
///
/// `batching` is one of `pykiste.batching`: batches are planned by the lengths of samples, in place of batches of `batch_size`
/// (64 if neither is given). `len(loader)` counts the batches of the epoch that the loader is in, and plans all of them for
/// that.
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
    mark: Arc<Mark>,
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
    /// Where the current loop began, or the next one begins.
    begin: State,
    /// Where the threads began: steps are counted from there.
    started: State,
    /// How many loops there were.
    loops: u64,
    /// The rank that the threads work for, and the number of ranks.
    ranks: (u64, u64),
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

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Loader {
    fn start(&self, state: State, (rank, world): (u64, u64)) -> PyResult<Running> {
        let set = &self.settings;
        set.buffers.as_ref().map_or(Ok(()), Buffers::check_process)?;
        let options = match &set.planned {
            Some(planned) => kiste::loader::Loader::planned(set.reader.clone(), planned.clone()),
            None => kiste::loader::Loader::options(set.reader.clone(), set.sampler.clone()),
        };
        let mut options = options
            .batch_size(set.batch_size)
            .rank(rank, world)
            .queue(set.queue)
            .on_error(OnError::Skip)
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

    /// Where the run is once a batch is asked for: at the next epoch, if this rank has no more of one that others are not
    /// done with. Its threads are there too.
    fn settle(&self, run: &Run) -> PyResult<State> {
        let mut state = locked(&self.state);
        if self.settings.is_done(run.ranks, &state).map_err(raise)? {
            *state = State::new(state.epoch.saturating_add(1), 0);
        }
        Ok(*state)
    }

    /// Whether the epoch of the loop has another batch.
    fn goes_on(&self, py: Python<'_>, run: &mut Run) -> PyResult<bool> {
        if !self.is_of_this_process() {
            self.stop(py, run)?;
            self.process.store(std::process::id(), Relaxed);
        }
        if run.epoch.is_none() {
            run.epoch = Some(self.state().epoch);
            locked(&self.reports).begin_epoch();
        }
        let state = self.settle(run)?;
        if run.epoch != Some(state.epoch) {
            let mut reports = locked(&self.reports);
            reports.ended = reports.of_epoch();
            (run.epoch, run.begin) = (None, state);
            return Ok(false);
        }
        if let Some(buffers) = &self.settings.buffers {
            buffers.check_process()?;
            buffers.check_held(self.settings.queue())?;
        }
        Ok(true)
    }

    /// Begins a loop, which goes on where the last one ended or, if that was left, begins where it began. Returns its
    /// number.
    fn begin(&self, py: Python<'_>) -> PyResult<u64> {
        let ranks = self.settings.ranks(py)?;
        let mut run = self.run(py)?;
        let state = self.settle(&run)?;
        // One that has all batches of its epoch may not have asked for another one.
        if self.settings.keeps_position || state.epoch != run.begin.epoch {
            run.begin = state;
        }
        let is_there = (state.epoch, state.position) == (run.begin.epoch, run.begin.position);
        if !is_there || ranks != run.ranks {
            self.stop(py, &mut run)?;
            *locked(&self.state) = run.begin;
        }
        (run.epoch, run.loops, run.ranks) = (Some(run.begin.epoch), run.loops + 1, ranks);
        locked(&self.reports).begin_epoch();
        Ok(run.loops)
    }

    /// The next batch of a loop, or of the last one.
    fn next(&self, py: Python<'_>, number: Option<u64>) -> PyResult<Option<Batch>> {
        loop {
            match self.turn(py, number)? {
                Turn::Batch(batch, None) => return Ok(Some(*batch)),
                Turn::Batch(batch, Some(error)) => {
                    let error = raise(error);
                    error.value(py).setattr("batch", *batch)?;
                    return Err(error);
                }
                Turn::End => return Ok(None),
                // Nothing is locked here: a handler of a signal may use the loader.
                Turn::Wait => py.check_signals()?,
            }
        }
    }

    /// Sets the place, at which threads begin at once: what cannot work is reported here.
    fn go_to(&self, py: Python<'_>, state: State) -> PyResult<()> {
        let ranks = self.settings.ranks.call_method0(py, "known")?.extract(py)?;
        let mut run = self.run(py)?;
        self.stop(py, &mut run)?;
        *locked(&self.state) = state;
        (run.epoch, run.begin, run.ranks) = (None, state, ranks);
        self.process.store(std::process::id(), Relaxed);
        let running = self.start(state, ranks)?;
        locked(&self.reports).start(&running);
        (run.running, run.started) = (Some(running), state);
        Ok(())
    }

    /// How an epoch is dealt out: this one, as it was begun or resumed, or another one as a whole.
    fn dealt(&self, py: Python<'_>, epoch: Option<u64>) -> PyResult<Dealt> {
        let set = &self.settings;
        let (_, world) = set.ranks.call_method0(py, "known")?.extract::<(u64, u64)>(py)?;
        let started = self.run(py)?.started;
        let epoch = epoch.unwrap_or_else(|| self.state().epoch);
        let position = if epoch == started.epoch { started.position } else { 0 };
        let plan = match set.partition(world, &State::new(epoch, position)).map_err(raise)? {
            Some(partition) => Plan::Planned(partition),
            None => Plan::Fixed(set.plan(world, position).map_err(raise)?),
        };
        let (reader, sampler) = (set.reader.clone(), set.sampler.clone());
        Ok(Dealt { reader, sampler, sources: set.sources.clone(), plan, world, epoch })
    }

    /// Waits for the next batch of a loop, for a tick.
    fn turn(&self, py: Python<'_>, number: Option<u64>) -> PyResult<Turn> {
        let mut run = self.run(py)?;
        if number.is_some_and(|number| number != run.loops) {
            return Err(misused(
                "expected the last loop over this loader, found one that another has ended: a loader has one at a time",
            ));
        }
        if !self.goes_on(py, &mut run)? {
            return Ok(Turn::End);
        }
        let mut running = match run.running.take() {
            Some(running) => running,
            None => {
                let state = self.state();
                let started = self.start(state, run.ranks)?;
                locked(&self.reports).start(&started);
                run.started = state;
                started
            }
        };
        let set = &self.settings;
        let held = set.buffers.as_ref().map(|buffers| buffers.held.clone());
        let (reader, columns, mark) = (set.reader.clone(), set.columns.clone(), self.mark.clone());
        let with = With { reader, columns, held, mark };
        if set.threads != Some(0) && !py.detach(|| running.wait(TICK)) {
            run.running = Some(running);
            return Ok(Turn::Wait);
        }
        let make = move || (running.next(with), running);
        // Without threads this makes the batch. After Ctrl-C that is left alone, and the next call begins where this one did.
        let (batch, running) =
            if set.threads == Some(0) { self.apart(py, make)? } else { py.detach(make) };
        let (batch, error) = match batch {
            None => (None, None),
            Some(Ok((batch, error))) => (Some(batch), error.filter(|_| set.raises)),
            Some(Err(error)) => {
                // The place stays, and the next call asks for the same batch.
                run.running = Some(running);
                self.stop(py, &mut run)?;
                return Err(raise(error));
            }
        };
        *locked(&self.state) = running.state();
        run.running = Some(running);
        Ok(batch.map_or(Turn::End, |batch| Turn::Batch(Box::new(batch), error)))
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
    #[pyo3(signature = (dataset, sampler=None, *, batch_size=None, columns=None, rank=None,
        world=None, mesh=None, threads=None, queue=0, tail=None, on_error="raise", resume="epoch",
        prefetch=false, buffers=None, batching=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        dataset: PyRef<'_, Dataset>,
        sampler: Option<PyRef<'_, Sampler>>,
        batch_size: Option<u64>,
        columns: Option<&Bound<'_, PyAny>>,
        rank: Option<u64>,
        world: Option<u64>,
        mesh: Option<&Bound<'_, PyAny>>,
        threads: Option<usize>,
        queue: usize,
        tail: Option<&str>,
        on_error: &str,
        resume: &str,
        prefetch: bool,
        buffers: Option<&Bound<'_, PyAny>>,
        batching: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Loader> {
        let py = dataset.py();
        let view = dataset.view()?;
        let reader = view.reader().clone();
        let sampler = match sampler {
            Some(sampler) => sampler.shared(),
            None => default_order(&view),
        };
        let planned = batching.map(|given| planned(given, &reader, &sampler)).transpose()?;
        if planned.is_some() && batch_size.is_some() {
            return Err(invalid("batch_size: expected none, as batches are planned, found one"));
        }
        let most = planned.as_ref().and_then(|planned| planned.batching().most());
        let batch_size = batch_size.or(most).unwrap_or(64);
        let columns = columns.map(parsed).transpose()?;
        let tail = match tail {
            None => None,
            Some("pad") => Some(Tail::Pad),
            Some("drop") => Some(Tail::Drop),
            Some("uneven") => Some(Tail::Uneven),
            Some("even") => Some(Tail::Even),
            Some(other) => {
                let message =
                    format!("tail: expected 'pad', 'even', 'drop' or 'uneven', found {other:?}");
                return Err(invalid(message));
            }
        };
        let is_first = |name: &str, given: &str, first: &str, second: &str| match given {
            given if given == first => Ok(true),
            given if given == second => Ok(false),
            other => {
                Err(invalid(format!("{name}: expected '{first}' or '{second}', found {other:?}")))
            }
        };
        let raises = is_first("on_error", on_error, "raise", "skip")?;
        let keeps_position = is_first("resume", resume, "position", "epoch")?;
        let ranks = py.import("pykiste._ranks")?.getattr("Ranks")?.call1((rank, world, mesh))?;
        let known: (u64, u64) = ranks.call_method0("known")?.extract()?;
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
            planned,
            sources: Arc::new(SourceNames::of(&view)),
            columns,
            buffers,
            batch_size,
            ranks: ranks.unbind(),
            threads,
            queue,
            tail,
            raises,
            prefetch,
            keeps_position,
        };
        let begin = State::default();
        let run = Mutex::new(Run {
            running: None,
            epoch: None,
            begin,
            started: begin,
            loops: 0,
            ranks: known,
        });
        let mark = Arc::new(Mark::new(settings.reader.clone()));
        let (state, reports, listener) = (Mutex::default(), Mutex::default(), Mutex::default());
        let process = AtomicU32::new(std::process::id());
        let loader = Loader { settings, mark, run, state, reports, listener, process };
        // Threads start here, so that what cannot work is reported here.
        let running = loader.start(State::default(), known)?;
        locked(&loader.reports).start(&running);
        locked(&loader.run).running = Some(running);
        Ok(loader)
    }

    /// Begins a loop: an epoch, or the rest of the one that was resumed.
    fn __iter__(slf: &Bound<'_, Self>) -> PyResult<Loop> {
        let number = slf.get().begin(slf.py())?;
        Ok(Loop { loader: slf.clone().unbind(), number })
    }

    /// The next batch of the last loop, or of the first.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        self.next(py, None)
    }

    /// Batches that this rank has in a whole epoch.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let is_endless = self.settings.sampler.len() == u64::MAX;
        let batches = match is_endless && self.settings.planned.is_some() {
            true => 0,
            false => {
                let epoch = State::new(self.state().epoch, 0);
                self.settings.count(py, self.settings.ranks(py)?, &epoch)?
            }
        };
        if is_endless {
            return Err(wrong_type(
                "expected an order that ends for len(), found one that does not",
            ));
        }
        usize::try_from(batches).map_err(bug)
    }

    /// Batches that this rank has in the rest of the epoch.
    #[getter]
    fn remaining(&self, py: Python<'_>) -> PyResult<u64> {
        let ranks = self.settings.ranks(py)?;
        self.settings.count(py, ranks, &self.state())
    }

    /// The samples of a batch; of planned batches the most, or `None` if there is no limit.
    #[getter]
    fn batch_size(&self) -> Option<u64> {
        match &self.settings.planned {
            Some(planned) => planned.batching().most(),
            None => Some(self.settings.batch_size),
        }
    }

    /// The rank that this loader is for, from 0.
    #[getter]
    fn rank(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.settings.ranks(py)?.0)
    }

    /// How many ranks there are.
    #[getter]
    fn world(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.settings.ranks(py)?.1)
    }

    /// What kind of data each column has: "numbers", "bytes", "ragged", "padded" or "packed".
    #[getter]
    fn _kinds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        kinds_of(py, self.settings.columns.as_deref().unwrap_or_default())
    }

    /// The keys of the samples of these indices.
    fn _sample_keys(&self, py: Python<'_>, indices: Vec<u64>) -> PyResult<Vec<String>> {
        keys_of(py, &self.settings.reader, indices)
    }

    /// Makes this epoch the next one, as trainers do with the samplers of torch before each epoch. The one that the run is
    /// in stays where it is.
    fn set_epoch(&self, py: Python<'_>, epoch: u64) -> PyResult<()> {
        match self.state().epoch == epoch {
            true => Ok(()),
            false => self.go_to(py, State::new(epoch, 0)),
        }
    }

    /// Where the run is after the batches so far: two integers, and in `order` what tells the dataset, the order and the
    /// seed from others. Save it when all ranks have done the same step. Any thread may ask, also while another waits for
    /// a batch: that one is not among them.
    fn state_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let State { epoch, position, .. } = self.state();
        self.mark.dict(py, &State::of(self.settings.states(), epoch, position))
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
    ///
    /// One that was saved with another dataset, order or seed is an `InvalidError` that says what differs, unless samples
    /// were only appended and their order is sequential. Without its `order` nothing is compared.
    fn load_state_dict(&self, py: Python<'_>, state: &Bound<'_, PyAny>) -> PyResult<()> {
        let state = self.mark.state(py, state, self.settings.states())?;
        self.go_to(py, state)
    }

    /// The samples of a step, of all ranks or of one: dicts with the `key`, the `index`, the name of the `source` in a
    /// mixture, the data `file`, the `rank`, the `position` in the epoch, and whether it is `padding`. Steps are counted as
    /// in batches: from where the epoch was begun or resumed. Nothing is loaded for it. See `pykiste.reports.Seen`.
    ///
    /// >>> import pykiste as ki
    /// >>> path = getfixture("tmp_path") / "numbers.msgpack"
    /// >>> with ki.Writer(path) as writer:
    /// ...     for number in range(100):
    /// ...         writer.write({"key": str(number), "n": number})
    /// >>> loader = ki.Loader(ki.open(path), batch_size=2, rank=1, world=3, tail="drop")
    /// >>> [(seen["key"], seen["rank"]) for seen in loader.keys_at(5)]
    /// [('30', 0), ('31', 0), ('32', 1), ('33', 1), ('34', 2), ('35', 2)]
    /// >>> loader.where_is("33")
    /// [(5, 1)]
    #[pyo3(signature = (step, rank=None, *, epoch=None))]
    fn keys_at<'py>(
        &self,
        py: Python<'py>,
        step: u64,
        rank: Option<u64>,
        epoch: Option<u64>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.dealt(py, epoch)?.keys_at(py, step, rank)
    }

    /// The steps of this epoch, or of another one, that have the samples with this key, each with the rank.
    #[pyo3(signature = (key, *, epoch=None))]
    fn where_is(
        &self,
        py: Python<'_>,
        key: String,
        epoch: Option<u64>,
    ) -> PyResult<Vec<(u64, u64)>> {
        self.dealt(py, epoch)?.where_is(py, key)
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

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let State { epoch, position, .. } = self.state();
        let known = self.settings.ranks.call_method0(py, "known")?;
        let (rank, world): (u64, u64) = known.extract(py)?;
        let batches = match &self.settings.planned {
            Some(planned) => planned.batching().description(),
            None => self.settings.batch_size.to_string(),
        };
        let ranks = if world == 1 { String::new() } else { format!(", rank {rank} of {world}") };
        let samples = self.settings.sampler.len();
        Ok(format!(
            "pykiste.Loader({samples} samples in batches of {batches}{ranks}, epoch {epoch}, \
             position {position})"
        ))
    }
}

/// A loop over the batches of an epoch.
#[pyclass(module = "pykiste._core", frozen)]
pub(crate) struct Loop {
    loader: Py<Loader>,
    /// Only the last loop over a loader has batches.
    number: u64,
}

#[pymethods]
impl Loop {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        self.loader.get().next(py, Some(self.number))
    }
}
