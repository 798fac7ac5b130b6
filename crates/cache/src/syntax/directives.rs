//! Cache directives (RFC 9111 section 5.2, RFC 5861, RFC 8246): of `Cache-Control`, read leniently, and of a targeted
//! field (RFC 9213), read as a structured dictionary.

use super::structured::{Value, dictionary};
use super::{list, structured};
use crate::moment::{SECONDS_MAX, delta_seconds};
use evenkeel_wire::endpoint_head::is_token;

/// Directives of a message. Unknown directives are ignored.
///
/// Seconds are 0 to [`SECONDS_MAX`]. If a number occurs twice, the first counts. A number that cannot be read is 0, so
/// that the response is stale (RFC 9111 section 4.2.1). In requests 0 might ask for more than the client meant, so
/// [`Directives::of_request`] ignores such a number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    pub max_age: Option<u32>,
    pub s_maxage: Option<u32>,
    /// Seconds after the end of freshness (RFC 5861 section 3).
    pub stale_while_revalidate: Option<u32>,
    /// Seconds after the end of freshness (RFC 5861 section 4).
    pub stale_if_error: Option<u32>,
    /// Seconds of freshness that a request wants to be left.
    pub min_fresh: Option<u32>,
    /// Seconds after the end of freshness that a request accepts; [`SECONDS_MAX`] if it states no limit.
    pub max_stale: Option<u32>,
    /// True without a list of fields: the response is validated before each use.
    pub no_cache: bool,
    pub no_store: bool,
    /// True without a list of fields: the response is for a single user.
    pub private: bool,
    pub public: bool,
    pub must_revalidate: bool,
    pub proxy_revalidate: bool,
    pub must_understand: bool,
    pub immutable: bool,
    pub only_if_cached: bool,
    /// Names of fields that `no-cache="..."` and `private="..."` list: they are not stored.
    pub unstored: Vec<Box<[u8]>>,
}

/// Most fields that the directives of a response may list. A directive that lists more is for the whole response.
const LISTED_MAX: usize = 32;

