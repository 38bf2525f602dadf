//! Shards of several parts, without the samples that no part alone can tell to be too many: those whose key a sample
//! before them has, and those behind the limit. When the parts are joined, shards with such samples are
//! rewritten, as the pieces of one more part: a commit that was cut short continues, and a repair finds all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::bad_input::Tally;
use super::compared::not_noted;
use super::conversion::Conversion;
use super::job::{Done, Made};
use super::monitor::{Monitor, Phase, Progress as Far, Total, check_cancelled, counted};
use super::options::Duplicates;
use super::passing::COMPARED;
use super::piece_home::Home;
use super::pieces::{Progress, unnoted, whole_piece};
use super::same_keys::{Earlier, KeysOf};
use super::{DatasetInput, InOrder, Journal, Part, Source};
use crate::dataset::names::ReadManifest;
use crate::dataset::reader::shards::Shards;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::dataset::shards::ShardEntry;
use crate::format::hex;
use crate::format::md5::Md5;
use crate::format::msgpack::check_sample;

/// The shards of all parts, for the manifest.
pub(super) struct Trimmed {
    pub(super) made: Vec<Made>,
    /// The names of shards that go once the manifest is there.
    pub(super) gone: Vec<String>,
    pub(super) skipped: u64,
    pub(super) different: u64,
}

impl Trimmed {
    /// As the parts have made them.
    pub(super) fn unchanged(made: &[Made]) -> Trimmed {
        Trimmed { made: made.to_vec(), gone: Vec::new(), skipped: 0, different: 0 }
    }

    /// As a commit has noted them, which has written these.
    fn noted(note: &Path, made: &[Made], written: &[Made], done: Done) -> Result<Trimmed> {
        let Some(kept) = done.shards else {
            let message = "expected the shards of all parts in this note, found none";
            return Err(Error::new(ErrorKind::Damaged, message).at(note));
        };
        let names: BTreeSet<&str> = kept.iter().map(|kept| &*kept.name).collect();
        let gone = made.iter().chain(written).filter(|made| !names.contains(&*made.name));
        let gone: Vec<String> = gone.map(|made| made.name.clone()).collect();
        let Tally { skipped_duplicates: skipped, different_duplicates: different, .. } = done.tally;
        Ok(Trimmed { gone, made: kept, skipped, different })
    }
}

/// The samples of a shard that stay.
#[derive(Debug, PartialEq)]
struct Kept {
    /// Indices of samples before the end that are left out, in order.
    without: Vec<u64>,
    end: u64,
}

impl Kept {
    /// At most this many of its samples, without some.
    fn of(samples: u64, mut without: Vec<u64>, most: u64) -> Kept {
        without.sort_unstable();
        let mut end = most;
        for index in &without {
            end = end.saturating_add(u64::from(*index < end));
        }
        let end = end.min(samples);
        without.retain(|index| *index < end);
        Kept { without, end }
    }

    fn samples(&self) -> u64 {
        self.end - self.without.len() as u64
    }
}

/// A sample: the number of its shard, and its index there.
type Place = (usize, usize);
/// Samples whose key one before them has, by the numbers of their shards: their indices, and the first samples that
/// have the keys.
type Later = BTreeMap<usize, BTreeMap<u64, Place>>;

