//! Wrong usage: the message about it, and what was probably meant.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use kiste::convert::Format;
use kiste::text::{escaped, is_unprintable};

use crate::arguments::arguments as given;
use crate::cmd;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// What people type that is no command, and what does it.
const MEANT: &[(&[&str], &str)] = &[
    (
        &["dedupe", "dedup", "unique", "uniq"],
        "kiste select IN OUT --first-of FIELD keeps the first of equal samples",
    ),
    (&["append", "add", "extend"], "kiste convert --append SRC DATASET appends"),
    (
        &["extract", "unpack", "untar", "unzip"],
        "kiste convert DATASET FOLDER --to images writes the images of a dataset as files",
    ),
    (
        &["rm", "delete", "remove", "drop"],
        "kiste filter leaves out samples, kiste convert --drop FIELD a field",
    ),
    (&["rename"], "kiste convert IN OUT --rename OLD=NEW renames fields"),
    (
        &["cp", "copy", "clone", "upload", "push", "download", "pull"],
        "kiste convert IN OUT copies a dataset, also to and from URLs",
    ),
    (
        &["resize", "transcode"],
        "kiste convert IN OUT --resize SIZE --image-format FORMAT changes images",
    ),
    (&["len", "length", "size", "schema", "fields", "describe"], "kiste info DATASET"),
    (&["fix", "recover", "salvage"], "kiste repair DATASET"),
    (&["undo"], "kiste repair --undo DATASET"),
    (
        &["search", "find", "grep", "query"],
        "kiste get DATASET KEY, or kiste filter IN OUT CONDITION",
    ),
    (&["md5", "hash", "checksum", "fsck", "test"], "kiste verify DATASET"),
    (&["shard", "reshard"], "kiste convert SRC NAME.shards.json --shard-size SIZE"),
    (&["pack", "create", "make", "build", "new"], "kiste convert SRC DST"),
    (&["join", "zip", "combine"], "kiste merge, or kiste::reader::JoinReader in Rust"),
    (&["serve", "browse", "html", "plot", "hist", "histogram"], "kiste stat DATASET --html PAGE"),
    (&["unpickle", "json", "jsonl", "dump", "print"], "kiste cat DATASET --jsonl"),
];

/// The arguments, with `head -3` as `head -n3`: so it is known from other programs.
pub(crate) fn arguments() -> Vec<OsString> {
    let mut args = given().to_vec();
    let counts = ["head", "tail", "cat", "ls"];
    // The command is the first that is neither an option nor the value of one.
    let is_value =
        |at: usize| ["--color", "--progress"].iter().any(|option| args[at - 1] == *option);
    let is_word = |at: &usize| !args[*at].as_encoded_bytes().starts_with(b"-") && !is_value(*at);
    let command = (1..args.len()).find(is_word);
    let Some(at) = command.filter(|at| counts.iter().any(|name| args[*at] == *name)) else {
        return args;
    };
    if let Some(next) = args.get_mut(at + 1) {
        let digits = next.to_str().and_then(|text| text.strip_prefix('-')).map(str::to_owned);
        let is_number =
            |digits: &String| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        if let Some(digits) = digits.filter(is_number) {
            *next = format!("-n{digits}").into();
        }
    }
    args
}

