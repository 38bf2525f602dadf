//! `PackedArray`: read, rows, select; packing with all options.

use std::path::Path;

use kiste::ErrorKind;
use kiste::array::{ByteSize, PackOptions, PackedArray};
use kiste::format::blosc::{Codec, Shuffle};
use kiste::format::bloscpack::{Checksum, Container};
use kiste::storage::MemoryStorage;
use kiste::value::{DType, NdArray, Order};
use ndarray::{Array1, Array2, Array3, s};

use super::{golden, sample, sha256};
use crate::support::Random;

#[test]
fn arrays_of_bloscpack_are_read_and_packed_again() {
    for (name, bytes, entry) in golden("nd") {
        let expect = &entry["expect"];
        let packed = PackedArray::from_bytes(&bytes[..]).unwrap();
        let array = packed.read().unwrap();
        assert_eq!(sha256(array.bytes()), expect["sha256_stored_order"], "{name}");
        assert_eq!(sha256(&array.c_bytes()), expect["sha256_c_order"], "{name}");
        let row = array.c_bytes().len() / array.shape().first().copied().unwrap_or(1).max(1);
        if let Some(&count) = array.shape().first() {
            let part = packed.rows(count / 3..count - count / 3).unwrap();
            let expected = &array.c_bytes()[count / 3 * row..(count - count / 3) * row];
            assert_eq!(&part.c_bytes()[..], expected, "{name}");
        }
        for options in [PackOptions::default(), PackOptions::compact().chunk_size(97)] {
            let ours = options.pack(&array).unwrap();
            let again = PackedArray::from_bytes(ours).unwrap();
            assert_eq!(again.read().unwrap(), array, "{name}");
            assert_eq!((again.dtype(), again.order()), (packed.dtype(), packed.order()));
            let text = |packed: &PackedArray<'_>| {
                packed.container().metadata().unwrap().text().unwrap().into_owned()
            };
            if !name.contains("legacy") && !name.contains("aligned") {
                assert_eq!(text(&again), text(&packed), "{name}");
            }
        }
    }
}

#[test]
fn what_is_wrong_with_an_array_is_an_error() {
    for (name, bytes, entry) in golden("corrupt") {
        if entry["kind"] == "ndarray" && entry["expect"]["ok"] == false {
            let found = PackedArray::from_bytes(bytes).and_then(|packed| packed.read());
            assert_eq!(found.unwrap_err().kind(), ErrorKind::Damaged, "{name}");
        }
    }
}

#[test]
fn all_options_come_back() {
    let array = Array2::from_shape_fn((123, 7), |(i, j)| (i * 7 + j) as f32 * 0.25);
    let array = NdArray::from_ndarray(&array).into_owned();
    for codec in Codec::ALL.into_iter().filter(|codec| codec.is_writable()) {
        for shuffle in [Shuffle::None, Shuffle::Byte, Shuffle::Bit] {
            for level in [0, 1, 9] {
                for checksum in Checksum::ALL {
                    for chunk_size in [1, 28, 1000, 1 << 20] {
                        let bytes = PackOptions::default()
                            .codec(codec)
                            .shuffle(shuffle)
                            .level(level)
                            .checksum(checksum)
                            .chunk_size(chunk_size)
                            .max_app_chunks(chunk_size as u64 % 3)
                            .pack(&array)
                            .unwrap();
                        let packed = PackedArray::from_bytes(bytes).unwrap();
                        assert_eq!(packed.read().unwrap(), array);
                        let size = packed.container().header().chunk_size.unwrap();
                        assert!(size % 4 == 0 && size as usize <= chunk_size.max(4));
                    }
                }
            }
        }
    }
}

#[test]
fn chosen_rows_are_those_of_the_whole() {
    let mut random = Random(7);
    for round in 0..60 {
        let (rows, columns) = (1 + random.below(400), 1 + random.below(40));
        let array =
            Array3::from_shape_fn((rows, columns, 2), |(i, j, k)| (i * 1000 + j * 2 + k) as i64);
        let options = PackOptions::default().chunk_size(8 + random.below(5000));
        let options = if round % 2 == 0 { options } else { options.offsets(false) };
        let packed = PackedArray::from_bytes(options.pack(&NdArray::from_ndarray(&array)).unwrap());
        let packed = packed.unwrap();
        for _ in 0..10 {
            let (a, b) = (random.below(rows + 1), random.below(rows + 1));
            let range = a.min(b)..a.max(b);
            let found = packed.rows(range.clone()).unwrap();
            assert_eq!(
                found.to_ndarray::<i64>().unwrap(),
                array.slice(s![range, .., ..]).into_dyn()
            );
            let chosen: Vec<usize> = (0..random.below(20)).map(|_| random.below(rows)).collect();
            let found = packed.select(&chosen).unwrap();
            let expected = array.select(ndarray::Axis(0), &chosen);
            assert_eq!(found.to_ndarray::<i64>().unwrap(), expected.into_dyn());
        }
    }
}

