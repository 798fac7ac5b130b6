//! Requests as they end, the latest first; or the phases and tries of a single request.

use super::colours::BAD;
use crate::commands::top::model::Model;
use evenkeel_view::tap::Tapped;
use evenkeel_view::words::{milliseconds, time_of_day};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};

/// Draws the requests in an area.
pub fn draw(frame: &mut Frame<'_>, model: &Model, area: Rect) {
    let requests = model.requests();
    let one = requests.get(model.request).filter(|_| model.is_deep);
    let below = one.map_or(0, |one| 9 + one.tries.len().min(6) as u16);
    let [line, list, detail] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(below)]).areas(area);
    frame.render_widget(Line::from(how(model, requests.len())), line);
    let rows = requests.iter().map(|one| {
        let endpoint = one.tries.last().map_or("-", |last| &last.endpoint);
        Row::new([
            Cell::from(format!("{}.{:03}", time_of_day(one.at_ms), one.at_ms % 1000)),
            Cell::from(status(one)),
            milliseconds(one.total_ms).into(),
            one.tries.len().to_string().into(),
            format!("{}/{endpoint}", one.pool).into(),
            format!("{} {}{}", one.method, one.host, one.path).into(),
        ])
    });
    let widths = [
        Constraint::Length(12),
        Constraint::Length(6),
        Constraint::Length(8),
        Constraint::Length(5),
        Constraint::Length(22),
        Constraint::Fill(1),
    ];
    let header = Row::new(["AT (UTC)", "STATUS", "TOOK", "TRIES", "POOL/ENDPOINT", "REQUEST"]);
    let table = Table::new(rows, widths)
        .header(header.style(Style::new().add_modifier(Modifier::DIM)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, list, &mut TableState::new().with_selected(Some(model.request)));
    if let Some(one) = one {
        frame.render_widget(Paragraph::new(all(one)), detail);
    }
}

/// State of the tap, and the number of requests that are not visible.
fn how(model: &Model, shown: usize) -> Vec<Span<'static>> {
    let mut line = vec![if model.is_paused { "stopped: space goes on".yellow() } else { "\u{25cf} live".green() }];
    line.push(format!("  {shown} requests").into());
    if model.dropped > 0 {
        line.push(format!(", {} came too fast to be shown", model.dropped).yellow());
    }
    line
}

fn status(one: &Tapped) -> Span<'static> {
    match one.status {
        0 => Span::styled("-", BAD),
        500.. => Span::styled(one.status.to_string(), BAD),
        status => status.to_string().into(),
    }
}

/// All that is known of a request.
fn all(one: &Tapped) -> Vec<Line<'static>> {
    let phases = [
        ("queue", Some(one.queue_ms)),
        ("connect", one.connect_ms),
        ("first byte", one.ttfb_ms),
        ("all of it", Some(one.total_ms)),
    ];
    let phases = phases.into_iter().filter_map(|(name, ms)| Some(format!("{name} {}", milliseconds(ms?))));
    let end = if one.end == "normal" { "normally".to_owned() } else { format!("by {} in {}", one.end, one.phase) };
    let facts = [
        ("id", one.request_id.clone()),
        (
            "way",
            format!(
                "{} \u{2192} listener {} \u{2192} route {} \u{2192} pool {}, worker {}",
                one.client, one.listener, one.route, one.pool, one.worker
            ),
        ),
        ("phases", phases.collect::<Vec<_>>().join(", ")),
        ("bytes", format!("{} in, {} out, {}", one.bytes_in, one.bytes_out, one.protocol)),
        ("ended", format!("{end}{}", one.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}")))),
    ];
    let mut lines = vec![Line::default(), Line::from(format!("{} {}{}", one.method, one.host, one.path)).bold()];
    lines.extend(facts.map(|(name, fact)| Line::from(vec![format!("{name:>12}  ").dim(), fact.into()])));
    lines.extend(one.tries.iter().map(|tried| {
        let fact = format!(
            "{}: {} after {}, at {}",
            tried.endpoint,
            tried.end,
            milliseconds(tried.took_ms),
            milliseconds(tried.at_ms)
        );
        Line::from(vec![format!("{:>12}  ", "try").dim(), fact.into()])
    }));
    lines
}
