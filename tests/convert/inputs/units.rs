//! Units of any size: the same samples and errors in the same order, also of damaged files.

use std::fs;
use std::path::Path;

#[cfg(feature = "parquet")]
use kiste::convert::{ArrowIpcReader, ArrowIpcWriter};
#[cfg(feature = "formats")]
use kiste::convert::{CsvReader, TfRecordReader};
use kiste::convert::{InOrder, Input, Part, Source, WebDatasetReader};
use kiste::format::__private::tar;

use super::dir;
use crate::support::one_in;

/// All that comes of an input, in parts: samples, and errors in words.
fn all(open: impl Fn() -> Box<dyn Input>, parts: usize) -> Vec<String> {
    let mut found = Vec::new();
    for part in Part::all(parts) {
        // As on another machine, nothing is known from the part before.
        let input = open();
        let units = part.units(&*input);
        let mut source = InOrder::of_units(input, units);
        loop {
            let batch = source.next_batch().unwrap();
            if batch.is_empty() {
                break;
            }
            found.extend(batch.into_iter().map(|sample| match sample {
                Ok(packed) => format!("{packed:?}"),
                Err(error) => format!("{error} {}", error.ends_unit()),
            }));
        }
    }
    found
}

/// Compares units of any size with files that are one unit each, and with each other in parts.
fn same_of_any_size(len: u64, open: impl Fn(u64) -> Box<dyn Input>) -> Vec<String> {
    let whole = all(|| open(u64::MAX), 1);
    let mut most = 0;
    let step = (len / 60).max(1) as usize * one_in(2);
    for bytes in (1..=len + 1).step_by(step) {
        let units = open(bytes).units();
        most = most.max(units);
        assert_eq!(all(|| open(bytes), 1), whole, "{bytes}");
        if units > 1 && units < 40 {
            assert_eq!(all(|| open(bytes), 2), whole, "{bytes}");
            assert_eq!(all(|| open(bytes), 7), whole, "{bytes}");
        }
    }
    assert!(most > 1);
    whole
}

/// The same of damaged forms of a file.
fn same_when_damaged(
    path: &Path,
    step: usize,
    sizes: &[u64],
    open: impl Fn(&Path, u64) -> Box<dyn Input>,
) {
    let whole = fs::read(path).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let damaged = scratch.path().join(path.file_name().unwrap());
    for at in (0..whole.len()).step_by(step * one_in(3)) {
        for cut in [true, false] {
            let mut bytes = whole.clone();
            if cut {
                bytes.truncate(at);
            } else {
                bytes[at] ^= 1 << (at % 8);
            }
            fs::write(&damaged, bytes).unwrap();
            let expected = all(|| open(&damaged, u64::MAX), 1);
            for &bytes in sizes {
                let found = all(|| open(&damaged, bytes), 1);
                assert_eq!(found, expected, "byte {at}, cut {cut}, units of {bytes}");
            }
        }
    }
}

fn entry(kind: u8, name: &str, content: &[u8]) -> Vec<u8> {
    let mut bytes = tar::file_header(name, content.len() as u64).unwrap();
    let header = bytes.len() - tar::BLOCK;
    let block = &mut bytes[header..];
    block[156] = kind;
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len() + tar::padding(content.len() as u64), 0);
    bytes
}

/// Samples with all that may be between and within them.
fn messy_archive() -> Vec<u8> {
    let long = format!("{}/long", "d".repeat(120));
    let mut archive = [
        entry(b'0', "__meta__/x.json", b"{}"),
        entry(b'0', "no-dot", b"?"),
        entry(b'5', "dir/", b""),
        entry(b'0', "dir/a.txt", b"one"),
        entry(b'2', "dir/link.txt", b""),
        entry(b'0', "dir/a.bin", &[7; 700]),
        entry(b'5', "between/", b""),
        entry(b'g', "pax_global_header", b"16 comment=hello"),
        entry(b'0', &format!("{long}.txt"), b"two"),
        entry(b'0', &format!("{long}.cls"), b"2"),
        entry(b'3', "device.txt", b""),
        entry(b'5', "last/", b""),
        entry(b'0', "../up.txt", b"out"),
        entry(b'0', "c.txt", b"three"),
        entry(b'0', "c.txt", b"again"),
        entry(b'0', "hidden/.txt", b"none"),
        entry(b'0', "c.cls", b"not a number"),
        entry(b'L', "././@LongLink", format!("{long}-gnu.txt\0").as_bytes()),
        entry(b'0', "cut-off", b"four"),
        entry(b'0', "e.cls", b"5"),
        entry(b'0', "__end__/x.json", b"{}"),
    ]
    .concat();
    archive.resize(archive.len() + 2 * tar::BLOCK, 0);
    archive
}

#[test]
fn of_tar_archives() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("messy.tar");
    fs::write(&path, messy_archive()).unwrap();
    let open = |path: &Path, bytes| -> Box<dyn Input> {
        let shards = [path.to_str().unwrap(), path.to_str().unwrap()];
        Box::new(WebDatasetReader::open_all(shards).unwrap().unit_bytes(bytes).max_bytes(2400))
    };
    let found = same_of_any_size(messy_archive().len() as u64, |bytes| open(&path, bytes));
    // In each of them a link, a device, a name that leads out, and a sample with a file twice.
    let bad = found.iter().filter(|line| line.ends_with(" false")).count();
    assert_eq!((found.len(), bad), (2 * 8, 2 * 4), "{found:#?}");
    same_when_damaged(&path, 409, &[1, 600, 3000], open);
    same_when_damaged(&dir("webdataset-1.0.2").join("shard-000000.tar"), 191, &[700, 2100], open);
}

