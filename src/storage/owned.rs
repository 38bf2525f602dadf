//! Folders with kiste's names that others may have made: decides whether to use their contents.
//!
//! `NAME.parts` next to an output, the directory of a cache: in a directory that many may write to
//! anyone can be the first to make it, and then chooses what is read from it, overwritten or removed.
//! One rule for all of them. A folder is used only if
//!
//! * it belongs to this user, to root, or to the owner of the directory that it is in, who can replace
//!   all that is in that directory anyway, and
//! * nobody else may write to it: not everyone, and not its group, unless the directory that it is in
//!   belongs to that group and lets it replace files (it may write, and there is no sticky bit).
//!
//! A link is followed only where a person has named the folder, and only if the link itself belongs to
//! one of the three.

use std::path::{Path, PathBuf};

use super::{FileKind, LocalStorage, Stat, Storage};
use crate::error::{Error, ErrorKind, Result};

/// The user who may change everything.
const ROOT: u32 = 0;
/// In the mode of a directory: only the owner of a file may replace it.
const STICKY: u32 = 0o1000;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// Whether there is a folder of this name. Fails if there is something else, a link included, or if it
/// may hold what others have put there.
pub(crate) fn expect_ours(dir: &Path) -> Result<bool> {
    let Some(found) = LocalStorage::positioned().lstat(dir)? else { return Ok(false) };
    if !found.is_dir() {
        return Err(foreign(dir, format!("expected a folder, found {}", found.kind)));
    }
    match refused(&found, above(dir)?.as_ref(), LocalStorage::positioned().properties().user) {
        Some(why) => Err(foreign(dir, why)),
        None => Ok(true),
    }
}

/// The same for a folder that a person has named, which may be a link to one.
#[doc(hidden)]
pub fn expect_ours_if_linked(dir: &Path) -> Result<bool> {
    let storage = LocalStorage::positioned();
    let Some(link) = storage.lstat(dir)? else { return Ok(false) };
    if link.kind != FileKind::Link {
        return expect_ours(dir);
    }
    if let Some(why) = not_owned(&link, above(dir)?.as_ref(), storage.properties().user) {
        return Err(foreign(dir, format!("the link {why}")));
    }
    match storage.resolve(dir) {
        // The folder behind the link is judged at its own place, by its own name.
        Ok(real) => expect_ours(&real).map_err(|error| error.shown_at(dir)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(foreign(dir, "expected a folder, found a link that leads nowhere".to_owned()))
        }
        Err(error) => Err(error),
    }
}

/// Fails unless a file that is there belongs to this user, to root, or to the owner of its directory.
#[cfg(feature = "convert")]
pub(crate) fn expect_owned(path: &Path) -> Result<()> {
    let storage = LocalStorage::positioned();
    let Some(found) = storage.lstat(path)? else { return Ok(()) };
    let why = not_owned(&found, above(path)?.as_ref(), storage.properties().user);
    why.map_or(Ok(()), |why| Err(foreign(path, why)))
}

/// Makes the folder, and those above it where they are missing, unless it is there and ours. Only its
/// owner may write to it, and if it is private, read from it.
#[cfg(any(feature = "convert", feature = "remote", test))]
pub(crate) fn make_ours(dir: &Path, private: bool) -> Result<()> {
    use std::{fs, io};

    if expect_ours_if_linked(dir)? {
        return Ok(());
    }
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(|error| Error::io(parent, error))?;
    }
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    {
        let mode = if private { 0o700 } else { 0o755 };
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, mode);
    }
    #[cfg(not(unix))]
    let _ = private;
    match builder.create(dir) {
        // Another process was faster, or another user.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            expect_ours_if_linked(dir).map(drop)
        }
        made => made.map_err(|error| Error::io(dir, error)),
    }
}

/// The directory that something is in.
fn above(path: &Path) -> Result<Option<Stat>> {
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_path_buf(),
        None => path.to_path_buf(),
    };
    LocalStorage::positioned().stat(&parent)
}

fn foreign(path: &Path, why: String) -> Error {
    let advice = "use another folder, or, if its contents are yours, remove everyone else's \
        permission to write";
    Error::new(ErrorKind::Foreign, why).at(path).advise(advice)
}

/// Why a folder is not used, if it is not.
fn refused(found: &Stat, above: Option<&Stat>, user: Option<u32>) -> Option<String> {
    if let Some(why) = not_owned(found, above, user) {
        return Some(why);
    }
    let mode = found.mode?;
    let who = match mode {
        mode if mode & OTHERS_WRITE != 0 => "everyone",
        mode if mode & GROUP_WRITES != 0 && !shares_all(found, above) => "its group",
        _ => return None,
    };
    Some(format!(
        "{who} may write to it (mode {mode:03o}), so its contents may be from anyone: it is used \
         only if its owner alone may"
    ))
}

