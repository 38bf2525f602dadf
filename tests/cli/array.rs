//! `array` and its commands.

use kiste::array::{ArrayOptions, ChunkedArray};
use kiste::format::numpy::npy;
use kiste::value::{DType, Element, NdArray};
use ndarray::{Array, Dimension, arr1, arr2};

use super::*;

/// Writes a .npy file.
fn save<T: Element, D: Dimension>(dir: &TempDir, name: &str, array: &Array<T, D>) {
    let bytes = npy::encode(&NdArray::from_ndarray(array)).unwrap();
    fs::write(dir.path().join(name), bytes).unwrap();
}

/// A directory with the array `x`: two rows, then four, then another number at one place.
fn with_array() -> TempDir {
    let dir = scratch();
    let chunks = ["--chunks", "2,3"];
    let create = ["array", "create", "x", "--dtype", "<f4", "--shape", "0,3"];
    run(&dir, create.into_iter().chain(chunks)).exits(0);
    save(&dir, "rows.npy", &arr2(&[[0.0_f32, 1.0, 2.0], [3.0, 4.0, 5.0]]));
    run(&dir, ["array", "append", "x", "--npy", "rows.npy"]).exits(0);
    run(&dir, ["array", "append", "x", "--npy", "rows.npy", "-m", "again"]).exits(0);
    run(&dir, ["array", "put", "x[3, -1]", "--value", "-7.5"]).exits(0);
    dir
}

fn get(dir: &TempDir, args: &[&str]) -> String {
    run(dir, ["array", "get"].into_iter().chain(args.iter().copied())).quietly().out
}

#[test]
fn what_was_written_is_printed_at_every_version() {
    let dir = with_array();
    let newest = "[[ 0.   1.   2. ]\n [ 3.   4.   5. ]\n [ 0.   1.   2. ]\n [ 3.   4.  -7.5]]\n";
    assert_eq!(get(&dir, &["x"]), newest);
    assert_eq!(get(&dir, &["x[1:, ::-2]"]), "[[ 5.   3. ]\n [ 2.   0. ]\n [-7.5  3. ]]\n");
    assert_eq!(get(&dir, &["x[[3, 0], 2]"]), "[-7.5  2. ]\n");
    assert_eq!(get(&dir, &["x[-1, -1]"]), "-7.5\n");
    for at in ["-1", "3"] {
        assert_eq!(get(&dir, &["x[-1]", "--at", at]), "[3. 4. 5.]\n");
    }
    assert_eq!(get(&dir, &["x", "--at", "1"]), "[], shape [0, 3]\n");
    let json = run(&dir, ["array", "get", "x[2:, ...]", "--json"]).quietly().json();
    assert_eq!(json, serde_json::json!([[0.0, 1.0, 2.0], [3.0, 4.0, -7.5]]));
    run(&dir, ["array", "get", "x", "--at", "9"]).fails(2, "there is no version 9");
    run(&dir, ["array", "get", "x", "--at", "1970-01-01"]).fails(2, "found only later ones");
    run(&dir, ["array", "get", "x[9]"]).fails(2, "x: index 9 is out of bounds for axis 0");
    run(&dir, ["array", "get", "x[0,0,0]"]).fails(2, "x: too many indices");
    run(&dir, ["array", "get", "y"]).fails(2, "y: no such directory");
}

#[test]
fn windows_select_what_the_library_does() {
    let dir = scratch();
    let path = dir.path().join("x");
    let options = ArrayOptions::default().chunk_shape([3, 2, 2]);
    let mut store = options.create(&path, DType::of::<i32>(), &[0, 5, 4]).unwrap();
    let numbers = ndarray::Array3::from_shape_fn((7, 5, 4), |(i, j, k)| {
        i32::try_from(i * 20 + j * 4 + k).unwrap()
    });
    store.append(&NdArray::from_ndarray(&numbers), "all").unwrap();
    let selections = [
        "",
        ":",
        "1:6:2",
        "::-1",
        "-2::-3",
        "5:1:-2",
        "..., 0",
        "2",
        "..., ::-1, 1:3",
        "None, 3:",
        "7:",
        "3:3",
        "0, 1, 2",
        "..., None",
        "[6, 0, 6]",
        ":, [1, 1]",
        "-100:100",
        ":, ::-9, 3:0:-2",
    ];
    for selection in selections {
        let out = kiste()
            .args(["array", "get", "--npy", "-", &format!("x[{selection}]")])
            .current_dir(&dir)
            .output()
            .unwrap();
        assert!(out.status.success(), "{selection}: {out:?}");
        let found = npy::decode(&out.stdout).unwrap();
        let expected = store.array().read(selection.parse::<kiste::array::Selection>().unwrap());
        assert_eq!(found, expected.unwrap(), "{selection}");
    }
}

