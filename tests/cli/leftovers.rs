//! What runs leave that fail or are killed, and what lies in their way: nothing of others is lost.

use std::time::Duration;

use kiste::storage::{LocalStorage, Storage};
use serde_json::json;

use super::*;

fn write(dir: &TempDir, name: &str, text: &str) {
    fs::write(dir.path().join(name), text).unwrap();
}

fn read(dir: &TempDir, name: &str) -> String {
    fs::read_to_string(dir.path().join(name)).unwrap()
}

const QUARANTINE: &str = "x.msgpack.quarantine.jsonl";

#[test]
fn a_run_that_fails_leaves_the_quarantine_of_the_last_one() {
    let dir = scratch();
    write(&dir, "bad.jsonl", "{\"key\":\"a\"}\nfirst\n");
    let quarantine = |more: &[&str]| {
        let args = ["convert", "bad.jsonl", "x.msgpack", "--bad", "quarantine"];
        run(&dir, args.iter().chain(more))
    };
    quarantine(&[]).exits(1);
    let first = read(&dir, QUARANTINE);
    assert!(first.contains("first"));
    let before = snapshot(dir.path());
    // It is opened, and gets a line, before the second key ends it all.
    let failing = "second\n{\"key\":\"b\"}\n{\"key\":\"b\"}\n";
    write(&dir, "bad.jsonl", failing);
    quarantine(&["--force"]).fails(2, "\"b\"");
    write(&dir, "bad.jsonl", "{\"key\":\"a\"}\nfirst\n");
    assert_eq!(snapshot(dir.path()), before);
    // The same of an export.
    run(&dir, ["convert", "bad.jsonl", "x.csv", "--bad", "quarantine"]).exits(1);
    let before = snapshot(dir.path());
    write(&dir, "bad.jsonl", "second\n{\"key\":\"b\",\"l\":1}\n");
    let args = ["convert", "bad.jsonl", "x.csv", "--bad", "quarantine", "--force", "--drop", "no"];
    run(&dir, args).fails(2, "no sample has a field \"no\"");
    write(&dir, "bad.jsonl", "{\"key\":\"a\"}\nfirst\n");
    assert_eq!(snapshot(dir.path()), before);
    // An append that fails takes back what it added.
    write(&dir, "bad.jsonl", "second\n{\"key\":\"a\"}\n");
    quarantine(&["--append"]).fails(2, "\"a\"");
    assert_eq!(read(&dir, QUARANTINE), first);
    write(&dir, "bad.jsonl", "second\n{\"key\":\"b\"}\n");
    quarantine(&["--append"]).exits(1);
    assert!(read(&dir, QUARANTINE).starts_with(&first));
    assert!(read(&dir, QUARANTINE).contains("second"));
    // One that succeeds replaces it, and removes it where nothing was bad.
    write(&dir, "bad.jsonl", "third\n{\"key\":\"b\"}\n");
    quarantine(&["--force"]).exits(1);
    assert!(!read(&dir, QUARANTINE).contains("second"));
    write(&dir, "bad.jsonl", "{\"key\":\"b\"}\n");
    quarantine(&["--force"]).exits(0);
    assert!(!names(dir.path()).iter().any(|name| name.starts_with(QUARANTINE)));
}

/// Copies a folder of files.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for name in names(from) {
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

/// A file as parts know it.
/// A file or folder as the commit of an earlier version noted it.
#[cfg(unix)]
fn seen(path: &Path) -> Json {
    use std::os::unix::fs::MetadataExt;

    let found = path.metadata().unwrap();
    match found.is_dir() {
        true => json!({"id": [found.dev(), found.ino()], "bytes": 0, "modified": [0, 0]}),
        false => json!({
            "id": [found.dev(), found.ino()],
            "bytes": found.len(),
            "modified": [found.mtime(), found.mtime_nsec()],
        }),
    }
}

