//! A dataset of many files as the output of a conversion: its shards are [pieces](super::pieces) in their
//! places, the manifest comes last.
//!
//! To commit is to compare the shards with what was noted, to look for keys that two of them have, and to write
//! the manifest, unless another process has put one there. No sample is read or copied, but where shards of several
//! parts have [too many](super::trimmed_shards).

use super::conversion::Conversion;
use super::format::Format;
use super::job::{Fate, Made, at_once, no_units};
use super::monitor::{Monitor, Notice, Phase, Total};
use super::open::{Opened, Samples};
use super::piece_home::{Home, of_write};
use super::report::{Report, WrittenOutput};
use super::same_keys::{Earlier, KeysOf};
use super::trimmed_shards::Trimmed;
use super::unfinished::{remove_unfinished_shards, unfinished_shards};
use super::{Journal, Part};
use crate::dataset::names::ReadManifest;
use crate::dataset::reader::shards::Shards;
use crate::dataset::{DatasetReader, WriterOptions};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::dataset::shards::{
    MAX_BYTES, MAX_SHARDS, Manifest, SUFFIX, ShardEntry, is_manifest,
};
use crate::storage::{Expected, FileId};

impl Conversion {
    /// Whether the output is a dataset of many files.
    pub(super) fn is_sharded(&self) -> bool {
        let named = self.output.to_str().is_some_and(is_manifest);
        named && self.output_format() == Format::Dataset
    }

