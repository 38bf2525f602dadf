//! Regular files, and nothing else that has a name.
//!
//! Opening a FIFO waits for a program at its other end, perhaps for ever, and what is read of it is
//! gone: its size is 0, and it cannot be read twice. Devices and sockets are no better. So what
//! reads files by their names opens them here.

use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::path::Path;

/// Opens a file for reading, if it is a regular one or a link to one.
///
/// # Errors
///
/// The error of the operating system, or `expected a regular file, found a FIFO`.
pub fn open_regular(path: impl AsRef<Path>) -> io::Result<File> {
    let path = path.as_ref();
    // Before it is opened, as that may already wait.
    check(fs::metadata(path)?.file_type())?;
    let file = File::open(path)?;
    // And again, as another file may have got the name.
    check(file.metadata()?.file_type())?;
    Ok(file)
}

/// The same, and how large the file is, for files in great number: with fewer system calls, as
/// [`open_regular`] looks before it opens. Another kind of file is opened for a moment, without
/// waiting.
#[cfg(feature = "convert")]
pub(crate) fn open_sized(path: &Path) -> io::Result<(File, u64)> {
    #[cfg(unix)]
    if let Some(found) = open_at_once(path) {
        let metadata = found.metadata()?;
        check(metadata.file_type())?;
        // Reads do wait: some file systems would rather fail.
        rustix::fs::fcntl_setfl(&found, rustix::fs::OFlags::empty())?;
        return Ok((found, metadata.len()));
    }
    let file = open_regular(path)?;
    let len = file.metadata()?.len();
    Ok((file, len))
}

/// Opens what does not have to be waited for. Reads of it do not wait either.
#[cfg(all(unix, feature = "convert"))]
fn open_at_once(path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;

    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()
}

/// The content of a regular file.
pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut file = open_regular(path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text in a regular file, without the byte-order mark that programs on Windows put before it.
pub(crate) fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = io::read_to_string(open_regular(path)?)?;
    if text.starts_with('\u{feff}') {
        text.replace_range(..'\u{feff}'.len_utf8(), "");
    }
    Ok(text)
}

fn check(found: FileType) -> io::Result<()> {
    match found.is_file() {
        true => Ok(()),
        false => {
            let found = name_of(found);
            Err(io::Error::other(format!("expected a regular file, found {found}")))
        }
    }
}

/// Names the kind of something that is not a regular file.
pub(crate) fn name_of(found: FileType) -> &'static str {
    if found.is_symlink() {
        return "a symbolic link";
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;

        match () {
            () if found.is_fifo() => return "a FIFO",
            () if found.is_socket() => return "a socket",
            () if found.is_char_device() => return "a character device",
            () if found.is_block_device() => return "a block device",
            () => {}
        }
    }
    if found.is_dir() { "a directory" } else { "something else" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "text").unwrap();
        assert_eq!(read(&file).unwrap(), b"text");
        assert_eq!(read_to_string(&file).unwrap(), "text");
        fs::write(&file, "\u{feff}text").unwrap();
        assert_eq!(read_to_string(&file).unwrap(), "text");
        fs::write(&file, "text").unwrap();
        #[cfg(feature = "convert")]
        {
            let (file, len) = open_sized(&file).unwrap();
            assert_eq!(len, 4);
            #[cfg(unix)]
            {
                let flags = rustix::fs::fcntl_getfl(&file).unwrap();
                assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
            }
            drop(file);
        }
        let says = |path: &Path| {
            let error = open_regular(path).unwrap_err().to_string();
            #[cfg(feature = "convert")]
            assert_eq!(open_sized(path).unwrap_err().to_string(), error);
            error
        };
        assert_eq!(says(dir.path()), "expected a regular file, found a directory");
        #[cfg(unix)]
        {
            let found = "expected a regular file, found";
            assert_eq!(says(Path::new("/dev/null")), format!("{found} a character device"));
            let fifo = dir.path().join("fifo");
            let made = std::process::Command::new("mkfifo").arg(&fifo).status();
            if made.is_ok_and(|status| status.success()) {
                assert_eq!(says(&fifo), format!("{found} a FIFO"));
            }
            let socket = dir.path().join("socket");
            let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
            assert_eq!(says(&socket), format!("{found} a socket"));
            let link = dir.path().join("link");
            std::os::unix::fs::symlink(&file, &link).unwrap();
            assert_eq!(read(&link).unwrap(), b"text");
        }
        assert_eq!(
            open_regular(dir.path().join("no")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
