//! Panics of other libraries' decoders, which kiste turns into errors: they end no run.

use std::backtrace::Backtrace;

/// Ends the process at panics that nothing catches, and at no other.
pub fn abort_if_uncaught() {
    std::panic::set_hook(Box::new(|info| {
        if !kiste::convert::panic_is_caught() {
            eprintln!("{info}\n{}", Backtrace::force_capture());
            std::process::abort();
        }
    }));
}
