//! Many files that are filled at a time, in large writes, on threads of their own.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use crate::error::{Error, ErrorKind, Result};
use crate::storage::Sink;

/// Bytes that each file gathers before it is written, at least and at most. The page cache takes a megabyte at a time well.
const BUFFER: (u64, u64) = (4 << 10, 1 << 20);
/// Threads that write, at most, and how many buffers wait for each: the rest of the machine has the
/// samples to find.
const THREADS: usize = 2;
const QUEUE: usize = 2;
/// So few bytes are written by the thread that has them.
pub(super) const FEW_BYTES: u64 = 16 << 20;

/// Bytes to write.
pub(super) struct Spill {
    pub(super) files: usize,
    /// The bytes of all files together.
    pub(super) bytes: u64,
    /// The most that all buffers take, unless they cannot be so small.
    pub(super) memory: u64,
}

/// The files that a [`Spill`] fills.
pub(super) struct Files {
    buffers: Vec<Vec<u8>>,
    capacity: usize,
    to: To,
}

/// Where full buffers go.
enum To {
    Sinks(Vec<Box<dyn Sink>>),
    Threads {
        /// Of a file, the one that its number leads to: so its buffers come in order.
        queues: Vec<SyncSender<(usize, Vec<u8>)>>,
        free: Receiver<Vec<u8>>,
    },
}

impl Spill {
    /// Creates the files, has `fill` fill them, and completes them. The first error of a write ends all.
    pub(super) fn run(
        &self,
        create: impl Fn(usize) -> Result<Box<dyn Sink>>,
        fill: impl FnOnce(&mut Files) -> Result<()>,
    ) -> Result<()> {
        let sinks = (0..self.files).map(create).collect::<Result<Vec<_>>>()?;
        let capacity = self.memory / self.files.max(1) as u64;
        let capacity = capacity.clamp(BUFFER.0, BUFFER.1) as usize;
        let buffers = vec![Vec::new(); self.files];
        let mut files = Files { buffers, capacity, to: To::Sinks(sinks) };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(THREADS).min(self.files);
        if self.bytes < FEW_BYTES || threads < 2 {
            return fill(&mut files).and_then(|()| files.finish());
        }
        files.on_threads(threads, fill)
    }
}

impl Files {
    fn on_threads(
        mut self,
        threads: usize,
        fill: impl FnOnce(&mut Files) -> Result<()>,
    ) -> Result<()> {
        let (give_back, free) = channel();
        let mut queues = Vec::new();
        let to = std::mem::replace(&mut self.to, To::Sinks(Vec::new()));
        let To::Sinks(sinks) = to else { return Ok(()) };
        let mut shares: Vec<Vec<(usize, Box<dyn Sink>)>> = Vec::new();
        shares.resize_with(threads, Vec::new);
        for (file, sink) in sinks.into_iter().enumerate() {
            shares[file % threads].push((file, sink));
        }
        thread::scope(|scope| {
            let mut running = Vec::new();
            for share in shares {
                let (queue, work) = sync_channel(QUEUE);
                queues.push(queue);
                (0..QUEUE).for_each(|_| drop(give_back.send(Vec::new())));
                let give_back = give_back.clone();
                let run = move || write_all(share, &work, &give_back);
                let thread = thread::Builder::new().name("kiste-spill".into());
                let thread = thread.spawn_scoped(scope, run);
                running.push(thread.map_err(|e| Error::os("starting a thread that writes", e))?);
            }
            drop(give_back);
            self.to = To::Threads { queues, free };
            let filled = fill(&mut self).and_then(|()| self.finish());
            // Without the queues the threads end.
            drop(self);
            let written = running.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            // A thread that failed is why nothing more could be passed on to it.
            written.and(filled)
        })
    }

