//! Appending in place, as bloscpack does and where it does not, and killed at every step.

use std::path::Path;

use kiste::ErrorKind;
use kiste::array::{AppendOptions, PackOptions, PackedArray, append};
use kiste::format::blosc::{Codec, Shuffle};
use kiste::format::bloscpack::{Checksum, Container};
use kiste::storage::{MemoryStorage, Storage};
use kiste::value::NdArray;
use ndarray::{Array2, s};

use super::{golden, sample};

const FILE: &str = "a.blp";

fn content(storage: &MemoryStorage) -> Vec<u8> {
    Container::parse(storage.get(FILE).unwrap()).unwrap().to_vec().unwrap()
}

fn packed(options: &PackOptions, bytes: &[u8]) -> MemoryStorage {
    let storage = MemoryStorage::new();
    storage.put(FILE, options.pack_bytes(bytes, None).unwrap());
    storage
}

fn add(storage: &MemoryStorage, bytes: &[u8]) -> kiste::Result<()> {
    AppendOptions::default().append_bytes(storage, Path::new(FILE), bytes)
}

fn thousand() -> PackOptions {
    PackOptions::default().chunk_size(1000).typesize(4)
}

/// The sizes that the golden files were made with, and then some.
#[test]
fn what_is_appended_comes_last() {
    let cases: [(usize, &[usize]); 9] = [
        (2100, &[50]),
        (2100, &[900]),
        (2100, &[3017]),
        (2000, &[1000]),
        (1001, &[2000, 1005]),
        (1001, &[3, 4, 5]),
        (40, &[130, 5000]),
        (0, &[10, 3000]),
        (2100, &[0, 1, 0]),
    ];
    for (first, parts) in cases {
        for checksum in [Checksum::None, Checksum::Adler32, Checksum::Sha512] {
            let mut whole = sample(first, 0);
            let storage = packed(&thousand().checksum(checksum), &whole);
            for (i, &part) in parts.iter().enumerate() {
                whole.extend(sample(part, i + 1));
                add(&storage, &sample(part, i + 1)).unwrap();
                assert_eq!(content(&storage), whole, "{first} and {parts:?}");
            }
            // Nothing is left behind the end, nor beside the file.
            let bytes = storage.get(FILE).unwrap();
            let container = Container::parse(&bytes).unwrap();
            let last = container.chunks().last().unwrap().unwrap();
            assert_eq!(last.end(), bytes.len());
            assert_eq!(storage.names(), [Path::new(FILE)]);
            for (i, chunk) in container.chunks().enumerate() {
                let at = chunk.unwrap().at() as u64;
                assert_eq!(container.offsets().get(i as u64), Some(at));
            }
        }
    }
}

#[test]
fn files_that_bloscpack_appended_to_are_appended_to() {
    // To their chunks of BloscLZ, of the same codec.
    if !cfg!(feature = "c-blosc") {
        return;
    }
    for (name, bytes, entry) in golden("append") {
        let storage = MemoryStorage::new();
        storage.put(FILE, bytes);
        let mut whole = content(&storage);
        // This one has chunks of 40 bytes and offsets for a few more.
        let len = if name == "small_file_then_big" { 70 } else { 700 };
        let appended = add(&storage, &sample(len, 3));
        if name == "no_offsets" {
            assert_eq!(appended.unwrap_err().kind(), ErrorKind::Unsupported);
        } else if entry["header"]["max_app_chunks"] == 0 {
            assert_eq!(appended.unwrap_err().kind(), ErrorKind::Limit);
        } else {
            appended.unwrap_or_else(|error| panic!("{name}: {error}"));
            whole.extend(sample(len, 3));
        }
        assert_eq!(content(&storage), whole, "{name}");
    }
}

#[test]
fn a_small_file_does_not_stay_in_small_chunks() {
    let storage = packed(&thousand(), &sample(40, 0));
    add(&storage, &sample(130, 1)).unwrap();
    let bytes = storage.get(FILE).unwrap();
    let header = *Container::parse(&bytes).unwrap().header();
    assert_eq!((header.nchunks, header.last_chunk), (Some(1), Some(170)));
    assert_eq!(header.chunk_size, Some(512 << 10));
}

