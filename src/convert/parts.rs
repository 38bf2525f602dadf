//! Parts of a conversion, which are made one without the other and then joined.
//!
//! All of them are in the directory `NAME.parts` beside the dataset `NAME` that they are to become:
//!
//! | file | content |
//! | --- | --- |
//! | `plan.json` | what is made of what, and of how many parts: written by the first of them |
//! | `part-I-of-N.msgpack` … | the samples of a part, a dataset like any other, but for its digests |
//! | `part-I-of-N.json` | the part is finished: the digest of its plan, and what was counted |
//! | `part-I-of-N.lock` | held by whoever makes the part |
//! | `commit` | the dataset is being made of the parts, and may be there already |
//! | `published` | it is there: what is left of the directory can go |
//!
//! A part is recognised by the digest of the plan, so one of another plan, or of other sources, is
//! never taken for it. What a plan says is up to the caller.

use std::fmt;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

use super::Input;
use crate::error::{Error, ErrorKind, Result};
use crate::format::hex;
use crate::storage::{LocalStorage, Lock, Storage};

/// More parts than this are a mistake.
const MAX_PARTS: usize = 1_000_000;

/// One part of so many: `3/7` is the third of seven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    number: usize,
    of: usize,
}

impl Part {
    /// Part `number` of `of`, counted from 1.
    pub fn new(number: usize, of: usize) -> Result<Part> {
        match (1..=of.min(MAX_PARTS)).contains(&number) {
            true => Ok(Part { number, of }),
            false => {
                let message = format!("part {number}/{of}, expected one from 1/{of} to {of}/{of}");
                Err(Error::new(ErrorKind::Invalid, message))
            }
        }
    }

    /// All of something.
    pub fn whole() -> Part {
        Part { number: 1, of: 1 }
    }

    /// All parts of so many.
    pub fn all(of: usize) -> impl Iterator<Item = Part> {
        (1..=of).map(move |number| Part { number, of })
    }

    /// How many parts there are.
    pub fn of(self) -> usize {
        self.of
    }

    /// The units of an input that belong to this part: a run of them, and about as many bytes as
    /// in the other parts where their sizes are known. Empty if there are fewer units than parts.
    pub fn units(self, input: &dyn Input) -> Range<usize> {
        let units = input.units();
        let sizes: Option<Vec<u64>> = (0..units).map(|unit| input.bytes(unit)).collect();
        // One more for each, so that empty units too are dealt out.
        let size = |unit: usize| sizes.as_ref().map_or(1, |sizes| u128::from(sizes[unit]) + 1);
        let total: u128 = (0..units).map(size).sum();
        let (mut start, mut run) = (0u128, 0..0);
        for unit in 0..units {
            let middle = 2 * start + size(unit);
            let part = (middle * self.of as u128 / (2 * total)) as usize + 1;
            start += size(unit);
            if part < self.number {
                run = unit + 1..unit + 1;
            } else if part == self.number {
                run.end = unit + 1;
            }
        }
        run
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(text: &str) -> Result<Part> {
        let numbers = text.split_once('/').and_then(|(number, of)| {
            Some((number.parse::<usize>().ok()?, of.parse::<usize>().ok()?))
        });
        match numbers {
            Some((number, of)) => Part::new(number, of),
            None => {
                let message = format!("expected a part such as 3/7, found {text:?}");
                Err(Error::new(ErrorKind::Invalid, message))
            }
        }
    }
}

/// The directory of the parts of a dataset.
#[derive(Debug)]
pub struct Parts {
    dir: PathBuf,
    plan: Json,
    digest: String,
}

/// What says that a part is finished.
#[derive(Serialize, Deserialize)]
struct Finished {
    plan: String,
    state: Json,
}

impl Parts {
    /// Begins parts of this plan, or joins in where others have begun.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there are parts of another plan. [`open`](Self::open)
    /// tells which.
    pub fn create(dataset: &Path, plan: &Json) -> Result<Parts> {
        let dir = dir_of(dataset);
        fs::create_dir_all(&dir).map_err(|error| Error::io(&dir, error))?;
        let path = dir.join("plan.json");
        let text = render(plan);
        if !path.exists() {
            // Of several that come at the same time the first one wins.
            let beside = beside(&path);
            write_synced(&beside, text.as_bytes()).map_err(|error| Error::io(&path, error))?;
            let linked = match fs::hard_link(&beside, &path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    // A file system without links.
                    fs::rename(&beside, &path)
                }
                _ => fs::remove_file(&beside),
            };
            linked.map_err(|error| Error::io(&path, error))?;
            sync_dir(&dir)?;
        }
        let parts = Parts::read(dir)?;
        match parts.plan == *plan {
            true => Ok(parts),
            false => {
                let message = "there are parts of another plan";
                Err(Error::new(ErrorKind::Invalid, message).at(&parts.dir))
            }
        }
    }

