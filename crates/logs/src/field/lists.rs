//! Values of several tries: lists of NGINX, and the tries of evenkeel's templates.

use super::{Field, count, duration, status, text};
use crate::fault::Fault;
use crate::number::span;
use crate::request::Request;
use crate::time::MILLISECOND_NS;

impl Field {
    /// Sets values that NGINX separates by `, ` for tries, and by ` : ` for internal redirects.
    pub(super) fn set_list<'a>(self, text: &'a [u8], at: usize, request: &mut Request<'a>) -> Result<(), Fault> {
        let malformed = Fault::Malformed(self.name());
        let (mut rest, mut at, mut redirect) = (text, at, 0_u8);
        loop {
            let (value, behind, is_redirect) = first(rest);
            let is_missing = matches!(value, b"" | b"-");
            if let Some(one) = request.tries.at(at) {
                one.redirect = redirect;
                match self {
                    _ if is_missing => {}
                    Field::Endpoints => one.endpoint = Some(value),
                    Field::Starts(unit) => one.began = duration(value, unit, malformed)?,
                    Field::Connects(unit) => one.connect = duration(value, unit, malformed)?,
                    Field::Ttfbs(unit) => one.ttfb = duration(value, unit, malformed)?,
                    Field::Spans(unit) => one.took = duration(value, unit, malformed)?,
                    Field::Statuses => one.status = Some(status(value).ok_or(malformed)?),
                    _ => {}
                }
            }
            let Some(behind) = behind else { return Ok(()) };
            (rest, at, redirect) = (behind, at + 1, redirect.saturating_add(u8::from(is_redirect)));
        }
    }
}

/// First value of a list, the text behind its separator, and true if that is an internal redirect.
fn first(text: &[u8]) -> (&[u8], Option<&[u8]>, bool) {
    for at in memchr::memchr2_iter(b',', b':', text) {
        if text[at] == b',' {
            return (&text[..at], Some(text[at + 1..].trim_ascii_start()), false);
        }
        if at > 0 && text[at - 1] == b' ' && text.get(at + 1) == Some(&b' ') {
            return (&text[..at - 1], Some(&text[at + 2..]), true);
        }
    }
    (text, None, false)
}

/// Sets tries such as `10.0.0.1:80=connect@1.234,10.0.0.2:80=answered@20.000`.
pub(super) fn attempts<'a>(text: &'a [u8], request: &mut Request<'a>) -> Result<(), Fault> {
    let malformed = Fault::Malformed(Field::Attempts.name());
    request.tries.clear();
    for (at, one) in text.split(|b| *b == b',').enumerate() {
        let equals = one.iter().rposition(|b| *b == b'=').ok_or(malformed)?;
        let sign = one.iter().rposition(|b| *b == b'@').filter(|sign| *sign > equals).ok_or(malformed)?;
        let took = span(&one[sign + 1..], MILLISECOND_NS).ok_or(malformed)?;
        if let Some(try_) = request.tries.at(at) {
            try_.endpoint = Some(&one[..equals]);
            try_.outcome = text::outcome(&one[equals + 1..sign]);
            try_.took = Some(took);
        }
    }
    Ok(())
}

/// Number of tries after the first that HAProxy logs; a `+` before it marks a try at another endpoint.
pub fn retries(text: &[u8], malformed: Fault) -> Result<u32, Fault> {
    count(text.strip_prefix(b"+").unwrap_or(text), malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tries::Outcome;

    #[test]
    fn lists_of_nginx_belong_to_tries() {
        let mut request = Request::default();
        Field::Endpoints.set(b"10.0.0.1:80, unix:/run/a.sock : [::1]:8080", 0, &mut request).unwrap();
        Field::Spans(1).set(b"-, 2 : 3", 0, &mut request).unwrap();
        Field::Statuses.set(b"502, 504 : 200", 0, &mut request).unwrap();
        let endpoints: Vec<_> = request.tries.kept().iter().map(|one| one.endpoint.unwrap()).collect();
        assert_eq!(endpoints, [&b"10.0.0.1:80"[..], b"unix:/run/a.sock", b"[::1]:8080"]);
        let rest: Vec<_> =
            request.tries.kept().iter().map(|one| (one.took.map(|s| s.ns), one.status, one.redirect)).collect();
        assert_eq!(rest, [(None, Some(502), 0), (Some(2), Some(504), 0), (Some(3), Some(200), 1)]);
        assert!(Field::Spans(1).set(b"1, x", 0, &mut request).is_err());
    }

    #[test]
    fn tries_of_a_template_have_causes() {
        let mut request = Request::default();
        let text = b"10.0.0.1:80=connect_timeout@1.234,a=b@c=status_503@2.000,x=answered@20.000";
        Field::Attempts.set(text, 0, &mut request).unwrap();
        let tries: Vec<_> = request.tries.kept().iter().map(|one| (one.endpoint.unwrap(), one.outcome)).collect();
        let expected =
            [(&b"10.0.0.1:80"[..], Outcome::TimedOut), (b"a=b@c", Outcome::Retried), (b"x", Outcome::Answered)];
        assert_eq!(tries, expected);
        for text in ["a", "a=b", "a=b@", "a@1=b", "a=b@1,"] {
            assert!(Field::Attempts.set(text.as_bytes(), 0, &mut request).is_err(), "{text}");
        }
    }
}
