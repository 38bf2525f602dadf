//! The accelerator: header, and the walk through slots that hold anything.
#![no_main]

use kiste::format::FormatError;
use kiste::format::dataset::lookup;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let header = &bytes[..bytes.len().min(lookup::HEADER)];
    let Ok(header) = lookup::Header::parse(header, bytes.len() as u64) else { return };
    let _ = header.check_source(header.source());
    let shape = header.shape();
    let slots = &bytes[lookup::HEADER..];
    for wanted in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
        let mut probe = shape.probe(wanted);
        let slot = |i| Ok::<_, FormatError>(lookup::slot(slots, i).unwrap_or(lookup::EMPTY));
        // Hashes that agree with whatever is asked, so that the walk goes on.
        let mut steps = 0;
        while let Ok(Some(index)) = probe.next_candidate(slot, |_| Ok(wanted)) {
            assert!(u64::from(index) < shape.count());
            steps += 1;
            assert!(steps <= shape.slots());
        }
    }
});
