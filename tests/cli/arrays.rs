//! Arrays in samples, plain and packed: `convert --arrays`, and what the others make of them.

use kiste::value::NdArray;
use ndarray::{Array1, Array2};
use serde::Serialize;

use super::*;
use crate::support::{assert_same_files, copy_to, golden};

#[derive(Serialize)]
struct Sample<'a> {
    key: &'a str,
    table: NdArray<'a>,
    few: NdArray<'a>,
}

/// A directory with `plain.msgpack`: twenty samples with a table that compresses.
fn with_arrays() -> TempDir {
    let dir = scratch();
    let mut writer = Writer::create(dir.path().join("plain.msgpack")).unwrap();
    for i in 0..20_usize {
        let table = Array2::from_shape_fn((100 + i, 8), |(row, column)| (row * column) as i32);
        let few = Array1::from_elem(3, i as u8);
        let table = NdArray::from_ndarray(&table).into_owned();
        let few = NdArray::from_ndarray(&few).into_owned();
        writer.write(&Sample { key: &format!("k{i}"), table, few }).unwrap();
    }
    writer.finish().unwrap();
    fs::write(dir.path().join("plain.msgpack.labels"), "cat\ndog\n").unwrap();
    dir
}

#[test]
fn convert_packs_arrays_and_makes_them_plain_again() {
    let dir = with_arrays();
    let args = ["convert", "plain.msgpack", "small.msgpack", "--arrays", "blpk:zlib:5", "--json"];
    let made = run(&dir, args).exits(0);
    assert!(made.err.contains("small.msgpack: 20 arrays recoded, "), "{made:?}");
    assert!(made.err.contains("times smaller\n"), "{made:?}");
    assert!(made.err.contains("20 arrays left as before: too small"), "{made:?}");
    let arrays = &made.json()["arrays"];
    assert_eq!((&arrays["recoded"], &arrays["left"]["small"]), (&20.into(), &20.into()));
    let size = |name: &str| fs::metadata(dir.path().join(name)).unwrap().len();
    assert!(size("small.msgpack") < size("plain.msgpack") / 3);
    run(&dir, ["verify", "--deep", "small.msgpack"]).quietly();
    let labels = fs::read_to_string(dir.path().join("small.msgpack.labels")).unwrap();
    assert_eq!(labels, "cat\ndog\n");

    let back = run(&dir, ["convert", "small.msgpack", "sub/plain.msgpack", "--arrays", "plain"]);
    assert!(back.exits(0).err.contains("times larger"));
    assert_same_files(&dir.path().join("plain.msgpack"), &dir.path().join("sub/plain.msgpack"));

    // Without --arrays it is a copy.
    let copy =
        run(&dir, ["convert", "small.msgpack", "sub/small.msgpack", "--json"]).exits(0).json();
    assert_eq!(copy["arrays"], Json::Null);
    assert_same_files(&dir.path().join("small.msgpack"), &dir.path().join("sub/small.msgpack"));
}

#[test]
fn fields_and_sizes_can_be_chosen() {
    let dir = with_arrays();
    let recoded = |options: &[&str]| {
        let args =
            ["convert", "plain.msgpack", "x.msgpack", "--force", "--json", "--arrays", "blpk"];
        run(&dir, [&args, options].concat()).exits(0).json()["arrays"]["recoded"].clone()
    };
    assert_eq!(recoded(&[]), 20);
    assert_eq!(recoded(&["--arrays-min", "0"]), 40);
    assert_eq!(recoded(&["--arrays-min", "1M"]), 0);
    assert_eq!(recoded(&["--arrays-min", "0", "--arrays-fields", "few,none"]), 20);
    for (form, says) in [("brotli", "expected plain or blpk"), ("blpk:lz4:10", "level of 0 to 9")] {
        let failed =
            run(&dir, ["convert", "plain.msgpack", "y.msgpack", "--arrays", form]).exits(2);
        assert!(failed.err.contains(says), "{failed:?}");
    }
    run(&dir, ["convert", "plain.msgpack", "y.msgpack", "--arrays-min", "0"]).exits(2);
    let same = run(&dir, ["convert", "plain.msgpack", "plain.msgpack", "--force"]);
    same.fails(2, "is both read and written");
    let wrong = run(&dir, ["convert", "plain.msgpack.keys", "y.msgpack"]);
    wrong.fails(2, "its name and first bytes do not show");
}

