//! The command `kiste`: what the library does, for the shell.
//!
//! `main` reads the command line, runs one command and turns what it returns into an exit code: 0
//! for yes or done, 1 if the answer is no, 2 if the question was wrong or the system said no. Each
//! command is a file in `cmd/`: its arguments, and a `run` of some dozens of lines over the
//! library. They share `output.rs` and `say.rs` (what is printed where), `printable.rs` (text that
//! a terminal can show), `progress.rs` (bars), `monitor.rs` (the progress of conversions),
//! `interrupt.rs` (Ctrl-C), `exit.rs` (how it ends), `usage.rs` (wrong usage), `render.rs` (samples as text), `listing.rs`
//! (lines with labels), `file.rs` (small files, written whole or not at all), `ordering.rs`
//! (orders) and `rearrange.rs` (datasets of datasets). Numbers for people are in `kiste::text`.
//!
//! A pipe that is closed early is not an error: Rust programs see `BrokenPipe` where others are
//! killed by a signal, and `Failure::ClosedPipe` turns it into a quiet end, as expected of a filter.
//! Ctrl-C ends readers at once; writers stop and say what stays (`interrupt.rs`).

use std::panic;
use std::process::ExitCode;

mod cmd;
mod exit;
mod interrupt;
mod file;
mod monitor;
mod ordering;
mod output;
mod printable;
mod progress;
mod rearrange;
mod render;
mod say;
mod listing;
mod usage;

use output::Output;

fn main() -> ExitCode {
    silence_caught_panics();
    let args = match cmd::parse() {
        Ok(args) => args,
        Err(told) => {
            let output = Output::new(false, output::Colour::Auto, progress::Showing::Bar);
            return usage::tell(&told, &output).into();
        }
    };
    file::read_by_calls(args.untrusted);
    file::allow_outside(args.allow_outside);
    let output = Output::new(args.quiet, args.color, args.progress);
    let exit = args.command.run(&output).unwrap_or_else(|failure| output.fail(failure));
    #[cfg(feature = "remote")]
    if let Some(trouble) = kiste::storage::cache_trouble() {
        output.warn(format_args!("{trouble}: nothing more was cached"));
    }
    exit.into()
}

/// Prints nothing for a panic of a third-party decoder that the library turns into an error: the
/// error is what a user can act on.
fn silence_caught_panics() {
    // Where a panic ends the process, its message is the only trace.
    if cfg!(panic = "abort") {
        return;
    }
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !kiste::convert::panic_is_caught() {
            print(info);
        }
    }));
}