#[test]
fn versions_are_listed_compared_and_brought_back() {
    let dir = with_array();
    let log = run(&dir, ["array", "log", "x", "--json"]).quietly().json();
    let column = |name: &str| -> Vec<Json> {
        log.as_array().unwrap().iter().map(|entry| entry[name].clone()).collect()
    };
    assert_eq!(column("version"), [4, 3, 2, 1]);
    assert_eq!(column("message"), ["put", "again", "append", "created"]);
    // What was appended twice is one chunk, in two places.
    assert_eq!(column("changed"), [1, 1, 1, 0]);
    assert_eq!(column("added_chunks"), [1, 0, 1, 0]);
    let bytes = |name: &str| -> Vec<u64> {
        column(name).iter().map(|bytes| bytes.as_u64().unwrap()).collect()
    };
    let (added, all) = (bytes("added_bytes"), bytes("bytes"));
    assert_eq!((added[0] + added[2], 2 * added[2], added[1] + added[3]), (all[0], all[1], 0));
    assert!(run(&dir, ["array", "log", "x"]).quietly().out.contains("(4, 3)            again\n"));
    let diff = run(&dir, ["array", "diff", "x", "-1"]).exits(1);
    assert_eq!((&*diff.out, &*diff.err), ("chunk [1, 0]: [2:4, 0:3]\n", ""));
    run(&dir, ["array", "diff", "x", "4"]).quietly();
    let json = run(&dir, ["array", "diff", "x", "2", "3", "--json"]).exits(1).json();
    assert_eq!(json["shapes"], serde_json::json!([[2, 3], [4, 3]]));
    assert_eq!(json["chunks"][0]["region"], serde_json::json!([[2, 4], [0, 3]]));

    run(&dir, ["array", "checkout", "x", "2"]).exits(0);
    assert_eq!(get(&dir, &["x"]), "[[0. 1. 2.]\n [3. 4. 5.]]\n");
    let log = run(&dir, ["array", "log", "x", "--json"]).quietly().json();
    assert_eq!((&log[0]["version"], &log[0]["parent"]), (&5.into(), &2.into()));
    assert_eq!(log[0]["message"], "checkout of version 2");
    assert!(run(&dir, ["array", "checkout", "x", "5"]).exits(0).err.contains("already the newest"));
}

#[test]
fn versions_are_removed_when_asked_and_said_which_before() {
    let dir = with_array();
    let dry = run(&dir, ["array", "gc", "x", "--keep", "2", "--dry-run"]).quietly();
    assert_eq!(dry.out, "1\n2\n");
    let all = |dir: &TempDir| ChunkedArray::open(dir.path().join("x")).unwrap().versions().unwrap();
    assert_eq!(all(&dir).len(), 4);
    run(&dir, ["array", "gc", "x", "--remove", "9"]).fails(2, "there is no version 9");
    run(&dir, ["array", "gc", "x", "--remove", "1", "3"]).exits(0);
    assert_eq!(all(&dir).iter().map(|v| v.number).collect::<Vec<_>>(), [2, 4]);
    let since = run(&dir, ["array", "gc", "x", "--keep-since", "2999-01-01"]).exits(0);
    assert!(since.err.starts_with("x: removed 1 version, "), "{since:?}");
    run(&dir, ["array", "verify", "x"]).quietly();
    assert!(
        run(&dir, ["array", "gc", "x", "--keep", "1", "--remove", "1"]).exits(2).out.is_empty()
    );
}

#[test]
fn attributes_are_json() {
    let dir = with_array();
    run(&dir, ["array", "attrs", "x", "unit=\"m\"", "scale=0.5"]).exits(0);
    assert_eq!(run(&dir, ["array", "attrs", "x", "unit"]).quietly().out, "\"m\"\n");
    run(&dir, ["array", "attrs", "x", "--delete", "unit"]).exits(0);
    let left = run(&dir, ["array", "attrs", "x"]).quietly().json();
    assert_eq!(left, serde_json::json!({"scale": 0.5}));
    let before = run(&dir, ["array", "attrs", "x", "--at", "-1", "unit"]).quietly();
    assert_eq!(before.out, "\"m\"\n");
    run(&dir, ["array", "attrs", "x", "unit"]).fails(1, "there is no attribute \"unit\"");
    run(&dir, ["array", "attrs", "x", "--delete", "unit"]).fails(1, "no attribute \"unit\"");
    let text = run(&dir, ["array", "attrs", "x", "unit=m"]).fails(2, "expected JSON, found \"m\"");
    assert!(text.err.contains("hint: quote strings: unit='\"m\"'"), "{text:?}");
    run(&dir, ["array", "attrs", "x", "unit=1", "scale"]).fails(2, "found both");
}

#[test]
fn arrays_go_out_and_come_back_in_all_formats() {
    let dir = with_array();
    let expected = get(&dir, &["x"]);
    for format in ["npy", "npz", "blp", "bcolz"] {
        let (file, name) = (format!("out.{format}"), format!("from-{format}"));
        run(&dir, ["array", "export", "x", &file]).quietly();
        let made = run(&dir, ["array", "import", &file, &name]).exits(0);
        assert_eq!(made.err, format!("{name}: version 1, shape (4, 3)\n"));
        assert_eq!(get(&dir, &[&name]), expected, "{format}");
        let versions = ChunkedArray::open(dir.path().join(&name)).unwrap().versions().unwrap();
        assert_eq!(versions.len(), 1, "{format}");
        run(&dir, ["array", "export", "x", &file]).exits(2);
        run(&dir, ["array", "import", &file, "x"]).fails(2, "x: already exists");
    }
    run(&dir, ["array", "export", "x", "out.npy", "--force"]).quietly();
    run(&dir, ["array", "export", "x[..., 0]", "part", "--to", "npy", "--at", "2"]).quietly();
    let part = fs::read(dir.path().join("part")).unwrap();
    let part = npy::decode(&part).unwrap().to_ndarray::<f32>().unwrap();
    assert_eq!(part, arr1(&[0.0, 3.0]).into_dyn());
    run(&dir, ["array", "export", "x", "out.txt"])
        .fails(2, "expected a name ending in .npy, .npz, .blp or .bcolz");
    run(&dir, ["array", "import", "rows", "y"]).fails(2, "expected a .npy, .npz or .blp file");
    // Nothing is left of what failed.
    let left = names(dir.path());
    assert!(left.iter().all(|name| !name.ends_with(".partial")), "{left:?}");
}

