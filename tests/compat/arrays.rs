//! A struct with arrays is written as Python writes the same sample.

use kiste::format::msgpack::field;
use kiste::value::{Element, NdArray};
use kiste::{DatasetReader, ErrorKind, Writer};
use ndarray::{Array2, ShapeBuilder};
use num_complex::Complex;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::support::golden;

#[derive(Serialize, Deserialize, PartialEq, Debug)]
#[serde(bound = "")]
struct Sample<T: Element> {
    key: String,
    #[serde(with = "kiste::serde_ndarray")]
    array: Array2<T>,
}

#[derive(Serialize, Deserialize)]
struct Any<'a> {
    key: &'a str,
    #[serde(borrow)]
    array: NdArray<'a>,
}

fn check<T: Element>(dtype: &str)
where
    Sample<T>: DeserializeOwned,
{
    let python = DatasetReader::open(golden("arrays")).unwrap();
    let index = python.find(&format!("{dtype} (2, 3)")).unwrap().unwrap();
    let sample: Sample<T> = python.get_as(index).unwrap();
    assert_eq!(sample.array.dim(), (2, 3));

    // In whatever order it is in memory.
    let mut turned = Array2::from_elem((2, 3).f(), T::default());
    turned.assign(&sample.array);
    let turned = Sample { key: sample.key.clone(), array: turned };
    let dir = tempfile::tempdir().unwrap();
    for (name, sample) in [("same.msgpack", sample), ("turned.msgpack", turned)] {
        let path = dir.path().join(name);
        let mut writer = Writer::create(&path).unwrap();
        writer.write(&sample).unwrap();
        writer.finish().unwrap();
        let ours = DatasetReader::open(&path).unwrap();
        assert_eq!(ours.get_raw(0).unwrap(), python.get_raw(index).unwrap(), "{dtype}");
        assert_eq!(ours.get_as::<Sample<T>>(0).unwrap(), sample);
    }
}

#[test]
fn structs_with_arrays_are_written_as_python_writes_them() {
    check::<bool>("?");
    check::<u8>("u1");
    check::<i8>("i1");
    // What Python wrote on a machine of the common byte order.
    if cfg!(target_endian = "little") {
        check::<u16>("<u2");
        check::<i64>("<i8");
        check::<half::f16>("<f2");
        check::<f32>("<f4");
        check::<f64>("<f8");
        check::<Complex<f32>>("<c8");
        check::<Complex<f64>>("<c16");
    }
}

#[test]
fn arrays_are_borrowed_from_the_map() {
    let python = DatasetReader::open(golden("arrays")).unwrap();
    let mut opened = 0;
    for index in 0..python.len() {
        let raw = python.get_raw(index).unwrap();
        if !field(&raw, "array").unwrap().is_some_and(|array| array.starts_with(&[0x85])) {
            continue;
        }
        let Ok(any) = python.get_as::<Any<'_>>(index) else { continue };
        let inside = raw.as_ptr_range().contains(&any.array.bytes().as_ptr());
        assert!(
            inside || any.array.bytes().is_empty() || any.key.contains("masked"),
            "{}",
            any.key
        );
        opened += 1;
    }
    assert!(opened > 80, "{opened}");
}

#[test]
fn a_field_of_another_type_is_the_callers_mistake() {
    let python = DatasetReader::open(golden("arrays")).unwrap();
    let index = python.find("<f4 (2, 3)").unwrap().unwrap();
    let error = python.get_as::<Sample<f64>>(index).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("expected an array of float64, found one of <f4"));
}
