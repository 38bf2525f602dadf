//! Distinguishes the samples of a reader from other samples of the same number.

use super::Reader;
use crate::error::Result;
use crate::format::hex;
use crate::format::md5::Md5;

/// How an identity begins that was made of some samples.
pub(crate) const SAMPLES: &str = "samples:";
/// The prefix of an identity that is made of other readers' identities.
const COMPOSED: &str = "composed:";
/// Samples that are looked at where there is no digest, and of a remote dataset.
pub(crate) const LOOKED_AT: usize = 64;
pub(crate) const LOOKED_AT_REMOTE: usize = 8;
/// Bytes of each that are looked at, at both ends.
const HEAD: usize = 4096;

/// About as many indices, spread over all samples, which are fetched.
pub(crate) fn looked_at<R: Reader + ?Sized>(reader: &R, most: usize) -> Vec<usize> {
    let len = reader.len();
    let mut indices: Vec<usize> = (0..len).step_by(len / most + 1).collect();
    indices.extend(len.checked_sub(1));
    reader.prefetch(&indices);
    indices
}

/// Both ends of a sample.
pub(crate) fn add(raw: &[u8], md5: &mut Md5) {
    md5.update(&raw[..raw.len().min(HEAD)]);
    md5.update(&raw[raw.len() - raw.len().min(HEAD)..]);
}

/// An identity by how many samples there are, and some of them.
pub(super) fn by_samples<R: Reader + ?Sized>(reader: &R) -> Result<String> {
    let mut md5 = Md5::new();
    md5.update(&(reader.len() as u64).to_be_bytes());
    let most = if reader.is_remote() { LOOKED_AT_REMOTE } else { LOOKED_AT };
    for index in looked_at(reader, most) {
        let raw = reader.get_raw(index)?;
        md5.update(&(raw.len() as u64).to_be_bytes());
        add(&raw, &mut md5);
    }
    Ok(format!("{SAMPLES}{}", hex(&md5.finish())))
}

/// An identity made of others, in their order, and of numbers.
pub(super) fn composed(
    how: &str,
    of: impl IntoIterator<Item = Result<String>>,
    numbers: impl IntoIterator<Item = usize>,
) -> Result<String> {
    let mut md5 = Md5::new();
    let mut part = |text: &str| {
        md5.update(&(text.len() as u64).to_be_bytes());
        md5.update(text.as_bytes());
    };
    part(how);
    for identity in of {
        part(&identity?);
    }
    for number in numbers {
        md5.update(&(number as u64).to_be_bytes());
    }
    Ok(format!("{COMPOSED}{}", hex(&md5.finish())))
}
