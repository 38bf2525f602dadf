//! `convert` from what other libraries write, and to it.

use super::*;

/// A file of another producer.
fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    path.into_os_string().into_string().unwrap()
}

/// Converts these without saying what they are, and says how many samples that made.
fn samples_of(dir: &TempDir, sources: &[&str], options: &[&str]) -> u64 {
    let out = ["made.msgpack", "--force", "--json"];
    let args = [&["convert"], sources, &out[..], options].concat();
    let made = run(dir, args).exits(0).json();
    run(dir, ["verify", "--deep", "made.msgpack"]).quietly();
    made["samples"].as_u64().unwrap()
}

#[test]
fn what_surely_is_something_need_not_be_named() {
    let dir = scratch();
    fs::write(dir.path().join("t.csv"), "name,age\nann,7\nbob,9\n").unwrap();
    fs::write(dir.path().join("t.tsv"), "name\tage\nann\t7\n").unwrap();
    let (shard, tfrecord) = (data("webdataset-1.0.2/shard-000000.tar"), "tfrecord-1.14.6");
    let (mds, npz) = (data("streaming-0.13.0/ours"), data("npz-numpy-2.4.6/rows.npz"));
    let records = data(&format!("{tfrecord}/some.tfrecord"));
    let zipped = data(&format!("{tfrecord}/some.tfrecord.gz"));
    let all = samples_of(&dir, &[&records], &[]);
    assert!(all > 0);
    assert_eq!(samples_of(&dir, &[&zipped], &[]), all);
    for source in [&shard, &mds, &npz] {
        assert!(samples_of(&dir, &[source], &[]) > 0, "{source}");
    }
    assert_eq!(samples_of(&dir, &["t.csv"], &[]), 2);
    assert_eq!(samples_of(&dir, &["t.tsv"], &["--guess-types"]), 1);
    let sample = run(&dir, ["cat", "--jsonl", "made.msgpack"]).quietly().jsonl();
    assert_eq!(sample[0], serde_json::json!({"key": "t/000000000", "name": "ann", "age": 7}));
}

#[test]
fn several_sources_and_braces_are_read_one_after_the_other() {
    let dir = scratch();
    let both = data("webdataset-1.0.2/shard-{000000..000001}.tar");
    let one = samples_of(&dir, &[&data("webdataset-1.0.2/shard-000000.tar")], &[]);
    assert!(samples_of(&dir, &[&both], &[]) > one);
    for name in ["a", "b"] {
        fs::write(dir.path().join(name).with_extension("jsonl"), format!("{{\"key\":{name:?}}}"))
            .unwrap();
    }
    assert_eq!(samples_of(&dir, &["{b,a}.jsonl"], &[]), 2);
    assert_eq!(run(&dir, ["ls", "made.msgpack"]).quietly().out, "b\na\n");
    let failed = run(&dir, ["convert", "a.jsonl", &both, "x.msgpack"]).fails(2, "is jsonl, but");
    assert!(failed.err.contains("is webdataset"), "{failed:?}");
}

#[test]
fn mnist_and_cifar() {
    let dir = scratch();
    let cifar = |name: &str| data(&format!("cifar-numpy-2.4.6/{name}"));
    let (images, labels) = (cifar("images-idx3-ubyte.gz"), cifar("labels-idx1-ubyte.gz"));
    for sources in [[&images[..], &labels[..]], [&labels, &images]] {
        assert!(samples_of(&dir, &sources, &[]) > 0);
        let label = run(&dir, ["get", "made.msgpack", "--index", "0", "--field", "label"]);
        label.quietly().out.trim().parse::<u8>().unwrap();
    }
    run(&dir, ["convert", &images, &labels, &labels, "x.msgpack"]).fails(2, "found 3 names");
    // Nothing tells the two kinds apart, so none is guessed.
    let ten = cifar("ten_protocol2.gz");
    let failed = run(&dir, ["convert", &ten, "x.msgpack"]).fails(2, "may be CIFAR");
    assert!(failed.err.contains("--from cifar10 or cifar100"), "{failed:?}");
    assert!(samples_of(&dir, &[&ten], &["--from", "cifar10"]) > 0);
    assert!(samples_of(&dir, &[&cifar("hundred.bin.gz")], &["--from", "cifar100"]) > 0);
}

