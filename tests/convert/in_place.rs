//! Samples in place are the samples that a conversion writes; and what is stale, damaged or elsewhere is told.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiste::convert::{BadInput, Conversion, Format, InPlace, Silent};
use kiste::loader::{Columns, Loader};
use kiste::reader::{FieldContent, Reader};
use kiste::sampler::Shuffle;
use kiste::verify::Verify;
use kiste::{DatasetReader, Error, ErrorKind, Result};
use tempfile::TempDir;

use crate::support::one_in;

/// Formats that are read in place, what their files are called, and what reading them back needs as key.
const FORMATS: [(Format, &str, Option<&str>); 5] = [
    (Format::Webdataset, "x.tar", None),
    (Format::Jsonl, "x.jsonl", None),
    (Format::Tfrecord, "x.tfrecord", Some("key")),
    (Format::Mds, "x", Some("key")),
    (Format::Arrow, "x.arrow", None),
];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// Lines with fields that all of the formats carry, a different choice of them each.
fn lines(random: &mut Random, samples: u64) -> String {
    let mut text = String::new();
    for index in 0..samples {
        let n = random.below(1000);
        let words = "wörd ".repeat(n as usize % 7);
        text += &format!(
            "{{\"key\":\"k{index}\",\"n\":{n},\"f\":{}.5,\"text\":{words:?},\"blob\":{{\"$bin\":\"{}\"}}}}\n",
            n as i64 - 500,
            "AAEC".repeat(n as usize)
        );
    }
    text
}

/// A folder with these samples in shards of a format, and the names of the shards.
fn shards(seed: u64, format: Format, name: &str) -> (TempDir, Vec<PathBuf>) {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random(seed);
    let samples = [1, 2, 7, 40, 150][random.below(5) as usize];
    fs::write(dir.path().join("in.jsonl"), lines(&mut random, samples)).unwrap();
    let (source, output) = (dir.path().join("in.jsonl"), dir.path().join(name));
    let conversion = Conversion::new([&source], &output).to(format);
    let conversion = match random.below(2) {
        0 => conversion,
        _ => conversion.shard_samples(1 + random.below(60)),
    };
    conversion.run(&mut Silent).unwrap();
    fs::remove_file(source).unwrap();
    let mut paths: Vec<PathBuf> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    (dir, paths)
}

/// All samples of both, by index, by key and by field.
fn assert_same(place: &Path, converted: &Path) {
    let (place, converted) =
        (DatasetReader::open(place).unwrap(), DatasetReader::open(converted).unwrap());
    assert_eq!(place.len(), converted.len());
    for index in 0..converted.len() {
        let (found, expected) = (place.get_raw(index).unwrap(), converted.get_raw(index).unwrap());
        assert!(found == expected, "{index}: {:.1000?}", (place.get(index), converted.get(index)));
        let key = converted.key(index).unwrap();
        assert_eq!(place.key(index).unwrap(), key);
        assert_eq!(place.find(&key).unwrap(), Some(index));
        for (name, value) in converted.get(index).unwrap().as_map().unwrap() {
            let name = name.as_str().unwrap();
            assert_eq!(place.field(index, name).unwrap().as_ref(), Some(value), "{index} {name}");
        }
        assert_eq!(place.field(index, "absent").unwrap(), None);
    }
    for absent in ["", "k", "k1000"] {
        assert_eq!(place.find(absent).unwrap(), None);
    }
    assert!(place.get_raw(converted.len()).is_err());
}

/// The index and the conversion of the same files, with options for both.
fn both(
    dir: &Path,
    paths: &[PathBuf],
    place: impl FnOnce(InPlace) -> InPlace,
    convert: impl FnOnce(Conversion) -> Conversion,
) -> (Result<PathBuf>, Result<PathBuf>) {
    let (index, out) = (dir.join("i.inplace.json"), dir.join("c.msgpack"));
    let place = place(InPlace::new(paths, &index).overwrite(true)).run(&mut Silent);
    let converted = convert(Conversion::new(paths, &out).overwrite(true)).run(&mut Silent);
    (place.map(|_| index), converted.map(|_| out))
}

