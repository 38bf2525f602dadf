//! Fields that a conversion drops are not decoded: nothing in them stops it.

use std::fs;
use std::path::{Path, PathBuf};

use kiste::convert::{Conversion, Silent};
use kiste::format::__private::{tar, tfrecord};
use kiste::{DatasetReader, ErrorKind, Value};

/// An archive of these files.
fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, content) in files {
        bytes.extend(tar::file_header(name, content.len() as u64).unwrap());
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len() + tar::padding(content.len() as u64), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

fn record() -> Vec<u8> {
    use tfrecord::example::{Feature, encode};
    let not_text = Feature::Bytes(vec![&b"\xff"[..]]);
    let example = encode(&[("bad", not_text), ("n", Feature::Ints(vec![7]))]);
    let mut bytes = Vec::new();
    tfrecord::encode(&example, &mut bytes);
    bytes
}

/// Sources with a field `n` that is 7, and a field `bad` with a value that no sample can have.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let large = "123456789012345678901234567890";
    let files: Vec<(String, String)> = [
        ("large", format!("{{\"bad\": {large}, \"n\": 7}}\n")),
        ("huge", "{\"n\": 7, \"bad\": [1, {\"x\": -1e999}]}\n".to_owned()),
        ("twice", "{\"bad\": {\"x\": 1, \"x\": 2}, \"n\": 7}\n".to_owned()),
        ("name", "{\"bad\": [[], {\"$ref\": {}, \"y\": 1}], \"n\": 7}\n".to_owned()),
        ("array", format!("[\n  {{\"n\": 7, \"bad\": {{\"a\": [{large}]}}}}\n]\n")),
    ]
    .map(|(name, text)| (format!("{name}.json"), text))
    .into();
    let mut paths = Vec::new();
    for (name, text) in files {
        paths.push(dir.join(name));
        fs::write(paths.last().unwrap(), text).unwrap();
    }
    for (name, content) in
        [("x.json", &b"{"[..]), ("x.npy", b"x"), ("x.cls", b"x"), ("x.txt", b"\xff")]
    {
        let ending = name.rsplit('.').next().unwrap();
        let path = dir.join(format!("{ending}.tar"));
        // The last part of a name says what it is.
        let bad = format!("x.bad.{ending}");
        fs::write(&path, archive(&[(&bad, content), ("x.n.cls", b"7")])).unwrap();
        paths.push(path);
    }
    let path = dir.join("text.tfrecord");
    fs::write(&path, record()).unwrap();
    paths.push(path);
    let folder = dir.join("images");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("x.jpg"), b"\xff\xd8\xff").unwrap();
    let row = format!("{{\"file_name\": \"x.jpg\", \"bad\": {large}, \"n\": 7}}\n");
    fs::write(folder.join("metadata.jsonl"), row).unwrap();
    paths.push(folder);
    paths
}

#[test]
fn nothing_in_a_dropped_field_stops_a_conversion() {
    let dir = tempfile::tempdir().unwrap();
    for source in sources(dir.path()) {
        let shown = source.display();
        let is_tar = source.extension().is_some_and(|ending| ending == "tar");
        let is_records = source.extension().is_some_and(|ending| ending == "tfrecord");
        let ending = source.file_stem().unwrap().to_str().unwrap();
        let (n, bad) = match is_tar {
            true => ("n.cls".to_owned(), format!("bad.{ending}")),
            false => ("n".to_owned(), "bad".to_owned()),
        };
        let output = dir.path().join("out.msgpack");
        let conversion = || {
            let conversion = Conversion::new([&source], &output).overwrite(true);
            if is_records { conversion.texts(["bad"]) } else { conversion }
        };
        let error = conversion().run(&mut Silent).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Damaged | ErrorKind::Invalid),
            "{shown}: {error}"
        );
        // A field that the key is made of is read.
        assert!(
            conversion().drop_fields([&bad]).key_field(&bad).run(&mut Silent).is_err(),
            "{shown}"
        );
        for dropped in [
            conversion().drop_fields([&bad]),
            conversion().fields([&n]),
            conversion().drop_fields([&bad]).key_field(&n),
            conversion().drop_fields([&bad, &n]).key(format!("{{{n}}}")),
        ] {
            let report = dropped.run(&mut Silent);
            report.unwrap_or_else(|error| panic!("{shown}: {error}"));
            let sample = DatasetReader::open(&output).unwrap().get(0).unwrap();
            let field = |name: &str| {
                let fields = sample.as_map().unwrap().iter();
                fields
                    .clone()
                    .find(|(found, _)| found.as_str() == Some(name))
                    .map(|(_, value)| value)
            };
            assert_eq!(field(&bad), None, "{shown}");
            let is_key = field("key") == Some(&Value::from("7"));
            assert!(is_key || field(&n) == Some(&Value::from(7)), "{shown}: {sample}");
        }
        let misspelt =
            conversion().drop_fields([bad.as_str(), "other"]).run(&mut Silent).unwrap_err();
        assert!(
            misspelt.to_string().contains("no sample has a field \"other\""),
            "{shown}: {misspelt}"
        );
    }
}

/// What is passed over is still JSON.
#[test]
fn a_dropped_member_of_json_is_read_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let (source, output) = (dir.path().join("x.jsonl"), dir.path().join("out.msgpack"));
    for flaw in ["[1", "tru", "{\"x\" 1}", "01", "\"\\x\"", "1.", "[1 2]", "", "{\"x\": }"] {
        fs::write(&source, format!("{{\"bad\": {flaw}, \"n\": 7}}\n")).unwrap();
        let error = Conversion::new([&source], &output).drop_fields(["bad"]).run(&mut Silent);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Damaged, "{flaw}");
    }
    // The next member counts again, and so does the same name further in.
    for kept in ["18446744073709551616", "{\"bad\": 18446744073709551616}", "{\"$x\": 1}"] {
        fs::write(&source, format!("{{\"bad\": [{{}}, [[]]], \"n\": {kept}}}\n")).unwrap();
        let error = Conversion::new([&source], &output).drop_fields(["bad"]).run(&mut Silent);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Damaged, "{kept}");
    }
}
