//! Phases and limits, against a run that is played position by position.

use super::round::{MAX_ROUND, reduced};
use super::*;
use crate::sampler::rng::StableRng;
use crate::sampler::{BatchPlace, Cycle, DatadingsShuffle, Partition, Repeat, Sequential, Tail};

/// A run, described without arithmetic.
#[derive(Debug, Clone)]
struct Run {
    sizes: Vec<u64>,
    /// The most passes, and whether the share then goes to the others.
    caps: Vec<Option<(u64, bool)>>,
    /// The first from 0.
    phases: Vec<(u64, Vec<u64>)>,
    seed: u64,
}

impl Run {
    fn random(rng: &mut StableRng, caps: bool) -> Run {
        let sources = 1 + rng.below(4) as usize;
        let sizes = (0..sources).map(|_| 1 + rng.below(300)).collect();
        let cap = |rng: &mut StableRng| {
            (caps && rng.below(2) == 0).then(|| (1 + rng.below(3), rng.below(3) > 0))
        };
        let caps = (0..sources).map(|_| cap(rng)).collect();
        let mut phases = vec![(0, quotas_of(rng, sources))];
        while rng.below(3) > 0 {
            let from = phases[phases.len() - 1].0 + 1 + rng.below(900);
            phases.push((from, quotas_of(rng, sources)));
        }
        let mut run = Run { sizes, caps, phases, seed: rng.next_u64() };
        run.phases.truncate(run.build(1).1);
        run
    }

    fn sources(&self) -> Vec<MixtureSource> {
        let each = self.sizes.iter().zip(&self.caps).zip(&self.phases[0].1);
        each.map(|((&samples, &cap), &quota)| {
            let source = MixtureSource::new(samples, quota);
            match cap {
                None => source,
                Some((passes, false)) => source.max_passes(passes),
                Some((passes, true)) => source.max_passes(passes).exhausted(Exhausted::Others),
            }
        })
        .collect()
    }

    fn mixture(&self, len: u64) -> Mixture {
        self.build(len).0
    }

    /// With as many phases as fit before the run ends, and how many these are.
    fn build(&self, len: u64) -> (Mixture, usize) {
        let mut mixture = Mixture::new(self.sources(), len, self.seed).unwrap();
        for (number, (from, quotas)) in self.phases.iter().enumerate().skip(1) {
            match mixture.clone().phase(*from, quotas) {
                Ok(next) => mixture = next,
                Err(error) => {
                    let is_over = mixture.end().is_some_and(|end| end < *from);
                    let nothing = error.message().contains("are used up before the phase");
                    assert!(is_over || nothing, "{error}: {self:?}");
                    return (mixture, number);
                }
            }
        }
        (mixture, self.phases.len())
    }
}

fn quotas_of(rng: &mut StableRng, sources: usize) -> Vec<u64> {
    loop {
        let quotas: Vec<u64> = (0..sources).map(|_| rng.below(6)).collect();
        if quotas.iter().any(|&quota| quota > 0) {
            return quotas;
        }
    }
}

/// What holds from a position on: the quotas, and how often each source has come since then.
struct Stretch {
    from: u64,
    quotas: Vec<u64>,
    round: u64,
    came: Vec<u64>,
}

impl Stretch {
    fn new(from: u64, quotas: &[u64]) -> Stretch {
        let sum = reduced(quotas).unwrap().1;
        let round = (1..).map(|times| times * sum).find(|&len| len >= 256).unwrap();
        Stretch { from, quotas: quotas.to_vec(), round, came: vec![0; quotas.len()] }
    }

    /// Exact in each whole round, within one round elsewhere.
    fn check(&self, len: u64) {
        let sum: u64 = self.quotas.iter().sum();
        for (&came, &quota) in self.came.iter().zip(&self.quotas) {
            assert!(came >= len / self.round * self.round * quota / sum);
            assert!(came <= len.div_ceil(self.round) * self.round * quota / sum);
        }
    }
}

