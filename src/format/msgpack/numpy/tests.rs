//! Arrays of the golden files both ways, Python's quirks, structs, and damage.

use std::collections::BTreeMap;

use ndarray::{Array0, Array1, Array2, Array3, ArrayD, array};
use num_complex::Complex;
use serde::{Deserialize, Serialize};

use super::*;
use crate::format::msgpack::tests::{Random, golden};
use crate::format::msgpack::{Cursor, decode, sample, to_vec};
use crate::format::numpy::descr;
use crate::value::{AccessError, Field, Order};

/// Every packed field of the golden datasets with a value of NumPy, and where it is from.
fn specials() -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for golden in golden() {
        for field in sample::fields(&golden.raw).unwrap() {
            let (_, packed) = field.unwrap();
            let is_map = packed.first().is_some_and(|byte| byte & 0xf0 == 0x80);
            if is_map && matches!(read(&mut Cursor::new(packed)), Ok(Some(_))) {
                found.push((format!("{} {}", golden.dataset, golden.key), packed.to_vec()));
            }
        }
    }
    assert!(found.len() > 100);
    found
}

fn pack(special: &Special<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    match special {
        Special::Array(array) => encode_array(array, &mut out).unwrap(),
        Special::Scalar(array) => encode_scalar(array, &mut out).unwrap(),
        Special::Complex(re, im) => encode_complex(*re, *im, &mut out).unwrap(),
    }
    out
}

#[test]
fn golden_arrays_come_back_to_the_byte() {
    let (mut arrays, mut scalars, mut numbers, mut objects) = (0, 0, 0, 0);
    let mut odd = Vec::new();
    for (name, packed) in specials() {
        let mut cursor = Cursor::new(&packed);
        let special = read(&mut cursor).unwrap().unwrap();
        cursor.expect_end().unwrap();
        if pack(&special) != packed {
            odd.push(name.clone());
            continue;
        }
        match &special {
            Special::Array(array) if array.dtype().has_objects() => {
                objects += 1;
                assert_eq!(array.view::<u8>().err(), Some(AccessError::Objects));
                continue;
            }
            Special::Array(array) => {
                arrays += 1;
                // The elements are borrowed, and serde has the same.
                let place = array.bytes().as_ptr_range();
                assert!(place.is_empty() || packed.as_ptr_range().contains(&place.start));
                let again: NdArray<'_> = rmp_serde::from_slice(&packed).unwrap();
                assert_eq!(again, *array, "{name}");
                assert!(place.is_empty() || again.bytes().as_ptr_range() == place);
                assert_eq!(rmp_serde::to_vec(array).unwrap(), packed, "{name}");
                let owned =
                    NdArray::deserialize(&mut rmp_serde::Deserializer::new(&packed[..])).unwrap();
                assert_eq!(owned, *array);
            }
            Special::Scalar(array) => {
                scalars += 1;
                assert_eq!(decode_array(&packed).unwrap(), *array);
                assert_eq!(rmp_serde::from_slice::<NdArray<'_>>(&packed).unwrap(), *array);
            }
            Special::Complex(..) => numbers += 1,
        }
        let value = decode(&packed).unwrap();
        assert_eq!(recognise(&value).unwrap().to_value(), value, "{name}");
        assert_eq!(to_vec(&special.to_value()).unwrap(), packed, "{name}");
    }
    assert!(arrays > 80 && scalars > 15 && numbers > 10 && objects > 0);
    // All others are not in the form in which Python packs them, or have data of another array in
    // the place of theirs.
    for name in odd {
        let known = name.starts_with("rawwire ") || name.contains("masked");
        assert!(known, "{name}");
    }
}

/// Odd maps, as Python and as we read them: see `decode_quirks.json`. Differences
/// are noted with the reason.
#[test]
fn quirks_are_as_in_python() {
    // Python has no use for a title here, we read past it.
    let accepted = ["structured with title (cannot be read back)"];
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/datadings-3.4.7");
    let text = std::fs::read(format!("{folder}/decode_quirks.json")).unwrap();
    let quirks: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let mut seen = 0;
    for case in quirks["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let prefixes = ["nd ", "scalar ", "kind ", "structured ", "complex ", "str key nd"];
        let Some(hex) =
            case["hex"].as_str().filter(|_| prefixes.iter().any(|p| name.starts_with(p)))
        else {
            continue;
        };
        seen += 1;
        let digits = (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16));
        let bytes: Vec<u8> = digits.map(Result::unwrap).collect();
        let found = read(&mut Cursor::new(&bytes));
        let by_serde = rmp_serde::from_slice::<NdArray<'_>>(&bytes);
        match (case.get("ok"), found) {
            (None, Ok(Some(_))) => assert!(accepted.contains(&name), "{name}"),
            (None, found) => {
                assert!(found.is_err(), "{name}: {found:?}");
                assert!(by_serde.is_err(), "{name}");
            }
            (Some(ok), found) => {
                let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(found.is_some(), by_serde.is_ok(), "{name}");
                assert_eq!(as_json(found.as_ref()), only_special(ok), "{name}");
            }
        }
    }
    assert!(seen > 25);
}

