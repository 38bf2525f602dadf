//! Reads samples from annotations of COCO.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::{MOST, Members};
use crate::Value;
use crate::convert::carried::{LeftOut, RemarkLog, Remarks};
use crate::convert::decoded::TextEncoding;
use crate::convert::encoding;
use crate::convert::formats::def::Opening;
use crate::convert::formats::rows;
use crate::convert::input::{Emit, Input};
use crate::convert::source_file::{identify, stamp};
use crate::error::{Error, ErrorKind, Result};
use crate::format::coco::{ClassMap, SEVERAL};
use crate::format::png::{self, Colours};
use crate::format::sample_fields::{Field, Fields, pack};
use crate::format::{FormatError, jsonl};
use crate::storage;
use crate::value::NdArray;

/// The field of the image, which is its path here.
pub(super) const IMAGE: &str = "image";
const MASK: &str = "mask";
/// Default for the bytes of a file.
const MAX_BYTES: u64 = 4 << 30;
/// Images in a unit.
const RUN: usize = 64;
/// Pixels of an image with a mask.
const MAX_PIXELS: u64 = 100 << 20;
/// Members that become fields of other names.
const KNOWN: [&str; 5] = ["image_id", "id", "bbox", "category_id", "segmentation"];

/// Reads the annotations of COCO: one JSON object with `images`, `annotations` and `categories`.
///
/// A sample is an image with its annotations, in their order: `key` and `image` are its path; `boxes` is an
/// array of float64, n × 4, left, top, right and bottom; `labels` an array of int64, the numbers of
/// the categories from 0 in the order of their ids; `mask` a PNG of grey, 0 for no class, else the label plus 1, and
/// the largest value where masks of several classes overlap. It has 8 bits, and 16 for more than 254
/// classes. `ids`, `segmentation` and all other members of annotations are lists, with nil where an annotation lacks
/// one; `image_id`, `width`, `height` and all other members of the image are fields. Members whose names are taken are called
/// `annotation_NAME` and `image_NAME`. An annotation of no kind, such as
/// a caption, has no box. The file is read into memory. Units are runs of images.
///
/// ```
/// use kiste::convert::{CocoReader, Input};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("instances.json");
/// std::fs::write(&path, r#"{
///     "images": [{"id": 7, "file_name": "a.jpg", "width": 8, "height": 4}],
///     "annotations": [{"id": 1, "image_id": 7, "category_id": 3, "bbox": [1, 0, 2, 2]}],
///     "categories": [{"id": 3, "name": "cat"}]
/// }"#)?;
/// let reader = CocoReader::open(&path)?;
/// assert_eq!(reader.label_names().unwrap(), ["cat"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
#[derive(Debug)]
pub struct CocoReader {
    path: PathBuf,
    text: String,
    images: Vec<Image>,
    /// Each annotation, in the order of their images.
    annotations: Vec<Annotation>,
    labels: Option<Vec<String>>,
    numbers: HashMap<i64, i64>,
    columns: Columns,
    /// Whether masks are painted.
    paints: bool,
    /// The folder of the images, if they are read.
    root: Option<PathBuf>,
    /// Members of images: members of annotations with these names are called otherwise.
    image_members: HashSet<String>,
    remarks: RemarkLog,
}

#[derive(Debug)]
struct Image {
    text: Range<usize>,
    name: String,
    annotations: Range<usize>,
}

#[derive(Debug, Clone)]
struct Annotation {
    /// Its number in the file.
    number: usize,
    text: Range<usize>,
}

/// What annotations of a file have.
#[derive(Debug, Default)]
struct Columns {
    boxes: bool,
    labels: bool,
    masks: bool,
    ids: bool,
    segmentation: bool,
    /// Names of other members, in the order in which they first occur.
    others: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(untagged)]
enum Id {
    Number(i64),
    Text(String),
}

impl CocoReader {
    /// Reads the annotations.
    ///
    /// # Errors
    ///
    /// [`Damaged`](ErrorKind::Damaged) for what is no JSON of COCO, for two images of one id or path, and for
    /// annotations of an image or category that is not listed; [`Limit`](ErrorKind::Limit) for more than 4 GiB.
    pub fn open(path: impl AsRef<Path>) -> Result<CocoReader> {
        let path = path.as_ref();
        Self::read_all(path, MAX_BYTES, None).map_err(|error| error.at(path))
    }

