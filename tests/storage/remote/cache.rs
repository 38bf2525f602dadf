//! The cache on disk: what is in it is right, belongs to one version, and never takes more room than it may.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Stdio};

use super::server::Fault;
use super::*;
use kiste::loader::Loader;
use kiste::sampler::{BlockShuffle, Shuffle};
use kiste::storage::Cache;
use kiste::{ErrorKind, Reader};

const LIMIT: u64 = 64 << 20;

/// A reader with a cache, and its storage.
fn cached(place: &Place, dir: &Path, limit: u64) -> (DatasetReader, RemoteStorage) {
    let (storage, path) =
        RemoteStorage::open(&place.url(), place.options().cache(dir, limit)).unwrap();
    let options = DatasetReader::options().storage(Arc::new(storage.clone()));
    (options.open(path).unwrap(), storage)
}

/// Reads every sample and compares it. Bytes that came from the server.
fn read_all(place: &Place, reader: &DatasetReader) -> u64 {
    place.server.requests();
    let all: Vec<usize> = (0..reader.len()).collect();
    for part in all.chunks(500) {
        reader.prefetch(part);
        for &index in part {
            assert_eq!(reader.get_raw(index).unwrap(), place.local.get_raw(index).unwrap());
        }
    }
    place.server.sent()
}

/// The bytes of all files of a directory.
fn size_of(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|m| m.len()).sum()
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|e| e == "seg")).collect()
}

#[test]
fn what_was_read_is_not_fetched_again() {
    let place = Place::new(5_000, 1000, true);
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("new/cache");
    let first = read_all(&place, &cached(&place, &cache, LIMIT).0);
    assert!(first >= place.local.data_len() - (16 << 10), "{first}");
    let (reader, storage) = cached(&place, &cache, LIMIT);
    // Opening asks which version it is.
    assert_eq!(read_all(&place, &reader), 0);
    assert!(storage.traffic().cached >= place.local.data_len() - (32 << 10));
    assert_eq!(reader.find(&key(3_000)).unwrap(), Some(3_000));
    // Single reads, of parts of what was cached.
    let (reader, _) = cached(&place, &cache, LIMIT);
    reader.byte_range(2_000).unwrap();
    place.server.requests();
    for index in [2_000, 2_001] {
        assert_eq!(reader.get_raw(index).unwrap(), place.local.get_raw(index).unwrap());
    }
    assert_eq!(place.server.sent(), 0);
    assert!(size_of(&cache) <= LIMIT);
    let cache = Cache::open(&cache, LIMIT).unwrap();
    let usage = cache.usage().unwrap();
    assert!(usage.bytes > place.local.data_len() && usage.objects >= 2, "{usage:?}");
    drop((reader, storage));
    assert_eq!(cache.clear().unwrap().files, 0);
    assert_eq!(read_all(&place, &cached(&place, cache.dir(), LIMIT).0), first);
}

type Damage = fn(&mut Vec<u8>);

#[test]
fn damage_is_noticed_and_fetched() {
    let place = Place::new(3_000, 1000, false);
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path();
    read_all(&place, &cached(&place, cache, LIMIT).0);
    let whole: BTreeMap<PathBuf, Vec<u8>> =
        segments(cache).into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    let damages: [(&str, Damage); 7] = [
        ("a bit of the data", |bytes| {
            let at = bytes.len() / 2;
            bytes[at] ^= 4;
        }),
        ("a bit of the header", |bytes| bytes[9] ^= 1),
        ("the length", |bytes| bytes[16..20].fill(0xff)),
        ("truncated", |bytes| bytes.truncate(bytes.len() / 3)),
        ("truncated to a byte", |bytes| bytes.truncate(1)),
        ("empty", Vec::clear),
        ("of another program", |bytes| bytes.fill(b'x')),
    ];
    for (what, damage) in damages {
        for (path, bytes) in &whole {
            let mut bytes = bytes.clone();
            damage(&mut bytes);
            fs::write(path, bytes).unwrap();
        }
        // What is a name of ours is read with care, what is not is left alone.
        fs::write(cache.join("notes.txt"), "mine").unwrap();
        fs::create_dir_all(cache.join("folder.seg")).unwrap();
        let (reader, _) = cached(&place, cache, LIMIT);
        let sent = read_all(&place, &reader);
        assert!(sent > 0, "{what}");
        assert_eq!(fs::read(cache.join("notes.txt")).unwrap(), b"mine");
        drop(reader);
        Cache::open(cache, LIMIT).unwrap().clear().unwrap();
        whole.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
        assert_eq!(read_all(&place, &cached(&place, cache, LIMIT).0), 0, "{what}");
    }
    assert!(cache.join("folder.seg").is_dir());
}

#[test]
fn records_of_another_object_are_not_believed() {
    let place = Place::new(3_000, 1000, false);
    let other = Place::new(3_000, 999, false);
    let [dir, foreign] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    read_all(&place, &cached(&place, dir.path(), LIMIT).0);
    read_all(&other, &cached(&other, foreign.path(), LIMIT).0);
    let foreign = segments(foreign.path());
    let largest = foreign.iter().max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    for path in segments(dir.path()) {
        fs::copy(largest, path).unwrap();
    }
    assert!(read_all(&place, &cached(&place, dir.path(), LIMIT).0) > 0);
}

