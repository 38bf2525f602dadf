//! The command line. It is not always the process's own: in the process of a script of Python, the name of the script
//! stands for the name of the program.

use std::ffi::OsString;
use std::sync::OnceLock;

static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// From here on these are the arguments, the name of the program first.
pub(crate) fn set(arguments: Vec<OsString>) {
    // Once a process: the first are kept.
    let _ = ARGUMENTS.set(arguments);
}

/// The name of the program, if it is known, and all arguments.
pub(crate) fn arguments() -> &'static [OsString] {
    ARGUMENTS.get_or_init(|| std::env::args_os().collect())
}
