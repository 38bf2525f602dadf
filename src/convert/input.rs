//! [`Input`]: raw data in numbered units, and [`InOrder`], which reads them on several threads.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::Source;
use crate::error::{Error, ErrorKind, Result};

/// Takes one packed sample. Its error says that nobody wants more: pass it on.
pub type Emit<'a> = dyn FnMut(Vec<u8>) -> Result<()> + 'a;

/// Raw data that fall into numbered units, each of which can be read without the others: the
/// shards of a data set, or runs of rows of one file.
///
/// What a unit holds, and how many there are, depends on nothing but the data and the options, so
/// any number of machines can divide the units among them and come to the same samples. The order
/// of a data set is unit by unit. [`InOrder`] makes a [`Source`] of it.
///
/// The files of an [`ImageFolder`](super::ImageFolder) in runs of some hundreds are such units;
/// lines that come through a pipe are one.
pub trait Input: Send + Sync {
    /// How many units there are.
    fn units(&self) -> usize;

    /// Reads a unit, and hands its packed samples to `emit` one after the other.
    ///
    /// The first error ends the unit; what was emitted before is good.
    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()>;

    /// The file that a unit is from, for errors that do not know it.
    fn path(&self, unit: usize) -> Option<&Path> {
        let _ = unit;
        None
    }

    /// How many samples there will be, where that is known without reading them.
    fn len_hint(&self) -> Option<u64> {
        None
    }

    /// The names of the numeric labels, where there are any.
    fn label_names(&self) -> Option<&[String]> {
        None
    }
}

impl<T: Input + ?Sized> Input for Arc<T> {
    fn units(&self) -> usize {
        (**self).units()
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        (**self).read(unit, emit)
    }

    fn path(&self, unit: usize) -> Option<&Path> {
        (**self).path(unit)
    }

    fn len_hint(&self) -> Option<u64> {
        (**self).len_hint()
    }

    fn label_names(&self) -> Option<&[String]> {
        (**self).label_names()
    }
}

/// Samples and bytes of a batch, whichever is reached first.
const BATCH: (usize, usize) = (256, 1 << 20);
/// Batches of one unit that wait for their turn.
const QUEUE: usize = 2;

/// The units of an [`Input`] as a [`Source`]: read on several threads, handed out in order.
///
/// Each thread holds a few batches of a unit that is ahead of its turn and then waits, so memory
/// does not grow with the units. After an error in a unit the next one follows.
pub struct InOrder<T> {
    input: Arc<T>,
    /// The units that are being read, in order.
    units: Option<Receiver<Unit>>,
    current: Option<Unit>,
    /// The unit of the last batch.
    last: usize,
    threads: Vec<JoinHandle<()>>,
}

struct Unit {
    number: usize,
    messages: Receiver<Message>,
}

enum Message {
    Batch(Vec<Vec<u8>>),
    /// Comes last. A unit that ends without it was cut short by a panic.
    End(Result<()>),
}

impl<T: Input + 'static> InOrder<T> {
    /// Reads on all cores.
    pub fn new(input: T) -> InOrder<T> {
        InOrder::with_threads(input, rayon::current_num_threads())
    }

    /// Reads on so many threads. What comes out does not depend on their number.
    pub fn with_threads(input: T, threads: usize) -> InOrder<T> {
        let input = Arc::new(input);
        let threads = threads.clamp(1, input.units().max(1));
        // Small units may be done long before their turn: no more than this.
        let (sender, units) = sync_channel(threads * QUEUE);
        let next = Arc::new(Mutex::new((0, sender)));
        let run = |_| {
            let (input, next) = (input.clone(), next.clone());
            thread::spawn(move || work(&*input, &next))
        };
        let threads = (0..threads).map(run).collect();
        InOrder { input, units: Some(units), current: None, last: 0, threads }
    }
}

/// Reads one unit after the other, until there are no more or nobody listens.
///
/// A unit is announced under the lock, so they are announced in order. Who waits there for a place
/// among the announced keeps the others waiting, who would have none either.
fn work(input: &dyn Input, next: &Mutex<(usize, SyncSender<Unit>)>) {
    loop {
        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
        let number = next.0;
        if number >= input.units() {
            return;
        }
        next.0 += 1;
        let (sender, messages) = sync_channel(QUEUE);
        if next.1.send(Unit { number, messages }).is_err() {
            return;
        }
        drop(next);
        let mut batch = Batch { samples: Vec::new(), bytes: 0, sender: &sender };
        let result = input.read(number, &mut |sample| batch.push(sample));
        if batch.send().is_err() || sender.send(Message::End(result)).is_err() {
            return;
        }
    }
}

struct Batch<'a> {
    samples: Vec<Vec<u8>>,
    bytes: usize,
    sender: &'a SyncSender<Message>,
}

