//! Parts of a conversion, and how they are joined. A conversion whose samples find their places only
//! when all of them are there, because of `--split` or `--shuffle`, is one part that is joined at
//! once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use kiste::convert::{
    Chained, DatasetSource, Duplicates, InOrder, Input, Part, Parts, Place, Source,
};
use kiste::format::msgpack;
use kiste::repair::{Leftover, Repair};
use kiste::sampler::{Sampler, Shuffle};
use kiste::{DatasetReader, ErrorKind, Writer, rearrange};
use serde_json::{Value as Json, json};

use super::bad::{Bad, Quarantine, Tally};
use super::fields::check_unseen;
use super::from::{Opened, Samples};
use super::making::{self, Beginning, Begun, Complete, Converted, named_labels};
use super::split::Deal;
use super::to::{self, To};
use super::{Args, plan};
use crate::exit::{Exit, Failure, Outcome, quoted};
use crate::output::Output;
use crate::units;

/// Samples that a shuffle holds in memory, where more is not needed for so many.
const MEMORY: u64 = 1 << 30;

/// What comes as a stream cannot be divided.
pub(super) fn no_units() -> Failure {
    let message = "this is read as one stream, so it cannot be divided";
    Failure::trouble(message).hint("name files instead of - or a pipe")
}

impl Args {
    /// Makes the part that was asked for, or all of it as one, which is then joined.
    pub(super) fn make_parts(&self, opened: Opened, output: &Output) -> Outcome<Exit> {
        let (dataset, _) = self.names()?;
        let part = self.part.unwrap_or(Part::whole());
        let Opened { samples, skipped_files, .. } = opened;
        if self.part.is_some() && matches!(samples, Samples::Stream(_)) {
            return Err(no_units());
        }
        if self.resume && matches!(samples, Samples::Stream(_)) {
            return Err(no_units().hint("--resume is for files"));
        }
        if self.resume && !self.force && Parts::open(dataset)?.is_none() {
            let targets = self.targets(dataset)?;
            if targets.iter().all(|path| making::is_dataset(path)) {
                let name = dataset.display();
                output.note(format_args!("{name}: complete already, nothing to resume"));
                return Ok(Exit::Yes);
            }
        }
        let plan = plan::plan(self, &samples, skipped_files, Some(part.of()))?;
        let parts = self.parts(dataset, &plan)?;
        if !parts.is_published() {
            self.make_part(&parts, part, samples, output)?;
        }
        match self.part {
            Some(_) => Ok(Exit::Yes),
            None => commit(dataset, self.json, output),
        }
    }

    /// The directory of the parts, begun if need be.
    fn parts(&self, dataset: &Path, plan: &Json) -> Outcome<Parts> {
        let there = Parts::open(dataset).ok().flatten();
        if !there.as_ref().is_some_and(|parts| parts.commit_begun() || parts.is_published()) {
            self.check_places(dataset, plan)?;
        }
        if let Some(there) =
            there.filter(|there| there.plan()["units"].is_null() && plan["units"].is_null())
        {
            // A stream that was read in part is gone.
            there.remove()?;
        }
        Parts::create(dataset, plan).map_err(|error| {
            let there = Parts::open(dataset).ok().flatten();
            match there.filter(|_| error.kind() == ErrorKind::Invalid) {
                Some(there) => {
                    let dir = there.dir().display();
                    let difference = plan::difference(there.plan(), plan);
                    let message = format!("{dir}: there are parts of another plan: {difference}");
                    Failure::trouble(message).hint(format!(
                        "remove it if they are not needed: rm -r {}",
                        quoted(there.dir())
                    ))
                }
                None => error.into(),
            }
        })
    }

    /// Fails if something is where the result is to be, before any work is done.
    fn check_places(&self, dataset: &Path, plan: &Json) -> Outcome<()> {
        if self.to() != To::Dataset {
            return to::check_place(self.to(), dataset, self.force);
        }
        for path in self.splitting.deal()?.paths(dataset) {
            if !self.force && path.symlink_metadata().is_ok() {
                let message = format!("{}: the dataset exists already", path.display());
                return Err(Failure::trouble(message).hint("--force replaces it"));
            }
            self.plan_labels(&path, label_names(plan).as_deref())?;
        }
        Ok(())
    }