#[cfg(unix)]
#[test]
fn joining_again_never_replaces_what_came_meanwhile() {
    for (target, more) in [("x.msgpack", &[][..]), ("x.csv", &[]), ("x", &["--to", "mds"])] {
        let dir = scratch();
        write(&dir, "words.jsonl", WORDS);
        let parts = dir.path().join(format!("{target}.parts"));
        let (kept, place) = (dir.path().join("kept"), dir.path().join(target));
        for part in ["1/2", "2/2"] {
            let args = ["convert", "words.jsonl", target, "--part", part, "--drop", "raw"];
            run(&dir, args.iter().chain(more)).exits(0);
        }
        copy(&parts, &kept);
        run(&dir, ["commit", target]).exits(0);
        assert!(!parts.exists());
        let data = place.metadata().unwrap();

        // Cut short before the parts were removed: they know it again, and it stays as it is.
        copy(&kept, &parts);
        let note = |made: Json| {
            let commit = json!({"before": {target: null}, "made": {target: made}});
            fs::write(parts.join("commit"), commit.to_string()).unwrap();
        };
        note(seen(&place));
        let run_ = run(&dir, ["commit", target]).exits(0);
        assert!(run_.err.contains("was joined before"), "{run_:?}");
        assert!(!parts.exists());
        assert_eq!(place.metadata().unwrap().modified().unwrap(), data.modified().unwrap());

        // Something else is there.
        for note_it in [true, false] {
            copy(&kept, &parts);
            if note_it {
                let mut other = seen(&place);
                other["id"][1] = 1.into();
                note(other);
            }
            let found = if note_it { "was put in this place after" } else { "exists already" };
            run(&dir, ["commit", target]).fails(2, found);
            assert_eq!(place.metadata().unwrap().modified().unwrap(), data.modified().unwrap());
            fs::remove_dir_all(&parts).unwrap();
        }
    }
}

/// After the disk was mounted again its number may be another one, and after all was copied the numbers of
/// files: what was published is known by its content.
#[cfg(unix)]
#[test]
fn a_commit_that_was_cut_short_knows_its_dataset_on_another_disk() {
    for (target, more) in [("x.msgpack", &[][..]), ("x.csv", &[]), ("x", &["--to", "mds"])] {
        for copied in [false, true] {
            let dir = scratch();
            write(&dir, "words.jsonl", WORDS);
            let parts = dir.path().join(format!("{target}.parts"));
            for part in ["1/2", "2/2"] {
                let args = ["convert", "words.jsonl", target, "--part", part, "--drop", "raw"];
                run(&dir, args.iter().chain(more)).exits(0);
            }
            let mine = parts.join("mine.txt");
            fs::write(&mine, "").unwrap();
            run(&dir, ["commit", target]).fails(2, "mine.txt: expected only files of parts");
            fs::remove_file(&mine).unwrap();
            fs::remove_file(parts.join("published")).unwrap();
            let note = fs::read_to_string(parts.join("commit")).unwrap();
            let mut note: Json = serde_json::from_str(&note).unwrap();
            note.as_object_mut().unwrap().remove("checksum");
            let made = note["made"].as_object_mut().unwrap().values_mut().next().unwrap();
            made["id"][0] = 4711.into();
            if copied {
                made["id"][1] = 4712.into();
                made["modified"] = json!(1);
            }
            fs::write(parts.join("commit"), note.to_string()).unwrap();
            let before = fs::metadata(dir.path().join(target)).unwrap().modified().unwrap();
            let run_ = run(&dir, ["commit", target]).exits(0);
            assert!(run_.err.contains("was joined before"), "{target} {copied}: {run_:?}");
            assert!(!parts.exists());
            let after = fs::metadata(dir.path().join(target)).unwrap().modified().unwrap();
            assert_eq!(before, after);
        }
    }
}

/// What is known of the data before it is published is so after it: else nothing would be known again.
#[cfg(unix)]
#[test]
fn a_commit_that_was_cut_short_knows_its_dataset() {
    let dir = scratch();
    write(&dir, "words.jsonl", WORDS);
    for part in ["1/2", "2/2"] {
        run(&dir, ["convert", "words.jsonl", "x.msgpack", "--part", part]).exits(0);
    }
    // In the way of the very last step.
    let mine = dir.path().join("x.msgpack.parts/mine.txt");
    fs::write(&mine, "precious").unwrap();
    run(&dir, ["commit", "x.msgpack"]).fails(2, "mine.txt: expected only files of parts");
    assert_eq!(fs::read(&mine).unwrap(), b"precious");
    let commit: Json =
        serde_json::from_slice(&fs::read(dir.path().join("x.msgpack.parts/commit")).unwrap())
            .unwrap();
    let (made, seen) = (&commit["made"]["x.msgpack"], seen(&dir.path().join("x.msgpack")));
    assert!(made["sample"].is_string());
    assert_eq!((&made["id"], &made["len"]), (&seen["id"], &seen["bytes"]));
    let modified = &seen["modified"];
    let nanoseconds = modified[0].as_i64().unwrap() * 1_000_000_000 + modified[1].as_i64().unwrap();
    assert_eq!(made["modified"].as_i64(), Some(nanoseconds));
    // Killed before it was noted that all is there.
    fs::remove_file(dir.path().join("x.msgpack.parts/published")).unwrap();
    fs::remove_file(&mine).unwrap();
    let run_ = run(&dir, ["commit", "x.msgpack"]).exits(0);
    assert!(run_.err.contains("was joined before"), "{run_:?}");
    run(&dir, ["verify", "x.msgpack"]).exits(0);
    assert!(!dir.path().join("x.msgpack.parts").exists());
}

