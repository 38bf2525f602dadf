//! Decoders that are not ours, on bytes that nobody vouches for: what panics is an error like others.

#![cfg(any(feature = "images", feature = "parquet"))]

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::thread;

thread_local! {
    /// Whether a panic of this thread will be caught, and so is nothing to tell.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// What `run` gives; `None` if it panics, of which nobody else hears then. Whatever it was at work on
/// must not be used again.
pub(super) fn guarded<T>(run: impl FnOnce() -> T) -> Option<T> {
    install();
    let before = QUIET.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(run));
    QUIET.set(before);
    done.ok()
}

/// Puts a hook before the present one, once: it passes on all panics but those that are caught here.
///
/// A hook is the only place where the message can be kept from standard error, and there is but one
/// for all threads. An application that sets its own later hears of these panics too.
fn install() {
    static INSTALLED: Once = Once::new();
    // Where panics end the process its last words are wanted; and within one no hook can be set.
    if cfg!(panic = "abort") || thread::panicking() {
        return;
    }
    INSTALLED.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // A thread that is at its end has no flag any more.
            if !QUIET.try_with(Cell::get).unwrap_or(false) {
                others(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_nothing() {
        assert_eq!(guarded(|| 7), Some(7));
        let within = guarded(|| {
            assert_eq!(guarded(|| -> u8 { panic!("inner") }), None);
            assert!(QUIET.get(), "the outer one still holds");
            thread::spawn(|| assert!(!QUIET.get())).join().unwrap();
            8
        });
        assert_eq!((within, QUIET.get()), (Some(8), false));
        assert_eq!(guarded(|| -> u8 { panic!("outer") }), None);
        assert!(!QUIET.get());
    }
}
