//! [`PartsBy`]: how a dataset is cut into several, and what these are called.

use std::path::{Path, PathBuf};

use super::{ByKey, Scalar, by_class, cut_at, parts, scalars, whole_groups};
use crate::error::{Error, ErrorKind, Result};
use crate::reader::{Reader, at_reader};

/// How a dataset is cut into several.
///
/// ```
/// use std::collections::BTreeMap;
/// use kiste::rearrange::{PartsBy, part_path};
/// use kiste::{DatasetReader, Writer};
///
/// # let dir = tempfile::tempdir()?;
/// # let all = dir.path().join("all.msgpack");
/// let mut writer = Writer::create(&all)?;
/// for (key, class) in [("a", "cat"), ("b", "dog"), ("c", "cat")] {
///     writer.write(&BTreeMap::from([("key", key), ("class", class)]))?;
/// }
/// writer.finish()?;
///
/// let reader = DatasetReader::open(&all)?;
/// let parts = PartsBy::Values("class".to_owned()).parts(&reader, |_| Ok(()))?;
/// assert_eq!((&parts[0].name[..], &parts[0].indices[..]), ("cat", &[0, 2][..]));
/// assert!(part_path(&all, &parts[0].name).ends_with("all-cat.msgpack"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum PartsBy {
    /// At these indices a new part begins. See [`cut_at`].
    Positions(Vec<usize>),
    /// Samples are dealt out at random. See [`parts`].
    Ratios {
        /// One for each part.
        ratios: Vec<f64>,
        /// Another seed is another split.
        seed: u64,
        /// A field by whose values samples are dealt out in these ratios.
        stratify: Option<String>,
    },
    /// The same, but samples with the same value in a field go to one part. See [`whole_groups`].
    Groups {
        /// One for each part.
        ratios: Vec<f64>,
        /// Another seed is another split.
        seed: u64,
        /// The field.
        field: String,
    },
    /// The hash of its key decides where a sample goes, as [`Split`](crate::convert::Split) does: it stays there when
    /// samples are added or sorted. See [`ByKey`].
    Keys {
        /// The name of each part, and its share.
        shares: Vec<(String, f64)>,
        /// Another salt is another split.
        salt: String,
    },
    /// Each value of this field has a part of its own, called by the value, or by its name if the field is `label` and
    /// the dataset has names of labels. See [`by_class`].
    Values(String),
}

/// A part of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatasetPart {
    /// Its number from 0, or the value that its samples have. Nothing in it has a meaning in a path or
    /// in a shell.
    pub name: String,
    /// Its samples, in their order.
    pub indices: Vec<usize>,
}

impl PartsBy {
    /// The field that has to be read of each sample.
    pub fn field(&self) -> Option<&str> {
        match self {
            PartsBy::Positions(_) | PartsBy::Keys { .. } => None,
            PartsBy::Ratios { stratify, .. } => stratify.as_deref(),
            PartsBy::Groups { field, .. } | PartsBy::Values(field) => Some(field),
        }
    }

    /// The samples of each part. `progress` hears of how many samples the field was read; an error of
    /// it ends the search.
    ///
    /// # Errors
    ///
    /// The errors of [`scalars`], and of the functions that the variants name.
    pub fn parts(
        &self,
        reader: &dyn Reader,
        mut progress: impl FnMut(u64) -> Result<()>,
    ) -> Result<Vec<DatasetPart>> {
        let values = self.field().map(|field| scalars(reader, field, &mut progress)).transpose()?;
        let (part_of, ratios) = match self {
            PartsBy::Positions(positions) => {
                let ranges = cut_at(reader.len(), positions);
                let ranges = ranges.map_err(|error| at_reader(reader, error))?;
                let part = |(number, range): (usize, std::ops::Range<usize>)| DatasetPart {
                    name: number.to_string(),
                    indices: range.collect(),
                };
                return Ok(ranges.into_iter().enumerate().map(part).collect());
            }
            PartsBy::Keys { shares, salt } => return by_key(reader, shares, salt, progress),
            PartsBy::Values(field) => {
                let labels = if field == LABEL { reader.labels()? } else { None };
                let name = |label: &String| plain(label);
                let mut names: Vec<String> = labels.iter().flatten().map(name).collect();
                names.sort_unstable();
                // Where two labels would be one file they are numbers.
                let labels = labels.filter(|_| names.windows(2).all(|pair| pair[0] != pair[1]));
                let part = |(value, indices): (Scalar, _)| DatasetPart {
                    name: plain(&named(&value, labels.as_deref())),
                    indices,
                };
                return Ok(by_class(values.unwrap_or_default()).into_iter().map(part).collect());
            }
            PartsBy::Ratios { ratios, seed, .. } => {
                (parts(reader.len(), ratios, values.as_deref(), *seed)?, ratios)
            }
            PartsBy::Groups { ratios, seed, .. } => {
                (whole_groups(&values.unwrap_or_default(), ratios, *seed)?, ratios)
            }
        };
        let part = |number: usize| DatasetPart { name: number.to_string(), indices: Vec::new() };
        let mut parts: Vec<DatasetPart> = (0..ratios.len()).map(part).collect();
        for (index, part) in part_of.into_iter().enumerate() {
            parts[part].indices.push(index);
        }
        Ok(parts)
    }
}

