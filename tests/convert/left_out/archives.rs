//! Archives: tar of WebDataset.

use std::fs;
use std::io::Write;
use std::path::Path;

use kiste::DatasetReader;
use kiste::convert::{BadInput, Conversion, Format, LeftOut, Part, Report, commit};
use kiste::format::__private::tar::{self, BLOCK};
use tempfile::TempDir;

use super::texts::no_image;
use super::{Ears, Input, file, run};

pub(super) fn input(format: Format, kind: LeftOut, dir: &Path) -> Option<Input> {
    if format != Format::Webdataset {
        return None;
    }
    let (one, end) = (entry(b'0', "a.txt", b"one"), vec![0; 2 * BLOCK]);
    let tar = |parts: &[&[u8]]| [file(dir, "a.tar", &parts.concat())];
    Some(match kind {
        LeftOut::AfterEnd => Input::new(tar(&[&one, &end, b"no archive"])),
        LeftOut::NoEndMark => Input::refused("expected the end mark", tar(&[&one])),
        LeftOut::OutsideSamples => {
            let readme = entry(b'0', "README", b"?");
            Input::new(tar(&[&readme, &one, &end]))
        }
        LeftOut::SpecialFile => {
            let link = entry(b'2', "b.txt", b"");
            Input::refused("found a link", tar(&[&one, &link, &end]))
        }
        LeftOut::OtherShard => {
            let own = written_by_kiste(dir);
            Input::refused("several in one archive that differ", tar(&[&own, &one, &end]))
        }
        kind => {
            let image = entry(b'0', "a.front.PNG", no_image(kind)?);
            Input::new(tar(&[&one, &image, &end]))
        }
    })
}

/// An entry of this type.
pub(super) fn entry(kind: u8, name: &str, content: &[u8]) -> Vec<u8> {
    let mut bytes = tar::file_header(name, content.len() as u64).unwrap();
    let header = bytes.len() - BLOCK;
    let block = &mut bytes[header..];
    block[156] = kind;
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len() + tar::padding(content.len() as u64), 0);
    bytes
}

/// An archive of texts, with its end mark and zeros after it as tar writes them.
fn archive(keys: &[&str]) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        keys.iter().flat_map(|key| entry(b'0', &format!("{key}.txt"), key.as_bytes())).collect();
    bytes.resize((bytes.len() + 2 * BLOCK).next_multiple_of(10240), 0);
    bytes
}

