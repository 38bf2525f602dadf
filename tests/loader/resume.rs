//! A run that stops anywhere and is resumed sees each sample once an epoch.

use std::sync::Arc;

use kiste::ErrorKind;
use kiste::loader::{Batch, Loader, LoaderOptions, Samples};
use kiste::sampler::{
    BlockShuffle, Cycle, DatadingsQuasiShuffle, DatadingsShuffle, Mixture, MixtureSource, Order,
    Partition, Repeat, Sampler, Sequential, Shuffle, State, Tail,
};

use super::{Bytes, place, some_sampler, some_tail, v};
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
                let after = plan.state_after(b.epoch, b.step);
                assert_eq!(place(b.state), place(after), "{what}");
                assert_eq!(b.state.order, Some(sampler.fingerprint()), "{what}");
                if !matches!(tail, Tail::Uneven | Tail::Even) {
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
            assert_eq!(place(loader.state()), (epochs, 0), "rank {rank}");
        }
    }
}

/// Stops after some batches, and resumes with another reader and sampler.
fn resumed_with(sampler: impl Sampler + 'static, samples: u64) -> kiste::Result<()> {
    let options = Loader::options(Bytes::count(1000), Shuffle::new(1000, 42)).batch_size(100);
    let mut loader = options.map(v)?;
    assert_eq!(loader.by_ref().take(5).count(), 5);
    let saved = serde_json::to_string(&loader.state()).unwrap();
    let state = serde_json::from_str(&saved).unwrap();
    Loader::options(Bytes::count(samples), sampler).resume(state).map(v).map(drop)
}

#[test]
fn a_run_that_is_resumed_in_another_order_is_an_error_that_says_what_differs() {
    resumed_with(Shuffle::new(1000, 42), 1000).unwrap();
    // More samples than the sampler orders are no other order.
    resumed_with(Shuffle::new(1000, 42), 1300).unwrap();
    let refused = |sampler: Arc<dyn Sampler>, samples, message: &str| {
        let error = resumed_with(sampler, samples).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let message = format!("the checkpoint is of another order: {message}");
        assert_eq!(error.to_string(), message);
        assert!(error.remedy().is_some());
    };
    // Samples were appended: 312 would come twice, and 312 never.
    let appended = "expected 1000 positions an epoch, found 1300";
    refused(Arc::new(Shuffle::new(1300, 42)), 1300, appended);
    refused(Arc::new(Shuffle::new(1000, 7)), 1000, "expected the seed 42, found 7");
    let both = "expected 1000 positions an epoch, found 1300; expected the seed 42, found 7";
    refused(Arc::new(Shuffle::new(1300, 7)), 1300, both);
    let block = BlockShuffle::new(1000, 8, 8, 42).unwrap();
    refused(Arc::new(block), 1000, "expected the sampler shuffle, found block");
}

