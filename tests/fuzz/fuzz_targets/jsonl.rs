//! JSON lines: what is written is read again.
#![no_main]

use kiste::Value;
use kiste::format::{jsonl, msgpack};
use libfuzzer_sys::fuzz_target;

/// What is written is read again; and from then on nothing changes. (The first time a float32
/// becomes a float64, and an encoding that is longer than it need be the shortest.)
fn there_and_back(value: &Value) {
    let mut line = Vec::new();
    if jsonl::write(value, &mut line).is_err() {
        return;
    }
    let first = jsonl::parse(&line).unwrap();
    let mut line = Vec::new();
    jsonl::write(&first, &mut line).unwrap();
    let second = jsonl::parse(&line).unwrap();
    assert_eq!(msgpack::to_vec(&first).unwrap(), msgpack::to_vec(&second).unwrap());
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(value) = jsonl::parse(bytes) {
        there_and_back(&value);
    }
    if let Ok(value) = msgpack::decode(bytes) {
        there_and_back(&value);
        jsonl::write_short(&value, 100, &mut Vec::new());
    }
});
