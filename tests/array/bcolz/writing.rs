//! What we write, and what is left when writing is cut short.

use std::fs;
use std::path::Path;

use kiste::array::bcolz::{BcolzArray, BcolzOptions, BcolzTable};
use kiste::array::{PackOptions, PackedArray, Rows};
use kiste::format::__private::bcolz::{Sizes, Storage as Meta};
use kiste::format::blosc::{Codec, Shuffle};
use kiste::storage::MemoryStorage;
use kiste::value::{DType, NdArray, Order};
use kiste::{Error, ErrorKind};
use ndarray::Array2;

use super::{array_in, golden_dir, manifest, open_in, table_in};

fn write(options: &BcolzOptions, rows: &dyn Rows) -> kiste::Result<MemoryStorage> {
    let storage = MemoryStorage::new();
    options.write_in(&storage, Path::new("a"), rows).map(|()| storage)
}

#[test]
fn golden_arrays_are_written_with_the_same_small_files() {
    let mut count = 0;
    for (name, entry) in manifest() {
        let codec: Option<Codec> =
            name.split('_').nth(1).filter(|_| name.starts_with("c_")).and_then(|n| n.parse().ok());
        let is_written = codec.is_none_or(Codec::is_writable);
        if entry["kind"] != "carray" || entry["expect"]["ok"] != true || !is_written {
            continue;
        }
        count += 1;
        let array = BcolzArray::open(golden_dir().join(&name)).unwrap();
        let info = array.info().unwrap();
        let options = BcolzOptions::default()
            .codec(info.cparams.cname.parse().unwrap())
            .level(info.cparams.clevel)
            .shuffle([Shuffle::None, Shuffle::Byte, Shuffle::Bit][info.cparams.shuffle as usize])
            .chunklen(array.chunklen())
            .expectedlen(info.expectedlen)
            .fill(array.fill().unwrap())
            .attrs(array.attrs().clone());
        let storage = write(&options, &array).unwrap();
        let again = array_in(&storage).unwrap();
        assert_eq!(again.read().unwrap(), array.read().unwrap(), "{name}");
        assert_eq!(again.attrs(), array.attrs());
        let golden = |file: &str| fs::read(golden_dir().join(&name).join(file)).unwrap();
        // What was rounded before is not said to be rounded again.
        if name != "quantize" {
            let text = golden("meta/storage");
            assert_eq!(storage.get("a/meta/storage").unwrap(), text, "{name}");
            // The chunks follow the version of the codec; what they hold does not.
            let (ours, theirs) = (storage.get("a/meta/sizes").unwrap(), golden("meta/sizes"));
            let sizes = |bytes: &[u8]| Sizes { cbytes: 0, ..Sizes::parse(bytes).unwrap() };
            assert_eq!(sizes(&ours), sizes(&theirs), "{name}");
            if info.cparams.clevel == 0 || again.len() < again.chunklen() {
                assert_eq!(ours, theirs, "{name}");
            }
        }
    }
    assert!(count > 30);
}

#[test]
fn chunks_are_as_long_as_bcolz_would_make_them() {
    for name in ["i8_defaults", "empty", "one", "nd_3d_defaults", "nd_zero_rows", "expectedlen"] {
        let array = BcolzArray::open(golden_dir().join(name)).unwrap();
        let options = BcolzOptions::default().expectedlen(array.info().unwrap().expectedlen);
        let storage = write(&options, &array).unwrap();
        let file = fs::read(golden_dir().join(name).join("meta/storage")).unwrap();
        assert_eq!(storage.get("a/meta/storage").unwrap(), file, "{name}");
        assert_eq!(storage.get("a/meta/sizes").unwrap(), {
            fs::read(golden_dir().join(name).join("meta/sizes")).unwrap()
        });
    }
}

