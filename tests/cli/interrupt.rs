//! Ctrl-C: one line that says what stays and how to go on, exit code 130, and nothing half done.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr};
use std::time::{Duration, Instant};

use super::*;

/// So many that a command is seldom done before a signal arrives.
const SAMPLES: usize = 50_000;

/// Rounds until a signal arrives before the command is done: on a busy machine this process may have to wait
/// for a core meanwhile.
const ROUNDS: usize = 50;

/// Printed by a command that has heard the signal and does not end soon.
const STOPPING: &str = "stopping; Ctrl-C again ends at once\n";

fn lines(dir: &TempDir) -> PathBuf {
    let path = dir.path().join("many.jsonl");
    let (mut text, words) = (String::new(), "some words ".repeat(150));
    for index in 0..SAMPLES {
        text += &format!(
            "{{\"key\": \"k{index:06}\", \"n\": {}, \"text\": \"{words}\"}}\n",
            index % 1000
        );
    }
    fs::write(&path, text).unwrap();
    path
}

fn spawn(dir: &TempDir, args: &[&str]) -> Child {
    let mut command = kiste();
    command.args(args).current_dir(dir.path()).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child) {
    send(child, "-INT");
}

fn send(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Waits until there is something. Gives up after minutes, so that a hang has a name.
#[track_caller]
fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(300), "{what} does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a command that this process starts hears SIGHUP. Under `nohup` it does not.
fn hears_hangup() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.unwrap_or(0) & 1 == 0
}

fn has_bytes(path: &Path, least: u64) -> bool {
    path.metadata().is_ok_and(|found| found.len() >= least)
}

/// Sends a command this signal once this is the case, and waits for its end. `None` if it was done before.
fn signalled(dir: &TempDir, args: &[&str], signal: &str, seen: impl Fn() -> bool) -> Option<Run> {
    let mut child = spawn(dir, args);
    let ended = std::cell::Cell::new(false);
    let child_ended = std::cell::RefCell::new(&mut child);
    wait_for("output", || {
        ended.set(child_ended.borrow_mut().try_wait().unwrap().is_some());
        ended.get() || seen()
    });
    if !ended.get() {
        send(&child, signal);
    }
    let run = ended_run(child);
    (run.code != Some(0)).then_some(run)
}

/// How a command ended, without the line that tells that it is about to.
fn ended_run(child: Child) -> Run {
    let mut run = Run::from(child.wait_with_output().unwrap());
    run.err = run.err.replace(STOPPING, "");
    run
}

/// Waits until a command has told that it heard the signal: it waits for its input, or ends with this line.
fn wait_until_heard(child: &mut Child) -> (String, BufReader<ChildStderr>) {
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line == STOPPING || line.starts_with("kiste: "), "{line}");
    (line, stderr)
}

/// How a command ended whose standard error is read here.
fn ended(child: Child, (mut err, mut stderr): (String, BufReader<ChildStderr>)) -> Run {
    stderr.read_to_string(&mut err).unwrap();
    let err = err.replace(STOPPING, "");
    Run { err, ..Run::from(child.wait_with_output().unwrap()) }
}

/// Runs a command, and sends it a signal once its output has this many bytes. Where it was done before, the
/// output is removed and it runs again.
#[track_caller]
fn interrupted(dir: &TempDir, args: &[&str], writing: &Path, least: u64) -> Run {
    let before = names(dir);
    let run = (0..ROUNDS).find_map(|_| {
        let run = signalled(dir, args, "-INT", || has_bytes(writing, least));
        if run.is_none() {
            for name in names(dir).iter().filter(|name| !before.contains(name)) {
                fs::remove_file(dir.path().join(name)).unwrap();
            }
        }
        run
    });
    let run = run.unwrap_or_else(|| panic!("{args:?}: always done before the signal"));
    assert_eq!(run.code, Some(130), "{args:?}: {run:#?}");
    assert_eq!((run.err.matches("kiste: ").count(), &run.out[..]), (1, ""), "{args:?}: {run:#?}");
    run
}

