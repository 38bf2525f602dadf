//! The columns that a type is stored as: itself, or one for each field of a structure.

use crate::error::{Error, ErrorKind, Result};
use crate::format::chunked::names;
use crate::value::{DType, Field};

/// One column: a field that is not a structure itself, or the whole element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// The directory below `data/`, empty for that itself.
    pub(crate) path: String,
    /// The type, a structure of one field if that holds an array.
    pub(crate) dtype: DType,
    /// Where it is in an element.
    pub(crate) offset: usize,
    /// Its bytes.
    pub(crate) size: usize,
    /// The element size given to Blosc.
    pub(crate) typesize: u8,
}

/// How fields name their directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// So that no two are equal on file systems that ignore case.
    Distinct,
    /// The older spelling: capital letters as they are.
    Plain,
}

/// All columns of a type, in the order of the fields.
pub(crate) fn leaves(dtype: &DType) -> Result<Vec<Leaf>> {
    leaves_spelled(dtype, Spelling::Distinct)
}

/// All columns, in directories spelled like this.
pub(crate) fn leaves_spelled(dtype: &DType, spelling: Spelling) -> Result<Vec<Leaf>> {
    if dtype.has_objects() {
        let message = "expected a type of plain bytes, found Python objects";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let mut leaves = Vec::new();
    gather(dtype, "", 0, spelling, &mut leaves);
    if leaves.is_empty() {
        let message = format!("expected elements of at least one byte, found {dtype}");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    Ok(leaves)
}

/// Recurses as deep as types nest, which the type limits.
fn gather(dtype: &DType, path: &str, offset: usize, spelling: Spelling, leaves: &mut Vec<Leaf>) {
    if !dtype.is_struct() {
        leaves.extend(leaf(dtype.clone(), path, offset, dtype.item_size()));
        return;
    }
    let mut at = offset;
    let own: Vec<&str> = dtype.fields().iter().map(Field::name).collect();
    let dirs = match spelling {
        Spelling::Distinct => names::fields(&own),
        Spelling::Plain => own.iter().map(|name| names::field(name)).collect(),
    };
    for (field, dir) in dtype.fields().iter().zip(&dirs) {
        let size = size_of(field);
        if !field.name().is_empty() {
            let below = join(path, dir);
            if field.shape().is_empty() {
                gather(field.dtype(), &below, at, spelling, leaves);
            } else if let Ok(alone) = DType::structure([field.clone()]) {
                leaves.extend(leaf(alone, &below, at, field.dtype().item_size()));
            }
        }
        at += size;
    }
}

fn leaf(dtype: DType, path: &str, offset: usize, element: usize) -> Option<Leaf> {
    let size = dtype.item_size();
    let typesize = u8::try_from(element).unwrap_or(1).max(1);
    (size > 0).then(|| Leaf { path: path.to_owned(), dtype, offset, size, typesize })
}

/// The type exists, so its fields fit in memory.
fn size_of(field: &Field) -> usize {
    field.shape().iter().product::<usize>() * field.dtype().item_size()
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

/// A field by its names from the outside in, joined by dots: its type (a structure of one field
/// if it holds an array) and where it is in an element.
pub(crate) fn find(dtype: &DType, name: &str) -> Result<(DType, usize)> {
    // A name may have dots in it, so the longest that fits is tried first at each level.
    fn search(dtype: &DType, name: &str, offset: usize) -> Option<(DType, usize)> {
        if let Some((at, field)) = dtype.field(name) {
            let alone = match field.shape() {
                [] => field.dtype().clone(),
                _ => DType::structure([field.clone()]).ok()?,
            };
            return Some((alone, offset + at));
        }
        name.rmatch_indices('.').find_map(|(dot, _)| {
            let (at, field) = dtype.field(&name[..dot])?;
            let inner = field.dtype();
            let plain = field.shape().is_empty() && inner.is_struct();
            if plain { search(inner, &name[dot + 1..], offset + at) } else { None }
        })
    }
    search(dtype, name, 0).ok_or_else(|| {
        let fields: Vec<&str> = dtype.fields().iter().map(Field::name).collect();
        let message = format!("expected one of the fields {fields:?}, found {name:?}");
        Error::new(ErrorKind::NotFound, message)
    })
}

/// Copies one field of many elements out of them: `from` has elements of `item` bytes, `to` only
/// the `size` bytes at `offset` of each.
pub(crate) fn take_out(from: &[u8], item: usize, offset: usize, size: usize, to: &mut [u8]) {
    for (element, field) in from.chunks_exact(item).zip(to.chunks_exact_mut(size)) {
        field.copy_from_slice(&element[offset..offset + size]);
    }
}

/// The inverse of [`take_out`].
pub(crate) fn put_in(from: &[u8], item: usize, offset: usize, size: usize, to: &mut [u8]) {
    for (element, field) in to.chunks_exact_mut(item).zip(from.chunks_exact(size)) {
        element[offset..offset + size].copy_from_slice(field);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested() -> DType {
        "[('a', [('b', '<f4'), ('c.d', '|u1', (3,))]), ('', '|V1'), ('e', '<i8'), ('n', '|S0')]"
            .parse()
            .unwrap()
    }

    #[test]
    fn each_field_with_bytes_is_a_column() {
        let found: Vec<_> = leaves(&nested())
            .unwrap()
            .into_iter()
            .map(|leaf| (leaf.path, leaf.dtype.to_string(), leaf.offset, leaf.size, leaf.typesize))
            .collect();
        let expected = [
            ("a/b", "<f4", 0, 4, 4),
            ("a/c%2Ed", "[('c.d', '|u1', (3,))]", 4, 3, 1),
            ("e", "<i8", 8, 8, 8),
        ];
        let expected = expected.map(|(p, d, o, s, t)| (p.to_string(), d.to_string(), o, s, t));
        assert_eq!(found, expected);
        let plain = leaves(&"<f8".parse().unwrap()).unwrap();
        assert_eq!((plain.len(), &*plain[0].path, plain[0].size), (1, "", 8));
    }

    #[test]
    fn columns_are_told_apart_without_case() {
        let dtype = "[('x', '<f4'), ('X', [('b', '<f4'), ('B', '<i8')]), ('Y', '|u1')]";
        let paths = |spelling| -> Vec<String> {
            let leaves = leaves_spelled(&dtype.parse().unwrap(), spelling).unwrap();
            leaves.into_iter().map(|leaf| leaf.path).collect()
        };
        assert_eq!(paths(Spelling::Distinct), ["x", "%58/b", "%58/%42", "Y"]);
        assert_eq!(paths(Spelling::Plain), ["x", "X/b", "X/B", "Y"]);
    }

    #[test]
    fn fields_are_found_by_their_path() {
        let dtype = nested();
        let find = |name: &str| find(&dtype, name).map(|(dtype, at)| (dtype.to_string(), at));
        assert_eq!(find("a.b").unwrap(), ("<f4".to_string(), 0));
        assert_eq!(find("a.c.d").unwrap(), ("[('c.d', '|u1', (3,))]".to_string(), 4));
        assert_eq!(find("e").unwrap(), ("<i8".to_string(), 8));
        assert_eq!(find("a").unwrap().1, 0);
        for absent in ["", "b", "a.", "a.x", "e.x", "a.c.d.x"] {
            assert_eq!(find(absent).unwrap_err().kind(), ErrorKind::NotFound, "{absent}");
        }
    }

    #[test]
    fn what_has_no_bytes_to_store_is_refused() {
        for dtype in ["|S0", "|O", "[('a', '|V0')]", "[('a', '|O'), ('b', '<f4')]"] {
            let error = leaves(&dtype.parse().unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{dtype}");
        }
    }
}