#[test]
fn what_is_not_certain_is_not_guessed() {
    let dir = scratch();
    fs::write(dir.path().join("x.tfrecord"), "twelve bytes and more").unwrap();
    fs::write(dir.path().join("x.npz"), "no zip").unwrap();
    fs::write(dir.path().join("x.bin"), "").unwrap();
    let before = names(dir.path());
    for (source, says) in [
        ("x.tfrecord", "x.tfrecord: named like TFRecord, but its first checksum"),
        ("x.npz", "x.npz: named like npz, but it is no zip archive"),
        ("x.bin", "its name and first bytes do not show"),
        ("nope.tar", "nope.tar: no such file"),
        ("nope-{0..3}.tar", "nope-0.tar: no such file"),
    ] {
        run(&dir, ["convert", source, "new.msgpack"]).fails(2, says);
    }
    let typo = run(&dir, ["convert", "x.bin", "new.msgpack", "--from", "tfrecrd"]).exits(2);
    assert!(typo.err.contains("'tfrecrd'") && typo.err.contains("'tfrecord'"), "{typo:?}");
    // Said wrongly, the reader says what is wrong.
    run(&dir, ["convert", "x.npz", "new.msgpack", "--from", "tfrecord"]).fails(1, "x.npz");
    let csv = ["convert", "x.bin", "new.msgpack", "--from", "csv", "--texts", "a"];
    run(&dir, csv).fails(2, "--texts is for tfrecord, but this is csv");
    run(&dir, ["convert", "x.bin"]).exits(2);
    assert_eq!(names(dir.path()), before);
}

/// The samples of a dataset as JSON lines tell them, which is all of them.
fn lines(dir: &TempDir, name: &str) -> Vec<Json> {
    run(dir, ["cat", "--jsonl", name]).quietly().jsonl()
}

#[test]
fn what_is_lossless_comes_back_as_it_was() {
    let dir = scratch();
    // Names that say what the fields are.
    let input = r#"{"key":"a/1","cls":7,"jpg":{"$bin":"AP8="},"m.json":{"x":[1,2.5,null,true]},"txt":"eins"}
{"key":"a/2","cls":-8,"jpg":{"$bin":""},"m.json":{"x":[]},"txt":""}
"#;
    run_with(&dir, ["convert", "-", "in.msgpack"], input.as_bytes()).exits(0);
    for there in ["out.tar", "out.jsonl"] {
        run(&dir, ["convert", "in.msgpack", there]).exits(0);
        let back = if there == "out.tar" { "out-000000.tar" } else { there };
        run(&dir, ["convert", back, "back.msgpack", "--force"]).exits(0);
        let bytes = |name: &str| fs::read(dir.path().join(name)).unwrap();
        assert_eq!(bytes("in.msgpack"), bytes("back.msgpack"), "{there}");
    }
    assert!(!names(dir.path()).iter().any(|name| name.ends_with(".partial")));
}

#[test]
fn what_is_not_lossless_says_so() {
    let dir = with_words();
    for (there, says) in [
        ("w.tfrecord", "w.tfrecord: field \"text\": strings became bytes (3 values)\n"),
        (
            "folder",
            "folder: the key becomes a field \"key\": --key-field key makes it the key again\n",
        ),
    ] {
        let to: &[&str] = if there == "folder" { &["--to", "mds"] } else { &[] };
        let run_ = run(&dir, [&["convert", "words.msgpack", there, "--json"], to].concat());
        assert!(run_.err.contains(says), "{run_:?}");
        let made = run_.exits(0).json();
        assert_eq!(made["samples"], 3);
        let made = made["files"][0].as_str().unwrap();
        run(&dir, ["convert", made, "back.msgpack", "--force"]).exits(0);
        assert_eq!(lines(&dir, "back.msgpack").len(), 3);
    }
    let raw = "{\"$bin\":\"AP8=\"}";
    let first: Json = serde_json::from_str(raw).unwrap();
    assert_eq!(lines(&dir, "back.msgpack")[0]["raw"], first);
}

