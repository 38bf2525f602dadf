//! Encoded sound: which format, and how long at which rate, from its headers alone: WAV, FLAC, Ogg (Vorbis, Opus) and MP3.

/// What the headers say. What they do not say is `None`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sound {
    /// `wav`, `flac`, `vorbis`, `opus` or `mp3`.
    pub(crate) format: &'static str,
    /// Samples of one channel in a second.
    pub(crate) rate: Option<u32>,
    pub(crate) channels: Option<u16>,
    pub(crate) seconds: Option<f64>,
}

/// The sound that these bytes begin as.
pub(crate) fn sound(bytes: &[u8]) -> Option<Sound> {
    match bytes {
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', rest @ ..] => Some(wav(rest)),
        [b'f', b'L', b'a', b'C', rest @ ..] => Some(flac(rest)),
        [b'O', b'g', b'g', b'S', ..] => ogg(bytes),
        [b'I', b'D', b'3', ..] => Some(mp3(bytes.get(tag_len(bytes)?..).unwrap_or_default())),
        // Without a tag two bytes alone do not make a sound: the next frame has to follow.
        [0xff, second, ..] if second & 0xe0 == 0xe0 => {
            let frame = Frame::of(bytes)?;
            let next = bytes.get(frame.len()..)?;
            (next.is_empty() || Frame::of(next).is_some()).then(|| mp3(bytes))
        }
        _ => None,
    }
}

fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn span(samples: u64, rate: u32) -> Option<f64> {
    (rate > 0).then(|| samples as f64 / f64::from(rate))
}

fn wav(mut chunks: &[u8]) -> Sound {
    let mut sound = Sound { format: "wav", rate: None, channels: None, seconds: None };
    let mut bytes_each_second = 0;
    while let (Some(name), Some(len)) = (chunks.get(..4), le32(chunks, 4)) {
        match name {
            b"fmt " => {
                sound.channels = le16(chunks, 10);
                sound.rate = le32(chunks, 12);
                bytes_each_second = le32(chunks, 16).unwrap_or(0);
            }
            b"data" => {
                // Writers of streams leave the length open; then the data reach to the end.
                let there = chunks.len() as u64 - 8;
                let len = if len == u32::MAX || len == 0 { there } else { u64::from(len) };
                sound.seconds = span(len, bytes_each_second);
                break;
            }
            _ => {}
        }
        // Chunks begin at even places.
        let next = 8 + len as usize + (len as usize & 1);
        chunks = chunks.get(next..).unwrap_or_default();
    }
    sound
}

fn flac(blocks: &[u8]) -> Sound {
    let mut sound = Sound { format: "flac", rate: None, channels: None, seconds: None };
    // Rate, channels and bits, and the number of samples lie in 20, 3, 5 and 36 bits behind ten bytes of sizes.
    if let (Some(0), Some(packed)) = (blocks.first().map(|kind| kind & 0x7f), blocks.get(14..22)) {
        let packed = u64::from_be_bytes(packed.try_into().unwrap_or_default());
        let (rate, samples) = ((packed >> 44) as u32, packed & 0xf_ffff_ffff);
        sound.rate = Some(rate).filter(|rate| *rate > 0);
        sound.channels = Some((packed >> 41 & 7) as u16 + 1);
        sound.seconds = span(samples, rate).filter(|_| samples > 0);
    }
    sound
}

fn ogg(bytes: &[u8]) -> Option<Sound> {
    let first = 27 + usize::from(*bytes.get(26)?);
    let head = bytes.get(first..)?;
    let (format, rate, channels, start) = if head.starts_with(b"\x01vorbis") {
        ("vorbis", le32(head, 12), head.get(11).copied(), 0)
    } else if head.starts_with(b"OpusHead") {
        // Positions of Opus are counted at this rate, at any rate of the recording.
        ("opus", Some(48_000), head.get(9).copied(), le16(head, 10).unwrap_or(0))
    } else {
        return None;
    };
    // The last page has the position of its end.
    let page = bytes.len().saturating_sub(1 << 16);
    let last = bytes[page..].windows(4).rposition(|word| word == b"OggS").map(|at| page + at);
    let position = last.and_then(|at| bytes.get(at + 6..at + 14)?.try_into().ok());
    let samples = position.map(u64::from_le_bytes).filter(|position| *position != u64::MAX);
    let samples = samples.map(|samples| samples.saturating_sub(start.into()));
    let seconds = samples.and_then(|samples| span(samples, rate?));
    Some(Sound { format, rate, channels: channels.map(u16::from), seconds })
}

/// Bytes of a tag before an MP3.
fn tag_len(bytes: &[u8]) -> Option<usize> {
    let digits = bytes.get(6..10)?;
    Some(10 + digits.iter().fold(0, |len, digit| len << 7 | usize::from(digit & 0x7f)))
}

/// The header of a frame of MPEG audio, layer III.
struct Frame {
    rate: u32,
    kilobits: u32,
    channels: u16,
    samples: u32,
    padding: u32,
    /// Bytes of its side information.
    side: usize,
}

