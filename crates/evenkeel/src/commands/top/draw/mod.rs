//! Drawing: a line on top with the process, a page, and a line at the bottom with the keys.

// Order: overview, pools, routes, tap, colours
mod colours;
mod overview;
mod pools;
mod routes;
mod tap;

use super::keys::KEYS;
use super::model::{Entry, Model, Screen};
use colours::BAD;
use evenkeel_view::words::ago;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Clear, Paragraph};

/// Draws the screen of a model.
pub fn screen(frame: &mut Frame<'_>, model: &Model) {
    let [top, page, bottom] =
        Layout::vertical([Constraint::Length(2), Constraint::Fill(1), Constraint::Length(1)]).areas(frame.area());
    head(frame, model, top);
    match model.screen {
        Screen::Overview => overview::draw(frame, model, page),
        Screen::Pools => pools::draw(frame, model, page),
        Screen::Tap => tap::draw(frame, model, page),
        Screen::Routes => routes::draw(frame, model, page),
    }
    frame.render_widget(foot(model), bottom);
    if model.entry == Entry::Help {
        help(frame, page);
    }
}

fn head(frame: &mut Frame<'_>, model: &Model, area: Rect) {
    let pages = [
        (Screen::Overview, "1 Overview"),
        (Screen::Pools, "2 Pools"),
        (Screen::Tap, "3 Tap"),
        (Screen::Routes, "4 Routes"),
    ];
    let mut tabs = vec!["evenkeel ".bold()];
    for (screen, name) in pages {
        let style = if screen == model.screen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        tabs.extend([Span::styled(format!(" {name} "), style), " ".into()]);
    }
    tabs.push("  ? keys  q end".dim());
    frame.render_widget(Text::from(vec![Line::from(tabs), Line::from(who(model))]), area);
}

/// The process and its state.
fn who(model: &Model) -> Vec<Span<'static>> {
    let Some(status) = &model.status else { return vec!["waiting for the first answer".dim()] };
    let up = ago(status.now_ms.saturating_sub(status.started_ms));
    let mut line = vec![
        format!("{} process {}, up {up}, generation {}", status.version, status.pid, status.config.generation).into(),
    ];
    if status.config.differs {
        line.push(", differs from its file".yellow());
    }
    match (&model.lost, status.ready) {
        (Some(why), _) => line.push(Span::styled(format!("  \u{2716} OLD: {why}"), BAD)),
        (None, true) => line.push("  \u{25cf} ready".green()),
        (None, false) => line.push(Span::styled(format!("  \u{2716} not ready: {}", status.reasons.join(", ")), BAD)),
    }
    line
}

/// A question, the outcome of an order, or the keys.
fn foot(model: &Model) -> Line<'static> {
    match &model.entry {
        Entry::Confirm(order) => Line::from(vec![
            Span::styled(format!("{}? ", order.text()), Style::new().add_modifier(Modifier::BOLD)),
            "y: yes, any other key: no".yellow(),
        ]),
        Entry::Filter => Line::from(vec!["Filter: ".bold(), model.filter.clone().into(), "\u{2588}  Enter, Esc".dim()]),
        Entry::Weight(typed) => Line::from(vec![
            "Weight, or nothing for that of the configuration: ".bold(),
            typed.clone().into(),
            "\u{2588}".into(),
        ]),
        Entry::None | Entry::Help => match &model.said {
            Some(Ok(said)) => said.clone().green().into(),
            Some(Err(said)) => Span::styled(format!("Not done: {said}"), BAD).into(),
            None => hints(model).dim().into(),
        },
    }
}