#[test]
fn structured_arrays_become_tables() {
    let dtype = "[('id', '<i4'), ('', '|V4'), ('x', '>f4', (2, 3)), ('name', '<U3')]";
    let dtype: DType = dtype.parse().unwrap();
    let bytes: Vec<u8> = (0..50 * dtype.item_size()).map(|i| (i % 7) as u8).collect();
    let array = NdArray::new(dtype.clone(), [50], bytes).unwrap();
    let mut fill = vec![0; dtype.item_size()];
    fill[0] = 9;
    let storage = write(&BcolzOptions::default().fill(fill).attr("k", 1), &array).unwrap();
    let table = table_in(&storage).unwrap();
    assert_eq!(table.names().collect::<Vec<_>>(), ["id", "x", "name"]);
    for name in table.names() {
        assert_eq!(table.column(name).unwrap().read().unwrap(), array.field(name).unwrap());
    }
    assert_eq!(table.attrs()["k"], 1);
    assert_eq!(table.column("id").unwrap().fill().unwrap(), [9, 0, 0, 0]);
    assert_eq!(storage.get("a/__rootdirs__").unwrap(), b"{\"names\": [\"id\", \"x\", \"name\"]}\n");
    // And a table becomes a table.
    let golden = BcolzTable::open(golden_dir().join("ct_chunks")).unwrap();
    let storage = write(&BcolzOptions::default().chunklen(64), &golden).unwrap();
    assert_eq!(table_in(&storage).unwrap().read().unwrap(), golden.read().unwrap());
    for file in ["__rootdirs__", "__attrs__", "nd/meta/storage", "a/meta/storage"] {
        let theirs = fs::read(golden_dir().join("ct_chunks").join(file)).unwrap();
        assert_eq!(storage.get(Path::new("a").join(file)).unwrap(), theirs, "{file}");
    }
}

#[test]
fn packed_arrays_and_other_orders_are_sources() {
    let numbers = Array2::from_shape_fn((1000, 7), |(i, j)| (i * 7 + j) as u16);
    let array = NdArray::from_ndarray(&numbers);
    let fortran = numbers.t().to_owned();
    let fortran = NdArray::from_ndarray(&fortran);
    let turned = NdArray::with_order(DType::of::<u16>(), [7, 1000], Order::F, array.bytes());
    let packed = PackOptions::default().chunk_size(500).pack(&array).unwrap();
    let packed = PackedArray::from_bytes(packed).unwrap();
    let turned = turned.unwrap();
    for (source, expected) in [
        (&array as &dyn Rows, &array),
        (&packed, &array),
        (&fortran, &fortran),
        (&turned, &fortran),
    ] {
        for chunklen in [1, 3, 64, 1000, 5000] {
            let storage = write(&BcolzOptions::default().chunklen(chunklen), source).unwrap();
            assert_eq!(array_in(&storage).unwrap().read().unwrap(), *expected);
        }
    }
}

#[test]
fn large_arrays_go_there_and_back_on_several_threads() {
    let numbers = ndarray::Array1::from_iter((0..3_000_000_u32).map(|i| i / 3));
    let array = NdArray::from_ndarray(&numbers);
    let storage = write(&BcolzOptions::default(), &array).unwrap();
    let again = array_in(&storage).unwrap();
    assert_eq!(again.chunklen(), 131_072); // 512 KiB, as there are more than 10 MiB
    assert_eq!(again.read().unwrap(), array);
    let every_third: Vec<usize> = (0..1_000_000).map(|i| 2_999_999 - 3 * i).collect();
    let found = again.select(&every_third).unwrap();
    let expected: Vec<u32> = every_third.iter().map(|&i| i as u32 / 3).collect();
    assert_eq!(found.to_ndarray::<u32>().unwrap().into_raw_vec_and_offset().0, expected);
}

