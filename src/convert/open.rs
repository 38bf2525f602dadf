//! Opens the sources of a conversion in their format.

use std::io;
use std::path::{Path, PathBuf};

use super::carried::LeftOut;
use super::chained_streams::ChainedStreams;
use super::conversion::{Conversion, OwnInput};
use super::format::{self, Format};
use super::formats::image_folder::{FolderOptions, ImageFolderReader};
#[cfg(feature = "formats")]
use super::formats::{csv, image_folder};
use super::names::KeyNames;
use super::options::ReadOptions;
use super::path_values::PathValues;
#[cfg(feature = "parquet")]
use super::{ArrowIpcReader, ParquetReader};
use super::{
    BadInput, Chained, CifarLabels, CifarReader, DatasetInput, InOrder, Input, JsonLinesReader,
    JsonLinesStream, MdsReader, MnistOptions, MnistReader, Monitor, Notice, Source,
    WebDatasetReader, matching, place, source_file,
};
#[cfg(feature = "formats")]
use super::{CsvReader, TfRecordReader};
#[cfg(feature = "zip")]
use super::{NpzOptions, NpzReader};
use crate::dataset::DatasetReader;
use crate::error::{Error, ErrorKind, Result};
use crate::reader::Labels;
use crate::storage;

/// At least this many units for each shard that is asked for, and at most this many bytes in one.
const UNITS: u64 = 32;
const UNIT_BYTES: u64 = 2 << 20;

/// Samples to convert.
pub(super) struct Opened {
    /// Their source; `None` for an input of the program's own.
    pub(super) format: Option<Format>,
    pub(super) samples: Samples,
    /// Files of a folder that are no images, or have no place in it.
    pub(super) skipped_files: u64,
    /// What a person should know about them.
    pub(super) notices: Vec<Notice>,
}

impl Opened {
    /// Tells the monitor what there is to know.
    pub(super) fn tell(&mut self, monitor: &mut dyn Monitor) {
        self.notices.drain(..).for_each(|notice| monitor.notice(notice));
    }
}

/// Samples as they can be had.
pub(super) enum Samples {
    /// In units, each of which can be read without the others.
    Units(Box<dyn Input>),
    /// One after the other, and only once.
    Stream(Box<dyn Source>),
}

impl Samples {
    fn units(input: impl Input + 'static) -> Samples {
        Samples::Units(Box::new(input))
    }

    /// All of them, in order.
    pub(super) fn into_source(self) -> Box<dyn Source> {
        match self {
            Samples::Units(input) => Box::new(InOrder::new(input)),
            Samples::Stream(source) => source,
        }
    }

    pub(super) fn as_input(&self) -> Option<&dyn Input> {
        match self {
            Samples::Units(input) => Some(&**input),
            Samples::Stream(_) => None,
        }
    }

    pub(super) fn label_names(&self) -> Option<&[String]> {
        match self {
            Samples::Units(input) => input.label_names(),
            Samples::Stream(source) => source.label_names(),
        }
    }
}

impl Conversion {
    /// Opens the sources.
    pub(super) fn open(&self) -> Result<Opened> {
        if let Some(OwnInput(input)) = &self.input {
            check_images(&self.options.read)?;
            let samples = with_images(Samples::units(input.clone()), &self.options.read)?;
            return Ok(Opened { format: None, samples, skipped_files: 0, notices: Vec::new() });
        }
        source_file::check_urls(&self.sources)?;
        place::check_sources(&self.sources)?;
        let options = &self.options.read;
        let paths = matching::expand(&self.sources, self.options.from, options.asks_for_images())?;
        source_file::forget_versions(&paths);
        let format = match self.options.from {
            Some(format) => format,
            None if options.root.is_some() && paths.iter().all(|path| is_file_or_url(path)) => {
                Format::List
            }
            None => format::detect_all(&paths)?,
        };
        if format != Format::Jsonl && paths.iter().any(|path| path == Path::new("-")) {
            let message = "standard input is read as JSON lines only";
            let message = format!("{message}, but this is read as {format}");
            return Err(Error::new(ErrorKind::Invalid, message)
                .at("-")
                .advise("write it to a file and name that"));
        }
        options.check(format)?;
        format.check_available()?;
        check_images(options)?;
        let mut notices = options.suspect(format, &paths)?;
        if format.keys() == format::Keys::Own && self.options.replaces_key() {
            notices.push(Notice::KeysReplaced);
        }
        let (samples, skipped_files) = self.open_as(format, &paths)?;
        let samples = with_remarks(samples, format, &paths);
        if format == Format::Dataset {
            place::check_is_other(&self.sources, &self.output)?;
        }
        let samples = with_images(samples, options)?;
        Ok(Opened { format: Some(format), samples, skipped_files, notices })
    }

