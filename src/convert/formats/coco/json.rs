//! The JSON of COCO, without making values of it: objects as names and texts.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Members that an object has at most: each may be a field.
pub(super) const MOST: usize = 1000;

/// The members of an object, in order.
pub(super) struct Members<'a>(pub(super) Vec<(String, &'a RawValue)>);

impl<'a> Members<'a> {
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Members<'de>, D::Error> {
        struct All;

        impl<'de> Visitor<'de> for All {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members<'de>, M::Error> {
                let mut members: Vec<(String, &RawValue)> = Vec::new();
                while let Some(member) = map.next_entry()? {
                    if members.len() == MOST {
                        let message = format!("expected at most {MOST} members, found more");
                        return Err(serde::de::Error::custom(message));
                    }
                    members.push(member);
                }
                let mut names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
                names.sort_unstable();
                match names.windows(2).find(|pair| pair[0] == pair[1]) {
                    Some(pair) => {
                        let message = format!("expected distinct names, found {:?} twice", pair[0]);
                        Err(serde::de::Error::custom(message))
                    }
                    None => Ok(Members(members)),
                }
            }
        }

        from.deserialize_map(All)
    }
}

/// Members that show what the objects in a list are, and where in the list they are looked for.
const SHOWN_BY: [(&str, &[u8]); 2] =
    [("images", b"\"file_name\""), ("annotations", b"\"image_id\"")];
const SHOWN_IN: usize = 64 << 10;

/// Whether a list of this name has objects of COCO in it, by how it begins.
fn is_list_of(name: &str, list: &[u8]) -> bool {
    let list = list.trim_ascii_start();
    let list = &list[..list.len().min(SHOWN_IN)];
    let shown_by = SHOWN_BY.iter().find(|(known, _)| *known == name);
    shown_by.is_some_and(|(_, member)| {
        list.starts_with(b"{") && list.windows(member.len()).any(|part| part == *member)
    })
}

/// The members of the first object in a text, as much as the text shows: their names, and whether they are lists of
/// COCO; and what follows the object.
pub(super) fn first_members(text: &[u8]) -> (Vec<(String, bool)>, &[u8]) {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start();
    let (mut members, mut depth, mut at) = (Vec::<(String, bool)>::new(), 0u32, 0);
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let start = at;
                while text.get(at).is_some_and(|byte| *byte != b'"') {
                    at += 1 + usize::from(text[at] == b'\\');
                }
                let end = at.min(text.len());
                if depth == 1
                    && text.get(at + 1..).unwrap_or_default().trim_ascii_start().starts_with(b":")
                {
                    members.push((String::from_utf8_lossy(&text[start..end]).into_owned(), false));
                }
                at += 1;
            }
            b'[' if depth == 1 => {
                depth += 1;
                if let Some((name, known)) = members.last_mut() {
                    *known = is_list_of(name, &text[at..]);
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return (members, text[at..].trim_ascii());
                }
            }
            // Something else than an object.
            _ if depth == 0 => return (members, &text[at - 1..]),
            _ => {}
        }
    }
    (members, b"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_objects_are_found() {
        let of = |text: &str| {
            let (members, rest) = first_members(text.as_bytes());
            let lists = members.into_iter().filter(|(_, is_list)| *is_list).map(|(name, _)| name);
            (lists.collect::<Vec<_>>().join(" "), rest.len())
        };
        let images = r#""images": [{"file_name": "]"}]"#;
        assert_eq!(
            of(&format!(r#" {{"info": {{{images}}}, {images}, "n": 1}}"#)),
            ("images".into(), 0)
        );
        assert_eq!(of(r#"{"annotations" : [ {"image_id": 1"#), ("annotations".into(), 0));
        assert_eq!(of(&format!("{{{images}}}\n{{}}\n")).1, 2);
        for other in [
            r#"{"images": ["file_name"]}"#,
            r#"{"images": [{"url": "x"}]}"#,
            r#"{"a\"images": [{"file_name": 1}]}"#,
            r#"[{"images": [{"file_name": 1}]}]"#,
            r#"{"images": []}"#,
        ] {
            assert_eq!(of(other).0, "", "{other}");
        }
        assert_eq!(of("words").1, 5);
        for end in 0..20 {
            of(&r#"{"images": [{"\\": "]"}], "#[..end]);
        }
    }
}
