//! Plans and contents against golden files of versioned-hdf5; `tests/data` says what is in them.
//!
//! Expected are the results of 2.0.0, whose documentation we follow, with two repairs that came
//! later and are right: a base chunk that a shrink cuts through is staged (2.4.0), and a resize to
//! the same shape is no change (2.6.0). Intended differences are listed by name.

use std::sync::Arc;

use ndarray::ArrayD;
use serde_json::{Value as Json, json};

use crate::ErrorKind;
use crate::array::grid::{Group, Segment, Touch};
use crate::array::plan::{End, Move, Row, SlabKind, Span, TransferRows};
use crate::array::transfer::{Program, Side, Source, c_steps};
use crate::array::*;
use crate::error::Result;
use crate::value::{DType, NdArray};

fn cases(name: &str) -> Vec<Json> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/versioned-hdf5-2.0.0");
    let text = std::fs::read(format!("{dir}/{name}.json")).unwrap();
    let mut golden: Json = serde_json::from_slice(&text).unwrap();
    serde_json::from_value(golden["cases"].take()).unwrap()
}

fn numbers(json: &Json) -> Vec<usize> {
    json.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect()
}

fn ints(json: &Json) -> Vec<i32> {
    json.as_array().unwrap().iter().map(|n| n.as_i64().unwrap() as i32).collect()
}

/// A selection as the golden files write it.
pub(super) fn selection(json: &Json) -> Selection {
    let index = |part: &Json| -> Index {
        match part {
            Json::Null => Index::NewAxis,
            Json::Number(at) => Index::At(at.as_i64().unwrap() as isize),
            Json::String(text) => text.parse::<Selection>().unwrap().parts()[0].clone(),
            _ if part.get("i").is_some() => Index::from(ints(&part["i"])),
            _ => Index::from(ints(&part["m"]).iter().map(|&n| n == 1).collect::<Vec<bool>>()),
        }
    };
    json.as_array().unwrap().iter().map(index).collect()
}

/// Chunks of a base slab; every second one has to be read, the others are in memory as they are.
#[derive(Debug)]
struct Chunks {
    bytes: Vec<u8>,
    size: usize,
}

impl BaseSlab for Chunks {
    fn slots(&self) -> usize {
        self.bytes.len() / self.size
    }

    fn read(&self, slot: usize, at: usize, into: &mut [u8]) -> Result<()> {
        into.copy_from_slice(&self.bytes[slot * self.size + at..][..into.len()]);
        Ok(())
    }

    fn chunk(&self, slot: usize) -> Option<&[u8]> {
        (slot % 2 == 0).then(|| &self.bytes[slot * self.size..][..self.size])
    }
}

fn bytes(numbers: impl IntoIterator<Item = i32>) -> Vec<u8> {
    bytemuck::cast_slice(&numbers.into_iter().collect::<Vec<i32>>()).to_vec()
}

fn range_array(shape: &[usize], first: i32) -> ArrayD<i32> {
    let n: usize = shape.iter().product();
    ArrayD::from_shape_vec(shape, (first..).take(n).collect()).unwrap()
}