    /// Bytes of a unit where a number of shards is asked for: few enough that these are about as large as each
    /// other.
    fn unit_bytes(&self, paths: &[PathBuf]) -> Option<u64> {
        let shards = self.options.shards? as u64;
        let size = |path: &PathBuf| source_file::size_of(path).ok().flatten();
        let bytes = paths.iter().filter_map(size).fold(0, u64::saturating_add);
        Some((bytes / shards.saturating_mul(UNITS).max(1)).clamp(1, UNIT_BYTES))
    }

    fn open_as(&self, format: Format, paths: &[PathBuf]) -> Result<(Samples, u64)> {
        let options = &self.options.read;
        let (max, key, unit) = (options.max_bytes, self.own_key(), self.unit_bytes(paths));
        let samples = match format {
            Format::Images => {
                let folder = options.open_folder(paths, !self.options.replaces_key())?;
                return Ok((Samples::units(folder.0), folder.1));
            }
            Format::List => Samples::units(options.open_list(only(paths, "a list of files")?)?),
            Format::Jsonl => each(paths, |path, names| self.lines(path, names, max, unit))?,
            Format::Dataset => each(paths, |path, names| {
                place::check_finished(path)?;
                let reader = match storage::is_url(path) {
                    true => DatasetReader::open(path)?,
                    false => DatasetReader::options().storage(self.storage()).open(path)?,
                };
                Ok(Samples::units(DatasetInput::new(reader)?.called(names)))
            })?,
            Format::Mds => one_after_the_other(
                (mds(paths)?.into_iter())
                    .map(|mds| {
                        let mds = within(mds, max, MdsReader::max_bytes);
                        let mds = mds.allow_outside(options.allow_outside);
                        let mds = mds.unless_dropped(|name| !self.keeps_field(name));
                        Samples::units(with_key(mds, key, MdsReader::key))
                    })
                    .collect(),
            )?,
            Format::Mnist => Samples::units(mnist(paths, max)?),
            Format::Webdataset => {
                let shards = WebDatasetReader::open_all(paths)?;
                let shards = shards.may_lack_end(self.options.bad != BadInput::Stop);
                let shards = within(shards, unit, WebDatasetReader::unit_bytes);
                Samples::units(within(shards, max, WebDatasetReader::max_bytes))
            }
            Format::Cifar10 => Samples::units(within(
                CifarReader::open_all(paths, CifarLabels::Ten)?,
                max,
                CifarReader::max_bytes,
            )),
            Format::Cifar100 => Samples::units(within(
                CifarReader::open_all(paths, CifarLabels::Hundred)?,
                max,
                CifarReader::max_bytes,
            )),
            #[cfg(feature = "zip")]
            Format::Npz => each(paths, |path, names| {
                let npz = within(NpzReader::options(), max, NpzOptions::max_bytes);
                let npz = npz.open_without(path, &|name| !self.keeps_field(name))?;
                Ok(Samples::units(with_key(npz.called(names), key, NpzReader::key)))
            })?,
            #[cfg(feature = "formats")]
            Format::Tfrecord => {
                let records = TfRecordReader::open_all(paths)?.texts(options.texts.clone());
                let records = within(records, max, TfRecordReader::max_bytes);
                let records = within(records, unit, TfRecordReader::unit_bytes);
                Samples::units(with_key(records, key, TfRecordReader::key))
            }
            #[cfg(feature = "formats")]
            Format::Csv | Format::Tsv => {
                let table = CsvReader::open_all(paths)?;
                let table = within(table, unit, CsvReader::unit_bytes);
                let table = table.delimiter(options.delimiter_of(format, &paths[0])?);
                let table = table.quotes(!options.plain_quotes);
                let table = with_key(within(table, max, CsvReader::max_bytes), key, CsvReader::key);
                Samples::units(if options.guess_types { table.guess_types()? } else { table })
            }
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                let table = within(ParquetReader::open_all(paths)?, max, ParquetReader::max_bytes);
                let table = table.own_keys(!self.options.replaces_key());
                let table = table.allow_outside(options.allow_outside);
                let table = table.unless_dropped(|name| !self.keeps_field(name));
                Samples::units(with_key(table, key, ParquetReader::key))
            }
            #[cfg(feature = "parquet")]
            Format::Arrow => {
                let table = ArrowIpcReader::open_from(paths, options.allow_outside)?;
                let table = within(table, max, ArrowIpcReader::max_bytes);
                let table = within(table, unit, ArrowIpcReader::unit_bytes);
                let table = table.own_keys(!self.options.replaces_key());
                Samples::units(with_key(table, key, ArrowIpcReader::key))
            }
            // Reported above, by `check_available`.
            #[allow(unreachable_patterns, reason = "reachable without some features")]
            format => {
                let message = format!("this build of kiste has no {format}");
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        };
        Ok((samples, 0))
    }
}

