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
        let failed = run(&dir, ["convert", "in.msgpack", there]).fails(2, "was built without");
        assert!(failed.err.contains("hint: build it with --features parquet"), "{failed:?}");
        assert!(!dir.path().join(there).exists());
    }
    run(&dir, ["convert", "t", "new.msgpack"]).fails(2, "was built without parquet");
}
