//! Bytes: where they live; knows nothing of formats.
