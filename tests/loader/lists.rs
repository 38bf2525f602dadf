//! Columns whose samples have any number of rows: back to back, padded and packed.

use kiste::array::PackOptions;
use kiste::loader::{Batch, ColumnBatch, ColumnMemory, Columns, Loader, OnError, Packed, Padded};
use kiste::sampler::{Shuffle, State, Tail};
use kiste::value::NdArray;
use kiste::{ErrorKind, Result, Value};

use super::{Bytes, Random, all, bin, in_order, nd};

/// A list of numbers that say where they are.
fn tokens(sample: usize, len: usize) -> Value {
    Value::Array((0..len).map(|at| (1000 * sample as i64 + at as i64).into()).collect())
}

fn samples(lens: &[usize]) -> std::sync::Arc<Bytes> {
    Bytes::of(lens.iter().enumerate().map(|(sample, &len)| tokens(sample, len)))
}

fn one(reader: &std::sync::Arc<Bytes>, columns: Columns) -> Result<ColumnBatch> {
    Ok(in_order(reader, 1000).threads(0).columns(columns)?.next().unwrap()?.data)
}

#[test]
fn rows_back_to_back_in_every_form() {
    let little: Vec<u8> = (0..6i32).flat_map(i32::to_le_bytes).collect();
    let big: Vec<u8> = (0..6i32).flat_map(i32::to_be_bytes).collect();
    let array = NdArray::new("<i4".parse().unwrap(), vec![3, 2], &little).unwrap();
    let pair = |n: i32| Value::Array(vec![n.into(), (n + 1).into()]);
    let reader = Bytes::of([
        nd("<i4", &[3, 2], &little),
        nd(">i4", &[3, 2], &big),
        bin(&PackOptions::default().pack(&array).unwrap()),
        bin(&little),
        Value::Array(vec![pair(0), pair(2), pair(4)]),
        Value::Array(Vec::new()),
        nd("<i4", &[0, 2], &[]),
    ]);
    let batch = one(&reader, Columns::new().ragged::<i32>("v", &[2])).unwrap();
    assert_eq!(batch.array::<i32>("v").unwrap().shape(), [15, 2]);
    assert_eq!(batch.offsets("v").unwrap(), [0, 3, 6, 9, 12, 15, 15, 15]);
    assert_eq!(batch.values::<i32>("v").unwrap(), (0..6).collect::<Vec<_>>().repeat(5));

    for (form, part) in [
        (nd("<i4", &[2, 3], &little), "expected an array of type i4 with rows of shape [2]"),
        (Value::Array(vec![1.into()]), "expected lists of numbers of shape [2]"),
        (bin(&little[..20]), "expected rows of [2] of 4 bytes each"),
        (Value::from(7), "expected an array, found"),
    ] {
        let reader = Bytes::of([form]);
        let error = one(&reader, Columns::new().ragged::<i32>("v", &[2])).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!((error.kind(), error.field()), (ErrorKind::Invalid, Some("v")));
    }
}

/// Lists that claim more than there is must not take the memory for it.
#[test]
fn a_list_longer_than_its_sample() {
    let mut raw = super::map(&[("key", "k".into())]);
    raw[0] += 1;
    raw.extend_from_slice(&[0xa1, b'v', 0xdd, 0xff, 0xff, 0xff, 0xff, 1, 2, 3]);
    let reader = Bytes::new([raw]);
    for columns in [
        Columns::new().ragged::<f64>("v", &[]),
        Columns::new().padded::<f64>("v", &[], Padded::longest()),
        Columns::new().packed("v", Packed::<f64>::split(8)),
    ] {
        assert!(one(&reader, columns).is_err());
    }
}

