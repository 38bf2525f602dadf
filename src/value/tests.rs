//! Arrays of every type, shape and memory order.

use half::f16;
use ndarray::{Array, Array2, Array3, ArrayD, Axis, IxDyn, ShapeBuilder, array, s};
use num_complex::Complex;

use super::*;
use crate::{Error, ErrorKind};

/// The same numbers each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

/// Bytes at an address that is, or is not, a multiple of 16.
fn placed(bytes: &[u8], aligned: bool) -> (Vec<u128>, usize) {
    let mut memory = vec![0u128; bytes.len() / 16 + 2];
    let start = usize::from(!aligned);
    bytemuck::cast_slice_mut::<u128, u8>(&mut memory)[start..start + bytes.len()]
        .copy_from_slice(bytes);
    (memory, start)
}

fn comes_back<T: Element>(random: &mut Random, values: &[T]) {
    for _ in 0..50 {
        let axes = random.below(5) as usize;
        let shape: Vec<usize> = (0..axes).map(|_| random.below(5) as usize).collect();
        let len = shape.iter().product();
        let elements = (0..len).map(|i: usize| values[i % values.len()]).collect();
        let order = if random.below(2) == 0 { Order::C } else { Order::F };
        let whole = IxDyn(&shape).set_f(order == Order::F);
        let mut array = ArrayD::from_shape_vec(whole, elements).unwrap();
        // Turned, cut and run through backwards, it is still the same to its reader.
        if axes > 1 && random.below(2) == 0 {
            array.swap_axes(0, axes - 1);
        }
        let step = [1, -1, 2][random.below(3) as usize];
        let view = match axes {
            0 => array.view(),
            _ => array.slice_axis(Axis(axes - 1), ndarray::Slice::new(0, None, step)),
        };
        let packed = NdArray::from_ndarray(&view);
        assert_eq!(packed.shape(), view.shape());
        assert_eq!(packed.to_ndarray::<T>().unwrap(), view);
        let elements: Vec<T> = view.iter().copied().collect();
        assert_eq!(*packed.c_bytes(), *bytemuck::cast_slice::<T, u8>(&elements));
        assert_eq!(packed.to_c_order(), packed);
        for aligned in [true, false] {
            let (memory, start) = placed(packed.bytes(), aligned);
            let bytes = &bytemuck::cast_slice::<u128, u8>(&memory)[start..][..packed.bytes().len()];
            let copy =
                NdArray::with_order(packed.dtype().clone(), packed.shape(), packed.order(), bytes);
            let copy = copy.unwrap();
            assert_eq!(copy.as_array::<T>().unwrap(), view);
            let viewed = copy.view::<T>();
            let can = aligned || align_of::<T>() == 1 || bytes.is_empty();
            assert_eq!(viewed.err(), (!can).then_some(AccessError::Alignment));
        }
    }
}

#[test]
fn arrays_of_every_type_shape_and_order_come_back() {
    let random = &mut Random(1);
    comes_back(random, &[true, false, false]);
    comes_back(random, &[0u8, 1, 255]);
    comes_back(random, &[0i8, -1, 127]);
    comes_back(random, &[0u16, 1, 65535]);
    comes_back(random, &[0i16, -2, 300]);
    comes_back(random, &[0u32, 1, 1 << 31]);
    comes_back(random, &[0i32, -2, 300]);
    comes_back(random, &[0u64, 1, 1 << 63]);
    comes_back(random, &[0i64, -2, i64::MAX]);
    comes_back(random, &[f16::from_f32(0.5), f16::INFINITY, f16::from_f32(-0.0)]);
    comes_back(random, &[0.5f32, -0.0, f32::MIN]);
    comes_back(random, &[0.5f64, -0.0, f64::MIN]);
    comes_back(random, &[Complex::new(0.5f32, 1.0)]);
    comes_back(random, &[Complex::new(0.5f64, 1.0), Complex::new(0.0, 2.0)]);
}