    /// The same as a conversion asks for it.
    pub(super) fn open_asked(path: &Path, asked: &Opening<'_>) -> Result<CocoReader> {
        let max_bytes = asked.read.max_bytes.unwrap_or(MAX_BYTES);
        let reader = Self::read_all(path, max_bytes, asked.read.encoding);
        let reader = reader.map_err(|error| error.at(path))?;
        let paints = reader.paints && asked.kept.needs(MASK);
        let folder = || path.parent().unwrap_or(Path::new("")).to_path_buf();
        let root = asked.kept.needs(IMAGE).then(|| asked.read.root.clone().unwrap_or_else(folder));
        Ok(CocoReader { paints, root, ..reader })
    }

    /// The path of the first image.
    pub(super) fn first_image(&self) -> Option<&str> {
        self.images.first().map(|image| &*image.name)
    }

    fn read_all(path: &Path, max_bytes: u64, encoding: Option<TextEncoding>) -> Result<CocoReader> {
        let bytes = rows::read_file(path, max_bytes)?;
        let text = match encoding {
            Some(encoding) => encoding.text(&bytes)?,
            None => String::from_utf8(bytes).map_err(|error| {
                let flaw = encoding::flaw(error.as_bytes(), None);
                flaw.unwrap_or_else(|| encoding::wide_error("UTF-8", "UTF-16"))
            })?,
        };
        let all: Members<'_> = parse(text.trim_start_matches('\u{feff}'), "")?;
        let list = |name: &str| -> Result<Vec<&RawValue>> {
            all.get(name).map_or(Ok(Vec::new()), |raw| parse(raw.get(), name))
        };
        if all.get("images").is_none() {
            let message = "expected an object with \"images\" and \"annotations\", found no images";
            return Err(Error::new(ErrorKind::Damaged, message));
        }
        let remarks = RemarkLog::default();
        let known = |name: &str| ["images", "annotations", "categories"].contains(&name);
        let left_out = all.0.iter().filter(|(name, _)| !known(name));
        left_out.for_each(|(name, _)| note(&remarks, path, name));
        let (labels, numbers) = categories(&list("categories")?, path, &remarks)?;
        let (mut images, mut by_id) = (Vec::new(), HashMap::new());
        let mut names = HashSet::new();
        let mut image_members = HashSet::new();
        for (at, raw) in list("images")?.into_iter().enumerate() {
            let place = format!("images[{at}]");
            let members: Members<'_> = parse(raw.get(), &place)?;
            let id: Id = field(&members, "id", &place)?;
            let name: String = field(&members, "file_name", &place)?;
            if by_id.insert(id, at).is_some() || !names.insert(name.clone()) {
                let message = format!("{place}: another image has the same id or path: {name:?}");
                return Err(Error::new(ErrorKind::Damaged, message));
            }
            for (name, _) in &members.0 {
                if !image_members.contains(name) {
                    image_members.insert(name.clone());
                }
            }
            images.push(Image { text: range(&text, raw), name, annotations: 0..0 });
        }
        let mut columns = Columns::default();
        let (mut seen, mut of_images) = (HashSet::new(), Vec::new());
        for (number, raw) in list("annotations")?.into_iter().enumerate() {
            let place = format!("annotations[{number}]");
            let members: Members<'_> = parse(raw.get(), &place)?;
            let id: Id = field(&members, "image_id", &place)?;
            let image = by_id.get(&id).ok_or_else(|| {
                let message = format!("{place}: expected the id of an image, found {id:?}");
                Error::new(ErrorKind::Damaged, message)
            })?;
            columns.add(&members, &mut seen).map_err(|error| error.within(&place))?;
            of_images.push((*image, Annotation { number, text: range(&text, raw) }));
        }
        of_images.sort_by_key(|(image, _)| *image);
        let mut rest = 0;
        for (at, image) in images.iter_mut().enumerate() {
            let len = of_images[rest..].iter().take_while(|(image, _)| *image == at).count();
            image.annotations = rest..rest + len;
            rest += len;
        }
        let annotations = of_images.into_iter().map(|(_, annotation)| annotation).collect();
        let paints = columns.masks && columns.labels;
        let (path, labels) = (path.to_path_buf(), labels.filter(|_| columns.labels));
        let reader = CocoReader {
            path,
            text,
            images,
            annotations,
            labels,
            numbers,
            columns,
            paints,
            root: None,
            image_members,
            remarks,
        };
        Ok(reader)
    }

