//! Arrays in samples, plain and packed: the same to every reader, and turned into each other.

use std::borrow::Cow;
use std::fs;
use std::sync::Arc;

use kiste::array::{ArrayPolicy, ArrayTally, Left, PackOptions, PackedArray};
use kiste::format::blosc::Codec;
use kiste::format::bloscpack::Checksum;
use kiste::format::msgpack::numpy::{Form, arrays_in, decode_array, encode_array};
use kiste::format::msgpack::{self, Cursor};
use kiste::loader::{Columns, Element, Loader, OnError};
use kiste::reader::{ListReader, Reader};
use kiste::sampler::Sequential;
use kiste::value::{NdArray, Order};
use kiste::verify::Verify;
use kiste::{DatasetReader, ErrorKind, Value, Writer};
use ndarray::{Array0, Array1, Array2, ArrayD, ShapeBuilder, array};
use num_complex::Complex;
use serde::{Deserialize, Serialize};

use super::golden;
use crate::support::{self, golden_names};

/// All arrays, packed like this.
fn packed(text: &str) -> ArrayPolicy {
    text.parse::<ArrayPolicy>().unwrap().min_bytes(0)
}

fn recode<'a>(policy: &ArrayPolicy, sample: &'a [u8]) -> (Cow<'a, [u8]>, ArrayTally) {
    let mut tally = ArrayTally::default();
    let recoded = policy.recode(sample, &mut tally).unwrap();
    (recoded, tally)
}

/// A packed sample with these fields, which are packed already.
fn sample(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut sample = vec![0x81 + fields.len() as u8];
    let text = |text: &str, out: &mut Vec<u8>| msgpack::encode(&text.into(), out).unwrap();
    text("key", &mut sample);
    text("a", &mut sample);
    for (name, value) in fields {
        text(name, &mut sample);
        sample.extend_from_slice(value);
    }
    sample
}

fn plain(array: &NdArray<'_>) -> Vec<u8> {
    let mut packed = Vec::new();
    encode_array(array, &mut packed).unwrap();
    packed
}

fn bin(bytes: Vec<u8>) -> Vec<u8> {
    msgpack::to_vec(&Value::Binary(bytes)).unwrap()
}

/// Numbers that compress.
fn ramp(rows: usize, columns: usize) -> Array2<f32> {
    Array2::from_shape_fn((rows, columns), |(i, j)| (i * columns + j) as f32 * 0.5)
}

#[test]
fn golden_datasets_come_back_from_containers_to_the_byte() {
    let codecs = ["blpk", "blpk:lz4:9:bitshuffle", "blpk:zlib:1:noshuffle"];
    let mut totals = ArrayTally::default();
    for name in golden_names() {
        let reader = DatasetReader::open(support::golden(&name)).unwrap();
        for (index, raw) in reader.iter_raw(..).enumerate() {
            let raw = raw.unwrap();
            let policy = packed(codecs[index % codecs.len()]);
            let (changed, tally) = recode(&policy, &raw);
            msgpack::check_sample(&changed).unwrap();
            assert_eq!(msgpack::key(&changed).unwrap(), msgpack::key(&raw).unwrap());
            for (before, after) in arrays_in(&raw).unwrap().zip(arrays_in(&changed).unwrap()) {
                let (before, after) = (before.unwrap(), after.unwrap());
                assert_eq!(before.field, after.field);
                if let (Form::Plain(before), Form::Container(_)) = (before.form, after.form) {
                    let again = decode_array(&changed[after.range]).unwrap();
                    assert_eq!(decode_array(before).unwrap(), again, "{name} {index}");
                }
            }
            assert_eq!(tally.recoded == 0, changed == raw);
            let (back, back_tally) = recode(&ArrayPolicy::plain(), &changed);
            assert!(back == raw, "{name} {index}");
            assert_eq!(back_tally.recoded, tally.recoded);
            totals += tally;
        }
    }
    assert!(totals.recoded > 90, "{totals:?}");
    // Those of Python objects, elements without bytes, nested masks, odd spellings.
    for why in [Left::Unsupported, Left::Irregular] {
        assert!(totals.left.get(&why).is_some_and(|&count| count > 0), "{why:?} in {totals:?}");
    }
}

