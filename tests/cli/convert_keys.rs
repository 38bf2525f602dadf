//! `convert`: what the keys of JSON lines are.

use super::*;

const CAPTIONS: &str =
    "{\"id\": 7, \"caption\": \"a cat\"}\n\n{\"id\": 9, \"caption\": \"a dog\"}\n";

fn keys(dir: &TempDir, dataset: &str) -> String {
    run(dir, ["ls", dataset]).quietly().out
}

#[test]
fn lines_without_a_key_are_numbered_or_named_by_a_field() {
    let dir = scratch();
    fs::write(dir.path().join("captions.jsonl"), CAPTIONS).unwrap();
    let numbered = "captions/000000000\ncaptions/000000002\n";
    for (options, expected) in [
        (&[][..], numbered),
        (&["--key-field", "id"], "7\n9\n"),
        (&["--key", "x-{id}"], "x-7\nx-9\n"),
        (&["--key", "{key.name}-{id}"], "000000000-7\n000000002-9\n"),
    ] {
        let args = [&["convert", "captions.jsonl", "c.msgpack", "--force"], options].concat();
        run(&dir, args).exits(0);
        assert_eq!(keys(&dir, "c.msgpack"), expected, "{options:?}");
        let args = [&["convert", "-", "c.msgpack", "--force"], options].concat();
        run_with(&dir, args, CAPTIONS.as_bytes()).exits(0);
        assert_eq!(keys(&dir, "c.msgpack"), expected.replace("captions", "stdin"), "{options:?}");
    }
    let sample = run(&dir, ["get", "c.msgpack", "000000000-7"]).quietly().json();
    assert_eq!((&sample["id"], &sample["caption"]), (&Json::from(7), &Json::from("a cat")));
    run(&dir, ["convert", "captions.jsonl", "x.msgpack", "--key-field", "name"])
        .fails(2, "there is no field \"name\" to be the key, only id, caption");
}

/// Lines of a large file are many units, which parts read independently of each other.
#[test]
fn numbers_are_the_same_for_any_number_of_parts() {
    let dir = scratch();
    let text = "x".repeat(40_000);
    let lines: String =
        (0..200).map(|n| format!("{{\"n\": {n}, \"text\": \"{text}\"}}\n")).collect();
    fs::write(dir.path().join("long.jsonl"), lines).unwrap();
    run(&dir, ["convert", "long.jsonl", "whole.msgpack"]).exits(0);
    for part in ["3/3", "1/3", "2/3"] {
        run(&dir, ["convert", "long.jsonl", "parts.msgpack", "--part", part]).exits(0);
    }
    run(&dir, ["commit", "parts.msgpack"]).exits(0);
    let bytes = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert!(bytes("whole.msgpack") == bytes("parts.msgpack"));
    assert!(keys(&dir, "whole.msgpack").ends_with("long/000000198\nlong/000000199\n"));
}

#[test]
fn a_line_that_lost_its_key_gets_none_made_up() {
    let dir = scratch();
    for (lines, says) in [
        ("{\"key\": \"a\"}\n{\"n\": 1}\n", "line 2: expected a \"key\", as the first line has one"),
        (
            "{\"n\": 1}\n{\"key\": \"a\"}\n",
            "line 2: expected no \"key\", as the first line has none",
        ),
        ("{\"key\": 5}\n", "line 1: expected a string as \"key\", found another value"),
    ] {
        fs::write(dir.path().join("x.jsonl"), lines).unwrap();
        let failed = run(&dir, ["convert", "x.jsonl", "x.msgpack"]).fails(1, says);
        assert!(failed.err.contains("--key-field makes another field the key"), "{failed:?}");
    }
    run(&dir, ["convert", "x.jsonl", "x.msgpack", "--key-field", "key"]).exits(0);
    assert_eq!(keys(&dir, "x.msgpack"), "5\n");
    // Without a key, the line can be left out.
    fs::write(dir.path().join("x.jsonl"), "{\"key\": \"a\"}\n{\"n\": 1}\n").unwrap();
    run(&dir, ["convert", "x.jsonl", "x.msgpack", "--force", "--bad", "skip"]).exits(1);
    assert_eq!(keys(&dir, "x.msgpack"), "a\n");
}

/// Many programs call JSON lines `.json`.
#[test]
fn lines_of_objects_are_json_lines_by_any_of_their_names() {
    let dir = scratch();
    fs::write(dir.path().join("captions.json"), CAPTIONS).unwrap();
    run(&dir, ["convert", "captions.json", "c.msgpack", "--key-field", "id"]).exits(0);
    assert_eq!(keys(&dir, "c.msgpack"), "7\n9\n");
    for content in ["{\n  \"id\": 7\n}\n", ""] {
        fs::write(dir.path().join("captions.json"), content).unwrap();
        let failed = run(&dir, ["convert", "captions.json", "x.msgpack"]).fails(
            2,
            "captions.json: named like JSON, but it is no array, and its first line is no object",
        );
        assert!(failed.err.contains("hint: JSON is read as an array of objects"), "{failed:?}");
    }
}

