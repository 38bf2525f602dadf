//! Worker threads and the queue between them and the caller.
//!
//! Batches are numbered. A worker takes the next number when there is room, makes that batch and
//! puts it into the queue; the caller takes batches by number. So the order does not depend on
//! timing.

use std::any::Any;
use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use foldhash::fast::FixedState;

use super::LoaderOptions;
use super::batch::{Batch, Gather, Gathered, Space, Task, in_reader};
use super::epoch_orders::Orders;
use super::fetch_groups::{Groups, PROBES, Scale, Step};
use super::report::{Got, Lane, LoaderReport, Look, Meter, Reporter, Resting, Stage};
use super::schedule::{Schedule, Share};
use crate::error::{Error, Result};
use crate::reader;
use crate::sampler::{Order, State};
use crate::storage::read_ahead::{self, Ahead};

/// A batch, or what is wrong with it.
pub(super) type Outcome<D> = Result<Batch<D>, Failed>;

/// A batch that could not be made.
pub(super) struct Failed {
    pub(super) error: Error,
    /// Where the run is after it; `None` if the run ends here, because there is no order to
    /// continue in.
    pub(super) state: Option<State>,
}

/// The storage is asked to prefetch this many batches ahead, even without a queue.
const MIN_TOLD: usize = 2;
/// Upper limit, however long the queue: pages that are read too early are evicted before use.
const MAX_TOLD: usize = 1024;

pub(super) struct Pool<D: Send + 'static> {
    shared: Arc<Shared<D>>,
    workers: Vec<JoinHandle<()>>,
    next: u64,
    /// The caller has asked for the next batch and does not have it yet.
    asking: bool,
    /// The run failed.
    over: bool,
    /// The caller's look, if it makes the batches.
    look: Look,
}

struct Shared<D> {
    options: LoaderOptions,
    schedule: Schedule,
    gather: Arc<dyn Gather<Data = D>>,
    queue: usize,
    orders: Orders,
    /// The number of the first batch that has not been prefetched.
    told: Mutex<u64>,
    groups: Groups,
    /// The pool is closing: set together with the queue's flag, for reads that wait.
    stop: Arc<AtomicBool>,
    /// Memory of batches that are finished: at most one for each thread.
    spaces: Mutex<Vec<Space>>,
    /// Lists of indices that the caller gave back: at most one for each batch that can be in use.
    lists: Mutex<Vec<Vec<u64>>>,
    state: Mutex<Queue<D>>,
    /// There is room for another batch, or the pool is closing.
    room: Condvar,
    /// A batch is ready.
    ready: Condvar,
    meter: Arc<Meter>,
}

struct Queue<D> {
    /// The next number that a worker takes.
    next: u64,
    /// The number that the caller waits for.
    wanted: u64,
    done: HashMap<u64, Ready<D>, FixedState>,
    bytes: usize,
    /// The caller has asked for a batch.
    asked: bool,
    stop: bool,
}

struct Ready<D> {
    size: Size,
    /// A panic while decoding is passed to the caller.
    outcome: Result<Outcome<D>, Box<dyn Any + Send>>,
}

/// Bytes of a batch: an estimate of its memory, and the size of its packed samples.
#[derive(Clone, Copy, Default)]
struct Size {
    bytes: usize,
    packed: usize,
}

