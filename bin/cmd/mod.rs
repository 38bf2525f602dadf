//! The commands, and the help that lists them.

use clap::builder::styling::{AnsiColor, Style, Styles};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::exit::{Exit, Outcome};
use crate::output::{Colour, Output};

mod array;
mod bench;
mod blpk;
mod cat;
#[cfg(feature = "datasets")]
mod classes;
mod commit;
mod completions;
mod convert;
#[cfg(feature = "datasets")]
mod datasets;
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
mod repair;
mod sample;
mod select;
mod shuffle;
mod sort;
mod split;
mod stat;
mod tail;
mod verify;
#[cfg(feature = "datasets")]
mod write;

/// Keyed ML sample datasets: make, inspect, rearrange, convert and check them
#[derive(Debug, Parser)]
#[command(name = "kiste", version, max_term_width = 100, styles = STYLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print only errors on standard error: no remarks, warnings or progress
    #[arg(long, short, global = true, display_order = 100)]
    pub(crate) quiet: bool,
    /// When to use colour
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        hide_default_value = true,
        help = "When to use colour: auto (the default), always or never",
        display_order = 101
    )]
    pub(crate) color: Colour,
    /// Read datasets with system calls, not through a memory map: slower, but a file that another
    /// program truncates meanwhile is an error and does not kill kiste
    #[arg(long, global = true, display_order = 102)]
    pub(crate) untrusted: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(demo::Args),
    Convert(Box<convert::Args>),
    #[cfg(feature = "datasets")]
    Write(Box<write::Args>),
    #[cfg(feature = "datasets")]
    Datasets(datasets::Args),
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
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        match self {
            Command::Demo(args) => args.run(output),
            Command::Convert(args) => args.run(output),
            #[cfg(feature = "datasets")]
            Command::Write(args) => args.run(output),
            #[cfg(feature = "datasets")]
            Command::Datasets(args) => args.run(output),
            Command::Commit(args) => args.run(output),
            Command::Index(args) => args.run(output),
            Command::Cat(args) => args.run(output),
            Command::Head(args) => args.run(output),
            Command::Tail(args) => args.run(output),
            Command::Ls(args) => args.run(output),
            Command::Get(args) => args.run(output),
            Command::Info(args) => args.run(output),
            Command::Stat(args) => args.run(output),
            Command::Order(args) => args.run(output),
            Command::Shuffle(args) => args.run(output),
            Command::Split(args) => args.run(output),
            Command::Merge(args) => args.run(output),
            Command::Sample(args) => args.run(output),
            Command::Select(args) => args.run(output),
            Command::Filter(args) => args.run(output),
            Command::Sort(args) => args.run(output),
            Command::Diff(args) => args.run(output),
            Command::Bench(args) => args.run(output),
            Command::Array(args) => args.run(output),
            Command::Blpk(args) => args.run(output),
            Command::Verify(args) => args.run(output),
            Command::Repair(args) => args.run(output),
            Command::Completions(args) => args.run(output),
            Command::Man(args) => args.run(output),
        }
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
            "demo",
            "convert",
            "commit",
            #[cfg(feature = "datasets")]
            "write",
            #[cfg(feature = "datasets")]
            "datasets",
            "index",
        ],
    ),
    ("Look", &["cat", "head", "tail", "ls", "get", "info", "stat"]),
    (
        "Rearrange",
        &[
            "order", "shuffle", "split", "merge", "sample", "select", "filter", "sort", "diff",
            "bench",
        ],
    ),
    ("Arrays", &["array", "blpk"]),
    ("Check", &["verify", "repair"]),
    ("Shell", &["completions", "man"]),
];

/// The command line as clap knows it, with commands grouped in the help.
pub(crate) fn command_line() -> clap::Command {
    let array = |command: clap::Command| {
        let template = grouped(&command, array::GROUPS);
        command.help_template(template).subcommand_required(true)
    };
    let command = Args::command().mut_subcommand("array", array);
    let template = grouped(&command, GROUPS);
    let after = format!(
        "FILE is always the data file of a dataset; its side files are found by its name. All of them \
         are the files of Python datadings, byte for byte.\n\
         \"{LITERAL}kiste COMMAND --help{LITERAL:#}\" has details and examples.\n\
         Exit codes: 0 yes or done, 1 the answer is no (damage found, key missing), 2 wrong usage \
         or I/O error."
    );
    command.help_template(template).after_help(after).subcommand_required(true)
}

/// What the help of a command is made of that has commands itself.
fn grouped(command: &clap::Command, groups: &[(&str, &[&str])]) -> String {
    let mut template = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (group, names) in groups {
        template += &format!("\n{HEADING}{group}:{HEADING:#}\n");
        for name in *names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            template += &format!("  {LITERAL}{name:<12}{LITERAL:#} {about}\n");
        }
    }
    template + &format!("\n{HEADING}Options:{HEADING:#}\n{{options}}{{after-help}}")
}

/// Reads the command line. Errors are clap's, as are help and version.
pub(crate) fn parse() -> Result<Args, clap::Error> {
    Args::from_arg_matches(&command_line().try_get_matches()?)
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
            let mut names: Vec<&str> = names.collect();
            let mut grouped: Vec<&str> = groups.iter().flat_map(|g| g.1).copied().collect();
            names.sort_unstable();
            grouped.sort_unstable();
            assert_eq!(names, grouped);
        }
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
