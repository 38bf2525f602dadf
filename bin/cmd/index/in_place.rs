//! `index -o`: samples that stay in files of other formats.

use std::io::Write;
use std::path::{Path, PathBuf};

use kiste::convert::{Format, InPlace, InPlaceReport};
use kiste::storage::Shown;
use kiste::text::units;
use serde::Serialize;

use crate::cmd::convert::format;
use crate::cmd::{given, parse_size};
use crate::exit::{Exit, Failure, Outcome};
use crate::file;
use crate::monitor::Monitor;
use crate::output::Output;

/// Options of `index` for the side files of a dataset.
const SIDE_FILES: [&str; 5] = ["trust_data", "lookup", "no_lookup", "crc", "no_md5"];

/// Samples that stay in their files.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "In place")]
pub(super) struct Options {
    /// Make a dataset of samples that stay in tar archives of WebDataset, JSON lines, TFRecord files, MDS shards or
    /// Arrow IPC files, without copying them: NAME.inplace.json, which is read like any dataset
    #[arg(long, short, value_name = "NAME", conflicts_with_all = SIDE_FILES)]
    output: Option<PathBuf>,
    /// The format of the files: webdataset, jsonl, tfrecord, mds or arrow [default: detected]
    #[arg(long, value_name = "FORMAT", value_parser = format::readable(), hide_possible_values = true, requires = "output")]
    from: Option<Format>,
    /// A pattern for keys, as of convert: {key.shard}/{key} where each file counts its samples from 0
    #[arg(long, value_name = "PATTERN", conflicts_with = "key_field", requires = "output")]
    key: Option<String>,
    /// The field to use as key, as of convert
    #[arg(long, value_name = "FIELD", requires = "output")]
    key_field: Option<String>,
    /// TFRecord: the features that are strings
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',', requires = "output")]
    texts: Vec<String>,
    /// TFRecord: the features that are lists also where they have one value
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',', requires = "output")]
    lists: Vec<String>,
    /// JSON lines: read names that begin with $ as ordinary names
    #[arg(long, requires = "output")]
    plain_json: bool,
    /// Refuse a sample that is larger than this [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "output")]
    max_bytes: Option<usize>,
    /// Leave out samples whose place or key is bad, and count them
    #[arg(long)]
    skip_bad: bool,
    /// Index again the files of FILE, or of NAME, that have changed
    #[arg(long, conflicts_with_all = ["append", "force"], conflicts_with_all = SIDE_FILES)]
    refresh: bool,
    /// Add the files to the index NAME
    #[arg(long, requires = "output", conflicts_with = "force")]
    append: bool,
}

#[derive(Serialize)]
struct Made<'a> {
    file: Shown,
    samples: u64,
    shards: usize,
    bytes: u64,
    kept: usize,
    bad: u64,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    first_bad: &'a [String],
}

impl Options {
    /// Whether this is asked for.
    pub(super) fn are_asked(&self) -> bool {
        self.output.is_some() || self.refresh
    }

    /// The index that is made or brought up to date.
    pub(super) fn index<'a>(&'a self, files: &'a [PathBuf]) -> Option<&'a Path> {
        match (&self.output, files) {
            (Some(to), _) => Some(to),
            (None, [index]) => Some(index),
            (None, _) => None,
        }
    }

    /// Whether bad samples are left out.
    pub(super) fn skips_bad(&self) -> bool {
        self.skip_bad
    }

    pub(super) fn run(
        self,
        files: &[PathBuf],
        (force, json): (bool, bool),
        output: &Output,
    ) -> Outcome<Exit> {
        // An index that is brought up to date is named itself, or with files.
        let (to, sources) = match (&self.output, files) {
            (Some(to), files) => (to.clone(), files),
            (None, [index]) => (index.clone(), &[][..]),
            (None, _) => {
                let message = "--refresh takes one index, or -o with its name";
                return Err(Failure::trouble(message));
            }
        };
        let given_options = InPlace::new(sources, &to);
        let making = given(given_options, self.from, InPlace::from);
        let making = given(making, self.key, InPlace::key);
        let making = given(making, self.key_field, InPlace::key_field);
        let making = given(making, self.max_bytes.map(|bytes| bytes as u64), InPlace::max_bytes);
        let making = making.texts(self.texts).lists(self.lists).plain_json(self.plain_json);
        let making = making.skip_bad(self.skip_bad).overwrite(force);
        let making = if self.refresh { making.refresh() } else { making };
        let making = if self.append { making.append() } else { making };
        let mut monitor = Monitor::new(output).doing("indexing".to_owned());
        let report = making.run(&mut monitor)?;
        drop(monitor);
        tell(&to, &report, output);
        if json {
            let InPlaceReport { samples, shards, bytes, kept, bad, ref first, .. } = report;
            let made =
                Made { file: Shown::of(&to), samples, shards, bytes, kept, bad, first_bad: first };
            let mut out = output.stdout();
            out.json_line(&serde_json::to_vec(&made)?)?;
            out.flush()?;
        }
        Ok(if report.bad > 0 { Exit::No } else { Exit::Yes })
    }
}

fn tell(path: &Path, report: &InPlaceReport, output: &Output) {
    report.remarks.list().iter().for_each(|remark| output.warn(remark));
    let samples = units::counted(report.samples, "sample");
    let files = units::counted(report.shards as u64, "file");
    let bytes = units::bytes(report.bytes);
    let kept = match report.kept {
        0 => String::new(),
        kept => format!("; {} had not changed", units::counted(kept as u64, "file")),
    };
    output.note(format_args!("{}: {samples} in {files} of {bytes}{kept}", file::shown(path)));
    if report.bad > 0 {
        let bad = units::counted(report.bad, "bad sample");
        output.warn(format_args!("{bad} left out, such as {}", report.first.join("; ")));
    }
}