    /// What is made of the parts, as far as it is known: shards are counted later.
    fn targets(&self, dataset: &Path) -> Outcome<Vec<PathBuf>> {
        match self.to() {
            To::Dataset => Ok(self.splitting.deal()?.paths(dataset)),
            _ => Ok(vec![dataset.to_path_buf()]),
        }
    }

    fn make_part(
        &self,
        parts: &Parts,
        part: Part,
        samples: Samples,
        output: &Output,
    ) -> Outcome<()> {
        let start = Instant::now();
        let (dataset, _) = self.names()?;
        let name = format!("{}: part {part}", dataset.display());
        let _lock = parts.lock(part)?;
        if parts.state(part)?.is_some() {
            output.note(format_args!("{name} is finished already"));
            return Ok(());
        }
        let begun = match self.begin_part(parts, part)? {
            Beginning::Begun(begun) => *begun,
            Beginning::Complete(complete) => {
                let quarantine = parts.file(part, "quarantine.jsonl");
                Quarantine::settle(quarantine, Some(complete.tally.quarantined()))?;
                return finish_part(parts, part, &complete);
            }
            // The samples of a part may be replaced.
            Beginning::Done => return Ok(()),
        };
        let (mut end, mut starts) = (None, Vec::new());
        let source = match samples {
            Samples::Stream(source) => source,
            Samples::Units(input) => {
                let run = part.units(&*input);
                end = Some(run.end);
                let rest = begun.unit.unwrap_or(run.start)..run.end;
                starts = making::starts(&*input, run);
                Box::new(InOrder::of_units(input, rest))
            }
        };
        let doing = if self.part.is_some() { format!("part {part}") } else { "converting".into() };
        let progress =
            output.progress_rates(doing, None, starts.last().copied(), self.progress_json());
        let limit = self.samples.limit.unwrap_or(u64::MAX);
        let quarantine = parts.file(part, "quarantine.jsonl");
        let (writer, tally, quarantine) =
            self.pass((begun, end), source, limit, quarantine, (&progress, &starts))?;
        let stats = writer.finish()?;
        drop(progress);
        quarantine.map(Quarantine::finish).transpose()?;
        if self.part.is_some() {
            output.note(format_args!(
                "{name}: {}, {} in {}",
                units::counted(stats.samples, "sample"),
                units::bytes(stats.bytes),
                units::duration(start.elapsed()),
            ));
            tally.tell(None, output);
        }
        let (samples, bytes) = (stats.samples, stats.bytes);
        finish_part(parts, part, &Complete { samples, bytes, tally })
    }

    /// Goes on with the part where it was cut short, or begins it.
    fn begin_part(&self, parts: &Parts, part: Part) -> Outcome<Beginning> {
        let options =
            self.writing.options().digests(false).lookup(false).checksums(false).overwrite(true);
        let (path, plan) = (parts.path(part), parts.digest());
        match Begun::again(options.clone(), &path, plan) {
            Ok(begun) => Ok(begun),
            // What cannot be gone on with is made anew.
            Err(error) => match error.kind() {
                ErrorKind::Interrupted | ErrorKind::Invalid | ErrorKind::Damaged => {
                    Ok(Begun::anew(options, &path, Some(plan))?.into())
                }
                _ => Err(error.into()),
            },
        }
    }
}

/// Notes that a part is there.
fn finish_part(parts: &Parts, part: Part, made: &Complete) -> Outcome<()> {
    let Complete { samples, bytes, tally } = made;
    Ok(parts.finish(part, json!({"samples": samples, "bytes": bytes, "tally": tally}))?)
}

fn label_names(plan: &Json) -> Option<Vec<String>> {
    serde_json::from_value(plan["labels"].clone()).ok()
}

