//! `convert --shard-size` and `--shard-samples` to other formats than datasets.

use super::*;

fn with_samples(samples: usize) -> TempDir {
    let dir = scratch();
    let lines: String =
        (0..samples).map(|i| format!("{{\"key\":\"{i:03}\",\"n\":{i}}}\n")).collect();
    fs::write(dir.path().join("all.jsonl"), lines).unwrap();
    run(&dir, ["convert", "all.jsonl", "all.msgpack"]).exits(0);
    dir
}

fn named(dir: &TempDir, stem: &str) -> Vec<String> {
    names(dir.path()).into_iter().filter(|name| name.starts_with(stem)).collect()
}

#[test]
fn shards_are_reported_and_read_by_a_pattern_or_as_a_folder() {
    let dir = with_samples(100);
    fs::create_dir(dir.path().join("out")).unwrap();
    let mut endings = vec!["jsonl", "tfrecord", "csv"];
    if cfg!(feature = "parquet") {
        endings.extend(["parquet", "arrow"]);
    }
    for ending in endings {
        let args = |to: &str| {
            let to = format!("out/{to}.{ending}");
            ["convert", "all.msgpack", &to, "--shard-samples", "30"].map(str::to_owned).to_vec()
        };
        let made = run(&dir, args("x")).exits(0);
        let line = format!("out/x.{ending}: 4 shards: 100 samples");
        assert!(made.err.contains(&line), "{made:?}");
        run(&dir, args("x")).fails(2, &format!("x-00000.{ending}: exists already"));
        let made = run(&dir, [args("x"), vec!["--force".into(), "--json".into()]].concat());
        let made = made.exits(0).json();
        assert_eq!(made["samples"], 100);
        let files = made["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap());
        let expected: Vec<String> = (0..4).map(|n| format!("out/x-{n:05}.{ending}")).collect();
        assert_eq!(files.collect::<Vec<_>>(), expected);
        let needs_key = matches!(ending, "csv" | "tfrecord");
        let key: &[&str] = if needs_key { &["--key-field", "key"] } else { &[] };
        let guess: &[&str] = if ending == "csv" { &["--guess-types"] } else { &[] };
        for source in [format!("out/x-*.{ending}"), "out".to_owned()] {
            let back = ["convert", &source, "back.msgpack", "--force"];
            run(&dir, [&back, key, guess].concat()).exits(0);
            run(&dir, ["diff", "all.msgpack", "back.msgpack"]).exits(0);
        }
        // A dry run and a plan make nothing.
        let before = snapshot(&dir.path().join("out"));
        run(&dir, [args("y"), vec!["--dry-run".into()]].concat()).exits(0);
        let plan = run(&dir, [args("y"), vec!["--plan".into()]].concat()).exits(0).json();
        assert_eq!(plan["options"]["shard_samples"], 30, "{plan}");
        assert_eq!(snapshot(&dir.path().join("out")), before);
        for file in expected {
            fs::remove_file(dir.path().join(file)).unwrap();
        }
    }
}

#[test]
fn sizes_are_limits_of_tar_and_mds() {
    let dir = with_samples(100);
    let convert = |to: &str, options: &[&str]| {
        run(&dir, [&["convert", "all.msgpack", to, "--json"], options].concat()).exits(0).json()
    };
    let shards = |made: &Json| made["files"].as_array().unwrap().len();
    assert_eq!(shards(&convert("a.tar", &[])), 1);
    assert_eq!(shards(&convert("b.tar", &["--shard-samples", "25"])), 4);
    assert!(shards(&convert("c.tar", &["--shard-size", "20K"])) > 4);
    // Alone, either takes the place of both defaults.
    let many: String = (0..10_500).map(|i| format!("{{\"key\":\"{i}\",\"n\":0}}\n")).collect();
    fs::write(dir.path().join("many.jsonl"), many).unwrap();
    let tar = |to: &str, options: &[&str]| {
        run(&dir, [&["convert", "many.jsonl", to, "--json"], options].concat()).exits(0).json()
    };
    assert_eq!(shards(&tar("d.tar", &[])), 2);
    assert_eq!(shards(&tar("e.tar", &["--shard-size", "1G"])), 1);
    assert_eq!(shards(&tar("f.tar", &["--shard-samples", "20000"])), 1);
    convert("mds", &["--to", "mds", "--shard-samples", "40"]);
    assert_eq!(named(&dir, "mds"), ["mds"]);
    let index = fs::read_to_string(dir.path().join("mds/index.json")).unwrap();
    let index: Json = serde_json::from_str(&index).unwrap();
    let counts: Vec<&Json> =
        index["shards"].as_array().unwrap().iter().map(|shard| &shard["samples"]).collect();
    assert_eq!(counts, [40, 40, 20]);
    convert("mds2", &["--to", "mds", "--shard-size", "1000"]);
    run(&dir, ["convert", "mds2", "back.msgpack", "--key-field", "key"]).exits(0);
    run(&dir, ["diff", "all.msgpack", "back.msgpack"]).exits(0);
}

#[test]
fn shards_of_parts_splits_and_folders_with_splits() {
    let dir = with_samples(100);
    let base = ["convert", "all.jsonl", "x.jsonl", "--shard-samples", "20", "--limit", "90"];
    for part in ["2/2", "1/2"] {
        run(&dir, [&base[..], &["--part", part]].concat()).exits(0);
    }
    let made = run(&dir, ["commit", "x.jsonl"]).exits(0);
    assert!(made.err.contains("x.jsonl: 5 shards: 90 samples"), "{made:?}");
    assert_eq!(named(&dir, "x").len(), 5);
    let text = |stem: &str| {
        let files = named(&dir, stem).into_iter();
        files.map(|name| fs::read_to_string(dir.path().join(name)).unwrap()).collect::<String>()
    };
    let all = fs::read_to_string(dir.path().join("all.jsonl")).unwrap();
    assert_eq!(
        text("x-"),
        all.lines().take(90).map(|line| format!("{line}\n")).collect::<String>()
    );

    let split = ["--split", "a=1,b=1", "--shard-size", "300"];
    run(&dir, [&["convert", "all.jsonl", "s.csv"], &split[..]].concat()).exits(0);
    assert!(named(&dir, "s-a-0").len() > 1 && named(&dir, "s-b-0").len() > 1);
    run(&dir, [&["convert", "all.jsonl", "s.csv"], &split[..]].concat())
        .fails(2, "s-a-00000.csv: exists already");

    fs::create_dir(dir.path().join("words")).unwrap();
    fs::copy(dir.path().join("all.jsonl"), dir.path().join("words/train.jsonl")).unwrap();
    fs::write(dir.path().join("words/test.jsonl"), "{\"key\":\"c\"}\n").unwrap();
    let both = ["convert", "words", "w-{split}.jsonl", "--shard-samples", "60"];
    fs::write(dir.path().join("w-train.jsonl"), "mine").unwrap();
    run(&dir, both).exits(0);
    let made =
        ["w-test-00000.jsonl", "w-train-00000.jsonl", "w-train-00001.jsonl", "w-train.jsonl"];
    assert_eq!(named(&dir, "w-"), made);
    // All of them are looked at before one is made.
    fs::remove_file(dir.path().join("w-test-00000.jsonl")).unwrap();
    run(&dir, both).fails(2, "w-train-0000");
    assert_eq!(named(&dir, "w-"), &made[1..]);
}

#[test]
fn shards_that_make_no_sense_are_refused() {
    let dir = with_samples(3);
    let fails = |args: &[&str], says: &str| {
        run(&dir, [&["convert", "all.msgpack"], args].concat()).fails(2, says)
    };
    fails(
        &["x.npz", "--shard-samples", "2"],
        "--shard-samples is not for npz: a field is one array",
    );
    fails(
        &["x", "--to", "images", "--shard-size", "2K"],
        "--shard-size is not for a folder of images",
    );
    fails(&["x.jsonl", "--shard-samples", "0"], "--shard-samples expected at least 1");
    fails(&["x.jsonl", "--shard-size", "0"], "--shard-size expected at least 1 byte");
    fails(&["x.msgpack", "--shard-samples", "2"], "--shard-samples is for a dataset of many files");
    fails(&["x.jsonl", "--shards", "2"], "--shards is for a dataset of many files");
    let clash =
        ["convert", "all.msgpack", "x.shards.json", "--shards", "2", "--shard-samples", "2"];
    assert!(run(&dir, clash).exits(2).err.contains("cannot be used with"));
    for wrong in ["-1", "1.5", "1K", "99999999999999999999"] {
        let args = ["convert", "all.msgpack", "x.jsonl", "--shard-samples", wrong];
        run(&dir, args).exits(2);
    }
    assert_eq!(named(&dir, "x"), Vec::<String>::new());
}

#[test]
fn shards_of_a_manifest_have_a_number_of_samples() {
    let dir = with_samples(100);
    let args = ["convert", "all.jsonl", "set.shards.json", "--shard-samples", "30"];
    run(&dir, args).exits(0);
    let counts = |stem: &str| {
        let shards = named(&dir, stem).into_iter().filter(|name| name.ends_with(".msgpack"));
        let count = |name: String| run(&dir, ["ls", &name]).quietly().out.lines().count();
        shards.map(count).collect::<Vec<_>>()
    };
    assert_eq!(counts("set-"), [30, 30, 30, 10]);
    run(&dir, ["diff", "set.shards.json", "all.msgpack"]).exits(0);
    for part in ["1/2", "2/2"] {
        let args = ["convert", "all.jsonl", "two.shards.json", "--shard-samples", "30", "--part"];
        run(&dir, [&args[..], &[part]].concat()).exits(0);
    }
    run(&dir, ["commit", "two.shards.json"]).exits(0);
    assert!(counts("two-").iter().all(|count| *count <= 30));
    run(&dir, ["diff", "two.shards.json", "all.msgpack"]).exits(0);
    run(&dir, ["verify", "two.shards.json", "set.shards.json"]).exits(0);
}