#[test]
fn rows_come_from_files_and_pipes_in_any_type_that_fits() {
    let dir = with_array();
    let bytes = npy::encode(&NdArray::from_ndarray(&arr2(&[[1_i16, 2, 3], [4, 5, 6]]))).unwrap();
    fs::write(dir.path().join("short.npy"), &bytes).unwrap();
    run(&dir, ["array", "append", "x", "--npy", "short.npy"]).exits(0);
    run_with(&dir, ["array", "append", "x", "--npy", "-"], &bytes).exits(0);
    run_with(&dir, ["array", "put", "x[::-4]", "--npy", "-"], &bytes).exits(0);
    let shown = get(&dir, &["x[[3, 7]]"]);
    assert_eq!(shown, "[[4. 5. 6.]\n [1. 2. 3.]]\n");
    save(&dir, "column.npy", &arr1(&[9_u8, 8]));
    run(&dir, ["array", "put", "x[:2, 1]", "--npy", "column.npy"]).exits(0);
    assert_eq!(get(&dir, &["x[:2, 1]", "--dtype", "<i4", "--casting", "unsafe"]), "[9 8]\n");
    assert_eq!(get(&dir, &["x[0, 1]", "--dtype", "f8"]), "9.\n");
    let careful = run(&dir, ["array", "get", "x", "--dtype", "i4"]).exits(2);
    assert!(careful.err.contains("converted to <i4 (same_kind), found <f4"), "{careful:?}");
    run(&dir, ["array", "put", "x[0, 0]", "--value", "nan"]).exits(0);
    let nan = run(&dir, ["array", "get", "x", "--dtype", "i4", "--casting", "unsafe"]).exits(2);
    assert!(nan.err.contains("expected a number within <i4, found NaN"), "{nan:?}");
    save(&dir, "complex.npy", &arr2(&[[num_complex::Complex::new(1.0_f32, 2.0); 3]]));
    let complex = run(&dir, ["array", "append", "x", "--npy", "complex.npy"]).exits(2);
    assert!(complex.err.contains("(same_kind), found <c8"), "{complex:?}");
    // What is cut short is no version.
    let cut = run_with(&dir, ["array", "append", "x", "--npy", "-"], &bytes[..bytes.len() - 1]);
    let cut = cut.fails(1, "standard input: expected 12 bytes, found 11");
    assert!(!cut.err.contains("hint"), "{cut:?}");
    let log = run(&dir, ["array", "log", "x", "--json"]).quietly().json();
    assert_eq!(log[0]["version"], 9);
    assert!(run(&dir, ["array", "verify", "x"]).quietly().out.contains("good: 9 versions"));
    let half = ["array", "export", "x[:2, 1:]", "half.npy", "--dtype", "<f2"];
    run(&dir, half).quietly();
    let half = fs::read(dir.path().join("half.npy")).unwrap();
    assert_eq!(npy::decode(&half).unwrap().dtype().to_string(), "<f2");
}

#[test]
fn bcolz_takes_attributes_and_the_fill_value_along() {
    let dir = scratch();
    let create = ["array", "create", "x", "--dtype", "<i4", "--shape", "5", "--fill", "-3"];
    run(&dir, create).exits(0);
    run(&dir, ["array", "attrs", "x", "unit=\"ä\"", "deep={\"a\": [1, null, 2.5]}"]).exits(0);
    run(&dir, ["array", "export", "x", "x.bcolz"]).quietly();
    run(&dir, ["array", "import", "x.bcolz", "y"]).exits(0);
    for what in [["array", "attrs"], ["array", "get"]] {
        let of = |name: &str| run(&dir, what.into_iter().chain([name])).quietly().out;
        assert_eq!(of("x"), of("y"));
    }
    let info = run(&dir, ["array", "info", "y", "--json"]).quietly().json();
    assert_eq!(
        (&info["fill"], &info["versions"], &info["cbytes"]),
        (&json(-3), &json(1), &json(0))
    );
    // Of a table as well.
    let structure = "[('id', '<i8'), ('name', '|S4')]";
    run(&dir, ["array", "create", "t", "--dtype", structure, "--shape", "2"]).exits(0);
    run(&dir, ["array", "attrs", "t", "rows=2"]).exits(0);
    run(&dir, ["array", "export", "t", "t.bcolz"]).quietly();
    run(&dir, ["array", "import", "t.bcolz", "u"]).exits(0);
    assert_eq!(run(&dir, ["array", "attrs", "u"]).quietly().json(), serde_json::json!({"rows": 2}));
}

fn json(number: i64) -> Json {
    Json::from(number)
}

