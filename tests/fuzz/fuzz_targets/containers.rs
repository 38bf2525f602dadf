//! Containers of bloscpack that we made, and then bytes of them changed: without checksums, so that the
//! change gets in, or with them, so that it is found. Appends and their undoing, too.
#![no_main]

use std::io::Read;
use std::path::Path;

use kiste::array::append::{AppendOptions, check, recover};
use kiste::array::{PackOptions, PackedArray, PackedReader};
use kiste::format::blosc::{Codec, Shuffle};
use kiste::format::bloscpack::{Checksum, Container};
use kiste::storage::MemoryStorage;
use kiste::value::{DType, NdArray};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Input {
    rows: u8,
    columns: u8,
    width: u8,
    codec: u8,
    level: u8,
    shuffle: u8,
    chunk: u8,
    checksum: u8,
    offsets: bool,
    content: u8,
    appended: Option<u8>,
    /// After so many operations the append dies.
    dies: Option<u8>,
    damage: Vec<(u16, Change)>,
}

#[derive(Debug, Arbitrary)]
enum Change {
    Set(u8),
    Flip(u8),
    Add4(i8),
    Cut,
    Insert([u8; 3]),
    Repeat,
}

/// Larger containers are refused here: they only take time.
const LIMIT: u64 = 1 << 20;

fn change(bytes: &mut Vec<u8>, at: u16, change: &Change) {
    let at = usize::from(at) % (bytes.len() + 1);
    match change {
        Change::Set(byte) => bytes[at..].iter_mut().take(1).for_each(|b| *b = *byte),
        Change::Flip(bits) => bytes[at..].iter_mut().take(1).for_each(|b| *b ^= bits),
        Change::Add4(by) => {
            if let Some(number) = bytes[at..].first_chunk_mut() {
                *number =
                    u32::from_le_bytes(*number).wrapping_add_signed((*by).into()).to_le_bytes();
            }
        }
        Change::Cut => bytes.truncate(at),
        Change::Insert(new) => drop(bytes.splice(at..at, *new)),
        Change::Repeat => bytes.extend_from_within(at..),
    }
}

fn array(rows: u8, columns: usize, dtype: &DType, content: u8) -> NdArray<'static> {
    let rows = usize::from(rows) % 40;
    let len = rows * columns * dtype.item_size();
    let byte = |i: usize| (i as u8 / 3).wrapping_mul(content);
    NdArray::new(dtype.clone(), [rows, columns], (0..len).map(byte).collect::<Vec<u8>>()).unwrap()
}

fn read(bytes: &[u8]) {
    let Ok(container) = Container::parse(bytes) else { return };
    let total = container.chunks().map_while(Result::ok).map(|chunk| chunk.nbytes() as u64).sum();
    if LIMIT < total {
        return;
    }
    let mut streamed = Vec::new();
    let reader = PackedReader::new(bytes).ok();
    let is_streamed = reader.is_some_and(|mut reader| reader.read_to_end(&mut streamed).is_ok());
    if let Ok(whole) = container.to_vec() {
        assert_eq!(container.nbytes().unwrap(), whole.len() as u64);
        assert!(!is_streamed || streamed == whole);
    }
    if let Ok(packed) = PackedArray::from_bytes(bytes) {
        let whole = packed.read();
        let rows = packed.shape().first().copied().unwrap_or(0).min(50);
        let chosen: Vec<usize> = (0..rows).rev().step_by(3).collect();
        let (part, some) = (packed.rows(rows / 3..rows), packed.select(&chosen));
        assert!(whole.is_err() || (part.is_ok() && some.is_ok()) || packed.shape().is_empty());
    }
}

fuzz_target!(|input: Input| {
    let codecs = [Codec::BloscLz, Codec::Lz4, Codec::Lz4hc, Codec::Zlib, Codec::Zstd];
    let shuffles = [Shuffle::None, Shuffle::Byte, Shuffle::Bit];
    let checksums =
        [Checksum::None, Checksum::None, Checksum::Adler32, Checksum::Crc32, Checksum::Sha1];
    let dtypes = ["|u1", "<i2", ">f4", "<f8", "<c16", "[('a', '<i2'), ('b', '|S3')]", "<U5"];
    let checksum = checksums[usize::from(input.checksum) % checksums.len()];
    let dtype: DType = dtypes[usize::from(input.width) % dtypes.len()].parse().unwrap();
    let options = PackOptions::compact()
        .codec(codecs[usize::from(input.codec) % codecs.len()])
        // The highest levels take long and write nothing else.
        .level(input.level % 7)
        .shuffle(shuffles[usize::from(input.shuffle) % shuffles.len()])
        .chunk_size(usize::from(input.chunk) * 8 + 8)
        .checksum(checksum)
        .offsets(input.offsets)
        .threads(1);
    let columns = usize::from(input.columns) % 5;
    let whole = array(input.rows, columns, &dtype, input.content);
    let storage = MemoryStorage::new();
    let path = Path::new("x.blp");
    if options.write_in(&storage, path, &whole).is_err() {
        // An element that is larger than a chunk.
        return;
    }
    let mut right = whole.bytes().to_vec();
    if let Some(rows) = input.appended {
        let more = array(rows, columns, &dtype, input.content.wrapping_add(1));
        if let Some(after) = input.dies {
            storage.fail_after(u64::from(after));
        }
        let appended = AppendOptions::default().threads(1).append_in(&storage, path, &more);
        storage.restart();
        let whole = [&right[..], more.bytes()].concat();
        if appended.is_err() {
            let recovered = recover(&storage, path);
            check(&storage, path).unwrap();
            let now = PackedArray::open_in(&storage, path).unwrap().read().unwrap();
            assert!(now.bytes() == right || now.bytes() == whole, "{recovered:?}");
            right = now.bytes().to_vec();
        } else {
            right = whole;
        }
    }
    let mut bytes = storage.get(path).unwrap();
    let packed = PackedArray::from_bytes(&bytes).unwrap();
    assert!(packed.read().unwrap().bytes() == right);
    for (at, one) in input.damage.iter().take(4) {
        change(&mut bytes, *at, one);
    }
    read(&bytes);
    storage.put(path, bytes);
    let _ = (check(&storage, path), recover(&storage, path));
    if let Ok(packed) = PackedArray::open_in(&storage, path) {
        let more = array(3, columns, &dtype, 1);
        if packed.nbytes() as u64 <= LIMIT {
            let _ = AppendOptions::default().threads(1).append_in(&storage, path, &more);
        }
    }
});
