use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::ErrorKind;
use crate::sampler::rng::StableRng;
use crate::sampler::{BlockShuffle, Lengths, Repeat, Sampler, Sequential, Shuffle, State, Tail};

/// Why lengths, in rows of so many samples and of this bucket, are no batch.
type Flaw = Box<dyn Fn(&[Vec<u32>], &[u32], Option<u32>) -> Option<&'static str>>;

/// A batching, and what its batches must be.
struct Case {
    batching: Arc<dyn Batching>,
    flaw: Flaw,
    /// Whether a length is in no batch.
    leaves: Box<dyn Fn(u32) -> bool>,
}

fn case(rng: &mut StableRng) -> Case {
    let most = 1 + rng.below(3000);
    let longer = [Longer::Cut, Longer::LeaveOut][rng.below(2) as usize];
    let leaves = move |limit: u64| -> Box<dyn Fn(u32) -> bool> {
        Box::new(move |length| longer == Longer::LeaveOut && u64::from(length.max(1)) > limit)
    };
    let cut = |length: u32, limit: u64| u64::from(length.max(1)).min(limit);
    match rng.below(6) {
        0 => Case {
            batching: Arc::new(TokenBudget::padded(most).longer(longer)),
            flaw: Box::new(move |lengths, _, _| {
                let longest = lengths[0].iter().map(|length| cut(*length, most)).max()?;
                (longest * lengths[0].len() as u64 > most).then_some("over the budget")
            }),
            leaves: leaves(most),
        },
        1 => {
            let samples = 1 + rng.below(20);
            Case {
                batching: Arc::new(TokenBudget::packed(most).most(samples).longer(longer)),
                flaw: Box::new(move |lengths, _, _| {
                    let sum: u64 = lengths[0].iter().map(|length| cut(*length, most)).sum();
                    let is_over = sum > most || lengths[0].len() as u64 > samples;
                    is_over.then_some("over the budget")
                }),
                leaves: leaves(most),
            }
        }
        2 => {
            let count = 1 + rng.below(5);
            Case {
                batching: Arc::new(Rows::whole(most, count).longer(longer)),
                flaw: Box::new(move |lengths, rows, _| {
                    let mut lengths = lengths[0].iter();
                    let is_full = |row: &u32| {
                        let row = lengths.by_ref().take(*row as usize);
                        row.map(|length| cut(*length, most)).sum::<u64>() <= most
                    };
                    if !rows.iter().all(is_full) {
                        return Some("a row is too long");
                    }
                    let fits = rows.len() as u64 <= count && !rows.contains(&0);
                    (lengths.next().is_some() || !fits).then_some("rows")
                }),
                leaves: leaves(most),
            }
        }
        3 => {
            let count = 1 + rng.below(5);
            let all = most * count;
            Case {
                batching: Arc::new(Rows::split(most, count).longer(longer)),
                flaw: Box::new(move |lengths, rows, _| {
                    let sum: u64 = lengths[0].iter().map(|length| cut(*length, all)).sum();
                    (sum > all || !rows.is_empty()).then_some("too many tokens")
                }),
                leaves: leaves(all),
            }
        }
        4 => {
            let buckets: BTreeMap<u32, u64> =
                (0..1 + rng.below(5)).map(|_| (rng.below(2000) as u32, 1 + rng.below(9))).collect();
            let buckets: Vec<(u32, u64)> = buckets.into_iter().collect();
            let last = u64::from(buckets[buckets.len() - 1].0.max(1));
            Case {
                batching: Arc::new(ByLength::up_to(buckets.clone()).unwrap().longer(longer)),
                flaw: Box::new(move |lengths, _, bucket| {
                    let (most, batch) = buckets[bucket.unwrap() as usize];
                    let most = u64::from(most.max(1));
                    let fits = lengths[0].iter().all(|length| cut(*length, last) <= most);
                    let is_small = lengths[0].len() as u64 <= batch;
                    (!fits || !is_small).then_some("another bucket")
                }),
                leaves: leaves(last),
            }
        }
        _ => {
            let (buckets, batch) = (1 + rng.below(7), 1 + rng.below(9));
            Case {
                batching: Arc::new(ByLength::equal(buckets, batch).unwrap()),
                flaw: Box::new(move |lengths, _, bucket| {
                    let fits = u64::from(bucket.unwrap()) < buckets;
                    (lengths[0].len() as u64 > batch || !fits).then_some("another bucket")
                }),
                leaves: Box::new(|_| false),
            }
        }
    }
}

fn sampler(rng: &mut StableRng, samples: u64) -> Arc<dyn Sampler> {
    let seed = rng.next_u64();
    match rng.below(4) {
        0 => Arc::new(Sequential::new(samples)),
        1 => Arc::new(BlockShuffle::new(samples, 5, 3, seed).unwrap()),
        2 => Arc::new(Repeat::new(Shuffle::new(samples, seed), 2).unwrap()),
        _ => Arc::new(Shuffle::new(samples, seed)),
    }
}

