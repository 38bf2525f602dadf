//! Imports point down only, and in no circles: the order of `docs/architecture.md`, checked.
//!
//! Read from the `use` lines at the head of each file. A name that a module only passes on is followed to
//! the file that has it. Paths that are spelled out in the code are not seen, so they should stay rare.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The floors of the house, the lowest first. A room imports from its own files and from lower floors.
const FLOORS: &[&[&str]] = &[
    &["error"],
    &["guard", "natural", "note", "regular", "text"],
    &["value"],
    &["format", "storage", "sampler"],
    &["array", "image"],
    &["reader"],
    &["dataset"],
    &["loader", "rearrange"],
    &["stat"],
    &["compose"],
    &["table"],
    &["convert"],
    &["datasets"],
    &["open"],
];

/// Where folders still know each other both ways: to become fewer.
const CIRCLES: &[&str] = &["src/convert"];

/// pykiste calls the command as a library, which lists the files of `bin/` once more.
#[test]
fn the_command_has_the_same_files_in_both_packages() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let modules = |path: &str| -> BTreeSet<String> {
        let source = fs::read_to_string(root.join(path)).unwrap();
        let names = source.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
        names.map(str::to_owned).collect()
    };
    let (program, library) = (modules("bin/main.rs"), modules("python/command/lib.rs"));
    assert!(program.len() > 10, "{program:?}");
    assert_eq!(program, library);
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// The path of the module that a file holds: `["reader", "zip"]`.
fn module(root: &Path, path: &Path) -> Vec<String> {
    let (below, mut names) = match path.strip_prefix(root.join("src")) {
        Ok(below) => (below, Vec::new()),
        Err(_) => (path.strip_prefix(root).unwrap(), Vec::new()),
    };
    names.extend(below.with_extension("").iter().map(|name| name.to_str().unwrap().to_owned()));
    if names.last().is_some_and(|name| name == "mod" || name == "lib") {
        names.pop();
    }
    names
}

/// A path that a file imports, and the name that it has there.
#[derive(Debug, Clone)]
struct Import {
    path: Vec<String>,
    name: String,
    /// An item of a module below, which the file does not use itself.
    only_passed_on: bool,
}

/// The paths of a tree of imports, with the names that they are given: `a::{b, c::d as e}` are `a::b` as `b`
/// and `a::c::d` as `e`.
fn leaves(tree: &str, found: &mut Vec<(String, String)>) {
    let Some(open) = tree.find('{') else {
        let (path, name) = match tree.split_once(" as ") {
            Some((path, name)) => (path.trim(), name.trim()),
            None => (tree.trim(), tree.trim().rsplit("::").next().unwrap_or_default()),
        };
        return found.push((path.to_owned(), name.to_owned()));
    };
    let (prefix, inner) = (&tree[..open], &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())]);
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let item = inner[start..at].trim();
                if !item.is_empty() {
                    leaves(&format!("{}{item}", prefix.trim()), found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

type Homes = BTreeMap<Vec<String>, PathBuf>;

/// What a file imports from this crate: also from modules of its own, by paths that begin with their names.
fn imports(text: &str, own: &[String], homes: &Homes) -> Vec<Import> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let code: Vec<String> = code.lines().map(without_text).collect();
    let code = code.join("\n");
    let (mut found, mut rest) = (Vec::new(), String::new());
    for statement in code.split(';') {
        let at = statement.rfind("\nuse ").map(|at| at + 5);
        let at = at.or_else(|| statement.rfind(") use ").map(|at| at + 6));
        let at = at.or_else(|| statement.rfind("pub use ").map(|at| at + 8));
        let at = at.or_else(|| statement.strip_prefix("use ").map(|_| 4));
        let Some(at) = at else {
            rest.push_str(statement);
            continue;
        };
        let mut paths = Vec::new();
        leaves(&statement[at..].split_whitespace().collect::<Vec<_>>().join(" "), &mut paths);
        for (path, name) in paths {
            let mut names = path.split("::").map(|name| name.trim().to_owned()).peekable();
            let first = names.peek().cloned().unwrap_or_default();
            let is_child = || homes.contains_key(&[own, std::slice::from_ref(&first)].concat());
            let mut full = match &first[..] {
                "crate" => Vec::new(),
                "self" | "super" => own.to_vec(),
                _ if is_child() => own.to_vec(),
                _ => continue,
            };
            while let Some(name) =
                names.next_if(|name| matches!(&name[..], "crate" | "self" | "super"))
            {
                if name == "super" {
                    full.pop();
                }
            }
            full.extend(names.filter(|name| name != "self"));
            let name = if name == "self" { full.last().cloned().unwrap_or_default() } else { name };
            found.push(Import { path: full, name, only_passed_on: false });
        }
    }
    for import in &mut found {
        let is_below = import.path.len() > own.len() && import.path.starts_with(own);
        import.only_passed_on = is_below && !has_word(&rest, &import.name);
    }
    found
}

/// A line without its comment, and without what is between quotes.
fn without_text(line: &str) -> String {
    let line = line.split("//").next().unwrap_or_default().replace("'\"'", "''");
    let (mut code, mut in_text, mut escaped) = (String::new(), false, false);
    for c in line.chars() {
        match c {
            '"' if !escaped => in_text = !in_text,
            _ if !in_text => code.push(c),
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    code
}

/// Whether this stands in the code as a name, rather than after `::`, `.` or `fn`.
fn has_word(code: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(name).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        let is_whole = !before.ends_with(is_part) && !after.starts_with(is_part);
        is_whole && ![":", ".", "fn "].iter().any(|end| before.ends_with(end))
    })
}

/// The file that an imported path leads to, through the modules that pass it on.
fn resolve<'a>(
    path: &[String],
    homes: &'a Homes,
    all: &BTreeMap<&Path, Vec<Import>>,
    depth: usize,
) -> Option<&'a PathBuf> {
    let (len, home) =
        (0..=path.len()).rev().find_map(|len| Some((len, homes.get(&path[..len])?)))?;
    let passed = path.get(len).and_then(|name| {
        all.get(home.as_path())?.iter().find(|import| import.name == *name && depth < 20)
    });
    match passed {
        Some(import) => {
            let path = [&import.path[..], &path[len + 1..]].concat();
            resolve(&path, homes, all, depth + 1)
        }
        // Only the crate's own page passes items on that no file has.
        None if len == 0 => None,
        None => Some(home),
    }
}

