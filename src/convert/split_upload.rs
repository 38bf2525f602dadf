//! A conversion to a URL that splits or shuffles.
//!
//! Where a sample goes is known only when all of them are there, and objects are written from front to
//! back. So it is made in a directory for temporary files, and uploaded. The places at the URL are taken
//! before that, and all datasets are published behind one another at the end.

use std::path::{Path, PathBuf};

use super::conversion::Conversion;
use super::monitor::{Monitor, Phase, Progress, Total, check_cancelled};
use super::open::Opened;
use super::report::{Report, WrittenOutput};
use crate::dataset::{DatasetReader, Writer};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::storage::ScratchDir;

/// Samples between two looks at the monitor.
const FEW: usize = 64;

impl Conversion {
    pub(super) fn run_split_to_url(
        &self,
        opened: Opened,
        monitor: &mut dyn Monitor,
    ) -> Result<Report> {
        let urls = self.options.split.assignment()?.paths(&self.output);
        let mut writers = self.take_places(&urls)?;
        let report = self.split_and_upload(opened, &mut writers, monitor);
        let report = report.and_then(|(report, written)| {
            let mut outputs = Vec::new();
            while !writers.is_empty() {
                let stats = writers.remove(0).finish()?;
                let (url, has_labels) = &written[outputs.len()];
                let (samples, bytes) = (stats.samples, stats.bytes);
                outputs.push(WrittenOutput::written(url, samples, bytes, *has_labels));
            }
            Ok(Report { outputs, ..report })
        });
        // The first error is the one to report.
        writers.into_iter().for_each(|writer| drop(writer.abort()));
        report
    }

    /// The writers of all datasets, before any work: what is in their places is an error now.
    fn take_places(&self, urls: &[PathBuf]) -> Result<Vec<Writer>> {
        let mut writers = Vec::with_capacity(urls.len());
        for url in urls {
            let options = self.writer_options().overwrite(self.options.overwrite);
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

    /// Makes all datasets on a disk, and writes them to these writers. Returns the URL of each, and whether
    /// it has labels.
    fn split_and_upload(
        &self,
        opened: Opened,
        writers: &mut [Writer],
        monitor: &mut dyn Monitor,
    ) -> Result<(Report, Vec<(PathBuf, bool)>)> {
        let scratch = ScratchDir::create()?;
        let name = self.output.file_name().unwrap_or_default();
        let mut local = self.clone();
        local.output = scratch.path().join(name);
        // The uploads make these.
        let options = &mut local.options;
        (options.no_digests, options.lookup, options.checksums) = (true, Some(false), false);
        (options.overwrite, local.how.durable) = (false, false);
        let report = local.run_split(opened, monitor).map_err(|error| match error.kind() {
            // What it keeps is not kept.
            ErrorKind::Cancelled => Error::new(ErrorKind::Cancelled, error.message()),
            _ => error,
        })?;
        let samples = report.outputs.iter().map(|output| output.samples).sum();
        monitor.begin(Phase::Uploading, Total { samples: Some(samples), ..Total::default() });
        let (mut urls, mut sent) = (Vec::new(), Progress::default());
        for (output, writer) in report.outputs.iter().zip(writers) {
            let labels = send(&output.path, writer, &mut sent, monitor)?;
            let url = output.path.file_name().map(|name| self.output.with_file_name(name));
            urls.push((url.unwrap_or_default(), labels));
        }
        Ok((report, urls))
    }
}

/// Writes all samples of a dataset, and removes it. Returns whether it has labels.
fn send(
    path: &Path,
    writer: &mut Writer,
    sent: &mut Progress,
    monitor: &mut dyn Monitor,
) -> Result<bool> {
    let reader = DatasetReader::open(path)?;
    let labels = reader.labels()?;
    for index in 0..reader.len() {
        if index % FEW == 0 {
            check_cancelled(monitor)?;
            monitor.progress(*sent);
        }
        let packed = reader.get_raw(index)?;
        writer.write_raw(&reader.key(index)?, &packed)?;
        sent.samples += 1;
        sent.bytes += packed.len() as u64;
    }
    writer.set_labels(labels.as_deref())?;
    Ok(labels.is_some())
}