fn names(dir: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(dir.path()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_conversion_keeps_what_it_has_and_resumes() {
    let dir = scratch();
    lines(&dir);
    let staged = dir.path().join("x.msgpack.partial/data");
    // Units of 4 MB are whole by then.
    let args = ["convert", "many.jsonl", "x.msgpack"];
    let run_ = interrupted(&dir, &args, &staged, 10 << 20);
    let kept = run_.err.strip_prefix("kiste: x.msgpack: interrupted; kept ");
    let kept =
        kept.and_then(|rest| rest.strip_suffix("; the same command with --resume continues\n"));
    let kept = kept.unwrap_or_else(|| panic!("{run_:#?}"));
    run(&dir, args).fails(2, "an unfinished write is left");
    let again = run(&dir, ["convert", "many.jsonl", "x.msgpack", "--resume"]).exits(0);
    assert!(again.err.contains(&format!("resuming after {kept}\n")), "{kept}: {again:#?}");
    let info = run(&dir, ["info", "x.msgpack", "--json"]).quietly().json();
    assert_eq!(info["samples"], SAMPLES);
    run(&dir, ["verify", "x.msgpack"]).exits(0);
}

#[test]
fn other_formats_are_written_as_a_whole_or_not_at_all() {
    let dir = scratch();
    lines(&dir);
    let before = names(&dir);
    let args = ["convert", "many.jsonl", "x.tar", "--drop", "n", "--force"];
    let temporary = || names(&dir).iter().any(|name| name != "x.tar" && !before.contains(name));
    let run_ = (0..ROUNDS).find_map(|_| {
        let run = signalled(&dir, &args, "-INT", temporary);
        if run.is_none() {
            fs::remove_file(dir.path().join("x.tar")).unwrap();
        }
        run
    });
    let run_ = run_.expect("a signal before it is done").exits(130);
    assert_eq!(
        run_.err,
        "kiste: x.tar: interrupted; nothing was written; the same command starts over\n"
    );
    assert_eq!(names(&dir), before);
}

#[test]
fn datasets_of_datasets_leave_nothing() {
    let dir = scratch();
    lines(&dir);
    run(&dir, ["convert", "many.jsonl", "many.msgpack"]).exits(0);
    let before = names(&dir);
    let staged = |name: &str| dir.path().join(format!("{name}.partial/data"));
    for args in [
        &["shuffle", "many.msgpack", "x.msgpack"][..],
        &["sort", "many.msgpack", "x.msgpack", "--by", "n"],
        &["merge", "many.msgpack", "x.msgpack"],
        &["filter", "many.msgpack", "x.msgpack", "n > 10"],
        &["select", "many.msgpack", "x.msgpack", "--range", "10.."],
        &["sample", "many.msgpack", "x.msgpack", "90%"],
    ] {
        let run_ = interrupted(&dir, args, &staged("x.msgpack"), 0);
        assert_eq!(
            run_.err,
            "kiste: x.msgpack: interrupted; nothing was written; the same command starts over\n",
            "{args:?}"
        );
        assert_eq!(names(&dir), before, "{args:?}");
    }
    // Those that were published stay, and the line says so.
    let args = ["split", "many.msgpack", "1000", "-o", "a.msgpack", "b.msgpack"];
    let run_ = interrupted(&dir, &args, &staged("b.msgpack"), 0);
    let lines: Vec<&str> = run_.err.lines().collect();
    let last = "kiste: b.msgpack: interrupted; a.msgpack stays; --force starts over";
    assert_eq!(lines.last(), Some(&last), "{run_:#?}");
    run(&dir, ["verify", "a.msgpack"]).exits(0);
    assert!(!dir.path().join("b.msgpack").exists());
}

#[test]
fn compression_leaves_no_file() {
    let dir = scratch();
    let before = names(&dir);
    let mut child = spawn(&dir, &["blpk", "compress", "-", "x.blp"]);
    child.stdin.as_mut().unwrap().write_all(&vec![7; 8 << 20]).unwrap();
    wait_for("a temporary file", || names(&dir).len() > before.len());
    signal(&child);
    // The end of the input must not pass for the end of the data.
    let heard = wait_until_heard(&mut child);
    drop(child.stdin.take());
    let run_ = ended(child, heard).exits(130);
    assert!(run_.err.contains("x.blp: interrupted; nothing was written"), "{run_:#?}");
    assert_eq!(names(&dir), before);
}

#[test]
fn an_import_leaves_no_array() {
    let dir = scratch();
    let mut npy = kiste::format::numpy::npy::encode_header(&kiste::format::numpy::npy::Header {
        dtype: "<i8".parse().unwrap(),
        shape: vec![100_000, 100],
        order: kiste::value::Order::C,
    });
    npy.resize(npy.len() + 80_000_000, 1);
    fs::write(dir.path().join("x.npy"), npy).unwrap();
    let before = names(&dir);
    let args = ["array", "import", "x.npy", "x"];
    let run_ = (0..ROUNDS).find_map(|_| {
        let run = signalled(&dir, &args, "-INT", || names(&dir).len() > before.len());
        if run.is_none() {
            fs::remove_dir_all(dir.path().join("x")).unwrap();
        }
        run
    });
    let run_ = run_.expect("a signal before it is done").exits(130);
    let line = "kiste: x: interrupted; nothing was written; the same command starts over\n";
    assert_eq!(run_.err, line);
    assert_eq!(names(&dir), before);
}

/// A command that waits for its input hears a second signal at once; meanwhile others see that the
/// dataset is being written, and not that it was left.
#[test]
fn a_second_signal_ends_at_once() {
    let dir = scratch();
    let mut child = spawn(&dir, &["convert", "--from", "jsonl", "-", "x.msgpack"]);
    let input = child.stdin.as_mut().unwrap();
    input.write_all(b"{\"key\": \"a\"}\n").unwrap();
    wait_for("a writer", || dir.path().join("x.msgpack.partial/journal").exists());
    for command in ["info", "verify", "cat", "stat"] {
        run(&dir, [command, "x.msgpack"]).fails(2, "this dataset is being written");
    }
    signal(&child);
    let heard = wait_until_heard(&mut child);
    assert!(child.try_wait().unwrap().is_none(), "it waits for its input");
    signal(&child);
    let run_ = ended(child, heard).exits(130);
    assert_eq!(run_.err.lines().last(), Some("kiste: ended at once"), "{run_:#?}");
    run(&dir, ["info", "x.msgpack"]).fails(2, "was never finished");
    run(&dir, ["repair", "x.msgpack", "--undo"]).exits(0);
    assert_eq!(names(&dir), [""; 0]);
}

/// A scheduler that wants the machine back, and a terminal that goes away: the command stops as at Ctrl-C.
#[test]
fn other_signals_stop_it_too() {
    let dir = scratch();
    lines(&dir);
    let whole = &["convert", "many.jsonl", "x.msgpack"][..];
    let part = ["convert", "many.jsonl", "y.msgpack", "--part", "1/1"];
    let signals = if hears_hangup() { &["-TERM", "-HUP"][..] } else { &["-TERM"] };
    for &signal in signals {
        for (args, at) in [(whole, "x.msgpack"), (&["commit", "y.msgpack"], "y.msgpack")] {
            let staged = dir.path().join(format!("{at}.partial/data"));
            let run_ = (0..ROUNDS).find_map(|_| {
                if args != whole && !dir.path().join("y.msgpack.parts").exists() {
                    run(&dir, part).exits(0);
                }
                let run = signalled(&dir, args, signal, || has_bytes(&staged, 10 << 20));
                if run.is_none() {
                    kiste::dataset::DatasetFile::all()
                        .for_each(|file| drop(fs::remove_file(file.path(&dir.path().join(at)))));
                }
                run
            });
            let run_ =
                run_.unwrap_or_else(|| panic!("{args:?}: always done before {signal}")).exits(130);
            let said = run_.err.starts_with(&format!("kiste: {at}: interrupted; kept "));
            assert!(said && run_.err.lines().count() == 1, "{signal}: {run_:#?}");
            assert!(!dir.path().join(at).exists());
        }
        run(&dir, ["verify", "y.msgpack"]).exits(2);
        run(&dir, ["repair", "x.msgpack", "--undo"]).exits(0);
    }
    run(&dir, ["commit", "y.msgpack"]).exits(0);
    run(&dir, ["verify", "y.msgpack"]).exits(0);
}

/// The second one ends it at once, whichever it is.
#[test]
fn a_second_signal_of_another_kind_ends_at_once() {
    use std::io::{BufRead, BufReader};

    // The first signal may come before it waits for its input: then it stops at once, by itself.
    let waited = (0..100).any(|_| {
        let dir = scratch();
        let mut child = spawn(&dir, &["convert", "--from", "jsonl", "-", "x.msgpack"]);
        child.stdin.as_mut().unwrap().write_all(b"{\"key\": \"a\"}\n").unwrap();
        let data = dir.path().join("x.msgpack.partial/data");
        wait_for("a sample", || has_bytes(&data, 1));
        send(&child, "-TERM");
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let waits = line == "stopping; Ctrl-C again ends at once\n";
        if waits {
            send(&child, if hears_hangup() { "-HUP" } else { "-INT" });
            line.clear();
            said.read_line(&mut line).unwrap();
            assert_eq!(line, "kiste: ended at once\n");
        }
        assert_eq!(child.wait().unwrap().code(), Some(130));
        waits
    });
    assert!(waited);
}

/// Under `nohup` a command outlives its terminal.
#[test]
fn a_hangup_that_is_ignored_stays_so() {
    let dir = scratch();
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" convert --from jsonl - x.msgpack"]);
    command.arg(env!("CARGO_BIN_EXE_kiste")).current_dir(dir.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"{\"key\": \"a\"}\n").unwrap();
    wait_for("a writer", || dir.path().join("x.msgpack.partial/journal").exists());
    send(&child, "-HUP");
    drop(child.stdin.take());
    Run::from(child.wait_with_output().unwrap()).exits(0);
    assert_eq!(run(&dir, ["ls", "x.msgpack"]).quietly().out, "a\n");
}

