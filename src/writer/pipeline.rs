//! The data file's bytes on their way: one thread writes, another one hashes, the caller packs.

use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use md5::{Digest as _, Md5};

use crate::storage::Sink;

/// Bytes in a block: large enough that a hand-over costs nothing, small enough for the L2 cache.
const BLOCK: usize = 256 << 10;
/// Blocks in flight, and so the memory in use.
const BLOCKS: usize = 16;

type Block = Arc<Vec<u8>>;
/// The MD5 of what passed, where one was asked for.
type Digest = Option<[u8; 16]>;

enum Job {
    Write(Block),
    /// Everything before is to be written, and synced if so asked; answered when done.
    Flush {
        sync: bool,
        done: Sender<()>,
    },
}

pub(super) struct Pipeline {
    block: Vec<u8>,
    free: Receiver<Vec<u8>>,
    write: SyncSender<Job>,
    writer: JoinHandle<Box<dyn Sink>>,
    hash: Option<(SyncSender<Block>, JoinHandle<[u8; 16]>)>,
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl Pipeline {
    /// Starts the threads. `digest`: whether to compute the MD5 of what passes.
    pub(super) fn start(sink: Box<dyn Sink>, digest: bool) -> io::Result<Pipeline> {
        let (give_back, free) = channel();
        for _ in 1..BLOCKS {
            // The receiver is right here.
            let _ = give_back.send(Vec::new());
        }
        let failure = Arc::new(Mutex::new(None));
        let (write, jobs) = sync_channel(BLOCKS);
        let writer = {
            let (give_back, failure) = (give_back.clone(), failure.clone());
            let name = thread::Builder::new().name("kiste-write".into());
            name.spawn(move || write_all(sink, &jobs, &give_back, &failure))?
        };
        let hash = if digest {
            let (send, blocks) = sync_channel(BLOCKS);
            let name = thread::Builder::new().name("kiste-md5".into());
            Some((send, name.spawn(move || hash_all(&blocks, &give_back))?))
        } else {
            None
        };
        Ok(Pipeline { block: Vec::with_capacity(BLOCK), free, write, writer, hash, failure })
    }

    /// Queues bytes. An error may belong to earlier ones; after one, all calls fail.
    #[inline]
    pub(super) fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while self.block.len() + bytes.len() > BLOCK {
            let (now, later) = bytes.split_at(BLOCK - self.block.len());
            self.block.extend_from_slice(now);
            self.send()?;
            bytes = later;
        }
        self.block.extend_from_slice(bytes);
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        if self.block.is_empty() {
            return Ok(());
        }
        let mut next = self.free.recv().map_err(|_| died())?;
        next.clear();
        next.reserve(BLOCK);
        let block = Arc::new(std::mem::replace(&mut self.block, next));
        if let Some((hash, _)) = &self.hash {
            hash.send(block.clone()).map_err(|_| died())?;
        }
        self.write.send(Job::Write(block)).map_err(|_| died())
    }

    /// The first error of the writing thread.
    fn failure(&self) -> Option<io::Error> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.as_ref().map(|e| io::Error::new(e.kind(), e.to_string()))
    }

    /// Waits until all bytes are written, and synced if so asked.
    pub(super) fn flush(&mut self, sync: bool) -> io::Result<()> {
        self.send()?;
        let (done, wait) = channel();
        self.write.send(Job::Flush { sync, done }).map_err(|_| died())?;
        wait.recv().map_err(|_| died())?;
        self.failure().map_or(Ok(()), Err)
    }

    /// Writes the rest and ends the threads. The file, and the MD5 if one was asked for.
    pub(super) fn finish(mut self) -> io::Result<(Box<dyn Sink>, Digest)> {
        self.send()?;
        let Pipeline { write, writer, hash, failure, .. } = self;
        drop(write);
        let digest = match hash {
            Some((send, thread)) => {
                drop(send);
                Some(thread.join().map_err(|_| died())?)
            }
            None => None,
        };
        let sink = writer.join().map_err(|_| died())?;
        let failure = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok((sink, digest)), Err)
    }
}

fn died() -> io::Error {
    io::Error::other("a thread of the writer died")
}

fn write_all(
    mut sink: Box<dyn Sink>,
    jobs: &Receiver<Job>,
    give_back: &Sender<Vec<u8>>,
    failure: &Mutex<Option<io::Error>>,
) -> Box<dyn Sink> {
    let mut failed = false;
    let note = |result: io::Result<()>| {
        if let Err(error) = result {
            *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            true
        } else {
            false
        }
    };
    for job in jobs {
        match job {
            // After a failure the blocks only go round, so that the caller never waits for one.
            Job::Write(block) => {
                failed = failed || note(sink.append(&block));
                recycle(block, give_back);
            }
            Job::Flush { sync, done } => {
                failed = failed || (sync && note(sink.sync()));
                // Nobody waits any more: nothing to tell.
                let _ = done.send(());
            }
        }
    }
    sink
}

fn hash_all(blocks: &Receiver<Block>, give_back: &Sender<Vec<u8>>) -> [u8; 16] {
    let mut md5 = Md5::new();
    for block in blocks {
        md5.update(&*block);
        recycle(block, give_back);
    }
    md5.finalize().into()
}

/// Gives a block back once the last thread is done with it.
fn recycle(block: Block, give_back: &Sender<Vec<u8>>) {
    if let Some(block) = Arc::into_inner(block) {
        // The pipeline is gone: so is the need for the block.
        let _ = give_back.send(block);
    }
}
