//! Archives of NumPy, and ours.

use std::fs;
use std::path::Path;

use kiste::convert::{NpzReader, NpzWriter};
use kiste::format::msgpack;
use kiste::{ErrorKind, Value};
use serde_json::{Value as Json, json};

use super::{damage, dir, packed, plain, samples};

const PRODUCER: &str = "npz-numpy-2.4.6";

fn rows(name: &str) -> kiste::Result<NpzReader> {
    NpzReader::open(dir(PRODUCER).join(name))
}

fn hex(numbers: [f32; 4]) -> String {
    numbers.iter().flat_map(|n| n.to_be_bytes()).map(|byte| format!("{byte:02x}")).collect()
}

fn expected() -> Json {
    let x = |at: f32| json!({"array": ">f4", "shape": [4], "data": hex([at, at + 1., at + 2., at + 3.])});
    let score = |hex: &str| json!({"scalar": "<f2", "data": hex});
    json!([
        {"key": "rows/000000", "x": x(0.), "label": 7, "score": score("0038"), "name": "a"},
        {"key": "rows/000001", "x": x(4.), "label": -1, "score": score("003e"), "name": "zwei"},
        {"key": "rows/000002", "x": x(8.), "label": 2, "score": score("0041"), "name": "二"},
    ])
}

#[test]
fn rows_are_samples() {
    let found: Json = samples(rows("rows.npz").unwrap()).unwrap().iter().map(plain).collect();
    assert_eq!(found, expected());
    let found = samples(rows("compressed.npz").unwrap().key("name")).unwrap();
    assert_eq!(found[2]["key"].as_str(), Some("二"));
    assert_eq!(plain(&found[2])["x"], expected()[2]["x"]);
}

#[test]
fn a_file_is_a_sample() {
    let found =
        samples(NpzReader::options().whole(true).open(dir(PRODUCER).join("uneven.npz")).unwrap())
            .unwrap();
    let names: Vec<_> =
        found[0].as_map().unwrap().iter().map(|(n, _)| n.as_str().unwrap()).collect();
    assert_eq!(
        (found.len(), &names[..], found[0]["key"].as_str()),
        (1, &["key", "b", "arr_0"][..], Some("uneven"))
    );
}

#[test]
fn what_is_refused() {
    let error = rows("uneven.npz").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().ends_with("as well, found 3"), "{error}");
    let error = rows("objects.npz").unwrap_err();
    assert!(error.to_string().contains("Python objects as a pickle"), "{error}");
    assert_eq!(rows("none.npz").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn damaged_archives() {
    let read = |path: &Path| packed(&NpzReader::open(path)?).map(|found| format!("{found:?}"));
    let path = dir(PRODUCER).join("compressed.npz");
    assert_eq!(damage(&path, 1, true, read), []);
    // Names and times have no checksum.
    for (at, found) in damage(&path, 1, false, read) {
        assert!(found.len() > 100, "{at}");
    }
}

#[test]
fn what_is_written_is_read_again() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("rows.npz");
    let found = packed(&rows("rows.npz").unwrap()).unwrap();
    let mut writer = NpzWriter::create(&path).unwrap();
    for sample in &found {
        writer.write_packed(sample).unwrap();
    }
    for odd in [
        vec![("key", "k".into())],
        vec![("key", "k".into()), ("x", Value::Nil)],
        vec![
            ("key", "k".into()),
            ("x", 1.into()),
            ("label", 1.into()),
            ("score", 1.into()),
            ("name", 1.into()),
        ],
    ] {
        let odd = odd.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let error = writer.write_packed(&msgpack::to_vec(&Value::Map(odd)).unwrap()).unwrap_err();
        assert_eq!((error.kind(), error.key()), (ErrorKind::Invalid, Some("k")), "{error}");
    }
    writer.finish().unwrap();
    let again: Json =
        samples(NpzReader::open(&path).unwrap().key("key")).unwrap().iter().map(plain).collect();
    let mut expected = expected();
    for sample in expected.as_array_mut().unwrap() {
        sample["_key"] = sample["key"].clone();
    }
    assert_eq!(again, expected);
    let first = fs::read(&path).unwrap();
    let error = NpzWriter::create(&path).err().unwrap();
    assert_eq!((error.kind(), fs::read(&path).unwrap()), (ErrorKind::AlreadyExists, first));
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
}

/// NumPy takes any name, as it unpacks nothing; others would write where the name says.
#[test]
fn names_that_lead_out_of_the_archive_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("x.npz");
    let sample = |name: &str| {
        let fields = vec![("key".into(), "k".into()), (name.into(), 1.into())];
        msgpack::to_vec(&Value::Map(fields)).unwrap()
    };
    for name in
        ["", "/x", "../x", "a/../../x", "..", "a\\..\\x", "\\x", "c:x", "C:\\x", "x\n", "x\0"]
    {
        let error = NpzWriter::create(&path).unwrap().write_packed(&sample(name)).unwrap_err();
        let expected = "expected the relative name of a file";
        assert_eq!((error.kind(), error.message()), (ErrorKind::Invalid, expected));
        assert_eq!(error.field(), Some(name));
    }
    for name in ["x", "a/x", "..x", "ab:c", "größe"] {
        let path = scratch.path().join(format!("{}.npz", name.len()));
        let mut writer = NpzWriter::create(&path).unwrap();
        writer.write_packed(&sample(name)).unwrap();
        writer.finish().unwrap();
        assert_eq!(samples(NpzReader::open(&path).unwrap()).unwrap()[0][name], 1.into(), "{name}");
        fs::remove_file(path).unwrap();
    }
}