impl Conversion {
    fn lines(
        &self,
        path: &Path,
        names: KeyNames,
        max_bytes: Option<u64>,
        unit: Option<u64>,
    ) -> Result<Samples> {
        let (keys, plain) = (self.line_keys(), self.options.read.plain_json);
        if path == Path::new("-") {
            let stream = JsonLinesStream::new(io::stdin(), "-").keys(keys).plain(plain);
            let stream = within(stream, max_bytes, JsonLinesStream::max_bytes);
            return Ok(Samples::Stream(Box::new(stream)));
        }
        let file = JsonLinesReader::open(path)?.called(names).keys(keys).plain(plain);
        let file = within(file, unit, JsonLinesReader::unit_bytes);
        Ok(Samples::units(within(file, max_bytes, JsonLinesReader::max_bytes)))
    }
}

impl ReadOptions {
    /// Fails for an option that would change nothing: it was meant for something else.
    fn check(&self, format: Format) -> Result<()> {
        let table = matches!(format, Format::Csv | Format::Tsv | Format::List);
        let (option, formats) = match () {
            () if !self.texts.is_empty() && format != Format::Tfrecord => ("texts", "tfrecord"),
            () if self.max_bytes.is_some() && format == Format::Dataset => {
                ("max_bytes", "what other programs wrote")
            }
            () if self.guess_types && !table => ("guess_types", "csv, tsv and list"),
            () if self.delimiter.is_some() && !table => ("delimiter", "csv, tsv and list"),
            () if self.plain_quotes && !table => ("quote", "csv, tsv and list"),
            () if self.plain_json && format != Format::Jsonl => ("plain_json", "jsonl"),
            () if matches!(format, Format::Images | Format::List) => return Ok(()),
            () => match self.folder_option() {
                Some(option) => (option, "images and list"),
                None => return Ok(()),
            },
        };
        Err(misplaced(option, formats, format))
    }

    /// The delimiter that was given, or that tables of this format and name have.
    #[cfg(feature = "formats")]
    fn delimiter_of(&self, format: Format, path: &Path) -> Result<u8> {
        match (self.delimiter, format) {
            (Some(delimiter), _) => u8::try_from(delimiter).map_err(|_| {
                let message = format!("expected a character of ASCII, found {delimiter:?}");
                Error::new(ErrorKind::Invalid, message).with_option("delimiter")
            }),
            (None, Format::List) => Ok(image_folder::delimiter_of(path)),
            (None, Format::Tsv) => Ok(b'\t'),
            (None, _) => Ok(b','),
        }
    }

