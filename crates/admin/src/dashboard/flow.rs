//! Where do requests come in, and where do they go? From listeners by routes and pools to endpoints, as wide as their rate.

use super::page::{Asked, Page, process};
use super::shown::page_of;
use evenkeel_draw::flow::{Band, Column, Node, flow};
use evenkeel_draw::number::many;
use evenkeel_view::{Pool, Status};
use maud::{Markup, PreEscaped, html};

/// The page.
pub static PAGE: Page = Page {
    path: "/ui/flow",
    name: "Flow",
    content: |asked| Box::pin(async move { Ok(content(&asked)) }),
    is_live: true,
};

/// Boxes of a column: the busiest.
const BOXES: usize = 24;

/// What passes from one box to another.
struct Passed {
    from: String,
    to: String,
    rate: f64,
    errors: f64,
}

fn content(asked: &Asked) -> Markup {
    let status = asked.process.status();
    let [routes, pools, endpoints] = passed(asked, &status);
    let names = |of: &dyn Fn(&Passed) -> &String, passed: &[Passed]| busiest(passed, of);
    let columns = [
        ("Listeners", names(&|passed| &passed.from, &routes)),
        ("Routes", names(&|passed| &passed.to, &routes)),
        ("Pools", names(&|passed| &passed.to, &pools)),
        ("Endpoints", names(&|passed| &passed.to, &endpoints)),
    ];
    let bands = [&routes, &pools, &endpoints].into_iter().enumerate().map(|(at, passed)| {
        let place = |column: usize, name: &String| columns[column].1.iter().position(|(known, _)| known == name);
        let band = |passed: &Passed| {
            let errors = if passed.rate > 0.0 { passed.errors / passed.rate } else { 0.0 };
            Some(Band { from: place(at, &passed.from)?, to: place(at + 1, &passed.to)?, rate: passed.rate, errors })
        };
        passed.iter().filter_map(band).collect::<Vec<_>>()
    });
    let bands: Vec<Vec<Band>> = bands.collect();
    let node = |(name, rate): &(String, f64)| {
        let (shown, link) = match name.split_once('\0') {
            Some((pool, endpoint)) => (endpoint, Some(page_of(pool, endpoint))),
            None => (name.as_str(), None),
        };
        Node { name: shown.to_owned(), text: format!("{}/s", many((rate * 10.0).round() / 10.0)), link }
    };
    let columns: Vec<Column> = columns
        .iter()
        .map(|(title, names)| Column { title: (*title).to_owned(), nodes: names.iter().map(node).collect() })
        .collect();
    html! {
        h1 { "Flow" }
        (process(asked))
        p.dim { "Of the last five seconds, the busiest " (BOXES) " of each. Endpoints are counted by tries: retries and hedges widen their bands. "
            span.key.flow-fine {} "no errors " span.key.flow-warn {} "some " span.key.flow-bad {} "5 % and more" }
        div.wide tabindex="0" role="region" aria-label="Scrolls sideways" { (PreEscaped(flow("Requests from listeners by routes and pools to endpoints", &columns, &bands))) }
        (figures(&routes, &pools, &endpoints))
    }
}

/// Between listeners and routes, routes and pools, pools and endpoints.
fn passed(asked: &Asked, status: &Status) -> [Vec<Passed>; 3] {
    let (mut routes, mut pools, mut endpoints) = (Vec::new(), Vec::new(), Vec::new());
    for route in asked.process.routes() {
        let (mut rate, mut errors) = (0.0, 0.0);
        for at in &route.at {
            (rate, errors) = (rate + at.rate, errors + at.error_rate);
            let from = at.listener.clone();
            routes.push(Passed { from, to: route.name.clone(), rate: at.rate, errors: at.error_rate });
        }
        pools.push(Passed { from: route.name, to: route.pool, rate, errors });
    }
    for pool in &status.pools {
        endpoints.extend(pool.endpoints.iter().map(|endpoint| of_endpoint(asked, pool, &endpoint.name)));
    }
    [routes, pools, endpoints]
}

fn of_endpoint(asked: &Asked, pool: &Pool, endpoint: &str) -> Passed {
    let history = asked.process.history(Some((&pool.name, Some(endpoint))));
    let last = history.and_then(|history| Some((f64::from(history.step_ms) / 1000.0, *history.spans.last()?)));
    let (rate, errors) = last
        .map_or((0.0, 0.0), |(seconds, span)| (f64::from(span.requests) / seconds, f64::from(span.errors) / seconds));
    Passed { from: pool.name.clone(), to: format!("{}\0{endpoint}", pool.name), rate, errors }
}

/// Each name once, with its rate; of too many, those with the most.
fn busiest(passed: &[Passed], name: &dyn Fn(&Passed) -> &String) -> Vec<(String, f64)> {
    let mut names = Vec::<(String, f64)>::new();
    for one in passed {
        match names.iter_mut().find(|(known, _)| known == name(one)) {
            Some((_, rate)) => *rate += one.rate,
            None => names.push((name(one).clone(), one.rate)),
        }
    }
    if names.len() > BOXES {
        let mut rates: Vec<f64> = names.iter().map(|(_, rate)| *rate).collect();
        rates.sort_by(|a, b| b.total_cmp(a));
        // In the order of the configuration, so that boxes do not jump.
        let least = rates[BOXES - 1];
        names.retain(|(_, rate)| *rate >= least);
        names.truncate(BOXES);
    }
    names
}

/// The same as a table.
fn figures(routes: &[Passed], pools: &[Passed], endpoints: &[Passed]) -> Markup {
    html! {
        details {
            summary { "The same as a table" }
            div.wide tabindex="0" role="region" aria-label="Scrolls sideways" { table {
                thead { tr { th scope="col" { "From" } th scope="col" { "To" } th.number scope="col" { "Requests/s" } th.number scope="col" { "Errors/s" } } }
                tbody { @for passed in routes.iter().chain(pools).chain(endpoints).filter(|passed| passed.rate > 0.0) { tr {
                    td { (passed.from) }
                    td { (passed.to.rsplit('\0').next().unwrap_or_default()) }
                    td.number { (format!("{:.1}", passed.rate)) }
                    td.number { (format!("{:.1}", passed.errors)) }
                } } }
            } }
        }
    }
}
