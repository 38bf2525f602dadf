//! Counts that files claim: each format with each of them, through each command that reads datasets, under a
//! memory limit. The answer is an error or right, and never an allocation or a loop of that size.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use kiste::Writer;
use kiste::array::ArrayOptions;
use kiste::format::chunked::segment;
use kiste::format::dataset::shards::{Manifest, ShardEntry};
use kiste::format::dataset::{SideFile, crc, filter};
use serde_json::Value as Json;
use tempfile::TempDir;

use crate::support::{one_in, packed};
use crate::untrusted::attacks::{run, sparse};

/// Counts that no file here has.
pub(crate) const HOSTILE: [u64; 6] =
    [(1 << 32) - 2, 1 << 40, 1 << 53, 1 << 62, u64::MAX - 1, u64::MAX];

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
pub(crate) fn dataset(path: &Path) {
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

/// A manifest of this many samples in `d.msgpack`.
pub(crate) fn manifest(count: u64, bytes: u64) -> String {
    format!(
        "{{\"format\":\"kiste shards\",\"version\":1,\"samples\":{count},\"bytes\":{bytes},\
         \"shards\":[{{\"name\":\"d.msgpack\",\"samples\":{count},\"bytes\":{bytes}}}]}}"
    )
}

#[test]
fn of_manifests() {
    let dir = scratch();
    let bytes = fs::metadata(dir.path().join("d.msgpack")).unwrap().len();
    for count in HOSTILE {
        fs::write(dir.path().join("d.shards.json"), manifest(count, bytes)).unwrap();
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

/// What a side file is that claims this count: its bytes, and how long it is where it has room for as many.
/// `whole` is that of three samples. `None` for one that cannot claim it.
pub(crate) fn claiming(side: SideFile, count: u64, whole: &[u8]) -> Option<(Vec<u8>, Option<u64>)> {
    let holes = count.checked_mul(8).and_then(|bytes| bytes.checked_add(8));
    let short = u32::try_from(count).map(u32::to_be_bytes);
    Some(match side {
        SideFile::Offsets => (Vec::new(), Some(holes?)),
        SideFile::KeyHashes => (whole.to_vec(), Some(holes?)),
        SideFile::Keys => ([&b"\xdd"[..], &short.ok()?, b"\xa1a\xa1b\xa1c"].concat(), None),
        SideFile::Index => ([&b"\xdf"[..], &short.ok()?, b"\xa1a\0"].concat(), None),
        SideFile::Filter => {
            let header =
                [&filter::MAGIC[..], &whole.len().to_be_bytes(), &count.to_be_bytes()].concat();
            ([&header, &whole[24..]].concat(), None)
        }
        SideFile::Lookup => {
            let mut bytes = whole.to_vec();
            for at in [16, 24, 32] {
                bytes[at..at + 8].copy_from_slice(&count.to_be_bytes());
            }
            (bytes, None)
        }
        SideFile::Crc => {
            let source = crc::Source { count, data_len: 1, md5: None, offsets: 0 };
            (crc::Header::new(source, 0).encode().to_vec(), None)
        }
        _ => return None,
    })
}

/// The side files that have counts.
pub(crate) const SIDES: [SideFile; 7] = [
    SideFile::Offsets,
    SideFile::Keys,
    SideFile::KeyHashes,
    SideFile::Filter,
    SideFile::Lookup,
    SideFile::Crc,
    SideFile::Index,
];

/// A dataset `d.msgpack` whose side file claims this count.
fn with_side(side: SideFile, count: u64) -> Option<TempDir> {
    let dir = scratch();
    let data = dir.path().join("d.msgpack");
    let path = side.path(&data);
    let (bytes, len) = claiming(side, count, &fs::read(&path).unwrap_or_default())?;
    match side {
        SideFile::Offsets => fs::write(data, b"").unwrap(),
        SideFile::Index => fs::remove_file(SideFile::Offsets.path(&data)).unwrap(),
        _ => {}
    }
    match len {
        // Larger than any file may be here.
        Some(len) if len >= 1 << 42 => return None,
        Some(len) => sparse(&path, &bytes, len),
        None => fs::write(&path, bytes).unwrap(),
    }
    Some(dir)
}

#[test]
fn of_side_files() {
    for side in SIDES {
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
        &["o.msgpack", "--split", "a=1,b=1"],
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

/// A file of NumPy.
fn npy(dtype: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let says = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}");
    let head = format!("{says:<117}\n");
    [b"\x93NUMPY\x01\x00\x76\x00", head.as_bytes(), data].concat()
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
            let file = npy("<f8", &shape, &[0; 64]);
            let mut zip = zip::ZipWriter::new(fs::File::create(dir.path().join("x.npz")).unwrap());
            zip.start_file("a.npy", zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(&file).unwrap();
            zip.finish().unwrap();
            convert(&dir, "x.npz", &format!("an array of {shape}"));
        }
    }
}

/// Every command that reads or writes an array, here `a`.
const OF_ARRAYS: [&[&str]; 18] = [
    &["info", "a"],
    &["info", "a", "--json"],
    &["log", "a"],
    &["diff", "a", "2", "3"],
    &["get", "a"],
    &["get", "a[9,6]"],
    &["get", "a[-1]"],
    &["verify", "a"],
    &["verify", "a", "--json"],
    &["attrs", "a"],
    &["export", "a", "o.npy"],
    &["export", "a", "o.blp"],
    &["put", "a[0,0]", "--value", "5"],
    &["put", "a[-1]", "--value", "5"],
    &["append", "a", "--npy", "row.npy"],
    &["resize", "a", "11,7"],
    &["checkout", "a", "1"],
    &["gc", "a"],
];

/// Those that believe first what a file says.
const READING: [&[&str]; 3] = [OF_ARRAYS[0], OF_ARRAYS[4], OF_ARRAYS[7]];

/// An array in files.
struct InFiles(TempDir);

impl InFiles {
    fn new() -> InFiles {
        let dir = tempfile::tempdir().unwrap();
        crate::array::chunked::sample_at(&dir.path().join("a"), ArrayOptions::default());
        InFiles(dir)
    }

    fn read(&self, file: &str) -> Vec<u8> {
        fs::read(self.0.path().join("a").join(file)).unwrap()
    }

    /// Runs commands on a copy with other bytes in one file: none is killed, and none panics.
    fn ask(&self, commands: &[&[&str]], (file, bytes): (&str, &[u8]), what: &str) {
        self.ask_with(commands, what, &|dir| fs::write(dir.join(file), bytes).unwrap());
    }

    fn ask_with(&self, commands: &[&[&str]], what: &str, forge: &dyn Fn(&Path)) {
        for command in commands {
            let dir = tempfile::tempdir().unwrap();
            let copy = dir.path().join("a");
            crate::array::chunked::copy(&self.0.path().join("a"), &copy);
            fs::write(dir.path().join("row.npy"), npy("<i4", "(1, 7)", &[0; 28])).unwrap();
            forge(&copy);
            let (code, error) = run(dir.path(), &[&["array"], *command].concat());
            assert!(matches!(code, Some(0..=2)), "{what}: {command:?}: {code:?} {error}");
            assert!(!error.contains("panicked"), "{what}: {command:?}: {error}");
        }
    }
}

/// Where numbers are in JSON, and where they may be.
fn numbers(json: &Json, at: &str, found: &mut Vec<String>) {
    let mut each = |name: &str, inner: &Json| numbers(inner, &format!("{at}/{name}"), found);
    match json {
        Json::Number(_) | Json::Null => found.push(at.to_owned()),
        Json::Array(items) => {
            items.iter().enumerate().for_each(|(nth, item)| each(&nth.to_string(), item));
        }
        Json::Object(members) => members.iter().for_each(|(name, inner)| each(name, inner)),
        _ => {}
    }
}

/// A version with its hash.
fn hashed(json: &Json) -> Vec<u8> {
    let line = json.to_string();
    format!("{line}\n{}\n", blake3::hash(line.as_bytes()).to_hex()).into_bytes()
}

/// The newest version of an array, and where it is.
fn newest(array: &InFiles) -> (&'static str, Json) {
    let file = "meta/versions/__3__";
    let text = String::from_utf8(array.read(file)).unwrap();
    (file, serde_json::from_str(text.lines().next().unwrap()).unwrap())
}

#[test]
fn commands_for_arrays_are_understood() {
    let array = InFiles::new();
    for command in OF_ARRAYS {
        let dir = tempfile::tempdir().unwrap();
        crate::array::chunked::copy(&array.0.path().join("a"), &dir.path().join("a"));
        fs::write(dir.path().join("row.npy"), npy("<i4", "(1, 7)", &[0; 28])).unwrap();
        let (code, error) = run(dir.path(), &[&["array"], command].concat());
        let differs = i32::from(command[0] == "diff");
        assert_eq!(code, Some(differs), "{command:?}: {error}");
    }
    let (file, json) = newest(&array);
    array.ask(&OF_ARRAYS, (file, &hashed(&json)), "sound");
}

#[test]
fn in_versions_of_arrays() {
    let array = InFiles::new();
    let (file, sound) = newest(&array);
    let mut places = Vec::new();
    numbers(&sound, "", &mut places);
    assert!(places.len() > 15, "{places:?}");
    for (number, place) in places.iter().enumerate() {
        for (nth, count) in HOSTILE.into_iter().enumerate() {
            // The first of them always, and of the others each now and then.
            if nth > 0 && (nth + number) % one_in(4) != 0 {
                continue;
            }
            let mut json = sound.clone();
            *json.pointer_mut(place).unwrap() = count.into();
            // An array may be this long, and is written then as it was asked for.
            let is_written = |command: &&&[&str]| place != "/shape/0" || command[0] != "export";
            let all: Vec<&[&str]> = OF_ARRAYS.iter().filter(is_written).copied().collect();
            let commands =
                if nth == 0 || place.starts_with("/shape") { &all } else { &READING[..] };
            array.ask(commands, (file, &hashed(&json)), &format!("{place} of {count}"));
        }
    }
}

/// They are for people and tools, and written again.
#[test]
fn in_copies_of_versions() {
    let array = InFiles::new();
    for file in ["meta/sizes", "meta/storage"] {
        let sound: Json = serde_json::from_slice(&array.read(file)).unwrap();
        let mut places = Vec::new();
        numbers(&sound, "", &mut places);
        assert!(!places.is_empty(), "{file}");
        for place in &places {
            let mut json = sound.clone();
            *json.pointer_mut(place).unwrap() = (1_u64 << 62).into();
            let commands = [&READING[..], &[OF_ARRAYS[12], OF_ARRAYS[17]]].concat();
            array.ask(&commands, (file, json.to_string().as_bytes()), &format!("{file}{place}"));
        }
    }
}

#[test]
fn in_chunk_tables() {
    let array = InFiles::new();
    let (version, json) = newest(&array);
    let segments = json["columns"][0]["segments"].as_array().unwrap();
    let (number, entries) = (&segments[0][0], segments[0][1].as_u64().unwrap());
    let file = &format!("meta/manifest/__{number}__");
    let sound = array.read(file);
    let content = sound.len() - segment::HASH;
    let forged = |at: usize, word: &[u8]| {
        let mut bytes = sound[..content].to_vec();
        bytes[at..at + word.len()].copy_from_slice(word);
        [&bytes[..], blake3::hash(&bytes).as_bytes()].concat()
    };
    for count in HOSTILE {
        let what = format!("{count} in {file}");
        array.ask(&READING, (file, &forged(16, &count.to_le_bytes())), &format!("{what}: entries"));
        for entry in (segment::HEADER..content).step_by(segment::ENTRY * one_in(2)) {
            let bytes = forged(entry, &count.to_le_bytes());
            array.ask(&READING, (file, &bytes), &format!("{what}: number at {entry}"));
        }
    }
    for at in [segment::HEADER + 8, segment::HEADER + 12] {
        for word in [u32::MAX, u32::MAX - 1, 1 << 31] {
            let what = format!("{word} at {at} in {file}");
            array.ask(&OF_ARRAYS, (file, &forged(at, &word.to_le_bytes())), &what);
        }
    }
    // As many entries as the version claims, most of them a hole.
    let claimed = HOSTILE[0];
    let mut version_json = json.clone();
    version_json["columns"][0]["segments"][0][1] = claimed.into();
    assert_ne!(claimed, entries);
    let header = forged(16, &claimed.to_le_bytes());
    let len = (segment::HEADER + segment::HASH) as u64 + claimed * segment::ENTRY as u64;
    array.ask_with(&OF_ARRAYS, "a table with a hole", &|dir| {
        fs::write(dir.join(version), hashed(&version_json)).unwrap();
        sparse(&dir.join(file), &header[..content], len);
    });
}

#[test]
fn in_superchunks() {
    let array = InFiles::new();
    let file = "data/__1__.bin";
    let sound = array.read(file);
    let commands = [OF_ARRAYS[4], OF_ARRAYS[7]];
    for at in (0..sound.len() - 4).step_by(4 * one_in(3)) {
        let mut bytes = sound.clone();
        bytes[at..at + 4].copy_from_slice(&i32::MAX.to_le_bytes());
        array.ask(&commands, (file, &bytes), &format!("{} at {at} in {file}", i32::MAX));
    }
    // The number of chunks, and of those that may be added.
    for at in [16, 24] {
        for count in HOSTILE {
            let mut bytes = sound.clone();
            bytes[at..at + 8].copy_from_slice(&count.to_le_bytes());
            array.ask(&OF_ARRAYS, (file, &bytes), &format!("{count} at {at} in {file}"));
        }
    }
}
