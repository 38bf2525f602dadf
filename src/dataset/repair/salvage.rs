//! Saving what is whole of a damaged or half-written dataset.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::{SideFile, crc, keys, offsets};
use crate::format::md5::Md5;
use crate::format::{hex, msgpack};
use crate::storage::{Source, Storage};

use super::super::index::{self, Checksums};
use super::super::staging;
use super::super::walk::sample_at;
use super::super::writer::{Writer, WriterOptions};

/// The samples that [`Repair::salvage`](super::Repair::salvage) saved and the ones it could not.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Salvage {
    /// The file that was read: the data file, or the data of an unfinished write.
    #[serde(serialize_with = "crate::error::serialize_path")]
    pub source: PathBuf,
    /// Samples saved.
    pub samples: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// The samples that could not be saved.
    pub lost: Vec<Loss>,
    /// The evidence that the saved samples are unchanged.
    pub proof: Proof,
    /// Whether the data matches the MD5 that was recorded of it; `None` if none was.
    pub matches_md5: Option<bool>,
    /// The digests that were recorded of the dataset that was read, by the names of its files.
    pub old_digests: BTreeMap<String, String>,
    /// The MD5 of the new data file, if it was computed. Not in the report, which is written before
    /// the new dataset can be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub md5: Option<String>,
    /// The file with all of this, if anything was lost or the data does not match its MD5: the new
    /// dataset, whose digests are right, has other samples than the old digests are of.
    pub report: Option<PathBuf>,
}

/// The evidence that samples are unchanged. The samples of an interrupted append have no digest and no
/// checksums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Proof {
    /// Nothing: there is neither a digest nor a checksum. Each of them is well-formed, no more.
    #[default]
    None,
    /// Each matches its checksum in `.crc`.
    Checksums,
    /// The data matches its MD5.
    Digest,
    /// Nothing, and some byte is wrong: the data does not match its MD5, and there are no checksums
    /// to say where. It may be in what was lost, or in a sample that was saved.
    Doubtful,
}

/// A part of a data file that was not saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Loss {
    /// The sample, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// Its key, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Where.
    pub bytes: Range<u64>,
    /// Why.
    pub reason: String,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(index) = self.index {
            write!(f, "sample {index}: ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "key {key:?}: ")?;
        }
        write!(f, "bytes {}..{}: lost: {}", self.bytes.start, self.bytes.end, self.reason)
    }
}

/// The suffix of the report on how a dataset was saved.
const REPORT: &str = ".repair.json";

/// Where [`Repair::salvage`](super::Repair::salvage) leaves its report, if there is anything to
/// tell.
pub fn report_path(output: impl AsRef<Path>) -> PathBuf {
    let mut name = output.as_ref().as_os_str().to_os_string();
    name.push(REPORT);
    PathBuf::from(name)
}

