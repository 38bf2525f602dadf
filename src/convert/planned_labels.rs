//! `NAME.labels`: the names of numeric labels, one per line.

use std::io;
use std::path::Path;

use super::conversion::Conversion;
use crate::dataset::Writer;
use crate::dataset::labels_path;
use crate::error::{Error, ErrorKind, Result};
use crate::regular::open_regular;

impl Conversion {
    /// The names for the file of labels, if it is to be written. Fails, before anything is written,
    /// if they contradict what is there.
    pub(super) fn plan_labels(
        &self,
        dataset: &Path,
        names: Option<&[String]>,
    ) -> Result<Option<Vec<String>>> {
        let path = labels_path(dataset);
        let Some(names) = names else { return Ok(None) };
        if let Some(name) = names.iter().find(|name| name.contains(['\n', '\r'])) {
            let name = name.escape_debug();
            let message = format!(
                "{name}: a label with a line end in its name cannot be listed one per line"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let known = match open_regular(&path).and_then(io::read_to_string) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io(&path, error)),
        };
        let invalid = |message: String| Error::new(ErrorKind::Invalid, message).at(&path);
        match (self.options.append, known) {
            (true, Some(known)) => {
                let lines: Vec<&str> = known.lines().collect();
                let differs = lines.iter().zip(names).position(|(line, name)| line != name);
                match differs {
                    Some(at) => Err(invalid(format!(
                        "label {at} is {:?} here but {:?} in the source, so the numbers would not \
                         mean the same",
                        lines[at], names[at]
                    ))),
                    // New labels of the source are appended.
                    None => Ok((names.len() > lines.len()).then(|| names.to_vec())),
                }
            }
            // The writer reports that there is nothing to append to.
            (true, None) if dataset.symlink_metadata().is_err() => Ok(Some(names.to_vec())),
            (true, None) => {
                let message = "not there, so the meaning of the numbers is unknown";
                Err(invalid(message.to_owned())
                    .advise("write it: one label per line, in the order of their numbers, from 0"))
            }
            // If the dataset is there as well, the writer reports that.
            (false, Some(_)) if !self.options.overwrite && !dataset.exists() => {
                Err(Error::new(ErrorKind::AlreadyExists, "the file exists already").at(&path))
            }
            (false, _) => Ok(Some(names.to_vec())),
        }
    }

    /// Publishes the labels with the dataset, or removes the labels of the dataset that it replaces.
    pub(super) fn set_labels(&self, writer: &mut Writer, names: Option<&[String]>) -> Result<()> {
        match names {
            Some(names) => writer.set_labels(Some(names)),
            None if self.options.overwrite => writer.set_labels(None::<&[String]>),
            None => Ok(()),
        }
    }
}