/// Which files each file imports from.
fn graph() -> BTreeMap<PathBuf, BTreeSet<PathBuf>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    sources(&root.join("datasets"), &mut files);
    let is_test = |path: &PathBuf| {
        let names = ["tests", "golden", "properties", "testing"];
        path.iter().any(|name| names.contains(&name.to_string_lossy().trim_end_matches(".rs")))
    };
    files.retain(|path| !is_test(&path.strip_prefix(root).unwrap().to_path_buf()));
    let homes: Homes = files.iter().map(|path| (module(root, path), path.clone())).collect();
    let read =
        |path: &PathBuf| imports(&fs::read_to_string(path).unwrap(), &module(root, path), &homes);
    let all: BTreeMap<&Path, Vec<Import>> =
        files.iter().map(|path| (path.as_path(), read(path))).collect();
    let short = |path: &Path| path.strip_prefix(root).unwrap().to_path_buf();
    let mut graph = BTreeMap::new();
    for (path, imports) in &all {
        let used = imports.iter().filter(|import| !import.only_passed_on);
        let homes = used.filter_map(|import| resolve(&import.path, &homes, &all, 0));
        let targets = homes.filter(|home| home.as_path() != *path).map(|home| short(home));
        graph.insert(short(path), targets.collect());
    }
    graph
}

/// The room of a file: `reader` for `src/reader/zip.rs`.
fn room(path: &Path) -> String {
    let mut names =
        path.iter().map(|name| name.to_string_lossy().trim_end_matches(".rs").to_owned());
    match names.next().as_deref() {
        Some("datasets") => "datasets".to_owned(),
        _ => names.next().unwrap_or_default(),
    }
}

#[test]
fn imports_point_down() {
    let floor = |room: &str| FLOORS.iter().position(|rooms| rooms.contains(&room));
    let (mut upward, mut imports) = (BTreeSet::new(), 0);
    for (path, targets) in graph() {
        let own = room(&path);
        if own == "lib" {
            continue;
        }
        let Some(own_floor) = floor(&own) else { panic!("{}: on which floor?", path.display()) };
        for target in targets {
            let other = room(&target);
            let allowed = other == own || floor(&other).is_some_and(|other| other < own_floor);
            if !allowed {
                upward.insert(format!("{} imports {}", path.display(), target.display()));
            }
            imports += 1;
        }
    }
    assert!(imports > 1000, "only {imports} imports were found: is the parser broken?");
    assert!(upward.is_empty(), "{upward:#?}");
}

#[test]
fn no_circle_leaves_a_folder() {
    let graph = graph();
    let reach = |start: &PathBuf| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start.clone()]);
        while let Some(path) = open.pop() {
            for next in graph.get(&path).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&PathBuf, BTreeSet<PathBuf>> =
        graph.keys().map(|path| (path, reach(path))).collect();
    let (mut circles, mut known) = (BTreeSet::new(), BTreeSet::new());
    for (path, others) in &reached {
        for other in others.iter().filter(|other| reached[other].contains(*path)) {
            if path.parent() == other.parent() {
                continue;
            }
            match CIRCLES.iter().find(|dir| path.starts_with(dir) && other.starts_with(dir)) {
                Some(dir) => {
                    known.insert(*dir);
                }
                None => {
                    let mut pair = [path.display().to_string(), other.display().to_string()];
                    pair.sort();
                    circles.insert(pair);
                }
            }
        }
    }
    assert!(circles.is_empty(), "{circles:#?}");
    assert!(CIRCLES.iter().all(|dir| known.contains(dir)), "only {known:?} have circles now");
}

#[test]
fn the_page_about_the_architecture_names_files_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let names = page.split('`').skip(1).step_by(2);
    let is_path = |name: &&str| name.ends_with('/') || name.ends_with(".rs");
    let paths: Vec<&str> = names.filter(is_path).filter(|name| !name.contains("NAME")).collect();
    assert!(paths.len() > 20, "{paths:?}");
    for path in paths {
        let found = ["", "src"].iter().any(|dir| root.join(dir).join(path).exists());
        assert!(found || path == "formats/", "docs/architecture.md: there is no {path}");
    }
}
