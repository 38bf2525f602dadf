//! Counts that files claim: each format with each of them, through each command that reads datasets, under a
//! memory limit. The answer is an error or right, and never an allocation or a loop of that size.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use kiste::Writer;
use kiste::format::dataset::shards::{Manifest, ShardEntry};
use kiste::format::dataset::{SideFile, crc, filter};
use tempfile::TempDir;

use crate::hostile::{run, sparse};
use crate::support::packed;

/// Counts that no file here has.
const HOSTILE: [u64; 6] = [(1 << 32) - 2, 1 << 40, 1 << 53, 1 << 62, u64::MAX - 1, u64::MAX];

/// Every command that reads a dataset, here `d`.
const COMMANDS: [&[&str]; 27] = [
    &["info", "d"],
    &["info", "d", "--json"],
    &["ls", "d"],
    &["cat", "d"],
    &["get", "d", "b"],
    &["get", "d", "nope"],
    &["head", "d"],
    &["tail", "d"],
    &["stat", "d"],
    &["verify", "d"],
    &["verify", "d", "--deep"],
    &["sort", "d", "o.msgpack", "--by", "v"],
    &["sort", "d", "o.msgpack"],
    &["split", "d", "--ratio", "1,1"],
    &["split", "d", "--by-class", "v"],
    &["select", "d", "o.msgpack", "--range", ".."],
    &["filter", "d", "o.msgpack", "v > 0"],
    &["sample", "d", "o.msgpack", "2"],
    &["shuffle", "d", "o.msgpack"],
    &["merge", "d", "o.msgpack"],
    &["merge", "d", "e.msgpack", "o.msgpack"],
    &["diff", "d", "e.msgpack"],
    &["bench", "d", "--json"],
    &["order", "d", "--indices"],
    &["convert", "d", "o.msgpack"],
    &["convert", "d", "o.jsonl", "--bad", "skip"],
    &["convert", "d", "o.jsonl", "--dry-run"],
];

/// Three samples, `a` to `c`.
fn dataset(path: &Path) {
    let mut writer = Writer::options().lookup(true).checksums(true).create(path).unwrap();
    for (key, v) in ["a", "b", "c"].into_iter().zip(1..) {
        writer.write_raw(key, &packed(key, v)).unwrap();
    }
    writer.finish().unwrap();
}

/// A folder with the dataset `d.msgpack` and the empty `e.msgpack`.
fn scratch() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    dataset(&dir.path().join("d.msgpack"));
    Writer::create(dir.path().join("e.msgpack")).unwrap().finish().unwrap();
    dir
}

/// Runs all commands on this dataset: none is killed, and none panics.
fn ask_all(dir: &TempDir, name: &str, what: &str) {
    ask_all_for(dir, name, what, 0..=2);
}

fn ask_all_for(dir: &TempDir, name: &str, what: &str, codes: RangeInclusive<i32>) {
    let before: Vec<PathBuf> = files(dir);
    for command in COMMANDS {
        for by_calls in [false, true] {
            if by_calls && name.ends_with(".json") {
                continue;
            }
            let mut args: Vec<&str> = if by_calls { vec!["--untrusted"] } else { vec![] };
            args.extend(command.iter().map(|arg| if *arg == "d" { name } else { arg }));
            let (code, error) = run(dir.path(), &args);
            let is_right = code.is_some_and(|code| codes.contains(&code));
            assert!(is_right, "{what}: {args:?}: {code:?} {error}");
            assert!(!error.contains("panicked"), "{what}: {args:?}: {error}");
            for file in files(dir).iter().filter(|file| !before.contains(file)) {
                match file.is_dir() {
                    true => fs::remove_dir_all(file).unwrap(),
                    false => fs::remove_file(file).unwrap(),
                }
            }
        }
    }
}

