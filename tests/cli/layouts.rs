//! `convert` from folders as people have them: splits, shards at any depth, values in the names of folders.

use std::io::Write as _;

use super::*;

/// Begins and ends as a picture does.
pub(super) const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\0IEND\xae\x42\x60\x82";

/// Files with these contents.
pub(super) fn with_files(files: &[(&str, &[u8])]) -> TempDir {
    let dir = scratch();
    for (name, content) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    dir
}

/// Images of these names; each holds its name.
fn with_images(names: &[&str]) -> TempDir {
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, name.as_bytes())).collect();
    with_files(&files)
}

fn zip_of(path: &Path, files: &[(&str, &[u8])]) {
    let mut zip = zip::ZipWriter::new(fs::File::create(path).unwrap());
    for (name, content) in files {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap();
}

/// The samples of a dataset.
#[track_caller]
pub(super) fn samples(dir: &TempDir, name: &str) -> Vec<Json> {
    run(dir, ["verify", "--deep", name]).quietly();
    run(dir, ["cat", "--jsonl", name]).quietly().jsonl()
}

#[track_caller]
fn keys(dir: &TempDir, name: &str) -> Vec<String> {
    run(dir, ["ls", name]).quietly().out.lines().map(str::to_owned).collect()
}

/// The commands that an error proposes, as a shell would run them.
#[track_caller]
fn proposed(failed: &Run) -> Vec<Vec<String>> {
    let lines = failed.err.lines().filter_map(|line| line.trim().strip_prefix("kiste convert"));
    let words = |line: &str| {
        let words = line.split_whitespace().map(|word| word.replace('\'', ""));
        std::iter::once("convert".to_owned()).chain(words).collect()
    };
    let lines: Vec<Vec<String>> = lines.map(words).collect();
    assert_eq!(lines.len(), 3, "{failed:?}");
    lines
}

const SPLIT: [&str; 7] = [
    "data/train/cat/0.png",
    "data/train/cat/1.png",
    "data/train/dog/0.png",
    "data/val/dog/0.png",
    "data/val/emu/0.png",
    "data/test/0.png",
    "data/test/1.png",
];

/// Without an option nothing is mixed and nothing written; each line that is proposed does what it says.
#[test]
fn splits_of_images_are_found_and_never_labels() {
    let dir = with_images(&SPLIT);
    let files: Vec<(String, &[u8])> =
        (SPLIT.iter()).map(|name| (name.replace("data/", "top/data/"), name.as_bytes())).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, of)| (&**name, *of)).collect();
    zip_of(&dir.path().join("data.zip"), &files);
    for source in ["data", "data.zip"] {
        let failed = run(&dir, ["convert", source, "out.msgpack"])
            .fails(2, "has 3 splits, which are not mixed: test, train, val");
        let [one, each, merged] = &proposed(&failed)[..] else { panic!("{failed:?}") };
        assert!(!dir.path().join("out.msgpack").exists(), "{source}");

        run(&dir, one).exits(0);
        assert_eq!(keys(&dir, "out.msgpack"), ["0.png", "1.png"], "{source}");
        run(&dir, each).exits(0);
        let labels = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap_or_default();
        for (split, expected) in [
            ("train", &[("cat/0.png", 0), ("cat/1.png", 0), ("dog/0.png", 1)][..]),
            ("val", &[("dog/0.png", 1), ("emu/0.png", 2)]),
        ] {
            let name = format!("out-{split}.msgpack");
            let found = samples(&dir, &name);
            let found: Vec<_> = (found.iter())
                .map(|sample| (sample["key"].as_str().unwrap(), sample["label"].as_u64().unwrap()))
                .collect();
            assert_eq!(found, expected, "{source}");
            assert_eq!(labels(&format!("{name}.labels")), "cat\ndog\nemu\n", "{source}");
        }
        assert_eq!(keys(&dir, "out-test.msgpack"), ["0.png", "1.png"], "{source}");
        assert!(samples(&dir, "out-test.msgpack").iter().all(|sample| sample["label"].is_null()));

        run(&dir, merged.iter().map(String::as_str).chain(["--force"])).exits(0);
        let found = samples(&dir, "out.msgpack");
        assert_eq!(found.len(), SPLIT.len());
        for sample in &found {
            let (key, split) = (sample["key"].as_str().unwrap(), sample["split"].as_str().unwrap());
            assert!(key.starts_with(&format!("{split}/")), "{sample}");
            assert_eq!(sample["label"].is_null(), split == "test", "{sample}");
        }
        assert_eq!(labels("out.msgpack.labels"), "cat\ndog\nemu\n");
        for name in ["out", "out-train", "out-val", "out-test"] {
            for file in fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()) {
                let text = file.file_name().unwrap().to_str().unwrap();
                if text.starts_with(&format!("{name}.msgpack")) {
                    fs::remove_file(file).unwrap();
                }
            }
        }
    }
    // The labels may be where the splits are, if an option says so.
    run(&dir, ["convert", "data", "labels.msgpack", "--pattern", "{LABEL}/**"]).exits(0);
    assert_eq!(keys(&dir, "labels.msgpack").len(), SPLIT.len());
}

#[test]
fn one_split_alone_needs_no_option() {
    let dir =
        with_images(&["p/train/cat/0.png", "p/train/dog/0.png", "v/plane/0.png", "v/train/0.png"]);
    run(&dir, ["convert", "p", "p.msgpack"]).exits(0);
    assert_eq!(keys(&dir, "p.msgpack"), ["cat/0.png", "dog/0.png"]);
    // Vehicles.
    run(&dir, ["convert", "v", "v.msgpack"]).exits(0);
    assert_eq!(keys(&dir, "v.msgpack"), ["plane/0.png", "train/0.png"]);
}

