//! The accelerator: header, and the walk through slots that hold anything, or what belongs there but
//! for one of them. An odd first byte says that the rest is a file.
#![no_main]

use kiste::format::FormatError;
use kiste::format::__private::lookup::{self, EMPTY, Placer, Shape};
use libfuzzer_sys::fuzz_target;

fn file(bytes: &[u8]) {
    let header = &bytes[..bytes.len().min(lookup::HEADER)];
    let Ok(header) = lookup::Header::parse(header, bytes.len() as u64) else { return };
    let _ = header.check_source(header.source());
    let shape = header.shape();
    let slots = &bytes[lookup::HEADER..];
    for wanted in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
        let mut probe = shape.probe(wanted);
        let slot = |i| Ok::<_, FormatError>(lookup::slot(slots, i).unwrap_or(EMPTY));
        let mut steps = 0;
        while let Ok(Some(index)) = probe.next_candidate(slot) {
            assert!(u64::from(index) < shape.count());
            steps += 1;
            assert!(steps <= shape.slots());
        }
    }
}

/// The samples that a walk finds, in order; none behind damage that it saw.
fn found(shape: Shape, slots: &[u32], wanted: u64) -> Vec<u32> {
    enum Stop {
        Damaged,
    }
    impl From<FormatError> for Stop {
        fn from(_: FormatError) -> Stop {
            Stop::Damaged
        }
    }
    let mut probe = shape.probe(wanted);
    let slot = |slot: u64| Ok::<_, Stop>(slots[slot as usize]);
    std::iter::from_fn(|| probe.next_candidate(slot).ok().flatten()).collect()
}

/// A table of the hashes that the bytes make, in which one slot may hold something else.
fn table(at: u8, value: u8, bytes: &[u8]) {
    // Many are equal, and many close together.
    let hash = |two: &[u8]| u64::from(two[0]) << 56 | u64::from(two[1] / 16);
    let hashes: Vec<u64> = bytes.chunks_exact(2).map(hash).collect();
    let mut sorted: Vec<(u64, u32)> = hashes.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    let mut placer = Placer::new(hashes.len() as u64).unwrap();
    for (hash, index) in &sorted {
        placer.push(*hash, *index).unwrap();
    }
    let (shape, mut slots) = placer.finish().unwrap();
    let damaged = slots.get_mut(usize::from(at)).map(|slot| {
        *slot = if value == u8::MAX { EMPTY } else { value.into() };
    });
    for wanted in hashes.iter().copied().chain([0, 1 << 63, u64::MAX]) {
        let mut found = found(shape, &slots, wanted);
        assert!(found.len() <= hashes.len());
        if damaged.is_none() {
            // Another hash may have the same tag.
            found.retain(|&index| hashes[index as usize] == wanted);
            let right = sorted.iter().filter(|(hash, _)| *hash == wanted).map(|(_, index)| *index);
            assert!(right.eq(found));
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    match bytes {
        [odd, rest @ ..] if odd % 2 == 1 => file(rest),
        [_, at, value, rest @ ..] => table(*at, *value, rest),
        _ => {}
    }
});
