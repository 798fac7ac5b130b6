//! Certificates that clients are shown, with their names and issuers, and the days that are left of each.

use super::page::{Asked, Page};
use super::table::{Column, Row, table};
use evenkeel_view::served::Certificate;
use maud::{Markup, html};

pub static PAGE: Page = Page {
    path: "/ui/certificates",
    name: "Certificates",
    content: |asked| Box::pin(async move { Ok(content(&asked)) }),
    is_live: true,
};

/// Days before the end at which a certificate is pointed out.
const SOON: f64 = 14.0;

/// Names of a certificate that are written out.
const NAMES: usize = 6;

const COLUMNS: &[Column] = &[
    Column::text("Names"),
    Column::text("Listener"),
    Column::text("Issuer"),
    Column::number("Days left"),
    Column::text("Expires"),
    Column::text("Renewal"),
];

fn content(asked: &Asked) -> Markup {
    let (certificates, now_ms) = (asked.process.certificates(), asked.process.status().now_ms);
    html! {
        h1 { "Certificates" }
        @if certificates.is_empty() {
            p.nothing { "No listener has certificates from files or from an authority. " code { "[listener.NAME.tls]" }
                " gives it some." }
        } @else {
            p.dim { "Certificates that clients are shown. The first one expires first." }
            (table("Certificates", COLUMNS, certificates.iter().map(|certificate| row(certificate, now_ms))))
        }
    }
}

fn row(certificate: &Certificate, now_ms: u64) -> Row {
    let left = days(certificate.not_after_ms, now_ms);
    Row::from(vec![
        names(certificate),
        html! { (certificate.listener) },
        html! { span title=(certificate.issuer) { (issuer(&certificate.issuer)) } },
        html! {
            @if left < 0.0 { span.bad { "expired" } }
            @else if left < SOON { span.bad { (format!("{left:.1}")) } }
            @else { (format!("{left:.0}")) }
        },
        html! { (date(certificate.not_after_ms)) },
        html! {
            @match certificate.renewed_ms.map(|at| days(at, now_ms).max(0.0)) {
                Some(due) => { (format!("by its authority, in {due:.0} days")) }
                None => { span.dim { "when its files change" } }
            }
        },
    ])
}

fn names(certificate: &Certificate) -> Markup {
    let names = &certificate.names;
    html! {
        (certificate.name)
        @let others: Vec<&String> = names.iter().filter(|name| **name != certificate.name).collect();
        @if !others.is_empty() {
            div.dim.names {
                @for (at, name) in others.iter().take(NAMES).enumerate() { @if at > 0 { ", " } (name) }
                @if others.len() > NAMES { ", and " (others.len() - NAMES) " more" }
            }
        }
    }
}

fn days(ms: u64, now_ms: u64) -> f64 {
    (ms as f64 - now_ms as f64) / 86_400_000.0
}

/// The part of a distinguished name that people know an issuer by: its organization, and its common name.
fn issuer(name: &str) -> String {
    let part = |key: &str| name.split(", ").find_map(|part| part.strip_prefix(key)).filter(|part| !part.is_empty());
    match (part("O="), part("CN=")) {
        (Some(organization), Some(common)) if organization != common => format!("{organization}, {common}"),
        (Some(one), _) | (None, Some(one)) => one.to_owned(),
        (None, None) => name.to_owned(),
    }
}

/// The day of a moment, milliseconds since 1970, by the calendar of UTC: `2027-02-09`.
fn date(ms: u64) -> String {
    // Days since 0000-03-01, so that a leap day is the last day of its year; 400 years have 146,097 days.
    let days = ms / 86_400_000 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let seconds = [0, 951_782_400, 951_868_800, 1_735_603_200, 4_102_444_800];
        let shown = seconds.map(|second| date(second * 1000));
        assert_eq!(shown, ["1970-01-01", "2000-02-29", "2000-03-01", "2024-12-31", "2100-01-01"]);
    }

    #[test]
    fn issuers_are_shown_by_the_names_that_people_know() {
        let names = ["C=US, O=Let's Encrypt, CN=R11", "CN=localhost", "O=Example", "C=DE"];
        assert_eq!(names.map(issuer), ["Let's Encrypt, R11", "localhost", "Example", "C=DE"]);
    }
}