/// Whether the group of the folder may replace it as a whole.
fn shares_all(found: &Stat, above: Option<&Stat>) -> bool {
    above.is_some_and(|above| {
        let writes = |mode: u32| mode & GROUP_WRITES != 0 && mode & STICKY == 0;
        above.group == found.group && above.mode.is_some_and(writes)
    })
}

fn not_owned(found: &Stat, above: Option<&Stat>, user: Option<u32>) -> Option<String> {
    let (owner, user) = (found.owner?, user?);
    let above = above.and_then(|above| above.owner);
    if owner == user || owner == ROOT || above == Some(owner) {
        return None;
    }
    Some(format!(
        "belongs to user {owner}, who is neither you (user {user}) nor root nor the owner of the \
         directory that it is in: nothing in it was used"
    ))
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use std::fs;

    use super::*;

    fn dir(owner: u32, group: u32, mode: u32) -> Stat {
        Stat { owner: Some(owner), group: Some(group), mode: Some(mode), ..Stat::dir((1, 1)) }
    }

    #[test]
    fn who_may_have_put_something_into_a_folder() {
        let (me, other) = (1000, 1001);
        for (found, above, why) in [
            (dir(me, me, 0o755), dir(me, me, 0o755), None),
            (dir(me, me, 0o700), dir(0, 0, 0o1777), None),
            (dir(0, 0, 0o755), dir(0, 0, 0o1777), None),
            (dir(other, other, 0o755), dir(other, other, 0o755), None),
            (dir(other, other, 0o755), dir(0, 0, 0o1777), Some("belongs to user 1001")),
            (dir(other, me, 0o700), dir(me, me, 0o777), Some("belongs to user 1001")),
            (dir(me, me, 0o777), dir(me, me, 0o755), Some("everyone may write")),
            (dir(me, me, 0o777), dir(me, me, 0o777), Some("everyone may write")),
            (dir(me, me, 0o1777), dir(0, 0, 0o755), Some("everyone may write")),
            // As with a umask of 002, where each user has a group.
            (dir(me, me, 0o775), dir(me, me, 0o775), None),
            (dir(me, 50, 0o2775), dir(0, 50, 0o2775), None),
            (dir(me, 50, 0o2775), dir(0, 50, 0o3775), Some("its group may write")),
            (dir(me, 50, 0o775), dir(me, 60, 0o775), Some("its group may write")),
            (dir(me, 50, 0o775), dir(me, 50, 0o755), Some("its group may write")),
            (dir(0, 50, 0o775), dir(0, 0, 0o755), Some("its group may write")),
        ] {
            let said = refused(&found, Some(&above), Some(me));
            match why {
                None => assert_eq!(said, None, "{found:?}"),
                Some(why) => assert!(said.as_ref().is_some_and(|s| s.contains(why)), "{said:?}"),
            }
            // Root uses what belongs to root, or to the owner of the directory.
            let owned = [Some(0), above.owner].contains(&found.owner);
            let too_open = why.is_some_and(|why| why.ends_with("may write"));
            let said = refused(&found, Some(&above), Some(0));
            assert_eq!(said.is_some(), !owned || too_open, "{found:?}: {said:?}");
        }
        // Where there are no users.
        assert_eq!(refused(&Stat::dir((1, 1)), None, None), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_is_made_for_its_owner_alone() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert!(!expect_ours(&at("a")).unwrap());
        make_ours(&at("a/b"), true).unwrap();
        make_ours(&at("a/c"), false).unwrap();
        make_ours(&at("a/b"), true).unwrap();
        assert_eq!((mode(&at("a/b")), mode(&at("a/c")) & 0o022), (0o700, 0));
        symlink("a/b", at("link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        fs::write(at("file"), "").unwrap();
        assert!(expect_ours_if_linked(&at("link")).unwrap());
        for (name, found) in [
            ("link", "a symbolic link"),
            ("dangling", "a symbolic link"),
            ("file", "a regular file"),
        ] {
            let error = expect_ours(&at(name)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Foreign);
            assert!(error.to_string().contains(found), "{error}");
        }
        assert_eq!(make_ours(&at("dangling"), true).unwrap_err().kind(), ErrorKind::Foreign);
        fs::set_permissions(at("a/b"), fs::Permissions::from_mode(0o777)).unwrap();
        for name in ["a/b", "link"] {
            let error = make_ours(&at(name), true).unwrap_err();
            assert!(error.to_string().contains("everyone may write to it (mode 777)"), "{error}");
        }
    }
}
