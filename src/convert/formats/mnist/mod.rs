//! MNIST and similar data sets: idx files.

mod read;

use std::path::Path;

pub use read::{MnistOptions, MnistReader};

use crate::convert::carried::{Handling as H, LeftOut as L};
use crate::convert::compressed;
use crate::convert::formats::def::{FormatDef, READ};
use crate::convert::samples::Samples;
use crate::error::{Error, ErrorKind};

pub(in crate::convert) static MNIST: FormatDef = FormatDef {
    name: "mnist",
    title: "idx files of MNIST",
    begins: |file| matches!(file.head, [0, 0, 8 | 9 | 11..=14, 1..=4, ..]),
    leaves_out: &[(L::AfterEnd, H::Refused)],
    // Images and perhaps labels, in either order: labels have one dimension.
    open: |sources| {
        let options = sources.within(MnistReader::options(), MnistOptions::max_bytes);
        let reader = match sources.paths {
            [images] => options.open(images),
            [labels, images] if is_labels(labels) && !is_labels(images) => {
                options.labels(labels).open(images)
            }
            [images, labels] => options.labels(labels).open(images),
            paths => {
                let expected = "expected a file of images and one of labels";
                let message = format!("{expected}, found {} names", paths.len());
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        };
        reader.map(Samples::units)
    },
    ..READ
};

/// The fourth byte of an idx file is its number of dimensions.
fn is_labels(path: &Path) -> bool {
    compressed::head(path, 4).is_ok_and(|head| head.get(3) == Some(&1))
}
