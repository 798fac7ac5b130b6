//! `error_pages` of a listener or route: responses to send instead of evenkeel's own one-line responses, and instead of the
//! endpoints' responses that `intercept` names. See [`ErrorPage`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Form, Template};
use crate::table::{Absent, Declared, Key, Kind, Section, table};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

/// Largest size of a page, in bytes. Pages are kept in memory.
pub const ERROR_PAGE_MAX: usize = 256 << 10;

table! {
    pub(super) static ERROR_PAGE = "entry of error_pages",
        "Page for responses that evenkeel generates itself, instead of one line of text, and for the responses of \
        endpoints that `intercept` lists. A page has exactly one of `file`, `errorfile`, `body`, `pool` and `route`. A page \
        of the route is preferred to a page of the listener, and a page for fewer statuses to a page for more. \
        `error_pages = { 502 = { ... }, \"5xx\" = { ... } }` is the same as a list of pages with `status`.";

    /// A page for some statuses.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ErrorPage {
        /// Ranges within 400 to 599. Two pages of a listener or route share a status only if the range of
        /// either contains the range of the other and is wider.
        statuses: Vec<RangeInclusive<u16>> = Key {
            name: "status",
            kind: Kind::List(&Kind::IntOrText { min: 400, max: 599, form: Form::ErrorStatus }),
            absent: Absent::Required("[503]"),
            help: "Statuses that use this page: numbers, ranges (`\"502..=504\"`), or a whole class (`\"5xx\"`).",
            why: "",
        };
        /// File of the page, at most [`ERROR_PAGE_MAX`] bytes.
        file: Option<PathBuf> = Key {
            name: "file",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("another source"),
            help: "File of the page, at most 256 KiB. Read at startup and at each reload.",
            why: "",
        };
        /// File of a whole response in HTTP/1, at most [`ERROR_PAGE_MAX`] bytes.
        errorfile: Option<PathBuf> = Key {
            name: "errorfile",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("another source"),
            help: "File of a whole response with its head, as for `errorfile` of HAProxy: a status line, fields, an empty \
                line, and the body. Its status and its fields are sent, too, except fields of the connection.",
            why: "",
        };
        /// Text of the page, 1 to 1,024 characters.
        body: Option<Arc<str>> = Key {
            name: "body",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("another source"),
            help: "Text of the page.",
            why: "",
        };
        /// Name of an existing pool that is asked for the page.
        pool: Option<Arc<str>> = Key {
            name: "pool",
            kind: Kind::Text(Form::Name),
            absent: Absent::Means("another source"),
            help: "Pool that is asked once for the response to a GET or HEAD, with the fields of the client's request. \
                Without `path`, its status is sent, too, so that the pool can serve the request itself. Its response may \
                have 1 MiB. If it sends none, the client gets one line of text. Only for pages of routes.",
            why: "",
        };
        /// Name of an existing route that answers the request.
        route: Option<Arc<str>> = Key {
            name: "route",
            kind: Kind::Text(Form::Label),
            absent: Absent::Means("another source"),
            help: "Name of a `[[route]]` that answers a GET or HEAD with the fields of the client's request: with its \
                filters and its action, whatever its match. Without `path`, its status is sent, too, so that it can serve the \
                request itself. If it fails, other pages apply, but none of a route.",
            why: "",
        };
        /// Path and query of the request to the pool or route; `None` = path and query of the client's request.
        path: Option<Arc<str>> = Key {
            name: "path",
            kind: Kind::Text(Form::Target),
            absent: Absent::Means("path and query of the client's request"),
            help: "Path and query of the request to `pool` or `route`, in which `{status}` is the status: \
                `/errors/{status}.html`.",
            why: "",
        };
        /// Status that the client gets; `None` = the status of the error.
        send_status: Option<u16> = Key {
            name: "send_status",
            kind: Kind::Int { min: 200, max: 599 },
            absent: Absent::Means("the status of the error"),
            help: "Status of the response, instead of the status of the error.",
            why: "",
        };
        /// Fields of the response with their values, which replace fields of the same name.
        fields: Vec<(Arc<str>, Template)> = Key {
            name: "fields",
            kind: Kind::Map { keys: Form::FieldName, of: &Kind::Text(Form::ResponseValue) },
            absent: Absent::Means("none"),
            help: "Fields of the response: `{ Retry-After = \"30\" }`. Values as for `set` of `response_headers`, but \
                without variables of the request's head.",
            why: "",
        };
        /// Value of `Content-Type`; `None` = HTML for a file, text for a body.
        media_type: Option<Arc<str>> = Key {
            name: "type",
            kind: Kind::Text(Form::MediaType),
            absent: Absent::Means("`text/html; charset=utf-8` for `file`, `text/plain; charset=utf-8` for `body`"),
            help: "`Content-Type` of the page.",
            why: "",
        };
    }
}

impl ErrorPage {
    /// Values of `fields`, which have variables.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        self.fields.iter().map(|(_, value)| value)
    }
}