#[test]
fn names_of_splits_are_checked() {
    let dir = with_files(&[
        ("d/train.jsonl", b"{\"key\":\"a\"}\n"),
        ("d/test.jsonl", b"{\"key\":\"b\"}\n"),
        ("x.jsonl", b"{\"key\":\"c\"}\n"),
    ]);
    for (args, says) in [
        (
            &["d", "--splits", "dev"][..],
            "--splits asks for \"dev\", but the source only has test, train",
        ),
        (
            &["x.jsonl", "--splits", "train"],
            "--splits asks for \"train\", but the source has no splits",
        ),
        (&["x.jsonl", "--merge-splits"], "--merge-splits is for sources that have splits"),
        (&["d", "--splits", "train,test"], "has 2 splits, which are not mixed"),
    ] {
        run(&dir, [&["convert"], args, &["out.msgpack"]].concat()).fails(2, says);
    }
    run(&dir, ["convert", "x.jsonl", "o-{split}.msgpack"])
        .fails(2, "x.jsonl: expected splits for {split}");
    run(&dir, ["convert", "d", "o-{split}.msgpack", "--dry-run"])
        .fails(2, "{split} is the name of one split of several");
    // An output that is there is known before any is written.
    fs::write(dir.path().join("o-train.msgpack"), "x").unwrap();
    run(&dir, ["convert", "d", "o-{split}.msgpack"]).fails(2, "o-train.msgpack");
    assert!(!dir.path().join("o-test.msgpack").exists());
    let done =
        run(&dir, ["convert", "d", "o-{split}.msgpack", "--splits", "test", "--json"]).exits(0);
    assert_eq!(done.json()["samples"], 1);
    for part in ["2/2", "1/2"] {
        run(&dir, ["convert", "d", "p-{split}.msgpack", "--part", part]).exits(0);
    }
    for split in ["train", "test"] {
        run(&dir, ["commit", &format!("p-{split}.msgpack")]).exits(0);
        assert_eq!(samples(&dir, &format!("p-{split}.msgpack")).len(), 1);
    }
    let both =
        run(&dir, ["convert", "d", "o-{split}.msgpack", "--force", "--json"]).exits(0).json();
    assert_eq!((&both[0]["file"], &both[1]["samples"]), (&"o-test.msgpack".into(), &1.into()));
    // Files that are named one by one are read as they are named, with a warning.
    let done = run(&dir, ["convert", "d/train.jsonl", "d/test.jsonl", "both.msgpack"]).exits(0);
    assert!(
        done.err.contains("2 splits named together read as one dataset, first: d/train.jsonl"),
        "{done:?}"
    );
    assert_eq!(keys(&dir, "both.msgpack"), ["a", "b"]);
}

/// One sample in a file of each format, in folders.
fn shards(dir: &TempDir, ending: &str, names: &[&str]) {
    for (n, name) in names.iter().enumerate() {
        let row = format!("{{\"key\":\"{n}\",\"n\":{n}}}\n");
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let made = match ending {
            "tar" => "made.tar".to_owned(),
            "mds" => name.to_string(),
            _ => format!("{name}.{ending}"),
        };
        let to = if ending == "mds" { &["--to", "mds"][..] } else { &[] };
        run_with(dir, [&["convert", "-", &made], to].concat(), row.as_bytes()).exits(0);
        if ending == "tar" {
            fs::rename(dir.path().join("made-000000.tar"), dir.path().join(format!("{name}.tar")))
                .unwrap();
        }
    }
}

const FORMATS: [&str; 9] =
    ["jsonl", "csv", "tfrecord", "tar", "npz", "mds", "msgpack", "parquet", "arrow"];

fn is_here(ending: &str) -> bool {
    cfg!(feature = "parquet") || !matches!(ending, "parquet" | "arrow")
}

/// At any depth; in one run, in parts, and resumed, as if the files had been named.
#[test]
fn a_folder_of_shards_is_its_shards() {
    for ending in FORMATS.into_iter().filter(|ending| is_here(ending)) {
        let dir = scratch();
        shards(&dir, ending, &["d/a/x-0", "d/a/x-1", "d/b/deep/x-0", "d/x-10"]);
        for noise in ["d/README.md", "d/_SUCCESS", "d/.hidden.jsonl", "d/a/notes.txt"] {
            fs::write(dir.path().join(noise), "x").unwrap();
        }
        let done = run(&dir, ["convert", "d", "out.msgpack"]).exits(0);
        assert!(
            done.err.contains("1 file of another kind left out, first: d/a/notes.txt"),
            "{ending} {done:?}"
        );
        let found = samples(&dir, "out.msgpack");
        let numbers: Vec<String> = found.iter().map(|sample| sample["n"].to_string()).collect();
        let numbers: Vec<&str> = numbers.iter().map(|n| n.trim_matches('"')).collect();
        assert_eq!(numbers, ["0", "1", "2", "3"], "{ending}");
        let from = if ending == "tar" {
            "webdataset"
        } else if ending == "msgpack" {
            "dataset"
        } else {
            ending
        };
        run(&dir, ["convert", "d", "same.msgpack", "--from", from]).exits(0);
        let bytes = |name: &str| fs::read(dir.path().join(name)).unwrap();
        assert_eq!(bytes("out.msgpack"), bytes("same.msgpack"), "{ending}");
        for part in ["2/2", "1/2"] {
            run(&dir, ["convert", "d", "parts.msgpack", "--part", part]).exits(0);
        }
        run(&dir, ["commit", "parts.msgpack"]).exits(0);
        assert_eq!(bytes("out.msgpack"), bytes("parts.msgpack"), "{ending}");
        // Two folders.
        run(&dir, ["convert", "d/a", "d/b", "two.msgpack"]).exits(0);
        assert_eq!(samples(&dir, "two.msgpack").len(), 3, "{ending}");
    }
}

