//! A conversion in parts, with progress: what `kiste convert --part` and `kiste commit` do.
//!
//! ```sh
//! cargo run --example convert words.jsonl words.msgpack
//! ```

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;

use kiste::convert::{BadInput, Conversion, Part, Progress, Silent, commit};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [source, output] = &args[..] else {
        return Err("expected a source and a dataset to write".into());
    };
    run(source, output)
}

/// Converts a source to a dataset.
pub(crate) fn run(source: &str, output: &str) -> Result<(), Box<dyn Error>> {
    let conversion =
        Conversion::new([source], output).on_bad_input(BadInput::Quarantine).overwrite(true);

    // Each part could run on a machine of its own; one that is killed resumes when it runs again.
    for part in Part::all(4) {
        let mut progress = |now: Progress| eprint!("\rpart {part}: {} samples", now.samples);
        conversion.run_part(part, &mut progress)?;
        eprintln!();
    }
    let report = commit(output, &mut Silent)?;
    for written in &report.outputs {
        println!("{}: {} samples", written.path.display(), written.samples);
    }
    println!("{} bad samples were left out", report.bad.count);
    Ok(())
}