#[test]
fn large_arrays_go_through_many_threads() {
    let array = Array2::from_shape_fn((3000, 200), |(i, j)| (i ^ j) as f64);
    let view = NdArray::from_ndarray(&array);
    let packed = PackedArray::from_bytes(PackOptions::default().pack(&view).unwrap()).unwrap();
    // Whole rows, some of them in each of several chunks; the same bytes with one thread.
    let header = packed.container().header();
    assert_eq!(header.chunk_size.unwrap() % 1600, 0);
    assert!(header.nchunks.unwrap() > 4);
    for threads in [1, 3] {
        let other = PackOptions::default().threads(threads).pack(&view).unwrap();
        assert!(other == packed.bytes());
    }
    assert_eq!(packed.to_ndarray::<f64>().unwrap(), array.clone().into_dyn());
    let rows = packed.rows(100..2900).unwrap();
    assert_eq!(rows.to_ndarray::<f64>().unwrap(), array.slice(s![100..2900, ..]).into_dyn());
    let mut out = vec![0.0; 600_000];
    packed.read_elements(&mut out).unwrap();
    assert!(out == array.into_raw_vec_and_offset().0);
    assert!(packed.read_elements(&mut [0i64; 3]).is_err());
}

#[test]
fn orders_and_odd_shapes() {
    let array = Array2::from_shape_fn((5, 6), |(i, j)| (10 * i + j) as u16);
    let turned = array.t();
    let turned = NdArray::from_ndarray(&turned);
    assert_eq!(turned.order(), Order::F);
    let packed = PackedArray::from_bytes(PackOptions::compact().pack(&turned).unwrap()).unwrap();
    assert_eq!(packed.order(), Order::F);
    assert_eq!(packed.read().unwrap(), turned);
    let rows = packed.rows(2..4).unwrap().to_ndarray::<u16>().unwrap();
    assert_eq!(rows, array.t().slice(s![2..4, ..]).into_dyn());

    for shape in [vec![], vec![0], vec![3, 0, 2], vec![0, 4]] {
        let len = 2 * shape.iter().product::<usize>();
        let array = NdArray::new(DType::of::<i16>(), shape.clone(), vec![1; len]).unwrap();
        let packed = PackedArray::from_bytes(PackOptions::default().pack(&array).unwrap()).unwrap();
        assert_eq!(packed.read().unwrap(), array);
        assert_eq!(packed.rows(0..0).is_ok(), !shape.is_empty());
        assert!(packed.rows(0..4).is_err() && packed.select(&[3]).is_err());
    }
    let big = NdArray::new(DType::bytes(1000), [3], sample(3000, 0)).unwrap();
    let packed = PackedArray::from_bytes(PackOptions::default().pack(&big).unwrap()).unwrap();
    assert_eq!(packed.container().header().typesize, 1);
    assert_eq!(packed.rows(1..2).unwrap().bytes(), &sample(3000, 0)[1000..2000]);
}

#[test]
fn foreign_byte_order_is_kept_and_turned() {
    let numbers = [1.5f32, -2.0, 1e9];
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    let array = NdArray::new(">f4".parse().unwrap(), [3], bytes).unwrap();
    let packed = PackedArray::from_bytes(PackOptions::default().pack(&array).unwrap()).unwrap();
    assert_eq!(packed.dtype().to_string(), ">f4");
    let mut out = [0f32; 3];
    packed.read_elements(&mut out).unwrap();
    assert_eq!(out, numbers);
}

