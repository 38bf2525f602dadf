//! Views one after the other, with one numbering of their labels.

use std::borrow::Cow;
use std::sync::Arc;

use super::view::View;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::{self, Value};
use crate::reader::lengths::About;
use crate::reader::{Location, Reader, ShardedReader};
use crate::rearrange::MergedLabels;
use crate::sampler::Lengths;

/// The field whose numbers `.labels` names.
const LABEL: &str = "label";
/// Samples in which labels without names are looked for.
const LOOKED_AT: usize = 100;

pub(super) fn concat(views: &[View]) -> Result<Arc<dyn Reader>> {
    let labels: Vec<Option<Vec<String>>> =
        views.iter().map(|view| view.reader().labels()).collect::<Result<_>>()?;
    let readers = views.iter().map(|view| view.reader().clone());
    if labels.windows(2).all(|pair| pair[0] == pair[1]) {
        return Ok(Arc::new(ShardedReader::new(readers)?));
    }
    let mut merged = MergedLabels::new();
    for (view, own) in views.iter().zip(&labels) {
        match own {
            Some(own) => merged.add(own).map_err(|error| named(error, view))?,
            None => {
                expect_no_labels(view, views, &labels)?;
                merged.add::<&str>(&[])?;
            }
        }
    }
    let merged = Arc::new(merged);
    let renumbered = readers.enumerate().map(|(number, reader)| {
        let merged = merged.clone();
        Arc::new(Renumbered { reader, merged, number }) as Arc<dyn Reader>
    });
    Ok(Arc::new(ShardedReader::new(renumbered)?))
}

fn named(error: Error, view: &View) -> Error {
    Error::new(error.kind(), format!("labels of {view}: {}", error.message()))
}

/// Fails if samples have numbers for labels, which mean nothing among labels with names.
fn expect_no_labels(view: &View, views: &[View], labels: &[Option<Vec<String>>]) -> Result<()> {
    let reader = view.reader();
    for index in 0..reader.len().min(LOOKED_AT) {
        let Some(found) = reader.field(index, LABEL)? else { continue };
        if found != Value::Nil {
            let with_names = views.iter().zip(labels).find(|(_, labels)| labels.is_some());
            let other = with_names.map(|(view, _)| view.to_string()).unwrap_or_default();
            let message = format!(
                "the labels of {other} have names, but the labels of {view} have none: so a number does not mean the same"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
    }
    Ok(())
}

/// A reader whose labels have new numbers.
struct Renumbered {
    reader: Arc<dyn Reader>,
    merged: Arc<MergedLabels>,
    /// Which of the numberings is its own.
    number: usize,
}

impl Renumbered {
    fn renumber<'a>(&self, index: usize, raw: Cow<'a, [u8]>) -> Result<Cow<'a, [u8]>> {
        let at = |error: Error| self.reader.locate(index).describe(error);
        match raw {
            Cow::Borrowed(raw) => self.merged.renumber(self.number, raw).map_err(at),
            Cow::Owned(raw) => match self.merged.renumber(self.number, &raw).map_err(at)? {
                Cow::Borrowed(_) => Ok(Cow::Owned(raw)),
                Cow::Owned(changed) => Ok(Cow::Owned(changed)),
            },
        }
    }
}

impl Reader for Renumbered {
    fn len(&self) -> usize {
        self.reader.len()
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        self.reader.key(index)
    }

    fn find(&self, key: &str) -> Result<Option<usize>> {
        self.reader.find(key)
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        self.renumber(index, self.reader.get_raw(index)?)
    }

    fn find_all(&self, key: &str) -> Result<Vec<usize>> {
        self.reader.find_all(key)
    }

    fn find_keys(&self, keys: &[&str]) -> Result<Vec<Option<usize>>> {
        self.reader.find_keys(keys)
    }

    fn get_raw_many(&self, indices: &[usize]) -> Result<Vec<Cow<'_, [u8]>>> {
        let all = self.reader.get_raw_many(indices)?.into_iter().zip(indices);
        all.map(|(raw, &index)| self.renumber(index, raw)).collect()
    }

    fn contains_key(&self, key: &str) -> Result<bool> {
        self.reader.contains_key(key)
    }

    fn may_repeat_keys(&self) -> bool {
        self.reader.may_repeat_keys()
    }

    fn field_raw(&self, index: usize, name: &str) -> Result<Option<Cow<'_, [u8]>>> {
        if name != LABEL {
            return self.reader.field_raw(index, name);
        }
        let raw = self.get_raw(index)?;
        let field = msgpack::field(&raw, name).map_err(|e| self.locate(index).damaged(e))?;
        Ok(field.map(|field| Cow::Owned(field.to_vec())))
    }

    fn labels(&self) -> Result<Option<Vec<String>>> {
        Ok(Some(self.merged.names().to_vec()))
    }

    /// Not of the labels, nor of packed samples, whose labels may take more bytes.
    fn lengths(&self, column: &str) -> Result<Option<Arc<dyn Lengths>>> {
        let about = About::of(column);
        match about == About::Sample || about.is_field(|name| name == LABEL) {
            true => Ok(None),
            false => self.reader.lengths(column),
        }
    }

    fn identity(&self) -> Result<String> {
        self.reader.identity()
    }

    fn name(&self) -> Option<&std::path::Path> {
        self.reader.name()
    }

    fn locate(&self, index: usize) -> Location {
        self.reader.locate(index)
    }

    fn is_remote(&self) -> bool {
        self.reader.is_remote()
    }

    fn sample_bytes(&self) -> Option<u64> {
        self.reader.sample_bytes()
    }

    fn prefetch(&self, indices: &[usize]) {
        self.reader.prefetch(indices);
    }
}