#[test]
fn samples_in_place_are_those_of_a_conversion() {
    for (format, name, key) in FORMATS {
        for seed in (0..60).step_by(one_in(4)) {
            let (dir, paths) = shards(seed, format, name);
            let keyed = |conversion: Conversion| match key {
                Some(key) => conversion.key_field(key),
                None => conversion,
            };
            let in_place = |place: InPlace| match key {
                Some(key) => place.key_field(key),
                None => place,
            };
            let keys = [None, Some("{key.shard}/{key}"), Some("{n}-{key.stem}-{key}")];
            let from = |place: InPlace| place.from(format);
            let (place, converted) = match keys[seed as usize % 3] {
                // As the format has keys.
                None => {
                    both(dir.path(), &paths, |it| in_place(from(it)), |it| keyed(it.from(format)))
                }
                Some(pattern) => both(
                    dir.path(),
                    &paths,
                    |it| from(it).key(pattern),
                    |it| it.from(format).key(pattern),
                ),
            };
            match (place, converted) {
                (Ok(place), Ok(converted)) => {
                    assert_same(&place, &converted);
                    assert!(Verify::of(&place).run().unwrap().is_good(), "{name} {seed}");
                }
                (Err(place), Err(converted)) => {
                    assert_eq!(place.kind(), converted.kind(), "{place}")
                }
                (place, converted) => panic!("{name} {seed}: {place:?} {converted:?}"),
            }
        }
    }
}

/// Columns take their fields without the others, which need not be good.
#[test]
fn batches_of_columns_are_the_same() {
    let batches = |name: &Path, threads: usize| {
        let reader = Arc::new(DatasetReader::open(name).unwrap());
        let sampler = Shuffle::new(reader.len() as u64, 9);
        let columns = Columns::new().scalar::<i64>("n").bytes("blob").bytes("key");
        let options = Loader::options(reader, sampler).batch_size(7).threads(threads).epochs(1);
        let batches = options.columns(columns).unwrap().map(|batch| {
            let batch = batch.unwrap();
            let (blobs, ends) = batch.data.bytes("blob").unwrap();
            let keys = batch.data.bytes("key").unwrap().0.to_vec();
            (
                batch.indices,
                batch.data.values::<i64>("n").unwrap().to_vec(),
                blobs.to_vec(),
                ends.to_vec(),
                keys,
            )
        });
        batches.collect::<Vec<_>>()
    };
    for (format, name, key) in FORMATS {
        let (dir, paths) = shards(3, format, name);
        let place = |it: InPlace| match key {
            Some(key) => it.from(format).key_field(key),
            None => it.from(format),
        };
        let convert = |it: Conversion| match key {
            Some(key) => it.from(format).key_field(key),
            None => it.from(format),
        };
        let (place, converted) = both(dir.path(), &paths, place, convert);
        let (place, converted) = (place.unwrap(), converted.unwrap());
        for threads in [0, 2] {
            assert!(batches(&place, threads) == batches(&converted, threads), "{name}");
        }
        let view = DatasetReader::open(&place).unwrap();
        let mut fields = Vec::new();
        let mut take = |name: &str, field: FieldContent<'_>| {
            let value = match field {
                FieldContent::Packed(packed) => kiste::format::msgpack::decode(packed)?,
                FieldContent::Bytes(bytes) => bytes.into(),
            };
            fields.push((name.to_owned(), value));
            Ok(())
        };
        assert!(view.read_fields(0, &["n", "absent"], &mut take).unwrap());
        let converted = DatasetReader::open(&converted).unwrap();
        assert!(!converted.read_fields(0, &["n"], &mut take).unwrap());
        assert_eq!(fields, [("n".to_owned(), view.get(0).unwrap()["n"].clone())]);
    }
}

