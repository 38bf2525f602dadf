//! Sources at URLs of which not all is read, or not from front to back: what they become, and how many
//! bytes are fetched for it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::converting::{converts_alike, lines};
use super::server::Fault;
use super::*;
use kiste::ErrorKind;
use kiste::convert::{Conversion, Format, ImageFolderReader, Monitor, Phase, Silent, Total};
use kiste::error::Remedy;

/// What does not compress, of this many bytes.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

/// A dataset of this many samples with a number and this many bytes.
fn dataset(dir: &Path, samples: u64, len: usize) -> PathBuf {
    let path = dir.join("set.msgpack");
    let mut writer = Writer::options().durable(false).create(&path).unwrap();
    for index in 0..samples {
        let fields = [
            ("key", key(index).into()),
            ("n", index.into()),
            ("v", Value::Binary(noise(index, len))),
        ];
        let fields = fields.map(|(name, value)| (name.into(), value));
        writer.write_value(&Value::Map(fields.to_vec())).unwrap();
    }
    writer.finish().unwrap();
    path
}

/// The dataset in this format, in one file.
fn made(set: &Path, format: Format) -> (String, Vec<u8>) {
    let name = format!("a.{}", format.extension().unwrap());
    let made = Conversion::new([set], set.with_file_name(&name)).to(format).overwrite(true);
    let report = made.run(&mut Silent).unwrap();
    let [file] = &report.outputs[0].files[..] else { panic!("{report:?}") };
    (name, fs::read(file).unwrap())
}

/// A zip archive of files of noise, each in a folder that is its label.
fn archive(files: u64, len: usize, method: zip::CompressionMethod) -> Vec<u8> {
    archive_of(files, len, method, false)
}

fn archive_of(files: u64, len: usize, method: zip::CompressionMethod, large: bool) -> Vec<u8> {
    use std::io::Write as _;
    let mut out = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    let options = options.large_file(large);
    for index in 0..files {
        out.start_file(format!("{}/{index:04}.png", index % 10), options).unwrap();
        out.write_all(&noise(index, len)).unwrap();
    }
    out.finish().unwrap().into_inner()
}

/// Bytes that the server sends for a conversion of this URL.
fn sent(server: &Server, url: &str, set: impl Fn(Conversion) -> Conversion) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let before = server.sent();
    set(Conversion::new([url], dir.path().join("out.msgpack"))).run(&mut Silent).unwrap();
    server.sent() - before
}

/// What detecting a format and opening a file may take on top, a few times 16 KiB.
const OPENING: u64 = 160 << 10;

#[test]
fn files_that_are_not_read_from_front_to_back_are_read_from_urls() {
    let dir = tempfile::tempdir().unwrap();
    let set = dataset(dir.path(), 700, 300);
    for format in [Format::Parquet, Format::Arrow] {
        let (name, bytes) = made(&set, format);
        converts_alike(&name, bytes, |conversion| conversion);
    }
    let (name, bytes) = made(&set, Format::Parquet);
    converts_alike(&name, bytes, |conversion| conversion.drop_fields(["v"]));
    let numbers = dir.path().join("n.msgpack");
    Conversion::new([&set], &numbers).fields(["n"]).run(&mut Silent).unwrap();
    let (name, bytes) = made(&numbers, Format::Npz);
    converts_alike(&name, bytes, |conversion| conversion);
    for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        converts_alike("a.zip", archive(150, 3000, method), |conversion| conversion);
    }
    // With lengths of 64 bits.
    converts_alike("c.zip", archive_of(50, 3000, zip::CompressionMethod::Stored, true), |c| c);
    // Something in front of the archive.
    let behind = [&noise(1, 5000)[..], &archive(50, 3000, zip::CompressionMethod::Stored)].concat();
    converts_alike("b.zip", behind, |conversion| conversion.from(Format::Images));
}