#[test]
fn what_bcolz_could_not_open_is_not_written() {
    let plain = NdArray::from_ndarray(&ndarray::arr1(&[1_u8, 2])).into_owned();
    let of = |dtype: &str, shape: &[usize]| {
        let dtype: DType = dtype.parse().unwrap();
        let size = dtype.item_size() * shape.iter().product::<usize>();
        NdArray::new(dtype, shape, vec![0; size]).unwrap()
    };
    for (array, kind) in [
        (NdArray::scalar(1_u8), ErrorKind::Invalid),
        (of("S0", &[3]), ErrorKind::Invalid),
        (of("<i4", &[3, 0]), ErrorKind::Invalid),
        (of("[('a', '<i4')]", &[3, 2]), ErrorKind::Invalid),
        (of("[('', '|V4')]", &[3]), ErrorKind::Invalid),
        (of("[('a/b', '<i4')]", &[3]), ErrorKind::Invalid),
        (of("[('a', [('b', '<i4')])]", &[3]), ErrorKind::Unsupported),
    ] {
        let storage = MemoryStorage::new();
        let done = BcolzOptions::default().write_in(&storage, Path::new("a"), &array);
        assert_eq!(done.unwrap_err().kind(), kind, "{array:?}");
        assert!(storage.names().is_empty());
    }
    for options in [
        BcolzOptions::default().chunklen(0),
        BcolzOptions::default().level(10),
        BcolzOptions::default().codec(Codec::Snappy),
        BcolzOptions::default().fill([1, 2]),
    ] {
        assert_eq!(write(&options, &plain).unwrap_err().kind(), ErrorKind::Invalid);
    }
    let storage = write(&BcolzOptions::default(), &plain).unwrap();
    let done = BcolzOptions::default().write_in(&storage, Path::new("a/"), &plain);
    assert_eq!(done.unwrap_err().kind(), ErrorKind::AlreadyExists);
}

/// Rows of which some cannot be read.
struct Broken;

impl Rows for Broken {
    fn dtype(&self) -> &DType {
        static DTYPE: std::sync::OnceLock<DType> = std::sync::OnceLock::new();
        DTYPE.get_or_init(DType::of::<u64>)
    }

    fn shape(&self) -> &[usize] {
        &[1 << 30]
    }

    fn step(&self) -> usize {
        1 << 10
    }

    fn read_rows(&self, rows: std::ops::Range<usize>) -> kiste::Result<NdArray<'static>> {
        match rows.start {
            0 => NdArray::new(DType::of::<u64>(), [rows.len()], vec![0; rows.len() * 8]),
            _ => Err(Error::new(ErrorKind::Damaged, "a bad sector")),
        }
    }
}

#[test]
fn nothing_is_left_of_what_failed() {
    let storage = MemoryStorage::new();
    let done = BcolzOptions::default().chunklen(9000).write_in(&storage, Path::new("a"), &Broken);
    assert_eq!(done.unwrap_err().message(), "a bad sector");
    assert!(storage.names().is_empty(), "{:?}", storage.names());
}

#[test]
fn killed_at_any_step_there_is_all_of_it_or_nothing() {
    let array = NdArray::new("[('a', '<i2'), ('b', '|u1')]".parse().unwrap(), [5], vec![3; 15]);
    let array = array.unwrap();
    let options = BcolzOptions::default().chunklen(2);
    let steps = write(&options, &array).unwrap().operations();
    for step in 0..=steps {
        for seed in 0..4 {
            let storage = MemoryStorage::new();
            storage.fail_after(step);
            let done = options.write_in(&storage, Path::new("a"), &array);
            match seed {
                0 => storage.restart(),
                seed => storage.lose_power(seed - 1),
            }
            match open_in(&storage) {
                Ok(found) => assert_eq!(found.read_rows(0..5).unwrap(), array),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NotFound, "{step} {seed}");
                    assert!(done.is_err(), "{step} {seed}");
                }
            }
        }
    }
}

#[test]
fn default_values_stand_in_the_file() {
    let floats = NdArray::from_ndarray(&ndarray::arr1(&[1.5_f32])).into_owned();
    let storage = write(&BcolzOptions::default().fill(f32::NAN.to_le_bytes()), &floats).unwrap();
    let file = storage.get("a/meta/storage").unwrap();
    assert!(String::from_utf8(file.clone()).unwrap().ends_with("\"dflt\": NaN}\n"));
    assert!(
        f32::from_le_bytes(Meta::parse(&file).unwrap().fill().unwrap().try_into().unwrap())
            .is_nan()
    );
}
