//! [`KeptFields`]: the fields that a conversion keeps or makes keys of. The others need not be decoded.

use std::collections::HashSet;
use std::sync::Arc;

/// The fields that a conversion needs, to be asked for each field of each sample. A reader may give nil as the value
/// of any other, so that nothing is wrong with it; its name must be there, as one that was never seen was misspelt.
#[derive(Debug, Clone, Default)]
pub(super) struct KeptFields(Arc<Choice>);

#[derive(Debug, Default)]
struct Choice {
    /// All, if there are none.
    fields: HashSet<String>,
    dropped: HashSet<String>,
    in_key: HashSet<String>,
}

impl KeptFields {
    pub(super) fn new(
        fields: HashSet<String>,
        dropped: HashSet<String>,
        in_key: HashSet<String>,
    ) -> KeptFields {
        KeptFields(Arc::new(Choice { fields, dropped, in_key }))
    }

    /// Whether the output has a field that samples call so.
    pub(super) fn keeps(&self, name: &str) -> bool {
        let Choice { fields, dropped, .. } = &*self.0;
        (fields.is_empty() || fields.contains(name)) && !dropped.contains(name)
    }

    /// Whether the output has it, or its key is made of it.
    pub(super) fn needs(&self, name: &str) -> bool {
        self.keeps(name) || self.0.in_key.contains(name)
    }
}
