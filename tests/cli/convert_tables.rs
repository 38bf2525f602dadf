//! `convert` from and to Parquet and Arrow IPC.

use super::*;

const SAMPLES: &str = r#"{"key":"a","n":-1,"x":0.5,"raw":{"$bin":"iVBORw0KGgo="},"tags":["one","two"],"label":1}
{"key":"b","n":7,"x":null,"raw":{"$bin":"iVBORw0KGgoA"},"tags":[],"label":0}
"#;

#[cfg(feature = "parquet")]
#[test]
fn tables_there_and_back() {
    let dir = scratch();
    run_with(&dir, ["convert", "-", "in.msgpack"], SAMPLES.as_bytes()).exits(0);
    fs::write(dir.path().join("in.msgpack.labels"), "cat\ndog\n").unwrap();
    let bytes = |name: &str| fs::read(dir.path().join(name)).unwrap();
    for there in ["t.parquet", "t.arrow"] {
        let done = run(&dir, ["convert", "in.msgpack", there]).exits(0);
        assert!(!done.err.contains("left behind"), "{done:?}");
        // What it is shows in its first bytes.
        fs::rename(dir.path().join(there), dir.path().join("unnamed")).unwrap();
        run(&dir, ["convert", "unnamed", "back.msgpack", "--force"]).exits(0);
        assert_eq!(bytes("in.msgpack"), bytes("back.msgpack"), "{there}");
        assert_eq!(bytes("in.msgpack.labels"), bytes("back.msgpack.labels"), "{there}");
    }
    let tried = run(&dir, ["convert", "in.msgpack", "t.parquet", "--dry-run"]).exits(0);
    assert_eq!(tried.out.matches("unchanged").count(), 6, "{tried:?}");
    assert!(!dir.path().join("t.parquet").exists());
    fs::create_dir(dir.path().join("shards")).unwrap();
    run(&dir, ["convert", "in.msgpack", "shards/t-1.parquet"]).exits(0);
    for from in [&["--from", "parquet"][..], &[]] {
        run(&dir, [&["convert", "shards", "new.msgpack", "--force"], from].concat()).exits(0);
        assert_eq!(bytes("in.msgpack"), bytes("new.msgpack"));
    }
    run(&dir, ["convert", "in.msgpack", "shards/t-1.parquet"]).fails(2, "exists already");
    let odd = "{\"key\":\"a\",\"x\":[1,\"a\"]}";
    let failed = run_with(&dir, ["convert", "-", "odd.parquet"], odd.as_bytes());
    failed.fails(2, "key \"a\"");
    assert!(!names(dir.path()).iter().any(|name| name.starts_with("odd")));
}

#[cfg(not(feature = "parquet"))]
#[test]
fn without_the_feature_it_is_named() {
    let dir = scratch();
    run_with(&dir, ["convert", "-", "in.msgpack"], SAMPLES.as_bytes()).exits(0);
    fs::write(dir.path().join("t"), "PAR1").unwrap();
    for there in ["t.parquet", "t.arrow"] {
        let failed =
            run(&dir, ["convert", "in.msgpack", there]).fails(2, "this build of kiste has no ");
        assert!(failed.err.contains("hint: build it with --features parquet"), "{failed:?}");
        assert!(!dir.path().join(there).exists());
    }
    run(&dir, ["convert", "t", "new.msgpack"]).fails(2, "this build of kiste has no parquet");
}

/// The field that is the key from now on may be the key already.
#[test]
fn the_key_may_be_named() {
    let dir = scratch();
    run_with(&dir, ["convert", "-", "in.msgpack"], SAMPLES.as_bytes()).exits(0);
    let few = ["convert", "in.msgpack", "t.csv", "--fields", "n"];
    run(&dir, few).exits(0);
    run(&dir, ["convert", "t.csv", "few.msgpack", "--key-field", "key", "--guess-types"]).exits(0);
    run(&dir, ["convert", "few.msgpack", "t.jsonl"]).exits(0);
    run(&dir, ["convert", "few.msgpack", "t.tar"]).exits(0);
    let mut all = vec!["few.msgpack", "t.csv", "t.jsonl", "t-000000.tar"];
    if cfg!(feature = "parquet") {
        for name in ["t.parquet", "t.arrow"] {
            run(&dir, ["convert", "few.msgpack", name]).exits(0);
            all.push(name);
        }
    }
    for from in &all {
        run(&dir, ["convert", from, "new.msgpack", "--force", "--key-field", "key"]).exits(0);
        assert_eq!(run(&dir, ["ls", "new.msgpack"]).quietly().out, "a\nb\n", "{from}");
    }
    // In tables without such a column nothing is.
    fs::write(dir.path().join("none.csv"), "id,n\n1,2\n").unwrap();
    let args = ["convert", "none.csv", "none.msgpack", "--key-field", "key"];
    run(&dir, args).fails(2, "expected a field \"key\" for the key, found none");
}

