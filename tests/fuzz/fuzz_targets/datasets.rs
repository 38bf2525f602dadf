//! The catalogue over archives of anything: the first byte says which data set, the others name the
//! files in its archives and fill them.
#![no_main]

use std::fs;
use std::io::Write;
use std::path::Path;

use kiste::datasets::{ALL, Options};
use kiste::format::tar::{BLOCK, file_header, padding};
use libfuzzer_sys::fuzz_target;
use zip::write::SimpleFileOptions;

/// Names and contents: a length of one byte before each name, and of two before each content.
fn entries(mut bytes: &[u8]) -> Vec<(String, &[u8])> {
    let mut entries = Vec::new();
    while let Some((&len, rest)) = bytes.split_first() {
        let (name, rest) = rest.split_at(usize::from(len).min(rest.len()));
        let Some((len, rest)) = rest.split_first_chunk() else { break };
        let len = usize::from(u16::from_le_bytes(*len)).min(rest.len());
        let (content, rest) = rest.split_at(len);
        entries.push((String::from_utf8_lossy(name).into_owned(), content));
        bytes = rest;
    }
    entries
}

fn tar(entries: &[(String, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, content) in entries {
        let Ok(header) = file_header(name, content.len() as u64) else { continue };
        bytes.extend(header);
        bytes.extend(*content);
        bytes.resize(bytes.len() + padding(content.len() as u64), 0);
    }
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    bytes
}

fn zip(entries: &[(String, &[u8])]) -> Vec<u8> {
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in entries {
        if writer.start_file(name.as_str(), options).is_ok() {
            writer.write_all(content).unwrap();
        }
    }
    writer.finish().unwrap().into_inner()
}

/// Puts a file where a data set expects it, in the form that its name says.
fn put(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let name = path.file_name().unwrap().to_string_lossy();
    let content = match () {
        () if name.ends_with(".zip") => zip(&entries(bytes)),
        () if name.contains(".tar") || name.ends_with(".tgz") => tar(&entries(bytes)),
        () => bytes.to_vec(),
    };
    fs::write(path, content).unwrap();
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    let dataset = ALL[usize::from(which) % ALL.len()];
    let dir = std::env::temp_dir().join(format!("kiste-fuzz-datasets-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    for file in dataset.files {
        put(&dir.join(file.path), bytes);
    }
    let options = Options { threads: 1, ..Options::default() };
    let Ok(passes) = dataset.open(&dir, &[], &options) else { return };
    for mut pass in passes {
        // Nobody wants the samples, so all that is left is to make them.
        let mut nobody: Vec<_> = pass.splits.iter().map(|_| None).collect();
        let _ = pass.write(&mut nobody, |_| ());
    }
});
