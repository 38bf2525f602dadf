//! Worker threads and the queue between them and the caller.
//!
//! Batches are numbered. A worker takes the next number when there is room, makes that batch and
//! leaves it; the caller takes them by number. So the order does not depend on who is faster.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use super::batch::{Batch, Gather, Gathered, Task};
use super::{LoaderOptions, Schedule};
use crate::error::{Error, Result};
use crate::sampler::{Order, State};

/// A batch, or what is wrong with it and where the run is after it.
pub(super) type Outcome<D> = Result<Batch<D>, (Error, State)>;

pub(super) struct Pool<D: Send + 'static> {
    shared: Arc<Shared<D>>,
    workers: Vec<JoinHandle<()>>,
    next: u64,
}

struct Shared<D> {
    options: LoaderOptions,
    schedule: Schedule,
    gather: Arc<dyn Gather<Data = D>>,
    queue: usize,
    orders: Mutex<Vec<(u64, Arc<dyn Order>)>>,
    state: Mutex<Queue<D>>,
    /// There is room for another batch, or an end.
    room: Condvar,
    /// A batch is ready.
    ready: Condvar,
}

struct Queue<D> {
    /// The next number that a worker takes.
    next: u64,
    /// The number that the caller waits for.
    wanted: u64,
    done: BTreeMap<u64, Ready<D>>,
    bytes: usize,
    stop: bool,
}

struct Ready<D> {
    bytes: usize,
    /// A panic of the decoding is the caller's.
    outcome: Result<Outcome<D>, Box<dyn Any + Send>>,
}

impl<D: Send + 'static> Pool<D> {
    pub(super) fn start(
        options: LoaderOptions,
        schedule: Schedule,
        gather: Arc<dyn Gather<Data = D>>,
    ) -> Result<Pool<D>> {
        let threads = options.threads;
        let queue = options.batches();
        let empty = Queue { next: 0, wanted: 0, done: BTreeMap::new(), bytes: 0, stop: false };
        let shared = Arc::new(Shared {
            options,
            schedule,
            gather,
            queue,
            orders: Mutex::new(Vec::new()),
            state: Mutex::new(empty),
            room: Condvar::new(),
            ready: Condvar::new(),
        });
        // The threads that did start end with it if one does not.
        let mut pool = Pool { shared, workers: Vec::new(), next: 0 };
        for i in 0..threads {
            let shared = pool.shared.clone();
            let thread = Builder::new().name(format!("kiste-loader-{i}"));
            let worker = thread.spawn(move || shared.work());
            pool.workers.push(worker.map_err(|e| Error::io("a thread of the loader", e))?);
        }
        Ok(pool)
    }

    /// Where the run is after the last batch, if there is one.
    pub(super) fn end(&self) -> Option<State> {
        self.shared.schedule.end()
    }

    /// The next batch, `None` after the last.
    pub(super) fn next(&mut self) -> Option<Outcome<D>> {
        let number = self.next;
        self.shared.schedule.at(number)?;
        self.next += 1;
        if self.workers.is_empty() {
            return Some(self.shared.make(number).0);
        }
        let mut queue = self.shared.queue();
        loop {
            if let Some(ready) = queue.done.remove(&number) {
                queue.bytes = queue.bytes.saturating_sub(ready.bytes);
                queue.wanted = number + 1;
                drop(queue);
                // One batch less is room for one worker; whoever is at work looks by itself.
                self.shared.room.notify_one();
                return Some(ready.outcome.unwrap_or_else(|panic| resume_unwind(panic)));
            }
            queue = self.shared.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<D: Send + 'static> Drop for Pool<D> {
    fn drop(&mut self) {
        self.shared.queue().stop = true;
        self.shared.room.notify_all();
        for worker in self.workers.drain(..) {
            // Panics of the decoding are caught in there.
            let _ = worker.join();
        }
    }
}

impl<D: Send + 'static> Shared<D> {
    fn queue(&self) -> MutexGuard<'_, Queue<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(number) = self.take() {
            let made = catch_unwind(AssertUnwindSafe(|| self.make(number)));
            let (outcome, bytes) = match made {
                Ok((outcome, bytes)) => (Ok(outcome), bytes),
                Err(panic) => (Err(panic), 0),
            };
            let mut queue = self.queue();
            queue.bytes = queue.bytes.saturating_add(bytes);
            queue.done.insert(number, Ready { bytes, outcome });
            let wanted = queue.wanted == number;
            drop(queue);
            // There is one caller, and it waits for one number.
            if wanted {
                self.ready.notify_one();
            }
        }
    }

    /// Waits for room, then takes the next number; `None` when there is nothing more to do.
    fn take(&self) -> Option<u64> {
        let mut queue = self.queue();
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
                return Some(number);
            }
            queue = self.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A batch, and the bytes that it takes.
    fn make(&self, number: u64) -> (Outcome<D>, usize) {
        // Whoever asks has seen that there is such a batch.
        let Some((epoch, step, plan)) = self.schedule.at(number) else {
            let error = Error::new(crate::ErrorKind::Invalid, "there is no such batch");
            return (Err((error, State::default())), 0);
        };
        let state = plan.state_after(epoch, step);
        match self.batch(epoch, step, number) {
            Ok((batch, bytes)) => (Ok(batch), bytes),
            Err(error) => (Err((error, state)), 0),
        }
    }

    fn batch(&self, epoch: u64, step: u64, number: u64) -> Result<(Batch<D>, usize)> {
        let plan = self.schedule.at(number).map_or(&self.schedule.plan, |(_, _, plan)| plan);
        let share = plan.batch(step, self.schedule.rank);
        let order = self.order(epoch)?;
        let positions: Vec<u64> = share.iter().collect();
        let mut indices = Vec::with_capacity(positions.len());
        share.fill(&*order, &mut indices);
        if self.options.prefetch {
            self.prefetch(number + self.queue as u64)?;
        }
        let reader = &*self.options.reader;
        let on_error = self.options.on_error;
        let real = positions.len() - share.padding() as usize;
        let task = Task { reader, positions: &positions, real, indices: &indices, on_error };
        let Gathered { fetched, data, bytes } = self.gather.gather(&task)?;
        let batch = Batch {
            epoch,
            step,
            state: plan.state_after(epoch, step),
            positions: share.positions(),
            indices: fetched.indices,
            data,
            padding: fetched.padding,
            failures: fetched.failures,
        };
        Ok((batch, bytes))
    }

    /// Tells the storage what the batch with this number needs.
    fn prefetch(&self, number: u64) -> Result<()> {
        let Some((epoch, step, plan)) = self.schedule.at(number) else { return Ok(()) };
        let order = self.order(epoch)?;
        let indices = plan.batch(step, self.schedule.rank).indices(&*order);
        let indices: Vec<usize> = indices.into_iter().map(|index| index as usize).collect();
        self.options.reader.prefetch(&indices);
        Ok(())
    }

    /// The order of an epoch: made once, kept while its neighbours are in use.
    fn order(&self, epoch: u64) -> Result<Arc<dyn Order>> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, order)) = orders.iter().find(|(known, _)| *known == epoch) {
            return Ok(order.clone());
        }
        let order = self.schedule.sampler.order(epoch)?;
        orders.retain(|(known, _)| known.abs_diff(epoch) <= 1);
        orders.push((epoch, order.clone()));
        Ok(order)
    }
}
