//! Chunked arrays that we made, in several versions, and then bytes of their files changed, the hashes
//! made right where asked for: whatever is read is an error or an answer, and an undamaged array is
//! what was written.
#![no_main]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiste::array::{ArrayOptions, At, Check, ChunkedArray, Keep};
use kiste::format::blosc::{Codec, Shuffle};
use kiste::format::bloscpack::Checksum;
use kiste::storage::MemoryStorage;
use kiste::value::DType;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use ndarray::ArrayD;

#[derive(Debug, Arbitrary)]
struct Input {
    shape: [u8; 2],
    chunks: [u8; 2],
    superchunk: u8,
    room: bool,
    versioned: bool,
    checksum: u8,
    codec: u8,
    check: u8,
    steps: Vec<Step>,
    damage: Vec<Damage>,
}

#[derive(Debug, Arbitrary)]
enum Step {
    Set { rows: (u8, u8), columns: (u8, u8), value: i32 },
    Append(u8),
    Resize([u8; 2]),
    Attribute(u8),
    Compact,
}

#[derive(Debug, Arbitrary)]
struct Damage {
    file: u8,
    at: u16,
    what: What,
    rehash: bool,
}

#[derive(Debug, Arbitrary)]
enum What {
    Set(u8),
    Flip(u8),
    Add(i8),
    /// A digit in place of another, in texts.
    Digit(u8),
    Cut,
    Insert([u8; 2]),
    Become(u8),
    Remove,
}

const ROOT: &str = "a";