#[test]
fn splits_are_folders_or_words_in_names_of_files() {
    for ending in FORMATS.into_iter().filter(|ending| is_here(ending)) {
        for names in [
            [
                "d/data/train-00000-of-00002",
                "d/data/train-00001-of-00002",
                "d/data/test-00000-of-00001",
            ],
            ["d/train/x-0", "d/train/x-1", "d/test/x-0"],
        ] {
            let dir = scratch();
            shards(&dir, ending, &names);
            let failed = run(&dir, ["convert", "d", "out.msgpack"])
                .fails(2, "has 2 splits, which are not mixed: test, train");
            for line in &proposed(&failed)[1..] {
                run(&dir, line).exits(0);
            }
            assert_eq!(samples(&dir, "out-train.msgpack").len(), 2, "{ending}");
            assert_eq!(samples(&dir, "out-test.msgpack").len(), 1, "{ending}");
            let merged = samples(&dir, "out.msgpack");
            let splits: Vec<&str> =
                merged.iter().map(|sample| sample["split"].as_str().unwrap()).collect();
            assert_eq!(splits, ["test", "train", "train"], "{ending}");
            assert!(merged[0]["key"].as_str().unwrap().starts_with("test/"), "{merged:?}");
            // One split, and the folder of one.
            run(&dir, ["convert", "d", "one.msgpack", "--splits", "train"]).exits(0);
            let bytes = |name: &str| fs::read(dir.path().join(name)).unwrap();
            assert_eq!(bytes("one.msgpack"), bytes("out-train.msgpack"), "{ending}");
        }
    }
}