#[test]
fn no_more_is_fetched_than_is_needed() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let set = dataset(dir.path(), 1500, 6000);
    for format in
        [Format::Jsonl, Format::Webdataset, Format::Tfrecord, Format::Parquet, Format::Arrow]
    {
        let (name, bytes) = made(&set, format);
        let len = bytes.len() as u64;
        server.put(&format!("/d/{name}"), bytes);
        let url = format!("{}/d/{name}", server.url());
        let found = sent(&server, &url, |conversion| conversion);
        assert!(found <= len + len / 10 + OPENING, "{format}: {found} for {len}");
    }
    // Of the columns that are left out only what the footer says of them.
    let url = format!("{}/d/a.parquet", server.url());
    for set in [
        (|conversion| conversion.drop_fields(["v"])) as fn(Conversion) -> Conversion,
        |conversion| conversion.fields(["n"]),
        |conversion| conversion.fields(["n"]).key("{key}-{n}"),
    ] {
        let found = sent(&server, &url, set);
        assert!(found <= OPENING + (1500 * 20), "{found}");
    }
    let bytes = archive(1000, 6000, zip::CompressionMethod::Stored);
    let len = bytes.len() as u64;
    server.put("/d/a.zip", bytes);
    let url = format!("{}/d/a.zip", server.url());
    let found = sent(&server, &url, |conversion| conversion);
    assert!(found <= len + len / 10 + OPENING, "{found} for {len}");
    let found = sent(&server, &url, |conversion| conversion.include(["*7/*"]));
    assert!(found <= len / 10 + len / 100 + 2 * OPENING, "{found} for {len}");
}

/// One thread that reads a large file does not wait for one connection.
#[test]
fn what_comes_next_of_a_large_file_is_on_its_way() {
    let dir = tempfile::tempdir().unwrap();
    let set = dataset(dir.path(), 48, 1 << 20);
    let server = Server::start();
    let text: Vec<String> =
        (0..48).map(|row| format!("{row},{}\n", "ab1 ".repeat(1 << 18))).collect();
    let table = ("a.csv".to_owned(), format!("key,text\n{}", text.concat()).into_bytes());
    for (name, bytes) in [table, made(&set, Format::Arrow), made(&set, Format::Webdataset)] {
        let url = format!("{}/d/{name}", server.url());
        server.put(&format!("/d/{name}"), bytes.clone());
        let convert = |source: &str, out: &str| {
            let output = dir.path().join(out);
            Conversion::new([source], &output).overwrite(true).run(&mut Silent).unwrap();
            fs::read(output).unwrap()
        };
        let local = dir.path().join(&name);
        fs::write(&local, &bytes).unwrap();
        let expected = convert(local.to_str().unwrap(), "local.msgpack");
        let mut most = 0;
        // A busy machine may take longer to ask than answers are late.
        for late in [20, 200, 2000] {
            server.requests();
            server.most_at_once();
            server.fail(move |_, _| Some(Fault::Late(late)));
            assert_eq!(convert(&url, "remote.msgpack"), expected, "{name}");
            server.fail(|_, _| None);
            most = server.most_at_once();
            if most >= 4 {
                break;
            }
        }
        assert!(most >= 4, "{name}: {most} at once");
        // Each byte once, but for what opening looks at.
        let sent = server.sent();
        assert!(
            sent <= bytes.len() as u64 * 102 / 100 + OPENING,
            "{name}: {sent} of {}",
            bytes.len()
        );
        let versions = |request: &server::Request| request.header("if-match").map(str::to_owned);
        let requests = server.requests();
        let versions: BTreeSet<_> = requests.iter().filter_map(versions).collect();
        assert!(versions.len() <= 1, "{versions:?}");
    }
}

#[test]
fn rounds_are_few() {
    let server = Server::start();
    server.put("/d/a.zip", archive(1000, 2000, zip::CompressionMethod::Stored));
    let before = server.requests().len();
    sent(&server, &format!("{}/d/a.zip", server.url()), |conversion| conversion);
    let requests = server.requests().len() - before;
    // One for each unit of 32 files, and some to open it.
    assert!(requests <= 1000 / 32 + 20, "{requests}");
}

#[test]
fn shards_of_mds_are_found_by_their_index() {
    let dir = tempfile::tempdir().unwrap();
    let set = dataset(dir.path(), 300, 500);
    let mds = dir.path().join("mds");
    Conversion::new([&set], &mds).to(Format::Mds).run(&mut Silent).unwrap();
    let local = dir.path().join("local.msgpack");
    Conversion::new([&mds], &local).run(&mut Silent).unwrap();
    let server = Server::start();
    for file in fs::read_dir(&mds).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        server.put(&format!("/d/mds/{name}"), fs::read(file.path()).unwrap());
    }
    let remote = dir.path().join("remote.msgpack");
    for url in ["mds/index.json", "mds/", "mds"] {
        let url = format!("{}/d/{url}", server.url());
        Conversion::new([&url], &remote).overwrite(true).run(&mut Silent).unwrap();
        assert_eq!(fs::read(&local).unwrap(), fs::read(&remote).unwrap(), "{url}");
    }
    // The index of a folder on a disk says the same.
    let index = mds.join("index.json");
    Conversion::new([&index], &remote).overwrite(true).run(&mut Silent).unwrap();
    assert_eq!(fs::read(&local).unwrap(), fs::read(&remote).unwrap());
    // A shard of another size is not read.
    let shard = server.names().into_iter().find(|name| name.ends_with(".mds")).unwrap();
    server.put(&shard, server.get(&shard)[1..].to_vec());
    let url = format!("{}/d/mds/index.json", server.url());
    let error = Conversion::new([&url], &remote).overwrite(true).run(&mut Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
}

