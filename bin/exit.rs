//! How a command ends: exit codes, and errors with a hint of what to do.

use kiste::storage::Shown;
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use kiste::dataset::is_dataset;
use kiste::format::dataset::SideFile;
use kiste::format::dataset::shards::is_manifest;
use kiste::text::escaped;
use kiste::{ErrorKind, Remedy};

use crate::arguments::arguments;

/// The meaning of the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Yes, or done.
    Yes,
    /// The answer is no: damage was found, a key is not there.
    No,
    /// The question was wrong, or the operating system said no.
    Trouble,
    /// Ctrl-C, SIGTERM or SIGHUP came while something was written: what shells report of Ctrl-C, 128 and
    /// the signal.
    Interrupted = 130,
}

/// Why a command could not do what was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// To be told, in one line and perhaps another one with a hint, and commands that do what it says.
    Told { exit: Exit, message: String, hint: Option<String>, commands: Vec<String> },
    /// The reader of standard output has seen enough (`kiste ls F | head`). That is no error, so the
    /// command stops without a message.
    ClosedPipe,
}

/// The result of every command.
pub(crate) type Outcome<T = Exit> = Result<T, Failure>;

impl Failure {
    fn told(exit: Exit, message: String, hint: Option<String>) -> Failure {
        Failure::Told { exit, message, hint, commands: Vec::new() }
    }

    /// The answer is no.
    pub(crate) fn no(message: impl fmt::Display) -> Failure {
        Failure::told(Exit::No, message.to_string(), None)
    }

    /// A question that cannot be answered.
    pub(crate) fn trouble(message: impl fmt::Display) -> Failure {
        Failure::told(Exit::Trouble, message.to_string(), None)
    }

    /// An error of the operating system at a file.
    pub(crate) fn io(path: &Path, error: io::Error) -> Failure {
        kiste::Error::io(path, error).into()
    }

    /// Forgets a hint that is of no use here.
    pub(crate) fn without_hint(mut self) -> Failure {
        if let Failure::Told { hint, .. } = &mut self {
            *hint = None;
        }
        self
    }

    /// The same in other words.
    pub(crate) fn telling(mut self, text: String) -> Failure {
        if let Failure::Told { message, .. } = &mut self {
            *message = text;
        }
        self
    }

    /// Says what to do about it.
    pub(crate) fn hint(mut self, text: impl Into<String>) -> Failure {
        if let Failure::Told { hint, .. } = &mut self {
            *hint = Some(text.into());
        }
        self
    }
}

/// Everything in the library fails with the file's name; what is added here is what to do next.
impl From<kiste::Error> for Failure {
    fn from(error: kiste::Error) -> Failure {
        let is_no = error.kind() == ErrorKind::Damaged
            || matches!(error.remedy(), Some(Remedy::MakePart { .. } | Remedy::NameArray(_)));
        let exit = match error.kind() {
            ErrorKind::Cancelled => Exit::Interrupted,
            _ if is_no => Exit::No,
            _ => Exit::Trouble,
        };
        let hint = hint_for(&error);
        if exit == Exit::Interrupted {
            // One line, as a person is waiting for the prompt.
            let go_on = match error.remedy() {
                Some(Remedy::Resume(_)) => {
                    Some(String::from("the same command with --resume continues"))
                }
                _ => hint,
            };
            let go_on = go_on.unwrap_or_else(|| String::from("the same command starts over"));
            let message = plain(&error);
            let is_said = message.contains("starts over");
            let message = if is_said { message } else { format!("{message}; {go_on}") };
            return Failure::told(exit, message, None);
        }
        let message = match error.option() {
            Some(option) => format!("{} {}", flag(option), error.message()),
            None => plain(&error),
        };
        let commands = match error.remedy() {
            Some(Remedy::ChooseSplit { output, splits }) => choose_split(output, splits),
            _ => Vec::new(),
        };
        Failure::Told { exit, message, hint, commands }
    }
}

/// Only writing to standard output fails in this way.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::trouble(format_args!("standard output: {}", plain_io(&error))),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Failure {
        io::Error::from(error).into()
    }
}

/// The error in one line, the words of the operating system in the style of the others.
fn plain(error: &kiste::Error) -> String {
    let text = format!("{error:#}");
    match error.get_ref().and_then(|source| source.downcast_ref::<io::Error>()) {
        Some(io) => text.replace(&io.to_string(), &plain_io(io)),
        None => text,
    }
}

fn plain_io(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    match text.split_once(' ') {
        // Not where it is a name such as "EOF".
        Some((first, rest)) if !first[1..].contains(char::is_uppercase) => {
            format!("{} {rest}", first.to_lowercase())
        }
        _ => text.to_string(),
    }
}