impl<D: Send + 'static> Pool<D> {
    pub(super) fn start(
        options: LoaderOptions,
        schedule: Schedule,
        gather: Arc<dyn Gather<Data = D>>,
    ) -> Result<Pool<D>> {
        let threads = options.threads;
        let queue = options.batches();
        let (asked, stop) = (false, false);
        let empty = Queue { next: 0, wanted: 0, done: HashMap::default(), bytes: 0, asked, stop };
        let orders = Orders::new(options.sampler.clone());
        let shared = Arc::new(Shared {
            options,
            schedule,
            gather,
            queue,
            orders,
            told: Mutex::new(0),
            groups: Groups::default(),
            stop: Arc::default(),
            spaces: Mutex::default(),
            lists: Mutex::default(),
            state: Mutex::new(empty),
            room: Condvar::new(),
            ready: Condvar::new(),
            meter: Arc::new(Meter::new(threads)),
        });
        // The threads that did start end with it if one does not.
        let look = Look::default();
        let mut pool =
            Pool { shared, workers: Vec::new(), next: 0, asking: false, over: false, look };
        for i in 0..threads {
            let shared = pool.shared.clone();
            let thread = Builder::new().name(format!("kiste-loader-{i}"));
            let worker = thread.spawn(move || shared.work(i));
            pool.workers.push(worker.map_err(|e| Error::os("starting a thread of the loader", e))?);
        }
        if threads > 0 && pool.shared.options.reader.is_remote() {
            let shared = pool.shared.clone();
            let thread = Builder::new().name("kiste-loader-fetch".to_owned());
            let fetcher = thread.spawn(move || shared.fetch_ahead());
            let started = fetcher.map_err(|e| Error::os("starting a thread of the loader", e));
            pool.workers.push(started?);
        }
        Ok(pool)
    }

    /// Uses the list of a batch again.
    pub(super) fn reuse(&self, list: Vec<u64>) {
        let mut lists = self.shared.lists();
        // One for each batch in the queue, and one for the caller.
        if lists.len() <= self.shared.queue {
            lists.push(list);
        }
    }

    /// Where the run is after the last batch, if there is one.
    pub(super) fn end(&self) -> Option<State> {
        if self.over { None } else { self.shared.schedule.end() }
    }

    pub(super) fn report(&self) -> LoaderReport {
        self.reporter().report()
    }

    pub(super) fn reporter(&self) -> Reporter {
        let Shared { meter, options, queue, .. } = &*self.shared;
        let (threads, is_remote) = (options.threads, options.reader.is_remote());
        Reporter { meter: meter.clone(), threads, queue: *queue, is_remote }
    }

    /// The number of the next batch, which the caller waits for from now on; `None` if there is no other.
    fn ask(&mut self) -> Option<u64> {
        let number = self.next;
        if self.over || self.shared.schedule.at(number).is_none() {
            self.shared.meter.end();
            return None;
        }
        if !self.asking {
            self.asking = true;
            self.shared.meter.ask();
            if !self.workers.is_empty() {
                self.shared.look_for(number);
            }
        }
        Some(number)
    }

    /// Waits until [`next`](Self::next) returns at once, at most this long. Returns whether it does.
    pub(super) fn wait(&mut self, at_most: Duration) -> bool {
        match self.ask() {
            Some(number) if !self.workers.is_empty() => self.shared.is_ready(number, at_most),
            _ => true,
        }
    }

    /// The next batch; `None` after the last, and after an error that ends the run.
    pub(super) fn next(&mut self) -> Option<Outcome<D>> {
        let number = self.ask()?;
        self.asking = false;
        self.next += 1;
        let Ready { size, outcome } = match self.workers.is_empty() {
            true => self.shared.make_here(number, &mut self.look),
            false => self.shared.wait_for(number),
        };
        let got = outcome.as_ref().ok().and_then(|outcome| outcome.as_ref().ok());
        self.shared.meter.answer(got.map(|batch| Got {
            samples: batch.indices.len(),
            failures: batch.failures.len(),
            bytes: size.packed,
        }));
        let outcome = outcome.unwrap_or_else(|panic| resume_unwind(panic));
        self.over = outcome.as_ref().is_err_and(|failed| failed.state.is_none());
        if self.over {
            self.shared.stop();
        }
        Some(outcome)
    }
}

impl<D: Send + 'static> Drop for Pool<D> {
    fn drop(&mut self) {
        self.shared.stop();
        for worker in self.workers.drain(..) {
            // Panics while decoding are caught in there.
            let _ = worker.join();
        }
    }
}

