//! What sources hold that samples do not carry: for every row of [`Format::leaves_out`] an input that
//! has it, which is refused or counted, and never passed over in silence.

mod archives;
mod records;
mod tables;
mod texts;

use std::fs;
use std::path::{Path, PathBuf};

use kiste::convert::{BadInput, Conversion, Format, Handling, LeftOut, Monitor, Notice, Report};
use tempfile::TempDir;

/// An input that has what a row is about.
struct Input {
    sources: Vec<PathBuf>,
    /// What the error says, if it is one.
    says: &'static str,
    /// How it is converted.
    how: fn(Conversion) -> Conversion,
}

impl Input {
    fn new(sources: impl IntoIterator<Item = PathBuf>) -> Input {
        Input { sources: sources.into_iter().collect(), says: "", how: |conversion| conversion }
    }

    /// One that is an error, which says this.
    fn refused(says: &'static str, sources: impl IntoIterator<Item = PathBuf>) -> Input {
        Input { says, ..Input::new(sources) }
    }

    fn conversion(&self, format: Format, dir: &Path) -> Conversion {
        let conversion = Conversion::new(&self.sources, dir.join("out.msgpack"));
        (self.how)(conversion.from(format).overwrite(true))
    }
}

/// The input of a row, in this folder.
fn input(format: Format, kind: LeftOut, dir: &Path) -> Option<Input> {
    let known = [archives::input, records::input, tables::input, texts::input];
    known.iter().find_map(|input| input(format, kind, dir))
}

/// Hears of remarks.
#[derive(Default)]
struct Ears(Vec<String>);

impl Monitor for Ears {
    fn notice(&mut self, notice: Notice) {
        if let Notice::Remarked(remark) = &notice {
            assert!(notice.is_warning());
            self.0.push(format!("{:?}: {remark}", remark.kind));
        }
    }
}

/// Runs a conversion whose report, notices and JSON say the same.
fn run(conversion: &Conversion) -> kiste::Result<Report> {
    let mut ears = Ears::default();
    let report = conversion.run(&mut ears)?;
    let remarks: Vec<String> =
        report.remarks.iter().map(|remark| format!("{:?}: {remark}", remark.kind)).collect();
    assert_eq!(ears.0, remarks);
    let json = report.to_json().unwrap();
    assert_eq!(json["remarks"].as_array().unwrap().len(), remarks.len());
    Ok(report)
}

/// Writes a file and returns its path.
fn file(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn every_row_has_an_input() {
    let mut missing = Vec::new();
    for format in Format::readable() {
        for &(kind, handling) in format.leaves_out() {
            let dir = TempDir::new().unwrap();
            let Some(input) = input(format, kind, dir.path()) else {
                missing.push(format!("{format}: {kind:?}"));
                continue;
            };
            let row = format!("{format}, {kind:?}");
            let strict = run(&input.conversion(format, dir.path()));
            if handling != Handling::Remarked {
                let error = strict.expect_err(&row).to_string();
                assert!(!input.says.is_empty() && error.contains(input.says), "{row}: {error}");
                // Of what is refused nothing is written.
                assert!(!dir.path().join("out.msgpack").exists(), "{row}");
            }
            let skips = input.conversion(format, dir.path()).on_bad_input(BadInput::Skip);
            let report = match handling {
                Handling::Refused => continue,
                Handling::Remarked => run(&input.conversion(format, dir.path())),
                _ => run(&skips),
            };
            let report = report.unwrap_or_else(|error| panic!("{row}: {error}"));
            let remark = report.remarks.iter().find(|remark| remark.kind == kind);
            let remark = remark.unwrap_or_else(|| panic!("{row}: {:?}", report.remarks));
            assert!(remark.count > 0 && !remark.first.is_empty(), "{row}: {remark}");
            assert_eq!(report.bad.count, 0, "{row}");
            for other in &report.remarks {
                let known = format.leaves_out().iter().any(|(kind, _)| *kind == other.kind);
                assert!(known, "{row}: {other} is not in the table");
            }
        }
    }
    assert!(missing.is_empty(), "rows without an input: {missing:#?}");
}

/// The table of `docs/formats.md` is made from the one in the code.
///
/// After a change of that: `KISTE_WRITE_TABLE=1 cargo test --features full --test main left_out::the_docs`
#[test]
fn the_docs_have_the_table_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/formats.md");
    let page = fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- made by tests/convert/left_out -->\n", "<!-- end -->\n");
    let (before, rest) = page.split_once(begin).unwrap();
    let (found, after) = rest.split_once(end).unwrap();
    let table = rendered();
    if std::env::var_os("KISTE_WRITE_TABLE").is_some() {
        fs::write(&path, format!("{before}{begin}{table}{end}{after}")).unwrap();
    } else {
        assert!(found == table, "the table is another; set KISTE_WRITE_TABLE to rewrite it");
    }
}

/// The table in Markdown: a row for each kind and what happens to it.
fn rendered() -> String {
    let mut rows: Vec<(LeftOut, Handling, Vec<&str>)> = Vec::new();
    for format in Format::readable() {
        for &(kind, handling) in format.leaves_out() {
            match rows.iter_mut().find(|row| (row.0, row.1) == (kind, handling)) {
                Some((.., formats)) => formats.push(format.name()),
                None => rows.push((kind, handling, vec![format.name()])),
            }
        }
    }
    rows.sort_by_key(|row| row.0);
    let mut text = "| what | read as | what happens |\n| --- | --- | --- |\n".to_owned();
    for (kind, handling, formats) in rows {
        let happens = match handling {
            Handling::Refused => "an error".to_owned(),
            Handling::Remarked => format!("{}, counted", kind.done()),
            _ => format!("an error; with `--bad skip` {}, counted", kind.done()),
        };
        text += &format!("| {kind} | {} | {happens} |\n", formats.join(", "));
    }
    text
}