/// The key `error_pages`, shared by listeners and routes.
pub(super) const ERROR_PAGES: Key = Key {
    name: "error_pages",
    kind: Kind::TablesBy { table: &ERROR_PAGE, key: "status" },
    absent: Absent::Means("one line of text"),
    help: "Pages for responses that evenkeel generates itself, such as a 503, and for those of endpoints in `intercept`: \
        a list, or a table for each status, range or class.",
    why: "",
};

/// The key `intercept`, shared by listeners and routes.
pub(super) const INTERCEPT: Key = Key {
    name: "intercept",
    kind: Kind::List(&Kind::IntOrText { min: 400, max: 599, form: Form::ErrorStatus }),
    absent: Absent::Means("responses of endpoints are sent as they are"),
    help: "Statuses of endpoints whose responses are replaced by a page of `error_pages`: numbers, ranges \
        (`\"500..=599\"`), or a whole class (`\"5xx\"`). A status without a page stays as it is.",
    why: "An application has reasons for its errors, and its clients may read them.",
};

/// Sources of a page. Each page has exactly one.
const SOURCES: [&str; 5] = ["file", "errorfile", "body", "pool", "route"];

/// Statuses of responses without a body, which a page from a route cannot have.
const BARE: [u64; 3] = [204, 205, 304];

/// Reports pages without a source, and keys that say nothing for their source.
pub(super) fn check_sources(owner: &Section, findings: &mut Findings) {
    for page in owner.sections("error_pages") {
        let set: Vec<&str> = SOURCES.into_iter().filter(|key| page.has(key)).collect();
        match set[..] {
            [] => {
                let message = "an error page needs \"file\", \"errorfile\", \"body\", \"pool\" or \"route\"";
                let help = "add one of them, such as file = \"/etc/evenkeel/503.html\"";
                findings.add(Code::Missing, page.span_of("status"), message).help(help);
            }
            [one] => {
                let takes = |key: &str| match key {
                    "path" => matches!(one, "pool" | "route"),
                    _ => matches!(one, "file" | "body"),
                };
                for key in ["path", "type"].into_iter().filter(|key| page.has(key) && !takes(key)) {
                    let message = format!("\"{key}\" has no effect on a page with \"{one}\"");
                    page.contradiction(page.span_of(key), &message, one, findings).help("leave it out");
                }
                let status = page.int("send_status");
                if one == "route" && page.has("send_status") && BARE.contains(&status) {
                    let message =
                        format!("a response with status {status} has no body, and a page from a route has one");
                    let span = page.span_of("send_status");
                    page.contradiction(span, &message, one, findings).help("set another status, or leave it out");
                }
            }
            [first, second, ..] => {
                let message = format!("an error page has both \"{first}\" and \"{second}\"");
                page.contradiction(page.span_of(second), &message, first, findings).help("keep one of them");
            }
        }
    }
}

/// Reports pages of a listener that are from a pool.
pub(super) fn check_listener(listener: &Section, findings: &mut Findings) {
    for page in listener.sections("error_pages").into_iter().filter(|page| page.has("pool")) {
        let message = "a page of a listener cannot be from a pool";
        let help = "set it for routes, for all of them in [defaults.route]";
        findings.add(Code::Missing, page.span_of("pool"), message).help(help);
    }
    check(listener, findings);
}

/// Reports two pages of a listener or route that match a status equally well.
pub(super) fn check(owner: &Section, findings: &mut Findings) {
    check_sources(owner, findings);
    let pages: Vec<(ErrorPage, &Section)> =
        owner.sections("error_pages").into_iter().map(|s| (ErrorPage::of(s), s)).collect();
    for (at, (page, section)) in pages.iter().enumerate() {
        let ranges = page.statuses.iter().enumerate();
        let found = ranges.flat_map(|(n, range)| page.statuses[..n].iter().map(move |other| (range, other, *section)));
        let before = pages[..at].iter().flat_map(|(other, at)| other.statuses.iter().map(move |status| (status, *at)));
        let found =
            found.chain(before.flat_map(|(other, at)| page.statuses.iter().map(move |range| (range, other, at))));
        let Some((range, other, first)) = found.into_iter().find(|(range, other, _)| collide(range, other)) else {
            continue;
        };
        let status = range.start().max(other.start());
        findings
            .add(Code::SameMatch, section.span_of("status"), format!("two error pages are for status {status}"))
            .see("the other one is here", first.span_of("status"))
            .help("a page for fewer statuses goes before one for more that has them all; otherwise name each once");
    }
}

/// True if two ranges overlap and neither strictly contains the other.
fn collide(a: &RangeInclusive<u16>, b: &RangeInclusive<u16>) -> bool {
    let within = |a: &RangeInclusive<u16>, b: &RangeInclusive<u16>| a.contains(b.start()) && a.contains(b.end());
    let common = a.start().max(b.start()) <= a.end().min(b.end());
    common && within(a, b) == within(b, a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_a_ranges_alone_unless_one_range_is_within_the_other() {
        for (a, b, collides) in [
            (503..=503, 500..=599, false),
            (502..=504, 500..=599, false),
            (500..=503, 503..=504, true),
            (503..=503, 503..=503, true),
            (500..=502, 503..=504, false),
        ] {
            assert_eq!((collide(&a, &b), collide(&b, &a)), (collides, collides), "{a:?} {b:?}");
        }
    }
}
