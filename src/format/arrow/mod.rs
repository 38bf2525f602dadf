//! Tables of Arrow: what the columns of a schema become, samples of batches of rows, columns of samples, and messages of
//! Arrow IPC.
//!
//! [`form`] decides what columns become, [`lacks`] what fields do not carry of them, and [`rows`] makes
//! samples. [`messages`] finds the batches in a file or stream, and decodes one of them by its own bytes.
//! The other way, [`kinds`] and [`fields`] find the types of fields, and [`columns`] collects the values of one, where
//! [`views`] point to bytes that stay where they are.
//!
//! The bytes are decoded by the Arrow crates, which trust some lengths that they should not. So
//! these are checked first ([`limits`]), and a panic is an error like any other ([`decoder`]).
//!
//! Absent on purpose: files. What a row has only the path of, the caller reads.

#![cfg_attr(
    not(all(feature = "convert", feature = "parquet")),
    allow(dead_code, reason = "some of it is for files alone, or for conversions")
)]

pub(crate) mod decoder;
pub(crate) mod form;
pub(crate) mod lacks;
#[cfg(feature = "parquet")]
pub(crate) mod limits;
pub(crate) mod rows;
#[cfg(feature = "parquet")]
pub(crate) mod messages;
pub(crate) mod kinds;
pub(crate) mod fields;
pub(crate) mod views;
pub(crate) mod columns;
