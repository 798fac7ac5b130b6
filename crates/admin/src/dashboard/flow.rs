//! Requests on their way from listeners by routes and pools to endpoints: bands as wide as their rate, coloured by
//! errors.

use super::page::{Asked, Page, process};
use super::shown::{kind, or_dash, page_of, percent, rate};
use super::table;
use evenkeel_draw::flow::{Band, Column, Node, flow, grade};
use evenkeel_view::words::{Standing, Traffic};
use evenkeel_view::{Endpoint, Pool, Status};
use maud::{Markup, PreEscaped, html};
use std::collections::HashMap;

pub static PAGE: Page = Page {
    path: "/ui/flow",
    name: "Flow",
    content: |asked| Box::pin(async move { Ok(content(&asked)) }),
    is_live: true,
};

/// Box of requests that no pool gets: a filter refuses them, or the cache has their response.
const ANSWERED_HERE: &str = "answered by evenkeel";

/// Rows of the table at most.
const ROWS: usize = 300;

/// Boxes of a column at most.
const BOXES: usize = 24;

/// Requests between two boxes.
struct Passed {
    from: String,
    to: String,
    /// Requests a second, over the latest span.
    rate: f64,
    /// Errors a second, over the same time.
    errors: f64,
    /// State of an endpoint that gets no share of requests, or a part of it.
    state: Option<(Standing, String)>,
}

impl Passed {
    fn share_of_errors(&self) -> f64 {
        if self.rate > 0.0 { self.errors / self.rate } else { 0.0 }
    }
}

fn content(asked: &Asked) -> Markup {
    let status = asked.process.status();
    let traffic = Traffic::of_all(&status);
    let [routes, pools, endpoints] = passed(asked, &status);
    let is_quiet = routes.iter().chain(&endpoints).all(|passed| passed.rate <= 0.0);
    html! {
        h1 { "Flow" }
        (process(asked))
        @if is_quiet {
            p.nothing { "No " (traffic.many) " in the last five seconds. Bands appear here with the next ones." }
        } @else {
            p.dim { (traffic.title) " of the last five seconds, the busiest " (BOXES) " of each column. Endpoints are counted by tries: "
                "retries and hedges widen their bands." }
        }
        p.dim { "Errors: " span.key.flow-fine {} "none" span.key.flow-warn {} "some" span.key.flow-bad {} "5 % and more" }
        (drawing(&status, [&routes, &pools, &endpoints]))
        h2 { "In figures" }
        (figures([&routes, &pools, &endpoints]))
    }
}

fn drawing(status: &Status, [routes, pools, endpoints]: [&[Passed]; 3]) -> Markup {
    let columns = [
        ("Listeners", busiest(routes, &|passed| &passed.from)),
        ("Routes", busiest(routes, &|passed| &passed.to)),
        ("Pools", busiest(pools, &|passed| &passed.to)),
        ("Endpoints", busiest(endpoints, &|passed| &passed.to)),
    ];
    let bands = [routes, pools, endpoints].into_iter().enumerate().map(|(at, passed)| {
        let place = |column: usize, name: &String| columns[column].1.iter().position(|known| known.name == *name);
        let band = |passed: &Passed| {
            let (from, to) = (place(at, &passed.from)?, place(at + 1, &passed.to)?);
            Some(Band { from, to, rate: passed.rate, errors: passed.share_of_errors() })
        };
        passed.iter().filter_map(band).collect::<Vec<_>>()
    });
    let bands: Vec<Vec<Band>> = bands.collect();
    let columns: Vec<Column> = columns
        .iter()
        .map(|(title, sums)| Column {
            title: (*title).to_owned(),
            nodes: sums.iter().map(|sum| node(status, sum)).collect(),
        })
        .collect();
    let label = &format!("{} from listeners by routes and pools to endpoints", Traffic::of_all(status).title);
    html! {
        div.wide.drawn tabindex="0" role="region" aria-label={ "Flow of " (Traffic::of_all(status).many) } { (PreEscaped(flow(label, &columns, &bands))) }
    }
}

/// Box of a name. An endpoint that gets no share, or a part of it, has its state instead of nothing.
fn node(status: &Status, sum: &Sum) -> Node {
    let figures = match sum.errors {
        errors if errors > 0.0 => format!("{}, {} errors", rate(sum.rate), percent(errors / sum.rate.max(errors))),
        _ => rate(sum.rate),
    };
    let graded = if sum.errors > 0.0 { grade(sum.errors / sum.rate.max(sum.errors)) } else { "" };
    let Some((pool, endpoint)) = sum.name.split_once('\0') else {
        return Node { name: sum.name.clone(), text: figures, link: None, tone: graded };
    };
    let found = self::endpoint(status, &sum.name);
    let standing = found.map_or(Standing::Up, Standing::of);
    let (text, tone) = match (standing, found) {
        (Standing::Up, _) | (_, None) => (figures, graded),
        (_, Some(found)) if sum.rate > 0.0 => {
            (format!("{} {}, {}", sign(standing), found.state, rate(sum.rate)), kind(standing))
        }
        (_, Some(found)) => (format!("{} {}", sign(standing), found.state), kind(standing)),
    };
    Node { name: endpoint.to_owned(), text, link: Some(page_of(pool, endpoint)), tone }
}

