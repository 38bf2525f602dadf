//! Messages: whatever one way to look at them says, the others agree.
#![no_main]

use kiste::array::{ArrayPolicy, ArrayTally, PackOptions};
use kiste::format::msgpack::{self, Cursor, Value, numpy};
use libfuzzer_sys::fuzz_target;

fn recognise_all(value: &Value) {
    if let Some(special) = msgpack::numpy::recognise(value) {
        let _ = special.to_value();
    }
    match value {
        Value::Array(items) => items.iter().for_each(recognise_all),
        Value::Map(fields) => fields.iter().for_each(|(key, value)| {
            recognise_all(key);
            recognise_all(value);
        }),
        _ => {}
    }
}

/// Arrays that are packed come back to the byte, unless there were containers before.
fn recode(sample: &[u8]) {
    let arrays: Vec<_> = numpy::arrays_in(sample).unwrap().map(Result::unwrap).collect();
    let is_plain = arrays.iter().all(|stored| matches!(stored.form, numpy::Form::Plain(_)));
    let mut tally = ArrayTally::default();
    let packed = ArrayPolicy::packed(PackOptions::compact()).min_bytes(0);
    let Ok(recoded) = packed.recode(sample, &mut tally) else {
        assert!(!is_plain);
        return;
    };
    let back = ArrayPolicy::plain().recode(&recoded, &mut tally).unwrap();
    assert!(!is_plain || *back == *sample);
}

fuzz_target!(|bytes: &[u8]| {
    let mut cursor = Cursor::new(bytes);
    while let Ok(raw) = cursor.skip_raw() {
        assert!(!raw.is_empty());
    }
    let checked = msgpack::check(bytes);
    let decoded = msgpack::decode(bytes);
    if decoded.is_ok() {
        assert!(checked.is_ok());
    }
    if let Ok(key) = msgpack::check_sample(bytes) {
        assert_eq!(msgpack::key(bytes).unwrap(), Some(key));
        assert!(msgpack::field(bytes, "key").unwrap().is_some());
        for field in msgpack::sample::fields(bytes).unwrap() {
            field.unwrap();
        }
        recode(bytes);
    }
    let _ = msgpack::field(bytes, "v");
    if let Ok(value) = decoded {
        recognise_all(&value);
        // Encoded again it may be shorter, but then it stays as it is.
        let packed = msgpack::to_vec(&value).unwrap();
        let again = msgpack::to_vec(&msgpack::decode(&packed).unwrap()).unwrap();
        assert_eq!(packed, again);
    }
});
