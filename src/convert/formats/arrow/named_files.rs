//! Files that rows name by their paths only.

use std::io::Read;
use std::path::Path;

use crate::convert::source_file;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::storage::{self, Confined};

/// Files that rows name by their paths only.
pub(super) struct Files {
    /// The folder of the table.
    folder: Confined,
    /// The most bytes of one.
    max_bytes: u64,
}

impl Files {
    pub(super) fn next_to(table: &Path, outside: bool, max_bytes: u64) -> Files {
        Files { folder: Confined::next_to(table).allow_outside(outside), max_bytes }
    }

    /// The bytes of a file, which must be below the folder: a table may come from anywhere.
    pub(super) fn read(&self, path: &str) -> Result<Vec<u8>> {
        if path.contains("://") {
            let message = format!("the row has only the address {path:?}, and nothing is fetched");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let what = if storage::is_url(self.folder.folder()) { "URL" } else { "folder" };
        let file = self.folder.path(path).map_err(|error| match error.kind() {
            ErrorKind::Invalid => {
                let message = format!(
                    "the row has only the path {path:?}, which is not below the {what} of the table"
                );
                Error::new(ErrorKind::Invalid, message).with_remedy(Remedy::AllowOutside)
            }
            _ => error,
        })?;
        self.read_file(&file, path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                let message = format!(
                    "the row has only the path {path:?}, and there is no such file next to the \
                     table: {}",
                    error.message()
                );
                Error::new(ErrorKind::NotFound, message)
            }
            _ => error,
        })
    }

    /// The bytes of a file, which the table calls `path`.
    fn read_file(&self, file: &Path, path: &str) -> Result<Vec<u8>> {
        let at = |error| Error::io(path, error);
        let mut bytes = Vec::new();
        let opened = source_file::open_once(file).map_err(at)?;
        opened.take(self.max_bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(at)?;
        if bytes.len() as u64 > self.max_bytes {
            let message =
                format!("{path:?}: expected at most {} bytes, found more", self.max_bytes);
            return Err(Error::above_limit("max_bytes", message));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use arrow_array::{Array, BinaryArray, RecordBatch, StringArray, StructArray};
    use arrow_schema::{Field as Column, Schema};

    use super::*;
    use crate::Value;
    use crate::format::arrow::form::{FEATURES, Plan};
    use crate::format::arrow::kinds::file_fields;
    use crate::format::arrow::rows::Rows;
    use crate::format::msgpack;

    /// A row as `to_parquet` of Hugging Face writes images that are not embedded.
    fn with_path(path: Option<&str>) -> RecordBatch {
        let bytes = BinaryArray::from(vec![None::<&[u8]>]);
        let paths = StringArray::from(vec![path]);
        let image = StructArray::new(file_fields(), vec![Arc::new(bytes), Arc::new(paths)], None);
        let column = Column::new("image", image.data_type().clone(), true);
        let features = r#"{"info": {"features": {"image": {"_type": "Image"}}}}"#;
        let metadata = [(FEATURES.to_owned(), features.to_owned())];
        let schema = Schema::new_with_metadata(vec![column], metadata.into());
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(image)]).unwrap()
    }

    /// The sample of the only row.
    fn pack(batch: &RecordBatch, files: &Files) -> Result<Vec<u8>> {
        let plan = &Plan::of(&batch.schema())?;
        let files = &|path: &str| files.read(path);
        Rows { plan, key: None, unread: &[], stem: "t", files, images: None, needs: &|_| true }
            .pack(batch, 0, 0)
    }

    /// They became nil, 20,000 of them without a word.
    #[test]
    fn a_file_that_has_only_a_path_is_read_if_it_is_near() {
        let dir = tempfile::tempdir().unwrap();
        let (near, far) = (dir.path().join("near"), dir.path().join("far.png"));
        fs::create_dir_all(near.join("cat")).unwrap();
        fs::write(near.join("cat/1.png"), b"png").unwrap();
        fs::write(&far, b"secret").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&far, near.join("link.png")).unwrap();
        let read = |path: &str, max_bytes| {
            let batch = with_path(Some(path));
            let table = near.join("t.parquet");
            let packed = pack(&batch, &Files::next_to(&table, false, max_bytes))?;
            Ok::<_, Error>(msgpack::decode(&packed)?["image"].clone())
        };
        let absolute = near.join("cat/1.png");
        for path in ["cat/1.png", "./cat/../cat/1.png", absolute.to_str().unwrap()] {
            assert_eq!(read(path, 3).unwrap(), Value::from(&b"png"[..]), "{path}");
        }
        let error = read("cat/1.png", 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        let mut others = vec![
            ("../far.png", "not below the folder of the table"),
            (far.to_str().unwrap(), "not below the folder of the table"),
            ("cat/2.png", "no such file next to the table"),
            ("hf://datasets/x/1.png", "nothing is fetched"),
        ];
        if cfg!(unix) {
            others.push(("link.png", "not below the folder of the table"));
            others.push(("/etc/passwd", "not below the folder of the table"));
        }
        for (path, says) in others {
            let error = read(path, 1 << 20).unwrap_err().to_string();
            assert!(error.contains("column \"image\"") && error.contains(says), "{path}: {error}");
        }
        // Behind a URL the folder is not left either, which is known without a request.
        let table = Path::new("https://example.invalid/d/t.parquet");
        for path in ["../far.png", "/etc/passwd", "a/../../far.png"] {
            let batch = with_path(Some(path));
            let error = pack(&batch, &Files::next_to(table, false, 9)).unwrap_err().to_string();
            assert!(error.contains("not below the URL of the table"), "{path}: {error}");
        }
        // Nothing at all is still nil.
        let batch = with_path(None);
        let table = near.join("t.parquet");
        let packed = pack(&batch, &Files::next_to(&table, false, 9)).unwrap();
        assert_eq!(msgpack::decode(&packed).unwrap()["image"], Value::Nil);
    }
}
