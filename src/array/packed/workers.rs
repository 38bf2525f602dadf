//! Threads that compress and decompress, and the memory that they keep.

use std::cell::RefCell;

use rayon::prelude::*;

use crate::error::{Error, ErrorKind, Result};
use crate::format::blosc::{Params, Scratch};

/// Waking threads pays from this size on; it takes one thread about 100 µs.
pub(crate) const PARALLEL: usize = 1 << 20;
/// Bytes that are compressed at a time, while those before them are written.
const WINDOW: usize = 8 << 20;
/// The minimum number of chunks at a time, so that threads seldom wait for the last one.
const MIN_WINDOW: usize = 4;

/// How many chunks of this size are worked on at a time.
pub(crate) fn window(size: usize) -> usize {
    (WINDOW / size.max(1)).clamp(MIN_WINDOW.max(2 * rayon::current_num_threads()), 1024)
}

/// Works on windows of items on all threads, in order: while one window is worked on, the one
/// before it is passed to `give` and the next one is taken from `next`. An empty window is the end.
/// Buffers are reused, so that windows do not allocate.
pub(crate) fn pipeline<I: Send>(
    mut next: impl FnMut() -> Result<Vec<I>> + Send,
    work: impl Fn(&mut Scratch, I, &mut Vec<u8>) -> Result<()> + Sync,
    mut give: impl FnMut(&mut Vec<u8>) -> Result<()> + Send,
) -> Result<()> {
    let (mut done, mut spare): (Vec<Vec<u8>>, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
    let mut items = next()?;
    while !(items.is_empty() && done.is_empty()) {
        let is_last = items.is_empty();
        spare.resize_with(spare.len().max(items.len()), Vec::new);
        let kept = spare.split_off(items.len());
        let buffers = std::mem::replace(&mut spare, kept);
        let one = |(item, mut buffer): (I, Vec<u8>)| {
            buffer.clear();
            with_scratch(|scratch| work(scratch, item, &mut buffer)).map(|()| buffer)
        };
        let (given, (worked, read)) = rayon::join(
            || done.iter_mut().try_for_each(&mut give),
            || {
                // One item at a time: chunks take long enough that stealing them singly pays.
                let pairs = items.into_par_iter().zip(buffers).with_max_len(1);
                let work = || pairs.map(one).collect::<Result<Vec<_>>>();
                rayon::join(work, || if is_last { Ok(Vec::new()) } else { next() })
            },
        );
        given?;
        spare.append(&mut done);
        (done, items) = (worked?, read?);
    }
    Ok(())
}

/// Compresses one chunk, and appends it to `out`.
pub(crate) fn compress(
    params: &Params,
    bytes: &[u8],
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<()> {
    scratch.compress(params, bytes, out)?;
    Ok(())
}

/// Runs `work` on this many threads; 0 means rayon's pool.
pub(crate) fn on_threads<T: Send>(
    threads: usize,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    if threads == 0 {
        return work();
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?.install(work)
}

thread_local! {
    /// The decoder's memory.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
    /// A decoded array whose elements have to be reordered.
    static BUFFER: RefCell<Vec<u8>> = RefCell::default();
}

/// Runs `work` with a buffer that this thread keeps for the next time.
pub(crate) fn with_buffer<T>(len: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    // Taken out, not borrowed: the work may come here again on this thread while it waits for rayon.
    let mut buffer = BUFFER.take();
    buffer.resize(len, 0);
    let done = work(&mut buffer);
    BUFFER.set(buffer);
    done
}

/// Runs `work` with the scratch memory of this thread, or with new memory if that is in use.
pub(crate) fn with_scratch<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
        Ok(mut scratch) => work(&mut scratch),
        Err(_) => work(&mut Scratch::default()),
    })
}
