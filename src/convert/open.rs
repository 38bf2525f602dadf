//! Opens the sources of a conversion in their format.

use std::path::{Path, PathBuf};

use super::conversion::{Conversion, OwnInput};
use super::format::{Format, Keys, Output};
use super::formats::def::Opening;
use super::kept_fields::KeptFields;
use super::layout::{Group, Layout, PathValues, Placed};
use super::loaded::LoadFiles;
use super::named_labels::{FIELDS, NameLabels};
use super::read_options::{ReadOptions, TEXTS, misplaced};
pub(super) use super::samples::Samples;
use super::{BadInput, Monitor, Notice, output_checks, source_file, source_patterns};
use crate::error::{Error, ErrorKind, Result};
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
    /// Notes for the user about them.
    pub(super) notices: Vec<Notice>,
}

impl Opened {
    /// Tells the monitor what there is to know.
    pub(super) fn tell(&mut self, monitor: &mut dyn Monitor) {
        self.notices.drain(..).for_each(|notice| monitor.notice(notice));
    }
}

impl Conversion {
    /// Opens the sources.
    pub(super) fn open(&self) -> Result<Opened> {
        if let Some(OwnInput(input)) = &self.input {
            check_images(&self.options.read)?;
            let samples = self.with_files(Samples::units(input.clone()))?;
            let samples = self.with_label_names(samples, None)?;
            let samples = with_images(samples, &self.options.read)?;
            return Ok(Opened { format: None, samples, skipped_files: 0, notices: Vec::new() });
        }
        source_file::check_urls(&self.sources)?;
        output_checks::check_sources(&self.sources)?;
        let options = &self.options.read;
        let paths =
            source_patterns::expand(&self.sources, self.options.from, options.asks_for_images())?;
        source_file::forget_versions(&paths);
        self.check_replaced(&paths)?;
        let from = match self.options.from {
            None if options.root.is_some()
                && options.load.is_empty()
                && !paths.iter().all(|path| {
                    Format::of_input(path).is_ok_and(|format| format == Format::Coco)
                })
                && paths.iter().all(|path| is_file_or_url(path)) =>
            {
                Some(Format::List)
            }
            from => from,
        };
        let Layout { format, groups, root, mut remarks } = Layout::of(&paths, from)?;
        if paths.iter().any(|path| path == Path::new("-")) {
            check_piped(format, options)?;
        }
        options.check(format)?;
        format.check_available()?;
        check_images(options)?;
        let kept = self.options.kept_fields();
        let splits = self.splits_of(format, groups, &kept)?;
        let chosen = self.chosen(&splits)?;
        let labels = self.labels_of(format, &splits, &kept)?;
        let files = groups_of_files(format, &splits.groups);
        let values = PathValues::of(&root, files, &kept)?;
        let (mut all, mut skipped_files, mut notices) = (Vec::new(), 0, Vec::new());
        for group in &chosen {
            let mut opening = self.opening(&group.paths, &kept);
            opening.split = group.split.as_deref().filter(|_| splits.are_inside);
            opening.labels = labels.as_deref();
            opening.counts_rest = all.is_empty();
            notices.append(&mut (format.def().notices)(&opening)?);
            let samples = (format.def().open)(&mut opening)?;
            skipped_files += opening.skipped_files;
            let split = group.split.as_deref().filter(|_| options.merge_splits);
            all.push(match samples {
                Samples::Units(input) => {
                    let remarks = std::mem::take(&mut remarks);
                    let prefix = group.prefix.as_deref();
                    Samples::Units(Placed::input(input, values.clone(), split, prefix, remarks))
                }
                samples => samples,
            });
        }
        if format.def().keys == Keys::Own && self.options.replaces_key() {
            notices.push(Notice::KeysReplaced);
        }
        let samples = Samples::chained(all)?;
        if format == Format::Dataset {
            output_checks::check_is_other(&self.sources, &self.output)?;
        }
        let samples = self.with_files(samples)?;
        let names_labels = !matches!(format, Format::Images | Format::List);
        let samples =
            if names_labels { self.with_label_names(samples, Some(format))? } else { samples };
        let samples = with_images(samples, options)?;
        Ok(Opened { format: Some(format), samples, skipped_files, notices })
    }