#[test]
fn json_lines_are_packed_too_and_lossless() {
    let dir = with_arrays();
    let lines = run(&dir, ["cat", "plain.msgpack", "--jsonl"]).quietly().out;
    let args = ["convert", "-", "small.msgpack", "--arrays", "blpk"];
    run_with(&dir, args, lines.as_bytes()).exits(0);
    let packed = run(&dir, ["cat", "small.msgpack", "--jsonl"]).quietly().out;
    assert!(packed.lines().all(|line| line.contains(r#""table":{"$bin":"Ymxwaw"#)), "{packed}");
    run_with(&dir, ["convert", "-", "sub/small.msgpack"], packed.as_bytes()).exits(0);
    assert_same_files(&dir.path().join("small.msgpack"), &dir.path().join("sub/small.msgpack"));
}

#[test]
fn cat_and_info_show_what_is_in_containers() {
    let dir = with_arrays();
    let args = ["convert", "plain.msgpack", "small.msgpack", "--arrays", "blpk"];
    run(&dir, args).exits(0);
    let line = |name: &str| run(&dir, ["head", "-n", "1", name]).quietly().out;
    let plain = line("plain.msgpack");
    let begin = r#"{"key":"k0","table":<array <i4 [100, 8], "#;
    assert!(plain.starts_with(begin) && plain.ends_with("] |u1}\n"), "{plain}");
    let packed = line("small.msgpack");
    let begin = r#"{"key":"k0","table":<array <i4 [100, 8] packed>,"few":["#;
    assert!(packed.starts_with(begin) && packed.ends_with("] |u1}\n"), "{packed}");

    let info = run(&dir, ["info", "small.msgpack"]).quietly().out;
    assert!(info.contains("table  array <i4, 2-d, packed\n"), "{info}");
    assert!(info.contains("arrays   few    |u1 [3], 20 plain\n"), "{info}");
    assert!(info.contains("table  <i4 [100 to 119, 8], 20 packed "), "{info}");
    let arrays = &run(&dir, ["info", "small.msgpack", "--json"]).quietly().json()["arrays"];
    assert_eq!((&arrays["table"]["packed"], &arrays["table"]["plain"]), (&20.into(), &0.into()));
    assert_eq!(arrays["table"]["shapes"]["2"][0], serde_json::json!([100, 119]));
}

#[test]
fn verify_deep_and_convert_name_a_damaged_array() {
    let dir = with_arrays();
    let args = ["convert", "plain.msgpack", "small.msgpack", "--arrays", "blpk", "--no-md5"];
    run(&dir, args).exits(0);
    let path = dir.path().join("small.msgpack");
    let mut data = fs::read(&path).unwrap();
    let at = data.windows(4).rposition(|bytes| bytes == b"blpk").unwrap();
    data[at + 160] ^= 0x10;
    fs::write(&path, data).unwrap();
    run(&dir, ["verify", "small.msgpack"]).exits(0);
    let verified = run(&dir, ["verify", "--deep", "small.msgpack"]).exits(1);
    assert!(
        verified.out.contains(r#"small.msgpack: sample 19: key "k19": bytes "#),
        "{verified:?}"
    );
    assert!(verified.out.contains(r#"field "table": byte "#), "{verified:?}");
    let failed = run(&dir, ["convert", "small.msgpack", "new.msgpack", "--arrays", "plain"]);
    let failed = failed.fails(1, r#"small.msgpack: sample 19: key "k19": bytes "#);
    assert!(failed.err.contains(r#"field "table": "#), "{failed:?}");
    assert!(!dir.path().join("new.msgpack").exists());
}

#[test]
fn datasets_of_python_are_packed_and_come_back() {
    let dir = scratch();
    copy_to(&golden("arrays"), dir.path());
    let args =
        ["convert", "arrays.msgpack", "small.msgpack", "--arrays", "blpk", "--arrays-min", "0"];
    let made = run(&dir, args).exits(0);
    assert!(made.err.contains("packed differently than Python does"), "{made:?}");
    run(&dir, ["verify", "--deep", "small.msgpack"]).quietly();
    run(&dir, ["convert", "small.msgpack", "sub/arrays.msgpack", "--arrays", "plain"]).exits(0);
    assert_same_files(&dir.path().join("arrays.msgpack"), &dir.path().join("sub/arrays.msgpack"));
}
