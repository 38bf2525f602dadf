//! BloscLZ, Blosc's own codec, a relative of FastLZ.
//!
//! A stream is a sequence of instructions. Each begins with a control byte:
//!
//! * below 32: a literal run; that many bytes and one more follow.
//! * else a match: the upper three bits are its length minus 2, and if all are set, bytes follow
//!   that are added to the length, up to the first that is not 255. The lower five bits and
//!   the next byte are its distance minus 1; if all of these 13 bits are set, two more bytes
//!   follow, the distance minus 8192 with the upper byte first.
//!
//! The first instruction is always a literal run, and so must the last be: the C library does not
//! carry out a match behind which nothing comes.

/// How far back a match of 13 bits reaches.
const NEAR: usize = 8191;

/// Decompresses a stream into all of `out`; `None` if it is not one of just that many bytes.
pub(super) fn decompress(stream: &[u8], out: &mut [u8]) -> Option<()> {
    let (&first, mut rest) = stream.split_first()?;
    // Like c-blosc, which ignores the upper three bits of the first byte.
    let mut control = usize::from(first & 31);
    let mut filled = 0;
    loop {
        if control < 32 {
            let run;
            (run, rest) = rest.split_at_checked(control + 1)?;
            out.get_mut(filled..filled + run.len())?.copy_from_slice(run);
            filled += run.len();
            if rest.is_empty() {
                return (filled == out.len()).then_some(());
            }
        } else {
            let (length, distance) = read_match(control, &mut rest)?;
            if distance > filled || length > out.len() - filled {
                return None;
            }
            repeat(out, filled, distance, length);
            filled += length;
        }
        control = usize::from(next(&mut rest)?);
    }
}

/// The length and the distance of a match.
#[inline]
fn read_match(control: usize, rest: &mut &[u8]) -> Option<(usize, usize)> {
    let mut length = (control >> 5) + 2;
    if length == 9 {
        loop {
            let more = next(rest)?;
            length += usize::from(more);
            if more != 255 {
                break;
            }
        }
    }
    let near = (control & 31) << 8 | usize::from(next(rest)?);
    if near < NEAR {
        return Some((length, near + 1));
    }
    let far = usize::from(next(rest)?) << 8 | usize::from(next(rest)?);
    Some((length, far + NEAR + 1))
}

#[inline]
fn next(rest: &mut &[u8]) -> Option<u8> {
    let (&byte, tail) = rest.split_first()?;
    *rest = tail;
    Some(byte)
}

/// Fills `length` bytes from `at` on with those `distance` before; they may run into one another.
#[inline]
fn repeat(out: &mut [u8], at: usize, distance: usize, length: usize) {
    let from = at - distance;
    if distance == 1 {
        let byte = out[from];
        out[at..at + length].fill(byte);
        return;
    }
    // The copied bytes continue the period, so each round can copy twice as much as the last.
    let mut done = distance.min(length);
    out.copy_within(from..from + done, at);
    while done < length {
        let step = done.min(length - done);
        out.copy_within(at..at + step, at + done);
        done += step;
    }
}
