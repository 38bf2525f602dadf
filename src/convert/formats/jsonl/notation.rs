//! [`Lines`]: what a conversion says of lines.

use crate::convert::decoded::TextEncoding;
use crate::convert::encoding;
use crate::convert::kept_fields::KeptFields;
use crate::error::Error;
use crate::format::jsonl::keys::Notation;

/// How lines are written, and what is read of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines {
    /// Whether names that begin with `$` have no meaning.
    pub(super) plain: bool,
    /// The encoding from which they are decoded.
    pub(super) encoding: Option<TextEncoding>,
    /// The fields that the conversion needs.
    pub(super) kept: KeptFields,
}

impl Notation for Lines {
    fn is_plain(&self) -> bool {
        self.plain
    }

    fn needs(&self, name: &str) -> bool {
        self.kept.needs(name)
    }

    fn flaw(&self, line: &[u8]) -> Option<Error> {
        encoding::flaw(line, self.encoding)
    }
}
