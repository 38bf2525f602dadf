//! Datasets that the writer made, and then bytes, lengths and whole files of them changed: every way to
//! read one says no or the truth, and what is made anew from sound data is what the writer made.
#![no_main]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use kiste::index::IndexOptions;
use kiste::repair::Repair;
use kiste::storage::{MemoryStorage, Storage};
use kiste::verify::Verify;
use kiste::{DatasetReader, ErrorKind, Writer};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

const DATA: &str = "x";

#[derive(Debug, Arbitrary)]
struct Input {
    samples: Vec<(u8, u8)>,
    digests: bool,
    lookup: bool,
    /// Of how many samples the rest is appended to.
    append_at: Option<u8>,
    damage: Vec<Damage>,
    deep: bool,
}

#[derive(Debug, Arbitrary)]
struct Damage {
    file: u8,
    at: u16,
    what: What,
}

#[derive(Debug, Arbitrary)]
enum What {
    Set(u8),
    Flip(u8),
    /// To the eight bytes there.
    Add(i8),
    Huge(u64),
    Cut,
    Insert([u8; 4]),
    Repeat(u8),
    /// The content of another file.
    Become(u8),
    /// Of the next file.
    Swap(u8),
    Remove,
}

fn key_of(index: usize, len: u8) -> String {
    format!("{index}{}", "é/".repeat(usize::from(len) / 4))
}

fn sample(key: &str, payload: u8) -> Vec<u8> {
    let mut packed = vec![0x82, 0xa1, b'v', 0xc4, payload];
    packed.extend((0..payload).map(|i| i.wrapping_mul(payload)));
    packed.extend(b"\xa3key\xd9");
    packed.push(key.len() as u8);
    packed.extend(key.as_bytes());
    packed
}

type Samples = Vec<(String, Vec<u8>)>;

fn write(input: &Input) -> (MemoryStorage, Samples) {
    let storage = MemoryStorage::new();
    let options = || {
        let options = Writer::options().storage(Arc::new(storage.clone())).durable(false);
        options.digests(input.digests).lookup(input.lookup)
    };
    let mut writer = options().create(DATA).unwrap();
    let mut samples = Vec::new();
    for (i, &(len, payload)) in input.samples.iter().take(20).enumerate() {
        if input.append_at.is_some_and(|at| usize::from(at % 20) == i) {
            writer.finish().unwrap();
            writer = options().append(DATA).unwrap();
        }
        let key = key_of(i, len);
        let packed = sample(&key, payload);
        writer.write_raw(&key, &packed).unwrap();
        samples.push((key, packed));
    }
    writer.finish().unwrap();
    (storage, samples)
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn files(storage: &MemoryStorage) -> Files {
    storage
        .names()
        .into_iter()
        .filter_map(|name| Some((name.clone(), storage.get(&name)?)))
        .collect()
}

fn damage(files: &mut Files, damage: &Damage) {
    let names: Vec<PathBuf> = files.keys().cloned().collect();
    let Some(name) = names.get(usize::from(damage.file) % names.len().max(1)) else { return };
    let other = |which: u8| names[usize::from(which) % names.len()].clone();
    let bytes = files.get_mut(name).unwrap();
    let at = usize::from(damage.at) % (bytes.len() + 1);
    match &damage.what {
        What::Set(byte) => bytes[at..].iter_mut().take(1).for_each(|b| *b = *byte),
        What::Flip(bits) => bytes[at..].iter_mut().take(1).for_each(|b| *b ^= bits),
        What::Add(_) | What::Huge(_) => {
            // Numbers in these files stand at multiples of eight.
            let at = at / 8 * 8;
            if let Some(number) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
                *number = match &damage.what {
                    What::Add(by) => u64::from_le_bytes(*number).wrapping_add_signed((*by).into()),
                    What::Huge(new) => *new,
                    _ => unreachable!(),
                }
                .to_le_bytes();
            }
        }
        What::Cut => bytes.truncate(at),
        What::Insert(new) => drop(bytes.splice(at..at, *new)),
        What::Repeat(times) => {
            let tail = bytes[at..].repeat(usize::from(times % 4));
            bytes.extend(tail);
        }
        What::Become(which) => {
            let content = files[&other(*which)].clone();
            files.insert(name.clone(), content);
        }
        What::Swap(which) => {
            let other = other(*which);
            let (one, two) = (files[name].clone(), files[&other].clone());
            files.insert(name.clone(), two);
            files.insert(other, one);
        }
        What::Remove => drop(files.remove(name)),
    }
}

