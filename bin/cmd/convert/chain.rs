//! Several sources as one.

use kiste::convert::Source;

use crate::exit::{Failure, Outcome};

/// The samples of one source after those of the other.
pub(super) struct Chain {
    sources: Vec<Box<dyn Source>>,
    /// Whose turn it is, and whose the last batch was.
    at: usize,
}

impl Chain {
    /// Sources whose labels mean the same.
    pub(super) fn new(sources: Vec<Box<dyn Source>>) -> Outcome<Chain> {
        let same = sources.windows(2).all(|pair| pair[0].label_names() == pair[1].label_names());
        match same {
            true => Ok(Chain { sources, at: 0 }),
            false => {
                let message = "the sources have different labels, so the numbers would not mean \
                               the same";
                Err(Failure::trouble(message))
            }
        }
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

    fn label_names(&self) -> Option<&[String]> {
        self.sources.first().and_then(|source| source.label_names())
    }
}