#[test]
fn memory_without_gaps_is_borrowed() {
    let matrix: Array2<i32> = array![[1, 2, 3], [4, 5, 6]];
    let address = |array: &NdArray<'_>| array.bytes().as_ptr() as usize;
    let start = matrix.as_ptr() as usize;
    let array = NdArray::from_ndarray(&matrix);
    assert_eq!((array.order(), address(&array)), (Order::C, start));
    let turned = matrix.t();
    let array = NdArray::from_ndarray(&turned);
    assert_eq!((array.order(), address(&array)), (Order::F, start));
    assert_eq!(array.shape(), [3, 2]);
    assert_eq!(array.view::<i32>().unwrap(), turned.into_dyn());
    assert_eq!(array.view::<i32>().unwrap().as_ptr() as usize, start);
    let backwards = matrix.slice(s![..;-1, ..;-1]);
    let array = NdArray::from_ndarray(&backwards);
    assert_eq!(array.order(), Order::C);
    assert_eq!(array.to_ndarray::<i32>().unwrap(), array![[6, 5, 4], [3, 2, 1]].into_dyn());
    // With one axis, one element or none the orders are the same; C is reported.
    for array in [Array::zeros((3, 1).f()), Array::zeros((1, 3).f()), Array::zeros((0, 3).f())] {
        assert_eq!(NdArray::from_ndarray::<f32, _, _>(&array).order(), Order::C);
    }
}

#[test]
fn either_byte_order_is_read() {
    let little = NdArray::new("<c8".parse().unwrap(), [1], &[0, 0, 0x80, 0x3f, 0, 0, 0, 0x40][..]);
    let big = NdArray::new(">c8".parse().unwrap(), [1], &[0x3f, 0x80, 0, 0, 0x40, 0, 0, 0][..]);
    for array in [little.unwrap(), big.unwrap()] {
        let expected = array![Complex::new(1.0f32, 2.0)].into_dyn();
        assert_eq!(array.to_ndarray::<Complex<f32>>().unwrap(), expected);
        assert_eq!(array.as_array::<Complex<f32>>().unwrap(), expected);
        if !array.dtype().is_native() {
            assert_eq!(array.view::<Complex<f32>>().err(), Some(AccessError::ByteOrder));
        }
    }
}

