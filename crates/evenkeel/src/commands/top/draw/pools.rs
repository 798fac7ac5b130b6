//! All endpoints: state, weight, share, rate, latency and orders; or all details of a single endpoint.

use super::colours::{BAD, state};
use crate::commands::top::model::{Column, Model, Row as Shown};
use evenkeel_view::words::{self, Traffic, ago, grouped, milliseconds, percentile, weight};
use evenkeel_view::{Endpoint, LatencyOfLate, Pool, Status};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};

/// Columns, and how wide they are.
const COLUMNS: [(&str, Constraint); 11] = [
    ("ENDPOINT", Constraint::Min(16)),
    ("STATE", Constraint::Length(12)),
    ("SINCE", Constraint::Length(7)),
    ("WEIGHT", Constraint::Length(9)),
    ("SHARE", Constraint::Length(9)),
    ("REQ/S", Constraint::Length(8)),
    ("ERR/S", Constraint::Length(7)),
    ("IN FLIGHT", Constraint::Length(9)),
    ("P50", Constraint::Length(7)),
    ("P99", Constraint::Length(7)),
    ("WHY", Constraint::Fill(2)),
];

/// Blanks before the name of an endpoint.
const INDENT: usize = 2;

/// Least width of the column of names.
const NAME_MIN: u16 = 16;

/// Columns that are omitted if there is no room for all.
const WIDE: [usize; 5] = [2, 3, 6, 7, 8];

/// The least width that has room for all of them.
const ROOMY: u16 = 110;

/// Columns for which the area has room.
fn shown<T>(all: impl Iterator<Item = T>, area: &Rect) -> impl Iterator<Item = T> {
    let has_room = area.width >= ROOMY;
    all.enumerate().filter(move |(at, _)| has_room || !WIDE.contains(at)).map(|(_, one)| one)
}

/// Draws the table of pools and endpoints in an area.
pub fn draw(frame: &mut Frame<'_>, model: &Model, area: Rect) {
    let now_ms = model.status.as_ref().map_or(0, |status| status.now_ms);
    let selected = model.endpoint().filter(|_| model.is_deep);
    let [list, detail] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(if selected.is_some() { 10 } else { 0 })])
            .areas(area);
    let named = name_width(model, area.width);
    let rows = model.rows().into_iter().map(|row| match row.endpoint {
        None => Row::new([Cell::from(of_pool(model, row.pool))]).style(Style::new().add_modifier(Modifier::BOLD)),
        Some(endpoint) => Row::new(shown(cells(model, row.pool, endpoint, now_ms, named).into_iter(), &area)),
    });
    let per_second = model.status.as_ref().map_or(Traffic::of([]), of_all_pools).per_second;
    let sorted = match model.column {
        Column::Configured => String::new(),
        column => format!(" by {}", column.name()),
    };
    let header = shown(COLUMNS.iter().copied(), &area).map(|(name, _)| match name {
        "ENDPOINT" => format!("ENDPOINT{sorted}"),
        "REQ/S" => per_second.to_owned(),
        name => name.to_owned(),
    });
    let header = Row::new(header);
    let widths = shown(COLUMNS.iter().copied(), &area).map(|(name, width)| match name {
        "ENDPOINT" => Constraint::Length(named),
        _ => width,
    });
    let table = Table::new(rows, widths)
        .header(header.style(Style::new().add_modifier(Modifier::DIM)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, list, &mut TableState::new().with_selected(model.position()));
    if let Some(Shown { pool, endpoint: Some(endpoint) }) = selected {
        frame.render_widget(Paragraph::new(all(model, pool, endpoint, now_ms)), detail);
    }
}

fn of_all_pools(status: &Status) -> &'static Traffic {
    Traffic::of(status.pools.iter().flat_map(|pool| &pool.modes).map(String::as_str))
}

fn of_pool(model: &Model, pool: &Pool) -> String {
    let sign = if model.collapsed.contains(&pool.name) { '\u{25b8}' } else { '\u{25be}' };
    let panic = if pool.in_panic { ", in panic" } else { "" };
    let waiting = if pool.waiting > 0 { format!(", {} wait", pool.waiting) } else { String::new() };
    format!("{sign} {} ({}){panic}{waiting}", pool.name, pool.algorithm)
}