    /// Opens parts that others have begun; `None` if nobody has.
    pub fn open(dataset: &Path) -> Result<Option<Parts>> {
        let dir = dir_of(dataset);
        match dir.is_dir() {
            true => Parts::read(dir).map(Some),
            false => Ok(None),
        }
    }

    fn read(dir: PathBuf) -> Result<Parts> {
        let path = dir.join("plan.json");
        let text = match fs::read_to_string(&path) {
            // Its removal was cut short.
            Err(_) if dir.join("published").exists() => "null".to_owned(),
            read => read.map_err(|error| Error::io(&path, error))?,
        };
        let plan = serde_json::from_str(&text).map_err(|error| {
            Error::new(ErrorKind::Damaged, format!("not a plan: {error}")).at(&path)
        })?;
        let digest = digest_of(&plan);
        Ok(Parts { dir, plan, digest })
    }

    /// The plan.
    pub fn plan(&self) -> &Json {
        &self.plan
    }

    /// The digest of the plan.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The data file of a part.
    pub fn path(&self, part: Part) -> PathBuf {
        self.file(part, "msgpack")
    }

    /// A file of a part with another ending.
    pub fn file(&self, part: Part, ending: &str) -> PathBuf {
        self.dir.join(format!("part-{}-of-{}.{ending}", part.number, part.of))
    }

    /// What was noted when the part was finished, if it is.
    pub fn state(&self, part: Part) -> Result<Option<Json>> {
        let path = self.file(part, "json");
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(&path, error)),
        };
        let finished: Finished = serde_json::from_slice(&text).map_err(|error| {
            Error::new(ErrorKind::Damaged, format!("not the end of a part: {error}")).at(&path)
        })?;
        match finished.plan == self.digest {
            true => Ok(Some(finished.state)),
            false => {
                let message = "a part of another plan";
                Err(Error::new(ErrorKind::Invalid, message).at(&path))
            }
        }
    }

    /// Keeps others from making this part at the same time.
    ///
    /// # Errors
    ///
    /// [`Locked`](ErrorKind::Locked) if somebody does.
    pub fn lock(&self, part: Part) -> Result<Lock> {
        self.lock_file(&self.file(part, "lock"), &format!("another process makes part {part}"))
    }

    /// Keeps others from joining the parts at the same time.
    ///
    /// # Errors
    ///
    /// [`Locked`](ErrorKind::Locked) if somebody does.
    pub fn lock_all(&self) -> Result<Lock> {
        self.lock_file(&self.dir.join("lock"), "another process joins these parts")
    }

    fn lock_file(&self, path: &Path, message: &str) -> Result<Lock> {
        let lock = LocalStorage::mapped().lock(path).map_err(|error| Error::io(path, error))?;
        lock.ok_or_else(|| Error::new(ErrorKind::Locked, message).at(&self.dir))
    }

    /// Notes that a part is finished, and this with it.
    pub fn finish(&self, part: Part, state: Json) -> Result<()> {
        let finished = Finished { plan: self.digest.clone(), state };
        self.write(&self.file(part, "json"), &render(&finished))
    }

    /// Notes that the dataset is about to be made: from here on it may be there.
    pub fn begin_commit(&self) -> Result<()> {
        self.write(&self.dir.join("commit"), "")
    }

    /// Whether it was begun before.
    pub fn commit_begun(&self) -> bool {
        self.dir.join("commit").exists()
    }

    /// Notes that the dataset is there.
    pub fn published(&self) -> Result<()> {
        self.write(&self.dir.join("published"), "")
    }

    /// Whether the dataset is there.
    pub fn is_published(&self) -> bool {
        self.dir.join("published").exists()
    }

    /// Removes everything. Cut short, it can be done again.
    pub fn remove(self) -> Result<()> {
        let at = |error| Error::io(&self.dir, error);
        for entry in fs::read_dir(&self.dir).map_err(at)? {
            let path = entry.map_err(at)?.path();
            let removed = match path.is_dir() {
                _ if path.ends_with("published") => Ok(()),
                true => fs::remove_dir_all(&path),
                false => fs::remove_file(&path),
            };
            removed.map_err(|error| Error::io(&path, error))?;
        }
        fs::remove_dir_all(&self.dir).map_err(at)
    }

    fn write(&self, path: &Path, text: &str) -> Result<()> {
        let beside = beside(path);
        let written = write_synced(&beside, text.as_bytes());
        written.and_then(|()| fs::rename(&beside, path)).map_err(|e| Error::io(path, e))?;
        sync_dir(&self.dir)
    }
}