/// Saves the samples of the dataset `path`. See [`Repair::salvage`](super::Repair::salvage).
pub(super) fn run(path: &Path, output: &Path, options: WriterOptions) -> Result<Salvage> {
    let storage = &options.storage_of().clone();
    let partial = staging::staged_data(&**storage, path)?;
    let half_written = partial.is_some();
    let source = partial.unwrap_or_else(|| path.to_path_buf());
    let data = storage.open(&source)?;
    let bytes = data.read(0..data.len())?;
    let hints = match half_written {
        true => Hints::default(),
        false => Hints::open(&**storage, path, data.len()),
    };
    let mut known = match half_written {
        true => None,
        false => Known::open(storage, path, data.len())?,
    };
    let (recorded, old_digests) = match half_written {
        true => Default::default(),
        false => (index::recorded_md5(storage, path)?, old_digests(storage, path)?),
    };
    // An append that was cut short has written behind what the digest is of.
    let journal = staging::journal_of(&**storage, path).unwrap_or(None);
    let base = journal.and_then(|journal| journal.base);
    let signed = base.map_or(data.len(), |base| base.bytes.min(data.len()));
    let options = if known.is_some() { options.checksums(true) } else { options };
    // Data that has its MD5 refutes any checksum that differs.
    let early = match (&known, recorded) {
        (Some(_), Some(_)) => Some(md5_of(&data, signed)?),
        _ => None,
    };
    if let (true, Some(known)) = (early.is_some() && early == recorded, &mut known) {
        known.checksums = None;
    }
    let report_path = report_path(output);
    let is_there = |path: &Path| storage.lstat(path);
    // One without an output is of a run that was cut short.
    let is_taken = is_there(&report_path)?.is_some() && is_there(output)?.is_some();
    if !options.overwrites() && is_taken {
        let message = "the file exists already and overwriting it was not asked for";
        return Err(Error::new(ErrorKind::AlreadyExists, message).at(report_path));
    }
    let writer = options.create(output)?;
    let mut report = Salvage { source: source.clone(), old_digests, ..Salvage::default() };
    let (md5, saved) = rayon::join(
        || match (early, recorded) {
            (None, Some(_)) => md5_of(&data, signed).map(Some),
            _ => Ok(early),
        },
        || report.save_all(writer, &bytes, &hints, known.as_ref()),
    );
    // The samples are still in the source: half of a copy is of no use.
    let (writer, md5) = match (saved, md5) {
        (Ok(writer), Ok(md5)) => (writer, md5),
        (Ok(writer), Err(error)) => {
            let _ = writer.abort();
            return Err(error);
        }
        (Err(error), _) => return Err(error),
    };
    report.matches_md5 = recorded.map(|recorded| md5 == Some(recorded));
    // If the data is complete, an offset is wrong.
    if let (None, Some(missing), false) = (&known, hints.missing, report.matches_md5 == Some(true))
    {
        report.lost.push(missing);
    }
    report.proof = match (report.matches_md5, known) {
        (Some(true), _) => Proof::Digest,
        (_, Some(_)) => Proof::Checksums,
        (Some(false), None) => Proof::Doubtful,
        (None, None) => Proof::None,
    };
    // Before the output can be seen: its digests do not tell.
    (report.samples, report.bytes) = (writer.len(), writer.bytes());
    if let Err(error) = report.tell(&**storage, &report_path) {
        let _ = writer.abort();
        return Err(error);
    }
    let stats = writer.finish_whole()?;
    report.md5 = stats.md5.map(|md5| hex(&md5));
    Ok(report)
}

fn md5_of(data: &Source, len: u64) -> Result<[u8; 16]> {
    let mut md5 = Md5::new();
    index::digest_into(&mut md5, data, 0..len)?;
    Ok(md5.finish())
}

/// The lines of the `.md5` of a dataset, if it has one that can be read.
fn old_digests(storage: &Arc<dyn Storage>, path: &Path) -> Result<BTreeMap<String, String>> {
    let path = SideFile::Md5.path(path);
    match index::read_digests(storage, &path) {
        Ok(lines) => Ok(lines.iter().map(|(name, md5)| (name.to_owned(), hex(md5))).collect()),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => {
            Ok(BTreeMap::new())
        }
        Err(e) => Err(e),
    }
}

/// The checksums of the samples of a dataset, and the offsets that they belong to.
struct Known {
    /// `None` where the data is proven without them.
    checksums: Option<Checksums>,
    ends: Vec<u64>,
    keys: Vec<String>,
}

