//! Attacks: files that are made to fill the memory, to be written elsewhere, to run, or to lie about
//! themselves. Each row of a table is one, made by code here.
//!
//! All go through the command, whose address space is limited: what takes an untrusted length at its
//! word is killed and does not pass. Each is read twice, so that it stops at the first flaw and so
//! that it goes on to the next sample; nothing may appear but what was asked for.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kiste::convert::{Input, WebDatasetReader};
use kiste::format::__private::tar::{file_header, padding};
use tempfile::TempDir;

/// The address space of a run in KiB: what a debug build with its threads takes, and a bit more.
const ADDRESS_SPACE: u64 = 2 << 20;

/// The seconds of a processor of a run.
const PROCESSOR_TIME: u64 = 120;

/// What rows of bombs are given as `--max-bytes`.
const LIMIT: &str = "1M";

/// An attack.
struct Attack {
    /// What its file is called. A folder is made by the row itself.
    file: &'static str,
    /// What it is, and whatever else is asked of the command.
    options: &'static [&'static str],
    /// A part of what is said about it.
    says: &'static str,
    make: Box<dyn Fn(&Path)>,
}

fn attack(
    file: &'static str,
    options: &'static [&'static str],
    says: &'static str,
    make: impl Fn(&Path) + 'static,
) -> Attack {
    Attack { file, options, says, make: Box::new(make) }
}

/// An attack whose file is these bytes.
fn bytes(
    file: &'static str,
    options: &'static [&'static str],
    says: &'static str,
    bytes: impl Into<Vec<u8>>,
) -> Attack {
    let bytes = bytes.into();
    attack(file, options, says, move |path| fs::write(path, &bytes).unwrap())
}

/// Runs the command within its address space; its exit code and what it said. A signal is no code.
pub(crate) fn run(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new("sh");
    // What does not end is killed when it has had more time of a processor than any of these takes.
    let limited = format!("ulimit -v {ADDRESS_SPACE} && ulimit -t {PROCESSOR_TIME} && exec \"$@\"");
    command.args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_kiste")]).args(args);
    // Each arena of the allocator reserves much that it never uses.
    command.current_dir(dir).env("MALLOC_ARENA_MAX", "2").env("RAYON_NUM_THREADS", "2");
    let output = command.stdin(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// All files and folders below this one.
fn tree(dir: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.append(&mut tree(&path));
        }
        found.insert(path);
    }
    found
}

/// A folder with folders `in` and `out`, in which the command runs.
fn scratch() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("in")).unwrap();
    fs::create_dir(dir.path().join("out")).unwrap();
    dir
}

/// Refused when it should stop at a flaw; and when it should go on nothing is there afterwards but
/// the output.
fn withstand(table: Vec<Attack>) {
    for Attack { file, options, says, make } in table {
        let dir = scratch();
        let source = format!("in/{file}");
        make(&dir.path().join(&source));
        let before = tree(dir.path());
        let args = [&["convert", &source, "out/x.msgpack"], options].concat();
        let (code, error) = run(dir.path(), &args);
        assert!(matches!(code, Some(1 | 2)), "{file} {options:?}: {code:?} {error}");
        assert!(error.contains(says), "{file} {options:?}: {says:?} in {error}");
        assert!(!error.contains("panicked"), "{file} {options:?}: {error}");
        assert_eq!(tree(dir.path()), before, "{file} {options:?}: stopped");
        let (code, error) = run(dir.path(), &[&args[..], &["--bad", "skip"]].concat());
        assert!(matches!(code, Some(0..=2)), "{file} {options:?}: {code:?} {error}");
        assert!(!error.contains("panicked"), "{file} {options:?}: {error}");
        let out = dir.path().join("out/x.msgpack");
        let out = out.to_str().unwrap();
        for path in tree(dir.path()).difference(&before) {
            assert!(path.to_str().unwrap().starts_with(out), "{file} {options:?}: {path:?}");
        }
    }
}