#[test]
fn containers_of_bloscpack_become_plain_and_packed_otherwise() {
    let mut seen = 0;
    for (name, bytes, _) in golden("nd") {
        let array = PackedArray::from_bytes(&bytes[..]).unwrap().read().unwrap();
        let before = sample(&[("x", &bin(bytes.clone()))]);
        for policy in [ArrayPolicy::plain(), packed("blpk:zlib:3"), packed("blpk:lz4:1")] {
            let (after, tally) = recode(&policy, &before);
            if tally.recoded == 0 {
                assert!(after == before && tally.left.len() == 1, "{name}: {tally:?}");
                continue;
            }
            seen += 1;
            let field = msgpack::field(&after, "x").unwrap().unwrap();
            let again = decode_array(field).unwrap();
            assert_eq!((again.dtype(), again.shape()), (array.dtype(), array.shape()), "{name}");
            assert_eq!(again.c_bytes(), array.c_bytes(), "{name}");
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn arrays_at_any_depth_are_found_and_nothing_else_is_touched() {
    let x = plain(&NdArray::from_ndarray(&ramp(20, 20)));
    let container = PackOptions::compact().pack(&decode_array(&x).unwrap()).unwrap();
    let bytes = bin(PackOptions::compact().pack_bytes(&[1; 500], None).unwrap());
    // {"deep": [{"in": x, blpk…: 7}, "text"], "of": container of bytes, "masked": x in x, "x": x}
    let deep = [&b"\x92\x82\xa2in"[..], &x, &bin(container.clone()), b"\x07\xa4text"].concat();
    let masked = {
        let mut outer = x[..x.len() - 1603].to_vec();
        outer.extend_from_slice(&x);
        outer
    };
    assert!(decode_array(&masked).is_ok());
    let before =
        sample(&[("deep", &deep), ("of", &bytes), ("masked", &masked), ("x", &x), ("x2", &x)]);
    let fields: Vec<String> =
        arrays_in(&before).unwrap().map(|stored| stored.unwrap().field_name()).collect();
    assert_eq!(fields, ["deep", "of", "masked", "x", "x2"]);

    let (after, tally) = recode(&packed("blpk").fields(["deep", "of", "masked", "x"]), &before);
    assert_eq!(tally.recoded, 2);
    let left = |why| tally.left.get(&why).copied();
    assert_eq!((left(Left::NoArray), left(Left::Irregular)), (Some(1), Some(1)));
    assert_eq!(left(Left::OtherField), Some(1));
    let in_bin = bin(container.clone());
    let deep = [&b"\x92\x82\xa2in"[..], &in_bin, &in_bin, b"\x07\xa4text"].concat();
    let expected =
        sample(&[("deep", &deep), ("of", &bytes), ("masked", &masked), ("x", &in_bin), ("x2", &x)]);
    assert!(after == expected);
    assert!(recode(&ArrayPolicy::plain(), &after).0 == before);

    // What is in order already is borrowed.
    assert!(matches!(recode(&ArrayPolicy::plain(), &before).0, Cow::Borrowed(_)));
    let (same, tally) = recode(&packed("blpk").fields(["x"]), &after);
    assert!(matches!(same, Cow::Borrowed(_)));
    assert_eq!(tally.left.get(&Left::AsWanted), Some(&1));
    // 1,600 bytes of numbers.
    let min = |bytes| recode(&packed("blpk").min_bytes(bytes), &before).1.recoded;
    assert_eq!((min(1600), min(1601)), (3, 0));
}

#[test]
fn metadata_of_containers_is_not_lost() {
    let array = NdArray::from_ndarray(&ramp(30, 4)).into_owned();
    let options = PackOptions::compact().metadata("axes", "yx");
    let before = sample(&[("x", &bin(options.pack(&array).unwrap()))]);
    let (after, tally) = recode(&ArrayPolicy::plain(), &before);
    assert_eq!((tally.left.get(&Left::Metadata), after == before), (Some(&1), true));
    let (after, tally) = recode(&packed("blpk:zlib:9"), &before);
    assert_eq!(tally.recoded, 1);
    let stored = arrays_in(&after).unwrap().next().unwrap().unwrap();
    let Form::Container(bytes) = stored.form else { panic!("{stored:?}") };
    let packed = PackedArray::from_bytes(bytes).unwrap();
    assert_eq!(packed.container().metadata().unwrap().value().unwrap()["axes"], "yx");
    assert_eq!(packed.read().unwrap(), array);

    // Bytes behind the container are somebody's as well.
    let mut longer = options.pack(&array).unwrap();
    longer.extend_from_slice(b"rest");
    let before = sample(&[("x", &bin(longer))]);
    for policy in [ArrayPolicy::plain(), ArrayPolicy::packed(PackOptions::compact())] {
        assert_eq!(recode(&policy, &before).1.left.get(&Left::Irregular), Some(&1));
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Points {
    key: String,
    #[serde(with = "kiste::serde_ndarray")]
    xy: Array2<f32>,
    #[serde(with = "kiste::serde_ndarray", default)]
    more: Option<Vec<Array1<i16>>>,
}

#[derive(Serialize, Deserialize)]
struct Any<'a> {
    key: &'a str,
    #[serde(borrow)]
    xy: NdArray<'a>,
}

#[derive(Serialize, Deserialize)]
struct Lazy<'a> {
    key: &'a str,
    #[serde(borrow)]
    xy: PackedArray<'a>,
}

fn points(key: &str) -> Points {
    let more = vec![Array1::from_iter(0..600), array![7, 7]];
    Points { key: key.into(), xy: ramp(100, 3), more: Some(more) }
}

#[test]
fn what_is_written_by_value_is_stored_by_the_policy_and_read_alike() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("points.msgpack");
    let mut writer = Writer::options().arrays("blpk".parse().unwrap()).create(&path).unwrap();
    writer.write(&points("a")).unwrap();
    // The same again is refused, and not counted.
    assert_eq!(writer.write(&points("a")).unwrap_err().kind(), ErrorKind::DuplicateKey);
    let raw = rmp_serde::to_vec_named(&points("raw")).unwrap();
    writer.write_value(&msgpack::decode(&raw).unwrap()).unwrap();
    assert_eq!((writer.arrays().recoded, writer.arrays().left.get(&Left::Small)), (4, Some(&2)));
    let before = writer.bytes();
    let raw = rmp_serde::to_vec_named(&points("whole")).unwrap();
    writer.write_packed(&raw).unwrap();
    assert_eq!(writer.bytes() - before, raw.len() as u64);
    let xy = PackedArray::from_view(ramp(100, 3).view()).unwrap();
    writer.write(&Lazy { key: "lazy", xy }).unwrap();
    writer.finish().unwrap();

    let reader = DatasetReader::open(&path).unwrap();
    assert!(reader.get_raw(0).unwrap().len() < reader.get_raw(2).unwrap().len() / 2);
    for (index, key) in ["a", "raw", "whole"].into_iter().enumerate() {
        assert_eq!(reader.get_as::<Points>(index).unwrap(), points(key));
    }
    for index in 0..4 {
        let any: Any<'_> = reader.get_as(index).unwrap();
        assert_eq!(any.xy.to_ndarray::<f32>().unwrap(), ramp(100, 3).into_dyn());
        // A plain array as well, and no matter whether it can be borrowed.
        let lazy: Lazy<'_> = reader.get_as(index).unwrap();
        assert_eq!(lazy.xy.shape(), [100, 3]);
        let rows = lazy.xy.rows(40..42).unwrap();
        assert_eq!(rows.view::<f32>().unwrap()[[1, 2]], 62.5);
        let list = ListReader::new([reader.get(index).unwrap()]).unwrap();
        let owned: kiste::Result<Points> = kiste::ReaderExt::get_as(&list, 0);
        assert_eq!(owned.unwrap().xy, ramp(100, 3));
    }
    // The container is borrowed from the map.
    let lazy: Lazy<'_> = reader.get_as(0).unwrap();
    let raw = reader.get_raw(0).unwrap();
    assert!(raw.as_ptr_range().contains(&lazy.xy.bytes().as_ptr()));
    assert!(Verify::of(&path).deep(true).run().unwrap().problems.is_empty());
}

#[test]
fn a_container_of_no_array_is_no_array() {
    let bytes = PackOptions::compact().pack_bytes(&[1; 500], None).unwrap();
    for bytes in [bytes, b"blpk".to_vec(), b"blpk and more that is none".to_vec()] {
        let before = sample(&[("xy", &bin(bytes))]);
        let error = rmp_serde::from_slice::<Any<'_>>(&before).err().unwrap();
        assert!(error.to_string().contains("of a container"), "{error}");
        assert!(rmp_serde::from_slice::<Lazy<'_>>(&before).is_err());
    }
}

/// Columns of this array, stored in each way there is, and what they should hold.
fn check_columns<T: Element>(array: &ArrayD<T>) {
    let shape = array.shape().to_vec();
    let mut turned = ArrayD::from_elem(shape.as_slice().f(), T::default());
    turned.assign(array);
    let swapped: Vec<u8> = array
        .iter()
        .flat_map(|element| bytemuck::bytes_of(&element.swap_bytes()).to_vec())
        .collect();
    let dtype = kiste::value::DType::of::<T>();
    let other = match cfg!(target_endian = "big") {
        true => kiste::value::ByteOrder::Little,
        false => kiste::value::ByteOrder::Big,
    };
    let arrays = [
        NdArray::from_ndarray(array),
        NdArray::from_ndarray(&turned),
        NdArray::new(dtype.with_byte_order(other), shape.clone(), swapped).unwrap(),
    ];
    assert!(shape.len() < 2 || arrays[1].order() == Order::F);
    let mut samples = vec![sample(&[("x", &plain(&arrays[0]))])];
    for array in &arrays {
        let container = PackOptions::compact().chunk_size(40).pack(array).unwrap();
        samples.push(sample(&[("x", &bin(container))]));
    }
    let count = samples.len();
    let samples = samples.iter().map(|sample| msgpack::decode(sample).unwrap());
    let samples = samples.enumerate().map(|(i, mut sample)| {
        let Value::Map(fields) = &mut sample else { panic!("{sample}") };
        fields[0].1 = format!("k{i}").into();
        sample
    });
    let reader = Arc::new(ListReader::new(samples).unwrap());
    let mut loader = Loader::options(reader, Sequential::new(count as u64))
        .batch_size(count as u64)
        .epochs(1)
        .columns(Columns::new().array::<T>("x", &shape))
        .unwrap();
    let batch = loader.next().unwrap().unwrap();
    for row in batch.data.array::<T>("x").unwrap().outer_iter() {
        assert_eq!(row, array.view());
    }
}

#[test]
fn columns_decompress_into_the_batch() {
    check_columns(&ramp(7, 5).into_dyn());
    check_columns(&Array2::from_shape_fn((4, 9), |(i, j)| (i * j) % 3 == 1).into_dyn());
    check_columns(&Array2::from_shape_fn((4, 9), |(i, j)| (i * j) as u8).into_dyn());
    check_columns(&Array1::from_iter((0..50).map(|i| i * -7_i64)).into_dyn());
    check_columns(&array![[[1_u16, 2], [3, 4]], [[5, 6], [7, 8]]].into_dyn());
    check_columns(&array![Complex::new(1.0_f64, -2.0), Complex::new(0.5, 0.0)].into_dyn());
    check_columns(&Array0::from_elem((), 2.5_f64).into_dyn());
}

#[test]
fn a_column_of_another_type_or_shape_is_refused() {
    let x = NdArray::from_ndarray(&ramp(6, 4)).into_owned();
    let before = sample(&[("x", &bin(PackOptions::compact().pack(&x).unwrap()))]);
    let reader = Arc::new(ListReader::new([msgpack::decode(&before).unwrap()]).unwrap());
    for (columns, says) in [
        (
            Columns::new().array::<f32>("x", &[4, 6]),
            "shape [4, 6], found type \"<f4\" and shape [6",
        ),
        (Columns::new().array::<i64>("x", &[6, 4]), "an array of type i8 and shape [6, 4], found"),
        (Columns::new().array::<i32>("x", &[6, 4]), "an array of type i4 and shape [6, 4], found"),
        (Columns::new().scalar::<f32>("x"), "an array of type f4 and shape [], found"),
    ] {
        let options = Loader::options(reader.clone(), Sequential::new(1)).epochs(1);
        let mut loader = options.columns(columns).unwrap();
        let error = loader.next().unwrap().unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[test]
fn any_flipped_byte_of_a_container_is_an_error_or_harmless() {
    let xy = ramp(40, 3);
    for checksum in [Checksum::Adler32, Checksum::Crc32] {
        let array = NdArray::from_ndarray(&xy);
        let options = PackOptions::compact().codec(Codec::Zlib).checksum(checksum).chunk_size(200);
        let container = options.pack(&array).unwrap();
        let good = sample(&[("xy", &bin(container.clone()))]);
        let at = good.len() - container.len();
        for position in at..good.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[position] ^= flip;
                // As an array of any type, unless it is no longer a container.
                if position >= at + 4 {
                    if let Ok(found) = rmp_serde::from_slice::<Any<'_>>(&bad) {
                        assert_eq!(found.xy, array, "byte {position}");
                    }
                }
                if let Ok(found) = rmp_serde::from_slice::<Points>(&bad) {
                    assert_eq!(found.xy, xy, "byte {position}");
                }
                if let Ok(found) = rmp_serde::from_slice::<Lazy<'_>>(&bad) {
                    if let Ok(found) = found.xy.read() {
                        assert_eq!(found, array, "byte {position}");
                    }
                }
                let mut tally = ArrayTally::default();
                if let Ok(recoded) = ArrayPolicy::plain().recode(&bad, &mut tally) {
                    let unchanged = tally.recoded == 0 && *recoded == bad[..];
                    let field = msgpack::field(&recoded, "xy").unwrap().unwrap();
                    assert!(unchanged || decode_array(field).unwrap() == array);
                }
            }
        }
        for len in 4..container.len() {
            assert!(decode_array(&bin(container[..len].to_vec())).is_err(), "{len} bytes");
        }
    }
}

#[test]
fn damage_in_an_array_names_file_sample_and_key() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("points.msgpack");
    let options = Writer::options().arrays("blpk".parse().unwrap()).digests(false);
    let mut writer = options.create(&path).unwrap();
    for key in ["a", "b", "c"] {
        writer.write(&points(key)).unwrap();
    }
    writer.finish().unwrap();
    let (range, raw) = {
        let reader = DatasetReader::open(&path).unwrap();
        (reader.byte_range(1).unwrap(), reader.get_raw(1).unwrap().into_owned())
    };
    let mut data = fs::read(&path).unwrap();
    let stored = arrays_in(&raw).unwrap().next().unwrap().unwrap();
    data[range.start as usize + stored.range.end - 9] ^= 4; // in the last chunk of `xy`
    fs::write(&path, &data).unwrap();

    let check = |error: kiste::Error| {
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{text}");
        assert_eq!((error.path(), error.index(), error.key()), (Some(&*path), Some(1), Some("b")));
        assert!(text.contains("field \"xy\"") && text.contains("checksum"), "{text}");
    };
    let reader = Arc::new(DatasetReader::open(&path).unwrap());
    reader.get_as::<Points>(0).unwrap();
    check(reader.get_as::<Points>(1).unwrap_err());
    check(reader.get_as::<Any<'_>>(1).err().unwrap());
    reader.get_as::<Points>(2).unwrap();
    // What is lazy fails when it is asked for.
    let lazy: Lazy<'_> = reader.get_as(1).unwrap();
    assert_eq!(lazy.xy.read().unwrap_err().kind(), ErrorKind::Damaged);

    let loading = |on_error| {
        let options = Loader::options(reader.clone(), Sequential::new(3)).epochs(1);
        let columns = Columns::new().array::<f32>("xy", &[100, 3]);
        options.batch_size(3).on_error(on_error).columns(columns).unwrap().next().unwrap()
    };
    assert!(loading(OnError::Raise).unwrap_err().to_string().contains("checksum"));
    let batch = loading(OnError::Skip).unwrap();
    assert_eq!((batch.data.len(), batch.failures.len()), (2, 1));
    assert_eq!(batch.failures[0].key.as_deref(), Some("b"));

    assert!(Verify::of(&path).run().unwrap().problems.is_empty());
    let report = Verify::of(&path).deep(true).run().unwrap();
    let [problem] = &report.problems[..] else { panic!("{report:?}") };
    assert_eq!((problem.index, problem.key.as_deref()), (Some(1), Some("b")));
    let start = range.start + stored.range.start as u64;
    assert_eq!(problem.bytes, Some(start..range.start + stored.range.end as u64));
    assert!(problem.message.starts_with("field \"xy\": byte "), "{problem}");
}

#[test]
fn plain_arrays_of_wrong_size_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("short.msgpack");
    let x = plain(&NdArray::from_ndarray(&array![1_u8, 2, 3]));
    let mut short = x.clone();
    short[x.len() - 4] = 2; // the length of the data
    short.pop();
    let mut writer = Writer::create(&path).unwrap();
    writer.write_packed(&sample(&[("good", &x), ("short", &short), ("shorter", &short)])).unwrap();
    writer.finish().unwrap();
    let report = Verify::of(&path).deep(true).run().unwrap();
    let messages: Vec<&str> = report.problems.iter().map(|found| found.message.as_str()).collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[0].starts_with("field \"short\"") && messages[0].ends_with("found 2 bytes"));
    assert!(messages[1].starts_with("field \"shorter\""));
}

