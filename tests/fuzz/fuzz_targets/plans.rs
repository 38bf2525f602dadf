//! What a conversion leaves for the one that goes on after it: the plan of parts and their ends, the log
//! of units, the names of labels. The first byte says which file the rest is.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};

use kiste::convert::{Part, Parts, Resumption, labels_path, read_labels, resume, unfinished_plan};
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

fn parts(data: &Path, which: u8, bytes: &[u8]) {
    let plan = serde_json::json!({"a": 1});
    let parts = Parts::create(data, &plan).unwrap();
    let part = Part::new(1, 2).unwrap();
    parts.finish(part, serde_json::json!([1])).unwrap();
    assert!(parts.state(part).unwrap().is_some());
    match which {
        0 => {
            fs::write(parts.dir().join("plan.json"), bytes).unwrap();
            if let Ok(again) = Parts::create(data, &plan) {
                assert_eq!(again.plan(), &plan);
            }
            if let Ok(Some(parts)) = Parts::open(data) {
                let _ = parts.state(part);
            }
        }
        _ => {
            fs::write(parts.file(part, "json"), bytes).unwrap();
            let _ = parts.state(part);
        }
    }
}

/// Two samples reached the file; of which units they are says the log.
fn log(data: &Path, bytes: &[u8], journal: Option<&[u8]>) {
    let options = || Writer::options().durable(false);
    let mut writer = options().create(data).unwrap();
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
    let plan = unfinished_plan(data).ok().flatten().unwrap_or("p".to_owned());
    match resume(options(), data, &plan) {
        Ok(Resumption::GoesOn(resumed)) => {
            let len = resumed.writer.len();
            assert!(len <= 2);
            assert_eq!(resumed.writer.finish().unwrap().samples, len);
            assert_eq!(DatasetReader::open(data).unwrap().len() as u64, len);
        }
        Ok(_) | Err(_) => {}
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    let data = dir().join("x");
    match which % 5 {
        which @ (0 | 1) => parts(&data, which, bytes),
        2 => log(&data, bytes, None),
        3 => log(&data, b"{\"version\":1,\"plan\":\"p\"}\n", Some(bytes)),
        _ => {
            fs::write(labels_path(&data), bytes).unwrap();
            let _ = read_labels(&data);
        }
    }
});
