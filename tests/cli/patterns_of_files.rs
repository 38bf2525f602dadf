//! Patterns in quotes, which no shell has expanded: the files that match are read as what they are.

use super::*;

/// Three files of one sample in a format, made by the command.
fn with_files(ending: &str) -> TempDir {
    let dir = scratch();
    for n in 0..3 {
        let row = format!("{{\"key\":\"{n}\",\"n\":{n}}}\n");
        let name = format!("x-{n}.{ending}");
        match ending {
            "jsonl" => fs::write(dir.path().join(&name), row).unwrap(),
            _ => {
                run_with(&dir, ["convert", "-", "row.msgpack", "-f"], row.as_bytes()).exits(0);
                run(&dir, ["convert", "row.msgpack", &name]).exits(0);
            }
        }
        if ending == "tar" {
            fs::rename(dir.path().join(format!("x-{n}-000000.tar")), dir.path().join(name))
                .unwrap();
        }
    }
    dir
}

#[test]
fn a_pattern_stands_for_the_files_that_match() {
    for ending in ["jsonl", "csv", "tfrecord", "tar", "parquet", "arrow", "npz"] {
        if matches!(ending, "parquet" | "arrow") && !cfg!(feature = "parquet") {
            continue;
        }
        let dir = with_files(ending);
        let convert = |source: &str, options: &[&str]| {
            let args = [&["convert", source, "out.msgpack", "-f"], options].concat();
            run(&dir, args).exits(0);
            run(&dir, ["cat", "out.msgpack"]).quietly().out
        };
        let expected = convert(&format!("x-{{0..2}}.{ending}"), &[]);
        assert_eq!(expected.lines().count(), 3, "{ending}: {expected}");
        for pattern in ["x-*", "x-?", "x-[012]", "./x-*", "*-*"] {
            assert_eq!(
                convert(&format!("{pattern}.{ending}"), &[]),
                expected,
                "{pattern} {ending}"
            );
        }
        let from = if ending == "tar" { "webdataset" } else { ending };
        assert_eq!(convert(&format!("x-*.{ending}"), &["--from", from]), expected, "{ending}");
        let some = convert(&format!("x-[01].{ending}"), &[]);
        assert_eq!(some.lines().count(), 2, "{ending}");
        // Parts see the same files.
        for part in ["2/2", "1/2"] {
            let args = ["convert", &format!("x-*.{ending}"), "p.msgpack", "--part", part];
            run(&dir, args).exits(0);
        }
        run(&dir, ["commit", "p.msgpack"]).exits(0);
        assert_eq!(run(&dir, ["cat", "p.msgpack"]).quietly().out, expected, "{ending}");
    }
}

#[test]
fn what_matches_and_is_of_several_formats_or_of_none_is_an_error() {
    let dir = with_files("jsonl");
    fs::write(dir.path().join("x-3.csv"), "a,b\n1,2\n").unwrap();
    fs::write(dir.path().join("y.what"), "?").unwrap();
    let convert = |source: &str, options: &[&str]| {
        run(&dir, [&["convert", source, "out.msgpack"], options].concat())
    };
    convert("x-*", &[]).fails(2, "x-2.jsonl is jsonl, but x-3.csv is csv");
    convert("*.what", &[]).fails(2, "y.what: its name and first bytes do not show");
    convert("*.none", &[]).fails(2, "none that match *.none");
    convert("*.none", &["--from", "jsonl"]).fails(2, "none that match *.none");
    convert("{LABEL}/*.jsonl", &[]).fails(2, "none that match {LABEL}/*.jsonl");
    fs::create_dir(dir.path().join("cat")).unwrap();
    fs::copy(dir.path().join("x-0.jsonl"), dir.path().join("cat/0.jsonl")).unwrap();
    convert("{LABEL}/*.jsonl", &[]).fails(2, "is a pattern of images, but matches jsonl");
    assert!(!dir.path().join("out.msgpack").exists());
}

/// As ever: the key is the path from the label on, or all of it.
#[test]
fn patterns_of_images_stay_patterns_of_images() {
    let dir = scratch();
    fs::create_dir_all(dir.path().join("p/cat")).unwrap();
    for name in ["p/cat/1.png", "p/cat/2.png", "p/cat/notes.jsonl", "p/cat/a.wav"] {
        fs::write(dir.path().join(name), b"\x89PNG\r\n\x1a\n").unwrap();
    }
    for (pattern, options, expected) in [
        ("p/{LABEL}/*.png", &[][..], "cat/1.png\ncat/2.png\n"),
        ("p/*/*.png", &[], "p/cat/1.png\np/cat/2.png\n"),
        ("p/cat/*", &[], "p/cat/1.png\np/cat/2.png\n"),
        ("p/{LABEL}/*.wav", &["--from", "images"], "cat/a.wav\n"),
        ("p/{LABEL}/**", &["--include", "*.wav"], "cat/a.wav\n"),
    ] {
        run(&dir, [&["convert", pattern, "out.msgpack", "-f"], options].concat()).exits(0);
        assert_eq!(run(&dir, ["ls", "out.msgpack"]).quietly().out, expected, "{pattern}");
    }
}
