//! Lengths of samples through readers of other readers: those of the samples that these have, or none.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use kiste::compose::View;
use kiste::index::IndexOptions;
use kiste::reader::{
    FieldNames, Join, ListReader, Reader, ReaderExt, ShardedReader, Shared, WithArrays,
};
use kiste::rearrange::LengthOf;
use kiste::{DatasetReader, ErrorKind, Result, Writer};

/// A dataset with a text of each of these lengths, and columns of it.
fn written(path: &Path, first: usize, lengths: &[usize]) -> DatasetReader {
    let mut writer = Writer::options().durable(false).create(path).unwrap();
    for (index, length) in (first..).zip(lengths) {
        let sample = BTreeMap::from([("key", format!("k{index}")), ("text", "x".repeat(*length))]);
        writer.write(&sample).unwrap();
    }
    writer.finish().unwrap();
    index(path);
    DatasetReader::open(path).unwrap()
}

fn index(path: &Path) {
    let columns = ["len(text)", "bytes"].map(|column| LengthOf::parse(column).unwrap());
    IndexOptions::default().lengths(columns).durable(false).build(path).unwrap();
}

fn all(reader: &dyn Reader, column: &str) -> Result<Option<Vec<u32>>> {
    let Some(lengths) = reader.lengths(column)? else { return Ok(None) };
    assert_eq!(lengths.len(), reader.len() as u64);
    let indices: Vec<u64> = (0..lengths.len()).rev().collect();
    let mut found = Vec::new();
    lengths.gather(&indices, &mut found)?;
    found.reverse();
    assert_eq!(
        lengths.gather(&[lengths.len()], &mut Vec::new()).unwrap_err().kind(),
        ErrorKind::Invalid
    );
    // They are those of the samples that the reader hands out.
    for (index, found) in found.iter().enumerate() {
        let expected = match column {
            "bytes" => reader.get_raw(index)?.len(),
            _ => reader.field(index, "text")?.unwrap().as_str().unwrap().len(),
        };
        assert_eq!(*found as usize, expected);
    }
    Ok(Some(found))
}

fn texts(reader: &dyn Reader) -> Option<Vec<u32>> {
    all(reader, "len(text)").unwrap()
}

#[test]
fn readers_of_readers_have_the_lengths_of_their_samples() {
    let dir = tempfile::tempdir().unwrap();
    let a = written(&dir.path().join("a.msgpack"), 0, &[5, 0, 7, 300]);
    let b = written(&dir.path().join("b.msgpack"), 10, &[1, 2]);
    let list = ListReader::pack([BTreeMap::from([("key", "l"), ("text", "abc")])]).unwrap();
    let none = ListReader::pack::<BTreeMap<&str, &str>>([]).unwrap();

    assert_eq!(texts(&a), Some(vec![5, 0, 7, 300]));
    assert_eq!(all(&a, "bytes").unwrap().unwrap().len(), 4);
    let pointers: [Arc<dyn Reader>; 2] = [Arc::new(a.clone()), Arc::new(Arc::new(b.clone()))];
    let both = ShardedReader::new(pointers).unwrap();
    assert_eq!(texts(&both), Some(vec![5, 0, 7, 300, 1, 2]));
    assert!(all(&both, "bytes").unwrap().is_some());
    let with_empty: Vec<Box<dyn Reader>> = vec![Box::new(none), Box::new(b.clone())];
    assert_eq!(texts(&ShardedReader::new(with_empty).unwrap()), Some(vec![1, 2]));
    let with_list: Vec<Box<dyn Reader>> = vec![Box::new(a.clone()), Box::new(list)];
    assert_eq!(texts(&ShardedReader::new(with_list).unwrap()), None);

    assert_eq!(texts(&(&both).range(2..5)), Some(vec![7, 300, 1]));
    let chosen = (&both).select([4, 0, 4, 3]).unwrap();
    assert_eq!(texts(&chosen), Some(vec![1, 5, 1, 300]));
    assert!(all(&chosen, "bytes").unwrap().is_some());
    let other = (&both).select([4, 0, 4, 2]).unwrap();
    let identity = |reader: &dyn Reader| reader.lengths("len(text)").unwrap().unwrap().identity();
    assert_ne!(identity(&chosen), identity(&other));
    assert_eq!(identity(&chosen), identity(&(&both).select([4, 0, 4, 3]).unwrap()));

    assert_eq!(texts(&WithArrays::next_to(a.clone())), Some(vec![5, 0, 7, 300]));
    assert_eq!(all(&WithArrays::next_to(a.clone()), "bytes").unwrap(), None);

    for (names, there) in [
        (FieldNames::all(), true),
        (FieldNames::keep(["text"]).unwrap(), true),
        (FieldNames::keep(["other"]).unwrap(), false),
        (FieldNames::without(["text"]).unwrap(), false),
        (FieldNames::all().rename("text", "words").unwrap(), false),
        (FieldNames::without(["text"]).unwrap().rename("other", "text").unwrap(), false),
    ] {
        let fields = (&a).with_fields(names.clone());
        assert_eq!(texts(&fields).is_some(), there, "{names:?}");
        assert_eq!(all(&fields, "bytes").unwrap(), None);
    }

    let error = all(&both, "len(words)").unwrap_err();
    assert!(error.to_string().contains("expected a column \"len(words)\", found len(text), bytes"));
}

