//! `convert` from tables and JSON lines that are not what they seem: quotes, encodings, marks, names.

use serde_json::json;

use super::*;

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// A quote that belongs to the text joins two rows, so that one of them is lost.
#[test]
fn stray_quotes_join_no_rows() {
    let dir = scratch();
    let text = "text\tlabel\nFirst\t0\n\"Second\t1\nThird \"sentence\"\t0\nFourth\t1\nFifth\t0\n";
    fs::write(dir.path().join("t.tsv"), text).unwrap();
    let failed = run(&dir, ["convert", "t.tsv", "t.msgpack", "--guess-types"])
        .fails(1, "t.tsv: line 3: expected the end of a value of several lines");
    assert!(failed.err.contains("hint: --quote none reads quotes as ordinary"), "{failed:?}");
    run(&dir, ["convert", "t.tsv", "t.msgpack", "--guess-types", "--quote", "none"]).exits(0);
    let rows = run(&dir, ["cat", "t.msgpack", "--jsonl"]).quietly().jsonl();
    assert_eq!(rows.len(), 5);
    assert_eq!((&rows[1]["text"], &rows[1]["label"]), (&json!("\"Second"), &json!(1)));
    assert_eq!(rows[2]["text"], json!("Third \"sentence\""));
    // Where nothing is joined, only the quotes are lost, and that is counted.
    fs::write(dir.path().join("t.tsv"), "text\n\"Hello\" he said\n\"a\"b\nc\n").unwrap();
    let made = run(&dir, ["convert", "t.tsv", "t.msgpack", "--force"]).exits(0);
    let says = "2 values with text after their closing quotes read without the quotes, first: t.tsv, \
                line 2";
    assert!(made.err.contains(says), "{made:?}");
    // A quote that is never closed has the rest of a file, compressed or not.
    fs::write(dir.path().join("t.csv"), "a,b\n1,2\n3,\"4\n5,6\n").unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&fs::read(dir.path().join("t.csv")).unwrap()).unwrap();
    fs::write(dir.path().join("z.csv.gz"), gz.finish().unwrap()).unwrap();
    for name in ["t.csv", "z.csv.gz"] {
        run(&dir, ["convert", name, "o.msgpack"])
            .fails(1, "line 3: expected a quote that closes the value, found the end of the file");
    }
    run(&dir, ["convert", "t.csv", "o.msgpack", "--quote", "none"]).exits(0);
    run(&dir, ["convert", "o.msgpack", "x.msgpack", "--quote", "none"])
        .fails(2, "--quote is for csv, tsv and list, but this is dataset");
    let wrong = run(&dir, ["convert", "t.csv", "x.msgpack", "--quote", "x"]).exits(2);
    assert!(wrong.err.contains("expected '\"' or none"), "{wrong:?}");
}

/// To leave out "bad" rows of a file in another encoding would be to lose those with accents.
#[test]
fn other_encodings_are_named() {
    let dir = scratch();
    let table = "name,text\nä,b\nx,y\n";
    let marked = [b"\xff\xfe", &utf16(table)[..]].concat();
    let lines = "{\"key\": \"M\u{fc}ller\"}\n{\"key\": \"x\"}\n";
    let latin = |text: &str| text.chars().map(|c| u32::from(c) as u8).collect::<Vec<u8>>();
    for (name, content, found, hint) in [
        ("u.csv", marked.clone(), "UTF-16", "--encoding utf-16 reads it"),
        ("u.tsv", utf16(table), "UTF-16LE", "--encoding utf-16le reads it"),
        ("l.csv", latin(table), "\\xe4,b", "if it is Western European text: --encoding cp1252"),
        ("u.jsonl", utf16(lines), "UTF-16LE", "--encoding utf-16le reads it"),
        ("l.jsonl", latin(lines), "M\\xfcller", "--encoding cp1252"),
        ("u4.csv", b"\xff\xfe\0\0n\0\0\0".to_vec(), "UTF-32", "iconv -f UTF-32 -t UTF-8 u4.csv"),
        // Another script, of which nothing is known.
        (
            "r.csv",
            b"name\n\xcf\xf0\xe8\xe2\xe5\xf2\n".to_vec(),
            "\\xcf\\xf0",
            "--encoding names the encoding of the text, such as cp1251",
        ),
    ] {
        fs::write(dir.path().join(name), content).unwrap();
        let made = run(&dir, ["convert", name, "o.msgpack"]);
        assert_ne!(made.code, Some(0), "{name}: {made:?}");
        assert!(
            made.err.contains("expected UTF-8, found ") && made.err.contains(found),
            "{made:?}"
        );
        assert!(made.err.contains(hint), "{made:?}");
        assert!(!made.err.contains("--bad skip"), "{made:?}");
        assert!(!dir.path().join("o.msgpack").exists());
    }
    // A list is read at once.
    fs::write(dir.path().join("list.csv"), marked).unwrap();
    run(&dir, ["convert", "list.csv", "o.msgpack", "--from", "list"]).fails(2, "found UTF-16");
    // One byte among text in UTF-8 is damage.
    fs::write(dir.path().join("d.csv"), "name\né \u{e9}\n".as_bytes()).unwrap();
    let mut damaged = fs::read(dir.path().join("d.csv")).unwrap();
    damaged.splice(6..8, [0xff]);
    damaged.splice(5..5, "é".bytes());
    fs::write(dir.path().join("d.csv"), damaged).unwrap();
    let failed = run(&dir, ["convert", "d.csv", "o.msgpack"]).fails(1, "expected UTF-8");
    assert!(failed.err.contains("--bad skip"), "{failed:?}");
}