/// Compressed shards alone, as most uploads have them.
#[test]
fn compressed_shards_of_mds_are_read_from_urls() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/streaming-0.13.0/zstd");
    let server = Server::start();
    for file in fs::read_dir(&folder).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        server.put(&format!("/d/{name}"), fs::read(file.path()).unwrap());
    }
    let dir = tempfile::tempdir().unwrap();
    let [local, remote] = ["local.msgpack", "remote.msgpack"].map(|name| dir.path().join(name));
    Conversion::new([&folder], &local).run(&mut Silent).unwrap();
    let url = format!("{}/d/index.json", server.url());
    Conversion::new([&url], &remote).run(&mut Silent).unwrap();
    assert_eq!(fs::read(&local).unwrap(), fs::read(&remote).unwrap());
    let vain: Vec<_> = server.requests().into_iter().filter(|r| r.status >= 300).collect();
    assert!(vain.is_empty(), "{vain:?}");
}

#[test]
fn a_list_names_images_at_urls() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let images = dir.path().join("images");
    let mut list = String::from("path,label\n");
    for index in 0..70 {
        let name = format!("{}/{index}.png", index % 3);
        let bytes = noise(index, 500 * index as usize);
        fs::create_dir_all(images.join(&name).parent().unwrap()).unwrap();
        fs::write(images.join(&name), &bytes).unwrap();
        server.put(&format!("/d/images/{name}"), bytes);
        list.push_str(&format!("{name},{}\n", index % 3));
    }
    let path = images.join("list.csv");
    fs::write(&path, &list).unwrap();
    server.put("/d/images/list.csv", list.clone().into_bytes());
    let [local, remote] = ["local.msgpack", "remote.msgpack"].map(|name| dir.path().join(name));
    let convert = |list: &str, root: Option<&str>, to: &Path| {
        let conversion = Conversion::new([list], to).from(Format::List).overwrite(true);
        match root {
            Some(root) => conversion.root(root),
            None => conversion,
        }
        .run(&mut Silent)
    };
    convert(path.to_str().unwrap(), None, &local).unwrap();
    let root = format!("{}/d/images", server.url());
    server.fail(|number, _| (number % 9 == 4).then_some(server::Fault::Status(503, None)));
    // The list at a URL as well, with its images next to it; and on a disk.
    let cases = [(format!("{root}/list.csv"), None), (path.display().to_string(), Some(&root[..]))];
    for (list, root) in cases {
        convert(&list, root, &remote).unwrap();
        assert_eq!(fs::read(&local).unwrap(), fs::read(&remote).unwrap(), "{list}");
    }
    // URLs in the list.
    let urls = list.replace("\n0/", &format!("\n{root}/0/"));
    fs::write(&path, urls).unwrap();
    let error = convert(path.to_str().unwrap(), None, &remote).unwrap_err();
    assert_eq!(error.remedy(), Some(&Remedy::AllowOutside), "{error}");
    let conversion = Conversion::new([&path], &remote).from(Format::List).overwrite(true);
    conversion.allow_outside(true).run(&mut Silent).unwrap();
    let (local, remote) =
        (DatasetReader::open(&local).unwrap(), DatasetReader::open(&remote).unwrap());
    assert_eq!(remote.key(3).unwrap(), format!("{root}/0/3.png"));
    for index in 0..local.len() {
        let image = |set: &DatasetReader| set.get(index).unwrap()["image"].clone();
        assert_eq!(image(&local), image(&remote));
    }
}

