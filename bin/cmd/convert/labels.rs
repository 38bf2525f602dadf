//! `DST.labels`: the names of numeric labels, one a line.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kiste::convert::labels_path;

use super::Args;
use crate::exit::{Failure, Outcome};
use crate::file;

impl Args {
    /// The text of DST.labels, if it is to be written. Checked before anything is.
    pub(super) fn plan_labels(
        &self,
        dataset: &Path,
        names: Option<&[String]>,
    ) -> Outcome<Option<String>> {
        let path = labels_path(dataset);
        let Some(names) = names else { return Ok(None) };
        if let Some(name) = names.iter().find(|name| name.contains(['\n', '\r'])) {
            let message = "a label with a line end in its name cannot be listed one a line";
            return Err(Failure::trouble(format!("{}: {message}", name.escape_debug())));
        }
        let known = match fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Failure::io(&path, error)),
        };
        let text: String = names.iter().map(|name| format!("{name}\n")).collect();
        let file = path.display();
        match (self.append, known) {
            (true, Some(known)) => {
                let lines: Vec<&str> = known.lines().collect();
                let differs = lines.iter().zip(names).position(|(line, name)| line != name);
                match differs {
                    Some(at) => Err(Failure::trouble(format!(
                        "{file}: label {at} is {:?} here but {:?} in the folder, so the numbers \
                         would not mean the same",
                        lines[at], names[at]
                    ))),
                    // What the folder has beyond is added.
                    None => Ok((names.len() > lines.len()).then_some(text)),
                }
            }
            (true, None) => {
                let message = format!("{file}: not there, so nobody knows what the numbers mean");
                Err(Failure::trouble(message).hint("write it: one label a line, that of 0 first"))
            }
            // If the dataset is there as well, the writer objects to that.
            (false, Some(_)) if !self.force && !dataset.exists() => {
                let message = format!("{file}: the file exists already");
                Err(Failure::trouble(message).hint("--force replaces it"))
            }
            (false, _) => Ok(Some(text)),
        }
    }

    /// Writes DST.labels after the dataset was published, or removes one that has become wrong.
    pub(super) fn write_labels(
        &self,
        dataset: &Path,
        text: Option<&str>,
    ) -> Outcome<Option<PathBuf>> {
        let path = labels_path(dataset);
        match text {
            Some(text) => file::write(&path, text.as_bytes(), true).map(|()| Some(path)),
            None if self.force && path.exists() => {
                fs::remove_file(&path).map_err(|error| Failure::io(&path, error))?;
                Ok(None)
            }
            None => Ok(path.exists().then_some(path)),
        }
    }
}