/// All batches of an epoch from a state on, by step, with the state after each step.
fn run(partition: &PlannedPartition, epoch: u64, world: u64) -> Vec<(Vec<PlannedBatch>, State)> {
    let mut steps = Vec::new();
    for step in 0.. {
        let batch = |rank| partition.batch(epoch, step, rank).unwrap();
        let batches: Vec<PlannedBatch> = (0..world).filter_map(batch).collect();
        if batches.is_empty() {
            break;
        }
        steps.push((batches, partition.state_after(epoch, step).unwrap()));
    }
    for rank in 0..world {
        let has_batch = |step: u64| partition.batch(epoch, step, rank).unwrap().is_some();
        let count = (0..steps.len() as u64).filter(|step| has_batch(*step)).count();
        assert_eq!(partition.steps_of(epoch, rank).unwrap(), count as u64);
    }
    steps
}

/// Random samplers, lengths and batchings: batches keep their rules, each sample comes as often as the sampler has it,
/// and the batches are the same for all numbers of ranks and after every resume.
#[test]
fn batches_are_the_same_for_all_ranks_and_after_resumes() {
    let cases = if cfg!(miri) { 20 } else { 2500 };
    for number in 0..cases {
        let mut rng = StableRng::new(&[7, number]);
        let samples = rng.below(300);
        let spread = 1 + rng.below(2500);
        let column: Vec<u32> = (0..samples).map(|_| rng.below(spread) as u32).collect();
        let Case { batching, flaw, leaves } = case(&mut rng);
        let sampler = sampler(&mut rng, samples);
        let window = 1 + rng.below(200);
        let planned = Planned::with_columns(
            sampler.clone(),
            vec![Arc::new(column.clone())],
            batching.clone(),
        );
        let planned = planned.unwrap().window(window).unwrap().seed(number);
        let epoch = rng.below(3);
        let context = format!("case {number}: {} window {window}", batching.description());

        // By the definition: window after window.
        let order: Vec<u64> = sampler.order(epoch).unwrap().iter().collect();
        let mut expected = Vec::new();
        for (at, chunk) in order.chunks(window as usize).enumerate() {
            let planned = planned.window_at(epoch, at as u64).unwrap();
            let mut seen = planned.left_out().to_vec();
            assert!(seen.iter().all(|index| leaves(column[*index as usize])), "{context}");
            for batch in 0..planned.batches() {
                let indices = planned.indices(batch).to_vec();
                let lengths: Vec<u32> = indices.iter().map(|at| column[*at as usize]).collect();
                let (rows, bucket) = (planned.rows(batch), planned.bucket(batch));
                assert!(!indices.is_empty() && !lengths.iter().any(|length| leaves(*length)));
                assert_eq!(flaw(&[lengths], &rows, bucket), None, "{context}");
                seen.extend(&indices);
                expected.push((planned.positions(batch).start, indices));
            }
            let mut chunk = chunk.to_vec();
            chunk.sort_unstable();
            seen.sort_unstable();
            assert_eq!(seen, chunk, "{context}");
        }
        assert!(expected.is_sorted_by_key(|(start, _)| *start), "{context}");

        let tail = [Tail::Pad, Tail::Uneven, Tail::Drop, Tail::Even][rng.below(4) as usize];
        let world = 1 + rng.below(5);
        let partition = planned.partition(world).unwrap().tail(tail);
        let steps = run(&partition, epoch, world);
        let real = |steps: &[(Vec<PlannedBatch>, State)]| -> Vec<(u64, Vec<u64>)> {
            let batches = steps.iter().flat_map(|(batches, _)| batches);
            let real = batches.filter(|batch| !batch.is_padding());
            real.map(|batch| (batch.positions().start, batch.indices().to_vec())).collect()
        };
        let whole = expected.len() - expected.len() % world as usize;
        let dealt = if tail == Tail::Drop { &expected[..whole] } else { &expected[..] };
        assert_eq!(real(&steps), dealt, "{context} {tail:?}");
        if matches!(tail, Tail::Pad | Tail::Even) {
            assert!(steps.iter().all(|(batches, _)| batches.len() as u64 == world), "{context}");
        }

        if number % 16 == 0 {
            let found = quality(&partition, epoch, &|_| ()).unwrap();
            assert_eq!(found.samples + found.left_out, order.len() as u64, "{context}");
            assert_eq!(found.batches, expected.len() as u64, "{context}");
            assert_eq!(found.tokens_by_rank.len() as u64, world);
            assert!(found.padding() < 1.0 && found.displacement < window as f64, "{context}");
        }

        // Where a sample is.
        if samples > 0 && number % 4 == 0 {
            let index = rng.below(samples);
            let mut places = Vec::new();
            for (step, (batches, _)) in (0..).zip(&steps) {
                for (rank, batch) in (0..).zip(batches).filter(|(_, batch)| !batch.is_padding()) {
                    if batch.indices().contains(&index) {
                        places.push((step, rank));
                    }
                }
            }
            assert_eq!(partition.places_of(epoch, index).unwrap(), places, "{context}");
        }

        // From after any step on, with any number of ranks.
        let Some(at) = (steps.len() as u64).checked_sub(1).map(|last| rng.below(last + 1)) else {
            continue;
        };
        let state = steps[at as usize].1;
        let state: State = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
        let done = ((at + 1) * world).min(expected.len() as u64) as usize;
        if at + 1 == steps.len() as u64 {
            assert_eq!((state.epoch, state.position), (epoch + 1, 0), "{context}");
            continue;
        }
        let others = 1 + rng.below(5);
        let resumed = planned.partition(others).unwrap().tail(Tail::Uneven).start(state).unwrap();
        assert_eq!(real(&run(&resumed, epoch, others)), expected[done..], "{context}");
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let lengths = vec![3, 9, 4];
    let planned = |batching: TokenBudget| {
        Planned::new(Sequential::new(3), lengths.clone(), batching).unwrap()
    };
    let error = planned(TokenBudget::packed(8)).window_at(0, 0).map(|_| ()).unwrap_err();
    assert_eq!((error.kind(), error.index()), (ErrorKind::Invalid, Some(1)));
    assert!(error.to_string().contains("expected a length of at most 8, found 9"), "{error}");
    let window = planned(TokenBudget::packed(8).longer(Longer::LeaveOut)).window_at(0, 0).unwrap();
    assert_eq!((window.left_out(), window.samples()), (&[1][..], 2));

    let few = Planned::new(Sequential::new(4), lengths.clone(), TokenBudget::packed(8));
    let error = few.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("expected lengths of 4 samples, found 3"), "{error}");
    let none = Planned::new(Sequential::new(3), lengths.clone(), TokenBudget::packed(0));
    assert!(none.is_err());
    let shapes = ByShape::new([(512, 512, 4)]).unwrap();
    assert!(Planned::new(Sequential::new(3), lengths.clone(), shapes).is_err());
    // Another batching, other lengths, another window or seed: no place in these batches.
    let saved = State::of(&planned(TokenBudget::packed(9)), 0, 2);
    assert!(saved.check(&planned(TokenBudget::packed(9))).is_ok());
    let other = Planned::new(Sequential::new(3), vec![3, 9, 5], TokenBudget::packed(9)).unwrap();
    for other in [
        planned(TokenBudget::packed(10)),
        planned(TokenBudget::padded(9)),
        planned(TokenBudget::packed(9)).seed(1),
        planned(TokenBudget::packed(9)).window(100).unwrap(),
        other,
    ] {
        assert!(saved.check(&other).is_err());
    }
    // A position without a fingerprint, at which no batch begins.
    let partition = planned(TokenBudget::packed(20)).partition(1).unwrap();
    assert!(partition.start(State::new(0, 1)).is_err());
}