#[test]
fn what_a_format_has_no_place_for_is_named_and_nothing_is_left() {
    let dir = with_words();
    fs::write(dir.path().join("dots.jsonl"), "{\"key\":\"../a\",\"n\":1}").unwrap();
    fs::write(dir.path().join("map.jsonl"), "{\"key\":\"a\",\"n\":{\"x\":1}}").unwrap();
    fs::write(dir.path().join("none.jsonl"), "\n").unwrap();
    let before = snapshot(dir.path());
    for (source, there, says) in [
        (
            "words.msgpack",
            "w.npz",
            "key \"a\": bytes 0..28: field \"raw\": expected a number, an array or a string",
        ),
        (
            "dots.jsonl",
            "w.tar",
            "dots.jsonl: key \"../a\": line 1: expected a key that is a relative name",
        ),
        (
            "map.jsonl",
            "w.tfrecord",
            "field \"n\": expected bytes, numbers of 64 bits, or a list of them, found a map",
        ),
        ("none.jsonl", "w.tfrecord", "expected samples to write, found none"),
        ("none.jsonl", "w.tar", "expected samples to write, found none"),
    ] {
        run(&dir, ["convert", source, there]).fails(2, says);
        assert_eq!(snapshot(dir.path()), before);
    }
    run(&dir, ["convert", "words.msgpack", "w", "--to", "tfrecrd"]).exits(2);
}

#[test]
fn what_is_there_is_not_replaced_unasked() {
    let dir = with_words();
    let convert = |there: &str, options: &[&str]| {
        run(&dir, [&["convert", "words.msgpack", there], options].concat())
    };
    for there in ["w.jsonl", "w.tfrecord"] {
        convert(there, &[]).exits(0);
        let failed = convert(there, &[]).fails(2, "exists already");
        assert!(failed.err.contains("hint: --force replaces it"), "{failed:?}");
        convert(there, &["--force"]).exits(0);
    }
    convert("w.tar", &[]).exits(0);
    convert("w.tar", &[]).fails(2, "w-000000.tar: exists already");
    convert("mds", &["--to", "mds"]).exits(0);
    convert("mds", &["--to", "mds"]).fails(2, "mds: exists already");
    convert("w.npz", &["--append"])
        .fails(2, "--append cannot be combined with an output of another format");
    fs::create_dir(dir.path().join("x.jsonl.partial")).unwrap();
    fs::write(dir.path().join("x.jsonl.partial/mine"), "").unwrap();
    let failed = convert("x.jsonl", &[]).fails(2, "x.jsonl.partial: exists already");
    assert!(failed.err.contains("hint: remove or rename it"), "{failed:?}");
}

