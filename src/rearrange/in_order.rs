//! The samples of a dataset from front to back, read on another thread.
//!
//! The file is read by calls, not through its map: what the kernel reads ahead of them it keeps in large pages, while a
//! map that asks for what comes next gets small ones, and has to fault each few of them in and out.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use super::FEW;
use crate::dataset::DatasetReader;
use crate::error::{Error, ErrorKind, Result};
use crate::reader::Reader;
use crate::storage::{CachedFile, Source};

/// Bytes that are read in one go, and in one request. Larger samples are read where they are needed.
const BLOCK: u64 = 1 << 20;
const REQUEST: u64 = 4 << 20;
/// Bytes of a map before the touched range that may still be in memory: a touched page may bring neighbours.
const NEIGHBOURS: u64 = 8 << 20;
/// Blocks that wait.
const QUEUE: usize = 2;

/// Samples that were read together.
#[derive(Default)]
struct Block {
    indices: Range<usize>,
    /// Where the bytes lie in the file.
    range: Range<u64>,
    bytes: Vec<u8>,
}

/// Bytes of a block, at most, unless there is one sample in it.
fn most(data: &Source) -> u64 {
    if data.is_remote() { REQUEST } else { BLOCK }
}

/// Calls this for each sample that is wanted, in their order.
pub(super) fn in_order(
    reader: &dyn Reader,
    is_wanted: impl Fn(usize) -> bool + Sync,
    mut each: impl FnMut(usize, &[u8]) -> Result<()>,
) -> Result<()> {
    let wanted = |indices: Range<usize>| indices.filter(|&index| is_wanted(index));
    let dataset = DatasetReader::of(reader);
    let Some((reader, data)) = dataset.and_then(|dataset| Some((dataset, dataset.data()?))) else {
        // Of many files: each is read where it is.
        for start in (0..reader.len()).step_by(FEW) {
            let few = start..reader.len().min(start + FEW);
            if reader.is_remote() {
                reader.prefetch(&wanted(few.clone()).collect::<Vec<_>>());
            }
            wanted(few).try_for_each(|index| each(index, &reader.get_raw(index)?))?;
        }
        return Ok(());
    };
    thread::scope(|scope| {
        let (blocks, received) = sync_channel(QUEUE);
        let (give_back, free) = channel();
        let is_wanted = &is_wanted;
        let thread = thread::Builder::new().name("kiste-read".into());
        let thread = thread.spawn_scoped(scope, move || {
            if let Err(error) = read(reader, data, is_wanted, &blocks, &free) {
                // The other side has ended, or hears it.
                let _ = blocks.send(Err(error));
            }
        });
        thread.map_err(|e| Error::os("starting a thread that reads", e))?;
        for block in received {
            let block: Block = block?;
            let is_large = block.range.end - block.range.start > most(data);
            let large = if is_large { Some(data.read(block.range.clone())?) } else { None };
            let bytes = large.as_deref().unwrap_or(&block.bytes);
            for index in wanted(block.indices.clone()) {
                let range = reader.byte_range(index)?;
                let start = range.start.wrapping_sub(block.range.start);
                let sample = slice(bytes, start, range.end - range.start)
                    .ok_or_else(|| changed().at(reader.path()))?;
                reader.check_read(index, sample)?;
                each(index, sample)?;
            }
            if is_large {
                release(data, &block.range);
            }
            // There may be nothing left to read.
            let _ = give_back.send(block);
        }
        Ok(())
    })
}

/// Reads all blocks, but for the bytes of large samples.
fn read(
    reader: &DatasetReader,
    data: &Source,
    is_wanted: &impl Fn(usize) -> bool,
    blocks: &SyncSender<Result<Block>>,
    free: &Receiver<Block>,
) -> Result<()> {
    let file = CachedFile::of(data);
    if let Some(file) = &file {
        file.sequential();
    }
    let most = most(data);
    let mut next = 0;
    while let Some(first) = (next..reader.len()).find(|&index| is_wanted(index)) {
        let mut block = free.try_recv().unwrap_or_default();
        block.range = reader.byte_range(first)?;
        next = first + 1;
        while next < reader.len() {
            let range = reader.byte_range(next)?;
            if range.start != block.range.end || range.end - block.range.start > most {
                break;
            }
            block.range.end = range.end;
            next += 1;
        }
        block.indices = first..next;
        let Range { start, end } = block.range;
        if end - start <= most {
            block.bytes.resize((end - start) as usize, 0);
            match &file {
                Some(file) => file.read(&mut block.bytes, start)?,
                None => {
                    data.will_need(start..end.saturating_add(NEIGHBOURS));
                    data.read_into(&mut block.bytes, start)?;
                    release(data, &block.range);
                }
            }
        }
        if blocks.send(Ok(block)).is_err() {
            break;
        }
    }
    Ok(())
}

/// Takes what was read out of the memory of this process.
fn release(data: &Source, range: &Range<u64>) {
    data.release(range.start.saturating_sub(NEIGHBOURS)..range.end);
}

/// `None` where these bytes are not there.
pub(super) fn slice(bytes: &[u8], start: u64, len: u64) -> Option<&[u8]> {
    let (start, len) = (usize::try_from(start).ok()?, usize::try_from(len).ok()?);
    bytes.get(start..start.checked_add(len)?)
}

pub(super) fn changed() -> Error {
    Error::new(ErrorKind::Damaged, "the file was changed while it was read")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::dataset::Writer;
    use crate::storage::LocalStorage;

    #[test]
    fn samples_come_in_their_order_whatever_their_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let mut writer = Writer::options().durable(false).digests(false).create(&path).unwrap();
        // Several blocks, a sample that is larger than one, and some that are all but empty.
        let lengths = (0..400).map(|i| match i {
            7 | 8 | 399 => 1_500_000,
            _ => i % 100 * 200,
        });
        for (i, len) in lengths.enumerate() {
            let sample = [("key", i.to_string()), ("text", "x".repeat(len))];
            writer.write(&std::collections::BTreeMap::from(sample)).unwrap();
        }
        writer.finish().unwrap();
        let mapped = DatasetReader::open(&path).unwrap();
        let options = DatasetReader::options().storage(Arc::new(LocalStorage::positioned()));
        let positioned = options.open(&path).unwrap();
        for reader in [&mapped, &positioned] {
            for wanted in [|_| true, |i: usize| i % 3 == 2, |i: usize| i >= 398, |_| false] {
                let mut expected = (0..400).filter(|&index| wanted(index));
                let same = |index, sample: &[u8]| {
                    assert_eq!(Some(index), expected.next());
                    assert!(sample == &*mapped.get_raw(index).unwrap());
                    Ok(())
                };
                in_order(reader, wanted, same).unwrap();
                assert_eq!(expected.next(), None);
            }
            // The first error ends it.
            let mut calls = 0;
            let stop = |_, _: &[u8]| {
                calls += 1;
                Err(Error::new(ErrorKind::Interrupted, "stopped"))
            };
            let error = in_order(reader, |_| true, stop).unwrap_err();
            assert_eq!((error.kind(), calls), (ErrorKind::Interrupted, 1));
        }
    }
}
