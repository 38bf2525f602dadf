//! [`Images`] and [`Audio`]: what the headers of images and of sound say.

use std::collections::BTreeMap;

use super::field::{add_counts, as_pairs, count, merge_counts};
use super::{Histogram, Numbers};
use crate::format::picture;
use crate::format::sound::Sound;

/// The most sizes of images that are counted separately.
const SIZES: usize = 100_000;

/// The images of a field, by their headers.
#[derive(Debug, Clone, Default, serde::Serialize)]
#[non_exhaustive]
pub struct Images {
    /// How often which format: `jpeg`, `png`, …
    pub formats: BTreeMap<String, u64>,
    /// How often which colours: `rgb`, `grey`, `palette`, `grey 16 bit`, …; of formats whose header says so.
    pub modes: BTreeMap<String, u64>,
    /// Pixels of a row.
    pub width: Histogram,
    /// Rows.
    pub height: Histogram,
    /// Width divided by height.
    pub aspect: Numbers,
    /// How often each width and height occurs; at most 100,000 are counted separately.
    #[serde(serialize_with = "as_pairs")]
    pub sizes: BTreeMap<(usize, usize), u64>,
    /// Images whose header does not say how large they are.
    pub damaged: u64,
}

impl Images {
    pub(super) fn add(&mut self, format: &str, bytes: &[u8]) {
        count(&mut self.formats, format);
        if let Some(mode) = picture::mode(bytes) {
            count(&mut self.modes, &mode);
        }
        match picture::size(bytes) {
            Some((width, height)) => {
                self.width.add(width as u64);
                self.height.add(height as u64);
                if height > 0 {
                    self.aspect.add(width as f64 / height as f64);
                }
                add_counts(&mut self.sizes, (width, height), 1, SIZES);
            }
            None => self.damaged += 1,
        }
    }

    pub(super) fn merge(&mut self, other: Images) {
        merge_counts(&mut self.formats, other.formats);
        merge_counts(&mut self.modes, other.modes);
        self.width.merge(&other.width);
        self.height.merge(&other.height);
        self.aspect.merge(other.aspect);
        for (size, count) in other.sizes {
            add_counts(&mut self.sizes, size, count, SIZES);
        }
        self.damaged += other.damaged;
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.formats.values().sum()
    }
}

/// The sound of a field, by its headers: WAV, FLAC, Ogg and MP3.
#[derive(Debug, Clone, Default, serde::Serialize)]
#[non_exhaustive]
pub struct Audio {
    /// How often which format: `wav`, `flac`, `vorbis`, `opus`, `mp3`.
    pub formats: BTreeMap<String, u64>,
    /// How often which rate: samples of one channel in a second.
    pub rates: BTreeMap<u32, u64>,
    /// How often which number of channels.
    pub channels: BTreeMap<u16, u64>,
    /// Seconds.
    pub seconds: Numbers,
    /// Sounds whose headers do not say how long they are.
    pub unknown: u64,
}

impl Audio {
    pub(super) fn add(&mut self, sound: &Sound) {
        count(&mut self.formats, sound.format);
        if let Some(rate) = sound.rate {
            *self.rates.entry(rate).or_default() += 1;
        }
        if let Some(channels) = sound.channels {
            *self.channels.entry(channels).or_default() += 1;
        }
        match sound.seconds {
            Some(seconds) => self.seconds.add(seconds),
            None => self.unknown += 1,
        }
    }

    pub(super) fn merge(&mut self, other: Audio) {
        merge_counts(&mut self.formats, other.formats);
        merge_counts(&mut self.rates, other.rates);
        merge_counts(&mut self.channels, other.channels);
        self.seconds.merge(other.seconds);
        self.unknown += other.unknown;
    }
}
