//! Findings as a self-contained HTML page: load over time, models of the endpoints, validation, changes with intervals, and
//! refusals.

use crate::answer::{Answer, Figures};
use crate::explored::{Beside, Explored, PICKS_MIN, Shares};
use crate::findings::Findings;
use crate::model::Model;
use crate::text::{costs, warm_up};
use evenkeel_draw::axis::Axis;
use evenkeel_draw::chart::{Chart, Line, Size};
use evenkeel_draw::intervals::{Row, intervals};
use evenkeel_draw::number::digits;
use evenkeel_draw::page as html;
use evenkeel_sim::replay::{Clients, Way};
use evenkeel_sim::scenario::Serving;

/// Draws findings: refusals, load, changes, validation and models, in this order.
pub fn page(found: &Findings) -> String {
    let seconds = found.span_ns as f64 / 1e9;
    let summary = format!("{} tries of pool \"{}\" over {} s.", found.requests, found.pool, digits(seconds));
    let mut parts = vec![html::paragraph(&summary)];
    if let Some(verdict) = &found.verdict {
        parts.push(html::verdicts(std::slice::from_ref(&verdict.text)));
    }
    if !found.doubts.is_empty() {
        let doubts: Vec<String> = found.doubts.iter().map(|of| format!("{}. Help: {}", of.text, of.help)).collect();
        parts.push(html::heading("This log cannot answer"));
        parts.push(html::points(&doubts));
    }
    parts.push(over_time(found));
    if let Some(model) = &found.model {
        if found.doubts.is_empty() {
            parts.push(html::heading(&format!("Changes from {}", model.policy.label)));
            parts.push(changes(&found.answers));
            parts.push(html::table(&figures(found)));
            parts.extend(warm_up(found).map(|text| html::paragraph(&format!("{text}."))));
            parts.extend(found.plane.map(|plane| html::paragraph(&format!("{}.", costs(plane)))));
        }
        if let Some(of) = &found.explored {
            parts.push(html::heading("Explored picks"));
            parts.push(explored(of));
        }
        parts.push(html::heading("Validation"));
        parts.push(html::paragraph(
            "The model was fitted to the first 60 % of the log, and run on the arrivals of the rest.",
        ));
        parts.push(html::table(&validation(model)));
        parts.push(html::heading("Models of the endpoints"));
        parts.push(html::table(&endpoints(model, &found.names)));
    }
    html::page("evenkeel whatif", "", &parts)
}

fn over_time(found: &Findings) -> String {
    let chart = |title: &str, name: &str, of: fn(&crate::findings::Load) -> f64| {
        let points = found.load.iter().map(|load| (load.at_s, of(load))).collect();
        let line = Line { label: name.to_string(), points, band: Vec::new(), is_dashed: false };
        let axis = |name: &str| Axis::Plain { name: name.to_string(), log: false };
        let (x, y) = (axis("seconds"), axis(name));
        Chart { title: title.to_string(), x, y, lines: vec![line], marks: Vec::new(), size: Size::Report }.svg()
    };
    if found.load.is_empty() {
        return String::new();
    }
    html::pair(
        &chart("Load", "requests per second", |load| load.per_second),
        &chart("In flight", "requests in flight", |load| load.in_flight),
    )
}

fn changes(answers: &[Answer]) -> String {
    let names = ["p50", "p90", "p99"];
    let plot = |at: usize| {
        let known = answers.iter().filter_map(|answer| Some((answer, answer.figures.as_ref().ok()?)));
        let row = |(number, (answer, figures)): (usize, (&Answer, &Figures))| {
            let change = figures.times[at].change;
            Row {
                name: answer.label.clone(),
                interval: Some((change.low / 1e6, change.high / 1e6)),
                median: change.middle / 1e6,
                expected: None,
                colour: number % 8,
            }
        };
        let rows: Vec<Row> = known.enumerate().map(row).collect();
        intervals(&rows, &format!("change of {}, with 90 % intervals", names[at]), "ms")
    };
    let drawn: Vec<String> = (0..3).map(plot).collect();
    html::plots(names.into_iter().zip(drawn.iter().map(String::as_str)))
}

fn figures(found: &Findings) -> Vec<Vec<String>> {
    let mut rows = vec![["", "p50, ms", "p90, ms", "p99, ms", "note"].map(str::to_string).to_vec()];
    for answer in &found.answers {
        let mut row = vec![answer.label.clone()];
        match &answer.figures {
            Err(_) => row.extend(["", "", ""].map(str::to_string)),
            Ok(figures) => {
                let time = |of: &crate::answer::Time| {
                    let [low, middle, high] = [of.change.low, of.change.middle, of.change.high].map(|ns| ns / 1e6);
                    format!("{} ({middle:+.2} [{low:+.2}, {high:+.2}])", digits(of.value / 1e6))
                };
                row.extend(figures.times.iter().map(time));
            }
        }
        row.push(answer.note());
        rows.push(row);
    }
    rows
}

fn explored(of: &Explored) -> String {
    if of.rows.is_empty() {
        return html::paragraph(&format!("{} are too few to check the model by ({PICKS_MIN}).", of.picks));
    }
    let about = format!(
        "Means of the {} requests whose endpoint was drawn, with 90 % intervals, beside those of the model: of all, by endpoint, and as \
         policies would share them.",
        of.picks
    );
    let mut rows = vec![["", "log and model", ""].map(str::to_string).to_vec()];
    let row = |of: &Beside| {
        let name = match &of.of {
            Shares::Uniform => "all",
            Shares::Endpoint(name) | Shares::Policy(name) => name,
        };
        let agrees = if of.agrees() { "agree" } else { "disagree" };
        vec![name.to_string(), of.figures(), agrees.to_string()]
    };
    rows.extend(of.rows.iter().map(row));
    html::paragraph(&about) + &html::table(&rows)
}

fn validation(model: &Model) -> Vec<Vec<String>> {
    let mut rows = vec![["", "log", "model"].map(str::to_string).to_vec()];
    rows.extend(model.compared.iter().map(|of| vec![of.what.clone(), digits(of.logged), digits(of.model)]));
    rows
}

fn endpoints(model: &Model, names: &[String]) -> Vec<Vec<String>> {
    let header = (1..=model.systems.len()).map(|number| format!("system {number}"));
    let mut rows = vec![std::iter::once(String::new()).chain(header).collect::<Vec<_>>()];
    for (at, name) in names.iter().enumerate() {
        let cells = model.systems.iter().map(|system| way(&system.ways[at]));
        rows.push(std::iter::once(name.clone()).chain(cells).collect());
    }
    let clients = model.systems.iter().map(|system| match system.clients {
        Clients::Open => "as they came".to_string(),
        Clients::Closed(users) => format!("{users} users, each with a request at a time"),
        Clients::Thinking => "those of the log, each with a request at a time and its think times".to_string(),
    });
    rows.push(std::iter::once("clients".to_string()).chain(clients).collect());
    rows
}

fn way(way: &Way) -> String {
    let serving = match way.serving {
        Serving::Unlimited => return "any number at once".to_string(),
        Serving::Fifo { cores } => format!("{cores} at a time"),
        Serving::Sharing { cores } => format!("{} cores, shared", digits(cores)),
    };
    let delay =
        if way.delay_ns > 0 { format!(", after {} ms", digits(way.delay_ns as f64 / 1e6)) } else { String::new() };
    format!("{serving}{delay}: {} per second", digits(way.capacity))
}
