//! How close is a conversion to reading its input and hashing it once?
//!
//! `cargo bench --bench convert --features images [-- --quick]`: 100,000 files of about 12 kB in
//! folders, or 20,000. The folder is compared with a loop that reads each file and hashes it by MD5
//! on one core, with one that also writes everything to one file, and with `cp -r`; the same files
//! in a tar and a zip archive with MD5 of the archive; and JPEG of 800 × 600 to 256 × 192, on one
//! core and on all, with the resizing of the crate `image`. `TMPDIR` says where the files are.
//!
//! All files are in the page cache and nothing waits for the disk. Before each round the memory
//! that it will write is touched and freed: on a virtual machine whose host reclaims free memory,
//! the first access waits for the host, ten times as long as copying takes. Times are the best of
//! five rounds that alternate.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use image::imageops::FilterType;
use kiste::Writer;
use kiste::convert::{
    Duplicates, ImageFolderReader, ImageOptions, InOrder, Input, StoredAs, WebDatasetReader,
    convert,
};
use kiste::format::__private::md5::Md5;
use kiste::format::msgpack;
use kiste::sampler::rng::StableRng;
use rayon::prelude::*;

type Res<T> = Result<T, Box<dyn std::error::Error>>;

const ROUNDS: usize = 5;
const LABELS: usize = 100;

fn main() -> Res<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let files = if quick { 20_000 } else { 100_000 };
    let dir = tempfile::tempdir()?;
    let bytes = make_files(&dir.path().join("photos"), files)?;
    println!("{files} files, {} MB", bytes / 1_000_000);
    folder(dir.path(), files, bytes)?;
    archives(dir.path(), files, bytes)?;
    pictures(dir.path(), if quick { 200 } else { 1000 })
}

/// A name for each file, label by label.
fn names(files: usize) -> impl Iterator<Item = String> {
    (0..files).map(move |n| format!("{:02}/{:06}.jpg", n * LABELS / files, n))
}

fn make_files(root: &Path, files: usize) -> Res<u64> {
    let mut rng = StableRng::new(&[7]);
    let noise: Vec<u8> = (0..1 << 20).map(|_| rng.below(256) as u8).collect();
    for label in 0..LABELS {
        fs::create_dir_all(root.join(format!("{label:02}")))?;
    }
    let mut bytes = 0;
    for name in names(files) {
        let (start, len) = (rng.below(900_000) as usize, 2_000 + rng.below(20_000) as usize);
        fs::write(root.join(name), &noise[start..start + len])?;
        bytes += len as u64;
    }
    Ok(bytes)
}

/// The best time of each of these, taken in turn. What they write to `out` is removed in between.
fn best<const N: usize>(
    out: &Path,
    bytes: u64,
    mut run: impl FnMut(usize) -> Res<()>,
) -> Res<[Duration; N]> {
    let mut best = [Duration::MAX; N];
    for _ in 0..ROUNDS {
        for (which, best) in best.iter_mut().enumerate() {
            fs::create_dir(out)?;
            touch(bytes + bytes / 4);
            let start = Instant::now();
            run(which)?;
            *best = start.elapsed().min(*best);
            fs::remove_dir_all(out)?;
        }
    }
    Ok(best)
}

/// Has the system find so much memory, and gives it back.
fn touch(bytes: u64) {
    let mut memory = vec![0u8; bytes as usize];
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    black_box(&memory);
}

fn tell(what: &str, time: Duration, bytes: u64, others: &[(&str, Duration)]) {
    let rate = bytes as f64 / 1e6 / time.as_secs_f64();
    let ratio = |(what, other): &(&str, Duration)| {
        format!("{:.2} of the speed of {what}", other.as_secs_f64() / time.as_secs_f64())
    };
    let ratios: Vec<String> = others.iter().map(ratio).collect();
    println!("  {what:<24} {rate:>6.0} MB/s  {}", ratios.join(", "));
}

fn write(input: impl Input + 'static, path: &Path, expected: usize) -> Res<()> {
    let mut writer = Writer::options().durable(false).create(path)?;
    convert(&mut InOrder::new(input), &mut writer, Duplicates::Refuse, |_| ())?;
    assert_eq!(writer.finish()?.samples, expected as u64);
    Ok(())
}

fn folder(dir: &Path, files: usize, bytes: u64) -> Res<()> {
    let (photos, out) = (dir.join("photos"), dir.join("out"));
    let hash = |write: &mut dyn FnMut(&[u8]) -> std::io::Result<()>| -> Res<()> {
        let mut md5 = Md5::new();
        for name in names(files) {
            let content = fs::read(photos.join(name))?;
            md5.update(&content);
            write(&content)?;
        }
        black_box(md5.finish());
        Ok(())
    };
    let [hashed, written, converted, copied] = best(&out, bytes, |which| match which {
        0 => hash(&mut |_| Ok(())),
        1 => {
            let mut file = File::create(out.join("all"))?;
            hash(&mut |content| file.write_all(content))
        }
        2 => write(ImageFolderReader::open(&photos)?, &out.join("folder.msgpack"), files),
        _ => {
            let status = Command::new("cp").arg("-r").arg(&photos).arg(&out).status()?;
            assert!(status.success());
            Ok(())
        }
    })?;
    tell("read and hashed", hashed, bytes, &[]);
    tell("and written, one core", written, bytes, &[]);
    tell("cp -r", copied, bytes, &[]);
    let others = [("reading and hashing", hashed), ("cp -r", copied)];
    tell("folder to dataset", converted, bytes, &others);
    Ok(())
}

