//! Batches that are planned by length, through the threads of a loader.

use std::sync::Arc;

use kiste::loader::{Columns, Loader, LoaderOptions, OnError, Packed, Padded};
use kiste::reader::ListReader;
use kiste::sampler::batching::{ByLength, Longer, Planned, Rows, TokenBudget, parse};
use kiste::sampler::{Shuffle, State, Tail};
use kiste::{ErrorKind, Result, Value};
use serde::Serialize;

#[derive(Serialize)]
struct Text {
    key: String,
    tokens: Vec<u16>,
}

/// Texts whose tokens are their index.
fn texts(lengths: &[u32]) -> Arc<ListReader> {
    let texts = lengths.iter().enumerate().map(|(at, &length)| text(at, length));
    Arc::new(ListReader::pack(texts).unwrap())
}

fn text(at: usize, length: u32) -> Text {
    Text { key: at.to_string(), tokens: vec![at as u16; length as usize] }
}

fn lengths(count: u32) -> Vec<u32> {
    (0..count).map(|at| at * 37 % 50).collect()
}

fn planned(lengths: &[u32], text: &str) -> Planned {
    let sampler = Arc::new(Shuffle::new(lengths.len() as u64, 3));
    let columns: Vec<Arc<dyn kiste::sampler::Lengths>> = vec![Arc::new(lengths.to_vec())];
    Planned::with_columns(sampler, columns, parse(text).unwrap()).unwrap().window(100).unwrap()
}

/// Epoch, step, samples and padding of each batch.
type Seen = Vec<(u64, u64, Vec<u64>, u64)>;

fn seen(options: LoaderOptions) -> Seen {
    let batches = options.map(|record| Ok(record.position())).unwrap();
    let one = |batch: Result<kiste::loader::Batch<Vec<u64>>>| {
        let batch = batch.unwrap();
        assert!(batch.padding > 0 || batch.positions.clone().eq(batch.data.iter().copied()));
        (batch.epoch, batch.step, batch.indices, batch.padding)
    };
    batches.map(one).collect()
}

#[test]
fn batches_come_in_order_with_any_threads() {
    let lengths = lengths(450);
    let reader = texts(&lengths);
    for text in ["budget:200", "budget:200:packed", "rows:64x2", "equal:3x8"] {
        let options = || Loader::planned(reader.clone(), planned(&lengths, text)).epochs(2);
        let expected = seen(options().threads(0));
        for (threads, queue) in [(1, 0), (2, 5), (4, 1)] {
            assert_eq!(seen(options().threads(threads).queue(queue)), expected, "{text}");
        }
        let by_epoch = |epoch| -> Vec<u64> {
            let of = expected.iter().filter(|(of, ..)| *of == epoch);
            let mut all: Vec<u64> = of.flat_map(|(.., indices, _)| indices.clone()).collect();
            all.sort_unstable();
            all
        };
        assert!(by_epoch(0).into_iter().eq(0..450) && by_epoch(1).into_iter().eq(0..450), "{text}");
    }
}

