//! CIFAR-10 and CIFAR-100, as pickles of Python or as the binary version.
//!
//! An image is 3072 bytes: 32 rows of 32 columns of red, then green, then blue. In the binary
//! version, a label byte comes before each image, or in CIFAR-100 a coarse and a fine one. A pickle
//! is a dict of `data`, an array with one row for each image; `labels`, or `coarse_labels` and
//! `fine_labels`; and `filenames`. Source: the page of the data sets (Krizhevsky).

mod read;

#[cfg(feature = "datasets")]
pub(crate) use read::{Batch, IMAGE};
pub use read::{CifarLabels, CifarReader};

use crate::convert::carried::{Handling as H, LeftOut as L};
use crate::convert::formats::def::{FormatDef, Keys, Opening, READ};
use crate::convert::samples::Samples;
use crate::convert::source_file::size_of;
use crate::error::{Remedy, Result};

pub(in crate::convert) static CIFAR10: FormatDef = FormatDef {
    name: "cifar10",
    title: "CIFAR-10",
    resembled: |file| {
        let size = size_of(file.path).ok().flatten().unwrap_or(0);
        let flaw = match file.head {
            [0x80, 2..=5, ..] => "this is a pickle, which may be CIFAR",
            _ if size > 0 && (size % 3073 == 0 || size % 3074 == 0) => {
                "this may be CIFAR by its size"
            }
            _ => return None,
        };
        Some((flaw, Remedy::NameInput(vec!["cifar10", "cifar100"])))
    },
    keys: Keys::Own,
    leaves_out: &[(L::AfterEnd, H::Remarked), (L::PickleEntry, H::Remarked)],
    open: |sources| open(sources, CifarLabels::Ten),
    ..READ
};

pub(in crate::convert) static CIFAR100: FormatDef = FormatDef {
    name: "cifar100",
    title: "CIFAR-100",
    keys: Keys::Own,
    leaves_out: &[
        (L::AfterEnd, H::Remarked),
        (L::PickleEntry, H::Remarked),
        (L::LabelNames, H::Remarked),
    ],
    open: |sources| open(sources, CifarLabels::Hundred),
    ..READ
};

fn open(sources: &Opening<'_>, labels: CifarLabels) -> Result<Samples> {
    Ok(Samples::units(CifarReader::open_all(sources.paths, labels)?.asked(sources)))
}
