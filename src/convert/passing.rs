//! Samples from a source to a writer: the loop that conversions share, in one run or in parts.

use super::bad_input::{BadInput, Tally};
use super::monitor::{Monitor, Progress, check_cancelled};
use super::options::Duplicates;
use super::quarantine::Quarantine;
use super::reshape::Unseen;
use super::same_keys::Origins;
use super::writer::SampleWriter;
use super::{Remarks, Source, UnitLog};
use crate::dataset::Writer;
use crate::error::{Error, ErrorKind, Remedy, Result};

/// A batch of fewer bytes is from a source that had no more just now: it may be a while until the
/// next one, so what there is goes to the file.
const TRICKLE: u64 = 16 << 10;

/// How many samples that are skipped are compared with the one that stays: each takes a look into the
/// file.
pub(super) const COMPARED: u64 = 1000;

/// Whether an error is the fault of the input, so that the conversion can continue with what comes
/// next. What the operating system refuses, or another writer, is not.
pub(super) fn is_bad_input(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Damaged
            | ErrorKind::Invalid
            | ErrorKind::Limit
            | ErrorKind::NotFound
            | ErrorKind::Unsupported
    )
}

/// Writes all samples of a source to a dataset, and returns how many were skipped as duplicates.
/// Stops at the first error. `progress` receives the number of samples that were written.
///
/// [`Conversion`](super::Conversion) does more: formats, fields, bad input, resuming.
pub fn convert(
    source: &mut dyn Source,
    writer: &mut Writer,
    duplicates: Duplicates,
    mut progress: impl FnMut(u64),
) -> Result<u64> {
    let mut monitor = |far: Progress| progress(far.samples);
    let mut passing = Passing::new(&mut monitor, BadInput::Stop, duplicates);
    passing.written = (writer.len(), writer.bytes());
    passing.pass(source, writer)?;
    Ok(passing.tally.skipped_duplicates)
}

/// The options of a pass, and its counts.
pub(super) struct Passing<'a> {
    monitor: &'a mut dyn Monitor,
    bad: BadInput,
    duplicates: Duplicates,
    /// Stops when this many samples have been written, those from before included.
    pub(super) limit: u64,
    /// Samples and bytes that the writer has.
    pub(super) written: (u64, u64),
    pub(super) tally: Tally,
    /// The counts of an earlier run, if this one continues it.
    before: Option<Tally>,
    pub(super) quarantine: Option<Quarantine>,
    pub(super) log: Option<UnitLog>,
    /// The CRC-32 of the samples that are written, where it is wanted.
    pub(super) crc: Option<crc32fast::Hasher>,
    unseen: Unseen,
    origins: Origins,
    /// Bytes of input before each unit.
    starts: &'a [u64],
    /// Whether errors name the place in the source. Parts are removed before anyone reads the error,
    /// so there the key has to do.
    pub(super) locates: bool,
}

