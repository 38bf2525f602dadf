//! [`InOrder`]: the units of an input, read on several threads.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::{Input, Remarks, Source};
use crate::error::{Error, ErrorKind, Result};

/// Samples and bytes of a batch: the limit that is reached first ends it.
const BATCH: (usize, usize) = (4096, 1 << 20);
/// Batches of one unit that wait for their turn. A unit that fits is read as a whole ahead of its
/// turn; of a longer one the rest has to wait.
const QUEUE: usize = 4;

/// The units of an [`Input`] as a [`Source`]: read on several threads, handed out in order.
///
/// A thread that is ahead holds a few batches of its unit and then waits, so memory does not grow
/// with the units. After an error that ends a unit, the next one follows.
pub struct InOrder<T> {
    input: Arc<T>,
    /// The units that are being read, in order.
    units: Option<Receiver<Unit>>,
    current: Option<Unit>,
    /// The unit of the last batch, and what it had handed out before that batch and with it.
    last: usize,
    before: u64,
    handed: u64,
    /// Remarks on the unit of the last batch, and on the units before it.
    whole: Remarks,
    present: Remarks,
    /// The unit after the last one.
    end: usize,
    threads: Vec<JoinHandle<()>>,
}

struct Unit {
    number: usize,
    messages: Receiver<Message>,
}

enum Message {
    Batch(Vec<Result<Vec<u8>>>, Remarks),
    /// Comes last. A unit that ends without it was cut short by a panic.
    End(Result<()>, Remarks),
}

impl<T: Input + 'static> InOrder<T> {
    /// Reads on all cores.
    pub fn new(input: T) -> InOrder<T> {
        InOrder::with_threads(input, rayon::current_num_threads())
    }

    /// Reads on this many threads. The result does not depend on their number.
    pub fn with_threads(input: T, threads: usize) -> InOrder<T> {
        let units = 0..input.units();
        InOrder::start(input, units, threads)
    }

    /// Reads only these units, on all cores.
    pub fn of_units(input: T, units: Range<usize>) -> InOrder<T> {
        InOrder::start(input, units, rayon::current_num_threads())
    }

    fn start(input: T, units: Range<usize>, threads: usize) -> InOrder<T> {
        let input = Arc::new(input);
        let end = units.end.min(input.units());
        let start = units.start.min(end);
        // More threads than units would find nothing to do.
        let threads = threads.clamp(1, (end - start).max(1));
        // Small units may be done long before their turn: no more than this.
        let (sender, units) = sync_channel(threads * QUEUE);
        let next = Arc::new(Mutex::new((start, sender)));
        let run = |_| {
            let (input, next) = (input.clone(), next.clone());
            thread::spawn(move || work(&*input, end, &next))
        };
        let threads = (0..threads).map(run).collect();
        let units = Some(units);
        let (whole, present) = (Remarks::default(), Remarks::default());
        let (current, last, before, handed) = (None, start, 0, 0);
        InOrder { input, units, current, last, before, handed, whole, present, end, threads }
    }
}

/// Reads one unit after the other, until there are no more or the receiver is gone.
///
/// Units are announced under the lock, and so in order. A thread that waits there for a free place
/// keeps the others waiting, but they would not find a place either.
fn work(input: &dyn Input, end: usize, next: &Mutex<(usize, SyncSender<Unit>)>) {
    loop {
        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
        let number = next.0;
        if number >= end {
            return;
        }
        next.0 += 1;
        let (sender, messages) = sync_channel(QUEUE);
        if next.1.send(Unit { number, messages }).is_err() {
            return;
        }
        drop(next);
        let remarks = || input.remarks(number);
        let mut batch = Batch { samples: Vec::new(), bytes: 0, sender: &sender, remarks: &remarks };
        let result = input.read(number, &mut |sample| batch.push(sample));
        if batch.send().is_err() || sender.send(Message::End(result, remarks())).is_err() {
            return;
        }
    }
}

struct Batch<'a> {
    samples: Vec<Result<Vec<u8>>>,
    bytes: usize,
    sender: &'a SyncSender<Message>,
    /// Takes those on the samples.
    remarks: &'a dyn Fn() -> Remarks,
}

impl Batch<'_> {
    fn push(&mut self, sample: Result<Vec<u8>>) -> Result<()> {
        self.bytes = self.bytes.saturating_add(sample.as_ref().map_or(0, Vec::len));
        self.samples.push(sample);
        if self.samples.len() < BATCH.0 && self.bytes < BATCH.1 { Ok(()) } else { self.send() }
    }

    fn send(&mut self) -> Result<()> {
        self.bytes = 0;
        let samples = std::mem::take(&mut self.samples);
        let gone = |_| Error::new(ErrorKind::Interrupted, "the receiver of the samples is gone");
        match samples.is_empty() {
            true => Ok(()),
            false => self.sender.send(Message::Batch(samples, (self.remarks)())).map_err(gone),
        }
    }
}