    /// The same samples, with the contents of files that fields name.
    fn with_files(&self, samples: Samples) -> Result<Samples> {
        let read = &self.options.read;
        if read.load.is_empty() {
            return Ok(samples);
        }
        let stream = match (&samples, &self.sources[..], &read.root) {
            (Samples::Stream(_), [_, _, ..], None) => {
                let message = "needs a folder, as paths from standard input and from files are relative to different ones";
                return Err(Error::new(ErrorKind::Invalid, message)
                    .with_option("load")
                    .advise("--root says which folder"));
            }
            (_, sources, _) => sources.first().cloned().unwrap_or_default(),
        };
        let load = LoadFiles {
            fields: read.load.clone(),
            in_key: self.options.key_fields(),
            root: read.root.clone(),
            stream,
            outside: read.allow_outside,
            max_bytes: read.max_bytes,
        };
        Ok(samples.changed(load))
    }

    /// The same samples, with the names of labels in place of their numbers, if that is asked for.
    fn with_label_names(&self, samples: Samples, format: Option<Format>) -> Result<Samples> {
        let fields = if format == Some(Format::Coco) { &FIELDS[1..] } else { &FIELDS[..] };
        if !self.options.read.text_labels {
            return Ok(samples);
        }
        match samples.label_names().map(<[String]>::to_vec) {
            Some(names) => Ok(samples.changed(NameLabels { names, fields })),
            None => Err(Error::new(
                ErrorKind::Invalid,
                "needs names of labels, and the source has none",
            )
            .with_option("text_labels")),
        }
    }

    /// Fails if sources are among the shards that would be replaced: the samples of the others would be lost.
    fn check_replaced(&self, paths: &[PathBuf]) -> Result<()> {
        let form = self.export_form(self.output_format());
        if !self.options.overwrite || form.output() != Output::Shards {
            return Ok(());
        }
        for target in self.targets() {
            // A folder that is not there is an error when the output is made.
            for shard in form.shards(&target).unwrap_or_default() {
                output_checks::check_is_other(paths, &shard)?;
            }
        }
        Ok(())
    }

    /// The options that the format gets.
    pub(super) fn opening<'a>(&'a self, paths: &'a [PathBuf], kept: &'a KeptFields) -> Opening<'a> {
        Opening {
            split: None,
            labels: None,
            counts_rest: true,
            paths,
            read: &self.options.read,
            key: self.own_key(),
            replaces_key: self.options.replaces_key(),
            stops: self.options.bad == BadInput::Stop,
            unit_bytes: self.unit_bytes(paths),
            kept,
            storage: self.storage(),
            by_calls: !self.how.mapped,
            skipped_files: 0,
        }
    }

    /// Bytes of a unit where a number of shards is asked for: few enough that these are about as large as each
    /// other.
    fn unit_bytes(&self, paths: &[PathBuf]) -> Option<u64> {
        let shards = self.options.shards? as u64;
        let size = |path: &PathBuf| source_file::size_of(path).ok().flatten();
        let bytes = paths.iter().filter_map(size).fold(0, u64::saturating_add);
        Some((bytes / shards.saturating_mul(UNITS).max(1)).clamp(1, UNIT_BYTES))
    }
}

