//! The questions that every reader answers alike.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use kiste::format::msgpack;
use kiste::reader::{Join, ListReader, Location, Reader, ReaderExt, ShardedReader, Shared};
use kiste::{DatasetReader, ErrorKind, Value};
use serde::Deserialize;

use crate::support::{golden, golden_names};

#[derive(Deserialize)]
struct Keyed {
    key: String,
}

/// Asks a reader that has these keys, in this order.
pub(crate) fn ask(reader: &dyn Reader, keys: &[&str], what: &str) {
    assert_eq!(reader.len(), keys.len(), "{what}");
    assert_eq!(reader.is_empty(), keys.is_empty(), "{what}");
    let listed: Vec<String> = reader.keys().map(|key| key.unwrap().into_owned()).collect();
    assert_eq!(listed, keys, "{what}");
    let mut where_by_key: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, key) in keys.iter().enumerate() {
        where_by_key.entry(key).or_default().push(index);
    }
    for (key, indices) in &where_by_key {
        assert_eq!(reader.find(key).unwrap(), Some(indices[0]), "{what}: {key:?}");
        assert_eq!(&reader.find_all(key).unwrap(), indices, "{what}: {key:?}");
        assert!(reader.contains_key(key).unwrap(), "{what}: {key:?}");
        assert_eq!(reader.get_by_key_as::<Keyed>(key).unwrap().unwrap().key, *key, "{what}");
        let raw = reader.get_raw_by_key(key).unwrap();
        assert_eq!(raw, Some(reader.get_raw(indices[0]).unwrap()), "{what}: {key:?}");
    }
    let absent = ["", "no such key", "\u{0}", "key"];
    // More than one group of those that are looked up together.
    let wanted: Vec<&str> = keys.iter().rev().chain(&absent).chain(keys).copied().collect();
    let found = reader.find_many(&wanted).unwrap();
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (key, found) in wanted.iter().zip(found) {
        assert_eq!(found, where_by_key.get(key).map(|at| at[0]), "{what}: {key:?} of many");
    }
    assert!(reader.find_keys(&[]).unwrap().is_empty(), "{what}");
    // Keys of any kind, and through any pointer.
    let owned: Vec<String> = keys.iter().map(ToString::to_string).collect();
    assert_eq!(reader.find_many(&owned).unwrap(), reader.find_keys(keys).unwrap(), "{what}");
    for (index, key) in keys.iter().enumerate() {
        let what = format!("{what}: {key:?}");
        let raw = reader.get_raw(index).unwrap();
        assert_eq!(msgpack::check_sample(&raw).unwrap(), *key, "{what}");
        assert_eq!(raw, reader.get_raw(index).unwrap(), "{what}");
        // Packed, since a NaN is not equal to itself.
        let packed = msgpack::to_vec(&reader.get(index).unwrap()).unwrap();
        assert!(packed == msgpack::to_vec(&msgpack::decode(&raw).unwrap()).unwrap(), "{what}");
        assert_eq!(reader.get_as::<Keyed>(index).unwrap().key, *key, "{what}");
        assert_eq!(reader.field(index, "key").unwrap(), Some(Value::from(*key)), "{what}");
        assert_eq!(reader.field(index, "no such field").unwrap(), None, "{what}");
        assert_eq!(reader.field_raw(index, "no such field").unwrap(), None, "{what}");
        for field in names_of(&raw) {
            let single = reader.field_raw(index, &field).unwrap();
            assert_eq!(single.as_deref(), msgpack::field(&raw, &field).unwrap(), "{what}: {field}");
        }
        let range = reader.locate(index).range;
        assert!(range.is_none_or(|range| range.start < range.end), "{what}");
    }
    let backwards: Vec<usize> = (0..keys.len()).rev().chain(0..keys.len().min(1)).collect();
    let many = reader.get_raw_many(&backwards).unwrap();
    let single: Vec<_> = backwards.iter().map(|&index| reader.get_raw(index).unwrap()).collect();
    assert_eq!(many, single, "{what}");
    assert!(reader.get_raw_many(&[]).unwrap().is_empty(), "{what}");
    assert_eq!(reader.identity().unwrap(), reader.identity().unwrap(), "{what}");
    // Those of the pointer are those of the reader.
    assert_eq!((&reader).identity().unwrap(), reader.identity().unwrap(), "{what}");
    assert_eq!((&reader).labels().unwrap(), reader.labels().unwrap(), "{what}");
    for absent in absent {
        if !where_by_key.contains_key(absent) {
            assert_eq!(reader.find(absent).unwrap(), None, "{what}: {absent:?}");
            assert!(reader.find_all(absent).unwrap().is_empty(), "{what}: {absent:?}");
            assert!(!reader.contains_key(absent).unwrap(), "{what}: {absent:?}");
            assert_eq!(reader.get_by_key(absent).unwrap(), None, "{what}: {absent:?}");
            assert!(reader.get_by_key_as::<Keyed>(absent).unwrap().is_none(), "{what}: {absent:?}");
            assert_eq!(reader.get_raw_by_key(absent).unwrap(), None, "{what}: {absent:?}");
        }
    }
    let n = keys.len();
    for (start, end) in [(0, n), (0, 0), (n, n), (n / 3, n / 2), (n / 2, n)] {
        let raws: Vec<_> = reader.iter_raw(start..end).map(Result::unwrap).collect();
        let single = |index| reader.get_raw(index).unwrap();
        assert_eq!(raws, (start..end).map(single).collect::<Vec<_>>(), "{what}");
        let typed = reader.iter_as::<Keyed>(start..end).map(|sample| sample.unwrap().key);
        assert_eq!(typed.collect::<Vec<_>>(), keys[start..end], "{what}");
        assert_eq!(reader.iter(start..end).len(), end - start, "{what}");
        assert!(reader.iter(start..end).all(|sample| sample.is_ok()), "{what}");
    }
    for index in [n, n + 1, usize::MAX / 8, usize::MAX - 1, usize::MAX] {
        let errors = [
            reader.get(index).unwrap_err(),
            reader.get_raw(index).unwrap_err(),
            reader.key(index).unwrap_err(),
            reader.get_as::<Keyed>(index).map(|_| ()).unwrap_err(),
            reader.field_raw(index, "key").unwrap_err(),
            reader.field(index, "v").unwrap_err(),
            reader.get_raw_many(&[index]).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{what}: {error}");
        }
        assert_eq!(reader.locate(index).range, None, "{what}");
    }
    reader.prefetch(&[]);
    reader.prefetch(&(0..n).rev().chain([0, n, usize::MAX]).collect::<Vec<_>>());
}