    /// Fails for what a dataset of many files cannot be combined with.
    pub(super) fn check_shards(&self) -> Result<()> {
        let options = &self.options;
        let invalid = |option: &'static str, message: &str| {
            Err(Error::new(ErrorKind::Invalid, message).with_option(option))
        };
        let option = match (options.shards, options.shard_size, options.shard_samples) {
            (Some(_), Some(_), _) => {
                return invalid("shards", "cannot be combined with shard_size");
            }
            (Some(_), _, Some(_)) => {
                return invalid("shards", "cannot be combined with shard_samples");
            }
            (Some(0), ..) => return invalid("shards", "expected at least 1"),
            (_, Some(0), _) => return invalid("shard_size", "expected at least 1 byte"),
            (.., Some(0)) => return invalid("shard_samples", "expected at least 1"),
            (Some(_), ..) => Some("shards"),
            (_, Some(_), _) => Some("shard_size"),
            (.., Some(_)) => Some("shard_samples"),
            _ => None,
        };
        if !self.is_sharded() {
            return match (option, self.output_format()) {
                (Some(option), Format::Npz) => {
                    invalid(option, "is not for npz: a field is one array of all samples")
                }
                (Some(option), Format::Images) => invalid(
                    option,
                    "is not for a folder of images: each image is a file of its own",
                ),
                (Some(option), format) if format == Format::Dataset || option == "shards" => {
                    invalid(
                        option,
                        "is for a dataset of many files: name a manifest as output, NAME.shards.json",
                    )
                }
                _ => Ok(()),
            };
        }
        if options.shards.is_some_and(|count| count > MAX_SHARDS) {
            return invalid("shards", &format!("expected at most {MAX_SHARDS}"));
        }
        // A name that no manifest can list is known before hours of work.
        let name = self.shard_name(Part::whole(), 0)?;
        let named = Manifest::new(vec![ShardEntry::new(name, 0, 0)]);
        named.map(drop).map_err(|error| Error::from(error).at(&self.output))
    }

    /// Runs a conversion to a dataset of many files from start to end.
    pub(super) fn run_sharded(&self, opened: Opened, monitor: &mut dyn Monitor) -> Result<Report> {
        if self.how.resume && matches!(opened.samples, Samples::Stream(_)) {
            return Err(no_units().with_remedy(Remedy::ResumeFiles));
        }
        let (home, there) = (self.home()?, Journal::open(&self.output)?);
        let exists = || Ok::<bool, Error>(home.storage.stat(&home.manifest)?.is_some());
        let may_be_done = !self.options.append && !self.options.overwrite;
        if self.how.resume && may_be_done && there.is_none() && exists()? {
            monitor.notice(Notice::Complete(self.output.clone()));
            let there = std::slice::from_ref(&self.output);
            return self.report_present(there, opened.skipped_files);
        }
        let was_begun = there.is_some();
        if let (false, Some(there)) = (self.how.resume, there) {
            if !there.is_published()? {
                return Err(self.cut_short(&there));
            }
        }
        let plan = self.plan_of(&opened, Some(1))?;
        let parts = self.parts(&plan)?;
        let is_published = parts.is_published()?;
        // Of two that begin at the same time, where nothing is locked.
        if parts.are_objects() && !parts.is_new() && !self.how.resume && !is_published {
            return Err(self.cut_short(&parts));
        }
        let made = match is_published {
            true => Ok(()),
            false => self.write_pieces(&parts, Part::whole(), opened, monitor).map(drop),
        };
        let committed = made.and_then(|()| {
            super::commit::commit_with(&self.output, self.how.durable, true, monitor)
        });
        committed.map(|report| Report { resumed: was_begun, ..report }).inspect_err(|error| {
            let keeps = self.how.resume
                || (self.how.keep_cancelled && error.kind() == ErrorKind::Cancelled);
            // A manifest whose fate is not known may list the shards, and another run may have taken them over.
            let unknown = matches!(error.remedy(), Some(Remedy::Resume(_)));
            let is_ours = parts.check_held(Part::whole()).is_ok();
            if !keeps && !unknown && is_ours && error.kind() != ErrorKind::Locked {
                // The first error is the one to report.
                let _ = remove_unfinished_shards(&self.output);
            }
        })
    }

    /// The error where another conversion to this dataset is unfinished.
    fn cut_short(&self, there: &Journal) -> Error {
        let message = match there.are_objects() {
            // An error if it is still at work.
            false => match unfinished_shards(&self.output) {
                Err(error) => return error,
                Ok(_) => "a conversion to this dataset was cut short",
            },
            // A dead process cannot be told from one that is slow.
            true => "a conversion to this dataset is at work, or was cut short",
        };
        let error = Error::new(ErrorKind::Interrupted, message).at(&self.output);
        match there.are_objects() && self.options.append {
            true => error.advise(
                "append once the other conversion is done; if it was given up, \"repair\" removes what it \
                 has left",
            ),
            false => error.with_remedy(self.continued_by()),
        }
    }

    /// Where the manifest and the shards are.
    fn home(&self) -> Result<Home> {
        Home::of(&self.output, self.storage())
    }

    /// Fails if the manifest is there.
    pub(super) fn check_no_manifest(&self) -> Result<()> {
        let home = self.home()?;
        home.check_free(&home.manifest).map_err(|error| error.with_remedy(Remedy::Overwrite))
    }

    /// The remedy after a run that was cut short. An append cannot tell its own shards from those that
    /// were there, once it is another append.
    pub(super) fn continued_by(&self) -> Remedy {
        match self.options.append {
            true => Remedy::Advice("\"repair\" removes what it has left"),
            false => Remedy::Resume(self.output.clone()),
        }
    }

    /// The name of a shard: `train-00007.msgpack` for `train.shards.json`, and in a part of several
    /// that may have several shards `train-00003-00007.msgpack`.
    pub(super) fn shard_name(&self, part: Part, number: u64) -> Result<String> {
        let name = self.output.file_name().and_then(|name| name.to_str());
        let Some(stem) = name.and_then(|name| name.strip_suffix(SUFFIX)) else {
            let message = "expected a name in UTF-8";
            return Err(Error::new(ErrorKind::Invalid, message).at(&self.output));
        };
        let of_part = part.number() - 1;
        Ok(match (part.of(), self.shard_limit()) {
            (1, _) => format!("{stem}-{number:05}.msgpack"),
            // Behind the shards that are there before an append.
            (_, None) => format!("{stem}-{:05}.msgpack", number + of_part as u64),
            (_, Some(_)) => format!("{stem}-{of_part:05}-{number:05}.msgpack"),
        })
    }

    /// The number of the first shard: 0, or the one after the shards that are there, if those are extended or
    /// replaced. A shard that was published keeps its name and never changes.
    pub(super) fn first_number(&self, home: &Home) -> Result<u64> {
        let replaces = self.options.overwrite && home.storage.stat(&home.manifest)?.is_some();
        if home.is_own || !(self.options.append || replaces) {
            return Ok(0);
        }
        let there = ReadManifest::open(&*home.storage, &home.manifest)?;
        let number = |entry: &ShardEntry| {
            let stem = entry.name.strip_suffix(".msgpack")?;
            stem.rsplit_once('-')?.1.parse::<u64>().ok()
        };
        let last = there.manifest.shards().iter().filter_map(number).max();
        Ok(last.map_or(0, |last| last.saturating_add(1)))
    }

    /// How a shard is written. One that is appended has the optional side files that the first shard has.
    pub(super) fn shard_options(&self, home: &Home) -> Result<WriterOptions> {
        let options = self.writer_options()?;
        if !self.options.append {
            return Ok(options);
        }
        let there = ReadManifest::open(&*home.storage, &home.manifest)?.manifest;
        match there.shards().first() {
            Some(first) => {
                let options = options.storage(home.storage.clone());
                options.like(&home.open(&home.path(&first.name))?)
            }
            None => Ok(options),
        }
    }

    /// Writes the manifest of all shards that the parts have made.
    pub(super) fn publish_shards(
        &self,
        parts: &Journal,
        made: &[Made],
        keys: &KeysOf,
        monitor: &mut dyn Monitor,
    ) -> Result<PublishedShards> {
        let home = self.home()?;
        let there = match home.storage.stat(&home.manifest)? {
            Some(_) => Some(ReadManifest::open(&*home.storage, &home.manifest)?),
            None => None,
        };
        let trimmed = self.trimmed(parts, &home, there.as_ref(), made, keys, monitor)?;
        let Trimmed { made, mut gone, skipped, different } = trimmed;
        monitor.begin(Phase::Finishing, Total::default());
        let ours: Vec<ShardEntry> = made.iter().map(Made::entry).collect::<Result<_>>()?;
        let published =
            |output, was_complete| Ok(PublishedShards { output, was_complete, skipped, different });
        if let Some(there) = there.as_ref().filter(|there| self.is_published(there, &ours)) {
            // An earlier run has published it, and only had left to remove the parts.
            let all = there.manifest.shards().len();
            let old = if self.options.overwrite { 0 } else { all - ours.len() };
            home.remove_replaced(&parts.replaced()?, &made)?;
            return published(self.written_shards(&home, &there.manifest, old), true);
        }
        let (mut entries, expected) = self.before_ours(there.as_ref())?;
        if let (Some(there), true) = (&there, self.options.overwrite) {
            gone.extend(self.replaced(&there.manifest, &ours));
        }
        if !gone.is_empty() {
            // Before the manifest: once it is there, nothing else says which shards to remove.
            parts.will_replace(gone)?;
        }
        let old = entries.len();
        entries.extend(ours);
        let manifest =
            Manifest::new(entries).map_err(|error| Error::from(error).at(&self.output))?;
        let shards = self.checked_shards(&home, manifest.shards(), &made)?;
        self.check_unique(&shards, old, keys)?;
        let text = self.rendered(&manifest)?;
        let before =
            there.as_ref().map(|there| there.file.read(0..there.file.len())).transpose()?;
        let id = self.put_manifest(&home, parts, &text, expected)?;
        let outcome = match parts.are_objects() {
            true => shards_after(parts, &home, &made)?,
            false => Afterwards::There,
        };
        if outcome != Afterwards::There {
            // First the manifest: it must not list shards that are gone.
            match before {
                None => home.storage.remove(&home.manifest)?,
                Some(text) => {
                    let expected = Expected::Version(id);
                    home.storage.put_if(&home.manifest, &text, expected).map(drop)?;
                }
            }
            if outcome == Afterwards::GivenUp {
                at_once(&made, |made| home.remove(&home.path(&made.name), &[made.id.1]))?;
            }
            return Err(parts.given_up());
        }
        home.remove_replaced(&parts.replaced()?, &made)?;
        published(self.written_shards(&home, &manifest, old), false)
    }

    /// Whether a manifest lists these shards as this conversion would.
    pub(super) fn is_published(&self, there: &ReadManifest, ours: &[ShardEntry]) -> bool {
        let shards = there.manifest.shards();
        match self.options.overwrite {
            // Others may have added to it since.
            true => shards.starts_with(ours),
            false => shards.ends_with(ours) && (!ours.is_empty() || !self.options.append),
        }
    }

    /// The shards that come before those of this conversion, and what the manifest must be until it is replaced.
    pub(super) fn before_ours(
        &self,
        there: Option<&ReadManifest>,
    ) -> Result<(Vec<ShardEntry>, Expected)> {
        match (there, self.options.append) {
            (Some(there), true) => {
                self.check_known(&there.manifest)?;
                Ok((there.manifest.shards().to_vec(), Expected::Version(there.id())))
            }
            (None, true) => {
                let message = "expected a dataset to append to, found none";
                let error = Error::new(ErrorKind::NotFound, message).at(&self.output);
                Err(error.with_remedy(Remedy::Create))
            }
            (Some(there), false) if self.options.overwrite => {
                Ok((Vec::new(), Expected::Version(there.id())))
            }
            (Some(_), false) => {
                let error = Error::new(ErrorKind::AlreadyExists, "the dataset exists already");
                let error = error.at(&self.output);
                Err(error.advise("another conversion has published it: write to another name"))
            }
            (None, false) => Ok((Vec::new(), Expected::Absent)),
        }
    }

    /// The shards of these entries. Fails unless all are there, and this conversion's own are as it wrote them.
    pub(super) fn checked_shards(
        &self,
        home: &Home,
        entries: &[ShardEntry],
        made: &[Made],
    ) -> Result<Shards> {
        let (storage, options) = (home.storage.clone(), DatasetReader::options());
        let shards = Shards::of_entries(storage, &home.manifest, options, entries)?;
        shards.check_all()?;
        if home.is_object_store() {
            at_once(made, |made| check_write(home, made))?;
        }
        Ok(shards)
    }

    /// The text of a manifest, which has a limit.
    fn rendered(&self, manifest: &Manifest) -> Result<String> {
        let mut text = manifest.render();
        if text.len() as u64 > MAX_BYTES {
            // The ranges of keys only make look-ups faster.
            let without = |entry: &ShardEntry| ShardEntry { keys: None, ..entry.clone() };
            let entries = manifest.shards().iter().map(without).collect();
            text = Manifest::new(entries).map_err(|e| Error::from(e).at(&self.output))?.render();
        }
        match text.len() as u64 > MAX_BYTES {
            true => {
                let message = format!("expected a manifest of at most {MAX_BYTES} bytes");
                Err(Error::new(ErrorKind::Limit, message).at(&self.output))
            }
            false => Ok(text),
        }
    }

    fn put_manifest(
        &self,
        home: &Home,
        parts: &Journal,
        text: &str,
        expected: Expected,
    ) -> Result<FileId> {
        let put = home.storage.put_if(&home.manifest, text.as_bytes(), expected);
        put.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                error.advise("another conversion has published it: write to another name")
            }
            ErrorKind::Replaced => error.advise("append to it as it is now"),
            _ if parts.are_objects() => {
                let remedy = Remedy::Resume(self.output.clone());
                error.note("whether the manifest is there is not known").with_remedy(remedy)
            }
            _ => error,
        })
    }

    /// What the report says of a manifest whose first `old` shards were there before.
    fn written_shards(&self, home: &Home, manifest: &Manifest, old: usize) -> WrittenOutput {
        let new = &manifest.shards()[old..];
        WrittenOutput {
            files: manifest.shards().iter().map(|entry| home.path(&entry.name)).collect(),
            added: new.iter().map(|entry| entry.samples).sum(),
            added_bytes: new.iter().map(|entry| entry.bytes).sum(),
            ..WrittenOutput::dataset(self.output.clone(), manifest.samples(), manifest.bytes())
        }
    }

    /// The shards of a manifest that go when this conversion has replaced it: of those that another one may list
    /// as well, nothing is known, so only the names that conversions to this manifest give are meant.
    fn replaced(&self, there: &Manifest, ours: &[ShardEntry]) -> Vec<String> {
        let names = there.shards().iter().map(|entry| &entry.name);
        let is_kept = |name: &str| ours.iter().any(|entry| entry.name == name);
        names.filter(|name| self.is_shard_name(name) && !is_kept(name)).cloned().collect()
    }

    /// Whether it might have [given](Self::shard_name) a shard this name.
    fn is_shard_name(&self, name: &str) -> bool {
        let output = self.output.file_name().and_then(|output| output.to_str());
        let numbers = output
            .and_then(|output| name.strip_prefix(output.strip_suffix(SUFFIX)?))
            .and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".msgpack"));
        let is_number = |n: &str| n.len() >= 5 && n.bytes().all(|byte| byte.is_ascii_digit());
        numbers.is_some_and(|numbers| {
            let mut each = numbers.split('-');
            numbers.split('-').count() <= 2 && each.all(is_number)
        })
    }

    /// Fails if two shards have a key in common, and says why. The first ones were there before.
    fn check_unique(&self, shards: &Shards, old: usize, keys: &KeysOf) -> Result<()> {
        let Some((first, second, key)) = shards.find_duplicate()? else { return Ok(()) };
        let ((path, one), (other_path, other)) =
            (shards.sample_of(first)?, shards.sample_of(second)?);
        let earlier = Earlier::in_shard(first, old, path);
        let error = keys.told(&key, &earlier, Some(&one), &other).error;
        Err(error.at(other_path).with_index(second.1 as u64))
    }

    fn check_known(&self, manifest: &Manifest) -> Result<()> {
        let Some(unknown) = manifest.unknown() else { return Ok(()) };
        let message = format!(
            "expected a manifest of this version of kiste to append to, found one with {unknown:?}, \
             which would be lost"
        );
        Err(Error::new(ErrorKind::Unsupported, message).at(&self.output))
    }
}

