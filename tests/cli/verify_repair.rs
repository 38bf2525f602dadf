//! `verify` and `repair`.

use super::*;

/// Flips one bit of a file.
fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_good_dataset_is_good() {
    let dir = with_words();
    let run_ = run(&dir, ["verify", "--deep", "words.msgpack"]).quietly();
    let expected = "words.msgpack: good: 3 samples, 83 B, 5 digests compared, every sample decoded";
    assert_eq!(run_.out.trim_end(), expected);
    assert_eq!(run(&dir, ["verify", "--jsonl", "words.msgpack"]).quietly().out, "");
    let report = run(&dir, ["verify", "--json", "words.msgpack"]).quietly().json();
    assert_eq!((&report["good"], &report["datasets"][0]["samples"]), (&true.into(), &3.into()));
}

#[test]
fn all_damage_is_listed() {
    let dir = with_words();
    flip(&dir.path().join("words.msgpack"), 5); // the first key's
    flip(&dir.path().join("words.msgpack.filter"), 32);
    let run_ = run(&dir, ["verify", "--deep", "words.msgpack"]).exits(1);
    assert!(run_.out.contains("words.msgpack.filter: ") && run_.err.contains("-o OUT"), "{run_:?}");
    let problems = run(&dir, ["verify", "--deep", "--jsonl", "words.msgpack"]).exits(1).jsonl();
    let files: Vec<&str> = problems.iter().map(|p| p["file"].as_str().unwrap()).collect();
    assert!(files.contains(&"words.msgpack") && files.contains(&"words.msgpack.filter"));
    assert!(problems.iter().all(|problem| problem["message"].is_string()));
    let report = run(&dir, ["verify", "--json", "words.msgpack"]).exits(1).json();
    assert_eq!(report["good"], false);
    assert!(report["datasets"][0]["problems"].as_array().unwrap().len() >= 2);
}

#[test]
fn one_bad_dataset_does_not_hide_another() {
    let dir = with_words();
    fs::write(dir.path().join("words.msgpack.md5"), "rubbish\n").unwrap();
    let run_ = run(&dir, ["verify", "nope", "words.msgpack"]).fails(2, "nope");
    assert!(run_.out.contains("words.msgpack.md5: "), "{run_:?}");
    assert!(run_.err.contains("kiste index --force words.msgpack"), "{run_:?}");
    run(&dir, ["index", "--force", "words.msgpack"]).exits(0);
    run(&dir, ["verify", "words.msgpack"]).quietly();
}

#[test]
fn what_is_not_checked_is_said() {
    let dir = with_words();
    for suffix in ["md5", "filter"] {
        fs::remove_file(dir.path().join(format!("words.msgpack.{suffix}"))).unwrap();
    }
    let run_ = run(&dir, ["verify", "words.msgpack"]).exits(0);
    assert!(run_.err.contains("there are no digests (.md5)"), "{run_:?}");
    assert!(run_.err.contains("missing, so not checked: .filter\n"), "{run_:?}");
    assert!(run_.err.contains("kiste index words.msgpack"), "{run_:?}");
}

#[test]
fn damage_stops_reading_with_a_way_out() {
    let dir = with_words();
    let data = dir.path().join("words.msgpack");
    let mut bytes = fs::read(&data).unwrap();
    let second = bytes.windows(4).position(|w| w == b"zwei").unwrap() - 1;
    bytes[second] = 0xc1; // never used in msgpack
    fs::write(&data, bytes).unwrap();
    let run_ = run(&dir, ["cat", "--jsonl", "words.msgpack"]).fails(1, "sample 1: ");
    assert_eq!(run_.out, WORDS.split_inclusive('\n').next().unwrap());
    assert!(run_.err.contains("hint: try: kiste verify words.msgpack\n"), "{run_:?}");

    let args = ["repair", "words.msgpack", "-o", "saved.msgpack", "--json"];
    let run_ = run(&dir, args).exits(1);
    assert!(run_.err.contains("saved.msgpack: saved 2 samples"), "{run_:?}");
    assert_eq!(
        (&run_.json()["samples"], run_.json()["lost"][0]["bytes"]["start"].as_u64()),
        (&2.into(), Some(28))
    );
    assert_eq!(run(&dir, ["ls", "saved.msgpack"]).quietly().out, "a\nc\n");
    run(&dir, ["verify", "--deep", "saved.msgpack"]).quietly();
    run(&dir, args).fails(2, "saved.msgpack");
    run(&dir, args.iter().chain(&["--force"])).exits(1);

    fs::write(dir.path().join("saved.msgpack.offsets"), "rubbish").unwrap();
    let run_ = run(&dir, ["ls", "saved.msgpack"]).fails(1, "saved.msgpack.offsets: ");
    assert!(run_.err.contains("hint: try: kiste index --force saved.msgpack\n"), "{run_:?}");
}

