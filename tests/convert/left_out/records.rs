//! Records and arrays: TFRecord, MDS, npz, CIFAR.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use kiste::convert::{BadInput, Conversion, Format, LeftOut};
use kiste::format::__private::tfrecord::{self, example};
use kiste::format::msgpack::numpy::{Special, recognise};
use kiste::{DatasetReader, Value};
use tempfile::TempDir;

use super::texts::no_image;
use super::{Input, file, run};

pub(super) fn input(format: Format, kind: LeftOut, dir: &Path) -> Option<Input> {
    match format {
        Format::Tfrecord => tfrecord_input(kind, dir),
        Format::Mds => mds_input(kind, dir),
        Format::Npz => npz_input(kind, dir),
        Format::Cifar10 | Format::Cifar100 => cifar_input(format, kind, dir),
        Format::Mnist if kind == LeftOut::AfterEnd => {
            let idx = [0, 0, 8, 1, 0, 0, 0, 2, 5, 7, 9];
            Some(Input::refused("expected the elements", [file(dir, "a.idx", &idx)]))
        }
        _ => None,
    }
}

/// A field of a protobuf message: its number and bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 128);
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

fn record(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    tfrecord::encode(data, &mut out);
    out
}

fn example() -> Vec<u8> {
    example::encode(&[("id", example::Feature::Ints(vec![9]))])
}

fn tfrecord_input(kind: LeftOut, dir: &Path) -> Option<Input> {
    let records = |data: &[u8]| [file(dir, "a.tfrecord", &record(data))];
    Some(match kind {
        LeftOut::UnknownField => Input::new(records(&[example(), field(9, b"?")].concat())),
        LeftOut::ReplacedValue => Input::new(records(&[example(), example()].concat())),
        LeftOut::OtherRecord => {
            Input::refused("expected a tf.train.Example or SequenceExample", records(b"some text"))
        }
        LeftOut::AfterEnd => {
            let bytes = [record(&example()), b"rest".to_vec()].concat();
            Input::refused("expected a whole record", [file(dir, "a.tfrecord", &bytes)])
        }
        _ => return None,
    })
}

/// The samples of a conversion of one file.
fn converted(name: &str, bytes: &[u8]) -> kiste::Result<Vec<Value>> {
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("out.msgpack");
    let report = run(&Conversion::new([file(dir.path(), name, bytes)], &out))?;
    assert_eq!(report.remarks, []);
    Ok(samples(&out))
}

