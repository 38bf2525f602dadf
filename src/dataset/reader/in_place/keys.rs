//! [`KeyReader`]: the keys of samples while their file is indexed.

use std::ops::Range;
use std::sync::Arc;

use super::Place;
use super::decoder::Decoder;
use crate::error::{Error, ErrorKind, Result};
use crate::format::in_place::{Frame, Index, Kind, Options, Shard};
use crate::format::msgpack;
use crate::storage::Source;

/// Reads keys as they will be when samples are read in place.
pub(crate) struct KeyReader {
    decoder: Decoder,
    /// Whether a name outside of the sample is enough.
    by_name: bool,
}

impl KeyReader {
    /// For shards with this frame.
    pub(crate) fn new(kind: Kind, options: &Options, frame: Option<&Frame>) -> Result<KeyReader> {
        let frames = frame.cloned().into_iter().collect();
        let options = options.clone();
        let index = Index { kind, options, frames, shards: Vec::new(), samples: 0 };
        let decoder = Decoder::of(&index)?;
        let by_name = !decoder.needs_fields();
        Ok(KeyReader { decoder, by_name })
    }

    /// The key of the sample with this number in a shard, whose only frame is that one. `name` is its key if the file
    /// says that outside of the sample.
    pub(crate) fn key(
        &self,
        source: &Arc<Source>,
        shard: &Shard,
        number: u64,
        range: Range<u64>,
        name: Option<&str>,
    ) -> Result<String> {
        let mut found = None;
        let mut take = |key: &str, _: crate::format::sample_fields::Fields<'_>| {
            found = Some(key.to_owned());
            Ok(())
        };
        match name.filter(|_| self.by_name) {
            Some(name) => self.decoder.rename(name, shard, &mut take)?,
            None => {
                let place = Place { shard: 0, number, range };
                self.decoder.decode(source, shard, &place, &|_| false, &mut take)?;
            }
        }
        let key =
            found.ok_or_else(|| Error::new(ErrorKind::Damaged, "expected a key, found none"))?;
        // What a sample with this key would be refused for.
        let mut packed = Vec::with_capacity(key.len() + 8);
        msgpack::write_map(1, &mut packed)?;
        msgpack::write_text(msgpack::sample::KEY, &mut packed)?;
        msgpack::write_text(&key, &mut packed)?;
        msgpack::sample::check_new(&packed).map_err(Error::from)?;
        Ok(key)
    }
}
