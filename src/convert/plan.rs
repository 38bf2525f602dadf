//! [`Plan`]: a conversion together with what it found in its sources.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

use super::conversion::Conversion;
use super::format::{self, Format};
use super::job::no_units;
use super::open::{Opened, Samples};
use super::source_file::{size_of, version_of};
use super::{Input, file_names};
use crate::error::{Error, ErrorKind, Result};
use crate::format::hex;

/// The plan of a conversion: its description, and the sources as they are now. It is the same on
/// every machine that sees the same sources and is given the same conversion.
///
/// As JSON it has one member for each field; the [`Conversion`] has `sources` and `options`. The output is not
/// in it, as machines may see it under different names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// The version of kiste.
    pub version: String,
    /// The conversion, without its output.
    #[serde(flatten)]
    pub conversion: Conversion,
    /// How many parts there are, if it is divided.
    pub parts: Option<usize>,
    /// How many units the sources have; `None` for a stream, which cannot be divided.
    pub units: Option<usize>,
    /// How many samples there are, where that is known.
    pub samples: Option<u64>,
    /// Bytes of all units, where that is known.
    pub bytes: Option<u64>,
    /// The names of the numeric labels.
    pub labels: Option<Vec<String>>,
    /// Files of a folder that are not read.
    pub skipped_files: u64,
    /// Digests of the lists of the split.
    pub split_lists: BTreeMap<String, String>,
    /// The files that are read.
    pub files: Vec<PlannedFile>,
    /// The name of each source in keys; empty where all have the names of earlier versions, up to the first
    /// dot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key_names: Vec<String>,
    /// The digest of the names, sizes and times of further files, such as the files in a folder.
    pub other_files: String,
}

/// A file that is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlannedFile {
    /// Its name.
    pub name: PathBuf,
    /// Its size.
    pub bytes: Option<u64>,
    /// When it was changed, in seconds since 1970.
    pub modified: Option<u64>,
}

impl Conversion {
    /// The plan of this conversion. Reads no more of the sources than opening them takes.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the conversion makes no sense, or reads a stream;
    /// and the errors of opening the sources.
    pub fn plan(&self) -> Result<Plan> {
        self.check()?;
        let opened = self.open()?;
        match opened.samples {
            Samples::Units(_) => self.plan_of(&opened, None),
            Samples::Stream(_) => Err(no_units()),
        }
    }

    /// The plan of these samples, in this many parts.
    pub(super) fn plan_of(&self, opened: &Opened, parts: Option<usize>) -> Result<Plan> {
        let input = opened.samples.as_input();
        let (files, bytes) = input.map_or_else(|| (Vec::new(), None), files);
        let mut others = Sha256::new();
        let mut add = |name: &[u8]| {
            others.update((name.len() as u64).to_le_bytes());
            others.update(name);
        };
        if let Some(input) = input {
            input.identify(&mut add);
        }
        // Objects behind a URL have no time: two versions may have one size.
        for (one, other) in files.iter().filter_map(|file| version_of(&file.name)) {
            add(&one.to_le_bytes());
            add(&other.to_le_bytes());
        }
        let mut names = self.sources.iter().chain(files.iter().map(|file| &file.name));
        if let Some(name) = names.find(|name| name.to_str().is_none()) {
            let message = "the name is not UTF-8, so a plan cannot contain it";
            return Err(Error::new(ErrorKind::Invalid, message).at(name));
        }
        Ok(Plan {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            conversion: Conversion { output: PathBuf::new(), ..self.clone() },
            parts,
            units: input.map(Input::units),
            samples: input.and_then(Input::len_hint),
            bytes,
            labels: opened.samples.label_names().map(<[String]>::to_vec),
            skipped_files: opened.skipped_files,
            split_lists: self.options.split.digests()?,
            files,
            key_names: input.map_or_else(Vec::new, key_names),
            other_files: hex(&others.finalize()),
        })
    }
}

impl Plan {
    pub(super) fn to_json(&self) -> Result<Json> {
        serde_json::to_value(self).map_err(|error| {
            Error::new(ErrorKind::Invalid, "a plan cannot contain this").with_source(error)
        })
    }

    /// The plan from the directory of its parts, with the output that they become.
    pub(super) fn from_json(plan: &Json, output: &Path) -> Result<Plan> {
        let damaged = |error: serde_json::Error| {
            let message = format!("expected the plan of a conversion: {error}");
            Error::new(ErrorKind::Damaged, message).at(output)
        };
        let there = plan;
        let mut plan: Plan = serde_json::from_value(plan.clone()).map_err(damaged)?;
        // A field that would be left out here may change what is made.
        if let Some(field) = unknown(there, &plan.to_json()?) {
            let message = format!("the plan has a field that is not known here: {field:?}");
            return Err(Error::new(ErrorKind::Unsupported, message)
                .at(output)
                .advise("join the parts by the version that wrote them"));
        }
        plan.conversion.output = output.to_path_buf();
        Ok(plan)
    }

