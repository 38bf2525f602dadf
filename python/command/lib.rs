//! The command `kiste` as a library: the modules of bin/main.rs. `Cargo.toml` says why.

#[path = "../../bin/arguments.rs"]
mod arguments;
#[path = "../../bin/cmd/mod.rs"]
mod cmd;
#[path = "../../bin/exit.rs"]
mod exit;
#[path = "../../bin/interrupt.rs"]
mod interrupt;
#[path = "../../bin/file.rs"]
mod file;
#[path = "../../bin/monitor.rs"]
mod monitor;
#[path = "../../bin/ordering.rs"]
mod ordering;
#[path = "../../bin/output.rs"]
mod output;
#[path = "../../bin/printable.rs"]
mod printable;
#[path = "../../bin/progress.rs"]
mod progress;
#[path = "../../bin/rearrange.rs"]
mod rearrange;
#[path = "../../bin/render.rs"]
mod render;
#[path = "../../bin/run.rs"]
mod run;
#[path = "../../bin/say.rs"]
mod say;
#[path = "../../bin/listing.rs"]
mod listing;
#[path = "../../bin/usage.rs"]
mod usage;
#[path = "../../bin/view_progress.rs"]
mod view_progress;

/// Runs a command once in this process, with the name of the program and its arguments. Returns the exit code.
pub fn run(arguments: Vec<std::ffi::OsString>) -> u8 {
    run::run(arguments)
}
