//! Current figures, figures of the last minutes, endpoints that are not up, and recent events.

use super::colours::{BAD, state};
use crate::commands::top::model::Model;
use evenkeel_view::history::Span as Second;
use evenkeel_view::words::{self, Traffic, ago, percent, percentile, rate};
use evenkeel_view::{Event, Status};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};
use std::collections::BTreeMap;

/// Seconds over which the figures of now are summed.
const NOW: usize = 5;

/// Draws the overview in an area.
pub fn draw(frame: &mut Frame<'_>, model: &Model, area: Rect) {
    let [figures, curves, rest] =
        Layout::vertical([Constraint::Length(3), Constraint::Length(9), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Paragraph::new(now(model)), figures);
    self::curves(frame, model, curves);
    let Some(status) = &model.status else { return };
    let mut lines = states(status);
    lines.extend(status.listeners.iter().filter_map(|listener| {
        let http3 = listener.http3.as_ref()?;
        Some(Line::from(vec![format!("{} over HTTP/3: ", listener.name).dim(), words::http3(http3).into()]))
    }));
    lines.push(Line::default());
    lines.extend(model.events.iter().rev().map(|event| happened(event, status.now_ms)));
    frame.render_widget(Paragraph::new(lines), rest);
}

/// Words for the traffic that the process serves.
fn traffic(model: &Model) -> &'static Traffic {
    model.status.as_ref().map_or(Traffic::of([]), Traffic::of_all)
}

/// Sums over the last [`NOW`] seconds.
fn now(model: &Model) -> Vec<Line<'static>> {
    let last = &model.spans[model.spans.len().saturating_sub(NOW)..];
    let seconds = last.len().max(1) as f64;
    let (requests, errors) = last.iter().fold((0, 0), |sum, one| (sum.0 + one.requests, sum.1 + one.errors));
    let largest = |of: fn(&Second) -> Option<f64>| {
        let of = last.iter().filter_map(of).reduce(f64::max);
        of.map_or("-".to_owned(), |ms| percentile(ms, ""))
    };
    let part = f64::from(errors) / f64::from(requests.max(1));
    let failed = format!("{} ({})", rate(f64::from(errors) / seconds), percent(part, " "));
    let figures: [(&str, Span<'static>); 5] = [
        (traffic(model).rate, rate(f64::from(requests) / seconds).bold()),
        ("errors/s", if errors > 0 { Span::styled(failed, BAD) } else { failed.bold() }),
        ("p50", largest(|one| one.p50_ms).bold()),
        ("p99", largest(|one| one.p99_ms).bold()),
        ("in flight", last.last().map_or(0, |one| one.in_flight).to_string().bold()),
    ];
    let spans = figures.into_iter().flat_map(|(name, figure)| [name.dim(), " ".into(), figure, "   ".into()]);
    vec![Line::default(), Line::from(spans.collect::<Vec<_>>()), Line::default()]
}

/// The last minutes, a second in each column.
fn curves(frame: &mut Frame<'_>, model: &Model, area: Rect) {
    let (spans, requests) = (&model.spans, traffic(model).rate);
    let rows = Layout::vertical([Constraint::Length(2); 4]).split(area);
    for (name, row) in [requests, "errors/s", "p99", "in flight"].into_iter().zip(rows.iter()) {
        let [label, curve] = Layout::horizontal([Constraint::Length(22), Constraint::Fill(1)]).areas(*row);
        let shown = &spans[spans.len().saturating_sub(usize::from(curve.width))..];
        let of = |one: &Second| match name {
            "errors/s" => u64::from(one.errors),
            "in flight" => u64::from(one.in_flight),
            name if name == requests => u64::from(one.requests),
            _ => one.p99_ms.map_or(0, |ms| (ms * 1000.0) as u64),
        };
        let values: Vec<u64> = shown.iter().map(of).collect();
        let most = values.iter().max().copied().unwrap_or(0);
        let most = if name == "p99" { percentile(most as f64 / 1000.0, "") } else { most.to_string() };
        frame.render_widget(
            Paragraph::new(vec![Line::from(name), Line::from(format!("  at most {most}")).dim()]),
            label,
        );
        frame.render_widget(Sparkline::default().data(&values), curve);
    }
}

/// Number of endpoints in each state, and each endpoint that is not up.
fn states(status: &Status) -> Vec<Line<'static>> {
    let all = || status.pools.iter().flat_map(|pool| pool.endpoints.iter().map(move |one| (pool, one)));
    let mut counts = BTreeMap::<&str, usize>::new();
    all().for_each(|(_, one)| *counts.entry(&one.state).or_default() += 1);
    let counts: Vec<String> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let mut lines = vec![Line::from(vec!["endpoints: ".dim(), counts.join(", ").into()])];
    for (pool, one) in all().filter(|(_, one)| one.state != "up") {
        let since = format!(" {} ", ago(status.now_ms.saturating_sub(one.since_ms)));
        let why = one.reason.clone().unwrap_or_default();
        lines.push(Line::from(vec![state(one), since.dim(), format!("{} {}  {why}", pool.name, one.name).into()]));
    }
    lines
}

fn happened(event: &Event, now_ms: u64) -> Line<'static> {
    let by = event.by.as_ref().map_or(String::new(), |by| format!(" ({by})"));
    let when = format!("{:>7} ago  ", ago(now_ms.saturating_sub(event.at_ms)));
    Line::from(vec![when.dim(), format!("{}  {}{by}", event.about(" "), event.text).into()])
}
