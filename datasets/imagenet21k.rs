//! ImageNet-21K in the winter release of 2021: 11 million photos in 10,450 classes.

use std::collections::HashMap;

use super::ilsvrc2012::{make, recoder};
use super::parts::{Emit, Samples, Tar, TarFile, lines};
use super::{Classes, Dataset, File, Names, Opening, Pass, Split, Take};
use crate::Value;
use crate::error::Result;

/// A synset of WordNet that is a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Synset {
    /// Its number: `n00005787`.
    pub(super) name: String,
    /// Its meaning.
    pub(super) words: String,
    /// The label of what is one step more general, if that is a class too.
    pub(super) parent: Option<u32>,
}

/// All synsets by label.
pub(super) fn synsets() -> Vec<Synset> {
    let synset = |line: String| {
        let mut fields = line.splitn(3, ' ').map(str::to_owned);
        let (name, parent) = (fields.next(), fields.next());
        Synset {
            name: name.unwrap_or_default(),
            parent: parent.and_then(|parent| parent.parse().ok()),
            words: fields.next().unwrap_or_default(),
        }
    };
    lines(include_bytes!("data/imagenet21k_synsets.txt.gz")).into_iter().map(synset).collect()
}

/// For each label the labels that it stands for: itself, its parent, and so on.
pub(super) fn label_trees() -> Vec<Vec<u32>> {
    let synsets = synsets();
    let tree = |label: u32| {
        let parent = |&label: &u32| synsets.get(label as usize)?.parent;
        // A loop, which does not occur, would have an end too.
        std::iter::successors(Some(label), parent).take(synsets.len()).collect()
    };
    (0..synsets.len() as u32).map(tree).collect()
}

/// The words of the synsets.
pub(super) fn classes() -> Vec<String> {
    synsets().into_iter().map(|synset| synset.words).collect()
}

/// ImageNet-21K.
pub(super) static IMAGENET21K: Dataset = Dataset {
    name: "ImageNet21k",
    title: "11 million photos in 10,450 classes, the winter release of 2021",
    notes: "Classes are the synsets with more than 500 photos; the first 50 of each by name are the \
            validation set. The photos of a synset are in memory together while they are sorted: some \
            hundred megabytes. For --compress and what happens to photos without it see ILSVRC2012. \
            \"kiste shuffle\" shuffles afterwards.",
    url: "https://image-net.org/download",
    licence: "research and education only, see the page",
    citation: "Tal Ridnik, Emanuel Ben-Baruch, Asaf Noy, Lihi Zelnik-Manor: ImageNet-21K Pretraining \
               for the Masses. arXiv:2104.10972, 2021",
    files: &[File::new("data", "winter21_whole.tar.gz").md5("ab313ce03179fd803a401b02c651c0a2")],
    splits: &[Split::new("train", 11_060_239), Split::new("val", 522_500)],
    fields: &[
        ("key", "the name of the image file"),
        ("image", "JPEG"),
        ("label", "0 to 10449"),
        ("label_tree", "the label, its parent's label, and so on"),
    ],
    classes: &[Classes::new("label", Names::Table(classes))],
    takes: &[Take::Compress, Take::Subsampling],
    read,
};

/// Photos of a synset that are of the validation set.
const VALIDATION: usize = 50;
/// Places of the splits.
const TRAIN: usize = 0;
const VAL: usize = 1;

/// A photo with its name and label.
type Photo = (String, Vec<u8>, u32);

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let (path, limits) = (opening.path("data"), opening.options.limits);
    let read = move |emit: &mut Emit<'_, (usize, Photo)>| {
        let labels: HashMap<String, u32> =
            synsets().into_iter().zip(0..).map(|(synset, label)| (synset.name, label)).collect();
        Tar::open(&path, limits)?.for_each(|synset| {
            let file = synset.name().rsplit('/').next().unwrap_or_default();
            let name = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
            match labels.get(name) {
                Some(&label) => read_synset(synset, label, emit),
                None => Ok(()),
            }
        })
    };
    let (recoder, trees) = (recoder(opening.options), label_trees());
    let make = move |(name, bytes, label): Photo| {
        let tree = trees[label as usize].iter().map(|&label| Value::from(label)).collect();
        let tree = Value::Array(tree);
        make(&recoder, &name, &bytes, |sample| {
            sample.value("label", label).value("label_tree", tree)
        })
    };
    Ok(vec![Pass::several(IMAGENET21K.splits, Samples::mixed(read, make))])
}

/// Sorted by name, so that the validation set is what others have in theirs.
fn read_synset(
    synset: TarFile<'_, '_>,
    label: u32,
    emit: &mut Emit<'_, (usize, Photo)>,
) -> Result<()> {
    let mut images = Vec::new();
    synset.for_each(|image| {
        images.push((image.name().to_owned(), image.read()?));
        Ok(())
    })?;
    images.sort();
    for (at, (name, bytes)) in images.into_iter().enumerate() {
        let split = if at < VALIDATION { VAL } else { TRAIN };
        emit((split, (name, bytes, label)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_whole() {
        let (synsets, trees) = (synsets(), label_trees());
        assert_eq!((synsets.len(), trees.len()), (10_450, 10_450));
        let first = Synset { name: "n00005787".into(), words: "benthos".into(), parent: None };
        assert_eq!((&synsets[0], &trees[0]), (&first, &vec![0]));
        assert_eq!(trees[10], [10, 9, 66, 65, 144]);
        assert_eq!(trees.iter().map(Vec::len).max(), Some(12));
    }
}