/// A file that has a hole after these bytes, up to a length.
pub(crate) fn sparse(path: &Path, bytes: &[u8], len: u64) {
    let mut file = File::create(path).unwrap();
    file.write_all(bytes).unwrap();
    file.set_len(len).unwrap();
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// So many MiB of zeros.
fn gzip_bomb(mebibytes: usize) -> Vec<u8> {
    gzip(&vec![0; 1 << 20]).repeat(mebibytes)
}

/// These bytes and so many times 128 KiB of zeros, each of which takes four bytes.
fn zstd_bomb(head: &[u8], blocks: u32) -> Vec<u8> {
    let block = |last: u32, kind: u32, len: u32| {
        ((len << 3) | (kind << 1) | last).to_le_bytes()[..3].to_vec()
    };
    let mut bytes = b"\x28\xb5\x2f\xfd\x00\x38".to_vec();
    bytes.extend(block(0, 0, head.len() as u32));
    bytes.extend(head);
    for at in 1..=blocks {
        bytes.extend(block(u32::from(at == blocks), 1, 1 << 17));
        bytes.push(0);
    }
    bytes
}

/// The header of a tar entry, changed and with the sum that it must have.
fn tar_header(name: &[u8], code: u8, size: &[u8]) -> Vec<u8> {
    let mut block = file_header("x", 0).unwrap();
    block[..100].fill(0);
    block[..name.len()].copy_from_slice(name);
    block[124..136].fill(0);
    block[124..124 + size.len()].copy_from_slice(size);
    block[156] = code;
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

fn tar_entry(name: &[u8], code: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = tar_header(name, code, format!("{:011o}", content.len()).as_bytes());
    bytes.extend(content);
    bytes.resize(bytes.len() + padding(content.len() as u64), 0);
    bytes
}

/// An archive of these entries.
fn tar(entries: &[Vec<u8>]) -> Vec<u8> {
    [&entries.concat()[..], &[0; 1024]].concat()
}

/// An entry of another name than a header can hold.
fn pax(record: &[u8], entry: Vec<u8>) -> Vec<u8> {
    let mut len = record.len() + 2;
    while format!("{len}").len() + 1 + record.len() + 1 != len {
        len += 1;
    }
    let record = [format!("{len} ").as_bytes(), record, b"\n"].concat();
    [tar_entry(b"pax", b'x', &record), entry].concat()
}

#[test]
fn tar_archives() {
    let one = |name: &[u8], code| tar(&[tar_entry(name, code, b"text")]);
    let long = vec![b'x'; 2 << 20];
    let elsewhere = "expected a relative name without \"..\"";
    let huge = [&[0x80, 0, 0, 0][..], &u64::MAX.to_be_bytes()].concat();
    let many: Vec<_> =
        (0..3000).map(|at| tar_entry(format!("a.{at}").as_bytes(), b'0', b"")).collect();
    withstand(vec![
        bytes("x.tar", &[], elsewhere, one(b"../a.txt", b'0')),
        bytes("x.tar", &[], elsewhere, one(b"a/../../b.txt", b'0')),
        bytes("x.tar", &[], elsewhere, one(b"/tmp/a.txt", b'0')),
        bytes("x.tar", &[], elsewhere, tar(&[pax(b"path=/a.txt", tar_entry(b"a.txt", b'0', b""))])),
        bytes(
            "x.tar",
            &[],
            "contains a zero",
            tar(&[pax(b"path=a\0.txt", tar_entry(b"a.txt", b'0', b""))]),
        ),
        bytes("x.tar", &[], "not UTF-8", one(b"\xff.txt", b'0')),
        bytes("x.tar", &[], "found a link", one(b"a.txt", b'1')),
        bytes("x.tar", &[], "found a link", one(b"a.txt", b'2')),
        bytes("x.tar", &[], "found a device", one(b"a.txt", b'3')),
        bytes("x.tar", &[], "found a sparse file", one(b"a.txt", b'S')),
        bytes("x.tar", &[], "at most 1048576 bytes", tar(&[tar_entry(b"long", b'L', &long)])),
        bytes("x.tar", &[], "the end of file", tar(&[tar_header(b"a.bin", b'0', &huge)])),
        bytes(
            "x.tar",
            &[],
            "the end of file",
            tar(&[pax(b"size=9999999999999", tar_entry(b"a.bin", b'0', b""))]),
        ),
        // What is within the limit is not there.
        bytes("x.tar", &[], "the end of file", tar_header(b"a.bin", b'0', b"07777777777")),
        bytes("x.tar", &[], "the end of file", tar_header(b"a", b'5', b"77777777777")),
        bytes("x.tar", &["--max-bytes", LIMIT], "a sample of at most 1048576 bytes", tar(&many)),
        bytes("x.tar.gz", &["--max-bytes", LIMIT], "expected at most 1048576 bytes", {
            let header = tar_header(b"a.bin", b'0', b"00400000000");
            [gzip(&header), gzip_bomb(64)].concat()
        }),
        bytes("x.tar.zst", &["--max-bytes", LIMIT], "expected at most 1048576 bytes", {
            zstd_bomb(&tar_header(b"a.bin", b'0', b"00400000000"), 512)
        }),
    ]);
}

#[test]
fn records_and_lines() {
    // The sums of a header are right, whatever it says.
    let record = |len: u64| {
        let crc = crc32c::crc32c(&len.to_le_bytes());
        let crc = crc.rotate_right(15).wrapping_add(0xa282_ead8);
        [&len.to_le_bytes()[..], &crc.to_le_bytes()].concat()
    };
    let list = &["--from", "list", "--max-bytes", LIMIT];
    let rows = "expected rows of at most 1048576 bytes";
    let lines = "line 1: expected at most 1048576 bytes";
    let limited = &["--max-bytes", LIMIT];
    withstand(vec![
        bytes("x.tfrecord", &[], "bytes, found 18446744073709551615", record(u64::MAX)),
        bytes("x.tfrecord", &[], "the end of file", record((1 << 30) - 1)),
        bytes("x.tfrecord.gz", limited, "expected at most", {
            [gzip(&record(1 << 26)), gzip_bomb(64)].concat()
        }),
        bytes(
            "x.tfrecord.zst",
            &["--from", "tfrecord", "--max-bytes", LIMIT],
            "at most 1048576",
            zstd_bomb(&record(1 << 26), 512),
        ),
        attack("x.jsonl", limited, lines, |path| sparse(path, b"[", 10 << 30)),
        bytes("x.jsonl.gz", limited, lines, gzip_bomb(64)),
        bytes("x.jsonl.zst", limited, lines, zstd_bomb(b"{", 512)),
        attack("x.csv", limited, rows, |path| sparse(path, b"a,b\n1,2\n3,", 10 << 30)),
        attack("x.csv", limited, rows, |path| sparse(path, b"a,\"", 10 << 30)),
        bytes("x.csv.gz", limited, rows, gzip_bomb(64)),
        bytes("x.tsv.zst", limited, rows, zstd_bomb(b"a\tb\n", 512)),
        attack("x.csv", list, rows, |path| sparse(path, b"path\na.jpg", 10 << 30)),
    ]);
}

/// An npz file of one array that says this of itself.
fn npz(path: &Path, says: &str, data: &[u8]) {
    let head = format!("{says:<117}\n");
    let file = [b"\x93NUMPY\x01\x00\x76\x00", head.as_bytes(), data].concat();
    let mut zip = zip::ZipWriter::new(File::create(path).unwrap());
    zip.start_file("a.npy", zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(&file).unwrap();
    zip.finish().unwrap();
}

/// An archive of two files that are one.
fn overlapping(names: [&str; 2], content: &[u8]) -> Vec<u8> {
    let stored =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for name in names {
        zip.start_file(name, stored).unwrap();
        zip.write_all(content).unwrap();
    }
    let mut bytes = zip.finish().unwrap().into_inner();
    let entries: Vec<usize> =
        (0..bytes.len() - 4).filter(|&at| bytes[at..].starts_with(b"PK\x01\x02")).collect();
    // The second entry of the directory says that its file is where the first one is, and the bytes
    // of the second file are not there at all.
    bytes.copy_within(entries[0] + 42..entries[0] + 46, entries[1] + 42);
    let second = 30 + names[0].len() + content.len();
    bytes.drain(second..entries[0]);
    let at = bytes.len() - 6;
    bytes[at..at + 4].copy_from_slice(&(second as u32).to_le_bytes());
    bytes
}

#[test]
fn zip_archives() {
    let says = |shape: &str| {
        let says = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
        move |path: &Path| npz(path, &says, &[0; 64])
    };
    let shared = "expected files that share no bytes";
    let directory = b"PK\x05\x06\0\0\0\0\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0\0";
    withstand(vec![
        attack("x.npz", &[], "x.npz", says("(1152921504606846976, 8)")),
        attack("x.npz", &[], "x.npz", says("(18446744073709551615,)")),
        attack("x.npz", &[], "x.npz", says("(9, 1000000000)")),
        attack("x.npz", &[], "x.npz", |path| {
            npz(path, "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"\x80\x04N.");
        }),
        attack("x.npz", &["--max-bytes", LIMIT], "at most 1048576 bytes", |path| {
            let says = "{'descr': '|u1', 'fortran_order': False, 'shape': (2097152,), }";
            npz(path, says, &vec![0; 2 << 20]);
        }),
        bytes("x.npz", &[], shared, overlapping(["a.npy", "b.npy"], &[0; 5000])),
        bytes("x.zip", &[], shared, overlapping(["a.jpg", "b.jpg"], &[7; 5000])),
        bytes("x.zip", &["--from", "images"], "do not fit", directory),
        attack("x.zip", &["--max-bytes", LIMIT], "at most 1048576 bytes", |path| {
            let mut zip = zip::ZipWriter::new(File::create(path).unwrap());
            zip.start_file("a.jpg", zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(&vec![0; 2 << 20]).unwrap();
            zip.finish().unwrap();
        }),
    ]);
}

/// Pickles that would run a command: as a function called, an object built, and an instance.
fn pickles() -> [Vec<u8>; 3] {
    [
        b"\x80\x02cos\nsystem\nX\x0f\0\0\0touch out/pwned\x85R.".to_vec(),
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x0ftouch out/pwned\x85R.".to_vec(),
        b"\x80\x02(ios\nsystem\nX\x0f\0\0\0touch out/pwnedR.".to_vec(),
    ]
}

#[test]
fn pickles_never_run() {
    let cifar = &["--from", "cifar10"];
    let row = |pickle| bytes("data_batch_1", cifar, "data_batch_1: ", pickle);
    let mut table: Vec<_> = pickles().into_iter().map(row).collect();
    // Ten lists, each of which holds the one before ten times.
    let mut laughs = b"\x80\x02]q\x00".to_vec();
    for at in 1..=10u8 {
        laughs.extend(b"](");
        laughs.extend([b'h', at - 1].repeat(10));
        laughs.extend([b'e', b'q', at]);
    }
    laughs.push(b'.');
    table.push(row(laughs));
    table.push(row([b"\x80\x02".to_vec(), b"(".repeat(1 << 20)].concat()));
    table.push(row(
        [b"\x80\x02".to_vec(), b"]".repeat(1 << 20), b"a".repeat((1 << 20) - 1)].concat()
    ));
    table.push(row(b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.".to_vec()));
    table.push(bytes(
        "x.gz",
        &["--from", "cifar10", "--max-bytes", LIMIT],
        "at most",
        gzip_bomb(64),
    ));
    withstand(table);
}

#[test]
fn idx_files() {
    let limited = &["--from", "mnist", "--max-bytes", LIMIT];
    withstand(vec![
        bytes(
            "x",
            &["--from", "mnist"],
            "in/x: ",
            b"\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ),
        bytes("x", &["--from", "mnist"], "in/x: ", b"\0\0\x0e\x02\x7f\xff\xff\xff\0\0\0\0"),
        bytes("x", limited, "expected at most 1048576 bytes", gzip_bomb(64)),
        bytes("x", limited, "expected at most 1048576 bytes", zstd_bomb(b"\0\0\x08\x01", 512)),
    ]);
}

/// The index of one shard that says this of its file, and of what that is decompressed.
fn mds(raw: &str, zip: Option<&str>) -> String {
    let file = |text: &str| {
        let (name, bytes) = text.split_once(' ').unwrap();
        format!("{{\"basename\": \"{name}\", \"bytes\": {bytes}, \"hashes\": {{}}}}")
    };
    let compression = if zip.is_some() { "\"gz\"" } else { "null" };
    let zip = zip.map_or("null".to_owned(), file);
    format!(
        "{{\"version\": 2, \"shards\": [{{\"column_encodings\": [\"int\"], \"column_names\": [\"a\"], \
         \"column_sizes\": [8], \"compression\": {compression}, \"format\": \"mds\", \"hashes\": [], \
         \"raw_data\": {}, \"samples\": 1, \"size_limit\": 67108864, \"version\": 2, \
         \"zip_data\": {zip}}}]}}",
        file(raw)
    )
}

#[test]
fn mds_folders() {
    let folder = |index: String, shard: &'static [u8]| {
        move |dir: &Path| {
            fs::create_dir(dir).unwrap();
            fs::write(dir.join("index.json"), &index).unwrap();
            fs::write(dir.join("s.mds"), shard).unwrap();
        }
    };
    let bomb = |raw: &str| {
        let bomb = gzip_bomb(64);
        let index = mds(&format!("r.mds {raw}"), Some(&format!("s.mds.gz {}", bomb.len())));
        move |dir: &Path| {
            folder(index.clone(), b"")(dir);
            fs::write(dir.join("s.mds.gz"), &bomb).unwrap();
        }
    };
    let from = &["--from", "mds"];
    let limited = &["--from", "mds", "--max-bytes", LIMIT];
    let below = "a file below the folder of the index";
    let many = b"\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0";
    withstand(vec![
        attack("x", from, below, folder(mds("../s.mds 4", None), b"")),
        attack("x", from, below, folder(mds("/etc/passwd 4", None), b"")),
        attack("x", from, below, folder(mds("C:s.mds 4", None), b"")),
        attack(
            "x",
            from,
            "bytes, found 4",
            folder(mds("s.mds 18446744073709551615", None), b"1234"),
        ),
        attack("x", from, "s.mds", folder(mds("s.mds 12", None), many)),
        attack("x", from, "expected a shard of at most", bomb("1000000000000")),
        attack("x", limited, "expected a shard of at most 1048576", bomb("67108864")),
        attack("x", from, "expected 1000 bytes", bomb("1000")),
        attack("x", from, "expected an index of at most", |dir| {
            fs::create_dir(dir).unwrap();
            sparse(&dir.join("index.json"), b"{", 10 << 30);
        }),
    ]);
}

#[cfg(feature = "parquet")]
#[test]
fn tables_of_arrow() {
    use kiste::convert::{ArrowIpcWriter, ParquetWriter};
    use kiste::format::msgpack;

    let sample = kiste::Value::Map(vec![
        ("key".into(), "a".into()),
        ("data".into(), kiste::Value::Binary(vec![0; 4 << 20])),
    ]);
    let packed = msgpack::to_vec(&sample).unwrap();
    let in_arrow = packed.clone();
    let limited = &["--max-bytes", LIMIT];
    let footer = |len: u32| [&b"PAR1"[..], &len.to_le_bytes(), b"PAR1"].concat();
    let message = |len: u32| [b"\xff\xff\xff\xff", &len.to_le_bytes()[..]].concat();
    withstand(vec![
        bytes("x.parquet", &[], "a footer within the file", footer(u32::MAX)),
        bytes("x.parquet", &[], "in/x.parquet: ", footer(0)),
        attack("x.parquet", &[], "a footer of at most", |path| {
            sparse(path, b"PAR1", 10 << 30);
            let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
            file.write_all(b"\0\0\0\xf0PAR1").unwrap();
        }),
        attack("x.parquet", limited, "pages of at most 1048576 bytes", move |path| {
            let mut writer = ParquetWriter::create(path).unwrap();
            writer.write_packed(&packed).unwrap();
            writer.finish().unwrap();
        }),
        bytes("x.arrow", &[], "in/x.arrow: ", message(0x7fff_ffff)),
        attack("x.arrow", &[], "expected at most 268435456 bytes", move |path| {
            sparse(path, &message(0x7fff_fff0), 10 << 30);
        }),
        attack("x.arrow", limited, "at most 1048576 bytes", move |path| {
            let mut writer = ArrowIpcWriter::create(path).unwrap();
            writer.write_packed(&in_arrow).unwrap();
            writer.finish().unwrap();
        }),
    ]);
}

/// Headers of images of ten thousand million pixels or as many as there can be, and little more.
#[cfg(feature = "images")]
fn huge_images() -> Vec<(&'static str, Vec<u8>)> {
    let side = 100_000u32;
    let chunk = |kind: &[u8], data: &[u8]| {
        let body = [kind, data].concat();
        let crc = crc32fast::hash(&body).to_be_bytes();
        [&(data.len() as u32).to_be_bytes()[..], &body, &crc].concat()
    };
    let ihdr = [&side.to_be_bytes()[..], &side.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
    let png = [
        b"\x89PNG\r\n\x1a\n".to_vec(),
        chunk(b"IHDR", &ihdr),
        chunk(b"IDAT", b"\x78\x9c\x03\0\0\0\0\x01"),
        chunk(b"IEND", b""),
    ];
    let jpeg: &[&[u8]] = &[
        b"\xff\xd8\xff\xdb\x00\x43\x00",
        &[1; 64],
        b"\xff\xc0\x00\x0b\x08\xff\xff\xff\xff\x01\x01\x11\x00",
        b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00\x00\xff\xd9",
    ];
    let bits = (16_382u32 | (16_382 << 14)).to_le_bytes();
    let webp: &[&[u8]] = &[b"RIFF\x12\0\0\0WEBPVP8L\x05\0\0\0\x2f", &bits, b"\0"];
    let gif = b"GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\x02\x01\0;".to_vec();
    let entry = |tag: u16, value: u32| {
        [&tag.to_le_bytes()[..], &4u16.to_le_bytes(), &1u32.to_le_bytes(), &value.to_le_bytes()]
            .concat()
    };
    let entries = [
        (256, side),
        (257, side),
        (258, 8),
        (259, 1),
        (262, 1),
        (273, 8),
        (277, 1),
        (278, side),
        (279, 1),
    ];
    let tiff = [
        b"II*\0\x08\0\0\0\x09\0".to_vec(),
        entries.map(|(tag, value)| entry(tag, value)).concat(),
        vec![0; 4],
    ];
    let bmp: &[&[u8]] = &[
        b"BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0",
        &60_000u32.to_le_bytes(),
        &60_000u32.to_le_bytes(),
        b"\x01\0\x18\0",
        &[0; 24],
    ];
    vec![
        ("png", png.concat()),
        ("jpg", jpeg.concat()),
        ("webp", webp.concat()),
        ("gif", gif),
        ("tiff", tiff.concat()),
        ("bmp", bmp.concat()),
        ("ppm", b"P6 100000 100000 255\n".to_vec()),
    ]
}

#[cfg(feature = "images")]
#[test]
fn images() {
    let mut table = Vec::new();
    for (ending, image) in huge_images() {
        let archive = tar(&[tar_entry(format!("a.{ending}").as_bytes(), b'0', &image)]);
        let archive = std::rc::Rc::new(archive);
        for options in [&["--verify-images"][..], &["--resize", "max:8"]] {
            let archive = archive.clone();
            table.push(attack("x.tar", options, "at most 200000000 pixels", move |path| {
                fs::write(path, &archive[..]).unwrap();
            }));
        }
    }
    withstand(table);
}

/// Names that would lead elsewhere once they are files; in an archive of tar they are only keys.
#[test]
fn keys_that_are_no_names_of_files() {
    for name in [
        "b\\a.jpg",
        "C:\\a.jpg",
        "C:a.jpg",
        "nul.jpg",
        "a/com1.jpg",
        ".ssh/a.jpg",
        "a /b.jpg",
        "a\n.jpg",
        "./a.jpg",
        "a//b.jpg",
    ] {
        let dir = scratch();
        let image = tar_entry(name.as_bytes(), b'0', b"\xff\xd8\xff");
        fs::write(dir.path().join("in/x.tar"), tar(&[image])).unwrap();
        let before = tree(dir.path());
        let args = ["convert", "in/x.tar", "out/x", "--to", "images"];
        let (code, error) = run(dir.path(), &args);
        assert!(matches!(code, Some(1 | 2)), "{name:?}: {code:?} {error}");
        assert!(error.contains("expected the path of a file"), "{name:?}: {error}");
        let out = dir.path().join("out/x");
        for path in tree(dir.path()).difference(&before) {
            assert!(path.starts_with(&out), "{name:?}: {path:?}");
        }
    }
}

/// The archives of the catalogue, whose digests are not compared.
#[cfg(feature = "datasets")]
#[test]
fn archives_of_the_catalogue() {
    let [pickle, ..] = pickles();
    let batch = |bytes: &[u8]| tar_entry(b"cifar-10-batches-py/test_batch", b'0', bytes);
    let elsewhere = "expected a relative name without \"..\"";
    let train = |inner: Vec<u8>| tar(&[tar_entry(b"n01440764.tar", b'0', &inner)]);
    let cifar = "cifar-10-python.tar.gz";
    let imagenet = "ILSVRC2012_img_train.tar";
    let ade = "ADE20K_2016_07_26.zip";
    let table: Vec<(&str, &str, &str, &str, Vec<u8>)> = vec![
        ("CIFAR10", "test", cifar, "test_batch", gzip(&tar(&[batch(&pickle)]))),
        ("CIFAR10", "test", cifar, elsewhere, gzip(&tar(&[tar_entry(b"../a", b'0', b"")]))),
        ("CIFAR10", "test", cifar, "found a link", gzip(&tar(&[tar_entry(b"a", b'2', b"")]))),
        ("CIFAR10", "test", cifar, "at most 1073741824", {
            let header = tar_header(b"cifar-10-batches-py/test_batch", b'0', b"77777777777");
            [gzip(&header), gzip_bomb(64)].concat()
        }),
        ("ILSVRC2012", "train", imagenet, elsewhere, train(tar(&[tar_entry(b"/a", b'0', b"")]))),
        (
            "ILSVRC2012",
            "train",
            imagenet,
            "found a link",
            train(tar(&[tar_entry(b"a", b'1', b"")])),
        ),
        (
            "ILSVRC2012",
            "train",
            imagenet,
            "the end of file",
            train(tar_header(b"a", b'0', b"77777")),
        ),
        ("ILSVRC2012", "train", imagenet, "at most 1073741824 bytes", {
            train(tar_header(b"n01440764_1.JPEG", b'0', b"77777777777"))
        }),
        ("ADE20K", "training", ade, "share no bytes", overlapping(["a.jpg", "b.jpg"], &[7; 5000])),
    ];
    for (name, split, file, says, bytes) in table {
        let dir = scratch();
        fs::write(dir.path().join("in").join(file), bytes).unwrap();
        let before = tree(dir.path());
        let args = ["write", name, "in", "out", "--splits", split, "--skip-verification"];
        let (code, error) = run(dir.path(), &args);
        assert!(matches!(code, Some(1 | 2)), "{name}: {code:?} {error}");
        assert!(error.contains(says), "{name}: {says:?} in {error}");
        assert!(!error.contains("panicked"), "{name}: {error}");
        assert_eq!(tree(dir.path()), before, "{name}: {says}");
    }
}

/// What comes after a sample that is too large is read all the same, and so does the library.
#[test]
fn one_that_is_too_large_does_not_hide_the_next() {
    let dir = scratch();
    let path = dir.path().join("in/x.tar");
    let entries = [
        tar_entry(b"a.1", b'0', &[0; 2000]),
        tar_entry(b"a.2", b'0', &[0; 2000]),
        tar_entry(b"a.3", b'0', &[0; 2000]),
        tar_entry(b"b.1", b'0', b"x"),
    ];
    fs::write(&path, tar(&entries)).unwrap();
    let input = WebDatasetReader::open(&path).unwrap().max_bytes(4000);
    let mut found = Vec::new();
    input
        .read(0, &mut |sample| {
            found.push(sample.map(|_| ()).map_err(|error| error.message().to_owned()));
            Ok(())
        })
        .unwrap();
    let message = "expected a sample of at most 4000 bytes, found more".to_owned();
    assert_eq!(found, [Err(message), Ok(())]);

    let path = dir.path().join("in/x.jsonl");
    let long = "x".repeat(5000);
    let text = format!("{{\"key\":\"a\"}}\n{{\"key\":\"{long}\"}}\n{{\"key\":\"b\"}}\n");
    fs::write(&path, text).unwrap();
    for unit in [7, 100, 1 << 20] {
        let lines = kiste::convert::JsonLinesReader::open(&path).unwrap();
        let lines = lines.max_bytes(100).unit_bytes(unit);
        let mut found = Vec::new();
        for at in 0..lines.units() {
            let each = &mut |sample: kiste::Result<Vec<u8>>| {
                found.push(sample.map(|_| ()).map_err(|error| error.message().to_owned()));
                Ok(())
            };
            lines.read(at, each).unwrap();
        }
        let message = "line 2: expected at most 100 bytes, found more".to_owned();
        assert_eq!(found, [Ok(()), Err(message), Ok(())], "{unit}");
    }
}
