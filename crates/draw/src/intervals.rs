//! Values with their intervals. Each has a line with its interval, its median, and a mark for the expected value.

use crate::number::digits;
use crate::page::escape;
use std::fmt::Write;

/// Height of a line, and the ends of the scale.
const LINE: f64 = 22.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 600.0;

/// A value with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the value, left of its line.
    pub name: String,
    /// Lower and upper end of its interval; `None` if there is only the median.
    pub interval: Option<(f64, f64)>,
    /// Median of the value over all runs.
    pub median: f64,
    /// Value that was expected, if any.
    pub expected: Option<f64>,
    /// Index of its colour in [`COLOURS`](crate::page::COLOURS), 0 to 7.
    pub colour: usize,
}

/// Draws all rows on one scale, from 0 or the lowest value, whichever is less. `label` is the text for screen readers.
pub fn intervals(rows: &[Row], label: &str) -> String {
    let ends = |row: &Row| [Some(row.median), row.interval.map(|of| of.0), row.interval.map(|of| of.1), row.expected];
    let (first, last) = rows.iter().flat_map(ends).flatten().fold((0.0, 0.0), |(a, b), x| (x.min(a), x.max(b)));
    let whole: f64 = last - first;
    let place = |x: f64| LEFT + if whole > 0.0 { ((x - first) / whole).clamp(0.0, 1.0) * (RIGHT - LEFT) } else { 0.0 };
    let (height, label) = (LINE * rows.len() as f64 + 4.0, escape(label));
    let mut svg = format!(
        "<svg class=\"intervals\" viewBox=\"0 0 700 {height}\" role=\"img\" aria-label=\"{label}\"><title>{label}</title>"
    );
    for (at, row) in rows.iter().enumerate() {
        let (y, colour) = (LINE * (at as f64 + 0.5) + 2.0, row.colour % 8);
        // Writing to a String cannot fail.
        let mut add = |text: String| _ = svg.write_str(&text);
        add(format!("<text class=\"end\" x=\"{}\" y=\"{}\">{}</text>", LEFT - 12.0, y + 4.0, escape(&row.name)));
        add(format!("<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y}\" y2=\"{y}\"/>"));
        if let Some((low, high)) = row.interval {
            let (from, to) = (place(low), place(high));
            let width = (to - from).max(1.0);
            add(format!(
                "<rect class=\"f{colour} band\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"12\"/>",
                y - 6.0
            ));
        }
        add(format!("<circle class=\"f{colour}\" cx=\"{:.1}\" cy=\"{y}\" r=\"4\"/>", place(row.median)));
        if let Some(expected) = row.expected {
            let x = place(expected);
            add(format!("<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{}\"/>", y - 9.0, y + 9.0));
        }
        add(format!("<text x=\"{}\" y=\"{}\">{}</text>", RIGHT + 12.0, y + 4.0, digits(row.median)));
    }
    svg + "</svg>\n"
}

/// Draws a value in relation to the wanted range: the range, the interval on it, and the median. An infinite end has no
/// bound. `class`: CSS class of the verdict.
pub fn strip(median: f64, (low, high): (f64, f64), (from, to): (f64, f64), class: &str) -> String {
    const WIDTH: f64 = 150.0;
    let finite = |x: &f64| x.is_finite();
    let all: Vec<f64> = [median, low, high, from, to].into_iter().filter(finite).collect();
    let (first, last) =
        (all.iter().fold(f64::INFINITY, |a, b| a.min(*b)), all.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b)));
    let margin = ((last - first) * 0.15).max(f64::MIN_POSITIVE);
    let place = |x: f64| ((x - first + margin) / (last - first + 2.0 * margin)).clamp(0.0, 1.0) * WIDTH;
    let (wanted, wide) = (place(from), (place(to) - place(from)).max(1.0));
    let (begin, long) = (place(low), (place(high) - place(low)).max(1.5));
    format!(
        "<svg class=\"strip\" viewBox=\"0 0 {WIDTH} 16\" aria-hidden=\"true\"><rect class=\"wanted\" x=\"{wanted:.1}\" y=\"0\" width=\"{wide:.1}\" \
         height=\"16\"/><rect class=\"{class}\" x=\"{begin:.1}\" y=\"6\" width=\"{long:.1}\" height=\"4\"/><circle class=\"{class}\" cx=\"{:.1}\" \
         cy=\"8\" r=\"4\"/></svg>",
        place(median)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_on_one_scale_from_zero() {
        let row = |median, interval| Row { name: "a<b".into(), interval, median, expected: Some(0.5), colour: 9 };
        let drawn = intervals(&[row(1.0, Some((0.5, 1.0))), row(0.0, None)], "x");
        assert!(
            drawn.contains("<rect class=\"f1 band\" x=\"395.0\" y=\"7.0\" width=\"205.0\" height=\"12\"/>"),
            "{drawn}"
        );
        assert!(
            drawn.contains("cx=\"600.0\"") && drawn.contains("cx=\"190.0\"") && drawn.contains("a&lt;b"),
            "{drawn}"
        );
        assert!(!intervals(&[], "").contains("NaN"));
        // From -1 to 1: 0.5 is at three quarters.
        assert!(intervals(&[row(1.0, Some((-1.0, 1.0)))], "x").contains("x1=\"497.5\""));
    }

    #[test]
    fn a_strip_has_the_interval_beside_what_is_wanted() {
        let drawn = strip(1.0, (0.5, 1.5), (1.0, f64::INFINITY), "holds");
        // From 0.5 to 1.5 with a margin of 0.15 on both sides; the wanted range continues to the end.
        assert!(drawn.contains("class=\"wanted\" x=\"75.0\" y=\"0\" width=\"75.0\""), "{drawn}");
        assert!(
            drawn.contains("class=\"holds\" x=\"17.3\" y=\"6\" width=\"115.4\"") && drawn.contains("cx=\"75.0\""),
            "{drawn}"
        );
        assert!(!strip(1.0, (1.0, 1.0), (1.0, 1.0), "x").contains("NaN"));
    }
}
