//! The catalogue over archives of anything: the first byte says which data set, the second with which
//! options, and then come its files, each with its length before it. `seeds.py` makes such inputs of
//! archives.
#![no_main]

mod caught;

use std::fs;
use std::io::Write;
use std::path::Path;

use kiste::Writer;
use kiste::convert::Silent;
use kiste::datasets::{ALL, Options, Take};
use kiste::format::__private::tar::{BLOCK, file_header, padding};
use libfuzzer_sys::fuzz_target;
use zip::write::SimpleFileOptions;

/// What the next file is made of, with a length of four bytes before it.
fn section<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let Some((len, rest)) = bytes.split_first_chunk() else { return std::mem::take(bytes) };
    let len = usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX);
    let (section, rest) = rest.split_at(len.min(rest.len()));
    *bytes = rest;
    section
}

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
    match () {
        () if name.ends_with(".zip") => fs::write(path, zip(&entries(bytes))).unwrap(),
        () if name.contains(".tar") => fs::write(path, tar(&entries(bytes))).unwrap(),
        () if name.contains('.') || name.contains("ubyte") => fs::write(path, bytes).unwrap(),
        () => put_folder(path, &entries(bytes)),
    }
}

/// A folder, whose files stay in it.
fn put_folder(root: &Path, entries: &[(String, &[u8])]) {
    fs::create_dir_all(root).unwrap();
    for (name, content) in entries {
        if name.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0')) {
            let path = root.join(name);
            // What is a file already cannot be a folder, nor can a name be of any length.
            let _ = fs::create_dir_all(path.parent().unwrap());
            let _ = fs::write(path, content);
        }
    }
}

fuzz_target!(init: caught::abort_if_uncaught(), |bytes: &[u8]| {
    let Some((&[which, how], mut bytes)) = bytes.split_first_chunk() else { return };
    let dataset = ALL[usize::from(which) % ALL.len()];
    let dir = std::env::temp_dir().join(format!("kiste-fuzz-datasets-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    for file in dataset.files {
        put(&dir.join(file.path), section(&mut bytes));
    }
    let takes = |take: Take, bit: u8| dataset.takes.contains(&take) && how & bit != 0;
    let options = Options {
        shuffle: takes(Take::Shuffle, 1).then_some(1),
        compress: takes(Take::Compress, 1).then_some(50),
        low_res: takes(Take::LowRes, 1),
        challenge: takes(Take::Challenge, 2),
        ..Options::default()
    };
    let Ok(passes) = dataset.open(&dir, &[], &options) else { return };
    for pass in passes {
        // No split is wanted, so all that is left is to make the samples.
        let outputs = vec![None; pass.splits.len()];
        let _ = pass.write(&outputs, &Writer::options(), &mut Silent);
    }
});
