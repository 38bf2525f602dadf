//! `kiste repair`, and the commands that clear away what a killed one left: what they must not touch.

use std::os::unix::fs::symlink;

use super::*;

fn nine(dir: &TempDir, name: &str) {
    let lines: String = (1..=9).map(|i| format!("{{\"key\":\"{i}\"}}\n")).collect();
    fs::write(dir.path().join("a.jsonl"), lines).unwrap();
    run(dir, ["convert", "a.jsonl", name]).exits(0);
}

/// An append that was killed before its end.
fn killed_append(dir: &TempDir) {
    let path = dir.path().join("x.msgpack");
    let mut writer = Writer::append(path).unwrap();
    writer.write_raw("more", b"\x81\xa3key\xa4more").unwrap();
    drop(writer);
}

#[test]
fn a_link_named_partial_is_not_followed() {
    let dir = scratch();
    nine(&dir, "x.msgpack");
    fs::create_dir(dir.path().join("v")).unwrap();
    for name in ["a", "b"] {
        fs::write(dir.path().join("v").join(name), name).unwrap();
    }
    symlink("v", dir.path().join("x.msgpack.partial")).unwrap();
    for args in [
        &["repair", "x.msgpack"][..],
        &["repair", "x.msgpack", "--undo"],
        &["repair", "x.msgpack", "--finish"],
        &["convert", "--force", "a.jsonl", "x.msgpack"],
        &["convert", "--append", "a.jsonl", "x.msgpack"],
        &["convert", "--resume", "--force", "a.jsonl", "x.msgpack"],
        &["index", "--force", "x.msgpack"],
    ] {
        run(&dir, args)
            .fails(2, "x.msgpack.partial: expected the directory of an unfinished write");
        assert_eq!(names(&dir.path().join("v")), ["a", "b"], "{args:?}");
    }
    fs::remove_file(dir.path().join("x.msgpack.partial")).unwrap();
    run(&dir, ["verify", "--deep", "x.msgpack"]).exits(0);
}

#[test]
fn a_planted_journal_cuts_no_file() {
    let dir = scratch();
    fs::write(dir.path().join("t"), "thesis\n").unwrap();
    symlink("t", dir.path().join("y.msgpack")).unwrap();
    let partial = dir.path().join("y.msgpack.partial");
    fs::create_dir(&partial).unwrap();
    let journal = r#"{"version":1,"base":{"samples":0,"bytes":0}}"#;
    fs::write(partial.join("journal"), journal).unwrap();
    run(&dir, ["repair", "y.msgpack"]).fails(2, "journal: expected version 2, found 1");
    fs::remove_file(partial.join("journal")).unwrap();
    symlink("../t", partial.join("data")).unwrap();
    run(&dir, ["repair", "y.msgpack", "--finish"]).fails(2, "data: expected a regular file");
    assert_eq!(fs::read(dir.path().join("t")).unwrap(), b"thesis\n");
}

#[test]
fn a_dataset_that_was_rewritten_since_stays_as_it_is() {
    let dir = scratch();
    nine(&dir, "x.msgpack");
    killed_append(&dir);
    // As Python does it: new files, and no idea of x.msgpack.partial.
    let other = scratch();
    run_with(&other, ["convert", "-", "x.msgpack"], WORDS.as_bytes()).exits(0);
    for (name, bytes) in snapshot(other.path()) {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    let told = "another program has written this dataset since a write was cut short";
    let refused = run(&dir, ["repair", "x.msgpack"]).fails(1, told);
    assert!(refused.err.contains("--undo"), "{}", refused.err);
    run(&dir, ["repair", "x.msgpack", "--finish"]).fails(1, told);
    run(&dir, ["repair", "x.msgpack", "--undo"]).exits(0);
    fs::remove_file(dir.path().join("a.jsonl")).unwrap();
    assert_eq!(snapshot(dir.path()), snapshot(other.path()));
    run(&dir, ["verify", "--deep", "x.msgpack"]).exits(0);
}

#[test]
fn the_labels_and_permissions_of_a_killed_write_are_its_own() {
    use std::os::unix::fs::PermissionsExt;
    let dir = scratch();
    nine(&dir, "x.msgpack");
    fs::write(dir.path().join("x.msgpack.labels"), "cat\ndog\n").unwrap();
    let path = dir.path().join("x.msgpack");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let mut writer = Writer::options().overwrite(true).create(&path).unwrap();
    writer.write_raw("new", b"\x81\xa3key\xa3new").unwrap();
    drop(writer);
    run(&dir, ["repair", "x.msgpack", "--finish"]).exits(1);
    assert!(!dir.path().join("x.msgpack.labels").exists());
    for name in names(dir.path()).iter().filter(|name| name.starts_with("x.msgpack")) {
        let mode = fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

/// Nothing was written whole: the dataset that is there stays, whatever was asked for.
#[test]
fn finishing_a_write_of_no_samples_keeps_the_dataset() {
    let dir = scratch();
    nine(&dir, "x.msgpack");
    fs::remove_file(dir.path().join("a.jsonl")).unwrap();
    let before = snapshot(dir.path());
    let path = dir.path().join("x.msgpack");
    std::mem::forget(Writer::options().overwrite(true).create(&path).unwrap());
    // Its lock is still held by this process; the command sees a writer at work.
    run(&dir, ["repair", "x.msgpack", "--finish"]).fails(2, "another writer is working");
    let partial = dir.path().join("x.msgpack.partial");
    // As after its death: a new file has no lock.
    for name in names(&partial) {
        let bytes = fs::read(partial.join(&name)).unwrap();
        fs::remove_file(partial.join(&name)).unwrap();
        fs::write(partial.join(&name), bytes).unwrap();
    }
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, bytes).unwrap();
    run(&dir, ["repair", "x.msgpack", "--finish"]).exits(0);
    assert_eq!(snapshot(dir.path()), before);
}