/// Sign of a state, for readers who do not see its colour.
fn sign(standing: Standing) -> char {
    match standing {
        Standing::Up => '\u{25cf}',
        Standing::Partly => '\u{25d0}',
        Standing::Out => '\u{25cb}',
        Standing::Down => '\u{2716}',
    }
}

/// Requests between listeners and routes, routes and pools, pools and endpoints.
fn passed(asked: &Asked, status: &Status) -> [Vec<Passed>; 3] {
    let (mut routes, mut pools, mut endpoints) = (Vec::new(), Vec::new(), Vec::new());
    for route in asked.process.routes() {
        let (mut rate, mut errors, mut here, mut errors_here) = (0.0, 0.0, 0.0, 0.0);
        for at in &route.at {
            (rate, errors) = (rate + at.sent_rate, errors + at.sent_error_rate);
            (here, errors_here) = (here + at.rate - at.sent_rate, errors_here + at.error_rate - at.sent_error_rate);
            let from = at.listener.clone();
            routes.push(Passed { from, to: route.name.clone(), rate: at.rate, errors: at.error_rate, state: None });
        }
        let to = |to: &str, rate: f64, errors: f64| Passed {
            from: route.name.clone(),
            to: to.to_owned(),
            rate: rate.max(0.0),
            errors: errors.max(0.0),
            state: None,
        };
        // Errors of the pools of a split are not counted apart by route, and are spread like its requests.
        match route.action.pools().as_slice() {
            [] => pools.push(to(&route.action.words(), here, errors_here)),
            shares => {
                pools.extend(shares.iter().map(|(pool, share)| to(pool, rate * share, errors * share)));
                if here > 0.0 {
                    pools.push(to(ANSWERED_HERE, here, errors_here));
                }
            }
        }
    }
    for pool in &status.pools {
        endpoints.extend(pool.endpoints.iter().map(|endpoint| of_endpoint(asked, pool, endpoint)));
    }
    [routes, pools, endpoints]
}

fn of_endpoint(asked: &Asked, pool: &Pool, endpoint: &Endpoint) -> Passed {
    let history = asked.process.history(Some((&pool.name, Some(&endpoint.name))));
    let last = history.and_then(|history| Some((f64::from(history.step_ms) / 1000.0, *history.spans.last()?)));
    let (rate, errors) = last
        .map_or((0.0, 0.0), |(seconds, span)| (f64::from(span.requests) / seconds, f64::from(span.errors) / seconds));
    let standing = Standing::of(endpoint);
    let state = (standing != Standing::Up).then(|| (standing, endpoint.state.clone()));
    Passed { from: pool.name.clone(), to: format!("{}\0{}", pool.name, endpoint.name), rate, errors, state }
}

/// Sum over the requests that pass a box.
struct Sum {
    name: String,
    rate: f64,
    errors: f64,
}

/// Each name once, with its rate; of too many, the busiest.
fn busiest(passed: &[Passed], name: &dyn Fn(&Passed) -> &String) -> Vec<Sum> {
    let mut sums = Vec::<Sum>::new();
    let mut known = HashMap::<&String, usize>::new();
    for one in passed {
        let at = *known.entry(name(one)).or_insert_with(|| {
            sums.push(Sum { name: name(one).clone(), rate: 0.0, errors: 0.0 });
            sums.len() - 1
        });
        sums[at].rate += one.rate;
        sums[at].errors += one.errors;
    }
    if sums.len() > BOXES {
        let mut rates: Vec<f64> = sums.iter().map(|sum| sum.rate).collect();
        rates.sort_by(|a, b| b.total_cmp(a));
        // In the order of the configuration, so that boxes do not jump.
        let least = rates[BOXES - 1];
        sums.retain(|sum| sum.rate >= least);
        sums.truncate(BOXES);
    }
    sums
}

const COLUMNS: &[table::Column] = &[
    table::Column::text("From"),
    table::Column::text("To"),
    table::Column::number("Rate"),
    table::Column::number("Errors"),
];

/// Draws the same as a table, with each endpoint that gets no share or a part of it.
fn figures([routes, pools, endpoints]: [&[Passed]; 3]) -> Markup {
    let all = routes.iter().chain(pools).chain(endpoints);
    let shown = all.filter(|passed| passed.rate > 0.0 || passed.state.is_some()).take(ROWS);
    let rows = shown.map(|passed| {
        let errors = (passed.rate > 0.0).then(|| passed.share_of_errors());
        table::Row::from(vec![
            html! { (passed.from) },
            html! {
                "\u{2192} " (passed.to.rsplit('\0').next().unwrap_or_default())
                @if let Some((standing, word)) = &passed.state { " " span class={ "state " (kind(*standing)) } { (word) } }
            },
            html! { (rate(passed.rate)) },
            html! { span.bad[errors > Some(0.0)] { (or_dash(errors, percent)) } },
        ])
    });
    table::compact("Flow in figures", COLUMNS, rows)
}

/// Endpoint of a box, whose name has its pool before it.
fn endpoint<'s>(status: &'s Status, name: &str) -> Option<&'s Endpoint> {
    let (pool, endpoint) = name.split_once('\0')?;
    let pool = status.pools.iter().find(|known| known.name == pool)?;
    pool.endpoints.iter().find(|known| known.name == endpoint)
}
