//! [`shard`]: a line of an index as it is written, read without a parser of JSON, which takes most of the time of opening an
//! index of very many shards.

use super::Shard;

/// The shard of a line with the members that most shards have. `None` if it is written in any other way, or may be wrong.
pub(super) fn shard(line: &[u8]) -> Option<Shard> {
    let mut rest = Rest(line);
    let mut shard = Shard { name: rest.text(b"{\"name\":\"")??, ..Shard::default() };
    shard.bytes = rest.number(b",\"bytes\":")??;
    shard.samples = rest.number(b",\"samples\":")??;
    if let Some(from) = rest.number(b",\"from\":") {
        shard.from = from?;
    }
    if let Some(id) = rest.text(b",\"id\":\"") {
        shard.id = Some(id?);
    }
    if let Some(called) = rest.text(b",\"called\":\"") {
        shard.called = Some(called?);
    }
    if let Some(frame) = rest.number(b",\"frame\":") {
        shard.frame = Some(u32::try_from(frame?).ok()?);
    }
    (rest.0 == b"}").then_some(shard)
}

/// What was not read yet. A member that is not there is `None`, one that is written in another way `Some(None)`.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn text(&mut self, member: &[u8]) -> Option<Option<String>> {
        let value = self.0.strip_prefix(member)?;
        let mut read = || {
            let (text, rest) = value.split_at(memchr::memchr(b'"', value)?);
            if text.iter().any(|&byte| byte == b'\\' || byte < b' ') {
                return None;
            }
            self.0 = &rest[1..];
            std::str::from_utf8(text).ok().map(str::to_owned)
        };
        Some(read())
    }

    fn number(&mut self, member: &[u8]) -> Option<Option<u64>> {
        let value = self.0.strip_prefix(member)?;
        let len = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = value.split_at(len);
        // Of more digits not all fit, and none begin with 0 but that alone.
        if !(1..=19).contains(&len) || (len > 1 && digits[0] == b'0') {
            return Some(None);
        }
        self.0 = rest;
        Some(Some(digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_json_is() {
        let read = [
            r#"{"name":"a.tar","bytes":1024,"samples":2}"#,
            r#"{"name":"é/ü.tar","bytes":9999999999999999999,"samples":0,"from":512}"#,
            r#"{"name":"a","bytes":1,"samples":1,"id":"xxh3:0","called":"a","frame":4294967295}"#,
            r#"{"name":"a","bytes":1,"samples":1,"id":"etag:abc-12"}"#,
            r#"{"name":"","bytes":1,"samples":1,"called":""}"#,
        ];
        for line in read {
            assert_eq!(shard(line.as_bytes()), serde_json::from_str(line).ok(), "{line}");
            assert!(shard(line.as_bytes()).is_some(), "{line}");
            for end in 0..line.len() {
                assert_eq!(shard(&line.as_bytes()[..end]), None, "{line}, {end}");
            }
        }
        // The parser of JSON decides about these.
        for line in [
            r#"{"name":"a\"b","bytes":1,"samples":1}"#,
            r#"{"name":"a	b","bytes":1,"samples":1}"#,
            r#"{"name":"a","bytes":01,"samples":1}"#,
            r#"{"name":"a","bytes":18446744073709551615,"samples":1}"#,
            r#"{"name":"a","bytes":-1,"samples":1}"#,
            r#"{"name":"a","bytes":1.5,"samples":1}"#,
            r#"{"name":"a","bytes":1,"samples":1,"frame":4294967296}"#,
            r#"{"name":"a","bytes":1,"samples":1,"id":null}"#,
            r#"{"name":"a","bytes":1,"samples":1,"more":1}"#,
            r#"{"name":"a","bytes":1,"samples":1,"samples":1}"#,
            r#"{"name":"a","bytes":1,"samples":1,"gaps":[[0,1]]}"#,
            r#"{"bytes":1,"name":"a","samples":1}"#,
            r#"{"name": "a","bytes":1,"samples":1}"#,
            r#"{"name":"a","bytes":1,"samples":1} "#,
        ] {
            assert_eq!(shard(line.as_bytes()), None, "{line}");
        }
        assert_eq!(shard(b"{\"name\":\"\xff\",\"bytes\":1,\"samples\":1}"), None);
    }
}
