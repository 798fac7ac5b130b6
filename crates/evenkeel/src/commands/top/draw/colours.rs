//! In which colours is something said? Beside a sign and a word, never alone.

use evenkeel_view::Endpoint;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

/// Bad news.
pub const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// A state: a sign and a word, and a colour beside them.
pub fn state(endpoint: &Endpoint) -> Span<'static> {
    let (sign, style) = match endpoint.state.as_str() {
        "up" => ('\u{25cf}', Style::new().fg(Color::Green)),
        "ramping" | "probation" | "unchecked" => ('\u{25d0}', Style::new().fg(Color::Yellow)),
        "draining" | "disabled" => ('\u{25cb}', Style::new()),
        _ => ('\u{2716}', BAD),
    };
    Span::styled(format!("{sign} {}", endpoint.state), style)
}
