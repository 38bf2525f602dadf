mod examples;
#[cfg(feature = "full")]
mod guide;
