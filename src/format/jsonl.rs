//! Samples as JSON lines: one value per line, readable by people and `jq`, and back without loss.
//!
//! | JSON | value |
//! | --- | --- |
//! | `null`, `true`, `false`, `"text"`, `[..]` | nil, boolean, string, array |
//! | a number with neither `.` nor exponent | integer |
//! | a number with `.` or exponent | float of 64 bits; 32-bit floats are widened |
//! | `{"$f": "7ff8000000000000"}` | float given by its bits: NaN and infinities |
//! | `NaN`, `Infinity`, `-Infinity` | the same, as Python's `json` writes them: only read |
//! | `{"name": .., ..}` | map whose keys are distinct strings, none beginning with `$` |
//! | `{"$map": [[key, value], ..]}` | any map |
//! | `{"$bin": "base64"}` | binary data |
//! | `{"$nd": {"dtype": .., "shape": [..], "data": "base64"}}` | NumPy array |
//! | `{"$np": {"dtype": "<f4", "data": "base64"}}` | NumPy scalar |
//! | `{"$c": ["hex of real", "hex of imaginary"]}` | Python's complex, by the bits of its parts |
//! | `{"$ext": [code, "base64"]}` | extension |
//! | `{"$ts": [seconds, nanoseconds]}` | timestamp |
//!
//! Maps keep their order. `$nd`, `$np`, `$c` and `$ts` are used only for what is packed in the
//! canonical way (see [`numpy`](super::msgpack::numpy) and
//! [`timestamp`](super::msgpack::timestamp)); everything else is written as a plain map or
//! extension. So [`parse`] returns exactly what was passed to [`write()`], down to the bits of a
//! NaN; only the width of 32-bit floats is lost. Objects with any other name that begins with `$`
//! are refused, which leaves room for extensions.
//!
//! [`parse_plain`] reads JSON of other programs, in which `$` has no meaning. [`write_python`] writes
//! NaN and infinities as Python's `json` does, for files that Python reads.
//!
//! [`write_short`] is for display and cannot be read back.

pub(crate) mod array;
pub(crate) mod lines;
mod read;
pub(crate) mod keys;
mod bytes;
mod short;
mod write;

#[cfg(test)]
mod tests;

#[cfg(feature = "convert")]
pub(crate) use read::parse_members;
pub use read::{parse, parse_plain};
pub use short::{to_words, write_short};
pub use write::{write, write_python};
