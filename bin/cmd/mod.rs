//! The commands, and the help that lists them.

use std::sync::LazyLock;

use clap::builder::styling::{AnsiColor, Style, Styles};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{CommandFactory, FromArgMatches, Parser};
use kiste::array::ByteSize;

use crate::exit::{Exit, Outcome};
use crate::listing::wrapped;
use crate::output::{Colour, Output, given_columns, terminal_columns};
use crate::progress::Showing;

mod array;
mod bench;
mod blpk;
#[cfg(feature = "remote")]
mod cache;
mod cat;
#[cfg(feature = "datasets")]
mod catalogue;
mod commit;
mod completions;
mod convert;
mod demo;
mod diff;
mod filter;
mod get;
mod head;
mod index;
mod info;
mod ls;
mod man;
mod merge;
mod order;
mod order_batches;
mod recipe;
mod repair;
mod sample;
mod select;
mod shuffle;
mod sort;
mod split;
mod stat;
mod tail;
mod verify;

/// Keyed ML sample datasets: make, inspect, rearrange, convert and check them
#[derive(Debug, Parser)]
#[command(name = "kiste", version, max_term_width = MAX_WIDTH, styles = STYLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print only errors on standard error: no remarks, warnings or progress
    #[arg(long, short, global = true, display_order = 100)]
    pub(crate) quiet: bool,
    /// When to use colour: auto, always or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        display_order = 101
    )]
    pub(crate) color: Colour,
    /// How to show progress: bar, only on a terminal; or json, a line every two seconds on standard
    /// error
    #[arg(
        long,
        global = true,
        value_name = "FORM",
        default_value = "bar",
        hide_possible_values = true,
        display_order = 102
    )]
    pub(crate) progress: Showing,
    /// Read datasets with system calls instead of a memory map: slower, but a file that another program
    /// truncates is an error and does not kill kiste
    #[arg(long, global = true, display_order = 103)]
    pub(crate) untrusted: bool,
    /// Allow the names in a list, table, index or manifest to lead out of its folder: by absolute paths, "..",
    /// symbolic links or URLs
    #[arg(long, global = true, display_order = 104)]
    pub(crate) allow_outside: bool,
}

