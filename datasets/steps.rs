//! [`Step`]: what is run at a time to write the splits of a data set.

use std::path::{Path, PathBuf};

use super::{Opening, Pass, Split};
use crate::convert::{Conversion, Format, Monitor, Report};
use crate::error::Result;

/// The conversions that run together to write the splits of a data set: one, or several for splits
/// that lie in the same files, which are then read once.
#[must_use]
pub struct Step<'a> {
    pass: &'a Pass,
    /// The splits, and what each of them is converted by.
    pub conversions: Vec<(Split, Conversion)>,
}

impl Split {
    /// Where it is written: `DIR/train.msgpack`, or with the ending of another format.
    pub fn path(&self, dir: impl AsRef<Path>, format: Format) -> PathBuf {
        let extension = format.extension().map(|extension| format!(".{extension}"));
        dir.as_ref().join(format!("{}{}", self.file, extension.unwrap_or_default()))
    }
}

impl Opening<'_> {
    /// How to write the splits that are wanted to a directory, in this format. `with` sets the options
    /// of each conversion.
    ///
    /// Splits that lie mixed in the same files are one step, unless an option needs a conversion of
    /// each: resuming, or anything that changes samples.
    ///
    /// ```no_run
    /// use kiste::convert::{Format, Silent};
    /// use kiste::datasets::{self, Options};
    ///
    /// let (dir, options) = (std::path::Path::new("downloads"), Options::default());
    /// let cifar10 = datasets::find("CIFAR10")?;
    /// let opening = cifar10.opening(dir, &[], &options)?;
    /// let passes = cifar10.open(dir, &[], &options)?;
    /// for step in opening.steps(&passes, "data", Format::Dataset, |each| each.overwrite(true))? {
    ///     for (split, report) in step.run(&mut Silent)? {
    ///         println!("{}: {} samples", split.name, report.outputs[0].samples);
    ///     }
    /// }
    /// # Ok::<(), kiste::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Pass::conversion`].
    pub fn steps<'p>(
        &self,
        passes: &'p [Pass],
        dir: impl AsRef<Path>,
        format: Format,
        with: impl Fn(Conversion) -> Conversion,
    ) -> Result<Vec<Step<'p>>> {
        let mut steps = Vec::new();
        for pass in passes {
            let wanted = pass.splits.iter().filter(|split| self.wants(split.name));
            let conversion = |split: &Split| {
                let conversion = pass.conversion(split.name, split.path(&dir, format))?;
                // A plan has no more in it than it needs.
                let conversion = match format {
                    Format::Dataset => conversion,
                    format => conversion.to(format),
                };
                Ok((*split, with(conversion)))
            };
            let conversions = wanted.map(conversion).collect::<Result<Vec<_>>>()?;
            if conversions.iter().all(|(_, conversion)| conversion.only_copies()) {
                steps.extend((!conversions.is_empty()).then_some(Step { pass, conversions }));
            } else {
                let each = conversions.into_iter().map(|one| Step { pass, conversions: vec![one] });
                steps.extend(each);
            }
        }
        Ok(steps)
    }
}

impl Opening<'_> {
    /// Fails if something is in the place of an output of [`steps`](Self::steps) that must stay,
    /// before files are fetched and verified.
    ///
    /// # Errors
    ///
    /// The errors of [`Conversion::check_output`].
    pub fn check_outputs(
        &self,
        dir: impl AsRef<Path>,
        format: Format,
        with: impl Fn(Conversion) -> Conversion,
    ) -> Result<()> {
        let splits = self.dataset.splits.iter().filter(|split| self.wants(split.name));
        for path in splits.map(|split| split.path(&dir, format)) {
            with(Conversion::new([self.dir], path).to(format)).check_output()?;
        }
        Ok(())
    }
}

impl Step<'_> {
    /// The names of the splits: `train, test`.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.conversions.iter().map(|(split, _)| split.name).collect();
        names.join(", ")
    }

    /// Writes them. There is a report on each split; where several were written together, each has
    /// the time of all.
    ///
    /// # Errors
    ///
    /// The errors of [`Conversion::run`] and [`Pass::write`].
    pub fn run(&self, monitor: &mut dyn Monitor) -> Result<Vec<(Split, Report)>> {
        let [(_, first), _, ..] = &self.conversions[..] else {
            let run = |(split, conversion): &(Split, Conversion)| {
                Ok((*split, conversion.run(&mut *monitor)?))
            };
            return self.conversions.iter().map(run).collect();
        };
        let output = |split: &Split| {
            let known = self.conversions.iter().find(|(known, _)| known == split);
            known.map(|(_, conversion)| conversion.output().to_path_buf())
        };
        let outputs: Vec<Option<PathBuf>> = self.pass.splits.iter().map(output).collect();
        let mut report = self.pass.write(&outputs, &first.dataset_options()?, monitor)?;
        let written = std::mem::take(&mut report.outputs);
        let splits = self.conversions.iter().map(|(split, _)| *split);
        let of = |output| Report { outputs: vec![output], ..report.clone() };
        Ok(splits.zip(written.into_iter().map(of)).collect())
    }
}