/// Files of the real writers: the same samples as converted, or a refusal that says what to do.
#[test]
fn files_of_others() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut seen = (0, 0);
    for (folder, names) in [
        (
            "webdataset-1.0.2",
            &["shard-000001.tar", "pax.tar", "twice.tar", "shard-000000.tar", "gnu.tar"][..],
        ),
        ("tfrecord-1.14.6", &["some.tfrecord", "some.tfrecord.gz"]),
        (
            "pyarrow-26.0.1",
            &["types.lz4.arrow", "types.zstd.arrow", "types.file.arrow", "types.stream.arrow"],
        ),
        ("datasets-5.2.0-layouts", &["saved", "dict"]),
        ("datasets-5.2.0", &["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]),
        ("streaming-0.13.0", &["all", "ours", "zstd", "pickle"]),
    ] {
        for name in names {
            let (dir, path) = (tempfile::tempdir().unwrap(), data.join(folder).join(name));
            let (place, converted) = both(dir.path(), &[path], |it| it, |it| it);
            match (place, converted) {
                (Ok(place), Ok(converted)) => {
                    seen.0 += 1;
                    assert_same(&place, &converted);
                }
                (Err(place), converted) => {
                    seen.1 += 1;
                    let refused = [ErrorKind::Unsupported, ErrorKind::Invalid];
                    let is_bad = converted.is_err_and(|error| error.kind() == place.kind());
                    assert!(refused.contains(&place.kind()) || is_bad, "{name}: {place}");
                }
                // What is wrong with a sample is told when it is read.
                (Ok(place), Err(error)) => {
                    assert!(read(&place).iter().any(Result::is_err), "{name}: {error}");
                }
            }
        }
    }
    assert_eq!(seen, (9, 9));
}

/// One file of several archives, each with its end mark; links, hidden files and directories between samples.
#[test]
fn archives_that_were_concatenated() {
    let (dir, paths) = shards(4, Format::Webdataset, "x.tar");
    let bytes: Vec<u8> = paths.iter().flat_map(|path| fs::read(path).unwrap()).collect();
    let all = dir.path().join("all.tar");
    fs::write(&all, &bytes).unwrap();
    let (place, converted) = both(dir.path(), std::slice::from_ref(&all), |it| it, |it| it);
    assert_same(&place.unwrap(), &converted.unwrap());
    // Zeros before a member, and bytes behind the end.
    fs::write(&all, [&bytes[..], &[0; 4096], &bytes[..0], b"behind the end"].concat()).unwrap();
    let (place, converted) = both(dir.path(), &[all], |it| it, |it| it);
    assert_same(&place.unwrap(), &converted.unwrap());
}

/// Blank lines, line ends of Windows, a mark at the front: numbers in keys count all lines.
#[test]
fn lines_keep_their_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    let text = "\u{feff}\n\n{\"n\": 1}\r\n{\"n\": 2}\n   \n{\"n\": 3}\n\n\n{\"n\": [4, {}]}";
    fs::write(&path, text).unwrap();
    let (place, converted) = both(dir.path(), &[path], |it| it, |it| it);
    let place = place.unwrap();
    assert_same(&place, &converted.unwrap());
    let keys: Vec<String> =
        DatasetReader::open(&place).unwrap().keys().map(|key| key.unwrap().into_owned()).collect();
    assert_eq!(keys, ["a/000000002", "a/000000003", "a/000000005", "a/000000008"]);
}

