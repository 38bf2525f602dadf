//! Blosc chunks: the C library after our checks, and safe Rust, must agree; ranges with both.
//!
//! Two codecs are exempt from one half of this, that both refuse the same streams. The LZ4 decoder
//! in C wants the last bytes of a stream to be literals and lets a distance of 0 pass, the one in
//! Rust neither; and of Zstandard frames C checks the checksum and reads what older versions of the
//! format left behind.

#![no_main]

use kiste::format::blosc::{Codec, Header, Scratch, safe};
use libfuzzer_sys::fuzz_target;

/// Larger chunks are refused here: they only take time.
const LIMIT: usize = 1 << 20;

fuzz_target!(|chunk: &[u8]| {
    let Ok(header) = Header::parse(chunk) else { return };
    let len = header.nbytes();
    if len > LIMIT {
        return;
    }
    let mut scratch = Scratch::default();
    let (mut fast, mut plain) = (vec![0; len], vec![0; len]);
    let fast = scratch.decompress_into(chunk, &mut fast).map(|_| fast);
    let plain = safe::decompress_into(chunk, &mut plain, &mut scratch).map(|_| plain);
    match (&fast, &plain) {
        (Ok(fast), Ok(plain)) => assert!(fast == plain, "two contents"),
        (Err(_), Err(_)) => {}
        _ => assert!(matches!(header.codec(), Codec::Lz4 | Codec::Zstd), "only one reads it"),
    }
    let range = len / 3..len - len / 5;
    let mut part = vec![0; range.len()];
    let done = scratch.decompress_range(chunk, range.clone(), &mut part);
    if let Ok(whole) = &fast {
        done.expect("the whole can be read");
        assert!(part == whole[range], "the range is not a part of the whole");
    }
});