#[test]
fn a_replaced_dataset_is_not_read_from_the_cache() {
    let place = Place::new(3_000, 1000, true);
    let dir = tempfile::tempdir().unwrap();
    let (old, _) = cached(&place, dir.path(), LIMIT);
    read_all(&place, &old);
    place.replace();
    let (reader, _) = cached(&place, dir.path(), LIMIT);
    let mut changed = 0;
    let data = place.server.get("/d/set.msgpack");
    for index in 0..reader.len() {
        let range = place.local.byte_range(index).unwrap();
        let raw = reader.get_raw(index).unwrap();
        assert_eq!(*raw, data[range.start as usize..range.end as usize]);
        changed += usize::from(raw != place.local.get_raw(index).unwrap());
    }
    assert!(changed > 0);
    // The reader of the old version has all of it in the cache, and no mixture.
    for index in (0..old.len()).step_by(100) {
        if let Ok(raw) = old.get_raw(index) {
            assert_eq!(raw, place.local.get_raw(index).unwrap());
        }
    }
}

#[test]
fn what_has_no_version_is_not_cached() {
    let dir = tempfile::tempdir().unwrap();
    for tag in [None, Some("W/\"1\"")] {
        let place = Place::new(3_000, 1000, false);
        place.server.retag(tag, "Mon, 23 Nov 2026 00:00:00 GMT");
        let first = read_all(&place, &cached(&place, dir.path(), LIMIT).0);
        assert_eq!(read_all(&place, &cached(&place, dir.path(), LIMIT).0), first);
        assert_eq!(size_of(dir.path()), 0);
    }
}

#[test]
fn equal_names_on_different_hosts_are_different() {
    let dir = tempfile::tempdir().unwrap();
    // The same paths, the same tags, the same sizes.
    let places = [1, 2].map(|step| {
        let place = Place::new(3_000, 1000, false);
        let mut data = fs::read(place.local.path()).unwrap();
        data.iter_mut().for_each(|byte| *byte = byte.wrapping_add(u8::from(*byte == 7) * step));
        fs::write(place.local.path(), &data).unwrap();
        place.server.put("/d/set.msgpack", data);
        place.server.retag(Some("\"same\""), "Mon, 23 Nov 2026 00:00:00 GMT");
        place
    });
    for _ in 0..2 {
        for place in &places {
            let reader = cached(place, dir.path(), LIMIT).0;
            let data = place.server.get("/d/set.msgpack");
            for index in (0..reader.len()).step_by(3) {
                let range = reader.byte_range(index).unwrap();
                let expected = &data[range.start as usize..range.end as usize];
                assert_eq!(reader.get_raw(index).unwrap(), expected);
            }
        }
    }
}

#[test]
fn a_disk_that_fails_is_no_error_of_reading() {
    let place = Place::new(3_000, 1000, true);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "no directory").unwrap();
    for cache in [file.join("below"), file.clone()] {
        let (reader, _) = cached(&place, &cache, LIMIT);
        assert!(read_all(&place, &reader) > 0);
        assert_eq!(reader.find(&key(77)).unwrap(), Some(77));
    }
    let trouble = kiste::storage::cache_trouble().unwrap();
    assert!(trouble.starts_with(&file.display().to_string()), "{trouble}");
    assert_eq!(fs::read(&file).unwrap(), b"no directory");
    // A limit of nothing is the caller's mistake.
    let error = RemoteStorage::open(&place.url(), place.options().cache(dir.path(), 10));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);
}

/// The samples of an epoch are what they should be. Bytes that came from the server.
fn epoch(place: &Place, reader: &DatasetReader, seed: u64, in_blocks: bool) -> u64 {
    let len = reader.len() as u64;
    place.server.requests();
    let options = match in_blocks {
        true => Loader::options(
            Arc::new(reader.clone()),
            BlockShuffle::new(len, 128, 16, seed).unwrap(),
        ),
        false => Loader::options(Arc::new(reader.clone()), Shuffle::new(len, seed)),
    };
    let loader = options.batch_size(250).epochs(1).threads(2).raw().unwrap();
    for batch in loader {
        let batch = batch.unwrap();
        for (index, raw) in batch.indices.iter().zip(&batch.data) {
            assert_eq!(raw[..], *place.local.get_raw(*index as usize).unwrap());
        }
    }
    place.server.sent()
}

#[test]
fn a_small_cache_holds_its_share_of_every_epoch() {
    let place = Place::new(20_000, 1000, false);
    let data = place.local.data_len();
    let dir = tempfile::tempdir().unwrap();
    let limit = data / 5;
    let mut sent = Vec::new();
    for seed in 0..3 {
        let (reader, _) = cached(&place, dir.path(), limit);
        sent.push(epoch(&place, &reader, seed, true));
        assert!(size_of(dir.path()) <= limit);
    }
    // By age there would be next to nothing left of it when it is needed.
    assert!(sent[0] <= data * 105 / 100, "{sent:?}");
    assert!(sent[1..].iter().all(|sent| *sent <= data * 88 / 100), "{sent:?} of {data}");
    // Another dataset takes the room of the one that is not used.
    let other = Place::new(20_000, 1000, false);
    let epochs = [1, 2].map(|seed| epoch(&other, &cached(&other, dir.path(), limit).0, seed, true));
    assert!(epochs[1] <= data * 88 / 100, "{epochs:?} of {data}");
    assert!(size_of(dir.path()) <= limit);
}

