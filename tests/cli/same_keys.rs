//! Keys that are made up are distinct, and where two samples have the same key, what is said loses nothing.

use kiste::format::__private::tfrecord::{encode, example};

use super::*;

/// A tar archive with these files.
fn tar(path: &Path, files: &[(&str, &[u8])]) {
    let mut archive = Vec::new();
    for (name, data) in files {
        let mut header = [0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..107].copy_from_slice(b"0000644");
        header[124..135].copy_from_slice(format!("{:011o}", data.len()).as_bytes());
        header[148..156].copy_from_slice(b"        ");
        header[156] = b'0';
        header[257..263].copy_from_slice(b"ustar\0");
        header[263..265].copy_from_slice(b"00");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        archive.extend_from_slice(&header);
        archive.extend_from_slice(data);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    fs::write(path, archive).unwrap();
}

fn keys(dir: &TempDir, dataset: &str) -> Vec<String> {
    run(dir, ["ls", dataset]).quietly().out.lines().map(str::to_owned).collect()
}

/// A file of one sample, which holds this number, in the format of its name.
fn file_of_one(path: &Path, number: i64) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let mut content = Vec::new();
    match name {
        _ if name.contains(".tfrecord") => {
            let features = [("n", example::Feature::Ints(vec![number]))];
            encode(&example::encode(&features), &mut content);
        }
        _ if name.contains(".jsonl") => content = format!("{{\"n\":{number}}}\n").into_bytes(),
        _ if name.contains(".csv") => content = format!("n,m\n{number},0\n").into_bytes(),
        _ => content = format!("n\tm\n{number}\t0\n").into_bytes(),
    }
    fs::write(path, content).unwrap();
}