/// What `DatasetDict.save_to_disk` of Hugging Face writes.
#[cfg(feature = "parquet")]
#[test]
fn a_saved_dataset_dict_has_the_splits_that_it_lists() {
    let dir = scratch();
    shards(&dir, "arrow", &["d/sft/data-00000-of-00001", "d/held_out/data-00000-of-00001"]);
    for split in ["sft", "held_out"] {
        let state = r#"{"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}"#;
        fs::write(dir.path().join(format!("d/{split}/state.json")), state).unwrap();
        fs::write(dir.path().join(format!("d/{split}/dataset_info.json")), "{}").unwrap();
        fs::write(dir.path().join(format!("d/{split}/cache-1.arrow")), "left over").unwrap();
    }
    fs::write(dir.path().join("d/dataset_dict.json"), r#"{"splits": ["sft", "held_out"]}"#)
        .unwrap();
    run(&dir, ["convert", "d", "out.msgpack"])
        .fails(2, "has 2 splits, which are not mixed: held_out, sft");
    run(&dir, ["convert", "d", "o-{split}.msgpack"]).exits(0);
    assert_eq!(samples(&dir, "o-sft.msgpack")[0]["n"], 0);
    assert_eq!(samples(&dir, "o-held_out.msgpack")[0]["n"], 1);
    fs::write(dir.path().join("d/dataset_dict.json"), r#"{"splits": ["../x", "held_out"]}"#)
        .unwrap();
    run(&dir, ["convert", "d", "p-{split}.msgpack"])
        .fails(1, "lists a split \"../x\", but the folder");
    fs::write(dir.path().join("d/dataset_dict.json"), "[]").unwrap();
    run(&dir, ["convert", "d", "q.msgpack"])
        .fails(1, "d/dataset_dict.json: expected the names of splits");
}

/// As Spark, Hive, pyarrow and polars lay tables out.
#[test]
fn values_in_the_names_of_folders_are_fields() {
    for ending in FORMATS.into_iter().filter(|ending| is_here(ending) && *ending != "mds") {
        let dir = scratch();
        let names = [
            "t/label=cat/year=2024/x",
            "t/label=a%2Fb/year=2023/x",
            "t/label=__HIVE_DEFAULT_PARTITION__/year=1/x",
        ];
        shards(&dir, ending, &names);
        let expected = [("a/b".into(), 2023), ("cat".into(), 2024), (Json::Null, 1)];
        let read = |sources: &[&str]| {
            run(&dir, [&["convert"], sources, &["out.msgpack", "--force"]].concat()).exits(0);
            let mut found: Vec<(Json, i64)> = (samples(&dir, "out.msgpack").iter())
                .map(|sample| (sample["label"].clone(), sample["year"].as_i64().unwrap()))
                .collect();
            found.sort_by_key(|(label, _)| label.as_str().unwrap_or("~").to_owned());
            found
        };
        assert_eq!(read(&["t"]), expected, "{ending}");
        let files: Vec<String> = names.iter().map(|name| format!("{name}.{ending}")).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        assert_eq!(read(&files), expected, "{ending}");
    }
    // Also where the file has the column itself; unless that says something else.
    let dir = with_files(&[
        ("t/n=1/a.jsonl", b"{\"key\":\"a\",\"n\":1}\n"),
        ("t/n=2/b.jsonl", b"{\"key\":\"b\",\"n\":3}\n"),
    ]);
    run(&dir, ["convert", "t", "out.msgpack"])
        .fails(2, "expected \"2\" as its folder or split says, found another value");
    let done = run(&dir, ["convert", "t", "out.msgpack", "--bad", "skip"]).exits(1);
    assert!(done.err.contains("left out 1 bad sample"), "{done:?}");
    assert_eq!(samples(&dir, "out.msgpack")[0], serde_json::json!({"key": "a", "n": 1}));
}

/// As `numpy.savez` writes `x_train`, `y_train` and so on; Keras' MNIST and MedMNIST come so.
#[test]
fn arrays_of_splits_in_one_archive() {
    let npy = |shape: &str, data: &[u8]| {
        let mut header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}");
        while (header.len() + 11) % 64 != 0 {
            header.push(' ');
        }
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend(((header.len() + 1) as u16).to_le_bytes());
        file.extend(header.as_bytes());
        file.push(b'\n');
        file.extend(data);
        file
    };
    let dir = scratch();
    for (name, fields) in [
        ("keras", ["x_train", "y_train", "x_test", "y_test"]),
        ("med", ["train_x", "train_y", "test_x", "test_y"]),
    ] {
        let arrays = [
            npy("(3, 2)", &[0, 1, 2, 3, 4, 5]),
            npy("(3,)", &[7, 8, 9]),
            npy("(1, 2)", &[6, 7]),
            npy("(1,)", &[5]),
        ];
        let names: Vec<String> = fields.iter().map(|name| format!("{name}.npy")).collect();
        let mut files: Vec<(&str, &[u8])> =
            names.iter().map(|name| &**name).zip(arrays.iter().map(|array| &**array)).collect();
        zip_of(&dir.path().join(format!("{name}.npz")), &files);
        let source = &format!("{name}.npz")[..];
        let failed = run(&dir, ["convert", source, "out.msgpack"])
            .fails(2, "has 2 splits, which are not mixed: t");
        for line in &proposed(&failed)[1..] {
            run(&dir, line.iter().map(String::as_str).chain(["--force"])).exits(0);
        }
        let labels = |file: &str| {
            samples(&dir, file)
                .iter()
                .map(|sample| sample["y"].as_u64().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (labels("out-train.msgpack"), labels("out-test.msgpack")),
            (vec![7, 8, 9], vec![5])
        );
        assert_eq!(labels("out.msgpack").len(), 4);
        run(&dir, ["convert", source, "y.msgpack", "--splits", "test", "--fields", "y", "--force"])
            .exits(0);
        assert_eq!(
            samples(&dir, "y.msgpack"),
            [serde_json::json!({"key": format!("{name}/000000"), "y": 5})]
        );
        // As before: arrays by their own names.
        let own = fields[..2].join(",");
        run(&dir, ["convert", source, "own.msgpack", "--fields", &own, "--force"]).exits(0);
        assert_eq!(samples(&dir, "own.msgpack").len(), 3);
        // An array of no split, until it is left out.
        let mean = npy("(1, 2)", &[0, 0]);
        files.push(("mean.npy", &mean));
        zip_of(&dir.path().join("mean.npz"), &files);
        run(&dir, ["convert", "mean.npz", "m.msgpack", "--splits", "train"])
            .fails(2, "the source has no splits");
        run(
            &dir,
            ["convert", "mean.npz", "m.msgpack", "--splits", "train", "--drop", "mean", "--force"],
        )
        .exits(0);
        assert_eq!(samples(&dir, "m.msgpack").len(), 3);
        fs::remove_file(dir.path().join("m.msgpack")).unwrap();
        for entry in fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.to_str().unwrap().contains("/m.msgpack.") {
                fs::remove_file(entry).unwrap();
            }
        }
    }
}

#[test]
fn what_a_folder_is_is_said_where_it_is_not_certain() {
    let dir = with_files(&[
        ("mixed/a.jsonl", b"{\"key\":\"a\"}\n"),
        ("mixed/sub/b.csv", b"x\n1\n"),
        ("both/a.png", PNG),
        ("both/b.parquet", b"PAR1"),
        ("delta/_delta_log/0.json", b"{}"),
        ("delta/part-0.parquet", b"PAR1"),
        ("many/set.shards.json", b"{}"),
        ("many/set-00000.msgpack", b""),
        ("lost/shard.00000.mds", b""),
        ("torn/index.json", b"{"),
        ("torn/shard.00000.mds", b""),
        ("part/train.jsonl", b"{\"key\":\"a\"}\n"),
        ("part/test.jsonl", b"{\"key\":\"b\"}\n"),
        ("part/extra.jsonl", b"{\"key\":\"c\"}\n"),
        ("photos/cat/0.png", PNG),
        ("photos/boxes.csv", b"a\n1\n"),
        ("none/notes.bin", b"x"),
    ]);
    for (source, code, says) in [
        (
            "mixed",
            2,
            "mixed: expected files of one format, found csv (mixed/sub/b.csv), jsonl (mixed/a.jsonl)",
        ),
        ("both", 2, "both: holds images, and files of parquet such as both/b.parquet"),
        ("delta", 2, "delta: a Delta table: its log says which of its files are current"),
        (
            "many",
            2,
            "many/set.shards.json: lists the shards of a dataset, so the folder is not read",
        ),
        (
            "lost",
            2,
            "lost/shard.00000.mds: expected an index.json next to it, as shards of MDS have, found none",
        ),
        ("torn", 1, "torn/index.json: "),
        (
            "part",
            2,
            "part/extra.jsonl: expected a file of one of the splits test, train, found another",
        ),
        (
            "none",
            2,
            "none: expected folders of images ({label}/name.ext), found 1 other file such as notes.bin",
        ),
    ] {
        run(&dir, ["convert", source, "out.msgpack"]).fails(code, says);
    }
    // The format that is named is the one that is read.
    let done = run(&dir, ["convert", "mixed", "m.msgpack", "--from", "jsonl"]).exits(0);
    assert!(
        done.err.contains("1 file of another kind left out, first: mixed/sub/b.csv"),
        "{done:?}"
    );
    run(&dir, ["convert", "part", "p.msgpack", "--from", "jsonl", "--splits", "train"]).exits(2);
    let done = run(&dir, ["convert", "photos", "i.msgpack"]).exits(0);
    assert!(
        done.err.contains("1 file of another kind left out, first: photos/boxes.csv"),
        "{done:?}"
    );
}

/// Sound, films and texts are fields of these names.
#[test]
fn a_folder_of_other_media_is_what_its_files_are() {
    let png = "images/cat/0.png";
    let dir = with_files(&[
        ("sound/cat/0.wav", b"RIFF"),
        ("sound/dog/1.FLAC", b"fLaC"),
        ("sound/dog/notes.txt", b"x"),
        ("film/a.mp4", b"ftyp"),
        ("text/neg/0.txt", "\u{feff}schlecht".as_bytes()),
        ("text/pos/1.txt", b"good\n"),
        ("latin/pos/1.txt", b"gr\xfc\xdfe aus K\xf6ln"),
        (png, PNG),
        ("images/cat/0.txt", b"a caption"),
        ("marked/train/cat/0.wav", b"RIFF"),
        ("marked/test/dog/0.wav", b"RIFF"),
    ]);
    let read = |source: &str| {
        run(&dir, ["convert", source, "out.msgpack", "--force"]).exits(0);
        samples(&dir, "out.msgpack")
    };
    let sound = read("sound");
    assert_eq!(
        sound[0],
        serde_json::json!({"key": "cat/0.wav", "audio": {"$bin": "UklGRg=="}, "label": 0})
    );
    assert_eq!((&sound[1]["key"], &sound[1]["label"]), (&"dog/1.FLAC".into(), &1.into()));
    let film = read("film");
    assert_eq!(film, [serde_json::json!({"key": "a.mp4", "video": {"$bin": "ZnR5cA=="}})]);
    let text = read("text");
    assert_eq!(text[0], serde_json::json!({"key": "neg/0.txt", "text": "schlecht", "label": 0}));
    assert_eq!((&text[1]["text"], &text[1]["label"]), (&"good\n".into(), &1.into()));
    run(&dir, ["convert", "latin", "l.msgpack"]).fails(1, "latin/pos/1.txt: expected UTF-8, found");
    // Images, if there are some.
    assert_eq!(read("images").len(), 1);
    run(&dir, ["convert", "marked", "m.msgpack"])
        .fails(2, "has 2 splits, which are not mixed: test, train");
    run(&dir, ["convert", "marked", "m-{split}.msgpack"]).exits(0);
    assert_eq!(samples(&dir, "m-train.msgpack")[0]["label"], 0);
    assert_eq!(samples(&dir, "m-test.msgpack")[0]["label"], 1);
    // In archives, and where an option asks for them.
    zip_of(
        &dir.path().join("s.zip"),
        &[("cat/0.wav", b"RIFF"), ("dog/0.wav", b"RIFF"), ("x.txt", b"x")],
    );
    let zipped = read("s.zip");
    assert_eq!((zipped.len(), zipped[1]["audio"].is_null()), (2, false), "{zipped:?}");
    run(&dir, ["convert", "images", "i.msgpack", "--include", "*.txt"]).exits(0);
    assert_eq!(samples(&dir, "i.msgpack")[0]["text"], "a caption");
    run(&dir, ["convert", "sound", "r.msgpack", "--part", "1/1"]).exits(0);
    run(&dir, ["commit", "r.msgpack"]).exits(0);
    assert_eq!(samples(&dir, "r.msgpack"), sound);
}

/// As macOS and others spell names.
#[test]
fn two_spellings_of_a_label_are_one() {
    let dir = with_images(&["p/caf\u{e9}/0.png", "p/cafe\u{301}/1.png", "p/dog/0.png"]);
    let done = run(&dir, ["convert", "p", "out.msgpack"]).exits(0);
    assert!(
        done.err.contains("1 label that looks like another one read as the same label"),
        "{done:?}"
    );
    let labels: Vec<Json> =
        samples(&dir, "out.msgpack").iter().map(|s| s["label"].clone()).collect();
    assert_eq!(labels.iter().filter(|label| **label == 0).count(), 2, "{labels:?}");
    assert_eq!(
        fs::read_to_string(dir.path().join("out.msgpack.labels")).unwrap(),
        "caf\u{e9}\ndog\n"
    );
    // Alone a spelling stays as it is.
    let dir = with_images(&["p/cafe\u{301}/1.png"]);
    run(&dir, ["convert", "p", "out.msgpack"]).exits(0);
    assert_eq!(fs::read_to_string(dir.path().join("out.msgpack.labels")).unwrap(), "cafe\u{301}\n");
}

#[test]
fn several_folders_of_images_share_their_labels() {
    let dir = with_images(&[
        "a/dog/0.png",
        "b/cat/0.png",
        "b/dog/0.png",
        "c/0.png",
        "s/train/x/0.png",
        "s/val/x/0.png",
    ]);
    run(&dir, ["convert", "a", "b", "c", "-o", "out.msgpack"]).exits(0);
    let found: Vec<(String, Json)> = (samples(&dir, "out.msgpack").iter())
        .map(|sample| (sample["key"].as_str().unwrap().to_owned(), sample["label"].clone()))
        .collect();
    let expected = [
        ("a/dog/0.png", Json::from(1)),
        ("b/cat/0.png", 0.into()),
        ("b/dog/0.png", 1.into()),
        ("c/0.png", Json::Null),
    ];
    assert_eq!(found, expected.map(|(key, label)| (key.to_owned(), label)));
    assert_eq!(fs::read_to_string(dir.path().join("out.msgpack.labels")).unwrap(), "cat\ndog\n");
    run(&dir, ["convert", "a", "s", "x.msgpack"])
        .fails(2, "s: has splits, which are not mixed with other folders");
}

/// The most common form of annotations, read as a stream.
#[test]
fn arrays_of_objects_are_samples() {
    let text = "\u{feff}[\n  {\"id\": 1, \"tags\": [\"a,]\", \"b\"],\n   \"box\": {\"x\": [1, 2]}},\n  {\"id\": 2, \"tags\": [], \"box\": {}}\n]\n";
    let dir = with_files(&[
        ("a.json", text.as_bytes()),
        ("b.jsonl", text.as_bytes()),
        ("bad.json", b"[{\"id\": 1},\n {\"id\": }, {\"id\": 3}]"),
        ("torn.json", b"[{\"id\": 1}, {\"id\": 2}"),
        ("comma.json", b"[{\"id\": 1},]"),
        ("d/train.json", b"[{\"key\": \"a\"}]"),
        ("d/val.json", b"[{\"key\": \"b\"}]"),
        ("pretty.json", b"{\n  \"images\": []\n}"),
    ]);
    let rows = [
        serde_json::json!({"key": "a/000000000", "id": 1, "tags": ["a,]", "b"], "box": {"x": [1, 2]}}),
        serde_json::json!({"key": "a/000000001", "id": 2, "tags": [], "box": {}}),
    ];
    run(&dir, ["convert", "a.json", "a.msgpack"]).exits(0);
    assert_eq!(samples(&dir, "a.msgpack"), rows);
    for (source, stdin) in [("b.jsonl", &b""[..]), ("-", text.as_bytes())] {
        run_with(&dir, ["convert", source, "b.msgpack", "--key-field", "id", "--force"], stdin)
            .exits(0);
        assert_eq!(keys(&dir, "b.msgpack"), ["1", "2"], "{source}");
    }
    run(&dir, ["convert", "bad.json", "x.msgpack"]).fails(1, "bad.json: element 2: byte ");
    let done =
        run(&dir, ["convert", "bad.json", "x.msgpack", "--bad", "skip", "--key-field", "id"])
            .exits(1);
    assert!(done.err.contains("left out 1 bad sample"), "{done:?}");
    assert_eq!(keys(&dir, "x.msgpack"), ["1", "3"]);
    run(&dir, ["convert", "torn.json", "y.msgpack"])
        .fails(1, "torn.json: element 2: expected the end of the array");
    run(&dir, ["convert", "comma.json", "y.msgpack"])
        .fails(1, "comma.json: element 2: expected a value, found a bracket");
    run(&dir, ["convert", "d", "y.msgpack"])
        .fails(2, "has 2 splits, which are not mixed: train, val");
    let failed = run(&dir, ["convert", "pretty.json", "y.msgpack"]).exits(2);
    assert!(failed.err.contains("named like JSON, but it is no array"), "{failed:?}");
    assert!(!dir.path().join("y.msgpack").exists());
}

#[test]
fn arrays_of_numpy_alone_and_ragged() {
    let npy = |descr: &str, shape: &str, data: &[u8]| {
        let mut header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
        while (header.len() + 11) % 64 != 0 {
            header.push(' ');
        }
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend(((header.len() + 1) as u16).to_le_bytes());
        file.extend(header.as_bytes());
        file.push(b'\n');
        file.extend(data);
        file
    };
    let rows = npy("|u1", "(3, 2)", &[0, 1, 2, 3, 4, 5]);
    let dir = with_files(&[
        ("rows.npy", &rows),
        ("d/a.npy", &rows),
        ("d/b.npy", &rows),
        ("cut.npy", &rows[..rows.len() - 1]),
    ]);
    run(&dir, ["convert", "rows.npy", "rows.msgpack", "--rename", "array=pair"]).exits(0);
    let found = samples(&dir, "rows.msgpack");
    assert_eq!((found.len(), &found[2]["key"]), (3, &"rows/000002".into()));
    assert!(!found[2]["pair"].is_null());
    run(&dir, ["convert", "d", "d.msgpack"]).exits(0);
    assert_eq!(samples(&dir, "d.msgpack").len(), 6);
    run(&dir, ["convert", "cut.npy", "x.msgpack"]).fails(1, "cut.npy");

    let lengths: Vec<u8> = [2i64, 0, 3].iter().flat_map(|n| n.to_le_bytes()).collect();
    let files = [
        ("tokens.npy", npy("|u1", "(5,)", &[1, 2, 3, 4, 5])),
        ("tokens_lengths.npy", npy("<i8", "(3,)", &lengths)),
        ("label.npy", npy("|u1", "(3,)", &[7, 8, 9])),
    ];
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, data)| (*name, &**data)).collect();
    zip_of(&dir.path().join("ragged.npz"), &files);
    run(&dir, ["convert", "ragged.npz", "ragged.msgpack"]).exits(0);
    let found = samples(&dir, "ragged.msgpack");
    for (sample, (len, data, label)) in
        found.iter().zip([(2, "AQI=", 7), (0, "", 8), (3, "AwQF", 9)])
    {
        let tokens = serde_json::json!({"dtype": "|u1", "shape": [len], "data": data});
        assert_eq!(
            (&sample["tokens"]["$nd"], &sample["label"]),
            (&tokens, &label.into()),
            "{sample}"
        );
    }
    assert_eq!(found.len(), 3);
}

