//! Cards of pools: health, rate, latency, errors, and how even their shares are.

use super::page::Asked;
use super::plots::sparkline;
use super::shown::{or_dash, percent, percentile, rate};
use evenkeel_draw::share::{Part, shares};
use evenkeel_view::history::History;
use evenkeel_view::words::{Standing, Traffic, escaped, grouped};
use evenkeel_view::{Endpoint, Pool};
use maud::{Markup, PreEscaped, html};

/// Cards that are shown; of more pools the others are on the page of pools.
const CARDS: usize = 30;

/// Endpoints whose shares are drawn. More bars would be narrower than a pixel on a phone.
const BARS: usize = 100;

/// Sums of a pool over the last five seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    pub rate: f64,
    /// Part of the tries that failed, 0 to 1; `None` without tries.
    pub errors: Option<f64>,
    /// Milliseconds that 99 of 100 responses did not exceed to their first byte.
    pub p99_ms: Option<f64>,
}

impl Figures {
    /// Returns the figures of the latest span.
    pub fn of(history: &History) -> Figures {
        let Some(last) = history.spans.last() else { return Figures::default() };
        let errors = (last.requests > 0).then(|| f64::from(last.errors) / f64::from(last.requests));
        let seconds = f64::from(history.step_ms) / 1000.0;
        Figures { rate: f64::from(last.requests) / seconds, errors, p99_ms: last.p99_ms }
    }
}

/// Draws a card for each pool.
pub fn cards(asked: &Asked, pools: &[Pool]) -> Markup {
    html! {
        div.cards { @for pool in pools.iter().take(CARDS) { (card(asked, pool)) } }
        @if pools.len() > CARDS {
            p.dim { "And " (grouped((pools.len() - CARDS) as u64)) " more on " a href="/ui/pools" { "Pools" } "." }
        }
    }
}

fn card(asked: &Asked, pool: &Pool) -> Markup {
    let history = asked.process.history(Some((&pool.name, None))).unwrap_or_default();
    let figures = Figures::of(&history);
    let in_flight: u64 = pool.endpoints.iter().map(|endpoint| u64::from(endpoint.in_flight)).sum();
    html! {
        section.card {
            h3 { a href={ "/ui/pools#" (escaped(&pool.name)) } { (pool.name) } }
            p.dim { (pool.algorithm) }
            (health(pool))
            dl {
                div { dt { "rate" } dd { (rate(figures.rate)) } }
                div { dt { "errors" } dd.bad[figures.errors > Some(0.0)] { (or_dash(figures.errors, percent)) } }
                div { dt { "p99" } dd { (or_dash(figures.p99_ms, percentile)) } }
                div { dt { "in flight" } dd { (grouped(in_flight)) } }
            }
            @if history.spans.iter().any(|span| span.requests > 0) { (sparkline(&history)) }
            @else { p.dim.nothing { "No " (Traffic::of_pool(pool).many) " yet" } }
            (fairness(pool))
        }
    }
}

/// Endpoints of a pool by state, in words.
fn health(pool: &Pool) -> Markup {
    let all = pool.endpoints.len();
    let up = pool.endpoints.iter().filter(|endpoint| endpoint.state == "up").count();
    let mut others: Vec<(&str, Standing, usize)> = Vec::new();
    for endpoint in pool.endpoints.iter().filter(|endpoint| endpoint.state != "up") {
        match others.iter_mut().find(|(state, ..)| *state == endpoint.state) {
            Some((.., count)) => *count += 1,
            None => others.push((&endpoint.state, Standing::of(endpoint), 1)),
        }
    }
    html! {
        p.health {
            span.state.up[up > 0].out[up == 0] { (up) " of " (all) " up" }
            @for (state, standing, count) in others { " " span class={ "state " (super::shown::kind(standing)) } { (count) " " (state) } }
            @if pool.in_panic { " " span.state.down { "panic: health is ignored" } }
            @if pool.waiting > 0 { " " span.state.partly { (pool.waiting) " " (Traffic::of_pool(pool).many) " wait" } }
        }
    }
}

/// Shares of the endpoints beside their fair shares; nothing for a single endpoint, which has all of them.
fn fairness(pool: &Pool) -> Markup {
    let measured = pool.endpoints.iter().any(|endpoint| endpoint.share.is_some());
    if !measured || !(2..=BARS).contains(&pool.endpoints.len()) {
        return html! {};
    }
    let part = |endpoint: &Endpoint| Part {
        name: endpoint.name.clone(),
        share: endpoint.share.unwrap_or_default(),
        fair: endpoint.fair_share,
        class: super::shown::kind(Standing::of(endpoint)),
    };
    let parts: Vec<Part> = pool.endpoints.iter().map(part).collect();
    let words = unevenness(&pool.endpoints);
    html! {
        (PreEscaped(shares(&parts, &format!("Shares of {} endpoints: {words}", parts.len()))))
        p.dim { "Share, line: fair. " (words) }
    }
}

/// The endpoint that is farthest from its fair share, in words.
fn unevenness(endpoints: &[Endpoint]) -> String {
    let off = endpoints.iter().filter_map(|endpoint| Some((endpoint.share? - endpoint.fair_share, endpoint)));
    let farthest = off.max_by(|(a, _), (b, _)| a.abs().total_cmp(&b.abs()));
    match farthest {
        Some((off, endpoint)) if off.abs() >= 0.01 => {
            let points = (off.abs() * 100.0).round();
            let unit = if points > 1.0 { "points" } else { "point" };
            let more = if off > 0.0 { "more" } else { "less" };
            format!("{} has {points} {unit} {more}.", endpoint.name)
        }
        _ => "All within one point.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_view::history::Span;

    fn endpoint(name: &str, share: Option<f64>, fair_share: f64) -> Endpoint {
        Endpoint { name: name.into(), state: "up".into(), share, fair_share, ..Endpoint::default() }
    }

    #[test]
    fn the_endpoint_farthest_from_its_fair_share_is_named() {
        let endpoints = [endpoint("a", Some(0.52), 0.5), endpoint("b", Some(0.08), 0.25), endpoint("c", None, 0.25)];
        assert_eq!(unevenness(&endpoints), "b has 17 points less.");
        assert_eq!(unevenness(&endpoints[..1]), "a has 2 points more.");
        assert_eq!(unevenness(&[endpoint("a", Some(0.49), 0.502)]), "a has 1 point less.");
        assert_eq!(unevenness(&[endpoint("a", Some(0.5), 0.5)]), "All within one point.");
    }

    #[test]
    fn figures_are_those_of_the_latest_span() {
        let span = |requests, errors| Span { requests, errors, p99_ms: Some(3.0), ..Span::default() };
        let history = |spans| History { step_ms: 5000, spans, spreads: Vec::new() };
        let figures = Figures::of(&history(vec![span(50, 0), span(100, 5)]));
        assert_eq!(figures, Figures { rate: 20.0, errors: Some(0.05), p99_ms: Some(3.0) });
        assert_eq!(Figures::of(&history(vec![Span::default()])).errors, None, "no try, no part of them");
    }
}
