mod examples;
#[cfg(feature = "full")]
mod guide;
#[cfg(feature = "full")]
mod layouts;
mod messages;