/// A list that another person made, behind a URL, does not reach the files of this machine.
#[test]
fn a_list_at_a_url_names_no_files_of_this_machine() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret.png");
    fs::write(&secret, b"secret").unwrap();
    server.put("/d/list.csv", format!("path\n{}\n", secret.display()).into_bytes());
    let url = format!("{}/d/list.csv", server.url());
    let out = dir.path().join("out.msgpack");
    let error = Conversion::new([&url], &out).from(Format::List).run(&mut Silent).unwrap_err();
    let inside = "expected the path of a file in this folder";
    assert!(error.to_string().contains(inside), "{error}");
    assert!(server.requests().iter().all(|request| request.path == "/d/list.csv"));
    assert!(!out.exists());
    // Nor one with --root, a folder of this machine.
    let folder = dir.path().join("images");
    fs::create_dir(&folder).unwrap();
    for (at, name) in [secret.to_str().unwrap(), "../secret.png"].into_iter().enumerate() {
        server.put(&format!("/d/{at}.csv"), format!("path\n{name}\n").into_bytes());
        let list = format!("{}/d/{at}.csv", server.url());
        let reader = ImageFolderReader::options().root(&folder).list(Path::new(&list));
        let error = reader.map(drop).unwrap_err();
        assert!(error.to_string().contains(inside), "{error}");
    }
    // What must not be shown would be a key. It is refused before any image is fetched.
    let root = server.url();
    let signed = format!("path\n{root}/d/a.png\n{root}/d/b.png?signature=s3cret\n");
    server.put("/d/list.csv", signed.into_bytes());
    server.requests();
    let error = Conversion::new([&url], &out).from(Format::List).run(&mut Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(!error.to_string().contains("s3cret"), "{error}");
    assert!(server.requests().iter().all(|request| request.path == "/d/list.csv"));
}

#[test]
fn folders_at_urls_are_refused_with_what_to_do() {
    let server = Server::start();
    server.put("/d/images/cat/1.png", b"png".to_vec());
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.msgpack");
    let url = format!("{}/d/images/", server.url());
    let error = Conversion::new([&url], &out).run(&mut Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(format!("{:?}", error.remedy()).contains("name the files"), "{error:?}");
    let images = Conversion::new([&url], &out).from(Format::Images);
    let error = images.run(&mut Silent).unwrap_err();
    assert!(format!("{:?}", error.remedy()).contains("list"), "{error:?}");
    assert!(!out.exists());
}

#[test]
fn a_table_that_is_replaced_during_a_conversion_is_an_error() {
    /// Replaces the object once its footer was read.
    struct Replaces<'a>(&'a Server, Vec<u8>);

    impl Monitor for Replaces<'_> {
        fn begin(&mut self, _: Phase, _: Total) {
            self.0.put("/d/a.parquet", self.1.clone());
        }
    }

    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let set = dataset(dir.path(), 300, 100);
    let bytes = made(&set, Format::Parquet).1;
    server.put("/d/a.parquet", bytes.clone());
    let url = format!("{}/d/a.parquet", server.url());
    let convert = || Conversion::new([&url], dir.path().join("out.msgpack")).overwrite(true);
    let error = convert().run(&mut Replaces(&server, bytes)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Replaced, "{error}");
    convert().run(&mut Silent).unwrap();
}

/// Where nothing says which version it is, at least the size must stay.
#[test]
fn tables_and_lines_are_read_from_a_server_without_tags() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let set = dataset(dir.path(), 300, 100);
    server.put("/d/a.parquet", made(&set, Format::Parquet).1);
    server.put("/d/a.jsonl", lines(300));
    server.retag(None, "Mon, 23 Nov 2026 00:00:00 GMT");
    for name in ["a.parquet", "a.jsonl"] {
        let out = dir.path().join("out.msgpack");
        let url = format!("{}/d/{name}", server.url());
        Conversion::new([&url], &out).overwrite(true).run(&mut Silent).unwrap();
        assert_eq!(DatasetReader::open(&out).unwrap().len(), 300);
    }
}

/// The names of labels are next to the file, and those of another version do not stay.
#[test]
fn labels_of_cifar_are_found_next_to_its_url() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let record = |label: u8| [&[label][..], &noise(label.into(), 3072)].concat();
    server.put("/d/data_batch_1.bin", [record(1), record(0)].concat());
    let url = format!("{}/d/data_batch_1.bin", server.url());
    for (number, names) in [None, Some("cat\ndog\n"), Some("dog\ncat\n")].into_iter().enumerate() {
        if let Some(names) = names {
            server.put("/d/batches.meta.txt", names.as_bytes().to_vec());
        }
        let out = dir.path().join(format!("{number}.msgpack"));
        Conversion::new([&url], &out).from(Format::Cifar10).run(&mut Silent).unwrap();
        let set = DatasetReader::open(&out).unwrap();
        assert_eq!(set.len(), 2);
        let found = set.labels().unwrap().map(|names| names.join("\n") + "\n");
        assert_eq!(found.as_deref(), names);
    }
}

#[test]
fn digits_of_mnist_are_read_from_urls() {
    let images = [&[0, 0, 8, 3, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 2][..], &noise(1, 20)].concat();
    converts_alike("images-idx3-ubyte", images, |conversion| conversion);
}
