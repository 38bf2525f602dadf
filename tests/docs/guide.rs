//! The guide does what it says. Every command in a `console` block of `README.md` and `docs/` is run, those
//! of a page one after another in a folder of their own, and its output is compared.
//!
//! A line `...` stands for any number of lines of output, `...` within a line for any characters. Exit
//! codes are not compared, because a page shows failures too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the guide is.
fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
}

/// A command and what the page says it prints.
#[derive(Debug, Default)]
struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
}

/// The steps of all `console` blocks of a page.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for (number, line) in (1..).zip(page.lines()) {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let (true, Some(command)) = (inside, line.strip_prefix("$ ")) {
            let expected = Vec::new();
            steps.push(Step { line: number, command: command.to_owned(), expected });
        } else if let (true, Some(step)) = (inside, steps.last_mut()) {
            let goes_on = step.expected.is_empty() && step.command.ends_with('\\');
            match goes_on {
                true => step.command += &format!("\n{line}"),
                false => step.expected.push(line.to_owned()),
            }
        }
    }
    steps
}

/// Whether a line is as expected, where `...` stands for any characters.
fn is_like(line: &str, expected: &str) -> bool {
    let mut parts = expected.split("...");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// Whether the output is as expected, where a line `...` stands for any number of lines.
fn are_like(lines: &[&str], expected: &[String]) -> bool {
    match expected.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first == "..." => {
            (0..=lines.len()).any(|skipped| are_like(&lines[skipped..], rest))
        }
        Some((first, rest)) => {
            lines.first().is_some_and(|line| is_like(line, first)) && are_like(&lines[1..], rest)
        }
    }
}

/// Runs the commands of a page in a folder of their own.
fn run(page: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_kiste"));
    let mut path = program.parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    for step in steps(&fs::read_to_string(page).unwrap()) {
        // Both streams in one, as on a terminal.
        let script = format!("exec 2>&1\n{}", step.command);
        let mut shell = Command::new("bash");
        shell.args(["-c", &script]).current_dir(dir.path()).stdin(std::process::Stdio::null());
        shell.env("PATH", &path).env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR");
        let out = String::from_utf8(shell.output().unwrap().stdout).unwrap();
        let lines: Vec<&str> = out.trim_end_matches('\n').split('\n').collect();
        let lines = if out.is_empty() { Vec::new() } else { lines };
        let place = format!("{}:{}", page.display(), step.line);
        assert!(
            are_like(&lines, &step.expected),
            "{place}: $ {}\n--- the page says\n{}\n--- the command says\n{out}",
            step.command,
            step.expected.join("\n")
        );
    }
}

#[test]
fn every_command_of_the_guide_prints_what_it_says() {
    let mut pages: Vec<PathBuf> =
        fs::read_dir(docs()).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md"));
    pages.sort();
    pages.retain(|page| page.extension().is_some_and(|ending| ending == "md"));
    assert!(pages.len() > 5, "{pages:?}");
    std::thread::scope(|scope| {
        let runs: Vec<_> = pages.iter().map(|page| scope.spawn(|| run(page))).collect();
        for run in runs {
            if let Err(panic) = run.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

/// `docs/reference.md` is what `--help` prints.
///
/// After a change of options: `KISTE_WRITE_REFERENCE=1 cargo test --all-features --test main guide`
#[test]
fn the_reference_is_what_help_prints() {
    let reference = docs().join("reference.md");
    let found = written_reference();
    if std::env::var_os("KISTE_WRITE_REFERENCE").is_some() {
        fs::write(&reference, &found).unwrap();
    }
    let expected = fs::read_to_string(&reference).unwrap();
    let differs = expected.lines().zip(found.lines()).find(|(a, b)| a != b);
    assert!(
        expected == found,
        "docs/reference.md is not what --help prints, first: {differs:?}; set \
         KISTE_WRITE_REFERENCE to rewrite it"
    );
}

fn written_reference() -> String {
    let help = |names: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiste"));
        let output = command.args(names).arg("--help").output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    // Commands are what the help lists in two columns below the usage.
    let listed = |help: &str| -> Vec<String> {
        let commands = help.split("\nUsage:").nth(1).unwrap_or_default();
        let commands = commands.split("\nGlobal options:").next().unwrap_or_default();
        let commands = commands.split("\nOptions:").next().unwrap_or_default();
        let lines = commands.lines().filter_map(|line| line.strip_prefix("  "));
        let names = lines.filter_map(|line| line.split_once("  ")).map(|(name, _)| name);
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let mut text = String::from(
        "# All commands and options\n\nThis is what `kiste --help` and `kiste COMMAND --help` print, \
         with all features. Every command takes the global options of the first section. The tests \
         write this page (`tests/docs/guide.rs`).\n",
    );
    let mut add = |names: &[&str]| {
        let page = help(names);
        let mut page: Vec<&str> = page.lines().map(str::trim_end).collect();
        // One line and an empty one in the help of each command, which the first section makes superfluous.
        if let Some(at) = page.iter().position(|line| line.starts_with("Global options (see ")) {
            page.drain(at..at + 2);
        }
        let name = [&["kiste"], names].concat().join(" ");
        text += &format!("\n## {name}\n\n```text\n{}\n```\n", page.join("\n"));
    };
    add(&[]);
    for name in listed(&help(&[])) {
        add(&[&name]);
        if name == "array" || name == "blpk" {
            for below in listed(&help(&[&name])) {
                add(&[&name, &below]);
            }
        }
    }
    text
}

#[test]
fn lines_are_compared_with_gaps() {
    assert!(is_like("a 5 b", "a 5 b") && is_like("a 5 b", "a ... b") && is_like("a 5 b", "..."));
    assert!(!is_like("a 5 b", "a 6 b") && !is_like("a 5 b", "a ... c") && !is_like("x", ""));
    assert!(is_like("1 x 2 y 3", "... x ... y ...") && !is_like("1 x 2", "... x ... y ..."));
    let expected = ["a", "...", "z"].map(str::to_owned);
    assert!(are_like(&["a", "z"], &expected) && are_like(&["a", "b", "c", "z"], &expected));
    assert!(!are_like(&["a", "b"], &expected) && !are_like(&["z"], &expected));
}
