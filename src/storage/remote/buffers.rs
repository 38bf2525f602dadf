//! Memory for answers, which is reused: the pages of fresh memory cost as much as what is written to them.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};

use bytes::Bytes;
use memmap2::MmapMut;

use super::memory::{AHEAD, KEPT};

/// Smaller ones are left to the allocator.
const LEAST: usize = 256 << 10;
/// Buffers have a multiple of this many bytes, so that one fits many answers, and at most a quarter more than
/// the answer.
const GRAIN: usize = LEAST / 4;
/// Bytes that are kept for later: what a loader fetches ahead and reads at once, as at the end of a window
/// of a shuffle.
const MOST: usize = 256 << 20;
/// The same, with those in use.
const ALL: usize = AHEAD + KEPT + (64 << 20);

/// Buffers that are free.
#[derive(Default)]
pub(super) struct Buffers {
    free: Mutex<Vec<MmapMut>>,
    /// Bytes of those in use.
    lent: AtomicUsize,
}

/// Memory for an answer of any content: zeros, or what was in it before.
pub(super) enum Buffer {
    Small(Vec<u8>),
    /// Pages of its own. Nothing has to clear them before they are filled.
    Large(MmapMut),
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Buffer::Small(bytes) => bytes,
            Buffer::Large(pages) => pages,
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Buffer::Small(bytes) => bytes,
            Buffer::Large(pages) => pages,
        }
    }
}

/// One in use.
struct Lent {
    pages: Option<MmapMut>,
    len: usize,
    home: Weak<Buffers>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.pages.as_ref().and_then(|pages| pages.get(..self.len)).unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let (Some(home), Some(pages)) = (self.home.upgrade(), self.pages.take()) else { return };
        let lent = home.lent.fetch_sub(pages.len(), Relaxed).saturating_sub(pages.len());
        // Another thread may have held the lock during a fork; then it stays locked in the child.
        let mut free = match home.free.try_lock() {
            Ok(free) => free,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let held: usize = free.iter().map(|pages| pages.len()).sum();
        if held + pages.len() <= MOST.min(ALL.saturating_sub(lent)) {
            free.push(pages);
        }
    }
}

impl Buffers {
    /// A buffer of at least this many bytes, and little more; `None` without memory for it.
    pub(super) fn take(&self, room: usize) -> Option<Buffer> {
        if room < LEAST {
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(room).ok()?;
            bytes.resize(room, 0);
            return Some(Buffer::Small(bytes));
        }
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |pages: &MmapMut| (room..=room + room / 4).contains(&pages.len());
        if let Some(found) = free.iter().rposition(fits) {
            return Some(Buffer::Large(free.swap_remove(found)));
        }
        // Buffers that fit no present request make room for one that does.
        let held = |free: &[MmapMut]| free.iter().map(|pages| pages.len()).sum::<usize>();
        let most = MOST.min(ALL.saturating_sub(self.lent.load(Relaxed))) / 2;
        while held(&free) > most {
            free.swap_remove(0);
        }
        drop(free);
        let pages = MmapMut::map_anon(room.checked_next_multiple_of(GRAIN)?).ok()?;
        Some(Buffer::Large(pages))
    }

    /// The first bytes of a buffer, which comes back once they are no longer needed.
    pub(super) fn lend(self: &Arc<Self>, buffer: Buffer, len: usize) -> Bytes {
        match buffer {
            Buffer::Small(mut bytes) => {
                bytes.truncate(len);
                bytes.into()
            }
            // An answer whose length was not known before.
            Buffer::Large(pages) if len < LEAST => Bytes::copy_from_slice(&pages[..len]),
            Buffer::Large(pages) => {
                self.lent.fetch_add(pages.len(), Relaxed);
                let (pages, home) = (Some(pages), Arc::downgrade(self));
                Bytes::from_owner(Lent { pages, len, home })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_and_are_bounded() {
        let buffers = Arc::new(Buffers::default());
        let lend = |size: usize| {
            let mut buffer = buffers.take(size).unwrap();
            assert!((size..=size + size / 4).contains(&buffer.len()));
            buffer[..size].fill(7);
            buffers.lend(buffer, size)
        };
        let free = || buffers.free.lock().unwrap().iter().map(|pages| pages.len()).sum::<usize>();
        let (one, small) = (lend((1 << 20) - 3), lend(100));
        assert_eq!((&*one, &*small), ([7; (1 << 20) - 3].as_slice(), [7; 100].as_slice()));
        let slice = one.slice(5..10);
        drop((one, small));
        assert_eq!((free(), &*slice), (0, [7; 5].as_slice()));
        drop(slice);
        assert_eq!(free(), 1 << 20);
        // One of about that size is reused, and none that is far too large.
        let other = lend((1 << 20) - GRAIN);
        assert_eq!((free(), other.len()), (0, (1 << 20) - GRAIN));
        drop(other);
        for size in [LEAST, LEAST + 1, 2 * LEAST - 1] {
            drop(lend(size));
        }
        // A buffer that turned out too large keeps only what it needs.
        let before = free();
        assert_eq!(buffers.lend(buffers.take(1 << 20).unwrap(), 5).len(), 5);
        assert!(free() < before);
        assert_eq!(buffers.lent.load(Relaxed), 0);
        let lend_untouched = |_| buffers.lend(buffers.take(1 << 20).unwrap(), 1 << 20);
        let many: Vec<Bytes> = (0..300).map(lend_untouched).collect();
        drop(many);
        let is_full = || (MOST - (1 << 20)..=MOST).contains(&free());
        assert!(is_full());
        // Buffers in use take their room.
        let held: Vec<Bytes> = (0..ALL >> 20).map(lend_untouched).collect();
        let last = lend(1 << 20);
        drop(last);
        assert_eq!(free(), 0);
        drop(held);
        assert!(is_full());
        // Buffers of another size take their place.
        for _ in 0..100 {
            let many: Vec<Bytes> = (0..10).map(|_| lend(4 << 20)).collect();
            drop(many);
        }
        assert!(free() <= MOST);
        assert!(buffers.free.lock().unwrap().iter().any(|pages| pages.len() >= 4 << 20));
    }
}
