//! The end of a commit: what it has made stays, and all else that is its own goes.
//!
//! The parts go last, as only they tell a later commit that there is something left to remove. What lies
//! next to the output goes before them, and is gone for good: a power failure must not bring it back once
//! no parts are there. What another process holds stays, and so does what is of others.

use std::path::{Path, PathBuf};

use super::Journal;
use super::export_dir::ExportDir;
use super::format::Format;
use super::monitor::{Monitor, Notice};
use super::plan::Plan;
use super::scattered::remove_scattered;
use super::unfinished::remove_pieces;
use crate::error::Result;
use crate::format::dataset::shards::is_manifest;
use crate::storage::{self, LocalStorage, Lock, Storage};

/// Removes what conversions to this output have left, once it is [published](Journal::published). If it is
/// interrupted, it can be repeated.
pub(super) fn remove_all_but_output(
    parts: Journal,
    lock: Option<Lock>,
    output: &Path,
    monitor: &mut dyn Monitor,
) -> Result<()> {
    // Of the first pass of a shuffle: the files that this machine has.
    if let Some(elsewhere) = remove_scattered(output)? {
        monitor.notice(Notice::ScatterElsewhere(elsewhere));
    }
    if parts.are_objects() && !output.to_str().is_some_and(is_manifest) {
        remove_pieces(&parts)?;
    }
    if !parts.are_objects() {
        let (format, targets) = outputs_of(&parts, output);
        match format {
            // A writer of a dataset removes all before it is done.
            Format::Dataset if !output.to_str().is_some_and(is_manifest) => {}
            Format::Dataset => storage::remove_dead_lock(&LocalStorage::mapped(), output)?,
            _ => targets.iter().try_for_each(|path| ExportDir::clear_dead(path))?,
        }
        LocalStorage::mapped().sync_dir(output.parent().unwrap_or(Path::new("")))?;
    }
    // Not every system removes open files.
    drop(lock);
    parts.remove()
}

/// The outputs and their format. Where the plan is gone, all but the parts is gone too.
fn outputs_of(parts: &Journal, output: &Path) -> (Format, Vec<PathBuf>) {
    match Plan::from_json(parts.plan(), output) {
        Ok(Plan { conversion, .. }) => (conversion.output_format(), conversion.targets()),
        Err(_) => (Format::of_output(output), vec![output.to_path_buf()]),
    }
}