/// The array that a case begins with, chunks in the slabs that the original would have.
fn build(case: &Json) -> StagedArray {
    let (shape, chunk) = (numbers(&case["shape"]), numbers(&case["chunk"]));
    assert_eq!(case["dtype"], "i4");
    let fill = case["fill"].as_i64().unwrap() as i32;
    let init = &case["init"];
    let size: usize = 4 * chunk.iter().product::<usize>();
    let grid = ChunkGrid::new(&shape, &chunk).unwrap();
    let mut bases: Vec<Arc<dyn BaseSlab>> = Vec::new();
    let mut places = vec![Place::default(); grid.len()];
    match init["kind"].as_str().unwrap() {
        "full" => {}
        "from_array" => {
            // A slab for each column of chunks. Beyond the edge there is something else than fill.
            let all = range_array(&shape, 0);
            let columns: usize = grid.counts()[1..].iter().product();
            let rows = grid.counts()[0];
            for column in 0..if grid.is_empty() { 0 } else { columns } {
                let mut slab = Vec::new();
                for row in 0..rows {
                    let cell = row * columns + column;
                    let start: Vec<usize> = grid.region(cell).iter().map(|r| r.start).collect();
                    let at = |i: ndarray::IxDyn| {
                        let i: Vec<usize> =
                            (0..start.len()).map(|axis| start[axis] + i[axis]).collect();
                        all.get(&i[..]).copied().unwrap_or(-777)
                    };
                    slab.extend(bytes(ArrayD::from_shape_fn(&chunk[..], at)));
                    places[cell] = Place { slab: column as u32 + 1, slot: row as u32 };
                }
                bases.push(Arc::new(Chunks { bytes: slab, size }));
            }
        }
        _ => {
            let mut next = 0;
            for chunks in numbers(&init["slab_chunks"]) {
                let n = (chunks * size / 4) as i32;
                bases.push(Arc::new(Chunks { bytes: bytes(next..next + n), size }));
                next += n;
            }
            let slabs = numbers(&init["slab_indices"]);
            for (cell, offset) in numbers(&init["slab_offsets"]).into_iter().enumerate() {
                let slot = (offset / chunk[0]) as u32;
                places[cell] = Place { slab: slabs[cell] as u32, slot };
            }
        }
    }
    let dtype = DType::of::<i32>();
    StagedArray::from_base(&shape, &chunk, dtype, bytemuck::bytes_of(&fill), bases, places)
        .unwrap()
        .with_placement(Placement::PerPlan)
}

/// Does what an operation of a case says; the result if it reads.
fn run(array: &mut StagedArray, op: &Json) -> Option<ArrayD<i32>> {
    match op["op"].as_str().unwrap() {
        "setitem" => {
            let value = range_array(&numbers(&op["vshape"]), op["v0"].as_i64().unwrap() as i32);
            array.set(selection(&op["idx"]), &value).unwrap();
        }
        "resize" => array.resize(&numbers(&op["shape"])).unwrap(),
        "load" => array.load().unwrap(),
        "getitem" => return Some(array.get(selection(&op["idx"])).unwrap()),
        other => panic!("no operation {other}"),
    }
    None
}

fn content(array: &StagedArray) -> Vec<i32> {
    array.get::<i32>(..).unwrap().iter().copied().collect()
}

/// The result of 2.0.0, with the keys in which a later release differs.
fn expected(case: &Json, what: &str, release: &str) -> Json {
    let mut expected = case["expect"][what].clone();
    if let Some(alt) = case["alt"][release][what].as_object() {
        for (key, value) in alt {
            expected[key] = value.clone();
        }
    }
    expected
}

fn transfers<'a>(transfers: impl Iterator<Item = TransferRows<'a>>) -> Json {
    let end = |end| match end {
        End::Slab(number) => json!(number),
        End::Value => json!("value"),
        End::Out => json!("out"),
    };
    let transfer = |transfer: TransferRows<'_>| {
        let rows: Vec<Row> = transfer.rows().collect();
        let plain =
            rows.iter().all(|row| row.from.iter().chain(&row.to).all(|span| span.step == 1));
        let row = |row: &Row| {
            let pick = |spans: &[Span], which: fn(&Span) -> usize| -> Json {
                spans.iter().map(which).collect()
            };
            let mut columns = vec![
                pick(&row.from, |span| span.start),
                pick(&row.to, |span| span.start),
                pick(&row.from, |span| span.count),
            ];
            assert_eq!(columns[2], pick(&row.to, |span| span.count));
            if !plain {
                columns.push(pick(&row.from, |span| span.step));
                columns.push(pick(&row.to, |span| span.step));
            }
            Json::from(columns)
        };
        let rows: Vec<Json> = rows.iter().map(row).collect();
        json!({"src": end(transfer.from()), "dst": end(transfer.to()), "rows": rows})
    };
    transfers.map(transfer).collect()
}

/// Compares a plan that changes something with what is expected.
macro_rules! compare {
    ($plan:expr, $expected:expr, $rows:expr, $name:expr) => {
        let (plan, expected, name) = (&$plan, &$expected, $name);
        assert_eq!(json!(plan.appended()), expected["append"], "{name}");
        assert_eq!(transfers(plan.transfers()), expected["transfers"], "{name}");
        assert_eq!(json!(plan.dropped()), expected["drop"], "{name}");
        let places = plan.places();
        let slabs: Json = places.iter().map(|place| place.slab).collect();
        let offsets: Json = places.iter().map(|place| place.slot as usize * $rows).collect();
        assert_eq!(slabs, expected["slab_indices"], "{name}");
        assert_eq!(offsets, expected["slab_offsets"], "{name}");
    };
}

