//! `error_pages` of a listener or route: files to send instead of evenkeel's own one-line responses. See [`ErrorPage`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Declared, Key, Kind, Section, table};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Largest size of a page, in bytes. Pages are kept in memory.
pub const ERROR_PAGE_MAX: usize = 256 << 10;

table! {
    pub(super) static ERROR_PAGE = "entry of error_pages",
        "Pages for responses that evenkeel generates itself, instead of one line of text. The status stays the same. A \
        page of the route is preferred to a page of the listener, and a page for fewer statuses to a page for more. \
        Responses of endpoints are not changed.";

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
        file: PathBuf = Key {
            name: "file",
            kind: Kind::Text(Form::File),
            absent: Absent::Required(r#""/etc/evenkeel/503.html""#),
            help: "File of the page, at most 256 KiB. Read at startup and at each reload.",
            why: "",
        };
        /// Value of `Content-Type`.
        media_type: String = Key {
            name: "type",
            kind: Kind::Text(Form::MediaType),
            absent: Absent::Default("\"text/html; charset=utf-8\""),
            help: "`Content-Type` of the page.",
            why: "Most error pages are HTML.",
        };
    }
}

/// The key `error_pages`, shared by listeners and routes.
pub(super) const ERROR_PAGES: Key = Key {
    name: "error_pages",
    kind: Kind::Tables(&ERROR_PAGE),
    absent: Absent::Means("one line of text"),
    help: "Pages for responses that evenkeel generates itself, such as a 503.",
    why: "",
};

/// Reports two pages of a listener or route that match a status equally well.
pub(super) fn check(owner: &Section, findings: &mut Findings) {
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
