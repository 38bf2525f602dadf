//! What is no regular file where one is expected: it is refused at once, and never waited for.

use std::time::{Duration, Instant};

use super::*;

/// Runs the command, which must not take long.
#[track_caller]
fn soon(dir: &TempDir, args: &[&str]) -> Run {
    let mut command = kiste();
    command.args(args).current_dir(dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(300) {
            child.kill().unwrap();
            panic!("{args:?} waits");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap().into()
}

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_pipe_with_a_name_is_no_source() {
    let dir = scratch();
    make_fifo(&dir.path().join("pipe"));
    let formats = [
        "list",
        "jsonl",
        "dataset",
        "webdataset",
        "tfrecord",
        "mds",
        "cifar10",
        "cifar100",
        "mnist",
        "npz",
        "csv",
        "tsv",
        "images",
    ];
    for from in formats.into_iter().map(Some).chain([None]) {
        let mut args = vec!["convert", "pipe", "x.msgpack"];
        args.extend(from.iter().flat_map(|from| ["--from", from]));
        let run = soon(&dir, &args).fails(2, "pipe: expected a regular file, found a FIFO");
        let hint = "hint: - reads JSON lines, CSV, TSV and tar from standard input\n";
        assert!(run.err.ends_with(hint), "{run:?}");
    }
    #[cfg(feature = "parquet")]
    for from in ["parquet", "arrow"] {
        let args = ["convert", "pipe", "x.msgpack", "--from", from];
        soon(&dir, &args).fails(2, "pipe: expected a regular file, found a FIFO");
    }
    let null = ["convert", "/dev/null", "x.msgpack", "--from", "jsonl"];
    soon(&dir, &null).fails(2, "/dev/null: expected a regular file, found a character device");
    assert_eq!(names(dir.path()), ["pipe"]);
}

#[test]
fn pipes_in_folders_patterns_and_options_are_refused() {
    let dir = with_words();
    fs::create_dir_all(dir.path().join("photos/cat")).unwrap();
    make_fifo(&dir.path().join("photos/cat/1.png"));
    make_fifo(&dir.path().join("shard-1.tar"));
    make_fifo(&dir.path().join("names.txt"));
    let found = "expected a regular file, found a FIFO";
    for args in [
        &["convert", "photos", "x.msgpack"][..],
        &["convert", "shard-{1..1}.tar", "x.msgpack"],
        &["convert", "words.msgpack", "x.msgpack", "--split-list", "a=names.txt"],
        &["cat", "words.msgpack", "--keys", "names.txt"],
        &["select", "words.msgpack", "x.msgpack", "--keys", "names.txt"],
        &["select", "words.msgpack", "x.msgpack", "--indices", "names.txt"],
    ] {
        soon(&dir, args).fails(2, found);
    }
    make_fifo(&dir.path().join("words.msgpack.labels"));
    soon(&dir, &["stat", "words.msgpack"]).fails(2, found);
    assert!(!names(dir.path()).iter().any(|name| name.starts_with('x')));
}

#[test]
fn a_pipe_is_no_dataset() {
    let dir = with_words();
    make_fifo(&dir.path().join("pipe"));
    let listener = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    let lines = ["cat", "head", "tail", "ls", "info", "stat", "verify", "index", "order", "bench"];
    for command in lines {
        soon(&dir, &[command, "pipe"]).fails(2, "pipe: expected a regular file, found a FIFO");
        soon(&dir, &[command, "socket"])
            .fails(2, "socket: expected a regular file, found a socket");
    }
    soon(&dir, &["diff", "words.msgpack", "pipe"]).fails(2, "found a FIFO");
    soon(&dir, &["get", "pipe", "a"]).fails(2, "found a FIFO");
    soon(&dir, &["merge", "words.msgpack", "pipe", "out.msgpack"]).fails(2, "found a FIFO");
    drop(listener);
}

#[test]
fn a_folder_is_no_file() {
    let dir = scratch();
    fs::create_dir(dir.path().join("folder")).unwrap();
    for from in ["csv", "tsv", "jsonl", "tfrecord"] {
        let args = ["convert", "folder", "x.msgpack", "--from", from];
        let found = format!("folder: expected files of {from} in the folder, found none");
        soon(&dir, &args).fails(2, &found);
    }
}

/// What is no regular file is never replaced: a device would be one no more.
#[test]
fn only_files_are_replaced() {
    let dir = scratch();
    fs::write(dir.path().join("t.jsonl"), "{\"key\":\"a\"}\n").unwrap();
    make_fifo(&dir.path().join("pipe"));
    for to in ["jsonl", "csv", "tfrecord", "npz", "dataset"] {
        let args = ["convert", "t.jsonl", "pipe", "--force", "--to", to];
        let failed = soon(&dir, &args).exits(2);
        assert!(failed.err.contains("expected a regular file"), "{to}: {failed:?}");
    }
    use std::os::unix::fs::FileTypeExt;
    assert!(fs::symlink_metadata(dir.path().join("pipe")).unwrap().file_type().is_fifo());
}
