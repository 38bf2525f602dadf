//! Datasets of many files that are written to an object store, in one run and in parts that share no
//! disk: killed, repeated and at the same time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::{Child, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Instant;

use kiste::convert::{Conversion, Part, Silent, commit};

use super::converting::kiste;
use super::server::{Fault, Request};
use super::*;

const URL: &str = "s3://d/set.shards.json";

/// Files of JSON lines: `files` of them, of these many samples of about `len` bytes.
pub(super) fn with_lines(files: usize, samples: usize, len: usize) -> (TempDir, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for file in 0..files {
        let mut lines = String::new();
        for i in 0..samples {
            let text = "x".repeat(len + (file * 7 + i * 3) % 11);
            writeln!(lines, r#"{{"key": "{file}-{i}", "text": "{text}"}}"#).unwrap();
        }
        let path = dir.path().join(format!("{file:03}.jsonl"));
        std::fs::write(&path, lines).unwrap();
        paths.push(path.to_str().unwrap().to_owned());
    }
    (dir, paths)
}

fn args<'a>(
    command: &'a str,
    sources: &'a [String],
    target: &'a str,
    more: &[&'a str],
) -> Vec<&'a str> {
    let sources = sources.iter().map(String::as_str);
    [command].into_iter().chain(sources).chain([target]).chain(more.iter().copied()).collect()
}

fn run(server: &Server, args: &[&str]) -> Output {
    kiste(server, args).output().unwrap()
}

#[track_caller]
pub(super) fn succeeds(server: &Server, args: &[&str]) {
    let output = run(server, args);
    assert!(output.status.success(), "{args:?}: {}", error_of(&output));
}

#[track_caller]
pub(super) fn fails(server: &Server, args: &[&str]) -> String {
    let output = run(server, args);
    assert!(!output.status.success(), "{args:?}");
    error_of(&output)
}