    /// The packed sample of an image.
    fn sample(&self, image: &Image) -> Result<Vec<u8>> {
        let members: Members<'_> = parse(&self.text[image.text.clone()], "")?;
        let mut annotations = Vec::new();
        for annotation in &self.annotations[image.annotations.clone()] {
            let place = format!("annotations[{}]", annotation.number);
            let members: Members<'_> = parse(&self.text[annotation.text.clone()], &place)?;
            annotations.push((members, place));
        }
        let mut fields: Fields<'_> = vec![(IMAGE.into(), Field::Value(image.name.as_str().into()))];
        let (n, columns) = (annotations.len(), &self.columns);
        if columns.boxes {
            let mut boxes = Vec::with_capacity(4 * n);
            for (members, place) in &annotations {
                let [x, y, width, height]: [f64; 4] = field(members, "bbox", place)?;
                boxes.extend([x, y, x + width, y + height]);
            }
            let bytes: Vec<u8> = boxes.iter().flat_map(|side| side.to_le_bytes()).collect();
            fields
                .push(("boxes".into(), Field::Array(NdArray::new(dtype("<f8")?, [n, 4], bytes)?)));
        }
        let mut labels = Vec::new();
        if columns.labels {
            for (members, place) in &annotations {
                let id: i64 = field(members, "category_id", place)?;
                labels.push(*self.numbers.get(&id).ok_or_else(|| {
                    let message = format!("{place}: expected the id of a category, found {id}");
                    Error::new(ErrorKind::Damaged, message)
                })?);
            }
            let bytes: Vec<u8> = labels.iter().flat_map(|label| label.to_le_bytes()).collect();
            fields.push(("labels".into(), Field::Array(NdArray::new(dtype("<i8")?, [n], bytes)?)));
        }
        let mask;
        if self.paints {
            mask = self.mask(&members, &annotations, &labels)?;
            fields.push((MASK.into(), Field::Bytes(&mask)));
        } else if columns.masks && columns.labels {
            // It is dropped.
            fields.push((MASK.into(), Field::Value(Value::Nil)));
        }
        let mut own = vec![("id", "ids"), ("segmentation", "segmentation")];
        own.retain(|(name, _)| if *name == "id" { columns.ids } else { columns.segmentation });
        let own = own.into_iter().map(|(name, called)| (name, Cow::from(called)));
        let others = columns.others.iter().map(|name| {
            let is_taken = is_own(name) || self.image_members.contains(name);
            let other = || Cow::from(format!("annotation_{name}"));
            (&**name, if is_taken { other() } else { Cow::from(&**name) })
        });
        for (name, called) in own.chain(others) {
            let values = annotations.iter().map(|(members, place)| value(members, name, place));
            fields.push((called, Field::Value(Value::Array(values.collect::<Result<_>>()?))));
        }
        for (name, raw) in members.0.iter().filter(|(name, _)| name != "file_name") {
            let called = match &name[..] {
                "id" => "image_id".to_owned(),
                name if is_own(name) => format!("image_{name}"),
                name => name.to_owned(),
            };
            fields.push((called.into(), Field::Value(parsed(raw, name, "")?)));
        }
        pack(&image.name, &fields)
    }

