//! Kept selections, with the right checksum: what is read has the indices that it counts, and comes back.
#![no_main]

use kiste::format::recipe::KeptSelection;
use libfuzzer_sys::fuzz_target;
use twox_hash::XxHash3_64;

fuzz_target!(|body: &[u8]| {
    let _ = KeptSelection::parse(body);
    let bytes = [body, &XxHash3_64::oneshot(body).to_le_bytes()].concat();
    let Ok(kept) = KeptSelection::parse(&bytes) else { return };
    let indices = kept.iter().take(10_000);
    assert_eq!(indices.inspect(|&at| assert!(at < kept.source_len)).count() as u64, kept.count.min(10_000));
    // Not with an identity that is a URL with a password.
    if let Ok(again) = kept.encode() {
        assert_eq!(KeptSelection::parse(&again).unwrap(), kept);
    }
});
