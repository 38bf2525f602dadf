//! Fields gathered into columns: types, shapes, bytes, and what is refused.

use std::sync::Arc;

use kiste::format::msgpack;
use kiste::loader::{Batch, ColumnBatch, ColumnMemory, Columns, Element, Loader, Memory, OnError};
use kiste::reader::{ListReader, ReaderExt};
use kiste::sampler::{Sequential, Shuffle};
use kiste::{DatasetReader, ErrorKind, Value};

use super::{Bytes, all, bin, in_order, map, nd, rows_of, v};
use crate::support::golden;

/// The values of a column `v` of these samples, `None` for each that is refused.
fn read<T: Element>(reader: &Arc<Bytes>, shape: Option<&[usize]>) -> Vec<Option<Vec<T>>> {
    let columns = match shape {
        Some(shape) => Columns::new().array::<T>("v", shape),
        None => Columns::new().scalar::<T>("v"),
    };
    let options = in_order(reader, 1).on_error(OnError::Skip).threads(0);
    let one = |batch: Batch<ColumnBatch>| {
        assert_eq!(batch.data.len() + batch.failures.len(), 1);
        (!batch.data.is_empty()).then(|| batch.data.values::<T>("v").unwrap().to_vec())
    };
    all(options.columns(columns).unwrap()).into_iter().map(one).collect()
}

macro_rules! check_integers {
    ($reader:expr, $numbers:expr, $($type:ty)*) => {$({
        let expected: Vec<Option<Vec<$type>>> =
            $numbers.iter().map(|&n| <$type>::try_from(n).ok().map(|n| vec![n])).collect();
        assert_eq!(read::<$type>($reader, None), expected, stringify!($type));
    })*};
}

#[test]
fn scalars_are_read_or_refused() {
    let mut numbers: Vec<i128> = vec![0];
    for bits in [5, 7, 8, 15, 16, 31, 32, 63, 64] {
        let power = 1i128 << bits;
        numbers.extend([power - 1, power, power + 1, -power + 1, -power, -power - 1]);
    }
    numbers.retain(|n| (i64::MIN.into()..=u64::MAX.into()).contains(n));
    let value = |&n: &i128| match u64::try_from(n) {
        Ok(n) => Value::from(n),
        Err(_) => Value::from(n as i64),
    };
    let reader = Bytes::of(numbers.iter().map(value));
    check_integers!(&reader, numbers, u8 u16 u32 u64 i8 i16 i32 i64);
    let floats = |n: &i128| Some(vec![*n as f64]);
    assert_eq!(read::<f64>(&reader, None), numbers.iter().map(floats).collect::<Vec<_>>());
    let floats = |n: &i128| Some(vec![*n as f32]);
    assert_eq!(read::<f32>(&reader, None), numbers.iter().map(floats).collect::<Vec<_>>());

    let others = [
        Value::F64(1.5),
        Value::F32(0.1),
        Value::F64(1e300),
        Value::F64(f64::INFINITY),
        "1".into(),
        Value::Nil,
        Value::Array(vec![1.into()]),
        bin(&[1]),
        bin(&1u64.to_le_bytes()),
        Value::Ext(1, vec![1]),
        Value::Map(vec![]),
        true.into(),
    ];
    let reader = Bytes::of(others);
    // What has no fraction, and is no number at all, is not guessed at.
    let mut expected = vec![None; 12];
    expected[11] = Some(vec![1]);
    assert_eq!(read::<u64>(&reader, None), expected);
    let mut expected = vec![None; 12];
    expected[11] = Some(vec![1]);
    assert_eq!(read::<u8>(&reader, None), expected);
    let found = read::<f64>(&reader, None);
    let expected =
        [1.5, 0.1f32.into(), 1e300, f64::INFINITY].map(|number| Some(vec![number])).to_vec();
    assert_eq!(found[..4], expected);
    assert!(found[4..11].iter().all(Option::is_none));
    let found = read::<f32>(&reader, None);
    // 1e300 is finite and would not be.
    let expected = [Some(vec![1.5]), Some(vec![0.1]), None, Some(vec![f32::INFINITY])];
    assert_eq!(found[..4], expected);
    // NumPy's own scalars are numbers too.
    let reader = Bytes::of([nd("<i4", &[], &7i32.to_le_bytes()), nd("<i4", &[1], &[0; 4])]);
    assert_eq!(read::<i32>(&reader, None), [Some(vec![7]), None]);
}

