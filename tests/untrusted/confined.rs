//! Names inside data lead to files of their folder and nowhere else, unless that is allowed: all formats
//! that name files, with all ways out.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiste::array::ArrayOptions;
use kiste::convert::{
    Conversion, Format, ImageFolderReader, InOrder, Input, MdsReader, MdsWriter, Silent, Source,
};
use kiste::error::Remedy;
use kiste::format::msgpack::{self, RowRef};
use kiste::reader::DirectoryReader;
use kiste::reader::{ArraySource, WithArrays};
use kiste::storage::LocalStorage;
use kiste::value::DType;
use kiste::verify::Verify;
use kiste::{DatasetReader, Error, ErrorKind, Reader, Result, Value, Writer};
use tempfile::TempDir;

/// What is in a file that no name in the folder may lead to.
const SECRET: &[u8] = b"\xff\xd8\xff only for its owner";

/// `folder`, with `in.jpg` and links in it, and next to it what must not be read.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let place = Place { dir };
        fs::create_dir_all(place.at("folder/sub")).unwrap();
        fs::create_dir_all(place.at("elsewhere")).unwrap();
        fs::write(place.at("folder/in.jpg"), b"\xff\xd8\xff for all").unwrap();
        fs::write(place.at("elsewhere/secret.jpg"), SECRET).unwrap();
        symlink("../elsewhere/secret.jpg", place.at("folder/link.jpg")).unwrap();
        symlink("../elsewhere", place.at("folder/links")).unwrap();
        symlink("in.jpg", place.at("folder/also.jpg")).unwrap();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Names that lead to the secret: by their text, and by a link.
    fn ways_out(&self) -> (Vec<String>, Vec<String>) {
        let absolute = self.at("elsewhere/secret.jpg").to_str().unwrap().to_owned();
        let folder = self.at("folder").to_str().unwrap().to_owned();
        let by_text = vec![
            absolute.clone(),
            "../elsewhere/secret.jpg".to_owned(),
            "sub/../../elsewhere/secret.jpg".to_owned(),
            format!("{folder}/../elsewhere/secret.jpg"),
        ];
        (by_text, vec!["link.jpg".to_owned(), "links/secret.jpg".to_owned()])
    }
}

fn all(input: impl Input + 'static) -> Result<Vec<u8>> {
    let mut source = InOrder::new(input);
    let mut bytes = Vec::new();
    loop {
        let batch = source.next_batch()?;
        if batch.is_empty() {
            return Ok(bytes);
        }
        for sample in batch {
            bytes.extend(sample?);
        }
    }
}

fn has_secret(bytes: &[u8]) -> bool {
    bytes.windows(SECRET.len()).any(|window| window == SECRET)
}

/// A format that names files: writes a name into the folder, and reads what it leads to.
type Member = fn(&Place, &str, bool) -> Result<Vec<u8>>;

fn list(place: &Place, name: &str, outside: bool) -> Result<Vec<u8>> {
    let list = place.at("folder/list.csv");
    fs::write(&list, format!("path\n{name}\n")).unwrap();
    all(ImageFolderReader::options().allow_outside(outside).list(list)?)
}

fn list_with_root(place: &Place, name: &str, outside: bool) -> Result<Vec<u8>> {
    let list = place.at("list.tsv");
    fs::write(&list, format!("{name}\tlabel\n")).unwrap();
    let options = ImageFolderReader::options().root(place.at("folder"));
    all(options.allow_outside(outside).list(list)?)
}

fn conversion_of_list(place: &Place, name: &str, outside: bool) -> Result<Vec<u8>> {
    let (list, out) = (place.at("folder/list.csv"), place.at("out.msgpack"));
    fs::write(&list, format!("path\n{name}\n")).unwrap();
    let conversion = Conversion::new([list], &out).from(Format::List).overwrite(true);
    conversion.allow_outside(outside).run(&mut Silent)?;
    Ok(fs::read(out).unwrap())
}

fn metadata_jsonl(place: &Place, name: &str, outside: bool) -> Result<Vec<u8>> {
    let metadata = place.at("folder/metadata.jsonl");
    fs::write(metadata, serde_json::json!({ "file_name": name }).to_string()).unwrap();
    let folder = ImageFolderReader::options().allow_outside(outside).folder(place.at("folder"));
    all(folder?)
}

fn metadata_csv(place: &Place, name: &str, outside: bool) -> Result<Vec<u8>> {
    fs::remove_file(place.at("folder/metadata.jsonl")).ok();
    fs::write(place.at("folder/metadata.csv"), format!("file_name\n{name}\n")).unwrap();
    let folder = ImageFolderReader::options().allow_outside(outside).folder(place.at("folder"));
    all(folder?)
}

fn list_of_a_directory(place: &Place, name: &str, outside: bool) -> Result<Vec<u8>> {
    let list = place.at("folder/list.txt");
    fs::write(&list, format!("{name}\tlabel\n")).unwrap();
    let options = DirectoryReader::options().root(place.at("folder")).allow_outside(outside);
    let reader = options.open([list.to_str().unwrap()])?;
    Ok(reader.get_raw(0)?.into_owned())
}

