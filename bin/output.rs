//! What goes where: data to standard output, everything else to standard error.
//!
//! Nothing else in the command prints. Standard output is buffered and its errors are returned,
//! so that a closed pipe ends a command quietly and a full disk does not pass unnoticed; what
//! cannot be written to standard error is ignored.
//!
//! **Text and data.** What `write!` and `writeln!` format is text for a person: control characters
//! in it are escaped, so that no key, field name or file name can move the cursor, change the title
//! of a terminal or pass for another line. The only newline that is one is the last character of
//! the call, and colours come from [`Output::bold`] and its like alone. What `write_all` writes is
//! data, and stays as it is.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::{self, Display};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::printable::{Paint, escaped, is_unprintable, json_escaped, paint, printable};
use crate::{file, units};

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
    colour_out: bool,
    colour_err: bool,
}

/// Standard output behind a large buffer. Errors surface at the latest in [`Write::flush`].
///
/// What is formatted is a line of text, in which control characters are escaped; bytes are data.
pub(crate) struct Stdout {
    out: BufWriter<io::Stdout>,
    colour: bool,
    terminal: bool,
}

/// Long enough that most commands are done before anything flickers.
const PATIENCE: Duration = Duration::from_millis(500);

impl Output {
    pub(crate) fn new(quiet: bool, colour: Colour) -> Output {
        let wanted = |terminal: bool| match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
        };
        let colour_out = wanted(io::stdout().is_terminal());
        let colour_err = wanted(io::stderr().is_terminal());
        Output { quiet, colour_out, colour_err }
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