#[test]
#[cfg(feature = "formats")]
fn of_records() {
    let path = dir("tfrecord-1.14.6").join("some.tfrecord");
    let open = |path: &Path, bytes| -> Box<dyn Input> {
        let files = [path.to_str().unwrap(), path.to_str().unwrap()];
        Box::new(TfRecordReader::open_all(files).unwrap().unit_bytes(bytes).max_bytes(400))
    };
    let len = fs::metadata(&path).unwrap().len();
    assert_eq!(same_of_any_size(len, |bytes| open(&path, bytes)).len(), 6);
    same_when_damaged(&path, 5, &[1, 100], open);
}

/// Rows with all that quotes, line ends and marks of Unicode can be, and some that are none.
#[cfg(feature = "formats")]
const TABLE: &str = "\u{feff}a,\"b\nc\"\r\n1,\"x\r\n\"\"y\"\"\"\r\n\r\n2,\u{fc}\n\n\u{feff}3,mark\n\"\u{feff}3\",mark\n4,a,b\r\
5,\"un\"quoted\n6\n7,\"\n\n\n\"\n8,nine\n,\n\"\",\"\"\n10,eleven";

#[test]
#[cfg(feature = "formats")]
fn of_tables() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("messy.csv");
    let open = |path: &Path, bytes| -> Box<dyn Input> {
        let files = [path.to_str().unwrap(), path.to_str().unwrap()];
        let table = CsvReader::open_all(files).unwrap().column("a", kiste::convert::CsvType::Int);
        Box::new(table.unit_bytes(bytes))
    };
    for text in [TABLE.to_owned(), format!("{TABLE}\r\n"), format!("{TABLE}\n\n\n")] {
        fs::write(&path, &text).unwrap();
        let found = same_of_any_size(text.len() as u64, |bytes| open(&path, bytes));
        assert_eq!(found.len(), 2 * 12, "{found:#?}");
        assert!(found.iter().any(|line| line.contains("line 9: column \"a\"")), "{found:#?}");
    }
    same_when_damaged(&path, 3, &[1, 5, 30], open);
    let other = scratch.path().join("other.csv");
    fs::write(&other, "c,d\n1,2\n3,4\n").unwrap();
    let files = || [path.to_str().unwrap(), other.to_str().unwrap(), path.to_str().unwrap()];
    let open = |bytes| -> Box<dyn Input> {
        Box::new(CsvReader::open_all(files()).unwrap().unit_bytes(bytes))
    };
    let found = same_of_any_size(60, open);
    let refused = found.iter().filter(|line| line.contains("expected the columns of")).count();
    assert_eq!(refused, 1, "{found:#?}");
}

#[test]
#[cfg(feature = "parquet")]
fn of_batches() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("many.arrow");
    let mut writer = ArrowIpcWriter::create(&path).unwrap();
    for number in 0..5000u16 {
        let packed = [
            &b"\x82\xa3key\xa5"[..],
            format!("{number:05}").as_bytes(),
            b"\xa1n\xcd",
            &number.to_be_bytes(),
        ]
        .concat();
        writer.write_packed(&packed).unwrap();
    }
    writer.finish().unwrap();
    let open = |path: &Path, bytes| -> Box<dyn Input> {
        let files = [path.to_str().unwrap(), path.to_str().unwrap()];
        Box::new(ArrowIpcReader::open_all(files).unwrap().unit_bytes(bytes))
    };
    let len = fs::metadata(&path).unwrap().len();
    assert_eq!(same_of_any_size(len, |bytes| open(&path, bytes)).len(), 2 * 5000);
    // Those of pyarrow and datasets, some of which have dictionaries.
    let mut files = 0;
    for producer in ["pyarrow-26.0.1", "datasets-5.2.0"] {
        for entry in fs::read_dir(dir(producer)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "arrow") {
                let whole = all(|| open(&path, u64::MAX), 1);
                for bytes in [1, 500, 2000] {
                    assert_eq!(all(|| open(&path, bytes), 2), whole, "{}", path.display());
                }
                files += 1;
            }
        }
    }
    assert!(files > 1);
}

/// No matter which entry of a sample is refused, its other entries are not a sample.
#[test]
fn of_samples_with_an_entry_that_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("some.tar");
    let (long, link) = (entry(b'0', "b.jpg", &[7; 3000]), entry(b'2', "b.jpg", b""));
    let small = |name: &str| entry(b'0', name, b"1");
    let mut tried = 0;
    for bad in [long, link] {
        for at in 0..3 {
            let mut sample = vec![small("b.cls"), small("b.txt")];
            sample.insert(at, bad.clone());
            let others = [small("a.cls"), sample.concat(), small("c.cls"), small("c.txt")];
            let mut archive = others.concat();
            archive.resize(archive.len() + 2 * tar::BLOCK, 0);
            fs::write(&path, &archive).unwrap();
            let open = |bytes| -> Box<dyn Input> {
                let shards = [path.to_str().unwrap()];
                Box::new(
                    WebDatasetReader::open_all(shards).unwrap().unit_bytes(bytes).max_bytes(2000),
                )
            };
            let found = same_of_any_size(archive.len() as u64, open);
            let bad: Vec<_> = found.iter().filter(|line| line.ends_with(" false")).collect();
            assert_eq!((found.len(), bad.len()), (3, 1), "{found:#?}");
            let start = 1024 + 1024 * at;
            assert!(bad[0].contains(&format!("entry \"b.jpg\" at byte {start}")), "{found:#?}");
            tried += 1;
        }
    }
    assert_eq!(tried, 6);
}