#[test]
fn a_whole_dataset_needs_no_repair() {
    let dir = with_words();
    let before = snapshot(dir.path());
    for options in [&["--json"][..], &["--json", "--finish"], &["--json", "--undo"]] {
        let run_ = run(&dir, [&["repair", "words.msgpack"], options].concat()).exits(0);
        assert!(run_.err.contains("no unfinished write"), "{run_:?}");
        assert_eq!((&run_.json()["did"], &run_.json()["samples"]), (&"nothing".into(), &3.into()));
    }
    assert_eq!(snapshot(dir.path()), before);
}

/// Leaves two whole samples and a half one where a writer died before it had finished.
fn die_writing(path: &Path, overwrite: bool) {
    let mut writer = Writer::options().overwrite(overwrite).create(path).unwrap();
    for key in ["x", "y"] {
        writer.write_value(&kiste::Value::Map(vec![("key".into(), key.into())])).unwrap();
    }
    writer.flush().unwrap();
    drop(writer);
    let data = path.with_extension("msgpack.partial").join("data");
    let mut bytes = fs::read(&data).unwrap();
    bytes.extend_from_slice(b"\x81\xa3ke");
    fs::write(data, bytes).unwrap();
}

#[test]
fn without_an_earlier_dataset_the_choice_is_explained() {
    let dir = scratch();
    let path = dir.path().join("new.msgpack");
    die_writing(&path, false);
    for command in ["ls", "cat", "info", "verify", "index"] {
        let run_ = run(&dir, [command, "new.msgpack"]).fails(2, "was never finished");
        assert!(run_.err.contains("hint: try: kiste repair new.msgpack\n"), "{run_:?}");
    }
    let before = names(&dir.path().join("new.msgpack.partial"));
    let run_ = run(&dir, ["repair", "new.msgpack"]).fails(1, "write of 2 whole samples");
    assert!(run_.err.contains("new.msgpack --finish\" publishes the 2 whole samples"), "{run_:?}");
    assert!(run_.err.contains("new.msgpack --undo\" removes them"), "{run_:?}");
    assert_eq!(names(&dir.path().join("new.msgpack.partial")), before);

    // Saving elsewhere changes nothing in place.
    run(&dir, ["repair", "new.msgpack", "-o", "saved.msgpack"]).exits(1);
    assert_eq!(run(&dir, ["ls", "saved.msgpack"]).quietly().out, "x\ny\n");

    // It is no whole dataset: the third sample is missing.
    let run_ = run(&dir, ["repair", "--finish", "new.msgpack", "--json"]).exits(1);
    assert!(run_.err.contains("the write was cut short: the rest is missing"), "{run_:?}");
    let did = run_.json();
    assert_eq!((&did["did"], &did["samples"]), (&"finished".into(), &2.into()));
    assert_eq!(did["cut_short"], true);
    assert_eq!(run(&dir, ["ls", "new.msgpack"]).quietly().out, "x\ny\n");
    run(&dir, ["verify", "--deep", "new.msgpack"]).quietly();

    let other = dir.path().join("other.msgpack");
    die_writing(&other, false);
    let did = run(&dir, ["repair", "--undo", "other.msgpack", "--json"]).exits(0).json();
    assert_eq!((&did["did"], &did["samples"]), (&"undone".into(), &Json::Null));
    run(&dir, ["repair", "other.msgpack"]).fails(2, "no such file");
}

#[test]
fn with_an_earlier_dataset_that_one_is_left() {
    let dir = with_words();
    let before = snapshot(dir.path());
    die_writing(&dir.path().join("words.msgpack"), true);
    assert_eq!(run(&dir, ["cat", "--jsonl", "words.msgpack"]).quietly().out, WORDS);
    let unfinished = run(&dir, ["info", "--json", "words.msgpack"]).quietly().json();
    assert!(unfinished["unfinished"].is_string());
    assert!(run(&dir, ["verify", "words.msgpack"]).exits(1).err.contains("kiste repair"));
    let busy = run_with(&dir, ["convert", "--append", "-", "words.msgpack"], b"");
    assert!(busy.exits(2).err.contains("hint: try: kiste repair words.msgpack"));

    let run_ = run(&dir, ["repair", "words.msgpack", "--json"]).exits(0);
    assert!(run_.err.contains("2 whole samples (18 B) will be dropped"), "{run_:?}");
    assert_eq!(run_.json()["dropped_bytes"], 18);
    assert_eq!(snapshot(dir.path()), before);
}

