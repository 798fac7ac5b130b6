//! Bars of an endpoint's share, with a mark at its fair share.

use crate::page::escape;

/// Draws a bar as long as `share`, with a mark at `fair`. Both are 0 to 1, and the full length of the bar stands for
/// `whole`.
pub fn share(share: f64, fair: f64, whole: f64) -> String {
    let place = |part: f64| if whole > 0.0 { (part / whole).clamp(0.0, 1.0) * 100.0 } else { 0.0 };
    let label = escape(&label(share, fair));
    format!(
        "<svg class=\"share\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{label}\">\
         <title>{label}</title><rect class=\"back\" width=\"100\" height=\"10\"/><rect class=\"f0\" width=\"{:.1}\" height=\"10\"/>\
         <line class=\"fair\" x1=\"{1:.1}\" x2=\"{1:.1}\" y1=\"0\" y2=\"10\"/></svg>",
        place(share),
        place(fair)
    )
}

fn label(share: f64, fair: f64) -> String {
    format!("{:.0} % of the requests, {:.0} % is fair", share * 100.0, fair * 100.0)
}

/// A bar as long as this part, 0 to 1, of its cell. `about`: the same in words.
pub fn bar(part: f64, about: &str) -> String {
    format!(
        "<svg class=\"share\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">\
         <rect class=\"back\" width=\"100\" height=\"10\"/><rect class=\"f0\" width=\"{:.1}\" height=\"10\"/></svg>",
        escape(about),
        part.clamp(0.0, 1.0) * 100.0
    )
}

pub struct Part {
    pub name: String,
    /// Part of the requests that it got, 0 to 1.
    pub share: f64,
    /// Part that its weight asks for, 0 to 1.
    pub fair: f64,
    pub class: &'static str,
}

/// Bars of all endpoints of a pool beside each other, each with a mark at its fair share. `about`: the same in words.
pub fn shares(parts: &[Part], about: &str) -> String {
    const HEIGHT: f64 = 40.0;
    const WIDTH: f64 = 10.0;
    let whole = parts.iter().flat_map(|part| [part.share, part.fair]).fold(0.0, f64::max);
    let height = |part: f64| if whole > 0.0 { part / whole * HEIGHT } else { 0.0 };
    let bar = |(at, part): (usize, &Part)| {
        let (left, tall, fair) = (at as f64 * WIDTH, height(part.share), HEIGHT - height(part.fair));
        let label = escape(&format!("{}: {}", part.name, label(part.share, part.fair)));
        format!(
            "<g><title>{label}</title><rect class=\"back\" x=\"{:.1}\" width=\"{:.1}\" height=\"{HEIGHT}\"/>\
             <rect class=\"{}\" x=\"{0:.1}\" y=\"{:.1}\" width=\"{1:.1}\" height=\"{tall:.1}\"/>\
             <line class=\"fair\" x1=\"{0:.1}\" x2=\"{:.1}\" y1=\"{fair:.1}\" y2=\"{fair:.1}\"/></g>",
            left,
            WIDTH * 0.88,
            part.class,
            HEIGHT - tall,
            left + WIDTH * 0.88,
        )
    };
    // A few bars would be as wide as a card; the room beside them stays empty.
    let slots = parts.len().max(8) as f64;
    let bars: String = parts.iter().enumerate().map(bar).collect();
    format!(
        "<svg class=\"shares\" viewBox=\"0 -1 {:.0} {}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">{bars}</svg>",
        slots * WIDTH,
        HEIGHT + 2.0,
        escape(about)
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_largest_share_is_as_high_as_the_picture() {
        let part = |name: &str, share, fair| super::Part { name: name.into(), share, fair, class: "f0" };
        let drawn = super::shares(&[part("a", 0.8, 0.5), part("b", 0.2, 0.5)], "uneven");
        assert!(drawn.contains("y=\"0.0\" width=\"8.8\" height=\"40.0\""), "{drawn}");
        assert!(drawn.contains("y=\"30.0\" width=\"8.8\" height=\"10.0\"") && drawn.contains("y1=\"15.0\""), "{drawn}");
        assert!(!super::shares(&[part("a", 0.0, 0.0)], "idle").contains("NaN"));
    }

    #[test]
    fn the_longest_bar_fills_its_cell() {
        let drawn = super::share(0.25, 0.5, 0.5);
        assert!(drawn.contains("width=\"50.0\"") && drawn.contains("x1=\"100.0\""), "{drawn}");
        assert!(!super::share(0.0, 0.0, 0.0).contains("NaN"));
    }
}
