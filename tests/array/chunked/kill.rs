//! `kill -9` of a real process that writes, over and over.

use std::fs::DirEntry;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kiste::array::{ArrayOptions, ArrayStore, ChunkedArray, Keep};
use kiste::format::chunked::names;
use kiste::value::DType;
use ndarray::ArrayD;

use crate::support::Random;

/// Says to the child where the array is.
const VARIABLE: &str = "KISTE_TEST_ARRAY";
/// How many writers are killed; 12 unless it is there.
const KILLS: &str = "KISTE_TEST_KILLS";
/// So long a child may take to start and to commit once, before something must be wrong with it.
const PATIENCE: Duration = Duration::from_secs(120);

fn create(path: &Path) {
    let options = ArrayOptions::default().chunk_shape([8, 8]).superchunk(4);
    options.create(path, DType::of::<u64>(), &[0, 20]).unwrap();
}

/// Writes until it is killed: after version `v` every element is `v`, and there are more rows now and
/// then.
#[test]
#[ignore = "started by the test below, in a process of its own"]
fn child() {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    loop {
        let mut store = ArrayStore::open(&path).unwrap();
        for _ in 0..5 {
            let next = store.array().version() + 1;
            if next % 4 == 0 {
                store.gc(&Keep::Newest(2)).unwrap();
            }
            let mut staged = store.stage().unwrap();
            let rows = staged.shape()[0];
            staged.resize(&[(rows + 3) % 50, 20]).unwrap();
            staged.set_scalar(.., next).unwrap();
            store.commit(&mut staged, "next").unwrap();
        }
    }
}

/// Waits until the child has committed a version after this one.
fn wait_for_version(path: &Path, last: u64, child: &mut Child) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut versions = std::fs::read_dir(path.join("meta/versions")).unwrap();
        let is_newer = |entry: std::io::Result<DirEntry>| {
            let name = entry.unwrap().file_name();
            names::number_of(&name.to_string_lossy()).is_some_and(|number| number > last)
        };
        if versions.any(is_newer) {
            return;
        }
        assert_eq!(child.try_wait().unwrap(), None, "the child has ended by itself");
        assert!(Instant::now() < deadline, "the child did not get to write after version {last}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_killed_writer_leaves_a_whole_version() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("array");
    create(&path);
    let mut random = Random(7);
    let mut last = 1;
    let kills = std::env::var(KILLS).map_or(12, |kills| kills.parse().unwrap());
    for round in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "array::chunked::kill::child", "--ignored", "--test-threads=1"])
            .env(VARIABLE, &path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // However busy the machine is: it is killed while it writes; now and then while it starts.
        let writes = round % 4 != 3;
        if writes {
            wait_for_version(&path, last, &mut child);
        }
        std::thread::sleep(Duration::from_micros(random.next() % 50_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let array = ChunkedArray::open(&path).unwrap();
        assert!(array.version() >= last + u64::from(writes), "round {round}");
        last = array.version();
        let found: ArrayD<u64> = array.get(..).unwrap();
        assert!(found.iter().all(|n| *n == last), "round {round}, version {last}");
        let problems = array.verify().unwrap().problems;
        // Copies for people may be older: the next writer renews them.
        let copies = |file: &Path| file.parent().is_some_and(|dir| dir.ends_with("meta"));
        assert!(problems.iter().all(|problem| copies(&problem.file)), "{problems:?}");
    }
    let mut store = ArrayStore::open(&path).unwrap();
    store.gc(&Keep::Newest(1)).unwrap();
    let report = store.array().verify().unwrap();
    assert_eq!((report.problems.len(), report.unused.len(), report.versions), (0, 0, 1));
}
