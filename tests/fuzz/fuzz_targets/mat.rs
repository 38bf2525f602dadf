//! MAT files: whatever is read can be looked at in every way.
#![no_main]

use kiste::format::__private::mat::{Array, Limits, MatFile};
use libfuzzer_sys::fuzz_target;
use num_complex::Complex;

fn look_at(array: &Array) {
    let elements: usize = array.shape().iter().fold(1, |count, &len| count.saturating_mul(len));
    if let Ok(numbers) = array.numbers::<Complex<f64>>() {
        assert_eq!(numbers.len(), elements);
    }
    let _ = (array.vector::<u8>(), array.number::<bool>(), array.text(), array.strings());
    array.unwrapped().shape();
    match array {
        Array::Cells(cells) => {
            assert_eq!(cells.len(), elements);
            cells.iter().for_each(look_at);
        }
        Array::Structs(structs) => {
            assert_eq!(structs.len(), elements);
            for record in structs.iter().take(1000) {
                record.iter().for_each(|(_, value)| look_at(value));
            }
        }
        Array::Chars(chars) => assert_eq!(chars.units().len(), elements),
        Array::Sparse(sparse) => {
            let entries = sparse.entries::<Complex<f64>>().unwrap();
            assert_eq!(entries.count(), sparse.values().len());
        }
        Array::Function(inner) => look_at(inner),
        Array::Opaque(opaque) => look_at(opaque.content()),
        _ => {}
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = MatFile::with_limits(bytes, Limits { memory: 1 << 20 }) else {
        return;
    };
    for variable in file.variables() {
        if let Ok(array) = variable.read() {
            look_at(&array);
        }
    }
});