/// The notation of the golden files.
fn as_json(special: Option<&Special<'_>>) -> Option<serde_json::Value> {
    use base64::Engine as _;
    let base64 = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let dtype = |array: &NdArray<'_>| {
        let mut json = Vec::new();
        crate::format::jsonl::write(&dtype_to_value(array.dtype()), &mut json).unwrap();
        serde_json::from_slice::<serde_json::Value>(&json).unwrap()
    };
    let json = |special: &Special<'_>| match special {
        Special::Array(array) => serde_json::json!({"$nd": {
            "dtype": dtype(array), "shape": array.shape(), "data": base64(array.bytes())
        }}),
        Special::Scalar(array) => serde_json::json!({"$np": {
            "dtype": dtype(array), "data": base64(array.bytes())
        }}),
        Special::Complex(re, im) => serde_json::json!({"$c": [
            format!("{:016x}", re.to_bits()), format!("{:016x}", im.to_bits())
        ]}),
    };
    special.map(json)
}

fn only_special(value: &serde_json::Value) -> Option<serde_json::Value> {
    let names = ["$nd", "$np", "$c"];
    let is_special = names.iter().any(|name| value.get(name).is_some());
    is_special.then(|| value.clone())
}

#[test]
fn every_spelling_of_a_type_is_read() {
    // Without a byte order it is the machine's own, as in NumPy.
    let native = |text: &str| match cfg!(target_endian = "big") {
        true => format!(">{text}"),
        false => format!("<{text}"),
    };
    for (spelling, expected) in [
        (Value::from("=i4"), native("i4")),
        (Value::from("int32"), native("i4")),
        (Value::from(&b"<i4"[..]), "<i4".to_owned()),
        (Value::from("S4"), "|S4".to_owned()),
        (Value::from("f4"), native("f4")),
        (Value::from("M8[s]"), native("M8[s]")),
        (Value::from("u1,i1"), "[('f0', '|u1'), ('f1', '|i1')]".to_owned()),
        (Value::Nil, native("f8")),
    ] {
        let bytes = to_vec(&Value::Map(vec![
            (Value::from(&b"data"[..]), Value::from(&[0u8; 9][..])),
            (Value::from(5), Value::Nil),
            (Value::from(&b"shape"[..]), Value::from(1)),
            (Value::from(&b"type"[..]), spelling),
            (Value::from(&b"nd"[..]), Value::from(true)),
        ]));
        let bytes = bytes.unwrap();
        let array = decode_array(&bytes).unwrap();
        assert_eq!(*array.dtype(), expected.parse().unwrap());
        assert_eq!(array.shape(), [1]);
        assert_eq!(rmp_serde::from_slice::<NdArray<'_>>(&bytes).unwrap(), array);
    }
}

#[test]
fn bytes_are_an_array_of_bytes() {
    let array = decode_array(b"\xc4\x03abc").unwrap();
    assert_eq!(array.view::<u8>().unwrap(), array![b'a', b'b', b'c'].into_dyn());
    assert_eq!(rmp_serde::from_slice::<NdArray<'_>>(b"\xc4\x03abc").unwrap(), array);
    assert_eq!(
        decode_array(b"\x80").unwrap_err().to_string(),
        "byte 0: expected an array, found a map that is none"
    );
    assert_eq!(
        decode_array(b"\xa1a").unwrap_err().to_string(),
        "byte 0: expected a map, found a string"
    );
    assert!(decode_array(b"\xc4\x03abc\x00").is_err());
}

#[test]
fn damage_is_an_error_or_another_array() {
    let mut tried = BTreeMap::new();
    for (name, packed) in specials() {
        // One of each dataset and length is enough.
        if packed.len() > 400 || tried.insert((name[..5].to_owned(), packed.len()), ()).is_some() {
            continue;
        }
        for len in 0..packed.len() {
            assert!(decode_array(&packed[..len]).is_err(), "{name}: cut to {len}");
            assert!(rmp_serde::from_slice::<NdArray<'_>>(&packed[..len]).is_err(), "{name}: {len}");
        }
        let mut damaged = packed.clone();
        for at in 0..packed.len() {
            for flip in [1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80] {
                damaged[at] ^= flip;
                let array = decode_array(&damaged);
                let _ = rmp_serde::from_slice::<NdArray<'_>>(&damaged);
                if let Ok(array) = array {
                    let mut again = Vec::new();
                    encode_array(&array, &mut again).unwrap();
                    assert_eq!(decode_array(&again).unwrap(), array, "{name}: {at} {flip}");
                }
                damaged[at] ^= flip;
            }
        }
    }
    assert!(tried.len() > 30);
}

fn any_dtype(random: &mut Random, levels: u64) -> DType {
    let plain = [
        "|b1", "|i1", "|u1", "<i2", ">i2", "<u4", ">i8", "<u8", "<f2", ">f4", "<f8", "<f16", ">c8",
        "<c16", "|S0", "|S3", "<U2", ">U1", "<M8[ns]", ">m8[25s]", "<M8",
    ];
    if levels == 0 || random.below(3) > 0 {
        return plain[random.below(plain.len() as u64) as usize].parse().unwrap();
    }
    let fields = (0..random.below(4)).map(|at| match random.below(4) {
        0 => Field::padding(random.below(4) as usize),
        _ => {
            let lens = (0..random.below(3)).map(|_| random.below(3) as usize);
            let lens: Vec<usize> = lens.collect();
            Field::new(format!("字 {at}"), any_dtype(random, levels - 1)).with_shape(lens)
        }
    });
    DType::structure(fields.collect::<Vec<_>>()).unwrap()
}

#[test]
fn arrays_of_any_type_shape_and_order_come_back() {
    let mut random = Random(7);
    for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
        let dtype = any_dtype(&mut random, 3);
        let axes = random.below(4);
        let shape: Vec<usize> = (0..axes).map(|_| random.below(4) as usize).collect();
        let size = shape.iter().product::<usize>() * dtype.item_size();
        let data: Vec<u8> = (0..size).map(|_| random.below(256) as u8).collect();
        let order = if random.below(2) == 0 { Order::C } else { Order::F };
        let array = NdArray::with_order(dtype.clone(), shape, order, data).unwrap();
        let mut packed = Vec::new();
        encode_array(&array, &mut packed).unwrap();
        let again = decode_array(&packed).unwrap();
        // A field without a name that is the only one is what a type without fields is packed as.
        let only = [Field::padding(dtype.item_size())];
        if dtype.fields() == only {
            assert_eq!(*again.dtype(), DType::void(dtype.item_size()));
            continue;
        }
        assert_eq!(again, array);
        assert_eq!(rmp_serde::to_vec(&array).unwrap(), packed);
        assert_eq!(recognise(&decode(&packed).unwrap()), Some(Special::Array(again)));
        assert_eq!(descr::parse(&descr::repr(&dtype)).unwrap(), dtype);
    }
}

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Sample<'a> {
    key: String,
    #[serde(with = "crate::serde_ndarray")]
    matrix: Array2<f32>,
    #[serde(with = "crate::serde_ndarray")]
    any: ArrayD<Complex<f64>>,
    #[serde(with = "crate::serde_ndarray")]
    none: Option<Array1<u8>>,
    #[serde(with = "crate::serde_ndarray", default)]
    some: Option<Array0<bool>>,
    #[serde(with = "crate::serde_ndarray")]
    several: Vec<Array3<i16>>,
    #[serde(borrow)]
    raw: NdArray<'a>,
}

#[test]
fn structs_have_arrays_as_fields() {
    let sample = Sample {
        key: "k".into(),
        matrix: array![[1.0, 2.0], [3.0, 4.0]].reversed_axes(),
        any: array![Complex::new(1.0, -1.0)].into_dyn(),
        none: None,
        some: Some(Array0::from_elem((), true)),
        several: vec![Array3::zeros((0, 2, 1)), Array3::ones((1, 1, 2))],
        raw: NdArray::new("|S2".parse().unwrap(), [2], &b"abc\0"[..]).unwrap(),
    };
    let mut packed = Vec::new();
    let mut serializer = rmp_serde::Serializer::new(&mut packed).with_struct_map();
    sample.serialize(&mut serializer).unwrap();
    assert_eq!(rmp_serde::from_slice::<Sample<'_>>(&packed).unwrap(), sample);
    let owned = Sample::deserialize(&mut rmp_serde::Deserializer::new(&packed[..]));
    assert_eq!(owned.unwrap(), sample);
    let value = decode(&packed).unwrap();
    assert_eq!(Sample::deserialize(value.clone()).unwrap(), sample);
    let Some(Special::Array(matrix)) = recognise(&value["matrix"]) else { panic!("no array") };
    assert_eq!(matrix.to_ndarray::<f32>().unwrap(), sample.matrix.clone().into_dyn());
    assert_eq!(value["none"], Value::Nil);
}

#[test]
fn fields_of_the_wrong_type_say_so() {
    #[derive(Debug, Deserialize)]
    struct Wrong {
        #[serde(with = "crate::serde_ndarray")]
        #[expect(dead_code, reason = "it is never read")]
        x: Array2<f64>,
    }
    let wrong = |array: &NdArray<'_>| {
        let packed = rmp_serde::to_vec(&BTreeMap::from([("x", array)])).unwrap();
        rmp_serde::from_slice::<Wrong>(&packed).unwrap_err().to_string()
    };
    let floats = Array1::<f64>::zeros(3);
    assert_eq!(wrong(&(&floats).into()), "expected an array of 2 dimensions, found 1");
    let singles = NdArray::new("<f4".parse().unwrap(), [1, 1], &[0; 4][..]).unwrap();
    assert_eq!(wrong(&singles), "expected an array of float64, found one of <f4");
    let objects = NdArray::opaque([1, 1], &b"pickle"[..]);
    assert!(wrong(&objects).contains("never executed"));
}

#[test]
fn complex_numbers_print_as_in_python() {
    assert_eq!(complex_repr(1.0, 2.5), "(1+2.5j)");
    assert_eq!(complex_repr(0.0, -1e16), "-1e+16j");
    assert_eq!(complex_repr(-0.0, 0.0), "(-0+0j)");
}
