//! A conversion to a URL that splits.
//!
//! The places of all datasets are taken first. Each sample then goes up to the dataset that it belongs to,
//! and all datasets are published behind one another at the end.

use std::path::PathBuf;

use super::conversion::Conversion;
use super::monitor::{Monitor, Notice, Phase, Total};
use super::open::Opened;
use super::passing::{Passing, starts};
use super::report::{Report, WrittenOutput};
use super::reshape::check_unseen;
use super::same_keys::Origins;
use super::writer::SplitWriter;
use crate::dataset::Writer;
use crate::error::{ErrorKind, Remedy, Result};

impl Conversion {
    pub(super) fn run_split_to_url(
        &self,
        opened: Opened,
        monitor: &mut dyn Monitor,
    ) -> Result<Report> {
        let assignment = self.options.split.assignment()?;
        let urls = self.options.split.paths(&self.output);
        let writers = self.take_places(&urls)?.into_iter().map(Some).collect();
        let mut writer = SplitWriter { writers, assignment, there: Vec::new(), bases: Vec::new() };
        match self.write_split_to_urls(opened, &mut writer, &urls, monitor) {
            Ok(report) => Ok(report),
            Err(error) => {
                writer.abort();
                Err(error)
            }
        }
    }

    /// The writers of all datasets, before any work: what is in their places is an error now.
    fn take_places(&self, urls: &[PathBuf]) -> Result<Vec<Writer>> {
        let mut writers = Vec::with_capacity(urls.len());
        for url in urls {
            let options = self.writer_options()?.overwrite(self.options.overwrite);
            match options.create(url) {
                Ok(writer) => writers.push(writer),
                Err(error) => {
                    writers.into_iter().for_each(|writer: Writer| drop(writer.abort()));
                    return Err(match error.kind() {
                        ErrorKind::AlreadyExists => error.with_remedy(Remedy::Overwrite),
                        _ => error,
                    });
                }
            }
        }
        Ok(writers)
    }

    fn write_split_to_urls(
        &self,
        opened: Opened,
        writer: &mut SplitWriter,
        urls: &[PathBuf],
        monitor: &mut dyn Monitor,
    ) -> Result<Report> {
        let names = opened.samples.label_names();
        let labels = urls.iter().map(|url| self.plan_labels(url, names));
        let labels: Vec<Option<Vec<String>>> = labels.collect::<Result<_>>()?;
        let units = opened.samples.as_input();
        let starts = units.map_or_else(Vec::new, |input| starts(input, 0..input.units()));
        let keys = self.keys_of(opened.format);
        let (mut source, unseen) = self.shaped(opened.samples.into_source())?;
        let len = source.len_hint().map(|len| len.min(self.limit_or_max())).or(self.options.limit);
        let total = Total { samples: len, input_bytes: starts.last().copied() };
        monitor.begin(Phase::Converting, total);
        let mut passing = Passing::new(monitor, self.options.bad, self.options.duplicates)
            .unseen(unseen)
            .origins(Origins::new(keys, 0))
            .starts(&starts);
        passing.limit = self.limit_or_max();
        passing.pass(&mut *source, writer)?;
        check_unseen(&passing.tally.unseen)?;
        passing.monitor().begin(Phase::Finishing, Total::default());
        let tally = passing.tally;
        if let Some((keys, first)) = writer.assignment.unused() {
            monitor.notice(Notice::UnusedListKeys { keys, first: first.to_owned() });
        }
        let mut outputs = Vec::with_capacity(urls.len());
        for (url, labels) in urls.iter().zip(&labels) {
            let Some(mut writer) = writer.writers.remove(0) else { continue };
            self.set_labels(&mut writer, labels.as_deref())?;
            let stats = writer.finish()?;
            outputs.push(WrittenOutput::written(url, stats.samples, stats.bytes, labels.is_some()));
        }
        Ok(Report { outputs, skipped_files: opened.skipped_files, ..Report::of(tally) })
    }
}