impl ReadOptions {
    /// Fails for an option that would change nothing: it was meant for something else.
    fn check(&self, format: Format) -> Result<()> {
        let table = matches!(format, Format::Csv | Format::Tsv | Format::List);
        let (option, formats) = match () {
            () if !self.texts.is_empty() && format != Format::Tfrecord => ("texts", "tfrecord"),
            () if !self.lists.is_empty() && format != Format::Tfrecord => ("lists", "tfrecord"),
            () if self.max_bytes.is_some() && format == Format::Dataset => {
                ("max_bytes", "what other programs wrote")
            }
            () if self.guess_types && !table => ("guess_types", "csv, tsv and list"),
            () if self.delimiter.is_some() && !table => ("delimiter", "csv, tsv and list"),
            () if self.plain_quotes && !table => ("quote", "csv, tsv and list"),
            () if self.plain_json && format != Format::Jsonl => ("plain_json", "jsonl"),
            () if self.encoding.is_some()
                && !table
                && !matches!(format, Format::Jsonl | Format::Images | Format::Coco) =>
            {
                ("encoding", TEXTS)
            }
            () if matches!(format, Format::Images | Format::List) => return Ok(()),
            () => match self.folder_option() {
                Some("root") if !self.load.is_empty() || format == Format::Coco => return Ok(()),
                Some(option) => (option, "images and list"),
                None => return Ok(()),
            },
        };
        Err(misplaced(option, formats, format.name()))
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

/// Fails for what cannot be read from standard input.
fn check_piped(format: Format, options: &ReadOptions) -> Result<()> {
    let advice = "write it to a file and name that";
    if !format.def().is_piped {
        let piped = Format::readable().filter(|format| format.def().is_piped);
        let names: Vec<&str> = piped.map(Format::name).collect();
        let names = names.join(", ");
        let message = format!("standard input is read as one of {names}, but this is {format}");
        return Err(Error::new(ErrorKind::Invalid, message).at("-").advise(advice));
    }
    if options.guess_types && format != Format::Jsonl {
        let message = "reads tables twice, and standard input can be read only once";
        return Err(Error::new(ErrorKind::Invalid, message)
            .with_option("guess_types")
            .advise(advice));
    }
    Ok(())
}

/// The files of these groups, if names of folders say something about them: of images they are labels.
fn groups_of_files(format: Format, groups: &[Group]) -> impl Iterator<Item = &PathBuf> {
    let groups = groups.iter().filter(move |_| format.is_in_folders());
    groups.flat_map(|group| &group.paths)
}

/// Whether this is a file, or is behind a URL, where there are no folders.
fn is_file_or_url(path: &Path) -> bool {
    storage::is_url(path) || path.is_file()
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
        (Some(_), _) => {
            // As text it is part of plans, which are read again.
            let size = options.resize.map(|size| size.to_string().parse::<super::Resize>());
            size.transpose().map_err(|error| error.with_option("resize"))?;
            image_options(options).map(drop)
        }
        (None, None) => Ok(()),
    }
}

#[cfg(feature = "images")]
fn image_options(options: &ReadOptions) -> Result<super::ImageOptions> {
    use super::StoredAs;
    let is_jpeg = !matches!(options.image_format, Some(StoredAs::Png | StoredAs::Webp));
    let lossy = options.quality.map(|_| "quality");
    let lossy = lossy.or(options.subsampling.map(|_| "subsampling"));
    if let Some(option) = lossy.filter(|_| !is_jpeg) {
        let message = "is for JPEG: PNG and WebP are written without loss";
        return Err(Error::new(ErrorKind::Invalid, message).with_option(option));
    }
    let mut image = super::ImageOptions::new()
        .upscale(options.upscale)
        .verify(options.verify_images)
        .fields(&options.image_fields);
    if let Some(size) = options.resize {
        image = image.resize(size);
    }
    if let Some(format) = options.image_format {
        image = image.format(format);
    }
    if let Some(quality) = options.quality {
        image = image.quality(quality);
    }
    if let Some(subsampling) = options.subsampling {
        image = image.subsampling(subsampling);
    }
    Ok(match options.max_pixels {
        Some(max) => image.max_pixels(max),
        None => image,
    })
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

/// The same samples, with their images as asked for.
#[cfg(feature = "images")]
fn with_images(samples: Samples, options: &ReadOptions) -> Result<Samples> {
    if options.image_edit().is_none() {
        return Ok(samples);
    }
    Ok(samples.changed(image_options(options)?))
}

#[cfg(not(feature = "images"))]
fn with_images(samples: Samples, _: &ReadOptions) -> Result<Samples> {
    Ok(samples)
}