    /// A file, to standard output.
    pub(crate) fn copy(&self, path: &Path) -> Result<(), Failure> {
        let mut file = file::open_regular(path)?;
        let mut out = self.stdout();
        io::copy(&mut file, &mut out)?;
        Ok(out.flush()?)
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

    /// What to do next.
    pub(crate) fn hint(&self, text: impl Display) {
        self.note(format_args!("{}: {text}", paint(self.colour_err, Paint::Cyan, "hint")));
    }

    /// Tells of a failure and how to exit.
    pub(crate) fn fail(&self, failure: Failure) -> Exit {
        let Failure::Told { exit, message, hint } = failure else { return Exit::Yes };
        self.say(format_args!("{}: {message}", paint(self.colour_err, Paint::Red, "kiste")));
        if let Some(hint) = hint {
            self.say(format_args!("{}: {hint}", paint(self.colour_err, Paint::Cyan, "hint")));
        }
        exit
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

    /// What matters less on standard output.
    pub(crate) fn dim(&self, text: impl Display) -> String {
        paint(self.colour_out, Paint::Dim, text)
    }

    /// A progress bar on standard error: only on a terminal, and only if it takes long.
    /// Without a length it is a sign of life.
    pub(crate) fn progress(&self, doing: impl Into<String>, len: Option<u64>) -> Progress {
        self.bar(doing.into(), len, "{human_pos}/{human_len}", |seen| {
            units::counted(seen, "sample")
        })
    }

    /// The same with rates, by how many samples there will be, or else how many bytes of input.
    /// With `json` lines for programs instead, whether or not there is a terminal.
    pub(crate) fn progress_rates(
        &self,
        doing: impl Into<String>,
        samples: Option<u64>,
        input: Option<u64>,
        json: bool,
    ) -> Progress {
        let len = samples.or(input.filter(|bytes| *bytes > 0));
        let quiet = Output { quiet: self.quiet || json, ..*self };
        let mut progress = quiet.bar(doing.into(), len, "{prefix}", |_| String::new());
        let start = Instant::now();
        progress.rates = Some(Rates {
            by_input: samples.is_none(),
            json,
            start,
            first: Cell::new(None),
            last: Cell::new(Far::default()),
            told: Cell::new(None),
        });
        progress
    }

    /// The same over bytes.
    pub(crate) fn progress_bytes(&self, doing: impl Into<String>, len: Option<u64>) -> Progress {
        self.bar(doing.into(), len, "{decimal_bytes}/{decimal_total_bytes}", units::bytes)
    }

    fn bar(
        &self,
        doing: String,
        len: Option<u64>,
        numbers: &str,
        counted: fn(u64) -> String,
    ) -> Progress {
        let bar = match len {
            Some(len) => ProgressBar::new(len),
            None => ProgressBar::no_length(),
        };
        bar.set_draw_target(ProgressDrawTarget::hidden());
        let template = match len {
            Some(_) => format!("{{msg}} {{wide_bar}} {numbers} ({{eta}} left)"),
            None => "{spinner} {msg} {prefix}{elapsed}".to_owned(),
        };
        // The template is one of the two above, which are well-formed.
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        bar.set_message(escaped(&doing).into_owned());
        let watch = (!self.quiet && io::stderr().is_terminal()).then(|| Watch::start(&bar));
        Progress { bar, counted, watch, rates: None }
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
            Ok(text) if self.terminal => self.out.write_all(json_escaped(text).as_bytes())?,
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

/// What the parser of the command line says of a wrong usage. It quotes arguments as they are.
pub(crate) fn tell_usage(told: &clap::Error) {
    let args = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned());
    let flawed: Vec<String> = args.filter(|arg| arg.contains(is_unprintable)).collect();
    if !told.use_stderr() || flawed.is_empty() {
        // Help and version come this way too, and go to standard output. Whether anybody reads
        // them is not for us to say.
        drop(told.print());
        return;
    }
    // With its colours, as what looks like one in an argument goes with them.
    let mut text = told.render().ansi().to_string();
    for arg in &flawed {
        let value = arg.split_once('=').map_or("", |(_, value)| value);
        for quoted in [&arg[..], value].into_iter().filter(|quoted| quoted.contains(is_unprintable))
        {
            text = text.replace(quoted, &escaped(quoted));
        }
    }
    for code in ["0", "1", "2", "3", "4", "31", "32", "33", "34", "35", "36", "91"] {
        text = text.replace(&format!("\u{1b}[{code}m"), "");
    }
    let lines: Vec<_> = text.trim_end().split('\n').map(escaped).collect();
    say(&lines.join("\n"));
}

fn say(line: &str) {
    // In one piece, so that lines of several processes do not mix.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// A progress bar, gone when it is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// How the position reads where there is no length.
    counted: fn(u64) -> String,
    watch: Option<Watch>,
    rates: Option<Rates>,
}

/// How far a conversion is: samples and bytes that were written, bytes that were read.
#[derive(Debug, Clone, Copy, Default)]
struct Far {
    samples: u64,
    bytes: u64,
    input: u64,
}

/// How fast it is.
struct Rates {
    /// Whether the length is one of input.
    by_input: bool,
    json: bool,
    start: Instant,
    /// What had been done before the start.
    first: Cell<Option<Far>>,
    last: Cell<Far>,
    told: Cell<Option<Instant>>,
}

/// Between two lines for programs.
const TELL: Duration = Duration::from_secs(2);

impl Progress {
    pub(crate) fn set(&self, position: u64) {
        self.bar.set_position(position);
        if self.bar.length().is_none() {
            self.bar.set_prefix(format!("{} ", (self.counted)(position)));
        }
    }

    /// This many samples and bytes have been written, and this many bytes of input read.
    pub(crate) fn far(&self, samples: u64, bytes: u64, input: u64) {
        let Some(rates) = &self.rates else { return };
        let far = Far { samples, bytes, input };
        if rates.first.get().is_none() {
            rates.first.set(Some(far));
            // What an earlier run did takes no time.
            self.bar.reset_eta();
        }
        rates.last.set(far);
        match rates.json {
            true if rates.told.get().is_none_or(|told| told.elapsed() >= TELL) => self.tell(rates),
            true => {}
            false => {
                self.bar.set_position(if rates.by_input { input } else { samples });
                // Without a bar the time follows at once.
                let space = if self.bar.length().is_none() { " " } else { "" };
                self.bar.set_prefix(rates.text() + space);
            }
        }
    }

    /// A line for programs.
    fn tell(&self, rates: &Rates) {
        let (first, far) = (rates.first.get().unwrap_or_default(), rates.last.get());
        let seconds = rates.start.elapsed().as_secs_f64();
        let per_second = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds.max(1e-9);
        let measure = |far: Far| if rates.by_input { far.input } else { far.samples };
        let len = self.bar.length();
        let rate = per_second(measure(far), measure(first));
        let left = len.filter(|_| rate > 0.0);
        rates.told.set(Some(Instant::now()));
        let line = serde_json::json!({
            "samples": far.samples,
            "bytes": far.bytes,
            "seconds": seconds,
            "samples_per_second": per_second(far.samples, first.samples),
            "bytes_per_second": per_second(far.bytes, first.bytes),
            "done": len.map(|len| measure(far) as f64 / len.max(1) as f64),
            "seconds_left": left.map(|len| len.saturating_sub(measure(far)) as f64 / rate),
        });
        say(&line.to_string());
    }

    pub(crate) fn say(&self, doing: impl Into<String>) {
        self.bar.set_message(escaped(&doing.into()).into_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(Watch { done, thread }) = self.watch.take() {
            drop(done);
            let _ = thread.join();
        }
        if let Some(rates) = self.rates.as_ref().filter(|rates| rates.json) {
            self.tell(rates);
        }
        self.bar.finish_and_clear();
    }
}

impl Rates {
    /// `1,000 samples, 1.2 GB, 3.4 k samples/s, 120 MB/s`
    fn text(&self) -> String {
        let (first, far) = (self.first.get().unwrap_or_default(), self.last.get());
        let time = self.start.elapsed();
        format!(
            "{}, {}, {}, {}",
            units::counted(far.samples, "sample"),
            units::bytes(far.bytes),
            units::sample_rate(far.samples.saturating_sub(first.samples), time),
            units::byte_rate(far.bytes.saturating_sub(first.bytes), time),
        )
    }
}

/// Shows the bar when it takes long, from a thread of its own: the command may be busy.
struct Watch {
    done: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watch {
    fn start(bar: &ProgressBar) -> Watch {
        let bar = bar.clone();
        let (done, wait) = channel();
        let thread = std::thread::spawn(move || {
            if wait.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                bar.set_draw_target(ProgressDrawTarget::stderr());
                bar.enable_steady_tick(Duration::from_millis(100));
            }
        });
        Watch { done, thread }
    }
}
