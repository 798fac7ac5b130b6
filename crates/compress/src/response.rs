//! Decision about a response by its head, and the changes to the fields of a compressed response.

use crate::coding::Coding;
use crate::media::{Types, is_of_events};
use crate::refusal::Refusal;
use crate::{encoder::Room, tags};
use evenkeel_wire::head::Fields;

/// Fields that are wrong once the body is another. All of these count the content coding in, or are of the bytes as
/// sent: `Content-Digest` and `Repr-Digest` (RFC 9530), `Digest` (RFC 3230), `Content-MD5` (RFC 1864). Ranges of a
/// compressed response are not served.
const DROPPED: [&str; 7] =
    ["content-length", "content-md5", "digest", "content-digest", "repr-digest", "accept-ranges", "etag"];

/// Trailer fields that are wrong once the body is another.
pub const DROPPED_TRAILERS: [&str; 4] = ["content-md5", "digest", "content-digest", "repr-digest"];

/// Responses that are compressed.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Media types that are compressed.
    pub types: Types,
    /// Length of the shortest body, in bytes, for those whose length is known.
    pub min_length: u64,
}

/// Facts about a response that are not in its fields.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    /// HTTP status, 100 to 599.
    pub status: u16,
    /// True if no body follows, although the method has it.
    pub is_empty: bool,
    /// Length of the body, if it is known otherwise than by `Content-Length`.
    pub length: Option<u64>,
    /// True if the request asks for a switch of protocols.
    pub switches: bool,
}

impl Rules {
    /// Checks that a response can be compressed, for a client that accepts it. `added`: lines of fields that were added
    /// to those received. Returns the memory for its compressor.
    ///
    /// # Errors
    /// The reason why it is not.
    pub fn check(&self, response: &Response, fields: &Fields<'_, '_>, added: &[u8]) -> Result<Room, Refusal> {
        let status = response.status;
        if status < 200 || matches!(status, 204 | 206 | 304) {
            return Err(Refusal::Status(status));
        }
        if response.switches {
            return Err(Refusal::Switch);
        }
        let has = |name| values(fields, added, name).next().is_some();
        if has("content-range") {
            return Err(Refusal::Status(status));
        }
        if has("content-encoding") {
            return Err(Refusal::Coded);
        }
        if values(fields, added, "cache-control").any(is_no_transform) {
            return Err(Refusal::NoTransform);
        }
        let media_type = values(fields, added, "content-type").last().filter(|value| self.types.has(value));
        let Some(media_type) = media_type else { return Err(Refusal::Type) };
        let stated =
            || std::str::from_utf8(fields.kept().find(|(name, _)| is(name, "content-length"))?.1).ok()?.parse().ok();
        let length: Option<u64> = response.length.or_else(stated);
        if response.is_empty || length.is_some_and(|length| length < self.min_length.max(1)) {
            return Err(Refusal::Short);
        }
        Ok(if is_of_events(media_type) { Room::Small } else { Room::Usual })
    }
}

/// Changes the fields of a response that is compressed.
pub fn code(fields: &mut Fields<'_, '_>, added: &mut Vec<u8>, coding: Coding) {
    // A malformed tag is dropped: two codings must not share it.
    let tag = values(fields, added, "etag").last().and_then(|tag| tags::coded(tag, coding));
    for name in DROPPED {
        leave_out(fields, added, name);
    }
    if let Some(tag) = tag {
        push(added, "ETag", &tag);
    }
    push(added, "Content-Encoding", coding.name().as_bytes());
}

/// Changes the tag of a 304 to the tag of the compressed response, if the client has that.
pub fn retag(fields: &mut Fields<'_, '_>, added: &mut Vec<u8>, coding: Coding, asked: &[u8]) {
    let tag = values(fields, added, "etag").last().and_then(|tag| tags::not_modified(tag, coding, asked));
    if let Some(tag) = tag {
        leave_out(fields, added, "etag");
        push(added, "ETag", &tag);
    }
}

/// States that the response depends on `Accept-Encoding`: in a single field with its other dependencies.
pub fn vary(fields: &mut Fields<'_, '_>, added: &mut Vec<u8>) {
    const NAME: &[u8] = b"accept-encoding";
    let mut all: Vec<u8> = Vec::new();
    for name in values(fields, added, "vary").flat_map(|value| value.split(|byte| *byte == b',')) {
        let name = name.trim_ascii();
        if name == b"*" || name.eq_ignore_ascii_case(NAME) {
            return;
        }
        if !name.is_empty() {
            all.extend_from_slice(name);
            all.extend_from_slice(b", ");
        }
    }
    leave_out(fields, added, "vary");
    all.extend_from_slice(b"Accept-Encoding");
    push(added, "Vary", &all);
}

/// True if a value of `Cache-Control` has the directive `no-transform`.
pub fn is_no_transform(value: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|directive| directive.trim_ascii().eq_ignore_ascii_case(b"no-transform"))
}

/// Values of a field among those that are forwarded and those that were added.
fn values<'f>(fields: &'f Fields<'_, '_>, added: &'f [u8], name: &'static str) -> impl Iterator<Item = &'f [u8]> {
    let kept = fields.kept().filter(move |(field, _)| is(field, name)).map(|(_, value)| value);
    kept.chain(lines(added).filter_map(move |line| value_of(line, name)))
}

fn is(field: &[u8], name: &str) -> bool {
    field.eq_ignore_ascii_case(name.as_bytes())
}

/// Lines of fields, each with its line end.
fn lines(added: &[u8]) -> impl Iterator<Item = &[u8]> {
    added.split_inclusive(|byte| *byte == b'\n')
}