/// What the decoder has to say when it panics is for its authors.
#[cfg(feature = "parquet")]
#[test]
fn a_decoder_that_panics_says_nothing_of_it() {
    let dir = scratch();
    let fixture = "tests/data/datasets-5.2.0/data-00000-of-00002.arrow";
    let mut bytes = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(fixture)).unwrap();
    // The type of a column, which is one that there is not.
    bytes[743] ^= 0xff;
    fs::write(dir.path().join("x.arrow"), bytes).unwrap();
    let done = run(&dir, ["convert", "x.arrow", "x.msgpack"]);
    let failed = done.fails(1, "x.arrow: its parts contradict each other, and the decoder gave up");
    assert!(!failed.err.contains("panicked"), "{failed:?}");
}

/// A table with another delimiter has one giant column, which nobody wants.
#[test]
fn another_delimiter_is_suspected_and_can_be_given() {
    let dir = scratch();
    fs::write(dir.path().join("p.csv"), "name;age\nana;7\nbo;8\n").unwrap();
    let made = run(&dir, ["convert", "p.csv", "p.msgpack"]).exits(0);
    let warning = "warning: p.csv: has one column, whose values may be separated by ';'\n";
    let hint = "hint: --delimiter ';' separates them\n";
    assert!(made.err.contains(&format!("{warning}{hint}")), "{made:?}");
    let args = ["convert", "p.csv", "p.msgpack", "--force", "--delimiter", ";", "--guess-types"];
    let made = run(&dir, args).exits(0);
    assert!(!made.err.contains("warning"), "{made:?}");
    let lines = run(&dir, ["cat", "p.msgpack", "--jsonl"]).quietly().jsonl();
    assert_eq!(lines[1], serde_json::json!({"key": "p/000000001", "name": "bo", "age": 8}));

    fs::write(dir.path().join("p.csv"), "name\tage\nana\t7\n").unwrap();
    let made = run(&dir, ["convert", "p.csv", "p.msgpack", "--force"]).exits(0);
    assert!(made.err.contains("hint: --delimiter tab separates them\n"), "{made:?}");
    let args = ["convert", "p.csv", "p.msgpack", "--force", "--delimiter", "tab", "--key-field"];
    run(&dir, args.into_iter().chain(["name"])).exits(0);
    assert_eq!(run(&dir, ["ls", "p.msgpack"]).quietly().out, "ana\n");

    // Text with such a character in it is no other table.
    fs::write(dir.path().join("p.csv"), "text\none; two\n").unwrap();
    let made = run(&dir, ["convert", "p.csv", "p.msgpack", "--force"]).exits(0);
    assert!(!made.err.contains("warning"), "{made:?}");
    run(&dir, ["convert", "p.msgpack", "q.msgpack", "--delimiter", ";"])
        .fails(2, "--delimiter is for csv, tsv and list, but this is dataset");
}

#[test]
fn columns_of_a_list_have_the_types_that_those_of_a_table_have() {
    let dir = scratch();
    for name in ["a.jpg", "b.jpg"] {
        fs::write(dir.path().join(name), "an image").unwrap();
    }
    let list = "path;label;score;age;name\na.jpg;cat;0.5;7;x\nb.jpg;dog;1;;007\n";
    fs::write(dir.path().join("list.csv"), list).unwrap();
    let args = ["convert", "list.csv", "t.msgpack", "--from", "list"];
    let made = run(&dir, args);
    assert!(made.err.contains("--delimiter ';' separates them"), "{made:?}");
    let args = [&args[..], &["--delimiter", ";", "--force"]].concat();
    let samples = |args: &[&str]| {
        run(&dir, args).exits(0);
        run(&dir, ["cat", "t.msgpack", "--jsonl"]).quietly().jsonl()
    };
    let samples_of = |types: bool| {
        let more: &[&str] = if types { &["--guess-types"] } else { &[] };
        let fields = |sample: &Json| ["score", "age", "name"].map(|name| sample[name].clone());
        samples(&[&args[..], more].concat()).iter().map(fields).collect::<Vec<_>>()
    };
    let json = |text: &str| serde_json::from_str::<Json>(text).unwrap();
    assert_eq!(Json::from(samples_of(false)[0].to_vec()), json(r#"["0.5", "7", "x"]"#));
    let typed = samples_of(true);
    assert_eq!(Json::from(typed[0].to_vec()), json(r#"[0.5, 7, "x"]"#));
    assert_eq!(Json::from(typed[1].to_vec()), json(r#"[1.0, null, "007"]"#));
}
