//! Progress bars for the steps of a view.

use std::cell::RefCell;

use kiste::compose::Doing;

use crate::output::Output;
use crate::progress::Progress;

/// How far a view is that is being made, step by step.
pub(crate) struct ViewProgress<'a> {
    output: &'a Output,
    /// The step and its bar.
    step: RefCell<Option<(String, Progress)>>,
}

impl<'a> ViewProgress<'a> {
    pub(crate) fn new(output: &'a Output) -> ViewProgress<'a> {
        ViewProgress { output, step: RefCell::new(None) }
    }

    pub(crate) fn hear(&self, doing: Doing<'_>) -> kiste::Result<()> {
        let mut step = self.step.borrow_mut();
        if step.as_ref().is_none_or(|(known, _)| known != doing.what) {
            let bar = self.output.progress(doing.what, Some(doing.total));
            *step = Some((doing.what.to_owned(), bar));
        }
        step.as_ref().map_or(Ok(()), |(_, bar)| bar.reaches(doing.done))
    }
}