#[test]
fn bad_samples_are_told_or_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    fs::write(&path, "{\"key\":\"a\"}\n{\"n\":1}\n{\"key\":\"b\",\"n\":2}\n[1]\n{\"key\":3}\n")
        .unwrap();
    let index = dir.path().join("a.inplace.json");
    let error = InPlace::new([&path], &index).run(&mut Silent).unwrap_err();
    assert!(error.to_string().contains("as the first line has one, found none"), "{error}");
    assert!(!index.exists());
    let report = InPlace::new([&path], &index).skip_bad(true).run(&mut Silent).unwrap();
    assert_eq!((report.samples, report.bad, report.first.len()), (2, 3, 3));
    let out = dir.path().join("a.msgpack");
    Conversion::new([&path], &out).on_bad_input(BadInput::Skip).run(&mut Silent).unwrap();
    assert_same(&index, &out);
    // Numbers count what is bad.
    fs::write(&path, "{\"n\":0}\n{\"key\":\"x\"}\n\n{\"n\":2}\n").unwrap();
    InPlace::new([&path], &index).skip_bad(true).overwrite(true).run(&mut Silent).unwrap();
    let conversion = Conversion::new([&path], &out).overwrite(true);
    conversion.on_bad_input(BadInput::Skip).run(&mut Silent).unwrap();
    assert_same(&index, &out);
}

/// What has no places of its own is refused, with what can be done.
#[test]
fn what_cannot_be_read_in_place() {
    let dir = tempfile::tempdir().unwrap();
    for (name, content, says) in [
        ("a.json", &b"[{\"key\":\"a\"}]"[..], "found one array of objects"),
        ("b.jsonl", b"\xff\xfe{\0}\0\n\0", "found text in UTF-16"),
        ("c.jsonl", b"\x1f\x8b\x08\0\0\0\0\0", "found gzip"),
        ("d.jsonl", b"\x28\xb5\x2f\xfd\0\0\0\0", "found Zstandard"),
        (
            "e.csv",
            b"key,n\na,1\n",
            "expected files of webdataset, jsonl, tfrecord, mds or arrow, found csv",
        ),
    ] {
        let (file, index) = (dir.path().join(name), dir.path().join("x.inplace.json"));
        fs::write(&file, content).unwrap();
        let making = InPlace::new([&file], &index);
        let making = if name.ends_with("jsonl") { making.from(Format::Jsonl) } else { making };
        let error = making.run(&mut Silent).unwrap_err();
        assert!(error.to_string().contains(says), "{name}: {error}");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(!index.exists());
    }
}

#[test]
fn keys_that_two_samples_have() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["a.jsonl", "b.jsonl"].map(|name| dir.path().join(name));
    for name in &names {
        fs::write(name, "{\"key\":\"0\"}\n").unwrap();
    }
    let index = dir.path().join("x.inplace.json");
    let error = InPlace::new(&names, &index).run(&mut Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateKey);
    assert!(fs::read_dir(dir.path()).unwrap().count() == 2, "nothing is left");
    let report = InPlace::new(&names, &index).key("{key.shard}/{key}").run(&mut Silent).unwrap();
    assert_eq!(report.samples, 2);
    assert_eq!(DatasetReader::open(&index).unwrap().find("b/0").unwrap(), Some(1));
}

fn three() -> (TempDir, Vec<PathBuf>, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = ["a", "b", "c"]
        .iter()
        .map(|name| {
            let path = dir.path().join(format!("{name}.jsonl"));
            let lines = (0..5).map(|n| format!("{{\"key\":\"{name}{n}\",\"n\":{n}}}\n"));
            fs::write(&path, lines.collect::<String>()).unwrap();
            path
        })
        .collect();
    let index = dir.path().join("x.inplace.json");
    (dir, paths, index)
}

