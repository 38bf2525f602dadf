//! Columns of windows: the same rows of an array in any form, in any run.

use kiste::array::PackOptions;
use kiste::loader::{ColumnBatch, ColumnMemory, Columns, Element, Loader, LoaderOptions, Memory};
use kiste::loader::{OnError, Record, Window};
use kiste::sampler::{Shuffle, State};
use kiste::value::{DType, NdArray, Order};
use kiste::{Result, Value};

use super::{Bytes, bin, in_order, map, nd};

const ROWS: usize = 50;

/// 50 rows of 3 elements: 0, 1, 2, …
fn elements() -> Vec<u8> {
    (0..3 * ROWS as i32).flat_map(i32::to_le_bytes).collect()
}

fn container(dtype: &str, order: Order, bytes: &[u8]) -> Vec<u8> {
    let dtype: DType = dtype.parse().unwrap();
    let array = NdArray::with_order(dtype, vec![ROWS, 3], order, bytes).unwrap();
    // Ten chunks.
    PackOptions::compact().chunk_size(60).pack(&array).unwrap()
}

/// The same array in each form that a field may have.
fn forms() -> Vec<Value> {
    let little = elements();
    let big: Vec<u8> = (0..3 * ROWS as i32).flat_map(i32::to_be_bytes).collect();
    let turned = (0..3).flat_map(|at| (0..ROWS as i32).map(move |row| 3 * row + at));
    let turned: Vec<u8> = turned.flat_map(i32::to_le_bytes).collect();
    let list = |row: usize| (3 * row..3 * row + 3).map(|n| n.into()).collect();
    vec![
        nd("<i4", &[ROWS as u64, 3], &little),
        nd(">i4", &[ROWS as u64, 3], &big),
        bin(&little),
        bin(&container("<i4", Order::C, &little)),
        bin(&container(">i4", Order::C, &big)),
        bin(&container("<i4", Order::F, &turned)),
        Value::Array((0..ROWS).map(|row| Value::Array(list(row))).collect()),
    ]
}

fn window(rows: usize, window: Window) -> Columns {
    Columns::new().window::<i32>("v", rows, &[3], window)
}

fn first<T: Element>(options: LoaderOptions, columns: Columns) -> Result<Vec<T>> {
    let batch = options.columns(columns)?.next().unwrap()?;
    Ok(batch.data.values::<T>("v")?.to_vec())
}

#[test]
fn all_forms_of_an_array_have_the_same_windows() {
    for form in forms() {
        let reader = Bytes::of([form]);
        for (rows, which, from) in [
            (7, Window::Start, 0),
            (7, Window::Center, 21),
            (10, Window::Center, 20),
            (ROWS, Window::Random { seed: 1 }, 0),
            (0, Window::Start, 0),
        ] {
            let found: Vec<i32> = first(in_order(&reader, 1), window(rows, which)).unwrap();
            assert!(found.into_iter().eq(3 * from..3 * (from + rows as i32)), "{which:?}");
        }
    }
}

#[test]
fn random_windows_are_those_of_the_place_in_the_run() {
    let reader = Bytes::of(forms());
    let samples = reader.samples.len();
    let starts = |threads, batch, state: State| -> Vec<i32> {
        let options = Loader::options(reader.clone(), Shuffle::new(samples as u64, 5));
        let options = options.threads(threads).batch_size(batch).resume(state);
        let epochs = 3 - state.epoch;
        let random = window(4, Window::Random { seed: 9 });
        let columns = random.row::<i32>("expected", &[], |record: &Record<'_>, row| {
            row[0] = 3 * record.rng(9).below(ROWS as u64 - 4 + 1) as i32;
            Ok(())
        });
        let starts = |batch: &ColumnBatch| -> Vec<i32> {
            let values = batch.values::<i32>("v").unwrap();
            let starts: Vec<i32> = values.chunks(12).map(|window| window[0]).collect();
            assert_eq!(starts, batch.values::<i32>("expected").unwrap());
            assert!(
                values
                    .chunks(12)
                    .all(|window| window.iter().copied().eq(window[0]..window[0] + 12))
            );
            starts
        };
        let batches = options.epochs(epochs).columns(columns).unwrap();
        batches.flat_map(|batch| starts(&batch.unwrap().data)).collect()
    };
    let all = starts(0, 2, State::default());
    assert_eq!((all.len(), &all), (3 * samples, &starts(3, 5, State::default())));
    let rest = starts(2, 3, State::new(1, 4));
    assert_eq!(all[samples + 4..], rest);
    assert!(all.iter().any(|start| *start != all[0]));
    // Frozen.
    let rows: Vec<i32> = all[..6].iter().map(|start| start / 3).collect();
    assert_eq!(rows, [35, 42, 29, 4, 37, 34]);
}

