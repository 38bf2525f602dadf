//! The fields of a sample.

use std::slice;

use super::encoding::{Decoded, Encoding, RawImage};
use super::index::Column;
use super::shard::Cells;
use crate::Value;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::sample_fields::{Field, Fields};

/// A fact about the values of a column that their field does not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fact<'a> {
    /// The bytes of an image, which were not looked at.
    Image(&'a [u8]),
    /// A decimal number is a string.
    Decimal,
    /// This many images of raw pixels stay as they are, as PNG has no place for their mode.
    RawImages(u64),
}

/// The fields of a sample, in the order of the columns. Where its JSON is in our `notation`, values are as
/// they were. Columns that `keeps` refuses are left out, and `unread` ones are nil. `note` gets facts
/// about the columns.
pub(crate) fn fields<'a>(
    columns: &'a [Column],
    cells: Cells<'a>,
    notation: bool,
    keeps: &dyn Fn(&Column) -> bool,
    unread: &dyn Fn(&Column) -> bool,
    note: &dyn Fn(&Column, Fact<'_>),
) -> Result<Fields<'a>> {
    let mut fields: Fields<'_> = Vec::with_capacity(cells.len());
    for (column, (bytes, range)) in columns.iter().zip(cells) {
        let field = if unread(column) {
            Field::Value(Value::Nil)
        } else if keeps(column) {
            let decoded = column.encoding.decode_as(bytes, notation).map_err(|error| {
                let error = error.behind(range.start as u64);
                Error::new(ErrorKind::Damaged, format!("column {:?}: {error}", column.name))
            })?;
            field(&column.encoding, decoded, &|fact| note(column, fact))
        } else {
            continue;
        };
        fields.push((column.name.as_str().into(), field));
    }
    Ok(fields)
}

fn field<'a>(encoding: &Encoding, decoded: Decoded<'a>, note: &dyn Fn(Fact<'_>)) -> Field<'a> {
    let is_raw = matches!(encoding, Encoding::Image("pil") | Encoding::Images("list[pil]"));
    let images: &[&[u8]] = match &decoded {
        _ if is_raw => &[],
        Decoded::Bytes(bytes) if matches!(encoding, Encoding::Image(_)) => slice::from_ref(bytes),
        Decoded::List(images) => images,
        _ => &[],
    };
    images.iter().for_each(|image| note(Fact::Image(image)));
    let mut raw = 0;
    let mut file = |bytes: &'a [u8]| match RawImage::parse(bytes).and_then(RawImage::to_png) {
        Some(png) => Value::from(png),
        None => {
            raw += 1;
            Value::from(bytes)
        }
    };
    let field = match decoded {
        Decoded::Bytes(bytes) if is_raw => Field::Value(file(bytes)),
        Decoded::Bytes(bytes) => Field::Bytes(bytes),
        Decoded::Value(value) => Field::Value(value),
        Decoded::Scalar(array) => Field::Scalar(array),
        Decoded::Array(array) => Field::Array(array),
        Decoded::List(items) if is_raw => {
            Field::Value(Value::Array(items.into_iter().map(file).collect()))
        }
        Decoded::List(items) => {
            Field::Value(Value::Array(items.into_iter().map(Value::from).collect()))
        }
    };
    if *encoding == Encoding::TextDecimal {
        note(Fact::Decimal);
    }
    if raw > 0 {
        note(Fact::RawImages(raw));
    }
    field
}

/// Fails if a column that is read holds pickles.
pub(crate) fn check_pickles(
    columns: &[Column],
    keeps: &dyn Fn(&Column) -> bool,
    unread: &dyn Fn(&Column) -> bool,
) -> Result<()> {
    let pickles =
        |column: &&Column| column.encoding == Encoding::Pickle && keeps(column) && !unread(column);
    match columns.iter().find(pickles) {
        Some(Column { name, .. }) => {
            let message =
                format!("column {name:?} holds pickles, which are programs and never run");
            let error = Error::new(ErrorKind::Unsupported, message);
            Err(error.with_remedy(Remedy::DropField(name.clone())))
        }
        None => Ok(()),
    }
}

/// The key of the sample with this number in a shard.
pub(crate) fn numbered_key(shard: &str, index: usize) -> String {
    format!("{shard}/{index:06}")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::super::shard::sample_cells;
    use super::*;

    fn columns(columns: &[(&str, &str)]) -> Vec<Column> {
        let column = |&(name, encoding): &(&str, &str)| {
            Column::new(name, Encoding::parse(encoding).unwrap())
        };
        columns.iter().map(column).collect()
    }

    #[test]
    fn one_sample_by_its_own_bytes() {
        let columns = columns(&[("a", "str"), ("n", "int"), ("d", "str_decimal"), ("i", "pil")]);
        let raw = [&[1, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0][..], b"CMYK", &[0; 4]].concat();
        let mut sample = Vec::new();
        for len in [2, 3, raw.len() as u32] {
            sample.extend_from_slice(&len.to_le_bytes());
        }
        sample.extend_from_slice(b"ab");
        sample.extend_from_slice(&(-7i64).to_le_bytes());
        sample.extend_from_slice(b"0.5");
        sample.extend_from_slice(&raw);
        let bytes = [&sample[..], b"the next one"].concat();

        let (cells, len) = sample_cells(&columns, &bytes).unwrap();
        assert_eq!((len, &cells[0]), (sample.len(), &(&b"ab"[..], 12..14)));
        for end in 0..len {
            assert!(sample_cells(&columns, &bytes[..end]).is_err(), "{end}");
        }
        let notes = RefCell::new(Vec::new());
        let note = |column: &Column, fact: Fact<'_>| {
            notes.borrow_mut().push(match fact {
                Fact::RawImages(count) => format!("{} {count}", column.name),
                fact => format!("{} {fact:?}", column.name),
            });
        };
        let (keeps, unread) = (|column: &Column| column.name != "n", |_: &Column| false);
        let found = fields(&columns, cells.clone(), false, &keeps, &unread, &note).unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["a", "d", "i"]);
        assert!(matches!(&found[1].1, Field::Value(value) if *value == "0.5".into()));
        assert_eq!(*notes.borrow(), ["d Decimal", "i 1"]);

        let unread = |column: &Column| column.name != "n";
        let found = fields(&columns, cells, false, &|_| true, &unread, &note).unwrap();
        assert!(matches!(found[0].1, Field::Value(Value::Nil)) && found.len() == 4);
        assert_eq!(notes.borrow().len(), 2, "what is not read has nothing to note");
        assert_eq!(numbered_key("shard.00000", 7), "shard.00000/000007");
    }

    #[test]
    fn an_error_names_the_column_and_its_place() {
        let columns = columns(&[("n", "int"), ("t", "str"), ("p", "pkl")]);
        let sample = [&[1, 0, 0, 0, 0, 0, 0, 0][..], &[0; 8], b"\xff"].concat();
        let (cells, _) = sample_cells(&columns, &sample).unwrap();
        let (all, none) = (|_: &Column| true, |_: &Column| false);
        let error = fields(&columns, cells, false, &all, &none, &|_, _| {}).err().unwrap();
        let message = "column \"t\": byte 16: expected UTF-8, found 1 other bytes";
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Damaged, message.to_owned()));

        let error = check_pickles(&columns, &all, &none).unwrap_err();
        assert_eq!(error.remedy(), Some(&Remedy::DropField("p".to_owned())));
        assert!(check_pickles(&columns, &|column| column.name != "p", &none).is_ok());
        assert!(check_pickles(&columns, &all, &all).is_ok());
    }
}