/// An enum of commands, each with a module of its name, and what runs them.
macro_rules! commands {
    ($vis:vis enum $Command:ident { $($(#[$cfg:meta])* $name:ident($args:ty)),* $(,)? }) => {
        #[derive(Debug, clap::Subcommand)]
        $vis enum $Command {
            $($(#[$cfg])* $name($args),)*
        }

        impl $Command {
            $vis fn run(self, output: &Output) -> Outcome<Exit> {
                match self {
                    $($(#[$cfg])* $Command::$name(args) => args.run(output),)*
                }
            }
        }
    };
}
use commands;

commands! {
    pub(crate) enum Command {
        Demo(demo::Args),
        Convert(Box<convert::Args>),
        #[cfg(feature = "datasets")]
        Catalogue(Box<catalogue::Args>),
        Commit(commit::Args),
        Index(index::Args),
        Cat(cat::Args),
        Head(head::Args),
        Tail(tail::Args),
        Ls(ls::Args),
        Get(get::Args),
        Info(info::Args),
        Stat(stat::Args),
        Order(order::Args),
        Recipe(recipe::Args),
        Shuffle(shuffle::Args),
        Split(split::Args),
        Merge(merge::Args),
        Sample(sample::Args),
        Select(select::Args),
        Filter(filter::Args),
        Sort(sort::Args),
        Diff(diff::Args),
        Bench(bench::Args),
        Array(array::Args),
        Blpk(blpk::Args),
        Verify(verify::Args),
        Repair(repair::Args),
        #[cfg(feature = "remote")]
        Cache(cache::Args),
        Completions(completions::Args),
        Man(man::Args),
    }
}

const HEADING: Style = AnsiColor::Green.on_default().bold();
const LITERAL: Style = AnsiColor::Cyan.on_default().bold();
const STYLES: Styles = Styles::styled()
    .header(HEADING)
    .usage(HEADING)
    .literal(LITERAL)
    .placeholder(AnsiColor::Cyan.on_default());

/// The commands by purpose.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Make",
        &[
            "convert",
            #[cfg(feature = "datasets")]
            "catalogue",
            "index",
        ],
    ),
    ("Look", &["info", "cat", "ls", "get", "stat", "order", "recipe", "diff", "bench"]),
    ("Change", &["filter", "select", "sample", "sort", "shuffle", "split", "merge"]),
    ("Check", &["verify", "repair"]),
    ("Arrays", &["array", "blpk"]),
    (
        "More",
        &[
            "demo",
            #[cfg(feature = "remote")]
            "cache",
        ],
    ),
];

/// Commands that work, but are not listed in the help.
pub(crate) const UNLISTED: &[&str] = &["completions", "man", "commit", "head", "tail"];

/// The command line as clap knows it, with commands grouped in the help. Global options are in the help
/// of `kiste` alone.
pub(crate) fn command_line() -> clap::Command {
    let command = command_line_with_globals();
    let globals: Vec<clap::Arg> =
        command.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    hide_globals(command, &globals)
}

/// The same, with the global options in the help of every command: for completions and manual pages.
pub(crate) fn command_line_with_globals() -> clap::Command {
    let array = |command: clap::Command| {
        let template = grouped(&command, array::GROUPS, "Options");
        command.help_template(template).subcommand_required(true)
    };
    let command = Args::command().mut_subcommand("array", array);
    let command = command.mut_subcommand("convert", convert::with_short_help);
    #[cfg(feature = "datasets")]
    let command = command.mut_subcommand("catalogue", catalogue::with_bound_options);
    let template = grouped(&command, GROUPS, "Global options");
    let after = format!(
        "FILE is the data file of a dataset, the manifest of a dataset of many files, or a URL. Side files \
         are found by its name. Data and side files are those of Python datadings, byte for byte.\n\
         \"{LITERAL}kiste COMMAND --help{LITERAL:#}\" has details and examples.\n\
         Exit codes: 0 yes or done, 1 the answer is no (damage found, key missing), 2 wrong usage \
         or I/O error, 130 stopped by Ctrl-C, SIGTERM or SIGHUP."
    );
    let command = command.help_template(template).after_help(after).subcommand_required(true);
    with_both_names(command.long_version(LONG_VERSION.as_str()))
}

/// The same with `--json` and `--jsonl` for one another in commands that have one of the two.
fn with_both_names(command: clap::Command) -> clap::Command {
    let has = |name: &str| {
        let is_it = |arg: &clap::Arg| arg.get_long() == Some(name);
        command
            .get_arguments()
            .any(|arg| is_it(arg) || arg.get_all_aliases().is_some_and(|all| all.contains(&name)))
    };
    let command = match (has("json"), has("jsonl")) {
        (true, false) => command.mut_arg("json", |arg| arg.alias("jsonl")),
        (false, true) => command.mut_arg("jsonl", |arg| arg.alias("json")),
        _ => command,
    };
    command.mut_subcommands(with_both_names)
}

/// The version, the commit if the build was told it, and the features.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let features = [
        ("c-blosc", cfg!(feature = "c-blosc")),
        ("datasets", cfg!(feature = "datasets")),
        ("download", cfg!(feature = "download")),
        ("images", cfg!(feature = "images")),
        ("parquet", cfg!(feature = "parquet")),
        ("remote", cfg!(feature = "remote")),
        ("turbo", cfg!(feature = "turbo")),
    ];
    let built = features.iter().filter(|(_, built)| *built).map(|(name, _)| *name);
    let built = built.collect::<Vec<_>>().join(" ");
    let built = if built.is_empty() { "none besides the default" } else { &built };
    let commit = option_env!("KISTE_COMMIT").map_or(String::new(), |id| format!("\ncommit: {id}"));
    format!("{}{commit}\nfeatures: {built}", env!("CARGO_PKG_VERSION"))
});

/// Gives all commands below one hidden copies of the global options, where clap would add visible ones,
/// and a line that names them.
fn hide_globals(command: clap::Command, globals: &[clap::Arg]) -> clap::Command {
    let names: Vec<_> = globals.iter().filter_map(|arg| arg.get_long()).collect();
    let line = format!("Global options (see \"kiste --help\"): --{}", names.join(", --"));
    command.mut_subcommands(|below| {
        let after = below.get_after_help().map(ToString::to_string).unwrap_or_default();
        let long = below.get_after_long_help().map(|long| format!("{line}\n\n{long}"));
        let hidden = globals.iter().map(|arg| arg.clone().hide(true));
        let below = below.args(hidden).after_help(format!("{line}\n\n{after}"));
        hide_globals(given(below, long, clap::Command::after_long_help), globals)
    })
}

/// The widest line of help. Wider ones are hard to read.
const MAX_WIDTH: usize = 100;
/// The column in which commands are described.
const COLUMN: usize = 15;

/// The width of help, as clap finds it.
fn help_width() -> usize {
    terminal_columns().or_else(given_columns).unwrap_or(MAX_WIDTH).min(MAX_WIDTH)
}

/// The summary of a command, in lines of this width, all but the first indented to [`COLUMN`].
fn described(about: &str, width: usize) -> String {
    let lines = wrapped(about, width.saturating_sub(COLUMN));
    lines.join(&format!("\n{:COLUMN$}", ""))
}

/// The help of a command that has commands itself, in parts.
fn grouped(command: &clap::Command, groups: &[(&str, &[&str])], options: &str) -> String {
    let width = help_width();
    let mut template = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (group, names) in groups {
        template += &format!("\n{HEADING}{group}:{HEADING:#}\n");
        for name in *names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let about = described(&about, width);
            template += &format!("  {LITERAL}{name:<12}{LITERAL:#} {about}\n");
        }
    }
    template + &format!("\n{HEADING}{options}:{HEADING:#}\n{{options}}{{after-help}}")
}

/// Takes these names, which completions and errors list, for values of the library.
pub(crate) fn named<T>(
    names: impl IntoIterator<Item = &'static str>,
) -> impl TypedValueParser<Value = T>
where
    T: std::str::FromStr<Err: std::error::Error + Send + Sync> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| name.parse::<T>())
}