#[test]
fn features_of_varying_length_are_lists() {
    let dir = scratch();
    let rows = "{\"key\":\"a\",\"n\":[1,2]}\n{\"key\":\"b\",\"n\":7}\n";
    let made = run_with(&dir, ["convert", "-", "v.tfrecord"], rows.as_bytes());
    assert_eq!(made.code, Some(0), "{made:?}");
    run(
        &dir,
        [
            "convert",
            "v.tfrecord",
            "v.msgpack",
            "--lists",
            "n",
            "--key-field",
            "key",
            "--texts",
            "key",
        ],
    )
    .exits(0);
    let found = samples(&dir, "v.msgpack");
    let shapes: Vec<&Json> = found.iter().map(|sample| &sample["n"]["$nd"]["shape"]).collect();
    assert_eq!(shapes, [&serde_json::json!([2]), &serde_json::json!([1])]);
    run(&dir, ["convert", "v.msgpack", "w.msgpack", "--lists", "n"])
        .fails(2, "--lists is for tfrecord, but this is dataset");
}

/// What a review of all of this tried.
#[test]
fn splits_are_not_mixed_where_folders_lie_in_each_other() {
    let images = [
        "root/train/cat/1.png",
        "root/test/train/a/2.png",
        "root/test/cat/3.png",
        "root/x[1]/cat/4.png",
    ];
    let dir = with_images(&images);
    let files: Vec<(&str, &[u8])> = images.iter().map(|name| (*name, name.as_bytes())).collect();
    zip_of(&dir.path().join("root.zip"), &files);
    for source in ["root", "root.zip"] {
        run(&dir, ["convert", source, "o-{split}.msgpack", "--force"]).exits(0);
        assert_eq!(keys(&dir, "o-train.msgpack"), ["cat/1.png"], "{source}");
        let mut test = keys(&dir, "o-test.msgpack");
        test.sort();
        assert_eq!(test, ["cat/3.png", "train/a/2.png"], "{source}");
        assert_eq!(keys(&dir, "o-x[1].msgpack"), ["cat/4.png"], "{source}");
    }
    // Metadata in each split, as Hugging Face has them.
    let files: [(&str, &[u8]); 4] = [
        ("m/train/metadata.jsonl", b"{\"file_name\":\"1.png\",\"text\":\"a\"}\n"),
        ("m/train/1.png", PNG),
        ("m/test/metadata.jsonl", b"{\"file_name\":\"2.png\",\"text\":\"b\"}\n"),
        ("m/test/2.png", PNG),
    ];
    let dir = with_files(&files);
    zip_of(&dir.path().join("m.zip"), &files);
    for source in ["m", "m.zip"] {
        run(&dir, ["convert", source, "o.msgpack"]).fails(2, "has 2 splits, which are not mixed");
        run(&dir, ["convert", source, "o-{split}.msgpack", "--force"]).exits(0);
        for (split, text) in [("train", "a"), ("test", "b")] {
            let found = samples(&dir, &format!("o-{split}.msgpack"));
            assert_eq!((found.len(), &found[0]["text"]), (1, &text.into()), "{source}");
        }
    }
}

