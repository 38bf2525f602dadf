//! The table of layouts in `docs/convert.md`: each row's command, run on data in that layout, makes samples with the
//! fields that the row says. What other libraries lay out was written by them.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kiste::DatasetReader;
use kiste::format::msgpack::{self, sample};

/// A row: what one has, what to type, and the fields of the samples.
struct Row {
    have: String,
    command: String,
    fields: Vec<String>,
}

fn rows(page: &str) -> Vec<Row> {
    let table = page.lines().skip_while(|line| !line.starts_with("| you have | type | fields |"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [have, command, fields] = cells[..] else { panic!("{line}") };
        let fields = fields.split(", ").map(|name| name.trim_matches('`').to_owned());
        let command = command.trim_matches('`').to_owned();
        Row { have: have.to_owned(), command, fields: fields.collect() }
    };
    table.skip(2).take_while(|line| line.starts_with('|')).map(row).collect()
}

fn file(dir: &Path, name: &str, content: &[u8]) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        fs::copy(from, to).unwrap();
    }
}

/// Everything that a row names.
fn lay_out(dir: &Path) {
    let picture = fs::read(data("pycocotools-2.0.11/val2017/000000000000.png")).unwrap();
    let mask = fs::read(data("pycocotools-2.0.11/masks/000000000000.png")).unwrap();
    for name in [
        "photos/cat/1.jpg",
        "photos/dog/2.jpg",
        "scans/anna/cat/1.jpg",
        "scans/bert/dog/1.jpg",
        "sets/train/cat/1.jpg",
        "sets/val/cat/2.jpg",
        "faces/1.png",
        "street/images/1.png",
    ] {
        file(dir, name, &picture);
    }
    file(dir, "street/masks/1.png", &mask);
    let mut zip = zip::ZipWriter::new(fs::File::create(dir.join("photos.zip")).unwrap());
    // As macOS packs a folder.
    for name in ["photos/cat/1.jpg", "photos/dog/2.jpg", "__MACOSX/photos/cat/._1.jpg"] {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(&picture).unwrap();
    }
    zip.finish().unwrap();
    file(dir, "faces/metadata.csv", b"file_name,name\n1.png,anna\n");
    file(dir, "list.csv", b"path,label\ncat/1.jpg,cat\ndog/2.jpg,dog\n");
    for label in ["yes", "no"] {
        file(dir, &format!("speech/{label}/1.wav"), b"RIFF\0\0\0\0WAVE");
        file(dir, &format!("reviews/{label}/1.txt"), b"a text");
    }
    file(dir, "media/1.wav", b"RIFF\0\0\0\0WAVE");
    file(dir, "clips.jsonl", b"{\"key\":\"1\",\"audio\":\"1.wav\",\"text\":\"hello\"}\n");
    file(
        dir,
        "captions.json",
        b"[{\"id\":7,\"caption\":\"a cat\"},\n {\"id\":9,\"caption\":\"a dog\"}]\n",
    );
    file(dir, "old.csv", b"name,size\nM\xfcller,2\n");
    file(dir, "rows.csv", b"name,size\na,1.5\nb,2\n");
    for (from, to) in [
        ("pycocotools-2.0.11", "coco"),
        ("webdataset-1.0.2/shard-000000.tar", "shard-000000.tar"),
        ("webdataset-1.0.2/shard-000001.tar", "shard-000001.tar"),
        ("datasets-5.2.0-layouts/hub", "hub"),
        ("datasets-5.2.0-layouts/saved", "saved"),
        ("datasets-5.2.0-layouts/dict", "dict"),
        ("streaming-0.13.0/all", "mds"),
        ("tfrecord-1.14.6/some.tfrecord", "some.tfrecord"),
        ("npz-numpy-2.4.6/keras.npz", "keras.npz"),
        ("npz-numpy-2.4.6/ragged.npz", "tokens.npz"),
        ("cifar-numpy-2.4.6/images-idx3-ubyte.gz", "images-idx3-ubyte.gz"),
        ("cifar-numpy-2.4.6/labels-idx1-ubyte.gz", "labels-idx1-ubyte.gz"),
        ("cifar-numpy-2.4.6/ten_protocol2.gz", "data_batch_1.gz"),
    ] {
        copy(&data(from), &dir.join(to));
    }
    for year in ["2024", "2025"] {
        file(dir, &format!("table/year={year}/part-0.csv"), b"name,size\na,1.5\n");
    }
}

/// The fields of the first sample of a dataset, in their order, without the key.
fn fields(path: &Path) -> Vec<String> {
    let reader = DatasetReader::open(path).unwrap();
    let packed = reader.get_raw(0).unwrap();
    let names = sample::fields(&packed).unwrap().map(|field| {
        let (name, _) = field.unwrap();
        msgpack::decode(name).unwrap().as_str().unwrap().to_owned()
    });
    names.filter(|name| name != "key").collect()
}

#[test]
fn every_layout_is_read_by_what_the_table_says() {
    let page = include_str!("../../docs/convert.md");
    let rows = rows(page);
    assert!(rows.len() >= 20, "{}", rows.len());
    let dir = tempfile::tempdir().unwrap();
    lay_out(dir.path());
    let program = PathBuf::from(env!("CARGO_BIN_EXE_kiste"));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", program.parent().unwrap().display());
    for Row { have, command, fields: expected } in rows {
        let mut shell = Command::new("bash");
        shell.args(["-c", &command]).current_dir(dir.path()).env("PATH", &path);
        let out = shell.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{have}: {command}: {said}");
        let mut words = command.split_whitespace().map(|word| word.trim_matches('\''));
        let output = words.rfind(|word| word.ends_with(".msgpack")).unwrap();
        let name = output.split("{split}").next().unwrap().trim_end_matches(".msgpack");
        let made = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let made: Vec<PathBuf> = (made.into_iter())
            .filter(|path| {
                let found = path.file_name().unwrap().to_str().unwrap();
                found.strip_suffix(".msgpack").is_some_and(|stem| {
                    stem.strip_prefix(name)
                        .is_some_and(|rest| rest.is_empty() != output.contains("{split}"))
                })
            })
            .collect();
        assert_eq!(made.len(), if output.contains("{split}") { 2 } else { 1 }, "{command}");
        for path in made {
            let found = fields(&path);
            match &expected[..] {
                // In words.
                [only] if only.contains(' ') => assert!(!found.is_empty(), "{have}: {command}"),
                [some @ .., more] if more == "…" => assert_eq!(found[..some.len()], *some),
                all => assert_eq!(found, all, "{have}: {command}"),
            }
        }
    }
}
