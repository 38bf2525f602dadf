//! The names of the numeric labels of a dataset: one a line in the file `.labels`.

use crate::error::{Error, ErrorKind, Result};

/// The content of the file for these names, that of the label 0 first.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) for a name with a line end.
pub(super) fn render<S: AsRef<str>>(names: &[S]) -> Result<String> {
    let mut text = String::new();
    for name in names.iter().map(AsRef::as_ref) {
        if name.contains(['\n', '\r']) {
            let message = format!("expected labels of one line each, found {name:?}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        text.push_str(name);
        text.push('\n');
    }
    Ok(text)
}

/// The names in the content of the file.
///
/// # Errors
///
/// [`Damaged`](ErrorKind::Damaged) if they are not UTF-8.
pub(crate) fn parse(content: Vec<u8>) -> Result<Vec<String>> {
    match String::from_utf8(content) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(_) => {
            let message = "expected one label a line in UTF-8, found other bytes";
            Err(Error::new(ErrorKind::Damaged, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_rendered_is_parsed() {
        let names = ["cat", "", "a dog"];
        assert_eq!(parse(render(&names).unwrap().into_bytes()).unwrap(), names);
        assert_eq!(render(&["a\nb"]).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(parse(vec![0xff]).unwrap_err().kind(), ErrorKind::Damaged);
    }
}
