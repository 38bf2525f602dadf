use std::fs::File;
use std::io::BufReader;
use std::path::{Component, Path, PathBuf};

use kiste::array::bcolz::Bcolz;
use kiste::array::{PackedArray, Rows, VersionInfo};
use serde_json::{Map, Value};
use zip::ZipArchive;

use super::create::Layout;
use super::export::Format;
use super::new_array::NewArray;
use super::npy::{stream, with_npy};
use super::target::{Explained, committed};
use super::watched::Watched;
use crate::exit::{Exit, Failure, Outcome};
use crate::interrupt;
use crate::output::Output;

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
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    #[arg(help = "Format: npy, npz, blp or bcolz [default: from the name of SRC]")]
    from: Option<Format>,
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
        let Some(format) = self.from.or_else(|| self.guess()) else {
            let message = format!(
                "{}: expected a .npy, .npz or .blp file, or a bcolz directory",
                self.src.display()
            );
            return Err(Failure::trouble(message).hint("give the format with --from"));
        };
        if self.member.is_some() && format != Format::Npz {
            return Err(Failure::trouble("--member is for .npz files"));
        }
        interrupt::writing(&self.name);
        match format {
            Format::Npy => {
                with_npy(&self.src, |rows| self.rows(&self.name, rows, Given::default(), output))?;
            }
            Format::Blp => {
                let packed = PackedArray::open(&self.src).explained(&self.src)?;
                self.rows(&self.name, &packed, Given::default(), output)?;
            }
            Format::Bcolz => {
                let bcolz = Bcolz::open(&self.src).explained(&self.src)?;
                self.rows(&self.name, &bcolz, Given::by(&bcolz), output)?;
            }
            Format::Npz => self.npz(output)?,
        }
        Ok(Exit::Yes)
    }

    fn guess(&self) -> Option<Format> {
        let bcolz = ["__rootdirs__", "meta/storage"];
        let bcolz = bcolz.iter().any(|name| self.src.join(name).exists());
        Format::of(&self.src).or(bcolz.then_some(Format::Bcolz))
    }

    /// Makes an array of these rows, under a temporary name until it is complete.
    fn rows(&self, to: &Path, rows: &dyn Rows, with: Given, output: &Output) -> Outcome<()> {
        let made_at = NewArray::create(to)?;
        let made = self.make(made_at.path(), rows, with, output);
        let version = made.map_err(|error| made_at.explain(error))?;
        made_at.publish()?;
        committed(output, to, &version);
        Ok(())
    }

    /// Makes an array in this directory.
    fn make(
        &self,
        at: &Path,
        rows: &dyn Rows,
        with: Given,
        output: &Output,
    ) -> kiste::Result<VersionInfo> {
        let doing = format!("importing {}", self.src.display());
        let rows = &Watched::new(rows, &doing, output);
        let message = format!("import of {}", self.src.display());
        let mut options = self.layout.options();
        if let Some(fill) = with.fill {
            options = options.fill_bytes(fill);
        }
        let store = options.create_from(at, rows, with.attributes, &message)?;
        Ok(store.array().version_info())
    }

    fn npz(&self, output: &Output) -> Outcome<()> {
        let wrong =
            |e: zip::result::ZipError| Failure::no(format_args!("{}: {e}", self.src.display()));
        let file = File::open(&self.src).map_err(|error| Failure::io(&self.src, error))?;
        let mut archive = ZipArchive::new(BufReader::new(file)).map_err(wrong)?;
        let names: Vec<String> = archive.file_names().map(str::to_owned).collect();
        let short = |name: &str| name.strip_suffix(".npy").unwrap_or(name).to_owned();
        let wanted = |name: &&String| self.member.as_ref().is_none_or(|m| *m == short(name));
        let chosen: Vec<&String> = names.iter().filter(wanted).collect();
        if chosen.is_empty() {
            let message = match &self.member {
                Some(member) => format!("there is no array {member:?}"),
                None => "there are no arrays".to_owned(),
            };
            let names: Vec<String> = names.iter().map(|name| short(name)).collect();
            let failure = Failure::no(format_args!("{}: {message}", self.src.display()));
            return Err(failure.hint(format!("its arrays: {}", names.join(", "))));
        }
        let several = self.member.is_none() && chosen.len() > 1;
        let is_new = self.name.symlink_metadata().is_err();
        let together = (several && is_new).then(|| NewArray::create(&self.name)).transpose()?;
        let mut made = Vec::new();
        for name in chosen {
            let member = short(name);
            let to = match several {
                true => self.name.join(member_path(&self.src, &member)?),
                false => self.name.clone(),
            };
            let file = archive.by_name(name).map_err(wrong)?;
            let rows = stream(&self.src.join(name), file)?;
            match &together {
                None => self.rows(&to, &*rows, Given::default(), output)?,
                Some(dir) => {
                    let at = dir.path().join(member);
                    let version = self.make(&at, &*rows, Given::default(), output);
                    made.push((to, version.map_err(|error| dir.explain(error))?));
                }
            }
        }
        together.map_or(Ok(()), NewArray::publish)?;
        made.iter().for_each(|(to, version)| committed(output, to, version));
        Ok(())
    }
}

/// What an array has besides its elements.
#[derive(Default)]
struct Given {
    attributes: Map<String, Value>,
    fill: Option<Vec<u8>>,
}

impl Given {
    /// What a bcolz directory has of it. The columns of a table have a fill value each, and
    /// attributes of their own, which have no counterpart here.
    fn by(bcolz: &Bcolz) -> Given {
        let attributes = bcolz.attrs().clone();
        let fill = match bcolz {
            Bcolz::Array(array) => array.fill(),
            Bcolz::Table(_) => None,
        };
        let fill = fill.filter(|fill| fill.len() == bcolz.dtype().item_size());
        Given { attributes, fill }
    }
}

/// Where an array of an archive goes: never outside of the given directory.
fn member_path<'a>(src: &Path, name: &'a str) -> Outcome<&'a Path> {
    let path = Path::new(name);
    let mut parts = path.components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => Ok(path),
        _ => {
            let message = format!("{}: {name:?} is not a directory name", src.display());
            Err(Failure::trouble(message).hint("import it separately, with --member"))
        }
    }
}
