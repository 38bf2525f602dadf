//! Coutrot 1: where people looked in videos with different sounds.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ndarray::{Array1, ArrayView3, Axis};
use rayon::prelude::*;

use super::parts::flow::{Point, Pyramid};
use super::parts::video::{frames_in, frames_of};
use super::parts::{Emit, Image, Sample, Samples, Subsampling, Zip, encode_jpeg, gaze};
use super::{Dataset, File, Opening, Pass, Split};
use crate::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::format::mat::{Array, MatFile};
use crate::regular;

/// Coutrot 1.
pub(super) static COUTROT1: Dataset = Dataset {
    name: "Coutrot1",
    title: "Frames of 60 videos, and where people looked in them and shortly before",
    notes: "Videos are decoded by ffmpeg 5.1 or later, which must be installed; or the frames of \
            clip_1.avi are images in frames/clip_1/ in the folder of the archive, named so that they \
            sort. Where people looked in the last 60 frames moves along with the picture, found by \
            the method of Lucas and Kanade; a frame is stored if at least 30 places of one person \
            could be followed to it, and 10 frames after the last one at the earliest. Of a clip \
            with several sounds only the gaze for the last of them in the file is used, and places \
            move by one frame more than they should; both as in Python. Colours are right: Python \
            exchanges red and blue. Never shuffled.",
    url: "http://antoinecoutrot.magix.net/public/databases.html",
    licence: "not stated by its authors",
    citation: "Antoine Coutrot and Nathalie Guyader: Toward the introduction of auditory \
               information in dynamic visual attention models. WIAMIS 2013",
    files: &[
        File::new("mat", "coutrot_database1.mat")
            .url("http://antoinecoutrot.magix.net/public/assets/coutrot_database1.mat")
            .md5("e32e408d4970e74607234df4133a4ae2"),
        File::new("videos", "ERB3_Stimuli.zip").md5("e0007237c8e4cdae81f31e84ad9fb241"),
    ],
    splits: &[Split::uncounted("Coutrot1")],
    fields: &[
        ("key", "ERB3_Stimuli/, the name of the video in the archive, and the number of the frame"),
        ("image", "JPEG of quality 95"),
        (
            "experiments",
            "one for each person with at least 30 places that could be followed: locations (a list \
             of places, 2, <f4: x, y), map (nil)",
        ),
    ],
    classes: &[],
    takes: &[],
    read,
};

/// A place is followed for this many frames.
const MAX_AGE: usize = 60;
/// A person is stored with a frame if they have this many places.
const MIN_PLACES: usize = 30;
/// From one frame that is stored to the next.
const STEP: usize = 10;
/// A place that is followed back must come out closer than this to where it was.
const MAX_ERROR: f32 = 1.0;
const QUALITY: u8 = 95;
/// Where frames that were decoded beforehand may be.
const FRAMES: &str = "frames";

/// A frame with the places of each person.
struct Frame {
    key: String,
    image: Image,
    people: Vec<Vec<Point>>,
}

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let gaze = gaze_by_clip(&opening.path("mat"))?;
    let videos = Videos { zip: opening.zip("videos")?, frames: opening.dir.join(FRAMES) };
    let read = move |emit: &mut Emit<'_, Frame>| {
        let names = videos.zip.names().filter(|name| is_video(name));
        names.into_iter().try_for_each(|name| {
            let at = |error: &Error| gaze::in_file(videos.zip.path(), name, error);
            let clip = gaze.get(stem(name)).ok_or_else(|| {
                at(&Error::new(ErrorKind::Damaged, "the MAT file has no gaze for this clip"))
            })?;
            let mut tracker = Tracker::new(clip.view());
            let mut each = |image: Image| match tracker.next(&image) {
                Some((number, people)) => {
                    let key = format!("ERB3_Stimuli/{name}_{number:06}");
                    emit(Frame { key, image, people })
                }
                None => Ok(()),
            };
            videos.frames(name, &mut each).map_err(|error| at(&error))
        })
    };
    Ok(vec![Pass::new(&COUTROT1.splits[0], Samples::stream(read, pack))])
}

fn pack(frame: Frame) -> Result<Vec<u8>> {
    let jpeg = encode_jpeg(&frame.image, QUALITY, Subsampling::S444)?;
    let place = |place: &Point| gaze::array(&Array1::from(place.to_vec()));
    let person =
        |places: &Vec<Point>| gaze::experiment(Value::Array(places.iter().map(place).collect()));
    let people: Vec<Value> = frame.people.iter().map(person).collect();
    Sample::new(frame.key).bytes("image", &jpeg).value("experiments", people).pack()
}

fn is_video(name: &str) -> bool {
    name.ends_with(".avi") && !gaze::is_of_finder(name)
}

/// The name of a clip: `clip_1`.
fn stem(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name).trim_end_matches(".avi")
}

struct Videos {
    zip: Zip,
    frames: PathBuf,
}

