//! How does the page show a run at a glance? First what the figures say, then a drawing of each balancer, then the
//! tables and the method.

use super::chart::{self, Band};
use super::told::{FELT, LIVED, Told, WHOLE};
use crate::report::html;

/// The page.
pub fn draw(told: &Told) -> String {
    let second = |at_ns: u64| at_ns.saturating_sub(told.ran.begin_ns) as f64 / 1e9;
    let bands: Vec<Band> = (told.ran.struck.iter())
        .map(|struck| Band {
            name: struck.fault.name,
            endpoint: struck.endpoint,
            from: second(struck.from_ns),
            until: second(struck.until_ns),
        })
        .collect();
    let all = told.ran.took.iter().flat_map(|took| &took.seconds);
    let failures_max = all.map(|second| second.failed.iter().sum()).max().unwrap_or(0).max(1);
    let whole: Vec<&str> = FELT.iter().chain(&WHOLE).copied().collect();
    let mut parts = vec![html::points(&super::verdict::sentences(told)), html::table(&whole, &told.rows_of_all())];
    parts.push(key(told.endpoints));
    for (balancer, took) in told.balancers.iter().zip(&told.ran.took) {
        parts.push(html::heading(balancer.kind.name));
        parts.push(chart::draw(balancer.kind.name, &took.seconds, &bands, failures_max));
    }
    let header: Vec<&str> = FELT.iter().chain(&LIVED).copied().collect();
    for (number, struck) in told.ran.struck.iter().enumerate() {
        parts.push(html::heading(&told.headline(struck)));
        parts.push(html::table(&header, &told.rows_of(number)));
    }
    parts.push(html::heading("What the columns mean"));
    parts.push(html::paragraphs(&Told::legend()));
    parts.push(html::heading("How it was measured"));
    parts.push(html::paragraphs(&told.method()));
    parts.push(html::heading("How each is set up"));
    let settings =
        told.versions().into_iter().map(|(name, version, settings)| format!("{name} ({version}): {settings}"));
    parts.push(html::points(&settings.collect::<Vec<_>>()));
    html::page("How load balancers live with endpoints that break", &parts)
}

/// What the colours mean.
fn key(endpoints: usize) -> String {
    let named =
        [("get", "failed GETs".to_owned()), ("post", "failed POSTs".into()), ("band", "an endpoint is broken".into())];
    let endpoints =
        (1..=endpoints).map(|number| (["e1", "e2", "e3", "e4", "e5", "e6"][number - 1], format!("endpoint {number}")));
    let entry =
        |(colour, text): (&str, String)| format!("<span class=\"key\" style=\"color: var(--{colour})\"></span>{text}");
    format!("<p>{}</p>\n", named.into_iter().chain(endpoints).map(entry).collect::<String>())
}
