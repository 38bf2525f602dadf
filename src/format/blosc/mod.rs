//! One Blosc-1 chunk: its header, its blocks, compression and decompression.