#[test]
fn images_of_no_split_are_counted_and_filters_are_for_the_whole_folder() {
    let names = ["p/loose.png", "p/train/good/1.png", "p/train/bad/2.png", "p/test/good/3.png"];
    let dir = with_images(&names);
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, name.as_bytes())).collect();
    zip_of(&dir.path().join("p.zip"), &files);
    for source in ["p", "p.zip"] {
        let done = run(&dir, ["convert", source, "o-{split}.msgpack", "--force"]).exits(0);
        assert!(done.err.contains("skipped 1 file"), "{source}: {done:?}");
        let bad = if source == "p" { "train/bad/*" } else { "p/train/bad/*" };
        let args =
            ["convert", source, "t.msgpack", "--splits", "train", "--exclude", bad, "--force"];
        run(&dir, args).exits(0);
        assert_eq!(keys(&dir, "t.msgpack"), ["good/1.png"], "{source}");
        let test = if source == "p" { "test/*" } else { "p/test/*" };
        run(&dir, ["convert", source, "u.msgpack", "--exclude", test, "--force"]).exits(0);
        assert_eq!(keys(&dir, "u.msgpack").len(), 2, "{source}");
    }
}

#[test]
fn folders_are_named_and_found() {
    let lines = |key: &str| format!("{{\"key\":\"{key}\"}}\n").into_bytes();
    let (a, b) = (lines("a"), lines("b"));
    let dir = with_files(&[
        ("w/train/x.jsonl", &a),
        ("w/test/y.jsonl", &b),
        ("extra.jsonl", &b),
        ("twice/a=1/a=2/x.jsonl", &a),
        ("run/lr=1/x.jsonl", &a),
        ("spark/part-0.jsonl", &a),
        ("spark/_temporary/0/part-1.jsonl", &b),
        ("deep/sub/dataset_dict.json", b"{\"splits\":[\"x\"]}"),
        ("lacks/dataset_dict.json", b"{\"splits\":[\"train\",\"gone\"]}"),
        ("lacks/train/x.jsonl", &a),
        ("empty/x.bin", b""),
        ("mixed/y=1/train.jsonl", &a),
        ("mixed/y=zz/test.jsonl", &b),
        ("column/year=2024/x.csv", b"key,year\na,2024\n"),
        ("column/year=2023/y.csv", b"key,year\nb,2023\n"),
    ]);
    // Named one by one, and said; found in one of them, and refused.
    let done = run(&dir, ["convert", "w/train", "w/test", "o.msgpack"]).exits(0);
    assert!(done.err.contains("2 splits named together read as one dataset"), "{done:?}");
    run(&dir, ["convert", "w", "extra.jsonl", "x.msgpack"])
        .fails(2, "extra.jsonl: expected a file of one of the splits test, train, found another");
    run(&dir, ["convert", "twice", "x.msgpack"]).fails(2, "found a= twice");
    // What is above all sources is no field.
    let done = run(&dir, ["convert", "run/lr=1/x.jsonl", "lr.msgpack"]).exits(0);
    assert!(
        done.err.contains("1 folder with a value that all sources are in left out"),
        "{done:?}"
    );
    assert_eq!(samples(&dir, "lr.msgpack"), [serde_json::json!({"key": "a"})]);
    let done = run(&dir, ["convert", "spark", "s.msgpack"]).exits(0);
    assert!(done.err.contains("1 file of another kind left out"), "{done:?}");
    assert_eq!(keys(&dir, "s.msgpack"), ["a"]);
    for (source, code, says) in [
        ("deep", 2, "deep/sub: has splits of its own"),
        ("lacks", 1, "lists a split \"gone\", but the folder has no files of it"),
    ] {
        run(&dir, ["convert", source, "x.msgpack"]).fails(code, says);
    }
    run(&dir, ["convert", "empty", "x.msgpack", "--from", "csv"])
        .fails(2, "empty: expected files of csv in the folder, found none");
    // One type in all splits.
    run(&dir, ["convert", "mixed", "m.msgpack", "--merge-splits"]).exits(0);
    let found: Vec<Json> = samples(&dir, "m.msgpack").iter().map(|s| s["y"].clone()).collect();
    assert_eq!(found, ["zz", "1"]);
    // The file has the column as text; both can be dropped.
    run(&dir, ["convert", "column", "c.msgpack", "--key-field", "key"]).exits(0);
    assert_eq!(samples(&dir, "c.msgpack")[0]["year"], "2023");
    run(&dir, ["convert", "column", "d.msgpack", "--drop", "year"]).exits(0);
    assert!(samples(&dir, "d.msgpack")[0]["year"].is_null());
    run(&dir, ["convert", "w", "w/{split}.msgpack"]).fails(2, "expected outputs outside of");
    assert!(!dir.path().join("w/test.msgpack").exists());
}