fn dir_of(dataset: &Path) -> PathBuf {
    let mut name = dataset.as_os_str().to_os_string();
    name.push(".parts");
    PathBuf::from(name)
}

/// The name of a file that nobody else will take, on no other machine either.
fn beside(path: &Path) -> PathBuf {
    let random = RandomState::new().hash_one(std::process::id());
    path.with_extension(format!("{random:016x}.new"))
}

fn render(value: &impl Serialize) -> String {
    // Maps with texts for keys and no floats but finite ones: nothing that JSON does not have.
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    format!("{text}\n")
}

fn digest_of(plan: &Json) -> String {
    hex(&Sha256::digest(render(plan)))
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_dir(dir: &Path) -> Result<()> {
    LocalStorage::mapped().sync_dir(dir).map_err(|error| Error::io(dir, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::Emit;

    struct Sizes(Vec<Option<u64>>);

    impl Input for Sizes {
        fn units(&self) -> usize {
            self.0.len()
        }

        fn read(&self, _unit: usize, _emit: &mut Emit<'_>) -> Result<()> {
            Ok(())
        }

        fn bytes(&self, unit: usize) -> Option<u64> {
            self.0[unit]
        }
    }

    fn ranges(sizes: &[Option<u64>], of: usize) -> Vec<Range<usize>> {
        let input = Sizes(sizes.to_vec());
        Part::all(of).map(|part| part.units(&input)).collect()
    }

    #[test]
    fn every_unit_is_in_one_part_and_in_order() {
        for units in 0..40 {
            for of in 1..45 {
                for sizes in [
                    vec![None; units],
                    vec![Some(0); units],
                    (0..units as u64).map(|unit| Some(unit * unit % 17 * 1000)).collect(),
                ] {
                    let mut next = 0;
                    for range in ranges(&sizes, of) {
                        assert!(range.is_empty() || range.start == next, "{units} {of}");
                        next = next.max(range.end);
                    }
                    assert_eq!(next, units);
                }
            }
        }
    }

    #[test]
    fn parts_are_balanced_by_bytes() {
        assert_eq!(ranges(&[None; 6], 3), [0..2, 2..4, 4..6]);
        let mut sizes = vec![Some(1_000_000)];
        sizes.extend([Some(1000); 1000]);
        assert_eq!(ranges(&sizes, 2), [0..1, 1..1001]);
        let even: Vec<usize> =
            ranges(&[Some(500); 10_000], 7).iter().map(ExactSizeIterator::len).collect();
        assert!(even.iter().all(|len| (1428..=1429).contains(len)), "{even:?}");
    }

    #[test]
    fn parts_are_counted_from_one() {
        assert_eq!("3/7".parse::<Part>().unwrap(), Part { number: 3, of: 7 });
        for wrong in ["0/7", "8/7", "7", "a/b", "-1/7", "1/0", "/", "1/9999999999999999999999"] {
            assert!(wrong.parse::<Part>().is_err(), "{wrong}");
        }
        let error = "0/7".parse::<Part>().unwrap_err();
        assert_eq!(error.to_string(), "part 0/7, expected one from 1/7 to 7/7");
    }

    #[test]
    fn parts_of_another_plan_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let dataset = dir.path().join("x.msgpack");
        assert!(Parts::open(&dataset).unwrap().is_none());
        let plan = serde_json::json!({"a": 1});
        let parts = Parts::create(&dataset, &plan).unwrap();
        let again = Parts::create(&dataset, &plan).unwrap();
        assert_eq!(again.state(Part::whole()).unwrap(), None);
        parts.finish(Part::whole(), Json::from(7)).unwrap();
        assert_eq!(again.state(Part::whole()).unwrap(), Some(7.into()));
        let other = serde_json::json!({"a": 2});
        assert_eq!(Parts::create(&dataset, &other).unwrap_err().kind(), ErrorKind::Invalid);
        fs::write(parts.dir().join("plan.json"), "{\"a\":2}").unwrap();
        let changed = Parts::open(&dataset).unwrap().unwrap();
        assert_eq!(changed.state(Part::whole()).unwrap_err().kind(), ErrorKind::Invalid);
        changed.remove().unwrap();
        assert!(!dataset.with_extension("msgpack.parts").exists());
    }
}