#[test]
fn the_codec_of_the_file_is_kept_unless_told() {
    let old = thousand().codec(Codec::Zlib).shuffle(Shuffle::Bit);
    let steps = |len: usize| (0..len).map(|i| (i / 100) as u8).collect::<Vec<u8>>();
    let storage = packed(&old, &steps(2500));
    add(&storage, &steps(2000)).unwrap();
    let other =
        AppendOptions::default().codec(Codec::Lz4).shuffle(Shuffle::None).typesize(8).level(9);
    other.append_bytes(&storage, Path::new(FILE), &steps(3000)).unwrap();
    let bytes = storage.get(FILE).unwrap();
    let container = Container::parse(&bytes).unwrap();
    let of = |i| {
        let header = *container.chunk(i).unwrap().header();
        (header.codec(), header.shuffle(), header.typesize())
    };
    assert_eq!((of(0), of(3)), ((Codec::Zlib, Shuffle::Bit, 4), (Codec::Zlib, Shuffle::Bit, 4)));
    assert_eq!(of(5), (Codec::Lz4, Shuffle::None, 8));
    assert_eq!(container.header().typesize, 4);
}

/// Refusals come before anything is written.
#[test]
fn what_cannot_be_appended_changes_nothing() {
    let refused = |storage: &MemoryStorage, bytes: &[u8]| {
        let before = storage.get(FILE);
        let error = add(storage, bytes).unwrap_err();
        assert!(storage.get(FILE) == before && storage.names().len() == 1);
        error.kind()
    };
    let tight = packed(&thousand().max_app_chunks(2), &sample(2100, 0));
    assert_eq!(refused(&tight, &sample(3000, 1)), ErrorKind::Limit);
    add(&tight, &sample(2900, 1)).unwrap();
    assert_eq!(refused(&tight, &[1]), ErrorKind::Limit);

    let damaged = packed(&thousand(), &sample(2100, 0));
    let mut bytes = damaged.get(FILE).unwrap();
    let last = bytes.len() - 10;
    bytes[last] ^= 1;
    damaged.put(FILE, bytes);
    assert_eq!(refused(&damaged, &[1]), ErrorKind::Damaged);

    let locked = packed(&thousand(), b"");
    let _lock = locked.lock_file(Path::new(FILE)).unwrap();
    assert_eq!(refused(&locked, &[1]), ErrorKind::Locked);
    let replaced = thousand().overwrite(true).write_bytes(&locked, Path::new(FILE), b"2", None);
    assert_eq!(replaced.unwrap_err().kind(), ErrorKind::Locked);
}

