//! The format that the name of an output asks for, and names that mean something else.

use std::path::Path;

use super::{Format, all};
use crate::compose::is_recipe;
use crate::convert::file_names::{ending, is_ending};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::dataset::shards::is_manifest;

/// Fails if the name of an output asks for something that cannot be written: it was not meant for a
/// dataset.
pub(in crate::convert) fn check_output_name(path: &Path) -> Result<()> {
    if path.to_str().is_some_and(is_manifest) {
        return Ok(());
    }
    let ending = ending(path);
    let mut other = all().flat_map(|def| def.not_endings);
    let flaw = match &ending[..] {
        _ if is_recipe(path) => "the name asks for a recipe, but samples are written",
        "7z" | "bz2" | "gz" | "lz4" | "tbz" | "tbz2" | "tgz" | "txz" | "tzst" | "xz" | "zip"
        | "zst" => "compressed outputs cannot be written",
        "npy" => "a single array cannot be written, but npz can",
        "h5" | "hdf5" | "lmdb" | "mat" | "pickle" | "pkl" | "pt" | "safetensors" | "txt"
        | "xls" | "xlsx" => "the name asks for a format that cannot be written",
        ending => match (other.find(|(other, _)| *other == ending), meant(ending)) {
            (Some((_, flaw)), _) => flaw,
            (None, Some(known)) => return Err(misspelled(path, ending, known)),
            (None, None) => return Ok(()),
        },
    };
    Err(Error::new(ErrorKind::Invalid, flaw).at(path).with_remedy(Remedy::NameOutput(OUTPUTS)))
}

/// How the names of outputs end.
const OUTPUTS: &str =
    ".msgpack (dataset), .jsonl, .tar (webdataset), .tfrecord, .npz, .csv, .parquet or .arrow";

fn misspelled(path: &Path, ending: &str, known: &str) -> Error {
    let message = format!("expected a known ending such as .{known}, found .{ending}");
    Error::new(ErrorKind::Invalid, message).at(path).with_remedy(Remedy::NameOutput(OUTPUTS))
}

/// The ending that one of an output may be a misspelling of.
fn meant(ending: &str) -> Option<&'static str> {
    let known = || all().flat_map(|def| def.endings).chain(&["json", "npy", "tsv"]);
    match known().any(|known| *known == ending) {
        true => None,
        false => known().copied().find(|known| is_misspelled(ending, known)),
    }
}

/// Whether two endings differ by a slip: in one letter, in two where they are long; in short ones, where any
/// letter may be meant, only by two that changed places or one that comes twice.
fn is_misspelled(ending: &str, known: &str) -> bool {
    let (a, b) = (ending.as_bytes(), known.as_bytes());
    let swapped = (1..b.len()).any(|at| {
        let mut swapped = b.to_vec();
        swapped.swap(at - 1, at);
        swapped == a
    });
    let doubled = (0..b.len()).any(|at| [&b[..=at], &b[at..]].concat() == a);
    let most = match b.len() {
        ..=3 => 0,
        4..=5 => 1,
        _ => 2,
    };
    a != b && (swapped || doubled || distance(a, b) <= most)
}

/// How many letters have to be added, removed or replaced.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut before = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = before + usize::from(x != y);
            before = row[j + 1];
            row[j + 1] = replaced.min(before + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Fails if the name of a dataset that is to be made asks for another format, or may be meant to.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid), with what the name asks for.
pub fn check_dataset_name(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let advice = "names of datasets end in .msgpack: make one, and convert it to another format";
    let flaw = match Format::of_output(path) {
        Format::Dataset => {
            return check_output_name(path).map_err(|error| error.advise(advice));
        }
        format => format!("the name asks for {format}, but a dataset is made"),
    };
    Err(Error::new(ErrorKind::Invalid, flaw).at(path).advise(advice))
}

/// Whether the name of a dataset has an ending that says nothing.
pub(in crate::convert) fn has_other_ending(path: &Path) -> bool {
    let ending = ending(path);
    ending != "msgpack" && is_ending(&ending) && !path.to_str().is_some_and(is_manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_that_are_misspelled_are_refused_and_others_are_not() {
        for ending in [
            "parqet", "parquett", "paruqet", "pq", "jsnl", "josnl", "jsonll", "cvs", "csvv", "tra",
            "tfrecods", "tfrec", "arow", "msgpck", "mspack", "nzp", "fether", "json", "PARQET",
        ] {
            let name = format!("out.{ending}");
            assert!(check_output_name(Path::new(&name)).is_err(), "{name}");
            assert!(check_dataset_name(&name).is_err(), "{name}");
        }
        let known = all().flat_map(|def| def.endings).copied();
        for ending in
            known.chain(["", "v2", "dat", "data", "bar", "0-train", "train", "db", "array"])
        {
            assert!(check_output_name(Path::new(&format!("out.{ending}"))).is_ok(), "{ending}");
        }
        for name in ["out", "out.msgpack", "out.v2", "out.shards.json", "a.csv/out"] {
            assert!(check_dataset_name(name).is_ok(), "{name}");
        }
        assert!(check_dataset_name("out.csv").is_err());
    }

    #[test]
    fn the_hint_names_an_ending_of_every_format() {
        for ending in Format::writable().filter_map(Format::extension) {
            assert!(OUTPUTS.contains(&format!(".{ending}")), "{ending}");
        }
    }
}