#[test]
fn a_missing_field_is_an_error() {
    let reader = Bytes::new([map(&[("w", 1.into())]), map(&[("v", 1.into())]), map(&[])]);
    assert_eq!(read::<u8>(&reader, None), [None, Some(vec![1]), None]);
    for columns in [Columns::new().scalar::<u8>("v"), Columns::new().bytes("v")] {
        let mut loader = in_order(&reader, 3).columns(columns).unwrap();
        let error = loader.next().unwrap().unwrap_err();
        assert!(error.to_string().contains("\"v\""), "{error}");
        assert_eq!((error.index(), error.key()), (Some(0), Some("k0")));
    }
    // Also beyond the 64th column.
    let names: Vec<String> = (0..70).map(|i| format!("c{i}")).collect();
    let whole: Vec<(&str, Value)> = names.iter().map(|name| (name.as_str(), 1.into())).collect();
    for missing in [0, 5, 64, 69] {
        let mut part = whole.clone();
        part.remove(missing);
        let reader = Bytes::new([map(&part), map(&whole)]);
        let columns = names.iter().fold(Columns::new(), |columns, name| columns.scalar::<u8>(name));
        let options = in_order(&reader, 2).on_error(OnError::Skip);
        let batch = options.columns(columns).unwrap().next().unwrap().unwrap();
        assert_eq!(batch.indices, [1], "without {missing}");
        assert!(names.iter().all(|name| batch.data.array::<u8>(name).unwrap().sum() == 1));
    }
}

#[test]
fn an_error_of_a_column_says_which_one_and_what_is_wrong() {
    let error = |value: Value, columns: Columns| {
        let reader = Bytes::new([map(&[("w", 1.into()), ("v", value)])]);
        in_order(&reader, 1).columns(columns).unwrap().next().unwrap().unwrap_err()
    };
    let scalar = || Columns::new().scalar::<u8>("v");
    let array = || Columns::new().array::<f32>("v", &[2]);
    // Samples that are fine but not as asked for are not damaged.
    for (value, columns, expected) in [
        (256.into(), scalar(), "field \"v\": expected a number of type u1, found 256"),
        ((-1).into(), scalar(), "field \"v\": expected a number of type u1, found -1"),
        (1.5.into(), scalar(), "field \"v\": expected a number of type u1, found 1.5"),
        ("a".into(), scalar(), "field \"v\": expected a number, found a string"),
        (
            1.into(),
            Columns::new().bytes("v"),
            "field \"v\": expected bytes or text, found an integer",
        ),
        (1.into(), Columns::new().bytes("x"), "there is no field \"x\""),
        (1.into(), array(), "field \"v\": expected an array, found an integer"),
        (Value::Array(vec![1.into()]), scalar(), "field \"v\": expected a number, found a list"),
        (
            Value::Array(vec![1.into()]),
            array(),
            "field \"v\": expected lists of numbers of shape [2], found a list of 1",
        ),
        (
            Value::Array(vec![1.into(), "a".into()]),
            array(),
            "field \"v\": expected a number, found a string",
        ),
        (bin(&[1]), array(), "field \"v\": expected 8 bytes for 2 of f4, found 1"),
        (
            nd("<f8", &[2], &[0; 16]),
            array(),
            "field \"v\": expected an array of type f4 and shape [2], \
             found type \"<f8\" and shape [2]",
        ),
    ] {
        let error = error(value, columns);
        let shown = match error.field() {
            Some(field) => format!("field {field:?}: {}", error.message()),
            None => error.message().to_owned(),
        };
        assert_eq!((error.kind(), &shown[..]), (ErrorKind::Invalid, expected));
        assert!(error.to_string().contains(expected), "{error}");
    }
    // What is no msgpack is.
    let reader = Bytes::new([vec![0x81, 0xa1, b'v', 0xc1]]);
    let error = in_order(&reader, 1).columns(scalar()).unwrap().next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
}

