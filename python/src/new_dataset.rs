//! Shared by the functions that make datasets from other datasets.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use kiste::Writer;
use kiste::compose::View;
use kiste::convert::check_dataset_name;
use kiste::reader::Reader;
use kiste::rearrange::{self, LengthOf, MadeDataset, NewDataset, Scalar};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::dataset::Dataset;
use crate::errors::{raise, wrong_type};
use crate::interrupt::Messenger;
use crate::opening::Opening;

/// A dataset that is read: one that is open, or its path.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) reader: Arc<dyn Reader>,
    /// The name that it was opened by; what it is made of, if it has none.
    pub(crate) path: PathBuf,
    /// All data files that it reads.
    inputs: Vec<PathBuf>,
}

impl Source {
    pub(crate) fn parse(given: &Bound<'_, PyAny>) -> PyResult<Source> {
        if let Ok(dataset) = given.cast::<Dataset>() {
            return Ok(Source::of(&dataset.get().view()?, dataset.get().location()));
        }
        let path: PathBuf = given.extract()?;
        let view = Opening::default().open(given.py(), &path, None)?;
        Ok(Source::of(&view, Some(&path)))
    }

    fn of(view: &View, name: Option<&Path>) -> Source {
        let path = name.map_or_else(|| view.to_string().into(), Path::to_path_buf);
        let mut inputs: Vec<PathBuf> = name.map(Path::to_path_buf).into_iter().collect();
        if view.dataset().is_none() {
            inputs.extend(view.datasets().iter().map(|dataset| dataset.path().to_owned()));
        }
        Source { reader: view.reader().clone(), path, inputs }
    }

    /// What must not be written over.
    pub(crate) fn inputs(&self) -> Vec<&Path> {
        self.inputs.iter().map(PathBuf::as_path).collect()
    }

    pub(crate) fn samples(&self) -> usize {
        self.reader.len()
    }
}

/// How a dataset is written.
pub(crate) struct Making {
    overwrite: bool,
    writer: kiste::WriterOptions,
    /// When the work for the next output began: what is made may be chosen before it is written.
    begun: Mutex<Instant>,
}

impl Making {
    /// The options that all functions have.
    pub(crate) fn parse(function: &str, options: Option<&Bound<'_, PyDict>>) -> PyResult<Making> {
        let begun = Mutex::new(Instant::now());
        let mut making = Making { overwrite: false, writer: Writer::options(), begun };
        for (name, value) in options.into_iter().flat_map(|options| options.iter()) {
            let name: String = name.extract()?;
            let writer = making.writer.clone();
            let yes = || value.extract::<bool>();
            making.writer = match &name[..] {
                "overwrite" => {
                    making.overwrite = yes()?;
                    writer.overwrite(making.overwrite)
                }
                "digests" => writer.digests(yes()?),
                "lookup" => writer.lookup(value.extract::<Option<bool>>()?),
                "checksums" => writer.checksums(yes()?),
                "lengths" => writer.lengths(parse_lengths(value.extract()?)?),
                "durable" => writer.durable(yes()?),
                other => {
                    let message =
                        format!("{function}() got an unexpected keyword argument '{other}'");
                    return Err(wrong_type(message));
                }
            };
        }
        Ok(making)
    }

    fn dataset(&self, out: &Path) -> NewDataset {
        NewDataset::new(out).overwrite(self.overwrite).writer(self.writer.clone())
    }

    /// Fails if a dataset cannot be made here of these, before anything is read.
    pub(crate) fn check(&self, inputs: &[&Path], out: &Path) -> kiste::Result<()> {
        check_dataset_name(out)?;
        self.dataset(out).check(inputs)
    }

    /// Makes a dataset of what `fill` writes, whose labels have these names.
    pub(crate) fn make(
        &self,
        out: &Path,
        labels: Option<&[String]>,
        fill: impl FnOnce(&mut Writer) -> kiste::Result<()>,
    ) -> kiste::Result<Made> {
        let mut made = self.dataset(out).make(labels, fill)?;
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        made.seconds = begun.elapsed().as_secs_f64();
        *begun = Instant::now();
        Ok(Made(made))
    }

    /// Makes a dataset of some samples of another one.
    pub(crate) fn make_of(
        &self,
        source: &Source,
        indices: Vec<usize>,
        out: &Path,
        messenger: &mut Messenger,
    ) -> kiste::Result<Made> {
        let labels = source.reader.labels()?;
        self.make(out, labels.as_deref(), |writer| {
            messenger.begin_samples("writing", indices.len());
            rearrange::copy(&source.reader, indices, writer, |n| messenger.reached(n))?;
            messenger.begin_samples("finishing", 0);
            Ok(())
        })
    }
}

/// Columns of `.lengths`.
pub(crate) fn parse_lengths(columns: Vec<String>) -> PyResult<Vec<LengthOf>> {
    let parsed = |column: &String| LengthOf::parse(column).map_err(kiste::Error::from);
    columns.iter().map(parsed).collect::<kiste::Result<_>>().map_err(raise)
}

/// A dataset that was made.
pub(crate) struct Made(MadeDataset);

impl Made {
    pub(crate) fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Made(made) = self;
        let dict = PyDict::new(py);
        dict.set_item("path", &made.file)?;
        dict.set_item("samples", made.samples)?;
        dict.set_item("bytes", made.bytes)?;
        dict.set_item("labels", made.labels.as_ref())?;
        dict.set_item("seconds", made.seconds)?;
        Ok(dict)
    }
}

/// A field of each sample, to sort or group by.
pub(crate) fn scalars(
    source: &Source,
    field: &str,
    messenger: &mut Messenger,
) -> kiste::Result<Vec<Scalar>> {
    messenger.begin_samples("reading", source.samples());
    rearrange::scalars(&source.reader, field, |n| messenger.reached(n))
}
