//! The command `kiste`: what the library does, for the shell.
//!
//! `run.rs` reads the command line, runs one command and turns what it returns into an exit code: 0
//! for yes or done, 1 if the answer is no, 2 if the question was wrong or the system said no. Each
//! command is a file in `cmd/`: its arguments, and a `run` of some dozens of lines over the
//! library. They share `arguments.rs` (the command line), `output.rs` and `say.rs` (what is printed where),
//! `printable.rs` (text that a terminal can show), `progress.rs` (bars), `monitor.rs` (the progress of conversions),
//! `interrupt.rs` (Ctrl-C), `exit.rs` (how it ends), `usage.rs` (wrong usage), `render.rs` (samples as text), `listing.rs`
//! (lines with labels), `file.rs` (small files, written whole or not at all), `ordering.rs`
//! (orders) and `rearrange.rs` (datasets of datasets). Numbers for people are in `kiste::text`.
//!
//! Below is the program. pykiste calls the same `run` in the process of Python: python/command/lib.rs makes a library of
//! these files.
//!
//! A pipe that is closed early is not an error: Rust programs see `BrokenPipe` where others are
//! killed by a signal, and `Failure::ClosedPipe` turns it into a quiet end, as expected of a filter.
//! Ctrl-C ends readers at once; writers stop and say what stays (`interrupt.rs`).

use std::process::ExitCode;

mod arguments;
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
mod run;
mod say;
mod listing;
mod usage;
mod view_progress;

fn main() -> ExitCode {
    run::run(std::env::args_os().collect()).into()
}
