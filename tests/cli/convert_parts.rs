//! `convert --part` and `commit`, `--resume`: the same bytes however a conversion is cut.

use std::process::Child;
use std::time::{Duration, Instant};

use super::*;

/// Nine files of JSON lines, which are nine units; together some hundred samples.
pub(super) fn with_files() -> TempDir {
    let dir = scratch();
    for file in 0..9 {
        let lines: String = (0..file * 7)
            .map(|i| format!("{{\"key\":\"{file}-{i}\",\"n\":{i},\"x\":\"{}\"}}\n", "x".repeat(i)))
            .collect();
        fs::write(dir.path().join(format!("crawl-{file}.jsonl")), lines).unwrap();
    }
    dir
}

pub(super) const FILES: &str = "crawl-{0..8}.jsonl";

fn part(dir: &TempDir, number: usize, of: usize, options: &[&str]) -> Run {
    let part = format!("{number}/{of}");
    run(dir, [&["convert", FILES, "parts.msgpack", "--part", &part], options].concat())
}

/// One conversion in one go, and one in so many parts, which must not differ.
fn same_in_parts(dir: &TempDir, of: usize, options: &[&str]) {
    run(dir, [&["convert", FILES, "whole.msgpack", "--force"], options].concat()).exits(0);
    // In any order, and some of them twice.
    for number in (1..=of).rev().chain([1, of]) {
        part(dir, number, of, options).exits(0);
    }
    run(dir, ["commit", "parts.msgpack"]).exits(0);
    assert_same_dataset(&dir.path().join("whole.msgpack"), &dir.path().join("parts.msgpack"));
    assert!(!dir.path().join("parts.msgpack.parts").exists());
    for name in names(dir.path()).iter().filter(|name| name.starts_with("parts.")) {
        fs::remove_file(dir.path().join(name)).unwrap();
    }
}

#[test]
fn any_number_of_parts_makes_the_same_files() {
    let dir = with_files();
    for of in [1, 2, 7, 20] {
        same_in_parts(&dir, of, &[]);
    }
    same_in_parts(&dir, 3, &["--lookup"]);
    same_in_parts(&dir, 4, &["--fields", "n", "--rename", "n=m"]);
    same_in_parts(&dir, 5, &["--limit", "100"]);
}

#[test]
fn keys_that_come_twice_are_found_across_parts() {
    let dir = with_files();
    for name in ["crawl-1.jsonl", "crawl-7.jsonl"] {
        let path = dir.path().join(name);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text + "{\"key\":\"8-3\",\"n\":-1,\"x\":\"early\"}\n").unwrap();
    }
    same_in_parts(&dir, 4, &["--skip-duplicates"]);
    same_in_parts(&dir, 2, &["--skip-duplicates", "--limit", "198"]);
    part(&dir, 1, 1, &[]).fails(2, "key \"8-3\": line 50: ");
    fs::remove_dir_all(dir.path().join("parts.msgpack.parts")).unwrap();
    // Where they are in different parts, no part has it twice.
    (1..=9).for_each(|number| drop(part(&dir, number, 9, &[]).exits(0)));
    let failed = run(&dir, ["commit", "parts.msgpack"]).fails(2, "key \"8-3\"");
    let hint = "again with it, after rm -r parts.msgpack.parts";
    assert!(
        failed.err.contains("hint: --skip-duplicates") && failed.err.contains(hint),
        "{failed:?}"
    );
    assert!(!dir.path().join("parts.msgpack").exists());
    // Nothing is lost by that.
    assert!(dir.path().join("parts.msgpack.parts/part-9-of-9.00000.msgpack").exists());
}

