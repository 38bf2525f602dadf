//! NumPy's spellings: element types as text (`dtype.str`, `dtype.descr`), and `.npy` files.
//!
//! * [`descr`] reads and writes the text of types, in all spellings that files have.
//! * `literal` reads the literals of Python in which structured types and `.npy` headers are.
//! * [`npy`] reads and writes whole `.npy` files, byte for byte as `numpy.save` does.
//!
//! Absent on purpose: pickles, in which NumPy saves arrays of objects. They are refused.

#[doc(hidden)]
pub mod descr;
pub(crate) mod literal;
pub mod npy;

#[cfg(test)]
mod tests;