impl Known {
    /// `None` unless there are checksums that can be believed.
    ///
    /// The data may be shorter or longer than the offsets say, as that is what damage may be: then
    /// the checksums of the samples that are there still hold.
    fn open(storage: &Arc<dyn Storage>, path: &Path, data_len: u64) -> Result<Option<Known>> {
        let Ok(file) = storage.open(&SideFile::Offsets.path(path)) else { return Ok(None) };
        let Ok(count) = offsets::count_within(file.len(), data_len) else { return Ok(None) };
        let Ok(bytes) = file.read(0..file.len()) else { return Ok(None) };
        let ends: Vec<u64> =
            (0..=count as usize).filter_map(|i| offsets::entry(&bytes, i)).collect();
        if ends[0] != 0 || !ends.is_sorted() {
            return Ok(None);
        }
        let found = index::open_checksums(&**storage, path, || {
            Ok(crc::Source {
                count,
                data_len: ends[count as usize],
                md5: index::recorded_md5(storage, path)?,
                offsets: crc::checksum(&bytes),
            })
        })?;
        let Some(checksums) = found.current() else { return Ok(None) };
        // Only for messages.
        let keys = storage.open(&SideFile::Keys.path(path)).ok().and_then(|file| {
            let bytes = file.read(0..file.len()).ok()?;
            let keys: Result<Vec<_>, _> =
                keys::Keys::parse(&bytes).ok()?.map(|key| key.map(str::to_owned)).collect();
            keys.ok().filter(|keys| keys.len() as u64 == count)
        });
        let checksums = Some(checksums);
        Ok(Some(Known { checksums, ends, keys: keys.unwrap_or_default() }))
    }
}

impl Salvage {
    /// How many bytes were not saved.
    pub fn lost_bytes(&self) -> u64 {
        self.lost.iter().map(|loss| loss.bytes.end - loss.bytes.start).sum()
    }

    /// Whether every sample was saved, and is proven unchanged if there is any evidence.
    pub fn is_complete(&self) -> bool {
        self.lost.is_empty() && self.matches_md5 != Some(false)
    }

    fn save_all(
        &mut self,
        mut writer: Writer,
        bytes: &[u8],
        hints: &Hints,
        known: Option<&Known>,
    ) -> Result<Writer> {
        let walked = match known {
            Some(known) => self.save_known(&mut writer, bytes, known),
            None => self.save_hinted(&mut writer, bytes, &hints.ends),
        };
        match walked.and_then(|from| self.walk(&mut writer, bytes, from..bytes.len())) {
            Ok(()) => Ok(writer),
            Err(error) => {
                // The first error is the one to report.
                let _ = writer.abort();
                Err(error)
            }
        }
    }

    /// Saves what is whole by the offsets. Where one sample is not, either its bytes or an offset
    /// is wrong: such a stretch is walked. From where on that is still to be done.
    fn save_hinted(&mut self, writer: &mut Writer, bytes: &[u8], hints: &[u64]) -> Result<usize> {
        let mut walked_to = 0;
        for pair in hints.windows(2) {
            let range = pair[0] as usize..pair[1] as usize;
            if msgpack::check_sample(&bytes[range.clone()]).is_ok() {
                self.walk(writer, bytes, walked_to..range.start)?;
                walked_to = range.end;
                self.save(writer, bytes, range)?;
            }
        }
        Ok(walked_to)
    }

    /// Saves what matches its checksum: the offsets are right, so nothing else is a sample. Where
    /// that ends: behind it is what an append had written that was cut short.
    fn save_known(&mut self, writer: &mut Writer, bytes: &[u8], known: &Known) -> Result<usize> {
        for (index, pair) in known.ends.windows(2).enumerate() {
            let sample = |start, end| {
                let range = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
                Some((bytes.get(range.clone())?, range))
            };
            let Some((sample, range)) = sample(pair[0], pair[1]) else {
                let end = known.ends.last().copied().unwrap_or_default();
                let last = known.ends.len() - 2;
                self.lost.push(not_there(pair[0]..end, bytes.len() as u64, index, last));
                return Ok(bytes.len());
            };
            let checksums = known.checksums.as_ref();
            let mismatch = checksums.map(|sums| sums.compare(index, sample)).transpose()?;
            let wrong = match mismatch.flatten() {
                Some(mismatch) => Some(mismatch.to_string()),
                None => msgpack::check_sample(sample).err().map(|e| e.to_string()),
            };
            match wrong {
                None => self.save(writer, bytes, range)?,
                Some(reason) => {
                    self.lose(range, reason);
                    if let Some(loss) = self.lost.last_mut() {
                        loss.index = Some(index as u64);
                        loss.key = known.keys.get(index).cloned();
                    }
                }
            }
        }
        Ok(known.ends.last().map_or(0, |end| *end as usize))
    }