/// Width of the column of names: the longest name with its port, and at most five sixteenths of the screen, so that the
/// reason has room on 80 columns.
fn name_width(model: &Model, width: u16) -> u16 {
    let rows = model.rows();
    let names = rows.iter().map(|row| match row.endpoint {
        Some(endpoint) => endpoint.name.chars().count() + INDENT,
        None => of_pool(model, row.pool).chars().count(),
    });
    let longest = u16::try_from(names.max().unwrap_or(0)).unwrap_or(u16::MAX);
    longest.clamp(NAME_MIN, (width * 5 / 16).max(NAME_MIN))
}

/// Shortens a name to this many characters. Cuts its middle, since the port is at its end.
fn fitted(name: &str, room: usize) -> String {
    let length = name.chars().count();
    if length <= room {
        return name.to_owned();
    }
    let end = room.saturating_sub(1) * 2 / 3;
    let start = room.saturating_sub(1 + end);
    name.chars().take(start).chain(['\u{2026}']).chain(name.chars().skip(length - end)).collect()
}

fn cells(model: &Model, pool: &Pool, one: &Endpoint, now_ms: u64, named: u16) -> Vec<Cell<'static>> {
    let rate = model.rate(pool, one);
    let percent = |part: f64| format!("{:.0}", part * 100.0);
    let share = format!("{}/{}%", one.share.map_or("-".to_owned(), percent), percent(one.fair_share));
    let latency = |of: fn(&LatencyOfLate) -> f64| {
        one.latency.as_ref().map_or("-".to_owned(), |latency| percentile(of(latency), ""))
    };
    let errors = words::rate(rate.failed);
    vec![
        Cell::from(format!("  {}", fitted(&one.name, usize::from(named).saturating_sub(INDENT)))),
        Cell::from(state(one)),
        ago(now_ms.saturating_sub(one.since_ms)).into(),
        weight(one, "\u{2192}").into(),
        share.into(),
        words::rate(rate.requests).into(),
        if rate.failed > 0.0 { Span::styled(errors, BAD).into() } else { errors.into() },
        one.in_flight.to_string().into(),
        latency(|latency| latency.p50_ms).into(),
        latency(|latency| latency.p99_ms).into(),
        one.reason.clone().unwrap_or_default().into(),
    ]
}

/// All that is known of an endpoint.
fn all(model: &Model, pool: &Pool, one: &Endpoint, now_ms: u64) -> Vec<Line<'static>> {
    let ago_of = |at_ms: u64| format!("{} ago", ago(now_ms.saturating_sub(at_ms)));
    let check = one.check.as_ref().map_or("none".to_owned(), |check| match &check.failure {
        None => format!("passed {}, in {}", ago_of(check.at_ms), milliseconds(check.took_ms)),
        Some(failure) => format!("failed {}: {failure}", ago_of(check.at_ms)),
    });
    let order = one.order.as_ref().map_or("none".to_owned(), |order| {
        let drain = order.drain.map(|how| format!("drain ({how:?})"));
        let weight = order.weight.map(|weight| format!("weight {weight}"));
        let health = order.health.map(|health| format!("counts as {health:?}").to_lowercase());
        let what = [drain, weight, health].into_iter().flatten().collect::<Vec<_>>().join(", ");
        format!("{what}, by {}, {}", order.by, ago_of(order.at_ms))
    });
    let rate = model.rate(pool, one);
    let facts = [
        ("address", one.address.clone().unwrap_or_else(|| "not known yet".into())),
        (
            "state",
            format!(
                "{}, since {}; {}",
                one.state,
                ago_of(one.since_ms),
                one.reason.as_deref().unwrap_or("nothing is wrong")
            ),
        ),
        ("tier, zone", format!("{}, {}", one.priority, one.zone.as_deref().unwrap_or("none"))),
        ("last check", check),
        ("order", order),
        (
            Traffic::of_pool(pool).many,
            format!(
                "{}, of which {} failed; {} and {} a second",
                grouped(one.requests),
                grouped(one.failed),
                words::rate(rate.requests),
                words::rate(rate.failed)
            ),
        ),
    ];
    let mut lines = vec![Line::default(), Line::from(format!("{} of {}", one.name, pool.name)).bold()];
    lines.extend(facts.map(|(name, fact)| Line::from(vec![format!("{name:>12}  ").dim(), fact.into()])));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_keeps_its_port() {
        assert_eq!(fitted("10.0.0.1:8081", 14), "10.0.0.1:8081");
        assert_eq!(fitted("shop-7.internal.example.com:8443", 18), "shop-7\u{2026}le.com:8443");
        assert_eq!(fitted("abc", 1), "\u{2026}");
    }
}