#[test]
fn a_join_has_the_lengths_of_its_left_side() {
    let dir = tempfile::tempdir().unwrap();
    let left = written(&dir.path().join("a.msgpack"), 0, &[5, 0, 7, 300]);
    let sample = |key: &'static str| BTreeMap::from([("key", key), ("caption", "…")]);
    let right = ListReader::pack([sample("k3"), sample("k0")]).unwrap();
    let prefix = || Shared::Prefix("r_".to_owned());
    for (join, lengths) in [
        (Join::inner(), Some(vec![5, 300])),
        (Join::left(), Some(vec![5, 0, 7, 300])),
        (Join::left().shared(prefix()), Some(vec![5, 0, 7, 300])),
        // The right side might have a text, too.
        (Join::inner().shared(Shared::Right), None),
        (Join::inner().shared(Shared::Right).fields(["caption"]), Some(vec![5, 300])),
    ] {
        let joined = (&left).join(&right, join.clone()).unwrap();
        assert_eq!(texts(&joined), lengths, "{join:?}");
        assert_eq!(all(&joined, "bytes").unwrap(), None);
    }
}

#[test]
fn renumbered_labels_change_no_other_lengths() {
    let dir = tempfile::tempdir().unwrap();
    let view = |name: &str, first, lengths: &[usize], labels: &str| {
        let path = dir.path().join(name);
        written(&path, first, lengths);
        std::fs::write(kiste::dataset::labels_path(&path), labels).unwrap();
        View::of(Arc::new(DatasetReader::open(&path).unwrap()))
    };
    let views =
        [view("a.msgpack", 0, &[4], "cat\ndog\n"), view("b.msgpack", 5, &[6], "dog\nemu\n")];
    let both = View::concat(views).unwrap();
    assert_eq!(texts(&**both.reader()), Some(vec![4, 6]));
    assert_eq!(all(&**both.reader(), "bytes").unwrap(), None);
}

#[test]
fn shards_have_a_file_each() {
    let dir = tempfile::tempdir().unwrap();
    for (number, lengths) in [&[5, 0][..], &[], &[7, 8, 9]].into_iter().enumerate() {
        written(&dir.path().join(format!("s-{number}.msgpack")), number * 10, lengths);
    }
    let pattern = dir.path().join("s-*.msgpack");
    let file = |number: usize| dir.path().join(format!("s-{number}.msgpack.lengths"));
    (0..3).for_each(|number| std::fs::remove_file(file(number)).unwrap());
    let shards = DatasetReader::open(&pattern).unwrap();
    assert!(shards.lengths("bytes").unwrap().is_none());
    index(&dir.path().join("s-0.msgpack"));
    let error = shards.lengths("bytes").err().unwrap();
    assert_eq!((error.kind(), error.path()), (ErrorKind::NotFound, Some(&*file(1))));
    index(&pattern);
    assert_eq!(texts(&shards), Some(vec![5, 0, 7, 8, 9]));
    assert!(all(&shards, "bytes").unwrap().is_some());
}
