//! Forked processes: a child reads on, and leaves everything of its parent alone.

use std::time::Instant;

use super::uploads::s3;
use super::*;
use kiste::loader::Loader;
use kiste::sampler::Shuffle;
use kiste::storage::{LocalStorage, Storage};

/// No run takes as long, on any machine: this one hangs.
const HANGS: Duration = Duration::from_secs(120);

/// A process is forked in the middle of an epoch: parent and child read on, each over connections of its
/// own.
#[test]
fn a_forked_child_reads_and_so_does_its_parent() {
    let place = Place::new(20_000, 300, true);
    let cache = tempfile::tempdir().unwrap();
    let options = RemoteOptions::default().cache(cache.path(), 8 << 20);
    let (storage, path) = RemoteStorage::open(&place.url(), options).unwrap();
    let reader = DatasetReader::options().storage(Arc::new(storage)).open(path).unwrap();
    let epoch = |seed: u64, threads: usize| {
        let sampler = Shuffle::new(20_000, seed);
        let options = Loader::options(Arc::new(reader.clone()), sampler).batch_size(100);
        options.epochs(1).threads(threads).raw().unwrap()
    };
    for _ in 0..3 {
        // Its threads are fetching.
        let mut live = epoch(1, 3);
        live.next().unwrap().unwrap();
        let child = fork(|| {
            let is_right = |index: usize| {
                reader.get_raw(index).unwrap() == place.local.get_raw(index).unwrap()
            };
            let found = reader.find(&key(12_345)).unwrap() == Some(12_345);
            let samples: usize = epoch(2, 2).take(40).map(|batch| batch.unwrap().data.len()).sum();
            found && (0..20_000).step_by(977).all(is_right) && samples == 4000
        });
        assert_eq!(live.map(|batch| batch.unwrap().data.len()).sum::<usize>(), 19_900);
        assert_eq!(child.wait(), Some(0));
    }
}

#[test]
fn a_forked_child_leaves_the_writer_of_its_parent_alone() {
    let server = Server::start();
    let url = "s3://d/new.msgpack";
    let (storage, _) = RemoteStorage::open(url, s3(&server)).unwrap();
    let options = Writer::options().storage(Arc::new(storage)).overwrite(true);
    let mut writer = Some(options.create(url).unwrap());
    // More than a part is on its way.
    let write = |writer: &mut Writer, from: u64| {
        (from..from + 100).for_each(|i| writer.write_raw(&key(i), &sample(i, 100_000)).unwrap());
    };
    write(writer.as_mut().unwrap(), 0);
    server.requests();
    for finishes in [false, true] {
        let child = fork(|| {
            let writer = writer.take().unwrap();
            match finishes {
                true => writer.finish().unwrap_err().kind() == kiste::ErrorKind::Unsupported,
                false => true,
            }
        });
        assert_eq!(child.wait(), Some(0));
    }
    let mut writer = writer.unwrap();
    write(&mut writer, 100);
    writer.finish().unwrap();
    let requests = server.requests();
    let removed = requests.iter().filter(|request| request.method == "DELETE");
    // Those of the parent: what it replaces, and its mark.
    let partial = removed.filter(|request| request.path == "/d/new.msgpack.partial").count();
    assert_eq!(partial, 1);
    let (storage, path) = RemoteStorage::open(url, s3(&server)).unwrap();
    let reader = DatasetReader::options().storage(Arc::new(storage)).open(path).unwrap();
    assert_eq!(reader.len(), 200);
    assert_eq!(reader.get_raw(150).unwrap(), sample(150, 100_000));
}

#[test]
fn a_forked_child_leaves_a_local_writer_of_its_parent_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new.msgpack");
    let mut writer = Some(Writer::create(&path).unwrap());
    let child = fork(|| writer.take().is_some());
    assert_eq!(child.wait(), Some(0));
    let mut writer = writer.unwrap();
    writer.write_raw(&key(0), &sample(0, 10)).unwrap();
    writer.finish().unwrap();
    assert_eq!(DatasetReader::open(&path).unwrap().len(), 1);
}

/// A child has the files of its parent open, and with them would keep their locks.
#[test]
fn a_forked_child_keeps_no_lock_of_its_parent() {
    let dir = tempfile::tempdir().unwrap();
    let (storage, path) = (LocalStorage::positioned(), dir.path().join("lock"));
    let lock = storage.lock(&path).unwrap().unwrap();
    let gone = dir.path().join("gone");
    // It lives until it is stopped.
    let child = fork(|| {
        while !gone.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    });
    assert!(storage.lock(&path).unwrap().is_none());
    drop(lock);
    let mut free = storage.lock(&path).unwrap();
    assert!(free.is_some());
    // Nor does it end one.
    let child_of_holder = fork(|| {
        drop(free.take());
        true
    });
    assert_eq!(child_of_holder.wait(), Some(0));
    assert!(storage.lock(&path).unwrap().is_none());
    std::fs::write(&gone, "").unwrap();
    assert_eq!(child.wait(), Some(0));
}

struct Forked(libc::pid_t);

/// Runs this in a child, which ends with 0 if it is true.
#[expect(unsafe_code, reason = "a fork is what is tested")]
fn fork(work: impl FnOnce() -> bool) -> Forked {
    // SAFETY: the child calls code that allocates, which the C libraries that tests run on allow, and ends
    // without running destructors or handlers of the parent.
    match unsafe { libc::fork() } {
        0 => {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // SAFETY: ends the process.
            unsafe { libc::_exit(i32::from(!done.unwrap_or(false))) }
        }
        child => Forked(child),
    }
}

impl Forked {
    /// How it ended; `None` if it hangs, and is killed.
    #[expect(unsafe_code, reason = "see `fork`")]
    fn wait(self) -> Option<i32> {
        let begin = Instant::now();
        let mut status = 0;
        loop {
            // SAFETY: `status` outlives the call.
            if unsafe { libc::waitpid(self.0, &mut status, libc::WNOHANG) } == self.0 {
                return Some(status);
            }
            if begin.elapsed() > HANGS {
                // SAFETY: it is our child, which was not waited for.
                unsafe { libc::kill(self.0, libc::SIGKILL) };
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