    /// Saves what can be found in these bytes.
    fn walk(&mut self, writer: &mut Writer, bytes: &[u8], range: Range<usize>) -> Result<()> {
        let bytes = &bytes[..range.end];
        let mut at = range.start;
        while at < range.end {
            match sample_at(bytes, at) {
                Ok(end) => {
                    self.save(writer, bytes, at..end)?;
                    at = end;
                }
                Err(reason) => {
                    let next = (at + 1..range.end).find(|next| sample_at(bytes, *next).is_ok());
                    let next = next.unwrap_or(range.end);
                    self.lose(at..next, reason);
                    at = next;
                }
            }
        }
        Ok(())
    }

    /// Saves a sample that was seen to be one.
    fn save(&mut self, writer: &mut Writer, bytes: &[u8], range: Range<usize>) -> Result<()> {
        let sample = &bytes[range.clone()];
        let Some(key) = msgpack::key(sample)? else { return Ok(()) };
        match writer.write_raw_unchecked(key, sample) {
            Err(e) if e.kind() == ErrorKind::DuplicateKey => {
                self.lose(range, e.to_string());
                Ok(())
            }
            result => result,
        }
    }

    fn lose(&mut self, range: Range<usize>, reason: String) {
        let bytes = range.start as u64..range.end as u64;
        self.lost.push(Loss { index: None, key: None, bytes, reason });
    }

    /// Leaves the report next to the output if there is anything to tell, in place of an older one.
    fn tell(&mut self, storage: &dyn Storage, path: &Path) -> Result<()> {
        if storage.lstat(path)?.is_some() {
            storage.remove(path)?;
        }
        if self.lost.is_empty() && self.matches_md5 != Some(false) {
            return Ok(());
        }
        self.report = Some(path.to_path_buf());
        self.write(storage, path)
    }

    fn write(&self, storage: &dyn Storage, path: &Path) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(self).map_err(|e| Error::io(path, e.into()))?;
        text.push(b'\n');
        // Under its own name from the start, so that a process that dies leaves nothing that the
        // next run does not replace. No one reads it before then: its output is not there.
        let mut file = storage.create(path)?;
        file.append(&text).and_then(|()| file.sync())?;
        storage.sync_dir(path.parent().unwrap_or(Path::new("")))
    }
}

/// Samples behind the end of the data.
fn not_there(bytes: Range<u64>, len: u64, first: usize, last: usize) -> Loss {
    let reason = format!("the data ends at byte {len}: samples {first} to {last} are missing");
    Loss { index: None, key: None, bytes, reason }
}

/// The entries of `.offsets` that make sense.
#[derive(Default)]
struct Hints {
    /// Ascending from 0, within the data. Empty if the first does not make sense.
    ends: Vec<u64>,
    /// The samples behind the end of the data, if all offsets make sense.
    missing: Option<Loss>,
}

impl Hints {
    fn open(storage: &dyn Storage, path: &Path, data_len: u64) -> Hints {
        let Ok(file) = storage.open(&SideFile::Offsets.path(path)) else { return Hints::default() };
        let Ok(bytes) = file.read(0..file.len()) else { return Hints::default() };
        let entries = || (0..bytes.len() / 8).map_while(|i| offsets::entry(&bytes, i));
        let mut ends: Vec<u64> = Vec::new();
        for entry in entries() {
            let sensible = match ends.last() {
                None => entry == 0,
                Some(last) => entry > *last && entry <= data_len,
            };
            if !sensible {
                break;
            }
            ends.push(entry);
        }
        let makes_sense = entries().next() == Some(0) && entries().is_sorted();
        let end = entries().last().filter(|last| makes_sense && *last > data_len);
        let missing = end.map(|end| {
            let first = entries().take_while(|end| *end <= data_len).count() - 1;
            not_there(data_len..end, data_len, first, bytes.len() / 8 - 2)
        });
        Hints { ends, missing }
    }
}
