//! CIFAR-10: 60,000 small photos of animals and vehicles.

use super::parts::{Image, Sample, Samples, Tar, encode_png};
use super::{Classes, Dataset, File, Names, Opening, Pass, Split, Take};
use crate::convert::formats::cifar::{Batch, IMAGE};
use crate::error::{Error, ErrorKind, Result};
use crate::format::pickle::Pickle;

/// The names of the labels.
pub(super) const CLASSES: &[&str] =
    &["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

/// CIFAR-10.
pub(super) static CIFAR10: Dataset = Dataset {
    name: "CIFAR10",
    title: "60,000 photos of 32 x 32 pixels in 10 classes",
    notes: "",
    url: "https://www.cs.toronto.edu/~kriz/cifar.html",
    licence: "not stated by its authors",
    citation: "Alex Krizhevsky: Learning Multiple Layers of Features from Tiny Images. \
               Technical report, University of Toronto, 2009",
    files: &[File::new("all", "cifar-10-python.tar.gz")
        .url("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz")
        .md5("c58f30108f718f92721af3b95e74349a")
        .size(170_498_071)],
    splits: &[Split::new("train", 50_000), Split::new("test", 10_000)],
    fields: &[
        ("key", "the name of the image file"),
        ("image", "PNG, 32 x 32, RGB"),
        ("label", "0 to 9"),
    ],
    classes: &[Classes::new("label", Names::List(CLASSES))],
    takes: &[Take::Shuffle],
    read,
};

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let train = ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"];
    let batches = |split: &str| match split {
        "train" => &train[..],
        _ => &["test_batch"],
    };
    let splits = CIFAR10.splits.iter().filter(|split| opening.wants(split.name));
    let pass = |split: &Split| {
        let files = batches(split.name).iter().map(|name| format!("cifar-10-batches-py/{name}"));
        let rows = Rows::read(opening, &files.collect::<Vec<_>>(), &["labels"])?;
        Ok(rows.pass(split, opening, &["label"], |name, _| name.to_owned()))
    };
    splits.map(pass).collect()
}

/// The images of a split with their file names and labels, as they come out of pickles.
pub(super) struct Rows {
    images: Vec<u8>,
    rows: Vec<Row>,
}

struct Row {
    filename: String,
    labels: Vec<i64>,
}

impl Rows {
    /// Reads these files of the archive, and of each these lists of labels.
    pub(super) fn read(opening: &Opening<'_>, names: &[String], labels: &[&str]) -> Result<Rows> {
        let path = opening.path("all");
        let mut files = vec![None; names.len()];
        Tar::open(&path, opening.options.limits)?.for_each(|file| {
            if let Some(at) = names.iter().position(|name| name == file.name()) {
                files[at] = Some(file.read()?);
            }
            Ok(())
        })?;
        let mut rows = Rows { images: Vec::new(), rows: Vec::new() };
        for (name, file) in names.iter().zip(files) {
            let at = |error: Error| {
                let message = format!("file {name:?}: {}", error.message());
                Error::new(error.kind(), message).at(&path)
            };
            let file = file.ok_or_else(|| at(Error::new(ErrorKind::Damaged, "not there")))?;
            rows.add(&file, labels).map_err(at)?;
        }
        Ok(rows)
    }

    fn add(&mut self, bytes: &[u8], labels: &[&str]) -> Result<()> {
        let pickle = Pickle::parse(bytes)?;
        let batch = Batch::of(&pickle, labels)?;
        let none = || Error::new(ErrorKind::Damaged, "expected a list \"filenames\", found none");
        for (index, filename) in batch.filenames.ok_or_else(none)?.into_iter().enumerate() {
            let labels = batch.labels.iter().map(|list| list[index]).collect();
            self.rows.push(Row { filename: filename.to_owned(), labels });
        }
        self.images.extend_from_slice(&batch.images);
        Ok(())
    }

    /// Samples of them, with labels in these fields. `key` makes keys of file names and how many
    /// files of that name there were, this one included.
    pub(super) fn pass(
        self,
        split: &Split,
        opening: &Opening<'_>,
        fields: &'static [&'static str],
        key: impl Fn(&str, usize) -> String,
    ) -> Pass {
        let Rows { images, rows } = self;
        let mut seen = std::collections::HashMap::new();
        let mut items = Vec::with_capacity(rows.len());
        for (index, row) in rows.into_iter().enumerate() {
            let times = seen.entry(row.filename.clone()).or_insert(0);
            *times += 1;
            items.push((index, key(&row.filename, *times), row.labels));
        }
        let make = move |(index, key, labels): (usize, String, Vec<i64>)| {
            let png = encode_png(&interleave(&images[index * IMAGE..][..IMAGE])?)?;
            let mut sample = Sample::new(key).bytes("image", &png);
            for (field, label) in fields.iter().zip(labels) {
                sample = sample.value(field, label);
            }
            sample.pack()
        };
        let total = items.len();
        Pass::new(split, Samples::new(opening.options.order(items), make)).total(total)
    }
}

/// Red, green and blue of each pixel together.
fn interleave(planes: &[u8]) -> Result<Image> {
    let plane = IMAGE / 3;
    let pixels = (0..plane).flat_map(|at| [0, 1, 2].map(|channel| planes[channel * plane + at]));
    Image::new(32, 32, 3, pixels.collect())
}
