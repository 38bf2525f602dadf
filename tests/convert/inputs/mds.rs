//! Data sets that MosaicML's Streaming wrote, and ours.

use std::fs;
use std::path::Path;

use kiste::ErrorKind;
use kiste::Value;
use kiste::convert::{MdsReader, MdsWriter};
use kiste::format::msgpack::{self, numpy};
use kiste::value::NdArray;
use serde_json::Value as Json;

use super::{dir, manifest, packed, plain, samples};

const PRODUCER: &str = "streaming-0.13.0";

/// Those that are read.
const COMPRESSIONS: &[&str] = &[
    #[cfg(feature = "parquet")]
    "br",
    #[cfg(feature = "formats")]
    "bz2",
    "gz",
    "snappy",
    "zstd",
];

fn open(name: &str) -> MdsReader {
    MdsReader::open(dir(PRODUCER).join(name)).unwrap()
}

fn fields(sample: &Value) -> Json {
    let mut sample = plain(sample);
    sample.as_object_mut().unwrap().remove("key").unwrap();
    sample
}

/// Images, which the manifest has as one column of bytes: number, lengths, images.
fn joined(images: &Json) -> Json {
    let hex = |image: &Json| image["bytes"].as_str().unwrap().to_owned();
    let images: Vec<String> = images.as_array().unwrap().iter().map(hex).collect();
    let lens = images.iter().map(|image| image.len() as u32 / 2);
    let head = std::iter::once(images.len() as u32).chain(lens);
    let head: String = head.map(|n| format!("{:08x}", n.swap_bytes())).collect();
    serde_json::json!({ "bytes": head + &images.concat() })
}

#[test]
fn columns_of_all_encodings() {
    let input = open("all");
    let found = samples(input).unwrap();
    let expected = manifest(PRODUCER);
    let expected = expected["all"].as_array().unwrap();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let (mut found, mut expected) = (fields(found), expected.clone());
        found["images"] = joined(&found["images"]);
        // To Python this is a float, and packed as one.
        assert_eq!(expected["float64"]["scalar"], "<f8");
        let bits = u64::from_str_radix(expected["float64"]["data"].as_str().unwrap(), 16).unwrap();
        expected["float64"] = f64::from_bits(bits.swap_bytes()).into();
        assert_eq!(found, expected);
    }
    let keys: Vec<_> = found.iter().map(|sample| sample["key"].as_str().unwrap()).collect();
    assert_eq!(
        keys,
        ["shard.00000/000000", "shard.00000/000001", "shard.00001/000000", "shard.00002/000000"]
    );
}

#[test]
fn compressed_shards() {
    for name in COMPRESSIONS {
        let found = samples(open(name).key("n")).unwrap();
        assert_eq!(found.len(), 30);
        for (at, sample) in found.iter().enumerate() {
            assert_eq!(sample["key"].as_str(), Some(&at.to_string()[..]));
            assert_eq!(sample["text"].as_str(), Some(&"text".repeat(50)[..]), "{name}");
        }
    }
}

#[test]
fn compression_that_is_not_read_is_named() {
    let index = fs::read_to_string(dir(PRODUCER).join("gz/index.json")).unwrap();
    let index = index.replace(r#""compression": "gz""#, r#""compression": "lz4:9""#);
    let error = with_file("gz", "index.json", index.as_bytes()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let (last, others) = COMPRESSIONS.split_last().unwrap();
    let known = format!("{} or {last}", others.join(", "));
    assert_eq!(error.message(), format!("expected compression by {known}, found \"lz4\""));
}

/// The index of `bz2` has all digests that Streaming knows: each is right, and each is looked at.
#[cfg(feature = "formats")]
#[test]
fn all_digests_are_compared() {
    let text = fs::read_to_string(dir(PRODUCER).join("bz2/index.json")).unwrap();
    let index: Json = serde_json::from_str(&text).unwrap();
    for which in ["raw_data", "zip_data"] {
        let hashes = index["shards"][0][which]["hashes"].as_object().unwrap();
        assert_eq!(hashes.len(), 17);
        for (name, digest) in hashes {
            let mut changed = index.clone();
            let digits: String = digest.as_str().unwrap().chars().rev().collect();
            changed["shards"][0][which]["hashes"][name] = digits.clone().into();
            let error = with_file("bz2", "index.json", changed.to_string().as_bytes()).unwrap_err();
            let expected = format!("expected the {name} digest {digits}, found {digest}");
            assert_eq!(error.message(), expected.replace('"', ""));
        }
    }
}

#[test]
fn pickles_are_never_run() {
    let error = samples(open("pickle")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().starts_with("column \"p\" holds pickles"), "{error}");
    let found = samples(open("pickle").without(["p"])).unwrap();
    assert_eq!(fields(&found[0]), serde_json::json!({"id": 1}));
}

/// A copy of a data set of which one file is other bytes.
fn with_file(name: &str, file: &str, bytes: &[u8]) -> kiste::Result<Vec<Vec<u8>>> {
    let scratch = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(dir(PRODUCER).join(name)).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, scratch.path().join(path.file_name().unwrap())).unwrap();
    }
    fs::write(scratch.path().join(file), bytes).unwrap();
    let found = MdsReader::open(scratch.path()).and_then(|input| packed(&input));
    found.inspect_err(|error| assert!(error.path().unwrap().starts_with(scratch.path()), "{error}"))
}

