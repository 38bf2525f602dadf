//! [`ArrayPlace`]: what is where an array is expected.

use std::path::Path;

use crate::array::exchange::ArrayFormat;
use crate::format::chunked::names;

/// The kind of thing found where the directory of an array is expected, for an error message.
///
/// ```
/// use kiste::array::{ArrayFormat, ArrayPlace};
///
/// # let dir = tempfile::tempdir()?;
/// let place = |name: &str| ArrayPlace::of(dir.path().join(name));
/// std::fs::write(dir.path().join("x.npy"), "")?;
/// assert_eq!(place("x.npy"), ArrayPlace::Exchange(ArrayFormat::Npy));
/// assert_eq!(place("y"), ArrayPlace::Nothing);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArrayPlace {
    /// Nothing.
    Nothing,
    /// An array with versions.
    Array,
    /// An array whose creation was cut short: it has no version.
    Uncommitted,
    /// A directory of something else.
    Directory,
    /// A file that can be [imported](crate::array::ArrayImport).
    Exchange(ArrayFormat),
    /// Another file.
    File,
}

impl ArrayPlace {
    /// Looks at this path.
    pub fn of(path: impl AsRef<Path>) -> ArrayPlace {
        let path = path.as_ref();
        let versions = path.join(names::VERSIONS);
        match ArrayFormat::of_path(path) {
            _ if versions.is_dir() => match versions.read_dir().map(|mut files| files.next()) {
                Ok(None) => ArrayPlace::Uncommitted,
                _ => ArrayPlace::Array,
            },
            _ if path.is_dir() => ArrayPlace::Directory,
            _ if !path.exists() => ArrayPlace::Nothing,
            Some(format) => ArrayPlace::Exchange(format),
            None => ArrayPlace::File,
        }
    }
}
