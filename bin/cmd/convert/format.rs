//! The names of formats on the command line.

use clap::builder::TypedValueParser;
use kiste::convert::Format;

use crate::cmd::named;

/// The values of `--from`.
pub(super) fn readable() -> impl TypedValueParser<Value = Format> {
    named(Format::readable().map(Format::name))
}

/// The values of `--to`.
pub(in crate::cmd) fn writable() -> impl TypedValueParser<Value = Format> {
    named(Format::writable().map(Format::name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lists in the help are prose, and so could miss a format.
    #[test]
    fn the_help_names_all_formats() {
        let command = crate::cmd::command_line();
        let convert = command.find_subcommand("convert").unwrap();
        let help = |id: &str| {
            let arg = convert.get_arguments().find(|arg| arg.get_id() == id).unwrap();
            arg.get_help().unwrap().to_string()
        };
        for (help, mut formats) in [
            (help("from"), Format::readable().collect::<Vec<_>>()),
            (help("to"), Format::writable().collect()),
        ] {
            formats.retain(|format| !help.contains(format.name()));
            assert_eq!(formats, [], "{help}");
        }
    }
}