/// Joins the parts of a conversion.
pub(crate) fn commit(dataset: &Path, json: bool, output: &Output) -> Outcome<Exit> {
    let Some(parts) = Parts::open(dataset)? else {
        let message = format!("{}: there are no parts to join", dataset.display());
        return Err(Failure::trouble(message).hint("\"kiste convert --part\" makes them"));
    };
    let lock = parts.lock_all()?;
    if parts.is_published() {
        drop(lock);
        output.note(format_args!("{}: was joined before", dataset.display()));
        parts.remove()?;
        return Ok(Exit::Yes);
    }
    let mut args = plan::arguments(parts.plan(), dataset)?;
    args.json = json;
    args.joined = Some(parts.dir().to_path_buf());
    let begun = parts.commit_begun();
    let joining = Joining::of(&parts, dataset)?;
    check_unseen(&joining.tally.unseen)?;
    let mut done = false;
    if begun {
        done = match args.to() {
            To::Dataset => joining.is_published(&args)?,
            to => to::clear_place(to, dataset, &parts)?,
        };
        // What is there may be replaced: all else was refused.
        args.force = true;
    } else {
        let in_the_way = "remove it or rename it, then join the parts again";
        args.check_places(dataset, parts.plan())
            .map_err(|failure| failure.hint_instead(in_the_way))?;
        parts.begin_commit(&args.targets(dataset)?)?;
    }
    let mut bad = joining.tally.bad;
    let told = match args.to() {
        To::Dataset if done => {
            output.note(format_args!("{}: was joined before", dataset.display()));
            joining.found(&args)?
        }
        _ if done => {
            Quarantine::settle(Quarantine::path_of(dataset), None)?;
            output.note(format_args!("{}: was joined before", dataset.display()));
            Vec::new()
        }
        To::Dataset => joining.datasets(&args, output)?,
        to => {
            let source = (joining.source()?, label_names(parts.plan()));
            let of = (&parts, &joining.all[..]);
            bad = args.export_joined(to, dataset, source, &joining.tally, of, output)?.bad;
            Vec::new()
        }
    };
    parts.published()?;
    drop(lock);
    parts.remove()?;
    if args.json && !told.is_empty() {
        match &told[..] {
            [one] => output.json(one)?,
            all => output.json(&all)?,
        }
    }
    Ok(if bad > 0 { Exit::No } else { Exit::Yes })
}

/// All parts, which are finished.
struct Joining<'a> {
    start: Instant,
    parts: &'a Parts,
    dataset: &'a Path,
    all: Vec<Part>,
    samples: u64,
    tally: Tally,
}

