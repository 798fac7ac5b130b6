//! The formats `common` and `combined`, with the values that NGINX users usually add behind them: `rt=0.012 uct="0.001"
//! uht="0.011" urt="0.012" ua="10.0.0.1:80"`.

use super::nginx;
use super::row::{Program, Reader, Row};
use crate::fault::Fault;
use crate::field::{Clock, Field};
use crate::request::{Demand, End, Request};
use crate::template::Template;
use crate::time::SECOND_NS;

pub(super) const NGINX: Row = Row {
    name: "combined",
    program: Program::Nginx,
    summary: "NGINX with combined, and rt= uct= uht= urt= ua= behind it if there are any",
    make: || Box::new(Combined::new(Field::Ended(Clock::Apache))),
    settle: nginx::settle,
};

pub(super) const EVENKEEL: Row = Row {
    name: "evenkeel-combined",
    program: Program::Evenkeel,
    summary: "evenkeel or Apache with common or combined, whose time is that of the arrival",
    make: || Box::new(Combined::new(Field::Arrived(Clock::Apache))),
    settle: |request| {
        request.end = End::of_status(request.status);
        request.settle();
        Ok(())
    },
};

/// Usual keys of added values.
const KEYS: &[(&str, Field)] = &[
    ("rt", Field::Total(SECOND_NS)),
    ("uct", Field::Connects(SECOND_NS)),
    ("uht", Field::Ttfbs(SECOND_NS)),
    ("urt", Field::Spans(SECOND_NS)),
    ("ua", Field::Endpoints),
    ("us", Field::Statuses),
    ("ust", Field::Statuses),
    ("upstream", Field::Endpoints),
    ("ms", Field::Ended(Clock::Unix(SECOND_NS))),
    ("rl", Field::BytesIn),
    ("ul", Field::Skip),
    ("cs", Field::Skip),
];

/// Reader of `common` and `combined`.
#[derive(Debug)]
pub(crate) struct Combined {
    front: Template,
    demand: Option<String>,
}

impl Combined {
    fn new(time: Field) -> Combined {
        let mut front = Template::default();
        let parts = [
            (Field::Client, "remote_addr", " "),
            (Field::Skip, "ident", " "),
            (Field::Skip, "remote_user", " ["),
            (time, "time_local", "] \""),
            (Field::RequestLine, "request", "\" "),
            (Field::Status, "status", " "),
            (Field::BytesOut, "body_bytes_sent", " "),
        ];
        for (field, name, then) in parts {
            // Text separates all values.
            let _ = front.value(field, name);
            front.text(then);
        }
        Combined { front, demand: None }
    }
}

impl Reader for Combined {
    fn demand(&mut self, name: &str) -> bool {
        self.demand = Some(name.to_string());
        true
    }

    fn read<'a>(&self, line: &'a [u8], request: &mut Request<'a>) -> Result<(), Fault> {
        let mut rest = self.front.read_start(line, request)?;
        // Referer and user agent.
        while let Some(text) = rest.strip_prefix(b"\"") {
            let end = memchr::memchr(b'"', text).ok_or(Fault::Lacks("end of a quoted text"))?;
            rest = text[end + 1..].trim_ascii_start();
        }
        while !rest.is_empty() {
            rest = self.added(rest, request)?;
        }
        Ok(())
    }
}

impl Combined {
    /// Reads an added value at the start of the text, and returns the text behind it. Values without a key have an
    /// unknown meaning.
    fn added<'a>(&self, text: &'a [u8], request: &mut Request<'a>) -> Result<&'a [u8], Fault> {
        let is_key = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        let length = text.iter().position(|b| !is_key(b)).unwrap_or(text.len());
        let (name, rest) = match text.get(length) {
            Some(b'=') if length > 0 => (&text[..length], &text[length + 1..]),
            _ => (&b""[..], text),
        };
        let (value, behind) = match rest.strip_prefix(b"\"") {
            Some(quoted) => {
                let end = memchr::memchr(b'"', quoted).ok_or(Fault::Lacks("end of a quoted text"))?;
                (&quoted[..end], &quoted[end + 1..])
            }
            None => rest.split_at(end_of_list(rest)),
        };
        if self.demand.as_deref().is_some_and(|demand| demand.as_bytes() == name) {
            request.demand = Demand::read(value);
        }
        if let Some(field) = field(name) {
            // `ua=` is also a user agent, and `upstream=` a name.
            let is_address = value.contains(&b':') && !value.contains(&b'/') || value.starts_with(b"unix:");
            if field != Field::Endpoints || is_address {
                field.set(value, 0, request)?;
            }
        }
        Ok(behind.trim_ascii_start())
    }
}

