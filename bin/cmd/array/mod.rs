//! `kiste array`: arrays in directories, with all their versions.

use crate::cmd::commands;
use crate::exit::{Exit, Outcome};
use crate::output::Output;

mod target;
mod chosen;
mod create;
mod info;
mod get;
mod put;
mod append;
mod resize;
mod attrs;
mod log;
mod diff;
mod checkout;
mod gc;
mod verify;
mod import;
mod export;

/// Arrays in directories: chunked, compressed, with all their versions
///
/// An array is a directory NAME. Every change makes a new version; versions never change, and data
/// that they share are stored once. There is one writer at a time, and readers are not affected.
///
/// NAME[...] is a part of an array, written as in NumPy: 'x[0:10, ::2]', 'x[-1]', 'x[..., 0]', 'x[[4, 0, 2]]'.
/// For get, export and put, 'x["id"]' and 'x["id"][0:10]' are a field of an array of structures. Quote it, so
/// that the shell does not expand the brackets.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  kiste array create x --dtype '<f4' --shape 0,128
  kiste array append x --npy rows.npy
  kiste array get 'x[0:10, ::2]'
  kiste array log x
  kiste array export 'x[:100]' part.npz

\"kiste array COMMAND --help\" has details and examples.";

commands! {
    enum Command {
        Create(create::Args),
        Import(import::Args),
        Info(info::Args),
        Get(get::Args),
        Export(export::Args),
        Put(put::Args),
        Append(append::Args),
        Resize(resize::Args),
        Attrs(attrs::Args),
        Log(log::Args),
        Diff(diff::Args),
        Checkout(checkout::Args),
        Gc(gc::Args),
        Verify(verify::Args),
    }
}

/// The commands by purpose.
pub(super) const GROUPS: &[(&str, &[&str])] = &[
    ("Make", &["create", "import"]),
    ("Look", &["info", "get", "export"]),
    ("Change", &["put", "append", "resize", "attrs"]),
    ("Versions", &["log", "diff", "checkout", "gc"]),
    ("Check", &["verify"]),
];

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        self.command.run(output)
    }
}
