//! What is particular to selections and joins; the rest is in the list of questions.

use kiste::reader::{ListReader, Reader, ReaderExt, SelectReader, Shared};
use kiste::{DatasetReader, ErrorKind, Value};

use crate::support::golden;

fn sample(fields: &[(&str, Value)]) -> Value {
    Value::Map(fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
}

#[test]
fn what_is_not_there_cannot_be_selected() {
    let ten = DatasetReader::open(golden("ten")).unwrap();
    assert_eq!((&ten).select([3, 10]).unwrap_err().kind(), ErrorKind::Invalid);
    let error = (&ten).select_keys(["k1", "x"]).unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::NotFound, Some("x")));
}

#[test]
fn a_filter_asks_every_sample_once_and_ends_at_an_error() {
    let ten = DatasetReader::open(golden("ten")).unwrap();
    let mut asked = Vec::new();
    let even = SelectReader::filter(&ten, |reader, index| {
        asked.push(index);
        Ok(reader.field(index, "v")?.and_then(|v| v.as_u64()).is_some_and(|v| v % 2 == 0))
    });
    assert_eq!(even.unwrap().indices(), [0, 2, 4, 6, 8]);
    assert_eq!(asked, (0..10).collect::<Vec<_>>());
    let failed = SelectReader::filter(&ten, |reader, _| reader.get(99).map(|_| true));
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn joined_samples_have_the_fields_of_both() {
    let list =
        |samples: Vec<Value>| ListReader::options().numeric_labels(false).build(samples).unwrap();
    let left = list(vec![
        sample(&[("a", 1.into()), ("key", "x".into()), ("b", 2.into())]),
        sample(&[("key", "only left".into())]),
        sample(&[("key", "y".into())]),
    ]);
    let mut with_number = sample(&[("key", "y".into())]);
    if let Value::Map(fields) = &mut with_number {
        fields.push((7.into(), "seven".into()));
    }
    let right = list(vec![
        with_number.clone(),
        sample(&[("key", "only right".into())]),
        sample(&[("c", 4.into()), ("a", 3.into()), ("key", "x".into())]),
    ]);
    let joined = (&left).join(&right, Shared::Right).unwrap();
    assert_eq!(joined.len(), 2);
    let fields = [("a", 3.into()), ("key", "x".into()), ("b", 2.into()), ("c", 4.into())];
    assert_eq!(joined.get(0).unwrap(), sample(&fields));
    assert_eq!(joined.get(1).unwrap(), with_number);
    assert_eq!(joined.pair(1).unwrap(), (2, 0));
    let joined = (&left).join(&right, Shared::Prefix("r_".into())).unwrap();
    let fields = [
        ("a", 1.into()),
        ("key", "x".into()),
        ("b", 2.into()),
        ("r_c", 4.into()),
        ("r_a", 3.into()),
    ];
    assert_eq!(joined.get(0).unwrap(), sample(&fields));
    // A prefix must not make a second key.
    let odd = list(vec![sample(&[("key", "x".into()), ("y", 1.into())])]);
    let joined = (&left).join(odd, Shared::Prefix("ke".into())).unwrap();
    assert_eq!(joined.get_raw(0).unwrap_err().kind(), ErrorKind::Invalid);
}
