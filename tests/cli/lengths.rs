//! `index --lengths`: numbers of samples, at the shell.

use kiste::DatasetReader;

use super::*;

fn with_tokens() -> TempDir {
    let dir = scratch();
    for name in ["a", "b"] {
        let lines = (0..4).map(|n| {
            let tokens = vec!["1"; n].join(",");
            format!("{{\"key\":\"{name}{n}\",\"tokens\":[{tokens}],\"sec\":{n}.5}}\n")
        });
        fs::write(dir.path().join(format!("{name}.jsonl")), lines.collect::<String>()).unwrap();
    }
    dir
}

fn numbers(dir: &TempDir, name: &str, column: &str) -> Vec<u32> {
    let reader = DatasetReader::open(dir.path().join(name)).unwrap();
    let lengths = reader.lengths(column).unwrap().unwrap();
    let mut found = Vec::new();
    lengths.gather(&(0..lengths.len()).collect::<Vec<u64>>(), &mut found).unwrap();
    found
}

#[test]
fn columns_are_made_and_added() {
    let dir = with_tokens();
    run(&dir, ["convert", "a.jsonl", "a.msgpack"]).exits(0);
    let told = run(&dir, ["index", "--lengths", "len(tokens)", "a.msgpack"]).exits(0);
    assert!(told.err.contains("a.msgpack: 4 samples, made .lengths"), "{}", told.err);
    let args = ["index", "--lengths=ms(sec)", "--lengths", "bytes", "a.msgpack", "--jsonl"];
    assert!(run(&dir, args).exits(0).out.contains("a.msgpack.lengths"));
    assert_eq!(numbers(&dir, "a.msgpack", "len(tokens)"), [0, 1, 2, 3]);
    assert_eq!(numbers(&dir, "a.msgpack", "ms(sec)"), [500, 1500, 2500, 3500]);
    let again = run(&dir, ["index", "--lengths", "bytes", "a.msgpack"]).exits(0);
    assert!(again.err.contains("nothing was missing"), "{}", again.err);
    run(&dir, ["verify", "a.msgpack"]).exits(0);
    assert!(run(&dir, ["info", "a.msgpack"]).exits(0).out.contains(".lengths"));

    let failed = run(&dir, ["index", "--lengths", "sec", "a.msgpack"]);
    let failed = failed.fails(2, "expected a whole number from 0 to 4294967295, found 0.5");
    assert!(failed.err.contains("a0") && failed.err.contains("\"sec\""), "{}", failed.err);
    let failed = run(&dir, ["index", "--lengths", "count(tokens)", "a.msgpack"]).exits(2);
    assert!(failed.err.contains("expected the end, found ( at 6"), "{}", failed.err);

    // Another program has replaced the data: the file is known to be of the old.
    let (old, new) = (dir.path().join("a.msgpack.lengths"), dir.path().join("kept"));
    fs::rename(&old, &new).unwrap();
    run(&dir, ["convert", "b.jsonl", "a.msgpack", "--force"]).exits(0);
    assert!(!old.exists());
    fs::rename(&new, &old).unwrap();
    let found = run(&dir, ["verify", "a.msgpack"]).exits(1);
    assert!(found.out.contains("not of this version of the dataset"), "{found:?}");
    assert!(found.err.contains("kiste index --lengths COLUMN a.msgpack"), "{found:?}");
    run(&dir, ["index", "--lengths", "len(tokens)", "a.msgpack"]).exits(0);
    run(&dir, ["verify", "a.msgpack"]).exits(0);
}

#[test]
fn shards_and_samples_in_place_have_them_too() {
    let dir = with_tokens();
    run(&dir, ["convert", "[ab].jsonl", "s.shards.json", "--shards", "2"]).exits(0);
    let told = run(&dir, ["index", "--lengths", "len(tokens)", "s.shards.json"]).exits(0);
    assert!(told.err.contains("s.shards.json: 8 samples, made .lengths"), "{}", told.err);
    assert_eq!(numbers(&dir, "s.shards.json", "len(tokens)"), [0, 1, 2, 3, 0, 1, 2, 3]);
    run(&dir, ["verify", "s.shards.json"]).exits(0);

    let args = ["index", "a.jsonl", "-o", "x.inplace.json", "--lengths", "len(tokens)"];
    run(&dir, args).exits(0);
    assert_eq!(numbers(&dir, "x.inplace.json", "len(tokens)"), [0, 1, 2, 3]);
    run(&dir, ["verify", "x.inplace.json"]).exits(0);
    run(&dir, ["index", "--lengths", "bytes", "x.inplace.json"]).exits(0);
    let sizes = numbers(&dir, "x.inplace.json", "bytes");
    assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]), "{sizes:?}");
    run(&dir, ["index", "--crc", "--lengths", "bytes", "x.inplace.json"]).exits(2);

    // Samples of other files, and other samples of the same: as many bytes, and other numbers.
    let more = run(&dir, ["index", "b.jsonl", "--append", "-o", "x.inplace.json"]).exits(0);
    assert!(more.err.contains("its lengths are gone"), "{}", more.err);
    let args = ["index", "--refresh", "x.inplace.json", "--lengths", "len(tokens)"];
    run(&dir, args).exits(0);
    assert_eq!(numbers(&dir, "x.inplace.json", "len(tokens)"), [0, 1, 2, 3, 0, 1, 2, 3]);
    let kept = fs::read(dir.path().join("x.inplace.json.lengths")).unwrap();
    let text = fs::read_to_string(dir.path().join("b.jsonl")).unwrap();
    fs::write(dir.path().join("b.jsonl"), text.replace("[1,1,1]", "[1,111]")).unwrap();
    run(&dir, ["index", "--refresh", "x.inplace.json"]).exits(0);
    fs::write(dir.path().join("x.inplace.json.lengths"), kept).unwrap();
    let found = run(&dir, ["verify", "x.inplace.json"]).exits(1);
    assert!(found.out.contains("expected the MD5 of the data"), "{found:?}");
}