impl Directives {
    /// Reads the lines of `Cache-Control` in a response.
    pub fn of_response<'b>(lines: impl Iterator<Item = &'b [u8]>) -> Directives {
        let mut read = Directives::default();
        for member in lines.flat_map(list::members) {
            read.lenient(member, Some(0));
            if !is_well_formed(member) {
                read.restrict(member);
            }
        }
        read
    }

    /// Reads the lines of `Cache-Control` in a request.
    pub fn of_request<'b>(lines: impl Iterator<Item = &'b [u8]>) -> Directives {
        let mut read = Directives::default();
        lines.for_each(|line| list::members(line).for_each(|member| read.lenient(member, None)));
        read
    }

    /// Reads the lines of a targeted field. `None` if the field is empty or malformed, or if a number is not an
    /// integer: then it is ignored as a whole (RFC 9213 section 2.1).
    pub fn of_targeted<'b>(lines: impl Iterator<Item = &'b [u8]>) -> Option<Directives> {
        let members = dictionary(lines)?;
        if members.is_empty() {
            return None;
        }
        let mut read = Directives::default();
        members.into_iter().try_for_each(|(key, value)| read.strict(&key, &value))?;
        Some(read)
    }

    /// Reads a directive with an optional argument, quoted or not. `wrong`: replaces an unreadable number.
    fn lenient(&mut self, member: &[u8], wrong: Option<u32>) {
        let (name, argument) = match memchr::memchr(b'=', member) {
            Some(at) => (&member[..at], Some(&member[at + 1..])),
            None => (member, None),
        };
        // No white space may surround the sign. With it the directive counts, and its number is wrong.
        let (name, argument) = match argument {
            Some(argument) if name.ends_with(b" ") || argument.starts_with(b" ") => (name.trim_ascii(), Some(&b""[..])),
            _ => (name, argument),
        };
        let mut lower = [0; 32];
        let Some(lower) = lower.get_mut(..name.len()) else { return };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        if let Some(slot) = self.number(lower) {
            let stated = argument.and_then(|argument| delta_seconds(unquoted(argument)));
            let stated = match (&*lower, argument) {
                (b"max-stale", None) => Some(SECONDS_MAX),
                _ => stated.or(wrong),
            };
            *slot = slot.or(stated);
        } else {
            self.flag(lower, argument.map(unquoted));
        }
    }

    /// Reads the words of a malformed directive, as `private; max-age=0` or `no-store no-cache`. Those that forbid storing
    /// count, whatever is around them: its sender meant to forbid something.
    fn restrict(&mut self, member: &[u8]) {
        for word in member.split(|b| !is_token(&[*b])) {
            let is = |known: &str| word.eq_ignore_ascii_case(known.as_bytes());
            self.no_store |= is("no-store");
            self.private |= is("private");
            self.no_cache |= is("no-cache");
        }
    }

    fn strict(&mut self, key: &str, value: &structured::Value) -> Option<()> {
        if let Some(slot) = self.number(key.as_bytes()) {
            let Value::Integer(seconds) = value else { return None };
            *slot = Some((*seconds).clamp(0, i64::from(SECONDS_MAX)) as u32);
            return Some(());
        }
        match value {
            Value::Boolean(false) => {}
            Value::Text(names) => self.flag(key.as_bytes(), Some(names.as_bytes())),
            Value::Token(name) => self.flag(key.as_bytes(), Some(name.as_bytes())),
            Value::Boolean(true) | Value::Integer(_) | Value::Other => self.flag(key.as_bytes(), None),
        }
        Some(())
    }

    fn number(&mut self, name: &[u8]) -> Option<&mut Option<u32>> {
        Some(match name {
            b"max-age" => &mut self.max_age,
            b"s-maxage" => &mut self.s_maxage,
            b"stale-while-revalidate" => &mut self.stale_while_revalidate,
            b"stale-if-error" => &mut self.stale_if_error,
            b"min-fresh" => &mut self.min_fresh,
            b"max-stale" => &mut self.max_stale,
            _ => return None,
        })
    }

    fn flag(&mut self, name: &[u8], argument: Option<&[u8]>) {
        match name {
            b"no-cache" => self.no_cache |= !self.lists(argument),
            b"private" => self.private |= !self.lists(argument),
            b"no-store" => self.no_store = true,
            b"public" => self.public = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"must-understand" => self.must_understand = true,
            b"immutable" => self.immutable = true,
            b"only-if-cached" => self.only_if_cached = true,
            _ => {}
        }
    }

    /// Notes the fields that an argument names. False if it does not name fields.
    fn lists(&mut self, argument: Option<&[u8]>) -> bool {
        let names = || list::tokens(argument.unwrap_or_default());
        let room = LISTED_MAX - self.unstored.len();
        let is_list = (1..=room).contains(&names().count()) && names().all(is_token);
        if is_list {
            self.unstored.extend(names().map(Box::from));
        }
        is_list
    }
}

/// True for a name, with or without an argument that is a token or a whole quoted string (RFC 9111 section 5.2).
fn is_well_formed(member: &[u8]) -> bool {
    let Some(at) = memchr::memchr(b'=', member) else { return is_token(member) };
    let argument = &member[at + 1..];
    let quoted = argument.strip_prefix(b"\"");
    is_token(&member[..at]) && quoted.map_or(is_token(argument), is_end_of_quoted)
}

/// True if these bytes end a quoted string, and nothing follows.
fn is_end_of_quoted(rest: &[u8]) -> bool {
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            b'"' => return at + 1 == rest.len(),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    false
}

