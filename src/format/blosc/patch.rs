//! Compressing a chunk again after a small change: blocks with the same bytes as before are copied
//! as they are.
//!
//! Blocks are compressed each on its own, so the chunk is the one that compressing all of it makes,
//! if the same codecs made the earlier one. Nothing is assumed about that one: a block is used only
//! if it decompresses to the very bytes, or if the caller has decompressed it and knows which bytes
//! have changed since.

use std::ops::Range;

use super::header::{HEADER, Header, WORD, to_bytes};
use super::validate::{block, whole};
use super::{Params, Scratch};

/// Comparing a block costs about a fifth of compressing it. If this part of the blocks has changed, and more
/// than have not, the others are taken to have changed too.
const GIVE_UP: usize = 8;

/// Appends the chunk of these bytes; `None` if nothing of the earlier chunk is of use, and nothing was appended.
/// With the earlier chunk come the bytes that may have changed, where that is known.
pub(super) fn compress_changed(
    params: &Params,
    (before, changed): (&[u8], Option<Range<usize>>),
    bytes: &[u8],
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Option<usize> {
    let old = whole(before).ok()?;
    let alike = old.nbytes() == bytes.len() && old.typesize() == params.typesize;
    // A short block at the end is not split, but would be if it were compressed alone.
    if !alike || params.level == 0 || old.positions() < 2 || bytes.len() % old.blocksize() != 0 {
        return None;
    }
    let start = out.len();
    let end = put_blocks(params, (before, &old, changed), bytes, out, scratch);
    if end.is_none() {
        out.truncate(start);
    }
    end
}

fn put_blocks(
    params: &Params,
    (before, old, known): (&[u8], &Header, Option<Range<usize>>),
    bytes: &[u8],
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Option<usize> {
    let (start, blocks) = (out.len(), old.blocks());
    out.resize(start + HEADER + WORD * blocks, 0);
    let (mut same, mut changed) = (0, 0);
    let mut alone = Vec::new();
    for (index, content) in bytes.chunks_exact(old.blocksize()).enumerate() {
        let at = out.len();
        let word = start + HEADER + WORD * index;
        out[word..word + WORD].copy_from_slice(&((at - start) as u32).to_le_bytes());
        let range = old.block(index);
        let is_known = known.as_ref().map(|c| c.end <= range.start || range.end <= c.start);
        if is_known.unwrap_or(changed * GIVE_UP <= blocks || changed <= same) {
            out.extend_from_slice(block(before, old, index).ok()?.bytes);
            if is_known == Some(true) || scratch.holds(&out[start..], old, index, content) {
                same += 1;
                continue;
            }
            out.truncate(at);
        }
        changed += 1;
        alone.clear();
        let params = Params { blocksize: Some(content.len()), ..params.clone() };
        scratch.compress(&params, content, &mut alone).ok()?;
        let new = Header::parse(&alone).ok()?;
        // A block that does not compress stands in its own chunk as a copy.
        if new.flags != old.flags || new.blocksize() != old.blocksize() {
            return None;
        }
        out.extend_from_slice(alone.get(HEADER + WORD..)?);
    }
    let len = out.len() - start;
    // A chunk that would become longer than its content is copied as a whole.
    if same == 0 || len >= bytes.len() + HEADER {
        return None;
    }
    let header = to_bytes(old.flags, old.typesize, bytes.len(), old.blocksize(), len);
    out[start..start + HEADER].copy_from_slice(&header);
    Some(len)
}

impl Scratch {
    /// Whether this block decompresses to these bytes.
    fn holds(&mut self, chunk: &[u8], header: &Header, index: usize, content: &[u8]) -> bool {
        let mut buffer = std::mem::take(&mut self.block);
        let found = super::safe::sized(&mut buffer, content.len());
        let done = self.decompress_block(chunk, header, index, found);
        let holds = done.is_ok() && *found == *content;
        self.block = buffer;
        holds
    }
}
