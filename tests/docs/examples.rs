//! The examples do what they say.
//!
//! Compiled into this binary rather than started: `cargo test --test main` does not build examples,
//! and would start the program of an earlier build.

#[path = "../../examples/train.rs"]
#[expect(dead_code, reason = "`main` is for the example itself")]
mod train;

#[cfg(feature = "images")]
#[path = "../../examples/images.rs"]
#[expect(dead_code, reason = "`main` is for the example itself")]
mod images;

#[path = "../../examples/convert.rs"]
#[expect(dead_code, reason = "`main` is for the example itself")]
mod convert;

#[test]
fn a_conversion_in_parts_has_all_samples_but_the_bad_one() {
    let dir = tempfile::tempdir().unwrap();
    let (lines, words) = (dir.path().join("words.jsonl"), dir.path().join("words.msgpack"));
    let good: String = (0..100).map(|n| format!("{{\"key\": \"{n}\"}}\n")).collect();
    std::fs::write(&lines, good + "no sample\n").unwrap();
    convert::run(lines.to_str().unwrap(), words.to_str().unwrap()).unwrap();
    let reader = kiste::DatasetReader::open(&words).unwrap();
    assert_eq!((reader.len(), &*reader.key(99).unwrap()), (100, "99"));
    let quarantine = std::fs::read_to_string(dir.path().join("words.msgpack.quarantine.jsonl"));
    assert!(quarantine.unwrap().contains("\"raw\":\"no sample\""));
}

#[test]
fn a_run_with_a_pause_ends_at_the_same_weights() {
    let accuracy = train::run(4).unwrap();
    assert!(accuracy > 0.9, "{accuracy}");
}

#[cfg(feature = "images")]
#[test]
fn a_run_on_pictures_with_a_pause_ends_at_the_same_weights() {
    let accuracy = images::run(1).unwrap();
    assert!(accuracy > 0.8, "{accuracy}");
}
