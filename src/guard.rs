//! Third-party decoders on untrusted bytes: a panic in one of them is an error like any other.

use std::cell::Cell;
#[cfg(any(feature = "images", feature = "arrow"))]
use std::panic::{self, AssertUnwindSafe};

thread_local! {
    /// Whether a panic of this thread will be caught.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// The result of `run`, or `None` if it panics. The data that it worked on must not be used after a
/// panic.
///
/// The panic hook still sees the panic, and the default hook prints it. A library must not replace
/// the hook, which belongs to the whole process; an application can, and ask
/// [`panic_is_caught`] whether there is anything to print.
#[cfg(any(feature = "images", feature = "arrow"))]
pub(crate) fn guarded<T>(run: impl FnOnce() -> T) -> Option<T> {
    let before = GUARDED.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(run));
    GUARDED.set(before);
    done.ok()
}

/// Whether a panic of this thread would become an [`Error`](crate::Error): for panic hooks that
/// print only what ends a thread.
#[doc(hidden)]
pub fn panic_is_caught() -> bool {
    // A thread that is being torn down has no flag any more.
    GUARDED.try_with(Cell::get).unwrap_or(false)
}

#[cfg(all(test, any(feature = "images", feature = "arrow")))]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_panic_is_none() {
        assert_eq!(guarded(|| 7), Some(7));
        let within = guarded(|| {
            assert_eq!(guarded(|| -> u8 { panic!("inner") }), None);
            assert!(panic_is_caught(), "the outer one still holds");
            thread::spawn(|| assert!(!panic_is_caught())).join().unwrap();
            8
        });
        assert_eq!((within, panic_is_caught()), (Some(8), false));
        assert_eq!(guarded(|| -> u8 { panic!("outer") }), None);
        assert!(!panic_is_caught());
    }
}
