//! Tables of Arrow: what the columns of a schema become, samples of batches of rows, and messages of Arrow IPC.
//!
//! [`form`] decides what columns become, [`lacks`] what fields do not carry of them, and [`rows`] makes
//! samples. [`messages`] finds the batches in a file or stream, and decodes one of them by its own bytes.
//!
//! The bytes are decoded by the Arrow crates, which trust some lengths that they should not. So
//! these are checked first ([`limits`]), and a panic is an error like any other ([`decoder`]).
//!
//! Absent on purpose: files. What a row has only the path of, the caller reads.

pub(crate) mod decoder;
pub(crate) mod form;
pub(crate) mod lacks;
pub(crate) mod limits;
pub(crate) mod rows;
pub(crate) mod messages;