#[test]
fn padded_to_the_longest_a_multiple_or_a_bucket() {
    let reader = samples(&[3, 0, 5]);
    let shape_of = |padded: Padded<i64>| {
        let batch = one(&reader, Columns::new().padded("v", &[], padded.fill(-7))).unwrap();
        let values = batch.array::<i64>("v").unwrap();
        let lengths = batch.lengths("v").unwrap();
        for (sample, row) in values.outer_iter().enumerate() {
            let start = 1000 * sample as i64;
            let len = lengths[sample] as usize;
            let expected = (start..start + len as i64).chain((len..row.len()).map(|_| -7));
            assert!(row.iter().copied().eq(expected), "{row}");
        }
        (values.shape().to_vec(), lengths)
    };
    let whole = vec![3, 0, 5];
    assert_eq!(shape_of(Padded::longest()), (vec![3, 5], whole.clone()));
    assert_eq!(shape_of(Padded::multiple_of(4)), (vec![3, 8], whole.clone()));
    assert_eq!(shape_of(Padded::buckets([2, 5, 9])), (vec![3, 5], whole.clone()));
    assert_eq!(shape_of(Padded::buckets([64])), (vec![3, 64], whole));
    assert_eq!(shape_of(Padded::buckets([1, 4]).cut()), (vec![3, 4], vec![3, 0, 4]));

    let refused = Columns::new().padded("v", &[], Padded::<i64>::buckets([4]));
    let error = one(&reader, refused.clone()).unwrap_err();
    assert!(error.to_string().contains("expected up to 4 rows, found 5"), "{error}");
    let options = in_order(&reader, 3).on_error(OnError::Skip);
    let batch = options.columns(refused).unwrap().next().unwrap().unwrap();
    assert_eq!((batch.indices, batch.failures.len()), (vec![0, 1], 1));

    for (padded, part) in [
        (Padded::<i64>::multiple_of(0), "expected a multiple of 1 or more, found 0"),
        (Padded::buckets([]), "expected bucket lengths, the smaller first, found []"),
        (Padded::buckets([3, 2]), "found [3, 2]"),
        (Padded::longest().cut(), "expected buckets for samples to be cut, found none"),
    ] {
        let error = one(&reader, Columns::new().padded("v", &[], padded)).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    // A multiple that no memory has.
    let huge = Columns::new().padded("v", &[], Padded::<i64>::multiple_of(1 << 40));
    let error = in_order(&reader, 3).columns(huge).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Limit);
    let expected =
        "column \"v\": expected up to 4096 MiB of padded rows, found a multiple of 1099511627776";
    assert!(error.to_string().contains(expected), "{error}");
}

/// A sample that none could be padded to is at fault, not the others, and not the batch.
#[test]
fn padded_with_one_that_is_far_too_long() {
    let reader = Bytes::of(
        [3, 5 << 20, 4]
            .map(|len| nd("|u1", &[len], &vec![7; len as usize]))
            .into_iter()
            .chain((0..997).map(|_| nd("|u1", &[1], &[7]))),
    );
    let columns = Columns::new().padded("v", &[], Padded::<u8>::longest());
    let options = in_order(&reader, 1000).on_error(OnError::Skip);
    let batch = options.columns(columns).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.data.array::<u8>("v").unwrap().shape(), [999, 4]);
    let [failure] = &batch.failures[..] else { panic!("{:?}", batch.failures) };
    assert_eq!((failure.index, failure.error.kind()), (1, ErrorKind::Limit));
    let error = failure.error.to_string();
    let expected = "expected up to 4294967 rows of a sample in a batch of 1000, found 5242880";
    assert!(error.contains(expected), "{error}");
}

