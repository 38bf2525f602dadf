//! What a dataset is, without a look at all of it: for [`Dataset`](crate::dataset::Dataset) and for notebooks.

use std::path::Path;
use std::sync::Arc;

use kiste::compose::View;
use kiste::reader::{Reader, ReaderExt};
use kiste::repair::{Repair, WriteState};
use kiste::stat::DatasetInfo;
use kiste::storage::Shown;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::errors::{bug, raise};
use crate::pool;

/// The statistics of the first samples, as `kiste stat --json` prints them.
pub(crate) fn first<'py>(
    py: Python<'py>,
    reader: Arc<dyn Reader>,
    samples: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let found = pool::run(py, move || {
        let len = reader.len().min(samples);
        let first = (&reader).range(..len);
        if first.is_remote() {
            first.prefetch(&(0..first.len()).collect::<Vec<_>>());
        }
        kiste::stat::stat(&first)
    })?;
    loads(py, serde_json::to_string(&found.map_err(raise)?))
}

/// What `kiste info --json` prints, with paths for the names of files.
pub(crate) fn info<'py>(
    py: Python<'py>,
    view: View,
    path: Option<&Path>,
) -> PyResult<Bound<'py, PyAny>> {
    let (is_made, name) = (view.dataset().is_none(), path.map(Path::to_path_buf));
    let look = move || {
        let info = DatasetInfo::of_reader(&**view.reader())?;
        let unfinished = match &name {
            Some(path) if !is_made => unfinished(path)?,
            _ => None,
        };
        kiste::Result::Ok((info, unfinished))
    };
    let (info, unfinished) = pool::run(py, look)?.map_err(raise)?;
    let dict = loads(py, serde_json::to_string(&info))?;
    let shown = |path: &Path| Shown::of(path).into_path();
    dict.set_item("file", if is_made { path.map(shown) } else { Some(shown(&info.file)) })?;
    let files = dict.get_item("files")?.cast_into::<PyList>()?;
    for (file, found) in files.iter().zip(&info.files) {
        file.set_item("file", shown(&found.file))?;
    }
    dict.set_item("unfinished", unfinished)?;
    Ok(dict)
}

/// What is left of a write that did not end, if there is something.
fn unfinished(data: &Path) -> kiste::Result<Option<&'static str>> {
    if kiste::storage::is_url(data) {
        return Ok(None);
    }
    Ok(match Repair::of(data).state()? {
        WriteState::Unfinished => Some("an unfinished write: pykiste.repair finishes or undoes it"),
        WriteState::Leftover => Some("files of a killed writer: see pykiste.repair"),
        WriteState::BeingWritten => Some("another program is writing to it"),
        WriteState::Foreign => Some("its .partial is not of a writer of kiste"),
        _ => None,
    })
}

fn loads<'py>(py: Python<'py>, json: serde_json::Result<String>) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (json.map_err(bug)?,))
}

/// The media type and the bytes of a small picture of an image, for a page; `None` of what is none.
#[pyfunction]
pub(crate) fn _picture<'py>(
    py: Python<'py>,
    image: &Bound<'py, PyBytes>,
) -> Option<(&'static str, Bound<'py, PyBytes>)> {
    let image = image.as_bytes();
    let (media, bytes) = py.detach(|| kiste::stat::picture(image))?;
    Some((media, PyBytes::new(py, &bytes)))
}

/// Text without characters that are invisible or change the direction of others.
#[pyfunction]
pub(crate) fn _escaped(text: &str) -> String {
    kiste::text::escaped(text).into_owned()
}

/// The fields of a packed sample, with their values as `kiste cat` shows them, shortened to about this length.
#[pyfunction]
pub(crate) fn _shown(packed: &Bound<'_, PyBytes>, max: usize) -> PyResult<Vec<(String, String)>> {
    let sample = kiste::format::msgpack::decode(packed.as_bytes());
    let sample = sample.map_err(|error| raise(error.into()))?;
    let short = |value: &kiste::Value| {
        let mut text = Vec::new();
        kiste::format::jsonl::write_short(value, max, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    };
    let fields = sample.as_map().map(Vec::as_slice).unwrap_or_default();
    let name = |name: &kiste::Value| name.as_str().map_or_else(|| short(name), str::to_owned);
    Ok(fields.iter().map(|(own, value)| (name(own), short(value))).collect())
}

/// What this build can do, as a dict of booleans.
///
/// `arrow`: is read by DuckDB, polars, pandas and pyarrow (`Dataset.to_arrow`). `parquet`: reads and writes files of
/// Parquet and Arrow. `remote`: opens URLs. `images`: decodes images in columns and
/// conversions. `turbo`: decodes JPEG by libjpeg-turbo, which is faster. `abi3`: is for all versions of Python, and
/// decodes samples more slowly.
///
/// >>> import pykiste as ki
/// >>> ki.features()["images"]
/// True
#[pyfunction]
pub(crate) fn features(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("arrow", cfg!(feature = "arrow"))?;
    dict.set_item("parquet", cfg!(feature = "full"))?;
    dict.set_item("remote", cfg!(feature = "remote"))?;
    dict.set_item("images", true)?;
    dict.set_item("turbo", cfg!(feature = "turbo"))?;
    dict.set_item("abi3", cfg!(feature = "abi3"))?;
    Ok(dict)
}