/// What takes the place of old shards is all that is there then, and nothing else is touched.
#[test]
fn outputs_of_several_files_are_replaced_as_a_whole() {
    let dir = with_words();
    let convert = |there: &str, options: &[&str]| {
        run(&dir, [&["convert", "words.msgpack", there], options].concat())
    };
    // As if the last run had made more of them, next to files of other names.
    for name in ["w-000000.tar", "w-000001.tar", "w-1.tar", "w-x.tar", "ww-000001.tar"] {
        fs::write(dir.path().join(name), "old").unwrap();
    }
    let failed = convert("w.tar", &[]).fails(2, "exists already");
    assert!(failed.err.contains("hint: --force replaces all of them"), "{failed:?}");
    convert("w.tar", &["--force", "--bad", "quarantine"]).exits(0);
    let left = names(dir.path()).into_iter().filter(|name| name.ends_with(".tar"));
    assert_eq!(left.collect::<Vec<_>>(), ["w-000000.tar", "w-1.tar", "w-x.tar", "ww-000001.tar"]);
    assert_ne!(fs::read(dir.path().join("w-000000.tar")).unwrap(), b"old");
    // The same in parts: of the shards that were there, those that the new ones do not replace go.
    for name in ["w-000003.tar", "w-000004.tar"] {
        fs::write(dir.path().join(name), "old").unwrap();
    }
    for part in ["1/2", "2/2"] {
        convert("w.tar", &["--force", "--part", part]).exits(0);
    }
    run(&dir, ["commit", "w.tar"]).exits(0);
    let left = names(dir.path()).into_iter().filter(|name| name.ends_with(".tar"));
    assert_eq!(left.collect::<Vec<_>>(), ["w-000000.tar", "w-1.tar", "w-x.tar", "ww-000001.tar"]);
    run(&dir, ["diff", "w-000000.tar", "words.msgpack"]);
    fs::remove_file(dir.path().join("w.tar.quarantine.jsonl")).ok();

    convert("mds", &["--to", "mds"]).exits(0);
    let first = snapshot(&dir.path().join("mds"));
    fs::write(dir.path().join("mds/shard.00007.mds"), "old").unwrap();
    // An error in the input leaves the old one.
    fs::write(dir.path().join("bad.jsonl"), "{").unwrap();
    let before = (snapshot(&dir.path().join("mds")), names(dir.path()));
    run(&dir, ["convert", "bad.jsonl", "mds", "--to", "mds", "--force"]).exits(1);
    assert_eq!((snapshot(&dir.path().join("mds")), names(dir.path())), before);
    convert("mds", &["--to", "mds", "--force"]).exits(0);
    assert_eq!(snapshot(&dir.path().join("mds")), first);
    for mine in ["mds/mine.txt", "mds/shard.x.mds"] {
        fs::write(dir.path().join(mine), "mine").unwrap();
        convert("mds", &["--to", "mds", "--force"]).fails(2, &format!("{mine}: exists already"));
        fs::remove_file(dir.path().join(mine)).unwrap();
    }
    fs::remove_file(dir.path().join("mds/index.json")).unwrap();
    convert("mds", &["--to", "mds", "--force"]).fails(2, "mds: exists already");
}

#[test]
fn with_names_and_keys_put_back_more_is_lossless() {
    let dir = with_words();
    let original = lines(&dir, "words.msgpack");
    for (there, back, options) in [
        ("w.tar", "w-000000.tar", "--from=webdataset"),
        ("mds", "mds", "--key-field=key"),
        ("w.tfrecord", "w.tfrecord", "--key-field=key --texts=text"),
    ] {
        let to: &[&str] = if there == "mds" { &["--to", "mds"] } else { &[] };
        run(&dir, [&["convert", "words.msgpack", there], to].concat()).exits(0);
        let options: Vec<&str> = options.split(' ').collect();
        let back = ["convert", back, "back.msgpack", "--force"];
        run(&dir, [&back, &options[..]].concat()).exits(0);
        assert_eq!(lines(&dir, "back.msgpack"), original, "{there}");
    }
    let options = ["--drop", "raw"];
    run(&dir, [&["convert", "words.msgpack", "w.npz"], &options[..]].concat()).exits(0);
    run(&dir, ["convert", "w.npz", "back.msgpack", "--force", "--key-field", "key"]).exits(0);
    run(&dir, [&["convert", "words.msgpack", "less.msgpack"], &options[..]].concat()).exits(0);
    assert_eq!(lines(&dir, "back.msgpack"), lines(&dir, "less.msgpack"));
}