/// Value of a line, if it is of this field.
fn value_of<'l>(line: &'l [u8], name: &str) -> Option<&'l [u8]> {
    let value = line.get(..name.len()).filter(|field| is(field, name)).and(line.get(name.len()..))?;
    Some(value.strip_prefix(b":")?.trim_ascii())
}

/// Drops a field, also from the lines that were added.
fn leave_out(fields: &mut Fields<'_, '_>, added: &mut Vec<u8>, name: &str) {
    fields.leave_out(name);
    if lines(added).any(|line| value_of(line, name).is_some()) {
        let kept: Vec<u8> = lines(added).filter(|line| value_of(line, name).is_none()).flatten().copied().collect();
        *added = kept;
    }
}

fn push(added: &mut Vec<u8>, name: &str, value: &[u8]) {
    [name.as_bytes(), b": ", value, b"\r\n"].into_iter().for_each(|part| added.extend_from_slice(part));
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_wire::head::Table;

    const OK: Response = Response { status: 200, is_empty: false, length: None, switches: false };

    fn table(lines: &str) -> Table {
        let mut table = Table::default();
        table.push_lines(lines.as_bytes());
        table
    }

    fn rules() -> Rules {
        Rules { types: Types::new(["text/*"].into_iter()), min_length: 100 }
    }

    fn checked(response: Response, lines: &str, added: &str) -> Result<Room, Refusal> {
        rules().check(&response, &table(lines).fields(), added.as_bytes())
    }

    #[test]
    fn a_response_is_compressed_unless_something_speaks_against_it() {
        let html = "content-type: text/html\r\n";
        assert_eq!(checked(OK, html, ""), Ok(Room::Usual));
        assert_eq!(checked(OK, "", html), Ok(Room::Usual), "a type that was added");
        assert_eq!(checked(OK, "content-type: text/event-stream\r\n", ""), Ok(Room::Small));
        for (lines, refusal) in [
            ("content-type: image/png\r\n", Refusal::Type),
            ("", Refusal::Type),
            ("content-type: text/a\r\ncontent-encoding: br\r\n", Refusal::Coded),
            ("content-type: text/a\r\ncontent-range: bytes 0-1/2\r\n", Refusal::Status(200)),
            ("content-type: text/a\r\ncache-control: public, No-Transform\r\n", Refusal::NoTransform),
            ("content-type: text/a\r\ncontent-length: 99\r\n", Refusal::Short),
        ] {
            assert_eq!(checked(OK, lines, ""), Err(refusal), "{lines}");
        }
        assert_eq!(checked(OK, html, "Cache-Control: no-transform\r\n"), Err(Refusal::NoTransform));
        assert_eq!(checked(OK, &format!("{html}content-length: 100\r\n"), ""), Ok(Room::Usual));
        for status in [101, 204, 206, 304] {
            assert_eq!(checked(Response { status, ..OK }, html, ""), Err(Refusal::Status(status)));
        }
        assert_eq!(checked(Response { switches: true, ..OK }, html, ""), Err(Refusal::Switch));
        assert_eq!(checked(Response { is_empty: true, ..OK }, html, ""), Err(Refusal::Short));
        assert_eq!(checked(Response { length: Some(99), ..OK }, html, ""), Err(Refusal::Short));
        assert_eq!(checked(Response { status: 404, ..OK }, html, ""), Ok(Room::Usual));
    }

    fn changed(lines: &str, added: &str, change: impl Fn(&mut Fields<'_, '_>, &mut Vec<u8>)) -> String {
        let (mut table, mut added) = (table(lines), added.as_bytes().to_vec());
        change(&mut table.fields(), &mut added);
        let kept = table.iter().map(|(name, value)| [name, b": ", value, b"\r\n"].concat());
        let bytes: Vec<u8> = kept.flatten().chain(added.iter().copied()).collect();
        String::from_utf8(bytes).expect("text").replace("\r\n", "|")
    }

    #[test]
    fn a_compressed_response_loses_what_no_longer_holds() {
        let lines =
            "content-length: 9\r\naccept-ranges: bytes\r\netag: \"a\"\r\nx: 1\r\ndigest: a\r\nrepr-digest: b\r\n";
        let code = |fields: &mut Fields<'_, '_>, added: &mut Vec<u8>| code(fields, added, Coding::Gzip);
        assert_eq!(
            changed(lines, "Content-MD5: c\r\nB: 2\r\n", code),
            "x: 1|B: 2|ETag: \"a-gzip\"|Content-Encoding: gzip|"
        );
        assert_eq!(changed("etag: a\r\n", "", code), "Content-Encoding: gzip|");
        assert_eq!(
            changed("etag: \"old\"\r\n", "ETag: \"new\"\r\n", code),
            "ETag: \"new-gzip\"|Content-Encoding: gzip|"
        );
    }

    #[test]
    fn one_vary_has_all_names_and_a_star_stays() {
        for (lines, added, want) in [
            ("", "", "Vary: Accept-Encoding|"),
            ("vary: Origin\r\n", "A: 1\r\n", "A: 1|Vary: Origin, Accept-Encoding|"),
            ("vary: a, b\r\n", "Vary: Origin\r\n", "Vary: a, b, Origin, Accept-Encoding|"),
            ("vary: x, ACCEPT-encoding\r\n", "", "vary: x, ACCEPT-encoding|"),
            ("vary: *\r\n", "", "vary: *|"),
        ] {
            assert_eq!(changed(lines, added, vary), want);
        }
    }

    #[test]
    fn a_304_gets_the_tag_of_the_response_that_the_client_has() {
        let of = |asked: &'static str| {
            changed("etag: \"a\"\r\n", "", move |fields, added| retag(fields, added, Coding::Brotli, asked.as_bytes()))
        };
        assert_eq!(of("\"a-br\""), "ETag: \"a-br\"|");
        assert_eq!(of("\"a\""), "etag: \"a\"|");
    }
}