#[test]
fn damaged_files() {
    for (name, file, step) in [
        ("all", "shard.00001.mds", 37),
        ("all", "index.json", 13),
        ("zstd", "shard.00000.mds.zstd", 5),
        ("gz", "shard.00000.mds.gz", 5),
        ("snappy", "shard.00000.mds.snappy", 7),
        #[cfg(feature = "formats")]
        ("bz2", "shard.00000.mds.bz2", 5),
        #[cfg(feature = "parquet")]
        ("br", "shard.00000.mds.br", 1),
    ] {
        let whole = fs::read(dir(PRODUCER).join(name).join(file)).unwrap();
        let expected = with_file(name, file, &whole).unwrap();
        for at in (0..whole.len()).step_by(step) {
            assert!(with_file(name, file, &whole[..at]).is_err(), "{file} cut at {at}");
            let mut changed = whole.clone();
            changed[at] ^= 1 << (at % 7);
            // Of the index not all matters, and some is only names.
            let found = with_file(name, file, &changed);
            let passed =
                file == "index.json" && found.as_ref().is_ok_and(|f| f.len() == expected.len());
            assert!(found.is_err() || passed, "{file} changed at {at}");
        }
    }
    let none = tempfile::tempdir().unwrap();
    assert_eq!(MdsReader::open(none.path()).unwrap_err().kind(), ErrorKind::NotFound);
}

fn map(entries: Vec<(&str, Value)>) -> Value {
    Value::Map(entries.into_iter().map(|(name, value)| (name.into(), value)).collect())
}

fn array(dtype: &str, shape: &[usize], bytes: Vec<u8>) -> Value {
    let array = NdArray::new(dtype.parse().unwrap(), shape, bytes).unwrap();
    numpy::Special::Array(array).to_value()
}

fn write(root: &Path, samples: &[Value], limit: u64) -> kiste::Result<()> {
    let mut writer = MdsWriter::create(root)?.shard_bytes(limit);
    for sample in samples {
        writer.write_packed(&msgpack::to_vec(sample).unwrap())?;
    }
    writer.finish()
}

#[test]
fn what_is_written_is_what_the_real_one_writes() {
    let scratch = tempfile::tempdir().unwrap();
    let sample = |i: u16| {
        map(vec![
            ("key", format!("k{i:02}").into()),
            ("ä", f64::from(i).into()),
            (
                "array",
                array("<u2", &[usize::from(i) + 1], (0..=i).flat_map(u16::to_le_bytes).collect()),
            ),
            ("json", Value::Array(vec![i.into()])),
            ("n", i.into()),
            ("b", Value::Binary(vec![0; i.into()])),
        ])
    };
    let written: Vec<Value> = (0..20).map(sample).collect();
    write(scratch.path(), &written, 1024).unwrap();
    let golden = dir(PRODUCER).join("ours");
    let mut names: Vec<_> =
        fs::read_dir(&golden).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), names.len());
    for name in names {
        let same =
            fs::read(golden.join(&name)).unwrap() == fs::read(scratch.path().join(&name)).unwrap();
        assert!(same, "{name:?}");
    }
    let again = write(scratch.path(), &written, 1024).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    let found = samples(MdsReader::open(scratch.path()).unwrap().key("key")).unwrap();
    assert_eq!((found[19]["key"].as_str(), found[19]["_key"].as_str()), (Some("k19"), Some("k19")));
}

#[test]
fn what_is_not_like_the_first_sample() {
    let scratch = tempfile::tempdir().unwrap();
    let first = map(vec![("key", "a".into()), ("n", 1.into())]);
    for other in [
        vec![("key", "b".into())],
        vec![("key", "b".into()), ("n", "1".into())],
        vec![("key", "b".into()), ("m", 1.into())],
        vec![("key", "b".into()), ("n", 1.into()), ("m", 1.into())],
        vec![("key", "b".into()), ("n", u64::MAX.into())],
        vec![("key", "b".into()), ("n", 1.into()), ("n", 2.into())],
    ] {
        let error = write(scratch.path(), &[first.clone(), map(other)], 1000).unwrap_err();
        assert_eq!((error.kind(), error.key()), (ErrorKind::Invalid, Some("b")));
    }
    let large = map(vec![("key", "b".into()), ("n", u64::MAX.into())]);
    let error = write(scratch.path(), &[first, large], 1000).unwrap_err();
    let expected = "expected int as in the first sample, found str_int";
    assert_eq!((error.field(), error.message()), (Some("n"), expected));
    let empty = map(vec![("key", "b".into()), ("x", array("|u1", &[0], vec![]))]);
    assert_eq!(write(scratch.path(), &[empty], 1000).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}