/// Resizes that shrink one axis and enlarge another. To stage what the new edge cuts through, 2.4.0
/// asks for more than the chunk holds, by the final shape instead of the common one, and relies on
/// the surplus being dropped. We ask for what there is.
const ASKS_FOR_MORE: [usize; 2] = [79, 101];

#[test]
fn plans_are_those_of_the_original() {
    let cases = cases("plans");
    assert_eq!(cases.len(), 116);
    let mut other = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let name = format!("plan {number}");
        let mut array = build(case);
        for op in case["pre"].as_array().unwrap() {
            run(&mut array, op);
        }
        let rows = array.chunk_shape()[0];
        assert_eq!(json!(content(&array)), case["expect"]["content"], "{name}");
        let before = (array.slab_indices(), array.slab_offsets());

        let plan = array.get_item_plan(selection(&case["getitem"])).unwrap();
        let expected_get = expected(case, "getitem", "v240");
        assert_eq!(json!(plan.shape()), expected_get["output_shape"], "{name}");
        assert_eq!(transfers(plan.transfers()), expected_get["transfers"], "{name}");

        let plan = array.set_item_plan(selection(&case["setitem"])).unwrap();
        let expected_set = expected(case, "setitem", "v240");
        assert_eq!(json!(plan.shape()), expected_set["value_shape"], "{name}");
        compare!(plan, expected_set, rows, &name);

        compare!(array.load_plan().unwrap(), expected(case, "load", "v240"), rows, &name);

        let plan = array.resize_plan(&numbers(&case["resize"])).unwrap();
        let mut expected_resize = expected(case, "resize", "v240");
        let found = transfers(plan.transfers());
        if found != expected_resize["transfers"] {
            assert_same_but_shorter(&found, &expected_resize["transfers"], &name);
            expected_resize["transfers"] = found;
            other.push(number);
        }
        compare!(plan, expected_resize, rows, &name);

        let grid = array.grid();
        let changes: Json = array
            .changes_plan()
            .iter()
            .filter(|change| change.kind != SlabKind::Full)
            .map(|change| {
                let region = grid.region(change.cell);
                let there: Vec<_> = region.iter().map(|r| [r.start, r.end]).collect();
                let mut here: Vec<_> = region.iter().map(|r| [0, r.len()]).collect();
                let offset = change.place.slot as usize * rows;
                here[0] = [offset, offset + here[0][1]];
                json!([there, change.place.slab, here])
            })
            .collect();
        assert_eq!(changes, case["expect"]["changes"], "{name}");
        assert_eq!(
            (array.slab_indices(), array.slab_offsets()),
            before,
            "{name}: plans change nothing"
        );
    }
    assert_eq!(other, ASKS_FOR_MORE);
}

/// The same transfers and starts, with counts that are no larger.
fn assert_same_but_shorter(found: &Json, expected: &Json, name: &str) {
    let all = |transfers: &Json| transfers.as_array().unwrap().clone();
    assert_eq!(all(found).len(), all(expected).len(), "{name}");
    for (found, expected) in all(found).iter().zip(&all(expected)) {
        assert_eq!((&found["src"], &found["dst"]), (&expected["src"], &expected["dst"]), "{name}");
        assert_eq!(all(&found["rows"]).len(), all(&expected["rows"]).len(), "{name}");
        for (found, expected) in all(&found["rows"]).iter().zip(&all(&expected["rows"])) {
            assert_eq!((&found[0], &found[1]), (&expected[0], &expected[1]), "{name}");
            let counts = numbers(&found[2]).into_iter().zip(numbers(&expected[2]));
            assert!(counts.into_iter().all(|(found, expected)| found <= expected), "{name}");
        }
    }
}