#[test]
fn hostile_samples_are_errors_and_not_walked_for_ever() {
    // Maps in maps, the innermost of which would be an array.
    let mut deep = b"\x82\xa3key\xa1a\xa1x".to_vec();
    for _ in 0..1000 {
        deep.extend_from_slice(b"\x81\xa1x");
    }
    deep.extend_from_slice(&plain(&NdArray::from_ndarray(&array![1_u8])));
    assert_eq!(arrays_in(&deep).unwrap().count(), 1);
    assert_eq!(recode(&packed("blpk"), &deep).1.recoded, 1);
    for bad in [&b""[..], b"\x81", b"\xc0", b"\x81\xa3key\xa1a\x00", b"\xdf\xff\xff\xff\xff\x00"] {
        assert!(arrays_in(bad).is_err() && Cursor::new(bad).read_str().is_err());
        let error = packed("blpk").recode(bad, &mut ArrayTally::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
    }
    // A container of a few bytes that promises gigabytes.
    let mut huge = PackOptions::compact().pack(&NdArray::from_ndarray(&array![1_u8])).unwrap();
    huge[8..16].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f]);
    assert!(decode_array(&bin(huge)).is_err());
}

#[test]
fn the_trait_reader_reads_packed_arrays_too() {
    let samples = [sample(&[("xy", &plain(&NdArray::from_ndarray(&ramp(100, 3))))])];
    let samples = samples.map(|raw| msgpack::decode(&recode(&packed("blpk"), &raw).0).unwrap());
    let reader: Arc<dyn Reader> = Arc::new(ListReader::new(samples).unwrap());
    let record =
        |record: &kiste::loader::Record<'_>| record.get_as::<Lazy<'_>>()?.xy.to_ndarray::<f32>();
    let mut loader = Loader::options(reader, Sequential::new(1)).epochs(1).map(record).unwrap();
    assert_eq!(loader.next().unwrap().unwrap().data, [ramp(100, 3).into_dyn()]);
}
