//! Imports point down only, and in no circles: the order of `docs/architecture.md`, checked.
//!
//! Read from the `use` lines at the head of each file. Paths that are spelled out in the code are not
//! seen, so they should stay rare.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The floors of the house, the lowest first. A room may import from those below it, and on the upper
/// floors from its neighbours.
const FLOORS: &[&[&str]] = &[
    &["error"],
    &["guard", "natural", "note", "regular", "text"],
    &["value"],
    &["format", "storage", "sampler"],
    &["dataset", "reader", "array", "image"],
    &["convert", "rearrange", "stat", "loader"],
    &["datasets"],
    &["open"],
];

/// The first floor whose rooms may know each other. Below it formats do no I/O, storage knows no
/// formats, and samplers are pure numbers.
const NEIGHBOURS: usize = 4;

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

/// The paths of a tree of imports: `a::{b, c::d}` are `a::b` and `a::c::d`.
fn leaves(tree: &str, found: &mut Vec<String>) {
    let Some(open) = tree.find('{') else {
        return found.push(tree.split(" as ").next().unwrap_or_default().trim().to_owned());
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

/// What a file imports from this crate, as paths of modules and items.
fn imports(text: &str, own: &[String]) -> Vec<Vec<String>> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let code: Vec<&str> =
        code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join("\n");
    let mut found = Vec::new();
    for statement in code.split(';') {
        let at = statement.rfind("\nuse ").map(|at| at + 5);
        let at = at.or_else(|| statement.rfind(") use ").map(|at| at + 6));
        let at = at.or_else(|| statement.rfind("pub use ").map(|at| at + 8));
        let at = at.or_else(|| statement.strip_prefix("use ").map(|_| 4));
        let Some(at) = at else { continue };
        let mut paths = Vec::new();
        leaves(&statement[at..].split_whitespace().collect::<Vec<_>>().join(" "), &mut paths);
        for path in paths {
            let mut names = path.split("::").map(|name| name.trim().to_owned()).peekable();
            let mut full = match names.peek().map(String::as_str) {
                Some("crate") => Vec::new(),
                Some("self" | "super") => own.to_vec(),
                _ => continue,
            };
            while let Some(name) =
                names.next_if(|name| matches!(&name[..], "crate" | "self" | "super"))
            {
                if name == "super" {
                    full.pop();
                }
            }
            full.extend(names);
            found.push(full);
        }
    }
    found
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
    let homes: BTreeMap<Vec<String>, PathBuf> =
        files.iter().map(|path| (module(root, path), path.clone())).collect();
    let mut graph = BTreeMap::new();
    for path in &files {
        let mut targets = BTreeSet::new();
        for full in imports(&fs::read_to_string(path).unwrap(), &module(root, path)) {
            let home = (1..=full.len()).rev().find_map(|len| homes.get(&full[..len]));
            targets.extend(home.filter(|home| *home != path).cloned());
        }
        graph.insert(path.strip_prefix(root).unwrap().to_path_buf(), targets);
    }
    let short = |path: PathBuf| path.strip_prefix(root).unwrap().to_path_buf();
    graph.into_iter().map(|(path, all)| (path, all.into_iter().map(short).collect())).collect()
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
    let (mut upward, mut imports) = (Vec::new(), 0);
    for (path, targets) in graph() {
        let own = room(&path);
        if own == "lib" {
            continue;
        }
        let Some(own_floor) = floor(&own) else { panic!("{}: on which floor?", path.display()) };
        for target in targets {
            let other = room(&target);
            let allowed = other == own
                || floor(&other).is_some_and(|other| {
                    other < own_floor || (other == own_floor && own_floor >= NEIGHBOURS)
                });
            if !allowed {
                upward.push(format!("{} imports {}", path.display(), target.display()));
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
    let mut circles = BTreeSet::new();
    for (path, others) in &reached {
        for other in others.iter().filter(|other| reached[other].contains(*path)) {
            if path.parent() != other.parent() {
                let mut pair = [path.display().to_string(), other.display().to_string()];
                pair.sort();
                circles.insert(pair);
            }
        }
    }
    assert!(circles.is_empty(), "{circles:#?}");
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
