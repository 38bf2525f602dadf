//! columns
