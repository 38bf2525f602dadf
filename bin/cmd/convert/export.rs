//! The other direction: samples to what other libraries read.

use std::path::{Path, PathBuf};
use std::time::Instant;

use kiste::convert::{Observer, Part, Parts, Place, Source, is_bad_input};
use kiste::format::msgpack;
use kiste::{Error, ErrorKind};
use serde::Serialize;

use super::Args;
use super::bad::{Bad, Quarantine, Tally, Watch};
use super::dry_run;
use super::fields::{Unseen, check_unseen};
use super::to::{self, Export, To, check_place};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Output;
use crate::units;

#[derive(Serialize)]
struct Exported {
    files: Vec<PathBuf>,
    samples: u64,
    /// Bad samples that were left out.
    bad: u64,
    quarantine: Option<PathBuf>,
    seconds: f64,
}

impl Args {
    /// Options that only a dataset has.
    pub(super) fn check_export(&self, to: To) -> Outcome<()> {
        if self.splitting.is_wanted() {
            return Err(self.split_first());
        }
        let flaw = match self.writing.given() {
            _ if self.append => "--append",
            _ if self.skip_duplicates => "--skip-duplicates",
            _ if self.resume => "--resume",
            Some(option) => option,
            None if self.force && matches!(to, To::Webdataset | To::Mds | To::Images) => {
                let message = "--force replaces datasets and single files only";
                return Err(Failure::trouble(message).hint("remove what is there first"));
            }
            None => return Ok(()),
        };
        let message = format!("{flaw} is for datasets, but something else is made here");
        Err(Failure::trouble(message).hint("--to dataset makes one"))
    }

    /// Datasets are what is split and shuffled: says with which two commands something else is made
    /// of them.
    fn split_first(&self) -> Failure {
        let (option, made) = match self.splitting.is_split() {
            true => ("--split", "some-NAME.msgpack"),
            false => ("--shuffle", "some.msgpack"),
        };
        let message = format!("{option} is for datasets, but something else is made here");
        Failure::trouble(message).hint(format!(
            "make datasets first: kiste convert SRC some.msgpack {option} …, then kiste convert \
             {made} DST"
        ))
    }

    /// Writes all samples of a source in another format.
    pub(super) fn export(
        &self,
        to: To,
        path: &Path,
        source: Box<dyn Source>,
        unseen: Unseen,
        output: &Output,
    ) -> Outcome<Exit> {
        let names = source.label_names().map(<[String]>::to_vec);
        let mut source = Peeked::new(source, names)?;
        let progress =
            output.progress_rates("converting", source.len_hint(), None, self.progress_json());
        let mut watch = Watch::new(self.bad, None, unseen.clone(), &progress, &[]);
        if self.bad == Bad::Quarantine {
            // What an earlier run has set aside stays if this one cannot begin.
            check_place(to, path, self.force)?;
            watch.quarantine = Some(Quarantine::begin(Quarantine::path_of(path), 0)?);
        }
        let making = (Some(&unseen), None);
        let written = self.write(to, path, &mut source, &mut watch, making, output);
        let (tally, quarantine) = (watch.tally, watch.quarantine);
        let exported = match written {
            Ok(exported) => exported,
            Err(failure) => {
                quarantine.into_iter().for_each(Quarantine::abort);
                return Err(failure);
            }
        };
        drop(progress);
        self.tell_exported(path, exported, &tally, quarantine, output)?;
        Ok(if tally.bad > 0 { Exit::No } else { Exit::Yes })
    }

    /// The same of parts that have been made, where this was left out; and what was in the end. The
    /// parts know what is published of them. What their labels mean is in the plan.
    pub(super) fn export_joined(
        &self,
        to: To,
        path: &Path,
        (source, names): (Box<dyn Source>, Option<Vec<String>>),
        tally: &Tally,
        parts: (&Parts, &[Part]),
        output: &Output,
    ) -> Outcome<Tally> {
        let mut source = Peeked::new(source, names)?;
        let progress =
            output.progress_rates("joining", source.len_hint(), None, self.progress_json());
        let before = Some(tally.clone());
        let mut watch = Watch::new(self.bad, before, Unseen::default(), &progress, &[]);
        if self.bad == Bad::Quarantine {
            // What this format cannot hold comes behind what was bad in the parts.
            let mut quarantine = Quarantine::begin(Quarantine::path_of(path), 0)?;
            for part in parts.1 {
                quarantine.add_all(&parts.0.file(*part, "quarantine.jsonl"))?;
            }
            watch.quarantine = Some(quarantine);
        }
        let making = (None, Some(parts.0));
        let exported = match self.write(to, path, &mut source, &mut watch, making, output) {
            Ok(exported) => exported,
            Err(failure) => {
                watch.quarantine.take().into_iter().for_each(Quarantine::abort);
                return Err(failure);
            }
        };
        let (tally, quarantine) = (watch.tally, watch.quarantine);
        drop(progress);
        self.tell_exported(path, exported, &tally, quarantine, output)?;
        Ok(tally)
    }

    /// Says what was made, and what was left out: if that was all there was, the reasons stand before
    /// the error.
    fn tell_exported(
        &self,
        path: &Path,
        exported: Option<Exported>,
        tally: &Tally,
        quarantine: Option<Quarantine>,
        output: &Output,
    ) -> Outcome<()> {
        let quarantine = quarantine.map(Quarantine::finish).transpose()?.flatten();
        if let Some(exported) = &exported {
            exported.tell(path, output);
        }
        tally.tell(quarantine.as_deref(), output);
        let Some(exported) = exported else {
            let message = format!("{}: expected samples to write, found none", path.display());
            return Err(match tally.bad {
                0 => Failure::trouble(message),
                _ => Failure::no(message + " that are not bad"),
            });
        };
        if self.json {
            output.json(&Exported { bad: tally.bad, quarantine, ..exported })?;
        }
        Ok(())
    }

