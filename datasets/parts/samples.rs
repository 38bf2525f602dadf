//! [`Samples`]: what is read becomes samples on many threads, and stays in order.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

use crate::convert::Source;
use crate::error::{Error, ErrorKind, Result};

/// Items that become samples together.
const BATCH: usize = 32;

/// Takes what was read. Its error means that no more samples are wanted: return it.
pub type Emit<'a, T> = dyn FnMut(T) -> Result<()> + 'a;

/// What became of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// A sample, and the place of its split among those of the pass.
    Sample {
        /// The place of the split.
        split: usize,
        /// The sample.
        packed: Vec<u8>,
    },
    /// Nothing, as the data are good for nothing.
    Skipped {
        /// The key that it would have had.
        key: String,
        /// What is wrong with it.
        why: String,
    },
}

impl From<Vec<u8>> for Made {
    fn from(packed: Vec<u8>) -> Made {
        Made::Sample { split: 0, packed }
    }
}

/// Samples of one reading of some files: one thread reads, the others make samples, and they come
/// out in the order of the reading. A few batches are in memory at a time, and nothing begins
/// before the first one is asked for. After an error in an item the next one follows.
pub struct Samples {
    threads: usize,
    batch: usize,
    state: State,
    /// The splits of the samples of the last batch, in order.
    splits: Vec<usize>,
}

type Start = Box<dyn FnOnce(usize, usize) -> Running + Send>;
type Batch = Vec<Result<Made>>;

enum State {
    Waiting(Start),
    Running(Running),
    Done,
}

struct Running {
    /// In an `Option` so that it can be dropped before the threads are waited for.
    messages: Option<Receiver<Message>>,
    threads: Vec<JoinHandle<()>>,
}

enum Message {
    Batch(Batch),
    /// Comes last. Samples that end without it were cut short by a panic.
    End(Result<()>),
}

impl Samples {
    /// Makes a sample of each of these.
    pub fn new<T, M>(
        items: Vec<T>,
        make: impl Fn(T) -> Result<M> + Send + Sync + 'static,
    ) -> Samples
    where
        T: Send + 'static,
        M: Into<Made>,
    {
        Samples::stream(move |emit| items.into_iter().try_for_each(emit), make)
    }

    /// Makes a sample of each item that `read` emits, while it goes on reading.
    pub fn stream<T, M>(
        read: impl FnOnce(&mut Emit<'_, T>) -> Result<()> + Send + 'static,
        make: impl Fn(T) -> Result<M> + Send + Sync + 'static,
    ) -> Samples
    where
        T: Send + 'static,
        M: Into<Made>,
    {
        let start = move |threads, size| {
            let (to_make, items) = sync_channel(1);
            let (to_take, messages) = sync_channel(1);
            let ended = to_take.clone();
            let reading = thread::spawn(move || {
                let mut batch = Vec::with_capacity(size);
                let mut emit = |item| {
                    batch.push(item);
                    if batch.len() < size { Ok(()) } else { hand_over(&mut batch, &to_make) }
                };
                let result = read(&mut emit);
                // What was read before an error is good.
                let rest = hand_over(&mut batch, &to_make);
                // The other thread is done with all batches when it lets go of this.
                drop(to_make);
                result.and(rest)
            });
            let making = thread::spawn(move || {
                let Ok(pool) = ThreadPoolBuilder::new().num_threads(threads).build() else {
                    let error = Error::new(ErrorKind::Limit, "no more threads can be had");
                    let _ = ended.send(Message::End(Err(error)));
                    return;
                };
                let make = &|item| make(item).map(Into::into);
                for batch in items.iter() {
                    let batch: Vec<T> = batch;
                    let made = pool.install(|| batch.into_par_iter().map(make).collect());
                    if to_take.send(Message::Batch(made)).is_err() {
                        break;
                    }
                }
                drop(items);
                if let Ok(result) = reading.join() {
                    let _ = ended.send(Message::End(result));
                }
            });
            Running { messages: Some(messages), threads: vec![making] }
        };
        let state = State::Waiting(Box::new(start));
        Samples { threads: 0, batch: BATCH, state, splits: Vec::new() }
    }

    /// The number of samples in a batch, for samples that are much larger or smaller than images.
    pub fn batch(mut self, items: usize) -> Samples {
        self.batch = items.max(1);
        self
    }

    /// The number of threads; 0 is one for each core.
    pub fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
    }