    /// Appends to a file.
    pub(super) fn append(&mut self, file: usize, mut bytes: &[u8]) -> Result<()> {
        loop {
            let buffer = &mut self.buffers[file];
            if buffer.capacity() == 0 {
                buffer.reserve_exact(self.capacity);
            }
            let free = self.capacity - buffer.len();
            if bytes.len() <= free {
                buffer.extend_from_slice(bytes);
                return Ok(());
            }
            let (now, later) = bytes.split_at(free);
            buffer.extend_from_slice(now);
            self.pass_on(file)?;
            bytes = later;
        }
    }

    fn pass_on(&mut self, file: usize) -> Result<()> {
        let buffer = &mut self.buffers[file];
        match &mut self.to {
            To::Sinks(sinks) => {
                sinks[file].append(buffer)?;
                buffer.clear();
            }
            To::Threads { queues, free } => {
                let next = free.recv().map_err(|_| over())?;
                let full = std::mem::replace(buffer, next);
                queues[file % queues.len()].send((file, full)).map_err(|_| over())?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        (0..self.buffers.len()).try_for_each(|file| self.pass_on(file))
    }
}

/// Writes what comes, until the end or an error. With a thread that ends go the buffers in its queue and in its
/// hands, which is fewer than there are: so the other side is never left without, and sees the end.
fn write_all(
    mut share: Vec<(usize, Box<dyn Sink>)>,
    work: &Receiver<(usize, Vec<u8>)>,
    give_back: &Sender<Vec<u8>>,
) -> Result<()> {
    for (file, mut buffer) in work {
        let sink = share.iter_mut().find(|(number, _)| *number == file);
        sink.map_or(Ok(()), |(_, sink)| sink.append(&buffer))?;
        buffer.clear();
        // The other side may have ended.
        let _ = give_back.send(buffer);
    }
    Ok(())
}

fn over() -> Error {
    Error::new(ErrorKind::Io, "a thread that writes has ended")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A file in memory, which fails when it would have more than this many bytes.
    struct Memory {
        bytes: Arc<Mutex<Vec<u8>>>,
        room: usize,
    }

    impl Sink for Memory {
        fn append(&mut self, bytes: &[u8]) -> Result<()> {
            let mut all = self.bytes.lock().unwrap();
            all.extend_from_slice(bytes);
            match all.len() > self.room {
                true => Err(Error::new(ErrorKind::Io, "the disk is full")),
                false => Ok(()),
            }
        }

        fn write_at(&mut self, _: &[u8], _: u64) -> Result<()> {
            unreachable!()
        }

        fn set_len(&mut self, _: u64) -> Result<()> {
            unreachable!()
        }

        fn sync(&mut self) -> Result<()> {
            unreachable!()
        }
    }

    /// Fills three files with 20,000 pieces of up to 999 bytes; what is in them, and what should be.
    fn fill(bytes: u64, room: usize) -> (Result<()>, [Vec<u8>; 3], [Vec<u8>; 3]) {
        let files: [Arc<Mutex<Vec<u8>>>; 3] = Default::default();
        let mut expected: [Vec<u8>; 3] = Default::default();
        let create = |file: usize| -> Result<Box<dyn Sink>> {
            Ok(Box::new(Memory { bytes: files[file].clone(), room }))
        };
        let result = Spill { files: 3, bytes, memory: 30_000 }.run(create, |to| {
            for i in 0..20_000 {
                let piece = vec![i as u8; i * 31 % 1000];
                expected[i % 3].extend_from_slice(&piece);
                to.append(i % 3, &piece)?;
            }
            Ok(())
        });
        (result, files.map(|file| std::mem::take(&mut *file.lock().unwrap())), expected)
    }

    #[test]
    fn each_file_has_its_bytes_in_their_order() {
        // By this thread, and by others.
        for bytes in [0, FEW_BYTES] {
            let (result, found, expected) = fill(bytes, usize::MAX);
            result.unwrap();
            assert!(found == expected);
        }
    }

    #[test]
    fn an_error_of_a_write_ends_it() {
        for bytes in [0, FEW_BYTES] {
            let (result, found, _) = fill(bytes, 100_000);
            assert_eq!(result.unwrap_err().to_string(), "the disk is full");
            assert!(found.iter().all(|file| file.len() < 1_000_000));
        }
    }
}
