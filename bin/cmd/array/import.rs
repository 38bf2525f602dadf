use kiste::storage::Shown;
use std::io::Read;
use std::path::{Path, PathBuf};

use kiste::ErrorKind;
use kiste::array::{ArrayFormat, ArrayImport, Imported};

use super::create::Layout;
use super::export::formats;
use super::target::{committed, explain};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Output;
use crate::{file, interrupt};

/// Make an array from a .npy, .npz or .blp file, or from a bcolz directory
///
/// Elements are read and written piece by piece, so they may be larger than memory; only members of
/// .npz files in Fortran order are read as a whole. NAME appears once everything is written, with
/// one version. If an .npz file has several arrays, each becomes NAME/MEMBER; if the directory NAME
/// exists, they are added one by one. Attributes of bcolz are kept.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// File or directory to read
    src: PathBuf,
    /// Directory of the new array
    name: PathBuf,
    /// Format, if the name of SRC does not tell
    #[arg(long, value_name = "FORMAT", value_parser = formats(), hide_possible_values = true)]
    #[arg(help = "Format: npy, npz, blp or bcolz [default: from the name of SRC]")]
    from: Option<ArrayFormat>,
    /// Only this array of an .npz file
    #[arg(long, value_name = "NAME")]
    member: Option<String>,
    #[command(flatten)]
    layout: Layout,
}

const EXAMPLES: &str = "\
Examples:
  kiste array import x.npy x
  kiste array import all.npz arrays/
  kiste array import all.npz x --member x --codec zstd --level 9
  kiste array import old.bcolz x --chunks 1000";

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        file::check_is_name(&self.name)?;
        let src = &self.src;
        let Some(format) = self.from.or_else(|| ArrayFormat::of_input(src)) else {
            let message = format!(
                "{}: expected a .npy, .npz or .blp file, or a bcolz directory",
                Shown::of(&src)
            );
            return Err(Failure::trouble(message).hint("give the format with --from"));
        };
        let mut import = ArrayImport::new(self.layout.options()).format(format);
        if let Some(member) = &self.member {
            if format != ArrayFormat::Npz {
                return Err(Failure::trouble("--member is for .npz files"));
            }
            import = import.member(member);
        }
        interrupt::writing(&self.name);
        let progress = output.progress_rows(format!("importing {}", Shown::of(&src)), None);
        let made = import.run(src, &self.name, |row, of| progress.reaches_of(row, of));
        drop(progress);
        let made = made.map_err(|error| match format {
            ArrayFormat::Blp if error.kind() == ErrorKind::Damaged && !is_container(src) => {
                let failure = Failure::from(error).without_hint();
                failure.hint("if it is of another format, --from names that")
            }
            ArrayFormat::Blp | ArrayFormat::Bcolz if error.path() == Some(src) => {
                explain(src, error)
            }
            ArrayFormat::Npz if error.kind() == ErrorKind::Invalid && error.path() == Some(src) => {
                Failure::from(error).hint("import it separately, with --member")
            }
            _ if error.kind() == ErrorKind::AlreadyExists => Failure::from(error).without_hint(),
            _ => error.into(),
        })?;
        for Imported { path, version, .. } in &made {
            committed(output, path, version);
        }
        Ok(Exit::Yes)
    }
}

/// Whether a file begins as a container of bloscpack.
fn is_container(path: &Path) -> bool {
    let mut start = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"blpk"
}