/// Argument without its quotes. Escapes stay: neither numbers nor names of fields have any.
fn unquoted(argument: &[u8]) -> &[u8] {
    argument.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(argument)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> Directives {
        Directives::of_response(lines.iter().map(|line| line.as_bytes()))
    }

    fn targeted(line: &str) -> Option<Directives> {
        Directives::of_targeted([line.as_bytes()].into_iter())
    }

    #[test]
    fn numbers_are_read_in_every_spelling_that_is_one() {
        for (text, seconds) in [
            ("max-age=60", Some(60)),
            ("foo, MaX-aGe=60, bar=\"x, max-age=1\"", Some(60)),
            ("max-age=\"60\"", Some(60)),
            ("max-age=0060", Some(60)),
            ("max-age=99999999999", Some(SECONDS_MAX)),
            ("max-age=60, max-age=1", Some(60)),
            ("x=\"max-age=60\"", None),
            ("x-max-age=60", None),
            ("", None),
        ] {
            assert_eq!(of(&[text]).max_age, seconds, "{text}");
        }
    }

    #[test]
    fn a_number_that_cannot_be_read_is_stale_in_a_response_and_nothing_in_a_request() {
        for text in [
            "max-age",
            "max-age=",
            "max-age=-1",
            "max-age=1.5",
            "max-age='1'",
            "max-age=1a",
            "max-age =1",
            "max-age= 1",
        ] {
            assert_eq!(of(&[text]).max_age, Some(0), "{text}");
            assert_eq!(Directives::of_request([text.as_bytes()].into_iter()).max_age, None, "{text}");
        }
        assert_eq!(Directives::of_request([&b"max-stale"[..]].into_iter()).max_stale, Some(SECONDS_MAX));
        assert_eq!(Directives::of_request([&b"max-stale=5"[..]].into_iter()).max_stale, Some(5));
    }

    #[test]
    fn a_malformed_directive_forbids_what_its_words_forbid() {
        for text in [
            "private; max-age=60",
            "max-age=60 private",
            "max-age=60; private",
            "max-age=60, \u{a0}private",
            "max-age=60, PRIVATE \u{a0}",
            "max-age=60, foo=\"bar, private",
            "max-age=60, foo=\"bar\"private",
            "max-age=60, private=\"a\" b",
            "private=, max-age=60",
            "private:, max-age=60",
            "=private, max-age=60",
        ] {
            assert!(of(&[text]).private, "{text}");
        }
        assert!(of(&["no-store no-cache max-age=60"]).no_store);
        assert!(of(&["max-age=60 no-cache"]).no_cache);
        for text in ["foo=private", "foo=\"private\"", "foo=\"a\\\" private\"", "x-private", "no-store-ever"] {
            let read = of(&[text]);
            assert!(!read.private && !read.no_store, "{text}");
        }
    }

    #[test]
    fn several_lines_are_one_list() {
        let read = of(&["No-StOrE", "s-maxage=5, private", "must-revalidate=1"]);
        assert!(read.no_store && read.private && read.must_revalidate && !read.no_cache);
        assert_eq!(read.s_maxage, Some(5));
    }

    #[test]
    fn a_list_of_fields_is_for_these_fields_and_anything_else_for_the_response() {
        let read = of(&["no-cache=\"A, set-cookie\", private=b"]);
        assert!(!read.no_cache && !read.private);
        assert_eq!(read.unstored, [Box::from(&b"A"[..]), Box::from(&b"set-cookie"[..]), Box::from(&b"b"[..])]);
        for text in
            ["no-cache", "no-cache=", "no-cache=\"\"", "no-cache=\"a b\"", "no-cache=\"a", "no-cache=\"a\", no-cache"]
        {
            assert!(of(&[text]).no_cache, "{text}");
        }
        let many = vec!["a"; LISTED_MAX + 1].join(",");
        assert!(of(&[&format!("no-cache=\"{many}\"")]).no_cache);
        let read = of(&["no-cache=a"; LISTED_MAX + 1]);
        assert!(read.no_cache && read.unstored.len() == LISTED_MAX);
    }

    #[test]
    fn a_targeted_field_is_strict() {
        assert_eq!(targeted("max-age=60;x=1, foo").unwrap().max_age, Some(60));
        assert_eq!(targeted("max-age=-60").unwrap().max_age, Some(0));
        assert_eq!(targeted("max-age=99999999999").unwrap().max_age, Some(SECONDS_MAX));
        let read = targeted("no-store, private=?0, no-cache=\"a\"").unwrap();
        assert!(read.no_store && !read.private && !read.no_cache && read.unstored.len() == 1);
        for text in ["", "max-age=\"60\"", "max-age=1.5", "max-age", "max-age=60, &", "Max-Age=60", "max-age =60"] {
            assert_eq!(targeted(text), None, "{text}");
        }
    }
}
