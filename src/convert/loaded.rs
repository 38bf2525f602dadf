//! [`LoadFiles`]: fields that name files become the contents of these files.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::changed::Change;
use super::source_file;
use crate::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::{self, Cursor, Kind, sample};
use crate::regular;
use crate::storage::{self, Confined};

/// The most bytes of all files in a sample, unless another limit is given.
const MAX_BYTES: u64 = 1 << 30;

/// In front of the name of a field with the path of a file, for the key of the sample. `Reshape` takes these fields
/// away.
pub(super) const PATH: &str = "\0path ";

/// Fields of samples are names of files, one or a list of them, and become their bytes.
pub(super) struct LoadFiles {
    pub(super) fields: Vec<String>,
    /// Fields whose paths are needed for the key.
    pub(super) in_key: Vec<String>,
    /// The folder of the files. `None` for the folder of the table.
    pub(super) root: Option<PathBuf>,
    /// The table, if it is a stream.
    pub(super) stream: PathBuf,
    pub(super) outside: bool,
    pub(super) max_bytes: Option<u64>,
}

impl Change for LoadFiles {
    type Place = Confined;

    const GROWS: bool = true;

    fn place(&self, file: Option<&Path>) -> Confined {
        let place = match &self.root {
            Some(root) => Confined::to(root),
            None => Confined::next_to(file.unwrap_or(&self.stream)),
        };
        place.allow_outside(self.outside)
    }

    fn change(&self, place: &Confined, packed: Vec<u8>) -> Result<Vec<u8>> {
        match self.load(place, &packed) {
            Ok(Cow::Owned(loaded)) => Ok(loaded),
            Ok(Cow::Borrowed(_)) => Ok(packed),
            Err(error) => Err(error.with_raw(packed)),
        }
    }
}

impl LoadFiles {
    fn load<'a>(&self, place: &Confined, packed: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        let key = msgpack::check_sample(packed)?;
        let mut fields: Vec<(Cow<'_, str>, Cow<'_, [u8]>)> = Vec::new();
        let mut is_changed = false;
        let mut left = self.max_bytes.unwrap_or(MAX_BYTES);
        for field in sample::fields(packed)? {
            let (name, value) = field?;
            let name = Cursor::new(name).read_str()?;
            if name == sample::KEY {
                continue;
            }
            if name.starts_with(PATH) {
                let message = format!("expected the name of another field, found {name:?}");
                return Err(Error::new(ErrorKind::Invalid, message).with_key(key));
            }
            if !self.fields.iter().any(|field| field == name) {
                fields.push((name.into(), value.into()));
                continue;
            }
            let mut out = Vec::new();
            self.write(place, &mut Cursor::new(value), &mut left, &mut out)
                .map_err(|error| error.with_key(key).with_field(name))?;
            is_changed = true;
            fields.push((name.into(), out.into()));
            if self.in_key.iter().any(|field| field == name) {
                fields.push((format!("{PATH}{name}").into(), value.into()));
            }
        }
        match is_changed {
            true => super::reshape::pack(key, &fields).map(Cow::Owned),
            false => Ok(Cow::Borrowed(packed)),
        }
    }

    /// Writes the contents of the file, or of each in a list. The sample may have `left` more bytes.
    fn write(
        &self,
        place: &Confined,
        path: &mut Cursor<'_>,
        left: &mut u64,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match path.peek()? {
            Kind::Nil => {
                path.read_nil()?;
                Ok(msgpack::encode(&Value::Nil, out)?)
            }
            Kind::Str => self.write_file(place, path.read_str()?, left, out),
            Kind::Array => {
                let len = path.read_array_len()?;
                msgpack::write_list(len as usize, out)?;
                for _ in 0..len {
                    match path.peek()? {
                        Kind::Str => self.write_file(place, path.read_str()?, left, out)?,
                        _ => return Err(no_path("a list with other values")),
                    }
                }
                Ok(())
            }
            Kind::Bin => Err(no_path("bytes, which may be its contents already")),
            _ => Err(no_path("another value")),
        }
    }

    fn write_file(
        &self,
        place: &Confined,
        name: &str,
        left: &mut u64,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if name.is_empty() {
            return Err(no_path("empty text"));
        }
        let path = place.path(name)?;
        let content = check_is_file(&path).and_then(|()| {
            source_file::read_whole(&path, *left, |len| {
                *left -= len as u64;
                msgpack::write_bin_len(len, out)?;
                Ok(std::mem::take(out))
            })
        });
        *out = content.map_err(|error| error.shown_at(storage::shown(&place.join(name))))?;
        Ok(())
    }
}

/// Fails for a folder or a pipe, which the data name: so it is bad input.
fn check_is_file(path: &Path) -> Result<()> {
    match path.metadata() {
        Ok(found) if !found.is_file() && !storage::is_url(path) => {
            let found = regular::name_of(found.file_type());
            let message = format!("expected a regular file, found {found}");
            Err(Error::new(ErrorKind::Invalid, message))
        }
        _ => Ok(()),
    }
}

fn no_path(found: &str) -> Error {
    let message = format!("expected the path of a file, or a list of paths, found {found}");
    Error::new(ErrorKind::Invalid, message)
}