#[test]
fn arrays_that_python_packed() {
    let reader = Arc::new(DatasetReader::open(golden("arrays")).unwrap());
    fn check<T: Element + PartialEq + std::fmt::Debug>(
        reader: &Arc<DatasetReader>,
        dtypes: &[&str],
    ) {
        for little in dtypes {
            let mut found = Vec::new();
            for dtype in [little.to_string(), little.replace('<', ">")] {
                let key = format!("{dtype} (2, 3)");
                let index = reader.find(&key).unwrap().unwrap();
                let part = Arc::new(reader.clone().select([index]).unwrap());
                let columns = Columns::new().array::<T>("array", &[2, 3]);
                let batch = in_order(&part, 1).columns(columns).unwrap().next().unwrap().unwrap();
                let array = batch.data.array::<T>("array").unwrap();
                assert_eq!(array.shape(), [1, 2, 3]);
                // As NumPy has it: the bytes are in the value.
                let value = reader.get(index).unwrap();
                let Some(msgpack::numpy::Special::Array(data)) =
                    msgpack::numpy::recognise(&value["array"])
                else {
                    panic!("{key} is no array");
                };
                let size = size_of::<T>();
                let foreign = dtype.starts_with('>') == cfg!(target_endian = "little");
                let elements = data.bytes().chunks(size).map(|bytes| {
                    let element = T::from_memory(bytes);
                    if foreign { element.swap_bytes() } else { element }
                });
                assert!(array.iter().copied().eq(elements), "{key}");
                // No other type and no other shape.
                for columns in [
                    Columns::new().array::<T>("array", &[3, 2]),
                    Columns::new().array::<T>("array", &[6]),
                    Columns::new().array::<T>("array", &[2, 3, 1]),
                ] {
                    assert!(in_order(&part, 1).columns(columns).unwrap().next().unwrap().is_err());
                }
                found.push(dtype);
            }
            assert_eq!(found.len(), 2);
        }
    }
    check::<u8>(&reader, &["u1", "?"]);
    check::<i8>(&reader, &["i1"]);
    check::<i16>(&reader, &["<i2"]);
    check::<u16>(&reader, &["<u2"]);
    check::<i32>(&reader, &["<i4"]);
    check::<u32>(&reader, &["<u4"]);
    check::<i64>(&reader, &["<i8"]);
    check::<u64>(&reader, &["<u8"]);
    check::<f32>(&reader, &["<f4"]);
    check::<f64>(&reader, &["<f8"]);
    check::<bool>(&reader, &["?"]);
    check::<half::f16>(&reader, &["<f2"]);
    check::<num_complex::Complex<f32>>(&reader, &["<c8"]);
    check::<num_complex::Complex<f64>>(&reader, &["<c16"]);

    // Whatever else is in there is refused or of this very type; nothing panics.
    let columns = || Columns::new().array::<f32>("array", &[2, 3]);
    let options = in_order(&reader, 7).on_error(OnError::Skip);
    let batches = all(options.columns(columns()).unwrap());
    let read: usize = batches.iter().map(|batch| batch.data.len()).sum();
    let failed: usize = batches.iter().map(|batch| batch.failures.len()).sum();
    assert_eq!(read + failed, reader.len());
    assert!(read >= 2);
}

