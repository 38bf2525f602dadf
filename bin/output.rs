//! Where output goes: data to standard output, everything else to standard error.
//!
//! Nothing else in the command prints. Standard output is buffered and its errors are returned,
//! so that a closed pipe ends a command quietly and a full disk does not pass unnoticed; what
//! cannot be written to standard error is ignored.
//!
//! **Text and data.** What `write!` and `writeln!` format is text for a person: control characters
//! in it are escaped, so that no key, field name or file name can move the cursor, change the title
//! of a terminal or pass for another line. The only newline that is one is the last character of
//! the call, and colours come from [`Output::bold`] and its like alone. Output of `write_all` is
//! data, and stays as it is.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::io::{self, BufWriter, IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;

use crate::exit::{Exit, Failure, Outcome};
use kiste::text::escaped_json;

use crate::printable::{Paint, paint, printable};
use crate::progress::{Progress, Show, Showing, Unit};
use crate::say::say;

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless the environment has NO_COLOR
    Auto,
    Always,
    Never,
}

/// Where output goes, and how it looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    quiet: bool,
    showing: Showing,
    colour_out: bool,
    colour_err: bool,
}

/// Columns of the terminal, if there is one.
pub(crate) fn terminal_columns() -> Option<usize> {
    terminal_size::terminal_size().map(|(width, _)| width.0.into())
}

/// Columns that the environment says.
pub(crate) fn given_columns() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok()
}

/// Standard output behind a large buffer. Errors surface at the latest in [`Write::flush`].
///
/// Formatted output is a line of text, in which control characters are escaped; bytes are data.
pub(crate) struct Stdout {
    out: BufWriter<io::Stdout>,
    colour: bool,
    terminal: bool,
}

