//! [`Confined`]: names that stand in data lead to files of one folder.
//!
//! A list, a table, an index or a manifest may come from anyone, and the files that it names become
//! samples, which are passed on. So a name in it is neither a URL nor the path of a file elsewhere, and
//! no link in the folder leads out of it: the path is compared with all links resolved.
//!
//! Between this and opening the file someone who can write to the folder may replace a directory in it
//! by a link. That is not prevented: they could as well put the file itself there.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::{LocalStorage, Storage, is_url};
use crate::error::{Error, ErrorKind, Remedy, Result};

/// The folder that names in data are relative to, and must not lead out of.
#[derive(Debug, Clone)]
pub(crate) struct Confined {
    folder: PathBuf,
    /// Files that the names stand in. One that is a link has its names next to where it leads as
    /// well, as in caches that keep every file under its digest.
    named_in: Vec<PathBuf>,
    outside: bool,
    /// The folders, without links.
    real: Arc<OnceLock<Vec<PathBuf>>>,
}

impl Confined {
    /// Names of files in this folder, or behind its URL.
    pub(crate) fn to(folder: impl Into<PathBuf>) -> Confined {
        let (folder, named_in, real) = (folder.into(), Vec::new(), Arc::default());
        Confined { folder, named_in, outside: false, real }
    }

    /// Names in this file, of files next to it.
    pub(crate) fn next_to(file: &Path) -> Confined {
        Confined::to(file.parent().unwrap_or(Path::new(""))).named_in(file)
    }

    /// The names stand in this file.
    pub(crate) fn named_in(mut self, file: &Path) -> Confined {
        self.named_in.push(file.to_path_buf());
        self.real = Arc::default();
        self
    }

    /// Whether names may lead anywhere. Default: no.
    pub(crate) fn allow_outside(mut self, yes: bool) -> Confined {
        self.outside = yes;
        self
    }

    /// The folder.
    #[cfg(feature = "convert")]
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a name leads, allowed or not.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        within(&self.folder, name)
    }

    /// Fails for a name that leads out of the folder, whether there is such a file or not. Links are
    /// for [`path`](Self::path).
    #[cfg(any(feature = "convert", test))]
    pub(crate) fn check(&self, name: &str) -> Result<()> {
        self.check_in(&LocalStorage::positioned(), name)
    }

    /// Where the file of this name is: its path without links.
    pub(crate) fn path(&self, name: &str) -> Result<PathBuf> {
        let storage = LocalStorage::positioned();
        self.check_in(&storage, name)?;
        self.resolve(&storage, &self.join(name))
    }

    /// The same for a name that leads to this path.
    pub(crate) fn resolve(&self, storage: &dyn Storage, path: &Path) -> Result<PathBuf> {
        if self.outside || is_url(path) {
            return Ok(path.to_path_buf());
        }
        match storage.resolve(path) {
            Ok(real) if self.is_below(storage, &real)? => Ok(real),
            Ok(_) => Err(leads_out("a link that leads out of it").at(path)),
            // Reading it says so.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(path.to_path_buf()),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn check_in(&self, storage: &dyn Storage, name: &str) -> Result<()> {
        let found = match self.outside || self.contains(storage, name)? {
            true => return Ok(()),
            false if has_scheme(name) => format!("the URL {name:?}"),
            false => format!("{name:?}"),
        };
        Err(leads_out(&found))
    }

    fn contains(&self, storage: &dyn Storage, name: &str) -> Result<bool> {
        if name.is_empty() || name.contains('\0') {
            return Ok(false);
        }
        if let Some(folder) = self.folder.to_str().filter(|folder| is_url(folder)) {
            let rest = name.strip_prefix(folder.trim_end_matches('/'));
            let rest = rest.and_then(|rest| rest.strip_prefix('/'));
            let below = if has_scheme(name) { rest } else { Some(name) };
            // A server may take any of these for the folder above.
            let leads = |part: &str| part == "..";
            return Ok(
                below.is_some_and(|name| !is_absolute(name) && !name.split(['/', '\\']).any(leads))
            );
        }
        if has_scheme(name) {
            return Ok(false);
        }
        if !is_absolute(name) {
            return Ok(stays_below(name));
        }
        let path = Path::new(name);
        let given = std::path::absolute(&self.folder);
        let rest = given.ok().and_then(|folder| path.strip_prefix(folder).ok()?.to_str());
        if rest.is_some_and(stays_below) {
            return Ok(true);
        }
        match storage.resolve(path) {
            Ok(real) => self.is_below(storage, &real),
            Err(_) => Ok(false),
        }
    }

    /// Whether this path without links is one of the folder.
    fn is_below(&self, storage: &dyn Storage, path: &Path) -> Result<bool> {
        if let Some(folders) = self.real.get() {
            return Ok(folders.iter().any(|folder| path.starts_with(folder)));
        }
        let mut folders = vec![match storage.resolve(&self.folder) {
            Err(_) if self.folder.as_os_str().is_empty() => storage.resolve(Path::new("."))?,
            folder => folder?,
        }];
        for file in &self.named_in {
            let real = storage.resolve(file).ok();
            folders.extend(real.and_then(|real| real.parent().map(Path::to_path_buf)));
        }
        Ok(self.real.get_or_init(|| folders).iter().any(|folder| path.starts_with(folder)))
    }
}

