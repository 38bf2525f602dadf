//! MNIST and similar data sets: idx files.

mod read;

pub use read::{MnistOptions, MnistReader};
