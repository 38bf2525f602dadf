//! Several streams as one: what `Chained` is for inputs that fall into units.

use kiste::convert::Source;

/// The samples of one source after those of the other. None of them has labels: streams are lines.
pub(super) struct Chain {
    sources: Vec<Box<dyn Source>>,
    /// Whose turn it is, and whose the last batch was.
    at: usize,
}

impl Chain {
    pub(super) fn new(sources: Vec<Box<dyn Source>>) -> Chain {
        Chain { sources, at: 0 }
    }
}

impl Source for Chain {
    fn next_batch(&mut self) -> kiste::Result<Vec<kiste::Result<Vec<u8>>>> {
        while let Some(source) = self.sources.get_mut(self.at) {
            let batch = source.next_batch()?;
            if !batch.is_empty() {
                return Ok(batch);
            }
            self.at += 1;
        }
        Ok(Vec::new())
    }

    fn locate(&self, item: usize, error: kiste::Error) -> kiste::Error {
        match self.sources.get(self.at) {
            Some(source) => source.locate(item, error),
            None => error,
        }
    }

    // No unit: those of several sources would be counted anew in each.

    fn len_hint(&self) -> Option<u64> {
        self.sources.iter().map(|source| source.len_hint()).sum()
    }
}
