use crate::exit::{Exit, Failure, Outcome};
use crate::output::Output;

/// Print the manual page, of all or of one command
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The page of this command
    command: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  kiste man > ~/.local/share/man/man1/kiste.1
  kiste man verify | man -l -";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let mut root = super::command_line_with_globals().disable_help_subcommand(true);
        // Gives the commands their full names and the global options.
        root.build();
        let page = match &self.command {
            None => root,
            Some(name) => {
                let known = root.find_subcommand(name).cloned();
                let command = known.ok_or_else(|| {
                    Failure::trouble(format_args!("there is no command {name:?}"))
                        .hint("\"kiste --help\" lists them")
                })?;
                command.version(env!("CARGO_PKG_VERSION")).disable_version_flag(true)
            }
        };
        let mut text = Vec::new();
        clap_mangen::Man::new(page).render(&mut text)?;
        output.bytes(&text)?;
        Ok(Exit::Yes)
    }
}