impl<D: Send + 'static> Shared<D> {
    fn queue(&self) -> MutexGuard<'_, Queue<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spaces(&self) -> MutexGuard<'_, Vec<Space>> {
        self.spaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lists(&self) -> MutexGuard<'_, Vec<Vec<u64>>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No more batches: workers stop after their current ones, and at once where they wait for remote bytes.
    fn stop(&self) {
        self.stop.store(true, Relaxed);
        self.queue().stop = true;
        self.room.notify_all();
    }

    /// The batch with this number, made by the thread of the caller.
    fn make_here(&self, number: u64, look: &mut Look) -> Ready<D> {
        self.meter.find(0, false);
        let lane = self.meter.worker(0);
        lane.enter(Stage::Collating);
        let _resting = Resting(lane);
        // The caller does other things between batches, so that a whole batch is looked at.
        let is_noted = lane.begins_note(look);
        let ready = self.make_or_panic(number, lane);
        if is_noted {
            lane.note_cores(look, true);
        }
        ready
    }

    /// Notes what there is when the caller asks for the batch with this number.
    fn look_for(&self, number: u64) {
        let mut queue = self.queue();
        self.meter.find(queue.done.len(), queue.done.contains_key(&number));
        if !queue.asked {
            queue.asked = true;
            // From now on their waiting counts.
            self.room.notify_all();
        }
    }

    /// Waits for the batch with this number, at most this long. Returns whether it is there.
    fn is_ready(&self, number: u64, at_most: Duration) -> bool {
        let is_missing = |queue: &mut Queue<D>| !queue.done.contains_key(&number);
        let waited = self.ready.wait_timeout_while(self.queue(), at_most, is_missing);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// The batch with this number, made by a worker.
    fn wait_for(&self, number: u64) -> Ready<D> {
        let mut queue = self.queue();
        loop {
            if let Some(ready) = queue.done.remove(&number) {
                queue.bytes = queue.bytes.saturating_sub(ready.size.bytes);
                queue.wanted = number + 1;
                self.meter.ready(queue.done.len());
                drop(queue);
                // One batch less makes room for one worker; a busy worker looks by itself.
                self.room.notify_one();
                return ready;
            }
            queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The work of the worker with this number.
    fn work(self: &Arc<Self>, worker: usize) {
        let lane = self.meter.worker(worker);
        let mut look = Look::default();
        lane.enter(Stage::Collating);
        let _resting = Resting(lane);
        while let Some(number) = self.take(lane) {
            let ready = read_ahead::stoppable(&self.stop, || self.make_or_panic(number, lane));
            lane.note_cores(&mut look, false);
            let mut queue = self.queue();
            queue.bytes = queue.bytes.saturating_add(ready.size.bytes);
            queue.done.insert(number, ready);
            self.meter.ready(queue.done.len());
            let wanted = queue.wanted == number;
            drop(queue);
            // There is one caller, and it waits for one number.
            if wanted {
                self.ready.notify_one();
            }
            // A panic of the sampler repeats when its order is needed, and is passed to the caller
            // then.
            let _ = catch_unwind(AssertUnwindSafe(|| self.look_ahead(number)));
        }
        lane.note_cores(&mut look, true);
    }

    fn make_or_panic(&self, number: u64, lane: &Lane) -> Ready<D> {
        let made = catch_unwind(AssertUnwindSafe(|| self.make(number, lane)));
        // Wherever it has ended.
        lane.enter(Stage::Collating);
        match made {
            Ok((outcome, size)) => Ready { size, outcome: Ok(outcome) },
            Err(panic) => Ready { size: Size::default(), outcome: Err(panic) },
        }
    }

    /// Makes the order of the next epoch, or plans the next window, while other workers make the last batches of this one.
    fn look_ahead(&self, number: u64) {
        // Without other workers there is nothing to gain.
        if self.options.threads <= 1 {
            return;
        }
        if self.options.planned.is_some() {
            return self.schedule.look_ahead(number);
        }
        let epoch = |number| self.schedule.at(number).map(|(epoch, _)| epoch);
        let (now, ahead) = (epoch(number), epoch(number.saturating_add(self.queue as u64)));
        if now < ahead {
            if let Some(next) = now.and_then(|now| now.checked_add(1)) {
                self.orders.make(next);
            }
        }
    }

    /// Waits for room, then takes the next number; `None` when there is nothing more to do.
    fn take(&self, lane: &Lane) -> Option<u64> {
        let mut queue = self.queue();
        let mut waits = None;
        loop {
            if queue.stop {
                return None;
            }
            let ahead = queue.next - queue.wanted;
            let light = queue.bytes < self.options.queue_bytes || ahead == 0;
            if light && ahead < self.queue.max(1) as u64 {
                let number = queue.next;
                self.schedule.at(number)?;
                queue.next += 1;
                drop(queue);
                if waits.is_some() {
                    lane.enter(Stage::Collating);
                }
                return Some(number);
            }
            let stage = match (queue.asked, light) {
                (false, _) => Stage::Idle,
                (true, true) => Stage::Room,
                (true, false) => Stage::Bytes,
            };
            if waits != Some(stage) {
                lane.enter(stage);
                waits = Some(stage);
            }
            queue = self.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A batch, and how large it is.
    fn make(&self, number: u64, lane: &Lane) -> (Outcome<D>, Size) {
        let over = |error: Error| (Err(Failed { error, state: None }), Size::default());
        let at = self.schedule.at(number);
        let located = |error: Error| match at {
            Some((epoch, step)) => error.with_step(epoch, step),
            None => error,
        };
        let share = match at.map_or(Ok(None), |at| self.schedule.share_at(at)) {
            Ok(Some(share)) => share,
            // The caller has checked that there is such a batch.
            Ok(None) => {
                return over(Error::new(crate::ErrorKind::Invalid, "there is no such batch"));
            }
            Err(error) => return over(located(reader::located(&*self.options.reader, error))),
        };
        let prepared = self
            .order(number, &share)
            .and_then(|order| Ok((order, self.schedule.state_after(share.epoch, share.step)?)));
        let (order, state) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return over(located(error)),
        };
        match self.batch(number, &share, state, order.as_deref(), lane) {
            Ok((batch, size)) => (Ok(batch), size),
            Err(error) => {
                let error = located(error);
                (Err(Failed { error, state: Some(state) }), Size::default())
            }
        }
    }

    fn batch(
        &self,
        number: u64,
        share: &Share,
        state: State,
        order: Option<&dyn Order>,
        lane: &Lane,
    ) -> Result<(Batch<D>, Size)> {
        let mut space = self.spaces().pop().unwrap_or_default();
        let Space { positions, indices, raws } = &mut space;
        positions.clear();
        positions.extend(share.positions.iter());
        indices.clear();
        indices.reserve(positions.len());
        share.fill(order, indices);
        let (positions, indices, raws) = (&*positions, &*indices, &*raws);
        let reader = &*self.options.reader;
        lane.enter(Stage::Reading);
        if reader.is_remote() {
            self.fetch(number, indices);
        } else if self.options.prefetch {
            self.prefetch(number);
        }
        let on_error = self.options.on_error;
        let real = positions.len() - share.positions.padding() as usize;
        let list = Cell::new(self.lists().pop().unwrap_or_default());
        let (epoch, rows) = (share.epoch, &*share.rows());
        let task =
            Task { reader, epoch, positions, real, indices, on_error, rows, raws, list, lane };
        let gathered = self.gather.gather(&task);
        self.spaces().push(space);
        let Gathered { fetched, data, bytes } = gathered?;
        let batch = Batch {
            epoch,
            step: share.step,
            state,
            positions: share.positions.positions(),
            bucket: share.bucket(),
            indices: fetched.indices,
            data,
            padding: fetched.padding,
            failures: fetched.failures,
        };
        Ok((batch, Size { bytes, packed: fetched.packed }))
    }

    /// Prefetches this batch and those after it, except what has been prefetched before.
    fn prefetch(&self, number: u64) {
        // One worker at a time does it for all.
        let Ok(mut told) = self.told.try_lock() else { return };
        *told = number.max(*told);
        while *told <= number.saturating_add(self.queue.clamp(MIN_TOLD, MAX_TOLD) as u64) {
            // An order that is not made yet is made here only if no other thread is making it. A
            // failure is reported when the order is needed.
            let order = |epoch| match self.options.threads {
                0 | 1 => self.orders.get(epoch).ok(),
                _ => self.orders.made(epoch),
            };
            let Some(indices) = self.samples(*told, order) else { return };
            self.options.reader.prefetch(&indices);
            *told += 1;
        }
    }

    /// Fetches the samples of this batch from a remote reader, together with samples of other
    /// batches: neighbours that go to different batches come in one request.
    fn fetch(&self, number: u64, indices: &[u64]) {
        match self.options.threads {
            0 => {
                let scale = self.scale();
                while self.groups.begun() <= scale.step(number) {
                    let step = self.plan(scale, self.groups.begun());
                    self.options.reader.prefetch(&step.samples);
                    self.groups.add(&step, Ahead::new(None));
                    self.groups.reach(scale.step(number));
                }
            }
            // Another thread does, and knows the scale before it begins.
            _ => self.groups.wait_for_batch(number, &self.stop),
        }
        // Samples that the group's fetch had no room for.
        let own: Vec<usize> = indices.iter().copied().map(in_reader).collect();
        self.options.reader.prefetch(&own);
    }

    /// Begins with step after step, as long as there is room for what comes.
    fn fetch_ahead(&self) {
        let fetch = || {
            let scale = read_ahead::stoppable(&self.stop, || self.scale());
            while self.groups.wait_for_room(scale, &self.stop) {
                let number = self.groups.begun();
                if self.schedule.at(scale.batches(number).start).is_none() {
                    break;
                }
                let step = read_ahead::stoppable(&self.stop, || self.plan(scale, number));
                let on_its_way = Ahead::new(Some(self.stop.clone()));
                on_its_way.run(|| self.options.reader.prefetch(&step.samples));
                self.groups.add(&step, on_its_way);
            }
        };
        // The sampler panics again for the batch.
        let _ = catch_unwind(AssertUnwindSafe(fetch));
        self.groups.end();
    }

    /// How many batches are fetched together. Only a reader that does not know how large samples are is
    /// asked for some.
    fn scale(&self) -> Scale {
        self.groups.scale(|| {
            let reader = &self.options.reader;
            let mean = reader.sample_bytes().or_else(|| {
                let probes = self.indices(0..1, |epoch| self.orders.get(epoch).ok());
                let probes = &probes[..probes.len().min(PROBES)];
                reader.prefetch(probes);
                let sizes = probes.iter().filter_map(|&index| reader.locate(index).range);
                let sizes: Vec<u64> =
                    sizes.map(|range| range.end.saturating_sub(range.start)).collect();
                sizes.iter().sum::<u64>().checked_div(sizes.len() as u64)
            });
            // Without an answer samples count as large: too small a group costs only requests.
            Scale::of(self.options.batch_size, mean.unwrap_or(1 << 20))
        })
    }

    fn plan(&self, scale: Scale, step: u64) -> Step {
        self.groups.plan(scale, step, |batches, is_soon| match is_soon {
            false => self.indices(batches, |epoch| self.orders.get(epoch).ok()),
            true => self.indices(batches, |epoch| self.orders.made(epoch)),
        })
    }

    /// The samples of these batches, up to the first that does not exist or has no order yet.
    fn indices(
        &self,
        batches: Range<u64>,
        order: impl Fn(u64) -> Option<Arc<dyn Order>>,
    ) -> Vec<usize> {
        let mut indices = Vec::new();
        for number in batches {
            let Some(batch) = self.samples(number, &order) else { break };
            indices.extend(batch);
        }
        indices
    }

    /// The samples of a batch, if it exists and has an order.
    fn samples(
        &self,
        number: u64,
        order: impl FnOnce(u64) -> Option<Arc<dyn Order>>,
    ) -> Option<Vec<usize>> {
        let share = self.schedule.share(number).ok()??;
        let order = match share.needs_order() {
            true => Some(order(share.epoch)?),
            false => None,
        };
        let mut indices = Vec::new();
        share.fill(order.as_deref(), &mut indices);
        Some(indices.into_iter().map(in_reader).collect())
    }

    /// The order of the epoch that this batch is of, if it needs one.
    fn order(&self, number: u64, share: &Share) -> Result<Option<Arc<dyn Order>>> {
        // No worker is further behind than the queue is long.
        let behind = number.saturating_sub(self.queue as u64);
        if let Some((oldest, _)) = self.schedule.at(behind) {
            self.orders.forget_before(oldest);
            self.schedule.forget_before(oldest);
        }
        share.needs_order().then(|| self.orders.get(share.epoch)).transpose()
    }
}
