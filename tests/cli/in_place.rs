//! `index -o`: files of other formats as datasets, at the shell.

use super::*;

/// A directory with `a.jsonl` and `b.jsonl`, and an index of both.
fn with_lines() -> TempDir {
    let dir = scratch();
    for name in ["a", "b"] {
        let lines = (0..3).map(|n| format!("{{\"key\":\"{name}{n}\",\"n\":{n}}}\n"));
        fs::write(dir.path().join(format!("{name}.jsonl")), lines.collect::<String>()).unwrap();
    }
    let told = run(&dir, ["index", "[ab].jsonl", "-o", "x.inplace.json"]).exits(0);
    assert!(told.err.contains("x.inplace.json: 6 samples in 2 files of 114 B"), "{}", told.err);
    dir
}

#[test]
fn every_command_reads_an_index() {
    let dir = with_lines();
    assert_eq!(run(&dir, ["ls", "x.inplace.json"]).exits(0).out, "a0\na1\na2\nb0\nb1\nb2\n");
    assert_eq!(
        run(&dir, ["get", "x.inplace.json", "b1"]).exits(0).out,
        "{\"key\":\"b1\",\"n\":1}\n"
    );
    let info = run(&dir, ["info", "x.inplace.json"]).exits(0);
    assert!(info.out.contains("in place 2 files of jsonl, 114 B"), "{}", info.out);
    for args in [
        &["convert", "x.inplace.json", "c.msgpack"][..],
        &["filter", "x.inplace.json", "f.msgpack", "n > 0"],
        &["sort", "x.inplace.json", "s.msgpack", "--by=n"],
        &["shuffle", "x.inplace.json", "r.msgpack", "--seed=1"],
        &["merge", "x.inplace.json", "m.msgpack"],
        &["sample", "x.inplace.json", "t.msgpack", "2"],
        &["split", "x.inplace.json", "2", "-o", "p.msgpack", "q.msgpack"],
        &["filter", "x.inplace.json", "f.kiste.toml", "n > 0"],
        &["cat", "f.kiste.toml"],
        &["stat", "x.inplace.json"],
        &["head", "x.inplace.json"],
        &["bench", "x.inplace.json", "--mode=loader"],
        &["verify", "x.inplace.json"],
        &["diff", "x.inplace.json", "c.msgpack"],
        &["repair", "x.inplace.json"],
    ] {
        run(&dir, args).exits(0);
    }
    run(&dir, ["verify", "--deep", "c.msgpack", "s.msgpack", "r.msgpack", "m.msgpack"]).exits(0);
    assert_eq!(listed(&dir, "m.msgpack"), listed(&dir, "x.inplace.json"));
    assert_eq!(listed(&dir, "f.kiste.toml"), ["a1", "a2", "b1", "b2"]);
}

fn listed(dir: &TempDir, name: &str) -> Vec<String> {
    run(dir, ["ls", name]).exits(0).out.lines().map(str::to_owned).collect()
}

#[test]
fn an_index_without_its_side_files_is_refused_for_what_it_lacks() {
    let dir = with_lines();
    let index = fs::read(dir.path().join("x.inplace.json")).unwrap();
    fs::write(dir.path().join("cut.inplace.json"), &index[..index.len() / 2]).unwrap();
    fs::write(dir.path().join("alone.inplace.json"), &index).unwrap();
    for (name, code, found) in [
        ("cut.inplace.json", 1, "expected an index of a dataset in place"),
        (
            "alone.inplace.json",
            2,
            "alone.inplace.json.offsets: expected this file next to the index",
        ),
    ] {
        for command in ["ls", "cat", "info"] {
            let failed = run(&dir, [command, name]).exits(code);
            assert!(failed.err.contains(name) && failed.err.contains(found), "{}", failed.err);
        }
    }
}