impl Batch<'_> {
    fn push(&mut self, sample: Vec<u8>) -> Result<()> {
        self.bytes = self.bytes.saturating_add(sample.len());
        self.samples.push(sample);
        if self.samples.len() < BATCH.0 && self.bytes < BATCH.1 { Ok(()) } else { self.send() }
    }

    fn send(&mut self) -> Result<()> {
        self.bytes = 0;
        let samples = std::mem::take(&mut self.samples);
        let gone = |_| Error::new(ErrorKind::Interrupted, "nobody wants more samples");
        match samples.is_empty() {
            true => Ok(()),
            false => self.sender.send(Message::Batch(samples)).map_err(gone),
        }
    }
}

impl<T: Input + 'static> Source for InOrder<T> {
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        loop {
            let Some(unit) = &self.current else {
                self.current = self.units.as_ref().and_then(|units| units.recv().ok());
                if self.current.is_none() {
                    return Ok(Vec::new());
                }
                continue;
            };
            self.last = unit.number;
            match unit.messages.recv() {
                Ok(Message::Batch(samples)) => return Ok(samples.into_iter().map(Ok).collect()),
                Ok(Message::End(result)) => {
                    self.current = None;
                    if let Err(error) = result {
                        return Ok(vec![Err(self.locate(0, error))]);
                    }
                }
                Err(_) => panic!("unit {} of the input could not be read to its end", self.last),
            }
        }
    }

    fn locate(&self, _item: usize, error: Error) -> Error {
        match self.input.path(self.last) {
            Some(path) => error.at(path),
            None => error,
        }
    }

    fn len_hint(&self) -> Option<u64> {
        self.input.len_hint()
    }

    fn label_names(&self) -> Option<&[String]> {
        self.input.label_names()
    }
}

impl<T> Drop for InOrder<T> {
    fn drop(&mut self) {
        // Whoever waits to hand something over is told that nobody takes it.
        self.current = None;
        self.units = None;
        for thread in self.threads.drain(..) {
            // A panic was told by `next_batch`, or is of no interest to anybody.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::msgpack;

    /// Units of so many samples of so many bytes; one of them ends in an error.
    struct Numbers {
        units: Vec<usize>,
        size: usize,
        broken: Option<usize>,
    }

    impl Input for Numbers {
        fn units(&self) -> usize {
            self.units.len()
        }

        fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
            for number in 0..self.units[unit] {
                let mut sample = vec![0; self.size];
                sample.extend([unit as u8, number as u8]);
                emit(sample)?;
            }
            match self.broken == Some(unit) {
                true => Err(Error::new(ErrorKind::Damaged, "broken")),
                false => Ok(()),
            }
        }

        fn path(&self, _unit: usize) -> Option<&Path> {
            Some(Path::new("numbers"))
        }
    }

    fn all(mut source: impl Source) -> Vec<String> {
        let mut found = Vec::new();
        loop {
            let batch = source.next_batch().unwrap();
            if batch.is_empty() {
                return found;
            }
            found.extend(batch.into_iter().map(|sample| match sample {
                Ok(bytes) => format!("{:?}", &bytes[bytes.len() - 2..]),
                Err(error) => error.to_string(),
            }));
        }
    }

    #[test]
    fn the_order_is_that_of_the_units() {
        let units = vec![3, 0, 700, 1, 255, 256, 257, 0, 0, 9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2];
        let expected: Vec<String> = (0..units.len())
            .flat_map(|unit| (0..units[unit]).map(move |n| format!("{:?}", [unit as u8, n as u8])))
            .collect();
        for (threads, size) in [(1, 0), (2, 0), (7, 0), (64, 0), (3, 9000)] {
            let input = Numbers { units: units.clone(), size, broken: None };
            assert_eq!(all(InOrder::with_threads(input, threads)), expected, "{threads}");
        }
        assert!(all(InOrder::new(Numbers { units: vec![], size: 0, broken: None })).is_empty());
    }

    #[test]
    fn an_error_ends_its_unit_only() {
        let input = Numbers { units: vec![1, 2, 1], size: 0, broken: Some(1) };
        let found = all(InOrder::with_threads(input, 2));
        assert_eq!(found, ["[0, 0]", "[1, 0]", "[1, 1]", "numbers: broken", "[2, 0]"]);
    }

    #[test]
    fn dropping_it_early_ends_the_threads() {
        let input = Arc::new(Numbers { units: vec![100_000; 50], size: 9, broken: None });
        let mut source = InOrder::with_threads(input.clone(), 4);
        assert_eq!(source.next_batch().unwrap().len(), BATCH.0);
        drop(source);
        assert_eq!(Arc::strong_count(&input), 1);
    }

    #[test]
    #[should_panic(expected = "unit 0 of the input could not be read to its end")]
    fn a_panic_is_not_the_end() {
        struct Panics;
        impl Input for Panics {
            fn units(&self) -> usize {
                1
            }

            fn read(&self, _unit: usize, emit: &mut Emit<'_>) -> Result<()> {
                emit(msgpack::to_vec(&crate::Value::Nil)?)?;
                panic!("on purpose")
            }
        }
        all(InOrder::new(Panics));
    }
}
