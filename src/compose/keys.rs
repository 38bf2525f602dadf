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

/// The samples whose keys are among these, or all others. `step` is what it is called.
pub(super) fn choose<K: AsRef<str>>(
    view: &View,
    keys: &[K],
    keep: bool,
    step: &str,
) -> Result<(Selection, LeftOut)> {
    let reader = view.reader();
    let (mut named, mut unknown) = (Vec::new(), 0);
    for some in keys.chunks(TOGETHER) {
        let asked: Vec<&str> = some.iter().map(AsRef::as_ref).collect();
        for (key, found) in asked.iter().zip(reader.find_keys(&asked)?) {
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
        false => Selection::all_but(len, &named),
    };
    let left_out =
        LeftOut { unknown_keys: unknown, ..LeftOut::samples(step, len - selection.len()) };
    Ok((selection, left_out))
}