/// Tables that `save_to_disk` of Hugging Face's `datasets` lists.
#[cfg(feature = "parquet")]
fn saved_dataset(place: &Place, name: &str, outside: bool) -> Result<Vec<u8>> {
    for (file, content) in [("folder/in.jpg", &b"for all"[..]), ("elsewhere/secret.jpg", SECRET)] {
        fs::remove_file(place.at(file)).unwrap();
        let mut writer = kiste::convert::ArrowIpcWriter::create(place.at(file))?;
        let fields = [("key", Value::from(file)), ("x", content.into())];
        let fields = fields.map(|(name, value)| (name.into(), value));
        writer.write_packed(&msgpack::to_vec(&Value::Map(fields.to_vec())).unwrap())?;
        writer.finish()?;
    }
    let state = serde_json::json!({ "_data_files": [{ "filename": name }] }).to_string();
    fs::write(place.at("folder/state.json"), state).unwrap();
    let out = place.at("out.msgpack");
    let conversion = Conversion::new([place.at("folder")], &out).from(Format::Arrow);
    conversion.overwrite(true).allow_outside(outside).run(&mut Silent)?;
    Ok(fs::read(out).unwrap())
}

const MEMBERS: &[(&str, Member)] = &[
    ("list", list),
    ("list with root", list_with_root),
    ("conversion of a list", conversion_of_list),
    ("metadata.jsonl", metadata_jsonl),
    ("metadata.csv", metadata_csv),
    ("list of a directory", list_of_a_directory),
    #[cfg(feature = "parquet")]
    ("saved dataset", saved_dataset),
];

#[track_caller]
fn assert_refused(result: Result<Vec<u8>>, what: &str, name: &str) {
    match result {
        Ok(bytes) => panic!("{what}, {name}: read {} bytes", bytes.len()),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{what}, {name}: {error}");
            assert_eq!(error.remedy(), Some(&Remedy::AllowOutside), "{what}, {name}: {error}");
        }
    }
}

#[test]
fn no_file_is_read_that_is_not_in_the_folder() {
    for &(what, read) in MEMBERS {
        let place = Place::new();
        let inside = place.at("folder/in.jpg").to_str().unwrap().to_owned();
        for name in ["in.jpg", "./in.jpg", "sub/../in.jpg", "also.jpg", &inside] {
            let bytes = read(&place, name, false);
            let bytes = bytes.unwrap_or_else(|error| panic!("{what}, {name}: {error}"));
            assert!(!has_secret(&bytes));
        }
        let (by_text, by_link) = place.ways_out();
        for name in by_text.iter().chain(&by_link) {
            assert_refused(read(&place, name, false), what, name);
            let bytes = read(&place, name, true);
            let bytes = bytes.unwrap_or_else(|error| panic!("{what}, {name}: {error}"));
            assert!(has_secret(&bytes), "{what}, {name}");
        }
        // Whether they exist is not told either.
        for name in [
            "/etc/passwd",
            "/no/such/file",
            "../no/such/file",
            "file:///etc/passwd",
            "http://127.0.0.1:1/x.jpg",
            "s3://bucket/x.jpg",
        ] {
            assert_refused(read(&place, name, false), what, name);
        }
        assert!(read(&place, "no.jpg", false).is_err());
    }
}

#[cfg(feature = "parquet")]
#[test]
fn a_saved_dataset_says_which_name_leads_out() {
    let place = Place::new();
    for name in ["link.jpg", "../elsewhere/secret.jpg"] {
        let error = saved_dataset(&place, name, false).unwrap_err().to_string();
        let says = format!("state.json: file {name:?}: expected the path of a file in this folder");
        assert!(error.contains(&says), "{error}");
    }
}

#[test]
fn a_cache_of_links_is_read_with_what_names_its_files() {
    // As on a hub: the folder holds links to files by their digests, the metadata among them.
    let place = Place::new();
    let text = serde_json::json!({ "file_name": "link.jpg" }).to_string();
    fs::write(place.at("elsewhere/0123"), text).unwrap();
    symlink("../elsewhere/0123", place.at("folder/metadata.jsonl")).unwrap();
    assert!(has_secret(&all(ImageFolderReader::open(place.at("folder")).unwrap()).unwrap()));
}

#[test]
fn files_of_a_folder_that_is_gone_through_may_be_links() {
    // Nothing in the data names them: who made the folder has put them there.
    let place = Place::new();
    let bytes = all(ImageFolderReader::open(place.at("folder")).unwrap()).unwrap();
    assert!(has_secret(&bytes));
}

fn sample(key: &str) -> Vec<u8> {
    let fields = [("key", Value::from(key)), ("v", 1.into())];
    let fields = fields.map(|(name, value)| (name.into(), value));
    msgpack::to_vec(&Value::Map(fields.to_vec())).unwrap()
}

