//! Tables made by hand.

use std::fs;

use kiste::ErrorKind;
use kiste::convert::{CsvReader, CsvType};
use serde_json::json;

use super::{plain, samples};

/// A table as a file, kept as long as the folder is.
fn table(text: &[u8]) -> (tempfile::TempDir, String) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("table.csv");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (scratch, path)
}

fn found(input: CsvReader) -> serde_json::Value {
    samples(input).unwrap().iter().map(plain).collect()
}

const TABLE: &[u8] =
    b"name,age,size,zip\r\n\"Q, \"\"x\"\"\",7,1.5,007\r\n\"two\nlines\",,2,100\r\n";

#[test]
fn rows_are_samples() {
    let (_scratch, path) = table(TABLE);
    let texts = json!([
        {"key": "table/000000000", "name": "Q, \"x\"", "age": "7", "size": "1.5", "zip": "007"},
        {"key": "table/000000001", "name": "two\nlines", "age": "", "size": "2", "zip": "100"},
    ]);
    assert_eq!(found(CsvReader::open(&path).unwrap()), texts);
    let guessed = json!([
        {"key": "Q, \"x\"", "name": "Q, \"x\"", "age": 7, "size": 1.5, "zip": "007"},
        {"key": "two\nlines", "name": "two\nlines", "age": null, "size": 2.0, "zip": "100"},
    ]);
    assert_eq!(found(CsvReader::open(&path).unwrap().key("name").guess_types().unwrap()), guessed);
    let given = CsvReader::open(&path).unwrap().column("zip", CsvType::Int).guess_types().unwrap();
    assert_eq!(found(given)[0]["zip"], 7);
}

#[test]
fn tables_that_are_refused() {
    for (text, kind, message) in [
        (&b"a,b\n1\n"[..], ErrorKind::Damaged, "line 2: expected 2 values, found 1"),
        (b"a,b\n1,\xff\n", ErrorKind::Damaged, "UTF-8"),
        (b"a,b\n1,2\n3,\"x\n4,5\n", ErrorKind::Damaged, "line 3: expected a quote that closes"),
        (b"a,\"b\n1,2\n", ErrorKind::Damaged, "line 1: expected a quote that closes"),
        (b"a,a\n1,2\n", ErrorKind::Invalid, "line 1: expected columns of different names"),
        (
            b"n\n1\nx\n",
            ErrorKind::Invalid,
            "line 3: column \"n\": expected an integer of 64 bits, found \"x\"",
        ),
    ] {
        let (_scratch, path) = table(text);
        let error = samples(CsvReader::open(&path).unwrap().column("n", CsvType::Int)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(
            error.to_string().starts_with(&path) && error.message().contains(message),
            "{error}"
        );
    }
    let (_scratch, path) = table(TABLE);
    let (_other, second) = table(b"name\nx\n");
    let error = samples(CsvReader::open_all([&path, &second]).unwrap()).unwrap_err();
    assert!(error.message().starts_with("expected the columns of "), "{error}");
    let (_scratch, path) = table(b"a,b\n1,2\n");
    let tabs = CsvReader::open(&path).unwrap().delimiter(b'\t');
    assert_eq!(samples(tabs).unwrap()[0].as_map().unwrap().len(), 2);
}
