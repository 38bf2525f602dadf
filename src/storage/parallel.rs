//! The same work on several threads.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use super::read_ahead;

/// Calls `work` with each of these, on this thread and at most `threads - 1` others.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Relaxed);
            let Some(item) = items.get(at) else { return done };
            done.push((at, work(item)));
        }
    };
    let helpers = threads.min(items.len()).saturating_sub(1);
    let context = read_ahead::context();
    let mut done = thread::scope(|scope| {
        let (take, context) = (&take, &context);
        // Without another thread this one does it all.
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, move || context.run(take)).ok();
        let helpers: Vec<_> = (0..helpers).map_while(spawn).collect();
        let mut done = take();
        for helper in helpers {
            done.extend(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}
