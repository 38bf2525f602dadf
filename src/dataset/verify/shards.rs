//! A dataset of many files: each shard by itself, then against the manifest, then all keys.

use crate::error::Shown;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::index::{digest, recorded_md5};
use super::super::names::{ReadManifest, shard_path, shards_of};
use super::super::passes::Passes;
use super::super::reader::ReaderOptions;
use super::super::reader::shards::Shards;
use super::{Files, HearBytes, VerifyProblem, VerifyReport};
use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::shards::{Manifest, ShardEntry};
use crate::format::hex;
use crate::storage::Storage;

/// Checks all shards of a manifest.
pub(super) fn of_manifest(
    storage: &Arc<dyn Storage>,
    path: &Path,
    deep: bool,
    hear: &HearBytes<'_>,
) -> Result<VerifyReport> {
    let mut all = empty(deep);
    let read = match ReadManifest::open(&**storage, path) {
        Ok(read) => read,
        Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::Limit) => {
            all.problems.push(VerifyProblem::new(path, error.message()));
            return Ok(all);
        }
        Err(error) => return Err(error),
    };
    let manifest = &read.manifest;
    let (mut before, folder) = (0, shards_of(&**storage, path));
    for entry in manifest.shards() {
        let shard = shard_path(path, &entry.name);
        folder.resolve(&**storage, &shard)?;
        let hear = |done: u64, of: u64| {
            // The part of this shard, as a part of all.
            let part = u128::from(done) * u128::from(entry.bytes) / u128::from(of.max(1));
            hear((before + part as u64).min(manifest.bytes()), manifest.bytes())
        };
        match one(storage, &shard, deep, &hear) {
            Ok(report) => {
                let problems = compare(storage, path, &shard, entry, &report)?;
                add(&mut all, report);
                all.problems.extend(problems);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                all.problems.push(VerifyProblem::new(&shard, error.message()));
            }
            Err(error) => return Err(error),
        }
        before += entry.bytes;
    }
    if all.problems.is_empty() {
        all.problems.extend(check_keys(storage, path, manifest)?);
    }
    match storage.stat(path)? {
        Some(now) if now.id == read.id() => Ok(all),
        _ => {
            let message = "the dataset changed while it was verified: verify it again";
            Err(Error::new(ErrorKind::Replaced, message).at(path))
        }
    }
}

/// Checks datasets that a pattern stands for.
pub(super) fn of_files(
    storage: &Arc<dyn Storage>,
    files: &[PathBuf],
    deep: bool,
    hear: &HearBytes<'_>,
) -> Result<VerifyReport> {
    let mut all = empty(deep);
    for file in files {
        add(&mut all, one(storage, file, deep, hear)?);
    }
    Ok(all)
}

fn one(
    storage: &Arc<dyn Storage>,
    path: &Path,
    deep: bool,
    hear: &HearBytes<'_>,
) -> Result<VerifyReport> {
    let (storage, path, passes) = (storage.clone(), path.to_path_buf(), Passes::new(0, hear));
    Files { storage, path, end: u64::MAX, passes }.verify(deep, hear)
}

fn empty(deep: bool) -> VerifyReport {
    VerifyReport {
        samples: 0,
        bytes: 0,
        problems: Vec::new(),
        remarks: Vec::new(),
        missing: Vec::new(),
        digests: Vec::new(),
        checksums: 0,
        deep,
        being_written: false,
        leftover: None,
    }
}

fn add(all: &mut VerifyReport, one: VerifyReport) {
    all.samples = all.samples.saturating_add(one.samples);
    all.bytes = all.bytes.saturating_add(one.bytes);
    all.problems.extend(one.problems);
    all.remarks.extend(one.remarks);
    all.missing.extend(one.missing);
    all.digests.extend(one.digests);
    all.checksums = all.checksums.saturating_add(one.checksums);
    all.being_written |= one.being_written;
    all.leftover = all.leftover.take().or(one.leftover);
}

/// Compares a shard with its entry in the manifest.
fn compare(
    storage: &Arc<dyn Storage>,
    manifest: &Path,
    shard: &Path,
    entry: &ShardEntry,
    report: &VerifyReport,
) -> Result<Vec<VerifyProblem>> {
    let mut problems = Vec::new();
    let mut differs = |what: &str, expected: String, found: String| {
        let shown = Shown::of(&manifest);
        let message = format!("expected {what} {expected}, as {shown} says, found {found}");
        problems.push(VerifyProblem::new(shard, message));
    };
    let numbers =
        [("samples:", entry.samples, report.samples), ("bytes:", entry.bytes, report.bytes)];
    for (what, expected, found) in numbers {
        if expected != found {
            differs(what, expected.to_string(), found.to_string());
        }
    }
    if let Some(expected) = entry.md5 {
        // The data were compared with it just now, if it is there.
        let recorded = match report.digests.iter().any(|file| file == shard) {
            true => recorded_md5(storage, shard)?,
            false => None,
        };
        let found = match recorded {
            Some(found) => found,
            None => digest(storage, shard)?,
        };
        if found != expected {
            differs("the MD5", hex(&expected), hex(&found));
        }
    }
    Ok(problems)
}

/// Keys outside of the range that the manifest says, and keys that two shards have.
fn check_keys(
    storage: &Arc<dyn Storage>,
    path: &Path,
    manifest: &Manifest,
) -> Result<Option<VerifyProblem>> {
    let options = ReaderOptions::default();
    let shards = Shards::of_manifest(storage.clone(), path, options)?;
    for (number, entry) in manifest.shards().iter().enumerate() {
        let Some((first, last)) = &entry.keys else { continue };
        let reader = shards.open(number)?;
        for (index, key) in reader.keys().enumerate() {
            let key = key?;
            if &*key < first.as_str() || last.as_str() < &*key {
                let message = format!(
                    "expected a key from {first:?} to {last:?}, as {} says",
                    Shown::of(&path)
                );
                let problem = VerifyProblem::new(&reader.path, message);
                return Ok(Some(problem.index(index).key(key.as_bytes())));
            }
        }
    }
    Ok(shards.check_unique().err().map(|error| match error.kind() {
        ErrorKind::DuplicateKey => {
            let file = error.path().unwrap_or(path);
            let problem = VerifyProblem::new(file, error.message());
            let index = error.index().unwrap_or_default() as usize;
            Ok(problem.index(index).key(error.key().unwrap_or_default().as_bytes()))
        }
        _ => Err(error),
    }))
    .and_then(Option::transpose)
}
