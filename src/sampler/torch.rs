//! The share of a torch worker, as Python datadings computes it.

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};

/// A worker of a process, as torch counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TorchWorker {
    /// The rank of this process, below `world_size`.
    pub rank: u64,
    /// How many processes there are.
    pub world_size: u64,
    /// The number of this worker in its process, below `num_workers`.
    pub worker: u64,
    /// How many workers each process has.
    pub num_workers: u64,
}

/// The indices that datadings' torch `IterableDataset` gives to a worker in an epoch.
///
/// The dataset is cut into as many runs as there are workers, in floating point and with halves
/// rounded to even, exactly as Python does it; ranks change runs from epoch to epoch. A run can be
/// empty (where Python fails). For anything but Python's exact runs see
/// [`Partition`](super::Partition), which gives all ranks equally many batches.
///
/// ```
/// use kiste::sampler::{TorchWorker, torch_shard};
///
/// let worker = TorchWorker { rank: 0, world_size: 1, worker: 1, num_workers: 4 };
/// assert_eq!(torch_shard(10, worker, None, 0)?, 2..5);
/// # Ok::<(), kiste::Error>(())
/// ```
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if there is no such worker or a batch has no samples, and where
/// Python refuses, too: if the last batch of a run could be empty.
pub fn torch_shard(
    samples: u64,
    at: TorchWorker,
    batch_size: Option<u64>,
    epoch: u64,
) -> Result<Range<u64>> {
    let invalid = |message: String| Error::new(ErrorKind::Invalid, message);
    if at.rank >= at.world_size || at.worker >= at.num_workers {
        let TorchWorker { rank, world_size, worker, num_workers } = at;
        return Err(invalid(format!(
            "no worker {worker} of {num_workers} in process {rank} of {world_size}"
        )));
    }
    let shards = u128::from(at.world_size) * u128::from(at.num_workers);
    let per_shard = samples as f64 / shards as f64;
    if let Some(batch_size) = batch_size {
        if batch_size == 0 {
            return Err(invalid("a batch of 0 samples, expected 1 or more".into()));
        }
        let rest = per_shard % batch_size as f64;
        if 0.0 < rest && rest < 1.0 {
            return Err(invalid(format!(
                "{per_shard} samples per worker leave {rest} for the last batch, which may be \
                 empty: change the batch size or the number of workers or processes"
            )));
        }
    }
    // Only the rest of `rank + epoch` modulo the world counts; so nothing overflows.
    let turn = (u128::from(at.rank) + u128::from(epoch)) % u128::from(at.world_size);
    let shard = turn * u128::from(at.num_workers) + u128::from(at.worker);
    let bound = |shard: u128| ((per_shard * shard as f64).round_ties_even() as u64).min(samples);
    let start = bound(shard);
    let stop = if shard + 1 == shards { samples } else { bound(shard + 1) };
    Ok(start..stop.max(start))
}