impl Output {
    pub(crate) fn new(quiet: bool, colour: Colour, showing: Showing) -> Output {
        let wanted = |terminal: bool| match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
        };
        let colour_out = wanted(io::stdout().is_terminal());
        let colour_err = wanted(io::stderr().is_terminal());
        Output { quiet, showing, colour_out, colour_err }
    }

    /// Standard output, for data.
    pub(crate) fn stdout(&self) -> Stdout {
        Stdout {
            out: BufWriter::with_capacity(256 << 10, io::stdout()),
            colour: self.colour_out,
            terminal: self.is_terminal(),
        }
    }

    /// Whether standard output is a terminal, where binary data would be garbage.
    pub(crate) fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Columns of the terminal; 100 without one.
    pub(crate) fn width(&self) -> usize {
        let terminal = || terminal_columns().filter(|_| self.is_terminal());
        given_columns().or_else(terminal).unwrap_or(100)
    }

    /// One JSON document to standard output, indented for a person.
    pub(crate) fn json(&self, document: &impl Serialize) -> Result<(), Failure> {
        let mut out = self.stdout();
        match self.is_terminal() {
            true => out.json_line(&serde_json::to_vec_pretty(document)?)?,
            false => out.json_line(&serde_json::to_vec(document)?)?,
        }
        Ok(out.flush()?)
    }

    /// Data that is complete, to standard output.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = self.stdout();
        out.write_all(bytes)?;
        Ok(out.flush()?)
    }

    /// A remark to standard error, unless `--quiet`.
    pub(crate) fn note(&self, text: impl Display) {
        if !self.quiet {
            self.say(text);
        }
    }

    /// A warning.
    pub(crate) fn warn(&self, text: impl Display) {
        self.note(format_args!("{}: {text}", paint(self.colour_err, Paint::Yellow, "warning")));
    }

    /// Prints the next step.
    pub(crate) fn hint(&self, text: impl Display) {
        self.note(format_args!("{}: {text}", paint(self.colour_err, Paint::Cyan, "hint")));
    }

    /// Tells of a failure and how to exit.
    pub(crate) fn fail(&self, failure: Failure) -> Exit {
        let Failure::Told { exit, message, hint, commands } = failure else { return Exit::Yes };
        self.say(format_args!("{}: {message}", paint(self.colour_err, Paint::Red, "kiste")));
        if let Some(hint) = hint {
            self.say(format_args!("{}: {hint}", paint(self.colour_err, Paint::Cyan, "hint")));
        }
        commands.iter().for_each(|command| self.say(format_args!("  {command}")));
        exit
    }

    /// Does something for each of several things. A failure is reported, and the others follow: the exit
    /// code is the worst.
    pub(crate) fn for_each<T>(
        &self,
        things: &[T],
        mut work: impl FnMut(&T) -> Outcome<Exit>,
    ) -> Outcome<Exit> {
        let mut exit = Exit::Yes;
        for thing in things {
            exit = exit.max(match work(thing) {
                Err(failure @ Failure::ClosedPipe) => return Err(failure),
                Err(failure) => self.fail(failure),
                Ok(exit) => exit,
            });
        }
        Ok(exit)
    }

    fn say(&self, text: impl Display) {
        say(&printable(&text.to_string(), self.colour_err));
    }

    /// A heading on standard output.
    pub(crate) fn bold(&self, text: impl Display) -> String {
        paint(self.colour_out, Paint::Bold, text)
    }

    /// Good news on standard output.
    pub(crate) fn green(&self, text: impl Display) -> String {
        paint(self.colour_out, Paint::Green, text)
    }

    /// Bad news on standard output.
    pub(crate) fn red(&self, text: impl Display) -> String {
        paint(self.colour_out, Paint::Red, text)
    }

    /// Less important text on standard output.
    pub(crate) fn dim(&self, text: impl Display) -> String {
        paint(self.colour_out, Paint::Dim, text)
    }

    /// A progress bar on standard error: only on a terminal, and only if it takes long. Without a
    /// length it is a sign of life. With `--progress json` lines for programs, in any case.
    pub(crate) fn progress(&self, doing: impl AsRef<str>, len: Option<u64>) -> Progress {
        Progress::new(doing.as_ref(), Unit::Samples, len, self.shows())
    }

    /// The same by how many samples there will be, or else how many bytes of input.
    pub(crate) fn progress_rates(
        &self,
        doing: impl AsRef<str>,
        samples: Option<u64>,
        input: Option<u64>,
    ) -> Progress {
        let unit = if samples.is_some() { Unit::Samples } else { Unit::Bytes };
        Progress::new(doing.as_ref(), unit, samples.or(input), self.shows())
    }

    /// The same over bytes.
    pub(crate) fn progress_bytes(&self, doing: impl AsRef<str>, len: Option<u64>) -> Progress {
        Progress::new(doing.as_ref(), Unit::Bytes, len, self.shows())
    }

    /// The same over rows of an array.
    pub(crate) fn progress_rows(&self, doing: impl AsRef<str>, len: Option<u64>) -> Progress {
        Progress::new(doing.as_ref(), Unit::Rows, len, self.shows())
    }

    fn shows(&self) -> Show {
        match self.showing {
            Showing::Json => Show::Json,
            Showing::Bar if !self.quiet && io::stderr().is_terminal() => Show::Bar,
            Showing::Bar => Show::Nothing,
        }
    }
}

impl Stdout {
    /// Columns with tabs between them.
    pub(crate) fn row(&mut self, cells: &[impl AsRef<str>]) -> io::Result<()> {
        let cells: Vec<_> = cells.iter().map(|cell| self.printable(cell.as_ref())).collect();
        self.out.write_all(cells.join("\t").as_bytes())?;
        self.out.write_all(b"\n")
    }

    /// A key and the end of its line. As file names in `ls`, keys are escaped on a terminal, and
    /// exact for the program at the other end of a pipe.
    pub(crate) fn key(&mut self, key: &str) -> io::Result<()> {
        match self.terminal {
            true => writeln!(self, "{key}"),
            false => self.out.write_all(key.as_bytes()).and_then(|()| self.out.write_all(b"\n")),
        }
    }

    /// A line of JSON. On a terminal it has none of the control characters that JSON allows.
    pub(crate) fn json_line(&mut self, json: &[u8]) -> io::Result<()> {
        match std::str::from_utf8(json) {
            Ok(text) if self.terminal => self.out.write_all(escaped_json(text).as_bytes())?,
            _ => self.out.write_all(json)?,
        }
        self.out.write_all(b"\n")
    }

    fn printable<'a>(&self, text: &'a str) -> Cow<'a, str> {
        printable(text, self.colour)
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        let text = text.to_string();
        match text.strip_suffix('\n') {
            Some(line) => {
                self.out.write_all(self.printable(line).as_bytes())?;
                self.out.write_all(b"\n")
            }
            None => self.out.write_all(self.printable(&text).as_bytes()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
