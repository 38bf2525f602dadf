mod bcolz;
pub(crate) mod chunked;
pub(crate) mod packed;