impl Frame {
    fn of(bytes: &[u8]) -> Option<Frame> {
        const FIRST: [u32; 14] = [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
        const OTHER: [u32; 14] = [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
        let word = be32(bytes, 0)?;
        let (version, layer) = (word >> 19 & 3, word >> 17 & 3);
        if word >> 21 != 0x7ff || version == 1 || layer != 1 {
            return None;
        }
        let table = if version == 3 { FIRST } else { OTHER };
        let kilobits = *table.get((word >> 12 & 15).checked_sub(1)? as usize)?;
        let rate = *[44_100u32, 48_000, 32_000].get((word >> 10 & 3) as usize)?;
        let rate = [rate / 4, 0, rate / 2, rate][version as usize];
        let is_mono = word >> 6 & 3 == 3;
        let side = match (version == 3, is_mono) {
            (true, false) => 32,
            (true, true) | (false, false) => 17,
            (false, true) => 9,
        };
        let samples = if version == 3 { 1152 } else { 576 };
        let channels = if is_mono { 1 } else { 2 };
        Some(Frame { rate, kilobits, channels, samples, padding: word >> 9 & 1, side })
    }

    fn len(&self) -> usize {
        (self.samples / 8 * self.kilobits * 1000 / self.rate + self.padding) as usize
    }
}

/// The length is known where the first frame has the number of frames, as encoders write it.
fn mp3(bytes: &[u8]) -> Sound {
    let frame = Frame::of(bytes);
    let seconds = frame.as_ref().and_then(|frame| {
        let head = bytes.get(4 + frame.side..)?;
        let has_frames = head.starts_with(b"Xing") || head.starts_with(b"Info");
        let frames =
            be32(head, 8).filter(|_| has_frames && be32(head, 4).is_some_and(|f| f & 1 == 1))?;
        span(u64::from(frames) * u64::from(frame.samples), frame.rate)
    });
    Sound {
        format: "mp3",
        rate: frame.as_ref().map(|frame| frame.rate),
        channels: frame.map(|frame| frame.channels),
        seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wav_of(rate: u32, channels: u16, frames: u32) -> Vec<u8> {
        let mut bytes = b"RIFF\0\0\0\0WAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0\x01\0".to_vec();
        bytes.extend(channels.to_le_bytes());
        bytes.extend(rate.to_le_bytes());
        bytes.extend((rate * 2 * u32::from(channels)).to_le_bytes());
        bytes.extend([4, 0, 16, 0]);
        bytes.extend(b"data");
        bytes.extend((frames * 2 * u32::from(channels)).to_le_bytes());
        bytes
    }

    fn expect(bytes: &[u8], format: &str, rate: u32, channels: u16, seconds: f64) {
        let found = sound(bytes).unwrap();
        assert_eq!(found.format, format);
        assert_eq!((found.rate, found.channels), (Some(rate), Some(channels)));
        assert_eq!(found.seconds, Some(seconds));
        // However short it is cut, nothing is made up.
        for len in 0..bytes.len() {
            if let Some(cut) = sound(&bytes[..len]) {
                assert!(cut.rate.is_none_or(|found| found == rate), "{len}");
            }
        }
    }

    #[test]
    fn headers_say_rate_channels_and_length() {
        expect(&wav_of(16_000, 1, 24_000), "wav", 16_000, 1, 1.5);
        let mut flac = b"fLaC\x80\0\0\x22".to_vec();
        flac.extend([0; 10]);
        flac.extend((44_100u64 << 44 | 1 << 41 | 15 << 36 | 88_200).to_be_bytes());
        expect(&flac, "flac", 44_100, 2, 2.0);
        let page = |position: u64| {
            let mut page = b"OggS\0\0".to_vec();
            page.extend(position.to_le_bytes());
            page.extend([0; 12]);
            page.extend([1, 30]);
            page
        };
        let mut opus = page(0);
        opus.extend(b"OpusHead\x01\x02\x38\x01\x80\xbb\0\0\0\0\0");
        opus.extend(page(48_000 * 3 + 0x138));
        expect(&opus, "opus", 48_000, 2, 3.0);
        let mut vorbis = page(0);
        vorbis.extend(b"\x01vorbis\0\0\0\0\x01\x22\x56\0\0");
        vorbis.extend(page(22_050));
        expect(&vorbis, "vorbis", 22_050, 1, 1.0);
        let mut mp3 = b"ID3\x04\0\0\0\0\0\x02ab\xff\xfb\x90\xc0".to_vec();
        mp3.extend([0; 17]);
        mp3.extend(b"Xing\0\0\0\x01\0\0\0\x64");
        expect(&mp3, "mp3", 44_100, 1, 115_200.0 / 44_100.0);
        for none in [&b""[..], b"RIFF", b"OggS", b"\xff\xd8\xff\xe0", b"\xff\xfb\x90\xc0 no frame"]
        {
            assert_eq!(sound(none), None);
        }
    }
}
