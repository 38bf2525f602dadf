//! The native part of pykiste. Each file wraps one concept of the library; what is only Python
//! (the exception tree, adapters for torch and Grain, the drop-in for datadings) is in `pykiste/`.

use pyo3::prelude::*;

mod about;
mod array;
mod batch;
mod batching;
mod buffers;
mod collate;
mod columns;
mod command;
mod compose;
mod convert;
mod dataset;
mod decode;
mod diff;
mod encode;
mod errors;
mod forensics;
mod image;
mod indices;
mod iterators;
mod loader;
mod lock;
mod map;
mod new_dataset;
mod merge;
mod objects;
mod opening;
mod packed;
mod pool;
mod rearrange;
mod run_state;
mod sampler;
mod select;
mod stat;
mod stored;
#[cfg(feature = "arrow")]
mod table;
#[cfg(not(feature = "arrow"))]
#[path = "no_table.rs"]
mod table;
mod view;
mod interrupt;
mod maintenance;
mod writer;

/// Native code of pykiste. Shared state is locked or atomic, so Python's own global lock is not needed.
#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use super::about::{_escaped, _picture, _shown, features};
    #[pymodule_export]
    use super::array::{ArrayStore, ChunkedArray, StagedVersion};
    #[pymodule_export]
    use super::batch::Batch;
    #[pymodule_export]
    use super::collate::Collator;
    #[pymodule_export]
    use super::columns::arrays_of;
    #[pymodule_export]
    use super::command::run_command;
    #[pymodule_export]
    use super::compose::{_described, Mixture, concat};
    #[pymodule_export]
    use super::convert::{commit, convert};
    #[pymodule_export]
    use super::dataset::Dataset;
    #[pymodule_export]
    use super::decode::unpack;
    #[pymodule_export]
    use super::diff::diff;
    #[pymodule_export]
    use super::encode::pack;
    #[pymodule_export]
    use super::image::Pipeline;
    #[pymodule_export]
    use super::iterators::{Keys, Samples};
    #[pymodule_export]
    use super::loader::{Loader, Loop};
    #[pymodule_export]
    use super::maintenance::{index, repair, verify};
    #[pymodule_export]
    use super::map::{_ending, _forked, Record};
    #[pymodule_export]
    use super::merge::merge;
    #[pymodule_export]
    use super::packed::PackedArray;
    #[pymodule_export]
    use super::rearrange::{filter, select, shuffle, sort, split};
    #[pymodule_export]
    use super::sampler::{Order, Sampler};
    #[pymodule_export]
    use super::stat::{compare, duplicates, samples_page, stat, stat_page};
    #[pymodule_export]
    use super::table::ArrowTable;
    #[pymodule_export]
    use super::view::View;
    #[pymodule_export]
    use super::writer::Writer;

    /// The version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "the name that Python has for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
