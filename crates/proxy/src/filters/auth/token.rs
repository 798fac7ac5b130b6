//! Token of a request: lookup and removal.

use evenkeel_config::plan::TokenField;
use evenkeel_tokens::Refused;
use evenkeel_wire::head::{Edits, Request};

/// Finds the token of a request.
///
/// # Errors
/// The token is missing, or there are several: the endpoint may not read the token that this proxy verifies.
pub fn find<'r>(request: &'r Request<'_, '_>, place: &'r TokenField) -> Result<&'r [u8], Refused> {
    match place {
        TokenField::Bearer => bearer(only(values(request, b"authorization"))?).ok_or(Refused::Missing),
        TokenField::Header(name) => only(values(request, name.as_bytes())),
        TokenField::Cookie(name) => {
            only(values(request, b"cookie").flat_map(pairs).filter_map(|pair| value_of(pair, name.as_bytes())))
        }
    }
}

/// Removes the token from the request for the endpoint. Other cookies stay.
pub fn remove(request: &mut Request<'_, '_>, edits: &mut Edits, place: &TokenField) {
    let bytes = request.fields.bytes;
    let rows = request.fields.rows.iter_mut().filter(|row| !row.dropped);
    match place {
        TokenField::Bearer => {
            rows.for_each(|row| row.dropped = row.name(bytes).eq_ignore_ascii_case(b"authorization"));
        }
        TokenField::Header(name) => {
            rows.for_each(|row| row.dropped = row.name(bytes).eq_ignore_ascii_case(name.as_bytes()));
        }
        TokenField::Cookie(name) => {
            for row in rows.filter(|row| row.name(bytes).eq_ignore_ascii_case(b"cookie")) {
                let is_token = |pair: &&[u8]| value_of(pair, name.as_bytes()).is_some();
                if !pairs(row.value(bytes)).any(|pair| is_token(&pair)) {
                    continue;
                }
                row.dropped = true;
                let others: Vec<&[u8]> = pairs(row.value(bytes)).filter(|pair| !is_token(pair)).collect();
                if !others.is_empty() {
                    let lines = edits.lines();
                    [b"Cookie: ", &*others.join(&b"; "[..]), b"\r\n"]
                        .iter()
                        .for_each(|part| lines.extend_from_slice(part));
                }
            }
        }
    }
}

/// Values of a field that the client sent.
fn values<'r>(request: &'r Request<'_, '_>, name: &'r [u8]) -> impl Iterator<Item = &'r [u8]> {
    let named = request.fields.kept().filter(move |(known, _)| known.eq_ignore_ascii_case(name));
    named.map(|(_, value)| value)
}

/// Returns the only value. Several values are an error, and so is none.
fn only<'v>(mut values: impl Iterator<Item = &'v [u8]>) -> Result<&'v [u8], Refused> {
    match (values.next(), values.next()) {
        (None, _) | (Some([]), None) => Err(Refused::Missing),
        (Some(_), Some(_)) => Err(Refused::Several),
        (Some(value), None) => Ok(value),
    }
}

/// Token behind the scheme `Bearer` (RFC 6750 section 2.1); `None` for another scheme.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(6)?;
    let is_apart = token.first() == Some(&b' ');
    Some(token.trim_ascii()).filter(|token| is_apart && !token.is_empty() && scheme.eq_ignore_ascii_case(b"bearer"))
}

/// Pairs of a `Cookie` field, without spaces around them.
fn pairs(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    field.split(|b| *b == b';').map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty())
}

/// Value of the cookie of this name; quotes around it are not part of it (RFC 6265 section 4.1.1).
fn value_of<'b>(pair: &'b [u8], name: &[u8]) -> Option<&'b [u8]> {
    let rest = pair.strip_prefix(name)?.trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    Some(rest.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\"")).unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_wire::head::Table;

    fn found(fields: &[(&str, &str)], place: &TokenField) -> Result<String, Refused> {
        let mut table: Table = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        let request = Request { method: "GET", target: "/", host: b"a", fields: table.fields() };
        find(&request, place).map(|token| String::from_utf8(token.to_vec()).expect("ASCII"))
    }

    #[test]
    fn the_token_is_the_only_one_of_its_place() {
        let cookie = TokenField::Cookie("t".into());
        let header = TokenField::Header("X-Jwt".into());
        for (fields, place, token) in [
            (&[("Authorization", "Bearer x.y.z")][..], &TokenField::Bearer, Ok("x.y.z")),
            (&[("authorization", "bEARER   x")], &TokenField::Bearer, Ok("x")),
            (&[("Authorization", "Bearerx")], &TokenField::Bearer, Err(Refused::Missing)),
            (&[("Authorization", "Bearer ")], &TokenField::Bearer, Err(Refused::Missing)),
            (&[("Authorization", "Basic YTpi")], &TokenField::Bearer, Err(Refused::Missing)),
            (&[("Authorization", "")], &TokenField::Bearer, Err(Refused::Missing)),
            (&[("X-Authorization", "Bearer x")], &TokenField::Bearer, Err(Refused::Missing)),
            (
                &[("Authorization", "Bearer x"), ("authorization", "Bearer x")],
                &TokenField::Bearer,
                Err(Refused::Several),
            ),
            (
                &[("Authorization", "Basic x"), ("authorization", "Bearer x")],
                &TokenField::Bearer,
                Err(Refused::Several),
            ),
            (&[("Cookie", "a=1; t=x; tt=y"), ("Cookie", "b=2")], &cookie, Ok("x")),
            (&[("Cookie", "t=\"x\"")], &cookie, Ok("x")),
            (&[("Cookie", "t=x; t=y")], &cookie, Err(Refused::Several)),
            (&[("Cookie", "t=x"), ("cookie", "t=y")], &cookie, Err(Refused::Several)),
            (&[("Cookie", "T=x; t=")], &cookie, Err(Refused::Missing)),
            (&[("x-jwt", "x")], &header, Ok("x")),
            (&[("x-jwt", "x"), ("X-JWT", "x")], &header, Err(Refused::Several)),
        ] {
            assert_eq!(found(fields, place), token.map(str::to_string), "{fields:?}");
        }
    }

    #[test]
    fn a_token_is_removed_and_other_cookies_stay() {
        let came = [("Cookie", "a=1; t=x;b=2"), ("Authorization", "Bearer x"), ("Cookie", "c=3"), ("Cookie", "t=y")];
        let left = |place: &TokenField| {
            let mut table: Table = came.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
            let mut request = Request { method: "GET", target: "/", host: b"a", fields: table.fields() };
            let mut edits = Edits::default();
            remove(&mut request, &mut edits, place);
            let kept = request.fields.kept().map(|(name, value)| [name, b": ", value].concat());
            let all = kept.chain([edits.lines().clone()]).map(|line| String::from_utf8(line).expect("ASCII"));
            all.collect::<Vec<_>>()
        };
        assert_eq!(left(&TokenField::Bearer), ["Cookie: a=1; t=x;b=2", "Cookie: c=3", "Cookie: t=y", ""]);
        let cookie = TokenField::Cookie("t".into());
        assert_eq!(left(&cookie), ["Authorization: Bearer x", "Cookie: c=3", "Cookie: a=1; b=2\r\n"]);
    }
}
