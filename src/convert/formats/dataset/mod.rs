//! Datasets, as the input of a conversion.

mod read;

pub use read::DatasetInput;

use crate::compose::{View, is_recipe};
use crate::convert::carried::{Carried, Handling as H, LeftOut as L};
use crate::convert::formats::def::{FormatDef, Keys, Output, READ};
use crate::convert::formats::jsonl::JsonLinesWriter;
use crate::convert::samples::Samples;
use crate::dataset::names::names_index;
use crate::dataset::{DatasetReader, check_finished, names_shards};
use crate::format::dataset::shards::is_manifest;
use crate::storage;

pub(in crate::convert) static DATASET: FormatDef = FormatDef {
    name: "dataset",
    aliases: &["datadings", "msgpack"],
    title: "a dataset of kiste or datadings",
    // A recipe, a manifest, or a pattern of data files.
    is_called: |path| {
        let is_of_data = || path.extension().is_some_and(|ending| ending == "msgpack");
        is_recipe(path)
            || names_index(path)
            || path.to_str().is_some_and(is_manifest)
            || (names_shards(path) && is_of_data())
    },
    is_named: |file| file.name.ends_with(".msgpack"),
    in_folder: Some(|file| file.name.ends_with(".msgpack")),
    keys: Keys::Own,
    leaves_out: &[
        (L::PathValue, H::Remarked),
        (L::MixedSplits, H::Remarked),
        (L::OtherFile, H::Remarked),
    ],
    open: |sources| {
        Samples::of_each(sources.paths, |path, names| {
            if is_recipe(path) {
                let outside = sources.storage.allows_outside();
                let options = View::options().untrusted(sources.by_calls).allow_outside(outside);
                let view = options.open(path, &mut |_| Ok(()))?;
                let input = DatasetInput::of_reader(view.reader().clone())?;
                return Ok(Samples::units(input.called(names)));
            }
            check_finished(path)?;
            let reader = match storage::is_url(path) {
                true => DatasetReader::open(path)?,
                false => DatasetReader::options().storage(sources.storage.clone()).open(path)?,
            };
            Ok(Samples::units(DatasetInput::new(reader)?.called(names)))
        })
    },
    output: Output::File,
    endings: &["msgpack"],
    keeps_labels: true,
    carries: |_, _| Carried::Exact,
    // For a trial, a dataset is as good as its samples in JSON lines.
    create: |new| Ok(Box::new(JsonLinesWriter::create(new.path)?)),
    ..READ
};