/// The option of the command for one of the library.
pub(crate) fn flag(option: &str) -> String {
    let name = match option {
        "overwrite" => "force",
        "buffer" => "buf-size",
        "digests" => "no-md5",
        "checksums" => "crc",
        "durable" => "no-sync",
        "on_duplicates" => "skip-duplicates",
        "on_bad_input" => "bad",
        option => &option.replace('_', "-"),
    };
    format!("--{name}")
}

/// The next step, in the words of the command.
fn worded(remedy: &Remedy, path: Option<&Path>) -> Option<String> {
    let one_of = |names: &[&str]| match names {
        [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
        names => names.concat(),
    };
    Some(match remedy {
        Remedy::Overwrite => "--force replaces it".to_owned(),
        Remedy::OverwriteAll => "--force replaces all of them".to_owned(),
        Remedy::OverwriteOrAppend => "--force replaces it, --append adds to it".to_owned(),
        Remedy::Create => "without --append a new dataset is made".to_owned(),
        Remedy::StartOver => "--force without --resume starts over".to_owned(),
        Remedy::SkipDuplicates => {
            "--skip-duplicates keeps the first sample of each key, and counts those that differ"
                .to_owned()
        }
        Remedy::ShardInKey => {
            "if they are different samples: --key '{key.shard}/{key}' puts the name of its file in \
             front of each key"
                .to_owned()
        }
        Remedy::PrefixKeys => {
            "if they are different samples: --key 'more/{key}' puts a text in front of the new keys"
                .to_owned()
        }
        Remedy::NewKeys => "--key '{key}' appends with the new keys".to_owned(),
        Remedy::SkipBad => {
            "--bad skip leaves out bad input, --bad quarantine sets it aside".to_owned()
        }
        Remedy::Resume(output) => {
            let output = quoted(output);
            format!("the same command with --resume continues, or try: kiste repair {output}")
        }
        Remedy::Repair(dataset) => format!(
            "all samples are written: \"kiste repair {0}\" publishes them, \"kiste repair {0} \
             --undo\" removes them",
            quoted(dataset)
        ),
        Remedy::Salvage => salvage(path?),
        Remedy::TrustData => format!(
            "{}; --force --trust-data takes the data as it is, and replaces what contradicts it",
            salvage(path?)
        ),
        Remedy::Root(found) => match found {
            Some(folder) => format!("--root {} has it", Shown::of(folder)),
            None => "--root says which folder the files are in".to_owned(),
        },
        Remedy::AllowOutside => {
            "--allow-outside reads it, if you trust those who made the files".to_owned()
        }
        Remedy::ResumeFiles => "--resume is for files".to_owned(),
        Remedy::ChooseSplit { .. } => {
            "one of them, each of them, or all with a field \"split\":".to_owned()
        }
        Remedy::NameInput(names) => format!("name its format with --from {}", one_of(names)),
        Remedy::ReadAs(name) => {
            format!("--from {name} reads it anyway, and reports where it is damaged")
        }
        Remedy::MakeDataset => {
            let (from, to) = (quoted(path?), quoted(&path?.with_extension("msgpack")));
            let place = quoted(&path?.with_extension("inplace.json"));
            let place = match path?.extension().and_then(|ending| ending.to_str()) {
                Some("tar" | "jsonl" | "tfrecord" | "arrow") => {
                    format!(", and \"kiste index {from} -o {place}\" one that leaves it where it is")
                }
                _ => String::new(),
            };
            format!("\"kiste convert {from} {to}\" makes a dataset of it{place}")
        }
        Remedy::WriteDataset => "--to dataset writes one".to_owned(),
        Remedy::KeyField => {
            "--key-field makes another field the key, --key makes keys from fields".to_owned()
        }
        Remedy::Decode(encoding) => format!("--encoding {encoding} reads it"),
        Remedy::NameEncoding(Some(encoding)) => {
            format!("if it is Western European text: --encoding {encoding}")
        }
        Remedy::NameEncoding(None) => {
            "--encoding names the encoding of the text, such as cp1251, shift_jis or gb18030"
                .to_owned()
        }
        Remedy::Recode(encoding) => format!(
            "a copy in UTF-8 can be read: iconv -f {encoding} -t UTF-8 {} > COPY",
            quoted(path?)
        ),
        Remedy::PlainJson => "--plain-json reads names with $ as ordinary names".to_owned(),
        Remedy::PlainQuotes => "--quote none reads quotes as ordinary characters".to_owned(),
        Remedy::EditImages => {
            "use it with --resize, --image-format or --verify-images".to_owned()
        }
        Remedy::DropField(name) => format!("--drop {name} leaves it out"),
        Remedy::RaiseLimit(option) => {
            format!("{} raises the limit, if you trust the input", flag(option))
        }
        Remedy::MakePart { first, missing } => match missing {
            (_, 1) => format!("make it: --part {first}"),
            (1, _) => format!("make it: the same command with --part {first}"),
            _ => format!("make them: the same command with --part {first} and so on"),
        },
        Remedy::MakeParts => "\"kiste convert --part\" makes them".to_owned(),
        Remedy::RemoveDir(dir) => {
            let removed = parts_removed(dir);
            format!("remove or rename it if it is not needed: {removed}")
        }
        Remedy::Feature(feature) => format!("build it with --features {feature}"),
        Remedy::NameOutput(names) => format!(
            "names end in {names}; --to images and --to mds write folders, and --to dataset a \
             dataset of this name"
        ),
        Remedy::IncludeFiles(ending) => {
            format!(
                "--include '*{ending}' takes them, into a field \"image\" that --rename can name \
                 otherwise"
            )
        }
        Remedy::NameArray(names) => format!("its arrays: {}", names.join(", ")),
        Remedy::MergeLabels => {
            "--remap-labels numbers labels by their names, --no-labels leaves the \
                                numbers as they are, without names"
                .to_owned()
        }
        Remedy::ListFields => format!("\"kiste info {}\" lists the fields", quoted(path?)),
        Remedy::UndoShuffle => {
            "\"kiste repair OUT --undo\" removes the files of the shuffle to OUT; then start it \
             again"
                .to_owned()
        }
        Remedy::OtherShuffle => {
            "finish that shuffle with its own options, or remove it with \"kiste repair OUT --undo\" \
             and start again"
                .to_owned()
        }
        Remedy::MakeLengths { column, data } => {
            let (column, data) = (quoted(Path::new(column)), quoted(data));
            format!("\"kiste index --lengths {column} {data}\" makes them")
        }
        Remedy::Advice(advice) => (*advice).to_owned(),
        Remedy::NewParts(remedy, dir) => {
            let remedy = worded(remedy, path)?;
            format!("{remedy}: make the parts again with it, after {}", parts_removed(dir))
        }
        _ => return None,
    })
}

/// This command for one split, for each of them, and for all.
fn choose_split(output: &Path, splits: &[String]) -> Vec<String> {
    let mut args: Vec<PathBuf> = arguments().iter().skip(1).map(PathBuf::from).collect();
    while let Some(at) = args.iter().position(|arg| arg == Path::new("--splits")) {
        args.drain(at..args.len().min(at + 2));
    }
    args.retain(|arg| !arg.to_string_lossy().starts_with("--splits="));
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    let each = match name.split_once('.') {
        Some((stem, ending)) if !stem.is_empty() => format!("{stem}-{{split}}.{ending}"),
        _ => format!("{name}-{{split}}"),
    };
    let each = output.with_file_name(each);
    // The new option comes right after the command, where no `--` is in front of it.
    let names = ["convert", "import", "export"];
    let is_command = |arg: &PathBuf| names.iter().any(|name| arg == Path::new(name));
    let after = args.iter().position(is_command).map_or(0, |at| at + 1);
    let line = |args: &[PathBuf], option: &str| {
        let mut words: Vec<String> = args.iter().map(|arg| option_or_path(arg)).collect();
        words.insert(after, option.to_owned());
        words.retain(|word| !word.is_empty());
        format!("kiste {}", words.join(" "))
    };
    let mut each_args = args.clone();
    for arg in each_args.iter_mut().rev() {
        let text = arg.to_string_lossy().into_owned();
        let option = ["-o=", "-o", "--output="].into_iter().find(|option| {
            text.strip_prefix(option).is_some_and(|value| Path::new(value) == output)
        });
        if arg == output || option.is_some() {
            *arg = PathBuf::from(format!("{}{}", option.unwrap_or_default(), each.display()));
            break;
        }
    }
    // A comma would end the name.
    let first = splits.iter().find(|split| !split.contains(','));
    let first = quoted(Path::new(first.map_or("NAME", String::as_str)));
    vec![
        line(&args, &format!("--splits={first}")),
        line(&each_args, ""),
        line(&args, "--merge-splits"),
    ]
}

/// An argument as it can be pasted into a shell.
fn option_or_path(arg: &Path) -> String {
    let Some(name) = arg.to_str().filter(|name| name.starts_with('-')) else { return quoted(arg) };
    let value = match name.strip_prefix("-o") {
        Some(value) if !name.starts_with("--") => Some(("-o", value)),
        _ => name.split_once('='),
    };
    match value {
        Some(("-o", "")) | None => name.to_owned(),
        Some(("-o", value)) => format!("-o{}", quoted(Path::new(value))),
        Some((option, value)) => format!("{option}={}", quoted(Path::new(value))),
    }
}

/// The command that removes a folder, and if it is of parts that have written elsewhere too, all of that.
fn parts_removed(dir: &Path) -> String {
    let output = dir.to_str().and_then(|dir| dir.strip_suffix(".parts"));
    let elsewhere = |output: &&str| is_url(Path::new(output)) || is_manifest(output);
    match output.filter(elsewhere) {
        Some(output) => format!("kiste repair {} --undo", quoted(Path::new(output))),
        None => format!("rm -r {}", quoted(dir)),
    }
}

/// The hint how to save the whole samples of the dataset that a file belongs to.
fn salvage(path: &Path) -> String {
    let data = quoted(&SideFile::data_of(path));
    format!("\"kiste repair {data} -o OUT\" saves all whole samples")
}

fn hint_for(error: &kiste::Error) -> Option<String> {
    if let (Some(Remedy::SkipBad), ErrorKind::Invalid, Some(field)) =
        (error.remedy(), error.kind(), error.field())
    {
        let field = quoted(Path::new(field));
        return Some(format!(
            "--drop {field} leaves the field out of all samples, --bad skip leaves out such samples"
        ));
    }
    let worded = error.remedy().and_then(|remedy| worded(remedy, error.path()));
    if worded.is_some() {
        return worded;
    }
    let path = error.path()?;
    let data = SideFile::data_of(path);
    match error.kind() {
        // The store looked for it.
        ErrorKind::NotFound if is_url(path) && kiste::storage::is_url(path) => None,
        ErrorKind::NotFound if is_url(path) => Some(
            "URLs of datasets and of sources of \"kiste convert\" begin with s3://, gs://, az://, \
             abfss://, hf://, https://, http:// or file://: copy other files to a disk, or mount them"
                .to_owned(),
        ),
        ErrorKind::Damaged if is_url(path) && data != path => Some(
            "make it again with \"kiste index\" where the dataset is on a disk, and upload it"
                .to_owned(),
        ),
        ErrorKind::Interrupted => Some(format!("try: kiste repair {}", quoted(&data))),
        ErrorKind::Damaged | ErrorKind::NotFound if SideFile::of(path) == Some(SideFile::Crc) => {
            Some(format!("try: kiste index --crc {}", quoted(&data)))
        }
        ErrorKind::Damaged if data != path => {
            Some(format!("try: kiste index --force {}", quoted(&data)))
        }
        ErrorKind::Damaged if is_dataset(&data) => {
            Some(format!("try: kiste verify {}", quoted(&data)))
        }
        ErrorKind::AlreadyExists => Some("--force replaces it".to_string()),
        ErrorKind::Locked => Some("wait until the other program is done".to_string()),
        _ => None,
    }
}

/// Whether it is named as an object of a store is, such as `s3://bucket/name`.
fn is_url(path: &Path) -> bool {
    let scheme = path.to_str().and_then(|name| name.split_once(":/")).map(|(scheme, _)| scheme);
    scheme.is_some_and(|s| s.len() > 1 && s.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// A path as it can be pasted into a shell.
pub(crate) fn quoted(path: &Path) -> String {
    let path = &Shown::of(path).into_path();
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    if let Cow::Owned(_) = escaped(&text) {
        return escape_quoted(path);
    }
    match !text.is_empty() && text.chars().all(plain) && !text.starts_with('-') {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// With bytes spelled as shells read them where text cannot be shown: `$'a\033'`.
fn escape_quoted(path: &Path) -> String {
    let spelled = |byte: &u8| match byte {
        b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
        b' '..=b'~' => char::from(*byte).to_string(),
        // Three digits end the number for all that read octal ones.
        byte => format!("\\{byte:03o}"),
    };
    let bytes = path.as_os_str().as_encoded_bytes();
    format!("$'{}'", bytes.iter().map(spelled).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_what_the_help_says() {
        assert_eq!([Exit::Yes as u8, Exit::No as u8, Exit::Trouble as u8], [0, 1, 2]);
        assert!(Exit::Yes < Exit::No && Exit::No < Exit::Trouble);
    }

    #[test]
    fn paths_can_be_pasted() {
        assert_eq!(quoted(Path::new("a/b-1.msgpack")), "a/b-1.msgpack");
        assert_eq!(quoted(Path::new("my data")), "'my data'");
        assert_eq!(quoted(Path::new("it's")), r"'it'\''s'");
        assert_eq!(quoted(Path::new("it's\u{1b} 1\n")), r"$'it\'s\033 1\012'");
    }

    #[test]
    fn the_operating_system_speaks_in_lower_case() {
        let error = kiste::Error::io("x", io::Error::from_raw_os_error(2));
        assert_eq!(plain(&error), "x: no such file or directory");
    }
}
