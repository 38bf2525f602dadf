//! The keys that a file of lines or a dataset has.

use std::path::Path;

use super::made::LeftOut;
use super::open::{ViewOptions, is_recipe};
use super::view::View;
use crate::error::{Error, ErrorKind, Result};
use crate::format::hex;
use crate::format::md5::Md5;
use crate::reader::{Reader, Selection};

/// Keys that are looked up together.
const TOGETHER: usize = 1024;

/// Keys, and a text that tells them from others.
pub(super) struct Keys {
    pub(super) keys: Vec<String>,
    pub(super) told_by: String,
}

/// Whether keys are those of a dataset or a recipe, and not lines.
pub(super) fn is_dataset(name: &Path) -> bool {
    let is_data = || name.extension().is_some_and(|ending| ending == "msgpack");
    is_data() || crate::dataset::names_shards(name) || is_recipe(name)
}

impl Keys {
    /// The keys of a view.
    pub(super) fn of(view: &View) -> Result<Keys> {
        let reader = view.reader();
        let keys = (0..reader.len()).map(|index| Ok(reader.key(index)?.into_owned()));
        Ok(Keys { keys: keys.collect::<Result<_>>()?, told_by: view.lineage()?.to_owned() })
    }

    /// The lines of a file.
    pub(super) fn read(name: &Path, options: ViewOptions) -> Result<Keys> {
        let (storage, place) = options.storage(name)?;
        let file = storage.open(&place)?;
        let bytes = file.read(0..file.len())?;
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let message = format!(
                "expected keys as lines of text, found bytes that are no UTF-8 at {}",
                error.valid_up_to()
            );
            Error::new(ErrorKind::Damaged, message).at(&place)
        })?;
        let mut md5 = Md5::new();
        md5.update(&bytes);
        let lines = text.strip_prefix('\u{feff}').unwrap_or(text).lines();
        let keys = lines.filter(|line| !line.is_empty()).map(str::to_owned).collect();
        Ok(Keys { keys, told_by: format!("lines:{}", hex(&md5.finish())) })
    }
}

/// The samples whose keys are among these, or all others.
pub(super) fn choose(view: &View, keys: &[String], keep: bool) -> Result<(Selection, LeftOut)> {
    let reader = view.reader();
    let (mut named, mut unknown) = (Vec::new(), 0);
    for some in keys.chunks(TOGETHER) {
        let asked: Vec<&str> = some.iter().map(String::as_str).collect();
        for (key, found) in some.iter().zip(reader.find_keys(&asked)?) {
            match found {
                None => unknown += 1,
                Some(_) if reader.may_repeat_keys() => named.extend(reader.find_all(key)?),
                Some(index) => named.push(index),
            }
        }
    }
    named.sort_unstable();
    named.dedup();
    let len = reader.len();
    let selection = match keep {
        true => Selection::new(len, named)?,
        false => {
            let mut out = named.into_iter().peekable();
            Selection::new(len, (0..len).filter(move |index| out.next_if_eq(index).is_none()))?
        }
    };
    let step = if keep { "keep_keys" } else { "drop_keys" };
    let left_out =
        LeftOut { unknown_keys: unknown, ..LeftOut::samples(step, len - selection.len()) };
    Ok((selection, left_out))
}