#[test]
fn what_changed_is_named_and_indexed_again() {
    let (_dir, paths, index) = three();
    InPlace::new(&paths, &index).run(&mut Silent).unwrap();
    let old = DatasetReader::open(&index).unwrap();
    assert_eq!(old.get(0).unwrap()["n"], 0.into());
    // The second one grows, shrinks, changes within, or is gone.
    let original = fs::read(&paths[1]).unwrap();
    let grown = [&original[..], b"{\"key\":\"b5\",\"n\":5}\n"].concat();
    let changed = String::from_utf8(original.clone()).unwrap().replace("b3", "B3").into_bytes();
    for (content, says) in [
        (Some(grown), "the file has changed since it was indexed: found 114 bytes in place of 95"),
        (Some(original[..38].to_vec()), "found 38 bytes in place of 95"),
        (Some(changed), "found other bytes at its ends"),
        (None, "which is not there any more"),
    ] {
        match &content {
            Some(content) => fs::write(&paths[1], content).unwrap(),
            None => fs::remove_file(&paths[1]).unwrap(),
        }
        let reader = DatasetReader::open(&index).unwrap();
        let error = reader.get(7).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(error.path(), Some(&*paths[1]));
        // The others are as they were.
        assert_eq!(
            (reader.get(4).unwrap()["n"].clone(), reader.get(14).unwrap()["n"].clone()),
            (4.into(), 4.into())
        );
        let report = Verify::of(&index).run().unwrap();
        assert_eq!(report.problems.len(), 5);
        if content.is_some() {
            let copy = index.with_file_name("y.inplace.json");
            for side in fs::read_dir(index.parent().unwrap()).unwrap() {
                let side = side.unwrap().path();
                let name = side.file_name().unwrap().to_str().unwrap().to_owned();
                if let Some(rest) = name.strip_prefix("x.inplace.json") {
                    fs::copy(&side, copy.with_file_name(format!("y.inplace.json{rest}"))).unwrap();
                }
            }
            let report = InPlace::new([] as [&Path; 0], &copy).refresh().run(&mut Silent).unwrap();
            assert_eq!((report.kept, report.shards), (2, 3));
            let converted = index.with_file_name("c.msgpack");
            Conversion::new(&paths, &converted).overwrite(true).run(&mut Silent).unwrap();
            assert_same(&copy, &converted);
        }
    }
    // A reader that had it open goes on with what it has seen.
    assert_eq!(old.get(1).unwrap()["n"], 1.into());
}

#[test]
fn files_are_added() {
    let (dir, paths, index) = three();
    InPlace::new(&paths[..1], &index).run(&mut Silent).unwrap();
    let open = DatasetReader::open(&index).unwrap();
    let report = InPlace::new(&paths, &index).append().run(&mut Silent).unwrap();
    assert_eq!((report.samples, report.kept, report.shards), (15, 1, 3));
    let converted = dir.path().join("c.msgpack");
    Conversion::new(&paths, &converted).run(&mut Silent).unwrap();
    assert_same(&index, &converted);
    assert_eq!((open.len(), open.get(4).unwrap()["n"].clone()), (5, 4.into()));
    let tar = dir.path().join("t.tar");
    Conversion::new([&converted], &tar).to(Format::Webdataset).run(&mut Silent).unwrap();
    let tar = dir.path().join("t-000000.tar");
    let error = InPlace::new([&tar], &index).append().run(&mut Silent).unwrap_err();
    assert!(error.to_string().contains("expected files of jsonl, found webdataset"), "{error}");
}

/// Whoever follows the hint of an index that lacks a side file gets it back.
#[test]
fn side_files_that_are_gone_are_made_again() {
    let (dir, paths, index) = three();
    InPlace::new(&paths, &index).run(&mut Silent).unwrap();
    let converted = dir.path().join("c.msgpack");
    Conversion::new(&paths, &converted).run(&mut Silent).unwrap();
    let side = |ending: &str| PathBuf::from(format!("{}.{ending}", index.display()));
    // Places and keys of shards that stay are taken from these two.
    for (gone, kept) in [
        (&["offsets"][..], 0),
        (&["keys"], 0),
        (&["key_hashes"], 3),
        (&["filter", "md5"], 3),
        (&["offsets", "keys", "key_hashes", "filter", "md5"], 0),
    ] {
        gone.iter().for_each(|ending| fs::remove_file(side(ending)).unwrap());
        if gone == ["key_hashes"] {
            let error = DatasetReader::open(&index).unwrap().get(0).unwrap_err();
            assert!(error.to_string().contains("expected the hashes of keys"), "{error}");
        }
        let report = InPlace::new([] as [&Path; 0], &index).refresh().run(&mut Silent).unwrap();
        assert_eq!((report.kept, report.samples), (kept, 15), "{gone:?}");
        assert_same(&index, &converted);
        assert!(Verify::of(&index).run().unwrap().is_good());
    }
}

