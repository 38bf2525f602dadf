//! What a conversion leaves for the one that goes on after it: the plan of parts and their ends, the log
//! of units, the names of labels. The first byte says which file the rest is.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};

use kiste::convert::{Conversion, Emit, Input, Part, Silent, commit};
use kiste::dataset::{labels_path, read_labels};
use kiste::{DatasetReader, Writer};
use libfuzzer_sys::fuzz_target;

/// An empty directory, in memory where the system has such a thing.
fn dir() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let dir = root.join(format!("kiste-fuzz-plans-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// Two samples in two units.
struct Two;

impl Input for Two {
    fn units(&self) -> usize {
        2
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> kiste::Result<()> {
        emit(Ok([b"\x81\xa3key\xa1", &b"ab"[unit..=unit]].concat()))
    }
}

fn conversion(data: &Path) -> Conversion {
    Conversion::from_input("two", Two, data).durable(false)
}

/// One of two parts is there, and this file of the directory is anything.
fn parts(data: &Path, name: &str, bytes: &[u8]) {
    let conversion = conversion(data);
    conversion.run_part(Part::new(1, 2).unwrap(), &mut Silent).unwrap();
    let dir = data.with_file_name("x.parts");
    fs::write(dir.join(name), bytes).unwrap();
    let _ = conversion.run_part(Part::new(1, 2).unwrap(), &mut Silent);
    let _ = conversion.run_part(Part::new(2, 2).unwrap(), &mut Silent);
    // What is published has samples of the input, in their order.
    if commit(data, &mut Silent).is_ok_and(|report| !report.was_complete) {
        let reader = DatasetReader::open(data).unwrap();
        assert!(reader.len() <= 2, "{}", reader.len());
    }
}

/// Two samples reached the file; of which units they are says the log.
fn log(data: &Path, bytes: &[u8], journal: Option<&[u8]>) {
    let mut writer = Writer::options().durable(false).create(data).unwrap();
    for key in ["a", "b"] {
        writer.write_raw(key, &[b"\x81\xa3key\xa1", key.as_bytes()].concat()).unwrap();
    }
    writer.flush().unwrap();
    drop(writer);
    let partial = data.with_file_name("x.partial");
    fs::write(partial.join("units"), bytes).unwrap();
    if let Some(journal) = journal {
        fs::write(partial.join("journal"), journal).unwrap();
    }
    if conversion(data).resume(true).run(&mut Silent).is_ok() {
        assert!(DatasetReader::open(data).unwrap().len() <= 4);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    let data = dir().join("x");
    match which % 5 {
        0 => parts(&data, "plan.json", bytes),
        1 => parts(&data, "part-1-of-2.json", bytes),
        2 => log(&data, bytes, None),
        3 => log(&data, b"{\"version\":1,\"plan\":\"p\"}\n", Some(bytes)),
        _ => {
            fs::write(labels_path(&data), bytes).unwrap();
            let _ = read_labels(&data);
        }
    }
});