impl Videos {
    /// The frames of a video: decoded beforehand, or otherwise by `ffmpeg`.
    fn frames(&self, name: &str, each: &mut dyn FnMut(Image) -> Result<()>) -> Result<()> {
        let folder = self.frames.join(stem(name));
        match folder.is_dir() {
            true => frames_in(&folder, self.zip.limits(), each),
            false => frames_of(&self.zip.read(name)?, self.zip.limits(), each),
        }
    }
}

/// For each clip x and y by frame and person. NaN is where the eye was not found.
type Gaze = ndarray::Array3<f32>;

fn gaze_by_clip(path: &Path) -> Result<HashMap<String, Gaze>> {
    let bytes = regular::read(path).map_err(|error| Error::io(path, error))?;
    let all = || -> Result<_> {
        let database = MatFile::parse(&bytes)?.get("Coutrot_Database1")?;
        let mut gaze = HashMap::new();
        for (condition, clips) in database.record(0)?.iter() {
            if condition == "Header" {
                continue;
            }
            for (clip, record) in clips.record(0)?.iter() {
                let data = one_clip(record.field("data")?);
                let at = |error: Error| {
                    let message = format!("{condition}.{clip}.data: {}", error.message());
                    Error::new(error.kind(), message)
                };
                gaze.insert(clip.to_owned(), data.map_err(at)?);
            }
        }
        Ok(gaze)
    };
    all().map_err(|error| error.at(path))
}

fn one_clip(data: &Array) -> Result<Gaze> {
    let mut data = data.numbers::<f32>()?;
    if data.ndim() == 2 {
        // MATLAB forgets that there is one person only.
        data = data.insert_axis(Axis(2));
    }
    let shape = data.shape().to_vec();
    match data.into_dimensionality() {
        Ok(data) if shape[0] == 2 => Ok(data),
        _ => {
            let message = format!("expected 2 x frames x people, found {shape:?}");
            Err(Error::new(ErrorKind::Damaged, message))
        }
    }
}

/// Places that are followed through a video.
struct Tracker<'a> {
    gaze: ArrayView3<'a, f32>,
    /// The number of the next frame.
    number: usize,
    /// The number of the last one that was stored.
    stored: usize,
    before: Option<Pyramid>,
    places: Vec<Followed>,
}

/// A place where a person looked, and where it is now.
struct Followed {
    person: usize,
    since: usize,
    at: Point,
}

impl<'a> Tracker<'a> {
    fn new(gaze: ArrayView3<'a, f32>) -> Tracker<'a> {
        Tracker { gaze, number: 0, stored: 0, before: None, places: Vec::new() }
    }

    /// Advances to the next frame; returns its number and the places in it if it is to be stored.
    fn next(&mut self, image: &Image) -> Option<(usize, Vec<Vec<Point>>)> {
        let number = self.number;
        self.number += 1;
        self.look(number);
        self.places.retain(|place| number - place.since <= MAX_AGE);
        let now = Pyramid::new(&grey(image), image.width as usize, image.height as usize);
        if let Some(before) = &self.before {
            follow(&mut self.places, before, &now);
        }
        self.before = Some(now);
        if number - self.stored < STEP {
            return None;
        }
        let people = self.people();
        if people.is_empty() {
            return None;
        }
        self.stored = number;
        Some((number, people))
    }

    /// Adds where people look in this frame, if that was recorded.
    fn look(&mut self, number: usize) {
        if number >= self.gaze.len_of(Axis(1)) {
            return;
        }
        for (person, place) in self.gaze.index_axis(Axis(1), number).axis_iter(Axis(1)).enumerate()
        {
            let at = [place[0], place[1]];
            if at.iter().all(|coordinate| !coordinate.is_nan()) {
                self.places.push(Followed { person, since: number, at });
            }
        }
    }

    /// The places of all that have enough of them, in the order of the first that is left of each.
    fn people(&self) -> Vec<Vec<Point>> {
        let mut people: Vec<(usize, Vec<Point>)> = Vec::new();
        for place in &self.places {
            match people.iter_mut().find(|(person, _)| *person == place.person) {
                Some((_, places)) => places.push(place.at),
                None => people.push((place.person, vec![place.at])),
            }
        }
        let people = people.into_iter().map(|(_, places)| places);
        people.filter(|places| places.len() >= MIN_PLACES).collect()
    }
}

/// Moves places from one frame to the next. Those that do not come back are lost.
fn follow(places: &mut Vec<Followed>, before: &Pyramid, now: &Pyramid) {
    let moved = |place: &Followed| {
        let there = before.track(now, place.at);
        let back = now.track(before, there);
        let good = |axis: usize| (place.at[axis] - back[axis]).abs() < MAX_ERROR;
        (good(0) && good(1)).then_some(Followed { at: there, ..*place })
    };
    *places = places.par_iter().filter_map(moved).collect();
}

/// Brightness as OpenCV has it.
fn grey(image: &Image) -> Vec<u8> {
    let luma = |pixel: &[u8]| {
        let [red, green, blue] = [0, 1, 2].map(|channel| u32::from(pixel[channel]));
        ((9798 * red + 19235 * green + 3735 * blue + (1 << 14)) >> 15) as u8
    };
    image.pixels.chunks_exact(3).map(luma).collect()
}
