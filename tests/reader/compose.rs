//! What is particular to selections and joins; the rest is in the list of questions.

use kiste::reader::{
    FieldNames, Join, ListReader, Reader, ReaderExt, SelectReader, ShardedReader, Shared,
};
use kiste::{DatasetReader, ErrorKind, Value};

use crate::support::golden;

fn sample(fields: &[(&str, Value)]) -> Value {
    Value::Map(fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
}

#[test]
fn what_is_not_there_cannot_be_selected() {
    let ten = DatasetReader::open(golden("ten")).unwrap();
    assert_eq!((&ten).select([3, 10]).err().unwrap().kind(), ErrorKind::Invalid);
    let error = (&ten).select_keys(["k1", "x"]).err().unwrap();
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
    assert!(even.unwrap().selection().iter().eq([0, 2, 4, 6, 8]));
    assert_eq!(asked, (0..10).collect::<Vec<_>>());
    let failed = SelectReader::filter(&ten, |reader, _| reader.get(99).map(|_| true));
    assert_eq!(failed.err().unwrap().kind(), ErrorKind::Invalid);
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
    let joined = (&left).join(&right, Join::inner().shared(Shared::Right)).unwrap();
    assert_eq!(joined.len(), 2);
    let fields = [("a", 3.into()), ("key", "x".into()), ("b", 2.into()), ("c", 4.into())];
    assert_eq!(joined.get(0).unwrap(), sample(&fields));
    assert_eq!(joined.get(1).unwrap(), with_number);
    assert_eq!((joined.pair(1).unwrap(), joined.unmatched()), ((2, Some(0)), 1));
    let prefixed = |prefix: &str| Join::inner().shared(Shared::Prefix(prefix.into()));
    let joined = (&left).join(&right, prefixed("r_")).unwrap();
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
    let refused = (&left).join(odd, prefixed("ke")).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    // Without a prefix, what both have is an error.
    let refused = (&left).join(&right, Join::inner()).err().unwrap();
    assert!(refused.to_string().contains("found \"a\" in both"), "{refused}");

    let chosen = Join::left().fields(["c"]).missing("c", Value::Nil);
    let joined = (&left).join(&right, chosen).unwrap();
    assert_eq!((joined.len(), joined.unmatched()), (3, 1));
    assert_eq!(joined.get(1).unwrap(), sample(&[("key", "only left".into()), ("c", Value::Nil)]));
    assert_eq!(joined.get(0).unwrap()["c"], 4.into());
    assert_eq!(joined.field(2, "c").unwrap(), Some(Value::Nil));
    for wrong in [
        Join::inner().fields(["key"]),
        Join::left().missing("key", 0),
        Join::left().fields(["c"]).missing("d", 0),
    ] {
        assert_eq!((&left).join(&right, wrong).err().unwrap().kind(), ErrorKind::Invalid);
    }
}

#[test]
fn a_key_that_the_right_reader_has_twice_is_refused() {
    let list = |keys: &[&str]| {
        ListReader::new(keys.iter().map(|key| sample(&[("key", (*key).into())]))).unwrap()
    };
    let twice = ShardedReader::new([list(&["a", "b"]), list(&["b", "c"])]).unwrap();
    let refused = list(&["a", "b"]).join(&twice, Join::left()).err().unwrap();
    assert_eq!((refused.kind(), refused.key()), (ErrorKind::DuplicateKey, Some("b")));
    assert_eq!(list(&["a", "c"]).join(&twice, Join::left()).unwrap().len(), 2);
}

#[test]
fn fields_are_left_out_and_renamed() {
    let list = ListReader::options().numeric_labels(false).build([
        sample(&[("a", 1.into()), ("key", "x".into()), ("b", 2.into())]),
        sample(&[("key", "y".into()), ("c", 3.into())]),
    ]);
    let list = list.unwrap();
    let swapped = FieldNames::all().rename("a", "b").unwrap().rename("b", "a").unwrap();
    let swapped = (&list).with_fields(swapped);
    assert_eq!(
        swapped.get(0).unwrap(),
        sample(&[("b", 1.into()), ("key", "x".into()), ("a", 2.into())])
    );
    assert_eq!(
        (swapped.field(0, "a").unwrap(), swapped.field(1, "c").unwrap()),
        (Some(2.into()), Some(3.into()))
    );
    let kept = (&list).with_fields(FieldNames::keep(["c"]).unwrap().rename("c", "a").unwrap());
    assert_eq!(kept.get(0).unwrap(), sample(&[("key", "x".into())]));
    assert_eq!(kept.get(1).unwrap(), sample(&[("key", "y".into()), ("a", 3.into())]));
    kept.check(|_| Ok(())).unwrap();
    let taken = (&list).with_fields(FieldNames::all().rename("a", "b").unwrap());
    assert!(taken.get(0).err().unwrap().to_string().contains("which is there already"));
    let absent = (&list).with_fields(FieldNames::without(["d"]).unwrap());
    assert!(
        absent.check(|_| Ok(())).err().unwrap().to_string().contains("no sample has a field \"d\"")
    );
    assert!(FieldNames::without(["key"]).is_err() && FieldNames::keep(["a", "a"]).is_err());
    assert!(
        FieldNames::all().rename("key", "k").is_err()
            && FieldNames::all().rename("k", "key").is_err()
    );
    assert!(FieldNames::keep(["a"]).unwrap().rename("b", "c").is_err());
}
