//! The list of keys, and what is made of it: hashes, filter and lookup.

use std::path::Path;

use rayon::prelude::*;

use crate::error::Result;
use crate::format::dataset::key_hashes::{self, Salt};
use crate::format::dataset::{SideFile, filter, keys, lookup};
use crate::format::hex;

use super::super::index;
use super::{Files, VerifyProblem};

impl Files<'_> {
    pub(super) fn check_hashes(
        &self,
        listed: &[&[u8]],
        problems: &mut Vec<VerifyProblem>,
    ) -> Result<()> {
        let keys_path = SideFile::Keys.path(&self.path);
        let hashes = match self.compare_hashes(listed, problems)? {
            Some(hashes) => hashes,
            None => listed.par_iter().map(|key| lookup::hash(key)).collect(),
        };
        for (first, second) in same_hashes(&hashes) {
            let same = listed[first] == listed[second];
            let what = if same { "the same key" } else { "another key with the same hash" };
            let message = format!("sample {first} has {what}");
            let problem = VerifyProblem::new(&keys_path, message);
            problems.push(problem.index(second).key(listed[second]));
        }
        Ok(())
    }

    /// The hashes that there should be, under the salt that there is, where there are that many.
    fn compare_hashes(
        &self,
        listed: &[&[u8]],
        problems: &mut Vec<VerifyProblem>,
    ) -> Result<Option<Vec<u64>>> {
        let Some((path, file)) = self.open(SideFile::KeyHashes)? else { return Ok(None) };
        match key_hashes::count(file.len()) {
            Ok(count) if count == listed.len() as u64 => {}
            Ok(count) => {
                let message = format!("expected {} hashes, found {count}", listed.len());
                problems.push(VerifyProblem::new(&path, message));
                return Ok(None);
            }
            Err(e) => {
                problems.push(VerifyProblem::at_format(&path, e));
                return Ok(None);
            }
        }
        let bytes = file.read(0..file.len())?;
        let (salt, stored) = bytes.split_at(8);
        let salt = Salt(<[u8; 8]>::try_from(salt).unwrap_or_default());
        let mut hashes = vec![0; listed.len()];
        let tasks = listed.par_chunks(1024).zip(hashes.par_chunks_mut(1024));
        tasks.for_each(|(keys, out)| key_hashes::hash_many(&salt, keys, out));
        for (index, (stored, hash)) in stored.chunks_exact(8).zip(&hashes).enumerate() {
            if stored != hash.to_be_bytes() {
                let message = format!("expected the hash {hash:016x}, found {}", hex(stored));
                let at = 8 + 8 * index as u64;
                let problem = VerifyProblem::new(&path, message).index(index).key(listed[index]);
                problems.push(problem.bytes(at..at + 8));
            }
        }
        self.check_lookup(&salt, &hashes, listed, problems)?;
        Ok(Some(hashes))
    }

    pub(super) fn check_lookup(
        &self,
        salt: &Salt,
        hashes: &[u64],
        listed: &[&[u8]],
        problems: &mut Vec<VerifyProblem>,
    ) -> Result<()> {
        let Some((path, file)) = self.open(SideFile::Lookup)? else { return Ok(()) };
        let bytes = file.read(0..file.len())?;
        let expected = index::lookup_file(*salt, hashes, listed)?;
        if *bytes != expected[..] {
            let at = bytes.iter().zip(&expected).take_while(|(a, b)| a == b).count() as u64;
            let message = "differs from the one made from the keys";
            problems.push(VerifyProblem::new(&path, message).bytes(at..bytes.len() as u64));
        }
        Ok(())
    }

    pub(super) fn check_filter(
        &self,
        listed: &[&[u8]],
        problems: &mut Vec<VerifyProblem>,
    ) -> Result<()> {
        let Some((path, file)) = self.open(SideFile::Filter)? else { return Ok(()) };
        let bytes = file.read(0..file.len())?;
        let header = &bytes[..bytes.len().min(filter::HEADER)];
        let params = match filter::Params::parse(header, file.len()) {
            Ok(params) => params,
            Err(e) => {
                problems.push(VerifyProblem::at_format(&path, e));
                return Ok(());
            }
        };
        let expected = filter::Params::for_len(listed.len() as u64);
        if params != expected {
            let (expected, found) = (expected.elements(), params.elements());
            let message = format!("expected a filter for {expected} keys, found one for {found}");
            problems.push(VerifyProblem::new(&path, message));
            return Ok(());
        }
        let stored = &bytes[filter::HEADER..];
        let mut pairs = vec![(0, 0); listed.len()];
        let tasks = listed.par_chunks(1024).zip(pairs.par_chunks_mut(1024));
        tasks.for_each(|(keys, out)| filter::pair_many(keys, out));
        let mut bits = vec![0; stored.len()];
        for (index, pair) in pairs.iter().enumerate() {
            params.insert(&mut bits, *pair);
            if !params.contains(stored, *pair) {
                let message = "expected all bits of this key, found some missing";
                problems.push(VerifyProblem::new(&path, message).index(index).key(listed[index]));
            }
        }
        for (at, (stored, expected)) in stored.iter().zip(&bits).enumerate() {
            if stored & !expected != 0 {
                let message = format!("expected the bits {expected:08b}, found {stored:08b}");
                let at = (filter::HEADER + at) as u64;
                problems.push(VerifyProblem::new(&path, message).bytes(at..at + 1));
            }
        }
        Ok(())
    }
}

/// The keys that can be read, and what is wrong with the rest.
pub(super) fn check_keys<'a>(
    path: &Path,
    bytes: &'a [u8],
    samples: Option<usize>,
    problems: &mut Vec<VerifyProblem>,
) -> Vec<&'a [u8]> {
    let mut listed = Vec::new();
    match keys::parse_header(bytes) {
        Ok((count, _)) if samples.is_some_and(|samples| samples as u64 != count) => {
            let samples = samples.unwrap_or_default();
            problems
                .push(VerifyProblem::new(path, format!("expected {samples} keys, found {count}")));
        }
        Ok(_) => {}
        Err(e) => {
            problems.push(VerifyProblem::at_format(path, e));
            return listed;
        }
    }
    match keys::Keys::parse(bytes) {
        Ok(keys) => {
            for key in keys {
                match key {
                    Ok(key) => listed.push(key.as_bytes()),
                    Err(e) => {
                        problems.push(VerifyProblem::at_format(path, e).index(listed.len()));
                        break;
                    }
                }
            }
        }
        Err(e) => problems.push(VerifyProblem::at_format(path, e)),
    }
    listed
}

/// The samples with equal hashes: each with the one before it.
pub(super) fn same_hashes(hashes: &[u64]) -> impl Iterator<Item = (usize, usize)> {
    let mut sorted: Vec<(u64, u32)> = (0u32..).zip(hashes).map(|(i, hash)| (*hash, i)).collect();
    sorted.par_sort_unstable();
    let pairs: Vec<_> = sorted.windows(2).filter(|pair| pair[0].0 == pair[1].0).collect();
    let pairs: Vec<_> = pairs.iter().map(|p| (p[0].1 as usize, p[1].1 as usize)).collect();
    pairs.into_iter()
}
