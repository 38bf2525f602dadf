//! Shards that webdataset wrote, and ours.

use std::fs;
use std::io::Write;
use std::path::Path;

use kiste::convert::{WebDatasetReader, WebDatasetWriter};
use kiste::format::__private::tar;
use kiste::format::msgpack::{self, numpy};
use kiste::value::NdArray;
use kiste::{ErrorKind, Value};
use serde_json::Value as Json;

use super::{damage, dir, manifest, packed, plain, samples};

const PRODUCER: &str = "webdataset-1.0.2";

fn open(name: &str) -> WebDatasetReader {
    WebDatasetReader::open(dir(PRODUCER).join(name)).unwrap()
}

/// A sample as webdataset has it: `__key__`, and no order.
fn as_webdataset(sample: &Value) -> Json {
    let mut sample = plain(sample);
    let fields = sample.as_object_mut().unwrap();
    let key = fields.remove("key").unwrap();
    fields.insert("__key__".into(), key);
    sample
}

fn found(input: WebDatasetReader) -> Json {
    samples(input).unwrap().iter().map(as_webdataset).collect()
}

#[test]
fn samples_are_those_of_the_real_one() {
    for (name, expected) in manifest(PRODUCER).as_object().unwrap() {
        assert_eq!(found(open(name).decode(false)), expected["raw"], "{name}");
        assert_eq!(found(open(name)), expected["decoded"], "{name}");
    }
    let both = found(open("shard-{000000..000001}.tar"));
    let manifest = manifest(PRODUCER);
    let parts = ["shard-000000.tar", "shard-000001.tar"];
    let parts = parts.map(|name| manifest[name]["decoded"].as_array().unwrap().clone());
    assert_eq!(both, Json::from(parts.concat()));
}

#[test]
fn fields_are_in_the_order_of_the_archive() {
    let first = &samples(open("shard-000000.tar").shard_in_key(true)).unwrap()[0];
    let names: Vec<_> = first.as_map().unwrap().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, [Some("key"), Some("cls"), Some("jpg"), Some("json")]);
    assert_eq!(first["key"].as_str(), Some("shard-000000/a/0001"));
}

