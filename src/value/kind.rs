//! The kinds of array elements, apart from their size and byte order.

/// The kind of the elements of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DTypeKind {
    /// True or false, in a byte.
    Bool,
    /// Integers with a sign, of 1, 2, 4 or 8 bytes.
    Int,
    /// Integers without a sign, of 1, 2, 4 or 8 bytes.
    UInt,
    /// Floats of 2, 4 or 8 bytes, or the long double of C in 12 or 16.
    Float,
    /// Two floats: real and imaginary part.
    Complex,
    /// A point in time, `datetime64`: how many [units](super::TimeUnit) after 1970.
    DateTime,
    /// A span of time, `timedelta64`: how many [units](super::TimeUnit).
    TimeDelta,
    /// Byte strings of one length, `S`. Shorter ones end with zeros.
    Bytes,
    /// Text of a fixed number of characters, `U`, four bytes each. Shorter strings end with zeros.
    Text,
    /// Opaque bytes, `V`.
    Void,
    /// Several named fields one after another.
    Struct,
    /// Python objects. Their arrays are passed through and never decoded.
    Object,
}