/// The signal that ends a producer ends its output too, which is no end of the data.
#[test]
fn a_stream_that_was_interrupted_is_not_published() {
    let dir = scratch();
    let mut child = spawn(&dir, &["convert", "--from", "jsonl", "-", "x.msgpack"]);
    child.stdin.as_mut().unwrap().write_all(b"{\"key\": \"a\"}\n").unwrap();
    wait_for("a writer", || dir.path().join("x.msgpack.partial/journal").exists());
    signal(&child);
    let heard = wait_until_heard(&mut child);
    drop(child.stdin.take());
    let run_ = ended(child, heard).exits(130);
    assert!(run_.err.contains("x.msgpack: interrupted; nothing was written"), "{run_:#?}");
    assert_eq!(names(&dir), [""; 0]);
}

/// Readers end as other programs do, and without a word.
#[test]
fn readers_are_ended_by_the_signal() {
    use std::os::unix::process::ExitStatusExt;

    // A shell that runs these tests in the background has them ignore the signal, and so would every
    // program that they start. One that they catch is not ignored by the programs.
    let _ = ctrlc::set_handler(|| std::process::exit(130));
    let dir = scratch();
    lines(&dir);
    run(&dir, ["convert", "many.jsonl", "many.msgpack", "--limit", "5000"]).exits(0);
    let mut child = spawn(&dir, &["cat", "many.msgpack"]);
    // More is read by none, so it waits after the first bytes.
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 100]).unwrap();
    signal(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.signal(), output.stderr.len()), (Some(2), 0));
}
