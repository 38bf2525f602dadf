//! Selections of all kinds, read and assigned: two arrays that differ in nothing but their chunks
//! agree, and changing the shape makes no difference either.
#![no_main]

use kiste::array::{Index, Placement, Selection, StagedArray};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Input {
    shape: Vec<u8>,
    chunks: [u8; 4],
    per_plan: bool,
    steps: Vec<Step>,
}

#[derive(Debug, Arbitrary)]
enum Step {
    Get(Vec<Part>),
    Set(Vec<Part>, u8),
    Fill(Vec<Part>),
    Resize([u8; 4]),
    Load,
    Rechunk([u8; 4]),
}

#[derive(Debug, Arbitrary)]
enum Part {
    At(i8),
    Slice(Option<i8>, Option<i8>, i8),
    Points(Vec<i8>),
    Table(u8, Vec<i8>),
    Mask(Vec<u8>, u64),
    Ellipsis,
    NewAxis,
    Huge(isize, isize, isize),
}

fn selection(parts: &[Part], shape: &[usize]) -> Selection {
    let wide = |at: &i8| isize::from(*at);
    let one = |(axis, part): (usize, &Part)| match part {
        Part::At(at) => Index::At(wide(at)),
        Part::Slice(start, stop, step) => {
            Index::range(start.as_ref().map(wide), stop.as_ref().map(wide), wide(step))
        }
        Part::Points(points) => Index::from(points.iter().map(wide).collect::<Vec<_>>()),
        Part::Table(rows, points) => {
            let rows = usize::from(*rows).min(points.len()).max(1);
            let points: Vec<isize> = points.iter().map(wide).collect();
            Index::Points { shape: vec![rows, points.len() / rows], points }
        }
        Part::Mask(other, seed) => {
            // Mostly as the axis has it.
            let len = shape.get(axis).copied().unwrap_or(0);
            let shape: Vec<usize> = match other.first() {
                None => vec![len],
                Some(_) => other.iter().take(3).map(|len| usize::from(*len) % 9).collect(),
            };
            let len = shape.iter().product();
            Index::Mask { shape, mask: (0..len).map(|i| seed >> (i % 64) & 1 == 1).collect() }
        }
        Part::Ellipsis => Index::Ellipsis,
        Part::NewAxis => Index::NewAxis,
        Part::Huge(start, stop, step) => Index::range(Some(*start), Some(*stop), *step),
    };
    parts.iter().take(6).enumerate().map(one).collect()
}

fn lens(given: &[u8], axes: usize, least: usize, most: usize) -> Vec<usize> {
    (0..axes).map(|i| least + usize::from(given[i]) % (most - least)).collect()
}

fn assert_same(one: &StagedArray, other: &StagedArray, selection: &Selection) {
    let (a, b) = (one.read(selection.clone()), other.read(selection.clone()));
    match (a, b) {
        (Ok(a), Ok(b)) => {
            assert!(a == b && a.shape() == one.plan_get(selection.clone()).unwrap().shape())
        }
        (Err(a), Err(b)) => assert_eq!(a.kind(), b.kind()),
        _ => panic!("only one of them reads {selection}"),
    }
}

/// Nothing larger: a few points on each of many axes are many elements.
const LIMIT: usize = 1 << 16;

fuzz_target!(|input: Input| {
    let axes = input.shape.len().min(4);
    let mut shape = lens(&input.shape, axes, 0, 9);
    let chunks = lens(&input.chunks, axes, 1, 6);
    let placement = if input.per_plan { Placement::PerPlan } else { Placement::Open };
    let mut one = StagedArray::full(&shape, &chunks, 7_u16).unwrap().with_placement(placement);
    let mut other = StagedArray::full(&shape, &vec![9; axes], 7_u16).unwrap();
    for (number, step) in input.steps.iter().take(12).enumerate() {
        match step {
            Step::Get(parts) | Step::Set(parts, _) | Step::Fill(parts) => {
                let selection = selection(parts, &shape);
                let Ok(plan) = one.plan_get(selection.clone()) else {
                    assert!(other.plan_get(selection.clone()).is_err());
                    assert!(one.set_scalar(selection, 1_u16).is_err());
                    continue;
                };
                let len = plan.shape().iter().fold(1_usize, |len, &n| len.saturating_mul(n));
                if len > LIMIT {
                    continue;
                }
                match step {
                    Step::Set(_, seed) => {
                        let shape = plan.shape().to_vec();
                        let values = (0..len).map(|i| (i * 31 + usize::from(*seed)) as u16);
                        let values =
                            ndarray::ArrayD::from_shape_vec(shape, values.collect()).unwrap();
                        one.set(selection.clone(), &values).unwrap();
                        other.set(selection.clone(), &values).unwrap();
                    }
                    Step::Fill(_) => {
                        one.set_scalar(selection.clone(), number as u16).unwrap();
                        other.set_scalar(selection.clone(), number as u16).unwrap();
                    }
                    _ => {}
                }
                assert_same(&one, &other, &selection);
            }
            Step::Resize(to) => {
                shape = lens(to, axes, 0, 9);
                one.resize(&shape).unwrap();
                other.resize(&shape).unwrap();
            }
            Step::Load => one.load().unwrap(),
            Step::Rechunk(to) => one = one.rechunk(&lens(to, axes, 1, 6)).unwrap(),
        }
        assert_same(&one, &other, &Selection::all());
        let _ = one.changes().count();
    }
});
