//! Arrays larger than a sample's field: packed in one container, chunked in a directory, staged in
//! memory.
