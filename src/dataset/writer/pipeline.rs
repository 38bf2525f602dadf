//! The data file's bytes on their way: the caller packs and writes, another thread hashes.
//!
//! Writing stays with the caller, who has the bytes in its cache: on a third thread the kernel
//! copied them at a fraction of the speed (measured), and to the page cache there is little to wait
//! for. MD5 is what takes long.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use crate::error::{Error, ErrorKind, Result};
use crate::format::md5::Md5;
use crate::storage::Sink;

/// Bytes in a block: as many as the kernel takes best in one call.
const BLOCK: usize = 2 << 20;
/// Blocks that wait for MD5, and so the memory in use.
const BLOCKS: usize = 4;

/// The MD5 of what passed, where one was asked for.
type Digest = Option<[u8; 16]>;

pub(super) struct Pipeline {
    block: Vec<u8>,
    /// Bytes that the block is to have, so that it ends at a multiple of [`BLOCK`] in the file.
    room: usize,
    sink: Box<dyn Sink>,
    hash: Option<Hash>,
    /// An earlier write failed: bytes are missing.
    failed: bool,
}

/// The thread that hashes.
struct Hash {
    blocks: SyncSender<Vec<u8>>,
    free: Receiver<Vec<u8>>,
    thread: JoinHandle<[u8; 16]>,
}

impl Pipeline {
    /// Starts behind this many bytes of the file. `digest`: whether to compute the MD5 of what passes.
    pub(super) fn start(sink: Box<dyn Sink>, at: u64, digest: bool) -> Result<Pipeline> {
        let hash = if digest { Some(Hash::start()?) } else { None };
        let room = BLOCK - (at % BLOCK as u64) as usize;
        Ok(Pipeline { block: Vec::with_capacity(BLOCK), room, sink, hash, failed: false })
    }

    /// Takes bytes on their way. An error may belong to earlier ones; after one, all calls fail.
    #[inline]
    pub(super) fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        while self.block.len() + bytes.len() > self.room {
            let (now, later) = bytes.split_at(self.room - self.block.len());
            self.block.extend_from_slice(now);
            self.hand_over()?;
            bytes = later;
        }
        self.block.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the block and passes it on.
    fn hand_over(&mut self) -> Result<()> {
        if self.failed {
            return Err(Error::new(ErrorKind::Io, "an earlier write failed"));
        }
        if self.block.is_empty() {
            return Ok(());
        }
        let written = self.sink.append(&self.block);
        self.failed = written.is_err();
        written?;
        self.room = if self.block.len() < self.room { self.room - self.block.len() } else { BLOCK };
        match &self.hash {
            Some(hash) => hash.pass(&mut self.block)?,
            None => self.block.clear(),
        }
        Ok(())
    }

    /// Writes what there is, and syncs it if so asked.
    pub(super) fn flush(&mut self, sync: bool) -> Result<()> {
        self.hand_over()?;
        if sync { self.sink.sync() } else { Ok(()) }
    }

    /// Writes the rest. The file, and the MD5 if one was asked for.
    pub(super) fn finish(mut self) -> Result<(Box<dyn Sink>, Digest)> {
        self.hand_over()?;
        let digest = match self.hash {
            Some(Hash { blocks, thread, .. }) => {
                drop(blocks);
                Some(thread.join().map_err(|_| died())?)
            }
            None => None,
        };
        Ok((self.sink, digest))
    }
}

impl Hash {
    fn start() -> Result<Hash> {
        let (give_back, free) = channel();
        for _ in 1..BLOCKS {
            // The receiver is right here.
            let _ = give_back.send(Vec::new());
        }
        let (blocks, work) = sync_channel(BLOCKS);
        let thread = thread::Builder::new().name("kiste-md5".into());
        let thread = thread.spawn(move || hash_all(&work, &give_back));
        let thread =
            thread.map_err(|e| Error::os("starting the thread that computes the MD5", e))?;
        Ok(Hash { blocks, free, thread })
    }

    /// Gives the block to the thread and an empty one back.
    fn pass(&self, block: &mut Vec<u8>) -> Result<()> {
        let mut next = self.free.recv().map_err(|_| died())?;
        next.clear();
        next.reserve(BLOCK);
        self.blocks.send(std::mem::replace(block, next)).map_err(|_| died())
    }
}

fn hash_all(blocks: &Receiver<Vec<u8>>, give_back: &Sender<Vec<u8>>) -> [u8; 16] {
    let mut md5 = Md5::new();
    for block in blocks {
        md5.update(&block);
        // The pipeline is gone: so is the need for the block.
        let _ = give_back.send(block);
    }
    md5.finish()
}

fn died() -> Error {
    Error::new(ErrorKind::Io, "the thread that computes the MD5 died")
}