/// A column that is called like the key is no less a field for it.
#[test]
fn a_column_called_key_stays_where_another_field_becomes_the_key() {
    let dir = scratch();
    let songs = "{\"id\":1,\"key\":\"C major\",\"song\":\"x\"}\n{\"id\":2,\"key\":\"C major\",\"song\":\"y\"}\n";
    fs::write(dir.path().join("songs.jsonl"), songs).unwrap();
    fs::write(dir.path().join("songs.csv"), "id,key,song\n1,C major,x\n2,C major,y\n").unwrap();
    fs::write(dir.path().join("songs.tsv"), "id\tkey\tsong\n1\tC major\tx\n2\tC major\ty\n")
        .unwrap();
    fs::create_dir(dir.path().join("songs")).unwrap();
    let rows = "{\"file_name\":\"x.png\",\"id\":1,\"key\":\"C major\",\"song\":\"x\"}\n\
                {\"file_name\":\"y.png\",\"id\":2,\"key\":\"C major\",\"song\":\"y\"}\n";
    fs::write(dir.path().join("songs/metadata.jsonl"), rows).unwrap();
    for name in ["x.png", "y.png"] {
        fs::write(dir.path().join("songs").join(name), "an image").unwrap();
    }
    // Written with the column under its own name in the formats that have one.
    let named =
        ["convert", "songs.jsonl", "named.msgpack", "--key", "{id}", "--rename", "key=pitch"];
    run(&dir, named).exits(0);
    let mut sources = vec!["songs.jsonl", "songs.csv", "songs.tsv", "songs"];
    for to in ["songs.parquet", "songs.arrow"] {
        if cfg!(feature = "parquet") {
            let args = ["convert", "named.msgpack", to, "--key", "{song}", "--drop", "pitch"];
            run(&dir, args).exits(0);
            sources.push(to);
        }
    }
    for to in ["songs.tfrecord", "songs.npz", "mds"] {
        let more: &[&str] = if to == "mds" { &["--to", "mds"] } else { &[] };
        let args = ["convert", "named.msgpack", to, "--key", "{song}", "--drop", "pitch"];
        run(&dir, [&args[..], more].concat()).exits(0);
        sources.push(to);
    }
    for source in sources {
        for option in [["--key-field", "id"], ["--key", "{id}"]] {
            let convert = |more: &[&str]| {
                let args = ["convert", source, "new.msgpack", "--force"];
                run(&dir, [&args[..], &option, more].concat()).exits(0);
                run(&dir, ["cat", "new.msgpack", "--jsonl"]).quietly().jsonl()
            };
            let kept = convert(&[]);
            assert_eq!((&kept[0]["key"], &kept[1]["key"]), (&"1".into(), &"2".into()), "{source}");
            assert!(!kept[0]["_key"].is_null(), "{source} {option:?}: {kept:?}");
            let renamed = convert(&["--rename", "key=pitch"]);
            assert_eq!(renamed[1]["pitch"], kept[1]["_key"], "{source} {option:?}");
            let dropped = convert(&["--drop", "key"]);
            assert!(dropped[0]["_key"].is_null() && !dropped[0]["song"].is_null(), "{source}");
        }
    }
}

/// Names of files, and the keys of a dataset, are in no column.
#[test]
fn keys_that_are_replaced_are_said_to_be() {
    let dir = scratch();
    run_with(&dir, ["convert", "-", "a.msgpack"], b"{\"key\":\"a\",\"id\":1}").exits(0);
    let says = "the keys of the source are replaced, not kept: {key} in --key has them";
    let args = |option: [&'static str; 2]| {
        ["convert", "a.msgpack", "b.msgpack", "--force"].into_iter().chain(option)
    };
    for option in [["--key-field", "id"], ["--key", "{id}"]] {
        let made = run(&dir, args(option)).exits(0);
        assert!(made.err.contains(says), "{made:?}");
    }
    let tried = run(&dir, args(["--key-field", "id"]).chain(["--dry-run"])).exits(0);
    assert!(tried.err.contains(says), "{tried:?}");
    for option in [["--key", "{key}-{id}"], ["--rename", "id=n"]] {
        let made = run(&dir, args(option)).exits(0);
        assert!(!made.err.contains(says), "{made:?}");
    }
}

/// Numbers of labels become their names, from every source that has names.
#[test]
fn labels_become_text() {
    let dir = scratch();
    let lines = b"{\"key\":\"a\",\"label\":1}\n{\"key\":\"b\",\"labels\":[0,1]}\n{\"key\":\"c\",\"label\":null}\n";
    run_with(&dir, ["convert", "-", "n.msgpack"], lines).exits(0);
    run(&dir, ["convert", "n.msgpack", "t.jsonl", "--text-labels"])
        .fails(2, "--text-labels needs names of labels, and the source has none");
    fs::write(dir.path().join("n.msgpack.labels"), "cat\ndog\n").unwrap();
    run(&dir, ["convert", "n.msgpack", "t.jsonl", "--text-labels"]).exits(0);
    assert_eq!(
        fs::read_to_string(dir.path().join("t.jsonl")).unwrap(),
        "{\"key\":\"a\",\"label\":\"dog\"}\n{\"key\":\"b\",\"labels\":[\"cat\",\"dog\"]}\n\
         {\"key\":\"c\",\"label\":null}\n"
    );
    run(&dir, ["convert", "n.msgpack", "t.msgpack", "--text-labels"]).exits(0);
    assert!(!dir.path().join("t.msgpack.labels").exists());
    let lines = b"{\"key\":\"a\",\"label\":2}\n{\"key\":\"b\",\"label\":\"x\"}\n{\"key\":\"c\",\"label\":0}\n";
    run_with(&dir, ["convert", "-", "w.msgpack"], lines).exits(0);
    fs::write(dir.path().join("w.msgpack.labels"), "cat\ndog\n").unwrap();
    run(&dir, ["convert", "w.msgpack", "u.jsonl", "--text-labels"])
        .fails(2, "field \"label\": expected a label below 2, found 2");
    run(&dir, ["convert", "w.msgpack", "u.jsonl", "--text-labels", "--bad", "skip"]).exits(1);
    assert_eq!(
        fs::read_to_string(dir.path().join("u.jsonl")).unwrap(),
        "{\"key\":\"c\",\"label\":\"cat\"}\n"
    );
}