#[test]
fn a_plan_says_what_is_done_and_parts_of_another_are_refused() {
    let dir = with_files();
    let before = snapshot(dir.path());
    let plan = ["convert", FILES, "parts.msgpack", "--plan", "--limit", "9"];
    let plan = run(&dir, plan).quietly().json();
    assert_eq!((&plan["units"], &plan["options"]), (&8.into(), &serde_json::json!({"limit": 9})));
    assert_eq!(plan["files"][7]["name"], "crawl-8.jsonl");
    assert_eq!(snapshot(dir.path()), before);

    part(&dir, 2, 3, &[]).exits(0);
    let again = part(&dir, 2, 3, &[]).exits(0);
    assert!(again.err.contains("is finished already"), "{again:?}");
    let failed =
        part(&dir, 2, 4, &[]).fails(2, "there are parts of another plan: parts is 3 there, 4 here");
    assert!(failed.err.contains("hint: remove or rename it"), "{failed:?}");
    part(&dir, 1, 3, &["--limit", "9"]).fails(2, "of another plan: limit is not set there, 9 here");
    fs::write(dir.path().join("crawl-1.jsonl"), "{\"key\":\"new\"}").unwrap();
    part(&dir, 1, 3, &[]).fails(2, "of another plan");
    let failed =
        run(&dir, ["commit", "parts.msgpack"]).fails(1, "2 of 3 parts are missing: 1/3, 3/3");
    assert!(failed.err.contains("--part 1/3 and so on"), "{failed:?}");
    run(&dir, ["commit", "other.msgpack"]).fails(2, "there are no parts to join");
    part(&dir, 0, 3, &[]).exits(2);
    let stream = ["convert", "-", "x.msgpack", "--part", "1/2"];
    run(&dir, stream).fails(2, "read as one stream, so it cannot be divided");
}

#[test]
fn what_is_there_is_not_replaced_by_parts() {
    let dir = with_files();
    fs::write(dir.path().join("parts.msgpack"), "mine").unwrap();
    part(&dir, 1, 1, &[]).fails(2, "parts.msgpack: the dataset exists already");
    part(&dir, 1, 1, &["--force"]).exits(0);
    assert_eq!(fs::read(dir.path().join("parts.msgpack")).unwrap(), b"mine");
    run(&dir, ["commit", "parts.msgpack"]).exits(0);
    run(&dir, ["verify", "--deep", "parts.msgpack"]).quietly();
    // Nor what came after them: "commit" has no --force.
    for there in ["some.msgpack", "some.jsonl", "some.tar"] {
        run(&dir, ["convert", FILES, there, "--part", "2/2"]).exits(0);
        let failed = run(&dir, ["commit", there]).fails(1, "1 of 2 parts is missing: 1/2");
        assert!(failed.err.ends_with("the same command with --part 1/2\n"), "{failed:?}");
        run(&dir, ["convert", FILES, there, "--part", "1/2"]).exits(0);
        let in_the_way = dir.path().join(there.replace(".tar", "-000000.tar"));
        fs::write(&in_the_way, "mine").unwrap();
        let failed = run(&dir, ["commit", there]).fails(2, "exists already");
        assert!(failed.err.contains("hint: remove it or rename it"), "{failed:?}");
        assert_eq!(fs::read(&in_the_way).unwrap(), b"mine");
        fs::remove_file(in_the_way).unwrap();
        run(&dir, ["commit", there]).exits(0);
    }
}

#[test]
fn a_field_that_no_part_has_was_misspelt() {
    let dir = with_files();
    fs::write(dir.path().join("crawl-8.jsonl"), "{\"key\":\"last\",\"rare\":1}").unwrap();
    same_in_parts(&dir, 4, &["--drop", "rare"]);
    for number in 1..=2 {
        part(&dir, number, 2, &["--drop", "rear"]).exits(0);
    }
    run(&dir, ["commit", "parts.msgpack"]).fails(2, "no sample has a field \"rear\"");
}