#[cfg(unix)]
#[test]
fn an_export_follows_no_link_and_removes_nothing_of_others() {
    use std::os::unix::fs::symlink;

    let dir = with_words();
    fs::create_dir(dir.path().join("mine")).unwrap();
    write(&dir, "mine/file", "precious");
    let export = |more: &[&str]| {
        let args = ["convert", "words.msgpack", "x.csv", "--drop", "raw"];
        run(&dir, args.iter().chain(more))
    };
    let partial = dir.path().join("x.csv.partial");
    for force in [&[][..], &["--force"]] {
        symlink("mine", &partial).unwrap();
        export(force).fails(2, "expected nothing or an unfinished export, found a symbolic link");
        fs::remove_file(&partial).unwrap();
        fs::create_dir(&partial).unwrap();
        fs::write(partial.join("file"), "precious").unwrap();
        export(force).fails(2, "exists already, and is no unfinished export");
        assert_eq!(read(&dir, "x.csv.partial/file"), "precious");
        // Ours, but with something in it that no export makes.
        fs::write(partial.join(".kiste-lock"), "").unwrap();
        symlink("../mine", partial.join("link")).unwrap();
        export(force).fails(2, "expected only files and folders of an export here");
        assert_eq!(read(&dir, "mine/file"), "precious");
        fs::remove_dir_all(&partial).unwrap();
    }
    // The file of a writer: what is a link of that name is not written to.
    symlink("mine/file", dir.path().join("y.csv.partial")).unwrap();
    kiste::convert::CsvWriter::create(dir.path().join("y.csv")).unwrap().finish().unwrap();
    assert_eq!(read(&dir, "mine/file"), "precious");
    // Nor is a link of the name itself.
    symlink("mine/file", dir.path().join("z.csv")).unwrap();
    let error = kiste::convert::CsvWriter::create(dir.path().join("z.csv")).err().unwrap();
    assert_eq!(error.kind(), kiste::ErrorKind::AlreadyExists);
    assert_eq!(read(&dir, "mine/file"), "precious");
}

#[test]
fn a_killed_export_is_told_from_one_at_work() {
    let dir = with_words();
    let export = |more: &[&str]| {
        let args = ["convert", "words.msgpack", "x.csv", "--drop", "raw"];
        run(&dir, args.iter().chain(more))
    };
    let partial = dir.path().join("x.csv.partial");
    fs::create_dir(&partial).unwrap();
    fs::write(partial.join("x.csv.partial"), "half").unwrap();
    let lock = LocalStorage::positioned().lock(&partial.join(".kiste-lock")).unwrap().unwrap();
    for force in [&[][..], &["--force"]] {
        export(force).fails(2, "another conversion is writing it");
        assert!(partial.join("x.csv.partial").exists());
    }
    drop(lock);
    export(&[]).exits(0);
    assert!(!partial.exists());
    // Killed between its first two steps, or its last two: nothing is lost with it.
    fs::remove_file(dir.path().join("x.csv")).unwrap();
    fs::create_dir(&partial).unwrap();
    export(&[]).exits(0);
    fs::remove_file(dir.path().join("x.csv")).unwrap();
    fs::create_dir(&partial).unwrap();
    fs::write(partial.join(".kiste-lock"), "").unwrap();
    export(&[]).exits(0);
    assert!(!partial.exists());
}

const RESUME: [&str; 4] = ["convert", "words.jsonl", "x.msgpack", "--resume"];