#[test]
fn arrays_of_both_byte_orders_bytes_and_nothing_else() {
    let little = [1, 0, 0, 0, 2, 0, 0, 0];
    let big = [0, 0, 0, 1, 0, 0, 0, 2];
    let pair = Some(vec![1u32, 2]);
    let list = [
        (nd("<u4", &[2], &little), pair.clone()),
        (nd(">u4", &[2], &big), pair.clone()),
        (nd("=u4", &[2], &little), pair.clone()),
        (bin(&little), pair.clone()),
        (Value::Array(vec![1.into(), 2.into()]), pair),
        (Value::Array(vec![1.into(), (-2).into()]), None),
        (nd("|u4", &[2], &little), None),
        (nd("u4", &[2], &little), None),
        (nd("<i4", &[2], &little), None),
        (nd("<f4", &[2], &little), None),
        (nd("<u8", &[2], &[little, big].concat()), None),
        (nd("<u4", &[2, 1], &little), None),
        (nd("<u4", &[1], &little[..4]), None),
        (nd("<u4", &[2], &little[..7]), None),
        (nd("<u4", &[3], &little), None),
        (nd("", &[2], &little), None),
        (nd("ß4", &[2], &little), None),
        (nd("<", &[2], &little), None),
        (nd("xu4", &[2], &little), None),
        (bin(&little[..7]), None),
        (bin(&[]), None),
        ("12345678".into(), None),
        (1.into(), None),
        (Value::Map(vec![]), None),
        (Value::Map(vec![(bin(b"data"), bin(&little))]), None),
        (Value::Map(vec![(1.into(), bin(&little))]), None),
        (Value::Nil, None),
    ];
    let reader = Bytes::of(list.iter().map(|(value, _)| value.clone()));
    let found = read::<u32>(&reader, Some(&[2]));
    for ((value, expected), found) in list.iter().zip(found) {
        assert_eq!(&found, expected, "{value}");
    }
    // An array without elements is one.
    let reader = Bytes::of([nd("<u4", &[0, 3], &[]), nd("<u4", &[3, 0], &[])]);
    assert_eq!(read::<u32>(&reader, Some(&[0, 3])), [Some(vec![]), None]);
    let columns = Columns::new().array::<u32>("v", &[0, 3]);
    let options = in_order(&reader, 2).on_error(OnError::Placeholder);
    let batch = options.columns(columns).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.data.array::<u32>("v").unwrap().shape(), [2, 0, 3]);
}

#[test]
fn of_two_fields_with_one_name_the_last_counts() {
    let twice = |a: Value, b: Value| map(&[("v", a), ("w", 5.into()), ("v", b)]);
    let reader = Bytes::new([twice(1.into(), 2.into()), twice(3.into(), 4.into())]);
    let batch = in_order(&reader, 2).columns(Columns::new().scalar::<u8>("v")).unwrap();
    assert_eq!(all(batch)[0].data.values::<u8>("v").unwrap(), [2, 4]);

    // Whatever the first one is.
    let none = [twice("text".into(), 2.into()), twice(2.into(), "text".into())];
    assert_eq!(read::<u8>(&Bytes::new(none), None), [Some(vec![2]), None]);

    let text = |a: &str, b: &str| twice(a.into(), b.into());
    let reader = Bytes::new([text("long", "ab"), text("", "cde"), text("f", ""), text("g", "h")]);
    let columns = Columns::new().bytes("v").scalar::<u8>("w");
    let batches = all(in_order(&reader, 4).columns(columns).unwrap());
    let expected = ["ab", "cde", "", "h"].map(|text| text.as_bytes().to_vec());
    assert_eq!(rows_of(&batches[0].data, "v"), expected);
    // As for one sample.
    let batch = in_order(&reader, 4).map(|record| Ok(record.bytes("v")?.to_vec())).unwrap();
    assert_eq!(all(batch)[0].data, expected);
}

#[test]
fn a_field_whose_name_is_not_a_string_is_ignored() {
    let sample = Value::Map(vec![
        (1.into(), 2.into()),
        (bin(b"v"), 3.into()),
        ("v".into(), 4.into()),
        (Value::Array(vec![]), Value::Map(vec![])),
        (bin(b"v"), 5.into()),
    ]);
    let reader = Bytes::new([msgpack::to_vec(&sample).unwrap()]);
    assert_eq!(read::<u8>(&reader, None), [Some(vec![4])]);
}