/// Asks a reader, and what can be made of it.
pub(crate) fn ask_all(reader: &dyn Reader, keys: &[&str], what: &str) {
    ask(reader, keys, what);
    for range in [0..keys.len() + 1, keys.len() + 1..keys.len() + 1, usize::MAX - 1..usize::MAX] {
        let asked = std::panic::AssertUnwindSafe(|| reader.iter(range.clone()).count());
        assert!(std::panic::catch_unwind(asked).is_err(), "{what}: {range:?}");
    }
    ask(&&reader, keys, &format!("{what}, by reference"));
    let n = keys.len();
    let part = reader.range(n / 3..n);
    ask(&part, &keys[n / 3..], &format!("{what}, a range"));
    ask(&part.range(..n / 3), &keys[n / 3..n / 3 * 2], &format!("{what}, a range of a range"));
    let backwards: Vec<&str> = keys.iter().rev().copied().collect();
    let selected = reader.select((0..n).rev()).unwrap();
    ask(&selected, &backwards, &format!("{what}, backwards"));
    let twice = reader.select((0..n).chain(0..n)).unwrap();
    ask(&twice, &[keys, keys].concat(), &format!("{what}, selected twice"));
    let odd: Vec<&str> = keys.iter().skip(1).step_by(2).copied().collect();
    let every_other = reader.select((1..n).step_by(2)).unwrap();
    ask(&every_other, &odd, &format!("{what}, every other"));
    let by_key = reader.select_keys(&odd).unwrap();
    ask(&by_key, &odd, &format!("{what}, by key"));
    let filtered = reader.filter(|sample| odd.contains(&key_of(sample))).unwrap();
    ask(&filtered, &odd, &format!("{what}, filtered"));
    let shards = [reader.range(..n / 2), reader.range(..0), reader.range(n / 2..)];
    let shards = ShardedReader::new(shards).unwrap();
    ask(&shards, keys, &format!("{what}, in shards"));
    assert!(shards.duplicates().unwrap().is_empty());
    let doubled = ShardedReader::new([reader, reader]).unwrap();
    ask(&doubled, &[keys, keys].concat(), &format!("{what}, after itself"));
    assert_eq!(doubled.duplicates().unwrap(), (0..n).map(|i| (i, n + i)).collect::<Vec<_>>());
    // The first of two samples with one key is outside, the second inside.
    ask(&doubled.clone().range(n..), keys, &format!("{what}, the second half"));
    let second = doubled.select((n..2 * n).rev()).unwrap();
    ask(&second, &backwards, &format!("{what}, the second half backwards"));
    let joined = reader.join(&every_other, Join::inner().shared(Shared::Right)).unwrap();
    ask(&joined, &odd, &format!("{what}, joined"));
    let joined =
        second.join(reader, Join::inner().shared(Shared::Prefix("right_".into()))).unwrap();
    ask(&joined, &backwards, &format!("{what}, joined with prefixes"));
}