    /// What may be done about an error while something else than a dataset is written.
    fn export_hint(&self, to: To, error: Error, bad: bool) -> Failure {
        let dotted = error.key().is_some_and(|key| key.contains('.'));
        match to {
            To::Webdataset if dotted => {
                let hint = "--key '{key.stem}' leaves the ending out of keys";
                Failure::from(error).hint(self.option_hint(hint))
            }
            _ => self.hint(error, bad),
        }
    }

    /// Writes all samples, and publishes them; nothing if there are none where a format must have some.
    fn write(
        &self,
        to: To,
        path: &Path,
        source: &mut Peeked,
        watch: &mut Watch<'_>,
        (unseen, parts): (Option<&Unseen>, Option<&Parts>),
        output: &Output,
    ) -> Outcome<Option<Exported>> {
        let start = Instant::now();
        let mut export = Export::create(to, path, self.force, source.label_names())?;
        dry_run::tell_losses(to, path, source.first(), source.label_names(), output)?;
        if source.label_names().is_some() && !to.has_labels() {
            output.warn("the names of the labels are left behind, as this format has none");
        }
        let limit = self.samples.limit.unwrap_or(u64::MAX);
        let (mut samples, mut bytes) = (0, 0);
        while samples < limit {
            let batch = source.next_batch()?;
            if batch.is_empty() {
                break;
            }
            for (item, sample) in batch.into_iter().enumerate() {
                if samples == limit {
                    break;
                }
                match sample {
                    Err(error) if is_bad_input(&error) => {
                        watch.bad(error).map_err(|error| self.hint(error, watch.stopped))?;
                    }
                    sample => {
                        let sample = sample?;
                        let Err(error) = export.write(&sample) else {
                            (samples, bytes) = (samples + 1, bytes + sample.len() as u64);
                            continue;
                        };
                        let misfit = is_misfit(&error, &sample);
                        // Parts are gone when this is read: the key has to do.
                        let error = match parts {
                            Some(_) => error,
                            None => source.locate(item, error),
                        };
                        let told = match misfit {
                            true => watch.bad(error.with_raw(sample)),
                            false => Err(error),
                        };
                        told.map_err(|error| self.export_hint(to, error, watch.stopped))?;
                    }
                }
            }
            watch.far(samples, bytes);
        }
        if samples == 0 && !matches!(to, To::Jsonl | To::Csv) {
            return Ok(None);
        }
        if let Some(unseen) = unseen {
            check_unseen(&unseen.get())?;
        }
        let files = export.finish(|from, place| match parts {
            Some(parts) => {
                parts.will_publish(from, place)?;
                // Meanwhile something else may have come there.
                match parts.place(place)? {
                    Place::Foreign => Err(to::foreign(place)),
                    _ => Ok(()),
                }
            }
            None => Ok(()),
        })?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(Some(Exported { files, samples, bad: 0, quarantine: None, seconds }))
    }
}

/// Whether this is no error of the disk, but of a sample that the format has no place for: then
/// nothing has been written of it, and the error has its key. Without a key it is about them all.
fn is_misfit(error: &Error, packed: &[u8]) -> bool {
    let of_it = error.key().is_some_and(|key| msgpack::check_sample(packed) == Ok(key));
    let kinds = [
        ErrorKind::AlreadyExists,
        ErrorKind::Damaged,
        ErrorKind::DuplicateKey,
        ErrorKind::Invalid,
        ErrorKind::Limit,
        ErrorKind::Unsupported,
    ];
    of_it && kinds.contains(&error.kind())
}

/// A source whose first batch may be looked at, and whose labels have these names.
struct Peeked {
    source: Box<dyn Source>,
    first: Vec<kiste::Result<Vec<u8>>>,
    names: Option<Vec<String>>,
}

impl Peeked {
    fn new(mut source: Box<dyn Source>, names: Option<Vec<String>>) -> kiste::Result<Peeked> {
        let first = source.next_batch()?;
        Ok(Peeked { source, first, names })
    }

    fn first(&self) -> &[kiste::Result<Vec<u8>>] {
        &self.first
    }
}

impl Source for Peeked {
    fn next_batch(&mut self) -> kiste::Result<Vec<kiste::Result<Vec<u8>>>> {
        match self.first.is_empty() {
            true => self.source.next_batch(),
            false => Ok(std::mem::take(&mut self.first)),
        }
    }

    fn locate(&self, item: usize, error: kiste::Error) -> kiste::Error {
        self.source.locate(item, error)
    }

    fn len_hint(&self) -> Option<u64> {
        self.source.len_hint()
    }

    fn label_names(&self) -> Option<&[String]> {
        self.names.as_deref()
    }
}

impl Exported {
    fn tell(&self, path: &Path, output: &Output) {
        let samples = units::counted(self.samples, "sample");
        let files = match &self.files[..] {
            [one] => one.display().to_string(),
            all => format!("{}: {}", path.display(), units::counted(all.len() as u64, "shard")),
        };
        output.note(format_args!("{files}: {samples}"));
    }
}