#[test]
fn bad_rows_leave_the_others_as_they_are() {
    let n = 6;
    let good = |i: usize| {
        let (number, text) = (i as u64 + 1, "x".repeat(i + 1));
        map(&[("t", text.as_str().into()), ("v", number.into())])
    };
    let cases: [&[usize]; 7] = [&[0], &[5], &[2, 3], &[0, 5], &[0, 1, 2, 3, 4, 5], &[], &[4, 5]];
    for policy in [OnError::Skip, OnError::Placeholder] {
        for bad in cases {
            // A batch of good ones between those with bad ones, so that buffers have seen data.
            let sample = |i: usize| match i >= n && i < 2 * n && bad.contains(&(i - n)) {
                // `t` can be read before `v` cannot.
                true => map(&[("t", "garbage".into()), ("v", "no number".into())]),
                false => good(i % n),
            };
            let reader = Bytes::new((0..3 * n).map(sample));
            let columns = Columns::new().bytes("t").scalar::<u32>("v").row::<i64>(
                "row",
                &[3],
                |record, row| {
                    row[0] = -1;
                    row[2] = v(record)? as i64;
                    Ok(())
                },
            );
            let options = in_order(&reader, n as u64).on_error(policy);
            for (step, batch) in (0..).zip(options.threads(0).columns(columns).unwrap()) {
                let batch = batch.unwrap();
                let bad = if step == 1 { bad } else { &[] };
                let rows: Vec<usize> =
                    (0..n).filter(|i| policy == OnError::Placeholder || !bad.contains(i)).collect();
                let is_bad = |i: &usize| bad.contains(i);
                let number = |i: &usize| if is_bad(i) { 0 } else { *i as u32 + 1 };
                let numbers: Vec<u32> = rows.iter().map(number).collect();
                let strings = rows.iter().map(|i| vec![b'x'; number(i) as usize]);
                let of_row = |i: &usize| match is_bad(i) {
                    true => [0; 3],
                    false => [-1, 0, number(i).into()],
                };
                let data = &batch.data;
                assert_eq!(data.len(), rows.len());
                assert_eq!(batch.indices.len(), rows.len());
                assert_eq!(data.array::<u32>("v").unwrap().len(), rows.len());
                assert_eq!(data.values::<u32>("v").unwrap(), numbers, "{policy:?} {bad:?}");
                assert!(rows_of(data, "t").into_iter().eq(strings), "{policy:?} {bad:?}");
                let filled: Vec<i64> = rows.iter().flat_map(of_row).collect();
                assert_eq!(data.values::<i64>("row").unwrap(), filled, "{policy:?} {bad:?}");
                assert_eq!(data.array::<i64>("row").unwrap().shape(), [rows.len(), 3]);
                assert_eq!(batch.failures.len(), bad.len());
            }
        }
    }
}

#[test]
fn a_buffer_that_is_used_again_has_nothing_of_the_batch_before() {
    // Fills nothing for odd samples: what is there then must be zeros, in each batch.
    let reader = Bytes::count(64);
    for threads in [0, 1, 3] {
        let columns = Columns::new().bytes("key").row::<u64>("row", &[4], |record, row| {
            assert_eq!(row, [0; 4]);
            if record.index() % 2 == 0 {
                row.fill(record.index() as u64 + 1);
            }
            Ok(())
        });
        let options = Loader::options(reader.clone(), Shuffle::new(64, 1)).batch_size(7).epochs(5);
        let loader = options.threads(threads).queue(2).columns(columns).unwrap();
        let mut kept = Vec::new();
        let check = |batch: &Batch<ColumnBatch>| {
            let array = batch.data.array::<u64>("row").unwrap();
            for (row, index) in array.outer_iter().zip(&batch.indices) {
                let expected = if index % 2 == 0 { index + 1 } else { 0 };
                assert!(row.iter().all(|&value| value == expected));
            }
            let keys = batch.indices.iter().map(|index| format!("k{index}").into_bytes());
            assert!(rows_of(&batch.data, "key").into_iter().eq(keys));
        };
        for (at, batch) in loader.enumerate() {
            let batch = batch.unwrap();
            check(&batch);
            // Some are held while loading goes on, and must not change.
            if at % 3 == 0 {
                kept.push(batch);
            }
        }
        kept.iter().for_each(check);
    }
}