fn samples(path: &Path) -> Vec<Value> {
    let reader = DatasetReader::open(path).unwrap();
    (0..reader.len()).map(|at| reader.get(at).unwrap()).collect()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// The lists were gone without a word.
#[test]
fn feature_lists_are_lists() {
    let bytes = |value: &[u8]| field(1, &field(1, &field(1, value)));
    let int = |number: u8| field(1, &field(3, &field(1, &[number])));
    let ints = |numbers: &[u8]| field(1, &field(3, &field(1, numbers)));
    let list = |name: &[u8], steps: &[Vec<u8>]| {
        field(1, &[field(1, name), field(2, &steps.concat())].concat())
    };
    let sequence = |lists: &[Vec<u8>]| record(&[example(), field(2, &lists.concat())].concat());
    let frames = list(b"frames", &[bytes(b"one"), bytes(b"two")]);
    let numbers = list(b"n", &[int(7), int(8)]);
    let uneven = list(b"u", &[ints(&[1, 2]), int(3)]);
    let found = converted("a.tfrecord", &sequence(&[frames, numbers, uneven, list(b"none", &[])]));
    let sample = found.unwrap().remove(0);
    assert_eq!(sample["id"], 9.into());
    assert_eq!(sample["frames"], Value::Array(vec![b"one"[..].into(), b"two"[..].into()]));
    assert_eq!(sample["none"], Value::Array(vec![]));
    let array = |value: &Value| match recognise(value) {
        Some(Special::Array(array)) => {
            array.to_ndarray::<i64>().unwrap().into_raw_vec_and_offset().0
        }
        _ => panic!("{value}"),
    };
    assert_eq!(array(&sample["n"]), [7, 8]);
    let Value::Array(steps) = &sample["u"] else { panic!("{sample}") };
    assert_eq!((array(&steps[0]), array(&steps[1])), (vec![1, 2], vec![3]));

    let error = converted("a.tfrecord", &sequence(&[list(b"id", &[int(1)])])).unwrap_err();
    assert!(error.to_string().contains("found \"id\" twice"), "{error}");
}

/// It was said to be damaged.
#[test]
fn records_compressed_by_zlib() {
    let whole = [record(&example()), record(&example())].concat();
    let packed = zlib(&whole);
    for name in ["z.tfrecord", "z.tfrecord.zz"] {
        assert_eq!(converted(name, &packed).unwrap().len(), 2, "{name}");
    }
    for end in [2, 11, 20, packed.len() - 1] {
        let error = converted("z.tfrecord", &packed[..end]).unwrap_err();
        assert_eq!(error.kind(), kiste::ErrorKind::Damaged, "{end}: {error}");
    }
}

/// A protobuf message of others, and text, which no `Example` is.
#[test]
fn records_that_are_no_example() {
    for data in [&b"some text"[..], &field(7, b"own"), &[0x08, 1]] {
        let error = converted("a.tfrecord", &record(data)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("record 0 at byte 0: expected a tf.train.Example"), "{text}");
        assert_eq!(error.kind(), kiste::ErrorKind::Unsupported);
    }
    assert_eq!(converted("a.tfrecord", &record(b"")).unwrap().len(), 1, "without features");
}

/// A folder of one shard, with one column of one value.
fn mds(dir: &Path, name: &str, encoding: &str, value: &[u8]) -> PathBuf {
    let mut columns = serde_json::json!({
        "column_encodings": [encoding], "column_names": [name], "column_sizes": [null],
        "compression": null, "format": "mds", "hashes": [], "size_limit": null, "version": 2,
    });
    let head = columns.to_string();
    let start = (12 + head.len()) as u32;
    let end = start + 4 + value.len() as u32;
    let numbers = [1, start, end].map(u32::to_le_bytes).concat();
    let len = (value.len() as u32).to_le_bytes();
    let shard = [&numbers[..], head.as_bytes(), &len, value].concat();
    columns["raw_data"] =
        serde_json::json!({"basename": "shard.00000.mds", "bytes": shard.len(), "hashes": {}});
    columns["samples"] = 1.into();
    columns["zip_data"] = serde_json::Value::Null;
    file(dir, "mds/shard.00000.mds", &shard);
    let index = serde_json::json!({"version": 2, "shards": [columns]});
    file(dir, "mds/index.json", index.to_string().as_bytes());
    dir.join("mds")
}

fn pil((width, height): (u32, u32), mode: &str, pixels: &[u8]) -> Vec<u8> {
    let head = [width, height, mode.len() as u32].map(u32::to_le_bytes).concat();
    [&head[..], mode.as_bytes(), pixels].concat()
}

fn mds_input(kind: LeftOut, dir: &Path) -> Option<Input> {
    let folder = |encoding: &str, value: &[u8]| [mds(dir, "x", encoding, value)];
    Some(match kind {
        LeftOut::RawImage => Input::new(folder("pil", &pil((1, 1), "CMYK", &[1, 2, 3, 4]))),
        LeftOut::Decimal => Input::new(folder("str_decimal", b"1.50")),
        LeftOut::Pickle => Input::refused("holds pickles", folder("pkl", b"N.")),
        LeftOut::OtherType => Input::refused("expected an encoding of MDS", folder("own", b"")),
        LeftOut::UnlistedFile => {
            let folder = folder("str", b"text");
            file(dir, "mds/shard.00001.mds", b"");
            Input::new(folder)
        }
        LeftOut::AfterEnd => {
            let [folder] = folder("str", b"text");
            let shard = folder.join("shard.00000.mds");
            fs::write(&shard, [fs::read(&shard).unwrap(), b"rest".to_vec()].concat()).unwrap();
            Input::refused("bytes, found", [folder])
        }
        kind => Input::new(folder("png", no_image(kind)?)),
    })
}

/// They were raw pixels, which nothing decodes.
#[test]
fn pictures_of_pil_become_png() {
    let pixels = [255, 0, 0, 0, 255, 0];
    let convert = |encoding: &str, value: &[u8]| {
        let dir = TempDir::new().unwrap();
        let out = dir.path().join("out.msgpack");
        let report = run(&Conversion::new([mds(dir.path(), "x", encoding, value)], &out));
        (report.unwrap().remarks, samples(&out).remove(0)["x"].clone())
    };
    let picture = pil((2, 1), "RGB", &pixels);
    let (remarks, png) = convert("pil", &picture);
    let found = image::load_from_memory(png.as_slice().unwrap()).unwrap();
    assert_eq!((remarks, found.to_rgb8().into_raw()), (vec![], pixels.to_vec()));

    let len = (picture.len() as u32).to_le_bytes();
    let list = [&[0; 4][..], &1u32.to_le_bytes(), &len, &picture].concat();
    let (remarks, list) = convert("list[pil]", &list);
    assert_eq!((remarks, &list[0]), (vec![], &png));

    // Another mode, no picture, and one that lacks a byte.
    let other = pil((1, 1), "CMYK", &[1; 4]);
    for bytes in [&other[..], b"pil", &picture[..picture.len() - 1]] {
        let (remarks, kept) = convert("pil", bytes);
        assert_eq!((remarks[0].kind, remarks[0].count), (LeftOut::RawImage, 1));
        assert_eq!(kept.as_slice(), Some(bytes));
    }
}

/// That the folder was of MDS was not seen, and the hint went in a circle.
#[test]
fn an_encoding_of_others_is_named() {
    let dir = TempDir::new().unwrap();
    let error = Format::of_input(mds(dir.path(), "x", "own", b"")).unwrap_err().to_string();
    assert!(error.contains("expected an encoding of MDS, found \"own\""), "{error}");
}

/// A file of NumPy: these numbers, or Python objects.
fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let head = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let len = (head.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &len[..], head.as_bytes(), data].concat()
}