/// Meaning of a key: usual abbreviation, or name of a variable.
fn field(name: &[u8]) -> Option<Field> {
    let find = |keys: &[(&str, Field)]| keys.iter().find(|(key, _)| key.as_bytes() == name).map(|(_, field)| *field);
    find(KEYS).or_else(|| find(nginx::VARIABLES))
}

/// Length of a value without quotes, which ends at a space that belongs to no list.
fn end_of_list(text: &[u8]) -> usize {
    let is_end = |at: &usize| {
        let (before, behind) = (&text[..*at], &text[*at..]);
        !(before.ends_with(b",") || before.ends_with(b" :") || behind.starts_with(b" : "))
    };
    memchr::memchr_iter(b' ', text).find(is_end).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Format;

    const FRONT: &str = r#"10.0.0.9 - joe [20/Nov/2026:10:00:00 +0000] "GET /a?b HTTP/1.1" 200 612"#;

    fn read(format: &str, line: &str, check: impl Fn(&Request<'_>)) {
        let mut request = Request::default();
        let read = Format::named(format).unwrap().read(line.as_bytes(), &mut request);
        assert_eq!(read, Ok(()), "{line}");
        check(&request);
    }

    #[test]
    fn common_and_combined_are_read() {
        for line in [
            FRONT.to_string(),
            format!("{FRONT} \"-\" \"Mozilla/5.0 (X11)\""),
            format!("{FRONT} \"-\" \"a\" \"10.0.0.8\""),
        ] {
            read("combined", &line, |request| {
                assert_eq!(
                    (request.status, request.bytes_out, request.path),
                    (Some(200), Some(612), Some(&b"/a?b"[..]))
                );
                assert!(request.arrived.is_none() && request.ended.is_some());
            });
            read("evenkeel-combined", &line, |request| assert!(request.arrived.is_some() && request.ended.is_none()));
        }
    }

    #[test]
    fn added_values_are_read_with_quotes_and_without() {
        for added in [
            r#"rt=1.012 uct="0.001, 0.002" uht="-, 0.011" urt="1.000, 0.012" ua="10.0.0.1:80, 10.0.0.2:80" us="504, 200" x="y z" 7"#,
            "rt=1.012 uct=0.001, 0.002 uht=-, 0.011 urt=1.000, 0.012 ua=10.0.0.1:80, 10.0.0.2:80 us=504, 200",
            "request_time=1.012 upstream_addr=10.0.0.1:80, 10.0.0.2:80 upstream_response_time=1.000, 0.012 upstream_status=504, 200",
        ] {
            read("combined", &format!("{FRONT} \"-\" \"curl/8\" {added}"), |request| {
                let tries: Vec<_> = request
                    .tries
                    .kept()
                    .iter()
                    .map(|one| (one.endpoint.unwrap(), one.took.unwrap().ns / 1_000_000))
                    .collect();
                assert_eq!(tries, [(&b"10.0.0.1:80"[..], 1000), (b"10.0.0.2:80", 12)]);
                assert_eq!(request.arrived.map(|t| t.ns % 10_000_000_000), Some(8_988_000_000));
            });
        }
    }

    #[test]
    fn a_key_may_be_the_demand() {
        let format = Format::named("combined").unwrap().with_demand("tokens").unwrap();
        let (line, mut request) =
            (format!("{FRONT} \"-\" \"-\" rt=0.1 tokens=\"512\" ua=\"curl/8 (a: b)\""), Request::default());
        format.read(line.as_bytes(), &mut request).unwrap();
        assert_eq!((request.demand, request.tries.count()), (Some(Demand::Amount(512.0)), 0));
    }
}