/// A shard that notes what its files are.
fn written_by_kiste(dir: &Path) -> Vec<u8> {
    let lines = file(dir, "own.jsonl", br#"{"key": "own", "n": 1.5}"#);
    Conversion::new([lines], dir.join("own.tar")).run(&mut kiste::convert::Silent).unwrap();
    fs::read(dir.join("own-000000.tar")).or_else(|_| fs::read(dir.join("own.tar"))).unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn keys(path: &Path) -> Vec<String> {
    let reader = DatasetReader::open(path).unwrap();
    (0..reader.len()).map(|at| reader.key(at).unwrap().into_owned()).collect()
}

fn converted(bytes: &[u8], bad: BadInput) -> kiste::Result<(Report, Vec<String>)> {
    let dir = TempDir::new().unwrap();
    let (tar, out) = (file(dir.path(), "a.tar", bytes), dir.path().join("out.msgpack"));
    let report = run(&Conversion::new([tar], &out).on_bad_input(bad))?;
    Ok((report, keys(&out)))
}

/// Half of the samples were left out without a word.
#[test]
fn concatenated_archives_are_read_whole() {
    let (a, b) = (archive(&["a", "b"]), archive(&["c", "d"]));
    let all = ["a", "b", "c", "d"];
    let joined = [&a[..], &b].concat();
    for bytes in [joined.clone(), gzip(&joined), [gzip(&a), gzip(&b)].concat()] {
        let (report, found) = converted(&bytes, BadInput::Stop).unwrap();
        assert_eq!((report.remarks, found), (vec![], all.map(str::to_owned).to_vec()));
    }
    // The last file of one archive and the first of the next are not one sample, whatever their names.
    let same = [archive(&["a"]), entry(b'0', "a.cls", b"1"), vec![0; 2 * BLOCK]].concat();
    let error = converted(&same, BadInput::Stop).unwrap_err();
    assert_eq!(error.kind(), kiste::ErrorKind::Damaged, "{error}");
    assert!(error.to_string().contains("key \"a\": expected all files of a sample"), "{error}");
}

/// Any size of units finds the same in archives that were concatenated.
#[test]
fn concatenated_archives_in_units() {
    use kiste::convert::{InOrder, Source, WebDatasetReader};

    let dir = TempDir::new().unwrap();
    let texts = |from: usize| (from..from + 9).map(|n| n.to_string()).collect::<Vec<_>>();
    let bytes: Vec<u8> = [0, 9, 18]
        .iter()
        .flat_map(|from| archive(&texts(*from).iter().map(|key| &key[..]).collect::<Vec<_>>()))
        .collect();
    let tar = file(dir.path(), "a.tar", &[&bytes[..], b"rest"].concat());
    for unit in (512..40_000).step_by(1536) {
        let mut source = InOrder::new(WebDatasetReader::open(&tar).unwrap().unit_bytes(unit));
        let mut found = 0;
        loop {
            let batch = source.next_batch().unwrap();
            if batch.is_empty() {
                break;
            }
            found += batch.into_iter().map(Result::unwrap).count();
        }
        assert_eq!(found, 27, "{unit}");
        let [whole, present] = source.remarks();
        assert!(present.is_empty());
        assert_eq!(whole.list()[0].count, 4, "{unit}");
    }
}

/// The last whole sample was left out with `--bad skip`.
#[test]
fn an_archive_without_an_end_mark() {
    let whole: Vec<u8> =
        ["a", "b", "c"].iter().flat_map(|k| entry(b'0', &format!("{k}.txt"), b"x")).collect();
    for zeros in [0, 7, BLOCK - 1] {
        let bytes = [&whole[..], &vec![0; zeros]].concat();
        let error = converted(&bytes, BadInput::Stop).unwrap_err().to_string();
        assert!(error.contains("byte 3072: expected the end mark of a tar archive"), "{error}");
        let (report, found) = converted(&bytes, BadInput::Skip).unwrap();
        assert_eq!(found, ["a", "b", "c"]);
        assert_eq!((report.bad.count, report.remarks[0].kind), (0, LeftOut::NoEndMark));
    }
    // Cut within a file, its sample is bad, and those before it are whole.
    let (report, found) = converted(&whole[..whole.len() - 100], BadInput::Skip).unwrap();
    assert_eq!((report.bad.count, found.len(), report.remarks.len()), (1, 2, 0));
    let error = converted(b"", BadInput::Skip).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("the file is empty"), "{error}");
}

/// Remarks of parts are those of one run, and so are those of a run that was interrupted.
#[test]
fn parts_and_runs_that_resume_count_the_same() {
    use kiste::convert::{Monitor, Notice, Progress};

    struct Stops(u64);
    impl Monitor for Stops {
        fn progress(&mut self, progress: Progress) {
            self.0 = progress.samples;
        }
        fn is_cancelled(&self) -> bool {
            self.0 > 0
        }
        fn notice(&mut self, notice: Notice) {
            assert!(!matches!(notice, Notice::Remarked(_)), "{notice}");
        }
    }

    let dir = TempDir::new().unwrap();
    let shards: Vec<_> = (0..4)
        .map(|n| {
            let key = format!("{n}.txt");
            let files = [entry(b'0', "README", b"?"), entry(b'0', &key, b"x"), vec![0; 2 * BLOCK]];
            file(dir.path(), &format!("{n}.tar"), &[&files.concat()[..], b"rest"].concat())
        })
        .collect();
    let conversion = |name: &str| Conversion::new(&shards, dir.path().join(name));
    let expected = run(&conversion("whole.msgpack")).unwrap().remarks;
    assert_eq!(expected.iter().map(|remark| remark.count).collect::<Vec<_>>(), [16, 4]);

    for part in Part::all(3) {
        conversion("parts.msgpack").run_part(part, &mut kiste::convert::Silent).unwrap();
    }
    let mut ears = Ears::default();
    let joined = commit(dir.path().join("parts.msgpack"), &mut ears).unwrap();
    assert_eq!((joined.remarks, ears.0.len()), (expected.clone(), 2));

    let resumes = conversion("resumed.msgpack").resume(true);
    let error = resumes.run(&mut Stops(0)).unwrap_err();
    assert_eq!(error.kind(), kiste::ErrorKind::Cancelled);
    assert_eq!(run(&resumes).unwrap().remarks, expected);

    let shards = conversion("sharded.shards.json");
    assert_eq!(run(&shards).unwrap().remarks, expected);
}
