use kiste::storage::Shown;
use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kiste::DatasetReader;
use kiste::convert::Conversion;
use kiste::storage::MemoryStorage;
use kiste::text::units;
use kiste::verify::Verify;
use rayon::prelude::*;
use serde::Deserialize;

use crate::arguments::arguments;
use crate::exit::{Exit, Failure, Outcome, quoted};
use crate::file;
use crate::monitor::Monitor;
use crate::output::{Output, Stdout};

/// See it work: 5,000 real images become a dataset, are verified, found and read
///
/// The images are handwritten digits (MNIST) that come with the command. They are unpacked to DIR/digits,
/// converted to DIR/digits.msgpack, and the result is compared with the dataset that Python datadings 3.4.7
/// made of them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder to make
    #[arg(default_value = "kiste-demo")]
    dir: PathBuf,
    /// Write to DIR even if it exists and was not made by an earlier demo
    #[arg(long, short)]
    force: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste demo
  kiste demo elsewhere/digits";

/// The shipped dataset, as Python wrote it: suffixes and content. Source and licence are in
/// `datasets/digits/README.md`.
const SHIPPED: [(&str, &[u8]); 6] = [
    ("", include_bytes!("../../datasets/digits/digits.msgpack")),
    (".offsets", include_bytes!("../../datasets/digits/digits.msgpack.offsets")),
    (".keys", include_bytes!("../../datasets/digits/digits.msgpack.keys")),
    (".key_hashes", include_bytes!("../../datasets/digits/digits.msgpack.key_hashes")),
    (".filter", include_bytes!("../../datasets/digits/digits.msgpack.filter")),
    (".md5", include_bytes!("../../datasets/digits/digits.msgpack.md5")),
];

/// Says what the folder is, and by its first line that a later demo may use it again.
const NOTE: &str = "\
Made by \"kiste demo\"; a later demo overwrites what is here.

5,000 handwritten digits from the MNIST database by Yann LeCun, Corinna Cortes and
Christopher J. C. Burges, under the Creative Commons Attribution-ShareAlike 3.0 licence
(https://creativecommons.org/licenses/by-sa/3.0/).
";

const KEY: &str = "7/0042.png";

/// A sample, borrowed from the file.
#[derive(Deserialize)]
struct Digit<'a> {
    image: &'a [u8],
    label: u32,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        self.prepare()?;
        let demo = Demo {
            folder: self.dir.join("digits"),
            dataset: self.dir.join("digits.msgpack"),
            dir: self.dir,
            output,
        };
        let mut out = output.stdout();
        writeln!(out, "5,000 handwritten digits: from images to a dataset and back")?;
        writeln!(out)?;
        let same = demo.play(&mut out)?;
        demo.what_next(&mut out)?;
        out.flush()?;
        Ok(if same { Exit::Yes } else { Exit::No })
    }

    /// Makes the folder, unless there is something in it that is not ours.
    fn prepare(&self) -> Outcome<()> {
        let dir = &self.dir;
        let at = |error| Failure::io(dir, error);
        kiste::storage::expect_ours_if_linked(dir)?;
        fs::create_dir_all(dir).map_err(at)?;
        let note = dir.join("README.txt");
        let first_line = NOTE.lines().next();
        let ours = fs::read_to_string(&note).is_ok_and(|text| text.lines().next() == first_line);
        let empty = fs::read_dir(dir).map_err(at)?.next().is_none();
        if !(ours || empty || self.force) {
            let message = format!(
                "{}: the folder exists and was not made by an earlier \
                    demo",
                Shown::of(&dir)
            );
            let hint = "name another one, or --force to write to it all the same";
            return Err(Failure::trouble(message).hint(hint));
        }
        file::write(&note, NOTE.as_bytes(), true)
    }
}

struct Demo<'a> {
    dir: PathBuf,
    folder: PathBuf,
    dataset: PathBuf,
    output: &'a Output,
}