pub(super) fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(super) fn spawn(server: &Server, args: &[&str]) -> Child {
    kiste(server, args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Holds a request back until it is released.
#[derive(Default)]
pub(super) struct Gate {
    pub(super) held: AtomicBool,
    released: AtomicBool,
}

impl Gate {
    pub(super) fn release(&self) {
        self.released.store(true, SeqCst);
    }
}

/// Holds the first request back that `is_it` says, and then does this with it.
pub(super) fn hold(
    server: &Server,
    then: Option<Fault>,
    is_it: impl Fn(u64, &Request) -> bool + Send + Sync + 'static,
) -> Arc<Gate> {
    let gate = Arc::new(Gate::default());
    let held = gate.clone();
    server.fail(move |number, request| {
        if !is_it(number, request) || held.held.swap(true, SeqCst) {
            return None;
        }
        while !held.released.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        then
    });
    gate
}

/// Waits until it is held or at its end.
pub(super) fn wait(child: &mut Child, gate: &Gate) {
    let start = Instant::now();
    while !gate.held.load(SeqCst) && child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(300), "nothing happens");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Kills the command at one of its requests, which is not done. Whether it came so far.
pub(super) fn kill_at(
    server: &Server,
    args: &[&str],
    is_it: impl Fn(u64, &Request) -> bool + Send + Sync + 'static,
) -> bool {
    let gate = hold(server, Some(Fault::Hang), is_it);
    let mut child = spawn(server, args);
    wait(&mut child, &gate);
    let _ = child.kill();
    child.wait().unwrap();
    server.fail(|_, _| None);
    gate.release();
    gate.held.load(SeqCst)
}

/// Holds the command at one of its requests while this is done: whether it came so far, and what it said if it
/// failed then.
pub(super) fn meanwhile(
    server: &Server,
    args: &[&str],
    is_it: impl Fn(u64, &Request) -> bool + Send + Sync + 'static,
    this: impl FnOnce(),
) -> (bool, Option<String>) {
    let gate = hold(server, None, is_it);
    let mut child = spawn(server, args);
    wait(&mut child, &gate);
    let came = gate.held.load(SeqCst);
    if !came {
        server.fail(|_, _| None);
    }
    this();
    gate.release();
    let output = child.wait_with_output().unwrap();
    server.fail(|_, _| None);
    (came, (!output.status.success()).then(|| error_of(&output)))
}

/// All files of a dataset in a directory, by the names that they would have in the bucket.
pub(super) fn local_files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    entries
        .filter(|path| name(path).starts_with("set") || name(path).starts_with("one"))
        .map(|path| (format!("/d/{}", name(&path)), std::fs::read(&path).unwrap()))
        .collect()
}

/// That all objects are the files of this directory, and that nothing else is left.
#[track_caller]
pub(super) fn assert_as_local(server: &Server, dir: &Path) {
    let local = local_files(dir);
    assert_eq!(server.names(), local.keys().cloned().collect::<Vec<_>>());
    for (name, bytes) in local {
        assert!(*server.object(&name).unwrap() == bytes, "{name}");
    }
    assert_eq!(server.unfinished_uploads(), 0);
}

pub(super) fn is_put(request: &Request, end: &str) -> bool {
    request.method == "PUT" && request.path.ends_with(end)
}

/// Whether it is of the note of a part.
fn is_note(request: &Request) -> bool {
    request.path.contains(".parts/part-") && request.path.ends_with(".json")
}

/// Whether it notes that a part is finished.
fn is_end(request: &Request) -> bool {
    request.method == "PUT"
        && is_note(request)
        && String::from_utf8_lossy(&request.body).contains("\"finished\"")
}

#[test]
fn one_run_writes_the_bytes_of_a_run_on_a_disk() {
    let (dir, lines) = with_lines(6, 40, 50);
    for options in [&["--shards", "3"][..], &["--shard-size", "4K", "--lookup", "--crc"], &[]] {
        for faults in [false, true] {
            let server = Server::start();
            if faults {
                server.fail(|number, _| (number % 20 == 7).then_some(Fault::Status(503, None)));
            }
            succeeds(&server, &args("convert", &lines, URL, options));
            let requests = server.requests();
            // By name, and the manifest after all shards.
            assert!(requests.iter().all(|request| !request.query.contains("list")));
            let is_manifest = |r: &Request| is_put(r, "/set.shards.json");
            let manifest = requests.iter().rposition(is_manifest).unwrap();
            let shard = requests.iter().rposition(|r| is_put(r, ".msgpack.offsets")).unwrap();
            assert!(shard < manifest);
            let out = dir.path().join("set.shards.json");
            succeeds(&server, &args("convert", &lines, out.to_str().unwrap(), options));
            assert_as_local(&server, dir.path());
            succeeds(&server, &["verify", URL]);
            let error = fails(&server, &args("convert", &lines, URL, options));
            assert!(error.contains("exists already"), "{error}");
            for name in local_files(dir.path()).into_keys() {
                std::fs::remove_file(dir.path().join(&name[3..])).unwrap();
            }
        }
    }
}

#[test]
fn sixty_four_parts_of_which_some_are_killed_make_the_bytes_of_parts_on_a_disk() {
    let (dir, lines) = with_lines(64, 5, 50);
    let server = Server::start();
    let mut killed = 0;
    for number in 1..=64 {
        let part = format!("{number}/64");
        let part = args("convert", &lines, URL, &["--part", &part]);
        if number % 4 == 0 {
            // At every step of its way, and some twice.
            let step = number * 3 / 4;
            killed += usize::from(kill_at(&server, &part, move |n, _| n == step));
            if number % 8 == 0 {
                killed += usize::from(kill_at(&server, &part, move |n, _| n == step + 2));
            }
        }
        if number == 40 {
            let error = fails(&server, &["commit", URL]);
            assert!(error.contains("25 of 64 parts are missing"), "{error}");
        }
        server.fail(|number, _| (number % 20 == 7).then_some(Fault::Status(503, None)));
        succeeds(&server, &part);
        server.fail(|_, _| None);
        // Again it does nothing.
        if number % 16 == 0 {
            server.requests();
            succeeds(&server, &part);
            assert!(server.requests().iter().all(|r| r.method == "GET" || is_put(r, "plan.json")));
        }
    }
    assert!(killed >= 16, "{killed}");
    server.requests();
    succeeds(&server, &["commit", URL]);
    let requests = server.requests();
    // No sample moves, and nothing is listed.
    assert!(requests.iter().all(|r| r.method != "POST" && r.query.is_empty()));
    assert!(!requests.iter().any(|r| r.method == "PUT" && r.path.ends_with(".msgpack")));
    let out = dir.path().join("set.shards.json");
    let here = Conversion::new(&lines, &out).durable(false);
    Part::all(64).for_each(|part| drop(here.run_part(part, &mut Silent).unwrap()));
    commit(&out, &mut Silent).unwrap();
    assert_as_local(&server, dir.path());
    succeeds(&server, &["verify", URL]);
    let local = dir.path().join("one.msgpack");
    Conversion::new(&lines, &local).durable(false).run(&mut Silent).unwrap();
    succeeds(&server, &["diff", URL, local.to_str().unwrap()]);
}

#[test]
fn the_end_of_an_earlier_conversion_is_not_taken_for_that_of_this_one() {
    for late in ["", "0123456789abcdef", "0123456789abcdefgiven up"] {
        let (dir, lines) = with_lines(4, 5, 50);
        let server = Server::start();
        succeeds(&server, &args("convert", &lines, URL, &["--part", "1/2"]));
        // Of a commit or a repair that was slow.
        server.put("/d/set.shards.json.parts/published", late.as_bytes().to_vec());
        succeeds(&server, &args("convert", &lines, URL, &["--part", "2/2"]));
        succeeds(&server, &["commit", URL]);
        assert!(!server.names().iter().any(|name| name.contains(".parts/part-")));
        succeeds(&server, &["verify", URL]);
        drop(dir);
    }
}

#[test]
fn a_part_that_was_killed_keeps_its_shards_and_aborts_its_upload() {
    let (dir, lines) = with_lines(4, 5, 3 << 20);
    let server = Server::start();
    let of = |part| args("convert", &lines, URL, &["--part", part, "--shard-size", "10M"]);
    succeeds(&server, &of("1/2"));
    let second_shard =
        |_, r: &Request| r.path == "/d/set-00001-00001.msgpack" && r.query.contains("partNumber=");
    assert!(kill_at(&server, &of("2/2"), second_shard));
    assert_eq!(server.unfinished_uploads(), 1);
    server.requests();
    succeeds(&server, &of("2/2"));
    let changed = |r: &Request| r.method != "GET" && r.path.starts_with("/d/set-00001-00000.");
    assert!(!server.requests().iter().any(changed));
    assert_eq!(server.unfinished_uploads(), 0);
    succeeds(&server, &["commit", URL]);
    let out = dir.path().join("set.shards.json");
    let here = Conversion::new(&lines, &out).durable(false).shard_size(10 << 20);
    Part::all(2).for_each(|part| drop(here.run_part(part, &mut Silent).unwrap()));
    commit(&out, &mut Silent).unwrap();
    assert_as_local(&server, dir.path());
}

#[test]
fn of_two_runs_of_a_part_the_later_one_has_it() {
    let (dir, lines) = with_lines(4, 20, 50);
    let out = dir.path().join("set.shards.json");
    let here = Conversion::new(&lines, &out).durable(false).shard_size(2000);
    Part::all(2).for_each(|part| drop(here.run_part(part, &mut Silent).unwrap()));
    commit(&out, &mut Silent).unwrap();
    // The first one is slow at one of these requests, and then goes on.
    for slow in ["-of-2.json", ".partial", ".msgpack", ".keys", ".offsets"] {
        let server = Server::start();
        let of = |part| args("convert", &lines, URL, &["--part", part, "--shard-size", "2000"]);
        succeeds(&server, &of("1/2"));
        let held = hold(&server, None, move |_, r| {
            let of_shard = r.path.starts_with("/d/set-00001-00001.msgpack");
            let notes_it = String::from_utf8_lossy(&r.body).contains("set-00001-00001.msgpack");
            is_put(r, slow) && (of_shard || notes_it)
        });
        let mut first = spawn(&server, &of("2/2"));
        wait(&mut first, &held);
        assert!(held.held.load(SeqCst), "{slow}");
        succeeds(&server, &of("2/2"));
        held.release();
        let first = first.wait_with_output().unwrap();
        assert!(!first.status.success(), "{slow}");
        let error = error_of(&first);
        assert!(error.contains("another process has run or repaired part 2/2"), "{slow}: {error}");
        succeeds(&server, &["commit", URL]);
        assert_as_local(&server, dir.path());
        succeeds(&server, &["verify", URL]);
    }
}

#[test]
fn a_run_that_was_killed_is_resumed_or_removed() {
    let (dir, lines) = with_lines(6, 40, 50);
    let out = dir.path().join("set.shards.json");
    let here = Conversion::new(&lines, &out).durable(false).shard_size(4000);
    here.run(&mut Silent).unwrap();
    let server = Server::start();
    let plain = args("convert", &lines, URL, &["--shard-size", "4000"]);
    let resume = [&plain[..], &["--resume"]].concat();
    let at = |name: &'static str| move |_, r: &Request| is_put(r, name);
    for (number, end) in [
        "plan.json",
        "-of-1.json",
        "set-00001.msgpack.partial",
        "set-00001.msgpack",
        "set-00001.msgpack.keys",
        "set-00002.msgpack.offsets",
        "set.shards.json",
        "published",
    ]
    .into_iter()
    .enumerate()
    {
        for undo in [false, true] {
            let first = if number % 2 == 0 { &plain } else { &resume };
            assert!(kill_at(&server, first, at(end)), "{end}");
            let is_begun = !server.names().is_empty();
            assert_eq!(is_begun, end != "plan.json");
            if is_begun && end != "published" {
                let error = fails(&server, &plain);
                assert!(error.contains("at work, or was cut short"), "{end}: {error}");
                assert!(error.contains("--resume"), "{end}: {error}");
                let error = fails(&server, &["repair", URL]);
                assert!(error.contains("that no manifest lists"), "{end}: {error}");
            }
            match undo {
                true if is_begun => {
                    succeeds(&server, &["repair", URL, "--undo"]);
                    if end != "published" {
                        assert_eq!(server.names(), [""; 0], "{end}");
                        assert_eq!(server.unfinished_uploads(), 0);
                        continue;
                    }
                }
                _ => {
                    server.requests();
                    succeeds(&server, &resume);
                    let again =
                        |r: &Request| r.method == "PUT" && r.path.starts_with("/d/set-00000.");
                    let done = number >= 2;
                    assert_eq!(server.requests().iter().any(again), !done, "{end}");
                }
            }
            assert_as_local(&server, dir.path());
            server.names().iter().for_each(|name| server.remove(name));
        }
    }
}

#[test]
fn a_repair_aborts_uploads_and_leaves_what_is_not_of_the_conversion() {
    let (_dir, lines) = with_lines(3, 5, 3 << 20);
    let server = Server::start();
    let parts = |part| args("convert", &lines, URL, &["--part", part]);
    succeeds(&server, &parts("1/3"));
    let upload = |_, r: &Request| r.query.contains("partNumber=");
    assert!(kill_at(&server, &parts("2/3"), upload));
    assert_eq!(server.unfinished_uploads(), 1);
    // Another program has written to the place of the first shard.
    let foreign = server.object("/d/set-00000.msgpack").unwrap().to_vec();
    server.put("/d/set-00000.msgpack", foreign);
    let error = fails(&server, &["commit", URL]);
    assert!(error.contains("2 of 3 parts are missing: 2/3, 3/3"), "{error}");
    let removed = run(&server, &["repair", URL, "--undo"]);
    assert!(removed.status.success(), "{}", error_of(&removed));
    assert!(error_of(&removed).contains("set-00000.msgpack: another program wrote it"));
    assert_eq!(server.unfinished_uploads(), 0);
    assert!(server.names().iter().all(|name| name.starts_with("/d/set-00000.msgpack")));
    assert!(server.object("/d/set-00000.msgpack").is_some());
}

#[test]
fn a_conversion_that_a_repair_takes_the_place_of_publishes_nothing() {
    let (_dir, lines) = with_lines(3, 40, 50);
    for end in [
        "plan.json",
        "-of-1.json",
        ".partial",
        ".msgpack",
        ".offsets",
        "finished",
        "/set.shards.json",
    ] {
        let server = Server::start();
        let held = hold(&server, None, move |_, r| match end {
            "finished" => is_end(r),
            end => is_put(r, end),
        });
        let mut slow = spawn(&server, &args("convert", &lines, URL, &["--shard-size", "3000"]));
        wait(&mut slow, &held);
        assert!(held.held.load(SeqCst), "{end}");
        if end == "plan.json" {
            // Nothing is there yet.
            fails(&server, &["repair", URL, "--undo"]);
            held.release();
            assert!(slow.wait().unwrap().success());
            continue;
        }
        succeeds(&server, &["repair", URL, "--undo"]);
        held.release();
        let slow = slow.wait_with_output().unwrap();
        let error = error_of(&slow);
        assert!(!slow.status.success(), "{end}");
        assert_eq!(server.names(), [""; 0], "{end}: {error}");
    }
}

#[test]
fn an_append_adds_shards_and_replaces_the_manifest() {
    let (dir, lines) = with_lines(6, 40, 50);
    let out = dir.path().join("set.shards.json");
    let server = Server::start();
    for target in [URL, out.to_str().unwrap()] {
        succeeds(&server, &args("convert", &lines[..2], target, &["--shards", "2"]));
        let more = &["--append", "--shard-size", "2K"];
        succeeds(&server, &args("convert", &lines[2..4], target, more));
        let error = fails(&server, &args("convert", &lines[1..2], target, more));
        assert!(error.contains("has the same key"), "{error}");
    }
    assert_as_local(&server, dir.path());
    succeeds(&server, &["verify", URL]);
    let put = server.requests().into_iter().rfind(|r| is_put(r, "/set.shards.json")).unwrap();
    assert!(put.header("if-match").is_some());
    // Killed in between it is repaired, and appends again.
    let append = args("convert", &lines[4..], URL, &["--append"]);
    assert!(kill_at(&server, &append, |_, r| is_end(r)));
    let error = fails(&server, &append);
    assert!(error.contains("append once the other conversion is done"), "{error}");
    succeeds(&server, &["repair", URL, "--undo"]);
    assert_as_local(&server, dir.path());
    succeeds(&server, &append);
    succeeds(&server, &args("convert", &lines[4..], out.to_str().unwrap(), &["--append"]));
    assert_as_local(&server, dir.path());
}

/// A commit that comes late to the place of the dataset leaves what another one has published, whose parts are gone.
#[test]
fn a_commit_that_comes_late_removes_nothing() {
    let (dir, lines) = with_lines(4, 20, 50);
    let out = dir.path().join("one.msgpack");
    Conversion::new(&lines, &out).durable(false).run(&mut Silent).unwrap();
    for late_at in ["one.msgpack.partial", ".parts/commit"] {
        let server = Server::start();
        for part in ["1/2", "2/2"] {
            succeeds(&server, &args("convert", &lines, FILE, &["--part", part]));
        }
        let (first, late) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
        let (at_end, at_place) = (first.clone(), late.clone());
        server.fail(move |_, request| {
            // The first is held at its end, and then the other one where it takes its place or begins.
            let gate = match () {
                () if is_put(request, "one.msgpack.offsets") => &at_end,
                () if is_put(request, late_at) && at_end.held.load(SeqCst) => &at_place,
                () => return None,
            };
            if !gate.held.swap(true, SeqCst) {
                while !gate.released.load(SeqCst) {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            None
        });
        let mut one = spawn(&server, &["commit", FILE]);
        wait(&mut one, &first);
        let mut other = spawn(&server, &["commit", FILE]);
        wait(&mut other, &late);
        first.release();
        let ended = one.wait_with_output().unwrap();
        assert!(ended.status.success(), "{late_at}: {}", error_of(&ended));
        late.release();
        let ended = other.wait_with_output().unwrap();
        server.fail(|_, _| None);
        assert_one_as_local(&server, dir.path());
        assert!(
            ended.status.success() || error_of(&ended).contains("another process"),
            "{ended:?}"
        );
    }
}

/// The list of bad input is an object next to the output, the same as on a disk.
#[test]
fn bad_input_is_set_aside_in_any_number_of_parts() {
    let (dir, lines) = with_lines(3, 40, 50);
    for (at, path) in lines.iter().enumerate() {
        let text = fs::read_to_string(path).unwrap();
        fs::write(path, text.replacen("\n", &format!("\nno sample {at}\n"), 20)).unwrap();
    }
    let local = dir.path().join("one.msgpack");
    let bad = ["--bad", "quarantine"];
    let made = run(&Server::start(), &args("convert", &lines, local.to_str().unwrap(), &bad));
    assert_eq!(made.status.code(), Some(1), "{}", error_of(&made));
    let expected = fs::read(dir.path().join("one.msgpack.quarantine.jsonl")).unwrap();
    let expected = Arc::new(expected);
    assert_eq!(expected.iter().filter(|byte| **byte == b'\n').count(), 60);

    let server = Server::start();
    let ends = |args: &[&str], code: i32| {
        let made = run(&server, args);
        assert_eq!(made.status.code(), Some(code), "{}", error_of(&made));
    };
    for (url, options) in [
        ("s3://d/one.msgpack", &[][..]),
        ("s3://d/set.shards.json", &["--shard-size", "500"]),
        ("s3://d/two.msgpack", &["--split", "a=1,b=1"]),
    ] {
        ends(&args("convert", &lines, url, &[&bad[..], options].concat()), 1);
        let name = url.strip_prefix("s3:/").unwrap();
        assert_eq!(
            server.object(&format!("{name}.quarantine.jsonl")),
            Some(expected.clone()),
            "{url}"
        );
        // Parts, one of which is run again after it has ended.
        let again = [&bad[..], &["--force"], options].concat();
        let in_parts = |part: &'static str| [&again[..], &["--part", part]].concat();
        for part in ["2/3", "1/3", "3/3", "1/3"] {
            ends(&args("convert", &lines, url, &in_parts(part)), 0);
        }
        ends(&["commit", url], 1);
        assert_eq!(
            server.object(&format!("{name}.quarantine.jsonl")),
            Some(expected.clone()),
            "{url}"
        );
    }
    assert!(!server.names().iter().any(|name| name.contains(".parts")), "{:?}", server.names());
    // A conversion without bad input replaces the list by none.
    let good = dir.path().join("good.jsonl").to_str().unwrap().to_owned();
    fs::write(&good, "{\"key\": \"a\"}\n").unwrap();
    ends(&args("convert", &[good], "s3://d/one.msgpack", &["--bad", "quarantine", "--force"]), 0);
    assert_eq!(server.object("/d/one.msgpack.quarantine.jsonl"), None);
}

/// The new shards have names of their own; the old ones go once the manifest lists the new ones.
#[test]
fn a_manifest_is_replaced_and_then_its_shards_are_removed() {
    let (dir, lines) = with_lines(4, 30, 50);
    let server = Server::start();
    let is_shard = |name: &&String| name.contains("/set-") && name.ends_with(".msgpack");
    let shards = || server.names().iter().filter(is_shard).count();
    succeeds(&server, &args("convert", &lines[..2], URL, &["--shards", "4"]));
    assert_eq!(shards(), 4);
    let replace = |options: &[&'static str]| {
        let options = [&["--force"][..], options].concat();
        succeeds(&server, &args("convert", &lines, URL, &options));
    };
    replace(&["--shards", "3"]);
    assert_eq!(shards(), 3);
    for part in ["1/2", "2/2"] {
        replace(&["--part", part]);
        assert_eq!(shards(), if part == "1/2" { 4 } else { 5 });
    }
    succeeds(&server, &["commit", URL]);
    assert_eq!(shards(), 2);
    succeeds(&server, &["verify", URL]);
    let one = dir.path().join("one.msgpack");
    let one = one.to_str().unwrap();
    succeeds(&server, &args("convert", &lines, one, &[]));
    succeeds(&server, &["diff", URL, one]);
    assert!(!server.names().iter().any(|name| name.contains(".parts")), "{:?}", server.names());
}

#[test]
fn of_racing_conversions_exactly_one_publishes() {
    let (dir, lines) = with_lines(5, 40, 50);
    for _ in 0..3 {
        let server = Server::start();
        let racers: Vec<Child> = lines
            .iter()
            .map(|line| spawn(&server, &args("convert", std::slice::from_ref(line), URL, &[])))
            .collect();
        let ends: Vec<Output> =
            racers.into_iter().map(|racer| racer.wait_with_output().unwrap()).collect();
        let won: Vec<usize> = (0..5).filter(|&racer| ends[racer].status.success()).collect();
        let errors: Vec<String> = ends.iter().map(error_of).collect();
        assert_eq!(won.len(), 1, "{errors:?}");
        for lost in errors.iter().enumerate().filter(|(at, _)| *at != won[0]) {
            assert!(lost.1.contains("hint"), "{lost:?}");
        }
        let out = dir.path().join("set.shards.json");
        Conversion::new([&lines[won[0]]], &out).run(&mut Silent).unwrap();
        assert_as_local(&server, dir.path());
        for name in local_files(dir.path()).into_keys() {
            std::fs::remove_file(dir.path().join(&name[3..])).unwrap();
        }
    }
}

#[test]
fn an_append_to_a_manifest_that_was_replaced_meanwhile_fails() {
    let (dir, lines) = with_lines(3, 40, 50);
    let out = dir.path().join("set.shards.json");
    let server = Server::start();
    succeeds(&server, &args("convert", &lines[..1], URL, &[]));
    let held = hold(&server, None, |_, r| is_put(r, "/set.shards.json"));
    let append = |line: usize| args("convert", &lines[line..=line], URL, &["--append"]);
    let mut slow = spawn(&server, &append(1));
    wait(&mut slow, &held);
    assert!(held.held.load(SeqCst));
    // Its shards and notes go, and another one is faster.
    succeeds(&server, &["repair", URL, "--undo"]);
    succeeds(&server, &append(2));
    held.release();
    let slow = slow.wait_with_output().unwrap();
    let error = error_of(&slow);
    assert!(!slow.status.success() && error.contains("append to it as it is now"), "{error}");
    Conversion::new([&lines[0]], &out).run(&mut Silent).unwrap();
    Conversion::new([&lines[2]], &out).append(true).run(&mut Silent).unwrap();
    assert_as_local(&server, dir.path());
    succeeds(&server, &["verify", URL]);
}

#[test]
fn racing_commits_publish_once() {
    let (dir, lines) = with_lines(4, 20, 50);
    let out = dir.path().join("set.shards.json");
    let here = Conversion::new(&lines, &out).durable(false);
    Part::all(4).for_each(|part| drop(here.run_part(part, &mut Silent).unwrap()));
    commit(&out, &mut Silent).unwrap();
    let server = Server::start();
    for part in ["1/4", "2/4", "3/4", "4/4"] {
        succeeds(&server, &args("convert", &lines, URL, &["--part", part]));
    }
    let racers: Vec<Child> = (0..4).map(|_| spawn(&server, &["commit", URL])).collect();
    let ends: Vec<Output> =
        racers.into_iter().map(|racer| racer.wait_with_output().unwrap()).collect();
    let errors: Vec<String> = ends.iter().map(error_of).collect();
    assert!(ends.iter().any(|end| end.status.success()), "{errors:?}");
    assert!(!errors.iter().any(|error| error.contains("missing")), "{errors:?}");
    let published = |r: &Request| is_put(r, "/set.shards.json") && r.status == 200;
    assert_eq!(server.requests().iter().filter(|r| published(r)).count(), 1);
    assert_as_local(&server, dir.path());
}

/// Shards that are rewritten when parts are joined, by commits that are killed at any request, or race.
#[test]
fn parts_that_skip_keys_and_keep_to_a_limit_are_joined_once() {
    let (dir, mut lines) = with_lines(3, 20, 50);
    lines.extend_from_within(..2);
    let options = ["--skip-duplicates", "--limit", "57"];
    let out = dir.path().join("set.shards.json");
    let out = out.to_str().unwrap();
    let run_parts = |server: &Server, target: &str| {
        for part in ["1/4", "2/4", "3/4", "4/4"] {
            let options = [&options[..], &["--part", part]].concat();
            succeeds(server, &args("convert", &lines, target, &options));
        }
    };
    let server = Server::start();
    run_parts(&server, out);
    succeeds(&server, &["commit", out]);
    let mut killed = 0;
    for step in (0..).step_by(crate::support::one_in(7)) {
        let server = Server::start();
        run_parts(&server, URL);
        let came = kill_at(&server, &["commit", URL], move |n, _| n == step);
        killed += usize::from(came);
        if step % 2 == 1 && server.object("/d/set.shards.json").is_none() {
            succeeds(&server, &["repair", URL, "--undo"]);
            assert_eq!(server.names(), [""; 0]);
            assert_eq!(server.unfinished_uploads(), 0);
            run_parts(&server, URL);
        }
        let again = run(&server, &["commit", URL]);
        assert!(again.status.success() || !came, "{step}: {}", error_of(&again));
        assert_as_local(&server, dir.path());
        if !came {
            break;
        }
    }
    assert!(killed > 5, "{killed}");
    let server = Server::start();
    run_parts(&server, URL);
    let racers: Vec<Child> = (0..4).map(|_| spawn(&server, &["commit", URL])).collect();
    let ends: Vec<Output> =
        racers.into_iter().map(|racer| racer.wait_with_output().unwrap()).collect();
    let errors: Vec<String> = ends.iter().map(error_of).collect();
    if !ends.iter().any(|end| end.status.success()) {
        // Each may have taken it from the others.
        assert!(errors.iter().all(|error| error.contains("another ")), "{errors:?}");
        succeeds(&server, &["commit", URL]);
    }
    assert_as_local(&server, dir.path());
}

#[test]
fn what_a_url_cannot_is_refused_before_any_work() {
    let (_dir, lines) = with_lines(2, 5, 50);
    let server = Server::start();
    let error = fails(&server, &args("convert", &lines, "s3://d/one.msgpack", &["--append"]));
    assert!(error.contains("cannot be combined with one file at a URL"), "{error}");
    let error = fails(&server, &args("convert", &lines, URL, &["--split", "a=1,b=1"]));
    assert!(error.contains("cannot be combined with a dataset of many files"), "{error}");
    let error = fails(&server, &["commit", URL]);
    assert!(error.contains("there are no parts to join"), "{error}");
    let http = format!("{}/d/set.shards.json", server.url());
    let error = fails(&server, &args("convert", &lines, &http, &[]));
    assert!(error.contains("write to s3://"), "{error}");
    assert!(server.names().is_empty());
}

/// What a note says at a URL is compared as on a disk: one that is odd is refused, and all objects stay.
#[test]
fn odd_notes_remove_nothing() {
    let (dir, lines) = with_lines(4, 10, 30);
    let out = dir.path().join("set.shards.json");
    let server = Server::start();
    for part in ["1/2", "2/2"] {
        succeeds(&server, &args("convert", &lines, URL, &["--part", part]));
    }
    let before = server.names();
    for note in ["plan.json", "part-1-of-2.json"] {
        let path = format!("/d/set.shards.json.parts/{note}");
        let good = server.object(&path).unwrap().to_vec();
        let text = String::from_utf8(good.clone()).unwrap();
        let (head, _) = text.split_once(",\n  \"checksum\"").unwrap();
        let unsealed = format!("{head}\n}}");
        let mut odd = vec![String::new(), text[..text.len() / 2].to_owned()];
        for value in ["0", "null", "-1", "1099511627776", "18446744073709551616", "\"x\""] {
            odd.push(text.replace("\"parts\": 2", &format!("\"parts\": {value}")));
            odd.push(unsealed.replace("\"parts\": 2", &format!("\"parts\": {value}")));
            odd.push(unsealed.replace("\"samples\": 20", &format!("\"samples\": {value}")));
        }
        for name in ["\"parts\"", "\"samples\"", "\"plan\"", "\"finished\""] {
            odd.push(unsealed.replace(name, "\"other\""));
        }
        for odd in odd.into_iter().filter(|odd| *odd != text && *odd != unsealed) {
            server.put(&path, odd.clone().into_bytes());
            let error = fails(&server, &["commit", URL]);
            assert!(error.starts_with("kiste: "), "{note}: {odd}: {error}");
            assert_eq!(server.names(), before, "{note}: {odd}");
        }
        server.put(&path, good);
    }
    succeeds(&server, &["commit", URL]);
    for part in Part::all(2) {
        Conversion::new(&lines, &out).durable(false).run_part(part, &mut Silent).unwrap();
    }
    commit(&out, &mut Silent).unwrap();
    assert_as_local(&server, dir.path());
    // A claim that says nothing is one nevertheless.
    for claim in ["", "{}", "{\"write\":1}", "{\"write\":\"1\",\"uploads\":null}"] {
        server.put("/d/new.msgpack.partial", claim.as_bytes().to_vec());
        fails(&server, &["select", out.to_str().unwrap(), "s3://d/new.msgpack", "--range", "1..3"]);
        assert!(server.object("/d/new.msgpack.partial").is_some());
        succeeds(&server, &["repair", "s3://d/new.msgpack"]);
        assert!(server.object("/d/new.msgpack.partial").is_none());
    }
}

/// As an earlier version left it, which noted parts under other names.
#[test]
fn what_an_earlier_version_left_is_finished_or_removed() {
    let (dir, lines) = with_lines(4, 20, 50);
    let out = dir.path().join("set.shards.json");
    for part in Part::all(2) {
        Conversion::new(&lines, &out).durable(false).run_part(part, &mut Silent).unwrap();
    }
    commit(&out, &mut Silent).unwrap();
    for undo in [false, true] {
        let server = Server::start();
        for part in ["1/2", "2/2"] {
            succeeds(&server, &args("convert", &lines, URL, &["--part", part]));
        }
        for part in [1, 2] {
            let path = |end| format!("/d/set.shards.json.parts/part-{part}-of-2.{end}");
            server.put(&path("shards"), server.object(&path("json")).unwrap().to_vec());
            server.remove(&path("json"));
        }
        let plan = "/d/set.shards.json.parts/plan.json";
        let text = String::from_utf8(server.object(plan).unwrap().to_vec()).unwrap();
        let mut older: serde_json::Value = serde_json::from_str(&text).unwrap();
        let members = older.as_object_mut().unwrap();
        assert!(members.remove("checksum").is_some() && members.remove("journal").is_some());
        server.put(plan, older.to_string().into_bytes());
        match undo {
            true => {
                succeeds(&server, &["repair", URL, "--undo"]);
                assert_eq!(server.names(), [""; 0]);
            }
            false => {
                // One of them runs again, and finds that it is finished.
                succeeds(&server, &args("convert", &lines, URL, &["--part", "2/2"]));
                succeeds(&server, &["commit", URL]);
                assert_as_local(&server, dir.path());
            }
        }
    }
}

/// The URL of one file.
const FILE: &str = "s3://d/one.msgpack";

fn assert_one_as_local(server: &Server, dir: &Path) {
    let local = local_files(dir).into_iter().filter(|(name, _)| name.starts_with("/d/one."));
    let local: BTreeMap<String, Vec<u8>> = local.collect();
    assert!(local.len() > 4);
    assert_eq!(server.names(), local.keys().cloned().collect::<Vec<_>>());
    for (name, bytes) in local {
        assert!(*server.object(&name).unwrap() == bytes, "{name}");
    }
    assert_eq!(server.unfinished_uploads(), 0);
}

/// Killed at any request, a part or a commit is run again, or a repair removes all of it.
#[test]
fn parts_of_one_file_make_the_bytes_of_one_run_on_a_disk() {
    let (dir, lines) = with_lines(4, 20, 50);
    let out = dir.path().join("one.msgpack");
    Conversion::new(&lines, &out).durable(false).run(&mut Silent).unwrap();
    let part = |part: &'static str| args("convert", &lines, FILE, &["--part", part]);
    let commit = ["commit", FILE];
    for end in [
        "plan.json",
        "part-2-of-3.json",
        "part-2-of-3.00000.msgpack.partial",
        "part-2-of-3.00000.msgpack",
        "part-2-of-3.00000.msgpack.offsets",
        "one.msgpack.parts/commit",
        "/one.msgpack.partial",
        "/one.msgpack",
        "/one.msgpack.keys",
        "/one.msgpack.offsets",
        "published",
    ] {
        for undo in [false, true] {
            let server = Server::start();
            let is_of_part = end.contains("part-2") || end == "plan.json";
            if end != "plan.json" {
                succeeds(&server, &part("1/3"));
                succeeds(&server, &part("3/3"));
            }
            if !is_of_part {
                succeeds(&server, &part("2/3"));
            }
            let killed = if is_of_part { part("2/3") } else { commit.to_vec() };
            assert!(kill_at(&server, &killed, move |_, r| is_put(r, end)), "{end}");
            if undo {
                match server.names().is_empty() {
                    true => drop(fails(&server, &["repair", FILE, "--undo"])),
                    false => {
                        let error = fails(&server, &["repair", FILE]);
                        assert!(error.contains("are not joined"), "{end}: {error}");
                        succeeds(&server, &["repair", FILE, "--undo"]);
                    }
                }
                // What was complete stays.
                match end {
                    "published" => assert_one_as_local(&server, dir.path()),
                    _ => assert_eq!(server.names(), [""; 0], "{end}"),
                }
                assert_eq!(server.unfinished_uploads(), 0, "{end}");
                continue;
            }
            for number in ["1/3", "2/3", "3/3"] {
                succeeds(&server, &part(number));
            }
            succeeds(&server, &commit);
            assert_one_as_local(&server, dir.path());
        }
    }
}

/// What is not of the conversion is never replaced.
#[test]
fn one_file_at_a_url_is_resumed_and_published_once() {
    let (dir, lines) = with_lines(4, 20, 50);
    let out = dir.path().join("one.msgpack");
    Conversion::new(&lines, &out).durable(false).run(&mut Silent).unwrap();
    let server = Server::start();
    let resume = args("convert", &lines, FILE, &["--resume"]);
    for end in ["part-1-of-1.00000.msgpack.keys", "/one.msgpack.key_hashes", "published"] {
        assert!(kill_at(&server, &resume, move |_, r| is_put(r, end)), "{end}");
    }
    succeeds(&server, &resume);
    assert_one_as_local(&server, dir.path());
    // It is there.
    succeeds(&server, &resume);
    fails(&server, &args("convert", &lines, FILE, &["--part", "1/2"]));
    assert_one_as_local(&server, dir.path());

    let in_two = || {
        let server = Server::start();
        for part in ["1/2", "2/2"] {
            succeeds(&server, &args("convert", &lines, FILE, &["--part", part]));
        }
        server
    };
    let server = in_two();
    let racing: Vec<Child> = (0..3).map(|_| spawn(&server, &["commit", FILE])).collect();
    let ended = racing.into_iter().map(|child| child.wait_with_output().unwrap().status.success());
    if ended.filter(|success| *success).count() == 0 {
        succeeds(&server, &["commit", FILE]);
    }
    assert_one_as_local(&server, dir.path());

    // Something else has come there.
    let server = in_two();
    server.put("/d/one.msgpack", b"mine".to_vec());
    let error = fails(&server, &["commit", FILE]);
    assert!(error.contains("exists already"), "{error}");
    assert_eq!(*server.get("/d/one.msgpack"), b"mine");
    succeeds(&server, &["repair", FILE, "--undo"]);
    assert_eq!(server.names(), ["/d/one.msgpack"]);
}