#[test]
fn parts_make_other_formats_too() {
    let dir = with_files();
    for (there, to) in [("made.jsonl", "made.jsonl"), ("made.tar", "made-000000.tar")] {
        run(&dir, ["convert", FILES, there]).exits(0);
        let expected = fs::read(dir.path().join(to)).unwrap();
        fs::remove_file(dir.path().join(to)).unwrap();
        for number in 1..=3 {
            run(&dir, ["convert", FILES, there, "--part", &format!("{number}/3")]).exits(0);
        }
        run(&dir, ["commit", there]).exits(0);
        assert!(fs::read(dir.path().join(to)).unwrap() == expected, "{there}");
    }
    let left: Vec<String> =
        names(dir.path()).into_iter().filter(|n| n.ends_with(".parts")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_dataset_is_divided_into_runs_of_samples() {
    let dir = scratch();
    let lines: String = (0..3000).map(|i| format!("{{\"key\":\"{i}\",\"n\":{i}}}\n")).collect();
    run_with(&dir, ["convert", "-", "all.msgpack"], lines.as_bytes()).exits(0);
    for number in ["2/2", "1/2"] {
        run(&dir, ["convert", "all.msgpack", "copy.msgpack", "--part", number]).exits(0);
    }
    run(&dir, ["commit", "copy.msgpack"]).exits(0);
    assert_same_dataset(&dir.path().join("all.msgpack"), &dir.path().join("copy.msgpack"));
}

/// The example of the guide, as it stands there.
#[test]
#[cfg(unix)]
fn the_xargs_of_the_guide_works() {
    let guide = include_str!("../../docs/convert-many.md");
    let start = guide.find("    seq 7 | xargs").unwrap();
    let end = start + guide[start..].find("\n\n").unwrap();
    let dir = with_files();
    let bin = Path::new(env!("CARGO_BIN_EXE_kiste")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut script = Command::new("sh");
    script.arg("-ec").arg(&guide[start..end]).env("PATH", path).current_dir(&dir);
    Run::from(script.output().unwrap()).exits(0);
    run(&dir, ["convert", FILES, "whole.msgpack"]).exits(0);
    assert_same_dataset(&dir.path().join("whole.msgpack"), &dir.path().join("crawl.msgpack"));
}

/// Some twenty units of JSON lines.
fn with_large_file() -> TempDir {
    let dir = scratch();
    let mut file =
        std::io::BufWriter::new(fs::File::create(dir.path().join("large.jsonl")).unwrap());
    let padding = "x".repeat(4000);
    for i in 0..9_000 {
        writeln!(file, "{{\"key\":\"{i:06}\",\"x\":\"{padding}\"}}").unwrap();
    }
    drop(file);
    run(&dir, ["convert", "large.jsonl", "whole.msgpack"]).exits(0);
    dir
}

/// Starts a command and kills it (SIGKILL, where there are signals) as soon as this is the case.
/// False if it was done before.
fn kill_when(dir: &TempDir, args: &[&str], seen: impl Fn() -> bool) -> bool {
    let mut command = kiste();
    command.args(args).current_dir(dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child: Child = command.spawn().unwrap();
    let start = Instant::now();
    while !seen() {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        assert!(start.elapsed() < Duration::from_secs(120), "{args:?} does nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    !child.wait().unwrap().success()
}

/// Whether the log of a dataset says that units are whole.
fn has_whole_units(dataset: &Path) -> bool {
    let mut log = dataset.as_os_str().to_os_string();
    log.push(".partial/units");
    fs::read_to_string(log).is_ok_and(|log| log.lines().count() > 1)
}

/// Spoils the first line of a file, which then looks as if nothing had changed.
fn spoil_first_line(path: &Path) {
    let file = fs::File::options().write(true).open(path).unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    (&file).write_all(b"no sample").unwrap();
    file.set_modified(time).unwrap();
}

#[test]
fn killed_and_resumed_it_goes_on_after_the_units_that_are_whole() {
    let dir = with_large_file();
    let made = dir.path().join("made.msgpack");
    let args = ["convert", "large.jsonl", "made.msgpack", "--resume"];
    assert!(kill_when(&dir, &args, || has_whole_units(&made)));
    assert!(!made.exists());
    // Of other options it is no continuation.
    let other = run(&dir, [&args[..], &["--drop", "x"]].concat());
    let said = "had other sources or options; drop is not set there, [\"x\"] here";
    other.fails(2, said);
    let plain = run(&dir, &args[..3]).fails(2, "an unfinished write is left");
    assert!(plain.err.contains("hint: the same command with --resume continues"), "{plain:?}");
    let other = run(&dir, [&args[..3], &["--drop", "x"]].concat()).exits(2);
    assert!(other.err.contains("hint: try: kiste repair"), "{other:?}");
    spoil_first_line(&dir.path().join("large.jsonl"));
    let run_ = run(&dir, args).exits(0);
    assert!(run_.err.contains("resuming after"), "{run_:?}");
    assert_same_dataset(&dir.path().join("whole.msgpack"), &made);
    assert!(!dir.path().join("made.msgpack.partial").exists());
}

#[test]
fn what_the_disk_lost_is_converted_again() {
    let dir = with_large_file();
    let made = dir.path().join("made.msgpack");
    let args = ["convert", "large.jsonl", "made.msgpack", "--resume"];
    assert!(kill_when(&dir, &args, || has_whole_units(&made)));
    // A page of the data that never reached the disk, and half a line of the log.
    let data = fs::File::options().write(true).open(dir.path().join("made.msgpack.partial/data"));
    (&data.unwrap()).write_all(&[0; 4096]).unwrap();
    let log = dir.path().join("made.msgpack.partial/units");
    fs::File::options().append(true).open(log).unwrap().write_all(b"{\"unit\":5").unwrap();
    let run_ = run(&dir, args).exits(0);
    assert!(!run_.err.contains("resuming after"), "{run_:?}");
    assert_same_dataset(&dir.path().join("whole.msgpack"), &made);
}

#[test]
fn what_was_set_aside_before_a_kill_stays_so() {
    let dir = with_large_file();
    let path = dir.path().join("large.jsonl");
    let spoilt = fs::read_to_string(&path).unwrap().replace("00\",\"x\":", "00\",\"x\";");
    fs::write(&path, spoilt).unwrap();
    let convert = |name| ["convert", "large.jsonl", name, "--resume", "--bad", "quarantine"];
    let run_ = run(&dir, convert("other.msgpack")).exits(1);
    assert!(run_.err.contains("left out 90 bad samples"), "{run_:?}");
    let made = dir.path().join("made.msgpack");
    assert!(kill_when(&dir, &convert("made.msgpack"), || has_whole_units(&made)));
    let run_ = run(&dir, convert("made.msgpack")).exits(1);
    assert!(run_.err.contains("resuming after"), "{run_:?}");
    assert!(run_.err.contains("left out 90 bad samples"), "{run_:?}");
    assert_same_dataset(&dir.path().join("other.msgpack"), &made);
    let aside = |name| fs::read(dir.path().join(format!("{name}.msgpack.quarantine.jsonl")));
    assert!(aside("other").unwrap() == aside("made").unwrap());
}

#[test]
fn killed_parts_and_commits_can_be_repeated() {
    let dir = with_large_file();
    let parts = dir.path().join("made.msgpack.parts");
    let part = |number: usize| format!("{number}/2");
    let convert =
        |part: &str| run(&dir, ["convert", "large.jsonl", "made.msgpack", "--part", part]);
    let first = parts.join("part-1-of-2.00000.msgpack.partial/data");
    let is_begun = || fs::metadata(&first).is_ok_and(|file| file.len() > 1_000_000);
    let args = ["convert", "large.jsonl", "made.msgpack", "--part", "1/2"];
    assert!(kill_when(&dir, &args, is_begun));
    // All at once now, and one of them twice: then one says that the other is at it, or is done.
    let twice = std::thread::scope(|scope| {
        let running = [part(1), part(2), part(2)].map(|part| {
            let convert = &convert;
            scope.spawn(move || convert(&part))
        });
        running.map(|run| run.join().unwrap())
    });
    for run in twice {
        let busy = run.err.contains("another process makes part");
        run.exits(if busy { 2 } else { 0 });
    }
    for number in 1..=2 {
        let again = convert(&part(number)).exits(0);
        assert!(again.err.contains("is finished already"), "{again:?}");
    }
    let staged = dir.path().join("made.msgpack.partial/data");
    let begun = || fs::metadata(&staged).is_ok_and(|file| file.len() > 1_000_000);
    assert!(kill_when(&dir, &["commit", "made.msgpack"], begun));
    run(&dir, ["commit", "made.msgpack"]).exits(0);
    assert_same_dataset(&dir.path().join("whole.msgpack"), &dir.path().join("made.msgpack"));
    assert!(!parts.exists());
}

#[test]
fn a_commit_that_only_had_to_tidy_up_does_that() {
    let dir = with_files();
    part(&dir, 1, 1, &[]).exits(0);
    run(&dir, ["convert", FILES, "whole.msgpack"]).exits(0);
    let parts = dir.path().join("parts.msgpack.parts");
    // Begun by a version that noted nothing: what is there may be anybody's.
    run(&dir, ["convert", FILES, "parts.msgpack"]).exits(0);
    fs::write(parts.join("commit"), "").unwrap();
    let refused = run(&dir, ["commit", "parts.msgpack"]).fails(2, "was put in this place after");
    // It may be whole: no hint says that it can go.
    assert!(refused.err.contains("hint: move it elsewhere"), "{refused:?}");
    fs::remove_file(dir.path().join("parts.msgpack")).unwrap();
    run(&dir, ["commit", "parts.msgpack"]).exits(0);
    assert_same_dataset(&dir.path().join("whole.msgpack"), &dir.path().join("parts.msgpack"));
    // Killed while it was tidying up.
    fs::create_dir(&parts).unwrap();
    fs::write(parts.join("published"), "").unwrap();
    let run_ = run(&dir, ["commit", "parts.msgpack"]).exits(0);
    assert!(run_.err.contains("was joined before") && !parts.exists(), "{run_:?}");
}

/// A folder of images with labels, and the dataset of it.
fn with_photos() -> TempDir {
    let dir = scratch();
    for name in ["cat/1.jpg", "cat/2.jpg", "dog/1.jpg"] {
        let path = dir.path().join("photos").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    run(&dir, ["convert", "photos", "whole.msgpack"]).exits(0);
    dir
}

/// Fails where something stands in the way of the digests: neither the data nor the labels are
/// published. Then `again` must bring both.
fn refused_before_labels(dir: &TempDir, first: &[&str], again: &[&str]) {
    let path = |name: &str| dir.path().join(name);
    fs::create_dir_all(path("made.msgpack.md5/x")).unwrap();
    run(dir, first).exits(2);
    assert!(!path("made.msgpack").exists() && !path("made.msgpack.labels").exists());
    fs::remove_dir_all(path("made.msgpack.md5")).unwrap();
    let made = run(dir, again).exits(0).json();
    assert_eq!((&made["samples"], &made["labels"]), (&3.into(), &"made.msgpack.labels".into()));
    assert_same_dataset(&path("whole.msgpack"), &path("made.msgpack"));
    let labels = ["whole", "made"].map(|name| fs::read(path(&format!("{name}.msgpack.labels"))));
    assert_eq!(labels.map(Result::unwrap), [b"cat\ndog\n", b"cat\ndog\n"]);
    let left = names(dir.path());
    assert!(!left.iter().any(|name| name.ends_with(".partial") || name.ends_with(".parts")));
}

#[test]
fn names_of_labels_are_the_same_in_parts() {
    let dir = with_photos();
    let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
    let mut targets = vec![("images", "images/cat/2.jpg", false), ("jsonl", "jsonl", true)];
    if cfg!(feature = "parquet") {
        targets.extend([("parquet", "parquet", false), ("arrow", "arrow", false)]);
    }
    for (to, file, left_behind) in targets {
        let told = |run: Run| {
            let run = run.exits(0);
            assert_eq!(run.err.contains("labels are lost"), left_behind, "{run:?}");
        };
        told(run(&dir, ["convert", "photos", to, "--to", to]));
        let whole = (read(file), tree(&dir.path().join(to)));
        for of in 1..=2 {
            let again = format!("{to}-{of}");
            for number in 1..=of {
                let part = format!("{number}/{of}");
                let args = ["convert", "photos", &again, "--to", to, "--part", &part];
                run(&dir, args).exits(0);
            }
            told(run(&dir, ["commit", &again]));
            let file = file.replacen(to, &again, 1);
            assert!((read(&file), tree(&dir.path().join(&again))) == whole, "{again}");
        }
    }
}

/// All files in a folder and in those below, with what is in them; of a file nothing.
fn tree(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = PathBuf::from(path.file_name().unwrap());
        match path.is_dir() {
            true => {
                let below = tree(&path).into_iter();
                found.extend(below.map(|(inner, bytes)| (name.join(inner), bytes)));
            }
            false => found.push((name, fs::read(&path).unwrap())),
        }
    }
    found.sort();
    found
}

#[test]
fn labels_are_there_whenever_the_dataset_is() {
    let dir = with_photos();
    let args = ["convert", "photos", "made.msgpack", "--json", "--resume"];
    refused_before_labels(&dir, &args[..4], &args);
    // It is there, so now there is nothing to go on with.
    let found = run(&dir, args).exits(0);
    assert!(found.err.contains("complete already, nothing to resume"), "{found:?}");
    assert_eq!((&found.json()["samples"], &found.json()["added"]), (&3.into(), &0.into()));
}

#[test]
fn labels_are_there_whenever_parts_are_joined() {
    let dir = with_photos();
    run(&dir, ["convert", "photos", "made.msgpack", "--part", "1/1"]).exits(0);
    let commit = ["commit", "made.msgpack", "--json"];
    refused_before_labels(&dir, &commit, &commit);
}

#[test]
fn an_image_that_has_changed_is_noticed() {
    let dir = with_photos();
    let part = |number: &str| run(&dir, ["convert", "photos", "made.msgpack", "--part", number]);
    part("1/2").exits(0);
    let plan = fs::read(dir.path().join("made.msgpack.parts/plan.json")).unwrap();
    let plan: Json = serde_json::from_slice(&plan).unwrap();
    assert_eq!(plan["bytes"], 27);
    let path = dir.path().join("photos/cat/2.jpg");
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    let write = |bytes: &[u8], time| {
        fs::write(&path, bytes).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    };
    // Longer at the same time, or as long at another one: the folder looks as it did.
    write(b"longer than before", time);
    part("2/2").fails(2, "there are parts of another plan: ");
    write(b"cat/3.jpg", time + Duration::from_secs(2));
    part("2/2").fails(2, "the files have changed since");
    write(b"cat/2.jpg", time);
    part("2/2").exits(0);
}

#[test]
fn one_large_file_of_any_kind_is_divided() {
    let dir = scratch();
    let lines: String = (0..3000)
        .map(|i| format!("{{\"key\":\"{i:04}\",\"txt\":\"{}\"}}\n", "x, ".repeat(1200)))
        .collect();
    fs::write(dir.path().join("all.jsonl"), lines).unwrap();
    let mut names = vec!["all.tar", "all.tfrecord", "all.csv"];
    if cfg!(feature = "parquet") {
        names.push("all.arrow");
    }
    for name in names {
        run(&dir, ["convert", "all.jsonl", name]).exits(0);
        let source = if name == "all.tar" { "all-000000.tar" } else { name };
        run(&dir, ["convert", source, "whole.msgpack", "--force"]).exits(0);
        let plan = run(&dir, ["convert", source, "parts.msgpack", "--plan"]).quietly().json();
        assert!(plan["units"].as_u64().unwrap() >= 3, "{plan}");
        for of in [1, 2, 7] {
            for number in (1..=of).rev() {
                let part = format!("{number}/{of}");
                let args = ["convert", source, "parts.msgpack", "--force", "--part", &part];
                run(&dir, args).exits(0);
            }
            run(&dir, ["commit", "parts.msgpack"]).exits(0);
            assert_same_dataset(
                &dir.path().join("whole.msgpack"),
                &dir.path().join("parts.msgpack"),
            );
        }
    }
}
