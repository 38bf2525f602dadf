//! The C library c-blosc behind two safe functions: beside the memory map the only unsafe code.
//!
//! Only the functions that take all they need as arguments are called, with one thread each: they
//! share nothing and take no lock, and their output is the same every time. The C library gets no
//! chunk that [`validate`] has not passed; what is left to trust is that its decoders stay within a
//! stream and an output whose lengths they are told.
#![expect(unsafe_code, reason = "calls into C; the contract stands above")]

use std::ffi::{CStr, c_int};

use super::header::HEADER;
use super::validate::validate;
use super::{Codec, EncodeError, Params, Scratch, Shuffle};
use crate::format::FormatError;

/// Whether chunks of this codec are decompressed here.
///
/// Snappy is C++, and the library is built without it. Zlib it has, but Rust's is several times
/// as fast.
pub(super) fn reads(codec: Codec) -> bool {
    !matches!(codec, Codec::Snappy | Codec::Zlib)
}

/// Whether chunks of this codec are written here.
pub(super) fn writes(codec: Codec) -> bool {
    codec != Codec::Snappy
}

/// Decompresses a chunk into all of `out`.
pub(super) fn decompress(chunk: &[u8], out: &mut [u8]) -> Result<(), FormatError> {
    let header = validate(chunk)?;
    super::expect_length(&header, out.len())?;
    // SAFETY: `chunk` is as long as its header says, for `validate` has compared the two, and all
    // positions and lengths in it lie within; C writes at most `out.len()` bytes to `out`, which
    // are initialised, whatever it leaves of them. Both fit an i32: `MAX_CHUNK` does. With one
    // thread neither pointer is kept beyond the call.
    let written = unsafe {
        blosc_src::blosc_decompress_ctx(
            chunk.as_ptr().cast(),
            out.as_mut_ptr().cast(),
            out.len(),
            1,
        )
    };
    if usize::try_from(written) == Ok(out.len()) {
        return Ok(());
    }
    let expected = format!("blocks of {} that hold {} bytes", header.codec(), out.len());
    Err(FormatError::new(HEADER as u64, expected, "a damaged one"))
}

/// Appends a chunk of parameters that were checked.
pub(super) fn compress(
    params: &Params,
    bytes: &[u8],
    out: &mut Vec<u8>,
    _: &mut Scratch,
) -> Result<usize, EncodeError> {
    params.check(bytes.len())?;
    let shuffle: c_int = match params.shuffle {
        Shuffle::None => 0,
        Shuffle::Byte => 1,
        Shuffle::Bit => 2,
    };
    // A chunk is never longer than this: the library copies what does not compress.
    let room = bytes.len() + HEADER;
    out.reserve(room);
    let spare = out.spare_capacity_mut();
    // SAFETY: C reads `bytes.len()` bytes of `bytes` and writes at most `room` bytes to `spare`,
    // which has that many; they do not overlap. The name is a C string without end of life. With
    // one thread no pointer is kept beyond the call. The parameters are in the ranges that C
    // accepts, and the sizes fit an i32: `check` has seen to both.
    let written = unsafe {
        blosc_src::blosc_compress_ctx(
            c_int::from(params.level),
            shuffle,
            params.typesize,
            bytes.len(),
            bytes.as_ptr().cast(),
            spare.as_mut_ptr().cast(),
            room,
            name(params.codec).as_ptr(),
            params.blocksize.unwrap_or(0),
            1,
        )
    };
    match usize::try_from(written) {
        Ok(written) if (HEADER..=room).contains(&written) => {
            // SAFETY: that many bytes of the spare capacity are there, see above, and C has
            // written them all: the header, the positions of the blocks and the blocks stand
            // without gaps.
            unsafe { out.set_len(out.len() + written) };
            Ok(written)
        }
        // It fails only for codecs that it does not have, which `writes` excludes.
        _ => Err(EncodeError::Unsupported(params.codec)),
    }
}

fn name(codec: Codec) -> &'static CStr {
    match codec {
        Codec::BloscLz => c"blosclz",
        Codec::Lz4 => c"lz4",
        Codec::Lz4hc => c"lz4hc",
        Codec::Snappy => c"snappy",
        Codec::Zlib => c"zlib",
        Codec::Zstd => c"zstd",
    }
}
