//! Bars of an endpoint's share, with a mark at its fair share.

use crate::page::escape;

/// Draws a bar as long as `share`, with a mark at `fair`. Both are 0 to 1, and the full length of the bar stands for
/// `whole`.
pub fn share(share: f64, fair: f64, whole: f64) -> String {
    let place = |part: f64| if whole > 0.0 { (part / whole).clamp(0.0, 1.0) * 100.0 } else { 0.0 };
    let label = escape(&format!("{:.1} % of the requests, {:.1} % is fair", share * 100.0, fair * 100.0));
    format!(
        "<svg class=\"share\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{label}\">\
         <title>{label}</title><rect class=\"back\" width=\"100\" height=\"10\"/><rect class=\"f0\" width=\"{:.1}\" height=\"10\"/>\
         <line class=\"fair\" x1=\"{1:.1}\" x2=\"{1:.1}\" y1=\"0\" y2=\"10\"/></svg>",
        place(share),
        place(fair)
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_longest_bar_fills_its_cell() {
        let drawn = super::share(0.25, 0.5, 0.5);
        assert!(drawn.contains("width=\"50.0\"") && drawn.contains("x1=\"100.0\""), "{drawn}");
        assert!(!super::share(0.0, 0.0, 0.0).contains("NaN"));
    }
}