#[test]
fn rows_are_appended_to_arrays() {
    let table = Array2::from_shape_fn((500, 3), |(i, j)| (i * 3 + j) as i32);
    let part = |rows: std::ops::Range<usize>| {
        NdArray::from_ndarray(&table.slice(s![rows, ..])).into_owned()
    };
    let options = PackOptions::default().chunk_size(100).metadata("unit", "m").max_app_chunks(900);
    let storage = MemoryStorage::new();
    storage.put(FILE, options.pack(&part(0..50)).unwrap());
    let append =
        |rows: &NdArray<'_>| AppendOptions::default().append_in(&storage, Path::new(FILE), rows);
    for rows in [50..51, 51..51, 51..300, 300..500] {
        append(&part(rows.clone())).unwrap();
        let packed = PackedArray::open_in(&storage, Path::new(FILE)).unwrap();
        assert_eq!(packed.shape(), [rows.end, 3]);
        assert_eq!(packed.to_ndarray::<i32>().unwrap(), table.slice(s![..rows.end, ..]).into_dyn());
        let metadata = packed.container().metadata().unwrap();
        let expected = format!(
            r#"{{"dtype":"{}","shape":[{},3],"order":"C","container":"numpy","unit":"m"}}"#,
            "'<i4'", rows.end
        );
        assert_eq!(metadata.text().unwrap(), expected);
    }
    // Bytes must be rows, and rows of this type and shape.
    add(&storage, &[0; 24]).unwrap();
    assert_eq!(add(&storage, &[0; 23]).unwrap_err().kind(), ErrorKind::Invalid);
    for other in [
        NdArray::from_ndarray(&ndarray::arr2(&[[1i64, 2, 3]])).into_owned(),
        NdArray::from_ndarray(&ndarray::arr2(&[[1i32, 2]])).into_owned(),
        NdArray::from_ndarray(&ndarray::arr1(&[1i32, 2, 3])).into_owned(),
    ] {
        assert_eq!(append(&other).unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert_eq!(PackedArray::open_in(&storage, Path::new(FILE)).unwrap().shape(), [502, 3]);

    // No room for one more digit.
    let tight = PackOptions::compact().offsets(true).chunk_size(24);
    storage.put(FILE, tight.pack(&part(0..9)).unwrap());
    assert_eq!(append(&part(9..10)).unwrap_err().kind(), ErrorKind::Limit);
    let text = NdArray::scalar(5i32);
    storage.put(FILE, PackOptions::default().pack(&text).unwrap());
    assert_eq!(add(&storage, &[0; 4]).unwrap_err().kind(), ErrorKind::Invalid);
}

/// Killed at any operation, with any part of what was not synced lost: what was there can be read
/// again after recovery, or the new container is there, and never a mixture. Without recovery, all
/// but the last old chunk can be read at any time.
#[test]
fn a_crash_loses_nothing() {
    let array = Array2::from_shape_fn((500, 3), |(i, j)| (i * 3 + j) as i32);
    let rows = |end: usize| NdArray::from_ndarray(&array.slice(s![..end, ..])).into_owned();
    let as_bytes = thousand().pack_bytes(&sample(2100, 0), None).unwrap();
    let full = thousand().pack_bytes(&sample(2000, 0), None).unwrap();
    let level0 = thousand().level(0).pack_bytes(&vec![7; 2600], None).unwrap();
    let as_array = PackOptions::default().chunk_size(999).pack(&rows(300)).unwrap();
    let mut interrupted = 0;
    for (file, new) in [
        (&as_bytes, sample(50, 1)),
        (&as_bytes, sample(5000, 1)),
        (&full, sample(1500, 1)),
        // The new last chunk is shorter than the old one was.
        (&level0, vec![7; 100]),
        (&as_array, sample(1200, 1)),
    ] {
        let old = Container::parse(file).unwrap().to_vec().unwrap();
        let whole = [&old[..], &new].concat();
        for seed in 0..12 {
            for operations in 0.. {
                let storage = MemoryStorage::new();
                storage.put(FILE, file.clone());
                storage.fail_after(operations);
                let done = add(&storage, &new);
                match seed {
                    0 => storage.restart(),
                    seed => storage.lose_power(seed - 1),
                }
                let found = storage.get(FILE).unwrap();
                let torn = Container::parse(&found).unwrap();
                let size = torn.header().chunk_size.unwrap() as usize;
                for i in 0..2 {
                    let chunk = torn.chunk(i as u64).unwrap().to_vec().unwrap();
                    assert!(chunk == old[i * size..(i + 1) * size]);
                }
                if file == &as_array {
                    let opened = PackedArray::open_in(&storage, Path::new(FILE)).unwrap();
                    let opened = opened.read().unwrap().bytes().to_vec();
                    assert!(opened == whole || opened == old && done.is_err());
                    let check = append::check(&storage, Path::new(FILE));
                    if let Err(error) = check {
                        assert_eq!(error.kind(), ErrorKind::Interrupted);
                        assert!(opened == old);
                        interrupted += 1;
                    }
                }
                append::recover(&storage, Path::new(FILE)).unwrap();
                let found = content(&storage);
                assert!(found == whole || found == old && done.is_err(), "{operations}, {seed}");
                // And it goes on as if nothing had been.
                if found == old {
                    add(&storage, &new).unwrap();
                    assert!(content(&storage) == whole);
                }
                if done.is_ok() {
                    break;
                }
            }
        }
    }
    assert!(interrupted > 10);
}

/// A power failure while the 32 bytes of the header are written may leave any mixture of the old and
/// the new ones: the container opens as it was before all the same, and the next append works.
#[test]
fn a_header_of_which_a_part_was_written_loses_nothing() {
    let table = Array2::from_shape_fn((500, 3), |(i, j)| (i * 3 + j) as i32);
    let rows = NdArray::from_ndarray(&table.slice(s![..300, ..])).into_owned();
    let more = NdArray::from_ndarray(&table.slice(s![300.., ..])).into_owned().bytes().to_vec();
    let as_array = PackOptions::default().chunk_size(12).pack(&rows).unwrap();
    let as_bytes = thousand().pack_bytes(&sample(2100, 0), None).unwrap();
    // From a few chunks to more than a byte can count.
    let small = thousand().chunk_size(16).max_app_chunks(1000);
    let small = small.pack_bytes(&sample(40, 0), None).unwrap();
    let cases = [(&as_bytes, sample(50, 1)), (&small, sample(5000, 1)), (&as_array, more)];
    for (file, new) in cases {
        let old = Container::parse(file).unwrap().to_vec().unwrap();
        let whole = [&old[..], &new].concat();
        // All but the header is there.
        let mut last = file.clone();
        for operations in 0.. {
            let storage = MemoryStorage::new();
            storage.put(FILE, file.clone());
            storage.fail_after(operations);
            let done = add(&storage, &new).is_ok();
            let found = storage.get(FILE).unwrap();
            if found[..32] != file[..32] {
                check_mixtures(&last, &found[..32], &old, &whole, file == &as_array);
                break;
            }
            assert!(!done);
            last = found;
        }
    }
}

fn check_mixtures(before: &[u8], header: &[u8], old: &[u8], whole: &[u8], is_array: bool) {
    let differ: Vec<usize> = (0..32).filter(|&at| before[at] != header[at]).collect();
    assert!((1..=12).contains(&differ.len()), "{differ:?}");
    let storage = MemoryStorage::new();
    // All of them, or every 7th: both are all for some bytes.
    let step = if differ.len() > 6 { 7 } else { 1 };
    let all = 1_u32 << differ.len();
    for mixture in (0..all).step_by(step).chain([all - 1]) {
        let mut torn = before.to_vec();
        for (bit, &at) in differ.iter().enumerate() {
            torn[at] = if mixture >> bit & 1 == 1 { header[at] } else { torn[at] };
        }
        let is_new = &torn[..32] == header;
        let expected = if is_new { whole } else { old };
        storage.put(FILE, torn.clone());
        if is_array {
            let opened = PackedArray::open_in(&storage, Path::new(FILE)).unwrap();
            assert!(opened.read().unwrap().bytes() == expected, "{mixture:b}");
        }
        let check = append::check(&storage, Path::new(FILE));
        assert_eq!(check.is_ok(), is_new, "{mixture:b}");
        // The next append puts the old bytes back first, and so does a recovery by itself.
        add(&storage, &whole[..12]).unwrap();
        assert!(content(&storage) == [expected, &whole[..12]].concat(), "{mixture:b}");
        storage.put(FILE, torn);
        assert!(append::recover(&storage, Path::new(FILE)).unwrap());
        assert!(content(&storage) == expected, "{mixture:b}");
        assert!(!append::recover(&storage, Path::new(FILE)).unwrap());
    }
}

/// A recovery that is cut short itself is done again.
#[test]
fn a_crash_in_the_recovery_loses_nothing_either() {
    let file = thousand().pack_bytes(&sample(2100, 0), None).unwrap();
    let torn = (0..).find_map(|operations| {
        let storage = MemoryStorage::new();
        storage.put(FILE, file.clone());
        storage.fail_after(operations);
        add(&storage, &sample(3000, 1)).unwrap_err();
        storage.restart();
        let found = storage.get(FILE).unwrap();
        let is_torn = Container::parse(&found).unwrap().to_vec().is_err();
        is_torn.then_some(found)
    });
    let torn_header = torn.clone().map(|mut torn| {
        let storage = MemoryStorage::new();
        storage.put(FILE, file.clone());
        add(&storage, &sample(3000, 1)).unwrap();
        torn[16..24].copy_from_slice(&storage.get(FILE).unwrap()[16..24]);
        torn
    });
    assert!(torn_header != torn);
    for (torn, seed) in
        [&torn, &torn_header].into_iter().flat_map(|torn| (0..8).map(move |n| (torn, n)))
    {
        for operations in 0.. {
            let storage = MemoryStorage::new();
            storage.put(FILE, torn.clone().unwrap());
            storage.fail_after(operations);
            let done = append::recover(&storage, Path::new(FILE));
            storage.lose_power(seed);
            append::recover(&storage, Path::new(FILE)).unwrap();
            assert_eq!(content(&storage), sample(2100, 0));
            if done.is_ok() {
                break;
            }
        }
    }
}
