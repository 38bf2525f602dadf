//! The command `kiste` in the process of Python, for the script that pip installs.

use std::ffi::OsString;
use std::panic::catch_unwind;

use pyo3::prelude::*;

/// What a program in Rust exits with after a panic, whose message was printed.
const PANICKED: u8 = 101;

/// Runs the command once, with these arguments after the name of the program. Returns its exit code.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| catch_unwind(|| pykiste_command::run(arguments)).unwrap_or(PANICKED))
}