fn leads_out(found: &str) -> Error {
    let message = format!("expected the path of a file in this folder, found {found}");
    Error::new(ErrorKind::Invalid, message).with_remedy(Remedy::AllowOutside)
}

/// The file of this name in a folder, or behind the URL of one.
fn within(folder: &Path, name: &str) -> PathBuf {
    match folder.to_str() {
        _ if is_url(name) => PathBuf::from(name),
        Some(url) if is_url(folder) => {
            let mut name = name.to_owned();
            // Object stores take names without escapes.
            if url.starts_with("http") {
                for (special, escaped) in [('%', "%25"), ('?', "%3F"), ('#', "%23")] {
                    name = name.replace(special, escaped);
                }
            }
            PathBuf::from(format!("{}/{name}", url.trim_end_matches('/')))
        }
        _ => folder.join(name),
    }
}

/// Whether it begins like a URL, `file://` included.
fn has_scheme(name: &str) -> bool {
    is_url(name) || name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("file://"))
}

/// Whether it does not start from the folder, on this system or another.
fn is_absolute(name: &str) -> bool {
    let is_drive = matches!(name.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    name.starts_with(['/', '\\']) || (cfg!(windows) && is_drive) || Path::new(name).is_absolute()
}

/// Whether a relative name leads to no folder above, on this system or another.
fn stays_below(name: &str) -> bool {
    let mut depth = 0;
    name.split(['/', '\\']).all(|part| {
        depth += match part {
            "" | "." => 0,
            ".." => -1,
            _ => 1,
        };
        depth >= 0
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn names_stay_in_their_folder() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("folder");
        fs::create_dir_all(folder.join("a")).unwrap();
        fs::write(folder.join("a/1"), "inside").unwrap();
        fs::write(dir.path().join("far"), "secret").unwrap();
        let confined = Confined::to(&folder);
        let absolute = folder.join("a/1").to_str().unwrap().to_owned();
        for name in ["a/1", "./a/1", "a//1", "a/../a/1", "not/there", "...", &absolute] {
            confined.check(name).unwrap();
            confined.path(name).unwrap();
            assert!(confined.join(name).starts_with(&folder), "{name}");
        }
        let far = dir.path().join("far").to_str().unwrap().to_owned();
        for name in [
            "",
            "/etc/passwd",
            "../far",
            "a/../../far",
            "..",
            "a\\..\\..\\far",
            "\\\\server\\share",
            "http://host/a/1",
            "s3://bucket/a/1",
            "file:///etc/passwd",
            "FILE:///etc/passwd",
            "a\0b",
            &far,
            &format!("{absolute}/../../../far"),
        ] {
            let error = confined.check(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{name}");
            assert_eq!(error.remedy(), Some(&Remedy::AllowOutside));
            assert_eq!(confined.path(name).unwrap_err().to_string(), error.to_string());
            confined.clone().allow_outside(true).check(name).unwrap();
        }
    }

    #[test]
    fn urls_stay_below_theirs() {
        let confined = Confined::to("https://host/d/");
        for name in ["a", "a/b.jpg", "https://host/d/a"] {
            confined.check(name).unwrap();
        }
        assert_eq!(confined.join("a?b"), Path::new("https://host/d/a%3Fb"));
        for name in ["../x", "/x", "https://host/other/a", "https://host/d/../x", "s3://host/d/a"] {
            confined.check(name).unwrap_err();
        }
        Confined::to("s3://b/d").check("https://b/d/a").unwrap_err();
    }

    #[cfg(unix)]
    #[test]
    fn links_that_lead_out_are_found() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("folder/a")).unwrap();
        fs::create_dir_all(at("blobs")).unwrap();
        for file in ["folder/a/1", "far", "blobs/1", "blobs/list"] {
            fs::write(at(file), "text").unwrap();
        }
        symlink(at("far"), at("folder/out")).unwrap();
        symlink("../..", at("folder/a/up")).unwrap();
        symlink("a/1", at("folder/in")).unwrap();
        symlink("nowhere", at("folder/dangling")).unwrap();
        symlink("../blobs/1", at("folder/kept")).unwrap();
        symlink("../blobs/list", at("folder/list")).unwrap();
        symlink("folder", at("also")).unwrap();
        for folder in ["folder", "also"] {
            let confined = Confined::to(at(folder));
            for name in ["in", "a/1", "dangling"] {
                confined.path(name).unwrap();
            }
            for name in ["out", "a/up/far", "kept"] {
                let error = confined.path(name).unwrap_err();
                assert!(error.to_string().contains("a link that leads out of it"), "{error}");
                confined.clone().allow_outside(true).path(name).unwrap();
            }
            // As in the cache of a hub: what names it is next to it.
            let confined = Confined::next_to(&at(folder).join("list"));
            confined.path("kept").unwrap();
            confined.path("out").unwrap_err();
        }
    }
}