fn hints(model: &Model) -> String {
    let filter = if model.filter.is_empty() { String::new() } else { format!("only \"{}\" (Esc)  ", model.filter) };
    let keys = match model.screen {
        Screen::Overview => "2 pools  3 tap  4 routes",
        Screen::Pools => {
            "Enter all of it  / filter  s sort  d drain  u undrain  w weight  x down  o up  a auto  e eject  r restore"
        }
        Screen::Tap => "Enter all of it  / filter  space stop",
        Screen::Routes => "Enter all of it  / filter",
    };
    filter + keys
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let lines = KEYS.iter().map(|(keys, what)| Line::from(vec![format!("{keys:>12}  ").bold(), (*what).into()]));
    let height = KEYS.len() as u16 + 2;
    let [_, middle, _] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(height), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Clear, middle);
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).block(Block::bordered().title("Keys")), middle);
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::seen;
    use super::super::model::{Message, Model};
    use super::*;
    use evenkeel_view::served::{Action, Matching, Passed, Redirect, Route};
    use evenkeel_view::tap::{Tapped, TappedTry};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::time::Instant;

    fn drawn(model: &Model, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| screen(frame, model)).expect("it can be drawn to");
        let buffer = terminal.backend().buffer();
        let rows = buffer.content().chunks(usize::from(width));
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>() + "\n").collect()
    }

    fn model(screen: Screen) -> Model {
        let mut model = Model::default();
        model.take(seen(1000), Instant::now());
        model.screen = screen;
        model
    }

    #[test]
    fn what_is_down_is_said_with_its_reason_on_every_page_of_pools() {
        for screen in [Screen::Overview, Screen::Pools] {
            let shown = drawn(&model(screen), 100, 24);
            assert!(
                shown.contains("two") && shown.contains("\u{2716} down") && shown.contains("cannot connect"),
                "{shown}"
            );
            assert!(shown.contains("\u{25cf} ready"), "{shown}");
        }
    }

    #[test]
    fn names_keep_their_port_on_80_columns() {
        let Message::Seen(mut status, history, events) = seen(1000) else { panic!("a status") };
        status.pools[0].endpoints[0].name = "10.100.200.30:8081".into();
        status.pools[0].endpoints[1].name = "[2001:db8:85a3::8a2e:370:7334]:8443".into();
        let mut model = model(Screen::Pools);
        model.take(Message::Seen(status, history, events), Instant::now());
        let shown = drawn(&model, 80, 24);
        assert!(shown.contains("10.100.200.30:8081 "), "{shown}");
        assert!(shown.contains("370:7334]:8443 ") && shown.contains("cannot connect"), "{shown}");
    }

    #[test]
    fn old_values_are_marked() {
        let mut model = model(Screen::Pools);
        model.take(Message::Lost("connection refused".into()), Instant::now());
        let shown = drawn(&model, 100, 24);
        assert!(shown.contains("OLD: connection refused") && shown.contains("two"), "{shown}");
    }

    #[test]
    fn a_request_shows_its_phases_and_tries() {
        let mut model = model(Screen::Tap);
        let tried = |endpoint: &str, end: &str| TappedTry {
            endpoint: endpoint.into(),
            end: end.into(),
            ..TappedTry::default()
        };
        let one = Tapped {
            path: "/cart".into(),
            status: 200,
            queue_ms: 1.5,
            ttfb_ms: Some(12.0),
            total_ms: 13.0,
            request_id: "5f0c".into(),
            tries: vec![tried("one", "connect"), tried("two", "answered")],
            ..Tapped::default()
        };
        model.take(Message::Tapped(Box::new(one)), Instant::now());
        assert!(drawn(&model, 80, 24).contains("/cart"));
        model.is_deep = true;
        let shown = drawn(&model, 80, 24);
        assert!(
            ["5f0c", "one", "connect", "two", "answered", "first byte", "12ms"].iter().all(|text| shown.contains(text)),
            "{shown}"
        );
    }

    #[test]
    fn a_route_shows_its_action_and_all_of_it_when_it_is_opened() {
        let mut model = model(Screen::Routes);
        let redirect = Redirect { status: 301, to: "https://{host}{path}".into() };
        let route = Route {
            name: "old".into(),
            action: Action::Redirect(redirect),
            matching: Matching { criteria: vec!["header x-beta = 1".into()], ..Matching::default() },
            filters: vec!["limits".into()],
            at: vec![Passed {
                listener: "web".into(),
                requests: 1234,
                rate: 2.0,
                error_rate: 1.0,
                ..Passed::default()
            }],
            ..Route::default()
        };
        model.take(Message::Routes(vec![route]), Instant::now());
        let shown = drawn(&model, 100, 24);
        assert!(["old", "redirect 301", "header x-beta", "50%"].iter().all(|text| shown.contains(text)), "{shown}");
        assert!(!shown.contains("limits"), "{shown}");
        model.is_deep = true;
        let shown = drawn(&model, 100, 24);
        let texts = ["to https://{host}{path}", "filters  limits", "listener web: 2.0/s"];
        assert!(texts.iter().all(|text| shown.contains(text)), "{shown}");
    }

    #[test]
    fn any_size_will_do() {
        for screen in [Screen::Overview, Screen::Pools, Screen::Tap, Screen::Routes] {
            let mut model = model(screen);
            for (width, height) in [(80, 24), (200, 60), (20, 5), (3, 2), (1, 1)] {
                for is_deep in [false, true] {
                    model.is_deep = is_deep;
                    for entry in [Entry::None, Entry::Help, Entry::Filter] {
                        model.entry = entry;
                        drawn(&model, width, height);
                    }
                }
            }
        }
    }
}