#[test]
fn what_cannot_be_a_sample() {
    let error = samples(open("twice.tar")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().ends_with("expected one file \"x\" of a sample, found two"));
    let error = samples(open("shard-000000.tar").max_bytes(13)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    let message = "entry \"a/0001.jpg\" at byte 1024: expected at most 13 bytes, found 14";
    assert_eq!(error.message(), message);
    let missing = WebDatasetReader::open("no/such-{0..3}.tar").unwrap_err();
    assert_eq!(
        (missing.kind(), missing.path()),
        (ErrorKind::NotFound, Some(Path::new("no/such-0.tar")))
    );
    assert_eq!(WebDatasetReader::open_all([""; 0]).unwrap_err().kind(), ErrorKind::Invalid);
}

/// An archive of one entry, with another type and name.
fn one(code: u8, name: &str) -> Vec<u8> {
    let mut block: [u8; 512] = tar::file_header(name, 0).unwrap().try_into().unwrap();
    block[156] = code;
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    [&block[..], &[0; 1024]].concat()
}

#[test]
fn entries_that_are_refused() {
    let table = [
        (b'0', "../a.txt", "expected a relative name without \"..\", found another"),
        (b'0', "a/../b.txt", "expected a relative name without \"..\", found another"),
        (b'0', "/etc/b.txt", "expected a relative name without \"..\", found another"),
        (b'1', "a.txt", "expected files and directories, found a link"),
        (b'2', "a.txt", "expected files and directories, found a link"),
        (b'3', "a.txt", "expected files and directories, found a device"),
        (b'S', "a.txt", "expected files and directories, found a sparse file"),
        (b'V', "a.txt", "expected files and directories, found an entry of type 'V'"),
    ];
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("one.tar");
    for (code, name, message) in table {
        fs::write(&path, one(code, name)).unwrap();
        let error = samples(WebDatasetReader::open(&path).unwrap()).unwrap_err();
        assert_eq!(error.message(), format!("entry {name:?} at byte 0: {message}"));
    }
    for content in ["{", "[1e999]", "\"\\ud800\""] {
        let header = tar::file_header("a.json", content.len() as u64).unwrap();
        let mut archive = [&header, content.as_bytes()].concat();
        archive.resize(3 * 512 + 512, 0);
        fs::write(&path, archive).unwrap();
        let error = samples(WebDatasetReader::open(&path).unwrap()).unwrap_err();
        assert_eq!((error.kind(), error.key()), (ErrorKind::Damaged, Some("a")), "{content}");
    }
}

#[test]
fn damaged_archives() {
    for name in ["shard-000000.tar", "shard.tar.gz"] {
        let path = dir(PRODUCER).join(name);
        let read = |path: &Path| {
            let input = WebDatasetReader::open(path).unwrap().decode(false);
            packed(&input).map(|samples| format!("{samples:?}"))
        };
        let whole = read(&path).unwrap();
        let plain = name == "shard-000000.tar";
        // Most of an archive are zeros.
        let step = if plain { 13 } else { 1 };
        for (at, found) in damage(&path, step, true, read) {
            // After the first block of zeros nothing is missed.
            assert!(found == whole && plain && at >= 13 * 512, "{name} cut at {at}");
        }
        for (at, found) in damage(&path, step, false, read) {
            // Contents have no checksum in a plain archive; gzip has one, but not of its header.
            let in_content = plain && at < 12 * 512 && (at / 512) % 2 == 1;
            assert!(found == whole || in_content, "{name} changed at {at}: {found}");
        }
    }
}

fn zstd_frame(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn zstandard_in_any_number_of_frames() {
    let whole = fs::read(dir(PRODUCER).join("shard-000000.tar")).unwrap();
    let (a, b) = whole.split_at(700);
    let skippable = [&0x184d2a53u32.to_le_bytes()[..], &3u32.to_le_bytes(), b"abc"].concat();
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("shard-000000.tar.zst");
    let expected = found(open("shard-000000.tar"));
    let frames = [&zstd_frame(a)[..], &skippable, &zstd_frame(b""), &zstd_frame(b)].concat();
    for bytes in
        [zstd_frame(&whole), frames.clone(), [&skippable[..], &zstd_frame(&whole)].concat()]
    {
        fs::write(&path, bytes).unwrap();
        assert_eq!(found(WebDatasetReader::open(&path).unwrap()), expected);
    }
    fs::write(&path, &frames[..frames.len() - 5]).unwrap();
    let cut = samples(WebDatasetReader::open(&path).unwrap()).unwrap_err();
    assert_eq!(cut.kind(), ErrorKind::Damaged);
    fs::File::create(&path).unwrap().write_all(b"\xfd7zXZ\0\0").unwrap();
    let other = samples(WebDatasetReader::open(&path).unwrap()).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Unsupported);
}

fn sample(key: &str, fields: Vec<(&str, Value)>) -> Vec<u8> {
    let fields = fields.into_iter().map(|(name, value)| (name.into(), value));
    let entries = std::iter::once(("key".into(), key.into())).chain(fields);
    msgpack::to_vec(&Value::Map(entries.collect())).unwrap()
}

#[test]
fn what_is_written_is_read_again() {
    let scratch = tempfile::tempdir().unwrap();
    let prefix = scratch.path().join("out");
    let array = NdArray::new("<i2".parse().unwrap(), [2, 1], &[1, 0, 2, 0][..]).unwrap();
    let array = numpy::Special::Array(array).to_value();
    let written = [
        sample(
            "a/1",
            vec![
                ("jpg", Value::Binary(vec![0xff; 600])),
                ("label", 3.into()),
                ("cls", (-4).into()),
                ("caption", "zwei".into()),
                ("txt", "".into()),
                ("txt2.json", Value::Binary(b"{".to_vec())),
                ("points", array.clone()),
                ("meta", Value::Map(vec![("x".into(), Value::F64(0.5)), ("y".into(), Value::Nil)])),
                ("ok", true.into()),
            ],
        ),
        sample(&format!("{}/2", "deep".repeat(70)), vec![("cls", u64::MAX.into())]),
        sample("3", vec![("cls", 0.into())]),
    ];
    let mut writer = WebDatasetWriter::create(&prefix).unwrap().shard_samples(2);
    written.iter().for_each(|sample| writer.write_packed(sample).unwrap());
    let shards = writer.finish().unwrap();
    assert_eq!(shards.len(), 2);
    assert!(shards.iter().all(|path| fs::metadata(path).unwrap().len() % 10240 == 0));
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 2);

    let shards = shards.iter().map(|path| path.to_str().unwrap());
    let found = samples(WebDatasetReader::open_all(shards).unwrap()).unwrap();
    let names: Vec<_> =
        found[0].as_map().unwrap().iter().map(|(name, _)| name.as_str().unwrap()).collect();
    let expected =
        ["key", "jpg", "label", "cls", "caption", "txt", "txt2.json", "points", "meta", "ok"];
    assert_eq!(names, expected);
    // What other readers see.
    let shard = fs::read(scratch.path().join("out-000000.tar")).unwrap();
    let files = ["jpg", "label.cls", "cls", "caption.txt", "txt", "txt2.json.bin", "points.npy"];
    for file in files.into_iter().chain(["meta.json", "ok.json"]) {
        let name = format!("a/1.{file}\0");
        assert!(shard.windows(name.len()).any(|found| found == name.as_bytes()), "{name}");
    }
    let first = msgpack::decode(&written[0]).unwrap();
    for ((_, found), (_, expected)) in
        found[0].as_map().unwrap().iter().zip(first.as_map().unwrap())
    {
        assert_eq!(found, expected);
    }
    assert_eq!(found[1], msgpack::decode(&written[1]).unwrap());
    assert_eq!(found[2], msgpack::decode(&written[2]).unwrap());

    let again = WebDatasetWriter::create(&prefix).unwrap().write_packed(&written[2]);
    assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
}

