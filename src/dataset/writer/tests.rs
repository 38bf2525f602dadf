//! Colliding hashes, which the format's own hash produces once in a lifetime: injected. And samples
//! whose key is not where a writer first looks.

use std::path::Path;
use std::sync::Arc;

use crate::dataset::index::IndexOptions;
use crate::format::dataset::key_hashes::{self, Salt};
use crate::storage::{MemoryStorage, Storage};

use super::super::index::HashMany;
use super::*;

/// All keys have few hashes under the first two salts, and their own from then on.
fn weak_twice(salt: &Salt, keys: &[&[u8]], out: &mut [u64]) {
    let weak = [Salt::of_try(0), Salt::of_try(1)].contains(salt);
    for (key, out) in keys.iter().zip(out) {
        let hash = key_hashes::hash(salt, key);
        *out = if weak { hash % 5 } else { hash };
    }
}

/// Two keys have one hash under the first salt.
fn weak_for_two(salt: &Salt, keys: &[&[u8]], out: &mut [u64]) {
    for (key, out) in keys.iter().zip(out) {
        let twin = *salt == Salt::of_try(0) && *key == b"k7";
        *out = key_hashes::hash(salt, if twin { b"k3" } else { key });
    }
}

fn always_the_same(_: &Salt, _: &[&[u8]], out: &mut [u64]) {
    out.fill(7);
}

fn written(hash_many: HashMany, n: usize) -> (MemoryStorage, Result<Stats>) {
    let storage = MemoryStorage::new();
    let options = Writer::options().storage(Arc::new(storage.clone())).lookup(true);
    let mut writer = options.hash_many(hash_many).create("x").unwrap();
    for i in 0..n {
        let key = format!("k{i}");
        let sample = vec![("key".into(), key.as_str().into()), ("v".into(), i.into())];
        writer.write_value(&Value::Map(sample)).unwrap();
    }
    let result = writer.finish();
    (storage, result)
}

fn check_salt(hash_many: HashMany, tries: u32) {
    let (storage, result) = written(hash_many, 50);
    assert_eq!(result.unwrap().samples, 50);
    let file = storage.get("x.key_hashes").unwrap();
    let salt = Salt::of_try(tries);
    assert_eq!(file[..8], salt.0);
    for (i, hash) in file[8..].chunks_exact(8).enumerate() {
        let expected = key_hashes::hash(&salt, format!("k{i}").as_bytes());
        assert_eq!(hash, expected.to_be_bytes(), "{i}");
    }
    // All files use that salt, so readers and checks notice nothing.
    let shared: Arc<dyn Storage> = Arc::new(storage);
    let reader = DatasetReader::options().storage(shared.clone()).open("x").unwrap();
    for i in 0..50 {
        assert_eq!(reader.find(&format!("k{i}")).unwrap(), Some(i));
    }
    assert_eq!(reader.find("k50").unwrap(), None);
    let verify = crate::dataset::verify::Verify::of("x").deep(true).storage(shared);
    assert_eq!(verify.run().unwrap().problems, []);
}

#[test]
fn keys_with_one_hash_get_the_next_salt() {
    check_salt(weak_for_two, 1);
    check_salt(weak_twice, 2);
    check_salt(index::hash_keys, 0);
}

#[test]
fn a_hash_that_always_collides_is_given_up_at_last() {
    let (storage, result) = written(always_the_same, 3);
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(storage.get("x").is_none());
    let (_, result) = written(always_the_same, 1);
    assert_eq!(result.unwrap().samples, 1);
}

#[test]
fn real_duplicates_are_told_from_collisions() {
    let sample = |key: &str| [b"\x81\xa3key\xa2", key.as_bytes()].concat();
    let keys = ["k0", "k1", "k2", "k1", "k3"];
    let storage = MemoryStorage::new();
    storage.put("x", keys.map(sample).concat());
    let options = IndexOptions::default().storage(Arc::new(storage.clone()));
    let error = options.build("x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}");
    assert_eq!((error.key(), error.index()), (Some("k1"), Some(3)));
    assert_eq!(storage.names(), [Path::new("x")]);
}

#[test]
fn the_key_that_counts_is_the_one_that_is_refused_again() {
    let options = Writer::options().storage(Arc::new(MemoryStorage::new()));
    let mut writer = options.create("x").unwrap();
    let sample = |fields: &[(&str, &str)]| {
        Value::Map(fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    };
    let long = "l".repeat(300);
    // If there are two, the last one counts, as in Python. It need not be short, nor come first.
    for (key, fields) in [
        ("b", &[("key", "a"), ("key", "b")][..]),
        ("a", &[("key", "a"), ("key", "a")]),
        ("c", &[("v", "d"), ("key", "c")]),
        ("", &[("key", "")]),
        (&long[..40], &[("key", &long[..40])]),
        (&long, &[("key", &long)]),
    ] {
        writer.write_value(&sample(fields)).unwrap();
        for again in [fields, &[("key", key)], &[("v", ""), ("key", key)]] {
            let refused = writer.write_value(&sample(again)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::DuplicateKey, "{key}");
            assert!(writer.contains_key(key).unwrap());
        }
        let refused = writer.write_raw_unchecked(key, b"").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::DuplicateKey, "{key}");
    }
    assert!(!writer.contains_key("d").unwrap());
    // A field that only looks like the key is not taken for it.
    let no_key = Value::Map(vec![("key".into(), "x".into()), ("key".into(), 7.into())]);
    assert_eq!(writer.write_value(&no_key).unwrap_err().kind(), ErrorKind::Invalid);
    let other = writer.write_raw("y", b"\x81\xa3key\xa1x").unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Invalid);
    for absent in ["x", "y"] {
        assert!(!writer.contains_key(absent).unwrap());
    }
    assert_eq!(writer.len(), 6);
    assert_eq!(writer.finish().unwrap().samples, 6);
}
