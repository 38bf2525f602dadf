#[cfg(feature = "remote")]
pub(crate) mod remote;
mod replace;
