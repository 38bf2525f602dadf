//! Reads samples from batches of rows in memory, such as another program makes.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatchReader;

use super::lacks::{note_batch, note_flaw, note_schema};
use crate::convert::carried::{RemarkLog, Remarks};
use crate::convert::file_names::is_image;
use crate::convert::input::{Emit, Input};
use crate::error::{Error, ErrorKind, Result};
use crate::format::arrow::decoder::{Flaw, guarded};
use crate::format::arrow::form::Plan;
use crate::format::arrow::rows::{Images, Rows};

/// The rows of these batches, as [`ParquetReader`](super::ParquetReader) makes samples of them. They are one unit, which
/// is read once.
pub(in crate::convert) struct BatchesInput {
    name: String,
    plan: Plan,
    batches: Mutex<Option<Box<dyn RecordBatchReader + Send>>>,
    remarks: RemarkLog,
}

impl BatchesInput {
    /// `own_keys` says whether a column `key` has the keys.
    pub(in crate::convert) fn new(
        name: &str,
        batches: Box<dyn RecordBatchReader + Send>,
        own_keys: bool,
    ) -> Result<BatchesInput> {
        let mut plan = Plan::of(&batches.schema())?;
        plan.key = plan.key.filter(|_| own_keys);
        let remarks = RemarkLog::default();
        note_schema(&plan.lacks, Path::new(name), &remarks);
        Ok(BatchesInput {
            name: name.to_owned(),
            plan,
            batches: Mutex::new(Some(batches)),
            remarks,
        })
    }
}

impl Input for BatchesInput {
    fn units(&self) -> usize {
        1
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(batches) = batches else {
            let message = "a stream of batches can be read only once";
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        let name = Path::new(&self.name);
        let log = (name, unit, &self.remarks);
        let look_at = &|image: &[u8], column: &str, at| note_flaw(log, image, column, at);
        let images = Some(Images { is_image, look_at });
        let files = &|path: &str| -> Result<Vec<u8>> {
            let message = format!(
                "the row has only the path {path:?} of a file, and rows in memory have no folder that it could be in"
            );
            Err(Error::new(ErrorKind::Unsupported, message))
        };
        let rows = Rows {
            plan: &self.plan,
            key: None,
            unread: &[],
            stem: &self.name,
            files,
            images,
            needs: &|_| true,
        };
        let mut number = 0;
        let mut note = |kind, field: &str, count, place: &dyn Fn() -> String| {
            self.remarks.note(unit, kind, Some(field), count, place);
        };
        for batch in batches {
            let batch = batch.map_err(|error| {
                Error::new(ErrorKind::Other, error.to_string()).with_source(error).ending_its_unit()
            })?;
            note_batch(name, &self.plan.columns, &batch, number, &mut note);
            for row in 0..batch.num_rows() {
                let packed = guarded(|| Ok::<_, Flaw>(rows.pack(&batch, row, number)))?;
                emit(packed.map_err(|error| error.with_index(number)))?;
                number += 1;
            }
        }
        Ok(())
    }

    fn shard(&self, _unit: usize) -> Option<&str> {
        Some(&self.name)
    }

    fn locate(&self, _unit: usize, item: u64, error: Error) -> Error {
        if error.index().is_none() { error.with_index(item) } else { error }
    }

    fn remarks(&self, unit: usize) -> Remarks {
        self.remarks.take(unit)
    }

    fn label_names(&self) -> Option<&[String]> {
        self.plan.labels.as_deref()
    }
}