    /// The plan as one line, to recognise a conversion that was interrupted. Lists of files, which
    /// may be long, are replaced by their digests.
    pub(super) fn to_line(&self) -> Result<String> {
        let mut plan = self.to_json()?;
        for list in ["files", "key_names"] {
            if !plan[list].is_null() {
                plan[list] = hex(&Sha256::digest(plan[list].to_string())).into();
            }
        }
        Ok(plan.to_string())
    }

    /// The format of the sources: as it was given, or as the names of its files say, where they are sure to.
    pub(super) fn format(&self) -> Option<Format> {
        let is_tar = |file: &PlannedFile| format::is_named_tar(&file.name);
        let are_tar = !self.files.is_empty() && self.files.iter().all(is_tar);
        self.conversion.options.from.or(are_tar.then_some(Format::Webdataset))
    }
}

/// A member of this object, or of one in it, that the other one does not have.
fn unknown(there: &Json, known: &Json) -> Option<String> {
    let (Json::Object(there), Json::Object(known)) = (there, known) else { return None };
    there.iter().find_map(|(name, value)| match known.get(name) {
        None => Some(name.clone()),
        Some(known) => unknown(value, known),
    })
}

/// The difference between two plans that were kept as lines, in words.
pub(super) fn line_difference(there: &str, here: &str) -> Option<String> {
    let (there, here) = (serde_json::from_str(there).ok()?, serde_json::from_str(here).ok()?);
    (there != here).then(|| difference(&there, &here))
}

/// The difference between two plans, in words.
pub(super) fn difference(there: &Json, here: &Json) -> String {
    let pair = |name: &str, there: &Json, here: &Json| {
        let shown = |value: &Json| match value {
            Json::Null => "not set".to_owned(),
            value => value.to_string(),
        };
        format!("{name} is {} there, {} here", shown(there), shown(here))
    };
    if let Some((name, a, b)) = first_difference(&there["options"], &here["options"]) {
        return pair(&name, &a, &b);
    }
    match first_difference(there, here) {
        Some((name, ..)) if name == "files" || name == "other_files" => {
            "the files have changed since".to_owned()
        }
        Some((name, ..)) if name == "key_names" => {
            "it was started by a version that makes other keys from file names".to_owned()
        }
        Some((name, a, b)) if ["parts", "version", "units", "sources"].contains(&&name[..]) => {
            pair(&name, &a, &b)
        }
        Some((name, ..)) => format!("{name} differs"),
        None => "it is of another form".to_owned(),
    }
}

/// The first member that differs between two objects.
fn first_difference(there: &Json, here: &Json) -> Option<(String, Json, Json)> {
    let (Json::Object(a), Json::Object(b)) = (there, here) else { return None };
    let name = a.keys().chain(b.keys()).find(|name| a.get(*name) != b.get(*name))?;
    Some((name.clone(), there[name].clone(), here[name].clone()))
}

/// The names of files in keys, unless all are their names up to the first dot.
fn key_names(input: &dyn Input) -> Vec<String> {
    let (mut names, mut last, mut is_as_before) = (Vec::new(), None, true);
    for unit in 0..input.units() {
        let Some(path) = input.path(unit).filter(|path| last != Some(*path)) else { continue };
        last = Some(path);
        let name = input.shard(unit).unwrap_or_default();
        is_as_before &= name.is_empty() || file_names::stem(path) == Some(name);
        names.push(name.to_owned());
    }
    if is_as_before { Vec::new() } else { names }
}

/// The files that units are from, in order, with sizes and times; and the bytes of all units.
fn files(input: &dyn Input) -> (Vec<PlannedFile>, Option<u64>) {
    let (mut files, mut bytes, mut last) = (Vec::new(), Some(0u64), None);
    for unit in 0..input.units() {
        bytes = bytes.zip(input.bytes(unit)).map(|(sum, more)| sum.saturating_add(more));
        let Some(path) = input.path(unit).filter(|path| last != Some(*path)) else { continue };
        last = Some(path);
        // A file that is compressed may be there under another name only.
        let modified = path.metadata().ok().and_then(|found| found.modified().ok());
        let modified = modified.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        files.push(PlannedFile {
            name: path.to_path_buf(),
            bytes: size_of(path).ok().flatten(),
            modified: modified.map(|time| time.as_secs()),
        });
    }
    (files, bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_named() {
        let plan = |options: Json, parts| json!({"options": options, "parts": parts, "files": []});
        for (there, here, expected) in [
            (plan(json!({}), 3), plan(json!({}), 4), "parts is 3 there, 4 here"),
            (plan(json!({}), 3), plan(json!({"limit": 9}), 4), "limit is not set there, 9 here"),
            (
                plan(json!({"drop": ["x"]}), 1),
                plan(json!({}), 1),
                "drop is [\"x\"] there, not set here",
            ),
            (
                plan(json!({}), 1),
                json!({"options": {}, "parts": 1, "files": [1]}),
                "the files have changed since",
            ),
        ] {
            assert_eq!(difference(&there, &here), expected);
        }
    }
}