#[test]
fn fields_are_chosen_and_renamed() {
    let dir = with_words();
    let convert = |options: &[&str]| {
        run(&dir, [&["convert", "words.msgpack", "new.msgpack", "--force"], options].concat())
    };
    convert(&["--fields", "n,text", "--rename", "n=number", "--limit", "2"]).exits(0);
    assert_eq!(
        lines(&dir, "new.msgpack"),
        [
            serde_json::json!({"key": "a", "number": 1, "text": "eins"}),
            serde_json::json!({"key": "b", "number": 2, "text": "zwei"}),
        ]
    );
    convert(&["--drop", "n,raw", "--key-field", "text"]).exits(0);
    assert_eq!(run(&dir, ["cat", "--jsonl", "new.msgpack"]).quietly().out.lines().count(), 3);
    assert_eq!(run(&dir, ["ls", "new.msgpack"]).quietly().out, "eins\nzwei\ndrei\n");
    run(&dir, ["verify", "--deep", "new.msgpack"]).quietly();
    convert(&["--limit", "0"]).exits(0);
    assert_eq!(run(&dir, ["ls", "new.msgpack"]).quietly().out, "");

    let before = snapshot(dir.path());
    convert(&["--drop", "nn"]).fails(2, "no sample has a field \"nn\"");
    convert(&["--rename", "n=text"]).fails(2, "two fields would be named \"text\"");
    let unknown = convert(&["--key-field", "nn"]);
    let unknown = unknown.fails(2, "there is no field \"nn\" to be the key, only ");
    assert!(unknown.err.contains("text"), "{unknown:?}");
    convert(&["--drop", "key"]).fails(2, "the key can be neither dropped nor renamed");
    convert(&["--rename", "n"]).exits(2);
    convert(&["--rename", "n=key"]).exits(2);
    assert_eq!(snapshot(dir.path()), before);
}

#[test]
fn a_dry_run_says_what_becomes_of_each_field() {
    let dir = with_words();
    let before = snapshot(dir.path());
    for (to, expected) in [
        (
            "tfrecord",
            &[
                "key\tstr\tbytes\tthe key again with --key-field key",
                "text\tstr\tbytes\tchanged: strings become bytes",
            ],
        ),
        ("webdataset", &["n\tint\tint\tunchanged", "text\tstr\tstr\tunchanged"]),
        ("mds", &["key\tstr\tstr\tthe key again with --key-field key", "n\tint\tint\tunchanged"]),
        ("dataset", &["key\tstr\tstr\tunchanged", "raw\tbytes\tbytes\tunchanged"]),
    ] {
        let out = run(&dir, ["convert", "words.msgpack", "new", "--dry-run", "--to", to]).quietly();
        for line in expected {
            assert!(out.out.lines().any(|found| found == *line), "{line:?} in {out:#?}");
        }
    }
    let refused = ["convert", "words.msgpack", "new.npz", "--dry-run"];
    let refused =
        run(&dir, refused).fails(2, "field \"raw\": expected a number, an array or a string");
    let row = "raw\tbytes\t-\tcannot be carried: expected a number, an array or a string";
    assert!(refused.out.lines().any(|line| line.starts_with(row)), "{refused:?}");
    assert!(refused.out.lines().any(|line| line.starts_with("text\tstr\tstr\t")), "{refused:?}");
    let others = ["convert", "words.msgpack", "new.npz", "--dry-run", "--fields", "text"];
    assert!(!run(&dir, others).exits(0).out.contains("raw"));
    assert_eq!(snapshot(dir.path()), before);
}

#[test]
fn keys_are_made_of_keys_and_fields() {
    let dir = scratch();
    run(&dir, ["demo", "."]).exits(0);
    run(&dir, ["convert", "digits.msgpack", "d.tar", "--key", "{key.stem}"]).exits(0);
    run(&dir, ["convert", "d-000000.tar", "back.msgpack", "--key", "{key}.png"]).exits(0);
    let bytes = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert!(bytes("digits.msgpack") == bytes("back.msgpack"));

    let some = ["convert", "digits.msgpack", "some.msgpack", "--limit", "1", "--force", "--key"];
    let key = |pattern: &str| run(&dir, [&some[..], &[pattern]].concat());
    key("{label}/{key.name}").exits(0);
    assert_eq!(run(&dir, ["ls", "some.msgpack"]).quietly().out, "0/0000.png\n");
    key("{nothing}").fails(2, "there is no field \"nothing\" for the key");
    key("{image}").fails(2, "the field \"image\" is neither text nor an integer");
    assert!(key("same").exits(2).err.contains("all keys would be the same"));
}