#[test]
fn keys_that_are_made_of_the_names_of_files_are_distinct() {
    for (files, expected) in [
        (
            &["train.tfrecord-00000-of-00002", "train.tfrecord-00001-of-00002"][..],
            &[
                "train.tfrecord-00000-of-00002/000000000000",
                "train.tfrecord-00001-of-00002/000000000000",
            ][..],
        ),
        (&["d.0.csv", "d.1.csv"], &["d.0/000000000", "d.1/000000000"]),
        (&["a/d.tsv", "b/c/d.tsv"], &["a/d/000000000", "b/c/d/000000000"]),
        (&["a/data.jsonl", "b/data.jsonl"], &["a/data/000000000", "b/data/000000000"]),
        (
            &["v1.0-train.jsonl", "v1.1-train.jsonl"],
            &["v1.0-train/000000000", "v1.1-train/000000000"],
        ),
        (&["x.jsonl", "y/x.jsonl", "z.jsonl"], &["x/000000000", "y/x/000000000", "z/000000000"]),
        // As ever, where that is right.
        (&["data.jsonl"], &["data/000000000"]),
        (&["train.tfrecord"], &["train/000000000000"]),
        (&["t-0.csv", "t-1.csv"], &["t-0/000000000", "t-1/000000000"]),
    ] {
        let dir = scratch();
        for (number, name) in files.iter().enumerate() {
            file_of_one(&dir.path().join(name), number as i64);
        }
        let convert = |output: &str, options: &[&str]| {
            run(&dir, [&["convert"], files, &[output], options].concat()).exits(0)
        };
        let made = convert("out.msgpack", &["--skip-duplicates"]);
        assert!(!made.err.contains("skipped"), "{made:?}");
        assert_eq!(keys(&dir, "out.msgpack"), expected);
        // Parts, a run that resumes and shards make the same keys.
        convert("parts.msgpack", &["--part", "2/2"]);
        convert("parts.msgpack", &["--part", "1/2"]);
        run(&dir, ["commit", "parts.msgpack"]).exits(0);
        convert("set.shards.json", &["--shards", "2", "--resume"]);
        for made in ["parts.msgpack", "set.shards.json"] {
            assert_eq!(keys(&dir, made), expected, "{made}");
        }
        let plan = run(&dir, [&["convert", "--plan"], files, &["new.msgpack"]].concat()).json();
        let is_new = expected.iter().any(|key| key.contains('.') || key.matches('/').count() > 1);
        let called: Vec<&str> =
            plan["key_names"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
        let names = expected.iter().map(|key| key.rsplit_once('/').unwrap().0);
        assert_eq!(called, if is_new { names.collect() } else { Vec::new() }, "{files:?}");
    }
}

/// The same for formats whose files are fixtures.
#[test]
fn versions_in_names_of_files_are_kept_in_keys() {
    for (fixture, options) in [
        ("pyarrow-26.0.1/types.none.parquet", &[][..]),
        ("pyarrow-26.0.1/types.file.arrow", &[]),
        ("npz-numpy-2.4.6/rows.npz", &[]),
        ("cifar-numpy-2.4.6/ten.bin.gz", &["--from", "cifar10"]),
    ] {
        if fixture.starts_with("pyarrow") && !cfg!(feature = "parquet") {
            continue;
        }
        let dir = scratch();
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(fixture);
        let (_, ending) = fixture.file_name().unwrap().to_str().unwrap().rsplit_once('.').unwrap();
        let names = ["v1.0", "v1.1"].map(|name| format!("{name}.{ending}"));
        for name in &names {
            fs::copy(&fixture, dir.path().join(name)).unwrap();
        }
        let args = ["convert", &names[0], &names[1], "out.msgpack"];
        run(&dir, [&args[..], options].concat()).exits(0);
        let mut found: Vec<String> = keys(&dir, "out.msgpack");
        found.iter_mut().for_each(|key| key.truncate(key.rfind('/').unwrap()));
        found.dedup();
        assert_eq!(found, ["v1.0", "v1.1"], "{ending}");
    }
}

/// Shards of MDS are named alike in every folder.
#[test]
fn folders_of_mds_are_told_apart() {
    let dir = with_words();
    for folder in ["a/train", "b/train"] {
        fs::create_dir_all(dir.path().join(folder).parent().unwrap()).unwrap();
        run(&dir, ["convert", "words.msgpack", folder, "--to", "mds"]).exits(0);
    }
    run(&dir, ["convert", "a/train", "one.msgpack", "--drop", "_key"]).exits(0);
    assert_eq!(keys(&dir, "one.msgpack")[0], "shard.00000/000000");
    run(&dir, ["convert", "a/train", "b/train", "two.msgpack", "--drop", "_key"]).exits(0);
    let keys = keys(&dir, "two.msgpack");
    assert_eq!((keys.len(), &keys[0][..]), (6, "a/train/shard.00000/000000"));
    assert_eq!(keys[3], "b/train/shard.00000/000000");
}

#[test]
fn an_append_to_keys_of_an_earlier_version_is_refused() {
    let dir = scratch();
    file_of_one(&dir.path().join("v1.0-val.jsonl"), 1);
    // As they were: up to the first dot.
    run_with(&dir, ["convert", "-", "old.msgpack"], b"{\"key\":\"v1/000000000\",\"n\":0}\n")
        .exits(0);
    let before = snapshot(dir.path());
    let append = ["convert", "--append", "v1.0-val.jsonl", "old.msgpack"];
    let failed = run(&dir, append).fails(2, "old.msgpack: has the key \"v1/000000000\"");
    assert!(failed.err.contains("hint: --key '{key}' appends"), "{failed:?}");
    assert_eq!(snapshot(dir.path()), before);
    run(&dir, [&append[..], &["--key", "{key}"]].concat()).exits(0);
    assert_eq!(keys(&dir, "old.msgpack"), ["v1/000000000", "v1.0-val/000000000"]);
    // The keys are those of this version now, too.
    file_of_one(&dir.path().join("w.jsonl"), 2);
    run(&dir, ["convert", "--append", "w.jsonl", "old.msgpack"]).exits(0);
}

/// What a hint says is done to the letter, and all samples are there.
#[test]
fn hints_about_keys_lose_nothing() {
    let dir = scratch();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    tar(&dir.path().join("s-0.tar"), &[("0000.txt", b"shard 0")]);
    tar(&dir.path().join("s-1.tar"), &[("0000.txt", b"shard 1")]);
    write("key.jsonl", "{\"key\":\"c\",\"id\":1}\n{\"key\":\"c\",\"id\":2}\n");
    write("id.jsonl", "{\"id\":7,\"n\":1}\n{\"id\":7,\"n\":2}\n");
    write("more.jsonl", "{\"key\":\"c\",\"id\":3}\n");
    run_with(&dir, ["convert", "-", "a.msgpack"], b"{\"key\":\"c\",\"id\":0}\n").exits(0);
    run_with(&dir, ["convert", "-", "b.msgpack"], b"{\"key\":\"c\",\"id\":1}\n").exits(0);
    for (args, cause, hint, option, expected) in [
        (
            &["s-0.tar", "s-1.tar"][..],
            "s-1.tar: key \"0000\": sample 0, from s-0, has the same key and differs",
            "--key '{key.shard}/{key}' puts the name",
            &["--key", "{key.shard}/{key}"][..],
            &["s-0/0000", "s-1/0000"][..],
        ),
        (
            &["a.msgpack", "b.msgpack"],
            "sample 0, from a, has the same key and differs",
            "--key '{key.shard}/{key}' puts the name",
            &["--key", "{key.shard}/{key}"],
            &["a/c", "b/c"],
        ),
        (
            &["key.jsonl"],
            "line 2: sample 0 has the same key, from the field \"key\", and differs",
            "--key-field makes another field the key, --key makes keys from fields",
            &["--key-field", "id"],
            &["1", "2"],
        ),
        (
            &["id.jsonl", "--key-field", "id"],
            "sample 0 has the same key, from the field \"id\", and differs",
            "--key-field makes another field the key, --key makes keys from fields",
            &["--key", "{id}-{n}"],
            &["7-1", "7-2"],
        ),
        (
            &["id.jsonl", "--key", "x{id}"],
            "sample 0 has the same key by the pattern, and differs",
            "--key makes keys from fields",
            &["--key", "{id}-{n}"],
            &["7-1", "7-2"],
        ),
        (
            &["more.jsonl", "--append"],
            "sample 0 was there before, has the same key and differs",
            "--key 'more/{key}' puts a text",
            &["--append", "--key", "more/{key}"],
            &["c", "more/c"],
        ),
    ] {
        let output = if args.contains(&"--append") { "a.msgpack" } else { "out.msgpack" };
        let failed = run(&dir, [&["convert"], args, &[output]].concat()).fails(2, cause);
        assert!(failed.err.contains(&format!("hint: {hint}")) || failed.err.contains(hint));
        assert!(!failed.err.contains("--skip-duplicates"), "{failed:?}");
        let sources = args.iter().take_while(|arg| !arg.starts_with("--")).copied();
        let sources: Vec<&str> = sources.collect();
        run(&dir, [&["convert"], &sources[..], &[output], option].concat()).exits(0);
        assert_eq!(keys(&dir, output), expected);
        if output == "out.msgpack" {
            run(&dir, [&["convert", "-f"], &sources[..], &[output, "--skip-duplicates"]].concat());
        }
        let _ = fs::remove_file(dir.path().join("out.msgpack"));
        for name in names(dir.path()).into_iter().filter(|name| name.starts_with("out.")) {
            fs::remove_file(dir.path().join(name)).unwrap();
        }
    }
}

#[test]
fn skipping_duplicates_is_a_hint_only_where_they_are_the_same() {
    let dir = scratch();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("same.jsonl", "{\"key\":\"a\",\"n\":1}\n{\"key\":\"b\"}\n{\"key\":\"a\",\"n\":1}\n");
    let failed = run(&dir, ["convert", "same.jsonl", "x.msgpack"])
        .fails(2, "line 3: sample 0 has the same key and is the same sample");
    assert!(failed.err.contains("hint: --skip-duplicates keeps the first"), "{failed:?}");
    let made = run(&dir, ["convert", "same.jsonl", "x.msgpack", "--skip-duplicates"]).exits(0);
    assert!(!made.err.contains("differed"), "{made:?}");
    // The same file twice.
    run(&dir, ["convert", "same.jsonl", "same.jsonl", "y.msgpack", "--skip-duplicates"]).exits(0);

    // Those that are not are counted.
    write("other.jsonl", "{\"key\":\"a\",\"n\":2}\n{\"key\":\"b\"}\n{\"key\":\"c\"}\n");
    let args = ["convert", "--append", "other.jsonl", "x.msgpack", "--skip-duplicates", "--json"];
    let made = run(&dir, args).exits(0);
    assert!(
        made.err.contains("skipped 2 samples") && made.err.contains("1 skipped sample differed")
    );
    let json = made.json();
    assert_eq!(
        (&json["skipped_duplicates"], &json["different_duplicates"]),
        (&2.into(), &1.into())
    );
}

/// Files of a sample that are not next to each other are two samples of one key, and no duplicates: in one
/// run, in parts and in shards, with every option.
#[test]
fn a_torn_sample_of_an_archive_is_an_error() {
    let dir = scratch();
    let files: &[(&str, &[u8])] =
        &[("0.img", b"x"), ("1.img", b"y"), ("0.cls", b"0"), ("1.cls", b"1")];
    tar(&dir.path().join("s.tar"), files);
    let says = "s.tar: key \"0\": expected all files of a sample next to each other";
    for options in
        [&[][..], &["--skip-duplicates"], &["--bad", "skip"], &["--split", "a=0.5,b=0.5"]]
    {
        let failed = run(&dir, [&["convert", "s.tar", "x.msgpack"], options].concat());
        let failed = failed.fails(1, "expected all files of a sample next to each other");
        assert!(failed.err.contains(says) || options == ["--split", "a=0.5,b=0.5"], "{failed:?}");
        assert!(failed.err.contains("hint: sort the files"), "{failed:?}");
        assert_eq!(names(dir.path()).iter().filter(|name| name.ends_with("msgpack")).count(), 0);
        let _ = fs::remove_dir_all(dir.path().join("x.msgpack.parts"));
    }
    // Sorted, as the hint says, it is read.
    let mut sorted = files.to_vec();
    sorted.sort_unstable();
    tar(&dir.path().join("s.tar"), &sorted);
    run(&dir, ["convert", "s.tar", "x.msgpack"]).exits(0);
    assert_eq!(run(&dir, ["cat", "x.msgpack", "--jsonl"]).quietly().jsonl()[0]["cls"], 0);

    // Files that repeat are not torn: this archive has a sample twice.
    let twice: &[(&str, &[u8])] = &[("0.cls", b"0"), ("1.cls", b"1"), ("0.cls", b"2")];
    tar(&dir.path().join("t.tar"), twice);
    run(&dir, ["convert", "t.tar", "t.msgpack"])
        .fails(2, "t.tar: key \"0\": sample 0 has the same key and differs");
    let made = run(&dir, ["convert", "t.tar", "t.msgpack", "--skip-duplicates"]).exits(0);
    assert!(made.err.contains("at least 1 skipped sample differed"), "{made:?}");
}

/// Units of an archive are read by different parts, and go to different shards.
#[test]
fn a_sample_that_is_torn_across_parts_is_an_error_too() {
    let dir = scratch();
    let large = vec![7; 5 << 20];
    let files: &[(&str, &[u8])] = &[("0.img", &large), ("1.img", &large), ("0.cls", b"0")];
    tar(&dir.path().join("s.tar"), files);
    for part in ["1/2", "2/2"] {
        let args = ["convert", "s.tar", "x.msgpack", "--skip-duplicates", "--part", part];
        run(&dir, args).exits(0);
    }
    run(&dir, ["commit", "x.msgpack"])
        .fails(1, "expected all files of a sample next to each other");
    let args = ["convert", "s.tar", "x.shards.json", "--shard-size", "6M"];
    run(&dir, args).fails(1, "expected all files of a sample next to each other");
}

#[test]
fn shards_and_parts_of_different_samples_get_a_hint_that_keeps_them() {
    let dir = scratch();
    for n in 0..2 {
        tar(&dir.path().join(format!("s-{n}.tar")), &[("0000.txt", format!("{n}").as_bytes())]);
    }
    let hint = "--key '{key.shard}/{key}'";
    let args = ["convert", "s-0.tar", "s-1.tar", "x.shards.json", "--shards", "2"];
    let failed =
        run(&dir, args).fails(2, "key \"0000\": sample 0 of x-00000.msgpack has the same key");
    assert!(failed.err.contains(hint), "{failed:?}");
    run(&dir, [&args[..], &["--key", "{key.shard}/{key}"]].concat()).exits(0);
    assert_eq!(keys(&dir, "x.shards.json"), ["s-0/0000", "s-1/0000"]);
    for part in ["1/2", "2/2"] {
        run(&dir, ["convert", "s-0.tar", "s-1.tar", "y.msgpack", "--part", part]).exits(0);
    }
    let failed = run(&dir, ["commit", "y.msgpack"]).fails(2, "key \"0000\"");
    assert!(failed.err.contains(hint) && !failed.err.contains("--skip-duplicates"), "{failed:?}");
}

#[test]
fn a_merge_of_different_samples_is_told_apart_from_one_of_the_same() {
    let dir = scratch();
    run_with(&dir, ["convert", "-", "a.msgpack"], b"{\"key\":\"c\",\"n\":0}\n").exits(0);
    run_with(&dir, ["convert", "-", "b.msgpack"], b"{\"key\":\"c\",\"n\":1}\n").exits(0);
    let failed = run(&dir, ["merge", "a.msgpack", "b.msgpack", "m.msgpack"])
        .fails(2, "key \"c\" belongs to two different samples: a.msgpack: sample 0 and b.msgpack");
    assert!(failed.err.contains("--key '{key.shard}/{key}'"), "{failed:?}");
    assert!(!failed.err.contains("--skip-duplicates"), "{failed:?}");
}

/// The name of the shard needs shards.
#[test]
fn a_pattern_with_the_shard_alone_or_without_shards_is_refused() {
    let dir = with_words();
    run(&dir, ["convert", "words.msgpack", "x.msgpack", "--key", "{key.shard}"]).fails(2, "--key ");
    fs::create_dir_all(dir.path().join("p/cat")).unwrap();
    fs::write(dir.path().join("p/cat/1.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    run(&dir, ["convert", "p", "x.msgpack", "--key", "{key.shard}/{key}"])
        .fails(2, "it is from no shard");
}

/// Images of two endings that are the same format get the same ending.
#[test]
fn images_that_would_be_one_file_are_named_and_not_called_bad() {
    let dir = scratch();
    fs::create_dir_all(dir.path().join("d/x")).unwrap();
    for name in ["d/x/a.png", "d/x/a.jpg"] {
        fs::write(dir.path().join(name), b"\x89PNG\r\n\x1a\n").unwrap();
    }
    run(&dir, ["convert", "d", "s.msgpack"]).exits(0);
    let failed = run(&dir, ["convert", "s.msgpack", "out", "--to", "images"]);
    let failed = failed.fails(2, "another sample has the file \"x/a.png\" already");
    assert!(failed.err.contains("--key makes keys") && !failed.err.contains("--bad"), "{failed:?}");
}