#[test]
fn only_the_chunks_of_the_window_are_decoded() {
    let mut packed = container("<i4", Order::C, &elements());
    let last = packed.len() - 1;
    packed[last] ^= 0xff;
    let reader = Bytes::of([bin(&packed)]);
    let start: Vec<i32> = first(in_order(&reader, 1), window(5, Window::Start)).unwrap();
    assert_eq!(start[14], 14);
    let whole = first::<i32>(in_order(&reader, 1), window(ROWS, Window::Start));
    let error = whole.unwrap_err().to_string();
    assert!(error.contains("k0") && error.contains("\"v\""), "{error}");
}

#[test]
fn what_has_no_such_window_is_an_error_of_the_sample() {
    let little = elements();
    let shape: &[u64] = &[ROWS as u64, 3];
    let cases = [
        (nd("<i4", &[2, 3], &little[..24]), "expected at least 4 rows, found 2"),
        (bin(&little[..24]), "expected at least 4 rows, found 2"),
        (Value::Array(vec![]), "expected at least 4 rows, found 0"),
        (nd("<f4", shape, &little), "found type \"<f4\" and shape [50, 3]"),
        (nd("<i4", &[75, 2], &little), "with rows of shape [3], found type"),
        (nd("<i4", &[51, 3], &little), "expected data of 51 rows, found 50"),
        (bin(&little[1..]), "expected rows of [3] of 4 bytes each, found 599 bytes"),
        (bin(&container("<f4", Order::C, &little)), "an array of type i4 with rows of shape [3]"),
        (Value::Array(vec![1.into(); 9]), "lists of numbers of shape [3], found"),
        (1.into(), "expected an array, found"),
    ];
    for (value, message) in cases {
        let reader = Bytes::of([value.clone()]);
        let error = first::<i32>(in_order(&reader, 1), window(4, Window::Start)).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains(message) && error.contains("\"v\"") && error.contains("k0"),
            "{error}"
        );
        // The sample after it is read.
        let reader = Bytes::of([value, forms().remove(0)]);
        for (policy, rows) in [(OnError::Skip, 1), (OnError::Placeholder, 2)] {
            let options = in_order(&reader, 2).on_error(policy);
            let batch =
                options.columns(window(4, Window::Center)).unwrap().next().unwrap().unwrap();
            assert_eq!((batch.failures.len(), batch.data.len()), (1, rows));
            let values = batch.data.values::<i32>("v").unwrap();
            assert!(values[12 * (rows - 1)..].iter().copied().eq(69..81));
            assert!(values[..12 * (rows - 1)].iter().all(|&zero| zero == 0));
        }
    }
    let reader = Bytes::new([map(&[("w", bin(&little))])]);
    let error = first::<i32>(in_order(&reader, 1), window(4, Window::Start)).unwrap_err();
    assert!(error.to_string().contains("there is no field \"v\""), "{error}");
    // Lengths whose product is no number.
    let columns = Columns::new().window::<i32>("v", 0, &[usize::MAX, 2], Window::Start);
    assert!(first::<i32>(in_order(&Bytes::of(forms()), 1), columns).is_err());
}

#[test]
fn windows_are_in_memory_of_the_caller_and_under_other_names() {
    let reader = Bytes::of(forms());
    let columns = window(4, Window::Start).window_as::<i32>("end", "v", 2, &[3], Window::Center);
    let sets = (0..3).map(|_| {
        [("v", 4 * 3 * 4 * 2), ("end", 2 * 3 * 4 * 2)]
            .map(|(name, bytes)| {
                (name.to_owned(), Box::new(Aligned::new(bytes)) as Box<dyn Memory>)
            })
            .into()
    });
    let memory = ColumnMemory::new(columns, 2, sets.collect()).unwrap();
    let mut windows = 0;
    for batch in in_order(&reader, 2).threads(1).columns_in(&memory).unwrap() {
        let batch = batch.unwrap().data;
        let of = |name| batch.values::<i32>(name).unwrap();
        assert!(of("v").chunks(12).all(|window| window.iter().copied().eq(0..12)));
        assert!(of("end").chunks(6).all(|window| window.iter().copied().eq(72..78)));
        windows += batch.len();
    }
    assert_eq!(windows, reader.samples.len());
}

struct Aligned(Vec<u64>);

impl Aligned {
    fn new(bytes: usize) -> Aligned {
        Aligned(vec![u64::MAX; bytes / 8])
    }
}

impl AsRef<[u8]> for Aligned {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl AsMut<[u8]> for Aligned {
    fn as_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}
