//! One command, from the command line to the exit code.

use std::ffi::OsString;
use std::io::{self, Write};
use std::panic;

use crate::exit::Exit;
use crate::output::{Colour, Output};
use crate::progress::Showing;
use crate::{arguments, cmd, file, usage};

/// Runs a command once, with the name of the program and its arguments. Returns the exit code.
pub(crate) fn run(arguments: Vec<OsString>) -> u8 {
    silence_caught_panics();
    arguments::set(arguments);
    let exit = answer();
    // What a failing command has printed of a line. Only programs in Rust do this when they end.
    let _ = io::stdout().flush();
    exit as u8
}

fn answer() -> Exit {
    let args = match cmd::parse() {
        Ok(args) => args,
        Err(told) => {
            let output = Output::new(false, Colour::Auto, Showing::Bar);
            return usage::tell(&told, &output);
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
    exit
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