#[test]
fn a_living_writer_is_left_alone() {
    let dir = with_words();
    let writer = Writer::append(dir.path().join("words.msgpack")).unwrap();
    let run_ = run(&dir, ["repair", "words.msgpack"]).fails(2, "another writer is working");
    assert!(run_.err.contains("hint: wait"), "{run_:?}");
    let info = run(&dir, ["info", "--json", "words.msgpack"]).quietly().json();
    assert_eq!(info["unfinished"], "another program is writing to it");
    run_with(&dir, ["convert", "--force", "-", "words.msgpack"], b"")
        .fails(2, "another writer is working");
    writer.abort().unwrap();
    run(&dir, ["verify", "words.msgpack"]).quietly();
}

#[test]
fn data_alone_are_looked_at() {
    let dir = with_words();
    for file in names(dir.path()).iter().filter(|name| *name != "words.msgpack") {
        fs::remove_file(dir.path().join(file)).unwrap();
    }
    let good = run(&dir, ["verify", "words.msgpack"]).exits(0);
    assert!(good.out.contains("good: 3 samples, ") && good.out.contains("decoded"), "{good:?}");
    fs::write(dir.path().join("words.msgpack"), [0; 5]).unwrap();
    run(&dir, ["verify", "words.msgpack"]).fails(2, "a file that does not begin with a sample");
    fs::write(dir.path().join("words.msgpack"), [0x80, 0, 0, 0, 0]).unwrap();
    let bad = run(&dir, ["verify", "words.msgpack"]).exits(1);
    assert!(bad.out.contains("sample 4: bytes 4..5: "), "{bad:?}");
}

/// Three samples with checksums.
fn with_checksums() -> TempDir {
    let dir = scratch();
    run_with(&dir, ["convert", "--crc", "-", "words.msgpack"], WORDS.as_bytes()).exits(0);
    assert!(names(dir.path()).contains(&"words.msgpack.crc".to_owned()));
    dir
}

/// Where a byte of the content of the second sample is, which can be any other.
fn of_the_second(dir: &TempDir) -> usize {
    let bytes = fs::read(dir.path().join("words.msgpack")).unwrap();
    bytes.windows(4).position(|w| w == b"zwei").unwrap()
}

#[test]
fn a_damaged_sample_has_a_name() {
    let dir = with_checksums();
    let good = run(&dir, ["verify", "words.msgpack"]).quietly();
    let expected = "words.msgpack: good: 3 samples, 83 B, 5 digests and 3 checksums compared\n";
    assert_eq!(good.out, expected);
    let info = run(&dir, ["info", "--json", "words.msgpack"]).quietly().json();
    assert_eq!(info["checksums"], true);

    flip(&dir.path().join("words.msgpack"), of_the_second(&dir));
    // Nothing else could tell.
    run(&dir, ["cat", "--jsonl", "words.msgpack"]).quietly();
    let run_ = run(&dir, ["verify", "words.msgpack"]).exits(1);
    let place = "words.msgpack: sample 1: key \"b\": bytes 28..54: expected the checksum ";
    assert!(run_.out.contains(place), "{run_:?}");
    assert!(run_.err.contains("kiste repair words.msgpack -o OUT"), "{run_:?}");
    let problems = run(&dir, ["verify", "--jsonl", "words.msgpack"]).exits(1).jsonl();
    assert!(problems.iter().any(|problem| problem["index"] == 1 && problem["key"] == "b"));

    // It is left out, and the others are known to be whole.
    let args = ["repair", "words.msgpack", "-o", "saved.msgpack", "--json"];
    let run_ = run(&dir, args).exits(1);
    assert!(run_.err.contains("sample 1: key \"b\": bytes 28..54: lost: "), "{run_:?}");
    assert!(run_.err.contains("every sample that was saved matches its checksum"), "{run_:?}");
    let saved = run_.json();
    assert_eq!((&saved["samples"], &saved["proof"]), (&2.into(), &"checksums".into()));
    assert_eq!(run(&dir, ["ls", "saved.msgpack"]).quietly().out, "a\nc\n");
    let good = run(&dir, ["verify", "saved.msgpack"]).quietly();
    assert!(good.out.contains("5 digests and 2 checksums compared"), "{good:?}");
    let info = run(&dir, ["info", "saved.msgpack"]).quietly();
    assert!(info.out.contains("saved.msgpack.repair.json"), "{info:?}");

    // Nothing makes checksums of it.
    let refused = run(&dir, ["index", "--force", "words.msgpack"]);
    assert!(refused.fails(1, "does not match its MD5").err.contains("sample 1"));
}