#[test]
fn names_of_what_cannot_be_made_are_refused() {
    let dir = with_words();
    let before = snapshot(dir.path());
    for (name, says) in [
        ("z.tar.gz", "compressed outputs cannot"),
        ("z.jsonl.zst", "compressed outputs cannot"),
        ("z.ZIP", "compressed outputs cannot"),
        ("z.tsv", "TSV cannot be written"),
        ("z.npy", "npz can"),
        ("z.json", "only be written as JSON lines"),
        ("-", "nothing is written to a pipe"),
    ] {
        run(&dir, ["convert", "words.msgpack", name]).fails(2, says);
    }
    assert_eq!(snapshot(dir.path()), before);
    run(&dir, ["convert", "words.msgpack", "z.zip", "--to", "dataset"]).exits(0);
    run(&dir, ["verify", "z.zip"]).exits(0);
}

#[test]
fn records_that_are_compressed_need_not_be_named() {
    let dir = scratch();
    let records = fs::read(data("tfrecord-1.14.6/some.tfrecord")).unwrap();
    let mut zipped = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    std::io::Write::write_all(&mut zipped, &records).unwrap();
    fs::write(dir.path().join("x.tfrecord.bz2"), zipped.finish().unwrap()).unwrap();
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let zipped = ruzstd::encoding::compress_to_vec(&records[..], level);
    fs::write(dir.path().join("x.tfrecord.zst"), zipped).unwrap();
    let all = samples_of(&dir, &[&data("tfrecord-1.14.6/some.tfrecord")], &[]);
    for name in ["x.tfrecord.bz2", "x.tfrecord.zst"] {
        assert_eq!(samples_of(&dir, &[name], &[]), all, "{name}");
    }
}

#[test]
fn a_dry_run_can_be_read_by_programs() {
    let dir = with_words();
    let args = ["convert", "words.msgpack", "w.tar", "--dry-run", "--json"];
    let tried = run(&dir, args).exits(0).json();
    let fields = tried["fields"].as_array().unwrap();
    let key = fields.iter().find(|field| field["field"] == "key").unwrap();
    assert_eq!((&key["outcome"], &key["becomes"]), (&"same".into(), &"key".into()));
    assert!(fields.iter().all(|field| field["types"].is_string()), "{tried}");
    assert!(!dir.path().join("w-000000.tar").exists());
}

#[test]
fn what_is_no_input_is_told_from_what_could_be_one() {
    let dir = with_words();
    fs::write(dir.path().join("cat.jpg"), b"\xff\xd8\xff\xe0").unwrap();
    let failed = run(&dir, ["convert", "cat.jpg", "x.msgpack"])
        .fails(2, "cat.jpg: this is one image, which is no set of samples");
    assert!(failed.err.contains("hint: images are read from the folder"), "{failed:?}");
    for url in ["ftp://host/a.jsonl", "hdfs://host/x.tar"] {
        run(&dir, ["convert", url, "x.msgpack"]).fails(2, "expected");
    }
    run(&dir, ["convert", "words.msgpack", "x.msgpack", "--key", "same"])
        .fails(2, "--key expected {key} or {FIELD} in it");
    let listed = "{\"key\":\"a\",\"tags\":[1]}\n";
    run_with(&dir, ["convert", "-", "tags.msgpack"], listed.as_bytes()).exits(0);
    let failed = run(&dir, ["convert", "tags.msgpack", "x.csv"]).exits(2);
    assert!(failed.err.contains("hint: --drop tags leaves the field out"), "{failed:?}");
    if cfg!(feature = "images") {
        let wrong = ["convert", "words.msgpack", "x.msgpack", "--resize", "10x"];
        let failed = run(&dir, wrong).exits(2);
        let says = "'--resize <SIZE>': expected a size such as 640x480";
        assert!(failed.err.contains(says), "{failed:?}");
    }
}