/// A directory with `words.jsonl` and what becomes of it.
fn with_result() -> TempDir {
    let dir = scratch();
    write(&dir, "words.jsonl", WORDS);
    run(&dir, ["convert", "words.jsonl", "expected.msgpack"]).exits(0);
    dir
}

#[test]
fn nothing_is_left_to_resume_where_all_is_done() {
    let dir = with_result();
    run(&dir, RESUME).exits(0);
    let before = snapshot(dir.path());
    let run_ = run(&dir, RESUME).exits(0);
    assert_eq!(run_.err, "x.msgpack: complete already, nothing to resume\n");
    assert_eq!(snapshot(dir.path()), before);
    let split = ["convert", "words.jsonl", "y.msgpack", "--split", "a=1", "--resume"];
    run(&dir, split).exits(0);
    assert!(run(&dir, split).exits(0).err.ends_with("complete already, nothing to resume\n"));
    // What is no dataset is not taken for one.
    write(&dir, "z.msgpack", "no dataset");
    run(&dir, ["convert", "words.jsonl", "z.msgpack", "--resume"]).exits(2);
    assert_eq!(read(&dir, "z.msgpack"), "no dataset");
}

#[test]
fn a_conversion_that_had_hardly_begun_begins_again() {
    let elsewhere = scratch();
    let writer = Writer::create(elsewhere.path().join("x.msgpack")).unwrap();
    let journal = &read(&elsewhere, "x.msgpack.partial/journal")[..];
    drop(writer);
    let states: &[&[(&str, &str)]] = &[
        &[],
        &[("lock", "")],
        &[("lock", ""), ("journal.new", "")],
        &[("lock", ""), ("journal.new", "{\"ver")],
        &[("lock", ""), ("journal", journal)],
        &[("lock", ""), ("journal", journal), ("data", "")],
        &[("lock", ""), ("journal", journal), ("data", ""), ("offsets", ""), ("keys", "")],
        &[("lock", ""), ("journal", journal), ("data", ""), ("units", "")],
        &[("lock", ""), ("journal", journal), ("data", ""), ("units", "{\"version\":1,\"pl")],
        // The disk lost the log, but not the samples.
        &[("lock", ""), ("journal", journal), ("data", "\u{1}"), ("units", "")],
    ];
    for state in states {
        let dir = with_result();
        let partial = dir.path().join("x.msgpack.partial");
        fs::create_dir(&partial).unwrap();
        state.iter().for_each(|(name, text)| fs::write(partial.join(name), text).unwrap());
        let run_ = run(&dir, RESUME);
        assert_eq!(run_.code, Some(0), "{state:?}: {run_:?}");
        assert_same_dataset(&dir.path().join("expected.msgpack"), &dir.path().join("x.msgpack"));
        assert!(!partial.exists(), "{state:?}");
    }
    // Samples of a program that keeps no log are all that there is of them.
    let dir = with_result();
    let mut writer = Writer::create(dir.path().join("x.msgpack")).unwrap();
    writer.write_value(&kiste::Value::Map(vec![("key".into(), "precious".into())])).unwrap();
    writer.flush().unwrap();
    drop(writer);
    let before = snapshot(&dir_of(&dir));
    run(&dir, RESUME).fails(2, "it is no conversion that can go on");
    assert_eq!(snapshot(&dir_of(&dir)), before);
    // Nor is a log of a later version one of nothing.
    write(&dir, "x.msgpack.partial/units", "{\"version\":99}\n");
    run(&dir, RESUME).fails(2, "it is no conversion that can go on");
    // Nor is a link followed.
    #[cfg(unix)]
    {
        write(&dir, "mine", "precious");
        fs::remove_file(dir.path().join("x.msgpack.partial/units")).unwrap();
        let link = dir.path().join("x.msgpack.partial/units");
        std::os::unix::fs::symlink("../mine", link).unwrap();
        run(&dir, RESUME).fails(2, "found a symbolic link");
        assert_eq!(read(&dir, "mine"), "precious");
    }
}

fn dir_of(dir: &TempDir) -> PathBuf {
    dir.path().join("x.msgpack.partial")
}