#[test]
fn small_arrays_are_small() {
    let size = |array: NdArray<'_>, options: &PackOptions| options.pack(&array).unwrap().len();
    let compact = PackOptions::compact();
    let bare = PackOptions::compact().checksum(Checksum::None);
    let numbers = Array1::from_iter((0..10).map(f64::from));
    // Two headers, 62 bytes of metadata and 4 of its digest, a chunk of 16 + 80 and 4.
    assert_eq!(size(NdArray::from_ndarray(&numbers), &compact), 32 + 32 + 62 + 4 + 96 + 4);
    let singles = numbers.mapv(|number| number as f32);
    assert_eq!(size(NdArray::from_ndarray(&singles), &compact), 190);
    let three = numbers.slice(s![..3]);
    assert_eq!(size(NdArray::from_ndarray(&three), &compact), 173);
    assert_eq!(size(NdArray::from_ndarray(&three), &bare), 169);
}

#[test]
fn more_metadata_is_kept() {
    let array = NdArray::from_ndarray(&ndarray::arr1(&[1u8, 2])).into_owned();
    let options = PackOptions::compact().metadata("axes", serde_json::json!(["\u{fc}"]));
    let packed = PackedArray::from_bytes(options.pack(&array).unwrap()).unwrap();
    let metadata = packed.container().metadata().unwrap();
    assert!(metadata.text().unwrap().ends_with(r#""container":"numpy","axes":["\u00fc"]}"#));
    assert_eq!(metadata.value().unwrap()["axes"][0], "\u{fc}");
}

#[test]
fn files_are_written_beside_and_mapped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.blp");
    let array = NdArray::from_ndarray(&ndarray::arr1(&[1u8, 2])).into_owned();
    PackOptions::default().write(&path, &array).unwrap();
    let error = PackOptions::default().write(&path, &array).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    PackOptions::default().overwrite(true).write(&path, &array).unwrap();
    assert_eq!(PackedArray::open(&path).unwrap().read().unwrap(), array);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(PackedArray::open(dir.path().join("b")).unwrap_err().kind(), ErrorKind::NotFound);
}

/// Killed anywhere, there is the old file or the new one, and nothing else under its name.
#[test]
fn a_file_is_whole_or_not_there() {
    let (old, new) = (sample(1000, 1), sample(5000, 2));
    let options = PackOptions::default().chunk_size(700).overwrite(true);
    let content = |storage: &MemoryStorage| {
        Container::parse(storage.get("a").unwrap()).unwrap().to_vec().unwrap()
    };
    for seed in 0..4 {
        for operations in 0.. {
            let storage = MemoryStorage::new();
            storage.put("a", options.pack_bytes(&old, None).unwrap());
            storage.fail_after(operations);
            let done = options.write_bytes(&storage, Path::new("a"), &new, None);
            storage.lose_power(seed);
            let found = content(&storage);
            assert!(found == new || found == old && done.is_err(), "{operations}");
            if done.is_ok() {
                break;
            }
        }
    }
}

#[test]
fn sizes_are_read_as_by_bloscpack() {
    for (text, size) in [("1", 1), ("64B", 64), ("1K", 1024), ("0.5m", 1 << 19), ("2G", 2 << 30)] {
        assert_eq!(text.parse::<ByteSize>().unwrap().0, size, "{text}");
    }
    assert_eq!("max".parse::<ByteSize>().unwrap().0, 2_147_483_631);
    for text in
        ["", "K", "1.5.2K", "nan", "infG", "-1K", "99999999999999999999", "1e300T", "\u{fc}"]
    {
        assert!(text.parse::<ByteSize>().is_err(), "{text}");
    }
}

#[test]
fn what_cannot_be_packed_is_refused() {
    let array = NdArray::from_ndarray(&ndarray::arr1(&[1u8, 2])).into_owned();
    let refused = |options: PackOptions| options.pack(&array).unwrap_err().kind();
    assert_eq!(refused(PackOptions::default().level(10)), ErrorKind::Invalid);
    assert_eq!(refused(PackOptions::default().typesize(256)), ErrorKind::Invalid);
    assert_eq!(refused(PackOptions::default().chunk_size(0)), ErrorKind::Invalid);
    assert_eq!(refused(PackOptions::default().codec(Codec::Snappy)), ErrorKind::Invalid);
    assert_eq!(refused(PackOptions::default().max_app_chunks(u64::MAX)), ErrorKind::Limit);
    let objects = NdArray::opaque([2], vec![0x80]);
    let error = PackOptions::default().pack(&objects).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