#[test]
fn a_column_is_asked_for_by_its_name_and_type() {
    let reader = Bytes::count(3);
    let columns = Columns::new().scalar::<u64>("v").bytes("key");
    let batch = all(in_order(&reader, 3).columns(columns).unwrap()).remove(0).data;
    assert_eq!(batch.array::<u64>("v").unwrap().shape(), [3]);
    let numbers = "found values of type uint64";
    let errors = [
        (batch.array::<u64>("w").unwrap_err(), "[\"v\", \"key\"]"),
        (batch.bytes("nothing").unwrap_err(), "[\"v\", \"key\"]"),
        (batch.array::<i64>("v").unwrap_err(), numbers),
        (batch.values::<f64>("v").unwrap_err(), numbers),
        (batch.bytes("v").unwrap_err(), numbers),
        (batch.array::<u8>("key").unwrap_err(), "uint8, found bytes of any length"),
    ];
    for (error, message) in errors {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().ends_with(message), "{error}");
    }
    // No columns at all still counts.
    let batch = all(in_order(&reader, 3).columns(Columns::new()).unwrap()).remove(0);
    assert_eq!((batch.data.len(), batch.indices.len()), (3, 3));
}

#[test]
fn two_columns_of_one_name_are_refused() {
    let reader = Bytes::count(3);
    let row = |columns: Columns| columns.row::<u64>("v", &[], |_, _| Ok(()));
    for columns in [
        Columns::new().scalar::<u64>("v").bytes("v"),
        row(Columns::new().scalar::<u64>("v")),
        row(row(Columns::new())),
    ] {
        let error = in_order(&reader, 3).columns(columns).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("\"v\""), "{error}");
    }
}

#[test]
fn a_shape_that_no_machine_can_hold_is_refused() {
    let reader = Arc::new(ListReader::new(Vec::<Value>::new()).unwrap());
    let columns = Columns::new().array::<f32>("x", &[usize::MAX / 2, 3]);
    let options = Loader::options(reader, Sequential::new(0));
    assert_eq!(options.columns(columns).unwrap_err().kind(), ErrorKind::Limit);
}

#[test]
fn lists_of_numbers_are_arrays() {
    let list = |values: &[Value]| Value::Array(values.to_vec());
    let rows = list(&[list(&[1.into(), 2.5.into()]), list(&[true.into(), (-3).into()])]);
    let reader = Bytes::of([rows, list(&[1.into(), 2.into()]), list(&[])]);
    let expected = [Some(vec![1.0, 2.5, 1.0, -3.0]), None, None];
    assert_eq!(read::<f32>(&reader, Some(&[2, 2])), expected);
    assert_eq!(read::<u8>(&reader, Some(&[2])), [None, Some(vec![1, 2]), None]);
    // As for a number of its own: what does not fit is refused.
    assert_eq!(read::<u8>(&reader, Some(&[2, 2])), [None, None, None]);
    assert_eq!(read::<u8>(&reader, Some(&[0])), [None, None, Some(vec![])]);
}

/// Memory that is not ours, as that of a driver: any bytes are in it.
struct Pinned(&'static mut [u64]);

impl Pinned {
    fn boxed(bytes: usize) -> (usize, Box<dyn Memory>) {
        let memory = vec![u64::MAX; bytes / 8].leak();
        (memory.as_ptr() as usize, Box::new(Pinned(memory)))
    }
}

impl AsRef<[u8]> for Pinned {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(self.0)
    }
}

impl AsMut<[u8]> for Pinned {
    fn as_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(self.0)
    }
}

