//! Values in memory: element types as NumPy names them, and arrays of them.
//!
//! An [`NdArray`](self) is a type, a shape and bytes, owned or borrowed from where they were read;
//! it is looked at through `ndarray` and does no arithmetic. Nothing here knows a file format.
