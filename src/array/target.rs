//! [`ArrayTarget`]: an array, or a part of it, in text.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::array::selection::Selection;
use crate::error::{Error, ErrorKind, Result};

/// An array, or a part of it: `NAME` or `NAME[...]`, with a selection as in NumPy.
///
/// If there is a file whose name ends with a bracket, it is meant.
///
/// ```
/// use kiste::array::ArrayTarget;
///
/// let target: ArrayTarget = "grids/x[0:10, ::2]".parse()?;
/// assert_eq!(target.path, std::path::Path::new("grids/x"));
/// assert_eq!(target.selection, "0:10, ::2".parse()?);
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ArrayTarget {
    /// The directory of the array.
    pub path: PathBuf,
    /// What is selected of it.
    pub selection: Selection,
}

impl FromStr for ArrayTarget {
    type Err = Error;

    fn from_str(text: &str) -> Result<ArrayTarget> {
        let whole = || Ok(ArrayTarget { path: text.into(), selection: Selection::all() });
        let Some(inside) = text.strip_suffix(']') else { return whole() };
        let Some((name, inside)) = inside.split_once('[') else { return whole() };
        if Path::new(text).exists() {
            return whole();
        }
        if name.is_empty() {
            let message = "expected NAME before the brackets";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(ArrayTarget { path: name.into(), selection: inside.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_hold_a_selection() {
        let parse = |text: &str| text.parse::<ArrayTarget>();
        let target = parse("a/x[0:10, ::2, -1, ...]").unwrap();
        assert_eq!(target.path, Path::new("a/x"));
        assert_eq!(target.selection, "0:10, ::2, -1, ...".parse().unwrap());
        let points = parse("x[[3, 1], :]").unwrap();
        assert_eq!(points.selection, "[3, 1], :".parse().unwrap());
        let whole = |target: ArrayTarget| target.selection == Selection::all();
        assert!(parse("x").is_ok_and(whole) && parse("x[]").is_ok_and(whole));
        for wrong in ["[1]", "x[a]", "x[1:2:3:4]", "x[[1]"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
