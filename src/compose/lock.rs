//! Pins the sources of a recipe: their identities, and digests of all their bytes.

use std::path::Path;

use super::load::{Kept, Loading, Sources, read};
use super::made::is_told_by;
use super::open::{Doing, ViewOptions};
use super::save::{Names, named};
use super::view::View;
use crate::error::{Error, ErrorKind, Result};
use crate::format::hex;
use crate::format::recipe::{Base, Recipe, Source};
use crate::storage::{self, Expected};

/// Pins the sources of a recipe: writes the identity of each and the MD5 of its data files into it, with which they are
/// compared whenever the recipe is opened. Digests come from `.md5` where there is one. What joins and lists of keys read
/// is not pinned. All else that is in the file stays as it is. What conditions choose is kept next to it.
///
/// # Errors
///
/// The errors of [`View::open`]; [`Invalid`](ErrorKind::Invalid) for a source that has no `[source.NAME]` line of its own.
pub fn lock(
    name: impl AsRef<Path>,
    progress: &mut dyn FnMut(Doing<'_>) -> Result<()>,
) -> Result<View> {
    let name = name.as_ref();
    let (storage, place) = storage::of(name)?;
    let (mut wanted, file) = read(&*storage, &place)?;
    let version = Expected::Version(file.id());
    let mut text = String::from_utf8_lossy(&file.read(0..file.len())?).into_owned();
    for (source, given) in &mut wanted.sources {
        let Base::Paths(paths) = &given.base else { continue };
        let (identity, digest) = pins(&place, paths, given.identity.as_deref(), progress)?;
        text = with_pins(&text, source, &identity, &digest).map_err(|error| error.at(name))?;
        *given = Source { identity: Some(identity), digest: Some(digest), ..given.clone() };
    }
    // What was put in says what it should.
    if Recipe::parse(&text).ok().as_ref() != Some(&wanted) {
        let message = "expected identity and digest of each source on lines of their own below [source.NAME], or none";
        return Err(Error::new(ErrorKind::Invalid, message).at(name));
    }
    // What can be opened is written.
    let kept = Kept::Files { storage: storage.clone(), writes: true };
    let sources = &mut Sources::of(&wanted, &place, ViewOptions::default(), kept);
    let view = sources.output(&mut Loading::new(progress))?;
    storage.put_if(&place, text.as_bytes(), version)?;
    Ok(view)
}

type Digests = Vec<(String, String)>;

/// What tells the datasets of these names from others.
fn pins(
    recipe: &Path,
    paths: &[String],
    told: Option<&str>,
    progress: &mut dyn FnMut(Doing<'_>) -> Result<()>,
) -> Result<(String, Digests)> {
    let folder = storage::Confined::next_to(recipe).allow_outside(true);
    let mut loading = Loading::new(progress);
    let open = |path: &String| loading.open(&folder.join(path), ViewOptions::default());
    let view = View::concat(paths.iter().map(open).collect::<Result<Vec<View>>>()?)?;
    let mut digests = Vec::new();
    for dataset in view.datasets() {
        for (file, md5) in dataset.digests()? {
            digests.push((named(Names::Next(recipe), &file)?, format!("md5:{}", hex(&md5))));
        }
    }
    digests.sort();
    digests.dedup();
    // What else is told by it stays valid.
    match told {
        Some(told) if is_told_by(&view, told)? => Ok((told.to_owned(), digests)),
        _ => Ok((view.lineage()?.to_owned(), digests)),
    }
}

/// The text with identity and digests of a source below its head.
fn with_pins(text: &str, source: &str, identity: &str, digests: &Digests) -> Result<String> {
    let heads = [format!("[source.{source}]"), format!("[source.\"{source}\"]")];
    let mut lines: Vec<&str> = text.lines().collect();
    let is_head =
        |line: &&str| heads.iter().any(|head| line.trim_start().starts_with(head.as_str()));
    let Some(head) = lines.iter().position(is_head) else {
        let message = format!("expected a line {} to write digests below, found none", heads[0]);
        return Err(Error::new(ErrorKind::Invalid, message));
    };
    let end = lines[head + 1..].iter().position(|line| line.trim_start().starts_with('['));
    let mut end = end.map_or(lines.len(), |end| head + 1 + end);
    let mut at = head + 1;
    while at < end {
        let is_pin = ["identity", "digest"].iter().any(|name| {
            let rest = lines[at].trim_start().strip_prefix(name);
            rest.is_some_and(|rest| rest.trim_start().starts_with('='))
        });
        if is_pin {
            lines.remove(at);
            end -= 1;
        } else {
            at += 1;
        }
    }
    let quoted = |text: &str| {
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
        format!("\"{escaped}\"")
    };
    let digests: Vec<String> = digests
        .iter()
        .map(|(file, digest)| format!("{} = {}", quoted(file), quoted(digest)))
        .collect();
    let pins = [
        format!("identity = {}", quoted(identity)),
        format!("digest = {{ {} }}", digests.join(", ")),
    ];
    let (before, after) = lines.split_at(head + 1);
    let mut all: Vec<&str> = before.to_vec();
    all.extend(pins.iter().map(String::as_str));
    all.extend(after);
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    Ok(all.join(end) + end)
}