#[test]
fn all_that_an_array_is_made_with_can_be_said() {
    let dir = scratch();
    let start = ["array", "create", "x", "--dtype", "<i8", "--shape", "8", "--chunks", "4"];
    let layout = ["--superchunk", "1", "--checksum", "sha256", "--expected-len", "100"];
    let careless = ["--unversioned", "--room", "64"];
    run(&dir, start.into_iter().chain(layout).chain(careless)).exits(0);
    run(&dir, ["array", "put", "x", "--value", "5"]).exits(0);
    run(&dir, ["array", "put", "x[:2]", "--value", "6"]).exits(0);
    let info = run(&dir, ["array", "info", "x", "--json"]).quietly().json();
    let has = |name: &str| info[name].clone();
    assert_eq!((has("superchunk"), has("checksum")), (json(1), "sha256".into()));
    assert_eq!(
        (has("expected_len"), has("room"), has("chunk_bytes")),
        (json(100), json(64), json(32))
    );
    assert_eq!((has("versioned"), has("versions")), (false.into(), json(1)));
    let text = run(&dir, ["array", "info", "x"]).quietly().out;
    assert!(
        text.contains("files      at most 1 chunk in one, 64 spare bytes after each\n"),
        "{text}"
    );
    assert!(text.contains("(4,) in C order, 32 B, a grid of (2,), 2 of 2 stored\n"), "{text}");
    assert_eq!(get(&dir, &["x"]), "[6 6 5 5 5 5 5 5]\n");
    let room = ["--dtype", "<i8", "--shape", "8", "--room", "64"];
    let alone = run(&dir, ["array", "create", "y"].into_iter().chain(room)).exits(2);
    assert!(alone.err.contains("--unversioned"), "{alone:?}");
    let sum = ["--dtype", "<i8", "--shape", "8", "--checksum", "md6"];
    assert!(
        run(&dir, ["array", "create", "y"].into_iter().chain(sum)).exits(2).err.contains("crc32")
    );
}

#[test]
fn memory_orders_and_arrays_without_axes_are_imported() {
    use ndarray::ShapeBuilder;
    let dir = scratch();
    let turned =
        ndarray::Array3::from_shape_fn((3, 4, 2).f(), |(i, j, k)| (8 * i + 2 * j + k) as u16);
    save(&dir, "f.npy", &turned);
    run(&dir, ["array", "import", "f.npy", "f", "--chunks", "2,3,1"]).exits(0);
    let array = ChunkedArray::open(dir.path().join("f")).unwrap();
    assert_eq!(array.get::<u16>(..).unwrap(), turned.into_dyn());
    save(&dir, "z.npy", &ndarray::arr0(2.5_f64));
    run(&dir, ["array", "import", "z.npy", "z"]).exits(0);
    assert_eq!(get(&dir, &["z"]), "2.5\n");
    for format in ["npy", "npz", "blp"] {
        let file = format!("z2.{format}");
        run(&dir, ["array", "export", "z", &file]).quietly();
        assert!(dir.path().join(file).exists());
    }
    run(&dir, ["array", "import", "z2.npz", "z2"]).exits(0);
    assert_eq!(get(&dir, &["z2"]), "2.5\n");
}

#[test]
fn archives_of_several_arrays_become_a_directory_of_them() {
    let dir = scratch();
    let mut zip = zip::ZipWriter::new(fs::File::create(dir.path().join("all.npz")).unwrap());
    for (name, rows) in [("a.npy", 2), ("b.npy", 1000), ("../c.npy", 1)] {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        let numbers = ndarray::Array1::from_iter(0..rows);
        zip.write_all(&npy::encode(&NdArray::from_ndarray(&numbers)).unwrap()).unwrap();
    }
    zip.finish().unwrap();
    run(&dir, ["array", "import", "all.npz", "b", "--member", "b"]).exits(0);
    assert_eq!(get(&dir, &["b[-2:]"]), "[998 999]\n");
    let absent = run(&dir, ["array", "import", "all.npz", "x", "--member", "x"]);
    assert!(absent.fails(1, "no array \"x\"").err.contains("hint: its arrays: a, b, ../c"));
    fs::create_dir(dir.path().join("t")).unwrap();
    run(&dir, ["array", "import", "all.npz", "t"]).fails(2, "is not a directory name");
    assert_eq!(names(&dir.path().join("t")), ["a", "b"]);
    // A member that is cut short leaves nothing.
    let mut zip = zip::ZipWriter::new(fs::File::create(dir.path().join("cut.npz")).unwrap());
    zip.start_file("a.npy", zip::write::SimpleFileOptions::default()).unwrap();
    let whole = npy::encode(&NdArray::from_ndarray(&arr1(&[1_i64, 2, 3]))).unwrap();
    zip.write_all(&whole[..whole.len() - 1]).unwrap();
    zip.finish().unwrap();
    run(&dir, ["array", "import", "cut.npz", "cut"]).fails(1, "expected 24 bytes, found 23");
    assert!(!names(dir.path()).iter().any(|name| name.starts_with("cut") && name != "cut.npz"));
}

#[test]
fn damage_is_found_and_named() {
    let dir = with_array();
    let good = run(&dir, ["array", "verify", "x"]).quietly();
    assert_eq!(good.out, "x: good: 4 versions, 2 chunks compared\n");
    let file = dir.path().join("x/data/__1__.bin");
    let mut bytes = fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last / 2] ^= 1;
    fs::write(&file, bytes).unwrap();
    let bad = run(&dir, ["array", "verify", "x"]).exits(1);
    assert!(bad.out.contains("x/data/__1__.bin: ") && bad.out.contains("problem"), "{bad:?}");
    let json = run(&dir, ["array", "verify", "x", "--json"]).exits(1).json();
    assert_eq!(json[0]["good"], false);
    assert!(json[0]["problems"][0]["file"].as_str().unwrap().ends_with("__1__.bin"));
    fs::write(dir.path().join("x/meta/versions/__4__"), "no version").unwrap();
    let open = run(&dir, ["array", "info", "x"]).fails(1, "x/meta/versions/__4__: ");
    assert!(open.err.contains("hint: try: kiste array verify x\n"), "{open:?}");
    // Of two arrays the good one is told of too.
    run(&dir, ["array", "create", "y", "--dtype", "i4", "--shape", "3"]).exits(0);
    let both = run(&dir, ["array", "verify", "x", "y"]).exits(1);
    assert!(both.out.contains("y: good: 1 version, 0 chunks compared\n"), "{both:?}");
}