#[test]
fn checksums_are_made_and_kept() {
    let dir = with_words();
    let made = run(&dir, ["index", "--crc", "words.msgpack"]).exits(0);
    assert!(made.err.contains("3 samples, made .crc\n"), "{made:?}");
    let again = run(&dir, ["index", "--crc", "words.msgpack"]).exits(0);
    assert!(again.err.contains("nothing was missing"), "{again:?}");
    let line = b"{\"key\":\"d\",\"n\":4}\n";
    run_with(&dir, ["convert", "--append", "-", "words.msgpack"], line).exits(0);
    let good = run(&dir, ["verify", "words.msgpack"]).quietly();
    assert!(good.out.contains("5 digests and 4 checksums compared"), "{good:?}");

    // Every command that writes a dataset makes them, if asked.
    run(&dir, ["shuffle", "--crc", "words.msgpack", "shuffled.msgpack"]).exits(0);
    run(&dir, ["sort", "words.msgpack", "sorted.msgpack"]).exits(0);
    let args = ["merge", "--crc", "--skip-duplicates", "words.msgpack", "shuffled.msgpack"];
    run(&dir, args.into_iter().chain(["merged.msgpack"])).exits(0);
    run(&dir, ["verify", "merged.msgpack"]).quietly();
    assert!(dir.path().join("merged.msgpack.crc").exists());
    assert!(dir.path().join("shuffled.msgpack.crc").exists());
    assert!(!dir.path().join("sorted.msgpack.crc").exists());
    run(&dir, ["verify", "shuffled.msgpack"]).quietly();

    // What Python leaves behind when it writes the dataset anew.
    fs::copy(dir.path().join("shuffled.msgpack.crc"), dir.path().join("words.msgpack.crc"))
        .unwrap();
    let stale = run(&dir, ["verify", "words.msgpack"]).exits(1);
    assert!(stale.out.contains("words.msgpack.crc: "), "{stale:?}");
    assert!(
        stale.err.contains("\"kiste index --force --crc words.msgpack\" rebuilds"),
        "{stale:?}"
    );
    run(&dir, ["index", "--crc", "words.msgpack"]).exits(0);
    run(&dir, ["verify", "words.msgpack"]).quietly();
}

#[test]
fn what_was_saved_of_unknown_damage_says_so() {
    let dir = with_words();
    flip(&dir.path().join("words.msgpack"), of_the_second(&dir));
    let args = ["repair", "words.msgpack", "-o", "saved.msgpack", "--json"];
    let run_ = run(&dir, args).exits(1);
    assert!(run_.err.contains("saved 3 samples, 83 B; lost 0 B"), "{run_:?}");
    assert!(run_.err.contains("does not match its MD5, and there are no checksums"), "{run_:?}");
    assert!(run_.err.contains("saved.msgpack.repair.json: "), "{run_:?}");
    let kept = fs::read(dir.path().join("saved.msgpack.repair.json")).unwrap();
    let kept: Json = serde_json::from_slice(&kept).unwrap();
    let old = fs::read_to_string(dir.path().join("words.msgpack.md5")).unwrap();
    assert_eq!(kept["old_digests"]["words.msgpack"].as_str(), old.get(..32));
    assert_eq!(kept["proof"], "doubtful");
    run(&dir, ["verify", "saved.msgpack"]).quietly();
}

/// Five thousand lines that say the same hide the one that does not.
#[test]
fn problems_of_one_kind_are_counted_after_the_first() {
    let dir = scratch();
    let lines: String = (10..50).map(|n| format!("{{\"key\":\"{n}\",\"n\":{n}}}\n")).collect();
    run_with(&dir, ["convert", "-", "n.msgpack"], lines.as_bytes()).exits(0);
    run(&dir, ["index", "--crc", "n.msgpack"]).exits(0);
    let entries = run(&dir, ["ls", "--jsonl", "n.msgpack"]).quietly().jsonl();
    let mut end = 0;
    for entry in entries {
        end += entry["bytes"].as_u64().unwrap() as usize;
        if entry["index"].as_u64() < Some(30) {
            flip(&dir.path().join("n.msgpack"), end - 1);
        }
    }
    let found = run(&dir, ["verify", "n.msgpack"]).exits(1);
    assert_eq!(found.out.matches("n.msgpack: sample ").count(), 10, "{found:?}");
    assert!(found.out.contains("\nn.msgpack: and 20 more of this kind: "), "{found:?}");
    assert!(found.out.contains("31 problems"), "{found:?}");
    assert_eq!(run(&dir, ["verify", "n.msgpack", "--jsonl"]).exits(1).jsonl().len(), 31);
}