fn npz(dir: &Path, files: &[(&str, Vec<u8>)]) -> PathBuf {
    let path = dir.join("a.npz");
    let mut archive = zip::ZipWriter::new(File::create(&path).unwrap());
    for (name, bytes) in files {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap();
    path
}

fn npz_input(kind: LeftOut, dir: &Path) -> Option<Input> {
    let numbers = ("x.npy", npy("|u1", "(2,)", &[1, 2]));
    let objects = ("meta.npy", npy("|O", "(3,)", b"\x80\x02N."));
    Some(match kind {
        LeftOut::Pickle => {
            Input::refused("found Python objects as a pickle", [npz(dir, &[numbers, objects])])
        }
        LeftOut::AfterEnd => {
            let more = ("x.npy", npy("|u1", "(2,)", &[1, 2, 3]));
            Input::refused("expected the elements", [npz(dir, &[more])])
        }
        LeftOut::OtherMember => {
            Input::new([npz(dir, &[numbers, ("notes.txt", b"about it".to_vec())])])
        }
        _ => return None,
    })
}

/// It had to be decoded to be dropped, and the error gave no hint.
#[test]
fn an_array_of_objects_can_be_dropped() {
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("out.msgpack");
    let objects = ("meta.npy", npy("|O", "(3,)", b"\x80\x02N."));
    let path = npz(dir.path(), &[("x.npy", npy("|u1", "(2,)", &[1, 2])), objects]);
    let conversion = || Conversion::new([&path], &out).overwrite(true);
    let error = run(&conversion()).unwrap_err();
    let hint = kiste::Remedy::DropField("meta".to_owned());
    assert_eq!((error.kind(), error.remedy()), (kiste::ErrorKind::Unsupported, Some(&hint)));
    for dropped in [conversion().drop_fields(["meta"]), conversion().fields(["x"])] {
        assert_eq!(run(&dropped).unwrap().outputs[0].samples, 2);
        assert_eq!(samples(&out)[1].as_map().unwrap().len(), 2, "the key and x");
    }
    let error = run(&conversion().drop_fields(["mata", "meta"])).unwrap_err();
    assert!(error.to_string().contains("no sample has a field \"mata\""), "{error}");
    // The key needs it.
    let keyed = conversion().drop_fields(["meta"]).key_field("meta");
    assert!(run(&keyed).is_err());
}

fn gunzipped(name: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cifar-numpy-2.4.6");
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(File::open(dir.join(name)).unwrap())
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

fn cifar_input(format: Format, kind: LeftOut, dir: &Path) -> Option<Input> {
    let name = if format == Format::Cifar10 { "ten_protocol2.gz" } else { "hundred.gz" };
    let mut pickle = gunzipped(name);
    match kind {
        LeftOut::AfterEnd => pickle.extend(b"rest"),
        LeftOut::PickleEntry => {
            // One more entry of the dict, before the stop.
            assert_eq!(pickle.pop(), Some(b'.'));
            pickle.extend(b"X\x03\0\0\0ownNs.");
        }
        LeftOut::LabelNames => {
            let entry = |name: &str| {
                let text =
                    |t: &str| [b"X", &(t.len() as u32).to_le_bytes()[..], t.as_bytes()].concat();
                [text(name), b"]".to_vec(), text("a name"), b"as".to_vec()].concat()
            };
            let entries = [entry("fine_label_names"), entry("coarse_label_names")].concat();
            file(dir, "meta", &[b"\x80\x02}", &entries[..], b"."].concat());
        }
        _ => return None,
    }
    Some(Input::new([file(dir, "train", &pickle)]))
}

/// What is refused is named, and left out with the other bad samples.
#[test]
fn records_of_others_among_examples() {
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("out.msgpack");
    let records = [record(&example()), record(b"text"), record(&example())].concat();
    let path = file(dir.path(), "a.tfrecord", &records);
    let report = run(&Conversion::new([path], &out).on_bad_input(BadInput::Skip)).unwrap();
    assert_eq!((report.bad.count, report.bad.unsupported, samples(&out).len()), (1, 1, 2));
    fs::remove_file(out).unwrap();
}
