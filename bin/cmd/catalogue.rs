//! What the commands about the catalogue share.

use kiste::datasets::{self, Dataset};
use kiste::{Error, Remedy};

use crate::exit::{Failure, Outcome};

/// Without the hint at `--append`, which this command does not have.
pub(super) fn failure(error: Error) -> Failure {
    let is_there = matches!(error.remedy(), Some(Remedy::OverwriteOrAppend));
    let failure = Failure::from(error);
    if is_there { failure.hint("--force replaces it") } else { failure }
}

/// The data set of this name.
pub(super) fn find(name: &str) -> Outcome<&'static Dataset> {
    let hint = "kiste datasets lists all there are";
    datasets::find(name).map_err(|error| Failure::from(error).hint(hint))
}