/// Prints help, or the message about a wrong usage in the style of all others.
pub(crate) fn tell(told: &clap::Error, output: &Output) -> Exit {
    let is_help = matches!(
        told.kind(),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand
    );
    if !told.use_stderr() || is_help {
        // Help and version go to standard output. Whether they are read is not for us to say.
        drop(told.print());
        return if told.use_stderr() { Exit::Trouble } else { Exit::Yes };
    }
    let text = plain(told);
    let mut message = Vec::new();
    let (mut tips, mut usage) = (Vec::new(), Vec::new());
    let mut is_message = true;
    for line in text.lines().map(str::trim) {
        match line.strip_prefix("error: ").unwrap_or(line) {
            "" => is_message = false,
            line if is_message => message.push(line.to_owned()),
            // Followed to the letter it would make an output of a typing error.
            line if line.starts_with("tip: to pass ") => {}
            line if line.starts_with("tip: ") => tips.push(line["tip: ".len()..].to_owned()),
            line if line.starts_with("Usage: ") => usage.push(line["Usage: ".len()..].to_owned()),
            line if line.starts_with("kiste ") => usage.push(line.to_owned()),
            _ => {}
        }
    }
    let command = named(told, ContextKind::InvalidSubcommand);
    let hint = match (told.kind(), command) {
        (ErrorKind::InvalidSubcommand, Some(name)) => {
            message = vec![format!("there is no command {name:?}")];
            // Of the commands of a command, all names are known.
            let is_first = given().get(1).is_some_and(|first| *first == *name);
            Some(if is_first || tips.is_empty() { meant(&name, told) } else { tips.join("; ") })
        }
        _ if !tips.is_empty() => Some(tips.join("; ")),
        (ErrorKind::MissingRequiredArgument | ErrorKind::UnknownArgument, _) => {
            (!usage.is_empty()).then(|| format!("usage: {}", usage.join("; ")))
        }
        _ => None,
    };
    let failure = Failure::trouble(message.join(" "));
    output.fail(match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    });
    Exit::Trouble
}

/// What a word was meant to be that is no command.
fn meant(given: &str, told: &clap::Error) -> String {
    let word = given.to_lowercase();
    if let Some((_, does)) = MEANT.iter().find(|(words, _)| words.contains(&&word[..])) {
        return (*does).to_owned();
    }
    let is_word = |format: &Format| {
        let is_name = format.name() == word || format.aliases().contains(&&word[..]);
        is_name || format.extension() == Some(&word)
    };
    if let Some(format) = Format::readable().find(is_word) {
        let is_written = Format::writable().any(|written| written == format);
        let does = if is_written { "reads and writes" } else { "reads" };
        return format!("kiste convert SRC DST {does} {word}");
    }
    let command_line = cmd::command_line();
    // The most similar is the last one. Other names of a command are not shown.
    let similar = match told.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names.clone(),
        _ => Vec::new(),
    };
    let known = similar.iter().rev().find_map(|name| {
        let all = command_line.get_subcommands();
        let command = all.into_iter().find(|command| {
            command.get_name() == name || command.get_all_aliases().any(|alias| alias == name)
        });
        let name = command.map(clap::Command::get_name)?;
        // Words that only share letters are not meant.
        let is_near = name.get(..2) == word.get(..2) && name.len().abs_diff(word.len()) < 4;
        (is_near && !cmd::UNLISTED.contains(&name)).then_some(name)
    });
    match known {
        Some(name) => format!("kiste {name}?"),
        None if Path::new(given).exists() => {
            "kiste info NAME describes a dataset, kiste convert NAME OUT.msgpack makes one"
                .to_owned()
        }
        None => "kiste --help lists all commands".to_owned(),
    }
}

/// A word of the command line that the error is about.
fn named(told: &clap::Error, kind: ContextKind) -> Option<String> {
    match told.get(kind) {
        Some(ContextValue::String(name)) => Some(name.clone()),
        _ => None,
    }
}

/// The text without colours. It quotes arguments as they are, so what a terminal cannot show is escaped first: it
/// could end a line.
fn plain(told: &clap::Error) -> String {
    let mut text = told.render().to_string();
    let args = given().iter().map(|arg| arg.to_string_lossy().into_owned());
    for arg in args.filter(|arg| arg.contains(is_unprintable)) {
        let value = arg.split_once('=').map_or("", |(_, value)| value);
        let quoted = [&arg[..], value].into_iter().filter(|quoted| quoted.contains(is_unprintable));
        text = quoted.fold(text, |text, quoted| text.replace(quoted, &escaped(quoted)));
    }
    text
}
