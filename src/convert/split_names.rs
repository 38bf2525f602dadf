//! Names of splits: folders, files and arrays that are called `train`, `val`, `test` and the like.

/// The purpose of a split: `val` and `dev` have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Train,
    Validation,
    Test,
}

/// What a word says, if it is the name of a split: also `Train` and `train2017`.
fn purpose(word: &str) -> Option<Purpose> {
    let word = without_number(word).to_ascii_lowercase();
    Some(match &*word {
        "train" | "training" | "trainval" => Purpose::Train,
        "val" | "valid" | "validation" | "dev" => Purpose::Validation,
        "test" | "testing" | "eval" | "evaluation" => Purpose::Test,
        _ => return None,
    })
}

/// `train` of `train2017`.
fn without_number(word: &str) -> &str {
    word.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Whether a folder is named like a split.
pub(super) fn is_split(folder: &str) -> bool {
    purpose(folder).is_some()
}

/// Whether these are splits that divide something: at least two of them have different purposes.
pub(super) fn divide<'a>(names: impl IntoIterator<Item = &'a str>) -> bool {
    let mut purposes = names.into_iter().filter_map(purpose);
    let first = purposes.next();
    purposes.any(|other| Some(other) != first)
}

/// The split of a file, by its path below a folder: the first folder that is called like one, or a word in the name of
/// the file.
pub(super) fn of_path(path: &str) -> Option<&str> {
    let (folders, file) = path.rsplit_once('/').unwrap_or(("", path));
    folders.split('/').find(|folder| is_split(folder)).or_else(|| Some(in_name(file)?.0))
}

/// The split that is a word of a name, such as `train-00000-of-00002.parquet` or `x_train`, and the rest of the name.
/// `None` if there are two.
pub(super) fn in_name(name: &str) -> Option<(&str, String)> {
    let is_between = |c: char| !c.is_alphanumeric();
    let (mut found, mut at) = (None, 0);
    for word in name.split(is_between) {
        if is_split(word) {
            match found {
                None => found = Some(at..at + word.len()),
                Some(_) => return None,
            }
        }
        let rest = &name[at + word.len()..];
        at += word.len() + rest.chars().next().map_or(0, char::len_utf8);
    }
    let word = found?;
    let (before, after) = (&name[..word.start], &name[word.end..]);
    let rest = match before.is_empty() {
        true => after.trim_start_matches(is_between).to_owned(),
        false => format!("{}{after}", before.trim_end_matches(is_between)),
    };
    Some((without_number(&name[word]), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_known_by_their_words() {
        for (name, expected) in [
            ("train-00000-of-00002.parquet", Some(("train", "00000-of-00002.parquet"))),
            ("x_train", Some(("train", "x"))),
            ("train_images", Some(("train", "images"))),
            ("val", Some(("val", ""))),
            ("ag_news_Test.csv", Some(("Test", "ag_news.csv"))),
            ("train0.jsonl", Some(("train", "jsonl"))),
            ("instances_val2017.json", Some(("val", "instances.json"))),
            ("données-dev.csv", Some(("dev", "données.csv"))),
            ("contest.csv", None),
            ("trains.csv", None),
            ("train_test.csv", None),
            ("", None),
        ] {
            let expected = expected.map(|(word, rest)| (word, rest.to_owned()));
            assert_eq!(in_name(name), expected, "{name}");
        }
    }

    #[test]
    fn a_folder_says_it_before_a_file() {
        for (path, expected) in [
            ("train/cat/0.png", Some("train")),
            ("data/Val/test.csv", Some("Val")),
            ("train2017/1.jpg", Some("train2017")),
            ("data/test.csv", Some("test")),
            ("training-runs/a.csv", None),
        ] {
            assert_eq!(of_path(path), expected, "{path}");
        }
    }

    #[test]
    fn two_purposes_divide() {
        assert!(divide(["train", "val"]) && divide(["train", "extra", "Test"]));
        // Vehicles; two names for the same; shards.
        assert!(!divide(["plane", "train"]) && !divide(["val", "dev"]) && !divide(["train"]));
    }
}
