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
    assert_eq!(tried.out.matches("as it is").count(), 6, "{tried:?}");
    assert!(!dir.path().join("t.parquet").exists());
    fs::create_dir(dir.path().join("shards")).unwrap();
    run(&dir, ["convert", "in.msgpack", "shards/t-1.parquet"]).exits(0);
    run(&dir, ["convert", "shards", "new.msgpack"]).fails(2, "holds shards such as");
    run(&dir, ["convert", "shards", "new.msgpack", "--from", "parquet"]).exits(0);
    assert_eq!(bytes("in.msgpack"), bytes("new.msgpack"));
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
