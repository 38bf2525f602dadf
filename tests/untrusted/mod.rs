#[cfg(all(feature = "cli", unix))]
pub(crate) mod attacks;
#[cfg(all(feature = "cli", unix))]
pub(crate) mod claims;
#[cfg(all(feature = "full", unix))]
mod confined;