impl Conversion {
    /// The shards of all parts without samples that are too many; those that had some are rewritten. `there` is
    /// the manifest that is there now.
    pub(super) fn trimmed(
        &self,
        parts: &Journal,
        home: &Home,
        there: Option<&ReadManifest>,
        made: &[Made],
        keys: &KeysOf,
        monitor: &mut dyn Monitor,
    ) -> Result<Trimmed> {
        let part = Part::joint(parts.all()?.len());
        let skips = self.options.duplicates == Duplicates::Skip;
        // A part that is the only one has counted and compared its samples.
        if part.of() == 1 || !(skips || self.options.limit.is_some()) {
            return Ok(Trimmed::unchanged(made));
        }
        let note = parts.note_of(part);
        if let Some(done) = parts.done(part)? {
            let written = self.progress(parts, part, home)?.shards;
            return Trimmed::noted(&note, made, &written, done);
        }
        let ours: Vec<ShardEntry> = made.iter().map(Made::entry).collect::<Result<_>>()?;
        if there.is_some_and(|there| self.is_published(there, &ours)) {
            return Ok(Trimmed::unchanged(made));
        }
        let (mut entries, _) = self.before_ours(there)?;
        let old = entries.len();
        entries.extend(ours);
        // Those that are copied are what was noted.
        let shards = self.checked_shards(home, &entries, made)?;
        let later = if skips { later_of(&shards, old)? } else { Later::default() };
        let kept = self.kept(made, &later);
        if kept.iter().zip(made).all(|(kept, made)| kept.samples() == made.samples) {
            return Ok(Trimmed::unchanged(made));
        }
        let different = compared(&shards, old, &kept, &later, keys)?;
        let _lock = parts.take(part)?;
        // Another process may have joined or removed the parts meanwhile.
        parts.check_current(part)?;
        let progress = self.progress(parts, part, home)?;
        if let Some(done) = parts.done(part)? {
            return Trimmed::noted(&note, made, &progress.shards, done);
        }
        let samples = kept.iter().map(Kept::samples).sum();
        monitor.begin(Phase::Joining, Total { samples: Some(samples), ..Total::default() });
        let earlier = progress.replaces.iter().cloned().zip(progress.shards.clone()).collect();
        let far = Far::default();
        let mut run = Rewriting { conversion: self, parts, part, home, progress, earlier, far };
        let is_empty = samples == 0;
        let (mut all, mut skipped) = (Vec::new(), 0);
        for (number, (kept, made)) in kept.iter().zip(made).enumerate() {
            skipped += kept.without.len() as u64;
            match kept.samples() {
                samples if samples == made.samples => all.push(made.clone()),
                // A dataset has at least one shard.
                0 if number > 0 || !is_empty => {}
                _ => all.push(run.rewrite(made, kept, monitor)?),
            }
        }
        let sum = |of: fn(&Made) -> u64| all.iter().map(of).fold(0, u64::saturating_add);
        let tally = Tally {
            skipped_duplicates: skipped,
            different_duplicates: different,
            ..Tally::default()
        };
        let (samples, bytes) = (sum(|made| made.samples), sum(|made| made.bytes));
        let done = Done { samples, bytes, tally, crc32: None, shards: Some(all) };
        parts.finish(part, &done)?;
        Trimmed::noted(&note, made, &run.progress.shards, done)
    }

    fn kept(&self, made: &[Made], later: &Later) -> Vec<Kept> {
        let mut left = self.limit_or_max();
        let kept = |(number, made): (usize, &Made)| {
            let without = later.get(&number).into_iter().flat_map(BTreeMap::keys).copied();
            let kept = Kept::of(made.samples, without.collect(), left);
            left -= kept.samples();
            kept
        };
        made.iter().enumerate().map(kept).collect()
    }
}

/// Finds samples whose key one before them has. The first `old` shards were there before, and are not counted.
fn later_of(shards: &Shards, old: usize) -> Result<Later> {
    let mut later = Later::default();
    shards.each_duplicate(|first, (shard, index), _| {
        // Two that were there before are not ours to leave out.
        if let Some(shard) = shard.checked_sub(old) {
            later.entry(shard).or_default().insert(index as u64, first);
        }
        Ok(true)
    })?;
    Ok(later)
}

/// Compares samples that are left out with those that stay, the first ones: how many differ.
fn compared(
    shards: &Shards,
    old: usize,
    kept: &[Kept],
    later: &Later,
    keys: &KeysOf,
) -> Result<u64> {
    let most = if keys.may_be_torn() { usize::MAX } else { COMPARED as usize };
    let pairs = later.iter().flat_map(|(shard, of_shard)| {
        let end = kept[*shard].end;
        of_shard.range(..end).map(move |(index, first)| (*first, (old + shard, *index as usize)))
    });
    let mut different = 0;
    for (first, second) in pairs.take(most) {
        let ((path, one), (_, other)) = (shards.sample_of(first)?, shards.sample_of(second)?);
        let key = check_sample(&other)?;
        let twin = keys.told(key, &Earlier::in_shard(first, old, path), Some(&one), &other);
        // A piece of a sample is no duplicate.
        if twin.is_torn {
            return Err(twin.error);
        }
        different += u64::from(!twin.is_same);
    }
    Ok(different)
}