/// Rows are counted with the bytes that they need before there is memory for them.
#[test]
fn few_bytes_for_many_rows() {
    let row = [512, 512];
    let zeros = Value::Array(vec![0.into(); 1500]);
    // A container in which chunks are missing.
    let zeros_of =
        NdArray::new("<f4".parse().unwrap(), vec![1 << 20, 4], vec![0; 16 << 20]).unwrap();
    let whole = PackOptions::default().pack(&zeros_of).unwrap();
    let cut = Bytes::of([bin(&whole[..whole.len() / 2])]);
    assert!(one(&cut, Columns::new().ragged::<f32>("v", &[4])).is_err());
    for columns in [
        Columns::new().ragged::<f32>("v", &row),
        Columns::new().padded::<f32>("v", &row, Padded::longest()),
        Columns::new().padded::<f32>("v", &row, Padded::buckets([4]).cut()),
        Columns::new().window::<f32>("v", 1, &row, kiste::loader::Window::Start),
    ] {
        let error = one(&Bytes::of([zeros.clone()]), columns).unwrap_err().to_string();
        let expected =
            "expected lists of numbers of shape [512, 512], found a list of 1500 in 1500 bytes";
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn empty_arrays_and_arrays_without_data() {
    // NumPy makes float64 of an empty list.
    let empty = NdArray::new("<f8".parse().unwrap(), vec![0], &[][..]).unwrap();
    let forms = [nd("<f8", &[0], &[]), bin(&PackOptions::default().pack(&empty).unwrap())];
    let batch = one(&Bytes::of(forms), Columns::new().ragged::<i32>("v", &[3])).unwrap();
    assert_eq!(batch.offsets("v").unwrap(), [0, 0, 0]);
    let map = |entries: &[(&str, Value)]| {
        let entries = entries.iter().map(|(name, value)| (bin(name.as_bytes()), value.clone()));
        Value::Map(entries.collect())
    };
    let zero = || Value::Array(vec![0.into()]);
    for (form, part) in [
        (map(&[("nd", true.into()), ("type", "<i4".into())]), "found an array without data"),
        (map(&[("type", "<i4".into()), ("shape", zero())]), "found an array without data"),
        (nd("junk", &[0], &[]), "found type \"junk\" and shape [0]"),
        (nd("<i4", &[0], &[0; 4]), "expected data of 0 rows, found 1"),
    ] {
        let error = one(&Bytes::of([form]), Columns::new().ragged::<i32>("v", &[])).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}

/// Rows of more than a number each, in memory that another batch has left.
#[test]
fn padded_rows_in_memory_that_is_used_again() {
    let pairs = |len: i64| {
        Value::Array((0..len).map(|n| Value::Array(vec![n.into(), (-n).into()])).collect())
    };
    let reader = Bytes::of((0..12).map(|n| pairs(11 - n)));
    let columns = Columns::new().padded("v", &[2], Padded::<i16>::longest().fill(99));
    let mut seen = 0;
    for batch in in_order(&reader, 5).threads(0).columns(columns).unwrap() {
        let batch = batch.unwrap().data;
        let values = batch.array::<i16>("v").unwrap();
        assert_eq!(values.shape(), [batch.len(), 11 - seen, 2]);
        for (row, len) in values.outer_iter().zip(batch.lengths("v").unwrap()) {
            let expected = (0..len as i16).flat_map(|n| [n, -n]);
            let padding = std::iter::repeat_n(99, 2 * (11 - seen - len as usize));
            assert!(row.iter().copied().eq(expected.chain(padding)));
        }
        seen += batch.len();
    }
    assert_eq!(seen, 12);
}

#[test]
fn no_memory_of_the_caller_for_them() {
    let columns = Columns::new().ragged::<i64>("v", &[]);
    let sets = (0..3).map(|_| vec![("v".to_owned(), Box::new([0u8; 8]) as Box<_>)]).collect();
    let error = ColumnMemory::new(columns, 1, sets).unwrap_err().to_string();
    assert!(error.contains("expected no memory for a column of any number of rows"), "{error}");
}

/// What packing has to be: token by token, into rows that are lists.
fn packed(lens: &[usize], length: usize, splits: bool) -> Vec<Vec<(i32, i32)>> {
    let mut rows: Vec<Vec<(i32, i32)>> = Vec::new();
    for (document, &len) in lens.iter().enumerate().filter(|(_, len)| **len > 0) {
        let room = rows.last().map_or(0, |row| length - row.len());
        if !splits && room < len {
            rows.push(Vec::new());
        }
        for at in 0..len {
            if rows.last().is_none_or(|row| row.len() == length) {
                rows.push(Vec::new());
            }
            rows.last_mut().unwrap().push((document as i32, at as i32));
        }
    }
    rows
}

#[test]
fn packed_as_token_by_token() {
    let mut random = Random(7);
    for _ in 0..300 {
        let length = 1 + random.below(12);
        let splits = random.below(2) == 0;
        let most = if splits { 40 } else { length + 1 };
        let lens: Vec<usize> = (0..random.below(9)).map(|_| random.below(most)).collect();
        let reader = samples(&lens);
        if lens.is_empty() {
            continue;
        }
        let of = if splits { Packed::<i64>::split(length) } else { Packed::whole(length) };
        let batch = one(&reader, Columns::new().packed("v", of.fill(-5))).unwrap();
        let found = batch.packed::<i64>("v").unwrap();
        let expected = packed(&lens, length, splits);
        assert_eq!((found.rows(), found.length), (expected.len(), length), "{lens:?}");
        assert_eq!(batch.array::<i64>("v").unwrap().shape(), [expected.len(), length]);
        let mut starts = vec![0];
        for (at, row) in expected.iter().enumerate() {
            let mut last = None;
            let mut position = 0;
            for column in 0..length {
                let (document, token) = row.get(column).copied().unwrap_or((-1, 0));
                position = if last == Some(document) { position + 1 } else { 0 };
                let place = at * length + column;
                if last != Some(document) && place > 0 {
                    starts.push(place as i32);
                }
                last = Some(document);
                let value = if document < 0 { -5 } else { i64::from(1000 * document + token) };
                assert_eq!(found.tokens[place], value, "{lens:?} {length} {splits}");
                assert_eq!(found.documents[place], document);
                assert_eq!(found.positions[place], if document < 0 { 0 } else { position });
            }
        }
        if !expected.is_empty() {
            starts.push((expected.len() * length) as i32);
        }
        assert_eq!(found.cu_seqlens, starts, "{lens:?} {length} {splits}");
        let longest = starts.windows(2).map(|ends| (ends[1] - ends[0]) as usize).max();
        assert_eq!(found.max_seqlen, longest.unwrap_or(0));
    }
}

#[test]
fn packed_into_a_number_of_rows() {
    let reader = samples(&[3, 3, 3]);
    let columns = |packed: Packed<i64>| Columns::new().packed("v", packed);
    let batch = one(&reader, columns(Packed::whole(4).rows(5).fill(9))).unwrap();
    let found = batch.packed::<i64>("v").unwrap();
    assert_eq!((found.rows(), &found.tokens[12..]), (5, &[9; 8][..]));
    assert_eq!(found.cu_seqlens, [0, 3, 4, 7, 8, 11, 12, 16, 20]);
    for (packed, part) in [
        (Packed::whole(4).rows(2), "expected samples for up to 2 rows of 4, found 3"),
        (Packed::whole(4).rows(2), "found 3; the longest is sample 2 with 3"),
        (Packed::whole(2), "expected up to 2 tokens, found 3"),
        (Packed::split(1).rows(2), "expected up to 2 tokens, found 3"),
        (Packed::split(0), "expected rows of 1 token or more"),
        (Packed::split(4).rows(0), "expected 1 row or more"),
        (
            Packed::split(4).cut(),
            "expected a number of rows for samples that are split and cut, found none",
        ),
        (Packed::split(1 << 31), "column \"v\": expected up to 2147483647 packed tokens"),
        (Packed::whole(1 << 20).rows(1 << 11), "expected up to 2147483647 packed tokens"),
    ] {
        let error = one(&reader, columns(packed)).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let cut = one(&reader, columns(Packed::whole(2).cut())).unwrap();
    assert_eq!(cut.packed::<i64>("v").unwrap().tokens, [0, 1, 1000, 1001, 2000, 2001]);
    // A sample that no batch has room for is skipped, not the batch.
    let long = samples(&[3, 40, 2]);
    let split = Packed::split(4).rows(2);
    let options = in_order(&long, 3).on_error(OnError::Skip);
    let mut loader = options.columns(columns(split.clone())).unwrap();
    let batch = loader.next().unwrap().unwrap();
    assert_eq!((batch.indices, batch.failures[0].index), (vec![0, 2], 1));
    assert_eq!(batch.data.packed::<i64>("v").unwrap().tokens, [0, 1, 2, 2000, 2001, 0, 0, 0]);
    let first = one(&samples(&[40]), columns(split.cut())).unwrap();
    assert_eq!(first.packed::<i64>("v").unwrap().tokens, [0, 1, 2, 3, 4, 5, 6, 7]);
    // Of another type there is no such column.
    assert!(cut.packed::<i32>("v").is_err() && cut.packed::<i64>("w").is_err());
}

/// Batches count samples, so a packed run is divided, dropped and resumed as any other.
#[test]
fn packing_leaves_positions_as_they_are() {
    let lens: Vec<usize> = (0..23).map(|n| n * 7 % 11).collect();
    let reader = samples(&lens);
    let batches = |rank, world, size, start: State| -> Vec<Batch<ColumnBatch>> {
        let options = Loader::options(reader.clone(), Shuffle::new(23, 3)).rank(rank, world);
        let options = options.batch_size(size).tail(Tail::Drop).resume(start).epochs(1).threads(2);
        all(options.columns(Columns::new().packed("v", Packed::<i64>::split(8))).unwrap())
    };
    let whole = batches(0, 1, 6, State::default());
    assert_eq!(whole.len(), 3);
    let tokens =
        |batch: &Batch<ColumnBatch>| batch.data.packed::<i64>("v").unwrap().tokens.to_vec();
    let rest = batches(0, 1, 6, whole[0].state);
    assert_eq!(rest.len(), 2);
    for (one, other) in whole[1..].iter().zip(&rest) {
        assert_eq!((&one.indices, tokens(one)), (&other.indices, tokens(other)));
    }
    // Two ranks have the documents of one between them.
    let halves = [batches(0, 2, 3, State::default()), batches(1, 2, 3, State::default())];
    for (step, batch) in whole.iter().enumerate() {
        let both: Vec<u64> =
            halves.iter().flat_map(|half| half[step].indices.iter().copied()).collect();
        assert_eq!(batch.indices, both);
        assert_eq!(batch.state, halves[0][step].state);
    }
}
