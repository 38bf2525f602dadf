//! NumPy's spellings: element types as text (`dtype.str`, `dtype.descr`), and `.npy` files.
