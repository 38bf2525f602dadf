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

/// Bytes in a block: the best size for one call of the kernel.
const BLOCK: usize = 2 << 20;
/// Blocks that wait for MD5, and so the memory in use.
const BLOCKS: usize = 4;
/// Room behind a block, so that one is seldom moved for the sample that does not fit in it.
const SLACK: usize = 256 << 10;

/// The MD5 of what passed, where one was asked for.
type Digest = Option<[u8; 16]>;

pub(super) struct Pipeline {
    block: Vec<u8>,
    /// Finished bytes of the block. After them comes a sample that is being packed, or was given
    /// up.
    kept: usize,
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
        Ok(Pipeline { block: new_block(), kept: 0, room, sink, hash, failed: false })
    }

    /// Where to pack a sample: after the finished ones. It can be given up until
    /// [`keep`](Self::keep).
    #[inline]
    pub(super) fn begin(&mut self) -> &mut Vec<u8> {
        self.block.truncate(self.kept);
        &mut self.block
    }

    /// The sample that was packed there.
    #[inline]
    pub(super) fn begun(&self) -> &[u8] {
        self.block.get(self.kept..).unwrap_or_default()
    }

    /// Takes the sample that was packed on its way. Errors are as for [`append`](Self::append).
    #[inline]
    pub(super) fn keep(&mut self) -> Result<()> {
        if self.block.len() > self.room {
            return self.keep_more();
        }
        self.kept = self.block.len();
        Ok(())
    }

    /// The same for one with which the block is longer than it is to be.
    #[cold]
    fn keep_more(&mut self) -> Result<()> {
        if self.block.len() - self.room <= BLOCK {
            let rest = self.block.split_off(self.room);
            self.kept = self.room;
            self.hand_over()?;
            return self.append(&rest);
        }
        let all = std::mem::replace(&mut self.block, new_block());
        self.kept = 0;
        self.append(&all)
    }

    /// Takes bytes on their way. An error may belong to earlier ones; after one, all calls fail.
    #[inline]
    pub(super) fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        while self.kept + bytes.len() > self.room {
            let (now, later) = bytes.split_at(self.room - self.kept);
            self.extend(now);
            self.hand_over()?;
            bytes = later;
        }
        self.extend(bytes);
        Ok(())
    }

    #[inline]
    fn extend(&mut self, bytes: &[u8]) {
        self.begin().extend_from_slice(bytes);
        self.kept = self.block.len();
    }

    /// Writes the block and passes it on.
    fn hand_over(&mut self) -> Result<()> {
        if self.failed {
            return Err(Error::new(ErrorKind::Io, "an earlier write failed"));
        }
        if self.begin().is_empty() {
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
        self.kept = 0;
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
        // A large sample may have made it larger, and the first ones are empty.
        if next.capacity() < BLOCK || next.capacity() > BLOCK + SLACK {
            next = new_block();
        }
        self.blocks.send(std::mem::replace(block, next)).map_err(|_| died())
    }
}

fn new_block() -> Vec<u8> {
    Vec::with_capacity(BLOCK + SLACK)
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::format::dataset::golden;
    use crate::storage::{MemoryStorage, Storage};

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn what_is_packed_in_place_arrives_as_what_is_appended() {
        let mut next = golden::random(4);
        let sizes =
            [0, 1, 100, 5000, SLACK, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + SLACK, 5 * BLOCK];
        for round in 0..20 {
            let storage = MemoryStorage::new();
            let digest = round % 2 == 0;
            // Where it begins in the file moves the ends of blocks.
            let at = if digest { 0 } else { next() % (2 * BLOCK as u64) };
            let sink = storage.create(Path::new("x")).unwrap();
            let mut pipeline = Pipeline::start(sink, at, digest).unwrap();
            let mut expected = Vec::new();
            for step in 0..40 {
                let size = sizes[next() as usize % if step % 8 == 0 { sizes.len() } else { 4 }];
                let bytes = vec![step as u8; size];
                match next() % 8 {
                    0 => pipeline.flush(false).unwrap(),
                    // A sample that is given up.
                    1 => pipeline.begin().extend_from_slice(&bytes),
                    2 | 3 => {
                        pipeline.append(&bytes).unwrap();
                        expected.extend_from_slice(&bytes);
                    }
                    _ => {
                        pipeline.begin().extend_from_slice(&bytes);
                        assert!(pipeline.begun() == bytes);
                        pipeline.keep().unwrap();
                        expected.extend_from_slice(&bytes);
                    }
                }
                assert!(pipeline.kept <= pipeline.room);
            }
            let (_, found) = pipeline.finish().unwrap();
            assert!(storage.get("x").unwrap() == expected, "{round}");
            assert!(found == digest.then(|| Md5::of(&expected)), "{round}");
        }
    }
}
