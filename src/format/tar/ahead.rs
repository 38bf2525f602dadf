//! [`Ahead`]: what headers say of the next file, and which entries are refused.

use super::entries::Entry;
use super::{BLOCK, Header, Kind, pax_records};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::FormatError;

/// The most bytes of a long name, or of the records, before an entry.
const MAX_EXTRA: u64 = 1 << 20;

/// The prefix of our own records' names.
const OWN: &str = "KISTE.";

/// Names and values of our own records.
pub(crate) type Records = Vec<(String, String)>;

/// Headers before an entry that describe it.
pub(super) struct Ahead {
    /// Where the first of them begins.
    start: u64,
    name: Option<Vec<u8>>,
    size: Option<u64>,
    records: Records,
}

/// What comes after a header.
pub(super) enum Next {
    /// The bytes of a file, or those of a refused entry.
    Entry(Entry, Option<Error>),
    /// The name of the next entry, of this many bytes.
    LongName(u64),
    /// Records about the next entry, of this many bytes.
    Pax(u64),
    /// Records about the whole archive, of this many bytes.
    GlobalPax(u64),
    /// This many bytes without a meaning.
    Skip(u64),
}

impl Ahead {
    /// Before the headers that begin at this position.
    pub(super) fn new(start: u64) -> Ahead {
        Ahead { start, name: None, size: None, records: Records::new() }
    }

    /// What comes after this header, at this position.
    pub(super) fn header(&mut self, header: Header, position: u64, max_bytes: u64) -> Result<Next> {
        let extra = |next: fn(u64) -> Next| match header.size > MAX_EXTRA {
            true => {
                let message = format!("expected at most {MAX_EXTRA} bytes, found {}", header.size);
                Err(error(ErrorKind::Limit, position, "(name)", &message))
            }
            false => Ok(next(header.size)),
        };
        Ok(match header.kind {
            Kind::File => {
                let size = self.size.unwrap_or(header.size);
                let raw = self.name.take().unwrap_or(header.name);
                let name = lossy(&raw);
                let flaw = check(raw, size, self.start, max_bytes).err();
                Next::Entry(self.entry(name, size), flaw)
            }
            Kind::LongName => extra(Next::LongName)?,
            Kind::Pax => extra(Next::Pax)?,
            // Those of other programs may be longer, and do not matter.
            Kind::GlobalPax if header.size <= MAX_EXTRA => Next::GlobalPax(header.size),
            Kind::Directory | Kind::GlobalPax => Next::Skip(header.size),
            Kind::Special(code) | Kind::Other(code) => {
                let what = match code {
                    b'1' | b'2' => "a link".to_owned(),
                    b'3' | b'4' | b'6' => "a device".to_owned(),
                    b'S' => "a sparse file".to_owned(),
                    code => format!("an entry of type {:?}", char::from(code)),
                };
                let name = lossy(&self.name.take().unwrap_or(header.name));
                let message = format!("expected files and directories, found {what}");
                let flaw = error(ErrorKind::Unsupported, self.start, &name, &message);
                self.records.clear();
                Next::Entry(self.entry(name, header.size), Some(flaw))
            }
        })
    }

    fn entry(&mut self, name: String, size: u64) -> Entry {
        Entry { start: self.start, name, size, records: std::mem::take(&mut self.records) }
    }

    /// Adds the name of the next entry.
    pub(super) fn long_name(&mut self, content: &[u8]) {
        let name = content.split(|&byte| byte == 0).next().unwrap_or_default();
        self.name = Some(name.to_vec());
    }

    /// Adds records about the next entry.
    pub(super) fn pax(&mut self, content: &[u8]) -> Result<()> {
        let begin = self.begin();
        for (name, value) in pax_records(content).map_err(|error| error.behind(begin))? {
            match name {
                b"path" => self.name = Some(value.to_vec()),
                b"size" => {
                    let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                    let flaw = || FormatError::new(begin, "a size in digits", "something else");
                    self.size = Some(number.ok_or_else(flaw)?);
                }
                name if name.starts_with(b"GNU.sparse.") => {
                    let message = "expected files and directories, found a sparse file";
                    return Err(error(ErrorKind::Unsupported, self.start, "(records)", message));
                }
                _ => self.records.extend(own(name, value)),
            }
        }
        Ok(())
    }

    /// Sets our own records about the whole archive and where their entry begins, if these are some. They are
    /// empty if they are damaged.
    pub(super) fn global_pax(
        &self,
        content: &[u8],
        global: &mut Option<(u64, Records)>,
    ) -> Result<()> {
        let own_name = |bytes: &[u8]| bytes == OWN.as_bytes();
        let records = match pax_records(content) {
            Ok(records) => records,
            // Ours say what files are called, so they must be whole.
            Err(error) if content.windows(OWN.len()).any(own_name) => {
                *global = Some((self.start, Records::new()));
                return Err(error.behind(self.begin()).into());
            }
            Err(_) => Vec::new(),
        };
        let own: Records =
            records.into_iter().filter_map(|(name, value)| own(name, value)).collect();
        if !own.is_empty() {
            *global = Some((self.start, own));
        }
        Ok(())
    }

    /// Where the content of the first header begins.
    fn begin(&self) -> u64 {
        self.start.saturating_add(BLOCK as u64)
    }
}

/// Fails unless the name and the size of a file are acceptable.
fn check(name: Vec<u8>, size: u64, start: u64, max_bytes: u64) -> Result<()> {
    let name = check_name(name, start)?;
    if size > max_bytes {
        let message = format!("expected at most {max_bytes} bytes, found {size}");
        let error = error(ErrorKind::Limit, start, &name, &message);
        return Err(error.with_remedy(Remedy::RaiseLimit("max_bytes")));
    }
    Ok(())
}

/// A name in UTF-8 that does not lead out of the archive.
fn check_name(name: Vec<u8>, start: u64) -> Result<String> {
    let name = String::from_utf8(name).map_err(|flaw| {
        let name = lossy(flaw.as_bytes());
        error(ErrorKind::Invalid, start, &name, "the name is not UTF-8")
    })?;
    if name.contains('\0') {
        return Err(error(ErrorKind::Invalid, start, &name, "the name contains a zero byte"));
    }
    if name.starts_with('/') || name.split('/').any(|part| part == "..") {
        let message = "expected a relative name without \"..\", found another";
        return Err(error(ErrorKind::Invalid, start, &name, message));
    }
    Ok(name)
}

fn error(kind: ErrorKind, start: u64, name: &str, message: &str) -> Error {
    Error::new(kind, format!("entry {name:?} at byte {start}: {message}"))
}

/// A record of ours.
fn own(name: &[u8], value: &[u8]) -> Option<(String, String)> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    Some((text(name).filter(|name| name.starts_with(OWN))?, text(value)?))
}

/// A name for messages.
fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