#[test]
fn what_would_not_be_found_again_is_not_written() {
    let scratch = tempfile::tempdir().unwrap();
    let prefix = scratch.path().join("out");
    let mut writer = WebDatasetWriter::create(&prefix).unwrap();
    let cls = || vec![("cls", 1.into())];
    for key in ["", "a/", "/a", "../a", "__a__/b", "a\0"] {
        let error = writer.write_packed(&sample(key, cls())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{key:?}");
    }
    for fields in [
        vec![],
        vec![("A", 1.into()), ("a", 1.into())],
        vec![("a/b", 1.into())],
        vec![("a", 1.into()), ("a.cls", 2.into())],
    ] {
        let error = writer.write_packed(&sample("k", fields.clone())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{fields:?}");
    }
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    writer.write_packed(&sample("k", cls())).unwrap();
    let error = writer.write_packed(&sample("k", cls())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateKey);
    drop(writer);
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

/// The names of the entries of a shard, those of headers left out.
fn entries(shard: &std::path::Path) -> Vec<String> {
    let bytes = fs::read(shard).unwrap();
    let (mut at, mut names) = (0, Vec::new());
    while let Some(block) = bytes.get(at..at + 512).filter(|block| block[0] != 0) {
        let text = |range: std::ops::Range<usize>| {
            let field = block[range].split(|&byte| byte == 0).next().unwrap();
            String::from_utf8(field.to_vec()).unwrap()
        };
        let size = usize::from_str_radix(text(124..136).trim(), 8).unwrap();
        if block[156] == b'0' {
            names.push(text(0..100));
        }
        at += 512 + size.next_multiple_of(512);
    }
    names
}

/// What `decode("pil").to_tuple("jpg", "cls")` of webdataset expects.
#[test]
fn image_and_label_have_the_names_that_readers_expect() {
    let scratch = tempfile::tempdir().unwrap();
    let jpeg = || Value::Binary(b"\xff\xd8\xff..".to_vec());
    let png = || Value::Binary(b"\x89PNG\r\n\x1a\n".to_vec());
    let int = |number: i64| {
        let array = kiste::value::NdArray::scalar(number);
        kiste::format::msgpack::numpy::Special::Scalar(array).to_value()
    };
    let written = [
        sample("cat.1", vec![("image", jpeg()), ("label", 3.into()), ("mask", png())]),
        sample("cat.2", vec![("image", png()), ("label", int(-4))]),
        // Names that mean something else by now.
        sample("50%/cat.3", vec![("jpg", jpeg()), ("cls", 5.into()), ("label", 6.into())]),
        sample("cat", vec![("image", "none".into()), ("Label", Value::Nil)]),
    ];
    let mut writer = WebDatasetWriter::create(scratch.path().join("out")).unwrap();
    written.iter().for_each(|sample| writer.write_packed(sample).unwrap());
    assert_eq!(writer.changes(), []);
    let shards = writer.finish().unwrap();
    let expected = [
        "cat%2E1.jpg",
        "cat%2E1.cls",
        "cat%2E1.mask.png",
        "cat%2E2.png",
        "cat%2E2.cls",
        "50%25/cat%2E3.jpg",
        "50%25/cat%2E3.cls",
        "50%25/cat%2E3.label.cls",
        "cat.image.txt",
        "cat.label.json",
    ];
    assert_eq!(entries(&shards[0]), expected);
    // However the shard is cut into units.
    for bytes in [512, 1024, 1536, 1 << 20] {
        let reader = WebDatasetReader::open_all(&shards).unwrap().unit_bytes(bytes);
        let found = samples(reader).unwrap();
        let expected: Vec<Value> =
            written.iter().map(|packed| msgpack::decode(packed).unwrap()).collect();
        assert_eq!(found, expected, "{bytes}");
    }
    // Two shards as one archive would mix what their files mean.
    let other = WebDatasetWriter::create(scratch.path().join("other"));
    let mut other = other.unwrap();
    other.write_packed(&sample("x", vec![("cls", 1.into())])).unwrap();
    let last = other.finish().unwrap();
    let first = fs::read(&shards[0]).unwrap();
    let end = first.len() - first.iter().rev().take_while(|byte| **byte == 0).count();
    let both = [&first[..end.next_multiple_of(512)], &fs::read(&last[0]).unwrap()].concat();
    let path = scratch.path().join("both.tar");
    fs::write(&path, both).unwrap();
    let error = samples(WebDatasetReader::open(&path).unwrap()).unwrap_err();
    assert!(error.to_string().contains("several in one archive that differ"), "{error}");
}

/// Integers that do not fit became floats, and NaN was damage.
#[test]
fn json_of_python_is_read_as_it_is() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("x.tar");
    let shard = |json: &str| {
        let mut block = vec![0; 512];
        block[..6].copy_from_slice(b"a.json");
        block[124..135].copy_from_slice(format!("{:011o}", json.len()).as_bytes());
        block[156] = b'0';
        block[148..156].copy_from_slice(b"        ");
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        let mut content = json.as_bytes().to_vec();
        content.resize(512, 0);
        fs::write(&path, [block, content, vec![0; 1024]].concat()).unwrap();
        samples(WebDatasetReader::open(&path).unwrap())
    };
    let found = shard("{\"a\": [NaN, -Infinity], \"$bin\": \"eA==\", \"n\": 18446744073709551615}");
    let found = &found.unwrap()[0]["json"];
    assert!(found["a"][0].as_f64().unwrap().is_nan());
    assert_eq!((&found["$bin"], &found["n"]), (&"eA==".into(), &u64::MAX.into()));
    let error = shard("{\"n\": 18446744073709551616}").unwrap_err();
    assert!(error.to_string().contains("an integer from -2^63 to 2^64-1"), "{error}");
}

/// What a shard notes about itself may be damaged like everything else in it.
#[test]
fn notes_of_shards_are_not_trusted() {
    let scratch = tempfile::tempdir().unwrap();
    let mut writer = WebDatasetWriter::create(scratch.path().join("out")).unwrap();
    writer.write_packed(&sample("a", vec![("label", 1.into())])).unwrap();
    // Noted before the file, as the shard has another meaning for its name.
    writer.write_packed(&sample("b", vec![("cls", 2.into())])).unwrap();
    let path = writer.finish().unwrap().remove(0);
    let whole = fs::read(&path).unwrap();
    let found = samples(WebDatasetReader::open(&path).unwrap()).unwrap();
    assert_eq!((&found[0]["label"], &found[1]["cls"]), (&1.into(), &2.into()));
    for (from, to, kind) in [
        ("\"version\":1", "\"version\":9", ErrorKind::Unsupported),
        ("\"version\":1", "\"version\"!1", ErrorKind::Damaged),
        ("{\"cls\":[\"label\"]}", "{\"cls\":[1,2,345]}", ErrorKind::Damaged),
        ("[\"cls\"]\n", "[12345!\n", ErrorKind::Damaged),
        // The record that holds the note.
        (" KISTE.webdataset=", " KISTE.webdataset!", ErrorKind::Damaged),
    ] {
        assert_eq!(from.len(), to.len());
        let at = whole.windows(from.len()).position(|bytes| bytes == from.as_bytes());
        let at = at.unwrap_or_else(|| panic!("{from} is not in the shard"));
        let mut changed = whole.clone();
        changed[at..at + to.len()].copy_from_slice(to.as_bytes());
        fs::write(&path, changed).unwrap();
        let error = samples(WebDatasetReader::open(&path).unwrap()).unwrap_err();
        assert_eq!(error.kind(), kind, "{to}: {error}");
    }
}
