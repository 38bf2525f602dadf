//! idx files, as those of MNIST and its kin.

mod read;

pub use read::{MnistOptions, MnistReader};
