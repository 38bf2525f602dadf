//! State that a forked child must not share with its parent.

use std::process;
use std::sync::OnceLock;

/// A value that each process makes for itself: a child that was forked with an open connection would
/// mix its requests with those of its parent, and may find locks held by threads that it does not
/// have.
pub(super) struct PerProcess<T> {
    process: OnceLock<u32>,
    value: OnceLock<T>,
    child: OnceLock<Box<PerProcess<T>>>,
}

impl<T> PerProcess<T> {
    pub(super) const fn new() -> PerProcess<T> {
        PerProcess { process: OnceLock::new(), value: OnceLock::new(), child: OnceLock::new() }
    }

    /// The value of this process.
    pub(super) fn get(&self, make: impl FnOnce() -> T) -> &T {
        let now = process::id();
        let mut of = self;
        while *of.process.get_or_init(|| now) != now {
            of = of.child.get_or_init(|| Box::new(PerProcess::new()));
        }
        of.value.get_or_init(make)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_makes_its_own() {
        let value = PerProcess::new();
        assert_eq!((value.get(|| 1), value.get(|| 2)), (&1, &1));
        // As if this were the child of the process that made it.
        let inherited: PerProcess<i32> = PerProcess::new();
        inherited.process.set(0).unwrap();
        inherited.value.set(3).unwrap();
        assert_eq!((inherited.get(|| 4), inherited.get(|| 5)), (&4, &4));
    }
}