#[test]
fn structures_scalars_and_the_immense_can_be_looked_at() {
    let dir = scratch();
    let structure = "[('id', '<i8'), ('name', '|S4'), ('xy', '<f4', (2,))]";
    let create = |name: &str, dtype: &str, shape: &str, fill: &str| {
        let args = ["array", "create", name, "--dtype", dtype, "--shape", shape, "--fill", fill];
        run(&dir, args).exits(0)
    };
    create("s", structure, "2", "0");
    assert_eq!(get(&dir, &["s"]), "[(0, , [0.0,0.0]) (0, , [0.0,0.0])]\n");
    let info = run(&dir, ["array", "info", "s", "--json"]).quietly().json();
    assert_eq!(info["columns"].as_array().unwrap().len(), 3);
    create("z", "<f8", "", "nan");
    assert_eq!(get(&dir, &["z"]), "nan\n");
    assert_eq!(get(&dir, &["z", "--json"]), "\"NaN\"\n");
    create("g", "<i8", "1000000,1000000", "-7");
    let shown = get(&dir, &["g"]);
    assert_eq!(shown.lines().next(), Some("[[-7 -7 -7 ... -7 -7 -7]"));
    assert_eq!(get(&dir, &["g[-1, ::-400000]"]), "[-7 -7 -7]\n");
    let info = run(&dir, ["array", "info", "g"]).quietly().out;
    assert!(info.contains("bytes      8,000,000,000,000, compressed 0\n"), "{info}");
    create("e", "<U3", "0,2", "ä");
    assert_eq!(
        (&*get(&dir, &["e"]), &*get(&dir, &["e", "--json"])),
        ("[], shape [0, 2]\n", "[]\n")
    );
    let wrong = ["array", "create", "w", "--dtype", "|u1", "--shape", "1", "--fill", "256"];
    run(&dir, wrong).fails(2, "expected a value of type |u1, found \"256\"");
    let kind = run(&dir, ["array", "create", "w", "--dtype", "float31", "--shape", "1"]).exits(2);
    assert!(kind.err.contains("float31"), "{kind:?}");
    run(&dir, ["array", "create", "g", "--dtype", "i4", "--shape", "1"]).fails(2, "already");
}