/// Folders that their formats read as a whole are in folders with values too.
#[test]
fn values_of_folders_with_an_index() {
    let dir = scratch();
    shards(&dir, "mds", &["m/y=2023", "m/y=2024"]);
    run(&dir, ["convert", "m", "m.msgpack"]).exits(0);
    let years: Vec<Json> = samples(&dir, "m.msgpack").iter().map(|s| s["y"].clone()).collect();
    assert_eq!(years, [2023, 2024]);
}

#[test]
fn the_lines_to_type_work_with_all_ways_to_name_the_output() {
    for args in [
        &["words", "out.msgpack"][..],
        &["words", "-o", "out.msgpack"],
        &["words", "-oout.msgpack"],
        &["words", "--output=out.msgpack"],
        &["--", "words", "out.msgpack"],
        &["-q", "words", "out.msgpack"],
        &["words", "out.msgpack", "--splits", "train,test"],
    ] {
        let dir = with_files(&[
            ("words/train.jsonl", b"{\"key\":\"a\"}\n"),
            ("words/test.jsonl", b"{\"key\":\"b\"}\n"),
        ]);
        let failed = run(&dir, [&["convert"], args].concat()).exits(2);
        let lines = proposed(&failed);
        for (line, made) in lines.iter().zip(["out", "out-train", "out"]) {
            run(&dir, line.iter().map(String::as_str).chain(["--force"]).filter(|w| *w != "--"))
                .exits(0);
            assert!(dir.path().join(format!("{made}.msgpack")).exists(), "{args:?} {line:?}");
        }
    }
}

