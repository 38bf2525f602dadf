//! Arbitrary bytes as a file that is read in place: the samples that can be read are those of a conversion.
#![no_main]

mod caught;

use kiste::DatasetReader;
use kiste::convert::{BadInput, Conversion, Format, InPlace, Silent};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: caught::abort_if_uncaught(), |data: &[u8]| {
    let Some((&kind, bytes)) = data.split_first() else { return };
    let formats = [
        (Format::Webdataset, "x.tar"),
        (Format::Jsonl, "x.jsonl"),
        (Format::Tfrecord, "x.tfrecord"),
        #[cfg(feature = "tables")]
        (Format::Arrow, "x.arrow"),
    ];
    let (format, name) = formats[kind as usize % formats.len()];
    let dir = tempfile::tempdir().unwrap();
    let (file, index) = (dir.path().join(name), dir.path().join("x.inplace.json"));
    std::fs::write(&file, bytes).unwrap();
    let place = InPlace::new([&file], &index).from(format).skip_bad(true).run(&mut Silent);
    let out = dir.path().join("x.msgpack");
    let conversion = Conversion::new([&file], &out).from(format).on_bad_input(BadInput::Skip);
    let converted = conversion.run(&mut Silent);
    let (Ok(_), Ok(_)) = (place, converted) else { return };
    let (place, converted) = (DatasetReader::open(&index).unwrap(), DatasetReader::open(&out).unwrap());
    let mut found = (0..place.len()).filter_map(|at| place.get_raw(at).ok());
    for expected in converted.iter_raw(..) {
        assert_eq!(found.next().as_deref(), Some(expected.unwrap()).as_deref());
    }
    assert_eq!(found.next(), None);
});
