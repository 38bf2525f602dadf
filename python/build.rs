//! Passes on what PyO3 found out about the interpreter: `Py_LIMITED_API`, `Py_GIL_DISABLED`, `Py_3_15` and the like.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