#[test]
fn a_run_goes_on_where_it_was_stopped_and_ends_where_it_is_told() {
    let lengths = lengths(450);
    let reader = texts(&lengths);
    let options = || Loader::planned(reader.clone(), planned(&lengths, "budget:300")).threads(2);
    let whole = seen(options().epochs(3));
    let mut loader = options().epochs(3).raw().unwrap();
    let mut done = 0;
    while done < whole.len() {
        let state = loader.state();
        let state: State = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
        let rest = options().resume(state).epochs(3 - state.epoch);
        let rest: Vec<Vec<u64>> =
            seen(rest).into_iter().map(|(_, _, indices, _)| indices).collect();
        let expected: Vec<Vec<u64>> =
            whole[done..].iter().map(|(_, _, indices, _)| indices.clone()).collect();
        assert_eq!(rest, expected, "{done}");
        for _ in 0..7 {
            done += usize::from(loader.next().is_some());
        }
    }
    assert!(loader.next().is_none());
    assert_eq!((loader.state().epoch, loader.state().position), (3, 0));
    // Up to a position: the batches that begin before it.
    let first = options().epochs(1);
    let state = first.clone().raw().unwrap().nth(4).unwrap().unwrap().state;
    let until = options().until(State::new(0, state.position));
    assert_eq!(seen(until), whole[..5]);
    let past = options().until(State::new(1, 0));
    assert_eq!(seen(past).len(), whole.iter().filter(|(epoch, ..)| *epoch == 0).count());
    // A place in other batches.
    let other = Loader::planned(reader.clone(), planned(&lengths, "budget:301")).resume(state);
    assert_eq!(other.raw().unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn all_ranks_make_equally_many_steps() {
    let lengths = lengths(450);
    let reader = texts(&lengths);
    let alone = seen(Loader::planned(reader.clone(), planned(&lengths, "budget:500")).epochs(1));
    for world in 2..6 {
        for (tail, steps) in
            [(None, alone.len().div_ceil(world)), (Some(Tail::Drop), alone.len() / world)]
        {
            let mut real = vec![None; world * steps];
            for rank in 0..world {
                let options = Loader::planned(reader.clone(), planned(&lengths, "budget:500"));
                let options = options.rank(rank as u64, world as u64).epochs(1);
                let options = tail.into_iter().fold(options, LoaderOptions::tail);
                let found = seen(options);
                assert_eq!(found.len(), steps);
                for (step, (_, _, indices, padding)) in found.into_iter().enumerate() {
                    match padding {
                        0 => real[step * world + rank] = Some(indices),
                        _ => assert_eq!(padding, indices.len() as u64),
                    }
                }
            }
            let expected: Vec<Vec<u64>> =
                alone.iter().map(|(_, _, indices, _)| indices.clone()).collect();
            let real: Vec<Vec<u64>> = real.into_iter().flatten().collect();
            assert_eq!(real, expected[..real.len()], "{world} {tail:?}");
        }
    }
}

#[test]
fn rows_are_packed_as_planned_without_samples_that_cannot_be_read() {
    let lengths = lengths(300);
    let samples = lengths.iter().enumerate().map(|(at, &length)| {
        // Text in place of tokens.
        let tokens = |at: usize| Value::from(vec![Value::from(at); length as usize]);
        let tokens = if at % 9 == 4 { "x".into() } else { tokens(at) };
        Value::Map(vec![("key".into(), at.to_string().into()), ("tokens".into(), tokens)])
    });
    let all = Arc::new(ListReader::new(samples).unwrap());
    for batching in ["rows:64x3", "rows:64x3:split"] {
        let splits = batching.ends_with("split");
        let packed = || {
            let packed = if splits { Packed::split(64) } else { Packed::whole(64) };
            Columns::new().packed("tokens", packed.rows(3).fill(u16::MAX))
        };
        let options = Loader::planned(all.clone(), planned(&lengths, batching));
        let options = options.on_error(OnError::Skip).epochs(1).threads(2);
        let (mut taken, mut failures) = (0, 0);
        for batch in options.columns(packed()).unwrap() {
            let batch = batch.unwrap();
            let rows = batch.data.packed::<u16>("tokens").unwrap();
            assert_eq!((rows.rows(), rows.length), (3, 64));
            for (document, &index) in batch.indices.iter().enumerate() {
                let at =
                    |(place, found): (usize, &i32)| (*found == document as i32).then_some(place);
                let places: Vec<usize> = rows.documents.iter().enumerate().filter_map(at).collect();
                assert_eq!(places.len(), lengths[index as usize] as usize);
                assert!(places.iter().all(|place| rows.tokens[*place] == index as u16));
                let in_one_row = places.windows(2).all(|pair| pair[0] / 64 == pair[1] / 64);
                assert!(splits || in_one_row, "{batching}");
            }
            taken += batch.indices.len();
            failures += batch.failures.len();
        }
        let broken = (0..300).filter(|at| at % 9 == 4).count();
        assert_eq!((taken, failures), (300 - broken, broken));
    }
}

#[test]
fn what_cannot_be_planned() {
    let lengths = lengths(100);
    let reader = texts(&lengths);
    // Lengths that are not those of the samples: a row has no room for them.
    let short: Vec<u32> = lengths.iter().map(|length| length / 2).collect();
    let options = Loader::planned(reader.clone(), planned(&short, "rows:40x2")).epochs(1);
    let columns = Columns::new().packed("tokens", Packed::<u16>::whole(50).rows(2));
    let errors: Vec<String> = options
        .columns(columns)
        .unwrap()
        .filter_map(|batch| batch.err())
        .map(|error| error.to_string())
        .collect();
    assert!(!errors.is_empty());
    assert!(errors.iter().all(|error| error.contains("column \"tokens\"")), "{errors:?}");
    // A sample that is too long ends the run where it is.
    let options = Loader::planned(reader.clone(), planned(&lengths, "budget:20")).epochs(1);
    let mut loader = options.raw().unwrap();
    let error = loader.next().unwrap().unwrap_err();
    assert!(error.to_string().contains("expected a length of at most 20"), "{error}");
    assert!(error.index().is_some() && loader.next().is_none());
    // All are left out: there are no batches.
    let none = Planned::new(
        Shuffle::new(100, 1),
        vec![90; 100],
        TokenBudget::padded(20).longer(Longer::LeaveOut),
    );
    assert_eq!(seen(Loader::planned(reader.clone(), none.unwrap())), []);
    // More samples than the reader has.
    let more = Planned::new(Shuffle::new(101, 1), vec![1; 101], ByLength::equal(1, 4).unwrap());
    assert!(Loader::planned(reader.clone(), more.unwrap()).raw().is_err());
    let padded = Columns::new().padded::<u16>("tokens", &[], Padded::longest());
    let rows = Planned::new(Shuffle::new(100, 1), lengths.clone(), Rows::whole(64, 2)).unwrap();
    let batches = Loader::planned(reader, rows).epochs(1).columns(padded).unwrap();
    assert_eq!(batches.map(|batch| batch.unwrap().indices.len()).sum::<usize>(), 100);
}