impl Demo<'_> {
    /// All steps, each told when it is done. Whether the result is what Python made.
    fn play(&self, out: &mut Stdout) -> Outcome<bool> {
        let data = SHIPPED[0].1.len() as u64;
        let size = units::bytes(data);

        let (images, time) = timed(|| self.unpack())?;
        let to = Shown::of(&self.folder);
        let what = format!("{} PNG images to {to}/", units::count(images));
        self.tell(out, "unpacked", what, time)?;

        let (samples, time) = timed(|| self.convert())?;
        let (to, count) = (Shown::of(&self.dataset), units::count(samples));
        let rate = units::sample_rate(samples, time);
        let what = format!("{count} samples, {size}, to {to}, {rate}");
        self.tell(out, "converted", what, time)?;

        let verify = || Ok(Verify::of(&self.dataset).deep(true).run()?);
        let (report, time) = timed(verify)?;
        if let Some(problem) = report.problems.first() {
            return Err(Failure::no(problem));
        }
        let digests = report.digests.len();
        let what = format!("{digests} MD5 digests and every sample, no problem");
        self.tell(out, "verified", what, time)?;

        let (different, time) = timed(|| self.compare())?;
        let same = different.is_empty();
        let what = match same {
            true => "all 6 files are byte for byte those that Python datadings 3.4.7 wrote".into(),
            false => {
                let names = different.join(", ");
                self.output.red(format_args!("not what Python datadings wrote: {names}"))
            }
        };
        self.tell(out, "compared", what, time)?;

        let reader = DatasetReader::open(&self.dataset)?;
        let (index, time) = timed(|| Ok(reader.find(KEY)?))?;
        let index = index.ok_or_else(|| super::cat::absent(&self.dataset, KEY))?;
        let digit: Digit<'_> = reader.get_as(index)?;
        let (index, image, label) = (units::count(index as u64), digit.image.len(), digit.label);
        let what = format!("\"{KEY}\": sample {index}, label {label}, a PNG of {image} bytes");
        self.tell(out, "looked up", what, time)?;

        let read_all = || {
            let digits = reader.iter_as::<Digit<'_>>(..);
            Ok(digits.map(|digit| Ok(digit?.image.len() as u64)).sum::<kiste::Result<u64>>()?)
        };
        let (images, time) = timed(read_all)?;
        let (rate, bytes) = (units::sample_rate(samples, time), units::byte_rate(data, time));
        let what =
            format!("{count} samples with {} of images, {rate}, {bytes}", units::bytes(images));
        self.tell(out, "read all", what, time)?;
        Ok(same)
    }

    fn tell(&self, out: &mut Stdout, did: &str, what: impl Display, time: Duration) -> Outcome<()> {
        let did = self.output.green(format_args!("{did:>9}"));
        let time = self.output.dim(format_args!("{:>8}", units::duration(time)));
        writeln!(out, "{did} {time}  {what}")?;
        // One line at a time, as it happens.
        Ok(out.flush()?)
    }

    /// Decodes the shipped dataset and writes its images to a folder for each label.
    fn unpack(&self) -> Outcome<u64> {
        let storage = MemoryStorage::new();
        for (suffix, bytes) in SHIPPED {
            storage.put(format!("digits.msgpack{suffix}"), bytes);
        }
        let reader = DatasetReader::options().storage(Arc::new(storage)).open("digits.msgpack")?;
        for label in 0..10 {
            let dir = self.folder.join(label.to_string());
            fs::create_dir_all(&dir).map_err(|error| Failure::io(&dir, error))?;
        }
        let unpack = |index: usize| -> Outcome<()> {
            let path = self.folder.join(&*reader.key(index)?);
            let image = reader.field(index, "image")?;
            let image = image.as_ref().and_then(|image| image.as_slice()).unwrap_or_default();
            fs::write(&path, image).map_err(|error| Failure::io(&path, error))
        };
        let progress = self.output.progress("unpacking", None);
        (0..reader.len()).into_par_iter().try_for_each(unpack)?;
        drop(progress);
        Ok(reader.len() as u64)
    }

    /// Does the same as `kiste convert`.
    fn convert(&self) -> Outcome<u64> {
        let conversion = Conversion::new([&self.folder], &self.dataset).overwrite(true);
        Ok(conversion.run(&mut Monitor::new(self.output))?.outputs[0].samples)
    }

    /// The files that differ from those that Python wrote.
    fn compare(&self) -> Outcome<Vec<String>> {
        let mut different = Vec::new();
        for (suffix, shipped) in SHIPPED {
            let path = self.dir.join(format!("digits.msgpack{suffix}"));
            let made = fs::read(&path).map_err(|error| Failure::io(&path, error))?;
            if made != shipped {
                different.push(format!("digits.msgpack{suffix}"));
            }
        }
        Ok(different)
    }

    fn what_next(&self, out: &mut Stdout) -> Outcome<()> {
        let (dataset, folder) = (quoted(&self.dataset), quoted(&self.folder));
        let again = quoted(&self.dir.join("again.msgpack"));
        let png = quoted(&self.dir.join("seven.png"));
        let kiste = program();
        writeln!(out)?;
        writeln!(out, "{}", self.output.bold("try next"))?;
        for command in [
            format!("info {dataset}"),
            format!("head -n 3 {dataset}"),
            format!("ls -l {dataset} | tail -n 3"),
            format!("cat {dataset} --range 3542..3543 --jsonl"),
            format!("get {dataset} {KEY} --field image > {png}"),
            format!("convert --force {folder} {again}"),
            format!("verify --deep {dataset}"),
            "--help".to_string(),
        ] {
            writeln!(out, "  {kiste} {command}")?;
        }
        Ok(())
    }
}

/// How this program was called, so that what is printed works as printed.
fn program() -> String {
    let name = arguments().first().map_or(Path::new(""), Path::new);
    let bare = name.parent().is_none_or(|parent| parent.as_os_str().is_empty());
    if bare { "kiste".to_string() } else { quoted(name) }
}

fn timed<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<(T, Duration)> {
    let start = Instant::now();
    Ok((work()?, start.elapsed()))
}