/// A batching of somebody else, whose batches are what they are.
struct Other(Batches);

impl Batching for Other {
    fn plan(&self, _: &[&[u32]], _: u64) -> Result<Batches, TooLong> {
        Ok(self.0.clone())
    }

    fn description(&self) -> String {
        "other".to_owned()
    }
}

#[test]
fn batches_of_a_foreign_batching_are_checked() {
    let good = Batches {
        order: vec![2, 0, 1],
        ends: vec![1, 3],
        buckets: vec![0, 1],
        rows: vec![1, 2, 3],
    };
    let plan = |batches: &Batches| {
        let planned = Planned::new(Sequential::new(3), vec![1, 1, 1], Other(batches.clone()));
        planned.unwrap().window_at(0, 0).map(|window| window.batches())
    };
    assert_eq!(plan(&good).unwrap(), 2);
    let changed = |change: fn(&mut Batches)| {
        let mut batches = good.clone();
        change(&mut batches);
        batches
    };
    for (bad, says) in [
        (changed(|it| it.order = vec![2, 0, 3]), "each sample once"),
        (changed(|it| it.order = vec![2, 0, 0]), "each sample once"),
        (changed(|it| it.order = vec![2, 0]), "each sample once"),
        (changed(|it| it.ends = vec![1, 4]), "that ascend"),
        (changed(|it| it.ends = vec![0, 3]), "that ascend"),
        (changed(|it| it.ends = vec![3, 3]), "that ascend"),
        (changed(|it| it.rows = vec![2, 3]), "a row that ends with each batch"),
        (changed(|it| it.rows = vec![1, 2, 9]), "that ascend"),
        (changed(|it| it.buckets = vec![0]), "a bucket for each batch or none"),
    ] {
        let error = plan(&bad).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("from the batching"), "{error}");
    }
}

