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
    let columns = "--lengths 'len(tokens)' --lengths 'ms(sec)' --lengths bytes";
    assert!(found.err.contains(&format!("kiste index {columns} a.msgpack")), "{found:?}");
    let failed =
        run(&dir, ["order", "a.msgpack", "--batches=budget:9", "--lengths", "len(tokens)"]);
    assert!(failed.err.contains("kiste index --lengths 'len(tokens)' a.msgpack"), "{failed:?}");
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

#[test]
fn conversions_measure_what_they_write() {
    let dir = with_tokens();
    let args =
        ["convert", "[ab].jsonl", "x.msgpack", "--lengths", "len(tokens)", "--lengths=bytes"];
    run(&dir, args).exits(0);
    run(&dir, ["verify", "x.msgpack"]).exits(0);
    let made = fs::read(dir.path().join("x.msgpack.lengths")).unwrap();
    fs::remove_file(dir.path().join("x.msgpack.lengths")).unwrap();
    run(&dir, ["index", "--lengths=len(tokens)", "--lengths=bytes", "x.msgpack"]).exits(0);
    assert!(fs::read(dir.path().join("x.msgpack.lengths")).unwrap() == made);

    let info = run(&dir, ["info", "x.msgpack"]).exits(0).out;
    assert!(info.contains("len(tokens)  0 to 3, on average 2, 12 in all"), "{info}");
    let info = run(&dir, ["info", "x.msgpack", "--json"]).exits(0).json();
    assert_eq!(info["lengths"][0]["name"], "len(tokens)");
    assert_eq!((&info["lengths"][0]["max"], &info["lengths"][0]["mean"]), (&3.into(), &1.5.into()));

    // In parts, in shards, of other datasets, and behind what is there.
    for part in ["--part=1/2", "--part=2/2"] {
        run(&dir, ["convert", "[ab].jsonl", "p.msgpack", "--lengths=len(tokens)", part]).exits(0);
    }
    run(&dir, ["commit", "p.msgpack"]).exits(0);
    assert_eq!(numbers(&dir, "p.msgpack", "len(tokens)"), [0, 1, 2, 3, 0, 1, 2, 3]);
    let args = ["convert", "[ab].jsonl", "s.shards.json", "--shards=2", "--lengths=len(tokens)"];
    run(&dir, args).exits(0);
    assert_eq!(numbers(&dir, "s.shards.json", "len(tokens)"), [0, 1, 2, 3, 0, 1, 2, 3]);
    run(&dir, ["verify", "s.shards.json"]).exits(0);
    run(&dir, ["sort", "--by=sec", "-r", "x.msgpack", "r.msgpack", "--lengths=ms(sec)"]).exits(0);
    assert_eq!(numbers(&dir, "r.msgpack", "ms(sec)")[..3], [3500, 3500, 2500]);
    let failed = run(&dir, ["sort", "--by=sec", "x.msgpack", "r.kiste.toml", "--lengths=bytes"]);
    failed.fails(2, "a recipe has the lengths of its sources");
    run(&dir, ["convert", "a.jsonl", "g.msgpack", "--lengths=len(tokens)"]).exits(0);
    run(&dir, ["convert", "b.jsonl", "g.msgpack", "--append"]).exits(0);
    assert_eq!(numbers(&dir, "g.msgpack", "len(tokens)"), [0, 1, 2, 3, 0, 1, 2, 3]);
    run(&dir, ["verify", "g.msgpack"]).exits(0);

    // What has no such number is bad input.
    let args = ["convert", "[ab].jsonl", "n.msgpack", "--lengths=len(text)"];
    let failed = run(&dir, args).fails(2, "expected a field of this name, found none");
    assert!(failed.err.contains("\"a0\"") && failed.err.contains("text"), "{}", failed.err);
    assert!(!dir.path().join("n.msgpack").exists());
    fs::write(dir.path().join("c.jsonl"), "{\"key\":\"c\"}\n{\"key\":\"d\",\"tokens\":[1]}\n")
        .unwrap();
    let args = ["convert", "c.jsonl", "c.msgpack", "--lengths=len(tokens)", "--bad", "skip"];
    run(&dir, args).exits(1);
    assert_eq!(numbers(&dir, "c.msgpack", "len(tokens)"), [1]);
    let failed = run(&dir, ["convert", "a.jsonl", "n.tar", "--lengths", "bytes"]).exits(2);
    assert!(failed.err.contains("--lengths is for datasets"), "{}", failed.err);
}

#[test]
fn a_sample_that_no_batch_has_room_for_is_named() {
    let dir = with_tokens();
    run(&dir, ["convert", "[ab].jsonl", "s.shards.json", "--shards=2", "--lengths=len(tokens)"])
        .exits(0);
    let args = [
        "order",
        "s.shards.json",
        "--sampler=sequential",
        "--batches=budget:2",
        "--lengths=len(tokens)",
    ];
    let failed = run(&dir, args).exits(2);
    let expected = "s-00000.msgpack: sample 3: key \"a3\": expected a length of at most 2, found 3";
    assert!(failed.err.contains(expected), "{}", failed.err);
    let counted = run(
        &dir,
        [
            "order",
            "s.shards.json",
            "--batches=budget:9",
            "--lengths=len(tokens)",
            "--step=1",
            "--progress=json",
        ],
    )
    .exits(0);
    assert!(counted.err.contains("counting batches"), "{}", counted.err);
}