/// All kinds of samplers, each with one parameter changed after the other.
fn samplers() -> Vec<Arc<dyn Sampler>> {
    let block = |samples, block, window, seed| {
        Arc::new(BlockShuffle::new(samples, block, window, seed).unwrap()) as Arc<dyn Sampler>
    };
    let quasi = |buffer, chunk, seed| {
        Arc::new(DatadingsQuasiShuffle::new(100, buffer, chunk, seed).unwrap()) as Arc<dyn Sampler>
    };
    let mixture = |samples, quota, len, seed, inner| {
        let source = MixtureSource::new(samples, quota).sampler(Shuffle::new(samples, inner));
        let sources = vec![source, MixtureSource::new(50, 1)];
        Arc::new(Mixture::new(sources, len, seed).unwrap()) as Arc<dyn Sampler>
    };
    let repeat = |inner: Arc<dyn Sampler>, times| {
        Arc::new(Repeat::new(inner, times).unwrap()) as Arc<dyn Sampler>
    };
    vec![
        Arc::new(Sequential::new(100)),
        Arc::new(Sequential::new(101)),
        Arc::new(Sequential::range(1..101)),
        Arc::new(Shuffle::new(100, 1)),
        Arc::new(Shuffle::new(101, 1)),
        Arc::new(Shuffle::new(100, 2)),
        block(100, 4, 3, 1),
        block(101, 4, 3, 1),
        block(100, 5, 3, 1),
        block(100, 4, 4, 1),
        block(100, 4, 3, 2),
        Arc::new(DatadingsShuffle::new(100, None)),
        Arc::new(DatadingsShuffle::new(100, Some(1))),
        Arc::new(DatadingsShuffle::new(100, Some(-1))),
        Arc::new(DatadingsShuffle::new(100, Some(1 << 80))),
        quasi(8.0, 4, Some(1)),
        quasi(12.0, 4, Some(1)),
        quasi(8.0, 2, Some(1)),
        quasi(8.0, 4, Some(2)),
        mixture(100, 1, 400, 1, 1),
        mixture(101, 1, 400, 1, 1),
        mixture(100, 2, 400, 1, 1),
        mixture(100, 1, 401, 1, 1),
        mixture(100, 1, 400, 2, 1),
        mixture(100, 1, 400, 1, 2),
        repeat(Arc::new(Shuffle::new(100, 1)), 2),
        repeat(Arc::new(Shuffle::new(100, 2)), 2),
        repeat(Arc::new(Shuffle::new(50, 1)), 4),
        repeat(Arc::new(Sequential::new(100)), 2),
        Arc::new(Cycle::new(Shuffle::new(100, 1))),
        Arc::new(Cycle::new(Shuffle::new(101, 1))),
        Arc::new(Cycle::new(Shuffle::new(100, 2))),
        Arc::new(Cycle::new(Sequential::new(100))),
    ]
}

#[test]
fn no_two_samplers_are_taken_for_each_other() {
    let (first, second) = (samplers(), samplers());
    for (at, sampler) in first.iter().enumerate() {
        let state = State::of(sampler, 1, 2);
        for (other, sampler) in second.iter().enumerate() {
            assert_eq!(state.check(sampler).is_ok(), at == other, "{at} and {other}: {state:?}");
        }
    }
}

#[test]
fn a_sampler_that_does_not_say_what_it_is_is_compared_by_its_length() {
    struct Own(u64);
    impl Sampler for Own {
        fn len(&self) -> u64 {
            self.0
        }
        fn bound(&self) -> u64 {
            self.0
        }
        fn order(&self, epoch: u64) -> kiste::Result<Arc<dyn Order>> {
            Sequential::new(self.0).order(epoch)
        }
    }
    let state = State::of(&Own(10), 0, 4);
    state.check(&Own(10)).unwrap();
    state.check(&Shuffle::new(10, 3)).unwrap();
    assert!(
        state.check(&Own(11)).unwrap_err().message().ends_with("10 positions an epoch, found 11")
    );
}

/// The fingerprint in a state of a loader is of what came before, so the mixture can get a phase there.
#[test]
fn a_run_is_resumed_with_a_phase_that_begins_where_it_was_stopped() {
    let mixture = |phases: &[u64]| {
        let sources = vec![MixtureSource::new(700, 3), MixtureSource::new(300, 1)];
        let start = Mixture::new(sources, 400, 1).unwrap();
        phases.iter().fold(start, |mixture, &from| mixture.phase(from, &[1, 2]).unwrap())
    };
    let options = |phases: &[u64]| {
        Loader::options(Bytes::count(1000), mixture(phases)).batch_size(100).epochs(3)
    };
    let mut loader = options(&[]).map(v).unwrap();
    let sixth = loader.by_ref().nth(5).unwrap().unwrap();
    assert_eq!((place(sixth.state), place(loader.state())), ((1, 200), (1, 200)));
    for from in [600, 601, 999] {
        let rest: Vec<_> = options(&[from]).resume(sixth.state).map(v).unwrap().collect();
        let indices = rest.into_iter().flat_map(|batch| batch.unwrap().indices).take(600);
        let all = mixture(&[from]);
        let orders = [1, 2].map(|epoch| all.order(epoch).unwrap());
        let expected = orders.iter().flat_map(|order| order.iter()).skip(200);
        assert!(indices.eq(expected), "{from}");
    }
    let error = options(&[599]).resume(sixth.state).map(v).map(drop).unwrap_err();
    assert!(error.message().contains("expected no phase from position 599 before"), "{error}");
}

