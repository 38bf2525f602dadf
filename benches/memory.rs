//! How much memory a measured piece of work takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// Watches the memory of this process while it lives.
pub(crate) struct Memory {
    stop: Arc<AtomicBool>,
    watch: JoinHandle<u64>,
}

impl Memory {
    /// Watches what this line of `/proc/self/status` tells: `RssAnon:` is memory without mapped
    /// files, whose pages the kernel takes back when it wants, `VmRSS:` with them.
    pub(crate) fn watch(line: &'static str) -> Memory {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let watch = std::thread::spawn(move || {
            let before = memory(line);
            let mut most = before;
            while !seen.load(Relaxed) {
                most = most.max(memory(line));
                std::thread::sleep(Duration::from_millis(5));
            }
            most - before
        });
        Memory { stop, watch }
    }

    /// How many bytes more there were at most than at the beginning.
    pub(crate) fn growth(self) -> u64 {
        self.stop.store(true, Relaxed);
        self.watch.join().unwrap_or_default()
    }
}

/// 0 where the system does not tell.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
