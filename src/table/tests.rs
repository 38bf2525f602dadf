use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int32Type, Int64Type, TimestampSecondType};
use arrow_array::{Array, RecordBatch};
use arrow_schema::ArrowError;
use rmpv::Value;

use super::*;
use crate::error::{Error, ErrorKind};
use crate::format::msgpack::numpy::Special;
use crate::format::msgpack::to_vec;
use crate::reader::{FieldNames, ListReader};
use crate::value::NdArray;
use crate::{DatasetReader, Writer};

fn sample(key: &str, fields: Vec<(&str, Value)>) -> Vec<u8> {
    let fields = [("key", Value::from(key))].into_iter().chain(fields);
    to_vec(&Value::Map(fields.map(|(name, value)| (name.into(), value)).collect())).unwrap()
}

fn write(path: &Path, samples: impl IntoIterator<Item = Vec<u8>>) -> View {
    let mut writer = Writer::create(path).unwrap();
    for sample in samples {
        let key = crate::format::msgpack::key(&sample).unwrap().unwrap().to_owned();
        writer.write_raw(&key, &sample).unwrap();
    }
    writer.finish().unwrap();
    View::open(path).unwrap()
}

fn collect(options: TableOptions) -> Vec<RecordBatch> {
    options.open().unwrap().batches().collect::<Result<_, _>>().unwrap()
}

/// The error of this crate that a stream ends with.
fn failure(options: TableOptions) -> Error {
    let mut batches = options.open().unwrap().batches();
    let error = batches.find_map(Result::err).expect("a value fits no column");
    assert!(batches.next().is_none(), "an error is the end");
    match error {
        ArrowError::ExternalError(error) => *error.downcast::<Error>().unwrap(),
        other => panic!("{other}"),
    }
}

#[test]
fn batches_are_in_order_whatever_makes_them() {
    let dir = tempfile::tempdir().unwrap();
    let numbered = |n: i64| sample(&format!("k{n}"), vec![("n", n.into()), ("text", "a".into())]);
    let view = write(&dir.path().join("n.msgpack"), (0..1000).map(numbered));
    for (threads, rows) in [(1, 1), (1, 1000), (2, 7), (5, 64), (3, 999), (8, 4000)] {
        let options = Table::options(&view).threads(threads).batch_rows(rows).fields(["n"]);
        let batches = collect(options);
        assert!(batches.iter().all(|batch| batch.num_rows() <= rows));
        let numbers: Vec<i64> = batches
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
            .collect();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>(), "{threads} {rows}");
    }
    // It ends wherever it is dropped.
    let table = Table::options(&view).batch_rows(3).open().unwrap();
    for taken in [0, 1, 5] {
        assert_eq!(table.batches().take(taken).count(), taken);
    }
    assert_eq!(table.rows(), 1000);
}

#[test]
fn bytes_lie_in_the_map() {
    let dir = tempfile::tempdir().unwrap();
    let blob = |n: usize| vec![n as u8; 13 + n * 10];
    let path = dir.path().join("b.msgpack");
    let samples = (0..50).map(|n| {
        let in_map = Value::Map(vec![("blob".into(), blob(n).into())]);
        sample(&n.to_string(), vec![("blob", blob(n).into()), ("map", in_map)])
    });
    let view = write(&path, samples);
    let map = view.dataset().unwrap().mapped().unwrap().as_ptr_range();
    let chosen = view.select((0..50).rev()).unwrap();
    let names = FieldNames::all().rename("blob", "bytes").unwrap();
    let renamed = view.with_fields(names, &mut |_| Ok(())).unwrap();
    let all = [(&view, "blob"), (&chosen, "blob"), (&renamed, "bytes")];
    for (view, name) in all {
        let batches = collect(Table::options(view).fields([name, "map"]).batch_rows(20));
        let inner = |batch: &RecordBatch| batch.column(1).as_struct().column(0).clone();
        for column in batches.iter().flat_map(|batch| [batch.column(0).clone(), inner(batch)]) {
            let column = column.as_binary_view();
            for row in 0..column.len() {
                let value = column.value(row);
                assert!(map.contains(&value.as_ptr()), "{name} {row}");
                assert_eq!(value, blob(usize::from(value[0])));
            }
        }
    }
    // The map stays as long as a batch does.
    let batch = collect(Table::options(&view).fields(["blob"])).remove(0);
    drop((view, chosen, renamed));
    assert_eq!(batch.column(0).as_binary_view().value(49), blob(49));
}