/// The field of numbers that `.labels` names.
const LABEL: &str = "label";

/// A value, or the name of the label that it is.
fn named(value: &Scalar, labels: Option<&[String]>) -> String {
    let label = match value {
        Scalar::Whole(number) => usize::try_from(*number).ok(),
        _ => None,
    };
    let name = label.and_then(|label| labels?.get(label));
    name.cloned().unwrap_or_else(|| value.to_string())
}

/// The samples whose keys fall to each share.
fn by_key(
    reader: &dyn Reader,
    shares: &[(String, f64)],
    salt: &str,
    mut progress: impl FnMut(u64) -> Result<()>,
) -> Result<Vec<DatasetPart>> {
    let ratios: Vec<f64> = shares.iter().map(|(_, share)| *share).collect();
    let keys = ByKey::new(&ratios, salt)?;
    let part = |(name, _): &(String, f64)| DatasetPart { name: name.clone(), indices: Vec::new() };
    let mut parts: Vec<DatasetPart> = shares.iter().map(part).collect();
    for (index, key) in super::keys(reader).enumerate() {
        parts[keys.part(&key?)].indices.push(index);
        progress(index as u64 + 1)?;
    }
    Ok(parts)
}

/// A value as a part of a file name, without what has a meaning in a path or in a shell.
fn plain(value: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "._-+".contains(c);
    value.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// Where a part of a dataset is written, by default: `dir/ROOT-PART.EXT` for
/// `dir/ROOT.EXT`. What has a meaning in a path or in a shell becomes `_`.
///
/// ```
/// # use std::path::Path;
/// let path = kiste::rearrange::part_path(Path::new("data/all.msgpack"), "0");
/// assert_eq!(path, Path::new("data/all-0.msgpack"));
/// ```
pub fn part_path(dataset: &Path, part: &str) -> PathBuf {
    let mut name = dataset.file_stem().unwrap_or_default().to_os_string();
    name.push(format!("-{}", plain(part)));
    if let Some(extension) = dataset.extension() {
        name.push(".");
        name.push(extension);
    }
    dataset.with_file_name(name)
}

/// Fails if two parts would have one name.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid), with the name.
pub fn check_part_paths(paths: &[PathBuf]) -> Result<()> {
    match paths.iter().enumerate().find(|(at, path)| paths[..*at].contains(path)) {
        Some((_, path)) => {
            Err(Error::new(ErrorKind::Invalid, "two parts would have this name").at(path))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_named_as_in_python() {
        assert_eq!(part_path(Path::new("a/b.c.msgpack"), "0"), Path::new("a/b.c-0.msgpack"));
        assert_eq!(part_path(Path::new("b"), "12"), Path::new("b-12"));
    }

    #[test]
    fn names_of_parts_mean_nothing_to_a_shell() {
        assert_eq!(part_path(Path::new("a.x"), "../b c;\n$d"), Path::new("a-.._b_c___d.x"));
        let twice = ["a", "b", "a"].map(PathBuf::from);
        let error = check_part_paths(&twice).unwrap_err();
        assert_eq!(error.to_string(), "a: two parts would have this name");
        assert!(check_part_paths(&twice[..2]).is_ok());
    }
}