    /// Says where a table seems to have another delimiter.
    #[cfg(feature = "formats")]
    fn suspect(&self, format: Format, paths: &[PathBuf]) -> Result<Vec<Notice>> {
        let is_table = matches!(format, Format::Csv | Format::Tsv | Format::List);
        let (true, Some(path)) = (is_table && self.delimiter.is_none(), paths.first()) else {
            return Ok(Vec::new());
        };
        let found = csv::other_delimiter(path, self.delimiter_of(format, path)?)?;
        let notice = |found| Notice::OneColumn { path: path.clone(), delimiter: found };
        Ok(found.map(notice).into_iter().collect())
    }

    #[cfg(not(feature = "formats"))]
    fn suspect(&self, _: Format, _: &[PathBuf]) -> Result<Vec<Notice>> {
        Ok(Vec::new())
    }

    /// An option for images or lists that was given.
    fn folder_option(&self) -> Option<&'static str> {
        match () {
            () if !self.pattern.is_empty() => Some("pattern"),
            () if !self.include.is_empty() => Some("include"),
            () if !self.exclude.is_empty() => Some("exclude"),
            () if self.labels.is_some() => Some("labels"),
            () if self.text_labels => Some("text_labels"),
            () => self.list_option(),
        }
    }

    /// Whether an option was given that only images have.
    fn asks_for_images(&self) -> bool {
        self.list_option().is_none() && self.folder_option().is_some()
    }

    fn list_option(&self) -> Option<&'static str> {
        match () {
            () if self.root.is_some() => Some("root"),
            () if self.header.is_some() => Some("header"),
            () => None,
        }
    }

    /// Images of a folder, of patterns, or of an archive; and how many files were skipped.
    fn open_folder(&self, paths: &[PathBuf], own_keys: bool) -> Result<(ImageFolderReader, u64)> {
        if let Some(option) = self.list_option() {
            return Err(misplaced(option, "list", Format::Images));
        }
        let options = self.folder_options().own_keys(own_keys);
        let folder = if paths.iter().all(|path| format::is_pattern(path)) {
            if let Some(pattern) = self.pattern.first() {
                let message = format!("{pattern} was given, but the source is a pattern too");
                return Err(Error::new(ErrorKind::Invalid, message)
                    .with_option("pattern")
                    .advise("give the folder as the source"));
            }
            options.patterns(paths.iter().filter_map(|path| path.to_str()))?
        } else {
            let [path] = paths else {
                let expected = "expected a folder, an archive, or patterns alone";
                let message = format!("{expected}, found {} names", paths.len());
                return Err(Error::new(ErrorKind::Invalid, message));
            };
            match self.pattern.is_empty() {
                _ if storage::is_url(path) => {
                    options.zip(path, &self.pattern).map_err(|error| match error.kind() {
                        ErrorKind::NotFound => error.advise(
                            "folders behind URLs are not listed: read a table that lists the images, \
                             as --from list does",
                        ),
                        _ => error,
                    })?
                }
                _ if path.is_file() => options.zip(path, &self.pattern)?,
                true => options.folder(path)?,
                false => options.root(path).patterns(&self.pattern)?,
            }
        };
        let skipped = folder.skipped();
        Ok((folder, skipped))
    }

    /// Images of a list.
    fn open_list(&self, list: &Path) -> Result<ImageFolderReader> {
        if !self.pattern.is_empty() {
            return Err(misplaced("pattern", "images", Format::List));
        }
        let mut options = self.folder_options();
        if let Some(root) = &self.root {
            options = options.root(root);
        }
        if let Some(header) = self.header {
            options = options.header(header);
        }
        #[cfg(feature = "formats")]
        {
            options = options.delimiter(self.delimiter_of(Format::List, list)?);
        }
        options = options.guess_types(self.guess_types).quotes(!self.plain_quotes);
        options.list(list)
    }

    fn folder_options(&self) -> FolderOptions {
        let mut options = ImageFolderReader::options().text_labels(self.text_labels);
        options = options.include(&self.include).exclude(&self.exclude);
        options = options.allow_outside(self.allow_outside);
        if let Some(labels) = &self.labels {
            options = options.labels(Labels::file(labels));
        }
        match self.max_bytes {
            Some(bytes) => options.max_bytes(bytes),
            None => options,
        }
    }

    /// An option that says what happens to images.
    fn image_edit(&self) -> Option<&'static str> {
        match () {
            () if self.resize.is_some() => Some("resize"),
            () if self.image_format.is_some() => Some("image_format"),
            () if self.verify_images => Some("verify_images"),
            () => None,
        }
    }

    /// An option that says how that is done.
    fn image_detail(&self) -> Option<&'static str> {
        match () {
            () if self.upscale => Some("upscale"),
            () if self.quality.is_some() => Some("quality"),
            () if self.subsampling.is_some() => Some("subsampling"),
            () if !self.image_fields.is_empty() => Some("image_fields"),
            () if self.max_pixels.is_some() => Some("max_pixels"),
            () => None,
        }
    }
}

