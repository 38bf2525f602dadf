//! Ctrl-C: one line that says what stays and how to go on, exit code 130, and nothing half done.

use std::process::Child;
use std::time::{Duration, Instant};

use super::*;

/// So many that no command writes them before a signal arrives.
const SAMPLES: usize = 50_000;

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
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Waits until there is something, and for no longer than a minute.
#[track_caller]
fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn has_bytes(path: &Path, least: u64) -> bool {
    path.metadata().is_ok_and(|found| found.len() >= least)
}

/// Runs a command, and sends it a signal once its output has this many bytes.
#[track_caller]
fn interrupted(dir: &TempDir, args: &[&str], writing: &Path, least: u64) -> Run {
    let mut child = spawn(dir, args);
    let done = std::cell::Cell::new(false);
    wait_for("output", || {
        done.set(has_bytes(writing, least));
        done.get()
    });
    signal(&child);
    drop(child.stdin.take());
    let run = Run::from(child.wait_with_output().unwrap());
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
    let mut child = spawn(&dir, &["convert", "many.jsonl", "x.tar", "--drop", "n"]);
    let temporary = || names(&dir).len() > before.len();
    wait_for("a temporary file", temporary);
    signal(&child);
    drop(child.stdin.take());
    let run_ = Run::from(child.wait_with_output().unwrap()).exits(130);
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
    std::thread::sleep(Duration::from_millis(200));
    drop(child.stdin.take());
    let run_ = Run::from(child.wait_with_output().unwrap()).exits(130);
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
    let child = spawn(&dir, &["array", "import", "x.npy", "x"]);
    wait_for("a temporary directory", || names(&dir).len() > before.len());
    signal(&child);
    let run_ = Run::from(child.wait_with_output().unwrap()).exits(130);
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
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "it waits for its input");
    signal(&child);
    let run_ = Run::from(child.wait_with_output().unwrap()).exits(130);
    assert_eq!(run_.err.lines().last(), Some("kiste: ended at once"), "{run_:#?}");
    run(&dir, ["info", "x.msgpack"]).fails(2, "was never finished");
    run(&dir, ["repair", "x.msgpack", "--undo"]).exits(0);
    assert_eq!(names(&dir), [""; 0]);
}

/// The signal that ends a producer ends its output too, which is no end of the data.
#[test]
fn a_stream_that_was_interrupted_is_not_published() {
    let dir = scratch();
    let mut child = spawn(&dir, &["convert", "--from", "jsonl", "-", "x.msgpack"]);
    child.stdin.as_mut().unwrap().write_all(b"{\"key\": \"a\"}\n").unwrap();
    wait_for("a writer", || dir.path().join("x.msgpack.partial/journal").exists());
    signal(&child);
    std::thread::sleep(Duration::from_millis(100));
    drop(child.stdin.take());
    let run_ = Run::from(child.wait_with_output().unwrap()).exits(130);
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
    // Nobody reads what it prints, so it waits.
    let mut child = spawn(&dir, &["cat", "many.msgpack"]);
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none());
    signal(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.signal(), output.stderr.len()), (Some(2), 0));
}