/// The step of an array that there may be: the model is what it holds.
fn step(
    store: &mut kiste::array::ArrayStore,
    model: &mut ArrayD<i32>,
    step: &Step,
) -> kiste::Result<()> {
    let shape = [model.shape()[0], model.shape()[1]];
    match step {
        Step::Set { rows, columns, value } => {
            let part = |(a, b): (u8, u8), len: usize| {
                let (a, b) = (usize::from(a) % (len + 1), usize::from(b) % (len + 1));
                a.min(b)..a.max(b)
            };
            let (rows, columns) = (part(*rows, shape[0]), part(*columns, shape[1]));
            let mut staged = store.stage()?;
            staged.set_scalar((rows.clone(), columns.clone()), *value)?;
            store.commit(&mut staged, "")?;
            model.slice_mut(ndarray::s![rows, columns]).fill(*value);
        }
        Step::Append(rows) => {
            let rows = usize::from(rows % 5);
            let more = ArrayD::from_elem(vec![rows, shape[1]], 3);
            let all = ndarray::concatenate![ndarray::Axis(0), model.view(), more.view()];
            let array = kiste::value::NdArray::from_ndarray(&more).into_owned();
            store.append(&array, "")?;
            *model = all;
        }
        Step::Resize(to) => {
            let to = to.map(|len| usize::from(len % 12));
            store.resize(&to, "")?;
            let mut resized = ArrayD::zeros(to.to_vec());
            let both = [to[0].min(shape[0]), to[1].min(shape[1])];
            let part = ndarray::s![..both[0], ..both[1]];
            resized.slice_mut(part).assign(&model.slice(part));
            *model = resized;
        }
        Step::Attribute(value) => {
            let attributes = serde_json::json!({"a": value}).as_object().unwrap().clone();
            store.set_attributes(attributes, "")?;
        }
        Step::Compact => drop(store.gc(&Keep::Newest(2))?),
    }
    Ok(())
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn damage(files: &mut Files, damage: &Damage) {
    let names: Vec<PathBuf> = files.keys().cloned().collect();
    let Some(name) = names.get(usize::from(damage.file) % names.len().max(1)) else { return };
    let bytes = files.get_mut(name).unwrap();
    let is_version = name.parent() == Some(Path::new("a/meta/versions"));
    let is_segment = name.parent() == Some(Path::new("a/meta/manifest"));
    let hash = if is_version {
        65
    } else if is_segment {
        32
    } else {
        0
    };
    let rehash = damage.rehash && hash > 0 && bytes.len() > hash;
    if rehash {
        bytes.truncate(bytes.len() - hash);
    }
    let at = usize::from(damage.at) % (bytes.len() + 1);
    match &damage.what {
        What::Set(byte) => bytes[at..].iter_mut().take(1).for_each(|b| *b = *byte),
        What::Flip(bits) => bytes[at..].iter_mut().take(1).for_each(|b| *b ^= bits),
        What::Add(by) => {
            if let Some(number) = bytes[at..].first_chunk_mut() {
                *number =
                    u32::from_le_bytes(*number).wrapping_add_signed((*by).into()).to_le_bytes();
            }
        }
        What::Digit(digit) => {
            if let Some(b) = bytes[at..].iter_mut().find(|b| b.is_ascii_digit()) {
                *b = b'0' + digit % 10;
            }
        }
        What::Cut => bytes.truncate(at),
        What::Insert(new) => drop(bytes.splice(at..at, *new)),
        What::Become(which) => {
            let content = files[&names[usize::from(*which) % names.len()]].clone();
            files.insert(name.clone(), content);
            return;
        }
        What::Remove => {
            files.remove(name);
            return;
        }
    }
    if rehash {
        let hash = blake3::hash(bytes);
        match is_segment {
            true => bytes.extend(hash.as_bytes()),
            false => bytes.extend(format!("{}\n", hash.to_hex()).bytes()),
        }
    }
}

/// Everything that there is to ask. `right`: what all of it must be.
fn read(array: &ChunkedArray, right: Option<&ArrayD<i32>>) {
    let len = array.shape().iter().fold(1_usize, |len, &n| len.saturating_mul(n));
    let _ = (array.info(), array.version_info(), array.versions(), array.fill_bytes());
    if array.grid().len() <= 1 << 12 && len <= 1 << 16 {
        let _ = array.verify();
        for cell in 0..array.grid().len().min(50) {
            let at = array.grid().coordinates(cell);
            let _ = (array.chunk(&at), array.chunk_view(&at));
        }
        let found = array.get::<i32>(..);
        if let Some(right) = right {
            assert!(&found.unwrap() == right);
        }
        let _ = array.read((.., -1));
    }
}

fuzz_target!(|input: Input| {
    let storage = MemoryStorage::new();
    let checks = [Check::Hashes, Check::Checksums, Check::Nothing];
    let checksums = [Checksum::None, Checksum::Adler32, Checksum::Crc32];
    let codecs = [Codec::Lz4, Codec::Zlib, Codec::BloscLz];
    let options = |storage: &MemoryStorage| {
        ArrayOptions::default()
            .storage(Arc::new(storage.clone()))
            .durable(false)
            .threads(1)
            .check(checks[usize::from(input.check) % 3])
    };
    let create = options(&storage)
        .chunk_shape(input.chunks.map(|len| usize::from(len % 4) + 1))
        .superchunk(u32::from(input.superchunk % 5) + 1)
        .room(if input.room { 40 } else { 0 })
        .versioned(input.versioned)
        .codec(codecs[usize::from(input.codec) % 3])
        .shuffle(Shuffle::Byte)
        .level(5)
        .checksum(checksums[usize::from(input.checksum) % 3]);
    let shape = input.shape.map(|len| usize::from(len % 12));
    let mut model = ArrayD::<i32>::zeros(shape.to_vec());
    let Ok(mut store) = create.create(ROOT, DType::of::<i32>(), &shape) else { return };
    for one in input.steps.iter().take(6) {
        step(&mut store, &mut model, one).unwrap();
    }
    drop(store);
    let array = options(&storage).open(ROOT).unwrap();
    read(&array, Some(&model));
    assert_eq!(array.verify().unwrap().problems, []);
    if input.damage.is_empty() {
        return;
    }
    let mut files: Files = storage
        .names()
        .into_iter()
        .filter_map(|name| Some((name.clone(), storage.get(&name)?)))
        .collect();
    input.damage.iter().take(3).for_each(|one| damage(&mut files, one));
    let storage = MemoryStorage::new();
    files.into_iter().for_each(|(name, bytes)| storage.put(name, bytes));
    let versions = [At::Newest, At::Version(1), At::Back(1)];
    let opened: Vec<_> =
        versions.into_iter().filter_map(|at| options(&storage).open_at(ROOT, at).ok()).collect();
    opened.iter().for_each(|array| read(array, None));
    if let [newest, .., oldest] = &opened[..] {
        let _ = newest.diff(oldest);
    }
    if let Ok(mut store) = options(&storage).open_store(ROOT) {
        let len = store.array().shape().iter().fold(1_usize, |len, &n| len.saturating_mul(n));
        if store.array().shape().len() == 2
            && store.array().grid().len() <= 1 << 12
            && len <= 1 << 16
        {
            let shape = store.array().shape().to_vec();
            let mut model = ArrayD::zeros(shape);
            for one in [
                &Step::Set { rows: (0, 9), columns: (0, 9), value: 5 },
                &Step::Append(2),
                &Step::Compact,
            ] {
                let _ = step(&mut store, &mut model, one);
            }
        }
    }
});