    /// The next ones; nothing at the end.
    #[expect(clippy::should_implement_trait, reason = "batches, and errors outside of them")]
    pub fn next(&mut self) -> Result<Option<Batch>> {
        if let State::Waiting(_) = self.state {
            if let State::Waiting(start) = std::mem::replace(&mut self.state, State::Done) {
                self.state = State::Running(start(self.threads, self.batch));
            }
        }
        let State::Running(Running { messages: Some(messages), .. }) = &self.state else {
            return Ok(None);
        };
        match messages.recv() {
            Ok(Message::Batch(batch)) => Ok(Some(batch)),
            Ok(Message::End(result)) => {
                self.state = State::Done;
                result.map(|()| None)
            }
            Err(_) => panic!("the files could not be read to their end"),
        }
    }

    /// The splits of the samples that [`next_batch`](Source::next_batch) gave last.
    pub fn splits(&self) -> &[usize] {
        &self.splits
    }
}

fn hand_over<T>(batch: &mut Vec<T>, to: &SyncSender<Vec<T>>) -> Result<()> {
    let gone = |_| Error::new(ErrorKind::Interrupted, "no more samples are wanted");
    match batch.is_empty() {
        true => Ok(()),
        false => to.send(std::mem::take(batch)).map_err(gone),
    }
}

/// What is skipped is not told.
impl Source for Samples {
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        while let Some(batch) = self.next()? {
            self.splits.clear();
            let mut samples = Vec::with_capacity(batch.len());
            for made in batch {
                match made {
                    Ok(Made::Sample { split, packed }) => {
                        self.splits.push(split);
                        samples.push(Ok(packed));
                    }
                    Ok(Made::Skipped { .. }) => {}
                    Err(error) => {
                        self.splits.push(0);
                        samples.push(Err(error));
                    }
                }
            }
            if !samples.is_empty() {
                return Ok(samples);
            }
        }
        Ok(Vec::new())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Threads that wait to send learn that the receiver is gone.
        self.messages = None;
        for thread in self.threads.drain(..) {
            // A panic was told by `next`, or is of no interest to anybody.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut samples: Samples) -> Vec<String> {
        let mut found = Vec::new();
        loop {
            match samples.next() {
                Ok(Some(batch)) => found.extend(batch.into_iter().map(|made| match made {
                    Ok(Made::Sample { split, packed }) => format!("{split} {packed:?}"),
                    Ok(Made::Skipped { key, why }) => format!("{key} {why}"),
                    Err(error) => error.to_string(),
                })),
                Ok(None) => return found,
                Err(error) => found.push(format!("end: {error}")),
            }
        }
    }

    #[test]
    fn the_order_is_that_of_the_reading() {
        let expected: Vec<String> = (0..1000u32).map(|n| format!("0 [{}]", n as u8)).collect();
        for (threads, batch) in [(1, 1), (2, 7), (0, 32), (5, 5000)] {
            let items = (0..1000u32).collect();
            let mut samples = Samples::new(items, |n| Ok(vec![n as u8])).batch(batch);
            samples.set_threads(threads);
            assert_eq!(all(samples), expected, "{threads}");
        }
        assert!(all(Samples::new(Vec::<u8>::new(), |n| Ok(vec![n]))).is_empty());
    }

    #[test]
    fn an_error_comes_in_its_place() {
        let bad = |message: &str| Error::new(ErrorKind::Damaged, message);
        let read = move |emit: &mut Emit<'_, u8>| {
            (0..4).try_for_each(emit)?;
            Err(bad("cut short"))
        };
        let make = move |n: u8| match n {
            1 => Err(bad("broken")),
            2 => Ok(Made::Skipped { key: "k".into(), why: "empty".into() }),
            n => Ok(Made::Sample { split: usize::from(n), packed: vec![n] }),
        };
        let samples = Samples::stream(read, make).batch(3);
        assert_eq!(all(samples), ["0 [0]", "broken", "k empty", "3 [3]", "end: cut short"]);
    }

    #[test]
    fn dropping_it_early_ends_the_threads() {
        let alive = std::sync::Arc::new(());
        let witness = alive.clone();
        let read = move |emit: &mut Emit<'_, u32>| {
            let _witness = witness;
            (0..u32::MAX).try_for_each(emit)
        };
        let mut samples = Samples::stream(read, |n| Ok(vec![n as u8]));
        assert_eq!(samples.next_batch().unwrap().len(), BATCH);
        drop(samples);
        assert_eq!(std::sync::Arc::strong_count(&alive), 1);
    }

    #[test]
    #[should_panic(expected = "the files could not be read to their end")]
    fn a_panic_is_not_the_end() {
        let read = |_: &mut Emit<'_, u8>| panic!("on purpose");
        all(Samples::stream(read, |n| Ok(vec![n])));
    }
}
