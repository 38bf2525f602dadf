//! [`Pass`]: the samples of one or several splits, which lie in the same files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use rayon::prelude::*;

use super::counts::{ClassCounts, shares};
use super::parts::{Made, Samples, SkippedTally};
use super::{Dataset, Opening, Split};
use crate::convert::{
    Conversion, Emit, InOrder, Input, Monitor, Phase, Progress, Report, Source, Total,
    WrittenOutput,
};
use crate::dataset::{Writer, WriterOptions};
use crate::error::{Error, ErrorKind, Remedy, Result};

/// Samples that are made of the same files. Most data sets have a pass for each split; if the samples
/// of several splits lie mixed in an archive, one pass has them all.
///
/// A pass can be converted as often as necessary: nothing is read before that.
pub struct Pass {
    /// The splits it has samples of.
    pub splits: Vec<Split>,
    /// How many samples there are, where that is known.
    pub total: Option<u64>,
    /// The names of the labels, where the files themselves have them; otherwise the description's
    /// names apply.
    pub labels: Option<Vec<String>>,
    samples: Samples,
    origin: Arc<Origin>,
    skipped: SkippedTally,
}

/// Samples that were left out because their data are useless.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedSamples {
    /// How many.
    pub count: u64,
    /// The first of them, and why: `KEY: reason`.
    pub first: Vec<String>,
}

/// Where samples come from.
#[derive(Debug, Default)]
struct Origin {
    dataset: Option<&'static Dataset>,
    dir: PathBuf,
    /// The files that are read, relative to the directory where they are in it; and for which splits,
    /// if not for all.
    files: Vec<(PathBuf, &'static [&'static str])>,
    /// Options that change samples, as in a URL.
    query: String,
}

impl Pass {
    /// The samples of a split.
    pub(super) fn new(split: &Split, samples: Samples) -> Pass {
        Pass::several(&[*split], samples)
    }

    /// The samples of several splits.
    pub(super) fn several(splits: &[Split], samples: Samples) -> Pass {
        Pass {
            splits: splits.to_vec(),
            total: samples.len().or_else(|| splits.iter().map(|split| split.samples).sum()),
            labels: None,
            samples,
            origin: Arc::default(),
            skipped: SkippedTally::default(),
        }
    }

    /// Sets how many samples there are.
    pub(super) fn total(mut self, total: usize) -> Pass {
        self.total = Some(total as u64);
        self
    }

    /// Sets the names of the labels to those that the files have.
    pub(super) fn labels(mut self, names: Vec<String>) -> Pass {
        self.labels = Some(names);
        self
    }

    pub(super) fn opened(mut self, opening: &Opening<'_>) -> Pass {
        let files = opening.files().into_iter();
        let mut files: Vec<_> = files.map(|file| (file.path.into(), file.splits)).collect();
        let further = self.samples.further_files().iter().chain(&opening.options.rejected);
        let relative =
            |path: &PathBuf| path.strip_prefix(opening.dir).unwrap_or(path).to_path_buf();
        files.extend(further.map(|path| (relative(path), &[][..])));
        self.origin = Arc::new(Origin {
            dataset: Some(opening.dataset),
            dir: opening.dir.to_path_buf(),
            files,
            query: opening.options.query(),
        });
        self
    }

