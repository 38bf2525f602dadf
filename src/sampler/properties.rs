//! Properties that must hold for all inputs, checked on many of them.

use super::rng::StableRng;
use super::*;

/// A bit for each index: that all are hit once, in little memory.
struct Seen(Vec<u64>);

impl Seen {
    fn new(len: u64) -> Seen {
        Seen(vec![0; len.div_ceil(64) as usize])
    }

    /// Whether the index is new.
    fn insert(&mut self, index: u64) -> bool {
        let (word, bit) = (&mut self.0[(index / 64) as usize], 1 << (index % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}

fn sorted(mut numbers: Vec<u64>) -> Vec<u64> {
    numbers.sort_unstable();
    numbers
}

/// A permutation with a true inverse.
fn assert_bijective(order: &dyn Order) {
    let n = order.len();
    let mut seen = Seen::new(n);
    for (position, index) in order.iter().enumerate() {
        assert!(index < n && seen.insert(index), "index {index} of {n}");
        assert_eq!(order.position_of(index), Some(position as u64), "of {n}");
    }
    assert_eq!(order.position_of(n), None);
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn shuffles_are_permutations() {
    for n in (0..200).chain([255, 256, 257, 1023, 4096, 4097, 65_537, 3_000_000]) {
        assert_bijective(&*Shuffle::new(n, n).order(1).unwrap());
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn block_shuffles_are_permutations() {
    let mut rng = StableRng::new(&[10]);
    for _ in 0..600 {
        let (n, block) = (rng.below(300), 1 + rng.below(40));
        let (window, seed) = (1 + rng.below(12), rng.next_u64());
        let sampler = BlockShuffle::new(n, block, window, seed).unwrap();
        assert_bijective(&*sampler.order(rng.below(5)).unwrap());
    }
    assert_bijective(&*BlockShuffle::new(2_000_003, 128, 50, 3).unwrap().order(0).unwrap());
    for (block, window) in [(1, 1), (u64::MAX, u64::MAX), (1, u64::MAX), (u64::MAX, 1)] {
        assert_bijective(&*BlockShuffle::new(99, block, window, 3).unwrap().order(0).unwrap());
    }
}

/// A window has exactly the samples of its reads.
#[test]
fn windows_are_made_of_their_reads() {
    let mut rng = StableRng::new(&[11]);
    for _ in 0..300 {
        let (n, block, window) = (rng.below(300), 1 + rng.below(40), 1 + rng.below(12));
        let order = BlockShuffle::new(n, block, window, 1).unwrap().blocks(0);
        let mut end = 0;
        for number in 0..order.windows() {
            let positions = order.window(number);
            assert_eq!(positions.start, end, "windows join");
            end = positions.end;
            assert!(positions.clone().all(|position| order.window_of(position) == number));
            let served = positions.map(|position| order.index_at(position)).collect();
            let read: Vec<u64> = order.reads(number).flatten().collect();
            assert!(order.reads(number).count() as u64 <= window);
            assert_eq!(sorted(served), sorted(read));
        }
        assert_eq!(end, n);
        assert!(order.window(order.windows()).is_empty());
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn enormous_orders_work_in_no_memory() {
    // They own nothing but these bytes: no field is a pointer.
    assert!(size_of::<Permutation>() <= 128 && size_of::<BlockOrder>() <= 256);
    let mut rng = StableRng::new(&[12]);
    for n in [100_000_000, 1 << 32, (1 << 32) + 1, 1 << 40, u64::MAX - 1, u64::MAX] {
        let shuffle = Shuffle::new(n, 1).order(0).unwrap();
        let blocks = BlockShuffle::new(n, 1000, 1000, 1).unwrap().order(0).unwrap();
        for order in [shuffle, blocks] {
            let ends = [0, 1, n - 2, n - 1];
            for position in ends.into_iter().chain((0..2000).map(|_| rng.below(n))) {
                let index = order.index_at(position);
                assert!(index < n);
                assert_eq!(order.position_of(index), Some(position), "of {n}");
            }
        }
    }
}

/// Each of the n! orders comes about equally often (χ², far beyond 6 standard deviations fails).
#[test]
fn small_shuffles_reach_all_orders_alike() {
    for (n, orders) in [(2, 2), (3, 6), (4, 24), (5, 120), (6, 720)] {
        let rounds = orders * 200;
        for by_epoch in [true, false] {
            let mut counts = std::collections::HashMap::new();
            for i in 0..rounds {
                let (seed, epoch) = if by_epoch { (0, i) } else { (i, 0) };
                let order = Shuffle::new(n, seed).order(epoch).unwrap();
                *counts.entry(order.iter().collect::<Vec<_>>()).or_insert(0u64) += 1;
            }
            let freedom = (orders - 1) as f64;
            let missing = (orders - counts.len() as u64) as f64;
            let square = |count: u64| (count as f64 - 200.0).powi(2) / 200.0;
            let chi: f64 = counts.values().map(|&count| square(count)).sum();
            let deviations = (chi + missing * 200.0 - freedom) / (2.0 * freedom).sqrt();
            assert!(deviations < 6.0, "{n}: {deviations} standard deviations");
        }
    }
}

/// Where a sample goes is uniform, and neighbours come in either order equally often.
#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn shuffles_are_good() {
    for n in [17, 100, 1000] {
        let epochs = 20_000;
        let mut at = vec![0u64; n as usize];
        let mut ascending = 0;
        let mut adjacent = 0;
        for epoch in 0..epochs {
            let order = Shuffle::new(n, 9).permutation(epoch);
            at[order.invert(n / 2) as usize] += 1;
            ascending += u64::from(order.invert(3) < order.invert(4));
            adjacent += u64::from(order.apply(1) == (order.apply(0) + 1) % n);
        }
        let expected = epochs as f64 / n as f64;
        let chi: f64 = at.iter().map(|&c| (c as f64 - expected).powi(2) / expected).sum();
        let freedom = (n - 1) as f64;
        assert!((chi - freedom) / (2.0 * freedom).sqrt() < 6.0, "{n}: {chi}");
        let half = epochs as f64 / 2.0;
        assert!((ascending as f64 - half).abs() < 6.0 * (half / 2.0).sqrt(), "{n}: {ascending}");
        let adjacent = (adjacent as f64 - epochs as f64 / (n - 1) as f64).abs();
        assert!(adjacent < 6.0 * (epochs as f64 / n as f64).sqrt(), "{n}: {adjacent}");
    }
    for n in [1000, 99_999, 1_000_000] {
        let shuffled = quality::displacement(&*Shuffle::new(n, 4).order(0).unwrap());
        // A mean of n displacements deviates by about 0.45 / √n of itself.
        let allowed = 5.0 / (n as f64).sqrt();
        assert!((shuffled.ratio() - 1.0).abs() < allowed, "{n}: {shuffled:?}");
        assert!((shuffled.step_ratio() - 1.0).abs() < allowed, "{n}: {shuffled:?}");
    }
}

/// Seeds, epochs and numbers of samples that differ by one have orders that have nothing in common.
#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn neighbouring_keys_are_unrelated() {
    let n = 100_000;
    let base = Shuffle::new(n, 4).permutation(4);
    for other in [
        Shuffle::new(n, 5).permutation(4),
        Shuffle::new(n, 4).permutation(5),
        Shuffle::new(n, 5).permutation(3),
    ] {
        let same = (0..n).filter(|&p| base.apply(p) == other.apply(p)).count();
        assert!(same < 10, "{same} fixed points, about 1 expected");
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn fill_iter_and_range_agree_with_index_at() {
    let source = |n| MixtureSource::new(n, n);
    let samplers: Vec<Box<dyn Sampler>> = vec![
        Box::new(Sequential::range(5..1000)),
        Box::new(Shuffle::new(1000, 1)),
        Box::new(BlockShuffle::new(1000, 7, 5, 1).unwrap()),
        Box::new(DatadingsShuffle::new(1000, None)),
        Box::new(DatadingsQuasiShuffle::new(1000, 50.0, 16, None).unwrap()),
        Box::new(Repeat::new(Shuffle::new(333, 1), 3).unwrap()),
        Box::new(Cycle::new(Shuffle::new(77, 1))),
        Box::new(Mixture::new(vec![source(10), source(90)], 1000, 1).unwrap()),
        Box::new(Mixture::new((0..40).map(|n| source(n % 3)).collect(), 1000, 1).unwrap()),
        Box::new(Repeat::new(BlockShuffle::new(200, 16, 3, 1).unwrap(), 4).unwrap()),
        Box::new(Mixture::new(vec![source(1), source(5000)], 20_000, 1).unwrap()),
        Box::new(Arc::new(Sequential::new(900))),
    ];
    let mut rng = StableRng::new(&[13]);
    for sampler in samplers {
        let order = sampler.order(0).unwrap();
        assert_eq!(order.len(), sampler.len());
        let len = order.len().min(9000);
        let one_by_one: Vec<u64> = (0..len).map(|position| order.index_at(position)).collect();
        assert!(one_by_one.iter().all(|&index| index < sampler.bound()));
        assert_eq!(order.range(0..len).collect::<Vec<_>>(), one_by_one);
        for _ in 0..50 {
            let start = rng.below(len + 1);
            let end = start + rng.below(len + 1 - start);
            let mut filled = vec![1];
            order.fill(start..end, &mut filled);
            assert_eq!(filled[1..], one_by_one[start as usize..end as usize]);
            assert_eq!(order.range(start..end).size_hint().0 as u64, end - start);
        }
        for &index in one_by_one.iter().take(100) {
            let first = one_by_one.iter().position(|&other| other == index);
            assert_eq!(order.position_of(index), first.map(|position| position as u64));
        }
        assert!(
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                order.index_at(sampler.len())
            }))
            .is_err()
        );
    }
}

/// An epoch that is stopped again and again, each time with other ranks, workers and batches, sees
/// what an uninterrupted one sees.
#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn every_sample_once_for_any_ranks_and_stops() {
    let mut rng = StableRng::new(&[14]);
    for _ in 0..2000 {
        let (n, seed) = (rng.below(400), rng.next_u64());
        let order = Shuffle::new(n, seed).order(3).unwrap();
        let tail = [Tail::Pad, Tail::Drop, Tail::Uneven, Tail::Even][rng.below(4) as usize];
        let mut state = State::new(3, 0);
        let (mut seen, mut extra, mut dropped) = (Vec::new(), 0, 0);
        while state.epoch == 3 {
            let (world, workers) = (1 + rng.below(5), 1 + rng.below(4));
            let batch = 1 + rng.below(20);
            let plan = Partition::new(n, batch).unwrap().world(world).unwrap();
            let plan = plan.workers(workers).unwrap().start(state.position).unwrap().tail(tail);
            let stop = rng.below(plan.steps() + 1);
            let finished = stop + 1 >= plan.steps();
            let mut step_indices = Vec::new();
            for rank in 0..world {
                let mut steps = Vec::new();
                for worker in 0..workers {
                    for (step, batch) in plan.share(rank, worker) {
                        assert_eq!(plan.worker_of(step), worker);
                        for position in batch.positions() {
                            assert_eq!(plan.place_of(position), Some((step, rank)));
                        }
                        assert_eq!(batch, plan.batch(step, rank));
                        assert!(!batch.is_empty());
                        steps.push(step);
                        if step <= stop {
                            step_indices.push((step, rank, batch));
                        }
                    }
                }
                assert_eq!(sorted(steps), (0..plan.steps_of(rank)).collect::<Vec<_>>());
                assert!(plan.steps_of(rank) + u64::from(tail == Tail::Uneven) >= plan.steps());
                assert!(plan.batch(plan.steps(), rank).is_empty());
            }
            step_indices.sort_by_key(|&(step, rank, _)| (step, rank));
            for (step, rank, part) in step_indices {
                let is_short = tail == Tail::Uneven || tail == Tail::Even;
                assert!(part.len() == batch || is_short && step + 1 == plan.steps());
                assert!(tail == Tail::Uneven || part.len() == plan.batch(step, 0).len(), "{rank}");
                assert_eq!(part.iter().count() as u64, part.len());
                let indices = part.indices(&*order);
                assert_eq!(indices.len() as u64, part.len());
                let (own, padding) = indices.split_at(indices.len() - part.padding() as usize);
                seen.extend_from_slice(own);
                extra += padding.len() as u64;
            }
            if finished {
                assert_eq!(extra, plan.padded());
                dropped = plan.dropped();
                assert!(extra < batch * world && dropped < batch * world);
                // Of this part of the epoch.
                assert!(tail != Tail::Even || extra < world);
            }
            state = if plan.steps() == 0 { State::new(4, 0) } else { plan.state_after(3, stop) };
        }
        // Not only the same set: the same order.
        let whole: Vec<u64> = order.range(0..n - dropped).collect();
        assert_eq!(seen, whole, "{n}, {tail:?}");
        assert!(dropped == 0 || tail == Tail::Drop);
        assert!(extra == 0 || tail == Tail::Pad || tail == Tail::Even);
        assert_eq!(state, State::new(4, 0));
    }
}

/// Padding continues from the beginning of the epoch, round and round if it must.
#[test]
fn padding_wraps() {
    let plan = Partition::new(5, 4).unwrap().world(3).unwrap().tail(Tail::Pad);
    let positions = |rank| plan.batch(0, rank).iter().collect::<Vec<_>>();
    assert_eq!(positions(0), [0, 1, 2, 3]);
    assert_eq!(positions(1), [4, 0, 1, 2]);
    assert_eq!(positions(2), [3, 4, 0, 1]);
    assert_eq!((plan.steps(), plan.padded()), (1, 7));
    let plan = plan.tail(Tail::Even);
    let positions = |rank| plan.batch(0, rank).iter().collect::<Vec<_>>();
    assert_eq!([0, 1, 2].map(positions), [[0, 1], [2, 3], [4, 0]]);
    assert_eq!((plan.steps(), plan.padded()), (1, 1));
    // Fewer samples than ranks: one each, and others again.
    let plan = Partition::new(2, 4).unwrap().world(5).unwrap().tail(Tail::Even);
    let positions = |rank| plan.batch(0, rank).iter().collect::<Vec<_>>();
    assert_eq!([0, 1, 2, 3, 4].map(positions), [[0], [1], [0], [1], [0]]);
    let huge = Partition::new(u64::MAX, u64::MAX).unwrap().world(u64::MAX).unwrap();
    let huge = huge.tail(Tail::Uneven);
    assert_eq!(huge.clone().tail(Tail::Drop).steps(), 0);
    assert_eq!(huge.batch(0, 0).len(), u64::MAX);
    assert!(huge.batch(0, 1).is_empty());
}

#[test]
fn without_being_told_several_ranks_have_the_same_steps() {
    for n in 0..50 {
        let plan = Partition::new(n, 3).unwrap();
        assert!((0..plan.steps()).map(|s| plan.batch(s, 0).len()).sum::<u64>() == n);
        for world in 2..5 {
            let plan = plan.clone().world(world).unwrap();
            assert!((0..world).all(|rank| plan.steps_of(rank) == plan.steps()));
            // The order of the calls makes no difference.
            let told = Partition::new(n, 3).unwrap().tail(Tail::Uneven).world(world).unwrap();
            assert_eq!(told.padded(), 0);
        }
    }
}

#[test]
fn nonsense_is_refused() {
    let ranks = |n| Partition::new(10, 1).and_then(|plan| plan.world(n)).is_ok();
    assert!(Partition::new(10, 0).is_err() && ranks(1) && !ranks(0));
    assert!(Partition::new(10, 1).unwrap().start(11).is_err());
    assert!(BlockShuffle::new(10, 0, 1, 0).is_err());
    assert!(DatadingsQuasiShuffle::new(10, f64::NAN, 1, None).is_err());
    assert!(DatadingsQuasiShuffle::new(10, 1.0, 0, None).is_err());
    assert!(Repeat::new(Shuffle::new(1 << 40, 0), 1 << 40).is_err());
    assert!(Cycle::new(Shuffle::new(3, 0)).order(1).is_err());
    assert!(Mixture::new(vec![], 10, 0).is_err());
    assert!(Mixture::new(vec![MixtureSource::new(0, 1)], 10, 0).is_err());
    assert!(Mixture::new(vec![MixtureSource::new(9, 0)], 10, 0).is_err());
    let beyond = MixtureSource::new(9, 1).sampler(Sequential::new(10));
    assert!(Mixture::new(vec![beyond], 10, 0).is_err());
    assert!(DatadingsShuffle::new(1 << 33, None).order(0).is_err());
    let message =
        torch_shard(10, TorchWorker { rank: 0, world_size: 0, worker: 0, num_workers: 1 }, None, 0);
    assert_eq!(message.unwrap_err().to_string(), "no worker 0 of 1 in process 0 of 0");
    for bad in [&[][..], &[-1.0, 2.0], &[f64::NAN], &[0.0], &[1.0, 1e-9]] {
        assert!(quotas(bad, 1000).is_err(), "{bad:?}");
    }
}

#[test]
fn mixtures_have_exact_shares_and_go_through_each_source_in_turn() {
    let mut rng = StableRng::new(&[15]);
    for _ in 0..60 {
        let sizes: Vec<u64> = (0..1 + rng.below(4)).map(|_| 1 + rng.below(50)).collect();
        let quotas: Vec<u64> = sizes.iter().map(|_| 1 + rng.below(9)).collect();
        let sources = sizes.iter().zip(&quotas).map(|(&n, &q)| MixtureSource::new(n, q)).collect();
        let (len, seed) = (1 + rng.below(700), rng.next_u64());
        let mixture = Mixture::new(sources, len, seed).unwrap();
        assert_eq!(mixture.bound(), sizes.iter().sum::<u64>());

        let bases: Vec<u64> = (0..sizes.len()).map(|s| sizes[..s].iter().sum()).collect();
        let mut came: Vec<Vec<u64>> = vec![Vec::new(); sizes.len()];
        for epoch in 0..5 {
            let order = mixture.order(epoch).unwrap();
            let before: Vec<u64> = came.iter().map(|c| c.len() as u64).collect();
            for (position, index) in order.iter().enumerate() {
                let source = mixture.source_at(epoch, position as u64).unwrap();
                came[source].push(index - bases[source]);
                if position % 97 == 0 {
                    let counts = mixture.counts(epoch, 0..position as u64 + 1).unwrap();
                    let now: Vec<u64> =
                        came.iter().zip(&before).map(|(c, b)| c.len() as u64 - b).collect();
                    assert_eq!(counts, now);
                }
            }
        }
        for (source, (came, &n)) in came.iter().zip(&sizes).enumerate() {
            for (pass, samples) in came.chunks(n as usize).enumerate() {
                let order =
                    Shuffle::new(n, rng::stable_hash(&[seed, source as u64])).order(pass as u64);
                let whole: Vec<u64> = order.unwrap().iter().collect();
                assert_eq!(samples, &whole[..samples.len()], "pass {pass}");
            }
            // Exact in each round, so within one round of the ideal at any place.
            let ideal = 5.0 * len as f64 * mixture.shares()[source];
            assert!((came.len() as f64 - ideal).abs() <= 300.0);
        }
        assert!((mixture.shares().iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }
    // Both quotas below the sum of a round: 256 positions have 192 and 64.
    let sources = vec![MixtureSource::new(10, 3), MixtureSource::new(10, 1)];
    let mixture = Mixture::new(sources.clone(), 2560, 7).unwrap();
    for round in 0..10 {
        assert_eq!(mixture.counts(0, round * 256..round * 256 + 256).unwrap(), [192, 64]);
    }
    let other = Mixture::new(sources, 2560, 8).unwrap();
    assert_ne!(mixture.schedule_hash(), other.schedule_hash());
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn label_runs_tell_a_shuffle_from_an_order() {
    let label = |index: u64| index / 100;
    let runs = |sampler: &dyn Sampler| quality::label_runs(&*sampler.order(0).unwrap(), label);
    let stored = runs(&Sequential::new(10_000));
    assert_eq!((stored.runs, stored.longest, stored.labels), (100, 100, 100));
    let shuffled = runs(&Shuffle::new(10_000, 1));
    assert!((shuffled.mean - shuffled.expected_mean).abs() < 0.01, "{shuffled:?}");
    assert!((shuffled.longest as f64 - shuffled.expected_longest).abs() <= 1.0, "{shuffled:?}");
    assert_eq!(stored.expected_mean, shuffled.expected_mean);
    let blocks = |window| runs(&BlockShuffle::new(10_000, 50, window, 1).unwrap()).mean;
    assert!(blocks(1) > blocks(4) && blocks(4) > blocks(100) && blocks(100) < 1.05);
    let stored = quality::displacement(&*Sequential::new(100).order(0).unwrap());
    assert_eq!((stored.mean, stored.mean_step), (0.0, 1.0));
    let none = runs(&Sequential::new(0));
    assert_eq!((none.samples, none.runs), (0, 0));
    assert!(none.mean.is_finite() && none.expected_mean.is_finite());
}

/// Where three samples go, taken together, is uniform: tells a network with too few rounds.
#[test]
fn triples_of_samples_go_anywhere() {
    for n in [5, 6, 7, 9, 12, 16, 17] {
        let cells = n * (n - 1) * (n - 2);
        let mut counts = vec![0; (n * n * n) as usize];
        for epoch in 0..cells * 20 {
            let order = Shuffle::new(n, 9).permutation(epoch);
            let at = [0, 1, n / 2].map(|index| order.invert(index));
            counts[((at[0] * n + at[1]) * n + at[2]) as usize] += 1;
        }
        // Cells with two samples at one place stay empty, and no others.
        let missing =
            (cells as f64 - counts.iter().filter(|&&count| count > 0).count() as f64) * 20.0;
        let square = |count: u64| (count as f64 - 20.0).powi(2) / 20.0;
        let chi: f64 = counts.into_iter().filter(|&count| count > 0).map(square).sum();
        let freedom = (cells - 1) as f64;
        let deviations = (chi + missing - freedom) / (2.0 * freedom).sqrt();
        assert!(deviations < 6.0, "{n}: {deviations} standard deviations");
    }
}