/// Whether this is a file, or is behind a URL, where there are no folders.
fn is_file_or_url(path: &Path) -> bool {
    storage::is_url(path) || path.is_file()
}

fn misplaced(option: &'static str, formats: &str, format: Format) -> Error {
    let message = format!("is for {formats}, but this is {format}");
    Error::new(ErrorKind::Invalid, message).with_option(option)
}

/// Fails for options about images that would change nothing, or that this build does not have.
fn check_images(options: &ReadOptions) -> Result<()> {
    match (options.image_edit(), options.image_detail()) {
        (None, Some(option)) => Err(Error::new(
            ErrorKind::Invalid,
            "changes nothing, as images are neither resized, encoded nor verified",
        )
        .with_option(option)
        .with_remedy(crate::error::Remedy::EditImages)),
        (Some(_), _) => image_options(options).map(drop),
        (None, None) => Ok(()),
    }
}

#[cfg(feature = "images")]
fn image_options(options: &ReadOptions) -> Result<super::ImageOptions> {
    let is_jpeg = !matches!(options.image_format.as_deref(), Some("png" | "webp"));
    let lossy = options.quality.map(|_| "quality");
    let lossy = lossy.or(options.subsampling.as_ref().map(|_| "subsampling"));
    if let Some(option) = lossy.filter(|_| !is_jpeg) {
        let message = "is for JPEG: PNG and WebP are written without loss";
        return Err(Error::new(ErrorKind::Invalid, message).with_option(option));
    }
    let mut image = super::ImageOptions::new()
        .upscale(options.upscale)
        .verify(options.verify_images)
        .fields(&options.image_fields);
    if let Some(size) = &options.resize {
        image = image.resize(parsed("resize", size)?);
    }
    if let Some(format) = &options.image_format {
        image = image.format(parsed("image_format", format)?);
    }
    if let Some(quality) = options.quality {
        image = image.quality(quality);
    }
    if let Some(subsampling) = &options.subsampling {
        image = image.subsampling(parsed("subsampling", subsampling)?);
    }
    Ok(match options.max_pixels {
        Some(max) => image.max_pixels(max),
        None => image,
    })
}

/// The value of an option, whose name is part of the error.
#[cfg(feature = "images")]
fn parsed<T: std::str::FromStr<Err = Error>>(option: &'static str, text: &str) -> Result<T> {
    text.parse().map_err(|error: Error| error.with_option(option))
}

#[cfg(not(feature = "images"))]
fn image_options(options: &ReadOptions) -> Result<()> {
    match options.image_edit() {
        Some(option) => Err(Error::new(ErrorKind::Unsupported, "is not in this build of kiste")
            .with_option(option)
            .with_remedy(crate::error::Remedy::Feature("images"))),
        None => Ok(()),
    }
}