impl<'a> Joining<'a> {
    fn of(parts: &'a Parts, dataset: &'a Path) -> Outcome<Joining<'a>> {
        let of = parts.plan()["parts"].as_u64().and_then(|of| usize::try_from(of).ok());
        let all: Vec<Part> = Part::all(of.unwrap_or(0)).collect();
        let (mut samples, mut tally, mut missing) = (0u64, None::<Tally>, Vec::new());
        for &part in &all {
            let Some(state) = parts.state(part)? else {
                missing.push(part.to_string());
                continue;
            };
            samples += state["samples"].as_u64().unwrap_or(0);
            let found: Tally = serde_json::from_value(state["tally"].clone()).unwrap_or_default();
            match &mut tally {
                Some(tally) => tally.add(found),
                None => tally = Some(found),
            }
        }
        let name = dataset.display();
        match (&missing[..], all.len()) {
            ([], _) => {}
            ([first, ..], 1) => {
                let message = format!("{name}: the part is not finished");
                return Err(Failure::no(message).hint(format!("make it: --part {first}")));
            }
            ([one], all) => {
                let message = format!("{name}: 1 of {all} parts is missing: {one}");
                let hint = format!("make it: the same command with --part {one}");
                return Err(Failure::no(message).hint(hint));
            }
            ([first, ..], all) => {
                let (count, shown) = (missing.len(), missing[..missing.len().min(10)].join(", "));
                let more = if count > 10 { " and more" } else { "" };
                let message = format!("{name}: {count} of {all} parts are missing: {shown}{more}");
                let hint = format!("make them: the same command with --part {first} and so on");
                return Err(Failure::no(message).hint(hint));
            }
        }
        let tally = tally.unwrap_or_default();
        Ok(Joining { start: Instant::now(), parts, dataset, all, samples, tally })
    }

    /// The samples of all parts in order.
    fn source(&self) -> Outcome<Box<dyn Source>> {
        let mut inputs: Vec<Box<dyn Input>> = Vec::with_capacity(self.all.len());
        for part in &self.all {
            inputs.push(Box::new(DatasetSource::open(self.parts.path(*part))?));
        }
        Ok(Box::new(InOrder::new(Chained::new(inputs)?)))
    }

    /// Whether all datasets are there that an earlier run was about to make, and what is there is
    /// theirs, or was there before it.
    fn is_published(&self, args: &Args) -> Outcome<bool> {
        let mut all = true;
        for path in args.targets(self.dataset)? {
            // What had all its files before it was cut short is finished, and not made again.
            if matches!(Repair::of(&path).leftover()?, Some(Leftover::Committed)) {
                Repair::of(&path).finish()?;
            }
            match self.parts.place(&path)? {
                Place::Made => {}
                Place::Free | Place::Before => all = false,
                Place::Foreign => return Err(to::foreign(&path)),
            }
        }
        Ok(all)
    }

    /// Publishes one of the datasets. From its data the parts know it again.
    fn publish(&self, mut writer: Writer, path: &Path) -> Outcome<kiste::Stats> {
        writer.flush()?;
        let mut staged = path.as_os_str().to_os_string();
        staged.push(".partial");
        self.parts.will_publish(&Path::new(&staged).join("data"), path)?;
        // Meanwhile something else may have come there.
        match self.parts.place(path)? {
            Place::Foreign => {
                let _ = writer.abort();
                Err(to::foreign(path))
            }
            _ => Ok(writer.finish()?),
        }
    }

    /// Makes one dataset, or several.
    fn datasets(&self, args: &Args, output: &Output) -> Outcome<Vec<Converted>> {
        if args.splitting.digests()? != self.parts.plan()["split_lists"] {
            return Err(Failure::trouble(
                "--split-list: a file has changed since the parts were made",
            ));
        }
        let mut deal = args.splitting.deal()?;
        let paths = deal.paths(self.dataset);
        let names = label_names(self.parts.plan());
        let labels: Outcome<Vec<Option<Vec<String>>>> =
            paths.iter().map(|path| args.plan_labels(path, names.as_deref())).collect();
        let labels = labels?;
        let shuffled = args.splitting.shuffle;
        let targets: Vec<PathBuf> = match shuffled {
            false => paths.clone(),
            true => (0..paths.len())
                .map(|at| self.parts.dir().join(format!("joined-{at}.msgpack")))
                .collect(),
        };
        let options = args.writing.options().overwrite(args.force || shuffled);
        let meanwhile =
            options.clone().digests(false).lookup(false).checksums(false).durable(false);
        let one_part = shuffled && self.all.len() == 1 && !args.splitting.is_split();
        let mut skipped = 0;
        let mut stats = Vec::new();
        let joined = match one_part {
            // There is nothing to join.
            true => vec![self.parts.path(self.all[0])],
            false => {
                let options = if shuffled { meanwhile } else { options.clone() };
                let writers: kiste::Result<Vec<Writer>> =
                    targets.iter().map(|target| options.clone().create(target)).collect();
                let mut writers = writers?;
                match self.deal_out(args, &mut deal, &mut writers, output) {
                    Ok(passed_over) => skipped = passed_over,
                    Err(failure) => {
                        writers.into_iter().for_each(|writer| drop(writer.abort()));
                        return Err(failure);
                    }
                }
                for (mut writer, labels) in writers.into_iter().zip(&labels) {
                    if shuffled {
                        stats.push(writer.finish()?);
                        continue;
                    }
                    args.set_labels(&mut writer, labels.as_deref())?;
                    stats.push(self.publish(writer, &paths[stats.len()])?);
                }
                targets
            }
        };
        if shuffled {
            stats.clear();
            for ((from, path), labels) in joined.iter().zip(&paths).zip(&labels) {
                let mut writer = options.clone().overwrite(args.force).create(path)?;
                args.set_labels(&mut writer, labels.as_deref())?;
                if let Err(failure) = shuffle(from, args.splitting.seed, &mut writer, args, output)
                {
                    let _ = writer.abort();
                    return Err(failure);
                }
                stats.push(self.publish(writer, path)?);
            }
        }
        let quarantine = self.quarantine(args)?;
        let mut made = Vec::new();
        for (stats, path) in stats.into_iter().zip(paths) {
            let mut converted =
                self.converted(path, (stats.samples, stats.bytes), quarantine.clone());
            converted.skipped_duplicates += skipped;
            converted.tell_size(output);
            made.push(converted);
        }
        if let Some(last) = made.last() {
            last.tell_rest(output);
        }
        deal.tell_unseen(output);
        Ok(made)
    }

    /// What an earlier run has made, which had only to tidy up after it.
    fn found(&self, args: &Args) -> Outcome<Vec<Converted>> {
        let quarantine = self.quarantine(args)?;
        let mut found = Vec::new();
        for path in args.targets(self.dataset)? {
            let reader = DatasetReader::open(&path)?;
            let size = (reader.len() as u64, reader.data_len());
            found.push(self.converted(path, size, quarantine.clone()));
        }
        Ok(found)
    }

    fn converted(
        &self,
        file: PathBuf,
        (samples, bytes): (u64, u64),
        quarantine: Option<PathBuf>,
    ) -> Converted {
        Converted {
            samples,
            bytes,
            added: samples,
            added_bytes: bytes,
            skipped_duplicates: self.tally.skipped_duplicates,
            bad: self.tally.bad,
            quarantine,
            skipped_files: self.parts.plan()["skipped_files"].as_u64().unwrap_or(0),
            labels: named_labels(&file),
            arrays: self.tally.arrays.clone(),
            seconds: self.start.elapsed().as_secs_f64(),
            file,
            tally: self.tally.clone(),
        }
    }

    /// Writes each sample to the dataset that it goes to; how many were skipped.
    fn deal_out(
        &self,
        args: &Args,
        deal: &mut Deal,
        writers: &mut [Writer],
        output: &Output,
    ) -> Outcome<u64> {
        let mut source = self.source()?;
        let progress =
            output.progress_rates("joining", Some(self.samples), None, args.progress_json());
        let limit = args.samples.limit.unwrap_or(u64::MAX);
        let (mut seen, mut written, mut skipped, mut bytes) = (0u64, 0u64, 0u64, 0u64);
        while written < limit {
            progress.far(seen, bytes, 0);
            let batch = source.next_batch()?;
            if batch.is_empty() {
                break;
            }
            for (item, sample) in batch.into_iter().enumerate() {
                if written == limit {
                    break;
                }
                let sample = sample?;
                let key = msgpack::check_sample(&sample).map_err(kiste::Error::from)?;
                seen += 1;
                match writers[deal.of(key)].write_packed(&sample) {
                    Ok(()) => (written, bytes) = (written + 1, bytes + sample.len() as u64),
                    Err(error)
                        if error.kind() == ErrorKind::DuplicateKey
                            && args.duplicates() == Duplicates::Skip =>
                    {
                        skipped += 1;
                    }
                    Err(error) => return Err(args.hint(source.locate(item, error), false)),
                }
            }
        }
        progress.say("finishing");
        Ok(skipped)
    }

    /// The quarantine files of all parts as one.
    fn quarantine(&self, args: &Args) -> Outcome<Option<PathBuf>> {
        if args.bad != Bad::Quarantine || self.tally.bad == 0 {
            return Ok(None);
        }
        let mut quarantine = Quarantine::begin(Quarantine::path_of(self.dataset), 0)?;
        for part in &self.all {
            quarantine.add_all(&self.parts.file(*part, "quarantine.jsonl"))?;
        }
        quarantine.finish()
    }
}

/// Writes a dataset in random order.
fn shuffle(
    from: &Path,
    seed: u64,
    writer: &mut Writer,
    args: &Args,
    output: &Output,
) -> Outcome<()> {
    let reader = DatasetReader::open(from)?;
    let samples = reader.len() as u64;
    let order = Shuffle::new(samples, seed).order(0)?;
    let progress =
        output.progress_rates("shuffling", Some(2 * samples), None, args.progress_json());
    let data = fs::metadata(from).map_err(|error| Failure::io(from, error))?.len();
    // A five-hundredth of the data is what it takes at least.
    let memory = MEMORY.max(data.saturating_add(samples.saturating_mul(64)) / 200);
    let moved = rearrange::external_shuffle(&reader, &*order, memory, writer, |moved| {
        progress.far(moved, 0, 0);
    });
    moved?;
    progress.say("finishing");
    Ok(())
}