/// Plays a run and compares each position, and the places where sources are used up.
fn play(run: &Run, positions: u64, epoch: u64) -> Vec<u64> {
    let mixture = run.mixture(epoch);
    let one = run.mixture(1);
    let phases: Vec<MixturePhase> = mixture.phases().collect();
    let (mut declared, mut number) = (run.phases.iter().peekable(), 0);
    let mut stretch = Stretch::new(0, &run.phases[0].1);
    let mut came = vec![0u64; run.sizes.len()];
    let (mut indices, mut used_up) = (Vec::new(), None);
    for position in 0..positions.min(mixture.end().unwrap_or(u64::MAX)) {
        let is_used_up = |source: usize, came: &[u64]| {
            run.caps[source].is_some_and(|(passes, _)| came[source] == passes * run.sizes[source])
        };
        let phase = declared.next_if(|(from, _)| *from == position);
        if phase.is_some() || used_up.is_some() {
            let mut quotas = phase.map_or(stretch.quotas.clone(), |(_, quotas)| quotas.clone());
            for (source, quota) in quotas.iter_mut().enumerate() {
                if run.caps[source].is_some_and(|(_, others)| others) && is_used_up(source, &came) {
                    *quota = 0;
                }
            }
            stretch = Stretch::new(position, &quotas);
            let found = &phases[number];
            assert_eq!((found.from, found.round_len), (position, stretch.round));
            assert_eq!(found.quotas, reduced(&quotas).unwrap().0);
            assert_eq!(found.used_up, used_up.filter(|_| phase.is_none()));
            number += 1;
        }
        let source = one.source_at(position, 0).unwrap();
        assert!(!is_used_up(source, &came) && stretch.quotas[source] > 0, "{run:?}");
        let base: u64 = run.sizes[..source].iter().sum();
        let shuffle = Shuffle::new(run.sizes[source], stable_hash(&[run.seed, source as u64]));
        let (pass, place) = (came[source] / run.sizes[source], came[source] % run.sizes[source]);
        indices.push(base + shuffle.permutation(pass).apply(place));
        came[source] += 1;
        stretch.came[source] += 1;
        stretch.check(position + 1 - stretch.from);
        let others = run.caps[source].is_some_and(|(_, others)| others);
        used_up = (others && is_used_up(source, &came)).then_some(source);
        for (source, &came) in came.iter().enumerate() {
            assert_eq!(mixture.phases.count(source, position + 1), came);
        }
    }
    let whole = positions.min(mixture.end().unwrap_or(u64::MAX)) / epoch;
    for number in 0..whole {
        let order = mixture.order(number).unwrap();
        let (start, end) = ((number * epoch) as usize, ((number + 1) * epoch) as usize);
        assert!(order.iter().eq(indices[start..end].iter().copied()), "{run:?}");
        let one_by_one = (0..epoch).map(|position| order.index_at(position));
        assert!(one_by_one.eq(indices[start..end].iter().copied()));
    }
    if let Some(end) = mixture.end().filter(|&end| end < positions) {
        let error = mixture.order(whole).err().unwrap();
        assert!(error.message().contains(&format!("at position {end} of the run")), "{error}");
        assert_eq!(mixture.epochs(), Some(end / epoch));
        assert!(one.source_at(end, 0).is_err());
        match mixture.phases.end().unwrap().source {
            None => assert!(
                phases
                    .last()
                    .unwrap()
                    .quotas
                    .iter()
                    .zip(&came)
                    .enumerate()
                    .all(|(source, (&quota, &came))| quota == 0
                        || run.caps[source].unwrap().0 * run.sizes[source] == came)
            ),
            // With one more pass it would be its turn there.
            Some(source) => {
                let mut more = run.clone();
                more.phases.retain(|(from, _)| *from <= end);
                more.caps[source].as_mut().unwrap().0 += 1;
                assert_eq!(more.mixture(1).source_at(end, 0).unwrap(), source);
            }
        }
    }
    indices
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn runs_with_phases_and_limits_are_as_played_position_by_position() {
    let mut rng = StableRng::new(&[18]);
    let (mut ended, mut changed) = (0, 0);
    for case in 0..300 {
        let run = Run::random(&mut rng, case % 3 > 0);
        let indices = play(&run, 3000, 1 + rng.below(800));
        ended += u64::from(indices.len() < 3000);
        changed += u64::from(run.mixture(1).phases().any(|phase| phase.used_up.is_some()));
    }
    assert!(ended > 50 && changed > 50, "{ended} {changed}");
}

/// The samples that all ranks see from a state on until they reach a position of the run, and where that is.
fn seen(mixture: &Mixture, mut state: State, end: u64, rng: &mut StableRng) -> (Vec<u64>, State) {
    let mut samples = Vec::new();
    while state.epoch * mixture.len() + state.position < end {
        let (epoch, world) = (state.epoch, 1 + rng.below(4));
        let plan = Partition::new(mixture.len(), 1 + rng.below(40)).unwrap().world(world).unwrap();
        let plan = plan.start(state.position).unwrap().tail(Tail::Uneven);
        let order = mixture.order(epoch).unwrap();
        for step in 0..plan.steps() {
            (0..world).for_each(|rank| plan.batch(step, rank).fill(&*order, &mut samples));
            let State { epoch, position, .. } = plan.state_after(epoch, step);
            state = State::of(mixture, epoch, position);
            if epoch * mixture.len() + position >= end {
                break;
            }
        }
    }
    (samples, state)
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn a_phase_that_is_added_later_changes_nothing_before() {
    let mut rng = StableRng::new(&[19]);
    let mut refused = 0;
    for _ in 0..1000 {
        let mut run = Run::random(&mut rng, false);
        let len = 1 + rng.below(500);
        let before = run.mixture(len);
        let start = State::of(&before, 0, 0);
        let (first, state) = seen(&before, start, rng.below(3 * len), &mut rng);
        let at = state.epoch * len + state.position;
        let last = run.phases[run.phases.len() - 1].0;
        let from =
            (last + 1).max([at, at + rng.below(300), rng.below(at + 1)][rng.below(3) as usize]);
        run.phases.push((from, quotas_of(&mut rng, run.sizes.len())));
        let after = run.mixture(len);
        let saved = serde_json::to_string(&state).unwrap();
        let state: State = serde_json::from_str(&saved).unwrap();
        if from < at {
            let error = state.check(&after).unwrap_err();
            let why = format!(
                "the checkpoint is of another order: expected no phase from position {from} before \
                 its position {at} of the run"
            );
            assert_eq!(error.to_string(), why);
            refused += 1;
            continue;
        }
        state.check(&after).unwrap();
        // And back: the phase is not needed yet.
        state.check(&before).unwrap();
        let (rest, _) = seen(&after, state, 3 * len, &mut rng);
        let mut whole = Vec::new();
        for epoch in 0..5 {
            whole.extend(after.order(epoch).unwrap().iter());
        }
        let both = [first, rest].concat();
        assert_eq!(both, whole[..both.len()], "{run:?}, {at}, {from}");
        assert!(both.len() as u64 >= 3 * len);
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn other_phases_before_a_checkpoint_are_refused() {
    let sources = || vec![MixtureSource::new(1000, 1), MixtureSource::new(30, 1)];
    let mixture = |phases: &[(u64, [u64; 2])]| {
        let mixture = Mixture::new(sources(), 400, 1).unwrap();
        phases.iter().fold(mixture, |mixture, (from, quotas)| mixture.phase(*from, quotas).unwrap())
    };
    let three = [(100, [1, 2]), (300, [1, 3]), (900, [2, 1])];
    let state = State::of(&mixture(&three), 2, 50); // position 850 of the run
    state.check(&mixture(&three[..2])).unwrap();
    state.check(&mixture(&[three[0], three[1], (850, [0, 1])])).unwrap();
    let refused = |phases: &[(u64, [u64; 2])]| state.check(&mixture(phases)).unwrap_err();
    for phases in [&three[..1], &[(101, [1, 2]), three[1]], &[three[0], (300, [3, 1])]] {
        assert!(refused(phases).message().contains("other parameters of the sampler"));
    }
    let more = [three[0], (200, [5, 1]), three[1]];
    assert!(refused(&more).message().contains("no phase from position 200 before"));
    let more = [three[0], three[1], (400, [5, 1]), (849, [1, 1])];
    assert!(refused(&more).message().contains("no phase from position 400 before"));

    // A limit counts from where it is reached.
    let limited = |passes| {
        let [first, second] = sources().try_into().unwrap();
        let second = second.max_passes(passes).exhausted(Exhausted::Others);
        Mixture::new(vec![first, second], 400, 1).unwrap()
    };
    let free = Mixture::new(sources(), 400, 1).unwrap();
    let (early, late) = (State::of(&free, 0, 200), State::of(&free, 2, 100));
    early.check(&limited(5)).unwrap();
    let error = late.check(&limited(5)).unwrap_err();
    assert!(error.message().contains(", where source 1 is used up, before its"), "{error}");
    State::of(&limited(5), 0, 200).check(&free).unwrap();
    late.check(&limited(90)).unwrap();
    assert!(State::of(&limited(5), 2, 100).check(&limited(6)).is_err());

    // Through other samplers as well.
    let passes = |phases: &[_]| Repeat::new(mixture(phases), 2).unwrap();
    State::of(&passes(&three[..2]), 1, 50).check(&passes(&three)).unwrap();
    assert!(State::of(&passes(&three[..2]), 1, 101).check(&passes(&three)).is_err());
    let cycle = |phases: &[_]| Arc::new(Cycle::new(mixture(phases))) as Arc<dyn Sampler>;
    State::of(&cycle(&three[..2]), 0, 900).check(&cycle(&three)).unwrap();
    assert!(State::of(&cycle(&three[..2]), 0, 901).check(&cycle(&three)).is_err());
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn positions_of_a_sample_are_all_at_which_it_is_seen() {
    let mut rng = StableRng::new(&[20]);
    for _ in 0..60 {
        let mut run = Run::random(&mut rng, true);
        let mut sources = run.sources();
        for (source, &samples) in sources.iter_mut().zip(&run.sizes) {
            *source = match rng.below(5) {
                0 => source.clone().sampler(Sequential::range(samples / 2..samples)),
                1 => source.clone().sampler(DatadingsShuffle::new(samples, None)),
                2 => source.clone().sampler(Repeat::new(Shuffle::new(samples, 1), 3).unwrap()),
                3 => {
                    let parts = vec![MixtureSource::new(1, 1), MixtureSource::new(samples - 1, 1)];
                    match Mixture::new(parts, samples + 7, 1) {
                        Ok(inner) => source.clone().sampler(inner.phase(9, &[0, 1]).unwrap()),
                        Err(_) => source.clone(),
                    }
                }
                _ => source.clone(),
            };
        }
        let len = 1 + rng.below(400);
        let mut mixture = Mixture::new(sources, len, run.seed).unwrap();
        for (from, quotas) in run.phases.drain(..).skip(1) {
            mixture = mixture.clone().phase(from, &quotas).unwrap_or(mixture);
        }
        let epochs = mixture.epochs().unwrap_or(5).min(5);
        let orders: Vec<_> = (0..epochs).map(|epoch| mixture.order(epoch).unwrap()).collect();
        let all: Vec<u64> = orders.iter().flat_map(|order| order.iter()).collect();
        for _ in 0..50 {
            let index = rng.below(mixture.bound() + 2);
            let start = rng.below(epochs * len + 1);
            let end = start + rng.below(epochs * len + 1 - start);
            let is_seen = |&position: &u64| all[position as usize] == index;
            let expected: Vec<u64> = (start..end).filter(is_seen).collect();
            let found = mixture.positions_of(index, start..end).unwrap();
            assert_eq!(found.collect::<Vec<_>>(), expected);
            for (epoch, order) in (0..).zip(&orders) {
                let within = |position: &u64| position / len == epoch;
                let expected = (0..epochs * len).filter(is_seen).filter(within);
                let expected: Vec<u64> = expected.map(|position| position % len).collect();
                let found = mixture.positions_in(epoch, index).unwrap();
                assert_eq!(found.collect::<Vec<_>>(), expected);
                assert_eq!(order.position_of(index), expected.first().copied());
                let part: Vec<u64> = expected.into_iter().filter(|p| (3..50).contains(p)).collect();
                assert_eq!(order.positions_of(index, 3..50).collect::<Vec<_>>(), part);
            }
        }
    }
    let source = MixtureSource::new(7, 1).max_passes(3);
    let mixture = Mixture::new(vec![source], 5, 1).unwrap();
    assert_eq!(mixture.end(), Some(21));
    assert_eq!(mixture.positions_of(3, 0..u64::MAX).unwrap().count(), 3);
    assert_eq!(mixture.positions_of(3, 21..u64::MAX).unwrap().count(), 0);
    let (start, end) = (u64::MAX, 0);
    assert_eq!(mixture.positions_of(3, start..end).unwrap().count(), 0);
    let endless = Mixture::new(vec![MixtureSource::new(7, 1)], u64::MAX, 1).unwrap();
    let late = endless.positions_of(3, u64::MAX - 14..u64::MAX).unwrap();
    assert!((1..=3).contains(&late.count()));
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn all_places_of_a_position_are_those_of_its_batches() {
    let mut rng = StableRng::new(&[21]);
    for _ in 0..1500 {
        let (len, batch, world) = (rng.below(60), 1 + rng.below(12), 1 + rng.below(6));
        let tail = [Tail::Pad, Tail::Drop, Tail::Uneven, Tail::Even][rng.below(4) as usize];
        let plan = Partition::new(len, batch).unwrap().world(world).unwrap().tail(tail);
        let plan = plan.workers(1 + rng.below(3)).unwrap().start(rng.below(len + 1)).unwrap();
        let mut expected = vec![Vec::new(); len as usize];
        for step in 0..plan.steps() {
            for rank in 0..world {
                for (place, position) in (0..).zip(plan.batch(step, rank).iter()) {
                    let worker = plan.worker_of(step);
                    expected[position as usize].push(BatchPlace { step, rank, worker, place });
                }
            }
        }
        for (position, expected) in (0..).zip(expected) {
            let found: Vec<BatchPlace> = plan.all_seen_at(position).collect();
            assert_eq!(found, expected, "{position} of {plan:?}");
            assert_eq!(
                plan.seen_at(position),
                expected.first().copied().filter(|_| { plan.place_of(position).is_some() })
            );
        }
        assert_eq!(plan.all_seen_at(len).count(), 0);
    }
    let huge = Partition::new(1, u64::MAX).unwrap().world(u64::MAX).unwrap();
    assert_eq!(huge.all_seen_at(0).nth(9).unwrap().place, 9);
}

#[test]
fn samplers_of_samplers_that_end_do_too() {
    let source = || MixtureSource::new(10, 1).max_passes(4);
    let mixture = Mixture::new(vec![source()], 9, 1).unwrap();
    assert_eq!((mixture.end(), mixture.epochs()), (Some(40), Some(4)));
    assert!(mixture.order(3).is_ok() && mixture.order(4).is_err());
    let twice = Repeat::new(mixture.clone(), 3).unwrap();
    assert_eq!(twice.epochs(), Some(1));
    assert!(twice.order(0).unwrap().iter().count() == 27 && twice.order(1).is_err());
    assert!(Cycle::new(mixture.clone()).order(0).is_err());
    let outer = MixtureSource::new(10, 1).sampler(mixture.clone());
    let outer = Mixture::new(vec![outer], 6, 1).unwrap();
    assert_eq!((outer.end(), outer.epochs()), (Some(36), Some(6)));
    assert!((0..6).all(|epoch| outer.order(epoch).unwrap().iter().count() == 6));
    // The end moves with a phase that starts in time.
    let rest = Mixture::new(vec![source(), MixtureSource::new(5, 0)], 9, 1).unwrap();
    assert!(rest.clone().phase(41, &[0, 1]).unwrap_err().message().contains("position 40 or"));
    let rest = rest.phase(40, &[0, 1]).unwrap();
    assert_eq!((rest.end(), rest.epochs()), (None, None));
    assert!(rest.order(9).unwrap().iter().all(|index| index >= 10));
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn nonsense_is_refused_and_large_numbers_are_no_trouble() {
    let source = |quota| MixtureSource::new(u64::MAX / 3, quota);
    let base =
        || Mixture::new(vec![source(1), source(2), MixtureSource::new(0, 0)], 100, 1).unwrap();
    let kind = |from, quotas: &[u64]| base().phase(from, quotas).map(drop).unwrap_err().kind();
    assert_eq!(kind(0, &[1, 1, 0]), ErrorKind::Invalid);
    for bad in [&[][..], &[1], &[1, 1], &[0, 0, 0], &[1, 1, 1], &[1, 1, 0, 1]] {
        assert_eq!(kind(5, bad), ErrorKind::Invalid, "{bad:?}");
    }
    assert_eq!(kind(5, &[u64::MAX, u64::MAX - 1, 0]), ErrorKind::Limit);
    assert!(base().phase(9, &[1, 1, 0]).unwrap().phase(9, &[1, 2, 0]).is_err());
    assert!(base().phase(u64::MAX, &[u64::MAX, u64::MAX, 0]).unwrap().order(1).is_ok());
    assert!(Mixture::new(vec![source(1).max_passes(0)], 1, 0).is_err());

    // As many phases as there can be, and not one more.
    let many = (1..MAX_PHASES).fold(base(), |mixture, number| {
        mixture.phase(number * 7, &[1 + number % 5, 3, 0]).unwrap()
    });
    assert_eq!(many.phases().len() as u64, MAX_PHASES);
    assert!(many.order(40).unwrap().iter().count() == 100);
    assert_eq!(many.phase(u64::MAX, &[1, 1, 0]).unwrap_err().kind(), ErrorKind::Limit);
    // Their rounds are in memory.
    let mut mixture = base();
    let found = (1..).step_by(2).find_map(|number| {
        let next = mixture.clone().phase(number, &[MAX_ROUND - number, number, 0]);
        next.map(|next| mixture = next).err()
    });
    assert_eq!(found.unwrap().kind(), ErrorKind::Limit);
    assert!(mixture.phases().len() < 20);

    // Limits beyond all positions are none.
    let source = |passes| source(1).max_passes(passes).exhausted(Exhausted::Others);
    for passes in [3, 4, u64::MAX] {
        let mixture = Mixture::new(vec![source(passes), source(passes)], u64::MAX, 1).unwrap();
        assert_eq!(mixture.end(), None);
        let order = mixture.order(0).unwrap();
        assert_eq!(
            order.index_at(u64::MAX - 1) / (u64::MAX / 3),
            mixture.source_at(0, u64::MAX - 1).unwrap() as u64
        );
        assert!(mixture.order(1).is_err());
    }
    let mixture = Mixture::new(vec![source(1), source(2)], u64::MAX / 2, 1).unwrap();
    assert_eq!(mixture.phases().len(), 2);
    assert!(mixture.order(0).unwrap().position_of(u64::MAX / 3 - 1).is_some());
    let end = State::of(&mixture, u64::MAX, u64::MAX);
    end.check(&mixture).unwrap();
}

const MAX_PHASES: u64 = 1000;
