//! [`ShardedWriter`]: several files of a format whose writer makes one.

use std::fs;
use std::path::{Path, PathBuf};

use super::carried::ChangedValues;
use super::shard_limit::ShardLimit;
use super::writer::SampleWriter;
use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::shards::MAX_SHARDS;
use crate::rearrange::part_path;

/// The shard of an output with this number: `train-00007.jsonl` for `train.jsonl`.
pub(super) fn shard_path(path: &Path, number: u64) -> PathBuf {
    part_path(path, &format!("{number:05}"))
}

/// Writes shards one after the other. All of them are files of one writer, which goes from each to the next: so the
/// first samples of the output decide the columns of all.
pub(super) struct ShardedWriter {
    path: PathBuf,
    limit: ShardLimit,
    writer: Box<dyn SampleWriter>,
    /// The last one is being written.
    shards: Vec<PathBuf>,
    /// Samples in the last shard, and their bytes.
    samples: u64,
    bytes: u64,
}

impl ShardedWriter {
    /// Begins the shards of an output with this path. `create` makes the writer of the first.
    pub(super) fn create(
        path: &Path,
        limit: ShardLimit,
        create: impl FnOnce(&Path) -> Result<Box<dyn SampleWriter>>,
    ) -> Result<ShardedWriter> {
        let first = shard_path(path, 0);
        let (path, writer) = (path.to_path_buf(), create(&first)?);
        Ok(ShardedWriter { path, limit, writer, shards: vec![first], samples: 0, bytes: 0 })
    }

    fn next_shard(&mut self) -> Result<()> {
        if self.shards.len() == MAX_SHARDS {
            let message = format!("expected at most {MAX_SHARDS} shards: make them larger");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let next = shard_path(&self.path, self.shards.len() as u64);
        self.writer.next_file(&next)?;
        self.shards.push(next);
        (self.samples, self.bytes) = (0, 0);
        Ok(())
    }
}

impl SampleWriter for ShardedWriter {
    fn write_packed(&mut self, packed: &[u8]) -> Result<()> {
        if self.limit.is_reached(self.samples, self.bytes) {
            self.next_shard()?;
        }
        self.writer.write_packed(packed)?;
        (self.samples, self.bytes) = (self.samples + 1, self.bytes + packed.len() as u64);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.writer.flush()
    }

    fn refuses(&self, error: &Error, packed: &[u8]) -> bool {
        self.writer.refuses(error, packed)
    }

    fn changes(&self) -> Vec<ChangedValues> {
        self.writer.changes()
    }

    fn finish(mut self: Box<Self>) -> Result<Vec<PathBuf>> {
        self.writer.finish()?;
        if self.samples == 0 && self.shards.len() > 1 {
            // It was begun for a sample that was refused, and no other came.
            let empty = self.shards.pop();
            empty
                .iter()
                .try_for_each(|path| fs::remove_file(path).map_err(|e| Error::io(path, e)))?;
        }
        Ok(self.shards)
    }
}