/// Options of the library with one of the command line, if it was given.
pub(crate) fn given<O, T>(options: O, value: Option<T>, set: impl FnOnce(O, T) -> O) -> O {
    match value {
        Some(value) => set(options, value),
        None => options,
    }
}

/// A number of bytes such as 512K.
fn parse_size(text: &str) -> Result<usize, kiste::Error> {
    text.parse::<ByteSize>().map(|size| size.0)
}

/// Reads the command line. Errors are clap's, as are help and version.
pub(crate) fn parse() -> Result<Args, clap::Error> {
    Args::from_arg_matches(&command_line().try_get_matches_from(crate::usage::arguments())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clap_finds_nothing_to_object_to() {
        command_line().debug_assert();
    }

    #[test]
    fn every_command_is_in_the_help() {
        let command_line = command_line();
        let array = command_line.find_subcommand("array").unwrap();
        for (command, groups) in [(&command_line, GROUPS), (array, array::GROUPS)] {
            let names = command.get_subcommands().map(|c| c.get_name()).filter(|n| *n != "help");
            let mut names: Vec<&str> = names.filter(|name| !UNLISTED.contains(name)).collect();
            let mut grouped: Vec<&str> = groups.iter().flat_map(|g| g.1).copied().collect();
            names.sort_unstable();
            grouped.sort_unstable();
            assert_eq!(names, grouped);
        }
    }

    /// All commands, including the ones of `array` and `blpk`, and their names.
    fn all_commands(command_line: &clap::Command) -> Vec<(String, &clap::Command)> {
        let mut all = Vec::new();
        for command in command_line.get_subcommands() {
            let name = command.get_name();
            all.push((name.to_owned(), command));
            all.extend(command.get_subcommands().map(|c| (format!("{name} {}", c.get_name()), c)));
        }
        all
    }

    /// A user who knows one command knows the options of all.
    #[test]
    fn an_option_means_the_same_everywhere() {
        let command_line = command_line();
        let mut shorts: std::collections::BTreeMap<char, String> = Default::default();
        for (name, command) in all_commands(&command_line) {
            for arg in command.get_arguments() {
                let (Some(long), short) = (arg.get_long(), arg.get_short()) else { continue };
                if long == "force" {
                    assert_eq!(short, Some('f'), "{name}");
                }
                // Commands that take exactly one field.
                let is_one = long == "field" && ["bench", "get", "order"].contains(&&name[..]);
                assert!(is_one || !["field", "overwrite", "out"].contains(&long), "{name}");
                // These are the options of the program blpk.
                let Some(short) = short.filter(|_| !name.starts_with("blpk")) else { continue };
                let known = shorts.entry(short).or_insert_with(|| long.to_owned());
                let outputs = ["output", "outputs", "outdir"];
                assert!(
                    known == long || (outputs.contains(&&**known) && outputs.contains(&long)),
                    "-{short} is --{known}, but --{long} of {name}"
                );
            }
        }
    }

    /// Defaults are worded as clap words them, and an installed command has no folder docs.
    #[test]
    fn help_says_defaults_alike_and_names_no_file_that_is_not_there() {
        let command_line = command_line();
        for (name, command) in all_commands(&command_line) {
            let help = command.clone().render_long_help().to_string();
            for wrong in ["Default: ", "(the default)", "docs/"] {
                assert!(!help.contains(wrong), "{name}: {wrong}: {help}");
            }
        }
    }

    #[test]
    fn global_options_are_in_the_help_of_kiste_alone() {
        let mut command_line = command_line();
        assert!(
            command_line.render_long_help().to_string().contains("\n      --progress <FORM>\n")
        );
        command_line.build();
        for (name, command) in all_commands(&command_line) {
            let help = command.clone().render_long_help().to_string();
            assert!(!help.contains("--progress <FORM>"), "{name}: {help}");
            assert!(
                name.contains("help") || help.contains("Global options (see"),
                "{name}: {help}"
            );
        }
        let complete = command_line_with_globals();
        for command in [vec!["kiste", "cat", "-q", "x"], vec!["kiste", "array", "info", "-q", "x"]]
        {
            for line in [self::command_line(), complete.clone()] {
                let matches = line.try_get_matches_from(&command).unwrap();
                assert!(Args::from_arg_matches(&matches).unwrap().quiet, "{command:?}");
            }
        }
    }

    #[test]
    fn descriptions_wrap_under_each_other() {
        let indent = " ".repeat(COLUMN);
        assert_eq!(described("aa bb cc", 23), "aa bb cc");
        assert_eq!(described("aa bb cc", 22), format!("aa bb\n{indent}cc"));
        assert_eq!(described("aa bb", 0), format!("aa\n{indent}bb"));
    }

    #[test]
    fn every_command_and_option_has_help_and_every_command_examples() {
        let command_line = command_line();
        let array = command_line.find_subcommand("array").unwrap();
        let below = array.get_subcommands().map(|c| (format!("array {}", c.get_name()), c));
        let commands = command_line.get_subcommands().map(|c| (c.get_name().to_owned(), c));
        for (name, command) in commands.chain(below) {
            assert!(command.get_about().is_some(), "{name}");
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(examples.contains(&format!("  kiste {name}")), "{name}");
            for arg in command.get_arguments() {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.is_empty() && !help.ends_with('.'), "{name}: {}", arg.get_id());
            }
        }
    }
}