#[test]
fn the_nearest_shape() {
    let shapes =
        ByShape::new([(512, 512, 4), (640, 448, 4), (448, 640, 4), (256, 256, 9)]).unwrap();
    for (width, height, shape) in [
        (1000, 1000, 0),
        (1, 1, 0),
        (4000, 3000, 1),
        (3000, 4000, 2),
        (0, 0, 0),
        (u32::MAX, 1, 1),
        (1, u32::MAX, 2),
        (u32::MAX, u32::MAX, 0),
    ] {
        assert_eq!(shapes.nearest(width, height), shape, "{width} x {height}");
    }
    let (widths, heights) = (vec![100, 64, 90, 300], vec![100, 44, 90, 210]);
    let columns: Vec<Arc<dyn Lengths>> = vec![Arc::new(widths), Arc::new(heights)];
    let planned =
        Planned::with_columns(Arc::new(Sequential::new(4)), columns, Arc::new(shapes)).unwrap();
    let window = planned.window_at(0, 0).unwrap();
    let mut found: Vec<(Option<u32>, Vec<u64>)> =
        (0..window.batches()).map(|at| (window.bucket(at), window.indices(at).to_vec())).collect();
    found.sort();
    assert_eq!(found, [(Some(0), vec![0, 2]), (Some(1), vec![1, 3])]);
}

#[test]
fn sorted_as_a_comparison_sorts() {
    let mut rng = StableRng::new(&[3]);
    for bits in [0, 1, 8, 11, 12, 22, 31, 32] {
        let mut items: Vec<u64> =
            (0..1000).map(|place| rng.below(1 << bits) << 32 | place).collect();
        let mut expected = items.clone();
        expected.sort_by_key(|item| std::cmp::Reverse(item >> 32));
        sort_descending(&mut items);
        assert_eq!(items, expected, "{bits}");
    }
    sort_descending(&mut Vec::new());
}

#[test]
fn texts_are_batchings() {
    for text in [
        "budget:8192",
        "budget:8192:packed",
        "budget:8192:packed:most=64:longer=cut",
        "rows:2048x8",
        "rows:2048x8:split:longer=leave-out",
        "buckets:512=64,2048=16",
        "buckets:0=1:longer=cut",
        "equal:8x64",
        "shapes:512x512=4,640x448=4",
    ] {
        assert_eq!(parse(text).unwrap().description(), text);
    }
    for (text, says) in [
        ("", "expected budget, rows, buckets, equal or shapes"),
        ("budget", "expected a number, found \"\""),
        ("budget:0", "expected 1 or more"),
        ("budget:-1", "expected a number, found \"-1\""),
        ("budget:+1", "expected a number"),
        ("budget:18446744073709551616", "expected a number"),
        ("budget:1:split", "expected no other options, found \"split\""),
        ("budget:1:longer=long", "expected error, cut or leave-out, found \"long\""),
        ("rows:2048", "expected two numbers with 'x' between"),
        ("rows:2048x0", "expected 1 or more"),
        ("buckets:2=1,1=1", "expected buckets of ascending lengths"),
        ("buckets:4294967296=1", "expected a number"),
        ("shapes:1x1", "expected two numbers with '=' between"),
        ("shapes:0x1=1", "expected widths and heights"),
    ] {
        let error = parse(text).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(says), "{text:?}: {error}");
    }
}

/// What a seed means does not change.
#[test]
fn golden_batches() {
    let lengths: Vec<u32> = (0..40).map(|n| n * 7 % 31).collect();
    let planned = |batching: Arc<dyn Batching>| {
        let sampler = Arc::new(Shuffle::new(40, 5));
        Planned::with_columns(sampler, vec![Arc::new(lengths.clone())], batching).unwrap().seed(9)
    };
    let starts = |batching: Arc<dyn Batching>| -> Vec<u64> {
        let window = planned(batching).window_at(1, 0).unwrap();
        (0..window.batches()).map(|batch| window.indices(batch)[0]).collect()
    };
    let found = ["budget:100", "budget:100:packed", "rows:40x4", "buckets:10=8,31=4", "equal:4x3"]
        .map(|text| starts(parse(text).unwrap()));
    let golden: [&[u64]; 5] = [
        &[22, 12, 35, 39, 36, 16, 37, 11],
        &[24, 35, 12, 39, 28, 5],
        &[16, 2, 5, 21],
        &[12, 0, 5, 24, 25, 17, 15, 32, 7],
        &[17, 12, 35, 18, 1, 39, 28, 7, 2, 20, 32, 37, 23, 5],
    ];
    assert_eq!(found, golden);
}
