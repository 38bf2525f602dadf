//! Reads samples from Parquet files.

use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};

use super::decoder::guarded;
use super::folder::expand_folders;
use super::lacks::{note_batch, note_flaw, note_schema};
use super::limits::{check_pages, check_parquet, chunk_range, footer_range};
use super::named_files::Files;
use crate::convert::carried::{RemarkLog, Remarks};
use crate::convert::file_names::{self, is_image};
use crate::convert::formats::files::{InputFiles, options_of_files};
use crate::convert::input::{Emit, Input};
use crate::convert::ranged_file::Partial;
use crate::error::{Error, ErrorKind, Result};
use crate::format::arrow::decoder::Flaw;
use crate::format::arrow::form::Plan;
use crate::format::arrow::rows::{Images, Rows, path_field};
use crate::format::parquet::TAIL;
use crate::format::sample_fields::stored_name;

/// Rows that are decoded at a time.
const ROWS: usize = 256;

/// Reads Parquet files, as pyarrow, pandas and Hugging Face `datasets` write them; each row group
/// is a unit. Feature `parquet`.
///
/// | a column of | becomes |
/// | --- | --- |
/// | booleans, integers, 32-bit and 64-bit floats | plain numbers |
/// | 16-bit floats, dates and times | NumPy scalars: dates and timestamps `datetime64` (in UTC), times of day and durations `timedelta64` |
/// | strings, binary data, dictionaries of them | strings, bytes |
/// | decimal numbers | strings, which keep all digits |
/// | lists of numbers or times | NumPy arrays; with several dimensions if the inner lists have the same length |
/// | other lists: ragged, of strings, with nulls | lists |
/// | structs, maps | maps |
/// | null | nil |
///
/// Not carried, but [counted](Input::remarks): time zones, that a time is one of day, extension types,
/// names of further labels, and metadata. Files may have other columns than the first one: then samples
/// have other fields.
///
/// Of the features of `datasets`, `Image`, `Audio`, `Video` and `Pdf` become the bytes of the file;
/// its path, if there is one, becomes another field, such as `image_path`. A file that is not in
/// the table is nil, but its path is kept. `ArrayXD` become arrays of that shape, and so do tensors
/// of fixed shape. `ClassLabel` become numbers, -1 becomes nil, and the names are
/// [`label_names`](Input::label_names).
///
/// Keys are the strings of a column `key` or `__key__`, if there is one, or of another
/// [field](Self::key), such as `image_path`; otherwise the name of the file without its ending, a
/// slash and the number of the row.
///
/// The decompressed size of a page is [limited](Self::max_bytes), and checked before the page is
/// decompressed; for that, pages of Brotli are decompressed twice. Checksums of pages are compared
/// if there are any, but few writers add them: without one, damage that leaves a valid page is not
/// noticed.
///
/// ```no_run
/// use kiste::convert::{InOrder, ParquetReader};
///
/// let table = ParquetReader::open("train-{00000..00003}-of-00004.parquet")?.without(["url"]);
/// let source = InOrder::new(table);
/// # Ok::<(), kiste::Error>(())
/// ```
#[doc(alias = "Parquet")]
#[must_use]
#[derive(Debug, Clone)]
pub struct ParquetReader {
    files: InputFiles,
    tables: Vec<Table>,
    /// The row groups of all files: which file, which group in it, and the number of its first row.
    groups: Vec<(usize, usize, u64)>,
    labels: Option<Vec<String>>,
    without: Vec<String>,
    /// Columns that the conversion drops anyway: their fields are nil.
    unread: Vec<String>,
}

#[derive(Debug, Clone)]
struct Table {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
    plan: Plan,
}

impl ParquetReader {
    options_of_files! {
        /// Opens a file, all that a name with braces such as `{000..123}` stands for, or the files of a folder whose
        /// names end in `.parquet`, in natural order. Their footers are read.
        ///
        /// # Errors
        ///
        /// [`NotFound`](ErrorKind::NotFound) if one of them does not exist, and
        /// [`Invalid`](ErrorKind::Invalid) if they differ in labels.
        open,
        /// Takes keys from this field: strings, bytes in UTF-8, or integers.
        key,
        /// Refuses pages with more bytes than this once they are decompressed. Default: 1 GiB.
        max_bytes,
        /// Whether an image that a row has only the path of may be outside of the folder. Default: no.
        allow_outside,
    }

    /// Opens several files or folders, which are read in this order.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), and [`Invalid`](ErrorKind::Invalid) for none at all.
    pub fn open_all<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> Result<ParquetReader> {
        let files = file_names::files(files)?;
        let mut tables: Vec<Table> = Vec::new();
        let remarks = RemarkLog::default();
        for path in expand_folders(files, "parquet", false, &remarks)? {
            let table = open_table(path)?;
            note_schema(&table.plan.lacks, &table.path, &remarks);
            tables.iter().try_for_each(|known| check_like(known, &table))?;
            tables.push(table);
        }
        let mut groups = Vec::new();
        for (at, table) in tables.iter().enumerate() {
            let mut first = 0u64;
            for (group, metadata) in table.metadata.metadata().row_groups().iter().enumerate() {
                groups.push((at, group, first));
                first = first.saturating_add(u64::try_from(metadata.num_rows()).unwrap_or(0));
            }
        }
        let labels = tables.iter().find_map(|table| table.plan.labels.clone());
        let paths = tables.iter().map(|table| table.path.clone()).collect();
        let (files, without, unread) = (InputFiles::of(paths, remarks), Vec::new(), Vec::new());
        Ok(ParquetReader { files, tables, groups, labels, without, unread })
    }

