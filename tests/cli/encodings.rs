//! `convert --encoding`: text that is not UTF-8.

use serde_json::json;

use super::*;

/// The text in an encoding of 16 bits.
fn utf16(text: &str, to: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(to).collect()
}

/// The text in an encoding that is called so, or in one of 16 bits.
fn encoded(text: &str, name: &str) -> Vec<u8> {
    match name {
        "utf-16" => [b"\xff\xfe", &utf16(text, u16::to_le_bytes)[..]].concat(),
        "UTF-16" => [b"\xfe\xff", &utf16(text, u16::to_be_bytes)[..]].concat(),
        "utf-16le" => utf16(text, u16::to_le_bytes),
        "utf-16be" => utf16(text, u16::to_be_bytes),
        name => {
            let label = name.replace("latin-1", "latin1");
            let encoding = encoding_rs::Encoding::for_label(label.as_bytes()).unwrap();
            let (bytes, _, lossy) = encoding.encode(text);
            assert!(!lossy, "{name}");
            bytes.into_owned()
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(bytes).unwrap();
    gz.finish().unwrap()
}

/// What the text becomes in each format: the name of a file, its text, and options.
fn sources(word: &str) -> Vec<(&'static str, String, &'static [&'static str])> {
    vec![
        ("a.csv", format!("name,{word}\n\"{word},\",1\n{word}{word},2\n"), &[]),
        ("a.tsv", format!("name\t{word}\n{word}\t1\n"), &["--guess-types"]),
        ("a.jsonl", format!("{{\"id\": \"{word}\"}}\n\n{{\"id\": 2}}\n"), &[]),
        ("a.json", format!("[{{\"id\": \"{word}\"}},\n {{\"id\": 2}}]"), &[]),
        (
            "list.csv",
            format!("path,label,x\np.png,{word},1\n"),
            &["--from", "list", "--text-labels"],
        ),
    ]
}

#[test]
fn every_text_is_read_in_every_encoding() {
    let encodings = [
        ("utf-16", "Größe 日本"),
        ("UTF-16", "Größe 日本"),
        ("utf-16le", "Größe 日本"),
        ("utf-16be", "Größe 日本"),
        ("latin-1", "Größe"),
        ("cp1252", "Größe €"),
        ("iso-8859-15", "Größe €"),
        ("cp1251", "Привет"),
        ("shift_jis", "日本ソ表"),
        ("euc-kr", "한글"),
        ("gb18030", "中文\u{1f600}"),
        ("utf-8", "Größe 日本"),
    ];
    for (name, word) in encodings {
        let (plain, other) = (scratch(), scratch());
        for dir in [&plain, &other] {
            fs::write(dir.path().join("p.png"), b"\x89PNG\r\n\x1a\n\0\0\0\0IEND\xae\x42\x60\x82")
                .unwrap();
        }
        for (file, text, options) in sources(word) {
            fs::write(plain.path().join(file), &text).unwrap();
            fs::write(other.path().join(file), encoded(&text, name)).unwrap();
            let convert = ["convert", file, "o.msgpack", "--force"];
            run(&plain, [&convert[..], options].concat()).exits(0);
            let made = run(&other, [&convert[..], options, &["--encoding", name]].concat());
            assert_eq!(made.code, Some(0), "{name}, {file}: {made:?}");
            let (plain, found) = (plain.path().join("o.msgpack"), other.path().join("o.msgpack"));
            assert_same_dataset(&plain, &found);
            // Compressed it is the same.
            let packed = format!("{file}.gz");
            fs::write(other.path().join(&packed), gzip(&encoded(&text, name))).unwrap();
            let convert = ["convert", &packed, "o.msgpack", "--force", "--encoding", name];
            run(&other, [&convert[..], options].concat()).exits(0);
            assert_same_dataset(&plain, &found);
        }
        for dir in [&plain, &other] {
            let encoded = if dir.path() == plain.path() {
                word.as_bytes().to_vec()
            } else {
                encoded(word, name)
            };
            fs::create_dir_all(dir.path().join("texts/x")).unwrap();
            fs::write(dir.path().join("texts/x/1.txt"), encoded).unwrap();
            fs::write(dir.path().join("texts/x/2.txt"), b"").unwrap();
        }
        run(&plain, ["convert", "texts", "o.msgpack", "--force"]).exits(0);
        run(&other, ["convert", "texts", "o.msgpack", "--force", "--encoding", name]).exits(0);
        assert_same_dataset(&plain.path().join("o.msgpack"), &other.path().join("o.msgpack"));
    }
}

#[test]
fn metadata_of_images_is_text_too() {
    let dir = scratch();
    fs::create_dir(dir.path().join("images")).unwrap();
    let write =
        |name: &str, bytes: &[u8]| fs::write(dir.path().join("images").join(name), bytes).unwrap();
    write("p.png", b"\x89PNG\r\n\x1a\n\0\0\0\0IEND\xae\x42\x60\x82");
    for (name, text) in [
        ("metadata.csv", "file_name,text\np.png,Größe\n"),
        ("metadata.jsonl", "{\"file_name\":\"p.png\",\"text\":\"Größe\"}\n"),
    ] {
        write(name, &encoded(text, "cp1252"));
        let failed = run(&dir, ["convert", "images", "o.msgpack", "--force"]);
        assert!(failed.err.contains(": --encoding cp1252\n"), "{failed:?}");
        run(&dir, ["convert", "images", "o.msgpack", "--force", "--encoding", "cp1252"]).exits(0);
        let rows = run(&dir, ["cat", "o.msgpack", "--jsonl"]).quietly().jsonl();
        assert_eq!(rows[0]["text"], json!("Größe"), "{name}");
        fs::remove_file(dir.path().join("images").join(name)).unwrap();
    }
}

/// A bad sequence makes its own row bad, and no other.
#[test]
fn bytes_that_an_encoding_lacks_are_bad_input() {
    let dir = scratch();
    let pair = |text: &str, unit: u16, rest: &str| {
        [utf16(text, u16::to_le_bytes), unit.to_le_bytes().to_vec(), utf16(rest, u16::to_le_bytes)]
            .concat()
    };
    for (file, encoding, bytes, says, left) in [
        (
            "u.csv",
            "cp1252",
            b"a,b\n1,\xe9\n2,x\x81y\n3,4\n".to_vec(),
            "line 3: expected windows-1252, found \"\\x81\"",
            2,
        ),
        (
            "u.csv",
            "ascii",
            b"a,b\n1,\xe9\n2,x\n".to_vec(),
            "line 2: expected US-ASCII, found \"\\xe9\"",
            1,
        ),
        (
            "u.csv",
            "utf-16le",
            pair("a\nb\nc", 0xd800, "d\ne\n"),
            "line 3: expected UTF-16LE, found \"\\x00\\xd8\"",
            2,
        ),
        (
            "u.tsv",
            "utf-16le",
            pair("a\n", 0xdc00, "\ne\n"),
            "line 2: expected UTF-16LE, found \"\\x00\\xdc\"",
            1,
        ),
        // It was cut in the middle of a character.
        (
            "u.csv",
            "utf-16le",
            [&utf16("a,b\n1,2\n", u16::to_le_bytes)[..], b"3"].concat(),
            "line 3: expected UTF-16LE, found \"3\"",
            1,
        ),
        (
            "u.jsonl",
            "shift_jis",
            b"{\"key\":\"a\"}\n{\"key\":\"\x93\"}\n{\"key\":\"c\"}\n".to_vec(),
            "line 2: expected Shift_JIS, found \"\\x93\"",
            2,
        ),
        (
            "u.jsonl",
            "utf-16le",
            pair("{\"key\":\"a\"}\n{\"key\":\"", 0xd83d, "\"}\n{\"key\":\"c\"}\n"),
            "line 2: expected UTF-16LE, found \"=\\xd8\"",
            2,
        ),
        (
            "u.json",
            "utf-16le",
            pair("[{\"key\":\"a\"},\n{\"key\":\"", 0xd83d, "\"},{\"key\":\"c\"}]"),
            "element 2: expected UTF-16LE, found \"=\\xd8\"",
            2,
        ),
    ] {
        fs::write(dir.path().join(file), bytes).unwrap();
        let convert = ["convert", file, "o.msgpack", "--force", "--encoding", encoding];
        let failed = run(&dir, convert).fails(1, &format!("{file}: {says}"));
        assert!(failed.err.contains("--bad skip"), "{failed:?}");
        let made =
            run(&dir, [&convert[..], &["--bad", "quarantine", "--json"]].concat()).exits(1).json();
        assert_eq!(
            (&made["samples"], &made["bad"]),
            (&left.into(), &1.into()),
            "{file} {encoding}"
        );
    }
    let aside = fs::read_to_string(dir.path().join("o.msgpack.quarantine.jsonl")).unwrap();
    let aside: Json = serde_json::from_str(aside.lines().next_back().unwrap()).unwrap();
    assert_eq!(aside["raw"], json!({"$bin": "IHsia2V5IjoiPdgifQ=="}), "the bytes as they were");
    // The names of columns, and lists.
    fs::write(dir.path().join("u.csv"), b"a,\x81\n1,2\n").unwrap();
    for from in ["csv", "list"] {
        let args = ["convert", "u.csv", "x.msgpack", "--from", from, "--encoding", "cp1252"];
        run(&dir, args).fails(1, "u.csv: line 1: expected windows-1252, found \"\\x81\"");
    }
    fs::create_dir_all(dir.path().join("t/x")).unwrap();
    fs::write(dir.path().join("t/x/1.txt"), b"abc\x9d").unwrap();
    run(&dir, ["convert", "t", "x.msgpack", "--encoding", "cp1252"])
        .fails(1, "t/x/1.txt: byte 3: expected windows-1252, found \"\\x9d\"");
    run(&dir, ["convert", "t", "x.msgpack", "--encoding", "latin-1"]).exits(0);
    let rows = run(&dir, ["cat", "x.msgpack", "--jsonl"]).quietly().jsonl();
    assert_eq!(rows[0]["text"], json!("abc\u{9d}"));
}

/// More than a few buffers, with characters of several bytes across their ends.
#[test]
fn large_files_are_decoded_piece_by_piece() {
    let dir = scratch();
    let lines = |line: &dyn Fn(usize) -> String| (0..40_000).map(line).collect::<String>();
    let word = |n: usize| "日本".repeat(n % 7);
    let table = format!("n,text\n{}", lines(&|n| format!("{n},a{}\n", word(n))));
    let rows = lines(&|n| format!("{{\"n\":{n},\"text\":\"a{}\"}}\n", word(n)));
    for (file, text) in [("t.csv", &table), ("t.jsonl", &rows)] {
        fs::write(dir.path().join(file), text).unwrap();
        run(&dir, ["convert", file, "plain.msgpack", "--force"]).exits(0);
        for encoding in ["utf-16", "shift_jis", "gb18030"] {
            let bytes = encoded(text, encoding);
            assert!(bytes.len() > 400_000);
            fs::write(dir.path().join(file), &bytes).unwrap();
            let args = ["convert", file, "other.msgpack", "--force", "--encoding", encoding];
            run(&dir, args).exits(0);
            assert_same_dataset(
                &dir.path().join("plain.msgpack"),
                &dir.path().join("other.msgpack"),
            );
            let from = file.split_once('.').unwrap().1;
            // Keys begin with the name of the input.
            let args = [
                "convert",
                "-",
                "piped.msgpack",
                "--force",
                "--from",
                from,
                "--encoding",
                encoding,
            ];
            run_with(&dir, args, &bytes).exits(0);
            let keys = run(&dir, ["ls", "other.msgpack"]).quietly().out.replace("t/", "stdin/");
            assert!(run(&dir, ["ls", "piped.msgpack"]).quietly().out == keys);
        }
    }
    // The last row is bad: its line is right.
    let mut bytes = encoded(&table, "shift_jis");
    bytes.extend(b"x,\x93");
    fs::write(dir.path().join("t.csv"), bytes).unwrap();
    run(&dir, ["convert", "t.csv", "x.msgpack", "--encoding", "shift_jis"])
        .fails(1, "t.csv: line 40002: expected Shift_JIS, found \"\\x93\"");
}

/// A table that is decoded is one unit, so the others parts have nothing.
#[test]
fn parts_of_other_encodings_make_the_same() {
    let dir = scratch();
    let table: String = (0..200_000).map(|n| format!("{n},Größe\n")).collect();
    fs::write(dir.path().join("t.csv"), encoded(&format!("n,text\n{table}"), "utf-16")).unwrap();
    run(&dir, ["convert", "t.csv", "whole.msgpack", "--encoding", "utf-16"]).exits(0);
    for part in ["1/2", "2/2"] {
        run(&dir, ["convert", "t.csv", "parts.msgpack", "--encoding", "utf-16", "--part", part])
            .exits(0);
    }
    run(&dir, ["commit", "parts.msgpack"]).exits(0);
    assert_same_dataset(&dir.path().join("whole.msgpack"), &dir.path().join("parts.msgpack"));
    let plan =
        run(&dir, ["convert", "t.csv", "x.msgpack", "--encoding", "cp819", "--plan"]).exits(0);
    assert!(
        plan.out.contains("\"encoding\":\"ISO-8859-1\"")
            || plan.out.contains("\"encoding\": \"ISO-8859-1\""),
        "{plan:?}"
    );
}

#[test]
fn hints_can_be_typed() {
    let dir = scratch();
    fs::create_dir_all(dir.path().join("t/x")).unwrap();
    let table = "name,text\nMüller,b\nx,y\n";
    let lines = "{\"id\": \"Müller\"}\n{\"id\": \"x\"}\n";
    let array = "[{\"id\": \"Müller\"}, {\"id\": \"x\"}]";
    for (file, text) in
        [("a.csv", table), ("a.jsonl", lines), ("a.json", array), ("t/x/1.txt", "Müller")]
    {
        for encoding in ["utf-16", "UTF-16", "utf-16le", "utf-16be", "cp1252"] {
            fs::write(dir.path().join(file), encoded(text, encoding)).unwrap();
            let source = file.split('/').next().unwrap();
            let failed = run(&dir, ["convert", source, "o.msgpack", "--force"]);
            if failed.code == Some(0) {
                // Zeros are text like any other, and a short text in UTF-16 without accents is UTF-8.
                assert!(
                    file.ends_with(".txt") && encoding.starts_with("utf-16"),
                    "{file}, {encoding}"
                );
                continue;
            }
            let hint = failed.err.lines().find(|line| line.starts_with("hint: ")).unwrap();
            let name = hint.split("--encoding ").nth(1).unwrap().split(' ').next().unwrap();
            assert_eq!(name, encoding.to_lowercase(), "{failed:?}");
            run(&dir, ["convert", source, "o.msgpack", "--force", "--encoding", name]).exits(0);
            let out = run(&dir, ["cat", "o.msgpack", "--jsonl"]).quietly().out;
            assert!(out.contains("\"Müller\""), "{file}, {encoding}: {out}");
        }
    }
    // A wrong name leads to the right one.
    fs::write(dir.path().join("a.csv"), encoded(table, "utf-16be")).unwrap();
    for wrong in ["utf-16", "latin-1", "shift_jis"] {
        let failed = run(&dir, ["convert", "a.csv", "x.msgpack", "--encoding", wrong]).exits(2);
        assert!(failed.err.contains("hint: --encoding utf-16be reads it"), "{failed:?}");
    }
    fs::write(dir.path().join("a.csv"), format!("\u{feff}{table}")).unwrap();
    run(&dir, ["convert", "a.csv", "u.msgpack", "--encoding", "utf-8"]).exits(0);
    let failed = run(&dir, ["convert", "a.csv", "x.msgpack", "--encoding", "cp1252"])
        .fails(2, "a.csv: expected windows-1252, found UTF-8");
    assert!(failed.err.contains("hint: --encoding utf-8 reads it"), "{failed:?}");
    fs::write(dir.path().join("a.csv"), table).unwrap();
    let failed = run(&dir, ["convert", "a.csv", "x.msgpack", "--encoding", "utf-16"])
        .fails(2, "a.csv: expected UTF-16 with a byte order mark, found text without one");
    assert!(
        failed.err.contains("hint: utf-16le and utf-16be need no byte order mark"),
        "{failed:?}"
    );
}

#[test]
fn an_encoding_of_what_is_no_text_is_refused() {
    let dir = with_words();
    let says =
        "--encoding is for csv, tsv, list, jsonl, coco and folders of text files, but this is";
    run(&dir, ["convert", "words.msgpack", "x.msgpack", "--encoding", "utf-16"]).fails(2, says);
    run(&dir, ["convert", "words.msgpack", "w.tar"]).exits(0);
    run(&dir, ["convert", "w-000000.tar", "x.msgpack", "--encoding", "utf-8"]).fails(2, says);
    fs::create_dir_all(dir.path().join("images/cat")).unwrap();
    fs::write(dir.path().join("images/cat/1.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    run(&dir, ["convert", "images", "x.msgpack", "--encoding", "cp1252"]).fails(2, says);
    let wrong = run(&dir, ["convert", "-", "x.msgpack", "--encoding", "utf-7"]).exits(2);
    let says = "expected the name of an encoding such as utf-16, latin-1, cp1252 or shift_jis, found \"utf-7\"";
    assert!(wrong.err.contains(says), "{wrong:?}");
}