impl<'a> Passing<'a> {
    pub(super) fn new(
        monitor: &'a mut dyn Monitor,
        bad: BadInput,
        duplicates: Duplicates,
    ) -> Passing<'a> {
        Passing {
            monitor,
            bad,
            duplicates,
            limit: u64::MAX,
            written: (0, 0),
            tally: Tally::default(),
            before: None,
            quarantine: None,
            log: None,
            crc: None,
            unseen: Unseen::default(),
            origins: Origins::default(),
            starts: &[],
            locates: true,
        }
    }

    /// Continues from what was counted before.
    pub(super) fn after(mut self, before: Option<Tally>) -> Self {
        self.tally = before.clone().unwrap_or_default();
        self.before = before;
        self
    }

    pub(super) fn unseen(mut self, unseen: Unseen) -> Self {
        self.unseen = unseen;
        self
    }

    /// Finds the cause if two samples have the same key.
    pub(super) fn origins(mut self, origins: Origins) -> Self {
        self.origins = origins;
        self
    }

    pub(super) fn starts(mut self, starts: &'a [u64]) -> Self {
        self.starts = starts;
        self
    }

    pub(super) fn monitor(&mut self) -> &mut dyn Monitor {
        self.monitor
    }

    /// Writes samples until the source ends or the writer has reached the limit.
    pub(super) fn pass(
        &mut self,
        source: &mut dyn Source,
        writer: &mut dyn SampleWriter,
    ) -> Result<()> {
        // Of an earlier run, and of the outputs before this one.
        let skipped_before = self.tally.skipped_duplicates;
        let mut skipped = 0;
        while self.written.0 < self.limit {
            check_cancelled(self.monitor)?;
            let batch = source.next_batch()?;
            // The request may also have ended the source, so this is not its end.
            check_cancelled(self.monitor)?;
            if batch.is_empty() {
                break;
            }
            self.tally.skipped_duplicates = skipped_before + skipped;
            self.note_batch(source, writer)?;
            self.origins.note(self.written.0, source.shard());
            let before = self.written.1;
            for (item, sample) in batch.into_iter().enumerate() {
                if self.written.0 == self.limit {
                    break;
                }
                let packed = match sample {
                    Ok(packed) => packed,
                    Err(error) if is_bad_input(&error) => {
                        self.note_bad(error)?;
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                // Written first and asked about after an error: checking each sample before would cost every
                // conversion what only bad input needs.
                let Err(error) = writer.write_packed(&packed) else {
                    self.written = (self.written.0 + 1, self.written.1 + packed.len() as u64);
                    if let Some(log) = &mut self.log {
                        log.written(&packed);
                    }
                    if let Some(crc) = &mut self.crc {
                        crc.update(&packed);
                    }
                    continue;
                };
                // Before more is found out about a key that came before.
                let refused = writer.refuses(&error, &packed);
                let error = match error.kind() {
                    ErrorKind::DuplicateKey => {
                        match self.skip(error, skipped_before + skipped, &packed, source, writer)? {
                            Some(error) => error,
                            None => {
                                skipped += 1;
                                continue;
                            }
                        }
                    }
                    _ => error,
                };
                // Where the output cannot be written, nothing is wrong with the sample.
                let of_output = matches!(error.kind(), ErrorKind::Io | ErrorKind::Foreign);
                let locates = self.locates && !of_output;
                let error = if locates { source.locate(item, error) } else { error };
                match refused {
                    true => self.note_bad(error.with_raw(packed))?,
                    false => return Err(error),
                }
            }
            if self.written.1 - before < TRICKLE {
                writer.flush()?;
            }
        }
        self.tally.skipped_duplicates = skipped_before + skipped;
        self.note_batch(source, writer)?;
        check_cancelled(self.monitor)
    }

    /// Skips a sample whose key an earlier one has; returns the error if it must not be skipped.
    fn skip(
        &mut self,
        error: Error,
        skipped: u64,
        packed: &[u8],
        source: &dyn Source,
        writer: &mut dyn SampleWriter,
    ) -> Result<Option<Error>> {
        let skips = self.duplicates == Duplicates::Skip;
        if skips && skipped >= COMPARED && !self.origins.may_be_torn() {
            return Ok(None);
        }
        let twin = self.origins.explain(error, packed, source, writer)?;
        // A part that is torn from its sample is no duplicate.
        if !skips || twin.is_torn {
            return Ok(Some(twin.error));
        }
        self.tally.different_duplicates += u64::from(!twin.is_same);
        Ok(None)
    }

    /// The samples that follow are in another output.
    pub(super) fn begin_output(&mut self) {
        self.origins.begin_output(self.written.0);
    }

    /// Counts a bad sample, or fails if that stops the conversion.
    fn note_bad(&mut self, error: Error) -> Result<()> {
        if self.bad == BadInput::Stop {
            return Err(match error.remedy() {
                None if error.kind() == ErrorKind::DuplicateKey => {
                    error.with_remedy(Remedy::KeyField)
                }
                None => error.with_remedy(Remedy::SkipBad),
                Some(_) => error,
            });
        }
        if let Some(quarantine) = &mut self.quarantine {
            self.tally.quarantined += quarantine.add(&error)?;
        }
        self.tally.note(&error);
        Ok(())
    }

    /// The next batch has come, and the writer has all batches before it.
    fn note_batch(&mut self, source: &dyn Source, writer: &mut dyn SampleWriter) -> Result<()> {
        self.tally.unseen = self.unseen.get();
        if let Some(before) = &self.before {
            // An earlier run may have seen the field in the units that this one skips.
            self.tally.unseen.retain(|name| before.unseen.contains(name));
        }
        // The arrays are still from the batches before this one. Remarks of units that are not
        // whole come again with these units.
        self.tally.remarks = self.remarks_of(&source.remarks()[..1]);
        if let (Some(log), Some(unit)) = (&mut self.log, source.unit()) {
            let begins = log.begins(unit);
            if begins && !log.is_due(self.written.1) {
                log.remember(unit, self.written, &self.tally);
            } else if begins {
                // The log counts what is in the quarantine and in the data, so both come before it.
                if let Some(quarantine) = &mut self.quarantine {
                    quarantine.sync(self.tally.quarantined)?;
                }
                writer.flush()?;
                log.note(unit, self.written, &self.tally)?;
            }
        }
        self.tally.remarks = self.remarks_of(&source.remarks());
        if let Some(arrays) = source.arrays() {
            let before = self.before.as_ref().and_then(|before| before.arrays.clone());
            let mut sum = before.unwrap_or_default();
            sum += arrays.clone();
            self.tally.arrays = Some(sum);
        }
        let input = source.unit().and_then(|unit| self.starts.get(unit)).copied();
        self.monitor.progress(Progress {
            samples: self.written.0,
            bytes: self.written.1,
            input_bytes: input.unwrap_or(0),
        });
        Ok(())
    }

    /// The remarks of an earlier run, and these.
    fn remarks_of(&self, found: &[&Remarks]) -> Remarks {
        let mut sum = self.before.as_ref().map_or_else(Remarks::default, |b| b.remarks.clone());
        found.iter().for_each(|remarks| sum.add(remarks));
        sum
    }

    /// The counts, with remarks on complete units only: others are read again by a run that
    /// continues.
    pub(super) fn whole_tally(&self, source: &dyn Source) -> Tally {
        let remarks = self.remarks_of(&source.remarks()[..1]);
        Tally { remarks, ..self.tally.clone() }
    }

    /// The conversion stops, and what was written is kept: how many samples are in whole units, after
    /// which a later run continues.
    pub(super) fn keep(&mut self, writer: &mut dyn SampleWriter) -> Result<u64> {
        self.sync_quarantine()?;
        writer.flush()?;
        self.log.as_mut().map_or(Ok(0), UnitLog::stop)
    }

    /// All samples have been passed: syncs what is counted, before the dataset is published.
    pub(super) fn finish(
        &mut self,
        units: Option<usize>,
        writer: &mut dyn SampleWriter,
    ) -> Result<()> {
        self.sync_quarantine()?;
        let (Some(mut log), Some(units)) = (self.log.take(), units) else { return Ok(()) };
        writer.flush()?;
        log.finish(units, self.written, &self.tally)
    }

    /// Makes what is bad durable, before it is noted how much there is.
    pub(super) fn sync_quarantine(&mut self) -> Result<()> {
        let Some(quarantine) = &mut self.quarantine else { return Ok(()) };
        quarantine.sync(self.tally.quarantined)
    }
}

/// Bytes of the units of a range before each unit of the input, and last their sum; empty where
/// that is not known.
pub(super) fn starts(input: &dyn super::Input, range: std::ops::Range<usize>) -> Vec<u64> {
    let (mut starts, mut sum) = (vec![0], 0u64);
    for unit in 0..input.units() {
        if range.contains(&unit) {
            let Some(bytes) = input.bytes(unit) else { return Vec::new() };
            sum = sum.saturating_add(bytes);
        }
        starts.push(sum);
    }
    starts
}
