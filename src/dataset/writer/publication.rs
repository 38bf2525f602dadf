//! The end of writing: side files made on all cores, all synced, then published.

use std::path::Path;

use super::super::files::DatasetFile;
use super::super::index::{self, Build, Built, Wanted};
use super::super::staging::{Base, Staging};
use super::{Open, Spools, WriterOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::{Digests, SideFile, crc};
use crate::format::md5::Md5;

/// The last step of [`Writer::finish`](super::Writer::finish).
pub(super) struct Publication<'a> {
    pub(super) path: &'a Path,
    pub(super) options: &'a WriterOptions,
}

impl Publication<'_> {
    /// Publishes a data file with this many samples and bytes; its MD5 if digests are wanted.
    pub(super) fn run(&self, files: Open, samples: u64, bytes: u64) -> Result<Option<[u8; 16]>> {
        let Open { destination, journal, data, spools, .. } = files;
        let staging = destination.staging();
        let Spools { offsets, keys, ahead, checksums, lengths } = spools;
        let (options, sync) = (self.options, self.options.durable);
        let shown = |e: Error| e.shown_at(self.path);
        let storage = &options.storage;
        let (mut data, streamed) = data.finish().map_err(shown)?;
        // No repair could complete an index.
        let marks =
            destination.keeps_samples() && options.was_complete.is_none() && !options.in_place;
        if marks {
            // Before side files take what room is left.
            staging.will_complete(samples, bytes)?;
        }
        offsets.finish(sync)?;
        let keys_path = staging.path(SideFile::Keys);
        keys.finish(sync, || {
            staging.discard(SideFile::Keys)?;
            staging.create(SideFile::Keys)
        })?;
        let lookup = options.wants_lookup(samples);
        let wanted = Wanted { key_hashes: true, filter: true, lookup };
        let (built, (sync_data, data_md5)) = rayon::join(
            || -> Result<Built> {
                let ahead = ahead.finish();
                let offsets = storage.open(&staging.path(SideFile::Offsets))?;
                let written = [offsets, storage.open(&keys_path)?];
                let task = Build {
                    staging,
                    wanted,
                    sync,
                    hash_many: options.hash_many,
                    digests: options.digests.then_some(&written),
                };
                index::build(task, &keys_path, &written[1], ahead)
            },
            || {
                rayon::join(
                    || {
                        if sync {
                            data.sync().map_err(shown)?;
                        }
                        // Only after the sync: the note says that all samples are on the disk.
                        if marks { staging.completed() } else { Ok(()) }
                    },
                    || match (options.digests, streamed, journal.base) {
                        (true, None, Some(base)) => self.appended_digest(base, bytes).map(Some),
                        (true, None, None) => {
                            index::digest(storage, &staging.path(DatasetFile::Data)).map(Some)
                        }
                        _ => Ok(streamed),
                    },
                )
            },
        );
        let built = built?;
        sync_data?;
        let data_md5 = data_md5?;
        let mut publish = vec![
            SideFile::Offsets.into(),
            SideFile::Keys.into(),
            SideFile::KeyHashes.into(),
            SideFile::Filter.into(),
        ];
        let mut remove = vec![SideFile::Index];
        if journal.base.is_none() {
            publish.push(DatasetFile::Data);
        }
        if let Some(md5) = data_md5 {
            self.write_digests(staging, md5, &built)?;
            publish.push(SideFile::Md5.into());
        } else {
            // Digests of the earlier data would call the new data damaged.
            remove.push(SideFile::Md5);
        }
        match checksums {
            Some(checksums) => {
                checksums.finish(data_md5, sync)?;
                publish.push(SideFile::Crc.into());
            }
            // Readers would find it stale and ignore it; the format asks writers to remove it.
            None => remove.push(SideFile::Crc),
        }
        match lookup {
            true => publish.push(SideFile::Lookup.into()),
            false => remove.push(SideFile::Lookup),
        }
        match lengths {
            Some(lengths) => {
                let sum = index::checksum_of(&storage.open(&staging.path(SideFile::Offsets))?, 0)?;
                let source =
                    crc::Source { count: samples, data_len: bytes, md5: data_md5, offsets: sum };
                lengths.finish(&**storage, source, sync, || {
                    staging.discard(SideFile::Lengths)?;
                    staging.create(SideFile::Lengths)
                })?;
                publish.push(SideFile::Lengths.into());
            }
            // It is of the samples that were there before.
            None => remove.push(SideFile::Lengths),
        }
        destination.publish(&journal, data, &publish, &remove)?;
        Ok(data_md5)
    }

    /// Writes the digests of all files but the later ones, which have checksums of their own.
    fn write_digests(&self, staging: &Staging, data: [u8; 16], built: &Built) -> Result<()> {
        let mut digests = Digests::default();
        digests.set(&name(self.path), data)?;
        let others =
            [SideFile::Offsets, SideFile::Keys].into_iter().zip(built.others.iter().copied());
        let made = [(SideFile::KeyHashes, built.key_hashes), (SideFile::Filter, built.filter)];
        let made = made.into_iter().filter_map(|(file, md5)| Some((file, md5?)));
        for (file, md5) in others.chain(made) {
            digests.set(&name(&file.path(self.path)), md5)?;
        }
        let mut sink = staging.create(SideFile::Md5)?;
        sink.append(digests.render().as_bytes())?;
        if self.options.durable { sink.sync() } else { Ok(()) }
    }

    /// The MD5 of all of the data, once the old part is seen to be what its digest says.
    fn appended_digest(&self, base: Base, bytes: u64) -> Result<[u8; 16]> {
        let storage = &self.options.storage;
        let source = storage.open(self.path)?;
        let mut md5 = Md5::new();
        index::digest_into(&mut md5, &source, 0..base.bytes)?;
        // Compared before it is replaced: a new digest over damaged old samples would hide the
        // damage.
        let old = md5.clone().finish();
        let path = SideFile::Md5.path(self.path);
        let recorded = match storage.stat(&path)? {
            Some(_) => index::read_digests(storage, &path)?.get_of(&name(self.path), "").copied(),
            None => None,
        };
        if recorded.is_some_and(|recorded| recorded != old) {
            let message =
                "the data before the append does not match its MD5: nothing was published";
            return Err(Error::new(ErrorKind::Damaged, message).with_range(0..base.bytes));
        }
        index::digest_into(&mut md5, &source, base.bytes..bytes)?;
        Ok(md5.finish())
    }
}

/// The name that a file has in `.md5`.
fn name(path: &Path) -> String {
    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}