#[test]
fn a_shard_of_mds_that_changed_is_indexed_again() {
    let dir = tempfile::tempdir().unwrap();
    let (lines, folder) = (dir.path().join("in.jsonl"), dir.path().join("x"));
    let write = |change: &str| {
        let text = (0..9).map(|n| format!("{{\"key\":\"k{n}\",\"text\":\"{n}\"}}\n"));
        fs::write(&lines, text.collect::<String>().replace("\"4\"", change)).unwrap();
        let conversion = Conversion::new([&lines], &folder).to(Format::Mds).shard_samples(3);
        conversion.overwrite(true).run(&mut Silent).unwrap();
    };
    write("\"4\"");
    let index = dir.path().join("x.inplace.json");
    InPlace::new([&folder], &index).key_field("key").run(&mut Silent).unwrap();
    write("\"other\"");
    let report = InPlace::new([] as [&Path; 0], &index).refresh().run(&mut Silent).unwrap();
    assert_eq!((report.kept, report.samples), (2, 9));
    let converted = dir.path().join("c.msgpack");
    Conversion::new([&folder], &converted).key_field("key").run(&mut Silent).unwrap();
    assert_same(&index, &converted);
    // Without the list of shards nothing says what columns a changed one has.
    fs::write(folder.join("shard.00001.mds"), "").unwrap();
    fs::remove_file(folder.join("index.json")).unwrap();
    let error = InPlace::new([] as [&Path; 0], &index).refresh().run(&mut Silent).unwrap_err();
    assert!(error.to_string().contains("expected an index.json next to the shard"), "{error}");
}

/// Parts of the files that were indexed for themselves, each in a folder of its own.
#[test]
fn indexes_of_parts_become_one() {
    for (format, name, key) in FORMATS {
        let (dir, paths) = shards(5, format, name);
        let making = |paths: &[PathBuf], index: &Path| {
            let making = InPlace::new(paths, index).from(format);
            if let Some(key) = key { making.key_field(key) } else { making }
        };
        let paths = match format == Format::Mds {
            true => mds_shards(&paths[0]),
            false => paths,
        };
        let (one, other) = paths.split_at(paths.len() / 2);
        let mut parts = Vec::new();
        for (part, paths) in [("one", one), ("other", other)] {
            if paths.is_empty() {
                continue;
            }
            fs::create_dir(dir.path().join(part)).unwrap();
            parts.push(dir.path().join(part).join("part.inplace.json"));
            making(paths, &parts[parts.len() - 1]).run(&mut Silent).unwrap();
        }
        let (whole, all) = (dir.path().join("w.inplace.json"), dir.path().join("a.inplace.json"));
        making(&paths, &whole).run(&mut Silent).unwrap();
        let report = InPlace::new(&parts, &all).run(&mut Silent).unwrap();
        assert_eq!((report.kept, report.shards), (paths.len(), paths.len()), "{name}");
        assert_same(&all, &whole);
        assert_eq!(fs::read(&all).unwrap(), fs::read(&whole).unwrap(), "{name}");
        // The parts are not needed any more.
        let gone = |part: &PathBuf| fs::remove_dir_all(part.parent().unwrap()).unwrap();
        parts.iter().for_each(gone);
        assert!(Verify::of(&all).deep(true).run().unwrap().is_good());
    }
}

