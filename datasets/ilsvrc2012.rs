//! ILSVRC 2012, which most people call ImageNet: 1.3 million photos in 1,000 classes.

use std::collections::HashMap;

use super::parts::{Emit, Made, Recoder, Sample, Samples, Tar, lines};
use super::{Classes, Dataset, File, Names, Opening, Options, Pass, Split, Take};
use crate::error::{Error, ErrorKind, Result};

/// The synsets of WordNet by label, each with its words.
pub(super) fn synsets() -> Vec<(String, String)> {
    let split = |line: String| {
        let (synset, words) = line.split_once(' ').unwrap_or((&line, ""));
        (synset.to_owned(), words.to_owned())
    };
    lines(include_bytes!("data/ilsvrc2012_synsets.txt.gz")).into_iter().map(split).collect()
}

/// The labels of the images of the validation set, starting with `ILSVRC2012_val_00000001.JPEG`.
pub(super) fn validation_labels() -> Vec<u32> {
    let labels = lines(include_bytes!("data/ilsvrc2012_val.txt.gz"));
    labels.iter().filter_map(|label| label.parse().ok()).collect()
}

/// The words of the synsets.
pub(super) fn classes() -> Vec<String> {
    synsets().into_iter().map(|(_, words)| words).collect()
}

/// ILSVRC 2012.
pub(super) static ILSVRC2012: Dataset = Dataset {
    name: "ILSVRC2012",
    title: "1.3 million photos in 1,000 classes: ImageNet, to most people",
    notes: "JPEG files that can be decoded stay as they are; those in CMYK and in other formats become \
            JPEG of quality 98. With --compress all photos that are large enough are re-encoded, and \
            become as small as 500 x 375 pixels. Photos that cannot be decoded are left out, and reported. \"kiste \
            shuffle\" shuffles afterwards.",
    url: "https://image-net.org/challenges/LSVRC/2012/",
    licence: "research and education only, see the page",
    citation: "Olga Russakovsky et al.: ImageNet Large Scale Visual Recognition Challenge. \
               IJCV 115(3), 2015",
    files: &[
        File::new("train", "ILSVRC2012_img_train.tar")
            .md5("1d675b47d978889d74fa0da5fadfb00e")
            .size(147_897_477_120)
            .splits(&["train"]),
        File::new("val", "ILSVRC2012_img_val.tar")
            .md5("29b22e2961454d5413ddabcf34fc5622")
            .size(6_744_924_160)
            .splits(&["val"]),
    ],
    splits: &[Split::new("train", 1_281_167), Split::new("val", 50_000)],
    fields: &[
        ("key", "the name of the image file"),
        ("image", "JPEG"),
        ("label", "0 to 999: synsets in the order of their numbers"),
    ],
    classes: &[Classes::new("label", Names::Table(classes))],
    takes: &[Take::Compress, Take::Subsampling],
    read,
};

/// A photo with its name and label.
type Photo = (String, Vec<u8>, u32);

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let splits = ILSVRC2012.splits.iter().filter(|split| opening.wants(split.name));
    let pass = |split: &'static Split| {
        let (path, limits) = (opening.path(split.name), opening.options.limits);
        let read = move |emit: &mut Emit<'_, Photo>| match split.name {
            "train" => read_train(Tar::open(&path, limits)?, emit),
            _ => read_val(Tar::open(&path, limits)?, emit),
        };
        let recoder = recoder(opening.options);
        let make = move |(name, bytes, label): Photo| {
            make(&recoder, &name, &bytes, |sample| sample.value("label", label))
        };
        Pass::new(split, Samples::stream(read, make))
    };
    Ok(splits.map(pass).collect())
}

/// How photos are encoded with these options.
pub(super) fn recoder(options: &Options) -> Recoder {
    let subsampling = options.subsampling.unwrap_or_default();
    Recoder { quality: options.compress, subsampling, limits: options.limits }
}

/// A sample, or why it cannot be made.
pub(super) fn make(
    recoder: &Recoder,
    name: &str,
    bytes: &[u8],
    labelled: impl for<'a> FnOnce(Sample<'a>) -> Sample<'a>,
) -> Result<Made> {
    match recoder.recode(bytes) {
        Ok(image) => {
            let packed = labelled(Sample::new(name).bytes("image", &image)).pack()?;
            Ok(packed.into())
        }
        // It is not known whether it is good.
        Err(error) if error.kind() == ErrorKind::Limit => Err(error.with_key(name)),
        Err(error) => Ok(Made::Skipped { key: name.to_owned(), why: error.message().to_owned() }),
    }
}

/// An archive for each synset: `n01440764.tar`.
fn read_train(tar: Tar, emit: &mut Emit<'_, Photo>) -> Result<()> {
    let labels: HashMap<String, u32> =
        synsets().into_iter().zip(0..).map(|((synset, _), label)| (synset, label)).collect();
    tar.for_each(|synset| {
        let name = synset.name().trim_end_matches(".tar");
        let Some(&label) = labels.get(name) else {
            let message = format!("expected an archive of one of the synsets, found {name:?}");
            return Err(Error::new(ErrorKind::Damaged, message));
        };
        synset.for_each(|image| emit((image.name().to_owned(), image.read()?, label)))
    })
}

/// All images in one archive: `ILSVRC2012_val_00000001.JPEG`.
fn read_val(tar: Tar, emit: &mut Emit<'_, Photo>) -> Result<()> {
    let labels = validation_labels();
    tar.for_each(|image| {
        let name = image.name().to_owned();
        let digits = name.strip_prefix("ILSVRC2012_val_").and_then(|n| n.strip_suffix(".JPEG"));
        let number = digits.filter(|digits| digits.len() == 8).and_then(|n| n.parse().ok());
        let label = number.and_then(|number: usize| labels.get(number.checked_sub(1)?));
        let Some(&label) = label else {
            let message = format!("expected an image of the validation set, found {name:?}");
            return Err(Error::new(ErrorKind::Damaged, message));
        };
        emit((name, image.read()?, label))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_whole() {
        let (synsets, labels) = (synsets(), validation_labels());
        assert_eq!((synsets.len(), labels.len()), (1000, 50_000));
        assert_eq!(synsets[999].0, "n15075141");
        assert_eq!(synsets[0], ("n01440764".into(), "tench, Tinca tinca".into()));
        assert_eq!(synsets[999].0, "n15075141");
        assert!(synsets.is_sorted());
        // Fifty of each.
        assert!(
            (0..1000).all(|label| labels.iter().filter(|&&found| found == label).count() == 50)
        );
    }
}
