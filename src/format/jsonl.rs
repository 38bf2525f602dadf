//! Samples as JSON lines.
