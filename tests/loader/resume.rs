//! A run that stops anywhere and is resumed sees each sample once an epoch.

use kiste::loader::{Batch, Loader, LoaderOptions, Samples};
use kiste::sampler::{Partition, Shuffle, State, Tail};

use super::{Bytes, some_sampler, some_tail, v};
use crate::support::Random;

/// The batches of all ranks.
fn ranks(
    options: &LoaderOptions,
    world: u64,
    random: &mut Random,
) -> Vec<Vec<Batch<Samples<u64>>>> {
    let mut of = |rank| {
        let threads = random.below(4);
        let options = options.clone().rank(rank, world).threads(threads).queue(random.below(5));
        let mut loader = options.map(v).unwrap();
        let mut batches = Vec::new();
        while let Some(batch) = loader.next() {
            let batch = batch.unwrap();
            assert_eq!(loader.state(), batch.state);
            batches.push(batch);
        }
        assert!(loader.next().is_none());
        batches
    };
    (0..world).map(&mut of).collect()
}

/// Epoch and position of all samples of all ranks, sorted.
fn positions(ranks: &[Vec<Batch<Samples<u64>>>]) -> Vec<(u64, u64)> {
    let batches = ranks.iter().flatten();
    let mut all: Vec<(u64, u64)> =
        batches.flat_map(|b| b.positions.clone().map(|position| (b.epoch, position))).collect();
    all.sort_unstable();
    all
}

#[test]
fn each_sample_once_an_epoch_and_resumed_anywhere() {
    let reader = Bytes::count(60);
    let mut random = Random(11);
    for case in 0..150 {
        let n = random.below(60) as u64;
        let sampler = some_sampler(&mut random, n);
        let (batch, world) = (1 + random.below(9) as u64, 1 + random.below(4) as u64);
        let (tail, epochs) = (some_tail(&mut random), 1 + random.below(3) as u64);
        let what = format!("case {case}: {n} samples, {batch} × {world}, {tail:?}, {epochs}");
        let options = Loader::options(reader.clone(), sampler.clone()).tail(tail);
        let loaded = ranks(&options.clone().batch_size(batch).epochs(epochs), world, &mut random);

        let plan = Partition::new(n, batch).unwrap().world(world).unwrap().tail(tail);
        let seen = |start: u64, step: u64| match tail {
            Tail::Drop => start + (n - start) / step * step,
            _ => n,
        };
        let epoch = |epoch, positions: std::ops::Range<u64>| positions.map(move |p| (epoch, p));
        let expected: Vec<_> =
            (0..epochs).flat_map(|e| epoch(e, 0..seen(0, batch * world))).collect();
        assert_eq!(positions(&loaded), expected, "{what}");

        for (rank, batches) in loaded.iter().enumerate() {
            for b in batches {
                let order = sampler.order(b.epoch).unwrap();
                let share = plan.batch(b.step, rank as u64);
                assert_eq!(b.positions, share.positions(), "{what}");
                let indices: Vec<u64> = share.iter().map(|p| order.index_at(p)).collect();
                assert_eq!((&b.indices, &b.data), (&indices, &indices), "{what}");
                assert_eq!(b.state, plan.state_after(b.epoch, b.step), "{what}");
                if tail != Tail::Uneven {
                    assert_eq!(b.indices.len() as u64, batch, "{what}");
                }
            }
            let steps =
                (0..epochs).flat_map(|e| (0..plan.steps_of(rank as u64)).map(move |s| (e, s)));
            assert!(batches.iter().map(|b| (b.epoch, b.step)).eq(steps), "{what}");
        }

        // Stop after some step, go on otherwise.
        if loaded[0].is_empty() {
            continue;
        }
        let state = loaded[0][random.below(loaded[0].len())].state;
        let left = epochs.saturating_sub(state.epoch);
        let (batch, world) = (1 + random.below(9) as u64, 1 + random.below(4) as u64);
        let options = options.batch_size(batch).resume(state).epochs(left);
        let resumed = ranks(&options, world, &mut random);
        let mut expected = Vec::new();
        for e in state.epoch..epochs {
            let start = if e == state.epoch { state.position } else { 0 };
            expected.extend(epoch(e, start..seen(start, batch * world)));
        }
        assert_eq!(positions(&resumed), expected, "{what}: resumed at {state:?}");
        for b in resumed.iter().flatten() {
            let order = sampler.order(b.epoch).unwrap();
            let indices = b.positions.clone().map(|p| order.index_at(p));
            let real = (b.positions.end - b.positions.start) as usize;
            assert!(b.indices[..real].iter().copied().eq(indices), "{what}: at {state:?}");
        }
    }
}

#[test]
fn after_the_last_batch_all_ranks_are_at_the_same_state() {
    // Rank 1 has a batch less than rank 0.
    let reader = Bytes::count(10);
    for epochs in [1, 2] {
        for rank in 0..3 {
            let options = Loader::options(reader.clone(), Shuffle::new(10, 5)).batch_size(2);
            let options = options.rank(rank, 3).tail(Tail::Uneven);
            let mut loader = options.epochs(epochs).map(v).unwrap();
            loader.by_ref().for_each(|batch| drop(batch.unwrap()));
            assert_eq!(loader.state(), State { epoch: epochs, position: 0 }, "rank {rank}");
        }
    }
}