#[test]
fn a_conversion_killed_at_any_early_moment_is_resumed() {
    let dir = with_result();
    let mut random = 0x2545_f491_u64;
    for attempt in 0..40 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut command = kiste();
        command.args(RESUME).current_dir(dir.path());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_micros(random % 20_000));
        // It may be done already.
        let _ = child.kill();
        child.wait().unwrap();
        let left = dir_of(&dir).exists().then(|| names(&dir_of(&dir)));
        let run_ = run(&dir, RESUME);
        assert_eq!(run_.code, Some(0), "{attempt}: {left:?}: {run_:?}");
        let made = dir.path().join("x.msgpack");
        assert_same_dataset(&dir.path().join("expected.msgpack"), &made);
        for file in crate::support::files_of(&made) {
            fs::remove_file(file).unwrap();
        }
    }
}

/// Parts of a target with options, and what the last steps of their commit leave if it is killed or loses
/// power in them.
type Ending = (&'static str, &'static [&'static str], &'static str);

const DATASET: Ending = ("x.msgpack", &[], "x.msgpack.partial/lock");
const SPLIT: Ending = ("x.msgpack", &["--split", "a=1,b=1"], "x-a.msgpack.partial/lock");
const FILE: Ending = ("x.csv", &[], "x.csv.partial/.kiste-lock");
const TARS: Ending = ("x.tar", &["--to", "webdataset"], "x.tar.partial/.kiste-lock");
const FOLDER: Ending = ("x", &["--to", "mds"], "x.partial/.kiste-lock");
const MANIFEST: Ending = ("x.shards.json", &[], "x.shards.json.lock");
const GATHERED: Ending = ("x.shards.json", &[], "x.shards.json.scatter/plan.json.lock");

/// What is left of a commit, in a directory in which all is joined.
struct Joined {
    dir: TempDir,
    /// Which lie elsewhere, with the note of the commit.
    kept: TempDir,
    target: &'static str,
    left: &'static str,
    names: Vec<String>,
}

impl Joined {
    fn new((target, options, left): Ending) -> Joined {
        let (dir, kept) = (scratch(), scratch());
        write(&dir, "words.jsonl", WORDS);
        for part in ["1/2", "2/2"] {
            let args = ["convert", "words.jsonl", target, "--part", part, "--drop", "raw"];
            run(&dir, args.iter().chain(options)).exits(0);
        }
        let joined = Joined { dir, kept, target, left, names: Vec::new() };
        // In the way of the very last step.
        fs::write(joined.parts().join("mine.txt"), "").unwrap();
        run(&joined.dir, ["commit", target]).fails(2, "mine.txt");
        fs::remove_file(joined.parts().join("mine.txt")).unwrap();
        copy(&joined.parts(), &joined.kept.path().join("parts"));
        run(&joined.dir, ["commit", target]).exits(0);
        let names = names(joined.dir.path());
        Joined { names, ..joined }
    }

    fn parts(&self) -> PathBuf {
        self.dir.path().join(format!("{}.parts", self.target))
    }

    /// Puts the parts back, but for these files, and what lies next to the output.
    fn with(&self, gone: impl Fn(&str) -> bool) {
        copy(&self.kept.path().join("parts"), &self.parts());
        for name in names(&self.parts()).iter().filter(|name| gone(name)) {
            fs::remove_file(self.parts().join(name)).unwrap();
        }
    }

    fn leave(&self) -> PathBuf {
        let left = self.dir.path().join(self.left);
        fs::create_dir_all(left.parent().unwrap()).unwrap();
        fs::write(&left, "").unwrap();
        left
    }

    /// Commits, which finds that all was joined before.
    #[track_caller]
    fn commits_again(&self) {
        let run_ = run(&self.dir, ["commit", self.target]).exits(0);
        assert!(run_.err.contains("was joined before"), "{}: {run_:?}", self.left);
    }

    #[track_caller]
    fn is_as_before(&self) {
        assert_eq!(names(self.dir.path()), self.names, "{}", self.left);
    }
}

/// A commit after one that was killed or lost power in its last steps.
fn is_tidied_up(ending: Ending) {
    let joined = Joined::new(ending);
    // Before it was noted that all is there, and after: then a dataset has nothing left next to it.
    for published in [false, true] {
        joined.with(|name| name == "published" && !published);
        if !published || !joined.left.ends_with("partial/lock") {
            joined.leave();
        }
        joined.commits_again();
        joined.is_as_before();
    }
    // The note alone.
    joined.with(|name| name != "published");
    joined.commits_again();
    joined.is_as_before();
    // A power failure may keep an empty folder, and one of an earlier version locks.
    for locks in [&[][..], &["lock", "part-2-of-2.lock"]] {
        fs::create_dir(joined.parts()).unwrap();
        for lock in locks {
            fs::write(joined.parts().join(lock), "").unwrap();
        }
        run(&joined.dir, ["commit", joined.target]).fails(2, "there are no parts to join");
        joined.is_as_before();
    }
}

macro_rules! tidied_up {
    ($($name:ident: $ending:expr),* $(,)?) => {$(
        #[test]
        fn $name() {
            is_tidied_up($ending);
        }
    )*};
}

tidied_up! {
    a_commit_that_died_at_its_end_is_tidied_up_of_a_dataset: DATASET,
    a_commit_that_died_at_its_end_is_tidied_up_of_a_split: SPLIT,
    a_commit_that_died_at_its_end_is_tidied_up_of_a_file: FILE,
    a_commit_that_died_at_its_end_is_tidied_up_of_tar_files: TARS,
    a_commit_that_died_at_its_end_is_tidied_up_of_a_folder: FOLDER,
    a_commit_that_died_at_its_end_is_tidied_up_of_a_manifest: MANIFEST,
    a_commit_that_died_at_its_end_is_tidied_up_of_a_shuffle_in_parts: GATHERED,
}

#[test]
fn a_commit_removes_the_empty_folder_of_an_export() {
    let joined = Joined::new(FILE);
    joined.with(|_| false);
    fs::remove_file(joined.leave()).unwrap();
    joined.commits_again();
    joined.is_as_before();
}

#[test]
fn a_commit_that_tidies_up_leaves_what_another_process_holds() {
    for ending in [FILE, TARS, FOLDER, MANIFEST, GATHERED] {
        let joined = Joined::new(ending);
        let left = joined.leave();
        let held = LocalStorage::positioned().lock(&left).unwrap().unwrap();
        joined.with(|_| false);
        joined.commits_again();
        assert!(left.exists() && !joined.parts().exists(), "{}", joined.left);
        // No lock of ours.
        drop(held);
        fs::remove_file(&left).unwrap();
        let mine =
            left.with_extension(if joined.target.ends_with("json") { "lock" } else { "txt" });
        fs::write(&mine, "precious").unwrap();
        joined.with(|_| false);
        joined.commits_again();
        assert_eq!(fs::read(&mine).unwrap(), b"precious");
        // A part is about to begin.
        fs::create_dir(joined.parts()).unwrap();
        let lock = joined.parts().join("part-1-of-2.lock");
        let held = LocalStorage::positioned().lock(&lock).unwrap().unwrap();
        run(&joined.dir, ["commit", joined.target]).fails(2, "there are no parts to join");
        assert!(lock.exists());
        drop(held);
        fs::write(joined.parts().join("plan.00ff.new"), "{").unwrap();
        run(&joined.dir, ["commit", joined.target]).fails(2, "there are no parts to join");
        assert_eq!(names(&joined.parts()).len(), 2);
    }
}

/// A commit of several datasets that is killed may be followed by a repair of one of them.
#[cfg(unix)]
#[test]
fn a_commit_replaces_what_a_repair_published_of_it_and_nothing_more() {
    let joined = Joined::new(SPLIT);
    let data = joined.dir.path().join("x-a.msgpack");
    let whole = fs::read(&data).unwrap();
    assert!(!whole.is_empty());
    for (found, is_ours) in [(&whole[..], true), (&[], true), (b"\x80", false)] {
        joined.with(|name| name == "published");
        // Killed before it was noted what would be published.
        let note = json!({
            "before": {"x-a.msgpack": null, "x-b.msgpack": null},
            "made": {"x-b.msgpack": seen(&joined.dir.path().join("x-b.msgpack"))},
            "begun": {"x-a.msgpack": [seen(&data)["id"]]},
        });
        fs::write(joined.parts().join("commit"), note.to_string()).unwrap();
        // In place, so that the file keeps its number.
        fs::write(&data, found).unwrap();
        let again = run(&joined.dir, ["commit", "x.msgpack"]);
        if is_ours {
            again.exits(0);
            assert_eq!(fs::read(&data).unwrap(), whole);
            joined.is_as_before();
        } else {
            again.fails(2, "after the parts began to be joined");
            assert_eq!(fs::read(&data).unwrap(), found);
        }
    }
}
