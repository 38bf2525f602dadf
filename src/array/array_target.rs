//! [`ArrayTarget`]: an array, a field of it, or a part of these, in text.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::array::chunked::ChunkedArray;
use crate::array::selection::{Selection, invalid};
use crate::error::{Error, Result};

/// An array, or a part of it, as NumPy writes it: `NAME`, `NAME[...]`, and of an array of structures
/// `NAME["field"]` or `NAME["field"][...]`.
///
/// If there is a file whose name ends with a bracket, it is meant.
///
/// ```
/// use kiste::array::ArrayTarget;
///
/// let target: ArrayTarget = "grids/x[0:10, ::2]".parse()?;
/// assert_eq!(target.path, std::path::Path::new("grids/x"));
/// assert_eq!(target.selection, "0:10, ::2".parse()?);
/// let target: ArrayTarget = "people['age'][-1]".parse()?;
/// assert_eq!(target.field.as_deref(), Some("age"));
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ArrayTarget {
    /// The directory of the array.
    pub path: PathBuf,
    /// The field of a structured type; names of nested fields are joined by dots.
    pub field: Option<String>,
    /// The selected part.
    pub selection: Selection,
}

impl ArrayTarget {
    /// The array, or the array of the field. See [`ChunkedArray::column`].
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) if there is no such field.
    pub fn array(&self, array: &ChunkedArray) -> Result<ChunkedArray> {
        match &self.field {
            Some(field) => array.column(field),
            None => Ok(array.clone()),
        }
    }
}

impl FromStr for ArrayTarget {
    type Err = Error;

    fn from_str(text: &str) -> Result<ArrayTarget> {
        let of =
            |path: &str, field, selection| Ok(ArrayTarget { path: path.into(), field, selection });
        let split = text.strip_suffix(']').and_then(|inside| inside.split_once('['));
        let (name, inside) = match split {
            Some(split) if !Path::new(text).exists() => split,
            _ => return of(text, None, Selection::all()),
        };
        if name.is_empty() {
            return Err(invalid("expected NAME before the brackets"));
        }
        let Some(quote) = inside.trim_start().chars().next().filter(|c| "\"'".contains(*c)) else {
            return of(name, None, inside.parse()?);
        };
        let wrong =
            || invalid(format!("expected a field in quotes, as in [\"id\"], found [{inside}]"));
        let quoted = &inside.trim_start()[1..];
        let (field, rest) = quoted.split_once(quote).ok_or_else(wrong)?;
        let selection = match rest.trim() {
            "" => Selection::all(),
            rest => {
                let rest = rest.strip_prefix(']').map(str::trim_start);
                rest.and_then(|rest| rest.strip_prefix('[')).ok_or_else(wrong)?.parse()?
            }
        };
        of(name, Some(field.to_owned()), selection)
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

    #[test]
    fn quotes_hold_a_field() {
        for (text, field, selection) in [
            ("x[\"id\"]", "id", "..."),
            ("x['id']", "id", "..."),
            ("x['at.x'][0:10, -1]", "at.x", "0:10, -1"),
            ("x['it\"s']", "it\"s", "..."),
            ("x[\"a]b\"][[1, 2]]", "a]b", "[1, 2]"),
            ("x[ 'id' ] [ 3 ]", "id", "3"),
        ] {
            let target: ArrayTarget = text.parse().unwrap();
            assert_eq!(
                (target.path.as_path(), target.field.as_deref()),
                (Path::new("x"), Some(field))
            );
            let expected = match selection {
                "..." => Selection::all(),
                some => some.parse().unwrap(),
            };
            assert_eq!(target.selection, expected, "{text}");
        }
        for wrong in ["x['id]", "x['id'", "x['id'][1", "x['id'] 3]", "x['id', 3]", "x[3]['id']"] {
            let parsed = wrong.parse::<ArrayTarget>();
            assert!(parsed.is_err() || parsed.is_ok_and(|t| t.field.is_none()), "{wrong}");
        }
    }
}
