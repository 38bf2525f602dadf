//! Blosc chunks: the C library after our checks, and safe Rust, must agree; ranges with both.
//!
//! Two codecs are exempt from a part of this. Which damaged LZ4 streams are refused differs: the
//! decoder in C wants the last bytes of a stream to be literals and lets a distance of 0 pass, the
//! one in Rust neither. A damaged Zstandard frame without a checksum may also become other bytes.

#![no_main]

use kiste::format::__private::blosc as safe;
use kiste::format::blosc::{Codec, Header, Scratch};
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
    match (header.codec(), &fast, &plain) {
        (Codec::Zstd, ..) | (_, Err(_), Err(_)) => {}
        (_, Ok(fast), Ok(plain)) => assert!(fast == plain, "two contents"),
        (codec, ..) => assert!(codec == Codec::Lz4, "only one reads it"),
    }
    let range = len / 3..len - len / 5;
    let mut part = vec![0; range.len()];
    let done = scratch.decompress_range(chunk, range.clone(), &mut part);
    if let Ok(whole) = &fast {
        done.expect("the whole can be read");
        assert!(part == whole[range], "the range is not a part of the whole");
    }
});