/// The names of the fields of a sample.
fn names_of(raw: &[u8]) -> Vec<String> {
    let Value::Map(fields) = msgpack::decode(raw).unwrap() else { return Vec::new() };
    fields.iter().filter_map(|(name, _)| Some(name.as_str()?.to_owned())).collect()
}

fn key_of(sample: &Value) -> &str {
    let fields = sample.as_map().unwrap();
    let key = fields.iter().rev().find(|(name, _)| name.as_str() == Some("key"));
    key.unwrap().1.as_str().unwrap()
}

#[test]
fn datasets_and_lists_answer_alike() {
    let mut asked = 0;
    for name in golden_names() {
        let reader = DatasetReader::open(golden(&name)).unwrap();
        if reader.len() > 200 {
            continue;
        }
        asked += 1;
        let keys: Vec<String> = reader.keys().map(|key| key.unwrap().into_owned()).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        // Some hold ten thousands of values, which are not asked for again and again.
        if reader.data_len() > 200_000 {
            ask(&reader, &keys, &name);
            continue;
        }
        ask_all(&reader, &keys, &name);
        let boxed: Box<dyn Reader> = Box::new(reader.clone());
        ask(&boxed, &keys, &format!("{name}, boxed"));
        let shared: Arc<dyn Reader> = Arc::new(reader.clone());
        ask(&shared, &keys, &format!("{name}, shared"));
        let options = ListReader::options().numeric_labels(false);
        let list = options.build(reader.iter(..).map(Result::unwrap)).unwrap();
        ask_all(&list, &keys, &format!("{name}, listed"));
    }
    assert_eq!(asked, 19);
}

/// A reader that counts the calls of what it overrides: all but what has to be there.
#[derive(Default)]
struct Counted(Mutex<BTreeSet<&'static str>>);

impl Counted {
    fn note<T>(&self, name: &'static str, answer: T) -> kiste::Result<T> {
        self.0.lock().unwrap().insert(name);
        Ok(answer)
    }
}

impl Reader for Counted {
    fn len(&self) -> usize {
        1
    }
    fn key(&self, _: usize) -> kiste::Result<Cow<'_, str>> {
        Ok("a".into())
    }
    fn find(&self, _: &str) -> kiste::Result<Option<usize>> {
        Ok(Some(0))
    }
    fn get_raw(&self, _: usize) -> kiste::Result<Cow<'_, [u8]>> {
        Ok(b"\x81\xa3key\xa1a".into())
    }
    fn is_empty(&self) -> bool {
        self.note("is_empty", false).unwrap()
    }
    fn find_all(&self, _: &str) -> kiste::Result<Vec<usize>> {
        self.note("find_all", vec![0])
    }
    fn find_keys(&self, _: &[&str]) -> kiste::Result<Vec<Option<usize>>> {
        self.note("find_keys", vec![Some(0)])
    }
    fn contains_key(&self, _: &str) -> kiste::Result<bool> {
        self.note("contains_key", true)
    }
    fn get(&self, _: usize) -> kiste::Result<Value> {
        self.note("get", Value::Nil)
    }
    fn get_raw_many(&self, _: &[usize]) -> kiste::Result<Vec<Cow<'_, [u8]>>> {
        self.note("get_raw_many", Vec::new())
    }
    fn get_raw_by_key(&self, _: &str) -> kiste::Result<Option<Cow<'_, [u8]>>> {
        self.note("get_raw_by_key", None)
    }
    fn get_by_key(&self, _: &str) -> kiste::Result<Option<Value>> {
        self.note("get_by_key", None)
    }
    fn field_raw(&self, _: usize, _: &str) -> kiste::Result<Option<Cow<'_, [u8]>>> {
        self.note("field_raw", None)
    }
    fn field(&self, _: usize, _: &str) -> kiste::Result<Option<Value>> {
        self.note("field", None)
    }
    fn labels(&self) -> kiste::Result<Option<Vec<String>>> {
        self.note("labels", None)
    }
    fn identity(&self) -> kiste::Result<String> {
        self.note("identity", String::new())
    }
    fn locate(&self, _: usize) -> Location {
        self.note("locate", Location::default()).unwrap()
    }
    fn is_remote(&self) -> bool {
        self.note("is_remote", false).unwrap()
    }
    fn known_len(&self, _: usize) -> kiste::Result<Option<u64>> {
        self.note("known_len", None)
    }
    fn sample_bytes(&self) -> Option<u64> {
        self.note("sample_bytes", None).unwrap()
    }
    fn prefetch(&self, _: &[usize]) {
        self.note("prefetch", ()).unwrap();
    }
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        self.note("as_any", None).unwrap()
    }
}

