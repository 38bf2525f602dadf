//! How long a thread was on a core, as the system counts it.
//!
//! A page fault of a memory map looks like decoding: the thread stands still in the middle of it.
//! The system knows that the thread was on no core then. Only Linux says so in files, without
//! unsafe code.

/// The times of one thread since it began, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct OfThread {
    /// Nanoseconds on a core.
    pub(super) on_core: u64,
    /// Nanoseconds in which it could have run, but another thread had the core.
    pub(super) for_core: u64,
    /// Page faults that waited for a disk.
    pub(super) faults: u64,
}

/// `None` where the system does not say.
#[cfg(target_os = "linux")]
pub(super) fn of_this_thread() -> Option<OfThread> {
    let (mut schedstat, mut stat) = ([0; LONGEST], [0; LONGEST]);
    parse(
        read("/proc/thread-self/schedstat", &mut schedstat)?,
        read("/proc/thread-self/stat", &mut stat)?,
    )
}

/// Bytes of a file that says it, and more.
#[cfg(target_os = "linux")]
const LONGEST: usize = 2048;

/// A file that is shorter than the memory for it. Batches allocate nothing, so this does not either.
#[cfg(target_os = "linux")]
fn read<'m>(path: &str, memory: &'m mut [u8; LONGEST]) -> Option<&'m str> {
    use std::io::Read;

    let mut file = std::fs::File::open(path).ok()?;
    let mut len = 0;
    while len < LONGEST {
        match file.read(&mut memory[len..]).ok()? {
            0 => return std::str::from_utf8(&memory[..len]).ok(),
            more => len += more,
        }
    }
    None
}

#[cfg(not(target_os = "linux"))]
pub(super) fn of_this_thread() -> Option<OfThread> {
    None
}

/// See `proc_pid_stat(5)`: the name of the thread is in parentheses and may hold any characters.
#[cfg(any(target_os = "linux", test))]
fn parse(schedstat: &str, stat: &str) -> Option<OfThread> {
    let mut times = schedstat.split_ascii_whitespace().map(|number| number.parse().ok());
    let (on_core, for_core) = (times.next()??, times.next()??);
    // A system that does not count has zeros there.
    if on_core == 0 {
        return None;
    }
    let fields = &stat[stat.rfind(')')? + 1..];
    let faults = fields.split_ascii_whitespace().nth(9)?.parse().ok()?;
    Some(OfThread { on_core, for_core, faults })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_linux_are_read() {
        let stat = "28602 (a) 1 (b) R 28599 28599 7379 0 -1 4194304 109 0 17 0 0 0 0 0 20 0";
        let expected = OfThread { on_core: 250_610, for_core: 42, faults: 17 };
        assert_eq!(parse("250610 42 2\n", stat), Some(expected));
        for (schedstat, stat) in [
            ("0 0 0\n", stat),
            ("1\n", stat),
            ("a b c\n", stat),
            ("1 2 3\n", "1 (a) R 2"),
            ("", ""),
        ] {
            assert_eq!(parse(schedstat, stat), None);
        }
    }

    #[test]
    fn a_thread_that_works_is_on_a_core() {
        let Some(before) = of_this_thread() else { return };
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 50 {}
        let after = of_this_thread().unwrap();
        assert!(after.on_core > before.on_core);
    }
}
