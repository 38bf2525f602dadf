use clap_complete::Shell;

use crate::exit::{Exit, Outcome};
use crate::output::Output;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// For which shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  kiste completions bash > ~/.local/share/bash-completion/completions/kiste
  kiste completions zsh > ~/.zfunc/_kiste
  kiste completions fish > ~/.config/fish/completions/kiste.fish";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(
            self.shell,
            &mut super::command_line_with_globals(),
            "kiste",
            &mut script,
        );
        output.bytes(&script)?;
        Ok(Exit::Yes)
    }
}
