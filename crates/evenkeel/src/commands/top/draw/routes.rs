//! All routes: match, action, filters and traffic; or all details of a single route.

use super::colours::BAD;
use crate::commands::top::model::Model;
use evenkeel_view::served::{Passed, Route};
use evenkeel_view::words::{grouped, percent, rate};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState, Wrap};

/// Columns with their widths. A text that has no room is cut; all of it is shown below the selected route.
const COLUMNS: [(&str, Constraint); 5] = [
    ("ROUTE", Constraint::Fill(2)),
    ("ACTION", Constraint::Fill(3)),
    ("MATCH", Constraint::Fill(3)),
    ("RATE/S", Constraint::Length(8)),
    ("ERRORS", Constraint::Length(8)),
];

/// Draws the table of routes in an area.
pub fn draw(frame: &mut Frame<'_>, model: &Model, area: Rect) {
    let routes = model.routes();
    let selected = routes.get(model.route).copied();
    let deep = selected.filter(|_| model.is_deep);
    let [list, detail] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(if deep.is_some() { 10 } else { 0 })]).areas(area);
    let row = |route: &&Route| {
        let cells = [route.name.clone(), route.action.words(), route.matching.words(), rate(sum(route, |at| at.rate))];
        Row::new(cells.into_iter().map(Cell::from).chain([Cell::from(errors(route))]))
    };
    let (names, widths): (Vec<_>, Vec<_>) = COLUMNS.into_iter().unzip();
    let table = Table::new(routes.iter().map(row), widths)
        .header(Row::new(names).style(Style::new().add_modifier(Modifier::DIM)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let state = &mut TableState::new().with_selected(selected.map(|_| model.route));
    frame.render_stateful_widget(table, list, state);
    if let Some(route) = deep {
        frame.render_widget(Paragraph::new(all(route)).wrap(Wrap { trim: true }), detail);
    }
}

fn sum(route: &Route, of: fn(&Passed) -> f64) -> f64 {
    route.at.iter().map(of).sum()
}

/// Part of the requests of the last seconds that failed.
fn errors(route: &Route) -> Span<'static> {
    let (rate, errors) = (sum(route, |at| at.rate), sum(route, |at| at.error_rate));
    match errors {
        _ if rate <= 0.0 => "-".into(),
        errors if errors > 0.0 => Span::styled(percent(errors / rate, ""), BAD),
        _ => percent(0.0, "").into(),
    }
}

fn all(route: &Route) -> Vec<Line<'static>> {
    let fact = |name: &str, text: String| Line::from(vec![format!("{name:<9}").dim(), text.into()]);
    let filters = if route.filters.is_empty() { "none".to_owned() } else { route.filters.join(", ") };
    let mut lines = vec![
        Line::from(route.name.clone().bold()),
        fact("match", route.matching.words()),
        fact("action", route.action.words()),
        fact("filters", filters),
    ];
    lines.extend(route.at.iter().map(|at| {
        let counts = format!("{} so far, {} errors", grouped(at.requests), grouped(at.errors));
        fact("listener", format!("{}: {}/s, {counts}", at.listener, rate(at.rate)))
    }));
    lines
}