#[test]
fn mistakes_are_answered_and_pipes_may_close() {
    let dir = with_array();
    assert!(run(&dir, ["array", "crate", "y"]).exits(2).err.contains("'create'"));
    assert!(run(&dir, ["array", "get", "x", "--jsn"]).exits(2).err.contains("'--json'"));
    assert!(run(&dir, ["array", "get", "x[a]"]).exits(2).err.contains("found \"a\""));
    assert!(run(&dir, ["array", "put", "x"]).exits(2).out.is_empty());
    run(&dir, ["array", "put", "x", "--value", "a"]).fails(2, "expected a value of type <f4");
    run(&dir, ["array", "append", "x", "--npy", "nope.npy"]).fails(2, "nope.npy: no such file");
    save(&dir, "wide.npy", &arr2(&[[0.0_f32; 4]]));
    run(&dir, ["array", "append", "x", "--npy", "wide.npy"]).exits(2);
    assert_eq!(run(&dir, ["array", "log", "x", "--json"]).quietly().json()[0]["version"], 4);
    let file = run(&dir, ["array", "info", "rows.npy"]).exits(2);
    assert!(file.err.contains("kiste array import rows.npy NAME"), "{file:?}");
    run(&dir, ["array", "resize", "x", "100000,3"]).exits(0);
    let mut child = kiste()
        .args(["array", "get", "x", "--json"])
        .current_dir(&dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let run = Run::from(child.wait_with_output().unwrap());
    assert_eq!((run.code, &*run.err), (Some(0), ""));
}

/// In a directory that is not there yet all of them are, or none.
#[test]
fn archives_of_several_arrays_are_imported_as_a_whole() {
    let dir = scratch();
    for (file, damaged) in [("all.npz", false), ("cut.npz", true)] {
        let mut zip = zip::ZipWriter::new(fs::File::create(dir.path().join(file)).unwrap());
        for (name, rows) in [("a.npy", 2), ("b.npy", 1000)] {
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            let numbers = ndarray::Array1::from_iter(0..rows);
            let bytes = npy::encode(&NdArray::from_ndarray(&numbers)).unwrap();
            let cut = bytes.len() - usize::from(damaged && name == "b.npy");
            zip.write_all(&bytes[..cut]).unwrap();
        }
        zip.finish().unwrap();
    }
    let cut = run(&dir, ["array", "import", "cut.npz", "sub/t"]).fails(1, "b.npy");
    assert!(!cut.err.contains("version 1"), "{cut:?}");
    assert_eq!(names(&dir.path().join("sub")), [] as [&str; 0]);
    let made = run(&dir, ["array", "import", "all.npz", "sub/t"]).exits(0).err;
    assert_eq!(made, "sub/t/a: version 1, shape (2,)\nsub/t/b: version 1, shape (1000,)\n");
    assert_eq!(names(&dir.path().join("sub")), ["t"]);
    assert_eq!(get(&dir, &["sub/t/b[-2:]"]), "[998 999]\n");
}

/// What has the name that an import takes meanwhile is not that import's to remove.
#[test]
#[cfg(unix)]
fn an_import_removes_nothing_that_it_did_not_make() {
    let dir = scratch();
    save(&dir, "x.npy", &arr1(&[1_i32, 2]));
    // The shell becomes the command, and so has its number.
    let script = r#"mkdir "y.$$.partial" && echo mine > "y.$$.partial/precious" && exec "$@""#;
    for file in ["x.npy", "nope.npy"] {
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_kiste"), "array", "import", file]);
        let _: Run = command.arg("y").current_dir(dir.path()).output().unwrap().into();
    }
    let kept = names(dir.path()).into_iter().filter(|name| name.ends_with(".partial"));
    let kept: Vec<String> = kept.collect();
    assert_eq!(kept.len(), 2);
    for name in kept {
        assert_eq!(fs::read(dir.path().join(name).join("precious")).unwrap(), b"mine\n");
    }
}

#[test]
fn a_container_that_is_exported_is_replaced_if_told_to() {
    let dir = with_array();
    run(&dir, ["array", "export", "x", "x.blp"]).quietly();
    run(&dir, ["array", "export", "x", "x.blp"]).fails(2, "the file exists already");
    run(&dir, ["array", "export", "x[:1]", "x.blp", "--force"]).quietly();
    run(&dir, ["array", "import", "x.blp", "y"]).exits(0);
    assert_eq!(get(&dir, &["y"]), "[[0. 1. 2.]]\n");
}

#[test]
#[cfg(unix)]
fn nothing_is_removed_behind_a_link() {
    let dir = with_array();
    let other = dir.path().join("other");
    run(&dir, ["array", "import", "rows.npy", "other"]).exits(0);
    let before = snapshot(&other.join("data"));
    fs::rename(dir.path().join("x/data"), dir.path().join("moved")).unwrap();
    std::os::unix::fs::symlink("../other/data", dir.path().join("x/data")).unwrap();
    let says = "x/data: expected a directory, found a symbolic link";
    for args in [
        &["array", "gc", "x", "--keep", "1"][..],
        &["array", "put", "x", "--value", "1"],
        &["array", "attrs", "x", "unit=1"],
        &["array", "resize", "x", "1,3"],
        &["array", "checkout", "x", "1"],
        &["array", "append", "x", "--npy", "rows.npy"],
    ] {
        run(&dir, args).fails(2, says);
    }
    assert_eq!(snapshot(&other.join("data")), before);
}

#[test]
fn an_array_that_was_never_finished_says_what_to_do() {
    let dir = with_array();
    for version in names(&dir.path().join("x/meta/versions")) {
        fs::remove_file(dir.path().join("x/meta/versions").join(version)).unwrap();
    }
    let failed = run(&dir, ["array", "verify", "x"]).fails(2, "it was never finished");
    assert!(failed.err.contains("rm -r x"), "{failed:?}");
    // An empty directory becomes an array as well.
    fs::create_dir(dir.path().join("y")).unwrap();
    run(&dir, ["array", "create", "y", "--dtype", "<i4", "--shape", "2"]).exits(0);
    run(&dir, ["array", "create", "y", "--dtype", "<i4", "--shape", "2"])
        .fails(2, "y: the path exists already");
    run(&dir, ["array", "create", "d/e/z", "--dtype", "<i4", "--shape", "2"]).exits(0);
    assert_eq!(names(&dir.path().join("d/e")), ["z"]);
}

/// As a writer leaves them that dies after its version: the array is good.
#[test]
fn copies_of_an_older_version_are_no_damage() {
    let dir = with_array();
    let sizes = dir.path().join("x/meta/sizes");
    let newest = fs::read(&sizes).unwrap();
    fs::write(&sizes, "{}").unwrap();
    run(&dir, ["array", "verify", "x"]).exits(1);
    fs::remove_file(&sizes).unwrap();
    let verified = run(&dir, ["array", "verify", "x"]).exits(0);
    assert!(verified.err.contains("1 file in meta/"), "{verified:?}");
    run(&dir, ["array", "attrs", "x", "unit=1"]).exits(0);
    assert_eq!(fs::read(&sizes).unwrap(), newest);
    let (attributes, older) = (dir.path().join("x/meta/attributes"), b"{}\n");
    fs::write(attributes, older).unwrap();
    let verified = run(&dir, ["array", "verify", "x", "--json"]).exits(0).json();
    assert_eq!(
        (&verified[0]["good"], &verified[0]["stale"]),
        (&true.into(), &serde_json::json!(["x/meta/attributes"]))
    );
}

/// An archive ends with what is behind all else: that it cannot be written must not end in a panic.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error_wherever_it_is_full() {
    let dir = with_array();
    for blocks in 0..3 {
        // In blocks of 512 bytes; what is beyond is an error, where the signal is ignored.
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
        for file in ["x.npz", "x.npy", "x.blp"] {
            let mut command = Command::new("sh");
            command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_kiste"), "array", "export"]);
            let done: Run =
                command.args(["x", file]).current_dir(dir.path()).output().unwrap().into();
            if done.code == Some(0) {
                fs::remove_file(dir.path().join(file)).unwrap();
                continue;
            }
            assert_eq!(done.code, Some(2), "{blocks}, {file}: {done:?}");
            assert_eq!(done.err.lines().count(), 1, "{blocks}, {file}: {done:?}");
            assert!(done.err.starts_with(&format!("kiste: {file}: ")), "{done:?}");
            assert!(!dir.path().join(file).exists());
        }
    }
    assert_eq!(names(dir.path()), ["rows.npy", "x"]);
}

