//! CIFAR-10 and CIFAR-100, as pickles of Python or as the binary version.
//!
//! After the page of the data sets (Krizhevsky): an image is 3072 bytes, 32 rows of 32 columns of
//! red, then green, then blue. In the binary version one label, or in CIFAR-100 a coarse and a fine
//! one, of a byte each come before each image. A pickle is a dict of `data`, an array of a row an
//! image; `labels`, or `coarse_labels` and `fine_labels`; and `filenames`.

mod read;

#[cfg(feature = "datasets")]
pub(crate) use read::{Batch, IMAGE};
pub use read::{CifarLabels, CifarReader};
