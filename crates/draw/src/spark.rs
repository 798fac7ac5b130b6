//! Sparklines: lines without axes for the cells of a table.

use crate::page::escape;

const WIDTH: f64 = 100.0;
const HEIGHT: f64 = 22.0;

/// Draws the values from left to right; NaN leaves a gap. `label` is the text for screen readers.
pub fn spark(values: &[f64], label: &str) -> String {
    let high = values.iter().copied().fold(0.0, f64::max);
    let step = WIDTH / values.len().saturating_sub(1).max(1) as f64;
    let place = |(index, value): (usize, f64)| {
        let part = if high > 0.0 { value / high } else { 0.0 };
        (index as f64 * step, HEIGHT - 2.0 - part * (HEIGHT - 4.0), value.is_nan())
    };
    let places: Vec<(f64, f64, bool)> = values.iter().copied().enumerate().map(place).collect();
    let line = |part: &[(f64, f64, bool)]| {
        let points: Vec<String> = part.iter().map(|(x, y, _)| format!("{x:.1},{y:.1}")).collect();
        format!("<polyline class=\"line s0\" points=\"{}\"/>", points.join(" "))
    };
    let lines: String = places.split(|(_, _, gap)| *gap).filter(|part| !part.is_empty()).map(line).collect();
    let label = escape(label);
    format!(
        "<svg class=\"spark\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{label}\"><title>{label}</title>{lines}</svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::spark;

    #[test]
    fn what_is_not_known_interrupts_the_line() {
        let drawn = spark(&[0.0, 4.0, f64::NAN, 2.0], "rate");
        assert_eq!(drawn.matches("<polyline").count(), 2, "{drawn}");
        assert!(drawn.contains("points=\"0.0,20.0 33.3,2.0\"") && !drawn.contains("NaN"), "{drawn}");
        assert!(spark(&[], "rate").contains("</svg>") && !spark(&[0.0], "rate").contains("NaN"));
    }
}