/// The same samples, with a remark about values in the names of folders, where they are left out.
fn with_remarks(samples: Samples, format: Format, paths: &[PathBuf]) -> Samples {
    match samples {
        Samples::Units(input)
            if format.leaves_out().iter().any(|(kind, _)| *kind == LeftOut::PathValue) =>
        {
            Samples::Units(PathValues::noted(input, paths))
        }
        samples => samples,
    }
}

/// The same samples, with their images as asked for.
#[cfg(feature = "images")]
fn with_images(samples: Samples, options: &ReadOptions) -> Result<Samples> {
    use super::Images;
    if options.image_edit().is_none() {
        return Ok(samples);
    }
    let images = image_options(options)?;
    Ok(match samples {
        Samples::Units(input) => Samples::units(Images::new(input, images)),
        Samples::Stream(source) => Samples::Stream(Box::new(Images::new(source, images))),
    })
}

#[cfg(not(feature = "images"))]
fn with_images(samples: Samples, _: &ReadOptions) -> Result<Samples> {
    Ok(samples)
}

/// The input with the limit that was given.
fn within<T>(input: T, max: Option<u64>, limit: fn(T, u64) -> T) -> T {
    match max {
        Some(max) => limit(input, max),
        None => input,
    }
}

/// The input whose keys are this field.
fn with_key<'a, T>(input: T, key: Option<&'a str>, set: fn(T, &'a str) -> T) -> T {
    match key {
        Some(key) => set(input, key),
        None => input,
    }
}

/// One source after the other: in units, if all are.
fn each(paths: &[PathBuf], open: impl Fn(&Path, KeyNames) -> Result<Samples>) -> Result<Samples> {
    let names = KeyNames::of(paths);
    let open = |(at, path): (usize, &PathBuf)| open(path, names.range(at..at + 1));
    one_after_the_other(paths.iter().enumerate().map(open).collect::<Result<_>>()?)
}

fn one_after_the_other(mut all: Vec<Samples>) -> Result<Samples> {
    if all.len() == 1 {
        return Ok(all.remove(0));
    }
    if all.iter().any(|samples| matches!(samples, Samples::Stream(_))) {
        let sources = all.into_iter().map(Samples::into_source).collect();
        return Ok(Samples::Stream(Box::new(ChainedStreams::new(sources))));
    }
    let input = |samples| match samples {
        Samples::Units(input) => Some(input),
        Samples::Stream(_) => None,
    };
    Ok(Samples::units(Chained::new(all.into_iter().filter_map(input).collect())?))
}

/// Folders of MDS. Their shards have the same names in all of them.
fn mds(paths: &[PathBuf]) -> Result<Vec<MdsReader>> {
    let all = paths.iter().map(MdsReader::open).collect::<Result<Vec<_>>>()?;
    let shards: Vec<PathBuf> = all.iter().flat_map(MdsReader::shard_paths).collect();
    let (names, mut before) = (KeyNames::of(&shards), 0);
    let called = all.into_iter().map(|mds| {
        let shards = before..before + mds.units();
        before = shards.end;
        mds.called(names.range(shards))
    });
    Ok(called.collect())
}

fn only<'a>(paths: &'a [PathBuf], what: &str) -> Result<&'a Path> {
    match paths {
        [path] => Ok(path),
        _ => {
            let message = format!("expected {what} alone, found {} names", paths.len());
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}

/// Images and perhaps labels, in either order: labels have one dimension.
fn mnist(paths: &[PathBuf], max_bytes: Option<u64>) -> Result<MnistReader> {
    // The fourth byte of an idx file is its number of dimensions.
    let is_labels = |path: &Path| format::head(path, 4).is_ok_and(|head| head.get(3) == Some(&1));
    let options = within(MnistReader::options(), max_bytes, MnistOptions::max_bytes);
    match paths {
        [images] => options.open(images),
        [labels, images] if is_labels(labels) && !is_labels(images) => {
            options.labels(labels).open(images)
        }
        [images, labels] => options.labels(labels).open(images),
        _ => {
            let expected = "expected a file of images and one of labels";
            let message = format!("{expected}, found {} names", paths.len());
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}