/// A hint leads to a command that works.
#[test]
fn what_is_no_array_is_not_sent_to_import() {
    let dir = with_words();
    let failed = run(&dir, ["array", "info", "words.msgpack"])
        .fails(2, "words.msgpack: expected the directory of an array, found a dataset");
    assert!(failed.err.contains("\"kiste info words.msgpack\""), "{failed:?}");
    for (name, hint) in [
        ("x.npy", "\"kiste array import x.npy NAME\" makes an array of it"),
        ("x.txt", "makes arrays of .npy, .npz and .blp files"),
    ] {
        fs::write(dir.path().join(name), "x").unwrap();
        let failed = run(&dir, ["array", "info", name]).fails(2, "found a file");
        assert!(failed.err.contains(hint), "{failed:?}");
    }
}

/// An export to bcolz and an import keep how many rows were expected.
#[test]
fn bcolz_takes_the_expected_rows_along() {
    let dir = scratch();
    let create = ["array", "create", "x", "--dtype", "<i4", "--shape", "5"];
    run(&dir, create.into_iter().chain(["--expected-len", "1000000"])).exits(0);
    run(&dir, ["array", "export", "x", "x.bcolz"]).quietly();
    run(&dir, ["array", "import", "x.bcolz", "y"]).exits(0);
    let info = |name: &str| run(&dir, ["array", "info", name, "--json"]).quietly().json();
    assert_eq!(info("y")["expected_len"], 1_000_000);
    assert_eq!(info("y")["chunk_shape"], info("x")["chunk_shape"]);
}

#[test]
fn fields_of_structures_are_read_and_written() {
    let dir = scratch();
    let structure = "[('id', '<i8'), ('name', '|S4'), ('at', [('x', '<f4'), ('y', '<f4')])]";
    run(&dir, ["array", "create", "x", "--dtype", structure, "--shape", "3"]).exits(0);
    run(&dir, ["array", "put", "x['id']", "--value", "7"]).exits(0);
    run(&dir, ["array", "put", "x[\"id\"][1:]", "--value", "8"]).exits(0);
    run(&dir, ["array", "put", "x['name'][[0, 2]]", "--value", "ab"]).exits(0);
    save(&dir, "y.npy", &arr1(&[1_i16, 2, 3]));
    run(&dir, ["array", "put", "x['at.y'][::-1]", "--npy", "y.npy"]).exits(0);
    assert_eq!(get(&dir, &["x['id']"]), "[7 8 8]\n");
    assert_eq!(get(&dir, &["x['id'][1]"]), "8\n");
    assert_eq!(get(&dir, &["x['at.y']"]), "[3. 2. 1.]\n");
    let json = run(&dir, ["array", "get", "x", "--json"]).quietly().json();
    assert_eq!(json[2], serde_json::json!([8, "ab", [0.0, 1.0]]));
    run(&dir, ["array", "export", "x['id'][:2]", "id.npy"]).quietly();
    let ids = fs::read(dir.path().join("id.npy")).unwrap();
    let ids = npy::decode(&ids).unwrap();
    assert_eq!(ids.to_ndarray::<i64>().unwrap(), arr1(&[7_i64, 8]).into_dyn());
    let no = run(&dir, ["array", "get", "x['no']"]).exits(2);
    assert!(
        no.err.contains("expected one of the fields [\"id\", \"name\", \"at\"], found \"no\""),
        "{no:?}"
    );
    run(&dir, ["array", "put", "x['no']", "--value", "1"]).exits(2);
    run(&dir, ["array", "get", "x['id'"]).exits(2);
    let wrong = run(&dir, ["array", "get", "x['id', 3]"]).exits(2);
    assert!(wrong.err.contains("expected a field in quotes"), "{wrong:?}");
}

/// The filters of the proposals for bcolz and Blaze: `filters: [shuffle, truncate]`.
#[test]
fn no_filter_changes_values() {
    let dir = scratch();
    for shuffle in ["truncate", "shuffle,truncate"] {
        let create =
            ["array", "create", "x", "--dtype", "f8", "--shape", "3", "--shuffle", shuffle];
        let refused = run(&dir, create).exits(2);
        assert!(
            refused.err.contains("values are stored as they are, round them before"),
            "{refused:?}"
        );
    }
    assert!(names(dir.path()).is_empty());
}

/// Arrays are on disks. A URL is no name of a directory.
#[test]
fn urls_are_refused_by_all_commands_for_arrays() {
    let dir = scratch();
    run(&dir, ["array", "create", "x", "--dtype", "<i4", "--shape", "5"]).exits(0);
    run(&dir, ["array", "export", "x", "x.npy"]).quietly();
    let before = names(dir.path());
    let url = "https://me:secret@example.invalid/x";
    let selected = format!("{url}[:2]");
    let to = |ending: &str| format!("{url}.{ending}");
    let (npy, blp, bcolz) = (to("npy"), to("blp"), to("bcolz"));
    let commands: &[&[&str]] = &[
        &["array", "create", url, "--dtype", "i4", "--shape", "3"],
        &["array", "import", "x.npy", url],
        &["array", "import", &npy, "y"],
        &["array", "import", &blp, "y"],
        &["array", "import", &bcolz, "y"],
        &["array", "info", url],
        &["array", "get", &selected],
        &["array", "export", url, "y.npy"],
        &["array", "export", "x", &npy],
        &["array", "export", "x", &blp],
        &["array", "export", "x", &bcolz],
        &["array", "put", &selected, "--value", "1"],
        &["array", "put", "x", "--npy", &npy],
        &["array", "append", url, "--npy", "x.npy"],
        &["array", "resize", url, "7"],
        &["array", "attrs", url],
        &["array", "attrs", url, "a=1"],
        &["array", "log", url],
        &["array", "diff", url, "-1"],
        &["array", "checkout", url, "1"],
        &["array", "gc", url, "--keep", "1"],
        &["array", "verify", url],
        &["blpk", "info", &blp],
        &["blpk", "compress", "x.npy", &blp],
        &["blpk", "decompress", &blp, "y.npy"],
    ];
    for command in commands {
        let refused =
            run(&dir, command.iter().copied()).fails(2, "expected a path on a disk, found a URL");
        assert!(refused.err.contains("hint: "), "{refused:?}");
        assert!(!refused.err.contains("secret"), "{refused:?}");
    }
    assert_eq!(names(dir.path()), before);
}