#[test]
fn single_samples_are_cached_too() {
    let place = Place::new(4_000, 2000, false);
    let dir = tempfile::tempdir().unwrap();
    let first = epoch(&place, &cached(&place, dir.path(), LIMIT).0, 1, false);
    let second = epoch(&place, &cached(&place, dir.path(), LIMIT).0, 2, false);
    assert!(second * 10 < first, "{second} of {first}");
}

#[cfg(feature = "cli")]
fn cat(url: &str, cache: &Path, size: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiste"));
    command.args(["cat", url, "--quiet"]).env("KISTE_CACHE", cache).env("KISTE_CACHE_SIZE", size);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Waits until the cache has bytes, or all processes have ended.
#[cfg(feature = "cli")]
fn cache_grows(cache: &Path, children: &mut [Child]) -> bool {
    while size_of(cache) == 0 {
        if children.iter_mut().all(|child| child.try_wait().unwrap().is_some()) {
            return size_of(cache) > 0;
        }
        std::thread::yield_now();
    }
    true
}

/// Eight processes at a time, some of which are killed, while a watcher adds up sizes.
#[test]
#[cfg(feature = "cli")]
fn many_processes_never_exceed_the_limit() {
    let places: Vec<Place> = (0..3).map(|i| Place::new(1_500 + i, 4000, false)).collect();
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let limit = 5 << 20;
    let done = std::sync::atomic::AtomicBool::new(false);
    let most = std::thread::scope(|scope| {
        use std::sync::atomic::Ordering::SeqCst;
        let watcher = scope.spawn(|| {
            let mut most = 0;
            loop {
                let last = done.load(SeqCst);
                most = most.max(size_of(&cache));
                if last {
                    return most;
                }
            }
        });
        for round in 0..3 {
            let start = |number: usize| {
                cat(&places[(number + round) % 3].url(), &cache, "5M").spawn().unwrap()
            };
            let mut children: Vec<Child> = (0..8).map(start).collect();
            // Two die in the middle of it.
            let begun = cache_grows(&cache, &mut children);
            assert!(begun, "nothing is cached");
            for child in &mut children[..2] {
                child.kill().unwrap();
            }
            let ended = children.iter_mut().map(|child| child.wait().unwrap().success());
            let ended: Vec<bool> = ended.collect();
            assert!(ended[2..].iter().all(|success| *success), "{ended:?}");
        }
        done.store(true, SeqCst);
        watcher.join().unwrap()
    });
    assert!(most > limit / 4 && most <= limit, "{most} of {limit}");
    // Those that died hold nothing back, and left nothing that is believed.
    for place in &places {
        let (reader, storage) = cached(place, &cache, limit);
        read_all(place, &reader);
        drop((reader, storage));
        assert!(size_of(&cache) <= limit);
    }
    assert_eq!(Cache::open(&cache, limit).unwrap().clear().unwrap().files, 0);
}

#[test]
#[cfg(feature = "cli")]
fn the_command_shows_and_empties_it() {
    let place = Place::new(500, 1000, false);
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    assert!(cat(&place.url(), &cache, "20M").status().unwrap().success());
    let run = |args: &[&str], variable: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiste"));
        command.arg("cache").args(args).env("KISTE_CACHE", variable);
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let named = cache.to_str().unwrap();
    let (code, shown, _) = run(&["--json"], named);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((code, shown["dir"].as_str()), (Some(0), Some(named)));
    assert!(shown["bytes"].as_u64().unwrap() > 450_000, "{shown}");
    let (code, shown, _) = run(&[named, "--clear"], "");
    assert_eq!(code, Some(0));
    assert!(shown.contains("removed") && shown.contains("0 B in 0 files"), "{shown}");
    let (code, _, error) = run(&[], "");
    assert_eq!(code, Some(2));
    assert!(error.contains("KISTE_CACHE"), "{error}");
    // A limit that is none is an error that says which variable it is.
    let output = cat(&place.url(), &cache, "much").stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("KISTE_CACHE_SIZE: expected a size"), "{error}");
}

#[test]
fn trouble_with_the_server_is_not_cached() {
    let place = Place::new(3_000, 1000, false);
    let dir = tempfile::tempdir().unwrap();
    place.server.fail(|n, _| match n % 5 {
        0 => Some(Fault::Cut(300)),
        1 => Some(Fault::Status(503, None)),
        _ => None,
    });
    read_all(&place, &cached(&place, dir.path(), LIMIT).0);
    place.server.fail(|_, _| None);
    assert_eq!(read_all(&place, &cached(&place, dir.path(), LIMIT).0), 0);
}