fn mds_shards(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut shards: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "mds")).collect();
    shards.sort();
    shards
}

#[test]
fn indexes_that_do_not_fit_together() {
    let (dir, paths, index) = three();
    let part = |name: &str| dir.path().join(format!("{name}.inplace.json"));
    InPlace::new(&paths[..1], part("a")).run(&mut Silent).unwrap();
    InPlace::new(&paths[1..], part("b")).key("{key.shard}/{key}").run(&mut Silent).unwrap();
    let refused = |sources: &[PathBuf]| {
        InPlace::new(sources, &index).run(&mut Silent).unwrap_err().to_string()
    };
    let error = refused(&[part("a"), part("b")]);
    assert!(error.contains("expected the options of the index, found others"), "{error}");
    let error = refused(&[part("b"), part("a")]);
    assert!(error.contains("expected the options of the index, found others"), "{error}");
    let error = refused(&[part("a"), paths[1].clone()]);
    assert!(error.contains("expected files or indexes of some, found both"), "{error}");
    // Files that two of them have are there once; keys that two have are refused.
    let report = InPlace::new([part("a"), part("a")], &index).run(&mut Silent).unwrap();
    assert_eq!((report.samples, report.shards), (5, 1));
    InPlace::new(&paths[1..], part("c")).run(&mut Silent).unwrap();
    let report = InPlace::new([part("c")], &index).append().run(&mut Silent).unwrap();
    assert_eq!((report.samples, report.kept), (15, 3));
    fs::copy(&paths[0], dir.path().join("d.jsonl")).unwrap();
    InPlace::new([dir.path().join("d.jsonl")], part("d")).run(&mut Silent).unwrap();
    let report = InPlace::new([part("d")], &index).append().run(&mut Silent);
    assert_eq!(report.unwrap_err().kind(), ErrorKind::DuplicateKey);
    assert_eq!(DatasetReader::open(&index).unwrap().len(), 15);
}

/// The samples by an index, or why there are none.
fn read(index: &Path) -> Vec<std::result::Result<Vec<u8>, Error>> {
    match DatasetReader::open(index) {
        Ok(reader) => (0..reader.len()).map(|at| Ok(reader.get_raw(at)?.into_owned())).collect(),
        Err(error) => vec![Err(error)],
    }
}

/// A file that is cut or changed is an error, or the sample is as it is there: never another one.
#[test]
fn damage_is_an_error_or_nothing() {
    for (format, name, key) in FORMATS {
        let (dir, paths) = shards(3, format, name);
        let index = dir.path().join("i.inplace.json");
        let making = InPlace::new(&paths, &index).from(format);
        let making = if let Some(key) = key { making.key_field(key) } else { making };
        let report = making.run(&mut Silent).unwrap();
        let whole: Vec<Vec<u8>> = read(&index).into_iter().map(Result::unwrap).collect();
        assert!(report.samples > 0 && whole.len() as u64 == report.samples, "{name}");
        let keys: Vec<String> = {
            let reader = DatasetReader::open(&index).unwrap();
            reader.keys().map(|key| key.unwrap().into_owned()).collect()
        };
        let index_file = index.clone();
        let mut files: Vec<PathBuf> = vec![index.clone()];
        files.extend(
            [".offsets", ".key_hashes"]
                .map(|side| PathBuf::from(format!("{}{side}", index.display()))),
        );
        let shard = paths.iter().find(|path| path.is_file()).cloned();
        let shard = shard.unwrap_or_else(|| paths[0].join("shard.00000.mds"));
        files.push(shard.clone());
        for file in files {
            let original = fs::read(&file).unwrap();
            let step = (original.len() / 60).max(1) * one_in(2);
            for at in (0..original.len()).step_by(step) {
                for changed in [
                    original[..at].to_vec(),
                    original
                        .iter()
                        .enumerate()
                        .map(|(i, b)| if i == at { b ^ 0x15 } else { *b })
                        .collect(),
                ] {
                    fs::write(&file, &changed).unwrap();
                    for (index, found) in read(&index).into_iter().enumerate() {
                        let Ok(found) = found else { continue };
                        let key = kiste::format::msgpack::key(&found).unwrap().unwrap();
                        assert_eq!(key, keys[index], "{name} {} {at}", file.display());
                        // Only the bytes of the file itself, and what the index says of them, can make a sample
                        // another one.
                        if file != shard && file.extension() != index_file.extension() {
                            assert!(found == whole[index], "{name} {} {at}", file.display());
                        }
                    }
                }
            }
            fs::write(&file, &original).unwrap();
        }
    }
}