#[test]
fn sequences_are_those_of_the_original() {
    let cases = cases("sequences");
    assert_eq!(cases.len(), 120);
    let mut other = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let mut array = build(case);
        let steps = case["ops"].as_array().unwrap().iter().zip(case["steps"].as_array().unwrap());
        for (k, (op, step)) in steps.enumerate() {
            let name = format!("sequence {number}, step {k}: {op}");
            let in_release = |key: &str, release: &str| match &step["alt"][release][key] {
                Json::Null => step[key].clone(),
                other => other.clone(),
            };
            match run(&mut array, op) {
                Some(out) => {
                    assert_eq!(json!(out.shape()), step["out_shape"], "{name}");
                    assert_eq!(json!(out.iter().collect::<Vec<_>>()), step["out"], "{name}");
                }
                None => {
                    assert_eq!(json!(array.shape()), step["shape"], "{name}");
                    assert_eq!(json!(content(&array)), step["content"], "{name}");
                }
            }
            array.check();
            assert_eq!(json!(array.has_changes()), in_release("has_changes", "v260"), "{name}");
            let state = state(&array);
            for (key, found) in state.as_object().unwrap() {
                let expected = in_release(key, "v240");
                let expected =
                    if key == "slabs" { slabs_as_ours(&expected, &array) } else { expected };
                if *found != expected {
                    other.push((number, k, key.clone()));
                }
            }
        }
    }
    assert_eq!(other, []);
}

/// A state as the golden files have it.
fn state(array: &StagedArray) -> Json {
    let grid = array.grid();
    let changes: Json = array
        .changes_plan()
        .iter()
        .filter(|change| change.kind != SlabKind::Full)
        .map(|change| {
            let region: Vec<_> =
                grid.region(change.cell).iter().map(|r| [r.start, r.end]).collect();
            json!([region, change.place.slab, u8::from(change.kind == SlabKind::Staged)])
        })
        .collect();
    let staged = array.changes_plan().iter().filter(|change| change.kind == SlabKind::Staged);
    json!({
        "slab_indices": array.slab_indices(),
        "slab_offsets": array.slab_offsets(),
        "slabs": array.slab_shapes(),
        "n_staged_chunks": staged.count(),
        "changes": changes,
    })
}

/// Base slabs of the original may be cut off at the edge of the array; ours have whole chunks.
fn slabs_as_ours(expected: &Json, array: &StagedArray) -> Json {
    let shapes = array.slab_shapes();
    let kinds: Vec<SlabKind> = array.slab_kinds().collect();
    let one = |(at, shape): (usize, &Json)| match kinds[at] {
        SlabKind::Base if !shape.is_null() => json!(shapes[at]),
        _ => shape.clone(),
    };
    expected.as_array().unwrap().iter().enumerate().map(one).collect()
}

/// Indices that the original refuses and NumPy takes are taken.
#[test]
fn indices_are_taken_as_numpy_takes_them() {
    let cases = cases("errors");
    assert_eq!(cases.len(), 48);
    for case in &cases {
        let shape = numbers(&case["shape"]);
        let array = NdArray::from_ndarray(&range_array(&shape, 0)).into_owned();
        let fill = bytemuck::bytes_of(&-1i32);
        let mut array = StagedArray::from_array(&array, &numbers(&case["chunk"]), fill).unwrap();
        let found = array.get::<i32>(selection(&case["idx"]));
        match &case["numpy"]["ok"] {
            Json::Null => assert_eq!(found.unwrap_err().kind(), ErrorKind::Invalid, "{case}"),
            shape => {
                let found = found.unwrap();
                assert_eq!(json!(found.shape()), *shape, "{case}");
                if case["get"]["data"].is_array() {
                    let data: Vec<i32> = found.iter().copied().collect();
                    assert_eq!(json!(data), case["get"]["data"], "{case}");
                }
            }
        }
        let set = array.set_scalar(selection(&case["idx"]), 7i32);
        assert_eq!(set.is_ok(), case["numpy"]["ok"].is_array(), "{case}");
        if case["set"]["ok"].is_array() {
            assert_eq!(json!(content(&array)), case["set"]["ok"], "{case}");
        }
        assert!(set.is_ok() || !array.has_changes(), "{case}");
    }
}