#[test]
fn values_have_the_columns_of_their_types() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.msgpack");
    let seconds = NdArray::new("<M8[s]".parse().unwrap(), [], 7i64.to_le_bytes().to_vec()).unwrap();
    let matrix = |n: f32| {
        let bytes: Vec<u8> = (0..6).flat_map(|at| (n + at as f32).to_le_bytes()).collect();
        Special::Array(NdArray::new("<f4".parse().unwrap(), [2, 3], bytes).unwrap()).to_value()
    };
    let fields = |n: i64| {
        vec![
            ("label", n.into()),
            ("at", Special::Scalar(seconds.clone()).to_value()),
            ("matrix", matrix(n as f32)),
            ("large", u64::MAX.into()),
        ]
    };
    let none = vec![("matrix", Value::Nil)];
    let view = write(&path, [sample("a", fields(1)), sample("b", none), sample("c", fields(0))]);
    std::fs::write(crate::dataset::labels_path(&path), "cat\ndog\n").unwrap();
    let table = Table::options(&view).open().unwrap();
    let found = table.to_string();
    assert!(found.starts_with("key: Utf8\nlabel: Dictionary(Int32, Utf8)\n"), "{found}");
    assert!(found.ends_with("\nlarge: UInt64"), "{found}");
    let batch = table.batches().next().unwrap().unwrap();
    let labels = batch.column(1).as_dictionary::<Int32Type>();
    assert_eq!(labels.keys().iter().collect::<Vec<_>>(), [Some(1), None, Some(0)]);
    assert_eq!(labels.values().as_string::<i32>().value(1), "dog");
    let times = batch.column(2).as_primitive::<TimestampSecondType>();
    assert_eq!(times.iter().collect::<Vec<_>>(), [Some(7), None, Some(7)]);
    let rows = batch.column(3).as_fixed_size_list();
    assert_eq!((rows.value_length(), rows.is_null(1)), (2, true));
    let last = rows.value(2);
    let last = last.as_fixed_size_list().values().as_primitive::<Float32Type>().clone();
    assert_eq!(last.values()[last.len() - 6..], [0., 1., 2., 3., 4., 5.]);
}

#[test]
fn what_fits_no_column_is_an_error_that_names_the_sample() {
    let few = |options: TableOptions| options.infer(Infer::Samples(2));
    let found = |value: Value| {
        let samples = [
            sample("a", vec![("n", 1.into())]),
            sample("b", vec![("n", value)]),
            sample("c", vec![("n", 2.into())]),
        ];
        View::of(Arc::new(
            ListReader::new(samples.map(|sample| crate::format::msgpack::decode(&sample).unwrap()))
                .unwrap(),
        ))
    };
    for (value, says) in [
        (Value::from(u64::MAX), "expected an integer of 64 bits, found an integer up to 2^64-1"),
        (Value::from(0.5), "found a float of 64 bits"),
        (Value::from("text"), "found text"),
        (Value::Array(vec![1.into(), "a".into()]), "lists of one type"),
        (Value::Ext(5, vec![1]), "a value that a column can have"),
    ] {
        let view = found(value.clone());
        let error = failure(few(Table::options(&view)));
        let text = error.to_string();
        assert_eq!((error.kind(), error.key()), (ErrorKind::Invalid, Some("b")), "{text}");
        assert_eq!(error.field(), Some("n"), "{text}");
        assert!(text.contains(says), "{says}: {text}");
        // The same if it is seen at once, but for two kinds of integers that fit one column.
        let all = Table::options(&view).infer(Infer::All).open();
        match value {
            Value::Integer(_) => assert_eq!(all.unwrap().to_string(), "key: Utf8\nn: UInt64"),
            _ => assert_eq!(all.unwrap_err().key(), Some("b"), "{text}"),
        }
        // Other columns can be had.
        assert_eq!(collect(few(Table::options(&view).fields(["key"])))[0].num_rows(), 3);
    }
    let error = Table::options(&found(1.into())).fields(["m"]).open().unwrap_err();
    assert!(error.to_string().contains("no sample has a field \"m\""), "{error}");
}

#[test]
fn all_samples_are_looked_at_on_all_threads_as_on_one() {
    let found = |odd: &[(usize, Value)]| {
        let mut samples: Vec<Value> = (0..9000)
            .map(|n: usize| {
                let mut fields = vec![("n", Value::from(n))];
                if n >= 5000 {
                    fields.push(("late", true.into()));
                }
                crate::format::msgpack::decode(&sample(&n.to_string(), fields)).unwrap()
            })
            .collect();
        for (at, value) in odd {
            let Value::Map(fields) = &mut samples[*at] else { unreachable!() };
            fields[1].1 = value.clone();
        }
        View::of(Arc::new(ListReader::new(samples).unwrap()))
    };
    for threads in [1, 2, 5] {
        let open = |view: &View| Table::options(view).infer(Infer::All).threads(threads).open();
        let table = open(&found(&[(8999, Value::Nil)])).unwrap();
        assert_eq!(table.to_string(), "key: Utf8\nn: Int64\nlate: Boolean");
        assert_eq!(table.batches().map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 9000);
        // The first of several, in whichever block it is, and whether or not its block is like it.
        for first in [1, 4095, 4096, 8999] {
            let view = found(&[(first, "text".into()), (8999, 0.5.into())]);
            assert_eq!(open(&view).unwrap_err().key(), Some(&first.to_string()[..]), "{threads}");
        }
        let mut odd: Vec<_> = (4096..8192).map(|n| (n, Value::from("text"))).collect();
        odd.push((8500, Value::from(0.5)));
        assert_eq!(open(&found(&odd)).unwrap_err().key(), Some("4096"), "{threads}");
    }
}

#[test]
fn a_table_of_no_samples_has_no_batches() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("e.msgpack");
    let view = write(&path, []);
    let table = Table::options(&view).open().unwrap();
    assert_eq!((table.to_string(), table.batches().count()), ("key: Utf8".to_owned(), 0));
    assert!(DatasetReader::open(&path).unwrap().is_empty());
}
