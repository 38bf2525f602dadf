//! Arrays: packed ones, `.npy` files, and the texts of types. What is read is written and read again.
#![no_main]

use kiste::format::msgpack::numpy::{decode_array, encode_array};
use kiste::format::__private::numpy::Literal;
use kiste::format::numpy::{descr, npy};
use kiste::value::{DTypeKind, NdArray};
use libfuzzer_sys::fuzz_target;

fn look_at(array: &NdArray<'_>) {
    let _ = array.as_array::<f32>();
    let _ = array.as_array::<i64>();
    let _ = array.as_array::<bool>();
    if let Ok(strings) = array.strings() {
        strings.take(1000).for_each(drop);
    }
    if let Ok(strings) = array.byte_strings() {
        strings.take(1000).for_each(drop);
    }
    for field in array.dtype().fields() {
        let _ = array.field(field.name());
    }
    assert_eq!(array.to_c_order(), *array);
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(array) = decode_array(bytes) {
        look_at(&array);
        let mut packed = Vec::new();
        encode_array(&array, &mut packed).unwrap();
        let again = decode_array(&packed).unwrap();
        assert_eq!(again.bytes(), &*array.c_bytes());
        assert_eq!(again.shape(), array.shape());
    }
    if let Ok(array) = npy::decode(bytes) {
        look_at(&array);
        assert_eq!(npy::decode(&npy::encode(&array).unwrap()).unwrap(), array);
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = Literal::parse(text);
    if let Ok(dtype) = descr::parse(text) {
        assert_eq!(descr::parse(&descr::repr(&dtype)).unwrap(), dtype);
        if dtype.kind() != DTypeKind::Object {
            assert_eq!(descr::parse(&descr::name(&dtype)).unwrap().item_size(), dtype.item_size());
        }
    }
});
