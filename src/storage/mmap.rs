//! The memory map and its contract, and advice about memory. Unsafe code is in this file, and in
//! the one that calls the C library for Blosc.
//!
//! A map is a view of a file, not a copy: if another program *truncates* the file, touching a
//! page beyond its new end kills this process (SIGBUS), and if it *changes* bytes in place, they
//! change under a `&[u8]`. No program can rule this out for files that others may write. What
//! this crate does about it:
//!
//! * Its own writers never do either to a finished file: a new content gets a new file that is
//!   renamed over the old name, so a map still shows the old one; an append writes only
//!   beyond the bytes that any reader of the old dataset looks at, and an undone append cuts only
//!   those.
//! * Nothing above relies on the bytes for memory safety: what was checked once may still change,
//!   so text is checked where it is used, and every access is bounds-checked.
//! * Where files are not under one's control, [`LocalStorage::positioned`] reads without a map.
//!
//! [`LocalStorage::positioned`]: super::LocalStorage::positioned
#![expect(
    unsafe_code,
    reason = "mapping a file is unsafe, the contract stands above; so is advice"
)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use super::FileId;

/// A file mapped for reading.
pub struct Map {
    map: memmap2::Mmap,
    path: Box<Path>,
    id: FileId,
}

impl Map {
    /// Maps the first `len` bytes of the file, which are all.
    pub(super) fn new(file: &File, path: &Path, len: usize, id: FileId) -> io::Result<Map> {
        // SAFETY: the map is private to reading. That the file is neither truncated nor changed
        // while it is mapped cannot be enforced; the module's documentation passes the hazard on
        // to the user, keeps our own writers to their half of the promise, and names the way
        // around it.
        let map = unsafe { memmap2::MmapOptions::new().len(len).map(file) }?;
        Ok(Map { map, path: path.into(), id })
    }

    /// The content.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Asks the kernel to fetch those of these bytes that are in the map.
    pub(super) fn will_need(&self, range: Range<u64>) {
        let len = self.map.len() as u64;
        let (start, end) = (range.start.min(len), range.end.min(len));
        if start < end {
            // Both fit, since the map does. Without the advice the same happens, only later.
            #[cfg(unix)]
            let _ = self.map.advise_range(
                memmap2::Advice::WillNeed,
                start as usize,
                (end - start) as usize,
            );
        }
    }

    /// Takes those of these bytes that are in the map out of the memory of this process. They stay
    /// in the page cache, and come back when they are touched.
    pub(super) fn release(&self, range: Range<u64>) {
        let len = self.map.len() as u64;
        let (start, end) = (range.start.min(len), range.end.min(len));
        if start < end {
            // SAFETY: the advice throws away what was changed in a private map; this one is never
            // written to, so what is touched again is read from the file, as it was the first
            // time. Slices of it stay good. Where it fails, more memory stays in use.
            #[cfg(unix)]
            let _ = unsafe {
                self.map.unchecked_advise_range(
                    memmap2::UncheckedAdvice::DontNeed,
                    start as usize,
                    (end - start) as usize,
                )
            };
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn id(&self) -> FileId {
        self.id
    }
}

/// Asks the processor for the first bytes of these, and does not wait. Two lines of its cache, as they rarely begin
/// with one.
#[inline]
pub(crate) fn prefetch<T>(memory: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for line in [0, 64] {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every processor of this kind has the instruction, which reads nothing that a program could see
        // and faults for no address; `wrapping_add` needs none that is in bounds.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(memory.as_ptr().cast::<i8>().wrapping_add(line)) };
    }
    // Elsewhere only a load would do, which is waited for.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = memory;
}

/// From this size on memory is worth huge pages. NumPy has the same limit.
const LARGE: usize = 4 << 20;

/// Zeroed memory, in huge pages if it is large, as NumPy does: touching new memory in small pages
/// takes as long as decoding into it.
#[cfg(feature = "arrays")]
pub(crate) fn zeroed(len: usize) -> crate::error::Result<Vec<u8>> {
    super::expect_memory(len)?;
    let mut bytes = vec![0; len];
    prefer_huge_pages(&mut bytes);
    Ok(bytes)
}

/// Asks for huge pages if the memory is large and untouched. Its contents stay as they are.
pub(crate) fn prefer_huge_pages<T>(memory: &mut [T]) {
    let len = size_of_val(memory);
    if len >= LARGE {
        advise_huge_pages(memory.as_mut_ptr().cast(), len);
    }
}

#[cfg(target_os = "linux")]
fn advise_huge_pages(memory: *mut u8, len: usize) {
    /// A multiple of every page size in use: the advice takes whole pages.
    const PAGE: usize = 64 << 10;
    let start = memory.align_offset(PAGE);
    let len = len.saturating_sub(start) / PAGE * PAGE;
    if len > 0 {
        let pages = memory.wrapping_add(start).cast();
        // SAFETY: all of these pages lie in memory that the caller borrows, and the advice changes neither
        // what is in it nor who may use it. Where it is refused, all is only slower.
        let _ = unsafe { libc::madvise(pages, len, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_: *mut u8, _: usize) {}