#[test]
fn checkpoints_of_two_integers_are_read_and_not_compared() {
    let old: State = serde_json::from_str(r#"{"epoch": 3, "position": 500}"#).unwrap();
    assert_eq!(old, State::new(3, 500));
    // As a map, and as an array, as other formats have it.
    let packed = rmpv::Value::Array(vec![3.into(), 500.into()]);
    assert_eq!(rmpv::ext::from_value::<State>(packed).unwrap(), old);
    for state in [old, State::of(&Shuffle::new(7, 1), 1, 2), State::of(&Sequential::new(7), 0, 1)] {
        let value = rmpv::ext::to_value(state).unwrap();
        assert_eq!(rmpv::ext::from_value::<State>(value).unwrap(), state);
        let text = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<State>(&text).unwrap(), state);
    }
    let options = Loader::options(Bytes::count(9), Shuffle::new(9, 1)).batch_size(2);
    assert_eq!(options.resume(State::new(0, 4)).epochs(1).map(v).unwrap().count(), 3);
}

#[test]
fn an_end_is_the_same_from_wherever_a_run_is_resumed() {
    let reader = Bytes::count(10);
    let mut random = Random(12);
    for case in 0..200 {
        let (batch, world) = (1 + random.below(4) as u64, 1 + random.below(3) as u64);
        let tail = some_tail(&mut random);
        let end = State::new(random.below(4) as u64, random.below(12) as u64);
        let options = Loader::options(reader.clone(), Shuffle::new(10, 5)).batch_size(batch);
        let options = options.tail(tail).until(end);
        let what = format!("case {case}: {batch} × {world}, {tail:?}, until {end:?}");
        let plan = Partition::new(10, batch).unwrap().world(world).unwrap().tail(tail);
        for rank in 0..world {
            let options = options.clone().rank(rank, world).threads(random.below(3));
            let mut loader = options.clone().map(v).unwrap();
            let batches: Vec<_> = loader.by_ref().map(|batch| batch.unwrap()).collect();
            let is_before =
                |epoch: u64, step: u64| (epoch, step * batch * world) < (end.epoch, end.position);
            let steps = (0..5).flat_map(|e| (0..plan.steps_of(rank)).map(move |s| (e, s)));
            let expected: Vec<_> = steps.filter(|&(e, s)| is_before(e, s)).collect();
            let found: Vec<_> = batches.iter().map(|b| (b.epoch, b.step)).collect();
            assert_eq!(found, expected, "{what}");
            // All ranks end at one place.
            let mut all = (0..5).flat_map(|e| (0..plan.steps()).map(move |s| (e, s)));
            let last = all.rfind(|&(e, s)| is_before(e, s));
            let after = last.map_or((0, 0), |(e, s)| place(plan.state_after(e, s)));
            if plan.steps() > 0 {
                assert_eq!(place(loader.state()), after, "{what}");
            }
            if batches.is_empty() {
                continue;
            }
            let at = random.below(batches.len());
            let rest = options.clone().resume(batches[at].state).map(v).unwrap();
            let rest: Vec<_> = rest.map(|batch| batch.unwrap().positions).collect();
            let expected = batches[at + 1..].iter().map(|batch| batch.positions.clone());
            assert!(rest.into_iter().eq(expected), "{what}: from {at}");
        }
    }
}