/// An index names any file as a person writes it, and one from a stranger files of its folder alone.
#[test]
fn an_index_of_a_stranger_stays_in_its_folder() {
    let (dir, paths, _) = three();
    let below = dir.path().join("below");
    fs::create_dir(&below).unwrap();
    let index = below.join("x.inplace.json");
    InPlace::new(&paths, &index).run(&mut Silent).unwrap();
    assert_eq!(kiste::open(&index).unwrap().len(), 15);
    assert_eq!(kiste::open(&index).unwrap().get(3).unwrap()["n"], 3.into());
    let mut nothing = |_: kiste::compose::Doing<'_>| Ok(());
    let options = kiste::compose::View::options().untrusted(true);
    let error = options.open(&index, &mut nothing).unwrap().reader().get(3).unwrap_err();
    assert!(
        error.to_string().contains("leads out") || error.kind() == ErrorKind::Invalid,
        "{error}"
    );
    let allowed = options.allow_outside(true).open(&index, &mut nothing).unwrap();
    assert_eq!(allowed.reader().get(3).unwrap()["n"], 3.into());
}

#[test]
fn names_of_indices_are_kept_for_them() {
    let (dir, paths, index) = three();
    let error = InPlace::new(&paths, dir.path().join("x.json")).run(&mut Silent).unwrap_err();
    assert!(error.to_string().contains("ends in .inplace.json"), "{error}");
    let error = Conversion::new(&paths, &index).to(Format::Dataset).run(&mut Silent).unwrap_err();
    assert!(error.to_string().contains("index of samples in place"), "{error}");
    InPlace::new(&paths, &index).run(&mut Silent).unwrap();
    let error = InPlace::new(&paths, &index).run(&mut Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let error = kiste::index::IndexOptions::default().force(true).build(&index).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(kiste::Writer::append(&index).is_err());
    assert_eq!(DatasetReader::open(&index).unwrap().len(), 15);
}

/// Rows of a file that are all bad take no addresses.
#[test]
fn a_file_without_good_samples_is_empty() {
    for (format, name, _) in FORMATS {
        let (dir, paths) = shards(5, format, name);
        let index = dir.path().join("i.inplace.json");
        let making = InPlace::new(&paths, &index).from(format).key_field("none").skip_bad(true);
        let report = making.run(&mut Silent).unwrap();
        assert!(report.samples == 0 && report.bad > 0, "{name}: {report:?}");
        assert_eq!(DatasetReader::open(&index).unwrap().len(), 0, "{name}");
    }
}

/// Whether lines are numbered is decided by the first that can be read, as in a conversion.
#[test]
fn a_bad_line_does_not_decide_about_keys() {
    let dir = tempfile::tempdir().unwrap();
    let (lines, index) = (dir.path().join("a.jsonl"), dir.path().join("i.inplace.json"));
    fs::write(&lines, "{\"b\":{\"$bin\":\"A\"}}\n{\"key\":\"k\"}\n").unwrap();
    let report = InPlace::new([&lines], &index).skip_bad(true).run(&mut Silent).unwrap();
    assert_eq!((report.samples, report.bad), (1, 1));
    assert!(DatasetReader::open(&index).unwrap().get_by_key("k").unwrap().is_some());
}