#[test]
fn truth_values_may_be_any_byte() {
    let array = NdArray::new(DType::of::<bool>(), [3], &[0, 1, 2][..]).unwrap();
    assert_eq!(array.view::<bool>().err(), Some(AccessError::TruthValue));
    assert_eq!(array.as_array::<bool>().unwrap(), array![false, true, true].into_dyn());
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn sizes_must_be_those_of_type_and_shape() {
    let float = DType::of::<f32>;
    assert!(NdArray::new(float(), [2], &[0; 8][..]).is_ok());
    assert!(NdArray::new(float(), [], &[0; 4][..]).is_ok());
    assert!(NdArray::new(float(), [0, 3], &[][..]).is_ok());
    let error = NdArray::new(float(), [2], &[0; 9][..]).unwrap_err();
    let expected = format!("expected 8 bytes for {} [2], found 9 bytes", float());
    assert_eq!(error.to_string(), expected);
    for shape in [vec![usize::MAX, 2], vec![0, usize::MAX, 2], vec![usize::MAX / 2]] {
        assert!(NdArray::new(float(), shape, &[][..]).is_err());
    }
    // Any number of elements without bytes could be claimed.
    let many = NdArray::new(DType::bytes(0), [1 << 12, 1 << 12], &[][..]).unwrap();
    assert_eq!(many.byte_strings().unwrap().count(), 1 << 24);
    assert_eq!(many.into_owned().c_bytes().len(), 0);
    let error = NdArray::new(DType::bytes(0), [1 << 12, (1 << 12) + 1], &[][..]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
}

#[test]
fn objects_are_kept_and_never_touched() {
    let array = NdArray::opaque([2], &b"pickle"[..]);
    assert_eq!((array.shape(), array.bytes()), (&[2][..], &b"pickle"[..]));
    let error = Error::from(array.view::<u8>().unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(
        error.to_string(),
        "the array holds Python objects as a pickle, which is never executed"
    );
    assert_eq!(array.to_ndarray::<u64>().err(), Some(AccessError::Objects));
    assert_eq!(array.strings().err(), Some(AccessError::Objects));
    assert_eq!(array.field("a").err(), Some(AccessError::Objects));
    let pointers = DType::structure([Field::new("a", DType::object())]).unwrap();
    let error = NdArray::new(pointers, [1], &[0; 8][..]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn text_is_read_in_both_byte_orders() {
    for (dtype, bytes) in
        [("<U2", [0xe9, 0, 0, 0, 0, 0, 0, 0]), (">U2", [0, 0, 0, 0xe9, 0, 0, 0, 0])]
    {
        let array = NdArray::new(dtype.parse().unwrap(), [1], &bytes[..]).unwrap();
        assert_eq!(array.strings().unwrap().map(Result::unwrap).collect::<Vec<_>>(), ["é"]);
    }
    for code in [0xd800u32, 0x11_0000, u32::MAX] {
        let bytes = code.to_le_bytes();
        let array = NdArray::new("<U1".parse().unwrap(), [1], &bytes[..]).unwrap();
        let error = array.strings().unwrap().next().unwrap().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("expected the number of a character, found {code:#x}")
        );
    }
    let array = NdArray::with_order(DType::bytes(1), [2, 2], Order::F, &b"acb\0"[..]).unwrap();
    let strings: Vec<_> = array.byte_strings().unwrap().collect();
    assert_eq!(strings, [b"a", b"b", &b"c"[..], b""]);
}

#[test]
fn fields_are_columns() {
    let dtype: DType = "[('a', '<u2'), ('', '|V1'), ('b', '|u1', (2,))]".parse().unwrap();
    let data = [1, 0, 9, 2, 3, 4, 0, 9, 5, 6];
    let array = NdArray::new(dtype, [2], &data[..]).unwrap();
    assert_eq!(array.field("a").unwrap().to_ndarray::<u16>().unwrap(), array![1, 4].into_dyn());
    let b = array.field("b").unwrap();
    assert_eq!(b.to_ndarray::<u8>().unwrap(), array![[2, 3], [5, 6]].into_dyn());
    assert_eq!(array.field("c").err(), Some(AccessError::NoField("c".to_owned())));
    assert_eq!(array.field("").err(), Some(AccessError::NoField(String::new())));
}

#[test]
fn debug_shows_the_beginning() {
    let array = Array3::<u8>::zeros((100, 100, 100));
    let text = format!("{:?}", NdArray::from_ndarray(&array));
    let zeros = ["00"; 16].join(", ");
    assert_eq!(text, format!("NdArray(|u1 [100, 100, 100] C, 1000000 bytes [{zeros}]…)"));
}

#[test]
fn numbers_become_elements_if_they_fit() {
    assert_eq!(u8::from_number(Number::Signed(255)), Some(255));
    assert_eq!(u8::from_number(Number::Signed(256)), None);
    assert_eq!(u8::from_number(Number::Float(1.0)), None);
    assert_eq!(f16::from_number(Number::Float(0.1)), Some(f16::from_f32(0.1)));
    assert_eq!(f16::from_number(Number::Float(65536.0)), None);
    assert_eq!(f16::from_number(Number::Signed(1 << 20)), None);
    assert_eq!(f16::from_number(Number::Float(f64::INFINITY)), Some(f16::INFINITY));
    assert_eq!(f32::from_number(Number::Unsigned(u64::MAX)), Some(u64::MAX as f32));
    assert_eq!(bool::from_number(Number::Signed(1)), Some(true));
    assert_eq!(bool::from_number(Number::Signed(2)), None);
    assert_eq!(Complex::<f32>::from_number(Number::Signed(2)), Some(Complex::new(2.0, 0.0)));
}

/// NumPy's answers about pairs of types, and its conversions of elements.
#[derive(serde::Deserialize)]
struct Golden {
    levels: Vec<(String, String, Option<String>)>,
    /// Types, elements before and after, and those that have no counterpart.
    values: Vec<(String, String, String, String, String)>,
}

fn golden() -> Golden {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/numpy-2.4.6/casting.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn dtype(text: &str) -> DType {
    text.parse().unwrap()
}

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect()
}

#[test]
fn types_are_cast_as_carefully_as_by_numpy() {
    let levels = [Casting::No, Casting::Equiv, Casting::Safe, Casting::SameKind, Casting::Unsafe];
    let (mut same, mut refused) = (0, std::collections::BTreeSet::new());
    for (from, to, level) in golden().levels {
        let (from, to) = (dtype(&from), dtype(&to));
        let level = level.map(|name| levels.into_iter().find(|l| l.to_string() == name).unwrap());
        if level.is_some() && !from.can_cast(&to, Casting::Unsafe) {
            refused.insert((format!("{:?}", from.kind()), format!("{:?}", to.kind())));
            continue;
        }
        for casting in levels {
            let expected = level.is_some_and(|level| level <= casting);
            assert_eq!(from.can_cast(&to, casting), expected, "{from} to {to}, {casting}");
        }
        same += 1;
    }
    assert!(same > 1400, "{same}");
    // These have no counterpart here, and nothing else has none.
    let has = |from: &str, to: &str| refused.contains(&(from.to_owned(), to.to_owned()));
    assert!(has("TimeDelta", "TimeDelta") && has("Float", "DateTime") && has("Int", "Text"));
    for (from, to) in [
        ("Int", "Int"),
        ("Float", "Int"),
        ("Complex", "Bool"),
        ("DateTime", "DateTime"),
        ("Text", "Bytes"),
        ("Bytes", "Text"),
        ("Void", "Void"),
    ] {
        assert!(!has(from, to), "{from} to {to}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn elements_become_what_numpy_makes_of_them() {
    let mut count = 0;
    for (from, to, given, expected, bad) in golden().values {
        let (from, to) = (dtype(&from), dtype(&to));
        let array = |bytes: Vec<u8>| {
            let len = bytes.len() / from.item_size();
            NdArray::new(from.clone(), [len], bytes).unwrap()
        };
        let (given, expected) = (array(bytes_of(&given)), bytes_of(&expected));
        let found = given.astype(&to, Casting::Unsafe).unwrap();
        assert_eq!(found.dtype(), &to);
        let both = found.bytes().chunks(to.item_size()).zip(expected.chunks(to.item_size()));
        for ((found, expected), given) in both.zip(given.bytes().chunks(from.item_size())) {
            let same = found == expected || both_nan(&to, found, expected);
            assert!(same, "{from} {given:02x?} to {to}: {found:02x?}, not {expected:02x?}");
            count += 1;
        }
        for element in bytes_of(&bad).chunks(from.item_size()) {
            let error = array(element.to_vec()).astype(&to, Casting::Unsafe).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().starts_with("element 0: expected a "), "{error}");
        }
    }
    assert!(count > 10_000, "{count}");
}

/// Whether two numbers are equal, apart from the bits of a NaN.
fn both_nan(dtype: &DType, a: &[u8], b: &[u8]) -> bool {
    let parts = |bytes: &[u8]| -> Option<Vec<f64>> {
        let array = NdArray::new(dtype.clone(), [1], bytes).unwrap();
        Some(match (dtype.kind(), dtype.item_size()) {
            (DTypeKind::Float, 2) => vec![array.to_ndarray::<f16>().ok()?[0].to_f64()],
            (DTypeKind::Float, 4) => vec![array.to_ndarray::<f32>().ok()?[0].into()],
            (DTypeKind::Float, 8) => vec![array.to_ndarray::<f64>().ok()?[0]],
            (DTypeKind::Complex, 8) => {
                let c = array.to_ndarray::<Complex<f32>>().ok()?[0];
                vec![c.re.into(), c.im.into()]
            }
            (DTypeKind::Complex, 16) => {
                let c = array.to_ndarray::<Complex<f64>>().ok()?[0];
                vec![c.re, c.im]
            }
            _ => return None,
        })
    };
    let (Some(a), Some(b)) = (parts(a), parts(b)) else { return false };
    a.iter().zip(&b).all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()))
}

#[test]
fn memory_order_and_shape_survive_a_cast() {
    let column_major = Array2::from_shape_fn((2, 3).f(), |(i, j)| (3 * i + j) as i16);
    let array = NdArray::from_ndarray(&column_major);
    let cast = array.astype(&dtype(">f8"), Casting::Safe).unwrap();
    assert_eq!((cast.order(), cast.shape()), (Order::F, &[2, 3][..]));
    let expected = column_major.mapv(f64::from).into_dyn();
    assert_eq!(cast.to_ndarray::<f64>().unwrap(), expected);
    let none = NdArray::new(dtype("<f4"), [0, 3], vec![]).unwrap();
    assert_eq!(none.astype(&dtype("|u1"), Casting::Unsafe).unwrap().shape(), [0, 3]);
    let zero = NdArray::scalar(2.5_f64).astype(&dtype("<f2"), Casting::SameKind).unwrap();
    let found = zero.to_ndarray::<f16>().unwrap();
    assert_eq!((zero.shape(), found.first()), (&[][..], Some(&f16::from_f32(2.5))));
    let far = NdArray::new(dtype("<M8[s]"), [1], (1_i64 << 62).to_le_bytes().to_vec()).unwrap();
    assert!(far.astype(&dtype("<M8[D]"), Casting::SameKind).is_ok());
    let error = far.astype(&dtype("<M8[ns]"), Casting::Safe).unwrap_err().to_string();
    assert_eq!(error, "element 0: expected a time within <M8[ns], found 4611686018427387904");
    let umlaut = NdArray::new(dtype("<U1"), [1], vec![0xe4, 0, 0, 0]).unwrap();
    let error = umlaut.astype(&dtype("|S1"), Casting::Unsafe).unwrap_err().to_string();
    assert_eq!(error, "element 0: expected a character of ASCII, found 0xe4");
    let error = array.astype(&dtype("|S3"), Casting::Unsafe).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let error = array.astype(&dtype("|u1"), Casting::SameKind).unwrap_err();
    let native = DType::of::<i16>();
    let expected = "expected elements that can be converted to |u1 (same_kind), found";
    assert_eq!(error.to_string(), format!("{expected} {native}"));
}