#[test]
fn shards_are_in_the_folder_of_what_lists_them() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    // A data set of MDS whose shard is a link.
    let mut writer = MdsWriter::create(at("mds")).unwrap();
    writer.write_packed(&sample("a")).unwrap();
    writer.finish().unwrap();
    fs::rename(at("mds/shard.00000.mds"), at("far.mds")).unwrap();
    symlink("../far.mds", at("mds/shard.00000.mds")).unwrap();
    let mds = || MdsReader::open(at("mds")).unwrap();
    assert_refused(all(mds()), "mds", "link");
    all(mds().allow_outside(true)).unwrap();
    let index = fs::read_to_string(at("mds/index.json")).unwrap();
    for name in ["../far.mds", "/etc/passwd", "sub/../../far.mds", "http://127.0.0.1:1/x"] {
        fs::write(at("mds/index.json"), index.replace("shard.00000.mds", name)).unwrap();
        assert!(MdsReader::open(at("mds")).is_err(), "{name}");
    }
    // A dataset of many files, all of a shard being links.
    let lines = at("lines.jsonl");
    fs::write(&lines, "{\"key\": \"a\"}\n{\"key\": \"b\"}\n").unwrap();
    let many = at("set/many.shards.json");
    fs::create_dir(at("set")).unwrap();
    Conversion::new([&lines], &many).shard_size(1).run(&mut Silent).unwrap();
    fs::create_dir(at("far")).unwrap();
    for entry in fs::read_dir(at("set")).unwrap() {
        let path = entry.unwrap().path();
        if path != many {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            fs::rename(&path, at("far").join(&name)).unwrap();
            symlink(format!("../far/{name}"), &path).unwrap();
        }
    }
    let open = |outside| {
        let storage = Arc::new(LocalStorage::mapped().allow_outside(outside));
        let reader = DatasetReader::options().storage(storage.clone()).open(&many)?;
        let raw = reader.get_raw(0)?.into_owned();
        Ok::<_, Error>((raw, Verify::of(&many).storage(storage).run()?.is_good()))
    };
    assert_refused(open(false).map(|(raw, _)| raw), "manifest", "link");
    let verified = Verify::of(&many).run().map(|_| Vec::new());
    assert_refused(verified, "verify", "link");
    assert!(open(true).unwrap().1);
    let manifest = fs::read_to_string(&many).unwrap();
    let first = DatasetReader::options();
    let first = first.storage(Arc::new(LocalStorage::mapped().allow_outside(true)));
    drop(first);
    for name in ["../far/x.msgpack", "/etc/passwd", "a/../../x.msgpack"] {
        let start = manifest.find("\"many").unwrap();
        let end = start + 1 + manifest[start + 1..].find('"').unwrap();
        let changed = format!("{}\"{name}{}", &manifest[..start], &manifest[end..]);
        fs::write(&many, changed).unwrap();
        assert!(open(true).is_err() && open(false).is_err(), "{name}");
    }
}

#[test]
fn rows_of_arrays_are_in_the_folder_of_the_dataset() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["far", "set/near"] {
        fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        let mut store = ArrayOptions::default().create(at(name), DType::of::<f32>(), &[0]).unwrap();
        store.append(&(&ndarray::arr1(&[1.0_f32])).into(), "a row").unwrap();
    }
    symlink("../far", at("set/link")).unwrap();
    symlink("near", at("set/also")).unwrap();
    let read = |name: &str, outside| {
        let path = at("set/d.msgpack");
        let mut writer = Writer::options().overwrite(true).create(&path).unwrap();
        #[derive(serde::Serialize)]
        struct Row {
            key: &'static str,
            x: RowRef,
        }
        writer.write(&Row { key: "a", x: RowRef::new(name, 0) }).unwrap();
        writer.finish().unwrap();
        let source = ArraySource::new(at("set")).allow_outside(outside);
        let reader = WithArrays::new(DatasetReader::open(path).unwrap(), source);
        reader.get_raw(0).map(std::borrow::Cow::into_owned)
    };
    read("near", false).unwrap();
    read("also", false).unwrap();
    for name in ["link", "../far", at("far").to_str().unwrap()] {
        assert_refused(read(name, false), "array", name);
        read(name, true).unwrap();
    }
}

#[test]
fn nothing_is_written_outside_of_a_folder_of_images() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("images")).unwrap();
    for key in ["../out", "/tmp/out", "a/../../out", "a\\..\\..\\out", "C:\\out"] {
        let mut writer = Writer::options().overwrite(true).create(at("d.msgpack")).unwrap();
        let fields = [("key", Value::from(key)), ("image", Value::Binary(SECRET.to_vec()))];
        let fields = fields.map(|(name, value)| (name.into(), value));
        writer.write_raw(key, &msgpack::to_vec(&Value::Map(fields.to_vec())).unwrap()).unwrap();
        writer.finish().unwrap();
        let conversion = Conversion::new([at("d.msgpack")], at("images/out"));
        let error = conversion.to(Format::Images).run(&mut Silent).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{key}: {error}");
        let found: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
        assert!(found.iter().all(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            !Path::new(&name).to_str().unwrap().starts_with("out")
        }));
    }
}
