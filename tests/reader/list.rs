//! Samples from memory.

use std::collections::BTreeMap;

use kiste::reader::{Labels, ListReader, Reader};
use kiste::{ErrorKind, Value};

use super::conformance::ask_all;

fn sample(fields: &[(&str, Value)]) -> Value {
    Value::Map(fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
}

#[test]
fn samples_without_a_key_get_their_index() {
    let samples = [sample(&[("v", 1.into())]), sample(&[("key", "x".into())]), sample(&[])];
    let list = ListReader::new(samples).unwrap();
    ask_all(&list, &["0", "x", "2"], "list");
    assert_eq!(list.get(0).unwrap(), sample(&[("v", 1.into()), ("key", "0".into())]));
    ask_all(&ListReader::new([]).unwrap(), &[], "empty list");
}

#[test]
fn labels_become_their_numbers_in_place() {
    let labelled =
        |key: &str, label: Value| sample(&[("label", label), ("key", key.into()), ("v", 1.into())]);
    let samples = ["img10", "img2", "img10"].map(Value::from);
    let samples: Vec<Value> =
        samples.into_iter().zip(["a", "b", "c"]).map(|(label, key)| labelled(key, label)).collect();
    let list = ListReader::new(samples.clone()).unwrap();
    ask_all(&list, &["a", "b", "c"], "labelled list");
    assert_eq!(list.label_values(), ["img2".into(), "img10".into()]);
    let expected = sample(&[
        ("label", 1.into()),
        ("key", "a".into()),
        ("v", 1.into()),
        ("_label", "img10".into()),
    ]);
    assert_eq!(list.get(0).unwrap(), expected);
    let list = ListReader::options().numeric_labels(false).build(samples.clone()).unwrap();
    assert_eq!(list.get(0).unwrap(), samples[0]);

    let given = ListReader::options().labels(Labels::given(["img10", "x", "img2", "img10"]));
    let list = given.build(samples.clone()).unwrap();
    assert_eq!(list.field(0, "label").unwrap(), Some(3.into()));
    let none = ListReader::options().labels(Labels::Given(vec![]));
    assert_eq!(none.build(samples.clone()).unwrap().label_values().len(), 2);
    let wrong = ListReader::options().labels(Labels::given(["img10"])).build(samples);
    let error = wrong.err().unwrap();
    assert_eq!((error.kind(), error.index()), (ErrorKind::Invalid, Some(1)));
    assert!(error.to_string().contains("img2"), "{error}");
}

#[test]
fn numbers_are_labels_too() {
    let labels: [Value; 6] =
        ["a".into(), 10.into(), 2.0.into(), "3".into(), true.into(), "".into()];
    let samples = labels.iter().map(|label| sample(&[("label", label.clone())]));
    let list = ListReader::new(samples).unwrap();
    let sorted: [Value; 6] =
        ["".into(), true.into(), 2.0.into(), "3".into(), 10.into(), "a".into()];
    assert_eq!(list.label_values(), sorted);
    // By their text as well, as long as it is not a label itself.
    let options = ListReader::options().labels(Labels::given([7, 8]));
    let list = options.build([sample(&[("label", "8".into())])]).unwrap();
    assert_eq!(list.field(0, "label").unwrap(), Some(1.into()));
}

#[test]
fn what_is_no_sample_is_refused() {
    let cases: [(&[Value], ErrorKind, Option<u64>); 6] = [
        (&[sample(&[]), 7.into()], ErrorKind::Invalid, Some(1)),
        (&[sample(&[("key", 7.into())])], ErrorKind::Invalid, Some(0)),
        (&[sample(&[("label", Value::Nil)])], ErrorKind::Invalid, None),
        (&[sample(&[("label", Value::Array(vec![]))])], ErrorKind::Invalid, None),
        (
            &[sample(&[("key", "x".into())]), sample(&[("key", "x".into())])],
            ErrorKind::DuplicateKey,
            Some(1),
        ),
        // The index of the second is the key of the first.
        (&[sample(&[("key", "1".into())]), sample(&[])], ErrorKind::DuplicateKey, Some(1)),
    ];
    for (samples, kind, index) in cases {
        let error = ListReader::new(samples.iter().cloned()).err().unwrap();
        assert_eq!((error.kind(), error.index()), (kind, index), "{error}");
    }
    let nil = ListReader::options().labels(Labels::Given(vec![Value::Nil]));
    let list = nil.build([sample(&[("label", Value::Nil)])]).unwrap();
    assert_eq!(list.field(0, "label").unwrap(), Some(0.into()));
    assert_eq!(list.field(0, "_label").unwrap(), Some(Value::Nil));
}

#[test]
fn typed_samples_are_packed() {
    let samples = [BTreeMap::from([("key", "a"), ("label", "y")])];
    let list = ListReader::pack(samples).unwrap();
    assert_eq!(list.find("a").unwrap(), Some(0));
    assert!(ListReader::pack([1, 2]).is_err());
}