#[test]
fn batches_are_in_memory_of_the_caller() {
    let reader = Bytes::count(100);
    for threads in [0, 1, 4] {
        let columns = Columns::new().scalar::<u64>("v").bytes("key").row::<bool>(
            "even",
            &[8],
            |record, row| {
                row[0] = record.index() % 2 == 0;
                Ok(())
            },
        );
        let mut places = Vec::new();
        let sets = (0..4).map(|_| {
            let ((v, memory), (_, even)) = (Pinned::boxed(8 * 8), Pinned::boxed(8 * 8));
            places.push(v);
            vec![("even".to_owned(), even), ("v".to_owned(), memory)]
        });
        let memory = ColumnMemory::new(columns, 8, sets.collect()).unwrap();
        let options = in_order(&reader, 8).threads(threads).epochs(2);
        let mut last = None;
        let mut seen = Vec::new();
        for batch in options.clone().columns_in(&memory).unwrap() {
            let data = batch.unwrap().data;
            let values = data.values::<u64>("v").unwrap();
            assert!(places.contains(&(values.as_ptr() as usize)));
            seen.extend_from_slice(values);
            for (row, value) in data.array::<bool>("even").unwrap().outer_iter().zip(values) {
                let expected = [value % 2 == 0, false, false, false, false, false, false, false];
                assert_eq!(row.as_slice().unwrap(), expected);
            }
            // The one before is not overwritten while this one is made.
            last = Some(data);
        }
        assert_eq!(seen, (0..100).chain(0..100).collect::<Vec<u64>>());
        drop(last);
        // More of them than there is memory for.
        let held: Vec<_> = options.columns_in(&memory).unwrap().take(5).collect();
        assert!(held[..2].iter().all(Result::is_ok));
        let error = held.into_iter().find_map(Result::err).unwrap();
        assert!(error.message().contains("all 4 sets"), "{error}");
    }
}

#[test]
fn memory_that_does_not_fit_is_refused() {
    let columns = || Columns::new().scalar::<u64>("v").bytes("data");
    let set = |name: &str, bytes| vec![(name.to_owned(), Pinned::boxed(bytes).1)];
    let refused = |sets| ColumnMemory::new(columns(), 8, sets).unwrap_err().message().to_owned();
    let three = |name, bytes| vec![set(name, bytes), set(name, bytes), set(name, bytes)];
    assert!(refused(three("v", 56)).contains("expected 64 bytes of memory, found 56"));
    assert!(refused(three("w", 64)).contains("\"v\": expected memory for it"));
    let more = three("v", 64).into_iter().map(|one| one.into_iter().chain(set("x", 8)).collect());
    assert!(refused(more.collect()).contains("found more for \"x\""));
    let ragged =
        three("v", 64).into_iter().map(|one| one.into_iter().chain(set("data", 8)).collect());
    assert!(refused(ragged.collect()).contains("no memory for a column of bytes"));
    let memory = ColumnMemory::new(columns(), 8, three("v", 64)).unwrap();
    let error = in_order(&Bytes::count(9), 9).columns_in(&memory).unwrap_err();
    assert!(error.message().contains("batches of 9 samples, found 8"), "{error}");
    let one = ColumnMemory::new(Columns::new().scalar::<u64>("v"), 8, vec![set("v", 64)]).unwrap();
    let error = in_order(&Bytes::count(9), 8).threads(1).columns_in(&one).unwrap_err();
    assert!(error.message().contains("at least 3 sets"), "{error}");
    // Nothing is made ahead, so one is enough for a caller who drops each batch.
    let sum: u64 = in_order(&Bytes::count(9), 8)
        .threads(0)
        .columns_in(&one)
        .unwrap()
        .map(|batch| batch.unwrap().data.values::<u64>("v").unwrap().iter().sum::<u64>())
        .sum();
    assert_eq!(sum, 36);
}

/// The same values, whether batches are kept, dropped or given back.
#[test]
fn batches_that_are_given_back() {
    let reader = Bytes::count(7);
    for threads in [0, 2] {
        let options = || {
            let options = Loader::options(reader.clone(), Shuffle::new(7, 42)).batch_size(3);
            options.epochs(2).threads(threads)
        };
        let columns = || Columns::new().scalar::<u64>("v");
        let values = |batch: &Batch<ColumnBatch>| {
            let values = batch.data.values::<u64>("v").unwrap().to_vec();
            assert_eq!(batch.indices, values);
            values
        };
        let kept = all(options().columns(columns()).unwrap());
        let expected: Vec<Vec<u64>> = kept.iter().map(values).collect();
        assert_eq!(expected.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 1, 3, 3, 1]);
        let mut loader = options().columns(columns()).unwrap();
        let mut found = Vec::new();
        while let Some(batch) = loader.next() {
            let batch = batch.unwrap();
            found.push(values(&batch));
            loader.reuse(batch);
        }
        assert_eq!(found, expected, "{threads} threads");
    }
}
