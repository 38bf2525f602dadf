//! The one integration-test binary; this list is its table of contents.

mod support;

mod arrays;
mod bcolz;
#[cfg(all(feature = "full", feature = "stat"))]
mod carried;
mod checksums;
#[cfg(feature = "stat")]
mod conversion;
mod compat;
#[cfg(all(feature = "full", unix))]
mod confined;
mod crash;
mod damage;
mod examples;
#[cfg(feature = "full")]
mod guide;
#[cfg(feature = "images")]
mod image;
mod inputs;
mod layers;
#[cfg(all(feature = "full", feature = "stat"))]
mod left_out;
mod lazy;
mod loader;
mod mat;
mod model;
#[cfg(feature = "convert")]
mod notes;
mod packed;
mod parted_shuffle;
mod readers;
#[cfg(feature = "remote")]
mod remote;
mod recovery;
mod replace;
mod together;
mod writing;
#[cfg(feature = "datasets")]
mod segmentation;
#[cfg(feature = "convert")]
mod sharding;
#[cfg(feature = "cli")]
mod cli;
#[cfg(all(feature = "cli", unix))]
mod hostile;
#[cfg(all(feature = "cli", unix))]
mod claims;