impl<T: Input + 'static> Source for InOrder<T> {
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        loop {
            let Some(unit) = &self.current else {
                self.current = self.units.as_ref().and_then(|units| units.recv().ok());
                match &self.current {
                    Some(unit) => self.last = unit.number,
                    None => {
                        self.last = self.end;
                        self.whole.add(&std::mem::take(&mut self.present));
                        return Ok(Vec::new());
                    }
                }
                (self.before, self.handed) = (0, 0);
                self.whole.add(&std::mem::take(&mut self.present));
                continue;
            };
            match unit.messages.recv() {
                Ok(Message::Batch(samples, remarks)) => {
                    self.present.add(&remarks);
                    self.before = self.handed;
                    self.handed += samples.len() as u64;
                    let numbered = samples.into_iter().enumerate();
                    let located = |(item, sample): (usize, Result<Vec<u8>>)| {
                        sample.map_err(|error| match error.path() {
                            // A reader of several files knows best which one it was.
                            Some(_) => error,
                            None => self.locate(item, error),
                        })
                    };
                    return Ok(numbered.map(located).collect());
                }
                Ok(Message::End(result, remarks)) => {
                    self.present.add(&remarks);
                    self.current = None;
                    if let Err(error) = result {
                        let error = match self.input.path(self.last) {
                            Some(path) => error.at(path),
                            None => error,
                        };
                        // As a sample, so that what happens to bad input decides, and the next unit follows.
                        return Ok(vec![Err(error.ending_its_unit())]);
                    }
                }
                // A panic must not pass for the end of the unit: samples would be missing in silence.
                Err(_) => panic!("unit {} of the input could not be read to its end", self.last),
            }
        }
    }

    fn locate(&self, item: usize, error: Error) -> Error {
        self.input.locate(self.last, self.before + item as u64, error)
    }

    fn unit(&self) -> Option<usize> {
        Some(self.last)
    }

    fn remarks(&self) -> [&Remarks; 2] {
        [&self.whole, &self.present]
    }

    fn shard(&self) -> Option<&str> {
        self.input.shard(self.last)
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
        // Threads that wait to send something see that the receiver is gone.
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
    use std::path::Path;

    use super::*;
    use crate::convert::Emit;
    use crate::format::msgpack;

    /// Units of these numbers of samples of this size; one sample is bad, and one unit ends in an error.
    struct Numbers {
        units: Vec<usize>,
        size: usize,
        bad: Option<(usize, usize)>,
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
                match self.bad {
                    Some(bad) if bad == (unit, number) => {
                        emit(Err(Error::new(ErrorKind::Invalid, "bad")))?;
                    }
                    _ => emit(Ok(sample))?,
                }
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
        let full = BATCH.0;
        let units = vec![
            3,
            0,
            3 * full - 1,
            1,
            full - 1,
            full,
            full + 1,
            0,
            0,
            9,
            1,
            1,
            1,
            1,
            1,
            1,
            1,
            1,
            1,
            1,
            2,
        ];
        let expected: Vec<String> = (0..units.len())
            .flat_map(|unit| (0..units[unit]).map(move |n| format!("{:?}", [unit as u8, n as u8])))
            .collect();
        for (threads, size) in [(1, 0), (2, 0), (7, 0), (64, 0), (3, 9000)] {
            let input = Numbers { units: units.clone(), size, bad: None, broken: None };
            assert_eq!(all(InOrder::with_threads(input, threads)), expected, "{threads}");
        }
        assert!(
            all(InOrder::new(Numbers { units: vec![], size: 0, bad: None, broken: None }))
                .is_empty()
        );
    }

    #[test]
    fn an_error_ends_its_unit_only() {
        let input = Numbers { units: vec![1, 2, 1], size: 0, bad: Some((1, 0)), broken: Some(1) };
        let found = all(InOrder::with_threads(input, 2));
        assert_eq!(found, ["[0, 0]", "numbers: bad", "[1, 1]", "numbers: broken", "[2, 0]"]);
    }

    #[test]
    fn some_units_only_and_the_unit_is_known() {
        let units = vec![3, 0, BATCH.0 + 44, 2, 4];
        let input = Numbers { units, size: 0, bad: None, broken: None };
        let mut source = InOrder::of_units(input, 1..4);
        let mut found = Vec::new();
        loop {
            let batch = source.next_batch().unwrap();
            found.push((source.unit().unwrap(), batch.len()));
            if batch.is_empty() {
                break;
            }
        }
        assert_eq!(found, [(2, BATCH.0), (2, 44), (3, 2), (4, 0)]);
    }

    #[test]
    fn dropping_it_early_ends_the_threads() {
        let input =
            Arc::new(Numbers { units: vec![100_000; 50], size: 9, bad: None, broken: None });
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
                emit(Ok(msgpack::to_vec(&crate::Value::Nil)?))?;
                panic!("on purpose")
            }
        }
        all(InOrder::new(Panics));
    }
}