#[test]
fn derived_arrays_hold_what_the_original_holds() {
    let cases = cases("derive");
    assert_eq!(cases.len(), 36);
    for (number, case) in cases.iter().enumerate() {
        let mut array = build(case);
        for op in case["ops"].as_array().unwrap() {
            run(&mut array, op);
        }
        let derive = &case["derive"];
        let expected = &case["expect"]["b_content"];
        let name = format!("derive {number}: {derive}");
        let derived = match derive["kind"].as_str().unwrap() {
            "copy" => {
                let mut copy = array.clone();
                run(&mut array, &derive["a"]);
                run(&mut copy, &derive["b"]);
                copy
            }
            "refill" => {
                let fill = derive["fill"].as_i64().unwrap() as i32;
                array.refill(bytemuck::bytes_of(&fill)).unwrap()
            }
            "rechunk" => array.rechunk(&numbers(&derive["chunk"])).unwrap(),
            _ => {
                // Back to the type that the rest of this test reads; what was lost stays lost.
                let other = match derive["dtype"].as_str().unwrap() {
                    "i8" => array.map(|n: i32| i64::from(n)).unwrap().map(|n: i64| n as i32),
                    "f8" => array.map(|n: i32| f64::from(n)).unwrap().map(|n: f64| n as i32),
                    "i2" => array.map(|n: i32| n as i16).unwrap().map(|n: i16| i32::from(n)),
                    "u1" => array.map(|n: i32| n as u8).unwrap().map(|n: u8| i32::from(n)),
                    other => panic!("no type {other}"),
                };
                let other = other.unwrap();
                let floats = |json: &Json| json.as_f64().unwrap() as i32;
                let wanted: Vec<i32> = expected.as_array().unwrap().iter().map(floats).collect();
                assert_eq!(content(&other), wanted, "{name}");
                assert_eq!(json!(content(&array)), case["expect"]["a_content"], "{name}");
                continue;
            }
        };
        derived.check();
        assert_eq!(json!(content(&derived)), *expected, "{name}");
        assert_eq!(json!(derived.chunk_shape()), case["expect"]["b_chunk"], "{name}");
        assert_eq!(
            derived.fill_value(),
            bytes([case["expect"]["b_fill"].as_i64().unwrap() as i32])
        );
        assert_eq!(json!(content(&array)), case["expect"]["a_content"], "{name}");
    }
}

/// Between commits, a new array starts from the current base.
#[test]
fn rounds_of_commits_hold_what_the_original_holds() {
    let cases = cases("commit");
    assert_eq!(cases.len(), 44);
    for (number, case) in cases.iter().enumerate() {
        let mut array = build(case);
        let rounds =
            case["rounds"].as_array().unwrap().iter().zip(case["expect"].as_array().unwrap());
        for (ops, expected) in rounds {
            for op in ops.as_array().unwrap() {
                run(&mut array, op);
            }
            assert_eq!(json!(array.shape()), expected["shape"], "commit {number}");
            assert_eq!(json!(content(&array)), expected["content"], "commit {number}");
            array = commit(&array);
            assert_eq!(json!(content(&array)), expected["content"], "commit {number}");
        }
    }
}

/// The array that a commit of this one makes: all that is not fill in one base slab.
fn commit(array: &StagedArray) -> StagedArray {
    let mut slab = Vec::new();
    let mut places = Vec::new();
    let size = array.fill_value().len() * array.chunk_shape().iter().product::<usize>();
    for (cell, state) in array.changes().enumerate() {
        if state.unwrap() == ChunkState::Fill {
            places.push(Place::default());
            continue;
        }
        places.push(Place { slab: 1, slot: (slab.len() / size) as u32 });
        slab.extend_from_slice(&array.chunk(cell).unwrap());
    }
    let base: Arc<dyn BaseSlab> = Arc::new(Chunks { bytes: slab, size });
    let (shape, chunk) = (array.shape(), array.chunk_shape());
    let (dtype, fill) = (array.dtype().clone(), array.fill_value());
    StagedArray::from_base(shape, chunk, dtype, fill, vec![base], places).unwrap()
}