fn files(dir: &TempDir) -> Vec<PathBuf> {
    fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Otherwise the tests below would prove nothing.
#[test]
fn commands_are_understood() {
    let dir = scratch();
    ask_all_for(&dir, "d.msgpack", "sound", 0..=1);
}

#[test]
fn of_manifests() {
    let dir = scratch();
    let bytes = fs::metadata(dir.path().join("d.msgpack")).unwrap().len();
    let shard = |samples: u64| {
        format!("{{\"name\":\"d.msgpack\",\"samples\":{samples},\"bytes\":{bytes}}}")
    };
    for count in HOSTILE {
        let text = format!(
            "{{\"format\":\"kiste shards\",\"version\":1,\"samples\":{count},\"bytes\":{bytes},\
             \"shards\":[{}]}}",
            shard(count)
        );
        fs::write(dir.path().join("d.shards.json"), text).unwrap();
        let (code, error) = run(dir.path(), &["ls", "d.shards.json"]);
        assert!(matches!(code, Some(1 | 2)), "{count}: {error}");
        ask_all(&dir, "d.shards.json", &format!("{count} samples"));
    }
    // What is small enough to be believed until it is opened, and a shard that is not there.
    for (name, samples) in [("d.msgpack", 1 << 20), ("none.msgpack", 1 << 31)] {
        let entries = vec![ShardEntry::new(name, samples, bytes)];
        let text = Manifest::new(entries).unwrap().render();
        fs::write(dir.path().join("d.shards.json"), text).unwrap();
        let (code, error) = run(dir.path(), &["stat", "d.shards.json"]);
        assert!(matches!(code, Some(1 | 2)), "{name} {samples}: {error}");
    }
}

/// A side file of `d.msgpack` with one of these counts, and as many bytes as it has room for.
fn with_side(side: SideFile, count: u64) -> Option<TempDir> {
    let dir = scratch();
    let path = side.path(&dir.path().join("d.msgpack"));
    let whole = fs::read(&path).unwrap_or_default();
    let holes = |before: u64, each: u64| count.checked_mul(each)?.checked_add(before);
    let sized = |bytes: &[u8], len: Option<u64>| {
        // Larger than any file may be here.
        let len = len.filter(|len| *len < 1 << 42)?;
        sparse(&path, bytes, len);
        Some(())
    };
    match side {
        SideFile::Offsets => {
            fs::write(dir.path().join("d.msgpack"), b"").unwrap();
            sized(b"", holes(8, 8))?;
        }
        SideFile::KeyHashes => sized(&whole, holes(8, 8))?,
        SideFile::Keys => {
            let count = u32::try_from(count).ok()?;
            fs::write(&path, [&b"\xdd"[..], &count.to_be_bytes(), b"\xa1a\xa1b\xa1c"].concat())
                .unwrap();
        }
        SideFile::Index => {
            let count = u32::try_from(count).ok()?;
            fs::remove_file(SideFile::Offsets.path(&dir.path().join("d.msgpack"))).unwrap();
            fs::write(&path, [&b"\xdf"[..], &count.to_be_bytes(), b"\xa1a\0"].concat()).unwrap();
        }
        SideFile::Filter => {
            let header =
                [&filter::MAGIC[..], &whole.len().to_be_bytes(), &count.to_be_bytes()].concat();
            fs::write(&path, [&header, &whole[24..]].concat()).unwrap();
        }
        SideFile::Lookup => {
            let words = [16, 24, 32].map(|at| (at, count));
            let mut bytes = whole;
            words
                .iter()
                .for_each(|(at, word)| bytes[*at..at + 8].copy_from_slice(&word.to_be_bytes()));
            fs::write(&path, bytes).unwrap();
        }
        SideFile::Crc => {
            let source = crc::Source { count, data_len: 1, md5: None, offsets: 0 };
            fs::write(&path, crc::Header::new(source, 0).encode()).unwrap();
        }
        _ => return None,
    }
    Some(dir)
}

#[test]
fn of_side_files() {
    let sides = [
        SideFile::Offsets,
        SideFile::Keys,
        SideFile::KeyHashes,
        SideFile::Filter,
        SideFile::Lookup,
        SideFile::Crc,
        SideFile::Index,
    ];
    for side in sides {
        // All commands with one of the counts, and with the others those that believe them first.
        for (at, count) in HOSTILE.into_iter().enumerate() {
            let Some(dir) = with_side(side, count) else { continue };
            let what = format!("{} of {count}", side.suffix());
            match at {
                0 => ask_all(&dir, "d.msgpack", &what),
                _ => {
                    for command in ["verify", "stat", "ls"] {
                        let (code, error) = run(dir.path(), &[command, "d.msgpack"]);
                        assert!(matches!(code, Some(0..=2)), "{what}: {command}: {code:?} {error}");
                        assert!(!error.contains("panicked"), "{what}: {command}: {error}");
                    }
                }
            }
        }
    }
}

#[test]
fn in_samples() {
    // A list, a map, text and bytes of 2^32 - 1 in the middle sample, which is not that long.
    for head in [0xdd, 0xdf, 0xdb, 0xc6] {
        let dir = scratch();
        let mut writer =
            Writer::options().overwrite(true).create(dir.path().join("d.msgpack")).unwrap();
        for key in ["a", "b", "c"] {
            let mut sample = packed(key, 1);
            if key == "b" {
                sample.pop();
                sample.extend([head, 0xff, 0xff, 0xff, 0xff, 1]);
            }
            writer.write_raw_unchecked(key, &sample).unwrap();
        }
        writer.finish().unwrap();
        ask_all(&dir, "d.msgpack", &format!("{head:02x} in a sample"));
    }
}

#[test]
fn of_mds() {
    for count in HOSTILE {
        for bytes in [12, count] {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir(dir.path().join("x")).unwrap();
            let index = format!(
                "{{\"version\": 2, \"shards\": [{{\"column_encodings\": [\"int\"], \"column_names\": \
                 [\"a\"], \"column_sizes\": [8], \"compression\": null, \"format\": \"mds\", \"hashes\": \
                 [], \"raw_data\": {{\"basename\": \"s.mds\", \"bytes\": {bytes}, \"hashes\": {{}}}}, \
                 \"samples\": {count}, \"size_limit\": 67108864, \"version\": 2, \"zip_data\": null}}]}}"
            );
            fs::write(dir.path().join("x/index.json"), index).unwrap();
            fs::write(
                dir.path().join("x/s.mds"),
                b"\x01\0\0\0\x0c\0\0\0\x14\0\0\0\x07\0\0\0\0\0\0\0",
            )
            .unwrap();
            convert(&dir, "x", &format!("mds of {count} in {bytes}"));
        }
    }
}

/// Converts in all ways that use how many samples are announced.
fn convert(dir: &TempDir, source: &str, what: &str) {
    for options in [
        &["o.msgpack"][..],
        &["o.msgpack", "--bad", "skip"],
        &["o.msgpack", "--dry-run"],
        &["o.msgpack", "--shuffle"],
        &["o.shards.json", "--shards", "2"],
        &["o.jsonl", "--limit", "5"],
    ] {
        let args = [&["convert", source], options].concat();
        let (code, error) = run(dir.path(), &args);
        assert!(matches!(code, Some(0..=2)), "{what}: {args:?}: {code:?} {error}");
        assert!(!error.contains("panicked"), "{what}: {args:?}: {error}");
        for file in files(dir).iter().filter(|file| !file.ends_with(source)) {
            match file.is_dir() {
                true => fs::remove_dir_all(file).unwrap(),
                false => fs::remove_file(file).unwrap(),
            }
        }
    }
}

/// Replaces every place that says one row by another count.
#[cfg(feature = "parquet")]
#[test]
fn of_tables() {
    use kiste::convert::{ArrowIpcWriter, ParquetWriter};

    let dir = tempfile::tempdir().unwrap();
    let (parquet, arrow) = (dir.path().join("x.parquet"), dir.path().join("x.arrow"));
    let mut writer = ParquetWriter::create(&parquet).unwrap();
    writer.write_packed(&packed("a", 7)).unwrap();
    writer.finish().unwrap();
    let mut writer = ArrowIpcWriter::create(&arrow).unwrap();
    writer.write_packed(&packed("a", 7)).unwrap();
    writer.finish().unwrap();
    let (parquet, arrow) = (fs::read(parquet).unwrap(), fs::read(arrow).unwrap());
    fs::remove_file(dir.path().join("x.arrow")).unwrap();

    // The footer in the compact protocol of Thrift: an integer of 64 bits, and 1 in zigzag.
    let len = u32::from_le_bytes(parquet[parquet.len() - 8..][..4].try_into().unwrap()) as usize;
    let start = parquet.len() - 8 - len;
    let footer = &parquet[start..parquet.len() - 8];
    let places: Vec<usize> =
        (0..len - 1).filter(|&at| footer[at] & 0xf == 6 && footer[at + 1] == 2).collect();
    assert!(places.len() >= 2, "rows of the file and of the row group");
    for count in HOSTILE {
        let mut number = count << 1;
        let mut digits = Vec::new();
        while number >= 0x80 {
            digits.push(number as u8 | 0x80);
            number >>= 7;
        }
        digits.push(number as u8);
        for at in &places {
            let forged = [&footer[..=*at], &digits, &footer[at + 2..]].concat();
            let len = (forged.len() as u32).to_le_bytes();
            let file = [&parquet[..start], &forged, &len, b"PAR1"].concat();
            fs::write(dir.path().join("x.parquet"), file).unwrap();
            convert(&dir, "x.parquet", &format!("{count} rows at {at}"));
        }
    }
    fs::remove_file(dir.path().join("x.parquet")).unwrap();
    let one = 1u64.to_le_bytes();
    let places: Vec<usize> = (0..arrow.len() - 8).filter(|&at| arrow[at..at + 8] == one).collect();
    for count in HOSTILE {
        for at in &places {
            let mut file = arrow.clone();
            file[*at..at + 8].copy_from_slice(&count.to_le_bytes());
            fs::write(dir.path().join("x.arrow"), file).unwrap();
            convert(&dir, "x.arrow", &format!("{count} at {at}"));
        }
    }
}

#[test]
fn of_arrays_in_npz() {
    use std::io::Write;

    for count in HOSTILE {
        for shape in [
            format!("({count},)"),
            format!("({count}, 0)"),
            format!("(0, {count})"),
            format!("({count}, {count})"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let says = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
            let head = format!("{says:<117}\n");
            let file = [b"\x93NUMPY\x01\x00\x76\x00", head.as_bytes(), &[0; 64]].concat();
            let mut zip = zip::ZipWriter::new(fs::File::create(dir.path().join("x.npz")).unwrap());
            zip.start_file("a.npy", zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(&file).unwrap();
            zip.finish().unwrap();
            convert(&dir, "x.npz", &format!("an array of {shape}"));
        }
    }
}