/// A manifest that was written.
pub(super) struct PublishedShards {
    pub(super) output: WrittenOutput,
    /// Whether it was there before.
    pub(super) was_complete: bool,
    /// Samples that were left out because of their keys, and those among them that differ from the one that stays.
    pub(super) skipped: u64,
    pub(super) different: u64,
}

/// The shards of a manifest that was just put.
#[derive(PartialEq)]
enum Afterwards {
    There,
    /// A repair is removing them. It may have seen the manifest after all, and then it leaves them.
    GivenUp,
    Removed,
}

/// Finds out whether a repair has taken the shards of a manifest that was just put: one that began before has not seen it,
/// and removes them.
fn shards_after(parts: &Journal, home: &Home, made: &[Made]) -> Result<Afterwards> {
    match parts.fate()? {
        Fate::Open => Ok(Afterwards::There),
        Fate::GivenUp => Ok(Afterwards::GivenUp),
        Fate::Removed => match at_once(made, |made| check_write(home, made)) {
            Err(error) if error.kind() == ErrorKind::Replaced => Ok(Afterwards::Removed),
            checked => checked.map(|_| Afterwards::There),
        },
    }
}

/// Fails for a shard that is not of the write that noted it.
fn check_write(home: &Home, made: &Made) -> Result<()> {
    let path = home.path(&made.name);
    match home.id_of(&path)? {
        // A store that keeps no metadata has no number, and the entry is compared with the shard anyway.
        Some(id) if id == made.id || id == of_write(0) => Ok(()),
        _ => {
            let message = "expected the shard that a part has noted, found another one";
            Err(Error::new(ErrorKind::Replaced, message).at(path))
        }
    }
}
