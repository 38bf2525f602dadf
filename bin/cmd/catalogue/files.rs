//! The files of a data set: found, fetched, and compared with their digests.

use kiste::storage::Shown;
use std::path::Path;

#[cfg(feature = "download")]
use kiste::ErrorKind;
use kiste::datasets::{Dataset, File, Opening};
use kiste::text::units;

use crate::exit::{Failure, Outcome, quoted};
#[cfg(feature = "download")]
use crate::interrupt;
use crate::output::Output;

/// Makes sure that all files are there: those that are missing are fetched if they may be. Returns
/// which were fetched, and so compared with their digests.
pub(super) fn provide(
    opening: &Opening<'_>,
    download: bool,
    output: &Output,
) -> Outcome<Vec<&'static File>> {
    let all = opening.missing();
    let (free, others): (Vec<_>, Vec<_>) =
        all.iter().copied().partition(|file| download && file.url.is_some());
    if !others.is_empty() {
        return Err(missing(opening, &others));
    }
    fetch(opening, &free, output)?;
    Ok(free)
}

#[cfg(feature = "download")]
fn fetch(opening: &Opening<'_>, files: &[&File], output: &Output) -> Outcome<()> {
    for file in files {
        let size = file.size.map_or_else(String::new, |size| format!(" ({})", units::bytes(size)));
        output.note(format_args!("downloading {}{size}", file.url.unwrap_or(file.path)));
        let path = opening.dir.join(file.path);
        interrupt::ends_with(format!(
            "{}: interrupted; the downloaded part is kept; the same command resumes the download",
            Shown::of(&path)
        ));
        let progress = output.progress_bytes(format!("fetching {}", file.path), file.size);
        let fetched = file.fetch(opening.dir, |bytes| progress.set(bytes));
        fetched.map_err(|error| match error.kind() {
            ErrorKind::Io if file.is_partly_there(opening.dir) => Failure::from(error)
                .hint("the downloaded part is kept: the same command resumes the download"),
            _ => error.into(),
        })?;
    }
    Ok(())
}

/// Not reached with any file: there is no option to ask for it.
#[cfg(not(feature = "download"))]
fn fetch(_: &Opening<'_>, _: &[&File], _: &Output) -> Outcome<()> {
    Ok(())
}

/// The error for files that are not there and cannot be fetched.
fn missing(opening: &Opening<'_>, missing: &[&File]) -> Failure {
    let dir = Shown::of(&opening.dir);
    if !opening.dir.exists() {
        let message = format!("{dir}: there is no such folder");
        return Failure::trouble(message).hint(where_to_get(opening.dataset, missing));
    }
    let names: Vec<&str> = missing.iter().map(|file| file.path).collect();
    let message = match &names[..] {
        [name] => format!("{dir}: there is no {name}"),
        names => format!("{dir}: {} files are missing: {}", names.len(), names.join(", ")),
    };
    Failure::trouble(message).hint(where_to_get(opening.dataset, missing))
}

/// Where to get files: one address per line, if there are several.
fn where_to_get(dataset: &Dataset, files: &[&File]) -> String {
    let addresses: Vec<&str> = files.iter().filter_map(|file| file.url).collect();
    let others = addresses.len() < files.len();
    let page = format!("{} (its authors may want you to register)", dataset.url);
    match &addresses[..] {
        [] => format!("get it from {page}"),
        [one] if !others => {
            let fetched = if cfg!(feature = "download") { ", or with --download" } else { "" };
            format!("get it: curl -LO {}{fetched}", quoted(Path::new(one)))
        }
        _ => {
            let fetched = cfg!(feature = "download") && !others;
            let fetched = if fetched { "--download fetches them from" } else { "get them from" };
            let mut lines = vec![fetched.to_owned()];
            lines.extend(addresses.iter().map(|address| format!("  {address}")));
            lines.extend(others.then(|| format!("  {page}")));
            lines.join("\n")
        }
    }
}

/// Compares all files with their digests.
pub(super) fn verify(opening: &Opening<'_>, fetched: &[&File], output: &Output) -> Outcome<()> {
    let is_fetched = |file: &File| fetched.iter().any(|fetched| fetched.path == file.path);
    for file in opening.files().into_iter().filter(|file| !is_fetched(file)) {
        let size = opening.dir.join(file.path).metadata().ok().map(|metadata| metadata.len());
        let progress = output.progress_bytes(format!("verifying {}", file.path), size);
        let verified = file.verify(opening.dir, |bytes| progress.set(bytes));
        verified.map_err(|error| {
            let hint = "it is not the file that was published, or not all of it; \
                        --skip-verification reads it nevertheless";
            Failure::from(error).hint(hint)
        })?;
    }
    Ok(())
}
