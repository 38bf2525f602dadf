//! The command as users call it: what it prints where, and how it exits.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use kiste::Writer;
use serde_json::Value as Json;
use tempfile::TempDir;

mod usage;
mod demo_convert_index;
mod convert_formats;
#[cfg(feature = "datasets")]
mod catalogue;
#[cfg(feature = "datasets")]
mod catalogue_conversions;
mod convert_folders;
mod layouts;
mod loaded;
#[cfg(feature = "images")]
mod convert_images;
mod convert_parts;
mod convert_shards;
mod convert_sharded_exports;
mod convert_bad_input;
mod convert_split;
mod convert_keys;
mod same_keys;
mod patterns_of_files;
mod figures;
mod names_of_outputs;
mod convert_tables;
mod convert_texts;
mod encodings;
mod standard_input;
mod arrays;
mod cat_get_info;
mod stat;
mod order_shuffle;
mod split_merge_sample;
mod select_filter_sort;
mod recipes;
mod diff_bench;
mod verify_repair;
mod evidence;
#[cfg(unix)]
mod repair_leftovers;
mod array;
mod pipes;
mod terminal;
#[cfg(unix)]
mod special_files;
mod many_fields;
mod leftovers;
mod older;
mod in_place;
mod lengths;
#[cfg(unix)]
mod interrupt;
mod blpk;
#[cfg(feature = "datasets")]
mod catalogue_fixations;

/// The command, with no terminal anywhere.
fn kiste() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiste"));
    command.stdin(Stdio::null()).env_remove("NO_COLOR");
    command
}

/// How a run ended.
#[derive(Debug)]
struct Run {
    code: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Run {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Run { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Run {
    /// Asserts the exit code.
    #[track_caller]
    fn exits(self, code: i32) -> Run {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Asserts that it went well and that nothing but data was printed.
    #[track_caller]
    fn quietly(self) -> Run {
        assert_eq!(self.err, "", "{self:#?}");
        self.exits(0)
    }

    /// Asserts that it failed with one line that begins with `kiste: ` and says this.
    #[track_caller]
    fn fails(self, code: i32, says: &str) -> Run {
        let run = self.exits(code);
        let line = run.err.lines().find(|line| line.starts_with("kiste: "));
        assert!(line.is_some_and(|line| line.contains(says)), "{says:?} in {run:#?}");
        run
    }

    /// What was printed, as JSON.
    #[track_caller]
    fn json(&self) -> Json {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:#?}"))
    }

    /// What was printed, one JSON value a line.
    #[track_caller]
    fn jsonl(&self) -> Vec<Json> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Runs the command in a directory.
fn run<S: AsRef<OsStr>>(dir: &TempDir, args: impl IntoIterator<Item = S>) -> Run {
    kiste().args(args).current_dir(dir.path()).output().unwrap().into()
}

/// Runs the command with this standard input.
fn run_with<S: AsRef<OsStr>>(
    dir: &TempDir,
    args: impl IntoIterator<Item = S>,
    input: &[u8],
) -> Run {
    let mut command = kiste();
    command.args(args).current_dir(dir.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // It may stop reading before the end, because of an error.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap().into()
    })
}

fn scratch() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Three samples: `a`, `b` and `c`, with a number, bytes and text.
const WORDS: &str = r#"{"key":"a","n":1,"raw":{"$bin":"AP8="},"text":"eins"}
{"key":"b","n":2,"raw":{"$bin":""},"text":"zwei"}
{"key":"c","n":3,"raw":{"$bin":"AAEC"},"text":"drei"}
"#;

/// A directory with `words.msgpack`.
fn with_words() -> TempDir {
    let dir = scratch();
    run_with(&dir, ["convert", "-", "words.msgpack"], WORDS.as_bytes()).exits(0);
    dir
}

/// A directory with `empty.msgpack`.
fn with_empty() -> TempDir {
    let dir = scratch();
    Writer::create(dir.path().join("empty.msgpack")).unwrap().finish().unwrap();
    dir
}

/// Asserts that two datasets have the same files, but for the name that is in the digests.
#[track_caller]
fn assert_same_dataset(expected: &Path, found: &Path) {
    let file_name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let (old, new) = (file_name(expected), file_name(found));
    let files = |data: &Path| -> Vec<(String, Vec<u8>)> {
        let files = crate::support::files_of(data).into_iter();
        files.map(|file| (file_name(&file), fs::read(file).unwrap())).collect()
    };
    let (expected, found) = (files(expected), files(found));
    assert_eq!(expected.len(), found.len());
    for ((name, expected), (found_name, found)) in expected.into_iter().zip(found) {
        assert_eq!(name.replace(&old, &new), found_name);
        let same = match name.ends_with(".md5") {
            true => String::from_utf8(expected).unwrap().replace(&old, &new).into_bytes() == found,
            false => expected == found,
        };
        assert!(same, "{found_name}");
    }
}

/// The names in a directory, sorted.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// All files of a directory and their content.
fn snapshot(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let read = |name: String| (PathBuf::from(&name), fs::read(dir.join(name)).unwrap());
    names(dir).into_iter().map(read).collect()
}
