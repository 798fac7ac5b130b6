//! Colours, which always accompany a sign or a word.

use evenkeel_view::Endpoint;
use evenkeel_view::words::Standing;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

pub const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// A state as a sign and a word, with a colour.
pub fn state(endpoint: &Endpoint) -> Span<'static> {
    let (sign, style) = match Standing::of(endpoint) {
        Standing::Up => ('\u{25cf}', Style::new().fg(Color::Green)),
        Standing::Partly => ('\u{25d0}', Style::new().fg(Color::Yellow)),
        Standing::Out => ('\u{25cb}', Style::new()),
        Standing::Down => ('\u{2716}', BAD),
    };
    Span::styled(format!("{sign} {}", endpoint.state), style)
}
