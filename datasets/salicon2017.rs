//! SALICON as of 2017: the images of 2015, with other fixations.

use super::salicon2015::{CITATION, FIELDS, IMAGES, SPLITS, read};
use super::{Dataset, File, Take};

/// SALICON as of 2017.
pub(super) static SALICON2017: Dataset = Dataset {
    name: "SALICON2017",
    title: "20,000 photos of MS COCO, and where people moved a mouse that makes them sharp; second edition",
    notes: "The files have the same names as the ones of 2015, so the two need a folder each.",
    url: "http://salicon.net/challenge-2017/",
    licence: "MS COCO for the photos, else not stated",
    citation: CITATION,
    files: &[
        IMAGES,
        File::new("fixations", "fixations.zip")
            .url(
                "https://drive.usercontent.google.com/download?\
                 id=0B2hsWbciDVedS1lBZHprdXFoZkU&export=download&confirm=t",
            )
            .md5("462b70f4f9e8ea446ac628e46cea8d3d"),
    ],
    splits: SPLITS,
    fields: FIELDS,
    classes: &[],
    takes: &[Take::Shuffle],
    read,
};