/// Calls all provided methods, and returns which of them the reader behind has seen.
fn seen_through(reader: &impl Reader, counted: &Counted) -> BTreeSet<&'static str> {
    counted.0.lock().unwrap().clear();
    reader.is_empty();
    reader.find_all("a").unwrap();
    reader.find_keys(&["a"]).unwrap();
    reader.contains_key("a").unwrap();
    reader.get(0).unwrap();
    reader.get_raw_many(&[0]).unwrap();
    reader.get_raw_by_key("a").unwrap();
    reader.get_by_key("a").unwrap();
    reader.field_raw(0, "key").unwrap();
    reader.field(0, "key").unwrap();
    reader.labels().unwrap();
    reader.identity().unwrap();
    reader.locate(0);
    reader.is_remote();
    reader.known_len(0).unwrap();
    reader.sample_bytes();
    reader.prefetch(&[0]);
    reader.as_any();
    std::mem::take(&mut *counted.0.lock().unwrap())
}

#[test]
fn faster_ways_of_a_reader_are_taken_through_pointers_and_parts() {
    let counted = Arc::new(Counted::default());
    let all = seen_through(&*counted, &counted);
    assert_eq!(all.len(), 18);
    assert_eq!(seen_through(&counted, &counted), all);
    assert_eq!(seen_through(&&*counted, &counted), all);
    let shared: Arc<dyn Reader> = counted.clone();
    assert_eq!(seen_through(&shared, &counted), all);
    let boxed: Box<dyn Reader> = Box::new(counted.clone());
    assert_eq!(seen_through(&boxed, &counted), all);
    let fast = BTreeSet::from([
        "field",
        "field_raw",
        "get",
        "identity",
        "is_remote",
        "known_len",
        "labels",
        "locate",
        "prefetch",
        "sample_bytes",
    ]);
    let many = BTreeSet::from(["find_keys", "get_raw_many"]);
    let composed = |reader: &dyn Reader, wanted: &[&BTreeSet<&'static str>], what: &str| {
        let seen = seen_through(&reader, &counted);
        for name in wanted.iter().flat_map(|names| names.iter()) {
            assert!(seen.contains(name), "{what} does not pass {name} on");
        }
    };
    composed(&counted.clone().range(..), &[&fast, &many], "a range");
    composed(
        &counted.clone().select([0]).unwrap(),
        &[&fast, &BTreeSet::from(["get_raw_many"])],
        "a choice",
    );
    let shards = ShardedReader::new([counted.clone()]).unwrap();
    composed(&shards, &[&fast, &BTreeSet::from(["get_raw_by_key"])], "a concatenation");
    let joined =
        counted.clone().join(counted.clone(), Join::inner().shared(Shared::Right)).unwrap();
    let both =
        BTreeSet::from(["field_raw", "identity", "is_remote", "labels", "locate", "prefetch"]);
    composed(&joined, &[&both], "a join");
}

#[test]
fn identities_tell_selections_apart() {
    let sample = |n: u32| BTreeMap::from([("key", n.to_string())]);
    let list = || ListReader::pack((0..200).map(sample)).unwrap();
    let identities = [
        list().identity().unwrap(),
        ListReader::pack((1..201).map(sample)).unwrap().identity().unwrap(),
        list().range(..).identity().unwrap(),
        list().range(1..).identity().unwrap(),
        list().select((0..200).filter(|n| n % 7 > 0)).unwrap().identity().unwrap(),
        list().select((0..200).rev()).unwrap().identity().unwrap(),
        ShardedReader::new([list()]).unwrap().identity().unwrap(),
        ShardedReader::new([list(), list()]).unwrap().identity().unwrap(),
        list().join(list(), Join::inner().shared(Shared::Right)).unwrap().identity().unwrap(),
        list()
            .join(list(), Join::inner().shared(Shared::Prefix("b_".into())))
            .unwrap()
            .identity()
            .unwrap(),
    ];
    assert_eq!(identities.iter().collect::<BTreeSet<_>>().len(), identities.len());
    assert_eq!(list().identity().unwrap(), identities[0]);
}

#[test]
fn a_dataset_can_be_looped_over() {
    let reader = DatasetReader::open(golden(&golden_names()[0])).unwrap();
    let mut count = 0;
    for sample in &reader {
        sample.unwrap();
        count += 1;
    }
    assert_eq!(count, reader.len());
}
