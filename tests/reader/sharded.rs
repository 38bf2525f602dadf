//! Shards, as one.

use std::fs;

use kiste::reader::{Reader, ReaderExt, ShardedReader};
use kiste::{DatasetReader, ErrorKind, Value, Writer};
use serde_json::Value as Json;

use super::conformance::ask_all;
use crate::support::{golden, golden_dir, golden_json, packed};

#[test]
fn shards_answer_as_python_says() {
    let expected = &golden_json("sharded.json")["explicit"];
    let names = expected["shards"].as_array().unwrap();
    let paths: Vec<_> = names.iter().map(|name| golden(name.as_str().unwrap())).collect();
    let opened = paths.iter().map(|path| DatasetReader::open(path).unwrap());
    let shards = ShardedReader::new(opened).unwrap();
    let keys = expected["keys_in_order"].as_array().unwrap();
    let keys: Vec<&str> = keys.iter().map(|key| key.as_str().unwrap()).collect();
    assert_eq!(expected["len"], shards.len());
    ask_all(&shards, &keys, "shards");

    let (mut same, mut errors) = (0, 0);
    for question in expected["get"].as_array().unwrap() {
        // There are no negative indices here.
        let Some(index) = question[0].as_u64() else { continue };
        match question[1].get("ok") {
            Some(sample) => {
                let fields = sample["$map"].as_array().unwrap().iter();
                let sample = Value::Map(fields.map(|f| (scalar(&f[0]), scalar(&f[1]))).collect());
                assert_eq!(shards.get(index as usize).unwrap(), sample);
                same += 1;
            }
            None => {
                assert!(shards.get(index as usize).is_err());
                errors += 1;
            }
        }
    }
    assert_eq!((same, errors), (9, 2));
    let mut slices = 0;
    for slice in expected["slice"].as_array().unwrap() {
        let Some(keys) = slice[2]["ok"].as_array() else { continue };
        let bound = |bound: &Json, default: usize| match bound.as_i64() {
            Some(bound) if bound < 0 => shards.len() - bound.unsigned_abs() as usize,
            Some(bound) => (bound as usize).min(shards.len()),
            None => default,
        };
        let start = bound(&slice[0], 0);
        let end = bound(&slice[1], shards.len()).max(start);
        let found: Vec<String> =
            (&shards).range(start..end).keys().map(|key| key.unwrap().into_owned()).collect();
        assert_eq!(found, keys.iter().map(|key| key.as_str().unwrap()).collect::<Vec<_>>());
        slices += 1;
    }
    assert_eq!(slices, 42);
    let mut looked_up = 0;
    for question in expected["find_index"].as_array().unwrap() {
        let index = question[1].get("ok").map(|index| index.as_u64().unwrap() as usize);
        assert_eq!(shards.find(question[0].as_str().unwrap()).unwrap(), index);
        looked_up += 1;
    }
    assert_eq!(looked_up, 6);
}

fn scalar(json: &Json) -> Value {
    match json {
        Json::String(text) => text.as_str().into(),
        other => other.as_u64().unwrap().into(),
    }
}

fn shard(path: &std::path::Path, keys: &[&str]) {
    let mut writer = Writer::create(path).unwrap();
    for key in keys {
        writer.write_packed(&packed(key, 1)).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn shards_of_a_pattern_come_in_natural_order_and_may_be_empty() {
    let dir = tempfile::tempdir().unwrap();
    for (name, keys) in [("10", &["d", "b"][..]), ("2", &[]), ("1", &["a", "b"]), ("3", &["c"])] {
        shard(&dir.path().join(format!("shard-{name}.msgpack")), keys);
    }
    fs::create_dir(dir.path().join("shard-0.msgpack")).unwrap();
    for pattern in ["shard-*.msgpack", "shard-*", "**/shard-*.msgpack"] {
        let pattern = format!("{}/{pattern}", dir.path().display());
        let shards = DatasetReader::open(&pattern).unwrap();
        assert_eq!(shards.shards(), 4, "{pattern}");
        let keys: Vec<String> = shards.keys().map(|key| key.unwrap().into_owned()).collect();
        assert_eq!(keys, ["a", "b", "c", "d", "b"], "{pattern}");
        assert_eq!(shards.find("b").unwrap(), Some(1), "{pattern}");
    }
    let nothing = DatasetReader::open(format!("{}/none-*", dir.path().display()));
    assert_eq!(nothing.unwrap_err().kind(), ErrorKind::NotFound);

    let open = |n| DatasetReader::open(dir.path().join(format!("shard-{n}.msgpack"))).unwrap();
    let shards = ShardedReader::new([1, 2, 3, 10].map(open)).unwrap();
    super::conformance::ask(&shards, &["a", "b", "c", "d", "b"], "datasets");
    assert_eq!(shards.duplicates().unwrap(), [(1, 4)]);
    assert_eq!(shards.shard_of(2).unwrap(), (2, 0));
    let place = shards.locate(4);
    assert!(place.path.unwrap().ends_with("shard-10.msgpack"));
    assert_eq!((place.index, place.range), (1, Some(10..20)));
    ask_all(&ShardedReader::<DatasetReader>::new([]).unwrap(), &[], "no shards");
}

#[test]
fn errors_name_the_shard_and_the_sample_in_it() {
    let reader = DatasetReader::open(golden("shard-1")).unwrap();
    let shards: ShardedReader<Box<dyn Reader>> = ShardedReader::new([
        Box::new(reader.clone().range(..1)) as Box<dyn Reader>,
        Box::new(reader),
    ])
    .unwrap();
    #[derive(serde::Deserialize, Debug)]
    #[expect(dead_code, reason = "never made")]
    struct Other {
        no_such_field: u8,
    }
    let error = shards.get_as::<Other>(2).unwrap_err();
    assert_eq!(error.path(), Some(golden_dir().join("shard-1.msgpack").as_path()));
    assert_eq!(error.index(), Some(1));
}