/// A hint leads on, and not back to where it came from.
#[test]
fn hints_about_containers_do_not_go_in_a_circle() {
    let dir = scratch();
    fs::write(dir.path().join("other.blp"), "something else").unwrap();
    fs::write(dir.path().join("bad.blp"), [&b"blpk"[..], &[3; 100]].concat()).unwrap();
    let other = run(&dir, ["array", "import", "other.blp", "y"]).fails(1, "the magic \"blpk\"");
    assert!(other.err.contains("hint: if it is of another format, --from names that"), "{other:?}");
    let bad = run(&dir, ["array", "import", "bad.blp", "y"]).fails(1, "bad.blp: byte ");
    assert!(!bad.err.contains("hint"), "{bad:?}");
    for file in ["other.blp", "bad.blp"] {
        let verified = run(&dir, ["array", "verify", file]).fails(2, "found a file");
        let hint = format!("\"kiste blpk info --verify {file}\" checks it");
        assert!(verified.err.contains(&hint), "{verified:?}");
        run(&dir, ["blpk", "info", "--verify", file]).fails(1, file);
    }
    // Where the array is damaged, and not the container that it is exported to.
    run(&dir, ["array", "create", "d", "--dtype", "<i4", "--shape", "100"]).exits(0);
    run(&dir, ["array", "put", "d", "--value", "5"]).exits(0);
    let file = dir.path().join("d/data/__1__.bin");
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.len() - 10;
    bytes[at] ^= 1;
    fs::write(&file, bytes).unwrap();
    for format in ["npy", "npz", "blp", "bcolz"] {
        let out = format!("out.{format}");
        if format != "bcolz" {
            fs::write(dir.path().join(&out), "").unwrap();
        }
        let failed =
            run(&dir, ["array", "export", "d", &out, "--force"]).fails(1, "d/data/__1__.bin: ");
        assert!(failed.err.contains("hint: try: kiste array verify d\n"), "{failed:?}");
    }
    // The same of a directory of bcolz.
    run(&dir, ["array", "create", "x", "--dtype", "<i4", "--shape", "5"]).exits(0);
    run(&dir, ["array", "export", "x", "x.bcolz"]).quietly();
    fs::write(dir.path().join("x.bcolz/meta/sizes"), "{}").unwrap();
    let damaged = run(&dir, ["array", "import", "x.bcolz", "y"]).exits(1);
    assert!(!damaged.err.contains("array verify"), "{damaged:?}");
}

#[test]
fn a_file_of_an_array_with_room_is_no_container_and_said_to_be_ours() {
    let dir = scratch();
    let create = ["array", "create", "x", "--dtype", "<i4", "--shape", "100", "--unversioned"];
    run(&dir, create.into_iter().chain(["--room", "20"])).exits(0);
    run(&dir, ["array", "put", "x", "--value", "3"]).exits(0);
    let told = run(&dir, ["blpk", "info", "x/data/__1__.bin"]).exits(1);
    assert!(told.err.contains("131 (a file of an array with spare room"), "{told:?}");
    assert!(!told.err.contains("no release"), "{told:?}");
}

#[test]
fn verify_says_what_may_have_been_lost_and_what_a_writer_is_at() {
    let dir = scratch();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/kiste-0.1.0-bc0d5446");
    crate::array::chunked::copy(&golden.join("lost-chunk"), &dir.path().join("x"));
    let lost = run(&dir, ["array", "verify", "x"]).exits(1);
    let line = "x/data/__2__.bin: chunk [1, 0]: written to slot 0 for version 3, which has something else there";
    assert!(lost.out.starts_with(line), "{lost:?}");
    run(&dir, ["array", "gc", "x"]).exits(0);
    let doubt = run(&dir, ["array", "verify", "x"]).exits(0);
    assert!(
        doubt.out.contains("x/meta/versions/__3__: chunk [1, 0]: as in version 2, or lost"),
        "{doubt:?}"
    );
    assert!(doubt.out.contains("x: good: 4 versions, 1 chunk compared, 2 in doubt\n"), "{doubt:?}");
    let json = run(&dir, ["array", "verify", "x", "--json"]).exits(0).json();
    assert_eq!(json[0]["doubts"][1]["chunk"], serde_json::json!([1, 0]));

    fs::write(dir.path().join("x/data/__9__.bin"), "new").unwrap();
    let left = run(&dir, ["array", "verify", "x"]).exits(0);
    assert!(left.err.contains("1 file no version needs: \"kiste array gc x\""), "{left:?}");
    let store = kiste::array::ArrayStore::open(dir.path().join("x")).unwrap();
    let busy = run(&dir, ["array", "verify", "x"]).exits(0);
    assert!(busy.err.contains("1 file no version names: a program is writing"), "{busy:?}");
    drop(store);
}