/// Each folder is read once, however many links lead to it.
#[cfg(unix)]
#[test]
fn links_between_folders_do_not_multiply() {
    use std::os::unix::fs::symlink;

    let dir = with_files(&[("d/0/x.jsonl", b"{\"key\":\"a\"}\n")]);
    for n in 0..40 {
        let next = dir.path().join(format!("d/{}", n + 1));
        fs::create_dir(&next).unwrap();
        for name in ["a", "b"] {
            symlink(&next, dir.path().join(format!("d/{n}/{name}"))).unwrap();
        }
    }
    run(&dir, ["convert", "d", "out.msgpack"]).exits(0);
    assert_eq!(keys(&dir, "out.msgpack"), ["a"]);
}

#[test]
fn lines_that_begin_with_a_bracket_are_lines() {
    let dir =
        with_files(&[("l.jsonl", b"[INFO] starting\n{\"key\":\"a\"}\n[1]\n{\"key\":\"b\"}\n")]);
    let done = run(&dir, ["convert", "l.jsonl", "l.msgpack", "--bad", "skip"]).exits(1);
    assert!(done.err.contains("left out 2 bad samples"), "{done:?}");
    assert_eq!(keys(&dir, "l.msgpack"), ["a", "b"]);
}

/// Also where an option of all commands is in front of the command.
#[test]
fn the_lines_to_type_keep_global_options() {
    let dir = with_files(&[
        ("words/train.jsonl", b"{\"key\":\"a\",\"split\":1}\n"),
        ("words/test.jsonl", b"{\"key\":\"b\",\"split\":2}\n"),
    ]);
    let failed = run(&dir, ["--color", "never", "convert", "words", "out.msgpack"]).exits(2);
    let says = "kiste --color never convert --merge-splits words out.msgpack";
    assert!(failed.err.contains(says), "{failed:?}");
    // A field that says something else than the split, and the hint about it.
    let merge = ["convert", "words", "out.msgpack", "--merge-splits"];
    let failed = run(&dir, merge).fails(2, "expected \"test\" as its folder or split says");
    assert!(failed.err.contains("hint: --drop split leaves it out"), "{failed:?}");
    run(&dir, merge.iter().chain(&["--drop", "split"])).exits(0);
    assert_eq!(samples(&dir, "out.msgpack")[0], serde_json::json!({"key": "test/b"}));
}