/// Reads everything in every way. `right`: what is found must be right.
fn read(reader: &DatasetReader, samples: &Samples, right: bool) {
    for i in 0..reader.len().min(30) {
        let _ = (reader.get(i), reader.key(i), reader.field(i, "v"), reader.byte_range(i));
    }
    for (i, (key, packed)) in samples.iter().enumerate() {
        let (found, there) = (reader.find(key), reader.contains_key(key));
        assert!(!right || found.is_err() || found.unwrap() == Some(i), "{key}");
        assert!(!right || there.is_err() || there.unwrap(), "{key}");
        let raw = reader.get_raw(i);
        assert!(!right || raw.is_err() || *raw.unwrap() == packed[..], "{key}");
    }
    let absent = reader.find("absent");
    assert!(!right || absent.is_err() || absent.unwrap().is_none());
    let _ = reader.keys().take(30).filter(Result::is_ok).count();
    let _ = reader.iter(..).take(30).filter(Result::is_ok).count();
    let _ = reader.iter_raw(..).take(30).filter(Result::is_ok).count();
    let _ = reader.prepare_keys();
}

fn storage_of(files: &Files) -> MemoryStorage {
    let storage = MemoryStorage::new();
    files.iter().for_each(|(name, bytes)| storage.put(name, bytes.clone()));
    storage
}

fuzz_target!(|input: Input| {
    let (storage, samples) = write(&input);
    let sound = files(&storage);
    let mut now = sound.clone();
    input.damage.iter().take(4).for_each(|one| damage(&mut now, one));
    let storage = storage_of(&now);
    let shared = Arc::new(storage.clone());
    let changed: Vec<_> = sound
        .keys()
        .filter(|name| now.get(*name).is_none_or(|bytes| *bytes != sound[*name]))
        .collect();
    let is = |name: &PathBuf, suffix: &str| name.to_str() == Some(&format!("{DATA}{suffix}"));
    // Of keys that two files agree on, or samples that the offsets hide, only digests know.
    let damaged: Vec<_> = changed.iter().filter(|name| now.contains_key(**name)).collect();
    let right = match damaged[..] {
        [] => !changed.iter().any(|name| is(name, ".offsets")),
        [one] => !is(one, "") && !is(one, ".offsets"),
        _ => false,
    };
    let open = || DatasetReader::options().storage(shared.clone()).open(DATA);
    match open() {
        Ok(reader) => {
            for _ in 0..2 {
                read(&reader, &samples, right);
            }
        }
        Err(error) => assert!(!changed.is_empty(), "{error:?}"),
    }
    match Verify::of(DATA).deep(input.deep).storage(shared.clone()).run() {
        Ok(report) => assert!(!changed.is_empty() || report.problems.is_empty(), "{report:?}"),
        Err(error) => assert!(!now.contains_key(&PathBuf::from(DATA)), "{error:?}"),
    }
    if let Ok(saved) = Repair::of(DATA).storage(shared.clone()).salvage("saved") {
        if now.get(&PathBuf::from(DATA)) == sound.get(&PathBuf::from(DATA)) {
            assert_eq!(saved.samples, samples.len() as u64, "{saved:?}");
        }
        let report =
            Verify::of("saved").deep(true).storage(shared.clone()).run().unwrap();
        assert!(report.problems.is_empty(), "{report:?}");
    }
    let data = now.get(&PathBuf::from(DATA));
    // What is missing is made to fit what is there, whatever that is.
    let _ = IndexOptions::default().durable(false).storage(shared.clone()).build(DATA);
    let anew = IndexOptions::default().durable(false).force(true).trust_data(true);
    let anew = anew.digests(input.digests);
    match anew.lookup(input.lookup).storage(shared.clone()).build(DATA) {
        Ok(_) => {
            let report =
                Verify::of(DATA).deep(true).storage(shared.clone()).run().unwrap();
            assert!(report.problems.is_empty(), "{report:?}");
            if data == sound.get(&PathBuf::from(DATA)) {
                for (name, bytes) in &sound {
                    let made = storage.get(name);
                    assert!(made.as_ref() == Some(bytes), "{}", name.display());
                }
            }
        }
        Err(error) => {
            let same = data == sound.get(&PathBuf::from(DATA));
            assert!(!same || error.kind() != ErrorKind::Damaged, "{error:?}");
        }
    }
    assert!(shared.stat("x.partial".as_ref()).unwrap().is_none());
});