#[test]
fn indexes_of_parts_are_joined() {
    let dir = with_lines();
    for name in ["a", "b"] {
        let index = format!("{name}.inplace.json");
        run(&dir, ["index", &format!("{name}.jsonl"), "-o", &index]).exits(0);
    }
    let told = run(&dir, ["index", "a.inplace.json", "b.inplace.json", "-o", "all.inplace.json"]);
    let told = told.exits(0);
    let expected = "all.inplace.json: 6 samples in 2 files of 114 B; 2 files had not changed";
    assert!(told.err.contains(expected), "{}", told.err);
    assert_eq!(listed(&dir, "all.inplace.json"), listed(&dir, "x.inplace.json"));
    // A folder of files without -o, and what its hint says to type.
    fs::create_dir(dir.path().join("files")).unwrap();
    fs::rename(dir.path().join("a.jsonl"), dir.path().join("files/a.jsonl")).unwrap();
    let failed = run(&dir, ["index", "files"]).exits(2);
    let hint = "kiste index files -o files.inplace.json";
    assert!(failed.err.contains(hint), "{}", failed.err);
    run(&dir, hint.split(' ').skip(1).collect::<Vec<_>>()).exits(0);
    assert_eq!(listed(&dir, "files.inplace.json"), ["a0", "a1", "a2"]);
}

#[test]
fn what_has_changed_is_told_and_indexed_again() {
    let dir = with_lines();
    fs::write(dir.path().join("b.jsonl"), "{\"key\":\"b9\",\"n\":9}\n").unwrap();
    run(&dir, ["get", "x.inplace.json", "a0"]).exits(0);
    let failed =
        run(&dir, ["get", "x.inplace.json", "b0"]).fails(2, "b.jsonl: the file has changed");
    assert!(failed.err.contains("kiste index --refresh"), "{}", failed.err);
    let failed = run(&dir, ["verify", "x.inplace.json"]).exits(1);
    let hint = "\"kiste index --refresh x.inplace.json\" indexes again what has changed";
    assert!(failed.err.contains(hint), "{}", failed.err);
    let told = run(&dir, ["index", "--refresh", "x.inplace.json"]).exits(0);
    assert!(
        told.err.contains("4 samples in 2 files of 76 B; 1 file had not changed"),
        "{}",
        told.err
    );
    fs::write(dir.path().join("c.jsonl"), "{\"key\":\"c\",\"n\":1}\n[]\n").unwrap();
    let add = ["index", "--append", "c.jsonl", "-o", "x.inplace.json"];
    let failed = run(&dir, add).fails(1, "c.jsonl");
    assert!(failed.err.contains("hint: --skip-bad leaves out bad samples"), "{}", failed.err);
    assert_eq!(listed(&dir, "x.inplace.json").len(), 4);
    let told = run(&dir, [&add[..], &["--skip-bad", "--jsonl"]].concat()).exits(1);
    assert_eq!(told.jsonl()[0]["bad"], 1);
    assert_eq!(listed(&dir, "x.inplace.json"), ["a0", "a1", "a2", "b9", "c"]);
}

/// No option is passed over in silence.
#[test]
fn options_that_would_say_nothing_are_refused() {
    let dir = with_lines();
    run(&dir, ["index", "a.jsonl", "-o", "x.inplace.json"]).fails(2, "exists already");
    run(&dir, ["index", "-f", "a.jsonl", "-o", "x.inplace.json"]).exits(0);
    run(&dir, ["index", "a.jsonl", "-o", "x.msgpack"]).fails(2, "ends in .inplace.json");
    for option in ["--crc", "--no-md5", "--lookup", "--no-lookup"] {
        run(&dir, ["index", "a.jsonl", "-o", "y.inplace.json", option]).exits(2);
    }
    for option in
        ["--key=x", "--key-field=n", "--texts=n", "--plain-json", "--max-bytes=9", "--skip-bad"]
    {
        run(&dir, ["index", "a.jsonl", option]).exits(2);
    }
    run(&dir, ["index", "--refresh", "x.inplace.json", "-o", "x.inplace.json", "--key={key}"])
        .exits(2);
    let failed = run(&dir, ["index", "a.jsonl"]).fails(2, "a.jsonl: expected a dataset");
    assert!(failed.err.contains("kiste index a.jsonl -o a.inplace.json"), "{}", failed.err);
    run(&dir, ["index", "a.jsonl", "-o", "a.inplace.json"]).exits(0);
    run(&dir, ["index", "a.inplace.json"]).fails(2, "made together with their index");
    run(&dir, ["convert", "b.jsonl", "b.inplace.json", "--to=dataset"])
        .fails(2, "name of an index");
}