    /// Leaves these columns out; they are not even read.
    pub fn without<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Self {
        self.without = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Does not read columns that the conversion drops anyway: their fields are nil.
    pub(in crate::convert) fn unless_dropped(mut self, drops: impl Fn(&str) -> bool) -> Self {
        let mut unread = Vec::new();
        for column in self.tables.iter().flat_map(|table| &table.plan.columns) {
            let has_path = column.slot.form.is_file();
            let keeps_path = || has_path && !drops(&path_field(&column.name));
            if drops(stored_name(&column.name)) && !keeps_path() {
                unread.push(column.name.clone());
            }
        }
        unread.sort_unstable();
        unread.dedup();
        self.unread = unread;
        self
    }

    /// The column that has the keys.
    fn key_of(&self, plan: &Plan) -> Option<usize> {
        plan.key.filter(|_| self.files.own_keys)
    }

    /// Whether a column of a file is not read.
    fn is_unread(&self, plan: &Plan, at: usize) -> bool {
        self.key_of(plan) != Some(at) && self.unread.binary_search(&plan.columns[at].name).is_ok()
    }

    /// The fields of the columns that are not read.
    fn unread_fields(&self, plan: &Plan) -> Vec<String> {
        let mut fields = Vec::new();
        for (at, column) in plan.columns.iter().enumerate() {
            if !self.is_unread(plan, at) {
                continue;
            }
            fields.push(column.name.clone());
            let path = path_field(&column.name);
            let is_column = || plan.columns.iter().any(|column| column.name == path);
            if column.slot.form.is_file() && !is_column() {
                fields.push(path);
            }
        }
        fields
    }

    /// The plan without the columns that are left out, and the indices of the others.
    fn chosen(&self, plan: &Plan) -> (Plan, Vec<usize>) {
        let kept = |at: &usize| {
            !self.without.contains(&plan.columns[*at].name) && !self.is_unread(plan, *at)
        };
        let indices: Vec<usize> = (0..plan.columns.len()).filter(kept).collect();
        let mut chosen = plan.only(&indices);
        chosen.key = chosen.key.filter(|_| self.files.own_keys);
        (chosen, indices)
    }

    /// Opens the file of a row group, with the bytes of these columns, and checks their pages.
    fn open_group(&self, table: &Table, group: usize, indices: &[usize]) -> Result<Partial> {
        let path = &table.path;
        let mut file = Partial::open(path, false)?;
        let metadata = table.metadata.metadata();
        let schema = metadata.file_metadata().schema_descr();
        let columns = metadata.row_group(group).columns().iter().enumerate();
        let chosen =
            columns.filter(|(leaf, _)| indices.contains(&schema.get_column_root_idx(*leaf)));
        let chunks = chosen.map(|(_, chunk)| Ok((chunk, chunk_range(path, chunk, file.len()?)?)));
        let chunks: Vec<_> = chunks.collect::<Result<_>>()?;
        let ranges: Vec<_> = chunks.iter().map(|(_, range)| range.clone()).collect();
        file.fetch(&ranges)?;
        for (chunk, range) in chunks {
            check_pages(path, file.file(), chunk, range, self.files.max_bytes)?;
        }
        Ok(file)
    }
}

fn open_table(path: PathBuf) -> Result<Table> {
    let mut file = Partial::open(&path, true)?;
    let size = file.len()?;
    let tail = size.saturating_sub(TAIL as u64)..size;
    file.fetch(slice::from_ref(&tail))?;
    let footer = footer_range(&path, file.file())?;
    file.fetch(slice::from_ref(&footer))?;
    let file = file.file();
    check_parquet(&path, file, footer)?;
    let load = |options| ArrowReaderMetadata::load(&*file, options);
    let plain = guarded(&path, || load(ArrowReaderOptions::new()))?;
    let plan = Plan::of(plain.schema()).map_err(|error| error.at(&path))?;
    let views = Arc::new(with_views(plain.schema()));
    let viewed = guarded(&path, || load(ArrowReaderOptions::new().with_schema(views)));
    // Columns that cannot be viewed in place are copied.
    let metadata = viewed.unwrap_or(plain);
    Ok(Table { path, metadata, plan })
}

/// All files that have labels must have the same: one number would mean two things.
fn check_like(first: &Table, other: &Table) -> Result<()> {
    if !first.plan.contradicts(&other.plan) {
        return Ok(());
    }
    let message = format!("expected the labels of {}, found others", first.path.display());
    Err(Error::new(ErrorKind::Invalid, message).at(&other.path))
}

/// The same schema with views of strings and bytes, which stay in their pages until they are copied
/// to a sample: a dictionary may refer to a long value many times.
fn with_views(schema: &Schema) -> Schema {
    let fields: Vec<FieldRef> = schema.fields().iter().map(viewed).collect();
    Schema::new_with_metadata(fields, schema.metadata().clone())
}

fn viewed(field: &FieldRef) -> FieldRef {
    let of = match field.data_type() {
        DataType::Dictionary(_, value) => (**value).clone(),
        of => of.clone(),
    };
    let of = match of {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::List(item) => DataType::List(viewed(&item)),
        DataType::LargeList(item) => DataType::LargeList(viewed(&item)),
        DataType::FixedSizeList(item, len) => DataType::FixedSizeList(viewed(&item), len),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(viewed).collect::<Fields>()),
        _ => return field.clone(),
    };
    let same = Field::new(field.name(), of, field.is_nullable());
    Arc::new(same.with_metadata(field.metadata().clone()))
}

