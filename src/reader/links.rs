//! Links to directories. Some of them have no end.

use std::path::{Path, PathBuf};

use crate::error::Result;

/// The way down into directories: those that links were followed in.
#[derive(Debug, Default)]
pub(crate) struct Links {
    followed: Vec<PathBuf>,
}

impl Links {
    /// Walks through a directory, unless that is a link to one that the way to it leads through:
    /// there is nothing below it that is not found without it, again and again.
    pub(crate) fn enter(
        &mut self,
        dir: &Path,
        walk: impl FnOnce(&mut Links) -> Result<()>,
    ) -> Result<()> {
        if !dir.is_symlink() {
            return walk(self);
        }
        let Some(parent) = self.follow(dir) else { return Ok(()) };
        self.followed.push(parent);
        let walked = walk(self);
        self.followed.pop();
        walked
    }

    /// The directory that a link is in, if the link leads somewhere else.
    fn follow(&self, link: &Path) -> Option<PathBuf> {
        let parent = link.parent()?;
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let (target, parent) = (link.canonicalize().ok()?, parent.canonicalize().ok()?);
        let leads_back = |from: &PathBuf| from.starts_with(&target);
        let is_loop = leads_back(&parent) || self.followed.iter().any(leads_back);
        (!is_loop).then_some(parent)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn walk(dir: &Path, links: &mut Links, seen: &mut Vec<String>) -> Result<()> {
        let mut entries: Vec<PathBuf> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries.into_iter().filter(|path| path.is_dir()) {
            links.enter(&path, |links| {
                seen.push(path.file_name().unwrap().to_str().unwrap().to_owned());
                walk(&path, links, seen)
            })?;
        }
        Ok(())
    }

    #[test]
    fn each_way_comes_to_an_end() {
        let root = tempfile::tempdir().unwrap();
        for dir in ["a/b", "c/d", "e"] {
            fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        let link = |target: &str, at: &str| symlink(target, root.path().join(at)).unwrap();
        let seen = || {
            let (mut links, mut seen) = (Links::default(), Vec::new());
            walk(root.path(), &mut links, &mut seen).unwrap();
            assert!(links.followed.is_empty());
            seen
        };
        // Upwards, to itself, and to nowhere.
        link("../..", "a/b/up");
        link(".", "a/b/self");
        link("nowhere", "a/b/none");
        assert_eq!(seen(), ["a", "b", "c", "d", "e"]);
        // Elsewhere, from two places.
        link("../e", "a/e1");
        link("../e", "c/e2");
        assert_eq!(seen(), ["a", "b", "e1", "c", "d", "e2", "e"]);
        // Into each other.
        link("../../c", "a/b/c2");
        link("../../a", "c/d/a2");
        let expected = "a b c2 d e2 e1 c d a2 b e1 e2 e";
        assert_eq!(seen().join(" "), expected);
    }
}
