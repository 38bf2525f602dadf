//! Memory for answers, which is used again: the pages of fresh memory cost as much as what is written to them.

use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};

use bytes::Bytes;

/// Smaller ones are left to the allocator.
const LEAST: usize = 256 << 10;
/// Bytes that are kept for later.
const MOST: usize = 64 << 20;

/// Buffers that are free.
#[derive(Default)]
pub(super) struct Buffers {
    free: Mutex<Vec<Vec<u8>>>,
}

/// One in use.
struct Buffer {
    bytes: Vec<u8>,
    home: Weak<Buffers>,
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(home) = self.home.upgrade() else { return };
        // In a process that was forked meanwhile the lock may stay taken for ever.
        let mut free = match home.free.try_lock() {
            Ok(free) => free,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let held: usize = free.iter().map(Vec::capacity).sum();
        if held + self.bytes.capacity() <= MOST {
            self.bytes.clear();
            free.push(std::mem::take(&mut self.bytes));
        }
    }
}

impl Buffers {
    /// An empty buffer with room for this many bytes, and little more; `None` without memory for it.
    pub(super) fn take(&self, room: usize) -> Option<Vec<u8>> {
        if room >= LEAST {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            let fits = |buffer: &Vec<u8>| (room..=room + room / 4).contains(&buffer.capacity());
            if let Some(found) = free.iter().rposition(fits) {
                return Some(free.swap_remove(found));
            }
            // One that fits nothing that is asked for now makes room for one that does.
            if free.iter().map(Vec::capacity).sum::<usize>() > MOST / 2 {
                free.swap_remove(0);
            }
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(room).ok()?;
        Some(bytes)
    }

    /// What is in a buffer, which comes back once nobody needs it.
    pub(super) fn lend(self: &Arc<Self>, bytes: Vec<u8>) -> Bytes {
        match bytes.capacity() {
            0..LEAST => bytes.into(),
            _ => Bytes::from_owner(Buffer { bytes, home: Arc::downgrade(self) }),
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
            let mut bytes = buffers.take(size).unwrap();
            assert!(bytes.is_empty() && (size..=size + size / 4).contains(&bytes.capacity()));
            bytes.resize(size, 7);
            buffers.lend(bytes)
        };
        let free = || buffers.free.lock().unwrap().iter().map(Vec::capacity).sum::<usize>();
        let (one, small) = (lend(1 << 20), lend(100));
        let slice = one.slice(5..10);
        drop((one, small));
        assert_eq!((free(), &*slice), (0, [7; 5].as_slice()));
        drop(slice);
        assert_eq!(free(), 1 << 20);
        let many: Vec<Bytes> = (0..100).map(|_| lend(1 << 20)).collect();
        assert_eq!(free(), 0);
        drop(many);
        assert_eq!(free(), MOST);
        // Those of another size take their place.
        for _ in 0..100 {
            let many: Vec<Bytes> = (0..10).map(|_| lend(4 << 20)).collect();
            drop(many);
        }
        assert!(free() <= MOST);
        assert!(buffers.free.lock().unwrap().iter().any(|buffer| buffer.capacity() >= 4 << 20));
    }
}