    /// A conversion of one of the splits to this output, with all that conversions can do. It reads
    /// all files of the pass.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the pass has no such split.
    pub fn conversion(&self, split: &str, output: impl AsRef<Path>) -> Result<Conversion> {
        let Some(at) = self.splits.iter().position(|known| known.name == split) else {
            let names: Vec<&str> = self.splits.iter().map(|split| split.name).collect();
            let message =
                format!("expected one of the splits {}, found {split:?}", names.join(", "));
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        let Origin { dataset, query, .. } = &*self.origin;
        let name = format!("catalogue:{}/{split}{query}", dataset.map_or("", |known| known.name));
        Ok(Conversion::from_input(name, self.input(Some(at)), output))
    }

    fn input(&self, split: Option<usize>) -> PassInput {
        let labels = split.filter(|at| self.splits[*at].labelled).and_then(|_| {
            let known = self.origin.dataset.and_then(Dataset::labels);
            self.labels.clone().or(known)
        });
        let total = match (&self.splits[..], split) {
            ([_], _) | (_, None) => self.total,
            (splits, Some(at)) => splits[at].samples,
        };
        // A split has the same plan, with any others that are converted with it.
        let is_of = |splits: &[&str]| {
            splits.is_empty() || split.is_none_or(|at| splits.contains(&self.splits[at].name))
        };
        let files = self.origin.files.iter().filter(|(_, splits)| is_of(splits));
        PassInput {
            files: files.map(|(path, _)| path.clone()).collect(),
            samples: self.samples.clone(),
            split,
            labels,
            total,
            origin: self.origin.clone(),
            skipped: self.skipped.clone(),
        }
    }

    /// Samples that were left out in all conversions of this pass so far because their data are
    /// useless. They are not bad input: the published data set is known to have them.
    pub fn skipped(&self) -> SkippedSamples {
        let (count, first) = self.skipped.get();
        SkippedSamples { count, first }
    }

    /// Writes datasets of several splits while the files are read once: to one path for each split,
    /// or `None` for those that are not wanted. A [conversion](Self::conversion) of each does more,
    /// but reads the files once for each. An error leaves everything as it was.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there are not as many paths as splits, and the errors of
    /// conversions.
    pub fn write(
        &self,
        outputs: &[Option<PathBuf>],
        options: &WriterOptions,
        monitor: &mut dyn Monitor,
    ) -> Result<Report> {
        if outputs.len() != self.splits.len() {
            let (splits, outputs) = (self.splits.len(), outputs.len());
            let message = format!("expected outputs for {splits} splits, found {outputs}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let start = Instant::now();
        let mut writers = Vec::new();
        let written = self.write_to(outputs, options, &mut writers, monitor);
        if let Err(error) = written {
            for writer in writers.into_iter().flatten() {
                // The first error is the one to report.
                let _ = writer.abort();
            }
            return Err(error);
        }
        let mut report = Report::default();
        for (at, writer) in writers.into_iter().enumerate() {
            if let (Some(mut writer), Some(path)) = (writer, &outputs[at]) {
                // Without names, the names of a dataset that is replaced would stay.
                let input = self.input(Some(at));
                let labels = input.label_names();
                writer.set_labels(labels)?;
                let stats = writer.finish()?;
                let (samples, bytes) = (stats.samples, stats.bytes);
                let output = WrittenOutput::written(path, samples, bytes, labels.is_some());
                report.outputs.push(output);
            }
        }
        report.duration = start.elapsed();
        Ok(report)
    }

    fn write_to(
        &self,
        outputs: &[Option<PathBuf>],
        options: &WriterOptions,
        writers: &mut Vec<Option<Writer>>,
        monitor: &mut dyn Monitor,
    ) -> Result<()> {
        for path in outputs {
            writers.push(path.as_ref().map(|path| options.clone().create(path)).transpose()?);
        }
        monitor.begin(Phase::Converting, Total { samples: self.total, ..Total::default() });
        let mut source = InOrder::new(Mixed(self.input(None)));
        let mut far = Progress::default();
        loop {
            let batch = source.next_batch()?;
            if monitor.is_cancelled() {
                return Err(Error::new(ErrorKind::Cancelled, "interrupted; nothing was written"));
            }
            if batch.is_empty() {
                monitor.begin(Phase::Finishing, Total::default());
                return Ok(());
            }
            for sample in batch {
                let mut packed = sample.map_err(|error| error.with_remedy(Remedy::SkipBad))?;
                let split = packed.pop().unwrap_or_default();
                if let Some(writer) = &mut writers[usize::from(split)] {
                    writer.write_packed(&packed)?;
                    far.samples += 1;
                    far.bytes += packed.len() as u64;
                }
            }
            monitor.progress(far);
        }
    }

    /// Counts how much of the maps of each split its classes fill, and writes nothing. The order is
    /// the same as in [`splits`](Self::splits); unwanted splits stay empty. `progress` receives
    /// how many samples were seen.
    ///
    /// # Errors
    ///
    /// [`Damaged`](ErrorKind::Damaged) for maps that cannot be decoded.
    pub fn count(
        &self,
        opening: &Opening<'_>,
        mut progress: impl FnMut(u64),
    ) -> Result<Vec<ClassCounts>> {
        let (fields, limits) = (opening.dataset.maps(), opening.options.limits);
        let (mut counts, mut seen) = (vec![ClassCounts::default(); self.splits.len()], 0);
        for (at, split) in self.splits.iter().enumerate() {
            if !opening.wants(split.name) {
                continue;
            }
            let mut source = InOrder::new(self.input(Some(at)));
            loop {
                let batch = source.next_batch()?;
                if batch.is_empty() {
                    break;
                }
                seen += batch.len() as u64;
                let of_sample = |packed: Result<Vec<u8>>| shares(&packed?, &fields, limits);
                let found: Vec<Result<_>> = batch.into_par_iter().map(of_sample).collect();
                for found in found {
                    counts[at].add_all(&found?);
                }
                progress(seen);
            }
        }
        Ok(counts)
    }
}

/// The samples of a pass, or of one of its splits.
struct PassInput {
    samples: Samples,
    files: Vec<PathBuf>,
    split: Option<usize>,
    labels: Option<Vec<String>>,
    total: Option<u64>,
    origin: Arc<Origin>,
    skipped: SkippedTally,
}

impl PassInput {
    fn read_with(
        &self,
        unit: usize,
        emit: &mut dyn FnMut(usize, Result<Vec<u8>>) -> Result<()>,
    ) -> Result<()> {
        let mut item = 0;
        let mut each = |split, made| {
            item += 1;
            match made {
                Ok(Made::Sample(packed)) => emit(split, Ok(packed)),
                Ok(Made::Skipped { key, why }) => {
                    self.skipped.note(unit, item, &key, &why);
                    Ok(())
                }
                Err(error) => emit(split, Err(self.place(error))),
            }
        };
        let made = self.samples.make(unit, self.split, &mut each);
        made.map_err(|error| self.place(error))
    }

    /// Adds the file to an error that names none, if there is only one.
    fn place(&self, error: Error) -> Error {
        match &self.files[..] {
            [file] if error.path().is_none() => error.at(self.origin.dir.join(file)),
            _ => error,
        }
    }
}

impl Input for PassInput {
    fn units(&self) -> usize {
        self.samples.units()
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        self.read_with(unit, &mut |_, sample| emit(sample))
    }

    fn identify(&self, add: &mut dyn FnMut(&[u8])) {
        for file in &self.files {
            identify(&self.origin.dir.join(file), file, add);
        }
    }

    fn len_hint(&self) -> Option<u64> {
        self.total
    }

    fn label_names(&self) -> Option<&[String]> {
        self.labels.as_deref()
    }
}

/// The samples of several splits. After each sample comes a byte with the place of its split.
struct Mixed(PassInput);

impl Input for Mixed {
    fn units(&self) -> usize {
        self.0.units()
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        self.0.read_with(unit, &mut |split, sample| {
            emit(sample.map(|mut packed| {
                packed.push(split as u8);
                packed
            }))
        })
    }
}

/// A file that cannot be read has no size and no time: the conversion will report it.
fn identify(path: &Path, name: &Path, add: &mut dyn FnMut(&[u8])) {
    add(name.as_os_str().as_encoded_bytes());
    let Ok(found) = path.metadata() else { return };
    if found.is_dir() {
        let mut names = names_in(path).unwrap_or_default();
        names.sort();
        names.iter().for_each(|inner| identify(&path.join(inner), &name.join(inner), add));
        return;
    }
    add(&found.len().to_le_bytes());
    let modified = found.modified().ok();
    let modified = modified.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    add(&modified.map_or(0, |time| time.as_secs()).to_le_bytes());
}

fn names_in(dir: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.file_name().into())).collect()
}