/// Files from Windows begin with a mark.
#[test]
fn byte_order_marks_are_passed_over() {
    let dir = scratch();
    let write = |name: &str, text: &str| {
        fs::write(dir.path().join(name), format!("\u{feff}{text}")).unwrap();
    };
    let lines = "{\"key\":\"a\",\"x\":1}\n{\"key\":\"b\",\"x\":2}\n";
    write("b.jsonl", lines);
    write("b.json", lines);
    write("empty.jsonl", "\n");
    for name in ["b.jsonl", "b.json"] {
        run(&dir, ["convert", name, "b.msgpack", "--force"]).exits(0);
        assert_eq!(run(&dir, ["ls", "b.msgpack"]).quietly().out, "a\nb\n", "{name}");
    }
    let piped = fs::read(dir.path().join("b.jsonl")).unwrap();
    run_with(&dir, ["convert", "-", "b.msgpack", "--force"], &piped).exits(0);
    assert_eq!(run(&dir, ["ls", "b.msgpack"]).quietly().out, "a\nb\n");
    run(&dir, ["convert", "empty.jsonl", "empty.msgpack"]).exits(0);
    // Lists of keys too.
    write("keys", "a\n");
    let args = ["convert", "b.msgpack", "c.msgpack", "--split-list", "val=keys"];
    let made = run(&dir, args).exits(0);
    assert!(!made.err.contains("no samples for"), "{made:?}");
    assert_eq!(run(&dir, ["ls", "c-val.msgpack"]).quietly().out, "a\n");
    assert_eq!(
        run(&dir, ["cat", "b.msgpack", "--keys", "keys", "--jsonl"]).quietly().jsonl().len(),
        1
    );
}

/// MongoDB's extended JSON and JSON schemas have names of this form.
#[test]
fn names_with_a_dollar_are_read_where_they_have_no_meaning() {
    let dir = scratch();
    let lines = "{\"key\":\"a\",\"_id\":{\"$oid\":\"5f0c\"},\"n\":{\"$numberLong\":\"5\"}}\n\
                 {\"key\":\"b\",\"tool\":{\"$schema\":\"x\",\"type\":\"object\"}}\n";
    fs::write(dir.path().join("d.jsonl"), lines).unwrap();
    let failed = run(&dir, ["convert", "d.jsonl", "d.msgpack"])
        .fails(1, "expected a name of the notation for values that JSON lacks");
    assert!(
        failed.err.contains(
            "hint: --plain-json reads names with $ as ordinary \
        names"
        ),
        "{failed:?}"
    );
    run(&dir, ["convert", "d.jsonl", "d.msgpack", "--plain-json"]).exits(0);
    let stored = kiste::DatasetReader::open(dir.path().join("d.msgpack")).unwrap();
    let sample = kiste::Reader::get(&stored, 0).unwrap();
    assert_eq!(sample["_id"]["$oid"].as_str(), Some("5f0c"));
    // What is no JSON either has nothing to do with names.
    fs::write(dir.path().join("d.jsonl"), "{\"$oid\":\n").unwrap();
    let failed = run(&dir, ["convert", "d.jsonl", "x.msgpack"]).fails(1, "line 1: ");
    assert!(!failed.err.contains("--plain-json"), "{failed:?}");
    run(&dir, ["convert", "d.msgpack", "x.msgpack", "--plain-json"])
        .fails(2, "--plain-json is for jsonl, but this is dataset");
}

#[test]
fn rows_of_another_length_and_columns_of_one_name_are_refused() {
    let dir = scratch();
    let fails = |text: &str, says: &str| {
        fs::write(dir.path().join("t.csv"), text).unwrap();
        let made = run(&dir, ["convert", "t.csv", "t.msgpack"]);
        assert!(made.code != Some(0) && made.err.contains(says), "{made:?}");
    };
    fails("a,b\n1,2\n3\n", "t.csv: line 3: expected 2 values, found 1");
    fails("a,b\n1,2,3\n", "t.csv: line 2: expected 2 values, found 3");
    fails(
        "a,b,a\n1,2,3\n",
        "t.csv: line 1: expected columns of different names, found \"a\" twice",
    );
    fails("key,_key\n1,2\n", "found \"_key\" twice");
    // The names are bad, and not each row.
    let made = run(&dir, ["convert", "t.csv", "t.msgpack", "--bad", "skip"]);
    assert!(made.err.contains("left out 1 bad sample"), "{made:?}");
    // A zero is text like any other.
    fs::write(dir.path().join("t.csv"), "a\nx\0y\n").unwrap();
    run(&dir, ["convert", "t.csv", "z.msgpack"]).exits(0);
    let rows = run(&dir, ["cat", "z.msgpack", "--jsonl"]).quietly().jsonl();
    assert_eq!(rows[0]["a"], json!("x\0y"));
}
