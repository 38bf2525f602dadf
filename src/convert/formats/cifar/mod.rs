//! CIFAR-10 and CIFAR-100, as pickles of Python or as the binary version.
//!
//! An image is 3072 bytes: 32 rows of 32 columns of red, then green, then blue. In the binary
//! version, a label byte comes before each image, or in CIFAR-100 a coarse and a fine one. A pickle
//! is a dict of `data`, an array with one row for each image; `labels`, or `coarse_labels` and
//! `fine_labels`; and `filenames`. Source: the page of the data sets (Krizhevsky).

mod read;

#[cfg(feature = "datasets")]
pub(crate) use read::{Batch, IMAGE};
pub use read::{CifarLabels, CifarReader};
