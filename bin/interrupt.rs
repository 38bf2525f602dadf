//! Ctrl-C, SIGTERM and SIGHUP: a command that writes stops at the next sample, undoes or keeps what it has
//! written, says in one line which of the two, and exits with 130. A second signal ends it at once, as a
//! crash would; what stays then is for `kiste repair`. SIGHUP is not heard where it was ignored from the
//! start, as `nohup` has it.
//!
//! Commands that only read are not concerned: the signal ends them, which a shell reports as 128 and its
//! number.

use kiste::storage::Shown;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::Duration;

use kiste::{Error, ErrorKind};

use crate::exit::{Exit, quoted};
use crate::say::say_aside;

/// How many signals came.
static PRESSED: AtomicUsize = AtomicUsize::new(0);
static HANDLER: Once = Once::new();
static WORK: Mutex<Work> = Mutex::new(Work { writing: None, written: Vec::new(), at_once: None });

/// After this time it is worth a line that the command has heard the signal.
const PATIENCE: Duration = Duration::from_secs(2);

/// The files that the command writes.
struct Work {
    /// The file that is being written.
    writing: Option<PathBuf>,
    /// Published files, which stay.
    written: Vec<PathBuf>,
    /// The message if the command does not stop by itself, but ends at the first signal.
    at_once: Option<String>,
}

/// From here on Ctrl-C does not end the process: loops ask [`check`], conversions their monitor.
pub(crate) fn watch() {
    work(|work| work.at_once = None);
    handle();
}

fn handle() {
    HANDLER.call_once(|| {
        // Without a handler the signal ends the process, as it does others.
        keep_hangup_ignored(|| ctrlc::set_handler(pressed).is_ok());
    });
}

/// Sets handlers, but none of SIGHUP where that is ignored: who started the command wants it to outlive its
/// terminal.
#[cfg(unix)]
#[expect(unsafe_code, reason = "the standard library does not say which signals are ignored")]
fn keep_hangup_ignored(set: impl FnOnce() -> bool) {
    // SAFETY: it takes and gives numbers, and no handler of ours is called by it.
    let before = unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    let is_set = set();
    if !is_set || before == libc::SIG_IGN {
        // SAFETY: as above; this is what was there before.
        unsafe { libc::signal(libc::SIGHUP, before) };
    }
}

#[cfg(not(unix))]
fn keep_hangup_ignored(set: impl FnOnce() -> bool) {
    set();
}

/// The same, where this file is written by loops that ask [`check`].
pub(crate) fn writing(path: &Path) {
    work(|work| work.writing = Some(path.to_path_buf()));
    watch();
}

/// Where no loop asks, Ctrl-C ends the process with this line, which says what stays.
pub(crate) fn ends_with(line: impl Into<String>) {
    work(|work| work.at_once = Some(line.into()));
    handle();
}

/// This was published, and stays.
pub(crate) fn written(path: &Path) {
    work(|work| work.written.push(path.to_path_buf()));
}

/// Whether the command is to stop.
pub(crate) fn is_asked() -> bool {
    PRESSED.load(Relaxed) > 0
}

/// Fails if the command has to stop. Its output is not published then.
pub(crate) fn check() -> kiste::Result<()> {
    if !is_asked() {
        return Ok(());
    }
    work(|work| {
        let stays = match &work.written[..] {
            [] => String::from("nothing was written; the same command starts over"),
            [path] => format!("{} stays; --force starts over", Shown::of(&path)),
            paths => format!("{} others stay; --force starts over", paths.len()),
        };
        let error = Error::new(ErrorKind::Cancelled, format!("interrupted; {stays}"));
        Err(match &work.writing {
            Some(path) => error.at(path),
            None => error,
        })
    })
}

fn work<T>(with: impl FnOnce(&mut Work) -> T) -> T {
    with(&mut WORK.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Called on a thread of its own.
fn pressed() {
    let again = PRESSED.fetch_add(1, Relaxed) > 0;
    let (at_once, writing) = work(|work| (work.at_once.clone(), work.writing.clone()));
    match (again, at_once) {
        (_, Some(line)) => end(&line),
        (true, None) => end(&match writing {
            Some(path) => format!("ended at once: try kiste repair {}", quoted(&path)),
            None => String::from("ended at once"),
        }),
        (false, None) => {
            thread::spawn(|| {
                thread::sleep(PATIENCE);
                say_aside("stopping; Ctrl-C again ends at once");
            });
        }
    }
}

fn end(line: &str) {
    say_aside(&format!("kiste: {line}"));
    process::exit(Exit::Interrupted as i32);
}