/// A run of the part that is made when all are joined.
struct Rewriting<'a> {
    conversion: &'a Conversion,
    parts: &'a Journal,
    part: Part,
    home: &'a Home,
    progress: Progress,
    /// What earlier runs have written, by the names of the shards that it replaces.
    earlier: BTreeMap<String, Made>,
    far: Far,
}

impl Rewriting<'_> {
    /// The shard with the samples that stay, which an earlier run may have written.
    fn rewrite(&mut self, made: &Made, kept: &Kept, monitor: &mut dyn Monitor) -> Result<Made> {
        let written = self.write(made, kept, monitor);
        written.map_err(|error| self.parts.cause(self.part, error))
    }

    fn write(&mut self, made: &Made, kept: &Kept, monitor: &mut dyn Monitor) -> Result<Made> {
        if let Some(there) = self.earlier.remove(&made.name) {
            if there.samples == kept.samples() {
                return Ok(there);
            }
            let message = format!(
                "expected {}, as an earlier commit has written them, found {} that stay",
                counted(there.samples, "sample"),
                kept.samples()
            );
            let remedy = Remedy::RemoveDir(self.parts.dir().to_path_buf());
            let error = Error::new(ErrorKind::Replaced, message).at(self.home.path(&there.name));
            return Err(error.with_remedy(remedy));
        }
        let name = self.conversion.piece_name(self.part, self.progress.next())?;
        let (conversion, home) = (self.conversion, self.home);
        let mut writer =
            conversion.begin_piece(home, self.parts, self.part, &mut self.progress, &name)?;
        let reader = home.open(&home.path(&made.name))?;
        writer.set_labels(reader.labels()?.as_deref())?;
        let mut source = InOrder::new(DatasetInput::new(reader)?);
        let (mut md5, mut index) = (Md5::new(), 0);
        loop {
            let batch = source.next_batch()?;
            if batch.is_empty() {
                break;
            }
            check_cancelled(monitor)?;
            for packed in batch {
                let packed = packed?;
                md5.update(&packed);
                if index < kept.end && kept.without.binary_search(&index).is_err() {
                    writer.write_packed(&packed)?;
                    self.far.samples += 1;
                    self.far.bytes += packed.len() as u64;
                }
                index += 1;
            }
            monitor.progress(self.far);
        }
        let found = hex(&md5.finish());
        if made.md5.as_ref().is_some_and(|noted| *noted != found) {
            let expected = format!("samples with the MD5 {}", made.md5.as_deref().unwrap_or("-"));
            return Err(not_noted(&home.path(&made.name), expected, found));
        }
        let stats = writer.finish()?;
        let begun = self.progress.begun.take();
        let new = whole_piece(home, &name, begun, stats)?;
        self.progress.shards.push(new.clone());
        self.progress.replaces.push(made.name.clone());
        let noted = self.parts.note(self.part, &self.progress);
        noted.map_err(|error| unnoted(home, &name, new.id, error))?;
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_that_stay() {
        let kept = |without: &[u64], most| Kept::of(6, without.to_vec(), most);
        assert_eq!(kept(&[], u64::MAX), Kept { without: vec![], end: 6 });
        assert_eq!(kept(&[4, 0], 9), Kept { without: vec![0, 4], end: 6 });
        assert_eq!(kept(&[4, 0], 3), Kept { without: vec![0], end: 4 });
        assert_eq!(kept(&[4, 0], 4), Kept { without: vec![0, 4], end: 6 });
        assert_eq!(kept(&[0, 1], 0), Kept { without: vec![], end: 0 });
        for most in 0..8 {
            for mask in 0..64_u64 {
                let without: Vec<u64> = (0..6).filter(|bit| mask >> bit & 1 == 1).collect();
                let stay = (0..6).filter(|index| !without.contains(index)).take(most);
                let stay: Vec<u64> = stay.collect();
                let kept = kept(&without, most as u64);
                let found = (0..kept.end).filter(|index| !kept.without.contains(index));
                assert_eq!(found.collect::<Vec<_>>(), stay);
                assert_eq!(kept.samples(), stay.len() as u64);
            }
        }
    }
}