fn archives(dir: &Path, files: usize, bytes: u64) -> Res<()> {
    let (tar, zip) = (dir.join("photos.tar"), dir.join("photos.zip"));
    make_tar(dir, &tar, files)?;
    make_zip(dir, &zip, files)?;
    let out = dir.join("out");
    let made = out.join("archive.msgpack");
    let hash = |path: &Path| -> Res<()> {
        let (mut md5, mut file) = (Md5::new(), File::open(path)?);
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                len => md5.update(&buffer[..len]),
            }
        }
        black_box(md5.finish());
        Ok(())
    };
    let name = tar.to_str().unwrap_or_default();
    let [tar_hashed, tar_read, zip_hashed, zip_read] = best(&out, bytes, |which| match which {
        0 => hash(&tar),
        1 => write(WebDatasetReader::open(name)?, &made, files),
        2 => hash(&zip),
        _ => write(ImageFolderReader::options().zip(&zip, ["{LABEL}/*"])?, &made, files),
    })?;
    tell("tar hashed", tar_hashed, bytes, &[]);
    tell("tar to dataset", tar_read, bytes, &[("hashing it", tar_hashed)]);
    tell("zip hashed", zip_hashed, bytes, &[]);
    tell("zip to dataset", zip_read, bytes, &[("hashing it", zip_hashed)]);
    Ok(())
}

fn make_tar(dir: &Path, path: &Path, files: usize) -> Res<()> {
    let mut list = File::create(dir.join("names"))?;
    names(files).try_for_each(|name| writeln!(list, "{name}"))?;
    let mut tar = Command::new("tar");
    tar.current_dir(dir.join("photos")).arg("-cf").arg(path);
    assert!(tar.args(["--no-recursion", "-T", "../names"]).status()?.success());
    Ok(())
}

fn make_zip(dir: &Path, path: &Path, files: usize) -> Res<()> {
    let mut zip = zip::ZipWriter::new(std::io::BufWriter::new(File::create(path)?));
    let stored =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for name in names(files) {
        zip.start_file(&*name, stored)?;
        zip.write_all(&fs::read(dir.join("photos").join(name))?)?;
    }
    zip.finish()?;
    Ok(())
}

fn pictures(dir: &Path, count: usize) -> Res<()> {
    let samples: Vec<Vec<u8>> = (0..10).map(picture).collect::<Res<_>>()?;
    let all: Vec<&Vec<u8>> = samples.iter().cycle().take(count).collect();
    let options = ImageOptions::new().resize("256x192".parse()?).format(StoredAs::Jpeg);
    let cores = rayon::current_num_threads();
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let (one, many) = (pool(1)?, pool(cores)?);
    let work = || all.par_iter().try_for_each(|sample| options.apply(sample).map(|_| ()));
    let [single, parallel, other] = best(&dir.join("out"), 0, |which| match which {
        0 => Ok(one.install(work)?),
        1 => Ok(many.install(work)?),
        _ => all.iter().try_for_each(|sample| {
            let value = msgpack::decode(sample)?;
            let picture = image::load_from_memory(value["image"].as_slice().unwrap_or_default())?;
            let small = picture.resize_exact(256, 192, FilterType::Lanczos3);
            let mut jpeg = std::io::Cursor::new(Vec::new());
            small.write_to(&mut jpeg, image::ImageFormat::Jpeg)?;
            black_box(jpeg);
            Ok(())
        }),
    })?;
    let rate = |time: Duration| count as f64 / time.as_secs_f64();
    println!("{count} images of 800 × 600 to 256 × 192, as JPEG");
    println!("  {:<24} {:>6.0} images/s", "by image alone", rate(other));
    println!("  {:<24} {:>6.0} images/s", "on one core", rate(single));
    let times = single.as_secs_f64() / parallel.as_secs_f64();
    let what = format!("on {cores} cores");
    println!("  {what:<24} {:>6.0} images/s, {times:.2} times as many", rate(parallel));
    Ok(())
}

/// A sample with something like a photograph: large shapes, and fine grain.
fn picture(seed: u64) -> Res<Vec<u8>> {
    let mut rng = StableRng::new(&[seed]);
    let (a, b) = (rng.below(1000) as f64 / 8e3, rng.below(1000) as f64 / 8e3);
    let picture = image::RgbImage::from_fn(800, 600, |x, y| {
        let (x, y) = (f64::from(x), f64::from(y));
        let grain = rng.below(30) as f64;
        let shape = |phase: f64| 105.0 + 60.0 * (a * x + b * y + phase).sin() + grain;
        image::Rgb([shape(0.0) as u8, shape(1.0) as u8, shape(2.0) as u8])
    });
    let mut jpeg = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut jpeg, image::ImageFormat::Jpeg)?;
    let fields = vec![
        ("key".into(), seed.to_string().into()),
        ("image".into(), kiste::Value::Binary(jpeg.into_inner())),
    ];
    Ok(msgpack::to_vec(&kiste::Value::Map(fields))?)
}