impl Input for ParquetReader {
    fn units(&self) -> usize {
        self.groups.len()
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        let (number, group, first) = self.groups[unit];
        let table = &self.tables[number];
        let path = &table.path;
        let expected = table.metadata.metadata().row_group(group).num_rows();
        // Some writers leave out the pages of an empty row group, but not their positions.
        if expected == 0 {
            return Ok(());
        }
        let (plan, indices) = self.chosen(&table.plan);
        let (file, _scratch) = self.open_group(table, group, &indices)?.into_file();
        let stem = self.files.name(number)?;
        let files = Files::next_to(path, self.files.outside, self.files.max_bytes);
        let (key, unread) = (self.files.key.as_deref(), &self.unread_fields(&table.plan)[..]);
        let files = &|name: &str| files.read(name);
        let log = (&**path, unit, &self.files.remarks);
        let look_at = &|image: &[u8], column: &str, at| note_flaw(log, image, column, at);
        let images = Some(Images { is_image, look_at });
        let rows = Rows { plan: &plan, key, unread, stem, files, images, needs: &|_| true };
        let mut note = |kind, name: &str, count, place: &dyn Fn() -> String| {
            self.files.remarks.note(unit, kind, Some(name), count, place);
        };
        let mut batches = guarded(path, || {
            let builder =
                ParquetRecordBatchReaderBuilder::new_with_metadata(file, table.metadata.clone());
            let schema = table.metadata.metadata().file_metadata().schema_descr();
            let mask = ProjectionMask::roots(schema, indices);
            let builder = builder.with_projection(mask).with_row_groups(vec![group]);
            builder.with_batch_size(ROWS).build()
        })?;
        let mut number = first;
        while let Some(batch) = guarded(path, || batches.next().transpose())? {
            note_batch(path, &plan.columns, &batch, number, &mut note);
            emit_batch(path, &rows, &batch, number, emit)?;
            number = number.saturating_add(batch.num_rows() as u64);
        }
        let found = number - first;
        if u64::try_from(expected).is_ok_and(|expected| expected == found) {
            return Ok(());
        }
        let message = format!("row group {group}: expected {expected} rows, found {found}");
        Err(Error::new(ErrorKind::Damaged, message).at(path))
    }

    fn path(&self, unit: usize) -> Option<&Path> {
        self.groups.get(unit).map(|&(file, _, _)| self.tables[file].path.as_path())
    }

    fn shard(&self, unit: usize) -> Option<&str> {
        self.groups.get(unit).and_then(|&(file, _, _)| self.files.names.get(file))
    }

    fn bytes(&self, unit: usize) -> Option<u64> {
        let &(file, group, _) = self.groups.get(unit)?;
        let group = self.tables[file].metadata.metadata().row_group(group);
        u64::try_from(group.compressed_size()).ok()
    }

    fn remarks(&self, unit: usize) -> Remarks {
        self.files.remarks.take(unit)
    }

    fn len_hint(&self) -> Option<u64> {
        let rows = |table: &Table| {
            u64::try_from(table.metadata.metadata().file_metadata().num_rows()).ok()
        };
        self.tables.iter().try_fold(0u64, |sum, table| sum.checked_add(rows(table)?))
    }

    fn label_names(&self) -> Option<&[String]> {
        self.labels.as_deref()
    }
}

/// Emits the samples of a batch. `first` is the number of its first row.
pub(super) fn emit_batch(
    path: &Path,
    rows: &Rows<'_>,
    batch: &RecordBatch,
    first: u64,
    emit: &mut Emit<'_>,
) -> Result<()> {
    for row in 0..batch.num_rows() {
        let number = first + row as u64;
        let packed = guarded(path, || Ok::<_, Flaw>(rows.pack(batch, row, number)))?;
        emit(packed.map_err(|error| error.at(path).with_index(number)))?;
    }
    Ok(())
}
