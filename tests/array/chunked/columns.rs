//! Structured types: each field in a directory of its own, read alone.

use kiste::ErrorKind;
use kiste::array::At;
use kiste::storage::{MemoryStorage, Storage};
use kiste::value::{DType, NdArray};

use super::{open, options, root};
use crate::support::{restore, snapshot};

const TYPE: &str = "[('id', '<u4'), ('', '|V2'), ('at', [('x.y', '<f8'), ('n', '|i1', (3,))])]";

/// So many elements, in bytes; the padding is 0xee.
fn elements(ids: std::ops::Range<u32>) -> Vec<u8> {
    let element = |id: u32| {
        let mut bytes = id.to_le_bytes().to_vec();
        bytes.extend_from_slice(&[0xee; 2]);
        bytes.extend_from_slice(&(f64::from(id) / 2.0).to_le_bytes());
        bytes.extend_from_slice(&[id as u8, 1, 2]);
        bytes
    };
    ids.flat_map(element).collect()
}

fn written(storage: &MemoryStorage) -> DType {
    let dtype: DType = TYPE.parse().unwrap();
    let mut fill = vec![0; dtype.item_size()];
    fill[4..6].copy_from_slice(&[0xee; 2]);
    let create = options(storage).chunk_shape([10]).fill_bytes(fill).superchunk(2);
    let mut store = create.create(root(), dtype.clone(), &[0]).unwrap();
    for ids in [0..25, 25..32] {
        let shape = [ids.len()];
        let rows = NdArray::new(dtype.clone(), shape, elements(ids)).unwrap();
        store.append(&rows, "rows").unwrap();
    }
    dtype
}

#[test]
fn fields_come_back_together_and_alone() {
    let storage = MemoryStorage::new();
    let dtype = written(&storage);
    let array = open(&storage);
    let all = array.read(..).unwrap();
    assert_eq!(all, NdArray::new(dtype.clone(), [32], elements(0..32)).unwrap());
    assert_eq!(array.read(7..9).unwrap().bytes(), elements(7..9));
    let halves = array.column("at.x.y").unwrap().get::<f64>(20..).unwrap();
    assert!(halves.iter().copied().eq((20..32).map(|id| f64::from(id) / 2.0)));
    let at = array.column("at").unwrap();
    assert_eq!(at.read(..).unwrap(), all.field("at").unwrap());
    assert_eq!(at.column("x.y").unwrap().get::<f64>(3).unwrap().first(), Some(&1.5));
    let list = array.column("at.n").unwrap().read(30..).unwrap();
    let list = list.field("n").unwrap().to_ndarray::<i8>().unwrap();
    assert_eq!(list, ndarray::arr2(&[[30, 1, 2], [31, 1, 2]]).into_dyn());
    assert_eq!(array.column("no").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_column_reads_no_other() {
    let storage = MemoryStorage::new();
    written(&storage);
    let array = open(&storage);
    for dir in ["id", "at/x%2Ey", "at/n"] {
        let files = storage.list(&root().join("data").join(dir)).unwrap();
        assert_eq!(files.len(), 3, "{dir}");
    }
    storage.clear_reads();
    array.column("id").unwrap().get::<u32>(..).unwrap();
    let reads = storage.reads();
    let data = reads.iter().filter(|read| read.path.starts_with(root().join("data")));
    assert!(data.clone().count() > 0);
    assert!(data.clone().all(|read| read.path.starts_with(root().join("data/id"))));
}

#[test]
fn only_fields_that_changed_are_written() {
    let storage = MemoryStorage::new();
    let dtype = written(&storage);
    let mut store = options(&storage).open_store(root()).unwrap();
    let mut staged = store.stage().unwrap();
    let mut changed = elements(5..6);
    changed[0] = 99;
    let changed = NdArray::new(dtype, [1], changed).unwrap();
    staged.write(5..6, &changed).unwrap();
    store.commit(&mut staged, "an id").unwrap();
    for (dir, files) in [("id", 4), ("at/x%2Ey", 3), ("at/n", 3)] {
        let found = storage.list(&root().join("data").join(dir)).unwrap();
        assert_eq!(found.len(), files, "{dir}");
    }
    let ids = store.array().column("id").unwrap();
    assert_eq!(ids.get::<u32>(4..7).unwrap().into_iter().collect::<Vec<_>>(), [4, 99, 6]);
    let diff = ids.diff(&ids.at(At::Back(1)).unwrap()).unwrap();
    assert_eq!(diff.iter().map(|d| &*d.column).collect::<Vec<_>>(), ["id"]);
    assert_eq!(store.array().verify().unwrap().problems, []);
}

/// Two fields that a file system may take for one.
const ALIKE: &str = "[('x', '<u4'), ('X', '<f8')]";

fn alike(from: u32) -> NdArray<'static> {
    let element = |id: u32| [&id.to_le_bytes()[..], &f64::from(id).to_le_bytes()].concat();
    let bytes: Vec<u8> = (from..from + 5).flat_map(element).collect();
    NdArray::new(ALIKE.parse().unwrap(), [5], bytes).unwrap()
}

#[test]
fn fields_that_differ_in_case_have_directories_that_do_not() {
    let storage = MemoryStorage::new();
    let create = options(&storage).chunk_shape([4]);
    let mut store = create.create(root(), ALIKE.parse().unwrap(), &[0]).unwrap();
    store.append(&alike(0), "rows").unwrap();
    assert!(storage.get(root().join("data/x/__1__.bin")).is_some());
    assert!(storage.get(root().join("data/%58/__1__.bin")).is_some());
    let large = open(&storage).column("X").unwrap().get::<f64>(..).unwrap();
    assert!(large.iter().copied().eq((0..5).map(f64::from)));
}

/// As arrays were written before there was the escape.
#[test]
fn the_older_names_of_directories_are_read_and_kept() {
    let storage = MemoryStorage::new();
    let create = options(&storage).chunk_shape([4]);
    let mut store = create.create(root(), ALIKE.parse().unwrap(), &[0]).unwrap();
    store.append(&alike(0), "rows").unwrap();
    drop(store);
    let rename = |(path, content): (std::path::PathBuf, Option<Vec<u8>>)| {
        let named = path.to_str().unwrap().replace("%58", "X");
        let content = content.map(|bytes| match path.starts_with(root().join("meta/versions")) {
            true => {
                let text = String::from_utf8(bytes).unwrap().replace("%58", "X");
                let line = text.lines().next().unwrap();
                format!("{line}\n{}\n", blake3::hash(line.as_bytes()).to_hex()).into_bytes()
            }
            false => bytes,
        });
        (named.into(), content)
    };
    let older = restore(&snapshot(&storage).into_iter().map(rename).collect());
    assert_eq!(open(&older).read(..).unwrap(), alike(0));
    let mut store = options(&older).open_store(root()).unwrap();
    store.append(&alike(5), "more").unwrap();
    assert!(older.get(root().join("data/X/__2__.bin")).is_some());
    assert_eq!(open(&older).read(5..).unwrap(), alike(5));
    assert!(older.names().iter().all(|name| !name.to_str().unwrap().contains('%')));
}
