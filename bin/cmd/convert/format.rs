//! The names of formats on the command line.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use kiste::convert::Format;

/// The values of `--from`.
pub(in crate::cmd) fn readable() -> impl TypedValueParser<Value = Format> {
    known(Format::readable())
}

/// The values of `--to`.
pub(in crate::cmd) fn writable() -> impl TypedValueParser<Value = Format> {
    known(Format::writable())
}

/// Their names, which completions list, and others that people type.
fn known(formats: impl Iterator<Item = Format>) -> impl TypedValueParser<Value = Format> {
    let value = |format: Format| PossibleValue::new(format.name()).aliases(format.aliases());
    PossibleValuesParser::new(formats.map(value)).try_map(|name| name.parse::<Format>())
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
