//! The JSON of COCO, without making values of it: objects as names and texts.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

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
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    if members.iter().any(|(known, _)| *known == name) {
                        let message = format!("expected distinct names, found {name:?} twice");
                        return Err(serde::de::Error::custom(message));
                    }
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }

        from.deserialize_map(All)
    }
}

/// The members of the first object in a text, as much as the text shows: their names, and whether they are lists of
/// objects; and what follows the object.
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
                let is_objects = text[at..].trim_ascii_start().starts_with(b"{");
                if let Some((_, known)) = members.last_mut() {
                    *known = is_objects;
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
        assert_eq!(
            of(r#" {"info": {"images": [{}]}, "images": [{"a": "]"}], "n": 1}"#),
            ("images".into(), 0)
        );
        assert_eq!(of(r#"{"images": ["a.jpg"], "annotations" : [ {"#), ("annotations".into(), 0));
        assert_eq!(of("{\"images\": []}\n{\"images\": []}\n").1, 14);
        assert_eq!(
            of(r#"{"a\"images": [{}], "x": "images\\", "y": [{}]"#),
            ("a\\\"images y".into(), 0)
        );
        assert_eq!(of("[{\"images\": [{}]}]").0, "");
        assert_eq!(of("words").1, 5);
        for end in 0..20 {
            of(&r#"{"images": [{"\\": "]"}], "#[..end]);
        }
    }
}