/// Single transfers with steps at both ends. The original clips what is out of bounds; ours is never
/// asked for it, so it is clipped here.
#[test]
fn transfers_copy_what_the_original_copies() {
    let cases = cases("read_many_slices");
    assert_eq!(cases.len(), 30);
    for case in &cases {
        let (from, to) = (numbers(&case["src_shape"]), numbers(&case["dst_shape"]));
        let source = bytes(range_array(&from, 1));
        let mut out = bytes(vec![0; to.iter().product()]);
        for row in case["rows"].as_array().unwrap() {
            let row: Vec<Vec<usize>> = row.as_array().unwrap().iter().map(numbers).collect();
            let group = |axis: usize| {
                let room = |size: usize, start: usize, step: usize| {
                    size.saturating_sub(start).div_ceil(step)
                };
                let segment = Segment {
                    in_chunk: row[0][axis],
                    in_value: row[1][axis],
                    count: row[2][axis]
                        .min(room(from[axis], row[0][axis], row[3][axis]))
                        .min(room(to[axis], row[1][axis], row[4][axis])),
                    chunk_step: row[3][axis],
                    value_step: row[4][axis],
                };
                let (axes, chunks, whole, first) = (vec![axis], vec![0], vec![false], vec![]);
                Group { axes, chunks, whole, first, segments: vec![segment] }
            };
            let groups: Vec<Group> = (0..from.len()).map(group).collect();
            if groups.iter().any(|group| group.segments[0].count == 0) {
                continue;
            }
            let touch = Touch { groups };
            let (from_steps, to_steps) = (c_steps(&from, 4), c_steps(&to, 4));
            let from = Side { steps: &from_steps, chunked: true };
            let to = Side { steps: &to_steps, chunked: false };
            Program::new(&touch, &from, &to, 4, source.len())
                .to_array(&[Move { at: 0, from: 0, to: 0 }], Source::Slots(&source), (&mut out, 0))
                .unwrap();
        }
        assert_eq!(out, bytes(ints(&case["dst"])), "{case}");
    }
}

/// The example of the documentation of versioned-hdf5, word for word.
#[test]
fn plans_print_as_the_document_has_them() {
    let size = 2 * 2 * 4;
    let base: Arc<dyn BaseSlab> = Arc::new(Chunks { bytes: vec![0; 16 * size], size });
    let places = (0..16).map(|slot| Place { slab: 1, slot }).collect();
    let array =
        StagedArray::from_base(&[8, 8], &[2, 2], DType::of::<i32>(), &[0; 4], vec![base], places)
            .unwrap()
            .with_placement(Placement::PerPlan);
    let plan = array.set_item_plan((2..5, 3..6)).unwrap();
    let expected = "\
SetItemPlan
  slabs.append(np.empty((6, 2)))  # slabs[2]
  slabs.append(np.empty((2, 2)))  # slabs[3]
  # 3 transfers from slabs[1] to slabs[2]
  slabs[2][0:2, 0:2] = slabs[1][10:12, 0:2]
  slabs[2][2:4, 0:2] = slabs[1][18:20, 0:2]
  slabs[2][4:6, 0:2] = slabs[1][20:22, 0:2]
  # 1 transfers from value to slabs[3]
  slabs[3][0:2, 0:2] = value[0:2, 1:3]
  # 3 transfers from value to slabs[2]
  slabs[2][0:2, 1:2] = value[0:2, 0:1]
  slabs[2][2:3, 1:2] = value[2:3, 0:1]
  slabs[2][4:5, 0:2] = value[2:3, 1:3]
slab_indices:
[[1 1 1 1]
 [1 2 3 1]
 [1 2 2 1]
 [1 1 1 1]]
slab_offsets:
[[ 0  2  4  6]
 [ 8  0  0 14]
 [16  2  4 22]
 [24 26 28 30]]
";
    assert_eq!(plan.to_string(), expected);
    let reversed = array.get_item_plan((Index::range(None, None, -4), 7)).unwrap().to_string();
    let expected = "\
GetItemPlan
  out = np.empty((2,))
  # axes of out, by axis of the array: 0::-1, None
  # 2 transfers from slabs[1] to out
  out[0:1, 0:1] = slabs[1][15:16, 1:2]
  out[1:2, 0:1] = slabs[1][31:32, 1:2]
";
    assert_eq!(reversed, expected);
}