    /// The class of each pixel, as a PNG.
    fn mask(
        &self,
        image: &Members<'_>,
        annotations: &[(Members<'_>, String)],
        labels: &[i64],
    ) -> Result<Vec<u8>> {
        let size: [u32; 2] = [field(image, "width", "")?, field(image, "height", "")?];
        let pixels = u64::from(size[0]) * u64::from(size[1]);
        if pixels == 0 || pixels > MAX_PIXELS {
            let message = format!("expected 1 to {MAX_PIXELS} pixels for a mask, found {pixels}");
            let error = Error::new(ErrorKind::Limit, message);
            return Err(error.advise("without the field mask none is painted"));
        }
        let mut map = ClassMap::new(size[1] as usize, size[0] as usize);
        for ((members, place), label) in annotations.iter().zip(labels) {
            // More classes than that are refused.
            let class = *label as u16 + 1;
            let Some(raw) = members.get("segmentation") else { continue };
            paint(&mut map, raw, size, class)
                .map_err(|error| error.within(format_args!("{place}: segmentation")))?;
        }
        let is_narrow = self.numbers.len() <= 254;
        let bytes: Vec<u8> = match is_narrow {
            true => map.rows().map(|class| class.min(255) as u8).collect(),
            false => map.rows().flat_map(u16::to_be_bytes).collect(),
        };
        let bits = if is_narrow { 8 } else { 16 };
        png::encode((size[0], size[1]), Colours::Gray, bits, &bytes)
            .ok_or_else(|| Error::new(ErrorKind::Limit, "the mask is too large for a PNG"))
    }
}

/// Whether a field of this name is made of others.
fn is_own(name: &str) -> bool {
    const OWN: [&str; 8] =
        ["key", IMAGE, "boxes", "labels", MASK, "ids", "segmentation", "image_id"];
    OWN.contains(&name)
}

impl Columns {
    fn add(&mut self, members: &Members<'_>, seen: &mut HashSet<String>) -> Result<()> {
        for (name, raw) in &members.0 {
            match &name[..] {
                "bbox" => self.boxes = true,
                "category_id" => self.labels = true,
                "id" => self.ids = true,
                "segmentation" => {
                    self.segmentation = true;
                    self.masks |= !is_empty(raw);
                }
                name if !KNOWN.contains(&name) && seen.insert(name.to_owned()) => {
                    // Each is a field of every sample.
                    if self.others.len() == MOST {
                        let message =
                            format!("expected members of at most {MOST} names, found more");
                        return Err(Error::new(ErrorKind::Limit, message));
                    }
                    self.others.push(name.to_owned());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether there is no mask, as in files with boxes alone.
fn is_empty(segmentation: &RawValue) -> bool {
    let text = segmentation.get();
    text == "null" || text.chars().all(|c| c == '[' || c == ']' || c.is_whitespace())
}

fn paint(map: &mut ClassMap, raw: &RawValue, size: [u32; 2], class: u16) -> Result<()> {
    if is_empty(raw) {
        return Ok(());
    }
    if raw.get().starts_with('[') {
        let polygons: Vec<Vec<f64>> = parse(raw.get(), "")?;
        let painted = polygons.iter().try_for_each(|corners| map.polygon(corners, class));
        return painted.map_err(without_place);
    }
    let runs: Members<'_> = parse(raw.get(), "")?;
    let found: [u32; 2] = field(&runs, "size", "")?;
    if found != [size[1], size[0]] {
        let message = format!("expected a mask of the size of its image, found {found:?}");
        return Err(Error::new(ErrorKind::Damaged, message));
    }
    let counts = runs.get("counts").map_or("null", RawValue::get);
    let painted = match counts.starts_with('"') {
        true => map.text(parse::<String>(counts, "counts")?.as_bytes(), class),
        false => map.runs(&parse::<Vec<u64>>(counts, "counts")?, class),
    };
    painted.map_err(without_place)
}

/// Positions are numbers in a list, which these words leave out.
fn without_place(error: FormatError) -> Error {
    let message = format!("expected {}, found {}", error.expected, error.found);
    Error::new(ErrorKind::Damaged, message)
}

/// The names of categories in the order of their ids, if there are any, and the label of each id.
type Categories = (Option<Vec<String>>, HashMap<i64, i64>);

/// Reads them.
fn categories(list: &[&RawValue], path: &Path, remarks: &RemarkLog) -> Result<Categories> {
    let mut names = BTreeMap::new();
    for (at, raw) in list.iter().enumerate() {
        let place = format!("categories[{at}]");
        let members: Members<'_> = parse(raw.get(), &place)?;
        let (id, name) = (field(&members, "id", &place)?, field(&members, "name", &place)?);
        if names.insert(id, name).is_some() {
            let message = format!("{place}: another category has the id {id}");
            return Err(Error::new(ErrorKind::Damaged, message));
        }
        let others = members.0.iter().filter(|(name, _)| !["id", "name"].contains(&&name[..]));
        others.for_each(|(name, _)| note(remarks, path, name));
    }
    // One value of a mask stands for several classes, and one for none.
    if names.len() >= usize::from(SEVERAL) - 1 {
        let message = format!("expected fewer than 65,534 categories, found {}", names.len());
        return Err(Error::new(ErrorKind::Limit, message));
    }
    let numbers = names.keys().copied().zip(0..).collect();
    let names: Vec<String> = names.into_values().collect();
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(*name)) {
        Some(twice) => {
            let message = format!("two categories are called {twice:?}");
            Err(Error::new(ErrorKind::Damaged, message))
        }
        None => Ok((Some(names).filter(|names| !names.is_empty()), numbers)),
    }
}

fn note(remarks: &RemarkLog, path: &Path, name: &str) {
    remarks.note(0, LeftOut::Metadata, None, 1, || format!("{}: {name}", path.display()));
}

/// Where a value is in the text.
fn range(text: &str, raw: &RawValue) -> Range<usize> {
    let start = raw.get().as_ptr().addr() - text.as_ptr().addr();
    start..start + raw.get().len()
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str, place: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| {
        let error = Error::new(ErrorKind::Damaged, error.to_string());
        if place.is_empty() { error } else { error.within(place) }
    })
}

/// A member that has to be there.
fn field<'a, T: Deserialize<'a>>(members: &Members<'a>, name: &str, place: &str) -> Result<T> {
    let at = if place.is_empty() { name.to_owned() } else { format!("{place}: {name}") };
    match members.get(name) {
        Some(raw) => parse(raw.get(), &at),
        None => {
            let message = format!("expected {name:?}, found none");
            let error = Error::new(ErrorKind::Damaged, message);
            Err(if place.is_empty() { error } else { error.within(place) })
        }
    }
}

/// A member as it is, or nil.
fn value(members: &Members<'_>, name: &str, place: &str) -> Result<Value> {
    members.get(name).map_or(Ok(Value::Nil), |raw| parsed(raw, name, place))
}

fn parsed(raw: &RawValue, name: &str, place: &str) -> Result<Value> {
    jsonl::parse_plain(raw.get().as_bytes())
        .map_err(|error| Error::from(error).within(format_args!("{place}: {name}")))
}

fn dtype(text: &str) -> Result<crate::value::DType> {
    text.parse().map_err(Error::from)
}

impl Input for CocoReader {
    fn units(&self) -> usize {
        self.images.len().div_ceil(RUN)
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        let start = unit.saturating_mul(RUN).min(self.images.len());
        for image in &self.images[start..(start + RUN).min(self.images.len())] {
            let sample = self.sample(image);
            emit(sample.map_err(|error| error.at(&self.path).with_key(&*image.name)))?;
        }
        Ok(())
    }

    fn path(&self, _unit: usize) -> Option<&Path> {
        Some(&self.path)
    }

    /// Sizes and times of the images, which show whether one has changed.
    fn identify(&self, add: &mut dyn FnMut(&[u8])) {
        let Some(root) = self.root.as_ref().filter(|root| !storage::is_url(root)) else { return };
        let stamps = self.images.par_iter().map(|image| stamp(&root.join(&image.name)));
        identify(&stamps.collect::<Vec<_>>(), add);
    }

    fn remarks(&self, unit: usize) -> Remarks {
        self.remarks.take(unit)
    }

    fn len_hint(&self) -> Option<u64> {
        Some(self.images.len() as u64)
    }

    fn label_names(&self) -> Option<&[String]> {
        self.labels.as_deref()
    }
}
