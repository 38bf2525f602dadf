//! Files as samples: a folder, patterns, a list or a zip archive of images, and which of them.

use std::path::{Path, PathBuf};

use kiste::convert::{FolderOptions, ImageFolder};
use kiste::reader::Labels;

use crate::exit::{Failure, Outcome};

/// Which files, and what their labels are.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Files of images")]
pub(super) struct Files {
    /// The files below SRC, or in it if it is a zip archive, such as 'train/{LABEL}/**'; within an
    /// archive * goes over slashes. May be given again
    #[arg(long, value_name = "PATTERN")]
    pattern: Vec<String>,
    /// Only files that match, such as '*.png': * goes over slashes. May be given again
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// No files that match. May be given again
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Where the paths in a list start from, instead of its folder; a SRC that is a file is a list
    /// then
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Whether the first row of a list has names of columns: yes or no, seen by itself where one is
    /// called path, file, file_name, filename or image
    #[arg(long, value_name = "YES", value_parser = yes_or_no)]
    header: Option<bool>,
    /// All labels, one a line, that of number 0 first; otherwise those that occur, in natural order
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Put the labels into the samples themselves instead of their numbers
    #[arg(long)]
    text_labels: bool,
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("expected yes or no".to_owned()),
    }
}

/// Whether this names no file but a pattern of some.
pub(super) fn is_pattern(path: &Path) -> bool {
    let pattern = path.to_str().filter(|_| path.symlink_metadata().is_err());
    pattern.is_some_and(|pattern| pattern.contains("{LABEL}") || pattern.contains(['*', '?', '[']))
}

impl Files {
    /// An option that was given, and so must mean something.
    pub(super) fn given(&self) -> Option<&'static str> {
        match () {
            () if !self.pattern.is_empty() => Some("--pattern"),
            () if !self.include.is_empty() => Some("--include"),
            () if !self.exclude.is_empty() => Some("--exclude"),
            () if self.labels.is_some() => Some("--labels"),
            () if self.text_labels => Some("--text-labels"),
            () => self.given_for_lists(),
        }
    }

    fn given_for_lists(&self) -> Option<&'static str> {
        match () {
            () if self.root.is_some() => Some("--root"),
            () if self.header.is_some() => Some("--header"),
            () => None,
        }
    }

    /// Whether a file is a list, because there is a folder where its paths start.
    pub(super) fn has_root(&self) -> bool {
        self.root.is_some()
    }

    /// Images of a folder, of patterns, or of an archive.
    pub(super) fn open(&self, paths: &[PathBuf], max_bytes: Option<u64>) -> Outcome<ImageFolder> {
        if let Some(option) = self.given_for_lists() {
            return Err(Failure::trouble(format!("{option} is for lists, but this is images")));
        }
        let options = self.options(max_bytes);
        if paths.iter().all(|path| is_pattern(path)) {
            if let Some(pattern) = self.pattern.first() {
                let message = format!("SRC is a pattern, and so is --pattern {pattern}");
                return Err(Failure::trouble(message).hint("give the folder as SRC"));
            }
            return Ok(options.patterns(paths.iter().filter_map(|path| path.to_str()))?);
        }
        let [path] = paths else {
            let message = "expected a folder, an archive, or patterns alone, found";
            return Err(Failure::trouble(format!("{message} {} names", paths.len())));
        };
        Ok(match self.pattern.is_empty() {
            _ if path.is_file() => options.zip(path, &self.pattern)?,
            true => options.folder(path)?,
            false => options.root(path).patterns(&self.pattern)?,
        })
    }

    /// Images of a list.
    pub(super) fn open_list(&self, list: &Path, max_bytes: Option<u64>) -> Outcome<ImageFolder> {
        if !self.pattern.is_empty() {
            return Err(Failure::trouble("--pattern is for images, but this is list"));
        }
        let mut options = self.options(max_bytes);
        if let Some(root) = &self.root {
            options = options.root(root);
        }
        if let Some(header) = self.header {
            options = options.header(header);
        }
        Ok(options.list(list)?)
    }

    fn options(&self, max_bytes: Option<u64>) -> FolderOptions {
        let mut options = ImageFolder::options().text_labels(self.text_labels);
        options = options.include(&self.include).exclude(&self.exclude);
        if let Some(labels) = &self.labels {
            options = options.labels(Labels::file(labels));
        }
        match max_bytes {
            Some(bytes) => options.max_bytes(bytes),
            None => options,
        }
    }
}
