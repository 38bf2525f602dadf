//! The bloscpack container (`.blp`): Blosc chunks behind a header, metadata and offsets.
